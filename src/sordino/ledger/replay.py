"""The replay of the history of an account: plays its events, and notes what cannot be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

from sordino.address import covers_tables
from sordino.ledger.history import (
    Account,
    Row,
    Verification,
    amounts_of_row,
    budget_of,
    digest_of,
    json_of,
    linked,
    read_stated,
    write_touched,
)
from sordino.ledger.parts import MOST_PARTS, OPEN, find_key
from sordino.ledger.played_parts import NOWHERE, PartSums, Touched, read_told
from sordino.ledger.renyi import NO_LIMITS, NOTHING, Amounts, Limits, Sums


@dataclass
class _ReplayedCharge:
    number: int
    digest: str
    reserved: Sums
    drawn: Sums = NOTHING
    described: Amounts | None = field(default_factory=Amounts)
    """What its draws are described as; None if one of them is not."""
    draws: int = 0
    state: str = "reserved"
    settled: Sums | None = None
    kept: int = 0
    touched: Touched = NOWHERE
    closed: int = OPEN

    def adds_up(self, one: Amounts | None) -> bool:
        """Take on how a draw is described.

        Tell whether all draws are together what they are described as.
        """
        if self.described is None or one is None:
            self.described = None
            return True
        self.described += one
        # Of what was reserved without an epsilon no part has one.
        described = self.described.without_pure() if self.reserved.impure else self.described
        return described.rounded_up()[:3] == self.drawn[:3]

    @property
    def parts(self) -> dict[str, Any]:
        """What the body of its event says of its parts."""
        return write_touched(self.touched, self.closed)

    def row(self) -> tuple[int | str | None, ...]:
        """Return what the row of the charge must say, in the order of `schema.STATES`."""
        now = (
            self.number,
            self.digest,
            self.state,
            self.reserved.main,
            self.drawn.main,
            self.draws,
        )
        closed, pure = (None, 0) if self.settled is None else (self.settled.main, self.settled.pure)
        more = (
            self.reserved.pure,
            self.drawn.pure,
            pure,
            self.reserved.failing,
            self.drawn.failing,
        )
        return *now, closed, *more, self.reserved.impure, int(self.touched.whole), self.closed


@final
@dataclass
class Replay:
    """Plays the events of one account, one after the other, and notes what cannot be."""

    account: Account
    noted: str | None = None
    head: str = ""
    number: int = 0
    spent: Sums = NOTHING
    limits: Limits = NO_LIMITS
    charges: dict[str, _ReplayedCharge] = field(default_factory=dict)
    granted: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    kept: dict[tuple[str, int], str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    met: bool = False
    successor: str = ""
    readings: set[str] = field(default_factory=set)
    source: str = ""
    parted: PartSums = field(default_factory=PartSums)
    began: int = OPEN
    """Up to which part all were closed when it began."""
    has_parts: bool = False
    """Whether it had parts at its last event: some accounts were given them later."""
    touched: Touched = NOWHERE
    """Which parts the last event has charged."""

    def play(self, row: Row) -> None:
        """Take the next event."""
        # Numbers have no gaps, so an event that was dropped would leave one.
        if row.number != self.number + 1:
            self._wrong(f"event {self.number + 1} is missing")
        # The hash covers the one before, so that a changed event would need new hashes to the end.
        if row.head != linked(self.head, row):
            self._wrong(f"event {row.number} does not have the hash of what it says")
        # From here on what the row says counts, so that one fault is reported once.
        self.number, self.head = row.number, row.head
        # Somebody has kept this head elsewhere. If it is met, nothing up to here was rewritten.
        self.met = self.met or row.head == self.noted
        try:
            body = json.loads(row.body)
            self.touched = NOWHERE
            possible = self._apply(row, body) and self._says_parts(row)
            stated = read_stated(row, self.account.limits)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            possible, stated = False, (Sums(row.spent), self.limits._replace(main=row.allowance))
        if not possible:
            self._wrong(
                f"event {row.number} ({row.kind}) is not possible after the events before it"
            )
        # Checked after every event, not at the end alone: what was too much may have come back
        # since.
        if min(self.spent) < 0 or not self._is_within():
            self._wrong(f"event {row.number} leaves more spent than the limit allows")
        if stated != (self.spent, self.limits):
            self._wrong(f"event {row.number} states another sum than its events have")
            self.spent, self.limits = stated

    def finish(
        self,
        account: Account,
        *,
        events: int,
        charges: Iterable[tuple[Any, ...]],
        children: Iterable[tuple[str, int, int, int]],
        given: tuple[int, int, int] | None,
        kept: Iterable[tuple[str, int, str]],
        changed: Iterable[tuple[str, int]],
        parts: Iterable[tuple[int, ...]],
        spans: Iterable[tuple[str, int, int]],
        inherited: int | None,
    ) -> Verification:
        """Compare what was played with the account as it is now.

        That is its row, how many events it has, its charges, its children and its parent, the
        releases that are kept, and which of these have another text than their hash says. Of an
        account with parts also their sums and the ranges of its charges, and up to which part all
        were closed when its parent has made it.
        """
        if (account.number, account.head) != (self.number, self.head):
            self._wrong("the account does not end with its last event")
        if events != self.number:
            self._wrong("there are events before the first or after the last one of the account")
        if (account.sums, account.limits, account.successor) != (
            self.spent,
            self.limits,
            self.successor,
        ):
            self._wrong("the account states another sum or limit than its events have")
        if self.source != account.source:
            self._wrong("the account is about another table than its events say")
        if self.readings - {account.reading}:
            self._wrong("a charge reads whose a row is otherwise than the account does")
        now = {key: tuple(rest) for key, *rest in charges}
        if now != {key: charged.row() for key, charged in self.charges.items()}:
            self._wrong("the charges of the account are not those of its events")
        self._compare_parts(account, parts, spans, inherited)
        # A child cannot raise its own limit: the parent's history says what was given.
        if given is not None and given != _share_of(self.limits):
            self._wrong("the limit of the account is not the share that its parent granted")
        if {name: tuple(share) for name, *share in children} != self.granted:
            self._wrong("the shares of its child accounts are not those that it granted")
        if {(key, part): digest for key, part, digest in kept} != self.kept:
            self._wrong("the releases that are kept are not those of its events")
        for key, part in changed:
            self._wrong(
                f"release {part + 1} that is kept of charge {key} is not the one that was kept"
            )
        if self.noted is not None and not self.met:
            self._wrong("no event has the head that was noted: what came before it was changed")
        return Verification(
            account=account.name, events=self.number, head=self.head, problems=tuple(self.problems)
        )

    def _compare_parts(
        self,
        account: Account,
        parts: Iterable[tuple[int, ...]],
        spans: Iterable[tuple[str, int, int]],
        inherited: int | None,
    ) -> None:
        if (account.base_sums, account.closed) != (self.parted.base, self.parted.closed):
            self._wrong("what all parts of the account have, or are closed up to, is not so")
        if {key: Sums(*sums) for key, *sums in parts} != self.parted.parts:
            self._wrong("the sums of the parts of the account are not those of its events")
        charged = [
            (key, one.low, one.high)
            for key, charge in self.charges.items()
            for one in charge.touched.ranges
        ]
        if sorted(map(tuple, spans)) != sorted(charged):
            self._wrong("the parts that charges are about are not those of its events")
        if self.has_parts != bool(account.parts):
            self._wrong("the account has other parts than its events say")
        if account.parts and self.began != (OPEN if inherited is None else inherited):
            self._wrong(
                "the account did not begin with the parts closed that its parent had closed"
            )

    def _is_within(self) -> bool:
        """Tell whether what the last event has charged is within the limits."""
        if self.has_parts:
            return self.parted.admits(self.limits, self.touched)
        return self.limits.admits(self.spent, Sums())

    def _says_parts(self, row: Row) -> bool:
        """Take on the sums of an account with parts.

        Tell whether an event says of them what it does to them.
        """
        if not self.has_parts:
            return ";" not in row.sums
        told, parted = read_told(row.sums), self.parted
        self.spent = parted.find_largest()
        return told == (self.touched, parted.closed, parted.base)

    def _charge_parts(self, row: Row, amounts: Sums) -> Touched:
        """Add what is charged to the sums, of parts or of the account; return which parts."""
        if not self.has_parts:
            self.spent = self.spent.plus(amounts)
            return NOWHERE
        touched = read_told(row.sums).touched
        many = sum(map(len, touched.ranges))
        fits = not many if touched.whole else 0 < many <= MOST_PARTS
        if not fits or any(one.low <= self.parted.closed for one in touched.ranges):
            raise ValueError
        self.parted.add(touched, amounts)
        self.touched = touched
        return touched

    def _wrong(self, what: str) -> None:
        self.problems.append(f"{what[0].upper()}{what[1:]}.")

    def _apply(self, row: Row, body: Mapping[str, Any]) -> bool:
        """Do what an event says; return whether it was possible."""
        # The first event makes the account, and no other one does. After it was taken over, what is
        # open ends, and nothing begins.
        amounts = amounts_of_row(row)
        if body.get("reading"):
            self.readings.add(body["reading"])
        misplaced = (row.kind == "create") != (row.number == 1)
        if misplaced or min(amounts) < 0 or (self.successor and row.kind in _BEGINNINGS):
            return False
        match row.kind:
            case "convert" | "resource" | "close" | "part":
                return self._goes_on(row.kind, body) and not any(amounts)
            case "create" | "receive":
                nothing = self.account.limits._replace(main=0, pure=0, failing=0)
                self.limits = _widened(nothing if row.kind == "create" else self.limits, amounts)
                return self._is_rightly_given(row, body)
            case "grant":
                touched = self._charge_parts(row, amounts)
                share = _share_of(_widened(NO_LIMITS, amounts))
                before = self.granted.get(body["child"], (0, 0, 0))
                # Of a sum without a limit there is no more in two shares than in one.
                self.granted[body["child"]] = (
                    before[0] + share[0],
                    -1 if share[1] < 0 else before[1] + share[1],
                    before[2] + share[2],
                )
                return touched.whole == self.has_parts
            case "reserve":
                touched = self._charge_parts(row, amounts)
                new = row.charge not in self.charges
                charged = _ReplayedCharge(
                    row.number,
                    body["digest"],
                    amounts,
                    touched=touched,
                    closed=self.parted.closed,
                )
                self.charges[row.charge] = charged
                new = new and (not self.has_parts or body["parts"] == charged.parts)
                described = _described(body.get("charges"), self.account)
                if described is not None and described.rounded_up() != amounts:
                    self._wrong(f"event {row.number} does not reserve what it describes")
                # Charges that are older than digests have none.
                return new and body["digest"] == (
                    "" if body.get("migrated") is True else digest_of(body, self._find_account())
                )
        # A charge that was never reserved raises here, and `play` notes it.
        return self._use(row, body, self.charges[row.charge])

    def _goes_on(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Take on that another account goes on for this one, or that its table has a name now.

        Or that parts are closed, or that it has parts from now on.
        """
        if kind == "part":
            new, self.has_parts = not self.has_parts, True
            # What was charged before is in all parts.
            self.parted.base = self.spent
            for charged in self.charges.values():
                charged.touched = Touched(whole=True)
            return new and body["parts"] == self._find_key()
        if kind == "close":
            before, self.parted.closed = self.parted.closed, body["until"]
            return self.has_parts and before < body["until"]
        if kind == "convert":
            self.successor = body["into"]
            return True
        was, self.source = self.source, body["source"]
        fits = not was.startswith("name:") or covers_tables(self.source, was)
        return body["was"] == was and fits and self.source.startswith("name:")

    def _is_rightly_given(self, row: Row, body: Mapping[str, Any]) -> bool:
        """Tell whether a limit is that of the budget, and the facts are those of the account."""
        account = self.account
        if row.kind == "receive":
            return account.parent is not None
        # A child has what its parent gave. If no budget can be made of these facts, `play` notes
        # that.
        rightly = account.parent is not None or self.limits == budget_of(account).limits
        # What it is about may be called otherwise since; `finish` compares that.
        self.source = body["source"]
        self.has_parts = ";" in row.sums
        if self.has_parts:
            self.began = self.parted.closed = read_told(row.sums).closed
            rightly = rightly and self._find_key() == account.parts
        known = self._find_account().facts
        return rightly and {name: body[name] for name in known} == known

    def _find_account(self) -> Account:
        """Return the account as it was at its last event, for what it is about."""
        parts = self.account.parts if self.has_parts else ""
        return self.account._replace(source=self.source, parts=parts)

    def _find_key(self) -> str:
        """Return what it must keep of its parts."""
        return find_key(self.account.unit, self.account.adjacency, self.account.cut)

    def _use(self, row: Row, body: Mapping[str, Any], charged: _ReplayedCharge) -> bool:
        was_open, amounts = charged.state in {"reserved", "drawn"}, amounts_of_row(row)
        match row.kind:
            case "draw":
                charged.drawn, charged.draws, charged.state = (
                    charged.drawn.plus(amounts),
                    charged.draws + 1,
                    "drawn",
                )
                fits = all(map(int.__le__, charged.drawn, charged.reserved))
                if not charged.adds_up(_described(body.get("draws"), self.account)):
                    self._wrong(f"event {row.number} does not draw what it describes")
                return was_open and fits and body["slot"] == charged.draws - 1
            case "keep":
                # Only what was settled has a release, and its parts come one after the other.
                part, charged.kept = charged.kept, charged.kept + 1
                self.kept[row.charge, part] = body["digest"]
                return charged.state == "settled" and not any(amounts) and body["part"] == part
            case "settle" | "void":
                charged.settled, charged.state = (
                    amounts,
                    "settled" if row.kind == "settle" else "void",
                )
                # The rest of the reservation returns; of what was drawn, a part does on a pure
                # meter, and of the pure sum on the meter "renyi". That a part had no pure epsilon
                # is never forgotten.
                returned = Sums(
                    charged.reserved.main - amounts.main,
                    charged.reserved.pure - amounts.pure,
                    charged.reserved.failing - amounts.failing,
                )
                if self.has_parts:
                    was_open &= self.parted.add(charged.touched, returned, returns=True)
                else:
                    self.spent = Sums(
                        self.spent.main - returned.main,
                        self.spent.pure - returned.pure,
                        self.spent.failing - returned.failing,
                        self.spent.impure,
                    )
                less = amounts.main < charged.drawn.main and self.account.meter == "pure"
                return (
                    was_open
                    and (amounts.main == charged.drawn.main or less)
                    and amounts.pure <= charged.drawn.pure
                    and amounts.failing == charged.drawn.failing
                )
        return False


