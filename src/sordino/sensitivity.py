"""How much one unit can change the answers, as one value.

`spread` says how far two answers can part.

Claim: `spread` bounds how far two answers can move apart between neighbors.
Proof: docs/proofs/sensitivity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, final

from sordino.constraints import (
    ADJACENCY,
    COUNT,
    NORM,
    POSITIVE,
    POWER_OF_TWO,
    TRUTH,
    Number,
    to_fraction,
)
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
        Norm "each": the largest change of any one answer; "l1", "l2": of that norm of the whole
        vector. In the unit of the answers.
    monotone : bool
        True if all answers move in the same direction between any two neighbors: counts under
        add-remove. Under replace-one one unit leaves and another one comes, and answers move both
        ways: it must be False.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbors.
    norm : {"each", "l1", "l2"}
        What `bound` bounds.
    step : number, optional
        Public power of two that the answers are multiples of (1 for counts). Answers that are not
        are rounded down to it first, and an "l1" or "l2" bound must hold for the rounded answers.
        None: the mechanism picks a step in (scale/2^21, scale/2^20] and accounts for the rounding
        itself.
    size : int, optional
        How many answers an "l1" or "l2" bound is about. Needed to release a vector when `step` is
        None: rounding can move every answer by one step.
    l1, l2 : number, optional
        A second statement beside norm "each": a bound of that norm of all answers together, however
        many there are. With at most M items a unit, counts have l1 = M under add-remove and 2M
        under replace-one, where a unit leaves and another one comes. Two answers part by at most
        `l1` as well. Mechanisms that release all noisy answers, or select with two-sided noise,
        take it where it is the better one; sparse vectors never do
        (docs/proofs/hybrid-sparse-vector.md, "Few items a unit"). It must hold for the answers on
        the grid, so it needs a `step`.

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
    l1: Number | None = None
    l2: Number | None = None

    def __post_init__(self) -> None:
        name = "Sensitivity."
        POSITIVE(name + "bound", self.bound)
        TRUTH(name + "monotone", self.monotone)
        ADJACENCY(name + "adjacency", self.adjacency)
        NORM(name + "norm", self.norm)
        if self.monotone and self.adjacency == "replace-one":
            raise InvalidParameter(
                f"{name}monotone must be False under replace-one, where a unit leaves and another "
                "one comes, and answers move both ways; got True. It belongs to add-remove."
            )
        if self.step is not None:
            POWER_OF_TWO(name + "step", self.step)
        if self.size is not None:
            # The constraint makes a plain Python integer of one of NumPy.
            object.__setattr__(self, "size", COUNT(name + "size", self.size))
        for norm, bound in (("l1", self.l1), ("l2", self.l2)):
            if bound is not None:
                POSITIVE(name + norm, bound)
                self._check_second(norm)

    def _check_second(self, norm: str) -> None:
        """Raise `InvalidParameter` unless a second statement goes with norm "each" and a step."""
        if self.norm != "each":
            raise InvalidParameter(
                f"Sensitivity.{norm} is a second statement beside norm 'each'; got norm "
                f"{self.norm!r}, whose bound is about the whole vector already."
            )
        if self.step is None:
            raise InvalidParameter(
                f"Sensitivity.step must be given with {norm}, which is about answers on the grid; "
                "got None."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as JSON-ready values."""
        # JSON has no fractions.
        numbers = {
            "bound": float(self.bound),
            "step": None if self.step is None else float(self.step),
        }
        # A second statement is told where there is one.
        second = {
            name: float(bound)
            for name, bound in (("l1", self.l1), ("l2", self.l2))
            if bound is not None
        }
        return (
            {name: value for name, value in vars(self).items() if name not in ("l1", "l2")}
            | numbers
            | second
        )

    @property
    def spread(self) -> Fraction:
        """How far two answers can part between neighbors.

        `bound` if they are monotone, else twice that, or `l1` where that is less.
        """
        bound = POSITIVE("Sensitivity.bound", self.bound)
        return self.find_spread(Fraction(bound), Fraction(1))

    def find_spread(self, bound: Fraction, step: Fraction) -> Fraction:
        """Return how far two answers part that move by at most `bound` steps each, in steps."""
        # Not monotone: one answer may rise by the bound while the other one falls by it. Together
        # they move by no more than all of them (docs/proofs/sensitivity.md).
        apart = bound if self.monotone else 2 * bound
        return apart if self.l1 is None else min(apart, to_fraction(self.l1) / step)

    def over(self, k: int, norm: Norm = "l1") -> Sensitivity:
        """Return the statement about `k` of these answers released together.

        It takes the least bound that follows from what is stated of each answer and of all of them.

        Parameters
        ----------
        k : int
            How many answers, at least 1.
        norm : {"l1", "l2"}
            Which norm the statement is about.

        Raises
        ------
        InvalidParameter
            If `k` is not a whole number of at least 1 or this statement is already about a whole
            vector.
        """
        k = COUNT("Sensitivity.over.k", k)
        if self.norm != "each" or norm not in {"l1", "l2"}:
            raise InvalidParameter(
                "Sensitivity.over turns a statement about each answer (norm 'each') into one with "
                f"norm 'l1' or 'l2'; got norm {self.norm!r} to {norm!r}."
            )
        # In units of what one answer moves, so that a root is rounded alike in every unit of the
        # answers.
        each = self._each_on_grid()
        moved = (
            self._sum_moves(k)
            if norm == "l1"
            else each * _root_above(self._square_moves(k) / each**2)
        )
        return Sensitivity(
            bound=moved,
            monotone=self.monotone,
            adjacency=self.adjacency,
            norm=norm,
            step=self.step,
            size=k,
        )

    def _sum_moves(self, k: int) -> Fraction:
        """Return how far any `k` answers move together: the least of what the statements say."""
        bounds = [k * self._each_on_grid()]
        if self.l1 is not None:
            bounds.append(to_fraction(self.l1))
        if self.l2 is not None:
            # By Cauchy and Schwarz, at most sqrt(k) times the L2 norm.
            bounds.append(_root_above(k * to_fraction(self.l2) ** 2))
        return min(bounds)

    def _square_moves(self, k: int) -> Fraction:
        """Return how large the sum of the squares of the moves of any `k` answers is at most."""
        each = self._each_on_grid()
        squares = [k * each**2]
        if self.l1 is not None:
            # Each square is at most `each` times the move itself.
            squares.append(each * to_fraction(self.l1))
        if self.l2 is not None:
            squares.append(to_fraction(self.l2) ** 2)
        return min(squares)

    def _each_on_grid(self) -> Fraction:
        """Return how far one answer moves, rounded up to whole steps if the step is public."""
        each = to_fraction(self.bound)
        if self.step is None:
            return each
        step = to_fraction(self.step)
        return -(-each // step) * step


def _root_above(square: Fraction) -> Fraction:
    """Return a fraction at least the square root, exact for squares, else within 2^-60 of it."""
    top, bottom = square.numerator, square.denominator
    root, under = math.isqrt(top), math.isqrt(bottom)
    if root * root == top and under * under == bottom:
        return Fraction(root, under)
    # `isqrt` rounds down, so one more lies above; 120 bits under the root are 60 behind its point.
    return Fraction(math.isqrt(-(-(top << 120) // bottom)) + 1, 1 << 60)


COUNTING = Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1)
"""Counts under add-remove: each answer moves by at most one, all in the same direction."""
