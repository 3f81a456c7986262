"""Guarantees of accuracy: never above the exact probability of success, attained by the hardest answers, and the margins they name."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from sordino import (
    COUNTING,
    ExponentialMechanism,
    GumbelSparseVector,
    InvalidParameter,
    LaplaceMechanism,
    NoisyTopK,
    PermuteAndFlip,
    Seeded,
    Sensitivity,
    SparseVector,
    plan,
)
from sordino.constraints import exact
from sordino.mechanisms.crossings.split import Task, log_success
from sordino.noise import DiscreteLaplace, Geometric
from sordino.plan import _accuracy as success_module
from sordino.plan._accuracy import (
    CHANCE,
    exponential_failure,
    gumbel_failure,
    peeled_failure,
    permuted_failure,
    success,
)
from support.choices import permute_and_flip, softmax
from support.enumeration import by_decide, by_formula, cdf, pmf
from support.quiet import gumbel_law

E, L = "exponential", "laplace"
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one")
COUNTS = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
REAL = Sensitivity(bound=1, monotone=True, adjacency="add-remove")
LN2 = Fraction(math.log(2))
HALF, THIRD, QUARTER = Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)


# --- the sum over the threshold ---------------------------------------------------------------------------------------------------


def by_sum(run, stages, low, high, query, threshold):
    """E[(P(X < Y - low)^run P(X >= Y - high))^stages], term by term with 30 digits."""
    with mpmath.workdps(30):
        r = mpmath.exp(-mpmath.mpf(query.rate.numerator) / query.rate.denominator)

    def reaches(x):
        if isinstance(query, Geometric):
            return r ** max(x, 0)
        return r**x / (1 + r) if x >= 0 else 1 - r ** (1 - x) / (1 + r)

    with mpmath.workdps(30):
        a = mpmath.mpf(threshold.rate.numerator) / threshold.rate.denominator
        reach = int(50 / a) + 1
        one_sided = isinstance(threshold, Geometric)
        whole = 1 - mpmath.exp(-a) if one_sided else mpmath.tanh(a / 2)
        return whole * mpmath.fsum(
            mpmath.exp(-a * abs(y)) * ((1 - reaches(y - low)) ** run * reaches(y - high)) ** stages
            for y in range(0 if one_sided else -reach, reach + 1)
        )


LAWS = list(product((Geometric, DiscreteLaplace), repeat=2))


@pytest.mark.parametrize(("query", "threshold"), LAWS)
@pytest.mark.parametrize(
    ("run", "stages", "low", "high", "rates"),
    [
        (3, 1, -4, 1, (HALF, THIRD)),
        (1, 2, -1, 2, (Fraction(1), Fraction(2))),
        (10**6, 1, -90, 7, (Fraction(1, 5), HALF)),
        (10**15, 3, -80, -3, (HALF, THIRD)),
        (7, 5, 5, 6, (QUARTER, QUARTER)),
        (40, 1, -300, 300, (Fraction(1, 60), Fraction(1, 40))),
        (5, 2, -20, 30, (Fraction(1, 3), Fraction(1, 50))),
    ],
)
@pytest.mark.sample(4)
def test_success_is_the_sum_to_ten_digits_and_never_above_it(
    query, threshold, run, stages, low, high, rates
):
    laws = query(rates[0]), threshold(rates[1])
    found, exact = (
        success(run, stages, low, high, *laws),
        float(by_sum(run, stages, low, high, *laws)),
    )
    assert exact * (1 - 2.0**-32) <= found <= exact


@pytest.mark.parametrize(("query", "threshold"), LAWS)
@pytest.mark.parametrize(
    "rates", [(Fraction(1, 60), Fraction(1, 20)), (Fraction(1, 10), Fraction(1, 90))]
)
@pytest.mark.sample(4)
def test_few_nodes_are_below_too_and_more_of_them_closer(monkeypatch, query, threshold, rates):
    run, stages, low, high = 20, 2, -300, 80
    laws = query(rates[0]), threshold(rates[1])
    exact = float(by_sum(run, stages, low, high, *laws))
    assert exact > 0.02
    short = []
    for nodes in (1 << 4, 1 << 6, 1 << 8):
        monkeypatch.setattr(success_module, "_MOST_NODES", nodes)
        short.append(exact - success(run, stages, low, high, *laws))
    assert min(short) >= 0
    assert short[1] <= max(short[0] / 4, 1e-10)
    assert short[2] <= 1e-3 * exact


def test_a_grid_of_a_million_steps_a_scale_is_close_to_the_continuous_task():
    for query, limit, margin in product((E, L), (E, L), (2.5, 40.0)):
        m = SparseVector(
            threshold=0,
            positives=2,
            epsilon=1,
            sensitivity=EITHER,
            noise=query,
            threshold_noise=limit,
            correction=3,
        )
        share = float(m.threshold_epsilon)
        expected = math.exp(log_success(Task(query, limit, 2, 2, False, 15, margin), share, 3.0))
        assert 1 - plan.accuracy(m, answers=15, alpha=margin).beta == pytest.approx(
            expected, abs=2e-6
        )


def geometric(ratio):
    return Geometric(Fraction(-math.log(ratio)))


def verdicts(q):
    """P(below, above, below, above, ...) under one threshold, summed over its noise."""
    total = Fraction(0)
    for rho in range(60):
        below = [cdf(E, THIRD, rho - x - 1) for x in q]
        total += pmf(E, HALF, rho) * math.prod(below[::2]) * math.prod(1 - p for p in below[1::2])
    return total


@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.parametrize("alpha", [0, 1, 2])
def test_it_is_the_probability_of_the_transcript_for_the_hardest_answers(resample, alpha):
    """All answers of a box that keep the margin, in fractions: none fails more often, and one as often."""
    stages, times = (1, 2) if resample else (2, 1)
    beta = 1 - success(1, stages, -alpha, alpha, geometric(THIRD), geometric(HALF)) ** times
    worst = 0.0
    for q in product(
        (-alpha, -alpha - 1), (alpha, alpha + 2), (-alpha, -alpha - 3), (alpha, alpha + 1)
    ):
        parts = [q[:2], q[2:]] if resample else [q]
        worst = max(worst, 1 - float(math.prod(verdicts(part) for part in parts)))
    assert worst == pytest.approx(beta, abs=1e-9)


def test_oracles_of_the_sparse_vector():
    m = SparseVector(
        threshold=0, positives=1, epsilon=1, sensitivity=EITHER, threshold_noise=L, split=HALF
    )
    alpha = 4 * (math.log(10) + math.log(4))
    exact = plan.accuracy(m, answers=10, alpha=alpha).beta
    assert exact == pytest.approx(0.2554, abs=5e-5)
    assert exact > 0.0889, "the bound in print is below the truth"
    best = SparseVector(
        threshold=0,
        positives=1,
        epsilon=1,
        sensitivity=EITHER,
        threshold_noise=L,
        split=HALF,
        correction="optimal",
        correction_run=10,
    )
    rightly = 1 - plan.accuracy(best, answers=10, alpha=0).beta
    assert rightly == pytest.approx(0.0289486222218, abs=1e-7)  # C10
    assert (
        rightly < 0.0350493899481
    )  # C9, the product over questions: it promises what does not hold
    options = {
        "threshold": 0,
        "positives": 1,
        "epsilon": 1,
        "sensitivity": REAL,
        "correction_run": 20,
        "correction_margin": 5,
    }
    split = SparseVector(split="success", correction="optimal", **options)
    assert 1 - plan.accuracy(split, answers=20, alpha=5).beta == pytest.approx(0.7171, abs=1e-4)


def test_oracle_of_the_incomplete_beta_function():
    """C12: exponential noise on both sides, r >= alpha, c stages under one threshold."""
    c, k, alpha, r = 3, 20, 20.0, 30.0
    m = SparseVector(threshold=0, positives=c, epsilon=1, sensitivity=REAL, correction=r)
    s, b = (float(m.step / law.rate) for law in (m.noise, m.threshold_noise))
    w = math.exp(-(r + alpha) / s)
    closed = (
        s
        / b
        * math.exp(2 * alpha * c / s)
        * w ** (-s / b)
        * mpmath.betainc(c + s / b, k * c + 1, 0, w)
    )
    assert 1 - plan.accuracy(m, answers=k, alpha=alpha).beta == pytest.approx(
        float(closed), abs=1e-5
    )


def test_answers_and_thresholds_between_steps_are_taken_at_their_worst():
    m = SparseVector(threshold=0.25, positives=1, epsilon=2, sensitivity=COUNTS, correction=0.5)
    assert m.cut().steps == 1
    expected = 1 - success(
        5, 1, math.floor(0.25 - 3.5) - 1, math.floor(0.25 + 3.5) - 1, m.noise, m.threshold_noise
    )
    assert plan.accuracy(m, answers=5, alpha=3.5).beta == pytest.approx(expected, rel=1e-9)
    assert (
        plan.accuracy(m, answers=5, alpha=Fraction(7, 2)).beta
        == plan.accuracy(m, answers=5, alpha=3.5).beta
    )
    assert plan.accuracy(m, answers=5, alpha=1e300).beta < 1e-9, "no answer lies beyond the clamp"


def test_new_thresholds_are_stages_of_their_own():
    options = {
        "threshold": 0,
        "positives": 3,
        "epsilon": 30,
        "sensitivity": COUNTS,
        "split": 0.5,
        "correction": 4,
    }
    one = SparseVector(**options)
    many = SparseVector(resample=True, **options)
    alone = success(9, 1, -9, 1, many.noise, many.threshold_noise)
    assert plan.accuracy(many, answers=9, alpha=5).beta == pytest.approx(1 - alone**3, rel=1e-9)
    together = success(9, 3, -9, 1, one.noise, one.threshold_noise)
    assert plan.accuracy(one, answers=9, alpha=5).beta == pytest.approx(1 - together, rel=1e-9)


def test_releases_succeed_as_often():
    m = SparseVector(
        threshold=0,
        positives=2,
        epsilon=3,
        sensitivity=COUNTING,
        correction="optimal",
        correction_run=4,
    )
    task, entropy = [-3] * 4 + [3] + [-3] * 4 + [3], Seeded(3)
    beta = plan.accuracy(m, answers=4, alpha=3).beta
    failed = np.mean(
        [m.release(task, entropy=entropy).indices.tolist() != [4, 9] for _ in range(1000)]
    )
    assert 0.1 < beta < 0.9
    assert abs(failed - beta) < 5 * math.sqrt(beta * (1 - beta) / 1000)


@pytest.mark.parametrize(
    ("run", "c", "low", "high"),
    [(1, 1, -2, 2), (3, 1, -1, 4), (1, 2, -3, 1), (2, 2, 0, 0), (2, 1, 3, -2)],
)
def test_gumbel_noise_fails_as_often_as_its_law_says(run, c, low, high):
    task = [low, *[low] * (run - 1), high] * c
    places = [(run + 1) * i + run for i in range(c)]
    expected = 1 - gumbel_law(task, 0.5, c)[len(task), *places]
    assert float(gumbel_failure(run, c, low, high, HALF)) == pytest.approx(expected, rel=1e-12)
    easier = [low - 1, *task[1:-1], high + 1]
    assert 1 - gumbel_law(easier, 0.5, c)[len(task), *places] < expected


# --- selections -------------------------------------------------------------------------------------------------------------------


def hardest(law, n, gap):
    """The largest probability of an item `gap` or more below the best, over all answers of a box."""
    boxed = [q for q in product(range(gap + 2), repeat=n) if max(q) == gap + 1]
    return max(sum(law(HALF, q, i) for i in range(n) if q[i] <= max(q) - gap) for q in boxed)


@pytest.mark.parametrize(("n", "gap"), [(1, 1), (2, 1), (2, 3), (3, 1), (3, 2), (4, 1)])
def test_selections_of_one_fail_as_often_as_the_closed_form_says_at_worst(n, gap):
    exponential, permuted = exponential_failure(n, gap, LN2), permuted_failure(n, gap, LN2)
    assert float(exponential) == pytest.approx(float(hardest(softmax, n, gap)), abs=1e-12)
    assert float(permuted) == pytest.approx(float(hardest(permute_and_flip, n, gap)), abs=1e-12)
    assert float(peeled_failure(n, 1, gap, LN2)) == pytest.approx(float(exponential), abs=1e-15)


@pytest.mark.parametrize(("n", "k", "gap"), [(3, 2, 1), (4, 2, 2), (4, 3, 1), (3, 3, 1)])
def test_draws_without_replacement(n, k, gap):
    def failing(q):
        bad = {i for i in range(n) if q[i] <= sorted(q)[-k] - gap}

        def draws(left, turns):
            if not turns:
                return Fraction(0)
            whole = sum(HALF ** -q[i] for i in left)
            return sum(
                HALF ** -q[i] / whole * (1 if i in bad else draws(left - {i}, turns - 1))
                for i in left
            )

        return draws(frozenset(range(n)), k)

    worst = max(failing(q) for q in product(range(gap + 2), repeat=n))
    assert float(peeled_failure(n, k, gap, LN2)) == pytest.approx(float(worst), abs=1e-12)


@pytest.mark.parametrize(
    ("kind", "n", "k", "gap", "box"),
    [(E, 2, 1, 1, 12), (E, 3, 1, 2, 8), (E, 3, 2, 1, 8), (L, 2, 1, 1, 8), (L, 2, 1, 3, 8)],
)
def test_noisy_top_k_fails_as_often_as_the_sum_says_at_worst(kind, n, k, gap, box):
    worst, rest = 0.0, 1.0
    for q in product((0, gap, gap + 1) if n == 2 else (0, gap), repeat=n):
        bad = {i for i in range(n) if q[i] <= sorted(q)[-k] - gap}
        law = by_decide(kind, HALF, q, k, box=box)
        worst = max(
            worst, float(sum(mass for (winners, _), mass in law.items() if bad & set(winners)))
        )
        rest = 1 - float(sum(law.values()))
    law = (DiscreteLaplace if kind == L else Geometric)(LN2)
    found = 1 - success(n - k, 1, -gap, 1 << 60, law, law if k == 1 else Geometric(k * LN2))
    assert rest < 0.02
    assert worst <= found + 1e-9
    assert found <= worst + rest


def test_the_hardest_answers_of_a_top_k_by_its_formula():
    """k = 2 of 3: two tie at the top, the third stands before them in the public priority and `gap` steps lower."""
    failed = sum(
        by_formula(E, HALF, (0, 2, 2), winners, gaps, reach=25)
        for winners in ((0, 1), (0, 2), (1, 0), (2, 0))
        for gaps in product(range(10), repeat=2)
    )
    law = Geometric(LN2)
    assert 1 - success(1, 1, -2, 1 << 60, law, Geometric(2 * LN2)) == pytest.approx(
        float(failed), abs=4e-3
    )


def test_a_mechanism_is_asked_with_its_own_noise():
    """The least of k noises is geometric of k times the rate; one term after the other."""
    for k, n, gap in ((1, 9, 3), (2, 9, 3), (4, 5, 1)):
        m = NoisyTopK(k=k, epsilon=k, sensitivity=COUNTING)  # rate 1
        r = math.exp(-1)
        rightly = math.fsum(
            (1 - r**k) * r ** (k * x) * (1 - r ** (x + gap)) ** (n - k) for x in range(60)
        )
        assert plan.accuracy(m, answers=n, alpha=gap).beta == pytest.approx(1 - rightly, abs=1e-9)
    laplace = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING, noise=L)
    expected = 1 - float(by_sum(8, 1, -3, 1 << 60, laplace.noise, laplace.noise))
    assert plan.accuracy(laplace, answers=9, alpha=3).beta == pytest.approx(expected, abs=1e-9)
    for m, law in (
        (ExponentialMechanism(epsilon=2, sensitivity=COUNTS), exponential_failure),
        (PermuteAndFlip(epsilon=2, sensitivity=COUNTS), permuted_failure),
    ):
        assert plan.accuracy(m, answers=9, alpha=3).beta == pytest.approx(
            float(law(9, 3, Fraction(1))), rel=1e-12
        )
    gumbel = NoisyTopK(k=2, epsilon=4, sensitivity=COUNTS, noise="gumbel")
    assert plan.accuracy(gumbel, answers=9, alpha=3).beta == pytest.approx(
        float(peeled_failure(9, 2, 3, Fraction(1))), rel=1e-12
    )


def test_tiny_failures_keep_their_digits():
    assert float(permuted_failure(10**6, 90, Fraction(1))) == pytest.approx(
        (10**6 - 1) / 2 * math.exp(-90), rel=1e-12
    )
    assert float(permuted_failure(10**6, 400, Fraction(1))) == pytest.approx(
        (10**6 - 1) / 2 * math.exp(-400), rel=1e-12
    )
    assert float(peeled_failure(10**6, 3, 400, Fraction(1))) == pytest.approx(
        3 * (10**6 - 3) * math.exp(-400), rel=1e-5
    )
    assert float(exponential_failure(10**6, 400, Fraction(1))) == pytest.approx(
        (10**6 - 1) * math.exp(-400), rel=1e-12
    )


@pytest.mark.parametrize(
    "law",
    [exponential_failure, permuted_failure, lambda n, gap, rate: peeled_failure(n, 2, gap, rate)],
)
def test_failures_fall_with_the_gap_over_all_its_sizes(law):
    found = [law(40, gap, Fraction(1, 7)) for gap in range(1, 1200, 7)]
    assert found == sorted(found, reverse=True)
    assert 0 < found[-1] < found[0] < 1


# --- margins ----------------------------------------------------------------------------------------------------------------------

MECHANISMS = {
    "sparse vector": SparseVector(threshold=100.5, positives=2, epsilon=1, sensitivity=COUNTING),
    "sparse vector real": SparseVector(
        threshold=0.1, positives=1, epsilon=1, sensitivity=REAL, noise=L, correction=5
    ),
    "gumbel sparse vector": GumbelSparseVector(
        threshold=10, positives=2, epsilon=4, sensitivity=REAL
    ),
    "exponential": ExponentialMechanism(epsilon=1, sensitivity=COUNTING),
    "permute and flip": PermuteAndFlip(epsilon=0.5, sensitivity=REAL),
    "top": NoisyTopK(k=3, epsilon=1, sensitivity=COUNTING),
    "top real": NoisyTopK(k=1, epsilon=1, sensitivity=REAL, noise=L),
    "top gumbel": NoisyTopK(k=3, epsilon=1, sensitivity=COUNTS, noise="gumbel"),
    "top domain": NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING, domain_size=50),
}


@pytest.mark.parametrize("m", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("beta", [0.05, 1e-6])
@pytest.mark.sample(4)
def test_the_margin_is_the_least_whole_number_of_steps(m, beta):
    found = plan.accuracy(m, answers=50, beta=beta)
    over = exact(found.alpha) % m.step
    assert over <= Fraction(found.alpha) * 2**-52, "a whole number of steps"
    assert found.beta <= beta
    assert plan.accuracy(m, answers=50, alpha=found.alpha) == found, (
        "the number that is said keeps what is said of it"
    )
    if exact(found.alpha) > 2 * m.step:
        assert plan.accuracy(m, answers=50, alpha=exact(found.alpha) - over - m.step).beta > beta


@pytest.mark.parametrize("epsilon", [1, 0.7, 0.3, 0.01, 3.3])
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-6])
@pytest.mark.each_value
def test_a_margin_is_kept_as_the_decimal_that_it_is_printed_as(epsilon, beta):
    """A float means its shortest decimal, which may lie below it: one step less on the grid."""
    m = PermuteAndFlip(epsilon=epsilon, sensitivity=REAL)
    found = plan.accuracy(m, answers=50, beta=beta)
    assert plan.accuracy(m, answers=50, alpha=found.alpha).beta == found.beta <= beta


def test_answers_beyond_the_clamp_are_no_answers_apart():
    """What `accuracy` leaves out and says so."""
    m = PermuteAndFlip(epsilon=1, sensitivity=COUNTING)
    assert (
        m.release([2**54, 2**53], entropy=Seeded(3)).index
        != m.release([2**54, 2**53], entropy=Seeded(5)).index
    )
    assert "Answers of a selection lie within the clamp" in (plan.accuracy.__doc__ or "")


def test_nothing_can_go_wrong_where_all_are_selected():
    assert (
        plan.accuracy(NoisyTopK(k=4, epsilon=1, sensitivity=COUNTING), answers=4, alpha=1).beta == 0
    )
    assert (
        plan.accuracy(PermuteAndFlip(epsilon=1, sensitivity=COUNTING), answers=1, beta=0.5).beta
        == 0
    )


def test_statements_can_be_read_aloud():
    one = plan.accuracy(MECHANISMS["sparse vector real"], answers=7, alpha=30)
    assert one.statement.startswith("With probability at least 1 - 0.")
    assert one.statement.endswith(
        "7 answers at least 30 below the threshold are passed and then one at least 30 above it is found."
    )
    assert one.positives == 1
    two = plan.accuracy(MECHANISMS["sparse vector"], answers=7, alpha=30)
    assert " 2 times in a row 7 answers " in two.statement
    top = plan.accuracy(MECHANISMS["top"], answers=7, alpha=30)
    assert top.statement.endswith("each selected answer lies less than 30 below the best 3 of 7.")
    assert top.positives is None
    said = float(top.statement.partition("1 - ")[2].partition(",")[0])
    assert top.beta <= said <= top.beta * 1.0001, "rounded up"


@pytest.mark.parametrize(
    ("alpha", "said"),
    [
        (30, "30"),
        (3.5, "3.5"),
        (0.1, "0.1"),
        (Fraction(1, 3), "0.333334"),
        (1234560, "1234560"),
        (1234564.4, "1234570"),
        (10**400, "1e+400"),
    ],
)
def test_margins_are_rounded_up_in_statements(alpha, said):
    """A smaller margin is a stronger statement, of which nothing is known."""
    for m in (MECHANISMS["top"], MECHANISMS["sparse vector real"]):
        statement = plan.accuracy(m, answers=7, alpha=alpha).statement
        assert f" {said} " in statement
        assert "inf" not in statement


@pytest.mark.parametrize(
    ("m", "asked", "says"),
    [
        ("top", {"answers": 5}, "needs alpha, a margin, or beta"),
        ("top", {"answers": 5, "alpha": 1, "beta": 0.5}, "and not both"),
        ("top", {"answers": 2, "alpha": 1}, "answers must be at least 3 for this mechanism; got 2"),
        (
            "top domain",
            {"answers": 49, "alpha": 1},
            "answers must be the domain size 50 for this mechanism; got 49",
        ),
        ("top", {"answers": 5, "alpha": 0}, "alpha must be above 0"),
        ("sparse vector", {"answers": 0, "alpha": 1}, "answers must be a whole number"),
        ("sparse vector", {"answers": 1 << 53, "alpha": 1}, "answers must be a whole number"),
        ("sparse vector", {"answers": 5, "alpha": -1}, "alpha must be a number in"),
        *(
            ("sparse vector", {"answers": 5, "beta": bad}, "beta must be a number in")
            for bad in CHANCE.invalid
            if bad is not None
        ),
    ],
)
@pytest.mark.sample(2)
def test_bad_questions_are_refused(m, asked, says):
    with pytest.raises(InvalidParameter, match=rf"^plan\.accuracy.*{says}"):
        plan.accuracy(MECHANISMS[m], **asked)


def test_what_has_no_guarantee_is_refused():
    laplace = NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING, noise=L)
    with pytest.raises(InvalidParameter, match="with k = 1 where its noise is 'laplace'"):
        plan.accuracy(laplace, answers=5, alpha=1)
    with pytest.raises(InvalidParameter, match=r"must be a SparseVector, .*; got LaplaceMechanism"):
        plan.accuracy(LaplaceMechanism(epsilon=1, sensitivity=COUNTING), answers=5, alpha=1)
    hopeless = SparseVector(
        threshold=0, positives=1, epsilon=1, sensitivity=COUNTING, correction=-(2**52)
    )
    with pytest.raises(InvalidParameter, match="some margin within 2\\^52 steps"):
        plan.accuracy(hopeless, answers=5, beta=1e-6)
