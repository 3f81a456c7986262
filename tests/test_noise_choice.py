"""The noise that sessions choose by their account: never more than the price, never worse than a pure account, and always said."""

from __future__ import annotations

import contextlib
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import sordino as sd
from sordino.errors import BudgetExceeded, InvalidParameter
from sordino.estimators.intervals import find_reach
from sordino.ledger import Price
from sordino.ledger.account.price import RHO
from sordino.ledger.amounts import Meter, exact_amounts
from sordino.ledger.renyi import Limits, Sums
from sordino.record import describe_spent
from sordino.session import noise_choice
from sordino.session.noise_choice import choose_rho, match_budget, match_rho
from sordino.session.selection_noise import match_finder, match_gumbel
from sordino.session.top_k import find_share_of_rho

PRICES = [
    RHO,
    *(Price(Meter("renyi", Fraction(order))) for order in ("1.5", "4.42", "8.92606", "34.86")),
]
EPSILONS = [Fraction(1, 1000), Fraction(1, 50), Fraction(1, 4), Fraction(1), Fraction(5)]
DOMAIN = [f"x{place}" for place in range(1, 41)]


@pytest.fixture(scope="module")
def visits():
    rows = [
        (f"g{guest}", f"x{place}", place)
        for place in range(1, 41)
        for guest in range(0, 2000, place)
    ]
    return pl.DataFrame(rows, schema=["guest", "item", "number"], orient="row")


def account(path, **budget):
    return sd.Ledger.create(
        path,
        account="a",
        budget=sd.Budget(**budget),
        adjacency="add-remove",
        unit="guest",
        source="name:visits",
    )


def session(visits, ledger, **unit):
    return sd.Session(visits, unit=sd.PrivacyUnit("guest", **unit), ledger=ledger, name="visits")


BUDGETS = {
    "zcdp": {"epsilon": 3, "delta": 1e-6, "meter": "zcdp"},
    "renyi": {"epsilon": 3, "delta": 1e-6},
}


# ---- the price ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.sample(4)
def test_what_is_matched_never_costs_more_and_hardly_less(price, epsilon):
    for count in (1, 10, 400):
        pure = sd.LaplaceMechanism(epsilon=epsilon, sensitivity=sd.COUNTING.over(count))
        gaussian = sd.GaussianMechanism(
            rho=match_rho(price, price.find_worth(pure.cost)),
            sensitivity=sd.COUNTING.over(count, "l2"),
        )
        limit = price.find(pure.cost)
        assert limit * Fraction(999, 1000) < price.find(gaussian.cost) <= limit
    for k in (1, 3, 50):
        selection = sd.NoisyTopK(k=k, epsilon=epsilon, sensitivity=sd.COUNTING)
        matched = match_gumbel(
            price,
            selection.cost,
            k,
            lambda k=k, **given: sd.NoisyTopK(k=k, sensitivity=sd.COUNTING, **given),
        )
        limit = price.find(selection.cost)
        assert limit * Fraction(998, 1000) < price.find(matched.cost) <= limit


@pytest.mark.parametrize("price", PRICES[::2], ids=str)
@pytest.mark.parametrize("monotone", [True, False])
def test_a_finder_never_costs_more(price, monotone):
    moves = sd.Sensitivity(bound=1, monotone=monotone, adjacency="add-remove", step=1)
    for epsilon, positives in ((Fraction(1, 10), 1), (Fraction(1), 5)):
        pure = sd.SparseVector(
            threshold=10, positives=positives, epsilon=epsilon, sensitivity=moves
        )
        limit = price.find(pure.cost)
        assert limit * Fraction(99, 100) < price.find(match_finder(price, pure).cost) <= limit


def test_rounding_the_other_way_is_convicted(monkeypatch):
    def shorten_up(number):
        scale = Fraction(10) ** (6 - math.floor(math.log10(number)))
        return math.ceil(number * scale) / scale

    monkeypatch.setattr(noise_choice, "shorten_down", shorten_up)
    over = []
    for price in PRICES:
        for epsilon in EPSILONS:
            pure = sd.LaplaceMechanism(epsilon=epsilon, sensitivity=sd.COUNTING)
            over.append(
                price.find(sd.cost.ZCDP(rho=match_rho(price, price.find_worth(pure.cost))))
                > price.find(pure.cost)
            )
    assert any(over)


@pytest.mark.parametrize("far", [Fraction(10**-6), Fraction(1), Fraction(10**6)])
@pytest.mark.parametrize("guess", [Fraction(1, 1000), Fraction(1), Fraction(1000)])
@pytest.mark.each_value
def test_a_budget_is_found_from_anywhere(far, guess):
    """Whatever the first guess is: of a family whose price is another power of epsilon, too."""
    for power in (1, 2, 3):
        found = match_budget(
            Meter("zcdp"), far, guess, lambda epsilon, power=power: sd.cost.ZCDP(rho=epsilon**power)
        )
        assert far * Fraction(9, 10) < found**power <= far


