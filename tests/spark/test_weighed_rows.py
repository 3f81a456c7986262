"""Spark weighs the rows of people as every other source does."""

from __future__ import annotations

import itertools
from decimal import Decimal

import polars as pl
import pytest

from sordino.questions.totals import Weight
from support.tables import made
from support.weighed import WEIGHTS, agree, frame_of, numbers_of, odd_rows, question


@pytest.mark.parametrize("weight", WEIGHTS[:3], ids=str)
@pytest.mark.parametrize("grid", ["even", pytest.param("no scale", marks=pytest.mark.slow)])
def test_every_row_weighs_in_spark_what_the_rule_says(grid, weight):
    rows = odd_rows()
    source = made(None, "spark", frame_of(rows).to_arrow())
    agree(question(source, grid), numbers_of(rows), weight, grid)


def test_decimals_weigh_as_exactly():
    cents = [Decimal("0.10"), Decimal("-0.01"), Decimal("99999999.99"), None]
    rows = [
        (f"u{place}", group, x)
        for place, each in enumerate(itertools.product(cents, repeat=3))
        for group, x in zip("pqr", each, strict=True)
    ]
    source = made(None, "spark", frame_of(rows, pl.Decimal(16, 2)).to_arrow())
    agree(question(source), numbers_of(rows), Weight(2, 24))
