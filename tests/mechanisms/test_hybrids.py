"""The hybrids obey the laws of every mechanism, and a ledger gets back what they did not spend."""

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
    HybridSparseVector,
    HybridTopK,
    InvalidParameter,
    Ledger,
    Seeded,
    Sensitivity,
)
from sordino.constraints import POSITIVE

HIGH, LOW = 10**9, -(10**9)
CANARY = 86753099173
N = 6
HYBRIDS = {"HybridTopK": HybridTopK, "HybridSparseVector": HybridSparseVector}


def each(bound=1, **changes):
    return Sensitivity(**({"bound": bound, "monotone": True, "adjacency": "add-remove"} | changes))


# name -> a function of unit and threshold: answers in another unit, noise in the same number of steps
MECHANISMS = {
    "top": lambda unit, t: HybridTopK(k=2, threshold=t, epsilon=1, sensitivity=each(unit)),
    "top laplace": lambda unit, t: HybridTopK(
        k=3, threshold=t, epsilon=1, sensitivity=each(unit, monotone=False), noise="laplace"
    ),
    "top all": lambda unit, t: HybridTopK(
        k=N, threshold=t, epsilon=0.5, sensitivity=each(unit, step=unit)
    ),
    "sparse": lambda unit, t: HybridSparseVector(
        k=2, threshold=t, epsilon=1, sensitivity=each(unit)
    ),
    "sparse laplace": lambda unit, t: HybridSparseVector(
        k=3,
        threshold=t,
        epsilon=1,
        sensitivity=each(unit, step=unit, monotone=False),
        noise="laplace",
        threshold_noise="laplace",
    ),
    "sparse all": lambda unit, t: HybridSparseVector(
        k=N, threshold=t, epsilon=0.5, sensitivity=each(unit, step=unit), split=0.3
    ),
}
every = pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
answers = st.lists(st.integers(-1000, 1000), min_size=N, max_size=N)
thresholds = st.integers(-1000, 1000)


def outcome(release, unit=1, shift=0):
    kept = (release.indices.tolist(), (release.gaps / unit).tolist(), release.cost)
    centered = (release.estimates / unit - shift).tolist()
    return str((*kept, getattr(release, "crossed", None), centered))


@every
@given(values=answers, threshold=thresholds, seed=st.integers(0, 99))
def test_same_entropy_same_release(make, values, threshold, seed):
    m = make(1, threshold)
    assert outcome(m.release(values, entropy=Seeded(seed))) == outcome(
        m.release(np.array(values), entropy=Seeded(seed))
    )


@every
@given(values=answers, threshold=thresholds, shift=st.integers(-500, 500), seed=st.integers(0, 99))
@pytest.mark.sample(4)
def test_answers_and_threshold_move_together(make, values, threshold, shift, seed):
    a = make(1, threshold).release(values, entropy=Seeded(seed))
    b = make(1, threshold + shift).release([x + shift for x in values], entropy=Seeded(seed))
    assert a.indices.tolist() == b.indices.tolist()
    assert a.gaps.tolist() == b.gaps.tolist()
    assert (
        np.allclose(b.estimates - a.estimates, shift, atol=1e-6, equal_nan=True)
        or np.isnan(a.estimates).all()
    )


@every
@given(values=answers, threshold=thresholds, seed=st.integers(0, 99), power=st.integers(-8, 8))
def test_unit(make, values, threshold, seed, power):
    unit = 2.0**power
    a = make(1, threshold).release(values, entropy=Seeded(seed))
    b = make(unit, threshold * unit).release([x * unit for x in values], entropy=Seeded(seed))
    assert outcome(a) == outcome(b, unit)


@every
@given(
    values=st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=2)), min_size=N, max_size=N)
)
def test_total_on_anything(make, values):
    m = make(1, 0)
    release = m.release(values, entropy=Seeded(1))
    json.dumps(release.to_dict())
    assert release.cost == m.spent(release.indices.size)
    assert release.cost.pure() <= m.cost.pure()


