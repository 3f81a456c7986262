"""Reads tables in memory: pandas, Polars (eager and lazy) and Arrow.

They travel to our engine as Arrow. Only the columns that a question needs are sent.

Public about a frame are the names and the declared types (dtypes) of its columns. Values are never
looked at to find out a type. But whoever made the frame may have done so: pandas turns whole
numbers into floats, and truth values into objects, where one value is missing. So the same values
are the same labels, units and numbers whichever of these types they have. And no type is refused
that one more value could turn another type into (docs/explanation/frames.md).

A pandas column of type `object` can hold anything. Each of its values becomes text by one fixed
rule: a text stays; bytes are texts in UTF-8; a number, a truth value, a date or a time becomes its
text; everything else is NULL, which includes NaN, whole numbers of more than 640 digits and texts
that are not valid Unicode. Dates with a time, and times of day, are such texts in pandas also where
the column has a type of its own. Texts of every frame travel as bytes, and those that are not UTF-8
are NULL. So are decimals with more digits than their type.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from sordino.constraints import is_unicode
from sordino.errors import DataSourceError, UnsupportedBackend
from sordino.sources.engine import Engine
from sordino.sources.source import SUPPORTED, TYPE_OF_NO_VALUES, refuse_names, unusable
from sordino.sources.sql.sql_templates import float_text
from sordino.sources.sql.times import drop_beyond_type

_SIMPLE_TYPES: dict[Any, str] = {
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
    nw.Int128: "HUGEINT",
    nw.UInt8: "UTINYINT",
    nw.UInt16: "USMALLINT",
    nw.UInt32: "UINTEGER",
    nw.UInt64: "UBIGINT",
    nw.UInt128: "UHUGEINT",
    nw.Float16: "FLOAT",
    nw.Float32: "FLOAT",
    nw.Float64: "DOUBLE",
    # Arrow makes bytes of all texts where one value is bytes.
    nw.Binary: "VARCHAR",
}
_TIMESTAMP_TYPES = {
    "s": "TIMESTAMP_S",
    "ms": "TIMESTAMP_MS",
    "us": "TIMESTAMP",
    "ns": "TIMESTAMP_NS",
}


@final
@dataclass(frozen=True, eq=False)
class FrameReader:
    """A table in memory, with the declared types of the columns that can be asked for.

    Parameters
    ----------
    frame : pandas, Polars or Arrow table
        All of it.
    types : tuple of str
        In the words of the engine.
    places : tuple of int
        Where these columns stand.
    lazy : bool
        Whether it is computed when it is read.
    """

    frame: Any = field(repr=False)  # it would print its rows
    types: tuple[str, ...]
    places: tuple[int, ...]
    lazy: bool

    @property
    def inferred(self) -> bool:
        """Whether the types may have been found out from values."""
        return _is_pandas(self.frame)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that its plan names: of more than two that it scans the first one."""
        return tuple(file for file, _ in self._scanned)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of files that its plan does not name one by one."""
        return tuple({file.parent for file, more in self._scanned if more})

    @property
    def _scanned(self) -> list[tuple[Path, bool]]:
        listed = _SCANNED_FILES.findall(self.frame.explain(optimized=False)) if self.lazy else []
        # Behind a blank and within brackets: "first, second", or "first, ... 3 other sources".
        cut = [_OTHER_FILES.subn("", line[2:-1]) for line in listed]
        # A name may hold a comma, too.
        found = [
            (Path(name.removeprefix("file://")), more > 0)
            for names, more in cut
            for name in (names, *names.split(", "))
        ]
        return [(path.absolute(), more) for path, more in found if path.is_file()]

    @property
    def cast(self) -> str:
        """How a column is made one of texts, in words."""
        if self.inferred:
            return "Convert the column in pandas: frame[NAME] = frame[NAME].astype(str)."
        if nw.dependencies.is_pyarrow_table(self.frame):
            return (
                "Convert the column in Arrow: pyarrow.compute.cast(column, 'string'); of a list or "
                "struct take one part (pyarrow.compute.list_element, struct_field)."
            )
        return (
            "Convert the column in Polars: frame.with_columns(polars.col(NAME).cast("
            "polars.String)); of a span of time take .dt.total_seconds(), of a list or struct one "
            "part (.list.get, .struct.field)."
        )

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the used columns to the engine."""
        # An optional dependency, asked for when the frame was opened.
        import pyarrow as pa  # noqa: PLC0415

        # A table without columns has no height in Arrow, so only the number of rows is sent.
        if not indices:
            height = (
                len(self.frame) if _names_may_repeat(self.frame) else _count_frame_rows(self.frame)
            )
            return f"SELECT 1 FROM range({height})"
        places = [self.places[index] for index in indices]
        # Columns are taken by their places: names may occur twice.
        if _is_pandas(self.frame):
            arrays = [_pandas_column(self.frame.iloc[:, place], pa) for place in places]
        elif nw.dependencies.is_pyarrow_table(self.frame):
            arrays = [self.frame.column(place) for place in places]
        else:
            arrays = _collect_columns(self.frame, places).columns
        sent = pa.table(
            [_convert_for_engine(array, pa) for array in arrays],
            names=[f"c{index}" for index in indices],
        )
        engine.lend(lambda: sent)
        columns = [
            _write_received_column(
                f"c{index}", self.types[index], sent.schema.field(f"c{index}").type, pa
            )
            for index in indices
        ]
        return f"SELECT {', '.join(columns)} FROM lent"


