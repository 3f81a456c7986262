"""Which proof page stands behind a mechanism, and how it was signed for the code of this version.

The pages themselves are not in the package. Their digests are, in `proofs.json`, which
`docs/sign_proofs.py` writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from sordino.claims import claims

COMPOSED = {
    "TableNumbers": ("groups.md", "numbers-share.md", "numbers.md"),
    "QuantilesWithIntervals": ("quantile-interval.md",),
    "ClippedAgain": ("clipped-again.md",),
    "BoundedTotal": ("bounded-figures.md", "folded.md"),
    "LocalReports": ("composite.md", "reports.md"),
}
"""What sessions make of mechanisms has no claim of its own; its pages prove what it adds."""
_CLASS = re.compile(r"\b([A-Z]\w+)\(", re.ASCII)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


@cache
def read_digests() -> dict[str, str]:
    """Return the digest of every signed page, by the name of its file.

    It is the SHA-256 of the pairs `name=digest` that the page ends with, with a space between two
    of them: the code that the proof was read against.
    """
    listed: dict[str, str] = json.loads(
        files("sordino.statements").joinpath("proofs.json").read_text(encoding="utf-8")
    )
    return listed


@cache
def _read_pages() -> dict[str, tuple[str, ...]]:
    # It loads every mechanism, and only a new statement needs it.
    pages: dict[str, set[str]] = {}
    for claim in claims():
        pages.setdefault(claim.name, set()).add(claim.proof)
    return {name: tuple(sorted(found)) for name, found in pages.items()}


class Proved(NamedTuple):
    """What is proved of a thing that was charged: nothing of a bare cost, or a class of others."""

    names: tuple[str, ...] = ()
    """The mechanisms and estimators with a claim that it consists of."""
    pages: tuple[str, ...] = ()
    """Their proof pages."""


def find_proofs(thing: Mapping[str, Any]) -> Proved:
    """Return the claims behind a mechanism, as the history describes it."""
    described = thing.get("parameters")
    # A ledger writes the parameters of our own classes alone. Another class may have the name of
    # one of ours.
    if not isinstance(described, str):
        return Proved()
    named = dict.fromkeys(_CLASS.findall(_QUOTED.sub("", described)))
    known = _read_pages()
    pages = {page for name in named for page in (*known.get(name, ()), *COMPOSED.get(name, ()))}
    return Proved(tuple(name for name in named if name in known), tuple(sorted(pages)))


def are_exact(proved: Iterable[Proved]) -> bool:
    """Tell whether all are mechanisms of this library, guaranteed for floats as they are."""
    from sordino import estimators, mechanisms  # noqa: PLC0415 - as above

    homes = (mechanisms, estimators)
    return all(
        one.pages
        and all(
            getattr(getattr(home, name), "exact", True) is True
            for name in one.names
            for home in homes
            if hasattr(home, name)
        )
        for one in proved
    )


def list_digests(pages: Iterable[str]) -> dict[str, str]:
    """Return the digests of pages, in this version."""
    known = read_digests()
    return {page: known[page] for page in sorted(set(pages)) if page in known}
