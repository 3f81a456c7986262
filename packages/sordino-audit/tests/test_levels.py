"""The level of each bound of a statistical report, computed again from its hits: all of them together share what the confidence leaves."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import Seeded
from sordino.cost import ZCDP, Pure
from sordino_audit import Finite, Subject

COIN = Subject(laws=[Finite([3, 1])], play=lambda bit, lie: bit ^ lie[:, 0], cost=Pure(epsilon=2))


def report(epsilons, cost_of, claimed, confidence=0.9):
    a, b = (audit.black_box(COIN, bit, entropy=Seeded(bit), batch=1000) for bit in (0, 1))
    options = {"epsilons": epsilons, "cost_of": cost_of, "claimed": claimed, "batch": 1000}
    return audit.statistical(a, b, samples=4000, confidence=confidence, **options)


def ends(evidence, level):
    """The bounds of Clopper and Pearson [clopper1934], by the quantiles of another library."""
    n, more, fewer = evidence.runs, evidence.hits_more, evidence.hits_fewer
    assert 0 < more < n, "an event that says something"
    assert 0 < fewer < n, "an event that says something"
    return stats.beta.ppf(level, more, n - more + 1), stats.beta.isf(level, fewer + 1, n - fewer)


@pytest.mark.parametrize("charges", [False, True])
@pytest.mark.parametrize("epsilons", [[], [0.5], [0.2, 0.5, 0.7]])
@pytest.mark.slow
def test_each_of_two_bounds_of_each_question_has_its_share_of_the_level(epsilons, charges):
    cost_of = (lambda _: Pure(epsilon=Fraction(3, 2))) if charges else None
    found = report(epsilons, cost_of, Pure(epsilon=2))
    asked = [found.witness, *found.evidence, *([found.beyond_evidence] if charges else [])]
    assert len(asked) == 1 + len(epsilons) + charges
    for evidence in asked:
        low, high = ends(evidence, 0.1 / len(asked) / 2)
        assert evidence.at_least == pytest.approx(low, abs=1e-7)
        assert evidence.at_most == pytest.approx(high, abs=1e-7)
        assert evidence.at_least <= low * (1 + 1e-12)
        assert evidence.at_most >= high * (1 - 1e-12)


@pytest.mark.slow
def test_charges_under_concentrated_privacy_have_their_share(monkeypatch):
    """One class of charges, both sides of both orders, beside the questions of the claim."""
    levels = []
    beyond = audit.black_boxes.statistical.beyond_zcdp
    monkeypatch.setattr(
        audit.black_boxes.statistical,
        "beyond_zcdp",
        lambda costs, level: levels.append(level) or beyond(costs, level),
    )
    found = report([0.5], lambda _: ZCDP(rho=1), ZCDP(rho=2))
    assert levels == [pytest.approx(0.1 / 3 / 2)]
    assert np.isfinite(found.beyond_at_least)


@pytest.mark.slow
def test_more_confidence_and_more_questions_make_wider_bounds():
    ask = partial(report, cost_of=None, claimed=Pure(epsilon=2))
    assert (
        ask([]).witness.at_least
        > ask([0.5]).witness.at_least
        > ask([0.5], confidence=0.99).witness.at_least
    )
