"""Every release carries its papers: where the ledger has its charge, when it was made, who paid, what it protects."""

from __future__ import annotations

import csv
import io
import re

import pytest

import sordino
from sordino.receipt import Receipt
from sordino.record import SCHEMA
from sordino.session import executor
from support.release_lines import GIVEN, PAPERS, RELEASE_LINES, write_files

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
# A stream answers line by line, and a report of a row is a number and nothing else.
TABLES = {
    name: line
    for name, line in RELEASE_LINES.items()
    if "stdin" not in name and not name.startswith("randomize")
}
INTERVALS = {"top", "above", "histogram", "table", "count", "quantile", "sum", "mean", "variance"}
pytestmark = pytest.mark.usefixtures("no_progress")


@pytest.fixture
def charged(told, tmp_path, monkeypatch):
    """Run a line of `RELEASE_LINES` on an account of its own; returns what it printed and what the ledger shows."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)

    def call(name, *more):
        line = RELEASE_LINES[name]
        replaced = name.startswith("randomize") or "statistic" in name
        about = {"--source": line[1], "--adjacency": "replace-one" if replaced else "add-remove"}
        about = [part for pair in about.items() for part in pair]
        about += ["--row-is-unit"] if name == "randomize on stdin" else ["--unit", "u"]
        account = ("--ledger", "budget.db", "--account", "shop")
        created = told("", "ledger", "create", *account, "--epsilon", 10, "--not-yet", *about)
        assert created.code == 0, created.err
        extra = ("--force",) if "statistic" in name else ()
        done = told(GIVEN.get(name, ""), *line, *extra, "--epsilon", 1, *account, *more)
        assert done.code == 0, done.err
        [shown] = told("", "ledger", "show", *account, "--format", "json").json["rows"]
        return done, shown

    return call


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(4)
def test_json_says_what_the_ledger_says(charged, name):
    done, shown = charged(name, "--format", "json")
    told = done.json
    assert set(PAPERS) <= set(told)
    assert (told["id"], told["time"], told["account"]) == (shown["id"], shown["time"][:10], "shop")
    assert DAY.fullmatch(told["time"])
    assert (told["delta"], told["version"], told["schema"]) == (0, sordino.__version__, SCHEMA)
    assert ("confidence" in told) == (name in INTERVALS)
    assert told["max_rows"] == (
        1 if name in {"quantile", "sum", "mean", "variance", "table"} else None
    )


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(4)
def test_each_line_of_csv_says_the_same(charged, name):
    done, shown = charged(name, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert rows
    for row in rows:
        assert set(PAPERS) <= set(row)
        assert (row["id"], row["time"], row["account"]) == (shown["id"], shown["time"][:10], "shop")
        assert (row["epsilon"], row["delta"], row["schema"]) == ("1", "0", str(SCHEMA))
        assert ("confidence" in row) == (name in INTERVALS)
    # At the end of each line, where they are in nobody's way.
    assert list(rows[0])[-5:] == ["id", "time", "account", "version", "schema"]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(4)
def test_a_table_names_its_charge(charged, name):
    long = () if RELEASE_LINES[name][0] == "select" else ("--details",)
    done, shown = charged(name, "--format", "table", *long)
    assert f"Charge: {shown['id']} of account shop, {shown['time'][:10]}." in done.out.splitlines()


@pytest.mark.parametrize("name", ["randomize", "randomize on stdin"])
def test_reports_leave_their_papers_on_stderr(charged, name):
    done, shown = charged(name, "--no-quiet")
    assert f"Charge: {shown['id']} of account shop, {shown['time'][:10]}." in done.err
    assert shown["id"] not in done.out


def test_each_verdict_of_a_stream_names_its_charge(charged):
    done, shown = charged("above on stdin", "--format", "json")
    assert [verdict["id"] for verdict in done.lines] == [shown["id"]] * len(done.lines)
    assert done.lines


@pytest.mark.parametrize("form", ["csv", "table"])
def test_so_do_its_other_forms(charged, form):
    done, shown = charged("above on stdin", "--format", form)
    header, *_, end = done.out.splitlines()
    assert shown["id"] in end
    assert (form == "table") or header.endswith(",id")


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(4)
def test_without_a_ledger_there_is_a_time_alone(told, tmp_path, monkeypatch, name):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    extra = ("--force",) if "statistic" in name else ()
    line = (*RELEASE_LINES[name], *extra, "--epsilon", 1, "--format", "json")
    real = told("", *line, "--no-ledger").json
    assert (real["id"], real["account"]) == (None, None)
    assert DAY.fullmatch(real["time"])
    # What is simulated can be repeated, to the last letter.
    assert told("", *line, "--synthetic", "--seed", 1).json["time"] is None


@pytest.fixture
def ticking(told, tmp_path, monkeypatch):
    """Release with a clock that counts; returns the time of the release and that at which rows were read."""
    from sordino.session import request

    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    ticks = iter(range(100))
    read = request.Charged.read
    seen = []

    def watched(self, question):
        seen.append(f"tick {next(ticks)}")
        return read(self, question)

    monkeypatch.setattr(request, "read_clock", lambda: f"tick {next(ticks)}")
    monkeypatch.setattr(request.Charged, "read", watched)
    return lambda name: (
        told("", *RELEASE_LINES[name], "--epsilon", 1, "--no-ledger").json["time"],
        seen[0],
    )


@pytest.mark.parametrize("name", ["top", "quantile", "sum"])
def test_the_time_is_that_before_a_row_is_read(ticking, name):
    assert ticking(name) == ("tick 0", "tick 1")


def test_a_time_that_knows_how_long_rows_took_is_convicted(ticking, monkeypatch):
    """Broken twin: whoever asks for the time after the rows tells how long they took."""
    from sordino.session import request

    finish = executor.ReleaseExecutor._finish

    def late(self, started, payer, receipt, found):
        result = finish(self, started, payer, receipt, found)
        result.take_receipt(Receipt(time=request.read_clock()))
        return result

    monkeypatch.setattr(executor.ReleaseExecutor, "_finish", late)
    assert ticking("top") == ("tick 2", "tick 1")
