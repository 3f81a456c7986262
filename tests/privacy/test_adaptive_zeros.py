"""Implicit zeros with several branches, enumerated: over all of its own choices, the route of large domains has the dense law."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest

from sordino import COUNTING, AdaptiveSparseVector, InvalidParameter, Seeded, Sensitivity
from sordino.mechanisms.crossings import transcripts
from sordino.noise import DiscreteLaplace, Geometric
from support.branches import DIGITS, ENOUGH, binomial, exactly, law, noise, subset, tails

LOW, HIGH, HIGHEST = (
    -1,
    2,
    0,
)  # noise from LOW to HIGH is told apart; lifts up to HIGHEST are compared


@pytest.fixture
def enumerated(monkeypatch):
    """Return a function that gives the law of a program on implicit zeros, all of whose choices are played."""
    now = None

    def run(ways, program):
        nonlocal now
        now = ways
        return program()

    def of(program, limit, **replaced):
        def sample(noise_law, n, _):
            return now.each(n, noise(noise_law, *((0, 0) if noise_law == limit else (LOW, HIGH))))

        parts = {
            "DENSE": 0,
            "binomial": lambda n, p, _: binomial(now, n, exactly(p)),
            "draw_fresh_ranks": lambda zeros, n, used, _: subset(
                now, [x for x in range(zeros) if x not in used.tolist()], n
            ),
        }
        for name, part in (parts | replaced).items():
            monkeypatch.setattr(transcripts, name, part)
        for kind in (Geometric, DiscreteLaplace):
            monkeypatch.setattr(kind, "sample", sample)
            monkeypatch.setattr(kind, "at_least", cache(kind.at_least))
        return law(partial(run, program=program))

    return of


def dense(q, mechanism, limits):
    """Return {(places, branches, lifts, asked): probability}, for lifts up to HIGHEST: each item of the domain tested in its turn."""
    reaches, prices = [tails(each) for each in mechanism.branch_noise], mechanism.branch_tokens
    cuts = [int(correction) for correction in mechanism.branch_corrections]
    found = {}

    def ask(i, mass, events, left, limit):
        open_ = [branch for branch, price in enumerate(prices) if price <= left]
        if i == len(q) or not open_:
            key = (*zip(*events, strict=True), i) if events else (i,)
            found[key] = found.get(key, 0) + mass
            return
        for branch in open_:
            need = cuts[branch] + limit - q[i]
            for lift in range(HIGHEST + 1):
                chance = reaches[branch](need + lift) - reaches[branch](need + lift + 1)
                ask(
                    i + 1, mass * chance, [*events, (i, branch, lift)], left - prices[branch], limit
                )
            mass *= 1 - reaches[branch](need)
        ask(i + 1, mass, events, left, limit)

    with localcontext() as context:
        context.prec = DIGITS
        for limit, chance in limits:
            ask(0, chance, [], mechanism.tokens, limit)
    return found


def compared(found, expected):
    """Return how far two laws are apart where both are told apart, and how much that is."""
    with localcontext() as context:
        context.prec = DIGITS
        return max(abs(found.get(key, 0) - mass) for key, mass in expected.items()), sum(
            expected.values()
        )


def wide(**options):
    given = {"threshold": 0, "at_least": 1, "epsilon": 6, "sensitivity": COUNTING, "domain_size": 3}
    return AdaptiveSparseVector(**(given | options))


@pytest.mark.parametrize("length", [None, 1])  # runs of any length give the same law
@pytest.mark.parametrize(
    "options",
    [
        {"boundaries": (2, 1)},
        pytest.param(
            {"boundaries": (1, 0)}, marks=pytest.mark.slow
        ),  # most zeros cross in the second branch, few in the first
        {"boundaries": (1, 1), "branches": (2, 3), "at_least": 2},
        pytest.param({"boundaries": (2, 1), "noise": "laplace"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.sample(4)
def test_transcripts_have_the_law_of_the_dense_computation(enumerated, options, length):
    answers, mechanism = {1: 1}, wide(**options)

    def program():
        found = mechanism.release(list(answers.values()), positions=list(answers))
        which = found.branches.tolist()
        lifts = [
            gap - float(mechanism.branch_corrections[branch])
            for gap, branch in zip(found.gaps, which, strict=True)
        ]
        events = list(zip(found.indices.tolist(), which, map(int, lifts), strict=True))
        return (*zip(*events, strict=True), found.asked) if events else (found.asked,)

    limit = mechanism.threshold_noise
    parts = (
        {}
        if length is None
        else {"_choose_run_length": lambda law, level, rest, most: min(rest, length)}
    )
    found, cut = enumerated(program, limit, **parts)
    q = [answers.get(i, 0) for i in range(3)]
    expected = dense(q, mechanism, noise(limit, 0, 0))
    distance, mass = compared(found, expected)
    assert distance < ENOUGH
    assert not cut
    assert mass > Decimal("0.3")
    assert compared(found, dense([1, 0, 0], mechanism, noise(limit, 0, 0)))[0] > 1e-6


def test_used_zeros_do_not_cross_twice(monkeypatch):
    """All zeros of a run cross in both branches: each is found once, in the first."""
    monkeypatch.setattr(transcripts, "DENSE", 0)
    m = wide(threshold=-50, at_least=4, domain_size=40, epsilon=40)
    found = m.release([], positions=[], entropy=Seeded(1))
    assert found.indices.tolist() == list(range(8))
    assert found.branches.tolist() == [0] * 8


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_large_answers_in_a_large_domain_are_found_in_their_branch(noise):
    m = wide(
        threshold=10**6,
        at_least=2,
        epsilon=4,
        domain_size=10**12,
        noise=noise,
        boundaries=(10**6, 0),
    )
    release = m.release(
        [15 * 10**5, 5, 3 * 10**6], positions=[999_999_999_998, 4, 17], entropy=Seeded(2)
    )
    assert release.indices.tolist() == [17, 999_999_999_998]
    assert release.branches.tolist() == [0, 1]
    assert release.asked == 10**12
    assert release.cost == m.spent(3)
    assert np.allclose(release.gaps, [2 * 10**6, 5 * 10**5], atol=200)


@pytest.mark.slow
def test_the_first_branch_of_a_zero_is_not_that_of_a_later_one():
    """Of the zeros that cross, given the threshold, those of each branch have the share of its chance: no place is a million apart."""
    m = wide(at_least=30, epsilon=60, domain_size=10**12, boundaries=(30, 12), split=0.5)
    entropy, chances, first = Seeded(4), [], []
    for _ in range(40):
        release = m.release([], positions=[], entropy=entropy)
        first += (release.branches[:30] == 0).tolist()  # both branches are open until then
    shares = []
    for rho in range(60):
        chances = [
            math.exp(-float(law.rate) * (cut + rho))
            for law, cut in zip(m.branch_noise, (30, 12), strict=True)
        ]
        shares.append(
            float(m.threshold_noise.pmf(rho))
            * chances[0]
            / (chances[0] + (1 - chances[0]) * chances[1])
        )
    assert abs(np.mean(first) - sum(shares)) < 0.1
    assert 0.02 < sum(shares) < 0.98


@pytest.mark.parametrize("epsilon", [1e-2, 1, 30, 3000])
@pytest.mark.parametrize("size", [10**5, 10**12])
@pytest.mark.parametrize("threshold", [-5, 0, 1000, 2**40])
@pytest.mark.each_value
def test_any_level_ends(epsilon, size, threshold):
    m = wide(threshold=threshold, at_least=3, epsilon=epsilon, domain_size=size, branches=3)
    release = m.release([5], positions=[7], entropy=Seeded(1))
    assert release.indices.size <= 12
    assert release.asked <= size
    real = Sensitivity(bound=1, monotone=False, adjacency="replace-one")
    fine = wide(
        threshold=min(threshold, 10**6) / 7,
        at_least=3,
        epsilon=1,
        sensitivity=real,
        domain_size=size,
    )
    assert fine.release([5.5], positions=[7]).asked <= size


def test_positions_must_go_with_the_answers():
    with pytest.raises(
        InvalidParameter, match=r"AdaptiveSparseVector.release with a domain size needs positions"
    ):
        wide().release([1, 2])
    with pytest.raises(InvalidParameter, match="takes positions only"):
        wide(domain_size=None).release([1, 2], positions=[0, 1])
    with pytest.raises(InvalidParameter, match="takes thresholds only"):
        wide().release([1, 2], [1, 2], positions=[0, 1])
    assert wide(epsilon=Fraction(1, 2)).release([], positions=[]).asked <= 3
