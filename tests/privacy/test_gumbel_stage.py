"""What one stage of the Gumbel sparse vector costs: oracles, lists that come near and never above, and what fails."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, GumbelSparseVector, Sensitivity
from sordino.cost import (
    BoundedRange,
    GumbelStage,
    Pure,
    Range,
    compose,
    gumbel_stage as stages,
    repeat,
)
from sordino.cost.conversion import rdp_delta
from sordino.cost.loss_law import loss_laws
from sordino_audit import Subject
from sordino_audit.enumeration.subjects import subject_of

EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)


ONE_WAY = Fraction(0)
"""Answers that move one way start at an end of the interval of their moves."""


def monotone(epsilon):
    return GumbelStage.of(epsilon, monotone=True)


def general(epsilon):
    return GumbelStage.of(epsilon, monotone=False)


# --- lists ----------------------------------------------------------------------------------------------------------------------


def laws(weights, moves):
    """The two laws of the first place above: w_m / (A_m A_(m-1)), and 1/A_n for none; `moves` are the logarithms of w'/w."""
    one, other = (
        np.concatenate(([1.0], 1 + np.cumsum(w))) for w in (weights, weights * np.exp(moves))
    )
    p = np.append(weights / (one[1:] * one[:-1]), 1 / one[-1])
    q = np.append(weights * np.exp(moves) / (other[1:] * other[:-1]), 1 / other[-1])
    return p, q


def path(staying, rate, both, step=0.002, reach=14.0):
    """A list of many small weights whose answers move as far as they can, up where A'/A is below `staying` and down where not.

    So A'/A goes from 1 to `staying` and remains there, by moves to both ends in turn: the reward of a move is convex in its
    factor. With `both` an answer may fall by the rate; otherwise it stays where it is.
    """
    lowest = -rate if both else 0.0
    total, other, weights, moves = 1.0, 1.0, [], []
    while total < math.exp(reach):
        weight = total * math.expm1(step)
        move = rate if other < staying * total else lowest
        total, other = total + weight, other + weight * math.exp(move)
        weights.append(weight)
        moves.append(move)
    return np.array(weights), np.array(moves)


def divergence(p, q, alpha):
    return float(np.log(np.sum(p * np.exp((alpha - 1) * (np.log(p) - np.log(q)))))) / (alpha - 1)


def stick(p, q, epsilon):
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0)))


def random_lists(rng, rate, both, count):
    for _ in range(count):
        n = int(rng.integers(1, 30))
        weights = np.exp(rng.normal(rng.uniform(-4, 1), rng.uniform(0.1, 4), n))
        low = -rate if both else 0.0
        # All at one end, one change of the direction, or anything between.
        moves = rng.uniform(low, rate, n)
        kind = rng.integers(3)
        if kind:
            turn = rng.integers(n + 1)
            moves = np.where(np.arange(n) < turn, (rate, low)[kind - 1], (low, rate)[kind - 1])
        yield laws(weights, moves)


ORDERS = (1.05, 1.5, 2.0, 4.0, 8.0, 32.0)


