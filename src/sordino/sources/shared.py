"""Reads a source once for several questions of one batch, and asks the same question once.

Rows of text files are found and typed anew by each reading, which takes longer than most questions
about them. A batch that reads them several times takes them into a table of an engine beside, which
evaluates nothing. From there they go as a stream into the engine that evaluates, anew for each
question, as rows of a file of tables do (docs/decisions/0029-studies.md). So what a question is
answered does not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import final

from sordino.sources.engine import (
    Answer,
    Engine,
    Kept,
    Marking,
    Reader,
    Scan,
    Take,
    engine,
    scanning,
)
from sordino.sources.memory import NO_LIMITS, Limits
from sordino.sources.validation import QueryValidation

Labels = tuple[str, ...] | None
Question = tuple[str, Sequence[str] | None]
"""A query with its labels."""


@final
class Readings:
    """What the questions of one batch share: it is private, and dropped by `close`.

    Its questions are asked one after the other.

    Parameters
    ----------
    spools : bool
        Whether rows are taken into a table once, and each question reads them from there.
    limits : Limits
        What is allowed to each of its engines, with one that reads files for it.
    """

    __slots__ = (
        "_answers",
        "_asked",
        "_evaluating",
        "_indices",
        "_kept",
        "_limits",
        "_marked",
        "_rehearsal",
        "_rehearsed",
        "_spool",
        "_spools",
        "_stack",
        "opened",
    )

    def __init__(self, *, spools: bool, limits: Limits = NO_LIMITS) -> None:
        self._spools, self._limits = spools, limits
        # All columns that a question may need, and how often each query will be asked: known before
        # a row is read, because every question is rehearsed.
        self._indices: set[int] = set()
        self._asked: Counter[str] = Counter()
        self._rehearsed: set[tuple[str, Labels]] = set()
        self._answers: dict[tuple[str, Labels], Answer] = {}
        self._stack = ExitStack()
        self._spool: Engine | None = None
        self._evaluating: Engine | None = None
        self._rehearsal: QueryValidation | None = None
        self._kept: dict[tuple[str, Labels], _SpooledRows] = {}
        self._marked: dict[str, _Marked] = {}
        self.opened = 0
        """How often the source was read."""

    def rehearse(self, columns: Mapping[int, str], asked: Sequence[Question]) -> None:
        """Ask an engine without rows what was not asked yet, and note all of it.

        It will be asked of rows.

        Raises
        ------
        DataSourceError
            If the engine cannot plan a question.
        """
        # The same question would be planned the same.
        fresh = [one for one in asked if _key_of(one) not in self._rehearsed]
        if fresh:
            self._ask_nothing(columns, fresh)
        self._indices |= columns.keys()
        self._rehearsed.update(map(_key_of, asked))
        self._asked.update(query for query, _ in asked)

    def rehearse_marking(self, columns: Mapping[int, str], marking: Marking) -> None:
        """Note numbers that will be chosen, and rehearse how they are with others of the same rows.

        Raises
        ------
        DataSourceError
            If the engine cannot plan that.
        """
        # Only rows that were taken in are marked: all other questions read the source by
        # themselves.
        if not self._spools:
            return
        marked = self._marked.setdefault(marking.key, _Marked())
        marked.columns |= columns
        if marking.number in marked.numbers:
            return
        marked.numbers.append(marking.number)
        made = ", ".join(f"{name} AS ({query})" for name, query in marking.tables(marked.numbers))
        self._ask_nothing(
            marked.columns, [(f"SELECT x0 FROM (WITH {made} {marking.pick('x0')}) AS kept", None)]
        )

    def _ask_nothing(self, columns: Mapping[int, str], asked: Sequence[Question]) -> None:
        if self._rehearsal is None:
            self._rehearsal = self._stack.enter_context(closing(QueryValidation()))
        self._rehearsal.ask(columns, asked)

    @contextmanager
    def scan(self, reader: Reader, indices: Sequence[int]) -> Iterator[Scan]:
        """Open one reading, which reads the source when it is asked what was not answered yet."""
        with ExitStack() as stack:
            scan = _SharedScan(self)

            def begin(kept: Kept | None) -> tuple[Engine, bool]:
                if not (self._spools and self._indices.issuperset(indices)):
                    self.opened += 1
                    return stack.enter_context(
                        scanning(reader, indices, limits=self._limits)
                    ), False
                rows = _SpooledRows(self._fill(reader, scan))
                if kept is None:
                    return self._evaluate(rows, indices), False
                numbers = self._choose(kept, rows, indices, scan)
                return self._evaluate(numbers, (0,) if kept.labels is None else (0, 1)), True

            scan.begin = begin
            yield scan

    def close(self) -> None:
        """Drop all rows and answers."""
        self._answers.clear()
        self._kept.clear()
        self._marked.clear()
        self._spool = self._evaluating = self._rehearsal = None
        self._stack.close()

    def recall(self, question: str, labels: Labels) -> Answer | None:
        """Return what the same question was answered before; None if it was not asked."""
        found = self._answers.get((question, labels))
        # Copies: whoever gets an answer may compute in its place.
        return None if found is None else {name: column.copy() for name, column in found.items()}

    def remember(self, question: str, labels: Labels, answer: Answer) -> None:
        """Keep an answer, if the same question will be asked again."""
        if self._asked[question] > 1:
            self._answers[question, labels] = {
                name: column.copy() for name, column in answer.items()
            }

    def _evaluate(self, rows: _SpooledRows, indices: Sequence[int]) -> Engine:
        """Return the engine that evaluates, with another's rows: a stream, as from any source."""
        if self._evaluating is None:
            self._evaluating = self._stack.enter_context(engine(limits=self._limits))
            self._evaluating.close_doors(())
        self._evaluating.rows = rows.relation(self._evaluating, indices)
        return self._evaluating

    def _fill(self, reader: Reader, scan: _SharedScan) -> Engine:
        """Return the engine that has the rows, which are read now if they were not yet."""
        if self._spool is None:
            opened = self._stack.enter_context(engine(limits=self._limits))
            # From here on an interrupt reaches it, and its progress is seen.
            scan.opened = opened
            rows = reader.relation(opened, sorted(self._indices))
            opened.close_doors(())
            opened.connection.execute(f"CREATE TABLE spool AS {rows}")
            self.opened += 1
            self._spool = opened
        return self._spool

    def _choose(
        self, kept: Kept, rows: _SpooledRows, indices: Sequence[int], scan: _SharedScan
    ) -> _SpooledRows:
        """Return the numbers that some questions are about, which are chosen once."""
        key = kept.alone, None if kept.labels is None else tuple(kept.labels)
        if key not in self._kept:
            marked = None if kept.marking is None else self._marked.get(kept.marking.key)
            if kept.marking is not None and marked is not None and len(marked.numbers) > 1:
                self._kept[key] = self._pick(kept.marking, marked, rows, scan)
            else:
                opened = self._open_choosing(rows, indices, scan)
                opened.keep_chosen("chosen", kept)
                self._kept[key] = _SpooledRows(opened, "chosen")
        return self._kept[key]

    def _pick(
        self, marking: Marking, marked: _Marked, rows: _SpooledRows, scan: _SharedScan
    ) -> _SpooledRows:
        """Return the numbers of one column, where those of several are of the same rows."""
        if marked.engine is None:
            marked.engine = self._open_choosing(rows, sorted(marked.columns), scan)
            for name, query in marking.tables(marked.numbers):
                marked.engine.keep(name, query)
        scan.opened = marked.engine
        number = f"x{marked.numbers.index(marking.number)}"
        marked.engine.keep(
            f"chosen_{number}", f"SELECT {number} AS c0 FROM ({marking.pick(number)}) AS kept"
        )
        return _SpooledRows(marked.engine, f"chosen_{number}")

    def _open_choosing(
        self, rows: _SpooledRows, indices: Sequence[int], scan: _SharedScan
    ) -> Engine:
        """Open an engine that evaluates a stream of rows, and hands on what it has chosen."""
        scan.opened = self._stack.enter_context(scanning(rows, indices, limits=self._limits))
        return scan.opened


