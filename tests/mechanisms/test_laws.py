"""Laws that every mechanism obeys, run over all of them."""

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
    SYSTEM,
    Choice,
    ExponentialMechanism,
    GaussianMechanism,
    InvalidParameter,
    JointTopK,
    LaplaceMechanism,
    NoisyTopK,
    PermuteAndFlip,
    RandomizedResponse,
    Seeded,
    Sensitivity,
    StepSelection,
)
from sordino.constraints import POSITIVE

CANARY = 86753099173
N = 6


def each(bound=1, **changes):
    return Sensitivity(**({"bound": bound, "monotone": True, "adjacency": "add-remove"} | changes))


# name -> a function of the unit: answers in another unit, noise in the same number of steps
MECHANISMS = {
    "top exponential": lambda unit: NoisyTopK(k=2, epsilon=1, sensitivity=each(unit)),
    "top laplace": lambda unit: NoisyTopK(
        k=2, epsilon=1, sensitivity=each(unit, monotone=False), noise="laplace"
    ),
    "top counting": lambda unit: NoisyTopK(k=3, epsilon=0.5, sensitivity=each(unit, step=unit)),
    "top gumbel": lambda unit: NoisyTopK(k=2, epsilon=1, sensitivity=each(unit), noise="gumbel"),
    "joint set": lambda unit: JointTopK(k=2, epsilon=1, sensitivity=each(unit)),
    "joint counting": lambda unit: JointTopK(k=4, epsilon=0.5, sensitivity=each(unit, step=unit)),
    "exponential": lambda unit: ExponentialMechanism(epsilon=1, sensitivity=each(unit)),
    "exponential index": lambda unit: ExponentialMechanism(
        epsilon=1, sensitivity=each(unit, step=unit, monotone=False), gap=False
    ),
    "permute and flip": lambda unit: PermuteAndFlip(epsilon=1, sensitivity=each(unit)),
    "step": lambda unit: StepSelection(epsilon=1, sensitivity=each(unit, monotone=False)),
    "step counting": lambda unit: StepSelection(epsilon=0.5, sensitivity=each(unit, step=unit)),
    "response": lambda unit: RandomizedResponse(epsilon=1),  # it knows no unit
    "top all": lambda unit: NoisyTopK(k=N, epsilon=0.5, sensitivity=each(unit, step=unit)),
    "laplace": lambda unit: LaplaceMechanism(
        epsilon=0.3, sensitivity=each(unit, step=unit).over(N)
    ),
    "laplace real": lambda unit: LaplaceMechanism(
        epsilon=0.3, sensitivity=each(2 * unit, norm="l1", size=N)
    ),
    "gaussian": lambda unit: GaussianMechanism(
        rho=0.3, sensitivity=each(unit, step=unit).over(N, "l2")
    ),
    "gaussian real": lambda unit: GaussianMechanism(
        rho=0.3, sensitivity=each(2 * unit, norm="l2", size=N)
    ),
}
ADDITIVE = LaplaceMechanism | GaussianMechanism
every = pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
answers = st.lists(st.integers(-1000, 1000), min_size=N, max_size=N)


def outcome(release):
    own = release.to_dict()
    return json.dumps(
        {
            key: own[key]
            for key in own
            if key in {"indices", "index", "gaps", "gap", "value", "values", "cost"}
        }
    )


@every
@given(values=answers, seed=st.integers(0, 99))
@pytest.mark.sample(4)
def test_same_entropy_same_release(make, values, seed):
    m = make(1)
    assert outcome(m.release(values, entropy=Seeded(seed))) == outcome(
        m.release(np.array(values), entropy=Seeded(seed))
    )


@every
@given(values=answers, shift=st.integers(-500, 500), seed=st.integers(0, 99))
@pytest.mark.sample(4)
def test_shift(make, values, shift, seed):
    m = make(1)
    a, b = (m.release(v, entropy=Seeded(seed)) for v in (values, [x + shift for x in values]))
    if not isinstance(m, ADDITIVE):
        assert outcome(a) == outcome(b)
    else:
        assert (b.values - a.values).tolist() == [shift] * N


