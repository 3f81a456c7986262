"""The parts of a report that say why it holds and what is promised: theorems, and the statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sordino.errors import InvalidParameter
from sordino.report.markup import Markup, element, join, quote
from sordino.report.theorems import Theorem
from sordino.report.words import make_list
from sordino.statements import PublicStatement

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
