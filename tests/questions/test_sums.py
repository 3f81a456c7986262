"""Sums of buckets from one reading: the same in every way that an engine counts, in every source, and for each group."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.columns.bucket_sums import BucketSums
from sordino.errors import InvalidParameter
from sordino.questions import PrivacyUnit
from sordino.sources import open_source
from sordino.sources.engine import Engine
from sordino.sources.sql.bucket_query import bucket_queries
from sordino.sources.sql.dialect import EMBEDDED
from sordino.sources.sql.number_kind import number_kind
from sordino.sources.sql.step_query import ladder_steps
from support.number_states import GRIDS, asked, floats, ladder_of, state, wholes

NAMES = ["from 0", "signed", "from -17.3", "far away", "one edge"]


def ways(kind, grid):
    return bucket_queries(
        number_kind(kind, text=False),
        grid,
        ladder_steps(number_kind(kind, text=False), ladder_of(grid)),
    )


def with_ways(monkeypatch, queries):
    monkeypatch.setattr(
        "sordino.sources.source.ReaderBackend.dialect",
        replace(EMBEDDED, buckets=lambda *_: queries),
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["DOUBLE", "BIGINT"])
@pytest.mark.sample(3)
def test_every_way_that_may_count_adds_up_alike(monkeypatch, name, kind):
    grid = GRIDS[name]
    values = floats(grid) if kind == "DOUBLE" else wholes(grid, -(1 << 63), (1 << 63) - 1)
    frame = pl.DataFrame(
        {"x": pl.Series(values, dtype=pl.Float64 if kind == "DOUBLE" else pl.Int64, strict=False)}
    )
    wanted = state(BucketSums.of(np.array(values, dtype=object), ladder_of(grid)))
    every = ways(kind, grid)
    for place in range(len(every)):
        with_ways(monkeypatch, every[place:])
        assert state(asked(frame, grid, ladder=ladder_of(grid)).sums()) == wanted


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_a_logarithm_that_is_off_by_a_cell_is_never_believed(monkeypatch, shift):
    """Twin: where it is believed, a row counts in a bucket whose end it is beyond."""
    grid, ladder = GRIDS["from 0"], ladder_of(GRIDS["from 0"])
    values = [float(x) for x in (grid.edges[1:] + grid.edges[:-1]) / 2]
    wanted = state(BucketSums.of(np.array(values, dtype=object), ladder))
    wrong = tuple(
        replace(one, sql=re.sub(r"(floor\(|TRY_CAST\()ln", rf"\g<1>{shift} + ln", one.sql))
        for one in ways("DOUBLE", grid)
    )
    with_ways(monkeypatch, wrong)
    frame = pl.DataFrame({"x": values})
    assert state(asked(frame, grid, ladder=ladder).sums()) == wanted
    monkeypatch.setattr("sordino.sources.sql.bucket_query._is_sound", lambda _: True)
    assert state(asked(frame, grid, ladder=ladder).sums()) != wanted


@pytest.mark.parametrize("shift", [-300, -7, -2, -1, 1, 2, 7, 300])
@pytest.mark.parametrize("bucket", [0, 1, 2, 90, -2, -1])
@pytest.mark.sample(15)
def test_no_logarithm_puts_a_row_where_nothing_is_compared(monkeypatch, shift, bucket):
    """Rows of one bucket alone, which no row of another gives away, and more missing ones than can be lost."""
    grid, ladder = GRIDS["from 0"], ladder_of(GRIDS["from 0"])
    ends = [-5.0, *grid.edges.tolist(), 1e9]
    values = [ends[bucket if bucket < 0 else bucket + 1] - one for one in (1e-9, 2e-9)] + [None] * 3
    wanted = state(BucketSums.of(np.array(values, dtype=object), ladder))
    every = ways("DOUBLE", grid)
    for place in range(len(every)):
        wrong = (
            replace(one, sql=re.sub(r"(floor\(|TRY_CAST\()ln", rf"\g<1>{shift} + ln", one.sql))
            for one in every[place:]
        )
        with_ways(monkeypatch, tuple(wrong))
        assert state(asked(pl.DataFrame({"x": values}), grid, ladder=ladder).sums()) == wanted


def test_groups_are_what_each_is_alone():
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"x": rng.normal(0, 50, 4000), "g": rng.integers(0, 300, 4000)})
    frame = frame.with_columns(
        x=pl.when(pl.int_range(pl.len()) % 17 == 0).then(None).otherwise(pl.col("x"))
    )
    grid = GRIDS["signed"]
    ladder = ladder_of(grid)
    domain = list(range(0, 330, 3))
    found = asked(frame, grid, ladder=ladder, by="g", domain=domain)
    sums = found.sums()
    assert sums.groups == len(domain)
    assert (np.diff(sums.group) >= 0).all()
    for place, label in enumerate(found.groups):
        values = frame.filter(pl.col("g") == int(label))["x"].to_list()
        alone = BucketSums.of(np.array(values, dtype=object), ladder)
        here = sums.group == place
        assert sums.bucket[here].tolist() == alone.bucket.tolist()
        assert sums.count[here].tolist() == alone.count.tolist()
        assert [sums.total[at] for at in np.flatnonzero(here)] == list(alone.total)
        assert sums.missing[place] == alone.missing[0]


def test_sums_need_a_ladder():
    with pytest.raises(InvalidParameter, match="with a ladder"):
        asked(pl.DataFrame({"x": [1.0]}), GRIDS["from 0"])._sum(lambda _: None)


# ---- one reading --------------------------------------------------------------------------------------------------------


@pytest.fixture
def readings(monkeypatch):
    """The questions that engines are asked after the charge."""
    seen: list[str] = []
    ask = Engine.ask

    asking: list[str] = []

    def noted(self, question, labels=None, *, kept=None, take=None):
        # What an engine asks about numbers that it is choosing is the same question.
        if "WHERE FALSE" not in self.rows and not asking:
            seen.append(question)
        asking.append(question)
        try:
            return ask(self, question, labels, kept=kept, take=take)
        finally:
            asking.pop()

    monkeypatch.setattr(Engine, "ask", noted)
    return seen


VALUES = pl.DataFrame(
    {"x": [0.3, 1.7, 2.2, 90.5, None] * 40, "u": list(range(50)) * 4, "g": ["a", "b"] * 100}
)


@pytest.mark.parametrize("figure", ["sum", "mean"])
@pytest.mark.parametrize("unit", [PrivacyUnit.row(), PrivacyUnit("u", max_rows=2)])
@pytest.mark.parametrize("lower", [0, None])
@pytest.mark.sample(3)
def test_a_sum_or_a_mean_reads_once(readings, figure, unit, lower):
    with sd.Session(VALUES, unit=unit, ledger=None, entropy=sd.Seeded(3)) as session:
        getattr(session, figure)("x", epsilon=1, lower=lower, cap=1000)
        assert len(readings) == 1
        more = {} if unit.column is None else {"groups_per_unit": 1}
        getattr(session, figure)(
            "x", epsilon=1, lower=lower, cap=1000, by="g", domain=["a", "b", "c"], **more
        )
        assert len(readings) == 2
        session.variance("x", epsilon=1, lower=lower, cap=1000)
        assert len(readings) == 4, "a variance reads a second time"


def test_a_batch_of_a_sum_and_a_mean_asks_once(readings, tmp_path):
    VALUES.write_csv(tmp_path / "t.csv")
    with (
        sd.Session(tmp_path / "t.csv", unit=PrivacyUnit("u", max_rows=2), ledger=None) as session,
        session.batch(),
    ):
        session.sum("x", epsilon=1, lower=0, cap=1000)
        session.mean("x", epsilon=1, lower=0, cap=1000)
    assert len([one for one in readings if "total" in one]) == 1


def test_the_mean_of_a_table_is_that_of_its_numbers():
    source = open_source(VALUES)
    mean = sd.ClippedMean(epsilon=1e6, adjacency="add-remove", lower=0, cap=1000)
    question = sd.questions.prepare_numbers(
        source, PrivacyUnit.row(), column="x", grid=mean.grid, ladder=mean.search.ladder
    )
    [value] = mean.release_each(question.sums(), entropy=sd.Seeded(5))
    known = [x for x in VALUES["x"].to_list() if x is not None]
    assert value.value == pytest.approx(
        sum(min(x, value.clip[1]) for x in known) / len(known), rel=1e-4
    )
    alone = mean.release(VALUES["x"].to_numpy(), entropy=sd.Seeded(5))
    assert alone.to_dict() == value.to_dict()


@pytest.mark.parametrize("squares", [False, True])
def test_groups_with_several_ranges(squares):
    """Which range a group has is found in a table, for many groups as for few."""
    rows = [(i % 23 / 2, i % 40) for i in range(400)]
    frame = pl.DataFrame(rows, schema=["x", "g"], orient="row")
    question = asked(frame, GRIDS["from 0"], by="g", domain=list(range(45)), squares=squares)
    ranges = [
        sd.columns.StepRange(low=0, high=3 + place % 7, step=Fraction(1, 2)) for place in range(45)
    ]
    totals = question.square_totals(ranges) if squares else question.totals(ranges)
    for label, ends, total in zip(question.groups, ranges, totals, strict=True):
        steps = [min(int(x * 2), ends.high) for x, g in rows if g == int(label)]
        assert (total.steps, total.known) == (sum(steps), len(steps))
        assert not squares or total.squares == sum(one**2 for one in steps)
