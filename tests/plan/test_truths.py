"""How far a plan says that clipped figures lie off those of all rows, and that a goal is more than luck."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.plan.goals import GRID, Reached, Search, parse_goal
from sordino.session.plans.expected_values import ExpectedValue, measure_off
from sordino.session.plans.runs import DryRuns

ROWS = pl.DataFrame({"u": ["a", "b", "c"], "g": ["p", "q", "p"], "x": [1.0, 2.0, 3.0]})
COLUMN = {"lower": 0, "cap": 200}
GROUPS = {"by": "g", "groups_per_unit": 1, "domain": ["p", "q", "r"]}
UNLISTED = {
    "by": "g",
    "groups_per_unit": 1,
    "domain": sd.Domain.unlisted(delta=1e-6),
    "most_groups": 4,
}
BOUNDED = {"bounds": (0, 1e7)}
PUBLIC = pl.DataFrame(
    {
        "u": [f"u{place}" for place in range(3000)],
        "g": ["p", "p", "q"] * 1000,
        "x": [float(place % 90) for place in range(3000)],
    }
)
FIGURES = {"sum": pl.Series.sum, "mean": pl.Series.mean, "variance": lambda x: x.var(ddof=0)}


@pytest.fixture
def session():
    return sd.Session(ROWS, unit=sd.PrivacyUnit("u", max_rows=1), ledger=None)


def ask(session, kind, epsilon, **more):
    return getattr(session.plan, kind)("x", epsilon=epsilon, **COLUMN, **more).rows


@pytest.mark.parametrize("kind", FIGURES)
def test_a_plan_with_next_to_no_epsilon_says_that_its_interval_is_elsewhere(session, kind):
    """The clip lies next to 0: a narrow interval, which holds the figure of all rows in no run."""
    [row] = ask(session, kind, 1e-4, like="normal:50,20")
    true = {"sum": 500_000, "mean": 50, "variance": 400}[kind]
    assert row.off == pytest.approx(true, rel=0.05)
    assert row.typical / 2 < true / 10
    assert row.held == 0
    plan = getattr(session.plan, kind)("x", epsilon=1e-4, **COLUMN, like="normal:50,20")
    assert "at most, which 0% of the intervals held" in str(plan)


@pytest.mark.parametrize("kind", FIGURES)
@pytest.mark.parametrize("more", [{}, GROUPS, UNLISTED], ids=["all", "groups", "unlisted"])
@pytest.mark.each_value
def test_with_ample_epsilon_figures_are_those_of_all_rows(session, kind, more):
    rows = ask(session, kind, 500, **more, like="normal:50,20")
    true = {"sum": 500_000, "mean": 50, "variance": 400}[kind]
    assert all(row.off <= 0.01 * true for row in rows)


@pytest.mark.parametrize("kind", FIGURES)
@pytest.mark.parametrize("more", [{}, GROUPS, UNLISTED], ids=["all", "groups", "unlisted"])
@pytest.mark.slow
def test_so_it_is_said_of_public_rows(session, kind, more, monkeypatch):
    """What is compared with is what a plain look at these rows shows, of each group its own."""
    seen = []
    monkeypatch.setattr(
        "sordino.session.plans.runs.measure_off",
        lambda releases, expected_values: (
            seen.extend(expected_values) or measure_off(releases, expected_values)
        ),
    )
    [row] = ask(session, kind, 40, **more, like=PUBLIC, runs=3)
    figure = FIGURES[kind]
    if not more:
        assert seen[0].each == pytest.approx(figure(PUBLIC["x"]), rel=1e-3)
    else:
        assert set(seen[0].of_groups) >= {"p", "q"}
        for group in ("p", "q"):
            true = figure(PUBLIC.filter(pl.col("g") == group)["x"])
            assert seen[0].find(group) == pytest.approx(true, rel=1e-3)
    assert row.off <= 0.02 * figure(PUBLIC["x"])


HEAVY = pl.DataFrame(
    {"u": [f"u{n}" for n in range(2001)], "g": ["p"] * 2001, "x": [10.0] * 2000 + [999_000.0]}
)
TWICE = pl.concat([PUBLIC, PUBLIC])


@pytest.mark.parametrize("kind", FIGURES)
@pytest.mark.slow
def test_the_figure_of_public_rows_is_added_up_and_clips_nothing(session, kind):
    """One row in two thousand holds nearly all: a release of them misses it, however much epsilon it has."""
    plan = getattr(session.plan, kind)("x", lower=0, cap=1e6, epsilon=1, like=HEAVY, runs=3)
    [row] = plan.rows
    assert row.off == pytest.approx(FIGURES[kind](HEAVY["x"]), rel=0.05)
    assert row.held == 0
    with pytest.raises(
        sd.InvalidParameter, match="some epsilon reaches.*assumed: data like a public frame"
    ):
        getattr(session.plan, kind)("x", lower=0, cap=1e6, goal="10%", like=HEAVY, runs=3)


@pytest.mark.slow
def test_it_is_that_of_the_rows_that_count_between_the_public_ends(session):
    """Of each unit one row counts, and what lies above the cap counts as the cap: both is said as left out."""
    [once] = session.plan.sum("x", epsilon=100, **COLUMN, like=PUBLIC, runs=3).rows
    plan = session.plan.sum("x", epsilon=100, **COLUMN, like=TWICE, runs=3)
    [twice] = plan.rows
    assert (once.held, twice.held) == (1, 1)
    assert "rows of a person beyond 1" in str(plan)
    # A unit is counted once, whichever of its rows count.
    assert "beyond" not in str(session.plan.count_distinct_units(epsilon=1))
    [low] = session.plan.mean("x", epsilon=50, lower=0, cap=20, like=PUBLIC, runs=3).rows
    assert low.off < 1


@pytest.mark.slow
def test_groups_that_nobody_listed_have_counts_of_a_usual_shape(session):
    """Nobody said how their counts fall; all alike none would be found."""
    plan = session.plan.sum("x", epsilon=2, **COLUMN, **UNLISTED)
    assert {row.like for row in plan.rows} == {"flat", "lognormal"}
    nothing = session.plan.sum("x", epsilon=0.001, **COLUMN, **UNLISTED)
    assert not nothing.rows
    assert "No figure is expected" in str(nothing)
    assert "Assumed: 10,000 rows" in str(nothing)
    assert session.plan.mean("x", goal="±60", **COLUMN, **UNLISTED, runs=3).epsilon < 9


def test_bounded_figures_are_compared_too(session):
    within = sd.Session(ROWS, unit=sd.PrivacyUnit.row(), ledger=None)
    [wide] = within.plan.sum("x", epsilon=1, **COLUMN, **BOUNDED, like="flat").rows
    [narrow] = within.plan.sum("x", epsilon=1, **COLUMN, bounds=(0, 1000), like="flat").rows
    assert wide.held >= 0.8
    # Of a figure beyond its range it is said how far beyond.
    assert narrow.off > 900_000
    assert narrow.held == 0


def test_a_group_that_a_plain_look_lacks_is_not_compared():
    class Figure:
        estimate, low, high = 5.0, 4.0, 6.0

    class Row:
        item, release = "lost", Figure()

    class Groups:
        budgets, rows = 1, (Row(),)

    assert measure_off([Groups()], [ExpectedValue(of_groups={"p": 1.0})]) is None
    assert measure_off([Groups()], [ExpectedValue(of_groups={"lost": 7.0})]) == (2.0, 0.0)
    assert measure_off([Figure()], [ExpectedValue(4.5)]) == (0.5, 1.0)


@pytest.mark.slow
def test_other_figures_are_about_all_rows_anyway(session):
    [row] = session.plan.quantile("x", q=0.5, epsilon=1, **COLUMN).rows[:1]
    assert row.off is None
    assert row.held is None


# ---- goals -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_plan_of_a_goal_is_made_of_other_runs_than_those_of_its_search(session, monkeypatch):
    turns = []
    real = DryRuns._compare
    monkeypatch.setattr(
        DryRuns,
        "_compare",
        lambda self, made, place: turns.append(self.assumed.turn) or real(self, made, place),
    )
    session.plan.mean("x", goal="±1", like="normal:50,20", **COLUMN)
    assert turns[0] == 0
    assert turns[-1] == 1
    first = ask(session, "mean", 1, like="normal:50,20")
    # Of a given epsilon the runs are those of the search.
    assert turns[-1] == 0
    assert first[0].off is not None


def search(reaches):
    def look(epsilon):
        return Reached(0.5 if reaches(epsilon) else 2.0, 1.0)

    return Search("it", parse_goal("it", "±1"), look, lambda _: None, str, exact=False)


@pytest.mark.parametrize("more", [Fraction(101, 100), Fraction(12, 10), 3, 1000])
@pytest.mark.parametrize("start", [Fraction(1, 1000), Fraction("0.5"), Fraction(5)])
@pytest.mark.each_value
def test_a_search_from_below_finds_what_lies_above(start, more):
    least = start * more
    found = search(lambda epsilon: epsilon >= least).find(above=GRID.index(start))
    assert least <= found <= least * Fraction(104, 100)


def test_a_search_from_below_ends_where_nothing_reaches():
    with pytest.raises(sd.InvalidParameter, match="some epsilon reaches"):
        search(lambda _: False).find(above=500)


def keeps(release, true, reach):
    """Tell whether a release is as good as a goal wanted: its interval short enough, its figure near enough."""
    return (release.high - release.low) / 2 <= reach and abs(release.estimate - true) <= reach


def count_kept(session, kind, goal, columns):
    """Return how many releases keep what the plan of a goal says, and how sure it is of that."""
    plan = getattr(session.plan, kind)(
        "x", goal=f"±{goal}", like="normal:50,20", rows=2000, **COLUMN
    )
    kept = 0
    for seed, column in enumerate(columns):
        frame = pl.DataFrame({"x": column})
        release = getattr(
            sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(seed)), kind
        )("x", epsilon=plan.epsilon, **COLUMN)
        kept += keeps(release, FIGURES[kind](frame["x"]), goal)
    return kept, plan.rows[0].sure


GOALS = [
    *(("mean", reach) for reach in (0.4, 0.7, 1, 1.5, 2.5, 4)),
    *(("sum", reach) for reach in (700, 1500, 3000, 6000, 10_000)),
    *(("variance", reach) for reach in (15, 30, 60, 100)),
]


@pytest.mark.slow
def test_goals_are_kept_as_often_as_said():
    """15 goals with 60 releases each, over data and noise of their own."""
    whole = sd.Session(ROWS, unit=sd.PrivacyUnit.row(), ledger=None)
    found = []
    for number, (kind, goal) in enumerate(GOALS):
        chance = np.random.default_rng(number)
        columns = [np.clip(chance.normal(50, 20, 2000), 0, 200) for _ in range(60)]
        found.append(count_kept(whole, kind, goal, columns))
    kept, sure = sum(kept for kept, _ in found), sum(60 * sure for _, sure in found)
    # Goals differ by luck of their own runs: the share of one is a beta variable of this deviation.
    deviation = 60 * math.sqrt(len(GOALS) * (0.05 * 0.95 / 60 + 0.05 * 0.95 / 21))
    assert kept >= sure - 2 * deviation


@pytest.mark.parametrize("kind", ["mean", "variance"])
@pytest.mark.parametrize("weight", ["auto", 1])
@pytest.mark.parametrize("by", [False, True])
@pytest.mark.slow
def test_public_rows_of_people_are_compared_with_their_weights(kind, weight, by):
    """Twin: the truth was that of how many rows people have, and no interval held it."""
    public = pl.DataFrame(
        {
            "u": [f"u{place // 3}" for place in range(6000)],
            "g": ["p", "q"] * 3000,
            "x": [float(place % 90) for place in range(6000)],
        }
    )
    session = sd.Session(ROWS, unit=sd.PrivacyUnit("u"), ledger=None)
    groups = {"by": "g", "domain": ["p", "q"]} if by else {}
    [row] = ask(session, kind, 20, like=public, weight_cap=weight, **groups)
    assert row.off < (1 if kind == "mean" else 60)
    assert row.held > 0.4
