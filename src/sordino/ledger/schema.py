"""Every table, operation and question of the ledger, written once for both databases.

The SQL is what SQLite and PostgreSQL share; `~` stands before the names of the ledger's own things
and `:name` is a parameter. SQLite runs an operation's statements in one transaction. PostgreSQL
stores them as a function (`store.postgres`). So a role can be allowed to charge without being
allowed to write into a table.

A charge has a key that only the process which reserved it knows. The table keeps the hash of the
key (`lock`), so that nobody else can draw from the charge or settle it.

All amounts are whole nano-units of the meter. Conditions are of the form `spent <= allowance -
:amount` so that nothing overflows 64 bits. An account with the meter "renyi" has two more sums, of
pure epsilons and of deltas (in units of 1e-18), and a rule of its own (`_FITS`, which says what
`renyi.Limits.admits` says). An account of rhos that keeps deltas is such a row as well, with the
order 1 and the limit -1 for epsilons, so that these never let anything in (`history.facts_of`).
Each operation begins with one conditional write: if it changes nothing the operation did not
happen, and otherwise all of it does.

History: every operation appends one event to each account it touches. An account's `head` is the
hash of its last event, which covers the hash before it (`history.linked`), so that an event cannot
be changed, dropped or moved without changing every later head.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import final

from sordino.ledger.renyi import LARGEST

VERSION = 6
OLDEST = 4
"""What has this schema is brought up to date: a file by its first write, a server by its owner."""
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
        "reading",
        "digest",
        "lock",
        "key",
        "body",
        "sheet",
        "alpha",
        "failures",
        "last",
    )
)
_PARAMETER = re.compile(r":([a-z]+)")

READING_COLUMN = "reading TEXT NOT NULL DEFAULT ''"
"""The column of an account that schema 5 has added."""
TABLES = (
    # From `alpha` on for the meter "renyi": its order and the part of delta for failures as texts,
    # then what was spent and what may be. A share of an account has the `pure_limit` -1 if it has
    # none. `successor` is the account that has taken this one over. `reading` is how the column of
    # the unit is read, empty until a charge says it; of an account and its shares that of the one
    # on top counts (`_READING`). Within its limits, and that twice: each operation asks for it, and
    # the rules of the table are a second guard.
    f"""CREATE TABLE ~account (
    name TEXT PRIMARY KEY,
    parent TEXT REFERENCES ~account (name),
    meter TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    adjacency TEXT NOT NULL,
    unit TEXT NOT NULL,
    source TEXT NOT NULL,
    allowance BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    number BIGINT NOT NULL,
    head TEXT NOT NULL,
    alpha TEXT NOT NULL DEFAULT '',
    failures TEXT NOT NULL DEFAULT '0',
    pure_spent BIGINT NOT NULL DEFAULT 0,
    pure_limit BIGINT NOT NULL DEFAULT 0,
    failing_spent BIGINT NOT NULL DEFAULT 0,
    failing_limit BIGINT NOT NULL DEFAULT 0,
    impure BIGINT NOT NULL DEFAULT 0,
    successor TEXT NOT NULL DEFAULT '',
    {READING_COLUMN},
    CHECK (meter IN ('pure', 'zcdp', 'renyi')),
    CHECK (spent >= 0 AND pure_spent >= 0
        AND failing_spent >= 0 AND failing_spent <= failing_limit),
    CHECK (spent <= allowance
        OR (meter = 'renyi' AND parent IS NULL AND impure = 0 AND pure_spent <= pure_limit))
)""",
    # `lock` is the hash of the key. No more is settled than was drawn, and no more drawn than was
    # reserved.
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
    pure_reserved BIGINT NOT NULL DEFAULT 0,
    pure_drawn BIGINT NOT NULL DEFAULT 0,
    pure_settled BIGINT NOT NULL DEFAULT 0,
    failing_reserved BIGINT NOT NULL DEFAULT 0,
    failing_drawn BIGINT NOT NULL DEFAULT 0,
    impure BIGINT NOT NULL DEFAULT 0,
    CHECK (drawn >= 0 AND drawn <= reserved),
    CHECK ((state IN ('settled', 'void')) = (settled IS NOT NULL)),
    CHECK (settled IS NULL OR (settled >= 0 AND settled <= drawn))
)""",
    # Number and account are the key: two writers cannot append the same event. `sums` is empty but
    # for the meter "renyi": pure epsilon, delta and flag of the event, then both sums and their
    # limits, and the flag.
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
    sums TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (account, number)
)""",
    # What was released with a charge, if that was asked for: part 0, and of a batch as many as it
    # has. The text comes last, so that whoever counts does not read it.
    """CREATE TABLE ~kept (
    charge TEXT NOT NULL REFERENCES ~charge (id),
    part BIGINT NOT NULL,
    account TEXT NOT NULL REFERENCES ~account (name),
    form BIGINT NOT NULL,
    digest TEXT NOT NULL,
    sheet TEXT NOT NULL,
    PRIMARY KEY (charge, part)
)""",
)


@final
@dataclass(frozen=True)
class Operation:
    """Statements that happen together or not at all.

    The first one changes a row or nothing happens.

    Attributes
    ----------
    name : str
        Of the function in PostgreSQL.
    statements : tuple of str
        In order.
    charging : bool
        Whether a role that may charge may do this; the others are for the owner of the ledger.
    again : bool
        Whether doing it a second time changes nothing, so that it can be tried again after a lost
        connection.
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
    """Return SQL with a prefix for own names and parameters like `mark`, with @ for their names."""
    return _PARAMETER.sub(lambda found: mark.replace("@", found[1]), sql.replace("~", prefix))


