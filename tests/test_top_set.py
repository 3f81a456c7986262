"""The set of the k largest, as sessions release it: no order, the price that was said, and clear refusals."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest

import sordino as sd
from sordino.cost import BoundedRange, Pure, compose
from sordino.ledger import Price
from sordino.ledger.account.price import RHO
from sordino.ledger.amounts import Meter
from sordino.session.noise_choice import Terms
from sordino.session.selection_noise import choose_set

DOMAIN = [f"i{place:02}" for place in range(40)]
# The largest counts are not the first labels.
COUNTS = [300 if place % 4 == 3 else place for place in range(40)]
BEST = [label for label, count in zip(DOMAIN, COUNTS, strict=True) if count == 300]
PRICES = [RHO, *(Price(Meter("renyi", Fraction(order))) for order in ("1.5", "8.92606", "34.86"))]


@pytest.fixture(scope="module")
def visits():
    rows = [
        (f"g{guest}", item)
        for item, count in zip(DOMAIN, COUNTS, strict=True)
        for guest in range(count)
    ]
    return pl.DataFrame(rows, schema=["guest", "item"], orient="row")


@pytest.fixture
def account(tmp_path):
    def make(**budget):
        return sd.Ledger.create(
            tmp_path / "l.db",
            account="a",
            budget=sd.Budget(**budget),
            adjacency="add-remove",
            unit="guest",
            source="name:visits",
        )

    return make


def top_set(visits, ledger=None, *, unit=None, **changes):
    given = {"k": 10, "epsilon": 4, "domain": DOMAIN} | changes
    whom = unit or sd.PrivacyUnit("guest")
    noise = {} if ledger is not None else {"entropy": sd.Seeded(7)}
    with sd.Session(visits, unit=whom, ledger=ledger, name="visits", **noise) as session:
        return session.top_set("item", **given)


# ---- what is released --------------------------------------------------------------------------------------


def test_the_rows_stand_in_the_order_of_the_domain_and_have_no_rank(visits):
    found = top_set(visits)
    assert [row.item for row in found] == BEST, (
        "clear of all others, and in the order of their labels"
    )
    assert not {"rank", "gap", "tie", "crossed"} & {*vars(found.rows[0]), *vars(found)}
    for row in found:
        assert row.low <= row.estimate <= row.high
        assert row.estimate == round(row.estimate)
        assert (row.true_low, row.true_high) == (row.low, row.high)
    assert found.cost == compose(BoundedRange(epsilon=2), found.mechanism[1].cost)
    assert found.cost.pure() == 4
    assert found.confidence == 0.95 > found.together > 0.5


@pytest.mark.slow
def test_the_order_says_nothing_of_the_counts(visits):
    """Of a set that noise chooses all orders of counts would be seen; a twin that sorts by them is convicted."""
    for seed in range(20):
        with sd.Session(visits, unit=sd.PrivacyUnit("guest"), entropy=sd.Seeded(seed)) as session:
            found = session.top_set("item", k=9, epsilon=0.01, domain=DOMAIN)
        labels = [row.item for row in found]
        assert labels == sorted(labels)
        measured = [row.measured for row in found]
        assert measured != sorted(measured, reverse=True)


def test_all_of_epsilon_may_choose(visits):
    found = top_set(visits, selection_share=1)
    assert [row.item for row in found] == BEST
    assert {row.estimate for row in found} == {row.low for row in found} == {None}
    assert found.cost == BoundedRange(epsilon=4)
    assert found.mechanism[0].rate == 4, "the whole of it, whatever k is"
    assert found.confidence is found.together is None
    assert found.to_dict()["rows"][0]["estimate"] is None


def test_a_cap_leaves_no_upper_end(visits):
    found = top_set(visits, unit=sd.PrivacyUnit("guest", max_rows=3), k=5)
    assert {row.true_high for row in found} == {float("inf")}
    assert all(row.true_low >= row.low or row.true_low == 0 for row in found)


def test_labels_of_a_range_and_assumed_ones():
    table = pl.DataFrame({"age": [30] * 400 + [41] * 300 + [7] * 2})
    with sd.Session(table, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1)) as session:
        domain = sd.Domain.range(0, 10**9)
        found = session.top_set("age", k=2, epsilon=1, domain=domain)
        assert [row.item for row in found] == ["30", "41"]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_price_is_that_of_the_neighbors(visits, adjacency):
    unit = sd.PrivacyUnit("guest", adjacency=adjacency)
    choose, _ = top_set(visits, unit=unit).mechanism
    assert choose.rate == (2 if adjacency == "add-remove" else 1)
    assert choose.cost == BoundedRange(epsilon=2)


# ---- what is refused, before anything is charged -----------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"k": 41}, "top_set.k must be at most the size of the domain, 40; got 41."),
        ({"k": 4097}, "top_set.k must be at most 4096; got 4097."),
        ({"selection_share": 0}, "top_set.selection_share must be a number in (0, 1]; got 0."),
        ({"selection_share": 1.5}, "top_set.selection_share must be a number in (0, 1]; got 1.5."),
        (
            {"selection_share": 1, "simultaneous": True},
            "top_set.selection_share must be below 1 with",
        ),
        (
            {"selection_share": 1, "measure_noise": "laplace"},
            "top_set.selection_share must be below 1 with",
        ),
        ({"measure_noise": "gaussian"}, "top_set.measure_noise must be noise with a pure epsilon"),
    ],
)
def test_what_a_set_has_not_is_refused_before_the_charge(visits, account, changes, words):
    ledger = account(epsilon=9)
    with pytest.raises(sd.InvalidParameter) as caught:
        top_set(visits, ledger, **changes)
    assert words in str(caught.value)
    assert ledger.remaining == 9


def test_of_too_few_labels_all_are_the_set(visits, account):
    ledger = account(epsilon=9)
    found = top_set(visits, ledger, domain="assume-public", k=99)
    assert "Labels: assumed public." in found._repr_html_()
    assert (
        len(found) == len(top_set(visits, None, domain=sd.Domain.assume_public(), k=len(found))) > 1
    )
    assert ledger.remaining == 5


# ---- the price ---------------------------------------------------------------------------------------------


def of_epsilon(epsilon):
    return sd.JointTopK(k=9, epsilon=epsilon, sensitivity=sd.COUNTING)


@pytest.mark.parametrize("price", PRICES, ids=str)
def test_what_is_matched_never_costs_more_than_what_was_said(price):
    for epsilon in (Fraction(1, 1000), Fraction(1, 4), Fraction(5)):
        pure, said = of_epsilon(epsilon), Pure(epsilon=epsilon)
        chosen = choose_set(Terms(price), said, pure, of_epsilon)
        limit = price.find(said)
        assert limit * Fraction(998, 1000) < price.find(chosen.cost) <= limit
        assert chosen.cost.pure() > pure.cost.pure()
    # Small epsilons: an interval of length e has the rho of pure noise of half of it.
    assert (
        choose_set(
            Terms(RHO), Pure(epsilon=Fraction(1, 100)), of_epsilon(Fraction(1, 100)), of_epsilon
        ).rate
        > 1.99 / 100
    )


def test_a_pure_account_gives_what_was_said_and_others_more(visits, account):
    ledger = account(epsilon=9)
    choose, _ = top_set(visits, ledger, epsilon=1).mechanism
    assert choose.rate == Fraction(1, 2)
    assert ledger.remaining == 8


@pytest.mark.parametrize("share", [0.5, 1])
def test_on_a_zcdp_account_a_set_gets_twice_the_epsilon_for_its_price(visits, account, share):
    ledger = account(epsilon=3, delta=1e-6, meter="zcdp")
    before = ledger.remaining
    found = top_set(visits, ledger, epsilon=0.1, selection_share=share)
    said = Fraction(1, 10) * Fraction(share)
    worth = Pure(epsilon=said).zcdp()
    assert worth * Fraction(998, 1000) < found.mechanism[0].cost.zcdp() <= worth
    assert found.mechanism[0].rate > said * Fraction(199, 100)
    whole = (
        worth
        if share == 1
        else worth + sd.LaplaceMechanism(epsilon=said, sensitivity=sd.COUNTING.over(10)).cost.zcdp()
    )
    assert before - ledger.remaining <= whole


def test_an_account_with_a_delta_keeps_its_epsilons_where_nothing_is_measured(visits, account):
    """What has a pure epsilon leaves none behind: with a larger one than was said the account would lose."""
    ledger = account(epsilon=3, delta=1e-6)
    assert top_set(visits, ledger, epsilon=0.1, selection_share=1).mechanism[0].rate == Fraction(
        1, 10
    )
    choose, measured = top_set(visits, ledger, epsilon=0.1).mechanism
    assert measured.noise.name == "gaussian"
    assert choose.rate > Fraction(1, 20)
