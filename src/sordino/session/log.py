"""What a session remembers of its releases.

Which request made each, and which charge has paid for it.
"""

from __future__ import annotations

from typing import Any, final
from weakref import WeakKeyDictionary

from sordino.errors import InvalidParameter
from sordino.receipt import Receipt
from sordino.releases import Release
from sordino.session.request import Payer, Request

_NOT_OURS = (
    "Session.keep takes a release that this session has made and charged to its ledger, not one of "
    "another session, of a stream, of a mechanism alone, or of a session without a ledger."
)


@final
class RequestLog:
    """Which request made a release; nothing of it is private, and no answer is kept."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Release, Request[Any]] = WeakKeyDictionary()

    def note(self, release: Any, request: Request[Any]) -> None:
        """Remember what made a release; what repeats another one has the request of that one."""
        if not isinstance(release, Release):
            return
        # A release of a batch is held by what stands for it. What comes from a ledger was asked
        # elsewhere.
        before = getattr(request, "release", None)
        first = None if before is None else self.find(getattr(before, "result", before))
        self._known[release] = first or request

    def find(self, release: Any) -> Request[Any] | None:
        """Return what made a release of this session, else None."""
        return self._known.get(release) if isinstance(release, Release) else None


@final
class ChargeRegistry:
    """Which charge paid for a release, as long as somebody holds the release.

    Only the process that made a charge can keep something with it. So the charge is remembered
    here, by the receipt that its releases share, and forgotten with the last of them.
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
