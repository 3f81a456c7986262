"""Losses and hockey sticks by routes that share no code with the product: 50 digits, and plays against an adaptive adversary."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import mpmath

DIGITS = 50


def mp(x):
    """The exact number behind a fraction or a decimal text."""
    return mpmath.mpf(x.numerator) / x.denominator if hasattr(x, "numerator") else mpmath.mpf(x)


def two_points(low, high):
    """The pair with losses -low and high as [(loss, P, Q)]."""
    low, high = mp(low), mp(high)
    q = (1 - mpmath.exp(-low)) / (mpmath.exp(high) - mpmath.exp(-low))
    return [(high, q * mpmath.exp(high), q), (-low, (1 - q) * mpmath.exp(-low), 1 - q)]


def swapped(law):
    """The same pair in the other order."""
    return [(-loss, q, p) for loss, p, q in law]


def both_orders(law):
    """The law of the larger curve of a pair and its mirror, by its corners: slopes of the maximum of two hockey sticks.

    For a two-point pair the two curves cross at 1 only, so the corners are there and where either curve starts or ends.
    """
    ratios = sorted({mpmath.mpf(1), *(mpmath.exp(loss) for loss, _, _ in [*law, *swapped(law)])})
    top = [max(stick(law, mpmath.log(g)), stick(swapped(law), mpmath.log(g))) for g in ratios]
    slopes = [
        mpmath.mpf(-1),
        *((top[i + 1] - top[i]) / (ratios[i + 1] - ratios[i]) for i in range(len(ratios) - 1)),
        mpmath.mpf(0),
    ]
    masses = [slopes[i + 1] - slopes[i] for i in range(len(ratios))]
    return [
        (mpmath.log(g), g * q, q)
        for g, q in zip(ratios, masses, strict=True)
        if q > mpmath.mpf(10) ** -40
    ]


def times(*laws):
    """Independent product, equal losses joined."""
    result = {mpmath.mpf(0): (mpmath.mpf(1), mpmath.mpf(1))}
    for law in laws:
        joined = {}
        for (loss, (p, q)), (more, p2, q2) in product(result.items(), law):
            key = mpmath.nstr(loss + more, 30)
            old = joined.get(key, (loss + more, mpmath.mpf(0), mpmath.mpf(0)))
            joined[key] = (old[0], old[1] + p * p2, old[2] + q * q2)
        result = {loss: (p, q) for loss, p, q in joined.values()}
    return [(loss, p, q) for loss, (p, q) in result.items()]


def stick(law, epsilon):
    """delta(epsilon) of a finite law."""
    threshold = mpmath.exp(mp(epsilon))
    return sum((p - threshold * q for loss, p, q in law if p > threshold * q), mpmath.mpf(0))


def moment(law, alpha):
    """The Renyi divergence of order alpha."""
    alpha = mp(alpha)
    return mpmath.log(sum(q * mpmath.exp(alpha * loss) for loss, _, q in law)) / (alpha - 1)


def best_play(pairs, rounds, gamma):
    """The largest hockey stick that an adversary reaches who picks, each time by what was seen, one of `pairs`; by backward induction.

    `pairs` are lists of (P, Q) masses; gamma multiplies Q. Returns max sum (P - gamma Q)^+ over decision trees.
    """

    def value(p, q, left):
        if not left:
            return max(p - gamma * q, 0.0)
        return max(sum(value(p * a, q * b, left - 1) for a, b in pair) for pair in pairs)

    return value(1.0, 1.0, rounds)


def turned(low, high, count):
    """The law of `count` intervals whose orders turn, by the value of the game at every sum of losses; recursion without a grid."""
    low, high = Fraction(low), Fraction(high)
    orders = [
        [(high, two_points(low, high)[0][2]), (-low, two_points(low, high)[1][2])],
        [(low, two_points(high, low)[0][2]), (-high, two_points(high, low)[1][2])],
    ]

    @cache
    def value(loss, left):
        """The largest mean under Q of (ratio - 1)^+ after `left` more parts."""
        if not left:
            return max(mpmath.exp(mp(loss)) - 1, mpmath.mpf(0))
        return max(sum(q * value(loss + more, left - 1) for more, q in one) for one in orders)

    # One part has corners at its ends and, where its two orders cross, at 0: all have them at sums of these.
    losses = {Fraction(0)}
    for _ in range(count):
        losses = {loss + more for loss in losses for more in (0, low, high, -low, -high)}
    losses = sorted(losses)
    ratios = [mpmath.exp(mp(loss)) for loss in losses]
    curve = [ratio * value(-loss, count) for loss, ratio in zip(losses, ratios, strict=True)]
    slopes = [
        mpmath.mpf(-1),
        *((curve[i + 1] - curve[i]) / (ratios[i + 1] - ratios[i]) for i in range(len(ratios) - 1)),
        mpmath.mpf(0),
    ]
    masses = [slopes[i + 1] - slopes[i] for i in range(len(ratios))]
    # Where there is no corner a difference of slopes is 0 up to its last digits.
    return [
        (mp(loss), r * q, q)
        for loss, r, q in zip(losses, ratios, masses, strict=True)
        if q > mpmath.mpf(10) ** -40
    ]


def best_list(kinds, counts, gamma):
    """The largest hockey stick of an adversary who picks, by what was seen, the next part of a list and its order.

    `kinds` are lists of pairs as in `best_play`; part i may be played `counts[i]` times.
    """

    @cache
    def value(p, q, left):
        stop = max(p - gamma * q, 0.0)
        plays = (
            sum(value(p * a, q * b, (*left[:i], left[i] - 1, *left[i + 1 :])) for a, b in pair)
            for i, pairs in enumerate(kinds)
            if left[i]
            for pair in pairs
        )
        return max(stop, *plays) if any(left) else stop

    return value(1.0, 1.0, tuple(counts))
