"""Figures that are made of released figures: how their noises add up, and what may be said of them.

All of it is post-processing: nothing is read, and nothing is spent.
"""

from __future__ import annotations

from sordino.figures.derived_value import (
    Derivable as Derivable,
    DerivedValue as DerivedValue,
    DerivedValues as DerivedValues,
    derive as derive,
    derive_all as derive_all,
    state as state,
)
from sordino.figures.mixed_noise import find_far as find_far
from sordino.figures.ratio import Ratio as Ratio
from sordino.figures.terms import (
    Combination as Combination,
    Origin as Origin,
    Term as Term,
    read_terms as read_terms,
)

__all__ = [
    "Combination",
    "Derivable",
    "DerivedValue",
    "DerivedValues",
    "Origin",
    "Ratio",
    "Term",
    "derive",
    "derive_all",
    "find_far",
    "read_terms",
    "state",
]
