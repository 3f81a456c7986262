"""The receipt of a release: where the ledger has its charge, who paid, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a release says of its charge; all of it was public before a row was read.

    Attributes
    ----------
    id : str or None
        Of the charge, as `sordino ledger show` lists it; None where nobody paid. Releases of one
        batch share it.
    account : str or None
        The account that paid; None where nobody did.
    time : str or None
        Of the charge, as the ledger has it, else of the release before it read a row: UTC, ISO
        8601, in whole seconds. None where noise is simulated: such a run can be repeated, to the
        last letter.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders",
    ...                           budget=sd.Budget(epsilon=1.0), adjacency="add-remove",
    ...                           unit="customer", source="orders.parquet")
    >>> with ledger.reserve(sd.cost.Pure(epsilon=0.75), label="count") as charge:
    ...     receipt = charge.receipt
    >>> [line] = ledger.statement().charges
    >>> (receipt.id, receipt.account, receipt.time) == (line.id, "orders", line.time)
    True
    >>> folder.cleanup()
    """

    id: str | None = None
    account: str | None = None
    time: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Return what is published of it, as JSON-ready values: of the time, the day."""
        return {"id": self.id, "account": self.account, "time": self.day}

    @property
    def day(self) -> str | None:
        """The day of `time`, in UTC.

        Readers are told no more: seconds of several releases in a row would tell how long the
        earlier ones took, and that depends on rows. The ledger has the seconds, by `id`.
        """
        return None if self.time is None else self.time[:10]


def read_clock() -> str:
    """Return the time in UTC, in whole seconds, as ISO 8601 writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
