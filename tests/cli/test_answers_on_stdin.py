"""`sordino above -`: each line gets its verdict at once; labels and fields are public, answers are not, whatever stands there."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, strategies as st

from sordino.errors import DataSourceError
from sordino.sources import Answer, answer_lines
from sordino.sources.csv import answer_lines as answer_lines_module
from sordino.sources.csv.answer_lines import read_number
from support.release_lines import latest

LINE = ("above", "-", "--threshold", 100, "-c", 2, "--epsilon", 4, "--sensitivity", 1, "--monotone")
FREE = (*LINE, "--no-ledger")
FIXED = ("--synthetic", "--seed", 7, "--no-quiet")


def test_every_line_gets_a_verdict(told, sordino, account):
    result = told("a,-1000000\nb,1000000\nc,-1000000\n", *LINE, *account)
    assert (result.code, result.err) == (0, "")
    assert [(line["label"], line["above"]) for line in result.lines] == [
        ("a", False),
        ("b", True),
        ("c", False),
    ]
    first, second, third = result.lines
    assert list(first) == [
        "label",
        "above",
        "gap",
        "branch",
        "charged",
        "adjacency",
        "simulated",
        "id",
    ]
    assert (first["gap"], first["branch"], third["charged"]) == (None, None, 0.0)
    assert abs(second["gap"] - 999_900) < 100
    assert {line["adjacency"] for line in result.lines} == {"add-remove"}
    shown = sordino("ledger", "show", *account).json
    assert shown["spent"] == pytest.approx(sum(line["charged"] for line in result.lines), abs=1e-8)
    assert (shown["rows"][0]["label"], shown["rows"][0]["state"]) == ("watch", "settled")
    detail = shown["rows"][0]["detail"]
    assert detail == {
        "threshold": "100",
        "positives": 2,
        "adaptive": False,
        "sensitivity": "1",
        "monotone": True,
        "source": "stdin",
    }


def test_it_stops_when_enough_was_found_without_reading_on(told, sordino, account):
    result = told("a,1e6\nb,1e6\nc,1e6\n" + "d,0\n" * 1000, *LINE, *account, size=6)
    assert (result.code, result.err) == (0, "")
    assert [line["label"] for line in result.lines] == ["a", "b"]
    assert result.left > 3900
    assert sordino("ledger", "show", *account).json["spent"] == pytest.approx(4, abs=1e-4)


def test_other_formats(told):
    text = 'a,-1000000\n"b; ""c""",1e6\n\x1b[31m,-9e9\n'
    rows = list(csv.reader(io.StringIO(told(text, *FREE, "--format", "csv").out)))
    assert rows[0] == ["label", "above", "gap", "branch", "charged", "adjacency", "simulated", "id"]
    assert [row[:2] for row in rows[1:]] == [["a", "no"], ['b; "c"', "yes"], ["\\x1b[31m", "no"]]
    odd = told("a\rb,-9e9\n", *FREE, "--format", "csv").out
    assert list(csv.reader(io.StringIO(odd, newline="")))[1][:2] == ["a\\rb", "no"]
    table = told(text, *LINE, "--format", "table", *FIXED).out.splitlines()
    assert table[0].split() == ["above", "gap", "label"]
    assert table[1].split() == ["no", "a"]
    assert "\\x1b[31m" in table[3]
    assert table[4].startswith("Asked: 3. Spent: epsilon ")
    assert "SIMULATED" in table[5]
    semicolons = told(
        "é;1e6\n".encode("latin-1"), *FREE, "--delimiter", ";", "--encoding", "latin-1"
    )
    assert [line["label"] for line in semicolons.lines] == ["é"]


def test_counts_have_whole_gaps(told):
    assert told("a,1e6\n", *FREE, "--step", 1).lines[0]["gap"].is_integer()
    assert told("a,1e6\n", *FREE, "--step", 3).code == 2


def test_the_adaptive_one(told):
    result = told("a,1e6\n" * 9, *FREE, "--adaptive")
    assert len(result.lines) > 2
    assert {line["branch"] for line in result.lines} == {0}


def test_no_input_costs_nothing(told, sordino, account):
    assert told("", *LINE, *account).out == ""
    assert told("\n\r\n\n", *LINE, *account).out == ""
    assert sordino("ledger", "show", *account).json["spent"] == 0


NOTHING = [
    b"",
    b" ",
    b"nan",
    b"NaN",
    b"inf",
    b"-inf",
    b"Infinity",
    b"1e999",
    b"-1e999",
    b"twelve",
    b"1_0",
    b"0x10",
    b"1e",
    b".",
    b"--1",
]
NOTHING += [
    "\u0661".encode(),
    b"\xff\xfe",
    b"1\x000",
    b"\x00",
    b'"',
    b'"12',
    b'12"',
    b'""',
    b"1 2",
    b"9" * 5000,
    b"9" * 3_000_000,
]
NOTHING += [b"1,2", b"1,5,", b",", b'x",5', b'"1,5"', b"1" + b"0" * 2_000_000 + b","]


@pytest.mark.parametrize("what", NOTHING, ids=lambda what: ascii(what[:12]))
@pytest.mark.sample(10)
def test_an_answer_that_is_none_is_an_ordinary_one_below(told, what):
    def run(answer):
        return told(b"a,0\nb," + answer + b"\nc,-7\nd,1e6\n", *LINE, *FIXED)

    odd, plain = run(what), run(b"-1e9")
    assert (odd.code, odd.out, odd.err) == (plain.code, plain.out, plain.err)
    assert odd.code == 0
    assert len(odd.lines) == 4


def test_numbers_are_read_as_people_and_programs_write_them():
    for text, value in (
        (b" 5\t", 5),
        (b'"5"', 5),
        (b"+.5e1", 5),
        (b"5.", 5),
        (b"-0", 0),
        (b"1e308", 1e308),
        (b"0.1", 0.1),
    ):
        assert list(answer_lines(io.BytesIO(b"a," + text + b"\n").read1)) == [[Answer("a", value)]]


REFUSED = {
    "no delimiter": (b"b", "Line 3 must begin with a label, bare or in quotes, and a delimiter"),
    "an open quote in the label": (b'"b,1', "Line 3 must begin with a label"),
    "a delimiter in the label": (b'"b, c",1', "Line 3 must begin with a label"),
    "a quote that does not close": (b'"b"",1', "Line 3 must begin with a label"),
    "a quote in the label": (b'b"c,1', "Line 3 must begin with a label"),
    "more than one quoted text": (b'"b"c,1', "Line 3 must begin with a label"),
    "a label that is no text": (b"\xff,1", "Line 3 must have a label in utf-8"),
    "a label without end": (b"x" * 2_000_000, "Line 3 must begin with a label"),
}


@pytest.mark.parametrize(("line", "words"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("size", [1 << 16, 5])
@pytest.mark.each_value
def test_labels_and_fields_are_public_and_refused_by_line(
    told, sordino, account, line, words, size
):
    if size == 5 and len(line) > 1000:
        size = 4096
    result = told(b"a,-1e9\n\n" + line + b"\nc,1\n", *LINE, *account, size=size)
    assert result.code == 4
    assert result.err.startswith(f"Error: {words}")
    assert result.err.endswith("It was not answered, and the charge stays.\n")
    assert [row["label"] for row in result.lines] == ["a"], "what came before was answered"
    assert sordino("ledger", "show", *account).json["spent"] == pytest.approx(4, abs=1e-4)


def test_a_refusal_does_not_depend_on_an_answer(told):
    """The same public mistake after other private answers: the same words."""
    results = [
        told(b"a," + answer + b"\nb\n", *LINE, *FIXED)
        for answer in (b"5", b"nan", b'"', b"1,2", b"9" * 2_000_000)
    ]
    assert len({(result.code, result.err) for result in results}) == 1


@pytest.mark.parametrize("label", [b'"a""', b'"a', b'a"', b'"a"b', b'"'])
def test_a_label_with_an_open_quote_never_reaches_what_is_private(told, label):
    """Read as CSV, the quote closes in the answer: it would be printed, and whether the line is refused would depend on it."""
    said = set()
    for answer in (b'x",5', b"5", b'"', b'",', b"canary", b'canary",7'):
        result = told(label + b"," + answer + b"\nb,1\n", *LINE, *FIXED)
        said.add((result.code, result.out, result.err))
    assert len(said) == 1
    [(code, out, err)] = said
    assert (code, out) == (4, "")
    assert "Error: Line 1 must begin with a label" in err
    assert "canary" not in err


def test_what_a_comma_in_an_answer_does_is_said_always_or_never(told):
    results = [told(b"a," + answer + b"\n", *LINE, *FIXED) for answer in (b"5", b"1,5", b"")]
    assert len({result.err for result in results}) == 1
    assert "1,5 with a comma is none" in results[0].err


OF_TABLES = (
    ("--item", "x"),
    ("--user", "x"),
    ("--where", "x = 1"),
    ("--assume-public",),
    ("--measure-share", "0.5"),
    ("--null", "NA"),
    ("--quote", "none"),
    ("--skip-lines", 1),
    ("--no-header", "--columns", "a,b"),
    ("--ragged",),
)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *((options, f"{options[0]} is for a table.") for options in OF_TABLES),
        (("--sensitivity", 0), "Sensitivity.bound must be"),
        (("-c", 0), "SparseVector.positives must be"),
        (("--epsilon", -1), "SparseVector.epsilon must be"),
        (("--correction", "optimal"), "correction_run"),
        (("--delimiter", "ab"), "delimiter"),
        (("--delimiter", "-"), "could stand in a number"),
        (("--delimiter", "n"), "could stand in a number"),
        (("--encoding", "klingon"), "encoding"),
        (("--seed", 3), "needs --synthetic"),
    ],
)
@pytest.mark.sample(2)
def test_public_mistakes_cost_nothing_and_read_nothing(told, sordino, account, options, words):
    result = told("a,1\n", *latest(*LINE, *options, *account))
    assert (result.code, result.out, result.left) == (2, "", 4)
    assert words in result.err
    assert sordino("ledger", "show", *account).json["spent"] == 0


def test_the_sensitivity_and_the_adjacency_are_said(told, account):
    missing = told("a,1\n", *LINE[:8], "--no-ledger")
    assert (missing.code, missing.left) == (2, 4)
    assert "--sensitivity must say" in missing.err
    other = told("a,1\n", *LINE[:-1], "--adjacency", "replace-one", *account)
    assert (other.code, other.left) == (5, 4)
    small = told("a,1\n", *latest(*LINE, "--epsilon", 11, "--yes-i-mean-it", *account))
    assert (small.code, small.left) == (3, 4)


lines = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from([b"a", b"", b'"x,""y"', "żó".encode()]),
            st.sampled_from([b"1", b" -2.5", b'"3"', b"", b'q"', b"\xff"]),
        ).map(b",".join),
        st.just(b""),
        st.sampled_from([b"odd", b"a,1,2", b'"a,1']),
    ),
    max_size=8,
)


