"""The composite mechanism: a number of a public range, released without bias within a wider one.

Its noise has a base and a bump over the value, both whole weights on a fixed grid.

Claim: epsilon-differentially private between any two values of [lower, upper]; the mean of a
release is the value, exactly [zhang2024, made private, exact and optimal; wang2019; duchi2018].
Proof: docs/proofs/composite.md. Noise: one uniform number rounds the value to a grid; one below the
total weight of a table of whole weights chooses the output, in a mixture after a coin. Floats: none
before the release, which is one of a public list of floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import ClaimsAbout
from sordino.constraints import (
    PROPORTION,
    Constraint,
    Number,
    OrNone,
    accept_if,
    one_of,
    shown,
    to_fraction,
)
from sordino.cost import Pure
from sordino.declared import derived, parameter
from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.grid import KEPT
from sordino.mechanisms.base import ANY_STATEMENT
from sordino.mechanisms.bounded.perturbation import Activation, Cells, Perturbation, TwoPoints
from sordino.mechanisms.bounded.random_rounding import largest_between
from sordino.mechanisms.bounded.range_mechanism import RangeMechanism, check_range
from sordino.noise.probability import contexts, exp_bounds
from sordino.sensitivity import Sensitivity

_MOMENTS = {"center": Fraction(0), "worst": None, "uniform": Fraction(1, 3)}


def _convert_tuning(value: Any) -> str | Fraction | None:
    """Return a word that is known as it is and a number in [0, 1] as a fraction, else None."""
    if isinstance(value, str):
        return value if value in _MOMENTS else None
    number: Fraction | None = PROPORTION.convert(value)
    return number


BUDGET = Constraint(
    "a number in (0, 20], beyond which the grid would decide how accurate a release is",
    accept_if(lambda number: 0 < number <= 20),
    (1, 0.1, 20),
    (0, -1, 21, math.nan),
)
TUNED = Constraint(
    "'center', 'worst', 'uniform' or a number in [0, 1]",
    _convert_tuning,
    ("worst", "uniform", 0.5),
    ("best", -1, 2, math.nan, None),
)
WIDTH = Constraint(
    "a number in (0, 2)",
    accept_if(lambda number: 0 < number < 2),
    (1, 0.5),
    (0, 2, -1, math.nan, "1"),
)
# The hump of a quartic base, unless another one is given.
_DEFAULT_HUMP = Fraction(11, 10)
HUMP = Constraint(
    "a number in [1, 16]",
    accept_if(lambda number: 1 <= number <= 16),
    (1, 1.5),
    (0.5, 17, math.nan, "1"),
)


@final
class CompositeMechanism(RangeMechanism):
    """Release a number that may be anything between two public ends: bounded, unbiased and private.

    That is local privacy: each person reports one value of a public range. It also fits a query in
    the middle whose answer one unit can move from one end to the other. Where a unit moves the
    answer by less than that, `FoldedMechanism` is far more accurate; composite noise scaled to the
    sensitivity alone, as it was published, is not private there.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, `upper` is not above `lower`, or the
        statement is about a smaller move.

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

    epsilon: Number = parameter(BUDGET, "Budget.")
    activation: Literal["rectangle", "sine", "triangle", "mixture"] = parameter(
        one_of("rectangle", "sine", "triangle", "mixture"),
        'The bump over the value. "rectangle" is the best of the three at every value; '
        '"mixture" adds '
        "two far points with the probability that makes the worst variance least.",
        default="rectangle",
    )
    base: Literal["constant", "quartic"] = parameter(
        one_of("constant", "quartic"),
        'What lies under the bump. "quartic" is there to be compared with: its variance '
        "was larger wherever it was tried.",
        default="constant",
    )
    tuned_for: str | Number = parameter(
        TUNED,
        "Where the variance is to be least: in the middle of the range, at its worst, on "
        "average over the range, or on average over values with this mean of t², in [0, 1], t "
        "their distance from the middle in halves of the range.",
        default="worst",
    )
    width: Number | None = parameter(
        OrNone(WIDTH),
        "Width of the bump where outputs are 2 wide, instead of the best one.",
        default=None,
    )
    hump: Number | None = parameter(
        OrNone(HUMP),
        "Height of a quartic base in the middle over that at its ends; 1.1 unless given.",
        default=None,
    )
    sensitivity: Sensitivity | None = parameter(
        OrNone(ANY_STATEMENT),
        "A statement to be held against the range: it is refused if its bound is below `upper - "
        "lower`.",
        default=None,
    )
    noise: CompositeNoise = derived("The whole weights, on the grid.")
    cost: Pure = derived("What one release, or one report, spends.")

    def derive(self) -> None:
        """Choose the weights and set the cost."""
        check_range(self.lower, self.upper, self.sensitivity, "CompositeMechanism")
        if self.base == "constant" and self.hump is not None:
            raise InvalidParameter(
                "CompositeMechanism.hump must be None with a constant base; got "
                f"{shown(self.hump)}."
            )
        if self.base == "quartic" and self.activation == "mixture":
            raise InvalidParameter(
                "CompositeMechanism.base must be 'constant' in a mixture; got 'quartic'."
            )
        quartic = _DEFAULT_HUMP if self.hump is None else to_fraction(self.hump)
        budget = to_fraction(self.epsilon)
        noise = designed(
            self.activation,
            epsilon=budget,
            hump=Fraction(1) if self.base == "constant" else quartic,
            tuned_for=_MOMENTS[self.tuned_for]
            if isinstance(self.tuned_for, str)
            else to_fraction(self.tuned_for),
            width=None if self.width is None else to_fraction(self.width),
        )
        # No ratio of whole weights exceeds e^epsilon, so the cost is what was asked for.
        self._set(noise=noise, cost=Pure(epsilon=budget))

    @property
    def parameters(self) -> dict[str, float]:
        """What the density looks like where outputs are 2 wide.

        `width` and `height` of the bump, `center` and `floor` of the base, `mass` of the bump; `H1`
        and `H2`, the rates of [zhang2024] in the middle; `share`, the probability of base and bump
        in a mixture.
        """
        return self.noise.shape


