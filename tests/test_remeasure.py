"""Measured again: what it costs, what the intervals hold, what the history has, and what is refused before the charge."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.estimators import weigh_looks
from sordino.figures import Combination, read_terms
from sordino.session import Remeasured

ITEMS = ["coffee", "rice", "tea"]
UNIT = sd.PrivacyUnit("u", max_rows=1)
LOOKS = {
    "count": lambda s, e, **more: s.count(epsilon=e, **more),
    "count_distinct_units": lambda s, e, **more: s.count_distinct_units(
        epsilon=e, where="x > 0", **more
    ),
    "histogram": lambda s, e, **more: s.histogram("item", epsilon=e, domain=ITEMS, **more),
    # Measured by noise of its own.
    "top_k": lambda s, e: s.top_k("item", k=2, epsilon=2 * e, domain=ITEMS, method="gaps"),
}


def orders(n=600):
    return pl.DataFrame(
        {
            "u": [f"u{i}" for i in range(n)],
            "item": [ITEMS[i % 7 % 3] for i in range(n)],
            "x": [1.0] * n,
        }
    )


def seeded(seed=7, **more):
    return sd.Session(orders(), unit=UNIT, entropy=sd.Seeded(seed), **more)


@pytest.fixture
def ledger(tmp_path):
    about = {"adjacency": "add-remove", "unit": UNIT, "source": "name:orders"}
    return sd.Ledger.create(
        tmp_path / "a.db", account="orders", budget=sd.Budget(epsilon=20), **about
    )


@pytest.fixture
def session(ledger):
    return sd.Session(orders(), unit=UNIT, ledger=ledger, name="orders")


@pytest.mark.parametrize("kind", LOOKS)
@pytest.mark.sample(2)
def test_each_look_is_charged_and_chained_to_the_one_before(session, ledger, kind):
    rough = LOOKS[kind](session, Fraction(1, 4))
    spent = ledger.statement().spent
    again = session.remeasure(rough, epsilon=Fraction(1, 2))
    third = session.remeasure(again, epsilon=1)
    assert ledger.statement().spent == spent + Fraction(3, 2)
    assert (again.cost.pure(), again.total.pure()) == (Fraction(1, 2), spent + Fraction(1, 2))
    assert third.total.pure() == spent + Fraction(3, 2)
    [*_, one, two] = ledger.statement().charges
    assert one.label == two.label == "remeasure"
    assert one.detail["remeasures"] == rough.receipt.id
    assert two.detail["remeasures"] == again.receipt.id == again.looks[-1].receipt.id
    assert ledger.verify().sound
    assert len(third.looks) == 3
    session.keep(third)
    kept = ledger.read_release(third.receipt.id)
    assert kept.rows[0]["estimate"] == third.rows[0].estimate
    json.dumps(third.to_dict(), allow_nan=False)


@pytest.mark.parametrize("kind", LOOKS)
def test_all_looks_are_weighted_and_stay_within_the_interval(kind):
    session = seeded()
    rough = LOOKS[kind](session, Fraction(1, 4))
    again = session.remeasure(rough, epsilon=1)
    terms = [read_terms(look, "test") for look in again.looks]
    first, fresh = (next(iter(look.values())) for look in terms)
    weights = weigh_looks([first, fresh])
    exact = [1 / (one.law.variance) for one in (first, fresh)]
    assert [float(w) for w in weights] == pytest.approx([w / sum(exact) for w in exact], rel=1e-2)
    for row, name in zip(again.rows, terms[0], strict=True):
        term = terms[1][name]
        mean = weights[0] * terms[0][name].value + weights[1] * term.value
        assert row.estimate == min(max(float(mean), row.low), row.high)
        assert row.measured == term.value
        assert row.low <= row.estimate <= row.high
        # With `max_rows` rows and items of a unit are bounded, but no unit is left out.
        assert (row.true_high == np.inf) == (kind != "count_distinct_units")
    assert again.standard_error < min(one.law.variance**0.5 for one in (first, fresh))
    # Figures are made of the looks.
    name = next(iter(terms[1]))
    assert sd.derive(again.looks[1], name).value == again.rows[0].measured


def test_a_planned_look_has_the_law_of_both():
    session = sd.Session(orders(), unit=UNIT, entropy=sd.Seeded(7))
    rough = session.histogram("item", epsilon=1, domain=ITEMS)
    again = session.remeasure(rough, epsilon=1, planned=True)
    both = sd.combine_looks([rough, again.looks[-1]])
    assert [(row.low, row.high) for row in again] == [(one.low, one.high) for one in both]
    alone = again.looks[-1].rows[0]
    assert again.rows[0].high - again.rows[0].low < 0.8 * (alone.high - alone.low)
    assert again.planned
    assert again.to_polars().columns[:3] == ["item", "estimate", "low"]


def test_who_looks_again_because_of_what_was_seen_needs_the_interval_of_the_new_look():
    """By all noise of two looks, of which the second is made where the first is far off: the twin misses too often."""
    made = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    first, second = (
        sd.Value(
            value=float(number), standard_error=1.0, mechanism=made, cost=made.cost, simulated=False
        )
        for number in range(2)
    )
    terms = [next(iter(read_terms(one, "test").values())) for one in (first, second)]
    both = Combination(dict(zip(terms, weigh_looks(terms), strict=True)))
    twin = both.bound(Fraction(1, 20), planned=True)[1] - both.value
    alone = sd.interval(second)[1] - second.value
    xs = np.arange(-60, 61)
    chances = np.multiply.outer(made.noise.pmf(xs), made.noise.pmf(xs))
    looked = np.abs(xs) >= 2
    share = chances[looked].sum()
    missed = chances[looked][np.abs(np.add.outer(xs[looked], xs)) / 2 > float(twin)].sum() / share
    assert missed > 0.07
    assert chances[looked][:, np.abs(xs) > alone].sum() / share <= 0.05


def test_gaussian_looks_lose_nothing():
    session = sd.Session(orders(), unit=UNIT, entropy=sd.Seeded(3))
    first = session.histogram("item", epsilon=1, domain=ITEMS, noise="gaussian")
    again = session.remeasure(first, epsilon=1, noise="gaussian", planned=True)
    assert again.standard_error == pytest.approx(first.standard_error / 2**0.5, rel=1e-6)


def test_labels_are_those_of_the_first_look():
    """Also where nobody listed them: of a range, of labels that were assumed public, and in the order of a top k."""
    frame = pl.DataFrame({"u": range(300), "n": [i % 5 for i in range(300)]})
    session = sd.Session(frame, unit=sd.PrivacyUnit("u", max_rows=1), entropy=sd.Seeded(1))
    five = sd.Domain.range(0, 6)
    for look in (
        session.histogram("n", epsilon=1, domain=sd.Domain.assume_public()),
        session.histogram("n", epsilon=1, domain=five),
        session.top_k("n", k=3, epsilon=4, domain=five, method="gaps"),
    ):
        again = session.remeasure(look, epsilon=1)
        assert [row.item for row in again] == [row.item for row in look]
        assert all(abs(row.measured - 60 * (row.item != "5")) < 15 for row in again)


def test_names_of_positions_are_no_labels_of_the_column():
    frame = pl.DataFrame({"u": range(300), "n": [i % 5 for i in range(300)]})
    session = sd.Session(frame, unit=sd.PrivacyUnit("u", max_rows=1), entropy=sd.Seeded(1))
    named = sd.Domain.indexed(5, label=lambda place: f"place {place}")
    again = session.remeasure(session.histogram("n", epsilon=1, domain=named), epsilon=1)
    assert all(abs(row.measured - 60) < 15 for row in again)
    with pytest.raises(sd.InvalidParameter, match="remeasure"):
        session.remeasure(
            session.top_k("n", k=2, epsilon=4, domain=named, method="gaps"), epsilon=1
        )


def test_in_a_batch(session):
    rough = session.count(epsilon=0.25)
    with session.batch() as batch:
        again = session.remeasure(rough, epsilon=0.5)
        _ = session.count_distinct_units(epsilon=0.5)
    assert batch.cost.pure() == 1
    assert isinstance(again.result, Remeasured)
    assert again.rows[0].item is None
    assert session.remeasure(again, epsilon=1).looks[0] is rough


REFUSED = {
    "of nobody": lambda s: 7,
    "of a mechanism": lambda s: sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING).release(3),
    "of another session": lambda s: seeded().count(epsilon=1),
    "within bounds": lambda s: s.count(epsilon=1, bounds=(0, 1000)),
    "of a quantile": lambda s: s.quantile("x", q=0.5, epsilon=1, lower=0, cap=10),
    "of a noisy histogram": lambda s: s.top_k(
        "item", k=1, epsilon=1, domain=ITEMS, method="histogram"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_measured_again_is_refused_before_the_charge(session, ledger, name):
    release = REFUSED[name](session)
    spent = ledger.statement().spent
    with pytest.raises(sd.InvalidParameter, match="remeasure"):
        session.remeasure(release, epsilon=1)
    assert ledger.statement().spent == spent
    with pytest.raises(sd.BudgetExceeded):
        session.remeasure(session.count(epsilon=1), epsilon=50)


def test_nothing_is_kept_but_what_is_public(session):
    """Questions live as long as their releases, and no longer."""
    rough = session.count(epsilon=0.25)
    assert len(session._executor.asked._known) == 1
    del rough
    import gc

    gc.collect()
    assert len(session._executor.asked._known) == 0
