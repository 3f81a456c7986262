"""Reads frames of DataFusion: any table, view or query of a session of somebody else, in this process.

Questions run in a context of our own, over the plan of the frame. Who is trusted with what:

- The frame is its owner's. What it computes to make its rows, it computes as its owner planned it: one row on
  which that fails ends a release.
- Settings, functions and optimizer rules of the owner's session take no part: names are looked up in our
  context, whose settings are fixed here.
- Files of a table say of all their rows what their least and largest values are. No predicate reaches them
  (`datafusion_condition`).
- A query reads a table once. A release that asks two queries may find two states of a table in them; each
  unit's part in either is bounded (docs/known-limits.md).

Bytes that are no text in UTF-8 are missing, and so are dates outside of the years 1 to 9999, which have no
text here that another engine would write. What DataFusion says of an error or logs of a plan may hold a
private value or the salt. None of it is repeated, and its loggers are mute while a question is asked.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, final

import numpy as np

from sordino.data.sources.datafusion_words import DATAFUSION, write_type
from sordino.data.sources.dialect import Dialect
from sordino.data.sources.engine import UNPLANNED, Answer, Kept, Scan, quoted
from sordino.data.sources.memory import choose_memory
from sordino.data.sources.source import AnswerLimit, Asked, unusable
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend

_ENGINE_TYPES = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bool": "BOOLEAN",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
    "string_view": "VARCHAR",
    "date32[day]": "DATE",
}
_EXACT = re.compile(r"decimal128\((\d+), (\d+)\)")
_SETTINGS = {
    # What a file says of its rows decides for none of them.
    "datafusion.execution.collect_statistics": "false",
    "datafusion.execution.parquet.pruning": "false",
    "datafusion.execution.parquet.enable_page_index": "false",
    "datafusion.execution.parquet.bloom_filter_on_read": "false",
    "datafusion.execution.parquet.pushdown_filters": "false",
    # Nor do the least and largest keys of one side of a join for the other side.
    "datafusion.optimizer.enable_dynamic_filter_pushdown": "false",
    "datafusion.execution.time_zone": "UTC",
    "datafusion.sql_parser.dialect": "generic",
    # At its limit the parser tries every other way, which takes forever. Questions are bounded by themselves.
    "datafusion.sql_parser.recursion_limit": "100000",
}
# How each kind of column is taken, by its declared type: these rules look at one value alone.
_TAKEN = {
    "VARCHAR": "TRY_CAST(CAST({} AS BYTEA) AS VARCHAR)",
    # NaN of either sign is one.
    "FLOAT": "nanvl({}, CAST('NaN' AS FLOAT))",
    "DOUBLE": "nanvl({}, CAST('NaN' AS DOUBLE))",
    "DATE": "CASE WHEN {0} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {0} END",
}


@final
@dataclass(frozen=True)
class DataFusionBackend:
    """One frame of a session of somebody else.

    Parameters
    ----------
    frame : object
        A `datafusion.DataFrame`.
    schema : tuple of pairs
        Names and types of its columns, in the words of the embedded engine.
    """

    frame: Any = field(repr=False)  # it would print its rows
    schema: tuple[tuple[str, str], ...]
    dialect: ClassVar[Dialect] = DATAFUSION
    limit: ClassVar[AnswerLimit | None] = None

    @contextmanager
    def scan(self, indices: Sequence[int]) -> Iterator[Scan]:
        """Ask a fresh context, which ends with the scan."""
        with _SILENCE, _open_context() as context:
            context.register_view("source", self.frame)
            used = ", ".join(self._take(index) for index in indices) or "1 AS c"
            yield _DataFusionScan(context, f"SELECT {used} FROM source")

    def rehearse(self, columns: Mapping[int, str], asked: Asked) -> None:
        """Ask a fresh context the questions over a row of its own."""
        # The frame takes no part: rows that stand in its plan would be computed with it.
        typed = ", ".join(f"CAST(NULL AS {write_type(kind)}) AS c{index}" for index, kind in columns.items())
        # Imported here, because nothing else needs it.
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        # In a thread of its own, because in a notebook a loop is running in this one.
        with _SILENCE, _open_context() as context, ThreadPoolExecutor(1, "sordino-rehearsal") as aside:
            # One row that holds nothing: over no row nothing would be computed, and what cannot be would fail
            # after the charge.
            nothing = aside.submit(context.sql(f"SELECT {typed or '1 AS c'}").collect).result()
            context.register_record_batches("source", [nothing])
            scan = _DataFusionScan(context, "SELECT * FROM source")
            for question, labels in asked:
                # The engine has no class of its own for its errors.
                failure = aside.submit(scan.ask, question, labels).exception()
                if failure is not None:
                    raise DataSourceError(UNPLANNED)

    def _take(self, index: int) -> str:
        name, kind = self.schema[index]
        return f"{_TAKEN.get(kind, '{}').format(quoted(name))} AS c{index}"


@contextmanager
def _open_context() -> Iterator[Any]:
    """Open a context with settings of our own; its folder is private and removed at the end."""
    from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext  # noqa: PLC0415 - optional

    with TemporaryDirectory(prefix="sordino-") as folder:
        runtime = RuntimeEnvBuilder().with_disk_manager_specified(folder)
        runtime = runtime.with_greedy_memory_pool(choose_memory(None, evaluates=True))
        yield SessionContext(SessionConfig(_SETTINGS), runtime)


class _DataFusionScan:
    """One reading: a SELECT whose columns are named c<index>."""

    def __init__(self, context: Any, rows: str) -> None:
        self._context, self._rows = context, rows
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    def ask(self, question: str, labels: Sequence[str] | None = None, *, kept: Kept | None = None) -> Answer:  # noqa: ARG002
        """Run a query over `rows` and `labels`."""
        import pyarrow as pa  # noqa: PLC0415 - DataFusion brings it along

        if labels is not None:
            places, texts = pa.array(range(len(labels)), pa.int64()), pa.array(labels, pa.string())
            listed = pa.record_batch({"position": places, "label": texts})
            self._context.deregister_table("labels")
            self._context.register_record_batches("labels", [[listed]])
        frame = self._context.sql(f"WITH rows AS ({self._rows}) {question}")
        batches = asyncio.run(self._await(_collect(frame)))
        found = pa.Table.from_batches(batches, frame.schema())
        return {name: _read_column(found.column(name)) for name in found.column_names}

    async def _await(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = asyncio.ensure_future(work)
        with self._lock:
            self._running = asyncio.get_running_loop(), task
        try:
            return await task
        finally:
            with self._lock:
                self._running = None

    def progress(self) -> float:
        """Return 0: the engine does not say how far it is."""
        return 0.0

    def interrupt(self) -> None:
        """Stop the query that is running: dropped by its loop, it is dropped by the engine."""
        with self._lock:
            if self._running is not None:
                loop, task = self._running
                with suppress(RuntimeError):  # the loop may have ended
                    loop.call_soon_threadsafe(task.cancel)


async def _collect(frame: Any) -> list[Any]:
    return [batch.to_pyarrow() async for batch in frame.execute_stream()]


def _read_column(column: Any) -> Any:
    """Return a column of an answer: whole numbers, or texts."""
    values = column.to_pylist()
    return np.array(values, dtype=np.int64 if str(column.type).startswith("int") else object)


def is_datafusion_frame(value: Any) -> bool:
    """Tell whether a value is a frame of DataFusion, without importing DataFusion."""
    module = sys.modules.get("datafusion")
    return module is not None and isinstance(value, module.DataFrame)


def open_datafusion_frame(frame: Any) -> tuple[DataFusionBackend, dict[str, str]]:
    """Read the schema of a frame, and no row: a frame knows it without being run.

    Raises
    ------
    InvalidParameter
        If a name occurs twice.
    """
    _check_plan(frame)
    fields = list(frame.schema())
    schema = tuple((str(one.name), _translate_type(str(one.type))) for one in fields)
    columns = dict(schema)
    if len(columns) != len(schema):
        raise InvalidParameter(
            "The columns of a DataFusion frame must have different names; rename them with an alias."
        )
    return DataFusionBackend(frame, schema), columns


# The kinds of files that a plan reads; of these two, rows decide the types unless a schema was given.
_READ_KIND = re.compile(r"\bfile_type=(csv|json)\b")


def _check_plan(frame: Any) -> None:
    """Refuse a frame over files whose rows may have decided the types of their columns.

    Raises
    ------
    UnsupportedBackend
        If its plan reads CSV or JSON. Whether a schema was given is not seen there.
    """
    try:
        # Nothing is read: only how it would be.
        with _SILENCE:
            plan = frame.execution_plan().display_indent()
    except Exception:  # noqa: BLE001 - the engine has no class of its own, and its words may quote a plan
        raise DataSourceError(
            "A DataFusion frame must be one that its session can plan; this one is not."
        ) from None
    if found := _READ_KIND.search(plan):
        raise UnsupportedBackend(
            "A DataFusion frame must read files that declare the types of their columns, such as Parquet, "
            f"because otherwise rows decide them; got a scan of {found[1].upper()}. Open the file by its "
            "path, or write it to Parquet with a schema."
        )


def _translate_type(kind: str) -> str:
    """Return a type of Arrow in the words of the embedded engine."""
    if exact := _EXACT.fullmatch(kind):
        return f"DECIMAL({exact[1]},{exact[2]})" if int(exact[2]) <= int(exact[1]) else unusable(kind)
    return _ENGINE_TYPES.get(kind, unusable(kind))


# ---- silence -----------------------------------------------------------------------------------------------
# At the level DEBUG the engine logs plans, with the salt and the constants of a question, in threads of its
# own. Its loggers are named for crates of Rust and their parts, and come up when they are first used.

_CRATE = re.compile(r"(datafusion|arrow|parquet|sqlparser|object_store)\w*(\..*)?")
_CRATES = (
    *("arrow", "object_store", "parquet", "sqlparser", "datafusion", "datafusion_catalog"),
    *("datafusion_catalog_listing", "datafusion_common", "datafusion_common_runtime"),
    *("datafusion_datasource", "datafusion_datasource_parquet", "datafusion_execution", "datafusion_expr"),
    *("datafusion_functions", "datafusion_functions_aggregate", "datafusion_functions_nested"),
    *("datafusion_functions_window", "datafusion_optimizer", "datafusion_physical_expr"),
    *("datafusion_physical_expr_adapter", "datafusion_physical_expr_common", "datafusion_physical_optimizer"),
    *("datafusion_physical_plan", "datafusion_pruning", "datafusion_python", "datafusion_session"),
    *("datafusion_sql", "datafusion_substrait"),
)
_NOTHING = logging.CRITICAL + 1


class _Silence:
    """What is muted for all threads that ask now, and ends with the last of them."""

    def __init__(self) -> None:
        self._lock, self._asking = threading.Lock(), 0
        self._muted: list[logging.Logger] = []
        self._levels: dict[logging.Logger, int] = {}

    def __enter__(self) -> None:
        with self._lock:
            self._asking += 1
            if self._asking == 1:
                self._begin()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._asking -= 1
            if not self._asking:
                self._end()

    def _begin(self) -> None:
        known = [name for name in list(logging.root.manager.loggerDict) if _CRATE.fullmatch(name)]
        # Those that are there may have levels of their own.
        self._muted = [logger for logger in map(logging.getLogger, known) if not logger.disabled]
        for logger in self._muted:
            logger.disabled = True
        # Those that come up meanwhile have the level of their crate.
        self._levels = {logger: logger.level for logger in map(logging.getLogger, _CRATES)}
        for logger in self._levels:
            logger.setLevel(_NOTHING)

    def _end(self) -> None:
        for logger in self._muted:
            logger.disabled = False
        for logger, level in self._levels.items():
            logger.setLevel(level)


_SILENCE = _Silence()
