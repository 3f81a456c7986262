"""Sums and means with Gaussian noise against the exact law of clip and noise together: Rényi divergences and deltas."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sordino import ClippedMean, ClippedSum, ClippedVariance
from sordino.cost import ZCDP
from sordino.estimators.clipped.total_noise import TotalNoise
from support.clipped_laws import EPSILONS, GRID, ORDERS, compared, excess, neighbours, noise_of

ROUNDING = 1e-9

CASES = [
    (ClippedSum, "add-remove", 1, 0, {}),
    (ClippedSum, "add-remove", 1, None, {}),
    (ClippedSum, "replace-one", 1, -3, {}),
    (ClippedMean, "add-remove", 1, 0, {}),
    (ClippedMean, "add-remove", 1, None, {}),
    (ClippedMean, "replace-one", 1, 1, {}),
    (ClippedMean, "replace-one", 1, 0, {"size_is_public": True}),
    (ClippedSum, "add-remove", 2, None, {}),
    (ClippedMean, "add-remove", 2, None, {}),
    (ClippedMean, "replace-one", 2, None, {}),
    (ClippedVariance, "add-remove", 1, 0, {}),
    (ClippedVariance, "add-remove", 2, None, {}),
    (ClippedVariance, "replace-one", 1, 0, {}),
    (ClippedVariance, "replace-one", 1, 0, {"size_is_public": True}),
]


def made(estimator, adjacency, most, lower, more, rho=Fraction(1, 2)):
    return estimator(
        epsilon=1,
        adjacency=adjacency,
        lower=lower,
        rows_per_unit=most,
        total_rho=rho,
        **GRID,
        **more,
    )


@pytest.mark.parametrize(("estimator", "adjacency", "most", "lower", "more"), CASES)
@pytest.mark.sample(4)
def test_clip_and_gaussian_totals_together_cost_what_is_charged(
    estimator, adjacency, most, lower, more
):
    subject = made(estimator, adjacency, most, lower, more)
    base = 1 if adjacency == "add-remove" or most == 1 else 0
    found = compared(subject, neighbours(adjacency, most, base))
    assert excess(subject.cost, found) <= ROUNDING
    renyi, _, alone = found
    assert alone <= float(subject.total_rho) + ROUNDING
    assert alone > 0.97 * float(subject.total_rho), (
        "the rho is attained by records at the ends of the clip"
    )
    assert all(renyi[order] > 0.7 * subject.cost.rdp(order) for order in (8, 32, 256))


def convicted(subject, change, most=1):
    """Whether totals with noise for another bound than the proved one cost more than is charged."""
    real = type(subject).noise_for
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            type(subject),
            "noise_for",
            lambda self, clip: replace(real(self, clip), bound=change(self, clip)),
        )
        noise_of.cache_clear()
        found = compared(subject, neighbours(subject.adjacency, most, 0))
    noise_of.cache_clear()
    return excess(subject.cost, found) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_no_parameters_are_found_where_more_is_lost_than_is_charged(seed):
    """Budgets, shares, grids and clips at random, over all pairs of units of few rows."""
    rng = np.random.default_rng(seed)
    estimator, adjacency, most, lower, more = CASES[int(rng.integers(len(CASES)))]
    subject = estimator(
        epsilon=Fraction(int(rng.integers(1, 400)), 100),
        total_rho=Fraction(int(rng.integers(1, 300)), 100),
        clip_share=Fraction(int(rng.integers(5, 95)), 100),
        adjacency=adjacency,
        rows_per_unit=most,
        lower=lower,
        cap=8,
        growth=Fraction(int(rng.integers(14, 30)), 10),
        **more,
    )
    found = compared(subject, neighbours(adjacency, most, 1 if adjacency == "add-remove" else 0))
    assert excess(subject.cost, found) <= ROUNDING
    assert found[2] > 0.8 * float(subject.total_rho)


def width(clip):
    return clip.high - clip.low


def test_wrong_bounds_are_convicted():
    exchange = made(ClippedSum, "replace-one", 1, None, {})
    assert convicted(exchange, lambda self, clip: max(-clip.low, clip.high)), (
        "a sum moves by the width"
    )
    assert not convicted(exchange, lambda self, clip: width(clip))
    unknown = made(ClippedMean, "replace-one", 1, 0, {})
    assert convicted(unknown, lambda self, clip: width(clip)), (
        "the bound of one total, used for two"
    )
    assert not convicted(unknown, lambda self, clip: math.isqrt(2 * width(clip) ** 2) + 1)
    coming = made(ClippedMean, "add-remove", 1, None, {})
    assert convicted(coming, lambda self, clip: math.isqrt(width(clip) ** 2 // 2)), (
        "a record in the middle moves two totals by w / sqrt(2), one at an end by w"
    )
    squares = made(ClippedVariance, "add-remove", 1, 0, {})
    assert convicted(squares, lambda self, clip: math.isqrt(width(clip) ** 4 // 2)), (
        "a record in the middle moves the totals of squares by less than one at an end, by w^2"
    )
    exchanged = made(ClippedVariance, "replace-one", 1, 0, {})
    assert convicted(exchanged, lambda self, clip: width(clip) ** 2), "one record for two"
    sized = made(ClippedVariance, "replace-one", 1, 0, {"size_is_public": True})
    assert convicted(sized, lambda self, clip: 3 * width(clip) ** 2), (
        "what a record two thirds of the way up moves, and not one that goes from end to end"
    )
    rows = made(ClippedSum, "add-remove", 2, 0, {})
    assert convicted(rows, lambda self, clip: math.isqrt(2 * clip.high**2), most=2), (
        "the records of a unit may all be alike: they add up, and not their squares"
    )


def test_units_with_more_rows_than_stated_are_convicted():
    for estimator in (ClippedSum, ClippedMean, ClippedVariance):
        subject = made(estimator, "add-remove", 1, 0, {})
        assert excess(subject.cost, compared(subject, neighbours("add-remove", 2, 1))) > 0.5


def test_a_clip_that_is_not_charged_is_convicted():
    subject = made(ClippedSum, "add-remove", 1, 0, {}, rho=Fraction(1, 100))
    renyi, deltas, _ = compared(subject, neighbours("add-remove", 1, 1))
    free = ZCDP(rho=subject.total_rho)
    assert max(renyi[order] - free.rdp(order) for order in ORDERS) > 0.05
    assert max(deltas[epsilon] - free.delta(epsilon) for epsilon in EPSILONS) > 0.005


# ---- the noise itself, term by term, where it is narrow -----------------------------------------------------------------


def divergence(law, shift, order):
    """The Rényi divergence of the law and itself moved by so many steps, by adding up its terms."""
    far = math.ceil(60 / math.sqrt(2 * float(law.rate))) + (1 + int(order)) * abs(shift)
    x = np.arange(-far, far + 1, dtype=np.float64)
    rate = float(law.rate)
    first, second = -rate * x**2, -rate * (x - shift) ** 2
    exponent = order * first + (1 - order) * second
    top = exponent.max()
    return (top + math.log(np.exp(exponent - top).sum()) - math.log(np.exp(first).sum())) / (
        order - 1
    )


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("wide", [1, 2, 5])
@pytest.mark.each_value
def test_two_totals_of_few_steps_lose_at_most_rho_at_every_order(most, exchanged, wide):
    """All units of records in a clip of so many steps; all terms of both laws; the cost is reached."""
    size = most * wide
    bound = math.isqrt(2 * size**2 - 1) + 1 if exchanged else size
    rho = Fraction(1, 3)
    noise = TotalNoise(
        budget=ZCDP(rho=rho),
        bound=bound,
        totals=2,
        record_step=Fraction(1),
        adjacency="replace-one",
    )
    law = noise.mechanism.noise
    units = {
        (total, rows * wide - total) for rows in range(most + 1) for total in range(rows * wide + 1)
    }
    moves = {(a - c, b - d) for (a, b), (c, d) in product(units, units if exchanged else {(0, 0)})}
    for order in (1.5, 2, 8):
        worst = max(divergence(law, x, order) + divergence(law, y, order) for x, y in moves)
        assert worst <= float(rho) * order + ROUNDING
        # The bound is a whole number: rounding it up loses most where the clip has a single step.
        least = Fraction(2 * size**2 if exchanged else size**2, bound**2)
        assert order != 2 or worst > float(least * rho) * order - ROUNDING
        twin = TotalNoise(
            budget=ZCDP(rho=rho),
            bound=max(1, bound - 1),
            totals=2,
            record_step=Fraction(1),
            adjacency="replace-one",
        ).mechanism.noise
        if bound > 1:
            worst = max(divergence(twin, x, order) + divergence(twin, y, order) for x, y in moves)
            assert worst > float(rho) * order + ROUNDING, "a bound that is one step too small"
