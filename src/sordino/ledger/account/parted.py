"""What is left of the parts of an account, and how they are closed, or given to one without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.cost.conversion import stated
from sordino.errors import InvalidParameter, LedgerConflict
from sordino.ledger import schema
from sordino.ledger.account.pages import Pages, fullest_of, is_closed, names, part_sums
from sordino.ledger.account.records import body_of
from sordino.ledger.amounts import amount_of
from sordino.ledger.history import Account
from sordino.ledger.left import Left, find_left, write_spent
from sordino.ledger.parts import (
    OPEN,
    PartRange,
    check_closing,
    component_of,
    find_key,
    find_last,
    show_parts,
)
from sordino.ledger.played_parts import Touched
from sordino.ledger.renyi import Sums
from sordino.ledger.schema_parts import ADD_PARTS, CLOSE_PARTS
from sordino.ledger.store.store import Rows, Store, carry_out

_ROUNDS = 100
WHOLE = Touched(whole=True)


@final
@dataclass(frozen=True, kw_only=True)
class PartStatement:
    """The parts of an account at one moment.

    Amounts are in epsilon, in rho, or in divergence at the order of the account. All of it is
    public, also which parts have a sum of their own: those that were charged.

    Attributes
    ----------
    component : str
        The component of the unit that is the part of a row.
    cut : str
        "hour", "day", "month" or "year".
    closed : str or None
        The last part that takes nothing more; None if none is closed.
    charged : int
        How many parts have a sum of their own.
    base : Fraction
        What all parts have, future ones too: releases of the whole table, and shares.
    fullest : str or None
        The part above the closed ones that has least left; None where none has a sum of its own.
    fullest_left, untouched, whole : Left
        What is left of that part, of one that nothing was charged to by itself, such as one of the
        future, and of the whole table. `more` counts charges like the last one.
    largest : tuple of Fraction
        The largest sums of single parts beyond the base, at most 30 of them.
    total : Fraction
        What all parts together have beyond the base.

    Examples
    --------
    >>> from sordino.ledger import Ledger, PartRange
    >>> import sordino as sd, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> class Unit:
    ...     identity = 'columns "customer_id", day("ordered_at")'
    >>> ledger = Ledger.create(folder.name + "/budget.db", account="orders",
    ...                        budget=sd.Budget(epsilon=1.0), adjacency="add-remove", unit=Unit(),
    ...                        source="name:orders", parts="day")
    >>> first = ledger.reserve(sd.cost.Pure(epsilon=0.25), parts=PartRange(0, 1))
    >>> parts = ledger.statement().parts
    >>> parts.fullest, float(parts.fullest_left.share), parts.untouched.more
    ('1970-01-01', 0.75, 4)
    >>> float(parts.find_spent(2))
    0.5
    >>> folder.cleanup()
    """

    component: str
    cut: str
    closed: str | None
    charged: int
    base: Fraction
    fullest: str | None
    fullest_left: Left
    untouched: Left
    whole: Left
    largest: tuple[Fraction, ...]
    total: Fraction

    def find_spent(self, parts: int | None = None) -> Fraction:
        """Return the sum of the largest sums of so many parts, the base in each of them.

        For pure epsilons it is what somebody may have lost so far who has rows in that many parts;
        each part more adds the base at least. For other meters it is no guarantee.

        Parameters
        ----------
        parts : int, optional
            From 1 to 30; all that have a sum of their own if not given.
        """
        if parts is None:
            return self.charged * self.base + self.total
        if not 1 <= parts <= MOST_LARGEST:
            raise InvalidParameter(
                f"find_spent.parts must be from 1 to {MOST_LARGEST}; got {parts}."
            )
        return parts * self.base + sum(self.largest[:parts], Fraction(0))

    def say_spent(self) -> list[str]:
        """Return what is spent of a part, and what still fits, as sentences."""
        base = write_spent(self.untouched.spent)
        told = [f"Each {self.cut} has the whole budget for itself. All of them, future ones too, "]
        told[0] += f"have spent {base} of it."
        if self.fullest is not None:
            told[0] += f" The fullest, {self.fullest}, has spent {self.fullest_left.say_spent()}."
        if self.closed is not None:
            told.append(f"Closed, and takes nothing more: {self.closed} and all before.")
        if self.whole.more is not None:
            counts = [f"of a {self.cut} to come {self.untouched.more}"]
            if self.fullest is not None:
                counts.append(f"of {self.fullest} {self.fullest_left.more}")
            counts.append(f"of the whole table {self.whole.more}")
            told.append(f"More like the last one: {', '.join(counts)}.")
        return told

    def say_lost(self) -> str:
        """Return what somebody has lost so far at most, on an account of pure epsilons alone."""

        def say(amount: Fraction) -> str:
            return f"{stated(amount):.12g}"

        told = [f"{say(self.find_spent(many))} on {many} {self.cut}s" for many in (7, 30)]
        if self.charged > 1:
            told.append(f"{say(self.find_spent())} on all {self.charged} that were charged")
        more = f"; each {self.cut} more adds {say(self.base)}" if self.base else ""
        return f"So far somebody has lost at most epsilon {', '.join(told)}{more}."

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values; amounts as floats, and exactly under "exact"."""
        exactly = {"base": self.base, "total": self.total}
        left = {
            "fullest": self.fullest_left,
            "untouched": self.untouched,
            "whole": self.whole,
        }
        return {
            "component": self.component,
            "cut": self.cut,
            "closed": self.closed,
            "charged": self.charged,
            "fullest": self.fullest,
            **{name: float(amount) for name, amount in exactly.items()},
            "left": {
                name: {"share": float(one.share), "more": one.more} for name, one in left.items()
            },
            "exact": {name: str(amount) for name, amount in exactly.items()},
        }


