"""Quantiles, sums and means of a table: what the estimators would release about the rows that count, charged before a row is read."""

from __future__ import annotations

import json
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.cost import Pure, repeat
from sordino.session import Groups
from sordino.session.table_numbers import TableNumbers

ROW = sd.PrivacyUnit.row()
REPLACED = sd.PrivacyUnit.row(adjacency="replace-one")
USER = sd.PrivacyUnit("u", max_rows=3)
RANGE = {"lower": 0, "cap": 1e6}
CANARY = 86753099173.25


@pytest.fixture(scope="module")
def frame():
    n = 900
    rows = {
        "u": [i % 100 for i in range(n)],
        "g": ["abcz"[i % 4] for i in range(n)],
        "x": [float(i % 90) for i in range(n)],
    }
    return pl.DataFrame(rows).with_columns(
        text=pl.col("g"), x=pl.when(pl.col("x") == 89).then(CANARY).otherwise(pl.col("x"))
    )


def session(frame, unit=ROW, seed=7, **options):
    return sd.Session(frame, unit=unit, entropy=sd.Seeded(seed), **options)


def ask(s, kind, **options):
    given = (
        {"epsilon": 1, **RANGE}
        | ({"q": 0.5, "interval_share": None} if kind == "quantile" else {})
        | options
    )
    return getattr(s, kind)("x", **given)


@pytest.mark.parametrize("kind", ["quantile", "sum", "mean", "variance"])
@pytest.mark.parametrize("unit", [ROW, REPLACED], ids=["add-remove", "replace-one"])
@pytest.mark.sample(4)
def test_a_release_is_that_of_the_estimator_over_the_column(frame, kind, unit):
    released = ask(session(frame, unit), kind)
    entropy = sd.Seeded(7)
    entropy.words(4)  # the salt
    makers = {"quantile": sd.SizedQuantile, "sum": sd.ClippedSum, "mean": sd.ClippedMean}
    make = (makers | {"variance": sd.ClippedVariance})[kind]
    more = {}
    if kind == "quantile":
        more = {"q": 0.5, "growth": Fraction(101, 100), "cuts": released.mechanism.cuts}
        more["size_epsilon"] = Fraction(1, 20)
    alone = make(epsilon=1, adjacency=unit.adjacency, **RANGE, **more)
    told = released.to_dict()
    # A mechanism alone knows of no rows.
    assert told.pop("population")["column"] == "x"
    # Only a session says who paid.
    assert told.pop("receipt") == {"id": None, "account": None, "time": None}
    assert told == alone.release(frame["x"].to_numpy(), entropy=entropy).to_dict()
    assert 0.999 < released.cost.pure() <= 1


def test_several_quantiles(frame):
    found = session(frame).quantile("x", q=[0.1, 0.5, 0.9], epsilon=3, interval_share=None, **RANGE)
    assert len(found) == 3
    assert found[0].value < found[1].value < found[2].value
    fine = {"growth": Fraction(101, 100), "cuts": found.mechanism.cuts, "adapts": True}
    assert found.mechanism == sd.Quantiles(
        q=(0.1, 0.5, 0.9), epsilon=3, adjacency="add-remove", **RANGE, **fine
    )
    plain = session(frame).quantile(
        "x", q=[0.1, 0.5, 0.9], epsilon=3, interval_share=None, growth=1.01, **RANGE
    )
    assert plain.mechanism == sd.Quantiles(
        q=(0.1, 0.5, 0.9), epsilon=3, adjacency="add-remove", **RANGE
    ), "what somebody says of the grid holds"


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.sample(4)
def test_rows_of_units_are_bounded_and_paid_for(frame, adjacency):
    unit = sd.PrivacyUnit("u", adjacency=adjacency, max_rows=3)
    total = ask(session(frame, unit), "sum", epsilon=200, where="x < 89")
    counted = session(frame.with_columns(x=pl.lit(1.0)), unit).sum(
        "x", epsilon=200, lower=0, cap=10
    )
    assert 250 < counted.value < 330, "100 units with 9 rows each count 3 of them"
    assert counted.mechanism.rows_per_unit == 3
    assert counted.mechanism.adjacency == adjacency
    assert total.value < 0.5 * frame.filter(pl.col("x") < 89)["x"].sum()


