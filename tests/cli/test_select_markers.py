"""`sordino select --statistic tdt`: markers and families are public, counts are not; what is wrong in a count moves nothing else."""

from __future__ import annotations

import csv
import io
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sordino.questions import open_markers
from sordino.smooth import tdt_statistic
from sordino.sources import CsvFormat
from support.release_lines import PAPERS, latest, paid, without

TABLE = b"""marker,chromosome,b,c,note
rs1,1,103,97,
"rs2; ""odd"" one",2,175,60,"a; b"
rs3,2,96,101,x
rs4,22,88,104,y
"""
NEEDED = ("--statistic", "tdt", "--b", "b", "--c", "c", "--families", "150", "--epsilon")


@pytest.fixture
def select(sordino, tmp_path):
    def call(*flags, text=TABLE, epsilon=20):
        path = tmp_path / "markers.csv"
        path.write_bytes(text)
        return sordino(*latest("select", path, *NEEDED, epsilon, "--yes-i-mean-it", *paid(*flags)))

    return call


@pytest.fixture
def families(sordino, tmp_path):
    """An account about families, of which one is replaced, and the flags that charge it."""
    ledger = tmp_path / "families.db"
    flags = ("--ledger", ledger, "--account", "families")
    made = sordino(
        "ledger",
        "create",
        *flags,
        "--epsilon",
        50,
        "--adjacency",
        "replace-one",
        "--unit",
        "family",
        "--source",
        "name:trios",
    )
    assert made.code == 0
    return flags


def test_the_best_one_as_json(select):
    result = select("--snp", "marker")
    assert (result.code, result.err) == (0, "")
    found = result.json
    assert found["rows"] == [{"rank": 1, "row": 2, "label": 'rs2; "odd" one'}]
    assert found["why"].startswith("step selects the best of 4 with probability")
    assert 0.99 < found["success"] < 1
    assert [other["method"] for other in found["alternatives"]] == [
        "smooth-step",
        "step",
        "randomized-response",
    ]
    assert "without any effect" in found["model"]
    assert (found["epsilon"], found["adjacency"], found["unit"]) == (
        20.0,
        "replace-one",
        "each family",
    )
    assert without(found, "rows", "cost", "why", "success", "alternatives", "model", *PAPERS) == {
        "release": "select",
        "statistic": "tdt",
        "b": "b",
        "c": "c",
        "families": 150,
        "scale": "sqrt",
        "method": "step",
        "mechanisms": ["StepSelection"],
        "candidates": 4,
        "simulated": False,
        "exact": True,
    }


def test_the_damped_statistic_if_it_is_asked_for(select):
    found = select("--damping", 120, epsilon=2).json
    assert (found["method"], found["damping"]) == ("damped", 120)
    assert select("--damping", 0).code == 2
    assert select("--damping", 120, "--scale", "raw").code == 2


def test_several_and_the_raw_statistic(select):
    found = select("-k", 4, "--label", "marker", epsilon=400).json
    assert found["rows"][0]["row"] == 2
    assert sorted(row["row"] for row in found["rows"]) == [1, 2, 3, 4]
    raw = select("--scale", "raw", epsilon=40).json
    assert (raw["rows"], raw["scale"]) == ([{"rank": 1, "row": 2}], "raw")


def test_csv_and_table(select):
    rows = list(
        csv.DictReader(
            io.StringIO(
                select("--snp", "marker", "--format", "csv", "--synthetic", "--seed", 3).out
            )
        )
    )
    assert 0.99 < float(rows[0].pop("success")) < 1
    assert "without any effect" in rows[0].pop("model")
    assert (rows[0].pop("adjacency"), rows[0].pop("unit")) == ("replace-one", "each family")
    assert [without(row, *PAPERS) for row in rows] == [
        {"rank": "1", "row": "2", "label": 'rs2; "odd" one', "simulated": "yes"}
    ]
    table = select("--format", "table", "--synthetic", "--seed", 3).out
    assert "step selects the best of 4" in table
    assert "Spent: epsilon 20. Protects: each family, replace-one." in table
    assert "only the counts are private" in table
    assert "SIMULATED" in table
    assert "NOT EXACT" not in table


