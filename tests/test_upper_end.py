"""The upper end of a weighed mean, asked of a session: what it holds, and what refuses it before the charge."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.errors import InvalidParameter

ENDS = {"lower": 0, "cap": 500}
GROUPS = {"by": "g", "domain": ["p", "q"]}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    draw = np.random.default_rng(1)
    unit = np.repeat(np.arange(2000), draw.geometric(0.2, 2000))
    path = tmp_path_factory.mktemp("upper") / "rows.parquet"
    pl.DataFrame(
        {
            "u": unit,
            "g": draw.choice(["p", "q"], unit.size),
            "x": np.minimum(500, 5 + 10 * draw.pareto(1.5, unit.size)),
        }
    ).write_parquet(path)
    return path


def true_mean(table, cap, group=None):
    rows = pl.read_parquet(table).with_columns(n=pl.len().over("u"))
    rows = rows if group is None else rows.filter(pl.col("g") == group)
    weights = (1 << 24) // np.maximum(cap, rows["n"].to_numpy())
    return float(np.average(rows["x"].to_numpy(), weights=weights))


@pytest.mark.parametrize("lower", [0, None])
@pytest.mark.slow
def test_the_upper_end_holds_what_no_clip_does(table, lower):
    session = sd.Session(table, unit=sd.PrivacyUnit("u"), entropy=sd.Seeded(7), ledger=None)
    found = session.mean("x", epsilon=2, upper=True, cap=500, lower=lower)
    mean = true_mean(table, found.weights.cap)
    assert math.isinf(found.true_low) == (lower is None)
    assert found.true_low <= mean <= found.true_high < 100
    each = session.mean("x", epsilon=2, upper=True, cap=500, lower=lower, **GROUPS)
    for row in each:
        one = row.release
        assert one.true_low <= true_mean(table, one.weights.cap, row.item) <= one.true_high < 500
    plain = session.mean("x", epsilon=2, cap=500, lower=lower)
    assert math.isinf(plain.true_high)
    assert plain.cost == found.cost


@pytest.mark.parametrize(
    ("unit", "asked", "words"),
    [
        (sd.PrivacyUnit.row(), {}, "rows that have weights"),
        (sd.PrivacyUnit("u", max_rows=2), {}, "rows that have weights"),
        (sd.PrivacyUnit("u"), {"per_person": "sum"}, "rows that have weights"),
        (sd.PrivacyUnit("u"), {"bounds": (0, 500)}, "rows that have weights"),
        (sd.PrivacyUnit("u"), {"upper": "yes"}, "True or False"),
    ],
    ids=["rows", "some rows", "one number", "bounds", "no truth"],
)
def test_without_weights_it_is_refused_before_the_charge(tmp_path, table, unit, asked, words):
    about = {"adjacency": unit.adjacency, "unit": unit, "source": str(table)}
    budget = sd.Budget(epsilon=5)
    ledger = sd.Ledger.create(tmp_path / "a.db", account="rows", budget=budget, **about)
    session = sd.Session(table, unit=unit, ledger=ledger)
    with pytest.raises(InvalidParameter, match=words):
        session.mean("x", epsilon=1, **{"upper": True, **ENDS, **asked})
    assert ledger.remaining == 5


def test_it_is_kept_but_not_measured_again(tmp_path, table):
    unit = sd.PrivacyUnit("u")
    about = {"adjacency": unit.adjacency, "unit": unit, "source": str(table)}
    budget = sd.Budget(epsilon=5)
    ledger = sd.Ledger.create(tmp_path / "a.db", account="rows", budget=budget, **about)
    session = sd.Session(table, unit=unit, ledger=ledger)
    found = session.mean("x", epsilon=1, upper=True, **ENDS)
    session.keep(found)
    assert ledger.statement().charges[-1].detail["upper"] is True
    for release in (found, found.receipt.id):
        with pytest.raises(InvalidParameter, match="measured again|Ask for the same again"):
            session.remeasure(release, epsilon=1)
    assert ledger.remaining == 4


@pytest.mark.slow
def test_gaussian_noise_takes_its_part_on_an_account_with_a_delta(tmp_path, table):
    unit = sd.PrivacyUnit("u")
    about = {"adjacency": unit.adjacency, "unit": unit, "source": str(table)}
    budget = sd.Budget(epsilon=5, delta=1e-6)
    ledger = sd.Ledger.create(tmp_path / "a.db", account="rows", budget=budget, **about)
    session = sd.Session(table, unit=unit, ledger=ledger)
    for kind, more in (("mean", {"upper": True}), ("variance", {})):
        many = {"by": "g", "domain": ["p", "q"]}
        found = getattr(session, kind)("x", epsilon=0.5, **ENDS, **many, **more)
        assert found.rows[0].release.mechanism.total_noise in {"laplace", "gaussian"}
    spread = session.variance("x", epsilon=0.5, per_person="sum", **ENDS)
    again = session.remeasure(spread, epsilon=0.5, noise="gaussian")
    assert again.looks[-1].mechanism.total_noise == "gaussian"


@pytest.mark.slow
def test_a_plan_knows_it(table):
    session = sd.Session(table, unit=sd.PrivacyUnit("u"), ledger=None)
    asked = {"epsilon": 1, "like": "normal:50,20", "rows": 3000, "cap": 200, "lower": 0}
    wider, plain = (session.plan.mean("x", upper=upper, **asked) for upper in (True, False))
    assert 1 < wider.rows[0].typical / plain.rows[0].typical < 1.6


@pytest.mark.slow
def test_ends_and_the_mean_never_contradict_each_other():
    """Few people and much noise: the third total is often below 0, where nothing lies beyond the clip."""
    draw = np.random.default_rng(3)
    people = [[[float(one)] * 2 for one in draw.uniform(30, 70, 3)] for _ in range(300)]
    subject = sd.ClippedMeans(
        groups=3, epsilon=1, adjacency="add-remove", lower=0, cap=1000, upper=True, weight_cap=6
    )
    off = []
    for seed in range(150):
        for one in subject.release(people, entropy=sd.Seeded(seed)):
            assert one.low <= one.value <= one.high <= one.true_high
            assert one.true_low <= one.value
            off.append(one.value - 50)
    # What noise makes of a third total is not put at 0 by itself, which would move the mean upward.
    assert abs(np.mean(off)) < 3 * np.std(off) / np.sqrt(len(off)) + 1


def test_a_report_shows_both_ends(table):
    from sordino.report import make_report

    session = sd.Session(table, unit=sd.PrivacyUnit("u"), entropy=sd.Seeded(7), ledger=None)
    page = str(make_report([session.mean("x", epsilon=2, upper=True, cap=500, lower=0)]))
    assert "true number at least" in page
    assert "true number at most" in page
    plain = str(make_report([session.mean("x", epsilon=2, cap=500, lower=0)]))
    assert "true number at most" not in plain
