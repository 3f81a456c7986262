"""The tables and the operations of accounts with parts (`parts`), for both databases.

The sums that decide are in the rows of parts, and not in the row of the account. So each operation
locks that row first, by a statement of its own, and decides by the next one: in PostgreSQL that one
sees what all those have committed that held the lock before. A condition that looks at other rows
than the one that it waits for sees them as they were before the wait
(docs/decisions/0057-lock-then-decide.md).

What was charged without parts, `whole`, is in the base of all parts above `closed`, future ones
too. `spent` and the other sums of the account are those of the base and the largest of a part above
`closed`. A second guard counts the parts that a charge leaves past their limits, and no row may say
that there is one (`broken`).

The ranges of a charge come as one text of numbers of nine characters, two a range, which the event
has as it came; the table `span` has them as numbers.
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
    RETURNED,
    WIDENED,
    Change,
    Operation,
    close_charge,
    first_event_hash,
)
from sordino.ledger.parts import MOST_PARTS
from sordino.ledger.renyi import LARGEST

PART_TABLES = (
    # Beyond the base. A part that nothing was charged to has no row; a row stays for good.
    """CREATE TABLE ~part (
    account TEXT NOT NULL REFERENCES ~account (name),
    key BIGINT NOT NULL,
    spent BIGINT NOT NULL CHECK (spent >= 0),
    pure_spent BIGINT NOT NULL CHECK (pure_spent >= 0),
    failing_spent BIGINT NOT NULL CHECK (failing_spent >= 0),
    impure BIGINT NOT NULL CHECK (impure IN (0, 1)),
    PRIMARY KEY (account, key)
)""",
    # Several ranges are one charge: its draws and what it gives back are its own, not a range's.
    """CREATE TABLE ~span (
    charge TEXT NOT NULL REFERENCES ~charge (id),
    low BIGINT NOT NULL,
    high BIGINT NOT NULL,
    account TEXT NOT NULL REFERENCES ~account (name),
    PRIMARY KEY (charge, low),
    CHECK (low <= high)
)""",
)
PART_INDEXES = (
    "CREATE INDEX part_spent ON ~part (account, spent)",
    # Most accounts have nothing of these.
    "CREATE INDEX part_pure ON ~part (account, pure_spent) WHERE pure_spent > 0",
    "CREATE INDEX part_failing ON ~part (account, failing_spent) WHERE failing_spent > 0",
    "CREATE INDEX part_impure ON ~part (account, impure) WHERE impure = 1",
    "CREATE INDEX span_account ON ~span (account)",
)
"""Where the largest sum of a part is found, however many there are."""

# The ranges of the text, each with the end of the one before; the zeros are for an empty text.
_WIDTH = 18
_READ = f"CAST(substr(:ranges || '{'0' * _WIDTH}', {{}}, 9) AS BIGINT)"
_PIECES = (
    "WITH RECURSIVE piece (place, ending, low, high) AS ("
    f"SELECT 1, :closed, {_READ.format('1')}, {_READ.format('10')} WHERE :ranges <> ''"
    f" UNION ALL SELECT place + {_WIDTH}, high, {_READ.format(f'place + {_WIDTH}')},"
    f" {_READ.format(f'place + {_WIDTH + 9}')}"
    f" FROM piece WHERE place + {_WIDTH} < length(:ranges))"
)
# In order, above what is closed; what is not counts as too many. Of the whole table there is none.
_HOW_MANY = (
    f"({_PIECES} SELECT coalesce(sum(CASE WHEN ending < low AND low <= high"
    f" THEN high - low + 1 ELSE {MOST_PARTS + 1} END), 0) FROM piece)"
)
# What an operation touches, as ranges of keys.
_TOUCHED = (
    f"{_PIECES}, touched (low, high) AS (SELECT low, high FROM piece"
    f" UNION ALL SELECT :closed + 1, {2**63 - 1} WHERE :whole = 1)"
)
_PART_OF = {
    "spent": "q.spent",
    "pure": "q.pure_spent",
    "failing": "q.failing_spent",
    "impure": "q.impure",
}
_NO_PART = dict.fromkeys(_PART_OF, "0")


def _leaves_room(part: dict[str, str], *, asked: bool) -> str:
    """Return whether what all parts have, and one part beyond it, leave room for what is asked.

    It is the rule of an account without parts (`schema`), of one part.
    """
    amount, pure, failing, impure = (
        (":amount", ":pure", ":failing", ":impure") if asked else ("0", "0", "0", "0")
    )
    main_sum, pure_sum = f"base + {part['spent']}", f"base_pure + {part['pure']}"
    main_fits = f"{main_sum} <= allowance - {amount}"
    pure_fits = (
        f"(base_impure + {part['impure']} + {impure} = 0 AND {pure_sum} <= pure_limit - {pure})"
    )
    return (
        # One sum and its limit, which is within what a column can hold.
        f"coalesce(CASE WHEN meter <> 'renyi' THEN {main_fits}"
        f" ELSE base_failing + {part['failing']} <= failing_limit - {failing}"
        # What no column can hold is refused, whichever sum would have had room.
        f" AND {main_sum} <= {LARGEST} - {amount} AND {pure_sum} <= {LARGEST} - {pure}"
        f" AND CASE WHEN parent IS NULL THEN {main_fits} OR {pure_fits}"
        f" ELSE {main_fits} AND (pure_limit < 0 OR {pure_fits}) END END, FALSE)"
    )


_SANE = (
    f" AND successor = '' AND :amount BETWEEN 0 AND {LARGEST} AND :pure BETWEEN 0 AND {LARGEST}"
    f" AND :failing BETWEEN 0 AND {LARGEST} AND :impure IN (0, 1)"
    " AND (meter = 'renyi' OR (:pure = 0 AND :failing = 0 AND :impure = 0))"
    f" AND {_leaves_room(_NO_PART, asked=True)}"
)


def _take_on_base(account: str, whole: str) -> str:
    return (
        f"UPDATE ~account SET base = base + :amount{whole}, base_pure = base_pure + :pure{whole},"
        f" base_failing = base_failing + :failing{whole},"
        f" base_impure = CASE WHEN base_impure + :impure{whole} > 0 THEN 1 ELSE 0 END"
        f" WHERE name = {account} AND parts <> ''"
    )


def _say_largest(account: str, *, broken: str = "") -> str:
    """Return the statement that gives an account the sums of its base and its fullest parts.

    `broken` is the SQL of what the second guard counts.
    """
    mine = f"FROM ~part AS q WHERE q.account = {account} AND q.key > closed"

    def largest(column: str, least: str) -> str:
        found = f"SELECT q.{column} {mine}{least} ORDER BY q.{column} DESC LIMIT 1"
        return f"coalesce(({found}), 0)"

    counted = (
        f", broken = (CASE WHEN {_leaves_room(_NO_PART, asked=False)} THEN 0 ELSE 1 END) + {broken}"
        if broken
        else ""
    )
    impure = f"SELECT q.impure {mine} AND q.impure = 1 LIMIT 1"
    return (
        f"UPDATE ~account SET spent = base + {largest('spent', '')},"
        f" pure_spent = base_pure + {largest('pure_spent', ' AND q.pure_spent > 0')},"
        " failing_spent = base_failing +"
        f" {largest('failing_spent', ' AND q.failing_spent > 0')},"
        f" impure = CASE WHEN base_impure + coalesce(({impure}), 0) > 0 THEN 1 ELSE 0 END{counted}"
        f" WHERE name = {account}"
    )


# The keys of the parts of a charge, one by one.
_KEYS = (
    "WITH RECURSIVE one (key, high) AS (SELECT s.low, s.high FROM ~span AS s"
    " WHERE s.charge = :charge UNION ALL SELECT one.key + 1, one.high FROM one"
    " WHERE one.key < one.high) SELECT one.key FROM one"
)


def _count_touched(condition: str) -> str:
    """Return how many parts that are touched meet a condition.

    They are counted range by range, because PostgreSQL would look at all parts where it may join.
    """
    return (
        f"({_TOUCHED} SELECT coalesce(sum((SELECT count(*) FROM ~part AS q"
        " WHERE q.account = :account AND q.key BETWEEN touched.low AND touched.high"
        f" AND q.key > closed AND {condition})), 0) FROM touched)"
    )


def _move_parts(sign: str, amounts: tuple[str, ...]) -> str:
    """Return the statement that adds amounts to the parts of a charge, or takes them off.

    One by one by their keys, also where PostgreSQL would rather look at all parts for an UPDATE.
    """
    sums = ("spent", "pure_spent", "failing_spent")
    moved = ", ".join(f"{name} = own.{name} {sign} excluded.{name}" for name in sums)
    return (
        f"INSERT INTO ~part AS own (account, key, {', '.join(sums)}, impure)"
        f" SELECT :account, each.key, {', '.join(amounts)} FROM ({_KEYS}) AS each"
        f" WHERE TRUE ON CONFLICT (account, key) DO UPDATE SET {moved},"
        # That a part had no epsilon is never forgotten.
        " impure = CASE WHEN own.impure + excluded.impure > 0 THEN 1 ELSE 0 END"
    )


_reserve, _reserved = Change(
    kind="reserve", charge=":charge", ranges=":ranges", whole=":whole", after={}
).written(":account")
RESERVE_PARTS = Operation(
    "reserve_parts",
    (
        # The one decision: only if it fits in each part that is touched, in all others as well if
        # it is of the whole table, and only if the account is still what the caller took it for.
        f"{_take_on_base(':account', ' * :whole')} AND parts = :parts AND meter = :meter"
        " AND alpha = :alpha AND adjacency = :adjacency AND unit = :unit AND source = :source"
        f"{READ_ALIKE} AND closed = :closed AND :whole IN (0, 1)"
        " AND (:whole = 1 OR :amount + :failing + :impure > 0)"
        f" AND {_HOW_MANY} BETWEEN 1 - :whole AND {MOST_PARTS} * (1 - :whole){_SANE}"
        f" AND {_count_touched(f'NOT {_leaves_room(_PART_OF, asked=True)}')} = 0",
        "INSERT INTO ~charge (id, account, number, digest, lock, state, reserved, drawn, draws,"
        " pure_reserved, failing_reserved, impure, whole, closed)"
        " SELECT :charge, name, number + 1, :digest, :lock, 'reserved', :amount, 0, 0, :pure,"
        " :failing, :impure, :whole, closed FROM ~account WHERE name = :account",
        "INSERT INTO ~span (charge, low, high, account)"
        f" SELECT :charge, found.low, found.high, :account FROM ({_PIECES}"
        " SELECT low, high FROM piece) AS found",
        _move_parts("+", (":amount", ":pure", ":failing", ":impure")),
        _say_largest(
            ":account", broken=_count_touched(f"NOT {_leaves_room(_PART_OF, asked=False)}")
        ),
        f"{_reserve} WHERE name = :account",
        _reserved,
        KEEP_READING,
    ),
    charging=True,
    locked=":account",
)
_draw, _drawn = Change(kind="draw", charge=":charge", impure="0", after={}).written(":account")
DRAW_PARTS = Operation(
    "draw_parts",
    (DRAW_FROM_CHARGE, f"{_draw} WHERE name = :account AND parts <> ''", _drawn),
    charging=True,
    locked=":account",
)


def _return_rest(kind: str, state: str, *, charging: bool) -> Operation:
    """Close a charge, and give the rest back to the parts that it was charged to."""
    update, insertion = Change(kind=kind, charge=":charge", impure="0", after={}).written(
        ":account"
    )
    returned = (RETURNED, PURE_RETURNED, FAILING_RETURNED)
    of_base = ", ".join(
        f"{column} = {column} - {amount}"
        for column, amount in zip(("base", "base_pure", "base_failing"), returned, strict=True)
    )
    return Operation(
        f"{kind}_parts",
        (
            close_charge(state, charging=charging),
            f"UPDATE ~account SET {of_base} WHERE name = :account"
            " AND EXISTS (SELECT 1 FROM ~charge AS c WHERE c.id = :charge AND c.whole = 1)",
            _move_parts("-", (*returned, "0")),
            _say_largest(":account"),
            f"{update} WHERE name = :account AND parts <> ''",
            insertion,
        ),
        charging=charging,
        locked=":account",
    )


SETTLE_PARTS = _return_rest("settle", "settled", charging=True)
VOID_PARTS = _return_rest("void", "void", charging=False)
# A share is of the whole table: the child has parts of its own, each with the share as its limit.
_grant, _granted = Change(kind="grant", whole="1", after={}).written(":parent")
_GRANT_FITS = (
    f"{_take_on_base(':parent', '')} AND :amount > 0{_SANE}"
    " AND NOT EXISTS (SELECT 1 FROM ~part AS q WHERE q.account = :parent AND q.key > closed"
    f" AND NOT {_leaves_room(_PART_OF, asked=True)})"
)
_GRANTED = (
    _say_largest(
        ":parent",
        broken="(SELECT count(*) FROM ~part AS q WHERE q.account = :parent AND q.key > closed"
        f" AND NOT {_leaves_room(_PART_OF, asked=False)})",
    ),
    f"{_grant} WHERE name = :parent",
    _granted,
)
ENTRUST_PARTS = Operation(
    "entrust_parts",
    (
        f"{_GRANT_FITS} AND NOT EXISTS (SELECT 1 FROM ~account AS other WHERE other.name = :child)",
        *_GRANTED,
        f"INSERT INTO ~account (name, parent, parts, closed, {FACT_COLUMNS}, {FIRST_COLUMNS})"
        f" SELECT :child, name, parts, closed, {FACT_COLUMNS},"
        f" :amount, 0, {FIRST_PURE_LIMIT}, :failing, 1, {first_event_hash('meter', parts='parts')}"
        " FROM ~account WHERE name = :parent",
        Change(kind="create", after={}).written(":child")[1],
    ),
    locked=":parent",
)
_receive, _received = Change(kind="receive", after=WIDENED).written(":child")
GRANT_PARTS = Operation(
    "grant_parts",
    (
        # What is closed in the parent is closed in the child, else the share would be of parts that
        # the parent does not count it in.
        f"{_GRANT_FITS}"
        " AND EXISTS (SELECT 1 FROM ~account AS other WHERE other.name = :child"
        " AND other.parent = :parent AND other.closed >= account.closed"
        f" AND other.allowance <= {LARGEST} - :amount AND other.pure_limit <= {LARGEST} - :pure"
        f" AND other.failing_limit <= {LARGEST} - :failing"
        " AND (other.pure_limit < 0) = (:impure = 1))",
        *_GRANTED,
        f"{_receive} WHERE name = :child",
        _received,
    ),
    again=False,  # a second grant is a second grant
    locked=":parent",
)
_close, _closed = Change(
    kind="close", amount="0", pure="0", failing="0", impure="0", after={}
).written(":account")
CLOSE_PARTS = Operation(
    "close_parts",
    (
        # Children first: a share that was made or grown meanwhile must be closed before.
        "UPDATE ~account SET closed = :until WHERE name = :account AND parts = :parts"
        " AND :until > closed AND NOT EXISTS (SELECT 1 FROM ~account AS other"
        " WHERE other.parent = :account AND other.closed < :until)",
        _say_largest(":account"),
        f"{_close} WHERE name = :account",
        _closed,
    ),
    locked=":account",
)
# An account that had none. What it has spent is in the base of all parts from then on, and what was
# charged counts as charged to the whole table. Children first: what they read their parent counts.
_part, _parted = Change(
    kind="part", amount="0", pure="0", failing="0", impure="0", after={}
).written(":account")
ADD_PARTS = Operation(
    "add_parts",
    (
        "UPDATE ~account SET parts = :parts, base = spent, base_pure = pure_spent,"
        " base_failing = failing_spent, base_impure = impure WHERE name = :account AND parts = ''"
        " AND :parts <> '' AND successor = '' AND adjacency = 'add-remove' AND unit = :unit"
        " AND NOT EXISTS (SELECT 1 FROM ~account AS other WHERE other.parent = :account"
        " AND other.parts = '')",
        "UPDATE ~charge SET whole = 1 WHERE id IN (SELECT e.charge FROM ~event AS e"
        " WHERE e.account = :account AND e.kind = 'reserve')",
        f"{_part} WHERE name = :account",
        _parted,
    ),
    locked=":account",
)
PART_OPERATIONS = (
    RESERVE_PARTS,
    DRAW_PARTS,
    SETTLE_PARTS,
    VOID_PARTS,
    ENTRUST_PARTS,
    GRANT_PARTS,
    CLOSE_PARTS,
    ADD_PARTS,
)
