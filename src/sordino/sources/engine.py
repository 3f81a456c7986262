"""The embedded engine, and `after_charge`, the one door through which work on private rows runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol, TypeVar, final

import duckdb
import numpy as np
from numpy.typing import NDArray

from sordino.errors import DataSourceError
from sordino.scrubbing import scrubbed
from sordino.sources.arrow_interface import TextStream
from sordino.sources.csv.lines import TextBatch
from sordino.sources.memory import NO_LIMITS, Limits, choose_memory
from sordino.sources.number_stream import Column, NumberStream, read_ahead

T = TypeVar("T")
Answer = dict[str, NDArray[Any]]
Take = Callable[[Any], Answer]
"""From the stream of an answer to what is kept of it."""
Progress = Callable[[float], object]

POLL = 0.1
"""Seconds between two looks at the progress."""

JOINING = ("in_clause", "statistics_propagation", "join_filter_pushdown", "common_subexpressions")
"""Optimizers that make the evaluation of one row depend on others, and are switched off.

In this order: lists become joins, which takes work out of TRY; statistics over all rows fold
comparisons; the least and the largest key of one side of a join filter the other side; work that
stands in two places is done once, before both, and outside of the TRY around each.
"""

RIGHT_SIDES = "build_side_probe_side"
"""The optimizer that chooses which side of a join is kept in memory, switched off as well.

Nobody knows how many rows a stream has, and it would keep these: joins are written with what is
small on their right.
"""


_LABELS = "label_text"
"""The table in which labels reach the engine."""


class Reader(Protocol):
    """How the rows of one kind of source become a table of our engine."""

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the columns at `indices` to the engine as a stream.

        Return a SELECT with them as c<index>.
        """


@final
class _LentRows:
    """Rows on their way into the engine, which knows their names and types and nothing else.

    An engine that opens a file knows what the file says of all rows together: the least and the
    largest value, and how many are missing. It folds comparisons by that, and so one row can decide
    how another is evaluated. Of a stream it knows nothing of the kind, and it cannot hand filters
    down to whoever makes the rows. Hence the rows of every source reach the engine that evaluates
    as a stream (docs/decisions/0014).

    Parameters
    ----------
    start : callable
        Returns something new, for each reading, that can be read once as an Arrow C stream.
    """

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule with a new stream, as the Arrow PyCapsule interface wants it."""
        del requested_schema
        return self._start().__arrow_c_stream__()


class Marking(NamedTuple):
    """How columns of numbers are chosen together.

    Whose rows they are is found once for all of them.

    Attributes
    ----------
    number : str
        The number of a row, in the words of the engine.
    key : str
        Equal for all numbers of the same rows of the same units, of which as many may count.
    tables : callable
        Returns, for several such numbers, tables with their queries over `rows` and the tables
        before them; in the last one the numbers are called x0, x1 and so on.
    pick : callable
        Returns a SELECT from these tables: the numbers of one of these columns that count, under
        its name.
    """

    number: str
    key: str
    tables: Callable[[Sequence[str]], Sequence[tuple[str, str]]]
    pick: Callable[[str], str]


class Choice(Protocol):
    """How rows that count are chosen as they pass by, in order, on their way out of an engine."""

    @property
    def formats(self) -> dict[str, str]:
        """The columns of what is chosen, x as c0 and in groups grp as c1, and how they travel."""

    def list_queries(self) -> list[str]:
        """Return every query over `rows` and `labels` that may be asked."""

    def choose(self, ask: Callable[[str], object]) -> Generator[list[Column]]:
        """Yield the rows that count.

        `ask` returns the stream of a query over `rows` and `labels`.
        """


class Kept(NamedTuple):
    """The part of a query that chooses the numbers that count; other questions may choose the same.

    Attributes
    ----------
    part : str
        As it stands in the query: a SELECT in parentheses with a column `x` and, in groups, `grp`.
    alone : str
        The same for a query that has no labels but those of the groups.
    labels : sequence of str, optional
        Of the groups.
    marking : Marking, optional
        How it goes together with numbers of other columns.
    choice : Choice, optional
        How an engine can choose them in less time than by `part`; its labels are `labels`.
    """

    part: str
    alone: str
    labels: Sequence[str] | None
    marking: Marking | None = None
    choice: Choice | None = None

    def name_chosen(self, question: str) -> str:
        """Return a question about numbers that were chosen already.

        They are `rows`, with c0 and c1.
        """
        # As wide as the engine itself counts groups.
        group = "" if self.labels is None else ", CAST(c1 AS BIGINT) AS grp"
        return question.replace(self.part, f"(SELECT c0 AS x{group} FROM rows)")


class Scan(Protocol):
    """One open reading of a source."""

    def ask(
        self,
        question: str,
        labels: Sequence[str] | None = None,
        *,
        kept: Kept | None = None,
        take: Take | None = None,
    ) -> Answer:
        """Run a query over the tables `rows` (columns c<index>) and `labels` (position, label).

        What is to `take` its answer in gets it as a stream of Arrow, and returns something
        smaller. Only our own engine does.
        """

    def progress(self) -> float:
        """Return how much of the source has been read, in percent."""

    def interrupt(self) -> None:
        """Stop the query that is running."""


def quoted(name: str) -> str:
    """Return an identifier for our own SQL."""
    # A name from a file or a frame may hold quotes. Doubled, they stay part of the name.
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a string literal for our own SQL."""
    # Doubling is enough: a backslash means itself, on a server by the setting
    # `standard_conforming_strings`.
    return "'" + text.replace("'", "''") + "'"


