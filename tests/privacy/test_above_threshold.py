"""AboveThreshold: its law against sums of other make, its losses over all neighbours of small lists, and twins that must be convicted."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product

import mpmath
import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import COUNTING, AboveThreshold, Seeded, Sensitivity
from sordino.cost import Pure, Range
from sordino.errors import InvalidParameter
from sordino.mechanisms.crossings.threshold_scan import (
    ThresholdScan,
    general_cost,
    monotone_cost,
    nested_cost,
)
from sordino.noise import Geometric
from sordino_audit import Crossings, Law, Subject
from sordino_audit.enumeration.searches import positions
from support.fit import LEVEL

EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
HALF, ONE = Fraction(1, 2), Fraction(1)


def scan(threshold, e1, e2):
    return ThresholdScan(threshold, Geometric(Fraction(e1)), Geometric(Fraction(e2)))


# --- the law ----------------------------------------------------------------------------------------------------------------------


def by_powers(threshold, e1, e2, answers):
    """P of each position and of none, in mpmath: noise that some test passes for certain one by one, the rest by inclusion-exclusion.

    Where all depths are positive, prod (1 - c_i y) with y = r2^z is a polynomial in y, and every power of y sums to a geometric series.
    """
    with mpmath.workdps(60):
        r1, r2 = (
            mpmath.exp(-mpmath.mpf(Fraction(e1).numerator) / Fraction(e1).denominator),
            mpmath.exp(-mpmath.mpf(float(e2))),
        )
        start = max(0, max(answers) - threshold + 1)
        found = []
        for k in range(len(answers) + 1):
            total = mpmath.mpf(0)
            for z in range(start):
                term = (1 - r1) * r1**z
                for f in answers[:k]:
                    term *= 1 - r2 ** max(threshold + z - f, 0)
                total += term * (
                    r2 ** max(threshold + z - answers[k], 0) if k < len(answers) else 1
                )
            powers = [mpmath.mpf(1)]  # of y = r2^(z - start)
            for f in answers[:k]:
                c = r2 ** (threshold + start - f)
                powers = [a - c * b for a, b in zip([*powers, 0], [0, *powers], strict=True)]
            if k < len(answers):
                powers = [0, *(r2 ** (threshold + start - answers[k]) * a for a in powers)]
            total += sum(a * (1 - r1) * r1**start / (1 - r1 * r2**j) for j, a in enumerate(powers))
            found.append(total)
        return found


LAWS = [
    (0, ONE, ONE, (0, 0)),
    (3, HALF, Fraction(1, 4), (0, 1, 1, 3, 2, 5)),
    (-2, Fraction(1, 8), 2, (4, -30, 0)),
    (5, 3, Fraction(1, 16), (0,)),
    (1, HALF, HALF, (60, -60, 60)),
]


@pytest.mark.parametrize(("threshold", "e1", "e2", "answers"), LAWS)
def test_the_audited_law_is_that_of_sums_of_powers(threshold, e1, e2, answers):
    told = positions(scan(threshold, e1, e2), answers)
    assert [output for output, _ in told] == [*range(len(answers)), None]
    for (_, (low, high)), expected in zip(told, by_powers(threshold, e1, e2, answers), strict=True):
        assert 0 <= low <= high
        assert high - low <= high * Decimal("1e-40") + Decimal("1e-50")
        assert float(low) == pytest.approx(float(expected), rel=1e-13, abs=1e-40)
    with localcontext(prec=70):
        assert abs(sum(high for _, (_, high) in told) - 1) < Decimal("1e-40")


def test_runs_are_equal_answers():
    one = scan(2, HALF, HALF)
    assert positions(one, [0, 3, 1], [2, 1, 3]) == positions(one, [0, 0, 3, 1, 1, 1])


def test_a_noise_that_cannot_be_added_up_is_refused():
    with pytest.raises(InvalidParameter, match="tests of the noisy threshold"):
        audit.exact(
            AboveThreshold(
                threshold=0, epsilon=1, sensitivity=Sensitivity(**vars(EITHER) | {"step": None})
            ),
            n=2,
            search=True,
        )


# --- oracles: the exponential law is the limit of ever finer grids ----------------------------------------------------------------


def limit(threshold, e1, e2, answers, k, finest=64):
    """P(k) for exponential noise, from grids of width 1/n, 2/n, 4/n, 8/n with three powers of the width eliminated."""

    def at(n):
        z = np.arange(n * 120)
        mass = -math.expm1(-e1 / n) * np.exp(-e1 / n * z)
        for i, f in enumerate(answers):
            passed = np.exp(-e2 / n * np.maximum(n * threshold + z - n * f, 0))
            mass = mass * (passed if i == k else 1 - passed)
            if i == k:
                break
        return mass.sum()

    row = [at(finest >> i) for i in range(4)]
    for i in range(1, 4):
        row = [(2**i * fine - coarse) / (2**i - 1) for fine, coarse in pairwise(row)]
    return row[0]


F = (0, 1, 1, 3, 2, 5)


def test_oracle_of_the_exponential_law():
    expo = Crossings(
        threshold=Law.exponential(2),
        queries=Law.exponential(Fraction(10, 3)),
        positives=1,
        at=3,
        cost=Pure(epsilon=9),
    )
    low, high = expo.log_probability(F, (0, 0, 0, 1))
    assert math.exp(low) <= 0.172207390705 + 1e-11
    assert math.exp(high) >= 0.172207390705 - 1e-11
    assert limit(3, 0.5, 0.3, F, 3) == pytest.approx(0.172207390705, abs=1e-9)


@pytest.mark.parametrize(
    ("threshold", "e1", "e2", "r", "expected"),
    # rho a^-rho B(a; rho, r + 1), rho = e1/e2, a = e^(-e2 threshold); the overshoot past the largest record, 1/(r + 1)
    [(5, 0.3, 0.6, 1000, 0.1255520642103), (0, 0.5, 0.5, 100, 0.00990099009901)],
)
def test_oracles_of_long_runs(threshold, e1, e2, r, expected):
    assert limit(threshold, e1, e2, [0] * r, None) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("r", [1, 300])
@pytest.mark.slow
def test_a_long_run_on_the_grid(r):
    law = dict(positions(scan(0, HALF, HALF), [0], [r]))
    with mpmath.workdps(50):
        x = mpmath.exp(-mpmath.mpf(1) / 2)
        expected = sum((1 - x) * x**z * (1 - x**z) ** r for z in range(400))
    assert float(law[None][0]) == pytest.approx(float(expected), rel=1e-12)
    assert (
        math.exp(-0.5) <= float(law[None][0]) * (r + 1) <= math.exp(0.5)
    )  # rounding moves the uniform e^(-e Z) by no more


@pytest.mark.parametrize(
    ("e1", "e2", "sensitivity", "pair", "loss"),
    [(0.4, 0.3, EITHER, ((0, 0), (1, -1)), 1.0), (0.4, 0.3, COUNTING, ((0, 0), (1, 0)), 0.7)],
)
def test_oracles_of_the_tight_pairs(e1, e2, sensitivity, pair, loss):
    m = AboveThreshold(
        threshold=0,
        epsilon=loss,
        sensitivity=sensitivity,
        ratio=Fraction(str(e1)) / Fraction(str(e2)),
    )
    assert (m.threshold_epsilon, m.answer_epsilon) == (Fraction(str(e1)), Fraction(str(e2)))
    report = audit.exact(m, answers_a=pair[0], answers_b=pair[1])
    assert report.witness.output == 1
    assert report.epsilon_at_least == pytest.approx(loss, abs=1e-12)
    assert report.epsilon_at_most == pytest.approx(loss, abs=1e-12)


# --- all neighbours of small lists ------------------------------------------------------------------------------------------------


def floats(one, lists):
    """The laws of many lists at once, shape (lists, answers + 1), in floats good to 1e-13."""
    f = np.asarray(lists)
    z = np.arange(int(45 / float(one.threshold_noise.rate)))
    left = np.tile(
        -math.expm1(-float(one.threshold_noise.rate))
        * np.exp(-float(one.threshold_noise.rate) * z),
        (len(f), 1),
    )
    law = []
    for answers in f.T:
        passed = np.exp(
            -float(one.noise.rate) * np.maximum(one.threshold + z - answers[:, None], 0)
        )
        law.append((left * passed).sum(axis=1))
        left = left * (1 - passed)
    return np.column_stack([*law, left.sum(axis=1)])


def worst(one, pairs):
    """The largest log ratio of the first to the second over all outputs and pairs, and of the second to the first."""
    ratios = np.log(floats(one, [f for f, _ in pairs]) / floats(one, [g for _, g in pairs]))
    return ratios.max(), -ratios.min()


def moved(f, moves):
    return tuple(a + b for a, b in zip(f, moves, strict=True))


SMALL = 1e-11


@pytest.mark.parametrize(("e1", "e2"), [(ONE, HALF), (HALF, ONE)])
def test_any_answers(e1, e2):
    lists = list(product((-1, 0, 1), repeat=2))
    high, low = worst(scan(0, e1, e2), [(f, moved(f, d)) for f in lists for d in lists])
    claim = general_cost(e1, e2)
    assert max(high, low) <= claim.pure() + SMALL
    assert high == pytest.approx(float(claim.pure()), abs=SMALL)


@pytest.mark.parametrize(("e1", "e2"), [(ONE, HALF), (HALF, ONE)])
def test_monotone_answers(e1, e2):
    pairs = [
        (f, moved(f, d)) for f in product((-1, 0, 1), repeat=3) for d in product((0, 1), repeat=3)
    ]
    high, low = worst(
        scan(0, e1, e2), pairs
    )  # the first has the smaller answers: a loss in [-e2, e1 + e2]
    claim = monotone_cost(e1, e2)
    assert high == pytest.approx(float(claim.high), abs=SMALL)
    assert low == pytest.approx(float(claim.low), abs=SMALL)


def nested_moves(n, rows):
    """What the counts rise by when a unit with so many records joins: each record is below all edges from some place on."""
    for places in combinations_with_replacement(range(n + 1), rows):
        yield tuple(sum(place <= i for place in places) for i in range(n))


@pytest.mark.parametrize(
    ("q", "b"), [(0, 1), (Fraction(1, 2), 2), (Fraction(1, 4), 4), (Fraction(3, 4), 4), (1, 1)]
)
@pytest.mark.parametrize(("e1", "e2"), [(Fraction(2), ONE), (ONE, Fraction(2))])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.each_value
def test_nested_answers(q, b, e1, e2, rows):
    lattice = [int(f) for f in (-b, 0, b, 2 * b)]
    pairs = [
        (
            tuple(a + b * c - int(q * b) * rows for a, c in zip(f, d, strict=True)),
            f,
        )  # the longer data set first
        for f in product(lattice, repeat=2)
        for d in nested_moves(2, rows)
    ]
    claim = nested_cost(e1, e2, Fraction(q))
    reached = [
        worst(scan(t, e1 / (b * rows), e2 / (b * rows)), pairs) for t in range(-b * rows, 2 * b + 1)
    ]
    assert max(high for high, _ in reached) == pytest.approx(float(claim.high), abs=SMALL)
    assert max(low for _, low in reached) == pytest.approx(float(claim.low), abs=SMALL)


@pytest.mark.parametrize("run", [16, 32])
def test_rising_lists_approach_the_cost(run):
    one = scan(0, HALF, HALF)  # q = 1/2 on a lattice of halves, e1 = e2 = 1
    high, _ = worst(one, [((-1,) * run + (1,), (0,) * run + (0,))])
    assert 1.5 - (1e-5 if run == 16 else 1e-10) <= high <= 1.5


# --- what releases do -------------------------------------------------------------------------------------------------------------


def chi_square(one, answers, lengths, drawn):
    law = positions(one, answers, lengths)
    expected = np.array([float(low) for _, (low, _) in law]) * len(drawn)
    places = [len(law) - 1 if k is None else k for k in drawn]
    observed = np.bincount(places, minlength=len(law))
    keep = expected > 5
    return stats.chi2.sf(((observed - expected)[keep] ** 2 / expected[keep]).sum(), keep.sum() - 1)


@pytest.mark.parametrize("lengths", [None, (1, 20, 3, 9)])
@pytest.mark.slow
def test_draws_follow_the_audited_law_and_no_other(lengths):
    answers, entropy = (0, -3, 2, 1), Seeded(11)
    one = scan(4, HALF, Fraction(1, 3))
    runs = None if lengths is None else np.array(lengths)
    drawn = [one.first(np.array(answers), runs, entropy) for _ in range(2000)]
    assert chi_square(one, answers, lengths, drawn) > LEVEL
    wrong = scan(4, HALF, Fraction(9, 20))
    assert chi_square(wrong, answers, lengths, drawn) < LEVEL


class Far:
    """A threshold whose noise is beyond 64 bits."""

    rate = ONE

    def sample(self, n, entropy):
        return np.array([3 << 61] * n, dtype=object)


@pytest.mark.slow
def test_noise_beyond_64_bits_keeps_the_law():
    rate = Fraction(1, 1 << 61)
    one = ThresholdScan(1 << 52, Far(), Geometric(rate))
    answers, runs, entropy = np.array([0, 1 << 61]), np.array([3, 4]), Seeded(5)
    drawn = [one.first(answers, runs, entropy) for _ in range(600)]
    p = np.repeat(np.exp([-3.0, -2.0]), runs)
    law = np.append(p * np.cumprod(np.append(1, 1 - p))[:-1], np.prod(1 - p))
    observed = np.bincount([7 if k is None else k for k in drawn], minlength=8)
    assert stats.chisquare(observed, law * len(drawn)).pvalue > LEVEL


def test_a_release_is_the_scan_on_the_grid():
    m = AboveThreshold(
        threshold=2.5,
        epsilon=1,
        sensitivity=Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=0.5),
    )
    values = [0.3, 2.2, -1, math.inf, math.nan]
    for seed in range(20):
        steps = np.array([0, 4, -2, 1 << 52, -(1 << 52)])
        assert m.release(values, entropy=Seeded(seed)).index == m.scan().first(
            steps, None, Seeded(seed)
        )
    assert m.scan().threshold == 5


# --- the audit of the mechanism ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_claim_is_attained():
    for report in audit.run_claims("AboveThreshold"):
        report.raise_if_broken()
        assert report.tight, report.claim.statement


@pytest.mark.parametrize("sensitivity", [EITHER, COUNTING])
def test_a_search_finds_the_loss_and_no_more(sensitivity):
    m = AboveThreshold(threshold=0, epsilon=2, sensitivity=sensitivity, ratio=2)
    report = audit.exact(m, n=2, search=True, limit=40)
    report.raise_if_broken()
    assert report.epsilon_at_least == pytest.approx(2, abs=1e-9)


def test_nested_pairs_are_taken_on_trust():
    m = AboveThreshold(threshold=0, epsilon=1, sensitivity=COUNTING, nested=True)
    assert not audit.exact(m, answers_a=(0, 1), answers_b=(0, 2)).checked
    assert audit.exact(
        AboveThreshold(threshold=0, epsilon=1, sensitivity=COUNTING),
        answers_a=(0, 1),
        answers_b=(0, 2),
    ).checked


# --- twins ------------------------------------------------------------------------------------------------------------------------


def stated(one, cost):
    return Subject(laws=[], stated=lambda f: positions(one, list(f)), cost=cost)


SOLD_TOO_CHEAP = {
    # what is sold: the cost of another line of the table, with neighbours of its own
    "any answers at the monotone cost": (scan(0, 1, 1), monotone_cost(ONE, ONE), (0, 0), (1, -1)),
    "monotone answers at the cost of a fixed count": (
        scan(0, 1, 1),
        nested_cost(ONE, ONE),
        (0, 0),
        (1, 0),
    ),
    "the ends of two lines exchanged": (
        scan(0, 2, 1),
        Range(low=1, high=Fraction(3, 2)),
        (0, 0),
        (1, 1),
    ),
    "e1 and e2 exchanged": (
        scan(5, 1, 2),
        nested_cost(Fraction(4), Fraction(2), HALF),
        (5, 0),
        (4, 1),
    ),
    # T = ceil(q n) moves with the data under add-remove: [0, 0] against [1, 1 of 2 records]
    "a fixed threshold that is not fixed": (
        scan(0, 1, 1),
        nested_cost(ONE, ONE),
        (0, 0, 0, 0),
        (-1, -1, 0, 0),
    ),
}


@pytest.mark.parametrize("name", SOLD_TOO_CHEAP)
def test_the_wrong_line_of_the_table_is_convicted(name):
    one, cost, f, g = SOLD_TOO_CHEAP[name]
    assert audit.exact(stated(one, cost), answers_a=f, answers_b=g).broken


def played(rule, laws, cost):
    return Subject(
        laws=laws, play=lambda f, noise: [rule(f, row.tolist()) for row in noise], cost=cost
    )


def first(f, noise, passed):
    return next(
        (
            i
            for i, (answer, z) in enumerate(zip(f, noise[1:], strict=True))
            if passed(answer, z, noise[0])
        ),
        None,
    )


def right(f, noise):
    return first(f, noise, lambda answer, z, t: answer + z >= t)


def mixed(f, noise):
    """Test a run of equal answers with >= at its first place and with > at the others, as two code paths for runs would."""
    return first(f, noise, lambda answer, z, t: answer + z > t if f[0] == f[1] else answer + z >= t)


def timed(f, noise):
    """Give up, with NONE, when the answers took long: many non-empty buckets, here large answers."""
    return None if sum(f) > 1 else right(f, noise)


PLAYED = {
    "> for runs and >= elsewhere": (mixed, (0, 0), (1, 0)),
    "none because of the clock": (timed, (1, 0), (1, 1)),
}


@pytest.mark.parametrize("name", PLAYED)
@pytest.mark.slow
def test_twins_are_convicted(name):
    rule, f, g = PLAYED[name]
    assert audit.exact(
        played(rule, [Geometric(ONE)] * 3, Pure(epsilon=2)), answers_a=f, answers_b=g
    ).broken
    assert not audit.exact(
        played(right, [Geometric(ONE)] * 3, Pure(epsilon=2)), answers_a=f, answers_b=g
    ).broken


@pytest.mark.slow
def test_a_second_positive_of_one_threshold_is_convicted():
    def on(f, noise):
        """Go on after the first positive with the same threshold, at the price of one call."""
        found = right(f, noise)
        return (
            found
            if found is None
            else (found, right(f[found + 1 :], [noise[0], *noise[found + 2 :]]))
        )

    report = audit.exact(
        played(on, [Geometric(ONE)] * 4, Pure(epsilon=2)),
        answers_a=(0, 0, 0),
        answers_b=(1, 0, 0),
        tail=1e-7,
    )
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(3, abs=1e-3)


@pytest.mark.parametrize("drawn", [1, 2])
@pytest.mark.slow
def test_a_threshold_that_is_not_drawn_anew_is_convicted(drawn):
    def twice(f, noise):
        """Two lists of one answer each: every call loses at most max(e1, e2) = 1, if it has a threshold of its own."""
        return right(f[:1], [noise[0], noise[2]]), right(f[1:], [noise[drawn - 1], noise[3]])

    report = audit.exact(
        played(twice, [Geometric(ONE)] * 4, Pure(epsilon=2)),
        answers_a=(0, 0),
        answers_b=(1, -1),
        tail=1e-7,
    )
    assert report.broken == (drawn == 1)