@given(lines, st.sampled_from([b"\n", b"\r\n"]), st.booleans(), st.integers(1, 30))
def test_pieces_do_not_matter(rows, end, last, size):
    text = b"\xef\xbb\xbf" + end.join(rows) + (end if last else b"")

    def read(piece):
        source, answers = io.BytesIO(text), []
        try:
            for some in answer_lines(lambda most: source.read1(min(most, piece))):
                answers += [(label, None if math.isnan(value) else value) for label, value in some]
        except DataSourceError as error:
            answers.append(str(error))
        return answers

    assert read(size) == read(1 << 16)


LABELS = [
    b"a",
    b'"x,""y"',
    b"",
    b"\xff",
    b'"open',
    b'q"',
    b"x" * 11,
    b"x" * 12,
    b"x" * 13,
    b"x" * 17,
    b"x" * 20,
    b'"' + b"y" * 10 + b'"',
    b'"' + b"y" * 11 + b'"',
]
ANSWERS = [
    b"5",
    b"",
    b'"5"',
    b"nan",
    b"\x00",
    b"\r",
    b"\xef",
    b" " * 10 + b"7",
    *(b"0" * n + b"7" for n in range(5, 16)),
    b"0" * 40,
]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(LABELS),
            st.sampled_from(ANSWERS),
            st.sampled_from(ANSWERS),
            st.booleans(),
        ),
        max_size=3,
    ),
    st.tuples(st.booleans(), st.sampled_from([b"\n", b"\r\n"]), st.booleans()),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
)
def test_how_long_an_answer_is_changes_no_label_no_refusal_and_no_number(rows, shape, sizes):
    """Lines around the longest that are kept, of two inputs with other answers, in other pieces: what is public comes out the same."""
    mark, end, last = shape

    def read(which, size):
        lines = [label + b"," + answers[which] + b",third" * more for label, *answers, more in rows]
        source = io.BytesIO(b"\xef\xbb\xbf" * mark + end.join(lines) + end * last)
        found, refused = [], None
        with mock.patch.object(answer_lines_module, "LONGEST", 12):
            try:
                for some in answer_lines(lambda most: source.read1(min(most, size))):
                    found += some
            except DataSourceError as error:
                refused = str(error)
        return [answer.label for answer in found], refused, [repr(answer.value) for answer in found]

    one, other, again = read(0, sizes[0]), read(1, sizes[1]), read(0, sizes[1])
    assert one[:2] == other[:2]
    assert one == again
    for label, value, row in zip(one[0], one[2], rows, strict=False):
        assert len(row[0]) <= 12, "a longer label is refused"
        # All that stands behind the label is the answer: with a third column it is no number.
        answer = row[1] + b",third" * row[3]
        short = len(row[0]) + 1 + len(answer.removesuffix(b"\r")) <= 12
        assert value == (repr(read_number(answer)) if short else "nan"), label


