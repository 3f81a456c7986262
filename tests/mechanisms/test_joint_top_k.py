"""The joint top k: the law of its sampler against all sets, broken twins, releases that fit, extremes, refusals."""

from __future__ import annotations

import json
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import mpmath
import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import COUNTING, InvalidParameter, JointTopK, NoisyTopK, Seeded, Sensitivity
from sordino.cost import BoundedRange
from sordino.mechanisms import joint_sets as sampler
from sordino.mechanisms.joint_sets import SetRace, ranked_runs
from sordino_audit.enumeration.selection import joint_sets

EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
LISTS = [
    ((5, 3, 2, 2, 0), 2, Fraction(1)),
    ((5, 3, 2, 2, 0), 1, Fraction(1)),
    ((5, 3, 2, 2, 0), 4, Fraction(1)),
    ((0, 0, 0, 0), 2, Fraction(3, 2)),
    ((7, 7, 7, 1, 1, 1, 0), 3, Fraction(1, 3)),
    ((9, 8, 7, 6, 5, 4, 3, 2), 4, Fraction(1, 20)),
    ((9, 8, 7, 6, 5, 4, 3, 2), 7, Fraction(2)),
    ((1000, 2, 1, 1, 0, -3, -900), 3, Fraction(1, 2)),
    ((2**52, 5, 5, 4, -(2**52)), 2, Fraction(1)),
    ((1, 0), 1, Fraction(1, 1000)),
]
rows = pytest.mark.parametrize(("q", "k", "rate"), LISTS)


def race(q, k, rate):
    return SetRace(*ranked_runs(np.sort(np.array(q))[::-1], 0), k, rate)


def masses(found):
    """Return (first missing, last taken, sets, mass of each set relative to a common scale) for every class and last rank."""
    scale, k = mpmath.mpf(2) ** 400, found.k
    best = found.keep(0, 0, found.top_weight, k)
    listed = [(k + 1, k, 1, found.top_weight * mpmath.mpf(best.bits(400)) / scale)]
    for row, bounds in enumerate(found.rows(), 1):
        weights = found.weigh(bounds)
        assert found._totals[row] >= weights.sum()
        for group, weight in enumerate(weights.tolist()):
            h = k + 1 - row
            for last in range(int(found.first[group]), int(found.last[group]) + 1):
                kept = found.keep(row, group, weight, last).bits(400) / scale
                assert kept < 1
                # Each set of a class is proposed alike, whatever its last rank.
                sets = math.comb(last - h - 1, k - h)
                listed.append((h, last, sets, weight * kept / found.count(row, group)))
    return listed


def assert_law(found, q, k, rate):
    """Every set has exactly one class, and a mass proportional to e^(-rate/2 regret), to 60 digits."""
    with mpmath.workdps(100):
        listed, ordered = masses(found), sorted(q, reverse=True)
        assert sum(sets for _, _, sets, _ in listed) == math.comb(len(q), k)
        by_class = {(h, last): (sets, mass) for h, last, sets, mass in listed}
        assert len(by_class) == len(listed), "two classes have the same sets"
        least, met = ordered[k] - ordered[k - 1], Counter()
        unit = by_class[k + 1, k][1]
        for ranks in combinations(range(1, len(q) + 1), k):
            outside = [r for r in range(1, len(q) + 1) if r not in ranks]
            regret = max(ordered[r - 1] for r in outside) - min(ordered[r - 1] for r in ranks)
            meant = mpmath.exp(
                -mpmath.mpf(rate.numerator) / rate.denominator * (regret - least) / 2
            )
            place = (outside[0], ranks[-1])
            met[place] += 1
            mass = by_class[place][1]
            assert abs(mass / unit - meant) <= mpmath.mpf(10) ** -60 * meant + mpmath.mpf(2) ** -250
        assert met == {place: sets for place, (sets, _) in by_class.items()}


@rows
def test_the_classes_are_all_sets_with_their_weights(q, k, rate):
    assert_law(race(q, k, rate), q, k, rate)