# ---- noise of the functions ----------------------------------------------------------------------
# Composite noise in cells of its grid: a perturbation function, or a mixture of one with two far
# points, all weights whole.
#
# Claim: between any two inputs no output's probability changes by more than the factor
# peak/floor <= e^epsilon, and the mean of an output is the input, exactly. Proof:
# docs/proofs/composite.md, "On the grid" and "Mixtures". Floats: they choose width and share, which
# are public parameters, before anything becomes a whole number.


REACH = 1000
"""Outputs are -REACH..REACH cells of the grid of outputs."""

_WEIGHT_BITS = 61  # all weights together lie below 2^61, which one word holds
_COIN_BITS = 32
_RATIO_DECIMALS = 60


@final
@dataclass(frozen=True, kw_only=True)
class CompositeNoise:
    """The law of the output for each input of -inputs..inputs, in cells.

    Outputs are numbered from 0 on: those of base and bump first, then the two far points.

    Attributes
    ----------
    bump : Perturbation
        Base and bump.
    share : Fraction
        Probability of base and bump, a multiple of 2^-32; two far points have the rest.
    """

    bump: Perturbation
    share: Fraction = Fraction(1)
    name: ClassVar[str] = "composite"

    @property
    def inputs(self) -> int:
        """The largest input."""
        return self.bump.inputs

    @cached_property
    def far(self) -> TwoPoints:
        """The two far points, for the same inputs."""
        return TwoPoints(inputs=self.bump.inputs, floor=self.bump.floor, peak=self.bump.peak)

    @cached_property
    def outputs(self) -> tuple[Fraction, ...]:
        """What each output stands for, in cells of the inputs; every mean is then the input."""
        reach = self.bump.reach
        near = tuple(j / self.bump.gain for j in range(-reach, reach + 1))
        return near if self.share == 1 else (*near, -1 / self.far.gain, 1 / self.far.gain)

    @property
    def farthest(self) -> Fraction:
        """The largest output that has a probability above 0, in cells of the inputs."""
        near = self.bump.reach / self.bump.gain if self.share else Fraction(0)
        return near if self.share == 1 else max(near, 1 / self.far.gain)

    def law(self, c: int) -> list[Fraction]:
        """Return the probability of each output for input `c`."""
        near = [self.share * weight / self.bump.total for weight in self.bump.weights(c)]
        return (
            near
            if self.share == 1
            else near
            + [(1 - self.share) * weight / self.far.total for weight in self.far.weights(c)]
        )

    def variance(self, square: Fraction, rounding: Fraction = Fraction(0)) -> Fraction:
        """Return the variance for an input with this square, in cells squared.

        With `rounding` it is that of a place with this square, rounded to an input at random with
        that variance.
        """
        gain = self.bump.gain
        # The second moment of an output rises with the square of the input: "Variance" on the proof
        # page.
        near = self.bump.spread / gain**2 + (1 / gain - 1) * (square + rounding)
        far = 1 / self.far.gain**2 - (square + rounding)
        return self.share * near + (1 - self.share) * far + rounding

    def variance_at(self, place: Fraction) -> Fraction:
        """Return the variance for a place between two inputs, in cells squared.

        That of rounding to them at random is included.
        """
        part = place - math.floor(place)
        return self.variance(place**2, part * (1 - part))

    @property
    def largest_variance(self) -> Fraction:
        """The largest variance over the whole range."""
        # The variance of an input is linear in its square, so it is largest next to the middle or
        # to an end.
        places = (0, self.inputs - 1)
        return max(
            largest_between(self.variance(Fraction(c**2)), self.variance(Fraction((c + 1) ** 2)))
            for c in places
        )

    def sample(self, inputs: Cells, entropy: Entropy) -> Cells:
        """Return the number of one output for each input, shape (n,)."""
        if self.share == 1:
            return self.bump.sample(inputs, entropy) + self.bump.reach
        coins = (entropy.words(inputs.size) >> np.uint64(64 - _COIN_BITS)).astype(np.int64)
        heads, near, far = coins < self.heads, np.zeros_like(inputs), np.zeros_like(inputs)
        # Each part is drawn only where the coin chose it.
        near[heads] = self.bump.sample(inputs[heads], entropy) + self.bump.reach
        far[~heads] = self.far.sample(inputs[~heads], entropy)
        return decide(coins, near, far, self)

    @property
    def heads(self) -> int:
        """How many of the 2^32 sides of a coin stand for base and bump."""
        # The share is a multiple of 2^-32, so nothing is rounded here.
        return int(self.share * (1 << _COIN_BITS))

    @property
    def shape(self) -> dict[str, float]:
        """The density of base and bump where outputs lie between -1 and 1.

        With it come the rates of [zhang2024, Section 4.3] in the middle, and the share.
        """
        bump, half = self.bump, Fraction(2 * self.bump.reach + 1, 2)
        (base, mass), rest = bump.masses, float(bump.hump - 1)
        near, far = (z + rest * (z - z**5 / 5) for z in (0.25, 0.75))
        return {
            "width": float(bump.width / half),
            "height": float(int(bump.bump.max()) * half / bump.total),
            "center": float(int(bump.base.max()) * half / bump.total),
            "floor": float(bump.floor * half / bump.total),
            "mass": float(bump.gain),
            "H1": base / mass,
            "H2": near / far,
            "share": float(self.share),
        }