# ---- the rule ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spent", "stance"),
    [
        (Sums(), "open"),
        (Sums(main=100, pure=30), "open"),  # used up alike
        (Sums(main=101, pure=30), "pure"),  # of the divergences more is gone than of the epsilons
        (Sums(main=900, pure=295), "free"),  # an epsilon of 10 has no room any more
        (Sums(main=900, impure=1), "free"),
    ],
)
def test_epsilons_are_left_behind_only_where_nothing_is_lost(spent, stance):
    price = Price(Meter("renyi", Fraction(9)), Limits(1000, 300, 0, either=True), spent)
    assert price.find_stance(sd.cost.Pure(epsilon=Fraction(10, 10**9))) == stance


def choose(price, epsilon, count, find_terms=noise_choice.find_terms):
    """Return the mechanism of a release of some counts by the rule."""
    pure = sd.LaplaceMechanism(epsilon=epsilon, sensitivity=sd.COUNTING.over(count))
    moved = sd.COUNTING.over(count, "l2")
    terms = find_terms("noise", price, pure.cost, forced=False)
    rho = choose_rho(terms, None, pure, moved, paid=pure.cost, confidence=0.95)
    return pure if rho is None else sd.GaussianMechanism(rho=rho, sensitivity=moved)


def take_all(budget, asked, find_terms=noise_choice.find_terms):
    """Return how many of some releases, each an epsilon and a number of counts, an account takes one after the other."""
    spent, meter = Sums(), Meter("renyi", budget.order)
    for place, (epsilon, count) in enumerate(asked):
        used = choose(Price(meter, budget.limits, spent), epsilon, count, find_terms)
        sums = exact_amounts(used, meter).rounded_up()
        if not budget.limits.admits(spent, sums):
            return place
        spent = spent.plus(sums)
    return len(asked)


def take_batches(budget, batches, after=Price.after):
    """Return how many batches of such releases an account takes, each charged as one."""
    spent, meter = Sums(), Meter("renyi", budget.order)
    for place, batch in enumerate(batches):
        price, parts = Price(meter, budget.limits, spent), []
        for epsilon, count in batch:
            parts.append(choose(after(price, parts), epsilon, count))
        sums = price.after(parts).spent
        whole = Sums(*(one - other for one, other in zip(sums, spent, strict=True)))
        if not budget.limits.admits(spent, whole._replace(impure=sums.impure)):
            return place
        spent = sums
    return len(batches)


shares = st.lists(
    st.tuples(st.integers(1, 100), st.sampled_from([1, 10, 200])), min_size=1, max_size=12
)


@given(shares, st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3), Fraction(8)]))
def test_every_list_that_a_pure_account_takes_is_taken(shares, epsilon):
    budget = sd.Budget(epsilon=epsilon, delta=1e-6)
    whole = sum(share for share, _ in shares)
    # In whole billionths, so that a pure account takes all of them, to the last one.
    asked = [
        (Fraction(math.floor(epsilon * share / whole * 10**9), 10**9), count)
        for share, count in shares
    ]
    assert take_all(budget, asked) == len(asked)


@given(
    shares,
    st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3), Fraction(8)]),
    st.integers(1, 6),
)
def test_every_list_of_batches_that_a_pure_account_takes_is_taken(shares, epsilon, size):
    budget, whole = sd.Budget(epsilon=epsilon, delta=1e-6), sum(share for share, _ in shares)
    asked = [
        (Fraction(math.floor(epsilon * share / whole * 10**9), 10**9), count)
        for share, count in shares
    ]
    batches = [asked[first : first + size] for first in range(0, len(asked), size)]
    assert take_batches(budget, batches) == len(batches)


MIXED = [(Fraction(1, 2), 1)] * 3 + [(Fraction(1, 2), 40)] * 3


def test_a_batch_that_is_chosen_from_the_sums_before_all_of_it_is_convicted():
    budget = sd.Budget(epsilon=3, delta=1e-6)
    assert take_batches(budget, [MIXED]) == 1
    assert take_batches(budget, [MIXED], lambda price, _: price) == 0


def test_a_mixed_batch_fits_where_a_pure_account_takes_it(tmp_path, visits):
    ledger = account(tmp_path / "l.db", epsilon=3, delta=1e-6)
    with session(visits, ledger) as asked, asked.batch():
        counts = [asked.count_distinct_units(epsilon=0.5) for _ in range(3)]
        histograms = [asked.histogram("item", epsilon=0.5, domain=DOMAIN) for _ in range(3)]
    assert {made.mechanism.noise.name for made in counts + histograms} == {"laplace"}
    ledger.verify().raise_if_broken()
    # One that leaves epsilons behind: what comes after it in the batch knows that.
    ledger = account(tmp_path / "m.db", epsilon=3, delta=1e-6)
    with session(visits, ledger) as asked, asked.batch():
        one = asked.histogram("item", epsilon=0.02, domain=DOMAIN)
        other = asked.count_distinct_units(epsilon=0.02)
    assert [made.mechanism.noise.name for made in (one, other)] == ["gaussian", "gaussian"]
    assert (
        ledger.statement().spent
        <= 2 * Fraction(1, 50) * ledger.find_price().limits.main / 3 / 10**9
    )


def test_a_rule_that_leaves_epsilons_behind_at_once_is_convicted():
    """First large epsilons, which divergences count dear, and then a histogram: 6 fit into a pure account."""

    def hasty(name, price, whole, *, forced):
        return noise_choice.Terms(price, open=True)

    budget, asked = (
        sd.Budget(epsilon=3, delta=1e-6),
        [(Fraction(1, 2), 1)] * 3 + [(Fraction(1, 2), 40)] * 3,
    )
    assert take_all(budget, asked) == 6
    assert take_all(budget, asked, hasty) < 6