def test_the_law_on_two_hundred_small_lists():
    rng = np.random.default_rng(5)
    for _ in range(200):
        n = int(rng.integers(2, 8))
        k = int(rng.integers(1, n))
        q = rng.integers(-3, 12, n).tolist()
        rate = Fraction(int(rng.integers(1, 40)), 13)
        assert_law(race(q, k, rate), q, k, rate)


@rows
def test_a_class_gives_all_its_sets_alike(monkeypatch, q, k, rate):
    """The last rank is that of a uniform set: every whole number below the count is played."""
    found = race(q, k, rate)
    for row in range(1, k + 1):
        for group in range(found.first.size):
            h, many = k + 1 - row, found.count(row, group)
            met = Counter()
            for drawn in range(many):
                monkeypatch.setattr(sampler, "_whole_below", lambda n, _, drawn=drawn: drawn % n)
                met[found._draw_last(row, group, None)] += 1
            first, last = int(found.first[group]), int(found.last[group])
            wanted = {t: math.comb(t - h - 1, k - h) for t in range(first, last + 1)}
            assert met == {t: times for t, times in wanted.items() if times}


def count_more(found):
    true = found.count
    found.count = lambda row, group: true(row, group) + 1


def count_ties_twice(found):
    found.first = np.append(found.first[:1], found.last[:-1])


def drop_the_lead(found):
    found.lead = 0


@pytest.mark.parametrize("broken", [count_more, count_ties_twice, drop_the_lead])
def test_broken_samplers_are_convicted(broken):
    q, k, rate = (6, 4, 3, 2, 2, 1), 3, Fraction(1)
    found = race(q, k, rate)
    broken(found)
    with pytest.raises(AssertionError):
        assert_law(found, q, k, rate)


def test_probabilities_that_were_computed_independently():
    """Values of another program, by enumeration: counts (5, 3, 2, 2, 0), k = 2, epsilon = 1."""
    law = dict(joint_sets([5, 3, 2, 2, 0], 2, Fraction(1)))
    assert float(law[0, 1][0]) == pytest.approx(0.412122803198176, abs=1e-14)
    assert float(law[2, 3][0]) == pytest.approx(0.0557747562990919, abs=1e-15)


# --- releases


def fits(mechanism, answers, q, seed, draws=3000, **positions):
    entropy = Seeded(seed)
    met = Counter(
        tuple(mechanism.release(answers, entropy=entropy, **positions).indices.tolist())
        for _ in range(draws)
    )
    law = {places: float(low) for places, (low, _) in joint_sets(q, mechanism.k, mechanism.rate)}
    assert set(met) <= set(law)
    likely = {places: p for places, p in law.items() if p * draws >= 5}
    seen = [met[places] for places in likely]
    wanted = [p * draws for p in likely.values()]
    rest = draws - sum(seen), draws - sum(wanted)
    if rest[1] >= 5:
        seen, wanted = [*seen, rest[0]], [*wanted, rest[1]]
    total = sum(wanted)
    return stats.chisquare(seen, [x * sum(seen) / total for x in wanted]).pvalue


@pytest.mark.parametrize(
    ("q", "k", "epsilon"),
    [
        ((5, 3, 2, 2, 0), 2, 1),
        ((0, 4, 0, 3, 1, 4), 3, 0.7),
        ((2, 2, 2, 2), 3, 1),
        ((30, 20, 10, 0, 5), 4, 0.05),
    ],
)
@pytest.mark.slow
def test_releases_fit_the_law(q, k, epsilon):
    assert fits(JointTopK(k=k, epsilon=epsilon, sensitivity=COUNTING), q, list(q), seed=11) > 1e-4


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.slow
def test_a_domain_has_the_law_of_its_list(k):
    """Zeros in front, between and behind, a listed zero, a negative answer; outside and repeated positions are dropped."""
    mechanism = JointTopK(k=k, epsilon=0.8, sensitivity=EITHER, domain_size=7)
    answers, positions = [3, 0, -2, 9, 9, 1], [4, 1, 5, 99, 4, 2]
    assert fits(mechanism, answers, [0, 0, 1, 0, 3, -2, 0], seed=12, positions=positions) > 1e-4