def _convert_for_engine(array: Any, pa: Any) -> Any:
    """Return a column of which the engine takes each value by itself, whatever other rows hold."""
    if pa.types.is_dictionary(array.type):
        array = _decode_dictionary(array, pa)
    kind = array.type
    if pa.types.is_null(kind):
        return array.cast(pa.int32())
    # Whether a text is valid is decided for each row in the engine (`_write_received_column`).
    # Arrow does not check it.
    if _is_text(kind, pa):
        return array.cast(pa.large_binary())
    # The engine has no floats of 16 bits, and every such float is one of 32 bits.
    if pa.types.is_float16(kind):
        return array.cast(pa.float32())
    return _drop_beyond_precision(array, pa) if pa.types.is_decimal128(kind) else array


def _is_text(kind: Any, pa: Any) -> bool:
    """Tell whether an Arrow type is one of texts or of bytes."""
    kinds = (
        "string",
        "large_string",
        "string_view",
        "binary",
        "large_binary",
        "binary_view",
        "fixed_size_binary",
    )
    return any(getattr(pa.types, f"is_{name}")(kind) for name in kinds)


def _drop_beyond_precision(array: Any, pa: Any) -> Any:
    """Return decimals; those that have more digits than their type are missing.

    Arrow lets such values be: a cast that is not safe leaves them, and so may whoever wrote a file.
    The engine keeps narrow decimals in fewer bytes. Where a value does not fit into these, the
    engine leaves what stood there before: the value of another row.
    """
    # As `pa`: pyarrow does not load it by itself.
    from pyarrow.compute import if_else  # noqa: PLC0415

    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    limit = 10**array.type.precision
    # Missing, and not an error: whether some row has such a value is private.
    nothing = pa.scalar(None, array.type)
    kept = [if_else(pa.array(_is_below(chunk, limit)), chunk, nothing) for chunk in chunks]
    return pa.chunked_array(kept, type=array.type)


_HALVES_OF_128_BITS = np.dtype([("low", "<u8"), ("high", "<i8")])


def _is_below(decimals: Any, limit: int) -> NDArray[np.bool_]:
    """Return for each whole number of 128 bits whether its magnitude is below the limit.

    For what is missing the result may be anything.
    """
    memory = decimals.buffers()[1]
    if memory is None or not len(decimals):
        return np.ones(len(decimals), dtype=bool)
    halves = np.frombuffer(
        memory,
        _HALVES_OF_128_BITS,
        count=len(decimals),
        offset=decimals.offset * _HALVES_OF_128_BITS.itemsize,
    )
    low, high = halves["low"], halves["high"]
    # NumPy has no whole numbers of 128 bits. So the limit and its negative are split into two
    # halves as well: the upper one with a sign, the lower one without.
    (above, rest), (below, negative) = divmod(limit, 1 << 64), divmod(-limit, 1 << 64)
    is_large = (high > above) | ((high == above) & (low >= np.uint64(rest)))
    is_small = (high < below) | ((high == below) & (low <= np.uint64(negative)))
    within: NDArray[np.bool_] = ~(is_large | is_small)
    return within


