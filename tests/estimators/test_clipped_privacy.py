"""Clipped sums and means against the exact law of clip and noise together, over all small data sets and their neighbors."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest

from sordino import BucketCounts, ClippedMean, ClippedSum, ClippedVariance
from sordino.estimators.clipped.total_noise import TotalNoise

VALUES = (None, -9.0, -2.0, 0.5, 2.0, 7.99, 1e308)
GRID = {"cap": 8, "growth": 2, "unit": 1}
ROUNDING = 1e-9


def rows(most, values=VALUES):
    return [unit for n in range(1, most + 1) for unit in combinations_with_replacement(values, n)]


def neighbours(adjacency, most, base, values=VALUES):
    """Pairs of data sets that differ in one unit of at most so many rows; the same pair in both orders."""
    units = rows(most, values)
    bases = [(), *rows(base)]
    for rest in bases:
        for one in units:
            others = [()] if adjacency == "add-remove" else units
            for other in others:
                if one != other:
                    yield rest + one, rest + other
                    yield rest + other, rest + one


@cache
def scan_law(threshold, slow, fast, answers):
    """P(stop at test k), and of no stop: a plain sum over the noise of the threshold, in floats."""
    z = np.arange(int(45 / slow) + 2)
    weight = np.exp(-slow * z) * -np.expm1(-slow)
    law, alive = [], np.ones(z.size)
    for answer in answers:
        hit = np.exp(-fast * np.maximum(0, threshold + z - answer))
        law.append(float(weight @ (alive * hit)))
        alive *= 1 - hit
    return (*law, float(weight @ alive))


def stages(estimator, values):
    """Each clip with its probability and the totals that get noise."""
    search = estimator.search
    scan = search.scan
    counts = BucketCounts.of(list(values), grid=estimator.grid)
    laws = []
    for answers, lengths in search.runs(counts):
        tests = tuple(np.repeat(answers, lengths).tolist())
        laws.append(scan_law(scan.threshold, float(scan.threshold_noise.rate), float(scan.noise.rate), tests))
    found = {}
    for places in np.ndindex(*map(len, laws)):
        tests = tuple(None if at == len(law) - 1 else at + 1 for at, law in zip(places, laws, strict=True))
        each = [totals(estimator, (value,), tests) for value in values] or [totals(estimator, (), tests)]
        _, noise = noise_of(estimator, tests)
        summed = tuple(sum(column) >> noise.shift for column in zip(*each, strict=True))
        found[tests] = (math.prod(law[at] for at, law in zip(places, laws, strict=True)), summed)
    return found


@cache
def noise_of(estimator, tests):
    clip = estimator.search.clip(tests, simulated=True)
    noise = estimator.noise_for(clip)
    return float(noise.mechanism.noise.rate), noise


@cache
def totals(estimator, values, tests):
    """The totals in record steps, as `release` hands them to the noise."""
    kept = []

    def capture(self, private, entropy):
        kept.extend(private)
        return tuple(private)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            type(estimator),
            "clip_from",
            lambda self, counts, entropy: self.search.clip(tests, simulated=True),
        )
        patch.setattr(TotalNoise, "noisy", capture)
        estimator.release(list(values))
    return tuple(kept)


def worst_loss(estimator, pairs):
    """The largest log ratio of clip and noisy totals together, over pairs; and of the clip alone."""
    known, worst, clip_only = {}, 0.0, 0.0
    for a, b in pairs:
        for one in (a, b):
            if one not in known:
                known[one] = stages(estimator, one)
        for tests, (chance, at) in known[a].items():
            other, there = known[b][tests]
            clip = math.log(chance / other)
            apart = sum(abs(x - y) for x, y in zip(at, there, strict=True))
            worst, clip_only = max(worst, clip + noise_of(estimator, tests)[0] * apart), max(clip_only, clip)
    return worst, clip_only


CASES = [
    (ClippedSum, "add-remove", 1, 0),
    (ClippedSum, "add-remove", 1, None),
    (ClippedSum, "replace-one", 1, 0),
    (ClippedSum, "replace-one", 1, -3),
    (ClippedMean, "add-remove", 1, 0),
    (ClippedMean, "add-remove", 1, None),
    (ClippedMean, "replace-one", 1, 1),
    (ClippedMean, "replace-one", 1, None),
    (ClippedSum, "add-remove", 2, None),
    (ClippedMean, "add-remove", 2, None),
    (ClippedVariance, "add-remove", 1, 0),
    (ClippedVariance, "add-remove", 1, None),
    (ClippedVariance, "replace-one", 1, 1),
    (ClippedVariance, "replace-one", 1, None),
    (ClippedVariance, "add-remove", 2, None),
]
KINDS = (ClippedSum, ClippedMean, ClippedVariance)
MANY_ROWS = [(estimator, "replace-one", 2, lower) for estimator in KINDS for lower in (0, None)]


def made(estimator, adjacency, most, lower, epsilon=2):
    return estimator(epsilon=epsilon, adjacency=adjacency, lower=lower, rows_per_unit=most, **GRID)


@pytest.mark.parametrize(("estimator", "adjacency", "most", "lower"), CASES)
@pytest.mark.sample(4)
def test_clip_and_totals_together_lose_at_most_epsilon(estimator, adjacency, most, lower):
    subject = made(estimator, adjacency, most, lower)
    base = 2 if adjacency == "add-remove" and most == 1 else 1
    # Where one record takes the place of another, squares move most for one at two thirds of the clip.
    values = (*VALUES, 17 / 3, 8 / 3) if estimator is ClippedVariance else VALUES
    worst, clip_only = worst_loss(subject, neighbours(adjacency, most, base, values))
    assert worst <= float(subject.cost.pure()) + ROUNDING
    assert clip_only <= float(subject.search.cost.pure()) + ROUNDING
    assert worst > 0.98 * float(subject.cost.pure()), (
        "the cost is attained, up to how near a record can lie below its edge"
    )


@pytest.mark.parametrize(("estimator", "adjacency", "most", "lower"), MANY_ROWS)
@pytest.mark.sample(4)
def test_exchanged_units_of_two_rows_lose_at_most_epsilon(estimator, adjacency, most, lower):
    subject = made(estimator, adjacency, most, lower)
    worst, clip_only = worst_loss(subject, neighbours(adjacency, most, 0))
    assert worst <= float(subject.cost.pure()) + ROUNDING
    assert clip_only <= float(subject.search.cost.pure()) + ROUNDING


def with_bound(change):
    """Totals get noise for another bound than the proved one."""
    real = [estimator.noise_for for estimator in KINDS]
    patch = pytest.MonkeyPatch()
    for estimator, noise_for in zip(KINDS, real, strict=True):
        patch.setattr(
            estimator,
            "noise_for",
            lambda self, clip, made=noise_for: replace(made(self, clip), bound=change(clip)),
        )
    return patch


def convicted(subject, change, most=1):
    patch = with_bound(change)
    try:
        noise_of.cache_clear()
        worst, _ = worst_loss(subject, neighbours(subject.adjacency, most, 0))
    finally:
        patch.undo()
        noise_of.cache_clear()
    return worst > float(subject.cost.pure()) + 0.05


def test_wrong_bounds_are_convicted():
    exchange = made(ClippedSum, "replace-one", 1, None)
    assert convicted(exchange, lambda clip: max(-clip.low, clip.high)), (
        "a sum under replace-one moves by the width"
    )
    assert not convicted(exchange, lambda clip: clip.high - clip.low)
    unknown = ClippedMean(epsilon=2, adjacency="replace-one", size_is_public=False, lower=0, **GRID)
    assert convicted(unknown, lambda clip: clip.high - clip.low), (
        "two totals and an exchanged unit: twice the width"
    )
    assert not convicted(unknown, lambda clip: 2 * (clip.high - clip.low))
    coming = made(ClippedMean, "add-remove", 1, None)
    assert convicted(coming, lambda clip: (clip.high - clip.low) // 2), (
        "half the width is the bound of one centered sum"
    )


def test_wrong_bounds_of_squares_are_convicted():
    coming = made(ClippedVariance, "add-remove", 1, 0)
    assert convicted(coming, lambda clip: (clip.high - clip.low) ** 2 // 2), (
        "each record adds the squared width"
    )
    unknown = ClippedVariance(epsilon=2, adjacency="replace-one", size_is_public=False, lower=0, **GRID)
    assert convicted(unknown, lambda clip: (clip.high - clip.low) ** 2), "an exchanged unit: twice that"
    assert not convicted(unknown, lambda clip: 2 * (clip.high - clip.low) ** 2)
    known = made(ClippedVariance, "replace-one", 1, None)
    assert convicted(known, lambda clip: 4 * (clip.high - clip.low) ** 2), "ends alone are no worst case"
    assert not convicted(known, lambda clip: -(-16 * (clip.high - clip.low) ** 2 // 3))


def test_units_with_more_rows_than_stated_are_convicted():
    for estimator in KINDS:
        subject = made(estimator, "add-remove", 1, 0)
        worst, clip_only = worst_loss(subject, neighbours("add-remove", 2, 1))
        assert worst > 1.5 * float(subject.cost.pure())
        assert clip_only > 1.5 * float(subject.search.cost.pure())


def test_a_search_against_the_tail_costs_more_than_one_along_it():
    """Counts at or above edges that rise lose e1 + e2; counts below them would lose max(e1, e2), and this is not that search."""
    subject = made(ClippedSum, "add-remove", 1, 0)
    _, clip_only = worst_loss(subject, neighbours("add-remove", 1, 2))
    search = subject.search.scan
    assert clip_only > float(max(search.threshold_noise.rate, search.noise.rate)) + 0.2
    assert subject.search.cost.high == search.threshold_noise.rate + search.noise.rate


@pytest.mark.parametrize("estimator", [ClippedSum, ClippedMean])
def test_totals_are_sums_over_records(estimator):
    """What the enumeration above takes for granted."""
    subject = made(estimator, "add-remove", 1, None)
    tests = (2,) * len(subject.search.runs(BucketCounts.empty(subject.grid)))
    for values in [(), *rows(3, (None, -9.0, 0.5, 7.99))]:
        each = [totals(subject, (value,), tests) for value in values]
        assert totals(subject, values, tests) == tuple(map(sum, zip(*each, strict=True))) or not values
