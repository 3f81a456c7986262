"""One number of each unit: what a reference in fractions says, in every engine, and nobody else's rows decide a bit of it."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest

import sordino as sd
from sordino.errors import InvalidParameter, UnboundedContribution
from sordino.questions import PrivacyUnit, number_question, prepare_numbers
from sordino.session.numbers import MeanRequest, SumRequest
from sordino.session.quantile_request import QuantileRequest
from sordino.sources import open_source
from sordino.sources.sql.number_kind import number_kind
from sordino.sources.sql.person_query import ROW_LIMIT, find_row_step
from support.number_states import GRIDS, SALT
from support.postgres import database

AGGREGATES = ("sum", "count", "mean", "min", "max", "any")
CAP = 10**6
STEP = Fraction(1, 1 << 42)
"""Of floats up to `CAP`: 2^62 of them are at least as much."""
ODD = [None, math.nan, -math.inf, -1.5, -0.0, 0.25, 0.1, 5e-324, -5e-324, 3e7, -1e300, math.inf]
BAGS = [bag for size in (1, 2, 3) for bag in itertools.combinations_with_replacement(ODD, size)]


def question(source, aggregate, **options):
    return prepare_numbers(
        open_source(source),
        PrivacyUnit("who"),
        **{"column": "x", "grid": GRIDS["one edge"], "salt": SALT, "row_cap": CAP} | options,
        per_person=aggregate,
    )


def values(asked):
    """The private numbers of units, however often each stands there; of groups beside them."""
    with asked.source.backend.scan(asked.indices) as scan:
        group = "grp, " if asked.domain is not None else ""
        answer = scan.ask(
            f"SELECT {group}CAST(x AS {asked.dialect.float_type}) AS x FROM {asked.rows(0)} AS rows",
            list(asked.groups) if asked.domain is not None else None,
        )
    numbers = [None if x is None or x != x else float(x) for x in answer["x"].tolist()]
    return Counter(numbers if not group else zip(answer["grp"].tolist(), numbers, strict=True))


def steps_of(number, step=STEP):
    if number in (math.inf, -math.inf):
        return ROW_LIMIT if number > 0 else -ROW_LIMIT
    return max(-ROW_LIMIT, min(ROW_LIMIT, math.floor(Fraction(number) / step)))


def made_of(bag, aggregate, step=STEP):
    """The rule, in whole numbers and fractions: a float of the number of steps, times or by one float."""
    known = [x for x in bag if x is not None and x == x]
    steps = [steps_of(x, step) for x in known]
    if aggregate == "count":
        return float(len(known))
    if not known:
        return None
    if aggregate == "any":
        return float(any(x != 0 for x in known))
    part = float({"sum": sum, "mean": sum, "min": min, "max": max}[aggregate](steps))
    if aggregate == "mean":
        part /= len(known)
    return (
        part * float(step)
        if step.denominator & (step.denominator - 1) == 0
        else part / float(1 / step)
    )


def frame_of(bags, kind=pl.Float64):
    owned = [(place, x) for place, bag in enumerate(bags) for x in bag]
    return pl.DataFrame(
        {
            "who": [f"u{place}" for place, _ in owned],
            "x": pl.Series([x for _, x in owned], dtype=kind, strict=False),
        }
    )


@pytest.fixture(scope="module")
def server():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS people CASCADE")
        connection.execute("CREATE SCHEMA people")
        yield connection
        connection.execute("DROP SCHEMA people CASCADE")


def served(connection, frame, kind):
    connection.execute("DROP TABLE IF EXISTS people.rows")
    connection.execute(f"CREATE TABLE people.rows (who text, x {kind})")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO people.rows VALUES (%s, %s)", frame.rows())
    return f"{database()}#people.rows"


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_bag_of_odd_floats_has_the_value_of_the_rule(aggregate):
    wanted = Counter(made_of(bag, aggregate) for bag in BAGS)
    assert values(question(frame_of(BAGS), aggregate)) == wanted


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_server_has_the_same(server, aggregate):
    source = served(server, frame_of(BAGS), "double precision")
    wanted = Counter(made_of(bag, aggregate) for bag in BAGS)
    assert values(question(source, aggregate)) == wanted


CENTS = [None, *map(Decimal, ("0.10", "0.20", "-0.01", "99999999999999.99", "-99999999999999.99"))]
CENT_BAGS = [
    bag for size in (1, 2, 3) for bag in itertools.combinations_with_replacement(CENTS, size)
]


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("engine", ["embedded", "server"])
def test_decimals_are_added_up_in_their_last_digit(server, engine, aggregate):
    """Three times 0.10 are 0.3, which a person who has them reaches."""
    frame = frame_of(CENT_BAGS, pl.Decimal(16, 2))
    source = frame if engine == "embedded" else served(server, frame, "numeric(16,2)")
    wanted = Counter(made_of(bag, aggregate, Fraction(1, 100)) for bag in CENT_BAGS)
    found = values(question(source, aggregate))
    assert found == wanted
    if aggregate == "sum":
        assert found[0.3] > 0


@pytest.mark.parametrize("engine", ["embedded", "server"])
def test_whole_numbers_of_any_size_end_nothing(server, engine):
    bags = [((1 << 63) - 1,) * 3, (-(1 << 63), 5), ((1 << 53) + 1, 1), (None, 7)]
    frame = frame_of(bags, pl.Int64)
    source = frame if engine == "embedded" else served(server, frame, "bigint")
    wanted = Counter(made_of(bag, "sum", Fraction(1)) for bag in bags)
    assert values(question(source, "sum")) == wanted
    assert 3.0 * ROW_LIMIT in wanted


def test_decimals_of_many_digits_have_steps_that_reach_the_cap(server):
    """With 18 digits behind the point, 2^62 steps of the last one are less than 5."""
    bags = [(Decimal("5.000000000000000001"), Decimal("7.5")), (Decimal("-0.000000000000000001"),)]
    step = find_row_step(number_kind("DECIMAL(38,18)", text=False), CAP)
    assert step * ROW_LIMIT >= CAP
    wanted = Counter(made_of(bag, "sum", step) for bag in bags)
    table = frame_of(bags, pl.Decimal(38, 18))
    assert values(question(table, "sum")) == wanted
    assert values(question(served(server, table, "numeric(38,18)"), "sum")) == wanted
    assert values(question(served(server, table, "numeric"), "sum")) == wanted
    assert set(wanted) == {12.5, -float(step)}


def test_a_lower_end_that_is_farther_than_the_cap_cuts_no_row():
    """Twin: with steps for the cap alone, losses beyond it would count as it."""
    frame = pl.DataFrame({"who": [*range(400), *range(400)], "x": [-3000.0] * 800})
    session = sd.Session(frame, unit=PrivacyUnit("who"), ledger=None)
    half = session.quantile(
        "x", q=0.5, per_person="sum", epsilon=100, lower=-1e5, cap=1, interval_share=None
    )
    assert -6100 < half.value < -5800
    assert values(question(frame, "sum", row_cap=1)) != Counter({-6000.0: 400})


def test_steps_of_decimals_are_found_for_any_cap():
    for kind in ("DECIMAL(38,18)", "DECIMAL(38,0)", "NUMERIC"):
        for cap in (Fraction(1, 10**300), 1, 10**18, 10**300):
            step = find_row_step(number_kind(kind, text=False), cap)
            assert step.numerator == 1
            assert step == 1 or step * ROW_LIMIT >= cap


def test_steps_of_floats_follow_the_cap_and_stay_numbers():
    kind = number_kind("DOUBLE", text=False)
    for cap in (1, 3, CAP, 1e-300, 1e300, Fraction(1, 3)):
        step = find_row_step(kind, cap)
        assert step * ROW_LIMIT >= min(Fraction(cap), Fraction(2) ** 800)
        assert float(step) > 0
        assert math.isfinite(float(step * ROW_LIMIT))
    assert find_row_step(kind, CAP) == STEP


def test_a_row_counts_for_all_rows_without_a_column():
    frame = pl.DataFrame({"who": ["a", "a", "b", None], "x": [None, 1.0, None, 2.0]})
    assert values(question(frame, "count", column=None)) == Counter([2.0, 1.0])
    assert values(question(frame, "count")) == Counter([1.0, 0.0])


def test_each_group_has_a_number_of_its_own_in_at_most_so_many_groups():
    rows = [("a", "p", 1.0), ("a", "p", 2.0), ("a", "q", 4.0), ("b", "q", 8.0), ("b", "q", None)]
    frame = pl.DataFrame(rows, schema=["who", "g", "x"], orient="row")
    options = {"by": "g", "domain": ["p", "q", "r"]}
    found = values(question(frame, "sum", groups_per_unit=3, **options))
    assert found == Counter([(0, 3.0), (1, 4.0), (1, 8.0)])
    chosen = values(question(frame, "sum", groups_per_unit=1, **options))
    assert chosen in (Counter([(0, 3.0), (1, 8.0)]), Counter([(1, 4.0), (1, 8.0)]))


# ---- nobody else's rows decide a bit ---------------------------------------------------------------------


def crowd(extra):
    """Seven units with many floats of every size, and rows of somebody else among them."""
    draw = np.random.default_rng(5)
    count = 300_000
    who = np.char.add("u", draw.integers(0, 7, count).astype(str))
    x = draw.lognormal(0, 6, count)
    return pa.table({"who": ["other"] * extra + who.tolist(), "x": [1e9] * extra + x.tolist()})


def read(table, threads):
    from sordino.sources import engine

    with pytest.MonkeyPatch.context() as patch:
        begin = engine.Engine.__init__

        def with_threads(self, *given, **named):
            begin(self, *given, **named)
            self.connection.execute(f"SET threads = {threads}")

        patch.setattr(engine.Engine, "__init__", with_threads)
        return values(question(table, "sum", row_cap=10**12))


def test_a_row_of_somebody_else_and_threads_leave_every_sum_as_it_is(monkeypatch):
    """Twin: floats that the engine adds up itself differ in their last bits."""
    alone = read(crowd(0), 1)
    assert len(alone) == 7

    def ways():
        for extra, threads in ((1, 1), (1, 2), (3, 4), (0, 8)):
            found = read(crowd(extra), threads)
            yield found - Counter([1e9, 3e9])

    assert all(found == alone for found in ways())

    def add_floats(self, rows, *, grouped):
        return f"(SELECT CAST(sum(x) AS DOUBLE) AS x FROM {rows} AS kept GROUP BY unit)"

    monkeypatch.setattr(number_question.People, "write_one", add_floats)
    alone = read(crowd(0), 1)
    assert any(found != alone for found in ways())


WHOLE = [(2**31 - 1, -(2**31) + 5, 7), (2**31 - 1,), (1, 2)]


@pytest.mark.parametrize("kind", ["int32", "int16", "bool", "float32"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.sample(3)
def test_a_stray_text_of_somebody_else_moves_nobody_in_pandas(kind, aggregate):
    """It makes texts of the column, whose numbers are floats: so all of them are added up as floats are."""
    owned = [(f"u{place}", x) for place, bag in enumerate(WHOLE) for x in bag]
    numbers = np.array([x % 2**15 if kind == "int16" else x for _, x in owned])
    frame = pd.DataFrame({"who": [who for who, _ in owned], "x": numbers.astype(kind)})
    stray = pd.DataFrame({"who": ["v", "v"], "x": ["none", "4"]}, dtype=object)
    without = values(question(frame, aggregate, row_cap=1000))
    among = values(question(pd.concat([frame, stray]), aggregate, row_cap=1000))
    one = {"count": 1.0, "any": 1.0}.get(aggregate, 4.0)
    assert among - without == Counter([one])
    assert not without - among


# ---- what is refused, and said ---------------------------------------------------------------------------

TABLE = pl.DataFrame({"who": ["a", "a", "b", "c"], "n": [1, 2, 3, 4], "g": ["p", "q", "p", "q"]})


@pytest.mark.parametrize(
    ("unit", "asked", "error", "message"),
    [
        (
            PrivacyUnit.row(),
            {"column": "n"},
            InvalidParameter,
            "must go with a column that says whose a row is",
        ),
        (
            PrivacyUnit("n"),
            {"column": "n"},
            InvalidParameter,
            "another one than that of the person",
        ),
        (PrivacyUnit("who"), {"column": "g"}, InvalidParameter, "whole numbers, decimals"),
        (PrivacyUnit("who"), {"column": None}, InvalidParameter, "unless the rows of each person"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_charge(unit, asked, error, message):
    session = sd.Session(TABLE, unit=unit, ledger=None)
    with pytest.raises(error, match=message):
        session.mean(**asked, per_person="mean", epsilon=1, lower=0, cap=10)


def test_one_number_in_each_group_needs_a_bound_where_nothing_is_weighed():
    asked = {"by": "g", "domain": ["p"], "per_person": "mean", "salt": SALT}
    with pytest.raises(UnboundedContribution, match="groups_per_unit"):
        prepare_numbers(
            open_source(TABLE), PrivacyUnit("who"), column="n", grid=GRIDS["one edge"], **asked
        )


def test_the_column_of_the_unit_is_no_number_of_weighed_rows():
    session = sd.Session(TABLE, unit=PrivacyUnit("n"), ledger=None)
    with pytest.raises(InvalidParameter, match="another one than that of the person"):
        session.mean("n", epsilon=1, lower=0, cap=10)


def test_what_is_no_aggregate_is_refused():
    session = sd.Session(TABLE, unit=PrivacyUnit("who"), ledger=None)
    with pytest.raises(InvalidParameter, match=re.escape("mean.per_person must be")):
        session.mean("n", per_person="median", epsilon=1, lower=0, cap=10)


@pytest.mark.parametrize("bounded", [True, False])
def test_a_sum_is_one_of_people_where_nothing_bounds_their_rows(bounded):
    """With `max_rows`, which is a wish, rows are clipped and not people."""
    unit = PrivacyUnit("who", max_rows=2 if bounded else None)
    release = sd.Session(TABLE, unit=unit, ledger=None).sum("n", epsilon=1, lower=0, cap=10)
    facts = release.population.list_facts()
    assert facts.get("per_person") == (None if bounded else "sum")
    assert release.population.max_rows == unit.max_rows
    notes = release.population.list_notes()
    assert any("sum of n of each person" in note for note in notes) is not bounded


def test_a_bound_on_rows_does_not_count_where_each_person_has_one_number():
    # Counts of rows, and what is 0 or 1, begin at 0: no end is looked for below, and none is paid for.
    for kind in (SumRequest, MeanRequest, QuantileRequest):
        for aggregate in ("count", "any"):
            asked = {"column": "x", "epsilon": 1, "per_person": aggregate}
            asked |= {"q": 0.5} if kind is QuantileRequest else {}
            assert kind(**asked) == kind(**asked, lower=0)
            assert kind(**asked, lower=-1).lower == -1
        assert kind(**asked | {"per_person": "sum"}).lower is None
    frame = pl.DataFrame({"who": [*range(500), *range(500)], "n": [2] * 1000})
    unit = PrivacyUnit("who", max_rows=1)
    mean = sd.Session(frame, unit=unit, ledger=None).mean(
        "n", per_person="sum", epsilon=1000, lower=0, cap=10
    )
    assert mean.population.max_rows is None
    assert 3.8 < mean.estimate < 4.1
