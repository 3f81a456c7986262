"""Budgets are rounded down, charges up, and nothing is ever a float."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from ledger.fakes import REAL, Mechanism, Result, make, spent
from sordino.cost import ZCDP, ApproximateZCDP, Pure, repeat
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict
from sordino.ledger import Budget, canonical_source, canonical_unit
from sordino.ledger.account.changes import parameters_of
from sordino.ledger.amounts import decimal, nano_down, nano_up
from sordino.ledger.renyi import Sums
from sordino.ledger.schema import ENTRUST, GRANT


def test_ten_tenths_fit_in_one_and_an_eleventh_does_not(tmp_path):
    ledger = make(tmp_path / "budget.db", 1.0)
    for _ in range(10):
        with ledger.reserve(Pure(epsilon=0.1)) as charge:
            charge.release(Mechanism(0.1), [1], entropy=REAL)
    assert ledger.remaining == 0
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(Pure(epsilon=0.1))
    assert str(refused.value) == (
        "Nothing of the budget of account orders is left; this needs 10%. Nothing was read or released."
    )
    assert spent(ledger) == 1


def test_the_message_names_what_is_needed_and_what_remains(tmp_path):
    ledger = make(tmp_path / "budget.db", 0.15)
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(Mechanism(0.5))
    assert str(refused.value) == (
        "100% of the budget of account orders is left; this needs 334%. The largest epsilon that fits is 0.15. "
        "Nothing was read or released."
    )
    assert refused.value.details == (
        "This release needs epsilon 0.5 but 0.15 remains in account 'orders'."
    )
    assert ledger.statement().charges == ()


@pytest.mark.parametrize("parts", [3, 7, 700])
def test_parts_of_a_budget_that_were_rounded_up_name_what_fits(tmp_path, parts):
    ledger = make(tmp_path / "budget.db", 1)
    whole = Pure(epsilon=Fraction(1, parts))
    # One charge for all but the last, rounded up once for each: as many charges would be slow.
    for _ in range(min(parts, 11) - 1):
        ledger.reserve(whole)
    if parts > 11:
        ledger.reserve(
            Pure(epsilon=(parts - 11) * Fraction(math.ceil(Fraction(10**9, parts)), 10**9))
        )
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(whole)
    found = re.search(r"The largest epsilon that fits is ([0-9.]+)\. Nothing", str(refused.value))
    ledger.reserve(Pure(epsilon=Fraction(found[1])))
    assert ledger.remaining == 0


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        ({"epsilon": 1, "delta": 1e-6}, [Pure(epsilon=0.6)]),
        ({"epsilon": 1, "delta": 1e-6}, [ZCDP(rho=0.01)]),
        ({"epsilon": 1, "delta": 1e-6}, [Pure(epsilon=0.01)] * 50),
        ({"epsilon": 3, "delta": 1e-6, "failures": 5e-7}, [ZCDP(rho=0.1), Pure(epsilon=0.2)]),
        ({"epsilon": 1, "delta": 1e-6, "meter": "zcdp"}, [ZCDP(rho=0.01)]),
        ({"epsilon": 1, "delta": 1e-6, "failures": 5e-7, "meter": "zcdp"}, [ZCDP(rho=0.02)]),
    ],
)
@pytest.mark.parametrize(
    "asked", [Pure(epsilon=5), ZCDP(rho=2), ApproximateZCDP(rho=2, delta=1e-7)]
)
@pytest.mark.each_value
def test_an_account_with_a_delta_names_an_epsilon_that_fits(tmp_path, budget, spent, asked):
    """Hardly more does not."""
    ledger = make(tmp_path / "budget.db", **budget)
    for cost in spent:
        ledger.reserve(cost)
    fails = isinstance(asked, ApproximateZCDP)
    with pytest.raises(
        InvalidParameter if fails and keeps_no_deltas(budget) else BudgetExceeded
    ) as refused:
        ledger.reserve(asked)
    found = re.search(r" Epsilon ([0-9.]+) fits\. Nothing was read", str(refused.value))
    if fails and not budget.get("failures"):
        # A delta is what lacks.
        assert found is None
        return
    if found is None:
        # There is no room for any: what was asked for has no epsilon, and divergences are used up.
        assert not isinstance(asked, Pure)
        assert ledger.remaining < Fraction(1, 100)
        return
    fitting = Fraction(found[1])
    # It is told with three digits.
    more = fitting / 10_000
    # Where what was asked for has no epsilon, epsilons count no more: then only the other sum lets one in.
    beside = [] if isinstance(asked, Pure) else [ZCDP(rho=Fraction(1, 10**18))]
    with pytest.raises(BudgetExceeded):
        ledger.reserve([Pure(epsilon=fitting + 100 * more), *beside])
    ledger.reserve(Pure(epsilon=fitting))


def keeps_no_deltas(budget):
    return budget.get("meter") == "zcdp" and not budget.get("failures")


def test_a_share_that_does_not_fit_names_no_release(tmp_path):
    ledger = make(tmp_path / "budget.db", epsilon=1, delta=1e-6)
    with pytest.raises(BudgetExceeded) as refused:
        ledger.grant("team", 50, pure=3)
    assert "fits" not in str(refused.value)


def test_a_third_is_charged_up_and_budgeted_down(tmp_path):
    third = Fraction(1, 3)
    ledger = make(tmp_path / "budget.db", third)
    assert ledger.remaining == Fraction(333333333, 10**9)
    with pytest.raises(
        BudgetExceeded, match=r"needs 101%. The largest epsilon that fits is 0\.333333333\."
    ):
        ledger.reserve(Pure(epsilon=third))
    with ledger.reserve((Pure(epsilon=Fraction(1, 10)), Mechanism(Fraction(1, 5)))) as charge:
        charge.draw(Pure(epsilon=Fraction(3, 10)))
    assert spent(ledger) == Fraction(3, 10)


def test_halves_of_a_nano_fit_where_their_sum_fits(tmp_path):
    half = Fraction(1, 2 * 10**9)
    ledger = make(tmp_path / "budget.db", Fraction(5, 10**9))
    with ledger.reserve(repeat(Pure(epsilon=half), 7)) as charge:  # 3.5 nano, charged as 4
        assert ledger.remaining == Fraction(1, 10**9)
        for _ in range(7):
            charge.draw(Pure(epsilon=half))
        with pytest.raises(LedgerConflict, match="remains in charge"):
            charge.draw(Pure(epsilon=half))
    assert spent(ledger) == Fraction(4, 10**9)


@settings(max_examples=30)
@given(
    st.lists(
        st.fractions(min_value=0, max_value=Fraction(1, 10**8), max_denominator=10**12), max_size=8
    )
)
def test_rounded_differences_never_pass_the_rounded_sum(parts):
    total, rounded = Fraction(0), 0
    for part in parts:
        rounded += nano_up(total + part) - nano_up(total)
        total += part
    assert rounded == nano_up(sum(parts, Fraction(0)))


@given(st.integers(min_value=0, max_value=10**20))
def test_a_decimal_is_exact(nano):
    assert Fraction(decimal(nano)) == Fraction(nano, 10**9)


@given(st.fractions(min_value=0, max_value=10))
def test_a_budget_is_rounded_down_and_a_charge_up(amount):
    assert Fraction(nano_down(amount), 10**9) <= amount < Fraction(nano_down(amount) + 1, 10**9)
    assert Fraction(nano_up(amount) - 1, 10**9) < amount <= Fraction(nano_up(amount), 10**9)


def test_shares_are_rounded_down(place):
    ledger = make(place, 1)
    assert ledger.grant("team", Fraction(1, 3)).remaining == Fraction(333333333, 10**9)
    assert spent(ledger) == Fraction(333333333, 10**9)
    for wrong in (0, -1, math.nan, math.inf, "1", None, True, Fraction(1, 10**10)):
        with pytest.raises(InvalidParameter, match=r"grant\.amount"):
            ledger.grant("team", wrong)
    for child in ("team", "another"):
        for huge in (9 * 10**9 + 1, 2**63, 10**30):
            with pytest.raises(InvalidParameter, match="grant.amount must be from a billionth"):
                ledger.grant(child, huge)
        for much in (1, 9 * 10**9):
            with pytest.raises(BudgetExceeded, match=f"the share of '{child}' needs"):
                ledger.grant(child, much)
    assert spent(ledger) == Fraction(333333333, 10**9)


def test_an_amount_beyond_64_bits_is_refused_and_not_wrapped(place):
    ledger = make(place, 9 * 10**9)
    for huge in (9 * 10**9 + 1, 2**63, 10**30):
        with pytest.raises(BudgetExceeded, match="needs more epsilon than any account can hold"):
            ledger.reserve(Pure(epsilon=huge))
    with ledger.reserve(Pure(epsilon=9 * 10**9)) as charge:
        charge.draw(Pure(epsilon=9 * 10**9))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(Pure(epsilon=9 * 10**9))
    assert spent(ledger) == 9 * 10**9


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"epsilon": 0}, r"Budget\.epsilon"),
        ({"epsilon": -1}, r"Budget\.epsilon"),
        ({"epsilon": math.nan}, r"Budget\.epsilon"),
        ({"epsilon": math.inf}, r"Budget\.epsilon"),
        ({"epsilon": 10**10}, "at most 9000000000"),
        ({"delta": 1e-6}, "must be 0"),
        ({"delta": -1}, r"Budget\.delta"),
        ({"epsilon": "1"}, r"Budget\.epsilon"),
        ({"epsilon": Fraction(1, 10**10)}, "at least a billionth of epsilon"),
        ({"epsilon": Fraction(10**5000)}, "at most 9000000000; got a number beyond"),
        ({"epsilon": Decimal("1e9999999")}, r"Budget\.epsilon must be a number in"),
        ({"epsilon": Decimal("1e-9999999")}, r"Budget\.epsilon must be a number in"),
        ({"epsilon": Decimal("sNaN")}, r"Budget\.epsilon must be a number in"),
    ],
)
@pytest.mark.sample(2)
def test_budgets_that_are_refused(changed, says):
    with pytest.raises(InvalidParameter, match=says):
        Budget(**{"epsilon": 1, "delta": 0, "meter": "pure"} | changed)


def test_an_amount_that_is_too_long_to_be_written_is_refused(place):
    ledger = make(place)
    for epsilon in (Fraction(1, 10**5000), Fraction(10**5000)):
        with pytest.raises(InvalidParameter, match="at most 4,000 digits"):
            ledger.reserve(Pure(epsilon=epsilon))
    ledger.reserve(Pure(epsilon=Fraction(1, 10**3900)))
    assert spent(ledger) == Fraction(1, 10**9)


def test_budgets_are_values():
    assert Budget(epsilon=3.0, delta=0.0, meter="pure") == Budget(epsilon=3)
    assert repr(Budget(epsilon=0.5)) == "Budget(epsilon=0.5, delta=0, meter='pure')"
    with pytest.raises(AttributeError):
        Budget(epsilon=1).epsilon = 2


class Odd:
    def __init__(self, epsilon):
        self.epsilon = epsilon

    def pure(self):
        return self.epsilon


@pytest.mark.parametrize(
    "chargeable",
    [
        0.5,
        None,
        (),
        [0.1],
        Pure,
        Mechanism,
        Result(None),
        Odd(-1),
        Odd(Fraction(-1, 2)),
        Odd(0.5),
        Odd(math.nan),
        Odd(True),
        Odd(None),
    ],
)
@pytest.mark.sample(2)
def test_what_is_not_an_exact_cost_cannot_be_charged(tmp_path, chargeable):
    ledger = make(tmp_path / "budget.db")
    with pytest.raises(InvalidParameter):
        ledger.reserve(chargeable)
    assert ledger.remaining == 1


def test_a_pure_account_refuses_a_cost_without_a_pure_view(tmp_path):
    ledger = make(tmp_path / "budget.db")
    with pytest.raises(
        InvalidParameter,
        match=r"pure meter cannot be charged with a ZCDP: it has no finite epsilon",
    ):
        ledger.reserve((Pure(epsilon=0.1), ZCDP(rho=0.1)))
    assert ledger.remaining == 1


def test_sources_have_one_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    for given_text, canonical in {
        "orders.parquet": here + "/orders.parquet",
        "./a/../orders-*.csv": here + "/orders-*.csv",
        "/data//x.csv": "/data/x.csv",
        "duckdb:shop.db#orders": f"duckdb:{here}/shop.db#main.orders",
        "excel:a/../shop.xlsx#Orders #1": f"excel:{here}/shop.xlsx#Orders #1",
        "duckdb:/data/shop.db#Sales.Orders": "duckdb:/data/shop.db#sales.orders",
        "postgresql:7432198765432198765/shop#public.orders": "postgresql:7432198765432198765/shop#public.orders",
        "postgresql://host/db#orders": "postgresql://host/db#orders",
        "s3://bucket/a/../b": "s3://bucket/a/../b",
        "sc://host:15002/;token=secret#Spark_Catalog.shop.Orders": "spark:spark_catalog.shop.orders",
        "sc://other#spark_catalog.shop.`orders`": "spark:spark_catalog.shop.orders",
        "spark:lake.a.b.`Odd.``name`": "spark:lake.a.b.`odd.``name`",
        "name:orders": "name:orders",
        "-": "-",
    }.items():
        assert canonical_source(given_text) == canonical
        assert canonical_source(canonical) == canonical
    assert canonical_source(tmp_path / "x.csv") == here + "/x.csv"
    for bad in ("", "a\nb", None, 3):
        with pytest.raises(InvalidParameter, match="source must be"):
            canonical_source(bad)
    for bad in ("excel:shop.xlsx", "excel:#Orders", "excel:shop.csv#Orders"):
        with pytest.raises(InvalidParameter, match="must be written excel:FILE#SHEET"):
            canonical_source(bad)
    for bad in ("duckdb:shop.db", "duckdb:#orders", "duckdb:shop.db#"):
        with pytest.raises(InvalidParameter, match="must be written duckdb:FILE#TABLE"):
            canonical_source(bad)
    for bad in (
        "sc://host",
        "sc://me:pw@host#a.b.c",
        "sc://host#orders",
        "sc://host/;token=a#secret#a.b.c",
        "spark:a.b",
    ):
        with pytest.raises(InvalidParameter, match=r"CATALOG\.SCHEMA\.TABLE") as caught:
            canonical_source(bad)
        assert "secret" not in str(caught.value)


def test_units_have_one_text():
    class Row:
        identity = "each row"

    assert canonical_unit("customer id") == 'column "customer id"'
    assert canonical_unit('a"b') == 'column "a"b"'
    assert canonical_unit(Row()) == "each row"
    assert canonical_unit("each row") != canonical_unit(Row())
    for bad in ("", None, 3, "a\x00b"):
        with pytest.raises(InvalidParameter, match="unit must be"):
            canonical_unit(bad)


def test_a_share_goes_to_a_child_of_its_own_only(place):
    ledger, other = make(place, 1), make(place, 1, "other")
    other.grant("theirs", 0.25)
    for child in ("theirs", "other", "orders"):
        with pytest.raises(LedgerConflict, match="is not a child of 'orders'. Nothing was granted"):
            ledger.grant(child, 0.25)
        # And the database refuses it as well.
        share = {"parent": "orders", "child": child, "body": "{}", **parameters_of(Sums(1))}
        assert ledger._store.apply(GRANT, share) is False
        assert ledger._store.apply(ENTRUST, share) is False
    assert (spent(ledger), spent(other)) == (0, Fraction(1, 4))


def test_what_fits_by_now_is_not_refused(ledger):
    """Somebody gave something back between the refusal and the question why."""
    ledger.reserve(Pure(epsilon=0.5))
    words = {"what": "This release", "then": "Nothing was read or released."}
    assert ledger._pages.refuse(Sums(5 * 10**8), **words) is None
    with pytest.raises(BudgetExceeded, match=r"50% of the budget .* needs 51%"):
        ledger._pages.refuse(Sums(5 * 10**8 + 1), **words)


def test_a_tiny_delta_is_not_rounded_up():
    """Floats below 2^-1022 have few digits: a delta there would be taken for one that is larger by a third."""
    for delta in (Fraction(3, 10**324), Fraction(1, 1 << 1023), 5e-324):
        with pytest.raises(
            InvalidParameter,
            match=r"Budget\.delta must be in \(0, 1\) on the zCDP meter, and at least 2\^-1022",
        ):
            Budget(epsilon=1, delta=delta, meter="zcdp")
    for delta in (Fraction(1, 1 << 1022), Fraction(1, 3 * 10**300), Fraction(2, 3)):
        limit = Budget(epsilon=1, delta=delta, meter="zcdp").limit
        assert (
            ZCDP(rho=limit).epsilon(delta)
            <= 1
            < ZCDP(rho=limit + Fraction(1, 10**9)).epsilon(delta)
        )
