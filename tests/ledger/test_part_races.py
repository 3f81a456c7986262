"""Parts under many writers at once: what the lock, the decision and the second guard each do, and twins without them."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import psycopg
import pytest

from ledger.fakes import NANO, raw
from ledger.parted import check, make_parted
from sordino.cost import Pure
from sordino.errors import LedgerConflict, LedgerError
from sordino.ledger import Budget, Ledger, PartRange
from sordino.ledger.account.changes import request
from sordino.ledger.amounts import exact_amounts
from sordino.ledger.operation import rendered
from sordino.ledger.played_parts import Touched
from sordino.ledger.renyi import NOTHING
from sordino.ledger.schema import DRAW, GRANT, RESERVE, SETTLE, VOID
from sordino.ledger.schema_parts import (
    DRAW_PARTS,
    GRANT_PARTS,
    RESERVE_PARTS,
    SETTLE_PARTS,
    VOID_PARTS,
)
from sordino.ledger.store import postgres
from sordino.ledger.store.store import carry_out
from support.postgres import fresh

WRITERS = 6
FOUR = Fraction(4, 10)


def unlocked(operation, name):
    """The twin that decides first: a conditional write that looks at other rows than the one it waits for."""
    return replace(operation, name=name, locked="")


def without_guard(operation):
    """The twin whose rows may say that a part is beyond its limits."""
    statements = list(operation.statements)
    [place] = [n for n, one in enumerate(statements) if ", broken = " in one]
    start, end = statements[place].index(", broken = "), statements[place].rindex(" WHERE name =")
    statements[place] = statements[place][:start] + statements[place][end:]
    return replace(operation, statements=tuple(statements))


def build(url, operation):
    raw(url, rendered(postgres._function_definition(operation), "~", "_@"))


def call(connection, operation, parameters):
    names = list(operation.parameters)
    marks = ", ".join("%s" for _ in names)
    sql = f"SELECT sordino.{operation.name}({marks})"
    return connection.execute(sql.encode(), [parameters[name] for name in names]).fetchone()[0]


def asked(ledger, epsilon, spans, **changed):
    """The parameters of a reservation, as the ledger makes them."""
    touched = Touched(tuple(spans), whole=not spans)
    made = request(
        ledger._pages.facts,
        [Pure(epsilon=epsilon)],
        label=None,
        unit=None,
        source=None,
        adjacency=None,
        reading=None,
        detail=None,
        allow_approximate=False,
        touched=touched,
    )
    return made[3] | {"key": made[2]} | changed


def wait_for(looker, ledger, many):
    """Wait until so many clients wait for a lock; `looker` is in no transaction, which would see one moment alone."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    sql += " AND wait_event_type = 'Lock'"
    end = time.monotonic() + 20
    while looker.execute(sql, [ledger.account]).fetchone() != (many,):
        assert time.monotonic() < end
        time.sleep(0.001)


def race(url, ledger, operation, rounds):
    """Let writers charge ranges that share a part, and start only when all of them wait for the row of the account.

    Return what became of the calls, and how often which part was charged.
    """
    together, outcomes, lock = threading.Barrier(WRITERS + 1), Counter(), threading.Lock()
    counts = Counter()

    def write(which):
        chance = random.Random(which)
        with psycopg.connect(url, autocommit=True, application_name=ledger.account) as connection:
            for number in range(rounds):
                middle = 20 * number
                low, high = middle - chance.randint(0, 4), middle + chance.randint(0, 4)
                parameters = asked(ledger, FOUR, [PartRange(low, high)])
                together.wait()
                try:
                    done = call(connection, operation, parameters)
                except psycopg.Error as error:
                    done = type(error).__name__
                with lock:
                    outcomes[done] += 1
                    if done is True:
                        counts.update(range(low, high + 1))
                together.wait()

    with (
        ThreadPoolExecutor(WRITERS) as pool,
        psycopg.connect(url, autocommit=True) as holder,
        psycopg.connect(url, autocommit=True) as looker,
    ):
        running = [pool.submit(write, which) for which in range(WRITERS)]
        for _ in range(rounds):
            with holder.transaction():
                holder.execute("SELECT 1 FROM sordino.account FOR UPDATE")
                together.wait()
                wait_for(looker, ledger, WRITERS)
            together.wait()
        for one in running:
            one.result()
    return outcomes, counts


