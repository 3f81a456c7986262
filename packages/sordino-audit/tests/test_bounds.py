"""Bounds of the loss: below, at and above the truth, whatever is left out, in both orders, for every kind of claim."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

import sordino_audit as audit
from sordino import (
    COUNTING,
    AdaptiveSparseVector,
    ClaimBroken,
    GaussianMechanism,
    InvalidParameter,
    LaplaceMechanism,
    NoisyTopK,
    Sensitivity,
)
from sordino.claims import EITHER_WAY
from sordino.cost import ZCDP, Pure
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from sordino_audit import Finite, Subject
from sordino_audit.controls.enumerated import play_queries
from sordino_audit.enumeration.subjects import subject_of
from support.enumeration import neighbours

HALF = Fraction(1, 2)


def sparse(rates, claim, **options):
    laws = [Geometric(Fraction(rate)) for rate in rates]
    return Subject(
        laws=laws, play=lambda q, z: play_queries(q, z, **options), cost=Pure(epsilon=claim)
    )


@pytest.mark.parametrize("tail", [1e-2, 1e-4, 1e-15])
@pytest.mark.parametrize(
    ("subject", "a", "b", "loss"),
    [
        (sparse([1, HALF, HALF], 2), (0, 0), (1, -1), 2),  # G4
        (sparse([HALF, HALF, HALF], 1), (0, 0), (1, -1), 1.5),  # S7
        (sparse([2, 1], 3), (0,), (-1,), 2),
        (
            Subject(laws=[DiscreteLaplace(HALF)] * 2, decide=np.asarray, cost=Pure(epsilon=1)),
            (0, 0),
            (1, 1),
            1,
        ),
        (
            Subject(laws=[Geometric(Fraction(1))], decide=np.asarray, cost=Pure(epsilon=1)),
            (1,),
            (0,),
            math.inf,
        ),
    ],
    ids=["G4", "S7", "one query", "Laplace", "bare geometric"],
)
@pytest.mark.sample(4)
def test_the_truth_lies_between_the_bounds_whatever_is_left_out(subject, a, b, loss, tail):
    report = audit.exact(subject, answers_a=a, answers_b=b, tail=tail, slack=0.5)
    assert report.epsilon_at_least < loss <= report.epsilon_at_most
    assert report.delta_at_claim >= max(delta.at_least for delta in report.deltas)
    if tail == 1e-15:
        assert report.epsilon_at_least > min(loss - 1e-9, 30)


def test_both_orders_of_a_pair_are_compared():
    """A single query loses more when it falls than when it rises: the threshold noise is one-sided, too."""
    subject = sparse([2, 1], 5)
    up, down = (audit.exact(subject, neighbours=[pair]) for pair in (((0,), (-1,)), ((-1,), (0,))))
    assert up.epsilon_at_least == down.epsilon_at_least
    assert up.epsilon_at_most == down.epsilon_at_most
    assert (up.witness.answers_a, up.witness.answers_b) == (
        down.witness.answers_a,
        down.witness.answers_b,
    )
    one_way = Subject(
        laws=[Finite([1, 1])],
        play=lambda q, z: np.where(q[0] == 1, 0, z[:, 0]),
        cost=Pure(epsilon=1),
    )
    for pair in (((0,), (1,)), ((1,), (0,))):
        report = audit.exact(one_way, neighbours=[pair])
        assert report.epsilon_at_least == math.inf, "output 1 is impossible for (1,)"
        assert (report.witness.output, report.witness.answers_a) == (1, (0,))
        assert report.deltas[0].at_least == pytest.approx(0.5, abs=1e-12)


@pytest.mark.slow
def test_the_worst_of_several_pairs_is_reported():
    mechanism = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING)
    mild, worst = ((0, 0, 0), (1, 1, 1)), ((0, 0, 0), (0, 1, 1))
    alone = audit.exact(mechanism, neighbours=[mild])
    assert alone.epsilon_at_least < 0.01
    for pairs in ([mild, worst], [worst, mild]):
        both = audit.exact(mechanism, neighbours=pairs)
        assert both.epsilon_at_least == pytest.approx(1, abs=1e-12)
        assert both.pairs == 2


@pytest.mark.parametrize(
    ("n", "k", "noise"),
    [
        (2, 1, "exponential"),
        (3, 1, "exponential"),
        pytest.param(3, 2, "exponential", marks=pytest.mark.slow),
        pytest.param(3, 1, "laplace", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.sample(4)
def test_no_neighbours_of_top_k_lose_more_than_the_claim_and_some_lose_it_all(
    n, k, noise, monotone
):
    """D6 and its like: all moves from several answers."""
    statement = COUNTING if monotone else EITHER_WAY
    mechanism = NoisyTopK(k=k, epsilon=2 * k, sensitivity=statement, noise=noise)
    bases = [(0,) * n, (1,) + (0,) * (n - 1), (0,) * (n - 1) + (2,)]
    pairs = [
        (q, tuple(x + y for x, y in zip(q, move, strict=True)))
        for q in bases
        for move in neighbours(n, monotone=monotone)
    ]
    report = audit.exact(mechanism, neighbours=pairs, tail=1e-13)
    assert not report.broken
    assert report.epsilon_at_least == pytest.approx(2 * k, abs=1e-4 if noise == "laplace" else 1e-9)
    assert report.epsilon_at_most < 2 * k + 2e-6
    assert report.delta_at_claim < 1e-11, "the tail, times e^epsilon at most"
    assert report.beyond_at_least < 0 <= report.beyond_at_most + 1e-12


@pytest.mark.slow
def test_a_threshold_item_does_not_move():
    """T8: a top-1 with a threshold item of score 0 against two answers that both rise: a win of the threshold loses one rate."""
    subject = Subject(
        laws=[Geometric(Fraction(1, 4))] * 3,
        decide=lambda noisy: np.where(
            noisy.argmax(axis=1) == 0, noisy[:, 0] - noisy[:, 1:].max(axis=1), -1
        ),
        cost=Pure(epsilon=1),
        shifts=True,
    )
    for lead in (0, 2, 5):
        report = audit.exact(
            subject,
            answers_a=(0, 1, 1),
            answers_b=(0, 2, 2),
            partition=lambda x, lead=lead: x == lead,
            tail=1e-9,
        )
        assert report.epsilon_at_least == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.slow
def test_laplace_is_bounded_for_every_output(k):
    mechanism = LaplaceMechanism(epsilon=k, sensitivity=COUNTING.over(k))
    pairs = [
        ((0,) * k, move)
        for move in product((-1, 0, 1), repeat=k)
        if any(move) and (min(move) >= 0 or max(move) <= 0)
    ]
    report = audit.exact(mechanism, neighbours=pairs)
    assert report.complete
    assert report.epsilon_at_most == report.epsilon_everywhere == k
    assert report.beyond_at_most == 0
    assert report.epsilon_at_least == pytest.approx(k, abs=1e-12)


@pytest.mark.slow
def test_one_sided_noise_is_bounded_for_every_output_where_all_answers_may_move_together():
    mechanism = NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING)
    report = audit.exact(mechanism, answers_a=(0, 0, 0), answers_b=(0, 0, 1))
    assert report.complete
    assert report.epsilon_at_most == 1
    bare = Subject(
        laws=[mechanism.noise] * 3,
        decide=lambda v: v - v.min(axis=1, keepdims=True),
        cost=Pure(epsilon=1),
    )
    assert (
        audit.exact(bare, answers_a=(0, 0, 0), answers_b=(0, 0, 1), tail=1e-6).epsilon_everywhere
        == math.inf
    )


def renyi(rate, moves, alpha):
    """The divergence of discrete Gaussian noise, summed term by term in 40 digits."""
    with mpmath.workdps(40):
        total = mpmath.mpf(0)
        b, order = (
            mpmath.mpf(rate.numerator) / rate.denominator,
            mpmath.mpf(alpha.numerator) / alpha.denominator,
        )
        reach = range(-90, 91)
        z = mpmath.fsum(mpmath.exp(-b * x * x) for x in reach)
        for m in moves:
            terms = [mpmath.exp(-b * (order * x * x + (1 - order) * (x - m) ** 2)) for x in reach]
            total += mpmath.log(mpmath.fsum(terms) / z) / (order - 1)
        return float(total)


@pytest.mark.parametrize("alpha", [Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(5)])
@pytest.mark.parametrize("moves", [(1,), (1, 1), (1, 0)])
@pytest.mark.parametrize("rho", [Fraction(1, 2), Fraction(2)])
@pytest.mark.slow
def test_gaussian_divergences_are_enclosed(moves, alpha, rho):
    mechanism = GaussianMechanism(rho=rho, sensitivity=COUNTING.over(len(moves), "l2"))
    report = audit.exact(
        mechanism, answers_a=(0,) * len(moves), answers_b=moves, orders=[alpha], tail=1e-20
    )
    [found] = report.divergences
    truth = renyi(mechanism.noise.rate, moves, alpha)
    assert found.at_least <= truth + 1e-14
    assert truth <= found.at_most + 1e-14
    assert found.at_most <= found.claimed + 1e-12
    if alpha <= 2 and rho == Fraction(1, 2):
        assert found.at_least == pytest.approx(truth, abs=1e-5)
        assert found.at_most == pytest.approx(truth, abs=1e-12)
    assert not report.broken
    assert all(delta.at_least <= delta.at_most < delta.claimed for delta in report.deltas)


def test_gaussian_noise_at_nine_tenths_of_the_scale_is_convicted():
    mechanism = GaussianMechanism(rho=HALF, sensitivity=COUNTING)
    weak = Subject(
        laws=[DiscreteGaussian(mechanism.noise.rate * Fraction(100, 81))],
        decide=np.asarray,
        cost=mechanism.cost,
    )
    report = audit.exact(weak, answers_a=(0,), answers_b=(1,))
    assert report.broken
    assert all(each.beyond_at_least > 0.05 for each in report.divergences[:2])
    with pytest.raises(ClaimBroken, match=r"claims ZCDP\(rho=0.5\), but its delta at epsilon 5.22"):
        report.raise_if_broken()


def test_gaussian_noise_is_not_pure_at_any_price():
    pure = Subject(laws=[DiscreteGaussian(HALF)], decide=np.asarray, cost=Pure(epsilon=5))
    report = audit.exact(pure, answers_a=(0,), answers_b=(1,))
    assert report.broken
    assert report.epsilon_at_most == math.inf


def test_the_hockey_stick_of_a_known_law():
    """Randomized response with truth 3/4: delta at epsilon is 3/4 - e^epsilon/4, exactly."""
    coin = Subject(
        laws=[Finite([3, 1])], play=lambda bit, lie: bit ^ lie[:, 0], cost=Pure(epsilon=1)
    )
    report = audit.exact(coin, answers_a=0, answers_b=1, epsilons=[0, HALF, 1, 2])
    for delta, epsilon in zip(report.deltas, (0, 0.5, 1, 2), strict=True):
        truth = max(0.0, 0.75 - math.exp(epsilon) / 4)
        assert delta.at_least <= truth + 1e-16
        assert truth <= delta.at_most + 1e-16
        assert delta.at_most - delta.at_least < 1e-13
    assert report.deltas[0].claimed > 0.4
    assert report.broken
    assert report.complete, "all noise was played"
    assert (report.unresolved, report.tail, report.audited) == (0, 0, 2)


@pytest.mark.parametrize("tail", [0.3, 1e-2, 1e-6, 1e-15])
@pytest.mark.parametrize("epsilon", [0, Fraction(1, 4), Fraction(3, 4)])
@pytest.mark.each_value
def test_the_hockey_stick_holds_for_outputs_that_were_never_played(epsilon, tail):
    """Laplace noise of rate 1, answers one apart: P(X <= 0) (1 - e^(epsilon - 1)), of which a coarse tail leaves a part unplayed."""
    subject = Subject(
        laws=[DiscreteLaplace(Fraction(1))], play=lambda q, z: q[0] + z[:, 0], cost=Pure(epsilon=1)
    )
    [delta] = audit.exact(
        subject, answers_a=(0,), answers_b=(1,), epsilons=[epsilon], tail=tail
    ).deltas
    truth = (1 - math.exp(float(epsilon) - 1)) / (1 + math.exp(-1))
    assert delta.at_least < truth + 1e-15
    assert truth < delta.at_most + 1e-15
    assert delta.at_most - delta.at_least < 4 * tail + 1e-12


def test_an_output_that_was_never_seen_is_counted_against_the_mechanism():
    """One of the neighbours shows itself when the noise passes 10 steps, where it is not played."""
    subject = Subject(
        laws=[DiscreteLaplace(Fraction(1))],
        play=lambda q, z: (np.abs(z[:, 0]) >= 10) & (q[0] == 0),
        cost=Pure(epsilon=1),
    )
    report = audit.exact(subject, answers_a=(0,), answers_b=(1,), tail=1e-2)
    shown = 2 * math.exp(-10) / (1 + math.exp(-1))
    assert report.outputs == 1, "the other one was not seen"
    assert report.deltas[0].at_most > shown
    assert not report.broken
    assert audit.exact(subject, answers_a=(0,), answers_b=(1,)).deltas[0].at_least == pytest.approx(
        shown, rel=1e-6
    )


@pytest.mark.slow
def test_the_terms_of_a_divergence_that_count_are_taken():
    """Thousands of outputs, and an order at which the unlikely ones make the sum."""
    mechanism = GaussianMechanism(rho=Fraction(1, 10), sensitivity=COUNTING.over(2, "l2"))
    report = audit.exact(mechanism, answers_a=(0, 0), answers_b=(1, 1), orders=[12])
    assert report.outputs > 1500
    [found] = report.divergences
    assert (
        0.8 * found.at_most
        < found.at_least
        <= renyi(mechanism.noise.rate, (1, 1), Fraction(12)) + 1e-12
    )


@pytest.mark.slow
def test_each_transcript_is_held_to_its_own_cost():
    subject = Subject(
        laws=[Geometric(Fraction(1)), Geometric(HALF), Geometric(HALF)],
        play=lambda q, z: play_queries(q, z, positives=2),
        cost=Pure(epsilon=3),
        cost_of=lambda t: Pure(epsilon=1 + sum(flag == 1 for flag in t[::2])),
    )
    pairs = [((0, 0), move) for move in product((-1, 0, 1), repeat=2) if any(move)]
    report = audit.exact(subject, neighbours=pairs)
    assert not report.broken
    assert report.beyond_at_least == pytest.approx(0, abs=1e-12), (
        "attained: threshold and positives are all needed"
    )
    assert report.epsilon_at_least < 3
    cheap = Subject(
        laws=subject.laws,
        play=subject.play,
        cost=Pure(epsilon=3),
        cost_of=lambda t: Pure(epsilon=sum(flag == 1 for flag in t[::2])),
    )
    convicted = audit.exact(cheap, neighbours=pairs)
    assert convicted.broken
    assert convicted.beyond_at_least == pytest.approx(1, abs=1e-9), "the threshold is not free"
    assert convicted.epsilon_at_least < 3, "although no transcript loses more than the worst case"


def test_the_price_of_an_outcome_may_not_be_squared():
    """Two outcomes with log ratios -0.5 and 0.209: E[(p/q)^2 e^(-2 rho(outcome))] = 1.020."""
    subject = Subject(
        laws=[Finite([1] * 1000)],
        play=lambda bit, z: z[:, 0] >= (225, 371)[bit],
        cost=ZCDP(rho=Fraction("0.126")),
        cost_of=lambda o: ZCDP(rho=math.log((225 / 371, 775 / 629)[o]) ** 2 / 2),
    )
    report = audit.exact(subject, answers_a=0, answers_b=1, orders=[2])
    assert math.exp(report.divergences[0].beyond_at_least) == pytest.approx(1.020, abs=1e-3)
    assert report.divergences[0].at_least < report.divergences[0].claimed, (
        "the worst-case claim would have been right"
    )
    assert report.broken


@pytest.mark.slow
def test_implicit_zeros_are_played_through_their_own_code():
    mechanism = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING, domain_size=3)
    dense = audit.exact(
        NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING),
        answers_a=(0, 0, 0),
        answers_b=(0, 1, 1),
        tail=1e-6,
    )
    for a, b in (({}, {1: 1, 2: 1}), ((0, 0, 0), {2: 1, 1: 1}), ({0: 0}, (0, 1, 1))):
        listed = audit.exact(mechanism, answers_a=a, answers_b=b, tail=1e-6)
        assert listed.epsilon_at_least == dense.epsilon_at_least
        assert listed.outputs == dense.outputs
    assert not listed.complete


@pytest.mark.slow
def test_an_adaptive_sparse_vector_over_a_domain_is_held_to_each_cost():
    """Positions that are not listed are 0: the same bounds as for the list item by item, and a false charge is convicted there, too."""
    options = {"threshold": 1, "at_least": 1, "epsilon": 8, "sensitivity": COUNTING}
    over = AdaptiveSparseVector(**options, domain_size=2)
    dense = audit.exact(
        AdaptiveSparseVector(**options), answers_a=(1, 0), answers_b=(2, 1), tail=1e-6
    )
    listed = audit.exact(over, answers_a={0: 1}, answers_b={0: 2, 1: 1}, tail=1e-6)
    assert not listed.broken
    assert listed.epsilon_at_least == pytest.approx(dense.epsilon_at_least, abs=1e-9)
    assert listed.beyond_at_most == pytest.approx(dense.beyond_at_most, abs=1e-9)
    with pytest.raises(InvalidParameter, match="got answers at distance 2"):
        audit.exact(over, answers_a={}, answers_b={1: 2})
    honest = subject_of(over, 2)
    cheap = Subject(
        laws=honest.laws,
        play=honest.play,
        steps=honest.steps,
        cost=honest.cost,
        cost_of=lambda output: Pure(epsilon=honest.cost_of(output).pure() / 2),
    )
    assert audit.exact(cheap, answers_a={0: 1}, answers_b={0: 2, 1: 1}, tail=1e-6).broken


def test_a_scale_that_ignores_monotony_is_no_violation_but_is_not_attained():
    mechanism = NoisyTopK(
        k=1,
        epsilon=2,
        sensitivity=Sensitivity(bound=1, monotone=False, adjacency="add-remove", step=1),
    )
    report = audit.exact(mechanism, answers_a=(0, 0, 0), answers_b=(0, 1, 1))
    assert report.epsilon_at_least == pytest.approx(1, abs=1e-9)
    assert report.beyond_at_least == pytest.approx(-1, abs=1e-9)