def _decode_dictionary(array: Any, pa: Any) -> Any:
    """Return a dictionary-encoded column as the values that it stands for.

    Texts become bytes with 64-bit offsets, because together they may be long.
    """
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    wanted = pa.large_binary() if _is_text(array.type.value_type, pa) else array.type.value_type
    plain = [
        pa.DictionaryArray.from_arrays(one.indices, one.dictionary.cast(wanted)).dictionary_decode()
        for one in chunks
    ]
    return pa.chunked_array(plain, type=wanted)


_MOMENTS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}
"""The engine's types for moments of Arrow, by their unit."""


def _write_received_column(name: str, declared: str, sent: Any, pa: Any) -> str:
    """Return the column in its declared type; a value that does not fit is NULL, not an error."""
    # `decode` fails on bytes that are no UTF-8. Each operator that
    # can fail has a TRY of its own (docs/proofs/predicates.md).
    # Texts were sent as bytes.
    if pa.types.is_large_binary(sent):
        text = f"TRY(decode({name}))"
        return (
            f"{text} AS {name}"
            if declared == "VARCHAR"
            else f"TRY(TRY_CAST({text} AS {declared})) AS {name}"
        )
    # On the way a time has a type of its own, whatever it is declared as.
    kind = declared
    if pa.types.is_timestamp(sent):
        kind = _MOMENTS[sent.unit] if sent.tz is None else "TIMESTAMP WITH TIME ZONE"
    elif pa.types.is_time64(sent) and sent.unit == "ns":
        kind = "TIME_NS"
    received = f"TRY(TRY_CAST({drop_beyond_type(name, kind)} AS {declared}))"
    if pa.types.is_timestamp(sent) and declared == "VARCHAR":
        # As `_text_of_moment`: years have four digits.
        return f"CASE WHEN {received} LIKE '____-__-__ __:__:__%' THEN {received} END AS {name}"
    return f"{received} AS {name}"


def open_frame(value: Any) -> tuple[FrameReader, dict[str, str], dict[str, str]]:
    """Read the schema of a table in memory, and no value of it.

    Returns
    -------
    tuple of (FrameReader, dict, dict)
        What reads its rows; names and declared types of its columns; names by which no column can
        be asked for, and why.

    Raises
    ------
    UnsupportedBackend
        If it is no table that can be read here.
    """
    # Known by its name, so that nothing is imported for it.
    if type(value).__module__.partition(".")[0] == "datafusion":
        raise UnsupportedBackend(
            "A frame of DataFusion must be handed over as an Arrow table, which is "
            "frame.to_arrow_table()."
        )
    try:
        # A frame that narwhals wraps, or that hands narwhals another frame, is that frame: it has
        # its types, and its plan.
        value = nw.to_native(value, pass_through=True)
        if not _names_may_repeat(value):
            value = nw.to_native(nw.from_native(value, pass_through=True), pass_through=True)
        frame: Any = None if _names_may_repeat(value) else nw.from_native(value)
    # `from None`: what another library says of a table may quote its values.
    except (TypeError, AttributeError, nw.exceptions.NarwhalsError, ValueError):
        raise UnsupportedBackend(
            f"{SUPPORTED}; got {type(value).__module__}.{type(value).__qualname__}."
        ) from None
    if frame is not None and frame.implementation is not nw.Implementation.POLARS:
        raise UnsupportedBackend(
            f"{SUPPORTED}; got a table of {frame.implementation}. Write it to Parquet first."
        )
    if find_spec("pyarrow") is None:
        raise UnsupportedBackend(
            "Tables in memory are handed over as Arrow; install pyarrow (pip install "
            "'sordino[frames]')."
        )
    names, types = _read_names_and_types(frame, value)
    refused = refuse_names(names)
    if _is_pandas(value):
        refused |= {
            str(name): (
                "stands in the index of the frame, which is no column. Hand over "
                "frame.reset_index()."
            )
            for name in value.index.names
            if name is not None and str(name) not in names
        }
    places = [place for place, name in enumerate(names) if name not in refused]
    columns = {names[place]: types[place] for place in places}
    reader = FrameReader(
        value, tuple(columns.values()), tuple(places), isinstance(frame, nw.LazyFrame)
    )
    return reader, columns, refused


