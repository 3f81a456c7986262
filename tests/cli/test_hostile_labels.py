"""A label steers neither a terminal nor a spreadsheet, in whatever form it is written; JSON has it exactly."""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from ast import literal_eval

import polars as pl
import pytest
from hypothesis import example, given, strategies as st

from sordino.cli.stderr import say
from sordino.record import escape_controls
from sordino.record_text import format_csv_line

STEERING = (
    "\x1b[2J",  # clears a terminal
    "\x9b2J",
    "a\rb",
    "a\tb",
    "a\x07b",
    "a\x7fb",
    "\u202egpj.exe",  # turns the direction of what follows
    "\u2066x",
    "\u061cx",
    "a\u2028b",
    "a\u0085b",
    "\ufeffx",
    "x\U000e0041",
)
FORMULAS = (
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "=1",
    "\uff1d1+1",
    "-",
    "+49 30",
    "-1.5x",
    '=HYPERLINK("x")',
)
PLAIN = (
    "tea",
    "-5",
    "+5",
    "-1.5",
    "1,000",
    "-1e5",
    "a=b",
    "1-2",
    "\u00e4",
    "a\u00a0b",
    "\u3000",
    "a\u200db",
    "'x",
    "C:\\x",
    'a, "b"',
)


@pytest.mark.parametrize("label", STEERING)
def test_what_steers_is_spelled_out(label):
    written = format_csv_line([label, 1])
    assert not {unicodedata.category(c) for c in written} & {"Cc", "Cf", "Zl", "Zp", "Cs"}
    assert written == f"{escape_controls(label)},1"
    assert "\\" in written


@pytest.mark.parametrize("label", FORMULAS)
def test_a_formula_is_told_to_be_a_text(label):
    assert format_csv_line([label]).lstrip('"').startswith(f"'{label[0]}")


@pytest.mark.parametrize("label", PLAIN)
def test_other_texts_stay_as_they_are(label):
    assert format_csv_line([label]).strip('"').replace('""', '"') in {label, label.strip('"')}


TROUBLE = st.text(st.sampled_from("\\'=-+1xbu0tn\t\x1b\u202e\"a"), max_size=8)


def spell(label: str) -> str:
    """Return what CSV has of a label, an escape or an apostrophe among it."""
    return format_csv_line([label])


@given(label=TROUBLE, other=TROUBLE | st.none())
@example(label="=1", other="'=1")
@example(label="'=1", other="''=1")
@example(label="-1", other="'-1")
@example(label="\x1b", other="\\x1b")
@example(label="\\\x1b", other="\\\\x1b")
@example(label="\t", other="\\t")
@example(label="\u202e", other="\\u202e")
@example(label="\U000e0041", other="\\U000e0041")
def test_two_labels_are_never_one_cell(label, other):
    others = [spell(label)[1:], label.strip("'"), escape_controls(label)]
    for one in others if other is None else [*others, other]:
        assert (spell(one) == spell(label)) == (one == label)


@pytest.mark.parametrize("label", ["'tis", "C:\\x", "a\\b", "\\\\server", "'-5", "\\xg0", "'"])
def test_nothing_is_escaped_that_needs_none(label):
    assert spell(label) == label


@given(label=TROUBLE)
def test_a_cell_is_read_back_by_two_rules(label):
    """As the manual says them: the apostrophe, and then the backslashes."""
    (cell,) = next(csv.reader([spell(label)]))
    if re.match("'+[=+@-]", cell) and not re.fullmatch(r"'+[+-][0-9]+", cell):
        cell = cell[1:]
    if re.search(r"\\([tnr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})", cell):
        cell = re.sub(
            r"\\(\\|[tnr]|x..|u....|U........)", lambda found: literal_eval(f"'{found[0]}'"), cell
        )
    assert cell == label


def test_numbers_stay_as_they_are():
    assert format_csv_line([-1.5, -2, True, None]) == "-1.5,-2,yes,"


