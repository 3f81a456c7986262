"""Rényi curves, guarantees that may fail, and counting of many costs."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from sordino import InvalidParameter
from sordino.cost import RDP, ZCDP, Approximate, ApproximateZCDP, Pure, Range, compose, repeat
from sordino.cost.approximate import PROBABILITY, failure, raised_delta
from sordino.cost.conversion import round_down
from sordino.cost.rdp import ORDER, STEPS


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(50):
        yield


def discrete_laplace(rate, steps, alpha):
    """The divergence of discrete Laplace noise moved by `steps`, term by term."""
    step, alpha = mpmath.mpf(rate) / steps, mpmath.mpf(alpha)
    r = mpmath.exp(-step)
    tails = (
        mpmath.exp((alpha - 1) * rate) + mpmath.exp(-rate) * mpmath.exp(-(alpha - 1) * rate)
    ) / (1 + r)
    inner = sum(
        (1 - r) / (1 + r) * r**z * mpmath.exp((alpha - 1) * step * (steps - 2 * z))
        for z in range(1, steps)
    )
    return mpmath.log(tails + inner) / (alpha - 1)


def continuous_laplace(rate, alpha):
    rate, a = mpmath.mpf(rate), mpmath.mpf(alpha)
    return mpmath.log(
        a / (2 * a - 1) * mpmath.exp((a - 1) * rate) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * rate)
    ) / (a - 1)


@pytest.mark.parametrize("rate", [0.01, 0.5, 3.0, 25.0])
@pytest.mark.parametrize("alpha", [1.01, 2.0, 16.0, 5000.0])
@pytest.mark.each_value
def test_laplace_curves(rate, alpha):
    smooth = RDP(laplace=rate, laplace_steps="continuous").rdp(alpha)
    assert (
        continuous_laplace(rate, alpha)
        <= smooth
        <= continuous_laplace(rate, alpha) * (1 + mpmath.mpf(10) ** -9)
    )
    before = Pure(epsilon=rate).rdp(alpha) * (1 + 1e-5)
    for steps in (1, 2, 7, 60):
        curve = RDP(laplace=rate, laplace_steps=steps).rdp(alpha)
        truth = discrete_laplace(rate, steps, alpha)
        assert truth <= curve <= truth * (1 + 1e-6)
        assert smooth * (1 - 1e-6) <= curve <= before, (
            "a coarser grid is never cheaper: the continuous curve must not stand for it"
        )
        before = curve * (1 + 1e-5)
    assert RDP(laplace=rate, laplace_steps=1).rdp(alpha) == pytest.approx(
        Pure(epsilon=rate).rdp(alpha), rel=1e-6
    )
    assert RDP(laplace=rate, laplace_steps=2**20).rdp(alpha) == pytest.approx(smooth, rel=1e-5)


def test_curve_oracles():
    assert RDP(laplace=0.5, laplace_steps="continuous").rdp(4) == pytest.approx(
        0.3209265301787, rel=1e-12
    )
    # Gaussian sparse vector: threshold deviation 4, query deviation 8, general answers, 41 queries at most, order 16
    gaussian = RDP(rho=Fraction(1, 32) + Fraction(4, 128), choices=41)
    assert gaussian.rdp(16) == pytest.approx(1.247571471114, rel=1e-12)
    union = RDP(choices=sum(math.comb(100, j) for j in range(6)))
    assert union.rdp(2) <= 18.18970026398 * (1 + 1e-12)
    assert RDP(rho=10**6, choices=sum(math.comb(100, j) for j in range(6))).rdp(2) == pytest.approx(
        2e6 + 18.18970026398, rel=1e-12
    )
    assert (
        RDP(laplace=1, laplace_steps=1, rho=0.5).zcdp() == Fraction(1, 2) + Pure(epsilon=1).zcdp()
    )
    assert RDP(laplace=0.5, laplace_steps="continuous", constant=0.25).pure() == Fraction(3, 4)
    assert (
        RDP(laplace=0.5, laplace_steps="continuous", constant=0.25).zcdp()
        == Pure(epsilon=0.75).zcdp()
    )
    assert RDP(rho=1).epsilon(1e-6) == pytest.approx(ZCDP(rho=1).epsilon(1e-6), rel=1e-12)
    assert (
        RDP(rho=1, choices=5).pure()
        == RDP(choices=5).zcdp()
        == RDP(table=((2, 0),)).zcdp()
        == math.inf
    )
    assert RDP() == RDP(rho=0)
    assert compose(RDP(), Pure(epsilon=1)) == Pure(epsilon=1)


def test_a_union_bound_does_not_make_the_curve_fall():
    curve = RDP(rho=0.01, choices=10**6)
    values = [curve.rdp(1 + 10 ** (x / 10)) for x in range(-30, 60)]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(values))
    lowest = min(0.01 * (1 + y) + math.log(10**6) / y for y in (x / 10 for x in range(1, 10**4)))
    assert values[0] == pytest.approx(lowest, rel=1e-4)


def test_tables_are_bounded_by_chords_that_the_true_curve_keeps():
    """The table of a known curve, at few orders, is never below the curve in between and equal at its orders."""
    orders = (1.5, 2, 4, 16, 64)
    for curve in (ZCDP(rho=0.3), Pure(epsilon=2), RDP(laplace=1.5, laplace_steps="continuous")):
        table = RDP(table=[(order, curve.rdp(order)) for order in orders])
        for order in (1.001, 1.5, 1.7, 2, 3, 4, 7, 15.9, 16, 40, 64):
            assert table.rdp(order) >= curve.rdp(order) * (1 - 1e-12)
        for order in orders:
            assert table.rdp(order) == pytest.approx(curve.rdp(order), rel=1e-12)
        linear = 4 + (0.5) * (16 - 4)
        naive = curve.rdp(4) + 0.5 * (curve.rdp(16) - curve.rdp(4))
        assert table.rdp(linear) >= naive * (1 - 1e-12) or isinstance(curve, ZCDP) is False
        assert table.rdp(64.001) == table.rdp(math.inf) == math.inf
        assert curve.epsilon(1e-5) <= table.epsilon(1e-5) < math.inf
    falling = RDP(table=[(2, 5), (8, 1)])
    assert falling.rdp(1.1) == falling.rdp(3) == falling.rdp(8) == 1, (
        "divergences do not fall: the smaller value holds below too"
    )


def test_straight_lines_between_divergences_would_be_too_low():
    """The broken twin: interpolating D itself. The divergence of randomized response is concave, so a straight line is below it."""
    curve = Pure(epsilon=2)
    middle = (curve.rdp(1.5) + curve.rdp(16)) / 2
    assert (
        middle
        < curve.rdp((1.5 + 16) / 2)
        <= RDP(table=[(1.5, curve.rdp(1.5)), (16, curve.rdp(16))]).rdp((1.5 + 16) / 2)
    )


def test_bad_curves_are_refused():
    for table, words in (
        ([(1, 1)], "An order of RDP.table"),
        ([(2, -1)], "A value of RDP.table"),
        ([(2, 1), (2, 1)], "every order once"),
        ([2], "must list pairs"),
        ([(math.inf, 1)], "An order"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            RDP(table=table)
    for bad in ORDER.invalid:
        with pytest.raises(
            InvalidParameter, match=r"An order of RDP.table must be a number in \[1.000001, 1e300\]"
        ):
            RDP(table=[(bad, 1)])
    assert RDP(table=[(1.000001, 0.5)]).rdp(1.000001) == 0.5
    smooth = RDP(laplace=1, laplace_steps="continuous").rdp(2)
    assert RDP(laplace=1, laplace_steps=1 << 52).rdp(2) == pytest.approx(smooth)
    for bad in (0, 1.5, "2"):
        with pytest.raises(InvalidParameter, match=r"RDP.choices must be a whole number"):
            RDP(choices=bad)
    with pytest.raises(InvalidParameter, match=r"RDP.laplace must be a number in \(0, inf\)"):
        RDP(laplace=0)
    for half in ({"laplace_steps": 3}, {"laplace": 0.5}, {"laplace_steps": "continuous"}):
        with pytest.raises(
            InvalidParameter,
            match=r"RDP.laplace, .* and RDP.laplace_steps, .* must be given together",
        ):
            RDP(**half)
    for bad in STEPS.invalid:
        with pytest.raises(
            InvalidParameter,
            match="RDP.laplace_steps must be 'continuous', or a whole number from 1 to 2.52",
        ):
            RDP(laplace=1, laplace_steps=bad)
    with pytest.raises(InvalidParameter, match=r"RDP.table must list pairs .*; got None"):
        RDP(table=None)


@pytest.mark.parametrize("bad", PROBABILITY.invalid)
def test_bad_failures_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"Approximate.delta must be a number in \[0, 1\)"):
        Approximate(epsilon=1, delta=bad)


def test_without_failure_approximate_is_pure():
    for x in (0, 0.1, 2):
        one, pure = Approximate(epsilon=x, delta=0), Pure(epsilon=x)
        assert (one.pure(), one.zcdp()) == (pure.pure(), pure.zcdp())
        assert one.rdp(3) == pure.rdp(3)
        assert one.epsilon(1e-3) == pure.epsilon(1e-3)
        assert one.delta(0.05) == pure.delta(0.05)
        assert repeat(one, 4).epsilon(1e-3) == repeat(pure, 4).epsilon(1e-3)


def test_a_failure_is_paid_once_and_exactly():
    one = Approximate(epsilon=1, delta=1e-6)
    assert one.pure() == one.zcdp() == one.rdp(2) == math.inf
    assert one.delta(1) == one.delta(math.inf) == 1e-6
    assert one.epsilon(1e-6) == 1
    assert one.epsilon(9e-7) == one.epsilon(0) == math.inf
    assert 0 < one.epsilon(0.1) < 1
    with_atom = mpmath.mpf(10) ** -6 + (1 - mpmath.mpf(10) ** -6) * (
        mpmath.e - mpmath.exp("0.5")
    ) / (1 + mpmath.e)
    assert with_atom <= one.delta(0.5) <= with_atom * (1 + 1e-11)


def test_failures_add_up_before_anything_else():
    """Against the definition by hand: four outcomes, two of them without a partner, products of them."""
    e, d, n = mpmath.mpf("0.2"), mpmath.mpf("0.01"), 5
    p = mpmath.exp(e) / (1 + mpmath.exp(e))
    for x in ("0", "0.2", "0.6", "1"):
        g = mpmath.exp(mpmath.mpf(x))
        finite = sum(
            max(
                mpmath.binomial(n, k)
                * (p**k * (1 - p) ** (n - k) - g * p ** (n - k) * (1 - p) ** k),
                0,
            )
            for k in range(n + 1)
        )
        truth = 1 - (1 - d) ** n + (1 - d) ** n * finite
        value = repeat(Approximate(epsilon=0.2, delta=0.01), n).delta(float(x))
        assert (
            truth * (1 - mpmath.mpf(10) ** -40) <= mpmath.mpf(repr(value)) <= truth * (1 + 1e-11)
        ), "a float means its shortest decimal"
    mixed = compose(repeat(Approximate(epsilon=0.2, delta=0.01), 5), ZCDP(rho=0.1))
    assert mixed.epsilon(0.049) == math.inf
    assert mixed.epsilon(float(failure([(Fraction(1, 100), 5)]))) == math.inf, (
        "nothing is left for the conversion"
    )
    left = (Fraction("0.06") - failure([(Fraction(1, 100), 5)])) / Fraction("0.99") ** 5
    assert mixed.epsilon(0.06) == pytest.approx(
        compose(repeat(Pure(epsilon=0.2), 5), ZCDP(rho=0.1)).epsilon(float(left)), rel=1e-9
    )
    assert mixed.delta(1.5) > 1 - 0.99**5
    spent_twice = compose(repeat(Pure(epsilon=0.2), 5), ZCDP(rho=0.1)).epsilon(0.06)
    assert mixed.epsilon(0.06) > spent_twice, (
        "the broken twin gives all of delta to the conversion and forgets the failures"
    )


@pytest.mark.parametrize("bad", PROBABILITY.invalid)
def test_bad_failures_of_concentrated_costs_are_refused(bad):
    with pytest.raises(
        InvalidParameter, match=r"ApproximateZCDP.delta must be a number in \[0, 1\)"
    ):
        ApproximateZCDP(rho=1, delta=bad)


def test_without_failure_a_concentrated_cost_is_zcdp():
    for x in (0, 0.1, 2):
        one, rho = ApproximateZCDP(rho=x, delta=0), ZCDP(rho=x)
        assert (one.pure(), one.zcdp(), one.rdp(3)) == (rho.pure(), rho.zcdp(), rho.rdp(3))
        assert one.epsilon(1e-3) == pytest.approx(rho.epsilon(1e-3), rel=1e-12)
        assert one.delta(0.05) == rho.delta(0.05)
        assert repeat(one, 4).epsilon(1e-3) == pytest.approx(
            repeat(rho, 4).epsilon(1e-3), rel=1e-12
        )


def test_deltas_add_to_the_conversion_of_a_rho():
    one = ApproximateZCDP(rho=0.05, delta=1e-6)
    assert one.pure() == one.zcdp() == one.rdp(2) == math.inf
    assert one.epsilon(1e-6) == one.epsilon(1e-7) == math.inf, "nothing is left for the conversion"
    assert one.delta(math.inf) == 1e-6
    left = (Fraction(3, 10**6) - Fraction(1, 10**6)) / (1 - Fraction(1, 10**6))
    assert one.epsilon(3e-6) == ZCDP(rho=0.05).epsilon(round_down(left))
    assert one.epsilon(3e-6) > ZCDP(rho=0.05).epsilon(3e-6), (
        "the broken twin gives all of delta to the rho"
    )
    alone = mpmath.mpf(repr(ZCDP(rho=0.05).delta(1.5)))
    assert 0 <= mpmath.mpf(repr(one.delta(1.5))) - (1e-6 + (1 - mpmath.mpf("1e-6")) * alone) < 1e-15
    both = compose(one, one, Approximate(epsilon=0.1, delta=1e-6), ZCDP(rho=0.01))
    firm = compose(ZCDP(rho=0.11), Pure(epsilon=0.1))
    spent = failure([(Fraction(1, 10**6), 3)])
    assert both.delta(1.5) == raised_delta(spent, firm.delta(1.5))
    assert both.epsilon(2e-6) == math.inf > both.epsilon(4e-6)
    assert repeat(one, 3).delta(9) >= float(failure([(Fraction(1, 10**6), 3)]))


def test_a_mixture_of_a_failure_and_gaussian_noise_stays_within_its_cost():
    """Exactly: with probability delta the table is told, else discrete Gaussian noise of rate rho on a count."""
    rho, delta = 0.3, 0.01
    x = np.arange(-60, 61)
    p, q = np.exp(-rho * x**2), np.exp(-rho * (x - 1) ** 2)
    p, q = p / p.sum(), q / q.sum()
    for epsilon in (0.2, 0.5, 1.0, 2.0):
        stick = delta + (1 - delta) * np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert stick <= ApproximateZCDP(rho=rho, delta=delta).delta(epsilon)
        assert stick > ZCDP(rho=rho).delta(epsilon) * 0.1


def test_many_failures_are_rounded_up():
    many = failure([(Fraction(1, 10**9), 10**6), (Fraction(1, 3) / 10**8, 10**6)])
    truth = 1 - (1 - mpmath.mpf(10) ** -9) ** 10**6 * (1 - mpmath.mpf(1) / 3 / 10**8) ** 10**6
    assert truth <= mpmath.mpf(many.numerator) / many.denominator <= truth * (1 + 1e-12)
    assert failure([]) == 0
    sure = Fraction(10**400 - 1, 10**400)
    assert failure([(sure, 100)]) == 1
    assert repeat(Approximate(epsilon=1, delta=sure), 100).delta(3) == 1
    assert repeat(Approximate(epsilon=1, delta=sure), 100).epsilon(0.9) == math.inf


def seconds(job):
    times = []
    for _ in range(5):
        start = time.process_time()
        job()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.slow
def test_counting_does_not_look_at_every_cost():
    """Bounds are many times what was measured, so that a busy machine passes and a loop over fractions does not."""
    one = ZCDP(rho=0.1)
    same = [one] * 100_000
    assert compose(*same) == repeat(one, 100_000)
    assert seconds(lambda: compose(*same)) < 0.25
    equal = [ZCDP(rho=0.1) for _ in range(20_000)]
    assert compose(*equal) == repeat(one, 20_000)
    assert seconds(lambda: compose(*equal)) < 0.1


def test_equal_costs_are_counted_together_whatever_object_they_are():
    a, b = Pure(epsilon=0.5), Pure(epsilon=Fraction(1, 2))
    wide = Range(low=1, high=2, orientation="x")
    again = Range(low=1, high=2, orientation="x")
    whole = compose(
        a,
        b,
        a,
        wide,
        again,
        wide,
        Range(low=1, high=2),
        Approximate(epsilon=1, delta=0.1),
        Approximate(epsilon=1, delta=0.1),
    )
    assert dict(whole.parts) == {
        a: 3,
        wide: 3,
        Range(low=1, high=2): 1,
        Approximate(epsilon=1, delta=0.1): 2,
    }
    assert compose(whole, a) == compose(a, whole)


def test_costs_and_filters_load_the_standard_library_only():
    script = (
        "import sys; from sordino import accounting, cost; "
        "budget = accounting.ZCDPFilter(rho=1); budget.spend(cost.repeat(cost.Range(low=0.1, high=0.2), 20)); "
        "cost.compose(cost.ZCDP(rho=1), cost.Pure(epsilon=1)).epsilon(1e-6); print('numpy' in sys.modules, 'dp_accounting' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["False", "False"]
