"""The probability of failure at a public margin where it is hardest, from above: closed forms of the exact laws.

Claim: each function bounds the probability that an item is selected that lies `gap` steps or more below those it should be among (that
a task fails), for all answers; it is attained where all others lie exactly so low. Proof: docs/proofs/accuracy.md.
Floats: none; decimals with directed rounding.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from sordino.mechanisms._gumbel_sparse_vector import weight
from sordino.noise._probability import contexts, exp_bounds

_DIGITS = 120
_RARE = Decimal("1e-60")  # differences keep sixty digits down to here


def exponential_failure(n: int, gap: int, rate: Fraction) -> Decimal:
    """Return P(one of n - 1 others) for the exponential mechanism, each with weight w = e^(-rate gap): (n - 1) w / (1 + (n - 1) w)."""
    down, up = contexts(_DIGITS)
    weight = up.multiply(n - 1, exp_bounds(rate * gap, _DIGITS)[1])
    return up.divide(weight, down.add(1, weight))


def permuted_failure(n: int, gap: int, rate: Fraction) -> Decimal:
    """Return E[N/(N + 1)] for the number N of n - 1 coins of probability p = e^(-rate gap): 1 - (1 - (1 - p)^n)/(n p)."""
    down, up = contexts(_DIGITS)
    p = exp_bounds(rate * gap, _DIGITS)[1]  # it rises with p
    if n == 1 or up.multiply(n, p) < _RARE:
        return up.divide(up.multiply(n - 1, p), 2)
    none = Decimal(0)
    if p < 1:
        log = up.next_plus(up.ln(up.subtract(1, p)))
        none = up.next_plus(up.exp(up.multiply(n, log)))
    return max(Decimal(0), up.subtract(1, down.divide(down.subtract(1, none), up.multiply(n, p))))


def peeled_failure(n: int, k: int, gap: int, rate: Fraction) -> Decimal:
    """Return P(one of n - k others among k draws without replacement): 1 - the product of j/(j + (n - k) w) over j = 1..k."""
    down, up = contexts(_DIGITS)
    others = up.multiply(n - k, exp_bounds(rate * gap, _DIGITS)[1])
    if up.multiply(k, others) < _RARE:  # each draw errs with probability at most (n - k) w
        return up.multiply(k, others)
    rightly = Decimal(1)
    for j in range(1, k + 1):
        rightly = down.multiply(rightly, down.divide(j, up.add(j, others)))
    return up.subtract(1, rightly)


def gumbel_failure(run: int, positives: int, low: int, high: int, rate: Fraction) -> Decimal:
    """Return 1 - P^positives, P = v/((1 + run w) (1 + run w + v)): `run` questions of height `low`, weight w, then one of `high`, v."""
    down, up = contexts(_DIGITS)
    passed = up.add(1, weight([low], [run], rate, _DIGITS)[1])
    found = weight([high], [1], rate, _DIGITS)[0]
    rightly = down.multiply(down.divide(1, passed), down.divide(found, up.add(passed, found)))
    if positives > 1 and rightly:
        rightly = down.next_minus(down.exp(down.multiply(positives, down.next_minus(down.ln(rightly)))))
    return up.subtract(1, max(rightly, Decimal(0)))
