"""Engines that are opened once: opening one takes longer than a whole case.

The code under test opens a fresh embedded engine for every look at a table. While `pooled` is active such an engine is a new connection to
one that runs already and was opened with the same settings. What it does, and in which order, stays its own; only the statements that lock
an engine for good are passed over. Every finding is confirmed without the pool, and some cases never use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any
from unittest.mock import patch

import duckdb

from sordino.questions import rank_choice
from sordino.sources import engine as engine_module, validation
from sordino.sources.number_stream import read_columns
from sordino.sources.sql import fine_query

CONNECT = duckdb.connect
_DOORS = re.compile(
    r"SET (allowed_paths|allowed_directories|enable_external_access|lock_configuration|enable_progress_bar\w*)\b",
    re.IGNORECASE,
)
_LASTING = re.compile(r"\s*CREATE (?!.*\bTEMP)", re.IGNORECASE)
_MADE = re.compile(r"CREATE OR REPLACE TABLE (\w+) AS")
_STEADY = "autoinstall_known_extensions"


@contextmanager
def pooled(threads: int = 0) -> Iterator[None]:
    """Let engines be connections to one that runs.

    Parameters
    ----------
    threads : int
        0: as many as the engine likes. Otherwise so many, and also small tables are cut for them.
    """

    def connect(database: Any = ":memory:", read_only: bool = False, config: Any = None) -> Any:
        if database != ":memory:" or _STEADY not in (config or {}):
            return CONNECT(database, read_only, **({} if config is None else {"config": config}))
        return _Connection({**config, "temp_directory": ""}, threads)

    before = duckdb.connect, engine_module.TemporaryDirectory
    duckdb.connect, engine_module.TemporaryDirectory = connect, _no_folder
    try:
        with _own_rehearsals():
            yield
    finally:
        duckdb.connect, engine_module.TemporaryDirectory = before


@contextmanager
def _own_rehearsals() -> Iterator[None]:
    """Let no engine be kept for rehearsals from before, or for later.

    It would be one of another pool, which may have been closed by then, or one that a twin has changed.
    """
    validation.close_idle()
    try:
        yield
    finally:
        validation.close_idle()


@contextmanager
def _no_folder(**_more: Any) -> Iterator[str]:
    yield ""  # tables are small: nothing is spilled


@contextmanager
def fresh(threads: int = 0) -> Iterator[None]:
    """Let engines be opened anew, with forced threads if that is asked for."""

    def connect(database: Any = ":memory:", read_only: bool = False, config: Any = None) -> Any:
        opened = CONNECT(database, read_only, **({} if config is None else {"config": config}))
        if _STEADY not in (config or {}):
            return opened
        _force(opened, threads)
        return _Rewriting(opened) if _REWRITTEN else opened

    before = duckdb.connect
    duckdb.connect = connect
    try:
        with _own_rehearsals():
            yield
    finally:
        duckdb.connect = before


@contextmanager
def opening(*, pool: bool, threads: int, pieces: int = 0) -> Iterator[None]:
    """Let engines be shared or opened anew, and rows in order arrive in small pieces if that is asked for."""
    with pooled(threads) if pool else fresh(threads), _cutting(pieces):
        yield


@contextmanager
def _cutting(size: int) -> Iterator[None]:
    """Let so many rows that an engine hands on arrive at once, and let few of one unit be together in memory."""

    def cut(made: Any, formats: Any) -> Iterator[Any]:
        for columns in read_columns(made, formats):
            yield [one.cut(0, 0) for one in columns]
            for start in range(0, len(columns[0].values), size):
                yield [one.cut(start, min(start + size, len(one.values))) for one in columns]

    if not size:
        yield
        return
    with (
        patch.multiple(rank_choice, read_columns=cut, _MOST_TOGETHER=2 * size),
        patch.object(fine_query, "read_columns", cut),
    ):
        yield


def _force(connection: Any, threads: int) -> None:
    if threads:
        connection.execute(f"SET threads = {threads}")
        connection.execute("PRAGMA verify_parallelism")


_REWRITTEN: list[tuple[str, str]] = []


def rewrite(pattern: str, text: str) -> Callable[[], None]:
    """Let the engine be told something else wherever a statement is of a pattern, for twins; return what undoes it."""
    _REWRITTEN.append((pattern, text))
    return lambda: _REWRITTEN.remove((pattern, text))


def _told(statement: Any) -> Any:
    for pattern, text in _REWRITTEN if isinstance(statement, str) else ():
        statement = re.sub(pattern, text, statement)
    return statement


class _Rewriting:
    """A connection that is told something else."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def execute(self, statement: Any, *more: Any) -> Any:
        return self._real.execute(_told(statement), *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


_RUNNING: dict[Any, tuple[Any, list[str]]] = {}
_TAKEN: set[Any] = set()
"""Which of them have a connection: another one at the same time is to another engine, where tables may have the same names."""


def _opened(config: dict[str, Any], settings: list[str], threads: int) -> tuple[Any, list[str]]:
    """Return an engine with its settings, and those of them that each connection has to make anew."""
    opened = CONNECT(":memory:", config=config)
    _force(opened, threads)
    for setting in settings:
        opened.execute(setting)
    # SET name = value, or SET GLOBAL name = value.
    names = [setting.partition("=")[0].split()[-1].lower() for setting in settings]
    asked = [
        (setting, f"SELECT current_setting('{name}')")
        for setting, name in zip(settings, names, strict=True)
    ]
    other = opened.cursor()
    return opened, [
        setting
        for setting, ask in asked
        if opened.execute(ask).fetchone() != other.execute(ask).fetchone()
    ]


class _Connection:
    """A connection to an engine that runs; the engine is chosen once its settings are known, with the first question."""

    def __init__(self, config: dict[str, Any], threads: int) -> None:
        self._config, self._threads = config, threads
        self._settings: list[str] = []
        self._real: Any = None
        self._key: Any = None
        self._attached = self._changed = False
        self._made: set[str] = set()

    def execute(self, statement: Any, *more: Any) -> Any:
        """Run a statement; settings wait for the first question."""
        statement = _told(statement)
        if isinstance(statement, str):
            if _DOORS.match(statement):
                return self
            if self._real is None and statement.startswith("SET "):
                self._settings.append(statement)
                return self
            self._attached |= statement.startswith("ATTACH")
            # What would outlast the connection is dropped with it, or this engine is not used again.
            if made := _MADE.match(statement):
                self._made.add(made[1])
            else:
                self._changed |= bool(statement.startswith("SET ") or _LASTING.match(statement))
        return self._connection.execute(statement, *more)

    @property
    def _connection(self) -> Any:
        if self._real is None:
            named = tuple(sorted((name, str(value)) for name, value in self._config.items()))
            keys = ((place, named, *self._settings, self._threads) for place in count())
            self._key = next(key for key in keys if key not in _TAKEN)
            _TAKEN.add(self._key)
            if self._key not in _RUNNING:
                self._config.pop("temp_directory")
                _RUNNING[self._key] = _opened(self._config, self._settings, self._threads)
            opened, local = _RUNNING[self._key]
            self._real = opened.cursor()
            for setting in local:
                self._real.execute(setting)
            if self._threads:
                self._real.execute("PRAGMA verify_parallelism")
        return self._real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def close(self) -> None:
        """Close the connection, and the engine if something would be left in it."""
        if self._real is None:
            return
        if self._attached:
            with suppress(duckdb.Error):
                names = self._real.execute(
                    "SELECT database_name FROM duckdb_databases() WHERE NOT internal"
                ).fetchall()
                for (name,) in names:
                    if name not in {"memory", "temp"}:
                        self._real.execute(f'DETACH "{name}"')
        for name in self._made:
            self._real.execute(f"DROP TABLE IF EXISTS {name}")
        self._real.close()
        _TAKEN.discard(self._key)
        if self._changed:
            # Not closed: other connections to it may be open, as the one that is kept for rehearsals.
            _RUNNING.pop(self._key, None)
        self._real = None


def forget() -> None:
    """Close the engines that run."""
    for opened, _ in _RUNNING.values():
        opened.close()
    _RUNNING.clear()
    _TAKEN.clear()
