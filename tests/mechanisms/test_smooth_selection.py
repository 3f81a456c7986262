"""Selection with smooth sensitivity as a mechanism: its laws, what it refuses, and that nothing private shows."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import pickle
import subprocess
import sys
import traceback
import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino import InvalidParameter, Seeded, SmoothSelection, SordinoError
from sordino.cost import Pure
from sordino.ledger.amounts import check_claims
from sordino.mechanisms.smooth.smooth_selection import scale_of

COMMON = {"epsilon": 1, "beta": 0.01, "candidates": 4, "ceiling": 8, "floor": 0.25}
CANARY = 86753099173
MADE = {
    "one": {},
    "two": {"sided": "two"},
    "published": {"accounting": "published"},
    "cauchy": {"gamma": 2},
    "below two": {"gamma": 1.5},
    "constant": {"beta": 0, "floor": 8},
}
every = pytest.mark.parametrize("options", MADE.values(), ids=MADE)
scores = st.lists(st.integers(-1000, 1000), min_size=4, max_size=4)


def made(**options):
    return SmoothSelection(**(COMMON | options))


class Unused:
    """Entropy that nobody may ask: what is refused draws no noise."""

    simulated = True

    def words(self, n):
        raise AssertionError("noise was drawn")


@every
@given(
    values=scores, seed=st.integers(0, 99), shift=st.integers(-500, 500), power=st.integers(-8, 8)
)
def test_same_entropy_same_release_shifted_and_in_other_units(options, values, seed, shift, power):
    m = made(**options)
    first = m.release(values, smooth_bound=1, entropy=Seeded(seed))
    assert (
        first.index
        == m.release(np.array(values), smooth_bound=[1, 0.5, -1, 0], entropy=Seeded(seed)).index
    )
    assert (
        first.index
        == m.release([x + shift for x in values], smooth_bound=1, entropy=Seeded(seed)).index
    )
    unit = 2.0**power
    other = made(
        **options | {name: (COMMON | options)[name] * unit for name in ("ceiling", "floor")}
    )
    assert other.alpha == m.alpha
    assert (
        first.index
        == other.release([x * unit for x in values], smooth_bound=unit, entropy=Seeded(seed)).index
    )


@every
def test_it_is_a_value_with_its_cost(options):
    m = made(**options)
    assert m == made(**options)
    assert hash(m) == hash(made(**options))
    assert pickle.loads(pickle.dumps(m)) == m
    assert dataclasses.replace(m) == m
    assert m.cost == Pure(epsilon=1)
    assert not m.exact
    release = m.release([1, 2, 3, 4], smooth_bound=1, entropy=Seeded(1))
    assert not release.exact
    assert release.simulated
    assert release.cost == m.cost
    assert release.gap is None
    assert json.loads(json.dumps(release.to_dict()))["mechanism"]["name"] == "SmoothSelection"
    assert not m.release([1, 2, 3, 4], smooth_bound=1).simulated
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.alpha = 3


def test_the_best_wins_where_it_leads_and_nobody_is_left_out():
    m = made(epsilon=10)
    assert all(
        m.release([0, 900, 0, 0], smooth_bound=0, entropy=Seeded(i)).index == 1 for i in range(50)
    )
    assert {
        m.release([0, 0, 0, 0], smooth_bound=8, entropy=Seeded(i)).index for i in range(50)
    } == {
        0,
        1,
        2,
        3,
    }


def test_the_scale_is_the_clamped_bound():
    m = made()
    unit = (1 + 2.0**-40) / m.alpha
    for bound, kept in (
        (1, 1),
        (0, 0.25),
        (-3, 0.25),
        (-math.inf, 0.25),
        (1e300, 8),
        (math.inf, 8),
        (math.nan, 8),
        (None, 8),
        (Decimal("NaN"), 8),
        (Fraction(1, 2), 0.5),
        (Decimal("0.5"), 0.5),
        (10**400, 8),
        ([1, 2, 0, math.nan], 8),
        ([1, 2, 0.5, -1], 2),
        (np.array([1, 2, 0.5, math.nan]), 8),
        (np.float32(0.5), 0.5),
    ):
        assert scale_of(m, bound) == kept * unit, bound


@every
@given(
    values=st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=2)), min_size=4, max_size=4),
    bound=st.floats(),
)
def test_total_on_anything(options, values, bound):
    release = made(**options).release(values, smooth_bound=bound, entropy=Seeded(1))
    assert 0 <= release.index < 4
    json.dumps(release.to_dict())


def test_what_is_no_number_is_the_lowest_score():
    m = made()
    for seed in range(20):
        lowest = m.release([-math.inf, 1, -math.inf, 2], smooth_bound=8, entropy=Seeded(seed)).index
        for nothing in (math.nan, None, Decimal("NaN"), "7", object()):
            assert (
                m.release([nothing, 1, nothing, 2], smooth_bound=8, entropy=Seeded(seed)).index
                == lowest
            )
    assert m.release([1, math.inf, 2, math.nan], smooth_bound=0, entropy=Seeded(1)).index == 1


def test_nothing_private_in_repr_pickle_exception_or_log(caplog):
    m = made()
    private, bound = [CANARY, 1, 2, 3], 3.14159271
    with caplog.at_level(logging.DEBUG):
        release = m.release(private, smooth_bound=bound, entropy=Seeded(3))
    kept = (
        pickle.dumps(m)
        + pickle.dumps(release)
        + (repr(m) + repr(release) + str(release.to_dict()) + caplog.text).encode()
    )
    for secret in (CANARY, bound):
        assert str(secret).encode() not in kept
        assert np.float64(secret).tobytes() not in kept
        assert np.float64(secret).tobytes()[::-1] not in kept
    wrong = [CANARY] * 3
    for given_scores, given_bound in (
        (wrong, 1),
        ([wrong, wrong], 1),
        (str(CANARY), 1),
        (private, wrong),
        (private, str(CANARY)),
    ):
        with pytest.raises(InvalidParameter) as caught:
            m.release(given_scores, smooth_bound=given_bound, entropy=Unused())
        assert str(CANARY) not in "".join(traceback.format_exception(caught.value))


def test_public_mistakes_are_refused_before_noise_is_drawn():
    m = made()
    with pytest.raises(
        InvalidParameter,
        match=r"^SmoothSelection\.release needs 4 scores, one for each candidate; got 3\.$",
    ):
        m.release([1, 2, 3], smooth_bound=1, entropy=Unused())
    with pytest.raises(
        InvalidParameter,
        match=r"^SmoothSelection\.release\.smooth_bound must be a number, or a list of one",
    ):
        m.release([1, 2, 3, 4], smooth_bound=[1, 2], entropy=Unused())
    with pytest.raises(
        InvalidParameter, match="needs a number or a one-dimensional array of at least one number"
    ):
        m.release([], smooth_bound=1, entropy=Unused())
    with pytest.raises(
        InvalidParameter, match="SmoothSelection.release needs entropy such as SYSTEM or Seeded"
    ):
        m.release([1, 2, 3, 4], smooth_bound=1, entropy=7)


BAD = {
    "epsilon": [0, -1, math.nan, math.inf, None, "1", True],
    "beta": [-0.1, math.nan, math.inf, None, "1", True],
    "candidates": [0, -1, 1.5, None, True],
    "ceiling": [0, -1, math.nan, math.inf, None],
    "floor": [0, -1, math.nan, math.inf, None],
    "gamma": [1, 0.5, 0, -2, 1.05, 101, math.nan, None, "4"],
    "sided": ["both", None, 1],
    "accounting": ["loose", None, 1],
}


@pytest.mark.parametrize(
    ("name", "bad"), [(name, bad) for name, values in BAD.items() for bad in values]
)
@pytest.mark.sample(4)
def test_bad_parameters(name, bad):
    with pytest.raises(InvalidParameter, match=rf"^SmoothSelection\.{name} must be .*; got "):
        made(**{name: bad})


def test_parameters_that_do_not_go_together():
    with pytest.raises(
        InvalidParameter, match=r"^SmoothSelection\.ceiling must be at least the floor 9; got 8\."
    ):
        made(floor=9)
    with pytest.raises(InvalidParameter, match=r"must lie between 2\^-500 and 2\^500"):
        made(ceiling=1e200)
    with pytest.raises(
        InvalidParameter,
        match=r"^SmoothSelection\.beta must be above 0 unless floor = ceiling: .*; got 0\. Give",
    ):
        made(beta=0)
    with pytest.raises(
        InvalidParameter,
        match=r"^SmoothSelection\.beta must leave a part of epsilon .* loses 3 of epsilon 1\. Lower",
    ):
        made(beta=1)
    with pytest.raises(InvalidParameter, match="loses 0.9 of epsilon 0.9"):
        made(beta=0.1, epsilon=0.9, accounting="published")
    with pytest.raises(TypeError):
        SmoothSelection()
    with pytest.raises(TypeError):
        SmoothSelection(1, 2, 3)


def test_a_bound_between_near_limits_costs_no_more_than_they_differ():
    """Clamped to [1, 1.01] no bound changes by more than 1%, however steep it is; the paper's accounting does not know."""
    assert made(beta=5, floor=1, ceiling=1.01).alpha == pytest.approx(
        made(beta=math.log(1.01), floor=0.1).alpha, rel=1e-6
    )
    assert made(beta=5, floor=8).alpha == pytest.approx(made(beta=0, floor=8).alpha, rel=1e-9)
    with pytest.raises(InvalidParameter, match="must leave a part"):
        made(beta=5, floor=8, accounting="published")


