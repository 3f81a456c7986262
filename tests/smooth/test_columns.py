"""Quantiles and variances of a column: smooth bounds against brute force over all small data sets."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

import sordino_audit as audit
from sordino import InvalidParameter, smooth
from sordino.smooth._quantile import largest_gap

VALUES = range(5)
LIMITS = {"lower": 0, "upper": 4}


@lru_cache
def every(n):
    """All data sets over 0..4, and how many records must be replaced to come from one to another: sorted ones are enough."""
    data = sorted({tuple(sorted(x)) for x in product(VALUES, repeat=n)})
    counts = np.array([[x.count(v) for v in VALUES] for x in data])
    return data, n - np.minimum(counts[:, None], counts[None]).sum(axis=-1)


@lru_cache
def brute(n, statistic, beta):
    """The smooth sensitivity of all data sets over 0..4 from its definition."""
    data, apart = every(n)
    values = np.array([statistic(x) for x in data])
    local = np.where(apart <= 1, np.abs(values[:, None] - values[None]), 0).max(axis=1)
    return dict(zip(data, (local * np.exp(-beta * apart)).max(axis=1).tolist(), strict=True))


@lru_cache
def replaced(x):
    return {tuple(sorted((*x[:i], v, *x[i + 1 :]))) for i in range(len(x)) for v in VALUES}


def ranked(rank):
    return lambda x: sorted(x)[rank - 1]


RANKED = {rank: ranked(rank) for rank in range(1, 6)}


def population_variance(x):
    mean = Fraction(sum(x), len(x))
    return float(sum((v - mean) ** 2 for v in x) / len(x))


@pytest.mark.parametrize(
    ("n", "rank"),
    [
        (1, 1),
        (2, 2),
        (3, 1),
        (4, 3),
        pytest.param(5, 3, marks=pytest.mark.slow),
        pytest.param(5, 4, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("beta", [0.05, 0.4, 1.5])
def test_the_bound_of_a_quantile_is_the_smooth_sensitivity(n, rank, beta):
    """Values 0..4 hold the worst data sets: those that go to the limits."""
    for x, expected in brute(n, RANKED[rank], beta).items():
        found = smooth.quantile(x, rank=rank, beta=beta, **LIMITS)
        assert found == pytest.approx(expected, rel=1e-9)
        assert found >= expected


@pytest.mark.parametrize("beta", [0.05, 0.4, 1.5])
def test_the_bound_of_a_variance_is_above_the_smooth_sensitivity(beta):
    found = {
        x: smooth.variance(x, beta=beta, **LIMITS) for x in brute(5, population_variance, beta)
    }
    for x, expected in brute(5, population_variance, beta).items():
        assert (
            expected
            <= found[x]
            <= float(smooth.variance_ceiling(records=5, **LIMITS)) * (1 + 1e-12)
        )
        assert all(found[x] <= math.exp(beta) * found[y] for y in replaced(x))


def off_by_one(x, rank, beta):
    """A twin of the formula whose windows hold one record too few: U_t looks as far as t records, not t + 1."""
    padded = [0, *sorted(x), 4]
    gaps = [
        (padded[j] - padded[i]) * math.exp(-beta * (j - i))
        for i in range(rank + 1)
        for j in range(rank, len(padded))
        if i < j
    ]
    return max(gaps)


def pairs(n):
    data = sorted({tuple(sorted(x)) for x in product(VALUES, repeat=n)})
    return [(x, y) for x in data for y in replaced(x) if x < y]


@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_the_tester_acquits_the_bounds_and_convicts_a_twin(beta):
    tried = {"statistic": RANKED[2], "neighbours": pairs(3), "beta": beta}
    assert not audit.smooth_bound(
        lambda x: smooth.quantile(x, rank=2, beta=beta, **LIMITS), **tried
    ).broken
    convicted = audit.smooth_bound(lambda x: off_by_one(x, 2, beta), **tried)
    assert convicted.broken
    assert convicted.witness.condition == "the bound is below the change of the statistic"


@given(
    numbers=st.lists(st.one_of(st.integers(0, 9), st.floats(0, 9)), min_size=1, max_size=17),
    share=st.floats(0, 1),
    decay=st.sampled_from([0.0, 1e-3, 0.1, 0.7, 3.0, 40.0]),
)
def test_the_fast_search_is_the_slow_one(numbers, share, decay):
    padded = np.array([0.0, *sorted(map(float, numbers)), 9.0])
    place = max(1, math.ceil(share * len(numbers)))
    slow = max(
        (padded[j] - padded[i]) * math.exp(-decay * (j - i - 1))
        for i in range(place + 1)
        for j in range(place, padded.size)
        if i < j
    )
    assert largest_gap(padded, place, decay) == pytest.approx(slow, rel=1e-12, abs=1e-300)


def test_many_records_and_ties():
    numbers = np.concatenate([np.full(60_000, 5.0), np.linspace(0, 10, 40_001)])
    found = smooth.quantile(numbers, q=0.5, lower=0, upper=10, beta=0.001)
    slow = max(
        (5 - x) * math.exp(-0.001 * t)
        for t, x in [(30_000 + 20_000 - 1, 0.0), (29_999, 5 - 2.5e-4)]
    )
    assert 0 < slow <= found <= 10 * math.exp(-0.001 * 29_000)
    assert smooth.quantile_statistic(numbers, q=0.5, lower=0, upper=10) == 5.0


def test_ranks():
    numbers = [3, 1, 2, 9]
    ranks = {0: 1, 0.25: 1, 0.26: 2, 0.5: 2, 0.75: 3, 1: 4}
    for q, rank in ranks.items():
        assert (
            smooth.quantile_statistic(numbers, q=q, lower=0, upper=5)
            == sorted([3, 1, 2, 5])[rank - 1]
        )
        whole = (
            smooth.quantile(numbers, q=q, lower=0, upper=5, beta=0.3),
            smooth.quantile(numbers, rank=rank, lower=0, upper=5, beta=0.3),
        )
        assert whole[0] == whole[1]
    for wrong in ({}, {"q": 0.5, "rank": 2}, {"rank": 5}, {"q": 1.5}):
        with pytest.raises(InvalidParameter):
            smooth.quantile(numbers, lower=0, upper=5, beta=1, **wrong)
    with pytest.raises(InvalidParameter, match="upper must be above lower"):
        smooth.quantile(numbers, q=0.5, lower=5, upper=5, beta=1)
    with pytest.raises(InvalidParameter, match="at least one number"):
        smooth.variance([], lower=0, upper=1, beta=1)


def test_a_quarter_is_what_a_variance_gains():
    half = [0.0, 1.0] * 5000
    ceiling = float(smooth.variance_ceiling(records=10_000, lower=0, upper=1))
    assert smooth.variance(half, lower=0, upper=1, beta=5) == pytest.approx(ceiling / 4, rel=1e-3)
    assert smooth.variance(half, lower=0, upper=1, beta=0) == pytest.approx(ceiling, rel=1e-9)
    assert smooth.variance_statistic(half, lower=0, upper=1) == 0.25


def test_a_shift_changes_no_variance():
    numbers = [0.5, 2.0, 3.25, 3.5]
    plain = (
        smooth.variance(numbers, lower=0, upper=4, beta=0.2),
        smooth.variance_statistic(numbers, lower=0, upper=4),
    )
    away = [x - 1024 for x in numbers]
    assert plain == (
        smooth.variance(away, lower=-1024, upper=-1020, beta=0.2),
        smooth.variance_statistic(away, lower=-1024, upper=-1020),
    )


def test_numbers_of_any_kind_are_within_the_limits():
    strange = [
        math.nan,
        math.inf,
        -math.inf,
        None,
        "x",
        10**400,
        -(10**400),
        Decimal("sNaN"),
        Decimal(2),
        Fraction(5, 2),
        True,
        1 + 2j,
    ]
    plain = [0, 4, 0, 0, 0, 4, 0, 0, 2, 2.5, 1, 0]
    for function, keys in (
        (smooth.quantile, {"q": 0.8, "beta": 0.3}),
        (smooth.quantile_statistic, {"rank": 11}),
        (smooth.variance, {"beta": 0.3}),
        (smooth.variance_statistic, {}),
    ):
        assert function(strange, **keys, **LIMITS) == function(plain, **keys, **LIMITS)
    for numbers in ([np.timedelta64(5, "D"), 1.0], [np.timedelta64("NaT"), 1.0]):
        assert smooth.variance_statistic(numbers, **LIMITS) == 0.25, (
            "whole numbers for NumPy, which float() refuses"
        )
    with pytest.raises(InvalidParameter, match="got a single one"):
        smooth.variance(3.0, beta=1, **LIMITS)


@pytest.mark.parametrize("edge", [Fraction(6, 100), Fraction(-6, 100)])
def test_limits_between_floats_are_moved_inward(edge):
    """Floats near 1e15 lie an eighth apart: limits that are rounded outward would have a ceiling below the change of a variance."""
    far = {"lower": 10**15 + edge, "upper": 10**15 + 1 - edge}
    ends = [10**15 - 1, 10**15 + 2]
    changed = [ends[1], ends[1]]
    change = smooth.variance_statistic(ends, **far) - smooth.variance_statistic(changed, **far)
    ceiling = smooth.variance_ceiling(records=2, **far)
    assert 0 < change <= ceiling
    assert change <= smooth.variance(ends, beta=0.1, **far) <= float(ceiling) * (1 + 1e-12)
    low, high = (smooth.quantile_statistic(ends, rank=rank, **far) for rank in (1, 2))
    assert far["lower"] <= Fraction(low) < Fraction(high) <= far["upper"]


def test_limits_and_smoothness_beyond_the_floats():
    for wrong in (
        {"lower": 0, "upper": 1e200},
        {"lower": -(10**400), "upper": 1},
        {"lower": 0, "upper": 10**400},
    ):
        for function in (
            smooth.variance_statistic,
            lambda x, **keys: smooth.variance(x, beta=1, **keys),
        ):
            with pytest.raises(InvalidParameter, match="Change the unit of the values"):
                function([1, 2], **wrong)
    with pytest.raises(InvalidParameter, match="Change the unit of the values"):
        smooth.quantile([1, 2], rank=1, lower=-1e308, upper=1e308, beta=1)
    assert smooth.quantile([1, 2, 2], rank=2, beta=10**400, **LIMITS) == smooth.quantile(
        [1, 2, 2], rank=2, beta=10**9, **LIMITS
    )
    assert smooth.tdt(9, 2, families=9, beta=10**400) == smooth.tdt(9, 2, families=9, beta=10**9)
    assert smooth.tdt(9, 2, families=9, beta=10**400, scale="raw") == smooth.tdt(
        9, 2, families=9, beta=10**9, scale="raw"
    )


@given(
    numbers=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30),
    other=st.floats(-1e3, 1e3),
    place=st.integers(0, 29),
)
def test_float_variances_move_by_no_more_than_the_bound(numbers, other, place):
    changed = list(numbers)
    changed[place % len(numbers)] = other
    limits = {"lower": -1000, "upper": 1000}
    bounds = [smooth.variance(x, beta=0.1, **limits) for x in (numbers, changed)]
    change = abs(
        smooth.variance_statistic(numbers, **limits) - smooth.variance_statistic(changed, **limits)
    )
    assert change <= min(bounds)
    assert max(bounds) <= math.exp(0.1) * min(bounds)
