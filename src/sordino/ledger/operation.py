"""What the ledger does, as statements that SQLite and PostgreSQL share.

`~` stands before the names of the ledger's own things and `:name` is a parameter (`schema`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import final

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
        "parts",
        "ranges",
    )
)
_PARAMETER = re.compile(r":([a-z]+)")


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
    locked : str
        The parameter that names an account whose row is locked by a statement of its own before
        the first one. So the first one sees what others have committed, also in other rows
        (docs/decisions/0057-lock-then-decide.md). A transaction of SQLite begins with its lock.
    """

    name: str
    statements: tuple[str, ...]
    charging: bool = False
    again: bool = True
    locked: str = ""

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
class Change:
    """What an event does to the row of an account, as SQL.

    Its amounts, and what the sums are afterwards.
    """

    kind: str
    charge: str = "''"
    amount: str = ":amount"
    pure: str = ":pure"
    failing: str = ":failing"
    impure: str = ":impure"
    # Of an account with parts: which ones it is about, and whether all.
    ranges: str = "''"
    whole: str = "0"
    # Columns that change, with their new values; from the second sum on for the meter "renyi"
    # alone.
    after: dict[str, str]

    def written(self, account: str) -> tuple[str, str]:
        """Return both statements of an event: the change of the row up to WHERE, and the event."""
        now = {name: self.after.get(name, name) for name in ("spent", "allowance", *SUMS)}
        covered = " || ' ' || ".join(
            (
                "head",
                "(number + 1)",
                f"'{self.kind}'",
                self.charge,
                f"({self.amount})",
                f"({now['spent']})",
                f"({now['allowance']})",
                f"{self._say_sums(now, ' ')} || :body",
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
            f" :body, {self._say_sums({name: name for name in SUMS}, '')}"
            f" FROM ~account WHERE name = {account}"
        )
        return update, insertion

    def _say_sums(self, now: dict[str, str], end: str) -> str:
        own = (self.pure, self.failing, self.impure)
        listed = " || ',' || ".join(f"({value})" for value in (*own, *(now[name] for name in SUMS)))
        parted = say_parts(ranges=self.ranges, whole=f"({self.whole})")
        return (
            f"CASE WHEN parts <> '' THEN '' || {listed} || {parted} || '{end}'"
            f" WHEN meter = 'renyi' THEN '' || {listed} || '{end}' ELSE '' END"
        )


SUMS = ("pure_spent", "pure_limit", "failing_spent", "failing_limit", "impure")
TAKEN = {
    "spent": "spent + :amount",
    "pure_spent": "pure_spent + :pure",
    "failing_spent": "failing_spent + :failing",
    "impure": "CASE WHEN impure + :impure > 0 THEN 1 ELSE 0 END",
}
"""What a charge or a share adds to the sums of an account."""
WIDENED = {
    "allowance": "allowance + :amount",
    "pure_limit": "CASE WHEN :impure = 1 THEN pure_limit ELSE pure_limit + :pure END",
    "failing_limit": "failing_limit + :failing",
}
"""What a share adds to the limits of a child; what it has no limit for stays so."""


def say_parts(
    *,
    ranges: str = "''",
    whole: str = "0",
    closed: str = "closed",
    base: tuple[str, ...] = ("base", "base_pure", "base_failing", "base_impure"),
) -> str:
    """Return the SQL of what events of an account with parts say more, behind its sums.

    Which parts an event is about, up to which one all are closed, and what all of them have.
    """
    bases = " || ',' || ".join(base)
    return f"';' || {ranges} || ';' || {whole} || ';' || {closed} || ';' || {bases}"


# The account at the end of the way from a share to what gave it, and from there to what has taken
# it over: charges of all of them add up for one person, so that all of them read its column alike.
UP = (
    "WITH RECURSIVE up (name, next) AS (SELECT a.name, coalesce(a.parent, nullif(a.successor, ''))"
    " FROM ~account AS a WHERE a.name = :account"
    " UNION SELECT a.name, coalesce(a.parent, nullif(a.successor, ''))"
    " FROM ~account AS a JOIN up ON a.name = up.next)"
)
# In a damaged file the way may have no end; then nothing is kept there.
READING = (
    f"coalesce(({UP} SELECT top.reading FROM ~account AS top JOIN up ON top.name = up.name"
    " WHERE up.next IS NULL), '')"
)
# A share has a copy from its own first charge on, which saves the way up.
_UNREAD_UP = UP.replace(":account UNION", ":account AND :reading NOT IN ('', a.reading) UNION")
READ_ALIKE = f" AND (:reading IN ('', reading) OR {READING} IN ('', :reading))"
# The first one that is said stays. Of two that come at once under one account on a server the
# second finds that of the first here, breaks the rule of the column, and then nothing of it has
# happened.
KEEP_READING = (
    "UPDATE ~account SET reading = CASE WHEN reading = '' THEN :reading END"
    f" WHERE reading <> :reading AND name IN ({_UNREAD_UP} SELECT up.name FROM up)"
)

# Slot and sum must be as the caller knows them: a copy of its process may have drawn, too.
DRAW_FROM_CHARGE = (
    "UPDATE ~charge SET state = 'drawn', draws = draws + 1, drawn = drawn + :amount,"
    " pure_drawn = pure_drawn + :pure, failing_drawn = failing_drawn + :failing"
    " WHERE id = :charge AND account = :account"
    " AND lock = ~chain(:key) AND state IN ('reserved', 'drawn')"
    " AND draws = :slot AND drawn = :before"
    " AND :amount >= 0 AND drawn <= reserved - :amount"
    " AND :pure >= 0 AND pure_drawn <= pure_reserved - :pure"
    " AND :failing >= 0 AND failing_drawn <= failing_reserved - :failing"
)
_WAS = "(SELECT c.{} FROM ~charge AS c WHERE c.id = :charge)"
RETURNED = "(:reserved - :amount)"
PURE_RETURNED = f"({_WAS.format('pure_reserved')} - :pure)"
FAILING_RETURNED = f"({_WAS.format('failing_reserved')} - :failing)"
"""What a charge that is closed gives back of each sum."""


def close_charge(state: str, *, charging: bool) -> str:
    """Return the statement that closes a charge, if it is exactly as the caller knows it.

    The number of draws is part of the condition: a copy of the process that drew more must not lose
    its draws to a refund here. Less than what was drawn comes back on a pure meter only, and into
    the pure sum of the meter "renyi"; the deltas that were drawn never do.
    """
    return (
        f"UPDATE ~charge SET state = '{state}', settled = :amount, pure_settled = :pure"
        " WHERE id = :charge AND account = :account"
        f"{' AND lock = ~chain(:key)' if charging else ''} AND state IN ('reserved', 'drawn')"
        " AND reserved = :reserved AND drawn = :drawn AND draws = :draws"
        " AND :amount >= 0 AND :amount <= drawn"
        " AND :pure >= 0 AND :pure <= pure_drawn AND :failing = failing_drawn"
        " AND (:amount = drawn"
        " OR EXISTS (SELECT 1 FROM ~account WHERE name = :account AND meter = 'pure'))"
    )


FACT_COLUMNS = "meter, epsilon, delta, adjacency, unit, source, alpha, failures"
FIRST_COLUMNS = "allowance, spent, pure_limit, failing_limit, number, head"
_SHARE = "(:pure) || ',' || (:failing) || ',' || (:impure)"
FIRST_PURE_LIMIT = "CASE WHEN :impure = 1 THEN -1 ELSE :pure END"


def first_event_hash(
    meter: str,
    *,
    amount: str = ":amount",
    amounts: str = _SHARE,
    pure_limit: str = FIRST_PURE_LIMIT,
    parts: str = "''",
    closed: str = "closed",
) -> str:
    """Return the hash of a first event.

    No head before it, its number and kind, and nothing spent.
    """
    failing = amounts.split(" || ',' || ")[1]
    sums = f"{amounts} || ',0,' || ({pure_limit}) || ',0,' || {failing}"
    parted = say_parts(closed=closed, base=("0", "0", "0", "0"))
    return (
        f"~chain('' || ' ' || 1 || ' create  ' || ({amount}) || ' 0 ' || ({amount}) || ' ' ||"
        f" CASE WHEN {parts} <> '' THEN '' || {sums} || ',0' || {parted} || ' '"
        f" WHEN {meter} = 'renyi' THEN '' || {sums} || ',0 ' ELSE '' END || :body)"
    )
