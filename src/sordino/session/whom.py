"""Of whom a release is, and which rows count in it: from its request, by public rules alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordino.population import ColumnNames, Population, describe_missing, say_columns
from sordino.questions import Domain, PrivacyUnit
from sordino.questions.labels import name_columns
from sordino.session.request import Request, list_lent
from sordino.sources.lookups import JoinedTable
from sordino.sources.selected_part import SelectedPart


def find_population(
    request: Request[Any],
    unit: PrivacyUnit,
    domain: Domain | None,
    left_out: Sequence[str],
    epsilon: object = None,
    lookups: Sequence[JoinedTable] = (),
    part: SelectedPart | None = None,
) -> Population:
    """Return which rows count in a release.

    Parameters
    ----------
    request : Request
        What was asked; of another look at a release what that one was asked with.
    unit : PrivacyUnit
        Whom it protects.
    domain : Domain or None
        Its labels.
    left_out : sequence of str
        Which rows count in no release of the session.
    epsilon : number or None
        What this release was asked to spend.
    lookups : sequence of JoinedTable
        Which other tables it reads.
    part : SelectedPart or None
        Which rows its session reads.
    """
    asked = {name: getattr(request, name, None) for name in ("item", "column", "by", "where")}
    if part is not None:
        asked["where"] = part.add_to(asked["where"])
    labels = asked["by"] or asked["item"]
    per_person = getattr(request, "per_person", None)
    out = list(left_out)
    # Whose rows are counted needs no number in any of them.
    if asked["column"] is not None and per_person != "count":
        out.append(describe_missing(asked["column"]))
    if asked["by"] is not None and domain is not None and domain.hidden:
        out.append("rows of groups that were not found")
    if labels is not None and domain is not None:
        out += _list_no_labels(labels, domain)
    return Population(
        figure=request.name,
        unit=name_unit(unit),
        adjacency=unit.adjacency,
        # One number for each person is of all of its rows.
        max_rows=_find_bound(request, unit),
        per_person=per_person,
        **asked | {"where": asked["where"] or None},
        groups_per_unit=_find_group_bound(request, unit, domain),
        domain=None if domain is None else domain.origin,
        threshold=_read_number(getattr(request, "threshold", None)),
        lower=_read_number(getattr(request, "lower", None)),
        bounds=_read_bounds(getattr(request, "bounds", None)),
        left_out=tuple(out),
        k=getattr(request, "k", None),
        most_groups=getattr(request, "most_groups", None),
        unlisted=domain is not None and domain.hidden,
        share_refused=getattr(request, "numbers_share", None) == 0,
        weighed=request.weighs,
        own_clips=getattr(request, "clip", None) == "each",
        called=unit.called,
        epsilon=_read_number(epsilon),
        lookups=tuple(one.table.origin for one in lookups),
        lent=list_lent(lookups),
        part=None if part is None else part.text,
    )


def _list_no_labels(labels: ColumnNames, domain: Domain) -> list[str]:
    """Return which rows are left out for their labels: by a list, or as what no label can be."""
    columns = name_columns("item", labels)
    parts = domain.parts if len(domain.parts) == len(columns) else (domain,) * len(columns)
    rules = {
        "is no label of the domain": False,
        "is missing, empty or longer than 4096 characters": True,
    }
    return [
        f"rows whose {say_columns(named, 'or')} {rule}"
        for rule, hidden in rules.items()
        if (
            named := [
                one for one, part in zip(columns, parts, strict=True) if part.hidden == hidden
            ]
        )
    ]


def _find_bound(request: Request[Any], unit: PrivacyUnit) -> int | None:
    """Return how many rows or items of a unit count."""
    if getattr(request, "per_person", None) is not None or request.weighs:
        return None
    # A table has a bound of its own.
    cells = getattr(request, "max_cells", None)
    return unit.max_rows if cells is None or unit.column is None else int(cells)


def _find_group_bound(
    request: Request[Any], unit: PrivacyUnit, domain: Domain | None
) -> int | None:
    """Return in how many groups a unit counts."""
    # Where each row is a unit it has one group.
    if unit.column is None:
        return 1
    # Labels with large sums are looked for like items.
    if request.name == "top_sums":
        return unit.max_rows if domain is not None and domain.hidden else None
    return getattr(request, "groups_per_unit", None)


def name_unit(unit: PrivacyUnit) -> str:
    """Return whom a release protects, as its facts say it."""
    if unit.parts:
        return unit.identity
    return "each row" if unit.key is None else f"column {unit.key}"


def _read_number(number: Any) -> float | None:
    """Return a public number as JSON has it.

    None where no float is as large, for nothing raises here.
    """
    try:
        return None if number is None else float(number)
    except OverflowError:
        return None


def _read_bounds(bounds: Any) -> tuple[float, float] | None:
    low, high = (None, None) if bounds is None else map(_read_number, bounds)
    return None if low is None or high is None else (low, high)
