"""Figures made of released rows: the law of sums of noises by other routes, what intervals cover, refusals."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.estimators.difference import Difference
from sordino.figures import mixed_noise
from sordino.figures.mixed_noise import Noise
from sordino.noise import DiscreteLaplace
from sordino.session import Count
from support.noises import reach_of

FIFTH = Fraction(1, 5)


def law_of_sum(noises, span):
    """The law of the sum by convolution of whole masses, in floats; another route than geometric halves."""
    total = {0: 1.0}
    for one in noises:
        law = DiscreteLaplace(one.rate)
        xs = range(-span, span + 1)
        masses = dict(zip(xs, law.pmf(np.array(xs)).tolist(), strict=True))
        added: dict[int, float] = {}
        for a, p in total.items():
            for x, q in masses.items():
                place = a + one.weight * x
                added[place] = added.get(place, 0.0) + p * q
        total = added
    return total


def beyond(law, far):
    return math.fsum(p for x, p in law.items() if abs(x) > far)


@pytest.mark.parametrize(
    ("noises", "span"),
    [
        ([Noise(Fraction(1, 2))], 120),
        ([Noise(Fraction(1, 2))] * 2, 90),
        ([Noise(Fraction(1))] * 3, 60),
        ([Noise(Fraction(1), 3), Noise(Fraction(1, 2), 1)], 90),
        ([Noise(Fraction(1), 2), Noise(Fraction(2), 5), Noise(Fraction(3, 2), 5)], 40),
    ],
)
@pytest.mark.parametrize("wrong", [Fraction(1, 20), Fraction(1, 1000)])
@pytest.mark.each_value
def test_the_reach_is_the_least_one(noises, span, wrong):
    law, far = law_of_sum(noises, span), reach_of(noises, wrong)
    assert beyond(law, far) <= wrong < beyond(law, far - 1)


def test_reference_values():
    five = law_of_sum([Noise(FIFTH)] * 3, 60)  # three of five, for the closed form below
    r = math.exp(-0.2)
    closed = (1 - r) ** 10 * sum(math.comb(4 + j, j) ** 2 * r ** (2 * j) for j in range(400))
    assert closed == pytest.approx(0.0274090647574715, rel=1e-12)
    assert five[0] > closed
    assert reach_of([Noise(FIFTH)] * 5, Fraction(1, 20)) == 32
    assert reach_of([Noise(FIFTH)], Fraction(1, 20)) == 15  # five times that is 75


@pytest.mark.parametrize("rate", [Fraction(1, 50), FIFTH, Fraction(3)])
@pytest.mark.parametrize("wrong", [Fraction(1, 20), Fraction(1, 10**6)])
def test_two_noises_reach_as_far_as_their_certified_difference(rate, wrong):
    law = DiscreteLaplace(rate)
    assert reach_of([Noise(rate)] * 2, wrong) == Difference(law, law).reach(wrong / 2)


def test_a_law_that_is_too_wide_is_only_ever_reached_from_above(monkeypatch):
    noises, wrong = [Noise(Fraction(1, 100)), Noise(Fraction(1, 60), 3)], Fraction(1, 20)
    exact = reach_of(noises, wrong)
    monkeypatch.setattr(mixed_noise, "_POINTS", 1 << 9)
    mixed_noise.reach.cache_clear()
    coarse = reach_of(noises, wrong)
    mixed_noise.reach.cache_clear()
    assert exact < coarse < 1.15 * exact


def test_many_and_tiny_rates_end():
    assert reach_of([Noise(FIFTH)] * 10_000, Fraction(1, 20)) == pytest.approx(
        1.96 * math.sqrt(10_000 * DiscreteLaplace(FIFTH).variance), rel=0.01
    )
    alone = DiscreteLaplace(Fraction(1, 10**9))
    assert (
        -alone.quantile(0.025)
        <= reach_of([Noise(alone.rate)], FIFTH / 4)
        <= -1.001 * alone.quantile(0.025)
    )


# ---- figures ----------------------------------------------------------------------------------------------


def values_of(listed, epsilon=1, mechanism=None):
    made = mechanism or sd.LaplaceMechanism(
        epsilon=epsilon, sensitivity=sd.COUNTING.over(len(listed))
    )
    return sd.Values(
        values=np.array(listed, dtype=float),
        standard_error=1.0,
        mechanism=made,
        cost=made.cost,
        simulated=False,
    )


def test_sums_and_differences():
    counts = values_of([10, 20, 30, 40, 50])
    whole = sd.add_rows(counts)
    assert (whole.value, whole.low, whole.high, whole.estimate) == (150, 118, 182, 150)
    some = sd.add_rows(counts, [3, 4], minus=[0])
    assert some.value == 80
    assert some.high - some.value == reach_of([Noise(FIFTH)] * 3, Fraction(1, 20))
    json.dumps(whole.to_dict(), allow_nan=False)


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_interval_of_a_sum_covers_it_and_no_less(confidence):
    """By all noise of two rows: misses are at most what is stated, and a step less would be too many."""
    m = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING.over(2))
    xs = np.arange(-60, 61)
    sums, weights = np.add.outer(xs, xs), np.multiply.outer(m.noise.pmf(xs), m.noise.pmf(xs))
    found = sd.add_rows(values_of([7, 5], mechanism=m), confidence=confidence)
    far = found.high - found.value
    missed, less = (float(weights[np.abs(sums) > one].sum()) for one in (far, far - 1))
    assert missed <= 1 - confidence < less


def test_ratios():
    counts = values_of([900, 300], epsilon=2)
    found = sd.divide_rows(counts, 0, 1)
    far = 4  # P(|N| > 4) of one, so that both hold together with 95%
    assert found.value == 3
    # What the difference does not refute is narrower than the box of both intervals.
    assert (900 - far) / (300 + far) < found.low < 3 < found.high < (900 + far) / (300 - far)
    assert found.high - found.low == pytest.approx(2 * 8.75 / 300, rel=0.1)
    low = sd.divide_rows(values_of([-900, 300], epsilon=2), 0, 1)
    assert (low.low, low.high) == pytest.approx((-found.high, -found.low), rel=1e-3)
    open_ended = sd.divide_rows(values_of([900, 2], epsilon=2), 0, 1)
    assert (open_ended.low, open_ended.high) == (-math.inf, math.inf)
    # What a mechanism was handed may be negative, a count of a session not.
    assert sd.divide_rows(values_of([900, -2], epsilon=2), 0, 1).low == -math.inf
    made = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    facts = {
        "low": 0,
        "high": 0,
        "true_low": 0,
        "true_high": 0,
        "confidence": 0.95,
        "standard_error": 1,
    }
    few, many = (
        Count(estimate=x, mechanism=made, cost=made.cost, simulated=False, **facts) for x in (-2, 9)
    )
    assert math.isnan((many / few).value)
    assert (many / few).low >= 0
    assert json.loads(json.dumps(open_ended.to_dict()))["high"] is None


def test_ranks_hold_together():
    """Whoever leads by the lead of the law is surely above; a step less is not enough."""
    m = sd.LaplaceMechanism(epsilon=3, sensitivity=sd.COUNTING.over(3))
    lead = reach_of([Noise(m.noise.rate)] * 2, 2 * Fraction(1, 20) / 3) + 1
    law = DiscreteLaplace(m.noise.rate)
    assert (
        float(Difference(law, law).at_least(lead)[1])
        <= 0.05 / 3
        < float(Difference(law, law).at_least(lead - 1)[0])
    )
    sure = sd.rank_rows(values_of([lead, 0, 500], mechanism=m))
    assert [(row.best, row.worst) for row in sure] == [(2, 2), (3, 3), (1, 1)]
    open_ranks = sd.rank_rows(values_of([lead - 1, 0, 500], mechanism=m))
    assert [(row.best, row.worst) for row in open_ranks] == [(2, 3), (2, 3), (1, 1)]
    assert sd.rank_rows(values_of([3])) == (sd.RowRanks(item=0, best=1, worst=1),)


def test_independent_looks():
    fine, rough = (sd.LaplaceMechanism(epsilon=e, sensitivity=sd.COUNTING.over(2)) for e in (4, 1))
    looks = [values_of([10, 20], mechanism=fine), values_of([30, 60], mechanism=rough)]
    first, second = sd.combine_looks(looks)
    ratio = fine.noise.variance / rough.noise.variance
    share = round(1000 * ratio) / (1000 + round(1000 * ratio))
    assert first.value == pytest.approx(10 + 20 * share)
    assert (first.item, second.item) == (0, 1)
    far = reach_of(
        [Noise(fine.noise.rate, 1000), Noise(rough.noise.rate, round(1000 * ratio))],
        Fraction(1, 20),
    )
    assert first.high - first.value == pytest.approx(far / (1000 + round(1000 * ratio)))


def test_looks_on_different_grids():
    coarse = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1)
    fine = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=Fraction(1, 8))
    noise = sd.Seeded(3)
    looks = [
        sd.LaplaceMechanism(epsilon=1, sensitivity=s).release(100, entropy=noise)
        for s in (coarse, fine)
    ]
    [both] = sd.combine_looks(looks)
    assert min(x.value for x in looks) <= both.value <= max(x.value for x in looks)
    # By all noise of both: no narrower than that, and hardly wider.
    first, second = (x.mechanism for x in looks)
    weight = round(1000 * first.noise.variance / (second.noise.variance / 64))
    xs, ys = np.arange(-60, 61), np.arange(-500, 501)
    size = np.abs(np.add.outer(1000 * xs, weight * ys / 8)) / (1000 + weight)
    chances = np.multiply.outer(first.noise.pmf(xs), second.noise.pmf(ys))
    far = both.high - both.value
    assert chances[size > far].sum() <= 0.05 < chances[size > 0.99 * far].sum()


def test_rows_of_a_session():
    frame = pl.DataFrame({"u": [f"u{i}" for i in range(60)], "item": ["a", "b", "c"] * 20})
    unit = sd.PrivacyUnit("u", max_rows=1)
    session = sd.Session(frame, unit=unit, entropy=sd.Seeded(2))
    counts = session.histogram("item", epsilon=1, domain=["a", "b", "c"])
    top = session.top_k("item", k=2, epsilon=4, domain=["a", "b", "c"], method="gaps")
    total = sd.add_rows(counts)
    assert total.value == sum(row.estimate for row in counts)
    assert (
        sd.add_rows(counts, ["a"], minus=["c"]).value
        == counts.rows[0].estimate - counts.rows[2].estimate
    )
    assert sd.add_rows(top).value == sum(row.measured for row in top)
    assert {row.item for row in sd.rank_rows(top)} == {row.item for row in top}
    # Counts are not negative.
    assert sd.divide_rows(values_of([-9, 400]), 0, 1).low < 0
    assert sd.divide_rows(counts, "a", "b").low >= 0
    alone = session.count_distinct_units(epsilon=1)
    [looked] = sd.combine_looks([alone, session.count_distinct_units(epsilon=1)])
    assert looked.low < 60 < looked.high


REFUSED = {
    "folded": lambda: sd.add_rows(
        sd.FoldedMechanism(lower=0, upper=9, epsilon=1, sensitivity=sd.COUNTING).release(3)
    ),
    "a selection": lambda: sd.rank_rows(
        sd.NoisyTopK(k=1, epsilon=1, sensitivity=sd.COUNTING).release([3, 4])
    ),
    "no release": lambda: sd.add_rows([1, 2]),
    "no row": lambda: sd.add_rows(values_of([1, 2]), []),
    "an unknown row": lambda: sd.add_rows(values_of([1, 2]), [7]),
    "a row twice": lambda: sd.add_rows(values_of([1, 2]), [0, 0]),
    "a row on both sides": lambda: sd.add_rows(values_of([1, 2]), [0], minus=[0]),
    "a ratio to itself": lambda: sd.divide_rows(values_of([1, 2]), 0, 0),
    "one look": lambda: sd.combine_looks([values_of([1, 2])]),
    "other rows": lambda: sd.combine_looks([values_of([1, 2]), values_of([1, 2, 3])]),
    "confidence": lambda: sd.rank_rows(values_of([1, 2]), confidence=1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_exact_law_is_refused(name):
    with pytest.raises(sd.InvalidParameter):
        REFUSED[name]()


def test_a_look_is_not_combined_with_itself():
    look = values_of([1, 2])
    with pytest.raises(sd.InvalidParameter, match="independent"):
        sd.combine_looks([look, look])
