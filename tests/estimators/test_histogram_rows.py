"""Intervals of rows that a noisy histogram selected by themselves: how often they are wrong, counted."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sordino import HistogramTopK, Seeded, Sensitivity
from sordino.estimators.rows import _bound_by_entry, estimate_histogram_rows, find_ends
from sordino.mechanisms.histogram_top_k import decide
from sordino.noise import DiscreteGaussian, DiscreteLaplace
from sordino.releases import HistogramTop

ONE_ITEM = Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=1)
LN2 = DiscreteLaplace(Fraction(693147180559945309417, 10**21))


@pytest.mark.parametrize(
    "law", [LN2, DiscreteLaplace(Fraction(1, 5)), DiscreteGaussian(Fraction(1, 20))]
)
@pytest.mark.parametrize("chance", [Fraction(1, 20), Fraction(1, 5)])
@pytest.mark.parametrize("answer", [0, 2, 7])
@pytest.mark.each_value
def test_the_end_from_the_entry_is_wrong_no_more_often_than_promised_given_the_selection(
    law, chance, answer
):
    """Given that the row was selected, that is, given all other noise."""
    noise = np.arange(-300, 301)
    weights = law.pmf(noise)
    worst = 0.0
    for entry in range(answer - 8, answer + 25):
        values = answer + noise
        selected = values >= entry
        ends = _bound_by_entry(
            law, values[selected].astype(float), np.full(selected.sum(), float(entry)), chance
        )
        missed = weights[selected][ends > answer].sum() / weights[selected].sum()
        assert missed <= float(chance) * (1 + 1e-6)
        worst = max(worst, missed)
    # Answers of 0 have no end that is too high but from far out.
    assert worst > 0.3 * float(chance)


@pytest.mark.parametrize(
    "law", [LN2, DiscreteLaplace(Fraction(1, 5)), DiscreteGaussian(Fraction(1, 20))]
)
@pytest.mark.parametrize("lead", [1, 5, 40])
@pytest.mark.each_value
def test_the_end_from_the_entry_is_that_of_the_definition_and_does_not_depend_on_how_large_the_counts_are(
    law, lead
):
    """Large counts had no lower end at all: of a tail beyond all floats nothing was concluded."""
    chance = Fraction(1, 40)

    def tail(x):
        return law.pmf(np.arange(x, x + 2000)).sum()

    # The least answer for which it is no wonder that the value lies so far above its entry.
    value = 60 + lead
    answers = range(value + 1)
    expected = next(t for t in answers if tail(value - t) > float(chance) * tail(60 - t))
    found = [
        float(
            _bound_by_entry(law, np.array([entry + lead], float), np.array([entry], float), chance)[
                0
            ]
        )
        for entry in (60, 10_060, 1_000_060)
    ]
    if not expected:
        assert found == [0, 0, 0], "barely selected: nothing bounds it from below"
    else:
        assert found == [expected, expected + 10_000, expected + 1_000_000]


def test_the_end_that_ignores_the_selection_is_convicted():
    """The twin: the value less a quantile of the noise, as if nothing had been selected."""
    noise, reach = np.arange(-60, 61), -LN2.quantile(0.05)
    values, entry = 0 + noise, 10
    selected = values >= entry
    missed = (
        LN2.pmf(noise[selected])[values[selected] - reach > 0].sum()
        / LN2.pmf(noise[selected]).sum()
    )
    assert missed == pytest.approx(1), "whoever came in by noise alone is always missed"


@pytest.mark.parametrize("law", [LN2, DiscreteGaussian(Fraction(1, 10))])
def test_upper_ends_are_wrong_no_more_often_than_promised_given_the_selection(law):
    noise = np.arange(-100, 101)
    reach = -law.quantile(0.05)
    for entry in range(-10, 15):
        selected = noise >= entry
        missed = (
            law.pmf(noise[selected])[noise[selected] < -reach].sum()
            / law.pmf(noise[selected]).sum()
        )
        assert missed <= 0.05 + 1e-12


def test_the_expected_share_of_wrong_ends_is_at_most_what_was_promised():
    """All outcomes of a small histogram, summed up exactly."""
    counts, k, size = np.array([6, 3, 3, 0]), 2, 4
    mechanism = HistogramTopK(k=k, epsilon=1, sensitivity=ONE_ITEM.over(size))
    law = mechanism.noise
    noise = np.array(list(product(range(-9, 10), repeat=size)))
    weights = law.pmf(noise).prod(axis=1)
    items, values, entries = decide(counts + noise, k, None)
    wrong_low = wrong_high = wrong = 0.0
    low, high = find_ends(
        HistogramTop(
            indices=items.reshape(-1),
            values=values.reshape(-1).astype(float),
            entries=entries.reshape(-1).astype(float),
            crossed=True,  # all rows in one list: without the ends that count on k of n
            mechanism=mechanism,
            cost=mechanism.cost,
            simulated=True,
        ),
        size=None,
        wrong=Fraction(1, 5),
    )
    truth = counts[items]
    low, high = low.reshape(-1, k), high.reshape(-1, k)
    wrong_low = (weights[:, None] * (low > truth)).sum() / k
    wrong_high = (weights[:, None] * (high < truth)).sum() / k
    wrong = (weights[:, None] * ((low > truth) | (high < truth))).sum() / k
    assert wrong_low <= 0.1 + 1e-9
    assert wrong_high <= 0.1 + 1e-9
    assert wrong > 0.02, "the ends are not wider than they must be by far"


@pytest.mark.parametrize("rho", [None, Fraction(1, 20)])
@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.each_value
def test_intervals_of_many_rows_hold_as_promised(rho, simultaneous):
    """Made-up counts, most of them near the cut; 200 releases."""
    size, k = 400, 20
    counts = np.maximum(0, np.round(60 / np.sqrt(1 + np.arange(size)))).astype(np.int64)
    budget = {"rho": rho} if rho else {"epsilon": Fraction(1, 2)}
    mechanism = HistogramTopK(k=k, sensitivity=ONE_ITEM.over(size, "l2" if rho else "l1"), **budget)
    shares, all_held = [], 0
    for seed in range(200):
        top = mechanism.release(counts, entropy=Seeded(seed))
        said = estimate_histogram_rows(top, size=size, confidence=0.9, simultaneous=simultaneous)
        truth = counts[top.indices]
        missed = (said.low > truth) | (said.high < truth)
        shares.append(missed.mean())
        all_held += not missed.any()
        assert ((said.low <= said.estimate) & (said.estimate <= said.high)).all()
    assert np.mean(shares) <= 0.1 + 3 * np.std(shares) / math.sqrt(200)
    if simultaneous:
        assert all_held >= 0.9 * 200 - 3 * math.sqrt(200 * 0.09)


def test_a_capped_count_has_no_upper_end():
    mechanism = HistogramTopK(k=2, epsilon=3, sensitivity=ONE_ITEM.over(5))
    top = mechanism.release([90, 50, 3, 0, 0], entropy=Seeded(3))
    said = estimate_histogram_rows(top, size=5, confidence=0.95, capped=True)
    assert said.true_high.tolist() == [math.inf, math.inf]
    assert (said.true_low >= said.low).all()
    plain = estimate_histogram_rows(top, size=5, confidence=0.95)
    assert plain.true_high.tolist() == plain.high.tolist()


def test_rows_with_a_lead_have_short_intervals_and_others_no_wider_ones_than_for_all():
    """Width of one item a unit, epsilon 1, of 13,929 answers: .6 of a second measurement, as was asked for."""
    mechanism = HistogramTopK(k=100, epsilon=1, sensitivity=ONE_ITEM.over(13_929))
    values = np.sort(np.linspace(40, 400, 100))[::-1].round()
    top = HistogramTop(
        indices=np.arange(100),
        values=values,
        entries=np.full(100, 39.0),
        crossed=None,
        mechanism=mechanism,
        cost=mechanism.cost,
        simulated=True,
    )
    said = estimate_histogram_rows(top, size=13_929, confidence=0.95)
    second = 2 * -DiscreteLaplace(Fraction(1, 2)).quantile(0.025)
    assert np.median(said.high - said.low) <= 0.6 * second
    assert (said.high - said.low).max() <= 1.1 * second
