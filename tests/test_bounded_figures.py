"""Counts, sums and means within a declared range: what moves them, what they cost, and that they are unbiased everywhere in it."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import psycopg
import pytest
from hypothesis import given, settings, strategies as st

import sordino as sd
from sordino.columns import Total
from sordino.columns.clipped_steps import clipped_steps
from sordino.errors import InvalidParameter
from sordino.session import BoundedValue, Groups
from sordino.session.bounded_total import BoundedFigure, BoundedTotal
from sordino.sources.engine import Engine
from support.postgres import database

ROW = sd.PrivacyUnit.row()
REPLACED = sd.PrivacyUnit.row(adjacency="replace-one")
USER = sd.PrivacyUnit("u", max_rows=2)
CANARY = 86753099173.25


def total(**changes):
    given = {
        "kind": "sum",
        "epsilon": 1,
        "adjacency": "add-remove",
        "lower": 0,
        "cap": 4,
        "bounds": (0, 100),
    }
    return BoundedTotal(**given | changes)


def added(estimator, values):
    """Return the sum of records in the unit of the values: the arrays' twin of what the engine adds up."""
    ends = estimator.records
    return (
        clipped_steps(
            np.array(values, dtype=float), ends.low, ends.high, ends.step, missing=max(0, ends.low)
        )
        * ends.step
    )


SUMS = [
    {},
    {"lower": -2},
    {"lower": -8, "bounds": (-100, 100)},
    {"adjacency": "replace-one"},
    {"adjacency": "replace-one", "lower": -2},
    {"rows_per_unit": 2},
    {"rows_per_unit": 2, "adjacency": "replace-one", "lower": -2},
]


@pytest.mark.parametrize("changes", SUMS, ids=str)
def test_the_sum_moves_by_what_is_stated_and_does_so(changes):
    """All units of up to M records, with numbers below, between, at and beyond the ends, and missing ones."""
    estimator = total(**changes)
    rows = estimator.rows_per_unit
    kinds = [-9.0, -2.0, -0.3, 0.0, 1.7, 4.0, 9.0, math.nan, math.inf]
    units = [
        unit for n in range(rows + 1) for unit in itertools.combinations_with_replacement(kinds, n)
    ]
    sums = [added(estimator, unit) for unit in units]
    if estimator.adjacency == "add-remove":
        moves = [abs(one) for one in sums]
    else:
        moves = [abs(a - b) for a, b in itertools.product(sums, repeat=2)]
    assert max(moves) == estimator.apart, "attained"
    if estimator.adjacency == "replace-one" and estimator.lower:
        assert max(moves) > rows * max(-estimator.lower, estimator.cap), (
            "the rule of add-remove is convicted"
        )


@pytest.mark.parametrize("records", [1, 2, 5])
@pytest.mark.parametrize(("lower", "cap"), [(0, 4), (-2, 4), (3, 4)])
@pytest.mark.each_value
def test_a_mean_moves_by_one_record_for_another(records, lower, cap):
    estimator = total(
        kind="mean", adjacency="replace-one", lower=lower, cap=cap, bounds=(lower, cap)
    )
    kinds = [-9.0, 0.5, 3.2, 4.0, 9.0]
    moves = [
        abs(added(estimator, [a]) - added(estimator, [b])) / records
        for a, b in itertools.product(kinds, repeat=2)
    ]
    assert max(moves) == estimator.apart / records == Fraction(cap - lower, records)
    mechanism = estimator.noise(records)
    assert mechanism.sensitivity.bound >= estimator.apart / records
    assert mechanism.cost.pure() <= 1


