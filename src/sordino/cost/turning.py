"""The law of many intervals of privacy loss whose order may turn from part to part.

The order may turn by what was released.

Claim: the law returned dominates `count` parts of loss in [-low, high] or [-high, low], each in an
order that may depend on what the parts before it released. Proof: docs/proofs/dominating-pairs.md
("Orders that turn").
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from sordino.cost.base import Cost
from sordino.cost.range import Range, masses

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Cells of the longest law: it has twice as many points, and they are found one after the other.
CELLS_OF_LAW = 1 << 14
# Cells times rounds, which is how much work a law takes: a quarter of a second.
WORK_OF_LAW = 1 << 24
# An end that misses the grid is raised to it, by at most this share of the larger end where there
# is room.
_FINE_SHARE = Fraction(1, 1 << 13)
# The largest relative error of one operation on floats.
_UNIT_ROUNDOFF = 2.0**-53


def turns(part: Cost, texts: Container[str]) -> bool:
    """Tell whether the part is an interval whose order may depend on what was released before.

    It does not turn if both ends are equal, or if its orientation is one of `texts`.
    """
    return isinstance(part, Range) and part.low != part.high and part.orientation not in texts


def find_turning(
    parts: Iterable[tuple[Cost, int]], texts: Container[str]
) -> dict[tuple[Fraction, Fraction], int]:
    """Return how many intervals turn, by their smaller and larger end.

    Which end is which does not matter.
    """
    found: dict[tuple[Fraction, Fraction], int] = {}
    for part, count in parts:
        if isinstance(part, Range) and turns(part, texts):
            ends = min(part.low, part.high), max(part.low, part.high)
            found[ends] = found.get(ends, 0) + count
    return found


class Grid(NamedTuple):
    """Both ends in cells of one width, which is the larger end divided by `most`.

    The smaller end has `fewer` cells, rounded up.
    """

    fewer: int
    most: int


def fit_grid(ratio: Fraction, finest: int) -> Grid | None:
    """Return the coarsest grid that meets `ratio` closely, or the closest one.

    None without any room.

    Parameters
    ----------
    ratio : Fraction
        The smaller end divided by the larger one, in (0, 1).
    finest : int
        The most cells that the larger end may have.
    """
    top, bottom = ratio.as_integer_ratio()
    best, least = None, Fraction(1)
    for most in range(1, finest + 1):
        # Up: a wider interval has the larger curve.
        fewer = -(-top * most // bottom)
        lead = Fraction(fewer * bottom - top * most, most * bottom)
        if best is None or lead < least:
            best, least = Grid(fewer, most), lead
        if lead <= _FINE_SHARE:
            break
    return best


def find_grid(other: Fraction, top: Fraction, count: int, finest: int) -> Grid | None:
    """Return the grid on which `count` parts with the ends `other` < `top` are summed.

    None without room.
    """
    room = min(finest // count, WORK_OF_LAW // count**2)
    return fit_grid(other / top, room)


@lru_cache(maxsize=32)
def turning_masses(top: Fraction, count: int, grid: Grid) -> tuple[float, ...]:
    """Return the masses of the law at the losses -n, ..., n cells, n = `count` times `grid.most`.

    They are rounded up: delta is sum of mass (1 - e^(epsilon - loss)) over the losses above
    epsilon.

    Parameters
    ----------
    top : Fraction
        The larger end, in nats, above 0; count * top at most 600.
    count : int
        How many parts there are, at least 1.
    grid : Grid
        The cells, as `find_grid` gives them.
    """
    cells = count * grid.most
    curve = _curve_of_turns(top, count, grid)
    above = _masses_above(curve, float(top / grid.most))
    # The law is its own mirror image: what is at a loss under one law is at its negative under the
    # other.
    below = [mass * math.exp(-float(top / grid.most * j)) for j, mass in enumerate(above, 1)]
    middle = max(0.0, 1 - math.fsum(above) - math.fsum(below))
    # A round multiplies and adds; its masses rest on exponentials of losses, which round as they
    # are large.
    lost = (count * (16 + 4 * float(top)) + 16 * cells) * _UNIT_ROUNDOFF
    return tuple(mass * (1 + lost) for mass in (*reversed(below), middle, *above))


def _curve_of_turns(top: Fraction, count: int, grid: Grid) -> Floats:
    """Return delta at 0, 1, ... cells, for the player who picks the order of every part.

    The player picks it by what came before. Under the first law u_k(x) is what can be reached with
    k parts left and a loss of x so far: u_0(x) = (1 - e^-x)^+, and u_k(x) is the larger mean of
    u_{k-1} after one part in either order. Then delta at a loss of j cells is u_n at -j cells.
    """
    import numpy as np  # noqa: PLC0415  (costs load nothing until there is a law to sum)

    small, large = float(top / grid.most * grid.fewer), float(top)
    falls_small, rises_large = masses(small, large)
    falls_large, rises_small = masses(large, small)
    width, cells = grid.most + grid.fewer, count * grid.most
    # With k parts left u is 0 below -k * most cells: the array begins there, and moves down by
    # `most` a part. So after the larger rise a loss stands where it stood, and after the others
    # further down.
    worth = -np.expm1(-np.arange(cells + 1) * float(top / grid.most))
    for _ in range(count):
        there = rises_large * worth + falls_small * _moved(worth, width)
        back = rises_small * _moved(worth, grid.most - grid.fewer) + falls_large * _moved(
            worth, 2 * grid.most
        )
        worth = np.maximum(there, back)
    turned: Floats = worth[::-1]
    return turned


def _moved(worth: Floats, places: int) -> Floats:
    """Return the array moved up by some places, with zeros below."""
    import numpy as np  # noqa: PLC0415

    result = np.zeros_like(worth)
    if places < worth.size:
        result[places:] = worth[: worth.size - places]
    return result


def _masses_above(curve: Floats, cell: float) -> list[float]:
    """Return masses at 1, 2, ... cells whose curve is at least `curve` at every cell and between.

    With A the mass above j cells, the curve there is e^-cell times the curve one cell further up,
    plus (1 - e^-cell) A. Solved for A from the end: where rounding would make a mass negative it is
    0, the curve comes out larger, and the next mass is smaller for it.
    """
    share, kept = -math.expm1(-cell), math.exp(-cell)
    found: list[float] = []
    reached = above = 0.0
    for wanted in curve[-2::-1].tolist():
        needed = max(above, (wanted - kept * reached) / share)
        found.append(needed - above)
        reached, above = kept * reached + share * needed, needed
    return found[::-1]
