"""Holds the costs of single outcomes against black boxes.

Each charge must be enough for its outcome.

Claim: with the stated level `beyond` is below the truth. Proof: docs/proofs/statistical-audit.md,
"Costs of outcomes". Floats: rounded down; a pure cost up.

Clopper-Pearson bounds: what the number of hits in independent runs says about the probability of a
hit.

Claim: `bound_from_above` is below the true probability, and `bound_from_below` above it, with
probability at most `level` [clopper1934]. Proof: docs/proofs/statistical-audit.md, "One event".
Floats: a computed tail is off by a share below 1e-6 for up to 10^8 runs; the level is lowered by as
much, ends are rounded outward.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.cost import ZCDP, Cost
from sordino.errors import InvalidParameter
from sordino_audit.black_boxes.events import Chooser, EventQuestion
from sordino_audit.black_boxes.features import Codes, Feature
from sordino_audit.report import Evidence

# ---- binomial bounds -----------------------------------------------------------------------------


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
    """Return a lower confidence bound of the probability of a hit.

    One less the upper bound of a miss.
    """
    # The difference is rounded; the next smaller float is a lower bound for certain.
    return max(0.0, math.nextafter(1 - bound_from_above(runs - hits, runs, level), 0.0))


def lower_tail(hits: int, runs: int, p: float) -> float:
    """Return P(X <= hits) for X binomial, where hits <= runs p.

    Going down from j = hits, each term is j (1 - p) / ((runs - j + 1) p) times the one before, less
    than 1 and falling. What is left out when a term is small is at most that term over one less its
    quotient; it is added.
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


_MOST_CHARGES = 8
_CHARGE_ROUNDING_FACTOR = 1 - 1e-14

Sides = tuple[NDArray[np.float64], NDArray[np.float64]]
Rows = tuple[Codes, Codes]


class Beyond(NamedTuple):
    """By how much an outcome costs more than is charged, at least, and the event behind that.

    In nats; -inf if nothing was found.
    """

    at_least: float
    evidence: Evidence | None


def charged(cost: Cost, claimed: Cost) -> float:
    """Return what is charged for an outcome as a number.

    It is the pure epsilon, or the rho where no pure epsilon is claimed.
    """
    value: Any = (
        cost.pure()
        if isinstance(claimed.pure(), Fraction)
        else cost.rho
        if isinstance(cost, ZCDP)
        else None
    )
    if not isinstance(value, Fraction):
        raise InvalidParameter(
            "audit.statistical.cost_of must return pure costs where claimed is pure, else costs of "
            "zCDP."
        )
    if value > (
        claimed.pure()
        if isinstance(claimed.pure(), Fraction)
        else getattr(claimed, "rho", math.inf)
    ):
        raise InvalidParameter(
            "audit.statistical.cost_of must never be above claimed, which is what a ledger would "
            "have reserved."
        )
    return float(value)


def frequent(costs: Sides) -> list[float]:
    """Return the most frequent charges of the runs that are learned from."""
    both = np.concatenate(costs)
    # NaN: a run that raised was charged nothing.
    counted = Counter(both[~np.isnan(both)].tolist())
    return sorted(cost for cost, _ in counted.most_common(_MOST_CHARGES))


def beyond_pure(
    features: list[Feature],
    parts: list[Rows],
    costs: list[Sides],
    question: EventQuestion,
    level: float,
) -> Beyond:
    """Return how far the log ratio of an event exceeds the charge that all its outcomes share."""
    runs = [part[0].shape[0] for part in parts]
    best: tuple[float, float, Chooser, Any] | None = None
    for cost in frequent(costs[0]):
        # The class of outcomes and the event within it are chosen on the first half of the runs
        # only.
        kept = [
            _select_charged(part, charge, cost)
            for part, charge in zip(parts[:2], costs[:2], strict=True)
        ]
        chooser = Chooser(features, kept[0], kept[1], runs=(runs[0], runs[1]))
        chosen, worth = chooser.best(question)
        # The loss is held against the charge: a large one that was paid for is none.
        if best is None or worth - cost > best[0]:
            best = worth - cost, cost, chooser, chosen
    if best is None:
        return Beyond(-math.inf, None)
    _, cost, chooser, chosen = best
    test = _select_charged(parts[2], costs[2], cost)
    hits, others = chosen.event.hits(test[chosen.more]), chosen.event.hits(test[1 - chosen.more])
    evidence = Evidence(
        event=f"charged {cost:g}, and {chooser.says(chosen.event)}",
        more="ab"[chosen.more],
        hits_more=hits,
        hits_fewer=others,
        runs=runs[2],
        at_least=bound_from_below(hits, runs[2], level * _CHARGE_ROUNDING_FACTOR),
        at_most=bound_from_above(others, runs[2], level * _CHARGE_ROUNDING_FACTOR),
    )
    # Where the lower bound is 0 the log ratio has no lower bound.
    if not evidence.at_least:
        return Beyond(-math.inf, evidence)
    # The loss is rounded down and the charge up, so that no excess comes from rounding.
    loss = math.log(evidence.at_least / evidence.at_most)
    return Beyond(
        math.nextafter(loss - abs(loss) * 1e-13 - math.nextafter(cost, math.inf), -math.inf),
        evidence,
    )


def beyond_zcdp(costs: list[Sides], level: float) -> Beyond:
    """Return how far the Rényi divergence of order 2 exceeds 0, counted with charges of outcomes.

    Classes of outcomes with one charge each: the sum of p_a^2 / p_b e^(-2 rho) is at most 1 if
    every charge is enough.
    """
    # Terms of the sum are positive, so that classes which were not seen may be left out.
    classes = frequent(costs[0])
    found = -math.inf
    for more in (0, 1):
        total = 0.0
        for cost in classes:
            runs = costs[2][0].size
            hits = [int((side == cost).sum()) for side in (costs[2][more], costs[2][1 - more])]
            share = level / len(classes) / 2 * _CHARGE_ROUNDING_FACTOR  # both orders are looked at
            # Jensen's inequality: a class contributes at least its own p_a^2 / p_b.
            low, high = (
                bound_from_below(hits[0], runs, share),
                bound_from_above(hits[1], runs, share),
            )
            total += (
                low
                * low
                / high
                * math.exp(-2 * math.nextafter(cost, math.inf))
                * _CHARGE_ROUNDING_FACTOR
            )
        found = max(
            found, math.log(total) * (1 - 1e-13) if total > 1 else math.log(max(total, 1e-300))
        )
    return Beyond(found, None)


def _select_charged(part: Rows, costs: Sides, cost: float) -> Rows:
    # NaN equals no charge: runs that raised drop out.
    a, b = (codes[charge == cost] for codes, charge in zip(part, costs, strict=True))
    return a, b