def _read_names_and_types(frame: Any, value: Any) -> tuple[list[str], list[str]]:
    """Return names and declared types of all columns, in their order.

    The same name may occur twice.
    """
    if _is_pandas(value):
        # What a name is, if it is no text, its text says: 0 is '0'.
        kinds = [_read_pandas_type(kind) for kind in value.dtypes]
        # One value of another type makes objects of them all, among which they are missing.
        kept = ["VARCHAR" if one.startswith(unusable("")) else one for one in kinds]
        return [str(name) for name in value.columns], kept
    if frame is None:
        return list(value.schema.names), [_read_arrow_type(kind) for kind in value.schema.types]
    types = {
        name: _translate_frame_type(kind) for name, kind in _read_frame_schema(frame, value).items()
    }
    empty = [name for name, kind in value.collect_schema().items() if str(kind) == "Null"]
    types |= dict.fromkeys(empty, TYPE_OF_NO_VALUES)
    return list(types), list(types.values())


def _read_frame_schema(frame: Any, value: Any) -> Mapping[str, Any]:
    """Return names and types of the columns of a Polars frame, as narwhals says them.

    Raises
    ------
    UnsupportedBackend
        If the frame is lazy, and rows or names of folders may decide its types.
    DataSourceError
        If the frame is lazy, and its plan cannot be carried out.
    """
    lazy = isinstance(frame, nw.LazyFrame)
    try:
        if lazy:
            # This comes first: a frame that reads such files would read rows to tell its schema.
            _check_frame_plan(value)
        schema = frame.collect_schema()
        if lazy:
            _check_folders(value)
    except UnsupportedBackend:
        raise
    # Polars has errors of its own, whose words may quote names of folders.
    except Exception:  # noqa: BLE001
        raise DataSourceError(
            "The schema of a frame must be known; this one cannot tell its own. Ask it for "
            "collect_schema()."
        ) from None
    return dict(schema.items())


def _read_arrow_type(kind: Any) -> str:
    """Return the declared type of an Arrow column; a dictionary has the type of what it holds."""
    # An optional dependency, asked for when the frame was opened.
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_dictionary(kind):
        return _read_arrow_type(kind.value_type)
    if pa.types.is_null(kind):
        return TYPE_OF_NO_VALUES
    try:
        schema = nw.from_native(pa.table({"c": pa.array([], kind)})).collect_schema()
        return _translate_frame_type(schema["c"], str(kind))
    # Of types that it does not know narwhals says so in errors of many kinds.
    except Exception:  # noqa: BLE001
        return unusable(str(kind))


# How a plan of Polars names what it reads, with lines and
# blanks of the drawn tree in front: "CSV SCAN", "PARQUET SCAN".
_SCANNED_KIND = re.compile(r"^[\s\u2500-\u257f]*([A-Za-z]+) SCAN\b", re.MULTILINE)
# Kinds of files that declare the types of their columns.
_TYPED_KINDS = frozenset({"parquet", "ipc", "delta"})
# The files that a plan scans, as its line lists them. Their names may hold brackets, commas and
# blanks.
_SCANNED_FILES = re.compile(r"^[\s\u2500-\u257f]*[A-Za-z]+ SCAN\b(.*)$", re.MULTILINE)
_OTHER_FILES = re.compile(r", \.\.\. \d+ other sources?$")
# A folder called NAME=VALUE: some file has a separator behind a sign of equality.
_NAME_VALUE_FOLDER = re.compile(r"=.*[/\\]")


