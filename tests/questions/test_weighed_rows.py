"""What rows weigh: what a reference in whole numbers says, in every engine, whoever else is in the table."""

from __future__ import annotations

import itertools
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pytest

from sordino.columns import StepRange
from sordino.errors import InvalidParameter, UnboundedContribution
from sordino.questions import PrivacyUnit, prepare_numbers
from sordino.questions.totals import Weight
from sordino.sources import open_source
from support.number_states import SALT
from support.postgres import database
from support.weighed import (
    BUCKETS,
    CLIP,
    GROUPS,
    ROW_GRID,
    WEIGHTS,
    agree,
    frame_of,
    numbers_of,
    odd_rows,
    question,
)


@pytest.fixture(scope="module")
def server():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS weighed CASCADE")
        connection.execute("CREATE SCHEMA weighed")
        yield connection
        connection.execute("DROP SCHEMA weighed CASCADE")


def served(connection, frame, kind):
    connection.execute("DROP TABLE IF EXISTS weighed.rows")
    connection.execute(f"CREATE TABLE weighed.rows (who text, g text, x {kind})")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO weighed.rows VALUES (%s, %s, %s)", frame.rows())
    return f"{database()}#weighed.rows"


@pytest.mark.parametrize("engine", ["embedded", "server"])
@pytest.mark.parametrize("grid", BUCKETS)
@pytest.mark.parametrize("weight", WEIGHTS, ids=str)
@pytest.mark.sample(8)
def test_every_row_weighs_what_the_rule_says(server, engine, grid, weight):
    rows = odd_rows()
    frame = frame_of(rows)
    source = frame if engine == "embedded" else served(server, frame, "double precision")
    for each in (True, False):
        agree(question(source, grid, weigh_each=each), numbers_of(rows), weight, grid)


@pytest.mark.parametrize("engine", ["embedded", "server"])
@pytest.mark.parametrize(
    ("values", "kind", "declared"),
    [
        (
            [Decimal("0.10"), Decimal("-0.01"), Decimal("99999999.99"), None],
            pl.Decimal(16, 2),
            "numeric(16,2)",
        ),
        ([-(1 << 62), -1, 0, 2, (1 << 62) + 1, None], pl.Int64, "bigint"),
        ([-3, 0, 1, None], pl.Int32, "integer"),
    ],
    ids=["decimals", "bigint", "integer"],
)
@pytest.mark.sample(2)
def test_whole_numbers_and_decimals_weigh_as_exactly(server, engine, values, kind, declared):
    rows = [
        (f"u{place}", group, x)
        for place, each in enumerate(itertools.product(values, repeat=3))
        for group, x in zip(GROUPS, each, strict=True)
    ]
    frame = frame_of(rows, kind)
    source = frame if engine == "embedded" else served(server, frame, declared)
    agree(question(source), numbers_of(rows), Weight(2, 24))


@pytest.mark.parametrize("engine", ["embedded", "server"])
@pytest.mark.parametrize("aggregate", ["sum", "mean", "count"])
@pytest.mark.sample(2)
def test_one_number_in_each_group_is_weighed_by_the_number_of_groups(server, engine, aggregate):
    rows = [
        (f"u{n}", group, float(x)) for n in range(40) for x, group in enumerate("pqrpq"[: n % 6])
    ]
    frame = frame_of(rows)
    source = frame if engine == "embedded" else served(server, frame, "double precision")
    parts = defaultdict(lambda: defaultdict(list))
    for who, group, x in rows:
        parts[who][group].append(x)
    made = {"sum": sum, "mean": lambda x: sum(x) / len(x), "count": lambda x: float(len(x))}
    units = {
        who: [(group, made[aggregate](x)) for group, x in each.items()]
        for who, each in parts.items()
    }
    clip = StepRange(low=0, high=1 << 20, step=Fraction(1, 1 << 17))
    agree(question(source, per_person=aggregate), units, Weight(2, 24), clip=clip)


@pytest.mark.parametrize("engine", ["embedded", "server"])
def test_without_groups_all_rows_of_a_unit_are_weighed_together(server, engine):
    rows = odd_rows()
    frame = frame_of(rows)
    source = frame if engine == "embedded" else served(server, frame, "double precision")
    units = {
        who: [(None, x) for _, x in numbers]
        for who, numbers in numbers_of(rows, grouped=False).items()
    }
    agree(question(source, by=None, domain=None), units, Weight(3, 24), groups=[None])


