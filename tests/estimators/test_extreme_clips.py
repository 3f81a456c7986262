"""Caps and units at the ends of what floats hold: refused when the estimator is made, or good for every clip that may be found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino import BucketCounts, ClippedMean, ClippedSum, ClippedVariance, Seeded
from sordino.errors import InvalidParameter

TINY = {
    "cap": 1e-267,
    "lower": 0,
    "unit": 1e-267,
    "growth": 2,
    "rows_per_unit": 100_000,
}  # noise of many rows has steps that are not too small


@pytest.mark.parametrize("estimator", [ClippedSum, ClippedMean, ClippedVariance])
@pytest.mark.parametrize(
    ("adjacency", "change"),
    [
        ("add-remove", {}),
        ("replace-one", {"cap": 1e-228, "lower": None, "unit": 1e-264}),
        ("add-remove", {"cap": 1e300}),
        ("replace-one", {"cap": 1.0, "lower": -1e300}),
    ],
)
@pytest.mark.each_value
def test_steps_that_no_record_can_be_counted_in_are_refused_at_once(estimator, adjacency, change):
    with pytest.raises(InvalidParameter, match="unit of the values"):
        estimator(epsilon=1e-3, adjacency=adjacency, **TINY | change)


@pytest.mark.parametrize("estimator", [ClippedSum, ClippedMean])
@pytest.mark.parametrize("cap", [1e-230, 1e250])
@pytest.mark.parametrize("lower", [0, None])
def test_what_is_accepted_is_released_wherever_the_search_ends(estimator, cap, lower):
    m = estimator(
        epsilon=1, adjacency="add-remove", cap=cap, lower=lower, growth=10, unit=cap * 1e-15
    )
    searches = len(m.search.runs(BucketCounts.empty(m.grid)))
    values = np.array(
        [cap, -cap, cap * 1e-14, 0.0, math.nan, math.inf, -math.inf, 5e-324, cap * 3] * 4
    )
    for tests in [
        (1,) * searches,
        (None,) * searches,
        (None, 1)[:searches],
        (1, None)[:searches],
        (3, 5)[:searches],
    ]:
        clip = m.search.clip(tests, simulated=True)
        assert all(isinstance(total, int) for total in m.totals(values, clip))
        many = (clip.high << 63,) if estimator is ClippedSum else (clip.high << 63, 1 << 63)
        found = m.finish(*many, clip, entropy=Seeded(1))
        assert all(map(math.isfinite, (found.value, found.standard_error, *found.interval)))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("cap", "fits"),
    [(1e-120, True), (1e150, True), (1e-150, False), (1e151, False), (1e200, False)],
)
@pytest.mark.parametrize("lower", [0, None])
@pytest.mark.each_value
def test_squares_that_are_no_floats_are_refused_when_the_variance_is_made(
    adjacency, cap, fits, lower
):
    """Otherwise the clip that is found, after the charge, would decide whether the release fails."""
    options = {
        "epsilon": 1e-6,
        "adjacency": adjacency,
        "cap": cap,
        "lower": lower,
        "growth": 10,
        "unit": cap * 1e-15,
    }
    if not fits:
        with pytest.raises(InvalidParameter, match="unit of the values"):
            ClippedVariance(**options)
        return
    m = ClippedVariance(**options)
    searches = len(m.search.runs(BucketCounts.empty(m.grid)))
    values = np.array(
        [cap, -cap, cap * 1e-14, 0.0, math.nan, math.inf, -math.inf, 5e-324, cap * 3] * 4
    )
    for tests in [(1,) * searches, (None,) * searches, (3, 5)[:searches]]:
        clip = m.search.clip(tests, simulated=True)
        for records in (values, []):
            found = m.finish(m.moments(records, clip), clip, entropy=Seeded(1))
            assert all(map(math.isfinite, (found.value, found.standard_deviation, *found.interval)))
            assert all(map(math.isfinite, found.true_interval(within_cap=True)))