@final
@dataclass
class _Marked:
    """What is known of numbers that are chosen together, and the engine in which they are."""

    numbers: list[str] = field(default_factory=list)
    columns: dict[int, str] = field(default_factory=dict)
    engine: Engine | None = None


def _key_of(question: Question) -> tuple[str, Labels]:
    query, labels = question
    return query, None if labels is None else tuple(labels)


@final
@dataclass(frozen=True)
class _SpooledRows:
    """Rows that an engine beside has taken in; it only hands them on."""

    spool: Engine
    table: str = "spool"

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the columns at `indices`, and return the SELECT that names them."""
        columns = ", ".join(f"c{index}" for index in indices) or "1 AS one"
        engine.lend_from(self.spool, f"SELECT {columns} FROM {self.table}")
        return f"SELECT {columns} FROM lent"


@final
class _SharedScan:
    """A reading that opens an engine only when it is asked something new."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        # What is running, for whoever watches from another thread.
        self.opened: Engine | None = None
        self.begin: Callable[[Kept | None], tuple[Engine, bool]] | None = None
        # The engine that answers, and whether its rows are numbers that were chosen.
        self._engine: tuple[Engine, bool] | None = None

    def ask(
        self,
        question: str,
        labels: Sequence[str] | None = None,
        *,
        kept: Kept | None = None,
        take: Take | None = None,
    ) -> Answer:
        """Run a query over `rows` and `labels`, or return what it was answered before."""
        known = None if labels is None else tuple(labels)
        answer = self._readings.recall(question, known)
        if answer is None:
            # All queries of one reading choose the same numbers, or none do.
            if self._engine is None and self.begin is not None:
                self._engine = self.begin(kept)
            # `begin` is set before anybody has the scan.
            assert self._engine is not None  # noqa: S101
            self.opened, are_chosen = self._engine
            if kept is not None and are_chosen:
                answer = self.opened.ask(kept.name_chosen(question), labels, take=take)
            else:
                answer = self.opened.ask(question, labels, kept=kept, take=take)
            self._readings.remember(question, known, answer)
        return answer

    def progress(self) -> float:
        """Return how much has been read, in percent."""
        return 0.0 if self.opened is None else self.opened.progress()

    def interrupt(self) -> None:
        """Stop what is running."""
        if self.opened is not None:
            self.opened.interrupt()
