"""Rows of a selection: one number inside its interval, which neighbors are told apart, true counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import sordino as sd
from sordino.estimators import rows as selected_rows
from sordino.estimators.rows import (
    estimate_rows,
    find_unclear,
    share_confidence,
    true_interval,
)

ZIPF = (30_000 / np.arange(1, 3001) ** 1.05).astype(np.int64)
# A head that stands out and a crowd of thousands: noise finds members of the crowd.
CROWD = np.concatenate(
    [[50_000, 42_000, 15_600, 15_100, 14_900, 3800], np.full(2000, 900), np.zeros(2000, int)]
)
SHAPES = {
    "zipf": ZIPF,
    "crowd": CROWD,
    "equal": np.full(300, 500),
    "flat": (1000 - 0.5 * np.arange(300)).astype(np.int64),
    "geometric": (3000 * 0.93 ** np.arange(300)).astype(np.int64),
}


def released(q, k, epsilon, entropy, share=0.5, noise="exponential"):
    top = sd.NoisyTopK(k=k, epsilon=epsilon * share, sensitivity=sd.COUNTING, noise=noise).release(
        q, entropy=entropy
    )
    measure = sd.LaplaceMechanism(epsilon=epsilon * (1 - share), sensitivity=sd.COUNTING.over(k))
    return top, measure.release(np.asarray(q)[top.indices], entropy=entropy)


# ---- one number inside its interval ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("k", "epsilon"), [(1, 1), (10, 0.1), (25, 0.1), (25, 1)])
@pytest.mark.each_value
def test_the_estimate_is_a_whole_number_inside_its_interval(shape, k, epsilon):
    entropy = sd.Seeded(3)
    for _ in range(20):
        said = estimate_rows(*released(SHAPES[shape], k, epsilon, entropy), confidence=0.95)
        assert (said.low <= said.estimate).all()
        assert (said.estimate <= said.high).all()
        assert (said.low >= 0).all()
        assert (said.estimate == np.rint(said.estimate)).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("k", "epsilon", "share"), [(10, 0.1, 0.5), (25, 0.1, 0.5), (25, 1, 0.5), (25, 1, 0.2)]
)
@pytest.mark.sample(4)
def test_the_estimate_is_no_worse_than_the_measurement(shape, k, epsilon, share):
    q, entropy, ours, measured = SHAPES[shape], sd.Seeded(5), [], []
    for _ in range(50):
        top, fresh = released(q, k, epsilon, entropy, share)
        true = q[top.indices]
        ours.append(((estimate_rows(top, fresh, confidence=0.95).estimate - true) ** 2).mean())
        measured.append(((fresh.values - true) ** 2).mean())
    # Within what a hundred runs can tell.
    assert np.mean(ours) <= 1.12 * np.mean(measured)


def test_the_plain_combination_is_worse_on_a_crowd():
    """The twin: what was printed before; that it is convicted says that the shape above can tell."""
    entropy, plain, measured = sd.Seeded(5), [], []
    for _ in range(60):
        top, fresh = released(CROWD, 25, 0.1, entropy)
        true = CROWD[top.indices]
        plain.append(((sd.combine_gaps(top, fresh).values - true) ** 2).mean())
        measured.append(((fresh.values - true) ** 2).mean())
    assert np.mean(plain) > 1.2 * np.mean(measured)


def test_gaps_help_where_they_can():
    q, entropy, ours, measured = SHAPES["equal"], sd.Seeded(5), [], []
    for _ in range(60):
        top, fresh = released(q, 10, 1, entropy)
        ours.append(((estimate_rows(top, fresh, confidence=0.95).estimate - 500) ** 2).mean())
        measured.append(((fresh.values - 500) ** 2).mean())
    assert np.mean(ours) < 0.6 * np.mean(measured)


def test_one_row_is_its_measurement():
    top, fresh = released([50, 7, 90], 1, 1, sd.Seeded(7))
    said = estimate_rows(top, fresh, confidence=0.95)
    assert said.estimate == fresh.values
    assert np.isnan(said.combined).all()


# ---- together --------------------------------------------------------------------------------------------------


def reach(rate, k, confidence):
    """The least R with (1 - 2 r^(R+1)/(1+r))^k >= confidence."""
    r = math.exp(-rate)
    return next(R for R in itertools.count() if (1 - 2 * r ** (R + 1) / (1 + r)) ** k >= confidence)


def test_intervals_that_hold_together():
    # Values worked out by hand: 15 steps for one row, 26 for ten at r = e^-.2.
    assert (reach(0.2, 1, 0.95), reach(0.2, 10, 0.95)) == (15, 26)
    measure = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING.over(10))
    fresh = measure.release(np.full(10, 1000), entropy=sd.Seeded(7))
    top = sd.NoisyTopK(k=10, epsilon=1, sensitivity=sd.COUNTING).release(
        np.full(20, 1000), entropy=sd.Seeded(8)
    )
    alone = estimate_rows(top, fresh, confidence=0.95)
    together = estimate_rows(top, fresh, confidence=0.95, simultaneous=True)
    assert set((alone.high - alone.low).tolist()) == {2 * reach(0.2, 1, 0.95)}
    assert set((together.high - together.low).tolist()) == {2 * reach(0.2, 10, 0.95)}
    assert (alone.confidence, alone.together) == (0.95, 0.598)
    assert together.together == 0.95


def test_shared_confidence_promises_no_more_than_it_holds():
    for k in (2, 3, 10, 1000):
        each, together = share_confidence(0.95, k, simultaneous=True)
        assert each**k >= 0.95 == together
        each, together = share_confidence(0.95, k, simultaneous=False)
        assert together <= each**k


# ---- order -----------------------------------------------------------------------------------------------------


def called_clear(q, noise_rate, wrong, offset=True):
    """Chances that item 0 and item 1 come first and that the gap calls the order clear, by enumeration of n = 2, k = 1."""
    r, most = math.exp(-noise_rate), 80
    law = [(1 - r) * r**g for g in range(most)]
    first = clear = 0.0
    for a, b in itertools.product(range(most), repeat=2):
        chance, v, w = law[a] * law[b], q[0] + a, q[1] + b
        # Item 1 wins; item 0 has priority, so it wins ties.
        if w > v:
            first += chance
            margin = w - v - 1
            p = r**margin if offset else r ** (margin + 1)
            clear += chance * (p <= wrong)
    return first, clear


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (1, 1), (4, 3), (3, 0)])
@pytest.mark.parametrize("wrong", [0.05, 0.2, 0.5])
@pytest.mark.each_value
def test_a_row_that_is_no_larger_is_seldom_called_clear(counts, wrong):
    first, clear = called_clear(counts, math.log(2), wrong)
    assert clear <= wrong * first * (1 + 1e-12)


def test_without_the_offset_of_ties_the_law_is_broken():
    first, clear = called_clear((0, 0), math.log(2), 0.25, offset=False)
    assert clear > 0.25 * first * 1.5


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("places", [(0, 1), (1, 0)])
def test_two_equal_rows_are_seldom_told_apart_whoever_comes_first(places, confidence):
    """Given who comes first, the gap of two equal items, a step more where the other one wins ties, is geometric."""
    made = sd.NoisyTopK(k=2, epsilon=1, sensitivity=sd.COUNTING)
    least, share = int(places[1] < places[0]), math.exp(-float(made.noise.rate))

    def is_clear(gap):
        gaps = np.array([gap, 0]) * float(made.step)
        indices = np.array(places)
        top = sd.TopK(indices=indices, gaps=gaps, mechanism=made, cost=made.cost, simulated=True)
        return find_unclear(top, None, confidence=confidence)[0] is False

    clear = next(gap for gap in itertools.count(least) if is_clear(gap))
    chance = share ** (clear - least)
    assert share * (1 - confidence) < chance <= 1 - confidence


def test_the_tail_of_a_difference_is_that_of_the_law():
    for rate in (0.02, 0.2, 1.0, 3.0):
        law = sd.LaplaceMechanism(epsilon=rate, sensitivity=sd.COUNTING).noise
        most = math.ceil(40 / rate)
        x = np.arange(-most, most + 1)
        mass = law.pmf(x)
        difference = np.convolve(mass, mass[::-1])
        for lead in (-3, 0, 1, 2, 7):
            tail = difference[2 * most + lead :].sum()
            assert selected_rows._laplace_difference_tail(rate, lead) == pytest.approx(
                tail, rel=1e-9
            )


def test_equal_items_are_seldom_told_apart_and_far_ones_are():
    entropy, clear = sd.Seeded(4), 0
    for _ in range(300):
        unclear = find_unclear(*released(np.full(6, 400), 5, 1, entropy), confidence=0.95)
        clear += sum(not one for one in unclear)
    assert clear <= 0.05 * 1500 + 3 * math.sqrt(0.05 * 1500)
    far = [5000, 4000, 3000, 2000, 1000, 0]
    assert find_unclear(*released(far, 5, 1, entropy), confidence=0.95) == [False] * 5


def test_after_two_sided_noise_the_measurements_alone_tell():
    far = [5000, 4000, 3000, 0]
    assert find_unclear(*released(far, 3, 1, sd.Seeded(4), noise="laplace"), confidence=0.95) == [
        False,
        False,
        None,
    ]


# ---- true counts -----------------------------------------------------------------------------------------------


def test_the_lower_bound_of_a_capped_count_takes_the_whole_chance():
    rate = 0.2
    fresh = sd.LaplaceMechanism(epsilon=rate, sensitivity=sd.COUNTING).release(
        1000, entropy=sd.Seeded(7)
    )
    low, high = true_interval(fresh, 0.95, capped=True)
    r = math.exp(-rate)
    # The least R with P(noise > R) = r^(R+1)/(1+r) at most 5%.
    least = next(R for R in itertools.count() if r ** (R + 1) / (1 + r) <= 0.05)
    assert (fresh.value - low, high) == (least, math.inf)
    assert true_interval(fresh, 0.95, capped=False) == sd.interval(fresh, confidence=0.95)


def test_an_end_of_a_declared_range_says_nothing_of_the_true_count():
    folded = sd.FoldedMechanism(lower=10, upper=50, epsilon=1, sensitivity=sd.COUNTING)
    low, high = true_interval(folded.release(500, entropy=sd.Seeded(7)), 0.95, capped=False)
    assert (low > 10, high) == (True, math.inf)
    low, high = true_interval(folded.release(0, entropy=sd.Seeded(7)), 0.95, capped=False)
    assert (low, high < 50) == (0, True)
