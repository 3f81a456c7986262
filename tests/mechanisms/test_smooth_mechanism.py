"""A number with noise in proportion to a smooth bound: total, repeatable, public in its fields, charged like all; and its law."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from sordino import (
    Budget,
    HeavyTailWarning,
    InvalidParameter,
    Ledger,
    LedgerConflict,
    Seeded,
    SmoothMechanism,
)
from sordino.mechanisms.smooth.scaled_noise import power_loss
from sordino.mechanisms.smooth.smooth_mechanism import decide, steepness

CANARY = 86753099173.0
LINE = {"epsilon": 1, "beta": 0.2, "ceiling": 64, "floor": 0.25}


def made(**keys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeavyTailWarning)
        return SmoothMechanism(**LINE | keys)


MECHANISMS = {
    "cauchy": made(),
    "quartic": made(law="quartic"),
    "constant": made(beta=0, floor=64),
    "tiny": made(epsilon=1e-9, beta=1e-10, law="quartic"),
    "huge": made(epsilon=10**6, beta=100),
}
every = pytest.mark.parametrize("m", MECHANISMS.values(), ids=MECHANISMS)
anything = st.one_of(
    st.floats(),
    st.integers(),
    st.fractions(),
    st.decimals(),
    st.none(),
    st.booleans(),
    st.text(max_size=2),
)
number = st.one_of(
    st.floats(), st.integers(), st.fractions(), st.decimals(), st.none(), st.booleans()
)


@every
@settings(max_examples=15)
@given(value=number, bound=number, seed=st.integers(0, 9))
def test_total_on_the_grid_and_repeatable(m, value, bound, seed):
    released = m.release(value, smooth_bound=bound, entropy=Seeded(seed))
    assert m.output_range[0] <= released.value <= m.output_range[1]
    assert (Fraction(released.value) / m.step).denominator == 1
    assert released.value == m.release(value, smooth_bound=bound, entropy=Seeded(seed)).value
    assert not hasattr(released, "standard_error")
    assert released.simulated
    assert not released.exact


@every
def test_wrong_bounds_count_as_the_ceiling_or_the_floor(m):
    def at(bound):
        return m.release(3, smooth_bound=bound, entropy=Seeded(4)).value

    assert {at(bound) for bound in (math.nan, math.inf, None, 64, 1e9, 10**400)} == {at(64)}
    assert {at(bound) for bound in (-1, 0, 0.01, -math.inf, Fraction(1, 10**9))} == {at(m.floor)}


@every
def test_wrong_numbers_count_as_the_ends(m):
    def at(value):
        return m.release(value, smooth_bound=1, entropy=Seeded(4)).value

    assert {at(value) for value in (math.nan, None, -math.inf, -1e308)} == {at(m.output_range[0])}
    assert {at(value) for value in (math.inf, 1e308, 10**400)} == {at(m.output_range[1])}


@every
def test_lists_are_refused(m):
    for value, bound in (([1, 2], 1), ([1], 1), (1, [1, 2]), ("many", 1), (1, "x")):
        with pytest.raises(InvalidParameter):
            m.release(value, smooth_bound=bound)


@every
def test_nothing_private_leaves(m):
    released = m.release(CANARY, smooth_bound=CANARY, entropy=Seeded(1))
    kept = {name: value for name, value in vars(released).items() if name != "value"}
    assert "8675309" not in repr(m) + repr(kept)
    assert json.loads(json.dumps(released.to_dict()))["mechanism"]["name"] == "SmoothMechanism"
    assert set(released.to_dict()) == {"type", "value", "mechanism", "cost", "simulated", "exact"}


@every
def test_a_value_that_is_frozen(m):
    assert pickle.loads(pickle.dumps(m)) == m
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.beta = 3


def test_the_bound_scales_the_noise_and_nothing_else():
    m = MECHANISMS["quartic"]
    small, large = (m.release(0, smooth_bound=bound, entropy=Seeded(3)).value for bound in (0.5, 8))
    assert large == pytest.approx(16 * small, rel=1e-4)
    assert m.step == Fraction(1, 2**21)  # from floor/alpha alone, which is just below 1
    assert 2**20 <= m.floor / m.alpha / m.step < 2**21
    assert m.output_range == (-(2.0**31), 2.0**31)
    assert [made(epsilon=epsilon).step for epsilon in (3, 30, 10**6)] == [
        Fraction(1, 2**22)
    ] * 3  # less noise, the same range


@every
def test_a_release_is_the_number_and_the_scaled_noise_on_the_grid(m):
    for seed in range(50):
        [z] = m.noise.sample_signed(1, Seeded(seed))
        expected = np.clip(5 + 64 / m.alpha * z, *m.output_range)
        found = m.release(5, smooth_bound=64, entropy=Seeded(seed)).value
        assert abs(found - expected) <= m.step / 2 + abs(expected) * 2.0**-39


@pytest.mark.slow
@pytest.mark.parametrize(("law", "gamma"), [("cauchy", 2), ("quartic", 4)])
def test_releases_have_the_law_that_is_stated(law, gamma):
    """False alarm below 1e-9 at the right scale; a scale that is off by 30% is rejected."""
    m = made(law=law)
    words = Seeded(11)
    drawn = np.array([m.release(5, smooth_bound=2, entropy=words).value for _ in range(6_000)])
    z = (drawn - 5) * m.alpha / 2

    def cdf(x):
        magnitude = np.abs(x)
        return np.where(x > 0, 0.5 + m.noise.cdf(magnitude) / 2, 0.5 - m.noise.cdf(magnitude) / 2)

    assert stats.kstest(z, cdf).pvalue > 1e-9
    assert stats.kstest(1.3 * z, cdf).pvalue < 1e-6
    if gamma == 4:
        assert np.std(z) == pytest.approx(1, abs=0.2)  # S/alpha is the standard deviation
    else:
        assert stats.kstest(z, stats.cauchy.cdf).pvalue > 1e-9


def test_the_decision_is_the_nearest_step_between_the_ends():
    assert decide(0.3, 0.25, (-8, 8)) == 0.25
    assert decide(-7.99, 0.25, (-8, 8)) == -8
    assert decide(math.inf, 0.25, (-8, 8)) == 8
    assert decide(-math.inf, 0.25, (-8, 8)) == -8


def test_what_is_lost_for_the_scale():
    """Below a power of 2 it is beta, at z = 0, and not (gamma - 1) beta; and a bound may be rounded."""
    assert [power_loss(0.5, gamma) for gamma in (1.5, 2, 4)] == pytest.approx(
        [0.5, 0.5, 1.5], rel=1e-12
    )
    assert steepness(Fraction(1, 4), Fraction(1), Fraction(64)) - 0.25 == pytest.approx(
        2.0**-40, rel=1e-3
    )
    assert steepness(Fraction(5), Fraction(1), Fraction(2)) == pytest.approx(math.log(2), rel=1e-11)


def test_a_heavy_tail_is_warned_of_when_it_is_chosen():
    with pytest.warns(HeavyTailWarning, match="neither mean nor variance"):
        m = SmoothMechanism(**LINE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SmoothMechanism(**LINE, law="quartic")
        m.release(1, smooth_bound=1)
        pickle.loads(pickle.dumps(m))


def test_what_is_refused():
    for wrong, said in (
        ({"epsilon": 0}, "epsilon must be"),
        ({"beta": -1}, "beta must be"),
        ({"beta": 0}, "unless floor = ceiling"),
        ({"beta": 1}, "leave a part of epsilon"),
        ({"beta": 0.34, "law": "quartic"}, "leave a part of epsilon"),
        ({"floor": 65}, "at least the floor"),
        ({"floor": Fraction(1, 2**501)}, "between 2"),
        ({"law": "normal"}, "one of"),
        ({"epsilon": 1e-200, "beta": 0, "floor": 2**500, "ceiling": 2**500}, "at most 2"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            made(**wrong)


def test_budgets_and_smoothness_beyond_the_floats():
    assert made(epsilon=10**400, beta=10**399).alpha == made(epsilon=601, beta=10**3).alpha
    with pytest.raises(InvalidParameter, match="leave a part of epsilon"):
        made(epsilon=1, beta=10**400)


def test_a_bound_that_can_only_double_costs_no_more_than_that():
    """The limits bound the ratio of the scales, whatever beta is."""
    assert made(epsilon=1, beta=50, floor=32).alpha == pytest.approx(
        made(epsilon=1, beta=math.log(2), floor=1).alpha, rel=1e-9
    )


def test_a_ledger_takes_it_only_where_it_is_asked_to(tmp_path):
    m = MECHANISMS["quartic"]
    common = {"account": "a", "budget": Budget(epsilon=3), "unit": "row", "source": "s"}
    other = Ledger.create(str(tmp_path / "other.db"), adjacency="add-remove", **common)
    with pytest.raises(LedgerConflict):
        other.reserve(m, label="one", allow_approximate=True)
    ledger = Ledger.create(str(tmp_path / "budget.db"), adjacency="replace-one", **common)
    with pytest.raises(InvalidParameter, match="not exact"):
        ledger.reserve(m, label="one")
    with ledger.reserve(m, label="one", allow_approximate=True) as charge:
        assert not charge.release(m, 3.0, smooth_bound=1.0).simulated
    assert ledger.remaining == 2
