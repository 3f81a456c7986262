"""Clipped sums: the clip, the noise, what the intervals cover, and whatever records may hold."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sordino import (
    SYSTEM,
    BucketCounts,
    BucketGrid,
    ClippedMean,
    ClippedSum,
    InvalidParameter,
    Seeded,
)
from sordino.columns.bucket_sums import BucketSums
from sordino.cost import Pure
from sordino.estimators.clipped.clip import RATIO
from sordino.estimators.clipped.total_noise import TotalNoise

SKEWED = np.random.default_rng(5).lognormal(3, 1, 400)
BOTH = pytest.mark.parametrize("estimator", [ClippedSum, ClippedMean])
EXTREMES = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1e308,
    -1e308,
    math.inf,
    -math.inf,
    math.nan,
    2.0**53 + 2,
    1.0,
]
COLUMNS = {
    "nothing": [],
    "one": [3],
    "missing only": [None] * 20,
    "not a number only": [math.nan] * 20,
    "extremes": EXTREMES * 3,
    "int64": np.array([-(1 << 63), (1 << 63) - 1, 0, 1] * 3, dtype=np.int64),
    "uint64": np.array([(1 << 64) - 1, 0, 1] * 3, dtype=np.uint64),
    "large": [10**400, -(10**400), 3],
    "objects": [
        Decimal("1.5"),
        Decimal("NaN"),
        Fraction(1, 3),
        None,
        "text",
        True,
        Decimal("1e9999999"),
    ],
    "float32": np.array([1.5, np.nan, np.inf], dtype=np.float32),
    "truth": np.array([True, False]),
}


def made(estimator=ClippedSum, adjacency="add-remove", **changed):
    return estimator(**{"epsilon": 1, "adjacency": adjacency, "cap": 1e6, "lower": 0} | changed)


@BOTH
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("lower", [0, None, -7.5])
@pytest.mark.each_value
def test_whatever_the_records_hold_a_release_is_a_finite_number_within_its_interval(
    estimator, adjacency, lower
):
    subject = made(estimator, adjacency, lower=lower)
    for values in COLUMNS.values():
        released = subject.release(values, entropy=Seeded(1))
        low, high = released.interval
        assert math.isfinite(low)
        assert low <= released.value <= high
        assert released.cost == subject.cost
        assert released.simulated
        assert released.exact
        assert released.clip[0] <= 0 < released.clip[1] <= 1e6
        json.dumps(released.to_dict(), allow_nan=False)
        below, above = released.true_interval(within_cap=True)
        assert math.isfinite(below)
        assert below <= above < math.inf


@BOTH
def test_two_stages_are_one_release_and_chunks_are_one_column(estimator, tmp_path):
    subject = made(estimator)
    whole = subject.release(SKEWED, entropy=Seeded(3))
    stream = Seeded(3)
    grid = subject.grid
    counts = BucketCounts.of(SKEWED[:150], grid=grid).merge(
        BucketCounts.of(SKEWED[150:], grid=grid)
    )
    clip = subject.clip_from(counts, entropy=stream)
    [total] = BucketSums.of(SKEWED, subject.search.ladder).add_up([clip])
    rest = (total,) if estimator is ClippedSum else (total, SKEWED.size)
    again = subject.finish(*rest, clip, entropy=stream)
    assert again.to_dict() == whole.to_dict()
    path = Path(tmp_path) / "column.npy"
    np.save(path, SKEWED)
    assert (
        subject.release(np.load(path, mmap_mode="r"), entropy=Seeded(3)).to_dict()
        == whole.to_dict()
    )


def test_a_sum_over_no_rows_is_null_and_counts_as_0():
    subject = made()
    clip = subject.clip_from(BucketCounts.empty(subject.grid), entropy=Seeded(1))
    assert (
        subject.finish(None, clip, entropy=Seeded(2)).value
        == subject.finish(0, clip, entropy=Seeded(2)).value
    )


@BOTH
def test_costs_are_epsilon_split_and_known_before(estimator):
    subject = made(estimator)
    assert subject.cost.pure() == 1
    assert subject.search.cost.pure() == Fraction(35, 100)
    scan = subject.search.scan
    assert scan.threshold_noise.rate == RATIO * scan.noise.rate == 2 * Fraction(35, 300)
    assert (subject.search.cost.low, subject.search.cost.high) == (
        scan.noise.rate,
        3 * scan.noise.rate,
    )
    two = made(estimator, "replace-one", lower=None)
    assert two.cost.pure() == 1
    assert two.search.scan.noise.rate == Fraction(35, 400)
    rows = made(estimator, rows_per_unit=5)
    assert rows.search.scan.noise.rate == Fraction(7, 300)
    assert rows.cost == subject.cost
    share = made(estimator, clip_share=0.25)
    assert share.search.cost.pure() == Fraction(1, 4)
    assert made(estimator, epsilon=math.pi / 7).cost.pure() <= Fraction(repr(math.pi / 7))


@pytest.mark.parametrize("rows", [1, 4])
def test_the_tail_is_where_cutting_more_off_costs_what_it_saves(rows):
    """b + B, the noise and what is cut off, is least at a clip with rows / epsilon_s records beyond it."""
    subject = made(rows_per_unit=rows)
    saved = Fraction(65, 100)
    assert subject.search.tail == math.ceil(rows / saved)
    ends = np.sort(SKEWED)
    error = [rows * end / float(saved) + np.maximum(SKEWED - end, 0).sum() for end in ends]
    beyond = SKEWED.size - 1 - int(np.argmin(error))
    assert beyond in (subject.search.tail - 1, subject.search.tail)


def bound_of(subject, tests):
    clip = subject.search.clip(tests, simulated=True)
    return clip, subject.noise_for(clip)


def test_bounds_of_the_sum():
    clip, noise = bound_of(made(lower=None), (7,))
    assert -clip.low == clip.high
    assert noise.bound == clip.top, "add-remove: the larger end"
    clip, noise = bound_of(made(adjacency="replace-one", lower=None, rows_per_unit=3), (2, 9))
    assert clip.high > -2 * clip.low > 0
    assert noise.bound == 3 * (clip.top - clip.bottom), "replace-one: M (max(0, hi) - min(0, lo))"
    clip, noise = bound_of(made(adjacency="replace-one", rows_per_unit=3), (9,))
    assert clip.low == clip.bottom == 0
    assert noise.bound == 3 * clip.top


@pytest.mark.parametrize("tests", [(1,), (60,), (None,)])
def test_grids_of_records_and_of_noise(tests):
    clip, noise = bound_of(made(), tests)
    edge = made().grid.edges[-1 if tests[0] is None else tests[0] - 1]
    assert 1 << 31 <= clip.high < 1 << 32
    assert Fraction(edge) - clip.step < clip.high * clip.step <= Fraction(edge)
    width = 1 / float(noise.mechanism.noise.rate)
    assert 2**27 < width < 2**30
    assert float(width * noise.step) == pytest.approx(float(edge) / 0.65, rel=1e-3)
    assert noise.mechanism.cost.pure() <= Fraction(65, 100)


def test_the_expected_error_of_a_sum_is_that_of_the_formula():
    """E|Lap(b) - B| = B + b e^(-B/b); with b = 3 and B = 2 the oracle says 3.540251357098."""
    clip, _ = bound_of(made(), (40,))
    end = clip.high * clip.step
    noise = TotalNoise(
        budget=Pure(epsilon=end / 3),
        bound=clip.high,
        totals=1,
        record_step=clip.step,
        adjacency="add-remove",
    )
    rate, cut = float(noise.mechanism.noise.rate), round(2 / noise.step)
    r = math.exp(-rate)
    error = (cut + 2 * math.exp(-rate * (cut + 1)) / (1 + r) / -math.expm1(-rate)) * float(
        noise.step
    )
    assert error == pytest.approx(3.540251357098, rel=1e-6)
    drawn = np.array(
        noise.noisy([0], Seeded(1)) + tuple(noise.noisy([0], Seeded(i))[0] for i in range(2, 100))
    )
    assert np.abs(drawn - cut).mean() * float(noise.step) == pytest.approx(3.54, abs=1.2)


@BOTH
def test_the_figure_is_unbiased_given_the_clip_and_its_error_is_stated(estimator):
    subject, stream = made(estimator), Seeded(8)
    clip = subject.clip_from(BucketCounts.of(SKEWED, grid=subject.grid), entropy=stream)
    kept = np.clip(SKEWED, 0, clip.ends[1])
    total = int(np.floor(kept / float(clip.step)).sum())
    rest, wanted = (
        ((total,), kept.sum()) if estimator is ClippedSum else ((total, kept.size), kept.mean())
    )
    drawn = [subject.finish(*rest, clip, entropy=stream) for _ in range(100)]
    values = np.array([one.value for one in drawn])
    assert values.mean() == pytest.approx(wanted, abs=5 * values.std() / 10)
    assert values.std() == pytest.approx(np.mean([one.standard_error for one in drawn]), rel=0.3)
    ends = [one.interval_at(confidence=0.8) for one in drawn]
    covered = [low <= wanted <= high for low, high in ends]
    if estimator is ClippedSum:
        assert np.mean(covered) == pytest.approx(0.8, abs=0.1), "exact quantiles"
    else:
        assert np.mean(covered) > 0.75


@BOTH
def test_true_intervals_cover_the_figure_of_the_records_themselves(estimator):
    capped = np.minimum(SKEWED, 300)
    subject, stream = made(estimator, cap=300), Seeded(9)
    wanted = capped.sum() if estimator is ClippedSum else capped.mean()
    released = [subject.release(capped, entropy=stream) for _ in range(60)]
    lower = [one.true_interval(confidence=0.8)[0] <= wanted for one in released]
    assert np.mean(lower) > 0.8 - 0.15
    assert all(one.true_interval()[1] == math.inf for one in released)
    ends = [one.true_interval(confidence=0.8, within_cap=True) for one in released]
    assert np.mean([low <= wanted <= high for low, high in ends]) > 0.8
    signed = made(estimator, lower=None).release(SKEWED, entropy=stream)
    assert signed.true_interval() == (-math.inf, math.inf)


def test_the_count_beyond_the_clip_is_bounded_whatever_edge_was_found():
    """P(some test k has noise of at least ln(pi^2 k^2 / 6b) / rate) is at most b: summed here."""
    search = made().search
    rate, wrong = float(search.scan.noise.rate), Fraction(1, 20)
    chances = [
        math.exp(-rate * math.ceil(search.beyond(k, wrong) - search.tail)) for k in range(1, 5000)
    ]
    assert 0.4 * 0.05 < sum(chances) <= 0.05


def test_values_below_the_lower_end_and_above_the_cap_are_moved_to_it():
    subject = made(epsilon=50, lower=0, cap=10)
    for values in ([-5, 4] * 300, [0, 4] * 300, [None, 4] * 300, [math.nan, 4] * 300):
        assert subject.release(values, entropy=Seeded(2)).value == pytest.approx(1200, rel=0.05)
    assert subject.release([1e300] * 300, entropy=Seeded(2)).value == pytest.approx(3000, rel=0.05)
    assert subject.release([1e300] * 300, entropy=Seeded(2)).capped


def test_both_signs():
    values = np.concatenate([-SKEWED[:200], 3 * SKEWED[200:]])
    for adjacency in ("add-remove", "replace-one"):
        released = made(epsilon=20, adjacency=adjacency, lower=None).release(
            values, entropy=Seeded(4)
        )
        assert released.value == pytest.approx(values.sum(), rel=0.05)
    assert made(lower=None).search.sides == "magnitude"
    low, high = (
        made(adjacency="replace-one", epsilon=20, lower=None)
        .release(values, entropy=Seeded(4))
        .clip
    )
    assert high > -1.5 * low > 0
    limited = made(lower=-20.0).release(values, entropy=Seeded(4))
    assert limited.clip[0] == -20
    assert not limited.capped, "`lower` cuts off what it should"
    assert made(lower=-20.0).search.clip((None,), simulated=True).capped


def test_a_column_of_missing_values_and_negative_ones_is_not_taken_for_a_long_tail():
    """What is missing shares the lowest bucket with what is below the grid; neither may push the lower end out."""
    values = [None] * 300 + [-3.0, 4.0] * 100
    low, high = (
        made(epsilon=4, adjacency="replace-one", lower=None).release(values, entropy=Seeded(6)).clip
    )
    assert -20 < low < 0 < high < 20


BAD = [
    {"epsilon": 0},
    {"epsilon": math.nan},
    {"adjacency": "swap"},
    {"cap": 0},
    {"cap": -3},
    {"cap": math.inf},
    {"cap": None},
    {"lower": math.nan},
    {"growth": 1},
    {"growth": 0.5},
    {"unit": 0},
    {"rows_per_unit": 0},
    {"rows_per_unit": 1.5},
    {"clip_share": 0},
    {"clip_share": 1},
    {"growth": 1 + 1e-9},
    {"epsilon": 1e-12},
    {"epsilon": 1e60},
    {"cap": 1e300},
    {"cap": 1e-280, "unit": 1e-290},
]


@BOTH
@pytest.mark.parametrize("changed", BAD, ids=repr)
@pytest.mark.each_value
@pytest.mark.sample(3)
def test_bad_parameters_are_refused_at_once(estimator, changed):
    with pytest.raises(InvalidParameter):
        made(estimator, **changed)


def test_more_refusals():
    with pytest.raises(InvalidParameter, match="at most 0, or None"):
        made(lower=5)
    with pytest.raises(InvalidParameter, match="above lower"):
        made(ClippedMean, lower=5, cap=5)
    subject = made()
    with pytest.raises(InvalidParameter, match="one-dimensional"):
        subject.release(np.ones((2, 2)))
    with pytest.raises(InvalidParameter, match="numbers"):
        subject.release(np.array(["a"]))
    with pytest.raises(InvalidParameter, match="its own grid"):
        subject.clip_from(BucketCounts.empty(BucketGrid.geometric(lower=0, cap=5, growth=2)))
    clip = made(cap=1e5).clip_from(BucketCounts.empty(made(cap=1e5).grid))
    with pytest.raises(InvalidParameter, match="the same parameters"):
        subject.finish(3, clip)
    with pytest.raises(InvalidParameter, match="entropy"):
        subject.release([1], entropy=3)
    with pytest.raises(TypeError):
        ClippedSum(epsilon=1, adjacency="add-remove")  # no cap


@BOTH
def test_nothing_private_is_shown_and_real_noise_is_not_simulated(estimator):
    released = made(estimator).release([123.456] * 50, entropy=SYSTEM)
    assert not released.simulated
    assert "123.456" not in repr(released) + repr(released.found)
    assert "noisy" not in released.to_dict()
