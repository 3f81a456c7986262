"""An account that was about a path goes on under a name: once, for the same table, and with all that it has spent."""

from __future__ import annotations

import json
import sqlite3
from fractions import Fraction

import pytest

import sordino as sd
from ledger.fakes import REAL, Mechanism, in_threads, raw, refused, spent
from ledger.older import call_schema
from ledger.test_kept import RECORD
from sordino.cost import ZCDP, Pure
from sordino.errors import LedgerConflict
from sordino.ledger import Budget, Ledger, schema
from sordino.ledger.store import postgres, sqlite

TENTH = Fraction(1, 10)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "orders.csv"
    path.write_text("customer,product\na,tea\nb,rice\n", encoding="utf-8")
    return path


def open_account(place, source, name="orders", **budget):
    return Ledger.create(
        place,
        account=name,
        budget=Budget(**{"epsilon": 1} | budget),
        adjacency="add-remove",
        unit="customer",
        source=source,
    )


def test_an_account_goes_on_under_a_name_with_all_that_it_has_spent(place, tmp_path):
    for name, budget in (
        ("pure", {}),
        ("delta", {"delta": 1e-6}),
        ("rho", {"delta": 1e-6, "meter": "zcdp"}),
    ):
        table = tmp_path / f"{name}.csv"
        table.write_text("customer,product\na,tea\n", encoding="utf-8")
        move_and_look(place, table, name, budget)


def move_and_look(place, table, account, budget):
    ledger = open_account(place, table, account, **budget)
    cost = ZCDP(rho=0.001) if budget else Pure(epsilon=TENTH)
    with ledger.reserve(cost, source=table) as first:
        first.draw(cost)
    first.keep(RECORD)
    still_open = ledger.reserve(cost, source=table)
    before = ledger.statement()
    moved = ledger.call_by_name(account, place=table)
    after = moved.statement()
    assert (after.source, after.spent, after.limit) == (
        f"name:{account}",
        before.spent,
        before.limit,
    )
    assert [line.digest for line in after.charges] == [line.digest for line in before.charges]
    # The charge that was open goes on; who holds the account as it was charges nothing more.
    still_open.draw(cost)
    still_open.settle()
    for source in (None, table):
        with pytest.raises(LedgerConflict, match="is not the one that was opened; open it again"):
            ledger.reserve(cost, source=source)
    with pytest.raises(LedgerConflict, match="ask it by that name"):
        Ledger.open(place, account=account).reserve(cost, source=table)
    moved.reserve(cost, source=f"name:{account}")
    assert moved.read_release(first.id) == RECORD
    for head in (before.head, after.head, None):
        assert moved.verify(head=head).sound
    *_, event = (one for one in moved.history() if one.kind == "resource")
    assert (event.amount, event.detail["was"]) == (0, before.source)
    exported = [json.loads(line) for line in moved.export()]
    assert exported[0]["source"] == f"name:{account}"
    assert moved.check_statement(moved.publish(first.id).to_text("json")).sound


def test_what_would_be_two_budgets_is_refused(table, tmp_path):
    place = tmp_path / "budget.db"
    other = tmp_path / "other.csv"
    other.write_text(table.read_text(encoding="utf-8"), encoding="utf-8")
    ledger = open_account(place, table)
    open_account(place, "name:taken", name="taken")
    (tmp_path / "link.csv").symlink_to(table)
    shares = open_account(place, other, name="shares")
    team = shares.grant("team", TENTH)
    gone = open_account(place, other, name="gone")
    gone.convert("heir", Budget(epsilon=1, delta=1e-6))
    for account, name, where, says in (
        (ledger, "orders", other, "that is another table"),
        (ledger, "taken", table, "that would be two budgets"),
        (shares, "others", other, r"has shares \(team\)"),
        (team, "others", other, "is a share of another"),
        (gone, "others", other, "was converted into 'heir'"),
        (Ledger.open(place, account="taken"), "new", table, "and not about a place"),
    ):
        heads = {
            one: Ledger.open(place, account=one).statement().head for one in Ledger.accounts(place)
        }
        with pytest.raises(LedgerConflict, match=says):
            account.call_by_name(name, place=where)
        now = {one: Ledger.open(place, account=one).statement().head for one in heads}
        assert now == heads
    # A link leads to the same table. And what has a name gets no second one.
    moved = ledger.call_by_name("orders", place=tmp_path / "link.csv")
    with pytest.raises(LedgerConflict, match="and not about a place"):
        moved.call_by_name("again", place=table)
    spent(moved)


def test_the_path_stays_known_so_that_nobody_declares_a_second_account(
    tmp_path, table, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    ledger = open_account(tmp_path / "budget.db", table)
    ledger.call_by_name("orders", place=table)
    for name in ("orders-again", "purchases"):
        with pytest.raises(LedgerConflict, match="about that table already"):
            sd.open(table, person="customer", epsilon=1, save="budget.db", name=name)
    assert Ledger.accounts("budget.db") == ("orders",)


def test_of_two_moves_to_one_name_at_once_one_happens(place, table):
    accounts = [open_account(place, table, name=name) for name in ("one", "two")]
    done, lost = [], []

    def move(account):
        try:
            done.append(account.call_by_name("orders", place=table))
        except LedgerConflict:
            lost.append(account)

    in_threads([lambda one=one: move(one) for one in accounts])
    named = [
        one for one in accounts if Ledger.open(place, account=one.account).source == "name:orders"
    ]
    assert (len(done), len(lost), len(named)) == (1, 1, 1)
    for one in accounts:
        assert Ledger.open(place, account=one.account).verify().sound


def test_a_source_that_was_changed_behind_its_back_is_found(tmp_path, table):
    ledger = open_account(tmp_path / "budget.db", table)
    ledger.reserve(Pure(epsilon=TENTH))
    ledger.call_by_name("orders", place=table)
    for source in ("name:other", "/x/orders.csv"):
        raw(ledger.url, f"UPDATE account SET source = '{source}'")
        problems = Ledger.open(ledger.url, account="orders").verify().problems
        assert "The account is about another table than its events say." in problems


def test_a_name_is_exchanged_by_nobody_before_the_next_charge(tmp_path):
    """Only a place may have been given a name since: an account that was made for one keeps it."""
    place = tmp_path / "budget.db"
    Ledger.create(
        place,
        account="shop",
        budget=Budget(epsilon=3, delta=1e-6),
        adjacency="add-remove",
        unit="customer",
        source="name:shop",
    )
    Ledger.open(place, account="shop").reserve(Pure(epsilon=0.1))
    with sqlite3.connect(place) as connection:
        connection.execute("UPDATE account SET source = 'name:other'")
    connection.close()
    with pytest.raises(sd.LedgerError, match="it was changed"):
        Ledger.open(place, account="shop").reserve(Pure(epsilon=0.1))


def test_a_ledger_of_schema_5_is_brought_up_to_date(place, table):
    ledger = open_account(place, table)
    with ledger.reserve(Mechanism(TENTH).cost) as charge:
        charge.release(Mechanism(TENTH), [1], entropy=REAL)
    call_schema(place, 5)
    if place.startswith("postgresql:"):
        raw(place, "DROP FUNCTION ~resource")
    sqlite.close_all()
    postgres.close_waiting()
    again = Ledger.open(place, account="orders").call_by_name("orders", place=table)
    assert spent(again) == TENTH
    call_schema(place, schema.VERSION + 1)
    refused(lambda: again.reserve(Pure(epsilon=TENTH)), f"knows schemas 4 to {schema.VERSION}")