def _check_frame_plan(value: Any) -> None:
    """Refuse a lazy frame that reads files whose rows decide the types of their columns.

    Raises
    ------
    UnsupportedBackend
        If its plan scans anything but files that declare their types.
    """
    plan = value.explain(optimized=False)
    guessing = sorted(
        {word for word in _SCANNED_KIND.findall(plan) if word.lower() not in _TYPED_KINDS}
    )
    if guessing:
        raise UnsupportedBackend(
            "A lazy frame must read files that declare the types of their columns, such as "
            f"Parquet, because otherwise rows decide them; got a scan of {' and '.join(guessing)}. "
            "Open the file by its path, or collect the frame with a declared schema."
        )


def _check_folders(value: Any) -> None:
    """Refuse a lazy frame whose columns may come from the names of folders.

    The type of such a column is found out from all of these names together. Whether there is one
    cannot be seen: it may have another name by now.

    Raises
    ------
    UnsupportedBackend
        If a file that its plan scans lies in a folder `NAME=VALUE`.
    """
    listed = _SCANNED_FILES.findall(value.explain(optimized=False))
    # A line that does not end with the list has a name with a line break in it: what follows cannot
    # be read.
    if any(
        _NAME_VALUE_FOLDER.search(line) or not (line.startswith(" [") and line.endswith("]"))
        for line in listed
    ):
        raise UnsupportedBackend(
            "A lazy frame must not scan folders called NAME=VALUE, such as year=2026, because all "
            "of these names together decide what type the column NAME has. Open the files by a "
            "pattern of paths, for which the names of folders mean nothing, or collect the frame "
            "with a declared schema."
        )


def _translate_frame_type(kind: Any, name: str = "") -> str:
    """Return a type of narwhals in the words of the engine.

    `name` is its own name, where it has another.
    """
    if isinstance(kind, nw.Datetime):
        return (
            _TIMESTAMP_TYPES[kind.time_unit]
            if kind.time_zone is None
            else "TIMESTAMP WITH TIME ZONE"
        )
    if isinstance(kind, nw.Decimal):
        precision, scale = getattr(kind, "precision", None), getattr(kind, "scale", None)
        if precision is not None and scale is not None and 0 <= scale <= precision:
            return f"DECIMAL({precision},{scale})"
    known = (name for known, name in _SIMPLE_TYPES.items() if isinstance(kind, known))
    return next(known, unusable(name or str(kind)))


def _read_pandas_type(kind: Any) -> str:
    # By the dtype alone: what narwhals would say of an `object` column depends on its values.
    if str(kind) == "object":
        return "VARCHAR"
    # Arrow and the engine have no longer floats than those of 64 bits.
    if kind == np.longdouble:
        return "DOUBLE"
    if str(kind).startswith("Sparse["):
        return _read_pandas_type(kind.subtype)
    # One value that is no time makes objects of all, and times among objects are texts.
    if str(kind).startswith("datetime64"):
        return "VARCHAR"
    if hasattr(kind, "pyarrow_dtype"):
        found = _read_arrow_type(kind.pyarrow_dtype)
        # And decimals among objects have the texts of floats.
        return "VARCHAR" if found.startswith(("TIME", "DECIMAL")) else found
    pandas: Any = nw.dependencies.get_pandas()
    empty = nw.from_native(pandas.DataFrame({"c": pandas.Series([], dtype=kind)}))
    return _translate_frame_type(empty.collect_schema()["c"], str(kind))


def _is_pandas(value: Any) -> bool:
    return bool(nw.dependencies.is_pandas_dataframe(value))


def _names_may_repeat(value: Any) -> bool:
    """Tell whether a value is a table whose columns may share a name, which narwhals refuses."""
    return _is_pandas(value) or bool(nw.dependencies.is_pyarrow_table(value))


def _count_frame_rows(frame: Any) -> int:
    lazy = nw.from_native(frame).lazy()
    return int(lazy.select(nw.len()).collect().item())


def _collect_columns(frame: Any, places: Sequence[int]) -> Any:
    # Polars takes a name such as `*` or `^x.*$` for a pattern, and returns others.
    chosen: Any = nw.from_native(frame).select(nw.nth(*places))
    # Arrow has no whole numbers of 128 bits: they travel as texts.
    kinds = list(chosen.collect_schema().values())
    wide = [place for place, kind in enumerate(kinds) if isinstance(kind, nw.Int128 | nw.UInt128)]
    if wide:
        chosen = chosen.with_columns(nw.nth(*wide).cast(nw.String))
    return (chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen).to_arrow()


