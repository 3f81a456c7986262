"""Filters: exact sums, all or nothing, one budget for all threads, and never a guarantee below the limits."""

from __future__ import annotations

import copy
import math
import os
import pickle
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from sordino import (
    COUNTING,
    BudgetExceeded,
    GaussianMechanism,
    InvalidParameter,
    LaplaceMechanism,
    NoisyTopK,
)
from sordino.accounting import ApproximateFilter, PureFilter, RDPFilter, ZCDPFilter
from sordino.accounting.filters import LimitedSums
from sordino.cost import RDP, ZCDP, Approximate, BoundedRange, Pure, Range, compose, repeat

EACH = [
    (lambda: PureFilter(epsilon=1), Pure(epsilon=0.1), 10),
    (lambda: ZCDPFilter(rho=1), ZCDP(rho=0.1), 10),
    (lambda: ZCDPFilter(rho=0.05), Pure(epsilon=0.1), 10),
    (lambda: RDPFilter(orders=(2, 3.5), limits=(2, 5)), ZCDP(rho=0.1), 10),
    (lambda: ApproximateFilter(epsilon=1, delta=1e-5), Approximate(epsilon=0.1, delta=1e-6), 10),
    (lambda: ApproximateFilter(epsilon=1, delta=0), Range(low=0.1, high=0.05), 10),
]


@pytest.mark.parametrize(("make", "cost", "fit"), EACH)
def test_exactly_as_many_fit_as_the_fractions_say(make, cost, fit):
    budget = make()
    untouched = budget.remaining
    for _ in range(fit):
        assert budget.admits(cost)
        budget.spend(cost)
    before = budget.spent
    assert not budget.admits(cost)
    with pytest.raises(
        BudgetExceeded,
        match=r"of the budget of this filter is left; this needs .*%\..* Nothing was charged\.",
    ) as refused:
        budget.spend(cost)
    assert " remains in the filter." in refused.value.details
    assert budget.spent == before
    whole = make()
    whole.spend(repeat(cost, fit))
    assert whole.spent == before
    assert whole.remaining == budget.remaining
    assert make().remaining == untouched
    budget.spend(Pure(epsilon=0))


@pytest.mark.parametrize(("make", "cost", "fit"), EACH)
def test_what_is_left_is_not_stretched(make, cost, fit):
    budget = make()
    budget.spend(repeat(cost, fit - 2))
    assert not budget.admits(repeat(cost, 3))
    with pytest.raises(BudgetExceeded):
        budget.spend(repeat(cost, 3))
    budget.spend(repeat(cost, 2))


def test_nothing_comes_between_looking_and_charging():
    class Slow(Fraction):
        def __gt__(self, other):
            found = Fraction(self) > other
            time.sleep(0.01)
            return found

    meter = LimitedSums(epsilon=Fraction(1))

    def attempt(_):
        try:
            meter.add({"epsilon": Slow(1)})
        except BudgetExceeded:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    assert meter.spent == {"epsilon": 1}


@pytest.mark.parametrize(("make", "cost", "fit"), EACH)
def test_threads_share_one_budget(make, cost, fit):
    budget = make()

    def attempt(_):
        try:
            budget.spend(cost)
        except BudgetExceeded:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(4 * fit))) == fit


@pytest.mark.parametrize(("make", "cost", "fit"), EACH)
def test_a_budget_is_one_thing(make, cost, fit):
    budget = make()
    for again in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="is one budget and cannot be copied"):
            again(budget)
    assert "\n" not in repr(budget)
    with pytest.raises(InvalidParameter, match="takes costs"):
        budget.spend(0.1)
    with pytest.raises(InvalidParameter, match="takes costs"):
        budget.admits(Pure)


def test_a_cost_without_the_view_is_refused_and_not_charged():
    for budget, cost in (
        (PureFilter(epsilon=1), ZCDP(rho=0.1)),
        (PureFilter(epsilon=1), Approximate(epsilon=0.1, delta=1e-9)),
        (ZCDPFilter(rho=1), Approximate(epsilon=0.1, delta=1e-9)),
        (ZCDPFilter(rho=1), RDP(rho=0.1, choices=9)),
        (RDPFilter(orders=(2, 64), limits=(1, 1)), RDP(table=[(2, 0.1), (32, 0.2)])),
        (
            RDPFilter(orders=(2,), limits=(1,)),
            compose(Pure(epsilon=0.1), Approximate(epsilon=0.1, delta=1e-9)),
        ),
        (ApproximateFilter(epsilon=1, delta=0.1), ZCDP(rho=0.1)),
    ):
        before = budget.spent
        with pytest.raises(InvalidParameter, match="needs costs with"):
            budget.spend(cost)
        with pytest.raises(InvalidParameter, match="needs costs with"):
            budget.admits(cost)
        assert budget.spent == before


