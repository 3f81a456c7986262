"""Ledgers of the tests wait for no disk: processes die in these tests, the machine does not.

The servers of `support/postgres.py` are told the same. A program that a test starts waits as everywhere, and
a test about what is written when opens its connections itself (`test_every_write_is_synchronous`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest


class _Unsynced(sqlite3.Connection):
    def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
        return super().execute(sql.replace("synchronous = EXTRA", "synchronous = OFF"), *given)


@pytest.fixture(scope="session", autouse=True)
def _no_power_cuts() -> Iterator[None]:
    connect, sync = sqlite3.connect, os.fsync

    def connect_unsynced(*given: Any, **named: Any) -> sqlite3.Connection:
        return connect(*given, **{"factory": _Unsynced} | named)

    def check_only(descriptor: int | Any) -> None:
        os.fstat(descriptor if isinstance(descriptor, int) else descriptor.fileno())

    sqlite3.connect, os.fsync = connect_unsynced, check_only
    yield
    sqlite3.connect, os.fsync = connect, sync
