"""The PostgreSQL server that tables may be written to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fuzz import databases


@contextmanager
def reachable(*, wanted: bool = True) -> Iterator[str | None]:
    """Use the server of the tests, started if there is none; yield its address, None where it is not wanted or there is none."""
    if not wanted:
        yield None
        return
    from support import postgres

    try:
        address = postgres.database()
    except AssertionError:  # no server is installed, and none was named
        yield None
        return
    databases.use_server(address)
    yield address
