"""Write docs/reference/claims.md: every claim of the library, audited exactly on the neighbours that it names.

python docs/claims_table.py    # plays the noise of every claim (seconds) and writes the page, and what reports say of claims
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from sordino.claims import claims
from sordino.cost import Approximate, ApproximateZCDP
from sordino_audit import ClaimReport, ExactReport, run_claims

PAGE = Path(__file__).with_name("reference") / "claims.md"
THEOREMS = Path(__file__).parents[1] / "src" / "sordino" / "report" / "theorems.json"

HEAD = """# Claims

Each guarantee of the library, its theorem, the page that proves it for the code as written, and what the exact audit found on the
neighbors that the claim names as its worst. This page is written by `docs/claims_table.py`, and a test compares it with what the
audit finds.

"Loss found" is a lower bound that holds for certain, rounded down, against what is declared: the log ratio of an output, or under zCDP
the Rényi divergence of order 2; where a claim may fail, the delta at its epsilon. It is a fact about the neighbors that are named, and about no others. The last column says whether
the loss is attained, that is found to within 10⁻⁶. {doc}`../how-to/audit-a-mechanism` says how to repeat this.

| mechanism | guarantee | theorem | proof | loss found | attained |
|---|---|---|---|---|---|
"""


def found(report: ExactReport) -> str:
    """Return what one audit found against what is declared: rounded down, to so few digits that they do not depend on the machine."""
    if isinstance(report.claimed, Approximate | ApproximateZCDP):
        # The first one: at the claim itself where an epsilon is claimed.
        failing = report.deltas[0]
        return f"delta {down(failing.at_least)} of {failing.claimed:.7g} at epsilon {failing.epsilon:.4g}"
    if report.at_claim is None:
        [order] = [each for each in report.divergences if each.alpha == 2]
        return f"{down(order.at_least)} of {order.claimed:g} (order 2)"
    return f"{down(report.epsilon_at_least)} of {float(report.claimed.pure()):g}"


def down(bound: float) -> str:
    """Return a lower bound with five digits after the point, never more than it is."""
    return f"{math.floor(bound * 1e5) / 1e5:.7g}"


def row(claim: ClaimReport) -> str:
    """Return the line of one claim."""
    about = claim.claim
    losses = "; ".join(found(report) for report in claim.reports) or "not audited"
    verdict = "broken" if claim.broken else "yes" if claim.tight else "no"
    page = about.proof.removesuffix(".md")
    references = "; ".join(about.references)
    return f"| `{about.name}` | {about.statement} | {references} | {{doc}}`../proofs/{page}` | {losses} | {verdict} |\n"


def page() -> str:
    """Return the page."""
    reports = sorted(run_claims(), key=lambda report: report.claim.name)
    assert all(
        math.isfinite(found.epsilon_at_least) for report in reports for found in report.reports
    )
    return HEAD + "".join(row(report) for report in reports)


def theorems() -> str:
    """Return what a report says of each claim, by the name of its mechanism, as JSON."""
    listed: dict[str, list[dict[str, object]]] = {}
    for claim in claims():
        said = {
            "statement": claim.statement,
            "references": list(claim.references),
            "proof": claim.proof,
        }
        listed.setdefault(claim.name, []).append(said)
    return json.dumps(dict(sorted(listed.items())), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    THEOREMS.write_text(theorems(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