MOST_LARGEST = 30
"""How many of the largest sums are told."""


def build_part_statement(account: Account, rows: Rows, asked: Sums) -> PartStatement | None:
    """Return what an account says of its parts; None where it has none."""
    if not account.parts:
        return None
    at_fullest, fullest = fullest_of(account, rows, WHOLE, asked)
    [(charged, total)] = rows(schema.PART_TOTAL, account=account.name)
    largest = rows(schema.LARGEST_PARTS, account=account.name, many=MOST_LARGEST)
    return PartStatement(
        component=component_of(account.parts),
        cut=account.cut,
        closed=None if account.closed == OPEN else _show(account.closed, account.cut),
        charged=charged,
        base=amount_of(account.base),
        fullest=None if fullest is None else _show(fullest, account.cut),
        fullest_left=find_left(account.limits, at_fullest.sums, asked),
        untouched=find_left(account.limits, account.base_sums, asked),
        whole=_find_left(account, rows, WHOLE, asked),
        largest=tuple(amount_of(spent) for (spent,) in largest),
        total=amount_of(int(total)),
    )


def find_left_of_parts(pages: Pages, touched: Touched, asked: Sums) -> Left:
    """Return what is left of parts: of the one that has least, and so many more as fit in all."""
    with pages.reading() as (account, rows):
        if is_closed(account, touched):
            return Left(spent=Fraction(1), needed=Fraction(0), more=0)
        return _find_left(account, rows, touched, asked)


def _find_left(account: Account, rows: Rows, touched: Touched, asked: Sums) -> Left:
    limits = account.limits
    if not limits.either:
        # Each sum has a limit that counts, so that the largest of each says what fits.
        if touched.whole:
            return find_left(limits, account.sums, asked)
        found = [sums for _, sums in part_sums(account, rows, touched)]
        return find_left(limits, Sums(*map(max, zip(*found, strict=True))), asked)
    each = [find_left(limits, sums, asked) for _, sums in part_sums(account, rows, touched)]
    counts = [one.more for one in each if one.more is not None]
    return Left(
        spent=max(one.spent for one in each),
        needed=max(one.needed for one in each),
        more=min(counts) if counts else None,
    )


