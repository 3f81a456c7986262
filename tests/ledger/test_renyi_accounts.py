"""Accounts in (epsilon, delta) in both databases: what fits, what comes back, what is refused, what is found out."""

from __future__ import annotations

import json
import math
import random
import re
import sqlite3
from fractions import Fraction

import pytest

import sordino as sd
from ledger.fakes import NANO, PLACE, REAL, Mechanism, in_child, make, raw, refused, resumed, spent
from ledger.faults import Counter
from ledger.older import reserve_as_before
from ledger.test_roles import ROLE, called, charger, owner  # noqa: F401  (two are fixtures)
from sordino.cost import RDP, ZCDP, Approximate, Pure, compose, repeat
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger import Budget, Ledger
from sordino.ledger.account.changes import request
from sordino.ledger.renyi import ATTO, Limits, Sums, amounts_at
from sordino.ledger.schema import CONVERT, DRAW, RESERVE, SETTLE
from sordino.ledger.store import postgres, sqlite

SMALL = Fraction(1, 10**6)


def account(place, epsilon=1, delta=1e-6, name="orders", **budget):
    return make(place, epsilon, name, delta=delta, **budget)


def row_of(ledger):
    return ledger._pages.account()


def test_a_budget_with_a_delta_is_one_of_this_kind():
    budget = Budget(epsilon=1, delta=1e-6)
    assert (budget.meter, budget.failures, budget.conversion) == ("renyi", 0, SMALL)
    assert float(budget.order) == 21.9845
    assert repr(budget) == "Budget(epsilon=1, delta=1e-06, meter='renyi', order=21.9845)"
    assert budget == Budget(epsilon=1, delta=1e-6, meter="renyi", order=Fraction("21.9845"))
    assert Budget(epsilon=1, delta=1e-6, order=22).limit == Fraction(535831058, NANO)
    kept = Budget(epsilon=1, delta=1e-6, failures=4e-7)
    assert kept.conversion == Fraction(6, 10**7)
    assert kept.limits == Limits(int(kept.limit * NANO), NANO, 4 * 10**11, either=True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"delta": 1}, r"delta must be a number in \[0, 1\)"),
        ({"delta": 0, "meter": "renyi"}, r"must be in \(0, 1\) on the Rényi meter"),
        ({"delta": Fraction(1, 10**400)}, r"must be in \(0, 1\) on the Rényi meter"),
        ({"delta": 1e-6, "failures": 1e-6}, r"failures must be a number in \[0, delta\)"),
        ({"delta": 1e-6, "failures": -1}, r"failures must be a number in \[0, delta\)"),
        ({"delta": 1e-6, "failures": math.nan}, r"failures must be a number in \[0, delta\)"),
        ({"delta": 1e-6, "order": 1}, r"order must be a number in \[1\.000001, 1e15\]"),
        ({"delta": 1e-6, "order": math.inf}, r"order must be a number in"),
        ({"delta": 1e-6, "order": 10**400}, r"order must be a number in"),
        ({"delta": 1e-6, "order": "8"}, r"order must be a number in"),
        ({"delta": 1e-6, "epsilon": 1e-12}, "at least a billionth of epsilon"),
        ({"delta": 1e-6, "epsilon": 10**10}, "at most 9000000000"),
        ({"delta": 1e-6, "meter": "zcdp", "order": 8}, "for the meter 'renyi' alone"),
        ({"order": 8}, "for the meter 'renyi' alone"),
        ({"failures": 1e-9}, "failures must be 0 on the pure meter"),
    ],
)
@pytest.mark.sample(2)
def test_budgets_that_are_refused(given, says):
    with pytest.raises(InvalidParameter, match=says) as caught:
        Budget(**{"epsilon": 1, **given})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("epsilon", "cost", "fitting"),
    [(1, Pure(epsilon=0.05), 22), (1, Pure(epsilon=0.1), 10), (3, Pure(epsilon=0.2), 15)],
)
@pytest.mark.sample(4)
def test_as_many_releases_fit_as_were_counted(place, epsilon, cost, fitting):
    ledger = account(place, epsilon)
    for left in range(fitting, 0, -1):
        if left < fitting:
            assert ledger.statement().more == left
        with ledger.reserve(cost) as charge:
            charge.draw(cost)
    assert ledger.statement().more == 0
    with pytest.raises(BudgetExceeded, match=r"of the budget of account orders is left") as refused:
        ledger.reserve(cost)
    assert re.search(r"needs divergence 0\.\d+ at order .* remain in", refused.value.details)
    spent_in_all(ledger)


