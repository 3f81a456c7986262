"""The smallest rho: oracles, moments in 40 digits that come near and never above it, and what fails."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from sordino.cost import RDP, BoundedRange, Pure, Range, compose, repeat, rho as smallest
from sordino.cost.rho import certify_rho, laplace_rho, pure_rho, shorten_up

ORDERS = [1 + 10.0 ** (k / 4) for k in range(-16, 17)]


def noise_law(rate, steps):
    """Discrete Laplace noise at 0 and moved by `steps`, as pairs (loss, P), from the masses themselves: every point at or
    beyond an end has the loss of that end."""
    a = mpmath.mpf(rate.numerator) / rate.denominator / steps
    r = mpmath.exp(-a)
    weight = (1 - r) / (1 + r)
    law = [(a * steps, 1 / (1 + r)), (-a * steps, r**steps / (1 + r))]
    return law + [(a * (steps - 2 * z), weight * r**z) for z in range(1, steps)]


def divergence(law, alpha):
    """The Rényi divergence of pairs (loss, P)."""
    return mpmath.log(
        mpmath.fsum(p * mpmath.exp((mpmath.mpf(alpha) - 1) * loss) for loss, p in law)
    ) / (alpha - 1)


def largest_share(law):
    """The largest D/alpha over many orders."""
    return max(divergence(law, alpha) / alpha for alpha in ORDERS)


# --- randomized response and Laplace noise --------------------------------------------------------------------------------------


def test_oracles():
    assert float(Pure(epsilon=1).zcdp()) == pytest.approx(0.46211715726, rel=1e-11)
    assert float(laplace_rho(Fraction(1), None)) == pytest.approx(0.3678794411714, rel=1e-11)
    assert float(laplace_rho(Fraction(1), 2)) == pytest.approx(0.3934693402874, rel=1e-11)
    assert laplace_rho(Fraction(1), 1) == Pure(epsilon=1).zcdp()
    assert float(RDP(laplace=3, laplace_steps="continuous").zcdp()) == pytest.approx(
        2 + math.exp(-3), rel=1e-11
    )


@pytest.mark.parametrize(
    "epsilon", ["1e-9", "1e-6", "0.001", "0.1", "1", "2.5", "39", "50", "1e200", "1e-200", "1e400"]
)
def test_the_rho_of_a_pure_epsilon_is_its_closed_form_rounded_up(epsilon):
    exact = Fraction(epsilon)
    with mpmath.workdps(60):
        e = mpmath.mpf(exact.numerator) / exact.denominator
        truth = e * mpmath.tanh(e / 2)
        found = Pure(epsilon=exact).zcdp()
        assert (
            truth
            <= mpmath.mpf(found.numerator) / found.denominator
            <= truth * (1 + mpmath.mpf("1e-11"))
        )
    assert found <= min(exact**2 / 2, exact)


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 1000, 1 << 40, None])
@pytest.mark.parametrize("rate", ["1e-12", "1e-6", "0.01", "0.5", "1", "3", "45", "1000", "1e300"])
@pytest.mark.each_value
def test_the_rho_of_laplace_noise_is_its_closed_form_rounded_up(rate, steps):
    exact = Fraction(rate)
    with mpmath.workdps(700):
        e = mpmath.mpf(exact.numerator) / exact.denominator
        a = None if steps is None else e / steps
        drop = 1 - mpmath.exp(-e)
        truth = e - drop if steps is None else e - (drop * a / mpmath.sinh(a) if a < 1500 else 0)
        found = laplace_rho(exact, steps)
        value = mpmath.mpf(found.numerator) / found.denominator
        # Where epsilon^2/2 is said for it the share is the rate itself.
        assert truth <= value <= truth * (1 + mpmath.mpf("1e-11") + (e if e < 1e-7 else 0))


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1), Fraction(3)])
@pytest.mark.each_value
def test_no_order_of_the_noise_passes_its_rho_and_the_first_ones_come_near(rate, steps):
    with mpmath.workdps(40):
        reached = float(largest_share(noise_law(rate, steps)))
    assert reached <= float(laplace_rho(rate, steps)) <= reached * 1.001


def test_the_figure_of_the_continuous_law_is_passed_on_every_grid():
    """The broken twin: rate + e^-rate - 1 for noise on a grid."""
    for steps in (1, 2, 5):
        with mpmath.workdps(40):
            assert largest_share(noise_law(Fraction(1), steps)) > float(
                laplace_rho(Fraction(1), None)
            )


def test_finer_grids_cost_less_and_end_at_the_continuous_law():
    found = [laplace_rho(Fraction(1), steps) for steps in (1, 2, 3, 10, 100, 10**6, None)]
    assert all(a > b for a, b in pairwise(found[:-1]))
    assert float(found[-2] - found[-1]) < 1e-11


def test_moves_of_several_numbers_cost_no_more_than_one_move_by_their_sum():
    """Lists whose moves add up to 4 steps: at each order, and in rho."""
    one = noise_law(Fraction(2), 4)
    for moves in ((1, 1, 1, 1), (2, 2), (3, 1), (4,)):
        for alpha in (1.01, 1.5, 2, 8, 64):
            with mpmath.workdps(40):
                apart = sum(divergence(noise_law(Fraction(t, 2), t), alpha) for t in moves)
                assert apart <= divergence(one, alpha) * (1 + mpmath.mpf("1e-30"))
        assert sum(laplace_rho(Fraction(t, 2), t) for t in moves) <= laplace_rho(Fraction(2), 4) * (
            1 + Fraction(1, 10**11)
        )


def test_no_pair_of_a_pure_epsilon_passes_its_rho():
    """Random pairs whose log ratios lie between -1 and 1, and the extreme one."""
    rng, worst = np.random.default_rng(5), 0.0
    for _ in range(400):
        loss = rng.uniform(-1, 1, 4)
        loss[:2] = 1, -1
        q = rng.dirichlet(np.ones(4) * rng.choice([0.05, 1]))
        # The two extreme points take what makes both laws probabilities.
        rest = q[2:] @ np.expm1(loss[2:])
        share = (q[0] + q[1]) / (math.e - math.exp(-1))
        up = share * (1 - math.exp(-1)) - rest / (math.e - math.exp(-1))
        down = q[0] + q[1] - up
        if min(up, down) < 0:
            continue
        q = np.array([up, down, *q[2:]])
        assert q @ np.exp(loss) == pytest.approx(1)
        for alpha in (1.001, 1.5, 3, 20):
            worst = max(worst, math.log(q @ np.exp(alpha * loss)) / (alpha - 1) / alpha)
    assert 0.9 * float(pure_rho(Fraction(1))) < worst <= float(pure_rho(Fraction(1))) + 1e-9


# --- chords ---------------------------------------------------------------------------------------------------------------------


def two_points(low, high):
    """Losses -low and high with their P."""
    q = (1 - mpmath.exp(-low)) / (mpmath.exp(high) - mpmath.exp(-low))
    return [(high, q * mpmath.exp(high)), (-low, (1 - q) * mpmath.exp(-low))]


@pytest.mark.parametrize(
    ("low", "high", "value"),
    [(1, 2, 0.9957533346692), (0.5, 1, 0.26453), (0.1, 3, 0.62065), (3, 6, 5.552)],
)
def test_the_rho_of_an_interval_is_just_above_what_its_pair_reaches(low, high, value):
    with mpmath.workdps(20):
        laws = [
            two_points(mpmath.mpf(low), mpmath.mpf(high)),
            two_points(mpmath.mpf(high), mpmath.mpf(low)),
        ]
        grid = [1 + 10.0 ** (k / 150) for k in range(-900, 300)]
        reached = float(max(divergence(law, alpha) / alpha for law in laws for alpha in grid))
    found = Range(low=low, high=high).zcdp()
    assert reached == pytest.approx(value, rel=2e-4)
    assert reached <= found <= reached * 1.0003
    assert found == Range(low=high, high=low).zcdp()
    assert found < min(Fraction(low + high) ** 2 / 8, pure_rho(Fraction(max(low, high))))


def test_intervals_beyond_the_floats_keep_their_closed_forms():
    for low, high in ((1e-9, 2e-9), (1e-300, 2), (1e-9, 600), (700, 800)):
        ends = Fraction(str(low)), Fraction(str(high))
        assert Range(low=low, high=high).zcdp() == min(sum(ends) ** 2 / 8, pure_rho(ends[1]))
    assert Range(low=2, high=2).zcdp() == Pure(epsilon=2).zcdp()


@pytest.mark.parametrize("a", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("n", [3, 20, 400])
@pytest.mark.each_value
def test_chords_prove_the_rho_of_randomized_response_among_many(n, a):
    """Its moment is no product of cosines as soon as there are many answers: the order 1 alone is not enough there."""

    def curve(alpha):
        with mpmath.workdps(30):
            top = mpmath.exp(a) + n - 1
            law = [(a, mpmath.exp(a) / top), (-a, 1 / top), (0, (n - 2) / top)]
            return float(divergence(law, alpha)) * (1 + 1e-14)

    found = certify_rho(curve, a)
    reached = max(curve(alpha) / alpha for alpha in ORDERS)
    first = a * math.expm1(a) / (math.exp(a) + n - 1)
    assert reached * (1 - 1e-9) <= found <= reached * 1.05
    if (n - 2) / 2 * math.exp(-a / 2) <= 1:
        assert found == pytest.approx(first, rel=1e-4)
    if (n, a) == (20, 1.0):
        assert found == pytest.approx(0.1020, abs=1e-4)
        assert first < 0.08, "what the order 1 alone would say"


def test_what_is_attained_at_the_orders_that_were_looked_at_is_no_proof(monkeypatch):
    """The broken twin: the largest value found, without the chords."""
    monkeypatch.setattr(smallest, "_bound_chord", lambda left, right: (0.0, left, right))
    monkeypatch.setattr(smallest, "_FIRST_FACTOR", 1e4)
    low, high = 0.1, 3.0
    careless = certify_rho(lambda alpha: Range(low=low, high=high).rdp(alpha), high)
    with mpmath.workdps(30):
        law = two_points(mpmath.mpf(low), mpmath.mpf(high))
        assert max(divergence(law, alpha) / alpha for alpha in ORDERS) > careless * 1.01


@pytest.mark.parametrize("number", [1.0, 0.1, 1e-300, 123456.789, 2 / 3])
def test_a_rho_is_written_with_few_digits_and_never_below_itself(number):
    short = shorten_up(number)
    assert Fraction(number) <= short <= Fraction(number) * (1 + Fraction(1, 10**13))
    assert len(str(short.numerator)) <= 320
    assert set(_primes(short.denominator)) <= {2, 5}


def _primes(number):
    for prime in (2, 3, 5, 7, 11, 13):
        while number % prime == 0:
            number //= prime
            yield prime
    if number > 1:
        yield number


# --- what uses it ---------------------------------------------------------------------------------------------------------------


def test_curves_and_lists_know_it():
    noise = RDP(laplace=1, laplace_steps=4)
    assert noise.zcdp() == laplace_rho(Fraction(1), 4)
    assert RDP(rho=0.1, laplace=1, laplace_steps=4).zcdp() == Fraction(1, 10) + noise.zcdp()
    # A constant and noise: the sum of their own, or the rho of their pure epsilon.
    assert RDP(constant=1, laplace=1, laplace_steps=4).zcdp() == 1 + noise.zcdp()
    assert RDP(constant=0.5, laplace=1, laplace_steps=4).zcdp() == Fraction(1, 2) + noise.zcdp()
    assert RDP(constant=0.01, laplace=1, laplace_steps=1).zcdp() == pure_rho(Fraction(101, 100))
    assert repeat(Pure(epsilon=1), 3).zcdp() == 3 * pure_rho(Fraction(1))


def test_a_curve_with_a_pure_epsilon_is_never_worse_than_that():
    noise, alone = RDP(laplace=1, laplace_steps=8), Pure(epsilon=1)
    for delta in (0, 1e-9, 1e-3, 0.2):
        assert noise.epsilon(delta) <= alone.epsilon(delta)
        for n in (2, 20):
            assert repeat(noise, n).epsilon(delta) <= repeat(alone, n).epsilon(delta)
            mixed, old = (
                compose(repeat(noise, n), Range(low=0.1, high=0.2)),
                compose(repeat(alone, n), Range(low=0.1, high=0.2)),
            )
            assert mixed.epsilon(delta) <= old.epsilon(delta)
    for epsilon in (0.0, 0.5, 0.9, 1.0):
        assert noise.delta(epsilon) <= alone.delta(epsilon)
        assert repeat(noise, 2).delta(epsilon) <= repeat(alone, 2).delta(epsilon)
    many = repeat(noise, 100)
    assert many.epsilon(1e-6) < 0.95 * repeat(alone, 100).epsilon(1e-6)


def worst_place(width, alpha):
    """The divergence of two points that lie a width apart, for the worst place of the two, found by halving."""
    width, order = mpmath.mpf(width), mpmath.mpf(alpha) - 1

    def at(place):
        high = -mpmath.expm1(-place) / -mpmath.expm1(-width)
        moment = high * mpmath.exp(order * (width - place)) + (1 - high) * mpmath.exp(
            -order * place
        )
        return mpmath.log(moment) / order

    left, right = width * mpmath.mpf(10) ** -12, width * (1 - mpmath.mpf(10) ** -12)
    golden = (mpmath.sqrt(5) - 1) / 2
    for _ in range(120):
        third, other = right - golden * (right - left), left + golden * (right - left)
        left, right = (third, right) if at(third) < at(other) else (left, other)
    return at((left + right) / 2)


REFERENCE = {2: 0.474475, 4: 1.66985, 6: 3.22067, 8: 4.92291}


@pytest.mark.parametrize("width", [0.001, 0.1, 1, 2, 4, 6, 8, 20])
@pytest.mark.sample(4)
def test_the_rho_of_a_bounded_range_is_reached_at_order_one_and_never_passed(width):
    with mpmath.workdps(40):
        rho = mpmath.mpf(float(BoundedRange(epsilon=width).zcdp()))
        shares = [worst_place(width, alpha) / alpha for alpha in ORDERS]
        assert max(shares) <= rho
        assert worst_place(width, 1 + mpmath.mpf(10) ** -9) >= rho * (1 - 1e-6)
    if width in REFERENCE:
        assert float(rho) == pytest.approx(REFERENCE[width], rel=2e-6)


@pytest.mark.parametrize(
    "epsilon", ["1e-30", "1e-8", "0.1", "1", "7.9", "8", "9", "40", "1000", "1e400"]
)
def test_a_bounded_range_costs_no_more_than_its_epsilon(epsilon):
    width = Fraction(epsilon)
    rho = BoundedRange(epsilon=width).zcdp()
    assert 0 < rho <= min(width**2 / 8, Pure(epsilon=width).zcdp())
    # Its series: the next term is positive.
    assert rho >= width**2 / 8 - width**4 / 576
    if width < 10**300:
        for order in (1.000001, 1.1, 2, 9, 100):
            assert BoundedRange(epsilon=width).rdp(order) <= float(rho) * order * (1 + 1e-9)
