"""Tables as pandas has them. How a column is declared may depend on its values there: a missing one makes floats of whole numbers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd

from fuzz.tables import Table, arrow
from fuzz.values import FLOATS, WHOLE, text_of

_NULLABLE = {kind: kind.capitalize().replace("int", "Int") for kind in WHOLE}
_NUMPY = {"TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64"}
_NUMPY |= {f"U{kind}": f"u{name}" for kind, name in _NUMPY.items()}
EXACT = 1 << 53
FOUND_OUT = ("numpy", "category")
"""Frames whose types are found out from their values."""


def frame(made: str, table: Table) -> Any:
    """Return a pandas frame: "numpy" as pandas makes it without being asked, "nullable", "arrow", "object" or with "category"."""
    if made == "arrow":
        return arrow(table).to_pandas(types_mapper=pd.ArrowDtype)
    columns = [_column(made, kind, table.column(place)) for place, kind in enumerate(table.kinds)]
    out = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=range(len(table.rows)))
    out.columns = list(table.names)
    return out


def with_a_name_twice(table: Any) -> Any:
    """Return a frame with two more columns of one name, which nobody asks for."""
    other = pd.DataFrame({"twice": np.zeros(len(table))}, index=table.index)
    return pd.concat([table, other, other], axis=1)


def tamed(kind: str, value: Any) -> Any:
    """Return a whole number that a float can hold as well: which of the two pandas takes depends on other rows."""
    return max(-EXACT, min(EXACT, value)) if kind in WHOLE and value is not None else value


def _column(made: str, kind: str, values: list[Any]) -> Any:
    missing = any(value is None for value in values)
    # One text among numbers makes a column of objects.
    stray = kind != "VARCHAR" and any(isinstance(value, str) for value in values)
    if made == "object" or stray:
        return pd.Series(np.array([*values, None], dtype=object)[:-1], dtype=object)
    if made == "nullable":
        return _nullable(kind, values)
    if kind in _NUMPY:
        if missing:
            return pd.Series(
                np.array(
                    [np.nan if value is None else float(value) for value in values],
                    dtype=np.float64,
                )
            )
        return pd.Series(np.array(values, dtype=_NUMPY[kind]))
    if kind in FLOATS:
        width = np.float32 if kind == "FLOAT" else np.float64
        return pd.Series(
            np.array([np.nan if value is None else value for value in values], dtype=width)
        )
    if kind == "BOOLEAN" and not missing:
        return pd.Series(np.array(values, dtype=bool))
    if kind == "TIMESTAMP":
        return pd.Series(np.array(values, dtype="datetime64[us]"))
    if kind == "VARCHAR" and made == "category":
        return pd.Series(np.array([*values, None], dtype=object)[:-1], dtype="category")
    return pd.Series(np.array([*values, None], dtype=object)[:-1], dtype=object)


def _nullable(kind: str, values: list[Any]) -> Any:
    if kind in _NUMPY:
        name = _NUMPY[kind].replace("int", "Int").replace("uI", "UI")
        return pd.Series(pd.array(values, dtype=name))
    if (
        kind in FLOATS
    ):  # numpy floats: a Parquet file keeps their NaN as they are or as NULL, which is the same to every question
        return pd.Series(
            np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        )
    if kind == "BOOLEAN":
        return pd.Series(pd.array(values, dtype="boolean"))
    if kind == "VARCHAR":
        return pd.Series(pd.array(values, dtype="string"))
    return arrow(Table(("x",), (kind,), tuple((value,) for value in values))).to_pandas(
        types_mapper=pd.ArrowDtype
    )["x"]


def effective(made: str, table: Table) -> Table:
    """Return the values that a reader of the frame finds."""
    rows = [
        tuple(_value(made, kind, value) for kind, value in zip(table.kinds, row, strict=True))
        for row in table.rows
    ]
    kinds = ["VARCHAR" if made == "object" else kind for kind in table.kinds]
    return Table(table.names, tuple(kinds), tuple(rows))


def _value(made: str, kind: str, value: Any) -> Any:
    if made == "arrow" or value is None:
        return value
    if (
        made == "object"
    ):  # a text, a number, a truth value or a moment becomes text; everything else is NULL
        if isinstance(value, int | float | str):
            return text_of(value, "")
        if type(value) not in {dt.date, dt.datetime}:
            return None
        written = str(value)  # the engine writes no zeros at the end of a fraction
        return written.rstrip("0").rstrip(".") if "." in written else written
    if kind in FLOATS and value != value:
        return None
    return value
