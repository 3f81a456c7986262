"""Which store a url means: a file, or a PostgreSQL server."""

from __future__ import annotations

import re

from sordino.constraints import text
from sordino.errors import LedgerError
from sordino.ledger.store.store import Store

_NOT_A_PATH = re.compile(
    r"postgres(ql)?:|[^/]*:[^/]*@|\s*(host|hostaddr|port|dbname|user|password|service)\s*=",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


def store_at(url: str) -> Store:
    """Return the store that a url means."""
    named = text(url, "url")
    scheme, mark, _ = named.partition("://")
    if mark and scheme.lower() in {"postgresql", "postgres"}:
        # Its driver is an extra.
        from sordino.ledger.store.postgres import PostgresStore  # noqa: PLC0415

        return PostgresStore(named)
    # Such a text would otherwise become the name of a file, with a password in it.
    if (_NOT_A_PATH.match(named) and not mark) or (mark and not _SCHEME.fullmatch(scheme)):
        raise LedgerError(
            "A ledger in PostgreSQL is written postgresql://USER@HOST/DATABASE; "
            "got something else, which is not shown because it may hold a password."
        )
    if mark:
        # Only the scheme is named: an address may hold a password.
        raise LedgerError(
            f"A ledger is the path of a file or postgresql://HOST/DATABASE; {scheme}:// is neither."
        )
    from sordino.ledger.store.sqlite import SqliteStore  # noqa: PLC0415  (one driver is enough)

    return SqliteStore(named)
