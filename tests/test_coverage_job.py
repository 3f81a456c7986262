"""The job that measures coverage convicts an interval that is too narrow, and none that holds what it promises.

Seeds are not used: a verdict here is wrong about once in a million runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.coverage import account, figures, items, trials
from benchmarks.coverage.asking import Asked
from benchmarks.coverage.tables import UNITS, Truth, item_frame, number_frame, number_truths

from sordino import PrivacyUnit
from sordino.estimators import interval
from sordino.estimators.clipped import clipped_value
from sordino.estimators.rows import count_interval
from sordino.record import list_noises
from sordino.session import counts

MANY = 10**5
"""So many shares are looked at that a mark by chance is rarer than once in ten million."""
RUNS = 160


def narrowed(low, high, share=2):
    middle, reach = (low + high) / 2, (high - low) / 2
    return middle - reach / share, middle + reach / share


def half_a_count(released, *, confidence):
    """A broken twin: half of the interval that the noise needs."""
    return narrowed(*interval(released, confidence=confidence))


def half_a_figure(*given, **more):
    """A broken twin for clipped figures."""
    return narrowed(*clipped_ends(*given, **more))


clipped_ends = clipped_value.clipped_ends


def convicted(module, *cell):
    tallies = module.measure(*cell, runs=RUNS)
    return {name for name, tally in tallies.items() if trials.convicted(tally, MANY)}


def test_half_an_interval_of_a_count_is_convicted(monkeypatch):
    cell = ("histogram --simultaneous", "few", "M = 2")
    assert convicted(items, *cell) == set()
    monkeypatch.setattr(counts, "interval", half_a_count)
    assert convicted(items, *cell) == {"low, high", "low, high of all rows"}


@pytest.mark.slow
def test_half_an_interval_of_a_sum_is_convicted(monkeypatch):
    cell = ("sum", "ties", "row")
    assert convicted(figures, *cell) == set()
    monkeypatch.setattr(clipped_value, "clipped_ends", half_a_figure)
    # The interval for all rows rests on the same ends, and may be convicted with it.
    assert "low, high" in convicted(figures, *cell)


def test_an_interval_of_a_bounded_count_is_none_of_the_true_one(monkeypatch):
    # What counts one item of a unit was once called an interval of the true count.
    cell = ("histogram", "few", "M = 1")
    monkeypatch.setattr(
        counts, "true_interval", lambda fresh, confidence, capped: count_interval(fresh, confidence)
    )
    assert convicted(items, *cell) == {"true_low, true_high"}


def test_the_lower_bound_of_a_share_is_that_of_clopper_and_pearson():
    # Of 20 out of 20 the bound is the 20th root of 5%; of none it is 0.
    assert trials.at_least(20, 20) == pytest.approx(0.05 ** (1 / 20))
    assert trials.at_least(0, 20) == 0.0


def test_one_bad_row_among_many_is_convicted():
    tally = trials.Tally()
    for run in range(1000):
        for row in range(20):
            tally.add(row, row != 7 or run % 5 != 0, 0.95)
    assert tally.worst() == (0.95, 800, 1000)
    assert trials.convicted(tally, MANY)
    assert "too narrow" in trials.cell(tally, MANY)


def test_what_says_nothing_is_no_trial():
    assert trials.holds(-np.inf, np.inf, 3.0) is None
    assert trials.holds(None, None, 3.0) is None
    assert trials.holds(None, 4.0, 3.0)
    assert not trials.holds(3.5, None, 3.0)
    tally = trials.Tally()
    tally.add("", None, 0.95)
    assert trials.cell(tally, 1) == "no end"


def test_truths_are_those_of_the_table():
    rows = Truth(np.array([1.0, 1.0, 2.0, 5.0]), missing=1)
    assert [rows.quantile(q) for q in (0, 0.25, 0.5, 0.75, 1)] == [1, 1, 1, 2, 5]
    assert Truth(np.array([]), missing=3).quantile(0.5) is None
    # Of the rows with a number two lie at 1 and one at 2: the buckets at 2 are those from 1 to 3.
    assert rows.ranks(2.0, np.array([1.0, 2.0, 3.0])) == (0, 3)
    frame = number_frame("mixed")
    [all_rows] = number_truths(frame, PrivacyUnit.row(), b"")
    assert all_rows.missing == frame["x"].null_count()
    assert np.array_equal(all_rows.numbers, frame["x"].drop_nulls().sort().to_numpy())


@pytest.mark.parametrize("name", ["quantile --by", "sum --by", "variance --by"])
def test_figures_of_groups_are_asked_as_a_session_asks_them(name):
    """Under replace-one the estimator is built a second time, with what of epsilon is left."""
    tallies = figures.measure(name, "ties", "row, replace-one", runs=4)
    assert all(set(tally.runs.values()) == {4} for tally in tallies.values())


@pytest.mark.slow
def test_on_an_account_with_a_delta_other_noise_is_measured():
    """Counts and totals have Gaussian noise, searches and selections Gumbel noise."""

    def noises(asked, frame, unit):
        made = Asked(asked, frame, UNITS[unit], b"\0" * 32, price=account.FREE).release()
        return set(list_noises(made.mechanism).values())

    items_, numbers = item_frame("few"), number_frame("ties")
    for name, units in account.COUNTED.items():
        found = noises(items.requests("few", units[-1])[name], items_, units[-1])
        assert {"gaussian", "gumbel"} & found, name
    for name in account.FIGURES:
        found = noises(figures.requests("ties", "M = 3")[name], numbers, "M = 3")
        assert {"gaussian", "gumbel"} & found, name
