"""What was released as a table: for frames, for other programs by Arrow, and for a notebook.

Nothing but what was released is in it, and nothing of it is computed from data again.
"""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache
from importlib import import_module
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, get_args, get_type_hints

import numpy as np

from sordino.errors import UnsupportedBackend
from sordino.population import list_columns, show_rows
from sordino.record import Record, describe_spent, escape_controls, list_spent, name_parts
from sordino.record_table import draw_table, write_cells

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl
    import pyarrow as pa

Kind = Literal["text", "whole", "number", "truth"]
Row = dict[str, Any]
One = TypeVar("One")

_CAPPED = "after capping every number to the two ends in the table. "
_AS_THEY_ARE = (
    "The figure of the numbers as they are may lie outside; a row has its ends where they are "
    "known."
)
MOVED = f"the figure {_CAPPED}{_AS_THEY_ARE}"
"""What the intervals of clipped numbers are about."""
MOVED_OF_SOME = f"the figure of the rows that count, {_CAPPED}{_AS_THEY_ARE}"
"""The same where a unit counts for some of its rows only."""
MOVED_TOGETHER = (
    "the figure where nobody counts for more than the upper end in the table, in all groups "
    f"together. {_AS_THEY_ARE}"
)
"""The same where one clip is of what a unit adds up to in all groups."""
MOVED_WEIGHED = f"the figure of the rows with these weights, {_CAPPED}{_AS_THEY_ARE}"
"""The same of a mean whose rows have weights."""
SHOWN_ROWS = 50
"""A notebook shows so many rows of a release, and says how many there are."""

# How each library calls the four kinds of columns. Of pandas: those that can hold that nothing is
# known.
_TYPES: dict[str, dict[Kind, str]] = {
    "pyarrow": {"text": "string", "whole": "int64", "number": "float64", "truth": "bool_"},
    "polars": {"text": "String", "whole": "Int64", "number": "Float64", "truth": "Boolean"},
    "pandas": {"text": "object", "whole": "Int64", "number": "float64", "truth": "boolean"},
}


