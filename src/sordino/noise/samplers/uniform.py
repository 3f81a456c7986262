"""Uniform whole numbers below n.

Claim: each of 0..n-1 with probability exactly 1/n. Proof: docs/proofs/samplers.md. Floats: none.

A uniform number whose binary digits are drawn only when a comparison asks, and its exponential
variable.

Claim: `bounds` and `exponential` enclose U and -ln U for one and the same uniform U, however often
more digits are drawn. Proof: docs/proofs/samplers.md, "Lazy uniform numbers". Floats: none.
"""

from __future__ import annotations

from decimal import Decimal
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import COUNT
from sordino.entropy import Entropy
from sordino.noise.probability import Bounds, contexts

# ---- lazy uniform --------------------------------------------------------------------------------


@final
class LazyUniform:
    """A uniform number in (0, 1) whose first binary digits are `word`, `length` of them."""

    __slots__ = ("_entropy", "length", "word")

    def __init__(self, word: int, entropy: Entropy) -> None:
        self.word, self.length = word, 64
        self._entropy = entropy

    def extend(self) -> None:
        """Draw 64 more digits."""
        # The known digits stay, so what was decided with them stays true.
        self.word, self.length = (
            (self.word << 64) | int(self._entropy.words(1)[0]),
            self.length + 64,
        )

    @property
    def first(self) -> int:
        """Return the first 64 digits."""
        return self.word >> (self.length - 64)

    @property
    def digits(self) -> int:
        """Return with how many decimal digits the known binary ones are worth computing."""
        return self.length * 31 // 100 + 20

    def bounds(self, digits: int) -> Bounds:
        """Return decimals at most and at least U."""
        down, up = contexts(digits)
        # The digits that are not drawn add between nothing and one to the last known digit.
        scale = Decimal(1 << self.length)
        return down.divide(Decimal(self.word), scale), up.divide(Decimal(self.word + 1), scale)

    def exponential(self, digits: int) -> Bounds:
        """Return decimals at most and at least -ln U.

        The upper one is infinite while all digits are 0.
        """
        down, up = contexts(digits)
        low, high = self.bounds(digits)
        # The logarithm is correct to the last digit, so one step further out encloses it.
        most = up.minus(down.next_minus(down.ln(low))) if low else Decimal("Infinity")
        return max(down.minus(up.next_plus(up.ln(high))), Decimal(0)), most


def uniform_below(n: int, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return `size` independent uniform numbers of 0..n-1, shape (size,); 1 <= n <= 2^62.

    The low bits of a word are kept and drawn again while they are not below `n` (fewer than two
    tries on average).
    """
    n = COUNT("uniform_below.n", n)
    # The fewest low bits that hold n - 1: more than half of such words fit.
    mask = np.uint64((1 << (n - 1).bit_length()) - 1)
    drawn = np.empty(size, dtype=np.int64)
    missing = np.arange(size)
    while missing.size:
        # Words that are not below n are drawn again: to fold them back would favor some numbers.
        words = entropy.words(missing.size) & mask
        fits = words < np.uint64(n)
        drawn[missing[fits]] = words[fits].astype(np.int64)
        missing = missing[~fits]
    return drawn
