"""Laws of the sparse vectors without gaps on lists: same entropy same release, units, anything private, costs, what is refused."""

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
    Budget,
    GaussianSparseVector,
    GumbelSparseVector,
    InvalidParameter,
    Ledger,
    Seeded,
    Sensitivity,
)
from sordino.constraints import POSITIVE
from sordino.cost import RDP, Pure
from sordino.ledger.amounts import amount_of, nano_up
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric

CANARY = 86753099173
N, HIGH, LOW = 6, 10**9, -(10**9)


def each(bound=1, **changes):
    return Sensitivity(**({"bound": bound, "monotone": True, "adjacency": "add-remove"} | changes))


MECHANISMS = {
    "gaussian": lambda u: GaussianSparseVector(
        threshold=3 * u, positives=2, rho=1, sensitivity=each(u), questions=N
    ),
    "gaussian general": lambda u: GaussianSparseVector(
        threshold=0,
        positives=3,
        rho=0.25,
        sensitivity=each(u, monotone=False, step=u),
        questions=50,
        split=0.3,
    ),
    "gaussian exponential": lambda u: GaussianSparseVector(
        threshold=u / 2,
        positives=2,
        rho=0.5,
        epsilon=1,
        sensitivity=each(u, step=u),
        noise="exponential",
    ),
    "gaussian laplace": lambda u: GaussianSparseVector(
        threshold=0,
        positives=2,
        rho=0.5,
        epsilon=0.5,
        sensitivity=each(u),
        noise="laplace",
        questions=N,
    ),
    "gumbel": lambda u: GumbelSparseVector(
        threshold=3 * u, positives=2, epsilon=2, sensitivity=each(u)
    ),
    "gumbel general": lambda u: GumbelSparseVector(
        threshold=0, positives=3, epsilon=3, sensitivity=each(u, monotone=False, step=u)
    ),
}
every = pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
answers = st.lists(st.integers(-40, 40), min_size=N, max_size=N)


def outcome(release):
    own = release.to_dict()
    return json.dumps({key: own[key] for key in ("indices", "gaps", "asked", "cost")})


@every
@given(values=answers, seed=st.integers(0, 99))
def test_same_entropy_same_release(make, values, seed):
    m = make(1)
    assert outcome(m.release(values, entropy=Seeded(seed))) == outcome(
        m.release(np.array(values), entropy=Seeded(seed))
    )


@every
@given(values=answers, shift=st.integers(-500, 500), seed=st.integers(0, 99))
def test_answers_and_thresholds_that_move_together_change_nothing(make, values, shift, seed):
    m = make(1)
    moved = m.release([x + shift for x in values], [m.threshold + shift] * N, entropy=Seeded(seed))
    assert outcome(moved) == outcome(m.release(values, entropy=Seeded(seed)))


@every
@given(values=answers, seed=st.integers(0, 99), power=st.integers(-8, 8))
def test_unit(make, values, seed, power):
    unit = 2.0**power
    a, b = (
        make(1).release(values, entropy=Seeded(seed)),
        make(unit).release([x * unit for x in values], entropy=Seeded(seed)),
    )
    assert outcome(a) == outcome(b)


@every
@given(
    values=st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=2)), min_size=N, max_size=N)
)
def test_total_on_anything(make, values):
    release = make(1).release(values, entropy=Seeded(1))
    assert release.to_dict()["gaps"] == [None] * release.indices.size
    assert np.isnan(release.estimates).all()


@every
def test_frozen_hashable_and_public_in_fields(make):
    m = make(1)
    assert m == make(1)
    assert hash(m) == hash(make(1))
    assert pickle.loads(pickle.dumps(m)) == m
    assert dataclasses.replace(m) == m
    assert "\n" not in repr(m)
    assert m.exact
    assert m.per_transcript is isinstance(m, GumbelSparseVector)
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.threshold = 3


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
        {CANARY},
        str(CANARY),
    ):
        with pytest.raises(InvalidParameter) as caught:
            m.release(bad, entropy=Seeded(3))
        assert str(CANARY) not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(InvalidParameter, match="release needs entropy such as SYSTEM"):
        m.release(private, entropy=7)


