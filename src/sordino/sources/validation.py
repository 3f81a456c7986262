"""Asks the embedded engine about questions and types before the charge, without rows.

What it cannot plan fails here. To open an engine takes about as long as all else of a small
question. So one is kept for whoever asks next. No row ever reaches it, it has no folder, and it
forgets the labels that it was sent.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import final

import duckdb

from sordino.errors import DataSourceError
from sordino.process import Process, close_before_fork
from sordino.sources.engine import Engine, engine, make_folder

_MANY_LABELS = 10_000
"""What an engine takes for more labels than these it may not give back: so that one is not kept."""

_UNPLANNED = (
    "The engine cannot plan this question for the declared column types; convert the columns to "
    "text at their source."
)

_idle: list[_Stage] = []
"""At most one."""
_idle_lock = threading.RLock()


@final
class _Stage:
    """An engine that opens no file."""

    __slots__ = ("_home", "_stack", "engine", "kept")

    def __init__(self, *, kept: bool) -> None:
        self._home, self._stack, self.kept = Process(), ExitStack(), kept
        # What is sent many labels may need room on a disk; what is kept must leave nothing there,
        # however the program ends.
        self.engine: Engine = self._stack.enter_context(engine(spills=not kept))
        self.engine.close_doors(())

    def is_here(self) -> bool:
        """Tell whether this process made it."""
        return self._home.is_here()

    def close(self) -> None:
        """Close the engine."""
        if self.is_here():
            # A question that was interrupted may hold it yet: then it goes when its thread does.
            with suppress(duckdb.Error):
                self._stack.close()
        else:
            # A copy of an engine without its threads, which it would wait for. It is never let go
            # of.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.engine.connection))


def _take_stage() -> _Stage:
    """Return an engine that nobody uses."""
    with _idle_lock:
        while _idle:
            stage = _idle.pop()
            if stage.is_here():
                return stage
            stage.close()
    return _Stage(kept=True)


def _let_go(stage: _Stage, *, sound: bool) -> None:
    """Keep an engine for the next rehearsal, unless one is kept already.

    What is left of a question that failed or was interrupted, nobody needs to know: such an engine
    is not `sound`, and is closed.
    """
    if sound and stage.kept and stage.is_here():
        stage.engine.forget_labels()
        with _idle_lock:
            if not _idle:
                _idle.append(stage)
                return
    stage.close()


def close_idle() -> None:
    """Close the engine that is kept."""
    with _idle_lock:
        while _idle:
            _idle.pop().close()


@contextmanager
def lend_engine() -> Iterator[Engine]:
    """Lend an engine that has no rows and opens no file, to be asked for types.

    It is not kept if the block that it is lent to fails.
    """
    stage, sound = _take_stage(), False
    try:
        yield stage.engine
        sound = True
    finally:
        _let_go(stage, sound=sound)


# A fork has none of the threads of an engine, and would wait for them at its end.
close_before_fork(_idle_lock, close_idle)


@final
class QueryValidation:
    """An engine without rows that is asked questions; `close` lets go of it."""

    def __init__(self) -> None:
        # Imported here, because nothing else needs it.
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        # An engine that reads rows will want such a folder. Where none can be made, it is said now.
        with make_folder():
            self._stage = _take_stage()
        self._sound = True
        # In a thread of its own: signals are heard in this one. An error that a signal raises
        # inside a callback of the engine could only be ignored there.
        self._aside = ThreadPoolExecutor(1, "sordino-rehearsal")

    def ask(
        self, columns: Mapping[int, str], asked: Sequence[tuple[str, Sequence[str] | None]]
    ) -> None:
        """Ask questions, with their labels, of an empty table of the declared types.

        Raises
        ------
        DataSourceError
            If the engine cannot plan one of them. It says nothing about rows, which nobody has
            read.
        """
        most = max((len(labels or ()) for _, labels in asked), default=0)
        if self._stage.kept and most > _MANY_LABELS:
            _let_go(self._stage, sound=self._sound)
            self._stage, self._sound = _Stage(kept=False), True
        # A table needs a column, also where the question uses none.
        listed = (
            ", ".join(f"CAST(NULL AS {kind}) AS c{index}" for index, kind in columns.items()) or "1"
        )
        self._stage.engine.rows = f"SELECT {listed} WHERE FALSE"
        sound, self._sound = self._sound, False
        try:
            for question, labels in asked:
                self._aside.submit(self._stage.engine.ask, question, labels).result()
        except duckdb.Error:
            raise DataSourceError(_UNPLANNED) from None
        self._sound = sound

    def close(self) -> None:
        """Let go of the engine."""
        # It waits for a question that is still being asked.
        self._aside.shutdown()
        _let_go(self._stage, sound=self._sound)
