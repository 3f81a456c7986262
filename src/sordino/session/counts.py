"""Counts: of all rows or units, or of the units of every item of a domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import COUNT, POSITIVE, TRUTH, Number, OrNone, one_of, shown, to_fraction
from sordino.cost import ZCDP, Cost, Pure
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.estimators import interval
from sordino.estimators.rows import share_confidence, true_interval
from sordino.mechanisms import GaussianMechanism, LaplaceMechanism
from sordino.population import ColumnNames
from sordino.questions import CountQuestion, Domain, prepare_counts
from sordino.questions.labels import MOST_CELLS
from sordino.questions.unit import Kind, VectorNorm
from sordino.releases import Label, Value, Values
from sordino.sensitivity import Sensitivity
from sordino.session.noise_choice import NOISE_MEANS, Additive, MeasureNoise, choose_rho, find_terms
from sordino.session.request import (
    CONFIDENCE,
    LISTED,
    SIMULTANEOUS_MEANS,
    Request,
    Reservation,
    Steps,
    Table,
    accept_domain,
    ask_items,
    check_account,
    checked_bounds,
    checked_columns,
    checked_later,
    counts_by_some_rows,
    find_items,
    is_unlisted,
    not_listed,
    size_of,
)
from sordino.session.results import Count, CountedItem, Histogram

if TYPE_CHECKING:
    from sordino.mechanisms import FoldedMechanism, HistogramTopK, UnlistedHistogram

Bounds = tuple[Fraction, Fraction]


class Counting(Protocol):
    """What counts are asked for: how far they move between neighbors."""

    @property
    def kind(self) -> Kind:
        """What is counted."""
        ...

    @property
    def sensitivity(self) -> Sensitivity:
        """How far any one count moves."""
        ...

    def joint(self, k: int, norm: VectorNorm = "l1") -> Sensitivity:
        """Return how far so many counts move together."""
        ...


class CountedRequest(Protocol):
    """What asks for counts."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def epsilon(self) -> Number:
        """Its budget."""
        ...

    @property
    def bounds(self) -> tuple[Number, Number] | None:
        """The declared range of its counts, or None."""
        ...

    @property
    def noise(self) -> MeasureNoise | None:
        """The noise that is asked for by name, or None."""
        ...


_BOUNDS_MEAN = (
    "Public range of the figure: it is published within a slightly wider one, without bias."
)
_BOUNDS_MORE = (
    "Two numbers (low, high). The range of the release is `output_range`. It is unbiased wherever "
    "the figure lies in the declared range; one beyond is moved to its nearer end by rule "
    "(`FoldedMechanism`)."
)
_NOISE_MORE = (
    "On an account with a delta, and on a zCDP account, Gaussian noise costs as much as Laplace "
    "noise of this epsilon is worth there; it is taken where its interval is shorter."
)


