"""What an account says of itself, as read-only values: the `Statement` and one `ChargeLine` a charge.

It is exported for other programs as JSON Lines, which can be checked without sordino, and as events of
dp_accounting.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.cost import ZCDP, Pure
from sordino.ledger.amounts import MEASURES, amount_of
from sordino.ledger.history import FACTS, Account, ChargeRow, Row, json_of


@final
@dataclass(frozen=True, kw_only=True)
class ChargeLine:
    """One charge of an account; amounts are in epsilon or, on the zCDP meter, in rho.

    Attributes
    ----------
    id : str
        128 random bits, as hexadecimal text.
    label : str
        What the caller called it.
    state : str
        "reserved", "drawn", "settled", or "void" (given up by `Ledger.void`). What is neither settled nor
        void counts in full.
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

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sordino.ledger import ChargeLine
    >>> half, tenth = Fraction(1, 2), Fraction(1, 10)
    >>> line = ChargeLine(id="9f", label="top", state="settled", reserved=half, drawn=half, settled=tenth,
    ...                   time="", detail={}, digest="")
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

    @property
    def charged(self) -> Fraction:
        """What this charge takes from the account."""
        # A charge that nobody closed counts in full: its answer may have been seen.
        return self.reserved if self.settled is None else self.settled

    def to_dict(self) -> dict[str, Any]:
        """Return the charge as JSON-ready values; amounts as floats, and exactly under "exact"."""
        amounts = {"reserved": self.reserved, "drawn": self.drawn, "settled": self.settled}
        return {
            "id": self.id,
            "label": self.label,
            "state": self.state,
            **{name: None if amount is None else float(amount) for name, amount in amounts.items()},
            "time": self.time,
            "detail": self.detail,
            "digest": self.digest,
            "exact": {name: None if amount is None else str(amount) for name, amount in amounts.items()},
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
        In epsilon or, on the zCDP meter, in rho (`measure` says which).
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
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders", budget=sd.Budget(epsilon=1.0),
    ...                           adjacency="add-remove", unit="customer_id", source="name:orders")
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

    def __repr__(self) -> str:
        return (
            f"Statement(account={self.account!r}, limit={float(self.limit):.12g}, "
            f"spent={float(self.spent):.12g}, charges={len(self.charges)})"
        )

    @property
    def measure(self) -> str:
        """What the amounts are: "epsilon" or "rho"."""
        return MEASURES[self.meter]

    @property
    def remaining(self) -> Fraction:
        """What can still be charged."""
        return self.limit - self.spent

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as JSON-ready values; amounts as floats, and exactly under "exact"."""
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
            "head": self.head,
            "shares": {name: float(amount) for name, amount in self.shares.items()},
            "exact": {name: str(amount) for name, amount in amounts.items()},
            "charges": [line.to_dict() for line in self.charges],
        }


def line_of(row: ChargeRow) -> ChargeLine:
    """Return what the row of a charge says."""
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
    )


def build_statement(
    account: Account, shares: Iterable[tuple[str, int]], rows: Iterable[ChargeRow]
) -> Statement:
    """Return the statement of an account row, its children and its charge rows."""
    return Statement(
        account=account.name,
        parent=account.parent,
        adjacency=account.adjacency,
        unit=account.unit,
        source=account.source,
        meter=account.meter,
        epsilon=Fraction(account.epsilon),
        delta=Fraction(account.delta),
        limit=amount_of(account.allowance),
        spent=amount_of(account.spent),
        head=account.head,
        shares={name: amount_of(share) for name, share in sorted(shares)},
        charges=tuple(line_of(row) for row in rows),
    )


def json_lines(account: Account, rows: Iterable[Row]) -> Iterator[str]:
    """Return one line about the account, then one for each event with all that its hash covers.

    Amounts are in billionths.
    """
    yield json.dumps({"type": "account", **{name: getattr(account, name) for name in FACTS}}, sort_keys=True)
    for row in rows:
        # All that the hash covers, and the hash: a reader can compute each head anew.
        yield json.dumps({"type": "event", **row._asdict()}, sort_keys=True)


def dp_events(statement: Statement) -> list[Any]:
    """Return what the account was charged with as events of dp_accounting.

    There is one for each charge or share that cost something.
    """
    from sordino.accounting import to_dp_events  # noqa: PLC0415  (its driver is an extra)

    notion = Pure if statement.meter == "pure" else ZCDP
    spent = [*(line.charged for line in statement.charges), *statement.shares.values()]
    return list(to_dp_events([notion(**{statement.measure: amount}) for amount in spent if amount]).events)