def test_a_cost_that_is_no_exact_amount_is_refused():
    class Loose:
        """A cost whose epsilon is a float, as nobody's should be."""

        def pure(self):
            return 0.5

        zcdp = rdp = epsilon = delta = to_dict = pure

    with pytest.raises(InvalidParameter, match="adds exact fractions"):
        PureFilter(epsilon=1).spend(type("Own", (), {"cost": Loose(), "pure": Loose.pure})())


def test_mechanisms_are_charged_with_their_cost():
    budget = PureFilter(epsilon=2)
    budget.spend(NoisyTopK(k=3, epsilon=0.5, sensitivity=COUNTING))
    budget.spend(LaplaceMechanism(epsilon=0.25, sensitivity=COUNTING))
    assert budget.spent == Fraction(3, 4)
    concentrated = ZCDPFilter(rho=1)
    concentrated.spend(GaussianMechanism(rho=0.5, sensitivity=COUNTING))
    assert concentrated.remaining == Fraction(1, 2)


def test_rdp_stops_at_the_first_order():
    """The broken twin goes on until every order is exceeded; that is not proved private."""
    budget = RDPFilter(orders=(2, 32), limits=(10, Fraction(32, 10)))
    budget.spend(ZCDP(rho=0.1))
    assert budget.remaining == (Fraction(98, 10), 0)
    assert not budget.admits(ZCDP(rho=0.001)), "order 32 is used up although order 2 is not"
    assert budget.admits(RDP(table=[(32, 0)]))
    with pytest.raises(BudgetExceeded, match="Nothing of the budget") as refused:
        budget.spend(ZCDP(rho=0.001))
    assert "divergence at order 32" in refused.value.details
    assert budget.remaining[0] == Fraction(98, 10), "nothing is charged at the other orders"


@given(
    st.lists(
        st.sampled_from(
            [Pure(epsilon=0.1), Range(low=0.2, high=0.1), BoundedRange(epsilon=0.3), ZCDP(rho=0.01)]
        ),
        max_size=30,
    )
)
def test_rdp_amounts_are_never_below_the_curve(costs):
    budget = RDPFilter(orders=(1.5, 7), limits=(1, 2))
    spent = [Fraction(0), Fraction(0)]
    for cost in costs:
        if budget.admits(cost):
            budget.spend(cost)
            spent = [
                a + Fraction(cost.rdp(order)) for a, order in zip(spent, (1.5, 7), strict=True)
            ]
    assert all(abs(a - b) <= Fraction(1, 10**12) for a, b in zip(budget.spent, spent, strict=True))
    assert all(a <= b for a, b in zip(budget.spent, (1, 2), strict=True))


def test_guarantees_are_those_of_the_limits_whatever_was_spent():
    pure, concentrated = PureFilter(epsilon=1.5), ZCDPFilter(rho=0.05625)
    pure.spend(Pure(epsilon=0.1))
    concentrated.spend(ZCDP(rho=0.001))
    assert pure.guarantee() == Pure(epsilon=1.5)
    assert concentrated.guarantee() == ZCDP(rho=0.05625)
    assert concentrated.guarantee(1e-6) == Approximate(
        epsilon=ZCDP(rho=0.05625).epsilon(1e-6), delta=1e-6
    )
    assert float(concentrated.guarantee(1e-6).epsilon(1e-6)) == pytest.approx(
        1.56813662455, abs=1e-9
    )
    orders = (2, 8, 16, 32, 64)
    curve = RDPFilter(orders=orders, limits=[Fraction(5625, 10**5) * order for order in orders])
    curve.spend(ZCDP(rho=0.05))
    assert 1.568 < curve.guarantee(1e-6).epsilon(1e-6) < 1.7
    assert curve.guarantee().rdp(8) == pytest.approx(0.45)
    both = ApproximateFilter(epsilon=1, delta=1e-6)
    assert both.guarantee() == Approximate(epsilon=1, delta=1e-6)
    both.spend(Approximate(epsilon=0.1, delta=1e-6))
    with pytest.raises(BudgetExceeded, match="Nothing of the delta of this filter") as refused:
        both.spend(Approximate(epsilon=0.1, delta=1e-9))
    assert "needs delta" in refused.value.details
    assert both.remaining == (Fraction(9, 10), 0)


