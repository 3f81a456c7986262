"""Every operation that writes, ready to be struck by a fault: what is prepared, what is done, what is spent before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from ledger.fakes import PLACE, REAL, Marking, make
from sordino.cost import Pure
from sordino.ledger import Charge, Ledger
from sordino.record import Record

RESERVED, WORST, REALLY, SHARE = Fraction(5, 10), Fraction(3, 10), Fraction(1, 10), Fraction(2, 10)

# Longer than a page of SQLite, so that a write of it has several, and shorter than what a client sends at once.
RECORD = Record(
    facts={"release": "count"}, columns=("estimate",), rows=[{"estimate": n} for n in range(300)]
)


@dataclass(frozen=True)
class Struck:
    """An operation about to be done in `ledger`."""

    ledger: Ledger
    do: Callable[[], Any]
    before: Fraction
    after: Fraction
    function: str  # its name in PostgreSQL
    mark: Path

    @property
    def noise(self) -> int:
        """How often noise was drawn."""
        return self.mark.stat().st_size if self.mark.exists() else 0


def _drawn(ledger: Ledger, mark: Path) -> Charge:
    charge = ledger.reserve(Pure(epsilon=RESERVED))
    charge.release(Marking(WORST, REALLY, mark), [1], entropy=REAL)
    return charge


def prepare(name: str, ledger: Ledger, mark: Path) -> Struck:
    """Return one operation with everything that has to be there before it."""
    zero = Fraction(0)
    match name:
        case "reserve":
            return Struck(
                ledger,
                lambda: ledger.reserve(Pure(epsilon=RESERVED)),
                zero,
                RESERVED,
                "reserve",
                mark,
            )
        case "draw":
            charge = ledger.reserve(Pure(epsilon=RESERVED))
            mechanism = Marking(WORST, REALLY, mark)
            return Struck(
                ledger,
                lambda: charge.release(mechanism, [1], entropy=REAL),
                RESERVED,
                RESERVED,
                "draw",
                mark,
            )
        case "settle":
            return Struck(ledger, _drawn(ledger, mark).settle, RESERVED, REALLY, "settle", mark)
        case "void":
            key = _drawn(ledger, mark).id
            return Struck(
                ledger,
                lambda: ledger.void(key, reason="its process died"),
                RESERVED,
                WORST,
                "void",
                mark,
            )
        case "keep":
            charge = _drawn(ledger, mark)
            charge.settle()
            return Struck(ledger, lambda: charge.keep(RECORD), REALLY, REALLY, "keep", mark)
        case "create":
            url = ledger._store.address
            return Struck(
                ledger, lambda: make(url, SHARE, "other"), zero, zero, "create_account", mark
            )
        case "entrust":
            return Struck(ledger, lambda: ledger.grant("team", SHARE), zero, SHARE, "entrust", mark)
        case "grant":
            ledger.grant("team", SHARE)
            return Struck(
                ledger, lambda: ledger.grant("team", SHARE), SHARE, 2 * SHARE, "grant_share", mark
            )
        case "resource":
            place = PLACE["source"]
            return Struck(
                ledger,
                lambda: ledger.call_by_name("orders", place=place),
                zero,
                zero,
                "resource",
                mark,
            )
    raise AssertionError(name)


def happened(name: str, ledger: Ledger) -> int:
    """Return how often the operation was done after it was prepared."""
    if name == "create":
        return int("other" in Ledger.accounts(ledger._store.address))
    kinds = [event.kind for event in ledger.history()]
    return kinds.count({"entrust": "grant"}.get(name, name)) - (name == "grant")
