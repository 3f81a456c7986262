"""Noises of a sum, one by one, as laws of tests have them."""

from __future__ import annotations

from collections import Counter

from sordino.figures.mixed_noise import reach


def reach_of(noises, wrong):
    """Return how far the sum of a list of noises reaches."""
    return reach(tuple(sorted(Counter(noises).items())), wrong)
