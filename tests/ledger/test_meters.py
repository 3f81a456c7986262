"""The zCDP meter: what (epsilon, delta) allows in rho, and what comes back on which meter."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import psycopg
import pytest

from ledger.fakes import NANO, REAL, Entropy, Mechanism, Result, make, spent
from sordino.cost import ZCDP, Pure, Range, repeat
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict
from sordino.ledger import Budget, Ledger
from sordino.ledger.amounts import amount_of, nano_up
from sordino.ledger.schema import OPERATIONS, SETTLE, VOID
from sordino.ledger.store.urls import store_at


def epsilon_of(rho, delta):
    """Return the least epsilon of rho-zCDP at delta by the conversion over Renyi orders, at 40 digits by golden section.

    Canonne, Kamath and Steinke 2020, Proposition 12: delta = exp((a-1)(a rho - epsilon)) / (a-1) * (1 - 1/a)^a for every order a > 1.
    """
    mpmath.mp.dps = 40
    rho, delta = mpmath.mpf(rho.numerator) / rho.denominator, mpmath.mpf(delta)

    def at(order):
        return rho * order + (
            mpmath.log(1 / delta) + (order - 1) * mpmath.log(1 - 1 / order) - mpmath.log(order)
        ) / (order - 1)

    low, high = mpmath.log(mpmath.mpf("1e-12")), mpmath.log(mpmath.mpf("1e12"))  # of order - 1
    ratio = (mpmath.sqrt(5) - 1) / 2
    for _ in range(260):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if at(1 + mpmath.exp(left)) < at(1 + mpmath.exp(right)):
            high = right
        else:
            low = left
    return max(mpmath.mpf(0), at(1 + mpmath.exp(low)))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1, 1e-6), (Fraction(1, 2), 1e-9), (3, 1e-5), (10, 1e-12), (Fraction(1, 20), 1e-3), (50, 0.1)],
)
def test_the_limit_is_the_largest_rho_that_is_epsilon_delta(epsilon, delta):
    limit = Budget(epsilon=epsilon, delta=delta, meter="zcdp").limit
    assert (limit * NANO).denominator == 1
    assert epsilon_of(limit, delta) <= epsilon
    # Not even a millionth more, and where floats allow it not even a billionth of rho.
    assert epsilon_of(limit * (1 + Fraction(1, 10**6)) + Fraction(2, NANO), delta) > epsilon
    assert (
        ZCDP(rho=limit).epsilon(delta)
        <= epsilon
        < ZCDP(rho=limit + Fraction(1, NANO)).epsilon(delta)
    )


def test_a_larger_budget_allows_more():
    limits = [
        Budget(epsilon=Fraction(k, 10), delta=1e-6, meter="zcdp").limit for k in (1, 2, 9, 40)
    ]
    assert limits == sorted(set(limits))
    limits = [Budget(epsilon=1, delta=10.0**-k, meter="zcdp").limit for k in (12, 7, 6, 1)]
    assert limits == sorted(set(limits))


def test_small_releases_cost_less_on_the_zcdp_meter(place):
    """A thousand answers at epsilon 0.01 fit into (1, 1e-6) and not into a pure 1."""
    each = Pure(epsilon=0.005)
    rho = each.zcdp()
    ledger = make(place, 1, delta=1e-6, meter="zcdp")
    with ledger.reserve((each,) * 900) as charge:
        assert charge.reserved == 900 * rho
        for _ in range(3):
            charge.release(Mechanism(0.005), [1], entropy=REAL)
    assert spent(ledger) == amount_of(nano_up(3 * rho))
    statement = ledger.statement()
    assert (statement.measure, statement.meter, statement.delta) == (
        "rho",
        "zcdp",
        Fraction(1, 10**6),
    )
    assert statement.to_dict()["measure"] == "rho"


def test_costs_of_both_notions_are_added_in_rho(place):
    ledger = make(place, 1, delta=1e-6, meter="zcdp")
    ledger.reserve(ZCDP(rho=0.01)).draw(ZCDP(rho=0.01))
    ledger.reserve((Pure(epsilon=0.1), ZCDP(rho=0.001)))
    assert spent(ledger) == amount_of(nano_up(Fraction(11, 1000) + Pure(epsilon=0.1).zcdp()))
    with pytest.raises(BudgetExceeded, match=r"34% of the budget .* is left; this needs 42%"):
        ledger.reserve(ZCDP(rho=0.01))


def test_what_was_drawn_does_not_come_back_on_the_zcdp_meter(place):
    ledger = make(place, 1, delta=1e-6, meter="zcdp")
    with ledger.reserve(Pure(epsilon=0.2)) as charge:
        charge.release(Mechanism(0.1, spends=0, per_transcript=True), [1], entropy=REAL)
    (line,) = ledger.statement().charges
    assert (line.reserved, line.drawn, line.settled) == (
        amount_of(nano_up(Pure(epsilon=0.2).zcdp())),
        *[amount_of(nano_up(Pure(epsilon=0.1).zcdp()))] * 2,
    )
    assert spent(ledger) == line.settled  # what was not drawn did come back


@pytest.mark.parametrize("says", [False, None, 1, "yes", [True]])
@pytest.mark.sample(4)
def test_what_was_drawn_comes_back_on_the_pure_meter_only_with_a_proof_for_each_transcript(
    place, says
):
    ledger = make(place)
    with ledger.reserve(Mechanism(0.5)) as charge:
        charge.release(Mechanism(0.3, spends=0.1, per_transcript=says), [1], entropy=REAL)
    assert spent(ledger) == Fraction(3, 10)
    with ledger.reserve(Mechanism(0.5)) as charge:
        charge.release(Mechanism(0.3, spends=0.1, per_transcript=True), [1], entropy=REAL)
    assert spent(ledger) == Fraction(4, 10)


def test_a_mechanism_that_says_nothing_about_transcripts_gets_nothing_back(ledger):
    class Silent:
        cost = Pure(epsilon=0.3)

        def release(self, answers, *, entropy):
            return Result(Pure(epsilon=0))

    with ledger.reserve(Silent()) as charge:
        charge.release(Silent(), [1], entropy=REAL)
    assert spent(ledger) == Fraction(3, 10)


def test_a_release_that_spent_more_keeps_the_full_charge_on_either_meter(place):
    ledger = make(place, 1, delta=1e-6, meter="zcdp")

    class Odd(Mechanism):
        def release(self, answers, *, entropy):
            return Result(ZCDP(rho=0.0051))

    with (
        ledger.reserve(Pure(epsilon=0.2)) as charge,
        pytest.raises(LedgerConflict, match="more than its mechanism declared"),
    ):
        charge.release(Odd(0.1), [1], entropy=Entropy())
    assert spent(ledger) == amount_of(nano_up(Pure(epsilon=0.2).zcdp()))
    for says in (True, False):
        with (
            ledger.reserve(Pure(epsilon=0.01)) as charge,
            pytest.raises(LedgerConflict, match="more than its mechanism declared"),
        ):
            charge.release(Mechanism(0.01, spends=0.011, per_transcript=says), [1], entropy=REAL)


def test_a_pure_bound_of_one_transcript_may_exceed_the_average_on_the_zcdp_meter(place):
    """3 of at most 4 epsilons are worth more than 2 ranges of width 3, and yet are no more than was declared."""

    class Ranges(Mechanism):
        cost = repeat(Range(low=0.01, high=0.02), 2)

    ledger = make(place, 1, delta=1e-6, meter="zcdp")
    with ledger.reserve(Ranges.cost) as charge:
        charge.release(Ranges(0.04, spends=0.03, per_transcript=True), [1], entropy=REAL)
    assert Pure(epsilon=0.03).zcdp() > Ranges.cost.zcdp()
    assert spent(ledger) == amount_of(nano_up(Ranges.cost.zcdp()))
    with (
        ledger.reserve(Ranges.cost) as charge,
        pytest.raises(LedgerConflict, match="more than its mechanism declared"),
    ):
        charge.release(Ranges(0.04, spends=0.03, per_transcript=False), [1], entropy=REAL)


@pytest.mark.parametrize("operation", [SETTLE, VOID], ids=lambda operation: operation.name)
@pytest.mark.parametrize("meter", ["pure", "zcdp"])
@pytest.mark.sample(4)
def test_the_database_itself_refuses_a_refund_of_what_was_drawn(place, operation, meter):
    ledger = make(place, 1, **({"meter": "zcdp", "delta": 1e-6} if meter == "zcdp" else {}))
    charge = ledger.reserve(Pure(epsilon=0.2))
    charge.draw(Pure(epsilon=0.1))
    row = ledger._pages.charge(charge.id)
    known = {
        "account": "orders",
        "charge": charge.id,
        "key": charge._key,
        "reserved": row.reserved,
        "drawn": row.drawn,
        "draws": 1,
        "pure": 0,
        "failing": 0,
        "body": "{}",
    }
    store = store_at(place)
    wrong = [
        {"amount": row.drawn + 1},
        {"amount": -1},
        {"amount": row.drawn, "reserved": row.reserved + 1},
        {"amount": row.drawn, "drawn": row.drawn - 1},
        {"amount": row.drawn, "draws": 0},
        {"amount": row.drawn, "account": "other"},
        *(
            [{"amount": row.drawn, "key": "9f" * 16}, {"amount": row.drawn, "key": ""}]
            if operation is SETTLE
            else []
        ),
    ]
    for changed in wrong:
        assert store.apply(operation, {**known, **changed}) is False
    for amount in (0, row.drawn - 1):
        if meter == "zcdp":
            assert store.apply(operation, {**known, "amount": amount}) is False
    assert ledger.statement().spent == Fraction(row.reserved, NANO)
    assert store.apply(operation, {**known, "amount": row.drawn if meter == "zcdp" else 1}) is True
    assert spent(ledger) == Fraction(row.drawn if meter == "zcdp" else 1, NANO)


def test_a_charge_of_another_meter_is_refused_by_the_database(place):
    ledger = make(place)
    charge = ledger.reserve(Pure(epsilon=0.2))
    reserve = OPERATIONS[0]
    facts = {
        "adjacency": "add-remove",
        "unit": 'column "customer"',
        "source": "/data/orders.parquet",
    }
    known = {
        "account": "orders",
        "charge": "9f" * 16,
        "amount": 1,
        "pure": 0,
        "failing": 0,
        "impure": 0,
        "alpha": "",
        "reading": "",
        "digest": "9f" * 32,
        "lock": "9f" * 32,
        "body": "{}",
        **facts,
    }
    assert store_at(place).apply(reserve, {**known, "meter": "zcdp"}) is False
    assert spent(ledger) == charge.reserved


def test_shares_are_counted_in_the_measure_of_the_meter(place):
    ledger = make(place, 1, delta=1e-6, meter="zcdp")
    team = ledger.grant("team", 0.01)
    assert (team.remaining, team.statement().meter, team.statement().epsilon) == (
        Fraction(1, 100),
        "zcdp",
        1,
    )
    team.reserve(ZCDP(rho=0.01))
    with pytest.raises(
        BudgetExceeded,
        match=r"58% of the budget .* is left; the share of 'team' needs .*%. Nothing was granted",
    ):
        ledger.grant("team", 1)
    assert spent(team) == spent(ledger) == Fraction(1, 100)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"meter": "zcdp"}, r"must be in \(0, 1\) on the zCDP meter"),
        ({"meter": "zcdp", "delta": 0.0}, r"must be in \(0, 1\) on the zCDP meter"),
        ({"meter": "zcdp", "delta": 1}, r"in \[0, 1\)"),
        ({"meter": "zcdp", "delta": -1e-9}, r"in \[0, 1\)"),
        ({"meter": "zcdp", "delta": math.nan}, r"in \[0, 1\)"),
        ({"meter": "zcdp", "delta": "1e-6"}, r"in \[0, 1\)"),
        ({"meter": "zcdp", "delta": True}, r"in \[0, 1\)"),
        ({"delta": 1e-6, "meter": "pure"}, "must be 0 on the pure meter"),
        ({"meter": "rdp"}, "meter must be"),
        ({"epsilon": 1e-12}, "at least a billionth"),
        ({"meter": "zcdp", "delta": 1e-300, "epsilon": 1e-8}, "at least a billionth of rho"),
        ({"meter": "zcdp", "delta": Fraction(1, 10**400)}, r"in \(0, 1\)"),
    ],
)
def test_budgets_that_mean_nothing_are_refused(given, says):
    with pytest.raises(InvalidParameter, match=says):
        Budget(**{"epsilon": 1, **given})


def test_a_budget_says_what_it_is():
    budget = Budget(epsilon=1, delta=1e-6, meter="zcdp")
    assert repr(budget) == "Budget(epsilon=1, delta=1e-06, meter='zcdp')"
    assert budget == Budget(epsilon=1.0, delta=1e-6, meter="zcdp")
    assert budget != Budget(epsilon=1)


def test_the_facts_of_an_account_are_exact(place):
    make(place, 0.1, delta=1e-6, meter="zcdp")
    statement = Ledger.open(place, account="orders").statement()
    assert (statement.epsilon, statement.delta) == (Fraction(1, 10), Fraction(1, 10**6))
    assert statement.limit == Budget(epsilon=0.1, delta=1e-6, meter="zcdp").limit
    assert isinstance(psycopg.__version__, str)