@pytest.mark.slow
def test_rows_that_are_computed_again(monkeypatch):
    monkeypatch.setattr(sampler, "_KEPT", 0)
    q, k, rate = LISTS[6]
    assert_law(race(q, k, rate), q, k, rate)
    assert (
        fits(
            JointTopK(k=2, epsilon=1, sensitivity=COUNTING),
            (5, 3, 2, 2, 0),
            [5, 3, 2, 2, 0],
            seed=13,
        )
        > 1e-4
    )


def test_a_huge_domain_and_huge_leads():
    wide = JointTopK(k=40, epsilon=1, sensitivity=COUNTING, domain_size=2**52)
    positions = np.arange(1000) * 4_000_000_000
    found = wide.release(np.full(1000, 3), positions=positions, entropy=Seeded(3)).indices
    assert np.unique(found).size == 40
    assert not np.isin(found, positions).any(), "nearly all sets are of zeros"
    sure = wide.release(
        np.arange(1000) * 9 + 50_000, positions=positions, entropy=Seeded(3)
    ).indices
    assert sure.tolist() == positions[960:].tolist()
    none = wide.release([], positions=[], entropy=Seeded(3)).indices
    assert np.unique(none).size == 40
    far = JointTopK(k=1, epsilon=2**30, sensitivity=COUNTING)
    assert far.release([-(10**30), 10**30, 0], entropy=Seeded(3)).indices.tolist() == [1]
    odd = [math.nan, None, math.inf, 5, -math.inf]
    assert JointTopK(k=1, epsilon=9, sensitivity=COUNTING).release(
        odd, entropy=Seeded(3)
    ).indices.tolist() == [2]


def test_all_of_them_are_released():
    assert JointTopK(k=3, epsilon=1, sensitivity=COUNTING).release([3, 9, 4]).indices.tolist() == [
        0,
        1,
        2,
    ]
    domain = JointTopK(k=4, epsilon=1, sensitivity=COUNTING, domain_size=4)
    assert domain.release([7, -7], positions=[2, 0]).indices.tolist() == [0, 1, 2, 3]
    report = audit.exact(
        JointTopK(k=2, epsilon=1, sensitivity=COUNTING), answers_a=[0, 1], answers_b=[1, 1]
    )
    assert not report.broken


def test_answers_between_steps():
    reals = JointTopK(
        k=2, epsilon=1, sensitivity=Sensitivity(bound=1, monotone=True, adjacency="add-remove")
    )
    assert reals.step == Fraction(1, 1 << 20)
    q = np.random.default_rng(1).random(20_000) * 40
    q[[7, 9]] = 400.25, 300.5
    assert reals.release(q, entropy=Seeded(1)).indices.tolist() == [7, 9]


def test_the_order_tells_nothing():
    best = JointTopK(k=3, epsilon=9, sensitivity=COUNTING).release(
        [1, 900, 2, 700, 800], entropy=Seeded(1)
    )
    assert best.indices.tolist() == [1, 3, 4]
    assert set(json.loads(json.dumps(best.to_dict()))) >= {"indices", "cost", "simulated"}
    assert not {"gaps", "gap"} & set(best.to_dict())


# --- costs


def test_costs():
    assert JointTopK(k=9, epsilon=1, sensitivity=COUNTING).cost == BoundedRange(epsilon=1)
    assert 0.123 < JointTopK(k=9, epsilon=1, sensitivity=COUNTING).cost.zcdp() < Fraction(1, 8)
    assert JointTopK(k=9, epsilon=1, sensitivity=COUNTING).rate == 1
    assert JointTopK(k=9, epsilon=1, sensitivity=EITHER).rate == Fraction(1, 2)


