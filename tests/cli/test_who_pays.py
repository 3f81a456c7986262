"""Nobody spends by accident: a release says who pays for it, and a large epsilon that it is meant, before anything is read."""

from __future__ import annotations

import csv
import io
import os
import re

import pytest

from sordino.cli import _COMMANDS
from sordino.cli.options import RunOptions
from support.release_lines import GIVEN, RELEASE_LINES, write_files

READ_NOTHING = {
    "declare": "looks at columns alone",
    "init": "looks at columns alone",
    "run": "has a study that says who pays, see tests/study/test_files.py",
    "series": "has a declaration that says who pays: tests/cli/test_series_command.py",
    "plan": "spends nothing",
    "ledger": "keeps accounts",
    "report": "shows what was released",
    "remeasure": "asks the ledger what was released: tests/cli/test_remeasure_command.py",
    "verify": "compares a statement with the history",
    "audit": "sees no real data",
}
LEDGER = ("--ledger", "budget.db", "--account", "shop")


@pytest.fixture
def release(told):
    """Run one of the lines."""

    def call(which, *options, epsilon=1):
        return told(GIVEN.get(which, ""), *RELEASE_LINES[which], "--epsilon", epsilon, *options)

    return call


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A folder in which whatever is opened is not there, or cannot be read."""
    monkeypatch.chdir(tmp_path)
    # A named pipe is no list of labels: whoever looks at it ends with another code.
    os.mkfifo(tmp_path / "items.csv")
    return tmp_path


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)


def assert_nothing_was_read(which, result, *words):
    assert (result.code, result.out) == (2, ""), result.err
    assert result.left == len(GIVEN.get(which, ""))
    assert result.err.startswith("Error: ")
    for word in words:
        assert word in result.err


def test_every_command_that_releases_is_here():
    assert {line[0] for line in RELEASE_LINES.values()} | READ_NOTHING.keys() == _COMMANDS.keys()


@pytest.mark.parametrize("which", RELEASE_LINES)
def test_who_pays_is_said_before_anything_is_read(release, empty, which):
    """No source is there, and the domain cannot be read: only a refusal before both ends with 2."""
    assert_nothing_was_read(which, release(which), "--ledger", "--account", "--no-ledger")
    assert_nothing_was_read(which, release(which, "--synthetic"), "--no-ledger")
    for both in (
        ("--no-ledger", *LEDGER),
        ("--no-ledger", *LEDGER[:2]),
        ("--no-ledger", *LEDGER[2:]),
    ):
        assert_nothing_was_read(which, release(which, *both), "--no-ledger cannot be combined with")
    for one in (LEDGER[:2], LEDGER[2:]):
        assert_nothing_was_read(which, release(which, *one), "--ledger and --account go together")
    assert_nothing_was_read(which, release(which, "--seed", 3), "needs --synthetic")
    seeded = ("--seed", 3, "--synthetic", *LEDGER)
    assert_nothing_was_read(which, release(which, *seeded), "cannot be combined with --ledger")
    assert not (empty / "budget.db").exists()


@pytest.mark.parametrize("which", RELEASE_LINES)
def test_whoever_opens_something_first_is_convicted(release, empty, monkeypatch, which):
    """Broken twin: the command goes on without a word about an account, to its source or its first line."""
    monkeypatch.setattr(RunOptions, "__post_init__", lambda run: None)
    with pytest.raises(AssertionError):
        assert_nothing_was_read(which, release(which), "--no-ledger")


@pytest.mark.parametrize("which", RELEASE_LINES)
@pytest.mark.sample(4)
def test_no_account_is_one_way_to_say_it(release, shop, which):
    quiet = release(which, "--no-ledger")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out
    told = release(which, "--no-ledger", "--no-quiet")
    assert told.code == 0
    assert "nothing remembers what this release spends" in told.err


FORMS = {"json": '"simulated": true', "csv": "yes", "table": "SIMULATED"}


@pytest.mark.parametrize("which", RELEASE_LINES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sample(12)
def test_simulated_noise_needs_no_account_and_says_what_it_is(release, shop, which, form):
    plain = which.startswith("randomize")
    seeded = ("--synthetic", "--seed", 3, *(() if plain else ("--format", form)))
    made = release(which, *seeded)
    assert made.code == 0
    # The stdout of `randomize` is the column alone, so it is said on stderr, however quiet that is.
    assert FORMS[form] in made.out or (plain and "SIMULATED" in made.err)
    if form == "csv" and not plain:
        rows = csv.DictReader(io.StringIO(made.out))
        assert {row["simulated"] for row in rows} == {"yes"}
    told = release(which, *seeded, "--no-quiet")
    assert told.out == made.out
    assert told.err.count("SIMULATED") == 1
    assert "nothing remembers" not in told.err


@pytest.mark.parametrize("which", RELEASE_LINES)
def test_an_epsilon_above_ten_is_meant(release, empty, which):
    for epsilon, said in ((20, "20"), ("10.000000000001", "10.01")):
        refused = release(which, "--no-ledger", epsilon=epsilon)
        assert_nothing_was_read(
            which, refused, "--yes-i-mean-it", f"At epsilon {said}, someone", "1-in-1,000"
        )
    # What is meant goes on to the next thing that is wrong, in whichever order it is written.
    assert "--no-ledger" in release(which, "--yes-i-mean-it", epsilon=20).err
    assert "--no-ledger" in release(which, epsilon=10).err


@pytest.mark.parametrize("which", RELEASE_LINES)
@pytest.mark.sample(4)
def test_what_is_meant_is_released(release, shop, which):
    assert release(which, "--no-ledger", "--yes-i-mean-it", epsilon=20).code == 0
    assert release(which, "--no-ledger", epsilon=10).code == 0
    assert release(which, "--synthetic", "--seed", 1, epsilon=20).code == 2


def test_all_reports_of_a_unit_count_together(told, empty):
    line = (
        "randomize",
        "orders.csv",
        "--column",
        "x",
        "--lower",
        0,
        "--upper",
        9,
        "--user",
        "u",
        "--no-ledger",
    )
    refused = told("", *line, "--epsilon", 4, "--max-rows", 3)
    assert refused.code == 2
    assert "--epsilon times --max-rows must be at most 10" in refused.err
    assert "At epsilon 12, someone" in refused.err
    assert told("", *line, "--epsilon", 4, "--max-rows", 3, "--yes-i-mean-it").code == 4
    assert told("", *line, "--epsilon", 5, "--max-rows", 2).code == 4


def test_a_plan_spends_nothing(sordino):
    assert sordino("plan", "selector", "-m", 3, "--epsilon", 20).code == 0


def test_the_help_names_both(sordino):
    for line in RELEASE_LINES.values():
        shown = re.sub(r"\s+", " ", sordino(line[0], "--help-all").out)
        assert "--no-ledger" in shown
        assert "--yes-i-mean-it" in shown
