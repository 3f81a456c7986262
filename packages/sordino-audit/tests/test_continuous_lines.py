"""Lines above and below logarithms, for every shape: never crossed by the function, close where they can be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino import InvalidParameter
from sordino_audit.continuous.cells import Piece, check_shape, lines, sum_lines

X = np.linspace(-3, 5, 41)


def spread(function, blur, rng):
    values = function(X)
    return values - blur * rng.uniform(0, 1, X.size), values + blur * rng.uniform(0, 1, X.size)


FUNCTIONS = {
    "parabola": ("concave", lambda x: -x * x),
    "tent": ("concave", lambda x: -np.abs(x - 0.123)),
    "log cdf": ("concave", lambda x: -np.log1p(np.exp(-x))),
    "bowl": ("convex", lambda x: x * x / 3 - x),
    "kink up": ("convex", lambda x: np.abs(x - 0.77)),
    "straight": ("linear", lambda x: 2 - 3 * x),
    "steps": ("monotone", lambda x: np.floor(x * 3)),
}


@pytest.mark.parametrize("blur", [0.0, 1e-9, 0.05])
@pytest.mark.parametrize(("shape", "function"), FUNCTIONS.values(), ids=FUNCTIONS.keys())
@pytest.mark.each_value
def test_the_function_stays_between_its_lines(shape, function, blur):
    at = spread(function, blur, np.random.default_rng(5))
    found = lines(X, at, [Piece(-3, 5, shape)], None)
    for share in (0.001, 0.3, 0.5, 0.77, 0.999):
        inside = X[:-1] + (X[1:] - X[:-1]) * share
        values = function(inside)
        assert (found.low_left * (1 - share) + found.low_right * share <= values + 1e-12).all()
        assert (found.high_left * (1 - share) + found.high_right * share >= values - 1e-12).all()
    if shape != "monotone" and not blur:
        kinked = "abs" in function.__code__.co_names
        gap = np.sort(found.high_left - found.low_left)
        assert gap[-3 if kinked else -1] < 0.25, (
            "second order in the width of the cells, but for the kink"
        )


def test_straight_lines_cost_nothing():
    found = lines(X, (2 - 3 * X,) * 2, [Piece(-3, 5, "concave")], None)
    assert np.abs(found.high_left - found.low_left).max() < 1e-10


def test_pieces_have_their_own_shapes_and_any_shape_asks_for_intervals():
    function = np.abs
    pieces = [Piece(-3, 0, "linear"), Piece(0, 1, "any"), Piece(1, 5, "concave")]
    x = np.array([-3.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 5.0])
    found = lines(
        x, (function(x), function(x)), pieces, lambda low, high: (np.abs(low) - 1, np.abs(high) + 1)
    )
    assert found.low_left.tolist()[:4] == [3, 1, -1, -0.5]
    assert found.high_right.tolist()[:4] == [1, 0, 1.5, 2]
    assert found.low_left.size == 7


def test_a_concave_logarithm_ends_where_its_support_ends():
    """log of a density e^-x on x >= 0: beyond the end both lines are minus infinity."""
    x = np.arange(-4.0, 5.0)
    values = np.where(x < 0, -np.inf, -x)
    found = lines(x, (values, values), [Piece(-4, 4, "concave")], None)
    assert (found.high_left[:3] == -math.inf).all()
    assert found.high_right[3] >= 0
    assert math.isfinite(found.high_left[3])
    assert (found.low_left[:4] == -math.inf).all()
    assert (found.low_right[:4] == -math.inf).all()
    mirrored = lines(-x[::-1], (values[::-1], values[::-1]), [Piece(-4, 4, "concave")], None)
    assert mirrored.high_left.tolist() == found.high_right[::-1].tolist()


def test_a_sum_stays_between_its_lines_and_is_exact_where_terms_run_in_parallel():
    terms = [lambda x: -x, lambda x: 1 - 2 * np.abs(x - 1), lambda x: -x * x]
    parts = [lines(X, (term(X), term(X)), [Piece(-3, 5, "concave")], None) for term in terms]
    found = sum_lines(parts)
    for share in (0.01, 0.4, 0.9):
        inside = X[:-1] + (X[1:] - X[:-1]) * share
        values = np.log(sum(np.exp(term(inside)) for term in terms))
        assert (found.low_left * (1 - share) + found.low_right * share <= values + 1e-12).all()
        assert (found.high_left * (1 - share) + found.high_right * share >= values - 1e-12).all()
    parallel = sum_lines(
        [
            lines(X, (shift - X, shift - X), [Piece(-3, 5, "concave")], None)
            for shift in (0.0, 1.0, -30.0)
        ]
    )
    assert np.abs(parallel.high_left - parallel.low_left).max() < 1e-9


def test_an_impossible_term_of_a_sum_is_nothing():
    none = np.full(X.size, -np.inf)
    parts = [lines(X, (values, values), [Piece(-3, 5, "linear")], None) for values in (-X, none)]
    assert np.abs(sum_lines(parts).low_left - parts[0].low_left).max() < 1e-11
    both = sum_lines([parts[1], parts[1]])
    assert (both.high_left == -math.inf).all()
    assert (both.low_right == -math.inf).all()


@pytest.mark.parametrize("shape", ["linear", "convex"])
def test_a_straight_or_convex_logarithm_does_not_jump_to_nothing(shape):
    """A density that is 0 at the end of a window by convention would else be taken for 0 next to it, too."""
    values = np.where(X[0] == X, -np.inf, -X)
    with pytest.raises(
        InvalidParameter,
        match=f"must be -inf all along a {shape} piece, or nowhere; got both, so there is a break",
    ):
        check_shape(X, (values, values), [Piece(-3, 5, shape)], "the density")
    found = lines(X, (values, values), [Piece(-3, 5, "concave")], None)
    assert found.high_left[0] >= 3, "a concave one ends there, and is not 0 beside it"


@pytest.mark.parametrize(
    ("shape", "function"),
    [
        ("concave", lambda x: x * x),
        ("convex", lambda x: -x * x),
        ("linear", np.abs),
        ("linear", lambda x: -np.abs(x)),
        ("monotone", np.abs),
        ("monotone", np.sin),
    ],
)
def test_a_shape_that_is_not_there_is_refused(shape, function):
    with pytest.raises(
        InvalidParameter, match=f"the density must be {shape} between its breaks; near"
    ):
        check_shape(X, (function(X), function(X)), [Piece(-3, 5, shape)], "the density")
    blurred = function(X) - 30, function(X) + 30
    check_shape(X, blurred, [Piece(-3, 5, shape)], "the density")  # nothing is certain
    for shape_name, fine in FUNCTIONS.values():
        check_shape(
            X, (fine(X) - 1e-12, fine(X) + 1e-12), [Piece(-3, 5, shape_name)], "the density"
        )
