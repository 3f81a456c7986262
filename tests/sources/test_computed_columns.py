"""Calls in place of a column: every one is total and a function of one row alone, and engines and Python agree on it."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
import struct
from dataclasses import replace
from decimal import Decimal
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest

from sordino import PrivacyUnit
from sordino.errors import DataSourceError, InvalidParameter, SordinoError, UnsafePredicate
from sordino.questions import Domain, prepare_counts
from sordino.questions.domain import list_call_domains, span
from sordino.sources import CsvFormat, computed_columns, open_source
from sordino.sources.computed_columns import _CallWriter as CallWriter
from sordino.sources.postgres import PostgresBackend
from sordino.sources.predicates.calls import HOST, LONGEST_TEXT
from sordino.sources.sql.call_templates import EMBEDDED_CALLS
from support.postgres import database

ROW = PrivacyUnit.row()
OF_DAYS = ("year", "quarter", "month", "week", "day", "weekday", "month_of_year", "quarter_of_year")


def clock(*given):
    """Return what a clock shows, somewhere."""
    return dt.datetime(*given)  # noqa: DTZ001 - nobody says where


def values(source, calls, key=None):
    """Return what each call is in each row, in the order of the rows or of a key."""
    source = source.compute(calls)
    assert set(calls) <= set(source.columns)
    places = [source.index(call, "item") for call in calls]
    first = [] if key is None else [source.index(key, "key")]
    listed = ", ".join(f"c{place} AS v{place}" for place in places + first)
    with source.backend.scan(source.find_read(places + first)) as scan:
        answer = scan.ask(f"SELECT {listed} FROM {source.write_rows(places + first)}")
    columns = [answer[f"v{place}"].tolist() for place in places]
    rows = list(zip(*columns, strict=True))
    if key is None:
        return rows
    order = [int(one) for one in answer[f"v{first[0]}"]]
    return [row for _, row in sorted(zip(order, rows, strict=True), key=lambda one: one[0])]


@pytest.fixture(scope="module")
def server():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS calls CASCADE; CREATE SCHEMA calls")
        yield connection
        connection.execute("DROP SCHEMA calls CASCADE")


def in_duckdb(folder, kind, literals):
    path = folder / f"t{random.randrange(10**9)}.db"
    with duckdb.connect(str(path)) as con:
        con.execute("SET TimeZone = 'UTC'")
        texts = [None if one is None else str(one) for one in literals]
        con.execute(
            f"CREATE TABLE t AS SELECT CAST(k - 1 AS INTEGER) AS k, CAST(texts[k] AS {kind}) AS x"
            " FROM (SELECT CAST(? AS VARCHAR[]) AS texts), range(1, ?) AS ks(k)",
            [texts, len(texts) + 1],
        )
    return open_source(f"duckdb:{path}#t")


def in_postgres(server, kind, literals):
    server.execute(f"DROP TABLE IF EXISTS calls.t; CREATE TABLE calls.t (k integer, x {kind})")
    with server.cursor() as cursor:
        cursor.execute("SET TimeZone = 'UTC'")
        cursor.executemany(
            f"INSERT INTO calls.t SELECT %s, CAST(%s AS {kind})", list(enumerate(literals))
        )
    return open_source(f"{database()}#calls.t")


# ---- dates ------------------------------------------------------------------------------------------------------


def say_day(function, moment):
    """Return what a function of a moment is, by the calendar of Python."""
    if moment is None:
        return None
    year, week, weekday = moment.isocalendar()
    quarter = (moment.month + 2) // 3
    return {
        "year": f"{moment.year:04}",
        "quarter": f"{moment.year:04}-Q{quarter}",
        "month": f"{moment.year:04}-{moment.month:02}",
        "week": f"{year:04}-W{week:02}",
        "day": f"{moment.year:04}-{moment.month:02}-{moment.day:02}",
        "weekday": str(weekday),
        "month_of_year": f"{moment.month:02}",
        "quarter_of_year": str(quarter),
        "hour": f"{getattr(moment, 'hour', 0):02}",
        "minute": f"{getattr(moment, 'minute', 0):02}",
    }[function]


def make_days():
    chance = random.Random(5)
    days = [dt.date.fromordinal(chance.randint(1, dt.date.max.toordinal())) for _ in range(1500)]
    for year in (1, 4, 1582, 1900, 1999, 2000, 2004, 2020, 2024, 2026, 9998):
        days += [dt.date(year, 12, 28) + dt.timedelta(n) for n in range(10)]
    return [dt.date.min, dt.date.max, *days]


FAR_DAYS = {
    "duckdb": ["infinity", "-infinity", "10000-01-01", "5881580-07-10", "0044-03-15 (BC)", "0001-12-31 (BC)",
               "5877642-06-25 (BC)", None],
    "postgres": ["infinity", "-infinity", "10000-01-01", "5874897-12-31", "0044-03-15 BC", "0001-12-31 BC", "4713-11-24 BC",
                 None],
}  # fmt: skip


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_parts_of_days_are_those_of_the_calendar(tmp_path, server, engine):
    days = make_days()
    literals = [*map(str, days), *FAR_DAYS[engine]]
    calls = [f"{function}(x)" for function in OF_DAYS]
    wanted = [tuple(say_day(name, day) for name in OF_DAYS) for day in days]
    wanted += [(None,) * len(calls)] * len(FAR_DAYS[engine])
    source = (
        in_duckdb(tmp_path, "DATE", literals)
        if engine == "duckdb"
        else in_postgres(server, "date", literals)
    )
    assert values(source, calls, "k") == wanted


FAR_MOMENTS = {
    "duckdb": ["infinity", "-infinity", "10000-01-01 00:00:00", "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806",
               "0001-12-31 (BC) 23:59:59.999999", None],
    "postgres": ["infinity", "-infinity", "10000-01-01 00:00:00", "4713-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999",
                 "0001-12-31 23:59:59.999999 BC", None],
}  # fmt: skip


@pytest.mark.parametrize(("engine", "kind"), [
    ("duckdb", "TIMESTAMP"), ("postgres", "timestamp(3)"), ("duckdb", "TIMESTAMP_S"), ("duckdb", "TIMESTAMP_MS"),
])  # fmt: skip
def test_moments_without_a_zone_are_what_is_written(tmp_path, server, engine, kind):
    chance = random.Random(6)
    moments = [
        dt.datetime.combine(day, dt.time(chance.randrange(24), chance.randrange(60), 59))
        for day in make_days()[::5]
    ]
    moments += [clock(1, 1, 1), clock(9999, 12, 31, 23, 59, 59)]
    functions = (*OF_DAYS, "hour", "minute")
    far = FAR_MOMENTS[engine] if kind in {"TIMESTAMP", "timestamp(3)"} else [None]
    # The last one of these would be rounded into the next year.
    far = (
        far if kind == "TIMESTAMP" else [one for one in far if one is None or ".999999" not in one]
    )
    literals = [*(one.isoformat(" ") for one in moments), *far]
    source = (
        in_duckdb(tmp_path, kind, literals)
        if engine == "duckdb"
        else in_postgres(server, kind, literals)
    )
    wanted = [tuple(say_day(name, one) for name in functions) for one in moments]
    wanted += [(None,) * len(functions)] * len(far)
    assert values(source, [f"{name}(x)" for name in functions], "k") == wanted


def test_the_last_nanosecond_of_a_year_is_in_that_year(tmp_path):
    source = in_duckdb(
        tmp_path, "TIMESTAMP_NS", ["2023-12-31 23:59:59.999999999", "1677-09-21 01:00:00"]
    )
    assert values(source, ["month(x)", "hour(x)"]) == [("2023-12", "23"), ("1677-09", "01")]
    frame = pl.DataFrame({"x": [2**63 - 2, -(2**63) + 2]}).select(
        pl.col("x").cast(pl.Datetime("ns"))
    )
    assert values(open_source(frame), ["year(x)"]) == [("2262",), ("1677",)]
    texts = pd.DataFrame({"x": pd.to_datetime(["2023-12-31 23:59:59.999999999"])})
    assert values(open_source(texts), ["month(x)"]) == [("2023-12",)]


ZONES = ("Europe/Zurich", "America/New_York", "Asia/Tokyo", "UTC", "America/Port-au-Prince")


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_the_day_of_an_instant_is_that_of_a_clock_somewhere(tmp_path, server, engine):
    chance = random.Random(7)
    instants = [
        dt.datetime(1970, 1, 2, tzinfo=dt.UTC) + dt.timedelta(seconds=chance.randrange(2 * 10**9))
        for _ in range(600)
    ]
    far = {
        "duckdb": ["294247-01-10 04:00:54.775806+00", "290309-12-22 (BC) 00:00:00+00", "infinity", "-infinity", None],
        "postgres": ["294276-12-31 23:59:59+00", "4713-11-24 00:00:00+00 BC", "infinity", "-infinity", None],
    }[engine]  # fmt: skip
    # What the year is, a clock says, and not UTC.
    edges = ["0001-01-01 00:00:00+00", "9999-12-31 23:00:00+00"]
    literals = [*(one.isoformat(" ") for one in instants), *far, *edges]
    source = (
        in_duckdb(tmp_path, "TIMESTAMP WITH TIME ZONE", literals)
        if engine == "duckdb"
        else in_postgres(server, "timestamptz", literals)
    )
    calls = [f"{name}(x at '{zone}')" for zone in ZONES for name in ("month", "week", "minute")]
    found = values(source, calls, "k")
    wanted = [
        tuple(say_day(name, one.astimezone(ZoneInfo(zone))) for zone in ZONES for name in ("month", "week", "minute"))
        for one in instants
    ]  # fmt: skip
    assert found[: len(instants)] == wanted
    assert found[len(instants) : -2] == [(None,) * len(calls)] * len(far)
    first, last = (dict(zip(calls, row, strict=True)) for row in found[-2:])
    assert first["month(x at 'America/New_York')"] is last["month(x at 'Asia/Tokyo')"] is None
    assert (first["month(x at 'UTC')"], last["month(x at 'UTC')"]) == ("0001-01", "9999-12")
    for call, reason in {
        "month(x)": "has a time zone; say where",
        "month(x at 'Europe/Zuerich')": "time zone that the engine knows",
        # A zone of its own making in PostgreSQL, three hours west.
        "month(x at 'Foo/Bar+3')": "an area and a city",
    }.items():
        with pytest.raises(InvalidParameter, match=reason):
            source.compute([call])


def test_without_the_guard_one_row_decides_about_all(tmp_path, server, monkeypatch):
    def bare(self):
        return self.templates.parts[self.call.function].format(f"c{self.call.operands[0].index}")

    monkeypatch.setattr(computed_columns._CallWriter, "_write_date_part", bare)
    usual, far = ["2024-01-01", "2024-05-01"], "0044-03-15"
    # Years before Christ have labels of years after it, and another one on each engine.
    there = values(in_duckdb(tmp_path, "DATE", [*usual, f"{far} (BC)"]), ["year(x)"], "k")
    here = values(in_postgres(server, "date", [*usual, f"{far} BC"]), ["year(x)"], "k")
    assert there[:2] == here[:2]
    assert there[2] != here[2]
    with pytest.raises(psycopg.Error):
        values(in_postgres(server, "date", [*usual, "5874897-12-31"]), ["year(x)"], "k")


# ---- texts ------------------------------------------------------------------------------------------------------


LETTERS = ["a", "B", "Z", "é", "É", "ß", "Σ", "ς", "Ж", "Ա", "e\u0301", "\u0301", "😀", "👩‍👩‍👧", " ", "\u00a0", "\t", "\r", "\n", "\x01",
           "\x7f", "/", ".", ":", "://", "@", "#", "?", "-", "_", "%", "\\", "'", '"', "0", "7", "\u200d", "中"]  # fmt: skip


def make_texts():
    chance = random.Random(8)
    texts = ["".join(chance.choices(LETTERS, k=chance.randrange(9))) for _ in range(2000)]
    hosts = [
        "a",
        "Ex.COM",
        "x-1.y",
        "",
        "u:p@h",
        "[::1]",
        "a" * 254,
        "é.ch",
        "a_b",
        "h:80",
        "h:",
        "h:123456",
        "@h",
        "a\nb",
    ]
    texts += [f"{scheme}://{host}{rest}" for scheme in ("http", "HTTPS", "a+b.c-d", "1a", "", "a" * 22)
              for host in hosts for rest in ("", "/x@y", "?q", "#f", " ", "\n", "/\n")]  # fmt: skip
    fits, beyond = "é" * (LONGEST_TEXT // 2), "é" * (LONGEST_TEXT // 2) + "a"
    return [*texts, "", "007", "7", str(2**53), str(2**53 + 1), fits, beyond, "x" * 1_000_000, None]


def say_text(call, text):
    """Return what a call is of a text, by what Python has for it."""
    if text is None or len(text.encode()) > LONGEST_TEXT:
        return "none" if call.startswith("coalesce") else None
    host = re.match(HOST.removesuffix("$)") + r"\Z)", text)
    return {
        # Letter by letter: no rule looks at what stands beside one.
        "lower(x)": "".join(one.lower() for one in text),
        "trim(x)": text.strip(" \t\r\n"),
        "left(x, 3)": text[:3],
        "length(x)": str(len(text)),
        "length(trim(x))": str(len(text.strip(" \t\r\n"))),
        "left(lower(x), 1)": "".join(one.lower() for one in text)[:1],
        "part(x, '/', 2)": [*text.split("/"), ""][1],
        "part(x, '://', 1)": text.split("://")[0],
        "host(x)": host and host[2].lower(),
        "map(x, 'a' = 'letter', '007' = 'agent')": {"a": "letter", "007": "agent"}.get(text),
        "map(x, '7' = 'seven', else = 'other')": "seven" if text == "7" else "other",
        "coalesce(x, 'none')": text,
        "coalesce(host(x), 'none')": host[2].lower() if host else "none",
        "map(left(trim(x), 1), '' = 'blank', else = 'it''s')": "it's" if text.strip(" \t\r\n") else "blank",
    }[call]  # fmt: skip


TEXT_CALLS = (
    "lower(x)", "trim(x)", "left(x, 3)", "length(x)", "length(trim(x))", "left(lower(x), 1)", "part(x, '/', 2)", "part(x, '://', 1)", "host(x)",
    "map(x, 'a' = 'letter', '007' = 'agent')", "map(x, '7' = 'seven', else = 'other')", "coalesce(x, 'none')",
    "coalesce(host(x), 'none')", "map(left(trim(x), 1), '' = 'blank', else = 'it''s')",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["duckdb", "postgres", "polars", "pandas"])
def test_texts_are_what_python_makes_of_them(tmp_path, server, kind):
    texts = make_texts()
    frame = pl.DataFrame(
        {"x": texts, "k": range(len(texts))}, schema={"x": pl.String, "k": pl.Int64}
    )
    if kind == "duckdb":
        source = in_duckdb(tmp_path, "VARCHAR", texts)
    elif kind == "postgres":
        source = in_postgres(server, "text", texts)
    else:
        source = open_source(frame if kind == "polars" else frame.to_pandas())
    found = values(source, TEXT_CALLS, None if kind in {"polars", "pandas"} else "k")
    assert found == [tuple(say_text(call, text) for call in TEXT_CALLS) for text in texts]


def broken_texts():
    """Return a column some of whose texts are none in Unicode, as Arrow lets them be."""
    parts = [b"a\xffb", b"abc", b"\xc3", b"http://\xff/", b"\x00A", b"\xed\xa0\x80", b"B c"]
    ends = [sum(map(len, parts[:n])) for n in range(len(parts) + 1)]
    buffers = [
        None,
        pa.py_buffer(struct.pack(f"<{len(ends)}i", *ends)),
        pa.py_buffer(b"".join(parts)),
    ]
    return pa.table({"x": pa.Array.from_buffers(pa.string(), len(parts), buffers)})


@pytest.mark.parametrize("kind", ["relation", "arrow"])
def test_bytes_that_are_no_text_are_missing_and_end_nothing(kind):
    table = broken_texts()

    def ask(some):
        return values(
            open_source(duckdb.connect().from_arrow(some) if kind == "relation" else some),
            TEXT_CALLS,
        )

    found = ask(table)
    assert found == [ask(table.slice(n, 1))[0] for n in range(table.num_rows)]
    assert [*[row[0] for row in found][1:3], found[-1][0]] == ["abc", None, "b c"]
    assert found[4][0].lower() in {"\0a", "a"}


def test_without_the_decoding_one_row_ends_the_query(monkeypatch):
    """TRY does not catch what `lower` makes of such bytes."""
    bare = replace(EMBEDDED_CALLS, sound="{}")
    monkeypatch.setattr(
        computed_columns, "_CallWriter", lambda call, source, _: CallWriter(call, source, bare)
    )
    with pytest.raises(duckdb.Error):
        values(open_source(duckdb.connect().from_arrow(broken_texts())), ["lower(x)"])


def test_what_is_written_out_for_a_call_is_bounded():
    call = "x"
    for _ in range(30):
        call = f"map({call}, 'a' = 'b', else = 'c')"
    with pytest.raises(UnsafePredicate, match="at most 20000 operators"):
        open_source(pl.DataFrame({"x": ["a"]})).compute([call])


def test_a_letter_that_languages_disagree_about_has_one_small_form(tmp_path, server):
    """U+0130 is an i in DuckDB and PostgreSQL, and an i with a dot above in Python."""
    texts = ["\u0130", "I", "x\u0130"]
    assert values(in_duckdb(tmp_path, "VARCHAR", texts), ["lower(x)"], "k") == values(
        in_postgres(server, "text", texts), ["lower(x)"], "k"
    )


def test_collations_and_types_of_a_server_make_no_two_texts_one(server):
    server.execute(
        "DROP TABLE IF EXISTS calls.c; DROP TYPE IF EXISTS calls.mood;"
        "CREATE TYPE calls.mood AS ENUM ('Sad', 'sad');"
        "CREATE TABLE calls.c (a char(4), e calls.mood, n numeric(6,2), u uuid);"
        "INSERT INTO calls.c VALUES ('Bob', 'Sad', 1.5, NULL), ('bob', 'sad', 1.50, NULL)"
    )
    source = open_source(f"{database()}#calls.c")
    calls = [
        "map(a, 'Bob' = 'x')",
        "map(e, 'sad' = 'x')",
        "left(n, 3)",
        "coalesce(u, a, 'z')",
        "lower(e)",
    ]
    assert values(source, calls) == [
        ("x", None, "1.5", "Bob", "sad"),
        (None, "x", "1.5", "bob", "sad"),
    ]


# ---- numbers ----------------------------------------------------------------------------------------------------


NUMBERS = {
    "DOUBLE": [0.0, -0.0, 5e-324, -5e-324, 0.1, 0.3, 0.7, math.nextafter(0.3, 0), 1e308, -1e308, math.inf, -math.inf, math.nan,
               -math.nan, 2.0**53, None],
    "FLOAT": [0.1, 0.3, 65.0, math.nan, math.inf, None],
    "BIGINT": [0, 1, 2**63 - 1, -(2**63), 2**53, 2**53 + 1, 65, 64, None],
    "DECIMAL(38,2)": [Decimal(one) for one in ("0", "0.01", "-0.01", "64.99", "65.00", "9" * 36)] + [None],
    "numeric": [Decimal(one) for one in ("0", "0.30000000000000000001", "NaN", "Infinity", "-Infinity", "1e40", "65")] + [None],
}  # fmt: skip
EDGES = {
    "DOUBLE": ["-1", "0", "0.1", "0.3", "65", "9007199254740992"],
    "FLOAT": ["0", "0.1", "65"],
    "BIGINT": ["-5", "0", "65", "9007199254740992", "9007199254750993"],
    "DECIMAL(38,2)": ["0", "0.01", "65"],
    "numeric": ["0", "0.3", "65"],
}
ON_SERVER = {
    "DOUBLE": "float8",
    "FLOAT": "real",
    "BIGINT": "bigint",
    "DECIMAL(38,2)": "numeric(38,2)",
    "numeric": "numeric",
}


def say_bin(number, edges, kind):
    if number is None or number != number:
        return None
    floats = kind in {"DOUBLE", "FLOAT"}
    if kind == "FLOAT":
        number = float(
            duckdb.execute("SELECT CAST(CAST(? AS FLOAT) AS DOUBLE)", [number]).fetchall()[0][0]
        )
    passed = sum((float(edge) if floats else Decimal(edge)) <= number for edge in edges)
    names = [f"{float(edge):.12g}" for edge in edges]
    if passed == 0:
        return f"below {names[0]}"
    return (
        f"{names[-1]} or more"
        if passed == len(names)
        else f"{names[passed - 1]} to below {names[passed]}"
    )


@pytest.mark.parametrize("kind", list(NUMBERS))
@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
@pytest.mark.sample(4)
def test_numbers_are_in_the_bin_that_comparisons_say(tmp_path, server, engine, kind):
    if (engine, kind) == ("duckdb", "numeric"):
        return
    source = (
        in_duckdb(tmp_path, kind, NUMBERS[kind])
        if engine == "duckdb"
        else in_postgres(server, ON_SERVER[kind], NUMBERS[kind])
    )
    call = f"bin(x, {', '.join(EDGES[kind])})"
    wanted = [(say_bin(number, EDGES[kind], kind),) for number in NUMBERS[kind]]
    assert values(source, [call], "k") == wanted


def test_edges_are_numbers_that_a_column_can_hold():
    source = open_source(
        pl.DataFrame({"n": [1], "x": [1.0]}, schema={"n": pl.Int8, "x": pl.Float64})
    )
    for call, reason in {
        "bin(n, 0.5)": "can hold",
        "bin(n, 128)": "can hold",
        "bin(n, 2, 1)": "rising",
        "bin(n, 1, 1)": "rising",
        "bin(n)": "rising",
        "bin(n, 'a')": "bin is written",
        "bin(n, x)": "bin is written",
        "bin(n, 1e99999999)": "rising",
        "bin(lower(n), 1)": "a call in place",
        # Nobody could tell these labels apart.
        "bin(x, 123456789012345, 123456789012346)": "rising",
    }.items():
        with pytest.raises((InvalidParameter, UnsafePredicate), match=reason):
            source.compute([call])
    many = f"bin(x, {', '.join(str(n) for n in range(1000))})"
    assert values(source, [many]) == [("1 to below 2",)]


def test_texts_of_csv_are_numbers_as_everywhere(tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n1.234,5;a\n  7 ;b\n1e5;c\nnan;d\n;e\nNULL;f\n")
    form = CsvFormat(delimiter=";", decimal=",", thousands=".")
    found = values(
        open_source(tmp_path / "t.csv", csv=form), ["bin(x, 7, 1000)", "map(y, 'a' = 'A')"]
    )
    assert [one for one, _ in found] == [
        "1000 or more",
        "7 to below 1000",
        "1000 or more",
        None,
        None,
        None,
    ]


# ---- one row alone ----------------------------------------------------------------------------------------------


STRANGE = {
    "s": [
        None,
        "",
        "a",
        "2024-02-29",
        "2024-02-30",
        "https://x.ch/",
        "7",
        "\u0130",
        "0000-01-01",
        "9" * 400,
        "b" * 20_000,
    ],
    "d": [None, dt.date(2024, 12, 30), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "t": [None, clock(2024, 12, 30, 23, 59, 59, 999_999), clock(1, 1, 1)],
    "x": [None, 0.0, math.nan, math.inf, 65.5, -1e308],
    "n": [None, 0, 2**63 - 1, -(2**63), 65],
}
SCHEMA = {"s": pl.String, "d": pl.Date, "t": pl.Datetime, "x": pl.Float64, "n": pl.Int64}
ALL_CALLS = ("week(d)", "day(t)", "hour(t)", "minute(t)", "length(s)", "bin(x, 0, 65.5)", "bin(n, 0, 65)", "host(s)", "part(lower(s), 'a', 2)",
             "map(s, '7' = 'x', else = 'y')", "coalesce(trim(s), n, 'z')", "left(x, 2)", "map(weekday(d), '1' = 'Mon')")  # fmt: skip
"""Of typed columns; the same of pandas."""


def make_strange(rows):
    chance = random.Random(9)
    return [tuple(chance.choice(one) for one in STRANGE.values()) for _ in range(rows)]


@pytest.mark.parametrize("kind", ["parquet", "polars", "lazy", "pandas", "arrow"])
def test_a_row_has_its_values_alone_and_in_company(tmp_path, kind):
    rows = make_strange(24)
    if kind == "pandas":
        # Beside what is missing pandas rounds large whole numbers itself.
        rows = [
            (*row[:-1], None if row[-1] is None else max(-(2**53), min(2**53, row[-1])))
            for row in rows
        ]

    def ask(some, name="t"):
        frame = pl.DataFrame(some, schema=SCHEMA, orient="row")
        if kind == "parquet":
            frame.write_parquet(tmp_path / f"{name}.parquet")
            return values(open_source(tmp_path / f"{name}.parquet"), ALL_CALLS)
        other = {"polars": frame, "lazy": frame.lazy(), "arrow": frame.to_arrow()}
        return values(
            open_source(frame.to_pandas() if kind == "pandas" else other[kind]), ALL_CALLS
        )

    alone = [ask([row])[0] for row in rows]
    assert sorted(map(str, ask(rows))) == sorted(map(str, alone))
    assert sorted(map(str, ask(rows * 120))) == sorted(map(str, alone * 120))


def add_word(column, word="abc"):
    """Return a column with one value more that makes objects of it."""
    return pd.DataFrame({"x": pd.Series([*column, word], dtype=object)})


TYPED = {
    "times": pd.Series(pd.to_datetime(["2024-12-30 23:59:59.999999999", "0001-01-02", None], errors="coerce")),
    "seconds": pd.Series(pd.to_datetime(["2024-12-30", "2024-01-01"])).astype("datetime64[s]"),
    "days": pd.Series([dt.date(2024, 12, 30), None]),
    "arrow days": pd.Series([dt.date(2024, 12, 30), dt.date(1, 1, 1)], dtype="date32[pyarrow]"),
    "instants": pd.Series(pd.to_datetime(["2024-12-31 23:30:00+00:00", None])),
    "zoned": pd.Series(pd.to_datetime(["2024-12-31 23:30:00+00:00"])).dt.tz_convert("Asia/Tokyo"),
    "texts": pd.Series(["2024-12-30", "2024-1-1", "2024-12-30T05:06", "2024-12-31T23:30:00Z", "2024-12-31 23:30:00+02:00"]),
    "whole": pd.Series([20241230, 65]),
    "small": pd.Series([18, 70, 9], dtype="int8"),
    "floats": pd.Series([18.5, 9.0, math.nan, 2.0**53]),
    "truth": pd.Series([True, False]),
}  # fmt: skip
IN_PANDAS = ("month(x)", "week(x)", "hour(x)", "month(x at 'Europe/Zurich')", "bin(x, 10, 18.5, 65)", "lower(x)",
             "map(x, '9' = 'nine', else = 'other')", "coalesce(x, 'none')")  # fmt: skip


@pytest.mark.parametrize("name", list(TYPED))
def test_of_pandas_no_row_decides_how_others_are_read_and_no_call_is_refused(name):
    frame = pd.DataFrame({"x": TYPED[name]})
    # Numbers are those of sums, for which a date that was declared as one is none.
    calls = [call for call in IN_PANDAS if name != "arrow days" or "bin" not in call]
    alone = values(open_source(frame), calls)
    assert values(open_source(add_word(TYPED[name])), calls)[:-1] == alone


def test_of_pandas_times_are_read_as_iso_8601_writes_them():
    def ask(name, *calls):
        return values(open_source(pd.DataFrame({"x": TYPED[name]})), calls)

    assert ask("times", "month(x)", "hour(x)")[0] == ("2024-12", "23")
    assert ask("days", "week(x)", "hour(x)") == [("2025-W01", None), (None, None)]
    # Where it was is said, or it is missing; never guessed.
    zoned = ("month(x)", "month(x at 'Europe/Zurich')", "month(x at 'UTC')")
    assert ask("instants", *zoned)[0] == ask("zoned", *zoned)[0] == (None, "2025-01", "2024-12")
    assert [one for (one,) in ask("texts", "month(x)")] == ["2024-12", None, "2024-12", None, None]
    assert [one for (one,) in ask("texts", zoned[1])] == [None, None, None, "2025-01", "2024-12"]


def test_read_by_types_one_row_of_pandas_would_decide(monkeypatch):
    """The twin: dates by their type are refused, or not, by what stands in another row."""
    monkeypatch.setattr(computed_columns._CallWriter, "_write_written_moment",
                        lambda self, index: self.templates.moments[self._columns[index][1]].format(f"c{index}"))  # fmt: skip
    days = pd.DataFrame({"x": TYPED["arrow days"]})
    assert values(open_source(days), ["year(x)"])[0] == ("2024",)
    with pytest.raises(KeyError):
        values(open_source(add_word(TYPED["arrow days"])), ["year(x)"])


def test_a_view_makes_its_rows_before_they_are_asked(server, monkeypatch):
    """A clause that is moved below the join of a view meets a text that the view leaves out."""
    server.execute(
        "DROP TABLE IF EXISTS calls.raw CASCADE; CREATE TABLE calls.raw (s text); CREATE TABLE calls.good (s text);"
        "INSERT INTO calls.raw SELECT n::text FROM generate_series(1, 2000) n; INSERT INTO calls.raw VALUES ('abc');"
        "INSERT INTO calls.good SELECT n::text FROM generate_series(1, 2000) n; ANALYZE calls.raw; ANALYZE calls.good;"
        "CREATE VIEW calls.v AS SELECT CAST(r.s AS int) AS n FROM calls.raw r JOIN calls.good USING (s)"
    )

    def ask():
        source = open_source(f"{database()}#calls.v").compute(["bin(n, 1000)"])
        unit = PrivacyUnit("n", max_rows=1)
        asked = prepare_counts(
            source, unit, kind="items", item="bin(n, 1000)", domain=["below 1000"], salt=bytes(16)
        )
        return asked.run().values.tolist()

    assert ask() == [999]
    rows = PostgresBackend.rows
    monkeypatch.setattr(
        PostgresBackend, "rows", lambda *args, **more: rows(*args, **more).removesuffix(" OFFSET 0")
    )
    with pytest.raises(DataSourceError):
        ask()


# ---- what is asked ----------------------------------------------------------------------------------------------


def test_a_name_that_is_a_column_is_that_column():
    """Exports of SQL have such headers."""
    frame = pl.DataFrame({"month(day)": ["x", "y"], "day": [dt.date(2024, 1, 1)] * 2})
    source = open_source(frame)
    assert source.compute(["month(day)", "day"]) is source
    counted = prepare_counts(source, ROW, kind="items", item="month(day)", domain=["x", "y"])
    assert counted.run().values.tolist() == [1, 1]


def test_a_call_is_neither_a_unit_nor_a_number():
    source = open_source(pl.DataFrame({"day": [dt.date(2024, 1, 1)], "u": [1]})).compute(
        ["year(day)"]
    )
    asked = {"kind": "items", "item": "year(day)", "domain": ["2024"]}
    with pytest.raises(
        InvalidParameter, match=r"PrivacyUnit\.column must be a column of the source"
    ):
        prepare_counts(source, PrivacyUnit("year(day)"), **asked)
    with pytest.raises(InvalidParameter, match="column must be a column of the source"):
        source.number_column("year(day)", "column")
    with pytest.raises(InvalidParameter, match="where must be a column"):
        prepare_counts(source, ROW, kind="rows", where="\"year(day)\" = '2024'")


REFUSED = {
    "month(s)": "is a text here, and no date",
    "month(n)": "is of type BIGINT here, and no date",
    "hour(d)": "no time of day",
    "month(d at 'Europe/Zurich')": "no time zone",
    "month(d, 3)": "month is written",
    "month(d) ": None,
    "month(lower(s))": "a call in place",
    "month()": "month is written",
    "month(d": None,
    "left(s)": "left is written",
    "left(s, 0)": "left is written",
    "left(s, -1)": "left is written",
    "left(s, 1.5)": "left is written",
    "part(s, '', 1)": "part is written",
    "part(s, 'a', 0)": "part is written",
    "part(s, 'a')": "part is written",
    "map(s)": "map is written",
    "map(s, else = 'x')": "map is written",
    "map(s, 'a' = 'b', 'a' = 'c')": "each text once",
    "map(s, 7 = 'b')": "map is written",
    "map(s, else = 'x', 'a' = 'b')": "map is written",
    "lower(t)": "must be a column of texts",
    "lower(nope)": "must be a column of the source",
    "lower('a')": "A predicate may|lower is written",
    "coalesce(s)": "coalesce is written",
    "coalesce('a', s)": "coalesce is written",
    "lower(s) --": None,
    "lower(s); SELECT 1": None,
    "lower((SELECT max(s) FROM rows))": "lower is written",
    "lower(s || s)": "A predicate may",
    f"{'lower(' * 50}s{')' * 50}": "nested",
}  # fmt: skip


@pytest.mark.parametrize("call", list(REFUSED))
@pytest.mark.sample(8)
def test_what_is_no_call_is_refused_before_the_charge(call):
    source = open_source(pl.DataFrame([], schema=SCHEMA))
    asked = {"kind": "items", "item": call, "domain": ["a"]}
    if call == "month(d) ":
        prepare_counts(source.compute([call]), ROW, **asked)
        return
    with pytest.raises(SordinoError, match=REFUSED[call]):
        prepare_counts(source.compute([call]), ROW, **asked)


def test_a_function_that_is_none_is_said_with_those_that_are():
    source = open_source(pl.DataFrame({"city": ["a"]}))
    with pytest.raises(
        InvalidParameter, match=r"Functions are year, .*coalesce\. Did you mean 'lower'\?"
    ):
        prepare_counts(
            source.compute(["lowercase(city)"]),
            ROW,
            kind="items",
            item="lowercase(city)",
            domain=["a"],
        )
    with pytest.raises(UnsafePredicate, match="Did you mean 'lower'"):
        prepare_counts(source, ROW, kind="rows", where="lowr(city) = 'a'")


def test_a_text_of_csv_is_no_date_unless_it_is_declared(tmp_path):
    (tmp_path / "t.csv").write_text("date,u\n2024-02-01,1\n31.12.2024,2\n,3\n")
    with pytest.raises(
        InvalidParameter, match=r"month\(date\): date is a text here\. Declare it: --type date=date"
    ):
        open_source(tmp_path / "t.csv").compute(["month(date)"])
    form = CsvFormat(types={"date": "date"})
    assert values(open_source(tmp_path / "t.csv", csv=form), ["month(date)"]) == [
        ("2024-02",),
        (None,),
        (None,),
    ]


@pytest.mark.parametrize("kind", ["polars", "pandas", "parquet"])
def test_predicates_call_as_well(tmp_path, kind):
    frame = pl.DataFrame(
        {
            "d": [dt.date(2024, 12, 30), dt.date(2024, 1, 2), None],
            "s": ["A b", "a", None],
            "n": [1, 70, 3],
        }
    )
    frame.write_parquet(tmp_path / "t.parquet")
    source = open_source(
        {"polars": frame, "pandas": frame.to_pandas(), "parquet": tmp_path / "t.parquet"}[kind]
    )
    wanted = {
        "month(d) = '2024-12'": 1,
        "weekday(d) in ('1', '2') and lower(s) like 'a%'": 2,
        "week(D) <> '2025-W01' OR s IS NULL": 2,
        "coalesce(s, 'x') = 'x'": 1,
        "bin(n, 18, 65) = '65 or more'": 1,
        "left(lower(s), 1) = lower(left(s, 1))": 2,
        "month(d) IS NULL": 1,
        "NOT map(s, 'a' = 'yes') = 'yes'": 0,
    }
    found = {
        where: int(prepare_counts(source, ROW, kind="rows", where=where).run().values[0])
        for where in wanted
    }
    assert found == wanted
    with pytest.raises(
        InvalidParameter, match="must be a condition|must compare columns with values"
    ):
        source.predicate("month(d)")


def test_counts_and_numbers_by_a_call():
    chance = random.Random(3)
    days = [dt.date(2024, 1, 1) + dt.timedelta(chance.randrange(366)) for _ in range(500)]
    frame = pl.DataFrame(
        {"day": days, "u": [n % 90 for n in range(500)], "x": [float(n % 7) for n in range(500)]}
    )
    months = [f"2024-{month:02}" for month in range(1, 13)]
    people = {
        month: {u for day, u in zip(days, frame["u"], strict=True) if f"{day:%Y-%m}" == month}
        for month in months
    }
    call = "month(day)"
    source = open_source(frame).compute([call])
    counted = prepare_counts(source, PrivacyUnit("u"), kind="items", item=call, domain=months)
    assert counted.run().values.tolist() == [len(people[month]) for month in months]
    assert counted.indices == (0, 1)
    hidden = prepare_counts(
        source, ROW, kind="items", item=call, domain=Domain.unlisted(delta=1e-6)
    )
    assert list(hidden.run().labels) == months
    assumed = prepare_counts(
        source, ROW, kind="items", item=call, domain=Domain.assume_public(), where="u < 3"
    )
    assert list(assumed.run().labels) == months
    years = prepare_counts(
        source.compute(["year(day)"]),
        ROW,
        kind="items",
        item="year(day)",
        domain=Domain.range(2020, 2030),
    )
    assert years.run().values.tolist() == [500]


def test_what_a_call_can_be_is_a_domain_in_the_order_in_which_it_is_shown():
    frame = pl.DataFrame([], schema=SCHEMA)
    calls = ("weekday(d)", "hour(t)", "month_of_year(d)", "quarter_of_year(d)", "bin(n, 18, 30, 65)", "month(d)", "lower(s)",
             "map(s, 'a' = 'z', 'b' = 'y', 'c' = 'z', else = 'x')", "map(s, 'a' = 'b')", "coalesce(weekday(d), '?')",
             "minute(t)", "length(s)")  # fmt: skip
    images = {
        name: domain.labels
        for name, domain in list_call_domains(open_source(frame).compute(calls)).items()
    }
    assert images == {
        calls[0]: tuple("1234567"),
        calls[1]: tuple(f"{n:02}" for n in range(24)),
        calls[2]: tuple(f"{n:02}" for n in range(1, 13)),
        calls[3]: tuple("1234"),
        calls[4]: ("below 18", "18 to below 30", "30 to below 65", "65 or more"),
        calls[7]: ("z", "y", "x"),
        calls[8]: ("b",),
        calls[10]: tuple(f"{n:02}" for n in range(60)),
    }


@pytest.mark.parametrize(("text", "size", "ends"), [
    ("2023..2025", 3, ("2023", "2025")),
    ("2024-Q2..2025-Q1", 4, ("2024-Q2", "2025-Q1")),
    ("2024-01..2025-12", 24, ("2024-01", "2025-12")),
    ("2020-W52..2021-W01", 3, ("2020-W52", "2021-W01")),
    ("2024-02-28..2024-03-01", 3, ("2024-02-28", "2024-03-01")),
    ("9999-12-30..9999-12-31", 2, ("9999-12-30", "9999-12-31")),
    ("2024-05..2024-05", 1, ("2024-05", "2024-05")),
])  # fmt: skip
@pytest.mark.sample(3)
def test_a_span_of_dates_is_a_domain(text, size, ends):
    labels = span(text).labels
    assert (len(labels), (labels[0], labels[-1])) == (size, ends)
    assert list(labels) == sorted(set(labels))


@pytest.mark.parametrize("text", [
    "2025..2024", "2024-01..2025", "2024-00..2024-12", "2024-01..2024-13", "2024-Q1..2024-Q5", "2021-W01..2021-W53",
    "2024-02-30..2024-03-01", "0000..2024", "2024-1..2024-3", "0001-01-01..9999-12-31", "2024-01..2024-02..2024-03",
])  # fmt: skip
@pytest.mark.sample(4)
def test_what_is_no_span_is_refused(text):
    with pytest.raises(InvalidParameter, match="span of dates"):
        span(text)


def test_spark_is_refused_by_name():
    source = open_source(pl.DataFrame([], schema=SCHEMA))
    without = type(source.backend.dialect)(**{**vars(source.backend.dialect), "calls": None})

    class Elsewhere:
        dialect = without

    with pytest.raises(InvalidParameter, match="takes no calls"):
        type(source)("spark", None, source.columns, (), Elsewhere()).compute(["month(d)"])