def test_a_share_with_a_limit_of_epsilon_stays_pure(tmp_path, visits):
    whole = account(tmp_path / "l.db", epsilon=3, delta=1e-6)
    both = whole.grant("both", Fraction(1, 10), pure=1)
    assert both.find_price().find_stance(sd.cost.Pure(epsilon=0.01)) == "pure"
    alone = whole.grant("alone", Fraction(1, 10))
    assert alone.find_price().find_stance(sd.cost.Pure(epsilon=0.01)) == "free"
    with session(visits, both) as one, session(visits, alone) as other:
        assert one.count_distinct_units(epsilon=0.01).mechanism.noise.name == "laplace"
        assert other.count_distinct_units(epsilon=0.01).mechanism.noise.name == "gaussian"


def test_gaussian_noise_is_chosen_where_its_interval_is_shorter():
    for price in PRICES:
        for epsilon in EPSILONS:
            pure = sd.LaplaceMechanism(epsilon=epsilon, sensitivity=sd.COUNTING)
            terms = noise_choice.Terms(price)
            rho = choose_rho(terms, None, pure, sd.COUNTING, paid=pure.cost, confidence=0.95)
            forced = choose_rho(
                terms, "gaussian", pure, sd.COUNTING, paid=pure.cost, confidence=0.95
            )
            gaussian = sd.GaussianMechanism(rho=forced, sensitivity=sd.COUNTING)
            shorter = find_reach(gaussian, Fraction(19, 20)) < find_reach(pure, Fraction(19, 20))
            assert rho == (forced if shorter else None)


@pytest.mark.parametrize(
    ("epsilon", "each"), [(1, "0.1"), (1, "0.05"), (3, "0.2"), (8, "0.5"), (3, "3")]
)
@pytest.mark.slow
def test_an_account_with_a_delta_takes_as_many_as_a_pure_one(tmp_path, visits, epsilon, each):
    """As many releases of one kind, whatever noise is chosen for them."""
    ledger = account(tmp_path / "l.db", epsilon=epsilon, delta=1e-6)
    wanted = math.ceil(Fraction(epsilon) / Fraction(each))
    with session(visits, ledger) as asked:
        for _ in range(wanted):
            asked.count_distinct_units(epsilon=float(each))
    ledger.verify().raise_if_broken()


GROUPED = {"by": "item", "domain": DOMAIN[:3], "groups_per_unit": 3}
KINDS = {
    "histogram": lambda asked, noise: asked.histogram(
        "item", epsilon=0.25, domain=DOMAIN, noise=noise
    ),
    "top": lambda asked, noise: asked.top_k(
        "item",
        k=2,
        epsilon=0.25,
        domain=DOMAIN,
        **({} if noise is None else {"noise": "exponential", "measure_noise": noise}),
    ),
    "variance": lambda asked, noise: asked.variance(
        "number", epsilon=0.25, lower=0, cap=100, noise=noise
    ),
    "variance of groups": lambda asked, noise: asked.variance(
        "number", epsilon=0.25, lower=0, cap=100, **GROUPED, noise=noise
    ),
    "median": lambda asked, _: asked.quantile("number", q=0.5, epsilon=0.25, lower=0, cap=100),
    "sum": lambda asked, noise: asked.sum("number", epsilon=0.25, lower=0, cap=100, noise=noise),
    "mean": lambda asked, noise: asked.mean("number", epsilon=0.25, lower=0, cap=100, noise=noise),
    "several quantiles": lambda asked, _: asked.quantile(
        "number", q=[0.25, 0.5, 0.75], epsilon=0.25, lower=0, cap=100
    ),
    "several without intervals": lambda asked, _: asked.quantile(
        "number", q=[0.25, 0.5, 0.75], epsilon=0.25, lower=0, cap=100, interval_share=None
    ),
    "several quantiles of groups": lambda asked, _: asked.quantile(
        "number", q=[0.25, 0.5, 0.75], epsilon=0.25, lower=0, cap=100, **GROUPED
    ),
    "median of groups": lambda asked, _: asked.quantile(
        "number", q=0.5, epsilon=0.25, lower=0, cap=100, **GROUPED
    ),
    "mean of groups": lambda asked, noise: asked.mean(
        "number", epsilon=0.25, lower=0, cap=100, **GROUPED, noise=noise
    ),
    "mean of groups without a bound on groups": lambda asked, noise: asked.mean(
        "number", epsilon=0.25, lower=0, cap=100, by="item", domain=DOMAIN[:3], noise=noise
    ),
    "above": lambda asked, _: asked.above(
        "item", threshold=3, positives=2, epsilon=0.25, domain=DOMAIN
    ),
}


def how_many_fit(ledger, visits, kind, noise=None):
    """Return how many of four releases fit, a histogram and three of a kind."""
    with session(visits, ledger, max_rows=10) as asked:
        for place, one in enumerate(["histogram", kind, kind, kind]):
            try:
                KINDS[one](asked, noise)
            except BudgetExceeded:
                return place
    return 4


