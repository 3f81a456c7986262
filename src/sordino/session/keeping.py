"""Remembers which charge paid for a release, so that the release can be kept in the ledger."""

from __future__ import annotations

from typing import Any, final
from weakref import WeakKeyDictionary

from sordino.errors import InvalidParameter
from sordino.receipt import Receipt
from sordino.session.request import Payer

_NOT_OURS = (
    "Session.keep takes a release that this session has made and charged to its ledger, not one of another "
    "session, of a stream, of a mechanism alone, or of a session without a ledger."
)


@final
class Payments:
    """Which charge paid for a release, as long as somebody holds the release.

    Only the process that made a charge can keep something with it. So the charge is remembered here, by the
    receipt that its releases share, and forgotten with the last of them.
    """

    __slots__ = ("_payers",)

    def __init__(self) -> None:
        self._payers: WeakKeyDictionary[Receipt, Payer] = WeakKeyDictionary()

    def note(self, receipt: Receipt, payer: Payer) -> None:
        """Remember who paid."""
        # Without an account there is nothing to keep a release in.
        if receipt.id is not None:
            self._payers[receipt] = payer

    def payer_of(self, release: Any) -> Payer:
        """Return who paid for a release, or raise `InvalidParameter`."""
        receipt = getattr(release, "receipt", None)
        payer = self._payers.get(receipt) if isinstance(receipt, Receipt) else None
        if payer is None:
            raise InvalidParameter(_NOT_OURS)
        return payer