def close_parts(store: Store, pages: Pages, until: int) -> dict[str, str]:
    """Close the parts of all accounts of a ledger up to one, children first."""
    own = pages.account()
    if not own.parts:
        raise InvalidParameter(
            f"close_parts is for an account with parts; account {own.name!r} has none. Nothing was "
            "closed."
        )
    last = check_closing(until, own.cut)
    for _ in range(_ROUNDS):
        with pages.reading() as (_, rows):
            found = [Account(*rows(schema.ACCOUNT, account=name)[0]) for name in names(rows)]
        parted = {one.name: one for one in found if one.parts}
        ends = {name: find_last(own.cut, one.cut, last) for name, one in parted.items()}
        left = [one for name, one in parted.items() if one.closed < ends[name]]
        if not left:
            return {name: _show(one.closed, one.cut) for name, one in parted.items()}
        # A share that somebody has made meanwhile comes in the next round: where it stands open its
        # parent is not closed.
        for one in sorted(left, key=lambda one: -_find_depth(one, parted)):
            parameters = {
                "account": one.name,
                "parts": one.parts,
                "until": ends[one.name],
                "body": body_of(until=ends[one.name]),
            }
            carry_out(store, CLOSE_PARTS, parameters, account=one.name)
    raise LedgerConflict(
        "Others changed the ledger at the same time, so that some accounts are not closed; close "
        "them again."
    )


def give_parts(store: Store, pages: Pages, cut: str) -> None:
    """Give an account parts that had none, and its shares before it."""
    own, then = pages.account(), "Nothing was changed."
    if own.parts or own.successor or own.parent is not None:
        why = (
            "has parts already"
            if own.parts
            else f"was converted into {own.successor!r}"
            if own.successor
            else f"is a share of {own.parent!r}, which is given parts with all its shares"
        )
        raise LedgerConflict(f"Account {own.name!r} {why}. {then}")
    key = find_key(own.unit, own.adjacency, cut)
    for _ in range(_ROUNDS):
        with pages.reading() as (_, rows):
            found = [Account(*rows(schema.ACCOUNT, account=name)[0]) for name in names(rows)]
        known = {one.name: one for one in found}
        family = [one for one in found if _lies_below(one, own.name, known)]
        left = [one for one in family if not one.parts]
        if not left:
            return
        # A share that somebody has made meanwhile comes in the next round.
        for one in sorted(left, key=lambda one: -_find_depth(one, known)):
            body = body_of(parts=key)
            parameters = {"account": one.name, "parts": key, "unit": own.unit, "body": body}
            carry_out(store, ADD_PARTS, parameters, account=one.name)
    raise LedgerConflict(
        "Others changed the ledger at the same time, so that some shares have parts and others "
        "none; do it again."
    )


def _lies_below(one: Account, name: str, accounts: dict[str, Account]) -> bool:
    """Tell whether an account is another one, or a share of it, or of its shares."""
    met: set[str] = set()
    while one.name != name:
        met.add(one.name)
        if one.parent is None or one.parent in met:
            return False
        one = accounts[one.parent]
    return True


def _find_depth(one: Account, accounts: dict[str, Account]) -> int:
    """Return how many accounts are above one."""
    met: set[str] = set()
    parent = one.parent
    # In a damaged file the way may have no end.
    while parent in accounts and parent not in met:
        met.add(parent)
        parent = accounts[parent].parent
    return len(met)


def _show(part: int, cut: str) -> str:
    return show_parts(PartRange(part, part), cut)


def read_charged(told: Any) -> tuple[PartRange, ...]:
    """Return the ranges that the body of a reservation says; none for the whole table."""
    # In a damaged file it may be anything.
    try:
        return tuple(PartRange(low, high) for low, high in told["ranges"])
    except (InvalidParameter, KeyError, TypeError, ValueError):
        return ()


def list_parts(told: Any, cut: str) -> Sequence[str]:
    """Return the texts of the parts that the body of a reservation says.

    None for the whole table.
    """
    # In a damaged file it may be anything.
    try:
        return [show_parts(PartRange(low, high), cut) for low, high in told["ranges"]]
    except (InvalidParameter, KeyError, TypeError, ValueError):
        return []
