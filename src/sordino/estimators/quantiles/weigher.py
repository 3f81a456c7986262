"""As how many rows a unit with many of them counts, and what each of its rows weighs then.

Claim: the weight that is found costs what a quantile of how many rows units have costs. Proof:
docs/proofs/weighted-means.md. Noise: that of `Quantile`. Floats: none.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sordino.columns.bucket_counts import BucketCounts
from sordino.columns.bucket_grid import BucketGrid
from sordino.constraints import Number, shown, to_fraction
from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.estimators.quantiles.quantile import Quantile
from sordino.grid import read_float
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Adjacency

WEIGHT_SHARE = Fraction(1, 20)
_WEIGHT_QUANTILE = Fraction(9, 10)
MOST_WEIGHT_BITS = 24
"""A unit counts as 2^24 steps at most, so that weights are exact (weighted-means.md)."""
_MOST_ROWS = 1 << 20
"""No unit is taken to have more rows when the weight is looked for."""


class WeighedRows(NamedTuple):
    """The numbers of units in groups, one place for each; private.

    Attributes
    ----------
    numbers : array of float64, shape (m,)
    unit, group : array of int64, shape (m,)
    """

    numbers: NDArray[np.float64]
    unit: NDArray[np.int64]
    group: NDArray[np.int64]


def build_weigher(epsilon: Number, adjacency: Adjacency, most: int) -> Quantile:
    """Return what finds the weight for a share of epsilon, from how many rows each unit has.

    A row of a unit with more than `most` of them would weigh nothing.
    """
    return Quantile(
        q=_WEIGHT_QUANTILE,
        epsilon=to_fraction(epsilon) * WEIGHT_SHARE,
        adjacency=adjacency,
        lower=0,
        cap=min(_MOST_ROWS, most),
        integer=True,
    )


def check_weight_cap(name: str, weight_cap: int | None, most: int) -> None:
    """Refuse a declared weight with which a row of a unit would weigh nothing."""
    most = min(_MOST_ROWS, most)
    if weight_cap is not None and weight_cap > most:
        raise InvalidParameter(
            f"{name}.weight_cap must be at most {most} for this epsilon, so that a row weighs "
            f"something; got {shown(weight_cap)}."
        )


def list_row_grid(weigher: Quantile | None) -> BucketGrid:
    """Return in whose buckets it is counted how many rows units have."""
    # Where the weight is declared, how many units there are is still asked for.
    return BucketGrid(edges=np.ones(1)) if weigher is None else weigher.grid


@scrubbed
def find_weight(
    weigher: Quantile | None, weight_cap: int | None, counts: BucketCounts, *, entropy: Entropy
) -> int:
    """Find as how many rows a unit counts at most; where it is declared, nothing is drawn."""
    if weigher is None:
        return cast("int", weight_cap)
    return max(1, int(weigher.release(counts, entropy=entropy).value))


def take_rows(values: Any, groups: int, name: str) -> WeighedRows:
    """Return the numbers that units have in groups; nothing that they hold raises."""
    if not isinstance(values, list | tuple):
        raise InvalidParameter(
            f"{name}.release: values must be a list of units, each a list with the numbers of "
            f"{groups} groups; got {type(values).__name__}."
        )
    found: list[tuple[float, int, int]] = []
    for unit, parts in enumerate(values):
        # The type is asked, and not the object itself, whose own methods may raise.
        if not issubclass(type(parts), list | tuple) or len(parts) != groups:
            continue
        for group, one in enumerate(parts):
            listed = one if issubclass(type(one), list | tuple) else (one,)
            numbers = (read_float(number) for number in listed)
            found += [(number, unit, group) for number in numbers if not math.isnan(number)]
    return WeighedRows(
        np.array([number for number, _, _ in found], dtype=np.float64),
        np.array([unit for _, unit, _ in found], dtype=np.int64),
        np.array([group for _, _, group in found], dtype=np.int64),
    )


@scrubbed
def count_rows(rows: WeighedRows, grid: BucketGrid) -> BucketCounts:
    """Return in which buckets the numbers of rows of units lie; private."""
    counts = np.bincount(rows.unit)
    return BucketCounts.of(counts[counts > 0].astype(np.float64), grid=grid)


def weigh_rows(rows: WeighedRows, weight: int, whole: int) -> NDArray[np.int64]:
    """Return the weight of each row: `whole` over the rows of its unit, or over `weight`."""
    many = np.bincount(rows.unit, minlength=1)[rows.unit]
    return np.floor_divide(whole, np.maximum(many, weight))


@scrubbed
def count_weights(rows: WeighedRows, weights: NDArray[np.int64], grid: BucketGrid) -> BucketCounts:
    """Return the weights of rows in each bucket of a grid, added up; private."""
    counts = np.zeros(grid.size + 1, dtype=np.int64)
    np.add.at(counts, np.searchsorted(grid.edges, rows.numbers, side="right"), weights)
    return BucketCounts(grid=grid, counts=counts)