def test_what_is_not_exact_is_used_only_if_allowed(select, monkeypatch):
    """Where nothing is better than the heavy tail, it is chosen with the flag, and said; without it never."""
    import sordino.genomics.choose as choose

    monkeypatch.setattr(choose, "NAMES", ("randomized-response", "heavy-tail"))
    choose._choose_likeliest_method.cache_clear()
    try:
        allowed = select("--allow-approximate", "--format", "json", epsilon=1).json
        assert (allowed["method"], allowed["exact"]) == ("heavy-tail", False)
        assert "NOT EXACT" in select("--allow-approximate", "--format", "table", epsilon=1).out
        assert select(epsilon=1).json["method"] == "randomized-response"
    finally:
        choose._choose_likeliest_method.cache_clear()


def test_a_ledger_refuses_what_is_not_exact_even_if_it_was_chosen(select, families, monkeypatch):
    """Broken control: a rule that forgets what was asked for."""
    from sordino.genomics import choose

    plain = choose.choose_for_goal

    def forgetful(enough, **given):
        return plain(enough, **given | {"exact": False, "method": "heavy-tail"})

    monkeypatch.setattr(choose, "choose_for_goal", forgetful)
    refused = select(*families)
    assert refused.code not in {0, 1}
    assert refused.out == ""
    assert select("--allow-approximate", *families).code == 0


def test_it_is_charged_before_the_counts_are_read(select, sordino, families, tmp_path):
    assert select("--snp", "marker", "-k", 2, *families).code == 0
    shown = sordino("ledger", "show", *families).json
    assert (shown["spent"], shown["rows"][0]["label"]) == (20, "select")
    assert shown["rows"][0]["detail"] == {
        "statistic": "tdt",
        "b": "b",
        "c": "c",
        "label": "marker",
        "families": 150,
        "scale": "sqrt",
        "k": 2,
        "allow_approximate": False,
        "source": str(tmp_path / "markers.csv"),
    }
    late = select(*families, text=TABLE + b"rs5,1,2\n")
    assert (late.code, late.out) == (4, "")
    assert "Line 6 of" in late.err
    assert sordino("ledger", "show", *families).json["spent"] == 20, "public mistakes cost nothing"
    assert select(*families).code == 0
    assert select(*families).code == 3
    assert sordino("ledger", "show", *families).json["spent"] == 40


def test_an_account_about_persons_is_not_charged(select, sordino, account):
    assert select(*account).code == 5
    assert sordino("ledger", "show", *account).json["spent"] == 0


REFUSED = {
    "no such count": (
        ("--b", "x"),
        "--b must be one of the columns 'marker', 'chromosome', 'b', 'c', 'note'",
    ),
    "no such other count": (("--c", "x"), "--c must be one of the columns"),
    "no such label": (("--snp", "x"), "--snp must be one of the columns"),
    "one column twice": (("--c", "b"), "--c must be another column than --b"),
    "a count as label": (("--snp", "c"), "--snp must be another column than --b and --c"),
    "far apart": (("--b", "chromosome"), "side by side"),
    "no families": (("--families", "0"), "--families must be a whole number"),
    "too many families for the raw statistic": (
        ("--families", "3000", "--scale", "raw"),
        "at most 2000",
    ),
    "epsilon": (("--epsilon", "0"), "--epsilon must be"),
    "k": (("-k", "0"), "-k must be"),
    "no sensitivity": (("--sensitivity", "0"), "--sensitivity does not go with"),
    "no step": (("--step", "0"), "--step does not go with"),
    "score": (("--score", "b"), "--score does not go with --statistic"),
    "sensitivity": (("--sensitivity", "1"), "--sensitivity does not go with"),
    "monotone": (("--monotone",), "--monotone does not go with"),
    "method": (("--method", "exponential"), "--method does not go with"),
    "adjacency": (("--adjacency", "add-remove"), "--adjacency must be replace-one"),
    "seed": (("--seed", "1"), "needs --synthetic"),
    "delimiter": (("--delimiter", "1"), "could stand in a number"),
}