def test_one_candidate_is_accounted_for_like_two():
    one = made(candidates=1)
    assert one.alpha == made(candidates=2).alpha
    assert one.release(5, smooth_bound=1, entropy=Seeded(1)).index == 0
    assert one.release([5], smooth_bound=[1], entropy=Seeded(1)).index == 0


def test_nothing_is_spent_on_the_shape_of_a_million_scores():
    m = made(candidates=1_000_000, epsilon=20)
    values = np.zeros(1_000_000)
    values[123_456] = 1e7
    tracemalloc.start()
    try:
        assert m.release(values, smooth_bound=1, entropy=Seeded(1)).index == 123_456
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_it_loads_no_scipy():
    made_and_used = "SmoothSelection(epsilon=1, beta=0.05, candidates=3, ceiling=8, floor=1).release([1, 2, 3], smooth_bound=1)"
    script = f"import sys, sordino; sordino.{made_and_used}; print('scipy' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )


def test_a_ledger_takes_it_where_it_is_told_to_and_for_its_own_adjacency():
    check_claims(made(), adjacency="replace-one", allow_approximate=True)
    for adjacency, approximate in (("replace-one", False), ("add-remove", True)):
        with pytest.raises(SordinoError):
            check_claims(made(), adjacency=adjacency, allow_approximate=approximate)