def spent_in_all(ledger):
    """Check the three sums against the charges and shares, and the history; return them."""
    row, url = row_of(ledger), ledger._store.address
    [(main, pure, failing)] = raw(
        url,
        "SELECT coalesce(sum(coalesce(settled, reserved)), 0),"
        " coalesce(sum(CASE WHEN settled IS NULL THEN pure_reserved ELSE pure_settled END), 0),"
        " coalesce(sum(CASE WHEN settled IS NULL THEN failing_reserved ELSE failing_drawn END), 0)"
        " FROM ~charge WHERE account = ?",
        ledger.account,
    )
    [(shares, pures, failings)] = raw(
        url,
        "SELECT coalesce(sum(allowance), 0), coalesce(sum(CASE WHEN pure_limit > 0 THEN pure_limit ELSE 0 END), 0),"
        " coalesce(sum(failing_limit), 0) FROM ~account WHERE parent = ?",
        ledger.account,
    )
    sums = (int(main + shares), int(pure + pures), int(failing + failings))
    assert (row.spent, row.pure_spent, row.failing_spent) == sums
    assert ledger.verify(head=row.head).problems == ()
    assert row.limits.admits(row.sums, Sums())
    return row.sums


def test_what_was_never_drawn_returns_in_all_sums(place):
    ledger = account(place, 1, failures=5e-7)
    cost = compose(Pure(epsilon=0.1), Approximate(epsilon=0.1, delta=1e-7))
    order = row_of(ledger).meter_at_order.order
    whole = amounts_at(cost, order).rounded_up()
    with ledger.reserve(cost) as charge:
        assert spent_in_all(ledger) == whole
        assert (whole.pure, whole.failing) == (2 * 10**8, 10**11)
    assert spent_in_all(ledger) == Sums()
    with ledger.reserve(cost) as charge:
        charge.draw(Pure(epsilon=0.1))
    assert spent_in_all(ledger) == amounts_at(Pure(epsilon=0.1), order).rounded_up()


def test_of_what_was_drawn_only_the_pure_sum_falls(place):
    ledger = account(place, 1, failures=5e-7)
    order = row_of(ledger).meter_at_order.order
    drawn = amounts_at(Pure(epsilon=0.4), order).rounded_up()
    with ledger.reserve(Pure(epsilon=0.4)) as charge:
        charge.release(Mechanism(0.4, spends=0.1), [1], entropy=REAL)
    assert spent_in_all(ledger) == drawn._replace(pure=10**8)
    # Without a proof for each transcript nothing comes back.
    with ledger.reserve(Pure(epsilon=0.2)) as charge:
        charge.release(Mechanism(0.2, spends=0.1, per_transcript=False), [1], entropy=REAL)
    assert spent_in_all(ledger).pure == 3 * 10**8
    # A delta never returns.
    with ledger.reserve(Approximate(epsilon=0.1, delta=4e-7)) as charge:
        charge.draw(Approximate(epsilon=0.1, delta=4e-7))
    assert spent_in_all(ledger).failing == 4 * 10**11
    # Voiding keeps what was drawn, and gives back the rest.
    charge = ledger.reserve((Pure(epsilon=0.05), Pure(epsilon=0.01)))
    charge.draw(Pure(epsilon=0.05))
    before = spent_in_all(ledger)
    line = ledger.void(charge.id, reason="its process died")
    assert (line.epsilon, line.delta) == (Fraction(1, 20), 0)
    assert spent_in_all(ledger).pure == before.pure - 10**7


def test_the_database_itself_gives_nothing_back_but_the_pure_sum(place):
    ledger = account(place, 1, failures=5e-7)
    charge = ledger.reserve(Approximate(epsilon=0.4, delta=1e-7))
    charge.draw(Approximate(epsilon=0.4, delta=1e-7))
    row = ledger._pages.charge(charge.id)
    known = {"account": "orders", "charge": charge.id, "key": charge._key, "draws": 1, "body": "{}"}
    known |= {"reserved": row.reserved, "drawn": row.drawn}
    whole = {"amount": row.drawn, "pure": row.pure_drawn, "failing": row.failing_drawn}
    for changed in (
        {"amount": row.drawn - 1},
        {"failing": 0},
        {"failing": row.failing_drawn - 1},
        {"pure": row.pure_drawn + 1},
        {"pure": -1},
    ):
        assert ledger._store.apply(SETTLE, {**known, **whole, **changed}) is False
    assert ledger._store.apply(SETTLE, {**known, **whole, "pure": 1}) is True
    assert row_of(ledger).pure_spent == 1


def test_a_cost_without_an_epsilon_ends_the_pure_sum_for_good(place):
    ledger = account(place, 1)
    for _ in range(10):
        ledger.reserve(Pure(epsilon=0.05)).draw(Pure(epsilon=0.05))
    with ledger.reserve(ZCDP(rho=0.0001)):
        pass  # never drawn: its divergence returns, and the flag stays
    statement = ledger.statement()
    assert statement.renyi.epsilon_spent is None
    assert statement.more == math.floor(
        (row_of(ledger).allowance - row_of(ledger).spent)
        / (float(row_of(ledger).meter_at_order.order) * 1e5)
    )
    # 0.1 more would fit the pure sum ten times, and the order does not admit it so often.
    fitting = row_of(ledger).limits.count_more(
        row_of(ledger).sums,
        amounts_at(Pure(epsilon=0.1), row_of(ledger).meter_at_order.order).rounded_up(),
    )
    assert 0 < fitting < 5
    for _ in range(fitting):
        ledger.reserve(Pure(epsilon=0.1))
    with pytest.raises(BudgetExceeded, match="4% of the budget") as refused:
        ledger.reserve(Pure(epsilon=0.1))
    assert "no epsilon remain" in refused.value.details
    spent_in_all(ledger)


