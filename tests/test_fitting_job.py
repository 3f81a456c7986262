"""The job that counts how many releases fit counts what a ledger lets in, and its peers are read rightly."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from benchmarks import fitting

from sordino import BudgetExceeded, Ledger, PrivacyUnit, Session
from sordino.ledger import Budget

ROOT = Path(__file__).resolve().parents[1]
# Small enough to be charged until they are used up. With this delta the divergences let in more than the
# epsilons do; with the delta of the tables the epsilons let in three, and the divergences none.
SMALL = {
    "pure": Budget(epsilon=0.11),
    "zCDP": Budget(epsilon=0.11, delta=0.001, meter="zcdp"),
    "(epsilon, delta)": Budget(epsilon=0.11, delta=0.001),
    "by its epsilons": Budget(epsilon=0.07, delta=1e-6),
}


@pytest.fixture(scope="module")
def ten():
    return fitting.kinds()


def made_by(release, folder, budget):
    """Return how many releases a session makes before its ledger refuses one."""
    ledger = Ledger.create(
        folder / "budget.db",
        account="nightly",
        budget=budget,
        adjacency="add-remove",
        unit="customer",
        source="name:purchases",
    )
    session = Session(
        fitting.purchases(), unit=PrivacyUnit("customer"), ledger=ledger, name="purchases"
    )
    for made in range(100):
        try:
            release(session)
        except BudgetExceeded:
            return made
    pytest.fail("the account was never used up")


def test_there_are_ten_kinds(ten):
    assert len(ten) == 10


@pytest.mark.parametrize("account", SMALL)
@pytest.mark.parametrize("name", [fitting.COUNT, fitting.TOP])
@pytest.mark.slow
def test_what_is_counted_is_what_a_ledger_takes_on(ten, name, account):
    assert (
        fitting.charged(SMALL[account], ten[name]) == fitting.fitting(SMALL[account], ten[name]) > 2
    )


def test_the_small_accounts_tell_the_two_sums_apart(ten):
    count = ten[fitting.COUNT]
    held = {account: fitting.fitting(budget, count) for account, budget in SMALL.items()}
    assert held["(epsilon, delta)"] > held["pure"] == 5
    assert held["by its epsilons"] == 3
    assert fitting.fitting(Budget(epsilon=0.07, delta=1e-6, meter="zcdp"), count) == 0


@pytest.mark.parametrize(
    ("name", "release"), [(fitting.COUNT, fitting.count_people), (fitting.TOP, fitting.top_10)]
)
def test_what_is_counted_is_what_a_session_is_charged(ten, name, release, tmp_path):
    budget = SMALL["by its epsilons"]
    assert made_by(release, tmp_path, budget) == fitting.fitting(budget, ten[name]) == 3


def test_a_pure_account_holds_nothing_without_an_epsilon(ten):
    assert [name for name in ten if fitting.fitting(fitting.BUDGETS["pure"], ten[name]) == 0] == [
        "top-10, Gumbel and Gaussian noise",
        "the histogram with Gaussian noise",
    ]


def test_an_account_with_a_delta_never_holds_fewer(ten):
    for name, mechanisms in ten.items():
        pure, zcdp, both = (
            fitting.fitting(budget, mechanisms) for budget in fitting.BUDGETS.values()
        )
        assert both >= max(pure, zcdp), name


def test_a_year_of_top_10_is_four_times_that_of_a_pure_account(ten):
    pure, both = (
        fitting.fitting(fitting.BUDGETS[name], ten[fitting.TOP])
        for name in ("pure", "(epsilon, delta)")
    )
    assert pure == 150
    assert both >= max(4 * pure, fitting.NIGHTS)


def test_the_figures_on_the_page_and_in_the_results_are_these(ten):
    page = (ROOT / "docs" / "how-to" / "a-year-of-nightly-releases.md").read_text(encoding="utf-8")
    results = (ROOT / "benchmarks" / "results.md").read_text(encoding="utf-8")
    accounts = tuple(fitting.BUDGETS.values())
    both = {
        name: f"{fitting.fitting(accounts[2], mechanisms):,}" for name, mechanisms in ten.items()
    }
    medians, selections, counts = (
        both[name] for name in ("median with its interval", "exponential mechanism", fitting.COUNT)
    )
    assert f"medians {medians}, exponential mechanisms {selections}, counts {counts}" in page
    assert f"the same epsilon holds {both[fitting.TOP]}." in page
    for name, mechanisms in ten.items():
        figures = (f"{fitting.fitting(budget, mechanisms):,}" for budget in accounts)
        assert f"| {name} | {' | '.join(figures)} |".replace(" 0 ", " none ") in results


def test_the_largest_number_that_fits_is_found():
    for number in (0, 1, 2, 7, 8, 1000):
        assert fitting.largest(number.__ge__) == number


def test_gaussian_noise_has_the_variance_of_the_laplace_noise_that_it_stands_for(ten):
    laplace, gaussian = ten[fitting.TOP][1], ten["top-10, Gumbel and Gaussian noise"][1]
    assert gaussian.noise.variance == pytest.approx(laplace.noise.variance, rel=1e-6)


def test_the_rule_of_tumult_is_solved(ten):
    rho = float(fitting.tumult_limit())
    assert rho + 2 * math.sqrt(rho * -math.log(fitting.DELTA)) == pytest.approx(fitting.EPSILON)
    # A count of epsilon .02 has rho .0002.
    assert fitting.tumult_count(ten[fitting.COUNT]) == math.floor(rho / 0.0002)


def test_dp_accounting_agrees_where_both_have_the_same_line(ten):
    # Gaussian noise is a line for both, and both use the same conversion.
    gaussian = ten["the histogram with Gaussian noise"]
    ours = fitting.fixed_list(gaussian, 100)
    assert fitting.rdp_epsilon(gaussian, 100) == pytest.approx(ours, rel=0.01)


@pytest.mark.slow
def test_dp_accounting_agrees_where_both_have_the_same_law(ten):
    # A count moves by one step of its noise, which is randomized response.
    count = ten[fitting.COUNT]
    exact = fitting.pld_of(count).self_compose(100).get_epsilon_for_delta(fitting.DELTA)
    assert exact == pytest.approx(fitting.fixed_list(count, 100), rel=0.01)
