"""Columns of 128 bits, which one value from 2^63 on makes of a column: each value counts as it does in a list."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sordino as sd

WIDE = [3, 5, 2**63, -(2**100), None, 7]
COLUMNS = {
    "Polars Int128": pl.Series(WIDE, dtype=pl.Int128),
    "Arrow decimal128": pa.array(
        [None if one is None else Decimal(one) for one in WIDE], pa.decimal128(38, 0)
    ),
    "Polars Decimal": pl.Series(
        [None if one is None else Decimal(one) for one in WIDE], dtype=pl.Decimal(38, 0)
    ),
}
OPTIONS = {"epsilon": 1, "cap": 1000, "adjacency": "add-remove", "lower": None}
RELEASES = {
    "sum": lambda values: sd.ClippedSum(**OPTIONS).release(values, entropy=sd.Seeded(1)),
    "mean": lambda values: sd.ClippedMean(**OPTIONS).release(values, entropy=sd.Seeded(1)),
    "variance": lambda values: sd.ClippedVariance(**OPTIONS).release(values, entropy=sd.Seeded(1)),
    "quantile": lambda values: sd.Quantile(q=0.5, **OPTIONS).release(values, entropy=sd.Seeded(1)),
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.each_value
def test_a_wide_column_is_read_like_a_list(column, name):
    values = COLUMNS[column]
    assert RELEASES[name](values).to_dict() == RELEASES[name](list(WIDE)).to_dict()


@pytest.mark.parametrize("column", COLUMNS)
def test_a_wide_column_is_counted_like_a_list(column):
    grid = sd.ClippedSum(**OPTIONS).grid
    wide, listed = (
        sd.BucketCounts.of(values, grid=grid) for values in (COLUMNS[column], list(WIDE))
    )
    assert np.array_equal(wide.counts, listed.counts)
