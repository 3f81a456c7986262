"""The history of an account: its events, their chain of hashes, and the replay that checks both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, final

from sordino.errors import LedgerError
from sordino.ledger.amounts import Budget, amount_of


class Account(NamedTuple):
    """One row of `account`: its facts never change, only the last four do."""

    name: str
    parent: str | None
    meter: str
    epsilon: str
    delta: str
    adjacency: str
    unit: str
    source: str
    allowance: int
    spent: int
    number: int
    head: str


class Row(NamedTuple):
    """One row of `event`; what the fields mean is in `Event`."""

    number: int
    kind: str
    charge: str
    amount: int
    spent: int
    allowance: int
    head: str
    body: str


class ChargeRow(NamedTuple):
    """One row of `charge` with the body of its first event."""

    id: str
    digest: str
    state: str
    reserved: int
    drawn: int
    draws: int
    settled: int | None
    body: str


def chained(covered: str) -> str:
    """Return the hash of an event; the databases compute the same one (`chain`)."""
    # Of UTF-8, as PostgreSQL does it (`convert_to`); SQLite calls this function.
    return hashlib.sha256(covered.encode()).hexdigest()


def linked(before: str, row: Row) -> str:
    """Return the hash that an event must have after the hash `before`."""
    # Only the body may hold spaces, and it comes last: where a field ends is never in doubt.
    return chained(
        f"{before} {row.number} {row.kind} {row.charge} {row.amount} {row.spent} {row.allowance} {row.body}"
    )


def digest_of(facts: Mapping[str, Any], account: Account) -> str:
    """Return the hash that binds the id of a charge to what it is for.

    It covers label, mechanisms, costs and detail, and the facts of the account.
    """
    # With the facts of the account: the same release for other people is another one.
    covered = {name: facts[name] for name in ("label", "detail", "charges")}
    about = {name: getattr(account, name) for name in ("name", "meter", "adjacency", "unit", "source")}
    return chained(json.dumps({**covered, "account": about}, allow_nan=False, sort_keys=True))


@final
@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened to an account; it is never changed and never removed.

    Attributes
    ----------
    number : int
        1 for the first event of the account.
    kind : str
        "create", "reserve", "draw", "settle", "void", "grant" (a share given to a child account) or "receive"
        (one that was received).
    charge : str or None
        Id of the charge that it is about.
    amount : Fraction
        What was reserved, drawn, finally spent, or granted.
    spent, limit : Fraction
        Of the account, after the event.
    time : str
        For a human reader; nothing depends on it.
    head : str
        Hash over this event and the hash of the one before, 64 hexadecimal digits. Whoever has noted a head
        can tell later whether anything up to it was changed (`Ledger.verify`).
    detail : dict
        What was recorded with it; public.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders", budget=sd.Budget(epsilon=1.0),
    ...                           adjacency="add-remove", unit="customer_id", source="name:orders")
    >>> charge = ledger.reserve(sd.cost.Pure(epsilon=0.25), label="top products")
    >>> [(event.number, event.kind, float(event.spent)) for event in ledger.history()]
    [(1, 'create', 0.0), (2, 'reserve', 0.25)]
    >>> folder.cleanup()
    """

    number: int
    kind: str
    charge: str | None
    amount: Fraction
    spent: Fraction
    limit: Fraction
    time: str
    head: str
    detail: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON-ready values; amounts as floats, and exactly under "exact"."""
        amounts = {"amount": self.amount, "spent": self.spent, "limit": self.limit}
        return {
            "number": self.number,
            "kind": self.kind,
            "charge": self.charge,
            **{name: float(amount) for name, amount in amounts.items()},
            "time": self.time,
            "detail": self.detail,
            "head": self.head,
            "exact": {name: str(amount) for name, amount in amounts.items()},
        }


def json_of(body: str) -> dict[str, Any]:
    """Return what was recorded; what cannot be read is left to `verify` to report."""
    # Others may have written the file. To show an account must not fail because of one event.
    try:
        read = json.loads(body)
    except (ValueError, TypeError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def event_of(row: Row) -> Event:
    """Return what a row says."""
    body = json_of(row.body)
    return Event(
        number=row.number,
        kind=row.kind,
        # The databases keep an empty text where an event is about no charge.
        charge=row.charge or None,
        amount=amount_of(row.amount),
        spent=amount_of(row.spent),
        limit=amount_of(row.allowance),
        # What has a place of its own is taken out; the rest is the detail.
        time=body.pop("time", ""),
        head=row.head,
        detail=body,
    )


@final
@dataclass(frozen=True, kw_only=True)
class Verification:
    """What replaying the history of an account found.

    Attributes
    ----------
    account : str
        Its name.
    events : int
        How many events were replayed.
    head : str
        Hash of the last event. Keep it somewhere else: `Ledger.verify(head=...)` then shows that nothing
        before it was rewritten.
    problems : tuple of str
        One sentence each; empty if everything agrees.

    Examples
    --------
    >>> from sordino.ledger import Verification
    >>> Verification(account="orders", events=3, head="9f", problems=()).sound
    True
    """

    account: str
    events: int
    head: str
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether chain, sums and limits all agree."""
        return not self.problems

    def raise_if_broken(self) -> None:
        """Raise `LedgerError` with the first problem unless everything agrees."""
        if self.problems:
            raise LedgerError(
                f"The history of account {self.account!r} does not hold ({len(self.problems)} problems): "
                f"{self.problems[0]} Do not charge it; compare it with a backup or an export."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as JSON-ready values."""
        return {
            "account": self.account,
            "sound": self.sound,
            "events": self.events,
            "head": self.head,
            "problems": list(self.problems),
        }


@dataclass
class _ReplayedCharge:
    number: int
    reserved: int
    digest: str
    drawn: int = 0
    draws: int = 0
    state: str = "reserved"
    settled: int | None = None

    def row(self) -> tuple[int, str, str, int, int, int, int | None]:
        return self.number, self.digest, self.state, self.reserved, self.drawn, self.draws, self.settled


@final
@dataclass
class Replay:
    """Plays the events of one account, one after the other, and notes what cannot be."""

    account: Account
    noted: str | None = None
    head: str = ""
    number: int = 0
    spent: int = 0
    allowance: int = 0
    charges: dict[str, _ReplayedCharge] = field(default_factory=dict)
    granted: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    met: bool = False

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
            possible = self._apply(row, body)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            possible = False
        if not possible:
            self._wrong(f"event {row.number} ({row.kind}) is not possible after the events before it")
        # Checked after every event, not at the end alone: what was too much may have come back since.
        if not 0 <= self.spent <= self.allowance:
            self._wrong(f"event {row.number} leaves more spent than the limit allows")
        if (row.spent, row.allowance) != (self.spent, self.allowance):
            self._wrong(f"event {row.number} states another sum than its events have")
            self.spent, self.allowance = row.spent, row.allowance

    def finish(
        self,
        account: Account,
        *,
        events: int,
        charges: Iterable[tuple[Any, ...]],
        children: Iterable[tuple[str, int]],
        given: int | None,
    ) -> Verification:
        """Compare what was played with the account as it is now.

        That is its row, how many events it has, its charges, its children and its parent.
        """
        if (account.number, account.head) != (self.number, self.head):
            self._wrong("the account does not end with its last event")
        if events != self.number:
            self._wrong("there are events before the first or after the last one of the account")
        if (account.spent, account.allowance) != (self.spent, self.allowance):
            self._wrong("the account states another sum or limit than its events have")
        now = {key: tuple(rest) for key, *rest in charges}
        if now != {key: charged.row() for key, charged in self.charges.items()}:
            self._wrong("the charges of the account are not those of its events")
        # A child cannot raise its own limit: the parent's history says what was given.
        if given is not None and given != self.allowance:
            self._wrong("the limit of the account is not the share that its parent granted")
        if dict(children) != self.granted:
            self._wrong("the shares of its child accounts are not those that it granted")
        if self.noted is not None and not self.met:
            self._wrong("no event has the head that was noted: what came before it was changed")
        return Verification(
            account=account.name, events=self.number, head=self.head, problems=tuple(self.problems)
        )

    def _wrong(self, what: str) -> None:
        self.problems.append(f"{what[0].upper()}{what[1:]}.")

    def _apply(self, row: Row, body: Mapping[str, Any]) -> bool:
        """Do what an event says; return whether it was possible."""
        # The first event makes the account, and no other one does.
        if (row.kind == "create") != (row.number == 1) or row.amount < 0:
            return False
        match row.kind:
            case "create":
                self.allowance = row.amount
                facts = {name: getattr(self.account, name) for name in FACTS}
                return {name: body[name] for name in FACTS} == facts and self._is_the_limit(row.amount)
            case "receive":
                self.allowance += row.amount
                return self.account.parent is not None
            case "grant":
                self.spent += row.amount
                self.granted[body["child"]] = self.granted.get(body["child"], 0) + row.amount
                return True
            case "reserve":
                self.spent += row.amount
                new = row.charge not in self.charges
                self.charges[row.charge] = _ReplayedCharge(row.number, row.amount, body["digest"])
                # Charges that are older than digests have none.
                return new and body["digest"] == (
                    "" if body.get("migrated") is True else digest_of(body, self.account)
                )
        # A charge that was never reserved raises here, and `play` notes it.
        return self._use(row, body, self.charges[row.charge])

    def _is_the_limit(self, amount: int) -> bool:
        """Tell whether a first limit is that of the budget; a child has what its parent gave."""
        account = self.account
        if account.parent is not None:
            return True
        # If no budget can be made of these facts, `play` notes that.
        budget = Budget(
            epsilon=Fraction(account.epsilon),
            delta=Fraction(account.delta),
            meter=account.meter,  # type: ignore[arg-type]
        )
        return amount_of(amount) == budget.limit

    def _use(self, row: Row, body: Mapping[str, Any], charged: _ReplayedCharge) -> bool:
        was_open = charged.state in {"reserved", "drawn"}
        match row.kind:
            case "draw":
                charged.drawn, charged.draws, charged.state = (
                    charged.drawn + row.amount,
                    charged.draws + 1,
                    "drawn",
                )
                return was_open and charged.drawn <= charged.reserved and body["slot"] == charged.draws - 1
            case "settle" | "void":
                charged.settled, charged.state = row.amount, "settled" if row.kind == "settle" else "void"
                # The rest of the reservation returns; of what was drawn, a part does on a pure meter only.
                self.spent -= charged.reserved - row.amount
                return was_open and (
                    row.amount == charged.drawn
                    or (row.amount < charged.drawn and self.account.meter == "pure")
                )
        return False


FACTS = ("name", "parent", "meter", "epsilon", "delta", "adjacency", "unit", "source")