@every
@given(values=answers, seed=st.integers(0, 99), power=st.integers(-8, 8))
@pytest.mark.sample(4)
def test_unit(make, values, seed, power):
    unit = 2.0**power
    a, b = (
        make(1).release(values, entropy=Seeded(seed)),
        make(unit).release([x * unit for x in values], entropy=Seeded(seed)),
    )
    assert a.cost == b.cost
    if isinstance(a.mechanism, JointTopK):
        assert a.indices.tolist() == b.indices.tolist()
    elif isinstance(a.mechanism, NoisyTopK):
        assert a.indices.tolist() == b.indices.tolist()
        assert (a.gaps * unit).tolist() == b.gaps.tolist()
    elif isinstance(a, Choice):
        assert (a.index, a.gap and a.gap * unit) == (b.index, b.gap)
    else:
        assert (a.values * unit).tolist() == b.values.tolist()


@every
@given(
    values=st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=2)), min_size=N, max_size=N)
)
@pytest.mark.sample(4)
def test_total_on_anything(make, values):
    release = make(1).release(values, entropy=Seeded(1))
    json.dumps(release.to_dict())
    assert release.cost == release.mechanism.cost


@every
def test_frozen_hashable_and_public_in_fields(make):
    m = make(1)
    assert m == make(1)
    assert hash(m) == hash(make(1))
    assert pickle.loads(pickle.dumps(m)) == m
    assert "\n" not in repr(m)
    assert m.exact
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.epsilon = 3
    amount = m.cost.pure() if m.cost.pure() != math.inf else m.cost.zcdp()
    asked = Fraction(str(getattr(m, "epsilon", None) or m.rho))
    assert asked * Fraction(999, 1000) <= amount <= asked


@every
def test_replace_and_entropy(make):
    m = make(1)
    assert dataclasses.replace(m) == m
    assert json.dumps(m.release(range(N), entropy=Seeded(1)).to_dict())
    for bad in (7, None, "seed"):
        with pytest.raises(
            InvalidParameter, match="release needs entropy such as SYSTEM or Seeded"
        ):
            m.release(range(N), entropy=bad)


@every
def test_simulated_shows_on_the_result(make):
    assert make(1).release(range(N), entropy=Seeded(1)).simulated
    assert "simulated" in repr(make(1).release(range(N), entropy=Seeded(1)))
    assert not make(1).release(range(N)).simulated
    assert not make(1).release(range(N), entropy=SYSTEM).simulated


@every
def test_nothing_private_in_repr_pickle_exception_or_log(make, caplog):
    m = make(1)
    private = [CANARY, 1, 2, 3, 4, 5]
    with caplog.at_level(logging.DEBUG):
        release = m.release(private, entropy=Seeded(3))
    kept = (
        pickle.dumps(m) + pickle.dumps(release) + (repr(m) + repr(release) + caplog.text).encode()
    )
    assert str(CANARY).encode() not in kept
    assert CANARY.to_bytes(8, "little") not in kept
    assert np.float64(CANARY).tobytes() not in kept
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
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_permutation_of_the_decision():
    from sordino.mechanisms.noisy_top_k import decide

    rng = np.random.Generator(np.random.PCG64(1))
    for _ in range(200):
        noisy = rng.permutation(np.arange(0, 60, 7))
        order = rng.permutation(noisy.size)
        winners, gaps = decide(noisy, 3)
        moved, moved_gaps = decide(noisy[order], 3)
        assert order[moved].tolist() == winners.tolist()
        raw = -np.diff(np.sort(noisy)[::-1])[:3]
        assert (gaps[:2] == raw[:2]).all()
        assert (moved_gaps[:2] == raw[:2]).all()
        assert raw[2] - 1 <= gaps[2] <= raw[2]


