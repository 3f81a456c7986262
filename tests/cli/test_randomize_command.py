"""`sordino randomize`: one line for each line, whatever they hold; charged before a row is read, also if the process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

import sordino as sd
from sordino.cli import randomize as module
from support.release_lines import paid

FIXED = ("--synthetic", "--seed", 7, "--no-quiet")
RANGE = ("--column", "amount", "--lower", 0, "--upper", 100, "--epsilon", 1)
COMMAND = str(Path(sys.executable).with_name("sordino"))
RECORDS = [f"u{i % 8},{i % 90}.5,x".encode() for i in range(60)]
ODD = {
    "plain": b"u9,7,x",
    "empty": b"",
    "no number": b"u9,seven,x",
    "nothing": b"u9,,x",
    "nan": b"u9,nan,x",
    "too few fields": b"u9",
    "too many fields": b"u9,7,x,y,z",
    "an open quote": b'u9,"7,x',
    "bad UTF-8": b"u9,\xff7,x",
    "a NUL byte": b"u9,7\0,x",
    "a carriage return": b"u9,7\r,x",
    "beyond the floats": b"u9,1e999,x",
    "a long line": b"u9," + b"7" * 3_000_000 + b",x",
    "a canary": b"u9,kryptonite-86753099173,x",
}


pytestmark = pytest.mark.usefixtures("no_progress")


def table(folder, records=RECORDS, name="x.csv"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"user,amount,z\n" + b"".join(record + b"\n" for record in records))
    return folder / name


def numbers(outcome):
    head, *lines = outcome.out.splitlines()
    assert head == "amount"
    return [float(line) for line in lines]


def test_what_is_written(sordino, tmp_path):
    path = table(tmp_path / "a")
    outcome = sordino("randomize", path, *RANGE, *FIXED)
    assert outcome.code == 0
    age = sd.CompositeMechanism(lower=0, upper=100, epsilon=1, activation="mixture")
    values = [float(record.split(b",")[1]) for record in RECORDS]
    assert numbers(outcome) == age.reports(values, entropy=sd.Seeded(7)).values.tolist()
    assert "every line gives one line" in outcome.err
    assert "Public: how many lines there are, their order" in outcome.err
    assert "Spent: epsilon 1. Protects: the numbers of each row, replace-one." in outcome.err
    assert "SIMULATED" in outcome.err
    assert "dropped" not in outcome.err
    estimate = sd.mean_of_reports(numbers(outcome), mechanism=age)
    assert estimate.interval[0] <= np.mean(values) <= estimate.interval[1]


def test_shapes_and_other_formats(sordino, tmp_path):
    path = table(tmp_path / "a")
    plain = numbers(sordino("randomize", path, *RANGE, *FIXED))
    other = numbers(
        sordino("randomize", path, *RANGE, *FIXED, "--activation", "sine", "--tuned-for", "0.5")
    )
    assert len(plain) == len(other) == 60
    assert plain != other
    path.write_bytes(path.read_bytes().replace(b",", b";").replace(b"u1;1.5;", b"u1;NA;"))
    changed = numbers(
        sordino("randomize", path, *RANGE, *FIXED, "--delimiter", ";", "--null", "NA")
    )
    assert len(changed) == 60
    assert sum(a != b for a, b in zip(plain, changed, strict=True)) <= 1
    duckdb.sql(
        f"COPY (SELECT 'u' || i AS user, i AS amount FROM range(60) t(i)) TO '{tmp_path / 'x.parquet'}'"
    )
    assert len(numbers(sordino("randomize", tmp_path / "x.parquet", *RANGE, *FIXED))) == 60
    empty = sordino("randomize", table(tmp_path / "b", []), *RANGE, *FIXED)
    assert (empty.code, empty.out) == (0, "amount\n")


@pytest.mark.parametrize("user", [(), ("--user", "user", "--max-rows", 2)], ids=["rows", "units"])
@pytest.mark.parametrize("what", ODD)
@pytest.mark.sample(4)
def test_a_row_that_holds_something_else_changes_its_own_line_only(sordino, tmp_path, what, user):
    """With the same noise: the law of every other line is the same. All rows of one unit are exchanged, two of which count."""
    fixed = ("--synthetic", "--seed", 7, "--no-quiet", *user)
    records = [*RECORDS[:20], b"u9,50,x", b"u9,50,x", *RECORDS[20:], b"u9,50,x"]
    others = [*RECORDS[:20], ODD[what], ODD[what], *RECORDS[20:], ODD[what]]
    a = sordino("randomize", table(tmp_path / "a", records), *RANGE, *fixed)
    b = sordino("randomize", table(tmp_path / "b", others), *RANGE, *fixed)
    assert (a.code, a.err) == (b.code, b.err) == (0, a.err)
    first, second = numbers(a), numbers(b)
    assert len(first) == len(second) == 63
    changed = {i for i, (x, y) in enumerate(zip(first, second, strict=True)) if x != y}
    assert changed <= ({20, 21} if user else {20, 21, 62})
    assert "kryptonite" not in b.out + b.err


def test_a_pipe_gives_what_a_file_gives(told, sordino, tmp_path):
    path = table(tmp_path / "a", [*RECORDS, *ODD.values()])
    for more in ((), ("--user", "user", "--max-rows", 3)):
        from_file = sordino("randomize", path, *RANGE, *FIXED, *more)
        for size in (1 << 16, 700):
            piped = told(path.read_bytes(), "randomize", "-", *RANGE, *FIXED, *more, size=size)
            assert piped.code == 0
            assert numbers(piped) == numbers(from_file)
            assert len(numbers(piped)) == 60 + len(ODD)


def test_what_is_refused(sordino, told, tmp_path):
    path = table(tmp_path / "a")
    duckdb.sql(f"COPY (SELECT 'a' AS amount) TO '{tmp_path / 't.parquet'}'")
    refused = [
        (
            ("randomize", path, *RANGE, "--where", "amount > 3"),
            "which rows a predicate keeps is not",
        ),
        (("randomize", path, *RANGE, "--user", "user"), "--max-rows"),
        (("randomize", path, *RANGE, "--max-rows", 2), "--max-rows needs --user"),
        (
            ("randomize", path, *RANGE, "--user", "user", "--row-is-unit"),
            "Give exactly one of --user",
        ),
        (("randomize", path, *RANGE, "--adjacency", "add-remove"), "is not 'replace-one'"),
        (("randomize", path, *RANGE, "--seed", 3), "needs --synthetic"),
        (("randomize", path, *RANGE[2:], "--column", "amont"), "amount"),
        (
            ("randomize", path, *RANGE[2:], "--column", "user", "--user", "user", "--max-rows", 1),
            "another one",
        ),
        (("randomize", tmp_path / "t.parquet", *RANGE), "whole numbers, decimals or floats"),
        (
            ("randomize", path, "--column", "amount", "--lower", 5, "--upper", 5, "--epsilon", 1),
            "upper must be above lower",
        ),
        (
            ("randomize", path, "--column", "amount", "--lower", 0, "--upper", 5, "--epsilon", 0),
            "epsilon must be",
        ),
        (("randomize", path, *RANGE, "--activation", "square"), "Invalid value for '--activation'"),
        (("randomize", path, *RANGE, "--tuned-for", 7), "tuned_for must be"),
    ]
    for arguments, words in refused:
        outcome = sordino(*paid(*arguments))
        assert (outcome.code, outcome.out) == (2, ""), arguments
        assert words in outcome.err.replace("\n", " "), arguments
    assert told(b"a,b\n1,2\n", "randomize", "-", *RANGE, "--no-ledger").code == 2
    assert told(b"", "randomize", "-", *RANGE, "--no-ledger").code == 4
    # A name that is there twice, and is not asked for, is in nobody's way.
    assert told(b"a,a\n", "randomize", "-", *RANGE, "--no-ledger").code == 2


def opened(sordino, tmp_path, path, adjacency="replace-one", unit=("--unit", "user")):
    about = ("--ledger", tmp_path / "budget.db", "--account", "shop")
    made = sordino(
        "ledger",
        "create",
        *about,
        "--epsilon",
        10,
        "--adjacency",
        adjacency,
        *unit,
        "--source",
        path,
    )
    assert made.code == 0, made.err
    return about


def test_a_ledger_pays_m_times(sordino, told, tmp_path):
    path = table(tmp_path / "a")
    account = opened(sordino, tmp_path, path)
    ask = ("randomize", path, *RANGE, "--user", "user", *account)
    done = sordino(*ask, "--max-rows", 3)
    assert done.code == 0
    assert len(numbers(done)) == 60
    shown = sordino("ledger", "show", *account).json
    assert shown["spent"] == 3
    assert shown["rows"][0]["detail"]["public"] == "the number of records and their order"
    refused = sordino(*ask, "--max-rows", 8)
    assert (refused.code, refused.out) == (3, "")
    rows = told(path.read_bytes(), "randomize", "-", *RANGE, *account)
    assert (rows.code, rows.out) == (5, ""), "an account of users does not pay for single rows"
    piped = told(
        path.read_bytes(), "randomize", "-", *RANGE, "--user", "user", "--max-rows", 1, *account
    )
    assert piped.code == 0
    assert sordino("ledger", "show", *account).json["spent"] == 4
    assert sordino(*ask, "--max-rows", 1, "--seed", 1, "--synthetic").code == 2


def test_an_account_for_add_remove_is_refused(sordino, told, tmp_path):
    path = table(tmp_path / "a")
    account = opened(sordino, tmp_path, path, adjacency="add-remove")
    outcome = sordino("randomize", path, *RANGE, "--user", "user", "--max-rows", 1, *account)
    assert (outcome.code, outcome.out) == (5, "")
    piped = told(
        path.read_bytes(), "randomize", "-", *RANGE, "--user", "user", "--max-rows", 1, *account
    )
    assert (piped.code, piped.out) == (5, "")
    assert sordino("ledger", "show", *account).json["spent"] == 0


def test_a_pipe_that_fails_says_the_sentence_of_all_failures_after_the_charge():
    def broken():
        yield np.zeros(1)
        raise OSError("private")

    blocks = module._read_after_charge(broken())
    assert next(blocks).size == 1
    with pytest.raises(sd.DataSourceError) as caught:
        next(blocks)
    assert str(caught.value) == sd.DataSourceError.AFTER_CHARGE


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_a_killed_process_leaves_the_full_charge(sordino, tmp_path, name):
    path = table(tmp_path / "a", RECORDS * 5000)
    account = opened(sordino, tmp_path, path)
    command = [COMMAND, "randomize", path, *RANGE, "--user", "user", "--max-rows", "2", *account]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"amount\n", (
            "nobody reads the rest: it waits in the middle of the table"
        )
        child.send_signal(getattr(signal, name))
        child.stdout.close()
        err = child.stderr.read()
    assert child.returncode == (130 if name == "SIGINT" else -9)
    assert b"Traceback" not in err
    shown = sordino("ledger", "show", *account).json
    assert shown["spent"] == 2
    assert shown["rows"][0]["state"] != "settled"


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error_and_keeps_the_charge(sordino, tmp_path):
    path = table(tmp_path / "a", RECORDS * 5000)
    account = opened(sordino, tmp_path, path)
    command = [COMMAND, "randomize", path, *RANGE, "--user", "user", "--max-rows", "2", *account]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"amount\n"
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 0
    assert sordino("ledger", "show", *account).json["spent"] == 2


PEAK = """
import pathlib, sys
from sordino.cli import run
code = run(sys.argv[1:])
print(code, pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0], file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system does not say what a process needed"
)
def test_memory_does_not_grow_with_the_table(tmp_path):
    peaks = []
    for times in (2_000, 20_000):
        path = table(tmp_path / "a", RECORDS * times)
        command = [
            sys.executable,
            "-c",
            PEAK,
            "randomize",
            str(path),
            *map(str, RANGE),
            "--no-ledger",
        ]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True
        )
        code, peak = done.stderr.split()
        assert code == b"0"
        peaks.append(int(peak))
    assert peaks[1] < 1.25 * peaks[0]
