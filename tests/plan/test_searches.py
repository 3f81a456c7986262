"""Accuracy of adaptive, hybrid and Gaussian searches: the probability of the task by enumeration, at the answers that make it hardest."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations, product

import mpmath
import numpy as np
import pytest

from sordino import (
    COUNTING,
    AdaptiveSparseVector,
    GaussianSparseVector,
    HybridSparseVector,
    HybridTopK,
    InvalidParameter,
    Seeded,
    Sensitivity,
    SparseVector,
    plan,
)
from sordino.constraints import exact
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from sordino.plan import _accuracy as success_module
from sordino.plan._accuracy import Questions, expected, log_tails, success
from support.enumeration import cdf, pmf

E, L = "exponential", "laplace"
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one")
REAL = Sensitivity(bound=1, monotone=True, adjacency="add-remove")
HALF, THIRD, TENTH = Fraction(1, 2), Fraction(1, 3), Fraction(1, 10)
LN2 = Fraction(math.log(2))


# --- sums over the threshold ------------------------------------------------------------------------------------------------------


def gaussian(rate, reach):
    """P(X = x) for |x| <= reach, with 30 digits; P(X >= x) for the same x and one more."""
    with mpmath.workdps(30):
        q, half = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator), [mpmath.mpf(1)]
        step, faster = q, q * q  # e^-(x + 1)^2 = e^-x^2 e^-(2 x + 1)
        for _ in range(reach):
            half.append(half[-1] * step)
            step *= faster
        weights = [*half[:0:-1], *half]
        whole = mpmath.fsum(weights)
        masses, tails, tail = [w / whole for w in weights], [mpmath.mpf(0)], mpmath.mpf(0)
        for mass in reversed(masses):
            tail += mass
            tails.append(tail)
        return masses, tails[::-1]


@pytest.mark.parametrize(
    ("rate", "reach"),
    [(Fraction(2), 12), (Fraction(1, 50), 90), (Fraction(1, 2 * 1000**2), 14_000)],
)
def test_tails_of_a_gaussian_are_never_above_the_truth_and_close(rate, reach):
    law, (_, tails) = DiscreteGaussian(rate), gaussian(rate, reach)
    x = np.unique(np.linspace(-reach + 1, reach, 101).astype(np.int64))
    below, above = log_tails(law, x)
    for at, low, high in zip(x.tolist(), below.tolist(), above.tolist(), strict=True):
        for log, truth in (
            (high, tails[at + reach]),
            (low, tails[1 - at + reach]),
        ):  # P(X < x) = P(X >= 1 - x)
            if truth > 1e-200 and abs(at) < 10 / math.sqrt(2 * rate):
                assert math.exp(log) <= truth * (1 + mpmath.mpf(10) ** -14)
                assert math.exp(log) >= truth * (1 - 2e-5)
            if truth > 0.5:
                assert 1 - math.exp(log) <= float(1 - truth) * (1 + 1e-4) + 2e-16 + (
                    rate if rate < TENTH**6 else 0
                )


@pytest.mark.parametrize(
    ("query", "rate"),
    [
        (DiscreteGaussian, Fraction(1, 90)),
        (Geometric, Fraction(1, 9)),
        (DiscreteLaplace, Fraction(1, 9)),
    ],
)
@pytest.mark.parametrize(
    ("run", "stages", "low", "high"), [(4, 1, -30, 5), (10**9, 2, -250, 5), (1, 3, 2, 3)]
)
@pytest.mark.each_value
def test_a_gaussian_threshold_is_summed_from_below(query, rate, run, stages, low, high):
    law, limit, reach = query(rate), DiscreteGaussian(Fraction(1, 60)), 90
    masses, _ = gaussian(limit.rate, reach)
    far, r = 400, mpmath.exp(-mpmath.mpf(1) / 9)
    tails = gaussian(rate, far)[1] if query is DiscreteGaussian else None

    def reaches(x):
        if tails is not None:
            return tails[x + far]
        if query is Geometric:
            return r ** max(x, 0)
        return r**x / (1 + r) if x >= 0 else 1 - r ** (1 - x) / (1 + r)

    with mpmath.workdps(30):
        truth = float(
            mpmath.fsum(
                mass * ((1 - reaches(y - low)) ** run * reaches(y - high)) ** stages
                for y, mass in zip(range(-reach, reach + 1), masses, strict=True)
            )
        )
    assert truth * (1 - 1e-9) <= success(run, stages, low, high, law, limit) <= truth


BRANCHES = (
    (Geometric(Fraction(1, 40)), Geometric(Fraction(1, 20)), Geometric(Fraction(1, 10))),
    (DiscreteLaplace(Fraction(1, 30)), DiscreteLaplace(Fraction(1, 15))),
)


def by_sum(limit, passed, found, times):
    """The same expectation, every number of the threshold noise once, in floats, from the closed forms of the laws."""
    y = np.arange(0 if isinstance(limit, Geometric) else -4000, 4000)
    total = limit.pmf(y)
    for law, height, count in passed:
        total = total * law.cdf(y - height - 1) ** count
    none = np.prod([law.cdf(y - height - 1) for law, height, _ in found], axis=0)
    return float((total * (1 - none) ** times).sum())


@pytest.mark.parametrize("laws", BRANCHES)
@pytest.mark.parametrize("limit", [Geometric(Fraction(1, 25)), DiscreteLaplace(Fraction(1, 25))])
@pytest.mark.parametrize("times", [0, 1, 5])
@pytest.mark.each_value
def test_several_branches_from_below_and_closer_with_more_nodes(monkeypatch, laws, limit, times):
    """Being found in any of several branches is no log-concave event: chords alone would not be below."""
    heights = (-260, -120, -60)
    passed = [
        Questions(law, height, 8 * max(times, 1))
        for law, height in zip(laws, heights, strict=False)
    ]
    found = [Questions(law, height + 150) for law, height in zip(laws, heights, strict=False)]
    truth, short = by_sum(limit, passed, found, times), []
    assert truth > 0.03
    for nodes in (1 << 4, 1 << 7, 1 << 14):
        monkeypatch.setattr(success_module, "_MOST_NODES", nodes)
        short.append(truth - expected(limit, passed, found, times))
    assert min(short) >= -1e-13
    assert short[1] <= max(short[0] / 8, 1e-10)
    assert short[2] <= 1e-9 * truth


# --- adaptive sparse vector -------------------------------------------------------------------------------------------------------


def turns(q, cuts, laws):
    """P(below, above, below, above, ...) under one threshold, above in any branch, in fractions."""
    total = Fraction(0)
    for rho in range(50):
        mass = pmf(E, HALF, rho)
        for i, answer in enumerate(q):
            none = math.prod(
                cdf(kind, r, rho + cut - answer - 1)
                for (kind, r), cut in zip(laws, cuts, strict=True)
            )
            mass *= 1 - none if i % 2 else none
        total += mass
    return total


@pytest.mark.parametrize("alpha", [0, 2])
def test_an_adaptive_task_at_the_hardest_answers(alpha):
    """All answers of a box that keep the margin: none fails more often than `expected` says, and one as often."""
    laws, cuts, rates = [(E, HALF), (E, HALF**2)], (2, 0), (LN2, 2 * LN2)
    passed = [
        Questions(Geometric(rate), -alpha - cut, 2) for rate, cut in zip(rates, cuts, strict=True)
    ]
    found = [Questions(Geometric(rate), alpha - cut) for rate, cut in zip(rates, cuts, strict=True)]
    beta = 1 - expected(Geometric(LN2), passed, found, 2)
    below, above = (-alpha, -alpha - 1), (alpha, alpha + 3)
    worst = max(1 - float(turns(q, cuts, laws)) for q in product(below, above, below, above))
    assert worst == pytest.approx(beta, abs=1e-9)


def test_an_adaptive_vector_is_asked_with_its_own_noise_and_boundaries():
    m = AdaptiveSparseVector(
        threshold=7, at_least=2, epsilon=3, sensitivity=COUNTING, boundaries=(4.5, 0.5)
    )
    cuts = [math.ceil(7 + 4.5) - 7, math.ceil(7 + 0.5) - 7]
    passed = [
        Questions(law, -5 - cut, 3 * 2) for law, cut in zip(m.branch_noise, cuts, strict=True)
    ]
    found = [Questions(law, 5 - cut) for law, cut in zip(m.branch_noise, cuts, strict=True)]
    beta = plan.accuracy(m, answers=3, alpha=5).beta
    assert beta == pytest.approx(1 - by_sum(m.threshold_noise, passed, found, 2), abs=1e-9)
    one = AdaptiveSparseVector(
        threshold=7, at_least=2, epsilon=3, sensitivity=COUNTING, branches=1, split=0.5
    )
    plain = SparseVector(threshold=7, positives=2, epsilon=3, sensitivity=COUNTING, split=0.5)
    assert (
        plan.accuracy(one, answers=3, alpha=5).beta == plan.accuracy(plain, answers=3, alpha=5).beta
    )


def often(m, task, places, runs=250):
    """How often a release of this list finds just these places."""
    entropy = Seeded(3)
    return float(
        np.mean(
            [
                sorted(m.release(task, entropy=entropy).indices.tolist()[: len(places)]) == places
                for _ in range(runs)
            ]
        )
    )


@pytest.mark.parametrize(
    ("m", "task", "places", "answers"),
    [
        (
            AdaptiveSparseVector(
                threshold=0,
                at_least=2,
                epsilon=4,
                sensitivity=COUNTING,
                correction="optimal",
                correction_run=4,
            ),
            ([-3] * 4 + [3]) * 2,
            [4, 9],
            4,
        ),
        (
            GaussianSparseVector(
                threshold=0, positives=2, rho=2, sensitivity=COUNTING, questions=10
            ),
            ([-3] * 4 + [3]) * 2,
            [4, 9],
            4,
        ),
        (
            HybridTopK(k=3, threshold=0, epsilon=3, sensitivity=COUNTING),
            [-3] * 5 + [3] * 3,
            [5, 6, 7],
            5,
        ),
        (
            HybridSparseVector(k=3, threshold=0, epsilon=4, sensitivity=COUNTING),
            [-3] * 5 + [3] * 2,
            [5, 6],
            5,
        ),
    ],
    ids=lambda x: type(x).__name__,
)
def test_releases_fail_no_more_often(m, task, places, answers):
    found = plan.accuracy(m, answers=answers, alpha=3)
    failed = 1 - often(m, task, places)
    assert 0.05 < found.beta < 0.95
    assert failed < found.beta + 5 * math.sqrt(found.beta / 250)
    if not isinstance(
        m, HybridTopK | HybridSparseVector
    ):  # there the hardest number of answers above may be another one
        assert failed > found.beta - 5 * math.sqrt(found.beta / 250)


# --- hybrids ----------------------------------------------------------------------------------------------------------------------


def failing(kind, order, k, box):
    """P(not just those above are selected), all noise of a box: sort, keep what reaches the threshold, cut. And what is left out."""
    one = np.arange(0 if kind == E else -box, box + 1)
    masses = np.array([float(pmf(kind, HALF, int(z))) for z in one])
    *noise, rho = np.meshgrid(*[one] * (len(order) + 1), indexing="ij")
    weights = np.prod(np.meshgrid(*[masses] * (len(order) + 1), indexing="ij"), axis=0)
    noisy = np.stack([q + z for (q, _), z in zip(order, noise, strict=True)], axis=-1)
    rank = np.argsort(np.argsort(-noisy, axis=-1, kind="stable"), axis=-1)
    selected = (noisy >= rho[..., None]) & (rank < k)
    wanted = np.array([up for _, up in order])
    return float(weights[(selected != wanted).any(axis=-1)].sum()), 1 - float(weights.sum())


@pytest.mark.parametrize(
    ("kind", "n", "k", "alpha"),
    [(E, 2, 1, 1), (E, 1, 2, 1), (E, 2, 2, 2), (L, 2, 1, 1), (L, 1, 2, 1)],
)
def test_hybrids_fail_as_often_as_it_says_at_worst(kind, n, k, alpha):
    """Every number of answers above from 0 to k, in every public order, at the margin or one further."""
    worst = rest = 0.0
    for s in range(k + 1):
        box = {1: 30, 2: 24, 3: 14, 4: 9}[n + s] // (1 if kind == E else 2)
        for extra in range(2 if n + s < 4 else 1):
            answers = (
                [(-alpha, False)] * (n - 1)
                + [(-alpha - extra, False)]
                + [(alpha, True)] * max(s - 1, 0)
            )
            for order in set(permutations(answers + [(alpha + extra, True)] * min(s, 1))):
                failed, left = failing(kind, order, k, box)
                worst, rest = max(worst, failed), max(rest, left)
    m = HybridTopK(k=k, threshold=0, epsilon=k, sensitivity=COUNTING, noise=kind)
    found = _failure(m, (Geometric if kind == E else DiscreteLaplace)(LN2), n, alpha)
    assert rest < 0.025
    assert worst <= found + 1e-9
    if kind == E or k == 1:
        assert found <= worst + rest
    else:
        assert worst + 0.01 < found <= 1.5 * worst, "a bound only, for Laplace noise and k > 1"


def _failure(m, law, n, alpha):
    """What `accuracy` says for this law instead of that of the mechanism: probabilities of the enumeration are binary fractions."""
    from sordino.plan._accuracy import _hybrid_task

    return _hybrid_task(m, law, law, n).failure(Fraction(alpha))


def test_hybrids_are_asked_with_their_own_noise():
    for m, limit in (
        (HybridTopK(k=3, threshold=9, epsilon=3, sensitivity=COUNTING), None),
        (HybridSparseVector(k=3, threshold=9, epsilon=6, sensitivity=COUNTING), "own"),
    ):
        threshold = m.noise if limit is None else m.threshold_noise
        short = by_sum(threshold, [Questions(m.noise, -4, 20)], [Questions(m.noise, 4)], 2)
        x = np.arange(4000)
        least = Geometric(3 * m.noise.rate)
        full = float((least.pmf(x) * m.noise.cdf(x + 8 - 1) ** 20 * threshold.cdf(x + 4)).sum())
        assert plan.accuracy(m, answers=20, alpha=4).beta == pytest.approx(
            1 - min(short, full), abs=1e-9
        )


# --- what is said, and what is refused --------------------------------------------------------------------------------------------

MECHANISMS = {
    "adaptive": AdaptiveSparseVector(threshold=100.5, at_least=2, epsilon=1, sensitivity=COUNTING),
    "adaptive real": AdaptiveSparseVector(
        threshold=0.1, at_least=1, epsilon=1, sensitivity=EITHER, noise=L
    ),
    "gaussian": GaussianSparseVector(
        threshold=0.5, positives=2, rho=1, sensitivity=REAL, questions=200
    ),
    "gaussian exponential": GaussianSparseVector(
        threshold=5, positives=2, rho=1, epsilon=1, noise="exponential", sensitivity=COUNTING
    ),
    "hybrid top": HybridTopK(k=3, threshold=5.5, epsilon=1, sensitivity=COUNTING),
    "hybrid top real": HybridTopK(k=2, threshold=5.5, epsilon=1, sensitivity=REAL, noise=L),
    "hybrid vector": HybridSparseVector(k=1, threshold=5.5, epsilon=1, sensitivity=REAL),
}


FINE = {
    "adaptive real",
    "gaussian",
    "hybrid top real",
    "hybrid vector",
}  # a grid of a million steps a scale


@pytest.mark.parametrize(
    "m",
    [
        pytest.param(m, id=name, marks=[pytest.mark.slow] if name in FINE else [])
        for name, m in MECHANISMS.items()
    ],
)
def test_the_margin_is_the_least_whole_number_of_steps(m):
    found = plan.accuracy(m, answers=50, beta=0.01)
    over = exact(found.alpha) % m.step
    assert over <= Fraction(found.alpha) * 2**-52, "a whole number of steps"
    assert found.beta <= 0.01
    assert plan.accuracy(m, answers=50, alpha=found.alpha) == found
    assert plan.accuracy(m, answers=50, alpha=exact(found.alpha) - over - m.step).beta > 0.01
    assert plan.accuracy(m, answers=50, alpha=2 * found.alpha).beta < found.beta


def test_statements_say_what_a_hybrid_is_asked():
    three = plan.accuracy(MECHANISMS["hybrid top"], answers=7, alpha=30)
    assert three.statement.endswith(
        "of 7 answers at least 30 below the threshold none is selected, and all others, where at most 3 lie at least 30 above it."
    )
    assert (
        three.positives,
        plan.accuracy(MECHANISMS["adaptive"], answers=7, alpha=30).positives,
    ) == (3, 2)
    assert (
        " at most one lies at least "
        in plan.accuracy(MECHANISMS["hybrid vector"], answers=7, alpha=30).statement
    )


def test_more_questions_than_are_paid_for_are_refused():
    m = MECHANISMS["gaussian"]
    assert plan.accuracy(m, answers=99, alpha=30).beta < 1
    with pytest.raises(
        InvalidParameter,
        match=r"^plan\.accuracy\.answers must be small enough for 200 questions, .*; got 100\.$",
    ):
        plan.accuracy(m, answers=100, alpha=30)
