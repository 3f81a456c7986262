"""The receipt of a release: every release of a session carries the id that the ledger has."""

from __future__ import annotations

import json
import pickle

import polars as pl
import pytest

import sordino as sd
from sordino.receipt import Receipt

NUMBERS = {"epsilon": 1, "lower": 0, "cap": 100}
DOMAIN = ["coffee", "rice", "tea"]
ASKED = {
    "top_k": lambda s: s.top_k("item", k=1, epsilon=1, domain=DOMAIN),
    "above": lambda s: s.above("item", threshold=0, positives=1, epsilon=1, domain=DOMAIN),
    "histogram": lambda s: s.histogram("item", epsilon=1, domain=DOMAIN),
    "count": lambda s: s.count(epsilon=1),
    "count_distinct_units": lambda s: s.count_distinct_units(epsilon=1),
    "quantile": lambda s: s.quantile("x", q=0.5, **NUMBERS),
    "quantiles": lambda s: s.quantile("x", q=(0.2, 0.8), **NUMBERS),
    "sum": lambda s: s.sum("x", **NUMBERS),
    "sum within bounds": lambda s: s.sum("x", bounds=(0, 10_000), **NUMBERS),
    "mean": lambda s: s.mean("x", **NUMBERS),
    "variance": lambda s: s.variance("x", **NUMBERS),
    "sum of groups": lambda s: s.sum("x", by="item", domain=DOMAIN, groups_per_unit=1, **NUMBERS),
    "quantiles of groups": lambda s: s.quantile(
        "x", q=(0.2, 0.8), by="item", domain=DOMAIN, groups_per_unit=1, **NUMBERS
    ),
}


@pytest.fixture
def table():
    return pl.DataFrame(
        {"user": ["a", "b", "c"], "item": ["tea", "tea", "rice"], "x": [1.0, 2.0, 3.0]}
    )


@pytest.fixture
def session(table, tmp_path):
    ledger = sd.Ledger.create(
        tmp_path / "budget.db",
        account="shop",
        budget=sd.Budget(epsilon=100),
        adjacency="add-remove",
        unit="user",
        source="name:orders",
    )
    unit = sd.PrivacyUnit("user", max_rows=1)
    return sd.Session(table, unit=unit, ledger=ledger, name="orders"), ledger


def last(ledger):
    line = ledger.statement().charges[-1]
    return Receipt(id=line.id, account="shop", time=line.time)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.sample(4)
def test_a_release_carries_the_id_that_the_ledger_has(session, name):
    session, ledger = session
    release = ASKED[name](session)
    assert release.receipt == last(ledger)
    assert json.loads(json.dumps(release.to_dict()))["receipt"] == last(ledger).to_dict()
    if name != "above":
        assert pickle.loads(pickle.dumps(release)).receipt == release.receipt


def test_parts_of_a_release_carry_it_too(session):
    session, ledger = session
    groups = ASKED["quantiles of groups"](session)
    assert {one.receipt for row in groups for one in (row.release, *row.release)} == {last(ledger)}


def test_releases_of_a_batch_share_one_charge(session):
    session, ledger = session
    with session.batch():
        rows, total = session.count(epsilon=1), ASKED["sum"](session)
    assert rows.receipt == total.receipt == last(ledger)
    assert ASKED["count"](session).receipt != rows.receipt


def test_a_charge_has_the_receipt_before_anything_is_drawn(session):
    _, ledger = session
    with ledger.reserve(sd.cost.Pure(epsilon=1)) as charge:
        assert charge.receipt == last(ledger)
        assert charge.time == charge.receipt.time


def test_nobody_paid(table):
    unit = sd.PrivacyUnit("user", max_rows=1)
    receipt = sd.Session(table, unit=unit, ledger=None).count(epsilon=1).receipt
    assert (receipt.id, receipt.account) == (None, None)
    assert receipt.time
    assert sd.Session(table, unit=unit, entropy=sd.Seeded(1)).count(epsilon=1).receipt == Receipt()


def test_reports_have_one_as_well(table):
    unit = sd.PrivacyUnit.row(adjacency="replace-one")
    asked = {"lower": 0, "upper": 10, "epsilon": 1}
    session = sd.Session(table, unit=unit, ledger=None)
    assert session.randomize("x", **asked).receipt.time
    assert session.randomize("x", write=lambda block: None, **asked).receipt.time


def test_a_mechanism_alone_has_none():
    release = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING).release(
        3, entropy=sd.Seeded(1)
    )
    assert release.receipt is None
    assert "receipt" not in release.to_dict()