@pytest.mark.slow
def test_a_search_comes_near_epsilon_and_never_above():
    rng, found = np.random.default_rng(7), []
    for sensitivity, low in ((COUNTING, 0), (EITHER, -1)):
        for _ in range(60):
            n = int(rng.integers(2, 6))
            k = int(rng.integers(1, n))
            q = rng.integers(0, 18, n)
            moved = q + rng.integers(low, 2, n)
            moved[0] += (moved == q).all()
            report = audit.exact(
                JointTopK(k=k, epsilon=1, sensitivity=sensitivity),
                answers_a=q.tolist(),
                answers_b=moved.tolist(),
            )
            assert not report.broken
            found.append(float(report.epsilon_at_least))
    assert max(found) > 0.97


def stated(law, sensitivity):
    return audit.Subject(
        laws=[],
        stated=lambda q: law(list(q)),
        cost=BoundedRange(epsilon=1),
        sensitivity=sensitivity,
    )


def clipped(q):
    """The score clipped at 0 with the whole rate: it moves by up to a step either way."""
    weights = {}
    for chosen in combinations(range(len(q)), 2):
        regret = max(x for i, x in enumerate(q) if i not in chosen) - min(q[i] for i in chosen)
        weights[chosen] = mpmath.exp(-max(regret, 0))
    total = mpmath.fsum(weights.values())
    return [
        (chosen, (Decimal(str(w / total * (1 - 1e-12))), Decimal(str(w / total * (1 + 1e-12)))))
        for chosen, w in weights.items()
    ]


@pytest.mark.parametrize(
    ("law", "sensitivity", "a", "b"),
    [
        (lambda q: joint_sets(q, 2, Fraction(1)), EITHER, (30, 15, 0, 0), (30, 16, -1, -1)),
        (lambda q: joint_sets(q, 2, Fraction(2)), COUNTING, (40, 20, 0), (40, 21, 0)),
        (clipped, COUNTING, (3, *[2] * 8, 1), (3, *[3] * 8, 1)),
    ],
    ids=[
        "add-remove weights under replace-one",
        "the whole rate",
        "the clipped score at the whole rate",
    ],
)
def test_broken_weights_are_convicted(law, sensitivity, a, b):
    report = audit.exact(stated(law, sensitivity), answers_a=a, answers_b=b)
    assert report.broken


# --- refusals


def test_too_many_sets_are_refused_before_the_first_is_listed():
    with pytest.raises(InvalidParameter, match="vectors"):
        audit.exact(
            JointTopK(k=20, epsilon=1, sensitivity=COUNTING),
            answers_a=[0] * 60,
            answers_b=[*[0] * 59, 1],
        )


def test_what_is_refused():
    for bad in (0, -1, 1.5, None, True):
        with pytest.raises(InvalidParameter, match=r"^JointTopK\.k must be"):
            JointTopK(k=bad, epsilon=1, sensitivity=COUNTING)
    with pytest.raises(
        InvalidParameter, match="JointTopK.k must be at most the number of answers 2; got 3"
    ):
        JointTopK(k=3, epsilon=1, sensitivity=COUNTING).release([1, 2])
    with pytest.raises(
        InvalidParameter, match="JointTopK.k must be at most the domain size 2; got 3"
    ):
        JointTopK(k=3, epsilon=1, sensitivity=COUNTING, domain_size=2)
    with pytest.raises(InvalidParameter, match="JointTopK.release takes positions only when"):
        JointTopK(k=1, epsilon=1, sensitivity=COUNTING).release([1, 2], positions=[0, 1])
    with pytest.raises(
        InvalidParameter, match="JointTopK.release with a domain size needs positions"
    ):
        JointTopK(k=1, epsilon=1, sensitivity=COUNTING, domain_size=9).release([1, 2])


def test_a_set_costs_less_than_an_order():
    """Counts that lead by about 6 k/epsilon: the whole set at once, against one noise of k/epsilon on each."""
    counts = np.append(np.full(25, 240), np.full(175, 80))
    known = {"k": 25, "epsilon": 1, "sensitivity": COUNTING}
    entropy = Seeded(4)
    kept = [
        np.mean([np.sum(m.release(counts, entropy=entropy).indices < 25) / 25 for _ in range(20)])
        for m in (JointTopK(**known), NoisyTopK(**known))
    ]
    assert kept[0] > kept[1]
