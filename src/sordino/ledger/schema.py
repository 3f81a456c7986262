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

from sordino.ledger.operation import (
    DRAW_FROM_CHARGE,
    FACT_COLUMNS,
    FAILING_RETURNED,
    FIRST_COLUMNS,
    FIRST_PURE_LIMIT,
    KEEP_READING,
    PURE_RETURNED,
    READ_ALIKE,
    READING,
    RETURNED,
    SUMS,
    TAKEN,
    WIDENED,
    Change,
    Operation,
    close_charge,
    first_event_hash,
)
from sordino.ledger.parts import OPEN
from sordino.ledger.renyi import LARGEST
from sordino.ledger.schema_parts import GRANT_PARTS, PART_OPERATIONS, PART_TABLES

VERSION = 8
OLDEST = 4
"""What has this schema is brought up to date: a file by its first write, a server by its owner."""
READING_COLUMN = "reading TEXT NOT NULL DEFAULT ''"
"""The column of an account that schema 5 has added."""
# Of an account with parts: which component of its unit they are (JSON, `parts.find_key`), what all
# of them have, and up to which one all are closed. `broken` counts parts past their limits.
PART_COLUMNS = (
    "parts TEXT NOT NULL DEFAULT ''",
    "base BIGINT NOT NULL DEFAULT 0 CHECK (base >= 0)",
    "base_pure BIGINT NOT NULL DEFAULT 0 CHECK (base_pure >= 0)",
    "base_failing BIGINT NOT NULL DEFAULT 0 CHECK (base_failing >= 0)",
    "base_impure BIGINT NOT NULL DEFAULT 0 CHECK (base_impure IN (0, 1))",
    f"closed BIGINT NOT NULL DEFAULT {OPEN}",
    "broken BIGINT NOT NULL DEFAULT 0 CHECK (broken = 0)",
)
"""The columns of an account that schema 7 has added."""
CHARGE_COLUMNS = (
    "whole BIGINT NOT NULL DEFAULT 0 CHECK (whole IN (0, 1))",
    f"closed BIGINT NOT NULL DEFAULT {OPEN}",
)
"""The columns of a charge that schema 7 has added: of all parts above `closed`."""
WITHIN = (
    "CHECK (spent <= allowance"
    " OR (meter = 'renyi' AND parent IS NULL"
    " AND (parts <> '' OR (impure = 0 AND pure_spent <= pure_limit))))"
)
"""The last rule of an account. With parts the two sums may be those of two parts, each within one
of its limits: there `broken` is the guard."""
TABLES = (
    # From `alpha` on for the meter "renyi": its order and the part of delta for failures as texts,
    # then what was spent and what may be. A share of an account has the `pure_limit` -1 if it has
    # none. `successor` is the account that has taken this one over. `reading` is how the column of
    # the unit is read, empty until a charge says it; of an account and its shares that of the one
    # on top counts (`READING`). Within its limits, and that twice: each operation asks for it, and
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
    {", ".join(PART_COLUMNS)},
    CHECK (meter IN ('pure', 'zcdp', 'renyi')),
    CHECK (spent >= 0 AND pure_spent >= 0
        AND failing_spent >= 0 AND failing_spent <= failing_limit),
    {WITHIN}
)""",
    # `lock` is the hash of the key. No more is settled than was drawn, and no more drawn than was
    # reserved.
    f"""CREATE TABLE ~charge (
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
    {", ".join(CHARGE_COLUMNS)},
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
    *PART_TABLES,
)


# Whether an account may take on what is asked. On the meter "renyi" the deltas always count, and
# one of the two other sums is enough; a share of an account keeps to both, or has no limit of its
# own for the pure one.
_MAIN_FITS = "spent <= allowance - :amount"
_PURE_FITS = "(impure + :impure = 0 AND pure_spent <= pure_limit - :pure)"
_FITS = (
    " AND parts = '' AND successor = ''"
    " AND :amount >= 0 AND :pure >= 0 AND :failing >= 0 AND :impure IN (0, 1)"
    " AND (meter = 'renyi' OR (:pure = 0 AND :failing = 0 AND :impure = 0))"
    " AND failing_spent <= failing_limit - :failing"
    # What no column can hold is refused, whichever sum would have had room.
    f" AND spent <= {LARGEST} - :amount AND pure_spent <= {LARGEST} - :pure"
    f" AND CASE WHEN meter <> 'renyi' THEN {_MAIN_FITS}"
    f" WHEN parent IS NULL THEN {_MAIN_FITS} OR {_PURE_FITS}"
    f" ELSE {_MAIN_FITS} AND (pure_limit < 0 OR {_PURE_FITS}) END"
)


