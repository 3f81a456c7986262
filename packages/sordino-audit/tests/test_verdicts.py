"""The auditor, audited: every broken control is convicted with its loss, every right one is acquitted with its."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sordino_audit as audit
from sordino import ClaimBroken, LaplaceMechanism, Sensitivity
from sordino.cost import Pure
from sordino.grid import from_steps
from sordino.noise import DiscreteLaplace, Geometric
from sordino_audit import Finite, Subject
from sordino_audit.controls.enumerated import CONTROLS, float_laplace

every = pytest.mark.parametrize("control", CONTROLS, ids=[control.name for control in CONTROLS])


@every
@pytest.mark.sample(4)
def test_the_verdict_and_the_loss_are_the_known_ones(control):
    report = control.audited()
    assert report.broken == control.broken
    if control.loss == math.inf:
        assert report.epsilon_at_most == math.inf
        assert report.epsilon_at_least > 30, (
            "all that can be said for certain while the tail is 1e-15"
        )
    else:
        assert report.epsilon_at_least == pytest.approx(control.loss, abs=1e-9)
        assert report.epsilon_at_least <= control.loss + 1e-12
        assert control.loss - 1e-12 <= report.epsilon_at_most <= control.loss + 2e-6
    if control.broken:
        with pytest.raises(ClaimBroken):
            report.raise_if_broken()
    else:
        report.raise_if_broken()
        assert report.delta_at_claim < 1e-11


def probability(law, x):
    if isinstance(law, Finite):
        return law.weights[x - law.low] / sum(law.weights)
    return float(law.pmf(x))


@every
@pytest.mark.slow
def test_the_witness_can_be_computed_again(control):
    """By floats, noise vector by noise vector, through a call for each: the slow way that anybody would check it."""
    witness = control.audited().witness
    laws = control.subject.laws
    reach = {1: 60, 2: 25, 3: 11, 4: 7}[len(laws)]
    supports = [
        range(law.low, law.low + len(law.weights))
        if isinstance(law, Finite)
        else range(
            0 if isinstance(law, Geometric) else -reach,
            math.ceil(reach / min(1.0, float(law.rate))),
        )
        for law in laws
    ]
    noise = np.array(list(product(*supports)), dtype=np.int64)
    weight = np.prod(
        [
            np.array([probability(law, int(x)) for x in column])
            for law, column in zip(laws, noise.T, strict=True)
        ],
        axis=0,
    )
    found = []
    for answers in (witness.answers_a, witness.answers_b):
        private = control.subject.private(answers)
        played = np.asarray(control.subject.played(private, noise))
        wanted = np.array(witness.output)
        hits = (played == wanted).all(axis=1) if played.ndim > 1 else played == wanted
        found.append(float(weight[hits].sum()))
    assert found[0] > 0
    if control.loss == math.inf:
        assert found[1] == 0
    else:
        assert math.log(found[0] / found[1]) == pytest.approx(
            control.loss, abs=0.05 if len(laws) > 2 else 1e-6
        )


def test_the_float_attack_finds_nothing_on_the_grid():
    """Neighbours share hardly a float with the textbook formula, and every one of them on ours."""
    textbook = [
        set(float_laplace((answer,), np.arange(1 << 10)[:, None]).tolist()) for answer in (0, 1)
    ]
    assert len(textbook[0] & textbook[1]) < 0.2 * len(textbook[0])
    statement = Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=Fraction(1, 4))
    mechanism = LaplaceMechanism(epsilon=2, sensitivity=statement)
    ours = Subject(
        laws=[mechanism.noise],
        decide=lambda noisy: from_steps(noisy, mechanism.step).view(
            np.int64
        ),  # the very bits that are released
        steps=audit.enumeration.subjects.subject_of(mechanism, 1).steps,
        cost=mechanism.cost,
        sensitivity=statement,
    )
    report = audit.exact(ours, answers_a=[0.3], answers_b=[1.3])
    assert not report.broken
    assert report.complete
    assert report.epsilon_at_most == 2
    assert report.epsilon_at_least == pytest.approx(2, abs=1e-9)


@pytest.mark.slow
def test_the_price_of_ignoring_the_number_of_positives_grows_with_it():
    """Published as (1 + 6c)/4 epsilon and as (1/2 + t) epsilon."""
    from sordino_audit.controls.enumerated import sparse

    for c in (1, 2):
        lee = sparse(name="Lee, Clifton", epsilon=4, rates=([1], [3] * (c + 1)), positives=c)
        report = audit.exact(lee, answers_a=(0,) * (c + 1), answers_b=(1, *[-1] * c))
        assert report.epsilon_at_least == pytest.approx((1 + 6 * c) / 4 * 4, abs=1e-6)
        chen = sparse(name="Chen", epsilon=2, rates=([1], [1] * (c + 1)), positives=None)
        report = audit.exact(chen, answers_a=(0,) * (c + 1), answers_b=(1, *[-1] * c))
        assert report.epsilon_at_least == pytest.approx((0.5 + c) * 2, abs=1e-9)


@pytest.mark.slow
def test_the_right_sparse_vector_stays_right_with_two_sided_noise():
    """With Laplace noise the loss is below the claim: it is only approached in limits."""
    from sordino.claims import EITHER_WAY
    from sordino_audit.controls.enumerated import play_queries

    laws = [
        DiscreteLaplace(Fraction(2)),
        DiscreteLaplace(Fraction(1)),
        DiscreteLaplace(Fraction(1)),
    ]
    subject = Subject(laws=laws, play=play_queries, cost=Pure(epsilon=4), sensitivity=EITHER_WAY)
    pairs = [((0, 0), move) for move in product((-1, 0, 1), repeat=2) if any(move)]
    report = audit.exact(subject, neighbours=pairs, tail=1e-10)
    assert not report.broken
    assert 1.5 < report.epsilon_at_least < 3


def test_every_control_says_who_published_it_or_why_it_breaks():
    assert len({control.name for control in CONTROLS}) == len(CONTROLS) >= 20
    assert all(control.source for control in CONTROLS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONTROLS[0].broken = True