@dataclass(frozen=True, kw_only=True)
class _Change:
    """What an event does to the row of an account, as SQL.

    Its amounts, and what the sums are afterwards.
    """

    kind: str
    charge: str = "''"
    amount: str = ":amount"
    pure: str = ":pure"
    failing: str = ":failing"
    impure: str = ":impure"
    # Columns that change, with their new values; from the second sum on for the meter "renyi"
    # alone.
    after: dict[str, str]

    def written(self, account: str) -> tuple[str, str]:
        """Return both statements of an event: the change of the row up to WHERE, and the event."""
        now = {name: self.after.get(name, name) for name in ("spent", "allowance", *_SUMS)}
        covered = " || ' ' || ".join(
            (
                "head",
                "(number + 1)",
                f"'{self.kind}'",
                self.charge,
                f"({self.amount})",
                f"({now['spent']})",
                f"({now['allowance']})",
                f"{self._sums_text(now, ' ')} || :body",
            )
        )
        sets = ", ".join(f"{name} = {value}" for name, value in self.after.items())
        update = (
            f"UPDATE ~account SET {sets}{', ' if sets else ''}number = number + 1, head = "
            f"~chain({covered})"
        )
        # The row of the account was changed by the statement before, in the same transaction.
        insertion = (
            "INSERT INTO ~event (account, number, kind, charge, amount, spent, allowance, head, "
            "body, sums)"
            f" SELECT name, number, '{self.kind}', {self.charge}, {self.amount}, spent, allowance,"
            " head,"
            f" :body, {self._sums_text({name: name for name in _SUMS}, '')}"
            f" FROM ~account WHERE name = {account}"
        )
        return update, insertion

    def _sums_text(self, now: dict[str, str], end: str) -> str:
        own = (self.pure, self.failing, self.impure)
        listed = " || ',' || ".join(
            f"({value})" for value in (*own, *(now[name] for name in _SUMS))
        )
        return f"CASE WHEN meter = 'renyi' THEN '' || {listed} || '{end}' ELSE '' END"


