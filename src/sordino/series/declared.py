"""What `sordino.toml` says of a series: of which table, what is released, and for how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, final

from sordino.constraints import (
    COUNT,
    POSITIVE,
    TABLE_NAME,
    TRUTH,
    Number,
    did_you_mean,
    shown,
    to_fraction,
)
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.session.noise_choice import MeasureNoise
from sordino.session.request import Request
from sordino.study.declaration import DeclaredTable, read_table
from sordino.study.document import Document, digest_tree
from sordino.study.kinds import build_request, find_kind, list_known
from sordino.study.tables import Table, accept_text, guard

KINDS = ("count", "count_distinct_units", "histogram")
"""What can run on: numbers of rows or of people, whose noise adds up exactly."""
_FROM_ROWS = ("unlisted", "assumed public")
"""Labels of which each period would have its own."""
_FREE = {"grace", "only_added"}
"""What may change after the start: when a period is asked, and what is told of it."""
_NOT_ADDED = {"bounds", "threshold"}
"""Noise that is folded adds up to nothing that is known, nor do labels that noise has chosen."""


def _accept_levels(name: str, value: Any) -> tuple[str, ...]:
    fits = isinstance(value, list | tuple) and value and all(isinstance(one, str) for one in value)
    if not fits:
        raise InvalidParameter(
            f"{name} must be a list of periods, such as ['day', 'month']; got {shown(value)}."
        )
    return tuple(value)


def _accept_grace(name: str, value: Any) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else COUNT(name, value)


@final
class SeriesTable(Table):
    """What stands in [series.NAME] beside what its release is asked with."""

    name_in_file: ClassVar[str] = "series"

    table: str = parameter(accept_text, "A table that is declared here.")
    release: str = parameter(accept_text, "count, count_distinct_units or histogram.")
    epsilon: Number = parameter(POSITIVE, "What all periods of the series may spend of one part.")
    first: str = parameter(accept_text, "The first day (or hour, month, year), as in 2026-01-01.")
    levels: tuple[str, ...] = parameter(
        _accept_levels, "Which periods are asked, the shortest first.", default=("day", "month")
    )
    grace: int = parameter(
        _accept_grace, "So many days are waited for late rows before a period is asked.", default=2
    )
    only_added: bool = parameter(
        TRUTH,
        "Whether rows are only ever added, and never deleted or changed: then no total falls.",
        default=False,
    )


@final
@dataclass(frozen=True)
class DeclaredSeries:
    """A series as it is declared."""

    name: str
    table: DeclaredTable
    said: SeriesTable
    asked: Mapping[str, Any]
    folder: str

    @property
    def epsilon(self) -> Fraction:
        """What its periods spend of one part together."""
        return to_fraction(self.said.epsilon)

    @cached_property
    def digest(self) -> str:
        """A hash of all that is said: under it the ledger remembers what was asked."""
        own = {one.name: getattr(self.said, one.name) for one in fields(self.said)}
        # However its number is written.
        own |= {"epsilon": self.epsilon}
        said = {name: str(value) for name, value in own.items() if name not in _FREE}
        unit = [self.table.unit.identity, str(self.table.unit.max_rows)]
        return digest_tree({"series": said, "asked": dict(self.asked), "unit": unit})

    @property
    def place(self) -> tuple[str, str]:
        """Where it stands in the file."""
        return "series", self.name

    @property
    def wanted(self) -> MeasureNoise | None:
        """The noise that is asked for by name."""
        return self.asked.get("noise")

    def build(self, epsilon: Fraction, noise: MeasureNoise = "laplace") -> Request[Any]:
        """Return the request of one period; which noise it has the account never chooses anew."""
        kind = find_kind(self.said.release)
        asked = {**self.asked, "noise": noise}
        request: Request[Any] = guard(
            self.table.document,
            self.place,
            lambda: build_request(kind, asked, epsilon, self.folder),
        )
        return request


def read_series(document: Document, name: str) -> DeclaredSeries:
    """Return a series by its name.

    Raises
    ------
    InvalidParameter
        If there is none of that name, or what is said of it is wrong.
    """
    listed = document.take_table("series") if "series" in document.tree else {}
    if name not in listed:
        known = ", ".join(map(repr, listed)) or "none"
        raise InvalidParameter(
            f"{document.path} must declare the series {shown(name)}, [series.NAME]; it declares "
            f"{known}.{did_you_mean(name, listed)}"
        )
    place, said = ("series", name), listed[name]
    guard(document, place, lambda: TABLE_NAME("The name of a series", name))
    if not isinstance(said, dict):
        document.refuse(place, f"series.{name} must be a table, [series.{name}].")
    own = [one.name for one in fields(SeriesTable)]
    missing = [
        one.name for one in fields(SeriesTable) if one.default is MISSING and one.name not in said
    ]
    if missing:
        document.refuse(place, f"series.{name}.{missing[0]} must be given; got none.")
    given = {key: said[key] for key in own if key in said}
    series: SeriesTable = guard(document, place, lambda: SeriesTable(**given))
    if series.release not in KINDS:
        document.refuse(
            (*place, "release"),
            f"series.{name}.release must be one of {', '.join(KINDS)}, whose "
            "periods add up to one figure; those of others, such as sums, are clipped otherwise in "
            f"each period; got {shown(series.release)}.",
        )
    if series.only_added and series.release == "histogram":
        document.refuse(
            (*place, "only_added"),
            f"series.{name}.only_added must go with count or count_distinct_units; of a histogram "
            "each period draws anew which labels somebody with many of them counts for.",
        )
    if series.table not in document.take_table("table"):
        document.refuse(
            (*place, "table"), f"series.{name}.table must be declared; got {shown(series.table)}."
        )
    table = read_table(document, series.table, None, option="series")
    asked = {key: value for key, value in said.items() if key not in own}
    more = [key for key in list_known(find_kind(series.release)) if key not in {*_NOT_ADDED, *own}]
    document.check_keys(asked, place, [*own, *more], f"[series.{name}]")
    found = DeclaredSeries(name, table, series, asked, str(Path(document.path).parent))
    # What is wrong with the release is said here, and not in the night.
    domain: Any = getattr(found.build(found.epsilon, found.wanted or "laplace"), "domain", None)
    if domain is not None and (domain.hidden or domain.kind in _FROM_ROWS):
        document.refuse(
            (*place, "domain"),
            f"series.{name}.domain must list its labels, which all periods have: a list or a file; "
            f"got {domain.origin}.",
        )
    return found
