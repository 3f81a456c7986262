"""What a mechanism guarantees, as data: the statement, theorem, proof page and worst cases."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, final

from sordino.errors import InvalidParameter
from sordino.sensitivity import Sensitivity

EITHER_WAY = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
"""Where most claims are attained: one unit moves each answer by a step, and two of them apart by
two."""

_CLAIM_PACKAGES = ("sordino.noise", "sordino.cost", "sordino.mechanisms", "sordino.estimators")


@final
@dataclass(frozen=True, kw_only=True)
class Claim:
    """One guarantee of one mechanism.

    Attributes
    ----------
    name : str
        The public name that the claim is about.
    statement : str
        The guarantee, in one sentence.
    references : tuple of str
        Keys of docs/references.bib with the theorem: "ding2022, Thm 3".
    proof : str
        File name of the page in docs/proofs/ that proves it for the code as written.
    neighbours : tuple
        Mechanisms, small enough to be enumerated, each with two neighboring answers (or lists of
        what units have) where its loss is largest; the audit plays them. A claim without any is not
        audited, and every list of audits says so.
    tight : bool
        True if there are neighbors and the loss on each of them equals the stated cost (under zCDP:
        the Rényi divergence of some order).
    """

    name: str
    statement: str
    references: tuple[str, ...]
    proof: str
    neighbours: tuple[tuple[Any, tuple[Any, ...], tuple[Any, ...]], ...] = ()
    tight: bool = False

    def __post_init__(self) -> None:
        # Tightness is a statement about pairs that the audit plays; without any nobody could check
        # it.
        if self.tight and not self.neighbours:
            raise InvalidParameter(
                "Claim.tight must be False where no neighbours show where the loss is attained."
            )


@final
@dataclass(frozen=True)
class ClaimsAbout:
    """What makes the claims about one mechanism that one page proves; see `Claim`."""

    name: str
    proof: str

    def __call__(
        self,
        statement: str,
        references: tuple[str, ...],
        *neighbours: tuple[Any, tuple[Any, ...], tuple[Any, ...]],
        tight: bool = False,
    ) -> Claim:
        """Return a claim."""
        return Claim(
            name=self.name,
            statement=statement,
            references=references,
            proof=self.proof,
            neighbours=neighbours,
            tight=tight,
        )


def claims() -> tuple[Claim, ...]:
    """Return the claims of all modules, in the order of their modules.

    Returns
    -------
    tuple of Claim

    Examples
    --------
    >>> from sordino.claims import claims
    >>> [claim.proof for claim in claims() if claim.name == "GaussianMechanism"]
    ['additive.md']
    """
    found: list[Claim] = []
    for home in _CLAIM_PACKAGES:
        for module in walk_packages(import_module(home).__path__, f"{home}."):
            # Modules state claims beside their code, so no list of them has to be kept here.
            found += getattr(import_module(module.name), "CLAIMS", ())
    return tuple(found)
