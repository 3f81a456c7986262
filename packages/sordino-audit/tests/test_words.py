"""What rests on a word of the subject says so and is checked where it can be; each bound is shown on the side that it bounds."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, ClaimBroken, InvalidParameter, LaplaceMechanism
from sordino.cost import ZCDP, Approximate, Pure
from sordino.noise import DiscreteLaplace, Geometric
from sordino_audit import Finite, Subject
from sordino_audit.report import at_least, at_most


def coin(cost, weights=(731059, 268941), **options):
    """Randomized response with a loss of about 1 in either direction."""
    return Subject(laws=[Finite(weights)], play=lambda bit, z: bit ^ z[:, 0], cost=cost, **options)


# --- declarations ----------------------------------------------------------------------------------------------------------------


def test_a_bound_that_rests_on_a_declaration_says_so():
    laplace = audit.exact(
        LaplaceMechanism(epsilon=1, sensitivity=COUNTING), answers_a=0, answers_b=1
    )
    assert laplace.declared
    assert "if       outputs depend on the answers only through their sums with the noise" in str(
        laplace
    )
    played = audit.exact(coin(Pure(epsilon=2)), answers_a=0, answers_b=1)
    assert not played.declared
    assert "only through their sums" not in str(played)


def test_answers_that_reach_the_output_around_the_noise_are_found_out():
    last = []

    def steps(answers):
        last[:] = [int(x) for x in answers]
        return np.array(answers)

    sneaky = Subject(
        laws=[DiscreteLaplace(Fraction(1))],
        decide=lambda v: v[:, 0] * 0 + last[0],
        steps=steps,
        cost=Pure(epsilon=40),
    )
    with pytest.raises(
        InvalidParameter, match="noise allows 1 if .* what the subject declares is false"
    ):
        audit.exact(sneaky, answers_a=[0], answers_b=[1])
    gaussian = Subject(
        laws=[audit.enumeration.laws.DiscreteGaussian(Fraction(1))],
        play=lambda s, z: z * 0 + s,
        steps=steps,
        added=True,
        cost=ZCDP(rho=9),
    )
    with pytest.raises(InvalidParameter, match="what the subject declares is false"):
        audit.exact(gaussian, answers_a=[0], answers_b=[1])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8])
def test_narrow_steps_do_not_wrap(dtype):
    subject = Subject(
        laws=[DiscreteLaplace(Fraction(1, 2))],
        decide=lambda v: v[:, 0].astype(np.int64),
        cost=Pure(epsilon=1),
        steps=lambda answers: np.array(answers, dtype=dtype),
    )
    top = int(np.iinfo(dtype).max)
    low = int(np.iinfo(dtype).min)
    report = audit.exact(subject, answers_a=[low], answers_b=[top], tail=1e-4)
    assert report.epsilon_everywhere == (top - low) / 2
    assert report.broken


@pytest.mark.parametrize(
    "wrong",
    [0, [0], np.zeros(3, int), np.zeros((1, 2), int), np.zeros(2), "ab", np.array([1 << 60, 0])],
)
def test_steps_return_an_array_of_whole_numbers_one_for_each_law(wrong):
    subject = Subject(
        laws=[DiscreteLaplace(Fraction(1))] * 2,
        decide=lambda v: v,
        steps=lambda answers: wrong,
        cost=Pure(epsilon=1),
    )
    with pytest.raises(InvalidParameter, match=r"2 whole numbers of steps|at most 2\^53 steps"):
        audit.exact(subject, answers_a=0, answers_b=1)


def test_answers_beyond_64_bits_do_not_wrap():
    subject = Subject(
        laws=[DiscreteLaplace(Fraction(1))],
        decide=lambda v: v,
        cost=Pure(epsilon=1),
        sensitivity=COUNTING,
    )
    with pytest.raises(InvalidParameter, match=r"at most 2\^53 steps"):
        audit.exact(
            subject, answers_a=np.array([2**63 - 1]), answers_b=np.array([2**63], dtype=np.uint64)
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"play": 3}, "Subject.play must be a function; got 3"),
        ({"cost_of": 3}, "Subject.cost_of must be a function"),
        ({"steps": 3}, "Subject.steps must be a function"),
        ({"sensitivity": 1}, "Subject.sensitivity must be a Sensitivity or None"),
        ({"laws": Geometric(Fraction(1))}, "Subject.laws must be a list of laws; got Geometric"),
        ({"added": True}, "Subject.added must be False unless play and steps"),
        ({"added": 1}, "Subject.added must be True or False"),
        ({"shifts": True}, "Subject.shifts must be False unless"),
    ],
)
def test_what_a_subject_is_made_of_is_checked(change, words):
    with pytest.raises(InvalidParameter, match=words):
        Subject(
            **(
                {"laws": [Finite([1, 1])], "cost": Pure(epsilon=1), "play": lambda bit, z: z[:, 0]}
                | change
            )
        )


def test_a_law_that_is_stated_is_called_so_and_is_one():
    half = Decimal("0.5")

    def report(*law):
        subject = Subject(
            laws=[],
            stated=lambda bit: [(each, (mass, mass)) for each, mass in law],
            cost=Pure(epsilon=1),
        )
        return audit.exact(subject, answers_a=0, answers_b=1)

    assert report((0, half), (1, half)).stated
    assert "releases have the law that the subject states: no noise was played" in str(
        report((0, half), (1, half))
    )
    assert not audit.exact(coin(Pure(epsilon=2)), answers_a=0, answers_b=1).stated
    assert report((0, half), (True, half), (1, Decimal(0))).outputs == 3
    with pytest.raises(InvalidParameter, match="together at most 1"):
        report((0, half), (1, Decimal("0.6")))
    with pytest.raises(InvalidParameter, match="neither decide nor play nor again"):
        Subject(laws=[], stated=lambda bit: [], cost=Pure(epsilon=1), again=1)


# --- costs of outputs and classes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [1, None, Pure])
def test_costs_of_outputs_are_costs(wrong):
    with pytest.raises(InvalidParameter, match="Subject.cost_of must return costs"):
        audit.exact(coin(Pure(epsilon=2), cost_of=lambda output: wrong), answers_a=0, answers_b=1)


def test_a_class_has_no_cost_of_its_own():
    with pytest.raises(
        InvalidParameter, match=r"partition must be None where each output has its own cost"
    ):
        audit.exact(
            coin(Pure(epsilon=2), cost_of=lambda o: Pure(epsilon=2)),
            answers_a=0,
            answers_b=1,
            partition=lambda o: 0,
        )


def test_costs_of_outputs_mean_nothing_under_approximate_privacy():
    free = coin(Approximate(epsilon=2, delta=1e-9), cost_of=lambda output: Pure(epsilon=0))
    with pytest.raises(InvalidParameter, match="Subject.cost_of must return costs Approximate"):
        audit.exact(free, answers_a=0, answers_b=1)


def test_a_partition_leaves_its_trace():
    tells = Subject(
        laws=[Finite([1, 1])], play=lambda bit, z: z[:, 0] * 0 + bit, cost=Pure(epsilon=1)
    )
    report = audit.exact(tells, answers_a=0, answers_b=1, partition=lambda output: 0)
    assert report.partitioned
    assert "every output" not in str(report)
    assert "every class" in str(report)
    assert not audit.exact(tells, answers_a=0, answers_b=1).partitioned
    coarse = audit.exact(
        LaplaceMechanism(epsilon=1, sensitivity=COUNTING),
        answers_a=0,
        answers_b=1,
        partition=lambda o: o[0] % 99,
    )
    assert "outputs;" not in str(replace(coarse, unresolved=0.5, epsilon_everywhere=math.inf))


def test_neighbours_on_a_word_are_called_so():
    assert "neighbours on your word" in str(
        audit.exact(coin(Pure(epsilon=2)), answers_a=0, answers_b=1)
    )
    assert "on your word" not in str(
        audit.exact(LaplaceMechanism(epsilon=1, sensitivity=COUNTING), answers_a=0, answers_b=1)
    )


# --- what is shown ---------------------------------------------------------------------------------------------------------------


def test_bounds_are_shown_on_the_side_that_they_bound():
    assert (at_least(2 / 3), at_most(2 / 3)) == ("0.666666666", "0.666666667")
    assert (at_least(-2 / 3, 3), at_most(-2 / 3, 3)) == ("-0.667", "-0.666")
    assert (at_least(0.0), at_most(math.inf), at_least(1.0), at_most(1.0)) == ("0", "inf", "1", "1")
    for x in (1e-9 / 3, 12345.678912345, math.pi):
        assert float(at_least(x)) <= x <= float(at_most(x))


def test_a_loss_is_never_below_nothing():
    report = audit.exact(
        Subject(
            laws=[DiscreteLaplace(Fraction(1))], decide=lambda v: v[:, 0] * 0, cost=Pure(epsilon=1)
        ),
        answers_a=[0],
        answers_b=[1],
    )
    assert report.epsilon_at_least == 0
    assert "loss     0 to" in str(report)


def test_the_witness_is_where_the_loss_is_and_the_overrun_where_the_claim_fails():
    subject = Subject(
        laws=[Finite([1, 2, 5])],
        play=lambda bit, z: np.array([[0, 1, 2], [1, 0, 2]])[bit][z[:, 0]],
        cost=Pure(epsilon=2),
        cost_of=lambda output: Pure(epsilon=2 if output < 2 else 0),
    )
    report = audit.exact(subject, answers_a=0, answers_b=1)
    assert report.epsilon_at_least == report.witness.at_least == pytest.approx(math.log(2))
    assert report.witness.output in {0, 1}
    assert report.overrun.output == 2
    assert report.beyond_at_least == pytest.approx(
        report.overrun.at_least - report.overrun.claimed, abs=1e-12
    )
    free = Subject(
        laws=subject.laws,
        play=subject.play,
        cost=Pure(epsilon=2),
        cost_of=lambda o: Pure(epsilon=2 * (o == 0)),
    )
    with pytest.raises(ClaimBroken, match=r"loses at least 0\.693147180 nats where 0 are claimed"):
        audit.exact(free, answers_a=0, answers_b=1).raise_if_broken()


def test_positions_of_numpy_have_json():
    mechanism = audit.exact(
        LaplaceMechanism(epsilon=1, sensitivity=COUNTING), answers_a=0, answers_b=1
    )
    odd = replace(
        mechanism, witness=replace(mechanism.witness, answers_b={np.int64(1): Fraction(1, 2)})
    )
    assert json.loads(json.dumps(odd.to_dict()))["witness"]["answers_b"] == {"1": 0.5}