@final
class HistogramRequest(Request[Histogram]):
    """Release the count of distinct units of every item of a public domain.

    One unit can touch every item of the domain, so the noise grows with its size, unless the unit
    is a row or `max_rows` bounds how many items a unit counts for.

    With a `threshold` only items whose noisy counts reach it are released: that costs the same.
    Of more than 2^20 items, up to 10^7, nothing else can be. What is not there may have people.

    Returns
    -------
    Histogram
        Rows with item, estimate, low, high, true_low, true_high, in the order of the domain.

    Raises
    ------
    InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict,
    DataSourceError
        As for `top_k`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> visits = pl.DataFrame({"guest": range(900), "town": ["Arles", "Bern", "Arles"] * 300})
    >>> unit = sd.PrivacyUnit("guest", max_rows=1)
    >>> session = sd.Session(visits, unit=unit, entropy=sd.Seeded(7))
    >>> towns = session.histogram("town", epsilon=1, domain=["Arles", "Bern", "Como"])
    >>> [row.item for row in towns if row.low > 100]
    ['Arles', 'Bern']
    """

    name: ClassVar[str] = "histogram"
    kept: ClassVar[tuple[str, ...]] = ("item", "where", "simultaneous")

    item: ColumnNames = parameter(checked_columns, "Column of labels, or several.", kw_only=False)
    epsilon: Number = parameter(POSITIVE, "Budget of this release.")
    domain: Any = parameter(
        accept_domain, "Which labels are counted.", more="As for `top_k`.", default=None
    )
    where: str | None = parameter(checked_later, "A row predicate.", default=None)
    threshold: int | None = parameter(
        OrNone(COUNT),
        "Release only items whose noisy count is at least this; free.",
        more="Of more than 2^20 items, if nothing is said, the least at which at most one item "
        "without anybody is expected to be released.",
        default=None,
    )
    bounds: tuple[Number, Number] | None = parameter(
        checked_bounds, _BOUNDS_MEAN, more=_BOUNDS_MORE, default=None
    )
    simultaneous: bool = parameter(TRUTH, SIMULTANEOUS_MEANS, default=False)
    noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")), NOISE_MEANS, more=_NOISE_MORE, default=None
    )

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        said = {"item": self.item, "where": self.where, "bounds": self.bounds}
        return said | {"threshold": self.threshold}

    def steps(self, table: Table) -> Steps[Histogram]:
        """Measure every item of the domain."""
        if is_unlisted(self.domain):
            check_account("histogram", table)
            question = find_items(table, self.item, self.domain, self.where)
            return (yield from _release_reaching(self, table, question))
        question = ask_items(table, self.name, self.item, self.domain, self.where)
        size = size_of(question.domain)
        if self.threshold is not None or (not_listed(question.domain) or 0) > LISTED:
            return (yield from _release_reaching(self, table, question))
        # Bounds that are too close for a single count are refused here, before the charge, also
        # where the size is not known yet.
        noise = CountNoise(self, table, question, size)
        planned = None if size is None else noise.build(size)

        charged = yield Reservation(
            # Without a size there is no mechanism yet; whichever it will be, it costs at most that.
            (planned or noise.most,),
            self.detail(),
            question.domain,
        )
        counts = charged.read(question)
        values = counts.at(np.arange(len(counts.labels)))
        # A domain that was assumed public has a size only now; the noise grows with it, the cost
        # does not.
        mechanism = planned or noise.build(values.size or 1)
        if not values.size:
            return Histogram(
                rows=(),
                # There is no count that could have noise.
                standard_error=0.0,
                output_range=_output_range_of(mechanism),
                confidence=CONFIDENCE,
                together=CONFIDENCE,
                mechanism=mechanism,
                **charged.nothing,
            )
        return build_histogram(
            charged.release(mechanism, values),
            counts.labels,
            simultaneous=self.simultaneous,
            capped=counts_by_some_rows(table, self),
            order=None if question.domain is None else question.domain.order,
        )


def build_histogram(
    fresh: Values,
    labels: Sequence[Label],
    *,
    simultaneous: bool,
    capped: bool,
    order: NDArray[np.int64] | None = None,
) -> Histogram:
    """Return the histogram of a measurement, a row for each label, in the order of their places."""
    each, together = share_confidence(CONFIDENCE, fresh.values.size, simultaneous=simultaneous)
    # Not cut at 0, as the counts are not: so they can be added up without bias.
    low, high = interval(fresh, confidence=each)
    true_low, true_high = true_interval(fresh, each, capped=capped)
    rows = tuple(
        CountedItem(
            item=labels[place],
            estimate=float(fresh.values[place]),
            low=float(low[place]),
            high=float(high[place]),
            true_low=float(true_low[place]),
            true_high=float(true_high[place]),
        )
        for place in (range(len(labels)) if order is None else order.tolist())
    )
    return Histogram(
        rows=rows,
        confidence=each,
        together=together,
        standard_error=fresh.standard_error,
        output_range=_output_range_of(fresh.mechanism),
        mechanism=fresh.mechanism,
        cost=fresh.cost,
        simulated=fresh.simulated,
    )


