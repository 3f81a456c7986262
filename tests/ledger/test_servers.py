"""What a PostgreSQL server may do and be: restart, end sessions, have defaults of its own, stand behind a pooler."""

from __future__ import annotations

import signal
import sys
import threading
import time
import warnings
from fractions import Fraction

import psycopg
import pytest

from ledger.fakes import (
    PLACE,
    REAL,
    Mechanism,
    child,
    finished,
    in_child,
    in_threads,
    make,
    raw,
    refused,
    spent,
)
from ledger.test_many import EACH, fill
from sordino.cost import Pure
from sordino.errors import BudgetExceeded
from sordino.ledger import Budget, Ledger
from sordino.ledger.schema import OPERATIONS
from sordino.ledger.store import postgres, store
from support.postgres import fresh, own_server

SERIALIZABLE = "default_transaction_isolation%3Dserializable"
REPEATABLE = "default_transaction_isolation%3Drepeatable%5C%20read"


@pytest.fixture
def own():
    """Return the address of a database in a cluster that a test may stop."""
    cluster = own_server()
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS sordino CASCADE")
    return cluster


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT], ids=["crashes", "restarts"])
@pytest.mark.sample(4)
def test_writers_go_on_by_themselves_when_the_server(own, how):
    ledger, keys, stopped = make(own.url(), 10), [], []

    def write():
        while len(stopped) < 2:
            keys.extend(fill(ledger, 5))
        with ledger.reserve(Pure(epsilon=EACH)) as charge:
            charge.release(Mechanism(EACH, spends=0), [1], entropy=REAL)
        keys.append(charge.id)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for _ in range(2):
        time.sleep(0.1)
        own.stop(how)
        own.start()
        time.sleep(0.1)
        stopped.append(1)
    for writer in writers:
        writer.join()
    assert {line.id for line in ledger.statement().charges} == set(keys)
    assert len(set(keys)) == len(keys) > 20
    assert spent(ledger) == (len(keys) - 4) * EACH


def test_the_first_charge_of_a_ledger_waits_for_a_server_too(own):
    """A ledger that was opened before, or by its name alone, asks the server what the account is for."""
    made = make(own.url(), EACH)
    at_once = Ledger(own.url(), "orders")
    postgres.close_waiting()
    own.stop(signal.SIGQUIT)
    keys, waiting = [], threading.Event()

    def write():
        waiting.set()
        keys.append(at_once.reserve(Pure(epsilon=EACH)).id)

    writer = threading.Thread(target=write)
    writer.start()
    waiting.wait()
    time.sleep(0.2)
    own.start()
    writer.join()
    assert [line.id for line in made.statement().charges] == keys


def test_a_refusal_waits_for_a_server_that_goes_after_the_charge_was_tried(own, monkeypatch):
    """Whether it fits is asked once more, to say how much remains."""
    ledger, applied, back = make(own.url(), EACH), postgres.PostgresStore.apply, []
    ledger.reserve(Pure(epsilon=EACH))

    def apply(self, operation, parameters):
        done = applied(self, operation, parameters)
        own.stop(signal.SIGQUIT)
        back.append(threading.Timer(0.2, own.start))
        back[0].start()
        return done

    monkeypatch.setattr(postgres.PostgresStore, "apply", apply)
    with pytest.raises(BudgetExceeded, match="Nothing of the budget"):
        ledger.reserve(Pure(epsilon=EACH))
    back[0].join()
    assert len(back) == 1


def test_a_server_that_stays_away_is_given_up(own, monkeypatch):
    monkeypatch.setattr(store, "PATIENCE", 0.2)
    ledger, mechanism = make(own.url()), Mechanism(0.1)
    charge = ledger.reserve(Mechanism(0.5))
    own.stop(signal.SIGQUIT)
    try:
        started = time.monotonic()
        refused(lambda: ledger.reserve(Mechanism(0.1)), "cannot be reached")
        assert 0.2 <= time.monotonic() - started < 60
        refused(lambda: Ledger(own.url(), "orders").reserve(Mechanism(0.1)), "cannot be reached")
        refused(lambda: charge.release(mechanism, [1], entropy=REAL), "cannot be reached")
        refused(lambda: ledger.remaining, "cannot be reached")
        refused(lambda: Ledger.open(own.url(), account="orders"), "cannot be reached")
        refused(lambda: make(own.url()), "cannot be reached")
        refused(lambda: Ledger.accounts(own.url()), "cannot be reached")
    finally:
        own.start()
    assert mechanism.noise == []
    charge.release(mechanism, [1], entropy=REAL)
    charge.settle()
    assert spent(ledger) == Fraction(1, 10)


def test_a_stopped_session_between_two_charges_is_not_noticed(server):
    ledger = make(server, 1)
    for _ in range(3):
        keys = fill(ledger, 2)
        assert len(keys) == 2
        fresh_sessions = raw(
            server,
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'sordino'",
        )
        assert fresh_sessions
        assert (
            ledger.grant("team", EACH).remaining > 0
        )  # what must not be done twice is not lost either
    assert spent(ledger) == 9 * EACH


