"""How rows of people were weighed, in a release.

Claim: none; docs/proofs/weighted-means.md says what weights are. Floats: none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from sordino.population import Population


@final
@dataclass(frozen=True, kw_only=True)
class Weights:
    """How rows of people were weighed, and how many people count beyond the clip; public.

    Attributes
    ----------
    cap : int
        A unit with more rows, in all groups together, counts as so many.
    bits : int
        A row has the weight floor(2^bits / max(rows of its unit, cap)).
    beyond : int or None
        About as many units' worth of rows are meant to lie beyond the clip; None without one.
    """

    cap: int
    bits: int
    beyond: int | None = None

    @property
    def rows_of_step(self) -> float:
        """As how many rows a step of a weight counts: `cap` are all of a unit."""
        return self.cap / (1 << self.bits)

    def tell(self, population: Population) -> Population:
        """Return what says of whom a release is, with these."""
        return replace(population, weight_cap=self.cap, units_beyond=self.beyond)
