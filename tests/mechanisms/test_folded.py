"""Folded noise at its edges: what is spent, how far it reaches, how real answers meet the grid, and what margin is refused."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest

from sordino import COUNTING, FoldedMechanism, InvalidParameter, Seeded, Sensitivity

WHOLE = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
REAL = Sensitivity(bound=1, monotone=False, adjacency="replace-one")
LINE = {"lower": 0, "upper": 4, "epsilon": 1}
SEEDS = range(40)


def whole(bound, **others):
    return Sensitivity(bound=bound, monotone=False, adjacency="replace-one", step=1, **others)


@pytest.mark.parametrize("noise", ["laplace", "staircase"])
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), 0.1, Fraction(10**13, 3 * 10**13 + 1)])
def test_what_is_spent_is_the_rate_that_fitted(epsilon, noise):
    m = FoldedMechanism(lower=0, upper=9, epsilon=epsilon, sensitivity=whole(7), noise=noise)
    asked = Fraction(str(epsilon))
    assert m.noise.rate.denominator <= 1 << 40
    assert m.cost.pure() == m.noise.rate * (7 if noise == "laplace" else 1) <= asked
    assert (m.cost.pure() == asked) == (asked.denominator < 100), (
        "rounded down where it does not fit"
    )


@pytest.mark.parametrize("epsilon", [0.001, 1, 25, 60, 300, 1000])
def test_how_far_the_ends_move_at_any_budget(epsilon):
    m = FoldedMechanism(lower=0, upper=4, epsilon=epsilon, sensitivity=WHOLE)
    with mpmath.workdps(50):
        wanted = 1 / mpmath.expm1(mpmath.mpf(str(epsilon)))
    assert m.excess == float(wanted)
    assert m.output_range == (-float(wanted), float(4 + wanted))
    assert m.least_excess == m.excess


def test_least_excess_of_lists_is_that_of_one_answer_across_the_range():
    rest = math.expm1(1)
    assert FoldedMechanism(**LINE, sensitivity=COUNTING.over(3)).least_excess == pytest.approx(
        3 / rest
    )
    assert FoldedMechanism(**LINE, sensitivity=COUNTING.over(300)).least_excess == pytest.approx(
        4 / rest
    )


# --- real answers ----------------------------------------------------------------------------------------------------------------


def released(m, value):
    """Releases in steps, for the same noise each time; those at an end or beyond are left out."""
    found = [Fraction(m.release(value, entropy=Seeded(seed)).value) / m.step for seed in SEEDS]
    return {seed: int(x) for seed, x in zip(SEEDS, found, strict=True) if m.ends[0] < x < m.ends[1]}


@pytest.mark.parametrize("noise", ["laplace", "staircase"])
def test_real_answers_are_rounded_up_as_often_as_they_should(noise):
    m = FoldedMechanism(lower=-30, upper=30, epsilon=1, sensitivity=REAL, noise=noise)
    at = [released(m, 1 + m.step * Fraction(part, 8)) for part in range(9)]
    common = set.intersection(*map(set, at))
    assert len(common) > 30
    ups = [[found[seed] - at[0][seed] for seed in common] for found in at]
    assert all(set(up) <= {0, 1} for up in ups)
    assert [sum(up) for up in ups] == sorted(sum(up) for up in ups)
    assert ups[8] == [1] * len(common)
    assert len(common) / 4 < sum(ups[4]) < len(common) * 3 / 4
    stepped = FoldedMechanism(lower=-30, upper=30, epsilon=1, sensitivity=whole(1), noise=noise)
    assert all(
        stepped.release(1.9, entropy=Seeded(s)).value == stepped.release(1, entropy=Seeded(s)).value
        for s in SEEDS
    )


def test_the_grid_of_real_answers_does_not_depend_on_where_the_range_begins():
    even, odd = (
        FoldedMechanism(lower=low, upper=30, epsilon=1, sensitivity=REAL)
        for low in (-30, Fraction(-89, 3))
    )
    assert even.step == odd.step
    value = 1 + even.step * Fraction(3, 8)
    one, other = released(even, value), released(odd, value)
    assert all(one[seed] == other[seed] for seed in set(one) & set(other))


def test_ends_between_two_steps_move_outwards_for_answers_too():
    m = FoldedMechanism(lower=0.5, upper=3.75, epsilon=1, sensitivity=WHOLE)
    assert m.ends == (0, 4)
    assert {m.release(4, entropy=Seeded(s)).value for s in range(60)} > {1.0, 2.0, 3.0}
    tiny = FoldedMechanism(lower=Fraction(1, 3), upper=Fraction(7, 3), epsilon=1, sensitivity=REAL)
    low, high = tiny.ends
    assert low * tiny.step < Fraction(1, 3) < (low + 1) * tiny.step
    assert (high - 1) * tiny.step < Fraction(7, 3) < high * tiny.step


@pytest.mark.parametrize("part", [Fraction(1, 4), Fraction(1, 2)])
def test_the_variance_includes_that_of_rounding(part):
    m = FoldedMechanism(lower=0, upper=4, epsilon=1, sensitivity=REAL)
    low, high = m.ends
    with mpmath.workdps(40):
        q = mpmath.exp(-mpmath.mpf(m.noise.rate.numerator) / m.noise.rate.denominator)

        def at(x):
            return q / (1 - q) ** 2 * (2 - (q ** (x - low) + q ** (high - x)) / (1 + q))

        here = int(1 / m.step)
        exact = (1 - part) * at(here) + part * at(here + 1)
        f = mpmath.mpf(part.numerator) / part.denominator
        assert m.variance(at=1 + part * m.step) / float(m.step) ** 2 == pytest.approx(
            float(exact + f * (1 - f)), rel=2e-14
        )
        assert float(f * (1 - f) / exact) > 4 * 2e-14, "the test sees it"
        largest = at((low + high) // 2) + mpmath.mpf(1) / 4
        assert (
            m.release(0, entropy=Seeded(1)).standard_error / float(m.step)
        ) ** 2 == pytest.approx(float(largest), rel=2e-14)


# --- margins and statements ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [{}, {"lower": 0.1, "upper": 3.7}, {"epsilon": 0.3}, {"sensitivity": REAL}]
)
def test_the_margin_that_a_refusal_asks_for_is_accepted(changes):
    line = LINE | {"sensitivity": WHOLE} | changes
    with pytest.raises(InvalidParameter) as caught:
        FoldedMechanism(**line, margin=1e-9)
    asked = re.search(r"must be at least (\S+),", str(caught.value)).group(1)
    m = FoldedMechanism(**line, margin=float(asked))
    assert FoldedMechanism(**line, margin=Decimal(asked)).output_range == m.output_range
    with pytest.raises(InvalidParameter, match="margin must be at least"):
        FoldedMechanism(**line, margin=math.nextafter(float(asked), 0))


def test_margins_of_any_size():
    m = FoldedMechanism(**LINE, sensitivity=WHOLE)
    for margin in (10**400, Fraction(10**400), Decimal("1e400"), m.excess, Fraction(m.excess), 0.6):
        assert FoldedMechanism(**LINE, sensitivity=WHOLE, margin=margin).excess == m.excess
    for margin in (math.nextafter(m.excess, 0), Fraction(1, 10**400)):
        with pytest.raises(InvalidParameter, match="margin must be at least"):
            FoldedMechanism(**LINE, sensitivity=WHOLE, margin=margin)
    third = LINE | {
        "epsilon": 5000,
        "upper": Fraction(31, 9),
    }  # no noise is left: the range is exceeded by 5/9, of which no float is
    assert FoldedMechanism(**third, sensitivity=WHOLE, margin=Fraction(5, 9)).excess == 0


def test_a_bound_is_held_against_the_range_for_as_many_answers_as_it_is_about():
    for statement in (
        whole(5),
        whole(5, size=7),
        Sensitivity(bound=5, monotone=True, adjacency="add-remove", norm="l1"),
    ):
        with pytest.raises(
            InvalidParameter,
            match="must have a bound of at most upper - lower, 4, an answer; got 5",
        ):
            FoldedMechanism(**LINE, sensitivity=statement)
    with pytest.raises(
        InvalidParameter, match="must have a bound of at most upper - lower, 4, an answer; got 9"
    ):
        FoldedMechanism(**LINE, sensitivity=whole(9, norm="l1", size=2))
    FoldedMechanism(**LINE, sensitivity=whole(8, norm="l1", size=2))
    unsized = FoldedMechanism(
        **LINE, sensitivity=whole(9, norm="l1")
    )  # about as many answers as there are
    assert unsized.release([4, 4, 4], entropy=Seeded(1)).values.shape == (3,)
    assert unsized.cost.pure() <= 1