def decide(coins: Cells, near: Cells, far: Cells, noise: CompositeNoise) -> Cells:
    """Return the numbers of outputs: `near` where the coin is below the share, else the far point.

    Coins are uniform below 2^32.
    """
    return np.where(coins < noise.heads, near, 2 * noise.bump.reach + 1 + (far + 1) // 2)


def designed(
    activation: Activation | Literal["mixture"],
    *,
    epsilon: Fraction,
    hump: Fraction,
    tuned_for: Fraction | None,
    width: Fraction | None,
) -> CompositeNoise:
    """Return the noise with the least variance.

    That is the variance at the worst input (None), or on average over inputs with this E[t^2].

    Raises
    ------
    InvalidParameter
        If epsilon is so small that whole weights cannot tell inputs apart.
    """
    floor, peak = _floor_and_peak(epsilon, hump)
    # Odd widths only: the bump must be symmetric around its input.
    widths = np.arange(1, 2 * REACH, 2) if width is None else np.array([_odd_width(width)])
    m, moment = 2.0 * widths / (2 * REACH + 1), None if tuned_for is None else float(tuned_for)
    if activation == "mixture":
        place, share = best_mixture(float(epsilon), moment, m)
    else:
        place, share = best_width(activation, float(hump), float(epsilon), moment, m), 1.0
    shape: Activation = "rectangle" if activation == "mixture" else activation
    bump = Perturbation(
        reach=REACH, width=int(widths[place]), floor=floor, peak=peak, activation=shape, hump=hump
    )
    # Rounded down to a side of the coin: what is stated is what is drawn.
    return CompositeNoise(
        bump=bump, share=Fraction(math.floor(share * (1 << _COIN_BITS)), 1 << _COIN_BITS)
    )


def _odd_width(width: Fraction) -> int:
    """Return the odd number of outputs whose width is next to this one."""
    return min(2 * REACH - 1, 2 * math.floor(width * (2 * REACH + 1) / 4) + 1)


def _floor_and_peak(epsilon: Fraction, hump: Fraction) -> tuple[int, int]:
    """Return the least and the largest weight.

    Whole numbers whose ratio is next to e^epsilon, from below.
    """
    down, _ = contexts(_RATIO_DECIMALS)
    # Rounded down from an upper bound of e^-epsilon, so it is at most e^epsilon for certain.
    ratio = Fraction(down.divide(1, exp_bounds(epsilon, _RATIO_DECIMALS)[1]))
    # As large as possible with all weights together below 2^61.
    floor = 1 << (_WEIGHT_BITS - ((2 * REACH + 1) * math.ceil(ratio + hump) * 2).bit_length())
    peak = math.floor(floor * ratio)
    # Rounding to whole weights may cost no more than a thousandth of epsilon.
    if math.log1p((peak - floor) / floor) < KEPT * epsilon:
        raise InvalidParameter(
            "CompositeMechanism.epsilon must be so large that whole weights below "
            f"2^{_WEIGHT_BITS} can tell inputs apart, about 1e-10; got {float(epsilon):.3g}. Raise "
            "epsilon."
        )
    return floor, peak


# ---- the search for the best function ------------------------------------------------------------
# The width of the bump, and the share of a mixture, with the least variance: closed forms, tried
# for all widths of the grid.
#
# Claim: `variances` is the variance of a composite mechanism in the limit of a fine grid. Proof:
# docs/proofs/composite.md, "Variance". Floats: throughout. They choose public parameters; the
# guarantee and the variance of what is chosen are computed in whole numbers.


Floats = NDArray[np.float64]

SHAPES = {
    "rectangle": (1.0, 1 / 12),
    "sine": (2 / math.pi, 1 / 4 - 2 / math.pi**2),
    "triangle": (1 / 2, 1 / 24),
}
"""Of each bump: its area over that of the rectangle around it, and its variance at width 1."""


class Parabola(NamedTuple):
    """The variance `at_center + slope t^2` at input t, -1 to 1 over the range, for many widths."""

    at_center: Floats
    slope: Floats


def variances(activation: str, hump: float, epsilon: float, m: Floats) -> Parabola:
    """Return the variance where outputs lie in -1..1 and the bump has width `m` < 2.

    Its unit is the square of half the range of the inputs.
    """
    area, scatter = SHAPES[activation]
    height = math.expm1(epsilon)
    base, second = (8 * hump + 2) / 5, 8 * hump / 21 + 2 / 7  # of 1 + (hump - 1)(1 - x^4)
    total = base + area * height * m
    mass = area * height * m / total
    # Inputs reach as far as the bump fits, and outputs are divided by the gain.
    inputs = mass * (1 - m / 2)
    return Parabola((second / total + mass * scatter * m**2) / inputs**2, 1 / mass - 1)


def two_points(epsilon: float, m: Floats) -> Parabola:
    """Return the variance of two points, one for each width."""
    square = (1 / math.tanh(epsilon / 2)) ** 2
    return Parabola(np.full_like(m, square), np.full_like(m, -1.0))


def mixed(one: Parabola, other: Parabola, share: Floats) -> Parabola:
    """Return the variance where `one` is used with probability `share`, else `other`."""
    # Both have the same mean, so the variances mix linearly.
    centers = share * one.at_center + (1 - share) * other.at_center
    return Parabola(centers, share * one.slope + (1 - share) * other.slope)


def objective(of: Parabola, tuned_for: float | None) -> Floats:
    """Return the variance at the worst input (None), or on average over inputs with this E[t^2]."""
    if tuned_for is None:
        return of.at_center + np.maximum(of.slope, 0)
    return of.at_center + tuned_for * of.slope


def best_width(
    activation: str, hump: float, epsilon: float, tuned_for: float | None, m: Floats
) -> int:
    """Return the position in `m` of the best width."""
    return int(np.argmin(objective(variances(activation, hump, epsilon, m), tuned_for)))


def best_mixture(epsilon: float, tuned_for: float | None, m: Floats) -> tuple[int, float]:
    """Return the position in `m` of the best width, and the share of the rectangle.

    The objective is linear in the share on either side of the one at which the variance has no
    slope. So the best share is that one, 0 or 1.
    """
    one, other = variances("rectangle", 1.0, epsilon, m), two_points(epsilon, m)
    # The last of the three is the share at which the variance is the same for every input.
    shares = np.stack([np.ones_like(m), np.zeros_like(m), 1 / (1 + one.slope)])
    found = np.stack([objective(mixed(one, other, share), tuned_for) for share in shares])
    which, place = np.unravel_index(int(np.argmin(found)), found.shape)
    return int(place), float(shares[which, place])


_claim = ClaimsAbout("CompositeMechanism", proof="composite.md")
CLAIMS = (
    _claim(
        "A release is epsilon-private between any two values that the query can take.",
        ("zhang2024", "wang2019", "duchi2018"),
        (CompositeMechanism(lower=-1, upper=1, epsilon=1), (-1,), (1,)),
        (CompositeMechanism(lower=0, upper=10, epsilon=2), (0.3,), (8.1,)),
        (CompositeMechanism(lower=0, upper=10, epsilon=0.5, activation="sine"), (0,), (10,)),
        (CompositeMechanism(lower=0, upper=1, epsilon=1, activation="mixture"), (0,), (1,)),
        tight=True,
    ),
)
