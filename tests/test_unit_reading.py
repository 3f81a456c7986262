"""Whose a row is must be the same in all releases of an account: types, marks, NULL texts, encodings of the unit's column."""

from __future__ import annotations

import datetime as dt
from dataclasses import fields
from decimal import Decimal
from itertools import combinations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino.questions.reading import describe_unit_reading
from sordino.questions.unit import PrivacyUnit
from sordino.session.executor import ReleaseExecutor
from sordino.sources import open_source
from sordino.sources.engine import after_charge

UNIT = sd.PrivacyUnit("who", max_rows=1)
PLAIN = sd.CsvFormat()


def csv(**options):
    return sd.CsvFormat(**options)


# What may be declared about one file, each beside its defaults.
FORMS = {
    "default": PLAIN,
    "text": csv(types={"who": "text"}),
    "other types": csv(types={"x": "integer", "g": "date"}),
    "a kind of file": csv(format_in="csv"),
    "date format of another": csv(types={"g": "date"}, date_format="%d.%m.%Y"),
    "marks of others": csv(thousands="'"),
    "integer": csv(types={"who": "integer"}),
    "integer with marks": csv(types={"who": "integer"}, thousands="'"),
    "decimal": csv(types={"who": "decimal(9,2)"}),
    "wider decimal": csv(types={"who": "decimal(12,2)"}),
    "finer decimal": csv(types={"who": "decimal(12,3)"}),
    "double": csv(types={"who": "double"}),
    "boolean": csv(types={"who": "boolean"}),
    "date": csv(types={"who": "date"}),
    "German date": csv(types={"who": "date"}, date_format="%d.%m.%Y"),
    "null": csv(null="NA"),
    "other null": csv(null="n/a"),
    "integer and null": csv(types={"who": "integer"}, null="7"),
    "delimiter": csv(delimiter=";"),
    "no quotes": csv(quote=""),
    "other quotes": csv(quote="'"),
    "latin-1": csv(encoding="latin-1"),
    "cp1252": csv(encoding="cp1252"),
    "no header": csv(header=False, columns=("who", "g", "x")),
    "no header, other names": csv(header=False, columns=("who", "y", "z")),
    "no header, other place": csv(header=False, columns=("g", "who", "x")),
}
LINES = (
    *(
        "7",
        "07",
        " 7",
        "7.0",
        "7.00",
        "7,0",
        "+7",
        "1'000",
        "1000",
        "1e3",
        "NA",
        "n/a",
        "",
        "true",
        "t",
        "1",
    ),
    *("2024-02-01", "01.02.2024", "'7'", '"7"', "\u00e4", "\u20ac", "7;a", "a'b"),
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(
        "".join(f"{line}\n" for line in ("who,g,x", *(f"{who},g,1" for who in LINES))).encode()
    )
    return path


def units_of(path, form, unit=UNIT.column):
    """Return what the units are called, as the engine that counts has them, without those that are nobody."""
    source = open_source(path, csv=form)
    place = source.index(unit, "unit")
    kind = source.columns[unit]

    def work(announce):
        with source.backend.scan([place]) as scan:
            announce(scan)
            label = source.backend.dialect.words.label(place, kind)
            return sorted(scan.ask(f"SELECT coalesce({label}, '?') AS v FROM rows")["v"].tolist())

    return after_charge(work)


def test_forms_with_one_reading_read_the_same_units(table):
    """Whatever reads other units is said: no two such forms have one text."""
    read = {
        name: describe_unit_reading(open_source(table, csv=form), UNIT, form)
        for name, form in FORMS.items()
        if "who" in open_source(table, csv=form).columns
    }
    assert len(read) > 20
    units = {name: units_of(table, FORMS[name]) for name in read}
    same = [pair for pair in combinations(read, 2) if read[pair[0]] == read[pair[1]]]
    assert ("default", "text") in same
    assert ("decimal", "wider decimal") in same
    assert ("no header", "no header, other names") in same
    differ = [pair for pair in combinations(read, 2) if units[pair[0]] != units[pair[1]]]
    assert len(differ) > 100
    assert not set(differ) & set(same)


def test_an_option_that_comes_later_counts(monkeypatch, table):
    """Nobody has to remember it here."""
    from sordino.questions import reading

    class Later:
        name = "later"

    monkeypatch.setattr(reading, "fields", lambda form: (*fields(form), Later))
    monkeypatch.setattr(sd.CsvFormat, "later", "as ever", raising=False)
    plain = describe_unit_reading(open_source(table), UNIT, PLAIN)
    assert plain == "csv text"
    monkeypatch.setattr(sd.CsvFormat, "later", "otherwise")
    monkeypatch.setattr(reading, "_PLAIN", type("Plain", (), {**vars(PLAIN), "later": "as ever"})())
    assert describe_unit_reading(open_source(table), UNIT, PLAIN) == 'csv text, later "otherwise"'


def test_it_is_printable_whatever_was_declared(table):
    form = csv(null="\x1b\u202e\n", delimiter="\t", quote="'")
    table.write_text("who\tx\n")
    said = describe_unit_reading(open_source(table, csv=form), UNIT, form)
    assert said == r'''csv text, delimiter "\t", null "\u001b\u202e\n", quote "'"'''


def test_where_a_row_is_a_unit_only_what_ends_it_counts(table):
    row = PrivacyUnit.row()
    forms = (PLAIN, csv(null="NA", quote=""), csv(types={"who": "integer"}))
    assert {describe_unit_reading(open_source(table, csv=form), row, form) for form in forms} == {
        "rows of csv, encoding utf-8"
    }
    wide = csv(encoding="utf-16-le", header=False, columns=("who",))
    said = describe_unit_reading(open_source(table, csv=wide), row, wide)
    assert said == "rows of csv, encoding utf-16-le"
    assert describe_unit_reading(open_source(pl.DataFrame({"who": [1]})), row, PLAIN) == ""


ARROW = {
    "integer": (pa.int8(), pa.int32(), pa.int64(), pa.uint64()),
    "text": (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())),
    "decimal of 2 digits": (pa.decimal128(9, 2), pa.decimal128(30, 2)),
    "decimal of 3 digits": (pa.decimal128(9, 3),),
    "float": (pa.float32(),),
    "double": (pa.float64(),),
    "boolean": (pa.bool_(),),
    "date": (pa.date32(),),
}
VALUES = {"text": "7", "boolean": True, "date": dt.date(2024, 2, 1), "float": 7.0, "double": 7.0}


