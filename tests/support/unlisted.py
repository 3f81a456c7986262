"""Mechanisms for unlisted labels by their definition: what occurs is sorted, cut and told, and its law is a sum over the threshold.

Nothing of the product is used. Noise has ratio r: P(z) is proportional to r^z for z >= 0, or to r^|z|. A table is a tuple of counts,
one for each label of a public order, of which only those of at least `least` occur.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise, permutations, product

import numpy as np

NOBODY = -1


def pmf(kind, r, z):
    z = np.asarray(z)
    if kind == "laplace":
        return (1 - r) / (1 + r) * r ** np.abs(z)
    return np.where(z >= 0, (1 - r) * r ** np.maximum(z, 0.0), 0.0)


def cdf(kind, r, z):
    z = np.asarray(z)
    if kind == "laplace":
        return np.where(
            z >= 0, 1 - r ** (np.maximum(z, 0.0) + 1) / (1 + r), r ** np.maximum(-z, 0.0) / (1 + r)
        )
    return np.where(z >= 0, 1 - r ** (np.maximum(z, 0.0) + 1), 0.0)


def top(noisy, threshold, k):
    """What is told of noisy counts {label: value}: the labels best first, their gaps; a full list has a margin, a short one none."""
    ranked = sorted(noisy, key=lambda label: (-noisy[label], label))
    items = [label for label in ranked if noisy[label] >= threshold][:k]
    values = [noisy[label] for label in items]
    if len(items) < k:
        return tuple(items), tuple(a - b for a, b in pairwise([*values, threshold]))
    last, margin = items[-1], 0

    def still_wins(h):
        value = noisy[last] - h
        rest = [label for label in noisy if label not in items]
        return value >= threshold and all((-value, last) < (-noisy[other], other) for other in rest)

    while still_wins(margin + 1):
        margin += 1
    return tuple(items), (*(a - b for a, b in pairwise(values)), margin)


def outcomes(n, k, highest):
    """All that can be told of n labels, with gaps up to `highest`."""
    for found in range(min(n, k) + 1):
        for items in permutations(range(n), found):
            for gaps in product(range(highest + 1), repeat=found):
                yield items, gaps


def law(kind, r, table, least, threshold, k, outcome, *, weight=None, reach=60):
    """P(outcome); with `weight`, a function of the noise of the threshold, the mass that this weight leaves of it."""
    items, gaps = outcome
    present = [label for label, count in enumerate(table) if count >= least]
    if any(item not in present for item in items):
        return 0.0
    inner = gaps if len(items) < k else gaps[:-1]
    if any(g == 0 and a > b for g, (a, b) in zip(inner, pairwise(items), strict=False)):
        return 0.0
    x = np.arange(-reach if kind == "laplace" else 0, reach)
    rest = [label for label in present if label not in items]
    kept = pmf(kind, r, x) * (1.0 if weight is None else weight(x))
    if len(items) < k:
        lifts = np.cumsum(gaps[::-1])[::-1] if gaps else []
        for item, lift in zip(items, lifts, strict=True):
            kept = kept * pmf(kind, r, threshold + x + lift - table[item])
        for other in rest:
            kept = kept * cdf(kind, r, threshold + x - 1 - table[other])
        return float(kept.sum())
    # A full list: y is the value of its last item, and the best of what is left, the threshold among it, is exactly `margin` below.
    last, margin = items[-1], gaps[-1]
    lifts = np.append(np.cumsum(inner[::-1])[::-1] if inner else [], 0)
    y = np.arange(-reach + min(table), max(*table, threshold) + sum(gaps) + reach)
    here = np.ones(y.size)
    for item, lift in zip(items, lifts, strict=True):
        here = here * pmf(kind, r, y + lift - table[item])

    def all_at_most(height):
        below = np.ones(height.size)
        for other in rest:
            below = below * cdf(kind, r, height - int(other < last) - table[other])
        # The noise of the threshold up to height - threshold, as the weight counts it.
        sums = np.concatenate([[0.0], np.cumsum(kept)])
        return below * sums[np.clip(height - threshold - x[0] + 1, 0, x.size)]

    return float((here * (all_at_most(y - margin) - all_at_most(y - margin - 1))).sum())


def failure(kind, r, offset, labels, *, noisy=True, reach=400):
    """P(one of so many new labels reaches the threshold), by the plain sum over the noise of the threshold."""
    if not noisy:
        return 1 - (1 - float(1 - cdf(kind, r, offset - 1))) ** labels
    x = np.arange(-reach if kind == "laplace" else 0, reach)
    return float((pmf(kind, r, x) * (1 - cdf(kind, r, offset + x - 1) ** labels)).sum())


def moves(table, most, *, either):
    """All neighbours of a table: a unit of at most `most` labels comes, or, under replace-one, one leaves and another one comes."""
    n = len(table)
    sets = [set(s) for size in range(most + 1) for s in combinations(range(n), size)]
    for leaves in sets if either else [set()]:
        if any(table[label] < 1 for label in leaves):
            continue
        for comes in sets:
            yield tuple(count - (i in leaves) + (i in comes) for i, count in enumerate(table))


def spent(kind, k, most, *, either):
    """What a release of so many labels may lose, in units of the rate."""
    spread = 2 if either else 1

    def units(found):
        steps = spread * k if found >= k else spread * found + 1
        return min(steps, spread * most) if kind == "laplace" else steps

    return units


def worst_failure(law_of, listed, pairs, r, units, k):
    """The largest sum over outcomes of what P has beyond e^cost Q, each outcome at its own cost, over pairs in both orders."""
    known = cache(lambda table: np.array([law_of(table, outcome) for outcome in listed]))
    factors = np.array([r ** -units(len(items)) for items, _ in listed])
    worst = 0.0
    for a, b in pairs:
        for one, other in ((a, b), (b, a)):
            worst = max(worst, float(np.maximum(known(one) - factors * known(other), 0).sum()))
    return worst
