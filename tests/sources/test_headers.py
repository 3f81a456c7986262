"""What a header line decides is decided by itself: no row behind it, however lines end, is read for a name."""

from __future__ import annotations

import codecs
import io

import pytest

from sordino.errors import DataSourceError, InvalidParameter, UnsafePredicate
from sordino.questions import PrivacyUnit, prepare_counts
from sordino.questions.records import open_record_lines, open_scores
from sordino.sources import CsvFormat, open_source
from sordino.sources.csv import header as header_module
from sordino.sources.csv.header import check_column
from sordino.sources.csv.lines import LONGEST
from sordino.sources.csv.plink import PLINK_COLUMNS, open_plink_lines
from support.text_files import packed

NO_LINE = "must be one line"
# Whatever some program takes for the end of a line, and is none here.
ENDS = [
    "\r",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x1f",
    "\x85",
    "\u2028",
    "\u2029",
    "\0",
    "\r\r",
]
ONLY_HEADER = "u,x"
ROWS = [
    [],
    ["p1,5"],
    ["p1,5", "p2,6"],
    ["p1,5", "u,x"],
    ["p1,5", "p1,5", "p1,5"],
    ['p1,"5', 'p2,6"'],
    ['"p1","a\nb"'],
    ["p1,\ud7ff", "p\0,7"],
]
LONG = [f"p{number},{'7' * 999}" for number in range(1100)]
"""More than the 1 MiB that a line may have."""
ENCODINGS = {
    "utf-8": lambda text: text.encode(),
    "utf-8 with a mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "latin-1": lambda text: text.encode("latin-1"),
    "utf-16": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "utf-16-be": lambda text: text.encode("utf-16-be"),
}


def said(work):
    """Return what is said before the charge: nothing, or an error and its words."""
    try:
        work()
    except (DataSourceError, InvalidParameter) as error:
        return type(error), str(error)
    return None


def text_of(rows, end, last):
    return end.join([ONLY_HEADER, *rows]) + (end if last or not rows else "")


@pytest.mark.parametrize("end", ENDS, ids=repr)
@pytest.mark.parametrize("written", ENCODINGS)
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.each_value
def test_no_row_decides_about_a_file_whose_lines_end_otherwise(tmp_path, end, written, suffix):
    """Twin: the header was all up to the first LF, and cells of rows were its names."""
    path = tmp_path / f"t.csv{suffix}"
    form = CsvFormat(encoding=written.removesuffix(" with a mark"))
    found = set()
    for rows in ROWS:
        for last in (True, False):
            try:
                content = ENCODINGS[written](text_of(rows, end, last))
            except UnicodeEncodeError:
                continue
            path.write_bytes(packed(suffix, content) if suffix else content)
            found.add(said(lambda: open_source(path, csv=form)))
    if not found:
        # It is no character of this encoding.
        assert written == "latin-1"
        return
    assert len(found) == 1, found
    [(kind, words)] = found
    assert kind is DataSourceError
    assert NO_LINE in words
    assert "tr '\\r' '\\n'" in words
    assert "p1" not in words


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("end", ["\r", "\u2028"], ids=repr)
@pytest.mark.sample(3)
def test_how_many_rows_there_are_decides_nothing(tmp_path, suffix, end):
    """Twin: what was longer than 1 MiB was refused otherwise."""
    path, found = tmp_path / f"t.csv{suffix}", set()
    for rows in (LONG[:1], LONG):
        content = text_of(rows, end, last=True).encode()
        path.write_bytes(packed(suffix, content) if suffix else content)
        found.add(said(lambda: open_source(path)))
    assert len(found) == 1
    assert NO_LINE in next(iter(found))[1]


