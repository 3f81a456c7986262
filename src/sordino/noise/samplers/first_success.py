"""Which of many trials is the first success: in the order of a row, or in a random order.

Trials in a row, and candidates of permute-and-flip, have the same probability many at a time.

Claim: `first_success` returns i with probability exactly p_i (1-p_0)...(1-p_(i-1)); `first_head`
has exactly the law of coins in random order. Proof: docs/proofs/samplers.md, "First success" and
"First head". Noise: one uniform number, extended without end, which is compared with enclosures of
the probability that the first i trials all fail; candidates ring by independent Poisson clocks of
rate 1 and flip at their first ring, and only rings that could show heads are drawn. Floats: they
may only propose; inside a certified band decimals of any precision decide.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.noise.probability import Bounds, contexts, exp_bounds
from sordino.noise.samplers.powers import (
    UNIT,
    chances,
    exponentials,
    exponents,
    logarithms,
    uniforms,
    widened,
)
from sordino.noise.samplers.uniform import LazyUniform, uniform_below


def first_success(
    depths: NDArray[np.int64], lengths: NDArray[np.int64], rate: Fraction, entropy: Entropy
) -> int | None:
    """Return the position of the first success in runs of independent trials, or None.

    Parameters
    ----------
    depths : array of int, shape (m,)
        Every trial of run j succeeds with probability e^(-rate max(depths[j], 0)).
    lengths : array of int, shape (m,)
        How many trials run j has, at least 0.
    rate : Fraction
        Above 0, in nats a step of depth.
    entropy : Entropy
        Where the noise comes from.

    Returns
    -------
    int or None
        0-based over all trials of all runs, in their order.
    """
    sure = np.flatnonzero((depths <= 0) & (lengths > 0))
    runs = int(sure[0]) if sure.size else depths.size  # nothing passes a certain success
    depths, lengths = depths[:runs], lengths[:runs]
    end = int(lengths.sum()) if sure.size else None
    # One U decides all trials: the first i fail with probability e^-(sum of their hazards).
    uniform = LazyUniform(int(entropy.words(1)[0]), entropy)
    # What floats return is what decimals would return, so the law does not depend on them.
    found = _propose_position(depths, lengths, rate, uniform.first)
    while found is None:
        found = _locate_position(depths, lengths, rate, uniform)
        if found is None:
            uniform.extend()
    # Nowhere before the certain success, so it is that one, if there is one.
    return end if found < 0 else found


def first_successes(
    depths: NDArray[np.int64], lengths: NDArray[np.int64], rate: Fraction, entropy: Entropy
) -> NDArray[np.int64]:
    """Return what `first_success` returns for each of many rows of runs, with fresh words for each.

    Parameters
    ----------
    depths, lengths : array of int, shape (g, m)
        The runs of each row; rows with fewer runs are filled up with empty ones.
    rate : Fraction
        Above 0, in nats a step of depth.
    entropy : Entropy
        Where the noise comes from.

    Returns
    -------
    array of int64, shape (g,)
        0-based over all trials of a row; -1 for none.
    """
    # From the first certain success on nothing is tried: its runs are empty.
    over = np.logical_or.accumulate((depths <= 0) & (lengths > 0), axis=1)
    left = np.where(over, 0, lengths)
    deep = np.where(over, 1, depths)
    ends = np.where(over.any(axis=1), left.sum(axis=1), -1)
    words = entropy.words(depths.shape[0])
    found = _propose_positions(deep, left, rate, words)
    for row in np.flatnonzero(found == _OPEN).tolist():
        uniform = LazyUniform(int(words[row]), entropy)
        exact = None
        while exact is None:
            exact = _locate_position(deep[row], left[row], rate, uniform)
            if exact is None:
                uniform.extend()
        found[row] = exact
    return np.where(found < 0, ends, found)


_OPEN = -2
"""Stands for a position that floats cannot tell."""


def _propose_position(
    depths: NDArray[np.int64], lengths: NDArray[np.int64], rate: Fraction, word: int
) -> int | None:
    """Return what `_locate_position` would, from floats, or None if their error leaves it open."""
    [found] = _propose_positions(
        depths[None], lengths[None], rate, np.array([word], dtype=np.uint64)
    )
    return None if found == _OPEN else int(found)


def _propose_positions(
    depths: NDArray[np.int64], lengths: NDArray[np.int64], rate: Fraction, words: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Return what `_locate_position` would for each row, from floats, or `_OPEN`; shape (g,)."""
    rows, size = np.arange(words.size), depths.shape[1]
    # There is nothing to try.
    if not size:
        return np.full(words.size, -1, dtype=np.int64)
    x = exponents(depths, rate)
    hazard = logarithms(*chances(x))
    wanted = logarithms(*uniforms(words.tolist()))
    weights = lengths * hazard
    none = np.zeros((words.size, 1))
    sums = np.concatenate([none, np.cumsum(weights, axis=1)], axis=1)
    # What the sums may err by: "Sums" on the proof page.
    slack = UNIT * (
        6 * np.concatenate([none, np.cumsum(weights * x, axis=1)], axis=1) + (size + 70) * sums
    )
    # Sums rise, so this is the last one that is not above -ln U.
    run = (sums <= wanted[:, None]).sum(axis=1) - 1
    bounds = [widened(*one) for one in zip(wanted.tolist(), words.tolist(), strict=True)]
    low, high = (
        np.array(end, dtype=np.float64) - sums[rows, run] for end in zip(*bounds, strict=True)
    )
    before = slack[rows, run]
    beyond = run == size
    inner = np.minimum(run, size - 1)
    with np.errstate(all="ignore"):
        # 64 for the hazard itself and four roundings, some to spare.
        relative = UNIT * (6 * x[rows, inner] + 70)
        first = np.floor((low - before) / (hazard[rows, inner] * (1 + relative)))
        last = np.floor((high + before) / (hazard[rows, inner] * (1 - relative)))
    # Both ends of the quotient name one trial of this run: then it is that one. A word so short
    # that it sets no upper end to -ln U leaves it open, and so does what may belong to an earlier
    # run.
    told = (low >= before) & ~beyond & (first == last) & (last < lengths[rows, inner])
    starts = np.cumsum(lengths, axis=1)[rows, inner] - lengths[rows, inner]
    found = np.full(words.size, _OPEN, dtype=np.int64)
    found[told] = starts[told] + first[told].astype(np.int64)
    # Certainly beyond the hazards of all trials.
    found[(low >= before) & beyond] = -1
    return found


