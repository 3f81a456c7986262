"""Reads what a report is about: releases, as objects or as the JSON that was written of them.

Anybody may have written the JSON. What is no release is refused in words; what is one is taken as
text and numbers, and never as anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from sordino.charts.figure import as_number
from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.population import say_columns, show_rows
from sordino.results import describe, describe_alone
from sordino.results.sentences import TOTALS
from sordino.tabular import Tabular

MOST_RELEASES = 200
"""Of one page: whoever has more makes several."""
MOST_ROWS = 1 << 20

# What each class calls a kind of release, where that does not depend on its mechanism.
_KINDS = {
    # What studies call them: as the methods of a session are called.
    "top_k": "top",
    "top_set": "top",
    "top_sums": "top",
    "count_distinct_units": "count",
    "TopItems": "top",
    "TopSetItems": "top",
    "AboveItems": "above",
    "Histogram": "histogram",
    "table": "histogram",
    "CrossTable": "histogram",
    "Count": "count",
    "QuantileValue": "quantile",
    "QuantileValues": "quantile",
    "VarianceValue": "variance",
}
_BY_MECHANISM = {
    **{one.mechanism: name for name, one in TOTALS.items()},
    "Quantile": "quantile",
    "Quantiles": "quantile",
}
LOOKED_AGAIN = frozenset({"remeasure", "Remeasured"})
_COUNTED = {"count": "rows", "count_distinct_units": "units"}
_ASKED = (
    "item",
    "column",
    "threshold",
    "where",
    "per_person",
    "by",
    "groups_per_unit",
    "clipped_together",
    "own_clips",
    "lookups",
    "lent",
    "weight_cap",
    "units_beyond",
    "lower",
    "bounds",
)
_OF_COMMANDS = frozenset({"top", "above", "histogram", "count", "quantile", "select", *TOTALS})


@final
@dataclass(frozen=True, kw_only=True)
class ReportedRelease:
    """One release, as a report has it.

    Attributes
    ----------
    kind : str
        "top", "set", "above", "histogram", "count", "quantile", "sum", "mean", "variance",
        "select", or the name of its class.
    rows : tuple of mapping
        As JSON has them.
    facts : mapping
        What it says of itself beside its rows.
    mechanisms : tuple of str
        Names of the mechanisms that made it; empty where it does not name them.
    """

    kind: str
    rows: tuple[Mapping[str, Any], ...]
    facts: Mapping[str, Any]
    mechanisms: tuple[str, ...]

    def text(self, name: str) -> str | None:
        """Return a fact that is a text; None if there is none."""
        value = self.facts.get(name)
        return value if isinstance(value, str) and value else None

    def number(self, name: str) -> float | None:
        """Return a fact that is a finite number; None if there is none."""
        return as_number(self.facts.get(name))

    def texts(self, name: str) -> list[str]:
        """Return a fact that is a list of texts."""
        value = self.facts.get(name)
        return (
            [one for one in value if isinstance(one, str)]
            if isinstance(value, list | tuple)
            else []
        )

    @property
    def knows_rows(self) -> bool:
        """Whether it says which rows count.

        An older file may not, and then a filter may have chosen them.
        """
        return "left_out" in self.facts or "asked" in self.facts

    @property
    def simulated(self) -> bool:
        """Whether its noise is predictable."""
        return self.facts.get("simulated") is True


def read_releases(releases: Sequence[Any]) -> list[ReportedRelease]:
    """Return what each release says; one that is given twice is there once.

    Raises
    ------
    InvalidParameter
        If something is no release.
    """
    given: Any = releases
    if not isinstance(given, list | tuple):
        raise InvalidParameter(
            f"make_report.releases must be a list of releases; got {shown(given)}. Put a single "
            "one into a list."
        )
    listed = list(releases)
    if len(listed) > MOST_RELEASES:
        raise InvalidParameter(
            f"A report must have at most {MOST_RELEASES} releases; got {len(listed)}. Make several "
            "reports."
        )
    found: list[ReportedRelease] = []
    for place, one in enumerate(listed, 1):
        told = _read_reported(one, f"Release {place} of a report")
        # The same figures were paid for once.
        if told not in found:
            found.append(told)
    return found


def _read_reported(release: Any, name: str) -> ReportedRelease:
    if isinstance(release, Tabular) and not hasattr(release, "cost"):
        raise InvalidParameter(
            f"{name} must be a release; got {shown(type(release).__name__)}, which was made of "
            "releases. Report these."
        )
    if isinstance(release, Tabular):
        # Quantiles that were released together are no `Release`, and have all that one has.
        known = getattr(release, "population", None) is not None
        record = describe(release) if known else describe_alone(release)
        return _make_reported(record.rows, record.facts)
    if not isinstance(release, Mapping):
        raise InvalidParameter(
            f"{name} must be a release, or the JSON that a command has printed of one; got "
            f"{shown(release)}."
        )
    if isinstance(release.get("release"), str):
        rows = _check_rows(release.get("rows"), name)
        facts = {key: value for key, value in release.items() if key != "rows"}
    elif isinstance(release.get("type"), str):
        rows = _check_rows(_list_rows(release), name)
        facts = _list_facts(release)
    else:
        raise InvalidParameter(
            f"{name} must be a release, or the JSON that a command has printed of one; it has "
            "neither `release` nor `type`."
        )
    return _make_reported(rows, facts)


def _make_reported(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> ReportedRelease:
    mechanisms = _find_mechanisms(facts)
    asked = facts.get("asked")
    if isinstance(asked, Mapping):
        # A study says beside the release what was asked, by the names of the parameters.
        facts = {name: asked[name] for name in _ASKED if name in asked} | dict(facts)
    # Labels of several columns are shown as one text.
    several = (name for name in ("item", "by") if isinstance(facts.get(name), list))
    said = {name: say_columns(facts[name]) for name in several if facts[name]}
    facts = dict(facts) | said
    rows = show_rows(rows)
    if isinstance(facts.get("by"), str):
        # Where nothing was said, a unit counts in any group; a row is in one.
        groups = 1 if facts.get("unit") == "each row" else None
        facts = {"item": facts["by"], "groups_per_unit": groups} | dict(facts)
    own, figure = facts["release"], facts.get("figure")
    # Another look is of the kind of the first one.
    if own in LOOKED_AGAIN and isinstance(figure, str):
        own = figure
    counted = _COUNTED.get(own if isinstance(asked, Mapping) else str(figure))
    rows = rows if counted is None else [{"count": counted, **row} for row in rows]
    rows = [_name_clip_ends(row) for row in rows]
    kind = _KINDS.get(own, own)
    if kind not in _OF_COMMANDS:
        # What it says of itself comes first: other figures are made by the same mechanisms.
        known = (_BY_MECHANISM[name] for name in mechanisms if name in _BY_MECHANISM)
        kind = _KINDS.get(figure, figure) if isinstance(figure, str) else next(known, kind)
    if facts.get("set") is True or own == "TopSetItems":
        kind = "set"
    if kind in TOTALS:
        rows = [{"figure": kind, **row} for row in rows]
    return ReportedRelease(kind=kind, rows=tuple(rows), facts=facts, mechanisms=mechanisms)


def _name_clip_ends(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with the ends of its clip under the names that commands give them."""
    clip = row.get("clip")
    if not isinstance(clip, list | tuple) or len(clip) != 2:
        return row
    return {name: value for name, value in row.items() if name != "clip"} | {
        "clip_low": clip[0],
        "clip_high": clip[1],
    }


