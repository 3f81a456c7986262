"""Permute-and-flip and randomized response: exact laws, exact losses, twins that are convicted, releases that fit."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import (
    COUNTING,
    ExponentialMechanism,
    InvalidParameter,
    PermuteAndFlip,
    RandomizedResponse,
    Seeded,
    Sensitivity,
)
from sordino.cost import Pure, RandomizedChoice
from sordino.mechanisms.permute_and_flip import decide
from sordino.mechanisms.randomized_response import standing
from sordino.noise import Geometric
from support.choices import permute_and_flip, response, softmax
from support.enumeration import float_log, neighbours
from support.fit import LEVEL
from support.scripted import Scripted

HALF = Fraction(1, 2)
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
BASES = [(0, 0), (3, 0), (0, 0, 0), (0, 2, 1), (-4, 0, 0)]
BOX = 14


def fits(counts, expected):
    return stats.chisquare(counts, expected).pvalue


def law_of(q):
    """The law of `decide` over all geometric noise of a box and all turns, and what the box leaves out."""
    law = [Fraction(0)] * len(q)
    turns = math.lcm(*range(1, len(q) + 1))
    for noise in product(range(BOX), repeat=len(q)):
        mass = HALF ** (sum(noise) + len(q))
        rows = np.broadcast_to(np.array(q) + np.array(noise), (turns, len(q)))
        for i in decide(rows, np.arange(turns)).tolist():
            law[i] += mass / turns
    return law, 1 - sum(law)


@pytest.mark.parametrize("q", BASES)
@pytest.mark.slow
def test_noise_and_a_turn_among_equals_are_permute_and_flip(q):
    law, rest = law_of(q)
    for i in range(len(q)):
        assert 0 <= permute_and_flip(HALF, q, i) - law[i] <= rest
    assert rest < Fraction(1, 4000)


def test_the_public_priority_would_be_another_law():
    q = (0, 0)
    first = sum(HALF ** (a + b + 2) for a in range(60) for b in range(60) if a >= b)
    assert float(first) == pytest.approx(2 / 3)
    assert permute_and_flip(HALF, q, 0) == HALF


def test_decide_takes_its_turn_among_equals():
    assert [int(decide(np.array([5, 7, 1, 7, 7]), turn)) for turn in range(5)] == [1, 3, 4, 1, 3]
    assert decide(np.array([[1, 0], [0, 1], [2, 2]]), np.array([0, 3, 1])).tolist() == [0, 1, 1]
    huge = np.array([1 << 70, 3, 1 << 70], dtype=object)
    assert int(decide(huge, 1)) == 2


@pytest.mark.parametrize(
    "values",
    [(5, 0, 5), (5, 5, 1, 5), (0, 5, 5, 5, 2), (5, 5, 5, 0, 5), (0, 5, 5, 5, 5, 5, 1)],
    ids=str,
)
def test_all_words_together_give_each_of_the_equals_its_turn_equally_often(values):
    mechanism = PermuteAndFlip(epsilon=1, sensitivity=COUNTING)
    object.__setattr__(
        mechanism, "noise", SimpleNamespace(sample=lambda n, entropy: np.zeros(n, dtype=np.int64))
    )
    turns = Counter()
    for word in range(16):
        try:
            turns[mechanism.release(values, entropy=Scripted([word])).index] += 1
        except AssertionError:  # the script is over: this word is drawn again
            turns["again"] += 1
    best = {i for i, value in enumerate(values) if value == 5}
    assert turns.keys() - {"again"} == best
    assert len({turns[i] for i in best}) == 1, (
        "another number than that of the equals is no multiple of it"
    )


def test_oracles_of_permute_and_flip():
    r = math.exp(-0.5)  # T1 = T2
    assert permute_and_flip(r, (1, 0, 0), 0) == pytest.approx(0.516095820678, abs=1e-12)
    assert 1 - r + r**2 / 3 == pytest.approx(0.516095820678, abs=1e-12)
    assert permute_and_flip(r, (0, 1, 1), 0) == pytest.approx(r / 3, abs=1e-12)


@pytest.mark.parametrize(("monotone", "spread"), [(True, 1), (False, 2)])
def test_permute_and_flip_loses_epsilon_and_no_more(monotone, spread):
    worst = 0.0
    for q in BASES:
        for move in neighbours(len(q), monotone=monotone):
            other = tuple(a + b for a, b in zip(q, move, strict=True))
            for i in range(len(q)):
                worst = max(
                    worst,
                    abs(float_log(permute_and_flip(HALF, q, i) / permute_and_flip(HALF, other, i)))
                    / math.log(2),
                )
    assert worst == pytest.approx(spread, abs=1e-12)


def test_permute_and_flip_is_never_worse_than_the_exponential_mechanism():
    for q in BASES:
        gain = [
            sum(law(HALF, q, i) * q[i] for i in range(len(q)))
            for law in (permute_and_flip, softmax)
        ]
        assert gain[0] >= gain[1]


def test_the_auditor_convicts_flips_in_the_order_of_the_list():
    def play(answers, noise):  # the first item whose coin falls well
        q = np.array(answers)
        return (noise >= q.max() - q).argmax(axis=1)

    subject = audit.Subject(
        laws=[Geometric(Fraction(1))] * 2, play=play, cost=Pure(epsilon=2), sensitivity=EITHER
    )
    report = audit.exact(subject, answers_a=(0, 1), answers_b=(1, 0))
    assert report.broken
    assert report.epsilon_at_least > 30, "the second item is impossible where the first is the best"


def test_the_auditor_convicts_noise_for_monotone_answers_where_they_move_both_ways():
    def play(answers, noise):
        return decide(np.array(answers) + noise[:, :-1], noise[:, -1])

    laws = [*[Geometric(Fraction(1))] * 2, audit.Finite([1, 1])]
    report = audit.exact(
        audit.Subject(laws=laws, play=play, cost=Pure(epsilon=1)),
        answers_a=(0, 2),
        answers_b=(1, 1),
    )
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(2, abs=1e-9)


@pytest.mark.slow
def test_releases_fit_permute_and_flip():
    mechanism, entropy, draws = PermuteAndFlip(epsilon=1, sensitivity=EITHER), Seeded(3), 6000
    q, r = (1, 0, 0, -2), math.exp(-0.5)
    counts = np.bincount(
        [mechanism.release(q, entropy=entropy).index for _ in range(draws)], minlength=4
    )
    assert fits(counts, [draws * permute_and_flip(r, q, i) for i in range(4)]) > LEVEL
    assert fits(counts, [draws * softmax(r, q, i) for i in range(4)]) < LEVEL


# --- randomized response ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100])
@pytest.mark.slow
def test_releases_fit_randomized_response(n):
    mechanism, entropy, draws = RandomizedResponse(epsilon=1.5), Seeded(6), 3000
    counts = np.bincount(
        [mechanism.release(range(n), entropy=entropy).index for _ in range(draws)], minlength=n
    )
    r = math.exp(-1.5)
    honest = response(r, n, n - 1, n - 1)
    assert mechanism.truthful(n) == pytest.approx(honest)
    if n == 1:
        assert counts[0] == draws
        return
    assert fits([counts[-1], draws - counts[-1]], [draws * honest, draws * (1 - honest)]) > LEVEL
    assert stats.chisquare(counts[:-1]).pvalue > LEVEL if n > 2 else True


def test_randomized_response_loses_epsilon_wherever_the_largest_moves():
    n = 4
    losses = [
        abs(float_log(response(HALF, n, a, i) / response(HALF, n, b, i))) / math.log(2)
        for a, b, i in product(range(n), repeat=3)
    ]
    assert set(losses) == {0.0, 1.0}
    for a, b in [((1e308, 0, 0), (0, 0, 1e-300)), ((-7, 0, 5), (9, 8, 0))]:
        report = audit.exact(RandomizedResponse(epsilon=1.5), answers_a=a, answers_b=b)
        assert report.epsilon_at_least == pytest.approx(1.5, abs=1e-9)
        assert not report.broken


def test_with_a_known_number_of_answers_every_view_is_what_the_audit_finds():
    for n, (a, b) in {3: ((5, 0, 0), (0, 0, 9)), 5: ((5, 0, 0, 1, 1), (0, 0, 9, 1, 1))}.items():
        mechanism = RandomizedResponse(epsilon=1, candidates=n)
        assert mechanism.cost == RandomizedChoice(epsilon=mechanism.rate, choices=n)
        report = audit.exact(mechanism, answers_a=a, answers_b=b)
        assert not report.broken
        assert report.epsilon_at_least == pytest.approx(1, abs=1e-9)
    with pytest.raises(InvalidParameter, match="needs the 5 answers of RandomizedResponse; got 2"):
        audit.exact(mechanism, answers_a=(1, 0), answers_b=(0, 1))


@pytest.mark.parametrize(("choices", "broken"), [(2, False), (3, False), (4, True), (20, True)])
def test_the_auditor_convicts_a_cost_for_more_answers_than_there_are(choices, broken):
    def play(answers, noise):  # three to one for the largest of three
        return (int(np.argmax(answers)) + noise[:, 0]) % 3

    cost = RandomizedChoice(epsilon=Fraction("1.0987"), choices=choices)
    subject = audit.Subject(laws=[audit.Finite([3, 1, 1])], play=play, cost=cost)
    assert audit.exact(subject, answers_a=(1, 0, 0), answers_b=(0, 1, 0)).broken is broken


def test_a_release_of_another_number_of_answers_is_refused():
    mechanism = RandomizedResponse(epsilon=1, candidates=3)
    assert mechanism.release([0, 7, 1], entropy=Seeded(1)).cost == mechanism.cost
    for answers in ([0, 7], [0, 7, 1, 1], 5):
        with pytest.raises(
            InvalidParameter, match="needs 3 answers, as many as its candidates; got"
        ):
            mechanism.release(answers, entropy=Seeded(1))


def test_the_auditor_convicts_the_odds_of_one_coin_among_many():
    def play(
        answers, noise
    ):  # truthful with probability 3/4 whatever n: odds for two answers, sold for four
        best = int(np.argmax(answers))
        return np.where(noise[:, 0] == 0, best, (best + 1 + noise[:, 1]) % 4)

    subject = audit.Subject(
        laws=[audit.Finite([3, 1]), audit.Finite([1] * 3)],
        play=play,
        cost=Pure(epsilon=Fraction("1.0987")),
    )
    report = audit.exact(subject, answers_a=(1, 0, 0, 0), answers_b=(0, 0, 0, 1))
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(math.log(9), abs=1e-12)


@pytest.mark.parametrize(
    ("answers", "best"),
    [
        ([0.2, -1e300, 1e300], 2),
        ([1, 1, 0], 0),
        ([math.nan, -math.inf, -math.inf], 0),
        ([math.nan, -1e308], 1),
        ([math.inf, 5, math.inf], 0),
        ([10**400, 10**401, 3], 0),
        ([-(10**400), 3], 1),
        ([np.True_, 0.5], 0),
        ([Fraction(1, 3), 0.3333, True], 2),
        (["x", None, -5], 2),
        (np.array([2**53, 2**53 + 1]), 1),
        ([*np.array([], dtype=float).tolist(), 3], 0),
    ],
)
def test_the_largest_stands_one_step_above_all_others(answers, best):
    expected = [int(i == best) for i in range(len(answers))]
    assert standing(answers).tolist() == expected


def test_decimals_of_any_size_stand():
    from decimal import Decimal

    assert standing([Decimal("1e999999"), Decimal("sNaN"), Decimal(5), 1e308]).tolist() == [
        1,
        0,
        0,
        0,
    ]
    assert standing([Decimal("-1e999999"), Decimal(-5), Decimal("NaN")]).tolist() == [0, 1, 0]


@pytest.mark.parametrize("cls", [ExponentialMechanism, PermuteAndFlip, RandomizedResponse])
def test_bad_epsilons_are_refused(cls):
    known = {} if cls is RandomizedResponse else {"sensitivity": COUNTING}
    for bad in (0, -1, math.nan, math.inf, None, "1", True):
        with pytest.raises(
            InvalidParameter,
            match=rf"^{cls.__name__}\.epsilon must be a number in \(0, inf\); got ",
        ):
            cls(epsilon=bad, **known)


def test_nobody_is_advised_to_change_what_there_is_not():
    with pytest.raises(InvalidParameter, match=r"got 1e-13\. Raise epsilon\.$"):
        RandomizedResponse(epsilon=1e-13)
    with pytest.raises(InvalidParameter, match=r"Raise epsilon \(rho\) or give a larger step\.$"):
        PermuteAndFlip(epsilon=1e-13, sensitivity=COUNTING)


def test_other_bad_parameters_are_refused():
    for cls in (ExponentialMechanism, PermuteAndFlip):
        for bad in (None, 1, COUNTING.over(3)):
            with pytest.raises(InvalidParameter, match=rf"^{cls.__name__}\.sensitivity must be"):
                cls(epsilon=1, sensitivity=bad)
    for bad in (1, None, "yes"):
        with pytest.raises(
            InvalidParameter, match=r"^ExponentialMechanism\.gap must be True or False; got "
        ):
            ExponentialMechanism(epsilon=1, sensitivity=COUNTING, gap=bad)
