"""Rows that are chosen while they pass by are those of the law, in whatever pieces they come."""

from __future__ import annotations

import gc
import random
import re
import threading
from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import duckdb
import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.columns import BucketGrid, StepRange
from sordino.errors import DataSourceError
from sordino.questions import PrivacyUnit, prepare_numbers, rank_choice
from sordino.questions.rank_choice import SortedChoice, choose_places
from sordino.sources import CsvFormat, arrow_interface, open_source
from sordino.sources.engine import Engine, engine
from sordino.sources.number_stream import NumberStream, find_format, read_ahead, read_columns
from sordino.sources.shared import Readings
from support.chosen_rows import SALT, read_in_pieces
from support.rank_law import choose

GRID = BucketGrid.geometric(lower=0, cap=1 << 20, growth=2)
CLIP = StepRange(low=0, high=1 << 40, step=Fraction(1))
# Units of 32 bits, up to the ends, and with others: those are sorted with 64 bits, all of them.
NARROW = [0, 1, 7, 1000, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1]
UNITS = [*NARROW, 1 << 32, -1, -(1 << 63), (1 << 63) - 1]
LABELS = [f"l{place:02}" for place in range(70)]


@pytest.mark.parametrize("most", [1, 2, 3, 7, 30])
def test_places_are_those_of_the_law_for_every_offset(most):
    """Enumerated: all owners with up to 12 values, and all of their offsets."""
    sizes, offsets = map(
        np.array, zip(*[(n, u) for n in range(1, 13) for u in range(2 * n)], strict=True)
    )
    wanted = [
        n <= most or (rank * most + u) % n < most
        for n, u in zip(sizes.tolist(), offsets.tolist(), strict=True)
        for rank in range(n)
    ]
    assert choose_places(sizes, most, offsets).tolist() == wanted
    # One owner alone goes by the other of two ways.
    for n, u in zip(sizes.tolist(), offsets.tolist(), strict=True):
        alone = choose_places(np.array([n]), most, np.array([u]))
        assert alone.tolist() == [n <= most or (rank * most + u) % n < most for rank in range(n)]


