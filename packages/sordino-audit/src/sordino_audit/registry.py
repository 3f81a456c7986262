"""One exact audit of each claim of the library.

Claim: none of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from sordino.claims import Claim, claims
from sordino.constraints import shown
from sordino.cost import Approximate
from sordino.errors import ClaimBroken, InvalidParameter
from sordino.releases import plain
from sordino_audit._exact import exact
from sordino_audit.report import ExactReport

_TIGHT_TOLERANCE = 1e-6


@final
@dataclass(frozen=True, kw_only=True)
class ClaimReport:
    """One claim with the audits of the neighbors that it names.

    Attributes
    ----------
    claim : Claim
        Guarantee, theorem, proof page, neighbors.
    reports : tuple of ExactReport
        One for each of its neighbors, in their order.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> [report] = audit.run_claims("RandomizedResponse")
    >>> report.claim.proof, report.broken
    ('randomized-response.md', False)
    """

    claim: Claim
    reports: tuple[ExactReport, ...]

    @property
    def broken(self) -> bool:
        """True if any audit refutes the claim."""
        return any(report.broken for report in self.reports)

    @property
    def audited(self) -> bool:
        """True if the claim names neighbors.

        A claim that names none was not audited: its proof page and tests have to do.
        """
        return bool(self.reports)

    @property
    def tight(self) -> bool:
        """True if there are audits, and every one finds a loss within 1e-6 of what is declared."""
        return self.audited and all(_attains_claim(report) for report in self.reports)

    def raise_if_broken(self) -> None:
        """Raise `ClaimBroken` if an audit refutes the claim, or if it is said to be attained and is not.

        A claim without audits raises nothing unless it is said to be attained: see `audited`.
        """
        for report in self.reports:
            report.raise_if_broken()
        # "Attained" is part of the claim: an audit that finds less refutes it.
        if self.claim.tight and not self.tight:
            raise ClaimBroken(
                f"{self.claim.name} claims that its loss is attained, "
                "but it is not on the neighbours that it names."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        claim = {"name": self.claim.name, "statement": self.claim.statement, "proof": self.claim.proof}
        values: dict[str, Any] = plain(
            claim | {"references": self.claim.references, "broken": self.broken, "tight": self.tight}
        )
        return values | {"audited": self.audited, "reports": [report.to_dict() for report in self.reports]}


def _attains_claim(report: ExactReport) -> bool:
    """Return whether the loss comes within 1e-6 of the claim.

    The loss is the log ratio, the delta of a claim that may fail, or a Rényi divergence.
    """
    if isinstance(report.claimed, Approximate) and report.at_claim is not None:
        # Of a claim that may fail: the delta at its epsilon, each output at its own.
        return report.at_claim.at_least >= report.at_claim.claimed - _TIGHT_TOLERANCE
    if report.at_claim is None:
        return any(each.at_least >= each.claimed - _TIGHT_TOLERANCE for each in report.divergences)
    return report.beyond_at_least >= -_TIGHT_TOLERANCE


def run_claims(name: str | None = None) -> tuple[ClaimReport, ...]:
    """Audit every claim exactly, on the neighbors that it names: what `make audit` runs.

    Parameters
    ----------
    name : str, optional
        Only the claims about this public name.

    Returns
    -------
    tuple of ClaimReport

    Raises
    ------
    InvalidParameter
        If nothing of that name has a claim.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> [report] = audit.run_claims("PermuteAndFlip")
    >>> report.broken, report.tight
    (False, True)
    """
    chosen = [claim for claim in claims() if name is None or claim.name == name]
    if not chosen:
        # A name with a typing error must not pass as a name without claims.
        known = ", ".join(sorted({claim.name for claim in claims()}))
        raise InvalidParameter(f"audit.run_claims.name must be one of {known}; got {shown(name)}.")
    return tuple(
        ClaimReport(
            claim=claim, reports=tuple(exact(m, answers_a=a, answers_b=b) for m, a, b in claim.neighbours)
        )
        for claim in chosen
    )