def test_a_delta_needs_a_part_of_the_budget_for_it(place):
    ledger = account(place, 1)
    with pytest.raises(
        BudgetExceeded,
        match=r"keeps no delta for labels that nobody listed \(failures\); this needs",
    ):
        ledger.reserve(Approximate(epsilon=0.1, delta=1e-9))
    pure = make(place, 1, "pure")
    with pytest.raises(InvalidParameter, match="it has no finite epsilon at delta 0"):
        pure.reserve(Approximate(epsilon=0.1, delta=1e-9))
    with pytest.raises(
        InvalidParameter,
        match=r"neither a finite divergence at order 21\.9845 nor a finite epsilon",
    ):
        ledger.reserve(RDP(table=[(2, 0.1)]))
    with pytest.raises(BudgetExceeded, match="more divergence than any account can hold"):
        ledger.reserve(Pure(epsilon=10**10))
    assert spent_in_all(ledger) == Sums()


def test_draws_stay_within_what_was_reserved_in_each_sum(place):
    ledger = account(place, 3, failures=5e-7)
    charge = ledger.reserve(repeat(Pure(epsilon=Fraction(1, 30)), 7))
    for _ in range(7):
        charge.draw(Pure(epsilon=Fraction(1, 30)))
    for more in (Pure(epsilon=Fraction(1, 10**9)), Approximate(epsilon=0, delta=1e-9)):
        with pytest.raises(LedgerConflict, match="remains in charge"):
            charge.draw(more)
    charge.settle()
    # What was reserved with an epsilon is not drawn without one.
    charge = ledger.reserve(Pure(epsilon=1))
    with pytest.raises(LedgerConflict, match="remains in charge"):
        charge.draw(ZCDP(rho=0.001))
    twin = resumed(charge)
    charge.draw(Pure(epsilon=0.5))
    with pytest.raises(LedgerConflict, match="elsewhere"):
        twin.draw(Pure(epsilon=0.5))
    # The other way round it is.
    charge = ledger.reserve(ZCDP(rho=0.05))
    charge.draw(Pure(epsilon=0.3))
    charge.draw(ZCDP(rho=0.001))
    charge.settle()
    spent_in_all(ledger)


# ---- shares ----------------------------------------------------------------------------------------------------


def test_a_share_keeps_to_both_sums(place):
    ledger = account(place, 3, failures=5e-7)
    team = ledger.grant("team", 0.4, pure=0.5, failures=1e-7)
    assert row_of(team).limits == Limits(4 * 10**8, 5 * 10**8, 10**11, either=False)
    assert spent_in_all(ledger) == Sums(4 * 10**8, 5 * 10**8, 10**11)
    team.reserve(Pure(epsilon=0.1))
    for too_much in (Pure(epsilon=0.41), ZCDP(rho=0.0001), Approximate(epsilon=0.1, delta=2e-7)):
        with pytest.raises(BudgetExceeded):
            team.reserve(too_much)
    assert ledger.grant("team", 0.1, pure=0.1).statement().renyi.epsilon_limit == Fraction(6, 10)
    with pytest.raises(LedgerConflict, match="has limit for its pure epsilons|has no limit"):
        ledger.grant("team", 0.1)
    # Of a share of a share.
    small = team.grant("small", 0.01, pure=0.01)
    small.reserve(Pure(epsilon=0.005))
    for one in (ledger, team, small):
        spent_in_all(one)


def test_a_share_without_epsilons_counts_as_one_without(place):
    ledger = account(place, 3)
    team = ledger.grant("team", 0.4)
    assert row_of(team).limits == Limits(4 * 10**8, -1, 0, either=False)
    assert row_of(ledger).sums == Sums(4 * 10**8, 0, 0, 1)
    team.reserve(ZCDP(rho=0.01))
    team.reserve(Pure(epsilon=0.1))
    with pytest.raises(BudgetExceeded):
        team.reserve(Pure(epsilon=0.6))
    ledger.grant("team", 0.1)
    with pytest.raises(LedgerConflict, match="has no limit for its pure epsilons"):
        ledger.grant("team", 0.1, pure=0.1)
    with pytest.raises(BudgetExceeded, match="the share of 'more' needs"):
        ledger.grant("more", 2)
    for one in (ledger, team):
        spent_in_all(one)


def test_shares_of_other_meters_have_no_such_parts(place):
    ledger = make(place, 1)
    for wrong, says in (
        ({"pure": 0.1}, "is for an account with the renyi meter"),
        ({"failures": 1e-9}, "is for an account that keeps a part of its delta for failures"),
    ):
        with pytest.raises(InvalidParameter, match=says):
            ledger.grant("team", 0.1, **wrong)
    assert spent(ledger) == 0


