"""Quantiles of whole numbers: whole numbers come out, and they are the quantiles where noise is small."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino import BucketGrid, InvalidParameter, Quantile, Quantiles, Seeded

AGES = np.random.default_rng(1).integers(0, 96, 20_000)
SIGNED = np.random.default_rng(2).integers(-50, 30, 20_000)


def true_quantile(values, q):
    """The least value with a share of q at or below it."""
    return float(np.sort(values)[math.ceil(q * len(values)) - 1])


def made(q, **changed):
    options = {
        "epsilon": 50,
        "adjacency": "add-remove",
        "lower": 0,
        "cap": 120,
        "integer": True,
    } | changed
    return (Quantiles if isinstance(q, tuple) else Quantile)(q=q, **options)


@pytest.mark.parametrize("hint", [None, 20_000])
@pytest.mark.parametrize("q", [0.01, 0.25, 0.5, 0.9, 0.99])
@pytest.mark.each_value
def test_with_little_noise_it_is_the_quantile(q, hint):
    """Whichever way is searched: up and down an edge means another number."""
    found = made(q, size_hint=hint).release(AGES, entropy=Seeded(5)).value
    # A few records of noise move the rank within a value that two hundred records share, or by one value.
    assert abs(found - true_quantile(AGES, q)) <= (0 if q == 0.5 else 1)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.8])
def test_both_signs(q):
    found = made(q, lower=None, size_hint=None).release(SIGNED, entropy=Seeded(5)).value
    assert found.is_integer()
    assert abs(found - true_quantile(SIGNED, q)) <= 1


def test_few_values_come_out_exactly():
    """A half of the records share a value: it is the median, and neither neighbor is."""
    for value in (0, 1, 2, 37, 119):
        column = [value] * 600 + [0] * 150 + [119] * 150
        assert made(0.5).release(column, entropy=Seeded(3)).value == value
        assert made(0.5, size_hint=900).release(column, entropy=Seeded(3)).value == value


def test_without_the_step_back_the_median_is_one_too_high():
    """The twin: the edge itself, as it is released where values are no whole numbers."""
    subject = made(0.5)
    twin = Quantile(q=0.5, epsilon=50, adjacency="add-remove", lower=0, cap=120)
    column = [37] * 600 + [0] * 150 + [119] * 150
    assert subject.release(column, entropy=Seeded(3)).value == 37
    assert twin.release(column, entropy=Seeded(3)).value > 37


def test_several_do_not_fall():
    entropy = Seeded(9)
    for _ in range(200):
        values = [
            one.value
            for one in made((0.1, 0.45, 0.5, 0.55, 0.9), epsilon=0.5).release(
                AGES[:50], entropy=entropy
            )
        ]
        assert values == sorted(values)
        assert all(value.is_integer() for value in values)


def test_edges_are_whole_and_each_number_near_the_bottom_has_a_bucket():
    grid = BucketGrid.geometric(lower=0, cap=1000, growth=1.01, whole=True)
    edges = grid.edges.tolist()
    assert all(edge.is_integer() for edge in edges)
    assert edges[:90] == list(range(1, 91))
    assert edges[-1] == 1000
    both = BucketGrid.geometric(lower=None, cap=10, growth=2, whole=True).edges.tolist()
    assert both == [-10, -7, -3, -1, 0, 1, 3, 7, 10]


@pytest.mark.parametrize("changed", [{"lower": 0.5}, {"cap": 10.5}, {"integer": 1}])
def test_what_is_refused(changed):
    with pytest.raises(InvalidParameter):
        made(0.5, **changed)


def test_the_ends():
    assert made(0.5).release([500] * 50, entropy=Seeded(1)).value == 120
    assert made(0.5).release([-7] * 50, entropy=Seeded(1)).value == 0
    assert made(0.5, size_hint=50).release([-7] * 50, entropy=Seeded(1)).value == 0
