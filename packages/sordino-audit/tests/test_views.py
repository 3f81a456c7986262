"""Every view that a cost states is audited: divergences, deltas, intervals, rhos; and a report is broken if one of them is."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import (
    COUNTING,
    ClaimBroken,
    ExponentialMechanism,
    GaussianMechanism,
    InvalidParameter,
    Sensitivity,
)
from sordino.claims import Claim
from sordino.cost import RDP, BoundedRange, Pure, Range, compose, repeat
from sordino.cost.conversion import round_down
from sordino.noise import DiscreteLaplace
from sordino_audit import Delta, Divergence, Finite, Subject
from sordino_audit.views import interval_beyond

EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)


def coin(cost, weights=(731059, 268941), **options):
    """Randomized response with a loss of about 1 in either direction."""
    return Subject(laws=[Finite(weights)], play=lambda bit, z: bit ^ z[:, 0], cost=cost, **options)


def one_sided(cost):
    """Losses from -ln 2 (2/5 against 4/5) to ln 3 (3/5 against 1/5)."""
    return Subject(
        laws=[Finite([1, 1, 1, 1, 1])], play=lambda bit, z: z[:, 0] < (2, 4)[bit], cost=cost
    )


FALSE = [
    BoundedRange(epsilon=1.01),
    Range(low=Fraction(1, 2), high=Fraction(101, 100)),
    RDP(table=[(2, 0.5), (32, 1.01)]),
    RDP(constant=Fraction(1, 2), laplace=Fraction(51, 100), laplace_steps=1),
    repeat(Pure(epsilon=Fraction(101, 400)), 4),
    compose(BoundedRange(epsilon=Fraction(51, 100)), Pure(epsilon=Fraction(1, 2))),
]


@pytest.mark.parametrize("cost", FALSE, ids=repr)
def test_a_claim_that_says_more_than_its_pure_epsilon_is_held_to_it(cost):
    report = audit.exact(coin(cost), answers_a=0, answers_b=1)
    assert report.broken
    if cost.pure() != math.inf:
        assert not audit.exact(coin(Pure(epsilon=cost.pure())), answers_a=0, answers_b=1).broken, (
            "as a pure claim it is right"
        )
        assert report.beyond_at_least < 0
        assert any(each.beyond_at_least > 0 for each in report.divergences)
    with pytest.raises(
        ClaimBroken,
        match="leaves the claimed interval by|its delta at epsilon|its Rényi divergence",
    ):
        report.raise_if_broken()


class Boast:
    """A cost of somebody else that lies in one view at most."""

    honest = Pure(epsilon=Fraction(101, 100))
    pure, rdp, epsilon, to_dict = honest.pure, honest.rdp, honest.epsilon, honest.to_dict

    def __init__(self, rho=Fraction(101, 100) ** 2 / 2, share=1):
        self.rho, self.share = rho, share

    def zcdp(self):
        return self.rho

    def delta(self, epsilon):
        return self.share * self.honest.delta(epsilon)


def test_the_rho_that_a_ledger_would_charge_is_audited():
    for rho, broken in ((Fraction(1, 5), True), (Fraction(51, 100), False), (math.inf, False)):
        report = audit.exact(coin(Boast(rho)), answers_a=0, answers_b=1)
        assert report.broken == broken
        assert any(each.beyond_at_least > 0 for each in report.divergences) == broken


@pytest.mark.parametrize(("share", "broken"), [(0.5, True), (1, False)])
def test_the_delta_below_a_pure_claim_is_audited(share, broken):
    report = audit.exact(coin(Boast(share=share)), answers_a=0, answers_b=1)
    assert report.broken == broken == any(each.at_least > each.claimed for each in report.deltas)
    assert all(each.beyond_at_least < 0 for each in report.divergences)


RIGHT = [
    BoundedRange(epsilon=Fraction("2.00001")),
    Range(low=Fraction("1.00001"), high=Fraction("1.00001")),
    RDP(constant=Fraction("1.00001")),
    compose(Pure(epsilon=Fraction(1, 2)), Pure(epsilon=Fraction("1.1"))),
]


@pytest.mark.parametrize("cost", RIGHT, ids=repr)
def test_a_claim_that_says_more_and_is_right_is_acquitted(cost):
    report = audit.exact(coin(cost), answers_a=0, answers_b=1)
    assert not report.broken
    assert report.at_claim.epsilon == pytest.approx(float(cost.pure()))


def test_a_pure_claim_needs_no_more_than_one_view():
    report = audit.exact(coin(Pure(epsilon=1)), answers_a=0, answers_b=1)
    assert (len(report.deltas), report.divergences) == (1, ())
    assert report.interval_beyond_at_least == -math.inf


@pytest.mark.slow
def test_the_interval_is_that_of_one_order():
    """The loss lies in [-ln 2, ln 3] in one order and in [-ln 3, ln 2] in the other."""
    low, high = Fraction("0.693148"), Fraction("1.098613")
    for cost, broken in [
        (Range(low=low, high=high), False),
        (Range(low=high, high=low), False),
        (Range(low=Fraction("0.69"), high=high), True),
        (Range(low=low, high=Fraction("1.09")), True),
        (BoundedRange(epsilon=low + high), False),
        (BoundedRange(epsilon=Fraction("1.79")), True),
    ]:
        report = audit.exact(one_sided(cost), answers_a=0, answers_b=1)
        assert report.broken == broken, cost
        assert (report.interval_beyond_at_least > 0) == broken
        assert report.beyond_at_least < 0 or cost == Range(low=low, high=Fraction("1.09"))


def test_intervals_beyond():
    assert interval_beyond(Pure(epsilon=1), 9.0, 9.0) == -math.inf
    assert interval_beyond(BoundedRange(epsilon=1), 0.75, 0.5) == 0.25
    assert interval_beyond(BoundedRange(epsilon=1), math.inf, 0.0) == math.inf
    assert (
        interval_beyond(Range(low=1, high=2), 2.0, 1.0)
        == interval_beyond(Range(low=1, high=2), 1.0, 2.0)
        == 0
    )
    assert interval_beyond(Range(low=1, high=2), 1.5, 1.25) == 0.25
    assert (
        round_down(Fraction(1, 3)) <= Fraction(1, 3) < math.nextafter(round_down(Fraction(1, 3)), 1)
    )


@pytest.mark.slow
def test_the_exponential_mechanism_is_held_to_its_range():
    mechanism = ExponentialMechanism(epsilon=2, sensitivity=EITHER, gap=False)
    pair = {"answers_a": (-16, 0, 0), "answers_b": (-15, -1, -1)}
    right = audit.exact(mechanism, **pair)
    assert not right.broken
    assert right.interval_beyond_at_least == pytest.approx(0, abs=1e-3), (
        "the width is attained, nearly"
    )
    subject = audit.enumeration.subjects.subject_of(mechanism, 3)
    wide = Subject(
        laws=subject.laws, play=subject.play, again=-1, cost=BoundedRange(epsilon=Fraction(19, 10))
    )
    assert audit.exact(wide, **pair).interval_beyond_at_least > 0.09


# --- delta at the claim ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_delta_at_the_claim_is_that_at_the_claim_whatever_was_asked_for():
    weak = Subject(laws=[DiscreteLaplace(Fraction(2))], decide=np.asarray, cost=Pure(epsilon=1))
    plain = audit.exact(weak, answers_a=(0,), answers_b=(1,))
    for epsilons in ([5], [5, 0], [0], [1]):
        report = audit.exact(weak, answers_a=(0,), answers_b=(1,), epsilons=epsilons)
        assert [delta.epsilon for delta in report.deltas] == epsilons
        assert report.delta_at_claim == plain.delta_at_claim > 0.5
        assert report.at_claim.epsilon == 1
        assert report.broken
        assert report.to_dict()["delta_at_claim"] == report.delta_at_claim


@pytest.mark.slow
def test_where_no_pure_epsilon_is_claimed_there_is_no_delta_at_it():
    report = audit.exact(GaussianMechanism(rho=0.5, sensitivity=COUNTING), answers_a=0, answers_b=1)
    assert report.at_claim is report.delta_at_claim is report.overrun is None
    assert report.interval_beyond_at_least == -math.inf


def test_deltas_and_divergences_that_break_a_claim_break_the_report():
    right = audit.exact(coin(Pure(epsilon=2)), answers_a=0, answers_b=1)
    bad = Delta(epsilon=1.0, at_least=0.5, at_most=0.6, claimed=0.4)
    worse = Divergence(alpha=2.0, at_least=1.0, at_most=math.inf, claimed=0.5, beyond_at_least=0.5)
    for change in (
        {"deltas": (bad,)},
        {"at_claim": bad},
        {"divergences": (worse,)},
        {"interval_beyond_at_least": 0.1},
    ):
        assert replace(right, **change).broken
        with pytest.raises(ClaimBroken):
            replace(right, **change).raise_if_broken()


def test_a_claim_is_attained_on_neighbours_or_not_at_all():
    words = {"name": "Nothing", "statement": "Nothing.", "references": (), "proof": "none.md"}
    with pytest.raises(InvalidParameter, match=r"Claim\.tight must be False"):
        Claim(**words, tight=True)
    silent = audit.ClaimReport(claim=Claim(**words), reports=())
    assert not silent.audited
    assert not silent.tight
    assert silent.to_dict()["audited"] is False