@pytest.mark.parametrize(
    ("unit", "groups", "budgets"),
    [
        (ROW, None, 1),
        (REPLACED, None, 2),
        (USER, 2, 2),
        (sd.PrivacyUnit("u", adjacency="replace-one", max_rows=3), 2, 4),
    ],
    ids=["row", "row replaced", "unit", "unit replaced"],
)
@pytest.mark.sample(4)
def test_groups_share_the_budgets_of_those_that_one_unit_is_in(frame, unit, groups, budgets):
    for kind in ("quantile", "sum", "variance"):
        released = ask(
            session(frame, unit), kind, by="g", domain=["c", "a", "none"], groups_per_unit=groups
        )
        assert isinstance(released, Groups)
        assert [row.item for row in released] == ["c", "a", "none"]
        assert released.budgets == budgets
        each = {row.release.mechanism for row in released}
        [epsilon] = {m.epsilon for m in each}
        assert {m.adjacency for m in each} == {"add-remove"}, "within a group rows come and go"
        assert 0.999 < released.cost.pure() <= 1
        if unit.adjacency == "add-remove":
            assert epsilon == Fraction(1, budgets)
            assert released.cost == repeat(released.rows[0].release.cost, budgets)
        else:
            # A search loses both ends of its interval, which is less than twice the larger one.
            assert epsilon > Fraction(1, budgets)
            assert released.cost.pure() < budgets * released.rows[0].release.cost.pure()
        json.dumps(released.to_dict(), allow_nan=False)
        assert len(released) == 3


def test_each_group_is_released_about_its_own_rows(frame):
    exact = {label: frame.filter(pl.col("g") == label)["x"] for label in "ab"}
    released = session(frame).sum("x", epsilon=500, by="g", domain=["a", "b"], lower=0, cap=1e12)
    for row in released:
        assert row.release.value == pytest.approx(
            exact[row.item].clip(0, row.release.clip[1]).sum(), rel=0.02
        )
    averaged = session(frame).mean("x", epsilon=500, by="g", domain=["a", "b"], lower=0, cap=1e12)
    for row in averaged:
        assert row.release.value == pytest.approx(
            exact[row.item].clip(0, row.release.clip[1]).mean(), rel=0.02
        )


def test_who_leaves_a_group_and_who_joins_it_may_do_so_in_the_same_one():
    """Two steps of epsilon in a row are worse than two releases of epsilon: the broken twin, their composition, claims too little."""
    estimator = sd.Quantile(q=0.5, epsilon=1, adjacency="add-remove", **RANGE)
    wrapped = TableNumbers(estimator=estimator, adjacency="replace-one", labels=("a",)).cost
    assert wrapped == Pure(epsilon=estimator.cost.low + estimator.cost.high)
    # A count with discrete Laplace noise of rate 1 costs epsilon 1 a step; two steps diverge by more than two releases may.
    places = np.arange(-60, 61)
    law = [np.exp(-abs(places - shift).astype(float)) for shift in (0, 2)]
    one, two = (mass / mass.sum() for mass in law)
    divergence = float((one * np.log(one / two)).sum())
    step = Pure(epsilon=1)
    assert repeat(step, 2).zcdp() < divergence < Pure(epsilon=2 * step.pure()).zcdp()


@pytest.mark.slow
def test_when_the_number_of_rows_is_public(frame, tmp_path):
    """Only where a database says that no row can be without a number (tests/test_rows_without_a_number.py has more)."""
    frame.write_csv(tmp_path / "x.csv")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as con:
        con.execute("CREATE TABLE t (x INTEGER NOT NULL, u INTEGER, g VARCHAR)")
        con.execute("INSERT INTO t SELECT i % 9, i, 'a' FROM range(90) t(i)")
    stored, clip = f"duckdb:{tmp_path / 'x.duckdb'}#t", {"epsilon": 1, "lower": 0, "cap": 100}
    public = [
        session(stored, REPLACED).mean("x", **clip),
        session(stored, REPLACED).variance("x", **clip),
    ]
    private = [
        session(stored).mean("x", **clip),
        session(stored, REPLACED).mean("u", **clip),
        session(stored, REPLACED).mean("x", **clip, where="x < 5"),
        session(stored, sd.PrivacyUnit("u", adjacency="replace-one", max_rows=1)).mean("x", **clip),
        session(stored, REPLACED).mean("x", **clip, by="g", domain=["a"]).rows[0].release,
        session(frame, REPLACED).mean("x", **clip),
        session(tmp_path / "x.csv", REPLACED).mean("x", **clip),
    ]
    assert [released.mechanism.size_is_public for released in public + private] == [True] * 2 + [
        False
    ] * 7


@pytest.mark.parametrize(
    "values", [[], [None] * 300, [float("nan"), float("inf"), -float("inf")] * 100]
)
@pytest.mark.sample(4)
def test_nothing_and_nothing_but_odd_numbers(values):
    table = pl.DataFrame({"x": values}, schema={"x": pl.Float64})
    for unit, kind, q in (
        (ROW, "quantile", {"q": 0.5}),
        (ROW, "sum", {}),
        (REPLACED, "mean", {}),
        (ROW, "quantile", {"q": [0.1, 0.3]}),
    ):
        found = ask(session(table, unit), kind, **q)
        for released in found if isinstance(found, tuple) else (found,):
            assert np.isfinite(
                [one for one in released.to_dict().values() if isinstance(one, float)]
            ).all()


