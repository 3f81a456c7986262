"""What SQLite and PostgreSQL ledgers share, and the rule for a write whose outcome is unknown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from sordino.errors import LedgerConflict, LedgerError
from sordino.ledger import schema
from sordino.ledger.operation import Operation
from sordino.ledger.schema import OLDEST, VERSION

_Answer = TypeVar("_Answer")
Rows = Callable[..., Sequence[tuple[Any, ...]]]
PATIENCE = 20.0  # seconds that a server may be away before a charge is given up
_FIRST_WAIT = 0.05


class NoLedgerError(LedgerError):
    """Nobody has made a ledger there yet."""


class TryAgainError(LedgerError):
    """The connection was lost or refused.

    Look up whether the operation happened before it is tried again.
    """


class Store(Protocol):
    """A place that keeps accounts."""

    @property
    def url(self) -> str:
        """What may be shown: an absolute path, or an address without its password."""
        ...

    @property
    def address(self) -> str:
        """What opens it again."""
        ...

    def build(self) -> None:
        """Make what is missing."""
        ...

    def apply(self, operation: Operation, parameters: dict[str, Any]) -> bool:
        """Do one operation durably.

        Return whether it happened, or raise `TryAgainError` if unknown.
        """
        ...

    def reading(self) -> AbstractContextManager[Rows]:
        """Return a block in which all questions see one moment: rows(sql, name=value)."""
        ...

    def backup(self, path: str) -> dict[str, str]:
        """Copy everything to a new file; return the head of every account in the copy."""
        ...

    def permit(self, role: str) -> None:
        """Allow a role to charge, and nothing else."""
        ...


def check_schema(version: int, url: str) -> None:
    """Raise `LedgerError` for a ledger of a schema that this version of sordino does not know."""
    if OLDEST <= version <= VERSION:
        return
    # A newer schema may mean something else by the same columns, so it is not even read.
    remedy = (
        "use a newer sordino."
        if version > VERSION
        else f"make an account in it with an older sordino that knows schema {OLDEST}, which "
        "brings it up to date. It was left as it is."
    )
    raise LedgerError(
        f"The ledger at {url!r} has schema {version} but this version of sordino knows schemas "
        f"{OLDEST} to {VERSION}; {remedy}"
    )


def carry_out(
    store: Store, operation: Operation, parameters: dict[str, Any], *, account: str
) -> bool:
    """Do an operation; after a lost connection look whether it happened, and try again if not.

    The body of every event holds a nonce that this process made, so that an operation is found
    again and never done twice. How often this tries depends on the server only.
    """
    give_up, wait, lost = time.monotonic() + PATIENCE, _FIRST_WAIT, False
    while True:
        try:
            if lost and _is_recorded(store, account, parameters["body"]):
                return True
            # What was under way when the connection was lost may end only now. Then this try finds
            # another state and changes nothing, or finds its own rows in the way.
            try:
                if store.apply(operation, parameters):
                    return True
            except LedgerConflict:
                if not lost or not _is_recorded(store, account, parameters["body"]):
                    raise
                return True
            # It changed nothing: because the first try has happened after all, or because it does
            # not fit.
            return lost and _is_recorded(store, account, parameters["body"])
        except TryAgainError as unknown:
            if not operation.again or time.monotonic() > give_up:
                raise LedgerError(str(unknown)) from None
            lost = True
            time.sleep(wait)
            # Longer each time, up to a second: a server that comes back is not flooded.
            wait = min(2 * wait, 1.0)


def patiently(ask: Callable[[], _Answer]) -> _Answer:
    """Ask what a charge must know, and wait for an absent server as long as its other steps do."""
    give_up, wait = time.monotonic() + PATIENCE, _FIRST_WAIT
    while True:
        try:
            return ask()
        except TryAgainError as away:
            if time.monotonic() > give_up:
                raise LedgerError(str(away)) from None
            time.sleep(wait)
            wait = min(2 * wait, 1.0)


def _is_recorded(store: Store, account: str, body: str) -> bool:
    with store.reading() as rows:
        return bool(rows(schema.HAPPENED, account=account, body=body))
