"""Accounts with a budget, charged before any row is read, in a file that survives crashes."""

from __future__ import annotations

from sordino.ledger.account.charge import Charge
from sordino.ledger.account.charged_stream import ChargedStream
from sordino.ledger.account.identity import canonical_source, canonical_unit
from sordino.ledger.account.ledger import Ledger
from sordino.ledger.account.parted import PartStatement
from sordino.ledger.account.preview import Preview
from sordino.ledger.account.price import Price
from sordino.ledger.account.statement import ChargeLine, FailureSums, RenyiSums, Statement
from sordino.ledger.amounts import Budget
from sordino.ledger.history import Event, Verification
from sordino.ledger.left import Examples, Left
from sordino.ledger.parts import PartRange, read_parts, show_parts

__all__ = [
    "Budget",
    "Charge",
    "ChargeLine",
    "ChargedStream",
    "Event",
    "Examples",
    "FailureSums",
    "Ledger",
    "Left",
    "PartRange",
    "PartStatement",
    "Preview",
    "Price",
    "RenyiSums",
    "Statement",
    "Verification",
    "canonical_source",
    "canonical_unit",
    "read_parts",
    "show_parts",
]