@settings(max_examples=100)
@given(
    kind=st.sampled_from(["sum", "mean"]),
    epsilon=st.sampled_from([1e-5, 0.001, 0.1, 1, 30, 10**6]),
    lower=st.sampled_from([0, -1, -1e6, -1e-200, 5, 1e12]),
    width=st.sampled_from([1, 0.1, 1e-3, 1e9, 1e200]),
    bounds=st.sampled_from(
        [(0, 1), (0, 1e9), (-5, 1e300), (1e9, 1e9 + 100), (1e-9, 2e-9), (-0.1, 0.1)]
    ),
    records=st.integers(0, 1 << 62),
    place=st.floats(allow_nan=False, allow_infinity=False),
)
def test_what_is_not_refused_before_the_charge_never_fails_after_it(
    kind, epsilon, lower, width, bounds, records, place
):
    try:
        estimator = total(
            kind=kind,
            adjacency="replace-one",
            epsilon=epsilon,
            lower=lower,
            cap=lower + width,
            bounds=bounds,
            rows_per_unit=1,
        )
    except sd.InvalidParameter:
        return
    steps = math.floor(Fraction(place) / estimator.records.step)
    figure = BoundedFigure(Total(steps, records, 0), records if kind == "mean" else None)
    released = estimator.release(figure, entropy=sd.Seeded(1))
    assert released.cost.pure() <= Fraction(str(epsilon))
    assert released.output_range[0] <= released.value <= released.output_range[1]
    assert released.interval[0] <= released.interval[1]
    json.dumps(released.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "figure", [0.25, 55, *(pytest.param(f, marks=pytest.mark.slow) for f in (0, 7, 40, -3))]
)
def test_unbiased_wherever_the_figure_lies_in_the_range(figure):
    """Mean of 600 releases; off by more than 6.2 standard errors with a probability below 1e-9. The ends as they are: convicted."""
    estimator = total(bounds=(0, 40), cap=8)
    ends = estimator.records
    place, runs, noise = (
        BoundedFigure(Total(round(figure / ends.step), 9, 0), None),
        600,
        sd.Seeded(5),
    )
    found = np.array([estimator.release(place, entropy=noise).value for _ in range(runs)])
    wanted = min(40, max(0, figure))
    error = 6.2 * estimator.release(place, entropy=noise).standard_error / math.sqrt(runs)
    assert abs(found.mean() - wanted) < error
    if wanted in {0, 40}:
        assert abs(np.clip(found, 0, 40).mean() - wanted) > error


def test_a_coarse_grid_is_rounded_to_at_random():
    """Where floats are coarser than the noise, the figure lies between two grid points, and on average where it lies."""
    estimator = total(
        kind="mean", adjacency="replace-one", lower=0, cap=1, bounds=(0, 2.0**20), epsilon=10**6
    )
    records = 3 * 10**9
    mechanism = estimator.noise(records)
    figure = BoundedFigure(
        Total(round(Fraction(records, 3) / estimator.records.step), records, 0), records
    )
    noise = sd.Seeded(3)
    released = [estimator.release(figure, entropy=noise) for _ in range(400)]
    found, step = [one.value for one in released], float(mechanism.step)
    assert len(set(found)) >= 2
    assert abs(np.mean(found) - 1 / 3) < 6.2 * step / 2 / math.sqrt(400)
    assert all(one.interval[0] <= 1 / 3 <= one.interval[1] for one in released), (
        "whichever way it was rounded"
    )
    assert all(one.standard_error >= step / 2 for one in released)
    for place in (0, 2**20):
        end = estimator.release(
            BoundedFigure(
                Total(round(place * records / estimator.records.step), records, 0), records
            ),
            entropy=noise,
        )
        assert 0 <= end.interval[0] <= place <= end.interval[1] <= 2**20, (
            "within the declared range"
        )