def _release_reaching(
    request: HistogramRequest, table: Table, question: CountQuestion
) -> Steps[Histogram]:
    """Release the labels whose noisy counts reach a threshold, in their order.

    Claim and intervals: docs/proofs/unlisted.md, docs/proofs/histogram-top-k.md.
    """
    from sordino.session.noisy_histogram import (  # noqa: PLC0415 - other counts need not load it
        build_listed,
        build_unlisted,
        choose_threshold,
        count_with_noise,
        find_histogram_rho,
    )

    domain = cast("Domain", question.domain)
    if request.bounds is not None:
        why = "nobody listed the labels" if domain.hidden else "a threshold says what is released"
        raise InvalidParameter(
            f"histogram.bounds must not be given where {why}: a count within bounds could not be "
            "compared with a threshold."
        )
    epsilon = to_fraction(request.epsilon)
    size = None if domain.hidden else _check_size(domain)
    rho = find_histogram_rho("histogram.noise", request.noise, epsilon, table, question)
    mechanism: HistogramTopK | UnlistedHistogram
    if size is None:
        mechanism = build_unlisted(question, epsilon, rho, threshold=request.threshold)
    else:
        threshold = choose_threshold(
            "histogram.threshold", request.threshold, question, epsilon, rho, size
        )
        request = replace(request, threshold=int(threshold))
        # Whoever reaches the threshold is released, however many these are.
        mechanism = build_listed(question, epsilon, rho, k=size, threshold=threshold)
    counted = yield from count_with_noise(mechanism, request, table, question, k=None)
    return Histogram(
        rows=tuple(
            CountedItem(item=counted.labels[place], **counted.said.describe(place))
            for place in domain.sort_as_given(counted.top.indices).tolist()
        ),
        # The same whatever the counts are: it tells nothing about them.
        standard_error=math.sqrt(mechanism.noise.variance),
        threshold=request.threshold,
        asked=size,
        mechanism=mechanism,
        **counted.facts,
    )


def _check_size(domain: Domain) -> int:
    """Return how many items there are; refuse a number that is not public, or is too large."""
    size = size_of(domain)
    if size is None:
        raise InvalidParameter(
            "histogram.threshold must go with labels that are listed; got those that are assumed "
            "public, of which nobody knows how many there are. Ask above, by the method histogram."
        )
    if domain.is_sparse and size > MOST_CELLS:
        product, advice = "", "List fewer labels."
        if domain.tuples is not None and domain.tuples.places is None:
            product = f"{' x '.join(f'{len(part):,}' for part in domain.tuples.parts)} = "
            advice = "Leave a label away, or list the tuples."
        raise InvalidParameter(f"{product}{size:,} cells; at most {MOST_CELLS:,}. {advice}")
    return size


class _NumberRequest(Request[Count]):
    """One number: how many there are."""

    kept: ClassVar[tuple[str, ...]] = ("where",)
    counted: ClassVar[Literal["rows", "units"]]

    epsilon: Number = parameter(POSITIVE, "Budget of this release.")
    where: str | None = parameter(checked_later, "A row predicate.", default=None)
    bounds: tuple[Number, Number] | None = parameter(
        checked_bounds, _BOUNDS_MEAN, more=_BOUNDS_MORE, default=None
    )
    noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")), NOISE_MEANS, more=_NOISE_MORE, default=None
    )

    def steps(self, table: Table) -> Steps[Count]:
        """Measure one number."""
        question = prepare_counts(table.source, table.unit, kind=self.counted, where=self.where)
        mechanism = CountNoise(self, table, question, 1).build(1)

        charged = yield Reservation(
            (mechanism,), {"where": self.where, "bounds": self.bounds}, question.domain
        )
        counts = charged.read(question)
        # A question without items has a single count.
        fresh = charged.release(mechanism, int(counts.values[0]))
        # A unit counts once, however many rows it has; only of its rows some may be left out.
        return _build_count(
            fresh, capped=counts_by_some_rows(table, self, rows=self.counted == "rows")
        )


def _build_count(fresh: Value, *, capped: bool) -> Count:
    """Return the count of a measurement."""
    low, high = interval(fresh, confidence=CONFIDENCE)
    true_low, true_high = true_interval(fresh, CONFIDENCE, capped=capped)
    return Count(
        estimate=fresh.value,
        low=float(low),
        high=float(high),
        true_low=float(true_low),
        true_high=float(true_high),
        confidence=CONFIDENCE,
        standard_error=fresh.standard_error,
        output_range=_output_range_of(fresh.mechanism),
        mechanism=fresh.mechanism,
        cost=fresh.cost,
        simulated=fresh.simulated,
    )


