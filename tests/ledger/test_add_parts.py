"""An account that is given parts later: what it has spent is in all of them, and nothing of its history is lost."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest

from ledger.fakes import NANO, in_child, in_threads, raw
from ledger.faults import Counter
from ledger.parted import ABOUT, check, make_parted
from sordino.cost import ZCDP, Approximate, Pure
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger import Budget, Ledger, PartRange
from sordino.ledger.account.records import body_of
from sordino.ledger.parts import find_key
from sordino.ledger.schema_parts import ADD_PARTS
from sordino.ledger.store import sqlite
from sordino.ledger.store.store import carry_out
from support.postgres import fresh

PLACES = {"file": lambda folder: str(folder / "budget.db"), "server": lambda _: fresh()}
BUDGETS = {
    "pure": Budget(epsilon=1),
    "rho": Budget(epsilon=1, delta=1e-6, meter="zcdp"),
    "failing": Budget(epsilon=1, delta=1e-6, meter="zcdp", failures=1e-7),
    "both": Budget(epsilon=1, delta=1e-6, failures=1e-7),
}
KILLED = -9
DAY, NEXT = PartRange(3, 3), PartRange(4, 4)


def make_plain(place, budget=BUDGETS["pure"], account="orders", **about):
    return Ledger.create(place, account=account, budget=budget, **(ABOUT | about))


def charge(ledger, cost, *, settle=True, draw=True, **more):
    made = ledger.reserve(cost, **more)
    if draw:
        made.draw(cost)
    if settle:
        made.settle()
    return made


@pytest.mark.parametrize("where", PLACES)
def test_what_was_spent_is_in_every_part(tmp_path, where):
    place = PLACES[where](tmp_path)
    for name, budget in BUDGETS.items():
        ledger = make_plain(place, budget, name)
        tenth = Pure(epsilon=Fraction(1, 10))
        charge(ledger, tenth)
        charge(ledger, tenth, draw=False)
        open_one = charge(ledger, tenth, draw=False, settle=False)
        if name not in {"pure", "failing"}:
            charge(ledger, ZCDP(rho=Fraction(1, 1000)))
        if name in {"failing", "both"}:
            charge(ledger, Approximate(epsilon=Fraction(1, 100), delta=Fraction(1, 10**9)))
        spent, head = ledger.statement(charges=False).spent, ledger.statement().head
        ledger.add_parts("day")
        # Whoever had it open has another account now, and nothing that it does is charged.
        with pytest.raises(LedgerConflict, match="open it again"):
            ledger.reserve(tenth)
        # A release that has read its rows meanwhile fails before it says anything.
        with pytest.raises(LedgerError, match="one of its own rules"):
            open_one.draw(tenth)
        parted = Ledger.open(place, account=name)
        assert parted.verify(head=head).sound
        told = parted.statement()
        assert (told.spent, told.parts.base, told.parts.cut) == (spent, spent, "day")
        assert {line.parts for line in told.charges} == {()}
        assert [one.kind for one in parted.history()][-1] == "part"
        # A part has what is left, and so has each other one; the whole table what is left of all.
        worth = parted.find_left(parts=DAY).share
        for part in (DAY, NEXT):
            charge(parted, tenth, parts=part)
        assert parted.find_left(parts=DAY).share < worth
        assert parted.find_left(parts=PartRange(9, 9)).share == worth
        # What was open comes back to all of them.
        line = next(one for one in told.charges if one.state == "reserved")
        parted.void(line.id, reason="its process died")
        assert parted.find_left(parts=PartRange(9, 9)).share > worth
        charge(parted, tenth)
        assert parted.verify(head=head).sound
        # Rows, events and sums, without the replay: from the event on that has given it parts.
        table = raw(place, "SELECT base, spent FROM ~account WHERE name = ?", name)
        [(base, most)] = table
        assert most > base > 0
        if name == "pure":
            left = Fraction(1) - Fraction(base, NANO)
            charge(parted, Pure(epsilon=left), parts=PartRange(20, 20))
            with pytest.raises(BudgetExceeded):
                charge(parted, Pure(epsilon=Fraction(1, NANO)), parts=PartRange(20, 20))


@pytest.mark.parametrize("where", PLACES)
def test_shares_are_given_parts_before_what_gave_them(tmp_path, where):
    place = PLACES[where](tmp_path)
    ledger = make_plain(place)
    team = ledger.grant("team", Fraction(1, 2))
    group = team.grant("group", Fraction(1, 4))
    charge(group, Pure(epsilon=Fraction(1, 8)))
    with pytest.raises(LedgerConflict, match="is a share of 'orders'"):
        team.add_parts("day")
    # Nor by one who made a share just now.
    key = find_key(ABOUT["unit"].identity, "add-remove", "day")
    parameters = {"account": "orders", "parts": key, "body": body_of(parts=key)}
    parameters["unit"] = ABOUT["unit"].identity
    assert not carry_out(ledger._store, ADD_PARTS, parameters, account="orders")
    ledger.add_parts("day")
    for name, base in (
        ("orders", Fraction(1, 2)),
        ("team", Fraction(1, 4)),
        ("group", Fraction(1, 8)),
    ):
        opened = Ledger.open(place, account=name)
        assert opened.statement().parts.base == base
        assert opened.verify().sound
    # A share of a share has what it had, in each part; more is given, and parts are closed.
    group = Ledger.open(place, account="group")
    for part in (DAY, NEXT):
        charge(group, Pure(epsilon=Fraction(1, 8)), parts=part)
    Ledger.open(place, account="orders").grant("team", Fraction(1, 10))
    Ledger.open(place, account="team").grant("late", Fraction(1, 10))
    Ledger.open(place, account="orders").close_parts(3)
    for name in ("orders", "team", "group", "late"):
        assert Ledger.open(place, account=name).verify().sound
    with pytest.raises(LedgerConflict, match="closed"):
        charge(Ledger.open(place, account="group"), Pure(epsilon=Fraction(1, 100)), parts=DAY)
    check(Ledger.open(place, account="late"))
    if where == "file":
        # A copy of it is whole, and says the same.
        sqlite.close_all()
        heads = Ledger.open(place, account="orders").backup(tmp_path / "copy.db")
        for name, head in heads.items():
            assert Ledger.open(tmp_path / "copy.db", account=name).verify(head=head).sound


def test_accounts_that_can_have_no_parts_are_left_as_they_are(tmp_path):
    place = str(tmp_path / "budget.db")

    class Person:
        identity = 'column "customer_id"'

    class Two:
        identity = 'columns "customer_id", "shop"'

    plain = make_plain(place)
    refused = {
        "replaced": (
            plain,
            make_plain(place, account="replaced", adjacency="replace-one"),
            "add-remove",
        ),
        "person": (plain, make_plain(place, account="person", unit=Person()), "by several columns"),
        "shop": (
            plain,
            make_plain(place, account="shop", unit=Two()),
            "no column is cut to the day",
        ),
        "parted": (plain, make_parted(place, account="parted"), "has parts already"),
    }
    old = make_plain(place, account="old")
    old.convert("new", Budget(epsilon=1, delta=1e-6))
    refused["old"] = (plain, Ledger.open(place, account="old"), "was converted into 'new'")
    for _, ledger, why in refused.values():
        before = ledger.statement().head
        with pytest.raises((InvalidParameter, LedgerConflict), match=why):
            ledger.add_parts("day")
        assert ledger.statement().head == before
    with pytest.raises(InvalidParameter, match="parts must be one of hour, day, month, year"):
        plain.add_parts("week")
    with pytest.raises(InvalidParameter, match="no column is cut to the month"):
        plain.add_parts("month")
    plain.add_parts("day")
    with pytest.raises(LedgerConflict, match="has parts already"):
        Ledger.open(place, account="orders").add_parts("day")


@pytest.mark.parametrize("where", PLACES)
def test_charges_beside_it_are_before_it_or_refused(tmp_path, where):
    """Writers that charge all the while: what was admitted without parts is in the base, to the last billionth."""
    place = PLACES[where](tmp_path)
    ledger = make_plain(place, Budget(epsilon=1))
    cost, admitted = Pure(epsilon=Fraction(1, 50)), []

    def write():
        own = Ledger.open(place, account="orders")
        for _ in range(15):
            with suppress(BudgetExceeded, LedgerConflict):
                admitted.append(own.reserve(cost))

    in_threads([write, write, lambda: ledger.add_parts("day"), write])
    parted = Ledger.open(place, account="orders")
    assert parted.statement().parts.base == Fraction(len(admitted), 50)
    assert parted.verify().sound


def test_a_kill_leaves_it_done_or_not_done(tmp_path):
    place = str(tmp_path / "budget.db")
    ledger = make_plain(place)
    charge(ledger, Pure(epsilon=Fraction(1, 4)))
    before = ledger.statement().head
    sqlite.close_all()
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def strike(folder, point):
        folder.mkdir()
        for name, content in made.items():
            (folder / name).write_bytes(content)
        struck = Ledger.open(folder / "budget.db", account="orders")
        assert struck.remaining
        counter = Counter(point)
        with pytest.MonkeyPatch.context() as patch:
            counter.install(patch.setattr)
            struck.add_parts("day")
        sqlite.close_all()
        return counter.seen

    seen, fates = strike(tmp_path / "dry", None), []
    for point in range(len(seen)):
        folder = tmp_path / str(point)
        assert in_child(lambda folder=folder, point=point: strike(folder, point)) == KILLED
        ledger = Ledger.open(folder / "budget.db", account="orders")
        found = ledger.verify(head=before)
        assert found.sound
        done = ledger.statement().parts is not None
        assert done == (ledger.statement().head != before)
        fates.append(done)
        if not done:
            ledger.add_parts("day")
        assert Ledger.open(folder / "budget.db", account="orders").statement().parts.base == 1 / 4
        sqlite.close_all()
    assert fates == sorted(fates)
    assert set(fates) == {False, True}


def test_a_history_that_gives_parts_otherwise_is_found(tmp_path):
    place = str(tmp_path / "budget.db")
    ledger = make_plain(place)
    charge(ledger, Pure(epsilon=Fraction(1, 4)))
    ledger.add_parts("day")
    sqlite.close_all()
    for change in (
        "UPDATE ~account SET base = 0, spent = 0",
        "UPDATE ~account SET parts = ''",
        "UPDATE ~charge SET whole = 0",
    ):
        copy = tmp_path / "changed.db"
        sqlite.close_all()
        copy.write_bytes((tmp_path / "budget.db").read_bytes())
        raw(str(copy), change)
        assert not Ledger.open(copy, account="orders").verify().sound
        sqlite.close_all()
        copy.unlink()
    # One that says so itself, with all its hashes.
    ledger = make_plain(place, account="other")
    body = body_of(parts='{"component": "column", "cut": "day"}')
    parameters = {
        "account": "other",
        "parts": '{"component": "column", "cut": "day"}',
        "body": body,
    }
    parameters["unit"] = ABOUT["unit"].identity
    carry_out(ledger._store, ADD_PARTS, parameters, account="other")
    assert not Ledger.open(place, account="other").verify().sound