# ---- what is found out -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "alpha = '30'",
        "alpha = 'x'",
        "alpha = '1'",
        "failures = '1/10000000'",
        "pure_limit = pure_limit + 1",
        "failing_limit = 5",
        "allowance = allowance + 1",
    ],
)
@pytest.mark.sample(4)
def test_an_account_whose_order_was_edited_is_not_charged(place, change):
    ledger = account(place, 3)
    ledger.reserve(Pure(epsilon=0.1))
    head = row_of(ledger).head
    sqlite.close_all()
    postgres.close_waiting()
    raw(place, f"UPDATE ~account SET {change} WHERE name = 'orders'")
    # One that is open already finds an order that is another one.
    if change.startswith("alpha"):
        with pytest.raises((LedgerConflict, LedgerError)):
            ledger.reserve(Pure(epsilon=0.1))
    opened = Ledger.open(place, account="orders")
    refused(lambda: opened.reserve(Pure(epsilon=0.1)), "is not the one that it was made with")
    refused(lambda: opened.grant("team", 0.1), "is not the one that it was made with")
    assert not opened.verify(head=head).sound
    assert raw(place, "SELECT count(*) FROM ~charge") == [(1,)]


TAMPERING = {
    "pure sum": "UPDATE ~account SET pure_spent = pure_spent - 1",
    "deltas": "UPDATE ~account SET failing_spent = failing_spent - 1",
    "flag": "UPDATE ~account SET impure = 0",
    "charge pure": "UPDATE ~charge SET pure_reserved = pure_reserved - 1 WHERE pure_reserved > 0",
    "charge drawn": "UPDATE ~charge SET pure_drawn = pure_drawn - 1 WHERE pure_drawn > 0",
    "charge settled": "UPDATE ~charge SET pure_settled = pure_settled + 1 WHERE pure_settled > 0",
    "charge delta": "UPDATE ~charge SET failing_reserved = 0",
    "charge delta drawn": "UPDATE ~charge SET failing_drawn = failing_drawn + 1",
    "charge flag": "UPDATE ~charge SET impure = 1 - impure",
    "event": "UPDATE ~event SET sums = replace(sums, ',', ', ') WHERE number = 3",
    "event without sums": "UPDATE ~event SET sums = '' WHERE number = 3",
    "event with fewer": "UPDATE ~event SET sums = '1,2' WHERE number = 3",
}


@pytest.mark.parametrize("tampered", TAMPERING)
@pytest.mark.sample(4)
def test_tampering_is_convicted(place, tampered):
    ledger = account(place, 3, failures=5e-7)
    with ledger.reserve(Approximate(epsilon=0.2, delta=1e-7)) as charge:
        charge.draw(Approximate(epsilon=0.1, delta=1e-7))
    ledger.reserve(Pure(epsilon=0.1))
    ledger.reserve(ZCDP(rho=0.001))
    assert ledger.verify().sound
    sqlite.close_all()
    postgres.close_waiting()
    if place.startswith("postgresql:"):
        raw(place, "DROP TRIGGER append_only ON ~event")
    else:
        raw(place, "DROP TRIGGER event_update")
    raw(place, TAMPERING[tampered])
    assert Ledger.open(place, account="orders").verify().problems


def test_the_history_can_be_checked_without_the_library(place):
    import hashlib

    ledger = account(place, 3, failures=5e-7)
    ledger.grant("team", 0.1, pure=0.1)
    with ledger.reserve(Approximate(epsilon=0.2, delta=1e-7)) as charge:
        charge.draw(Approximate(epsilon=0.1, delta=1e-7))
    head, (first, *lines) = "", map(json.loads, ledger.export())
    assert (first["alpha"], first["failures"]) == (str(row_of(ledger).alpha), "1/2000000")
    for line in lines:
        fields = ("number", "kind", "charge", "amount", "spent", "allowance", "sums", "body")
        covered = " ".join([head, *(str(line[name]) for name in fields)])
        head = hashlib.sha256(covered.encode()).hexdigest()
        assert head == line["head"]
    assert head == ledger.statement().head


def test_events_for_dp_accounting(place):
    ledger = account(place, 3, failures=5e-7)
    ledger.reserve(Pure(epsilon=0.2))
    ledger.reserve(Pure(epsilon=0.1))
    assert len(ledger.dp_events()) == 2
    other = account(place, 3, name="other", failures=5e-7)
    for no_event in (
        ledger.reserve(ZCDP(rho=0.001)),
        other.reserve(Approximate(epsilon=0.1, delta=1e-7)),
    ):
        with pytest.raises(InvalidParameter, match="is no event of dp_accounting"):
            Ledger.open(place, account=no_event.account).dp_events()


