"""Why a report holds and what is promised: what is proved of its mechanisms, and the statement.

Theorems are in a file that `docs/claims_table.py` writes: to ask every mechanism would load them
all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from importlib.resources import files
from typing import Any, NamedTuple

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.report.markup import Markup, element, join, quote
from sordino.report.words import make_list
from sordino.statements import PublicStatement
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


_MOST_LETTERS = 4_000
_MOST_LEVELS = 6


def read_statement(statement: Any) -> Mapping[str, Any]:
    """Return a statement as names with values; refuse what is none."""
    said = statement.to_dict() if isinstance(statement, PublicStatement) else statement
    if not isinstance(said, Mapping) or not all(
        isinstance(said.get(name), Mapping) for name in ("record", "promise")
    ):
        raise InvalidParameter(
            "make_report.statement must be what `ledger.publish` returns, or its `to_dict()`; got "
            "something else."
        )
    return said


def write_theorems(theorems: Sequence[Theorem], docs: str | None) -> list[Markup]:
    """Return what is proved of each mechanism, with links to the pages if their place is known."""
    parts: list[Markup] = []
    for name in dict.fromkeys(theorem.mechanism for theorem in theorems):
        own = [theorem for theorem in theorems if theorem.mechanism == name]
        parts.append(element("h3", name, id=f"proof-{name}"))
        parts.append(
            element("ul", *(element("li", *_write_theorem(theorem, docs)) for theorem in own))
        )
    return parts


def _write_theorem(theorem: Theorem, docs: str | None) -> list[str | None]:
    page = element("code", f"docs/proofs/{theorem.page}")
    if docs is not None:
        place = f"{docs}proofs/{theorem.page.removesuffix('.md')}.html"
        page = element("a", theorem.page.removesuffix(".md"), href=place, rel="noreferrer")
    signed = f", signed for code {theorem.digest[:12]}" if theorem.digest else ""
    references = f" [{'; '.join(theorem.references)}]" if theorem.references else ""
    return [
        theorem.statement or "What is made of mechanisms here.",
        f"{references} Proof: ",
        page,
        signed,
        ".",
    ]


def write_statement(said: Mapping[str, Any]) -> list[Markup | None]:
    """Return a statement, field by field, in its own words."""
    record = said["record"]
    deployment = record.get("deployment")
    groups = deployment if isinstance(deployment, Mapping) else {}
    digest = said.get("digest")
    parts: list[Markup | None] = [
        element(
            "p",
            "This is what is promised, in the fields of the public registry of deployments of "
            "differential privacy. Whether it stands in the history of the account word by word, "
            "the command ",
            element("code", "sordino verify"),
            " tells.",
        ),
        element("p", "Its digest: ", element("code", digest[:64]))
        if isinstance(digest, str)
        else None,
    ]
    for group, fields in groups.items():
        parts.append(element("h3", quote(_say_field(group))))
        parts.append(_write_fields(fields, _MOST_LEVELS))
    return parts


def _write_fields(value: Any, levels: int) -> Markup:
    if isinstance(value, Mapping) and levels:
        return make_list(
            [
                (quote(_say_field(name)), _write_fields(one, levels - 1))
                for name, one in value.items()
            ]
        )
    if isinstance(value, list) and levels:
        return join(
            *[piece for one in value for piece in (join("; "), _write_fields(one, levels - 1))][1:]
        )
    text = str(value)
    return element("bdi", text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…")


def _say_field(name: Any) -> str:
    return str(name).replace("_", " ")