def test_numbers_beyond_the_floats_are_numbers():
    huge = 10**400
    assert made(epsilon=huge).alpha == pytest.approx(made(epsilon=1e300).alpha)
    assert made(epsilon=huge, sided="two").alpha > 1e290
    assert made(beta=huge, floor=8).alpha == made(beta=0, floor=8).alpha
    with pytest.raises(InvalidParameter, match="must leave a part of epsilon"):
        made(beta=huge, epsilon=huge, accounting="published")
    with pytest.raises(
        InvalidParameter,
        match=r"^SmoothSelection\.candidates must be at most 2\^53; got a whole number of",
    ):
        made(candidates=huge)


def test_a_lead_beyond_the_floats_is_a_lead_and_says_nothing():
    """Differences over the smallest scale overflow: warnings are errors here, and would tell."""
    m = made(ceiling=1 << 500, floor=Fraction(1, 1 << 500))
    assert [
        m.release([0, 0, lead, 0], smooth_bound=0, entropy=Seeded(3)).index
        for lead in (1e200, 1e308)
    ] == [2, 2]


@pytest.mark.parametrize("kind", [np.float64, np.float32, object])
def test_nan_in_an_array_is_the_lowest_score(kind):
    m = made(epsilon=500)
    given = np.array([math.nan, -50.0, 60.0, -60.0], dtype=kind)
    assert m.release(given, smooth_bound=0.25, entropy=Seeded(5)).index == 2
    given[2] = math.nan
    assert m.release(given, smooth_bound=0.25, entropy=Seeded(5)).index == 1
