"""Uniform whole numbers below n.

Claim: each of 0..n-1 with probability exactly 1/n. Proof: docs/proofs/samplers.md. Floats: none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import COUNT
from sordino.entropy import Entropy


def uniform_below(n: int, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return `size` independent uniform numbers of 0..n-1, shape (size,); 1 <= n <= 2^62.

    The low bits of a word are kept and drawn again while they are not below `n` (fewer than two tries on
    average).
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
