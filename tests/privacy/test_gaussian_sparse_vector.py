"""The Gaussian sparse vector: its law, its Rényi curve on all small neighbors, no pure epsilon, and a counting term that is needed."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, GaussianSparseVector, Sensitivity
from sordino.cost import RDP, ZCDP, Pure
from sordino.mechanisms.gaussian_sparse_vector import choices
from sordino_audit import Subject
from sordino_audit.enumeration.subjects import subject_of
from support.quiet import TAILS, gaussian_law, renyi

EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
ALPHAS = (1.1, 1.5, 2.0, 4.0, 8.0, 32.0)


def made(noise, statement, c, n, rho=Fraction(3, 4)):
    known = {"threshold": 0, "positives": c, "rho": rho, "sensitivity": statement, "noise": noise}
    return (
        GaussianSparseVector(**known, questions=n)
        if noise == "gaussian"
        else GaussianSparseVector(**known, epsilon=Fraction(3, 2))
    )


def law(m, q):
    return gaussian_law(
        q, m.positives, float(m.threshold_noise.rate), TAILS[m.noise.name](float(m.noise.rate))
    )


@pytest.mark.parametrize("noise", TAILS)
@pytest.mark.parametrize("c", [1, 2])
@pytest.mark.slow
def test_what_is_played_has_the_law_of_the_sum(noise, c):
    m = GaussianSparseVector(
        threshold=0,
        positives=c,
        rho=5,
        sensitivity=COUNTING,
        noise=noise,
        **({"questions": 2} if noise == "gaussian" else {"epsilon": 2}),
    )
    q = (-1, 1)
    subject = subject_of(m, 2)
    width = 14 if noise == "gaussian" else 34
    one = np.arange(-8, 9), *([np.arange(-width if noise != "exponential" else 0, width + 1)] * 2)
    noises = np.stack(np.meshgrid(*one, indexing="ij"), axis=-1).reshape(-1, 3)
    if noises.shape[0] > 6000:  # the likeliest: what is left out is counted below
        mass = (
            m.threshold_noise.pmf(noises[:, 0])
            * m.noise.pmf(noises[:, 1])
            * m.noise.pmf(noises[:, 2])
        )
        noises = noises[np.argsort(-mass)[:6000]]
    mass = (
        m.threshold_noise.pmf(noises[:, 0]) * m.noise.pmf(noises[:, 1]) * m.noise.pmf(noises[:, 2])
    )
    found = {}
    for output, p in zip(subject.played(subject.private(q), noises), mass.tolist(), strict=True):
        found[output] = found.get(output, 0.0) + p
    rest = 1 - mass.sum()
    assert rest < 0.02
    expected = law(m, q)
    assert set(found) == set(expected)
    for key, p in expected.items():
        assert found[key] <= p + 1e-12
        assert p <= found[key] + rest + 1e-12


def moves(n, *, monotone):
    return [move for move in product((0, 1) if monotone else (-1, 0, 1), repeat=n) if any(move)]


@pytest.mark.parametrize("noise", TAILS)
@pytest.mark.parametrize("statement", [COUNTING, EITHER], ids=["monotone", "general"])
@pytest.mark.parametrize(("c", "n"), [(1, 1), (1, 3), (2, 3), (3, 3)])
@pytest.mark.each_value
def test_the_divergence_stays_below_the_curve_on_all_small_neighbors(noise, statement, c, n):
    m = made(noise, statement, c, n)
    for base in ((0, -1, -2)[:n], (-2, -2, -2)[:n], (1, -3, 0)[:n]):
        p = law(m, base)
        for move in moves(n, monotone=statement.monotone):
            other = law(m, tuple(x + d for x, d in zip(base, move, strict=True)))
            for alpha in ALPHAS:
                claimed = m.cost.rdp(alpha) + 1e-9
                assert renyi(p, other, alpha) <= claimed
                assert renyi(other, p, alpha) <= claimed


def test_oracle_of_the_curve():
    """N2: standard deviations 3 and 6, order 8, six questions, all transcripts counted; the ends of the last question once is less."""
    plain = RDP(rho=Fraction(1, 18) + Fraction(4, 72), choices=7)
    assert plain.rdp(8) == pytest.approx(1.16687605304, abs=1e-10)
    m = GaussianSparseVector(
        threshold=0,
        positives=1,
        rho=Fraction(1, 9),
        split=Fraction(1, 2),
        sensitivity=EITHER,
        questions=6,
    )
    assert (m.threshold_noise.rate, m.noise.rate) == (Fraction(1, 18), Fraction(1, 72))
    assert m.cost == RDP(rho=Fraction(1, 9), choices=6)
    assert m.cost.rdp(8) == pytest.approx(8 / 9 + math.log(6) / 7, abs=1e-9)


def test_choices_are_the_transcripts_with_the_last_question_counted_once():
    for n, c in product(range(1, 8), range(1, 9)):
        transcripts = {word for bits in product((0, 1), repeat=n) if (word := stopped(bits, c))}
        last = {word for word in transcripts if len(word) == n}
        assert choices(n, c) == len(transcripts) - len(last) + len({word[:-1] for word in last})


def stopped(bits, c):
    """The verdicts until c of them are above."""
    for i in range(len(bits)):
        if sum(bits[: i + 1]) == c:
            return bits[: i + 1]
    return bits


def test_one_question_far_below_has_no_pure_epsilon():
    """Standard deviations 3 and 6, an answer 2,000 below the threshold: a loss of 44.46, whatever is claimed."""
    with mpmath.workdps(40):
        weights = {x: mpmath.exp(-mpmath.mpf(x * x) / 18) for x in range(-460, -339)}
        tails, total = {}, mpmath.mpf(0)
        for z in range(1900, 1500, -1):
            total += mpmath.exp(-mpmath.mpf(z * z) / 72)
            tails[z] = total

        def above(distance):
            return mpmath.fsum(weight * tails[distance + x] for x, weight in weights.items())

        loss = float(mpmath.log(above(1999) / above(2000)))
    assert loss == pytest.approx(44.46, abs=0.05)


@pytest.mark.slow
def test_the_auditor_convicts_a_pure_claim():
    m = GaussianSparseVector(threshold=6, positives=1, rho=1, sensitivity=COUNTING, questions=1)
    honest = subject_of(m, 1)
    sold = Subject(
        laws=honest.laws,
        play=honest.play,
        steps=honest.steps,
        cost=Pure(epsilon=2),
        sensitivity=COUNTING,
    )
    report = audit.exact(sold, answers_a=(1,), answers_b=(0,), tail=1e-30)
    assert report.broken
    assert report.epsilon_at_least > 2.5
    assert not audit.exact(m, answers_a=(1,), answers_b=(0,), tail=1e-30).broken


RISING, FALLING, HEIGHT = 100, 1000, -3


def long_law(m, rises, falls):
    """P(below ..., then the j-th of the later answers is above) for j = 1, 2, ...; answers rise by `rises`, later ones fall by `falls`."""
    x = np.arange(-40, 41)
    f0 = m.threshold_noise.pmf(x)
    early, late = (
        TAILS["gaussian"](float(m.noise.rate))(x - HEIGHT + side) for side in (-rises, falls)
    )
    stay = np.log1p(-np.minimum(late, 1 - 1e-16))[:, None] * np.arange(FALLING)
    return (
        (f0 * np.exp(RISING * np.log1p(-np.minimum(early, 1 - 1e-16))) * late)[:, None]
        * np.exp(stay)
    ).sum(axis=0)


@pytest.mark.slow
def test_without_the_counting_term_the_auditor_convicts():
    m = GaussianSparseVector(
        threshold=0,
        positives=1,
        rho=3,
        split=Fraction(1, 3),
        sensitivity=EITHER,
        questions=RISING + FALLING,
    )
    assert (m.threshold_noise.rate, m.noise.rate) == (1, Fraction(1, 2))
    p, q = long_law(m, 0, 0), long_law(m, 1, 1)
    alpha = 1.5
    lower = math.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)
    assert lower > 5.6
    assert ZCDP(rho=3).rdp(alpha) == 4.5
    assert lower < m.cost.rdp(alpha)

    def stated(side):
        law = long_law(m, *side)
        listed = [
            (j, (Decimal(x) * (1 - Decimal("1e-9")), Decimal(x) * (1 + Decimal("1e-9"))))
            for j, x in enumerate(law.tolist())
        ]
        rest = Decimal(1) - sum(high for _, (_, high) in listed)
        return [*listed, (-1, (rest, rest + Decimal("1e-8")))]

    verdicts = {}
    for cost in (ZCDP(rho=3), m.cost):
        sold = Subject(laws=[], stated=stated, cost=cost, name=repr(cost))
        verdicts[repr(cost)] = audit.exact(
            sold, answers_a=(0, 0), answers_b=(1, 1), orders=[alpha]
        ).broken
    assert list(verdicts.values()) == [True, False]


@pytest.mark.slow
def test_a_threshold_that_is_not_paid_for_is_convicted():
    m = GaussianSparseVector(
        threshold=1,
        positives=1,
        rho=8,
        epsilon=Fraction(1, 10),
        noise="exponential",
        sensitivity=COUNTING,
    )
    honest = subject_of(m, 2)
    sold = Subject(
        laws=honest.laws,
        play=honest.play,
        steps=honest.steps,
        cost=Pure(epsilon=m.cost.constant),
        sensitivity=COUNTING,
    )
    assert audit.exact(
        sold, answers_a=(0, 0), answers_b=(1, 0), vectors=20_000_000, tail=1e-3
    ).broken


@pytest.mark.slow  # packages/sordino-audit/tests/test_reports.py holds all claims to account
def test_the_claims_hold():
    for report in audit.run_claims("GaussianSparseVector"):
        assert not report.broken
        assert all(each.divergences for each in report.reports)


def test_nothing_is_refunded():
    m = GaussianSparseVector(threshold=10**6, positives=3, rho=1, sensitivity=COUNTING, questions=9)
    assert m.per_transcript is False
    release = m.release([1, 2, 3])
    assert release.indices.size == 0
    assert release.cost == m.cost
