"""The calendar of a series, against Python's own: which periods there are, what they cost, and which make up a time."""

from __future__ import annotations

import datetime as dt
import random
from calendar import monthrange
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from sordino.cost import ZCDP
from sordino.cost.several import bound_several
from sordino.errors import InvalidParameter
from sordino.ledger import PartRange, read_parts
from sordino.ledger.account.price import RHO
from sordino.sensitivity import COUNTING
from sordino.series.nodes import (
    LEVELS,
    Node,
    check_levels,
    cover,
    find_node,
    index_nodes,
    list_nodes,
    split_epsilon,
)
from sordino.series.noise import Measured, choose_noise

DAYS = ("day", "month")
EPOCH = dt.date(1970, 1, 1)
ALL = [(cut, levels[:most]) for cut, levels in LEVELS.items() for most in range(1, len(levels) + 1)]


def of(day):
    return (day - EPOCH).days


def ends(part, cut, level):
    """Return the first and the last part of a calendar period, by Python's calendar alone."""
    if cut == "year" or (cut, level) == ("month", "month"):
        return part, part
    if cut == "month":
        first = part // 12 * 12
        return first, first + 11
    day = EPOCH + dt.timedelta(part // 24 if cut == "hour" else part)
    if level == "hour":
        return part, part
    low, high = {
        "day": (day, day),
        "month": (day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])),
        "year": (day.replace(month=1, day=1), day.replace(month=12, day=31)),
    }[level]
    each = 24 if cut == "hour" else 1
    return of(low) * each, of(high) * each + each - 1