def test_ends_between_two_steps_are_moved_outwards_and_a_narrow_range_bounds_the_move():
    estimator = total(kind="mean", adjacency="replace-one", lower=0, cap=100, bounds=(0.1, 3.3))
    for records in (1, 2, 1000):
        mechanism = estimator.noise(records)
        assert mechanism.lower <= Fraction(1, 10) < Fraction(33, 10) <= mechanism.upper
        assert mechanism.lower < Fraction(1, 10) < Fraction(33, 10) < mechanism.upper, (
            "no step is there"
        )
        assert (
            min(Fraction(100, records), Fraction(32, 10))
            <= mechanism.sensitivity.bound
            < mechanism.upper - mechanism.lower + 1
        )
        assert mechanism.sensitivity.bound < 1.01 * min(100 / records, 3.2)
    widest = total(
        kind="mean", adjacency="replace-one", lower=0, cap=1, bounds=(0, Fraction(2**73 - 1, 2**53))
    )
    assert widest.noise(10**15).step == Fraction(1, 2**31), "as many steps as whole floats allow"


@pytest.fixture(scope="module")
def frame():
    n = 600
    values = [float(i % 50) if i % 11 else None for i in range(n)]
    return pl.DataFrame(
        {"u": [i % 100 for i in range(n)], "g": ["abc"[i % 3] for i in range(n)], "x": values}
    )


def session(source, unit=ROW, seed=7, **options):
    return sd.Session(source, unit=unit, entropy=sd.Seeded(seed), **options)


def test_counts(frame):
    for unit, bound in ((ROW, 1), (REPLACED, 1), (USER, 2)):
        s = session(frame, unit)
        rows = s.count(epsilon=1, bounds=(0, 1000))
        assert rows.mechanism.sensitivity.bound == bound
        assert rows.mechanism.sensitivity.adjacency == unit.adjacency
        assert rows.output_range == rows.mechanism.output_range
        assert (
            -10 < rows.output_range[0] < 0 <= rows.low <= rows.high <= 1000 < rows.output_range[1]
        )
        assert rows.standard_error < session(frame, unit).count(epsilon=1).standard_error + 1e-9
        assert rows.cost.pure() == 1
    units = session(frame, USER).count_distinct_units(epsilon=1, bounds=(0, 1000))
    assert 80 < units.estimate < 120
    beyond = [
        session(frame, seed=seed).count(epsilon=1, bounds=(0, 50)).estimate for seed in range(4)
    ]
    assert max(beyond) == pytest.approx(50 + 1 / (math.e - 1)), (
        "600 rows count as 50, and half of all noise is folded there"
    )


def test_histograms(frame):
    found = session(frame).histogram("g", epsilon=1, domain=["a", "b", "z"], bounds=(0, 500))
    assert (
        found.mechanism.sensitivity
        == session(frame).histogram("g", epsilon=1, domain=["a", "b", "z"]).mechanism.sensitivity
    )
    assert found.output_range == pytest.approx((-1 / (math.e - 1), 500 + 1 / (math.e - 1)))
    assert [row.item for row in found] == ["a", "b", "z"]
    assert all(0 <= row.low <= row.high <= 500 for row in found)
    assumed = session(frame, USER).histogram(
        "g", epsilon=1, domain=sd.Domain.assume_public(), bounds=(0, 500)
    )
    assert assumed.mechanism.sensitivity.size == 3


def clipped(frame, low, high):
    return frame["x"].fill_null(0).clip(low, high).sum()


def test_sums(frame, tmp_path):
    frame.write_csv(tmp_path / "x.csv")
    for source in (frame, tmp_path / "x.csv"):
        for unit in (ROW, REPLACED):
            found = session(source, unit).sum("x", epsilon=500, lower=0, cap=30, bounds=(0, 20_000))
            assert isinstance(found, BoundedValue)
            assert found.value == pytest.approx(clipped(frame, 0, 30), abs=2)
            assert found.interval[0] <= clipped(frame, 0, 30) <= found.interval[1]
            assert (found.clip, found.bounds) == ((0, 30), (0, 20_000))
    bounded = session(frame, USER).sum("x", epsilon=500, lower=0, cap=30, bounds=(0, 20_000))
    assert bounded.mechanism.sensitivity.bound == 60
    assert bounded.value < 200 * 30
    kept = session(frame).sum(
        "x", epsilon=500, cap=30, lower=None, bounds=(-20_000, 20_000), where="x < 10"
    )
    assert kept.clip == (-30, 30)
    assert kept.value == pytest.approx(frame.filter(pl.col("x") < 10)["x"].sum(), abs=2)
    exact = session(frame).sum("x", epsilon=10**6, lower=0, cap=49, bounds=(0, 2**30))
    assert exact.value == pytest.approx(frame["x"].sum(), abs=0.01), "whole numbers are not rounded"


