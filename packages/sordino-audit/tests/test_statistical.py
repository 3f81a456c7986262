"""The statistical audit: what it says is below the truth as often as it says, close to the truth, and finds what is broken."""

from __future__ import annotations

import itertools
import json
import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import (
    COUNTING,
    ClaimBroken,
    GaussianMechanism,
    LaplaceMechanism,
    NoisyTopK,
    Seeded,
    Sensitivity,
)
from sordino.cost import Pure
from sordino.noise.samplers.uniform import uniform_below
from sordino_audit import Finite, Subject
from sordino_audit.black_boxes.outcome_costs import beyond_zcdp
from sordino_audit.controls.enumerated import CONTROLS

LEVEL = 1e-6 / 200  # of one test, see support/fit.py: here the confidence of each audit
SURE = 1 - LEVEL
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)


def boxes(subject, pair, batch=20_000, seed=0):
    return tuple(
        audit.black_box(subject, x, entropy=Seeded(2 * seed + i), batch=batch)
        for i, x in enumerate(pair)
    )


def judged(control, samples, batch=20_000, confidence=SURE):
    a, b = boxes(control.subject, control.pair, batch)
    subject = control.subject
    return audit.statistical(
        a,
        b,
        samples=samples,
        confidence=confidence,
        claimed=subject.cost,
        cost_of=subject.cost_of,
        batch=batch,
        name=control.name,
    )


def coin(weights, claimed=1):
    return Subject(
        laws=[Finite(weights)], play=lambda bit, lie: bit ^ lie[:, 0], cost=Pure(epsilon=claimed)
    )


QUICK = [control for control in CONTROLS if control.subject.cost_of is None]


@pytest.mark.parametrize("control", QUICK, ids=[control.name for control in QUICK])
@pytest.mark.slow
def test_controls_get_their_verdict_from_their_outcomes_alone(control):
    report = judged(control, 40_000)
    assert report.broken == control.broken
    assert report.epsilon_at_least <= control.loss
    assert report.epsilon_at_least >= min(0.6 * control.loss, 2)
    if control.broken:
        with pytest.raises(ClaimBroken, match=r"but loses at least"):
            report.raise_if_broken()
    else:
        report.raise_if_broken()


@pytest.mark.slow
@pytest.mark.parametrize("control", CONTROLS, ids=[control.name for control in CONTROLS])
def test_a_million_runs_judge_every_control(control):
    report = judged(control, 1_000_000, confidence=0.999)
    assert report.broken == control.broken
    assert report.epsilon_at_least <= control.loss
    assert report.epsilon_at_least >= 0.75 * min(control.loss, 9), (
        "tight or not: some of these losses are those of rare outcomes"
    )


TIGHT = [
    (LaplaceMechanism(epsilon=1, sensitivity=COUNTING), [0], [1]),
    (LaplaceMechanism(epsilon=2, sensitivity=COUNTING.over(2)), [0, 0], [1, 1]),
    (NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING), [0, 0, 0], [0, 1, 1]),
    (NoisyTopK(k=2, epsilon=2, sensitivity=EITHER), [0, 0, 0], [-1, -1, 1]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "a", "b"), TIGHT, ids=repr)
def test_tight_mechanisms_are_seen_to_be_tight(mechanism, a, b):
    run_a, run_b = boxes(mechanism, (a, b))
    report = audit.statistical(
        run_a, run_b, samples=1_000_000, confidence=0.999, claimed=mechanism.cost, batch=20_000
    )
    assert not report.broken
    assert 0.85 * float(mechanism.epsilon) <= report.epsilon_at_least <= float(mechanism.epsilon)


def failures(runs, samples, confidence, seed):
    """How often the bound passes the true loss ln 3 of a fair liar."""
    count = 0
    for i in range(runs):
        a, b = boxes(coin([3, 1]), (0, 1), batch=samples, seed=seed + i)
        report = audit.statistical(a, b, samples=samples, confidence=confidence, batch=samples)
        count += report.epsilon_at_least > math.log(3)
    return count


