"""What a number with noise in proportion to a bound loses: closed forms, quadrature-free suprema, and twins that lose more."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from itertools import combinations_with_replacement

import mpmath as mp
import numpy as np
import pytest

import sordino_audit as audit
from sordino import ClaimBroken, HeavyTailWarning, SmoothMechanism, smooth
from sordino.cost import Pure
from sordino.mechanisms.smooth.scaled_noise import cauchy_alpha, largest_alpha, loss_bound

Z = np.concatenate([[0.0], np.geomspace(1e-5, 1e7, 30_001)])
"""Outputs on one side: on the other one the move has the other sign."""


def loss(alpha, log_ratio, shift, gamma):
    """The largest log ratio on a grid: outputs in units of the scale of one, whose neighbour is moved and stretched."""
    s = math.exp(log_ratio)
    return float(
        (np.log1p(np.abs(s * (Z + shift * alpha)) ** gamma) - np.log1p(np.abs(Z) ** gamma)).max()
        - log_ratio
    )


def worst(alpha, beta, gamma, ratios=7, shifts=3):
    """Over a grid of ratios of scales, and of moves up to the smaller bound."""
    return max(
        loss(alpha, ratio, shift * min(1.0, math.exp(-ratio)), gamma)
        for ratio in np.linspace(-beta, beta, ratios)
        for shift in np.linspace(-1, 1, shifts)
    )


def hyperbolic(alpha, ratio):
    """The loss of Cauchy noise with scales 1/alpha and ratio/alpha, and a move by the smaller bound."""
    return float(
        mp.acosh(1 + (mp.mpf(alpha) ** 2 + (mp.mpf(ratio) - 1) ** 2) / (2 * mp.mpf(ratio)))
    )


def test_published_numbers():
    assert cauchy_alpha(1, 0.2) == pytest.approx(1.04219061099, rel=1e-11)
    free = math.log(2 * math.cosh(1) - 1)
    assert free == pytest.approx(0.735325664056, rel=1e-11)
    assert (
        cauchy_alpha(1, 0.735325) == cauchy_alpha(1, 0.001) > cauchy_alpha(1, 0.7354)
    )  # up to there beta costs nothing
    assert cauchy_alpha(1, 0.735) / 0.5 == pytest.approx(2.08, abs=0.01)  # of the published noise


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1, 4, 30])
@pytest.mark.parametrize("share", [0.02, 0.4, 0.8, 0.99])
@pytest.mark.each_value
def test_cauchy_noise_attains_its_budget(epsilon, share):
    beta = share * epsilon
    alpha = cauchy_alpha(epsilon, beta)
    found = [hyperbolic(alpha, math.exp(x)) for x in np.linspace(0, beta, 60)]
    assert max(found) == pytest.approx(epsilon, rel=1e-9)
    assert max(found) in {found[0], found[-1]}  # one of the ends has it
    assert loss_bound(alpha, beta, 2.0) == pytest.approx(epsilon, rel=1e-8)
    assert loss_bound(alpha, beta, 2.0) >= epsilon * (1 - 1e-12)


@pytest.mark.parametrize(
    ("epsilon", "beta"), [(0.3, 0.05), (1, 0.083), (1, 0.25), (1, 0.0), (4, 0.1), (4, 1.2)]
)
def test_the_loss_of_quartic_noise_is_its_supremum(epsilon, beta):
    alpha = largest_alpha(float(epsilon), beta, 4.0)
    found = worst(alpha, beta, 4)
    assert found <= loss_bound(alpha, beta, 4.0) <= epsilon
    assert found == pytest.approx(epsilon, rel=1e-6)
    assert worst(1.001 * alpha, beta, 4) > epsilon


@pytest.mark.parametrize("gamma", [1.5, 2.0, 3.0, 4.0, 10.0])
@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.01, 0.02), (0.4, 0.1), (0.4, 1.0), (5.0, 0.5), (1e-3, 1.0)]
)
@pytest.mark.each_value
def test_the_bound_of_any_power_is_the_supremum(gamma, alpha, beta):
    found, above = worst(alpha, beta, gamma), loss_bound(alpha, beta, gamma)
    assert found <= above * (1 + 1e-12)
    assert found == pytest.approx(above, rel=1e-5)


def test_quartic_noise_gains_on_the_published_split():
    """alpha = k epsilon/(2 slope), beta = (2 - k) epsilon/6 [yamamoto2024, Thms 1 and 6]."""
    slope = 3**0.75
    for beta, gain in ((0.083, 1.16), (0.25, 1.72)):
        published = (2 - 6 * beta) / (2 * slope)
        assert largest_alpha(1.0, beta, 4.0) / published == pytest.approx(gain, abs=0.01)
        assert worst(published, beta, 4) < 0.9  # it is private, and loses less than it pays for


def hyperbolic_loss(one, other, alpha):
    """The loss of Cauchy noise between two pairs (number, bound)."""
    (f, s), (g, t) = one, other
    return math.acosh(1 + (((f - g) * alpha) ** 2 + (s - t) ** 2) / (2 * s * t))


@pytest.mark.parametrize("scale", ["sqrt", "raw"])
@pytest.mark.parametrize("beta", [0.05, 0.4, 0.85])
def test_all_neighbouring_families_lose_no_more_than_epsilon(scale, beta):
    """From end to end: every table of four families, every replacement of one, the exact loss."""
    n, alpha = 4, cauchy_alpha(1, beta)
    tables = [(b, c) for b in range(2 * n + 1) for c in range(2 * n + 1 - b)]
    b, c = map(np.array, zip(*tables, strict=True))
    numbers = smooth.tdt_statistic(b, c, families=n, scale=scale).tolist()
    bounds = smooth.tdt(b, c, families=n, beta=beta, scale=scale).tolist()
    near = {
        (i, j) for i in range(-2, 3) for j in range(-2, 3) if max(abs(i), abs(j), abs(i + j)) <= 2
    }
    pairs = [
        (x, y) for x in range(len(tables)) for y in range(x) if (b[x] - b[y], c[x] - c[y]) in near
    ]
    losses = [
        hyperbolic_loss((numbers[x], bounds[x]), (numbers[y], bounds[y]), alpha) for x, y in pairs
    ]
    assert 0.3 < max(losses) <= 1


@pytest.mark.parametrize("beta", [0.1, 0.7])
@pytest.mark.slow
def test_all_neighbouring_columns_lose_no_more_than_epsilon(beta):
    alpha = cauchy_alpha(1, beta)
    data = list(combinations_with_replacement(range(5), 5))
    limits = {"lower": 0, "upper": 4}
    pairs = {
        (x, tuple(sorted((*x[:i], v, *x[i + 1 :]))))
        for x in data
        for i in range(5)
        for v in range(5)
    }

    def most(rate):
        medians = {
            x: (
                smooth.quantile_statistic(x, q=0.5, **limits),
                smooth.quantile(x, q=0.5, beta=rate, **limits),
            )
            for x in data
        }
        return max(hyperbolic_loss(medians[x], medians[y], alpha) for x, y in pairs)

    assert 0.3 < most(beta) <= 1
    assert most(beta + 1) > 1.05, "bounds that are less smooth than alpha is made for"


def audited(law, alpha, epsilon, a, b):
    noise = audit.Law.cauchy(law, 1 / Fraction(alpha))
    mechanism = audit.Density.added(noise, cost=Pure(epsilon=epsilon), window=(-30, 30))
    return audit.exact(mechanism, answers_a=a, answers_b=b, slack=2e-2)


@pytest.mark.parametrize(
    ("gamma", "alpha", "other"),
    [
        pytest.param(
            2,
            2 * math.sinh(0.5),
            (1, math.exp(0.95)),
            id="alpha without the minimum: enough for the move alone",
        ),
        pytest.param(
            2,
            0.5,
            (1, math.exp(1.0)),
            id="half the budget for the move, all of it for the scale",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            2,
            cauchy_alpha(1, 0.2),
            (1.05, 1),
            id="a bound below the change",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            4,
            largest_alpha(1.0, 0.2, 4.0),
            (1, math.exp(0.3)),
            id="a bound that is less smooth than it says",
        ),
        pytest.param(
            4,
            1 / 3**0.75,
            (1, math.exp(1 / 3)),
            id="all of the budget for the move, and for the scale",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_twins_lose_more_than_they_say(gamma, alpha, other):
    """What follows a careless reading of the closed form, or of the paper, is convicted by the audit."""
    with pytest.raises(ClaimBroken):
        audited(gamma, alpha, 1, (0, 1), other).raise_if_broken()


@pytest.mark.slow
def test_the_published_split_is_acquitted():
    assert not audited(2, 0.5, 1, (0, 1), (1, math.exp(0.5))).broken


@pytest.mark.slow
def test_the_audit_finds_all_that_the_claims_say():
    for claim in audit.run_claims("SmoothMechanism"):
        claim.raise_if_broken()
        assert claim.tight


@pytest.mark.slow
def test_the_audit_keeps_bounds_between_their_limits():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeavyTailWarning)
        m = SmoothMechanism(epsilon=1, beta=5, ceiling=2, floor=1, law="cauchy")
    report = audit.exact(m, answers_a=(0, 0.001), answers_b=(1, 1000), slack=1e-4)
    assert not report.broken  # the scales differ by a factor of two only
    assert report.epsilon_at_least == pytest.approx(hyperbolic(m.alpha, 2), rel=1e-3)
