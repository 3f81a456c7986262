"""Composite noise at its edges: optima to all digits, what nobody can change, draws word by word, the largest variance, tables kept."""

from __future__ import annotations

import copy
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from sordino import CompositeMechanism, CompositeTable, InvalidParameter, Seeded
from sordino.mechanisms import composite_table
from sordino.mechanisms.bounded.perturbation import Perturbation
from sordino.mechanisms.bounded.random_rounding import between, largest_between
from sordino.mechanisms.bounded.range_mechanism import RangeGrid
from sordino.mechanisms.composite import CompositeNoise, mixed, objective, two_points, variances
from sordino.mechanisms.composite_table import TableNoise
from support.scripted import Scripted

LINE = {"lower": -1, "upper": 1}
SMALL = Perturbation(reach=7, width=5, floor=40, peak=100)
TABLE = TableNoise(((5, 3, 2), (3, 4, 3), (2, 3, 5)), Fraction(3, 10))


@pytest.mark.parametrize(
    ("activation", "epsilon", "tuned_for", "width", "variance"),
    [
        ("rectangle", 0.2, 0.0, 0.95651542, 4 * 30.9257876106),
        ("rectangle", 1, 0.0, 0.79065464, 4 * 0.91752525144),
        ("rectangle", 1, None, 0.87383692, 5.06568115215),
        ("sine", 1, 0.0, None, 4 * 1.78855755152),
    ],
)
def test_optima_to_all_digits(activation, epsilon, tuned_for, width, variance):
    found = optimize.minimize_scalar(
        lambda m: float(
            objective(variances(activation, 1.0, epsilon, np.array([m])), tuned_for)[0]
        ),
        bounds=(0.01, 1.99),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert found.fun == pytest.approx(variance, rel=1e-11)
    if width is not None:
        assert found.x == pytest.approx(width, abs=1e-6)
        made = CompositeMechanism(
            **LINE, epsilon=epsilon, tuned_for="worst" if tuned_for is None else "center"
        )
        assert made.parameters["width"] == pytest.approx(width, abs=1.1e-3), (
            "the nearest width of the grid"
        )


def test_the_mixture_on_the_grid_of_its_oracle():
    m = np.array([0.8305263157894738])
    share = np.array([0.4164125127438461])
    assert objective(mixed(variances("rectangle", 1.0, 1.0, m), two_points(1.0, m), share), None)[
        0
    ] == pytest.approx(4.267157138820842, rel=1e-12)
    made = CompositeMechanism(**LINE, epsilon=1, activation="mixture").parameters
    assert (made["width"], made["share"]) == (
        pytest.approx(0.8305, abs=2e-3),
        pytest.approx(0.4164, abs=1e-3),
    )


MADE = [
    CompositeMechanism(**LINE, epsilon=1),
    CompositeMechanism(**LINE, epsilon=1, activation="sine", base="quartic"),
    CompositeMechanism(**LINE, epsilon=1, activation="triangle"),
    CompositeMechanism(**LINE, epsilon=1, activation="mixture"),
    CompositeTable(**LINE, epsilon=1, inputs=5),
]


@pytest.mark.parametrize("m", MADE, ids=repr)
def test_nobody_changes_what_is_drawn(m):
    m.release(0, entropy=Seeded(1))
    arrays = [m.grid.outputs]
    arrays += (
        [m.noise._edges]
        if isinstance(m, CompositeTable)
        else [m.noise.bump.base, m.noise.bump.bump, m.noise.bump._edges]
    )
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert isinstance(m.noise.outputs, tuple)
    assert copy.deepcopy(m) == m
    assert (
        copy.copy(m).release(0.3, entropy=Seeded(2)).value
        == m.release(0.3, entropy=Seeded(2)).value
    )


# --- draws, word by word ---------------------------------------------------------------------------------------------------------


def test_base_and_bump_are_drawn_from_one_word():
    words = range(SMALL.total)
    for c in (-SMALL.inputs, 1):
        drawn = [int(SMALL.sample(np.array([c]), Scripted([word]))[0]) for word in words]
        assert np.bincount(np.array(drawn) + 7, minlength=15).tolist() == SMALL.weights(c)
    top = (1 << 64) - 1  # is not below the total, and drawn again
    assert SMALL.sample(np.array([0]), Scripted([top, 3])) == SMALL.sample(
        np.array([0]), Scripted([3])
    )


def test_a_mixture_is_a_coin_and_then_the_output_that_it_asks_for():
    noise = CompositeNoise(bump=SMALL, share=Fraction(3, 8))
    c = np.array([2])
    near = int(SMALL.sample(c, Scripted([5]))[0]) + 7
    far = 15 + (int(noise.far.sample(c, Scripted([11]))[0]) + 1) // 2
    for coin, turn, wanted in (
        (0, 5, near),
        ((3 << 61) - 1, 5, near),
        (3 << 61, 11, far),
        ((1 << 64) - 1, 11, far),
    ):
        assert noise.sample(c, Scripted([coin, turn])).tolist() == [wanted]
    assert noise.sample(np.array([2, 2]), Scripted([3 << 61, 0, 5, 11])).tolist() == [far, near], (
        "base and bump are drawn first"
    )
    highest = noise.far.total - 1
    assert noise.sample(c, Scripted([1 << 63, highest])).tolist() == [15], (
        "the lower far point has the last turns"
    )
    assert noise.outputs[15] < 0 < noise.outputs[16]


def test_a_table_is_drawn_from_one_word():
    for c, row in zip((-1, 0, 1), TABLE.rows, strict=True):
        drawn = [int(TABLE.sample(np.array([c]), Scripted([word]))[0]) for word in range(10)]
        assert np.bincount(drawn, minlength=3).tolist() == list(row)


def test_a_value_is_rounded_with_its_own_word_first():
    grid = RangeGrid(noise=TABLE, low=Fraction(0), high=Fraction(2))
    for word, c in ((0, -1), ((1 << 63) - 1, -1), (1 << 63, 0), ((1 << 64) - 1, 0)):
        turns = [grid.one(0.5, Scripted([word, turn]), "test")[0] for turn in range(10)]
        assert sorted(turns) == sorted(
            float(grid.outputs[i]) for i, w in enumerate(TABLE.rows[c + 1]) for _ in range(w)
        )


# --- the largest variance --------------------------------------------------------------------------------------------------------


def test_between_two_whole_numbers_the_variance_is_a_parabola():
    parts = [Fraction(i, 64) for i in range(65)]
    for here, there in (
        (Fraction(3), Fraction(3)),
        (Fraction(3), Fraction(7, 2)),
        (Fraction(3), Fraction(9)),
        (Fraction(9), Fraction(3)),
    ):
        assert largest_between(here, there) == max(between(here, there, part) for part in parts)
    assert between(Fraction(3), Fraction(7), Fraction(1, 4)) == 4 + Fraction(3, 16)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"width": 1.99},
        {"tuned_for": "center"},
        {"activation": "mixture"},
        {"activation": "mixture", "width": 1.99},
        {"epsilon": 9},
    ],
)
def test_the_largest_variance_is_attained(changes):
    noise = CompositeMechanism(**(LINE | {"epsilon": 1} | changes)).noise
    cells = {0, noise.inputs // 2, noise.inputs - 1}
    found = [noise.variance_at(Fraction(16 * c + i, 16)) for c in cells for i in range(17)]
    assert max(found) <= noise.largest_variance
    assert float(max(found) / noise.largest_variance) == pytest.approx(1, abs=1e-3 / noise.inputs)


def test_outputs_reach_as_far_as_something_is_drawn():
    for epsilon in (0.3, 1):
        m = CompositeMechanism(**LINE, epsilon=epsilon, activation="mixture")
        assert (m.noise.share == 0) == (epsilon == 0.3), (
            "two points are the best mixture where epsilon is small"
        )
        two = 1 / math.tanh(epsilon / 2)
        reach = max(
            two,
            float(m.noise.share > 0)
            * m.noise.bump.reach
            / float(m.noise.bump.gain)
            / m.noise.inputs,
        )
        assert m.output_range == (pytest.approx(-reach, rel=1e-9), pytest.approx(reach, rel=1e-9))
        drawn = m.reports([-1.0, 0.2, 1.0] * 2000, entropy=Seeded(3)).values
        assert abs(drawn).max() > 0.98 * reach
        assert abs(drawn).max() <= m.output_range[1]


def test_a_table_reaches_as_far_as_it_has_weights():
    wider = TableNoise(tuple((0, *row, 0) for row in TABLE.rows), TABLE.gain)
    assert wider.farthest == TABLE.farthest == Fraction(10, 3)
    assert wider.largest_variance == TABLE.largest_variance


def test_what_a_program_finds_is_mended_until_it_is_a_table():
    gain, ratio = Fraction(5), Fraction(math.e)
    variance, found = composite_table._solve_program(math.exp(0.9999), 1, 12, float(gain))
    assert variance < 6
    chance = np.random.default_rng(4)
    rough = np.clip(
        found + 1e-10 * chance.standard_normal(found.shape), 0, 1
    )  # neither sums nor means nor ratios are right
    assert (found == 0).any(), "where one row has nothing, no other may have anything"
    mended = composite_table.checked(composite_table._make_weights_whole(rough, gain, ratio), ratio)
    assert [float(p) for p in mended.law(1)] == pytest.approx(found[1].tolist(), abs=1e-8)


def test_the_mass_of_the_bump_is_that_of_the_formula():
    made = CompositeMechanism(**LINE, epsilon=2).parameters
    assert made["mass"] == pytest.approx(
        math.expm1(2) * made["width"] / (2 + math.expm1(2) * made["width"]), rel=1e-6
    )
    assert (made["center"], made["share"]) == (made["floor"], 1)


# --- what is refused, and what is kept -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-13, 1e-300, Fraction(1, 10**400)])
@pytest.mark.parametrize("activation", ["rectangle", "mixture"])
def test_budgets_too_small_for_whole_weights(epsilon, activation):
    with pytest.raises(
        InvalidParameter, match=r"^CompositeMechanism\.epsilon must be so large that whole weights"
    ):
        CompositeMechanism(**LINE, epsilon=epsilon, activation=activation)


def test_a_range_of_extreme_floats_is_refused_and_one_next_to_it_is_not():
    for lower, upper in ((-(2.0**901), 0), (0, Fraction(1, 1 << 901)), (0, 10**400)):
        with pytest.raises(
            InvalidParameter, match=r"needs a range within 2\^900, at least 2\^-900 wide"
        ):
            CompositeMechanism(lower=lower, upper=upper, epsilon=1)
    for lower, upper in (
        (-(2.0**899), 2.0**899),
        (0, Fraction(1, 1 << 899)),
        (Fraction(1 << 899), Fraction(1 << 899) + Fraction(1, 1 << 899)),
    ):
        m = CompositeMechanism(lower=lower, upper=upper, epsilon=1e-9)
        low, high = m.output_range
        assert all(
            low <= m.release(x, entropy=Seeded(1)).value <= high
            for x in (lower, upper, math.inf, None)
        )


@pytest.mark.slow
def test_a_table_is_made_once():
    one, other = (
        CompositeTable(**LINE, epsilon=1),
        CompositeTable(lower=0, upper=7, epsilon=Fraction(1)),
    )
    assert one.noise is other.noise
    assert composite_table.designed_table(Fraction(1), 4) is one.noise
    again = CompositeTable(**LINE, epsilon=1, inputs=np.int64(9))
    assert again == one
    assert type(again.inputs) is int


@pytest.mark.parametrize(
    ("epsilon", "inputs", "better"), [(3, 5, True), (Fraction(7, 2), 5, False), (5, 9, True)]
)
@pytest.mark.slow
def test_where_a_mixture_has_less_variance_than_a_table(epsilon, inputs, better):
    table = CompositeTable(**LINE, epsilon=epsilon, inputs=inputs)
    mixture = CompositeMechanism(**LINE, epsilon=epsilon, activation="mixture")
    assert (table.grid.standard_error < mixture.grid.standard_error) == better
