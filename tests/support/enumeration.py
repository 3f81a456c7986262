"""Exact laws of noisy top-k with geometric or Laplace noise of ratio r, by two routes that share no code.

`by_formula` sums over the value of the last winner; `by_decide` plays every noise vector of a box through the product's `decide`.
Both in exact fractions; the rest of the box (of the sum) is below r^reach.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import permutations, product

import numpy as np

from sordino.mechanisms import noisy_top_k

REACH = 80


def pmf(kind, r, z):
    if kind == "laplace":
        return (1 - r) / (1 + r) * r ** abs(z)
    return (1 - r) * r**z if z >= 0 else Fraction(0)


def cdf(kind, r, z):
    if kind == "laplace":
        return 1 - r ** (z + 1) / (1 + r) if z >= 0 else r**-z / (1 + r)
    return 1 - r ** (z + 1) if z >= 0 else Fraction(0)


def by_formula(kind, r, q, winners, gaps, *, margin=True, reach=REACH):
    """P(ordered winners, gaps). `margin`: the last gap is the margin under index priority; else the raw last gap."""
    k, n = len(winners), len(q)
    losers = [i for i in range(n) if i not in winners]
    last = winners[-1]
    inner = gaps[: k - 1]
    lifts = [sum(inner[i:]) for i in range(k)]
    if any(g == 0 and winners[i] > winners[i + 1] for i, g in enumerate(inner)):
        return Fraction(0)
    total = Fraction(0)
    low = min(q) - (reach if kind == "laplace" else 0)
    for x in range(low, max(q) + sum(gaps) + reach):
        mass = math.prod(
            pmf(kind, r, x + lift - q[w]) for w, lift in zip(winners, lifts, strict=True)
        )
        if not mass:
            continue
        if losers:
            total += mass * _best_loser(kind, r, q, losers, last, x, gaps[k - 1], margin)
        else:
            total += mass
    return total


def _best_loser(kind, r, q, losers, last, x, gap, margin):
    """P(the losers are such that the released last gap is `gap`), given that the last winner's value is x."""
    ahead = {i: int(i < last) for i in losers}  # 1: wins ties against the last winner

    def all_at_most(limit, offsets):
        return math.prod(cdf(kind, r, limit - offsets[i] - q[i]) for i in losers)

    if margin:
        return all_at_most(x - gap, ahead) - all_at_most(x - gap - 1, ahead)
    none = dict.fromkeys(losers, 0)
    if gap == 0:
        return all_at_most(x, ahead) - all_at_most(x - 1, none)
    return all_at_most(x - gap, none) - all_at_most(x - gap - 1, none)


def by_decide(kind, r, q, k, *, box, decide=noisy_top_k.decide):
    """The law of the product's `decide` over all noise vectors of a box, as {(winners, gaps): probability}."""
    support = range(-box, box + 1) if kind == "laplace" else range(box + 1)
    law = defaultdict(Fraction)
    weights = {z: pmf(kind, r, z) for z in support}
    for noise in product(support, repeat=len(q)):
        winners, gaps = decide(np.array(q) + np.array(noise), k)
        law[tuple(winners.tolist()), tuple(gaps.tolist())] += math.prod(weights[z] for z in noise)
    return dict(law)


def outputs(n, k, highest):
    """All (winners, gaps) with gaps up to `highest`."""
    count = min(k, n - 1)
    for winners in permutations(range(n), k):
        for gaps in product(range(highest + 1), repeat=count):
            yield winners, gaps


def neighbours(n, *, monotone):
    """All ways in which n answers of sensitivity 1 can differ between two neighbours (one side fixed by symmetry)."""
    if monotone:
        moves = list(product((0, 1), repeat=n))
        return [m for m in moves if any(m)] + [tuple(-x for x in m) for m in moves if any(m)]
    return [m for m in product((-1, 0, 1), repeat=n) if any(m)]


def worst_loss(kind, r, n, k, *, monotone, bases, highest=3, margin=True, reach=REACH):
    """The largest log ratio over bases, neighbours and outputs, in units of ln(1/r), and where it is."""
    worst, witness = 0.0, None
    cache = {}

    def at(q, winners, gaps):
        shift = min(q)  # the law does not change when all answers move together
        key = tuple(x - shift for x in q), winners, gaps
        if key not in cache:
            cache[key] = by_formula(kind, r, key[0], winners, gaps, margin=margin, reach=reach)
        return cache[key]

    for q in bases:
        for move in neighbours(n, monotone=monotone):
            other = tuple(a + b for a, b in zip(q, move, strict=True))
            for winners, gaps in outputs(n, k, highest):
                p, p_other = at(q, winners, gaps), at(other, winners, gaps)
                if not p:
                    continue
                loss = math.inf if not p_other else -float_log(p / p_other) / float_log(r)
                if loss > worst:
                    worst, witness = loss, (q, other, winners, gaps)
    return worst, witness


def float_log(x):
    """Natural logarithm of a positive fraction without overflow."""
    return math.log(x.numerator) - math.log(x.denominator)
