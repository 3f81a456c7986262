"""Reads tables and frames of Spark 4, in a classic session or through Spark Connect.

Questions run inside Spark; the rows stay where they are. Who is trusted with what:

- The frame is its owner's. What it computes to make its rows, it computes there, by the owner's
  rules: one row on which that fails ends a release.
- Frames over text files are refused, whose rows decide the types of their columns each time a frame
  is made: one row more would decide which questions are refused. The analyzed plan says which files
  are read; only that of a client of Spark Connect says whether a schema was given, so what a plan
  does not show counts as none. Tables of a catalog have declared types.
- What questions compute is written so that it can fail on no row (`sql`, `steps`,
  `spark_condition`), depends on no setting but those that `_check_session` looks at, and calls
  functions by their full names, so that no function of the session stands in for one.
- Files of a table say of all their rows what their least and largest values are. No predicate
  reaches them.
- A query reads a table once. A release that asks two queries may find two states of a table in
  them; each unit's part in either is bounded (docs/known-limits.md).

A value that does not fit its declared type is missing, as Spark reads it; bytes that are no text in
UTF-8 are no label. What Spark says of an error may hold a private value, so none of it is repeated,
and what its client would log is muted for the time of a question.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from sordino.address import SparkServer, spark_parts, spark_table
from sordino.constraints import shown
from sordino.errors import DataSourceError, InvalidParameter, SordinoError, UnsupportedBackend
from sordino.sources.engine import Answer, Kept, Scan, Take
from sordino.sources.lookups import JoinedTable
from sordino.sources.source import AnswerLimit, Asked, unusable
from sordino.sources.spark.progress import stop_query, watch_query
from sordino.sources.spark.sql import SPARK
from sordino.sources.sql.dialect import Dialect

_GUESSED = frozenset({"csv", "json", "xml"})
# Lines such as `+- Relation [a#1,b#2] csv`. A table of a catalog has its name before the bracket.
_SCAN = re.compile(r"\bRelation(?: |V2)\[.*\] (csv|json|xml)\b")


def check_plan(frame: Any) -> None:
    """Refuse a frame that reads files whose rows may have decided the types of their columns.

    Raises
    ------
    UnsupportedBackend
        If more of such files are read than were given a schema.
    """
    of_client = type(frame).__module__.startswith("pyspark.sql.connect")
    found: list[str] = _SCAN.findall(
        _explain_client(frame) if of_client else _explain_classic(frame)
    )
    given, guessed = 0, list[str]()
    if of_client:
        # What was asked for is said only there.
        plan = frame._plan.to_proto(frame._session.client)  # noqa: SLF001
        for read in filter(_is_guessed, _walk(plan)):
            if _is_declared(read):
                given += 1
            else:
                guessed.append(read.format.lower())
    if guessed or len(found) > given:
        raise UnsupportedBackend(
            "A Spark frame must read files that declare the types of their columns, such as "
            "Parquet, or be given a schema, because otherwise rows decide them; got "
            f"{(guessed or found)[0].upper()}. Give a schema through Spark Connect "
            "(spark.read.schema(...)), or write the rows to a table."
        )


def _explain_classic(frame: Any) -> str:
    # Python has no other way there.
    return str(frame._jdf.queryExecution().analyzed().toString())  # noqa: SLF001


def _explain_client(frame: Any) -> str:
    """Return the analyzed plan; nothing if Spark cannot make one that can be run."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an optional dependency

    try:
        said: str = frame._explain_string(mode="extended")  # noqa: SLF001 - `explain` prints
    # Spark goes on to a plan that runs, and computes rows that stand in the frame itself: one of
    # them may fail, which must refuse nothing. Then what the client asked for has to do.
    except PySparkException:
        return ""
    # The plan as it was written comes first, and those behind say the same once more.
    behind = said.partition("== Analyzed Logical Plan ==")[2].partition(
        "== Optimized Logical Plan =="
    )[0]
    return behind or said


