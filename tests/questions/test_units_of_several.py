"""Units of several columns: rows are of one unit if they agree in each, and no two units have one text."""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict
from fractions import Fraction
from math import exp

import duckdb
import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino.columns import BucketGrid
from sordino.cost.several import bound_several, list_days, say_days_of
from sordino.errors import InvalidParameter
from sordino.questions import Domain, PrivacyUnit, prepare_counts, prepare_numbers
from sordino.sources import computed_columns, open_source
from sordino.unit_columns import (
    add_article,
    find_cut,
    join_unit_columns,
    narrow_odds,
    say_unit_of,
    split_unit_columns,
)
from support.postgres import database

SALT = bytes(range(32))
TEXTS = ["a", "b", "1:a", "a1:", "2:ab", "7", "07", "", " a", "a ", "A", '"', "a\x1f", "é", None]
START = dt.datetime(2026, 2, 27, 22, 30)  # noqa: DTZ001 - nobody says where
LABELS = ["x", "y", "z"]


def make_rows(seed, many=150):
    draw = random.Random(seed)
    return [
        (
            draw.choice(TEXTS),
            draw.choice(TEXTS),
            draw.choice([None, *(START + dt.timedelta(hours=3 * step) for step in range(20))]),
            draw.choice(LABELS),
            draw.randint(0, 9),
        )
        for _ in range(many)
    ]


KINDS = {
    "one": pa.string(),
    "two": pa.string(),
    "seen": pa.timestamp("us"),
    "item": pa.string(),
    "x": pa.int64(),
}


def arrow(rows):
    return pa.table(
        {
            name: pa.array([row[at] for row in rows], kind)
            for at, (name, kind) in enumerate(KINDS.items())
        }
    )


CUTS = {
    "year": "%Y",
    "month": "%Y-%m",
    "day": "%Y-%m-%d",
    "day_hour": "%Y-%m-%dT%H",
    "week": "%G-%V",
    "quarter": None,
}


