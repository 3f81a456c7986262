"""Sessions: the only place where data, entropy and budget meet.

Order of work of every release: public parameters, then the public schema, then the charge, then the rows
(docs/explanation/reserve-and-settle.md).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Literal, Protocol, final

from sordino.constraints import COUNT, POSITIVE, SHARE, Number, shown
from sordino.cost import Pure, compose
from sordino.data import CountQuestion, CsvFormat, PrivacyUnit, open_source, prepare_counts
from sordino.entropy import SYSTEM, Entropy, checked_entropy
from sordino.errors import DataSourceError, InvalidParameter, SimulatedRelease
from sordino.estimators import combine_gaps, interval
from sordino.ledger import Ledger
from sordino.mechanisms import LaplaceMechanism, NoisyTopK
from sordino.releases import Count, CountedItem, Histogram, TopItem, TopItems

CONFIDENCE = 0.95
Progress = Callable[[float], None]


class _Charge(Protocol):
    def release(self, mechanism: Any, answers: Any, *, entropy: Entropy) -> Any: ...


@final
class _Uncharged:
    """Stands in for a charge where no ledger was given: it releases and remembers nothing."""

    def release(self, mechanism: Any, answers: Any, *, entropy: Entropy) -> Any:
        return mechanism.release(answers, entropy=entropy)


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
        size = _size(question)
        if size is not None and k > size:
            raise InvalidParameter(f"top_k.k must be at most the size of the domain, {size}; got {k}.")
        choose = NoisyTopK(k=k, epsilon=total * share, sensitivity=question.sensitivity, noise=noise)
        measure = LaplaceMechanism(epsilon=total * (1 - share), sensitivity=question.joint(k))
        with self._charge("top_k", question, {"item": item, "k": k, "where": where}, choose, measure) as charge:
            counts = question.run(progress=progress)
            values = counts.values
            if k > values.size:  # labels that were assumed public are counted only now, and nothing more is said about rows
                raise DataSourceError.after_charge()
            top = charge.release(choose, values, entropy=self._entropy)
            fresh = charge.release(measure, values[top.indices], entropy=self._entropy)
        low, high = interval(fresh, confidence=CONFIDENCE)
        estimates = combine_gaps(top, fresh).values
        gaps = [*top.gaps.tolist(), None]
        rows = tuple(
            TopItem(
                rank=rank + 1,
                item=counts.labels[index],
                estimate=float(estimates[rank]),
                low=float(low[rank]),
                high=float(high[rank]),
                gap=gaps[rank],
            )
            for rank, index in enumerate(top.indices.tolist())
        )
        return TopItems(rows=rows, mechanism=(choose, measure), cost=compose(top.cost, fresh.cost), simulated=top.simulated)

    def histogram(
        self, item: str, *, epsilon: Number, domain: Any, where: str | None = None, progress: Progress | None = None
    ) -> Histogram:
        """Release the count of distinct units of every item of a public domain.

        One unit can touch every item of the domain, so the noise grows with its size, unless the unit is a row or `max_rows` bounds
        how many items a unit counts for. Parameters and errors as for `top_k`.
        """
        question = self._items(item, domain, where)
        budget = Pure(epsilon=POSITIVE("histogram.epsilon", epsilon))
        size = _size(question)
        planned = None if size is None else LaplaceMechanism(epsilon=epsilon, sensitivity=question.joint(size))
        with self._charge("histogram", question, {"item": item, "where": where}, planned or budget) as charge:
            counts = question.run(progress=progress)
            if not counts.values.size:
                raise DataSourceError.after_charge()
            # A domain that was assumed public has a size only now; the noise grows with it, the cost stays the budget.
            mechanism = planned or LaplaceMechanism(epsilon=epsilon, sensitivity=question.joint(counts.values.size))
            fresh = charge.release(mechanism, counts.values, entropy=self._entropy)
        low, high = interval(fresh, confidence=CONFIDENCE)
        rows = tuple(
            CountedItem(item=label, estimate=float(value), low=float(a), high=float(b))
            for label, value, a, b in zip(counts.labels, fresh.values, low, high, strict=True)
        )
        return Histogram(rows=rows, mechanism=mechanism, cost=fresh.cost, simulated=fresh.simulated)

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

    def _number(
        self, what: str, kind: Literal["rows", "units"], epsilon: Number, where: str | None, progress: Progress | None
    ) -> Count:
        question = prepare_counts(self._source, self._unit, kind=kind, where=where)
        mechanism = LaplaceMechanism(epsilon=POSITIVE(f"{what}.epsilon", epsilon), sensitivity=question.sensitivity)
        with self._charge(what, question, {"where": where}, mechanism) as charge:
            fresh = charge.release(mechanism, int(question.run(progress=progress).values[0]), entropy=self._entropy)
        low, high = interval(fresh, confidence=CONFIDENCE)
        return Count(estimate=fresh.value, low=low, high=high, mechanism=mechanism, cost=fresh.cost, simulated=fresh.simulated)

    def _items(self, item: str, domain: Any, where: str | None) -> CountQuestion:
        salt = self._entropy.words(4).tobytes()
        return prepare_counts(self._source, self._unit, kind="items", item=item, domain=domain, where=where, salt=salt)

    def _charge(self, what: str, question: CountQuestion, public: dict[str, Any], *spent: Any) -> AbstractContextManager[_Charge]:
        """Reserve the cost of all of `spent`, durably, before any row is read; the ledger keeps what is public about it."""
        if self._ledger is None:
            return nullcontext(_Uncharged())
        detail = {name: value for name, value in public.items() if value is not None}
        if self._unit.max_rows is not None:
            detail["max_rows"] = self._unit.max_rows
        if question.domain is not None:
            detail |= {"domain": question.domain.origin, "domain_size": _size(question)}
        return self._ledger.reserve(
            spent,
            label=what,
            detail=detail,
            unit=self._unit,
            source=self._source.identity,
            adjacency=self._unit.adjacency,
        )


def _size(question: CountQuestion) -> int | None:
    """Return the size of the domain, or None while it is only assumed to be public."""
    known = None if question.domain is None else question.domain.known
    return None if known is None else len(known)
