"""Sums, means and variances measured again: within the clip that was found, for all of the budget, each with its interval."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.estimators.clipped.clipped_again import ClippedAgain
from sordino.figures import Combination, Ratio
from sordino.session.looks import Joined, read_look

GROUPS = {"by": "g", "domain": ["c", "a", "b"], "groups_per_unit": 1}
ENDS = {"lower": 0, "cap": 1e6}
UNIT = sd.PrivacyUnit("u", max_rows=1)
LOOKS = {
    "sum": lambda s, e, **more: s.sum("x", epsilon=e, **ENDS, **more),
    "sum of groups": lambda s, e, **more: s.sum("x", epsilon=e, **ENDS, **GROUPS, **more),
    "sum of both signs": lambda s, e, **more: s.sum("y", epsilon=e, lower=None, cap=1e6, **more),
    "mean": lambda s, e, **more: s.mean("x", epsilon=e, where="x > 1", **ENDS, **more),
    "mean of groups": lambda s, e, **more: s.mean(
        "y", epsilon=e, lower=None, cap=1e6, **GROUPS, **more
    ),
    "variance": lambda s, e, **more: s.variance("x", epsilon=e, **ENDS, **more),
    "variance of groups": lambda s, e: s.variance("x", epsilon=e, **ENDS, **GROUPS),
}
every = pytest.mark.parametrize("kind", LOOKS)


def rows(n=3000):
    chance = np.random.default_rng(5)
    x = chance.lognormal(3, 0.5, n)
    return pl.DataFrame(
        {"u": range(n), "g": [["a", "b", "c"][i % 3] for i in range(n)], "x": x, "y": x - 20.0}
    )


@pytest.fixture(scope="module")
def frame():
    return rows()


def seeded(frame, unit=UNIT, seed=3, **more):
    return sd.Session(frame, unit=unit, entropy=sd.Seeded(seed), **more)


@pytest.fixture
def session(frame, tmp_path):
    about = {"adjacency": "add-remove", "unit": UNIT, "source": "name:rows"}
    ledger = sd.Ledger.create(
        tmp_path / "a.db", account="rows", budget=sd.Budget(epsilon=40), **about
    )
    return sd.Session(frame, unit=UNIT, ledger=ledger, name="rows")


def listed(release):
    """Return the figures of a release by their labels."""
    found = getattr(release, "rows", None)
    return (
        {None: release}
        if found is None
        else {row.item: getattr(row, "release", row) for row in found}
    )


@every
@pytest.mark.sample(6)
def test_the_clip_stays_and_all_of_the_budget_is_that_of_the_totals(session, kind):
    rough = LOOKS[kind](session, 1)
    ledger = session._executor.ledger
    spent = ledger.statement().spent
    again = session.remeasure(rough, epsilon=Fraction(1, 2))
    third = session.remeasure(again, epsilon=1)
    assert ledger.statement().spent == spent + Fraction(3, 2)
    assert (again.cost.pure(), third.total.pure()) == (Fraction(1, 2), spent + Fraction(3, 2))
    [*_, one, two] = ledger.statement().charges
    assert [line.detail["remeasures"] for line in (one, two)] == [
        rough.receipt.id,
        again.receipt.id,
    ]
    assert one.detail["column"] in {"x", "y"}
    assert ledger.verify().sound
    assert len(third.looks) == 3
    for first, look in zip(listed(rough).values(), listed(third.looks[2]).values(), strict=True):
        assert look.clip == first.clip
        assert isinstance(look.mechanism, ClippedAgain)
    # A look for 1 with a search spends 0.65 on totals; this one all of it.
    share = [
        look.standard_error / first.standard_error
        for first, look in zip(listed(rough).values(), listed(third.looks[2]).values(), strict=True)
    ]
    assert all(0.5 < one < (0.8 if "sum" in kind else 1.0) for one in share)
    json.dumps(third.to_dict(), allow_nan=False)
    assert list(listed(third)) == list(listed(rough))


@every
@pytest.mark.sample(6)
def test_estimates_weigh_the_looks_and_lie_in_the_interval_of_the_new_one(frame, kind):
    session = seeded(frame)
    rough = LOOKS[kind](session, 1)
    again = session.remeasure(rough, epsilon=2)
    reads = [read_look(look) for look in again.looks]
    for row, (name, fresh) in zip(again.rows, listed(again.looks[1]).items(), strict=True):
        joined = Joined.of([look[name or 0] for look in reads])
        assert sum(joined.weights) == 1
        assert joined.weights[1] > 0.9, (
            "2 of a budget against 0.65 of one: nine times the precision"
        )
        assert (row.low, row.high, row.measured) == (fresh.low, fresh.high, fresh.estimate)
        assert row.low <= row.estimate <= row.high
        first = listed(rough)[name]
        if kind.startswith("sum"):
            mean = joined.weights[0] * Fraction(first.estimate) + joined.weights[1] * Fraction(
                fresh.estimate
            )
            assert row.estimate == min(max(float(mean), row.low), row.high)
        elif row.low < row.estimate < row.high:
            # Of many records it is nearly the mean of both figures.
            near = (
                float(joined.weights[0]) * first.estimate
                + float(joined.weights[1]) * fresh.estimate
            )
            assert row.estimate == pytest.approx(near, abs=row.standard_error)
        assert row.standard_error < min(first.standard_error, fresh.standard_error)


@every
@pytest.mark.sample(6)
def test_groups_keep_their_own_clips_in_whatever_order_they_were_given(frame, kind):
    session = seeded(frame)
    rough = LOOKS[kind](session, 4)
    again = session.remeasure(rough, epsilon=4)
    for row, first in zip(again.rows, listed(rough).values(), strict=True):
        assert abs(row.measured - first.estimate) < 8 * first.standard_error


@pytest.mark.slow
def test_what_is_released_is_the_figure_of_the_records(frame):
    """With hardly any noise: a sum, a mean and a variance of clipped records, by plain arithmetic."""
    session = seeded(frame)
    values = frame["x"].to_numpy()
    for kind in ("sum", "mean", "variance"):
        rough = LOOKS[kind](session, 1)
        again = session.remeasure(rough, epsilon=10_000)
        low, high = rough.clip
        clipped = np.clip(values[values > 1] if kind == "mean" else values, low, high)
        wanted = {"sum": clipped.sum(), "mean": clipped.mean(), "variance": clipped.var()}[kind]
        assert again.looks[1].estimate == pytest.approx(wanted, rel=1e-3)
        [row] = again.rows
        if kind == "sum":
            assert row.true_low <= values.sum() <= row.true_high == math.inf


def test_a_public_number_of_records(tmp_path):
    unit = sd.PrivacyUnit.row(adjacency="replace-one")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as con:
        con.execute("CREATE TABLE t (x INTEGER NOT NULL)")
        con.execute("INSERT INTO t SELECT i % 90 FROM range(3000) t(i)")
    session = seeded(f"duckdb:{tmp_path / 'x.duckdb'}#t", unit)
    rough = session.mean("x", epsilon=1, **ENDS)
    again = session.remeasure(rough, epsilon=1, planned=True)
    assert again.looks[1].records == 3000
    [row] = again.rows
    joined = Joined.of([read_look(look)[0] for look in again.looks])
    mean = sum(
        weight * row.terms[0].value for weight, row in zip(joined.weights, joined.rows, strict=True)
    )
    assert row.estimate == pytest.approx(float(mean), rel=1e-9)
    assert row.true_low == row.low
    assert row.true_high == math.inf
    spread = session.remeasure(session.variance("x", epsilon=1, **ENDS), epsilon=2)
    assert spread.rows[0].low < spread.rows[0].estimate < spread.rows[0].high


@pytest.mark.parametrize("kind", ["sum", "mean", "mean of groups"])
@pytest.mark.slow
def test_a_planned_look_has_the_law_of_all(frame, kind):
    session = seeded(frame)
    rough = LOOKS[kind](session, 1)
    again = session.remeasure(rough, epsilon=Fraction(13, 20), planned=True)
    fresh = listed(again.looks[1])
    for row, one in zip(again.rows, fresh.values(), strict=True):
        assert row.high - row.low < 0.85 * (one.high - one.low)
        assert row.low <= row.estimate <= row.high


def test_a_planned_mean_is_the_ratio_of_the_means_of_its_totals(frame):
    session = seeded(frame)
    again = session.remeasure(LOOKS["mean"](session, 1), epsilon=1, planned=True)
    joined = Joined.of([read_look(look)[0] for look in again.looks])
    below, above = joined.sums
    low, high = again.looks[0].clip
    share = Ratio(below, below.plus(above)).bound(Fraction(1, 20), planned=True)
    [row] = again.rows
    assert row.low == pytest.approx(low + (high - low) * share[0], rel=1e-6)
    assert row.high == pytest.approx(low + (high - low) * share[1], rel=1e-6)
    assert isinstance(below, Combination)


@pytest.mark.slow
def test_a_planned_interval_covers():
    """Of 400 pairs of looks few miss: those of a mean by the ratio of its totals, those of a sum by one law."""
    frame = rows(200)
    values = frame["x"].to_numpy()
    missed = dict.fromkeys(("sum", "mean"), 0)
    session = seeded(frame, seed=12)
    runs = 60
    for _ in range(runs):
        for kind in missed:
            rough = getattr(session, kind)("x", epsilon=1, **ENDS)
            [row] = session.remeasure(rough, epsilon=1, planned=True).rows
            clipped = np.clip(values, *rough.clip)
            wanted = clipped.sum() if kind == "sum" else clipped.mean()
            missed[kind] += not row.low - 1e-6 <= wanted <= row.high + 1e-6
    # Six sigmas above 5%.
    assert max(missed.values()) <= 0.05 * runs + 6 * math.sqrt(0.05 * runs)


@pytest.mark.slow
def test_gaussian_totals(frame, tmp_path):
    session = seeded(frame)
    for kind in ("sum", "mean of groups"):
        rough = LOOKS[kind](session, 1, noise="gaussian")
        again = session.remeasure(rough, epsilon=1, noise="gaussian", planned=True)
        for one in listed(again.looks[1]).values():
            assert one.noise.mechanism.noise.name == "gaussian"
        assert again.cost.pure() == math.inf
    rough = LOOKS["variance"](session, 1, noise="gaussian")
    again = session.remeasure(rough, epsilon=1, noise="gaussian")
    assert again.looks[1].totals.noise.mechanism.noise.name == "gaussian"
    assert again.rows[0].low < again.rows[0].estimate < again.rows[0].high
    # On an account of rhos the rule takes the noise that is smaller.
    about = {"adjacency": "add-remove", "unit": UNIT, "source": "name:rows"}
    ledger = sd.Ledger.create(
        tmp_path / "z.db",
        account="rows",
        budget=sd.Budget(epsilon=6, delta=1e-6, meter="zcdp"),
        **about,
    )
    paid = sd.Session(frame, unit=UNIT, ledger=ledger, name="rows")
    again = paid.remeasure(LOOKS["sum"](paid, 1), epsilon=1)
    assert again.looks[1].noise.mechanism.noise.name == "gaussian"


def test_texts_are_counted_once(frame):
    """How many rows held a number was said by the first look: the second one spends nothing on it."""
    texts = frame.with_columns(pl.col("x").cast(pl.String))
    session = seeded(texts.to_pandas())
    rough = session.sum("x", epsilon=1, **ENDS)
    again = session.remeasure(rough, epsilon=1)
    assert rough.numbers_share is not None
    assert again.looks[1].numbers_share is None
    assert again.cost.pure() == 1
    assert again.looks[1].noise.budget.pure() == 1


@pytest.mark.slow
def test_groups_that_were_found_are_listed_now(frame):
    session = seeded(frame)
    rough = session.sum(
        "x",
        epsilon=4,
        **ENDS,
        by="g",
        domain=sd.Domain.unlisted(delta=1e-6),
        groups_per_unit=1,
        most_groups=9,
    )
    assert [row.item for row in rough] == ["a", "b", "c"]
    again = session.remeasure(rough, epsilon=1)
    assert [row.item for row in again] == ["a", "b", "c"]
    assert again.cost.pure() == 1
    empty = session.sum(
        "x",
        epsilon=1,
        **ENDS,
        by="u",
        domain=sd.Domain.unlisted(delta=1e-6),
        groups_per_unit=1,
        most_groups=9,
    )
    assert len(empty) == 0
    with pytest.raises(sd.InvalidParameter, match="a group at least"):
        session.remeasure(empty, epsilon=1)


def test_what_has_no_law_of_both_is_refused_before_the_charge(session):
    ledger = session._executor.ledger
    releases = [
        (LOOKS["variance"](session, 1), {"planned": True}, "planned must be False for a variance"),
        (session.sum("x", epsilon=1, lower=0, cap=100, bounds=(0, 10**6)), {}, "remeasure.release"),
        (session.quantile("x", q=0.5, epsilon=1, lower=0, cap=1e6), {}, "remeasure.release"),
    ]
    spent = ledger.statement().spent
    for release, more, words in releases:
        with pytest.raises(sd.InvalidParameter, match=words):
            session.remeasure(release, epsilon=1, **more)
    assert ledger.statement().spent == spent


@pytest.mark.slow
def test_exchanged_units(frame):
    unit = sd.PrivacyUnit("u", max_rows=1, adjacency="replace-one")
    session = seeded(frame, unit)
    for kind in ("sum", "mean of groups"):
        again = session.remeasure(LOOKS[kind](session, 1), epsilon=1)
        assert again.cost.pure() == 1


def test_in_a_batch_and_in_a_plan(session):
    rough = LOOKS["sum"](session, 1)
    with session.batch() as batch:
        again = session.remeasure(rough, epsilon=Fraction(1, 2))
        _ = session.count(epsilon=Fraction(1, 2))
    assert batch.cost.pure() == 1
    assert again.rows[0].low < again.rows[0].high


@pytest.mark.parametrize("kind", ["sum", "mean of groups", "variance"])
def test_a_plan_says_how_wide_the_interval_of_another_look_will_be(frame, kind):
    session = seeded(frame)
    rough = LOOKS[kind](session, 1)
    plan = session.plan.remeasure(rough, epsilon=1, runs=3)
    again = session.remeasure(rough, epsilon=1)
    assert plan.cost.pure() == 1
    assert plan.rows[0].figure == "each figure"
    width = again.rows[0].high - again.rows[0].low
    # Data are made up, and those of a mean and a variance decide.
    assert plan.rows[0].narrowest / 20 < width < 20 * plan.rows[0].widest
    if kind == "sum":
        assert plan.rows[0].widest == pytest.approx(width, rel=1e-6)


@pytest.mark.parametrize("kind", ["sum", "mean", "variance"])
@pytest.mark.parametrize(
    "unit", [sd.PrivacyUnit.row("replace-one"), sd.PrivacyUnit("u", "replace-one", 1)]
)
def test_another_look_at_groups_costs_what_is_asked_whoever_is_replaced(frame, unit, kind):
    # Who leaves and who joins may have rows in different groups.
    groups = (
        GROUPS if unit.column is not None else {name: GROUPS[name] for name in ("by", "domain")}
    )
    session = seeded(frame, unit)
    rough = getattr(session, kind)("x", epsilon=1, **ENDS, **groups)
    again = session.remeasure(rough, epsilon=1)
    assert 0.99 < again.cost.pure() <= 1