@pytest.mark.parametrize("rounds", [10, pytest.param(150, marks=pytest.mark.slow)])
def test_who_decides_before_the_lock_overspends_and_who_locks_first_does_not(rounds):
    """On accounts of both rules; the guard is alone where one of two sums is enough, else the account has another."""
    url = fresh()
    delta = {"delta": 1e-6, "failures": 1e-7}
    for name, budget in (("pure", {}), ("either", delta)):
        ledger = make_parted(url, account=name, **budget)
        fitting = ledger._pages.facts.limits.count_more(NOTHING, needed(ledger))
        assert 1 < fitting < WRITERS
        outcomes, counts = race(url, ledger, RESERVE_PARTS, rounds)
        # No more, and no less (I7).
        assert set(outcomes) == {True, False}
        assert max(counts.values()) == fitting
        assert all(counts[20 * number] == fitting for number in range(rounds))
        check(ledger)
    # The guard alone: nothing is beyond, and charges end as errors.
    build(url, guarded := unlocked(RESERVE_PARTS, "guarded"))
    ledger = make_parted(url, account="guarded", **delta)
    outcomes, counts = race(url, ledger, guarded, rounds)
    assert (max(counts.values()), outcomes["CheckViolation"] > 0) == (fitting, True)
    # Neither.
    build(url, bare := without_guard(unlocked(RESERVE_PARTS, "bare")))
    ledger = make_parted(url, account="bare", **delta)
    outcomes, counts = race(url, ledger, bare, rounds)
    assert sum(counts[20 * number] > fitting for number in range(rounds)) == rounds
    problems = ledger.verify().problems
    assert any("more spent than the limit allows" in one for one in problems)


def needed(ledger):
    return exact_amounts(Pure(epsilon=FOUR), ledger._pages.facts.meter_at_order).rounded_up()


def settled_behind(url, ledger, settle):
    """Let a settlement wait for the row of the account behind a reservation; return what the replay says."""
    first = asked(ledger, FOUR, [PartRange(1, 1)])
    closing = {**first, "reserved": 4 * 10**8, "drawn": 0, "draws": 0}
    closing |= {"amount": 0, "pure": 0, "failing": 0}

    def do(operation, parameters):
        with psycopg.connect(url, autocommit=True, application_name=ledger.account) as connection:
            return call(connection, operation, parameters)

    assert do(RESERVE_PARTS, first)
    with (
        ThreadPoolExecutor(2) as pool,
        psycopg.connect(url, autocommit=True) as holder,
        psycopg.connect(url, autocommit=True) as looker,
    ):
        running = []
        with holder.transaction():
            holder.execute("SELECT 1 FROM sordino.account FOR UPDATE")
            for operation, parameters in (
                (RESERVE_PARTS, asked(ledger, FOUR, [PartRange(9, 9)])),
                (settle, closing),
            ):
                running.append(pool.submit(do, operation, parameters))
                wait_for(looker, ledger, len(running))
        assert [one.result() for one in running] == [True, True]
    return ledger.verify().problems


def test_a_settlement_that_does_not_lock_writes_sums_that_are_stale():
    url = fresh()
    real = make_parted(url)
    assert settled_behind(url, real, SETTLE_PARTS) == ()
    check(real)
    build(url, twin := unlocked(SETTLE_PARTS, "settle_twin"))
    problems = settled_behind(url, make_parted(url, account="twin"), twin)
    assert any("states another sum than its events have" in one for one in problems)


WRONG = {
    "below nothing": {"whole": -1},
    "twice": {"whole": 2},
    "whole and ranges": {"whole": 1},
    "nothing": {"ranges": ""},
    "backwards": {"ranges": "+00000009+00000005"},
    "overlapping": {"ranges": "+00000005+00000009+00000009+00000012"},
    "not in order": {"ranges": "+00000009+00000009+00000001+00000002"},
    "too many": {"ranges": "+00000005+00004101"},
    "closed": {"ranges": "+00000003+00000009"},
    "another close": {"closed": 2},
    "no close": {"closed": -(2**63)},
    "nothing spent": {"amount": 0},
    "less than nothing": {"amount": -1},
    "too much": {"amount": 9 * 10**18 + 1},
    "the largest": {"amount": 2**63 - 1},
    "another key": {"parts": ""},
    "a flag": {"impure": 1},
    "a delta": {"failing": 1},
    "no amount": {"amount": None},
    "no whole": {"whole": None},
    "no ranges": {"ranges": None},
    "no closed": {"closed": None},
}


def test_what_no_client_asks_is_refused_by_the_statements_themselves(tmp_path):
    """On a server whoever may charge may call the functions with anything."""
    for place in (str(tmp_path / "budget.db"), fresh()):
        refuse_all(place)


