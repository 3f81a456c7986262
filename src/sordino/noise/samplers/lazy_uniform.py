"""A uniform number whose binary digits are drawn only when a comparison asks, and its exponential variable.

Claim: `bounds` and `exponential` enclose U and -ln U for one and the same uniform U, however often more
digits are drawn.
Proof: docs/proofs/samplers.md, "Lazy uniform numbers".
Floats: none.
"""

from __future__ import annotations

from decimal import Decimal
from typing import final

from sordino.entropy import Entropy
from sordino.noise.probability import Bounds, contexts


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
        self.word, self.length = (self.word << 64) | int(self._entropy.words(1)[0]), self.length + 64

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
        """Return decimals at most and at least -ln U; the upper one is infinite while all digits are 0."""
        down, up = contexts(digits)
        low, high = self.bounds(digits)
        # The logarithm is correct to the last digit, so one step further out encloses it.
        most = up.minus(down.next_minus(down.ln(low))) if low else Decimal("Infinity")
        return max(down.minus(up.next_plus(up.ln(high))), Decimal(0)), most
