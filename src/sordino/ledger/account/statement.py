"""What an account says of itself, as read-only values.

The `Statement` and one `ChargeLine` a charge.

It is exported for other programs as JSON Lines, which can be checked without sordino, and as events
of dp_accounting.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.cost import ZCDP, Pure
from sordino.errors import InvalidParameter
from sordino.ledger.account.parted import PartStatement, list_parts
from sordino.ledger.account.records import find_alone
from sordino.ledger.amounts import MEASURES, amount_of
from sordino.ledger.history import Account, ChargeRow, Row, json_of
from sordino.ledger.left import Examples, find_examples, find_left_of, find_share
from sordino.ledger.renyi import ATTO, Sums, spent_epsilon


@final
@dataclass(frozen=True, kw_only=True)
class ChargeLine:
    """One charge of an account.

    Amounts are in epsilon, in rho, or in divergence at the order of the account.

    Attributes
    ----------
    id : str
        128 random bits, as hexadecimal text.
    label : str
        What the caller called it.
    state : str
        "reserved", "drawn", "settled", or "void" (given up by `Ledger.void`). What is neither
        settled nor void counts in full.
    reserved, drawn : Fraction
        The worst case that was reserved and the part of it that mechanisms have drawn.
    settled : Fraction or None
        What was really spent; None if the charge was never closed.
    time : str
        When it was reserved, for a human reader.
    detail : dict
        Public parameters that the caller recorded.
    digest : str
        Hash over what the charge is for: mechanisms, costs, unit, source and detail.
    kept : int
        How many of its releases the ledger has kept (`Ledger.read_release`); 0 unless that was
        asked for.
    epsilon, delta : Fraction or None
        On the Rényi meter also what the charge takes from the pure sum (None if it has no pure
        epsilon) and from the deltas. On an account of rhos that keeps deltas what it takes from
        these. Else None.
    refines : Fraction
        By how much a charge that refined another release, in an earlier version, loses more by
        itself than it added to a sum of epsilons; else 0.
    share : Fraction
        What it takes of the budget of the account, as a share.
    parts : tuple of str or None
        On an account with parts those that it is about, none for the whole table; None without
        parts.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sordino.ledger import ChargeLine
    >>> half, tenth = Fraction(1, 2), Fraction(1, 10)
    >>> line = ChargeLine(id="9f", label="top", state="settled", reserved=half, drawn=half,
    ...                   settled=tenth, time="", detail={}, digest="")
    >>> line.charged
    Fraction(1, 10)
    """

    id: str
    label: str
    state: str
    reserved: Fraction
    drawn: Fraction
    settled: Fraction | None
    time: str
    detail: dict[str, Any]
    digest: str
    kept: int = 0
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    refines: Fraction = Fraction(0)
    share: Fraction = Fraction(0)
    parts: tuple[str, ...] | None = None

    @property
    def charged(self) -> Fraction:
        """What this charge takes from the account."""
        # A charge that nobody closed counts in full: its answer may have been seen.
        return self.reserved if self.settled is None else self.settled

    def say_give_up(self, account: str) -> str:
        """Return what to do about a charge that a killed run has left; empty after a draw."""
        if self.state != "reserved":
            return ""
        return (
            " Nothing was drawn from it: if that start was killed, and did not end by an error of "
            "the table, sordino ledger void-reservation --ledger URL --account "
            f"{shlex.quote(account)} --charge {self.id} --reason killed gives it back, and the "
            "same run id may be charged again."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the charge as JSON-ready values; amounts as floats, and exactly under "exact"."""
        amounts = {"reserved": self.reserved, "drawn": self.drawn, "settled": self.settled}
        more = {} if self.delta is None else {"epsilon": self.epsilon, "delta": self.delta}
        amounts |= more
        return {
            "id": self.id,
            "label": self.label,
            "state": self.state,
            "share": float(self.share),
            **{name: None if amount is None else float(amount) for name, amount in amounts.items()},
            "time": self.time,
            "detail": self.detail,
            "digest": self.digest,
            "kept": self.kept,
            **({} if self.parts is None else {"parts": list(self.parts)}),
            "exact": {
                name: None if amount is None else str(amount) for name, amount in amounts.items()
            },
        }


