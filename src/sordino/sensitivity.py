"""How much one unit can change the answers, as one value: `spread` replaces "factor two unless monotone".

Claim: `spread` bounds how far two answers can move apart between neighbors.
Proof: docs/proofs/sensitivity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, final

from sordino.constraints import ADJACENCY, COUNT, NORM, POSITIVE, POWER_OF_TWO, TRUTH, Number
from sordino.errors import InvalidParameter

Adjacency = Literal["add-remove", "replace-one"]
Norm = Literal["each", "l1", "l2"]


@final
@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """How much the answers can differ between two neighboring data sets.

    Parameters
    ----------
    bound : number
        Norm "each": the largest change of any one answer; "l1", "l2": of that norm of the whole vector. In
        the unit of the answers.
    monotone : bool
        True if all answers move in the same direction between any two neighbors (counts under add-remove).
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbors.
    norm : {"each", "l1", "l2"}
        What `bound` bounds.
    step : number, optional
        Public power of two that the answers are multiples of (1 for counts). Answers that are not are rounded
        down to it first, and an "l1" or "l2" bound must hold for the rounded answers. None: the mechanism
        picks a step in (scale/2^21, scale/2^20] and accounts for the rounding itself.
    size : int, optional
        How many answers an "l1" or "l2" bound is about. Needed to release a vector when `step` is None:
        rounding can move every answer by one step.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> from sordino import Sensitivity
    >>> Sensitivity(bound=1, monotone=False, adjacency="replace-one").spread
    Fraction(2, 1)
    """

    bound: Number
    monotone: bool
    adjacency: Adjacency
    norm: Norm = "each"
    step: Number | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        name = "Sensitivity."
        POSITIVE(name + "bound", self.bound)
        TRUTH(name + "monotone", self.monotone)
        ADJACENCY(name + "adjacency", self.adjacency)
        NORM(name + "norm", self.norm)
        if self.step is not None:
            POWER_OF_TWO(name + "step", self.step)
        if self.size is not None:
            # The constraint makes a plain Python integer of one of NumPy.
            object.__setattr__(self, "size", COUNT(name + "size", self.size))

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as JSON-ready values."""
        # JSON has no fractions.
        numbers = {"bound": float(self.bound), "step": None if self.step is None else float(self.step)}
        return {**vars(self), **numbers}

    @property
    def spread(self) -> Fraction:
        """How far two answers can move apart between neighbors: `bound` if monotone, else twice that."""
        bound = POSITIVE("Sensitivity.bound", self.bound)
        # Not monotone: one answer may rise by the bound while the other one falls by it.
        # docs/proofs/sensitivity.md
        return Fraction(bound if self.monotone else 2 * bound)

    def over(self, k: int, norm: Norm = "l1") -> Sensitivity:
        """Return the statement about `k` of these answers released together.

        Parameters
        ----------
        k : int
            How many answers, at least 1.
        norm : {"l1", "l2"}
            Which norm the statement is about.

        Raises
        ------
        InvalidParameter
            If `k` is not a whole number of at least 1 or this statement is already about a whole vector.
        """
        k = COUNT("Sensitivity.over.k", k)
        if self.norm != "each" or norm not in {"l1", "l2"}:
            raise InvalidParameter(
                "Sensitivity.over turns a statement about each answer (norm 'each') into one with norm "
                f"'l1' or 'l2'; got norm {self.norm!r} to {norm!r}."
            )
        each = POSITIVE("Sensitivity.bound", self.bound)
        # The bound must hold on the grid, where one answer moves by whole steps.
        if self.step is not None:
            step = POWER_OF_TWO("Sensitivity.step", self.step)
            each = -(-each // step) * step
        # The root is rounded up, so that the bound of the vector is never too small.
        bound = each * (k if norm == "l1" else _square_root_above(k))
        return Sensitivity(
            bound=bound, monotone=self.monotone, adjacency=self.adjacency, norm=norm, step=self.step, size=k
        )


def _square_root_above(k: int) -> Fraction:
    """Return a fraction at least the square root of `k`, exact for squares, within 2^-60 of it otherwise."""
    root = math.isqrt(k)
    if root * root == k:
        return Fraction(root)
    # `isqrt` rounds down, so one more lies above; 120 bits under the root are 60 behind its point.
    return Fraction(math.isqrt(k << 120) + 1, 1 << 60)


COUNTING = Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1)
"""Counts under add-remove: each answer moves by at most one, all in the same direction."""
