"""AboveThreshold on the outside: its parameters, its costs, what a release says and what it never says."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import traceback
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino import (
    COUNTING,
    AboveThreshold,
    Budget,
    FirstAbove,
    InvalidParameter,
    Ledger,
    Seeded,
    Sensitivity,
)
from sordino.constraints import PROPORTION
from sordino.cost import Pure, Range, repeat

CANARY = 86753099173
PARAMETERS = {"threshold": 100, "epsilon": 2, "sensitivity": COUNTING}


def above(**changes):
    return AboveThreshold(**(PARAMETERS | changes))


def each(bound=1, **changes):
    return Sensitivity(
        **({"bound": bound, "monotone": True, "adjacency": "add-remove", "step": 1} | changes)
    )


MADE = {
    "monotone": above(),
    "any": above(sensitivity=each(monotone=False, adjacency="replace-one", step=None), ratio=0.5),
    "nested": above(nested=True, ratio=2),
    "offset": above(nested=True, offset=0.75, sensitivity=each(4)),
}
every = pytest.mark.parametrize("m", MADE.values(), ids=MADE)


# --- what it costs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "rates", "cost"),
    [
        ({}, (1, 1), Range(low=1, high=2)),
        ({"ratio": 3}, (Fraction(3, 2), Fraction(1, 2)), Range(low=0.5, high=2)),
        (
            {"sensitivity": each(monotone=False)},
            (Fraction(2, 3), Fraction(2, 3)),
            Pure(epsilon=Fraction(2)),
        ),
        ({"nested": True}, (2, 2), Range(low=2, high=2)),
        ({"nested": True, "ratio": 4}, (2, Fraction(1, 2)), Range(low=2, high=0.5)),
        ({"nested": True, "offset": 1}, (1, 1), Range(low=1, high=2)),
        (
            {"nested": True, "offset": 0.5, "sensitivity": each(2)},
            (Fraction(4, 3), Fraction(4, 3)),
            Range(low=Fraction(2, 3), high=2),
        ),
        (
            {"nested": True, "offset": 0.25, "sensitivity": each(4), "ratio": 8},
            (Fraction(8, 3), Fraction(1, 3)),
            (2, 1),
        ),
    ],
)
def test_the_table(changes, rates, cost):
    m = above(**changes)
    assert m.cost.pure() <= 2
    e1, e2 = m.threshold_epsilon, m.answer_epsilon
    assert (float(e1), float(e2)) == pytest.approx(tuple(map(float, rates)), rel=1e-9)
    bound = m.sensitivity.bound
    assert (m.threshold_noise.rate, m.noise.rate) == (e1 / bound, e2 / bound)
    if isinstance(cost, Pure):
        assert m.cost == Pure(epsilon=e1 + 2 * e2)
        return
    low, high = cost if isinstance(cost, tuple) else (cost.low, cost.high)
    assert (float(m.cost.low), float(m.cost.high)) == pytest.approx(
        (float(low), float(high)), rel=1e-9
    )


def test_the_published_concentrated_cost_is_that_of_the_interval():
    e1, e2 = Fraction(3, 10), Fraction(7, 10)  # Theorem 1: (e1/2 + e2)^2/2 = .36125
    m = above(epsilon=1, ratio=e1 / e2)
    assert Fraction("0.347") < m.cost.zcdp() < Fraction("0.36125"), (
        "what its two-point pair loses is a little less"
    )
    twenty = above(epsilon=0.1)
    assert repeat(twenty.cost, 20).epsilon(1e-6) <= 1.5681367  # 20 times Theorem 1 at e1 = e2 = .05


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 2, 17])
@pytest.mark.parametrize("ratio", [Fraction(1, 7), 1, 5])
@pytest.mark.parametrize(
    "changes", [{}, {"sensitivity": each(1.5, step=None, monotone=False)}, {"nested": True}]
)
@pytest.mark.each_value
def test_the_budget_is_kept_and_nearly_spent(epsilon, ratio, changes):
    m = above(epsilon=epsilon, ratio=ratio, **changes)
    budget = Fraction(repr(epsilon))
    assert budget * Fraction(998, 1000) <= m.cost.pure() <= budget
    assert float(m.threshold_epsilon / m.answer_epsilon) == pytest.approx(float(ratio), rel=1e-3)


# --- what it refuses --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({"epsilon": bad}, r"^AboveThreshold\.epsilon must be a number in \(0, inf\); got")
            for bad in (0, -1, math.inf, "1", None)
        ),
        *(
            ({"ratio": bad}, r"^AboveThreshold\.ratio must be a number in \(0, inf\); got")
            for bad in (0, -1, math.nan, None)
        ),
        *(
            ({"threshold": bad}, r"^AboveThreshold\.threshold must be a finite number; got")
            for bad in (math.nan, math.inf, None, "7")
        ),
        ({"threshold": 1 << 60}, r"^AboveThreshold\.threshold must lie within 2\^52 steps"),
        ({"sensitivity": 1}, r"^AboveThreshold\.sensitivity must be a Sensitivity"),
        (
            {"sensitivity": COUNTING.over(3)},
            r"^AboveThreshold\.sensitivity must be a statement about each answer",
        ),
        ({"nested": 1}, r"^AboveThreshold\.nested must be True or False; got 1"),
        ({"offset": 0.5}, r"^AboveThreshold\.offset must be None unless nested=True; got 0.5"),
        *(
            (
                {"nested": True, "offset": bad},
                r"^AboveThreshold\.offset must be a number in \[0, 1\]; got",
            )
            for bad in PROPORTION.invalid
            if bad is not None
        ),
        (
            {"nested": True, "offset": 0.5},
            r"offset must be a whole number of steps .* got 0.5. Multiply .* bound by 2\.",
        ),
        *(
            (
                {"nested": True, "sensitivity": each(**bad)},
                r"^AboveThreshold\.sensitivity must be monotone under add-remove, with a step",
            )
            for bad in (
                {"monotone": False},
                {"adjacency": "replace-one", "monotone": False},
                {"step": None},
            )
        ),
    ],
)
@pytest.mark.sample(3)
def test_bad_parameters(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        above(**changes)


def test_nothing_has_a_default_that_matters():
    for left_out in PARAMETERS:
        with pytest.raises(TypeError):
            AboveThreshold(
                **{name: value for name, value in PARAMETERS.items() if name != left_out}
            )
    with pytest.raises(TypeError):
        AboveThreshold(1, 2, COUNTING)


@every
def test_entropy_is_asked_for(m):
    for bad in (7, None, "seed"):
        with pytest.raises(
            InvalidParameter, match="release needs entropy such as SYSTEM or Seeded"
        ):
            m.release([1], entropy=bad)


# --- what a release says ----------------------------------------------------------------------------------------------------------


@every
@given(
    values=st.lists(
        st.one_of(st.floats(), st.none(), st.integers(), st.text(max_size=2)),
        min_size=1,
        max_size=5,
    )
)
def test_total_on_anything(m, values):
    found = m.release(values, entropy=Seeded(1))
    assert isinstance(found, FirstAbove)
    assert found.index is None or 0 <= found.index < len(values)
    assert found.cost == m.cost
    assert json.dumps(found.to_dict())


@every
def test_a_value_that_travels(m):
    assert pickle.loads(pickle.dumps(m)) == m == dataclasses.replace(m)
    assert hash(m) == hash(dataclasses.replace(m))
    assert "\n" not in repr(m)
    assert m.exact
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.epsilon = 3


@pytest.mark.parametrize("power", [-8, 3])
@given(
    values=st.lists(st.integers(-200, 200), min_size=1, max_size=6),
    shift=st.integers(-50, 50),
    seed=st.integers(0, 99),
)
def test_shift_and_unit(power, values, shift, seed):
    unit = 2.0**power
    moved = above(threshold=(100 + shift) * unit, sensitivity=each(unit, step=unit))
    one, other = (
        m.release(list_, entropy=Seeded(seed))
        for m, list_ in ((above(), values), (moved, [(x + shift) * unit for x in values]))
    )
    assert one.index == other.index
    assert one.cost == other.cost


def test_clear_cases_are_found():
    m = above(epsilon=50, threshold=10)
    assert [m.release([0, 5, 15, 30]).index for _ in range(3)] == [2] * 3
    assert m.release([0, 5]).index is None
    assert not m.release([20]).simulated
    assert "simulated" in repr(m.release([20], entropy=Seeded(1)))


def test_nothing_private_is_kept():
    m = above()
    private = [CANARY, 1, 2]
    found = m.release(private, entropy=Seeded(3))
    kept = pickle.dumps(m) + pickle.dumps(found) + (repr(m) + repr(found)).encode()
    assert str(CANARY).encode() not in kept
    assert CANARY.to_bytes(8, "little") not in kept
    for bad in (np.array([private, private]), {CANARY}, str(CANARY)):
        with pytest.raises(InvalidParameter) as caught:
            m.release(bad, entropy=Seeded(3))
        assert str(CANARY) not in "".join(traceback.format_exception(caught.value))


def test_a_ledger_pays_for_none_in_full(tmp_path):
    where = {"adjacency": "add-remove", "unit": "person", "source": "people"}
    ledger = Ledger.create(
        str(tmp_path / "budget.db"), account="people", budget=Budget(epsilon=3), **where
    )
    m = above(threshold=10**6)
    with ledger.reserve(m, label="first") as charge:
        assert charge.release(m, [1, 2]).index is None
    assert ledger.remaining == 1
