"""Twins of the library with one of its promises broken: the soak must convict each of them.

Each is what somebody in a hurry would write, or what stood there before a breach was found. They are put at named seams; where a seam
moves, its twin moves with it: a twin that is never convicted is a defect of this file.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sordino.errors import BudgetExceeded, LedgerError
from sordino.ledger import Charge, Ledger, schema
from sordino.ledger.account import pages
from sordino.ledger.amounts import amount_of, exact_cost
from sordino.ledger.store import journal, postgres, sqlite, sqlite_schema


def _put(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def _put_reserve(*statements: str) -> None:
    reserve = replace(schema.RESERVE, statements=statements)
    _put(schema, "RESERVE", reserve)
    for module in (schema, postgres):
        _put(module, "OPERATIONS", (reserve, *schema.OPERATIONS[1:]))


def _put_rule(rule: str, other: str) -> None:
    # How a table is broken into lines is no part of its rules.
    written = re.compile(r"\s+".join(map(re.escape, rule.split())))
    assert any(written.search(table) for table in schema.TABLES)
    tables = tuple(written.sub(other, table) for table in schema.TABLES)
    for module in (schema, postgres, sqlite_schema):
        _put(module, "TABLES", tables)


# ---- overspending ---------------------------------------------------------------------------------------------------------


def checked_first() -> None:
    """What remains is asked first, and charged without a condition: two that ask at once both fit."""
    first, *rest = schema.RESERVE.statements
    _put_reserve(first.replace("spent <= allowance - :amount", "spent >= 0"), *rest)
    _put_rule("CHECK (spent <= allowance OR", "CHECK (spent >= 0 OR")
    reserve = Ledger.reserve

    def checked(self: Ledger, chargeable: Any, **options: Any) -> Charge:
        account = self._pages.account()
        if amount_of(account.allowance - account.spent) < exact_cost(chargeable, account.meter):
            refused = BudgetExceeded("It does not fit.")
            remains = f"{float(amount_of(account.allowance - account.spent)):.9f}"
            refused.details = f"but {remains} remains in"
            raise refused
        return reserve(self, chargeable, **options)

    _put(Ledger, "reserve", checked)


def generous() -> None:
    """What comes back is counted by the last draw alone."""
    settle = Charge.settle

    def settled(self: Charge) -> None:
        spent = self._spent
        if len(spent) > 1:
            self._spent = [(worst, type(worst)()) for worst, _ in spent[:-1]] + spent[-1:]
        settle(self)

    _put(Charge, "settle", settled)


def forgiving() -> None:
    """A block that is left by an error settles as well."""

    def leave(self: Charge, *_: Any) -> None:
        if self._state == "open":
            self._settle_at_the_end()
        self._close_streams()

    _put(Charge, "__exit__", leave)


# ---- accounts with a delta ------------------------------------------------------------------------------------------------


def forgotten_flag() -> None:
    """That something had no epsilon is known of the last charge alone: then the epsilons of the others count again."""
    after = schema._TAKEN | {"impure": ":impure"}
    update, event = schema._Change(kind="reserve", charge=":charge", after=after).written(
        ":account"
    )
    first, charge, *_ = schema.RESERVE.statements
    fits = first[first.index(" WHERE name = :account AND meter") :].replace(
        "impure + :impure", ":impure"
    )
    _put_reserve(update + fits, charge, event)
    _put_rule("impure = 0 AND pure_spent <= pure_limit", "pure_spent <= pure_limit")


def either_share() -> None:
    """A share of an account has the rule of the account: one of the two sums is enough."""
    first, *rest = schema.RESERVE.statements
    both, one = f"ELSE {schema._MAIN_FITS} AND (", f"ELSE {schema._MAIN_FITS} OR ("
    assert both in first
    _put_reserve(first.replace(both, one), *rest)
    _put_rule("parent IS NULL AND impure = 0", "impure = 0")


def returned_delta() -> None:
    """A settlement gives back the delta of what has not failed, as if it were an epsilon that was not spent."""
    first, *rest = schema.SETTLE.statements
    settle = replace(
        schema.SETTLE,
        statements=(first.replace(":failing = failing_drawn", ":failing >= 0"), *rest),
    )
    assert settle != schema.SETTLE
    operations = tuple(settle if one is schema.SETTLE else one for one in schema.OPERATIONS)
    for module in (schema, postgres):
        _put(module, "OPERATIONS", operations)
    _put(schema, "SETTLE", settle)
    do = Charge._do

    def done(self: Charge, operation: Any, parameters: Any) -> bool:
        return do(self, operation, parameters | ({"failing": 0} if operation is settle else {}))

    _put(Charge, "_do", done)


# ---- draws that are forgotten ---------------------------------------------------------------------------------------------


def behind() -> None:
    """A draw is written a moment later by a thread of its own, so that a release has not to wait for the disk."""
    do = Charge._do
    late: dict[str, threading.Event] = {}
    jobs: queue.Queue[tuple[Charge, Any, Any]] = queue.Queue()
    begun: dict[int, threading.Thread] = {}

    def work() -> None:
        while True:
            charge, operation, parameters = jobs.get()
            time.sleep(0.002)
            try:
                do(charge, operation, parameters)
            except LedgerError:  # nobody waits for an answer
                pass
            finally:
                late[charge.id].set()

    def done(self: Charge, operation: Any, parameters: Any) -> bool:
        if self.id in late:
            late[self.id].wait()
        if operation is not schema.DRAW:
            return do(self, operation, parameters)
        if os.getpid() not in begun:  # a fork has no thread yet
            begun[os.getpid()] = threading.Thread(target=work, daemon=True)
            begun[os.getpid()].start()
        late[self.id] = threading.Event()
        jobs.put((self, operation, parameters))
        return True

    _put(Charge, "_do", done)


def noise_first() -> None:
    """The noise is drawn, and then the draw is recorded."""
    release = Charge.release

    class Before:
        """A mechanism that has released before anybody asks it to."""

        def __init__(self, mechanism: Any, answers: Any, entropy: Any) -> None:
            self.mechanism, self.result = mechanism, mechanism.release(answers, entropy=entropy)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.mechanism, name)

        def release(self, answers: Any, *, entropy: Any) -> Any:
            return self.result

    def released(
        self: Charge, mechanism: Any, answers: Any, *, entropy: Any = None, **private: Any
    ) -> Any:
        return release(
            self, Before(mechanism, answers, entropy), answers, entropy=entropy, **private
        )

    _put(Charge, "release", released)


def asynchronous() -> None:
    """A server may answer before what it has committed is written."""
    _put(
        postgres,
        "_REQUIRE_DURABLE_COMMIT",
        "PERFORM set_config('synchronous_commit', 'off', true);",
    )


# ---- files ----------------------------------------------------------------------------------------------------------------


def in_log() -> None:
    """What is charged lies in a log beside the file, as it did before decision 0015."""
    connect, look = sqlite._connect_sqlite, journal.look

    def connected(path: str, kind: str, *, in_log: bool) -> Any:
        connection = connect(path, kind, in_log=True)
        connection.execute("PRAGMA journal_mode = WAL")
        return connection

    def looked(*where: Any) -> journal.Beside:
        try:
            version = look(*where).version
        except LedgerError:
            version = schema.VERSION
        return journal.Beside(version=version, in_log=False, alone=False)

    _put(sqlite, "_connect_sqlite", connected)
    _put(sqlite, "look", looked)
    _put(sqlite, "_check_counted", lambda *_: None)


def any_journal() -> None:
    """Nobody looks at the journal beside a file, nor at a file without one, before SQLite does what it does with them."""

    def looked(*_: Any) -> journal.Beside:
        return journal.Beside(version=schema.VERSION, in_log=False, alone=False)

    _put(sqlite, "look", looked)
    _put(sqlite, "_check_counted", lambda *_: None)


def posix_locks() -> None:
    """Only SQLite's own locks keep processes apart, which a process loses when it closes the file anywhere."""
    _put(sqlite, "_take_file_lock", lambda *_: None)
    _put(sqlite, "_check_counted", lambda *_: None)


