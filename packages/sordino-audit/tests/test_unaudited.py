"""What is not audited is said: nothing with a proof page is passed over in silence."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import sordino_audit as audit
from sordino.claims import Claim

PROOFS = Path(__file__).resolve().parents[3] / "docs/proofs"
SILENT = Claim(
    name="NoisyTopK", statement="It is loved.", references=("ding2022",), proof="noisy-top-k.md"
)


def test_every_proof_page_belongs_to_an_audited_claim_or_is_listed():
    audited = {claim.proof for claim in audit.claims() if claim.neighbours}
    listed = {each.proof for each in audit.unaudited()}
    pages = {page.name for page in PROOFS.glob("*.md")} - {"index.md"}
    assert pages <= audited | listed, (
        "say in sordino_audit/registry.py why no audit looks at it, or give a claim neighbours"
    )
    assert listed <= pages


def test_every_claim_is_audited_or_listed(monkeypatch):
    assert {claim.name for claim in audit.claims() if not claim.neighbours} <= {
        each.name for each in audit.unaudited()
    }
    monkeypatch.setattr("sordino_audit.registry.claims", lambda: (SILENT, *audit.claims()))
    first = audit.unaudited()[0]
    assert (first.name, first.statement, first.proof) == (
        SILENT.name,
        SILENT.statement,
        SILENT.proof,
    )
    assert (
        str(first)
        == "NoisyTopK: It is loved. Not audited: the claim names no neighbours; it is proved. (noisy-top-k.md)"
    )


def test_a_claim_without_neighbours_is_neither_broken_nor_tight():
    report = audit.ClaimReport(claim=SILENT, reports=())
    assert not report.audited
    assert not report.broken
    assert not report.tight
    report.raise_if_broken()


def test_reasons_are_sentences():
    bare = [
        each.name
        for each in audit.unaudited()
        if not (each.statement.endswith(".") and each.why.endswith("."))
        or not all(dataclasses.asdict(each).values())
    ]
    assert bare == []