def _is_guessed(message: Any) -> bool:
    """Tell whether a part of a plan reads files of a kind whose types may be found from rows."""
    return message.DESCRIPTOR.name == "DataSource" and message.format.lower() in _GUESSED


def _is_declared(message: Any) -> bool:
    """Tell whether such files are read with types that follow from no row."""
    options = {key.lower(): value.lower() for key, value in message.options.items()}
    # Without being asked Spark makes texts of all columns of CSV, which the header names.
    plain = message.format.lower() == "csv" and options.get("header") == "true"
    return bool(message.schema) or (plain and options.get("inferschema", "false") == "false")


def _walk(message: Any) -> Iterator[Any]:
    """Yield a message of the protocol and all that are inside."""
    yield message
    for part, value in message.ListFields():
        if part.message_type is None or part.message_type.GetOptions().map_entry:
            continue
        for one in value if hasattr(value, "__len__") else (value,):
            yield from _walk(one)


_ENGINE_TYPES = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
}
_TEXT = re.compile(r"string(?: collate \w+)?|(?:var)?char\(\d+\)", re.IGNORECASE)
_EXACT = re.compile(r"decimal\((\d+),(\d+)\)")
_ANSI = "spark.sql.ansi.enabled"
_LEGACY = "spark.sql.legacy."
_RESERVED = "spark.sql.ansi.enforceReservedKeywords"
# The client would log the text of an error, with the values that are in it.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging")
_MOST_ANSWER = "spark.driver.maxResultSize"
_USUAL_ANSWER = "1g"
# How many tasks send parts of an answer; each sends some 700 bytes about itself beside its rows.
_TASKS = "spark.sql.shuffle.partitions"
_FIRST_TASKS = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
_USUAL_TASKS = "200"
_BYTES_OF_TASK = 1024
# How many best rows are found without a sort of all, for which the driver would be sent rows of
# every task.
_BEST_ROWS = "spark.sql.execution.topKSortFallbackThreshold"
_USUAL_BEST_ROWS = 2147483632
_SIZE = re.compile(r"([0-9]{1,18})([kmgtp]?)b?", re.ASCII)
_BINARY_DIGITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_REACHED_SECONDS = 10
# Of readings, by which an interrupt finds the query of one.
_NUMBERS = itertools.count()
# Functions that questions call. A session may have others of these names.
_FUNCTIONS = re.compile(
    r"\b(abs|aggregate|array|char|coalesce|contains|conv|count|dense_rank|floor|get|greatest"
    r"|is_valid_utf8|isnan|least|length|ln|max|min|replace|rint|round|sha2|shiftright|sign"
    r"|spark_partition_id|split|substr|sum"
    r"|try_add|try_multiply|try_subtract|try_validate_utf8)\("
)
_NOTHING_SAID = (
    "Spark cannot answer this question for the columns as they are; check that they may be read."
)