@pytest.mark.slow
def test_a_bound_at_half_confidence_fails_sometimes_and_in_less_than_half():
    """Two independent bounds at a quarter each: their sum passes in about one of six; a bound that is too tight would in half."""
    assert 4 <= failures(150, 400, 0.5, 1000) <= 50


@pytest.mark.slow
def test_no_false_alarm_in_two_hundred_audits():
    top = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING)
    laplace = LaplaceMechanism(epsilon=1, sensitivity=COUNTING)
    alarms = 0
    for i in range(100):
        for mechanism, pair in ((top, ([0, 0, 0], [0, 1, 1])), (laplace, ([0], [1]))):
            a, b = boxes(mechanism, pair, batch=4000, seed=5000 + i)
            alarms += audit.statistical(
                a, b, samples=20_000, confidence=0.999, claimed=mechanism.cost, batch=4000
            ).broken
    assert alarms == 0


@pytest.mark.slow
def test_the_release_itself_is_run():
    top = NoisyTopK(k=1, epsilon=4, sensitivity=COUNTING)
    a, b = (
        audit.black_box(top, q, entropy=Seeded(i)) for i, q in enumerate(([0, 0, 0], [0, 1, 1]))
    )
    report = audit.statistical(a, b, samples=2000, confidence=0.999, claimed=top.cost)
    assert not report.broken
    assert 1.5 < report.epsilon_at_least < 4
    assert "indices" in report.witness.event or "gaps" in report.witness.event


@pytest.mark.slow
def test_a_released_number_convicts_a_wrong_claim():
    laplace = LaplaceMechanism(epsilon=4, sensitivity=COUNTING)
    a, b = (audit.black_box(laplace, q, entropy=Seeded(i)) for i, q in enumerate((0, 1)))
    assert audit.statistical(a, b, samples=2000, confidence=SURE, claimed=Pure(epsilon=1)).broken


def uniform(entropy, n):
    return (uniform_below(1 << 53, n, entropy) + 0.5) / 2**53


def textbook_laplace(answer, entropy, n=5000):
    def run():
        u = uniform(entropy, n) - 0.5
        return answer - np.sign(u) * np.log1p(-2 * np.abs(u))

    return run


@pytest.mark.slow
def test_the_bits_of_textbook_laplace_noise_give_it_away():
    """Mironov's attack, found without a hint: a sum in floats is never finer than the larger of its parts."""
    a, b = textbook_laplace(0.0, Seeded(1)), textbook_laplace(1.0, Seeded(2))
    report = audit.statistical(
        a, b, samples=20_000, confidence=SURE, claimed=Pure(epsilon=1), batch=5000
    )
    assert report.broken
    assert report.epsilon_at_least > 4
    assert "finest bit" in report.witness.event


@pytest.mark.slow
def test_the_same_attack_finds_nothing_on_the_grid():
    statement = Sensitivity(bound=1, monotone=True, adjacency="add-remove")
    laplace = LaplaceMechanism(epsilon=1, sensitivity=statement)

    def released(answer, entropy):
        noise = laplace.noise
        return lambda: (
            (round(answer / laplace.step) + noise.sample(5000, entropy)) * float(laplace.step)
        )

    report = audit.statistical(
        released(0, Seeded(1)),
        released(1, Seeded(2)),
        samples=100_000,
        confidence=SURE,
        claimed=laplace.cost,
        batch=5000,
    )
    assert not report.broken
    assert 0.85 < report.epsilon_at_least < 1


def fickle(share, entropy, error=ValueError):
    draws = iter(lambda: float(uniform(entropy, 1)[0]), None)

    def run():
        if next(draws) < share:
            raise error("private: 17")
        return {"x": next(draws), "label": "ok"}

    return run


@pytest.mark.parametrize("error", [ValueError, SystemExit])
@pytest.mark.slow
def test_raising_is_an_outcome_and_says_its_type_only(error):
    report = audit.statistical(
        fickle(0.3, Seeded(1), error),
        fickle(0.01, Seeded(2)),
        samples=2000,
        confidence=SURE,
        claimed=Pure(epsilon=1),
    )
    assert report.broken
    assert "private" not in str(report) + json.dumps(report.to_dict())


