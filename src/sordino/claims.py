"""Claims are data: what is guaranteed, by which theorem, on which proof page, and where it is attained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final


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
        Parameters and two neighbouring answers where the loss is largest; the audit enumerates them.
    tight : bool
        True if the loss on those neighbours equals the stated cost.
    """

    name: str
    statement: str
    references: tuple[str, ...]
    proof: str
    neighbours: tuple[tuple[dict[str, Any], tuple[float, ...], tuple[float, ...]], ...] = ()
    tight: bool = False