@final
@dataclass(frozen=True)
class SparkBackend:
    """One frame of a session of somebody else, or one table of a server.

    Parameters
    ----------
    origin : object
        A Spark frame, or the server and the name of a table.
    schema : tuple of pairs
        Names and types of the columns, in the words of Spark.
    limit : AnswerLimit or None
        How large an answer the driver takes; the cluster was started with it.
    """

    origin: Any = field(repr=False)  # it would run, and an address may hold a token
    schema: tuple[tuple[str, str], ...]
    limit: AnswerLimit | None = None
    dialect: ClassVar[Dialect] = SPARK

    def look_up(self, joined: tuple[JoinedTable, ...]) -> SparkBackend:
        """Refuse public tables."""
        raise InvalidParameter(
            f"lookup.{joined[0].table.name} must be for files, frames of pandas, Polars or Arrow, "
            "or tables of DuckDB or PostgreSQL; got a spark source. Join the table in Spark: "
            "frame.join(...)."
        )

    @contextmanager
    def scan(self, indices: Sequence[int]) -> Iterator[Scan]:
        """Ask Spark; a session of our own ends with the scan."""
        with _silence(), _lend_frame(self.origin) as frame:
            # A setting or a column may have changed since; types decide what can fail.
            _check_session(frame.sparkSession)
            if _describe(frame.select("*")) != self.schema:
                raise DataSourceError(
                    "A source must not change while it is open; the columns of it have."
                )
            read = {"frame_of_rows": self._rows(frame, indices)}
            yield _SparkScan(frame.sparkSession, "SELECT * FROM {frame_of_rows}", read)

    def rehearse(self, columns: Mapping[int, str], asked: Asked) -> None:
        """Ask Spark the questions over none of the rows."""
        with _reaching(_NOTHING_SAID), _lend_frame(self.origin) as frame:
            session = frame.sparkSession
            _check_session(session)
            # Whether these columns may be read: their types are asked for, and nothing is run.
            _describe(self._rows(frame, list(columns)))
            # Of a table of its own without rows: those that stand in a plan would be computed with
            # it.
            typed = ", ".join(
                f"CAST(NULL AS {_write_type(kind)}) AS c{index}" for index, kind in columns.items()
            )
            scan = _SparkScan(session, f"SELECT {typed or '1 AS c'} WHERE FALSE", {})
            for question, labels in asked:
                scan.ask(question, labels)

    def _rows(self, frame: Any, indices: Sequence[int]) -> Any:
        """Return the used columns as c<index>, texts without their collations."""
        used = [self._column(frame, index).alias(f"c{index}") for index in indices]
        return frame.select(*used) if used else frame.selectExpr("1 AS c")

    def _column(self, frame: Any, index: int) -> Any:
        name, kind = self.schema[index]
        column = frame["`" + name.replace("`", "``") + "`"]
        # Under another collation different texts are equal: one unit would then answer for another.
        return column.cast("string") if kind.startswith(("string", "char", "varchar")) else column


class _SparkScan:
    """One reading of a query with columns named c<index>, over frames that it names in braces."""

    def __init__(self, session: Any, rows: str, frames: Mapping[str, Any]) -> None:
        self._session, self._rows, self._frames = session, rows, frames
        self._tag = f"sordino-{os.getpid()}-{next(_NUMBERS)}"
        self._measure: Callable[[], float] = lambda: 0.0

    def ask(
        self,
        question: str,
        labels: Sequence[str] | None = None,
        *,
        kept: Kept | None = None,  # noqa: ARG002
        take: Take | None = None,  # noqa: ARG002
    ) -> Answer:
        """Run a query over `rows` and `labels`."""
        import pyarrow as pa  # noqa: PLC0415 - Spark brings it along

        frames, tables = dict(self._frames), f"WITH rows AS ({self._rows})"
        if labels is not None and not labels:
            # Of an empty table the client would not know the types.
            tables += ", labels AS (SELECT CAST(0 AS BIGINT) AS position, '' AS label WHERE FALSE)"
        elif labels is not None:
            # Texts travel as a table and never as a part of the query, of which a session may
            # replace some.
            places, texts = pa.array(range(len(labels)), pa.int64()), pa.array(labels, pa.string())
            listed = pa.table({"position": places, "label": texts})
            frames["frame_of_labels"] = self._session.createDataFrame(listed)
            tables += ", labels AS (SELECT * FROM {frame_of_labels})"
        asked = _FUNCTIONS.sub(r"system.builtin.\1(", question)
        self._session.addTag(self._tag)
        try:
            if frames:
                # Their names stand in braces, so every other brace is doubled.
                asked = asked.replace("{", "{{").replace("}", "}}")
            with watch_query(self._session, self._tag) as self._measure:
                found = self._session.sql(f"{tables} {asked}", **frames).toArrow()
        finally:
            self._session.removeTag(self._tag)
        return {name: _read_spark_column(found.column(name)) for name in found.column_names}

    def progress(self) -> float:
        """Return how many of the tasks that Spark knows are done, in percent."""
        return self._measure()

    def interrupt(self) -> None:
        """Stop the query that is running."""
        stop_query(self._session, self._tag)


def _read_spark_column(column: Any) -> Any:
    """Return a column of an answer: whole numbers, or texts."""
    values = column.to_pylist()
    return np.array(values, dtype=np.int64 if str(column.type).startswith("int") else object)


