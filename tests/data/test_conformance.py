"""One suite for every engine: over a table of extremes each of them answers with the same whole numbers.

What an engine adds to the embedded one is a dialect. So whatever its words are, its answers are those of the embedded engine, they
add up over units (one unit more adds its own answer and moves no other's), and nothing in a table makes it fail.
"""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest

from sordino.data import open_source
from sordino.data.sources import datafusion_words
from sordino.data.sources.datafusion import DataFusionBackend
from support import conformance
from support.conformance import UNITS, add, answers, arrow, differences, rows, served
from support.number_states import GRIDS, asked
from support.postgres import database
from support.tables import made

OTHERS = ("datafusion", "postgres")


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
        if engine == "postgres":
            served(server, table, "extremes")
            return f"{database()}#conformance.extremes"
        return made(None, engine, arrow(table))

    return make


@pytest.fixture(scope="module")
def known():
    """Return the answers of the embedded engine, each asked once."""
    kept = {}

    def answer(unit, seed):
        if (unit, seed) not in kept:
            kept[unit, seed] = answers(arrow(rows(seed)), UNITS[unit])
        return kept[unit, seed]

    return answer


@pytest.mark.parametrize("engine", OTHERS)
@pytest.mark.parametrize(
    "unit",
    [pytest.param(name, marks=() if name in {"rows", "texts"} else pytest.mark.slow) for name in UNITS],
)
def test_every_engine_answers_with_the_same_whole_numbers(source, known, engine, unit):
    assert differences(answers(source(engine, rows(1)), UNITS[unit]), known(unit, 1)) == []


def test_the_table_tempts():
    """Its sums need more than 64 bits, and some units have more rows than may count."""
    found = answers(arrow(rows(1)), UNITS["texts"])
    assert conformance.largest(found) > 1 << 64
    every = answers(arrow(rows(1)))
    assert found["rows"][0] < every["rows"][0]
    assert sum(found["unlisted g"].values()) < sum(every["unlisted g"].values())


@pytest.mark.parametrize("engine", ["arrow", *OTHERS])
def test_an_empty_table_is_an_answer(source, engine):
    for unit in ("rows", "texts"):
        found = answers(source(engine, []), UNITS[unit])
        assert not any(conformance.without_zeros(found).values())


@pytest.mark.parametrize("engine", ["arrow", *OTHERS])
@pytest.mark.parametrize("unit", ["rows", "texts"])
def test_one_unit_more_adds_its_own_answer(source, engine, unit):
    """Of rows: the extremes, each of which stands alone in the other table. Of a unit: many rows, of which some count."""
    table, more = rows(2, 40), rows(3, 25)
    if unit == "texts":
        more = [("another unit", *row[1:]) for row in more]
    found, own, both = (
        answers(source(engine, one), UNITS[unit]) for one in (table, more, [*table[:20], *more, *table[20:]])
    )
    assert differences(both, add(found, own)) == []
    if unit == "texts":
        assert own["rows"][0] <= 2
        assert sum(own["listed g"].values()) <= 2
        assert own["units"][0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["arrow", *OTHERS])
def test_one_row_more_adds_its_own_answer(source, engine):
    """Each extreme by itself, beside a table."""
    table = rows(4, 10)
    before = answers(source(engine, table))
    for more in rows(5, 0):
        own, both = answers(source(engine, [more])), answers(source(engine, [more, *table]))
        assert differences(both, add(before, own)) == []


@pytest.mark.parametrize("engine", ["arrow", "datafusion"])
@pytest.mark.parametrize(
    ("value", "kind"), [(float(1 << 52), pa.float64()), ((1 << 62) - 1, pa.int64()), (-(1 << 62), pa.int64())]
)
def test_sums_beyond_64_bits_are_exact(engine, value, kind):
    question = asked(made(None, engine, conformance.many(value, kind, 5000)), GRIDS["one edge"])
    [total] = question.totals([conformance.STEPS[0]])
    steps = max(-(1 << 52), min(1 << 52, int(value)))
    assert (total.steps, total.known, total.missing) == (5000 * steps, 5000, 1)


# ---- twins ----------------------------------------------------------------------------------------------------------------


WORDS = datafusion_words.DATAFUSION_WORDS
NARROW = datafusion_words.DATAFUSION
TWINS = {
    "a hash of other digits": {"drawn": WORDS.drawn.replace("1 AS BIGINT) * 16 ", "1 AS BIGINT) * 17 ")},
    "NaN is a number": {"number": "CASE WHEN {0} = 0 THEN CAST(0 AS DOUBLE) ELSE {0} END"},
    "labels in any case": {"text": "lower(CAST({} AS VARCHAR))"},
    "numbers as they are written": {"whole": f"CAST(TRY_CAST({{0}} AS BIGINT) AS {datafusion_words.WIDE})"},
    "labels without text": {"plain": "{0} IS NOT NULL"},
}


@pytest.mark.parametrize("name", TWINS)
def test_a_dialect_with_one_wrong_word_is_convicted(monkeypatch, known, name):
    words = replace(WORDS, **TWINS[name])
    assert words != WORDS

    def number(index, kind):
        return NARROW.number(index, kind).replace(
            WORDS.number.format(f"CAST(c{index} AS DOUBLE)"), words.number.format(f"CAST(c{index} AS DOUBLE)")
        )

    monkeypatch.setattr(DataFusionBackend, "dialect", replace(NARROW, words=words, number=number))
    assert differences(answers(made(None, "datafusion", arrow(rows(1))), UNITS["texts"]), known("texts", 1))


def test_a_sum_in_64_bits_is_convicted(monkeypatch):
    """There a sum goes around the end, and nothing is said."""

    def steps(*given):
        return datafusion_words.DATAFUSION.steps(*given).replace(datafusion_words.WIDE, "BIGINT")

    dialect = replace(NARROW, steps=steps)
    monkeypatch.setattr(DataFusionBackend, "dialect", dialect)
    with pytest.raises(AssertionError):
        test_sums_beyond_64_bits_are_exact("datafusion", float(1 << 52), pa.float64())


def test_names_that_differ_in_case_are_two_columns(source):
    for engine in OTHERS:
        names = list(open_source(source(engine, rows(1, 1))).columns)
        assert names[:2] == ["who", "Who"]
