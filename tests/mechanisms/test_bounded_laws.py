"""What holds for every mechanism whose releases stay within a declared range: total, repeatable, public in its fields, charged like all."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sordino import (
    COUNTING,
    Budget,
    CompositeMechanism,
    CompositeTable,
    FoldedMechanism,
    InvalidParameter,
    Ledger,
    Seeded,
    Sensitivity,
    interval,
)

CANARY = 86753099173
REAL = Sensitivity(bound=2, monotone=False, adjacency="replace-one")
LINE = {"lower": -3, "upper": 10, "epsilon": 1}
MECHANISMS = {
    "folded counts": FoldedMechanism(**LINE, sensitivity=COUNTING),
    "folded": FoldedMechanism(**LINE, sensitivity=REAL, margin=5),
    "folded stairs": FoldedMechanism(**LINE, sensitivity=REAL, noise="staircase"),
    "composite": CompositeMechanism(**LINE),
    "composite mixture": CompositeMechanism(**LINE, activation="mixture", tuned_for=0.9),
    "composite table": CompositeTable(**LINE, inputs=5),
    "composite quartic": CompositeMechanism(**LINE, activation="sine", base="quartic", width=0.7),
}
every = pytest.mark.parametrize("m", MECHANISMS.values(), ids=MECHANISMS)
anything = st.one_of(
    st.floats(), st.integers(), st.fractions(), st.decimals(), st.none(), st.booleans()
)


@every
@settings(max_examples=40)
@given(value=anything, seed=st.integers(0, 9))
@pytest.mark.sample(4)
def test_total_within_the_range_and_repeatable(m, value, seed):
    released = m.release(value, entropy=Seeded(seed))
    assert m.output_range[0] <= released.value <= m.output_range[1]
    assert released.value == m.release(value, entropy=Seeded(seed)).value
    assert json.loads(json.dumps(released.to_dict()))["simulated"]
    assert released.cost == m.cost
    assert released.standard_error == m.release(0, entropy=Seeded(seed)).standard_error, (
        "it does not depend on the answer"
    )


@every
def test_beyond_the_range_is_its_end(m):
    for far, end in (
        (1e300, 10),
        (math.inf, 10),
        (10**30, 10),
        (-1e300, -3),
        (math.nan, -3),
        (None, -3),
    ):
        for seed in range(6):  # some of which move the answer back into the range
            assert (
                m.release(far, entropy=Seeded(seed)).value
                == m.release(end, entropy=Seeded(seed)).value
            )


@every
def test_one_value_in_many_types_is_one_value(m):
    values = [2.5, Fraction(5, 2), np.float64(2.5), np.float32(2.5), np.array(2.5)]
    assert len({m.release(value, entropy=Seeded(4)).value for value in values}) == 1


@every
def test_frozen_hashable_and_public_in_fields(m):
    again = pickle.loads(pickle.dumps(m))
    assert again == m
    assert hash(again) == hash(m)
    assert m.exact
    assert "\n" not in repr(m)
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.epsilon = 2
    with pytest.raises(TypeError):
        type(m)()
    assert all(isinstance(value, float) for value in m.parameters.values())


@every
def test_nothing_private_in_a_picture_or_an_error(m):
    released = m.release(CANARY, entropy=Seeded(1))
    assert str(CANARY) not in repr(released)
    assert str(CANARY) not in repr(m)
    with pytest.raises(InvalidParameter) as caught:
        m.release(np.array([[CANARY]]), entropy=Seeded(1))
    assert str(CANARY) not in str(caught.value)
    with pytest.raises(InvalidParameter, match="needs entropy such as SYSTEM"):
        m.release(CANARY, entropy=7)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name.startswith("composite")])
def test_no_interval_is_made_of_composite_noise(name):
    with pytest.raises(
        InvalidParameter,
        match=r"interval\.released must be what LaplaceMechanism, GaussianMechanism or",
    ):
        interval(MECHANISMS[name].release(0, entropy=Seeded(1)))


@every
def test_the_variance_is_symmetric_and_the_standard_error_is_the_largest(m):
    for x in (0, 2, Fraction(7, 2)):
        assert m.variance(at=x) == pytest.approx(m.variance(at=7 - x), rel=1e-9)
        assert math.sqrt(m.variance(at=x)) <= m.release(0, entropy=Seeded(1)).standard_error * (
            1 + 1e-12
        )


def test_a_ledger_charges_them(tmp_path):
    ledger = Ledger.create(
        str(tmp_path / "budget.db"),
        account="a",
        budget=Budget(epsilon=6),
        adjacency="replace-one",
        unit="row",
        source="s",
    )
    for m in (MECHANISMS["folded"], MECHANISMS["composite"]):
        with ledger.reserve(m, label="bounded") as charge:
            assert not charge.release(m, 5).simulated
    assert ledger.remaining == 4