def refuse_all(place):
    ledger = make_parted(place)
    ledger.reserve(Pure(epsilon=0.4))
    ledger.close_parts(3)
    ledger = Ledger.open(place, account="orders")
    full = ledger.reserve(Pure(epsilon=0.6), parts=PartRange(10, 10))
    part = PartRange(5, 8)
    store, before = ledger._store, dump(place)
    for what, changed in WRONG.items():
        parameters = asked(ledger, 0.1, [part], **changed)
        with suppress(LedgerError):
            assert not carry_out(store, RESERVE_PARTS, parameters, account="orders"), what
        assert dump(place) == before, what
    # Of the whole table as well, where one part is full; and with others beside it (I8).
    for ranges in ([], [PartRange(10, 10)], [PartRange(5, 10)], [part, PartRange(10, 4000)]):
        parameters = asked(ledger, Fraction(1, NANO), ranges)
        assert not carry_out(store, RESERVE_PARTS, parameters, account="orders")
    assert dump(place) == before
    # What is for accounts without parts does nothing to one with them, and the other way round.
    plain = asked(ledger, 0.1, [part])
    closing = {
        "account": "orders",
        "charge": full.id,
        "key": full._key,
        "reserved": 6 * 10**8,
        **dict.fromkeys(("drawn", "draws", "amount", "pure", "failing"), 0),
        "body": "{}",
    }
    drawing = closing | {"slot": 0, "before": 0, "amount": 1, "body": '{"slot": 0}'}
    share = {**drawing, "parent": "orders", "child": "c", "impure": 0}
    assert not carry_out(store, RESERVE, plain, account="orders")
    assert not carry_out(store, GRANT, share, account="orders")
    for operation, given in ((SETTLE, closing), (VOID, closing), (DRAW, drawing)):
        with pytest.raises(LedgerConflict):
            carry_out(store, operation, given, account="orders")
    assert dump(place) == before
    other = Ledger.create(
        place,
        account="plain",
        budget=Budget(epsilon=1),
        adjacency="add-remove",
        unit="c",
        source="name:p",
    )
    one, before = other.reserve(Pure(epsilon=0.4)), dump(place)
    about = {"account": "plain", "charge": one.id, "key": one._key, "reserved": 4 * 10**8}
    for operation, given in (
        (SETTLE_PARTS, closing | about),
        (VOID_PARTS, closing | about),
        (DRAW_PARTS, drawing | about),
    ):
        with pytest.raises(LedgerConflict):
            carry_out(store, operation, given, account="plain")
    assert not carry_out(store, GRANT_PARTS, share | {"parent": "plain"}, account="plain")
    assert dump(place) == before
    # The rules of the rows, behind all statements.
    for sql in (
        "UPDATE ~account SET closed = NULL WHERE name = 'orders'",
        "UPDATE ~account SET base = NULL WHERE name = 'orders'",
        "UPDATE ~account SET base = -1 WHERE name = 'orders'",
        "UPDATE ~account SET broken = 1 WHERE name = 'orders'",
        "UPDATE ~account SET broken = NULL WHERE name = 'orders'",
        "UPDATE ~charge SET whole = -1",
        "UPDATE ~charge SET closed = NULL",
        "UPDATE ~part SET spent = NULL",
        "UPDATE ~part SET impure = NULL",
        "UPDATE ~part SET spent = -1",
        "UPDATE ~span SET high = low - 1",
    ):
        with pytest.raises(Exception, match=r"(?i)constraint"):
            raw(place, sql)
    assert dump(place) == before
    check(ledger)


def dump(place):
    return [
        raw(place, f"SELECT * FROM ~{table} ORDER BY {order}")
        for table, order in (
            ("account", "name"),
            ("charge", "id"),
            ("event", "account, number"),
            ("part", "account, key"),
            ("span", "charge, low"),
        )
    ]


@pytest.mark.parametrize("many", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_planted_overlaps_are_refused_and_what_is_apart_is_admitted(many, tmp_path):
    """I8: ranges that share one part with a full one, by any end, in any list; and a tenth as many that share none."""
    chance = random.Random(3)
    for place in (str(tmp_path / "budget.db"), fresh()):
        ledger = make_parted(place)
        full = sorted(chance.sample(range(4000), 40))
        ledger.reserve(Pure(epsilon=1), parts=[PartRange(key, key) for key in full])
        store = ledger._store
        for _ in range(many):
            key = chance.choice(full)
            low, high = key - chance.choice((0, 0, 1, 30)), key + chance.choice((0, 0, 1, 30))
            ranges = [PartRange(low, high)]
            if chance.random() < 0.3:
                ranges = [PartRange(-9, -5), *ranges, PartRange(5000, 5003)]
            parameters = asked(ledger, Fraction(1, NANO), ranges)
            assert not carry_out(store, RESERVE_PARTS, parameters, account="orders")
        free = sorted(set(range(4000)) - set(full))
        for _ in range(many // 10):
            key = chance.choice(free)
            parameters = asked(ledger, Fraction(1, NANO), [PartRange(key, key)])
            assert carry_out(store, RESERVE_PARTS, parameters, account="orders")
        check(ledger)
