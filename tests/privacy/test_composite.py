"""Composite noise: every weight of every input in whole numbers, mean and variance in fractions, formulas against integrals, twins."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import sordino_audit as audit
from sordino import COUNTING, CompositeMechanism, InvalidParameter, Seeded, Sensitivity
from sordino.cost import Pure
from sordino.mechanisms.bounded.perturbation import Perturbation, TwoPoints
from sordino.mechanisms.composite import (
    SHAPES,
    CompositeNoise,
    best_width,
    decide,
    mixed,
    objective,
    two_points,
    variances,
)
from sordino_audit.enumeration.clipped import law
from support.fit import LEVEL

HUMPS = [Fraction(1), Fraction(7, 5)]
SIX = list(product(SHAPES, HUMPS))
six = pytest.mark.parametrize(("activation", "hump"), SIX)
EPSILONS = [0.2, 0.3, 0.4, 0.5, 1]


def small(activation="rectangle", hump=Fraction(1), width=5):
    return Perturbation(reach=7, width=width, floor=40, peak=100, activation=activation, hump=hump)


def moments(weights, values):
    total = sum(weights)
    mean = sum(w * v for w, v in zip(weights, values, strict=True)) / Fraction(total)
    return mean, sum(w * v * v for w, v in zip(weights, values, strict=True)) / Fraction(
        total
    ) - mean**2


# --- whole weights, all pairs of inputs and all outputs --------------------------------------------------------------------------


@six
@pytest.mark.parametrize("width", [1, 3, 13])
@pytest.mark.each_value
def test_six_functions_on_a_small_grid(activation, hump, width):
    p = small(activation, hump, width)
    inputs = range(-p.inputs, p.inputs + 1)
    laws = {c: p.weights(c) for c in inputs}
    assert {sum(weights) for weights in laws.values()} == {p.total}
    worst = max(Fraction(max(column), min(column)) for column in zip(*laws.values(), strict=True))
    assert worst <= Fraction(p.peak, p.floor)
    if hump == 1 and p.inputs >= width:
        assert worst == Fraction(p.peak, p.floor), (
            "attained where one bump has its top outside another"
        )
    for c, weights in laws.items():
        mean, variance = moments(weights, range(-7, 8))
        assert mean == p.gain * c
        noise = CompositeNoise(bump=p)
        assert noise.variance(Fraction(c * c)) * p.gain**2 == variance
        assert moments(noise.law(c), noise.outputs) == (c, noise.variance(Fraction(c * c)))


@six
def test_every_turn_gives_each_output_as_often_as_it_weighs(activation, hump):
    p = small(activation, hump)
    turns = np.arange(p.total)
    for c in (-p.inputs, 0, p.inputs):
        drawn = p.decide(np.full(p.total, c), turns)
        assert np.bincount(drawn + 7, minlength=15).tolist() == p.weights(c)


def test_two_points_and_a_mixture():
    far = TwoPoints(inputs=4, floor=3, peak=8)
    noise = CompositeNoise(bump=small(width=7), share=Fraction(1, 4))
    ratios = []
    for c in range(-4, 5):
        weights = far.weights(c)
        assert sum(weights) == far.total
        assert moments(weights, (-1, 1))[0] == far.gain * c
        turns = np.arange(far.total)
        assert (
            np.bincount((far.decide(np.full(far.total, c), turns) + 1) // 2, minlength=2).tolist()
            == weights
        )
        ratios.append(weights)
        assert sum(noise.law(c)) == 1
        assert moments(noise.law(c), noise.outputs) == (c, noise.variance(Fraction(c * c)))
    assert max(
        Fraction(max(column), min(column)) for column in zip(*ratios, strict=True)
    ) == Fraction(8, 3)
    laws = list(zip(*(noise.law(c) for c in range(-4, 5)), strict=True))
    assert max(max(column) / min(column) for column in laws) == Fraction(100, 40)
    coins = np.array([0, (1 << 30) - 1, 1 << 30, (1 << 32) - 1])
    assert decide(coins, np.array([3] * 4), np.array([1, 1, 1, -1]), noise).tolist() == [
        3,
        3,
        16,
        15,
    ]


MADE = [
    CompositeMechanism(lower=-1, upper=1, epsilon=epsilon, **kind)
    for epsilon, kind in [
        (1, {}),
        (20, {"tuned_for": "center"}),
        (0.01, {"activation": "sine", "base": "quartic"}),
        (2, {"activation": "triangle", "base": "quartic", "hump": 1.5, "tuned_for": "uniform"}),
        (1, {"activation": "mixture"}),
        (0.3, {"activation": "mixture"}),
        (1, {"width": 1.9}),
    ]
]


@pytest.mark.parametrize("m", MADE, ids=repr)
@pytest.mark.slow
def test_released_laws_are_private_and_unbiased(m):
    noise = m.noise
    bump, inputs = noise.bump, noise.inputs
    assert Decimal(bump.peak) / Decimal(bump.floor) <= Decimal(str(m.epsilon)).exp()
    assert math.log(bump.peak / bump.floor) == pytest.approx(m.epsilon, rel=1e-9)
    assert max(bump.total, noise.far.total) < 1 << 61
    # base + bump stays between floor and base + peak - floor, so the factor is at most peak / floor: for all inputs at once
    assert bump.base.min() >= bump.floor
    assert 0 <= bump.bump.min() <= bump.bump.max() <= bump.peak - bump.floor
    assert (bump.base == bump.base[::-1]).all()
    assert (bump.bump == bump.bump[::-1]).all()
    for c in {0, inputs}:
        mean = sum(p * o for p, o in zip(noise.law(c), noise.outputs, strict=True))
        assert mean == c


@pytest.mark.slow
@pytest.mark.parametrize("m", MADE, ids=repr)
def test_all_inputs_and_outputs_in_whole_numbers(m):
    least = most = None
    for c in range(-m.noise.inputs, m.noise.inputs + 1):
        weights = np.array(m.noise.bump.weights(c))
        least, most = (
            (weights, weights)
            if least is None
            else (np.minimum(least, weights), np.maximum(most, weights))
        )
    assert all(
        b * m.noise.bump.floor <= a * m.noise.bump.peak
        for a, b in zip(least.tolist(), most.tolist(), strict=True)
    )


@pytest.mark.parametrize("value", [-1, 0.25, Fraction(1, 3), 0.9999])
@pytest.mark.parametrize("m", [MADE[0], MADE[4]], ids=repr)
@pytest.mark.slow
def test_the_mean_is_the_value_and_the_variance_is_the_formula(m, value):
    exact = [m.grid.middle + output * m.grid.step for output in m.noise.outputs]
    found = law(m, value)
    truth = Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    asked = Fraction(
        value
    )  # a private float is its binary number, a public one its shortest decimal
    mean = sum(p * o for p, o in zip(found, exact, strict=True))
    assert mean == asked
    second = sum(p * (o - asked) ** 2 for p, o in zip(found, exact, strict=True))
    assert m.variance(at=truth) == pytest.approx(float(second), rel=1e-12)
    printed = sum(p * Fraction(o) for p, o in zip(found, m.grid.outputs.tolist(), strict=True))
    assert abs(printed - asked) < 1e-12
    assert math.sqrt(m.variance(at=truth)) <= m.grid.standard_error


@pytest.mark.slow
def test_the_audited_law_is_that_of_a_value_moved_to_the_nearer_end():
    m = MADE[4]
    assert law(m, 99) == law(m, 1) != law(m, 0.99)
    assert law(m, -99) == law(m, None) == law(m, -1)


# --- the continuous formulas, and the numbers of the paper -----------------------------------------------------------------------


@six
def test_the_formula_of_the_variance_is_the_integral(activation, hump):
    epsilon, m, rest = 1.0, 0.6, float(hump) - 1
    height = math.expm1(epsilon)
    bumps = {
        "rectangle": lambda z: 1.0,
        "sine": lambda z: math.cos(math.pi * z / m),
        "triangle": lambda z: 1 - 2 * abs(z) / m,
    }

    def moment(k, e):
        base = integrate.quad(lambda x: x**k * (1 + rest * (1 - x**4)), -1, 1)[0]
        over = [
            integrate.quad(lambda x: x**k * height * bumps[activation](x - e), *ends)[0]
            for ends in ((e - m / 2, e), (e, e + m / 2))
        ]
        return base + sum(over)

    parabola = variances(activation, float(hump), epsilon, np.array([m]))
    total = moment(0, 0)
    gain = moment(1, 0.5) / total / 0.5
    for t in (0.0, 0.7, 1.0):
        e = t * (1 - m / 2)
        variance = (moment(2, e) / total - (gain * e) ** 2) / (gain * (1 - m / 2)) ** 2
        assert parabola.at_center[0] + parabola.slope[0] * t**2 == pytest.approx(variance, rel=1e-7)


WIDTHS = 2 * np.arange(1, 2000, 2) / 2001
TABLE = {  # exact optima in the middle, sensitivity 1
    "rectangle": [30.92579, 13.23953, 7.17366, 4.42261, 0.917525],
    "sine": [72.4814, 30.2634, 16.0011, 9.6314, 1.78856],
    "triangle": [115.541, 47.8265, 25.0661, 14.9545, 2.65535],
}


@pytest.mark.parametrize("activation", TABLE)
def test_optima_of_table_two_and_what_the_grid_adds(activation):
    for epsilon, wanted in zip(EPSILONS, TABLE[activation], strict=True):
        at = best_width(activation, 1.0, epsilon, 0.0, WIDTHS)
        assert objective(variances(activation, 1.0, epsilon, WIDTHS), 0.0)[at] / 4 == pytest.approx(
            wanted, rel=1e-5
        )
        m = CompositeMechanism(
            lower=0, upper=1, epsilon=epsilon, activation=activation, tuned_for="center"
        )
        assert m.variance(at=0.5) == pytest.approx(wanted, rel=1e-5), "on the grid"
    hump = objective(variances(activation, 1.1, 1.0, WIDTHS), 0.0).min() / 4
    assert hump > TABLE[activation][-1], "a quartic base never helps"


def test_worst_cases():
    line = {"lower": -1, "upper": 1, "epsilon": 1}
    best = CompositeMechanism(**line)
    assert best.variance(at=1) == pytest.approx(5.06568115215, rel=1e-5)
    assert best.parameters["width"] == pytest.approx(0.87383692, abs=1e-3)
    mixture = CompositeMechanism(**line, activation="mixture")
    assert max(mixture.variance(at=0), mixture.variance(at=1)) == pytest.approx(4.2671, abs=2e-4)
    for epsilon, wanted in ((0.5, 16.671), (2, 0.982), (3, 0.362), (4, 0.156)):
        one = CompositeMechanism(lower=-1, upper=1, epsilon=epsilon, activation="mixture")
        assert max(one.variance(at=0), one.variance(at=1)) == pytest.approx(wanted, abs=6e-4)
    assert mixture.grid.standard_error == pytest.approx(math.sqrt(4.2671), rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 1, 3])
def test_the_piecewise_mechanism_is_one_width_and_never_the_best(epsilon):
    half = math.exp(epsilon / 2)
    m = np.array([2 / (half + 1)])
    piecewise = variances("rectangle", 1.0, epsilon, m)
    for t in (0.0, 0.5, 1.0):
        wanted = t**2 / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)  # [wang2019, Lemma 1]
        assert piecewise.at_center[0] + piecewise.slope[0] * t**2 == pytest.approx(wanted)
    if epsilon == 1:
        assert objective(piecewise, None)[0] == pytest.approx(5.22359745204)
    ours = CompositeMechanism(lower=-1, upper=1, epsilon=epsilon)
    assert ours.variance(at=1) < objective(piecewise, None)[0]


def test_hybrid_is_beaten_by_the_mixture():
    m = np.array([2 / (math.exp(0.5) + 1)])
    share = np.array([1 - math.exp(-0.5)])
    hybrid = objective(mixed(variances("rectangle", 1.0, 1.0, m), two_points(1.0, m), share), None)[
        0
    ]
    assert hybrid == pytest.approx(4.28899249328)
    best = CompositeMechanism(lower=-1, upper=1, epsilon=1, activation="mixture")
    assert best.variance(at=1) < hybrid


@pytest.mark.parametrize(
    ("tuned_for", "tau"), [("center", 0), ("uniform", 1 / 3), (0.7, 0.7), ("worst", 1)]
)
def test_no_width_beats_the_one_that_was_found(tuned_for, tau):
    m = CompositeMechanism(lower=-1, upper=1, epsilon=2, tuned_for=tuned_for)
    ours = (1 - tau) * m.variance(at=0) + tau * m.variance(at=1)
    best = optimize.minimize_scalar(
        lambda w: float(objective(variances("rectangle", 1.0, 2.0, np.array([w])), tau)[0]),
        bounds=(0.01, 1.99),
        method="bounded",
    )
    assert ours == pytest.approx(best.fun, rel=2e-5)
    for width in (0.2, 0.5, 1.5):
        other = CompositeMechanism(lower=-1, upper=1, epsilon=2, width=width)
        assert (1 - tau) * other.variance(at=0) + tau * other.variance(at=1) > ours
        assert other.parameters["width"] == pytest.approx(width, abs=2e-3)


def test_rates_of_the_paper():
    made = CompositeMechanism(lower=0, upper=1, epsilon=1, tuned_for="center").parameters
    assert made["H1"] == pytest.approx(1.4721, abs=3e-3)
    assert made["H2"] == pytest.approx(1 / 3)
    assert made["floor"] == pytest.approx(1 / (2 + math.expm1(1) * made["width"]), rel=1e-3)
    assert made["height"] == pytest.approx(math.expm1(1) * made["floor"])
    humped = CompositeMechanism(lower=0, upper=1, epsilon=1, base="quartic").parameters
    assert humped["H2"] > made["H2"]
    assert humped["center"] == pytest.approx(1.1 * humped["floor"])


# --- releases --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [MADE[0], MADE[4]], ids=repr)
@pytest.mark.slow
def test_reports_fit_the_law(m):
    draws = 20_000
    found = m.reports([0.3] * draws, entropy=Seeded(8)).values
    values, probabilities = m.grid.outputs, np.array([float(p) for p in law(m, 0.3)])
    order = np.argsort(values)
    cdf = np.cumsum(probabilities[order])
    edges = np.unique(
        np.searchsorted(cdf, np.arange(1, 20) / 20)
    )  # a far point may fill several parts alone
    expected = np.diff(np.concatenate([[0], cdf[edges], [1]])) * draws
    observed = np.bincount(
        np.searchsorted(values[order][edges], found, side="left"), minlength=edges.size + 1
    )
    assert stats.chisquare(observed, expected).pvalue > LEVEL
    assert set(found.tolist()) <= set(values.tolist())
    other = m.reports([-0.3] * draws, entropy=Seeded(8)).values
    moved = np.bincount(
        np.searchsorted(values[order][edges], other, side="left"), minlength=edges.size + 1
    )
    assert stats.chisquare(moved, expected).pvalue < LEVEL


def test_releases_and_reports():
    m = CompositeMechanism(lower=0, upper=10, epsilon=1)
    low, high = m.output_range
    assert low == pytest.approx(5 - 5 * 4.1401378, rel=1e-6)
    strange = [math.nan, None, "3", -1e300, 1e300, math.inf, 10**400, Fraction(1, 3), True]
    released = m.reports(strange, entropy=Seeded(2))
    assert released.values.shape == (9,)
    assert ((released.values >= low) & (released.values <= high)).all()
    assert released.cost == m.cost == Pure(epsilon=1)
    one = m.release(3, entropy=Seeded(2))
    assert one.simulated
    assert one.standard_error == released.standard_error
    assert m.reports(3, entropy=Seeded(2)).values.tolist() == [one.value]
    with pytest.raises(
        InvalidParameter,
        match=r"^CompositeMechanism\.release needs one number; got a list\. Use reports",
    ):
        m.release([3], entropy=Seeded(2))


# --- twins that are wrong --------------------------------------------------------------------------------------------------------


def test_a_quartic_base_whose_floor_is_taken_for_its_middle_is_convicted():
    right = small("rectangle", Fraction(7, 5))
    middle = int(right.base.max())
    height = (
        middle * (right.peak - right.floor) // right.floor
    )  # as much over the middle as is private over a constant base
    wrong = [[int(b) for b in right.base] for _ in range(2)]
    for weights, start in zip(wrong, (0, 10), strict=True):
        for i in range(start, start + 5):
            weights[i] += height
    subject = audit.Subject(
        laws=[audit.Finite(wrong[0]), audit.Finite(wrong[1])],
        play=lambda which, rows: rows[:, which],
        cost=Pure(epsilon=Fraction("0.92")),  # ln 2.5 = 0.916
    )
    report = audit.exact(subject, answers_a=0, answers_b=1)
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(
        math.log((right.floor + height) / right.floor), abs=1e-9
    )


def test_a_bump_scaled_to_the_sensitivity_in_a_wider_range_is_convicted():
    """The paper's own example: outputs move along with the data set, so that one's outputs are impossible under the other."""
    p = small()
    subject = audit.Subject(
        laws=[audit.Finite(p.weights(0))],
        play=lambda value, rows: value + rows[:, 0],
        cost=Pure(epsilon=1),
        sensitivity=None,
    )
    assert audit.exact(subject, answers_a=0, answers_b=1).epsilon_at_least == math.inf


def test_a_bump_cut_off_at_the_end_of_the_outputs_is_convicted():
    """As published for values outside the valid interval: what is left of the density is drawn from, without being a density."""
    p = small(width=7)
    whole = p.weights(-p.inputs)
    cut = [
        int(b) + (p.peak - p.floor) * (i > 10) for i, b in enumerate(p.base)
    ]  # of seven outputs under the bump four are there
    assert moments(cut, range(-7, 8))[0] != p.gain * (p.inputs + 3), "nor is it unbiased"
    subject = audit.Subject(
        laws=[audit.Finite(whole), audit.Finite(cut)],
        play=lambda which, rows: rows[:, which],
        cost=Pure(epsilon=Fraction("0.92")),
    )
    report = audit.exact(subject, answers_a=0, answers_b=1)
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(
        math.log(p.peak / p.floor) + math.log(sum(whole) / sum(cut)), abs=1e-9
    )


# --- what is refused -------------------------------------------------------------------------------------------------------------

BASE = {"lower": 0, "upper": 10, "epsilon": 1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"upper": 0}, r"^CompositeMechanism\.upper must be above lower, 0; got 0\."),
        ({"upper": math.inf}, r"^CompositeMechanism\.upper must be a finite number; got inf"),
        ({"lower": math.nan}, r"^CompositeMechanism\.lower must be a finite number; got nan"),
        ({"upper": 10**400}, r"^CompositeMechanism needs a range within 2\^900"),
        ({"epsilon": 0}, r"^CompositeMechanism\.epsilon must be a number in \(0, 20\]"),
        ({"epsilon": 21}, r"^CompositeMechanism\.epsilon must be a number in \(0, 20\]"),
        ({"epsilon": 1e-13}, r"^CompositeMechanism\.epsilon must be so large that whole weights"),
        ({"activation": "cosine"}, r"^CompositeMechanism\.activation must be one of"),
        ({"base": "linear"}, r"^CompositeMechanism\.base must be one of"),
        (
            {"base": "quartic", "activation": "mixture"},
            r"^CompositeMechanism\.base must be 'constant' in a mixture",
        ),
        (
            {"tuned_for": "best"},
            r"^CompositeMechanism\.tuned_for must be 'center', 'worst', 'uniform' or a number in \[0, 1\]",
        ),
        ({"tuned_for": 1.5}, r"^CompositeMechanism\.tuned_for must be"),
        ({"width": 2}, r"^CompositeMechanism\.width must be a number in \(0, 2\); got 2"),
        ({"hump": 1.5}, r"^CompositeMechanism\.hump must be None with a constant base; got 1\.5"),
        (
            {"base": "quartic", "hump": 0.5},
            r"^CompositeMechanism\.hump must be a number in \[1, 16\]; got 0\.5",
        ),
        (
            {"sensitivity": COUNTING},
            r"a range no wider than the bound.*got a range of 10 and a bound of 1\. FoldedMechanism has no such",
        ),
        ({"sensitivity": 10}, r"^CompositeMechanism\.sensitivity must be a Sensitivity"),
    ],
)
@pytest.mark.sample(8)
def test_bad_parameters(changes, words):
    with pytest.raises(InvalidParameter, match=words):
        CompositeMechanism(**(BASE | changes))


def test_a_statement_about_the_whole_range_is_accepted():
    whole = Sensitivity(bound=10, monotone=False, adjacency="replace-one")
    m = CompositeMechanism(**BASE, sensitivity=whole)
    assert m.noise == CompositeMechanism(**BASE).noise
    with pytest.raises(
        InvalidParameter, match=r"variance\.at must lie between lower and upper; got 11"
    ):
        m.variance(at=11)
    with pytest.raises(InvalidParameter, match="one value on each side"):
        audit.exact(m, answers_a=[1, 2], answers_b=[1, 3])