def _described(things: Any, account: Account) -> Amounts | None:
    """Return what mechanisms and costs are described as, all together; None if that is not said.

    It is not for what was spent before a ledger was migrated or an account converted.
    """
    meter = account.meter_at_order
    total = Amounts()
    for thing in things or ():
        if meter.measure not in thing:
            return None
        main = _exact_amount(thing[meter.measure])
        if meter.order is None:
            total += Amounts(main)
        else:
            pure = None if thing["epsilon"] is None else _exact_amount(thing["epsilon"])
            total += Amounts(main, pure, _exact_amount(thing["delta"]))
    return total if things else None


def _exact_amount(written: str) -> Fraction:
    # What a reader makes of a text must not depend on who wrote it: "1e999999999" is a number, too.
    if not _AMOUNT.fullmatch(written):
        raise ValueError
    return Fraction(written)


def find_inherited(rows: Iterable[tuple[int, str, str]], child: str) -> int | None:
    """Return up to which part all were closed in a parent when it made a child."""
    for _, body, sums in rows:
        if json_of(body).get("child") == child:
            # Later ones have not made it; and one that was made without parts began with none.
            return read_told(sums).closed if ";" in sums else None
    return None


def _widened(limits: Limits, share: Sums) -> Limits:
    """Return limits with a share more.

    One without a part of the pure sum leaves none of its own there.
    """
    pure = -1 if share.impure else limits.pure + share.pure
    return limits._replace(
        main=limits.main + share.main, pure=pure, failing=limits.failing + share.failing
    )


def _share_of(limits: Limits) -> tuple[int, int, int]:
    return limits.main, limits.pure, limits.failing


def add_shares(rows: Iterable[tuple[int, str, str]], child: str) -> tuple[int, int, int]:
    """Return what the grants of a parent (amount, body, sums) have given to a child."""
    total = NO_LIMITS
    for amount, body, sums in rows:
        if json_of(body).get("child") == child:
            total = _widened(total, amounts_of_row(Row(0, "", "", amount, 0, 0, "", body, sums)))
    return _share_of(total)


_AMOUNT = re.compile(r"[0-9]{1,4000}(/0*[1-9][0-9]{0,4000})?", re.ASCII)
_BEGINNINGS = frozenset(("receive", "grant", "reserve", "convert", "resource", "part"))
"""Events that an account that was taken over has no more."""