@final
@dataclass(frozen=True, kw_only=True)
class RenyiSums:
    """The sums of an account with the Rényi meter beside that of the divergences, at one moment.

    Attributes
    ----------
    order : Fraction
        At which divergences are added.
    epsilon_limit, epsilon_spent : Fraction or None
        Of the pure sum. The limit is None for a share of an account that has none; the sum is None
        once something without a pure epsilon was charged, and then it counts no more.
    failures_limit, failures_spent : Fraction
        Of the deltas of releases that may fail.
    spent_epsilon : float
        The epsilon that was spent so far at the delta of the account, rounded up; for a reader.
        Whoever stops by it has no guarantee: that is the limit of the account.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> budget = sd.Budget(epsilon=3.0, delta=1e-6)
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders", budget=budget,
    ...                           adjacency="add-remove", unit="customer_id", source="name:orders")
    >>> charge = ledger.reserve(sd.cost.Pure(epsilon=0.25), label="top products")
    >>> sums = ledger.statement().renyi
    >>> float(sums.order), sums.epsilon_spent, sums.spent_epsilon
    (8.92606, Fraction(1, 4), 0.25)
    >>> folder.cleanup()
    """

    order: Fraction
    epsilon_limit: Fraction | None
    epsilon_spent: Fraction | None
    failures_limit: Fraction
    failures_spent: Fraction
    spent_epsilon: float

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as JSON-ready values; as floats, and exactly under "exact"."""
        exactly = {
            "order": self.order,
            "epsilon_limit": self.epsilon_limit,
            "epsilon_spent": self.epsilon_spent,
            "failures_limit": self.failures_limit,
            "failures_spent": self.failures_spent,
        }
        return {
            **{name: None if number is None else float(number) for name, number in exactly.items()},
            "spent_epsilon": self.spent_epsilon,
            "exact": {
                name: None if number is None else str(number) for name, number in exactly.items()
            },
        }


@final
@dataclass(frozen=True, kw_only=True)
class FailureSums:
    """The deltas of an account of rhos that keeps a part of its delta for releases that may fail.

    Attributes
    ----------
    limit, spent : Fraction
        Of the deltas of such releases, in [0, 1). What was drawn never comes back.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> budget = sd.Budget(epsilon=3.0, delta=1e-6, meter="zcdp", failures=5e-7)
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders", budget=budget,
    ...                           adjacency="add-remove", unit="customer_id", source="name:orders")
    >>> charge = ledger.reserve(sd.cost.ApproximateZCDP(rho=0.01, delta=1e-7), label="top products")
    >>> statement = ledger.statement()
    >>> float(statement.spent), float(statement.failures.spent), statement.more
    (0.01, 1e-07, 4)
    >>> folder.cleanup()
    """

    limit: Fraction
    spent: Fraction

    def to_dict(self) -> dict[str, Any]:
        """Return both as JSON-ready values; as floats, and exactly under "exact"."""
        exactly = {"limit": self.limit, "spent": self.spent}
        return {
            **{name: float(number) for name, number in exactly.items()},
            "exact": {name: str(number) for name, number in exactly.items()},
        }


@final
@dataclass(frozen=True, kw_only=True)
class Statement:
    """An account at one moment.

    Attributes
    ----------
    account, adjacency, unit, source, meter : str
        What the account is about; fixed when it was created.
    parent : str or None
        The account that it has its share from.
    epsilon, delta : Fraction
        The guarantee of the whole account; of a child, that of the account at the top.
    limit, spent, remaining : Fraction
        In epsilon, in rho, or in divergence at the order of the account (`measure` says which).
    renyi : RenyiSums or None
        On the Rényi meter the order and the other sums; None on the other meters.
    failures : FailureSums or None
        On the zCDP meter the deltas of releases that may fail, if the account keeps a part of delta
        for them; else None. On the Rényi meter `renyi` has them.
    more : int or None
        How many more charges like the last one fit, reserved as that one was; None if there is no
        charge, or no end. What charges give back is not forecast.
    spent_share : Fraction
        How much of the budget is spent, from 0 to 1; deltas of releases are not in it.
    examples : Examples or None
        How many releases of one size still fit.
    successor : str or None
        The account that has taken this one over (`Ledger.convert`); then nothing fits here any
        more.
    parts : PartStatement or None
        What an account with parts has of them; None without parts. `limit` is that of each part,
        and `spent` what the base and the fullest part have.
    reading : str
        How releases read the column of the unit (`Session.unit_reading`); all of them alike. Empty
        until one has said it.
    head : str
        Hash of the last event of its history.
    shares : dict
        What was granted to each child account, by its name; it counts as spent.
    charges : tuple of ChargeLine
        Oldest first.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders",
    ...                           budget=sd.Budget(epsilon=1.0), adjacency="add-remove",
    ...                           unit="customer_id", source="name:orders")
    >>> charge = ledger.reserve(sd.cost.Pure(epsilon=0.25), label="top products")
    >>> statement = ledger.statement()
    >>> [line.label for line in statement.charges], statement.to_dict()["remaining"]
    (['top products'], 0.75)
    >>> folder.cleanup()
    """

    account: str
    parent: str | None
    adjacency: str
    unit: str
    source: str
    meter: str
    epsilon: Fraction
    delta: Fraction
    limit: Fraction
    spent: Fraction
    head: str
    shares: dict[str, Fraction]
    charges: tuple[ChargeLine, ...]
    renyi: RenyiSums | None = None
    failures: FailureSums | None = None
    more: int | None = None
    spent_share: Fraction = Fraction(0)
    examples: Examples | None = None
    successor: str | None = None
    reading: str = ""
    parts: PartStatement | None = None

    def __repr__(self) -> str:
        return (
            f"Statement(account={self.account!r}, limit={float(self.limit):.12g}, "
            f"spent={float(self.spent):.12g}, charges={len(self.charges)})"
        )

    @property
    def measure(self) -> str:
        """What the amounts are: "epsilon", "rho" or "divergence"."""
        return MEASURES[self.meter]

    @property
    def remaining(self) -> Fraction:
        """What can still be charged.

        On the Rényi meter it is 0 where the divergences are used up; the pure sum may still have
        room.
        """
        return max(Fraction(0), self.limit - self.spent)

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as JSON-ready values.

        Amounts as floats, and exactly under "exact".
        """
        amounts = {"limit": self.limit, "spent": self.spent, "remaining": self.remaining}
        return {
            "account": self.account,
            "parent": self.parent,
            "adjacency": self.adjacency,
            "unit": self.unit,
            "source": self.source,
            "meter": self.meter,
            "measure": self.measure,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            **{name: float(amount) for name, amount in amounts.items()},
            "spent_share": float(self.spent_share),
            **({} if self.examples is None else {"examples": self.examples.to_dict()}),
            "head": self.head,
            "shares": {name: float(amount) for name, amount in self.shares.items()},
            "exact": {name: str(amount) for name, amount in amounts.items()},
            **({} if self.renyi is None else {"renyi": self.renyi.to_dict()}),
            **({} if self.failures is None else {"failures": self.failures.to_dict()}),
            **({} if self.more is None else {"more_like_the_last": self.more}),
            **({} if self.successor is None else {"successor": self.successor}),
            **({"reading": self.reading} if self.reading else {}),
            **({} if self.parts is None else {"parts": self.parts.to_dict()}),
            "charges": [line.to_dict() for line in self.charges],
        }


