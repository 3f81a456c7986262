"""The base of mechanisms with a continuous law: what the auditor asks of them, and what it gets.

It gets outputs in cells, and a bound of the rest.

Claim: none of its own; the fields say what has to hold. Floats: none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np

from sordino.constraints import exact, shown
from sordino.cost import Cost
from sordino.errors import InvalidParameter
from sordino.sensitivity import Sensitivity
from sordino_audit.continuous.cells import Cells, atom
from sordino_audit.continuous.enclosures import bound_total, log
from sordino_audit.continuous.integrals import CellBudget

# Probabilities of a law that a caller gives may be off by roundings; more than this above 1 is no
# law.
_MASS_TOLERANCE = 1e-9


@final
@dataclass(frozen=True, kw_only=True)
class Asked:
    """What an audit asks for.

    Attributes
    ----------
    slack : float
        How far apart the bounds of the largest log ratio may be.
    tail : float
        The probability that may be left out where outputs have no end.
    budget : Budget
        How many cells may be looked at.
    cuts : tuple of float or None
        Where the outputs are cut into classes.
    """

    slack: float
    tail: float
    budget: CellBudget
    cuts: tuple[float, ...] | None


@final
@dataclass(frozen=True, kw_only=True)
class Compared:
    """The laws of two neighbors, cell by cell.

    Attributes
    ----------
    cells : sequence of (label, Cells)
        Labels are the outputs, or what they have beside a number.
    unresolved : float
        Upper bound of the probability, under either law, of all outputs that are in no cell.
    outside : tuple of float
        Upper bounds of the log ratio of those, a/b and b/a; inf if nothing is known.
    assumed : str
        What all of this rests on, in words.
    """

    cells: Sequence[tuple[Any, Cells]]
    unresolved: float
    outside: tuple[float, float]
    assumed: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Continuous(ABC):
    """A mechanism whose outputs have a density, or whose noise has one."""

    cost: Cost
    cost_of: Callable[[Any], Cost] | None = None
    sensitivity: Sensitivity | None = None
    name: str = ""

    def __repr__(self) -> str:
        return self.name or type(self).__name__

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if isinstance(self.cost, type) or not isinstance(self.cost, Cost):
            raise InvalidParameter(
                f"{kind}.cost must be a cost, such as cost.Pure(epsilon=1); got {shown(self.cost)}."
            )
        if self.cost_of is not None and not callable(self.cost_of):
            raise InvalidParameter(f"{kind}.cost_of must be a function; got {shown(self.cost_of)}.")
        if not isinstance(self.sensitivity, Sensitivity | None):
            raise InvalidParameter(
                f"{kind}.sensitivity must be a Sensitivity or None; got {shown(self.sensitivity)}."
            )

    @abstractmethod
    def compared(self, a: Any, b: Any, asked: Asked) -> Compared:
        """Return the laws of two neighbors, cell by cell."""


def points(values: Any, name: str) -> tuple[float, ...] | None:
    """Return where outputs are cut into classes: floats that rise."""
    if values is None:
        return None
    numbers = (
        [exact(value) for value in values]
        if isinstance(values, Iterable) and not isinstance(values, str)
        else [None]
    )
    # Cuts become floats, and have to rise as floats: two numbers may be nearest to the same one.
    found = tuple(float(x) for x in numbers if x is not None)
    if not numbers or len(found) < len(numbers) or any(x >= y for x, y in pairwise(found)):
        raise InvalidParameter(
            f"{name} must be a list of rising numbers, where the outputs of a continuous law are "
            "cut into classes."
        )
    return found


def classes(
    label: Any, cuts: Sequence[float], sides: Sequence[Sequence[tuple[float, float]]]
) -> list[tuple[Any, Cells]]:
    """Return the classes below, between and above the cuts as outputs.

    `sides` are bounds of their probabilities under both laws.
    """
    ends = ["-inf", *(f"{cut:g}" for cut in cuts), "inf"]
    words = [f"({one}, {other}]" for one, other in pairwise(ends)]
    found = []
    for word, *probabilities in zip(words, *sides, strict=True):
        logs = [log((np.array([low]), np.array([high]))) for low, high in probabilities]
        a, b = ((float(low[0]), float(high[0])) for low, high in logs)
        # A class is an output like any other, with bounds of its probability.
        found.append((word if label is None else (label, word), atom(a, b)))
    return found


def rest(masses: Iterable[Any], owner: str) -> float:
    """Return how much probabilities that are at least these leave to 1, at most.

    Refuse more than 1.
    """
    known = bound_total(
        np.concatenate([np.atleast_1d(np.asarray(mass, dtype=float)) for mass in masses]), up=False
    )
    if known > 1 + _MASS_TOLERANCE:
        raise InvalidParameter(
            f"{owner} must be a probability law; its parts have a probability of at least "
            f"{known:.9g}."
        )
    # The difference is rounded: what is added is more than that.
    return max(0.0, 1 - known + 2.0**-50)