@every
def test_what_is_far_is_found_and_what_is_low_is_not(make):
    m = make(1)
    release = m.release([LOW, HIGH, LOW, HIGH, LOW])
    assert release.indices.tolist() == [1, 3]
    assert release.asked == (4 if m.positives == 2 else 5)
    assert not release.simulated
    assert m.release([LOW]).indices.size == 0
    assert m.release([5, 500, 50, 5000], [10**5, 100, 10**5, 10]).indices.tolist() == [1, 3]


def test_what_a_gumbel_transcript_spent():
    m = GumbelSparseVector(threshold=0, positives=3, epsilon=6, sensitivity=COUNTING)
    assert (m.threshold_epsilon, m.positive_epsilon) == (1, 1)
    for values, thresholds in (([LOW], 1), ([HIGH], 1), ([HIGH, LOW], 2), ([HIGH, HIGH, LOW], 3)):
        release = m.release(values)
        assert release.cost.pure() == thresholds + release.indices.size
    assert m.release([HIGH] * 3).cost == m.cost


def test_the_rates_are_what_the_cost_says():
    m = GaussianSparseVector(threshold=0, positives=4, rho=1, sensitivity=COUNTING, questions=10)
    assert isinstance(m.noise, DiscreteGaussian)
    assert m.cost.rho == m.threshold_noise.rate + 4 * m.noise.rate == 1
    assert m.cost.choices == 1 + 9 + 36 + 84 + 126
    assert float(m.threshold_noise.rate) == pytest.approx(1 / 3, abs=1e-5), "1/(1 + sqrt(4))"
    for noise, law in (("exponential", Geometric), ("laplace", DiscreteLaplace)):
        pure = GaussianSparseVector(
            threshold=0,
            positives=4,
            rho=1,
            epsilon=2,
            sensitivity=each(monotone=False, step=1),
            noise=noise,
        )
        assert isinstance(pure.noise, law)
        assert (pure.threshold_noise.rate, pure.noise.rate) == (1, Fraction(1, 4))
        assert pure.cost == RDP(rho=1, constant=2)
    wide = GaussianSparseVector(threshold=0, positives=1, rho=1, sensitivity=each(), questions=10)
    assert wide.cost.rho <= 1
    assert wide.cost.rho > Fraction(999, 1000)


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("c", [1, 9])
def test_the_variance_split_has_the_least_variance(monotone, c):
    def variance(split):
        known = {
            "threshold": 0,
            "positives": c,
            "rho": 1,
            "sensitivity": each(monotone=monotone),
            "questions": 100,
        }
        m = GaussianSparseVector(**known, split=split)
        return (m.noise.variance + m.threshold_noise.variance) * float(m.step) ** 2, float(
            m.threshold_noise.rate * (1 / m.step) ** 2
        )

    best, share = variance(None)
    assert variance("variance") == (best, share)
    assert share == pytest.approx(1 / (1 + (1 if monotone else 2) * math.sqrt(c)), rel=1e-4)
    assert best <= min(variance(round(share * f, 6))[0] for f in (0.8, 0.95, 1.05, 1.2))


def test_more_answers_than_questions_are_refused():
    m = MECHANISMS["gaussian"](1)
    with pytest.raises(
        InvalidParameter, match=f"at most {N} answers, as many as `questions` says; got {N + 1}"
    ):
        m.release([1] * (N + 1))
    unbounded = MECHANISMS["gaussian exponential"](1)
    assert unbounded.release([LOW] * 1000).asked == 1000


def test_a_gaussian_sparse_vector_has_no_place_in_a_pure_ledger(tmp_path):
    ledger = Ledger.create(
        str(tmp_path / "budget.db"),
        account="a",
        budget=Budget(epsilon=3),
        adjacency="add-remove",
        unit="user",
        source="made up",
    )
    with pytest.raises(InvalidParameter), ledger.reserve(MECHANISMS["gaussian"](1), label="no"):
        pass
    with ledger.reserve(MECHANISMS["gumbel"](1), label="yes") as charge:
        charge.release(MECHANISMS["gumbel"](1), [LOW] * 3)
    assert ledger.remaining == 3 - Fraction(1, 2), "only the threshold was spent"


