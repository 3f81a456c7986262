"""A server that goes away inside a step of a charge, and comes back: the step happened once, and the process knows."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager, suppress

import psycopg
import pytest

import sordino as sd
from ledger.fakes import REAL, Mechanism, make, refused, spent
from ledger.faults import POINTS, Blockade, blockade
from ledger.operations import happened, prepare
from ledger.test_servers import own  # noqa: F401  (a fixture)
from sordino.errors import DataSourceError, LedgerError
from sordino.ledger import Ledger
from sordino.ledger.store import postgres, store
from sordino.questions import PrivacyUnit

STEPS = [
    (name, point, moment)
    for name in ("reserve", "draw", "settle", "keep")
    for point in POINTS[name]
    for moment in ("BEFORE", "AFTER")
]
QUICK = {
    ("reserve", "INSERT event", "AFTER"),
    ("draw", "UPDATE charge", "BEFORE"),
    ("settle", "UPDATE account", "AFTER"),
    ("keep", "INSERT kept", "AFTER"),
}
WHERE = [pytest.param(*step, marks=() if step in QUICK else pytest.mark.slow) for step in STEPS]


def in_background(do):
    errors = []

    def run():
        try:
            do()
        except LedgerError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


@contextmanager
def committing(url, key=7_778):
    """Let every backend stop in the middle of its commit, when all of its rows are written."""
    body = f"BEGIN PERFORM pg_advisory_xact_lock_shared({key}); RETURN NULL; END"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA faults")
        connection.execute(
            f"CREATE FUNCTION faults.late() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$".encode()
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON sordino.event DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION faults.late()"
        )
        barrier = Blockade(connection)
        connection.execute(f"SELECT pg_advisory_lock({key})".encode())
        yield barrier


def clear(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS faults CASCADE")


def crash(own, how=signal.SIGQUIT):  # noqa: F811
    own.stop(how)
    time.sleep(0.2)  # somebody tries again meanwhile
    own.start()


@pytest.mark.parametrize(("name", "point", "moment"), WHERE)
@pytest.mark.sample(4)
def test_a_server_that_crashes_between_two_statements(own, tmp_path, name, point, moment):  # noqa: F811
    struck = prepare(name, make(own.url()), tmp_path / "mark")
    with (
        suppress(psycopg.OperationalError),
        blockade(own.url(), point, moment) as barrier,
    ):  # the test's session ends too
        thread, errors = in_background(struck.do)
        barrier.waiting()
        crash(own)
    clear(own.url())
    thread.join()
    assert errors == []
    assert (spent(struck.ledger), happened(name, struck.ledger)) == (struck.after, 1)
    assert struck.noise == (name != "reserve")


@pytest.mark.parametrize(
    "how", [signal.SIGQUIT, signal.SIGINT], ids=["crashes", "ends its sessions"]
)
@pytest.mark.parametrize("name", ["reserve", "draw", "settle", "keep"])
@pytest.mark.sample(4)
def test_a_server_that_goes_in_the_middle_of_a_commit(own, tmp_path, name, how):  # noqa: F811
    struck = prepare(name, make(own.url()), tmp_path / "mark")
    with suppress(psycopg.OperationalError), committing(own.url()) as barrier:
        thread, errors = in_background(struck.do)
        barrier.waiting()
        crash(own, how)
    clear(own.url())
    thread.join()
    assert errors == []
    assert (spent(struck.ledger), happened(name, struck.ledger)) == (struck.after, 1)
    assert struck.noise == (name != "reserve")


@pytest.mark.slow
def test_a_server_that_is_away_for_one_step_leaves_what_was_charged(own, tmp_path, monkeypatch):  # noqa: F811
    """Away for the draw: no noise. Away for the settlement: the release is made, and stays charged in full."""
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    ledger, made = make(own.url()), []

    def away_for_the_draw():
        with ledger.reserve(Mechanism(0.25)) as charge:
            own.stop(signal.SIGQUIT)
            charge.release(Mechanism(0.25), [1], entropy=REAL)

    def away_for_the_settlement():
        with ledger.reserve(Mechanism(0.25)) as charge:
            made.append(charge.release(Mechanism(0.25, spends=0.125), [1], entropy=REAL))
            own.stop(signal.SIGQUIT)

    refused(away_for_the_draw, "cannot be reached")
    own.start()
    assert spent(ledger) == sd.Budget(epsilon=0.25).limit
    with pytest.warns(RuntimeWarning, match="stays in full"):
        away_for_the_settlement()
    own.start()
    assert made[0].simulated is False
    assert spent(ledger) == sd.Budget(epsilon=0.5).limit
    postgres.close_waiting()


def test_a_source_that_goes_away_in_the_middle_of_a_question_is_charged_and_says_nothing(
    own,  # noqa: F811
    tmp_path,
):
    address = f"{own.url()}#slow"
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("DROP VIEW IF EXISTS slow")
        connection.execute(
            "CREATE VIEW slow AS SELECT length(pg_advisory_xact_lock_shared(7779)::text) AS x, 'u'::text AS u"
        )
    ledger = Ledger.create(
        tmp_path / "budget.db",
        account="slow",
        budget=sd.Budget(epsilon=1),
        adjacency="add-remove",
        unit=PrivacyUnit("u"),
        source=address,
    )
    said = []

    def ask():
        with sd.Session(address, unit=PrivacyUnit("u", max_rows=1), ledger=ledger) as session:
            try:
                session.mean("x", epsilon=0.5, lower=0, cap=10)
            except DataSourceError as error:
                said.append(str(error))

    with suppress(psycopg.OperationalError), psycopg.connect(own.url(), autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(7779)")
        thread = threading.Thread(target=ask)
        thread.start()
        while not holder.execute(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory'"
        ).fetchone():
            time.sleep(0.01)
        crash(own)
    thread.join()
    assert said == [DataSourceError.AFTER_CHARGE]
    assert spent(ledger) == sd.Budget(epsilon=0.5).limit
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("DROP VIEW slow")
    postgres.close_waiting()
