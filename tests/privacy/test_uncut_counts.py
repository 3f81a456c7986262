"""Nested counts beyond 2^52 steps: a clamp from above would stop one of two that rise together, and sell e1 + e2 for max(e1, e2)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import sordino_audit as audit
from sordino import COUNTING, AboveThreshold, InvalidParameter, Seeded, Sensitivity
from sordino.grid import CLAMP, UNCUT, to_steps, to_steps_uncut
from sordino.mechanisms.crossings.threshold_scan import ThresholdScan
from sordino.noise import Geometric
from sordino_audit import Subject
from sordino_audit.enumeration.searches import positions
from support.fit import LEVEL

NESTED = AboveThreshold(threshold=CLAMP, epsilon=1, sensitivity=COUNTING, nested=True)
BEFORE, AFTER = (CLAMP - 1, CLAMP + 5), (CLAMP, CLAMP + 6)  # one more record, below both edges


def test_counts_beyond_the_clamp_cost_what_others_cost():
    report = audit.exact(NESTED, answers_a=BEFORE, answers_b=AFTER)
    report.raise_if_broken()
    assert report.epsilon_at_least <= 1


def test_the_twin_that_clamps_them_is_convicted():
    scan = NESTED.scan()
    clamped = Subject(
        laws=[], stated=lambda f: positions(scan, [min(x, CLAMP) for x in f]), cost=NESTED.cost
    )
    report = audit.exact(clamped, answers_a=BEFORE, answers_b=AFTER)
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(2, abs=1e-9)


@pytest.mark.slow
def test_releases_do_not_clamp_them():
    law = positions(NESTED.scan(), [CLAMP - 1, CLAMP + 1])
    entropy = Seeded(3)
    found = [NESTED.release([CLAMP - 1, CLAMP + 1], entropy=entropy).index for _ in range(700)]
    counts = [found.count(index) for index, _ in law]
    assert (
        stats.chisquare(counts, [float(low) * 700 for _, (low, _) in law], sum_check=False).pvalue
        > LEVEL
    )
    cut = [float(low) * 700 for _, (low, _) in positions(NESTED.scan(), [CLAMP - 1, CLAMP])]
    assert stats.chisquare(counts, cut, sum_check=False).pvalue < LEVEL


@pytest.mark.slow
def test_depths_of_any_size_and_lists_of_python_integers():
    rate = Fraction(1, 1 << 61)
    one = ThresholdScan(0, Geometric(Fraction(9)), Geometric(rate))
    answers = np.array([-3 << 61, 1 << 70, -(1 << 61)], dtype=object)
    drawn = [one.first(answers, np.array([2, 0, 3]), Seeded(seed)) for seed in range(300)]
    p = np.exp(-np.array([3.0, 3.0, 1.0, 1.0, 1.0]))
    law = np.append(p * np.cumprod(np.append(1, 1 - p))[:-1], np.prod(1 - p))
    observed = np.bincount([5 if k is None else k for k in drawn], minlength=6)
    assert stats.chisquare(observed, law * 300).pvalue > LEVEL
    assert one.first(np.array([-(1 << 80), 1 << 80], dtype=object), None, Seeded(1)) == 1


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 8), Fraction(4)])
@given(
    values=st.lists(
        st.one_of(
            st.integers(-(1 << 80), 1 << 80),
            st.floats(),
            st.decimals(-(10**60), 10**60),
            st.none(),
            st.fractions(),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    )
)
@pytest.mark.slow
def test_uncut_steps_are_those_of_the_grid_where_nothing_is_clamped(step, values):
    plain, uncut = to_steps(values, step, "X"), to_steps_uncut(values, step, "X")
    assert plain.shape == uncut.shape
    assert np.minimum(uncut, CLAMP).tolist() == plain.tolist()
    for value, steps in zip(values, uncut.tolist(), strict=True):
        number = (
            None
            if value is None or (isinstance(value, Decimal | float) and not math.isfinite(value))
            else Fraction(value)
        )
        if number is not None and number > 0:
            assert steps == min(number // step, UNCUT)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64, np.float32])
def test_uncut_arrays(dtype):
    values = np.array([3, 1 << 60, 0], dtype=dtype)
    assert to_steps_uncut(values, Fraction(1, 4), "X").tolist() == [12, 1 << 62, 0]
    assert to_steps_uncut(values[:1], Fraction(1, 4), "X").dtype == np.int64
    assert to_steps_uncut(np.float64(2.0**70), Fraction(1), "X").tolist() == 1 << 70
    assert to_steps_uncut([math.inf, Decimal("1e9999999")], Fraction(1), "X").tolist() == [
        UNCUT,
        UNCUT,
    ]
    assert to_steps_uncut(2.0**1023, Fraction(1, 1 << 900), "X").tolist() == 1 << 1923 < UNCUT


def test_an_offset_needs_a_bound_of_whole_steps():
    """A bound of 1.5 with q = 2/3 is one whole step, but the shares of single records are not: the interval would be too narrow."""
    statement = Sensitivity(bound=1.5, monotone=True, adjacency="add-remove", step=1)
    with pytest.raises(
        InvalidParameter,
        match="must have a bound that is a whole number of steps where an offset is given",
    ):
        AboveThreshold(
            threshold=0, epsilon=1, sensitivity=statement, nested=True, offset=Fraction(2, 3)
        )
    assert (
        AboveThreshold(threshold=0, epsilon=1, sensitivity=statement, nested=True).cost.pure() <= 1
    )
