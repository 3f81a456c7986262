"""Packed rows are sorted as their units and numbers are, and what is chosen from them is what the law chooses."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pytest

from sordino.columns import BucketGrid, StepRange
from sordino.columns.bucket_sums import BucketSums
from sordino.columns.sum_steps import SumSteps
from sordino.questions import PrivacyUnit, prepare_numbers
from sordino.questions.packed_rows import Packing
from sordino.questions.rank_choice import SortedChoice
from sordino.sources import CsvFormat, open_source
from sordino.sources.number_stream import find_format, read_columns
from sordino.sources.shared import Readings
from sordino.sources.sql.number_kind import number_kind
from support.chosen_rows import SALT, choose_numbers, read_in_pieces


def make_ladder(cap):
    grid = BucketGrid.geometric(lower=0, cap=cap, growth=2)
    return SumSteps.within(grid, Fraction(0), Fraction(cap), signed=False)


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        ("TINYINT", -128, 127),
        ("TINYINT", -1, 0),
        ("UTINYINT", 0, 255),
        ("SMALLINT", -1, 1000),
        ("USMALLINT", 1, 65535),
        ("INTEGER", -(1 << 31), -(1 << 31) + 5),
        ("INTEGER", -1, 10**6),
        ("UINTEGER", 0, (1 << 24) - 2),
        ("BIGINT", (1 << 40), (1 << 40) + 77),
        ("BIGINT", -5, -5),
    ],
)
@pytest.mark.sample(3)
def test_packed_rows_come_back_moved_between_the_ends_and_in_order(kind, least, most):
    packing = Packing.between(least, most, kind)
    assert packing is not None
    top = 1 << (48 - packing.bits)
    edges = {
        least - 1,
        least,
        least + 1,
        most - 1,
        most,
        most + 1,
        0,
        1,
        -1,
        -(1 << 63),
        (1 << 63) - 1,
    }
    with duckdb.connect() as engine:
        declared = number_kind(kind, text=False)
        assert declared is not None
        numbers = [x for x in edges if declared.smallest <= x <= declared.largest]
        units = [0, 1, 2, 77, top - 2, top - 1]
        rows = [(unit, x) for unit in units for x in [*numbers, None, numbers[0]]]
        random.Random(3).shuffle(rows)
        engine.execute(f"CREATE TABLE t (unit BIGINT, x {kind})")
        engine.executemany("INSERT INTO t VALUES (?, ?)", rows)
        pieces = read_columns(engine.sql(packing.write("(FROM t)")), packing.formats)
        found = []
        for unit, number in packing.unpack(pieces, find_format(kind)):
            assert unit.known is None
            known = np.ones(len(unit.values), bool) if number.known is None else number.known
            found += [
                (one, x if is_known else None)
                for one, x, is_known in zip(
                    unit.values.tolist(), number.values.tolist(), known, strict=True
                )
            ]
        moved = [(unit, None if x is None else max(least, min(most, x))) for unit, x in rows]
        assert found == sorted(moved, key=lambda row: (row[0], row[1] is not None, row[1] or 0))
        for beyond in (top, -1, 1 << 48, -(1 << 63), (1 << 63) - 1):
            engine.execute("INSERT INTO t VALUES (?, ?)", [beyond, None])
            first = next(read_columns(engine.sql(packing.write("(FROM t)")), packing.formats))
            assert first[0].known is not None
            assert first[0].known.tolist().index(True) == 1
            engine.execute("DELETE FROM t WHERE unit = ?", [beyond])


def test_what_needs_more_bits_is_not_packed():
    assert Packing.between(0, (1 << 24) - 2, "BIGINT") is not None
    assert Packing.between(0, (1 << 24) - 1, "BIGINT") is None
    assert Packing.between(-(1 << 63), -(1 << 63) + 1, "BIGINT") is None
    assert Packing.between((1 << 63) - 2, (1 << 63) - 1, "BIGINT") is None


def synthetic(seed, units):
    chance = random.Random(seed)
    rows = [
        (unit, chance.choice([None, -9, 0, 1, 2, 77, 99, 100, 101, 5000, 10**6, 10**9]))
        for unit in units
        for _ in range(chance.choice([1, 5, 60]))
    ]
    chance.shuffle(rows)
    return rows


def find_sums(rows, most, ladder):
    """Return the sum of each bucket by the law: ranks of the numbers themselves, moved nowhere."""
    sums = BucketSums.of(np.array(choose_numbers(rows, most), dtype=object), ladder)
    return dict(zip(sums.bucket.tolist(), sums.total, strict=True))


def open_table(rows, **more):
    """Open a table of units and columns of these types."""
    engine = duckdb.connect()
    engine.execute(
        f"CREATE TABLE t (u BIGINT, {', '.join(f'{name} {kind}' for name, kind in more.items())})"
    )
    engine.executemany(f"INSERT INTO t VALUES (?{', ?' * len(more)})", rows)
    return open_source(engine.table("t"))


def prepare(source, most, ladder, *, packed=True, **more):
    unit = PrivacyUnit("u", max_rows=most)
    about = {"column": "x", "grid": ladder.grid, "ladder": ladder, "salt": SALT}
    question = prepare_numbers(source, unit, **about, **more)
    assert question.choice is not None
    assert (question.choice.packing is not None) == (
        packed and not question.kind.name.startswith("DECIMAL")
    )
    return question


def find_answer(question):
    found = question.sums()
    return dict(zip(found.bucket.tolist(), found.total, strict=True))


def ask(source, most, ladder):
    return find_answer(prepare(source, most, ladder))


KIND = number_kind("UTINYINT", text=False)
SMALL = [0, 1, 2, 77, 1000, (1 << 31) - 1]


@pytest.mark.parametrize("cap", [100, 10**4])
@pytest.mark.parametrize(
    "units", [SMALL, [*SMALL, 1 << 45], [-1, 1 << 60]], ids=["fit", "one does not", "none"]
)
@pytest.mark.parametrize("piece", [1, 7, 10**6])
@pytest.mark.parametrize("kind", ["INTEGER", "BIGINT", "DECIMAL(12,0)"])
@pytest.mark.sample(12)
def test_sums_are_those_of_the_law(monkeypatch, cap, units, piece, kind):
    read = read_in_pieces(monkeypatch, piece)
    rows = synthetic(cap + piece, units)
    ladder = make_ladder(cap)
    assert ask(open_table(rows, x=kind), 4, ladder) == find_sums(rows, 4, ladder)
    assert read == (
        ["I"] if units == SMALL or (kind[0] == "D" and max(units) < 1 << 32) else ["I", "l"]
    )


def ask_together(source, ladders, *, spools):
    """Ask questions with other ends in one batch."""
    readings = Readings(spools=spools)
    shared = replace(source, backend=replace(source.backend, readings=readings))
    with closing(readings):
        made = [prepare(shared, 4, ladder) for ladder in ladders]
        return [find_answer(question) for question in made]


def test_one_choice_serves_questions_with_other_ends(monkeypatch, tmp_path):
    """And the twin that keeps numbers which were moved between the ends of the first question is convicted."""
    rows, path, caps = synthetic(5, SMALL), tmp_path / "rows.csv", (100, 10**4)
    path.write_text("u,x\n" + "".join(f"{unit},{'' if x is None else x}\n" for unit, x in rows))
    source = open_source(path, csv=CsvFormat(types={"u": "integer", "x": "integer"}))
    ladders = [make_ladder(cap) for cap in caps]
    wanted = [find_sums(rows, 4, ladder) for ladder in ladders]
    assert ask_together(source, ladders, spools=True) == wanted
    monkeypatch.setattr(SortedChoice, "for_any_question", lambda self: self)
    assert ask_together(source, ladders, spools=True) != wanted


def test_questions_in_the_same_words_with_other_ends(monkeypatch):
    """No small number reaches the edges that one of them has more: both send the same query and cuts."""
    chance = random.Random(1)
    rows = [(place % 200, chance.randrange(256)) for place in range(2000)]
    source, fine = open_table(rows, x=KIND.name), Fraction(1, 1 << 50)
    ladders = []
    for cap in (244, 1000):
        grid = BucketGrid.geometric(lower=3, cap=cap, growth=Fraction(3, 2), unit=fine)
        ladders.append(SumSteps.within(grid, Fraction(3), Fraction(cap), signed=False))
    (one,), (other,) = (
        prepare(source, 4, one).dialect.buckets(KIND, one.grid, one) for one in ladders
    )
    assert (one.sql, one.cuts) == (other.sql, other.cuts)
    assert one.plain.ends != other.plain.ends
    wanted = [find_sums(rows, 4, ladder) for ladder in ladders]
    for places in ([0, 1], [1, 0]):
        found = ask_together(source, [ladders[place] for place in places], spools=False)
        assert found == [wanted[place] for place in places]
    monkeypatch.setattr(SortedChoice, "for_any_question", lambda self: self)
    assert ask_together(source, ladders, spools=False) != wanted


def test_sums_between_other_ends_are_not_of_moved_numbers():
    """A question with a ladder may be asked for sums between any ends, as a plan for public rows does."""
    rows = synthetic(11, SMALL)
    question = prepare(open_table(rows, x="BIGINT"), 4, make_ladder(100))
    [found] = question.totals([StepRange(low=-(1 << 40), high=1 << 40, step=Fraction(1))])
    kept = [x for x in choose_numbers(rows, 4) if x is not None]
    assert found.steps == sum(kept)
    assert found.steps > 10**6


def test_rows_of_groups_are_not_packed():
    """48 bits have no room for a group, and a row that lost its own would count in another one."""
    rows = [(unit, unit % 3, x) for unit, x in synthetic(13, SMALL)]
    ladder = make_ladder(100)
    source = open_table(rows, g="BIGINT", x="BIGINT")
    question = prepare(source, 200, ladder, packed=False, by="g", domain=[0, 1, 2])
    found = question.sums()
    # No unit has more rows than may count: what is chosen is everything.
    each = [
        BucketSums.of(np.array([x for _, g, x in rows if g == label], dtype=object), ladder)
        for label in range(3)
    ]
    assert found.group.tolist() == [label for label, one in enumerate(each) for _ in one.bucket]
    assert found.total == [total for one in each for total in one.total]
