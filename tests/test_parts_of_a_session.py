"""Sessions that read one part of a table: the rows of some days and no others, before anything else is asked."""

from __future__ import annotations

import datetime as dt
import random

import polars as pl
import psycopg
import pytest

import sordino as sd
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict
from sordino.ledger import PartRange
from support.postgres import database

PRODUCTS = ["tea", "coffee", "cocoa", "milk"]
FIRST = dt.date(2026, 11, 1)
UNIT = sd.PrivacyUnit(["customer", "day(day)"], max_rows=2)
KINDS = {"customer": pl.String, "day": pl.Date, "product": pl.String, "price": pl.Float64}


def make_rows(seed, many=600, days=6):
    draw = random.Random(seed)
    return [
        (
            draw.choice([*(f"c{number}" for number in range(40)), None]),
            draw.choice([None, *(FIRST + dt.timedelta(step) for step in range(days))]),
            draw.choice(PRODUCTS),
            draw.choice([None, *(step / 4 for step in range(400))]),
        )
        for _ in range(many)
    ]


def frame(rows):
    return pl.DataFrame(rows, schema=KINDS, orient="row")


def on(rows, *days):
    return [row for row in rows if row[1] in days]


RELEASES = {
    "count": lambda one, **more: one.count(epsilon=1, **more),
    "people": lambda one, **more: one.count_distinct_units(epsilon=1, **more),
    "histogram": lambda one, **more: one.histogram("product", epsilon=1, domain=PRODUCTS, **more),
    "top": lambda one, **more: one.top_k("product", k=2, epsilon=1, domain=PRODUCTS, **more),
    "public": lambda one, **more: one.top_k(
        "product", k=2, epsilon=1, domain=sd.Domain.assume_public(), **more
    ),
    "sum": lambda one, **more: one.sum("price", epsilon=1, lower=0, **more),
    "mean": lambda one, **more: one.mean("price", epsilon=1, lower=0, per_person="sum", **more),
    "quantile": lambda one, **more: one.quantile(
        "price", q=0.5, epsilon=1, lower=0, cap=100, **more
    ),
    "groups": lambda one, **more: one.sum(
        "price", epsilon=2, lower=0, by="product", domain=PRODUCTS, groups_per_unit=2, **more
    ),
    "weekdays": lambda one, **more: one.histogram("weekday(day)", epsilon=1, **more),
    "above": lambda one, **more: one.above(
        "product", threshold=10, positives=2, epsilon=1, domain=PRODUCTS, **more
    ),
}


def released(source, name, part=None, seed=11, unit=UNIT, **more):
    session = sd.Session(source, unit=unit, entropy=sd.Seeded(seed), ledger=None, part=part)
    return list_numbers(RELEASES[name](session, **more))


def list_numbers(release):
    return drop(release.to_dict())


def drop(said):
    """Return what is released, without which rows and which account it is of."""
    if isinstance(said, list):
        return [drop(one) for one in said]
    if not isinstance(said, dict):
        return said
    about = {"receipt", "population", "time", "id"}
    return {name: drop(value) for name, value in said.items() if name not in about}


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.sample(4)
def test_a_part_is_the_table_of_its_rows(name):
    rows = make_rows(1)
    two = FIRST + dt.timedelta(2)
    own = frame(on(rows, two))
    for part in ("2026-11-03", "2026-11-03..2026-11-03"):
        assert released(frame(rows), name, part) == released(own, name), name
    # Whatever the others did on other days, to the last bit.
    others = [row for row in make_rows(2) if row[1] != two]
    again = [*others[:200], *on(rows, two), *others[200:]]
    assert released(frame(again), name, "2026-11-03") == released(own, name), name
    three = [FIRST + dt.timedelta(step) for step in (1, 2, 3)]
    assert released(frame(rows), name, "2026-11-02..2026-11-04") == released(
        frame(on(rows, *three)), name
    )


def test_a_filter_never_reaches_beyond_the_part():
    rows, two = make_rows(3), FIRST + dt.timedelta(2)
    for where in (
        "price >= 0 OR day >= '2026-01-01'",
        "day = '2026-11-01' OR product = 'tea'",
        "NOT (day = '2026-11-03')",
    ):
        own = released(frame(on(rows, two)), "count", where=where)
        assert released(frame(rows), "count", "2026-11-03", where=where) == own


def test_the_choice_of_rows_comes_after_the_part():
    # With one item of each customer-day in all of the table, and not in the part, a customer of
    # many days would lose items of this day to others.
    unit = sd.PrivacyUnit(["customer", "month(day)"], max_rows=1)
    rows, two = make_rows(4), FIRST + dt.timedelta(2)
    session = sd.Session(frame(rows), unit=unit, entropy=sd.Seeded(1), ledger=None, part="2026-11")
    assert session.count(epsilon=1).estimate > 20
    with pytest.raises(InvalidParameter, match="cut to the month"):
        sd.Session(frame(rows), unit=unit, ledger=None, part="2026-11-03")
    own = released(frame(on(rows, two)), "histogram")
    assert released(frame(rows), "histogram", "2026-11-03") == own