_SUMS = ("pure_spent", "pure_limit", "failing_spent", "failing_limit", "impure")
_TAKEN = {
    "spent": "spent + :amount",
    "pure_spent": "pure_spent + :pure",
    "failing_spent": "failing_spent + :failing",
    "impure": "CASE WHEN impure + :impure > 0 THEN 1 ELSE 0 END",
}
# Whether an account may take on what is asked. On the meter "renyi" the deltas always count, and
# one of the two other sums is enough; a share of an account keeps to both, or has no limit of its
# own for the pure one.
_MAIN_FITS = "spent <= allowance - :amount"
_PURE_FITS = "(impure + :impure = 0 AND pure_spent <= pure_limit - :pure)"
_FITS = (
    " AND successor = '' AND :amount >= 0 AND :pure >= 0 AND :failing >= 0 AND :impure IN (0, 1)"
    " AND (meter = 'renyi' OR (:pure = 0 AND :failing = 0 AND :impure = 0))"
    " AND failing_spent <= failing_limit - :failing"
    # What no column can hold is refused, whichever sum would have had room.
    f" AND spent <= {LARGEST} - :amount AND pure_spent <= {LARGEST} - :pure"
    f" AND CASE WHEN meter <> 'renyi' THEN {_MAIN_FITS}"
    f" WHEN parent IS NULL THEN {_MAIN_FITS} OR {_PURE_FITS}"
    f" ELSE {_MAIN_FITS} AND (pure_limit < 0 OR {_PURE_FITS}) END"
)


def _closing_operation(kind: str, state: str, *, charging: bool) -> Operation:
    """Close a charge at `amount` and give the rest back, if it is exactly as the caller knows it.

    The number of draws is part of the condition: a copy of the process that drew more must not lose
    its draws to a refund here. Less than what was drawn comes back on a pure meter only, and into
    the pure sum of the meter "renyi"; the deltas that were drawn never do.
    """
    was = "(SELECT c.{} FROM ~charge AS c WHERE c.id = :charge)"
    update, insertion = _Change(
        kind=kind,
        charge=":charge",
        impure="0",
        after={
            "spent": "spent - (:reserved - :amount)",
            "pure_spent": f"pure_spent - ({was.format('pure_reserved')} - :pure)",
            "failing_spent": f"failing_spent - ({was.format('failing_reserved')} - :failing)",
        },
    ).written(":account")
    return Operation(
        kind,
        (
            f"UPDATE ~charge SET state = '{state}', settled = :amount, pure_settled = :pure"
            " WHERE id = :charge AND account = :account"
            f"{' AND lock = ~chain(:key)' if charging else ''} AND state IN ('reserved', 'drawn')"
            " AND reserved = :reserved AND drawn = :drawn AND draws = :draws"
            " AND :amount >= 0 AND :amount <= drawn"
            " AND :pure >= 0 AND :pure <= pure_drawn AND :failing = failing_drawn"
            " AND (:amount = drawn"
            " OR EXISTS (SELECT 1 FROM ~account WHERE name = :account AND meter = 'pure'))",
            f"{update} WHERE name = :account",
            insertion,
        ),
        charging=charging,
    )