def test_a_backup_is_whole(tmp_path):
    ledger = account(tmp_path / "budget.db", 3, failures=5e-7)
    ledger.grant("team", 0.1).reserve(ZCDP(rho=0.001))
    ledger.reserve(Approximate(epsilon=0.2, delta=1e-7))
    heads = ledger.backup(tmp_path / "copy.db")
    copy = Ledger.open(tmp_path / "copy.db", account="orders")
    assert copy.verify(head=heads["orders"]).sound
    copy.reserve(Pure(epsilon=0.1))
    sqlite.close_all()
    # The check of a file that stands alone looks at these sums, too.
    raw(
        str(tmp_path / "copy.db"),
        "UPDATE account SET pure_spent = pure_spent - 1 WHERE name = 'orders'",
    )
    (tmp_path / "copy.db-journal").unlink(missing_ok=True)
    refused(
        lambda: Ledger.open(tmp_path / "copy.db", account="team").reserve(Pure(epsilon=0.1)),
        "holds half of a write",
    )


# ---- older ledgers ---------------------------------------------------------------------------------------------


def as_before(ledger, cost):
    """Return what a client of schema 2 or 3 tells a file when it charges."""
    given = dict.fromkeys(("label", "unit", "source", "adjacency", "reading", "detail"))
    *_, parameters = request(ledger._pages.facts, [cost], **given, allow_approximate=False)
    return {
        name: parameters[name] for name in ("account", "charge", "amount", "digest", "lock", "body")
    }


def test_an_older_process_that_has_the_file_open_charges_what_it_understands(tmp_path):
    """It does not look at the number of the schema again; the file keeps it from accounts that it does not know."""
    url = str(tmp_path / "budget.db")
    ledger = make(url, 1)
    ledger.reserve(Pure(epsilon=0.1))
    with_delta = account(url, 3, name="other")
    reserve_as_before(url, as_before(ledger, Pure(epsilon=0.2)))
    assert spent(ledger) == Fraction(3, 10)
    for known in (as_before(with_delta, Pure(epsilon=0.2)), as_before(ledger, Pure(epsilon=0.2))):
        if known["account"] == "orders":
            ledger.convert("after", Budget(epsilon=1, delta=1e-6))
        with pytest.raises(sqlite3.IntegrityError, match="is for a newer version of sordino"):
            reserve_as_before(url, known)
    for name in Ledger.accounts(url):
        assert Ledger.open(url, account=name).verify().problems == ()
    assert (row_of(with_delta).spent, row_of(ledger).spent) == (0, 3 * 10**8)


def test_a_file_of_this_schema_without_the_trigger_gets_it_with_the_next_charge(tmp_path):
    """An earlier state of this version made such files; whoever may only read leaves them as they are."""
    url = str(tmp_path / "budget.db")
    ledger = account(url, 3)
    ledger.reserve(Pure(epsilon=0.1))
    sqlite.close_all()
    raw(url, "DROP TRIGGER event_insert")
    before = sqlite3.connect(url).execute("PRAGMA schema_version").fetchone()
    assert spent(ledger) > 0
    assert ledger.verify().sound
    assert sqlite3.connect(url).execute("PRAGMA schema_version").fetchone() == before
    ledger.reserve(Pure(epsilon=0.1))
    with pytest.raises(sqlite3.IntegrityError, match="is for a newer version of sordino"):
        reserve_as_before(url, as_before(ledger, Pure(epsilon=0.2)))
    # Once: what is there is not written again.
    made = sqlite3.connect(url).execute("PRAGMA schema_version").fetchone()
    ledger.reserve(Pure(epsilon=0.1))
    assert sqlite3.connect(url).execute("PRAGMA schema_version").fetchone() == made
    assert ledger.verify().sound


def test_a_client_that_is_connected_while_a_server_gets_another_schema_is_told(owner):  # noqa: F811
    """It calls a function that is no longer there, or not with these parameters."""
    ledger = make(owner, 1)
    ledger.reserve(Pure(epsilon=0.1))
    assert sum(map(len, postgres._idle_connections.values()))
    raw(owner, "ALTER FUNCTION ~reserve RENAME TO reserve_as_it_will_be")
    refused(
        lambda: ledger.reserve(Pure(epsilon=0.1)),
        "was brought to the schema of another version of sordino while this program used it; use that version.",
    )
    raw(owner, "ALTER FUNCTION ~reserve_as_it_will_be RENAME TO reserve")
    assert spent(ledger) == Fraction(1, 10)


