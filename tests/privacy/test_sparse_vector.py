"""The privacy loss of sparse vectors, enumerated exactly: no transcript loses more than it says, and the bound is attained."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, Sensitivity, SparseVector
from sordino.cost import Pure
from sordino.noise import Geometric
from sordino_audit import Subject
from sordino_audit.enumeration.subjects import subject_of
from support.sparse_vectors import Rules, by_formula, by_play, outcome, transcripts, worst

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
ONE_SIDED, TWO_SIDED = ("exponential", HALF), ("laplace", HALF)
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
LN2 = math.log(2)

LAWS = [
    ((0, 0), Rules(ONE_SIDED, ("exponential", THIRD)), 11),
    ((1, -1), Rules(("exponential", THIRD), TWO_SIDED), 9),
    ((0, 1), Rules(TWO_SIDED, ONE_SIDED), 9),
    ((-1, 0, 1), Rules(ONE_SIDED, ("exponential", THIRD), positives=2), 7),
    ((0, -2), Rules(ONE_SIDED, ONE_SIDED, positives=2, resample=True), 8),
    ((0, -2), Rules(ONE_SIDED, ONE_SIDED, passes=2), 6),
    ((-1,), Rules(ONE_SIDED, ONE_SIDED, positives=2, passes=3), 8),
]


@pytest.mark.parametrize(("q", "rules", "width"), LAWS)
@pytest.mark.slow
def test_a_release_has_the_law_of_the_formula(q, rules, width):
    law = by_play(q, rules, width)
    rest = 1 - sum(law.values())
    reached = Fraction(0)
    for transcript in transcripts(len(q), rules, 3):
        mass = by_formula(q, rules, transcript)
        low = law.pop(outcome(transcript, len(q), rules), Fraction(0))
        assert low <= mass + Fraction(1, 10**12), transcript
        assert mass <= low + rest, transcript
        reached += low
    assert reached > HALF
    assert all(max((lift for _, lift, _ in found), default=0) > 3 for found, *_ in law), (
        "only higher lifts are left"
    )


def moves(n, *, monotone):
    one = [m for m in product((0, 1) if monotone else (-1, 0, 1), repeat=n) if any(m)]
    return [((0,) * n, m) for m in one]


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(
    ("rules", "n"),
    [
        (Rules(ONE_SIDED, ONE_SIDED), 2),
        (Rules(ONE_SIDED, ONE_SIDED, passes=2), 2),
        pytest.param(
            Rules(ONE_SIDED, ("exponential", Fraction(1, 4)), positives=2),
            3,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Rules(ONE_SIDED, ONE_SIDED, positives=2, resample=True), 3, marks=pytest.mark.slow
        ),
    ],
)
@pytest.mark.sample(4)
def test_each_transcript_is_held_to_what_it_says_it_spent_and_reaches_it(rules, n, monotone):
    spread = 1 if monotone else 2
    costs = float(-math.log(rules.threshold[1])), spread * float(-math.log(rules.query[1]))
    for found in range(rules.positives + 1):
        loss, witness = worst(
            moves(n, monotone=monotone), rules, costs, highest=1, reach=50, found=found
        )
        assert loss <= 1e-9, witness
        if not rules.resample or found < 2:  # two full stages need four answers
            assert loss >= -1e-9, "one-sided noise wastes nothing"


@pytest.mark.parametrize(
    ("limit", "query"), [(TWO_SIDED, ONE_SIDED), (ONE_SIDED, TWO_SIDED), (TWO_SIDED, TWO_SIDED)]
)
@pytest.mark.slow
def test_two_sided_noise_stays_within_the_same_bound(limit, query):
    rules = Rules(limit, query)
    loss, witness = worst(moves(2, monotone=False), rules, (LN2, 2 * LN2), highest=1, reach=60)
    assert loss <= 1e-9, witness


@pytest.mark.slow
def test_half_the_noise_where_answers_move_both_ways_is_convicted():
    loss, _ = worst(moves(2, monotone=False), Rules(ONE_SIDED, ONE_SIDED), (LN2, LN2), highest=1)
    assert loss == pytest.approx(LN2, abs=1e-9), "each positive costs twice what is charged"


@pytest.mark.slow
def test_a_refund_of_the_threshold_is_convicted():
    loss, _ = worst(moves(2, monotone=True), Rules(ONE_SIDED, ONE_SIDED), (0, LN2), highest=1)
    assert loss == pytest.approx(LN2, abs=1e-9)


@pytest.mark.slow
def test_new_thresholds_at_the_price_of_one_are_convicted():
    rules = Rules(ONE_SIDED, ONE_SIDED, positives=2, resample=True)
    pair = (0, 0, 0, 0), (1, -1, 1, -1)
    loss, _ = worst([pair], rules, (LN2 / 2, 2 * LN2), highest=0)
    assert loss == pytest.approx(LN2, abs=1e-9)
    honest, _ = worst([pair], rules, (LN2, 2 * LN2), highest=0, found=2)
    assert honest == pytest.approx(0, abs=1e-9), "two full stages reach the full price"


def subject(play, n, **options):
    return Subject(
        laws=[Geometric(Fraction(1))] * (1 + n),
        play=play,
        cost=Pure(epsilon=2),
        sensitivity=COUNTING,
        **options,
    )


def test_noise_that_answers_two_questions_is_convicted():
    """What a copy of a stream would do: the same draws for other questions."""

    def copied(q, noise):
        return np.stack([x + noise[:, 1] >= noise[:, 0] for x in q], axis=1).astype(np.int64)

    assert (
        audit.exact(subject(copied, 1), answers_a=(0, 0), answers_b=(0, 1)).epsilon_at_most
        == math.inf
    )


@pytest.mark.slow
def test_a_gap_for_an_answer_below_is_convicted():
    def all_gaps(q, noise):
        return np.stack([x + noise[:, 1 + i] - noise[:, 0] for i, x in enumerate(q)], axis=1)

    report = audit.exact(subject(all_gaps, 3), answers_a=(0, 0, 0), answers_b=(1, 0, 0))
    assert report.broken
    assert report.epsilon_at_least == pytest.approx(3, abs=1e-6), (
        "the threshold and every answer, not only the one above"
    )


def test_a_published_threshold_is_convicted():
    def published(q, noise):
        return np.stack(
            [noise[:, 0], *(x + noise[:, 1 + i] >= noise[:, 0] for i, x in enumerate(q))], axis=1
        )

    report = audit.exact(subject(published, 2), answers_a=(0, 0), answers_b=(1, 1))
    assert report.broken
    assert report.epsilon_at_most == math.inf


def test_noise_subtracted_from_the_threshold_is_convicted():
    def subtracted(q, noise):
        return np.stack(
            [x + noise[:, 1 + i] >= -noise[:, 0] for i, x in enumerate(q)], axis=1
        ).astype(np.int64)

    assert (
        audit.exact(subject(subtracted, 1), answers_a=(-1,), answers_b=(0,)).epsilon_at_most
        == math.inf
    )


@pytest.mark.slow  # packages/sordino-audit/tests/test_reports.py holds all claims to account
def test_the_claims_hold_and_are_reached():
    tight, other = audit.run_claims("SparseVector")
    tight.raise_if_broken()
    assert tight.tight
    assert not other.broken
    for report in tight.reports:
        assert report.epsilon_at_least == pytest.approx(float(report.claimed.pure()), abs=1e-6)


@pytest.mark.slow
def test_a_cost_that_leaves_out_the_threshold_is_convicted_through_the_mechanism():
    m = SparseVector(threshold=0, positives=1, epsilon=6, sensitivity=EITHER)
    honest = subject_of(m, 2)
    cheap = Subject(
        laws=honest.laws,
        play=honest.play,
        steps=honest.steps,
        cost=m.cost,
        cost_of=lambda out: Pure(epsilon=out[2] * m.positive_epsilon),
        sensitivity=EITHER,
    )
    assert audit.exact(cheap, answers_a=(0, 0), answers_b=(1, -1)).broken


@pytest.mark.parametrize(
    "options", [{}, {"noise": "laplace"}, {"threshold_noise": "laplace"}, {"correction": 2}]
)
@pytest.mark.slow
def test_a_search_finds_nothing_beyond_the_claim(options):
    m = SparseVector(threshold=0, positives=1, epsilon=12, sensitivity=EITHER, **options)
    report = audit.exact(m, search=True, n=2, limit=24)
    assert not report.broken


@pytest.mark.slow
def test_bounds_and_steps_other_than_one():
    for bound, step, q in (
        (2, 1, ((0, 0), (2, -2))),
        (Fraction(3, 2), Fraction(1, 2), ((0, 0), (1.5, -1.5))),
    ):
        statement = Sensitivity(bound=bound, monotone=False, adjacency="replace-one", step=step)
        m = SparseVector(threshold=0, positives=1, epsilon=14, sensitivity=statement)
        report = audit.exact(m, answers_a=q[0], answers_b=q[1])
        assert not report.broken
        assert report.epsilon_at_least == pytest.approx(14, abs=1e-5)


def test_oracles_of_the_grid():
    """P(above) of one answer on the threshold (G1, G2), and the loss of (0, 0) -> (1, -1) (G4)."""
    r0, r2 = math.exp(-0.5), math.exp(-0.25)
    reached = sum((1 - r0) * r0**rho * r2**rho for rho in range(200))
    assert reached == pytest.approx(0.74572478741, abs=1e-10)
    rules = Rules(("exponential", r0), ("exponential", r2))
    above = sum(by_formula((0,), rules, ((0, lift),), reach=80) for lift in range(80))
    assert float(above) == pytest.approx(0.74572478741, abs=1e-6)
    strictly = sum(by_formula((-1,), rules, ((0, lift),), reach=80) for lift in range(80))
    assert float(strictly) == pytest.approx(0.58077104839, abs=1e-6)
    pair = [by_formula(q, rules, ((0, None), (1, 0)), reach=200) for q in ((0, 0), (1, -1))]
    assert math.log(pair[0] / pair[1]) == pytest.approx(1, abs=1e-9)


FINE = 256


def chance(m, q, verdicts):
    """P(verdicts) of answers q, by a sum over the threshold on a grid so fine that it is nearly continuous."""
    reach = 60 * FINE
    rho = np.arange(-reach if m.threshold_noise.name == "laplace" else 0, reach)
    mass = m.threshold_noise.pmf(rho)
    for x, above in zip(q, verdicts, strict=True):
        crosses = m.noise.sf(rho - round(x * FINE) - 1)
        mass = mass * (crosses if above else 1 - crosses)
    return float(mass.sum())


@pytest.mark.parametrize(
    ("monotone", "limit", "query", "q", "verdicts", "expected"),
    [
        (False, "exponential", "exponential", (0,), (1,), 2 / 3),  # S1
        (False, "exponential", "exponential", (0, 0), (0, 1), 1 / 6),  # S2
        (True, "exponential", "exponential", (0, 0), (0, 1), 1 / 6),  # S5
        (False, "laplace", "exponential", (0,), (1,), 5 / 6),  # S8
        (False, "laplace", "exponential", (0, 0), (0, 1), 1 / 12),  # S9
        (False, "laplace", "laplace", (0, 0), (0, 1), 0.208333333333),  # S11
    ],
)
def test_oracles_of_the_continuous_limit(monotone, limit, query, q, verdicts, expected):
    statement = Sensitivity(
        bound=1, monotone=monotone, adjacency="add-remove", step=Fraction(1, FINE)
    )
    options = {"noise": query, "threshold_noise": limit, "split": 0.5}
    m = SparseVector(threshold=0, positives=1, epsilon=1, sensitivity=statement, **options)
    assert chance(m, q, verdicts) == pytest.approx(expected, abs=2e-3)


def test_losses_of_the_continuous_limit():
    """S4, S6, S7, S12: what two neighbours lose on (below, above)."""
    for monotone, law, other, expected in (
        (False, "exponential", (1, -1), 1),
        (True, "exponential", (1, 0), 1),
        (
            True,
            "exponential",
            (1, -1),
            1.5,
        ),  # noise for monotone lists where answers move both ways
        (False, "laplace", (1, -1), 0.424249072184),
    ):
        statement = Sensitivity(
            bound=1, monotone=monotone, adjacency="add-remove", step=Fraction(1, FINE)
        )
        options = {"noise": law, "threshold_noise": law, "split": 0.5}
        m = SparseVector(threshold=0, positives=1, epsilon=1, sensitivity=statement, **options)
        loss = math.log(chance(m, (0, 0), (0, 1)) / chance(m, other, (0, 1)))
        assert loss == pytest.approx(expected, abs=1e-6 if law == "exponential" else 2e-3)


def test_the_density_of_a_gap():
    """S17: (below, above with gap 1.5) for answers (0, 3), scales 2 and 4."""
    statement = Sensitivity(bound=1, monotone=False, adjacency="add-remove", step=Fraction(1, FINE))
    m = SparseVector(threshold=0, positives=1, epsilon=1, sensitivity=statement, split=0.5)
    rho = np.arange(0, 60 * FINE)
    mass = (
        m.threshold_noise.pmf(rho) * (1 - m.noise.sf(rho - 1)) * m.noise.pmf(rho - 3 * FINE + 384)
    )
    assert float(mass.sum()) * FINE == pytest.approx(0.0381462003704, rel=5e-3)
