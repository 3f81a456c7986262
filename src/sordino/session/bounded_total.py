"""Releases a sum, or a mean of a public number of records, without bias, within a declared range.

No private clip is looked for.

Claim: the sum of clipped records moves between neighbors by what `apart` says, a mean by that over
the number of records; the mean of a release is that figure, exactly, wherever the figure lies in
the declared range. Proof: docs/proofs/bounded-figures.md. Noise: folded discrete Laplace, from
`FoldedMechanism`; one uniform number rounds the figure to its grid. Floats: none before the
release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, cast, final

import numpy as np

from sordino.columns import StepRange, Total
from sordino.constraints import FINITE, POSITIVE, SHARE, Constraint, Number, exact, shown
from sordino.cost import Cost, Pure
from sordino.entropy import Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.estimators import interval
from sordino.estimators.column_release import ColumnRelease
from sordino.figures import Derivable
from sordino.mechanisms import FoldedMechanism
from sordino.mechanisms.bounded.random_rounding import round_at_random
from sordino.releases import HasInterval, Value, parameters, short_repr
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Adjacency, Sensitivity

_BOUNDED_RECORD_BITS = (
    51  # of the larger end of a record: whole numbers up to there are counted as they are
)
_BOUNDED_SCALE_BITS = 20  # of the scale of the noise, or more
# Of what one unit moves, or more. Rounding it up to whole steps then costs less than a thousandth.
_BOUND_BITS = 10
_END_BITS = 51  # of the larger end of the figure, at most: released numbers are exact floats
_LEAST_RELATIVE_WIDTH = Fraction(1, 1 << 30)


def _accept_bounded_budget(value: object) -> Fraction | None:
    number = exact(value)
    return number if number is not None and Fraction(1, 10**5) <= number <= 10**6 else None


BUDGET = Constraint(
    "a number from 0.00001 to 1000000",
    _accept_bounded_budget,
    (1, 0.1, 10**6),
    (0, 1e-6, 10**7, math.nan, None),
)


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BoundedValue(Derivable, HasInterval, ColumnRelease):
    """A private sum or mean within a declared range: unbiased for every figure between `bounds`.

    Attributes
    ----------
    value : float
        The noisy sum or mean of the clipped records, in the unit of the values; on average it is
        that figure. `estimate` is the same.
    standard_error : float
        The largest standard deviation of a release over the range: the one at the figure would tell
        where it lies.
    interval : tuple of float
        Covers the figure with a probability of at least 95%, if it lies in the range; from the
        exact law of the noise. Its ends are `low` and `high` as well.
    clip : tuple of float
        The public ends that each record was moved into.
    bounds : tuple of float
        The declared range of the figure; one beyond counts as the nearer end.
    output_range : tuple of float
        The smallest and the largest number that could have been released: a little wider.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> hours = pl.DataFrame({"hours": [7, 8, 8, 9, 12] * 20})
    >>> session = sd.Session(hours, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> total = session.sum("hours", epsilon=1, lower=0, cap=24, bounds=(0, 2000))
    >>> low, high = total.output_range
    >>> [round(low), round(high)], low <= total.value <= high
    ([-24, 2024], True)
    """

    value: float
    standard_error: float
    interval: tuple[float, float]
    clip: tuple[float, float]
    bounds: tuple[float, float]
    output_range: tuple[float, float]

    def interval_at(self, *, confidence: Number) -> tuple[float, float]:
        """Return an interval of the figure at another confidence than 95%.

        Raises
        ------
        InvalidParameter
            If the confidence is not in (0, 1).
        """
        share = SHARE("BoundedValue.interval_at.confidence", confidence)
        shared = {"mechanism": self.mechanism, "cost": self.cost, "simulated": self.simulated}
        fresh = Value(value=self.value, standard_error=0.0, **shared)
        return _widen_ends(interval(fresh, confidence=share), self.mechanism, self.bounds)


class BoundedFigure(NamedTuple):
    """What a bounded total is computed from: private, but for the number of records of a mean."""

    total: Total
    records: int | None


@final
@dataclass(frozen=True, repr=False, kw_only=True)
class BoundedTotal:
    """How a sum or a mean is released within a declared range.

    Parameters
    ----------
    kind : {"sum", "mean"}
        A mean is over all records, and how many they are is public: each has a number. Should one
        have none all the same, 0, moved into the clip, keeps its place.
    epsilon : number
        Budget of the whole release.
    adjacency : {"add-remove", "replace-one"}
        What neighbors are; of a mean "replace-one".
    lower, cap : number
        Ends that each record is moved into, public. Of a sum `lower` is at most 0 and `cap` above
        0.
    bounds : tuple of number
        The declared range of the figure, public.
    rows_per_unit : int
        How many records a unit has at most.
    """

    kind: Literal["sum", "mean"]
    epsilon: Number
    adjacency: Adjacency
    lower: Number
    cap: Number
    bounds: tuple[Number, Number]
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        BUDGET(f"{self.kind}.epsilon with bounds", self.epsilon)
        lower, cap = FINITE(f"{self.kind}.lower", self.lower), FINITE(f"{self.kind}.cap", self.cap)
        if cap <= lower:
            raise InvalidParameter(
                f"{self.kind}.cap must be above lower, {shown(lower)}; got {shown(cap)}."
            )
        if self.kind == "sum":
            POSITIVE("sum.cap", cap)
            if lower > 0:
                raise InvalidParameter(
                    "sum.lower must be at most 0, because a sum gains nothing from more; got "
                    f"{shown(lower)}."
                )
        low, high = (FINITE(f"{self.kind}.bounds", end) for end in self.bounds)
        if high - low < max(abs(low), abs(high)) * _LEAST_RELATIVE_WIDTH:
            raise InvalidParameter(
                f"{self.kind}.bounds must be apart by 2^-30 of the larger one, at least; got "
                f"{shown(low)} and {shown(high)}."
            )
        if self.kind == "sum" and self.apart > high - low:
            raise InvalidParameter(
                "sum.bounds must be at least as far apart as one person can move the sum, "
                f"{shown(self.apart)}; got {shown(low)} and {shown(high)}. Widen them, or lower "
                "the cap or max_rows."
            )
        _ = self.records  # what is too fine or too coarse is refused now
        _ = self.noise(1)

    def __repr__(self) -> str:
        return short_repr(self, parameters(self))

    @cached_property
    def records(self) -> StepRange:
        """Where each record is moved to, and in which steps it is counted."""
        lower, cap = FINITE("lower", self.lower), FINITE("cap", self.cap)
        # The larger end has fewer than 2^51 steps, so that whole numbers up to there are counted as
        # they are.
        step = _power_of_two_below(max(abs(lower), abs(cap)) / (1 << (_BOUNDED_RECORD_BITS - 1)))
        if not Fraction(1, 1 << 800) <= step <= 1 << 800:
            raise InvalidParameter(
                f"{self.kind}.cap and lower must lie within 2^800, and not within 2^-700. Change "
                "the unit."
            )
        return StepRange(low=math.floor(lower / step), high=math.floor(cap / step), step=step)

    @property
    def apart(self) -> Fraction:
        """How far the sums of neighbors can be apart, in the unit of the values."""
        low, high = self.records.low, self.records.high
        if self.kind == "mean":
            steps = high - low  # one record for another
        elif self.adjacency == "replace-one":
            # A unit may have no record that counts, so its sum may also be 0.
            steps = self.rows_per_unit * (max(0, high) - min(0, low))
        else:
            steps = self.rows_per_unit * max(-low, high)
        return steps * self.records.step

    @property
    def cost(self) -> Cost:
        """What a release spends: of a mean at most that."""
        # The number of records is not known before the charge, so a mean reserves the whole
        # epsilon.
        return (
            self.noise(1).cost
            if self.kind == "sum"
            else Pure(epsilon=BUDGET("epsilon", self.epsilon))
        )

    @property
    def exact(self) -> bool:
        """True: the law that is proved is the law that is sampled."""
        return True

    def noise(self, records: int) -> FoldedMechanism:
        """Return what releases the figure: of a sum, or of the mean of so many records.

        It exists for every number of them.
        """
        return _build_total_noise(self, records)

    @scrubbed
    def release(self, figure: BoundedFigure, *, entropy: Entropy) -> BoundedValue:
        """Release the private figure, with fresh noise.

        It never fails, whatever the number of records is.
        """
        fresh_entropy(entropy, "BoundedTotal.release")
        # The noise exists for every number of records, 0 counting as 1: nothing is refused after
        # the charge.
        records = 1 if figure.records is None else max(1, figure.records)
        ends, mechanism = self.records, self.noise(records)
        steps = figure.total.steps
        if figure.records is not None:
            # It was declared that every record has a number. 0 keeps the place of one that has
            # none.
            steps += figure.total.missing * max(ends.low, min(ends.high, 0))
        low, high = mechanism.ends
        # An exact fraction, however large the sum is.
        answer = np.array([Fraction(steps) * ends.step / records], dtype=object)
        # Rounding at random to the grid of the noise keeps the mean of the release at the figure.
        place = low + int(
            round_at_random(answer, low * mechanism.step, mechanism.step, high - low, entropy)[0]
        )
        fresh = cast("Value", mechanism.release(place * mechanism.step, entropy=entropy))
        step, bounds = float(mechanism.step), tuple(float(end) for end in self.bounds)
        return BoundedValue(
            value=fresh.value,
            # Random rounding has a standard deviation of at most half a step.
            standard_error=math.hypot(fresh.standard_error, step / 2),
            interval=_widen_ends(interval(fresh), mechanism, (bounds[0], bounds[1])),
            clip=(float(self.lower), float(self.cap)),
            bounds=(bounds[0], bounds[1]),
            output_range=mechanism.output_range,
            mechanism=mechanism,
            cost=fresh.cost,
            simulated=fresh.simulated,
        )


def _widen_ends(
    covered: tuple[float, float], mechanism: FoldedMechanism, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Return the interval of a figure from that of the figure rounded to the grid of its noise."""
    # The rounded figure lies less than a step from the figure itself.
    step = float(mechanism.step)
    return max(bounds[0], float(covered[0]) - step), min(bounds[1], float(covered[1]) + step)


@lru_cache(maxsize=64)
def _build_total_noise(total: BoundedTotal, records: int) -> FoldedMechanism:
    low, high = (FINITE("bounds", end) for end in total.bounds)
    budget = BUDGET("epsilon", total.epsilon)
    # Figures are moved into the bounds, so no two of them are farther apart than those.
    bound = min(total.apart / records, high - low)
    finest = max(abs(low), abs(high)) / (1 << _END_BITS)
    wanted = min(bound / budget / (1 << _BOUNDED_SCALE_BITS), bound / (1 << _BOUND_BITS))
    # Fine against the noise and the bound, but so coarse that released numbers are exact floats.
    step = max(_power_of_two_below(wanted), 2 * _power_of_two_below(finest))
    statement = Sensitivity(
        bound=math.ceil(bound / step) * step, monotone=False, adjacency=total.adjacency, step=step
    )
    # The ends are moved outward, so that the declared range lies between them.
    ends = {"lower": math.floor(low / step) * step, "upper": math.ceil(high / step) * step}
    return FoldedMechanism(**ends, epsilon=budget, sensitivity=statement)


def _power_of_two_below(number: Fraction) -> Fraction:
    """Return the largest power of two that is at most a number above 0."""
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= number else power / 2