def test_bad_limits_are_refused():
    for make, words in (
        (lambda: PureFilter(epsilon=0), r"PureFilter.epsilon must be a number in \(0, inf\)"),
        (lambda: ZCDPFilter(rho=math.inf), "ZCDPFilter.rho must be"),
        (lambda: RDPFilter(orders=(), limits=()), "orders must be at least one"),
        (
            lambda: RDPFilter(orders=(2, 2), limits=(1, 1)),
            "orders must be at least one number, increasing",
        ),
        (
            lambda: RDPFilter(orders=(1,), limits=(1,)),
            r"orders must be a number in \[1.000001, 1e300\]",
        ),
        (lambda: RDPFilter(orders=(2,), limits=(1, 2)), "one limit for each of the 1 orders"),
        (lambda: RDPFilter(orders=(2,), limits=(0,)), "limits must be"),
        (lambda: ApproximateFilter(epsilon=1, delta=1), r"delta must be a number in \[0, 1\)"),
        (lambda: ApproximateFilter(epsilon=1, delta=-1), "delta must be"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            make()


MAKERS = [make for make, _, _ in EACH]


@pytest.mark.parametrize(("make", "cost", "fit"), EACH)
def test_a_copy_of_the_process_has_no_budget(make, cost, fit):
    """After a fork each of two processes would have let the whole limit through; the lock may be held at that moment."""
    budget = make()
    budget.spend(cost)

    def child():
        refused = 0
        for attempt in (
            lambda: budget.spend(cost),
            lambda: budget.admits(cost),
            lambda: budget.remaining,
        ):
            try:
                attempt()
            except BudgetExceeded as error:
                refused += "in a copy of that process nothing remains" in str(error)
        return refused + ("Filter(" in repr(budget)) + (budget.spent == spent)

    spent = budget.spent
    budget._sums._lock.acquire()
    process = os.fork()
    if not process:
        signal.alarm(20)  # a copy that waits for the lock would wait forever
        code = 1
        try:
            code = 0 if child() == 5 else 1
        finally:
            os._exit(code)
    budget._sums._lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    for _ in range(fit - 1):
        budget.spend(cost)
    assert not budget.admits(cost)


def test_limits_are_set_once():
    for make, again in zip(
        MAKERS,
        (
            {"epsilon": 9},
            {"rho": 9},
            {"rho": 9},
            {"orders": (2,), "limits": (9,)},
            {"epsilon": 9, "delta": 0},
            {"epsilon": 9, "delta": 0},
        ),
        strict=True,
    ):
        budget = make()
        before = budget.remaining
        with pytest.raises(TypeError, match="its limits are set once"):
            budget.__init__(**again)
        assert budget.remaining == before


@pytest.mark.parametrize(
    ("make", "asked"),
    [
        (lambda: PureFilter(epsilon=1), Pure(epsilon=5)),
        (lambda: ZCDPFilter(rho=0.1), ZCDP(rho=2)),
        (lambda: RDPFilter(orders=(2, 8), limits=(0.2, 0.8)), ZCDP(rho=2)),
        (lambda: ApproximateFilter(epsilon=1, delta=1e-6), Pure(epsilon=5)),
    ],
)
def test_a_refusal_says_what_fits_as_a_ledger_does(make, asked):
    budget = make()
    budget.spend(Pure(epsilon=Fraction(1, 8)))
    with pytest.raises(BudgetExceeded) as refused:
        budget.spend(asked)
    found = re.search(
        r"\d% of the budget of this filter is left; this needs [\d,]+%\. "
        r"(The largest epsilon that fits is|Epsilon) ([0-9.]+)( fits)?\. Nothing was charged\.$",
        str(refused.value),
    )
    assert found, refused.value
    # Other costs than epsilons may be less than one, and of these more would fit.
    assert (found[1] == "Epsilon") == isinstance(budget, ZCDPFilter | RDPFilter)
    fitting = Fraction(found[2])
    assert not budget.admits(Pure(epsilon=fitting * Fraction(102, 100)))
    assert budget.admits(Pure(epsilon=fitting))
    assert not re.search(r"rho|divergence", str(refused.value))


def test_where_a_delta_lacks_no_epsilon_is_named():
    budget = ApproximateFilter(epsilon=1, delta=1e-6)
    with pytest.raises(BudgetExceeded) as refused:
        budget.spend(Approximate(epsilon=0.5, delta=1e-5))
    assert str(refused.value) == (
        "100% of the delta of this filter is left; this needs 1,000%. Nothing was charged."
    )


def test_numbers_beyond_the_floats_are_refused_in_words():
    huge, tiny = 10**400, Fraction(1, 10**5000)
    for budget, cost in (
        (PureFilter(epsilon=1), Pure(epsilon=huge)),
        (PureFilter(epsilon=tiny), Pure(epsilon=1)),
        (ZCDPFilter(rho=1), repeat(ZCDP(rho=1), huge)),
        (RDPFilter(orders=(2, 10**300), limits=(1, huge)), ZCDP(rho=huge)),
        (ApproximateFilter(epsilon=1, delta=0), compose(Pure(epsilon=huge), Pure(epsilon=tiny))),
    ):
        with pytest.raises(BudgetExceeded, match=r"is left; this needs .*%\.") as refused:
            budget.spend(cost)
        assert re.search("needs .* but .* remains in the filter", refused.value.details)
        assert len(str(refused.value)) < 200
        assert not budget.admits(cost)
        assert "Filter(" in repr(budget)
    assert repr(ZCDPFilter(rho=huge)) == "ZCDPFilter(rho=1e+400, spent=0)"
    with pytest.raises(InvalidParameter, match="needs costs with an .epsilon, delta. of its own"):
        ApproximateFilter(epsilon=1, delta=0).spend(repeat(ZCDP(rho=1), huge))


def test_guarantees_speak_in_their_own_name():
    wide = ZCDPFilter(rho=10**400), RDPFilter(orders=(2,), limits=(10**400,))
    for budget in wide:
        with pytest.raises(
            InvalidParameter,
            match=f"A {type(budget).__name__} promises an epsilon at delta only if it is finite",
        ):
            budget.guarantee(1e-6)
        for bad in (False, True, -1, 1, None):
            with pytest.raises(InvalidParameter, match=r"delta must be a number in \[0, 1\)"):
                budget.guarantee(bad)
        assert budget.guarantee() == budget.guarantee(0)


@pytest.mark.parametrize("count", [5, 40])
def test_a_composition_is_charged_with_its_divergences(count):
    """Few parts one by one, many by arrays: the same up to rounding, never below, never anything for a part that has no curve."""
    costs = [Pure(epsilon=Fraction(i, 100)) for i in range(1, count + 1)] + [
        ZCDP(rho=Fraction(1, 3))
    ]
    budget = RDPFilter(orders=(1.5, 7), limits=(10**6, 10**6))
    budget.spend(compose(*costs))
    for spent, order in zip(budget.spent, (Fraction(3, 2), Fraction(7)), strict=True):
        one_by_one = sum(Fraction(cost.rdp(float(order))) for cost in costs[:-1]) + order / 3
        assert (
            one_by_one * (1 - Fraction(1, 10**9)) <= spent <= one_by_one * (1 + Fraction(1, 10**6))
        )
    with pytest.raises(InvalidParameter, match="a finite divergence at order 7"):
        budget.spend(compose(*costs, RDP(table=[(2, 1)])))


def test_many_orders_and_many_parts_are_quick():
    """Measured 26 ms; one part and one order at a time it took two seconds."""
    whole = compose(*(Pure(epsilon=Fraction(i, 10**4)) for i in range(1, 1001)))
    budget = RDPFilter(orders=range(2, 64), limits=[10**6] * 62)
    # Of this thread alone: what other tests have left running counts as time of the process.
    start = time.thread_time()
    budget.spend(whole)
    assert time.thread_time() - start < 1


def test_a_signal_handler_in_the_middle_of_an_addition_waits_for_nobody(monkeypatch):
    """It would wait for the lock of its own thread for ever. It is refused, and nothing is charged for it."""
    budget, cost, refused = PureFilter(epsilon=1), Pure(epsilon=Fraction(1, 4)), []
    meter = budget._sums
    add = type(meter)._add

    def interrupted(self, amounts):
        try:
            budget.spend(cost)
        except BudgetExceeded as error:
            refused.append(str(error))
        assert budget.spent is not None
        return add(self, amounts)

    with monkeypatch.context() as patch:
        patch.setattr(type(meter), "_add", interrupted)
        budget.spend(cost)
    assert len(refused) == 1
    assert "in a signal handler" in refused[0]
    budget.spend(cost)
    assert meter.left() == {"epsilon": Fraction(1, 2)}