def test_charges_come_before_rows_and_refusals_are_free(frame, tmp_path):
    budget = sd.Budget(epsilon=3)
    about = {"adjacency": "add-remove", "unit": "u", "source": "name:t"}
    ledger = sd.Ledger.create(tmp_path / "b.db", account="t", budget=budget, **about)
    s = sd.Session(frame, unit=USER, ledger=ledger, name="t")
    refused = [
        (
            sd.InvalidParameter,
            "Quantile.q must be",
            lambda: s.quantile("x", q=1.5, epsilon=1, **RANGE),
        ),
        (
            sd.InvalidParameter,
            "strictly rising",
            lambda: s.quantile("x", q=[0.5, 0.5], epsilon=1, **RANGE),
        ),
        (
            sd.InvalidParameter,
            "Quantile.growth must be",
            lambda: s.quantile("x", q=0.5, epsilon=1, **RANGE, growth=1),
        ),
        (
            sd.InvalidParameter,
            "Quantile.cap must be above",
            lambda: s.quantile("x", q=0.5, epsilon=1, lower=5, cap=5),
        ),
        (
            sd.InvalidParameter,
            "quantile.epsilon must be",
            lambda: s.quantile("x", q=0.5, epsilon=0, **RANGE),
        ),
        (
            sd.InvalidParameter,
            "column must be a column of whole numbers",
            lambda: s.quantile("text", q=0.5, epsilon=1, **RANGE),
        ),
        (
            sd.InvalidParameter,
            "ClippedSum.lower must be at most 0",
            lambda: s.sum("x", epsilon=1, cap=9, lower=3),
        ),
        (
            sd.InvalidParameter,
            "belong to by",
            lambda: s.mean("x", epsilon=1, lower=0, cap=9, groups_per_unit=2),
        ),
        (
            sd.InvalidParameter,
            "mean.groups_per_unit must be",
            lambda: s.mean("x", epsilon=1, lower=0, cap=9, by="g", domain=["a"], groups_per_unit=0),
        ),
        (
            sd.UnboundedContribution,
            "groups-per-unit",
            lambda: s.mean(
                "x",
                epsilon=1,
                lower=0,
                cap=9,
                by="g",
                domain=sd.Domain.unlisted(delta=1e-6),
                most_groups=2,
            ),
        ),
        (
            sd.UnknownDomain,
            "public domain",
            lambda: s.sum("x", epsilon=1, lower=0, cap=9, by="g", groups_per_unit=1),
        ),
        (
            sd.UnsafePredicate,
            "function",
            lambda: s.sum("x", epsilon=1, lower=0, cap=9, where="error(x)"),
        ),
        (sd.BudgetExceeded, "Nothing was read", lambda: s.sum("x", epsilon=4, lower=0, cap=9)),
    ]
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call()
    unbounded = sd.Session(frame, unit=sd.PrivacyUnit("u"), ledger=None)
    groups = {"by": "g", "domain": ["a"], "groups_per_unit": 1}
    for kind in ("quantile", "variance"):
        with pytest.raises(sd.UnboundedContribution, match="max-rows.*per-person"):
            ask(unbounded, kind, **groups)
    assert ledger.remaining == 3
    s.quantile("x", q=[0.1, 0.9], epsilon=1, interval_share=None, **RANGE)
    with s.batch() as batch:
        total = s.sum("x", epsilon=0.5, lower=0, cap=1e6)
        means = s.mean(
            "x", epsilon=1, lower=0, cap=1e6, by="g", domain=["a", "b"], groups_per_unit=1
        )
        assert 1.49 < batch.cost.pure() <= 1.5
    assert total.value != 0
    assert len(means) == 2
    assert not means.simulated
    assert 0.5 <= ledger.remaining < 0.51
    first = ledger.statement().charges[0]
    assert {charge.label for charge in ledger.statement().charges} == {"quantile", "sum + mean"}
    assert str(CANARY) not in repr(first) + repr(total.result) + repr(means.result)


def test_a_failure_after_the_charge_says_nothing(tmp_path):
    pl.DataFrame({"x": [CANARY]}).write_parquet(tmp_path / "x.parquet")
    s = session(tmp_path / "x.parquet")

    def late():
        with s.batch():
            s.sum("x", epsilon=1, lower=0, cap=9)
            (tmp_path / "x.parquet").unlink()

    with pytest.raises(sd.DataSourceError) as caught:
        late()
    assert str(caught.value) == sd.DataSourceError.AFTER_CHARGE
    assert caught.value.__cause__ is None


def test_the_variance_of_each_group_is_that_of_its_own_rows(frame):
    released = session(frame).variance(
        "x", epsilon=500, by="g", domain=["a", "b"], lower=0, cap=1e12
    )
    for row in released:
        clipped = frame.filter(pl.col("g") == row.item)["x"].clip(0, row.release.clip[1])
        assert row.release.value == pytest.approx(clipped.var(ddof=0), rel=0.02)
        assert row.release.standard_deviation == pytest.approx(clipped.std(ddof=0), rel=0.02)


def test_a_variance_has_no_declared_range(frame):
    with pytest.raises(TypeError, match="bounds"):
        session(frame).variance("x", epsilon=1, lower=0, cap=10, bounds=(0, 1))
