"""Reads one account: its row, its charges, its events, whether they agree, and why something did not fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from sordino.constraints import text
from sordino.errors import BudgetExceeded, LedgerConflict, LedgerError
from sordino.ledger import schema
from sordino.ledger.amounts import MEASURES, decimal
from sordino.ledger.history import FACTS, Account, ChargeRow, Replay, Row, Verification, json_of
from sordino.ledger.store.store import Rows, Store, patiently

_EVENTS_AT_ONCE = 5_000  # events that are held in memory


@final
class Pages:
    """One account of a store."""

    __slots__ = ("_seen", "name", "store")

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self._seen: Account | None = None

    @contextmanager
    def reading(self) -> Iterator[tuple[Account, Rows]]:
        """Let the block ask about the account as of one moment."""
        with self.store.reading() as rows:
            found = rows(schema.ACCOUNT, account=self.name)
            if not found:
                listed = ", ".join(map(repr, names(rows))) or "none"
                raise LedgerError(
                    f"There is no account {self.name!r} in the ledger "
                    f"at {self.store.url!r}; its accounts: {listed}."
                )
            account = Account(*found[0])
            self._seen = self._seen or account
            yield account, rows

    def account(self) -> Account:
        """Return the account as it is now."""
        with self.reading() as (row, _):
            return row

    @property
    def facts(self) -> Account:
        """The account as it was first seen, for what never changes: a charge checks that it still holds."""
        return self._seen or patiently(self.account)

    def charge(self, key: str) -> ChargeRow:
        """Return one charge."""
        with self.reading() as (_, rows):
            found = rows(schema.ONE_CHARGE, account=self.name, charge=text(key, "key"))
        if not found:
            raise LedgerError(
                f"There is no charge {key!r} in account {self.name!r}; `sordino ledger show` lists them."
            )
        return ChargeRow(*found[0])

    def events(self, newest: int | None) -> Iterator[Row]:
        """Return the events, or the newest of them; nothing is held open while somebody looks at one."""
        # Events that come later are left out: otherwise a busy account would never end.
        end = self.account().number
        number = 0 if newest is None else max(0, end - newest)
        while number < end:
            with self.reading() as (_, rows):
                page = list(pages(rows, self.name, number, min(number + _EVENTS_AT_ONCE, end)))
            yield from page
            # In a damaged file nothing may be found: then this ends the loop.
            number += len(page) or end

    def verify(self, head: str | None) -> Verification:
        """Replay the whole history and compare it with the account; `head` is one that was noted before."""
        replay = Replay(self.account(), head)
        for row in self.events(None):  # a page at a time, so that nobody has to wait
            replay.play(row)
        # What was charged meanwhile is played in the same moment as what it is compared with.
        with self.reading() as (account, rows):
            for row in pages(rows, account.name, replay.number, account.number):
                replay.play(row)
            [(events,)] = rows(schema.HOW_MANY, account=self.name)
            gifts = rows(schema.GRANTS, account=account.parent) if account.parent is not None else None
            return replay.finish(
                account,
                events=events,
                charges=rows(schema.STATES, account=self.name),
                children=rows(schema.CHILDREN, account=self.name),
                given=None
                if gifts is None
                else sum(share for share, body in gifts if json_of(body).get("child") == self.name),
            )

    def refuse(self, needed: int, *, what: str, then: str) -> None:
        """Say why an amount was refused; return if it would fit by now because others gave something back."""
        known, row = self.facts, patiently(self.account)
        if any(getattr(known, fact) != getattr(row, fact) for fact in FACTS):
            raise LedgerConflict(
                f"Account {self.name!r} at {self.store.url!r} is "
                f"not the one that was opened; open it again. {then}"
            )
        if row.spent > row.allowance - needed:
            raise BudgetExceeded(
                f"{what} needs {MEASURES[row.meter]} {decimal(needed)} but "
                f"{decimal(row.allowance - row.spent)} remains in account {self.name!r}. {then}"
            )


def pages(rows: Rows, account: str, number: int, end: int) -> Iterator[Row]:
    """Return the events after `number` and up to `end`, asking for some at a time."""
    while number < end and (
        page := rows(schema.EVENTS, account=account, after=number, until=min(number + _EVENTS_AT_ONCE, end))
    ):
        for found in page:
            yield Row(*found)
        if page[-1][0] <= number:
            return  # the index of a damaged file leads back; `verify` misses the rest
        number = page[-1][0]


def names(rows: Rows) -> tuple[str, ...]:
    """Return the names of all accounts, sorted."""
    # In a damaged file a name may be no text.
    return tuple(sorted(str(row[0]) for row in rows(schema.ACCOUNTS)))
