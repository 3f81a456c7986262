"""Bad input is refused in words that say what must hold: neighbours, laws, rows, outputs, limits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import (
    COUNTING,
    ExponentialMechanism,
    GaussianMechanism,
    InvalidParameter,
    LaplaceMechanism,
    NoisyTopK,
    PermuteAndFlip,
    Sensitivity,
)
from sordino.cost import ZCDP, Pure
from sordino.noise import DiscreteLaplace, Geometric
from sordino_audit import Finite, Subject
from sordino_audit.enumeration.selection import leads

TOP = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING)
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
COIN = {"laws": [Finite([1, 1])], "cost": Pure(epsilon=1)}


def coin(**changes):
    return Subject(**(COIN | {"play": lambda bit, z: z[:, 0]} | changes))


@pytest.mark.parametrize(
    ("mechanism", "a", "b", "words"),
    [
        (
            TOP,
            [0, 0],
            [2, 0],
            "each answer moving by at most 1, in one direction; got answers at distance 2",
        ),
        (TOP, [0, 0], [1, -1], r"in one direction; got answers at distances -1 and \+1"),
        (
            NoisyTopK(k=1, epsilon=1, sensitivity=EITHER),
            [0, 0.5],
            [0, 2],
            r"at most 1; got answers at distance 1\.5",
        ),
        (
            NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING, domain_size=3),
            {},
            {1: 2},
            "got answers at distance 2",
        ),
        (
            LaplaceMechanism(epsilon=1, sensitivity=COUNTING.over(2)),
            [0, 0],
            [2, 1],
            "the L1 norm of all .* distance 3",
        ),
        (
            GaussianMechanism(rho=1, sensitivity=COUNTING.over(2, "l2")),
            [0, 0],
            [1, 2],
            r"the L2 norm .* distance 2\.236",
        ),
        (
            LaplaceMechanism(epsilon=1, sensitivity=COUNTING),
            [0, 0],
            [1, 0],
            "releases 2 answers together only under",
        ),
        (TOP, [0, 0], [1, 0, 0], "same number of answers on both sides; got 2 and 3"),
        (TOP, [0, float("nan")], [0, 0], "finite numbers"),
        (TOP, [0], [1], None),
        (
            NoisyTopK(k=3, epsilon=1, sensitivity=COUNTING),
            [0, 0],
            [1, 0],
            "at most the number of answers 2; got 3",
        ),
    ],
)
def test_pairs_that_are_no_neighbours_are_refused_with_their_distance(mechanism, a, b, words):
    if words is None:
        audit.exact(mechanism, answers_a=a, answers_b=b)
        return
    with pytest.raises(InvalidParameter, match=words):
        audit.exact(mechanism, answers_a=a, answers_b=b)
    with pytest.raises(
        InvalidParameter,
        match=words.replace("-1 and \\+1", "-1 and \\+1").replace("2 and 3", "3 and 2"),
    ):
        audit.exact(mechanism, neighbours=[(b, a)])


def test_neighbours_of_exact_decimals_are_neighbours():
    statement = Sensitivity(bound=0.1, monotone=False, adjacency="replace-one", step=0.125)
    report = audit.exact(
        NoisyTopK(k=1, epsilon=1, sensitivity=statement), answers_a=[0.2, 0], answers_b=[0.3, -0.1]
    )
    assert not report.broken
    with pytest.raises(InvalidParameter, match="distance 0.1000001"):
        audit.exact(
            NoisyTopK(k=1, epsilon=1, sensitivity=statement),
            answers_a=[0.2, 0],
            answers_b=[0.3000001, 0],
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs answers_a and answers_b, or neighbours"),
        ({"answers_a": [0]}, "needs answers_a and answers_b, or neighbours"),
        ({"answers_a": [0], "answers_b": [1], "neighbours": []}, "and not both"),
        ({"neighbours": [([0], [1], [2])]}, "list of pairs"),
        ({"neighbours": 7}, "list of pairs"),
        ({"answers_a": [0], "answers_b": [1], "tail": 0}, "audit.exact.tail must be a number in"),
        ({"answers_a": [0], "answers_b": [1], "tail": 1e-90}, "at least 1e-60"),
        ({"answers_a": [0], "answers_b": [1], "slack": 2}, "audit.exact.slack must be"),
        ({"answers_a": [0], "answers_b": [1], "limit": 0}, "audit.exact.limit must be"),
        ({"answers_a": [0], "answers_b": [1], "vectors": 2.5}, "audit.exact.vectors must be"),
        ({"answers_a": [0], "answers_b": [1], "search": 1}, "audit.exact.search must be"),
        (
            {"answers_a": [0], "answers_b": [1], "orders": [1]},
            r"orders must be a list of numbers in \(1, 1000000\]",
        ),
        (
            {"answers_a": [0], "answers_b": [1], "epsilons": [-1]},
            r"epsilons must be a number in \[0, inf\)",
        ),
        ({"answers_a": [0], "answers_b": [1], "epsilons": []}, "needs epsilons="),
        ({"answers_a": [0], "answers_b": [1], "epsilons": [900]}, "at most 500"),
        ({"answers_a": [0], "answers_b": [1], "vectors": 10}, "more than 10 noise vectors"),
        ({"search": True, "n": 0}, "audit.exact.n must be"),
    ],
)
def test_options_are_checked(options, words):
    with pytest.raises(InvalidParameter, match=words):
        audit.exact(TOP, **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: coin(laws=[]), "at least one law"),
        (lambda: coin(laws=[3]), "Subject.laws must be"),
        (lambda: coin(play=None), "either decide or play"),
        (lambda: coin(decide=np.asarray), "either decide or play"),
        (lambda: coin(cost=1), "Subject.cost must be a cost"),
        (lambda: coin(cost=Pure), "Subject.cost must be a cost"),
        (lambda: coin(shifts=1), "Subject.shifts must be True or False"),
        (lambda: Finite([]), "sum from 1"),
        (lambda: Finite([0, 0]), "sum from 1"),
        (lambda: Finite([-1, 2]), "weights must be a whole number"),
        (lambda: Finite([0.5]), "weights must be a whole number"),
        (lambda: Finite([1], low=0.5), "low must be a whole number"),
        (
            lambda: audit.run_claims("Nobody"),
            "must be one of .*GaussianMechanism, .*LaplaceMechanism, LimitedTopK, NoisyTopK",
        ),
    ],
)
def test_subjects_and_laws_are_checked(make, words):
    with pytest.raises(InvalidParameter, match=words):
        make()


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (object(), "needs a mechanism of this library, an audit.Subject"),
        (coin(play=lambda bit, z: z[:1, 0]), "one output for each of 2 noise vectors; got 1"),
        (
            coin(play=lambda bit, z: z[:, 0] / 3),
            "got a value of type float. For others give partition=",
        ),
        (
            coin(play=lambda bit, z: [x / 3 for x in z[:, 0]]),
            "got a value of type float64. For others give partition=",
        ),
        (
            coin(play=lambda bit, z: [(0, x / 3) for x in z[:, 0]]),
            "got a value of type float64. For others give partition=",
        ),
        (
            coin(laws=[Finite([1] * 200)], play=lambda bit, z: z[:, 0] - z[0, 0]),
            "a function of the answers and its own noise",
        ),
        (coin(cost=Pure(epsilon=600)), "at most 500"),
        (coin(cost_of=lambda output: ZCDP(rho=1)), "must return pure costs"),
        (coin(cost_of=lambda output: Pure(epsilon=2)), "must never be above Subject.cost"),
        (
            coin(cost=ZCDP(rho=1), cost_of=lambda output: ZCDP(rho=2)),
            "must never be above Subject.cost",
        ),
        (coin(laws=[Finite([1 << 30])] * 2), "whole numbers below 2\\^52"),
        (
            Subject(
                laws=[Geometric(Fraction(1))], decide=lambda v: v, cost=Pure(epsilon=1), shifts=True
            ),
            "outputs change when all",
        ),
    ],
)
@pytest.mark.sample(4)
def test_plays_that_cannot_be_counted_are_refused(subject, words):
    with pytest.raises(InvalidParameter, match=words):
        audit.exact(subject, answers_a=[0], answers_b=[1])


@pytest.mark.slow
def test_more_outputs_than_can_be_counted_are_refused():
    # Made here and not among the cases above, as so long a law takes seconds.
    subject = coin(laws=[Finite([1] * ((1 << 20) + 1))])
    with pytest.raises(
        InvalidParameter, match="because there are more than 1048576 different outputs"
    ):
        audit.exact(subject, answers_a=[0], answers_b=[1])


def test_a_function_that_keeps_score_of_its_calls_is_refused():
    calls = []

    def forgetful(bit, z):
        calls.append(1)
        return z[:, 0] + len(calls)

    for play in (forgetful, lambda bit, z: forgetful(bit, z).tolist()):
        with pytest.raises(InvalidParameter, match="a function of the answers and its own noise"):
            audit.exact(coin(play=play), answers_a=0, answers_b=1)


def test_noise_cannot_be_changed_by_those_who_play_it():
    def meddling(bit, z):
        z[:] = 0
        return z[:, 0]

    with pytest.raises(ValueError, match="read-only"):
        audit.exact(coin(play=meddling), answers_a=0, answers_b=1)


def test_noise_too_wide_to_be_played_asks_for_a_step():
    fine = NoisyTopK(
        k=1, epsilon=1, sensitivity=Sensitivity(bound=1, monotone=True, adjacency="add-remove")
    )
    with pytest.raises(InvalidParameter, match=r"Sensitivity\(step=1\)"):
        audit.exact(fine, answers_a=[0.5, 1], answers_b=[0.5, 2])


REAL = Sensitivity(
    bound=1, monotone=False, adjacency="replace-one"
)  # no step: a fine grid, and millions of leads
ENDLESS = {
    "leads on a fine grid": (
        ExponentialMechanism(epsilon=1, sensitivity=REAL),
        2,
        "more than 4000000 outputs",
    ),
    "ordered choices": (
        NoisyTopK(k=8, epsilon=1, sensitivity=COUNTING, noise="gumbel"),
        14,
        "more than 4000000 outputs",
    ),
    "more choices than can be written": (
        NoisyTopK(k=90, epsilon=9, sensitivity=COUNTING, noise="gumbel"),
        180,
        "4000000 outputs",
    ),
    "turns among equals": (
        PermuteAndFlip(epsilon=1, sensitivity=COUNTING),
        22,
        "at most 16 answers",
    ),
    "turns beyond 64 bits": (
        PermuteAndFlip(epsilon=1, sensitivity=COUNTING),
        100,
        "at most 16 answers",
    ),
}


@pytest.mark.parametrize(("mechanism", "n", "words"), ENDLESS.values(), ids=ENDLESS)
def test_what_would_never_end_is_refused_before_it_is_begun(mechanism, n, words):
    with pytest.raises(InvalidParameter, match=words):
        audit.exact(mechanism, answers_a=[0] * n, answers_b=[1, *[0] * (n - 1)])


def test_stated_outputs_are_counted_against_the_limit():
    mechanism = ExponentialMechanism(epsilon=1, sensitivity=COUNTING)
    most = leads([0, 3], mechanism.rate).size
    listed = len(list(leads([0, 3], mechanism.rate)))
    assert listed <= most <= listed + 8, "it is a count from above, and not by far"
    assert not audit.exact(mechanism, answers_a=[0, 3], answers_b=[1, 3], vectors=most).broken
    with pytest.raises(InvalidParameter, match=f"more than {most - 1} outputs"):
        audit.exact(mechanism, answers_a=[0, 3], answers_b=[1, 3], vectors=most - 1)
    three = NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING, noise="gumbel")
    assert not audit.exact(three, answers_a=[0, 3, 1], answers_b=[1, 3, 1], vectors=6).broken
    with pytest.raises(InvalidParameter, match="more than 5 outputs"):
        audit.exact(three, answers_a=[0, 3, 1], answers_b=[1, 3, 1], vectors=5)


def test_answers_without_numbers_of_steps_are_refused():
    plain = Subject(
        laws=[DiscreteLaplace(Fraction(1))] * 2, decide=lambda v: v, cost=Pure(epsilon=1)
    )
    for wrong in ([0.5, 1.0], [1], 3):
        with pytest.raises(InvalidParameter, match="2 whole numbers of steps"):
            audit.exact(plain, answers_a=wrong, answers_b=[0, 0])


def test_orders_about_which_a_claim_says_nothing_are_refused():
    class Bare:
        def pure(self):
            return float("inf")

        zcdp = pure

        def rdp(self, alpha):
            return float("inf")

        def epsilon(self, delta):
            return 1.0 if delta >= 0.1 else float("inf")

        def delta(self, epsilon):
            return 0.1

        def to_dict(self):
            return {}

    with pytest.raises(InvalidParameter, match="needs epsilons="):
        audit.exact(coin(cost=Bare()), answers_a=0, answers_b=1)
    with pytest.raises(InvalidParameter, match="orders at which the claim says something"):
        audit.exact(coin(cost=Bare()), answers_a=0, answers_b=1, epsilons=[1], orders=[2])
    report = audit.exact(coin(cost=Bare()), answers_a=0, answers_b=1, epsilons=[1])
    assert not report.broken
    assert report.divergences == ()


def test_long_lists_are_refused_before_their_noise_is_looked_for(monkeypatch):
    monkeypatch.setattr(
        audit.enumeration.laws,
        "_choose_exponent_budget",
        lambda *_: pytest.fail("this takes minutes"),
    )
    for n, noise in ((1000, "exponential"), (3000, "laplace")):
        with pytest.raises(
            InvalidParameter, match="would have to play more than 4000000 noise vectors"
        ):
            audit.exact(
                NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING, noise=noise),
                answers_a=[0] * n,
                answers_b=[1] * n,
            )
