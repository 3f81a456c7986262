"""Coins with exact bias: one probability for all draws, or exp(-x) with an x for each draw.

Claim: each draw is True with probability exactly p. Proof: docs/proofs/samplers.md.
Noise: 16-bit (64-bit) words, compared with the binary digits of p and refined without end on equality.
Floats: a float may only propose; inside a certified band the digits of p decide.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.noise.probability import Probability

# Relative error allowed to the float proposal of exp(-x): x itself is good to 2^-44 and exp to a few 2^-53;
# 2^-38 is 64 times as much.
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
        # Once in 2^16 draws: 64 more digits of both, and so on without an end, so that the law is exact.
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
        The numbers x_i >= 0, with an absolute error of at most 2^-44 (or a relative one, whichever is
        larger).
    exact : callable
        Returns the exact rational x_i for a position i; called for the few draws that a float cannot decide.
    """
    words = entropy.words(proposed.size)
    uniform = words.astype(np.float64) * 2.0**-64  # within 2^-53 relative of the true leading digits
    guess = np.exp(-proposed)
    slack = BAND * np.maximum(1.0, proposed)
    # Certain whatever the floats may have lost; what lies in the band between is decided by exact digits.
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