@pytest.mark.parametrize("delimiter", ["\x1e", "\t", "\x0b"], ids=repr)
def test_what_was_declared_may_stand_in_a_header(tmp_path, delimiter):
    path = tmp_path / "t.csv"
    path.write_bytes(f"u{delimiter}x\np1{delimiter}5\n".encode())
    assert list(open_source(path, csv=CsvFormat(delimiter=delimiter)).columns) == ["u", "x"]


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=repr)
@pytest.mark.parametrize("written", ENCODINGS)
@pytest.mark.each_value
def test_what_stands_behind_the_first_lf_decides_nothing(tmp_path, end, written):
    path = tmp_path / "t.csv"
    form = CsvFormat(encoding=written.removesuffix(" with a mark"))
    for rest in (
        "",
        "p1,5\r",
        "p1,5\rp2,6\r",
        "\0",
        "\r",
        "p" * (LONGEST + 9),
        'p1,"',
        "\u2028\x0b",
    ):
        try:
            path.write_bytes(ENCODINGS[written](ONLY_HEADER + end + rest))
        except UnicodeEncodeError:
            continue
        assert list(open_source(path, csv=form).columns) == ["u", "x"]


def readers(tmp_path):
    """Every other reader of a header, as functions of a content."""

    def file(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    def part(content):
        folder = tmp_path / "parts"
        folder.mkdir(exist_ok=True)
        (folder / "a.csv").write_bytes(b"u,x\n")
        (folder / "b.csv").write_bytes(content)
        return open_source(folder)

    unit = PrivacyUnit("u", adjacency="replace-one", max_rows=1)
    return {
        "part": part,
        "scores": lambda content: open_scores(file("s.csv", content), score="x", form=CsvFormat()),
        "stdin": lambda content: open_record_lines(
            io.BytesIO(content), CsvFormat(), unit, column="x"
        ),
    }


@pytest.mark.parametrize("reader", ["part", "scores", "stdin"])
@pytest.mark.parametrize("end", ["\r", "\u2028", "\x0b"], ids=repr)
@pytest.mark.each_value
def test_every_reader_of_a_header_refuses_it(tmp_path, reader, end):
    contents = [text_of(rows, end, last=True).encode("utf-8", "replace") for rows in ROWS]
    found = {
        said(lambda content=content: readers(tmp_path)[reader](content)) for content in contents
    }
    assert len(found) == 1
    assert NO_LINE in next(iter(found))[1]


def test_a_report_of_plink_is_no_other(tmp_path):
    path = tmp_path / "plink.tdt"
    for rows in ([], ["1 rs1 5 A G 3 4"], ["1 rs1 5 A G 3 4", "1 rs2 5 A G 3 4"]):
        path.write_bytes("\r".join([" ".join(PLINK_COLUMNS), *rows, ""]).encode())
        with pytest.raises(DataSourceError, match=NO_LINE):
            open_plink_lines(path, label="SNP", encoding="utf-8")


def test_nothing_of_a_damaged_file_is_told_by_its_rows(tmp_path):
    """The bytes behind a lone CR are private, packed or not: they are not even unpacked."""
    content = packed(".gz", ("u,x\r" + "".join(f"p{n},{n * n}\r" for n in range(9000))).encode())
    path = tmp_path / "t.csv.gz"
    words = set()
    for bytes_left in (len(content), len(content) - 5, len(content) // 2):
        path.write_bytes(content[:bytes_left])
        words.add(said(lambda: open_source(path)))
    assert len(words) == 1
    assert NO_LINE in next(iter(words))[1]


# ---- names -------------------------------------------------------------------------------------------------


def counted(path, where=None, form=None, **asked):
    source = open_source(path, csv=form)
    question = prepare_counts(source, PrivacyUnit.row(), where=where, **asked)
    return question.run()


@pytest.mark.parametrize("header", ["u,x,x,", ",u,,x,x", '"u","x","x",""', "u,x,y,y,,"])
def test_names_that_are_not_asked_for_block_nothing(tmp_path, header):
    path = tmp_path / "t.csv"
    names = next(iter([header_module.split_line(header, CsvFormat())]))
    path.write_text(
        header + "\n" + "".join(f"{','.join(f'{n}{i}' for i in range(len(names)))}\n" for n in "ab")
    )
    source = open_source(path)
    assert list(source.columns) == [name for name in names if name and names.count(name) == 1]
    for name in source.columns:
        place = names.index(name)
        with source.backend.scan([source.index(name, "item")]) as scan:
            answer = scan.ask(f"SELECT c{source.index(name, 'item')} AS c FROM rows ORDER BY 1")
            assert answer["c"].tolist() == [f"a{place}", f"b{place}"]
    for name in {name for name in names if not name or names.count(name) > 1}:
        with pytest.raises(InvalidParameter, match="a name that stands more than once"):
            source.index(name, "item")
        if name:
            with pytest.raises(InvalidParameter, match="a name that stands more than once"):
                source.predicate(f"{name} = 'a'")


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_a_header_without_the_delimiter_is_said_to_be_one(tmp_path, sign):
    path = tmp_path / "t.csv"
    path.write_text(f"customer{sign}country\n7{sign}DE\n")
    with pytest.raises(InvalidParameter) as error:
        open_source(path).index("country", "item")
    shown = {"\t": r"\t"}.get(sign, sign)
    assert (
        f"The header has no comma. This looks like a file with '{shown}': --delimiter '{shown}'"
        in str(error.value)
    )
    assert "Did you mean" not in str(error.value)
    open_source(path, csv=CsvFormat(delimiter=sign)).index("country", "item")


@pytest.mark.parametrize("first", ["sep=;", "SEP=;", '"sep=;"', "sep=,", "sep=\t"])
def test_a_note_to_excel_is_no_header(tmp_path, first):
    path = tmp_path / "t.csv"
    path.write_text(f"{first}\nu;x\n1;2\n")
    with pytest.raises(DataSourceError, match="--skip-lines 1"):
        open_source(path)
    assert list(open_source(path, csv=CsvFormat(skip_lines=1, delimiter=";")).columns) == ["u", "x"]


# ---- parts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("", "is empty"),
        ("\n", "is empty"),
        ("u,x,y\n", "3 columns, and .*a.csv has 2"),
        ("u,amount\n", "column 2 has one name in .*a.csv and another one in .*b.csv"),
        ("x,u\n", "column 1 has one name in .*a.csv and another one in .*b.csv"),
    ],
)
def test_parts_say_how_they_differ(tmp_path, other, words):
    (tmp_path / "a.csv").write_text("u,x\n1,2\n")
    (tmp_path / "b.csv").write_text(other)
    with pytest.raises(DataSourceError, match=words) as error:
        open_source(tmp_path)
    # It may be a row: a part whose header is missing begins with one.
    assert "amount" not in str(error.value)