@pytest.mark.parametrize("said", ARROW)
def test_declared_types_that_write_the_same_texts_are_one(tmp_path, said):
    for kind in ARROW[said]:
        value = VALUES.get(said, Decimal(7) if "decimal" in said else 7)
        pq.write_table(
            pa.table(
                {"who": pa.array([value], pa.string() if pa.types.is_dictionary(kind) else kind)}
            ),
            tmp_path / "t.parquet",
        )
        assert describe_unit_reading(open_source(tmp_path / "t.parquet"), UNIT, PLAIN) == said


def test_rows_of_a_frame_do_not_decide_it():
    """One row more makes a column of whole numbers one of texts, of floats or of objects, and refuses nothing."""
    columns = (
        [7],
        [7, None],
        [7, "07"],
        ["7"],
        [7.5],
        [True, None],
        [None],
        [Decimal(7)],
        [dt.date(2024, 1, 1)],
    )
    frames = [pd.DataFrame({"who": column}) for column in columns]
    frames += [pl.DataFrame({"who": column}, strict=False) for column in columns]
    frames += [frame.lazy() for frame in frames if isinstance(frame, pl.DataFrame)]
    assert {describe_unit_reading(open_source(frame), UNIT, PLAIN) for frame in frames} == {
        "values in memory"
    }


# ---- accounts ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def account(tmp_path, table):
    return sd.Ledger.create(
        tmp_path / "b.db",
        account="a",
        budget=sd.Budget(epsilon=9),
        adjacency="add-remove",
        unit=UNIT,
        source=str(table),
    )


RELEASES = {
    "count": lambda s: s.count(epsilon=1),
    "units": lambda s: s.count_distinct_units(epsilon=1),
    "top": lambda s: s.top_k("g", k=1, epsilon=1, domain=["g"]),
    "sum": lambda s: s.sum("x", epsilon=1, lower=0, cap=10),
    "plan": lambda s: s.plan.count(epsilon=1),
    "stream": lambda s: s.watch(
        threshold=1, positives=1, epsilon=1, sensitivity=sd.COUNTING
    ).__enter__(),
}


def batch(session):
    with session.batch():
        session.count(epsilon=1)
        session.count_distinct_units(epsilon=1)


