"""The history of an account: its events and their chain of hashes; `replay` checks both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, final

from sordino.errors import LedgerError
from sordino.ledger.amounts import Budget, Meter, amount_of
from sordino.ledger.parts import OPEN, cut_of
from sordino.ledger.played_parts import Touched
from sordino.ledger.renyi import RHO_ORDER, Limits, Sums


class Account(NamedTuple):
    """One row of `account`: its facts never change, only limits and sums, number and head do.

    `reading` is said once, by whoever makes the account or by its first charge, and stays.

    From `alpha` on for an account that keeps deltas. One of rhos that does so is kept as one of the
    meter "renyi" with the order `RHO_ORDER`: its events have the same sums.
    """

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
    alpha: str = ""
    failures: str = "0"
    pure_spent: int = 0
    pure_limit: int = 0
    failing_spent: int = 0
    failing_limit: int = 0
    impure: int = 0
    successor: str = ""
    reading: str = ""
    """How the column of the unit is read; of an account and its shares there is one. Empty: nobody
    said."""
    parts: str = ""
    """Which component of the unit its parts are (`parts.find_key`); empty: it has none. With parts
    its sums are those of `base` and of the fullest part, each sum by itself."""
    base: int = 0
    base_pure: int = 0
    base_failing: int = 0
    base_impure: int = 0
    closed: int = OPEN

    @property
    def cut(self) -> str:
        """To what the times are cut that are its parts; empty where it has none."""
        return cut_of(self.parts) if self.parts else ""

    @property
    def base_sums(self) -> Sums:
        """What all parts have."""
        return Sums(self.base, self.base_pure, self.base_failing, self.base_impure)

    def at(self, sums: Sums) -> Account:
        """Return the account as one part has it."""
        return self._replace(
            spent=sums.main,
            pure_spent=sums.pure,
            failing_spent=sums.failing,
            impure=sums.impure,
        )

    @property
    def limits(self) -> Limits:
        """What may be spent."""
        if self.meter != "renyi":
            return Limits(self.allowance, 0, 0, either=False)
        either = self.parent is None and not self.adds_rhos
        return Limits(self.allowance, self.pure_limit, self.failing_limit, either=either)

    @property
    def sums(self) -> Sums:
        """What was spent."""
        return Sums(self.spent, self.pure_spent, self.failing_spent, self.impure)

    @property
    def adds_rhos(self) -> bool:
        """Whether it keeps deltas beside a sum of rhos."""
        return self.meter == "renyi" and self.alpha == str(RHO_ORDER)

    @property
    def meter_name(self) -> str:
        """The meter as its budget has it."""
        return "zcdp" if self.adds_rhos else self.meter

    @property
    def meter_at_order(self) -> Meter:
        """How its charges add up."""
        return Meter(self.meter_name, Fraction(self.alpha) if self.meter == "renyi" else None)

    @property
    def facts(self) -> dict[str, str | None]:
        """What never changes."""
        names = (*FACTS, *_RENYI_FACTS) if self.meter == "renyi" else FACTS
        names = (*names, "parts") if self.parts else names
        return {name: getattr(self, name) for name in names}


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
    sums: str = ""


class ChargeRow(NamedTuple):
    """One row of `charge` with the body of its first event and how many releases are kept of it."""

    id: str
    digest: str
    state: str
    reserved: int
    drawn: int
    draws: int
    settled: int | None
    body: str
    pure_reserved: int
    pure_drawn: int
    pure_settled: int
    failing_reserved: int
    failing_drawn: int
    impure: int
    kept: int

    @property
    def asked(self) -> Sums:
        """What was reserved."""
        return Sums(self.reserved, self.pure_reserved, self.failing_reserved, self.impure)


def chained(covered: str) -> str:
    """Return the hash of an event; the databases compute the same one (`chain`)."""
    # Of UTF-8, as PostgreSQL does it (`convert_to`); SQLite calls this function.
    return hashlib.sha256(covered.encode()).hexdigest()


def linked(before: str, row: Row) -> str:
    """Return the hash that an event must have after the hash `before`."""
    # Only the body may hold spaces, and it comes last: where a field ends is never in doubt. It
    # begins with a brace, and the sums with a digit.
    rest = f"{row.sums} {row.body}" if row.sums else row.body
    return chained(
        f"{before} {row.number} {row.kind} {row.charge} {row.amount} {row.spent} {row.allowance} "
        f"{rest}"
    )


def digest_of(facts: Mapping[str, Any], account: Account) -> str:
    """Return the hash that binds the id of a charge to what it is for.

    It covers label, mechanisms, costs and detail, and the facts of the account.
    """
    # With the facts of the account: the same release for other people is another one.
    covered = {name: facts[name] for name in ("label", "detail", "charges")}
    about = {
        name: getattr(account, name) for name in ("name", "meter", "adjacency", "unit", "source")
    }
    # What an older version charged says nothing of it.
    if facts.get("reading"):
        covered["reading"] = facts["reading"]
    if account.parts:
        about["parts"] = account.parts
        covered["parts"] = facts["parts"]
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
        "create", "reserve", "draw", "settle", "void", "keep" (the ledger has kept a release),
        "grant" (a share given to a child account), "receive" (one that was received), "convert"
        (another account has taken this one over), "resource" (its table is called by a name from
        here on), "close" (its parts up to one take nothing more) or "part" (it has parts from here
        on).
    charge : str or None
        Id of the charge that it is about.
    amount : Fraction
        What was reserved, drawn, finally spent, or granted.
    spent, limit : Fraction
        Of the account, after the event.
    time : str
        For a human reader; nothing depends on it.
    head : str
        Hash over this event and the hash of the one before, 64 hexadecimal digits. Whoever has
        noted a head can tell later whether anything up to it was changed (`Ledger.verify`).
    detail : dict
        What was recorded with it; public.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders",
    ...                           budget=sd.Budget(epsilon=1.0), adjacency="add-remove",
    ...                           unit="customer_id", source="name:orders")
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
        Hash of the last event. Keep it somewhere else: `Ledger.verify(head=...)` then shows that
        nothing before it was rewritten.
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
                f"The history of account {self.account!r} does not hold ({len(self.problems)} "
                f"problems): {self.problems[0]} Do not charge it; compare it with a backup or an "
                "export."
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


def budget_of(account: Account) -> Budget:
    """Return the budget of an account at the top, from its facts; or raise `InvalidParameter`."""
    return Budget(
        epsilon=Fraction(account.epsilon),
        delta=Fraction(account.delta),
        meter=account.meter_name,  # type: ignore[arg-type]
        failures=Fraction(account.failures),
        order=Fraction(account.alpha) if account.alpha and not account.adds_rhos else None,
    )


def facts_of(budget: Budget) -> dict[str, str]:
    """Return the facts by which an account keeps its budget; `budget_of` reads them."""
    # Rhos beside deltas have the columns, the events and the conditions that divergences have.
    beside = budget.meter == "zcdp" and budget.failures
    order = RHO_ORDER if beside else budget.order
    return {
        "meter": "renyi" if beside else str(budget.meter),
        "epsilon": str(budget.epsilon),
        "delta": str(budget.delta),
        "alpha": "" if order is None else str(order),
        "failures": str(budget.failures),
    }


def amounts_of_row(row: Row) -> Sums:
    """Return what an event is about."""
    pure, failing, impure = map(int, _numbers_of(row)[:3]) if row.sums else (0, 0, 0)
    return Sums(row.amount, pure, failing, impure)


def _numbers_of(row: Row) -> list[str]:
    # Behind them an account with parts says what these have.
    return row.sums.partition(";")[0].split(",")


def write_touched(touched: Touched, closed: int) -> dict[str, Any]:
    """Return what the body of a reservation says of its parts, which its digest covers."""
    ranges = [[one.low, one.high] for one in touched.ranges]
    return {"ranges": ranges, "whole": touched.whole, "closed": closed}


def read_stated(row: Row, like: Limits) -> tuple[Sums, Limits]:
    """Return sums and limits as an event states them."""
    if not row.sums:
        return Sums(row.spent), like._replace(main=row.allowance)
    *_, pure, pure_limit, failing, failing_limit, impure = map(int, _numbers_of(row))
    limits = like._replace(main=row.allowance, pure=pure_limit, failing=failing_limit)
    return Sums(row.spent, pure, failing, impure), limits


FACTS = ("name", "parent", "meter", "epsilon", "delta", "adjacency", "unit", "source")
_RENYI_FACTS = ("alpha", "failures")
"""What the meter "renyi" adds."""