def _locate_position(
    depths: NDArray[np.int64], lengths: NDArray[np.int64], rate: Fraction, uniform: LazyUniform
) -> int | None:
    """Return where the hazards of the trials, all deeper than 0, exceed -ln U.

    It is -1 for nowhere, and None if these digits cannot tell.
    """
    digits = uniform.digits + len(str(int(lengths.sum())))
    down, up = contexts(digits)
    wanted_low, wanted_high = uniform.exponential(digits)
    low = high = Decimal(0)
    start = 0
    # Empty runs have no trials.
    filled = lengths > 0
    for depth, length in zip(depths[filled].tolist(), lengths[filled].tolist(), strict=True):
        hazard_low, hazard_high = hazard_bounds(rate * depth, digits)
        next_high = up.fma(Decimal(length), hazard_high, high)
        # Not certainly beyond this run: it is in it, or these digits cannot tell.
        if wanted_low < next_high:
            first = down.divide(down.subtract(wanted_low, high), hazard_high).to_integral_value(
                ROUND_FLOOR
            )
            last = up.divide(up.subtract(wanted_high, low), hazard_low).to_integral_value(
                ROUND_FLOOR
            )
            return start + int(first) if first == last < length else None
        low, high = down.fma(Decimal(length), hazard_low, low), next_high
        start += length
    return -1