# The account at the end of the way from a share to what gave it, and from there to what has taken
# it over: charges of all of them add up for one person, so that all of them read its column alike.
_UP = (
    "WITH RECURSIVE up (name, next) AS (SELECT a.name, coalesce(a.parent, nullif(a.successor, ''))"
    " FROM ~account AS a WHERE a.name = :account"
    " UNION SELECT a.name, coalesce(a.parent, nullif(a.successor, ''))"
    " FROM ~account AS a JOIN up ON a.name = up.next)"
)
# In a damaged file the way may have no end; then nothing is kept there.
_READING = (
    f"coalesce(({_UP} SELECT top.reading FROM ~account AS top JOIN up ON top.name = up.name"
    " WHERE up.next IS NULL), '')"
)
# A share has a copy from its own first charge on, which saves the way up.
_UNREAD_UP = _UP.replace(":account UNION", ":account AND :reading NOT IN ('', a.reading) UNION")
_READ_ALIKE = f" AND (:reading IN ('', reading) OR {_READING} IN ('', :reading))"
_reserve, _reserved = _Change(kind="reserve", charge=":charge", after=_TAKEN).written(":account")
RESERVE = Operation(
    "reserve",
    (
        # The one decision: only if it fits, and only if the account is still what the caller took
        # it for.
        f"{_reserve} WHERE name = :account AND meter = :meter AND alpha = :alpha"
        f" AND adjacency = :adjacency AND unit = :unit AND source = :source"
        f"{_READ_ALIKE}{_FITS}",
        # `number` is that of the event of this reservation, which the row of the account has just
        # counted.
        "INSERT INTO ~charge (id, account, number, digest, lock, state, reserved, drawn, draws,"
        " pure_reserved, failing_reserved, impure)"
        " SELECT :charge, name, number, :digest, :lock, 'reserved', :amount, 0, 0, :pure, :failing,"
        " :impure"
        " FROM ~account WHERE name = :account",
        _reserved,
        # The first one that is said stays. Of two that come at once under one account on a server
        # the second finds that of the first here, breaks the rule of the column, and then nothing
        # of it has happened.
        "UPDATE ~account SET reading = CASE WHEN reading = '' THEN :reading END"
        f" WHERE reading <> :reading AND name IN ({_UNREAD_UP} SELECT up.name FROM up)",
    ),
    charging=True,
)
_draw, _drawn = _Change(kind="draw", charge=":charge", impure="0", after={}).written(":account")
DRAW = Operation(
    "draw",
    (
        # Slot and sum must be as the caller knows them: a copy of its process may have drawn, too.
        "UPDATE ~charge SET state = 'drawn', draws = draws + 1, drawn = drawn + :amount,"
        " pure_drawn = pure_drawn + :pure, failing_drawn = failing_drawn + :failing"
        " WHERE id = :charge AND account = :account"
        " AND lock = ~chain(:key) AND state IN ('reserved', 'drawn')"
        " AND draws = :slot AND drawn = :before"
        " AND :amount >= 0 AND drawn <= reserved - :amount"
        " AND :pure >= 0 AND pure_drawn <= pure_reserved - :pure"
        " AND :failing >= 0 AND failing_drawn <= failing_reserved - :failing",
        f"{_draw} WHERE name = :account",
        _drawn,
    ),
    charging=True,
)
SETTLE = _closing_operation("settle", "settled", charging=True)
VOID = _closing_operation("void", "void", charging=False)
_keep, _kept = _Change(
    kind="keep", charge=":charge", amount="0", pure="0", failing="0", impure="0", after={}
).written(":account")
KEEP = Operation(
    "keep",
    (
        # Of a settled charge alone, by the process that made it, each part once and in order. The
        # hash in the history must be that of the text.
        f"{_keep} WHERE name = :account AND :digest = ~chain(:sheet)"
        " AND EXISTS (SELECT 1 FROM ~charge AS c WHERE c.id = :charge AND c.account = :account"
        " AND c.lock = ~chain(:key) AND c.state = 'settled')"
        " AND :part = (SELECT count(*) FROM ~kept AS k WHERE k.charge = :charge)",
        "INSERT INTO ~kept (charge, part, account, form, digest, sheet)"
        " VALUES (:charge, :part, :account, :form, :digest, :sheet)",
        _kept,
    ),
    charging=True,
)

_FACT_COLUMNS = "meter, epsilon, delta, adjacency, unit, source, alpha, failures"
_FIRST_COLUMNS = "allowance, spent, pure_limit, failing_limit, number, head"
_SHARE = "(:pure) || ',' || (:failing) || ',' || (:impure)"
_FIRST_PURE_LIMIT = "CASE WHEN :impure = 1 THEN -1 ELSE :pure END"


def _first_event_hash(
    meter: str,
    *,
    amount: str = ":amount",
    amounts: str = _SHARE,
    pure_limit: str = _FIRST_PURE_LIMIT,
) -> str:
    """Return the hash of a first event.

    No head before it, its number and kind, and nothing spent.
    """
    failing = amounts.split(" || ',' || ")[1]
    sums = f"{amounts} || ',0,' || ({pure_limit}) || ',0,' || {failing}"
    return (
        f"~chain('' || ' ' || 1 || ' create  ' || ({amount}) || ' 0 ' || ({amount}) || ' ' ||"
        f" CASE WHEN {meter} = 'renyi' THEN '' || {sums} || ',0 ' ELSE '' END || :body)"
    )


