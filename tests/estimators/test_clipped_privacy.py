"""Clipped sums and means against the exact law of clip and noise together, over all small data sets and their neighbors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from sordino import BucketCounts, ClippedMean, ClippedSum, ClippedVariance
from support.clipped_laws import GRID, VALUES, neighbours, noise_of, rows, totals, worst_loss

ROUNDING = 1e-9


# Every record has a number, and how many there are is public.
EVERY_RECORD_OF_MEAN = partial(ClippedMean, size_is_public=True)
EVERY_RECORD_OF_VARIANCE = partial(ClippedVariance, size_is_public=True)
CASES = [
    (ClippedSum, "add-remove", 1, 0),
    (ClippedSum, "add-remove", 1, None),
    (ClippedSum, "replace-one", 1, 0),
    (ClippedSum, "replace-one", 1, -3),
    (ClippedMean, "add-remove", 1, 0),
    (ClippedMean, "add-remove", 1, None),
    (ClippedMean, "replace-one", 1, 1),
    (ClippedMean, "replace-one", 1, None),
    (EVERY_RECORD_OF_MEAN, "replace-one", 1, 1),
    (EVERY_RECORD_OF_MEAN, "replace-one", 1, None),
    (ClippedSum, "add-remove", 2, None),
    (ClippedMean, "add-remove", 2, None),
    (ClippedVariance, "add-remove", 1, 0),
    (ClippedVariance, "add-remove", 1, None),
    (ClippedVariance, "replace-one", 1, 1),
    (ClippedVariance, "replace-one", 1, None),
    (EVERY_RECORD_OF_VARIANCE, "replace-one", 1, 1),
    (EVERY_RECORD_OF_VARIANCE, "replace-one", 1, None),
    (ClippedVariance, "add-remove", 2, None),
]
KINDS = (ClippedSum, ClippedMean, ClippedVariance)
MANY_ROWS = [(estimator, "replace-one", 2, lower) for estimator in KINDS for lower in (0, None)]


def made(estimator, adjacency, most, lower, epsilon=2):
    return estimator(epsilon=epsilon, adjacency=adjacency, lower=lower, rows_per_unit=most, **GRID)


@pytest.mark.parametrize(("estimator", "adjacency", "most", "lower"), CASES)
@pytest.mark.sample(8)
def test_clip_and_totals_together_lose_at_most_epsilon(estimator, adjacency, most, lower):
    subject = made(estimator, adjacency, most, lower)
    base = 2 if adjacency == "add-remove" and most == 1 else 1
    # Where one record takes the place of another, squares move most for one at two thirds of the clip.
    values = (*VALUES, 17 / 3, 8 / 3) if isinstance(subject, ClippedVariance) else VALUES
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
    unknown = ClippedMean(epsilon=2, adjacency="replace-one", lower=0, **GRID)
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
    unknown = ClippedVariance(epsilon=2, adjacency="replace-one", lower=0, **GRID)
    assert convicted(unknown, lambda clip: (clip.high - clip.low) ** 2), (
        "an exchanged unit: twice that"
    )
    assert not convicted(unknown, lambda clip: 2 * (clip.high - clip.low) ** 2)
    known = made(EVERY_RECORD_OF_VARIANCE, "replace-one", 1, None)
    assert convicted(known, lambda clip: 4 * (clip.high - clip.low) ** 2), (
        "ends alone are no worst case"
    )
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


def test_squares_are_sums_over_records():
    """What the enumeration above takes for granted; sums and means are enumerated as a whole."""
    subject = made(ClippedVariance, "add-remove", 1, None)
    tests = (2,) * len(subject.search.runs(BucketCounts.empty(subject.grid)))
    for values in [(), *rows(3, (None, -9.0, 0.5, 7.99))]:
        each = [totals(subject, (value,), tests) for value in values]
        assert (
            totals(subject, values, tests) == tuple(map(sum, zip(*each, strict=True))) or not values
        )
