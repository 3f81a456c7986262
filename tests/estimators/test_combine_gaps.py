"""The estimate from gaps and measurements against general least squares, its oracles, and what it promises after selection."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino import (
    COUNTING,
    InvalidParameter,
    LaplaceMechanism,
    NoisyTopK,
    Seeded,
    combine_gaps,
    interval,
)
from sordino.releases import TopK, Values


def selection_of(gaps, variance, k):
    mechanism = SimpleNamespace(noise=SimpleNamespace(variance=variance), step=1)
    gaps = np.array([*gaps, 3.0])
    return TopK(indices=np.arange(k), gaps=gaps, mechanism=mechanism, cost=None, simulated=True)


def measured(values, variance):
    return Values(
        values=np.array(values, dtype=float),
        standard_error=variance**0.5,
        mechanism=None,
        cost=None,
        simulated=True,
    )


def dense_least_squares(gaps, u, values, v):
    """Generalized least squares on the stacked gaps and measurements, with the full covariance of the gaps."""
    k = len(values)
    known = [i for i in range(k) if not np.isnan(values[i])]
    rows = [np.eye(k)[i] - np.eye(k)[i + 1] for i in range(k - 1)] + [np.eye(k)[i] for i in known]
    design = np.array(rows)
    observed = np.array([*gaps, *(values[i] for i in known)])
    covariance = np.zeros((len(rows), len(rows)))
    differences = design[: k - 1]
    covariance[: k - 1, : k - 1] = u * differences @ differences.T
    covariance[k - 1 :, k - 1 :] = v * np.eye(len(known))
    inverse = np.linalg.inv(covariance)
    information = np.linalg.inv(design.T @ inverse @ design)
    return information @ design.T @ inverse @ observed, np.diag(information)


number = st.floats(-50, 50)
positive = st.floats(0.1, 50)


@given(
    k=st.integers(1, 6),
    u=positive,
    v=positive,
    data=st.data(),
)
def test_equals_general_least_squares(k, u, v, data):
    gaps = data.draw(st.lists(st.floats(0, 50), min_size=k - 1, max_size=k - 1))
    values = np.array(data.draw(st.lists(number, min_size=k, max_size=k)))
    missing = data.draw(st.sets(st.integers(0, k - 1), max_size=k - 1))
    values[list(missing)] = np.nan
    got = combine_gaps(selection_of(gaps, u, k), measured(values, v))
    wanted, variances = dense_least_squares(gaps, u, values, v)
    assert got.values == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    assert got.variances == pytest.approx(variances, rel=1e-6)


@pytest.mark.parametrize(("k", "ratio"), [(10, 0.5), (1, 0.5), (3, 2.0)])
def test_the_closed_ratio_of_variances(k, ratio):
    v = 4.0
    estimates = combine_gaps(selection_of([1.0] * (k - 1), ratio * v, k), measured(range(k), v))
    assert estimates.variances / v == pytest.approx((1 + ratio * k) / (k + ratio * k))
    if (k, ratio) == (10, 0.5):
        assert estimates.variances[0] / v == pytest.approx(0.4)  # B1


@pytest.mark.slow
def test_unbiased_and_of_the_stated_variance_for_fixed_indices():
    q = np.array([5000.0, 4000.0, 3000.0])  # so far apart that the selection never changes
    entropy = Seeded(1)
    top = NoisyTopK(k=3, epsilon=0.3, sensitivity=COUNTING)
    fresh = LaplaceMechanism(epsilon=0.3, sensitivity=COUNTING.over(3))
    rows = []
    for _ in range(3000):
        estimates = combine_gaps(
            top.release([*q, 0], entropy=entropy), fresh.release(q, entropy=entropy)
        )
        rows.append(estimates.values - q)
    errors = np.array(rows)
    standard = np.sqrt(estimates.variances / 3000)
    assert (np.abs(errors.mean(axis=0)) < 6 * standard).all()
    assert errors.var(axis=0) == pytest.approx(estimates.variances, rel=0.25)
    assert (estimates.variances < 0.8 * fresh.release(q).standard_error ** 2).all()


def test_estimates_are_values():
    estimates = combine_gaps(selection_of([1.0], 1.0, 2), measured([3, 2], 1.0))
    assert repr(estimates).startswith("Estimates(values=[")
    assert json.dumps(estimates.to_dict())


def test_bad_measurements_are_refused():
    with pytest.raises(
        InvalidParameter, match="one measurement for each of the 2 selected items; got 3"
    ):
        combine_gaps(selection_of([1.0], 1.0, 2), measured([1, 2, 3], 1.0))
    with pytest.raises(InvalidParameter, match="at least one measurement that is not NaN"):
        combine_gaps(selection_of([1.0], 1.0, 2), measured([np.nan, np.nan], 1.0))


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("epsilon", [0.05, 1, 4])
@pytest.mark.each_value
def test_intervals_cover_by_the_exact_law_and_are_the_shortest_of_their_form(epsilon, confidence):
    release = LaplaceMechanism(epsilon=epsilon, sensitivity=COUNTING).release(7, entropy=Seeded(1))
    low, high = interval(release, confidence=confidence)
    law = release.mechanism.noise
    reach = round((high - low) / 2)
    assert law.cdf(reach) - law.cdf(-reach - 1) >= confidence - 1e-12
    assert reach == 0 or law.cdf(reach - 1) - law.cdf(-reach) < confidence
    assert (low + high) / 2 == release.value


def test_bad_confidence_is_refused():
    release = LaplaceMechanism(epsilon=1, sensitivity=COUNTING).release(7)
    for bad in (0, 1, 95, None):
        with pytest.raises(
            InvalidParameter, match=r"interval.confidence must be a number in \(0, 1\)"
        ):
            interval(release, confidence=bad)


def test_a_selection_without_gaps_is_refused():
    top = NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING, noise="gumbel").release([5, 9, 1])
    fresh = LaplaceMechanism(epsilon=1, sensitivity=COUNTING.over(2)).release([5, 9])
    with pytest.raises(InvalidParameter, match="combine_gaps needs a selection with gaps"):
        combine_gaps(top, fresh)


def zipf_counts():
    rng = np.random.Generator(np.random.PCG64(3))
    return np.sort(rng.permutation((30_000 / np.arange(1, 2001) ** 1.05).astype(int)))


@pytest.mark.slow
@pytest.mark.parametrize(("k", "epsilon"), [(24, 0.1), (10, 0.7)])
def test_intervals_cover_after_a_hard_selection(k, epsilon):
    """Zipf counts, so little epsilon that the selection is half noise: the interval still covers, the BLUE is biased upward."""
    q = zipf_counts()
    entropy = Seeded(9)
    top = NoisyTopK(k=k, epsilon=epsilon / 2, sensitivity=COUNTING)
    fresh = LaplaceMechanism(epsilon=epsilon / 2, sensitivity=COUNTING.over(k))
    covered = blue = 0
    runs = 400
    for _ in range(runs):
        selected = top.release(q, entropy=entropy)
        true = q[selected.indices]
        measurement = fresh.release(true, entropy=entropy)
        low, high = interval(measurement, confidence=0.95)
        covered += int(((low <= true) & (true <= high)).sum())
        estimates = combine_gaps(selected, measurement)
        reach = 1.96 * np.sqrt(estimates.variances)
        blue += int((np.abs(estimates.values - true) <= reach).sum())
    assert covered / (runs * k) >= 0.94
    if epsilon == 0.1:
        assert blue / (runs * k) < 0.9, (
            "the normal interval around the BLUE does not cover after selection: never print it"
        )