def open_spark_frame(frame: Any) -> tuple[SparkBackend, dict[str, str]]:
    """Read the schema of a frame, and no row.

    Raises
    ------
    InvalidParameter
        If names differ in nothing but case, or the session does not follow ANSI rules.
    UnsupportedBackend
        If the session is older than Spark 4.
    DataSourceError
        If Spark cannot plan the frame.
    """
    with _reaching("A Spark frame must be one that its session can plan; this one is not."):
        return _open(frame, frame)


def open_spark_table(address: str) -> tuple[SparkBackend, dict[str, str], str]:
    """Read the schema of a table of a server of Spark Connect, and no row.

    Return also what a ledger keeps.

    Raises
    ------
    InvalidParameter
        If the address is not written sc://HOST:PORT#CATALOG.SCHEMA.TABLE, or names of columns
        differ in nothing but case.
    UnsupportedBackend
        If Spark is not installed, or the server is older than Spark 4.
    DataSourceError
        If the server cannot be reached, or has no such table.
    """
    origin = spark_parts(address)
    server, names = origin
    _require_spark()
    what = (
        f"A Spark source must be an existing table or view that may be read; {server.shown} is "
        "none."
    )
    with _reaching(what), _lend_frame(origin) as frame:
        backend, columns = _open(origin, frame)
    return backend, columns, spark_table(names)


def _open(origin: Any, frame: Any) -> tuple[SparkBackend, dict[str, str]]:
    _check_session(frame.sparkSession)
    check_plan(frame)
    schema = _describe(frame)
    names = [name for name, _ in schema]
    # Whether a name finds one column or fails is a setting of the session.
    if len({name.lower() for name in names}) != len(names):
        raise InvalidParameter(
            "The columns of a Spark source must have names that differ in more than capitals; "
            "rename them with withColumnRenamed or in a view."
        )
    columns = {name: _translate_type(kind) for name, kind in schema}
    return SparkBackend(origin, schema, _read_spark_limit(frame.sparkSession)), columns


def _read_spark_limit(session: Any) -> AnswerLimit | None:
    """Return how large an answer the driver of a session takes; None if it takes any."""
    told = [_read_size(session.conf)]
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        # A session over a context that runs already may say something else than what that was
        # started with.
        told.append(_read_size(session.sparkContext.getConf()))
    size = min((one for one in told if one), default=0)
    remedy = f"Or have the cluster started with a larger {_MOST_ANSWER} (0: no limit)."
    return AnswerLimit(size, remedy, _BYTES_OF_TASK * _read_tasks(session.conf)) if size else None


def _read_tasks(conf: Any) -> int:
    """Return how many tasks may send parts of an answer, by the settings of a session."""
    tasks = _read_setting(conf, _TASKS, _USUAL_TASKS)
    return max(int(tasks), int(_read_setting(conf, _FIRST_TASKS, tasks)))


def _read_setting(conf: Any, name: str, usual: str) -> str:
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        return str(conf.get(name, usual))
    # A server may not tell.
    except PySparkException:
        return usual


def _read_size(conf: Any) -> int:
    """Return how large an answer may be by some settings; 0: of any size."""
    said = _read_setting(conf, _MOST_ANSWER, _USUAL_ANSWER)
    # Of what is written in another way nothing is known: the usual size is the smaller guess.
    written = _SIZE.fullmatch(said.strip().lower()) or _SIZE.fullmatch(_USUAL_ANSWER)
    assert written is not None  # noqa: S101  (the usual one is a size)
    return int(written[1]) << _BINARY_DIGITS[written[2]]


def _describe(frame: Any) -> tuple[tuple[str, str], ...]:
    """Return names and types of a frame, without running it."""
    return tuple((str(one.name), one.dataType.simpleString()) for one in frame.schema.fields)