# ---- a model ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sample(4)
def test_a_ledger_does_what_the_arithmetic_says(place, seed):
    """Random charges, draws, settlements, shares: three sums by hand, and the rule of `Limits`."""
    chance = random.Random(seed)
    ledgers = {"orders": account(place, 1, failures=5e-7)}
    limits = {"orders": row_of(ledgers["orders"]).limits}
    sums = {"orders": Sums()}
    open_charges = []
    order = row_of(ledgers["orders"]).meter_at_order.order

    def plus(a, b, sign=1):
        return Sums(
            *(x + sign * y for x, y in zip(a[:3], b[:3], strict=True)),
            a.impure | max(0, sign * b.impure),
        )

    for _ in range(60):
        name = chance.choice(list(ledgers))
        size = Fraction(chance.randrange(1, 90), 1000)
        cost = chance.choice(
            [Pure(epsilon=size)] * 4
            + [
                ZCDP(rho=size**2 / 4),
                Approximate(epsilon=size, delta=Fraction(chance.randrange(1, 9), 10**8)),
            ]
        )
        act = chance.random()
        if act < 0.6:
            whole = amounts_at(cost, order).rounded_up()
            if not limits[name].admits(sums[name], whole):
                with pytest.raises(BudgetExceeded):
                    ledgers[name].reserve(cost)
                continue
            open_charges.append((name, ledgers[name].reserve(cost), cost, whole))
            sums[name] = plus(sums[name], whole)
        elif act < 0.9 and open_charges:
            name, charge, cost, whole = open_charges.pop(chance.randrange(len(open_charges)))
            kept = whole
            if chance.random() < 0.3:
                kept = Sums()  # never drawn
            elif isinstance(cost, Pure):
                part = cost.pure() * Fraction(chance.randrange(1, 5), 4)
                charge.release(Mechanism(cost.pure(), spends=part), [1], entropy=REAL)
                kept = whole._replace(pure=math.ceil(part * NANO))
            else:
                charge.draw(cost)
            if chance.random() < 0.2:
                ledgers[name].void(charge.id, reason="the model says so")
                kept = whole if kept != Sums() else kept
            else:
                charge.settle()
            sums[name] = plus(
                sums[name], Sums(*(w - k for w, k in zip(whole[:3], kept[:3], strict=True))), -1
            )
        elif act >= 0.9 and len(ledgers) < 4:
            child = f"team {len(ledgers)}"
            main, pure = (
                Fraction(chance.randrange(1, 50), 1000),
                chance.choice([None, Fraction(1, 20)]),
            )
            share = Sums(
                int(main * NANO), 0 if pure is None else int(pure * NANO), 0, int(pure is None)
            )
            if not limits[name].admits(sums[name], share):
                with pytest.raises(BudgetExceeded):
                    ledgers[name].grant(child, main, pure=pure)
                continue
            ledgers[child] = ledgers[name].grant(child, main, pure=pure)
            sums[name], sums[child] = plus(sums[name], share), Sums()
            limits[child] = Limits(share.main, -1 if pure is None else share.pure, 0, either=False)
        for known, ledger in ledgers.items():
            row = row_of(ledger)
            assert (row.sums, row.limits) == (sums[known], limits[known])
    for ledger in ledgers.values():
        spent_in_all(ledger)
    assert sums["orders"].failing <= ATTO // 2 * 10**-6


# ---- roles and kills -------------------------------------------------------------------------------------------


def test_a_role_charges_it_and_cannot_give_itself_more(owner, charger):  # noqa: F811
    account(owner, 3, name="team", failures=5e-7)
    mine = Ledger.open(charger, account="team")
    charge = mine.reserve(Approximate(epsilon=0.4, delta=1e-7))
    charge.draw(Approximate(epsilon=0.2, delta=1e-7))
    row = mine._pages.charge(charge.id)
    before = raw(owner, "SELECT * FROM ~event ORDER BY account, number")
    texts = {"meter": "renyi", "alpha": row_of(mine).alpha, "adjacency": PLACE["adjacency"]}
    texts |= {"unit": 'column "customer"', "source": PLACE["source"], "account": "team"}
    state = {"charge": charge.id, "key": charge._key, "account": "team"}
    closing = {
        **state,
        "reserved": row.reserved,
        "drawn": row.drawn,
        "draws": 1,
        "amount": row.drawn,
    }
    closing |= {"pure": row.pure_drawn, "failing": row.failing_drawn}
    asked = {"charge": "8e" * 16, "amount": 1, "pure": 1, "failing": 1, "impure": 0}
    for wrong in (-1, -(10**9), None, 9 * 10**18):
        for name in ("amount", "pure", "failing"):
            # As much as a column holds fits one sum while the other one has room, and is charged in full.
            if name == "failing" or wrong != 9 * 10**18:
                assert called(charger, RESERVE, **texts, **{**asked, name: wrong}) is False
            assert called(charger, SETTLE, **{**closing, name: wrong}) is False
            draw = {**state, "slot": 1, "before": row.drawn, "amount": 1, "pure": 1, "failing": 0}
            assert called(charger, DRAW, **{**draw, name: wrong}) is False
    assert called(charger, RESERVE, **texts, **{**asked, "impure": 2}) is False
    assert called(charger, RESERVE, **{**texts, "alpha": "30"}, **asked) is False
    assert raw(owner, "SELECT * FROM ~event ORDER BY account, number") == before
    charge.settle()
    spent_in_all(Ledger.open(owner, account="team"))


