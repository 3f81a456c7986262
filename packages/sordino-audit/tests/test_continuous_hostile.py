"""Laws made to fool the auditor of densities: spikes between its points, kinks, far tails, poles, numbers at the ends of the floats."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import sordino_audit as audit
from sordino import InvalidParameter
from sordino.cost import Pure
from sordino_audit import Crossings, Density, Law, Race
from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.cells import atom, difference
from sordino_audit.continuous.continuous import Asked
from sordino_audit.continuous.integrals import CellBudget, Factor, integrate

F = Fraction
ONE = Pure(epsilon=1)
LN_2 = math.log(2)
SPOT = math.sqrt(2)


def enclosed(function, shift=0.0):
    """Bounds of a log density at points, for the shapes that ask for no intervals."""

    def log_density(low, high, answer):
        return function(low, answer) - 1e-12 + shift, function(high, answer) + 1e-12 + shift

    return log_density


def notched(low, high, answer):
    """Laplace noise; one side lacks nearly all of what lies in a notch of width 1e-7, which no grid would hit."""
    near = np.where(low * high <= 0, 0.0, np.minimum(np.abs(low), np.abs(high)))
    within, touched = (low >= SPOT) & (high <= SPOT + 1e-7), (high >= SPOT) & (low <= SPOT + 1e-7)
    most, least = -near - LN_2, -np.maximum(np.abs(low), np.abs(high)) - LN_2
    return np.where(touched & (answer == 1), least - 3, least) - 1e-12, np.where(
        within & (answer == 1), most - 3, most
    ) + 1e-12


@pytest.mark.parametrize("cells", [1, 500, pytest.param(400_000, marks=pytest.mark.slow)])
def test_a_spike_between_the_points_is_never_missed_from_above(cells):
    mechanism = Density(log_density=notched, window=(-20, 20), tail=0, cost=ONE)
    report = audit.exact(mechanism, answers_a=0, answers_b=1, vectors=cells, slack=1e-3)
    assert report.epsilon_at_least <= 3.0 <= report.epsilon_at_most
    assert report.broken or cells < 400_000, "with cells enough it is found"


def test_a_loss_that_is_largest_at_a_kink_that_is_no_float():
    spot = F(1, 3)

    def bump(x, answer):
        return (
            -np.abs(x)
            - LN_2
            - math.log(1.4)
            + (np.maximum(0.0, 1 - 5 * np.abs(x - float(spot))) * 2 if answer else 0.0)
        )

    mechanism = Density(
        log_density=enclosed(bump),
        breaks=lambda answer: [0, spot - F(1, 5), spot, spot + F(1, 5)],
        shape="linear",
        window=(-40, 40),
        tail=0,
        cost=ONE,
    )
    report = audit.exact(mechanism, answers_a=0, answers_b=1)
    assert report.epsilon_at_least <= 2 <= report.epsilon_at_most
    assert report.epsilon_at_most - report.epsilon_at_least < 1e-6
    assert report.witness.output == pytest.approx(1 / 3, abs=1e-9)
    assert report.broken


def test_a_loss_in_the_far_tail_is_found_or_left_to_the_tail_statement():
    def steeper(x, answer):
        return -np.abs(x) - LN_2 - (np.maximum(0.0, np.abs(x) - 30) if answer else 0.0)

    options = {
        "breaks": lambda answer: [-30, 0, 30],
        "shape": "linear",
        "cost": ONE,
        "log_density": enclosed(steeper),
    }
    found = audit.exact(
        Density(window=(-60, 60), tail=math.inf, **options), answers_a=0, answers_b=1
    )
    assert found.broken
    assert found.epsilon_at_least == pytest.approx(30, abs=1e-6)
    unseen = audit.exact(
        Density(window=(-25, 25), tail=math.inf, **options), answers_a=0, answers_b=1
    )
    assert not unseen.broken
    assert not unseen.complete
    assert unseen.unresolved >= math.exp(-25)
    assert unseen.delta_at_claim >= math.exp(-25) * (1 - 1e-6)
    lied = audit.exact(Density(window=(-25, 25), tail=0, **options), answers_a=0, answers_b=1)
    assert "the tail statement holds outside the window" in lied.assumed, "whoever says so is named"


def test_a_millionth_too_much_is_convicted_and_a_millionth_less_is_not():
    for scale, broken in ((F(10**6, 10**6 + 1), True), (F(10**6 + 1, 10**6), False)):
        report = audit.exact(
            Density.added(Law.laplace(scale), window=(-50, 50), cost=ONE), answers_a=0, answers_b=1
        )
        assert report.broken == broken
        assert report.complete


@pytest.mark.parametrize("shape", ["concave", "monotone", "linear"])
def test_a_lie_about_the_shape_is_refused_where_it_shows_and_named_where_it_does_not(shape):
    """A wave that is wide enough to be seen; and a notch that no point meets, of which the report can only say what it rests on."""

    def waved(x, answer):
        return -x - 0.5 * np.sin(3 * x) * answer

    options = {
        "shape": shape,
        "window": (0, 30),
        "tail": 0,
        "cost": ONE,
        "breaks": lambda answer: [],
    }
    with (
        pytest.raises(InvalidParameter, match=f"must be {shape} between its breaks")
        if shape != "monotone"
        else _fine()
    ):
        audit.exact(
            Density(log_density=enclosed(waved, -0.5), **options),
            answers_a=0,
            answers_b=1,
            vectors=5000,
        )

    def hidden(x, answer):
        return -x - np.where((answer == 1) & (np.abs(x - SPOT) < 1e-13), 3.0, 0.0)

    report = audit.exact(
        Density(log_density=enclosed(hidden), **options), answers_a=0, answers_b=1, vectors=5000
    )
    assert f"which is {shape} between its breaks" in report.assumed


def _fine():
    """-x - sin(3x)/2 wiggles, and so it is no monotone function either."""
    return pytest.raises(InvalidParameter, match="must be monotone between its breaks")


# ---- classes and outputs --------------------------------------------------------------------------------------------


def classes(mechanism, a, b, cuts):
    """The bounds of the probabilities of all classes under the first side."""
    found = mechanism.compared(
        a, b, Asked(slack=1e-6, tail=1e-12, budget=CellBudget(20_000), cuts=cuts)
    )
    return {
        label: tuple(math.exp(float(x[0])) for x in (cells.a.low_left, cells.a.high_left))
        for label, cells in found.cells
    }


@pytest.mark.slow
def test_cuts_below_the_least_gap_make_empty_classes():
    """A gap is never below its start: a class that ends there is empty, and the one after it begins there."""
    sparse = Crossings(
        threshold=Law.exponential(2), queries=Law.exponential(4), positives=1, gap=True, boundaries=[2], cost=ONE
    )  # fmt: skip
    low, at = (classes(sparse, [0], [1], cuts) for cuts in ((1.0, 3.0), (2.0, 3.0)))
    assert low[(1,), "(-inf, 1]"] == (0, 0)
    assert low[(1,), "(1, 3]"] == at[(1,), "(2, 3]"]
    race = Race(noise=Law.exponential(2), cost=ONE, gap=True)
    assert classes(race, [1, 0], [0, 1], (-3.0, 0.0, 1.0))[0, "(-3, 0]"] == (0, 0)
    report = audit.exact(race, answers_a=[1, 0], answers_b=[0, 1], partition=[-3, 1])
    assert report.epsilon_at_least <= 1 <= report.epsilon_at_most
    assert report.unresolved == 0


def test_gaps_that_cannot_come_out_are_refused():
    race = Race(noise=Law.exponential(2), cost=ONE, gap=True, outputs=[(0, -5)])
    sparse = Crossings(
        threshold=Law.exponential(2),
        queries=Law.exponential(4),
        gap=True,
        boundaries=[2],
        outputs=[((1, 1),)],
        cost=ONE,
    )
    for mechanism, least in (
        (race, "at least 0, as no others come out; got -5"),
        (sparse, "at least 2, as no others come out; got 1"),
    ):
        with pytest.raises(InvalidParameter, match=least):
            audit.exact(
                mechanism,
                answers_a=[1, 0][: 2 if mechanism is race else 1],
                answers_b=[0, 1][: 2 if mechanism is race else 1],
            )
    below = Crossings(
        threshold=Law.exponential(2),
        queries=Law.exponential(4),
        gap=True,
        outputs=[((0, 1),)],
        cost=ONE,
    )
    with pytest.raises(InvalidParameter, match="must have 0, a branch, or with a gap"):
        audit.exact(below, answers_a=[0], answers_b=[1])


def pole(low, high, answer):
    """The log density of a Gamma law of order 1/100, which is infinite at its start; z^(1/100) of it lies below a small z."""
    constant = -math.lgamma(0.01)

    def at(z):
        return -0.99 * np.log(np.maximum(z, 5e-324)) - z + constant

    left, right = low - answer, high - answer
    most = np.where(right < 0, -np.inf, np.where(left <= 0, np.inf, at(left) + 1e-9))
    return np.where(left < 0, -np.inf, np.where(right > 0, at(right) - 1e-9, -np.inf)), most


def test_a_cut_at_a_pole_counts_for_both_sides():
    """The tiny cell around the break holds more than 0.0005 of the probability, all of it above the cut: P(Z <= 1e-300) = 0.0010057."""
    mechanism = Density(
        log_density=pole,
        breaks=lambda answer: [answer],
        shape=("linear", "monotone"),
        window=(-10, 60),
        cost=ONE,
    )
    found = classes(mechanism, 0, 1, (0.0, 1e-300, 1.0))
    for label, truth in (
        ("(-inf, 0]", 0.0),
        ("(0, 1e-300]", 0.0010057065),
        ("(1e-300, 1]", 0.9967780588),
        ("(1, inf]", 0.0022162346),
    ):
        low, high = found[label]
        assert low <= truth * (1 + 1e-9), label
        assert truth <= high * (1 + 1e-9), label
    assert found["(1, inf]"][0] > 0.0022


# ---- the ends of the floats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: Density.added(Law.laplace(1), window=(-1e308, 1e308), cost=ONE),
            "Density.window must be a finite number from -1e60 to",
        ),
        (
            lambda: Law.laplace(F(1, 10**300)),
            "Law.laplace.scale must be a number from 1e-40 to 1e40",
        ),
        (
            lambda: Law(log_cdf=Law.laplace(1).log_cdf, breaks=[10**400]),
            "Law.breaks must be a finite number from -1e60 to 1e60",
        ),
        (
            lambda: audit.exact(
                Race(noise=Law.laplace(1), cost=ONE), answers_a=[0, 10**400], answers_b=[0, 1]
            ),
            "audit.exact.answers must be a finite number from -1e60",
        ),
    ],
)
def test_numbers_that_would_overflow_are_refused(make, says):
    with pytest.raises(InvalidParameter, match=says):
        make()


@pytest.mark.parametrize("unit", [F(1, 10**38), F(10**17)])
@pytest.mark.slow
def test_units_do_not_matter(unit):
    race = Race(noise=Law.exponential(2 * unit), cost=ONE, gap=True)
    report = audit.exact(race, answers_a=[unit, 0], answers_b=[0, unit])
    assert report.epsilon_at_least <= 1 <= report.epsilon_at_most < 1 + 1e-6


def test_what_is_far_out_is_known_to_be_there():
    """Densities that are not 0, but whose logarithms overflow, or are taken at a clipped place: a bound may be rough, not wrong."""
    far = np.array([1e200, -1e200])
    assert (Law.gaussian(1).log_density(far, far)[1] > -np.inf).all()
    assert Law.gaussian(1).log_density(np.array([np.inf]), np.array([np.inf]))[1][0] == -np.inf
    heavy = Law.cauchy(2)
    z = np.array([1e305])
    assert (
        heavy.log_density(z, z)[0][0]
        <= -2 * 305 * math.log(10) - math.log(math.pi)
        <= heavy.log_density(z, z)[1][0]
    )


def test_what_is_too_small_for_a_float_is_kept():
    """Below the smallest normal float nothing is relied on: some processes take it for 0."""
    least = 2.0**-1022
    assert floats.exp((np.array([-720.0]),) * 2)[1][0] > least
    assert floats.log1mexp((np.array([740.0]),) * 2)[1][0] == 0
    low, high = floats.log1pexp((np.array([-740.0]),) * 2)
    assert low[0] == 0
    assert high[0] > least
    # An integral of about e^-800, which no float holds: 0 from below, and a normal float from above.
    shifts = (F(0), F(800))
    factors = [Factor(kind, Law.exponential(1), F(1)) for kind in ("density", "survival")]
    low, high = integrate(factors, [shifts], 1e-9, CellBudget(10**5))
    assert low[0] == 0
    assert high[0] > least


@pytest.mark.parametrize("law", [Law.gumbel(1), Law.laplace(1), Law.cauchy(F(5, 2))], ids=str)
def test_answers_that_are_far_apart(law):
    """The exponential of what is between them is no float; of the farthest that are allowed nothing need be known."""
    race = Race(noise=law, cost=ONE)
    low, high = race.log_probability([10**6, 0], 0)
    assert -1e-8 < low <= 0 <= high + 1e-8
    assert high - low < 1e-10
    low, high = race.log_probability([10**58, 0], 1)
    assert low <= high <= 1e-12


def test_what_is_too_large_for_a_float_is_no_lower_bound():
    assert floats.enclose(F(10) ** 400) == (np.finfo(float).max, math.inf)
    assert floats.enclose(-(F(10) ** 400)) == (-math.inf, -np.finfo(float).max)
    assert floats.bound_total([1e308, 1e308], up=True) == math.inf
    assert floats.bound_total([1e308, 1e308], up=False) < math.inf
    line = (np.array([800.0]),) * 2
    assert math.isfinite(floats.mean_exponential(line, line)[0][0])
    infinite = np.array([math.inf])
    low, high = difference((infinite, infinite), (infinite, infinite))
    assert (low[0], high[0]) == (-math.inf, math.inf), "infinity over infinity may be anything"
    point = atom((math.inf, math.inf), (0.0, 0.0))._replace(width=np.zeros(1))
    assert point.mass(point.a)[1][0] == 0, "a single point of a density has no probability"


# ---- everything at once, against sums on a fine grid ------------------------------------------------------------------


def heavy(gamma, z):
    return -np.log1p(np.abs(z) ** gamma) - math.log(2 * math.pi / gamma / math.sin(math.pi / gamma))


PAIRS = (
    (Law.laplace(1), lambda z: -np.abs(z) - LN_2),
    (Law.exponential(1), lambda z: np.where(z < 0, -np.inf, -z)),
    (Law.exponential(1).mirrored(), lambda z: np.where(z > 0, -np.inf, z)),
    (Law.gumbel(1), lambda z: -z - np.exp(-z)),
    (Law.logistic(1), lambda z: -np.abs(z) - 2 * np.log1p(np.exp(-np.abs(z)))),
    (Law.gaussian(1), lambda z: -z * z / 2 - math.log(2 * math.pi) / 2),
    (Law.cauchy(2), lambda z: heavy(2, z)),
    (Law.cauchy(F(7, 2)), lambda z: heavy(3.5, z)),
    (Law(log_density=Law.laplace(1).log_density), lambda z: -np.abs(z) - LN_2),
    (
        Law(log_density=Law.exponential(1).log_density, log_concave=True),
        lambda z: np.where(z < 0, -np.inf, -z),
    ),
)


def on_a_grid(logs, other, steps, epsilon):
    """The largest log ratio, and the hockey stick, of the first to the second."""
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isneginf(logs), -np.inf, logs - other)
    return ratio.max(), float(
        (np.maximum(np.exp(logs) - math.exp(epsilon) * np.exp(other), 0) * steps).sum()
    )


def stressed(seed, rounds):
    rng = random.Random(seed)
    for _ in range(rounds):
        law, log_density = rng.choice(PAIRS)
        a = F(rng.randint(-30, 30), 10)
        b = a + F(rng.randint(1, 20), rng.choice([10, 1000]))
        scales = (
            (F(1), F(1))
            if rng.random() < 0.5
            else (F(rng.randint(5, 20), 10), F(rng.randint(5, 20), 10))
        )
        window = -rng.choice([5, 12, 30]) + rng.random(), rng.choice([5, 12, 30]) + rng.random()
        epsilon, cells = rng.choice([0, 0.1, 0.5, 1, 2]), rng.choice([3, 60, 1000])
        mechanism = Density.added(law, window=window, tail=math.inf, cost=Pure(epsilon=50))
        with np.errstate(over="ignore"):
            report = audit.exact(
                mechanism,
                answers_a=(a, scales[0]),
                answers_b=(b, scales[1]),
                epsilons=[epsilon],
                vectors=cells,
            )
            ends = sorted({*window, *(float(x) for x in (a, b) if window[0] < x < window[1])})
            share = (np.arange(20_000) + 0.5) / 20_000
            x = np.concatenate([left + (right - left) * share for left, right in pairwise(ends)])
            steps = np.concatenate(
                [np.full(20_000, (right - left) / 20_000) for left, right in pairwise(ends)]
            )
            logs = [
                log_density((x - float(at)) / float(scale)) - math.log(scale)
                for at, scale in zip((a, b), scales, strict=True)
            ]
            found = [on_a_grid(one, other, steps, epsilon) for one, other in (logs, logs[::-1])]
        context = str((law, a, b, scales, window, epsilon, cells))
        inner = max(ratio for ratio, _ in found)
        assert inner <= report.epsilon_at_most + 1e-9 * (1 + abs(inner)), context
        [delta] = [each for each in report.deltas if each.epsilon == epsilon]
        stick = max(each for _, each in found)
        outside = max(0.0, 1 - min(float((np.exp(one) * steps).sum()) for one in logs))
        assert stick <= delta.at_most + 1e-5, context
        assert delta.at_least <= stick + outside + 1e-5, context
        assert outside <= report.tail + 1e-5, context


@pytest.mark.slow
def test_random_laws_and_budgets_against_a_grid():
    stressed(1, 25)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_random_laws_and_budgets_against_a_grid(seed):
    stressed(seed, 150)