@pytest.mark.parametrize(("flags", "words"), REFUSED.values(), ids=REFUSED)
@pytest.mark.sample(2)
def test_public_mistakes_cost_nothing(select, sordino, families, flags, words):
    result = select(*flags, *families)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert sordino("ledger", "show", *families).json["spent"] == 0


def test_options_of_the_statistic_need_it(sordino, tmp_path):
    path = tmp_path / "markers.csv"
    path.write_bytes(TABLE)
    free = ("--epsilon", 1, "--no-ledger")
    for flags in (
        ("--b", "b"),
        ("--families", 5),
        ("--families", 0),
        ("--damping", 0),
        ("--scale", "raw"),
        ("--allow-approximate",),
    ):
        result = sordino("select", path, "--score", "b", "--sensitivity", 1, *free, *flags)
        assert (result.code, result.out) == (2, "")
        assert "needs --statistic tdt" in result.err
    assert "--score must name" in sordino("select", path, "--sensitivity", 1, *free).err
    assert "--families must be given" in sordino("select", path, *NEEDED[:-3], *free).err


def test_what_is_public_about_the_file(select):
    for text, words in (
        (b"b,c\n", "must have one candidate or more"),
        (b"m,b,c\n1\n", "Line 2 of"),
        (b'm,b,c\n"a, b",1,2\n', "Line 2 of"),
        (b"m,b,c\n\xff,1,2\n", "must have a label in utf-8"),
    ):
        flags = ("--snp", "m") if text.startswith(b"m") else ()
        result = select(*flags, text=text)
        assert (result.code, result.out) == (4, "")
        assert words in result.err
    assert "-k must be at most the number of candidates, 4; got 5." in select("-k", 5).err


ODD = [
    b"",
    b" ",
    b"nan",
    b"inf",
    b"-7",
    b"1e999",
    b"twelve",
    b'"',
    b'5"',
    b'"5',
    b'"5"',
    b"\xff\xfe",
    b"1\x000",
    b"99999",
    b"-",
    b'""',
]


@pytest.mark.parametrize("what", ODD, ids=lambda what: ascii(what[:12]))
@pytest.mark.parametrize("order", ["m,b,c,n", "c,b,m,n", "m,n,c,b", "b,c"])
@pytest.mark.each_value
def test_a_count_that_is_none_moves_no_label(tmp_path, what, order):
    names = order.split(",")

    def read(odd):
        rows = [{"m": b'"a; b"', "n": b'"x ""y"""', "b": b"1", "c": b"2"} for _ in range(3)]
        rows[1] |= odd
        text = (
            order.encode()
            + b"\n"
            + b"".join(b",".join(row[name] for name in names) + b"\n" for row in rows)
        )
        path = tmp_path / "markers.csv"
        path.write_bytes(text)
        return open_markers(
            path, b="b", c="c", label="m" if "m" in names else None, form=CsvFormat()
        ).read()

    for odd in ({"b": what}, {"c": what}, {"b": what, "c": what}):
        found, plain = read(odd), read({})
        assert found.labels == plain.labels == (("a; b",) * 3 if "m" in names else None)
        assert (found.b[[0, 2]].tolist(), found.c[[0, 2]].tolist()) == ([1, 1], [2, 2])
        assert np.isfinite(tdt_statistic(found.b, found.c, families=150)).all()
        if "b" not in odd:
            assert found.b[1] == 1
    assert (plain.b.tolist(), plain.c.tolist()) == ([1] * 3, [2] * 3)


