"""A release with --run-id is paid once and printed alike, whatever kills its command and however often it is started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from sordino.cost import Pure
from sordino.ledger import Ledger

COMMAND = """
import os, signal, sys
from sordino import cli
from sordino.cli import output, write
from sordino.ledger import Charge, Ledger
from sordino.session import Session

def strike(owner, name, late=False):
    whole = getattr(owner, name)
    def struck(*given, **named):
        done = whole(*given, **named) if late else None
        os.kill(os.getpid(), signal.SIGKILL)
        return done
    setattr(owner, name, struck)

{point}
sys.exit(cli.run(sys.argv[1:]))
"""
# Where a process is killed, and what becomes of the release.
POINTS = {
    "before the charge": ("strike(Ledger, 'reserve')", "nothing"),
    "after the charge": ("strike(Ledger, 'reserve', late=True)", "lost"),
    "before the noise": ("strike(Charge, '_draw', late=True)", "lost"),
    "after the noise": ("strike(Charge, 'settle')", "lost"),
    "before it is kept": ("strike(Charge, 'keep')", "lost"),
    "after it is kept": ("strike(Charge, 'keep', late=True)", "kept"),
    "before it is written": ("strike(output, 'write_lines')", "kept"),
    "after it is written": ("strike(output, 'write_lines', late=True)", "printed"),
}


@pytest.fixture
def count(sordino, orders, account):
    """`sordino count` of the shop as a run, with changes."""

    def call(*more, run="monday", epsilon=1, source=orders):
        asked = ("count", source, "--units", "--user", "customer")
        asked += () if epsilon is None else ("--epsilon", epsilon)
        return sordino(*asked, *account, *(("--run-id", run) if run else ()), *more)

    return call


def spent(account):
    statement = Ledger.open(account[1], account="shop").statement()
    return statement.spent, len(statement.charges)


def test_a_killed_release_is_paid_once_and_answered_once(sordino, orders, account):
    gone = 0
    for paid, (point, (struck, fate)) in enumerate(POINTS.items()):
        asked = ("count", orders, "--units", "--user", "customer", "--epsilon", 1, *account)
        asked = [*map(str, asked), "--run-id", point.replace(" ", "-")]
        killed = subprocess.run(
            [sys.executable, "-c", COMMAND.format(point=struck), *asked],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, point
        assert bool(killed.stdout) == (fate == "printed"), point
        now = paid + (fate != "nothing")
        assert spent(account) == (now, now + gone), point
        retries = [sordino(*asked) for _ in range(2)]
        assert spent(account) == (paid + 1, paid + 1 + gone), point
        if fate == "lost":
            assert [(one.code, one.out) for one in retries] == [(8, "")] * 2, point
            assert "has not kept its release. Nothing was charged now." in retries[0].err
            undrawn = point == "after the charge"
            assert ("void-reservation" in retries[0].err) == undrawn, point
            if undrawn:
                line = Ledger.open(account[1], account="shop").find_run(f"release {asked[-1]}")
                given_up = ("--charge", line.id, "--reason", "killed")
                assert sordino("ledger", "void-reservation", *account, *given_up).code == 0
                again = [sordino(*asked) for _ in range(2)]
                assert ([one.code for one in again], again[0].out) == ([0, 0], again[1].out)
                gone += 1
                assert spent(account) == (paid + 1, paid + 1 + gone)
            continue
        answers = {killed.stdout, *(one.out for one in retries)} - {""}
        assert ([one.code for one in retries], len(answers)) == ([0, 0], 1), point
    assert Ledger.open(account[1], account="shop").verify().sound


def test_a_run_is_printed_again_without_its_rows_and_in_any_form(count, account, orders, tmp_path):
    first = count()
    assert (first.json["kept"], spent(account)) == (True, (1, 1))
    before = Ledger.open(account[1], account="shop").statement().head
    orders.rename(tmp_path / "away.csv")
    assert count().out == first.out
    assert count("--output", tmp_path / "again.json", epsilon="1.0").code == 0
    assert json.loads((tmp_path / "again.json").read_text(encoding="utf-8")) == first.json
    assert first.json["id"] in count("--format", "table", "--keep", "--no-quiet").out
    assert Ledger.open(account[1], account="shop").statement().head == before
    (tmp_path / "away.csv").rename(orders)
    # Another run is another release.
    assert count(run="tuesday").json["id"] != first.json["id"]
    assert spent(account) == (2, 2)


def test_a_run_that_was_paid_for_something_else_is_refused_before_the_charge(
    sordino, count, account, orders, tmp_path
):
    count()
    others = (
        lambda: count(epsilon=2),
        lambda: count("--where", "price > 3"),
        lambda: count("--type", "price=double"),
        lambda: count("--null", "x"),
        lambda: count("--max-rows", 2),
        lambda: count(source=tmp_path / "other.csv"),
        lambda: sordino(
            *("count", orders, "--row-is-unit", "--epsilon", 1, *account, "--run-id", "monday"),
        ),
    )
    for other in others:
        seen = other()
        assert (seen.code, seen.out) == (8, ""), seen.err
        assert "was paid for another request" in seen.err
    assert spent(account) == (1, 1)


def test_a_run_is_the_same_from_everywhere_and_another_table_is_not(
    sordino, count, account, orders, tmp_path, monkeypatch
):
    first = count()
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(orders.parent)
    assert count(source=orders.name).out == first.out
    # A file of that name in another folder holds somebody else.
    (tmp_path / "deep" / orders.name).write_text(orders.read_text(encoding="utf-8"), "utf-8")
    monkeypatch.chdir(tmp_path / "deep")
    assert count(source=orders.name).code == 8
    # The signs of an address may stand in a filter.
    monkeypatch.chdir(orders.parent)
    assert count("--where", "product <> 'http://a/b'", run="b").code == 0
    # Nor does it matter from which folder a declaration is found.
    monkeypatch.chdir(tmp_path)
    whom = ("--person", "customer", "--epsilon", 2, "--name", "shop2", "--ledger", "own.db")
    assert sordino("declare", orders, *whom).code == 0
    asked = ("count", "shop2", "--units", "--epsilon", 1, "--run-id", "a")
    told = sordino(*asked)
    monkeypatch.chdir(tmp_path / "deep")
    assert (told.code, sordino(*asked).out) == (0, told.out), told.err
    named = sordino(*asked, "--declaration", tmp_path / "sordino.toml")
    assert (named.code, named.out) == (0, told.out)
    assert sordino(*asked, "--null", "x").code == 8


def test_who_loses_the_race_for_a_goal_is_told_so(sordino, count, account, monkeypatch):
    """The other start may have left too little for it."""
    goal = ("--goal", "\u00b120")
    whole = Ledger.find_run
    seen = []

    def pay(self, run):
        found = whole(self, run)
        if not seen and found is None:
            seen.append(run)
            monkeypatch.setattr(Ledger, "find_run", whole)
            assert count(*goal, epsilon=None).code == 0
            Ledger.open(account[1], account="shop").reserve(Pure(epsilon=8.7))
        return found

    monkeypatch.setattr(Ledger, "find_run", pay)
    lost = count(*goal, epsilon=None)
    assert (lost.code, lost.out) == (8, ""), lost.err


def test_what_a_run_needs_is_said_before_anything_is_read(sordino, count, account, orders, told):
    for more, says in (
        (("--dry-run",), "--run-id cannot be combined with --dry-run"),
        (("--run-id", "tuesday"), "at most once"),
    ):
        seen = count(*more)
        assert (seen.code, seen.out) == (2, "")
        assert says in seen.err
    assert "--run-id must be 1 to 100 letters" in count(run="a b").err
    free = ("count", orders, "--units", "--user", "customer", "--epsilon", 1, "--no-ledger")
    assert "give --ledger URL and --account NAME" in sordino(*free, "--run-id", "x").err
    stream = ("above", "-", "--threshold", 1, "-c", 1, "--epsilon", 1, "--sensitivity", 1, *account)
    assert "--run-id is for a table" in told("", *stream, "--run-id", "x").err
    assert spent(account) == (0, 0)


def test_a_run_that_could_not_be_kept_is_printed_once(count, account, monkeypatch):
    from sordino.ledger import Charge

    def away(*_):
        raise OSError

    monkeypatch.setattr(Charge, "keep", away)
    first = count()
    assert (first.code, first.json["kept"]) == (7, False)
    monkeypatch.undo()
    again = count()
    assert (again.code, again.out) == (8, "")
    assert spent(account) == (1, 1)


def test_scores_and_looks_again_are_runs_too(sordino, count, account, orders, tmp_path):
    kept = count().json["id"]
    look = ("remeasure", orders, "--release", kept, "--epsilon", 1, *account, "--run-id", "again")
    looks = [sordino(*look) for _ in range(2)]
    assert looks[0].out == looks[1].out
    assert (looks[0].code, spent(account)) == (0, (2, 2))
    (tmp_path / "scores.csv").write_text("name,score\na,3\nb,9\n", encoding="utf-8")
    made = (
        "ledger",
        "create",
        *account[:2],
        "--account",
        "scores",
        "--epsilon",
        3,
        "--row-is-unit",
    )
    assert sordino(*made, "--source", "name:scores").code == 0
    best = ("select", tmp_path / "scores.csv", "--score", "score", "--sensitivity", 1)
    best = (*best, "--epsilon", 1, *account[:2], "--account", "scores", "--run-id", "monday")
    chosen = [sordino(*best) for _ in range(2)]
    assert chosen[0].out == chosen[1].out
    assert chosen[0].code == 0
    assert Ledger.open(account[1], account="scores").statement().spent == 1


def test_a_program_pays_once_for_a_run_too(account, orders):
    import sordino as sd

    ledger = Ledger.open(account[1], account="shop").for_run("monday", {"job": "night"})
    with sd.Session(orders, unit=sd.PrivacyUnit("customer"), ledger=ledger) as session:
        first = session.count_distinct_units(epsilon=1)
        session.keep(first)
        with pytest.raises(sd.RunTaken):
            session.count_distinct_units(epsilon=1)
    # Another run is not dropped in silence.
    with pytest.raises(sd.InvalidParameter, match="account for run 'monday'; got 'tuesday'"):
        ledger.reserve(Pure(epsilon=1), run="tuesday")
    line = ledger.find_run("monday")
    assert (line.id, line.detail["job"], line.kept) == (first.receipt.id, "night", 1)
    assert spent(account) == (1, 1)