@pytest.mark.slow
def test_a_kill_at_every_boundary_leaves_at_least_what_was_drawn(tmp_path):
    """Of reserve, draw and settle: whatever is struck, the three sums agree with the charges and the history."""

    def use(path):
        ledger = Ledger.open(path, account="orders")
        with ledger.reserve(Approximate(epsilon=0.4, delta=1e-7)) as charge:
            charge.draw(Approximate(epsilon=0.3, delta=1e-7))
        with ledger.reserve(Pure(epsilon=0.4)) as charge:
            charge.release(Mechanism(0.4, spends=0.1), [1], entropy=REAL)
        sqlite.close_all()

    account(tmp_path / "dry.db", 3, failures=5e-7)
    sqlite.close_all()
    counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        counter.install(patch.setattr)
        use(tmp_path / "dry.db")
    assert len(counter.seen) > 40
    for fatal in range(0, len(counter.seen), 5):
        path = tmp_path / f"{fatal}.db"
        account(path, 3, failures=5e-7)
        sqlite.close_all()

        def killed(path=path, fatal=fatal):
            Counter(fatal).install()
            use(path)

        assert in_child(killed) == -9
        ledger = Ledger.open(path, account="orders")
        spent_in_all(ledger)
        for line in ledger.statement().charges:
            assert line.settled is not None or line.charged == line.reserved
        ledger.reserve(Pure(epsilon=0.1))
        sqlite.close_all()


# ---- from the other meters -------------------------------------------------------------------------------------


def test_a_pure_account_goes_on_with_a_delta(place):
    ledger = make(place, 1)
    with ledger.reserve(Pure(epsilon=0.4)) as charge:
        charge.release(Mechanism(0.4, spends=0.1), [1], entropy=REAL)
    with ledger.reserve(Pure(epsilon=0.3)) as charge:
        charge.draw(Pure(epsilon=0.05))
    team = ledger.grant("team", 0.1)
    left = ledger.reserve(Pure(epsilon=0.2))
    budget = Budget(epsilon=1, delta=1e-6)
    with pytest.raises(InvalidParameter, match="keeps its epsilon or gets a larger one"):
        ledger.convert("many", Budget(epsilon=0.9, delta=1e-6))
    with pytest.raises(InvalidParameter, match="into one with a delta"):
        ledger.convert("many", Budget(epsilon=1))
    with pytest.raises(LedgerConflict, match="'team' exists already"):
        ledger.convert("team", budget)
    with pytest.raises(LedgerConflict, match="is a share of 'orders'"):
        team.convert("many", budget)
    many = ledger.convert("many", budget)
    # The pure sum with its refunds; the divergences of the worst cases without any.
    order = Fraction(budget.order)
    worst = [amounts_at(Pure(epsilon=e), order).rounded_up().main for e in (0.4, 0.05, 0.1, 0.2)]
    assert spent_in_all(many) == Sums(sum(worst), 450_000_000)
    for refuse in (
        lambda: ledger.reserve(Pure(epsilon=0.01)),
        lambda: ledger.grant("other", 0.01),
        lambda: Ledger.open(place, account="orders").convert("again", budget),
    ):
        with pytest.raises(LedgerConflict, match="was converted into 'many'"):
            refuse()
    # What was open ends in the old account, and what returns there is lost to the new one.
    left.draw(Pure(epsilon=0.1))
    left.settle()
    team.reserve(Pure(epsilon=0.1))
    before = row_of(many).sums
    assert spent(ledger) == Fraction(1, 10) + Fraction(1, 20) + Fraction(1, 10) + Fraction(1, 10)
    assert spent(team) == Fraction(1, 10)
    assert spent_in_all(many) == before
    with pytest.raises(LedgerConflict, match="closed already"):
        many.void(many.statement().charges[0].id, reason="none")
    assert [event.kind for event in many.history()] == ["create", "reserve", "draw", "settle"]
    assert many.statement().charges[0].detail["account"] == "orders"
    with many.reserve(Pure(epsilon=0.5)) as charge:
        charge.draw(Pure(epsilon=0.5))
    with pytest.raises(BudgetExceeded):
        many.reserve(Pure(epsilon=0.1))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1, 1e-6), (3, 1e-6), (8, 1e-6), (1, 1e-9), (Fraction(1, 10), 1e-12), (0.7, 0.01)],
)
def test_a_zcdp_account_goes_on_with_two_sums(tmp_path, epsilon, delta):
    ledger = make(tmp_path / "budget.db", epsilon, delta=delta, meter="zcdp")
    rho = Fraction(ledger.statement().limit) / 3
    with ledger.reserve(ZCDP(rho=rho)) as charge:
        charge.draw(ZCDP(rho=rho))
    for other in (
        Budget(epsilon=epsilon, delta=delta / 2),
        Budget(epsilon=2 * epsilon, delta=delta),
    ):
        with pytest.raises(InvalidParameter, match="keeps its epsilon and its delta"):
            ledger.convert("many", other)
    budget = Budget(epsilon=epsilon, delta=delta)
    many = ledger.convert("many", budget)
    assert spent_in_all(many) == Sums(
        math.ceil(math.ceil(rho * NANO) * Fraction(budget.order)), 0, 0, 1
    )
    # What was left there is left here.
    for _ in range(2):
        many.reserve(ZCDP(rho=rho - Fraction(2, NANO)))
    spent_in_all(many)