def test_the_twin_that_rounds_down_is_convicted():
    sizes, offsets = np.array([7]), np.array([2])
    wanted = [(rank * 3 + 2) % 7 < 3 for rank in range(7)]
    rounded_down = np.zeros(7, bool)
    rounded_down[(np.arange(3) * 7 + np.where(2 < 3, -2, 5)) // 3] = True
    assert choose_places(sizes, 3, offsets).tolist() == wanted
    assert rounded_down.tolist() != wanted


def synthetic(seed, kind="BIGINT", units=UNITS):
    """Rows of every unit, in no order: some have many, and some numbers are missing."""
    chance = random.Random(seed)
    rows = [
        (unit, chance.choice(LABELS[:9]), chance.choice([None, *range(40)]))
        for unit in units
        for _ in range(chance.choice([1, 5, 200]))
    ]
    chance.shuffle(rows)
    table = duckdb.connect()
    table.execute(f"CREATE TABLE t (u BIGINT, g VARCHAR, x {kind})")
    table.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    return rows, table.table("t")


def ask(source, rows, *, groups=None, labels=None):
    more = {} if labels is None else {"by": "g", "domain": labels, "groups_per_unit": groups}
    question = prepare_numbers(
        open_source(source),
        PrivacyUnit("u", max_rows=rows),
        column="x",
        grid=GRID,
        salt=SALT,
        **more,
    )
    # Without this nothing here would be about what it is about.
    assert question.choice is not None
    return [
        (one.steps, one.known, one.missing)
        for one in question.totals([CLIP] * len(labels or [None]))
    ], [one.counts.tolist() for one in question.run()]


def find_sums(rows, most, *, groups=None, labels=None):
    """Return the same by the law, written again."""
    owned = defaultdict(list)
    for unit, label, number in rows:
        owned[unit, label].append(-1 if number is None else number)
    found = {label: [] for label in labels or [None]}
    for unit in sorted({unit for unit, _, _ in rows}):
        if labels is None:
            mine = [
                number for (one, _), numbers in owned.items() if one == unit for number in numbers
            ]
            found[None] += choose(mine, [str(unit)], most, SALT)
            continue
        for label in choose(
            [label for one, label in owned if one == unit], [str(unit)], groups, SALT
        ):
            found[label] += choose(owned[unit, label], [str(unit), labels.index(label)], most, SALT)
    return [
        (sum(x for x in kept if x >= 0), sum(x >= 0 for x in kept), sum(x < 0 for x in kept))
        for kept in found.values()
    ]


@pytest.mark.parametrize("piece", [1, 3, 50, 10**6])
@pytest.mark.parametrize("together", [1, 30, 10**6])
@pytest.mark.parametrize(
    ("most", "groups", "labels"), [(4, None, None), (2, 3, LABELS), (3, 20, LABELS[:9])]
)
@pytest.mark.parametrize("units", [NARROW, UNITS, [1 << 40]], ids=["narrow", "both", "wide"])
@pytest.mark.sample(36)
def test_pieces_and_large_units_change_nothing(
    monkeypatch, units, piece, together, most, groups, labels
):
    """A unit may begin in one piece and end in another; with too many rows it is asked for afterwards."""
    rows, table = synthetic(piece + together, units=units)
    wanted = find_sums(rows, most, groups=groups, labels=labels)
    read = read_in_pieces(monkeypatch, piece)
    monkeypatch.setattr(rank_choice, "_MOST_TOGETHER", together)
    sums, counts = ask(table, most, groups=groups, labels=labels)
    assert sums == wanted
    # One sort if all units fit 32 bits, or else another one of all rows; then perhaps those that were left out.
    assert read[: 2 - (units == NARROW)] == ["I", "l"][: 2 - (units == NARROW)]
    assert [sum(one) for one in counts] == [known for _, known, _ in wanted]


@pytest.mark.parametrize(
    "kind",
    [f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG")]
    + [
        "INTEGER",
        "UINTEGER",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(4,1)",
        "DECIMAL(9,2)",
        "DECIMAL(18,2)",
        "DECIMAL(30,2)",
    ],
)
@pytest.mark.sample(3)
def test_numbers_of_every_type_travel(kind):
    rows, table = synthetic(5, kind)
    assert ask(table, 4)[0] == find_sums(rows, 4)


def test_numbers_that_do_not_travel_are_chosen_by_the_engine():
    rows, table = synthetic(6, "HUGEINT")
    unit = PrivacyUnit("u", max_rows=4)
    question = prepare_numbers(open_source(table), unit, column="x", grid=GRID, salt=SALT)
    assert question.choice is None
    found = [(one.steps, one.known, one.missing) for one in question.totals([CLIP])]
    assert found == find_sums(rows, 4)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 300_001])
def test_columns_come_back_as_they_went(size):
    """Also without rows, in several pieces, and with missing values that do not fill a byte."""
    with duckdb.connect() as engine:
        engine.execute(
            "CREATE TABLE t AS SELECT range AS i, CASE WHEN range % 7 <> 3 THEN range % 5000 END AS x,"
            f" CASE WHEN range % 3 <> 1 THEN CAST(range % 90 AS DECIMAL(20,3)) END AS d FROM range({size})"
        )
        formats = dict(
            zip("ixd", map(find_format, ("BIGINT", "BIGINT", "DECIMAL(20,3)")), strict=True)
        )
        other = engine.cursor()
        other.register(
            "lent",
            NumberStream(
                formats,
                lambda: iter(list(read_columns(engine.sql("FROM t"), list(formats.values())))),
            ),
        )
        for one, two in (("t", "lent"), ("lent", "t")):
            # The stream is read first, because it is made of the other connection.
            other.execute(f"CREATE OR REPLACE TABLE {two}_copy AS SELECT * FROM {two}")
            other.execute(f"CREATE OR REPLACE TABLE {one}_copy AS SELECT * FROM {one}")
            left = other.execute(
                f"SELECT count(*) FROM (FROM {one}_copy EXCEPT ALL FROM {two}_copy)"
            ).fetchall()
            assert left == [(0,)]
        other.unregister("lent")


