"""What leaves an audit: frozen values that say the same in one line, in words, and as JSON; searches; the claims of the library."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import sordino
import sordino_audit as audit
from sordino import (
    COUNTING,
    ClaimBroken,
    GaussianMechanism,
    LaplaceMechanism,
    NoisyTopK,
    Sensitivity,
)
from sordino.cost import Pure
from sordino.noise import Geometric
from sordino_audit import Finite, Subject
from sordino_audit.controls.enumerated import raw_last_gap
from sordino_audit.enumeration.neighbours import covered, list_answers

ROOT = Path(__file__).resolve().parents[3]
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
TOP = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING)
LIAR = Subject(
    laws=[Finite([9, 1])],
    play=lambda bit, lie: bit ^ lie[:, 0],
    cost=Pure(epsilon=1),
    name="a coin",
)

sys.path.insert(0, str(ROOT / "docs"))
import claims_table  # noqa: E402  (a script of docs/, not a package)


def test_a_report_is_a_frozen_value_with_a_line_a_text_and_json():
    report = audit.exact(TOP, answers_a=(0, 0, 0), answers_b=(0, 1, 1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.epsilon_at_least = 0
    assert (
        repr(report)
        == "ExactReport(not broken, epsilon_at_least=0.999999999, epsilon_at_most=1, claimed=Pure(epsilon=1))"
    )
    text = str(report)
    assert "claim Pure(epsilon=1) not broken" in text
    assert "log ratio 0.999999999 to 1.00000001" in text, (
        "a bound is shown as a bound: down from below, up from above"
    )
    assert f"{report.audited} outputs; the others have probability" in text
    again = json.loads(json.dumps(report.to_dict()))
    assert again["broken"] is False
    assert again["complete"] is False
    assert again["claimed"]["exact"] == "1"
    assert again["witness"]["answers_b"] == [0, 1, 1]
    assert again["epsilon_at_least"] == report.epsilon_at_least


@pytest.mark.slow
def test_a_gaussian_report_shows_divergences_and_deltas():
    report = audit.exact(GaussianMechanism(rho=0.5, sensitivity=COUNTING), answers_a=0, answers_b=1)
    assert re.search(r"Rényi    0\.99\d* to 1(\.0000\d*)? at order 2, claimed 1\b", str(report))
    assert "at epsilon 3.53656, claimed 0.001" in str(report)
    assert "at least 7.8" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["epsilon_at_most"] is None, "inf has no JSON"


def test_a_broken_claim_is_raised_with_what_is_claimed_and_what_was_found():
    report = audit.exact(LIAR, answers_a=0, answers_b=1)
    assert repr(report).startswith(
        "ExactReport(BROKEN, epsilon_at_least=2.19722457, epsilon_at_most=2.19722458"
    )
    with pytest.raises(
        ClaimBroken,
        match=r"a coin claims Pure\(epsilon=1\), but loses at least 2.19722457 nats where 1 are claimed",
    ):
        report.raise_if_broken()


def test_unresolved_and_tail_are_what_they_say():
    report = audit.exact(TOP, answers_a=(0, 0, 0), answers_b=(0, 1, 1), slack=1e-3, tail=1e-9)
    law = TOP.noise
    x = np.arange(400)
    others = (
        law.cdf(x) ** 2
    )  # item 0 wins with margin g: its noise is g above the best of the two others
    best = np.diff(others, prepend=0.0)
    wins = [float((best[: 400 - g] * law.pmf(x[g:])).sum()) for g in range(200)]
    assert report.tail <= 1e-9
    assert 0 < report.unresolved < 1e-4
    smallest = 1e-9 / 1e-3
    assert sum(w for w in wins if w < smallest) < report.unresolved


def test_a_partition_merges_outputs_and_its_classes_are_reported():
    fine = audit.exact(TOP, answers_a=(0, 0), answers_b=(1, 0))
    coarse = audit.exact(
        TOP, answers_a=(0, 0), answers_b=(1, 0), partition=lambda output: f"item {output[0]}"
    )
    assert coarse.outputs == 2
    assert coarse.witness.output == "item 1"
    assert coarse.epsilon_at_least <= fine.epsilon_at_least + 1e-12
    floats = Subject(
        laws=[Finite([1, 1, 2])], play=lambda bit, z: (z[:, 0] + bit) / 3, cost=Pure(epsilon=1)
    )
    report = audit.exact(floats, answers_a=0, answers_b=1, partition=lambda x: x > 0.5)
    assert report.outputs == 2
    assert report.epsilon_at_least == pytest.approx(math.log(2), abs=1e-12)


@pytest.mark.parametrize(
    ("mechanism", "n", "loss"),
    [
        (NoisyTopK(k=1, epsilon=2, sensitivity=EITHER), 3, 2),
        (NoisyTopK(k=2, epsilon=2, sensitivity=COUNTING), 3, 2),
        (
            LaplaceMechanism(
                epsilon=2,
                sensitivity=Sensitivity(
                    bound=2, monotone=False, adjacency="replace-one", norm="l1", step=1
                ),
            ),
            2,
            2,
        ),
    ],
)
@pytest.mark.slow
def test_a_search_finds_the_worst_pair_the_same_one_every_time(mechanism, n, loss):
    options = {"search": True, "n": n, "limit": 40, "tail": 1e-11}
    report = audit.exact(mechanism, **options)
    assert report.epsilon_at_least == pytest.approx(loss, abs=1e-8)
    assert not report.broken
    again = audit.exact(mechanism, **options)
    assert (again.witness, again.epsilon_at_most) == (report.witness, report.epsilon_at_most)
    moves = [
        y - x
        for x, y in zip(
            list_answers(report.witness.answers_a),
            list_answers(report.witness.answers_b),
            strict=True,
        )
    ]
    assert covered(moves, mechanism.sensitivity)


@pytest.mark.slow
def test_a_search_convicts_what_a_mild_pair_does_not():
    subject = Subject(
        laws=[Geometric(Fraction(1, 2))] * 3,
        decide=raw_last_gap,
        cost=Pure(epsilon=1),
        sensitivity=EITHER,
        shifts=True,
    )
    mild = audit.exact(subject, answers_a=(0, 0, 0), answers_b=(0, 1, 0), tail=1e-9)
    assert not mild.broken
    found = audit.exact(
        subject, answers_a=(0, 0, 0), answers_b=(0, 1, 0), tail=1e-9, search=True, limit=40
    )
    assert found.broken
    assert found.epsilon_at_least == pytest.approx(2, abs=1e-6)


def test_a_search_climbs_from_where_it_starts():
    """The loss grows with the first answer: only the climb gets there."""
    subject = Subject(
        laws=[Finite([1, 1])],
        play=lambda q, z: np.where(z[:, 0] == 0, 0, np.minimum(q[0], 9)),
        cost=Pure(epsilon=9),
        sensitivity=EITHER,
    )
    slope = Subject(
        laws=[Finite([1] * 1000)],
        play=lambda q, z: z[:, 0] < 10 + 9 * min(abs(int(q[0])), 40) * (int(q[0]) % 2),
        cost=Pure(epsilon=9),
        sensitivity=EITHER,
    )
    start = audit.exact(slope, answers_a=(1,), answers_b=(2,))
    assert audit.exact(slope, answers_a=(1,), answers_b=(2,), search=True, limit=2).pairs == 2
    climbed = audit.exact(slope, answers_a=(5,), answers_b=(6,), search=True, limit=60)
    assert climbed.epsilon_at_least > start.epsilon_at_least + 1
    assert audit.exact(subject, search=True, n=1, limit=10).epsilon_at_least == math.inf


@pytest.mark.slow
def test_a_search_under_concentrated_privacy_climbs_divergences():
    statement = Sensitivity(bound=2, monotone=False, adjacency="replace-one", norm="l2", step=1)
    report = audit.exact(
        GaussianMechanism(rho=1, sensitivity=statement), search=True, n=2, limit=12, tail=1e-8
    )
    assert report.divergences[1].at_least == pytest.approx(2, abs=1e-2)
    assert not report.broken


def test_large_claims_have_small_deltas():
    report = audit.exact(
        LaplaceMechanism(epsilon=30, sensitivity=COUNTING), answers_a=0, answers_b=1
    )
    assert report.delta_at_claim < 1e-12
    assert report.epsilon_at_most == 30


def test_a_search_needs_a_statement():
    with pytest.raises(sordino.InvalidParameter, match="needs to know the neighbours"):
        audit.exact(LIAR, search=True, n=1)


NAMES = sorted({claim.name for claim in audit.claims()})
CLAIMS_PAGE = (ROOT / "docs/reference/claims.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_claim_stands_is_attained_where_it_says_so_and_has_its_lines_in_the_table(name):
    reports = audit.run_claims(name)
    assert [report.claim for report in reports] == [
        claim for claim in audit.claims() if claim.name == name
    ]
    for report in reports:
        assert report.reports, f"{report.claim.name} names no neighbours"
        report.raise_if_broken()
        assert report.tight >= report.claim.tight
        assert json.loads(json.dumps(report.to_dict()))["broken"] is False
    assert "".join(map(claims_table.row, reports)) in CLAIMS_PAGE, (
        "run: python docs/claims_table.py"
    )


def test_the_table_of_claims_has_these_lines_and_no_others():
    assert CLAIMS_PAGE.startswith(claims_table.HEAD)
    lines = CLAIMS_PAGE.removeprefix(claims_table.HEAD).splitlines()
    claims = sorted(audit.claims(), key=lambda claim: claim.name)
    assert [line.split(" | ")[:2] for line in lines] == [
        [f"| `{claim.name}`", claim.statement] for claim in claims
    ]


@pytest.mark.slow
def test_a_claim_that_is_not_attained_where_it_says_so_is_refused():
    [claim] = [claim for claim in audit.claims() if claim.name == "RandomizedResponse"]
    [report] = audit.run_claims("RandomizedResponse")
    mild = audit.exact(
        LaplaceMechanism(epsilon=1, sensitivity=COUNTING.over(2)),
        answers_a=(0, 0),
        answers_b=(0, 1),
    )
    untight = dataclasses.replace(report, reports=(mild,))
    with pytest.raises(ClaimBroken, match="is attained, but it is not"):
        untight.raise_if_broken()
    broken = dataclasses.replace(
        report,
        claim=dataclasses.replace(claim, tight=False),
        reports=(audit.exact(LIAR, answers_a=0, answers_b=1),),
    )
    assert broken.broken
    with pytest.raises(ClaimBroken, match="a coin"):
        broken.raise_if_broken()


def test_every_public_mechanism_has_a_claim():
    named = {claim.name for claim in audit.claims()}
    mechanisms = {
        name
        for name in sordino.mechanisms.__all__
        if hasattr(getattr(sordino.mechanisms, name), "release")
    }
    assert mechanisms == set(sordino.mechanisms.__all__) - {"Stream", "CountedStream"}, (
        "an open stream is covered by the claim of its mechanism"
    )
    assert mechanisms <= named
    makers = {name for name in sordino.__all__ if hasattr(getattr(sordino, name), "release")}
    assert makers <= named, "whatever releases something says what it guarantees"


def test_a_mechanism_of_yours_shows_itself_by_a_method():
    class Doubled:
        def audited(self, n):
            return Subject(
                laws=[Geometric(Fraction(1))] * n,
                decide=lambda v: v.argmax(axis=1),
                cost=Pure(epsilon=1),
            )

    report = audit.exact(Doubled(), answers_a=[0, 0], answers_b=[0, 1])
    assert 0.3 < report.epsilon_at_least <= 1