@pytest.mark.parametrize(("cut", "levels"), ALL)
@pytest.mark.sample(9)
def test_periods_are_those_of_the_calendar(cut, levels):
    draw = random.Random(f"{cut} {levels}")
    spans = {"hour": 3_000, "day": 1_600, "month": 60, "year": 12}
    # Over leap years, and over a year that is none though four divide it.
    start = {"hour": of(dt.date(2024, 2, 1)) * 24, "day": of(dt.date(1899, 6, 1))}.get(cut, 0)
    for first in (start, start + draw.randrange(1, spans[cut] // 3)):
        until = first + spans[cut]
        nodes = list(list_nodes(first, until, cut, levels))
        truth = {
            (level, max(first, ends(part, cut, level)[0]), part)
            for part in range(first, until + 1)
            for level in levels
            if ends(part, cut, level)[1] == part
        }
        assert {(one.level, one.parts.low, one.parts.high) for one in nodes} == truth
        assert len(nodes) == len(truth)
        # In the order in which they end, and named so that the account reads the same.
        assert [one.parts.high for one in nodes] == sorted(one.parts.high for one in nodes)
        assert all(read_parts(one.text, cut) == one.parts for one in nodes)
        # Each part is in one period of each level: its epsilons add up to those of all levels.
        for level in levels:
            of_level = [one.parts for one in nodes if one.level == level]
            assert of_level[0].low == first
            assert all(a.high + 1 == b.low for a, b in pairwise(of_level))


def fewest(low, high, known):
    """Return of how many periods a time can be made up at least; None if it cannot be."""
    best = {low: 0}
    for place in range(low, high + 1):
        if place in best:
            for one in known:
                if one.low == place and one.high <= high:
                    count = best[place] + 1
                    best[one.high + 1] = min(count, best.get(one.high + 1, count))
    return best.get(high + 1)


def test_a_time_is_made_up_of_the_fewest_periods_that_are_there():
    draw = random.Random(3)
    found = missing = 0
    for _ in range(400):
        cut, levels = draw.choice(ALL[:6])
        first = draw.randrange(100_000)
        until = first + draw.randrange(1, 200)
        share = draw.choice((0, 0, 0.02, 0.1, 0.5))
        nodes = {one for one in list_nodes(first, until, cut, levels) if draw.random() >= share}
        low = draw.choice((first, draw.randrange(first, until + 1)))
        high = draw.randrange(low, until + 1)
        made = cover(low, high, index_nodes(nodes))
        least = fewest(low, high, [one.parts for one in nodes])
        assert (None if made is None else len(made)) == least
        missing += made is None
        if made is not None:
            found += 1
            assert set(made) <= nodes
            places = [part for one in made for part in range(one.parts.low, one.parts.high + 1)]
            assert places == list(range(low, high + 1))
    assert min(found, missing) > 40


def test_the_epsilons_of_all_periods_are_the_share_in_whole_billionths():
    draw = random.Random(4)
    shares = [Fraction(1, 3), Fraction(123_456_789, 10**9), Fraction(3, 10), Fraction(7, 10**9)]
    shares += [Fraction(draw.randrange(10, 10**9), draw.randrange(1, 10**9)) for _ in range(200)]
    for cut, levels in ALL:
        for share in shares:
            rates = split_epsilon(share, levels)
            assert tuple(rates) == levels
            assert sum(rates.values()) == Fraction(int(share * 10**9), 10**9), (cut, share)
            assert all((rate * 10**9).denominator == 1 for rate in rates.values())
        with pytest.raises(InvalidParameter, match="at least a billionth for each"):
            split_epsilon(Fraction(len(levels), 10**10), levels)
    # Rounded up by itself each would be missing for its month: charges of days and months say so.
    up = [-(-Fraction(1, 3) * share // Fraction(1, 10**7)) for share in (58, 42)]
    assert sum(up) > int(Fraction(1, 3) * 10**9)
    # Thirds over two years and a half: in no moment more, and exactly that when all periods ended.
    first, share = of(dt.date(2023, 6, 15)), Fraction(1, 3)
    until = of(dt.date(2025, 12, 31))
    levels = ("day", "month", "year")
    rates = split_epsilon(share, levels)
    whole, sums = sum(rates.values()), dict.fromkeys(range(first, until + 1), Fraction(0))
    for node in list_nodes(first, until, "day", levels):
        for part in range(node.parts.low, node.parts.high + 1):
            sums[part] += rates[node.level]
            assert sums[part] <= whole <= share
    assert set(sums.values()) == {whole}
    # The first day of a series may be the last one of a month, whose period it is then as well.
    last = of(dt.date(2026, 1, 31))
    both = list(list_nodes(last, last, "day", ("day", "month")))
    assert both == [Node(PartRange(last, last), level, "day") for level in ("day", "month")]
    assert len(set(both)) == 2
    assert find_node(last, last, "day", "month") == both[1]
    assert list(list_nodes(last + 1, last, "day", ("day", "month"))) == []
    # Which there may be follows from the cut.
    for cut, levels in ALL:
        assert check_levels(cut, levels[::-1]) == levels
    for cut, levels in (("day", ("hour", "day")), ("day", ("month",)), ("hour", ("hour", "month"))):
        with pytest.raises(InvalidParameter, match="must be the first ones of"):
            check_levels(cut, levels)


def lose(laws, moved, epsilon):
    """Return the delta of somebody on so many days of a month at an epsilon: exactly, over the noises of these days and of the month."""
    reach = 600
    places = np.arange(-reach, reach + 1)
    day, month = (np.exp(-float(laws[level].rate) * places.astype(float) ** 2) for level in DAYS)
    day, month = day / day.sum(), month / month.sum()
    days = day
    for _ in range(moved - 1):
        days = np.convolve(days, day)
    sums = np.arange(-moved * reach, moved * reach + 1)
    of_days = float(laws["day"].rate) * (moved - 2.0 * sums)
    of_month = float(laws["month"].rate) * (moved**2 - 2.0 * moved * places)
    kept_days, kept_month = days > 1e-18, month > 1e-18
    loss = of_days[kept_days][:, None] + of_month[kept_month]
    chance = days[kept_days][:, None] * month[kept_month]
    return float((chance * -np.expm1(np.minimum(0, epsilon - loss))).sum())


def test_what_gaussian_noise_promises_is_what_somebody_loses():
    """By enumeration, of one day and of seven; that a rho grows with the number of days alone would be wrong."""
    measured = Measured(sum_moves=COUNTING, square_moves=COUNTING, price=RHO)
    chosen = choose_noise(measured, Fraction(1), DAYS)
    laws = {level: one.noise for level, one in measured.list_periods(chosen).items()}
    delta = Fraction(1, 10**6)
    for days in (1, 7):
        told = bound_several(days, Fraction(0), delta, rho=chosen.rho) if days > 1 else None
        epsilon = ZCDP(rho=chosen.rho).epsilon(delta) if told is None else float(told[0])
        assert lose(laws, days, epsilon) <= delta < lose(laws, days, 0.5 * epsilon)
    assert lose(laws, 7, ZCDP(rho=7 * chosen.rho).epsilon(delta)) > delta
    # Its parts: what is charged is what is lost, and no more than Laplace noise is charged.
    assert sum(law.rate for law in laws.values()) == chosen.rho
    assert (
        measured.add_up(chosen).main
        <= measured.add_up(choose_noise(measured, Fraction(1), DAYS, "laplace")).main
    )