def _pandas_column(series: Any, pa: Any) -> Any:
    if str(series.dtype).startswith("Sparse["):
        series = series.sparse.to_dense()
    # Value by value: Arrow would fail on some Python objects, or choose the type of the column by
    # them. Times of day have no text in Arrow, and of spans of time none is known.
    objects = series.dtype == object or getattr(series.dtype, "storage", None) == "python"
    strange = _read_pandas_type(series.dtype).startswith(unusable(""))
    if objects or strange or str(series.dtype).startswith(("time", "decimal")):
        return pa.array([as_text(value) for value in series.array], type=pa.large_string())
    if hasattr(series, "cat"):
        # Categories can be any objects: they follow the same rule
        # as values of `object` columns. A code below 0 is missing.
        texts = [as_text(value) for value in series.cat.categories]
        return pa.array(
            [None if code < 0 else texts[code] for code in series.cat.codes], type=pa.large_string()
        )
    if series.dtype == np.longdouble:
        # What is beyond the largest float becomes infinity, as everywhere, and nobody is told.
        with np.errstate(all="ignore"):
            series = series.astype(np.float64)
    return pa.array(series, from_pandas=True)


# Python writes numbers of up to 640 digits, whatever limit its settings have
# (`sys.set_int_max_str_digits`).
_WHOLE_TEXT_LIMIT = 10**640


def as_text(value: object) -> str | None:
    """Return the text of one value of unknown type, or None; never raise."""
    try:
        return _text_of(value)
    except Exception:  # noqa: BLE001 - a value whose own methods raise is no text
        return None


def _text_of(value: object) -> str | None:
    if isinstance(value, str) or type(value) is bytes:
        # Not `str(value)`: a subclass may say anything there.
        plain = value.decode() if isinstance(value, bytes) else str.__str__(value)
        return plain if is_unicode(plain) else None
    foreign = type(value).__module__ == "numpy"
    if type(value) is bool or (foreign and type(value).__name__ in {"bool", "bool_"}):
        return "true" if value else "false"
    # Not `isinstance`: a datetime is a date as well.
    if type(value) is dt.date or (type(value) is dt.time and value.tzinfo is None):
        return _drop_zeros(value.isoformat())
    if isinstance(value, dt.datetime | np.datetime64):
        return _text_of_moment(value)
    return _text_of_number(value, foreign=foreign)


_MOMENT = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:[.][0-9]+)?")


def _text_of_moment(value: Any) -> str | None:
    """Return the text of a date with a time, as the engine writes it; with a time zone in UTC."""
    zone = ""
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            value, zone = value.astimezone(dt.UTC).replace(tzinfo=None), "+00"
        # pandas has digits that Python has not.
        value = value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value)
    if np.datetime_data(value.dtype)[0] in {"Y", "M", "W", "D", "h", "m"}:
        value = value.astype("datetime64[s]")
    text = _drop_zeros(str(value).replace("T", " "))
    return text + zone if _MOMENT.fullmatch(text) else None


def _drop_zeros(text: str) -> str:
    """Return a time without zeros at the end of a fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _text_of_number(value: object, *, foreign: bool) -> str | None:
    """Return the text of a number, None for everything else; `foreign`: NumPy made it."""
    # The methods of Python's own types are asked: those of a subclass may do anything. So a member
    # of an IntEnum is its number, as is the text that stands for it in a file.
    if isinstance(value, int) or (foreign and isinstance(value, numbers.Integral)):
        number = int.__int__(value) if isinstance(value, int) else int(value)
        return str(number) if abs(number) < _WHOLE_TEXT_LIMIT else None
    if isinstance(value, float):
        return float_text(float.__float__(value))
    if isinstance(value, Decimal):
        return float_text(Decimal.__float__(value))
    if foreign and isinstance(value, numbers.Real):
        return float_text(float(value))
    # One complex number in pandas makes complex numbers of all others.
    if isinstance(value, complex) or (foreign and isinstance(value, numbers.Complex)):
        pair = complex(value)
        return float_text(pair.real) if pair.imag == 0 else None
    return None
