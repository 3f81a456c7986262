"""What is proved of the mechanisms behind a figure.

Guarantee, theorem, and the page that proves it.

All of it is in a file that `docs/claims_table.py` writes: to ask every mechanism would load them
all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from importlib.resources import files
from typing import Any, NamedTuple

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.statements.proofs import COMPOSED, read_digests

# An address of the web, or a path beside the report. Nothing that a browser would run.
_PLACE = re.compile(r"https?://[^\s\"'<>]+|[\w.][\w./-]*", re.ASCII)


INTERVALS = "Intervals"
"""What stands in place of a mechanism where a page proves what intervals are worth."""
GROUPS = "Groups"
"""What stands in place of a mechanism where a page proves what several groups cost together."""
_PAGES = {
    "top": "selected-rows.md",
    "set": "selected-rows.md",
    "above": "selected-rows.md",
    "histogram": "intervals.md",
    "count": "intervals.md",
}


class Theorem(NamedTuple):
    """One guarantee of one mechanism."""

    mechanism: str
    statement: str
    """The guarantee, in one sentence; empty where its page alone says it."""
    references: tuple[str, ...]
    page: str
    digest: str | None
    """Of the code that the proof was read against; None for a page that this version does not
    have."""


@cache
def _read_file() -> dict[str, list[dict[str, str | list[str]]]]:
    listed: dict[str, list[dict[str, str | list[str]]]] = json.loads(
        files("sordino.report").joinpath("theorems.json").read_text(encoding="utf-8")
    )
    return listed


def find_theorems(names: Iterable[str]) -> list[Theorem]:
    """Return what is proved of mechanisms, in their order.

    Nothing of a name that is none of ours.
    """
    digests = read_digests()
    found: list[Theorem] = []
    for name in dict.fromkeys(names):
        for claim in _read_file().get(name, ()):
            page = str(claim["proof"])
            references = tuple(map(str, claim["references"]))
            found.append(
                Theorem(name, str(claim["statement"]), references, page, digests.get(page))
            )
        found += [Theorem(name, "", (), page, digests.get(page)) for page in COMPOSED.get(name, ())]
    return found


def find_group_theorem() -> Theorem:
    """Return what proves that figures of several groups cost together what is told."""
    page = "groups.md"
    said = (
        "Figures of all groups together cost what is told, whichever of them rows of a unit are in."
    )
    return Theorem(GROUPS, said, (), page, read_digests().get(page))


def find_interval_theorem(kind: str, method: str | None) -> Theorem | None:
    """Return what proves the intervals of a kind of release.

    None where its mechanism has them itself.

    Parameters
    ----------
    kind : str
        As `ReportedRelease.kind`.
    method : str or None
        How a list was selected: "gaps", or "histogram".
    """
    page = (
        "histogram-top-k.md"
        if method == "histogram" and kind in {"top", "above", "histogram"}
        else _PAGES.get(kind)
    )
    said = "Intervals are worth what is told beside them, also of rows that were selected."
    return None if page is None else Theorem(INTERVALS, said, (), page, read_digests().get(page))


def find_docs(place: str | None) -> str | None:
    """Return where the documentation is published.

    What the caller says, else what the package says.

    Raises
    ------
    InvalidParameter
        If it is neither an address of the web nor a path.
    """
    if place is not None:
        given: Any = place
        if not isinstance(given, str) or not _PLACE.fullmatch(place):
            raise InvalidParameter(
                "The place of the documentation must be an address that begins with https://, or a "
                f"relative path; got {shown(place)}."
            )
        return place.rstrip("/") + "/"
    try:
        listed = metadata("sordino").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    named = dict(line.split(", ", 1) for line in listed if ", " in line)
    found = named.get("Documentation")
    return found.rstrip("/") + "/" if found and _PLACE.fullmatch(found) else None