def line_of(row: ChargeRow, account: Account) -> ChargeLine:
    """Return what the row of a charge says, in an account."""
    meter = account.meter
    # In a damaged file the body may be unreadable; the amounts are in columns of their own.
    body = json_of(row.body)
    return ChargeLine(
        id=row.id,
        label=body.get("label", ""),
        state=row.state,
        reserved=amount_of(row.reserved),
        drawn=amount_of(row.drawn),
        settled=None if row.settled is None else amount_of(row.settled),
        time=body.get("time", ""),
        detail=body.get("detail", {}),
        digest=row.digest,
        kept=row.kept,
        epsilon=None if meter != "renyi" or row.impure else amount_of(_taken_pure(row)),
        delta=None if meter != "renyi" else Fraction(_taken_failing(row), ATTO),
        refines=find_alone(body),
        share=find_share(account.limits, _find_taken(row)),
        parts=tuple(list_parts(body.get("parts"), account.cut)) if account.parts else None,
    )


def _find_taken(row: ChargeRow) -> Sums:
    """Return what a charge takes of the sums of its account."""
    main = row.reserved if row.settled is None else row.settled
    return Sums(main, 0 if row.impure else _taken_pure(row), _taken_failing(row), row.impure)


def _taken_pure(row: ChargeRow) -> int:
    return row.pure_reserved if row.settled is None else row.pure_settled


def _taken_failing(row: ChargeRow) -> int:
    return row.failing_reserved if row.settled is None else row.failing_drawn


