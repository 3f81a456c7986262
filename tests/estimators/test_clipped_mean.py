"""Clipped means: what the two totals are worth, and which number of records is public."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino import BucketCounts, ClippedMean, InvalidParameter, Seeded

AGES = np.random.default_rng(7).integers(17, 90, 500)


def made(adjacency="add-remove", **changed):
    return ClippedMean(**{"epsilon": 1, "adjacency": adjacency, "cap": 1e4, "lower": 0} | changed)


def test_bounds_of_the_totals():
    for subject, factor, totals in [
        (made(), 1, 2),
        (made(rows_per_unit=3), 3, 2),
        (made("replace-one", size_is_public=True), 1, 1),
        (made("replace-one"), 2, 2),
        (made("replace-one", rows_per_unit=3), 6, 2),
    ]:
        clip = subject.search.clip((30,), simulated=True)
        noise = subject.noise_for(clip)
        assert (noise.bound, noise.totals) == (factor * (clip.top - clip.bottom), totals)


def test_which_number_of_records_is_public():
    """Only what somebody says is public: a record may lose its number wherever nothing forbids it."""
    assert made("replace-one", size_is_public=True).size_is_public
    for adjacency in ("add-remove", "replace-one"):
        assert not made(adjacency).size_is_public
    for changed in ({"adjacency": "add-remove"}, {"adjacency": "replace-one", "rows_per_unit": 2}):
        with pytest.raises(InvalidParameter, match="private there"):
            made(**changed, size_is_public=True)
    with pytest.raises(InvalidParameter, match="True or False"):
        made("replace-one", size_is_public=1)


def variance_of_two_totals(place):
    """n^2 / (w / epsilon)^2 times the variance of the mean at `place` of the clip, from the distances to its two ends."""
    return 2 * ((1 - place) ** 2 + place**2)


def variance_of_a_centered_sum(place, share):
    """The same for a sum of distances from the middle with `share` of the budget, and a number of records with the rest."""
    return 0.5 / share**2 + 0.5 * (1 - 2 * place) ** 2 / (1 - share) ** 2


def test_two_totals_have_half_the_variance_of_a_centered_sum_and_a_count():
    for place in np.linspace(0, 1, 21):
        assert 2 * variance_of_two_totals(place) == pytest.approx(
            variance_of_a_centered_sum(place, 0.5)
        )
    best = min(variance_of_a_centered_sum(0.05, share) for share in np.linspace(0.05, 0.95, 91))
    assert variance_of_two_totals(0.05) < 0.6 * best, "a skewed column: better than any split"


@pytest.mark.parametrize("place", [0.0, 0.2, 0.5])
def test_the_stated_error_is_that_variance(place):
    subject = made(epsilon=2)
    clip = subject.search.clip((90,), simulated=True)
    width, n = clip.high - clip.low, 10**6
    total = n * clip.low + round(n * place * width)
    released = subject.finish(total, n, clip, entropy=Seeded(1))
    unit = (clip.ends[1] - clip.ends[0]) / (1.3 * n)
    assert released.standard_error == pytest.approx(
        unit * math.sqrt(variance_of_two_totals(place)), rel=1e-3
    )


@pytest.mark.parametrize("missing", [None, math.nan, "n/a"])
def test_missing_values_do_not_count(missing):
    values = [10.0] * 300 + [missing] * 300
    for adjacency in ("add-remove", "replace-one"):
        private = made(adjacency, epsilon=20).release(values, entropy=Seeded(3))
        assert private.value == pytest.approx(10, rel=0.1)


def test_where_every_record_was_said_to_have_a_number_0_keeps_the_place_of_one_without():
    """So the sum moves by the width of the clip, as was paid for, though what was said is wrong."""
    values, said = [10.0] * 300 + [None] * 300, {"epsilon": 20, "size_is_public": True}
    public = made("replace-one", **said).release(values, entropy=Seeded(3))
    assert public.value == pytest.approx(5, rel=0.1)
    above = made("replace-one", lower=8, **said).release(values, entropy=Seeded(3))
    assert above.value == pytest.approx(9, rel=0.05), "0 is moved into the clip"


def test_a_lower_end_near_the_values_saves_noise():
    near, far = (made(lower=lower).release(AGES, entropy=Seeded(5)) for lower in (17, 0))
    assert near.clip[0] == 17
    assert near.standard_error < 0.9 * far.standard_error
    assert near.value == pytest.approx(AGES.mean(), abs=6 * near.standard_error)
    assert near.true_interval()[0] <= near.interval[0] + near.standard_error
    assert near.true_interval()[1] == math.inf


def test_the_mean_and_its_intervals_stay_in_the_clip():
    for values in ([], [5.0], [None] * 9):
        for seed in range(6):
            released = made(epsilon=0.1, lower=None).release(values, entropy=Seeded(seed))
            low, high = released.clip
            assert low <= released.interval[0] <= released.value <= released.interval[1] <= high


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_interval_of_few_records_covers(confidence):
    """Not normal at all: five records, noise larger than their number."""
    subject, stream = made(epsilon=1), Seeded(6)
    clip = subject.search.clip((40,), simulated=True)
    total = sum((clip.high // 4, clip.high // 3, clip.high, 0, clip.high // 9))
    wanted = float(Fraction(total, 5) * clip.step)
    ends = [
        subject.finish(total, 5, clip, entropy=stream).interval_at(confidence=confidence)
        for _ in range(100)
    ]
    assert np.mean([low <= wanted <= high for low, high in ends]) >= confidence - 0.08


def test_narrow_clips_far_from_0():
    subject = made("add-remove", lower=1e9, cap=2e9, unit=0.001, epsilon=5)
    clip = subject.search.clip((1,), simulated=True)
    assert clip.low < clip.high <= 1 << 52
    released = subject.release([1e9 + 1] * 400, entropy=Seeded(2))
    assert 1e9 - 1 <= released.value <= 2e9
    counts = BucketCounts.of([1e9 + 1] * 400, grid=subject.grid)
    assert subject.clip_from(counts, entropy=Seeded(2)).ends[1] < 1e9 + 10