@pytest.mark.slow
def test_streams_of_words_are_told_apart_by_how_they_begin():
    def run(share, entropy):
        draws = iter(lambda: float(uniform(entropy, 1)[0]), None)
        return lambda: [
            *itertools.takewhile(
                lambda w: w == "below",
                ("below" if next(draws) > share else "above" for _ in range(20)),
            )
        ]

    report = audit.statistical(
        run(0.1, Seeded(1)),
        run(0.4, Seeded(2)),
        samples=4000,
        confidence=SURE,
        claimed=Pure(epsilon=1),
    )
    assert report.broken
    assert report.epsilon_at_least > 2.5


@pytest.mark.slow
def test_gaussian_claims_are_tested_where_they_allow_a_delta():
    gaussian = GaussianMechanism(rho=0.5, sensitivity=COUNTING)
    a, b = boxes(gaussian, ([0], [1]))
    report = audit.statistical(
        a, b, samples=200_000, confidence=SURE, claimed=gaussian.cost, batch=20_000
    )
    assert not report.broken
    assert report.claimed_epsilon == math.inf
    assert [round(each.claimed, 6) for each in report.deltas] == [0.1, 0.01, 0.001]
    exact = audit.exact(
        gaussian, answers_a=[0], answers_b=[1], epsilons=[each.epsilon for each in report.deltas]
    )
    for found, truth in zip(report.deltas, exact.deltas, strict=True):
        assert found.at_least <= truth.at_most
    assert report.deltas[0].at_least > 0.5 * exact.deltas[0].at_least
    wrong = audit.statistical(
        a,
        b,
        samples=200_000,
        confidence=SURE,
        claimed=GaussianMechanism(rho=0.1, sensitivity=COUNTING).cost,
        batch=20_000,
    )
    assert wrong.broken
    with pytest.raises(ClaimBroken, match="its delta at epsilon"):
        wrong.raise_if_broken()


@pytest.mark.slow
def test_delta_beside_epsilon():
    laplace = LaplaceMechanism(epsilon=1, sensitivity=COUNTING)
    a, b = boxes(laplace, ([0], [1]))
    report = audit.statistical(
        a,
        b,
        samples=100_000,
        confidence=SURE,
        claimed=laplace.cost,
        delta=0.1,
        epsilons=[0.5],
        batch=20_000,
    )
    exact = audit.exact(
        laplace, answers_a=[0], answers_b=[1], epsilons=[0.5, report.epsilon_at_least]
    )
    assert report.deltas[0].at_least <= exact.deltas[0].at_most
    assert report.deltas[0].at_least > 0.9 * exact.deltas[0].at_least
    assert exact.deltas[1].at_least > 0.1, "at a smaller epsilon a delta of 0.1 does not suffice"
    assert report.claimed_epsilon < 1


@pytest.mark.parametrize(
    "name",
    ["a positive that is not paid for", "sparse vector with gaps, each transcript at its own cost"],
)
@pytest.mark.slow
def test_costs_of_outcomes_are_held_against_them(name):
    [control] = [control for control in CONTROLS if control.name == name]
    report = judged(control, 20_000)
    assert report.broken == control.broken
    assert (report.beyond_at_least > 0) == control.broken
    assert report.beyond_at_least <= (1 if control.broken else 0)
    assert report.epsilon_at_least < 3
    if control.broken:
        with pytest.raises(ClaimBroken, match="more than is charged"):
            report.raise_if_broken()


@pytest.mark.slow
def test_a_refund_under_concentrated_privacy_is_seen_in_a_million_runs():
    [control] = [control for control in CONTROLS if control.name.startswith("a refund under")]
    report = judged(control, 1_000_000, confidence=0.999)
    sides = ((0.225, 0.371), (0.775, 0.629))
    truth = math.log(sum(p * p / q * math.exp(-(math.log(p / q) ** 2)) for p, q in sides))
    assert truth == pytest.approx(0.0202, abs=1e-4)
    assert 0 < report.beyond_at_least < truth