@final
class CountRequest(_NumberRequest):
    """Release the number of rows.

    With a unit column this needs `PrivacyUnit(..., max_rows=M)`: each unit counts for at most M.

    Returns
    -------
    Count
        With estimate, low, high, true_low, true_high, standard_error.

    Raises
    ------
    UnboundedContribution
        If nothing bounds the rows of one unit.
    InvalidParameter
        Before the charge, also if the bounds are less apart than one unit can move the count.
    UnsafePredicate, BudgetExceeded, LedgerConflict, DataSourceError
        As for `top_k`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> frame = pl.DataFrame({"x": [1] * 40})
    >>> session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> rows = session.count(epsilon=1, bounds=(0, 100))
    >>> [round(end, 2) for end in rows.output_range], 30 < rows.estimate < 50
    ([-0.58, 100.58], True)
    """

    name: ClassVar[str] = "count"
    counted: ClassVar[Literal["rows", "units"]] = "rows"


@final
class CountUnitsRequest(_NumberRequest):
    """Release the number of distinct units, such as persons.

    A unit counts once, however many rows it has.

    Returns
    -------
    Count
        As of `count`.

    Raises
    ------
    InvalidParameter, UnsafePredicate, BudgetExceeded, LedgerConflict, DataSourceError
        As for `count`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": ["a", "b", "c", "a"] * 100})
    >>> session = sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7))
    >>> session.count_distinct_units(epsilon=8).estimate
    3.0
    """

    name: ClassVar[str] = "count_distinct_units"
    counted: ClassVar[Literal["rows", "units"]] = "units"


@final
class CountNoise:
    """What releases counts: in the declared range if any, else with pure or Gaussian noise.

    Parameters
    ----------
    request : HistogramRequest, CountRequest or CountUnitsRequest
        What was asked for.
    table : Table
        Its account decides which noise there is.
    question : CountQuestion
        What the engine is asked.
    size : int or None
        How many counts, as far as that is known before the charge.
    """

    def __init__(
        self,
        request: CountedRequest,
        table: Table,
        question: Counting,
        size: int | None,
    ) -> None:
        self._request, self._question = request, question
        self._epsilon = to_fraction(request.epsilon)
        self._rho: Fraction | None = None
        self.most: Cost = Pure(epsilon=self._epsilon)
        # Where the number is not known yet, a single count decides: if Gaussian noise is smaller on
        # it than pure noise of the same price, it is so on several counts even more.
        pure = self._build_pure(size or 1)
        if isinstance(pure, LaplaceMechanism):
            if size is not None:
                self.most = pure.cost
            terms = find_terms(
                f"{request.name}.noise", table.price, pure.cost, forced=request.noise == "gaussian"
            )
            self._rho = choose_rho(
                terms,
                request.noise,
                pure,
                self._find_moves(size or 1, "l2"),
                paid=self.most,
                confidence=CONFIDENCE,
            )
            if self._rho is not None:
                self.most = ZCDP(rho=self._rho)
        elif request.noise == "gaussian":
            raise InvalidParameter(
                f"{request.name}.noise must be laplace with bounds, within which noise is folded; "
                "got 'gaussian'."
            )

    def build(self, size: int) -> Additive | FoldedMechanism:
        """Return the mechanism of so many counts; it costs at most `most`."""
        if self._rho is None:
            return self._build_pure(size)
        return GaussianMechanism(rho=self._rho, sensitivity=self._find_moves(size, "l2"))

    def _find_moves(self, size: int, norm: Literal["l1", "l2"]) -> Sensitivity:
        """Return how far so many counts move between neighbors."""
        # A number alone moves by as much in every norm.
        question = self._question
        return question.joint(size, norm) if question.kind == "items" else question.sensitivity

    def _build_pure(self, size: int) -> LaplaceMechanism | FoldedMechanism:
        request, sensitivity = self._request, self._find_moves(size, "l1")
        if request.bounds is None:
            return LaplaceMechanism(epsilon=self._epsilon, sensitivity=sensitivity)
        from sordino.mechanisms import FoldedMechanism  # noqa: PLC0415 - few releases need it

        low, high = (to_fraction(end) for end in request.bounds)
        bound = POSITIVE("bound", sensitivity.bound)
        if bound > (high - low) * (sensitivity.size or 1):
            raise InvalidParameter(
                f"{request.name}.bounds must be at least as far apart as one person can move a "
                f"count, {shown(bound)}; got {shown(low)} and {shown(high)}."
            )
        return FoldedMechanism(
            lower=low, upper=high, epsilon=self._epsilon, sensitivity=sensitivity
        )


def _output_range_of(mechanism: Any) -> tuple[float, float] | None:
    # Only folded noise keeps within a range.
    found: tuple[float, float] | None = getattr(mechanism, "output_range", None)
    return found
