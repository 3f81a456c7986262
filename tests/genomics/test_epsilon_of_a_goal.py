"""The epsilon of a goal about markers is the smallest one whose `success` reaches it: no other code says what that is."""

from __future__ import annotations

from fractions import Fraction

import pytest

import sordino as sd
from sordino.genomics import choose
from sordino.genomics.choose import choose_for_goal
from sordino.mechanisms.smooth import smooth_step_selection
from sordino.plan.goals import GRID

SIZES = {"markers": 15, "families": 150}


def success(epsilon, k=1, **more):
    return sd.genomics.choose_method(**SIZES, epsilon=Fraction(epsilon) / k, k=k, **more).success


@pytest.mark.parametrize("more", [{}, {"exact": True}, {"k": 2, "exact": True}, {"damping": 120}])
@pytest.mark.parametrize("wished", [40, 90, 99.5])
@pytest.mark.sample(4)
def test_the_smallest_epsilon_is_found(more, wished):
    found = sd.genomics.find_epsilon(goal=f"right with {wished}%", **SIZES, **more)
    assert found in GRID
    assert success(found, **more) >= wished / 100
    # Not the one before, and none of those far below: a twin that stops a step early or late is convicted.
    place = GRID.index(found)
    for less in (place - 1, place - 10, place - 40, place - 200):
        assert success(GRID[less], **more) < wished / 100


@pytest.mark.parametrize(("enough", "k"), [(0.3, 3), (0.9, 3), (0.6, 1)])
def test_what_is_not_enough_is_not_looked_at_to_its_end_and_decides_the_same(enough, k):
    several = {
        "scale": "sqrt",
        "method": None,
        "beta": None,
        "damping": None,
        "exact": False,
        "alone": True,
    }
    for epsilon in (1, 6, 12, 15, 18, 30, 90):
        asked = {**SIZES, "epsilon": Fraction(epsilon), "k": k}
        whole = sd.genomics.choose_method(**asked)
        found = choose_for_goal(enough, **asked, **several)
        assert (found.success >= enough) == (whole.success >= enough)
        # What is said of those that are not enough is too much, never too little.
        known = {one.name: one.success for one in whole.alternatives}
        assert all(one.success >= known[one.name] - 1e-12 for one in found.alternatives)


@pytest.mark.parametrize(("epsilon", "k"), [(1, 1), (3, 1), (9, 3), (30, 3), (60, 5)])
def test_what_is_chosen_is_known_without_the_alternatives(epsilon, k):
    asked = {**SIZES, "epsilon": Fraction(epsilon, k), "k": k, "scale": "sqrt", "exact": False}
    rest = {"method": None, "beta": None, "damping": None}
    whole = sd.genomics.choose_method(**asked)
    found = choose_for_goal(0.0, **asked, **rest, alone=True)
    assert (found.name, found.beta, found.success) == (whole.name, whole.beta, whole.success)


@pytest.mark.parametrize(
    ("sizes", "epsilon"), [((200, 32), 295), ((200, 64), 590), ((500_000, 32), 357)]
)
@pytest.mark.slow
def test_a_goal_of_many_in_turn_takes_little_work(sizes, epsilon, monkeypatch):
    """Counted, because time is the machine's: it was 14 looks and 270 divided budgets of 51 looks each."""
    markers, k = sizes
    choose._choose_likeliest_method.cache_clear()
    smooth_step_selection._divide_cost.cache_clear()
    looks, made, tried = [], [], []
    choosing, dividing, trying = (
        choose.choose_for_goal,
        smooth_step_selection._divide_cost,
        smooth_step_selection._left_over,
    )
    monkeypatch.setattr(
        choose, "choose_for_goal", lambda *a, **b: looks.append(b["epsilon"]) or choosing(*a, **b)
    )
    monkeypatch.setattr(
        smooth_step_selection, "_divide_cost", lambda *a: made.append(a) or dividing(*a)
    )
    monkeypatch.setattr(
        smooth_step_selection, "_left_over", lambda *a: tried.append(a) or trying(*a)
    )
    found = sd.genomics.find_epsilon(
        goal="right with 90%", markers=markers, families=150, k=k, exact=True
    )
    # As all looks in the middle found it.
    assert found == epsilon
    assert len(set(looks)) <= 12
    assert len(set(made)) <= 260
    assert len(tried) <= 10 * len(set(made))


def test_the_best_that_is_possible_is_looked_at_to_its_end():
    def fits(epsilon):
        if epsilon > Fraction(5):
            raise sd.BudgetExceeded("too much")

    with pytest.raises(sd.BudgetExceeded) as refused:
        sd.genomics.find_epsilon(goal="right with 90%", **SIZES, k=3, exact=True, fits=fits)
    assert f"it is right with {int(100 * success(5, k=3, exact=True))}%" in str(refused.value)


@pytest.mark.slow
def test_it_is_that_of_all_selections_together():
    one, two = (
        sd.genomics.find_epsilon(goal="right with 90%", **SIZES, k=k, exact=True) for k in (1, 2)
    )
    assert two > one
    assert sd.genomics.find_epsilon(goal="top 2 right with 90%", **SIZES, k=2, exact=True) == two


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"goal": "±20"}, "find_epsilon.goal must be about its choice of k = 1"),
        ({"goal": "top 2 right with 90%"}, "find_epsilon.goal must be about its choice of k = 1"),
        ({"goal": "soon"}, "find_epsilon.goal must be a goal such as"),
        ({"goal": "right with 90%", "k": 16}, "k must be at most the number of markers"),
        ({"goal": "right with 90%", "damping": 0}, "damping must be"),
    ],
)
def test_what_is_wrong_is_said(asked, words):
    with pytest.raises(sd.InvalidParameter, match=words):
        sd.genomics.find_epsilon(**SIZES, **asked)


def test_no_more_is_taken_than_fits():
    def fits(epsilon):
        if epsilon > Fraction(2):
            raise sd.BudgetExceeded("too much")

    with pytest.raises(sd.BudgetExceeded) as refused:
        sd.genomics.find_epsilon(goal="right with 90%", **SIZES, exact=True, fits=fits)
    best = int(100 * success(2, exact=True))
    assert f"with epsilon 2, the most that fits, it is right with {best}%" in str(refused.value)
    assert sd.genomics.find_epsilon(goal="right with 25%", **SIZES, exact=True, fits=fits) < 2
