"""Enclosures of continuous laws, against mpmath; what a law says of itself is refused where it shows."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb, ctx

import sordino_audit as audit
from sordino import InvalidParameter
from sordino.cost import Pure
from sordino_audit import Law
from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.balls import precisely
from support import quadrature

ONE = Pure(epsilon=1)
TINY = mp.mpf(10) ** -85
POINTS = np.array(
    [0.0, 1.0, -1.0, 0.5, 0.9999, 1.0001, 1e-9, -1e-9, 3.7, -2.2, 25.0, -25.0, 120.0, -60.0]
)

PAIRS = {
    "exponential": (Law.exponential(), quadrature.exponential(1)),
    "laplace": (Law.laplace(), quadrature.laplace(1)),
    "gumbel": (Law.gumbel(), quadrature.gumbel(1)),
    "logistic": (Law.logistic(), quadrature.logistic(1)),
    "cauchy 2": (Law.cauchy(2), quadrature.cauchy(2)),
    "cauchy 4": (Law.cauchy(4), quadrature.cauchy(4)),
    "cauchy 3/2": (Law.cauchy(Fraction(3, 2)), quadrature.cauchy(mp.mpf(3) / 2)),
    "one-sided 3": (Law.cauchy(3, one_sided=True), quadrature.cauchy(3, one_sided=True)),
    "one-sided 4": (Law.cauchy(4, one_sided=True), quadrature.cauchy(4, one_sided=True)),
    "minus exponential": (
        Law.exponential().mirrored(),
        quadrature.Known(
            lambda x: quadrature.exponential(1).density(-x),
            lambda x: quadrature.exponential(1).survival(-x),
            lambda x: quadrature.exponential(1).cdf(-x),
            mp.mpf(1),
        ),
    ),
}
every = pytest.mark.parametrize(("law", "known"), PAIRS.values(), ids=PAIRS.keys())


@pytest.mark.parametrize("function", ["exp", "expm1", "log", "log1p"])
@pytest.mark.slow
def test_the_functions_of_numpy_are_as_exact_as_is_assumed(function):
    """Everything rests on 2^-47 of the value, 32 units in the last place."""
    rng = np.random.default_rng(1)
    size = {"exp": 700, "expm1": 700}.get(function, 0)
    x = np.concatenate(
        [rng.uniform(-size, size, 1500), rng.uniform(-2, 2, 1500)]
        if size
        else [2.0 ** rng.uniform(-1000, 1000, 1500), rng.uniform(0, 2, 1500)]
    )
    if function == "log1p":
        x = np.concatenate([x, -rng.uniform(0, 1, 1000), 2.0 ** rng.uniform(-60, -1, 500)])
    found = getattr(np, function)(x)
    with mp.workdps(40):
        worst = max(
            abs((mp.mpf(float(y)) - t) / t)
            for v, y in zip(x, found, strict=True)
            if (t := getattr(mp, function)(mp.mpf(float(v))))
        )
    assert worst < mp.mpf(2) ** -47


@every
@pytest.mark.parametrize("kind", ["density", "cdf", "survival"])
@pytest.mark.each_value
def test_a_law_is_enclosed_at_points(law, known, kind):
    low, high = (
        law.log_density(POINTS, POINTS)
        if kind == "density"
        else getattr(law, f"log_{kind}")(POINTS)
    )
    with mp.workdps(90):
        for x, below, above in zip(POINTS, low, high, strict=True):
            value = getattr(known, kind)(mp.mpf(float(x)))
            truth = mp.log(value) if value > 0 else -mp.inf
            assert below - TINY <= truth <= above + TINY, x
            assert not math.isfinite(below) or above - below < 4e-12 * max(1, abs(truth)), x


@every
def test_a_density_is_enclosed_over_intervals(law, known):
    rng = np.random.default_rng(2)
    ends = np.sort(rng.normal(size=(60, 2)) * 3, axis=1)
    low, high = law.log_density(ends[:, 0], ends[:, 1])
    for (left, right), below, above in zip(ends, low, high, strict=True):
        for x in np.linspace(left, right, 7):
            value = known.density(mp.mpf(float(x)))
            assert below - 1e-13 <= (mp.log(value) if value > 0 else -mp.inf) <= above + 1e-13
    outer = law.log_density(np.array([-np.inf, 3.0]), np.array([-3.0, np.inf]))
    assert (outer[0] == -np.inf).all()
    assert (
        outer[1][1]
        >= (float(mp.log(known.density(mp.mpf(3)))) if known.density(mp.mpf(3)) else -np.inf)
        - 1e-12
    )


@every
def test_the_ends_of_the_line_are_what_they_are(law, known):
    ends = np.array([-np.inf, np.inf])
    for (low, high), values in (
        (law.log_cdf(ends), (-np.inf, 0)),
        (law.log_survival(ends), (0, -np.inf)),
    ):
        for below, above, value in zip(low, high, values, strict=True):
            assert below <= value <= above
            assert np.exp(above) - np.exp(below) < 1e-300


@every
@pytest.mark.parametrize("kind", ["density", "cdf", "survival"])
@pytest.mark.sample(15)
def test_balls_hold_what_they_are_made_of(law, known, kind):
    """At points to many digits, and over intervals, those that touch 0 included."""
    function = getattr(law.analytic, kind)

    def truth(x):
        # The constants of the reference have as many digits as a float.
        value = arb(str(getattr(known, kind)(mp.mpf(x))))
        return value + value * arb(0, 1e-15)

    with precisely(), mp.workdps(90):
        for x in POINTS.tolist():
            # At 0 itself either side will do.
            sides = [function(acb(x), side, False).real for side in (-1, 1) if side * x >= 0]
            assert any(found.overlaps(truth(x)) for found in sides), x
            assert all(found.rad() <= abs(found) * 2.0**-45 + arb(10) ** -40 for found in sides), x
        for left, right in ((0.0, 0.01), (-0.01, 0.0), (0.3, 0.4), (-3.0, -2.5), (50.0, 51.0)):
            found = function(acb(arb(left).union(arb(right))), 1 if right > 0 else -1, False).real
            assert all(found.overlaps(truth(x)) for x in np.linspace(left, right, 5)[1:-1].tolist())


@every
@pytest.mark.parametrize("kind", ["density", "cdf", "survival"])
@pytest.mark.sample(15)
def test_on_each_side_a_law_is_the_function_that_is_continued_into_the_plane(law, known, kind):
    """The mean of an analytic function over a circle is its value in the middle."""
    function = getattr(law.analytic, kind)
    with precisely():
        for middle in (-2.5, -0.75, 0.75, 2.5):
            circle = [acb(arb(i) / 16).exp_pi_i() for i in range(32)]
            values = [function(middle + at / 4, 1 if middle > 0 else -1, True) for at in circle]
            mean = sum(values, acb(0)) / len(circle)
            assert mean.is_finite()
            assert abs(mean - function(acb(middle), 1 if middle > 0 else -1, False)) < 1e-9


@pytest.mark.parametrize("gamma", [Fraction(3, 2), Fraction(5, 2), Fraction(41, 10)])
@pytest.mark.parametrize("kind", ["density", "cdf", "survival"])
def test_a_power_that_branches_says_so(gamma, kind):
    """Around 0 nothing is analytic, and around a pole of the density nothing is known."""
    law = Law.cauchy(gamma)
    around_0, pole = acb(arb(0, 0.1), arb(0, 0.1)), (acb(1) / acb(str(float(gamma)))).exp_pi_i()
    with precisely():
        assert not getattr(law.analytic, kind)(around_0, 1, True).is_finite()
        around = pole + acb(arb(0, 0.1), arb(0, 0.1))
        assert not getattr(law.analytic, kind)(around, 1, True).is_finite()


def test_the_precision_of_others_is_left_as_it_was():
    before = ctx.prec
    with precisely():
        assert ctx.prec > before
    assert ctx.prec == before


@pytest.mark.parametrize(
    "law", [Law.cauchy(4), Law.cauchy(3), Law.cauchy(4, one_sided=True)], ids=str
)
def test_heavy_tails_bend_where_they_say(law):
    """log f is concave between the bends and convex outside: |z|^gamma = gamma - 1."""
    gamma = 3 if "gamma=3" in str(law) else 4
    low, high = law.bends[-1]
    assert low < (gamma - 1) ** (1 / gamma) < high < low + 1e-11
    for z in (0.1, 0.6, 1.1, 1.8, 4.0):
        values = [
            float(law.log_density(np.array([x]), np.array([x]))[0][0])
            for x in (z - 0.05, z, z + 0.05)
        ]
        assert (values[0] + values[2] - 2 * values[1] < 0) == (z < low)


def test_the_one_sided_heavy_tail_of_order_four():
    """F(1) = 0.78054992617, and Q(3) = 0.0452787651016 for order three."""
    at = np.exp(Law.cauchy(4, one_sided=True).log_cdf(np.array([1.0])))
    assert at[0][0] <= 0.78054992617 + 1e-11
    assert at[1][0] >= 0.78054992617 - 1e-11
    assert np.ptp(at) < 1e-11
    assert float(
        np.exp(Law.cauchy(3, one_sided=True).log_survival(np.array([3.0])))[0][0]
    ) == pytest.approx(0.0452787651016, abs=1e-12)


def test_sums_of_exponentials_and_means_are_enclosed():
    rng = np.random.default_rng(3)
    terms = rng.normal(size=(4, 50)) * 20
    low, high = floats.log_total((terms, terms + 1e-9))
    truth = [float(mp.log(mp.fsum(mp.exp(mp.mpf(float(x))) for x in column))) for column in terms.T]
    assert (low <= truth).all()
    assert (high >= np.array(truth) + 0.9e-9).all()
    none = np.array([[-np.inf, 0.0], [-np.inf, -np.inf]])
    assert next(list(side) for side in floats.log_total((none, none)))[0] == -np.inf
    left, right = (
        rng.normal(size=300) * 10.0 ** rng.uniform(-9, 2, 300),
        rng.normal(size=300) * 10.0 ** rng.uniform(-9, 2, 300),
    )
    right[:50] = left[:50]
    low, high = floats.mean_exponential((left, left), (right, right))
    for a, b, below, above in zip(left, right, low, high, strict=True):
        with mp.workdps(40):
            x, y = mp.mpf(float(a)), mp.mpf(float(b))
            truth = mp.exp(x) if x == y else (mp.exp(y) - mp.exp(x)) / (y - x)
            assert below <= truth <= above
    assert floats.mean_exponential((np.array([-np.inf]),) * 2, (np.array([1.0]),) * 2)[1][0] == 0


def whole(x):
    return np.where(x < 0, -np.inf, np.log(np.clip(x, 1e-300, 1))) - 1e-12, np.where(
        x <= 0, -np.inf, np.log(np.clip(x, 1e-300, 1))
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"log_cdf": lambda x: (np.full(x.shape, -1.0), np.full(x.shape, -2.0))},
            "must return a lower and an upper bound",
        ),
        (
            {"log_cdf": lambda x: (np.full(x.shape, np.nan), np.full(x.shape, 0.0))},
            "must return a lower and an upper bound",
        ),
        ({"log_cdf": lambda x: (np.full(x.shape, 0.5), np.full(x.shape, 0.5))}, "not above 0"),
        ({"log_cdf": lambda x: (np.where(x < 0, -0.5, -1.0),) * 2}, "must not fall"),
        (
            {
                "log_cdf": lambda x: (np.where(x < 0, -np.inf, 0.0),) * 2,
                "log_survival": lambda x: (np.where(x < 1, -1.0, -0.5),) * 2,
            },
            "must not fall, nor log_survival rise",
        ),
        (
            {
                "log_cdf": Law.laplace(1).log_cdf,
                "log_density": lambda low, high: (np.full(low.shape, 2.0),) * 2,
            },
            "functions that agree",
        ),
        (
            {"log_cdf": Law.laplace(1).log_cdf, "log_survival": Law.logistic().log_survival},
            "functions that agree",
        ),
        (
            {
                "log_cdf": lambda x: (
                    Law.laplace(1).log_cdf(x)[0] - 0.1,
                    Law.laplace(1).log_cdf(x)[1] - 0.1,
                )
            },
            "probability 1",
        ),
    ],
    ids=["crossed", "nan", "above one", "falls", "rises", "density", "survival", "less than one"],
)
def test_a_law_that_contradicts_itself_is_refused(options, says):
    race = audit.Race(noise=Law(**options), cost=ONE)
    with pytest.raises(InvalidParameter, match=says):
        audit.exact(race, answers_a=[0, 0], answers_b=[0, 1], slack=0.05)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (Law, "must have log_cdf or log_density"),
        (lambda: Law(log_cdf=3), "Law.log_cdf must be a function; got 3"),
        (
            lambda: Law(log_cdf=whole, scale=0),
            "Law.scale must be a number from 1e-40 to 1e40; got 0",
        ),
        (lambda: Law(log_cdf=whole, log_concave=1), "Law.log_concave must be True or False"),
        (lambda: Law(log_cdf=whole, breaks=["x"]), "Law.breaks must be a finite number"),
        (lambda: Law(log_cdf=whole, breaks=3), "Law.breaks must be a list of numbers; got 3"),
        (lambda: Law.laplace(-1), "Law.laplace.scale must be a number from 1e-40 to 1e40; got -1"),
        (lambda: Law.cauchy(1), r"Law.cauchy.gamma must be a number in \(1, 100\]; got 1"),
        (lambda: Law.cauchy(2, one_sided=1), "Law.cauchy.one_sided must be True or False"),
        (
            lambda: audit.Race(noise=Law.gaussian(1), cost=ONE),
            "Race.noise must be a Law with a log_cdf",
        ),
        (lambda: audit.Race(noise=3, cost=ONE), "Race.noise must be a Law with a log_cdf"),
    ],
)
def test_public_parameters_are_checked(make, says):
    with pytest.raises(InvalidParameter, match=says):
        make()