class Engine:
    """An in-memory database with fixed settings.

    It sees the files it is told to see and nothing else.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, *, ordered: bool, limits: Limits = NO_LIMITS
    ) -> None:
        self.connection = connection
        self.measure: Callable[[], float] | None = None
        self.rows = ""
        self._ordered, self._limits = ordered, limits
        self._open = True
        # Another thread watches the progress: it must not touch a connection that is being closed.
        self._lock = threading.Lock()
        # The engines that make the rows of this one.
        self._beside = ExitStack()
        self._sources: list[Engine] = []
        # The connection that evaluates what this one chooses.
        self._chosen: Engine | None = None

    def open_beside(self, paths: Sequence[Path], *, attach: str = "") -> Engine:
        """Open an engine that reads files for this one and evaluates nothing.

        It is closed with this one.

        Parameters
        ----------
        paths : sequence of Path
            The files that it may open.
        attach : str
            A statement that attaches one of them.
        """
        source = self._beside.enter_context(
            engine(ordered=self._ordered, limits=self._limits, evaluates=False)
        )
        if attach:
            source.connection.execute(attach)
        source.close_doors(paths)
        self._sources.append(source)
        self.measure = source.progress
        return source

    def lend(self, start: Callable[[], Any]) -> None:
        """Make rows from outside available in this engine as the table `lent`, a stream."""
        self.connection.register("lent", _LentRows(start))

    def lend_from(self, source: Engine, statement: str) -> None:
        """Lend the rows that an engine beside has, now; whoever opened that engine closes it."""
        self._sources = [source]
        self.measure = source.progress
        self.lend(source.select(statement))

    def select(self, statement: str) -> Callable[[], Any]:
        """Return a function that starts reading a SELECT of this engine.

        Another engine is lent its rows.
        """
        return lambda: self.connection.sql(statement)

    def take_in(self, name: str, columns: Mapping[str, Sequence[str | None]]) -> None:
        """Make a table of public texts, with which rows are joined as they pass by."""
        listed = ", ".join(f"unnest(?) AS {column}" for column in columns)
        self.connection.execute(
            f"CREATE OR REPLACE TABLE {name} AS SELECT {listed}",
            [list(one) for one in columns.values()],
        )

    def take_chosen(self, name: str, reader: Reader, indices: Sequence[int], chosen: str) -> None:
        """Lend what a query chooses of the rows of another reader, as a stream of that name.

        An engine beside reads them, once.
        """
        beside = self._beside.enter_context(scanning(reader, indices, limits=self._limits))
        self._sources.append(beside)
        beside.keep("chosen", chosen)
        self.connection.register(name, _LentRows(beside.select("SELECT * FROM chosen")))

    def close_doors(self, paths: Sequence[Path]) -> None:
        """Let the engine open these files only, and lock its settings."""
        # The list of files comes before access is switched off, and the lock last: no query can
        # undo either.
        allowed = ", ".join(literal(str(path)) for path in paths)
        self.connection.execute(f"SET allowed_paths = [{allowed}]")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def ask(
        self,
        question: str,
        labels: Sequence[str] | None = None,
        *,
        kept: Kept | None = None,
        take: Take | None = None,
    ) -> Answer:
        """Run a query over `rows` and `labels`, and hand its answer to what is to take it in."""
        if kept is not None and kept.choice is not None:
            with self._choosing(kept, kept.choice) as chosen:
                return chosen.ask(kept.name_chosen(question), labels, take=take)
        query = f"{self._write_tables(labels)} {question}"
        if take is not None:
            return take(self.connection.sql(query))
        return self.connection.execute(query).fetchnumpy()

    def keep(self, name: str, question: str, labels: Sequence[str] | None = None) -> None:
        """Make a table of the answer to a query over `rows` and `labels`."""
        made = f"CREATE OR REPLACE TABLE {name} AS"
        self.connection.execute(f"{made} {self._write_tables(labels)} {question}")

    def keep_chosen(self, name: str, kept: Kept) -> None:
        """Make a table of the numbers that count: x as c0 and, in groups, grp as c1."""
        if kept.choice is not None:
            with self._choosing(kept, kept.choice) as chosen:
                chosen.keep(name, "SELECT * FROM rows")
            return
        group = "" if kept.labels is None else ", grp AS c1"
        self.keep(name, f"SELECT x AS c0{group} FROM {kept.alone} AS kept", kept.labels)

    @contextmanager
    def _choosing(self, kept: Kept, choice: Choice) -> Iterator[Engine]:
        """Return another connection to this engine, where `rows` streams the numbers that count.

        A question must name them once: while they pass by, this connection is busy with them.
        """

        def ask(query: str) -> object:
            return self.connection.sql(f"{self._write_tables(kept.labels)} {query}")

        pieces = choice.choose(ask)
        begun: list[None] = []

        def pass_by() -> Iterator[list[Column]]:
            # Asked for more often than it is read (`LentStream`), and rows that passed by do not
            # come again.
            if begun:
                raise AssertionError("a question names the rows that are chosen twice")
            begun.append(None)
            yield from first
            yield from ahead

        with (
            closing(pieces),
            closing(read_ahead(pieces)) as ahead,
            closing(self._open_cursor()) as chosen,
        ):
            # Now, with all threads of the engine: of those one is left once the other connection
            # waits.
            first = list(islice(ahead, 1))
            chosen.connection.register("lent", NumberStream(choice.formats, pass_by))
            chosen.rows = f"SELECT {', '.join(choice.formats)} FROM lent"
            with self._lock:
                self._chosen = chosen
            try:
                yield chosen
            finally:
                with self._lock:
                    self._chosen = None
                chosen.connection.unregister("lent")

    def _open_cursor(self) -> Engine:
        return Engine(self.connection.cursor(), ordered=self._ordered, limits=self._limits)

    def _write_tables(self, labels: Sequence[str] | None) -> str:
        tables = f"WITH rows AS ({self.rows})"
        if labels is None:
            return tables
        # Made once, because the engine asks for the stream several times.
        batch = _number_labels(labels)
        self.connection.register(_LABELS, TextStream("line", lambda: iter([batch])))
        return (
            f"{tables}, labels AS (SELECT CAST(left(line,"
            f" {_POSITION_DIGITS}) AS BIGINT) AS position,"
            f" substr(line, {_POSITION_DIGITS + 1}) AS label FROM {_LABELS})"
        )

    def forget_labels(self) -> None:
        """Let go of the labels of the last question."""
        self.connection.unregister(_LABELS)

    def begin(self, question: str) -> None:
        """Start a query over `rows` whose answer `more` fetches piece by piece."""
        self.connection.execute(f"WITH rows AS ({self.rows}) {question}")

    def more(self, size: int) -> list[tuple[Any, ...]]:
        """Return at most so many rows of the answer, and none at its end."""
        # Piece by piece, so that there is never a list of all rows in Python.
        found: list[tuple[Any, ...]] = self.connection.fetchmany(size)
        return found

    def progress(self) -> float:
        """Return how much has been read, in percent."""
        with self._lock:
            value = (
                self.measure()
                if self.measure is not None
                else self.connection.query_progress()
                if self._open
                else 100.0
            )
        return min(100.0, max(0.0, value))

    def interrupt(self) -> None:
        """Stop the query that is running."""
        # The engines that make the rows as well: this one may be waiting for one of them.
        for source in self._sources:
            source.interrupt()
        with self._lock:
            if self._chosen is not None:
                self._chosen.interrupt()
            if self._open:
                self.connection.interrupt()

    def close(self) -> None:
        """Close the connection, and those of the engines beside it."""
        with self._lock:
            self._open = False
            self.connection.close()
        # Only now: this engine may have been reading from them until its connection was closed.
        self._beside.close()


# How many digits the position of a label has in front of its text.
_POSITION_DIGITS = 12


def _number_labels(labels: Sequence[str]) -> TextBatch:
    """Return labels as one column of texts, each with its position in front."""
    # Positions are written down, because the engine need not keep the order of rows.
    texts = [f"{position:0{_POSITION_DIGITS}d}{label}" for position, label in enumerate(labels)]
    data = "".join(texts).encode()
    # Sizes are those of the bytes. If all texts are ASCII, the lengths of the texts will do, which
    # is faster.
    sizes = map(len, texts if len(data) == sum(map(len, texts)) else map(str.encode, texts))
    offsets = np.zeros(len(texts) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(sizes, dtype=np.int64, count=len(texts)), out=offsets[1:])
    return TextBatch(len(texts), offsets, data)


def make_folder() -> TemporaryDirectory[str]:
    """Make a private folder for what does not fit in memory."""
    return TemporaryDirectory(prefix="sordino-")


@contextmanager
def engine(
    *,
    ordered: bool = False,
    limits: Limits = NO_LIMITS,
    evaluates: bool = True,
    spills: bool = True,
) -> Iterator[Engine]:
    """Open an engine; its folder for what does not fit in memory is private and removed at the end.

    Parameters
    ----------
    ordered : bool
        Whether rows come in the order of the source, whichever of several threads is first.
    limits : Limits
        What is allowed to all engines that answer a question together.
    evaluates : bool
        Whether it computes, or reads files for one that does.
    spills : bool
        Whether it has such a folder.
    """
    with make_folder() if spills else nullcontext("") as folder:
        # No extension is fetched or loaded unasked, and no
        # name in a query may mean a variable of the program.
        config: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{choose_memory(limits.memory, evaluates=evaluates)}B",
            "preserve_insertion_order": "true" if ordered else "false",
            "python_enable_replacements": "false",
            "temp_directory": folder,
        }
        connection = duckdb.connect(":memory:", config=config)
        opened = Engine(connection, ordered=ordered, limits=limits)
        try:
            _measure_progress(connection)
            off = ",".join((*JOINING, RIGHT_SIDES))
            connection.execute(f"SET disabled_optimizers = '{off}'")
            # A stream does not say how long it is. Where few rows are expected, each would be
            # compared with every edge of a grid.
            connection.execute("SET GLOBAL asof_loop_join_threshold = 0")
            if limits.temp is not None:
                # As a setting of the connection: among those that it is opened with it bounds
                # nothing.
                connection.execute(f"SET max_temp_directory_size = '{limits.temp}B'")
            # Otherwise a block of rows with 2 GiB of text could not be handed on.
            connection.execute("SET arrow_large_buffer_size = true")
            # The text of a time must not depend on the machine, in no connection to this engine.
            connection.execute("SET GLOBAL TimeZone = 'UTC'")
            yield opened
        finally:
            opened.close()


def _measure_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Have progress measured, and never printed: it is asked for by whoever may see it."""
    try:
        connection.execute("SET enable_progress_bar = true")
    except duckdb.InvalidInputException:
        # In a notebook a bar needs a library for pictures of it. Without that nothing is measured,
        # and nothing printed.
        return
    connection.execute("SET enable_progress_bar_print = false")