def test_sums_of_groups(frame):
    found = session(frame, USER).sum(
        "x",
        epsilon=1000,
        lower=0,
        cap=30,
        bounds=(0, 20_000),
        by="g",
        domain=["a", "z"],
        groups_per_unit=2,
    )
    assert isinstance(found, Groups)
    assert found.cost.pure() == 1000
    assert {row.release.mechanism.epsilon for row in found} == {500}
    assert abs(found.rows[1].release.value) < 5
    replaced = session(frame, REPLACED).sum(
        "x", epsilon=10, lower=0, cap=30, bounds=(0, 20_000), by="g", domain=["a"]
    )
    assert replaced.rows[0].release.mechanism.epsilon == 5
    assert replaced.cost.pure() == 10
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.fixture
def stored(tmp_path):
    """Return what makes a table whose column of whole numbers a database declares NOT NULL."""

    def make(numbers, *, name="declared", declared="INTEGER NOT NULL"):
        with duckdb.connect(str(tmp_path / f"{name}.duckdb")) as con:
            con.execute(f"CREATE TABLE t (x {declared})")
            con.executemany("INSERT INTO t VALUES (?)", [[x] for x in numbers]) if numbers else None
            con.execute("CREATE VIEW seen AS SELECT * FROM t WHERE x < 5")
        return f"duckdb:{tmp_path / f'{name}.duckdb'}#t"

    return make


def test_means_of_a_public_number_of_rows(stored):
    numbers = [*range(-50, 50), *[200] * 100]
    source = stored(numbers)
    found = session(source, REPLACED).mean("x", epsilon=500, lower=0, cap=30, bounds=(0, 30))
    assert found.value == pytest.approx(np.clip(numbers, 0, 30).mean(), abs=0.01)
    assert found.mechanism.sensitivity.bound == pytest.approx(Fraction(30, 200), rel=1e-6)
    high = session(source, REPLACED).mean("x", epsilon=500, lower=20, cap=30, bounds=(0, 30))
    assert high.value == pytest.approx(np.clip(numbers, 20, 30).mean(), abs=0.01)
    nothing = session(stored([], name="nothing"), REPLACED).mean(
        "x", epsilon=500, lower=0, cap=30, bounds=(0, 30)
    )
    assert nothing.value == pytest.approx(0, abs=2)


def test_0_keeps_the_place_of_a_record_that_was_declared_to_have_a_number():
    """Privacy does not rest on the declaration: the number of all rows divides, and each adds a number between the ends."""
    total = BoundedTotal(
        kind="mean", epsilon=500, adjacency="replace-one", lower=20, cap=30, bounds=(0, 30)
    )
    steps = total.records
    figure = BoundedFigure(Total(steps=steps.high * 3, known=3, missing=1), 4)
    assert total.release(figure, entropy=sd.Seeded(1)).value == pytest.approx(
        (90 + 20) / 4, abs=0.5
    )


