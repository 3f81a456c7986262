"""Sessions: the only place where data, entropy and budget meet.

Order of work of every release: public parameters, then the public schema, then the charge, then the rows
(docs/explanation/reserve-and-settle.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, Literal, cast, final

from sordino.constraints import COUNT, POSITIVE, SHARE, Number, shown
from sordino.data import CountQuestion, CsvFormat, PrivacyUnit, open_source, prepare_counts
from sordino.entropy import SYSTEM, Entropy, checked_entropy
from sordino.errors import InvalidParameter, SimulatedRelease
from sordino.ledger import Ledger
from sordino.releases import Count, Histogram, TopItems
from sordino.session._batch import Batch
from sordino.session._plan import Payer, Plan, Progress, R, Uncharged, plan_count, plan_histogram, plan_top_k, size_of


@final
class Session:
    """Private releases about one table, each charged to a ledger before a row is read.

    Parameters
    ----------
    source : str, path, DuckDB relation or frame
        A CSV or Parquet path or glob, "duckdb:FILE#TABLE", a DuckDB relation, or a pandas, Polars or Arrow frame.
    unit : PrivacyUnit
        Whom the guarantee protects.
    ledger : Ledger, optional
        The account to charge; its unit, source and adjacency must be those of the session. None: nothing is remembered.
    entropy : Entropy
        `SYSTEM`, or `Seeded(n)` for synthetic sources: such results say `simulated=True` and no ledger takes them.
    csv : CsvFormat, optional
        How a CSV source is written; nothing is ever guessed from its rows.
    name : str, optional
        What the ledger calls a source that has no path (frames and relations); its account is made with source="name:NAME".

    Raises
    ------
    DataSourceError, UnsupportedBackend
        If the source cannot be opened.
    SimulatedRelease
        If seeded entropy is combined with a ledger.
    InvalidParameter
        If the unit, the ledger or the entropy is none, or a table in memory that is charged has no name.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": ["a", "b", "c", "a"], "product": ["tea", "tea", "tea", "rice"]})
    >>> with sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7)) as session:
    ...     top = session.top_k("product", k=1, epsilon=8, domain=["coffee", "rice", "tea"])
    >>> [row.item for row in top]
    ['tea']
    """

    def __init__(
        self,
        source: Any,
        *,
        unit: PrivacyUnit,
        ledger: Ledger | None = None,
        entropy: Entropy = SYSTEM,
        csv: CsvFormat | None = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(unit, PrivacyUnit):
            raise InvalidParameter("Session.unit must be a PrivacyUnit, such as PrivacyUnit('customer_id') or PrivacyUnit.row().")
        checked_entropy(entropy, "Session")
        if ledger is not None and not isinstance(ledger, Ledger):
            raise InvalidParameter(f"Session.ledger must be what Ledger.open or Ledger.create returns; got {shown(ledger)}.")
        if ledger is not None and entropy.simulated:
            raise SimulatedRelease("A ledger takes only real releases; use Seeded entropy in a session without a ledger.")
        self._unit = unit
        self._ledger = ledger
        self._batch: Batch | None = None
        self._entropy = entropy
        self._source = open_source(source, csv=csv or CsvFormat(), name=name)
        if ledger is not None and self._source.identity is None:
            raise InvalidParameter("Session.name must say what the ledger calls this source, which has no path; got None.")

    def __repr__(self) -> str:
        return f"Session({self._source.identity or 'a frame'!r}, unit={self._unit!r})"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Leave the session; it holds nothing open between releases."""

    def top_k(
        self,
        item: str,
        *,
        k: int,
        epsilon: Number,
        domain: Any,
        where: str | None = None,
        selection_share: Number = 0.5,
        noise: Literal["exponential", "laplace"] = "exponential",
        progress: Progress | None = None,
    ) -> TopItems:
        """Release the `k` items of a public domain that the most units touch, with estimates and intervals.

        Parameters
        ----------
        item : str
            Column of labels.
        k : int
            How many, at most the size of the domain.
        epsilon : number
            Budget of the whole release: `selection_share` of it chooses the items, the rest measures them.
        domain : Domain or list of labels
            Which labels can be released. Items of the domain that the data lack take part with count 0; other labels are dropped.
        where : str, optional
            A row predicate (docs/decisions/0005-predicates.md).
        selection_share : number
            In (0, 1).
        noise : {"exponential", "laplace"}
            Noise of the selection.
        progress : callable, optional
            Called with percentages while the engine works.

        Returns
        -------
        TopItems
            Rows with rank, item, estimate, low, high, gap.

        Raises
        ------
        InvalidParameter, UnsafePredicate, UnknownDomain
            Before the charge, about public parameters.
        BudgetExceeded, LedgerConflict
            Before any row is read.
        DataSourceError
            One constant sentence if the engine fails after the charge.
        """
        k, total, share = COUNT("top_k.k", k), POSITIVE("top_k.epsilon", epsilon), SHARE("top_k.selection_share", selection_share)
        question = self._items(item, domain, where)
        plan = plan_top_k(question, item=item, k=k, epsilon=total, selection_share=share, where=where, noise=noise)
        return self._do(plan, progress)

    def histogram(
        self, item: str, *, epsilon: Number, domain: Any, where: str | None = None, progress: Progress | None = None
    ) -> Histogram:
        """Release the count of distinct units of every item of a public domain.

        One unit can touch every item of the domain, so the noise grows with its size, unless the unit is a row or `max_rows` bounds
        how many items a unit counts for. Parameters and errors as for `top_k`.
        """
        total = POSITIVE("histogram.epsilon", epsilon)
        plan = plan_histogram(self._items(item, domain, where), item=item, epsilon=total, where=where)
        return self._do(plan, progress)

    def count(self, *, epsilon: Number, where: str | None = None, progress: Progress | None = None) -> Count:
        """Release the number of rows. With a unit column this needs `PrivacyUnit(..., max_rows=M)`: each unit counts for at most M.

        Raises
        ------
        UnboundedContribution
            If nothing bounds the rows of one unit.
        """
        return self._number("count", "rows", epsilon, where, progress)

    def count_distinct_units(self, *, epsilon: Number, where: str | None = None, progress: Progress | None = None) -> Count:
        """Release the number of distinct units."""
        return self._number("count_distinct_units", "units", epsilon, where, progress)

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Collect the releases that are asked for in the block, charge them together, and read rows only then.

        Inside the block each release is a `Pending`; after it, it is the release. All of the batch is charged in one reservation, or
        `BudgetExceeded` is raised and nothing was read. An error inside the block charges nothing; one after the charge keeps it all.
        Since the list is fixed before anything is read, the joint cost may be stated by its tightest view: `batch.cost.epsilon(1e-6)`.

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
            self._batch = None
        if batch.asked:
            releases = self._run([(plan, progress) for plan, progress, _ in batch.asked])
            for (_, _, pending), release in zip(batch.asked, releases, strict=True):
                pending.fill(release)

    def _number(
        self, what: str, kind: Literal["rows", "units"], epsilon: Number, where: str | None, progress: Progress | None
    ) -> Count:
        question = prepare_counts(self._source, self._unit, kind=kind, where=where)
        return self._do(plan_count(what, question, epsilon=POSITIVE(f"{what}.epsilon", epsilon), where=where), progress)

    def _do(self, plan: Plan[R], progress: Progress | None) -> R:
        """Release now, or with the batch that is open."""
        done: R = self._run([(plan, progress)])[0] if self._batch is None else cast("Any", self._batch.add(plan, progress))
        return done

    def _run(self, asked: Sequence[tuple[Plan[Any], Progress | None]]) -> list[Any]:
        """Charge everything, then read and release one after the other."""
        with self._charge([plan for plan, _ in asked]) as payer:
            return [plan.finish(payer, plan.question.run(progress=progress), self._entropy) for plan, progress in asked]

    def _items(self, item: str, domain: Any, where: str | None) -> CountQuestion:
        salt = self._entropy.words(4).tobytes()
        return prepare_counts(self._source, self._unit, kind="items", item=item, domain=domain, where=where, salt=salt)

    def _charge(self, plans: Sequence[Plan[Any]]) -> AbstractContextManager[Payer]:
        """Reserve the cost of all plans, durably, before any row is read; the ledger keeps what is public about them."""
        if self._ledger is None:
            return nullcontext(Uncharged())
        details = [self._detail(plan) for plan in plans]
        names = [plan.name for plan in plans]
        return self._ledger.reserve(
            tuple(part for plan in plans for part in plan.spent),
            label=" + ".join(names),
            detail=details[0]
            if len(plans) == 1
            else {"batch": [{"release": name, **detail} for name, detail in zip(names, details, strict=True)]},
            unit=self._unit,
            source=self._source.identity,
            adjacency=self._unit.adjacency,
        )

    def _detail(self, plan: Plan[Any]) -> dict[str, Any]:
        detail = {name: value for name, value in plan.public.items() if value is not None}
        if self._unit.max_rows is not None:
            detail["max_rows"] = self._unit.max_rows
        if plan.question.domain is not None:
            detail |= {"domain": plan.question.domain.origin, "domain_size": size_of(plan.question)}
        return detail