def test_each_row_is_in_its_own_part_alone():
    """At the ends of parts: the first and the last microsecond, leap days, the first and the last year, no time at all."""
    texts = """0001-01-01T00:00:00 0001-12-31T23:59:59.999999 2023-12-31T23:59:59.999999
        2024-01-01T00:00:00 2024-02-28T23:59:59.999999 2024-02-29T00:00:00 2024-02-29T12:30:00
        2024-02-29T23:59:59.999999 2024-03-01T00:00:00 2026-11-27T04:59:59.999999
        2026-11-27T05:00:00 9999-01-01T00:00:00 9999-12-31T23:59:59.999999"""
    times = [dt.datetime.fromisoformat(text) for text in texts.split()]
    rows = [(f"c{place}", at) for place, at in enumerate([*times, None])]
    here = pl.DataFrame(rows, schema={"customer": pl.String, "at": pl.Datetime("us")}, orient="row")
    cases = {
        "day_hour": ("2026-11-27T05", "2024-02-29T23", "2024-02-29T00..2024-03-01T00"),
        "day": ("2024-02-29", "2024-02-28..2024-02-29", "9999-12-31", "0001-01-01", "2023-03-01"),
        "month": ("2024-02", "2024", "0001-01..0001-12", "9999-12", "2023-12..2024-01"),
        "year": ("2024", "0001", "9999", "2023..2026"),
    }
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS parted CASCADE; CREATE SCHEMA parted")
        try:
            connection.execute("CREATE TABLE parted.t (customer text, at timestamp)")
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO parted.t VALUES (%s, %s)", rows)
            outside = ("infinity", "-infinity", "10000-01-01", "0001-12-31 BC")
            for place, text in enumerate(outside):
                connection.execute("INSERT INTO parted.t VALUES (%s, %s)", (f"x{place}", text))
            for cut, parts in cases.items():
                unit = sd.PrivacyUnit(["customer", f"{cut}(at)"], max_rows=1)
                for part in parts:
                    low, _, high = part.partition("..")
                    # By their texts, cut where the text of the part ends.
                    truth = sum(
                        low <= text[: len(low)] and text[: len(high or low)] <= (high or low)
                        for text in texts.split()
                    )
                    for source in (here, f"{database()}#parted.t"):
                        session = sd.Session(source, unit=unit, ledger=None, part=part)
                        assert session.count(epsilon=200).estimate == truth, (cut, part)
        finally:
            connection.execute("DROP SCHEMA parted CASCADE")


def test_a_batch_reads_the_part_alone():
    rows, two = make_rows(5), FIRST + dt.timedelta(2)

    def batched(source, part=None):
        with sd.Session(source, unit=UNIT, entropy=sd.Seeded(3), ledger=None, part=part) as session:
            with session.batch() as batch:
                made = [
                    session.count(epsilon=0.5),
                    session.histogram("product", epsilon=0.5, domain=PRODUCTS),
                    session.sum("price", epsilon=0.5, lower=0),
                    session.mean("price", epsilon=0.5, lower=0),
                ]
            assert batch is not None
            return [list_numbers(one.result) for one in made]

    assert batched(frame(rows), "2026-11-03") == batched(frame(on(rows, two)))


@pytest.fixture
def account(tmp_path):
    return sd.Ledger.create(
        tmp_path / "b.db",
        account="orders",
        budget=sd.Budget(epsilon=1),
        adjacency="add-remove",
        unit=UNIT,
        source="name:orders",
        parts="day",
    )


def opened(account, rows, part=None):
    return sd.Session(frame(rows), unit=UNIT, ledger=account, name="orders", part=part)


def test_each_day_has_the_budget_for_itself(account):
    rows = make_rows(6)
    for step in range(6):
        day = (FIRST + dt.timedelta(step)).isoformat()
        made = opened(account, rows, day).count(epsilon=1)
        assert made.population.part == day
        assert made.population.where == f"day(day) = '{day}'"
        assert made.receipt is not None
    with pytest.raises(BudgetExceeded):
        opened(account, rows, "2026-11-03").count(epsilon=0.001)
    # The whole table is charged to all days, and one of them is full.
    with pytest.raises(BudgetExceeded):
        opened(account, rows).count(epsilon=0.001)
    with pytest.raises(BudgetExceeded):
        opened(account, rows, "2026-11-06..2026-11-09").count(epsilon=0.001)
    assert opened(account, rows, "2026-11-07..2026-11-09").count(epsilon=1).population.part
    assert account.verify().sound