class WithRows(Generic[One]):
    """What has rows, one after the other."""

    __slots__ = ()

    rows: tuple[One, ...]

    def __iter__(self) -> Iterator[One]:
        """Iterate over the rows, in their order."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.rows)


class Tabular:
    """A release as rows: `to_pandas`, `to_polars`, `to_arrow`, `plot` and what a notebook shows."""

    __slots__ = ()

    @abstractmethod
    def list_rows(self) -> list[Row]:
        """Return the rows of the release, each as a mapping of names to what was released."""

    def _list_columns(self) -> dict[str, Kind]:
        """Return the columns of which the kinds are known without a row; by default none."""
        return {}

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table of Arrow.

        Returns
        -------
        pyarrow.Table
            One row for each row of the release; one row of a release that is a single figure. Ends
            of a range are two columns, such as `clip_low` and `clip_high`. What the release does
            not say is null. Where some rows alone count, each row says by what: `where`,
            `max_rows`, `groups_per_unit`.

        Raises
        ------
        UnsupportedBackend
            If pyarrow is not installed.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> orders = pl.DataFrame({"customer": ["a", "b", "c"], "product": ["tea", "tea", "rice"]})
        >>> session = sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7))
        >>> top = session.top_k("product", k=1, epsilon=8, domain=["coffee", "rice", "tea"])
        >>> top.to_arrow().column_names[:3]
        ['rank', 'item', 'estimate']
        """
        arrow = _load("pyarrow")
        kinds, columns = _add_bounds(self, *_arrange(self))
        return arrow.table(
            {
                name: arrow.array(columns[name], type=getattr(arrow, _TYPES["pyarrow"][kind])())
                for name, kind in kinds.items()
            }
        )

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a frame of Polars, with the columns of `to_arrow`.

        Returns
        -------
        polars.DataFrame

        Raises
        ------
        UnsupportedBackend
            If Polars is not installed.

        Examples
        --------
        >>> import sordino as sd
        >>> counts = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(2))
        >>> counts.release([50, 7], entropy=sd.Seeded(7)).to_polars().columns
        ['values']
        """
        polars = _load("polars")
        kinds, columns = _add_bounds(self, *_arrange(self))
        schema = {name: getattr(polars, _TYPES["polars"][kind]) for name, kind in kinds.items()}
        frame: pl.DataFrame = polars.DataFrame(columns, schema=schema)
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a frame of pandas, with the columns of `to_arrow`.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        UnsupportedBackend
            If pandas is not installed.

        Examples
        --------
        >>> import sordino as sd
        >>> counts = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(2))
        >>> counts.release([50, 7], entropy=sd.Seeded(7)).to_pandas().shape
        (2, 1)
        """
        pandas = _load("pandas")
        kinds, columns = _add_bounds(self, *_arrange(self))
        series = {
            name: pandas.Series(columns[name], dtype=_TYPES["pandas"][kind])
            for name, kind in kinds.items()
        }
        frame: pd.DataFrame = pandas.DataFrame(series)
        return frame

    def plot(self) -> alt.Chart | alt.LayerChart:
        """Return a picture of the rows: dots or bars with intervals, or a curve of quantiles.

        Nothing is computed from data, and nothing is charged. Of very many rows the first are
        drawn.

        Returns
        -------
        altair.Chart or altair.LayerChart
            As the last line of a cell it is shown; `save` writes it to a file.

        Raises
        ------
        UnsupportedBackend
            If altair is not installed (the extra `report`).

        Examples
        --------
        >>> import sordino as sd
        >>> counts = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(2))
        >>> type(counts.release([50, 7], entropy=sd.Seeded(7)).plot()).__name__
        'LayerChart'
        """
        # Only who asks for a picture needs what says how it is drawn.
        from sordino.charts import make_chart, read_figure  # noqa: PLC0415

        some = getattr(self, "population", None)
        notes = [] if some is None else [*some.say_about(), *some.say_bound()]
        return make_chart(
            read_figure(type(self).__name__, show_rows(self.list_rows()), notes=notes)
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the rows to any program that takes Arrow (the PyCapsule protocol).

        It needs pyarrow.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_text(self, *, details: bool = False) -> str:
        """Return the table of a release of a session as text, as the command writes it.

        Parameters
        ----------
        details : bool
            Whether all that is known of its figures stands below it, and not three lines at most.

        Returns
        -------
        str
            Of what no session has made its `repr`.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> visits = pl.DataFrame({"guest": range(900), "town": ["Arles", "Bern", "Como"] * 300})
        >>> session = sd.Session(visits, unit=sd.PrivacyUnit("guest"), entropy=sd.Seeded(7))
        >>> many = session.count_distinct_units(epsilon=0.5, where="town = 'Bern'")
        >>> print(many)  # the same as many.to_text()
        count   estimate  low  high
        people       307  301   313
        low to high: holds the true number with 95%.
        Counts people with town = 'Bern'. Not counted: rows without guest.
        SIMULATED: the noise is predictable; this protects nobody. Spent: epsilon 0.5.
        """
        told = self._tell()
        if told is None:
            return repr(self)
        record, short = told
        return draw_table(record) + "\n".join(record.notes if details else short)

    def __str__(self) -> str:
        """Return what `to_text` does."""
        return self.to_text()

    def _tell(self) -> tuple[Record, list[str]] | None:
        """Return what a release of a session says of itself; None of any other."""
        if getattr(self, "population", None) is None or not hasattr(self, "cost"):
            return None
        # What describes releases stands above them. It is found by its name, so that one from a
        # pickle says whom it is about where nothing else was loaded.
        told: tuple[Record, list[str]] = import_module("sordino.results").tell(self)
        return told

    def _repr_html_(self) -> str:
        """Return the rows as a table of a notebook; labels are texts there, whatever they hold."""
        told = self._tell()
        if told is None:
            kinds, columns = _arrange(self)
            cells = {name: [_picture(value) for value in columns[name]] for name in kinds}
            said = [*self._list_notes(len(self.list_rows())), *_list_clipped(kinds, self)]
            notes, more = [" ".join(said)], ""
        else:
            record, notes = told
            cells, details = write_cells(record), "<br>".join(map(_escape, record.notes))
            more = f"<details><summary>Details</summary><p>{details}</p></details>"
        rows = list(zip(*cells.values(), strict=True))
        if len(rows) > SHOWN_ROWS:
            notes = [f"The first {SHOWN_ROWS} of {len(rows):,} rows are shown.", *notes]
        head = "".join(f"<th>{_escape(name)}</th>" for name in cells)
        body = "".join(
            f"<tr>{''.join(f'<td>{_escape(cell)}</td>' for cell in row)}</tr>"
            for row in rows[:SHOWN_ROWS]
        )
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{'<br>'.join(map(_escape, notes))}</p>{more}"
        )

    def _list_notes(self, rows: int) -> list[str]:  # noqa: ARG002 - some say of each
        """Return the sentences below the table of what no session has made."""
        release, notes = cast("Any", self), []
        if getattr(release, "simulated", False):
            notes.append("Simulated: its noise comes from a seed, and protects nobody.")
        cost = getattr(release, "cost", None)
        # What is made of releases has no cost of its own.
        spent = "nothing more" if cost is None else describe_spent(list_spent(cost))
        return [*notes, f"Spent: {spent}."]


