"""What descriptions of every kind of release share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sordino.population import Population
from sordino.record import (
    format_cell,
)
from sordino.releases import plain

COUNT_COLUMNS = ("estimate", "low", "high")
TRUE_COLUMNS = ("true_low", "true_high")

Facts = dict[str, Any]
Notes = list[str]


def pick(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return these columns of rows, JSON-ready."""
    return [{name: row[name] for name in columns} for row in map(plain, rows)]


def describe_found(release: Any, most: int | None = None) -> tuple[Facts, Notes]:
    """Return what a release of labels that nobody listed says of those that it found."""
    found, threshold = len(release), release.label_threshold
    among = "" if most is None else f" of at most {most}"
    # Without a bound on the labels of a unit the threshold hangs on a private count.
    people = "people" if release.population is None else release.population.people
    needed = f"about {threshold:,} {people}" if threshold else f"many {people}"
    facts = {} if threshold is None else {"label_threshold": threshold}
    notes = [
        f"Found {found}{among}: nobody listed the labels. A label needs {needed} to appear. A "
        "missing label tells you nothing."
    ]
    # Only a top has several ways to find labels.
    if why := getattr(release, "why", None):
        return facts | {"why": why}, [*notes, f"Method: {release.method}. {why}"]
    return facts, notes


def describe_reaching(shown: int, least: int, asked: int) -> tuple[Facts, Notes]:
    """Return what a histogram says that releases only counts which reach a threshold."""
    facts = {"method": "histogram", "threshold": least, "asked": asked}
    return facts, [
        f"Shown: {shown:,} of {asked:,} labels, those with a noisy count of {least:,} or "
        "more. A label that is not shown may have people."
    ]


def describe_range(release: Any, some: Population) -> tuple[Facts, Notes]:
    """Return what a release within declared bounds says about its range; nothing without bounds."""
    if some.bounds is None:
        return {}, []
    (low, high), (least, most) = some.bounds, release.output_range
    told = (
        f"Published within [{format_cell(least, 2)}, {format_cell(most, 2)}]: unbiased from "
        f"{format_cell(low)} to {format_cell(high)}; what lies beyond counts as the nearer end."
    )
    return {"range_low": least, "range_high": most}, [told]
