"""What selection with smooth sensitivity costs: oracles, grids that no bound may fall below, and the noise that a budget buys."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from sordino.mechanisms.smooth.smooth_selection import (
    _elasticities,
    bound_selection_loss,
    d_m,
    dilation,
    k1,
    k2,
    kappa,
    largest_selection_alpha,
    mean_elasticity,
    scale_loss,
)
from sordino.noise import GeneralizedCauchy

QUARTIC = GeneralizedCauchy(Fraction(4))
GAMMAS = [Fraction(2), Fraction(3), Fraction(4), Fraction(10)]
GRID = np.concatenate([np.linspace(0, 6, 2001), np.geomspace(6, 1e7, 2000)])


def law(gamma):
    return GeneralizedCauchy(Fraction(gamma))


def on_a_grid(known, beta, shift):
    return float(np.log(known.sf(GRID) / known.sf(math.exp(beta) * GRID + shift)).max())


def test_oracles():
    assert kappa(QUARTIC, 1) == pytest.approx(1.92669794775, rel=1e-7)
    assert kappa(QUARTIC, 10) == pytest.approx(8.11141953799, rel=1e-7)
    assert kappa(QUARTIC, 1) >= 1.92669794775
    closed_form = math.log(20) / math.log(4 / 3)
    assert closed_form == pytest.approx(10.4133436193, rel=1e-11)
    assert d_m(20, QUARTIC) == pytest.approx(7.82, abs=0.01), (
        "the least line above the elasticity, below the closed form"
    )
    assert d_m(2, law(4)) == pytest.approx(0.78005, rel=1e-3), "one loser: the mean elasticity"
    assert d_m(1, QUARTIC) == 0


@pytest.mark.parametrize("gamma", [2, 3, 4, 10])
@pytest.mark.parametrize("m", [3, 5, 20, 300])
@pytest.mark.each_value
def test_what_losers_cost_is_under_the_least_line_above_the_elasticity(gamma, m):
    known, z = law(gamma), np.geomspace(1e-6, 1e6, 4001)
    psi, logs = z * known.pdf(z) / known.cdf(z), -np.log(known.cdf(z))
    lines = [
        (m - 1) * max(float((psi - b * logs).max()), 0.0) + b * math.log(m)
        for b in np.geomspace(0.01, 60, 4000)
    ]
    least = min((m - 1) * mean_elasticity(known), *lines)
    assert least * 0.9999 <= d_m(m, known) <= least * 1.01


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_line_above_the_elasticity_is_nowhere_below_zero(gamma):
    """Far out both the elasticity and the logarithm vanish, so that fewer losers never cost more than all of them."""
    psi, logs = _elasticities(law(gamma))
    assert logs[-1] == 0 <= psi[-1] < 0.01
    assert all((psi - slope * logs).max() >= psi[-1] for slope in np.geomspace(1e-3, 1e3, 50))


@pytest.mark.parametrize(
    ("gamma", "known"), [(2, 0.58949), (3, 0.71523), (4, 0.78005), (6, 0.84803), (10, 0.90572)]
)
def test_the_mean_elasticity_is_bounded_from_above(gamma, known):
    assert known - 5e-6 < mean_elasticity(law(gamma)) < known * (1 + 5e-4)


def test_a_supremum_against_high_precision():
    with mp.workdps(30):
        half = mp.pi / (4 * mp.sin(mp.pi / 4))
        outer = lambda x: x**-3 / 3 * mp.hyp2f1(1, mp.mpf(3) / 4, mp.mpf(7) / 4, -(x**-4)) / half  # noqa: E731

        def sf(x):
            return (
                outer(x)
                if x > 1
                else 1 - x * mp.hyp2f1(1, mp.mpf(1) / 4, mp.mpf(5) / 4, -(x**4)) / half
            )

        for beta, shift in ((0, 1), (mp.mpf("0.2"), 1)):
            values = [mp.log(sf(z) / sf(mp.exp(beta) * z + shift)) for z in mp.linspace(0, 3, 301)]
            found = k1(shift / 2, float(beta), QUARTIC)
            assert max(values) <= found <= max(values) * (1 + 1e-4)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("beta", [0, 0.01, 0.2, 1, 2])
@pytest.mark.each_value
def test_the_winners_share_is_certified_and_close(gamma, beta):
    known = law(gamma)
    for alpha in (0.003, 0.05, 0.5, 3, 40):
        at_least = max(
            on_a_grid(known, beta, 2 * alpha), float(gamma - 1) * beta
        )  # the latter far out
        found = k1(alpha, beta, known)
        assert at_least * (1 - 1e-12) <= found <= at_least * (1 + 3e-5) + 1e-9
        assert found <= kappa(known, 2 * alpha) + float(gamma - 1) * beta + 1e-9


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("candidates", [2, 5, 20, 10_000])
@pytest.mark.sample(4)
def test_the_losers_share_has_its_largest_value_at_one_of_two_ends(gamma, candidates):
    known = law(gamma)
    factor = d_m(candidates, known)
    for alpha, beta in ((0.05, 0.02), (0.5, 0.2), (0.5, 2), (3, 0.5)):
        found = k2(alpha, beta, candidates, known)
        for s in np.exp(np.linspace(-beta, 0, 9)):
            at = on_a_grid(known, 0, 2 * alpha * s) + min(
                factor * -math.log(s), math.log(candidates)
            )
            assert at <= found + 1e-9
        coarse = kappa(known, 2 * alpha) + min(factor * beta, math.log(candidates))
        assert found <= coarse + 1e-9


def test_the_value_at_the_smallest_scale_is_no_bound():
    """g = 4, m = 20, alpha = 0.5, beta = 2: 3.273 at s = e^-beta, but 4.35 and more where ln m is reached."""
    at_the_end = kappa(QUARTIC, 2 * 0.5 * math.exp(-2)) + math.log(20)
    assert at_the_end == pytest.approx(3.273, abs=1e-3)
    assert k2(0.5, 2, 20, QUARTIC) > at_the_end + 1.07
    factor, losers = dilation(2, 20, QUARTIC)
    assert factor == pytest.approx(20 ** (-1 / d_m(20, QUARTIC)))
    assert losers == pytest.approx(math.log(20))


def test_the_slope_of_the_winners_share_is_not_that_of_the_hazard():
    """g = 4, alpha = 0.05, beta = 1: a grid with the Lipschitz constant sup r, 2.05, would certify less than is there."""
    z = np.linspace(0, 4, 40_001)
    values = np.log(QUARTIC.sf(z) / QUARTIC.sf(math.e * z + 0.1))
    assert np.abs(np.diff(values) / np.diff(z)).max() == pytest.approx(4.31, abs=0.01)
    assert QUARTIC.hazard_bound == pytest.approx(2.0528, abs=1e-4)


def test_published_accounting():
    slope = 3**0.75
    assert bound_selection_loss(0.3, 0.1, 5, QUARTIC, "one", "published") == pytest.approx(
        0.6 * slope + 4 * 0.3
    )
    assert bound_selection_loss(0.3, 0.1, 5, QUARTIC, "two", "published") == pytest.approx(
        0.6 * slope + 5 * 0.3
    )
    assert bound_selection_loss(0.3, 0.1, 5, QUARTIC, "two", "tight") == bound_selection_loss(
        0.3, 0.1, 5, QUARTIC, "two", "published"
    )
    assert bound_selection_loss(0.3, 0.1, 1, QUARTIC, "one", "published") == pytest.approx(
        0.6 * slope + 0.3
    ), "max(1, m - 1)"
    assert bound_selection_loss(
        0.3, 0.1, 5, law(Fraction(3, 2)), "one", "published"
    ) == pytest.approx(0.6 * 0.5 ** (1 / 3) + 4 * 0.1)


def test_below_two_only_theorem_b_is_used():
    known = law(Fraction(3, 2))
    assert bound_selection_loss(0.3, 0.1, 5, known) == pytest.approx(kappa(known, 0.6) + 0.4)
    assert bound_selection_loss(0.3, 0.1, 2, known) == pytest.approx(kappa(known, 0.6) + 0.1), (
        "not (gamma - 1) beta, which is less"
    )


@pytest.mark.parametrize("sided", ["one", "two"])
@pytest.mark.parametrize("accounting", ["tight", "published"])
@pytest.mark.parametrize("gamma", [Fraction(11, 10), Fraction(3, 2), *GAMMAS, 100])
@pytest.mark.each_value
def test_the_noise_fits_the_budget_and_no_less_would(gamma, sided, accounting):
    known = law(gamma)
    for epsilon, beta, candidates in (
        (1e-6, 0, 5),
        (0.1, 1e-4, 5),
        (1, 0.001, 20),
        (3, 0.01, 4),
        (20, 0.05, 10**6),
    ):
        alpha = largest_selection_alpha(epsilon, beta, candidates, known, sided, accounting)
        if alpha == 0:
            assert scale_loss(beta, candidates, known, sided, accounting) >= epsilon
            continue
        assert scale_loss(beta, candidates, known, sided, accounting) < epsilon
        assert bound_selection_loss(alpha, beta, candidates, known, sided, accounting) <= epsilon
        assert (
            bound_selection_loss(alpha * 1.00002, beta, candidates, known, sided, accounting)
            > epsilon
        )
        if accounting == "tight":
            assert alpha >= largest_selection_alpha(
                epsilon, beta, candidates, known, sided, "published"
            )


def test_absurd_budgets():
    assert 1e13 < largest_selection_alpha(1e12, 0.1, 5, QUARTIC, "one", "tight") < 1e16
    assert largest_selection_alpha(5e-324, 0, 5, QUARTIC, "one", "tight") >= 0
    assert largest_selection_alpha(1, 5, 5, QUARTIC, "one", "tight") == 0
