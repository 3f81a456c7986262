"""Races and sparse vectors with continuous noise: the losses that are known, oracles of densities, classes, scales, refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import sordino_audit as audit
from sordino import ClaimBroken, InvalidParameter, Sensitivity
from sordino.cost import BoundedRange, Pure
from sordino_audit import Crossings, Law, Race
from sordino_audit.controls.continuous import CONTINUOUS
from support import quadrature

ONE = Pure(epsilon=1)
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
EXP, LAP, GUM, LOG = Law.exponential, Law.laplace, Law.gumbel, Law.logistic


def race(law, **options):
    return Race(noise=law, **({"cost": ONE} | options))


def sparse(threshold, queries, **options):
    return Crossings(
        threshold=threshold, queries=queries, **({"cost": ONE, "positives": 1} | options)
    )


def between(report, loss, width=1e-9):
    """The truth lies between the bounds, and they are this close."""
    assert report.epsilon_at_least <= loss + 1e-15
    assert loss - 1e-15 <= report.epsilon_at_most
    assert report.epsilon_at_most - report.epsilon_at_least < width


def encloses(bounds, value, slop=1e-12):
    low, high = (math.exp(bound) for bound in bounds)
    assert low * (1 - 1e-15) - slop * value <= value <= high * (1 + 1e-15) + slop * value
    assert high - low < 1e-10 * value


controls = pytest.mark.parametrize(
    "control", CONTINUOUS, ids=[control.name for control in CONTINUOUS]
)


@controls
@pytest.mark.slow
def test_the_verdict_and_the_loss_of_a_control_are_the_known_ones(control):
    report = control.audited()
    assert report.broken == control.broken
    if control.loss == math.inf:
        assert report.epsilon_at_most == math.inf
        assert report.epsilon_at_least > 30
    else:
        between(report, control.loss, 1e-8)
    if control.broken:
        with pytest.raises(ClaimBroken):
            report.raise_if_broken()
    else:
        report.raise_if_broken()
        assert report.delta_at_claim < 1e-11


@pytest.mark.slow
def test_sparse_vector_densities():
    """S17; A1 with two branches, whose scales are 2/b."""
    plain = sparse(EXP(2), EXP(4), gap=True)
    encloses(plain.log_probability([0, 3], (0, (1, 1.5))), 0.038146200370375395)
    branches = sparse(EXP(2), [EXP(20), EXP(10)], boundaries=[2, 0], gap=True, positives=None)
    encloses(branches.log_probability([4, 0, 1], ((1, 3), 0, (2, 0.5))), 2.3185585221108392e-05)


@pytest.mark.parametrize(
    ("make", "known"),
    [(LAP, quadrature.laplace), (GUM, quadrature.gumbel), (LOG, quadrature.logistic)],
)
@pytest.mark.slow
def test_a_transcript_with_gap_against_high_precision(make, known):
    mechanism = sparse(make(2), make(3), gap=True, at=Fraction(1, 2))
    low, high = mechanism.log_probability([1, Fraction(7, 5)], (0, (1, Fraction(9, 10))))
    factors = [
        ("density", known(2), 0),
        ("cdf", known(3), Fraction(-1, 2)),
        ("density", known(3), Fraction(0)),
    ]
    assert math.exp(low) - 1e-15 <= quadrature.integral(factors) <= math.exp(high) + 1e-15


@pytest.mark.slow
def test_race_oracles():
    """T1 = T2, T6, T8; a threshold item does not move."""
    encloses(race(EXP(2)).log_probability([1, 0, 0], 0), 0.5160958206778473)
    encloses(race(LAP(2), gap=True).log_probability([1, 0], (0, 0.7)), 0.12372677161110207)
    item = race(EXP(4), gap=True, outputs=[(0, 0.4)], cost=Pure(epsilon=Fraction(1, 4)))
    report = audit.exact(item, answers_a=[0, 1, 1], answers_b=[0, 2, 2])
    between(report, 0.25)
    assert not report.broken
    assert report.unresolved == 1, "one output of a density says nothing of the others"
    assert not report.complete


@pytest.mark.slow
def test_the_exponential_mechanism_is_a_race_with_gumbel_noise():
    """E1: a softmax; its loss has a bounded range."""
    mechanism = race(GUM(1), cost=BoundedRange(epsilon=2))
    encloses(
        mechanism.log_probability([1, Fraction(3, 10), Fraction(-1, 2), 2], 3), 0.6125019123185909
    )
    report = audit.exact(mechanism, answers_a=[0, 0, 0], answers_b=[-1, 1, 1])
    weights = np.exp([-1.0, 1, 1])
    between(report, -math.log(weights[0] / weights.sum() * 3))
    assert not report.broken
    assert audit.exact(
        race(GUM(1), cost=BoundedRange(epsilon=1)), answers_a=[0, 0, 0], answers_b=[-1, 1, 1]
    ).broken


@pytest.mark.slow
def test_the_gap_of_two_gumbel_noises_is_logistic():
    """E2: P(gap >= g) = 1/(1 + e^(g - theta)), here for classes."""
    mechanism = race(GUM(1), gap=True)
    cuts = [0.5, 2]
    report = audit.exact(mechanism, answers_a=[1, 0], answers_b=[0, 0], partition=cuts)
    found = {}
    for answers in ([1, 0], [0, 0]):
        for winner in (0, 1):
            theta = answers[winner] - answers[1 - winner]
            levels = [1 / (1 + math.exp(g - theta)) for g in (0, *cuts)] + [0.0]
            found[tuple(answers), winner] = -np.diff(levels)
    ratios = [np.log(found[(1, 0), i] / found[(0, 0), i]) for i in (0, 1)]
    between(report, max(np.abs(ratio).max() for ratio in ratios), 1e-6)
    assert report.partitioned
    assert report.outputs == 6
    assert report.unresolved == 0


@pytest.mark.slow
def test_gap_densities_against_a_grid():
    """Laplace noise on two answers: the density of the gap in closed form, its worst ratio from a fine grid."""
    mechanism = race(LAP(2), gap=True)
    report = audit.exact(mechanism, answers_a=[1, 0], answers_b=[0, 1], slack=1e-3)

    def density(theta, g):
        x = np.abs(g - theta) / 2
        return np.exp(-x) * (1 + x) / 8

    winner, end = report.witness.output
    assert winner == 0
    assert math.log(density(1, end) / density(-1, end)) == pytest.approx(
        report.epsilon_at_least, abs=1e-3
    )
    g = np.linspace(0, end, 20_001)
    assert (
        np.log(density(1, g) / density(-1, g)).max()
        <= report.epsilon_at_most
        < report.epsilon_at_least + 1e-3
    )
    assert 60 < end < 120
    assert report.unresolved < 1e-15
    assert not report.broken


@pytest.mark.slow
@pytest.mark.parametrize("one_sided", [True, False])
def test_heavy_tailed_races_with_a_scale_of_the_data(one_sided):
    """Selection with a scale that differs between neighbours, in terms of mpmath."""
    law, known = Law.cauchy(4, one_sided=one_sided), quadrature.cauchy(4, one_sided=one_sided)
    a, b = ([2, 1], 1), ([1, 1], Fraction(3, 2))
    report = audit.exact(race(law, cost=Pure(epsilon=3)), answers_a=a, answers_b=b)
    truth = {}
    for scores, scale in (a, b):
        for i in (0, 1):
            shifted = [
                ("density", known, mp.mpf(0)),
                ("cdf", known, mp.mpf(scores[i] - scores[1 - i]) / mp.mpf(float(scale))),
            ]
            truth[scale, i] = quadrature.integral(shifted, digits=20, far=2000)
    loss = max(abs(mp.log(truth[1, i] / truth[Fraction(3, 2), i])) for i in (0, 1))
    assert report.epsilon_at_least - 1e-9 <= loss <= report.epsilon_at_most + 1e-9
    assert report.epsilon_at_most - report.epsilon_at_least < 1e-6
    assert report.complete


@pytest.mark.slow
def test_candidate_zero_wins_with_the_published_probability():
    """O10: one-sided noise of order four, scaled scores (0, -1, -2)."""
    encloses(
        race(Law.cauchy(4, one_sided=True)).log_probability([0, -1, -2], 0), 0.897646719015, 1e-11
    )


@pytest.mark.slow
def test_a_law_that_is_known_by_its_distribution_function_only():
    """Uniform noise: 1/2 each, then 1/8 and 7/8; to a few digits, by sums that only use that the function rises."""

    def log_cdf(x):
        inside = np.clip(x, 0.0, 1.0)
        with np.errstate(divide="ignore"):
            logs = np.log(inside)
        return logs - 1e-15, np.minimum(logs + 1e-15, 0.0)

    uniform = Law(log_cdf=log_cdf, breaks=[0, 1], name="uniform")
    report = audit.exact(
        race(uniform, cost=Pure(epsilon=2)),
        answers_a=[0, 0],
        answers_b=[0, Fraction(1, 2)],
        slack=1e-3,
    )
    between(report, math.log(4), 1e-3)
    assert "what uniform(scale=1) says of itself" in report.assumed
    assert (
        audit.exact(
            race(uniform), answers_a=[0, 0], answers_b=[0, 1], slack=0.1, vectors=20_000
        ).epsilon_at_most
        == math.inf
    )


@pytest.mark.parametrize("winner", [0, 1, 2])
@pytest.mark.slow
def test_any_of_the_others_may_be_second(winner):
    """The density of a gap among three answers: one integral for each runner-up."""
    scores, gap = [Fraction(1, 2), 0, Fraction(-2)], Fraction(3, 10)
    low, high = race(LAP(1), gap=True).log_probability(scores, (winner, gap))
    known, truth = quadrature.laplace(1), mp.mpf(0)
    for second in {0, 1, 2} - {winner}:
        [third] = {0, 1, 2} - {winner, second}
        truth += quadrature.integral(
            [
                ("density", known, -scores[second]),
                ("density", known, gap - scores[winner]),
                ("cdf", known, -scores[third]),
            ]
        )
    assert math.exp(low) - 1e-14 <= truth <= math.exp(high) + 1e-14
    assert high - low < 1e-10


@pytest.mark.slow
def test_three_gaps_against_high_precision():
    """Ordered winners with their gaps: the first is above the runner-up by the sum of them."""
    mechanism = race(GUM(1), k=2, gap=True, outputs=[])
    low, high = mechanism.log_probability(
        [0, 1, Fraction(1, 2)], ((2, 0), (Fraction(1, 4), Fraction(2)))
    )
    known = quadrature.gumbel(1)
    factors = [
        ("density", known, Fraction(-1)),
        ("density", known, Fraction(7, 4)),
        ("density", known, Fraction(2)),
    ]
    assert math.exp(low) - 1e-15 <= quadrature.integral(factors) <= math.exp(high) + 1e-15


def test_laws_of_their_own_for_every_answer():
    mixed = race([EXP(1), EXP(2)])
    low, high = mixed.log_probability([0, 0], 0)
    assert math.exp(low) <= 1 / 3 <= math.exp(high), "P(E1 > 2 E2) = 1/3"


@pytest.mark.slow
def test_an_infinite_loss_is_found_in_a_gap():
    """Noise that is cut off at its scale: a large gap is possible on one side only."""

    def log_cdf(x):
        with np.errstate(divide="ignore"):
            logs = np.log(np.clip(x, 0.0, 1.0))
        return logs - 1e-15, np.minimum(logs + 1e-15, 0.0)

    def log_density(low, high):
        return np.where((low < 0) | (high > 1), -np.inf, 0.0), np.where(
            (high < 0) | (low > 1), -np.inf, 0.0
        )

    uniform = Law(
        log_cdf=log_cdf, log_density=log_density, breaks=[0, 1], log_concave=True, name="uniform"
    )
    report = audit.exact(
        race(uniform, gap=True), answers_a=[1, 0], answers_b=[0, 0], slack=0.05, vectors=100_000
    )
    assert report.broken
    assert report.epsilon_at_most == math.inf


@pytest.mark.slow
def test_declared_neighbours_and_searches():
    mechanism = race(EXP(2), sensitivity=EITHER)
    report = audit.exact(mechanism, search=True, n=2, limit=6)
    between(report, report.epsilon_at_least, 1e-9)
    assert report.epsilon_at_least > 0.5
    assert report.checked
    with pytest.raises(InvalidParameter, match="bound|distance|neighbour"):
        audit.exact(mechanism, answers_a=[0, 0], answers_b=[0, 2])


@pytest.mark.slow
def test_a_mechanism_of_yours_shows_itself_by_a_method():
    class Mine:
        def audited(self, n):
            return race(EXP(Fraction(1, 2)), name=f"mine of {n}")

    report = audit.exact(Mine(), answers_a=[0, 0, 0], answers_b=[0, 1, 1])
    assert report.name == "mine of 3"
    assert report.broken