@pytest.mark.slow
def test_the_same_runs_give_the_same_report():
    reports = []
    for _ in range(2):
        a, b = boxes(CONTROLS[0].subject, CONTROLS[0].pair)
        reports.append(audit.statistical(a, b, samples=20_000, confidence=0.99, batch=20_000))
    assert reports[0] == reports[1]
    assert json.loads(json.dumps(reports[0].to_dict()))["epsilon_at_most"] is None
    assert (
        sum(bar.hits_a for bar in reports[0].bars)
        == sum(bar.hits_b for bar in reports[0].bars)
        == reports[0].tested
    )


def test_what_was_learned_is_never_tested_on_the_same_runs():
    """Boxes whose first half differs and whose second half does not: whatever is learned must find nothing in the test."""

    def turning(value):
        count = itertools.count()
        return lambda: value if next(count) < 1000 else 7

    report = audit.statistical(turning(0), turning(1), samples=2000, confidence=0.999)
    assert report.epsilon_at_least == 0
    assert report.witness.runs == 1000


@pytest.mark.slow
def test_chance_alone_shows_no_loss():
    """Equal boxes: an event that was chosen on the runs that test it would show a loss in nearly every audit."""
    found = 0
    for seed in range(40):
        a, b = (partial(uniform_below, 100, 400, Seeded(9000 + 2 * seed + i)) for i in (0, 1))
        found += (
            audit.statistical(a, b, samples=400, confidence=0.5, batch=400).epsilon_at_least > 0
        )
    assert found <= 22


def test_features_are_learned_on_the_first_quarter(monkeypatch):
    runs = []
    learned = audit.black_boxes.statistical.learned

    def watched(*parts):
        runs.extend(
            abs(number)
            for part in parts
            for _, table in part.tables()
            for number in table[:, 0].tolist()
        )
        return learned(*parts)

    monkeypatch.setattr("sordino_audit.black_boxes.statistical.learned", watched)
    count = itertools.count()
    audit.statistical(lambda: next(count), lambda: -next(count), samples=404, confidence=0.9)
    assert sorted(runs) == list(range(202)), "the first 101 of each, and no others"


def test_messages_of_errors_are_no_outcomes():
    def failing(text):
        def run():
            raise ValueError(text)

        return run

    report = audit.statistical(
        failing("1"), failing("2"), samples=200, confidence=0.99, claimed=Pure(epsilon=1)
    )
    assert report.epsilon_at_least == 0


@pytest.mark.slow
def test_the_sum_over_classes_of_charges_is_what_it_should_be():
    """Two classes, two orders, two sides: each of eight bounds has its share of the level, half of which is that of one order."""
    n, p, q = 10**6, 0.225, 0.371
    losses = [math.log(p / q) ** 2 / 2, math.log((1 - p) / (1 - q)) ** 2 / 2]
    sides = tuple(np.repeat(losses, [round(n * share), n - round(n * share)]) for share in (p, q))
    truth = math.log(
        sum(
            a * a / b * math.exp(-2 * rho)
            for a, b, rho in zip((p, 1 - p), (q, 1 - q), losses, strict=True)
        )
    )
    ends = [
        (
            stats.beta.ppf(0.001 / 4, n * a, n - n * a + 1),
            stats.beta.isf(0.001 / 4, n * b + 1, n - n * b),
        )
        for a, b in ((p, q), (1 - p, 1 - q))
    ]
    wanted = math.log(
        sum(
            low * low / high * math.exp(-2 * rho)
            for (low, high), rho in zip(ends, losses, strict=True)
        )
    )
    assert beyond_zcdp([sides, sides, sides], 0.001).at_least == pytest.approx(wanted, abs=1e-7)
    assert 0 < wanted < truth
    dear = tuple(side * 2 for side in sides)
    assert beyond_zcdp([dear, dear, dear], 0.001).at_least < 0


def test_both_orders_are_tried():
    def rare(share, entropy):
        return lambda: (uniform(entropy, 500) < share).astype(np.int64)

    for shares in ((0.02, 0.0), (0.0, 0.02)):
        a, b = (rare(share, Seeded(i)) for i, share in enumerate(shares))
        report = audit.statistical(a, b, samples=20_000, confidence=SURE, batch=500)
        assert report.epsilon_at_least > 1.5
        assert report.witness.more == ("a" if shares[0] else "b")
