"""The privacy loss of noisy top-k, enumerated exactly: never above the claim, and attained."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino import COUNTING, NoisyTopK, Seeded, Sensitivity
from sordino.grid import largest
from sordino.mechanisms.noisy_top_k import decide
from support.enumeration import by_decide, by_formula, outputs, worst_loss

HALF = Fraction(1, 2)
BASES = {2: [(0, 0), (1, 0), (0, 2)], 3: [(0, 0, 0), (1, 0, 0), (0, 1, 0)], 4: [(0, 0, 0, 0)]}


def raw_last_gap(noisy, k):
    """The broken twin: the last gap as it is, without the margin rule."""
    order = largest(noisy, k + 1)
    return order[:k], -np.diff(noisy[order])


@pytest.mark.parametrize("kind", ["exponential", "laplace"])
@pytest.mark.parametrize(("q", "k"), [((0, 0), 1), ((1, 0, 0), 1), ((0, 1, 0), 2), ((1, 0), 2)])
@pytest.mark.slow
def test_decide_has_the_law_of_the_formula(kind, q, k):
    box = 9 if kind == "laplace" else 14
    law = by_decide(kind, HALF, q, k, box=box)
    rest = 2 * len(q) * HALF**box
    for winners, gaps in outputs(len(q), k, 3):
        played = law.get((winners, gaps), Fraction(0))
        assert played <= by_formula(kind, HALF, q, winners, gaps) <= played + rest


@pytest.mark.slow
def test_the_formula_tells_the_broken_twin_from_decide():
    q = (0, 0, 0)
    law = by_decide("exponential", HALF, q, 1, box=14, decide=raw_last_gap)
    differences = [
        abs(law.get(key, Fraction(0)) - by_formula("exponential", HALF, q, *key))
        for key in outputs(3, 1, 2)
    ]
    assert max(differences) > Fraction(1, 100)
    for key in outputs(3, 1, 2):
        assert (
            abs(law.get(key, Fraction(0)) - by_formula("exponential", HALF, q, *key, margin=False))
            < 1e-3
        )


# exponential noise attains kappa k (kappa (k - 1) when n = k: there is no loser); Laplace noise attains kappa k on some grids
CASES = [
    ("exponential", 2, 1, False, 2),
    ("exponential", 2, 1, True, 1),
    ("exponential", 3, 1, False, 2),
    ("exponential", 3, 1, True, 1),
    pytest.param("exponential", 3, 2, False, 4, marks=pytest.mark.slow),
    ("exponential", 3, 2, True, 2),
    ("exponential", 2, 2, False, 2),
    ("exponential", 2, 2, True, 1),
    ("laplace", 2, 1, False, 2),
    ("laplace", 2, 1, True, 1),
    ("laplace", 3, 1, False, 2),
    ("laplace", 3, 1, True, 1),
    ("laplace", 2, 2, False, 4),
    ("laplace", 2, 2, True, 2),
    pytest.param("laplace", 4, 1, False, 2, marks=pytest.mark.slow),
    pytest.param("laplace", 4, 1, True, 1, marks=pytest.mark.slow),
    pytest.param("laplace", 4, 2, True, 2, marks=pytest.mark.slow),
    pytest.param("laplace", 4, 2, False, 4, marks=pytest.mark.slow),
    pytest.param("exponential", 4, 1, True, 1, marks=pytest.mark.slow),
    pytest.param("laplace", 3, 2, False, 4, marks=pytest.mark.slow),
    pytest.param("laplace", 3, 2, True, 2, marks=pytest.mark.slow),
    pytest.param("exponential", 4, 1, False, 2, marks=pytest.mark.slow),
    pytest.param("exponential", 4, 2, True, 2, marks=pytest.mark.slow),
    pytest.param("exponential", 4, 2, False, 4, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "n", "k", "monotone", "claimed"), CASES)
@pytest.mark.slow
def test_worst_loss_is_at_most_the_claim_and_attained(kind, n, k, monotone, claimed):
    reach = 40 if kind == "laplace" else 60
    worst, witness = worst_loss(
        kind, HALF, n, k, monotone=monotone, bases=BASES[n], highest=2 if n < 4 else 1, reach=reach
    )
    assert worst <= claimed + 1e-9, witness
    if kind == "exponential":
        assert worst >= claimed - 1e-9, "the claim is attained"


@pytest.mark.parametrize("kind", ["exponential", "laplace"])
@pytest.mark.parametrize("monotone", [True, False])
def test_the_declared_cost_is_the_enumerated_loss(kind, monotone):
    statement = Sensitivity(
        bound=1, monotone=monotone, adjacency="add-remove" if monotone else "replace-one", step=1
    )
    for k in (1, 2, 5):
        mechanism = NoisyTopK(k=k, epsilon=0.7, sensitivity=statement, noise=kind)
        assert mechanism.cost.pure() == Fraction(7, 10)
        assert mechanism.noise.rate * k * (1 if monotone else 2) == Fraction(7, 10)


@pytest.mark.slow
def test_the_raw_last_gap_is_convicted():
    worst, witness = worst_loss(
        "exponential", HALF, 3, 1, monotone=False, bases=[(0, 0, 0)], highest=2, margin=False
    )
    assert worst == pytest.approx(4, abs=1e-9), "twice the claim of 2 (oracle D5)"
    assert witness[3] == (0,)


@pytest.mark.slow
def test_the_raw_last_gap_is_convicted_for_two_of_four():
    worst, _ = worst_loss(
        "exponential", HALF, 4, 2, monotone=True, bases=[(0,) * 4], highest=1, margin=False
    )
    assert worst == pytest.approx(3, abs=1e-9), "k + 1 shares instead of k"


@pytest.mark.slow
def test_the_monotone_scale_under_replace_one_is_convicted():
    worst, _ = worst_loss("exponential", HALF, 3, 1, monotone=False, bases=BASES[3], highest=2)
    assert worst > 1 + 0.5, (
        "noise calibrated for monotone lists pays twice when answers move both ways"
    )


@pytest.mark.slow
def test_oracles_of_small_grids():
    assert by_decide(
        "exponential", HALF, (0, 0, 0), 1, box=16
    )  # the box is large enough for the next three
    wins = sum(by_formula("exponential", HALF, (0, 0, 0), (0,), (g,)) for g in range(40))
    assert float(wins) == pytest.approx(10 / 21, abs=1e-9)  # D1
    assert float(by_formula("exponential", HALF, (0, 0, 0), (1,), (0,))) == pytest.approx(
        1 / 7, abs=1e-12
    )  # D3


def wins(q, step, kind="exponential", scale=2.0):
    """P(item 0 wins) with noise of that scale, on a grid so fine that it is nearly continuous."""
    r = math.exp(-step / scale)
    x = np.arange(0, round(80 / step))
    steps = [round(value / step) for value in q]
    mass = np.where(x >= steps[0], (1 - r) * r ** (x - steps[0]), 0.0)
    others = [
        np.where(x >= value, 1 - r ** (x - value + 0.5), 0.0) for value in steps[1:]
    ]  # half of a tie
    return float((mass * np.prod(others, axis=0)).sum())


@pytest.mark.slow
def test_oracles_of_the_continuous_limit():
    t1 = wins((1, 0, 0), 1 / 4096)
    assert t1 == pytest.approx(0.516095820678, abs=1e-4)  # T1: permute-and-flip has the same law
    assert wins((0, 1, 1), 1 / 4096) == pytest.approx(math.exp(-0.5) / 3, abs=1e-4)
    step = (
        1 / 100
    )  # T6: the density of (item 0 wins, gap 0.7) with Laplace noise of scale 2, q = (1, 0)
    density = by_formula("laplace", math.exp(-step / 2), (100, 0), (0,), (70,), reach=6000) / step
    assert density == pytest.approx(0.123726771611, rel=2e-3)
    # T4: how much likelier (item 0, gap 0.7) is of q = (1, 0, 0) than of its neighbor (0, 1, 1), with exponential noise of scale 2
    ratio = [
        by_formula("exponential", math.exp(-1 / 200), q, (0,), (70,), reach=8000)
        for q in ((100, 0, 0), (0, 100, 100))
    ]
    assert math.log(ratio[0] / ratio[1]) == pytest.approx(0.945753252462, abs=2e-3)


@pytest.mark.slow
def test_releases_have_the_law_of_the_oracle():
    statement = Sensitivity(bound=1, monotone=False, adjacency="replace-one")
    mechanism = NoisyTopK(k=1, epsilon=1, sensitivity=statement)  # scale 2, on real scores
    entropy = Seeded(11)
    hits = sum(
        int(mechanism.release([1.0, 0.0, 0.0], entropy=entropy).indices[0]) == 0
        for _ in range(2000)
    )
    assert abs(hits / 2000 - 0.516095820678) < 6 * 0.5 / math.sqrt(2000)


def test_decide_on_hand_made_ties():
    winners, gaps = decide(np.array([5, 7, 7, 5, 1]), 3)
    assert winners.tolist() == [1, 2, 0]
    assert gaps.tolist() == [0, 2, 0]  # item 3 ties item 0 and loses the tie: margin 0
    winners, gaps = decide(np.array([5, 7, 7, 6, 1]), 2)
    assert gaps.tolist() == [0, 1]
    winners, gaps = decide(np.array([6, 3, 7]), 1)
    assert (winners.tolist(), gaps.tolist()) == (
        [2],
        [0],
    )  # item 0 would win a tie: one step of the lead is not a lead
    assert COUNTING.spread == 1


def test_decide_on_python_integers():
    huge = 1 << 70
    winners, gaps = decide(np.array([3, huge + 5, huge], dtype=object), 2)
    assert winners.tolist() == [1, 2]
    assert gaps.tolist() == [5, huge - 3 - 1]
