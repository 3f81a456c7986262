"""The hybrids by their definition: sort, cut, count. Nothing of the product is used, and no priority is coded but the order of a list.

Noise has ratio r: P(noise = z) is proportional to r^z for z >= 0, or to r^|z|. Answers and thresholds are whole numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise, permutations, product

from support.enumeration import by_formula, cdf, pmf

NOBODY = -1


def top(noisy, threshold, k):
    """What the hybrid top-k makes of noisy answers and a noisy threshold: (items, gaps, crossed, margin of the threshold)."""
    ranked = sorted(range(len(noisy)), key=lambda i: (-noisy[i], i))
    items = [i for i in ranked if noisy[i] >= threshold][:k]
    rest = [i for i in range(len(noisy)) if i not in items]
    if len(items) < k:
        values = [*(noisy[i] for i in items), threshold]
        gaps = [a - b for a, b in pairwise(values)]
        return (
            tuple(items),
            tuple(gaps),
            True,
            most(lambda h: all(noisy[i] < threshold - h for i in rest)),
        )
    gaps = [noisy[a] - noisy[b] for a, b in pairwise(items)]
    last = items[-1]

    def still_wins(h):
        value = noisy[last] - h
        return value >= threshold and all((-value, last) < (-noisy[i], i) for i in rest)

    return tuple(items), (*gaps, most(still_wins)), False, None


def most(holds):
    """The largest whole number for which it holds, if it holds up to some number and no further."""
    h = 0
    assert holds(0)
    while holds(h + 1):
        h += 1
    return h


def found(noisy, threshold, k):
    """What the hybrid sparse vector makes of noisy answers and a noisy threshold: (items, lifts)."""
    above = sorted((threshold - value, i) for i, value in enumerate(noisy) if value >= threshold)[
        :k
    ]
    return tuple(i for _, i in above), tuple(-height for height, _ in above)


def top_outcomes(n, k, highest):
    """All outcomes of the hybrid top-k: (items, gaps, margin of the threshold or None), with gaps and margin up to `highest`."""
    for s in range(k + 1):
        for items in permutations(range(n), s):
            for gaps in product(range(highest + 1), repeat=s):
                for margin in range(highest + 1) if s < k else [None]:
                    yield items, gaps, margin


def top_law(kind, r, q, threshold, k, outcome, reach=60):
    """P(outcome): the threshold is one more item, with the lowest priority; so the first s + 1 of a noisy top-(s + 1), or the first k."""
    items, gaps, margin = outcome
    everybody = (*q, threshold)
    if len(items) == k:
        return by_formula(kind, r, everybody, items, gaps, reach=reach)
    return by_formula(kind, r, everybody, (*items, len(q)), (*gaps, margin), reach=reach)


def found_outcomes(n, k, highest):
    """All outcomes of the hybrid sparse vector: items and lifts, falling, up to `highest`."""
    for s in range(k + 1):
        for items in permutations(range(n), s):
            for lifts in product(range(highest + 1), repeat=s):
                falls = all(
                    a > b or (a == b and i < j)
                    for a, b, i, j in zip(lifts, lifts[1:], items, items[1:], strict=False)
                )
                if falls:
                    yield items, lifts


def found_law(query, limit, q, threshold, k, outcome, reach=60):
    """P(outcome), by a sum over the noise of the threshold; `query` and `limit` are (kind, r)."""
    items, lifts = outcome
    total = Fraction(0)
    for rho in range(-reach if limit[0] == "laplace" else 0, reach):
        height = threshold + rho
        mass = pmf(*limit, rho)
        for item, lift in zip(items, lifts, strict=True):
            mass *= pmf(*query, height + lift - q[item])
        for i in range(len(q)):
            if i in items or not mass:
                continue
            # Not above the threshold; of k items found, not before the last of them.
            highest = height - 1 if len(items) < k else height + lifts[-1] - (i < items[-1])
            mass *= cdf(*query, highest - q[i])
        total += mass
    return total


def neighbours(n, *, monotone):
    """All pairs of answers around 0 that are one move apart, in both orders."""
    moves = [m for m in product((0, 1) if monotone else (-1, 0, 1), repeat=n) if any(m)]
    return [pair for m in moves for pair in (((0,) * n, m), (m, (0,) * n))]


def excess(law, outcomes, pairs, r, spent):
    """For each number of items found the largest log ratio, in units of ln(1/r), less what is spent on it."""
    worst = {}
    law = cache(law)
    for a, b in pairs:
        for outcome in outcomes:
            p, other = law(a, outcome), law(b, outcome)
            if not p:
                continue
            loss = math.inf if not other else math.log(p / other) / -math.log(r)
            s = len(outcome[0])
            worst[s] = max(worst.get(s, -math.inf), loss - spent(s))
    return worst
