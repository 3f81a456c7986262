"""Integrals over a shared shift: against mpmath at 30 digits, by two routes that must agree, and valid however early they stop."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from sordino_audit import Law
from sordino_audit.continuous.integrals import CellBudget, Factor, bound_mass, integrate
from support import quadrature

ONE = Fraction(1)
F = Fraction


def rough(law):
    """The same law as anybody would hand it over: without Taylor coefficients."""
    return Law(
        log_cdf=law.log_cdf,
        log_survival=law.log_survival,
        log_density=law.log_density,
        scale=law.scale,
        breaks=law.breaks,
        log_concave=law.log_concave,
        name=f"rough {law.name}",
    )


def bounds(factors, shifts, share=1e-11, cells=10**6):
    low, high = integrate(
        [Factor(kind, law, ONE) for kind, law in factors], [tuple(shifts)], share, CellBudget(cells)
    )
    return float(low[0]), float(high[0])


EXP, LAP, GUM, LOG = Law.exponential, Law.laplace, Law.gumbel, Law.logistic
CASES = {
    "S2": ([("density", EXP(2)), ("cdf", EXP(4)), ("survival", EXP(4))], (0, 0, 0), F(1, 6)),
    "S5": ([("density", EXP(2)), ("cdf", EXP(2)), ("survival", EXP(2))], (0, 0, 0), F(1, 6)),
    "S8": ([("density", LAP(2)), ("survival", EXP(4))], (0, 0), F(5, 6)),
    "S9": ([("density", LAP(2)), ("cdf", EXP(4)), ("survival", EXP(4))], (0, 0, 0), F(1, 12)),
    "S11": (
        [("density", LAP(2)), ("cdf", LAP(4)), ("survival", LAP(4))],
        (0, 0, 0),
        F("0.20833333333333334"),
    ),
    "S13": (
        [("density", GUM(2)), ("cdf", GUM(2)), ("survival", GUM(2))],
        (0, -1, -2),
        F("0.19121694557229785"),
    ),
    "S17": (
        [("density", EXP(2)), ("cdf", EXP(4)), ("density", EXP(4))],
        (0, 0, F(-3, 2)),
        F("0.038146200370375395"),
    ),
    "T1": (
        [("density", EXP(2)), ("cdf", EXP(2)), ("cdf", EXP(2))],
        (-1, 0, 0),
        F("0.5160958206778473"),
    ),
    "T6": ([("density", LAP(2)), ("density", LAP(2))], (0, F("-0.3")), F("0.12372677161110207")),
    "O10": (
        [
            ("density", Law.cauchy(4, one_sided=True)),
            ("cdf", Law.cauchy(4, one_sided=True)),
            ("cdf", Law.cauchy(4, one_sided=True)),
        ],
        (0, 1, 2),
        F("0.897646719015"),
    ),
}
every = pytest.mark.parametrize(("factors", "shifts", "value"), CASES.values(), ids=CASES.keys())


@every
@pytest.mark.sample(4)
def test_oracles_lie_between_bounds_that_are_a_dozen_digits_apart(factors, shifts, value):
    low, high = bounds(factors, map(F, shifts))
    slop = F(1, 10**12) if value.denominator > 100 else 0  # the published digits
    assert F(low) - slop <= value <= F(high) + slop
    assert high - low < 1e-11


@every
@pytest.mark.parametrize("cells", [1, 300, 5_000])
@pytest.mark.sample(4)
def test_monotone_sums_agree_however_early_they_stop(factors, shifts, value, cells):
    """Without Taylor coefficients all that is used is that distribution functions rise."""
    low, high = bounds([(kind, rough(law)) for kind, law in factors], map(F, shifts), cells=cells)
    assert low <= float(value) * (1 + 1e-11)
    assert float(value) * (1 - 1e-11) <= high
    if cells == 5_000:
        assert high - low < 0.02 * float(value)


@every
@pytest.mark.parametrize("cells", [1, 50])
@pytest.mark.sample(4)
def test_taylor_sums_hold_however_early_they_stop(factors, shifts, value, cells):
    low, high = bounds(factors, map(F, shifts), cells=cells)
    assert low <= float(value) * (1 + 1e-11)
    assert float(value) * (1 - 1e-11) <= high


KNOWN = {
    "exponential": (EXP, quadrature.exponential),
    "laplace": (LAP, quadrature.laplace),
    "gumbel": (GUM, quadrature.gumbel),
    "logistic": (LOG, quadrature.logistic),
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.slow
def test_random_products_against_high_precision(name):
    """Three answers and a gap at places that are no floats, with two scales."""
    make, reference = KNOWN[name]
    rng = np.random.default_rng(7)
    for _ in range(2):
        shifts = [F(int(x), 10) for x in rng.integers(-20, 21, 4)]
        kinds = ["density", "cdf", "survival", "density"]
        scales = [1, F(1, 2), 2, 1]
        low, high = bounds(
            [(kind, make(scale)) for kind, scale in zip(kinds, scales, strict=True)], shifts
        )
        known = [
            (kind, reference(scale), shift)
            for kind, scale, shift in zip(kinds, map(mp.mpf, (1, 0.5, 2, 1)), shifts, strict=True)
        ]
        truth = quadrature.integral(known)
        assert low - 1e-16 <= truth <= high + 1e-16
        assert high - low < 1e-10 * truth


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "one_sided"), [(2, False), (4, True), (3, False), (1.5, False)])
def test_heavy_tails_against_high_precision(gamma, one_sided):
    law, known = (
        Law.cauchy(F(gamma), one_sided=one_sided),
        quadrature.cauchy(mp.mpf(gamma), one_sided=one_sided),
    )
    shifts = [F(0), F(13, 10), F(-7, 10)]
    low, high = bounds(
        list(zip(["density", "cdf", "cdf"], [law] * 3, strict=True)), shifts, share=1e-10
    )
    truth = quadrature.integral(
        [
            (kind, known, shift)
            for kind, shift in zip(["density", "cdf", "cdf"], shifts, strict=True)
        ],
        digits=20,
        far=10**6,
    )
    assert low - 1e-9 <= truth <= high + 1e-9
    assert high - low < 1e-9


@pytest.mark.slow
def test_many_integrals_at_once_are_the_same_as_one_by_one():
    factors = [Factor("density", EXP(2), ONE), Factor("cdf", LAP(1), F(3))]
    jobs = [(F(x), F(y)) for x in (0, 1, F(1, 3)) for y in (-2, 0)]
    together = integrate(factors, jobs, 1e-11, CellBudget(10**6))
    for i, job in enumerate(jobs):
        alone = integrate(factors, [job], 1e-11, CellBudget(10**6))
        assert abs(together[0][i] - alone[0][0]) < 1e-10
        assert together[0][i] <= alone[1][0]
        assert alone[0][0] <= together[1][i]


def test_unlikely_events_keep_their_digits():
    """P(Gumbel(1) > x) times a density far away: about e^-60."""
    low, high = bounds([("density", GUM(1)), ("survival", GUM(1))], (F(0), F(60)))
    assert 0 < low <= high < low * (1 + 1e-9)
    assert math.log(low) == pytest.approx(-60, abs=5)


def test_the_probability_of_a_cell_comes_from_the_exacter_end():
    """One minus a distribution function near 1 has few digits; the survival function has all of them."""
    law = LAP(1)
    low, high = bound_mass(law, (np.array([30.0]),) * 2, (np.array([31.0]),) * 2)
    truth = (math.exp(-30) - math.exp(-31)) / 2
    assert low[0] <= truth <= high[0]
    assert high[0] - low[0] < 1e-11 * truth


def test_a_budget_counts_what_is_looked_at():
    budget = CellBudget(100)
    integrate(
        [Factor("density", rough(LAP(1)), ONE), Factor("cdf", rough(LAP(1)), ONE)],
        [(F(0), F(1))],
        1e-9,
        budget,
    )
    assert budget.left <= 0 < budget.spent


def test_more_digits_than_a_float_has_are_not_looked_for():
    budget = CellBudget(10**6)
    low, high = integrate(
        [Factor("density", LAP(1), ONE), Factor("cdf", LAP(1), ONE)], [(F(0), F(1))], 1e-300, budget
    )
    assert low[0] <= high[0] < low[0] * (1 + 1e-14)
    assert budget.spent < 2000


def test_of_a_product_that_is_nothing_nothing_is_left():
    """Exponential noise below 0: both bounds are 0, also without a budget."""
    factors = [Factor("density", EXP(1), ONE), Factor("density", EXP(1).mirrored(), ONE)]
    for cells in (0, 10**6):
        low, high = integrate(factors, [(F(0), F(3))], 1e-9, CellBudget(cells))
        assert (low[0], high[0]) == (0.0, 0.0)