@pytest.mark.parametrize(
    "values", [[LOW], [HIGH], [HIGH, LOW], [HIGH, HIGH]], ids=["none", "last", "one", "all"]
)
def test_a_zcdp_ledger_takes_every_transcript_and_gives_nothing_back(tmp_path, values):
    """The pure bound of the transcript with one positive of two, 3 epsilon_0, is worth more than the whole, two stages."""
    ledger = Ledger.create(
        str(tmp_path / "budget.db"),
        account="a",
        budget=Budget(epsilon=9, delta=1e-6, meter="zcdp"),
        adjacency="add-remove",
        unit="user",
        source="made up",
    )
    before, m = (
        ledger.remaining,
        GumbelSparseVector(threshold=0, positives=2, epsilon=Fraction(4, 10), sensitivity=COUNTING),
    )
    with ledger.reserve(m) as charge:
        assert charge.release(m, values).indices.size == values.count(HIGH)
    assert before - ledger.remaining == amount_of(nano_up(m.cost.zcdp()))
    assert m.cost.zcdp() < Fraction(2, 100) * Fraction(229, 1000) < Pure(epsilon=0.3).zcdp()


GAUSSIAN = {"threshold": 3, "positives": 2, "rho": 1, "sensitivity": COUNTING, "questions": 9}
GUMBEL = {"threshold": 3, "positives": 2, "epsilon": 1, "sensitivity": COUNTING}
BAD = {
    "threshold": [None, math.nan, "3"],
    "positives": [0, -1, 1.5, None, True],
    "sensitivity": [None, 1, COUNTING.over(3)],
}
SIZES = [x for x in POSITIVE.invalid if x is not None] + [None, -0.5, "0.5"]
ONLY_GAUSSIAN = {
    "noise": ["gauss", None, 3],
    "questions": [0, -1, 1.5, True, 1 << 60],
    "split": [0, 1, "even", math.nan],
    "rho": SIZES,
}
REFUSED = [
    *(
        (GaussianSparseVector, GAUSSIAN, name, bad)
        for name, values in (BAD | ONLY_GAUSSIAN).items()
        for bad in values
    ),
    *(
        (GumbelSparseVector, GUMBEL, name, bad)
        for name, values in (BAD | {"epsilon": SIZES}).items()
        for bad in values
    ),
]


@pytest.mark.parametrize(("cls", "good", "name", "bad"), REFUSED)
@pytest.mark.sample(4)
def test_bad_parameters(cls, good, name, bad):
    with pytest.raises(InvalidParameter, match=rf"^{cls.__name__}\.{name} must be .*; got "):
        cls(**(good | {name: bad}))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"questions": None}, "questions must be given with noise='gaussian'"),
        ({"epsilon": 1}, "epsilon must only be given with noise='exponential' or 'laplace'; got 1"),
        ({"noise": "laplace"}, "epsilon must be given with noise='laplace'"),
        ({"noise": "laplace", "epsilon": 0}, "epsilon must be a number in"),
        (
            {"noise": "exponential", "epsilon": 1, "split": 0.5},
            "split must only be given with noise='gaussian'",
        ),
        ({"positives": 5000}, "positives must be at most 4096 with noise='gaussian'; got 5000"),
        ({"threshold": 2**53}, "within 2\\^52 steps"),
    ],
)
def test_parameters_that_exclude_each_other_are_refused(options, says):
    with pytest.raises(InvalidParameter, match=rf"^GaussianSparseVector\.{says}|{says}"):
        GaussianSparseVector(**(GAUSSIAN | options))


def test_thresholds_beyond_the_clamp_are_refused():
    with pytest.raises(InvalidParameter, match="GumbelSparseVector.threshold must lie within"):
        GumbelSparseVector(**(GUMBEL | {"threshold": 2**53}))
    for m in (GumbelSparseVector(**GUMBEL), GaussianSparseVector(**GAUSSIAN)):
        name = type(m).__name__
        with pytest.raises(
            InvalidParameter,
            match=f"{name}.release.thresholds must (be a finite number|lie within)",
        ):
            m.release([1, 2], [1, math.nan])
        with pytest.raises(InvalidParameter, match="thresholds must be a list of 2 numbers"):
            m.release([1, 2], [1])
