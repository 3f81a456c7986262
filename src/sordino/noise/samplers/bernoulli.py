"""Coins with exact bias: one probability for all draws, or exp(-x) with an x for each draw.

Claim: each draw is True with probability exactly p. Proof: docs/proofs/samplers.md. Noise: 16-bit
(64-bit) words, compared with the binary digits of p and refined without end on equality. Floats: a
float may only propose; inside a certified band the digits of p decide.

The exact number of successes among n independent trials, for a probability with certified digits.

Claim: `binomial` returns j with probability exactly C(n, j) p^j (1-p)^(n-j). Proof:
docs/proofs/samplers.md. Noise: one uniform number, extended without end; it is compared with an
enclosure of the cumulative sum. Floats: none.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.noise.probability import Enclosure, Probability, contexts

# ---- binomial ------------------------------------------------------------------------------------


# Binary digits of U that are drawn together.
_BITS_AT_ONCE = 192


def binomial(n: int, p: Enclosure, entropy: Entropy) -> int:
    """Return the number of successes of `n` >= 0 trials of probability `p` < 1.

    The work grows with the result, not with `n`.
    """
    word, length = 0, 0
    while True:
        for extra in entropy.words(_BITS_AT_ONCE // 64).tolist():
            word, length = (word << 64) | extra, length + 64
        # All digits so far stay: a longer start of the same U is tried, so the comparison is exact
        # when it is made.
        found = _invert_cdf(n, p, word, length)
        if found is not None:
            return found


def _invert_cdf(n: int, p: Enclosure, word: int, length: int) -> int | None:
    """Return the j with C(j-1) <= U < C(j) for every U that begins with these digits.

    None if they are too few to tell.
    """
    # What the binary digits are worth in decimal ones, and some for the roundings of a sum of up to
    # n terms.
    digits = length * 31 // 100 + len(str(n)) + 20
    down, up = contexts(digits)
    p_low, p_high = p(digits)
    if p_high >= 1:  # closer to 1 than these digits can tell
        return None
    p_low = max(p_low, Decimal(0))
    at_least = down.divide(Decimal(word), Decimal(1 << length))
    at_most = up.divide(Decimal(word + 1), Decimal(1 << length))
    # (1 - p)^n falls with p, while the odds p/(1 - p) rise: each bound takes the end of p that
    # moves it outward.
    low, high = _chance_of_none(n, p_high, down), _chance_of_none(n, p_low, up)
    odds_low = down.divide(p_low, up.subtract(1, p_low))
    odds_high = up.divide(p_high, down.subtract(1, p_high))
    sum_low, sum_high = low, high
    for j in range(n):
        # Certainly below this sum, and, as the loop came here, certainly not below the one before.
        if at_most <= sum_low:
            return j
        # Neither certainly below this sum nor certainly at or above it.
        if at_least < sum_high:
            return None
        # From P(j) to P(j + 1): times (n - j)/(j + 1) and the odds.
        low = down.multiply(
            low, down.multiply(odds_low, down.divide(Decimal(n - j), Decimal(j + 1)))
        )
        high = up.multiply(high, up.multiply(odds_high, up.divide(Decimal(n - j), Decimal(j + 1))))
        sum_low, sum_high = down.add(sum_low, low), up.add(sum_high, high)
    # The sum of all probabilities is 1, which U stays below.
    return n


def _chance_of_none(n: int, p: Decimal, context: Context) -> Decimal:
    """Return (1-p)^n rounded the way `context` rounds.

    ln and exp are correct to the last digit, so one step beyond is safe.
    """
    beyond = context.next_minus if context.rounding == "ROUND_FLOOR" else context.next_plus
    log = beyond(context.ln(context.subtract(1, p)))
    return min(beyond(context.exp(context.multiply(Decimal(n), log))), Decimal(1))


# Relative error allowed to the float proposal of exp(-x): x itself is good to 2^-44 and exp to a
# few 2^-53; 2^-38 is 64 times as much.
BAND = 2.0**-38


def halfwords(n: int, entropy: Entropy) -> NDArray[np.uint16]:
    """Return `n` uniform 16-bit words, shape (n,)."""
    # Each word of 64 bits is cut into four.
    return entropy.words(-(-n // 4)).view(np.uint16)[:n]


def bernoulli(p: Probability, n: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Return `n` independent coins that are True with probability exactly `p` < 1, shape (n,)."""
    return is_below(halfwords(n, entropy), p, entropy)


def is_below(words: NDArray[np.uint16], p: Probability, entropy: Entropy) -> NDArray[np.bool_]:
    """Return whether the uniform numbers that begin with these 16-bit words lie below `p` < 1.

    Where the first digits are equal, further ones are drawn.
    """
    first = p.bits(16)
    coins: NDArray[np.bool_] = words < first
    equal = np.flatnonzero(words == first)
    depth = 16
    while equal.size:
        # Once in 2^16 draws: 64 more digits of both, and so on without an end, so that the law is
        # exact.
        further = entropy.words(equal.size)
        digits = np.uint64(p.word(depth, 64))
        coins[equal] = further < digits
        equal = equal[further == digits]
        depth += 64
    return coins


def bernoulli_exp(
    proposed: NDArray[np.float64], exact: Callable[[int], Fraction], entropy: Entropy
) -> NDArray[np.bool_]:
    """Return independent coins that are True with probability exactly exp(-x_i), shape (n,).

    Parameters
    ----------
    proposed : array of float, shape (n,)
        The numbers x_i >= 0, with an absolute error of at most 2^-44 (or a relative one, whichever
        is larger).
    exact : callable
        Returns the exact rational x_i for a position i; called for the few draws that a float
        cannot decide.
    """
    words = entropy.words(proposed.size)
    uniform = (
        words.astype(np.float64) * 2.0**-64
    )  # within 2^-53 relative of the true leading digits
    guess = np.exp(-proposed)
    slack = BAND * np.maximum(1.0, proposed)
    # Certain whatever the floats may have lost; what lies in the band between is decided by exact
    # digits.
    coins: NDArray[np.bool_] = uniform < guess * (1 - slack) - 2.0**-62
    undecided = np.flatnonzero(~coins & (uniform <= guess * (1 + slack) + 2.0**-62))
    for i in undecided.tolist():
        # The same U with more digits: nothing is drawn anew.
        coins[i] = _decide_below(int(words[i]), Probability.exp(exact(i)), entropy)
    return coins


def _decide_below(word: int, p: Probability, entropy: Entropy) -> bool:
    """Return whether a uniform number that begins with the 64 digits of `word` lies below `p`."""
    depth = 64
    while word == p.bits(depth):
        # Equal so far: 64 more digits of both.
        word = (word << 64) | int(entropy.words(1)[0])
        depth += 64
    return word < p.bits(depth)