def test_a_stream_of_another_layout_is_refused():
    with duckdb.connect() as engine:
        pieces = read_columns(engine.sql("SELECT CAST(1 AS BIGINT) AS x"), ["g"])
        with pytest.raises(OSError, match="^reading failed$"):
            next(pieces)


def test_an_array_may_begin_later_than_its_memory():
    """With its missing values: they are bits of a whole byte."""
    numbers = [None if place % 3 == 0 else place for place in range(100)]
    for start in (0, 1, 7, 8, 13):
        part = pl.DataFrame({"x": numbers}, schema={"x": pl.Int64}).slice(start, 50)
        [[column]] = read_columns(part, ["l"])
        assert column.known is not None
        found = zip(column.values.tolist(), column.known.tolist(), strict=True)
        assert [x if known else None for x, known in found] == numbers[start : start + 50]


def test_memory_goes_back_to_the_engine_when_nobody_has_it(monkeypatch):
    given_back = []
    give_back = arrow_interface._give_back
    monkeypatch.setattr(
        arrow_interface,
        "_give_back",
        lambda array: given_back.append(bool(array.release)) or give_back(array),
    )
    with duckdb.connect() as engine:
        [[column]] = read_columns(engine.sql("SELECT range AS x FROM range(1000)"), ["l"])
        gc.collect()
        # The array that ended the stream had nothing to give back.
        assert given_back == [False]
        part = column.values[10:20]
        del column
        gc.collect()
        assert part.tolist() == list(range(10, 20))
        del part
        gc.collect()
        assert given_back == [False, True]


def test_a_question_that_names_chosen_rows_twice_fails_rather_than_miss_some(monkeypatch):
    ask_engine = Engine.ask

    def twice(self, question, labels=None, *, kept=None):
        if kept is None and "lent" in self.rows and "c0 AS x" in question:
            question = (
                f"SELECT * FROM ({question}) CROSS JOIN (SELECT count(c0) AS others FROM lent)"
            )
        return ask_engine(self, question, labels, kept=kept)

    monkeypatch.setattr(Engine, "ask", twice)
    _, table = synthetic(1)
    with pytest.raises(DataSourceError) as caught:
        ask(table, 4)
    assert str(caught.value) == str(DataSourceError.after_charge())


@pytest.mark.parametrize("when", [0, 1])
def test_a_failure_on_the_way_is_one_sentence_and_keeps_nothing(monkeypatch, capfd, when):
    """Before the first piece, and while another connection waits for the next one."""
    pick = rank_choice._Passing._pick
    calls = []

    def fail(self, rows):
        calls.append(None)
        if len(calls) > when:
            raise ValueError(f"private {rows.unit[0]}")
        return pick(self, rows)

    before = set(arrow_interface._LENT_OBJECTS)
    monkeypatch.setattr(rank_choice._Passing, "_pick", fail)
    frame = pl.DataFrame({"u": np.arange(400_000) % 1000, "x": np.arange(400_000) % 77})
    unit = PrivacyUnit("u", max_rows=3)
    with (
        sd.Session(frame, unit=unit, ledger=None) as session,
        pytest.raises(DataSourceError) as caught,
    ):
        session.mean("x", epsilon=1, lower=0, cap=100)
    assert str(caught.value) == str(DataSourceError.after_charge())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert capfd.readouterr() == ("", "")
    gc.collect()
    assert set(arrow_interface._LENT_OBJECTS) <= before
    assert [one.name for one in threading.enumerate() if one.name == "sordino-engine"] == []


