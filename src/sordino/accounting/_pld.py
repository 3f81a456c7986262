"""What dp_accounting makes of costs: loss distributions of a fixed batch, and its events.

In a distribution every part enters through its own dominating pair and losses are rounded up. The
package sums by fast Fourier transforms and does not round their error up; where it was measured it
was at most 3e-13 in delta. So `SLACK` is added to every delta, which is a margin and no proof. This
is a reference, and no epsilon of this library rests on it. Distributions do not go through events:
the accountant of events ignores the count of randomized response.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.accounting.parts import Parts, count_parts, total_of
from sordino.constraints import POSITIVE, Number, shown
from sordino.cost import (
    RDP,
    Approximate,
    ApproximateZCDP,
    BoundedRange,
    Cost,
    GumbelStage,
    Pure,
    RandomizedChoice,
    Range,
)
from sordino.cost.base import order_parts
from sordino.cost.conversion import checked_delta, checked_epsilon, digits, round_down, round_up
from sordino.cost.loss_law import (
    LARGEST,
    find_grid,
    find_turning,
    name_intervals,
    stage_masses,
    turning_masses,
    turns,
)
from sordino.cost.randomized_choice import choice_masses
from sordino.cost.rdp import steps_of
from sordino.cost.rho import laplace_rho
from sordino.errors import InvalidParameter, UnsupportedBackend

SLACK = 1e-11  # more than the sums of dp_accounting were seen to lose in delta
_TURNING_CELLS = (
    1 << 11
)  # of all intervals that turn together: their losses are rounded to the interval anyway
_STAGE_CELLS = 1 << 7  # of the law of a stage, on each side of no loss
_WITH_LAW = Pure | Range | BoundedRange | Approximate | GumbelStage | RandomizedChoice
MISSING = "dp-accounting is not installed; install sordino[dp-accounting]"


def dp_accounting(module: str, caller: str) -> Any:
    """Return a module of dp_accounting, or raise `UnsupportedBackend` with the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnsupportedBackend(f"{caller}: {MISSING}.") from error


