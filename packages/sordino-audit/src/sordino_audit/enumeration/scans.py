"""What the auditor looks at for threshold scans: the law of the position where they stop.

It is a series over the noise of the threshold, with what is left of it.

Claim: each listed probability lies between its two decimals. Proof: docs/proofs/above-threshold.md, "The
audit".
Floats: they say how many terms are added; none enters a probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sordino.errors import InvalidParameter
from sordino.grid import Steps
from sordino.mechanisms import AboveThreshold
from sordino.mechanisms.crossings.threshold_scan import ThresholdScan
from sordino.noise.probability import Bounds, contexts, exp_bounds
from sordino_audit.enumeration.played import make_step_reader
from sordino_audit.enumeration.region import TOO_MANY
from sordino_audit.enumeration.subject import Subject

_SCAN_DIGITS = 60
_LOST_PROBABILITY = 1e-45
_MOST_SCAN_TERMS = 4_000_000
_KEPT_POWERS = 1 << 13

Listed = list[tuple[int | None, Bounds]]


def above_threshold(mechanism: AboveThreshold, n: int) -> Subject:
    """Return the law of the first answer above."""
    scan = mechanism.scan()
    return Subject(
        laws=[],
        stated=lambda steps: positions(scan, steps.tolist()),
        steps=_make_step_function(mechanism, n),
        cost=mechanism.cost,
        # Nested answers are fewer pairs than any statement about each answer says: they are taken as
        # neighbors on the caller's word.
        sensitivity=None if mechanism.nested else mechanism.sensitivity,
        name=repr(mechanism),
    )


def _make_step_function(mechanism: AboveThreshold, n: int) -> Callable[[Any], Steps]:
    """Return the function that turns answers into `n` whole numbers of steps, as the mechanism does."""
    checked = make_step_reader(mechanism, n)

    def steps(answers: Any) -> Steps:
        checked(answers)
        return mechanism.steps(answers)

    return steps


def positions(scan: ThresholdScan, answers: Sequence[int], lengths: Sequence[int] | None = None) -> Listed:
    """Return each position, and None, with bounds of its probability.

    Given the noise z of the threshold the tests are independent: s = P(Z_i >= threshold + z - answer),
    P(first at k) = s_k times the product of 1 - s_i before. Terms are added up to where no test is certain
    any more, and on until the rest is small; the rest is geometric up to the products, which rise.

    Raises
    ------
    InvalidParameter
        If the noise is so wide, or the answers so many, that this would take too long.
    """
    tests = [f for f, times in zip(answers, lengths or [1] * len(answers), strict=True) for _ in range(times)]
    last = _last_threshold_noise(scan, tests)
    # Refused before anything is computed.
    if (last + 1) * len(tests) > _MOST_SCAN_TERMS:
        raise InvalidParameter(TOO_MANY.format(limit=_MOST_SCAN_TERMS, what="tests of the noisy threshold"))
    down, up = contexts(_SCAN_DIGITS)
    rate, start = scan.threshold_noise.rate, scan.threshold
    ratio = _enclose_power(rate, 1)
    first = down.subtract(1, ratio[1]), up.subtract(1, ratio[0])  # P(Z = 0)
    sums: list[Bounds] = [(Decimal(0), Decimal(0))] * (len(tests) + 1)
    for z in range(last + 1):
        reach = _enclose_power(rate, z)
        so_far = down.multiply(first[0], reach[0]), up.multiply(first[1], reach[1])
        for k, f in enumerate(tests):
            # Noise is never negative: a test whose depth is 0 or less says yes for certain.
            p = _enclose_power(scan.noise.rate, max(start + z - f, 0))
            low, high = sums[k]
            sums[k] = (
                down.add(low, down.multiply(so_far[0], p[0])),
                up.add(high, up.multiply(so_far[1], p[1])),
            )
            so_far = (
                down.multiply(so_far[0], down.subtract(1, p[1])),
                up.multiply(so_far[1], up.subtract(1, p[0])),
            )
        # What is left is that all tests said no.
        sums[-1] = down.add(sums[-1][0], so_far[0]), up.add(sums[-1][1], so_far[1])
    return list(zip([*range(len(tests)), None], _add_rest(scan, tests, last + 1, first, sums), strict=True))


def _add_rest(
    scan: ThresholdScan, tests: list[int], z: int, first: Bounds, sums: list[Bounds]
) -> list[Bounds]:
    """Add what noise of at least `z` gives, where all depths are positive.

    Products of 1 - s lie between those at `z` and 1.
    """
    down, up = contexts(_SCAN_DIGITS)
    rate, both = (
        scan.threshold_noise.rate,
        exp_bounds(scan.threshold_noise.rate + scan.noise.rate, _SCAN_DIGITS),
    )
    short, found = Decimal(1), []  # the product at z, from below
    for f, (low, high) in zip(tests, sums, strict=False):
        depth = scan.noise.rate * (scan.threshold + z - f)
        # The sum of (1 - r0) r0^x r^(depth at x) over x >= z, both ratios together.
        start = exp_bounds(rate * z + depth, _SCAN_DIGITS)
        least = down.divide(down.multiply(first[0], start[0]), up.subtract(1, both[0]))
        most = up.divide(up.multiply(first[1], start[1]), down.subtract(1, both[1]))
        found.append((down.add(low, down.multiply(short, least)), up.add(high, most)))
        short = down.multiply(short, down.subtract(1, exp_bounds(depth, _SCAN_DIGITS)[1]))
    beyond = _enclose_power(rate, z)
    return [*found, (down.add(sums[-1][0], down.multiply(short, beyond[0])), up.add(sums[-1][1], beyond[1]))]


@lru_cache(maxsize=64)
def _power_table(rate: Fraction) -> list[Bounds]:  # noqa: ARG001 - the key of the cache
    return [(Decimal(1), Decimal(1))]


def _enclose_power(rate: Fraction, n: int) -> Bounds:
    """Return bounds of e^(-rate n), n >= 0; those of small n are kept, each a product with the one before."""
    if n >= _KEPT_POWERS:
        return exp_bounds(rate * n, _SCAN_DIGITS)
    table = _power_table(rate)
    if n >= len(table):
        down, up = contexts(_SCAN_DIGITS)
        low, high = exp_bounds(rate, _SCAN_DIGITS)
        # Each power is the one before times r, rounded outward: cheaper than an exponential for each.
        while n >= len(table):
            table.append((down.multiply(table[-1][0], low), up.multiply(table[-1][1], high)))
    return table[n]


def _last_threshold_noise(scan: ThresholdScan, tests: list[int]) -> int:
    """Return up to which noise of the threshold terms are added.

    All depths are positive then, and what the rest blurs is small.
    """
    certain = max(0, max(tests) - scan.threshold)  # noise up to here is met by a test for certain
    rates: tuple[Fraction, Fraction] = scan.threshold_noise.rate, scan.noise.rate
    return certain + 1 + math.ceil((math.log(len(tests)) - math.log(_LOST_PROBABILITY)) / float(sum(rates)))
