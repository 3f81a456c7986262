"""Declared types of CSV columns: which text is which value, by a second implementation; and each row by itself, in any company."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
import random
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import duckdb
import pytest

from sordino import CsvFormat, PrivacyUnit
from sordino.columns import BucketGrid, StepRange
from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import prepare_counts, prepare_numbers, prepare_records
from sordino.sources import engine as engine_module, open_source
from sordino.sources.csv import lines as lines_module, reader as reader_module, text_rows
from sordino.sources.engine import after_charge, literal
from support.declared import declared_value

KINDS = (
    *("integer", "double", "date", "timestamp", "boolean", "text"),
    *("decimal(12,2)", "decimal(4,4)", "decimal(38,10)", "decimal(18,0)", "decimal(1,0)"),
)
WRITTEN = {
    "plain": {},
    "German": {"decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y"},
    "American": {"thousands": ",", "date_format": "%m/%d/%Y"},
    "French": {"decimal": ",", "thousands": "\u202f", "date_format": "%d %m %Y"},
    "Swiss": {"thousands": "'", "date_format": "%d.%m.%Y"},
    "blanks": {"decimal": ",", "thousands": " ", "date_format": "(%Y) %m-%d T"},
    "no marks": {"decimal": ",", "date_format": "%Y%m%d"},
    "two touch": {"thousands": "_", "date_format": "%d.%m%Y"},
}
TEXTS = (
    "7", "007", "+7", "-7", "- 7", "7.0", "7,0", "7.", "7,", ".5", ",5", "-.5", "7.5", "7.50", "7.500000", "7,50", "1.234", "1,234",
    "1.234,56", "1,234.56", "1.234.567,89", "1,234,567.89", "12.34.567", "1234.567", "1234,567", "0.123", "0,123", "00.123", "1.23",
    "1.2345", "1..234", ".234", "1.234.", "1'234'567.5", "1_234", "1_000", "1__000", "1 234,5", "1\u202f234,5", "1\u00a0234", "1.234e5",
    "1,234e5", "1e5", "1E+5", "1,5e3", "1e", "e5", "1e400", "-1e400", "1e-400", "1" * 400, "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "9.223.372.036.854.775.807", "99999999999999999999999999999999999999", "0", "-0",
    "9007199254740993", "0.1", "0,0001", "0.00010000", "0.00001", "inf", "-inf", "nan", "NaN", "Infinity", "0x10", "1d", "\u0663", "\uff11",
    "", " ", " 7 ", "\t7\t", "7 ", "7\u00a0", "\u22127", "7\r", "7-", "(7)", "7%", "7 \u20ac", "true", "TRUE", "True", "t", "T", "yes", "Y",
    "1", "false", "F", "no", "n", "ye\u017f", "on", "ja", "fal\u017fe", "2024-01-31", "2024-1-3", "2024-02-30", "2024-02-29", "2023-02-29",
    "24-01-31", "0000-01-01", "0001-01-01", "0050-1-02", "0999-12-31", "1000-01-01", "9999-12-31", "10000-01-01", "2024-13-01", "2024-00-10", "2024-01-00", "31.01.2024", "3.1.2024",
    "31.1.24", "01/31/2024", "31 1 2024", "20240131", "2024131", "2024013", "31.012024", "(2024) 1-3 T", " 2024-01-31 ", "2024-01-31 12:00",
    "2024-01-31T12:00:30", "2024-01-31 12:00:30.5", "2024-01-31 12:00:30.123456", "2024-01-31 12:00:30.1234567", "2024-01-31 12:00:30.123456000",
    "2024-01-31 24:00", "2024-01-31 23:60", "2024-01-31 23:59:60", "2024-01-31 1:02", "2024-01-31 1:2", "2024-01-31  12:00", "2024-01-31 12",
    "2024-01-31 12:00Z", "2024-01-31 12:00+01:00", "31.01.2024 12:00", "20240131 120000", "20240131T12:00", "today", "epoch", "infinity",
    "1970-01-01 (BC)", "2024-W05-3", "NULL", "x", "7" + "0" * 300, "0" * 300 + "7", "7." + "0" * 300,
)  # fmt: skip
PIECES = (
    *(
        "1",
        "23",
        "456",
        "000",
        "0",
        "9",
        ".",
        ",",
        "'",
        "_",
        " ",
        "\u202f",
        "-",
        "+",
        "e",
        "E",
        "T",
        ":",
        "/",
        "(",
        ")",
        "t",
        "\t",
        "12",
    ),
    *("2024", "02", "31", "x", "\u00a0"),
)


def written_texts(seed, date_format="%Y-%m-%d", **_marks):
    rng = random.Random(seed)
    days = [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 11, 3)]
    dates = [day.strftime(date_format) for day in days]
    made = [
        date + time for date in dates for time in ("", " 12:00", "T23:59:59.5", " ", " 1:02:03")
    ]
    made += [date.replace("0", "", 1) for date in dates]
    made += ["".join(rng.choices(PIECES, k=rng.randrange(1, 9))) for _ in range(600)]
    return [*TEXTS, *made]


def values(path, form):
    """Return the rows of a file, each value as a text."""
    source = open_source(path, csv=form)
    columns = range(len(source.columns))

    def work(announce):
        with source.backend.scan(columns) as scan:
            announce(scan)
            shown = ", ".join(
                f"coalesce(CAST(c{index} AS VARCHAR), '?') AS v{index}" for index in columns
            )
            answer = scan.ask(f"SELECT {shown} FROM rows")
            return list(zip(*(answer[f"v{index}"].tolist() for index in columns), strict=True))

    return after_charge(work)


def read_back(text, kind):
    """Return the value whose text the engine wrote."""
    if text == "?":
        return None
    if kind == "integer":
        return int(text)
    if kind == "double":
        return float(text)
    if kind.startswith("decimal"):
        return Fraction(Decimal(text))
    if kind == "boolean":
        return {"true": True, "false": False}[text]
    if kind == "date":
        return dt.date.fromisoformat(text)
    return dt.datetime.fromisoformat(text) if kind == "timestamp" else text


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.sample(4)
def test_which_text_is_which_value(tmp_path, name):
    """A text that is a value of no type is missing, and none fails."""
    options = WRITTEN[name]
    columns = ("t", *KINDS, "end")
    form = CsvFormat(
        delimiter=";",
        header=False,
        columns=columns,
        types={kind: kind for kind in KINDS},
        **options,
    )
    texts = [text for text in written_texts(name, **options) if text]
    path = tmp_path / "t.csv"
    path.write_bytes(
        "".join(";".join([text] * (len(columns) - 1) + ["e"]) + "\n" for text in texts).encode()
    )
    rows = values(path, form)
    assert [row[0] for row in rows] == texts
    for place, kind in enumerate(KINDS, start=1):
        read = {row[0]: read_back(row[place], kind) for row in rows}
        wanted = {text: declared_value(text, kind, **options) for text in texts}
        assert {t: (value, wanted[t]) for t, value in read.items() if value != wanted[t]} == {}, (
            kind
        )
        assert any(value is not None for value in read.values())


GERMAN = """kunde;betrag;tag;alter
A;1.234,50;31.12.2024;41
B;1.000.000,00;1.1.2024;007
C;12,5;30.06.2024;35
D;1.5;5.5.2024;30
E;"2.000";31.02.2024;7,0
F;;1.6.2024;x
"""


@pytest.fixture
def german(tmp_path):
    path = tmp_path / "german.csv"
    path.write_text(GERMAN, encoding="utf-8")
    return path


def german_format(**types):
    options = {"date_format": "%d.%m.%Y"} if "date" in types.values() else {}
    return CsvFormat(delimiter=";", decimal=",", thousands=".", types=types, **options)


def total(source, column, *, unit=None, where=None, high=10**9):
    question = prepare_numbers(
        source,
        unit or PrivacyUnit.row(),
        column=column,
        grid=BucketGrid.geometric(lower=0, cap=100, growth=2, unit=1),
        where=where,
        salt=bytes(16),
    )
    [found] = question.totals([StepRange(low=-high, high=high, step=Fraction(1, 4))])
    return int(found.steps) / 4, int(found.known)


@pytest.mark.parametrize(
    "types", [{}, {"betrag": "double"}, {"betrag": "decimal(12,2)"}, {"betrag": "text"}], ids=str
)
@pytest.mark.sample(4)
def test_a_german_file_adds_up(german, types):
    """Also where the column was not declared: the marks are those of all numbers of the file. 1.5 is no number there, and no 15."""
    source = open_source(german, csv=german_format(**types))
    assert total(source, "betrag") == (1234.5 + 1_000_000 + 12.5 + 2000, 4)
    # Where nothing is declared, texts are read as English numbers: this is what a declaration mends.
    assert total(open_source(german, csv=CsvFormat(delimiter=";")), "betrag") == (1.5 + 2, 2)


def counted(source, kind="rows", where=None, unit=None, **more):
    return (
        prepare_counts(source, unit or PrivacyUnit.row(), kind=kind, where=where, **more)
        .run()
        .values
    )


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("alter > 30", 2),
        ("alter = 7", 2),
        ("alter IS NULL", 1),
        ("alter + 1 BETWEEN 36 AND 42", 2),
        ("betrag >= 12.5 AND betrag < 2000", 2),
        ("tag > '2024-06-01'", 2),
        ("tag IS NULL", 1),
        ("tag IN ('2024-12-31', '2024-06-01')", 2),
        ("kunde = 'A'", 1),
        ("NOT (alter > 30)", 3),
    ],
)
@pytest.mark.sample(4)
def test_predicates_see_declared_types(german, where, rows):
    form = german_format(betrag="decimal(12,2)", tag="date", alter="integer")
    assert counted(open_source(german, csv=form), where=where).tolist() == [rows]


def test_truth_values_are_conditions(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("ok,n\nyes,1\n0,2\nmaybe,3\nT,4\n", encoding="utf-8")
    source = open_source(path, csv=CsvFormat(types={"ok": "boolean", "n": "integer"}))
    assert counted(source, where="ok").tolist() == [2]
    assert counted(source, where="NOT ok").tolist() == [1]
    assert counted(source, where="ok AND n > 1").tolist() == [1]
    with pytest.raises(InvalidParameter, match="Declare its type first, such as --type ok=double"):
        counted(open_source(path), where="ok")


def test_units_and_labels_are_declared_values(tmp_path):
    """007, 7 and 7.0 are one unit and one label, and what is no value is nobody's."""
    path = tmp_path / "t.csv"
    path.write_text("u,i\n007,1\n7, 1\n+7,1.0\n7.0,x\nseven,1\n,1\n8,2\n", encoding="utf-8")
    form = CsvFormat(types={"u": "integer", "i": "integer"})
    source = open_source(path, csv=form)
    assert counted(source, "units", unit=PrivacyUnit("u")).tolist() == [2]
    assert counted(open_source(path), "units", unit=PrivacyUnit("u")).tolist() == [6]
    items = counted(source, "items", unit=PrivacyUnit("u"), item="i", domain=["1", "2", "x"])
    assert items.tolist() == [1, 1, 0]
    ranged = prepare_counts(
        source, PrivacyUnit.row(), kind="items", item="i", domain=range(3)
    ).run()
    assert sum(ranged.values.tolist()) == 6
    assert counted(source, "rows", unit=PrivacyUnit("u", max_rows=1)).tolist() == [2]