@every
def test_frozen_hashable_and_public_in_fields(make):
    m = make(1, 7)
    assert m == make(1, 7)
    assert m != make(1, 8)
    assert hash(m) == hash(make(1, 7))
    assert pickle.loads(pickle.dumps(m)) == m
    assert dataclasses.replace(m) == m
    assert "\n" not in repr(m)
    assert m.exact
    assert m.per_transcript
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.epsilon = 3
    asked = Fraction(str(m.epsilon))
    assert asked * Fraction(999, 1000) <= m.cost.pure() <= asked
    for bad in (7, None, "seed"):
        with pytest.raises(
            InvalidParameter, match="release needs entropy such as SYSTEM or Seeded"
        ):
            m.release(range(N), entropy=bad)


@every
def test_simulated_shows_on_the_result(make):
    seeded = make(1, 0).release(range(N), entropy=Seeded(1))
    assert seeded.simulated
    assert "simulated" in repr(seeded)
    assert not make(1, 0).release(range(N)).simulated


@every
def test_nothing_private_in_repr_pickle_exception_or_log(make, caplog):
    m = make(1, 0)
    private = [CANARY, 1, 2, 3, 4, 5]
    with caplog.at_level(logging.DEBUG):
        release = m.release(private, entropy=Seeded(3))
    kept = pickle.dumps(m) + repr(m).encode() + caplog.text.encode()
    assert str(CANARY).encode() not in kept + repr(release).encode()
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
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


BAD = {
    "k": [0, -1, 1.5, None, True, math.nan],
    "threshold": [math.nan, math.inf, None, "3", 1 << 80],
    "epsilon": [x for x in POSITIVE.invalid if x is not None] + [None, -0.5, "0.5"],
    "sensitivity": [None, 1, "counting", COUNTING.over(3), COUNTING.over(3, "l2")],
    "noise": ["gauss", "gumbel", None, 3],
    "domain_size": [0, -1, 1.5, True, 1],
}


@pytest.mark.parametrize("name", HYBRIDS)
@pytest.mark.parametrize(
    ("parameter", "bad"), [(name, bad) for name, values in BAD.items() for bad in values]
)
@pytest.mark.each_value
@pytest.mark.sample(3)
def test_bad_parameters(name, parameter, bad):
    with pytest.raises(InvalidParameter, match=rf"^{name}\.(k|{parameter}) must .*; got "):
        HYBRIDS[name](
            **({"k": 2, "threshold": 3, "epsilon": 1, "sensitivity": COUNTING} | {parameter: bad})
        )


@pytest.mark.parametrize("bad", [0, 1, -0.5, "success", "half", None, math.nan])
def test_bad_splits(bad):
    with pytest.raises(InvalidParameter, match=r"^HybridSparseVector\.split must "):
        HybridSparseVector(k=2, threshold=3, epsilon=1, sensitivity=COUNTING, split=bad)
    with pytest.raises(InvalidParameter, match=r"^HybridSparseVector\.threshold_noise must "):
        HybridSparseVector(
            k=2, threshold=3, epsilon=1, sensitivity=COUNTING, threshold_noise="gumbel"
        )


@pytest.mark.parametrize("name", HYBRIDS)
def test_k_beyond_the_answers_is_refused(name):
    known = {"k": 3, "threshold": 0, "epsilon": 1, "sensitivity": COUNTING}
    with pytest.raises(
        InvalidParameter, match=rf"{name}.k must be at most the number of answers 2; got 3"
    ):
        HYBRIDS[name](**known).release([1, 2])
    with pytest.raises(
        InvalidParameter, match=rf"{name}.k must be at most the domain size 2; got 3"
    ):
        HYBRIDS[name](**known, domain_size=2)
    with pytest.raises(InvalidParameter, match="takes positions only when domain_size was given"):
        HYBRIDS[name](**known).release([1, 2, 3], positions=[0, 1, 2])
    with pytest.raises(InvalidParameter, match="needs positions"):
        HYBRIDS[name](**known, domain_size=9).release([1, 2, 3])


