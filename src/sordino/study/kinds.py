"""What a study can ask for.

The requests of a session, each with the parameters that it declares itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field
from fractions import Fraction
from pathlib import Path
from typing import Any

from sordino.constraints import did_you_mean, say_unknown_key, shown
from sordino.declared import list_parameters
from sordino.errors import InvalidParameter
from sordino.questions import Domain
from sordino.questions.domain import span
from sordino.session.releases import RELEASES
from sordino.session.request import Request

NONE = "none"
"""What stands for None in a file, which has no word for it."""
_DOMAINS = ("file", "range", "sql", "assume_public", "unlisted")
_BESIDE = {"file": ("column", "header"), "sql": ("files",)}
"""What may stand beside one of them."""


def list_kinds() -> list[str]:
    """Return the names of all kinds: those of the methods of a session."""
    return [name for name, release in RELEASES.items() if not release.request.not_in_studies]


_SAID_ELSEWHERE = {
    "median": ' A median is kind = "quantile" with q = [0.5].',
    "top": ' It is kind = "top_k".',
}
"""What commands and other tools call what a study can make."""


def find_kind(name: Any) -> type[Request[Any]]:
    """Return the request of a kind.

    Raises
    ------
    InvalidParameter
        If there is none of that name.
    """
    if not isinstance(name, str) or name not in RELEASES:
        kinds = list_kinds()
        hint = _SAID_ELSEWHERE.get(str(name)) or did_you_mean(name, kinds)
        hint = hint or f" Known: {', '.join(kinds)}."
        raise InvalidParameter(f"kind must be what a session can release; got {shown(name)}.{hint}")
    found = RELEASES[name].request
    if found.not_in_studies:
        raise InvalidParameter(
            f"kind must be one that a study can make; {name} {found.not_in_studies}."
        )
    return found


def list_known(kind: type[Request[Any]]) -> dict[str, str]:
    """Return what a study may say of a kind with what it means, what must be given first."""
    required = list_required(kind)
    listed = sorted(_list_said(kind), key=lambda one: one.name not in required)
    return {one.name: one.metadata["meaning"] for one in listed}


def list_required(kind: type[Request[Any]]) -> list[str]:
    """Return the parameters of a kind that must be given, labels unless they are declared."""
    said = _list_said(kind)
    # Who asks for no groups needs no labels.
    labels = () if any(one.name == "by" for one in said) else ("domain",)
    return [one.name for one in said if one.default is MISSING or one.name in labels]


def _list_said(kind: type[Request[Any]]) -> list[Field[Any]]:
    # What a program is told meanwhile is nothing that a file can say.
    return [one for one in list_parameters(kind) if one.name != "progress"]


def build_request(
    kind: type[Request[Any]], said: Mapping[str, Any], epsilon: Fraction, folder: str
) -> Request[Any]:
    """Return the request that a table of a study describes.

    Parameters
    ----------
    kind : class
        As `find_kind` returns it.
    said : mapping of str to object
        Its parameters, as TOML has them.
    epsilon : Fraction
        Its budget.
    folder : str
        From which paths are named.

    Raises
    ------
    InvalidParameter
        If a parameter is missing or does not satisfy its rule.
    """
    given = {
        one.name: _read_value(one.name, said, str(one.type), folder)
        for one in _list_said(kind)
        if one.name in said
    }
    # Without labels it is refused by itself, unless they are declared of its column.
    needed = [name for name in list_required(kind) if name not in {"epsilon", "domain"}]
    missing = [name for name in needed if name not in given]
    if missing:
        raise InvalidParameter(f"{kind.name}.{missing[0]} must be given; got none.")
    return kind(**given | {"epsilon": epsilon})


def _read_value(name: str, said: Mapping[str, Any], declared: str, folder: str) -> Any:
    value = said[name]
    if name == "domain":
        return read_labels_of(said, folder)
    # Only where the parameter itself may be None.
    return None if value == NONE and "None" in declared else value


def read_labels_of(said: Mapping[str, Any], folder: str) -> Domain:
    """Return the domain that a release describes: of several columns the labels of each."""
    value, columns = said["domain"], said.get("item") or said.get("by")
    if not isinstance(columns, list) or len(columns) < 2:
        return read_domain(value, folder)
    if isinstance(value, dict) and set(value) <= set(columns):
        return Domain.product({name: read_domain(one, folder) for name, one in value.items()})
    return read_domain(value, folder).over(tuple(columns))


def read_domain(said: Any, folder: str) -> Domain:
    """Return the domain that a study describes: a list of labels, or a table with one key.

    Raises
    ------
    InvalidParameter
        If it describes none.
    """
    said = {"assume_public": True} if said == "assume-public" else said
    if isinstance(said, list | str):
        return Domain.of(said) if isinstance(said, list) else span(said)
    which = [name for name in _DOMAINS if isinstance(said, dict) and name in said]
    if isinstance(said, dict):
        refuse_unknown(
            "domain", said, (*_DOMAINS, *(name for names in _BESIDE.values() for name in names))
        )
    if len(which) != 1 or set(said) - {which[0], *_BESIDE.get(which[0], ())}:
        raise InvalidParameter(
            'domain must be a list of labels, {file = "labels.csv", column = "name"}, {range '
            "= [0, 100]}, "
            '{sql = "SELECT ...", files = ["labels.csv"]}, {assume_public = true} or '
            "{unlisted = {delta = 1e-6}}; got something else."
        )
    value = said[which[0]]
    if which == ["unlisted"] and isinstance(value, dict):
        refuse_unknown("domain.unlisted", value, ("delta", "least"))
    match which[0]:
        case "file" if isinstance(value, str) and value:
            return Domain.from_file(
                join_path(folder, value), column=said.get("column"), header=said.get("header", True)
            )
        case "range" if isinstance(value, list) and len(value) == 2:
            return Domain.range(*value)
        case "sql":
            # Named as the query names them: from where the study is run.
            return Domain.from_sql(value, files=said.get("files", ()))
        case "assume_public" if value is True:
            return Domain.assume_public()
        case "unlisted" if (
            isinstance(value, dict) and "delta" in value and set(value) <= {"delta", "least"}
        ):
            return Domain.unlisted(**value)
    raise InvalidParameter(
        f"domain.{which[0]} must be as in the manual of studies; got {shown(value)}."
    )


def refuse_unknown(what: str, said: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a key that means nothing there, with the nearest ones.

    Raises
    ------
    InvalidParameter
        If there is one.
    """
    for key in said:
        if key not in known:
            raise InvalidParameter(say_unknown_key(what, key, known))


def join_path(folder: str, path: str) -> str:
    """Return a path as it is named from here, if it was named from a folder."""
    # From where it is named it would lead elsewhere; a path from the root leads to the same place.
    return str(Path(folder) / path)
