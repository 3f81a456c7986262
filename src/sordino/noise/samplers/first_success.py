"""The first success in a long row of independent trials.

Many trials in a row have the same probability.

Claim: `first_success` returns i with probability exactly p_i (1-p_0)...(1-p_(i-1)). Proof:
docs/proofs/samplers.md, "First success". Noise: one uniform number, extended without end; it is
compared with enclosures of the probability that the first i trials all fail. Floats: one may only
propose; inside a certified band decimals of any precision decide.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.noise.probability import Bounds, contexts, exp_bounds
from sordino.noise.samplers.powers import UNIT, chances, exponents, logarithms, uniforms, widened
from sordino.noise.samplers.uniform import LazyUniform


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
