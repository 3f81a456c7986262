"""Finds a logarithmic scale on which the edges of a geometric grid stand near whole numbers, as SQL."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.estimators import BucketGrid

# How far an edge may stand from its whole number. The proof
# in docs/proofs/numbers.md needs a quarter of a cell.
_SPARE = 0.25
# The same for even grids. It decides only how often the fast way is right, because its answer is checked.
_TIGHT = 1e-6
# Limits the table of cells that is sent, and the rounding errors of places (docs/proofs/numbers.md).
_MOST_CELLS = 1 << 22
_VALUE = "CAST(x AS DOUBLE)"


@final
@dataclass(frozen=True)
class Scale:
    """A logarithmic scale on which each inner edge of a grid is close to a whole number of its own.

    Parameters
    ----------
    sql : str
        The place of a value `x` on the scale.
    cells : array of int64, shape (K - 2,)
        The whole numbers of the inner edges; strictly increasing.
    ends : tuple of int
        Between them, ends included, are the cells of everything from the first edge up to the last.
    even : bool
        Whether the inner edges stand at whole numbers almost exactly, one after the other.
    """

    sql: str
    cells: NDArray[np.int64]
    ends: tuple[int, int]
    even: bool

    @classmethod
    def of(cls, grid: BucketGrid) -> Scale | None:
        """Return the scale of a grid, or None if it has none."""
        made = dict(grid.recipe)
        # Only grids that a rule made, with these four parameters, have a scale.
        if made.keys() != {"lower", "cap", "growth", "unit"}:
            return None
        lower, unit, growth = made["lower"], float(made["unit"] or 1), made["growth"] or Fraction(2)
        # Places that are not finite are refused below, so no warning is needed for them.
        with np.errstate(all="ignore"):
            factor = float(1 / np.log(float(growth)))
            if lower is None:
                places = np.copysign(np.log(1 + np.abs(grid.edges) / unit) * factor, grid.edges)
                sql = f"sign({_VALUE}) * ln(1 + abs({_VALUE}) / {_literal(unit)}) * {_literal(factor)}"
            else:
                places = np.log(1 + (grid.edges - float(lower)) / unit) * factor
                far = _VALUE if lower == 0 else f"({_VALUE} - {_literal(float(lower))})"
                sql = f"ln(1 + {far}{'' if unit == 1 else f' / {_literal(unit)}'}) * {_literal(factor)}"
        if not np.isfinite(places).all() or np.abs(places).max() > _MOST_CELLS:
            return None
        # All of this looks at public edges only. If the check
        # fails, the engine searches for the edge instead.
        cells = np.rint(places).astype(np.int64)
        # The first and the last edge need no cell: they are decided by comparison.
        inner = cells[1:-1]
        off, apart = np.abs(places - cells)[1:-1], np.diff(inner)
        if (off > _SPARE).any() or (apart <= 0).any():
            return None
        even = bool(inner.size) and not (off > _TIGHT).any() and not (apart > 1).any()
        # One more cell on either side, for the rounding of the engine's own logarithm.
        return cls(sql, inner, (int(cells[0]) - 1, int(cells[-1]) + 1), even)


def _literal(value: float) -> str:
    return f"CAST('{value!r}' AS DOUBLE)"
