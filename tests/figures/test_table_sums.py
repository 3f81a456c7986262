"""The best linear estimate of a table whose margins were measured: against generalized least squares, and what it is made of."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sordino.figures.mixed_noise import find_far
from sordino.figures.table_fit import list_margins
from sordino.figures.table_sums import Mix, find_sum_reach, round_cells, share_margins
from sordino.noise import DiscreteGaussian, DiscreteLaplace

SHAPES = {
    (2, 3): [(), (0,), (1,), (0, 1)],
    (4,): [(), (0,)],
    (3, 2): [(), (0, 1)],
    (3, 2, 2): [(), (0,), (1, 2), (0, 1, 2)],
    (2, 2, 3): list(list_margins(3)),
}


def laws_of(measured, seed=1):
    draw = np.random.default_rng(seed)
    kinds = (DiscreteLaplace, DiscreteGaussian)
    return {
        axes: kinds[place % 2](Fraction(int(draw.integers(1, 12)), 10))
        for place, axes in enumerate(measured)
    }


def design(shape, measured):
    """Return which cells each measured number is the sum of, a row for each."""
    cells = np.eye(math.prod(shape)).reshape(*shape, -1)
    return {
        axes: cells.sum(axis=axes, keepdims=True).reshape(-1, math.prod(shape)) for axes in measured
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sample(5)
def test_it_is_the_estimate_of_generalized_least_squares(shape):
    """Written as a linear model and solved: the same cells, and the same variance of every sum."""
    measured, draw = SHAPES[shape], np.random.default_rng(5)
    laws = laws_of(measured)
    mix, rows = Mix(shape, laws), design(shape, measured)
    said = {
        axes: draw.normal(0, 50, [1 if axis in axes else n for axis, n in enumerate(shape)])
        for axes in measured
    }
    x = np.vstack([rows[axes] for axes in measured])
    y = np.concatenate([said[axes].reshape(-1) for axes in measured])
    weight = np.concatenate(
        [np.full(len(rows[axes]), 1 / laws[axes].variance) for axes in measured]
    )
    covariance = np.linalg.inv(x.T @ (weight[:, None] * x))
    assert np.allclose(mix.estimate(said).reshape(-1), covariance @ x.T @ (weight * y), atol=1e-4)
    for axes, sums in design(shape, list_margins(len(shape))).items():
        for one in sums:
            assert mix.find_variance(axes) == pytest.approx(one @ covariance @ one, rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sample(5)
def test_every_sum_is_the_true_one_and_the_noises_that_are_listed(shape):
    """In exact fractions: with one number moved by 1, a sum moves by the weight that is listed for it."""
    measured = SHAPES[shape]
    mix = Mix(shape, laws_of(measured))
    sides = [range(n) for n in shape]
    # Exact: an array of fractions goes the same way.
    zero = {
        axes: np.full([1 if axis in axes else n for axis, n in enumerate(shape)], Fraction(0))
        for axes in measured
    }
    for axes in list_margins(len(shape)):
        listed = {(part, same): weight for part, same, weight, _ in mix.list_noises(axes)}
        target = tuple(None if axis in axes else 0 for axis in range(len(shape)))
        seen = {}
        for part in measured:
            for label in itertools.product(
                *([None] if axis in part else side for axis, side in enumerate(sides))
            ):
                moved = {one: array.astype(float) for one, array in zero.items()}
                moved[part][tuple(0 if at is None else at for at in label)] = 1.0
                cells = mix.estimate(moved)
                change = cells[tuple(slice(None) if at is None else at for at in target)].sum()
                same = tuple(
                    axis for axis, at in enumerate(label) if at is not None and at == target[axis]
                )
                assert change == pytest.approx(float(listed[part, same]), abs=1e-12)
                seen[part, same] = seen.get((part, same), 0) + 1
        assert seen == {(part, same): many for part, same, _, many in mix.list_noises(axes) if many}
    # Unbiased: of exact measurements it is the table itself.
    truth = np.random.default_rng(3).integers(0, 900, shape).astype(float)
    exact = {axes: truth.sum(axis=axes, keepdims=True) for axes in measured}
    assert np.allclose(mix.estimate(exact), truth, atol=1e-9)


def test_cells_add_up_rare_noise_reaches_nowhere_and_shapes_say_what_is_measured():
    """Twin: a variance that is no float any more ended the release, after its charge."""
    draw = np.random.default_rng(4)
    cells = round_cells(draw.normal(0, 1e4, (100, 100)))
    assert cells.sum(axis=1).sum() == cells.sum() == cells.reshape(-1)[::-1].sum()
    assert math.fsum(cells.reshape(-1)) == cells.sum()
    often, never = DiscreteLaplace(Fraction(1)), DiscreteLaplace(Fraction(4000))
    wrong = Fraction(1, 1000)
    assert find_sum_reach([(never, Fraction(1, 3))] * 50, wrong) == 0
    assert Mix((5, 5), {(): never, (0, 1): never}).find_variance(()) == 0
    alone = find_far([(often, Fraction(1))] * 3, wrong)
    found = find_sum_reach([(often, Fraction(1))] * 3 + [(never, Fraction(5))], wrong)
    assert alone <= found <= alone + 1
    # Pure noise: the total from 50 cells on, all margins from 100 x 100. Gaussian noise: all from 5 x 5.
    only = {(): 1}
    pure = {(): Fraction(81, 100), (0, 1): Fraction(19, 100)}
    equal = dict.fromkeys(list_margins(2), Fraction(1, 4))
    for shape, gaussian, wanted in (
        ((7, 7), False, only),
        ((10, 5), False, pure),
        ((100, 99), False, pure),
        ((100, 100), False, equal),
        ((5, 4), True, only),
        ((5, 5), True, equal),
        ((24,), True, only),
        ((50,), False, {(): Fraction(81, 100), (0,): Fraction(19, 100)}),
        ((10, 5, 4), False, {(): Fraction(81, 100), (0, 1, 2): Fraction(19, 100)}),
        ((5, 5, 5), True, dict.fromkeys(list_margins(3), Fraction(1, 8))),
    ):
        found = share_margins(shape, gaussian=gaussian)
        assert found == wanted
        assert sum(found.values()) == 1
    # Root mean square errors that were computed elsewhere, from eigenspaces.
    for shape, pure, gaussian in (
        ((2, 2), 3.76, 1.33),
        ((5, 5), 4.70, 1.67),
        ((10, 10), 5.13, 1.82),
        ((20, 12), 5.29, 1.88),
        ((100, 100), 5.59, 1.98),
    ):
        mix = Mix(shape, dict.fromkeys(list_margins(2), DiscreteLaplace(Fraction(1, 4))))
        assert [math.sqrt(mix.find_variance(axes)) for axes in list_margins(2)] == pytest.approx(
            [pure] * 4, abs=0.006
        )
        law = DiscreteGaussian(Fraction(1, 80))
        mix = Mix(shape, dict.fromkeys(list_margins(2), law))
        alone = DiscreteGaussian(Fraction(1, 20)).variance
        assert [
            math.sqrt(mix.find_variance(axes) / alone) for axes in list_margins(2)
        ] == pytest.approx([gaussian] * 4, abs=0.006)