def _list_clipped(columns: Iterable[str], release: Any) -> list[str]:
    """Return what must be said of intervals not about all numbers as they are, or of each row."""
    about = [f"Intervals are about {MOVED}"] if "clip_high" in columns else []
    if getattr(release, "on_average", False):
        about.append(
            f"On average {100 * release.confidence:.4g}% of the intervals hold, and not each so."
        )
    return about


def _add_bounds(
    release: Any, kinds: dict[str, Kind], columns: dict[str, list[Any]]
) -> tuple[dict[str, Kind], dict[str, list[Any]]]:
    """Return columns with what makes each row one of some rows only; rows leave their frame."""
    some, share = (getattr(release, name, None) for name in ("population", "numbers_share"))
    said: dict[str, Any] = {} if some is None else some.list_bounds()
    # Of few rows with a number a figure is about few, and so it is in a frame.
    shares = {} if share is None else share.list_facts()
    height = len(next(iter(columns.values()), []))
    return (
        kinds
        | {name: "text" if isinstance(value, str) else "whole" for name, value in said.items()}
        | dict.fromkeys(shares, "number"),
        columns | {name: [value] * height for name, value in (said | shares).items()},
    )


def _escape(text: str) -> str:
    return html.escape(escape_controls(text))


def _picture(value: Any) -> str:
    """Return a value as a cell of a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _load(name: str) -> Any:
    """Return a library that need not be installed."""
    try:
        return import_module(name)
    except ImportError:
        raise UnsupportedBackend(
            f"A release becomes a table of {name} where that is installed; it is not. "
            f"Install it (pip install {name})."
        ) from None


# ---- from a release to columns -------------------------------------------------------------------


def list_own_rows(own: Mapping[str, Any]) -> list[Row]:
    """Return the rows that fields make: one for each entry of their arrays.

    One row where none is an array.

    Beside arrays, other fields are about the whole release, and in no row.
    """
    arrays = {name: value.tolist() for name, value in own.items() if isinstance(value, np.ndarray)}
    if not arrays:
        return [dict(own)]
    # Labels are texts, and so no array.
    if "labels" in own:
        arrays = {"labels": list(own["labels"])} | arrays
    # The gap behind the last item may be missing.
    return [dict(zip(arrays, row, strict=True)) for row in zip_longest(*arrays.values())]


def list_row_columns(release: Any) -> dict[str, Kind]:
    """Return the columns of a release that is made of rows, by the declared types of these.

    So one without rows has its columns, too.
    """
    hint = get_args(get_type_hints(type(release)).get("rows"))
    return _list_declared(cast("type", hint[0])) if hint and is_dataclass(hint[0]) else {}


@cache
def _list_declared(row: Any) -> dict[str, Kind]:
    declared = get_type_hints(row)
    found = {field.name: _name_kind(declared[field.name]) for field in fields(row)}
    return {name: kind for name, kind in found.items() if kind is not None}


def _name_kind(declared: Any) -> Kind | None:
    """Return the kind of column of a declared type, of which None may be a part.

    None if it has none.
    """
    parts = set(get_args(declared)) - {type(None)} or {declared}
    # A label is a text, or the texts of several columns.
    if str in parts:
        return "text"
    names: dict[Any, Kind] = {str: "text", bool: "truth", int: "whole", float: "number"}
    return names.get(parts.pop()) if len(parts) == 1 else None


def _find_kind(values: Sequence[Any]) -> Kind:
    """Return the kind of column that holds some values."""
    known = {type(value) for value in values if value is not None}
    if known <= {bool} and known:
        return "truth"
    if known <= {int} and known:
        return "whole"
    # A column of which nothing is known anywhere is one of figures.
    return "number" if known <= {int, float} else "text"


def _arrange(release: Tabular) -> tuple[dict[str, Kind], dict[str, list[Any]]]:
    """Return the kinds of all columns, and what they hold."""
    some = getattr(release, "population", None)
    # A label of several columns has a column of a frame for each.
    parts = None if some is None else list_columns(some.by or some.item)
    parts = parts if isinstance(parts, list) else []
    # What each row says beside has its own names there.
    beside = set() if some is None else {*some.list_bounds()}
    records = [_flatten(_spread(record, parts, beside)) for record in release.list_rows()]
    kinds = release._list_columns()  # noqa: SLF001 - of the same class
    if parts and "item" in kinds:
        taken = {*kinds, *beside} - {"item"}
        named: dict[str, Kind] = dict.fromkeys(name_parts(parts, taken), "text")
        kinds = named | {name: kind for name, kind in kinds.items() if name != "item"}
    names = list(dict.fromkeys([*(name for record in records for name in record), *kinds]))
    columns = {name: [record.get(name) for record in records] for name in names}
    found = {name: kinds.get(name) or _find_kind(columns[name]) for name in names}
    return found, {
        name: [None if value is None else _PLAIN[found[name]](value) for value in column]
        for name, column in columns.items()
    }


def _spread(record: Row, parts: Sequence[str], beside: set[str]) -> Row:
    """Return a row with each part of its label under the name of its column."""
    label = record.get("item")
    if isinstance(label, tuple) and len(label) == 1:
        return {**record, "item": label[0]}
    if not parts or not isinstance(label, tuple):
        return record
    taken = {*record, *beside} - {"item"}
    named = dict(zip(name_parts(parts, taken), label, strict=True))
    found: Row = {}
    for name, value in record.items():
        found |= named if name == "item" else {name: value}
    return found


# Fractions become floats.
_PLAIN: dict[Kind, Any] = {"text": str, "whole": int, "number": float, "truth": bool}


# Two ends each, where a release has them; else nothing is said of them.
_RANGES = frozenset({"bounds", "clip", "output_range"})


def _flatten(record: Row) -> Row:
    """Return a row in which the two ends of a range are two columns."""
    flat: Row = {}
    for name, value in record.items():
        if isinstance(value, tuple) and len(value) == 2:
            flat |= {f"{name}_low": value[0], f"{name}_high": value[1]}
        elif value is not None or name not in _RANGES:
            flat[name] = float(value) if isinstance(value, Fraction | np.floating) else value
    return flat