def test_a_mean_over_a_private_number_of_rows_is_refused(frame, tmp_path, stored):
    frame.write_csv(tmp_path / "x.csv")
    seen = stored(range(9)).replace("#t", "#seen")
    for source, unit, more, words in [
        (frame, ROW, {}, "the adjacency is add-remove"),
        (frame, sd.PrivacyUnit("u", adjacency="replace-one", max_rows=1), {}, "a column"),
        (frame, REPLACED, {"where": "x < 3"}, "a predicate"),
        (frame, REPLACED, {"by": "g", "domain": ["a"]}, "grouped"),
        (tmp_path / "x.csv", REPLACED, {}, "CSV"),
        (frame.lazy(), REPLACED, {}, "a lazy frame may drop rows"),
        (duckdb.sql("SELECT i AS x FROM range(9) t(i) WHERE i < 5"), REPLACED, {}, "a relation"),
        (seen, REPLACED, {}, "a view"),
        (frame, REPLACED, {}, "a row may be without a number"),
        (
            stored([1], name="nullable", declared="INTEGER"),
            REPLACED,
            {},
            "a row may be without a number",
        ),
        (
            stored([1], name="double", declared="DOUBLE NOT NULL"),
            REPLACED,
            {},
            "a row may be without a number",
        ),
    ]:
        with pytest.raises(
            sd.InvalidParameter,
            match=rf"mean\.bounds must go with a public number of rows.*{words}.*Ask for the sum",
        ):
            session(source, unit).mean("x", epsilon=1, lower=0, cap=30, bounds=(0, 30), **more)


def test_charges_come_before_rows_and_refusals_are_free(frame, tmp_path):
    about = {"adjacency": "add-remove", "unit": "u", "source": "name:t"}
    ledger = sd.Ledger.create(tmp_path / "b.db", account="t", budget=sd.Budget(epsilon=3), **about)
    s = sd.Session(frame, unit=USER, ledger=ledger, name="t")
    refused = [
        (
            sd.InvalidParameter,
            "count.bounds must be two numbers",
            lambda: s.count(epsilon=1, bounds=5),
        ),
        (
            sd.InvalidParameter,
            "count.bounds must be two numbers",
            lambda: s.count(epsilon=1, bounds=(5, 5)),
        ),
        (
            sd.InvalidParameter,
            "count.bounds must be a finite",
            lambda: s.count(epsilon=1, bounds=(0, math.inf)),
        ),
        (
            sd.InvalidParameter,
            "one person can move a count, 2",
            lambda: s.count(epsilon=1, bounds=(0, 1)),
        ),
        (
            sd.InvalidParameter,
            "one person can move a count",
            lambda: s.histogram("g", epsilon=1, domain=sd.Domain.assume_public(), bounds=(0, 0.5)),
        ),
        (
            sd.InvalidParameter,
            "one person can move the sum, 60",
            lambda: s.sum("x", epsilon=1, lower=0, cap=30, bounds=(0, 59)),
        ),
        (
            sd.InvalidParameter,
            "sum.lower must be at most 0",
            lambda: s.sum("x", epsilon=1, cap=30, lower=1, bounds=(0, 99)),
        ),
        (
            sd.InvalidParameter,
            "sum.cap must be",
            lambda: s.sum("x", epsilon=1, cap=0, lower=-3, bounds=(0, 99)),
        ),
        (
            sd.InvalidParameter,
            "must not be given with bounds",
            lambda: s.sum("x", epsilon=1, lower=0, cap=9, growth=2, bounds=(0, 99)),
        ),
        (
            sd.InvalidParameter,
            "0.00001 to 1000000",
            lambda: s.sum("x", epsilon=1e-6, lower=0, cap=9, bounds=(0, 99)),
        ),
        (
            sd.InvalidParameter,
            "apart by 2",
            lambda: s.sum("x", epsilon=1, lower=0, cap=9, bounds=(1e30, 1e30 + 1e19)),
        ),
        (
            sd.UnboundedContribution,
            "max-rows",
            lambda: session(frame, sd.PrivacyUnit("u")).sum(
                "x", epsilon=1, lower=0, cap=9, by="x", domain=["1"], bounds=(0, 99)
            ),
        ),
        (
            sd.BudgetExceeded,
            "Nothing was read",
            lambda: s.sum("x", epsilon=4, lower=0, cap=9, bounds=(0, 99)),
        ),
    ]
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call()
    assert ledger.remaining == 3
    with s.batch() as batch:
        rows = s.count(epsilon=0.5, bounds=(0, 1000))
        found = s.sum("x", epsilon=1, lower=0, cap=9, bounds=(0, 9000))
        assert batch.cost.pure() == Fraction(3, 2)
    assert not found.simulated
    assert rows.cost.pure() == 0.5
    assert ledger.remaining == 1.5
    assert '"bounds": ["0", "9000"]' in json.dumps(ledger.statement().to_dict())