def _find_mechanisms(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of mechanisms: as commands write them, or as `to_dict` does."""
    named = facts.get("mechanisms")
    if isinstance(named, list | tuple):
        return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))
    described = facts.get("mechanism")
    parts = described if isinstance(described, list) else [described]
    names = (part.get("name") for part in parts if isinstance(part, Mapping))
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _check_rows(rows: Any, name: str) -> list[Mapping[str, Any]]:
    plain_rows = isinstance(rows, list) and all(
        isinstance(row, Mapping) and all(isinstance(key, str) for key in row) for row in rows
    )
    if not plain_rows or len(rows) > MOST_ROWS:
        raise InvalidParameter(
            f"{name} must have `rows`, at most {MOST_ROWS} objects with names; it has something "
            "else there."
        )
    return list(rows)


def _list_facts(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `to_dict` says beside the rows, by the names that commands have."""
    receipt, cost = said.get("receipt"), said.get("cost")
    beside = {"rows", "values", "type", "receipt", "population"}
    facts = {name: value for name, value in said.items() if name not in beside}
    facts["release"] = said["type"]
    some = said.get("population")
    facts |= dict(some) if isinstance(some, Mapping) else {}
    facts |= dict(receipt) if isinstance(receipt, Mapping) else {}
    if "epsilon" not in facts and isinstance(cost, Mapping) and cost.get("notion") == "pure":
        facts |= {"epsilon": cost.get("epsilon"), "delta": 0}
    total = facts.pop("total", None)
    # What was measured again has several looks, also where nobody knows what all of them cost.
    if "total_epsilon" not in facts and (total is not None or said["type"] == "Remeasured"):
        facts["total_epsilon"] = _add_epsilons(total)
    return facts


def _add_epsilons(cost: Any) -> float | None:
    """Return the epsilon of a cost that is made of pure ones, as `to_dict` wrote it; else None."""
    said = cost if isinstance(cost, Mapping) else {}
    parts = said.get("parts") if said.get("notion") == "composition" else [said]
    if not isinstance(parts, list) or not all(
        isinstance(part, Mapping) and part.get("notion") == "pure" for part in parts
    ):
        return None
    amounts = [(as_number(part.get("epsilon")), as_number(part.get("count", 1))) for part in parts]
    known = [
        epsilon * count for epsilon, count in amounts if epsilon is not None and count is not None
    ]
    return sum(known) if len(known) == len(amounts) else None


def _list_rows(said: Mapping[str, Any]) -> Any:
    """Return the rows of a release as `to_dict` wrote it."""
    if isinstance(said.get("rows"), list):
        return [row for one in said["rows"] for row in _list_group(one)]
    listed = said.get("values")
    if isinstance(listed, list) and listed and all(isinstance(one, Mapping) for one in listed):
        return _name_each(listed, _find_shares(said))
    arrays = {
        name: value
        for name, value in said.items()
        if isinstance(value, list) and _is_array(name, value)
    }
    if arrays:
        longest = max(map(len, arrays.values()))
        return [
            {name: value[place] if place < len(value) else None for name, value in arrays.items()}
            for place in range(longest)
        ]
    return _name_each([said], _find_shares(said))


def _name_each(listed: list[Any], shares: list[Any]) -> list[dict[str, Any]]:
    """Return the figures of several releases, each with the quantile it is, where it is one."""
    return [
        ({"q": share} if share is not None else {}) | _name_figures(one)
        for one, share in zip(listed, [*shares, *[None] * len(listed)], strict=False)
    ]


def _is_array(name: str, value: list[Any]) -> bool:
    ranges = {"clip", "interval", "bounds", "output_range", "mechanism"}
    return name not in ranges and all(
        one is None or isinstance(one, str | int | float) for one in value
    )


def _list_group(row: Any) -> list[Any]:
    """Return the rows of a group, whose release stands in its row; any other row is one."""
    if not isinstance(row, Mapping) or "release" not in row:
        return [row]
    found = row["release"]
    if not isinstance(found, Mapping):
        return [None]
    item: dict[str, Any] = {"item": row.get("item")}
    return [item | dict(one) if isinstance(one, Mapping) else None for one in _list_rows(found)]


def _find_shares(said: Any) -> list[Any]:
    """Return which quantiles a mechanism asks for."""
    described = said.get("mechanism") if isinstance(said, Mapping) else None
    first = described[0] if isinstance(described, list) and described else described
    asked = first.get("q") if isinstance(first, Mapping) else None
    if asked is None:
        return []
    return asked if isinstance(asked, list) else [asked]


def _name_figures(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of one release, by the names that every release has."""
    named = {
        name: value
        for name, value in said.items()
        if value is None or isinstance(value, str | bool | int | float)
    }
    ends = said.get("interval")
    if isinstance(ends, list) and len(ends) == 2:
        named |= {"low": ends[0], "high": ends[1]}
    if "clip" in said:
        named |= {"clip": said["clip"]}
    if "value" in named and "estimate" not in named:
        named["estimate"] = named.pop("value")
    return {name: named[name] for name in named if name not in {"type", "simulated", "exact"}}
