"""The mean of reports: unbiased, covered by its interval, and never made of what is no report."""

from __future__ import annotations

import json
import math

import mpmath
import numpy as np
import pytest

from sordino import (
    COUNTING,
    CompositeMechanism,
    CompositeTable,
    InvalidParameter,
    LaplaceMechanism,
    Seeded,
    mean_of_reports,
)
from sordino.estimators.reports import _bound_mean_error

MIXTURE = CompositeMechanism(lower=0, upper=10, epsilon=1, activation="mixture")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.zeros(40), id="low"),
        pytest.param(np.linspace(0, 10, 40), id="all"),
        pytest.param(np.full(40, 10.0), id="high", marks=pytest.mark.slow),
        pytest.param(np.full(40, 3.3), id="one", marks=pytest.mark.slow),
    ],
)
def test_unbiased_and_covered(values):
    """With 600 runs the mean of means is off by more than 6.2 of its standard errors with a probability below 1e-9."""
    noise, runs = Seeded(11), 600
    found = [mean_of_reports(MIXTURE.reports(values, entropy=noise)) for _ in range(runs)]
    error = math.sqrt(
        np.mean([MIXTURE.variance(at=v) for v in values.tolist()]) / values.size / runs
    )
    assert abs(np.mean([one.value for one in found]) - values.mean()) < 6.2 * error
    covered = np.mean(
        [one.interval[0] - 1e-9 <= values.mean() <= one.interval[1] + 1e-9 for one in found]
    )
    assert covered > 0.95, "at least 0.95 for certain, and in fact far more"
    assert all(one.standard_error == pytest.approx(found[0].standard_error) for one in found), (
        "few reports: the largest"
    )


def test_the_standard_error_of_many_reports_is_that_of_their_spread():
    reports = MIXTURE.reports(np.full(20_000, 5.0), entropy=Seeded(3))
    found = mean_of_reports(reports)
    assert found.standard_error == pytest.approx(
        math.sqrt(MIXTURE.variance(at=5) / 20_000), rel=0.03
    )
    assert found.standard_error <= reports.standard_error / math.sqrt(20_000)
    assert found.reports == 20_000
    assert json.loads(json.dumps(found.to_dict()))["value"] == found.value


@pytest.mark.parametrize("n", [1, 7, 300, 10**6])
@pytest.mark.parametrize("wrong", [0.05, 1e-6])
def test_the_interval_is_that_of_the_inequalities(n, wrong):
    """Reference: Bennett's function inverted with 40 digits."""
    variance, beyond, width = 9.5, 8.0, 14.0
    with mpmath.workdps(40):
        each = mpmath.log(2 / mpmath.mpf(wrong)) / n
        plainly = width * mpmath.sqrt(each / 2)

        def bits(t):
            u = beyond * t / mpmath.mpf(variance)
            return variance / mpmath.mpf(beyond) ** 2 * ((1 + u) * mpmath.log(1 + u) - u) - each

        low, high = mpmath.mpf(0), mpmath.mpf(1000)
        while high - low > mpmath.mpf("1e-20"):
            middle = (low + high) / 2
            low, high = (low, middle) if bits(middle) >= 0 else (middle, high)
        wanted = min(plainly, high)
    assert _bound_mean_error(
        n, variance=variance, beyond=beyond, width=width, wrong=wrong
    ) == pytest.approx(float(wanted), rel=1e-9)


def test_the_inequality_holds_for_the_law_itself():
    """The mean of three reports, enumerated: no more than `wrong` of it lies further away than the interval says."""
    mechanism = CompositeMechanism(lower=-1, upper=1, epsilon=2, activation="mixture", width=1.9)
    grid = mechanism.grid
    for value in (-1.0, 0.0, 1.0):
        law = np.array([float(p) for p in grid.law((value - grid.low) / grid.step)])
        outputs, probable = grid.outputs, law > 0
        spots, mass = (
            outputs[probable][::40],
            np.add.reduceat(law[probable], np.arange(0, probable.sum(), 40)),
        )
        spots = spots + (value - (spots * mass).sum())  # coarser, with the same mean
        two = np.add.outer(spots, spots).ravel()
        reach = _bound_mean_error(
            2,
            variance=grid.standard_error**2,
            beyond=2.2 * grid.outputs.max(),
            width=2.2 * grid.outputs.max(),
            wrong=0.05,
        )
        assert np.outer(mass, mass).ravel()[abs(two / 2 - value) > reach].sum() <= 0.05


