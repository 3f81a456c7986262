"""Many writers on one account: never over budget, no charge lost, none made twice."""

from __future__ import annotations

import os
import random
import threading
from fractions import Fraction

import psycopg
import pytest

from ledger.fakes import REAL, Marking, child, finished, in_threads, make, raw, spent
from ledger.faults import Proxy
from ledger.operations import REALLY, RESERVED, WORST
from sordino.cost import Pure
from sordino.errors import BudgetExceeded, LedgerConflict
from sordino.ledger import Ledger
from sordino.ledger.store import store

EACH = Fraction(1, 1000)


def fill(ledger, charges):
    """Reserve again and again; return the ids that were granted."""
    keys = []
    for _ in range(charges):
        try:
            keys.append(ledger.reserve(Pure(epsilon=EACH)).id)
        except BudgetExceeded:
            continue
    return keys


def check_full(ledger, keys, room):
    assert len(keys) == len(set(keys)) == room
    assert {line.id for line in ledger.statement().charges} == set(keys)
    assert spent(ledger) == room * EACH == ledger.statement().limit


def with_threads(place, writers, charges, room):
    ledger, keys = make(place, room * EACH), []
    # Each writer has a ledger of its own, as if it were on a host of its own.
    in_threads(
        [lambda: keys.extend(fill(Ledger.open(place, account="orders"), charges // writers))]
        * writers
    )
    check_full(ledger, keys, room)


@pytest.mark.sample(4)
def test_8_writers_with_more_charges_than_fit(place):
    with_threads(place, 8, 320, 250)


@pytest.mark.slow
def test_32_writers_and_10000_charges_into_room_for_9000(server):
    with_threads(server, 32, 10_016, 9_000)


def with_processes(place, folder, processes, charges, room):
    ledger = make(place, room * EACH)

    def work():
        keys = fill(ledger, charges // processes)
        (folder / f"keys-{os.getpid()}").write_text("\n".join(keys))

    assert [finished(process) for process in [child(work) for _ in range(processes)]] == [
        0
    ] * processes
    check_full(
        ledger, [key for path in folder.glob("keys-*") for key in path.read_text().split()], room
    )


@pytest.mark.slow
def test_8_processes_with_more_charges_than_fit(place, tmp_path):
    with_processes(place, tmp_path, 8, 240, 200)


@pytest.mark.slow
def test_8_processes_and_4000_charges_into_room_for_3500(place, tmp_path):
    with_processes(place, tmp_path, 8, 4_000, 3_500)


@pytest.mark.sample(4)
def test_grants_and_charges_at_once_stay_within_the_limit(place):
    ledger, granted = make(place, 100 * EACH), []

    def grant(child):
        for _ in range(20):
            try:
                ledger.grant(child, EACH)
                granted.append(child)
            except BudgetExceeded:
                continue
            except LedgerConflict as twice:  # two of them were about to make the child
                assert "try again" in str(twice)

    keys = []
    in_threads(
        [
            lambda: grant("red"),
            lambda: grant("blue"),
            lambda: grant("red"),
            lambda: keys.extend(fill(ledger, 60)),
        ]
    )
    assert (len(keys) + len(granted)) * EACH == spent(ledger) == ledger.statement().limit
    assert ledger.statement().shares == {name: granted.count(name) * EACH for name in set(granted)}
    for name in set(granted):
        assert spent(Ledger.open(place, account=name)) == 0


def whole(ledger, mark, unit):
    """Make one whole charge; return its id."""
    with ledger.reserve(Pure(epsilon=RESERVED * unit)) as charge:
        charge.release(Marking(WORST * unit, REALLY * unit, mark), [1], entropy=REAL)
    return charge.id


@pytest.mark.parametrize("faults", [25, pytest.param(1000, marks=pytest.mark.slow)])
def test_faults_of_every_kind_at_random_moments(server, tmp_path, monkeypatch, faults):
    """Connections are cut before, in and after every kind of message and sessions are terminated, while four writers go on."""
    monkeypatch.setattr(store, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(store, "PATIENCE", 120.0)
    chance, unit, ended = random.Random(7), Fraction(1, 10**6), threading.Event()
    make(server)
    with Proxy(server) as proxy:
        ledger = Ledger.open(proxy.url, account="orders")
        struck, keys = [0], []
        proxy.plan = lambda message: (
            chance.choice(["before", "after", "middle", "at once"])
            if chance.random() < 0.1
            else None
        )

        def write(lane):
            while proxy.cuts + struck[0] < faults:
                keys.append(whole(ledger, tmp_path / f"mark-{lane}", unit))

        def terminate():
            with psycopg.connect(server, autocommit=True) as connection:
                while not ended.wait(0.03):
                    found = connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE application_name = 'sordino' AND datname = current_database() ORDER BY random() LIMIT 1"
                    )
                    struck[0] += len(found.fetchall())

        striking = threading.Thread(target=terminate)
        striking.start()
        try:
            in_threads([lambda lane=lane: write(lane) for lane in range(4)])
        finally:
            ended.set()
            striking.join()
            proxy.plan = lambda message: None
    ledger = Ledger.open(server, account="orders")
    lines = ledger.statement().charges
    assert len(keys) == len(set(keys)) > faults // 50
    assert {line.id for line in lines} == set(keys)
    assert {(line.state, line.drawn, line.settled) for line in lines} == {
        ("settled", WORST * unit, REALLY * unit)
    }
    assert spent(ledger) == len(keys) * REALLY * unit
    assert sum(path.stat().st_size for path in tmp_path.glob("mark-*")) == len(
        keys
    )  # every draw was used once
    assert raw(server, "SELECT count(*) FROM ~event") == [(1 + 3 * len(keys),)]