@pytest.mark.parametrize("rate", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.sample(4)
def test_no_list_passes_the_curve_or_the_deltas(rate, both):
    stage, rng = (general if both else monotone)(rate), np.random.default_rng(11)
    for p, q in random_lists(rng, rate, both, 400):
        for one, two in ((p, q), (q, p)):
            for alpha in ORDERS:
                assert divergence(one, two, alpha) <= stage.rdp(alpha) * (1 + 1e-9)
            for share in (0, 0.25, 0.5, 0.9):
                assert (
                    stick(one, two, share * float(stage.pure()))
                    <= stage.delta(share * float(stage.pure())) + 1e-12
                )


@pytest.mark.parametrize("rate", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.each_value
def test_lists_of_many_small_weights_reach_the_curve(rate, alpha, both):
    """Smaller answers first, k = alpha - 1: up to where the ratio stays, and there."""
    k, stage = alpha - 1, (general if both else monotone)(rate)
    b = math.exp(2 * rate if both else rate)
    beta = (1 - b**-k) / (b - 1)
    staying = k * (1 + beta) / (beta * (1 + k)) * (math.exp(-rate) if both else 1)
    p, q = laws(*path(staying, rate, both))
    reached = max(divergence(p, q, alpha), divergence(q, p, alpha))
    assert 0.985 * stage.rdp(alpha) <= reached <= stage.rdp(alpha)


@pytest.mark.parametrize("rate", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.each_value
def test_lists_of_many_small_weights_reach_the_deltas(rate, share, both):
    stage = (general if both else monotone)(rate)
    epsilon = share * float(stage.pure())
    staying = math.exp(epsilon / 3 if both else (epsilon + rate) / 3)
    p, q = laws(*path(staying, rate, both))
    assert 0.98 * stage.delta(epsilon) <= stick(p, q, epsilon) <= stage.delta(epsilon)


# --- answers that move farther one way than the other ---------------------------------------------------------------------------

STARTS = {"0": 0.22797, "0.05": 0.21475, "0.1": 0.20232, "0.25": 0.16942, "0.5": 0.12854}
"""rho over the square of the width, at a width of .1."""


def started(width, start):
    return GumbelStage(epsilon=width, start=Fraction(start))


def one_sided(staying, width, start, step=0.002, reach=14.0):
    """The list that goes to `staying` as fast as it may and remains there; A'/A is 1 at first, and moves lie in the interval."""
    low, high = -float(start) * width, (1 - float(start)) * width
    total, other, weights, moves = 1.0, 1.0, [], []
    while total < math.exp(reach):
        weight = total * math.expm1(step)
        move = high if other < staying * total else low
        total, other = total + weight, other + weight * math.exp(move)
        weights.append(weight)
        moves.append(move)
    return np.array(weights), np.array(moves)


@pytest.mark.parametrize("start", STARTS)
def test_the_rho_of_every_start_is_what_it_was_said_to_be(start):
    stage = started(Fraction(1, 10), start)
    assert float(stage.zcdp()) * 100 == pytest.approx(STARTS[start], abs=2e-5)
    assert stage.pure() == (2 - Fraction(start)) / 10


@pytest.mark.parametrize("start", ["0.05", "0.25", "0.4"])
@pytest.mark.parametrize("width", [0.2, 1.0, 3.0])
def test_no_list_with_a_start_passes_its_curve_or_its_deltas(width, start):
    stage, rng, share = started(width, start), np.random.default_rng(12), float(Fraction(start))
    low, high = -share * width, (1 - share) * width
    passed = 0.0
    for _ in range(400):
        n = int(rng.integers(1, 30))
        weights = np.exp(rng.normal(rng.uniform(-4, 1), rng.uniform(0.1, 4), n))
        turn = rng.integers(n + 1)
        moves = rng.uniform(low, high, n)
        if kind := rng.integers(3):
            ends = (high, low) if kind == 1 else (low, high)
            moves = np.where(np.arange(n) < turn, *ends)
        p, q = laws(weights, moves)
        for one, two in ((p, q), (q, p)):
            for alpha in ORDERS:
                assert divergence(one, two, alpha) <= stage.rdp(alpha) * (1 + 1e-9)
                passed = max(passed, divergence(one, two, alpha) / started(width, "1/2").rdp(alpha))
            for part in (0, 0.25, 0.5, 0.9):
                epsilon = part * float(stage.pure())
                assert stick(one, two, epsilon) <= stage.delta(epsilon) + 1e-12
    # Answers that move farther one way cost more than those that move as far either way.
    assert passed > 1 or start == "0.4"


@pytest.mark.parametrize("start", ["0.05", "0.25", "0.4"])
@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
def test_lists_with_a_start_reach_the_curve(start, alpha):
    """The best place to stay is looked for among many, in both orders; the curve is that of the worse one."""
    width, stage = 1.0, started(1.0, start)
    best = 0.0
    for staying in np.linspace(
        math.exp(-float(Fraction(start))), math.exp(1 - float(Fraction(start))), 25
    ):
        p, q = laws(*one_sided(staying, width, Fraction(start), step=0.01, reach=12.0))
        best = max(best, divergence(p, q, alpha), divergence(q, p, alpha))
    assert 0.97 * stage.rdp(alpha) <= best <= stage.rdp(alpha) * (1 + 1e-9)


@pytest.mark.parametrize("start", ["0.05", "0.25", "0.4"])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_lists_with_a_start_reach_the_deltas(start, share):
    stage, q_ = started(1.0, start), float(Fraction(start))
    epsilon = share * float(stage.pure())
    # r* of the answers that were moved up, moved back.
    staying = math.exp((epsilon + 1 + q_) / 3 - q_)
    p, q = laws(*one_sided(staying, 1.0, Fraction(start)))
    assert 0.97 * stage.delta(epsilon) <= stick(p, q, epsilon) <= stage.delta(epsilon)


def test_every_start_costs_at_most_one_way():
    """ln V is convex in the start, so that the ends are the largest; and it falls towards the middle."""
    for width in (0.05, 0.5, 2.0):
        for alpha in (1.1, 2, 22):
            found = [started(width, start).rdp(alpha) for start in STARTS]
            assert all(a > b for a, b in itertools.pairwise(found))


def test_the_other_order_is_the_other_start():
    """V_{-alpha}(q) = V_{alpha - 1}(1 - q): what is played from the other end."""
    for alpha in ("1.5", "2", "9"):
        order = Decimal(alpha)
        for start in (Fraction(1, 10), Fraction(2, 5)):
            one = stages._decimal_log_moment(Decimal("0.7"), start, -order)
            other = stages._decimal_log_moment(Decimal("0.7"), 1 - start, order - 1)
            assert abs(one - other) < Decimal("1e-40")


# --- oracles --------------------------------------------------------------------------------------------------------------------


def test_oracles():
    def moment(k):
        return float(stages._decimal_log_moment(Decimal(1), ONE_WAY, Decimal(k)).exp())

    assert moment(1) == pytest.approx(1.569212893953, rel=1e-12)
    assert moment(-2) == pytest.approx(1.409655641383, rel=1e-12)
    assert monotone(0.1).rdp(8) == pytest.approx(0.01770617848094, rel=1e-11)
    assert general(0.1).rdp(8) == pytest.approx(0.04073670177531, rel=1e-11)
    assert monotone(0.5).delta(0.25) == pytest.approx(0.0699083354106, rel=1e-11)
    assert general(0.5).delta(0.25) == pytest.approx(0.1590862360549, rel=1e-11)
    assert monotone(0.5).epsilon(1e-6) == pytest.approx(0.9838478454969, rel=1e-11)
    assert general(0.5).epsilon(1e-6) == pytest.approx(1.481073917849, rel=1e-11)


@pytest.mark.parametrize(
    ("stage", "reached", "upper"),
    [
        (monotone(0.5), 0.0568573621057, 0.05686134720604),
        (general(0.5), 0.1274674876356, 0.1274753543868),
    ],
)
def test_oracles_of_rho(stage, reached, upper):
    assert reached <= stage.zcdp() <= upper
    grid = [1 + 10.0 ** (x / 20) for x in range(-60, 60)]
    assert max(stage.rdp(alpha) / alpha for alpha in grid) == pytest.approx(reached, rel=3e-4)


@pytest.mark.parametrize(
    ("rate", "count", "one_way", "both_ways"),
    [
        (0.05, 1, 0.096, 0.145),
        (0.05, 20, 0.666, 1.028),
        (0.2, 20, 2.98, 4.68),
        (0.2, 100, 7.28, 11.8),
        (0.5, 5, 3.63, 5.71),
    ],
)
def test_many_stages(rate, count, one_way, both_ways):
    for stage, value in ((monotone(rate), one_way), (general(rate), both_ways)):
        assert repeat(stage, count).epsilon(1e-6) == pytest.approx(value, rel=5e-3)
        assert repeat(stage, count).epsilon(1e-6) <= repeat(stage.interval, count).epsilon(1e-6)
        assert repeat(stage, count).zcdp() == count * stage.zcdp()


def by_formula(rate, both, alpha):
    """The divergence by the formula of the page, in 60 digits."""
    with mpmath.workdps(60):
        e, order = mpmath.mpf(rate), mpmath.mpf(alpha)
        b, r0 = mpmath.exp(2 * e if both else e), mpmath.exp(e) if both else mpmath.mpf(1)
        found = []
        for k in (order - 1, -order):
            beta = (1 - b**-k) / (b - 1)
            r = k * (1 + beta) / (beta * (1 + k))
            c = r ** (2 * k) * (1 - beta * (r - 1))
            integral = (r ** (2 * k + 1) - r0 ** (2 * k + 1)) / (2 * k + 1)
            w = (
                ((b - r) * c + b**-k * integral) / (b - r0)
                if r0 <= r
                else ((r - 1) * c - integral) / (r0 - 1)
            )
            found.append(mpmath.log(w) - (k * e if both else 0))
        return [x / (order - 1) for x in found]


@pytest.mark.parametrize("rate", [1e-8, 0.001, 0.3, 3.0, 40.0])
@pytest.mark.parametrize("alpha", [1 + 2**-30, 1.001, 2.0, 50.0, 1e3])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.each_value
def test_divergences_are_their_formula_rounded_up(rate, alpha, both):
    truth = max(by_formula(rate, both, alpha))
    found = GumbelStage.of(Fraction(rate), monotone=not both).rdp(alpha)
    # Floats add what they may have lost.
    lost = 2 * stages._QUICK_ERROR * (1 + alpha * rate * (1 + both)) / (alpha - 1)
    assert truth <= found <= truth * (1 + mpmath.mpf("1e-11")) + lost


def draw_moments(count):
    """Rates, ways and k all over the range in which a moment may be a float, corners among them."""
    rng = np.random.default_rng(23)
    for _ in range(count):
        start = Fraction(int(rng.integers(11)), 20)
        width = min(stages._QUICK_WIDTH, 10 ** rng.uniform(-9, 0.95))
        order = max(
            stages._QUICK_ORDER, 10 ** rng.uniform(-2.5, 1.85) / (width if rng.integers(4) else 1)
        )
        k = float(order if rng.integers(2) else -1 - order)
        reach = abs(k) * width
        if reach <= stages._QUICK_REACH and (
            width >= stages._LEAST_WIDTH or reach >= stages._LEAST_REACH
        ):
            yield width, start, k, reach


def test_floats_err_by_far_less_than_is_added():
    count, largest = 0, 0.0
    for width, start, k, reach in draw_moments(3000):
        true = stages._decimal_log_moment(Decimal(width), start, Decimal(k))
        error = float(Decimal(stages._quick_log_moment(width, float(start), k)) - true)
        assert stages._raise_log_moment(width, start, k) >= true
        largest = max(largest, abs(error) / (stages._QUICK_ERROR * (1 + reach)))
        count += 1
    assert count > 1500
    assert largest < 1 / 50


@pytest.mark.parametrize("rate", ["0.02", "0.05", "0.3", "1.9"])
def test_the_cost_of_a_usual_rate_needs_no_decimals(rate, monkeypatch):
    """A release asks for it while its user waits, and decimals take twenty times as long."""

    def refuse(*_):
        raise AssertionError

    known = [make(Fraction(rate)).zcdp() for make in (monotone, general)]
    stages._stage_rho.cache_clear()
    stages.stage_rdp.cache_clear()
    monkeypatch.setattr(stages, "_decimal_log_moment", refuse)
    assert [make(Fraction(rate)).zcdp() for make in (monotone, general)] == known
    assert general(Fraction(rate)).rdp(8.92606) < general(Fraction(rate)).pure()


def test_the_two_orders_of_general_answers_are_equal_and_those_of_monotone_ones_are_not():
    for alpha in (1.1, 2.0, 30.0):
        one, two = by_formula(0.5, True, alpha)
        assert abs(one - two) < mpmath.mpf(10) ** -50
        one, two = by_formula(0.5, False, alpha)
        assert one > 1.04 * two


# --- views ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [monotone, general])
@pytest.mark.parametrize("rate", [0, "1e-300", "1e-12", 0.01, 0.5, 3, 150, "1e300"])
@pytest.mark.each_value
def test_no_view_passes_the_interval_of_the_loss(make, rate):
    stage = make(Fraction(rate))
    assert stage.pure() == stage.interval.pure()
    assert stage.zcdp() <= stage.interval.zcdp()
    for alpha in (1 + 1e-12, 1.5, 2, 100, 1e9, math.inf):
        assert stage.rdp(alpha) <= stage.interval.rdp(alpha) * (1 + 1e-9)
        assert stage.rdp(alpha) <= float(stage.zcdp()) * alpha * (1 + 1e-9) or rate in {
            0,
            "1e300",
            "1e-300",
        }
    for delta in (0, 1e-12, 1e-6, 0.1, 0.9):
        assert stage.epsilon(delta) <= stage.interval.epsilon(delta)
        assert stage.delta(stage.epsilon(delta)) <= delta or stage.epsilon(delta) == math.inf
    for epsilon in (0.0, 0.005, 0.7):
        assert stage.delta(epsilon) <= stage.interval.delta(epsilon) * (1 + 1e-9) + 1e-300


def test_one_stage_is_its_own_deltas_and_curves_meet_them():
    for stage in (monotone(0.4), general(0.4)):
        for epsilon in (0.0, 0.2, 0.6):
            assert stage.delta(epsilon) <= rdp_delta(stage.rdp, epsilon)
        grid = [stage.delta(x / 50 * float(stage.pure())) for x in range(51)]
        assert all(a >= b for a, b in itertools.pairwise(grid))
        assert grid[-1] == 0


def test_larger_rates_cost_more():
    for make in (monotone, general):
        rates = [0.001 * 3.0**x for x in range(8)]
        found = [make(rate).zcdp() for rate in rates]
        assert all(a < b for a, b in itertools.pairwise(found))
    assert float(monotone(0.001).zcdp()) / 1e-6 == pytest.approx(0.22799, rel=5e-5)
    assert float(general(0.001).zcdp()) / 1e-6 == pytest.approx(0.51423, rel=5e-5)


def test_the_decimals_of_the_callers_thread_have_no_part_in_it():
    def views():
        stages._stage_rho.cache_clear()
        stages.stage_rdp.cache_clear()
        return [
            *(make(0.037).rdp(alpha) for make in (monotone, general) for alpha in (1.001, 1.7, 9)),
            monotone(0.037).zcdp(),
            Pure(epsilon=Fraction(1, 3)).zcdp(),
        ]

    expected = views()
    with localcontext(prec=2, Emax=3, Emin=-3):
        assert views() == expected


def test_a_rho_is_computed_once():
    stages._stage_rho.cache_clear()
    for _ in range(3):
        assert monotone(0.0371).zcdp() > 0
    assert stages._stage_rho.cache_info().misses == 1


@pytest.mark.parametrize("stage", [monotone(0.2), general(0.2), monotone(2)])
def test_the_law_of_a_stage_lies_just_above_its_deltas(stage):
    [[law]] = loss_laws(frozenset({(stage, 1)}))
    for share in (0.0, 0.1, 0.33, 0.5, 0.8):
        epsilon = share * float(stage.pure())
        assert (
            stage.delta(epsilon)
            <= law.delta(epsilon)
            <= stage.delta(epsilon) * 1.02 + 1e-4 * stage.delta(0)
        )


def test_mixed_lists_use_the_deltas():
    mixed = compose(
        repeat(monotone(0.1), 2), repeat(BoundedRange(epsilon=0.3), 2), Pure(epsilon=0.3)
    )
    known = compose(
        repeat(monotone(0.1).interval, 2), repeat(BoundedRange(epsilon=0.3), 2), Pure(epsilon=0.3)
    )
    assert mixed.epsilon(1e-6) < 0.95 * known.epsilon(1e-6)
    laws_of_it = loss_laws(frozenset({(monotone(0.1), 2), (Pure(epsilon=0.3), 1)}))
    assert min(max(law.epsilon(1e-6) for law in way) for way in laws_of_it) < repeat(
        monotone(0.1), 2
    ).pure() + Fraction(3, 10)


def test_lists_of_many_kinds_fall_back_on_the_intervals():
    """The laws of three stages have too many sums; those of their intervals do not."""
    mixed = compose(
        *(GumbelStage.of(Fraction(x, 100), monotone=x % 2 == 0) for x in range(10, 16)),
        Range(low=2, high=3),
    )
    known = compose(
        *(GumbelStage.of(Fraction(x, 100), monotone=x % 2 == 0).interval for x in range(10, 16)),
        Range(low=2, high=3),
    )
    for delta in (1e-6, 0.01, 0.2):
        assert mixed.epsilon(delta) <= known.epsilon(delta)
    assert mixed.delta(3) <= known.delta(3)


@pytest.mark.parametrize("count", [1, 2])
def test_a_mechanism_costs_a_stage_for_each_positive(count):
    for sensitivity, kappa, make in ((COUNTING, 1, monotone), (EITHER, 2, general)):
        m = GumbelSparseVector(
            threshold=0, positives=count, epsilon=count * (1 + kappa), sensitivity=sensitivity
        )
        assert m.cost == repeat(make(1), count)
        assert m.cost.pure() == count * (1 + kappa)


# --- what fails -----------------------------------------------------------------------------------------------------------------


def test_the_curve_of_monotone_answers_is_passed_by_others():
    p, q = laws(*path(math.exp(0.1), 0.5, True))
    assert divergence(p, q, 2) > 1.5 * monotone(0.5).rdp(2)


@pytest.mark.parametrize("alpha", [1.1, 2.0, 8.0])
def test_one_order_of_the_neighbors_is_not_enough(alpha):
    """The broken twin: the curve of "larger answers first" alone."""
    k, b = alpha - 1, math.exp(1)
    beta = (1 - b**-k) / (b - 1)
    p, q = laws(*path(k * (1 + beta) / (beta * (1 + k)), 1.0, False))
    assert divergence(p, q, alpha) > 1.05 * float(by_formula(1.0, False, alpha)[1])


def test_half_of_the_cost_is_convicted_by_the_audit():
    """A list of ten answers, enumerated exactly: within the claim, and beyond that of a stage of nine tenths of the rate."""
    m = GumbelSparseVector(threshold=0, positives=1, epsilon=2, sensitivity=COUNTING)
    honest = subject_of(m, 10)
    answers = [-3, -2, -2, -1, -1, 0, 0, 1, 1, 2]
    moved = [x + (i < 6) for i, x in enumerate(answers)]

    def sold(cost):
        subject = Subject(
            laws=[], stated=honest.stated, steps=honest.steps, cost=cost, sensitivity=EITHER
        )
        return audit.exact(subject, answers_a=answers, answers_b=moved, orders=[2], epsilons=[0.25])

    assert not sold(monotone(1)).broken
    assert sold(monotone(Fraction(7, 10))).broken
    assert not audit.exact(m, answers_a=answers, answers_b=moved).broken


def test_the_interval_of_a_stage_is_audited():
    m = GumbelSparseVector(threshold=0, positives=1, epsilon=2, sensitivity=COUNTING)
    report = audit.exact(m, answers_a=(18, -18), answers_b=(19, -18))
    assert report.interval_beyond_at_least == pytest.approx(0, abs=1e-6)
    assert monotone(1).interval == Range(low=1, high=2)
    assert general(1).interval == Pure(epsilon=3)
