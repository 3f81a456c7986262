"""Sessions: the only place where data, entropy and budget meet.

Order of work of every release: public parameters, then the public schema, then the charge, then the
rows (docs/explanation/reserve-and-settle.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast, final

from sordino.constraints import FINITE, Number, shown
from sordino.entropy import SYSTEM, Entropy, checked_entropy
from sordino.errors import BudgetExceeded, InvalidParameter, SimulatedRelease
from sordino.ledger import ChargedStream, Ledger
from sordino.questions import Domain, PrivacyUnit
from sordino.record import Record
from sordino.scrubbing import scrubbed
from sordino.session.executor import Batch, ReleaseExecutor
from sordino.session.releases import Releases
from sordino.session.request import R, Request, accept_domain
from sordino.sources import CsvFormat, Source, open_source

if TYPE_CHECKING:
    from sordino.mechanisms import Stream
    from sordino.questions.lookups import Lookup
    from sordino.session.plans.releases import Plans


@final
class Unsaid(Enum):
    """What a parameter is while nobody has said anything about it; None says something."""

    MUST_BE_GIVEN = "must be given"

    def __repr__(self) -> str:
        return f"<{self.value}>"


MUST_BE_GIVEN = Unsaid.MUST_BE_GIVEN
"""The default of `Session.ledger`."""


@final
class Session(Releases):
    """Private releases about one table, each charged to a ledger before a row is read.

    Threads may share a session and ask at the same time. There are two exceptions: while a batch is
    open, what any thread asks belongs to it; and the connection of a DuckDB relation serves one
    thread at a time, so a release that is asked meanwhile fails after its charge. Processes open a
    session each; the ledger is what they share.

    Parameters
    ----------
    source : str, path, DuckDB relation or frame
        A path, a glob or a folder of CSV, JSON lines or Parquet, a folder of Delta,
        "duckdb:FILE#TABLE", "excel:FILE#SHEET", "postgresql://USER@HOST/DATABASE#TABLE",
        "sc://HOST:PORT#CATALOG.SCHEMA.TABLE", a DuckDB relation, or a pandas, Polars, Spark or
        Arrow frame.
    unit : PrivacyUnit
        Whom the guarantee protects.
    ledger : Ledger or None
        The account to charge; its unit, source and adjacency must be those of the session. None, if
        that is written: nothing is remembered. It must be given unless the entropy is simulated,
        when nothing real is released.
    entropy : Entropy
        `SYSTEM`, or `Seeded(n)` for synthetic sources: such results say `simulated=True` and no
        ledger takes them.
    csv : CsvFormat, optional
        How a CSV source is written, and which columns JSON lines have; nothing is ever guessed from
        rows.
    name : str, optional
        What the ledger calls the source, wherever it lies; its account is made with
        source="name:NAME". Left out, a path is called by itself; frames and relations have none.
    memory_limit : int or str, optional
        How many bytes of memory the engine may use, at least 512 MiB, such as "2GB"; what is beyond
        goes to a private folder of the system's temporary folder. 4 GiB for each of two engines
        unless said. Not for servers.
    temp_limit : int or str, optional
        How many bytes it may write there, at least 512 MiB, such as "50GB". What is not free there
        is refused before each charge; a release that needs more than it was given ends after its
        charge. Not for servers.
    lookup : mapping of str to Lookup, optional
        Other tables that say more about the rows, public or by the person, by the names that stand
        before the dot: {"products": Lookup("products.csv", key="product")} makes
        "products.category" a column.

    Raises
    ------
    DataSourceError, UnsupportedBackend
        If the source cannot be opened.
    SimulatedRelease
        If seeded entropy is combined with a ledger.
    InvalidParameter
        If the unit, the ledger or the entropy is none, nothing is said about the ledger and noise
        is real, or a table in memory that is charged has no name.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": ["a", "b", "c", "a"],
    ...                        "product": ["tea", "tea", "tea", "rice"]})
    >>> with sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7)) as session:
    ...     top = session.top_k("product", k=1, epsilon=8, domain=["coffee", "rice", "tea"])
    >>> [row.item for row in top]
    ['tea']
    """

    @scrubbed
    def __init__(
        self,
        source: Any,
        *,
        unit: PrivacyUnit,
        ledger: Ledger | Unsaid | None = MUST_BE_GIVEN,
        entropy: Entropy = SYSTEM,
        csv: CsvFormat | None = None,
        name: str | None = None,
        memory_limit: int | str | None = None,
        temp_limit: int | str | None = None,
        lookup: Mapping[str, Lookup] | None = None,
    ) -> None:
        # What can be seen from the arguments alone is said before the source is opened.
        if not isinstance(unit, PrivacyUnit):
            raise InvalidParameter(
                "Session.unit must be a PrivacyUnit, such as PrivacyUnit('customer_id') or "
                "PrivacyUnit.row()."
            )
        # Looked at and not renewed: each release renews it when it begins.
        payer = _choose_ledger(ledger, checked_entropy(entropy, "Session"))
        self._batch: Batch | None = None
        self._form = csv or CsvFormat()
        # What was looked at before it is handed over need not be opened again.
        opened = (
            source
            if isinstance(source, Source)
            else open_source(
                source, csv=self._form, name=name, memory_limit=memory_limit, temp_limit=temp_limit
            )
        )
        if lookup is not None or opened.lookups:
            # Most tables look nothing up.
            from sordino.questions.lookups import check_lookups, look_up  # noqa: PLC0415

            opened = look_up(opened, lookup)
            check_lookups(opened, unit, charged=payer is not None)
        if unit.parts:
            opened.take_unit(unit.columns, "PrivacyUnit.column")
        self._executor = ReleaseExecutor(opened, unit, payer, entropy, self._form)
        # An account is about one source, which a table in memory has only by a name.
        if payer is not None and self._executor.source.known_as is None:
            raise InvalidParameter(
                "Session.name must say what the ledger calls this source, which has no path; got "
                "None."
            )

    def __reduce__(self) -> NoReturn:
        # It holds an open source.
        raise TypeError(
            f"A {type(self).__name__} belongs to the process that opened it and cannot be copied "
            "or pickled. Open one in each process; a Ledger may be handed over."
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
        return self._executor.list_left_out()

    @scrubbed
    def read_labels(self, domain: Any) -> Domain:
        """Return a domain with its public labels read, as a release does before its charge.

        So they can be looked at first: `origin` says how many a file lists, and which line of it
        was taken for the header. Labels that only a charge pays for stay unknown, as those of
        "assume-public".

        Raises
        ------
        UnsafePredicate, InvalidParameter, DataSourceError
            If the file or the query cannot be used, or may show something of private rows.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> visits = pl.DataFrame({"guest": ["Ann", "Bo"], "room": ["spa", "bar"]})
        >>> session = sd.Session(visits, unit=sd.PrivacyUnit("guest"), ledger=None)
        >>> session.read_labels(sd.Domain.from_sql("VALUES ('spa'), ('bar'), ('gym')")).labels
        ('bar', 'gym', 'spa')
        """
        given = accept_domain("domain", domain)
        known = given if isinstance(given, Domain) else Domain.of(given)
        return known.resolve(self._executor.source)

    @property
    def unit_reading(self) -> str:
        """How the source reads whose a row is, as an account keeps it.

        By what is declared, and by no row.

        Empty where nothing about it can be declared otherwise.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> visits = pl.DataFrame({"guest": ["Ann", None, "Bo"]})
        >>> sd.Session(visits, unit=sd.PrivacyUnit("guest"), ledger=None).unit_reading
        'values in memory'
        """
        return self._executor.reading

    @property
    def plan(self) -> Plans:
        """What a release would cost and give, without a row and without a charge.

        It has a method for each release, `plan.top_k`, `plan.quantile` and so on: with the
        parameters of the release, and three more. `like` says what is assumed of data that nobody
        looks at: "zipf:1.1", "geometric:0.9", "flat", "steps:10x500,90x20", of a column
        "lognormal:30000,0.6" and "normal:40,15" as well; or public or synthetic data, as a path or
        a frame. `rows` says how many rows made-up data have, and `runs` how many dry runs are made.
        What the release would refuse is refused in the same words.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> visits = pl.DataFrame({"guest": ["Ann", "Bo", "Cy"]})
        >>> session = sd.Session(visits, unit=sd.PrivacyUnit("guest"), ledger=None)
        >>> plan = session.plan.count_distinct_units(epsilon=0.5)
        >>> plan.rows[0].widest, plan.cost
        (12.0, Pure(epsilon=0.5))
        """
        # A release need not load it.
        from sordino.session.plans.releases import Plans  # noqa: PLC0415

        before = [] if self._batch is None else [started for started, _ in self._batch.asked]
        return Plans(self._executor, self._form, before)

    def __repr__(self) -> str:
        return (
            f"Session({self._executor.source.known_as or 'a frame'!r}, "
            f"unit={self._executor.unit!r})"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the session; between releases it holds nothing open."""

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Collect the releases of the block, charge them together, and read rows only then.

        Inside the block each release is a `Pending`; after it, it is the release. All of the batch
        is charged in one reservation, or `BudgetExceeded` is raised and nothing was read. An error
        inside the block charges nothing; one after the charge keeps it all. Since the list is fixed
        before anything is read, the joint cost may be stated by its tightest view:
        `batch.cost.epsilon(1e-6)`. Figures of the same groups that nobody listed share the search
        of the first of them.

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
            raise InvalidParameter(
                "A batch cannot be opened inside a batch; leave the first one before."
            )
        with self._executor.open_batch() as executor:
            self._batch = batch = Batch(executor)
            try:
                yield batch
            finally:
                self._batch = None
            if batch.asked:
                # The list is fixed from here on, before anything is read.
                releases = executor.run([started for started, _ in batch.asked])
                for (_, pending), release in zip(batch.asked, releases, strict=True):
                    pending.fill(release)

    @scrubbed
    def median(self, column: str, **asked: Any) -> Any:
        """Release the median of a column of numbers: `quantile` with ``q=0.5``.

        Parameters
        ----------
        column : str
            Column of numbers.
        **asked
            As for `quantile`.

        Returns
        -------
        QuantileValue or Groups

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> incomes = pl.DataFrame({"income": [21_000, 34_000, 28_500, 90_000, 45_000] * 400})
        >>> session = sd.Session(incomes, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
        >>> 30_000 < session.median("income", epsilon=1, lower=0, cap=1e9).value < 40_000
        True
        """
        try:
            return self.quantile(column, q=0.5, **asked)
        except TypeError as error:
            raise TypeError(str(error).replace("quantile(", "median(")) from None

    @scrubbed
    def keep(self, release: Any, record: Record | None = None) -> None:
        """Keep a release in the ledger, to print it again if what was made of it is lost.

        It is kept under the id of its charge (`release.receipt.id`) and stays there: whoever may
        read the ledger may read it then. `Ledger.read_release` returns it, and ``sordino ledger
        release`` prints it. The releases of a batch have one id: they are numbered in the order in
        which they are kept.

        Parameters
        ----------
        release : object
            A release that this session has made, after the end of its batch, if it was made in one.
        record : Record, optional
            How it is printed; nothing but what was released may stand there. Without it all that
            the release says of itself is.

        Raises
        ------
        InvalidParameter
            If the release is not one of this session, or its session has no ledger; for what
            `randomize` released, which is as long as the table.
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
        >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders",
        ...                           budget=sd.Budget(epsilon=1), adjacency="add-remove",
        ...                           unit=unit, source="name:orders")
        >>> session = sd.Session(orders, unit=unit, ledger=ledger, name="orders")
        >>> customers = session.count_distinct_units(epsilon=0.5)
        >>> session.keep(customers)
        >>> again = ledger.read_release(customers.receipt.id)
        >>> again.rows[0]["estimate"] == customers.estimate
        True
        >>> folder.cleanup()
        """
        self._executor.keep(release, record)

    @scrubbed
    def watch(
        self,
        *,
        threshold: Number,
        positives: int,
        epsilon: Number,
        sensitivity: Any,
        adaptive: bool = False,
        **options: Any,
    ) -> AbstractContextManager[ChargedStream | Stream]:
        """Open a stream of answers that you compute yourself.

        It is charged to the account of the session before the first answer.

        To be used in a `with` block. Leaving it returns what was not spent to a pure ledger; an
        error in it leaves the full charge, and so does the end of the process. No row is read: that
        the answers are about this source and its units, and that they move as the sensitivity says,
        is up to you.

        Parameters
        ----------
        threshold : number
            Public threshold, in the unit of the answers.
        positives : int
            After so many answers above it closes; with `adaptive`, it finds at least so many if
            they are there.
        epsilon : number
            Budget of the whole stream.
        sensitivity : Sensitivity
            A statement about each answer (norm "each"), for the adjacency of the session's unit.
        adaptive : bool
            Whether answers far above the threshold may be found by a cheaper test.
        **options : object
            As for `SparseVector`, or `AdaptiveSparseVector`.

        Returns
        -------
        context manager
            Of a stream: `ask`, `spent`, `closed`.

        Raises
        ------
        InvalidParameter
            If a parameter does not satisfy its constraint, or a batch is open: a stream cannot wait
            for its end.
        BudgetExceeded, LedgerConflict
            When the block is entered; nothing is answered.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> orders = pl.DataFrame({"customer": ["a", "b"], "product": ["tea", "tea"]})
        >>> session = sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7))
        >>> with session.watch(threshold=100, positives=1, epsilon=2,
        ...                    sensitivity=sd.COUNTING) as stream:
        ...     [stream.ask(customers_today).above for customers_today in (12, 80, 213)]
        [False, False, True]
        """
        if self._batch is not None:
            raise InvalidParameter(
                "Session.watch must be called outside a batch, which is charged only when it has "
                "ended."
            )
        asked: dict[str, Any] = {
            "threshold": threshold,
            "positives": positives,
            "adaptive": adaptive,
        }
        from sordino.session.above import build_watch  # noqa: PLC0415 - counts need not load it

        mechanism = build_watch(
            self._executor.unit, epsilon=epsilon, sensitivity=sensitivity, **asked, **options
        )
        # The ledger keeps the exact threshold.
        return self._executor.stream(
            mechanism, {**asked, "threshold": FINITE("watch.threshold", threshold)}
        )

    def _do(self, request: Request[R]) -> R:
        """Release now, or with the batch that is open."""
        # The parameters were checked when the request was made. This looks at the schema; nothing
        # is charged.
        before = [] if self._batch is None else [started for started, _ in self._batch.asked]
        executor = self._executor if self._batch is None else self._batch.executor
        started = executor.start(request, before)
        if self._batch is not None:
            # The caller gets a `Pending`, which stands for the release: hence the cast.
            return cast("R", self._batch.add(started))
        try:
            done: R = executor.run([started])[0]
        except BudgetExceeded as refused:
            # Few releases are refused.
            from sordino.session.plans.dry_run import name_largest_of  # noqa: PLC0415

            raise name_largest_of(refused, executor, started) from None
        return done


def _choose_ledger(ledger: Ledger | Unsaid | None, entropy: Entropy) -> Ledger | None:
    """Return the account that pays, or None if that was said or nothing real is released.

    Raises
    ------
    InvalidParameter
        If nothing was said and noise is real, or it is no ledger.
    SimulatedRelease
        If simulated noise would be charged.
    """
    if ledger is MUST_BE_GIVEN:
        if entropy.simulated:
            return None
        raise InvalidParameter(
            "Session.ledger must be given: the account to charge (Ledger.open or Ledger.create), "
            "or ledger=None to release without one, so that nothing remembers what is spent."
        )
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InvalidParameter(
            "Session.ledger must be what Ledger.open or Ledger.create returns; got "
            f"{shown(ledger)}."
        )
    if ledger is not None and entropy.simulated:
        raise SimulatedRelease(
            "A ledger takes only real releases; use Seeded entropy in a session without a ledger."
        )
    return ledger
