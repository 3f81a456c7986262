"""Sums of steps that follow from plain sums of numbers are those of the law, number by number."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pytest

from sordino.columns import BucketGrid
from sordino.columns.bucket_sums import BucketSums, SumSteps
from sordino.questions import PrivacyUnit, prepare_numbers
from sordino.sources import open_source
from sordino.sources.sql.number_kind import number_kind
from sordino.sources.sql.step_query import find_plain_sums
from support.number_states import state

LADDERS = [
    (lower, cap, growth, signed)
    for lower, signed in (
        (0, False),
        (-7, False),
        (Fraction(1, 3), False),
        (-1000, True),
        (-(10**9), True),
    )
    for cap in (1, 77, 1000, Fraction(10001, 4), 10**6, 10**12, 10**18)
    for growth in (Fraction(21, 20), 2, 10)
    # Of both signs they need not reach as far on either side.
    if signed or cap > abs(lower)
]


def make_ladder(lower, cap, growth, signed):
    if signed:
        grid = BucketGrid.geometric(lower=None, cap=max(cap, -lower), growth=growth)
    else:
        grid = BucketGrid.geometric(lower=lower, cap=cap, growth=growth)
    return SumSteps.within(grid, Fraction(lower), Fraction(cap), signed=signed)


def kind_of(declared):
    kind = number_kind(declared, text=False)
    assert kind is not None
    return kind


def numbers_about(grid):
    """Whole numbers beside every edge, small ones, and those at the ends of the type."""
    beside = {math.ceil(edge) + step for edge in grid.edges.tolist() for step in (-1, 0, 1)}
    limit = 1 << 63
    return sorted({x for x in {*beside, *range(-50, 50), -limit, limit - 1} if -limit <= x < limit})


def count_steps(ladder, bucket, x):
    rung = ladder.rungs[int(ladder.rung_of(np.array([bucket]))[0])]
    return max(rung.low, min(rung.high, math.floor(Fraction(x) / rung.step)))


@pytest.mark.parametrize(("lower", "cap", "growth", "signed"), LADDERS)
@pytest.mark.sample(12)
def test_each_number_counts_its_steps(lower, cap, growth, signed):
    ladder = make_ladder(lower, cap, growth, signed)
    plain = find_plain_sums(kind_of("BIGINT"), ladder)
    if plain is None:
        # Only where steps are larger than 1, ends of the clip lie between whole numbers, numbers of the first
        # bucket are not all clipped, or the clip ends before the edges do.
        assert cap >= 1 << 32 or Fraction(cap + lower).denominator > 1 or growth > 2 or signed
        return
    for x in numbers_about(ladder.grid):
        bucket = int(np.searchsorted(ladder.grid.edges, float(x), side="right"))
        assert plain.find_steps(bucket, 1, x) == count_steps(ladder, bucket, x), x


def test_ladders_of_every_day_are_plain():
    for ladder in (
        make_ladder(0, 10**6, Fraction(21, 20), False),
        make_ladder(-1000, 1000, 2, True),
    ):
        assert find_plain_sums(kind_of("INTEGER"), ladder) is not None
        for other in ("DOUBLE", "DECIMAL(10,2)", "HUGEINT", "UBIGINT"):
            assert find_plain_sums(kind_of(other), ladder) is None


@pytest.mark.parametrize(
    "kind",
    ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UINTEGER", "DECIMAL(4,0)", "DECIMAL(18,0)"],
)
@pytest.mark.parametrize(
    "unit", [PrivacyUnit.row(), PrivacyUnit("u", max_rows=30)], ids=["rows", "units"]
)
@pytest.mark.parametrize("lower", [0, -7])
@pytest.mark.sample(14)
def test_the_engine_answers_the_law(kind, unit, lower):
    """Numbers beside every edge and beyond the ends of the clip, and missing ones, each some times."""
    ladder = make_ladder(lower, 10**6, Fraction(21, 20), False)
    declared = kind_of(kind)
    fit = [x for x in numbers_about(ladder.grid) if declared.smallest <= x <= declared.largest]
    rows = [
        (place % 997, x) for place, x in enumerate([*fit, None, declared.largest, *fit[::3], None])
    ]
    table = duckdb.connect()
    table.execute(f"CREATE TABLE t (u BIGINT, x {kind})")
    table.executemany("INSERT INTO t VALUES (?, ?)", rows)
    question = prepare_numbers(
        open_source(table.table("t")),
        unit,
        column="x",
        grid=ladder.grid,
        ladder=ladder,
        salt=b"0123456789abcdef",
    )
    queries = question.dialect.buckets(declared, ladder.grid, ladder)
    assert all(query.plain is not None for query in queries)
    values = np.array([x for _, x in rows], dtype=object)
    assert state(question.sums()) == state(BucketSums.of(values, ladder))


def test_the_twin_that_does_not_clip_is_convicted():
    ladder = make_ladder(0, 1000, 2, False)
    plain = find_plain_sums(kind_of("BIGINT"), ladder)
    assert plain is not None
    last, far = ladder.grid.size, 1 << 40
    assert plain.find_steps(last, 1, far) == count_steps(ladder, last, far)
    # As if the last bucket were one of the others.
    twin = replace(plain, factors=(*plain.factors, 1))
    assert twin.find_steps(last, 1, far) != count_steps(ladder, last, far)


def test_ladders_that_clip_or_round_inside_a_bucket_are_not_plain():
    """Each of them counts some number otherwise than its bucket would."""
    ladder, kind = make_ladder(0, 1000, 2, False), kind_of("INTEGER")
    [rung] = ladder.rungs
    assert find_plain_sums(kind, ladder) is not None
    one = rung.step.denominator
    beyond, within = rung._replace(high=rung.high + 1), rung._replace(high=rung.high - 2 * one)
    above, rounded = rung._replace(low=2 * one), rung._replace(step=Fraction(2), high=1000)
    for other in (beyond, within, above, rounded):
        assert find_plain_sums(kind, replace(ladder, rungs=(other,))) is None
