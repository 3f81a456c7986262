"""Intervals whose order turns by what was released: the law of all of them, against adversaries who turn, and against 50 digits."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from functools import reduce

import mpmath
import numpy as np
import pytest

from cost import exact
from sordino.cost import Pure, Range, compose, loss_law, repeat
from sordino.cost.conversion import rdp_epsilon

SMALL, WIDE = (Fraction(1, 20), Fraction(1, 10)), (Fraction(1, 10), Fraction(3, 10))


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(exact.DIGITS):
        yield


def orders(low, high):
    """Both orders of a pair, for an adversary."""
    return [
        [(float(p), float(q)) for _, p, q in exact.two_points(*ends)]
        for ends in ((low, high), (high, low))
    ]


def law_of(low, high, count):
    """The law as the product sums it, with its losses."""
    other, top = min(low, high), max(low, high)
    grid = loss_law.find_grid(other, top, count, loss_law.CELLS_OF_LAW)
    masses = loss_law.turning_masses(top, count, grid)
    reach = count * grid.most
    losses = (exact.mp(top / grid.most * j) for j in range(-reach, reach + 1))
    return [
        (loss, mpmath.mpf(mass), mass * mpmath.exp(-loss))
        for loss, mass in zip(losses, masses, strict=True)
    ]


@pytest.mark.parametrize(
    "ends", [SMALL, WIDE, (Fraction(2), Fraction(1, 2)), (Fraction(3, 10), Fraction(2, 7))]
)
@pytest.mark.parametrize("count", [2, 3, 6])
@pytest.mark.each_value
def test_the_law_is_the_game_and_its_own_mirror_image(ends, count):
    law, truth = law_of(*ends, count), exact.turned(*ends, count)
    assert all(mass >= 0 for _, mass, _ in law)
    for side in (1, 2):
        assert 1 <= sum(point[side] for point in law) < 1 + 1e-11
    for share in (-0.9, -0.3, 0, 0.1, 0.35, 0.6, 0.9, 0.999):
        epsilon = mpmath.mpf(share * count * float(max(ends)))
        true = exact.stick(truth, epsilon)
        assert true <= exact.stick(law, epsilon) <= true * (1 + mpmath.mpf(10) ** -9)


@pytest.mark.parametrize("ends", [SMALL, WIDE, (Fraction(1), Fraction(2, 5))])
def test_an_adversary_who_turns_by_what_was_seen_reaches_the_law(ends):
    """The game is played out to its end, so the cost could not be smaller; before, three points were charged."""
    cost, convicted = repeat(Range(low=ends[0], high=ends[1]), 5), False
    for share in (0, 0.1, 0.3, 0.6, 0.8):
        epsilon = share * 5 * float(max(ends))
        attack = exact.best_play(orders(*ends), 5, math.exp(epsilon))
        assert attack * (1 - 1e-12) <= cost.delta(epsilon) <= attack * (1 + 1e-9) + 1e-15
        plain = [exact.both_orders(exact.two_points(*ends))] * 5
        convicted |= attack < 0.999 * float(
            exact.stick(reduce(exact.times, plain), mpmath.mpf(epsilon))
        )
    assert convicted


MIXED = [
    (
        [
            (Range(low=SMALL[0], high=SMALL[1]), orders(*SMALL)),
            (Range(low=WIDE[1], high=WIDE[0]), orders(*WIDE)),
        ],
        (2, 2),
    ),
    (
        [
            (Range(low=SMALL[0], high=SMALL[1]), orders(*SMALL)),
            (Pure(epsilon=Fraction(1, 5)), orders(Fraction(1, 5), Fraction(1, 5))[:1]),
            (Range(low=WIDE[0], high=WIDE[1], orientation="here"), orders(*WIDE)[:1]),
        ],
        (3, 1, 1),
    ),
]


@pytest.mark.parametrize(("kinds", "counts"), MIXED, ids=["two kinds", "kinds of all sorts"])
def test_no_order_of_a_mixed_list_beats_it(kinds, counts):
    """The adversary also picks, by what was seen, which part comes next, and when to stop."""
    cost = compose(*(repeat(one, n) for (one, _), n in zip(kinds, counts, strict=True)))
    pairs = [plays for _, plays in kinds]
    mirrored = [[[(q, p) for p, q in pair] for pair in plays] for plays in pairs]
    nearest = 0.0
    for share in np.linspace(0, 0.95, 20):
        epsilon = share * float(cost.pure())
        attack = max(exact.best_list(k, counts, math.exp(epsilon)) for k in (pairs, mirrored))
        assert attack <= cost.delta(epsilon) * (1 + 1e-12) + 1e-15
        nearest = max(nearest, attack / cost.delta(epsilon))
    assert nearest > 0.99


def test_the_broken_twins_are_convicted():
    """One order for all parts; and the game of the turning parts innermost, as if they always came last."""
    convicted = dict.fromkeys(("one order", "innermost"), False)
    plays, pure = orders(*SMALL), orders(Fraction(1, 10), Fraction(1, 10))[0]
    fixed = [reduce(exact.times, [exact.two_points(*ends)] * 3) for ends in (SMALL, SMALL[::-1])]
    for epsilon in np.linspace(0, 0.39, 40):
        gamma = math.exp(epsilon)
        straight = max(float(exact.stick(law, mpmath.mpf(epsilon))) for law in fixed)
        convicted["one order"] |= exact.best_play(plays, 3, gamma) > straight * (1 + 1e-9)
        # The adversary lets the fixed part come first, and turns the others by its outcome.
        convicted["innermost"] |= exact.best_list([plays, [pure]], (3, 1), gamma) > blind(
            plays, pure, 3, gamma
        ) * (1 + 1e-9)
    assert all(convicted.values()), convicted


def blind(plays, last, rounds, gamma, p=1.0, q=1.0):
    """The value of the game if a fixed part comes after all others."""
    if not rounds:
        return sum(max(p * a - gamma * q * b, 0.0) for a, b in last)
    return max(
        sum(blind(plays, last, rounds - 1, gamma, p * a, q * b) for a, b in pair) for pair in plays
    )


@pytest.mark.parametrize("count", [2, 20, 300])
def test_ends_that_miss_a_grid_are_raised_a_little(count):
    """An irrational-looking ratio: never below the law of a smaller interval, and close to that of a larger one."""
    low, high = Fraction(123457, 10**6), Fraction(1, 3)
    found = repeat(Range(low=low, high=high), count).epsilon(1e-6)
    below = repeat(Range(low=Fraction(123, 1000), high=Fraction(333, 1000)), count).epsilon(1e-6)
    assert below < found < below * 1.01
    grid = loss_law.find_grid(low, high, count, loss_law.CELLS_OF_LAW)
    assert grid.fewer * high >= low * grid.most


def test_nearly_equal_ends_are_not_worse_than_three_points():
    near = Range(low=Fraction(9999, 10**5), high=Fraction(1, 10))
    plain = loss_law._sum_in_every_order([(near, 900)], [], 0)
    assert repeat(near, 900).epsilon(1e-6) <= max(law.epsilon(1e-6) for law in plain)


def test_longer_and_wider_lists_cost_more():
    curve = [repeat(Range(low=0.05, high=0.1), n).epsilon(1e-6) for n in (2, 3, 10, 50, 200, 1000)]
    assert curve == sorted(curve)
    wider = [repeat(Range(low=low, high=0.1), 30).epsilon(1e-6) for low in (0.02, 0.05, 0.07, 0.1)]
    assert wider == sorted(wider)


def test_turned_texts_are_one_kind():
    here, back = Range(low=0.05, high=0.1), Range(low=0.1, high=0.05)
    assert compose(repeat(here, 7), repeat(back, 13)).epsilon(1e-6) == repeat(here, 20).epsilon(
        1e-6
    )


def test_where_there_is_no_room_the_other_routes_hold():
    kinds = [Range(low=Fraction(k, 1009), high=Fraction(k + 1, 1013)) for k in range(5, 25)]
    many = compose(*(repeat(one, 30) for one in kinds))
    start = time.process_time()
    assert 0 < many.epsilon(1e-6) <= rdp_epsilon(many.rdp, 1e-6)
    assert repeat(Range(low=0.05, high=0.1), 10**6).epsilon(1e-6) > 0
    assert repeat(Range(low=Fraction(1, 10**320), high=Fraction(2, 10**320)), 3).epsilon(1e-6) >= 0
    assert repeat(Range(low=300, high=400), 3).epsilon(1e-6) <= 1200 * (1 + 1e-12)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("end", "count", "gain"), [("0.05", 20, 0.012), ("0.05", 100, 0.002), ("0.1", 20, 0.002)]
)
def test_an_orientation_saves_a_list_about_a_hundredth_and_an_account_nothing(end, count, gain):
    """What the page of the sparse vector says about a statement that it does without."""
    low, high = Fraction(end), 2 * Fraction(end)
    turns, fixed = (
        Range(low=low, high=high),
        Range(low=high, high=low, orientation="the larger data first"),
    )
    assert (turns.pure(), turns.zcdp()) == (fixed.pure(), fixed.zcdp())
    assert [turns.rdp(order) for order in (1.5, 8.92606, 300)] == [
        fixed.rdp(order) for order in (1.5, 8.92606, 300)
    ]
    saved = 1 - repeat(fixed, count).epsilon(1e-6) / repeat(turns, count).epsilon(1e-6)
    assert gain / 2 < saved < gain
