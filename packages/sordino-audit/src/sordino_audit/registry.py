"""What the exact audit of all claims looks at, and what it does not look at, and why.

Claim: every proof page of the library belongs to a claim that is audited or is listed here; a test
holds it to that.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import final

from sordino.claims import claims
from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino_audit._exact import exact
from sordino_audit.report import ClaimReport


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
            claim=claim,
            reports=tuple(exact(m, answers_a=a, answers_b=b) for m, a, b in claim.neighbours),
        )
        for claim in chosen
    )


# ---- what is not audited -------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class Unaudited:
    """A guarantee that `run_claims` does not audit.

    Attributes
    ----------
    name : str
        What it is about.
    statement : str
        The guarantee, in one sentence.
    proof : str
        File name of the page in docs/proofs/ that proves it.
    why : str
        Why it is not audited, and what there is instead.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> [one.proof for one in audit.unaudited() if one.name == "samplers"]
    ['samplers.md']
    """

    name: str
    statement: str
    proof: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.statement} Not audited: {self.why} ({self.proof})"


_WHY_NO_NEIGHBOURS = "the claim names no neighbours; it is proved."


@cache
def _read_guarantees() -> tuple[Unaudited, ...]:
    """Return the guarantees listed by hand, because they are about no loss of a mechanism."""
    text = files("sordino_audit").joinpath("unaudited.toml").read_text(encoding="utf-8")
    listed = tomllib.loads(text)
    return tuple(
        Unaudited(**(each | {"why": listed["reasons"].get(each["why"], each["why"])}))
        for each in listed["guarantees"]
    )


def unaudited() -> tuple[Unaudited, ...]:
    """Return what `run_claims` does not audit, and why.

    Returns
    -------
    tuple of Unaudited
        Claims that name no neighbors, and guarantees that are not about what a mechanism loses.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> print(audit.unaudited()[0])
    samplers: Noise has exactly its stated law. Not audited: the audit plays laws, ... (samplers.md)
    """
    # Claims without neighbors are found in the registry, so that none is forgotten.
    silent = [
        Unaudited(
            name=claim.name, statement=claim.statement, proof=claim.proof, why=_WHY_NO_NEIGHBOURS
        )
        for claim in claims()
        if not claim.neighbours
    ]
    return (*silent, *_read_guarantees())
