"""The privacy loss of the hybrid top-k, enumerated exactly: no release loses more than it says it spent, and the bound is attained."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, HybridTopK, InvalidParameter, Seeded, Sensitivity
from sordino.cost import Pure
from sordino.mechanisms.hybrid_top_k import decide
from sordino.noise import Geometric
from sordino_audit import Subject
from sordino_audit.enumeration.subjects import subject_of
from support.enumeration import pmf
from support.hybrids import NOBODY, excess, neighbours, top, top_law, top_outcomes

HALF = Fraction(1, 2)
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)


def released(noisy, threshold, k):
    """What the product decides, in the words of the definition."""
    items, gaps = (row.tolist() for row in decide(np.append(np.array(noisy), threshold), k))
    s = sum(item >= 0 for item in items)
    assert items[s:] == [NOBODY] * (k - s)
    assert not any(gaps[s + 1 :])
    return tuple(items[:s]), tuple(gaps[:s]), s < k, gaps[s] if s < k else None


@pytest.mark.parametrize(
    ("n", "k", "high"),
    [(1, 1, 4), (2, 1, 4), (2, 2, 4), (3, 2, 3), (3, 3, 3), (4, 2, 2), (4, 3, 2)],
)
def test_decide_does_what_the_definition_says(n, k, high):
    for threshold, *noisy in product(range(high + 1), repeat=n + 1):
        assert released(noisy, threshold, k) == top(noisy, threshold, k)


def test_long_lists_and_lists_in_rows_are_decided_alike():
    rng = np.random.Generator(np.random.PCG64(1))
    for k in (1, 3, 7):
        rows = rng.integers(0, 30, (40, 101))
        items, gaps = decide(rows, k)
        for row, one, other in zip(rows, items, gaps, strict=True):
            assert released(row[:-1], row[-1], k) == top(row[:-1].tolist(), int(row[-1]), k)
            assert [x.tolist() for x in decide(row, k)] == [one.tolist(), other.tolist()]


def test_python_integers_are_decided_alike():
    huge = 1 << 70
    assert released([3, huge + 5, huge], huge - 2, 3) == ((1, 2), (5, 2), True, huge - 6)
    assert released([3, huge + 5, huge], huge, 2) == ((1, 2), (5, 0), False, None)


@pytest.mark.parametrize("kind", ["exponential", "laplace"])
@pytest.mark.parametrize(("q", "threshold", "k"), [((1, 0), 1, 1), ((1, 0), 1, 2), ((0, 2), 0, 2)])
@pytest.mark.slow
def test_the_law_of_the_definition_is_that_of_the_formula(kind, q, threshold, k):
    box = 5 if kind == "laplace" else 12
    support = range(-box, box + 1) if kind == "laplace" else range(box + 1)
    law = defaultdict(Fraction)
    for eta, *noise in product(support, repeat=len(q) + 1):
        items, gaps, _, margin = top(
            [a + b for a, b in zip(q, noise, strict=True)], threshold + eta, k
        )
        law[items, gaps, margin] += math.prod(pmf(kind, HALF, z) for z in (eta, *noise))
    rest = 1 - sum(law.values())
    assert rest < 6 * HALF**box
    for outcome in top_outcomes(len(q), k, 3):
        assert (
            law.get(outcome, 0)
            <= top_law(kind, HALF, q, threshold, k, outcome)
            <= law.get(outcome, 0) + rest
        )


def price(k, *, monotone):
    """What a release with s items may lose, in units of the rate: the threshold stands still, so it costs one bound and no spread."""
    return lambda s: (s + 1 if monotone else 2 * s + 1) if s < k else k * (1 if monotone else 2)


CASES = [
    ("exponential", 1, 1, True),
    ("exponential", 1, 1, False),
    ("exponential", 2, 1, True),
    ("exponential", 2, 1, False),
    ("exponential", 2, 2, True),
    ("exponential", 2, 2, False),
    ("laplace", 2, 1, False),
    ("laplace", 2, 2, True),
    pytest.param("exponential", 3, 2, True, marks=pytest.mark.slow),
    pytest.param("exponential", 3, 2, False, marks=pytest.mark.slow),
    pytest.param("exponential", 3, 3, True, marks=pytest.mark.slow),
    pytest.param("exponential", 3, 3, False, marks=pytest.mark.slow),
    pytest.param("laplace", 3, 2, False, marks=pytest.mark.slow),
    pytest.param("laplace", 3, 3, True, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kind", "n", "k", "monotone"), CASES)
def test_no_release_loses_more_than_it_spent_and_each_reaches_it(kind, n, k, monotone):
    reach = 40  # 2^-40 of the mass is left out, on both sides
    outcomes = list(top_outcomes(n, k, 2 if n < 3 else 1))
    pairs = neighbours(n, monotone=monotone)
    worst = excess(
        lambda q, outcome: top_law(kind, 0.5, q, 0, k, outcome, reach),
        outcomes,
        pairs,
        0.5,
        price(k, monotone=monotone),
    )
    assert set(worst) == set(range(k + 1))
    assert max(worst.values()) <= 1e-9
    if kind == "exponential":
        for s in range(k):
            assert worst[s] >= -1e-9, f"{s} items before the threshold reach their price"
        if monotone:
            assert worst[k] >= -1e-9


@pytest.mark.parametrize(
    ("k", "threshold"),
    [(1, 0), (1, -9), (2, 0), (2, -3), pytest.param(3, 0, marks=pytest.mark.slow)],
)
def test_where_all_items_are_released_the_price_is_not_approached(k, threshold):
    """The threshold alone is left, and stands still: one bound less than the price is lost at most, and that is attained."""
    pairs = neighbours(k, monotone=False)

    def law(q, outcome):
        return top_law("exponential", 0.5, q, threshold, k, outcome, 40)

    worst = excess(
        law,
        list(top_outcomes(k, k, 2 if k < 3 else 1)),
        pairs,
        0.5,
        lambda s: min(2 * s + 1, 2 * k - 1),
    )
    assert max(worst.values()) <= 1e-9
    assert worst[k] >= -1e-9


@pytest.mark.parametrize("threshold", [-1, 0, 1, 2])
def test_the_price_of_a_full_list_is_approached_as_the_threshold_falls(threshold):
    """Where answers move both ways only a loser that moves makes a full list pay in full, and the threshold never moves."""

    def loss(height):
        p, other = (
            top_law("exponential", HALF, q, height, 1, ((0,), (1,), None)) for q in ((1, 0), (0, 1))
        )
        return math.log2(p / other)

    assert loss(threshold - 1) > loss(threshold) < 2
    assert loss(-30) == pytest.approx(2, abs=1e-8)


def test_what_is_declared_is_what_is_enumerated():
    for statement in (COUNTING, EITHER):
        for k in (1, 2, 5):
            m = HybridTopK(k=k, threshold=3, epsilon=0.7, sensitivity=statement)
            units = price(k, monotone=statement.monotone)
            assert [m.spent(s).pure() for s in range(k + 1)] == [
                units(s) * m.noise.rate for s in range(k + 1)
            ]
            assert m.cost.pure() == m.spent(k).pure() == Fraction(7, 10)
    assert HybridTopK(k=10, threshold=3, epsilon=1, sensitivity=EITHER).spent(0).pure() == Fraction(
        1, 20
    )
    rounded = HybridTopK(
        k=3, threshold=3, epsilon=Fraction(1, 3) + Fraction(1, 3**30), sensitivity=EITHER
    )
    assert rounded.spent(1).pure() == 3 * rounded.noise.rate < Fraction(1, 6)
    off_grid = Sensitivity(bound=Fraction(3, 2), monotone=False, adjacency="replace-one", step=1)
    wide = HybridTopK(k=2, threshold=3, epsilon=1, sensitivity=off_grid)
    assert wide.spent(1).pure() == 3 * 2 * wide.noise.rate == Fraction(3, 4), (
        "one and a half steps are two"
    )


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("known", ["candidates", "domain_size"])
def test_as_many_items_as_places_need_less_noise(k, known):
    """A full list costs 2k - 1 bounds and not 2k; a mechanism that was told so refuses every other list."""
    alone = HybridTopK(k=k, threshold=3, epsilon=1, sensitivity=EITHER, **{known: k})
    among_others = HybridTopK(k=k, threshold=3, epsilon=1, sensitivity=EITHER, **{known: k + 1})
    assert (
        alone.noise.rate == Fraction(1, 2 * k - 1) > among_others.noise.rate == Fraction(1, 2 * k)
    )
    assert [alone.spent(s).pure() for s in range(k + 1)] == [
        min(2 * s + 1, 2 * k - 1) * alone.noise.rate for s in range(k + 1)
    ]
    assert [among_others.spent(s).pure() for s in range(k + 1)] == [
        min(2 * s + 1, 2 * k) * among_others.noise.rate for s in range(k + 1)
    ]
    monotone = HybridTopK(k=k, threshold=3, epsilon=1, sensitivity=COUNTING, **{known: k})
    assert monotone.noise.rate == Fraction(1, k)


def test_a_list_of_another_length_is_refused():
    three = HybridTopK(k=3, threshold=3, epsilon=1, sensitivity=EITHER, candidates=3)
    assert three.release([5, 4, 3]).indices.size <= 3
    for answers in ([5, 4], [5, 4, 3, 2]):
        with pytest.raises(
            InvalidParameter,
            match=r"at most the number of answers 2|as many answers as there are candidates, 3; got 4",
        ):
            three.release(answers)
    with pytest.raises(InvalidParameter, match="candidates must be at least k, 3; got 2"):
        HybridTopK(k=3, threshold=3, epsilon=1, sensitivity=EITHER, candidates=2)
    with pytest.raises(InvalidParameter, match="candidates must be None with a domain size"):
        HybridTopK(k=3, threshold=3, epsilon=1, sensitivity=EITHER, candidates=3, domain_size=3)
    with pytest.raises(InvalidParameter, match="candidates"):
        HybridTopK(k=3, threshold=3, epsilon=1, sensitivity=EITHER, candidates=0)


@pytest.mark.slow
def test_the_noise_of_a_list_without_others_is_convicted_where_there_are_others():
    """The broken twin: made for one item, and given two. As the threshold falls it loses two rates."""
    alone = HybridTopK(k=1, threshold=-20, epsilon=4, sensitivity=EITHER, candidates=1)
    others = HybridTopK(k=1, threshold=-20, epsilon=8, sensitivity=EITHER, candidates=2)
    assert others.noise == alone.noise
    report = audit.exact(
        twin(others, 2, cost=alone.cost, cost_of=None), answers_a=(1, 0), answers_b=(0, 1)
    )
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(8, abs=1e-5)


@pytest.mark.slow
def test_the_claims_hold_and_are_reached():
    general, monotone, laplace = audit.run_claims("HybridTopK")
    for report in (general, monotone):
        report.raise_if_broken()
        assert report.tight
    assert not laplace.broken
    losses = [report.epsilon_at_least for report in general.reports]
    assert losses == pytest.approx([2, 4, 6, 6, 6], abs=1e-6), (
        "1/2, all and 3/4 of epsilon 4, 4 and 8; all of 6 where there are no other items"
    )


@pytest.mark.parametrize(
    "options", [{}, {"noise": "laplace"}, {"threshold": 1.5}, {"sensitivity": COUNTING}]
)
@pytest.mark.slow
def test_a_search_finds_nothing_beyond_the_claim(options):
    m = HybridTopK(**({"k": 1, "threshold": 1, "epsilon": 6, "sensitivity": EITHER} | options))
    assert not audit.exact(m, search=True, n=2, limit=24).broken


@pytest.mark.parametrize(
    ("noise", "statement"),
    [("exponential", COUNTING), ("exponential", EITHER), ("laplace", COUNTING)],
)
@pytest.mark.slow
def test_a_domain_has_the_law_of_the_list(noise, statement):
    known = {"k": 2, "threshold": 1, "epsilon": 8, "sensitivity": statement, "noise": noise}
    for a, b in (((1, 0), (1, 1)), ((0, 2), (0, 1))):
        of_list, of_domain = (
            audit.exact(HybridTopK(**known, **two), answers_a=a, answers_b=b)
            for two in ({"candidates": 2}, {"domain_size": 2})
        )
        assert of_domain.epsilon_at_least == pytest.approx(of_list.epsilon_at_least, abs=1e-9)
        assert of_domain.outputs == of_list.outputs
        assert not of_domain.broken


def twin(m, n, **changes):
    """The mechanism as the auditor plays it, with something changed."""
    honest = subject_of(m, n)
    own = {
        "laws": honest.laws,
        "play": honest.play,
        "steps": honest.steps,
        "cost": m.cost,
        "cost_of": honest.cost_of,
    }
    return Subject(**(own | {"sensitivity": m.sensitivity} | changes))


GENERAL = HybridTopK(k=2, threshold=0, epsilon=8, sensitivity=EITHER)
MONOTONE = HybridTopK(k=2, threshold=0, epsilon=4, sensitivity=COUNTING)


@pytest.mark.parametrize(("m", "b"), [(GENERAL, (1, 1)), (MONOTONE, (1, 1))])
@pytest.mark.slow
def test_a_threshold_that_is_not_paid_for_is_convicted(m, b):
    def one_less(output):
        s = sum(item >= 0 for item in output[:2])
        return m.spent(s - 1) if 0 < s < 2 else Pure(epsilon=0) if not s else m.cost

    assert not audit.exact(twin(m, 2), answers_a=(0, 0), answers_b=b).broken
    report = audit.exact(twin(m, 2, cost_of=one_less), answers_a=(0, 0), answers_b=b)
    assert report.broken
    assert report.beyond_at_least == pytest.approx(float(m.spent(0).pure()), abs=1e-6)


@pytest.mark.slow
def test_a_threshold_at_half_price_in_a_monotone_list_is_convicted():
    report = audit.exact(
        twin(
            MONOTONE,
            2,
            cost_of=lambda out: Pure(epsilon=1 if out[0] < 0 else 3 if out[1] < 0 else 4),
        ),
        answers_a=(0, 0),
        answers_b=(1, 1),
    )
    assert report.broken, "(2s + 1)/(2k) is for lists whose noise is twice as large"


def raw(noisy, k):
    """The broken twin: the last gap as it is."""
    order = np.argsort(-noisy, axis=-1, kind="stable")
    values = np.take_along_axis(noisy, order, axis=-1)
    here = order[..., :k] == noisy.shape[-1] - 1
    ended = np.logical_or.accumulate(here, axis=-1)
    gaps = values[..., :k] - values[..., 1 : k + 1]
    return np.concatenate(
        [np.where(ended, -1, order[..., :k]), np.where(ended & ~here, 0, gaps)], axis=-1
    )


@pytest.mark.slow
def test_the_raw_last_gap_is_convicted():
    m = HybridTopK(k=1, threshold=-20, epsilon=6, sensitivity=EITHER)
    pair = {"answers_a": (0, 0, 0), "answers_b": (1, -1, -1)}
    assert not audit.exact(twin(m, 3), **pair).broken
    report = audit.exact(twin(m, 3, play=lambda items, noise: raw(items + noise, 1)), **pair)
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(12, abs=1e-5), (
        "on which side of the priority the best loser stands is not free"
    )


@pytest.mark.slow
def test_noise_for_monotone_lists_where_answers_move_both_ways_is_convicted():
    m = HybridTopK(k=2, threshold=0, epsilon=4, sensitivity=COUNTING)
    report = audit.exact(twin(m, 2, sensitivity=EITHER), answers_a=(1, 0), answers_b=(0, 1))
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(6, abs=1e-6), (
        "(2s + 1) rates with one item before the threshold, not s + 1"
    )


@pytest.mark.slow
def test_a_threshold_between_the_steps_is_convicted():
    """What rounding the threshold is for: else a margin in half steps says that the threshold, and nobody else, is the best loser."""

    def between(q, noise):
        doubled = 2 * (np.append(np.array(q), 0) + noise)
        doubled[:, -1] += 1
        order = np.argsort(-doubled, axis=-1, kind="stable")
        best, second = (np.take_along_axis(doubled, order, axis=-1)[:, i] for i in (0, 1))
        loses_ties = order[:, 1] < order[:, 0]
        return np.stack([order[:, 0], best - second - 2 * loses_ties], axis=1)

    def on_the_grid(q, noise):
        both = np.append(np.array(q), 1) + noise
        return np.concatenate(decide(both, 1), axis=-1)

    for play, loss in ((on_the_grid, 2), (between, 4)):
        for statement, b, rate in ((COUNTING, (0, 1), Fraction(2)), (EITHER, (-1, 1), Fraction(1))):
            subject = Subject(
                laws=[Geometric(rate)] * 3, play=play, cost=Pure(epsilon=2), sensitivity=statement
            )
            report = audit.exact(subject, answers_a=(0, 0), answers_b=b)
            assert report.broken == (loss > 2)
            if statement is COUNTING:
                assert report.epsilon_at_least <= loss + 1e-6


FINE = 64


def density(q, scale, outcome):
    """Log probability of an outcome with k = 2 on a grid so fine that it is nearly continuous."""
    r = math.exp(-1 / (scale * FINE))
    return math.log(
        top_law("exponential", r, tuple(x * FINE for x in q), 0, 2, outcome, reach=30 * FINE)
    )


def test_oracle_t8():
    """(1, 1) -> (2, 2) with scale 4, output (threshold, gap 0.4): log ratio 1/4, half of a share of epsilon 1 for k = 2."""
    outcome = ((), (), round(0.4 * FINE))
    assert density((1, 1), 4, outcome) - density((2, 2), 4, outcome) == pytest.approx(
        0.25, abs=1e-9
    )
    m = HybridTopK(
        k=2,
        threshold=0,
        epsilon=1,
        sensitivity=Sensitivity(bound=1, monotone=False, adjacency="add-remove"),
    )
    assert float(1 / (m.noise.rate * m.spent(2).pure())) * float(m.step) == pytest.approx(
        4, rel=1e-6
    )
    assert m.spent(0).pure() == Fraction(1, 4)


def test_table_of_losses():
    """Continuous limit: (2t - 1) epsilon/(2k) and t epsilon/k with t items, the threshold last, are attained."""
    one = ((0,), (FINE,), FINE // 2)
    assert density((1, 0), 4, one) - density((0, 1), 4, one) == pytest.approx(3 / 4, abs=1e-9)
    assert density((1, 0), 2, one) - density((1, 1), 2, one) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.slow
def test_a_release_tells_what_was_decided(noise):
    for threshold in (2, 2.25, -3):
        m = HybridTopK(k=2, threshold=threshold, epsilon=1, sensitivity=EITHER, noise=noise)
        q = [3, 1, 2]
        for seed in range(60):
            eta = m.noise.sample(4, Seeded(seed)).tolist()
            items, gaps, crossed, margin = top(
                [a + b for a, b in zip(q, eta, strict=False)], math.ceil(threshold) + eta[3], 2
            )
            top_k = m.release(q, entropy=Seeded(seed))
            assert top_k.indices.tolist() == list(items)
            assert top_k.gaps.tolist() == list(gaps)
            assert (top_k.crossed, top_k.threshold_margin) == (crossed, margin)
            assert top_k.cost == m.spent(len(items))
            if crossed:
                assert top_k.estimates.tolist() == [q[i] + eta[i] - eta[3] for i in items]
            else:
                assert np.isnan(top_k.estimates).all()


@pytest.mark.slow
def test_estimates_are_unbiased_before_selection():
    m = HybridTopK(k=3, threshold=100, epsilon=3, sensitivity=COUNTING)
    entropy = Seeded(5)
    seen = np.array([m.release([140, 180, 0], entropy=entropy).estimates for _ in range(800)])
    error = np.array([180.0, 140.0]) - seen
    deviation = math.sqrt(2 * m.noise.variance)
    assert (np.abs(error.mean(axis=0)) < 6 * deviation / math.sqrt(800)).all()
    assert error.var(axis=0) == pytest.approx(deviation**2, rel=0.3)
    assert np.cov(error.T)[0, 1] == pytest.approx(m.noise.variance, rel=0.4), (
        "they share the noise of the threshold"
    )
