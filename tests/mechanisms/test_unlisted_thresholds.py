"""How high a threshold for unlisted labels must lie: values of another program, plain sums, and steps that are one too low."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sordino.errors import InvalidParameter
from sordino.mechanisms.unlisted import failures
from sordino.mechanisms.unlisted.failures import (
    bound_exponential,
    bound_gaussian_alone,
    bound_laplace,
    bound_laplace_alone,
    least_offset,
)
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric

MILLIONTH = Fraction(1, 10**6)
with localcontext() as context:
    context.prec = 70
    LN2 = Fraction(Decimal(2).ln())  # r = 1/2, to 70 digits


def plain(kind, r, offset, labels, *, noisy):
    """P(one of so many labels at the least count reaches the threshold), by a sum with 40 digits."""
    with mpmath.workdps(40):
        r = mpmath.mpf(r)

        def mass(x):
            if kind == "gaussian":
                return r ** (x * x)
            return (1 - r) * r**x if kind == "exponential" else (1 - r) / (1 + r) * r ** abs(x)

        def at_least_one(chance):
            # By the logarithm: 1 less a power would lose what is below 1e-40.
            return mpmath.mpf(1) if chance == 1 else -mpmath.expm1(labels * mpmath.log1p(-chance))

        reach = (
            int(90 / -mpmath.log(r)) + 5
            if kind != "gaussian"
            else int((90 / -mpmath.log(r)) ** 0.5) + 5
        )
        reach += offset
        span = range(0 if kind == "exponential" else -reach, reach)
        if kind == "gaussian":
            whole = mpmath.fsum(mass(x) for x in span)
            tail = mpmath.fsum(mass(x) for x in range(offset, offset + reach)) / whole
            return at_least_one(tail)

        def above(y):
            if kind == "exponential":
                return r ** max(y, 0)
            return r**y / (1 + r) if y >= 0 else 1 - r ** (1 - y) / (1 + r)

        if not noisy:
            return at_least_one(above(offset))
        return mpmath.fsum(mass(x) * at_least_one(above(offset + x)) for x in span)


LAWS = {
    ("exponential", True): (Geometric, bound_exponential),
    ("laplace", True): (DiscreteLaplace, bound_laplace),
    ("laplace", False): (DiscreteLaplace, bound_laplace_alone),
    ("gaussian", False): (DiscreteGaussian, bound_gaussian_alone),
}


@pytest.mark.parametrize(
    ("k", "epsilon", "labels", "delta", "offset", "failing"),
    [
        (10, "1", 1000, "1e-6", 201, 9.79090230552301e-7),
        (10, "0.1", 54, "1e-6", 1712, 9.96340982677278e-7),
        (3, "2", 7, "1e-5", 20, 7.49108126894203e-6),
        (50, "0.1", 2040, "1e-3", 6918, None),
    ],
)
def test_one_sided_values_of_another_program(k, epsilon, labels, delta, offset, failing):
    law = Geometric(Fraction(epsilon) / k)
    assert least_offset(law, labels, Fraction(delta), "x", noisy=True) == offset
    if failing is not None:
        assert float(bound_exponential(law.rate, offset, labels)) == pytest.approx(
            failing, rel=1e-13
        )


@pytest.mark.parametrize(
    ("epsilon", "delta", "offset"), [("1", "1e-6", 44), ("0.1", "1e-6", 428), ("2", "1e-5", 19)]
)
def test_two_sided_values_of_another_program(epsilon, delta, offset):
    law = DiscreteLaplace(Fraction(epsilon) / 3)
    assert least_offset(law, 3, Fraction(delta), "x", noisy=False) == offset


def test_gaussian_values_of_another_program():
    rate = Fraction(1, 20)
    assert least_offset(DiscreteGaussian(rate), 10, MILLIONTH, "x", noisy=False) == 17
    assert float(bound_gaussian_alone(rate, 17, 10)) == pytest.approx(
        8.06380668466603e-7, rel=1e-13
    )


@pytest.mark.parametrize(
    ("bound", "labels", "value"),
    [
        (bound_exponential, 1, Fraction(1, 12)),
        (bound_exponential, 2, Fraction(53, 336)),
        (bound_laplace_alone, 1, Fraction(1, 12)),
        (bound_laplace_alone, 2, 1 - Fraction(11, 12) ** 2),
    ],
)
def test_fractions_at_one_half(bound, labels, value):
    assert abs(Fraction(bound(LN2, 3, labels)) - value) < Fraction(1, 10**40)


def test_two_sided_noise_on_two_labels_and_the_threshold():
    assert float(plain("laplace", 0.5, 3, 2, noisy=True)) == pytest.approx(
        0.246693121693122, abs=1e-14
    )
    assert float(bound_laplace(LN2, 3, 2)) >= 0.246693121693122


@pytest.mark.parametrize(("kind", "noisy"), LAWS)
@pytest.mark.parametrize("labels", [1, 2, 3, 8, 60])
@pytest.mark.parametrize("rate", ["0.2", "0.7", "2"])
@pytest.mark.sample(6)
def test_a_bound_is_above_the_plain_sum_and_next_to_it(kind, noisy, labels, rate):
    bound = LAWS[kind, noisy][1]
    exact = Fraction(rate)
    with mpmath.workdps(40):
        r = mpmath.exp(-mpmath.mpf(exact.numerator) / exact.denominator)
    for offset in (0, 1, 3, 10, 40):
        true = plain(kind, r, offset, labels, noisy=noisy)
        given = mpmath.mpf(str(bound(exact, offset, labels)))
        assert given >= true * (1 - mpmath.mpf(10) ** -30)
        # Of several labels with two-sided noise a union bound is taken where it is below 1.
        loose = kind == "laplace" and noisy and labels > 1
        if true < 0.05 and not loose:
            assert given <= true * (1 + mpmath.mpf(10) ** -25)
        if loose:
            assert given <= true / (1 - math.exp(-1)) * 1.2 or given == 1


@pytest.mark.parametrize(("kind", "noisy"), LAWS)
@pytest.mark.parametrize("labels", [1, 5, 300])
@pytest.mark.parametrize(
    ("rate", "delta"), [("0.1", "1e-9"), ("0.4", "1e-6"), ("3", "0.01"), ("0.2", "0.3")]
)
@pytest.mark.sample(3)
def test_the_least_offset_is_enough_and_one_less_is_not(kind, noisy, labels, rate, delta):
    """The broken twin is one step lower: it fails more often than delta says."""
    law = LAWS[kind, noisy][0]
    exact = Fraction(rate)
    offset = least_offset(law(exact), labels, Fraction(delta), "x", noisy=noisy)
    with mpmath.workdps(40):
        r = mpmath.exp(-mpmath.mpf(exact.numerator) / exact.denominator)
    assert plain(kind, r, offset, labels, noisy=noisy) <= mpmath.mpf(delta)
    slack = 0
    if kind == "laplace" and noisy and labels > 1:
        slack = math.ceil(0.5 / float(exact)) + 1
    if offset - 1 - slack >= 0:
        assert plain(kind, r, offset - 1 - slack, labels, noisy=noisy) > mpmath.mpf(delta)


def test_wide_gaussians_are_bounded_by_an_integral():
    for rate in ("4e-4", "1e-6", "1e-10"):
        law = DiscreteGaussian(Fraction(rate))
        offset = least_offset(law, 30, Fraction(1, 10**9), "x", noisy=False)
        failing = [
            -math.expm1(30 * math.log1p(-float(law.sf(at - 1)))) for at in (offset, offset - 1)
        ]
        assert failing[0] <= 1e-9 * (1 + 1e-6) < failing[1] * (1 + 2e-6)


def test_tiny_deltas_and_huge_numbers_of_labels():
    tiny = Fraction(1, 10**400)
    for law, noisy in ((Geometric, True), (DiscreteLaplace, True), (DiscreteLaplace, False)):
        offset = least_offset(law(Fraction(1)), 10**9, tiny, "x", noisy=noisy)
        assert offset == pytest.approx(math.log(10) * 409, rel=0.02)
    assert least_offset(
        DiscreteGaussian(Fraction(1, 4)), 5, tiny, "x", noisy=False
    ) == pytest.approx(61, abs=2)
    assert least_offset(Geometric(Fraction(1)), 5, 1 - Fraction(1, 10**9), "x", noisy=True) == 0


def test_a_threshold_beyond_the_grid_is_refused():
    with pytest.raises(
        InvalidParameter, match=r"^Name must have a threshold of at most 2\^52\. Raise epsilon"
    ):
        least_offset(Geometric(Fraction(1, 10**15)), 5, Fraction(1, 10**9), "Name", noisy=True)


def test_a_sum_that_ends_with_an_even_term_would_be_too_low():
    """Broken twin of the alternating sum: after two terms it is a bound from below."""
    chance, labels = Fraction(1, 10), 4
    true = 1 - (1 - chance) ** labels
    whole = [math.comb(labels, m) * chance**m * (-1) ** (m + 1) for m in range(1, labels + 1)]
    assert sum(whole[:2]) < true == sum(whole) < sum(whole[:3]) < whole[0]
    power = failures.bound_any(labels, lambda m: (Decimal("0.1") ** m,) * 2)
    assert abs(Fraction(power) - true) < Fraction(1, 10**40)
    assert Fraction(power) >= true


def test_all_offsets_of_a_row_fall():
    for (kind, noisy), (law, bound) in LAWS.items():
        listed = [bound(Fraction(3, 10), offset, 5) for offset in range(60)]
        assert all(np.array(listed[1:]) <= np.array(listed[:-1])), (kind, noisy, law)


@pytest.mark.parametrize("noisy", [False, True])
def test_a_bound_with_billions_of_zeros_is_compared_at_once(noisy):
    """At such a rate there is nearly no noise: one step is enough for any delta."""
    law, delta = DiscreteLaplace(Fraction(10**11)), Fraction(1, 10**400)
    assert least_offset(law, 1000, delta, "x", noisy=noisy) == 1
    assert least_offset(Geometric(Fraction(10**11)), 1000, delta, "x", noisy=True) == 1
