"""`sordino select`: candidates and labels are public, scores are not; what stands in a score moves nothing else."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from sordino.errors import DataSourceError
from sordino.questions import open_scores
from sordino.sources import CsvFormat
from support.release_lines import PAPERS, latest, paid, without

FREE = ("--epsilon", 1, "--sensitivity", 1, "--no-ledger")
TABLE = b'name,score,note\nsmall,5,x\n"big; ""bigger""",9000,"y ""z"""\nmiddle,"4000",\nnone,,\n'


@pytest.fixture
def select(sordino, tmp_path):
    def call(*flags, text=TABLE):
        path = tmp_path / "scores.csv"
        path.write_bytes(text)
        return sordino(
            *latest(
                "select",
                path,
                "--score",
                "score",
                "--epsilon",
                4,
                "--sensitivity",
                1,
                *paid(*flags),
            )
        )

    return call


def test_the_best_one_as_json(select):
    result = select("--label", "name")
    assert (result.code, result.err) == (0, "")
    assert result.json["rows"] == [{"rank": 1, "row": 2, "label": 'big; "bigger"'}]
    papers = {name: result.json[name] for name in ("epsilon", "adjacency", "unit", "max_rows")}
    assert papers == {
        "epsilon": 4.0,
        "adjacency": "add-remove",
        "unit": "as --sensitivity says",
        "max_rows": None,
    }
    assert without(result.json, "rows", "cost", *PAPERS) == {
        "release": "select",
        "method": "permute-and-flip",
        "mechanisms": ["PermuteAndFlip"],
        "score": "score",
        "sensitivity": 1.0,
        "monotone": False,
        "candidates": 4,
        "simulated": False,
        "exact": True,
    }


def test_other_methods(select):
    [row] = select("--method", "exponential", "--monotone").json["rows"]
    assert (row["row"], list(row)) == (2, ["rank", "row", "gap", "p_value"])
    assert row["gap"] > 4000
    assert row["p_value"] < 1e-6
    rows = select("-k", 3, "--label", "note", "--monotone").json["rows"]
    assert [(row["rank"], row["row"], row["label"]) for row in rows] == [
        (1, 2, 'y "z"'),
        (2, 3, ""),
        (3, 1, "x"),
    ]
    assert rows[0]["gap"] > 4000
    [row] = select("--method", "noisy-top-k").json["rows"]
    assert row["gap"] > 4000
    assert select("-k", 4).json["rows"][-1]["gap"] is None
    counts = select("-k", 2, "--step", 1).json
    assert counts["step"] == 1.0
    assert all(row["gap"].is_integer() for row in counts["rows"])
    [alone] = select("--method", "exponential", text=b"score\n1\n").json["rows"]
    assert (alone["row"], alone["gap"], alone["p_value"]) == (1, None, None)


def test_csv_and_table(select):
    rows = list(
        csv.DictReader(
            io.StringIO(
                select("--label", "name", "--format", "csv", "--synthetic", "--seed", 3).out
            )
        )
    )
    assert (rows[0].pop("adjacency"), rows[0].pop("unit")) == (
        "add-remove",
        "as --sensitivity says",
    )
    assert [without(row, *PAPERS) for row in rows] == [
        {"rank": "1", "row": "2", "label": 'big; "bigger"', "simulated": "yes"}
    ]
    table = select("--method", "exponential", "--format", "table", "--synthetic", "--seed", 3).out
    assert table.splitlines()[0].split() == ["rank", "row", "gap", "p_value"]
    assert "Spent: epsilon 4." in table
    assert "SIMULATED" in table
    assert "only the scores are private" in table
    assert float(table.splitlines()[1].split()[-1]) < 1e-6


def test_a_label_with_a_carriage_return_stays_one_field(select):
    out = select("--label", "name", "--format", "csv", text=b"name,score\na\rb,1\n").out
    assert [row["label"] for row in csv.DictReader(io.StringIO(out, newline=""))] == ["a\\rb"]


def test_it_is_charged_before_the_scores_are_read(select, sordino, account, tmp_path):
    assert select("--label", "name", "-k", 2, *account).code == 0
    shown = sordino("ledger", "show", *account).json
    assert (shown["spent"], shown["rows"][0]["label"]) == (4, "select")
    assert shown["rows"][0]["detail"] == {
        "score": "score",
        "label": "name",
        "k": 2,
        "sensitivity": "1",
        "monotone": False,
        "method": "noisy-top-k",
        "source": str(tmp_path / "scores.csv"),
    }
    late = select(*account, text=b"name,score\na,1\nb\n")
    assert (late.code, late.out) == (4, "")
    assert sordino("ledger", "show", *account).json["spent"] == 8, "the charge stays"
    other = select("--adjacency", "replace-one", *account)
    assert other.code == 5
    assert select(*account).code == 3
    assert sordino("ledger", "show", *account).json["spent"] == 8


REFUSED = {
    "no such score": (
        ("--score", "points"),
        2,
        "--score must be one of the columns 'name', 'score', 'note'",
    ),
    "no such label": (("--label", "points"), 2, "--label must be one of the columns"),
    "one column for both": (("--label", "score"), 2, "--label must be another column"),
    "k zero": (("-k", 0), 2, "NoisyTopK.k must be"),
    "method for several": (("-k", 2, "--method", "exponential"), 2, "--method must be noisy-top-k"),
    "sensitivity": (("--sensitivity", 0), 2, "Sensitivity.bound must be"),
    "sensitivity nan": (("--sensitivity", "nan"), 2, "is not a finite decimal number"),
    "epsilon": (("--epsilon", 0), 2, "PermuteAndFlip.epsilon must be"),
    "seed": (("--seed", 1), 2, "needs --synthetic"),
    "delimiter of digits": (("--delimiter", "0"), 2, "could stand in a number"),
    "delimiter in nan": (("--delimiter", "n"), 2, "could stand in a number"),
    "delimiter of signs": (("--delimiter", "-"), 2, "could stand in a number"),
}