BAD = {
    "k": [0, -1, 1.5, None, True, math.nan],
    "epsilon": [x for x in POSITIVE.invalid if x is not None] + [None, -0.5, "0.5"],
    "sensitivity": [None, 1, "counting", COUNTING.over(3), COUNTING.over(3, "l2")],
    "noise": ["gauss", None, 3],
    "domain_size": [0, -1, 1.5, True, 1],
}


@pytest.mark.parametrize(
    ("name", "bad"), [(name, bad) for name, values in BAD.items() for bad in values]
)
@pytest.mark.sample(3)
def test_bad_parameters_of_noisy_top_k(name, bad):
    with pytest.raises(InvalidParameter, match=rf"^NoisyTopK\.(k|{name}) must be .*; got "):
        NoisyTopK(**({"k": 2, "epsilon": 1, "sensitivity": COUNTING} | {name: bad}))


@pytest.mark.parametrize("cls", [LaplaceMechanism, GaussianMechanism])
def test_bad_parameters_of_additive_mechanisms(cls):
    name = "epsilon" if cls is LaplaceMechanism else "rho"
    for bad in [*POSITIVE.invalid, -0.5]:
        with pytest.raises(
            InvalidParameter, match=rf"^{cls.__name__}\.{name} must be a number in \(0, inf\); got "
        ):
            cls(**{name: bad, "sensitivity": COUNTING})
    with pytest.raises(
        InvalidParameter, match=rf"^{cls.__name__}\.sensitivity must be a Sensitivity"
    ):
        cls(**{name: 1, "sensitivity": 1})


def test_nothing_has_a_default_epsilon_or_sensitivity():
    for cls in (
        NoisyTopK,
        LaplaceMechanism,
        GaussianMechanism,
        ExponentialMechanism,
        JointTopK,
        PermuteAndFlip,
        RandomizedResponse,
        StepSelection,
    ):
        with pytest.raises(TypeError):
            cls()
        with pytest.raises(TypeError):
            cls(1, 2, 3)


def test_k_beyond_the_answers_is_refused():
    with pytest.raises(
        InvalidParameter, match="NoisyTopK.k must be at most the number of answers 2; got 3"
    ):
        NoisyTopK(k=3, epsilon=1, sensitivity=COUNTING).release([1, 2])
    with pytest.raises(
        InvalidParameter, match="NoisyTopK.domain_size must be None with Gumbel noise; got 9"
    ):
        NoisyTopK(k=3, epsilon=1, sensitivity=COUNTING, domain_size=9, noise="gumbel")
    with pytest.raises(
        InvalidParameter, match="NoisyTopK.k must be at most the domain size 2; got 3"
    ):
        NoisyTopK(k=3, epsilon=1, sensitivity=COUNTING, domain_size=2)


@pytest.mark.parametrize(
    ("make", "norm", "wrong"),
    [
        (lambda s: LaplaceMechanism(epsilon=1, sensitivity=s), "l1", "l2"),
        (lambda s: GaussianMechanism(rho=1, sensitivity=s), "l2", "l1"),
    ],
)
def test_a_vector_needs_a_statement_about_its_norm(make, norm, wrong):
    assert make(COUNTING).release(3).value is not None
    assert make(COUNTING.over(1, wrong)).release(3).value is not None, "one number fits any norm"
    for statement in (COUNTING, COUNTING.over(3, wrong)):
        with pytest.raises(
            InvalidParameter, match=rf"only under a statement about their {norm.upper()} norm"
        ):
            make(statement).release([1, 2, 3])
    with pytest.raises(InvalidParameter, match="a statement about 2 answers; got 3"):
        make(COUNTING.over(2, norm)).release([1, 2, 3])
    with pytest.raises(InvalidParameter, match="how many answers are rounded"):
        make(each(1, norm=norm)).release([1, 2, 3])
    assert make(COUNTING.over(3, norm)).release([1, 2, 3]).values.shape == (3,)


