"""One number that may lie anywhere in a range, released within a wider range and without bias: composite noise on a fixed grid.

Claim: epsilon-differentially private between any two values of [lower, upper]; the mean of a release is the value, exactly
[zhang2024, made private, exact and optimal; wang2019; duchi2018].
Proof: docs/proofs/composite.md.
Noise: one uniform number rounds the value to a grid; one below the total weight of a table of whole weights chooses the output, in a
mixture after a coin.
Floats: none before the release, which is one of a public list of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, final

from sordino.claims import Claim
from sordino.constraints import FINITE, Constraint, Number, exact, one_of, shown
from sordino.cost import Pure
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.mechanisms._composite_noise import CompositeNoise, designed
from sordino.mechanisms._range_grid import RangeGrid, checked_range
from sordino.mechanisms._statements import set_fields
from sordino.releases import Value, Values, parameters, pictured
from sordino.remnants import no_remnants
from sordino.sensitivity import Sensitivity

_MOMENTS = {"center": Fraction(0), "worst": None, "uniform": Fraction(1, 3)}


def _tuned(value: Any) -> str | Fraction | None:
    if isinstance(value, str):
        return value if value in _MOMENTS else None
    return _within(0, 1, 0, 1)(value)


def _within(low: int, high: int, *ends: int) -> Callable[[Any], Fraction | None]:
    """Return the conversion of numbers strictly between `low` and `high`, or equal to one of `ends`."""

    def convert(value: Any) -> Fraction | None:
        number = exact(value)
        return number if number is not None and (low < number < high or number in ends) else None

    return convert


ACTIVATION = one_of("rectangle", "sine", "triangle", "mixture")
BASE = one_of("constant", "quartic")
BUDGET = Constraint(
    "a number in (0, 20], beyond which the grid would decide how accurate a release is",
    _within(0, 20, 20),
    (1, 0.1, 20),
    (0, -1, 21, math.nan),
)
TUNED = Constraint(
    "'center', 'worst', 'uniform' or a number in [0, 1]", _tuned, ("worst", "uniform", 0.5), ("best", -1, 2, math.nan, None)
)
WIDTH = Constraint("a number in (0, 2)", _within(0, 2), (1, 0.5), (0, 2, -1, math.nan, "1"))
HUMP = Constraint("a number in [1, 16]", _within(1, 16, 1, 16), (1, 1.5), (0.5, 17, math.nan, "1"))


@final
@dataclass(frozen=True, init=False, repr=False)
class CompositeMechanism:
    """Release one number that may be anything between two public ends: bounded, unbiased, and private whatever it is.

    That is local privacy: each person reports one value of a public range. It also fits a query in the middle whose answer one unit can
    move from one end to the other. Where a unit moves the answer by less than that, `FoldedMechanism` is far more accurate; composite noise
    scaled to the sensitivity alone, as it was published, is not private there.

    Parameters
    ----------
    lower, upper : number
        Every value that the query can take lies between them, whatever the data. Values beyond are moved to the nearer one by rule.
    epsilon : number
        Budget, in (0, 20].
    activation : {"rectangle", "sine", "triangle", "mixture"}
        The bump over the value. "rectangle" is the best of the three at every value; "mixture" adds two far points with the probability
        that makes the worst variance least.
    base : {"constant", "quartic"}
        What lies under the bump. "quartic" is there to be compared with: its variance was larger wherever it was tried.
    tuned_for : {"center", "worst", "uniform"} or number
        Where the variance is to be least: in the middle of the range, at its worst, on average over the range, or on average over
        values with this mean of t², in [0, 1], t their distance from the middle in halves of the range.
    width : number, optional
        Width of the bump where outputs are 2 wide, in (0, 2), instead of the best one.
    hump : number, optional
        Height of a quartic base in the middle over that at its ends, in [1, 16]; 1.1 unless given.
    sensitivity : Sensitivity, optional
        A statement to be held against the range: it is refused if its bound is below `upper - lower`.

    Attributes
    ----------
    cost : Pure
        What one release, or one report, spends.
    output_range : tuple of float
        The smallest and the largest release, in the unit of the values.
    noise : CompositeNoise
        The whole weights, on the grid.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, `upper` is not above `lower`, or the statement is about a smaller move.

    Examples
    --------
    >>> import sordino as sd
    >>> age = sd.CompositeMechanism(lower=0, upper=100, epsilon=1, activation="mixture")
    >>> round(age.variance(at=50) / 50**2, 3), round(age.variance(at=0) / 50**2, 3)
    (4.267, 4.267)
    >>> low, high = age.output_range
    >>> low <= age.release(37, entropy=sd.Seeded(7)).value <= high
    True
    """

    lower: Number
    upper: Number
    epsilon: Number
    activation: Literal["rectangle", "sine", "triangle", "mixture"]
    base: Literal["constant", "quartic"]
    tuned_for: str | Number
    width: Number | None
    hump: Number | None
    sensitivity: Sensitivity | None
    noise: CompositeNoise = field(init=False)
    cost: Pure = field(init=False)

    def __init__(
        self,
        *,
        lower: Number,
        upper: Number,
        epsilon: Number,
        activation: Literal["rectangle", "sine", "triangle", "mixture"] = "rectangle",
        base: Literal["constant", "quartic"] = "constant",
        tuned_for: str | Number = "worst",
        width: Number | None = None,
        hump: Number | None = None,
        sensitivity: Sensitivity | None = None,
    ) -> None:
        checked_range(lower, upper, sensitivity, "CompositeMechanism")
        budget: Fraction = BUDGET("CompositeMechanism.epsilon", epsilon)
        ACTIVATION("CompositeMechanism.activation", activation)
        BASE("CompositeMechanism.base", base)
        wanted = TUNED("CompositeMechanism.tuned_for", tuned_for)
        if base == "constant" and hump is not None:
            raise InvalidParameter(f"CompositeMechanism.hump must be None with a constant base; got {shown(hump)}.")
        if base == "quartic" and activation == "mixture":
            raise InvalidParameter("CompositeMechanism.base must be 'constant' in a mixture; got 'quartic'.")
        tall = Fraction(1) if base == "constant" else HUMP("CompositeMechanism.hump", Fraction(11, 10) if hump is None else hump)
        wide = None if width is None else WIDTH("CompositeMechanism.width", width)
        moment = _MOMENTS[wanted] if isinstance(wanted, str) else wanted
        set_fields(self, lower=lower, upper=upper, epsilon=epsilon, activation=activation, base=base, tuned_for=tuned_for)
        noise = designed(activation, epsilon=budget, hump=tall, tuned_for=moment, width=wide)
        set_fields(self, width=width, hump=hump, sensitivity=sensitivity, noise=noise, cost=Pure(epsilon=budget))

    def __repr__(self) -> str:
        return pictured(self, parameters(self))

    @property
    def exact(self) -> bool:
        """True: the law enumerated in the audit is the law that is sampled."""
        return True

    @cached_property
    def grid(self) -> RangeGrid:
        """The range in cells: what releases and variances are computed with."""
        return RangeGrid(noise=self.noise, low=FINITE("lower", self.lower), high=FINITE("upper", self.upper))

    @property
    def output_range(self) -> tuple[float, float]:
        """The smallest and the largest release, in the unit of the values."""
        return self.grid.output_range

    @property
    def parameters(self) -> dict[str, float]:
        """What the density looks like where outputs are 2 wide.

        `width` and `height` of the bump, `center` and `floor` of the base, `mass` of the bump; `H1` and `H2`, the rates of [zhang2024] in
        the middle; `share`, the probability of base and bump in a mixture.
        """
        return self.noise.shape

    def variance(self, *, at: Number) -> float:
        """Return the variance of a release whose value is `at`, in squared units of the values: exact, rounded once.

        Raises
        ------
        InvalidParameter
            If `at` does not lie between `lower` and `upper`.
        """
        return self.grid.variance(at, "CompositeMechanism")

    @no_remnants
    def release(self, value: Any, *, entropy: Entropy = SYSTEM) -> Value:
        """Release one private value, with fresh noise.

        Returns
        -------
        Value
            With the largest standard error over the range: the true one would tell where the value lies.

        Raises
        ------
        InvalidParameter
            If it is a list: `reports` releases one value for each person.
        """
        fresh_entropy(entropy, "CompositeMechanism.release")
        released, error = self.grid.one(value, entropy, "CompositeMechanism")
        return Value(value=released, standard_error=error, mechanism=self, cost=self.cost, simulated=entropy.simulated)

    @no_remnants
    def reports(self, values: Any, *, entropy: Entropy = SYSTEM) -> Values:
        """Release one report for each of the private `values`, shape (n,), each with its own noise: local privacy.

        Each report spends `cost`. A person whose values are in r rows spends r times as much. The number of reports and their order are
        public.

        Raises
        ------
        InvalidParameter
            If the values are not a list of at least one number.
        """
        fresh_entropy(entropy, "CompositeMechanism.reports")
        released, error = self.grid.many(values, entropy, "CompositeMechanism")
        return Values(values=released, standard_error=error, mechanism=self, cost=self.cost, simulated=entropy.simulated)


CLAIMS = (
    Claim(
        name="CompositeMechanism",
        statement="A release is epsilon-private between any two values that the query can take.",
        references=("zhang2024", "wang2019", "duchi2018"),
        proof="composite.md",
        neighbours=(
            (CompositeMechanism(lower=-1, upper=1, epsilon=1), (-1,), (1,)),
            (CompositeMechanism(lower=0, upper=10, epsilon=2), (0.3,), (8.1,)),
            (CompositeMechanism(lower=0, upper=10, epsilon=0.5, activation="sine"), (0,), (10,)),
            (CompositeMechanism(lower=0, upper=1, epsilon=1, activation="mixture"), (0,), (1,)),
        ),
        tight=True,
    ),
)
