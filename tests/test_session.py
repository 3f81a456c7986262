"""A session checks what it is given before it reads anything, charges what it releases, and says what it knows."""

from __future__ import annotations

import json
from fractions import Fraction

import polars as pl
import pytest

import sordino as sd
from sordino.constraints import COUNT, POSITIVE, SHARE

CANARY = "kryptonite-86753099173"
ROW = sd.PrivacyUnit.row()


@pytest.fixture
def orders():
    return pl.DataFrame(
        {"customer": ["a", "b", "c", "a"] * 50, "product": ["tea", "tea", CANARY, "rice"] * 50}
    )


@pytest.fixture
def ledger(tmp_path):
    budget = sd.Budget(epsilon=3)
    return sd.Ledger.create(
        tmp_path / "b.db",
        account="shop",
        budget=budget,
        adjacency="add-remove",
        unit="customer",
        source="name:orders",
    )


def session(orders, account, **changes):
    return sd.Session(
        orders,
        **({"unit": sd.PrivacyUnit("customer"), "ledger": account, "name": "orders"} | changes),
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entropy": 7}, "Session needs entropy such as SYSTEM or Seeded"),
        ({"entropy": None}, "Session needs entropy such as SYSTEM or Seeded"),
        ({"ledger": "b.db"}, "Session.ledger must be what Ledger.open or Ledger.create returns"),
        ({"unit": "customer"}, "Session.unit must be a PrivacyUnit"),
        ({"name": None}, "Session.name must say what the ledger calls this source"),
        ({"csv": 3}, "csv must be a CsvFormat"),
    ],
)
def test_a_session_is_checked_when_it_is_opened(orders, ledger, changes, words):
    with pytest.raises(sd.InvalidParameter, match=words):
        session(orders, ledger, **changes)


def test_seeds_and_ledgers_do_not_meet(orders, ledger):
    with pytest.raises(sd.SimulatedRelease):
        session(orders, ledger, entropy=sd.Seeded(1))


def test_every_release_charges_and_is_json(orders, ledger):
    domain = ["tea", "rice", "salt"]
    with session(orders, ledger) as s:
        top = s.top_k("product", k=2, epsilon=0.5, domain=domain)
        histogram = s.histogram("product", epsilon=0.25, domain=domain)
        units = s.count_distinct_units(epsilon=0.125)
        assert ledger.remaining == 3 - Fraction(7, 8)
        with pytest.raises(sd.BudgetExceeded):
            s.top_k("product", k=2, epsilon=2.5, domain=domain)
        with pytest.raises(sd.UnboundedContribution):
            s.count(epsilon=0.1)
        with pytest.raises(sd.UnknownDomain):
            s.top_k("product", k=2, epsilon=0.1, domain=None)
        assert ledger.remaining == 3 - Fraction(7, 8), "a refusal costs nothing"
    assert (len(top), len(histogram)) == (2, 3)
    assert [row.item for row in histogram] == domain, "in the order that was given"
    for release in (top, histogram, units):
        assert not release.simulated
        assert CANARY not in json.dumps(release.to_dict()) + repr(release) + repr(s)
        assert "\n" not in repr(release)
    assert top.cost.pure() == Fraction(1, 2)
    assert {charge.label for charge in ledger.statement().charges} == {
        "top_k",
        "histogram",
        "count_distinct_units",
    }


@pytest.mark.parametrize(
    ("name", "constraint"), [("k", COUNT), ("epsilon", POSITIVE), ("selection_share", SHARE)]
)
def test_bad_parameters_are_refused_before_the_charge(orders, ledger, name, constraint):
    with session(orders, ledger) as s:
        for bad in constraint.invalid:
            # None leaves the share, and how many items, to the rule.
            if bad is None and name in {"k", "selection_share"}:
                continue
            with pytest.raises(sd.InvalidParameter, match=rf"^top_k\.{name} must be "):
                s.top_k("product", **({"k": 1, "epsilon": 1, "domain": ["tea"]} | {name: bad}))
        with pytest.raises(sd.InvalidParameter, match=r"^top_k\.noise must be one of"):
            s.top_k("product", k=1, epsilon=1, domain=["tea"], noise="loud")
    assert ledger.remaining == 3


def test_the_share_divides_the_budget(orders):
    with sd.Session(orders, unit=ROW, entropy=sd.Seeded(1)) as s:
        choose, measure = s.top_k(
            "product", k=2, epsilon=1, domain=["tea", "rice"], selection_share=0.25, method="gaps"
        ).mechanism
    assert choose.cost.pure() == Fraction(1, 4)
    assert measure.cost.pure() == Fraction(3, 4)
    assert measure.noise.rate == Fraction(3, 4), (
        "a row counts for one item only, so k answers share one unit of sensitivity"
    )
