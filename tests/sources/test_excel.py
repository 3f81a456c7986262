"""The law of sheets of Excel: the multiset of rows is the union over rows of what one row says, and nothing else.

`record` says it a second time: from what was meant to stand in the cells, by fractions and days counted one by one.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import resource
import sys
import time
import zipfile
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from sordino import CsvFormat, PrivacyUnit, Seeded, Session
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend
from sordino.questions import prepare_counts, prepare_records
from sordino.sources import open_source
from sordino.sources.csv import lines as lines_module
from sordino.sources.excel import cells as cells_module, parts, workbook
from sordino.sources.excel.cells import Cell, CellRules, numbered_format, written_format
from support.text_files import rows_of
from support.workbooks import MAIN, Book, C, write_book, write_table

NAMES = ("user", "item", "when")
HEAD = [C("A1", "user", "share"), C("B1", "item", "inlineStr"), C("D1", "when", "str")]
COLUMNS = {"A": 0, "B": 1, "D": 2}
CONSTANT = "The data engine could not finish"
# By style: 0 and 6 show numbers, 1 and 4 dates, 2 both, 3 and 5 times; there is no format behind the last one.
SHOWS = ("number", "date", "date", "time", "date", "time", "number", "number")


# ---- what a cell says, said again ---------------------------------------------------------------------------------------


def fewest_digits(value):
    """Return a float in the fewest digits that mean it, found by trying."""
    for digits in range(17):
        text = f"{value:.{digits}e}"
        if float(text) == value:
            break
    found = Fraction(Decimal(text))
    sign, found = ("-" if found < 0 else ""), abs(found)
    whole, rest = divmod(found, 1)
    written = ""
    while rest:
        digit, rest = divmod(rest * 10, 1)
        written += str(digit)
    return f"{sign}{whole}" + (f".{written}" if written else "")


def unescaped(text):
    units = []
    at = 0
    while at < len(text):
        if (
            text[at : at + 2] == "_x"
            and text[at + 6 : at + 7] == "_"
            and all(c in "0123456789abcdefABCDEF" for c in text[at + 2 : at + 6])
        ):
            units += int(text[at + 2 : at + 6], 16).to_bytes(2, "little")
            at += 7
        else:
            units += text[at].encode("utf-16-le")
            at += 1
    try:
        return bytes(units).decode("utf-16-le")
    except UnicodeDecodeError:
        return None


def said(cell, *, from_1904=False):
    """Return what a cell of the sheet says, None if it is missing."""
    kind, text = "n" if cell.t is None else cell.t, cell.text
    if kind in {"share", "inlineStr", "str"}:
        found = unescaped(text)
        return None if found is None or "\0" in found else found
    text = text.strip(" \t\r\n")
    if kind == "b":
        return {"1": "true", "0": "false", "true": "true", "false": "false"}.get(text)
    if kind == "d":
        return said(C(None, text, "str"))
    if kind != "n" or not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
        return None
    style = "0" if cell.s is None else cell.s
    shows = (
        SHOWS[int(style)]
        if style in set("01234567")
        else SHOWS[0]
        if not style.isdigit()
        else "number"
    )
    if shows == "number":
        if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
            return (
                str(Decimal(text).quantize(1))
                if len(text) < 25 and Decimal(text)
                else text.lstrip("+-").lstrip("0") or "0"
            )
        value = float(text)
        return None if abs(value) == float("inf") else fewest_digits(value)
    if not 0 <= float(text) < 4e6:
        return None
    total = round(Fraction(float(text)) * 86_400_000)
    days, rest = divmod(total, 86_400_000)
    clock = dt.timedelta(milliseconds=total if shows == "time" else rest)
    seconds = clock.days * 86400 + clock.seconds
    behind = f".{clock.microseconds // 1000:03}" if clock.microseconds else ""
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{behind}"
    if shows == "time":
        return clock
    # Day by day: 1900 has a day too many.
    if not from_1904 and days in {0, 60}:
        return None
    start = dt.date(1904, 1, 1) if from_1904 else dt.date(1899, 12, 31)
    try:
        day = start + dt.timedelta(days - (days > 60 and not from_1904))
    except OverflowError:
        return None
    return f"{day}" + (f" {clock}" if rest else "")


def record(cells, null="", **options):
    """Return the row of some cells, or None if it is dropped."""
    found, column = {}, -1
    for cell in cells:
        if cell.r is None:
            column += 1
        else:
            letters = re.fullmatch("([A-Z]{1,3})[0-9]*", cell.r)
            if not letters:
                continue
            column = {"A": 0, "B": 1, "C": 2, "D": 3}.get(letters[1], 99)
        if cell.text is not None:
            found.setdefault(column, cell)
    row = [found.get(column) for column in (0, 1, 3)]
    if not any(cell is not None and cell.text for cell in row):
        return None
    texts = (None if cell is None else said(cell, **options) for cell in row)
    return tuple(None if text in {"", null} else text for text in texts)


def put(path, rows, head=HEAD, **options):
    book = Book()
    written = book.row(head, 1) + "".join(book.row(cells) for cells in rows)
    write_book(path, written, book.shared_xml(), **options)
    return f"excel:{path}#S"


def check(folder, rows, null="", **options):
    source = open_source(put(folder / "t.xlsx", rows, **options), csv=CsvFormat(null=null))
    assert list(source.columns) == list(NAMES)
    got = rows_of(source)
    kept = Counter(record(cells, null, from_1904=options.get("from_1904", False)) for cells in rows)
    del kept[None]
    assert got == kept
    return got


TEXTS = st.sampled_from(
    [
        *("x", "ä€😀", " ", "NA", "a\nb", "a\r\nb", "\t", "_x000D_", "_x0000_", "_x005F_x0041_", "_xD83D__xDE00_", "_xD83D_", "_x12_", "1.5", "true", "&<>\"'", "]]>", "x" * 40, "=1+1", "#N/A"),
    ]
)  # fmt: skip
NUMBERS = st.sampled_from(
    [
        *("0", "-0", "-0.0", "1", "007", "+5", "12.5", "3.0", "1.1000000000000001", "0.30000000000000004", "1E+22", "1e-7", "1e999", "-1e-400", "12345678901234567890", ".5", "5."),
        *("45351", "45351.5", "45351.999999999", "59", "60", "61", "60.5", "2958465", "2958466", "2958465.9999999999", "-1", "1e300", "1.5", "0.25", "36.123456"),
        *("", " ", " 7 ", "abc", "1_000", "1,5", "nan", "inf", "0x10", "٣", "--1", "1e", "1.2.3"),
    ]
)  # fmt: skip
STYLES = st.sampled_from([None, *"01234567", "8", "99999999999", "-1", "x", ""])
KINDS = st.sampled_from([None, "n", "b", "e", "d", "str", "inlineStr", "share", "zz", ""])
REFERENCES = st.sampled_from(
    [
        None,
        None,
        "A2",
        "B2",
        "C2",
        "D2",
        "D",
        "XFD9",
        "ZZZ1",
        "a2",
        "2",
        "???",
        "",
        "A2:B2",
        "AAAA1",
    ]
)
CELLS = (
    st.builds(C, REFERENCES, TEXTS, st.sampled_from(["str", "inlineStr", "share"]), STYLES)
    | st.builds(C, REFERENCES, NUMBERS, st.sampled_from([None, "n"]), STYLES)
    | st.builds(
        C, REFERENCES, st.sampled_from(["0", "1", "true", "yes", "", "2"]), st.just("b"), STYLES
    )
    | st.builds(C, REFERENCES, TEXTS | NUMBERS | st.none(), KINDS, STYLES)
)
ROWS = st.lists(CELLS, max_size=5)


# ---- the law ------------------------------------------------------------------------------------------------------------


@given(rows=st.lists(ROWS, max_size=12), null=st.sampled_from(["", "NA"]), from_1904=st.booleans())
@settings(max_examples=12)
def test_rows_are_the_union_over_rows(tmp_path_factory, rows, null, from_1904):
    check(tmp_path_factory.mktemp("law"), rows, null, from_1904=from_1904)


@given(rows=st.lists(ROWS, max_size=6), extra=ROWS, place=st.integers(0, 6))
@settings(max_examples=8)
def test_one_more_row_changes_nothing_but_itself(tmp_path_factory, rows, extra, place):
    folder = tmp_path_factory.mktemp("neighbor")
    before = check(folder, rows)
    # What it shares comes in front of, and between, what others share.
    after = check(folder, [*rows[:place], extra, *rows[place:]])
    assert after - before in ({}, Counter([record(extra)]))
    assert not before - after


@given(cell=CELLS, from_1904=st.booleans())
@settings(max_examples=400)
def test_one_cell_by_both_rules(cell, from_1904):
    if cell.text is None or cell.t == "s":
        return
    kind = "str" if cell.t == "share" else "n" if cell.t is None else cell.t
    rules = CellRules(SHOWS, from_1904, "%Y-%m-%d")
    found = rules.write(Cell(kind, "0" if cell.s is None else cell.s, cell.text), timed=False)
    assert (found.decode() or None) == (said(cell, from_1904=from_1904) or None)


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 16])
def test_no_boundary_matters(tmp_path, piece):
    rng = random.Random(piece)
    rows = [
        [
            C(None, rng.choice(["u", "ä€😀" * 9, "<", "x" * rng.randrange(60)]), rng.choice(["share", "str", "inlineStr"]))
            for _ in range(rng.randrange(5))
        ]
        for _ in range(200)
    ]  # fmt: skip
    with (
        mock.patch.object(parts.Archive.walk, "__defaults__", (None, piece)),
        mock.patch.object(workbook, "_BATCH_ROWS", 3),
        mock.patch.object(workbook, "_BATCH_BYTES", 50),
    ):
        assert check(tmp_path, rows).total() > 100


def test_a_row_is_kept_up_to_a_mebibyte(tmp_path):
    with mock.patch.object(workbook, "LONGEST", 50):
        for kind in ("share", "str", "inlineStr"):
            source = put(
                tmp_path / "t.xlsx",
                [
                    [C("A2", "x" * 50, kind)],
                    [C("A3", "x" * 51, kind)],
                    [C("A4", "x" * 25, kind), C("B4", "ä" * 13, kind)],
                    [C("A5", "u", kind)],
                ],
            )
            assert rows_of(open_source(source)) == Counter(
                [("x" * 50, None, None), ("u", None, None)]
            )


# ---- what the rules say -------------------------------------------------------------------------------------------------


def test_values_by_declared_types(tmp_path):
    head = [C(None, name, "str") for name in "abcdef"]
    rows = [
        [C(None, "7"), C(None, "1.5"), C(None, "1E5"), C(None, "45351", None, "1"), C(None, "1", "b"), C(None, "45351", None, "1")],
        [C(None, "7", "str"), C(None, "1.5", "str"), C(None, "x", "str"), C(None, "29.02.2024", "str"), C(None, "yes", "str"), C(None, "29.02.2024 13:45", "str")],
        [C(None, "7.5"), C(None, "1.005"), C(None, "#N/A", "e"), C(None, "45351.25", None, "1"), C(None, "2"), C(None, "45351.25", None, "1")],
        [C(None, "45351", None, "1"), C(None, "1", "b"), C(None, "0.5", None, "3"), C(None, "45351"), C(None, "45351", None, "1"), C(None, "0.5", None, "3")],
    ]  # fmt: skip
    kinds = {
        "a": "integer",
        "b": "decimal(9,2)",
        "c": "double",
        "d": "date",
        "e": "boolean",
        "f": "timestamp",
    }
    source = open_source(
        put(tmp_path / "t.xlsx", rows, head), csv=CsvFormat(types=kinds, date_format="%d.%m.%Y")
    )
    assert rows_of(source) == Counter(
        [
            ("7", "1.50", "100000.0", "2024-02-29", "true", "2024-02-29 00:00:00"),
            ("7", "1.50", None, "2024-02-29", "true", "2024-02-29 13:45:00"),
            (None, None, None, None, None, "2024-02-29 06:00:00"),
            (None,) * 6,
        ]
    )
    question = prepare_counts(
        source, PrivacyUnit.row(), kind="rows", where="a > 1 AND d IS NOT NULL"
    )
    assert question.run().values.tolist() == [2]


@pytest.mark.parametrize(
    ("code", "shows"),
    [
        ("General", "number"), ("0.00", "number"), ("0.00E+00", "number"), ('0" days"', "number"), ("#,##0\\h", "number"),
        ("[Red]0;[Blue]-0", "number"), ("[$-F800]dddd", "date"), ("[$€-407]#,##0.00", "number"), ("yyyy-mm-dd", "date"),
        ("d. mmmm", "date"), ("mmm", "date"), ("mm", "date"), ("yyyy-mm-dd hh:mm", "date"), ("hh:mm AM/PM", "time"), ("mm:ss.0", "time"),
        ("[h]:mm", "time"), ("[mm]:ss", "time"), ("[mm]", "time"), ("[s]", "time"), ('"d;"0', "number"), ("0;yyyy", "number"), ("@", "number"), ("", "number"),
        ('"open', "number"), ("[open", "number"), ("_y0_d", "number"), ("*d0", "number"),
    ],
)  # fmt: skip
@pytest.mark.sample(14)
def test_what_a_format_shows(code, shows):
    assert written_format(code) == shows


def test_formats_that_every_workbook_has():
    assert [
        number
        for number in range(170)
        if numbered_format(number) == "time"
        or (numbered_format(number) == "date" and not 27 <= number <= 58)
    ] == [*range(14, 23), 32, 33, 45, 46, 47]


def test_a_format_of_cells_is_the_last_that_is_defined_before_it(tmp_path):
    styles = f'<styleSheet xmlns="{MAIN}"><numFmts><numFmt numFmtId="14" formatCode="0.0"/></numFmts><cellXfs><xf numFmtId="x"/><xf numFmtId="14"/><xf/></cellXfs></styleSheet>'
    cells = [[C("A2", "45351", None, str(style))] for style in range(4)]
    source = put(tmp_path / "t.xlsx", cells, parts={"xl/styles.xml": styles})
    assert rows_of(open_source(source)) == Counter({("45351", None, None): 4})


def test_hidden_rows_are_rows_and_numbers_may_be_left_out(tmp_path):
    book = Book()
    rows = (
        book.row(HEAD, 1)
        + '<row r="9" hidden="1"><c r="A9"><v>1</v></c></row><row><c><v>1</v></c></row><row r="11"><c r="A1"><v>1</v></c></row>'
    )
    write_book(tmp_path / "t.xlsx", rows, book.shared_xml())
    assert rows_of(open_source(f"excel:{tmp_path / 't.xlsx'}#S")) == Counter({("1", None, None): 3})


@pytest.mark.parametrize("number", ["1", "5", "0", "x", "", "-7", "6.0", "1e9"])
def test_rows_that_are_not_in_order_are_damage(tmp_path, number):
    """The same row, written twice, would be two: a program that does so has damaged the sheet."""
    book = Book()
    rows = (
        book.row(HEAD, 1)
        + '<row r="5"><c><v>1</v></c></row>'
        + f'<row r="{number}"><c><v>1</v></c></row>'
    )
    write_book(tmp_path / "t.xlsx", rows, book.shared_xml())
    question = prepare_counts(
        open_source(f"excel:{tmp_path / 't.xlsx'}#S"), PrivacyUnit.row(), kind="rows"
    )
    with pytest.raises(DataSourceError, match=CONSTANT):
        question.run()


def test_a_workbook_may_have_neither_shared_texts_nor_formats(tmp_path):
    links = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r0" Type="y/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'
    path = tmp_path / "t.xlsx"
    gone = {
        "xl/_rels/workbook.xml.rels": links,
        "xl/styles.xml": None,
        "xl/sharedStrings.xml": None,
    }
    write_book(
        path,
        '<row><c t="str"><v>user</v></c></row><row><c s="1"><v>5</v></c></row><row><c t="s"><v>0</v></c></row>',
        parts=gone,
    )
    assert rows_of(open_source(f"excel:{path}#S")) == Counter([("5",), (None,)])


# ---- what is refused before the charge ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        [], [C("A1", None)], [C("A1", "1")], [C("A1", "user", "str"), C("B1", "45351", None, "1")], [C("A1", "user", "str"), C("B1", "#N/A", "e")],
        [C("A1", "_x0000_", "str")], [C("A1", "9", "s")],
    ],
)  # fmt: skip
def test_a_first_row_that_does_not_name_columns(tmp_path, head):
    source = put(tmp_path / "t.xlsx", [[C("A2", "private", "share")]], head)
    with pytest.raises(
        DataSourceError, match="first row of a sheet must name the columns"
    ) as caught:
        open_source(source)
    assert "private" not in str(caught.value)


def test_a_private_row_never_takes_the_place_of_an_empty_first_one(tmp_path):
    path = tmp_path / "t.xlsx"
    for rows in ("", '<row r="2"><c r="A2" t="str"><v>secret</v></c></row>'):
        write_book(path, rows)
        with pytest.raises(
            DataSourceError, match="first row of a sheet must name the columns"
        ) as caught:
            open_source(f"excel:{path}#S")
        assert "secret" not in str(caught.value)


def test_names_that_stand_twice_types_without_a_column_and_sheets_that_are_not_there(tmp_path):
    path = tmp_path / "t.xlsx"
    names = [C("A1", "user", "str"), C("B1", "user", "share"), C("C1", "item", "str")]
    row = [C("A2", "u", "str"), C("B2", "v", "str"), C("C2", "tea", "str")]
    twice = open_source(put(path, [row], names))
    # A name that is there twice is in nobody's way who does not ask for it.
    assert list(twice.columns) == ["item"]
    assert rows_of(twice) == {("tea",): 1}
    with pytest.raises(
        InvalidParameter, match="'user' is a name that stands more than once in the first row"
    ):
        twice.index("user", "unit")
    source = put(path, [])
    with pytest.raises(InvalidParameter, match="got 'usr'"):
        open_source(source, csv=CsvFormat(types={"usr": "text"}))
    for sheet in ("s", "S ", "Sales"):
        with pytest.raises(DataSourceError, match=f"has no sheet '{sheet}'"):
            open_source(f"excel:{path}#{sheet}")
    for address in ("excel:", f"excel:{path}", f"excel:{path}#", "excel:t.csv#S", "excel:#S"):
        with pytest.raises(InvalidParameter, match="written excel:FILE#SHEET"):
            open_source(address)
    with pytest.raises(DataSourceError, match="must be an existing file"):
        open_source(f"excel:{tmp_path / 'none.xlsx'}#S")
    for plain in (path, tmp_path / "*.xlsx", tmp_path):
        with pytest.raises(UnsupportedBackend, match="written excel:FILE#SHEET"):
            open_source(plain)


@pytest.mark.parametrize(
    "options",
    [{"delimiter": ";"}, {"quote": "'"}, {"header": False, "columns": ("user",)}, {"encoding": "latin-1"}, {"decimal": ",", "delimiter": ";"}, {"thousands": "'"}],
    ids=repr,
)  # fmt: skip
def test_what_cells_have_not_is_refused(tmp_path, options):
    with pytest.raises(InvalidParameter, match="must be left out for an Excel source"):
        open_source(put(tmp_path / "t.xlsx", []), csv=CsvFormat(**options))


def test_rows_that_may_be_dropped_are_not_randomized(tmp_path):
    source = open_source(put(tmp_path / "t.xlsx", []), csv=CsvFormat(types={"user": "double"}))
    with pytest.raises(InvalidParameter, match="every line is a row"):
        prepare_records(source, PrivacyUnit.row("replace-one"), column="user")


def test_the_name_of_a_sheet_may_hold_what_ends_others(tmp_path):
    folder = tmp_path / "a#b.xls"
    folder.mkdir()
    path = folder / "T#1.XLSX"
    write_table(path, [["user"], ["u"]], sheet="a#b & <c>")
    source = open_source(f"excel:{path}#a#b & <c>")
    assert source.identity == f"excel:{path}#a#b & <c>"
    assert rows_of(source) == Counter([("u",)])


# ---- what ends a release, in one constant sentence ----------------------------------------------------------------------


def damaged(path, way):
    """Write a workbook whose first row can be read, and something behind it cannot."""
    book = Book()
    first = book.row(HEAD, 1)
    rows = book.row([C("A2", "private", "share")], 2)
    more = {}
    if way == "xml":
        rows += "<row><c></row>"
    elif way == "a character":
        rows += "<row><c><v>\x01</v></c></row>"
    elif way == "depth":
        rows += "<row>" + "<a>" * 100 + "</a>" * 100 + "</row>"
    elif way == "names":
        rows += "<row>" + "".join(f"<a{i}/>" for i in range(parts.MOST_NAMES + 10)) + "</row>"
    elif way == "prefixes":
        rows += (
            "<row>"
            + "".join(f"<a xmlns:p{i}='x'/>" for i in range(parts.MOST_NAMES + 10))
            + "</row>"
        )
    elif way == "tag":
        rows += f"<row><c r='{'x' * (3 << 20)}'/></row>"
    elif way == "checksum":
        # So many that what is unpacked before the charge does not reach the end.
        rows += "".join(book.row([C(None, str(i * i))]) for i in range(3000))
    elif way == "styles":
        more["xl/styles.xml"] = "<styleSheet>"
    elif way == "styles that are not there":
        more["xl/styles.xml"] = None
    write_book(path, first + rows, book.shared_xml(), parts=more)
    if way == "shared":
        write_book(path, first + rows, book.shared_xml() + "<si>", parts=more)
    elif way == "checksum":
        content = bytearray(path.read_bytes())
        place = content.find(b"PK\x01\x02")
        while b"sheet1" not in content[place : place + 80]:
            place = content.find(b"PK\x01\x02", place + 1)
        content[place + 16] ^= 1
        path.write_bytes(content)


WAYS = ("checksum", "xml", "a character", "depth", "names", "prefixes", "tag", "styles", "styles that are not there", "shared")  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sample(4)
def test_what_is_damaged_behind_the_first_row_ends_in_one_sentence(tmp_path, way):
    path = tmp_path / "t.xlsx"
    damaged(path, way)
    question = prepare_counts(open_source(f"excel:{path}#S"), PrivacyUnit.row(), kind="rows")
    with pytest.raises(DataSourceError, match=CONSTANT) as caught:
        question.run()
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("content", ["no archive", "definitions", "no links", "no workbook"])
def test_what_is_no_workbook_is_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "t.xlsx"
    bomb = f'<!DOCTYPE w [<!ENTITY a "aaaaaaaaaa">]><workbook xmlns="{MAIN}">&a;</workbook>'
    gone = {
        "definitions": {"xl/workbook.xml": bomb},
        "no links": {"_rels/.rels": None},
        "no workbook": {"xl/workbook.xml": None},
    }
    write_book(path, "", parts=gone.get(content))
    if content == "no archive":
        path.write_bytes(b"\xd0\xcf\x11\xe0" * 100)
    with pytest.raises(DataSourceError, match="must be a workbook without a password"):
        open_source(f"excel:{path}#S")


def test_more_shared_texts_than_memory_is_given_to(tmp_path, monkeypatch):
    path = tmp_path / "t.xlsx"
    write_table(path, [["user"], *([f"u{i}"] for i in range(30))])
    question = prepare_counts(open_source(f"excel:{path}#S"), PrivacyUnit.row(), kind="rows")
    assert question.run().values.tolist() == [30]
    for bound in ("MOST_SHARED", "LARGEST_SHARED"):
        with monkeypatch.context() as patch:
            patch.setattr(workbook, bound, 20)
            with pytest.raises(DataSourceError, match=CONSTANT):
                question.run()


def test_a_first_row_that_changed_after_the_source_was_opened(tmp_path):
    path = tmp_path / "t.xlsx"
    write_table(path, [["user", "item"], ["u", "i"]])
    question = prepare_counts(open_source(f"excel:{path}#S"), PrivacyUnit.row(), kind="rows")
    write_table(path, [["item", "user"], ["u", "i"]])
    with pytest.raises(DataSourceError, match=CONSTANT):
        question.run()


HEAVY = {
    "far away": '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
    "cells": "<row>" + "<c/>" * 100_000 + "</row>",
    "digits": f"<row><c><v>{'9' * 1_000_000}.5</v></c></row>",
    "text": f'<row><c t="str"><v>{"x" * 5_000_000}</v></c></row>',
    "shared often": "<row>" + '<c t="s"><v>3</v></c>' * 16_000 + "</row>",
    "attributes": "<row>" + f"<c s='{'9' * 500_000}' t='n'><v>1</v></c>" * 20 + "</row>",
    "rows": "<row/>" * 60_000,
    "escapes": f'<row><c t="str"><v>{"_x0041_" * 140_000}</v></c></row>',
}  # fmt: skip


@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.sample(4)
def test_one_heavy_row_ends_nothing_and_costs_little(tmp_path, name):
    book = Book()
    usual = [[C(None, "u", "str")]] * 30
    rows = (
        book.row(HEAD, 1)
        + "".join(map(book.row, usual))
        + HEAVY[name]
        + "".join(map(book.row, usual))
    )
    book.shared += ["a", "b", "x" * 900_000]
    write_book(tmp_path / "t.xlsx", rows, book.shared_xml())
    began = time.process_time()
    found = rows_of(open_source(f"excel:{tmp_path / 't.xlsx'}#S"))
    assert found[("u", None, None)] == 60
    assert found.total() == 60 + (name in {"digits", "escapes", "attributes"})
    assert time.process_time() - began < 5


@pytest.mark.slow
def test_memory_does_not_grow_with_what_a_workbook_unpacks_to(tmp_path):
    path = tmp_path / "t.xlsx"
    book = Book()
    first = book.row(HEAD, 1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED):
        pass
    write_book(
        path,
        first + ("<row>" + "<c t='str'><v>" + "x" * 1000 + "</v></c></row>") * 300_000,
        book.shared_xml(),
    )
    assert path.stat().st_size < 3_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    question = prepare_counts(open_source(f"excel:{path}#S"), PrivacyUnit.row(), kind="rows")
    assert question.run().values.tolist() == [300_000]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000 * (
        1024 if sys.platform == "darwin" else 1
    )


# ---- twins --------------------------------------------------------------------------------------------------------------


def counted(path, rows):
    return (
        prepare_counts(
            open_source(put(path, rows)), PrivacyUnit.row(), kind="rows", where="user IS NOT NULL"
        )
        .run()
        .values.tolist()
    )


def test_a_reader_of_numbers_that_raises_is_convicted(tmp_path, monkeypatch):
    """As openpyxl does: one bad cell ends the release."""
    path = tmp_path / "t.xlsx"
    usual, bad = [[C("A2", "1.5")]] * 20, [C("B2", "abc")]
    monkeypatch.setattr(workbook.CellRules, "write", lambda self, cell, timed: str(float(cell.text)).encode() if cell.kind == "n" else cell.text.encode())  # fmt: skip
    assert counted(path, usual) == [20]
    source = open_source(put(path, [*usual, bad]))
    with pytest.raises(DataSourceError, match=CONSTANT):
        rows_of(source)
    monkeypatch.undo()
    assert rows_of(open_source(put(path, [*usual, bad]))).total() == 21


def test_a_reader_that_counts_columns_from_the_leftmost_cell_is_convicted(tmp_path, monkeypatch):
    """As calamine does: a cell in front of all others moves them."""
    path = tmp_path / "t.xlsx"
    head = [C("B1", "user", "str"), C("C1", "item", "str")]
    usual, other = [[C("B2", "u", "str")]] * 20, [C("A2", "9")]
    right = rows_of(open_source(put(path, usual, head)))
    assert rows_of(open_source(put(path, [*usual, other], head))) == right
    rows = workbook.rows_of_sheet

    def dense(*given):
        found = list(rows(*given))
        least = min(column for cells in found for column in cells)
        return iter(
            [{column - least + 1: cell for column, cell in cells.items()} for cells in found]
        )

    monkeypatch.setattr(workbook, "rows_of_sheet", dense)
    assert rows_of(open_source(put(path, usual, head))) == right
    source = open_source(put(path, [*usual, other], head))
    with pytest.raises(DataSourceError, match=CONSTANT):
        rows_of(source)


def test_a_reader_that_believes_the_dimension_is_convicted(tmp_path, monkeypatch):
    """As openpyxl does: where a sheet says that it ends is a word about all rows."""
    path = tmp_path / "t.xlsx"
    usual = [[C("A2", "u", "str")]] * 20
    assert counted(path, usual) == [20]
    rows = workbook.rows_of_sheet
    monkeypatch.setattr(workbook, "rows_of_sheet", lambda *given: iter(list(rows(*given))[:2]))
    assert counted(path, usual) == [1]


def test_types_by_the_majority_of_a_column_are_convicted(tmp_path, monkeypatch):
    """As frames do: one date makes dates of numbers."""
    path = tmp_path / "t.xlsx"
    usual = [[C("A2", "45351")]] * 20
    one = [C("A2", "45351", None, "1")]
    assert rows_of(open_source(put(path, [*usual, one]))) == Counter({("45351", None, None): 20, ("2024-02-29", None, None): 1})  # fmt: skip
    formats = cells_module.CellRules._format_of
    seen = []

    def joint(self, style):
        seen.append(formats(self, style))
        return "date" if "date" in seen else "number"

    monkeypatch.setattr(cells_module.CellRules, "_format_of", joint)
    assert rows_of(open_source(put(path, [one, *usual]))) == Counter(
        {("2024-02-29", None, None): 21}
    )
    assert lines_module.LONGEST == workbook.LONGEST


# ---- whose a row is -----------------------------------------------------------------------------------------------------

# What a cell of the column of units is, and what stands for it in a CSV file.
PEOPLE = {
    "7": (C(None, "7"), "7"),
    "7.0": (C(None, "7.0"), "7"),
    "7E0": (C(None, "7E0"), "7"),
    "text 7": (C(None, "7", "share"), "7"),
    "text 7.0": (C(None, "7.0", "share"), "7.0"),
    "text 07": (C(None, "07", "share"), "07"),
    "text 7 blank": (C(None, "7 ", "share"), "7 "),
    "truth": (C(None, "1", "b"), "true"),
    "text true": (C(None, "true", "share"), "true"),
    "text TRUE": (C(None, "TRUE", "share"), "TRUE"),
    "1": (C(None, "1"), "1"),
    "date": (C(None, "45351", None, "1"), "2024-02-29"),
    "date and midnight": (C(None, "45351", None, "2"), "2024-02-29"),
    "date and noon": (C(None, "45351.5", None, "2"), "2024-02-29 12:00:00"),
    "number of that day": (C(None, "45351"), "45351"),
    "text date": (C(None, "2024-02-29", "share"), "2024-02-29"),
    "error": (C(None, "#N/A", "e"), ""),
}
# Which of them are one person, in the order in which they stand above; who is in none is nobody.
ONE_PERSON = {
    None: "aaaabcdeefghhijh ",
    "text": "aaaabcdeefghhijh ",
    "integer": "aaaaaaa   b   c  ",
    "double": "aaaaaaa   b   c  ",
    "decimal(9,2)": "aaaaaaa   b   c  ",
    "boolean": "       aaaa      ",
    "date": "           aa  a ",
}


@pytest.mark.parametrize("declared", ONE_PERSON)
def test_whose_a_row_is_says_the_declared_type(tmp_path, declared):
    """A cell is a text by a rule of its own; whose row it is follows as if that stood in a CSV file."""
    form = CsvFormat() if declared is None else CsvFormat(types={"user": declared})
    book, lines = Book(), ["user,item"]
    rows = [book.row([C(None, "user", "share"), C(None, "item", "share")], 1)]
    for place, (cell, text) in enumerate(PEOPLE.values()):
        rows.append(book.row([cell, C(None, f"c{place}", "share")], place + 2))
        lines.append(f"{text},c{place}")
    write_book(tmp_path / "t.xlsx", "".join(rows), book.shared_xml())
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    person = dict(zip(PEOPLE, ONE_PERSON[declared], strict=True))
    for source in (f"excel:{tmp_path / 't.xlsx'}#S", tmp_path / "t.csv"):
        counted = count_units(source, form)
        assert counted == len(set(person.values()) - {" "}), source
    for one in set(person.values()):
        rows_of_one = [
            row for row, name in zip(rows[1:], PEOPLE, strict=True) if person[name] == one
        ]
        write_book(tmp_path / "t.xlsx", "".join([rows[0], *rows_of_one]), book.shared_xml())
        counted = count_units(f"excel:{tmp_path / 't.xlsx'}#S", form)
        assert counted == (one != " "), one


def count_units(source, form):
    session = Session(source, unit=PrivacyUnit("user"), csv=form, entropy=Seeded(1))
    return session.count_distinct_units(epsilon=10**4).estimate
