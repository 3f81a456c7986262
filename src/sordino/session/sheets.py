"""The sheet of a release of a session: what `Session.keep` keeps of it.

It is loaded when something is kept: it knows every kind of release.
"""

from __future__ import annotations

from typing import Any

from sordino.data import PrivacyUnit
from sordino.errors import InvalidParameter
from sordino.estimators import QuantileValues
from sordino.releases import Values, plain
from sordino.session.local import Reported
from sordino.session.whom import name_unit
from sordino.sheet import Sheet, describe_receipt, list_facts, list_noises, list_total

# What every sheet says in its own words.
_IN_FACTS = frozenset(
    {"type", "cost", "simulated", "exact", "receipt", "mechanism", "numbers_share", "total", "population"}
)


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
    listed = isinstance(release, QuantileValues) or "rows" in said
    beside = {name: said[name] for name in said.keys() - _IN_FACTS - {"rows", "values"}} if listed else {}
    rows = [plain(record) for record in release.list_records()]
    # A release of a mechanism alone knows of no rows.
    some = getattr(release, "population", None)
    if some is not None and not listed and some.counted is not None:
        rows = [{"count": some.counted} | row for row in rows]
    facts = list_facts(
        said["type"],
        release,
        release.receipt,
        unit=name_unit(unit),
        adjacency=unit.adjacency,
        max_rows=unit.max_rows,
        **dict(sorted(beside.items())),
        mechanism=said["mechanism"],
    )
    # What the last look cost is its epsilon; what all looks cost together stands beside it.
    facts |= list_total(release)
    facts |= list_noises(getattr(release, "mechanism", None))
    facts |= {} if some is None else {"figure": some.figure} | some.list_facts()
    if (confidence := getattr(release, "confidence", None)) is not None:
        facts["confidence"] = confidence
    if getattr(release, "on_average", False):
        facts["on_average"] = True
    share = getattr(release, "numbers_share", None)
    if share is not None:
        facts |= share.list_facts()
    # All rows of a release have the same names; one without rows has none.
    columns = tuple(rows[0]) if rows else ()
    notes = [*([] if some is None else some.list_notes()), *describe_receipt(release.receipt)]
    return Sheet(facts=facts, columns=columns, rows=rows, notes=notes, counts=False)
