"""What an account says of itself: read-only values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.ledger._amounts import epsilon_of
from sordino.ledger._records import Account


@final
@dataclass(frozen=True, kw_only=True)
class ChargeLine:
    """One charge of an account.

    Attributes
    ----------
    id : str
        128 random bits, as hexadecimal text.
    label : str
        What the caller called it.
    state : str
        "reserved", "drawn" or "settled". What is not settled counts in full.
    reserved, drawn : Fraction
        The worst case that was reserved and the part of it that mechanisms have drawn, in epsilon.
    settled : Fraction or None
        What was really spent, in epsilon; None if the charge was never settled.
    time : str
        When it was reserved, for a human reader.
    detail : dict
        Public parameters that the caller recorded.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sordino.ledger import ChargeLine
    >>> half, tenth = Fraction(1, 2), Fraction(1, 10)
    >>> line = ChargeLine(id="9f", label="top", state="settled", reserved=half, drawn=half, settled=tenth, time="", detail={})
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

    @property
    def charged(self) -> Fraction:
        """What this charge takes from the account, in epsilon."""
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
    limit, spent, remaining : Fraction
        In epsilon.
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
    adjacency: str
    unit: str
    source: str
    meter: str
    limit: Fraction
    spent: Fraction
    charges: tuple[ChargeLine, ...]

    def __repr__(self) -> str:
        return (
            f"Statement(account={self.account!r}, limit={float(self.limit):.12g}, spent={float(self.spent):.12g}, "
            f"charges={len(self.charges)})"
        )

    @property
    def remaining(self) -> Fraction:
        """What can still be charged, in epsilon."""
        return self.limit - self.spent

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as JSON-ready values; amounts as floats, and exactly under "exact"."""
        amounts = {"limit": self.limit, "spent": self.spent, "remaining": self.remaining}
        return {
            "account": self.account,
            "adjacency": self.adjacency,
            "unit": self.unit,
            "source": self.source,
            "meter": self.meter,
            **{name: float(amount) for name, amount in amounts.items()},
            "exact": {name: str(amount) for name, amount in amounts.items()},
            "charges": [line.to_dict() for line in self.charges],
        }


def statement_of(account: Account, rows: list[Any]) -> Statement:
    """Return the statement of an account row and its charge rows."""
    lines = tuple(
        ChargeLine(
            id=key,
            label=label,
            state=state,
            reserved=epsilon_of(reserved),
            drawn=epsilon_of(drawn),
            settled=None if settled is None else epsilon_of(settled),
            time=time,
            detail=json.loads(detail),
        )
        for key, label, state, reserved, drawn, settled, time, detail in rows
    )
    return Statement(
        account=account.name,
        adjacency=account.adjacency,
        unit=account.unit,
        source=account.source,
        meter=account.meter,
        limit=epsilon_of(account.allowance),
        spent=epsilon_of(account.spent),
        charges=lines,
    )
