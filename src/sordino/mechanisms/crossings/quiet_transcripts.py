"""What the sparse vectors without gaps share.

Their thresholds, their heights, and how a release is packed.

Claim: a release says which answers were above and how many were asked, and nothing else.
Proof: docs/proofs/gaussian-sparse-vector.md; docs/proofs/gumbel-sparse-vector.md.
Floats: none.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import Number
from sordino.cost import Cost
from sordino.grid import to_steps
from sordino.mechanisms.crossings.thresholds import Cut, cut_at, cuts_at
from sordino.releases import Positives


class Quiet:
    """A sparse vector without gaps."""

    threshold: Number
    step: Fraction

    def cut(self, threshold: Number | None = None) -> Cut:
        """Return a public threshold (None: the one of the mechanism) on the grid.

        Raises
        ------
        InvalidParameter
            If it is no finite number or lies beyond 2^52 steps, where answers are clamped.
        """
        return self._cut_at(self.threshold if threshold is None else threshold, "threshold")

    def _cut_at(self, threshold: Any, what: str) -> Cut:
        return cut_at(f"{type(self).__name__}.{what}", threshold, Fraction(0), self.step)

    def heights(self, answers: Any, thresholds: Any = None) -> NDArray[np.int64]:
        """Return how far answers lie above their public thresholds, in steps, shape (n,).

        Raises
        ------
        InvalidParameter
            As in `release`.
        """
        name, what = type(self).__name__, "release.thresholds"
        steps = np.atleast_1d(to_steps(answers, self.step, name))
        if thresholds is None:
            # Both are within 2^52 steps, so the difference fits 64 bits.
            return steps - self.cut().steps
        # A threshold for each question, rounded up to the grid like the one of the mechanism.
        cuts = cuts_at(
            f"{name}.{what}", thresholds, steps.size, lambda value: self._cut_at(value, what)
        )
        return steps - np.array([cut.steps for cut in cuts], dtype=np.int64)

    def _pack(
        self, places: NDArray[np.int64], asked: int, cost: Cost, *, simulated: bool
    ) -> Positives:
        """Return the release: gaps and estimates are NaN."""
        # NaN, not 0: no gap was released, and nobody should read one. There is one branch and one
        # pass.
        return Positives(
            indices=places,
            gaps=np.full(places.size, np.nan),
            branches=np.zeros_like(places),
            passes=np.ones_like(places),
            asked=asked,
            estimates=np.full(places.size, np.nan),
            mechanism=self,
            cost=cost,
            simulated=simulated,
        )