@contextmanager
def scanning(
    reader: Reader, indices: Sequence[int], *, ordered: bool = False, limits: Limits = NO_LIMITS
) -> Iterator[Engine]:
    """Open an engine in which `rows` are the rows of a source."""
    with engine(ordered=ordered, limits=limits) as opened:
        opened.rows = reader.relation(opened, indices)
        # This engine opens no file at all: whatever opens files is an engine beside it.
        opened.close_doors(())
        yield opened


@scrubbed
def after_charge(
    work: Callable[[Callable[[Scan], None]], T], progress: Progress | None = None
) -> T:
    """Run work on private rows. Any failure becomes one constant sentence without a cause.

    The work runs in a thread of its own, so that this one can report progress and hear an interrupt
    from the keyboard.

    Raises
    ------
    DataSourceError
        If the work fails, always with the same message: the cause may depend on private rows.
    """
    scans: list[Scan] = []
    results: list[T] = []

    # Not handed back by the thread: an error in it would be printed, and its words may be private.
    def target() -> None:
        try:
            results.append(work(scans.append))
        # The law of this package: private rows never raise. What went wrong is said to nobody.
        except BaseException:  # noqa: BLE001 - see above
            results.clear()
        finally:
            done.set()

    done = threading.Event()
    thread = threading.Thread(target=target, name="sordino-engine")
    thread.start()
    try:
        while not done.wait(POLL):
            if progress is not None and scans:
                # The last scan is the one that is being read: work may need several, one after the
                # other.
                progress(scans[-1].progress())
    finally:
        # If the work is still running, the wait was interrupted (keyboard), or `progress` failed.
        # An interrupt can come before the query has begun, so it is repeated until the work ends.
        while not done.is_set():
            if scans:
                scans[-1].interrupt()
            done.wait(POLL)
        thread.join()
    # Outside of the thread and of every `except`: so the error carries no cause and no context.
    if not results:
        raise DataSourceError.after_charge()
    if progress is not None:
        progress(100.0)
    return results[0]