def _closing_operation(kind: str, state: str, *, charging: bool) -> Operation:
    """Close a charge at `amount` and give the rest back."""
    update, insertion = Change(
        kind=kind,
        charge=":charge",
        impure="0",
        after={
            "spent": f"spent - {RETURNED}",
            "pure_spent": f"pure_spent - {PURE_RETURNED}",
            "failing_spent": f"failing_spent - {FAILING_RETURNED}",
        },
    ).written(":account")
    return Operation(
        kind,
        (
            close_charge(state, charging=charging),
            # Of an account with parts this changes nothing, and then the event breaks a rule.
            f"{update} WHERE name = :account AND parts = ''",
            insertion,
        ),
        charging=charging,
    )


_reserve, _reserved = Change(kind="reserve", charge=":charge", after=TAKEN).written(":account")
RESERVE = Operation(
    "reserve",
    (
        # The one decision: only if it fits, and only if the account is still what the caller took
        # it for.
        f"{_reserve} WHERE name = :account AND meter = :meter AND alpha = :alpha"
        f" AND adjacency = :adjacency AND unit = :unit AND source = :source"
        f"{READ_ALIKE}{_FITS}",
        # `number` is that of the event of this reservation, which the row of the account has just
        # counted.
        "INSERT INTO ~charge (id, account, number, digest, lock, state, reserved, drawn, draws,"
        " pure_reserved, failing_reserved, impure)"
        " SELECT :charge, name, number, :digest, :lock, 'reserved', :amount, 0, 0, :pure, :failing,"
        " :impure"
        " FROM ~account WHERE name = :account",
        _reserved,
        KEEP_READING,
    ),
    charging=True,
)
_draw, _drawn = Change(kind="draw", charge=":charge", impure="0", after={}).written(":account")
DRAW = Operation(
    "draw",
    (
        DRAW_FROM_CHARGE,
        f"{_draw} WHERE name = :account AND parts = ''",
        _drawn,
    ),
    charging=True,
)
SETTLE = _closing_operation("settle", "settled", charging=True)
VOID = _closing_operation("void", "void", charging=False)
_keep, _kept = Change(
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

_FIRST_HASH = first_event_hash(":meter", parts=":parts", closed=str(OPEN))
CREATE = Operation(
    "create_account",
    (
        f"INSERT INTO ~account (name, reading, parts, {FACT_COLUMNS}, {FIRST_COLUMNS})"
        " VALUES (:account, :reading, :parts,"
        " :meter, :epsilon, :delta, :adjacency, :unit, :source, :alpha, :failures,"
        f" :amount, 0, {FIRST_PURE_LIMIT}, :failing, 1, {_FIRST_HASH})"
        # Of two that make the same account at once, one changes nothing and is told so.
        " ON CONFLICT (name) DO NOTHING",
        Change(kind="create", after={}).written(":account")[1],
    ),
)
# A share without a part of the pure sum may hold what has no pure epsilon: it counts as that.
_grant, _granted = Change(kind="grant", after=TAKEN).written(":parent")
_GRANT_FITS = f"{_grant} WHERE name = :parent AND :amount > 0{_FITS}"
ENTRUST = Operation(
    "entrust",
    (
        f"{_GRANT_FITS} AND NOT EXISTS (SELECT 1 FROM ~account AS other WHERE other.name = :child)",
        _granted,
        f"INSERT INTO ~account (name, parent, {FACT_COLUMNS}, {FIRST_COLUMNS})"
        f" SELECT :child, name, {FACT_COLUMNS},"
        f" :amount, 0, {FIRST_PURE_LIMIT}, :failing, 1, {first_event_hash('meter')}"
        " FROM ~account WHERE name = :parent",
        Change(kind="create", after={}).written(":child")[1],
    ),
)
# To a child that exists. Its limits must stay within 64 bits as well, and what it has no limit for
# stays so.
_receive, _received = Change(kind="receive", after=WIDENED).written(":child")
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
_close, _closed = Change(
    kind="convert", amount="0", pure="0", failing="0", impure="0", after={"successor": ":child"}
).written(":account")
_take, _taken = Change(kind="reserve", charge=":charge", after=TAKEN).written(":child")
_draw_all, _all_drawn = Change(kind="draw", charge=":charge", impure="0", after={}).written(
    ":child"
)
_settle_all, _all_settled = Change(kind="settle", charge=":charge", impure="0", after={}).written(
    ":child"
)
_NEW_LIMITS = "(:mostpure) || ',' || (:mostfailing) || ',' || (0)"
CONVERT = Operation(
    "convert",
    (
        # Only if nothing has happened since the caller added up what was spent.
        f"{_close} WHERE name = :account AND head = :last AND successor = '' AND parent IS NULL"
        " AND meter <> 'renyi' AND parts = '' AND NOT EXISTS (SELECT 1 FROM ~account AS other"
        " WHERE other.name = :child)",
        _closed,
        f"INSERT INTO ~account (name, reading, {FACT_COLUMNS}, {FIRST_COLUMNS})"
        " SELECT :child, reading, :meter, :epsilon, :delta, adjacency, unit, source, :alpha,"
        " :failures,"
        " :most, 0, :mostpure, :mostfailing, 1, "
        + first_event_hash(":meter", amount=":most", amounts=_NEW_LIMITS, pure_limit=":mostpure")
        + " FROM ~account WHERE name = :account",
        Change(
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
_move, _moved = Change(
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
OPERATIONS = (
    RESERVE,
    DRAW,
    SETTLE,
    VOID,
    KEEP,
    CREATE,
    ENTRUST,
    GRANT,
    CONVERT,
    RESOURCE,
    *PART_OPERATIONS,
)

_PARTED = {one.name.removesuffix("_parts"): one for one in PART_OPERATIONS} | {
    GRANT.name: GRANT_PARTS
}


def of_account(operation: Operation, parts: str) -> Operation:
    """Return the operation as it is for an account that keeps `parts` of its parts."""
    return _PARTED[operation.name] if parts else operation


ACCOUNTS = "SELECT name FROM ~account"
ACCOUNT = (
    "SELECT name, parent, meter, epsilon, delta, adjacency, unit, source, allowance, spent, number,"
    " head,"
    f" alpha, failures, {', '.join(SUMS)}, successor, {READING},"
    " parts, base, base_pure, base_failing, base_impure, closed FROM ~account"
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
GRANTS = (
    "SELECT amount, body, sums FROM ~event WHERE account = :account AND kind = 'grant'"
    " ORDER BY number"
)
STATES = (
    "SELECT id, number, digest, state, reserved, drawn, draws, settled, pure_reserved, pure_drawn,"
    " pure_settled, failing_reserved, failing_drawn, impure, whole, closed FROM ~charge"
    " WHERE account = :account"
)
# Of an account with parts: what was charged to each one beyond what all of them have.
_PART_SUMS = "SELECT key, spent, pure_spent, failing_spent, impure FROM ~part"
PARTS = f"{_PART_SUMS} WHERE account = :account ORDER BY key"
SOME_PARTS = f"{_PART_SUMS} WHERE account = :account AND key BETWEEN :low AND :high"
FULLEST_PART = (
    f"{_PART_SUMS} WHERE account = :account AND key > :low ORDER BY spent DESC, key LIMIT 1"
)
LARGEST_PARTS = "SELECT spent FROM ~part WHERE account = :account ORDER BY spent DESC LIMIT :many"
PART_TOTAL = "SELECT count(*), coalesce(sum(spent), 0) FROM ~part WHERE account = :account"
SPANS = "SELECT charge, low, high FROM ~span WHERE account = :account ORDER BY charge, low"
# What is kept is read one record at a time: it may be large.
KEPT = "SELECT charge, part, digest FROM ~kept WHERE account = :account ORDER BY charge, part"
SHEET = (
    "SELECT form, digest, sheet FROM ~kept WHERE account = :account AND charge = :charge"
    " AND part = :part"
)
SHEETS = "SELECT charge, form, digest, sheet FROM ~kept WHERE account = :account AND part = 0"
HOW_MANY = "SELECT count(*) FROM ~event WHERE account = :account"
# The body of an event holds a nonce, so this finds the one operation that wrote it.
HAPPENED = "SELECT 1 FROM ~event WHERE account = :account AND body = :body"
