"""Laws of the sparse vector on lists: same noise same release, units, shifts, anything private, costs, passes, what is refused."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import pickle
import traceback
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino import (
    COUNTING,
    AdaptiveSparseVector,
    InvalidParameter,
    Seeded,
    Sensitivity,
    SparseVector,
)
from sordino.constraints import POSITIVE
from sordino.mechanisms.crossings import crossings
from sordino.noise import DiscreteLaplace, Geometric
from support.fit import assert_convicted, assert_fits
from support.sparse_vectors import Rules, played

CANARY = 86753099173
N = 6


def each(bound=1, **changes):
    return Sensitivity(**({"bound": bound, "monotone": True, "adjacency": "add-remove"} | changes))


# name -> a function of the unit: answers and thresholds in another unit, noise in the same number of steps
MECHANISMS = {
    "exponential": lambda u: SparseVector(
        threshold=3 * u, positives=2, epsilon=1, sensitivity=each(u)
    ),
    "laplace": lambda u: SparseVector(
        threshold=0,
        positives=2,
        epsilon=1,
        sensitivity=each(u, monotone=False),
        noise="laplace",
        threshold_noise="laplace",
    ),
    "counting": lambda u: SparseVector(
        threshold=u / 2, positives=3, epsilon=0.5, sensitivity=each(u, step=u), split=0.3
    ),
    "resample": lambda u: SparseVector(
        threshold=9 * u, positives=3, epsilon=2, sensitivity=each(u, step=u), resample=True
    ),
    "appending": lambda u: SparseVector(
        threshold=90 * u, positives=3, epsilon=2, sensitivity=each(u, step=u), passes=4
    ),
    "optimal": lambda u: SparseVector(
        threshold=0,
        positives=1,
        epsilon=2,
        sensitivity=each(u),
        correction="optimal",
        correction_run=9,
        correction_margin=u / 4,
    ),
    "success": lambda u: SparseVector(
        threshold=0,
        positives=1,
        epsilon=2,
        sensitivity=each(u),
        split="success",
        correction_run=9,
        correction_margin=5 * u,
    ),
    "adaptive": lambda u: AdaptiveSparseVector(
        threshold=3 * u, at_least=1, epsilon=1, sensitivity=each(u)
    ),
    "three branches": lambda u: AdaptiveSparseVector(
        threshold=0,
        at_least=2,
        epsilon=3,
        sensitivity=each(u, monotone=False, step=u),
        branches=(2, 3, 7),
        noise="laplace",
    ),
    "adaptive, optimal": lambda u: AdaptiveSparseVector(
        threshold=-u,
        at_least=2,
        epsilon=2,
        sensitivity=each(u),
        correction="optimal",
        correction_run=9,
        threshold_noise="laplace",
    ),
    "adaptive, boundaries": lambda u: AdaptiveSparseVector(
        threshold=u / 2,
        at_least=2,
        epsilon=2,
        sensitivity=each(u),
        boundaries=(5 * u, -u),
        correction=u,
    ),
}
every = pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
answers = st.lists(st.integers(-40, 40), min_size=N, max_size=N)


def outcome(release):
    own = release.to_dict()
    return json.dumps(
        {key: own[key] for key in ("indices", "gaps", "branches", "passes", "asked", "cost")}
    )


@every
@given(values=answers, seed=st.integers(0, 99))
@pytest.mark.slow
def test_same_entropy_same_release(make, values, seed):
    m = make(1)
    assert outcome(m.release(values, entropy=Seeded(seed))) == outcome(
        m.release(np.array(values), entropy=Seeded(seed))
    )


@every
@given(values=answers, shift=st.integers(-500, 500), seed=st.integers(0, 99))
@pytest.mark.slow
def test_answers_and_thresholds_that_move_together_change_nothing(make, values, shift, seed):
    m = make(1)
    at = [m.threshold + shift] * N
    moved = m.release([x + shift for x in values], at, entropy=Seeded(seed))
    assert outcome(moved) == outcome(m.release(values, entropy=Seeded(seed)))
    known = np.isfinite(moved.gaps)
    assert np.allclose(
        moved.estimates[known],
        m.release(values, entropy=Seeded(seed)).estimates[known] + shift,
        rtol=0,
        atol=1e-9,
    )


@every
@given(values=answers, seed=st.integers(0, 99), power=st.integers(-8, 8))
@pytest.mark.slow
def test_unit(make, values, seed, power):
    unit = 2.0**power
    a, b = (
        make(1).release(values, entropy=Seeded(seed)),
        make(unit).release([x * unit for x in values], entropy=Seeded(seed)),
    )
    assert a.cost == b.cost
    assert a.indices.tolist() == b.indices.tolist()
    np.testing.assert_array_equal(a.gaps * unit, b.gaps)


@every
@given(
    values=st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=2)), min_size=N, max_size=N)
)
@pytest.mark.sample(4)
def test_total_on_anything(make, values):
    release = make(1).release(values, entropy=Seeded(1))
    json.dumps(release.to_dict())
    assert release.cost.pure() <= release.mechanism.cost.pure()


@every
def test_frozen_hashable_and_public_in_fields(make):
    m = make(1)
    assert m == make(1)
    assert hash(m) == hash(make(1))
    assert pickle.loads(pickle.dumps(m)) == m
    assert dataclasses.replace(m) == m
    assert "\n" not in repr(m)
    assert m.exact
    assert m.per_transcript is True
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.epsilon = 3
    asked = Fraction(str(m.epsilon))
    assert asked * Fraction(999, 1000) <= m.cost.pure() <= asked
    stages, price = m.tokens if m.resample else 1, m.branch_epsilons[0] / m.branch_tokens[0]
    assert m.cost.pure() == stages * m.threshold_epsilon + m.tokens * price
    bound = math.ceil(Fraction(m.sensitivity.bound) / m.step)
    assert m.threshold_epsilon == bound * m.threshold_noise.rate
    for law, cost, tokens in zip(m.branch_noise, m.branch_epsilons, m.branch_tokens, strict=True):
        assert cost == tokens * price == bound * (1 if m.sensitivity.monotone else 2) * law.rate


@every
def test_nothing_private_in_repr_pickle_exception_or_log(make, caplog):
    m = make(1)
    private = [CANARY, 1, 2, 3, 4, 5]
    with caplog.at_level(logging.DEBUG):
        release = m.release(private, entropy=Seeded(3))
    assert release.indices.tolist()[:1] == [0]
    kept = (
        pickle.dumps(m) + pickle.dumps(release) + (repr(m) + repr(release) + caplog.text).encode()
    )
    assert str(CANARY).encode() not in kept
    assert CANARY.to_bytes(8, "little") not in kept
    for bad in (
        np.array([private, private]),
        np.array(private, dtype="M8[s]"),
        np.array([str(CANARY)] * 3),
        {CANARY},
        str(CANARY),
    ):
        with pytest.raises(InvalidParameter) as caught:
            m.release(bad, entropy=Seeded(3))
        assert str(CANARY) not in "".join(traceback.format_exception(caught.value))
    for bad in (7, None):
        with pytest.raises(InvalidParameter, match="release needs entropy such as SYSTEM"):
            m.release(private, entropy=bad)


def test_it_says_when_it_is_simulated_and_when_not():
    m = MECHANISMS["counting"](1)
    assert m.release([1, 2], entropy=Seeded(1)).simulated
    assert not m.release([1, 2]).simulated


HIGH, LOW = 10**9, -(10**9)


def test_what_was_found_is_paid_for_and_what_was_asked_is_said():
    m = SparseVector(threshold=0, positives=2, epsilon=1, sensitivity=COUNTING, split=0.5)
    for values, found, asked in (
        ([LOW] * 5, [], 5),
        ([LOW, HIGH, LOW], [1], 3),
        ([LOW, HIGH, HIGH, HIGH], [1, 2], 3),
        ([HIGH, HIGH], [0, 1], 2),
        ([HIGH], [0], 1),
    ):
        release = m.release(values)
        assert release.indices.tolist() == found
        assert release.asked == asked
        assert release.cost.pure() == Fraction(1, 2) + len(found) * Fraction(1, 4)
        assert release.branches.tolist() == [0] * len(found)


def test_each_new_threshold_is_paid_for_once_it_was_met():
    m = SparseVector(
        threshold=0, positives=3, epsilon=6, sensitivity=COUNTING, split=0.5, resample=True
    )
    assert (m.threshold_epsilon, m.positive_epsilon) == (1, 1)
    for values, thresholds in (
        ([LOW], 1),
        ([HIGH], 1),
        ([HIGH, LOW], 2),
        ([HIGH, HIGH, LOW, HIGH, LOW], 3),
    ):
        release = m.release(values)
        assert release.cost.pure() == thresholds + release.indices.size


def test_later_passes_ask_what_was_below_and_keep_their_gaps_for_themselves():
    m = SparseVector(threshold=0, positives=4, epsilon=2, sensitivity=COUNTING, passes=50)
    release = m.release([HIGH, -3, LOW, HIGH], entropy=Seeded(2))
    assert release.indices.tolist()[:2] == [0, 3]
    assert release.passes.tolist()[:2] == [1, 1]
    assert 1 in release.indices.tolist(), "an answer just below is found in time"
    late = release.passes > 1
    assert np.isnan(release.gaps[late]).all()
    assert np.isnan(release.estimates[late]).all()
    assert np.isfinite(release.gaps[~late]).all()
    assert release.to_dict()["gaps"][-1] is None
    assert len(set(release.indices.tolist())) == release.indices.size
    assert m.release([HIGH, HIGH]).indices.tolist() == [0, 1]
    endless = SparseVector(threshold=0, positives=4, epsilon=2, sensitivity=COUNTING, passes=10**12)
    assert endless.release([HIGH, HIGH]).asked == 2, "nobody is left to ask"
    none = SparseVector(
        threshold=0, positives=1, epsilon=2, sensitivity=COUNTING, passes=3
    ).release([LOW, LOW])
    assert none.asked == 6


@pytest.mark.parametrize("correction", [None, 7, -7, 0.5])
@pytest.mark.parametrize("threshold", [0, 0.25, -13.7, 10])
@pytest.mark.each_value
def test_gaps_are_raw_and_at_least_the_correction(correction, threshold):
    m = SparseVector(
        threshold=threshold, positives=40, epsilon=40, sensitivity=COUNTING, correction=correction
    )
    release = m.release([12] * 100, entropy=Seeded(4))
    assert m.threshold_correction == (0 if correction is None else Fraction(str(correction)))
    assert release.gaps.size
    assert (release.gaps >= float(m.threshold_correction)).all()
    whole = release.gaps + threshold
    np.testing.assert_allclose(whole, np.round(whole), atol=1e-9)
    np.testing.assert_allclose(release.estimates, whole - m.noise.mean + m.threshold_noise.mean)


def test_thresholds_are_rounded_up_to_the_grid():
    for threshold, correction, unit, steps in (
        (0.25, 0, 1, 1),
        (-13.7, 0, 1, -13),
        (10, 0.5, 1, 11),
        (0.1, 0.1, 0.125, 2),
        (3, -3, 1, 0),
    ):
        m = SparseVector(
            threshold=threshold,
            positives=1,
            epsilon=1,
            sensitivity=each(unit, step=unit),
            correction=correction,
        )
        assert m.cut() == (steps, steps * Fraction(str(unit)) - Fraction(str(threshold)))
        assert m.cut(threshold) == m.cut()


@pytest.mark.slow
def test_estimates_are_centered_for_a_fixed_answer():
    m = SparseVector(threshold=0, positives=1, epsilon=1, sensitivity=COUNTING)
    entropy = Seeded(6)
    estimates = np.array([m.release([1000], entropy=entropy).estimates[0] for _ in range(2000)])
    error = math.sqrt((m.noise.variance + m.threshold_noise.variance) / estimates.size)
    assert abs(estimates.mean() - 1000) < 6 * error
    assert abs(estimates.std() ** 2 / (m.noise.variance + m.threshold_noise.variance) - 1) < 0.2


@pytest.mark.slow
def test_gaps_have_the_law_of_the_difference():
    m = SparseVector(
        threshold=0,
        positives=1,
        epsilon=1,
        sensitivity=COUNTING,
        noise="laplace",
        threshold_noise="laplace",
    )
    entropy = Seeded(8)
    gaps = np.array([m.release([1000], entropy=entropy).gaps[0] for _ in range(1000)]) - 1000
    law = DiscreteLaplace(m.noise.rate)
    assert abs(gaps.mean()) < 6 * math.sqrt((law.variance + m.threshold_noise.variance) / gaps.size)
    fixed = SparseVector(
        threshold=0, positives=1, epsilon=50, sensitivity=COUNTING, split=0.98
    )  # a threshold with hardly any noise
    lifts = np.array([fixed.release([1000], entropy=entropy).gaps[0] for _ in range(1000)]) - 1000
    assert_fits(Geometric(fixed.noise.rate), lifts.astype(np.int64))
    assert_convicted(Geometric(fixed.noise.rate * Fraction(5, 4)), lifts.astype(np.int64))


@pytest.mark.parametrize(
    "options", [{}, {"resample": True}, {"passes": 3}, {"passes": 3, "resample": True}], ids=str
)
@pytest.mark.slow
def test_blocks_are_only_a_matter_of_speed(monkeypatch, options):
    generator = np.random.default_rng(3)
    rules = Rules(None, None, positives=40, **options)
    for _ in range(40):
        q, rho, xi = (
            generator.integers(-30, 5, 50),
            generator.integers(0, 9, 50),
            generator.integers(0, 20, 150),
        )
        found = []
        for size in (1 << 16, 7, 1):
            monkeypatch.setattr(crossings, "_QUESTION_BLOCK", size)
            monkeypatch.setattr(crossings, "_FIRST_WINDOW", max(1, size // 3))
            found.append(played(q, rules, rho, xi))
        assert found[0] == found[1] == found[2]
        assert found[0][0]


@pytest.mark.parametrize(
    "kind",
    [
        list,
        tuple,
        np.array,
        lambda x: np.array(x, dtype=np.float64),
        lambda x: np.array(x, dtype=object),
    ],
)
def test_each_answer_may_have_its_threshold(kind):
    m = SparseVector(threshold=10**12, positives=3, epsilon=60, sensitivity=COUNTING)
    release = m.release([5, 500, 50, 5000], kind([1000, 100, 100, 4000]))
    assert release.indices.tolist() == [1, 3]
    assert m.release([5, 500, 50, 5000]).indices.tolist() == []
    assert np.allclose(release.gaps, [400, 1000], atol=20)


@pytest.mark.parametrize(
    "bad", [[1], [1, 2, 3], [[1, 2]], 3, "12", {1, 2}, np.array(5), {1: 2, 3: 4}]
)
def test_thresholds_of_another_length_are_refused(bad):
    with pytest.raises(
        InvalidParameter, match="thresholds must be a list of 2 numbers, one for each answer"
    ):
        MECHANISMS["counting"](1).release([1, 2], bad)


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, None, "1", True, 1e300, np.float64("nan"), np.float32("inf")]
)
def test_thresholds_are_finite_numbers(bad):
    with pytest.raises(
        InvalidParameter,
        match="SparseVector.release.thresholds must (be a finite number|lie within)",
    ):
        MECHANISMS["counting"](1).release([1, 2], [1, bad])
    if bad is not None:
        with pytest.raises(
            InvalidParameter, match="SparseVector.threshold must (be a finite number|lie within)"
        ):
            SparseVector(threshold=bad, positives=1, epsilon=1, sensitivity=COUNTING)


GOOD = {"threshold": 3, "positives": 2, "epsilon": 1, "sensitivity": COUNTING}
BAD = {
    "threshold": [None, math.nan, "3"],
    "positives": [0, -1, 1.5, None, True],
    "epsilon": [x for x in POSITIVE.invalid if x is not None] + [None, -0.5, "0.5"],
    "sensitivity": [None, 1, COUNTING.over(3)],
    "noise": ["gauss", None, 3],
    "threshold_noise": ["gumbel", 3],
    "split": [0, 1, -1, "even", math.nan, None],
    "correction": ["best", math.nan, math.inf],
    "passes": [0, 1.5, None],
    "resample": [None, 1],
    "domain_size": [0, -1, 1.5, True, 1 << 60],
}


@pytest.mark.parametrize(
    ("name", "bad"), [(name, bad) for name, values in BAD.items() for bad in values]
)
@pytest.mark.sample(4)
def test_bad_parameters(name, bad):
    with pytest.raises(InvalidParameter, match=rf"^SparseVector\.{name} must be .*; got "):
        SparseVector(**(GOOD | {name: bad}))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"correction": "optimal"}, "correction_run must be given"),
        ({"split": "success", "correction_margin": 1}, "correction_run must be given"),
        ({"split": "success", "correction_run": 5}, "correction_margin must be above 0"),
        (
            {"split": "success", "correction_run": 5, "correction_margin": 0},
            "correction_margin must be above 0",
        ),
        ({"correction_run": 5}, "must only be given with"),
        ({"correction": 3, "correction_margin": 5}, "must only be given with"),
        ({"correction": "optimal", "correction_run": 0}, "correction_run must be a whole number"),
        (
            {"correction": "optimal", "correction_run": 5, "correction_margin": -1},
            "correction_margin must be a number",
        ),
        ({"domain_size": 10, "passes": 2}, "passes must be 1 with a domain size"),
        ({"threshold": 2**53}, "within 2\\^52 steps"),
        ({"correction": -(2**53)}, "within 2\\^52 steps"),
        ({"epsilon": 10**400}, "rate of at most"),
        ({"epsilon": 1e-13, "positives": 10**6}, "rate of at least"),
        ({"sensitivity": each(10**400)}, "a grid whose step"),
        (
            {
                "sensitivity": each(Fraction(1, 10**400)),
                "split": "success",
                "correction_run": 1,
                "correction_margin": 1,
            },
            "a grid whose",
        ),
    ],
)
def test_parameters_that_exclude_each_other_or_the_grid_are_refused(options, says):
    with pytest.raises(InvalidParameter, match=says):
        SparseVector(**(GOOD | options))


def test_nothing_has_a_default():
    for left_out in GOOD:
        with pytest.raises(TypeError, match=left_out):
            SparseVector(**{name: value for name, value in GOOD.items() if name != left_out})


@pytest.mark.parametrize("epsilon", [709, 5000, 10**11])
def test_absurd_epsilons_compare_the_answers(epsilon):
    m = SparseVector(threshold=5, positives=2, epsilon=epsilon, sensitivity=COUNTING)
    assert m.release([4, 5, 3, 6]).indices.tolist() == [1, 3]