@pytest.mark.parametrize("setting", [SERIALIZABLE, REPEATABLE, "synchronous_commit%3Doff"])
@pytest.mark.sample(4)
def test_defaults_of_the_server_do_not_matter(server, monkeypatch, setting):
    monkeypatch.setattr(store, "_FIRST_WAIT", 0.001)
    url, keys = f"{server}?options=-c%20{setting}", []
    ledger = make(url, 60 * EACH)
    in_threads([lambda: keys.extend(fill(ledger, 20))] * 4)
    assert {line.id for line in ledger.statement().charges} == set(keys)
    assert (len(keys), spent(ledger)) == (60, 60 * EACH)


def test_a_read_only_server_says_so(server):
    make(server)
    ledger = Ledger.open(
        f"{server}?options=-c%20default_transaction_read_only%3Don", account="orders"
    )
    assert ledger.remaining == 1
    refused(lambda: ledger.reserve(Mechanism(0.1)), "is read-only")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@pytest.mark.parametrize("asked", ["off", "local", "remote_write", "on", "remote_apply"])
@pytest.mark.sample(4)
def test_every_operation_insists_on_a_durable_commit(server, operation, asked):
    make(server)
    texts = {
        "charge": "9f" * 16,
        "digest": "9f" * 32,
        "lock": "9f" * 32,
        "body": "{}",
        "sheet": "{}",
        "ranges": "",
    }
    values = [
        0 if kind == "bigint" else texts.get(name, "pure")
        for name, kind in operation.parameters.items()
    ]
    with psycopg.connect(server) as connection:
        connection.execute(f"SET synchronous_commit = {asked}".encode())
        connection.commit()
        marks = ", ".join(["%s"] * len(values))
        connection.execute(f"SELECT sordino.{operation.name}({marks})".encode(), values)
        assert connection.execute("SHOW synchronous_commit").fetchone() == (
            "on" if asked in {"off", "local"} else asked,
        )
        connection.rollback()
        assert connection.execute("SHOW synchronous_commit").fetchone() == (asked,)


def test_a_pooler_may_change_the_session_between_two_statements(server):
    ledger = make(server)
    for k in range(12):  # a driver would prepare a statement after five
        with ledger.reserve(Mechanism(0.01), label=f"{k}") as charge:
            for waiting in postgres._idle_connections.values():
                for _, connection in waiting:
                    connection.execute("DISCARD ALL")
            charge.release(Mechanism(0.01), [1], entropy=REAL)
        assert not raw(server, "SELECT 1 FROM pg_prepared_statements")
    assert spent(ledger) == Fraction(12, 100)


def test_makers_of_a_schema_wait_for_each_other(server):
    ledgers = []
    in_threads([lambda k=k: ledgers.append(make(server, 1, f"account {k}")) for k in range(6)])
    assert Ledger.accounts(server) == tuple(f"account {k}" for k in range(6))
    assert [spent(ledger) for ledger in ledgers] == [0] * 6


def test_a_fork_opens_connections_of_its_own(server):
    ledger = make(server)
    keys = fill(ledger, 1)
    before = [connection.pgconn.backend_pid for _, connection in postgres._idle_connections[server]]
    assert before

    def work():
        dropped = []
        sys.unraisablehook = dropped.append
        warnings.simplefilter(
            "error"
        )  # a connection that is dropped while it is open warns of that
        fill(ledger, 3)
        assert dropped == []
        mine = [
            connection.pgconn.backend_pid for _, connection in postgres._idle_connections[server]
        ]
        assert mine
        assert not set(mine) & set(before)

    assert in_child(work) == 0
    assert [
        finished(process) for process in [child(lambda: fill(ledger, 3)) for _ in range(3)]
    ] == [0] * 3
    keys += fill(ledger, 1)
    assert all(process.is_here() for process, _ in postgres._idle_connections[server])
    assert spent(ledger) == 14 * EACH


def test_schemas_that_are_not_this_ledgers_are_left_alone(server):
    for sql, says in (
        ("CREATE SCHEMA sordino", "is not a ledger; it was left as it is"),
        ("CREATE TABLE sordino.ledger (version BIGINT)", "is not a ledger; it was left as it is"),
        (
            "INSERT INTO sordino.ledger VALUES (9)",
            "has schema 9 but this version of sordino knows schemas 4 to 8; use a newer sordino",
        ),
    ):
        raw(server, sql)
        for use in (
            lambda: make(server),
            lambda: Ledger.open(server, account="orders"),
            lambda: Ledger.accounts(server),
        ):
            refused(use, says)
    assert raw(
        server, "SELECT relname FROM pg_class WHERE relnamespace = 'sordino'::regnamespace"
    ) == [("ledger",)]


def test_a_database_without_a_ledger_says_so(server):
    for use in (lambda: Ledger.open(server, account="orders"), lambda: Ledger.accounts(server)):
        refused(use, "There is no ledger at")
    assert raw(server, "SELECT to_regnamespace('sordino')") == [(None,)]


def test_an_account_is_made_once_on_a_server(server):
    make(server)
    with pytest.raises(Exception, match="exists already"):
        Ledger.create(server, account="orders", budget=Budget(epsilon=5), **PLACE)
    assert fresh() == server
