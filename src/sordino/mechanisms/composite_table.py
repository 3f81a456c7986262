"""The composite mechanism with a table of weights that a linear program finds.

Like `CompositeMechanism` it releases one number from a public range without bias, within a wider
public range.

Claim: epsilon-differentially private between any two values of [lower, upper]; the mean of a
release is the value, exactly. Proof: docs/proofs/composite-table.md. Noise: one uniform number
rounds the value to one of a few inputs; one below the total weight chooses the output. Floats: none
before the release, which is one of a public list of floats; the program that proposes the table is
solved in floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import ClaimsAbout
from sordino.constraints import Constraint, Number, accept_if, to_fraction
from sordino.cost import Pure
from sordino.declared import parameter
from sordino.entropy import Entropy
from sordino.errors import InvalidParameter, UnsupportedBackend
from sordino.mechanisms.bounded.perturbation import Cells, read_only
from sordino.mechanisms.bounded.random_rounding import between, largest_between
from sordino.mechanisms.bounded.range_mechanism import RangeMechanism, check_range
from sordino.noise import uniform_below
from sordino.noise.probability import contexts, exp_bounds

BUDGET = Constraint(
    "a number in [0.1, 5]",
    accept_if(lambda number: Fraction(1, 10) <= number <= 5),
    (1, 0.1, 5),
    (0, 0.05, 6, -1, "1", None),
)
INPUTS = Constraint(
    "5 or 9",
    lambda value: int(value) if isinstance(value, Integral) and value in (5, 9) else None,
    (5, 9),
    (4, 7, "5", 5.0),
)


@final
class CompositeTable(RangeMechanism):
    """Release one number that may be anything between two public ends, with little variance.

    At the worst value the variance is nearly the least that is possible. It is used as
    `CompositeMechanism`, and private in the same cases. Values are rounded at random to a few
    inputs first. Its law has no formula: a linear program proposes whole weights, which are checked
    in whole numbers. That takes some tenths of a second at the first use of each epsilon, and scipy
    (`pip install 'sordino[tables]'`).

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or `upper` is not above `lower`.

    Examples
    --------
    >>> import sordino as sd
    >>> table = sd.CompositeTable(lower=0, upper=100, epsilon=1)
    >>> round(table.release(37, entropy=sd.Seeded(7)).standard_error / 50, 2)
    2.0
    """

    epsilon: Number = parameter(BUDGET, "Budget.")
    inputs: Literal[5, 9] = parameter(
        INPUTS,
        "To how many values of the range a value is rounded at random, the ends among them. "
        "With 5, and "
        'an epsilon above 3.3, a mixture (`CompositeMechanism(activation="mixture")`) has '
        "less variance.",
        default=9,
    )

    def derive(self) -> None:
        """Check the range; the table itself waits until somebody asks for it."""
        check_range(self.lower, self.upper, None, "CompositeTable")

    @cached_property
    def noise(self) -> TableNoise:
        """The whole weights, on the grid."""
        return designed_table(to_fraction(self.epsilon), self.inputs // 2)

    @cached_property
    def cost(self) -> Pure:
        """What one release, or one report, spends; asking for it makes the table."""
        # So that nothing is charged where no table can be made.
        _ = self.noise
        return Pure(epsilon=to_fraction(self.epsilon))

    @property
    def parameters(self) -> dict[str, float]:
        """How far outputs reach, and the largest variance.

        The unit is half of the range, or its square.
        """
        inputs = self.noise.inputs
        return {
            "reach": float(self.noise.farthest / inputs),
            "largest_variance": float(self.noise.largest_variance / inputs**2),
        }


# ---- the noise of a table ------------------------------------------------------------------------
# Composite noise without a formula: for each of a few inputs the weights that a linear program
# finds best, made whole and checked.
#
# Claim: between any two inputs no output's probability changes by more than the factor e^epsilon,
# and the mean of an output is the input, exactly: `checked` computes both in whole numbers before a
# table is used. Proof: docs/proofs/composite-table.md. Floats: the program is solved in floats;
# what it finds is a proposal.


Floats = NDArray[np.float64]

OUTPUTS = 6  # of the largest output, for each input above the middle
_TABLE_BITS = 40
_TABLE_DECIMALS = 60
_TABLE_SLACK = 1.05e-4  # share of epsilon that is left for rounding to whole weights
_PARTS_OF_A_CELL = (0.0, 0.25, 0.5, 0.75)
_REACH_FACTORS = np.linspace(
    1.01, 3, 24
)  # of the largest output, in units of the least one that is possible


@final
@dataclass(frozen=True)
class TableNoise:
    """Outputs -reach..reach, inputs -inputs..inputs.

    Attributes
    ----------
    rows : tuple of tuples of int
        Weights of the outputs, one row for each input, all rows with the same sum.
    gain : Fraction
        The mean output of input c is `gain * c`.
    """

    rows: tuple[tuple[int, ...], ...]
    gain: Fraction
    name: ClassVar[str] = "table"

    @property
    def inputs(self) -> int:
        """The largest input."""
        return len(self.rows) // 2

    @property
    def reach(self) -> int:
        """The largest output."""
        return len(self.rows[0]) // 2

    @property
    def total(self) -> int:
        """The weight of all outputs, the same for every input."""
        return sum(self.rows[0])

    @cached_property
    def outputs(self) -> tuple[Fraction, ...]:
        """What each output stands for, in cells of the inputs."""
        return tuple(j / self.gain for j in range(-self.reach, self.reach + 1))

    @property
    def farthest(self) -> Fraction:
        """The largest output that has a probability above 0, in cells of the inputs."""
        return max(
            abs(output) for output, weight in zip(self.outputs, self.rows[0], strict=True) if weight
        )

    def law(self, c: int) -> list[Fraction]:
        """Return the probability of each output for input `c`."""
        return [Fraction(weight, self.total) for weight in self.rows[c + self.inputs]]

    @cached_property
    def _variances(self) -> tuple[Fraction, ...]:
        """The variance for each input, in cells squared."""
        # In fractions of whole weights, so that what is published is exact.
        squares = [output**2 for output in self.outputs]
        inputs = range(-self.inputs, self.inputs + 1)
        return tuple(
            sum(map(Fraction.__mul__, self.law(c), squares), Fraction(0)) - c**2 for c in inputs
        )

    def variance_at(self, place: Fraction) -> Fraction:
        """Return the variance for a place between two inputs, in cells squared.

        That of rounding to them at random is included.
        """
        # The upper end has no next input: it counts as the end of the cell before it.
        low = min(math.floor(place), self.inputs - 1)
        here, there = self._variances[low + self.inputs : low + self.inputs + 2]
        return between(here, there, place - low)

    @property
    def largest_variance(self) -> Fraction:
        """The largest variance over the whole range."""
        return max(largest_between(here, there) for here, there in pairwise(self._variances))

    @cached_property
    def _edges(self) -> Cells:
        """The running sums of the weights, one row for each input."""
        return read_only(np.cumsum(np.array(self.rows, dtype=np.int64), axis=1))

    def decide(self, inputs: Cells, turns: Cells) -> Cells:
        """Return the numbers of the outputs, from 0 on.

        `turns` are whole numbers, uniform below the total weight.
        """
        found = np.empty(inputs.size, dtype=np.int64)
        for c, edges in enumerate(self._edges):
            here = np.flatnonzero(inputs == c - self.inputs)
            found[here] = np.searchsorted(edges, turns[here], side="right")
        return found

    def sample(self, inputs: Cells, entropy: Entropy) -> Cells:
        """Return the number of one output for each input, shape (n,)."""
        return self.decide(inputs, uniform_below(self.total, inputs.size, entropy))


def checked(noise: TableNoise, ratio: Fraction) -> TableNoise:
    """Return the table if it is private for this ratio and has the means that it says.

    All of it is computed in whole numbers and fractions. Otherwise it raises `InvalidParameter`.
    """
    places = range(-noise.reach, noise.reach + 1)
    # The proof rests on these checks alone: the program and the rounding only propose.
    private = all(
        min(column) >= 0 and max(column) <= ratio * min(column)
        for column in zip(*noise.rows, strict=True)
    )
    sums = all(sum(row) == noise.total for row in noise.rows)
    means = (sum(j * weight for j, weight in zip(places, row, strict=True)) for row in noise.rows)
    unbiased = all(
        mean == noise.gain * c * noise.total for c, mean in enumerate(means, -noise.inputs)
    )
    if private and sums and unbiased and 0 < noise.total < 1 << 62:
        return noise
    raise InvalidParameter(
        "CompositeTable.epsilon must be one for which a table can be made whole; this one cannot. "
        "Change it."
    )


@lru_cache(maxsize=32)
def designed_table(epsilon: Fraction, inputs: int) -> TableNoise:
    """Return the table with the least largest variance for `inputs` inputs above the middle.

    A few sizes of the largest output are tried.

    Raises
    ------
    UnsupportedBackend
        If scipy, which solves the linear programs, is not installed.
    """
    # A little less than epsilon, so that rounding to whole weights stays within it.
    budget = float(epsilon) * (1 - _TABLE_SLACK)
    least = 1 / math.tanh(budget / 2)  # of two points, in halves of the range
    gains = [Fraction(round(OUTPUTS / (least * float(far)) * 1024), 1024) for far in _REACH_FACTORS]
    solved = [
        (gain, *_solve_program(math.exp(budget), inputs, OUTPUTS * inputs, float(gain)))
        for gain in gains
    ]
    gain, _, weights = min(solved, key=lambda one: one[1])
    down, _ = contexts(_TABLE_DECIMALS)
    # Rounded down from an upper bound of e^-epsilon, so it is at most e^epsilon for certain.
    ratio = Fraction(down.divide(1, exp_bounds(epsilon, _TABLE_DECIMALS)[1]))
    return checked(_make_weights_whole(weights, gain, ratio), ratio)


def _solve_program(ratio: float, inputs: int, reach: int, gain: float) -> tuple[float, Floats]:
    """Return the least largest variance, and probabilities for the inputs 0..inputs, one row each.

    The variance is inf where there is no table. Variables: the probabilities, the least of each
    output over all inputs (which is symmetric), and the largest variance.
    """
    try:
        from scipy.optimize import linprog  # noqa: PLC0415  (an extra, and slow to load)
    except ImportError:
        raise UnsupportedBackend(
            "CompositeTable solves linear programs: install scipy (pip install 'sordino[tables]')."
        ) from None
    places, rows = np.arange(-reach, reach + 1), inputs + 1
    # The variables: a row of probabilities for each input, the least of each output, and the
    # largest variance.
    width, free = places.size, (inputs + 1) * places.size
    size = free + reach + 2

    def row(**parts: Any) -> Floats:
        made = np.zeros(size)
        for c, values in parts.items():
            made[int(c[1:]) * width : (int(c[1:]) + 1) * width] += values
        return made

    equal = [
        (row(**{f"p{c}": values}), target)
        for c in range(rows)
        for values, target in ((1, 1), (places, gain * c))
    ]
    # The row of the middle input is symmetric; those of the negative inputs are mirror images of
    # the others.
    equal += [(row(p0=(places == j) * 1.0 - (places == -j)), 0) for j in range(1, reach + 1)]
    below: list[tuple[Floats, float]] = []
    for c in range(rows):
        for i, j in enumerate(places.tolist()):
            # least <= probability <= ratio * least: between any two inputs the ratio is then kept.
            for sign, factor in ((1, ratio), (-1, 1)):
                made = np.zeros(size)
                made[c * width + i], made[free + abs(j)] = sign, -sign * factor
                below.append((made, 0))
    for c in range(rows):
        # Also at places between two inputs, where rounding adds a variance of its own.
        for share in _PARTS_OF_A_CELL if c < inputs else (0.0,):
            parts = {f"p{c}": (1 - share) * places**2} | (
                {f"p{c + 1}": share * places**2} if share else {}
            )
            made = row(**parts)
            made[-1] = -1
            mean = (1 - share) * c**2 + share * (c + 1) ** 2
            below.append((made, gain**2 * (mean - share * (1 - share))))
    cost = np.zeros(size)
    # What is made least is the largest variance, the last variable.
    cost[-1] = 1
    found = linprog(
        cost,
        A_ub=np.array([made for made, _ in below]),
        b_ub=[limit for _, limit in below],
        A_eq=np.array([made for made, _ in equal]),
        b_eq=[target for _, target in equal],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    # No such table was found: this size loses against every other one.
    if found.status:
        return math.inf, np.zeros((rows, width))
    return float(found.fun) / gain**2, found.x[:free].reshape(rows, width)


def _make_weights_whole(weights: Floats, gain: Fraction, ratio: Fraction) -> TableNoise:
    """Return whole weights next to these.

    They are cut where they exceed what the ratio allows, then moved between two heavy outputs of
    each row. The cut and the move are some 1e-9 of the total, the slack of the heavy outputs a
    thousand times that.
    """
    reach, scale = weights.shape[1] // 2, 1 << _TABLE_BITS
    upper = [[max(0, round(float(x) * scale)) for x in row] for row in weights]
    # The row of the middle input stays its own mirror image.
    upper[0] = [min(pair) for pair in zip(upper[0], upper[0][::-1], strict=True)]
    upper[0][reach] -= upper[0][reach] % 2
    rows = [row[::-1] for row in upper[:0:-1]] + upper
    least = [min(column) for column in zip(*rows, strict=True)]
    upper = [
        [min(x, math.floor(ratio * m)) for x, m in zip(row, least, strict=True)] for row in upper
    ]
    pairs = [_heavy_pair(least, c) for c in range(len(upper))]
    # All weights are multiplied by this number, so that the moves below are whole.
    times = math.lcm(gain.denominator, 2, *(b - a for a, b in pairs))
    total = times * scale
    moved = []
    for c, (row, (a, b)) in enumerate(zip(upper, pairs, strict=True)):
        made = [times * x for x in row]
        # Two heavy outputs take what is missing in the sum of the row, divided so that its mean is
        # exact.
        lost = total - sum(made)
        mean = int(gain * c * total) - sum((i - reach) * x for i, x in enumerate(made))
        second = (mean - (a - reach) * lost) // (b - a)
        made[a] += lost - second
        made[b] += second
        moved.append(made)
    return TableNoise(
        tuple(tuple(row) for row in [*(row[::-1] for row in moved[:0:-1]), *moved]), gain
    )


def _heavy_pair(least: list[int], c: int) -> tuple[int, int]:
    """Return the two outputs that weights are moved between.

    They are heavy for every input. For the middle input they are each other's mirror image.
    """
    heavy = sorted(range(len(least)), key=lambda i: (-least[i], i))
    first = heavy[0]
    second = len(least) - 1 - first if c == 0 and 2 * first != len(least) - 1 else heavy[1]
    return (min(first, second), max(first, second))


_TABLE_NEIGHBORS = (
    (CompositeTable(lower=-1, upper=1, epsilon=1, inputs=5), (-1,), (1,)),
    (CompositeTable(lower=0, upper=10, epsilon=2), (0,), (10,)),
)
_claim = ClaimsAbout("CompositeTable", proof="composite-table.md")
CLAIMS = (
    _claim(
        "A release is epsilon-private between any two values that the query can take.",
        ("duchi2018",),
        # Without scipy there are no tables, and the audit says that it saw none.
        *(_TABLE_NEIGHBORS if find_spec("scipy") else ()),
    ),
)