@pytest.mark.parametrize("labels", [None, LABELS])
@pytest.mark.parametrize("units", [NARROW, UNITS], ids=["narrow", "both"])
@pytest.mark.each_value
def test_rows_out_of_order_are_refused(monkeypatch, units, labels):
    """The twin that does not sort: a unit that comes twice would have more rows that count."""
    sort = SortedChoice._sort
    # Units in order, and their groups in none; or nothing in order.
    end = "owner NULLS FIRST, random()" if labels is not None and units == NARROW else "random()"
    monkeypatch.setattr(
        SortedChoice,
        "_sort",
        lambda self, *more: re.sub("ORDER BY .*", f"ORDER BY {end}", sort(self, *more)),
    )
    _, table = synthetic(3, units=units)
    with pytest.raises(DataSourceError) as caught:
        ask(table, 4, groups=3, labels=labels)
    assert str(caught.value) == str(DataSourceError.after_charge())


def test_a_second_connection_has_the_settings_of_the_first(monkeypatch):
    """Times have one text on every machine, and nothing is drawn while a question runs."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    names = (
        "TimeZone",
        "disabled_optimizers",
        "preserve_insertion_order",
        "arrow_large_buffer_size",
    )
    settings = ", ".join(f"current_setting('{name}')" for name in names)
    with engine() as opened:
        opened.close_doors(())
        first = opened.connection.execute(f"SELECT {settings}").fetchall()
        other = opened._open_cursor().connection
        assert other.execute(f"SELECT {settings}").fetchall() == first
        assert first[0][0] == "UTC"
        # What is not drawn needs no measuring either: the progress is that of the sort.
        assert other.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [
            (False,)
        ]


def test_a_study_of_declared_types_keeps_what_is_chosen(monkeypatch, tmp_path):
    """Rows of a text file are read once; numbers are chosen once, and kept for the second question about them."""
    rows, _ = synthetic(9)
    file = tmp_path / "rows.csv"
    file.write_text("u,g,x\n" + "".join(f"{u},{g},{'' if x is None else x}\n" for u, g, x in rows))
    csv = CsvFormat(types={"u": "integer", "x": "integer"})
    kept = []
    keep = Engine.keep_chosen
    monkeypatch.setattr(
        Engine,
        "keep_chosen",
        lambda self, name, one: kept.append(one.choice) or keep(self, name, one),
    )
    source = open_source(file, csv=csv)
    readings = Readings(spools=True)
    shared = replace(source, backend=replace(source.backend, readings=readings))
    unit = PrivacyUnit("u", max_rows=4)
    with closing(readings):
        found = []
        for groups in (2, 2, 3):
            question = prepare_numbers(
                shared,
                unit,
                column="x",
                grid=GRID,
                salt=SALT,
                by="g",
                domain=LABELS[:9],
                groups_per_unit=groups,
            )
            totals = question.totals([CLIP] * 9)
            found.append([(one.steps, one.known, one.missing) for one in totals])
    assert found == [find_sums(rows, 4, groups=groups, labels=LABELS[:9]) for groups in (2, 2, 3)]
    assert [one is not None for one in kept] == [True, True]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 10, 11, 40])
def test_pieces_are_made_ahead_in_order_and_not_far(size):
    made = []
    pieces = read_ahead(made.append(place) or place for place in range(size))
    assert list(islice(pieces, 3)) == list(range(min(3, size)))
    pieces.close()
    # Two before there is a thread, eight that it makes together, and eight ahead of those.
    assert made == list(range(len(made)))
    assert len(made) <= 2 + 8 + 8
    assert list(read_ahead(iter(range(size)))) == list(range(size))
    assert [one.name for one in threading.enumerate() if one.name.startswith("sordino-ahead")] == []


def test_a_failure_of_what_is_ahead_reaches_who_reads():
    def fail():
        yield from range(5)
        raise ValueError("private")

    pieces = read_ahead(fail())
    assert list(islice(pieces, 2)) == [0, 1]
    with pytest.raises(ValueError, match="^private$"):
        next(pieces)