def documented():
    """Return how many of four fit, as the page says it."""
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "share-one-ledger.md").read_text(
        encoding="utf-8"
    )
    table = page.partition("| of four |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return {kind: int(number) for kinds, number in rows for kind in kinds.split(", ")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_what_fits_after_gaussian_noise_is_what_the_page_says(tmp_path, visits, kind):
    """Only what follows the rule in all of its parts fits as often as on a pure account; with pure noise everything does."""
    taken = how_many_fit(account(tmp_path / "l.db", epsilon=1, delta=1e-6), visits, kind)
    assert documented()[kind] == taken
    outside = {"mean of groups without a bound on groups", "above"}
    assert (taken == 4) == (kind not in outside)
    assert (
        how_many_fit(account(tmp_path / "p.db", epsilon=1, delta=1e-6), visits, kind, "laplace")
        == 4
    )
    assert how_many_fit(account(tmp_path / "q.db", epsilon=1), visits, kind) == 4


AFTERNOON = {
    "one group a person": ({"max_rows": 4}, {"groups_per_unit": 1}),
    "all groups of a person": ({"max_rows": 4}, {"groups_per_unit": 3}),
    "one clip of all groups": ({}, {}),
    "rows in any group": ({"max_rows": 4}, {}),
}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("budget", [{"epsilon": 2}, {"epsilon": 2, "delta": 1e-6}], ids=str)
@pytest.mark.parametrize("bound", AFTERNOON)
@pytest.mark.sample(4)
def test_a_mixed_afternoon_fits_as_into_a_pure_account(tmp_path, visits, adjacency, budget, bound):
    """A histogram of .3, a top of .4, means by group of .6 and .7: four of four, but three where rows are bounded in all groups together."""
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(**budget),
        adjacency=adjacency,
        unit="guest",
        source="name:visits",
    )
    rows, groups = AFTERNOON[bound]
    unit = sd.PrivacyUnit("guest", adjacency=adjacency, **rows)
    by = {"lower": 0, "cap": 100, "by": "item", "domain": DOMAIN[:3], **groups}
    with sd.Session(visits, unit=unit, ledger=ledger, name="visits") as asked:
        asked.histogram("item", epsilon=0.3, domain=DOMAIN)
        asked.top_k("item", k=2, epsilon=0.4, domain=DOMAIN)
        asked.mean("number", epsilon=0.6, **by)
        taken = "delta" in budget and bound == "rows in any group"
        with pytest.raises(BudgetExceeded) if taken else contextlib.nullcontext():
            asked.mean("number", epsilon=0.7, **by)
    ledger.verify().raise_if_broken()


def test_an_account_of_rhos_takes_fewer_large_ones():
    """As the page says: 4 of epsilon .1 in (1, 1e-6)."""
    budget, each = (
        sd.Budget(epsilon=1, delta=1e-6, meter="zcdp"),
        sd.cost.Pure(epsilon=Fraction(1, 10)),
    )
    asked = exact_amounts(each, Meter("zcdp")).rounded_up()
    assert budget.limits.count_more(Sums(), asked) == 4


@pytest.mark.parametrize("meter", BUDGETS)
def test_top_k_fits_far_more_often(tmp_path, visits, meter):
    ledger = account(tmp_path / "l.db", **BUDGETS[meter])
    with session(visits, ledger) as asked:
        top = asked.top_k("item", k=10, epsilon=0.02, domain=DOMAIN)
    assert [part.noise.name for part in top.mechanism] == ["gumbel", "gaussian"]
    assert top.cost.pure() == math.inf
    # 150 fit into a pure account; the price of pure noise at this epsilon is what was paid.
    assert ledger.statement().more > 600
    assert all(row.gap is None and row.combined is None for row in top)
    assert all(row.low <= row.estimate <= row.high for row in top)
    assert {row.estimate == max(row.low, min(row.high, row.measured)) for row in top} == {True}


@pytest.mark.parametrize("parent", [True, False])
def test_an_account_of_rhos_that_keeps_deltas_chooses_as_one_that_does_not(
    tmp_path, visits, parent
):
    """Deltas stand beside the rhos, and nothing that is chosen depends on them."""
    ledger = account(tmp_path / "l.db", epsilon=3, delta=1e-6, meter="zcdp", failures=5e-7)
    ledger = ledger if parent else ledger.grant("team", 0.05, failures=1e-7)
    for _ in range(2):
        price = ledger.find_price()
        assert (price.meter.name, price.order, price.is_pure) == ("zcdp", RHO.order, False)
        for epsilon in EPSILONS:
            for cost in (
                sd.cost.Pure(epsilon=epsilon),
                sd.cost.Range(low=epsilon, high=2 * epsilon),
            ):
                assert price.find(cost) == RHO.find(cost)
                assert price.find_worth(cost) == RHO.find_worth(cost)
                assert price.find_stance(cost) == RHO.find_stance(cost) == "free"
                assert match_rho(price, price.find_worth(cost)) == match_rho(
                    RHO, RHO.find_worth(cost)
                )
        ledger.reserve(sd.cost.ApproximateZCDP(rho=0.01, delta=1e-8))
    with session(visits, account(tmp_path / "m.db", **BUDGETS["zcdp"], failures=5e-7)) as asked:
        top = asked.top_k("item", k=10, epsilon=0.02, domain=DOMAIN)
        assert [part.noise.name for part in top.mechanism] == ["gumbel", "gaussian"]


# ---- what is released --------------------------------------------------------------------------------------