@final
@dataclass(frozen=True, eq=False, repr=False)
class LossDistribution:
    """The privacy loss distribution of a fixed batch; make it with `pld`.

    Examples
    --------
    >>> from sordino import accounting, cost
    >>> batch = accounting.pld([cost.Approximate(epsilon=1, delta=1e-7)])
    >>> batch.epsilon(0)
    inf
    """

    distribution: Any
    interval: float

    def __repr__(self) -> str:
        return f"LossDistribution(interval={self.interval:g})"

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at `delta` in [0, 1), rounded up by the interval.

        It is inf if there is none, or if delta is at most 1e-11.
        """
        # A part of delta is kept back for what the sums may have lost.
        left = round_down(checked_delta(delta) - Fraction(repr(SLACK)))
        return (
            max(0.0, float(self.distribution.get_epsilon_for_delta(left))) if left > 0 else math.inf
        )

    def delta(self, epsilon: float) -> float:
        """Return a delta at `epsilon` in [0, inf].

        It is that of dp_accounting and 1e-11, for what its sums may have lost.
        """
        found = float(self.distribution.get_delta_for_epsilon(round_down(checked_epsilon(epsilon))))
        # If the sum came out as NaN, which is not at most 1, nothing is known: delta is 1.
        return min(1.0, max(found, 0.0) + SLACK) if found <= 1 else 1.0


def pld(costs: Any, *, interval: Number = 1e-4) -> LossDistribution:
    """Return the privacy loss distribution of a batch of costs by dp_accounting, as a reference.

    Its deltas carry a margin of 1e-11 for sums that dp_accounting does not round up; the margin is
    measured and not proved.

    Parameters
    ----------
    costs : list of costs or mechanisms
        Fixed in advance. Pure, Range, BoundedRange, RandomizedChoice and Approximate have a
        dominating pair. For a GumbelStage no least one is known: it gets one whose deltas lie a
        little above its own. An RDP with a pure epsilon has that of the epsilon; ZCDP and other RDP
        have none and are refused.
    interval : number
        In (0, 1], in nats: losses are rounded up to its multiples. A tenth of it takes about ten
        times as long.

    Raises
    ------
    InvalidParameter
        If a cost has no dominating pair, or the losses reach over more than 10^7 intervals.
    UnsupportedBackend
        If dp-accounting is not installed.

    Examples
    --------
    >>> from sordino import accounting, cost
    >>> batch = accounting.pld([cost.Pure(epsilon=0.1)] * 20)
    >>> round(batch.epsilon(1e-6), 4)
    1.7886
    """
    width = POSITIVE("pld.interval", interval)
    if width > 1:
        raise InvalidParameter(f"pld.interval must be a number in (0, 1]; got {shown(interval)}.")
    return distribution_of(count_parts(total_of(costs, "pld")), width, "pld")


def distribution_of(parts: Parts, width: Fraction, caller: str) -> LossDistribution:
    """Return the distribution of the parts of a batch."""
    parts = _name_laws(parts)
    for part, _ in parts:
        if not isinstance(part, _WITH_LAW):
            raise InvalidParameter(
                f"{caller} needs costs with a dominating pair; {type(part).__name__} states a "
                "curve and has none."
            )
    reach = _largest_total_loss(parts)
    # Memory and time grow with the number of intervals.
    if reach / width > 10**7:
        raise InvalidParameter(
            f"{caller} sums losses over at most 10^7 intervals; got {digits(reach, 6)} nats. Use a "
            "larger interval or fewer costs."
        )
    library = dp_accounting("dp_accounting.pld.privacy_loss_distribution", caller)
    texts = {
        part.orientation
        for part, _ in parts
        if isinstance(part, Range) and part.orientation is not None
    }
    # Parts are ordered alike only if there is one text; with several, the order of each may turn.
    aligned = texts if len(texts) == 1 else set()
    sums = [
        _compose_with_itself(_distribution_of_part(part, width), count)
        for part, count in order_parts(parts)
        if not turns(part, aligned)
    ]
    turning = sorted(find_turning(parts, aligned).items())
    sums += [_distribution_of_turning(*ends, count, width) for ends, count in turning]
    # In pairs of about equal length: one after the other would take the square of their number.
    while len(sums) > 1:
        sums = [
            sums[i].compose(sums[i + 1]) if i + 1 < len(sums) else sums[i]
            for i in range(0, len(sums), 2)
        ]
    return LossDistribution(sums[0] if sums else library.identity(float(width)), float(width))


def work_of(parts: Parts, width: Fraction) -> Fraction:
    """Return about how many intervals all sums of a batch have together.

    0 if a part has no finite loss.
    """
    named = _name_laws(parts)
    if not all(isinstance(part, _WITH_LAW) for part, _ in named):
        return Fraction(0)
    return 2 * _largest_total_loss(named) / width * (1 + len(named).bit_length())


def _name_laws(parts: Parts) -> Parts:
    """Return the parts, each curve or stage without a law of its own replaced.

    In its place stands the interval of its loss.
    """
    named: Counter[Cost] = Counter()
    for part, count in name_intervals(parts, stages=False):
        known: Cost = part
        if isinstance(part, GumbelStage) and stage_masses(part, _STAGE_CELLS) is None:
            known = part.interval
        named[known] += count
    return frozenset(named.items())


def _largest_total_loss(parts: Parts) -> Fraction:
    """Return the sum of the largest losses of parts that do not fail."""
    ends = (
        (part.epsilon_ if isinstance(part, Approximate) else Fraction(part.pure()), count)
        for part, count in parts
    )
    return sum((end * count for end, count in ends), Fraction(0))


def _compose_with_itself(distribution: Any, count: int) -> Any:
    return distribution if count == 1 else distribution.self_compose(count)


def _distribution_of_part(part: Cost, width: Fraction) -> Any:
    """Return the distribution of a part that does not turn.

    It comes from the constructor of dp_accounting that fits.
    """
    library = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    step = float(width)
    if isinstance(part, BoundedRange):
        return library.PrivacyLossDistribution(_bounded_range_distribution(part.epsilon_, width))
    if isinstance(part, RandomizedChoice):
        rate = round_up(part.epsilon_)
        return _distribution_of_points((-rate, 0.0, rate), choice_masses(rate, part.choices), step)
    if isinstance(part, GumbelStage):
        known = stage_masses(part, _STAGE_CELLS) or ()  # there is one: `_name_laws`
        cell = part.pure() / _STAGE_CELLS
        losses = [round_up(cell * place) for place in range(-_STAGE_CELLS, _STAGE_CELLS + 1)]
        return _distribution_of_points(losses, known, step)
    if not isinstance(part, Range):
        pair = (part.epsilon_, part.delta_) if isinstance(part, Approximate) else (part.pure(), 0)
        common = importlib.import_module("dp_accounting.pld.common")
        return library.from_privacy_parameters(
            common.DifferentialPrivacyParameters(*map(round_up, pair)), step
        )
    # Its order is known, or both ends are equal.
    low, high = round_up(part.low), round_up(part.high)
    # Masses by their logarithms, because the smaller one may leave the floats.
    whole = math.log(-math.expm1(-(low + high)))
    upper = {
        high: math.log(-math.expm1(-low)) - whole,
        -low: -low + math.log(-math.expm1(-high)) - whole,
    }
    return _distribution_of_losses(upper, step, symmetric=low == high)


def _distribution_of_turning(other: Fraction, top: Fraction, count: int, width: Fraction) -> Any:
    """Return the distribution of all intervals with ends `other` < `top` whose order may turn."""
    step = float(width)
    grid = (
        find_grid(other, top, count, _TURNING_CELLS)
        if count > 1 and count * top < LARGEST
        else None
    )
    if grid is not None:
        masses = turning_masses(top, count, grid)
        reach = count * grid.most
        cell = top / grid.most
        losses = [round_up(cell * place) for place in range(-reach, reach + 1)]
        return _distribution_of_points(losses, masses, step)
    low, high = round_up(other), round_up(top)
    # Both mirror images at once: with some probability nothing is learned, else randomized response
    # of the larger end.
    whole = math.log(-math.expm1(-(low + high)))
    at_high = math.log(-math.expm1(-low)) - whole
    nothing = -low + math.log(-math.expm1(low - high)) - whole if low < high else -math.inf
    upper = {high: at_high, 0.0: nothing, -high: at_high - high}
    one = _distribution_of_losses(upper, step, symmetric=True)
    return _compose_with_itself(one, count)


def _distribution_of_points(losses: Sequence[float], masses: Sequence[float], step: float) -> Any:
    """Return the distribution of a law that is its own mirror image, by its losses and masses."""
    listed = zip(losses, masses, strict=True)
    return _distribution_of_losses(
        {loss: math.log(mass) for loss, mass in listed if mass > 0}, step, symmetric=True
    )


def _distribution_of_losses(upper: dict[float, float], step: float, *, symmetric: bool) -> Any:
    """Return the distribution with logarithms of masses under the first law, by their losses."""
    library = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    lower = {loss: log_mass - loss for loss, log_mass in upper.items()}
    return library.from_two_probability_mass_functions(
        lower, upper, value_discretization_interval=step, symmetric=symmetric
    )


def _bounded_range_distribution(width: Fraction, interval: Fraction) -> Any:
    """Return the chords of the bounded-range curve between multiples of `interval`.

    Its width is rounded up to one of them.
    """
    import numpy as np  # noqa: PLC0415  (accounting loads nothing until there is something to sum)

    steps, step = math.ceil(width / interval), float(interval)
    # The masses under "Chords" on the proof page, with two cells for each step.
    scale = 2 * math.tanh(step / 4) / -math.expm1(-steps * step)
    masses = scale * np.exp(step / 2 * np.arange(-2 * steps, 1))  # at -steps, ..., steps
    masses[[0, -1]] /= 2
    pmf = importlib.import_module("dp_accounting.pld.pld_pmf")
    return pmf.DensePLDPmf(step, -steps, masses, 0.0, True)


def to_dp_events(costs: Any) -> Any:
    """Return a `ComposedDpEvent` that stands for a fixed batch of costs.

    Account for it with `NeighboringRelation.REPLACE_ONE`, whatever your own neighbors are: the
    events only carry numbers. Pure costs become randomized response, listed one by one, because
    `PLDAccountant` ignores counts of it; under `REPLACE_SPECIAL` it would report too little, and
    Laplace noise is no stand-in for a pure cost. All other costs become (xi, rho)-zCDP events,
    which only `RdpAccountant` takes.

    Parameters
    ----------
    costs : list of costs or mechanisms
        Fixed in advance, at most 10^5 pure ones.

    Raises
    ------
    InvalidParameter
        If a cost has a delta of its own or no line that bounds its curve: there is no event for it.
    UnsupportedBackend
        If dp-accounting is not installed.

    Examples
    --------
    >>> import dp_accounting
    >>> from sordino import accounting, cost
    >>> event = accounting.to_dp_events([cost.Pure(epsilon=0.1)] * 20)
    >>> relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    >>> accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation)
    >>> round(float(accountant.compose(event).get_epsilon(1e-6)), 3)
    1.861
    """
    library = dp_accounting("dp_accounting", "to_dp_events")
    parts = order_parts(count_parts(total_of(costs, "to_dp_events")))
    # One by one, because `PLDAccountant` ignores the count of randomized response.
    if sum(count for part, count in parts if isinstance(part, Pure)) > 10**5:
        raise InvalidParameter(
            "to_dp_events lists at most 10^5 pure costs one by one; got more. Use "
            "compose(...).epsilon(delta)."
        )
    events: list[Any] = []
    for part, count in parts:
        if isinstance(part, Pure):
            events += [
                library.RandomizedResponseDpEvent(_random_answer_share(round_up(part.epsilon_)), 2)
            ] * count
        else:
            slope, level = _bounding_line(part)
            events.append(
                library.ZCDpEvent(rho=round_up(count * slope), xi=round_up(count * level))
            )
    return library.ComposedDpEvent(events)


def _random_answer_share(epsilon: float) -> float:
    """Return the share of answers that randomized response draws anew, rounded down.

    The share is 2/(1 + e^epsilon).
    """
    # Down, because less noise costs more; and by e^-epsilon, which never overflows.
    return 2 * math.exp(-epsilon) / (1 + math.exp(-epsilon)) * (1 - 1e-15)


def _bounding_line(part: Cost) -> tuple[Any, Any]:
    """Return slope and level of a line in the order that bounds the curve of one part."""
    if isinstance(part, RDP) and part.choices == 1 and not part.table:
        # Laplace noise is at most its rho times the order, so that the curve lies below a line.
        noise = 0 if part.laplace is None else laplace_rho(part.laplace, steps_of(part))
        return part.rho + noise, part.constant
    if isinstance(part, Approximate | ApproximateZCDP) or part.zcdp() == math.inf:
        raise InvalidParameter(
            f"dp_accounting has no event for {part!r}; use accounting.pld or "
            "compose(...).epsilon(delta)."
        )
    return part.zcdp(), 0