@pytest.mark.parametrize("name", [*RELEASES, "batch"])
@pytest.mark.sample(3)
def test_text_and_integer_on_one_account_are_refused_before_the_charge(account, table, name):
    """`7` and `07` are two people as texts, and one as an integer: that one would lose what both releases spend."""
    ask = RELEASES.get(name, batch)
    sd.Session(table, unit=UNIT, ledger=account).count(epsilon=1)
    typed = sd.Session(table, unit=UNIT, ledger=account, csv=csv(types={"who": "integer"}))
    with pytest.raises(
        sd.LedgerConflict,
        match=r'read whose a row is \(column "who"\) as csv text, but this release reads it as csv integer',
    ):
        ask(typed)
    assert account.remaining == 8
    # Declared as before, whatever is declared beside it.
    ask(
        sd.Session(table, unit=UNIT, ledger=account, csv=csv(types={"who": "text", "x": "integer"}))
    )


def test_the_broken_twin_admits_both(account, table, monkeypatch):
    monkeypatch.setattr(ReleaseExecutor, "reading", property(lambda executor: ""))
    for types in ({}, {"who": "integer"}):
        sd.Session(table, unit=UNIT, ledger=account, csv=csv(types=types)).count(epsilon=1)
    assert account.remaining == 7
    assert units_of(table, PLAIN) != units_of(table, csv(types={"who": "integer"}))


def test_a_frame_may_change_its_dtype_from_night_to_night(tmp_path):
    about = {
        "budget": sd.Budget(epsilon=9),
        "adjacency": "add-remove",
        "unit": UNIT,
        "source": "name:people",
    }
    ledger = sd.Ledger.create(tmp_path / "b.db", account="a", **about)
    for column in ([7, 8], [7, None], [7, "07"]):
        sd.Session(pd.DataFrame({"who": column}), unit=UNIT, ledger=ledger, name="people").count(
            epsilon=1
        )
    assert ledger.remaining == 6


def test_the_types_of_a_relation_refuse_nothing(tmp_path):
    """Rows of a CSV file may have decided the types of a table that was made of it."""
    about = {
        "budget": sd.Budget(epsilon=9),
        "adjacency": "add-remove",
        "unit": UNIT,
        "source": "name:people",
    }
    ledger = sd.Ledger.create(tmp_path / "b.db", account="a", **about)
    connection = duckdb.connect()
    kinds = []
    for rows in ("7\n8\n", "7\n8\nabc\n"):
        (tmp_path / "people.csv").write_text(f"who\n{rows}", encoding="utf-8")
        listed = f"SELECT * FROM read_csv('{tmp_path / 'people.csv'}')"
        connection.execute(f"CREATE OR REPLACE TABLE people AS {listed}")
        relation = connection.table("people")
        kinds += relation.types
        sd.Session(relation, unit=UNIT, ledger=ledger, name="people").count(epsilon=1)
    assert list(map(str, kinds)) == ["BIGINT", "VARCHAR"]
    assert ledger.remaining == 7


def test_a_file_whose_declared_type_changed_is_refused(tmp_path):
    path = tmp_path / "people.parquet"
    about = {
        "budget": sd.Budget(epsilon=9),
        "adjacency": "add-remove",
        "unit": UNIT,
        "source": str(path),
    }
    ledger = sd.Ledger.create(tmp_path / "b.db", account="a", **about)
    for kind in (pa.int32(), pa.int64()):
        pq.write_table(pa.table({"who": pa.array([7], kind)}), path)
        sd.Session(path, unit=UNIT, ledger=ledger).count(epsilon=1)
    pq.write_table(pa.table({"who": ["7", "07"]}), path)
    with pytest.raises(
        sd.LedgerConflict, match=r'\(column "who"\) as integer, but this release reads it as text'
    ):
        sd.Session(path, unit=UNIT, ledger=ledger).count(epsilon=1)


def test_of_an_account_of_rows_the_lines_are_kept(tmp_path, table):
    row = sd.PrivacyUnit.row()
    about = {
        "budget": sd.Budget(epsilon=9),
        "adjacency": "add-remove",
        "unit": row,
        "source": str(table),
    }
    ledger = sd.Ledger.create(tmp_path / "b.db", account="a", **about)
    for form in (PLAIN, csv(types={"who": "integer"}), csv(null="NA", quote="")):
        sd.Session(table, unit=row, ledger=ledger, csv=form).count(epsilon=1)
    wide = csv(encoding="utf-16-le", header=False, columns=("who",))
    with pytest.raises(
        sd.LedgerConflict,
        match="utf-8, but this release reads it as rows of csv, encoding utf-16-le",
    ):
        sd.Session(table, unit=row, ledger=ledger, csv=wide).count(epsilon=1)
