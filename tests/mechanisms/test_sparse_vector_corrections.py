"""Splits and corrections: public constants, against quadrature in high precision, published optima and brute force."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize

from sordino import COUNTING, Seeded, Sensitivity, SparseVector
from sordino.mechanisms.crossings.split import (
    Task,
    best_correction,
    best_success,
    lead_probability,
    log_success,
    scales,
    stays,
    success_share,
    variance_share,
)

E, L = "exponential", "laplace"
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)


def density(family, scale, x):
    return mpmath.exp(-abs(x) / scale) / (2 * scale if family == L else scale)


def survival(family, scale, x):
    if x < 0:
        return 1 - mpmath.exp(x / scale) / 2 if family == L else mpmath.mpf(1)
    return mpmath.exp(-x / scale) / (2 if family == L else 1)


def by_quadrature(z, query, threshold):
    """P(X - Y >= z) as the integral of f_Y(y) S_X(z + y)."""
    ends = sorted(
        {mpmath.mpf(0), -mpmath.mpf(z), 200 * mpmath.mpf(threshold[1])}
        | ({-200 * mpmath.mpf(threshold[1])} if threshold[0] == L else set())
    )
    ends = [end for end in ends if threshold[0] == L or end >= 0]
    return mpmath.quad(lambda y: density(*threshold, y) * survival(*query, z + y), ends)


@pytest.mark.parametrize(("query", "threshold"), list(product((E, L), repeat=2)))
@pytest.mark.parametrize(("s", "b"), [(4, 2), (2, 2), (1, 3), (2, 2 + 1e-9), (1, 40)])
@pytest.mark.sample(4)
def test_every_pair_of_laws_has_its_closed_form(query, threshold, s, b):
    with mpmath.workdps(25):
        for z in (-30, -3, -1e-6, 0, 1e-6, 0.5, 3, 10, 60):
            exact = by_quadrature(z, (query, s), (threshold, b))
            assert lead_probability(z, (query, s), (threshold, b)) == pytest.approx(
                float(exact), rel=1e-12, abs=1e-15
            ), z
            assert stays(z, (query, s), (threshold, b)) == pytest.approx(
                float(1 - exact), rel=1e-9, abs=1e-15
            ), z


def test_oracles_of_the_difference():
    assert lead_probability(10, (E, 4), (L, 2)) == pytest.approx(0.106077691332, abs=1e-12)  # C1
    assert lead_probability(3, (E, 2), (L, 2)) == pytest.approx(
        0.334695240223, abs=1e-12
    )  # C3, equal scales
    assert lead_probability(0, (E, 4), (E, 2)) == pytest.approx(2 / 3, abs=1e-12)  # S1
    assert lead_probability(0, (E, 4), (L, 2)) == pytest.approx(5 / 6, abs=1e-12)  # S8
    assert lead_probability(-3, (L, 4), (L, 2.5)) == pytest.approx(0.708953793877, abs=1e-12)  # L1
    z = optimize.brentq(lambda z: lead_probability(z, (E, 4), (E, 2)) - 0.05, 0, 50)
    assert z == pytest.approx(10.3610686618, abs=1e-8)  # L2


def budgeted(c, w):
    """Scales of questions and threshold for epsilon 1, monotone."""
    return c * (1 + w) / w, 1 + w


@pytest.mark.parametrize(
    ("threshold", "w", "run", "expected"),
    [
        (L, (50 / math.sqrt(2)) ** (2 / 3), 200, 292.377992215),  # C4
        (L, 100 ** (2 / 3), 200, 288.207691461),  # C5
        (L, 100 ** (2 / 3), 825, 362.1615804),  # C6
        (E, 50 ** (2 / 3), 200, 271.810486935),  # C8
    ],
)
def test_oracles_of_the_best_correction(threshold, w, run, expected):
    s, b = budgeted(50, w)
    assert best_correction(run, 0, (E, s), (threshold, b)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("query", "threshold"), list(product((E, L), repeat=2)))
@pytest.mark.parametrize(
    ("run", "margin"), [(1, 0), (10, 0), (200, 0), (10, 1.0), (3, 9.0), (200, 4.0), (1, 50.0)]
)
@pytest.mark.parametrize(("s", "b"), [(4, 2), (3, 3), (1, 20)])
@pytest.mark.sample(4)
def test_no_correction_on_a_grid_is_better(query, threshold, run, margin, s, b):
    def value(r):
        below, above = (
            stays(r + margin, (query, s), (threshold, b)),
            lead_probability(r - margin, (query, s), (threshold, b)),
        )
        return run * math.log(below) + math.log(above) if below > 0 and above > 0 else -math.inf

    best = best_correction(run, margin, (query, s), (threshold, b))
    grid = np.linspace(-margin - 8 * (s + b), margin + 12 * (s + b), 3001)
    assert value(best) >= max(map(value, grid)) - 1e-9
    if margin == 0:  # k^k / (k + 1)^(k + 1), whatever the noise (C9)
        assert value(best) == pytest.approx(
            run * math.log(run) - (run + 1) * math.log(run + 1), abs=1e-9
        )


def test_a_constant_margin_only_shifts_exponential_noise():
    assert best_correction(100, 2.0, (E, 4), (E, 2)) == pytest.approx(
        best_correction(100, 0, (E, 4), (E, 2)) - 2
    )


def by_scipy(task, share, r):
    """The true probability of success, by adaptive quadrature: one threshold for all questions of a stage."""
    s, b = scales(task, share)
    stages = 1 if task.resample else task.positives

    def inside(rho):
        below, above = (
            float(survival(task.query, s, r + rho + sign * task.margin)) for sign in (1, -1)
        )
        return float(density(task.threshold, b, rho)) * ((1 - below) ** task.run * above) ** stages

    low = -60 * b if task.threshold == L else 0
    kinks = [x for x in (0, -r - task.margin, -r + task.margin) if low < x < 60 * b]
    total = sum(
        integrate.quad(inside, x, y, epsabs=1e-13, limit=200)[0]
        for x, y in zip([low, *sorted(kinks)], [*sorted(kinks), 60 * b], strict=True)
    )
    return total**task.positives if task.resample else total


@pytest.mark.parametrize("query", [E, L])
@pytest.mark.parametrize("threshold", [E, L])
@pytest.mark.parametrize("resample", [False, True])
def test_the_true_success_is_the_integral(query, threshold, resample):
    task = Task(query, threshold, 2, 3, resample, 20, 20.0)
    for share, r in ((0.2, 10.0), (0.5, 25.0), (0.4, -30.0)):
        assert math.exp(log_success(task, share, r)) == pytest.approx(
            by_scipy(task, share, r), rel=1e-5, abs=1e-12
        )


def test_oracle_of_the_true_success():
    task = Task(E, L, 2, 1, False, 10, 0.0)  # scales 4 and 2
    r = best_correction(10, 0, (E, 4), (L, 2))
    assert math.exp(log_success(task, 0.5, r)) == pytest.approx(0.0289486222218, abs=1e-9)  # C10
    assert stays(r, (E, 4), (L, 2)) ** 10 * lead_probability(r, (E, 4), (L, 2)) == pytest.approx(
        0.0350493899481, abs=1e-12
    )  # C9


@pytest.mark.parametrize(
    ("task", "variance", "success", "w"),
    [
        (Task(E, E, 1, 1, False, 20, 5.0), 0.6621, 0.7171, 1.79),
        (Task(E, L, 1, 1, False, 20, 5.0), 0.5290, 0.6041, 1.45),
        (Task(E, E, 1, 3, False, 20, 20.0), 0.9335, 0.9375, 2.68),
    ],
)
@pytest.mark.sample(4)
def test_splitting_for_success_beats_splitting_for_variance(task, variance, success, w):
    assert math.exp(best_success(task, variance_share(task))[0]) == pytest.approx(
        variance, abs=1e-4
    )
    share, r = success_share(task, None)
    assert math.exp(log_success(task, share, r)) == pytest.approx(success, abs=1e-4)
    assert 1 / share - 1 == pytest.approx(w, abs=0.05)


def total_variance(m):
    return float(m.noise.variance + m.threshold_noise.variance) * float(m.step) ** 2


REAL = Sensitivity(bound=1, monotone=True, adjacency="add-remove")


@pytest.mark.parametrize(("query", "threshold"), list(product((E, L), repeat=2)))
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("resample", [False, True])
def test_the_variance_split_has_the_least_variance(query, threshold, monotone, resample):
    make = lambda split: SparseVector(  # noqa: E731
        threshold=0,
        positives=20,
        epsilon=1,
        sensitivity=Sensitivity(bound=1, monotone=monotone, adjacency="add-remove"),
        noise=query,
        threshold_noise=threshold,
        resample=resample,
        split=split,
    )
    best = make("variance")
    theta = float(best.threshold_epsilon) * (20 if resample else 1)
    assert total_variance(best) <= min(
        total_variance(make(round(theta * f, 6))) for f in (0.8, 0.95, 1.05, 1.2)
    )


def test_oracles_of_the_variance():
    """V1, V2, V4: the variance of a comparison at the best split, and that split."""
    for threshold, expected in ((L, 3262.87136574), (E, 3094.32098904)):
        m = SparseVector(
            threshold=0, positives=50, epsilon=1, sensitivity=REAL, threshold_noise=threshold
        )
        assert total_variance(m) == pytest.approx(expected, rel=2e-5)  # rates are rounded down
    assert variance_share(Task(E, E, 2, 10, False)) == pytest.approx(0.119501968416, abs=1e-12)


def test_the_mechanism_adds_the_best_correction_for_its_own_noise():
    for options in ({}, {"threshold_noise": L}, {"noise": L}, {"correction_margin": 3}):
        m = SparseVector(
            threshold=0,
            positives=5,
            epsilon=1,
            sensitivity=COUNTING,
            correction="optimal",
            correction_run=200,
            **options,
        )
        query, threshold = ((law.name, float(1 / law.rate)) for law in (m.noise, m.threshold_noise))
        expected = best_correction(200, options.get("correction_margin", 0), query, threshold)
        assert float(m.threshold_correction) == pytest.approx(expected, rel=1e-9)
        assert m.cut().steps == math.ceil(m.threshold_correction)


@pytest.mark.slow
def test_the_mechanism_splits_for_success():
    options = {
        "threshold": 0,
        "positives": 1,
        "sensitivity": REAL,
        "correction_run": 20,
        "correction_margin": 2.5,
    }
    both = SparseVector(epsilon=2, split="success", correction="optimal", **options)
    assert 2 / float(both.threshold_epsilon) - 1 == pytest.approx(1.79, abs=0.05)
    share, r = success_share(Task(E, E, 1, 1, False, 20, 5.0), None)  # in units of bound/epsilon
    assert float(both.threshold_correction) == pytest.approx(r / 2)
    assert float(both.threshold_epsilon) == pytest.approx(2 * share, rel=1e-5)
    rule = SparseVector(epsilon=2, split="variance", correction="optimal", **options)

    def rate(m, runs=400):
        entropy = Seeded(3)
        return np.mean(
            [
                m.release([-2.5] * 20 + [2.5], entropy=entropy).indices.tolist() == [20]
                for _ in range(runs)
            ]
        )

    assert rate(both) == pytest.approx(0.7171, abs=6 * 0.5 / math.sqrt(400))
    assert rate(rule) == pytest.approx(0.66, abs=6 * 0.5 / math.sqrt(400))
    plain = SparseVector(epsilon=2, split="success", **options)
    assert plain.threshold_correction == 0
    assert plain.threshold_epsilon != both.threshold_epsilon


def test_shares_keep_twenty_digits_and_the_whole_budget():
    m = SparseVector(threshold=0, positives=50, epsilon=0.1, sensitivity=COUNTING)
    assert m.cost.pure() == Fraction(1, 10)
    assert m.threshold_epsilon / m.cost.pure() == pytest.approx(1 / (1 + 50 ** (2 / 3)), rel=1e-6)
    assert json.dumps(m.release([1], entropy=Seeded(1)).to_dict())
    third = SparseVector(
        threshold=0, positives=3, epsilon=1, sensitivity=EITHER, split=Fraction(1, 3)
    )
    assert (third.threshold_epsilon, third.positive_epsilon) == (Fraction(1, 3), Fraction(2, 9))


def test_corrections_are_quick():
    import time

    started = time.process_time()
    for _ in range(50):
        best_correction(200, 0, (E, 55.0), (L, 14.0))
    closed = (time.process_time() - started) / 50
    started = time.process_time()
    for _ in range(20):
        best_correction(200, 3.0, (L, 55.0), (L, 14.0))
    general = (time.process_time() - started) / 20
    assert closed < 0.02
    assert general < 0.25
