"""Accounts of rhos that keep a part of delta for failures, in both databases: rhos add, deltas add, neither ever comes back."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import sqlite3
from fractions import Fraction

import pytest

import sordino as sd
from ledger.fakes import NANO, REAL, Mechanism, in_child, make, raw, refused, resumed
from ledger.faults import Counter
from ledger.older import reserve_as_before
from ledger.test_meters import epsilon_of
from ledger.test_renyi_accounts import PLACE, as_before, row_of, spent_in_all
from ledger.test_roles import called, charger, owner  # noqa: F401  (two are fixtures)
from sordino import SYSTEM, UnlistedHistogram, UnlistedTopK
from sordino.constraints import exact
from sordino.cost import RDP, ZCDP, Approximate, ApproximateZCDP, Pure, Range, compose, repeat
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger import Budget, Ledger
from sordino.ledger.amounts import Meter, exact_amounts
from sordino.ledger.renyi import ATTO, Amounts, Limits, Sums
from sordino.ledger.schema import CONVERT, DRAW, RESERVE, SETTLE, VOID
from sordino.ledger.store import postgres, sqlite
from sordino.mechanisms.unlisted.occurring import counting

FAILURES = Fraction(5, 10**7)
NO_DELTA = r"Nothing of the delta for labels that nobody listed \(failures\)"
TENTH = Fraction(1, 10**7)  # of a millionth


def account(place, epsilon=1, name="orders", delta=1e-6, failures=FAILURES):
    return make(place, epsilon, name, delta=delta, meter="zcdp", failures=failures)


def units(rho, failing=0, impure=1):
    """Return a rho and a delta as the ledger counts them."""
    return Sums(math.ceil(exact(rho) * NANO), 0, math.ceil(exact(failing) * ATTO), impure)


# ---- the budget ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "failures"),
    [(1, 1e-6, 5e-7), (3, 1e-5, 9e-6), (Fraction(1, 2), 1e-9, 1e-10), (10, 1e-3, 1e-9)],
)
def test_the_limit_is_the_largest_rho_at_what_is_left_of_delta(epsilon, delta, failures):
    budget = Budget(epsilon=epsilon, delta=delta, meter="zcdp", failures=failures)
    left = Fraction(str(delta)) - Fraction(str(failures))
    assert budget.conversion == left
    assert budget.limit == Budget(epsilon=epsilon, delta=left, meter="zcdp").limit
    assert (
        epsilon_of(budget.limit, left)
        <= epsilon
        < epsilon_of(budget.limit + Fraction(3, NANO), left)
    )
    # Less than without a part for failures: what fails is taken from the same delta.
    assert budget.limit < Budget(epsilon=epsilon, delta=delta, meter="zcdp").limit


def test_a_budget_says_what_it_keeps():
    budget = Budget(epsilon=1, delta=1e-6, meter="zcdp", failures=5e-7)
    assert repr(budget) == "Budget(epsilon=1, delta=1e-06, meter='zcdp', failures=5e-07)"
    assert (budget.meter, budget.order, budget.failures) == ("zcdp", None, FAILURES)
    assert budget.limits == Limits(int(budget.limit * NANO), -1, 5 * 10**11, either=False)
    assert budget != Budget(epsilon=1, delta=1e-6, meter="zcdp")
    # Without such a part it is what it was.
    assert Budget(epsilon=1, delta=1e-6, meter="zcdp").limits == Limits(
        24355970, 0, 0, either=False
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"failures": 1e-6}, r"failures must be a number in \[0, delta\)"),
        ({"failures": 2e-6}, r"failures must be a number in \[0, delta\)"),
        ({"failures": -1e-9}, r"failures must be a number in \[0, delta\)"),
        ({"failures": math.nan}, r"failures must be a number in \[0, delta\)"),
        ({"failures": "1e-9"}, r"failures must be a number in \[0, delta\)"),
        ({"failures": True}, r"failures must be a number in \[0, delta\)"),
        ({"failures": 1e-7, "order": 8}, "Budget.order is for the meter 'renyi' alone"),
        (
            {"failures": 1e-9, "meter": "pure", "delta": 0},
            "Budget.failures must be 0 on the pure meter",
        ),
        (
            {"failures": 1e-9, "meter": None, "delta": 0},
            "Budget.failures must be 0 on the pure meter",
        ),
        (
            {"failures": Fraction(10**12 - 1, 10**18), "epsilon": 1e-8},
            "at least a billionth of rho",
        ),
    ],
)
def test_budgets_that_are_refused(given, says):
    with pytest.raises(InvalidParameter, match=says) as caught:
        Budget(**{"epsilon": 1, "delta": 1e-6, "meter": "zcdp", **given})
    assert "\n" not in str(caught.value)


# ---- what costs add --------------------------------------------------------------------------------------------

KEEPS = Meter("zcdp", Fraction(1))


@pytest.mark.parametrize(
    ("cost", "rho", "failing"),
    [
        (ZCDP(rho=Fraction(1, 100)), Fraction(1, 100), 0),
        (ApproximateZCDP(rho=Fraction(1, 100), delta=TENTH), Fraction(1, 100), TENTH),
        (
            Approximate(epsilon=Fraction(1, 2), delta=TENTH),
            Pure(epsilon=Fraction(1, 2)).zcdp(),
            TENTH,
        ),
        (Pure(epsilon=2), Pure(epsilon=2).zcdp(), 0),
        (Range(low=0.1, high=0.2), Range(low=0.1, high=0.2).zcdp(), 0),
    ],
)
def test_a_cost_adds_its_rho_and_its_delta(cost, rho, failing):
    assert exact_amounts(cost, KEEPS) == Amounts(rho, None, Fraction(failing))
    # A delta is a sum over parts, not the chance that any of them fails: what was reserved is drawn in parts.
    assert exact_amounts(repeat(cost, 7), KEEPS) == Amounts(7 * rho, None, 7 * Fraction(failing))
    both = compose(cost, ApproximateZCDP(rho=1, delta=Fraction(1, 3)))
    assert exact_amounts(both, KEEPS) == Amounts(rho + 1, None, failing + Fraction(1, 3))
    # Without a delta of its own it is the rho that an account without a part for failures is charged.
    if not failing:
        assert exact_amounts(cost, KEEPS).main == exact_amounts(cost, Meter("zcdp")).main


class Vague:
    """A cost of somebody else, whose rho is a float, negative, too long, or none."""

    def __init__(self, rho):
        self.rho = rho

    def pure(self):
        return math.inf

    def zcdp(self):
        return self.rho


@pytest.mark.parametrize(
    ("rho", "says"),
    [
        (0.1, "must be an exact fraction"),
        (Fraction(-1), "must be an exact fraction"),
        (True, "must be an exact fraction"),
        (math.inf, "no finite rho"),
        (Fraction(1, 3**20_000), "at most 4,000 digits"),
    ],
)
def test_costs_without_an_exact_rho_are_refused(tmp_path, rho, says):
    ledger = account(tmp_path / "l.db")
    with pytest.raises(InvalidParameter, match=says):
        ledger.reserve(Vague(rho))
    with pytest.raises(InvalidParameter, match="must be a fraction of at most 4,000 digits"):
        ledger.reserve(ApproximateZCDP(rho=0.001, delta=Fraction(1, 3**20_000)))
    with pytest.raises(InvalidParameter, match="no finite rho"):
        ledger.reserve(compose(RDP(table=[(2, 0.1)]), ApproximateZCDP(rho=0.001, delta=1e-9)))
    assert row_of(ledger).sums == Sums()


# ---- charges ---------------------------------------------------------------------------------------------------


def test_as_many_releases_fit_as_both_sums_have_room_for(place):
    """Of delta five fit and of rho many more; then the other way round."""
    ledger = account(place)
    cost = ApproximateZCDP(rho=0.001, delta=TENTH)
    for left in range(5, 0, -1):
        if left < 5:
            assert ledger.statement().more == left
        with ledger.reserve(cost) as charge:
            charge.draw(cost)
        assert spent_in_all(ledger) == units((6 - left) * cost.rho, (6 - left) * TENTH)
    assert ledger.statement().more == 0
    with pytest.raises(
        BudgetExceeded,
        match=NO_DELTA,
    ):
        ledger.reserve(cost)
    # What cannot fail still fits, up to the last billionth of rho.
    rest = ledger.remaining
    with pytest.raises(
        BudgetExceeded,
        match=r"\d% of the budget of account orders is left; this needs .*%. Epsilon 0\.\d+ fits. Nothing",
    ):
        ledger.reserve(ZCDP(rho=rest + Fraction(1, NANO)))
    ledger.reserve(ZCDP(rho=rest))
    assert (ledger.remaining, ledger.statement().more) == (0, 0)
    # An epsilon of nothing is no way around: rhos alone count here.
    for tiny in (Pure(epsilon=1e-4), ZCDP(rho=Fraction(1, NANO)), Pure(epsilon=10**9)):
        with pytest.raises(BudgetExceeded, match="Nothing of the budget"):
            ledger.reserve(tiny)
    spent_in_all(ledger)


def test_a_statement_says_both_sums(place):
    ledger = account(place)
    ledger.reserve(ApproximateZCDP(rho=0.001, delta=2 * TENTH), label="labels")
    said = Ledger.open(place, account="orders").statement()
    assert (said.meter, said.measure, said.renyi) == ("zcdp", "rho", None)
    assert (said.limit, said.spent) == (
        Budget(epsilon=1, delta=1e-6, meter="zcdp", failures=FAILURES).limit,
        Fraction(1, 1000),
    )
    assert (said.failures.limit, said.failures.spent) == (FAILURES, 2 * TENTH)
    told = said.to_dict()
    assert (told["failures"]["limit"], told["failures"]["spent"]) == (5e-7, 2e-7)
    assert told["failures"]["exact"] == {"limit": "1/2000000", "spent": "1/5000000"}
    assert "renyi" not in told
    [line] = said.charges
    assert (line.reserved, line.epsilon, line.delta) == (Fraction(1, 1000), None, 2 * TENTH)
    assert said.more == 1
    # Without a part for failures nothing is said of one.
    plain = make(place, 1, "plain", delta=1e-6, meter="zcdp").statement()
    assert plain.failures is None
    assert "failures" not in plain.to_dict()


def test_what_was_never_drawn_returns_in_both_sums(place):
    ledger = account(place)
    cost = compose(ZCDP(rho=0.001), Approximate(epsilon=0.01, delta=TENTH))
    with ledger.reserve(cost):
        assert spent_in_all(ledger) == units(exact_amounts(cost, KEEPS).main, TENTH)
    assert spent_in_all(ledger)[:3] == (0, 0, 0)
    with ledger.reserve(cost) as charge:
        charge.draw(ZCDP(rho=0.001))
    assert spent_in_all(ledger)[:3] == units(0.001)[:3]
    charge = ledger.reserve(cost)
    charge.draw(Approximate(epsilon=0.01, delta=TENTH))
    line = ledger.void(charge.id, reason="its process died")
    assert (line.delta, line.settled) == (TENTH, line.drawn)
    assert spent_in_all(ledger)[:3] == units(0.001 + line.drawn, TENTH)[:3]


@pytest.mark.parametrize("operation", [SETTLE, VOID], ids=lambda operation: operation.name)
def test_the_database_itself_gives_nothing_back(place, operation):
    """A twin that refunds a billionth of rho or one unit of delta is refused by both databases."""
    ledger = account(place)
    cost = Approximate(epsilon=0.1, delta=TENTH)
    charge = ledger.reserve(cost)
    charge.draw(cost)
    row = ledger._pages.charge(charge.id)
    known = {"account": "orders", "charge": charge.id, "key": charge._key, "draws": 1, "body": "{}"}
    known |= {"reserved": row.reserved, "drawn": row.drawn}
    whole = {"amount": row.drawn, "pure": 0, "failing": row.failing_drawn}
    assert whole["failing"] == 10**11
    for changed in (
        {"amount": row.drawn - 1},
        {"amount": 0},
        {"amount": row.drawn + 1},
        {"failing": 0},
        {"failing": row.failing_drawn - 1},
        {"failing": row.failing_drawn + 1},
        {"pure": 1},
        {"pure": -1},
    ):
        assert ledger._store.apply(operation, {**known, **whole, **changed}) is False
    assert ledger._store.apply(operation, {**known, **whole}) is True
    assert row_of(ledger).sums == units(cost.firm.zcdp(), TENTH)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.sample(2)
def test_labels_that_nobody_listed_are_charged_in_full(place, noise):
    """An empty list spends less epsilon, and on an account of rhos nothing of it comes back."""
    ledger = account(place, 9)
    m = UnlistedTopK(k=3, epsilon=0.6, delta=TENTH, sensitivity=counting(5), noise=noise)
    whole = units(Pure(epsilon=m.cost.epsilon_).zcdp(), TENTH)
    for asked in range(1, 4):
        with ledger.reserve(m) as charge:
            found = charge.release(m, [], labels=[], entropy=SYSTEM)
            assert found.cost.epsilon_ < m.cost.epsilon_
        assert spent_in_all(ledger)[:3] == (asked * whole.main, 0, asked * whole.failing)
    counts = UnlistedHistogram(rho=0.001, delta=TENTH, sensitivity=counting(5))
    with ledger.reserve(counts) as charge:
        charge.release(counts, [1], labels=["only one"], entropy=SYSTEM)
    assert spent_in_all(ledger)[:3] == (3 * whole.main + 10**6, 0, 4 * whole.failing)


def test_asking_again_until_something_is_found_ends_with_the_delta(place):
    """The broken twin gives delta back for an empty list; this account stops after five."""
    ledger = account(place, 50)
    m = UnlistedTopK(k=3, epsilon=0.6, delta=TENTH, sensitivity=counting(5))
    for _ in range(5):
        with ledger.reserve(m) as charge:
            charge.release(m, [1], labels=["only one"], entropy=SYSTEM)
    assert spent_in_all(ledger).failing == 5 * TENTH * ATTO
    with pytest.raises(BudgetExceeded, match=NO_DELTA):
        ledger.reserve(m)


class Said:
    """Says after its release what it spent."""

    def __init__(self, cost, said, *, per_transcript=True):
        self.cost, self.said, self.per_transcript = cost, said, per_transcript

    def release(self, _answers, *, entropy):
        class Result:
            simulated = False
            cost = self.said

        return Result()


HALF = Approximate(epsilon=0.5, delta=TENTH)


@pytest.mark.parametrize(
    ("cost", "said", "proved", "accepted"),
    [
        (HALF, Approximate(epsilon=0.1, delta=TENTH), True, True),
        (HALF, Pure(epsilon=0.1), True, True),
        (HALF, Approximate(epsilon=0.1, delta=2 * TENTH), True, False),
        (HALF, Approximate(epsilon=0.6, delta=TENTH), True, False),
        (HALF, ApproximateZCDP(rho=0.01, delta=TENTH), False, True),
        (HALF, ApproximateZCDP(rho=0.01, delta=2 * TENTH), False, False),
        (HALF, RDP(table=[(2, 0.1)]), False, False),
        # A pure bound of one transcript may be more than what all cost on average.
        (repeat(Range(low=0.01, high=0.02), 2), Pure(epsilon=0.03), True, True),
        (repeat(Range(low=0.01, high=0.02), 2), Pure(epsilon=0.03), False, False),
        (
            repeat(Range(low=0.01, high=0.02), 2),
            Approximate(epsilon=0.03, delta=TENTH),
            True,
            False,
        ),
    ],
)
@pytest.mark.sample(3)
def test_what_a_release_says_of_itself_gives_nothing_back(place, cost, said, proved, accepted):
    ledger = account(place, 3)
    whole = units(*(getattr(exact_amounts(cost, KEEPS), name) for name in ("main", "failing")))
    charge = ledger.reserve(cost)
    release = Said(cost, said, per_transcript=proved)
    if accepted:
        charge.release(release, [1], entropy=REAL)
        charge.settle()
    else:
        with pytest.raises(LedgerConflict, match="spent more than its mechanism declared"):
            charge.release(release, [1], entropy=REAL)
    assert spent_in_all(ledger) == whole


def test_draws_stay_within_what_was_reserved_in_each_sum(place):
    ledger = account(place, 3)
    charge = ledger.reserve(repeat(ApproximateZCDP(rho=Fraction(1, 3000), delta=TENTH / 3), 7))
    for _ in range(7):
        charge.draw(ApproximateZCDP(rho=Fraction(1, 3000), delta=TENTH / 3))
    for more in (ZCDP(rho=Fraction(1, NANO)), ApproximateZCDP(rho=0, delta=1e-18)):
        with pytest.raises(
            LedgerConflict, match=r"remains in charge .*\(or its delta does not fit\)"
        ):
            charge.draw(more)
    charge.settle()
    assert spent_in_all(ledger) == units(Fraction(7, 3000), 7 * TENTH / 3)
    # Pure and rho are both rhos here, so either is drawn from a reservation of the other.
    charge = ledger.reserve(ZCDP(rho=0.05))
    twin = resumed(charge)
    charge.draw(Pure(epsilon=0.1))
    with pytest.raises(LedgerConflict, match="elsewhere"):
        twin.draw(Pure(epsilon=0.1))
    charge.settle()
    spent_in_all(ledger)


def test_a_stream_is_charged_in_full(tmp_path):
    ledger = account(tmp_path / "l.db", 9)
    mechanism = sd.SparseVector(threshold=100, positives=3, epsilon=0.8, sensitivity=sd.COUNTING)
    with ledger.reserve(mechanism) as charge, charge.open(mechanism) as stream:
        assert stream.ask(10**6).above
    assert spent_in_all(ledger) == units(mechanism.cost.zcdp())


# ---- shares ----------------------------------------------------------------------------------------------------


def test_a_share_has_a_rho_and_a_delta(place):
    ledger = account(place)
    team = ledger.grant("team", 0.004, failures=2e-7)
    assert row_of(team).limits == Limits(4 * 10**6, -1, 2 * 10**11, either=False)
    assert spent_in_all(ledger) == units(0.004, 2e-7)
    said = team.statement()
    assert (said.meter, said.measure, said.failures.limit) == ("zcdp", "rho", 2 * TENTH)
    team.reserve(ApproximateZCDP(rho=0.001, delta=TENTH))
    for too_much in (ZCDP(rho=0.0031), Approximate(epsilon=0.01, delta=1.1e-7)):
        with pytest.raises(BudgetExceeded, match="is left; this needs"):
            team.reserve(too_much)
    ledger.grant("team", 0.001, failures=1e-7)
    assert row_of(team).limits == Limits(5 * 10**6, -1, 3 * 10**11, either=False)
    # Of a share of a share, and one without a delta.
    small = team.grant("small", 0.001)
    small.reserve(ZCDP(rho=0.001))
    for refusing, asked in (
        (
            lambda: team.grant("more", 0.0001, failures=3e-7),
            r"66% of the delta .* is left; the share of 'more' needs 100%",
        ),
        (lambda: ledger.grant("more", 1), "the share of 'more' needs"),
        (
            lambda: small.reserve(ApproximateZCDP(rho=0, delta=1e-9)),
            r"keeps no delta for labels that nobody listed \(failures\); this needs delta 1e-09",
        ),
    ):
        with pytest.raises(BudgetExceeded, match=asked):
            refusing()
    with pytest.raises(
        InvalidParameter, match=r"grant\.pure is for an account with the renyi meter"
    ):
        ledger.grant("other", 0.001, pure=0.1)
    plain = make(place, 1, "plain", delta=1e-6, meter="zcdp")
    with pytest.raises(
        InvalidParameter, match=r"grant\.failures is for an account that keeps a part of"
    ):
        plain.grant("other", 0.001, failures=1e-9)
    for one in (ledger, team, small):
        spent_in_all(one)


# ---- what is found out -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "failures = '1/10000000'",
        "failures = '0'",
        "failing_limit = failing_limit + 1",
        "allowance = allowance + 1",
        "pure_limit = 0",
        "pure_limit = 1000000000",
        "alpha = '8'",
        "alpha = ''",
        "delta = '1/1000'",
        "meter = 'zcdp'",
    ],
)
@pytest.mark.sample(4)
def test_an_account_that_was_edited_is_convicted(place, change):
    ledger = account(place)
    ledger.reserve(ZCDP(rho=0.001))
    head = row_of(ledger).head
    sqlite.close_all()
    postgres.close_waiting()
    raw(place, f"UPDATE ~account SET {change} WHERE name = 'orders'")
    opened = Ledger.open(place, account="orders")
    # Before anything is read; an account without sums says so by what it lacks.
    with pytest.raises((LedgerError, LedgerConflict, InvalidParameter)) as caught:
        opened.reserve(ApproximateZCDP(rho=0.001, delta=1e-9))
    assert "\n" not in str(caught.value)
    assert not opened.verify(head=head).sound
    assert raw(place, "SELECT count(*) FROM ~charge") == [(1,)]


TAMPERING = {
    "deltas": "UPDATE ~account SET failing_spent = failing_spent - 1",
    "rhos": "UPDATE ~account SET spent = spent - 1",
    "flag": "UPDATE ~account SET impure = 0",
    "charge delta": "UPDATE ~charge SET failing_reserved = 0, failing_drawn = 0",
    "charge delta drawn": "UPDATE ~charge SET failing_drawn = failing_drawn - 1 WHERE failing_drawn > 0",
    "charge flag": "UPDATE ~charge SET impure = 1 - impure",
    "event": "UPDATE ~event SET sums = replace(sums, ',1', ',0') WHERE number = 3",
    "event without sums": "UPDATE ~event SET sums = '' WHERE number = 3",
}


@pytest.mark.parametrize("tampered", TAMPERING)
@pytest.mark.sample(4)
def test_tampering_is_convicted(place, tampered):
    ledger = account(place)
    cost = ApproximateZCDP(rho=0.001, delta=TENTH)
    with ledger.reserve(cost) as charge:
        charge.draw(cost)
    ledger.reserve(ZCDP(rho=0.001))
    assert ledger.verify().sound
    sqlite.close_all()
    postgres.close_waiting()
    raw(
        place,
        "DROP TRIGGER append_only ON ~event"
        if place.startswith("postgresql:")
        else "DROP TRIGGER event_update",
    )
    raw(place, TAMPERING[tampered])
    assert Ledger.open(place, account="orders").verify().problems


def test_the_history_can_be_checked_without_the_library(place):
    ledger = account(place)
    ledger.grant("team", 0.001, failures=1e-7)
    cost = Approximate(epsilon=0.1, delta=TENTH)
    with ledger.reserve(cost) as charge:
        charge.draw(cost)
    head, (first, *lines) = "", map(json.loads, ledger.export())
    # As it is kept: sums at order 1, where a rho counts as it is.
    assert (first["meter"], first["alpha"], first["failures"]) == ("renyi", "1", "1/2000000")
    for line in lines:
        fields = ("number", "kind", "charge", "amount", "spent", "allowance", "sums", "body")
        covered = " ".join([head, *(str(line[name]) for name in fields)])
        head = hashlib.sha256(covered.encode()).hexdigest()
        assert head == line["head"]
    assert head == ledger.statement().head
    [fact] = json.loads(lines[2]["body"])["charges"]
    assert (fact["rho"], fact["epsilon"], fact["delta"]) == (
        str(cost.firm.zcdp()),
        None,
        "1/10000000",
    )


def test_events_for_dp_accounting(place):
    ledger = account(place)
    ledger.reserve(Pure(epsilon=0.1))
    ledger.reserve(ZCDP(rho=0.001))
    assert len(ledger.dp_events()) == 2
    ledger.reserve(ApproximateZCDP(rho=0.001, delta=1e-9))
    with pytest.raises(InvalidParameter, match="is no event of dp_accounting"):
        ledger.dp_events()


def test_a_backup_is_whole(tmp_path):
    ledger = account(tmp_path / "budget.db")
    ledger.grant("team", 0.001).reserve(ZCDP(rho=0.001))
    ledger.reserve(ApproximateZCDP(rho=0.001, delta=TENTH))
    heads = ledger.backup(tmp_path / "copy.db")
    copy = Ledger.open(tmp_path / "copy.db", account="orders")
    assert copy.verify(head=heads["orders"]).sound
    copy.reserve(ApproximateZCDP(rho=0.001, delta=TENTH))
    assert spent_in_all(copy) == units(0.003, 2 * TENTH)
    sqlite.close_all()
    raw(str(tmp_path / "copy.db"), "UPDATE account SET failing_spent = 0 WHERE name = 'orders'")
    (tmp_path / "copy.db-journal").unlink(missing_ok=True)
    refused(
        lambda: Ledger.open(tmp_path / "copy.db", account="team").reserve(ZCDP(rho=0.0001)),
        "holds half of a write",
    )


def test_what_is_released_is_kept(place):
    ledger = account(place)
    record = sd.record.Record(facts={"release": "top"}, columns=("item",), rows=[{"item": "a"}])
    with ledger.reserve(ApproximateZCDP(rho=0.001, delta=TENTH)) as charge:
        charge.draw(ApproximateZCDP(rho=0.001, delta=TENTH))
    charge.keep(record)
    assert ledger.read_release(charge.id).rows == record.rows
    assert spent_in_all(ledger) == units(0.001, TENTH)


# ---- older ledgers, other meters -------------------------------------------------------------------------------


def test_an_older_process_that_has_the_file_open_cannot_charge_it(tmp_path):
    """It knows no deltas; the file keeps it from accounts that have them."""
    url = str(tmp_path / "budget.db")
    make(url, 1, "plain").reserve(Pure(epsilon=0.1))
    ledger = account(url)
    with pytest.raises(sqlite3.IntegrityError, match="is for a newer version of sordino"):
        reserve_as_before(url, as_before(ledger, ZCDP(rho=0.001)))
    assert row_of(ledger).sums == Sums()
    assert ledger.verify().sound


def test_it_is_not_converted(place):
    """Its delta of conversion is another one, and a mark in both databases says so too."""
    ledger = account(place)
    ledger.reserve(ZCDP(rho=0.001))
    for budget in (Budget(epsilon=1, delta=1e-6), Budget(epsilon=1, delta=1e-6, failures=FAILURES)):
        with pytest.raises(
            LedgerConflict, match="'orders' keeps deltas already. Nothing was converted"
        ):
            ledger.convert("many", budget)
    assert "<> 'renyi'" in CONVERT.statements[0]
    plain = make(place, 1, "plain", delta=1e-6, meter="zcdp")
    with pytest.raises(InvalidParameter, match="into one with a delta and the meter renyi"):
        plain.convert("many", Budget(epsilon=1, delta=1e-6, meter="zcdp", failures=FAILURES))
    assert Ledger.accounts(place) == ("orders", "plain")


# ---- models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sample(3)
def test_a_ledger_does_what_the_arithmetic_says(place, seed):
    """Random charges, draws, settlements, voids and shares against two sums of fractions by hand."""
    chance = random.Random(seed)
    limit = Budget(epsilon=1, delta=1e-6, meter="zcdp", failures=FAILURES).limit
    ledgers, limits = {"orders": account(place)}, {"orders": (limit, FAILURES)}
    taken = {"orders": [Fraction(0), Fraction(0)]}
    pending = []

    def up(number, unit):
        return Fraction(math.ceil(number * unit), unit)

    def fits(name, rho, failing):
        (most, deltas), (spent, failed) = limits[name], taken[name]
        return spent + rho <= most and failed + failing <= deltas

    for _ in range(60):
        name, act = chance.choice(list(ledgers)), chance.random()
        if act < 0.55:
            rho = Fraction(chance.randrange(1, 3000), 10**6 + chance.randrange(9))
            failing = chance.choice(
                [0, Fraction(chance.randrange(1, 9), 10**8 + chance.randrange(9))]
            )
            pure = Fraction(chance.randrange(1, 60), 1000)
            cost, exactly = chance.choice(
                [
                    (ApproximateZCDP(rho=rho, delta=failing), (rho, failing)),
                    (ZCDP(rho=rho), (rho, 0)),
                    (
                        Approximate(epsilon=pure, delta=failing),
                        (Pure(epsilon=pure).zcdp(), failing),
                    ),
                    (Pure(epsilon=pure), (Pure(epsilon=pure).zcdp(), 0)),
                ]
            )
            whole = up(exactly[0], NANO), up(exactly[1], ATTO)
            if not fits(name, *whole):
                with pytest.raises(BudgetExceeded):
                    ledgers[name].reserve(cost)
                continue
            pending.append((name, ledgers[name].reserve(cost), cost, whole))
            taken[name] = [a + b for a, b in zip(taken[name], whole, strict=True)]
        elif act < 0.9 and pending:
            name, charge, cost, whole = pending.pop(chance.randrange(len(pending)))
            drawn = chance.random() < 0.7
            if drawn and isinstance(cost, Pure):
                # What it did not spend does not come back.
                charge.release(Mechanism(cost.pure(), spends=cost.pure() / 3), [1], entropy=REAL)
            elif drawn:
                charge.draw(cost)
            if chance.random() < 0.3:
                ledgers[name].void(charge.id, reason="the model says so")
            else:
                charge.settle()
            if not drawn:
                taken[name] = [a - b for a, b in zip(taken[name], whole, strict=True)]
        elif act >= 0.9 and len(ledgers) < 4:
            child = f"team {len(ledgers)}"
            share = Fraction(chance.randrange(1, 6000), 10**6), Fraction(chance.randrange(3), 10**7)
            if not fits(name, *share):
                with pytest.raises(BudgetExceeded):
                    ledgers[name].grant(child, share[0], failures=share[1])
                continue
            ledgers[child] = ledgers[name].grant(child, share[0], failures=share[1])
            taken[name] = [a + b for a, b in zip(taken[name], share, strict=True)]
            limits[child], taken[child] = share, [Fraction(0), Fraction(0)]
        for known, ledger in ledgers.items():
            said = ledger.statement(charges=False)
            assert (said.limit, said.failures.limit) == limits[known]
            assert [said.spent, said.failures.spent] == taken[known]
    assert len(pending) + len(ledgers) > 1
    for ledger in ledgers.values():
        spent_in_all(ledger)


# A release is the list of its outputs (mass under P, mass under Q): with probability d it shows a record, and
# otherwise it is randomized response. Whoever gets d back where nothing was shown asks again.


def failing_release(epsilon, d):
    """Return the outputs of a release, of two tables: (output, P, Q)."""
    most = math.exp(epsilon) / (1 + math.exp(epsilon))
    high, low = (1 - d) * most, (1 - d) * (1 - most)
    return [("shown", d, 0.0), ("hidden", 0.0, d), ("high", high, low), ("low", low, high)]


def play(limits, *, epsilon, d, refund, times=6):
    """Return (P, Q) of all transcripts of a player who asks as often as the account lets it.

    With `refund` the account is the broken one: a release that has not failed gives its delta back.
    """
    asked = exact_amounts(Approximate(epsilon=epsilon, delta=d), KEEPS).rounded_up()
    back = Sums(0, 0, -asked.failing, 0)
    paths = {(): (1.0, 1.0, Sums())}
    for _ in range(times):
        after = {}
        for path, (p, q, spent) in paths.items():
            if not limits.admits(spent, asked):
                after[path] = (p, q, spent)
                continue
            for output, a, b in failing_release(epsilon, float(d)):
                now = spent.plus(asked)
                now = now.plus(back) if refund and output in {"high", "low"} else now
                after[(*path, output)] = (p * a, q * b, now)
        paths = after
    return [(p, q) for p, q, _ in paths.values()]


@pytest.mark.parametrize("refund", [False, True])
def test_a_delta_that_came_back_would_break_the_account(refund):
    """Enumerated: six releases that may fail, on an account whose delta is for two of them."""
    d = Fraction(1, 50)
    budget = Budget(epsilon=2, delta=Fraction(9, 200), meter="zcdp", failures=Fraction(2, 50))
    ends = play(budget.limits, epsilon=Fraction(1, 20), d=d, refund=refund)
    worst = max(
        math.fsum(max(0.0, p - math.exp(2) * q) for p, q in pairs)
        for pairs in (ends, [(q, p) for p, q in ends])
    )
    assert (worst <= float(budget.delta)) is not refund
    # The failures alone: two of them fit, and the twin lets six pass.
    assert worst == pytest.approx(1 - (1 - float(d)) ** (6 if refund else 2), rel=1e-9)


def test_no_adversary_passes_the_delta_of_the_account():
    """Trees of releases that may fail, each chosen by what came out: enumerated whole, on accounts of the rule."""
    chance = random.Random(3)
    played = 0
    for epsilon, delta, share in itertools.product((0.5, 1, 2), (0.01, 0.1), (0.2, 0.8)):
        failures = Fraction(str(delta)) * Fraction(str(share))
        limits = Budget(epsilon=epsilon, delta=delta, meter="zcdp", failures=failures).limits

        def ends(p, q, spent, depth, limits=limits, delta=delta):
            for _ in range(5 if depth else 0):
                each = Fraction(chance.randrange(1, 60), 50)
                d = Fraction(str(delta)) * chance.choice(
                    [0, Fraction(1, 10), Fraction(2, 5), Fraction(4, 5)]
                )
                asked = exact_amounts(Approximate(epsilon=each, delta=d), KEEPS).rounded_up()
                if limits.admits(spent, asked):
                    return [
                        end
                        for _, a, b in failing_release(float(each), float(d))
                        for end in ends(p * a, q * b, spent.plus(asked), depth - 1)
                    ]
            return [(p, q)]

        for _ in range(4):
            found = ends(1.0, 1.0, Sums(), 4)
            played += len(found) > 1
            for pairs in (found, [(q, p) for p, q in found]):
                reached = math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in pairs)
                assert reached <= delta * (1 + 1e-12)
    assert played > 30


# ---- roles and kills -------------------------------------------------------------------------------------------


def test_a_role_charges_it_and_cannot_give_itself_more(owner, charger):  # noqa: F811
    account(owner, name="team")
    mine = Ledger.open(charger, account="team")
    charge = mine.reserve(ApproximateZCDP(rho=0.002, delta=2 * TENTH))
    charge.draw(ApproximateZCDP(rho=0.001, delta=TENTH))
    row = mine._pages.charge(charge.id)
    before = raw(owner, "SELECT * FROM ~event ORDER BY account, number")
    texts = {"meter": "renyi", "alpha": "1", "adjacency": PLACE["adjacency"]}
    texts |= {"unit": 'column "customer"', "source": PLACE["source"], "account": "team"}
    state = {"charge": charge.id, "key": charge._key, "account": "team"}
    closing = {
        **state,
        "reserved": row.reserved,
        "drawn": row.drawn,
        "draws": 1,
        "amount": row.drawn,
    }
    closing |= {"pure": 0, "failing": row.failing_drawn}
    asked = {"charge": "8e" * 16, "amount": 1, "pure": 0, "failing": 1, "impure": 1}
    # Whoever calls no epsilon a small one gets nothing by it either: rhos alone count.
    for wrong in (
        {"amount": 30_000_000, "impure": 0},
        {"amount": 30_000_000},
        {"failing": 4 * 10**11},
    ):
        assert called(charger, RESERVE, **texts, **{**asked, **wrong}) is False
    for wrong in (-1, -(10**9), None, 9 * 10**18):
        for name in ("amount", "failing"):
            assert called(charger, RESERVE, **texts, **{**asked, name: wrong}) is False
            assert called(charger, SETTLE, **{**closing, name: wrong}) is False
            draw = {**state, "slot": 1, "before": row.drawn, "amount": 1, "pure": 0, "failing": 0}
            assert called(charger, DRAW, **{**draw, name: wrong}) is False
    for other in ({"meter": "zcdp"}, {"alpha": ""}, {"alpha": "8"}):
        assert called(charger, RESERVE, **{**texts, **other}, **asked) is False
    assert raw(owner, "SELECT * FROM ~event ORDER BY account, number") == before
    charge.settle()
    assert spent_in_all(Ledger.open(owner, account="team")) == units(0.001, TENTH)


@pytest.mark.slow
def test_a_kill_at_every_boundary_leaves_at_least_what_was_drawn(tmp_path):
    """Of reserve, draw and settle: whatever is struck, both sums agree with the charges and the history."""

    def use(path):
        ledger = Ledger.open(path, account="orders")
        with ledger.reserve(ApproximateZCDP(rho=0.004, delta=2 * TENTH)) as charge:
            charge.draw(ApproximateZCDP(rho=0.003, delta=TENTH))
        sqlite.close_all()

    account(tmp_path / "dry.db")
    sqlite.close_all()
    counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        counter.install(patch.setattr)
        use(tmp_path / "dry.db")
    assert len(counter.seen) > 20
    for fatal in range(0, len(counter.seen), 9):
        path = tmp_path / f"{fatal}.db"
        account(path)
        sqlite.close_all()

        def killed(path=path, fatal=fatal):
            Counter(fatal).install()
            use(path)

        assert in_child(killed) == -9
        ledger = Ledger.open(path, account="orders")
        spent_in_all(ledger)
        for line in ledger.statement().charges:
            least = (
                (Fraction(1, 250), 2 * TENTH)
                if line.settled is None
                else (Fraction(3, 1000), TENTH)
            )
            assert (line.charged, line.delta) == least
        ledger.reserve(ApproximateZCDP(rho=0.001, delta=TENTH))
        sqlite.close_all()
