"""Every table, operation and question of the ledger, written once for both databases.

The SQL is what SQLite and PostgreSQL share; `~` stands before the names of the ledger's own things and
`:name` is a parameter. SQLite runs an operation's statements in one transaction. PostgreSQL stores them as a
function (`store.postgres`). So a role can be allowed to charge without being allowed to write into a table.

A charge has a key that only the process which reserved it knows. The table keeps the hash of the key
(`lock`), so that nobody else can draw from the charge or settle it.

All amounts are whole nano-units of the meter. Conditions are of the form `spent <= allowance - :amount` so
that nothing overflows 64 bits. Each operation begins with one conditional write: if it changes nothing the
operation did not happen, and otherwise all of it does.

History: every operation appends one event to each account it touches. An account's `head` is the hash of its
last event, which covers the hash before it (`history.linked`), so that an event cannot be changed, dropped
or moved without changing every later head.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import final

VERSION = 2
LARGEST = 9 * 10**18  # below 2^63 - 1: an amount is a signed 64-bit column in every database
# The parameters that are texts; all others are whole numbers.
_TEXT_PARAMETERS = frozenset(
    (
        "account",
        "parent",
        "child",
        "charge",
        "meter",
        "epsilon",
        "delta",
        "adjacency",
        "unit",
        "source",
        "digest",
        "lock",
        "key",
        "body",
    )
)
_PARAMETER = re.compile(r":([a-z]+)")

TABLES = (
    # Within its limit, and that twice: each operation asks for it, and the last check is a second guard.
    """CREATE TABLE ~account (
    name TEXT PRIMARY KEY,
    parent TEXT REFERENCES ~account (name),
    meter TEXT NOT NULL CHECK (meter IN ('pure', 'zcdp')),
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    adjacency TEXT NOT NULL,
    unit TEXT NOT NULL,
    source TEXT NOT NULL,
    allowance BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    number BIGINT NOT NULL,
    head TEXT NOT NULL,
    CHECK (spent >= 0 AND spent <= allowance)
)""",
    # `lock` is the hash of the key. No more is settled than was drawn, and no more drawn than was reserved.
    """CREATE TABLE ~charge (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES ~account (name),
    number BIGINT NOT NULL,
    digest TEXT NOT NULL,
    lock TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'drawn', 'settled', 'void')),
    reserved BIGINT NOT NULL,
    drawn BIGINT NOT NULL,
    draws BIGINT NOT NULL,
    settled BIGINT,
    CHECK (drawn >= 0 AND drawn <= reserved),
    CHECK ((state IN ('settled', 'void')) = (settled IS NOT NULL)),
    CHECK (settled IS NULL OR (settled >= 0 AND settled <= drawn))
)""",
    # Number and account are the key: two writers cannot append the same event.
    """CREATE TABLE ~event (
    account TEXT NOT NULL REFERENCES ~account (name),
    number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    charge TEXT NOT NULL,
    amount BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    allowance BIGINT NOT NULL,
    head TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (account, number)
)""",
)


@final
@dataclass(frozen=True)
class Operation:
    """Statements that happen together or not at all; the first one changes a row or nothing happens.

    Attributes
    ----------
    name : str
        Of the function in PostgreSQL.
    statements : tuple of str
        In order.
    charging : bool
        Whether a role that may charge may do this; the others are for the owner of the ledger.
    again : bool
        Whether doing it a second time changes nothing, so that it can be tried again after a lost connection.
    """

    name: str
    statements: tuple[str, ...]
    charging: bool = False
    again: bool = True

    @property
    def parameters(self) -> dict[str, str]:
        """Return the names of the parameters in order of appearance, with their SQL types."""
        return {
            name: "text" if name in _TEXT_PARAMETERS else "bigint"
            for name in _PARAMETER.findall(" ".join(self.statements))
        }


@cache
def rendered(sql: str, prefix: str, mark: str) -> str:
    """Return SQL with a prefix for own names and parameters written like `mark`, with @ for their names."""
    return _PARAMETER.sub(lambda found: mark.replace("@", found[1]), sql.replace("~", prefix))


def _head_assignments(
    kind: str,
    charge: str,
    amount: str,
    *,
    spent: str = "spent",
    allowance: str = "allowance",
    body: str = ":body",
) -> str:
    """Return the assignments that put an event into an account row: its number and its hash."""
    covered = " || ' ' || ".join(
        ("head", "(number + 1)", f"'{kind}'", charge, f"({amount})", f"({spent})", f"({allowance})", body)
    )
    return f"number = number + 1, head = ~chain({covered})"


def _event_insertion(
    kind: str, charge: str, amount: str, *, account: str = ":account", body: str = ":body"
) -> str:
    """Return the statement that keeps the event which the account row has just counted."""
    # The row of the account was changed by the statement before, in the same transaction.
    return (
        "INSERT INTO ~event (account, number, kind, charge, amount, spent, allowance, head, body)"
        f" SELECT name, number, '{kind}', {charge}, {amount}, spent, allowance, head, {body}"
        f" FROM ~account WHERE name = {account}"
    )


def _closing_operation(kind: str, state: str, *, charging: bool) -> Operation:
    """Close a charge at `amount` and give the rest back, if the charge is exactly as the caller knows it.

    The number of draws is part of the condition: a copy of the process that drew more must not lose its draws
    to a refund here. Less than what was drawn comes back on a pure meter only.
    """
    return Operation(
        kind,
        (
            f"UPDATE ~charge SET state = '{state}', settled = :amount"
            " WHERE id = :charge AND account = :account"
            f"{' AND lock = ~chain(:key)' if charging else ''} AND state IN ('reserved', 'drawn')"
            " AND reserved = :reserved AND drawn = :drawn AND draws = :draws"
            " AND :amount >= 0 AND :amount <= drawn"
            " AND (:amount = drawn"
            " OR EXISTS (SELECT 1 FROM ~account WHERE name = :account AND meter = 'pure'))",
            "UPDATE ~account SET spent = spent - (:reserved - :amount), "
            + _head_assignments(kind, ":charge", ":amount", spent="spent - (:reserved - :amount)")
            + " WHERE name = :account",
            _event_insertion(kind, ":charge", ":amount"),
        ),
        charging=charging,
    )


RESERVE = Operation(
    "reserve",
    (
        # The one decision: only if it fits, and only if the account is still what the caller took it for.
        "UPDATE ~account SET spent = spent + :amount, "
        + _head_assignments("reserve", ":charge", ":amount", spent="spent + :amount")
        + " WHERE name = :account AND meter = :meter"
        " AND adjacency = :adjacency AND unit = :unit AND source = :source"
        " AND :amount >= 0 AND spent <= allowance - :amount",
        # `number` is that of the event of this reservation, which the row of the account has just counted.
        "INSERT INTO ~charge (id, account, number, digest, lock, state, reserved, drawn, draws)"
        " SELECT :charge, name, number, :digest, :lock, 'reserved', :amount, 0, 0"
        " FROM ~account WHERE name = :account",
        _event_insertion("reserve", ":charge", ":amount"),
    ),
    charging=True,
)
DRAW = Operation(
    "draw",
    (
        # Slot and sum must be as the caller knows them: a copy of its process may have drawn, too.
        "UPDATE ~charge SET state = 'drawn', draws = draws + 1, drawn = drawn + :amount"
        " WHERE id = :charge AND account = :account"
        " AND lock = ~chain(:key) AND state IN ('reserved', 'drawn') AND draws = :slot AND drawn = :before"
        " AND :amount >= 0 AND drawn <= reserved - :amount",
        "UPDATE ~account SET " + _head_assignments("draw", ":charge", ":amount") + " WHERE name = :account",
        _event_insertion("draw", ":charge", ":amount"),
    ),
    charging=True,
)
SETTLE = _closing_operation("settle", "settled", charging=True)
VOID = _closing_operation("void", "void", charging=False)

_FACT_COLUMNS = "meter, epsilon, delta, adjacency, unit, source"
# What the hash of a first event covers: no head before it, its number and kind, and nothing spent.
_FIRST_EVENT_HASHED = "'' || ' ' || 1 || ' create  ' || (:amount) || ' 0 ' || (:amount) || ' ' || "
CREATE = Operation(
    "create_account",
    (
        f"INSERT INTO ~account (name, {_FACT_COLUMNS}, allowance, spent, number, head)"
        " VALUES (:account, :meter, :epsilon, :delta, :adjacency, :unit, :source, :amount, 0, 1, ~chain("
        + _FIRST_EVENT_HASHED
        + ":body))"
        # Of two that make the same account at once, one changes nothing and is told so.
        " ON CONFLICT (name) DO NOTHING",
        _event_insertion("create", "''", ":amount"),
    ),
)
_SHARE_FITS = " WHERE name = :parent AND :amount > 0 AND spent <= allowance - :amount"
_PARENT_GIVES = "UPDATE ~account SET spent = spent + :amount, " + _head_assignments(
    "grant", "''", ":amount", spent="spent + :amount"
)
ENTRUST = Operation(
    "entrust",
    (
        _PARENT_GIVES
        + _SHARE_FITS
        + " AND NOT EXISTS (SELECT 1 FROM ~account AS other WHERE other.name = :child)",
        _event_insertion("grant", "''", ":amount", account=":parent"),
        f"INSERT INTO ~account (name, parent, {_FACT_COLUMNS}, allowance, spent, number, head)"
        f" SELECT :child, name, {_FACT_COLUMNS}, :amount, 0, 1, ~chain("
        + _FIRST_EVENT_HASHED
        + ":body) FROM ~account WHERE name = :parent",
        _event_insertion("create", "''", ":amount", account=":child"),
    ),
)
# To a child that exists. Its limit must stay within 64 bits as well.
GRANT = Operation(
    "grant_share",
    (
        _PARENT_GIVES
        + _SHARE_FITS
        + " AND EXISTS (SELECT 1 FROM ~account AS other WHERE other.name = :child AND other.parent = :parent"
        + f" AND other.allowance <= {LARGEST} - :amount)",
        _event_insertion("grant", "''", ":amount", account=":parent"),
        "UPDATE ~account SET allowance = allowance + :amount, "
        + _head_assignments("receive", "''", ":amount", allowance="allowance + :amount")
        + " WHERE name = :child",
        _event_insertion("receive", "''", ":amount", account=":child"),
    ),
    again=False,  # a second grant is a second grant
)
OPERATIONS = (RESERVE, DRAW, SETTLE, VOID, CREATE, ENTRUST, GRANT)

ACCOUNTS = "SELECT name FROM ~account"
ACCOUNT = (
    f"SELECT name, parent, {_FACT_COLUMNS}, allowance, spent, number, head"
    " FROM ~account WHERE name = :account"
)
CHILDREN = "SELECT name, allowance FROM ~account WHERE parent = :account"
_SELECT_CHARGES = (
    "SELECT c.id, c.digest, c.state, c.reserved, c.drawn, c.draws, c.settled, e.body FROM ~event AS e"
    " JOIN ~charge AS c ON c.id = e.charge WHERE e.account = :account AND e.kind = 'reserve'"
)
CHARGES = _SELECT_CHARGES + " ORDER BY e.number"
# The number leads to the one event by its key, so that no history is searched.
ONE_CHARGE = (
    _SELECT_CHARGES + " AND c.id = :charge"
    " AND e.number = (SELECT number FROM ~charge WHERE id = :charge AND account = :account)"
)
EVENTS = (
    "SELECT number, kind, charge, amount, spent, allowance, head, body FROM ~event"
    " WHERE account = :account AND number > :after AND number <= :until ORDER BY number"
)
GRANTS = "SELECT amount, body FROM ~event WHERE account = :account AND kind = 'grant'"
STATES = (
    "SELECT id, number, digest, state, reserved, drawn, draws, settled FROM ~charge WHERE account = :account"
)
HOW_MANY = "SELECT count(*) FROM ~event WHERE account = :account"
# The body of an event holds a nonce, so this finds the one operation that wrote it.
HAPPENED = "SELECT 1 FROM ~event WHERE account = :account AND body = :body"
