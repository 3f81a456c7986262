"""Figures and intervals of sums of periods, against an exact convolution and against what is expected of a year."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from sordino.figures import Origin, Term
from sordino.noise import DiscreteGaussian, DiscreteLaplace
from sordino.series.nodes import list_nodes, split_epsilon
from sordino.series.totals import RunningTotals
from sordino.session.looks import LookRow

EPOCH = dt.date(1970, 1, 1)
FIRST = (dt.date(2026, 1, 1) - EPOCH).days
LEVELS = ("day", "month")


def make(
    nodes, rates, value=lambda _node, _item: 0, items=(0,), levels=LEVELS, first=FIRST, laws=None
):
    def row(node, item):
        law = DiscreteLaplace(rates[node.level]) if laws is None else laws[node.level]
        found = Fraction(value(node, item))
        term = Term(origin=Origin(), row=item, value=found, law=law, step=Fraction(1))
        return LookRow((term,))

    kept = {node: {item: row(node, item) for item in items} for node in nodes}
    return RunningTotals(first=first, cut="day", levels=levels, kept=kept)


def year(value=lambda _node, _item: 0, days=365, **more):
    rates = split_epsilon(Fraction(1), LEVELS)
    return make(list_nodes(FIRST, FIRST + days - 1, "day", LEVELS), rates, value, **more)


def place(day):
    return (dt.date.fromisoformat(day) - EPOCH).days


def exceeds(noises, reach):
    """Return P(|S| > reach) of a sum of discrete Laplace noises, by the convolution of their laws."""
    points = 1 << 12
    law = np.zeros(points)
    law[0] = 1
    transform = np.ones(points // 2 + 1, dtype=complex)
    steps = np.minimum(np.arange(points), points - np.arange(points))
    for rate, times in noises:
        mass = math.tanh(rate / 2) * np.exp(-rate * steps)
        transform *= np.fft.rfft(mass) ** times
    law = np.fft.irfft(transform, points)
    return float(law[steps > reach].sum())


def test_intervals_are_exact_and_normal_ones_are_too_short():
    totals = year()
    cases = {"2026-06-15": (15, 5, 24), "2026-12-30": (30, 11, 34), "2026-12-31": (0, 12, 23)}
    cases |= {"2026-01-01": (1, 0, 5), "2026-01-31": (0, 1, 7)}
    for day, (days, months, reach) in cases.items():
        [found] = totals.find_at(place(day))
        noises = [(0.58, days), (0.42, months)]
        assert found.periods == days + months
        # Nothing is counted below 0, so the low end is where figures begin.
        assert (found.low, found.high) == (0, reach), day
        assert exceeds(noises, reach) <= 0.05 < exceeds(noises, reach - 1)
    variance = 15 / (2 * math.sinh(0.29) ** 2) + 5 / (2 * math.sinh(0.21) ** 2)
    assert round(1.959964 * math.sqrt(variance)) == 23
    assert exceeds([(0.58, 15), (0.42, 5)], 23) == pytest.approx(0.0504, abs=5e-5)
    # All days of a year at once.
    wrong = Fraction(1, 20 * 365)
    reaches = [totals.find_at(place(day), wrong=wrong)[0].high for day in cases]
    assert reaches == [49, 68, 49, 15, 21]


def test_intervals_of_gaussian_noise_are_exact():
    """The least whole number that the sum passes with at most 5%, by the convolution of the laws."""
    rates = split_epsilon(Fraction(1, 5), LEVELS, "gaussian")
    laws = {level: DiscreteGaussian(rate**2 / 2) for level, rate in rates.items()}
    points = 1 << 12
    steps = np.minimum(np.arange(points), points - np.arange(points))
    seen = {
        level: np.fft.rfft(weights / weights.sum())
        for level, law in laws.items()
        if (weights := np.exp(-float(law.rate) * steps.astype(float) ** 2)).sum()
    }
    totals = make(list_nodes(FIRST, FIRST + 364, "day", LEVELS), rates, laws=laws)
    for day in range(FIRST, FIRST + 365, 6):
        [found] = totals.find_at(day)
        [way, *_] = totals.list_ways(day)
        many = Counter(node.level for node, _ in way)
        law = np.fft.irfft(math.prod(seen[level] ** times for level, times in many.items()), points)
        beyond = [float(law[steps > reach].sum()) for reach in range(400)]
        least = next(reach for reach, chance in enumerate(beyond) if chance <= 0.05)
        assert found.high == least, day


def test_a_total_is_the_sum_of_its_periods_and_what_is_known_later_is_nearer():
    # Each period says of how many days it is, and the months were a thousand more each.
    def value(node, _item):
        return len(node.parts) + (1000 if node.level == "month" else 0)

    totals = year(value)
    [found] = totals.find_at(place("2026-03-30"))
    assert (found.total, found.periods) == (2000 + 31 + 28 + 30, 32)
    # Of the end of March, less the last day.
    assert found.revised == 3000 + 90 - 1
    assert found.revised_high - found.revised < found.high - found.total
    # On 2 March forwards is shorter.
    [early] = totals.find_at(place("2026-03-02"))
    assert (early.total, early.revised) == (2000 + 61, 2000 + 61)
    # Before March has ended nothing else is known.
    before = year(value, days=31 + 28 + 30)
    [then] = before.find_at(place("2026-03-30"))
    assert (then.total, then.revised) == (found.total, found.total)
    assert (then.revised_low, then.revised_high) == (found.low, found.high)
    # What was asked before the end of the month stays as it was.
    assert (then.low, then.high) == (found.low, found.high)


def test_periods_that_are_missing_are_made_up_of_others_or_missed():
    whole = year(lambda node, _item: len(node.parts))
    for level, many in (("month", 59), ("day", 2)):
        lost = {node: row for node, row in whole.kept.items() if node.level != level}
        if level == "day":
            totals = RunningTotals(first=FIRST, cut="day", levels=LEVELS, kept=lost)
            assert totals.find_at(place("2026-02-27")) == []
        else:
            totals = RunningTotals(first=FIRST, cut="day", levels=LEVELS, kept=lost)
        [found] = totals.find_at(place("2026-02-28"))
        assert (found.total, found.periods) == (59, many)
    assert RunningTotals(first=FIRST, cut="day", levels=LEVELS, kept={}).find_at(FIRST) == []
    # Where a day is missing, those after it are made up from the end of their month.
    tenth = place("2026-02-10")
    lost = {node: row for node, row in whole.kept.items() if node.parts.low != tenth}
    totals = RunningTotals(first=FIRST, cut="day", levels=LEVELS, kept=lost)
    [before], [at], [after] = (totals.find_at(tenth + step) for step in (-1, 0, 1))
    assert (before.total, before.periods) == (31 + 9, 10)
    # As it was when the day had ended nobody knows it; late rows of days behind it may be in this.
    assert (at.total, at.low, at.periods, at.revised) == (None, None, None, 31 + 10)
    assert (after.total, after.revised) == (None, 31 + 11)
    assert at.to_dict()["total"] is None
    open_month = {node: row for node, row in lost.items() if node.parts.high < tenth + 15}
    totals = RunningTotals(first=FIRST, cut="day", levels=LEVELS, kept=open_month)
    assert [len(totals.find_at(tenth + step)) for step in (-1, 0, 1)] == [1, 0, 0]


def test_the_largest_labels_hold_all_at_once():
    counts = {"tea": 3, "coffee": 9, "cocoa": 9, "milk": 1}
    totals = year(lambda node, item: counts[item] * len(node.parts), items=tuple(counts))
    part = place("2026-06-15")
    found = totals.find_largest(part, 3)
    # Equal ones in the order of the labels.
    assert [one.item for one in found] == ["cocoa", "coffee", "tea"]
    alone = {one.item: one for one in totals.find_at(part)}
    joint = {one.item: one for one in totals.find_at(part, wrong=Fraction(1, 80))}
    for one in found:
        assert one == joint[one.item]
        assert one.high > alone[one.item].high
    far = int(found[0].high - found[0].total)
    noises = [(0.58, 15), (0.42, 5)]
    assert exceeds(noises, far) <= 0.05 / 4 < exceeds(noises, far - 1)
    assert found[0].to_dict()["item"] == "cocoa"
    # Labels are texts, also those of numbers, and a count has none.
    totals = year(lambda *_: 1, days=1, items=("0", "1"))
    assert [one.to_dict()["item"] for one in totals.find_at(FIRST)] == ["0", "1"]
    [count] = year(lambda *_: 1, days=1).find_at(FIRST)
    assert "item" not in count.to_dict()
    # A label that one period lacks has no figure.
    kept = dict(year(days=2, items=("a", "b")).kept)
    node = next(iter(kept))
    kept[node] = {"b": kept[node]["b"]}
    assert RunningTotals(first=FIRST, cut="day", levels=LEVELS, kept=kept).items == ["b"]


def test_every_printed_interval_holds_and_errors_are_those_of_the_proof():
    """Series of a year: of the figures of all days and of the revised ones at least 95% hold, and their errors are as said."""
    runs, draw = 1500, np.random.default_rng(11)
    rates = split_epsilon(Fraction(1), LEVELS)
    nodes = list(list_nodes(FIRST, FIRST + 364, "day", LEVELS))
    noise = {
        node: draw.geometric(-math.expm1(-float(rates[node.level])), runs)
        - draw.geometric(-math.expm1(-float(rates[node.level])), runs)
        for node in nodes
    }
    # A figure far above 0, so that no end is cut; its value says which noises it is the sum of.
    totals = year(lambda node, _item: 10**9 * len(node.parts))
    plain = np.zeros((365, runs))
    far, near = np.zeros(365), np.zeros(365)
    revised = np.zeros((365, runs))
    for day in range(365):
        part = FIRST + day
        [found] = totals.find_at(part)
        ways = list(totals.list_ways(part))
        best = min(ways, key=lambda way: totals.add_up(way, 0)[1])
        plain[day] = sum(noise[node] for node, _ in ways[0])
        revised[day] = sum(sign * noise[node] for node, sign in best)
        assert found.total == found.revised == 10**9 * (day + 1)
        far[day], near[day] = found.high - found.total, found.revised_high - found.revised
    assert math.sqrt((plain**2).mean()) == pytest.approx(12.133, rel=0.03)
    assert math.sqrt((revised**2).mean()) == pytest.approx(10.55, rel=0.03)
    for error, reach in ((plain, far), (revised, near)):
        held = (np.abs(error) <= reach[:, None]).mean(axis=1)
        assert held.mean() >= 0.95
        assert held.min() >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / runs)


def test_what_never_falls_is_told_of_all_parts_at_once():
    """Rows of the first day alone, some of them late: nothing passes the ends but for a chance of 5%, and the lows rise."""
    runs, days, draw = 400, 33, np.random.default_rng(7)
    rates = split_epsilon(Fraction(1), LEVELS)
    nodes = list(list_nodes(FIRST, FIRST + days - 1, "day", LEVELS))
    in_time, late, missed, each_alone = 300, 20, 0, 0
    for _ in range(runs):
        noise = {
            node: int(draw.geometric(share) - draw.geometric(share))
            for node in nodes
            if (share := -math.expm1(-float(rates[node.level])))
        }

        def value(node, _item, noise=noise):
            counted = in_time * (node.parts.low == FIRST) + late * (node.level == "month")
            return counted + noise[node]

        totals = make(nodes, rates, value)
        found = totals.find_rising(FIRST + days - 1)
        lows, highs = [one.at_least for one in found], [one.at_most for one in found]
        assert lows == sorted(lows)
        assert highs == sorted(highs)
        # Low ends are of all that is there by now, high ends of what came in time.
        missed += lows[-1] > in_time + late or highs[0] < in_time
        each_alone += max(one.low for one in found) > in_time + late or (
            min(one.high for one in found) < in_time
        )
    assert missed <= 0.05 * runs < each_alone
    # One interval of each part, at its share of the level; a missing day tells what those beside it do.
    wrong = Fraction(1, 20 * days)
    ends = [
        (one.low, one.high)
        for day in range(days)
        for one in totals.find_at(FIRST + day, wrong=wrong)
    ]
    assert lows == [max(low for low, _ in ends[: day + 1]) for day in range(days)]
    assert highs == [min(high for _, high in ends[day:]) for day in range(days)]
    kept = {node: row for node, row in totals.kept.items() if node.parts.low != FIRST + 10}
    gap = RunningTotals(first=FIRST, cut="day", levels=LEVELS, kept=kept)
    by_part = {one.part: one for one in gap.find_rising(FIRST + days - 1)}
    at, before, after = (by_part[f"2026-01-{day}"] for day in (11, 10, 31))
    assert (at.total, at.at_least, at.at_most) == (None, before.at_least, after.at_most)