def test_the_engine_adds_up_whole_numbers_only(frame, monkeypatch, stored):
    asked = []
    plain = Engine.ask
    monkeypatch.setattr(
        Engine,
        "ask",
        lambda self, question, labels=None, **more: (
            asked.append(question) or plain(self, question, labels, **more)
        ),
    )
    session(frame, USER).sum("x", epsilon=1, lower=0, cap=30, bounds=(0, 20_000))
    session(stored([1, 2]), REPLACED).mean("x", epsilon=1, lower=0, cap=30, bounds=(0, 30))
    assert asked
    for question in map(str.lower, asked):
        assert "avg(" not in question
        assert question.count("sum(") == question.count("sum(steps)"), "steps are BIGINT"


def test_nothing_private_is_said(frame):
    odd = pl.DataFrame({"x": [CANARY, math.nan, -math.inf, None] * 30, "u": ["a"] * 120})
    for unit in (ROW, REPLACED, USER):
        found = session(odd, unit).sum("x", epsilon=1, lower=0, cap=30, bounds=(0, 20_000))
        assert str(CANARY) not in repr(found) + json.dumps(found.to_dict())
        assert math.isfinite(found.value)


@pytest.mark.slow
def test_a_server_is_asked_the_same(frame, tmp_path):
    with psycopg.connect(database(), autocommit=True) as server:
        server.execute("DROP SCHEMA IF EXISTS bounded CASCADE")
        server.execute("CREATE SCHEMA bounded")
        server.execute("CREATE TABLE bounded.t (u bigint, g text, x double precision)")
        with server.cursor() as cursor:
            cursor.executemany("INSERT INTO bounded.t VALUES (%s, %s, %s)", frame.rows())
        address = f"{database()}#bounded.t"
        for unit, ask in (
            (ROW, lambda s: s.count(epsilon=1, bounds=(0, 1000))),
            (ROW, lambda s: s.histogram("g", epsilon=1, domain=["a", "z"], bounds=(0, 1000))),
            (REPLACED, lambda s: s.sum("x", epsilon=1, lower=0, cap=30, bounds=(0, 20_000))),
        ):
            assert ask(session(address, unit)).to_dict() == ask(session(frame, unit)).to_dict()

        def mean(unit_session, column):
            return unit_session.mean(column, epsilon=1, lower=0, cap=30, bounds=(0, 30)).to_dict()

        # Of a mean the number of rows must be public: any row may be without a number in a float.
        for source in (address, frame):
            with pytest.raises(InvalidParameter, match="a row may be without a number"):
                mean(session(source, REPLACED), "x")
        server.execute("CREATE TABLE bounded.n AS SELECT CAST(u AS bigint) AS n FROM bounded.t")
        server.execute("ALTER TABLE bounded.n ALTER n SET NOT NULL")
        file = tmp_path / "n.duckdb"
        with duckdb.connect(str(file)) as made:
            made.register("frame", frame.select(pl.col("u").cast(pl.Int64).alias("n")).to_arrow())
            made.execute("CREATE TABLE n (n BIGINT NOT NULL)")
            made.execute("INSERT INTO n SELECT n FROM frame")
        asked = [
            mean(session(source, REPLACED), "n")
            for source in (f"{database()}#bounded.n", f"duckdb:{file}#n")
        ]
        assert asked[0] == asked[1]
        server.execute("DROP SCHEMA bounded CASCADE")