CREATE = Operation(
    "create_account",
    (
        f"INSERT INTO ~account (name, reading, {_FACT_COLUMNS}, {_FIRST_COLUMNS})"
        " VALUES (:account, :reading,"
        " :meter, :epsilon, :delta, :adjacency, :unit, :source, :alpha, :failures,"
        f" :amount, 0, {_FIRST_PURE_LIMIT}, :failing, 1, {_first_event_hash(':meter')})"
        # Of two that make the same account at once, one changes nothing and is told so.
        " ON CONFLICT (name) DO NOTHING",
        _Change(kind="create", after={}).written(":account")[1],
    ),
)
# A share without a part of the pure sum may hold what has no pure epsilon: it counts as that.
_grant, _granted = _Change(kind="grant", after=_TAKEN).written(":parent")
_GRANT_FITS = f"{_grant} WHERE name = :parent AND :amount > 0{_FITS}"
ENTRUST = Operation(
    "entrust",
    (
        f"{_GRANT_FITS} AND NOT EXISTS (SELECT 1 FROM ~account AS other WHERE other.name = :child)",
        _granted,
        f"INSERT INTO ~account (name, parent, {_FACT_COLUMNS}, {_FIRST_COLUMNS})"
        f" SELECT :child, name, {_FACT_COLUMNS},"
        f" :amount, 0, {_FIRST_PURE_LIMIT}, :failing, 1, {_first_event_hash('meter')}"
        " FROM ~account WHERE name = :parent",
        _Change(kind="create", after={}).written(":child")[1],
    ),
)
# To a child that exists. Its limits must stay within 64 bits as well, and what it has no limit for
# stays so.
_receive, _received = _Change(
    kind="receive",
    after={
        "allowance": "allowance + :amount",
        "pure_limit": "CASE WHEN :impure = 1 THEN pure_limit ELSE pure_limit + :pure END",
        "failing_limit": "failing_limit + :failing",
    },
).written(":child")
GRANT = Operation(
    "grant_share",
    (
        f"{_GRANT_FITS}"
        " AND EXISTS (SELECT 1 FROM ~account AS other WHERE other.name = :child"
        " AND other.parent = :parent"
        f" AND other.allowance <= {LARGEST} - :amount AND other.pure_limit <= {LARGEST} - :pure"
        f" AND other.failing_limit <= {LARGEST} - :failing"
        " AND (other.pure_limit < 0) = (:impure = 1))",
        _granted,
        f"{_receive} WHERE name = :child",
        _received,
    ),
    again=False,  # a second grant is a second grant
)
# Closes an account and makes another one, with the meter "renyi", that begins with all that was
# spent here: as one charge that was drawn and settled in full, so that nothing of it ever returns.
_close, _closed = _Change(
    kind="convert", amount="0", pure="0", failing="0", impure="0", after={"successor": ":child"}
).written(":account")
_take, _taken = _Change(kind="reserve", charge=":charge", after=_TAKEN).written(":child")
_draw_all, _all_drawn = _Change(kind="draw", charge=":charge", impure="0", after={}).written(
    ":child"
)
_settle_all, _all_settled = _Change(kind="settle", charge=":charge", impure="0", after={}).written(
    ":child"
)
_NEW_LIMITS = "(:mostpure) || ',' || (:mostfailing) || ',' || (0)"
CONVERT = Operation(
    "convert",
    (
        # Only if nothing has happened since the caller added up what was spent.
        f"{_close} WHERE name = :account AND head = :last AND successor = '' AND parent IS NULL"
        " AND meter <> 'renyi' AND NOT EXISTS (SELECT 1 FROM ~account AS other"
        " WHERE other.name = :child)",
        _closed,
        f"INSERT INTO ~account (name, reading, {_FACT_COLUMNS}, {_FIRST_COLUMNS})"
        " SELECT :child, reading, :meter, :epsilon, :delta, adjacency, unit, source, :alpha,"
        " :failures,"
        " :most, 0, :mostpure, :mostfailing, 1, "
        + _first_event_hash(":meter", amount=":most", amounts=_NEW_LIMITS, pure_limit=":mostpure")
        + " FROM ~account WHERE name = :account",
        _Change(
            kind="create",
            amount=":most",
            pure=":mostpure",
            failing=":mostfailing",
            impure="0",
            after={},
        ).written(":child")[1],
        # What does not fit breaks a rule of the table, and then nothing of all this has happened.
        f"{_take} WHERE name = :child",
        "INSERT INTO ~charge (id, account, number, digest, lock, state, reserved, drawn, draws, "
        "settled,"
        " pure_reserved, pure_drawn, pure_settled, failing_reserved, failing_drawn, impure)"
        # Nobody has a key whose hash is empty.
        " SELECT :charge, name, number, :digest, '', 'settled', :amount, :amount, 1, :amount,"
        " :pure, :pure, :pure, :failing, :failing, :impure FROM ~account WHERE name = :child",
        _taken,
        f"{_draw_all} WHERE name = :child",
        _all_drawn,
        f"{_settle_all} WHERE name = :child",
        _all_settled,
    ),
)
# From a place to a name that nothing else in the ledger is about, if nothing has happened since the
# caller looked. A share would stay behind, so there is none; the history has both texts.
_OTHERS = "SELECT 1 FROM ~account AS other WHERE other.source = :source OR other.parent = :account"
_move, _moved = _Change(
    kind="resource",
    amount="0",
    pure="0",
    failing="0",
    impure="0",
    # Of two moves to one name at once on a server the second finds the first here, breaks the rule
    # of the column, and then nothing of it has happened.
    after={"source": f"CASE WHEN NOT EXISTS ({_OTHERS}) THEN :source END"},
).written(":account")
RESOURCE = Operation(
    "resource",
    (
        # Holds one account for all moves, so that one comes after the other.
        "UPDATE ~account SET number = number WHERE name = (SELECT min(name) FROM ~account)"
        " AND EXISTS (SELECT 1 FROM ~account AS own WHERE own.name = :account"
        " AND own.head = :last AND own.successor = '' AND own.parent IS NULL)"
        f" AND NOT EXISTS ({_OTHERS})",
        f"{_move} WHERE name = :account AND head = :last",
        # Where that changed nothing there is an event of this number already.
        _moved,
    ),
)
OPERATIONS = (RESERVE, DRAW, SETTLE, VOID, KEEP, CREATE, ENTRUST, GRANT, CONVERT, RESOURCE)