def test_a_delimiter_within_quotes_is_part_of_a_count(tmp_path):
    path = tmp_path / "markers.csv"
    path.write_bytes(b'm,b,c\na,"1,5",7\n')
    found = open_markers(path, b="b", c="c", label="m", form=CsvFormat()).read()
    assert np.isnan(found.b).tolist() == [True]
    assert found.c.tolist() == [7]


@pytest.mark.parametrize(
    "odd", [b'"1,2",5"', b'5","1,2"', b'"1,2,5', b'"1",2",3', b'"""1,2"";",-"', b'",","']
)
def test_quotes_and_delimiters_that_do_not_fit_are_no_counts(tmp_path, odd):
    """Whether a line is refused must not depend on how somebody quotes what is wrong."""
    path = tmp_path / "markers.csv"
    path.write_bytes(b'm,b,c,n\n"a; b",' + odd + b',"x; ""y"""\nk,3,4,\n')
    for label, found in (("m", ("a; b", "k")), ("n", ('x; "y"', ""))):
        counts = open_markers(path, b="b", c="c", label=label, form=CsvFormat()).read()
        assert counts.labels == found
        assert (counts.b[1], counts.c[1]) == (3, 4)
        assert np.isnan(counts.b[0])


@pytest.mark.parametrize(
    "counts", [b"", b"7", b"1,2,3", b"1,2,3,4", b",,,,", b'1,2",5', b"1," * 3_000_000]
)
def test_another_number_of_delimiters_makes_a_table_of_nothing(tmp_path, counts):
    path = tmp_path / "markers.csv"
    for text, label in (
        (b"m,b,c\na," + counts + b"\nk,3,4\n", "m"),
        (b"b,c,m\n" + counts + b",a\n3,4,k\n", "m"),
        (b"b,c\n" + counts + b"\n3,4\n", None),
    ):
        path.write_bytes(text)
        found = open_markers(path, b="b", c="c", label=label, form=CsvFormat()).read()
        assert found.labels == (("a", "k") if label else None)
        assert np.isnan([found.b[0], found.c[0]]).all()
        assert (found.b[1], found.c[1]) == (3, 4)


def test_neighbouring_files_look_the_same(select):
    """A hopeless marker, whatever stands there: the same choice, words and exit code."""

    def run(counts):
        return select(
            "--snp",
            "m",
            "--synthetic",
            "--seed",
            7,
            text=b"m,b,c\na,190,60\nb," + counts + b"\nc,120,120\n",
            epsilon=40,
        )

    results = [
        run(counts)
        for counts in (
            b"100,100",
            b",",
            b"nan,1",
            b'",5',
            b"-9,-9",
            b"\xff,x",
            b"400,0e5",
            b"7,7",
            b'"1,2",5"',
        )
    ]
    assert {(result.code, result.err) for result in results} == {(0, "")}
    assert {result.out for result in results if result is not results[6]} == {results[0].out}


@pytest.mark.slow
def test_the_real_process_and_one_that_is_killed(tmp_path, families, sordino):
    """Whoever is killed after the charge has spent it: nothing returns."""
    path = tmp_path / "markers.csv"
    path.write_bytes(TABLE)
    command = [
        sys.executable,
        "-c",
        "from sordino.cli import main; main()",
        "select",
        path,
        *NEEDED,
        "1",
        *families,
        "--snp",
        "marker",
        "--force",
    ]
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert '"release": "select"' in done.stdout
    assert sordino("ledger", "show", *families).json["spent"] == 1
    with path.open("wb") as file:
        file.write(TABLE + b"rs,1,100,100,\n" * 2_000_000)
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(600):
        if sordino("ledger", "show", *families).json["spent"] == 2:
            break
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    out, _ = run.communicate()
    assert (run.returncode, out) == (-signal.SIGKILL, b"")
    assert sordino("ledger", "show", *families).json["spent"] == 2, "the charge stays"