def test_intervals_are_several_times_shorter_for_the_same_price(tmp_path, visits):
    widths = {}
    for name, budget in {"pure": {"epsilon": 3}, **BUDGETS}.items():
        with session(visits, account(tmp_path / f"{name}.db", **budget)) as asked:
            histogram = asked.histogram("item", epsilon=0.5, domain=DOMAIN)
            widths[name] = histogram.rows[0].high - histogram.rows[0].low
    assert widths["zcdp"] < widths["pure"] / 4
    assert widths["renyi"] < widths["pure"] / 4


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.slow
def test_an_interval_holds_as_often_as_it_says(tmp_path, visits, budget):
    ledger = account(tmp_path / "l.db", **budget | {"epsilon": 3000})
    held = total = 0
    true = {f"x{place}": len(range(0, 2000, place)) for place in range(1, 41)}
    with session(visits, ledger) as asked:
        for _ in range(12):
            histogram = asked.histogram("item", epsilon=0.5, domain=DOMAIN)
            assert histogram.mechanism.noise.name == "gaussian"
            held += sum(row.low <= true[row.item] <= row.high for row in histogram)
            total += len(histogram)
    # 480 intervals of 95%: fewer than 430 have a chance of about 1e-6.
    assert total == 480
    assert held >= 430


@pytest.mark.parametrize("most", [None, 1, 3])
def test_counts_of_a_unit_move_at_most_by_the_stated_length(visits, most):
    """Of every guest, in L2; with a bound of one item fewer it would be too short."""
    from sordino.questions import prepare_counts
    from sordino.sources import open_source

    unit = sd.PrivacyUnit("guest", max_rows=most)
    longest = 0.0
    for guest in ("g0", "g720", "g1", "g7"):
        alone = visits.filter(pl.col("guest") == guest)
        question = prepare_counts(
            open_source(alone), unit, kind="items", item="item", domain=DOMAIN, salt=b"7" * 16
        )
        counts = question.run().values
        assert np.sqrt((counts**2).sum()) <= float(question.joint(40, "l2").bound)
        longest = max(longest, float((counts**2).sum()))
        replaced = sd.PrivacyUnit("guest", adjacency="replace-one", max_rows=most)
        other = prepare_counts(
            open_source(alone), replaced, kind="items", item="item", domain=DOMAIN, salt=b"7" * 16
        )
        # One takes its items away, the other one brings as many others.
        assert float(other.joint(40, "l2").bound) ** 2 >= min(40, 2 * (counts**2).sum()) - 1e-9
    assert longest == (most or 40)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_what_lies_above_is_measured_by_the_cheaper_noise(tmp_path, visits, budget):
    with session(visits, account(tmp_path / "l.db", **budget)) as asked:
        found = asked.above(
            "item", threshold=300, positives=4, epsilon=0.4, measure_share=0.5, domain=DOMAIN
        )
        assert [part.noise.name for part in found.mechanism] == ["gumbel", "gaussian"]
        assert {row.gap for row in found} == {None}
        assert all(row.low <= row.estimate <= row.high for row in found)
        # The gaps are what is released without a measurement.
        gaps = asked.above("item", threshold=300, positives=4, epsilon=0.1, domain=DOMAIN)
        assert gaps.mechanism[0].noise.name == "exponential"


NUMBERS = {
    "sum": lambda s, **more: s.sum("number", epsilon=0.3, cap=1000, lower=0, **more),
    "mean": lambda s, **more: s.mean("number", epsilon=0.3, cap=1000, lower=0, **more),
    "variance": lambda s, **more: s.variance("number", epsilon=0.3, cap=1000, lower=0, **more),
    "variance by group": lambda s, **more: s.variance(
        "number",
        epsilon=0.3,
        cap=1000,
        lower=0,
        by="item",
        domain=DOMAIN,
        groups_per_unit=2,
        **more,
    ),
    "sum by group": lambda s, **more: s.sum(
        "number",
        epsilon=0.3,
        cap=1000,
        lower=0,
        by="item",
        domain=DOMAIN,
        groups_per_unit=2,
        **more,
    ),
}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.sample(12)
def test_figures_of_totals_cost_no_more_with_gaussian_noise(
    tmp_path, visits, name, budget, adjacency
):
    def release(at, **more):
        ledger = sd.Ledger.create(
            tmp_path / at,
            account="a",
            budget=sd.Budget(**budget),
            adjacency=adjacency,
            unit="guest",
            source="name:visits",
        )
        unit = sd.PrivacyUnit("guest", adjacency=adjacency, max_rows=3)
        with sd.Session(visits, unit=unit, ledger=ledger, name="visits") as asked:
            price = ledger.find_price()
            made = NUMBERS[name](asked, **more)
        ledger.verify().raise_if_broken()
        return made, price.find(made.cost), price, ledger.statement().spent

    pure, _, price, _ = release("pure.db", noise="laplace", numbers_share=0.1)
    assert pure.mechanism.total_noise == "laplace"
    made, found, _, spent = release("auto.db", numbers_share=0.1)
    assert made.mechanism.total_noise == "gaussian"
    worth = price.find_worth(pure.cost)
    assert worth * Fraction(99, 100) < found <= worth
    assert found <= spent <= found + Fraction(1, 10**9)
    one, other = (
        given.rows[0].release if name.endswith("group") else given for given in (made, pure)
    )
    # For the same clip the interval is shorter; of a mean of few rows it may be the whole clip.
    added, before = (
        getattr(given, "totals", given).noise.mechanism.noise.name for given in (one, other)
    )
    assert (added, before) == ("gaussian", "laplace")


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.sample(2)
def test_a_release_without_an_epsilon_states_what_was_charged_whatever_it_found(
    tmp_path, visits, budget, adjacency
):
    """The epsilon of a transcript is a bound of that transcript alone: it has no rho."""
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(**budget | {"epsilon": 6}),
        adjacency=adjacency,
        unit="guest",
        source="name:visits",
    )
    unit = sd.PrivacyUnit("guest", adjacency=adjacency, max_rows=40)
    with sd.Session(visits, unit=unit, ledger=ledger, name="visits") as asked:
        # Only the first item lies above: one of nine is found, and most of the epsilons are not spent.
        shape = {"threshold": 1500, "epsilon": 0.6, "domain": DOMAIN, "measure_noise": "gaussian"}
        made = [
            asked.above("item", positives=9, measure_share=0.5, noise="gumbel", **shape),
            asked.above("item", positives=9, measure_share=0.5, adaptive=True, **shape),
            asked.top_k("item", k=9, **shape),
        ]
    price = ledger.find_price()
    for release in made:
        assert len(release) == 1
        settled = ledger.charge(release.receipt.id).settled
        assert settled - Fraction(1, 10**9) <= price.find(release.cost) <= settled
        assert release.cost.zcdp() * price.order >= price.find(release.cost)
    ledger.verify().raise_if_broken()