def build_statement(
    account: Account,
    shares: Iterable[tuple[str, int, int, int]],
    rows: Sequence[ChargeRow],
    last: ChargeRow | None,
    parts: PartStatement | None = None,
) -> Statement:
    """Return the statement of an account row, its children, its charge rows and its last charge.

    And of its parts.
    """
    return Statement(
        account=account.name,
        parent=account.parent,
        adjacency=account.adjacency,
        unit=account.unit,
        source=account.source,
        meter=account.meter_name,
        epsilon=Fraction(account.epsilon),
        delta=Fraction(account.delta),
        limit=amount_of(account.allowance),
        spent=amount_of(account.spent),
        head=account.head,
        shares={name: amount_of(share) for name, share, *_ in sorted(shares)},
        charges=tuple(line_of(row, account) for row in rows),
        renyi=_renyi_sums(account) if account.meter_name == "renyi" else None,
        failures=_failure_sums(account) if account.adds_rhos else None,
        more=(
            0
            if account.successor
            else _count_more(account, last)
            if parts is None or last is None
            else parts.whole.more
        ),
        spent_share=find_left_of(account).spent,
        # Yesterday may be spent as it was meant: what counts is a part to come.
        examples=find_examples(account.at(account.base_sums) if account.parts else account),
        successor=account.successor or None,
        reading=account.reading,
        parts=parts,
    )


def _count_more(account: Account, last: ChargeRow | None) -> int | None:
    return None if last is None else account.limits.count_more(account.sums, last.asked)


def _failure_sums(account: Account) -> FailureSums:
    limit, spent = account.limits.failing, account.sums.failing
    return FailureSums(limit=Fraction(limit, ATTO), spent=Fraction(spent, ATTO))


def _renyi_sums(account: Account) -> RenyiSums:
    order, limits, spent = Fraction(account.alpha), account.limits, account.sums
    # A share has no delta of its own: its divergences convert with that of the whole account.
    conversion = Fraction(account.delta) - Fraction(account.failures)
    return RenyiSums(
        order=order,
        epsilon_limit=None if limits.pure < 0 else amount_of(limits.pure),
        epsilon_spent=None if spent.impure else amount_of(spent.pure),
        failures_limit=Fraction(limits.failing, ATTO),
        failures_spent=Fraction(spent.failing, ATTO),
        spent_epsilon=spent_epsilon(spent, conversion, order),
    )


def json_lines(account: Account, rows: Iterable[Row]) -> Iterator[str]:
    """Return one line about the account, then one for each event with all that its hash covers.

    Amounts are in billionths.
    """
    yield json.dumps({"type": "account", **account.facts}, sort_keys=True)
    for row in rows:
        # All that the hash covers, and the hash: a reader can compute each head anew.
        told = row._asdict()
        if not row.sums:
            del told["sums"]
        yield json.dumps({"type": "event", **told}, sort_keys=True)


def dp_events(statement: Statement) -> list[Any]:
    """Return what the account was charged with as events of dp_accounting.

    There is one for each charge or share that cost something.
    """
    from sordino.accounting import to_dp_events  # noqa: PLC0415  (its driver is an extra)

    if statement.renyi is not None:
        return list(to_dp_events(_renyi_costs(statement)).events)
    if statement.failures is not None and statement.failures.spent:
        raise InvalidParameter(
            f"Account {statement.account!r} was charged with deltas: a release that may fail, or a "
            "share for such, is no event of dp_accounting. Export it as lines of JSON instead."
        )
    notion = Pure if statement.meter == "pure" else ZCDP
    # A rho is that of the release by itself already.
    alone = [
        line.refines if statement.meter == "pure" and line.charged else 0
        for line in statement.charges
    ]
    each = [line.charged + more for line, more in zip(statement.charges, alone, strict=True)]
    spent = [*each, *statement.shares.values()]
    return list(
        to_dp_events([notion(**{statement.measure: amount}) for amount in spent if amount]).events
    )


def _renyi_costs(statement: Statement) -> list[Pure]:
    """Return what each charge was in epsilon; refuse an account where one is no pure epsilon."""
    costs = []
    for line in statement.charges:
        if line.epsilon is None or line.delta or statement.shares:
            raise InvalidParameter(
                f"Account {statement.account!r} adds Rényi divergences: a share of it, or a charge "
                "without a pure epsilon, is no event of dp_accounting. Export it as lines of JSON "
                "instead."
            )
        if line.epsilon:
            costs.append(Pure(epsilon=line.epsilon + line.refines))
    return costs