def test_what_is_closed_is_read_by_nobody(account):
    rows = make_rows(7)
    stale = opened(account, rows)
    account.close_parts(PartRange(20761, 20761).low)
    with pytest.raises(LedgerConflict, match="closed since this session was opened"):
        stale.count(epsilon=0.25)
    assert account.remaining == 1
    with pytest.raises(LedgerConflict):
        opened(account, rows, "2026-11-04").count(epsilon=0.25)
    session = opened(account, rows)
    rule = "rows whose day(day) is before 2026-11-05, which is closed"
    assert rule in session.left_out
    made = session.count(epsilon=0.25)
    assert rule in made.population.left_out
    # Those rows are not read: the same numbers as without them.
    late = [FIRST + dt.timedelta(step) for step in (4, 5)]
    with sd.Session(frame(on(rows, *late)), unit=UNIT, ledger=account, name="orders") as other:
        assert abs(other.count(epsilon=0.7).estimate - made.estimate) < 60


def test_a_session_of_an_open_day_goes_on_when_others_are_closed(account):
    rows = make_rows(13)
    session, whole = opened(account, rows, "2026-11-05"), opened(account, rows)
    kept = whole.histogram("product", epsilon=0.25, domain=PRODUCTS)
    whole.keep(kept)
    account.close_parts(20761)
    assert session.count(epsilon=0.25).population.part == "2026-11-05"
    # What was kept of all rows is not put together with what is read now.
    with pytest.raises(InvalidParameter, match="of the rows that this session reads"):
        opened(account, rows).remeasure(kept.receipt.id, epsilon=0.25)
    # A session that would read too much uses up no run.
    stale = sd.Session(
        frame(rows), unit=UNIT, ledger=account.for_run("night"), name="orders", part=None
    )
    account.close_parts(20762)
    with pytest.raises(LedgerConflict, match="closed since this session was opened"):
        stale.count(epsilon=0.25)
    assert account.find_run("night") is None


def test_parts_that_are_closed_while_a_charge_is_made_are_not_read(account, monkeypatch):
    stale = opened(account, make_rows(14))
    account.close_parts(20761)
    # As if they were closed behind the look that comes first.
    monkeypatch.setattr("sordino.session.executor.check_closed", lambda _source, _ledger: None)
    with pytest.raises(LedgerConflict, match="closed since this session was opened"):
        stale.count(epsilon=0.25)
    assert account.remaining == 1


def test_a_part_that_is_none_is_refused_before_anything_is_charged(account):
    rows = make_rows(8, 20)
    for part in ("2026-11-31", "tomorrow", "2026-11-05..2026-11-01", "20261105", "2026-W45", ""):
        with pytest.raises(InvalidParameter):
            opened(account, rows, part)
    with pytest.raises(LedgerConflict, match="one of the columns of the person"):
        sd.Session(frame(rows), unit=sd.PrivacyUnit("customer"), ledger=account, name="orders")
    assert account.remaining == 1
    for unit in ("customer", ["customer", "product"], ["customer", "week(day)"]):
        with pytest.raises(InvalidParameter, match="a time that is cut"):
            sd.Session(frame(rows), unit=sd.PrivacyUnit(unit), ledger=None, part="2026-11-03")


def test_an_account_without_parts_takes_none(tmp_path):
    ledger = sd.Ledger.create(
        tmp_path / "b.db",
        account="orders",
        budget=sd.Budget(epsilon=1),
        adjacency="add-remove",
        unit=UNIT,
        source="name:orders",
    )
    with pytest.raises(InvalidParameter, match="--parts day"):
        opened(ledger, make_rows(9, 20), "2026-11-03")


def test_a_kept_release_is_measured_again_in_its_own_part(account):
    rows = make_rows(10)
    session = opened(account, rows, "2026-11-03")
    first = session.histogram("product", epsilon=0.25, domain=PRODUCTS)
    session.keep(first)
    key = first.receipt.id
    again = opened(account, rows, "2026-11-03").remeasure(key, epsilon=0.25)
    assert again.population.part == "2026-11-03"
    for other in ("2026-11-04", None):
        with pytest.raises(InvalidParameter, match="of the rows that this session reads"):
            opened(account, rows, other).remeasure(key, epsilon=0.25)


def test_a_server_selects_the_same_rows():
    rows = [row for row in make_rows(12) if row[1] is not None]
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS parted CASCADE; CREATE SCHEMA parted")
        try:
            connection.execute(
                "CREATE TABLE parted.t (customer text, day date, product text, price float8)"
            )
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO parted.t VALUES (%s, %s, %s, %s)", rows)
            # Whatever these hold, they are of no part.
            connection.execute(
                "INSERT INTO parted.t VALUES ('c1', 'infinity', 'tea', 1),"
                " ('c1', '0044-01-01 BC', 'tea', 1), ('c1', NULL, 'tea', 1)"
            )
            source = f"{database()}#parted.t"
            for name in ("count", "people", "histogram", "sum"):
                for part in ("2026-11-03", "2026-11-02..2026-11-04"):
                    there, here = released(source, name, part), released(frame(rows), name, part)
                    assert there == here, name
        finally:
            connection.execute("DROP SCHEMA parted CASCADE")
