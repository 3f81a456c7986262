"""A record whose text has line breaks is no row, and its inner lines are none: whoever wrote it invents nobody."""

from __future__ import annotations

from collections import Counter

import pytest

from sordino import CsvFormat, PrivacyUnit, Seeded, Session
from sordino.errors import InvalidParameter
from sordino.questions import prepare_counts
from sordino.sources import open_source
from support.text_files import packed, rows_of

RAGGED = CsvFormat(ragged=True)
PLAIN = "".join(f"p{i},1,fine\n" for i in range(100))
SURE = {"epsilon": 1e6}


def counted(path, form=None, unit="user"):
    source = open_source(path, csv=form)
    rows = prepare_counts(source, PrivacyUnit.row(), kind="rows").run().values[0]
    units = prepare_counts(source, PrivacyUnit(unit), kind="units").run().values[0]
    return int(rows), int(units)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=repr)
@pytest.mark.parametrize("lines", [2, 3, 4, 30])
@pytest.mark.each_value
def test_a_text_with_line_breaks_invents_nobody(tmp_path, suffix, end, lines):
    path = tmp_path / f"m.csv{suffix}"
    text = end.join(f"line {number}" for number in range(lines))
    records = "".join(f'u{i},3,"{text}"{end}' for i in range(100))
    content = f"user,stars,text{end}{PLAIN}{records}".encode()
    path.write_bytes(packed(suffix, content) if suffix else content)
    assert counted(path) == (100, 100)
    # The twin: every line that has no quote is a row, and its text is somebody.
    assert (counted(path, RAGGED) != (100, 100)) == (lines > 2)


def test_one_record_more_moves_no_figure_without_bound(tmp_path):
    """The text of one person, of a thousand lines: a thousand persons, and a sum beyond every cap."""
    path = tmp_path / "m.csv"
    found = {}
    for name, form in (("rule", CsvFormat()), ("twin", RAGGED)):
        for more in ("", 'pj,1,"a\n' + "".join(f"z{i},1000\n" for i in range(1000)) + 'b"\n'):
            path.write_text(f"user,x,text\n{PLAIN}{more}")
            with Session(
                path, unit=PrivacyUnit("user", max_rows=1), ledger=None, csv=form, entropy=Seeded(1)
            ) as session:
                total = session.sum(
                    column="x", cap=100_000, lower=0, numbers_share=0, **SURE
                ).estimate
            found[name, bool(more)] = (round(total, -1), counted(path, form)[1])
    assert found["rule", False] == found["rule", True]
    assert found["twin", True][1] - found["twin", False][1] == 1000
    assert found["twin", True][0] - found["twin", False][0] > 900_000


def test_lines_of_other_programs(tmp_path):
    """Footers, row names and preambles: what has another number of fields is dropped, a delimiter at the end is not."""
    path = tmp_path / "t.csv"
    path.write_text(
        'u,x\na,1\nb,2,\nc,3,,\nTotal\n\nSource: office, 2024, revised\nd\ne,\n,7\n"f,g",8,\n'
    )
    wanted = Counter([("a", "1"), ("b", "2"), ("e", None), (None, "7"), ("f,g", "8")])
    assert rows_of(open_source(path)) == wanted
    more = Counter([("c", "3"), ("Total", None), ("Source: office", " 2024"), ("d", None)])
    assert rows_of(open_source(path, csv=RAGGED)) == wanted + more


@pytest.mark.parametrize(
    "form",
    [
        CsvFormat(header=False, columns=("u", "x")),
        CsvFormat(header=False, columns=("u", "x"), skip_lines=2),
    ],
)
@pytest.mark.parametrize(
    "first", ["u,x", "a,1,2,3", '"', "", "\0", "\r", "a" * (1 << 21)], ids=lambda text: text[:4]
)
@pytest.mark.each_value
def test_without_a_header_the_first_line_decides_nothing(tmp_path, form, first):
    """Neither a name nor a number of fields is taken from it."""
    path = tmp_path / "t.csv"
    path.write_text(
        "".join(f"skip{number},\r{number}\n" for number in range(form.skip_lines))
        + f"{first}\nb,2\n"
    )
    source = open_source(path, csv=form)
    assert dict(source.columns) == {"u": "VARCHAR", "x": "VARCHAR"}
    assert rows_of(source)["b", "2"] == 1
    assert rows_of(source).total() == (2 if first == "u,x" else 1)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16-le"])
@pytest.mark.parametrize("skip", [0, 1, 3, 40])
@pytest.mark.each_value
def test_lines_are_skipped_whatever_they_hold(tmp_path, suffix, encoding, skip):
    path = tmp_path / f"t.csv{suffix}"
    hostile = ["", '"', "secret\r1,2", "\0", "x" * (1 << 12), "u,x", "u,u"]
    lines = [hostile[number % len(hostile)] for number in range(skip)]
    content = "\n".join([*lines, "u,x", "a,1", ""]).encode(encoding)
    for number in range(2):
        (tmp_path / f"{number}{path.name}").write_bytes(
            packed(suffix, content) if suffix else content
        )
    form = CsvFormat(skip_lines=skip, encoding=encoding)
    assert rows_of(open_source(tmp_path, csv=form)) == Counter({("a", "1"): 2})


def test_a_file_that_is_skipped_whole(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("secret,1\nmore,2")
    with pytest.raises(Exception, match="is empty, or its first line is") as error:
        open_source(path, csv=CsvFormat(skip_lines=10**18))
    assert "secret" not in str(error.value)
    form = CsvFormat(skip_lines=10**18, header=False, columns=("u", "x"))
    assert not rows_of(open_source(path, csv=form))


@pytest.mark.parametrize(
    "form", [{"skip_lines": -1}, {"skip_lines": 1.5}, {"skip_lines": True}, {"ragged": 1}], ids=str
)
def test_what_is_no_option_is_refused(form):
    with pytest.raises(InvalidParameter, match=f"CsvFormat.{next(iter(form))} must be"):
        CsvFormat(**form)


def test_what_is_left_out_is_said(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("u,x\na,1\n")
    assert (
        "too few or too many fields (text with line breaks: use Parquet)"
        in open_source(path).dropped
    )
    assert "fields" not in open_source(path, csv=RAGGED).dropped
    assert "quote" not in open_source(path, csv=CsvFormat(quote="")).dropped