def test_memory_is_bounded_whatever_comes():
    def endless(pieces):
        yield b"a,"
        for _ in range(pieces):
            yield b"9" * (1 << 16)
        yield b"\nb,5\n"

    source = endless(1000)
    tracemalloc.start()
    answers = [answer for some in answer_lines(lambda _: next(source, b"")) for answer in some]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [label for label, _ in answers] == ["a", "b"]
    assert peak < 8 << 20


# ---- a real pipe -----------------------------------------------------------------------------------------------------------


def started(*arguments, **streams):
    command = [str(Path(sys.executable).with_name("sordino")), *map(str, arguments)]
    return subprocess.Popen(
        command,
        **(
            {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            | streams
        ),
    )


@pytest.fixture
def child():
    """Start the command; it is ended after the test by its own id."""
    running = []

    def start(*arguments, **streams):
        running.append(started(*arguments, **streams))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_each_verdict_comes_before_the_next_answer_is_sent(child, sordino, account):
    process = child(*LINE, *account)
    for label, answer, above in (
        ("a", -1e9, False),
        ("b", 1e9, True),
        ("c", math.nan, False),
        ("d", 1e9, True),
    ):
        process.stdin.write(f"{label},{answer}\n".encode())
        process.stdin.flush()
        line = json.loads(
            process.stdout.readline()
        )  # would wait for ever for a verdict that is held back
        assert (line["label"], line["above"]) == (label, above)
    assert process.wait(60) == 0, "enough was found: it ends though the pipe is open"
    assert process.stderr.read() == b""
    assert sordino("ledger", "show", *account).json["rows"][0]["state"] == "settled"


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
@pytest.mark.sample(4)
def test_a_stream_that_is_killed_leaves_its_full_reservation(child, sordino, account, name):
    process = child(*LINE, *account)
    process.stdin.write(b"a,-1e9\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["above"] is False
    os.kill(process.pid, getattr(signal, name))
    out, err = process.communicate(timeout=60)
    assert out == b""
    if name != "SIGKILL":
        assert process.returncode == 130
        assert (
            err.strip()
            == b"Interrupted. Nothing more is released; whatever was charged stays charged."
        )
    shown = sordino("ledger", "show", *account).json
    assert shown["spent"] == pytest.approx(4, abs=1e-4)
    assert shown["rows"][0]["state"] == "drawn"


def test_a_reader_that_leaves_is_no_error_and_leaves_the_charge(child, sordino, account):
    process = child(*LINE, *account)
    process.stdin.write(b"a,-1e9\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    process.stdin.write(b"b,-1e9\n")
    process.stdin.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    assert sordino("ledger", "show", *account).json["spent"] == pytest.approx(4, abs=1e-4)
    process.stdin = process.stdout = None


def test_a_closed_stdin_is_refused_before_the_charge(sordino, account):
    command = " ".join(
        f"'{part}'" for part in (Path(sys.executable).with_name("sordino"), *LINE, *account)
    )
    done = subprocess.run(
        ["bash", "-c", f"{command} <&-"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (
        2,
        "Error: stdin must be open: it brings the answers.\n",
    )
    assert sordino("ledger", "show", *account).json["spent"] == 0


def test_a_full_disk_at_stdout_is_said(child):
    with Path("/dev/full").open("w") as full:
        process = child(*FREE, stdout=full)
        _, err = process.communicate(b"a,1\n", timeout=60)
    assert process.returncode == 4
    assert b"could not be written to stdout" in err
