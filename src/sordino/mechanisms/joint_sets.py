"""The exact sampler behind the joint top k: sets of ranks, proportional to e^(-rate/2 regret).

The regret of a set is the largest value outside of it less the smallest inside. It is a race:
classes of sets are tried at random until one is kept.

Claim: `draw` returns each set of k ranks with probability e^(-rate/2 regret) over the sum of all.
Proof: docs/proofs/joint-top-k.md, "The sampler". Noise: a class with a whole weight, one of its
sets, and a coin whose certified digits make up for the weight. Floats: they propose whole weights
that are certainly large enough; the coin divides by the same whole number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.grid import Steps
from sordino.mechanisms.crossings.implicit_zeros import draw_fresh_ranks
from sordino.noise import Probability, bernoulli, uniform_below
from sordino.noise.probability import Bounds, contexts, exp_bounds

Values = NDArray[np.int64]
Floats = NDArray[np.float64]

_WIDTH = 0.5  # nats: values so close together are proposed together
_KEPT = 1 << 22  # so many weights are kept; of more, a row is computed again where it is needed
_BITS = 61  # whole weights add up to less than 2^62, below which uniform numbers are drawn
_LOOSE = 2.0**-48  # far above the error of a float, a logarithm or a sum of two


@final
class SetRace:
    """The sets of `k` of ranks 1 to n, given as runs of equal values, at `rate` nats a step.

    Parameters
    ----------
    values : array of int, shape (m,)
        In falling order; neighbors may be equal. In absolute value at most 2^52.
    counts : array of int, shape (m,)
        How many ranks have each value, at least 1; n, their sum, is at most 2^52.
    k : int
        1 <= k < n.
    rate : Fraction
        Nats a step of the grid, above 0.
    """

    def __init__(self, values: Values, counts: Values, k: int, rate: Fraction) -> None:
        self.k, self._half = k, rate / 2
        ends = np.cumsum(counts)
        # The run that holds rank k, and the one that holds rank k + 1.
        inner, outer = int(np.searchsorted(ends, k)), int(np.searchsorted(ends, k, side="right"))
        inside = counts[: inner + 1].copy()
        inside[-1] -= ends[inner] - k
        self.top: Values = np.repeat(values[: inner + 1], inside)
        self._values, self._ends = values[outer:], ends[outer:]
        # How far the best set leads: its regret is minus this.
        self.lead = int(self.top[-1]) - int(self._values[0])
        groups = self._group_runs(int(ends[-1]))
        self.best = self._values[groups]
        self.last = np.append(self._ends[groups[1:] - 1], self._ends[-1])
        self.first = np.append(k + 1, self.last[:-1] + 1)
        kept = k * groups.size <= _KEPT
        self._rows: list[Floats] | None = list(self._bounds()) if kept else None
        peak = max(0.0, *(float(row.max()) for row in self.rows()))
        # All weights together stay below 2^61: each is at most e^peak, and so many are there.
        self.shift = math.ceil(peak + math.log(k * groups.size + 1) + 1)
        self._totals = self._row_totals()

    def _group_runs(self, n: int) -> NDArray[np.intp]:
        """Return the first run of each group: any grouping has the same law, a good one is fast."""
        depths = float(self._half) * (self._values[0] - self._values).astype(np.float64)
        # Sets that reach deeper than this weigh next to nothing all together: there are fewer than
        # n^k.
        reach = self.k * math.log(n) + 64
        keys = np.floor(np.minimum(depths, reach) / _WIDTH)
        return np.append(0, np.flatnonzero(keys[1:] != keys[:-1]) + 1)

    def rows(self) -> Iterable[Floats]:
        """Return the rows of `_bounds`, for the first missing ranks k, k - 1, ..., 1."""
        return self._bounds() if self._rows is None else self._rows

    def _bounds(self) -> Iterator[Floats]:
        """Yield upper bounds of ln(number of sets) - rate/2 (regret + lead), shape (groups,) each.

        One row for each first missing rank h: in a group the last rank t that is taken lies.
        """
        ends, widths = (
            self.last.astype(np.float64),
            np.log((self.last - self.first + 1).astype(np.float64)),
        )
        half, sets = float(self._half), np.zeros(ends.size)
        for m in range(1, self.k + 1):
            # C(t - h, m) for the last rank t of each group, from the row before: h falls by one, m
            # rises.
            logs = np.log(ends - (self.k + 1 - m))
            sets = sets + (logs - math.log(m))
            # Of these sets only those count whose last rank lies in the group: each rank has at
            # most C(t - h - 1, m - 1) = C(t - h, m) m/(t - h) of them.
            counted = sets + np.minimum(0.0, widths + math.log(m) - logs)
            fall = half * (self.top[self.k - m] - self.best + self.lead).astype(np.float64)
            yield counted + (self.k + 8) * _LOOSE * (64 + sets) - fall * (1 - _LOOSE)

    def weigh(self, bounds: Floats) -> Values:
        """Return the whole weights of bounds in nats: at least 2^61 e^(bound - shift) and 1."""
        scaled = np.exp(bounds - self.shift) * (2.0**_BITS * (1 + 2.0**-40))
        weights: Values = np.floor(scaled).astype(np.int64) + 1
        return weights

    def _row_totals(self) -> Values:
        """Return the weight of the best set, and then one for each row that is at least its sum.

        A row may be computed again: the room makes the law hold even if its floats came out
        otherwise.
        """
        sums = [int(self.weigh(row).sum()) for row in self.rows()]
        totals: Values = np.array([self.top_weight, *(total + (total >> 30) for total in sums)])
        return totals

    @property
    def top_weight(self) -> int:
        """The whole weight of the best set, ranks 1 to k."""
        return int(self.weigh(np.zeros(1))[0])

    def _propose(self, entropy: Entropy) -> tuple[int, int, int] | None:
        """Return a row (0 is the best set), a group and their weight; None: nothing is proposed."""
        sums = np.cumsum(self._totals)
        drawn = int(uniform_below(int(sums[-1]), 1, entropy)[0])
        row = int(np.searchsorted(sums, drawn, side="right"))
        if row == 0:
            return 0, 0, self.top_weight
        weights = self.weigh(next(bounds for m, bounds in enumerate(self.rows(), 1) if m == row))
        steps = np.cumsum(weights)
        group = int(np.searchsorted(steps, drawn - int(sums[row - 1]), side="right"))
        return (row, group, int(weights[group])) if group < weights.size else None

    def count(self, row: int, group: int) -> int:
        """Return how many sets a class has.

        Its first missing rank is k + 1 - row, its last taken one is in the group.
        """
        h = self.k + 1 - row
        below = math.comb(int(self.first[group]) - 1 - h, row)
        return math.comb(int(self.last[group]) - h, row) - below

    def keep(self, row: int, group: int, weight: int, last: int) -> Probability:
        """Return the probability of keeping a set of a class whose last rank is `last`.

        It is the number of sets times 2^61 e^(-rate/2 (regret + lead) - shift) over the proposed
        weight.
        """
        if row == 0:
            many, nats = 1, Fraction(self.shift)
        else:
            value = int(self._values[np.searchsorted(self._ends, last)])
            many = self.count(row, group)
            nats = self._half * (int(self.top[self.k - row]) - value + self.lead) + self.shift

        def bounds(digits: int) -> Bounds:
            down, up = contexts(digits)
            low, high = exp_bounds(nats, digits)
            top, bottom = down.create_decimal(many << _BITS), down.create_decimal(weight)
            above, under = up.create_decimal(many << _BITS), up.create_decimal(weight)
            return down.multiply(low, down.divide(top, under)), up.multiply(
                high, up.divide(above, bottom)
            )

        return Probability(bounds)

    def _draw_last(self, row: int, group: int, entropy: Entropy) -> int:
        """Return the last rank of a uniform set of a class."""
        h, low, high = self.k + 1 - row, int(self.first[group]), int(self.last[group])
        if low == high:
            return low
        # Sets in the order of their last ranks: halving finds the rank of the one that is drawn.
        wanted = math.comb(low - 1 - h, row) + _whole_below(self.count(row, group), entropy)
        while low < high:
            middle = (low + high) // 2
            if math.comb(middle - h, row) > wanted:
                high = middle
            else:
                low = middle + 1
        return low

    def draw(self, entropy: Entropy) -> Values:
        """Return a set of ranks, counted from 0, shape (k,), in rising order."""
        while True:
            found = self._propose(entropy)
            if found is None:
                continue
            row, group, weight = found
            last = self._draw_last(row, group, entropy) if row else self.k
            if bernoulli(self.keep(row, group, weight, last), 1, entropy)[0]:
                break
        if row == 0:
            return np.arange(self.k)
        missing = self.k + 1 - row
        # All before the first missing rank, a uniform set between it and the last one, and the last
        # one.
        between = draw_fresh_ranks(
            last - missing - 1, row - 1, np.zeros(0, dtype=np.int64), entropy
        )
        return np.concatenate([np.arange(missing - 1), np.sort(between) + missing, [last - 1]])


def _whole_below(n: int, entropy: Entropy) -> int:
    """Return a uniform number of 0..n-1, for an `n` of any size."""
    bits = (n - 1).bit_length()
    while True:
        number = 0
        for word in entropy.words(-(-bits // 64)).tolist():
            number = (number << 64) | word
        # The low bits; a number that does not fit is drawn again, never folded back.
        number &= (1 << bits) - 1
        if number < n:
            return number


def ranked_runs(steps: Steps, zeros: int) -> tuple[Values, Values]:
    """Return values in falling order and how often each comes, with `zeros` more zeros, shape (m,).

    Parameters
    ----------
    steps : array of int, shape (n,)
        In falling order.
    zeros : int
        How many zeros stand between the listed ones and what lies below zero.
    """
    edges = (
        np.append(0, np.flatnonzero(steps[1:] != steps[:-1]) + 1)
        if steps.size
        else np.zeros(0, int)
    )
    values, counts = steps[edges], np.diff(np.append(edges, steps.size))
    if zeros:
        # After the listed zeros: two runs of equal values are as good as one.
        at = int(np.count_nonzero(values >= 0))
        values, counts = np.insert(values, at, 0), np.insert(counts, at, zeros)
    return values, counts