@pytest.mark.parametrize("name", HYBRIDS)
@pytest.mark.parametrize("epsilon", [709, 5000, 10**12])
def test_much_epsilon_is_the_answer(name, epsilon):
    m = HYBRIDS[name](k=3, threshold=5, epsilon=epsilon, sensitivity=COUNTING)
    release = m.release([5, 9, 4, 7])
    assert release.indices.tolist() == [1, 3, 0], "an item at the threshold lies above it"
    assert (
        release.estimates.tolist() == [9, 7, 5]
        if name == "HybridSparseVector"
        else not release.crossed
    )
    short = m.release([1, 9, 4, 2])
    assert short.indices.tolist() == [1]
    assert short.estimates == pytest.approx([9])
    assert short.cost == m.spent(1)
    if name == "HybridTopK":
        assert (short.crossed, short.gaps.tolist(), short.threshold_margin) == (True, [4], 0)


@pytest.mark.parametrize("name", HYBRIDS)
def test_nothing_above_is_a_release_like_any_other(name):
    m = HYBRIDS[name](k=2, threshold=10**6, epsilon=1, sensitivity=COUNTING)
    release = m.release([3, 4, 5])
    assert release.indices.shape == release.gaps.shape == release.estimates.shape == (0,)
    assert release.cost == m.spent(0)
    assert 0 < m.spent(0).pure() < m.cost.pure()


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(
        str(tmp_path / "budget.db"),
        account="a",
        budget=Budget(epsilon=2),
        adjacency="add-remove",
        unit="user",
        source="orders",
    )


TOP = HybridTopK(k=4, threshold=0, epsilon=1, sensitivity=COUNTING)
LIFTED = HybridSparseVector(k=3, threshold=0, epsilon=1, sensitivity=COUNTING, split=0.25)


@pytest.mark.parametrize(
    ("m", "values", "found", "spent"),
    [
        (TOP, [LOW] * 5, 0, Fraction(1, 4)),
        (TOP, [LOW, HIGH, LOW, 2 * HIGH], 2, Fraction(3, 4)),
        (TOP, [HIGH] * 5, 4, 1),
        (LIFTED, [LOW] * 5, 0, Fraction(1, 4)),
        (LIFTED, [LOW, HIGH, LOW, 2 * HIGH], 2, Fraction(3, 4)),
        (LIFTED, [HIGH] * 5, 3, 1),
    ],
)
def test_what_was_not_found_returns(ledger, m, values, found, spent):
    with ledger.reserve(m, label="top") as charge:
        assert ledger.remaining == 1
        release = charge.release(m, values)
    assert release.indices.size == found
    assert ledger.remaining == 2 - spent == 2 - release.cost.pure()


@pytest.mark.parametrize("name", HYBRIDS)
def test_positions_go_through_a_charge(ledger, name):
    wide = HYBRIDS[name](k=2, threshold=10**6, epsilon=1, sensitivity=COUNTING, domain_size=10**12)
    with ledger.reserve(wide, label="wide") as charge:
        assert charge.release(wide, [HIGH], positions=[77]).indices.tolist() == [77]
    exactly = 2 - wide.spent(1).pure()
    assert exactly - Fraction(2, 10**9) <= ledger.remaining <= exactly, (
        "a ledger counts in nanos, rounded up"
    )


@pytest.mark.parametrize("m", [TOP, LIFTED])
def test_another_meter_gives_nothing_back(tmp_path, m):
    ledger = Ledger.create(
        str(tmp_path / "rho.db"),
        account="a",
        budget=Budget(epsilon=20, delta=1e-6, meter="zcdp"),
        adjacency="add-remove",
        unit="user",
        source="orders",
    )
    before = ledger.remaining
    with ledger.reserve(m, label="top") as charge:
        charge.release(m, [LOW] * 9)
    assert before - ledger.remaining >= m.cost.zcdp() > m.spent(0).zcdp()
