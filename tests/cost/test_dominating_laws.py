"""Intervals of privacy loss: the two-point pair, its mirror image, and exact sums of fixed lists, against 50 digits and adversaries."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce

import mpmath
import numpy as np
import pytest

from cost import exact
from sordino import InvalidParameter
from sordino.cost import BoundedRange, Pure, Range, compose, loss_law, repeat
from sordino.cost.conversion import rdp_epsilon

HERE = "price, upward, fixed threshold, replace-one"
UP = Range(low=Fraction(1, 20), high=Fraction(1, 10), orientation=HERE)
DOWN = Range(low=Fraction(1, 10), high=Fraction(1, 20), orientation=HERE)
FREE = Range(low=Fraction(1, 20), high=Fraction(1, 10))
ENDS = [
    (Fraction(1, 20), Fraction(1, 10)),
    (Fraction(1, 2), Fraction(2)),
    (Fraction(3), Fraction(1, 1000)),
    (Fraction(1), Fraction(1)),
]
EPSILONS = ("0", "0.01", "0.06", "0.0999", "0.3", "0.7", "1.4", "2.5")


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(exact.DIGITS):
        yield


def bounds(value, truth, rel=1e-9):
    """The value is at least the truth and at most a rounding above it."""
    assert value >= truth, (value, truth)
    assert value <= truth * (1 + rel) + 1e-15, (value, truth)


@pytest.mark.parametrize(("low", "high"), ENDS)
def test_a_range_is_the_worse_order_of_two_points(low, high):
    cost, law = Range(low=low, high=high), exact.two_points(low, high)
    for epsilon in EPSILONS:
        bounds(
            cost.delta(float(epsilon)),
            max(exact.stick(law, epsilon), exact.stick(exact.swapped(law), epsilon)),
        )
    for alpha in ("1.001", "1.5", "4", "64", "10000"):
        truth = max(exact.moment(law, alpha), exact.moment(exact.swapped(law), alpha))
        bounds(cost.rdp(float(alpha)), truth, rel=1e-7)
        assert truth <= float(alpha) * cost.zcdp()


def test_the_mirror_image_is_needed():
    law = exact.two_points(UP.low, UP.high)
    one_way = max(exact.stick(law, "0.06"), 0)
    assert Range(low=UP.high, high=UP.low).delta(0.06) >= one_way * (1 - mpmath.mpf(10) ** -12)
    assert exact.stick(exact.swapped(law), "0.06") == 0, (
        "a range without its mirror would say 0 here"
    )
    assert float(one_way) == pytest.approx(0.01372886665805, rel=1e-10)
    assert float(law[0][2]) == pytest.approx(0.3168124094856, rel=1e-10)


@pytest.mark.parametrize(
    ("ends", "sup"), [(("0.05", "0.1"), 0.0027044), (("0.5", "1"), 0.26453), (("1", "2"), 0.99575)]
)
def test_divergence_per_order_has_the_known_supremum(ends, sup):
    cost = Range(low=Fraction(ends[0]), high=Fraction(ends[1]))
    ratios = [cost.rdp(1 + 10 ** (x / 40)) / (1 + 10 ** (x / 40)) for x in range(-120, 200)]
    assert max(ratios) == pytest.approx(sup, rel=3e-5)
    assert max(ratios) <= cost.zcdp()


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5, 2)])
def test_equal_ends_are_pure(epsilon):
    both, pure = Range(low=epsilon, high=epsilon), Pure(epsilon=epsilon)
    assert (both.pure(), both.zcdp()) == (pure.pure(), pure.zcdp())
    for alpha in (1.001, 2.0, 100.0, math.inf):
        assert both.rdp(alpha) == pure.rdp(alpha)
    for x in (0.0, 0.05, 0.9, 3.0):
        assert both.delta(x) == pure.delta(x)
        assert repeat(both, 5).delta(x) == pytest.approx(repeat(pure, 5).delta(x), rel=1e-12)
    for delta in (0, 1e-9, 1e-3, 0.5):
        assert both.epsilon(delta) == pure.epsilon(delta)
        assert repeat(both, 5).epsilon(delta) == pytest.approx(
            repeat(pure, 5).epsilon(delta), rel=1e-12
        )


def test_an_interval_on_one_side_of_0_is_refused():
    for low, high in ((0, 1), (1, 0)):
        with pytest.raises(InvalidParameter, match=r"both be positive, or both 0.*BoundedRange"):
            Range(low=low, high=high)
    assert (
        Range(low=0, high=0).epsilon(1e-6)
        == Range(low=0, high=0).rdp(2)
        == Range(low=0, high=0).delta(0)
        == 0
    )
    assert compose(Range(low=0, high=0), UP) == UP
    with pytest.raises(InvalidParameter, match="orientation must be a non-empty printable text"):
        Range(low=1, high=1, orientation="")


ORACLES = [
    (repeat(UP, 20), 1.398359361157),
    (repeat(UP, 100), 3.4459),
    (repeat(FREE, 20), 1.414924328169),
    (repeat(FREE, 100), 3.449723576198),
    (repeat(Range(low=Fraction(1, 10), high=Fraction(3, 10)), 7), 2.093992578423),
    (compose(repeat(UP, 18), repeat(DOWN, 2)), 1.4080),
    (repeat(Pure(epsilon=Fraction(1, 10)), 20), 1.788609117419),
]


@pytest.mark.parametrize(("cost", "epsilon"), ORACLES)
def test_fixed_lists_have_the_known_epsilons(cost, epsilon):
    assert cost.epsilon(1e-6) == pytest.approx(
        epsilon, abs=6e-5 if len(str(epsilon)) < 8 else 1e-10
    )


def test_orders_that_turn_cost_less_than_every_route_before():
    """Three points for each part, and summed divergences, were the smallest bounds once."""
    hundred = repeat(FREE, 100)
    [[law]] = loss_law.loss_laws(hundred.parts)
    [plain] = loss_law._sum_in_every_order([(FREE, 100)], [], 0)
    assert plain.epsilon(1e-6) == pytest.approx(3.825, abs=6e-4)
    assert hundred.epsilon(1e-6) == law.epsilon(1e-6) < 3.45 < 3.69 < rdp_epsilon(hundred.rdp, 1e-6)


def test_texts_turn_together_each():
    """Two texts have four orders, and the worst one is paid: less than if each part could turn."""
    other = Range(low=UP.low, high=UP.high, orientation="another column")
    both = compose(repeat(UP, 10), repeat(other, 10)).epsilon(1e-6)
    turned_once = compose(repeat(UP, 10), repeat(DOWN, 10)).epsilon(1e-6)
    assert both == pytest.approx(max(turned_once, repeat(UP, 20).epsilon(1e-6)), rel=1e-12)
    assert both < repeat(FREE, 20).epsilon(1e-6)
    many = [Range(low=UP.low, high=UP.high, orientation=f"column {i}") for i in range(20)]
    assert compose(*many).epsilon(1e-6) == pytest.approx(repeat(FREE, 20).epsilon(1e-6), rel=1e-12)
    mixed = compose(repeat(UP, 19), FREE).epsilon(1e-6)
    assert repeat(UP, 20).epsilon(1e-6) < mixed < repeat(FREE, 20).epsilon(1e-6)


def truth(*parts):
    """The two curves of the whole list: parts with one text as they are, those without by the game of their kind."""
    return [
        reduce(
            exact.times, [exact.swapped(law) if mirrored and turns else law for law, turns in parts]
        )
        for mirrored in (False, True)
    ]


def laws(cost, count):
    if isinstance(cost, Pure):
        return [(exact.two_points(cost.epsilon_, cost.epsilon_), False)] * count
    if cost.orientation:
        return [(exact.two_points(cost.low, cost.high), True)] * count
    return [(exact.turned(cost.low, cost.high, count), False)]


LISTS = [
    [(FREE, 3)],
    [(UP, 4)],
    [(UP, 2), (DOWN, 1)],
    [(UP, 3), (FREE, 2), (Pure(epsilon=Fraction(3, 10)), 1)],
    [(Pure(epsilon=Fraction(1, 3)), 2), (Pure(epsilon=Fraction(1, 7)), 3)],
    [(Range(low=Fraction(1, 2), high=Fraction(2)), 2), (UP, 1)],
    [(FREE, 4), (Range(low=Fraction(3, 10), high=Fraction(1, 10)), 3), (UP, 2)],
    [
        (Pure(epsilon=Fraction(123456789, 10**9)), 2),
        (Pure(epsilon=Fraction(987654321, 2**40 - 1)), 2),
        (FREE, 2),
    ],
]


@pytest.mark.parametrize("parts", LISTS, ids=lambda parts: "+".join(f"{n}x{c!r}" for c, n in parts))
def test_sums_are_exact_and_rounded_up(parts):
    total = compose(*(repeat(cost, n) for cost, n in parts))
    two = truth(*(entry for cost, n in parts for entry in laws(cost, n)))
    [found] = loss_law.loss_laws(total.parts)
    for epsilon in EPSILONS:
        best = max(exact.stick(law, epsilon) for law in two)
        bounds(max(law.delta(float(epsilon)) for law in found), best)
        assert total.delta(float(epsilon)) >= best * (1 - mpmath.mpf(10) ** -15)
    for delta in (1e-12, 1e-6, 1e-3, 0.05):
        epsilon = total.epsilon(delta)
        assert max(law.delta(epsilon) for law in found) <= delta
        assert max(exact.stick(law, mpmath.mpf(epsilon)) for law in two) <= mpmath.mpf(delta)
        if epsilon > 1e-6:
            assert max(
                exact.stick(law, mpmath.mpf(epsilon) * (1 - 1e-9)) for law in two
            ) > mpmath.mpf(delta)


def pair(low, high, t=None):
    return [(float(p), float(q)) for _, p, q in exact.two_points(Fraction(low), Fraction(high))]


@pytest.mark.parametrize("rounds", [2, 3])
def test_no_adaptive_play_beats_the_list(rounds):
    """The adversary sees the outcomes and picks the next pair: another width inside the interval, and if free the other order."""
    forward = [pair("0.05", "0.1"), pair("0.02", "0.1"), pair("0.05", "0.04"), pair("0.03", "0.08")]
    turned = [pair("0.1", "0.05"), pair("0.1", "0.02")]
    for epsilon in np.linspace(0, 0.1 * rounds, 13):
        oriented, free = repeat(UP, rounds).delta(epsilon), repeat(FREE, rounds).delta(epsilon)
        assert exact.best_play(forward, rounds, math.exp(epsilon)) <= oriented * (1 + 1e-9) + 1e-15
        mirrored = [[(q, p) for p, q in one] for one in forward]
        assert exact.best_play(mirrored, rounds, math.exp(epsilon)) <= oriented * (1 + 1e-9) + 1e-15
        assert (
            exact.best_play(forward + turned, rounds, math.exp(epsilon))
            <= free * (1 + 1e-9) + 1e-15
        )


def test_the_broken_twins_are_convicted():
    """Each twin promises less than an adversary reaches: no mirror, the better order, orientation used where the order turns."""
    pairs = [pair("0.05", "0.1"), pair("0.1", "0.05")]
    one_order, other_order = (
        reduce(exact.times, [law] * 3)
        for law in (exact.two_points("0.05", "0.1"), exact.two_points("0.1", "0.05"))
    )
    convicted = dict.fromkeys(
        ("forward only", "mirror only", "smaller order", "orientation without the flag"), False
    )
    for epsilon in np.linspace(0, 0.29, 30):
        attack_one = exact.best_play([pairs[0]], 3, math.exp(epsilon)) * (1 - 1e-9)
        attack_other = exact.best_play([pairs[1]], 3, math.exp(epsilon)) * (1 - 1e-9)
        attack_free = exact.best_play(pairs, 3, math.exp(epsilon)) * (1 - 1e-9)
        there, back = (
            float(exact.stick(law, mpmath.mpf(float(epsilon)))) for law in (one_order, other_order)
        )
        convicted["forward only"] |= attack_other > there
        convicted["mirror only"] |= attack_one > back
        convicted["smaller order"] |= max(attack_one, attack_other) > min(there, back)
        convicted["orientation without the flag"] |= attack_free > max(there, back)
        assert repeat(UP, 3).delta(epsilon) >= max(attack_one, attack_other)
        assert repeat(FREE, 3).delta(epsilon) >= attack_free
    assert convicted["mirror only"]
    assert convicted["smaller order"]
    assert convicted["orientation without the flag"]


def places(width, count=400):
    return [mpmath.mpf(i) * exact.mp(width) / count for i in range(1, count)]


@pytest.mark.parametrize("width", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_bounded_range_is_the_worst_place(width):
    cost = BoundedRange(epsilon=width)
    pairs = [exact.two_points(exact.mp(width) - t, t) for t in places(width)]
    for share in (0, 0.2, 0.5, 0.9):
        epsilon = share * float(width)
        worst = max(exact.stick(law, mpmath.mpf(epsilon)) for law in pairs)
        bounds(cost.delta(epsilon), worst, rel=2e-4 / (1 - share) ** 2)
    for alpha in (1.01, 2.0, 8.0, 100.0):
        worst = max(exact.moment(law, mpmath.mpf(alpha)) for law in pairs)
        bounds(cost.rdp(alpha), worst, rel=1e-3)
        assert worst <= alpha * cost.zcdp()
    for delta in (1e-9, 1e-3, 0.2):
        assert cost.delta(cost.epsilon(delta)) <= delta
    assert cost.epsilon(0) == pytest.approx(float(width))
    assert cost.pure() == width


def test_a_batch_of_bounded_ranges_is_above_every_play_and_below_its_other_routes():
    """Ends of the interval anywhere, chosen anew each time; the larger curve of all places is not reached by a play."""
    width = Fraction(1, 10)
    pairs = [pair(width - t, t) for t in (Fraction(i, 100) for i in range(1, 10))]
    for epsilon in np.linspace(0, 0.25, 11):
        attack = exact.best_play(pairs, 3, math.exp(epsilon))
        assert (
            attack * (1 - 1e-12)
            <= repeat(BoundedRange(epsilon=width), 3).delta(epsilon)
            <= max(attack * 1.4, attack + 1e-3)
        )
    ten = repeat(BoundedRange(epsilon=width), 10)
    assert 3.997813405259e-5 < ten.delta(0.5) < 2.5 * 3.997813405259e-5, (
        "not below the optimum for calls fixed in advance"
    )
    twenty = repeat(BoundedRange(epsilon=Fraction(15, 100)), 20)
    assert repeat(FREE, 20).epsilon(1e-6) < twenty.epsilon(1e-6) < 1.568


def test_chords_lie_above_the_curve():
    lattice = loss_law._bounded_range_lattice(Fraction(1), 3)
    assert math.fsum(lattice.masses) == pytest.approx(1, abs=1e-14)
    losses = [float(lattice.offset + j * lattice.step) for j in range(len(lattice.masses))]
    assert math.fsum(
        m * math.exp(-x) for m, x in zip(lattice.masses, losses, strict=True)
    ) == pytest.approx(1, abs=1e-14)
    for epsilon in np.linspace(0, 0.999, 50):
        chords = sum(
            m * -math.expm1(epsilon - x)
            for m, x in zip(lattice.masses, losses, strict=True)
            if x > epsilon
        )
        curve = BoundedRange(epsilon=1).delta(epsilon)
        assert curve * (1 - 1e-11) <= chords <= curve + 1e-4
    coarse = loss_law._bounded_range_lattice(Fraction(1), 1000)
    assert len(coarse.masses) == 9


def test_too_many_points_leave_the_other_routes():
    many = compose(
        *(
            Pure(epsilon=Fraction(1, p))
            for p in (
                101,
                103,
                107,
                109,
                113,
                127,
                131,
                137,
                139,
                149,
                151,
                157,
                163,
                167,
                173,
                179,
                181,
                191,
                193,
            )
        )
    )
    assert loss_law.loss_laws(many.parts) == ()
    assert 0 < many.epsilon(1e-6) <= float(many.pure()) * (1 + 1e-15)
    assert loss_law.loss_laws(repeat(Pure(epsilon=1), 10**5).parts) == ()
    assert loss_law.loss_laws(repeat(Pure(epsilon=Fraction(1, 10**320)), 2).parts) == ()
    assert loss_law.loss_laws(repeat(Pure(epsilon=400), 2).parts) == ()
    assert repeat(BoundedRange(epsilon=Fraction(1, 1000)), 10**4).epsilon(1e-6) > 0


@pytest.mark.parametrize(
    ("epsilon", "count"), [(Fraction(1, 100), 2000), (Fraction(1, 1000), 8000)]
)
def test_long_lists_stay_above_the_truth(epsilon, count):
    """Two thousand rounded products: without the rounding up the sum is sometimes below the truth."""
    e, x = exact.mp(epsilon), mpmath.mpf(1)
    high = mpmath.exp(e) / (1 + mpmath.exp(e))
    truth, mass = mpmath.mpf(0), high**count
    for wins in range(count, -1, -1):
        loss = (2 * wins - count) * e
        if loss <= x:
            break
        truth += mass * -mpmath.expm1(x - loss)
        mass *= mpmath.mpf(wins) / (count - wins + 1) * (1 - high) / high
    [[law]] = loss_law.loss_laws(repeat(Pure(epsilon=epsilon), count).parts)
    bounds(law.delta(1.0), truth, rel=1e-8)


def test_losses_are_rounded_up_to_whole_units():
    lattices = [
        loss_law._dominating_lattice(Pure(epsilon=Fraction(1, 3)), 2, {}),
        loss_law._turning_lattice(FREE.low, FREE.high, 2, 2),
    ]
    fine, coarse = (
        loss_law._sum_independent_losses(lattices, 60),
        loss_law._sum_independent_losses(lattices, 7),
    )
    assert coarse.losses[0] >= fine.losses[0] == pytest.approx(2 / 3 + 0.2, rel=1e-14)
    for epsilon in np.linspace(0, 0.8, 9):
        assert coarse.delta(epsilon) >= fine.delta(epsilon)


@pytest.mark.parametrize("alpha", [1.01, 2.0, 30.0, 1e4])
@pytest.mark.slow
def test_arrays_of_curves_are_above_the_truth_each(alpha):
    """One kind at a time, both orders, tiny to large: each array holds 20 different ends."""
    shares = [Fraction(k, 7) for k in range(1, 21)]
    for size in (Fraction(1, 10**6), Fraction(1, 10), Fraction(3)):
        for turn in (False, True):
            ends = [(size * s, size / 3) if turn else (size / 3, size * s) for s in shares]
            laws_ = [exact.two_points(*pair_) for pair_ in ends]
            truth_ = sum(
                max(exact.moment(law, alpha), exact.moment(exact.swapped(law), alpha))
                for law in laws_
            )
            bounds(compose(*(Range(low=a, high=b) for a, b in ends)).rdp(alpha), truth_, rel=1e-4)
        assert BoundedRange(epsilon=size).rdp(alpha) >= place_moment(size, mpmath.mpf(alpha)) * (
            1 - mpmath.mpf(10) ** -18
        )
        truth_ = sum(place_moment(size * s, mpmath.mpf(alpha)) for s in shares)
        bounds(
            compose(*(BoundedRange(epsilon=size * s) for s in shares)).rdp(alpha), truth_, rel=1e-4
        )


def place_moment(width, alpha):
    """The bounded-range curve at its best place, found by search rather than by the closed form."""
    width = exact.mp(width)

    def at(t):
        q = (mpmath.exp(-t) - mpmath.exp(-width)) / (1 - mpmath.exp(-width))
        return mpmath.log(q * mpmath.exp(alpha * t) + (1 - q) * mpmath.exp(alpha * (t - width))) / (
            alpha - 1
        )

    low, high = mpmath.mpf(0), width
    for _ in range(90):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (a, high) if at(a) < at(b) else (low, b)
    return at(low)