def test_a_filter_drops_rows_before_they_are_counted():
    rows = odd_rows()
    kept = [(who, group, x) for who, group, x in rows if group != "q"]
    agree(question(frame_of(rows), where="g <> 'q'"), numbers_of(kept), Weight(2, 24))


def test_texts_and_frames_whose_types_follow_from_values_weigh_by_each_row_alone(tmp_path):
    """A text of somebody else makes texts of all numbers of a pandas frame, and changes no weight."""
    rows = [("a", "p", 1.5), ("a", "p", 0.5), ("b", "p", -0.25), ("b", "q", 7.0), ("c", "r", 2.0)]
    csv = tmp_path / "rows.csv"
    lines = "".join(f"{who},{group},{x}\n" for who, group, x in rows)
    csv.write_text(f"who,g,x\n{lines}d,p,no number\n")
    units = numbers_of(rows)
    plain = frame_of(rows).to_pandas()
    more = pd.concat(
        [plain.astype({"x": object}), pd.DataFrame({"who": ["d"], "g": ["p"], "x": ["no"]})]
    )
    for source in (csv, plain, more):
        agree(question(source), units, Weight(1, 24))


@pytest.mark.parametrize("engine", ["embedded", "server"])
def test_one_unit_moves_search_and_totals_by_no_more_than_its_weight(server, engine):
    """A unit more, with any rows: all answers differ by what it gives alone, at most one unit's worth."""
    draw = np.random.default_rng(5)
    base = [
        (f"u{n}", str(draw.choice(GROUPS)), float(draw.lognormal(0, 4)))
        for n in range(30)
        for _ in range(draw.integers(1, 6))
    ]

    def ask(rows):
        frame = frame_of(rows)
        source = frame if engine == "embedded" else served(server, frame, "double precision")
        asked = question(source)
        weight = Weight(3, 22)
        found = asked.weighed_totals([CLIP], weight, squares=True)
        return np.array([one.counts for one in asked.weigh(weight)]), found

    counts, totals = ask(base)
    most = 0
    width = CLIP.high - CLIP.low
    for rows in (1, 2, 3, 4, 7, 500):
        numbers = draw.lognormal(0, 6, rows) * draw.choice([-1, 1], rows)
        one = [("new", str(draw.choice(GROUPS)), float(x)) for x in numbers]
        beside, among = ask(base + one)
        moved = beside - counts
        assert np.all(moved >= 0)
        assert moved.sum() <= 1 << 22
        distance = squared = 0
        for old, new in zip(totals, among, strict=True):
            steps, known = new.steps - old.steps, new.known - old.known
            below, above = steps - known * CLIP.low, known * CLIP.high - steps
            assert min(below, above) >= 0
            distance += below + above
            first, second = below, new.squares - old.squares
            three = (
                known * width**2 - 2 * width * first + second,
                2 * (width * first - second),
                second,
            )
            assert min(three) >= 0
            squared += sum(three)
        assert distance <= width << 22
        assert squared <= width**2 << 22
        most = max(most, distance)
    assert most >= (width << 22) * 0.999


def test_a_weight_is_the_quotient_of_whole_numbers_rounded_down():
    """As an engine computes it, of floats: for numbers of rows that nobody would make for a test."""
    draw = np.random.default_rng(7)
    rows = [1, 3, 7, 1000, (1 << 20) - 1, 1 << 20, (1 << 24) + 1, *draw.integers(1, 1 << 25, 10**5)]
    for bits in (1, 10, 24):
        found = np.floor(float(1 << bits) / np.array(rows, dtype=np.float64)).astype(np.int64)
        assert found.tolist() == [(1 << bits) // int(one) for one in rows]


def test_weights_need_a_unit_and_rows_without_weights_a_bound():
    frame = frame_of([("a", "p", 1.0)])
    with pytest.raises(UnboundedContribution, match="must have a bound"):
        prepare_numbers(
            open_source(frame), PrivacyUnit("who"), column="x", grid=ROW_GRID, salt=SALT
        )
    with pytest.raises(InvalidParameter, match="a question about weighed rows"):
        prepare_numbers(open_source(frame), PrivacyUnit.row(), column="x", grid=ROW_GRID).weigh(
            Weight(1, 24)
        )
