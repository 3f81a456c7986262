"""One account, one reading of the column of the unit: it is kept with the first charge, and no other one is taken."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Any

import pytest

from ledger.fakes import make, raw
from ledger.older import reserve_as_before, take_back
from ledger.test_races import race
from sordino.cost import Pure
from sordino.errors import LedgerConflict, LedgerError
from sordino.ledger import Budget, Ledger, schema
from sordino.ledger.account.changes import request

COST = Pure(epsilon=0.1)
AS_TEXT, AS_INTEGER = "csv text", "csv integer"
REFUSED = (
    'adds up releases that read whose a row is (column "customer") as csv text, but this release reads it as csv integer: '
    "by these, two rows may be of one person or of two. Declare it as before, or make another account"
)


def refuse(ledger: Ledger, reading: str = AS_INTEGER) -> None:
    """See to it that a charge and its preview are refused alike, and cost nothing."""
    before = ledger.remaining
    for ask in (ledger.preview, ledger.reserve):
        with pytest.raises(LedgerConflict) as refused:
            ask(COST, reading=reading)
        assert REFUSED in str(refused.value)
        assert "Nothing was read or released." in str(refused.value)
    assert ledger.remaining == before


def test_the_first_charge_says_how_the_column_is_read(ledger):
    assert ledger.statement().reading == ""
    assert "reading" not in ledger.statement().to_dict()
    ledger.preview(COST, reading=AS_INTEGER)
    ledger.reserve(COST, reading=AS_TEXT)
    refuse(ledger)
    # Also for who has opened the account before, or opens it now.
    refuse(Ledger.open(ledger._store.address, account="orders"))
    ledger.reserve(COST, reading=AS_TEXT)
    # What reads no column is not compared: answers that the caller has computed.
    ledger.reserve(COST)
    assert ledger.statement().reading == ledger.statement().to_dict()["reading"] == AS_TEXT
    assert ledger.verify().problems == ()
    readings = [event.detail["reading"] for event in ledger.history() if event.kind == "reserve"]
    assert readings == [AS_TEXT, AS_TEXT, ""]


def test_one_reading_is_that_of_an_account_and_all_its_shares(place):
    """A person pays in a share and in what gave it, and both add up."""
    ledger = make(place, 3)
    early = ledger.grant("team", 0.5)
    early.grant("part", 0.2).reserve(COST, reading=AS_TEXT)
    for one in (ledger, early, ledger.grant("late", 0.3), Ledger.open(place, account="part")):
        refuse(one)
        one.reserve(COST, reading=AS_TEXT)
        assert one.statement().reading == AS_TEXT
        assert one.verify().problems == ()


@pytest.mark.parametrize("first", ["before", "after"])
def test_a_converted_account_and_its_shares_keep_it(place, first):
    ledger = make(place, 1)
    share = ledger.grant("team", 0.5)
    if first == "before":
        share.reserve(COST, reading=AS_TEXT)
    after = ledger.convert("orders-2", Budget(epsilon=3, delta=1e-6))
    if first == "after":
        after.reserve(COST, reading=AS_TEXT)
    for one in (share, after):
        refuse(one)
        one.reserve(COST, reading=AS_TEXT)
        assert one.verify().problems == ()


def test_it_can_be_said_when_the_account_is_made(place):
    about: dict[str, Any] = {
        "adjacency": "add-remove",
        "unit": "customer",
        "source": "/data/orders.csv",
    }
    made = Ledger.create(
        place, account="orders", budget=Budget(epsilon=1), reading=AS_TEXT, **about
    )
    assert made.statement().reading == AS_TEXT
    refuse(made)
    assert made.verify().problems == ()


@pytest.mark.parametrize("shares", [False, True], ids=["one account", "two shares of it"])
def test_of_two_first_charges_at_once_with_two_readings_one_is_refused(place, shares):
    ledger = make(place, 3)
    for turn in range(4):
        parent = ledger if turn == 0 else make(place, 3, f"account {turn}")
        payers = [
            parent.grant(f"{parent.account} {one}", 0.5) if shares else parent for one in range(6)
        ]
        calls = [
            lambda payer=payer, one=one: payer.reserve(COST, reading=(AS_TEXT, AS_INTEGER)[one % 2])
            for one, payer in enumerate(payers)
        ]
        assert race(calls) == ["LedgerConflict"] * 3 + ["won"] * 3
        said = {
            event.detail["reading"]
            for payer in payers
            for event in payer.history()
            if event.kind == "reserve"
        }
        assert said == {parent.statement().reading}
        assert all(payer.verify().sound for payer in payers)


def test_without_the_condition_both_are_charged(place, monkeypatch):
    """The broken twin: one text unit would lose 0.3 where 0.2 are charged."""
    first, *rest = schema.RESERVE.statements
    assert schema.READ_ALIKE in first
    broken = replace(schema.RESERVE, statements=(first.replace(schema.READ_ALIKE, ""), *rest[:-1]))
    monkeypatch.setattr(schema, "RESERVE", broken)
    if place.startswith("postgresql:"):
        from sordino.ledger.store import postgres

        monkeypatch.setattr(postgres, "OPERATIONS", (broken, *schema.OPERATIONS[1:]))
    ledger = make(place, 1)
    ledger.reserve(COST, reading=AS_TEXT)
    ledger.reserve(COST, reading=AS_INTEGER)
    # It is seen afterwards at least.
    raw(place, f"UPDATE ~account SET reading = '{AS_TEXT}'")
    assert any("reads whose a row is otherwise" in one for one in ledger.verify().problems)


@pytest.mark.parametrize("change", ["reading = ''", f"reading = '{AS_INTEGER}'"])
def test_a_reading_that_was_edited_is_found(place, change):
    ledger = make(place, 1)
    ledger.reserve(COST, reading=AS_TEXT)
    raw(place, f"UPDATE ~account SET {change}")
    assert ledger.verify().problems == (
        "A charge reads whose a row is otherwise than the account does.",
    )


def test_a_way_to_the_top_without_an_end_is_walked_once(place):
    """So it is in a damaged file; to show the account ends all the same."""
    ledger = make(place, 1)
    ledger.grant("team", 0.5).reserve(COST, reading=AS_TEXT)
    raw(place, "UPDATE ~account SET parent = 'team' WHERE name = 'orders'")
    assert ledger.statement().reading == ""


def test_an_older_ledger_gets_its_reading_with_its_next_charge(place):
    ledger = make(place, 1)
    share = ledger.grant("team", 0.5)
    ledger.reserve(COST)
    take_back(place)
    if not place.startswith("postgresql:"):
        assert Ledger.open(place, account="orders").statement().reading == ""
        assert raw(place, "PRAGMA user_version") == [(4,)]
    Ledger.open(place, account="orders").reserve(COST, reading=AS_TEXT)
    refuse(ledger)
    refuse(share)
    for one in (ledger, share):
        one.reserve(COST, reading=AS_TEXT)
        assert one.verify().problems == ()


def test_an_older_process_that_has_the_file_open_charges_no_account_whose_reading_is_known(
    tmp_path,
):
    """It does not say how it reads the column."""
    url = str(tmp_path / "budget.db")
    ledger = make(url, 1)
    ledger.reserve(COST)
    take_back(url)
    given = dict.fromkeys(("label", "unit", "source", "adjacency", "reading", "detail"))

    def charge_as_before() -> None:
        *_, parameters = request(ledger._pages.facts, [COST], **given, allow_approximate=False)
        body = parameters["body"].replace('"reading": "", ', "")
        assert "reading" not in body
        known = {
            name: parameters[name] for name in ("account", "charge", "amount", "digest", "lock")
        }
        reserve_as_before(url, {**known, "body": body})

    ledger.reserve(COST)
    charge_as_before()
    ledger.reserve(COST, reading=AS_TEXT)
    with pytest.raises(sqlite3.IntegrityError, match="is for a newer version of sordino"):
        charge_as_before()
    ledger.reserve(COST)
    assert ledger.verify().problems == ()


def test_on_a_server_who_may_only_charge_says_it_too(server):
    owner = make(server, 1)
    owner.reserve(COST, reading=AS_TEXT)
    with pytest.raises(LedgerError, match="as csv text"):
        owner.reserve(COST, reading=AS_INTEGER, run="night")
    # No run was taken by what was refused.
    assert owner.find_run("night") is None
