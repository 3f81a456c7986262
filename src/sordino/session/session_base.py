"""What every session has: its table, who pays, batches, and releases that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, cast

from sordino.data import CsvFormat, PrivacyUnit, open_source
from sordino.entropy import SYSTEM, Entropy, checked_entropy
from sordino.errors import InvalidParameter
from sordino.ledger import Ledger
from sordino.remnants import no_remnants
from sordino.session.desk import Batch, Desk
from sordino.session.payment import MUST_BE_GIVEN, Unsaid, choose_ledger
from sordino.session.request import Progress, R, Request
from sordino.sheet import Sheet


class SessionBase:
    """A table with whom its guarantee protects and who pays; `Session` adds what can be released."""

    @no_remnants
    def __init__(
        self,
        source: Any,
        *,
        unit: PrivacyUnit,
        ledger: Ledger | Unsaid | None = MUST_BE_GIVEN,
        entropy: Entropy = SYSTEM,
        csv: CsvFormat | None = None,
        name: str | None = None,
    ) -> None:
        # What can be seen from the arguments alone is said before the source is opened.
        if not isinstance(unit, PrivacyUnit):
            raise InvalidParameter(
                "Session.unit must be a PrivacyUnit, such as PrivacyUnit('customer_id') or PrivacyUnit.row()."
            )
        # Looked at and not renewed: each release renews it when it begins.
        payer = choose_ledger(ledger, checked_entropy(entropy, "Session"))
        self._batch: Batch | None = None
        self._desk = Desk(open_source(source, csv=csv or CsvFormat(), name=name), unit, payer, entropy)
        # An account is about one source, which a table in memory has only by a name.
        if payer is not None and self._desk.source.identity is None:
            raise InvalidParameter(
                "Session.name must say what the ledger calls this source, which has no path; got None."
            )

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which rows count in no release, by rules that look at one row alone, in words.

        How many they are is private.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> visits = pl.DataFrame({"guest": ["Ann", None, "Bo"]})
        >>> sd.Session(visits, unit=sd.PrivacyUnit("guest"), ledger=None).left_out
        ('rows without a value in guest',)
        """
        return self._desk.list_left_out()

    def __repr__(self) -> str:
        return f"Session({self._desk.source.identity or 'a frame'!r}, unit={self._desk.unit!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the session; it holds nothing open between releases."""

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Collect the releases of the block, charge them together, and read rows only then.

        Inside the block each release is a `Pending`; after it, it is the release. All of the batch is charged
        in one reservation, or `BudgetExceeded` is raised and nothing was read. An error inside the block
        charges nothing; one after the charge keeps it all. Since the list is fixed before anything is read,
        the joint cost may be stated by its tightest view: `batch.cost.epsilon(1e-6)`.

        Yields
        ------
        Batch
            With `cost`.

        Raises
        ------
        InvalidParameter
            If a batch is open already.
        """
        if self._batch is not None:
            raise InvalidParameter("A batch cannot be opened inside a batch; leave the first one before.")
        self._batch = batch = Batch()
        try:
            yield batch
        finally:
            # After an error in the block, too: nothing was charged then, and what was asked is dropped.
            self._batch = None
        if batch.asked:
            # The list is fixed from here on, before anything is read.
            releases = self._desk.run([(started, progress) for started, progress, _ in batch.asked])
            for (_, _, pending), release in zip(batch.asked, releases, strict=True):
                pending.fill(release)

    @no_remnants
    def keep(self, release: Any, sheet: Sheet | None = None) -> None:
        """Keep a release in the ledger, so that it can be printed again if what was made of it is lost.

        It is kept under the id of its charge (`release.receipt.id`) and stays there: whoever may read the
        ledger may read it then. `Ledger.read_release` returns it, and ``sordino ledger release`` prints it.
        The releases of a batch have one id: they are numbered in the order in which they are kept.

        Parameters
        ----------
        release : object
            A release that this session has made, after the end of its batch, if it was made in one.
        sheet : Sheet, optional
            How it is printed; nothing but what was released may stand there. Without it all that the release
            says of itself is.

        Raises
        ------
        InvalidParameter
            If the release is not one of this session, or its session has no ledger; for what `randomize`
            released, which is as long as the table.
        LedgerConflict
            If its charge could not be settled.
        LedgerError
            If the ledger cannot be written. The release and its charge stay as they are.

        Examples
        --------
        >>> import tempfile
        >>> import polars as pl
        >>> import sordino as sd
        >>> orders = pl.DataFrame({"customer": ["a", "b", "c", "a"]})
        >>> folder, unit = tempfile.TemporaryDirectory(), sd.PrivacyUnit("customer")
        >>> account = {"account": "orders", "budget": sd.Budget(epsilon=1), "adjacency": "add-remove"}
        >>> ledger = sd.Ledger.create(folder.name + "/budget.db", unit=unit, source="name:orders", **account)
        >>> session = sd.Session(orders, unit=unit, ledger=ledger, name="orders")
        >>> customers = session.count_distinct_units(epsilon=0.5)
        >>> session.keep(customers)
        >>> again = ledger.read_release(customers.receipt.id)
        >>> again.rows[0]["estimate"] == customers.estimate
        True
        >>> folder.cleanup()
        """
        self._desk.keep(release, sheet)

    def _do(self, request: Request[R], progress: Progress | None) -> R:
        """Release now, or with the batch that is open."""
        # The parameters were checked when the request was made. This looks at the schema; nothing is charged.
        started = self._desk.start(request)
        # In a batch the caller gets a `Pending`, which stands for the release: hence the cast.
        done: R = (
            self._desk.run([(started, progress)])[0]
            if self._batch is None
            else cast("Any", self._batch.add(started, progress))
        )
        return done