def test_numbers_alone_and_those_of_a_table():
    table = CompositeTable(lower=0, upper=10, epsilon=1, inputs=5)
    for mechanism in (MIXTURE, table):
        reports = mechanism.reports([1, 2, 3] * 50, entropy=Seeded(5))
        alone = mean_of_reports(reports.values.tolist(), mechanism=mechanism)
        assert alone.to_dict() == mean_of_reports(reports).to_dict()
        assert mean_of_reports(reports, confidence=0.999).interval[1] >= alone.interval[1]
        for digits in (12, 8):
            rounded = [float(f"{value:.{digits}g}") for value in reports.values]
            assert mean_of_reports(rounded, mechanism=mechanism).value == pytest.approx(alone.value)
        ends = list(mechanism.output_range)
        assert mean_of_reports(ends, mechanism=mechanism).value == pytest.approx(5)


def test_what_is_refused():
    reports = MIXTURE.reports([1, 2], entropy=Seeded(5))
    folded = LaplaceMechanism(epsilon=1, sensitivity=COUNTING.over(2)).release(
        [1, 2], entropy=Seeded(1)
    )
    other = CompositeMechanism(lower=0, upper=10, epsilon=2)
    weaker = CompositeMechanism(lower=0, upper=10, epsilon=1.01, activation="mixture").reports(
        [5] * 40, entropy=Seeded(5)
    )
    for call, words in [
        (lambda: mean_of_reports(reports.values), "mechanism must be the CompositeMechanism"),
        (lambda: mean_of_reports(folded), "mechanism must be the CompositeMechanism"),
        (
            lambda: mean_of_reports(reports, mechanism=other),
            "must be the one that made the reports",
        ),
        (lambda: mean_of_reports([], mechanism=MIXTURE), "at least one number"),
        (lambda: mean_of_reports(["1"], mechanism=MIXTURE), "at least one number"),
        (lambda: mean_of_reports([[1.0]], mechanism=MIXTURE), "at least one number"),
        (lambda: mean_of_reports([math.nan], mechanism=MIXTURE), "another mechanism made them"),
        (lambda: mean_of_reports([1e9], mechanism=MIXTURE), "another mechanism made them"),
        (lambda: mean_of_reports([1.0], mechanism=MIXTURE), "another mechanism made them"),
        (
            lambda: mean_of_reports(reports.values.tolist() * 40, mechanism=other),
            "another mechanism made them",
        ),
        (lambda: mean_of_reports(weaker.values, mechanism=MIXTURE), "another mechanism made them"),
        (lambda: mean_of_reports(reports, confidence=1), "confidence must be"),
    ]:
        with pytest.raises(InvalidParameter, match=words):
            call()


def test_the_interval_rests_on_public_constants_only():
    """Which the largest variance over the range and the output range are; how the reports spread decides nothing about its width."""
    least, most = MIXTURE.output_range
    largest = max(MIXTURE.variance(at=v) for v in np.linspace(0, 10, 101).tolist())
    for values in (np.full(400, 5.0), np.repeat([0.0, 10.0], 200)):
        found = mean_of_reports(MIXTURE.reports(values, entropy=Seeded(3)))
        reach = _bound_mean_error(
            400, variance=largest, beyond=most - 0, width=most - least, wrong=0.05
        )
        assert found.interval == pytest.approx((found.value - reach, found.value + reach), rel=1e-6)
        assert found.standard_error <= math.sqrt(largest / 400) * (1 + 1e-9), (
            "also where the numbers are far apart"
        )


def test_the_interval_lies_in_the_range():
    least, most = MIXTURE.output_range
    for report, end in ((least, 0), (most, 10)):
        for n in (1, 5000):
            low, high = mean_of_reports([report] * n, mechanism=MIXTURE).interval
            assert 0 <= low <= end <= high <= 10
