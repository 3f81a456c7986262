"""Prepares a list for a sparse vector without gaps, and packs what it found into a release.

Claim: a release says which answers were above and how many were asked, and nothing else.
Proof: docs/proofs/gaussian-sparse-vector.md; docs/proofs/gumbel-sparse-vector.md.
Floats: none.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.cost import Cost
from sordino.grid import to_steps
from sordino.mechanisms.crossings.thresholds import Cut, cut_at, cuts_at
from sordino.releases import Positives


class Quiet(Protocol):
    """A sparse vector without gaps."""

    @property
    def threshold(self) -> Any:
        """The public threshold, in the unit of the answers."""
        ...

    @property
    def step(self) -> Fraction:
        """Width of the grid."""
        ...


def quiet_cut(mechanism: Quiet, threshold: Any, what: str = "threshold") -> Cut:
    """Return a public threshold on the grid.

    Raises
    ------
    InvalidParameter
        If it is no finite number or lies beyond 2^52 steps, where answers are clamped.
    """
    return cut_at(f"{type(mechanism).__name__}.{what}", threshold, Fraction(0), mechanism.step)


def quiet_heights(mechanism: Quiet, answers: Any, thresholds: Any) -> NDArray[np.int64]:
    """Return how far answers lie above their public thresholds, in steps, shape (n,).

    Raises
    ------
    InvalidParameter
        If the answers are not a list of at least one number, or thresholds do not go with them.
    """
    steps = np.atleast_1d(to_steps(answers, mechanism.step, type(mechanism).__name__))
    if thresholds is None:
        # Both are within 2^52 steps, so the difference fits 64 bits.
        return steps - quiet_cut(mechanism, mechanism.threshold).steps
    what = "release.thresholds"
    # A threshold for each question, rounded up to the grid like the one of the mechanism.
    cuts = cuts_at(
        f"{type(mechanism).__name__}.{what}",
        thresholds,
        steps.size,
        lambda value: quiet_cut(mechanism, value, what),
    )
    return steps - np.array([cut.steps for cut in cuts], dtype=np.int64)


def quiet_positives(
    mechanism: Quiet, places: NDArray[np.int64], asked: int, cost: Cost, *, simulated: bool
) -> Positives:
    """Return the release: gaps and estimates are NaN."""
    # NaN, not 0: no gap was released, and nobody should read one. There is one branch and one pass.
    return Positives(
        indices=places,
        gaps=np.full(places.size, np.nan),
        branches=np.zeros_like(places),
        passes=np.ones_like(places),
        asked=asked,
        estimates=np.full(places.size, np.nan),
        mechanism=mechanism,
        cost=cost,
        simulated=simulated,
    )
