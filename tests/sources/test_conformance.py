"""One suite for every engine: over a table of extremes each of them answers with the same whole numbers.

What an engine adds to the embedded one is a dialect. So whatever its words are, its answers are those of the embedded engine, they
add up over units (one unit more adds its own answer and moves no other's), and nothing in a table makes it fail.
"""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest

from sordino.sources import open_source, postgres
from sordino.sources.postgres import POSTGRES, PostgresBackend
from support import conformance
from support.conformance import PARTS, UNITS, add, arrow, differences, rows, served, without_zeros
from support.number_states import GRIDS, asked
from support.postgres import database

OTHERS = ("postgres",)


@pytest.fixture(scope="module")
def server():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS conformance CASCADE")
        connection.execute("CREATE SCHEMA conformance")
        yield connection
        connection.execute("DROP SCHEMA conformance CASCADE")


@pytest.fixture
def source(server):
    """Return what makes a source of rows for an engine."""

    def make(engine, table):
        if engine == "arrow":
            return arrow(table)
        served(server, table, "extremes")
        return f"{database()}#conformance.extremes"

    return make


def answers(source, part, unit="rows"):
    return PARTS[part](source, UNITS[unit])


CASES = [(unit, part) for unit in UNITS for part in PARTS]


@pytest.mark.parametrize("engine", OTHERS)
@pytest.mark.parametrize(("unit", "part"), CASES)
@pytest.mark.sample(30)
def test_every_engine_answers_with_the_same_whole_numbers(source, engine, unit, part):
    found, known = (answers(source(one, rows(1)), part, unit) for one in (engine, "arrow"))
    assert differences(found, known) == []


@pytest.mark.slow
def test_the_table_tempts():
    """Its sums need more than 64 bits, and some units have more rows, and more labels, than may count."""
    table = arrow(rows(1))
    assert (
        max(conformance.largest(answers(table, f"numbers of {name}", "texts")) for name in "xb")
        > 1 << 64
    )
    for part, question in (("counts", "rows"), ("labels of g", "unlisted")):
        bounded, every = (
            sum(answers(table, part, unit)[question].values()) for unit in ("texts", "rows")
        )
        assert bounded < every


@pytest.mark.parametrize("engine", ["arrow", *OTHERS])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.sample(24)
def test_an_empty_table_is_an_answer(source, engine, part):
    for unit in ("rows", "texts"):
        assert not any(without_zeros(answers(source(engine, []), part, unit)).values())


@pytest.mark.parametrize("engine", ["arrow", *OTHERS])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("unit", ["rows", "texts"])
@pytest.mark.sample(63)
def test_one_unit_more_adds_its_own_answer(source, engine, unit, part):
    """So it moves the answer of no other unit, and nothing that it holds ends the question."""
    table, more = rows(2, 40), rows(3, 25)
    if unit == "texts":
        more = [("another unit", *row[1:]) for row in more]
    found, own, both = (
        answers(source(engine, one), part, unit)
        for one in (table, more, [*table[:20], *more, *table[20:]])
    )
    assert differences(both, add(found, own)) == []
    if unit == "texts" and part == "counts":
        assert own["rows"][0] == 2
        assert own["units"][0] == 1
    if unit == "texts" and part.startswith("labels"):
        assert all(sum(one.values()) <= 2 for one in own.values())


@pytest.mark.parametrize("engine", ["arrow", *OTHERS])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.slow
def test_one_row_more_adds_its_own_answer(source, engine, part):
    """Each extreme by itself, beside a table."""
    table = rows(4, 10)
    before = answers(source(engine, table), part)
    for more in rows(5, 0):
        own, both = (answers(source(engine, one), part) for one in ([more], [more, *table]))
        assert differences(both, add(before, own)) == []


@pytest.mark.parametrize(
    ("value", "kind"),
    [(float(1 << 52), pa.float64()), ((1 << 62) - 1, pa.int64()), (-(1 << 62), pa.int64())],
)
def test_sums_beyond_64_bits_are_exact(value, kind):
    question = asked(conformance.many(value, kind, 5000), GRIDS["one edge"])
    [total] = question.totals([conformance.STEPS[0]])
    steps = max(-(1 << 52), min(1 << 52, int(value)))
    assert (total.steps, total.known, total.missing) == (5000 * steps, 5000, 1)


# ---- twins ----------------------------------------------------------------------------------------------------------------


WORDS = POSTGRES.words
TWINS = {
    "a hash of other digits": ("labels of g", {"drawn": WORDS.drawn.replace(", 1, 15)", ", 2, 15)")}),
    "labels in any case": ("labels of g", {"text": '(lower(CAST({} AS text)) COLLATE "C")'}),
    "numbers however they are written": ("labels of g", {"whole": WORDS.whole.replace("-?[1-9][0-9]*", "[-+]?[0-9]+")}),
    "labels without text": ("labels of g", {"plain": "{0} IS NOT NULL"}),
}  # fmt: skip


def is_convicted(monkeypatch, source, dialect, part, unit="rows"):
    """Tell whether the server, asked in a dialect that is wrong, answers otherwise than the embedded engine."""
    monkeypatch.setattr(PostgresBackend, "dialect", dialect)
    found, known = (
        answers(source(engine, rows(1)), part, unit) for engine in ("postgres", "arrow")
    )
    return differences(found, known)


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.sample(2)
def test_a_dialect_with_one_wrong_word_is_convicted(monkeypatch, source, name):
    part, wrong = TWINS[name]
    words = replace(WORDS, **wrong)
    assert words != WORDS
    assert is_convicted(monkeypatch, source, replace(POSTGRES, words=words), part, "texts")


def _number_as_it_is(index, kind):
    return f"CAST(c{index} AS float8)"


def _sum_of_floats(*question):
    written = POSTGRES.steps(*question)
    assert "sum(steps)" in written
    return written.replace("sum(steps)", "CAST(sum(CAST(steps AS float8)) AS numeric)")


def _divide_toward_zero(step):
    return f"CAST(trunc(x * CAST('{step.denominator}' AS numeric) / CAST('{step.numerator}' AS numeric)) AS bigint)"


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("numbers of x", {"number": _number_as_it_is}),  # NaN is the largest number
        ("numbers of b", {"steps": _sum_of_floats}),  # which rounds, in silence
    ],
)
def test_a_dialect_with_one_wrong_part_is_convicted(monkeypatch, source, part, wrong):
    assert is_convicted(monkeypatch, source, replace(POSTGRES, **wrong), part)


def test_a_division_that_cuts_off_is_convicted(monkeypatch, source):
    monkeypatch.setattr(postgres, "_write_server_numeric_steps", _divide_toward_zero)
    assert "totals 2" in is_convicted(monkeypatch, source, POSTGRES, "numbers of d")


@pytest.mark.parametrize("engine", OTHERS)
def test_names_that_differ_in_case_are_two_columns(source, engine):
    assert list(open_source(source(engine, rows(1, 1))).columns)[:2] == ["who", "WHO"]