def test_two_neighbours_that_differ_in_k_counts_pay_for_k():
    # the law behind the refusal: one unit moves all k counts, and noise for one of them would cost k times epsilon
    k = 5
    right = LaplaceMechanism(epsilon=1, sensitivity=COUNTING.over(k)).noise
    wrong = LaplaceMechanism(epsilon=1, sensitivity=COUNTING).noise
    loss = lambda law: float(k * np.log(law.pmf(0) / law.pmf(1)))  # noqa: E731
    assert loss(right) == pytest.approx(1)
    assert loss(wrong) == pytest.approx(k)


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(("bound", "step"), [(1.5, 1), (1.1, None), (3, 2), (0.7, None)])
def test_the_cost_is_that_of_the_moves_on_the_grid(bound, step, monotone):
    statement = each(bound, step=step, monotone=monotone)
    for k in (1, 3):
        m = NoisyTopK(k=k, epsilon=1, sensitivity=statement)
        moves = math.ceil(Fraction(str(bound)) / m.step) * (1 if monotone else 2)
        assert m.cost.pure() == k * moves * m.noise.rate
    one = LaplaceMechanism(epsilon=1, sensitivity=statement)
    assert one.cost.pure() == math.ceil(Fraction(str(bound)) / one.step) * one.noise.rate


def test_the_cost_is_that_of_the_rounded_rate():
    epsilon = Fraction(2, 3**30)  # no such rate fits a denominator of 2^40
    for m in (
        NoisyTopK(k=1, epsilon=Fraction(1, 3) + epsilon, sensitivity=COUNTING),
        LaplaceMechanism(epsilon=Fraction(1, 3) + epsilon, sensitivity=COUNTING),
    ):
        assert m.cost.pure() == m.noise.rate < Fraction(1, 3) + epsilon


@pytest.mark.parametrize("epsilon", [709, 720, 800, 5000, 10**12])
def test_absurd_epsilons_release_the_answer(epsilon):
    assert LaplaceMechanism(epsilon=epsilon, sensitivity=COUNTING).release(5).value == 5
    assert NoisyTopK(k=1, epsilon=epsilon, sensitivity=COUNTING).release(
        [5, 9]
    ).indices.tolist() == [1]


@pytest.mark.parametrize("rho", [10**12, Fraction(1, 10**20)])
def test_absurd_rhos(rho):
    m = GaussianMechanism(rho=rho, sensitivity=COUNTING)
    assert m.cost.zcdp() <= Fraction(rho)
    m.release(5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LaplaceMechanism(epsilon=1e-7, sensitivity=each(1.1)),
        lambda: NoisyTopK(k=1000, epsilon=1e-3, sensitivity=each(1.1)),
        lambda: LaplaceMechanism(epsilon=1, sensitivity=each(1.0, norm="l1", size=10**6)),
        lambda: LaplaceMechanism(epsilon=5e-324, sensitivity=COUNTING),
        lambda: LaplaceMechanism(epsilon=3e18, sensitivity=COUNTING),
        lambda: NoisyTopK(k=1, epsilon=10**400, sensitivity=COUNTING),
        lambda: GaussianMechanism(rho=1e308, sensitivity=COUNTING),
        lambda: LaplaceMechanism(epsilon=1, sensitivity=each(2**2000, step=2**2000)),
        lambda: LaplaceMechanism(epsilon=1, sensitivity=each(10**400)),
        lambda: NoisyTopK(k=1, epsilon=1, sensitivity=each(Fraction(1, 10**400))),
        lambda: GaussianMechanism(rho=1, sensitivity=each(10**400)),
        lambda: GaussianMechanism(rho=Fraction(1, 10**400), sensitivity=COUNTING),
    ],
)
def test_noise_that_would_be_far_from_ideal_is_refused(make):
    with pytest.raises(
        InvalidParameter,
        match="more noise than|noise with a rate of at|a grid whose step lies between",
    ):
        make()
