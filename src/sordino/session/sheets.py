"""The sheet of a release of a session: what `Session.keep` keeps of it.

It is loaded when something is kept: it knows every kind of release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sordino.data import PrivacyUnit
from sordino.errors import InvalidParameter
from sordino.releases import HasEstimate, Values, plain
from sordino.session.local import Reported
from sordino.session.table_numbers import GroupRow, Groups
from sordino.sheet import Sheet, describe_receipt, list_facts, list_noises

# What every sheet says in its own words.
_IN_FACTS = frozenset({"type", "cost", "simulated", "exact", "receipt", "mechanism", "numbers_share"})


def check_keepable(release: Any) -> None:
    """Refuse reports of rows: there are as many of them as rows."""
    if isinstance(release, Reported | Values):
        raise InvalidParameter(
            "Session.keep does not take what randomize released: it is as long as the table. Write it to a "
            "file."
        )


def make_sheet(release: Any, unit: PrivacyUnit) -> Sheet:
    """Return the sheet of a release of a session: all that it says of itself.

    A release with rows has these; any other one is a row by itself, and several quantiles are one each.
    """
    said = release.to_dict()
    # What stands beside the rows of a release is about all of them.
    listed = isinstance(release, tuple) or "rows" in said
    beside = {name: said[name] for name in said.keys() - _IN_FACTS - {"rows", "values"}} if listed else {}
    if "rows" in said and not isinstance(release, Groups):
        rows = said["rows"]
    else:
        rows = [row for part in (release if listed else (release,)) for row in _list_rows(part)]
    facts = list_facts(
        said["type"],
        release,
        release.receipt,
        unit="each row" if unit.column is None else f"column {unit.column}",
        adjacency=unit.adjacency,
        max_rows=unit.max_rows,
        **dict(sorted(beside.items())),
        mechanism=said["mechanism"],
    )
    facts |= list_noises(getattr(release, "mechanism", None))
    # Several quantiles have one share, which each of them carries.
    share = getattr(release[0] if isinstance(release, tuple) else release, "numbers_share", None)
    if share is not None:
        facts |= share.list_facts()
    # All rows of a release have the same names; one without rows has none.
    columns = tuple(rows[0]) if rows else ()
    notes = describe_receipt(release.receipt)
    return Sheet(facts=facts, columns=columns, rows=rows, notes=notes, counts=False)


def _list_rows(part: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows that a part of a release is: of a group as many as its release has."""
    if isinstance(part, GroupRow):
        # Several quantiles of a group are a tuple of them.
        for one in part.release if isinstance(part.release, tuple) else (part.release,):
            yield from ({"item": part.item} | row for row in _list_rows(one))
        return
    own = {name: value for name, value in plain(part).items() if name not in _IN_FACTS}
    if isinstance(part, HasEstimate):
        # The figure and its ends have the same names in every release.
        known = [name for name in ("estimate", "low", "high") if hasattr(part, name)]
        named = {name: plain(getattr(part, name)) for name in known}
        own = named | {name: value for name, value in own.items() if name not in {"value", "interval"}}
    yield own
