"""The ledger: accounts with a budget, charged before any row is read, in a file that survives crashes."""

from __future__ import annotations

from sordino.ledger._charge import Charge
from sordino.ledger._charged_stream import ChargedStream
from sordino.ledger._history import Event, Verification
from sordino.ledger._identity import canonical_source, canonical_unit
from sordino.ledger._ledger import Ledger
from sordino.ledger._statement import ChargeLine, Statement
from sordino.ledger.amounts import Budget

__all__ = [
    "Budget",
    "Charge",
    "ChargeLine",
    "ChargedStream",
    "Event",
    "Ledger",
    "Statement",
    "Verification",
    "canonical_source",
    "canonical_unit",
]