@pytest.mark.parametrize(("flags", "code", "words"), REFUSED.values(), ids=REFUSED)
def test_public_mistakes_cost_nothing(select, sordino, account, flags, code, words):
    result = select(*flags, *account)
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert sordino("ledger", "show", *account).json["spent"] == 0


def test_what_is_public_about_the_file(select, sordino, tmp_path):
    for text, words in (
        (b"name,score\n", "must have one candidate or more"),
        (b"name,score\n\n\n", "must have one candidate or more"),
        (b"name,score\na,1\nb\n", "Line 3 of"),
        (b'name,score\n"a, b",1\n', "hold no delimiter, not even in quotes"),
        (b'name,score\n"a"",1\n', "quoted as a whole"),
        (b'name,score\n"a,1\n', "Line 2 of"),
        (b"name,score\n\xff,1\n", "must have a label in utf-8"),
        (b"", "header"),
        (b"score,score\n1,2\n", "more than once"),
    ):
        result = select("--label", "name", text=text)
        assert (result.code, result.out) == (4 if b"score,score" not in text else result.code, "")
        assert words in result.err
    assert "-k must be at most the number of candidates, 4; got 5." in select("-k", 5).err
    missing = sordino("select", tmp_path / "none.csv", "--score", "x", *FREE)
    assert (missing.code, missing.out) == (4, "")


NOTHING = [
    b"",
    b" ",
    b"nan",
    b"inf",
    b"-inf",
    b"1e999",
    b"twelve",
    b"1_0",
    b'"',
    b'5"',
    b'"5',
    b'"5,6"',
    b"\xff\xfe",
    b"1\x000",
    b"\r",
]
NOTHING += [
    b'"5""',
    b'""',
    b"9" * 3_000_000,
    b'a"b"c',
    b"5,6",
    b"5,",
    b",",
    b'x",5',
    b"9," * 3_000_000,
]


@pytest.mark.parametrize("what", NOTHING, ids=lambda what: ascii(what[:12]))
@pytest.mark.parametrize(
    "order", ["name,score,note", "score,name,note", "note,name,score", "score"]
)
@pytest.mark.each_value
def test_a_score_that_is_none_is_the_lowest_and_moves_no_label(tmp_path, what, order):
    names = order.split(",")

    def read(odd):
        rows = [
            {"name": b'"a; b"', "note": b'"x ""y"""', "score": score} for score in (b"1", odd, b"3")
        ]
        text = (
            order.encode()
            + b"\n"
            + b"".join(b",".join(row[name] for name in names) + b"\n" for row in rows)
        )
        path = tmp_path / "scores.csv"
        path.write_bytes(text)
        return open_scores(
            path, score="score", label="name" if "name" in names else None, form=CsvFormat()
        ).read()

    odd, plain = read(what), read(b"2")
    assert odd.labels == plain.labels == (("a; b",) * 3 if "name" in names else None)
    assert np.isnan(odd.values).tolist() == [False, True, False]
    assert plain.values.tolist() == [1, 2, 3]


def test_neighbouring_files_look_the_same(select):
    """A score far below, in any form: the same choice, words and exit code."""

    def run(score):
        return select(
            "--label",
            "name",
            "--synthetic",
            "--seed",
            7,
            text=b"name,score\na,90000\nb," + score + b"\nc,3\n",
        )

    results = [
        run(score)
        for score in (
            b"-1e9",
            b"",
            b"nan",
            b'"',
            b"-inf",
            b"\xff",
            b"9" * 400 + b"x",
            b"1,5",
            b'x",5',
        )
    ]
    assert {(result.code, result.out, result.err) for result in results} == {
        (0, results[0].out, "")
    }


@pytest.mark.parametrize("label", [b'"a""', b'"a', b'a"', b'"a"b', b'"'])
def test_a_label_with_an_open_quote_never_reaches_what_is_private(select, label):
    """Read as CSV, the quote closes in the score: it would be printed, and whether the line is refused would depend on it."""
    told = {
        (result.code, result.out, result.err)
        for score in (b'x",5', b"5", b'"', b'",', b"canary", b'canary",7')
        for result in [
            select("--label", "name", text=b"name,score\n" + label + b"," + score + b"\nb,1\n")
        ]
    }
    assert len(told) == 1
    [(code, out, err)] = told
    assert (code, out) == (4, "")
    assert "Line 2 of" in err
    assert "canary" not in err


def test_what_a_comma_in_a_score_does_is_said_always_or_never(select):
    """A constant sentence for whoever writes numbers with a comma: whether it applied is not told."""
    flags = ("--label", "name", "--synthetic", "--seed", 7, "--no-quiet")
    results = [
        select(*flags, text=b"name,score\na,90000\nb," + score + b"\nc,3\n")
        for score in (b"5", b"1,5", b"")
    ]
    assert {result.err for result in results} == {results[0].err}
    assert "1,5 with a comma is none" in results[0].err
    assert select(*flags[:2]).err == ""


def test_a_header_that_changes_meanwhile(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_bytes(b"name,score\na,1\n")
    file = open_scores(path, score="score", form=CsvFormat())
    path.write_bytes(b"score,name\n1,a\n")
    with pytest.raises(DataSourceError, match="changed"):
        file.read()


def test_other_dialects(select):
    result = select(
        "--label",
        "name",
        "--delimiter",
        ";",
        "--encoding",
        "latin-1",
        text="name;score\né;9\nö;1\n".encode("latin-1"),
    )
    assert result.json["rows"][0]["label"] in {"é", "ö"}