LABELS = (*STEERING, "=cmd|' /C calc'!A0", "@SUM(A1)")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(f"u{i}", label) for label in LABELS for i in range(300)]
    pl.DataFrame(rows, schema=["who", "item"], orient="row").write_parquet("t.parquet")
    return tmp_path


def bad(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"} and c != "\n"}


def test_in_every_form_of_a_release(sordino, shop):
    create = ("ledger", "create", "--ledger", "b.db", "--account", "a", "--epsilon", 100)
    assert sordino(*create, "--unit", "who", "--source", "t.parquet").code == 0
    ask = (
        "top",
        "t.parquet",
        "--item",
        "item",
        "--user",
        "who",
        "-k",
        len(LABELS),
        "--epsilon",
        5,
        "--assume-public",
    )
    pay = ("--ledger", "b.db", "--account", "a", "--keep")
    told = sordino(*ask, *pay, "--format", "json")
    assert told.code == 0, told.err
    assert not bad(told.out)
    assert {row["item"] for row in told.json["rows"]} == set(LABELS)
    key = told.json["id"]
    (shop / "r.json").write_text(told.out, encoding="utf-8")
    for form in ("table", "csv", "json"):
        seen = [
            sordino(*ask, *pay, "--format", form).out,
            sordino("ledger", "release", key, *pay[:4], "--format", form).out,
        ]
        file = f"out.{form}"
        assert sordino(*ask, *pay, "--format", form, "--output", file).code == 0
        seen.append((shop / file).read_text(encoding="utf-8"))
        for text in seen:
            assert not bad(text)
            assert form == "json" or not any(
                line.lstrip('"').startswith(("=", "@")) for line in text.splitlines()
            )
            assert len(text.splitlines()) >= len(LABELS)
        if form == "csv":
            assert all("'=cmd|" in text and "'@SUM" in text for text in seen)
    for form in ("table", "csv", "json"):
        shown = sordino("ledger", "show", *pay[:4], "--format", form)
        assert not bad(shown.out)
    page = sordino("report", "r.json", "--output", "r.html")
    assert page.code == 0, page.err
    assert not bad((shop / "r.html").read_text(encoding="utf-8")) & set(
        "\x1b\x9b\u202e\u2066\u061c\u2028"
    )


def test_in_the_files_of_a_study(tmp_path):
    import sordino as sd
    from study.shop import HEAD, put_shop

    release = """
[[release]]
kind = "top_k"
name = "best"
item = "product"
k = 3
domain = ["=cmd|x", "a\\u202eb", "a\\u001bb"]
epsilon = 2
"""
    sd.Study.load(put_shop(tmp_path, HEAD + release)).run(run_id="monday", output=tmp_path / "out")
    texts = {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "out").iterdir()}
    assert {"results.json", "best.csv", "report.html"} <= set(texts)
    assert not {name: bad(text) for name, text in texts.items() if bad(text)}
    assert "'=cmd|x" in texts["best.csv"]
    assert {row["item"] for row in json.loads(texts["results.json"])["releases"][0]["rows"]} == {
        "=cmd|x",
        "a\u202eb",
        "a\x1bb",
    }


def test_on_stderr(capfd):
    say("a\x1b[2J\u202eb\nc")
    assert capfd.readouterr().err == "a\\x1b[2J\\u202eb\nc\n"


def test_in_the_verdicts_of_a_stream(told):
    """`above -` writes each label as it comes."""
    lines = "".join(f"{label},1000\n" for label in ("\u202ex", "=cmd|x", "a\ufeff"))
    ask = (
        "above",
        "-",
        "--threshold",
        10,
        "-c",
        3,
        "--epsilon",
        5,
        "--sensitivity",
        1,
        "--monotone",
        "--no-ledger",
    )
    for form in ("csv", "table", "json"):
        result = told(lines, *ask, "--format", form)
        assert (result.code, result.err) == (0, "")
        assert len(result.out.splitlines()) >= 3
        assert not bad(result.out)
        assert ("'=cmd|x" in result.out) == (form == "csv")
