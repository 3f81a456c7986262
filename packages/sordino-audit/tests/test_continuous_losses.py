"""The losses of the continuous algorithms as they are proved: attained where they are attained, below where they are not."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

import sordino_audit as audit
from sordino.cost import Pure
from sordino_audit import Crossings, Law, Race

ONE = Pure(epsilon=1)
EXP, LAP = Law.exponential, Law.laplace


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


@pytest.mark.parametrize(
    ("threshold", "queries", "a", "b", "loss"),
    [
        (EXP(2), EXP(4), (0, 0), (1, -1), 1),  # S4
        (EXP(2), EXP(2), (0, 0), (1, 0), 1),  # S6: answers that move together
        (EXP(2), EXP(2), (0, 0), (1, -1), 1.5),  # S7
        (LAP(2), LAP(4), (0, 0), (1, -1), 0.4242490721840075),  # S12
    ],
)
@pytest.mark.slow
def test_sparse_vectors_lose_what_is_known(threshold, queries, a, b, loss):
    report = audit.exact(sparse(threshold, queries), answers_a=a, answers_b=b)
    between(report, loss)
    assert report.complete
    assert report.broken == (loss > 1)


@pytest.mark.parametrize("monotone", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("gap", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_move_of_two_answers_loses_more_than_the_claim_and_one_loses_it_all(monotone, gap):
    """kappa 2 for moves both ways, 1 for moves together."""
    pairs = [
        ((0, 0), move)
        for move in product((-1, 0, 1), repeat=2)
        if any(move) and (not monotone or min(move) >= 0 or max(move) <= 0)
    ]
    report = audit.exact(sparse(EXP(2), EXP(2 if monotone else 4), gap=gap), neighbours=pairs)
    assert not report.broken
    between(report, 1)


@pytest.mark.slow
def test_each_transcript_is_held_to_its_own_cost():
    """Threshold 1/2, every positive 1/4, two of them: paid for what came out."""
    cost_of = {"cost": ONE, "cost_of": lambda t: Pure(epsilon=Fraction(1, 2) + Fraction(sum(t), 4))}
    mechanism = sparse(EXP(2), EXP(8), positives=2, **cost_of)
    report = audit.exact(mechanism, answers_a=(0, 0, 0), answers_b=(1, -1, -1))
    assert not report.broken
    between(report, 1)
    assert report.beyond_at_least == pytest.approx(0, abs=1e-9)
    free = sparse(
        EXP(2), EXP(8), positives=2, cost=ONE, cost_of=lambda t: Pure(epsilon=Fraction(sum(t), 4))
    )
    assert audit.exact(free, answers_a=(0, 0, 0), answers_b=(1, -1, -1)).broken, (
        "the threshold is not free"
    )


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("kappa", [1, 2])
@pytest.mark.slow
def test_top_k_with_all_gaps_loses_the_claim(k, kappa):
    """Exponential noise of scale kappa k: winners fall (both ways: losers rise, too)."""
    a, b = [0] * (k + 2), [-1] * k + [kappa - 1] * 2
    output = (tuple(range(k)), (Fraction(1, 2),) * k) if k > 1 else (0, Fraction(1, 2))
    report = audit.exact(
        race(EXP(kappa * k), k=k, gap=True, outputs=[output]), answers_a=a, answers_b=b
    )
    assert not report.broken
    between(report, 1)


@pytest.mark.parametrize("t", [0, 1, 2])
@pytest.mark.slow
def test_a_sorted_sparse_vector_loses_what_it_found(t):
    """All answers meet one threshold, those above are released with their gaps: epsilon_0 + t epsilon_1."""
    mechanism = sparse(
        EXP(2),
        EXP(4),
        positives=None,
        gap=True,
        outputs=[(*((1, 3 - i) for i in range(t)), *(0,) * (3 - t))],
        cost=Pure(epsilon=2),
    )
    report = audit.exact(mechanism, answers_a=[0] * 3, answers_b=[-1] * t + [1] * (3 - t))
    between(report, Fraction(1, 2) + Fraction(t, 2))


@pytest.mark.parametrize(("k", "t"), [(2, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.slow
def test_a_top_k_that_ends_at_the_threshold_loses_what_it_found(k, t, monotone):
    """An item of the threshold's score, which does not move, comes out last: t/k, and (2t - 1)/(2k) for moves both ways."""
    found, place = tuple(range(1, t)), 0
    output = ((*found, place), (Fraction(1, 2),) * t) if t > 1 else (place, Fraction(1, 2))
    a = [0] * (t + 2)
    b = [0] * t + [1, 1] if monotone else [0] + [-1] * (t - 1) + [1, 1]
    law = EXP(k if monotone else 2 * k)
    report = audit.exact(race(law, k=t, gap=True, outputs=[output]), answers_a=a, answers_b=b)
    between(report, Fraction(t, k) if monotone else Fraction(2 * t - 1, 2 * k))