def test_a_conversion_is_refused_if_something_happened_meanwhile(place):
    ledger = make(place, 1)
    _, store = ledger.reserve(Pure(epsilon=0.1)), ledger._store
    apply = type(store).apply

    def late(self, operation, parameters):
        if operation is CONVERT:
            Ledger.open(place, account="orders").reserve(Pure(epsilon=0.8))
        return apply(self, operation, parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "apply", late)
        with pytest.raises(LedgerConflict, match="was changed by others"):
            ledger.convert("many", Budget(epsilon=1, delta=1e-6))
    assert Ledger.accounts(place) == ("orders",)
    assert spent(ledger) == Fraction(9, 10)


def test_a_kill_in_the_middle_of_a_conversion_leaves_one_account_that_can_be_charged(tmp_path):
    def use(path):
        Ledger.open(path, account="orders").convert("many", Budget(epsilon=1, delta=1e-6))
        sqlite.close_all()

    make(tmp_path / "dry.db", 1).reserve(Pure(epsilon=0.4))
    sqlite.close_all()
    counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        counter.install(patch.setattr)
        use(tmp_path / "dry.db")
    for fatal in range(0, len(counter.seen), 4):
        path = tmp_path / f"{fatal}.db"
        make(path, 1).reserve(Pure(epsilon=0.4))
        sqlite.close_all()

        def killed(path=path, fatal=fatal):
            Counter(fatal).install()
            use(path)

        assert in_child(killed) == -9
        old = Ledger.open(path, account="orders")
        if "many" in Ledger.accounts(path):
            with pytest.raises(LedgerConflict, match="was converted"):
                old.reserve(Pure(epsilon=0.1))
            assert spent_in_all(Ledger.open(path, account="many")).pure == 4 * 10**8
        else:
            old.reserve(Pure(epsilon=0.1))
        assert old.verify().sound
        sqlite.close_all()


def test_a_history_goes_on_after_no_conversion(place):
    """Who takes the mark away, to charge both accounts, is found out."""
    ledger = make(place, 1)
    ledger.reserve(Pure(epsilon=0.1))
    ledger.convert("many", Budget(epsilon=1, delta=1e-6))
    assert ledger.verify().sound
    raw(place, "UPDATE ~account SET successor = '' WHERE name = 'orders'")
    assert not ledger.verify().sound
    Ledger.open(place, account="orders").reserve(Pure(epsilon=0.1))
    assert any("is not possible" in problem for problem in ledger.verify().problems)


# ---- releases of the library -----------------------------------------------------------------------------------


def test_streams_and_gaussian_noise_are_charged(tmp_path):
    """A stream gives its pure epsilon back, and Gaussian noise has none."""
    ledger = account(tmp_path / "budget.db", 3)
    order = row_of(ledger).meter_at_order.order
    mechanism = sd.SparseVector(
        threshold=100, positives=3, epsilon=0.8, sensitivity=sd.COUNTING, split=0.25
    )
    with ledger.reserve(mechanism) as charge, charge.open(mechanism) as stream:
        assert [stream.ask(answer).above for answer in (-(10**6), 10**6)] == [False, True]
    # 0.2 for the threshold and 0.2 for the one positive; the divergence is that of the whole.
    assert spent_in_all(ledger) == amounts_at(mechanism.cost, order).rounded_up()._replace(
        pure=4 * 10**8
    )
    gaussian = sd.GaussianMechanism(rho=0.001, sensitivity=sd.COUNTING)
    with ledger.reserve(gaussian) as charge:
        charge.release(gaussian, 1234)
    assert row_of(ledger).impure == 1
    spent_in_all(ledger)


def test_a_session_charges_it(tmp_path):
    table = tmp_path / "orders.csv"
    table.write_text(
        "customer,product\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(400)), encoding="utf-8"
    )
    ledger = Ledger.create(
        tmp_path / "budget.db",
        account="orders",
        budget=Budget(epsilon=3, delta=1e-6),
        adjacency="add-remove",
        unit=sd.PrivacyUnit("customer"),
        source=table,
    )
    session = sd.Session(str(table), unit=sd.PrivacyUnit("customer"), ledger=ledger)
    for _ in range(3):
        session.count_distinct_units(epsilon=0.1, noise="laplace")
    assert row_of(ledger).pure_spent == 3 * 10**8
    assert ledger.statement().more > 25
    spent_in_all(ledger)
    with pytest.raises(BudgetExceeded, match="Nothing was read or released"):
        session.count_distinct_units(epsilon=3)
