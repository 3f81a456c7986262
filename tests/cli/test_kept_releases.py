"""`--keep`: what the command released is printed again from the ledger, to the last letter, whatever became of its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import pytest

from cli.test_release_schema import LINES as EVERY_LINE
from sordino import cli
from sordino.cli import output_file, write
from sordino.errors import LedgerError
from sordino.ledger import Charge, Ledger
from sordino.record import Record
from sordino.session import Session
from support.json_schema import check
from support.postgres import fresh
from support.release_lines import GIVEN, RELEASE_LINES, write_files

FORM = json.loads(files("sordino.cli").joinpath("release.schema.json").read_text(encoding="utf-8"))
TABLES = [
    name for name in RELEASE_LINES if "stdin" not in name and not name.startswith("randomize")
]
# Those of several columns are several: test_several_columns.py looks at them.
ALL = {
    name: line
    for name, line in EVERY_LINE.items()
    if "stdin" not in name and "two columns" not in name
}
SAID = f"Error: {write.NOT_KEPT}\n"
pytestmark = pytest.mark.usefixtures("no_progress")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with the files of `RELEASE_LINES`, with labels that are hard to print."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request, shop):
    return "budget.db" if request.param == "sqlite" else fresh()


@pytest.fixture
def account(place, shop):
    """Make an account for the people that a line is about; returns the options that charge it."""

    def call(line):
        from sordino import Budget, PrivacyUnit

        unit = PrivacyUnit.row() if "--row-is-unit" in line else PrivacyUnit("u")
        adjacency = "replace-one" if "tdt" in line else "add-remove"
        about = {"adjacency": adjacency, "unit": unit, "source": line[1]}
        # Labels that nobody listed take a part of a delta.
        more = {"delta": 1e-2, "failures": 5e-3} if "--unlisted" in line else {}
        Ledger.create(
            place, account="shop", budget=Budget(epsilon=9 if more else 99, **more), **about
        )
        return ("--ledger", place, "--account", "shop")

    return call


@pytest.fixture
def released(sordino, account):
    """Release a line with --keep; returns what it did and how it is printed again."""

    def call(line, *flags, keep="--keep"):
        force = ("--force",) if "tdt" in line and "--force" not in line else ()
        payer = account(line)
        done = sordino(*line, *force, "--epsilon", 1, *payer, *flags, keep)
        # The one charge that there is, also where nothing was written.
        [shown] = sordino("ledger", "show", *payer, "--format", "json").json["rows"]

        def again(*more):
            return sordino("ledger", "release", shown["id"], *payer, *more)

        return done, shown, again

    return call


@pytest.mark.parametrize("form", ["json", "csv", "table"])
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(4)
def test_it_is_printed_again_to_the_last_letter(released, name, form):
    long = ["--details"] if form == "table" and RELEASE_LINES[name][0] != "select" else []
    done, shown, again = released(RELEASE_LINES[name], "--format", form, *long)
    assert (done.code, shown["kept"], shown["state"]) == (0, 1, "settled"), done.err
    printed = again("--format", form, *long)
    assert (printed.code, printed.out, printed.err) == (0, done.out, "")
    if long:
        # The same table, with three lines below it at most, and what it cost by itself.
        table, short = done.out.splitlines(), again("--format", form).out.splitlines()
        many = next(n for n, pair in enumerate(zip(table, short, strict=False)) if len({*pair}) > 1)
        assert 1 <= len(short) - many <= 3
        assert short[-1].startswith("Spent: epsilon ")
        assert short[-1].endswith("More: --details.")
    if form == "json":
        assert done.json["kept"] is True
        check(done.json, FORM, FORM)
    if form == "table":
        assert write.KEPT in done.out.splitlines()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.sample(12)
def test_what_is_kept_prints_the_same_in_every_format(released, monkeypatch, name):
    """Also in those that were not asked for; and of every release that the schema knows."""
    seen = []
    to_text = Record.to_text
    monkeypatch.setattr(Record, "to_text", lambda record: seen.append(record) or to_text(record))
    done, _, again = released(ALL[name], "--format", "json")
    assert done.code == 0, done.err
    [record] = seen
    for form in ("json", "csv", "table"):
        before = output_file.OutputFile(Path(f"before.{form}"))
        with write_context():
            before.claim()
            write.write_records([record], form, before)
        long = ["--details"] * (form == "table")
        assert again("--format", form, *long, "--output", f"again.{form}").code == 0
        assert Path(f"again.{form}").read_bytes() == Path(f"before.{form}").read_bytes()


def write_context():
    import click

    return click.Context(click.Command("none"))


def test_a_sheet_that_forgets_the_order_is_convicted(released, monkeypatch):
    """Broken twin: names are sorted when they are kept."""
    to_text = Record.to_text
    monkeypatch.setattr(
        Record, "to_text", lambda record: json.dumps(json.loads(to_text(record)), sort_keys=True)
    )
    done, _, again = released(RELEASE_LINES["top"], "--format", "json")
    assert again("--format", "json").out != done.out


def test_the_default_format_is_that_of_the_place(released, shop):
    done, _, again = released(RELEASE_LINES["top"])
    assert again().out == done.out == again("--format", "json").out
    assert again("--output", "told").code == 0
    assert (shop / "told").read_text(encoding="utf-8") == done.out
    refused = again("--output", "told")
    assert (refused.code, refused.out) == (2, "")
    assert "is not there yet" in refused.err


# ---- who asks for it -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("payer", [("--no-ledger",), ("--synthetic", "--seed", 3), ()])
@pytest.mark.each_value
def test_without_a_ledger_it_is_refused_before_anything_is_read(
    sordino, shop, monkeypatch, name, payer
):
    monkeypatch.setattr(Session, "__init__", None)
    for path in shop.iterdir():
        path.unlink()
    done = sordino(*RELEASE_LINES[name], "--epsilon", 1, *payer, "--keep")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "Error: --keep keeps a release in the ledger that pays for it: give --ledger URL and --account NAME, or "
        "leave it out. Nothing was read.\n"
    )


def test_streams_and_reports_are_not_kept(told, shop):
    payer = ("--ledger", "none.db", "--account", "shop")
    stream = told("tea,7\n", *RELEASE_LINES["above on stdin"], "--epsilon", 1, *payer, "--keep")
    assert (stream.code, stream.left) == (2, 6)
    assert "--keep is for a table" in stream.err
    for name in ("randomize", "randomize on stdin"):
        done = told(GIVEN.get(name, ""), *RELEASE_LINES[name], "--epsilon", 1, *payer, "--keep")
        assert (done.code, done.out) == (2, "")
        assert "No such option '--keep'" in done.err
    assert not (shop / "none.db").exists()


def test_nothing_is_kept_that_nobody_asked_for(released):
    done, shown, again = released(RELEASE_LINES["top"], keep="--quiet")
    assert (done.code, shown["kept"], "kept" in done.json) == (0, 0, False)
    asked = again()
    assert (asked.code, asked.out) == (5, "")
    assert "has not kept the release of charge" in asked.err


def test_what_is_not_there_is_refused_and_leaves_no_file(sordino, released, shop):
    _, shown, again = released(RELEASE_LINES["top"])
    for wrong, code in ((("--part", 2), 2), (("--part", 0), 2), (("--part", -1), 2)):
        asked = again(*wrong, "--output", "told")
        assert (asked.code, asked.out) == (code, "")
        assert not list(shop.glob("told*"))
    for key in ("9f" * 16, "", shown["id"][:8]):
        asked = sordino("ledger", "release", key, "--ledger", "budget.db", "--account", "shop")
        assert asked.code in {2, 5}


def test_show_says_which_were_kept(sordino, released, place):
    _, shown, _ = released(RELEASE_LINES["count"])
    payer = ("--ledger", place, "--account", "shop")
    assert sordino(*RELEASE_LINES["count"], "--epsilon", 1, *payer).code == 0
    said = sordino("ledger", "show", *payer, "--format", "json").json["rows"]
    assert [row["kept"] for row in said] == [1, 0]
    lines = sordino("ledger", "show", *payer, "--format", "table").out.splitlines()
    assert lines[0].split()[-2:] == ["kept", "id"]
    events = sordino("ledger", "history", *payer, "--format", "json").json["rows"]
    assert [row["charge"] for row in events if row["kind"] == "keep"] == [shown["id"]]


# ---- what goes wrong -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [LedgerError("private words"), TypeError("a defect"), OSError(5, "private")]
)
@pytest.mark.parametrize("name", ["top", "sum", "select", "select by a statistic"])
@pytest.mark.sample(4)
def test_a_copy_that_cannot_be_kept_costs_no_release(released, monkeypatch, name, error):
    def fail(*_given):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Charge, "keep", fail)
        done, shown, again = released(RELEASE_LINES[name], "--format", "json")
    assert (done.code, done.err) == (7, SAID)
    assert done.json["kept"] is False
    check(done.json, FORM, FORM)
    assert (shown["kept"], shown["state"], shown["settled"]) == (0, "settled", 1)
    assert again().code == 5


@pytest.mark.parametrize("name", ["top", "select"])
def test_nor_does_a_signal_while_the_ledger_is_waited_for(released, monkeypatch, name):
    # It was paid for and is in hand: who stops a command that waits for its ledger gets it all the same.
    def wait(*_given):
        cli._receive_signal(signal.SIGTERM, None)

    with monkeypatch.context() as patch:
        patch.setattr(cli, "_received_signals", [])
        patch.setattr(Charge, "keep", wait)
        done, shown, again = released(RELEASE_LINES[name], "--format", "json")
    assert (done.code, done.err) == (7, SAID)
    assert done.json["kept"] is False
    assert (shown["kept"], shown["state"], shown["settled"]) == (0, "settled", 1)
    assert again().code == 5


def test_a_second_signal_ends_the_command(released, monkeypatch):
    def stop(*_given, **_named):
        cli._receive_signal(signal.SIGTERM, None)

    with monkeypatch.context() as patch:
        patch.setattr(cli, "_received_signals", [])
        patch.setattr(Charge, "keep", stop)
        patch.setattr(write, "write_records", stop)
        done, shown, _ = released(RELEASE_LINES["top"])
    assert (done.code, done.out, done.err) == (130, "", f"\n{cli.INTERRUPTED}\n")
    assert (shown["kept"], shown["state"]) == (0, "settled")


def test_nor_does_one_that_is_too_long(released, monkeypatch):
    monkeypatch.setattr("sordino.record.MOST_CHARACTERS", 10)
    done, shown, _ = released(RELEASE_LINES["top"], "--format", "table", "--output", "told")
    assert (done.code, done.out, done.err, shown["kept"]) == (7, "", SAID, 0)
    assert write.KEPT not in Path("told").read_text(encoding="utf-8")


def test_a_release_whose_output_was_lost_is_printed_again(released, shop, monkeypatch):
    def fail(*_given):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(output_file.OutputFile, "_put", fail)
        done, shown, again = released(RELEASE_LINES["top"], "--output", "told")
    assert (done.code, done.out, done.err) == (4, "", f"Error: {write.KEPT_AND_LOST}\n")
    assert shown["kept"] == 1
    with monkeypatch.context() as patch:
        patch.setattr(output_file.OutputFile, "_put", fail)
        lost = again("--output", "told")
    assert (lost.code, lost.out, lost.err) == (4, "", done.err)
    assert again("--format", "json").json["id"] == shown["id"]


def test_a_refused_or_failed_release_keeps_nothing(sordino, account, monkeypatch):
    payer = account(RELEASE_LINES["top"])
    line = RELEASE_LINES["top"]
    assert sordino(*line, "--epsilon", 1000, "--yes-i-mean-it", *payer, "--keep").code == 3

    def fail(*_given, **_named):
        raise ValueError("private words")

    monkeypatch.setattr("sordino.session.results.estimate_rows", fail)
    done = sordino(*line, "--epsilon", 1, *payer, "--keep")
    assert (done.code, done.out) == (4, "")
    [shown] = sordino("ledger", "show", *payer, "--format", "json").json["rows"]
    assert (shown["state"], shown["kept"]) == ("drawn", 0)


@pytest.mark.parametrize("step", ["_put", "_close_on_disk"])
def test_a_release_that_is_written_before_it_is_kept_is_convicted(released, monkeypatch, step):
    """Broken twin: it is kept when it was written, and lost with what could not be."""

    def fail(*_given):
        raise OSError(28, "No space left on device")

    def late(releases, run):
        for record, keep in releases:
            write.write_records([record], run.chosen_form, run.output)
            keep(record)

    with monkeypatch.context() as patch:
        patch.setattr(output_file.OutputFile, step, fail)
        patch.setattr("sordino.cli.table.write_releases", late)
        done, shown, again = released(RELEASE_LINES["top"], "--output", "told")
    assert (done.code, shown["kept"], again().code) == (4, 0, 5)


HOSTILE = [
    Record(
        facts={}, columns=("n",), rows=[{"n": 1}], notes=["\x1b]0;taken\x07", "Spent\r\n\x9b2J"]
    ),
    Record(facts={}, columns=("\x1b[2Jn",), rows=[{"\x1b[2Jn": "\x1b[2J"}]),
    Record(facts={}, columns=("[/]",), rows=[{"[/]": "[/]"}]),
    Record(facts={}, columns=("p_value",), rows=[{"p_value": "x"}]),
    Record(facts={}, columns=("p_value",), rows=[{"p_value": 10**400}]),
    Record(facts={"id": {}, "left_out": 3}, columns=("n",), rows=[{"n": [{"a": 1}]}], counts=False),
]


@pytest.mark.parametrize("record", HOSTILE)
@pytest.mark.sample(4)
def test_what_others_kept_steers_no_terminal_and_ends_no_command(
    sordino, account, monkeypatch, record
):
    # Whoever may charge an account may keep any record under the id of a charge of its own.
    payer = account(RELEASE_LINES["top"])
    with monkeypatch.context() as patch:
        patch.setattr("sordino.cli.write.replace", lambda *_given, **_named: record)
        patch.setattr(write, "write_kept", lambda *_given: None)
        assert sordino(*RELEASE_LINES["top"], "--epsilon", 1, *payer, "--keep").code == 0
    [shown] = sordino("ledger", "show", *payer, "--format", "json").json["rows"]
    for form in ("table", "json", "csv"):
        again = sordino("ledger", "release", shown["id"], *payer, "--format", form)
        assert (again.code, again.err) == (0, "")
        # Programs get labels as they are, in CSV; a terminal is shown the table.
        assert form == "csv" or all(c.isprintable() or c == "\n" for c in again.out)


# ---- processes that are killed ---------------------------------------------------------------------------

KILLER = textwrap.dedent(
    """
    import os, signal, sys
    from sordino.cli import main, write
    from sordino.ledger import Charge, schema
    from sordino.ledger.store import store
    from sordino.ledger.account import charge as charges

    def die(*_given, **_named):
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    def before(owner, name):
        setattr(owner, name, die)

    def after(owner, name):
        original = getattr(owner, name)
        def call(*given, **named):
            original(*given, **named)
            die()
        setattr(owner, name, call)

    carry_out = charges.carry_out
    def during(kind, moment):
        def call(store, operation, parameters, *, account):
            if operation.name == kind and moment == "before":
                die()
            done = carry_out(store, operation, parameters, account=account)
            if operation.name == kind:
                die()
            return done
        charges.carry_out = call

    instant = sys.argv.pop(1)
    {
        "before the settlement": lambda: during("settle", "before"),
        "after the settlement": lambda: during("settle", "after"),
        "before it is kept": lambda: before(Charge, "keep"),
        "before it is kept in the ledger": lambda: during("keep", "before"),
        "after it is kept in the ledger": lambda: during("keep", "after"),
        "after it is kept": lambda: after(Charge, "keep"),
        "before it is written": lambda: before(write, "write_records"),
        "after it is written": lambda: after(write, "write_records"),
    }[instant]()
    main()
    """
)
# Of each instant: the state of the charge, and whether the release is kept, and whether it was written.
INSTANTS = {
    "before the settlement": ("drawn", 0, False),
    "after the settlement": ("settled", 0, False),
    "before it is kept": ("settled", 0, False),
    "before it is kept in the ledger": ("settled", 0, False),
    "after it is kept in the ledger": ("settled", 1, False),
    "after it is kept": ("settled", 1, False),
    "before it is written": ("settled", 1, False),
    "after it is written": ("settled", 1, True),
}


@pytest.mark.slow
@pytest.mark.parametrize("instant", INSTANTS)
@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_a_kill_loses_the_copy_at_most_and_never_the_account(sordino, shop, where, instant):
    from sordino import Budget

    place = "budget.db" if where == "sqlite" else fresh()
    about = {"adjacency": "add-remove", "unit": "u", "source": "orders.csv"}
    ledger = Ledger.create(place, account="shop", budget=Budget(epsilon=9), **about)
    payer = ("--ledger", place, "--account", "shop")
    line = [*RELEASE_LINES["top"], "--epsilon", 1, *payer, "--keep", "--format", "json"]
    command = [sys.executable, "-c", KILLER, instant, *map(str, line)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    state, kept, written = INSTANTS[instant]
    [shown] = ledger.statement().charges
    assert (shown.state, shown.kept, bool(done.stdout)) == (state, kept, written)
    assert ledger.statement().spent == shown.charged == 1
    assert ledger.verify().sound
    again = sordino("ledger", "release", shown.id, *payer, "--format", "json")
    assert (again.code == 0) == bool(kept)
    if kept:
        assert again.json["id"] == shown.id
    if written:
        assert again.out == done.stdout


@pytest.mark.parametrize("name", ALL)
@pytest.mark.sample(6)
def test_what_is_kept_has_a_statement_with_a_proof_of_every_mechanism(released, place, name):
    done, shown, _ = released(ALL[name], "--format", "json")
    assert done.code == 0, done.err
    statement = Ledger.open(place, account="shop").publish(shown["id"])
    assert statement.promise["mechanisms"]
    for one in statement.promise["mechanisms"]:
        assert one["proofs"], one
    guarantee = statement.promise["guarantee"]
    if guarantee["variant"] == "Pure DP":
        assert float(Fraction(guarantee["epsilon"])) <= 1 + 1e-6, (
            "no more than the epsilon that was given"
        )
    assert Ledger.open(place, account="shop").check_statement(statement.to_text()).problems == ()
