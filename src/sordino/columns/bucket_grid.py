"""The public edges that cut the numbers into buckets: computed once, and the same on every machine.

Claim: the bucket of a record is a function of this record alone. Proof:
docs/proofs/bucket-counts.md. Floats: edges come out of decimal arithmetic that is specified to the
last digit, and are rounded once; which bucket a value is in is decided by comparison with them,
which is exact.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import CUTS, FINITE, GROWTH, POSITIVE, TRUTH, Number, shown
from sordino.errors import InvalidParameter
from sordino.releases import short_repr

MOST_EDGES = 1 << 20
_CELLS_TOGETHER = 1 << 20
_LARGEST_EDGE = Fraction(sys.float_info.max)
# The same digits on every machine: this arithmetic is specified to the last one, unlike powers of
# floats (docs/proofs/bucket-counts.md, "Proof of 1"). No trap: nothing raises where an exponent is
# large.
_ARITHMETIC = Context(prec=50, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BucketGrid:
    """Which bucket a record is in: bucket i holds the values from edge i - 1 to below edge i.

    With K edges there are K + 1 buckets: bucket 0 lies below the first edge, bucket K at and above
    the last one. Minus infinity is in bucket 0 and plus infinity in bucket K; what is missing
    (NULL, NaN, None) or no number is in none. Two grids are equal if their edges are.

    Parameters
    ----------
    edges : array of float, shape (K,)
        Finite and strictly increasing, at most 2^20; public. In the unit of the values.
    recipe : tuple of (str, Fraction or None)
        The public parameters that `geometric` made the edges from; no bucket depends on it.

    Raises
    ------
    InvalidParameter
        If the edges are none, too many, not finite or not strictly increasing.

    Examples
    --------
    >>> import sordino as sd
    >>> grid = sd.BucketGrid.geometric(lower=0, cap=20, growth=2, unit=1)
    >>> grid.edges
    array([ 1.,  3.,  7., 15., 20.])
    >>> grid
    BucketGrid(lower=0, cap=20, growth=2, unit=1, edges=[1, 3, 7, 15, 20])
    """

    edges: NDArray[np.float64]
    recipe: tuple[tuple[str, Fraction | None], ...] = ()

    def __post_init__(self) -> None:
        # What is no array of numbers becomes an empty one, which is refused below in the same
        # words.
        try:
            edges = np.array(self.edges, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            edges = np.empty(0)
        fit = edges.ndim == 1 and 1 <= edges.size <= MOST_EDGES and bool(np.isfinite(edges).all())
        if not fit or not (edges[1:] > edges[:-1]).all():
            raise InvalidParameter(
                f"BucketGrid.edges must be 1 to {MOST_EDGES} finite numbers, strictly increasing; "
                "got other ones. BucketGrid.geometric makes some."
            )
        # Grids are shared and kept in caches: nobody may change the edges of one.
        edges.flags.writeable = False
        object.__setattr__(self, "edges", edges)

    @classmethod
    def geometric(
        cls,
        *,
        lower: Number | None,
        cap: Number,
        growth: Number,
        unit: Number = 1,
        whole: bool = False,
        cuts: int = 1,
    ) -> BucketGrid:
        """Return the grid with edges lower + unit (growth^i - 1) below `cap`, and `cap` itself.

        The numbers i are 1, 2, and so on. Near `lower` the edges are about unit (growth - 1) apart,
        far from it they grow by the factor `growth`. With `lower=None` values have both signs:
        edges -cap, ..., -unit (growth - 1), 0, unit (growth - 1), ..., cap.

        Parameters
        ----------
        lower : number or None
            Public; values below it share the first bucket. In the unit of the values, as `cap` and
            `unit`.
        cap : number
            The last edge; public. Values at or above it share the last bucket.
        growth : number
            In (1, inf).
        unit : number
            In (0, inf): from where on the edges grow by the factor, rather than by equal steps.
        whole : bool
            Whether the values are whole numbers: then edges are rounded away from `lower` (from 0
            without one) to whole numbers, of which each is there once, and near `lower` each number
            has a bucket.
        cuts : int
            Into so many parts of one width each step between two neighboring edges is cut. With a
            divisor of this number of cuts a grid has some of the same edges.

        Raises
        ------
        InvalidParameter
            If a parameter is out of its range, the cap is not above `lower`, `lower` or the cap is
            no whole number with `whole`, or there would be more than 2^20 edges.

        Examples
        --------
        >>> import sordino as sd
        >>> sd.BucketGrid.geometric(lower=None, cap=10, growth=2).edges.tolist()
        [-10.0, -7.0, -3.0, -1.0, 0.0, 1.0, 3.0, 7.0, 10.0]
        """
        low = (
            None
            if lower is None
            else _check_float_range("BucketGrid.lower", FINITE("BucketGrid.lower", lower))
        )
        high = _check_float_range("BucketGrid.cap", FINITE("BucketGrid.cap", cap))
        # Compared as floats as well: two ends that round to one float leave no room for an edge
        # between them.
        if high <= (low or 0) or float(high) <= float(low or 0):
            above = "0, where no lower bound is given" if low is None else f"lower, {shown(lower)}"
            raise InvalidParameter(f"BucketGrid.cap must be above {above}; got {shown(cap)}.")
        if TRUTH("BucketGrid.whole", whole) and (
            high.denominator != 1 or (low or high).denominator != 1
        ):
            raise InvalidParameter(
                "BucketGrid.lower and cap must be whole numbers where the values are; got "
                f"{shown(lower)} and {shown(cap)}."
            )
        factor, scale = GROWTH("BucketGrid.growth", growth), POSITIVE("BucketGrid.unit", unit)
        return _cut_grid(low, high, factor, scale, whole, CUTS("BucketGrid.cuts", cuts))

    @property
    def size(self) -> int:
        """The number of edges, K."""
        return self.edges.size

    @property
    def cuts(self) -> int:
        """Into how many parts each step of `geometric` is cut."""
        return int(dict(self.recipe).get("cuts") or 1)

    def uncut(self) -> BucketGrid:
        """Return the grid whose steps were cut into parts; this one, if none was."""
        made = dict(self.recipe)
        cap, growth, unit = (made.get(name) for name in ("cap", "growth", "unit"))
        if made.pop("cuts", None) is None or cap is None or growth is None or unit is None:
            return self
        return _geometric_grid(made["lower"], cap, growth, unit, "whole" in made)

    @property
    def together(self) -> int:
        """How many columns are looked at together, so that what searches need of them stays small.

        It follows from the number of edges, so that no column decides how much memory others take.
        """
        return max(1, _CELLS_TOGETHER // (self.size + 1))

    def __eq__(self, other: object) -> bool:
        # The recipe does not count: records are compared with the edges and with nothing else.
        return self is other or (
            isinstance(other, BucketGrid) and np.array_equal(self.edges, other.edges)
        )

    def __hash__(self) -> int:
        # Equal grids have these in common; more edges would only take longer to read.
        return hash((self.size, self.edges[0], self.edges[self.size // 2], self.edges[-1]))

    def __repr__(self) -> str:
        return short_repr(self, dict(self.recipe) | {"edges": self.edges})


def _check_float_range(name: str, number: Fraction) -> Fraction:
    if abs(number) > _LARGEST_EDGE:
        raise InvalidParameter(
            f"{name} must be a number that a float can hold; got {shown(number)}."
        )
    return number


@lru_cache(maxsize=64)
def _geometric_grid(
    lower: Fraction | None, cap: Fraction, growth: Fraction, unit: Fraction, whole: bool
) -> BucketGrid:
    """Return the grid, computed once: a shared value that nobody can write to."""
    # Too fine a grid is refused before its edges fill the memory.
    _check_edge_number(lower, cap, growth, unit)
    origin, last = lower or Fraction(0), float(cap)
    edges, before = [], float(origin)
    # The edges rise without end, so the loop ends at the cap.
    for real in _generate_edges(origin, growth, unit):
        edge = float(math.ceil(real)) if whole else real
        if edge >= last:
            break
        if edge > before:  # neighbors may round to the same float
            edges.append(edge)
            before = edge
    # The cap is an edge whatever the factor is: beyond it no record has to be told apart.
    edges.append(last)
    # The negative edges mirror the positive ones exactly, so a distance from 0 is one edge on both
    # sides.
    if lower is None:
        edges = [*(-edge for edge in reversed(edges)), 0.0, *edges]
    recipe = [("lower", lower), ("cap", cap), ("growth", growth), ("unit", unit)]
    if whole:
        recipe.append(("whole", Fraction(1)))
    return BucketGrid(edges=np.array(edges), recipe=tuple(recipe))


@lru_cache(maxsize=64)
def _cut_grid(
    lower: Fraction | None, cap: Fraction, growth: Fraction, unit: Fraction, whole: bool, cuts: int
) -> BucketGrid:
    """Return the grid with each step between two edges cut into parts of one width."""
    grid = _geometric_grid(lower, cap, growth, unit, whole)
    edges = grid.edges
    if cuts == 1 or edges.size == 1:
        return grid
    if (edges.size - 1) * cuts + 1 > MOST_EDGES:
        raise InvalidParameter(
            f"BucketGrid.cuts must leave at most {MOST_EDGES} edges; got {cuts} parts of each of "
            f"{edges.size - 1} steps. Take fewer, or raise the growth."
        )
    up = edges[edges >= 0] if lower is None else edges
    with np.errstate(over="ignore"):
        widths = np.diff(up)
    if not np.isfinite(widths).all():
        raise InvalidParameter(
            "BucketGrid.cuts must be 1 where a step is wider than floats can tell; got "
            f"{cuts}. Lower the growth, or move the ends."
        )
    # Quotients, differences, products and sums of floats are rounded alike on every machine. So
    # equal shares of a step are one float, and a coarser grid has the very edges that it shares
    # with a finer one.
    share = np.arange(cuts) / cuts
    inner = np.minimum(up[:-1, None] + widths[:, None] * share, up[1:, None])
    every = np.append(inner.ravel(), up[-1])
    # Of whole numbers, and of floats beside each other, several parts have one edge. None falls:
    # they are in order already.
    every = np.minimum(np.ceil(every) if whole else every, up[-1]) + 0.0
    every = every[np.append(True, every[1:] > every[:-1])]
    if lower is None:
        every = np.concatenate([-every[:0:-1], every])
    return BucketGrid(edges=every, recipe=(*grid.recipe, ("cuts", Fraction(cuts))))


def _generate_edges(origin: Fraction, growth: Fraction, unit: Fraction) -> Iterator[float]:
    """Yield origin + unit (growth^i - 1) for i = 1, 2, ...

    Computed in decimal arithmetic of 50 digits; each edge is rounded to a float once.
    """
    c = _ARITHMETIC
    start, scale, first, factor = (
        _divide_to_decimal(number) for number in (origin, unit, growth - 1, growth)
    )
    power = first  # growth^i - 1 without cancellation: s -> s growth + (growth - 1)
    while True:
        yield float(c.fma(scale, power, start))
        power = c.fma(power, factor, first)


def _divide_to_decimal(number: Fraction) -> Decimal:
    return _ARITHMETIC.divide(Decimal(number.numerator), Decimal(number.denominator))


def _check_edge_number(
    lower: Fraction | None, cap: Fraction, growth: Fraction, unit: Fraction
) -> None:
    """Refuse a grid of too many edges before any of them is computed."""
    c = _ARITHMETIC
    # Edge i is below the cap as long as growth^i < (cap - lower) / unit + 1: a quotient of two
    # logarithms.
    reach = c.ln(_divide_to_decimal((cap - (lower or 0)) / unit + 1))
    step = c.ln(_divide_to_decimal(growth))  # 0 where 50 digits cannot tell the growth from 1
    # With both signs there are as many edges on either side, and 0.
    most = MOST_EDGES if lower is not None else (MOST_EDGES - 1) // 2
    if reach > c.multiply(step, Decimal(most)):
        needed = f"about {math.ceil(c.divide(reach, step))}" if step else "many more"
        raise InvalidParameter(
            f"BucketGrid.growth must leave at most {most} edges up to the cap; got "
            f"{shown(growth)}, which makes {needed}. Raise the growth or the unit, or lower the "
            "cap."
        )
