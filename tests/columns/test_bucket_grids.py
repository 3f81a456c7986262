"""Edges: rising, ending at the cap, the same everywhere, refused where they would be none or too many."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

import sordino as sd
from sordino.errors import InvalidParameter

make = sd.BucketGrid.geometric


@pytest.mark.parametrize(
    ("lower", "cap", "growth", "unit"),
    [
        (0, 1e6, 1.01, 1),
        (0, 3, 1.001, 1e-3),
        (-5, 20, Fraction(4, 3), 0.1),
        (100, 1e4, 1.05, 2),
        (0.1, 0.7, 1.5, 1e-300),
        (1e15, 2e15, 2, 1e-3),
    ],
)
def test_edges_are_the_formula_rounded_once(lower, cap, growth, unit):
    grid = make(lower=lower, cap=cap, growth=growth, unit=unit)
    low, step, factor = (
        Fraction(repr(x)) if isinstance(x, float) else Fraction(x) for x in (lower, unit, growth)
    )
    with mp.workdps(80):
        exact = [mpf(x.numerator) / x.denominator for x in (low, step, factor)]
        terms = (exact[0] + exact[1] * (exact[2] ** i - 1) for i in range(1, 100_000))
        wanted = []
        for term in terms:
            if float(term) >= cap:
                break
            wanted.append(float(term))
    wanted = sorted(set(wanted) - {float(lower)})
    assert grid.edges.tolist() == [*wanted, float(cap)]
    assert grid.size == len(wanted) + 1


def test_both_signs_mirror_each_other():
    edges = make(lower=None, cap=50, growth=1.2, unit=3).edges
    assert np.array_equal(edges, -edges[::-1])
    assert edges[edges > 0].tolist() == make(lower=0, cap=50, growth=1.2, unit=3).edges.tolist()
    assert 0.0 in edges.tolist()
    assert not np.signbit(edges[edges == 0]).any()


def test_equal_neighbours_are_dropped():
    grid = make(lower=2**53, cap=2**53 + 64, growth=1.0001)
    assert (np.diff(grid.edges) >= 2).all()
    assert grid.edges[0] > 2**53


def test_grids_are_values():
    a, b = (
        make(lower=0, cap=10, growth=1.5),
        make(lower=0.0, cap=10.0, growth=Fraction(3, 2), unit=1),
    )
    assert a == b == sd.BucketGrid(edges=a.edges)
    assert hash(a) == hash(b) == hash(sd.BucketGrid(edges=list(a.edges)))
    assert a != make(lower=0, cap=10, growth=1.6)
    assert a != a.edges.tolist()
    assert pickle.loads(pickle.dumps(a)) == copy.copy(a) == a
    assert (
        repr(a)
        == "BucketGrid(lower=0, cap=10, growth=3/2, unit=1, edges=[0.5, 1.25, 2.375, 4.0625, 6.59375, 10])"
    )
    with pytest.raises(ValueError, match="read-only"):
        a.edges[0] = 0


def test_the_caller_keeps_its_edges():
    edges = np.array([1.0, 2.0])
    grid = sd.BucketGrid(edges=edges)
    edges[0] = 5
    assert grid.edges.tolist() == [1, 2]


@pytest.mark.parametrize(
    "edges", [[], [1, 1], [2, 1], [math.nan], [1, math.inf], [[1, 2]], 3.0, None, "ab", ["a"]]
)
def test_edges_that_do_not_rise_are_refused(edges):
    with pytest.raises(
        InvalidParameter,
        match=r"BucketGrid\.edges must be 1 to 1048576 finite numbers, strictly increasing",
    ):
        sd.BucketGrid(edges=edges)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"growth": 1}, r"BucketGrid\.growth must be a number in \(1, inf\); got 1\."),
        ({"growth": 0.5}, r"BucketGrid\.growth must be a number in \(1, inf\); got 0\.5\."),
        ({"unit": 0}, r"BucketGrid\.unit must be a number in \(0, inf\); got 0\."),
        ({"cap": None}, r"BucketGrid\.cap must be a finite number; got None\."),
        ({"cap": math.inf}, r"BucketGrid\.cap must be a finite number; got inf\."),
        ({"cap": 10**400}, r"BucketGrid\.cap must be a number that a float can hold"),
        ({"lower": math.nan}, r"BucketGrid\.lower must be a finite number; got nan\."),
        ({"cap": -1}, r"BucketGrid\.cap must be above lower, 0; got -1\."),
        ({"lower": 2**53, "cap": 2**53 + 1}, r"BucketGrid\.cap must be above lower"),
        (
            {"lower": None, "cap": 0},
            r"BucketGrid\.cap must be above 0, where no lower bound is given; got 0\.",
        ),
        (
            {"growth": 1.00001},
            r"BucketGrid\.growth must leave at most 1048576 edges up to the cap; got 1\.00001, which makes about 1381",
        ),
        ({"growth": 1 + Fraction(1, 10**60)}, "which makes many more"),
        ({"lower": None, "growth": 1.00002}, "at most 524287 edges"),
    ],
    ids=lambda value: str(value)[:30],
)
@pytest.mark.sample(8)
def test_bad_parameters_are_refused(changed, said):
    with pytest.raises(InvalidParameter, match=said):
        make(**({"lower": 0, "cap": 1e6, "growth": 1.01} | changed))