# ---- servers --------------------------------------------------------------------------------------------------------------


def hasty() -> None:
    """The first question about an account does not wait for a server."""
    _put(pages, "patiently", lambda ask: ask())


TWINS: dict[str, Callable[[], None]] = {
    "checked-first": checked_first,
    "generous": generous,
    "forgiving": forgiving,
    "forgotten-flag": forgotten_flag,
    "either-share": either_share,
    "returned-delta": returned_delta,
    "behind": behind,
    "noise-first": noise_first,
    "asynchronous": asynchronous,
    "in-log": in_log,
    "any-journal": any_journal,
    "posix-locks": posix_locks,
    "hasty": hasty,
}

PLACES: dict[str, tuple[str, ...]] = dict.fromkeys(TWINS, ("memory",)) | {
    "asynchronous": ("server",),
    "hasty": ("server",),
    "any-journal": ("disk",),
}
"""Where each of them is looked for."""

KINDS: dict[str, tuple[str, ...]] = {
    "asynchronous": ("kill", "restart"),
    "hasty": ("kill", "restart"),
    "any-journal": ("moved alone",),  # few kills leave a journal that matters
}
"""What happens while some are looked for; by default, everything."""


def install(name: str) -> None:
    """Break the library in this process, and in all that it starts."""
    TWINS[name]()
