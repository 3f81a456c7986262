"""The history convicts whoever changed it, and the databases refuse to change it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from fractions import Fraction

import psycopg
import pytest

from ledger.fakes import REAL, Mechanism, make, raw, spent
from sordino.cost import Pure
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerError
from sordino.ledger import Ledger
from sordino.ledger.store import sqlite

TENTH = Fraction(1, 10)


@pytest.fixture
def used(place):
    """Return an account in which everything has happened."""
    ledger = make(place)
    with ledger.reserve(Mechanism(0.2), label="prix d'été", detail={"domain": "público"}) as charge:
        charge.release(Mechanism(0.2, spends=0.1), [1], entropy=REAL)
    left = ledger.reserve(Mechanism(0.2), label="left")
    left.draw(Mechanism(0.05))
    ledger.void(ledger.reserve(Mechanism(0.1), label="dead").id, reason="its process died")
    team = ledger.grant("team", 0.1)
    assert ledger.grant("team", 0.05).account == "team"
    team.reserve(Mechanism(0.03), label="of the team")
    assert (spent(ledger), spent(team)) == (Fraction(45, 100), Fraction(3, 100))
    return ledger


def tampered(place, *statements):
    if place.startswith("postgresql:"):
        raw(place, "DROP TRIGGER append_only ON ~event")
    else:
        raw(place, "DROP TRIGGER event_update")
        raw(place, "DROP TRIGGER event_delete")
    for sql in statements:
        raw(place, sql)


def hashed(head, row):
    number, kind, charge, amount, total, limit, body = row
    covered = f"{head} {number} {kind} {charge} {amount} {total} {limit} {body}"
    return hashlib.sha256(covered.encode()).hexdigest()


COLUMNS = "number, kind, charge, amount, spent, allowance, body"


def test_the_chain_is_what_it_is_said_to_be(used, place):
    for account in ("orders", "team"):
        head = ""
        for *row, stated in raw(
            place, f"SELECT {COLUMNS}, head FROM ~event WHERE account = ? ORDER BY number", account
        ):
            head = hashed(head, row)
            assert head == stated
        assert raw(place, "SELECT head FROM ~account WHERE name = ?", account) == [(head,)]
        assert Ledger.open(place, account=account).statement().head == head


def test_the_events_tell_what_happened(used, place):
    events = list(used.history())
    assert [event.number for event in events] == list(range(1, 11))
    kinds = [
        "create",
        "reserve",
        "draw",
        "settle",
        "reserve",
        "draw",
        "reserve",
        "void",
        "grant",
        "grant",
    ]
    assert [event.kind for event in events] == kinds
    assert events[3].amount == TENTH
    assert (events[1].detail["label"], events[1].detail["detail"]) == (
        "prix d'été",
        {"domain": "público"},
    )
    assert {event.charge for event in events if event.kind in {"create", "grant"}} == {None}
    assert events[-1].spent == Fraction(45, 100)
    assert json.loads(json.dumps(events[1].to_dict()))["exact"] == {
        "amount": "1/5",
        "spent": "1/5",
        "limit": "1",
    }
    assert list(used.history(last=3)) == events[-3:]
    assert list(used.history(last=100)) == events
    assert [event.kind for event in Ledger.open(place, account="team").history()] == [
        "create",
        "receive",
        "reserve",
    ]
    with pytest.raises(InvalidParameter, match="last must be"):
        used.history(last=0)
    bodies = raw(place, "SELECT body FROM ~event")
    assert (
        len({json.loads(body)["nonce"] for (body,) in bodies}) == len(bodies) - 2
    )  # two grants made two events each


def test_long_histories_are_read_in_pages(place, monkeypatch):
    from sordino.ledger.account import pages

    monkeypatch.setattr(pages, "_EVENTS_AT_ONCE", 3)
    ledger = make(place)
    for _ in range(4):
        with ledger.reserve(Mechanism(0.01)) as charge:
            charge.draw(Mechanism(0.01))
        assert [event.number for event in ledger.history()] == list(
            range(1, len(list(ledger.history())) + 1)
        )
        assert len(list(ledger.history(last=4))) == 4
    assert (ledger.verify().events, ledger.verify().sound) == (13, True)


EVENT = "UPDATE ~event SET {} WHERE account = 'orders' AND number = {}"
SWAP = [EVENT.format(f"number = {new}", old) for old, new in ((2, 900), (5, 2), (900, 5))]
TEAM = "WHERE name = 'team'"
ORDERS = "WHERE name = 'orders'"
LEFT = "WHERE id = (SELECT id FROM ~charge WHERE state = 'drawn')"
ADD = (
    "INSERT INTO ~event SELECT account, {}, kind, charge, amount, spent, allowance, head, body, sums FROM ~event"
    " WHERE account = 'orders' AND number = {}"
)
TAMPERING = {
    "event amount": [EVENT.format("amount = amount - 1", 2)],
    "event spent": [EVENT.format("spent = spent - 1", 3)],
    "event allowance": [EVENT.format("allowance = allowance + 1", 3)],
    "event kind": [EVENT.format("kind = 'void'", 4)],
    "event charge": [EVENT.format("charge = 'f' || charge", 3)],
    "event head": [EVENT.format("head = 'f' || head", 3)],
    "event label": [EVENT.format("body = replace(body, 'left', 'right')", 5)],
    "event reason": [EVENT.format("body = replace(body, 'died', 'lied')", 8)],
    "event body that is no JSON": [EVENT.format("body = 'x'", 5)],
    "event body that is a list": [EVENT.format("body = '[]'", 5)],
    "last event deleted": ["DELETE FROM ~event WHERE account = 'orders' AND number = 10"],
    "middle event deleted": ["DELETE FROM ~event WHERE account = 'orders' AND number = 6"],
    "first event deleted": ["DELETE FROM ~event WHERE account = 'orders' AND number = 1"],
    "all events deleted": ["DELETE FROM ~event WHERE account = 'orders'"],
    "draw deleted and renumbered": [
        "DELETE FROM ~event WHERE account = 'orders' AND number = 6",
        *(EVENT.format(f"number = {number - 1}", number) for number in range(7, 11)),
    ],
    "event appended": [ADD.format(11, 5)],
    "event appended and counted": [ADD.format(11, 6), f"UPDATE ~account SET number = 11 {ORDERS}"],
    "events swapped": SWAP,
    "event before the first": [ADD.format(0, 6)],
    "event far before the first": [ADD.format(-(10**9), 6)],
    "gap in the numbers": [
        EVENT.format("number = 11", 10),
        f"UPDATE ~account SET number = 11 {ORDERS}",
    ],
    "events of another account": [
        "UPDATE ~event SET account = 'team', number = 4 WHERE account = 'orders' AND number = 10"
    ],
    "account spent": [f"UPDATE ~account SET spent = spent - 1 {ORDERS}"],
    "account allowance": [f"UPDATE ~account SET allowance = allowance + 1 {ORDERS}"],
    "account number": [f"UPDATE ~account SET number = number - 1 {ORDERS}"],
    "account head": [f"UPDATE ~account SET head = 'f' || head {ORDERS}"],
    **{
        f"account {fact}": [f"UPDATE ~account SET {fact} = 'x' {ORDERS}"]
        for fact in ("epsilon", "delta", "adjacency", "unit", "source")
    },
    "account meter": [f"UPDATE ~account SET meter = 'zcdp' {ORDERS}"],
    "account parent": [f"UPDATE ~account SET parent = 'team' {ORDERS}"],
    "child allowance": [f"UPDATE ~account SET allowance = allowance + 1 {TEAM}"],
    "child given away": [f"UPDATE ~account SET parent = NULL {TEAM}"],
    "charge lowered": [f"UPDATE ~charge SET reserved = reserved - 1 {LEFT}"],
    "charge drawn": [f"UPDATE ~charge SET drawn = drawn - 1 {LEFT}"],
    "charge draws": [f"UPDATE ~charge SET draws = draws - 1 {LEFT}"],
    "charge digest": [f"UPDATE ~charge SET digest = 'x' {LEFT}"],
    "charge number": [f"UPDATE ~charge SET number = 2 {LEFT}"],
    "charge id": [f"UPDATE ~charge SET id = 'x' {LEFT}"],
    "charge account": [f"UPDATE ~charge SET account = 'team' {LEFT}"],
    "charge closed": [f"UPDATE ~charge SET state = 'settled', settled = 0 {LEFT}"],
    "charge settled": ["UPDATE ~charge SET settled = settled - 1 WHERE state = 'settled'"],
    "charge void": ["UPDATE ~charge SET state = 'settled' WHERE state = 'void'"],
    "charge removed": [f"DELETE FROM ~charge {LEFT}"],
    "charge added": [
        "INSERT INTO ~charge (id, account, number, digest, lock, state, reserved, drawn, draws)"
        " VALUES ('x', 'orders', 2, '', '', 'reserved', 0, 0, 0)"
    ],
}


def check_convicted(used, place, what):
    assert used.verify().sound
    tampered(place, *TAMPERING[what])
    found = used.verify()
    assert not found.sound
    assert found.to_dict() == {
        "account": "orders",
        "sound": False,
        "events": found.events,
        "head": found.head,
        "problems": list(found.problems),
    }
    assert all(
        problem[0].isupper() and problem.endswith(".") and "\n" not in problem
        for problem in found.problems
    )
    with pytest.raises(LedgerError, match=r"does not hold \(\d+ problems\)"):
        found.raise_if_broken()


@pytest.mark.parametrize("what", TAMPERING)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.sample(4)
def test_tampering_is_convicted(used, place, what):
    check_convicted(used, place, what)


# The check is the same for both databases: the default run looks at some of it in the second one.
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=() if k % 5 == 0 else pytest.mark.slow)
        for k, what in enumerate(TAMPERING)
    ],
)
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
@pytest.mark.sample(4)
def test_tampering_is_convicted_in_postgres(used, place, what):
    check_convicted(used, place, what)


@pytest.mark.parametrize("what", ["child allowance", "child given away"])
def test_a_child_is_convicted_itself(used, place, what):
    team = Ledger.open(place, account="team")
    team.verify().raise_if_broken()
    tampered(place, *TAMPERING[what])
    assert not team.verify().sound


def test_an_event_that_was_moved_to_another_account_is_convicted_there(used, place):
    tampered(place, *TAMPERING["events of another account"])
    assert not Ledger.open(place, account="team").verify().sound


def rewritten(place):
    """Rewrite the whole history of an account so that everything agrees: only who noted a head can tell."""
    rows = raw(place, f"SELECT {COLUMNS} FROM ~event WHERE account = 'orders' ORDER BY number")
    tampered(place)
    head = ""
    for *facts, said in rows:
        number, body = facts[0], said.replace("died", "lied")
        head = hashed(head, (*facts, body))
        raw(
            place,
            "UPDATE ~event SET body = ?, head = ? WHERE account = 'orders' AND number = ?",
            body,
            head,
            number,
        )
    raw(place, "UPDATE ~account SET head = ? WHERE name = 'orders'", head)


def test_only_a_noted_head_convicts_a_history_that_was_rewritten_as_a_whole(used, place):
    heads = [event.head for event in used.history()]
    assert all(used.verify(head=head).sound for head in heads)
    rewritten(place)
    assert "its process lied" in [event.detail.get("reason") for event in used.history()]
    assert used.verify().sound
    for number, head in enumerate(heads, 1):
        found = used.verify(head=head)
        assert found.sound == (number < 8)
        assert found.sound or "the head that was noted" in found.problems[0]
    assert not used.verify(head="0" * 64).sound


def test_a_head_that_was_noted_stays_in_the_history(used):
    noted = used.statement().head
    used.reserve(Pure(epsilon=0.01))
    assert used.statement().head != noted
    assert used.verify(head=noted).sound
    with pytest.raises(InvalidParameter, match="head must be"):
        used.verify(head="")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE ~event SET amount = 0",
        "DELETE FROM ~event",
        "UPDATE ~event SET body = body WHERE number = 1",
        "TRUNCATE ~event",
    ],
)
@pytest.mark.sample(4)
def test_the_database_refuses_to_change_an_event(used, place, sql):
    on_server = place.startswith("postgresql:")
    with pytest.raises(
        psycopg.errors.InsufficientPrivilege if on_server else sqlite3.DatabaseError
    ):
        raw(place, sql)
    assert used.verify().sound


def test_a_charge_that_overspends_is_impossible_however_it_is_written(place):
    """The tables refuse what no operation does."""
    ledger = make(place)
    ledger.reserve(Mechanism(0.5)).draw(Mechanism(0.3))
    kinds = (sqlite3.IntegrityError, psycopg.errors.IntegrityError)
    for sql in (
        "UPDATE ~account SET spent = allowance + 1",
        "UPDATE ~account SET spent = -1",
        "UPDATE ~account SET meter = 'rho'",
        "UPDATE ~charge SET drawn = reserved + 1",
        "UPDATE ~charge SET drawn = -1",
        "UPDATE ~charge SET state = 'settled'",
        "UPDATE ~charge SET settled = 0",
        "UPDATE ~charge SET state = 'settled', settled = drawn + 1",
        "UPDATE ~charge SET state = 'void', settled = -1",
        "UPDATE ~charge SET state = 'gone'",
        "INSERT INTO ~event SELECT * FROM ~event",
        "INSERT INTO ~charge SELECT * FROM ~charge",
    ):
        with pytest.raises(kinds):
            raw(place, sql)
    assert spent(ledger) == Fraction(1, 2)


def test_each_charge_asks_even_where_the_tables_would_hold_more(tmp_path, monkeypatch):
    """Of the two guards the first one by itself: without the checks of the tables nothing passes a limit."""
    connect = sqlite._connect_sqlite

    def without_checks(*args, **options):
        connection = connect(*args, **options)
        connection.execute("PRAGMA ignore_check_constraints = ON")
        return connection

    monkeypatch.setattr(sqlite, "_connect_sqlite", without_checks)
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Mechanism(0.6))
    with pytest.raises(BudgetExceeded, match=r"40% of the budget .* this needs 50%"):
        ledger.reserve(Mechanism(0.5))
    with pytest.raises(BudgetExceeded):
        ledger.grant("team", 0.5)
    assert spent(ledger) == Fraction(6, 10)
