"""Tables in memory: pandas, Polars (eager and lazy) and Arrow. They travel to our engine as Arrow, column by column as needed.

Types are declared, never found out by looking at values. A pandas column of type `object` can hold anything, so each of its values
becomes text by one fixed rule: a text stays, a whole number or a truth value becomes its text, everything else (also whole numbers
beyond 64 bits and texts that are no valid Unicode) is NULL.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import narwhals as nw

from sordino.constraints import is_unicode
from sordino.data._engine import Engine
from sordino.data._source import SUPPORTED, UNUSABLE
from sordino.errors import DataSourceError, UnsupportedBackend

_SIMPLE: dict[Any, str] = {
    nw.String: "VARCHAR",
    nw.Categorical: "VARCHAR",
    nw.Enum: "VARCHAR",
    nw.Boolean: "BOOLEAN",
    nw.Date: "DATE",
    nw.Time: "TIME",
    nw.Int8: "TINYINT",
    nw.Int16: "SMALLINT",
    nw.Int32: "INTEGER",
    nw.Int64: "BIGINT",
    nw.UInt8: "UTINYINT",
    nw.UInt16: "USMALLINT",
    nw.UInt32: "UINTEGER",
    nw.UInt64: "UBIGINT",
    nw.Float32: "FLOAT",
    nw.Float64: "DOUBLE",
    nw.Binary: "BLOB",
}
_CLOCKS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


@final
@dataclass(frozen=True, eq=False)
class FrameReader:
    """A table in memory, with its columns' declared types."""

    frame: Any
    types: tuple[tuple[str, str], ...]
    lazy: bool

    @property
    def paths(self) -> Sequence[Path]:
        """No file is opened."""
        return ()

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Hand the used columns to the engine."""
        import pyarrow as pa  # noqa: PLC0415 - an optional dependency, asked for when the frame was opened

        if not indices:
            height = len(self.frame) if _is_pandas(self.frame) else _height(self.frame)
            return f"SELECT 1 FROM range({height})"
        names = [self.types[index][0] for index in indices]
        if _is_pandas(self.frame):
            arrays = [_pandas_column(self.frame[name], pa) for name in names]
        else:
            table = _collected(self.frame, names)
            arrays = [table.column(position) for position in range(len(names))]
        engine.connection.register("frame", pa.table(arrays, names=[f"c{index}" for index in indices]))
        # The types were declared before the charge; a value that does not fit (there should be none) is NULL, not an error.
        columns = [f"TRY_CAST(c{index} AS {self.types[index][1]}) AS c{index}" for index in indices]
        return f"SELECT {', '.join(columns)} FROM frame"


def open_frame(value: Any) -> tuple[FrameReader, dict[str, str]]:
    """Read the schema of a table in memory, and no value of it.

    Raises
    ------
    UnsupportedBackend
        If it is no table that can be read here.
    DataSourceError
        If two columns have one name.
    """
    try:
        # For pandas only the first zero rows are shown: narwhals looks into `object` columns to name their type.
        frame: Any = nw.from_native(value.iloc[:0] if _is_pandas(value) else value)
        schema = frame.collect_schema()
    except (TypeError, AttributeError, nw.exceptions.NarwhalsError, ValueError):
        raise UnsupportedBackend(f"{SUPPORTED}; got {type(value).__module__}.{type(value).__qualname__}.") from None
    if frame.implementation not in {nw.Implementation.PANDAS, nw.Implementation.POLARS, nw.Implementation.PYARROW}:
        raise UnsupportedBackend(f"{SUPPORTED}; got a table of {frame.implementation}. Write it to Parquet first.")
    if find_spec("pyarrow") is None:
        raise UnsupportedBackend("Tables in memory are handed over as Arrow; install pyarrow (pip install 'sordino[frames]').")
    types = {name: _declared(kind) for name, kind in schema.items()}
    if _is_pandas(value):
        names = [str(name) for name in value.columns]
        if len(set(names)) != len(names):
            raise DataSourceError("The columns of a frame must have different names; rename them.")
        types = {name: _pandas_type(value, name, types) for name in names}
    return FrameReader(value, tuple(types.items()), isinstance(frame, nw.LazyFrame)), types


def _declared(kind: Any) -> str:
    if isinstance(kind, nw.Datetime):
        return _CLOCKS[kind.time_unit] if kind.time_zone is None else "TIMESTAMP WITH TIME ZONE"
    if isinstance(kind, nw.Decimal):
        precision, scale = getattr(kind, "precision", None), getattr(kind, "scale", None)
        return f"DECIMAL({precision},{scale})" if precision is not None and scale is not None else UNUSABLE
    return next((name for known, name in _SIMPLE.items() if isinstance(kind, known)), UNUSABLE)


def _pandas_type(frame: Any, name: str, types: dict[str, str]) -> str:
    if name not in frame.columns:  # its real name is no text
        return UNUSABLE
    return "VARCHAR" if str(frame.dtypes[name]) == "object" else types.get(name, UNUSABLE)


def _is_pandas(value: Any) -> bool:
    return bool(nw.dependencies.is_pandas_dataframe(value))


def _height(frame: Any) -> int:
    lazy = nw.from_native(frame).lazy()
    return int(lazy.select(nw.len()).collect().item())


def _collected(frame: Any, names: Sequence[str]) -> Any:
    chosen = nw.from_native(frame).select(*names)
    return (chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen).to_arrow()


def _pandas_column(series: Any, pa: Any) -> Any:
    if series.dtype == object or getattr(series.dtype, "storage", None) == "python":
        return pa.array([as_text(value) for value in series.array], type=pa.large_string())
    if hasattr(series, "cat"):
        texts = [as_text(value) for value in series.cat.categories]
        return pa.array([None if code < 0 else texts[code] for code in series.cat.codes], type=pa.large_string())
    return pa.array(series, from_pandas=True)


def as_text(value: object) -> str | None:
    """Return the text of one value of unknown type, or None; never raise."""
    try:
        return _text_of(value)
    except Exception:  # noqa: BLE001 - a value whose own methods raise is no text
        return None


def _text_of(value: object) -> str | None:
    if isinstance(value, str):
        plain = str.__str__(value)
        return plain if is_unicode(plain) else None
    foreign = type(value).__module__ == "numpy"
    if type(value) is bool or (foreign and type(value).__name__ in {"bool", "bool_"}):
        return "true" if value else "false"
    if type(value) is int or (foreign and isinstance(value, numbers.Integral)):
        number = int(value)
        return str(number) if -(2**63) <= number < 2**64 else None
    return None