def _translate_type(kind: str) -> str:
    """Return a type of Spark in the words of the embedded engine."""
    if _TEXT.fullmatch(kind):
        return "VARCHAR"
    if exact := _EXACT.fullmatch(kind):
        return f"DECIMAL({exact[1]},{exact[2]})"
    return _ENGINE_TYPES.get(kind, unusable(kind))


def _write_type(kind: str) -> str:
    """Return a type of the embedded engine in the words of Spark."""
    return "STRING" if kind == "VARCHAR" else kind


def _check_session(session: Any) -> None:
    """Refuse a session whose settings could change what a question means, or let it fail."""
    if int(str(session.version).partition(".")[0]) < 4:
        raise UnsupportedBackend(
            f"A Spark source needs Spark 4 or newer; got {shown(session.version)}."
        )
    if session.conf.get(_ANSI) != "true":
        raise InvalidParameter(
            "A session of Spark must follow ANSI rules, because otherwise numbers that are too "
            f"large become others in silence; got {_ANSI} = false. Set it to true."
        )
    odd = sorted(
        name
        for name, value in session.conf.getAll.items()
        if name.startswith(_LEGACY)
        or (name == _RESERVED and value == "true")
        or (name == _BEST_ROWS and int(value) < _USUAL_BEST_ROWS)
    )
    if odd:
        raise InvalidParameter(
            f"A session of Spark must have no setting {_LEGACY}*, and neither {_RESERVED} nor "
            f"{_BEST_ROWS}, which change what queries mean or send; got {odd[0]}. Unset it: "
            f"spark.conf.unset({odd[0]!r})."
        )


@contextmanager
def _lend_frame(origin: Any) -> Iterator[Any]:
    """Lend the frame, or a table of the server in a session of our own."""
    if not isinstance(origin, tuple):
        yield origin
        return
    server, names = origin
    session = _connect(server)
    try:
        session.conf.set(_ANSI, "true")
        for name in session.conf.getAll:
            if name.startswith(_LEGACY) or name in {_RESERVED, _BEST_ROWS}:
                session.conf.unset(name)
        yield session.table(".".join("`" + name.replace("`", "``") + "`" for name in names))
    finally:
        session.stop()


def _require_spark() -> None:
    try:
        import pyspark.sql.connect.session  # noqa: F401, PLC0415
    except ImportError:
        raise UnsupportedBackend(
            "A Spark source needs Spark's client: pip install 'sordino[spark]'."
        ) from None


def _connect(server: SparkServer) -> Any:
    """Return a session of our own, which is nobody's default.

    Raises
    ------
    DataSourceError
        If the server does not answer.
    """
    import grpc  # noqa: PLC0415 - an optional dependency, asked for when the source was opened
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415
    from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415

    builder = DefaultChannelBuilder(server.address)
    # Asked first, because the client itself would try for ten minutes.
    channel = builder.toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=_REACHED_SECONDS)
    except grpc.FutureTimeoutError:
        raise DataSourceError(
            f"A Spark source must be reachable; {server.shown} is not. Check the address, the "
            "token and whether the server runs."
        ) from None
    finally:
        channel.close()
    return SparkSession.builder.channelBuilder(builder).create()


@contextmanager
def _reaching(sentence: str) -> Iterator[None]:
    """Turn a failure of Spark before the charge into a sentence of ours.

    Its own may hold a private value.

    Raises
    ------
    DataSourceError
        If Spark fails.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        with _silence():
            yield
    except SordinoError:
        raise
    # Of a channel that is closed the client raises ValueError.
    except (PySparkException, ValueError):
        raise DataSourceError(sentence) from None


class _Muted(logging.Filter):
    """Drops what is logged in threads that ask private questions."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is logged."""
        return record.thread not in self.threads


_MUTED = _Muted()


@contextmanager
def _silence() -> Iterator[None]:
    """Have nothing logged by the client of Spark in this thread."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    for name in _LOGGERS:
        logger = PySparkLogger.getLogger(name)
        if _MUTED not in logger.filters:
            logger.addFilter(_MUTED)
    _MUTED.threads.append(threading.get_ident())
    try:
        yield
    finally:
        _MUTED.threads.remove(threading.get_ident())
