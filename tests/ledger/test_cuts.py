"""PostgreSQL with everything that can go wrong in between: each operation happens once or not at all, and is known to its caller."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress

import pytest

from ledger.fakes import child, finished, make, refused, spent
from ledger.faults import POINTS, Proxy, blockade, once, trigger
from ledger.operations import happened, prepare
from sordino.errors import LedgerError
from sordino.ledger import Ledger
from sordino.ledger.store import postgres
from sordino.process import Process

NAMES = tuple(POINTS)
USUAL = ("reserve", "draw", "settle", "keep")
EVERY = [
    pytest.param(name, marks=() if name in (*USUAL, "grant") else pytest.mark.slow)
    for name in NAMES
]
WHERE = [
    pytest.param(
        name, point, moment, marks=() if name in USUAL and moment == "BEFORE" else pytest.mark.slow
    )
    for name, points in POINTS.items()
    for point in points
    for moment in ("BEFORE", "AFTER")
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    from sordino.ledger.store import store

    monkeypatch.setattr(store, "_FIRST_WAIT", 0.001)


def done_once(struck, name):
    """Check that the operation was done exactly once, whatever stood in its way."""
    assert spent(struck.ledger) == struck.after
    assert happened(name, struck.ledger) == 1
    assert struck.noise == (name in {"draw", "settle", "void", "keep"})


def not_done(struck, name):
    assert spent(struck.ledger) == struck.before
    assert happened(name, struck.ledger) == 0
    assert struck.noise == (name in {"settle", "void", "keep"})


def in_background(do):
    """Start an operation in a thread; return how to wait for it and what it raised."""
    errors = []

    def run():
        try:
            do()
        except LedgerError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


@pytest.mark.parametrize("manner", ["before", "after", "middle", "at once"])
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.sample(4)
def test_a_connection_that_is_cut_at_an_operation(server, tmp_path, name, manner):
    make(server)
    with Proxy(server) as proxy:
        struck = prepare(name, Ledger.open(proxy.url, account="orders"), tmp_path / "mark")
        proxy.plan = once(f"sordino.{struck.function}(", manner)
        if name == "grant":  # a second one would be a second one
            refused(struck.do, "cannot be reached")
            wanted = {"before": [0], "after": [1], "middle": [1], "at once": [0, 1]}[manner]
            assert happened(name, struck.ledger) in wanted
            assert spent(struck.ledger) == (
                struck.after if happened(name, struck.ledger) else struck.before
            )
        else:
            struck.do()
            done_once(struck, name)
        assert proxy.cuts == 1


@pytest.mark.parametrize("name", [one for one in EVERY if "grant" not in one.values])
@pytest.mark.sample(4)
def test_a_connection_that_is_cut_again_while_its_outcome_is_looked_up(server, tmp_path, name):
    make(server)
    with Proxy(server) as proxy:
        struck = prepare(name, Ledger.open(proxy.url, account="orders"), tmp_path / "mark")
        manners = ["after", "before", "middle", "after"]

        def plan(message):
            strikes = f"sordino.{struck.function}(".encode() in message or b"AND body = " in message
            return manners.pop(0) if manners and strikes else None

        proxy.plan = plan
        struck.do()
        assert proxy.cuts == 4
        proxy.plan = lambda message: None
        done_once(struck, name)


@pytest.mark.parametrize(("name", "point", "moment"), WHERE)
@pytest.mark.sample(4)
def test_a_backend_that_is_terminated_between_two_statements(server, tmp_path, name, point, moment):
    struck = prepare(name, make(server), tmp_path / "mark")
    with blockade(server, point, moment) as barrier:
        thread, errors = in_background(struck.do)
        barrier.terminate()
        barrier.lift()
        thread.join()
    if name == "grant":
        assert len(errors) == 1
        not_done(struck, name)
    else:
        assert errors == []
        done_once(struck, name)


@pytest.mark.parametrize(("name", "point", "moment"), WHERE)
@pytest.mark.sample(4)
def test_a_connection_that_is_cut_while_the_server_goes_on(server, tmp_path, name, point, moment):
    """The retry meets the first attempt, which commits later: one of the two counts."""
    make(server)
    with Proxy(server) as proxy:
        struck = prepare(name, Ledger.open(proxy.url, account="orders"), tmp_path / "mark")
        with blockade(server, point, moment) as barrier:
            thread, errors = in_background(struck.do)
            barrier.waiting()
            proxy.cut()
            if name != "grant":
                barrier.waiting(2)  # the first attempt and the second
            barrier.lift()
            thread.join()
        if name == "grant":
            assert len(errors) == 1
            assert happened(name, struck.ledger) in {0, 1}
            assert spent(struck.ledger) == (
                struck.after if happened(name, struck.ledger) else struck.before
            )
        else:
            assert errors == []
            done_once(struck, name)


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["goes on", "is terminated"])
@pytest.mark.parametrize(("name", "point", "moment"), WHERE)
def test_a_client_that_is_killed_while_the_server(server, tmp_path, name, point, moment, ends):
    ledger, mark = make(server), tmp_path / "mark"
    struck = prepare(name, ledger, mark)
    used = struck.noise

    def doomed():
        for thing in struck.do.__closure__ or ():
            with suppress(AttributeError):
                thing.cell_contents._process = Process()  # stands for the process that reserved it
        charge = getattr(struck.do, "__self__", None)
        if charge is not None:
            charge._process = Process()
        struck.do()

    with blockade(server, point, moment) as barrier:
        process = child(doomed)
        barrier.waiting()
        os.kill(process, signal.SIGKILL)
        assert finished(process) == -signal.SIGKILL
        if ends == "is terminated":
            barrier.terminate()
        barrier.lift()
    done = ends == "goes on"
    assert spent(ledger) == (struck.after if done else struck.before)
    assert happened(name, ledger) == done
    assert struck.noise == used  # nobody was left to draw any


@pytest.mark.parametrize(
    ("name", "point", "moment"), [one for one in WHERE if "BEFORE" in one.values]
)
@pytest.mark.sample(4)
def test_a_full_disk_at_every_write_changes_nothing(server, tmp_path, name, point, moment):
    struck = prepare(name, make(server), tmp_path / "mark")
    with trigger(
        server, point, moment, "RAISE disk_full USING MESSAGE = 'private words of the server'"
    ):
        assert "private" not in refused(struck.do, "because the disk is full")
    not_done(struck, name)
    struck.do()
    done_once(struck, name)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.sample(4)
def test_a_lock_that_is_never_given(server, tmp_path, monkeypatch, name):
    wait = f"'{postgres._LOCK_SECONDS}s'"
    assert wait in postgres._REQUIRE_DURABLE_COMMIT
    monkeypatch.setattr(
        postgres,
        "_REQUIRE_DURABLE_COMMIT",
        postgres._REQUIRE_DURABLE_COMMIT.replace(wait, "'50ms'"),
    )
    struck = prepare(name, make(server), tmp_path / "mark")
    with blockade(server, POINTS[name][-1], "BEFORE"):
        refused(struck.do, "was locked by another process for longer than")
    not_done(struck, name)
    struck.do()
    done_once(struck, name)