@lru_cache(maxsize=1024)
def hazard_bounds(x: Fraction, digits: int) -> Bounds:
    """Return decimals just below and just above -ln(1 - e^-x), x > 0."""
    # 1 - e^-x loses as many digits as 1/x has, so as many more are computed.
    finer = 2 * digits + (x.denominator // x.numerator).bit_length() * 31 // 100
    down, up = contexts(finer)
    low, high = exp_bounds(x, finer)
    if high.adjusted() < -digits:
        return low, up.divide(high, down.subtract(1, high))  # p <= -ln(1-p) <= p/(1-p)
    # `ln` is correct to the last digit, so one step further out encloses it.
    return up.next_plus(up.ln(up.subtract(1, low))).copy_negate(), down.next_minus(
        down.ln(down.subtract(1, high))
    ).copy_negate()


def first_head(
    depths: NDArray[np.int64], lengths: NDArray[np.int64], rate: Fraction, entropy: Entropy
) -> int:
    """Return the first candidate that shows heads when all flip coins in a uniformly random order.

    Parameters
    ----------
    depths : array of int, shape (m,)
        How far the candidates of run j lie below the best: their coins show heads with probability
        e^(-rate depths[j]). Depths are counted from the least one of a run that is not empty, so
        that some coin is certain.
    lengths : array of int, shape (m,)
        How many candidates run j has, at least 0, in all at least 1.
    rate : Fraction
        Above 0, in nats a step of depth.
    entropy : Entropy
        Where the noise comes from.

    Returns
    -------
    int
        0-based over all candidates of all runs, in their order.
    """
    # Counted from the best candidate that there is: its coin is then certain.
    depths = depths - depths[lengths > 0].min()
    runs = _Runs(depths, lengths, rate)
    waits: list[LazyUniform] = []
    out: set[tuple[int, int]] = set()
    while True:
        # One ring with heads: whose it is, how long it took, and whether tails came before.
        pick, wait, coin = (LazyUniform(word, entropy) for word in entropy.words(3).tolist())
        waits.append(wait)
        run = runs.picked(pick)
        candidate = run, int(uniform_below(int(lengths[run]), 1, entropy)[0])
        # It rang before and was not taken, so this is not its first ring.
        if candidate in out:
            continue
        # The coin of one at depth 0 is certain: it has no tails that could have rung before.
        if depths[run] <= 0 or runs.first_ring(run, waits, coin):
            return int(lengths[:run].sum()) + candidate[1]
        # It has shown tails, so none of its later rings is a first one.
        out.add(candidate)


@final
class _Runs:
    """The runs, the floats that propose, and the decimals that decide."""

    def __init__(
        self, depths: NDArray[np.int64], lengths: NDArray[np.int64], rate: Fraction
    ) -> None:
        self.depths, self.lengths, self.rate = depths, lengths, rate
        self.x = exponents(depths, rate)
        p, self.q = chances(self.x)
        weights = lengths * p
        self.sums = np.cumsum(weights)
        # What running sums of rounded terms may err by: "Sums" on the proof page.
        self.slack = UNIT * (4 * np.cumsum(weights * self.x) + (depths.size + 24) * self.sums)

    def picked(self, pick: LazyUniform) -> int:
        """Return a run, drawn in proportion to its number of candidates times their chance."""
        total, error = float(self.sums[-1]), float(self.slack[-1])
        # 2^-50 of the total covers the rounding of U, and what lies deeper than `DEEP`.
        place, margin = pick.word * 2.0**-64 * total, error + total * 2.0**-50
        run = int(self.sums.searchsorted(place, side="right"))
        # Floats decide only where the whole margin lies inside the run.
        past = run == 0 or place - margin >= self.sums[run - 1] + self.slack[run - 1]
        if past and run < self.sums.size and place + margin < self.sums[run] - self.slack[run]:
            return run
        while (found := self._picked(pick)) is None:
            pick.extend()
        return found

    def _picked(self, pick: LazyUniform) -> int | None:
        """Return the run where U times all weight falls, None if the known digits cannot tell."""
        digits = pick.digits + len(str(int(self.lengths.sum())))
        down, up = contexts(digits)
        sums = self._sums(digits)
        low, high = pick.bounds(digits)
        low, high = down.multiply(low, sums[-1][0]), up.multiply(high, sums[-1][1])
        run = next(j for j, (_, most) in enumerate(sums) if low < most)
        # Certain only if both ends of U fall into one run.
        return run if (not run or low >= sums[run - 1][1]) and high <= sums[run][0] else None

    def first_ring(self, run: int, waits: list[LazyUniform], coin: LazyUniform) -> bool:
        """Return whether the candidate has not rung with tails before.

        That is, whether -ln V > (1 - p) (sum of the waits) / (weight of all).
        """
        threshold, *known = exponentials([coin.first, *(wait.first for wait in waits)])
        total, error, chance = float(self.sums[-1]), float(self.slack[-1]), float(self.q[run])
        # Floats decide if their bounds do not overlap; otherwise decimals do, with as many digits
        # as needed.
        if threshold[0] * (total - error) > chance * (1 + 64 * UNIT) * sum(
            high for _, high in known
        ):
            return True
        if threshold[1] * (total + error) < chance * (1 - 64 * UNIT) * sum(low for low, _ in known):
            return False
        while (found := self._first_ring(run, waits, coin)) is None:
            # Each number keeps its digits and gets 64 more.
            for uniform in (*waits, coin):
                uniform.extend()
        return found

    def _first_ring(self, run: int, waits: list[LazyUniform], coin: LazyUniform) -> bool | None:
        """Return what `first_ring` returns, None if the known digits cannot tell."""
        digits = coin.digits + len(str(int(self.lengths.sum())))
        down, up = contexts(digits)
        total = self._sums(digits)[-1]
        low, high = exp_bounds(self.rate * int(self.depths[run]), digits)
        least = most = Decimal(0)
        for wait in waits:
            part = wait.exponential(digits)
            least, most = down.add(least, part[0]), up.add(most, part[1])
        coin_low, coin_high = coin.exponential(digits)
        # The lower bound of one side against the upper bound of the other: only that is certain.
        if down.multiply(coin_low, total[0]) > up.multiply(up.subtract(1, low), most):
            return True
        if up.multiply(coin_high, total[1]) < down.multiply(down.subtract(1, high), least):
            return False
        return None

    def _sums(self, digits: int) -> list[Bounds]:
        """Return enclosures of the cumulative weights of the runs."""
        down, up = contexts(digits)
        low = high = Decimal(0)
        sums = []
        for depth, length in zip(self.depths.tolist(), self.lengths.tolist(), strict=True):
            # An empty run may be better than all others: it counts as depth 0.
            chance_low, chance_high = exp_bounds(self.rate * max(depth, 0), digits)
            low, high = (
                down.fma(Decimal(length), chance_low, low),
                up.fma(Decimal(length), chance_high, high),
            )
            sums.append((low, high))
        return sums
