"""Clopper-Pearson bounds: what the number of hits in independent runs says about the probability of a hit.

Claim: `bound_from_above` is below the true probability, and `bound_from_below` above it, with probability at
most `level` [clopper1934].
Proof: docs/proofs/statistical-audit.md, "One event".
Floats: a computed tail is off by a share below 1e-6 for up to 10^8 runs; the level is lowered by as much,
ends are rounded outward.
"""

from __future__ import annotations

import math

import numpy as np

# Up to so many runs the error of a computed tail is bounded ("One event" on the proof page).
RUNS = 10**8
_TAIL_ROUNDING = 1e-6
_SMALLEST_STIRLING = 16
_TERMS_PER_BLOCK = 4096
_NEGLIGIBLE_SHARE = 1e-9


def bound_from_above(hits: int, runs: int, level: float) -> float:
    """Return an upper confidence bound of the probability of a hit.

    It is the p at which so few hits have probability `level`.
    """
    # If every run hit, no probability is too large.
    if hits >= runs:
        return 1.0
    low, high = hits / runs, 1.0
    # The computed tail may be off by this share; a lower level makes up for it.
    wanted = level * (1 - _TAIL_ROUNDING)
    while True:
        middle = (low + high) / 2
        # No float is left between the two ends: the outer one is returned.
        if not low < middle < high:
            return high
        if lower_tail(hits, runs, middle) <= wanted:
            high = middle
        else:
            low = middle


def bound_from_below(hits: int, runs: int, level: float) -> float:
    """Return a lower confidence bound of the probability of a hit: one less the upper bound of a miss."""
    # The difference is rounded; the next smaller float is a lower bound for certain.
    return max(0.0, math.nextafter(1 - bound_from_above(runs - hits, runs, level), 0.0))


def lower_tail(hits: int, runs: int, p: float) -> float:
    """Return P(X <= hits) for X binomial, where hits <= runs p.

    Going down from j = hits, each term is j (1 - p) / ((runs - j + 1) p) times the one before, less than 1
    and falling. What is left out when a term is small is at most that term over one less its quotient; it is
    added.
    """
    last = math.exp(log_term(hits, runs, p))
    total, term, j = 1.0, 1.0, hits
    while j > 0:
        # Block by block: numpy multiplies many terms at once, and the sum stops after any block.
        steps = np.arange(j, max(j - _TERMS_PER_BLOCK, 0), -1, dtype=np.float64)
        quotients = steps * (1 - p) / ((runs - steps + 1) * p)
        terms = term * np.cumprod(quotients)
        total += float(terms.sum())
        term, j = float(terms[-1]), j - steps.size
        quotient = float(quotients[-1])
        # Quotients fall, so that the rest is at most a geometric series of the last one.
        if quotient < 1 and term * quotient / (1 - quotient) < _NEGLIGIBLE_SHARE * total:
            total += term * quotient / (1 - quotient)
            break
    return last * total


def log_term(hits: int, runs: int, p: float) -> float:
    """Return ln P(X = hits) for X binomial, 0 < p < 1.

    It uses Stirling's formula, so that no two large numbers of about the same size are subtracted.
    """
    if hits == 0:
        return runs * math.log1p(-p)
    if hits == runs:
        return runs * math.log(p)
    misses = runs - hits
    distance = hits * math.log(hits / (runs * p)) + misses * math.log(misses / (runs * (1 - p)))
    width = math.log(runs / (2 * math.pi * hits * misses)) / 2
    return (
        width
        - distance
        + _stirling_correction(runs)
        - _stirling_correction(hits)
        - _stirling_correction(misses)
    )


def _stirling_correction(m: int) -> float:
    """Return ln m! less its leading terms (m + 1/2) ln m - m + ln(2 pi) / 2."""
    # From 16 on the series is exact enough; below, the logarithm of the gamma function is.
    if m < _SMALLEST_STIRLING:
        return math.lgamma(m + 1) - (m + 0.5) * math.log(m) + m - math.log(2 * math.pi) / 2
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * m * m)) / (m * m)) / (m * m)) / m