def test_labels_that_are_assumed_public_reserve_what_any_number_of_them_costs(tmp_path, visits):
    ledger = account(tmp_path / "l.db", **BUDGETS["renyi"])
    with session(visits, ledger) as asked:
        domain = sd.Domain.assume_public()
        histogram = asked.histogram("item", epsilon=0.02, domain=domain)
        top = asked.top_k("item", k=3, epsilon=0.1, domain=domain, threshold=100)
    assert histogram.mechanism.noise.name == "gaussian"
    assert len(histogram) == 40
    assert [part.noise.name for part in top.mechanism] == ["exponential", "gaussian"]
    ledger.verify().raise_if_broken()


EVERY = {
    "count": lambda s, e: s.count_distinct_units(epsilon=e),
    "histogram": lambda s, e: s.histogram("item", epsilon=e, domain=DOMAIN),
    "top_k": lambda s, e: s.top_k("item", k=2, epsilon=e, domain=DOMAIN),
    "top_k, gumbel": lambda s, e: s.top_k("item", k=2, epsilon=e, domain=DOMAIN, noise="gumbel"),
    "top_k, threshold": lambda s, e: s.top_k("item", k=2, epsilon=e, domain=DOMAIN, threshold=5),
    "above": lambda s, e: s.above(
        "item", threshold=5, positives=3, epsilon=e, domain=DOMAIN, measure_share=0.5
    ),
    "above, gumbel": lambda s, e: s.above(
        "item",
        threshold=5,
        positives=3,
        epsilon=e,
        domain=DOMAIN,
        measure_share=0.5,
        noise="gumbel",
    ),
    "sum": lambda s, e: s.sum("number", epsilon=e, cap=100, lower=0),
}


@pytest.mark.parametrize(
    "spent", [None, sd.cost.Pure(epsilon=Fraction(1, 10**6)), sd.cost.ZCDP(rho=0)]
)
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.sample(12)
def test_whatever_an_epsilon_is_worth_it_is_released_or_refused(tmp_path, visits, name, spent):
    """Also where the account has no divergences to spend, or the price is too small for a float."""
    budgets = [{"epsilon": Fraction(1, 10**6), "delta": 1e-9}, *BUDGETS.values()]
    for number, budget in enumerate(budgets):
        ledger = account(tmp_path / f"{number}.db", **budget)
        if spent is not None:
            ledger.reserve(spent)
        with session(visits, ledger, max_rows=2) as asked:
            for epsilon in (Fraction(1, 10**400), Fraction(1, 10**9), Fraction(10**12)):
                # Nothing else may come out: these are said before anything is read.
                with contextlib.suppress(InvalidParameter, BudgetExceeded):
                    EVERY[name](asked, epsilon)
        ledger.verify().raise_if_broken()


# ---- what is asked for -------------------------------------------------------------------------------------

FORCED = {
    "count": lambda s: s.count_distinct_units(epsilon=0.1, noise="gaussian"),
    "histogram": lambda s: s.histogram("item", epsilon=0.1, domain=DOMAIN, noise="gaussian"),
    "top_k": lambda s: s.top_k("item", k=2, epsilon=0.1, domain=DOMAIN, noise="gumbel"),
    "top_k, measured": lambda s: s.top_k(
        "item", k=2, epsilon=0.1, domain=DOMAIN, measure_noise="gaussian"
    ),
    "above": lambda s: s.above(
        "item",
        threshold=9,
        positives=2,
        epsilon=0.1,
        domain=DOMAIN,
        measure_share=0.5,
        noise="gumbel",
    ),
}


