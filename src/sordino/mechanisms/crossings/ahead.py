"""Noise drawn in blocks and handed out one by one: each value once, then wiped.

Claim: the values handed out are independent draws of the law, and none is handed out twice. A block is drawn
from words that were drawn for it alone. Proof: docs/proofs/sparse-vector.md, "Streams".
Floats: none.
"""

from __future__ import annotations

from typing import final

from sordino.entropy import Entropy, renew
from sordino.noise import Sampler


@final
class Ahead:
    """Draws of a law, in blocks of `size`, twice as many each time, up to `most`."""

    __slots__ = ("_at", "_block", "_entropy", "_law", "_most", "_size")

    def __init__(self, law: Sampler, entropy: Entropy, size: int, most: int) -> None:
        self._law, self._entropy, self._size, self._most = law, entropy, size, most
        self._at = 0
        self._block: memoryview | list[int] = []

    def __repr__(self) -> str:
        # Nothing of what was drawn may show.
        return "Ahead()"

    def take(self) -> int:
        """Return the next draw."""
        if self._at == len(self._block):
            # Hours may have passed since the last block, and copies of this memory may have been made.
            renew(self._entropy)
            drawn = self._law.sample(self._size, self._entropy)
            # A view of the array itself, so that wiping it leaves no other copy.
            self._block = drawn.tolist() if drawn.dtype == object else drawn.data
            self._at, self._size = 0, min(2 * self._size, self._most)
        at = self._at
        # Before the draw is read: an interrupt may then lose a draw, but never hands one out twice.
        self._at = at + 1
        value: int = self._block[at]
        self._block[at] = 0
        return value

    def wipe(self) -> None:
        """Forget what was drawn ahead."""
        for i in range(self._at, len(self._block)):
            self._block[i] = 0
        self._at, self._block = 0, []
