"""The privacy loss of adaptive sparse vectors, enumerated exactly: no transcript loses more than it says, and the bound is attained."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import integrate

import sordino_audit as audit
from sordino import AdaptiveSparseVector, Sensitivity
from sordino_audit import Subject
from sordino_audit.enumeration.subjects import subject_of
from support.adaptive import Rules, by_formula, by_play, transcripts, worst

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
ONE_SIDED, TWO_SIDED = ("exponential", HALF), ("laplace", HALF)
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
LN2 = math.log(2)

FAST = Fraction(1, 6)
LAWS = [
    ((0, 0), Rules(("exponential", THIRD), ("exponential", Fraction(1, 4))), 5),
    ((1, -1), Rules(("exponential", THIRD), ("laplace", FAST)), 3),
    ((0, 1), Rules(("laplace", THIRD), ("exponential", Fraction(1, 4)), boundaries=(2, -1)), 4),
    ((1, 0, 1), Rules(("exponential", FAST), ("exponential", FAST)), 3),
    pytest.param(
        (1, 2, 0),
        Rules(("exponential", FAST), ("exponential", Fraction(2, 5)), prices=(2, 3), tokens=6),
        3,
        marks=pytest.mark.slow,
    ),
    (
        (1,),
        Rules(ONE_SIDED, ("exponential", THIRD), prices=(1, 2, 4), boundaries=(2, 1, 0), tokens=4),
        7,
    ),
    (
        (0, 1),
        Rules(
            ("exponential", FAST),
            ("exponential", FAST),
            prices=(1, 2, 4),
            boundaries=(1, 0, 0),
            tokens=5,
        ),
        3,
    ),
    ((0, 1), Rules(ONE_SIDED, ONE_SIDED, prices=(1,), boundaries=(0,), tokens=1), 9),
]


@pytest.mark.parametrize(("q", "rules", "width"), LAWS)
@pytest.mark.slow
def test_a_release_has_the_law_of_the_formula(q, rules, width):
    law = by_play(q, rules, width)
    rest = 1 - sum(law.values())
    reached = Fraction(0)
    for transcript in transcripts(len(q), rules, 3):
        mass = by_formula(q, rules, transcript)
        low = law.pop(transcript, Fraction(0))
        assert low <= mass + Fraction(1, 10**12), transcript
        assert mass <= low + rest, transcript
        reached += low
    assert reached > HALF
    assert all(max(event[1] for event in transcript if event) > 3 for transcript in law), (
        "only higher lifts are left"
    )


@pytest.mark.slow
def test_a_branch_that_cannot_be_paid_for_never_fires():
    rules = Rules(("exponential", FAST), ("exponential", Fraction(2, 5)), prices=(2, 3), tokens=6)
    law = by_play((1, 0, 0), rules, 3)
    ended = (
        (1, 0),
        (0, 0),
    )  # one token is left: neither branch can be paid for, and nothing more is asked
    assert ended in law
    assert not [transcript for transcript in law if transcript[:2] == ended and len(transcript) > 2]
    cheap = ((1, 0), None, (0, 0))  # three are left: the first may still fire, and the second, too
    assert {
        transcript[2][0] for transcript in law if transcript[:2] == cheap[:2] and transcript[2]
    } == {0, 1}
    fewer = by_play((1, 0, 0), Rules(rules.threshold, rules.token, prices=(2, 3), tokens=5), 3)
    assert {
        transcript[2][0] for transcript in fewer if transcript[:2] == cheap[:2] and transcript[2]
    } == {0}


def moves(n, *, monotone):
    one = [m for m in product((0, 1) if monotone else (-1, 0, 1), repeat=n) if any(m)]
    return [((0,) * n, m) for m in one]


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(
    "rules",
    [
        Rules(ONE_SIDED, ONE_SIDED),
        Rules(
            ONE_SIDED, ("exponential", Fraction(1, 4)), prices=(2, 3), boundaries=(3, 0), tokens=3
        ),
        pytest.param(
            Rules(
                ONE_SIDED, ("exponential", THIRD), prices=(1, 2, 4), boundaries=(0, 0, -1), tokens=4
            ),
            marks=pytest.mark.slow,
        ),
        Rules(TWO_SIDED, ONE_SIDED),
        Rules(ONE_SIDED, TWO_SIDED),
    ],
    ids=str,
)
@pytest.mark.sample(4)
def test_no_transcript_loses_more_than_it_says(rules, monotone):
    loss, witness = worst(
        moves(2, monotone=monotone), rules, 1 if monotone else 2, highest=1, reach=40
    )
    assert loss <= 1e-9, witness


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("fired", [(), (0,), (1,), (0, 0)])
def test_each_transcript_reaches_what_it_says(monotone, fired):
    """Branches before the one that fires must be far: their failing gets likelier where the answer falls, which loses less."""
    boundaries = (40, 0)
    rules = Rules(ONE_SIDED, ONE_SIDED, boundaries=boundaries)
    pair = ((0, 0, 0), (1, 1, 1) if not fired else (1, 0, 0) if monotone else (1, -1, -1))

    def only(transcript):
        return tuple(event[0] for event in transcript if event) == fired and transcript[0] is None

    loss, _ = worst([pair], rules, 1 if monotone else 2, highest=0, reach=60, only=only)
    assert loss == pytest.approx(0, abs=1e-9)


def test_the_dearest_positive_loses_less_where_the_branch_before_it_is_near():
    rules, pair = Rules(ONE_SIDED, ONE_SIDED), ((0, 0), (1, -1))
    loss, _ = worst(
        [pair], rules, 2, highest=0, only=lambda transcript: transcript == (None, (1, 0))
    )
    assert loss < -0.1


def convicted(rules, spread, loss, **options):
    """Assert that some transcript loses so much more than it says."""
    found, _ = worst(moves(2, monotone=False), rules, spread, highest=1, **options)
    assert found == pytest.approx(loss, abs=1e-9)


@pytest.mark.slow
def test_the_spread_of_monotone_lists_where_answers_move_both_ways_is_convicted():
    convicted(
        Rules(ONE_SIDED, ONE_SIDED, boundaries=(40, 0)), 1, 2 * LN2
    )  # the dearest branch: two tokens, each twice


@pytest.mark.slow
def test_the_price_of_the_cheap_branch_for_the_dear_one_is_convicted():
    convicted(Rules(ONE_SIDED, ONE_SIDED, boundaries=(40, 0)), 2, 2 * LN2, price=lambda branch: 1)


def subject(mechanism, play, **options):
    honest = subject_of(mechanism, 2)
    return Subject(
        laws=options.pop("laws", honest.laws),
        play=play or honest.play,
        steps=None if play else honest.steps,
        cost=mechanism.cost,
        sensitivity=EITHER,
        **options,
    )


@pytest.mark.slow
def test_a_refund_of_a_branch_is_convicted_through_the_mechanism():
    m = AdaptiveSparseVector(threshold=0, at_least=1, epsilon=20, sensitivity=EITHER)
    cheap = subject(m, None, cost_of=lambda out: m.spent(out[2] * m.branch_tokens[0], out[1]))
    assert audit.exact(cheap, answers_a=(0, 0), answers_b=(1, -1)).broken
    assert not audit.exact(m, answers_a=(0, 0), answers_b=(1, -1)).broken


@pytest.mark.slow  # packages/sordino-audit/tests/test_reports.py holds all claims to account
def test_the_claims_hold_and_are_reached():
    tight, other = audit.run_claims("AdaptiveSparseVector")
    tight.raise_if_broken()
    assert tight.tight
    assert not other.broken
    worst_case = tight.reports[0]
    assert worst_case.epsilon_at_least == pytest.approx(float(worst_case.claimed.pure()), abs=1e-6)


# --- the continuous limit: oracle A1 ------------------------------------------------------------------------------------------------

A1 = 2.31855852211e-05
"""Threshold noise of rate 1/2; branches of budget .1 from 2 on, .2 from 0 on; answers (4, 0, 1): first with gap 3, none, second with .5."""


def density(t):
    """The integrand: exponential noise of scale 2 for the threshold, 2/b for the tests (answers move by 1 either way)."""
    slow, fast = 0.1 / 2, 0.2 / 2

    def below(rate, x):
        return -math.expm1(-rate * x) if x > 0 else 0.0

    def at(rate, x):
        return rate * math.exp(-rate * x) if x >= 0 else 0.0

    return (
        0.5
        * math.exp(-t / 2)
        * at(slow, 3 + t - 4)
        * below(slow, 2 + t)
        * below(fast, t)
        * below(slow, 2 + t - 1)
        * at(fast, t - 0.5)
    )


def test_the_oracle_by_quadrature():
    value = sum(
        integrate.quad(density, a, b, epsabs=0, epsrel=1e-12)[0]
        for a, b in ((0.5, 1), (1, 20), (20, 200))
    )
    assert value == pytest.approx(A1, rel=1e-10)


@pytest.mark.parametrize("fine", [64, 256])
def test_the_oracle_is_the_limit_of_the_mechanism(fine):
    """The same transcript of the mechanism on a fine grid: its own laws, thresholds and prices, summed exactly over the threshold."""
    m = AdaptiveSparseVector(
        threshold=0,
        at_least=1,
        epsilon=Fraction(7, 10),
        sensitivity=Sensitivity(
            bound=1, monotone=False, adjacency="replace-one", step=Fraction(1, fine)
        ),
        split=Fraction(5, 7),
        boundaries=(2, 0),
        branches=2,
    )
    assert float(m.threshold_epsilon) == pytest.approx(0.5, abs=1e-9)
    assert [float(b) for b in m.branch_epsilons] == pytest.approx([0.1, 0.2], abs=1e-9)
    slow, fast = m.branch_noise
    far, near = (round(float(correction) * fine) for correction in m.branch_corrections)
    rho = np.arange(100 * fine)
    mass = m.threshold_noise.pmf(rho) * slow.pmf(rho + (3 - 4) * fine)
    mass = mass * slow.cdf(rho + far - 1) * fast.cdf(rho + near - 1)
    mass = mass * slow.cdf(rho + far - fine - 1) * fast.pmf(rho + fine // 2 - fine)
    assert float(mass.sum()) * fine**2 == pytest.approx(A1, rel=3 / fine)