def test_parts_may_write_one_header_in_several_ways(tmp_path):
    contents = ["u,x\n1,2\n", '"u","x"\r\n3,4\n', '\ufeffu,"x"\n5,6\n']
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.csv").write_bytes(content.encode())
    source = open_source(tmp_path)
    with source.backend.scan([0, 1]) as scan:
        assert sorted(scan.ask("SELECT c1 AS c FROM rows")["c"].tolist()) == ["2", "4", "6"]


@pytest.mark.parametrize("skipped", [1, 2])
def test_nothing_of_a_line_behind_skipped_ones_is_quoted(tmp_path, skipped):
    """If the number is wrong, the line that is taken for the header is a row."""
    path = tmp_path / "t.csv"
    path.write_text("u,item,v\nanna,hidden1,17.25\nbert,hidden2,18.5\ncora,hidden3,19\n")
    form = CsvFormat(skip_lines=skipped)
    source = open_source(path, csv=form)
    asked = [
        lambda: source.index("item", "item"),
        lambda: source.index("hidden", "item"),
        lambda: prepare_counts(source, PrivacyUnit("u"), kind="units"),
        lambda: prepare_counts(source, PrivacyUnit.row(), kind="rows", where="v > 3"),
        lambda: open_source(path, csv=CsvFormat(skip_lines=skipped, types={"v": "double"})),
        lambda: check_column("hidden", "column", ["anna", "hidden1", "17.25"], form),
    ]
    for ask in asked:
        with pytest.raises((InvalidParameter, UnsafePredicate)) as caught:
            ask()
        # The folder of a test has any number in its name.
        said = str(caught.value).replace(str(tmp_path), "")
        assert "--skip-lines" in said
        assert not any(word in said for word in ("anna", "bert", "hidden1", "hidden2", "17", "18"))