@pytest.mark.parametrize("name", FORCED)
def test_a_pure_account_refuses_it_before_anything_is_read(tmp_path, visits, name):
    ledger = account(tmp_path / "l.db", epsilon=3)
    with session(visits, ledger) as asked, pytest.raises(InvalidParameter, match="a pure epsilon"):
        FORCED[name](asked)
    assert not ledger.statement().charges


@pytest.mark.parametrize("name", FORCED)
def test_without_an_account_it_costs_the_rho_of_pure_noise(visits, name):
    release = FORCED[name](session(visits, None))
    pure = Fraction(1, 10)
    assert release.cost.zcdp() <= sd.cost.Pure(epsilon=pure).zcdp()
    assert "gumbel" in str(release.mechanism) or release.cost.pure() == math.inf


PURE = {
    "count": lambda s: s.count_distinct_units(epsilon=0.1, noise="laplace"),
    "histogram": lambda s: s.histogram("item", epsilon=0.1, domain=DOMAIN, noise="laplace"),
    "top_k": lambda s: s.top_k(
        "item", k=2, epsilon=0.1, domain=DOMAIN, noise="exponential", measure_noise="laplace"
    ),
}


@pytest.mark.parametrize("name", PURE)
def test_pure_noise_can_be_asked_for(tmp_path, visits, name):
    with session(visits, account(tmp_path / "l.db", **BUDGETS["renyi"])) as asked:
        assert PURE[name](asked).cost.pure() <= Fraction(1, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s: s.count_distinct_units(epsilon=0.1, noise="gumbel"),
        lambda s: s.count_distinct_units(epsilon=0.1, noise="gaussian", bounds=(0, 10)),
        lambda s: s.sum("number", epsilon=0.1, cap=9, lower=0, noise="gaussian", bounds=(0, 1e6)),
        lambda s: s.mean("number", epsilon=0.1, cap=9, lower=0, noise="gumbel"),
        lambda s: s.top_k("item", k=2, epsilon=0.1, domain=DOMAIN, noise="gumbel", threshold=5),
        lambda s: s.top_k("number", k=2, epsilon=0.1, domain=sd.Domain.range(1, 9), noise="gumbel"),
        lambda s: s.above(
            "item", threshold=9, positives=2, epsilon=1, domain=DOMAIN, noise="gumbel"
        ),
        lambda s: s.above(
            "item", threshold=9, positives=2, epsilon=1, domain=DOMAIN, measure_noise="gaussian"
        ),
        lambda s: s.above(
            "item",
            threshold=9,
            positives=2,
            epsilon=1,
            domain=DOMAIN,
            measure_share=0.5,
            adaptive=True,
            noise="gumbel",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_the_charge(tmp_path, visits, wrong):
    ledger = account(tmp_path / "l.db", **BUDGETS["renyi"])
    with session(visits, ledger) as asked, pytest.raises(InvalidParameter, match="noise"):
        wrong(asked)
    assert not ledger.statement().charges


def test_the_choice_is_printed_and_kept(tmp_path, visits, capsys):
    from sordino.cli import run

    path = tmp_path / "visits.parquet"
    visits.write_parquet(path)
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(epsilon=3, delta=1e-6),
        adjacency="add-remove",
        unit="guest",
        source=path,
    )
    pays = ["--user", "guest", "--ledger", str(tmp_path / "l.db"), "--account", "a"]
    asked = ["count", str(path), "--units", "--epsilon", "0.02", *pays]
    assert run([*asked, "--format", "json", "--keep"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["noise"] == "gaussian"
    assert said["epsilon"] is None
    assert said["delta"] is None
    assert 0 < said["rho"] < 0.0002
    assert run([*asked, "--format", "table", "--details"]) == 0
    table = capsys.readouterr().out
    assert "By itself: rho 0.000" in table
    assert "Noise: gaussian;" in table
    kept = ledger.read_release(said["id"])
    assert kept.facts["noise"] == "gaussian"
    assert run([*asked, "--noise", "laplace", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["noise"] == "laplace"
    total = [
        "sum",
        str(path),
        "--column",
        "number",
        "--lower",
        "0",
        "--cap",
        "100",
        "--max-rows",
        "2",
    ]
    total += [
        "--epsilon",
        "0.02",
        *pays,
        "--by",
        "item",
        "--domain",
        str(tmp_path / "items.csv"),
        "--groups-per-unit",
        "2",
    ]
    (tmp_path / "items.csv").write_text("item\nx1\nx2\n", encoding="utf-8")
    assert run([*total, "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["noise"], said["epsilon"]) == ("gaussian", None)
    assert run([*total, "--format", "table", "--details"]) == 0
    assert "Each group got rho" in capsys.readouterr().out


def test_a_rho_grows_with_the_square_of_epsilon_and_none_is_for_nothing():
    """What a selection with half of the epsilon has, and a price beyond all floats."""
    terms = noise_choice.Terms(RHO)
    whole, half = (
        terms.find_rho(sd.cost.Pure(epsilon=x)) for x in (Fraction(1, 10), Fraction(1, 20))
    )
    assert float(half / whole) == pytest.approx(0.25, rel=0.01)
    assert find_share_of_rho(terms, Fraction(1, 10), Fraction(1, 2)) == float(half / whole)
    nothing = Fraction(1, 10**200)
    assert terms.find_rho(sd.cost.Pure(epsilon=nothing)) is None
    assert find_share_of_rho(terms, nothing, Fraction(1, 2)) is None


# ---- searches ----------------------------------------------------------------------------------------------


SEARCHES = {
    "quantile": lambda asked: asked.quantile(
        "number", q=0.5, epsilon=0.1, lower=0, cap=100, growth=1.01
    ),
    "several quantiles": lambda asked: asked.quantile(
        "number", q=[0.2, 0.5], epsilon=0.1, lower=0, cap=100
    ),
    "value alone": lambda asked: asked.quantile(
        "number", q=0.9, epsilon=0.1, lower=0, cap=100, interval_share=None, growth=1.01
    ),
    "sum": lambda asked: asked.sum("number", epsilon=0.1, lower=0, cap=100),
    "signed mean": lambda asked: asked.mean("number", epsilon=0.1, lower=None, cap=100),
    "groups": lambda asked: asked.quantile(
        "number", q=0.5, epsilon=0.1, lower=0, cap=100, growth=1.01, **GROUPED
    ),
}


def stages(cost):
    parts = [part for part, _ in cost.parts] if hasattr(cost, "parts") else [cost]
    return [part for part in parts if isinstance(part, sd.cost.GumbelStage)]


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("meter", BUDGETS)
@pytest.mark.sample(4)
def test_searches_get_gumbel_noise_for_no_more_than_pure_noise_is_worth(
    tmp_path, visits, kind, meter
):
    with session(visits, account(tmp_path / "p.db", epsilon=3), max_rows=2) as asked:
        pure = SEARCHES[kind](asked)
    assert not stages(pure.cost), "on an account of epsilons nothing changes"
    ledger = account(tmp_path / "l.db", **BUDGETS[meter])
    with session(visits, ledger, max_rows=2) as asked:
        asked.histogram("item", epsilon=0.02, domain=DOMAIN)
        price = ledger.find_price()
        spent = ledger.statement().spent
        found = SEARCHES[kind](asked)
    if isinstance(found, sd.QuantileValues):
        # The walk down the tree has geometric noise everywhere, and is finer for what is saved.
        several, *ends = found[0].mechanism
        assert several.noise.rate > pure[0].mechanism[0].noise.rate
        assert {one.search_noise for one in ends} == {"gumbel"}
    assert stages(found.cost)
    worth = price.find_worth(pure.cost)
    assert worth * Fraction(99, 100) < price.find(found.cost) <= worth
    # In whole billionths, as it was charged.
    assert ledger.statement().spent - spent <= worth + Fraction(2, 10**9)
    ledger.verify().raise_if_broken()


@pytest.mark.parametrize("meter", BUDGETS)
@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.slow
def test_a_quantile_that_follows_a_noisy_number_costs_no_more_than_a_pure_one(
    tmp_path, visits, q, meter
):
    """Where epsilons are added up it may flip, at the price of a pure epsilon; elsewhere it is a search, whose price is known before."""
    asked = {"q": q, "epsilon": 0.1, "lower": 0, "cap": 100}
    with session(visits, account(tmp_path / "p.db", epsilon=3), max_rows=2) as paid:
        pure = paid.quantile("number", **asked)
    assert pure.mechanism[0].flips
    ledger = account(tmp_path / "l.db", **BUDGETS[meter])
    with session(visits, ledger, max_rows=2) as paid:
        paid.histogram("item", epsilon=0.02, domain=DOMAIN)
        price = ledger.find_price()
        found = paid.quantile("number", **asked)
    assert not found.mechanism[0].flips
    assert stages(found.cost)
    assert price.find(found.cost) <= price.find_worth(pure.cost)


@pytest.mark.slow
def test_a_quantile_stays_pure_while_an_account_adds_up_epsilons(tmp_path, visits):
    """Gumbel noise would add more epsilon than was said: 10 of .1 fit into (1, 1e-6), as into a pure account."""
    ledger = account(tmp_path / "l.db", epsilon=1, delta=1e-6)
    with session(visits, ledger, max_rows=2) as asked:
        for _ in range(10):
            assert not stages(SEARCHES["quantile"](asked).cost)
    ledger.verify().raise_if_broken()


def test_rows_in_any_group_keep_pure_noise(tmp_path, visits):
    ledger = account(tmp_path / "l.db", **BUDGETS["zcdp"])
    with session(visits, ledger, max_rows=2) as asked:
        anywhere = asked.quantile(
            "number", q=0.5, epsilon=0.1, lower=0, cap=100, by="item", domain=DOMAIN[:3]
        )
        plain = asked.mean("number", epsilon=0.1, lower=0, cap=100, noise="laplace")
    assert not any(stages(made.cost) for made in (anywhere, plain))


def test_a_release_says_that_its_search_has_gumbel_noise(tmp_path, visits):
    ledger = account(tmp_path / "l.db", **BUDGETS["zcdp"])
    with session(visits, ledger, max_rows=2) as asked:
        found = SEARCHES["quantile"](asked)
        asked.keep(found)
    said = ledger.read_release(found.receipt.id).facts
    assert said["noise"] == "gumbel"
    assert "measure_noise" not in said
    # What the account counts stands beside the epsilon, which is larger than what was asked for.
    assert said["rho"] == pytest.approx(float(found.cost.zcdp()))
    assert said["epsilon"] == float(found.cost.pure()) > 0.1
    assert describe_spent(said).startswith(f"rho {said['rho']:.6g} (by itself epsilon ")