ACCOUNTS = "SELECT name FROM ~account"
ACCOUNT = (
    "SELECT name, parent, meter, epsilon, delta, adjacency, unit, source, allowance, spent, number,"
    " head,"
    f" alpha, failures, {', '.join(_SUMS)}, successor, {_READING} FROM ~account"
    " WHERE name = :account"
)
CHILDREN = "SELECT name, allowance, pure_limit, failing_limit FROM ~account WHERE parent = :account"
_SELECT_CHARGES = (
    "SELECT c.id, c.digest, c.state, c.reserved, c.drawn, c.draws, c.settled, e.body,"
    " c.pure_reserved, c.pure_drawn, c.pure_settled, c.failing_reserved, c.failing_drawn, c.impure,"
    " (SELECT count(*) FROM ~kept AS k WHERE k.charge = c.id) FROM ~event AS e"
    " JOIN ~charge AS c ON c.id = e.charge WHERE e.account = :account AND e.kind = 'reserve'"
)
CHARGES = _SELECT_CHARGES + " ORDER BY e.number"
# The number leads to the one event by its key, so that no history is searched.
ONE_CHARGE = (
    _SELECT_CHARGES + " AND c.id = :charge"
    " AND e.number = (SELECT number FROM ~charge WHERE id = :charge AND account = :account)"
)
EVENTS = (
    "SELECT number, kind, charge, amount, spent, allowance, head, body, sums FROM ~event"
    " WHERE account = :account AND number > :after AND number <= :until ORDER BY number"
)
GRANTS = "SELECT amount, body, sums FROM ~event WHERE account = :account AND kind = 'grant'"
STATES = (
    "SELECT id, number, digest, state, reserved, drawn, draws, settled, pure_reserved, pure_drawn,"
    " pure_settled, failing_reserved, failing_drawn, impure FROM ~charge WHERE account = :account"
)
# What is kept is read one record at a time: it may be large.
KEPT = "SELECT charge, part, digest FROM ~kept WHERE account = :account ORDER BY charge, part"
SHEET = (
    "SELECT form, digest, sheet FROM ~kept WHERE account = :account AND charge = :charge"
    " AND part = :part"
)
HOW_MANY = "SELECT count(*) FROM ~event WHERE account = :account"
# The body of an event holds a nonce, so this finds the one operation that wrote it.
HAPPENED = "SELECT 1 FROM ~event WHERE account = :account AND body = :body"
