"""A history that was forged and chained again: what cannot have happened is convicted without any noted head."""

from __future__ import annotations

import hashlib
import json
import sqlite3

import pytest

from ledger.fakes import REAL, Mechanism, make, raw, spent
from sordino.cost import Pure
from sordino.ledger import Ledger
from sordino.ledger.amounts import amount_of, nano_up

NUMBER, KIND, CHARGE, AMOUNT, SPENT, LIMIT, BODY = range(7)


def forged(url, account, change):
    """Let `change` edit the events of an account, then make the chain, the sums of the account and its charges fit again."""
    connection = sqlite3.connect(url, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    try:
        _forged(lambda sql, *parameters: connection.execute(sql, parameters).fetchall(), account, change)
    finally:
        connection.close()


def _forged(run, account, change):
    run("DROP TRIGGER event_update")
    run("DROP TRIGGER event_delete")
    columns = "number, kind, charge, amount, spent, allowance, body"
    events = [
        list(row) for row in run(f"SELECT {columns} FROM event WHERE account = ? ORDER BY number", account)
    ]
    change(events)
    run("DELETE FROM event WHERE account = ?", account)
    head = ""
    for number, event in enumerate(events, 1):
        event[NUMBER] = number
        *_, body = event
        head = hashlib.sha256(" ".join([head, *map(str, event)]).encode()).hexdigest()
        run("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')", account, *event[:BODY], head, body)
    for key in {event[CHARGE] for event in events if event[KIND] == "reserve"}:
        mine = [event for event in events if event[CHARGE] == key]
        by_kind = {
            kind: [event for event in mine if event[KIND] == kind] for kind in ("reserve", "draw", "settle")
        }
        drawn, number = sum(event[AMOUNT] for event in by_kind["draw"]), by_kind["reserve"][-1][NUMBER]
        settled = by_kind["settle"][-1][AMOUNT] if by_kind["settle"] else None
        sql = "UPDATE charge SET number = ?, reserved = ?, drawn = ?, draws = ?, settled = ? WHERE id = ?"
        run(sql, number, by_kind["reserve"][-1][AMOUNT], drawn, len(by_kind["draw"]), settled, key)
    total, limit = events[-1][SPENT], events[-1][LIMIT]
    sql = "UPDATE account SET number = ?, head = ?, spent = ?, allowance = ? WHERE name = ?"
    run(sql, len(events), head, total, limit, account)


@pytest.fixture(params=["pure", pytest.param("zcdp", marks=pytest.mark.slow)])
def used(request, tmp_path):
    """Return an account with create, reserve, draw, settle and one more reservation."""
    ledger = make(tmp_path / "budget.db", 10 if request.param == "zcdp" else 1, **FACTS[request.param])
    with ledger.reserve(Pure(epsilon=0.6)) as charge:
        charge.release(Mechanism(0.6), [1], entropy=REAL)
    ledger.reserve(Pure(epsilon=0))
    assert spent(ledger) == amount_of(nano_up(charge.reserved))
    return ledger


FACTS = {"pure": {}, "zcdp": {"delta": 1e-6, "meter": "zcdp"}}


def nothing(events):
    """Only chain again."""


def limit(events):
    for event in events:
        event[LIMIT] += 1
    events[0][AMOUNT] += 1


def overspent(events):
    events[1][AMOUNT] += 2 * events[0][LIMIT]
    for event in events[1:3]:
        event[SPENT] += 2 * events[0][LIMIT]


def middle_sum(events):
    events[2][SPENT] -= 1


def last_sum(events):
    events[-1][SPENT] -= 1


def slot(events):
    events[2][BODY] = json.dumps({**json.loads(events[2][BODY]), "slot": 1})


def no_slot(events):
    events[2][BODY] = "{}"


def label(events):
    events[1][BODY] = json.dumps({**json.loads(events[1][BODY]), "label": "another"})


def detail(events):
    events[1][BODY] = json.dumps({**json.loads(events[1][BODY]), "detail": {"k": 1}})


def twice_reserved(events):
    events.insert(2, list(events[1]))
    for event in events[2:]:
        event[SPENT] += events[1][AMOUNT]


def twice_settled(events):
    events.insert(4, list(events[3]))


def drawn_after_the_end(events):
    events.insert(4, list(events[2]))


def drawn_too_much(events):
    events[2][AMOUNT] += 1


def settled_above_what_was_drawn(events):
    events[2][AMOUNT] -= 1


def settled_below_nothing(events):
    events[3][AMOUNT] = -1
    for event in events[3:]:
        event[SPENT] -= events[1][AMOUNT] + 1


def made_twice(events):
    events.insert(1, list(events[0]))


def received_without_a_parent(events):
    events.append([0, "receive", "", 1, events[-1][SPENT], events[-1][LIMIT] + 1, "{}"])


def granted_to_nobody(events):
    events.append([0, "grant", "", 0, events[-1][SPENT], events[-1][LIMIT], '{"child": "nobody"}'])


def of_an_unknown_kind(events):
    events.append([0, "forgive", events[1][CHARGE], 0, events[-1][SPENT], events[-1][LIMIT], "{}"])


def of_an_unknown_charge(events):
    events.append([0, "draw", "9f", 0, events[-1][SPENT], events[-1][LIMIT], '{"slot": 0}'])


FORGERIES = (
    limit,
    overspent,
    middle_sum,
    last_sum,
    slot,
    no_slot,
    label,
    detail,
    twice_reserved,
    twice_settled,
    drawn_after_the_end,
    drawn_too_much,
    settled_above_what_was_drawn,
    settled_below_nothing,
    made_twice,
    received_without_a_parent,
    granted_to_nobody,
    of_an_unknown_kind,
    of_an_unknown_charge,
)


def test_chaining_again_alone_changes_nothing(used):
    forged(used.url, "orders", nothing)
    assert used.verify().problems == ()


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.__name__)
def test_what_cannot_have_happened_is_convicted(used, forgery):
    try:
        forged(used.url, "orders", forgery)
    except sqlite3.IntegrityError:  # the tables do not even hold it
        return
    found = used.verify()
    assert not found.sound
    assert not [problem for problem in found.problems if "hash" in problem]


@pytest.mark.parametrize("used", ["pure", "zcdp"], indirect=True)
def test_a_refund_of_what_was_drawn_is_convicted_on_the_zcdp_meter_only(used):
    def refund(events):
        events[3][AMOUNT] -= 1
        for event in events[3:]:
            event[SPENT] -= 1

    forged(used.url, "orders", refund)
    assert used.verify().sound == (used.statement().meter == "pure")


def test_a_child_that_gave_itself_more_is_convicted(tmp_path):
    ledger = make(tmp_path / "budget.db", 1)
    team = ledger.grant("team", 0.25)
    ledger.grant("team", 0.25)
    forged(team.url, "team", nothing)
    assert team.verify().sound

    def more(events):
        events[0][AMOUNT] += 1
        for event in events:
            event[LIMIT] += 1

    raw(team.url, "CREATE TRIGGER event_update BEFORE UPDATE ON event BEGIN SELECT 1; END")
    raw(team.url, "CREATE TRIGGER event_delete BEFORE DELETE ON event BEGIN SELECT 1; END")
    forged(team.url, "team", more)
    assert team.verify().problems == ("The limit of the account is not the share that its parent granted.",)
    assert not Ledger.open(ledger.url, account="orders").verify().sound
