"""Which rows do not count in a release, or count as something else: its public rules, in words."""

from __future__ import annotations

from typing import Any

from sordino.population import describe_missing, say_columns
from sordino.session.executor import ReleaseExecutor
from sordino.session.request import find_lookups, list_lent


def list_rules(request: Any, executor: ReleaseExecutor) -> tuple[str, ...]:
    """Return the rules by which a release drops, bounds or moves rows.

    How many it moves is private.
    """
    rules = list(executor.list_left_out())
    if (where := getattr(request, "where", None)) is not None:
        rules.append(f"rows for which {where} does not hold")
    labels = getattr(request, "by", None) or getattr(request, "item", None)
    if labels is not None and getattr(request, "domain", None) is not None:
        rules.append(f"rows whose {say_columns(labels, 'or')} is no label of the domain")
    cells = getattr(request, "max_cells", None) if executor.unit.column is not None else None
    most = executor.unit.max_rows if cells is None else cells
    lent = list_lent(find_lookups(executor.source, request))
    rules += [f"rows of a person in {table} beyond one, which is drawn" for table in lent]
    groups = getattr(request, "groups_per_unit", None)
    per_person = getattr(request, "per_person", None)
    # A number of units is that of all of them, whichever of their rows count.
    if most is not None and request.name != "count_distinct_units" and per_person is None:
        counted = "items" if hasattr(request, "item") else "rows"
        everywhere = (
            ", in all groups together" if getattr(request, "by", None) and groups is None else ""
        )
        rules.append(f"{counted} of a person beyond {most}{everywhere}")
    if groups is not None and executor.unit.column is not None:
        rules.append(f"groups of a person beyond {groups}")
    if (hasattr(request, "cap") or hasattr(request, "bins")) and per_person != "count":
        rules.append(describe_missing(request.column))
    if hasattr(request, "cap"):
        rules += _list_ends(request)
    return tuple(rules)


def _list_ends(request: Any) -> list[str]:
    """Return what becomes of numbers beyond the ends of a column."""
    rules = []
    if request.lower is not None:
        low = f"{float(request.lower):.12g}"
        rules.append(f"what lies below {low} (it counts as {low})")
    cap = f"{float(request.cap):.12g}"
    if request.name == "quantile":
        rules.append(f"what lies above {cap} (it counts as {cap})")
    elif getattr(request, "bounds", None) is not None:
        rules.append(
            f"what lies above {cap} (it counts as {cap}), and what a figure lies beyond its bounds"
        )
    else:
        rules.append(
            f"what lies beyond a clip that is found, at most {cap} (it counts as the clip)"
        )
    return rules