@pytest.mark.parametrize(
    ("kind", "text", "label"),
    [
        ("integer", "+007", "7"),
        ("decimal(12,2)", "7", "7.00"),
        ("decimal(12,2)", "-0", "0.00"),
        ("double", "7.00", "7"),
        ("double", "-0", "0"),
        ("double", "1e2", "100"),
        ("double", ".5", "0.5"),
        ("date", "2024-1-2", "2024-01-02"),
        ("boolean", "Y", "true"),
        ("text", " 7", " 7"),
    ],
)
@pytest.mark.sample(4)
def test_what_a_label_is_called(tmp_path, kind, text, label):
    path = tmp_path / "t.csv"
    path.write_text(f"i,j\n{text},1\n", encoding="utf-8")
    source = open_source(path, csv=CsvFormat(types={"i": kind}))
    assert counted(source, "items", item="i", domain=[label]).tolist() == [1]


# ---- each row by itself -------------------------------------------------------------------------------------------------


NASTY = (
    "",
    "x",
    "9223372036854775808",
    "1e400",
    "nan",
    "\u0663",
    "1.5",
    "2024-02-30",
    "\r",
    "7" * 400,
    "-",
    "NULL",
    '"',
    '"a',
    "\xff",
)


def fates(folder, rows, form, where):
    """Return how many rows of a table a predicate keeps."""
    path = folder / "t.csv"
    path.write_text("n,d,t,b,m\n" + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return counted(open_source(path, csv=form), where=where).tolist()[0]


FORM = CsvFormat(
    types={"n": "integer", "d": "date", "t": "timestamp", "b": "boolean", "m": "decimal(9,2)"},
    null="NA",
)
WHERES = (
    "n > 3 OR m < 2",
    "n * 4611686018427387904 > 0 OR d >= '2024-01-01'",
    "NOT b OR t IS NULL OR d = t OR n + m > 4",
    "m BETWEEN n AND 9 OR b",
)


def random_row(rng):
    usual = (
        rng.choice(("1", "2", "7", "007", "-5", "4.0", "")),
        rng.choice(("2024-01-31", "2024-1-3", "9999-12-31", "")),
        rng.choice(("2024-01-31 12:00", "2024-01-31 00:00", "9999-12-31T23:59:59.999999", "")),
        rng.choice(("true", "no", "")),
        rng.choice(("1.50", "7", "-2.000", "")),
    )
    return ",".join(rng.choice(NASTY) if rng.random() < 0.1 else field for field in usual)


@pytest.mark.parametrize("where", WHERES)
@pytest.mark.sample(4)
def test_a_table_is_the_sum_of_its_rows(tmp_path, where):
    """Also over the borders of vectors and of blocks."""
    rng = random.Random(where)
    some = sorted({random_row(rng) for _ in range(15)})
    alone = {row: fates(tmp_path, [row], FORM, where) for row in some}
    assert 0 < sum(alone.values()) < len(some)
    for size in (15, 5000):
        rows = [rng.choice(some) for _ in range(size)]
        wanted = sum(alone[row] for row in rows)
        assert fates(tmp_path, rows, FORM, where) == wanted
        with mock.patch.object(lines_module, "BLOCK", 101):
            assert fates(tmp_path, rows[:300], FORM, where) == sum(alone[row] for row in rows[:300])
        # One row more, one less, and one changed: at the first place, at the last, and in the middle.
        for at in (0, size // 2, size):
            more = rng.choice(some)
            assert (
                fates(tmp_path, [*rows[:at], more, *rows[at:]], FORM, where) == wanted + alone[more]
            )


NUMBERS = ("5", "2,5", "1.000", "-3", "7,125", "")


@pytest.mark.parametrize("kind", ["integer", "decimal(9,3)", "double", None])
@pytest.mark.parametrize("max_rows", [None, 2])
@pytest.mark.sample(8)
def test_neighbors_end_to_end(tmp_path, kind, max_rows):
    """One row more moves a sum by its own number and a count by one, whatever is in it."""
    types = {} if kind is None else {"x": kind}
    form = CsvFormat(delimiter=";", decimal=",", thousands=".", types=types)
    unit = PrivacyUnit.row() if max_rows is None else PrivacyUnit("u", max_rows=max_rows)
    rng = random.Random(kind)

    def asked(rows):
        path = tmp_path / "t.csv"
        path.write_text("u;x\n" + "".join(f"{row}\n" for row in rows), encoding="utf-8")
        source = open_source(path, csv=form)
        steps, known = total(source, "x", unit=unit, high=40)
        return steps, known, counted(source, "rows", unit=unit).tolist()[0]

    rows = [f"u{i % 40};{rng.choice(NUMBERS)}" for i in range(3000)]
    before = asked(rows)
    for field in NASTY[:: 2 if max_rows else 3]:
        more = [f"other;{field}", f"other;{field}"][: max_rows or 1]
        after = asked([*rows[:70], *more, *rows[70:]])
        most = max_rows or 1
        assert abs(after[0] - before[0]) <= most * 10, field
        assert 0 <= after[1] - before[1] <= most, field
        assert 0 <= after[2] - before[2] <= most, field


# ---- twins --------------------------------------------------------------------------------------------------------------


def test_a_cast_without_try_is_convicted(tmp_path, monkeypatch):
    monkeypatch.setattr(
        text_rows, "write_typed", lambda field, kind, form: f"CAST({field} AS {kind.engine})"
    )
    monkeypatch.setattr(text_rows, "rehearse_types", lambda form: None)
    path, rows = tmp_path / "t.csv", "x\n" + "7\n" * 20
    form = CsvFormat(types={"x": "integer"})
    path.write_text(rows, encoding="utf-8")
    assert total(open_source(path, csv=form), "x") == (140, 20)
    path.write_text(rows + "x\n", encoding="utf-8")
    with pytest.raises(DataSourceError):
        total(open_source(path, csv=form), "x")


def test_sniffing_is_convicted(tmp_path, monkeypatch):
    """The engine finds the types out from rows: one row decides what thousands of others are."""

    def sniff(self, engine, indices):
        listed = ", ".join(literal(str(path)) for path in self.rows.files)
        columns = ", ".join(f"c{index}" for index in indices)
        names = ", ".join(f"c{index}" for index in range(len(self.rows.kinds)))
        return f"SELECT {columns} FROM read_csv([{listed}], ignore_errors = true) AS t({names})"

    path = tmp_path / "t.csv"

    def labelled(rows):
        path.write_text("a,b\n" + "".join(f"{row}\n" for row in rows), encoding="utf-8")
        return counted(open_source(path), "items", item="a", domain=["1.50", "1.5"]).tolist()

    rows = ["1.50,1"] * 2000
    assert labelled(rows) == labelled([*rows, "x,1"])
    monkeypatch.setattr(reader_module.CsvReader, "relation", sniff)
    monkeypatch.setattr(engine_module.Engine, "close_doors", lambda self, paths: None)
    assert labelled(rows) != labelled([*rows, "x,1"])


# ---- what is refused before the charge ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"types": {"a": "int"}}, "must be one of integer, decimal"),
        ({"types": {"a": 7}}, "must be one of integer, decimal"),
        ({"types": {"a": "decimal"}}, "must be one of"),
        ({"types": {"a": "decimal(39,2)"}}, "1 to 38 digits"),
        ({"types": {"a": "decimal(2,3)"}}, "1 to 38 digits"),
        ({"types": {"a": "decimal(0,0)"}}, "1 to 38 digits"),
        ({"types": ["a"]}, "must be a mapping"),
        ({"types": {7: "integer"}}, "must be a mapping"),
        ({"decimal": ";"}, "a point or a comma"),
        ({"decimal": ""}, "a point or a comma"),
        ({"decimal": None}, "a point or a comma"),
        ({"decimal": ","}, "than the delimiter"),
        ({"decimal": ",", "thousands": ",", "delimiter": ";"}, "another mark than decimal"),
        ({"thousands": "."}, "another mark than decimal"),
        ({"thousands": ","}, "than the delimiter"),
        ({"thousands": "'", "quote": "'"}, "than the quote"),
        ({"thousands": "x"}, "U\\+2019"),
        ({"thousands": ".."}, "U\\+2019"),
        ({"thousands": None}, "U\\+2019"),
        ({"thousands": "\u2019", "encoding": "latin-1"}, "character of the encoding"),
        ({"null": ("NA", "NA")}, "a list of different texts"),
        ({"null": ("NA", 7)}, "a list of different texts"),
        ({"null": None}, "a list of different texts"),
        ({"date_format": "%d.%m.%Y"}, "go with a column of type date"),
        *(
            ({"types": {"a": "date"}, "date_format": form}, "%Y .four digits")
            for form in ("%d.%m.%y", "%d.%m", "%Y-%m-%d %H:%M", "%Y-%m-%d-%d", "", None, "%Y1%m%d", "%%Y%m%d", "%Y\n%m%d", "%Y%m%d" + "x" * 40)
        ),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.sample(15)
def test_what_is_no_format_is_refused(options, said):
    with pytest.raises(InvalidParameter, match=said):
        CsvFormat(**options)


def test_types_are_those_of_columns(tmp_path, german):
    with pytest.raises(InvalidParameter, match="got 'Betrag'. The columns are 'kunde', 'betrag'"):
        open_source(german, csv=german_format(Betrag="double"))
    with pytest.raises(InvalidParameter, match=r"columns of CsvFormat\.columns"):
        open_source(german, csv=CsvFormat(header=False, columns=("a",), types={"b": "text"}))
    with duckdb.connect(str(tmp_path / "t.db")) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
        con.execute(f"COPY t TO '{tmp_path}/t.parquet'")
    sources = (duckdb.sql("SELECT 1 AS a"), f"duckdb:{tmp_path}/t.db#t", tmp_path / "t.parquet")
    for source in sources:
        for form in (CsvFormat(types={"a": "integer"}), CsvFormat(thousands="'")):
            with pytest.raises(InvalidParameter, match="source other than CSV"):
                open_source(source, csv=form)


@pytest.mark.parametrize("column", ["tag", "kunde"])
def test_what_is_declared_to_be_no_number_has_no_sum(german, column):
    source = open_source(german, csv=german_format(tag="date", kunde="boolean"))
    with pytest.raises(InvalidParameter, match="must be a column of whole numbers"):
        total(source, column)


def test_texts_that_mean_missing_have_one_form():
    assert CsvFormat(null=("NA",)) == CsvFormat(null=("", "NA")) == CsvFormat(null="NA")
    assert CsvFormat(null=()) == CsvFormat(null=("",)) == CsvFormat()
    several = CsvFormat(null=("NA", "-"))
    assert pickle.loads(pickle.dumps(several)) == several != CsvFormat(null="NA")


def test_a_format_cannot_be_changed_and_can_be_copied():
    types = {"a": "integer"}
    form = CsvFormat(types=types)
    types["a"] = "nothing"
    assert form.types["a"] == "integer"
    with pytest.raises(TypeError):
        form.types["a"] = "text"
    for other in (copy.deepcopy(form), pickle.loads(pickle.dumps(form))):
        assert other == form
        assert hash(other) == hash(form)
    assert CsvFormat(types={"a": "text"}) != form
    assert CsvFormat(types={"a": " Decimal( 12, 2 )"}).types["a"] == " Decimal( 12, 2 )"


def test_records_are_numbers_in_the_declared_marks(tmp_path, german):
    """Every line is one; of a declared type only what changes nothing about a line is taken."""
    path = tmp_path / "records.csv"
    path.write_text('u;x\na;1.234,5\na;1.5\nb;"2,5"\nb;1e2\nc; 7 \nc;\n', encoding="utf-8")
    unit = PrivacyUnit("u", adjacency="replace-one", max_rows=9)
    form = CsvFormat(delimiter=";", decimal=",", thousands=".", types={"x": "double", "u": "text"})
    question = prepare_records(open_source(path, csv=form), unit, column="x")
    found = [number for block in question.run() for number in block.tolist()]
    assert [number if number == number else None for number in found] == [
        1234.5,
        None,
        2.5,
        100,
        7,
        None,
    ]
    for types in ({"x": "integer"}, {"u": "integer"}, {"x": "decimal(4,1)"}):
        source = open_source(path, csv=CsvFormat(delimiter=";", types=types))
        with pytest.raises(InvalidParameter, match="of CSV that is randomized must have the type"):
            prepare_records(source, unit, column="x")
