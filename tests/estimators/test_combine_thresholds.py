"""Estimates from gaps to a noisy threshold and measurements: dense least squares, their exact covariances, oracles, and fixed indices."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino import (
    COUNTING,
    AdaptiveSparseVector,
    ExponentialMechanism,
    GaussianMechanism,
    GaussianSparseVector,
    GumbelSparseVector,
    HybridSparseVector,
    HybridTopK,
    InvalidParameter,
    LaplaceMechanism,
    NoisyTopK,
    Seeded,
    Sensitivity,
    SparseVector,
    combine_gaps,
)
from sordino.releases import HybridTop, Positives, Value, Values

NAN = math.nan


def law(variance):
    return SimpleNamespace(variance=variance, mean=0.0)


def positives(estimates, variances, shared, *, branches=None, resample=False):
    """What a sparse vector with noise of these variances, one for each branch, may release."""
    k = len(estimates)
    branches = np.zeros(k, dtype=np.int64) if branches is None else np.array(branches)
    mechanism = SimpleNamespace(
        branch_noise=tuple(map(law, variances)),
        threshold_noise=law(shared),
        resample=resample,
        step=Fraction(1),
    )
    none = {"mechanism": mechanism, "cost": None, "simulated": True}
    values = np.array(estimates, dtype=float)
    return Positives(
        indices=np.arange(k),
        gaps=values,
        branches=branches,
        passes=np.ones(k),
        asked=k,
        estimates=values,
        **none,
    )


def measured(values, variance):
    return Values(
        values=np.array(values, dtype=float),
        standard_error=variance**0.5,
        mechanism=None,
        cost=None,
        simulated=True,
    )


def solved(matrix, right):
    """Gaussian elimination in fractions: the solution X of matrix X = right."""
    n = len(matrix)
    rows = [
        list(map(Fraction, row)) + list(map(Fraction, more))
        for row, more in zip(matrix, right, strict=True)
    ]
    for i in range(n):
        pivot = next(j for j in range(i, n) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(n):
            if j != i and rows[j][i]:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[n:] for row in rows]


def dense(d, u, shared, measurements, v):
    """Generalized least squares in fractions with the full covariance, the shared noise in it: estimates and covariance."""
    k = len(d)
    seen = [i for i in range(k) if d[i] is not None]
    known = [i for i in range(k) if measurements[i] is not None]
    observed = [d[i] for i in seen] + [measurements[i] for i in known]
    design = [[int(i == j) for j in range(k)] for i in (*seen, *known)]
    covariance = [[Fraction(0)] * len(observed) for _ in observed]
    for a, i in enumerate(seen):
        for b in range(len(seen)):
            covariance[a][b] += shared
        covariance[a][a] += u[i]
    for a in range(len(seen), len(observed)):
        covariance[a][a] += v
    weighted = solved(covariance, [[*row, y] for row, y in zip(design, observed, strict=True)])
    product = [
        [sum(design[r][i] * weighted[r][c] for r in range(len(observed))) for c in range(k + 1)]
        for i in range(k)
    ]
    information, right = [row[:k] for row in product], [row[k:] for row in product]
    identity = [[int(i == j) for j in range(k)] for i in range(k)]
    return [row[0] for row in solved(information, right)], solved(information, identity)


whole = st.integers(-40, 40)
variance = st.integers(1, 30)


@given(data=st.data(), k=st.integers(1, 5), shared=variance, v=variance)
def test_equals_dense_least_squares_with_the_shared_noise(data, k, shared, v):
    d = data.draw(st.lists(whole, min_size=k, max_size=k))
    u = data.draw(st.lists(variance, min_size=k, max_size=k))
    measurements = data.draw(st.lists(st.one_of(st.none(), whole), min_size=k, max_size=k))
    got = combine_gaps(
        positives(d, u, shared, branches=range(k)),
        measured([NAN if m is None else m for m in measurements], v),
    )
    values, covariance = dense(d, u, shared, measurements, v)
    assert got.values == pytest.approx([float(value) for value in values])
    assert got.variances == pytest.approx([float(covariance[i][i]) for i in range(k)])


@given(data=st.data(), k=st.integers(1, 5), shared=variance, v=variance)
def test_positives_of_later_passes_have_their_measurement_only(data, k, shared, v):
    d = data.draw(st.lists(st.one_of(st.none(), whole), min_size=k, max_size=k))
    measurements = [
        data.draw(whole if d[i] is None else st.one_of(st.none(), whole)) for i in range(k)
    ]
    filled = [[NAN if x is None else x for x in row] for row in (d, measurements)]
    got = combine_gaps(positives(filled[0], [7], shared), measured(filled[1], v))
    values, covariance = dense(d, [7] * k, shared, measurements, v)
    assert got.values == pytest.approx([float(value) for value in values])
    assert got.variances == pytest.approx([float(covariance[i][i]) for i in range(k)])


@given(data=st.data(), k=st.integers(1, 5), shared=variance, v=variance)
def test_new_thresholds_share_nothing(data, k, shared, v):
    d = data.draw(st.lists(whole, min_size=k, max_size=k))
    measurements = data.draw(st.lists(st.one_of(st.none(), whole), min_size=k, max_size=k))
    got = combine_gaps(
        positives(d, [3], shared, resample=True),
        measured([NAN if m is None else m for m in measurements], v),
    )
    values, covariance = dense(d, [3 + shared] * k, 0, measurements, v)
    assert got.values == pytest.approx([float(value) for value in values])
    assert got.variances == pytest.approx([float(covariance[i][i]) for i in range(k)])


def test_neither_a_gap_nor_a_measurement():
    got = combine_gaps(positives([NAN, 4], [1], 2), measured([NAN, 5], 3))
    assert math.isnan(got.values[0])
    assert got.variances[0] == math.inf
    assert got.values[1] == pytest.approx(4.5)
    assert json.dumps(got.to_dict())


# The estimates are linear: their weights, read off one by one, give the exact covariance of the estimates.


def weights(selection_of, measurement_of, k):
    """The weights of the gaps and of the measurements in each estimate, shape (k, k) each."""
    units, zero = np.eye(k), np.zeros(k)
    return (
        np.column_stack(
            [combine_gaps(selection_of(unit), measurement_of(zero)).values for unit in units]
        ),
        np.column_stack(
            [combine_gaps(selection_of(zero), measurement_of(unit)).values for unit in units]
        ),
    )


@pytest.mark.parametrize("branches", [(0, 0, 0), (0, 1, 0)])
@pytest.mark.parametrize("missing", [None, 1])
def test_unbiased_with_the_stated_covariance(branches, missing):
    u, shared, v, k = np.array([2.0, 5.0])[list(branches)], 3.0, 4.0, 3
    seen = np.array([i != missing for i in range(k)])

    def measurement(values):
        return measured(np.where(seen, values, NAN), v)

    of_gaps, of_measurements = weights(
        lambda d: positives(d, [2, 5], shared, branches=branches), measurement, k
    )
    assert of_gaps + of_measurements == pytest.approx(np.eye(k)), (
        "right on average, whatever the answers are"
    )
    exact = of_gaps @ (np.diag(u) + shared) @ of_gaps.T + v * of_measurements @ of_measurements.T
    got = combine_gaps(
        positives([0.0] * k, [2, 5], shared, branches=branches), measurement(np.zeros(k))
    )
    assert np.diag(exact) == pytest.approx(got.variances)
    level = 1 / (1 / shared + (seen / (u + v)).sum())
    share = np.where(seen, v / (u + v), 1.0)
    apart = ~np.eye(k, dtype=bool)
    assert exact[apart] == pytest.approx((np.outer(share, share) * level)[apart]), "covariances"


def test_the_noise_of_the_threshold_counts():
    """Broken twins: the shared noise forgotten, or taken for noise of each gap; both are worse than they say or than they could be."""
    u, shared, v, k = 2.0, 3.0, 4.0, 4
    noise = np.diag([u] * k) + shared
    best = combine_gaps(positives([0.0] * k, [u], shared), measured([0.0] * k, v)).variances[0]

    def actual(twin):
        of_gaps, of_measurements = weights(twin, lambda values: measured(values, v), k)
        return (of_gaps @ noise @ of_gaps.T + v * of_measurements @ of_measurements.T)[0, 0]

    forgotten = combine_gaps(positives([0.0] * k, [u], 0.0), measured([0.0] * k, v)).variances[0]
    assert forgotten < best < actual(lambda d: positives(d, [u], 0.0))
    assert best < 0.95 * actual(lambda d: positives(d, [u], shared, resample=True))


# Oracles.


def test_an_item_that_was_not_measured():
    got = combine_gaps(positives([2.0, 0.5, -1.0], [2], 2), measured([1.0, NAN, -3.0], 3))
    assert got.values[1] == pytest.approx(
        -1 / 6
    )  # B4: 0.5 less 2/9 of what the two others are too high
    assert got.variances[1] == pytest.approx(28 / 9)  # B5


FINE = Sensitivity(bound=1, monotone=True, adjacency="add-remove")


@pytest.mark.parametrize(
    ("k", "each", "jointly"), [(5, 0.547190421496, 0.5209), (10, 0.4731, 0.4523)]
)
def test_the_joint_estimate_beats_one_estimate_for_each_question(k, each, jointly):
    m = SparseVector(threshold=0, positives=k, epsilon=Fraction(1, 2), sensitivity=FINE)
    fresh = LaplaceMechanism(
        epsilon=Fraction(1, 2),
        sensitivity=Sensitivity(bound=k, monotone=True, adjacency="add-remove", norm="l1", size=k),
    )
    found = m.release([10**6] * k, entropy=Seeded(1))
    measurement = fresh.release([10**6] * k, entropy=Seeded(2))
    v = measurement.standard_error**2
    u, shared = (noise.variance * float(m.step) ** 2 for noise in (m.noise, m.threshold_noise))
    assert (1 - v / (u + shared + v)) == pytest.approx(
        each, abs=1e-4
    )  # B6: the variance of each question by itself, over v
    got = combine_gaps(found, measurement)
    assert got.variances / v == pytest.approx(jointly, abs=1e-4)


# Real releases.


def far_above(mechanism, answers, measurement, runs, seed):
    """Errors of the estimates over many runs of a selection that always finds the same."""
    entropy, rows = Seeded(seed), []
    for _ in range(runs):
        selection = mechanism.release(answers, entropy=entropy)
        true = np.array(answers, dtype=float)[selection.indices]
        estimates = combine_gaps(selection, measurement.release(true, entropy=entropy))
        rows.append((estimates.values - true)[np.argsort(selection.indices)])
    return np.array(rows), estimates


EACH = COUNTING.over(3)
FRESH = LaplaceMechanism(epsilon=0.5, sensitivity=EACH)


@pytest.mark.parametrize(
    "mechanism",
    [
        SparseVector(threshold=100, positives=3, epsilon=0.5, sensitivity=COUNTING),
        SparseVector(
            threshold=100,
            positives=3,
            epsilon=0.5,
            sensitivity=COUNTING,
            resample=True,
            noise="laplace",
            correction=5,
        ),
        AdaptiveSparseVector(threshold=100, at_least=3, epsilon=0.5, sensitivity=COUNTING),
        HybridTopK(k=4, threshold=100, epsilon=0.5, sensitivity=COUNTING),
        HybridSparseVector(
            k=4, threshold=100, epsilon=0.5, sensitivity=COUNTING, threshold_noise="laplace"
        ),
    ],
    ids=["list", "new thresholds", "branches", "hybrid top-k", "hybrid sparse vector"],
)
@pytest.mark.sample(4)
def test_unbiased_for_fixed_indices(mechanism):
    errors, estimates = far_above(mechanism, [5000, 4000, 3000, -(10**6)], FRESH, 300, 3)
    deviation = np.sqrt(estimates.variances)
    assert (estimates.variances < FRESH.release([1, 2, 3]).standard_error ** 2).all()
    assert (np.abs(errors.mean(axis=0)) < 5 * deviation / math.sqrt(len(errors))).all()
    assert errors.std(axis=0) == pytest.approx(deviation, rel=0.2)


def test_an_adaptive_gap_has_the_variance_of_its_branch():
    m = AdaptiveSparseVector(
        threshold=100, at_least=2, epsilon=1, sensitivity=COUNTING, boundaries=(500, 0)
    )
    found = m.release([10_000, 300, 9000], entropy=Seeded(2))
    assert found.branches.tolist() == [0, 1, 0]
    nothing = measured([NAN] * 3, 1)
    got = combine_gaps(found, nothing)
    assert got.values.tolist() == pytest.approx(found.estimates.tolist())
    wanted = [m.branch_noise[branch].variance + m.threshold_noise.variance for branch in (0, 1, 0)]
    assert got.variances == pytest.approx(wanted)


def test_a_hybrid_that_did_not_meet_its_threshold_is_a_top_k():
    m = HybridTopK(k=2, threshold=0, epsilon=1, sensitivity=COUNTING)
    found = m.release([500, 300, 100], entropy=Seeded(1))
    assert isinstance(found, HybridTop)
    assert not found.crossed
    plain = NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING)
    assert plain.noise == m.noise
    same = replace(plain.release([500, 300, 100], entropy=Seeded(1)), gaps=found.gaps)
    fresh = measured([498, 305], 9)
    assert combine_gaps(found, fresh).values.tolist() == combine_gaps(same, fresh).values.tolist()
    with pytest.raises(InvalidParameter, match="at least one measurement that is not NaN"):
        combine_gaps(found, measured([NAN, NAN], 9))
    ended = HybridTopK(k=3, threshold=200, epsilon=1, sensitivity=COUNTING).release(
        [500, 300, 10], entropy=Seeded(1)
    )
    assert ended.crossed
    alone = combine_gaps(ended, measured([NAN, NAN], 9))
    assert alone.values.tolist() == pytest.approx(ended.estimates.tolist())
    assert alone.variances == pytest.approx(2 * ended.mechanism.noise.variance)


def test_one_number_and_gaussian_noise():
    m = SparseVector(threshold=100, positives=1, epsilon=1, sensitivity=COUNTING)
    found = m.release([5, 5000], entropy=Seeded(1))
    gaussian = GaussianMechanism(rho=0.1, sensitivity=COUNTING)
    one = gaussian.release(5000, entropy=Seeded(2))
    listed = GaussianMechanism(rho=0.1, sensitivity=COUNTING.over(1, "l2")).release(
        [5000], entropy=Seeded(2)
    )
    assert isinstance(one, Value)
    assert combine_gaps(found, one).values.tolist() == combine_gaps(found, listed).values.tolist()
    u, v = m.noise.variance + m.threshold_noise.variance, gaussian.noise.variance
    assert combine_gaps(found, one).variances == pytest.approx([u * v / (u + v)])


@pytest.mark.parametrize(
    "m",
    [
        GaussianSparseVector(threshold=100, positives=2, rho=1, sensitivity=COUNTING, questions=3),
        GumbelSparseVector(threshold=100, positives=2, epsilon=4, sensitivity=COUNTING),
    ],
    ids=lambda m: type(m).__name__,
)
def test_without_gaps_the_measurements_stand_alone(m):
    got = combine_gaps(m.release([500, 3, 600], entropy=Seeded(1)), measured([490, NAN], 2))
    assert got.values[0] == pytest.approx(490)
    assert got.variances[0] == pytest.approx(2)
    assert np.isnan(got.values[1])
    assert got.variances[1] == math.inf


def test_nothing_found():
    m = SparseVector(threshold=10**9, positives=2, epsilon=1, sensitivity=COUNTING)
    got = combine_gaps(m.release([1, 2], entropy=Seeded(1)), measured([], 1))
    assert got.values.shape == got.variances.shape == (0,)


@pytest.mark.parametrize(
    "step", [Fraction(1, 2**800), Fraction(1), Fraction(2**800)], ids=["small", "one", "large"]
)
def test_any_unit(step):
    statement = Sensitivity(bound=step, monotone=True, adjacency="add-remove", step=step)
    m = SparseVector(threshold=0, positives=2, epsilon=1, sensitivity=statement)
    fresh = LaplaceMechanism(
        epsilon=1, sensitivity=replace(statement, norm="l1", bound=2 * step, size=2)
    )
    answers = [300 * step, 200 * step]
    got = combine_gaps(
        m.release(answers, entropy=Seeded(1)), fresh.release(answers, entropy=Seeded(2))
    )
    assert np.isfinite(got.values).all()
    assert np.abs(got.values / float(step) - [300, 200]).max() < 40


def test_bad_arguments_are_refused():
    found = SparseVector(threshold=0, positives=1, epsilon=1, sensitivity=COUNTING).release(
        [500], entropy=Seeded(1)
    )
    choice = ExponentialMechanism(epsilon=1, sensitivity=COUNTING).release(
        [1, 2], entropy=Seeded(1)
    )
    for bad in (choice, None):
        with pytest.raises(
            InvalidParameter, match="selection must be a TopK, HybridTop, UnlistedTop or Positives"
        ):
            combine_gaps(bad, measured([1], 1))
    for bad in (
        found,
        None,
        [1.0],
        replace(measured([1], 1), standard_error=None),
        replace(measured([1], 1), standard_error=NAN),
    ):
        with pytest.raises(
            InvalidParameter,
            match="measurements must be what LaplaceMechanism or GaussianMechanism released",
        ):
            combine_gaps(found, bad)
    with pytest.raises(
        InvalidParameter, match="one measurement for each of the 1 selected items; got 2"
    ):
        combine_gaps(found, measured([1, 2], 1))
