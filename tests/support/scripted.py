"""Entropy that plays words from a list, so that a sampler can be enumerated word by word."""

from __future__ import annotations

import numpy as np


class Scripted:
    """Plays `words` in order, then fails."""

    simulated = True

    def __init__(self, words):
        self.left = np.asarray(words, dtype=np.uint64)

    def words(self, n):
        assert n <= self.left.size, "the script is over"
        played, self.left = self.left[:n].copy(), self.left[n:]
        return played