def unit_of(row, columns):
    """Return the unit of a row as Python tells it: a tuple; None where a part is missing."""
    found = []
    for column in columns:
        cut, _, name = column.rpartition("(")
        value = row[list(KINDS).index(name.rstrip(")"))]
        if value is None:
            return None
        if cut == "quarter":
            value = (value.year, (value.month + 2) // 3)
        elif cut:
            value = value.strftime(CUTS[cut])
        found.append(value)
    return tuple(found)


UNITS = [
    ["one", "two"],
    ["two", "one"],
    ["one", "day(seen)"],
    ["day(seen)", "one", "two"],
    ["one", "month(seen)"],
    ["one", "week(seen)"],
    ["one", "quarter(seen)"],
    ["one", "year(seen)"],
    ["one", "two", "day_hour(seen)"],
]


def count_units(source, columns):
    question = prepare_counts(source, PrivacyUnit(columns), kind="units")
    return int(question.run().at([0])[0])


@pytest.fixture(scope="module")
def server():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS several CASCADE; CREATE SCHEMA several")
        connection.execute(
            "CREATE TABLE several.t (one text, two text, seen timestamp, item text, x bigint)"
        )
        yield connection
        connection.execute("DROP SCHEMA several CASCADE")


def on_server(server, rows):
    server.execute("TRUNCATE several.t")
    with server.cursor() as cursor:
        cursor.executemany("INSERT INTO several.t VALUES (%s, %s, %s, %s, %s)", rows)
    return open_source(f"{database()}#several.t")


def test_units_are_those_of_python_on_both_engines(server):
    for seed in range(4):
        rows = make_rows(seed)
        sources = open_source(arrow(rows)), on_server(server, rows)
        for columns in UNITS:
            units = {unit_of(row, columns) for row in rows} - {None}
            assert [count_units(source, columns) for source in sources] == [len(units)] * 2, columns


def counts_of(source, columns, most, salt=SALT):
    found = prepare_counts(
        source,
        PrivacyUnit(columns, max_rows=most),
        kind="items",
        item="item",
        domain=Domain.of(LABELS),
        salt=salt,
    ).run()
    return dict(zip(LABELS, map(int, found.at([0, 1, 2])), strict=True))


def test_a_table_is_the_sum_of_its_units(server):
    rows = make_rows(7, 90)
    for columns in (["one", "two"], ["one", "day(seen)"]):
        units = defaultdict(list)
        for row in rows:
            units[unit_of(row, columns)].append(row)
        units.pop(None)
        for most in (1, 2):
            whole = counts_of(open_source(arrow(rows)), columns, most)
            assert counts_of(on_server(server, rows), columns, most) == whole
            alone = [counts_of(open_source(arrow(own)), columns, most) for own in units.values()]
            assert whole == {label: sum(one[label] for one in alone) for label in LABELS}
            # Each unit moves at most as many counts as were promised.
            assert max(sum(one.values()) for one in alone) == most


def test_texts_that_are_joined_without_their_lengths_are_convicted(monkeypatch):
    rows = [("a", "b/c", START, "x", 1), ("a/b", "c", START, "y", 1)] * 3
    rows = [(one.replace("/", ""), two.replace("/", ""), *rest) for one, two, *rest in rows]
    source = open_source(arrow(rows))
    assert count_units(source, ["one", "two"]) == 2
    honest = computed_columns.write_unit

    def write_without_lengths(columns, source, role):
        column = honest(columns, source, role)
        texts = [f"c{place}" for place in sorted(column.indices)]
        return computed_columns.ComputedColumn(" || ".join(texts), column.indices, None)

    monkeypatch.setattr("sordino.sources.source.write_unit", write_without_lengths)
    assert count_units(source, ["one", "two"]) == 1


def test_times_that_no_calendar_has_are_nobodys(server):
    values = [
        "0044-03-15 10:00:00 BC",
        "infinity",
        "-infinity",
        "20000-01-01 00:00:00",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        None,
    ]
    server.execute("TRUNCATE several.t")
    for value in values:
        server.execute("INSERT INTO several.t VALUES ('a', 'b', %s, 'x', 1)", [value])
    source = open_source(f"{database()}#several.t")
    for cut in CUTS:
        assert count_units(source, ["one", f"{cut}(seen)"]) == 2


def test_an_offset_moves_the_day_alike_on_both_engines(server, tmp_path):
    instants = [dt.datetime(2026, 3, 1, hour, 30, tzinfo=dt.UTC) for hour in range(16)]
    server.execute(
        "DROP TABLE IF EXISTS several.z; CREATE TABLE several.z (one text, seen timestamptz)"
    )
    with server.cursor() as cursor:
        cursor.executemany("INSERT INTO several.z VALUES ('a', %s)", [(one,) for one in instants])
    path = tmp_path / "z.db"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE z (one VARCHAR, seen TIMESTAMPTZ)")
        con.executemany("INSERT INTO z VALUES ('a', ?)", [(one,) for one in instants])
    frame = pd.DataFrame({"one": ["a"] * 16, "seen": [one.isoformat() for one in instants]})
    sources = [
        open_source(f"{database()}#several.z"),
        open_source(f"duckdb:{path}#z"),
        open_source(frame),
    ]
    for offset in ("UTC", "+00:00", "-00:00", "+01:00", "-05:30", "+14:00", "-14:59"):
        minutes = 0 if offset == "UTC" else int(offset[1:3]) * 60 + int(offset[4:])
        zone = dt.timezone(dt.timedelta(minutes=-minutes if offset[0] == "-" else minutes))
        days = {one.astimezone(zone).date() for one in instants}
        found = [count_units(source, ["one", f"day(seen at '{offset}')"]) for source in sources]
        assert found == [len(days)] * 3, offset
    for source in sources[:2]:
        with pytest.raises(InvalidParameter, match="say at which offset it is cut"):
            count_units(source, ["one", "day(seen)"])


def test_sums_of_person_days_are_those_of_python():
    rows = make_rows(3)
    columns = ["one", "day(seen)"]
    totals = defaultdict(int)
    for row in rows:
        totals[unit_of(row, columns)] += row[4]
    totals.pop(None)
    question = prepare_numbers(
        open_source(arrow(rows)),
        PrivacyUnit(columns),
        column="x",
        grid=BucketGrid(edges=tuple(map(float, range(60)))),
        per_person="sum",
        salt=SALT,
    )
    found = question.run()[0].counts
    assert int(found.sum()) == len(totals)


REFUSED = {
    ("day(seen)", "month(seen)"): "each column once",
    ("day(seen)", "day(other)"): "a time alone protects nobody",
    ("one",): "2 to 8 columns",
    (): "2 to 8 columns",
    ("one", "one"): "each column once",
    ("one", "day(seen at 'Europe/Zurich')"): "what a time zone calls a day may change",
    ("one", ""): "non-empty printable text",
    ("one", 3): "non-empty printable text",
}


def test_units_that_mean_nothing_are_refused():
    for columns, said in REFUSED.items():
        with pytest.raises(InvalidParameter, match=said):
            PrivacyUnit(list(columns))
    source = open_source(arrow(make_rows(0)))
    for columns, said in {
        ("one", "nothing"): "must be a column of the source",
        ("one", "day(two)"): "is a text here, and no date|and no date",
        ("one", "day(seen at '+01:00')"): "has no time zone",
    }.items():
        with pytest.raises(InvalidParameter, match=said):
            sd.Session(source, unit=PrivacyUnit(list(columns)), ledger=None)
    both = pa.table({"one": ["a"], "seen": [START], "day(seen)": ["b"]})
    with pytest.raises(InvalidParameter, match="Rename that column"):
        sd.Session(both, unit=PrivacyUnit(["one", "day(seen)"]), ledger=None)
    dates = pa.table({"one": ["a"], "on": pa.array([START.date()])})
    with pytest.raises(InvalidParameter, match="no time of day"):
        sd.Session(dates, unit=PrivacyUnit(["one", "day_hour(on)"]), ledger=None)


def test_a_private_look_up_and_a_public_one_by_part_of_a_unit_are_refused(tmp_path):
    orders = arrow(make_rows(0))
    for private, said in ((True, "must not be private"), (False, "must be private = true")):
        people = tmp_path / "people.csv"
        people.write_text("id,city\na,Arles\nb,Bern\n")
        with pytest.raises(InvalidParameter, match=said):
            sd.Session(
                orders,
                unit=PrivacyUnit(["one", "day(seen)"]),
                ledger=None,
                lookup={"people": sd.Lookup(people, key="id", of="one", private=private)},
            )


def test_an_account_of_days_takes_no_release_of_another_unit(tmp_path):
    orders = arrow(make_rows(0))
    days = PrivacyUnit(["one", "day(seen)"])
    ledger = sd.Ledger.create(
        tmp_path / "b.db",
        account="orders",
        budget=sd.Budget(epsilon=1),
        adjacency="add-remove",
        unit=days,
        source="name:orders",
    )
    for other in ("one", ["one", "month(seen)"], ["one", "two", "day(seen)"]):
        session = sd.Session(orders, unit=PrivacyUnit(other), ledger=ledger, name="orders")
        with pytest.raises(sd.errors.LedgerConflict):
            session.count_distinct_units(epsilon=0.1)
    session = sd.Session(orders, unit=days, ledger=ledger, name="orders")
    made = session.count_distinct_units(epsilon=0.1)
    assert made.population.person == "person-day"
    assert session.left_out == ("rows without a value in one or day(seen)",)
    told = " ".join(made.population.list_notes())
    assert "a person on one day" in told
    assert "protected that much less" in told
    # A type of a column of the unit that differs is another reading, as of a unit of one column.
    dates = orders.set_column(2, "seen", orders["seen"].cast(pa.date32()))
    assert session.unit_reading == "values in memory; values in memory"
    path = tmp_path / "t.parquet"
    readings = []
    for table in (orders, dates):
        pq.write_table(table, path)
        readings.append(sd.Session(str(path), unit=days, ledger=None).unit_reading)
    assert readings == ["text; timestamp", "text; date"]


def test_what_a_command_is_told_is_read_and_written_alike():
    for written in ("a", "a b", "a,", "Last", "x(y)", "month(day)"):
        assert split_unit_columns(written) == written
    assert split_unit_columns('"Last, First"') == "Last, First"
    for columns in [*UNITS, ['"a,b"', "day(\"seen, at\" at '+01:00')"]]:
        unit = PrivacyUnit(columns)
        assert PrivacyUnit(split_unit_columns(join_unit_columns(unit.columns))) == unit
        assert PrivacyUnit(unit.column) == unit
    one = PrivacyUnit("Last, First")
    assert split_unit_columns(join_unit_columns(one.columns)) == "Last, First"
    tricky = PrivacyUnit(["a", "day(b)"])
    assert tricky.identity == 'columns "a", day("b")'
    assert find_cut(tricky.identity) == "day"
    assert find_cut(PrivacyUnit('columns "a", day("b")').identity) is None
    assert say_unit_of(tricky.identity, "guest") == "a guest on one day"


def test_part_of_a_unit_never_stands_in_a_private_table(tmp_path):
    path = tmp_path / "shop.db"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE orders (customer VARCHAR, visit INTEGER)")
        con.execute("CREATE TABLE visits (visit INTEGER PRIMARY KEY, day DATE)")
        con.execute("INSERT INTO visits VALUES (3, '2026-03-01')")
        con.execute("INSERT INTO orders SELECT 'c' || i, 3 FROM range(500) AS many(i)")
    # One row of the other table would decide whose all these rows are.
    for column in ("visits.day", 'day("visits.day")'):
        with pytest.raises(InvalidParameter, match="must not say part of whom a row is of|looked"):
            sd.Session(
                f"duckdb:{path}#orders",
                unit=PrivacyUnit(["customer", column]),
                ledger=None,
                lookup={"visits": sd.Lookup(f"duckdb:{path}#visits", key="visit", private=True)},
            )


def test_days_of_a_person_are_told_only_where_a_unit_is_one():
    day = PrivacyUnit(["one", "day(seen)"]).identity
    shop = PrivacyUnit(["one", "two", "day(seen)"]).identity
    guarantee = {"epsilon": "1/3", "delta": 0}
    [said, facts] = say_days_of(day, "add-remove", guarantee)
    # Rounded up: nothing less is promised.
    assert said == (
        "Somebody is protected on 1 day by epsilon 0.333334, on 7 days by epsilon 2.33334, "
        "on 30 days by epsilon 10."
    )
    assert "fact of its own row" in facts
    # Somebody in 20 shops on one day is 20 of these.
    [said, _] = say_days_of(shop, "add-remove", guarantee)
    assert "with 7 combinations by epsilon 2.33334" in said
    assert "day" not in said
    assert find_cut(shop) is None
    odds = "someone who thought a fact about somebody had"
    assert narrow_odds(odds, day) == "someone who thought a fact about one day of somebody had"
    assert "one combination" in narrow_odds(odds, shop)
    assert narrow_odds(odds, 'column "one"') == odds


def test_a_rho_that_may_fail_promises_no_square_of_itself():
    firm = {"epsilon": "1", "delta": "1/1000000", "rho": "1/100"}
    failing = {**firm, "failures": "9/10000000"}
    told = list_days(failing)
    assert "rho" not in told
    # Seven days may each fail.
    assert told["delta"][1] >= 7 * 9e-7
    assert told["epsilon"][1] == 7
    assert list_days(firm)["rho"][1] == 0.49


def test_a_label_may_be_the_day_of_the_unit():
    rows = make_rows(5)
    session = sd.Session(
        arrow(rows), unit=PrivacyUnit(["one", "day(seen)"]), entropy=sd.Seeded(2), ledger=None
    )
    days = sorted({row[2].date().isoformat() for row in rows if row[2] is not None})
    assert [row.item for row in session.histogram("day(seen)", epsilon=1, domain=days)] == days


# ---- somebody who is many units ---------------------------------------------------------------------------------


def test_several_units_lose_what_a_chain_of_neighbors_loses():
    epsilon, delta = Fraction(1, 2), Fraction(1, 10**4)
    for units in (1, 2, 3, 7):
        # From neighbor to neighbor: e^epsilon times as likely, and delta more, each time.
        chance, factor = 0.0, 1.0
        for _ in range(units):
            chance, factor = chance + float(delta) * factor, factor * exp(0.5)
        found = bound_several(units, epsilon, delta)
        assert found is not None
        assert found[0] == units * epsilon
        assert chance * (1 - 1e-9) <= float(found[1]) <= chance * 1.01
    assert bound_several(30, Fraction(2), delta) is None
    assert bound_several(10**6, Fraction(1), delta) is None
    assert bound_several(30, Fraction(1, 2), Fraction(0)) == (15, 0)


def test_a_release_that_reads_all_days_costs_the_square_of_them():
    rho, delta = Fraction(1, 200), Fraction(1, 10**6)
    found = bound_several(30, Fraction(1), delta, rho=rho)
    assert found is not None
    # The table of the specification: thirty days at once, each day pure 0.1.
    assert float(found[0]) == pytest.approx(19.2, abs=0.1)
    # The twin adds rhos up, as for thirty releases of one day each.
    assert sd.cost.ZCDP(rho=30 * rho).epsilon(delta) < 3


def test_an_article_goes_by_the_sound():
    words = ["customer", "aircraft", "User", "unit", "uncle", "umbrella", "European", "hour"]
    assert [add_article(one).split()[0] for one in words] == [
        "a",
        "an",
        "a",
        "a",
        "an",
        "an",
        "a",
        "an",
    ]
