"""Another, independent measurement of what an earlier release has measured, put together with it.

Claim: it costs what a release of its own costs. The interval of a row contains its answer with at
least `confidence` whatever was seen before; with `planned` if nothing was chosen by what was seen.
Proof: docs/proofs/derived-figures.md, "Measured again".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, final

from sordino.constraints import COUNT, POSITIVE, TRUTH, Number, OrNone, one_of, to_fraction
from sordino.cost import compose
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clipped_again import ClippedAgain
from sordino.population import Population
from sordino.receipt import Receipt
from sordino.releases import Label, Release
from sordino.session.again import Base, Known, find_known
from sordino.session.batch import Pending
from sordino.session.cross_table import CrossTable
from sordino.session.looks import (
    Joined,
    Rows,
    find_true_ends,
    has_selected,
    join_table_looks,
    read_look,
)
from sordino.session.noise_choice import NOISE_MEANS, MeasureNoise
from sordino.session.request import (
    Request,
    Reservation,
    Steps,
    Table,
    checked_later,
    compute_labels,
    counts_by_some_rows,
)
from sordino.session.results import Count
from sordino.session.table_numbers import Groups
from sordino.tabular import WithRows


@final
@dataclass(frozen=True, kw_only=True)
class RemeasuredRow:
    """One answer that was measured several times.

    Attributes
    ----------
    item : str or None
        The label; None of a figure alone.
    estimate : float
        All looks together, each weighted by one over its variance, and moved into the interval. Of
        a mean and a variance it is the figure of such totals.
    low, high : float
        The interval: of the last look alone, or with `planned` of all together. Of a column it is
        about clipped records.
    true_low, true_high : float
        The same for the true count, as every count of a session has it; of a column for the records
        as they are.
    measured : float
        The last look alone.
    standard_error : float
        Standard deviation of the estimate, before it is moved into its interval; of a mean and a
        variance to first order, and infinite where there are too few rows to tell.
    clip : tuple of float, or None
        Of a column the ends that records were moved into, which the first look has found.
    published : int or None
        Of a cross table what is shown in place of the estimate: whole numbers that add up.
    too_few : bool or None
        Of a column whether the interval leaves nothing out, or of a sum whether it cannot be told
        from 0.
    """

    item: Label | None
    estimate: float
    low: float
    high: float
    true_low: float
    true_high: float
    measured: float
    standard_error: float
    clip: tuple[float, float] | None = None
    too_few: bool | None = None
    published: int | None = None


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Remeasured(WithRows[RemeasuredRow], Release):
    """What was measured again, together with what was known before.

    Attributes
    ----------
    rows : tuple of RemeasuredRow
        A single one of a count.
    confidence : float
        Of the interval of each row.
    together : float
        Least probability with which the intervals of all rows hold.
    planned : bool
        Whether intervals rest on your word that all looks were settled before the first one was
        seen.
    looks : tuple of Release
        The releases that it is made of, each with the noise of its own; the last one is new.
        Figures are made of these (`derive`). What comes from a ledger is a `KeptLook` there.
    base : object
        What asks the same once more.
    """

    rows: tuple[RemeasuredRow, ...]
    confidence: float
    together: float
    planned: bool
    looks: tuple[Release, ...] = field(repr=False)
    base: Base = field(repr=False)

    @property
    def first_selected(self) -> bool:
        """Whether the noise of the first look has selected the rows, which it does not measure."""
        return has_selected(self.looks[0])

    @property
    def standard_error(self) -> float:
        """The largest one of a row."""
        return max(row.standard_error for row in self.rows)

    def take_receipt(self, receipt: Receipt) -> None:
        """Take the receipt of the charge, which the new look has as well."""
        super().take_receipt(receipt)
        self.looks[-1].take_receipt(receipt)

    def take_population(self, population: Population) -> None:
        """Take what says of whom the release is, which the new look has as well."""
        last = self.looks[-1]
        last.take_population(population)
        # With how that look has weighed rows.
        super().take_population(last.population or population)


@final
class RemeasureRequest(Request[Remeasured]):
    """Measure the answers of an earlier release once more, and put both measurements together.

    The same question is asked again: rows are read again, and the noise is new. It costs what a
    release of its own costs. Of a sum, a mean or a variance the clip stays as it was found, and all
    of epsilon goes to the figure.

    Each estimate is the mean of all looks, weighted by one over their variances. Whoever looks
    again because of what the first look said has chosen by its noise, and no interval around that
    mean holds: so the interval is that of the new look alone, and the estimate is moved into it. If
    it was settled before the first look that there would be both, and what is spent on each, say
    `planned=True`: then it is that of all looks together, from the exact law of their noise.

    Returns
    -------
    Remeasured
        Its `cost` is that of this look, `total` that of all. The ledger has, with the charge, the
        id of the charge of the earlier release (`remeasures`).

    Raises
    ------
    InvalidParameter
        If the release is not such a release of this session, or was kept without what measures it
        again. Before the charge.
    LedgerError
        If the ledger has no such release, or its history does not hold. Before the charge.
    BudgetExceeded, LedgerConflict
        Before anything is read.

    Notes
    -----
    Rows that came or went since the earlier look are counted, or not, by the new one alone. With
    `max_rows` each look chooses anew which rows of a unit count.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> visits = pl.DataFrame({"guest": range(900), "town": ["Arles", "Bern", "Como"] * 300})
    >>> unit, towns = sd.PrivacyUnit("guest", max_rows=1), ["Arles", "Bern", "Como"]
    >>> session = sd.Session(visits, unit=unit, entropy=sd.Seeded(7))
    >>> rough = session.histogram("town", epsilon=0.5, domain=towns)
    >>> again = session.remeasure(rough, epsilon=1)
    >>> again.cost.pure(), again.total.pure()
    (Fraction(1, 1), Fraction(3, 2))
    >>> round(rough.standard_error, 2), round(again.standard_error, 2)
    (2.8, 1.22)
    """

    name: ClassVar[str] = "remeasure"
    not_in_studies: ClassVar[str] = (
        "looks again at a release that was made: use `sordino remeasure`"
    )

    release: Any = parameter(
        checked_later,
        "A release of this session, or the id of one that is kept.",
        more="With Laplace or Gaussian noise that has not selected, and not within bounds: a "
        "`Count`, `Histogram`, `CrossTable` whose margins are sums, `TopItems`, `ClippedValue`, "
        "`VarianceValue`, `Groups` or `Remeasured`. Of a top k the items that were selected are "
        "measured; of the largest sums the first look counts for nothing, as it selected. A text "
        "is the id of a charge whose release the ledger has kept (`keep`), also by another "
        "process: then this session must be about the same unit, and columns of the same types.",
        kw_only=False,
    )
    epsilon: Number = parameter(POSITIVE, "Budget of this look.")
    noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")), NOISE_MEANS, default=None
    )
    planned: bool = parameter(
        TRUTH,
        "Whether all looks were settled before the first one.",
        more="Say True only if they were settled before the first one was seen. Not of a variance.",
        default=False,
    )
    part: int = parameter(
        COUNT,
        "Which release of a batch that is kept under this id.",
        more="From 1, as `Ledger.read_release` has it.",
        default=1,
    )

    def steps(self, table: Table) -> Steps[Remeasured]:
        """Ask the same question again, then put both measurements together."""
        known = self.find(table)
        asked = known.base.request
        if self.planned and asked.name == "variance":
            raise InvalidParameter(
                "remeasure.planned must be False for a variance: the law of several looks together "
                "is known of sums, means and counts alone."
            )
        inner = known.base.steps(compute_labels(table, asked), self.epsilon, self.noise)
        reservation = next(inner)
        # What does not fit together is refused now, and not when it is paid for.
        known.check(reservation.domain)
        detail = reservation.detail | {"remeasures": known.charge}

        charged = yield Reservation(reservation.parts, detail, reservation.domain)
        try:
            inner.send(charged)
        except StopIteration as end:
            # How a generator returns.
            fresh = end.value
        groups = None if reservation.domain is None else reservation.domain.labels
        return join_looks(
            known,
            fresh,
            planned=self.planned,
            capped=counts_by_some_rows(table, known.base.request),
            groups=groups,
        )

    @property
    def of_column(self) -> bool:
        """Whether it is known already to be about numbers of a column: a plan asks."""
        return isinstance(self.release, Known) and self.release.base.clips is not None

    def find(self, table: Table) -> Known:
        """Return what is known of the earlier release, of this session or of its ledger."""
        if isinstance(self.release, Known):
            return self.release
        if isinstance(self.release, str):
            recalled: Known = table.recall(self.release, self.part)
            return recalled
        # A release of a batch is held by what stands for it.
        release = self.release.result if isinstance(self.release, Pending) else self.release
        return recognize(release, table.asked)


def recognize(release: Any, asked: Any) -> Known:
    """Return what is known of a release of the session that has asked it.

    Raises
    ------
    InvalidParameter
        If it cannot be measured again.
    """
    again = isinstance(release, Remeasured)
    looks, base = (release.looks, release.base) if again else ((release,), None)
    return find_known(release, asked.find(release), looks, base)


def join_looks(
    known: Known,
    fresh: Any,
    *,
    planned: bool,
    capped: bool,
    groups: Sequence[Label] | None = None,
) -> Remeasured:
    """Return all looks as one release; `fresh` is new, with groups in the order of their domain."""
    kind = known.base.request.name
    looks, reads = (*known.looks, fresh), [*filter(None, known.rows), read_look(fresh)]
    if isinstance(fresh, CrossTable):
        rows = _list_table(fresh, reads, planned=planned)
        # Cells, margins and the total have levels of their own: each holds with that at least.
        return _build_remeasured(known, fresh, looks, rows, fresh.together, planned=planned)
    said_of: dict[Any, Any] = _list_measured_rows(fresh)
    figures = _list_column_figures(fresh, groups)
    confidence = getattr(fresh, "confidence", 0.95)
    wrong = 1 - to_fraction(confidence)
    rows = []
    # In the order of the first look: that of a top k is by rank.
    for name in known.names:
        said, figure = said_of[name], figures.get(name)
        joined = Joined.of([look[name] for look in reads])
        value, error = joined.estimate(figure)
        low, high = said.low, said.high
        true_low, true_high = (
            (said.true_low, said.true_high)
            if figure is None
            else find_true_ends(kind, said, capped=capped)
        )
        if planned:
            low, high = joined.bound(figure, wrong)
            # What is bounded for each unit has no upper end, and neither have records that were
            # clipped.
            if figure is None:
                true_low, true_high = (
                    max(low, 0.0),
                    true_high if math.isinf(true_high) else max(high, 0.0),
                )
            else:
                true_low = true_low if math.isinf(true_low) else low
        too_few = None if figure is None else _leaves_nothing_out(kind, said, low, high)
        rows.append(
            RemeasuredRow(
                item=None if name == 0 else name,
                estimate=min(max(float(value), low), high),
                low=low,
                high=high,
                true_low=true_low,
                true_high=true_high,
                measured=said.estimate,
                # As in the release of a figure alone.
                standard_error=math.inf if too_few and kind != "sum" else error,
                clip=None if figure is None else said.clip,
                too_few=too_few,
            )
        )
    return _build_remeasured(known, fresh, looks, rows, confidence, planned=planned)


def _list_table(fresh: CrossTable, reads: list[Rows], *, planned: bool) -> list[RemeasuredRow]:
    """Return every number of a cross table: cells, margins and the total."""
    joined = join_table_looks(fresh, reads, planned=planned)
    return [
        RemeasuredRow(
            **{one.name: getattr(row, one.name) for one in fields(row)},
            measured=said.estimate,
            standard_error=error,
        )
        for row, error, said in zip(joined.rows, joined.errors, fresh.rows, strict=True)
    ]


def _build_remeasured(
    known: Known,
    fresh: Any,
    looks: tuple[Any, ...],
    rows: list[RemeasuredRow],
    confidence: float,
    *,
    planned: bool,
) -> Remeasured:
    return Remeasured(
        rows=tuple(rows),
        confidence=confidence,
        together=_find_together(fresh, confidence, len(rows)),
        planned=planned,
        looks=looks,
        base=known.base,
        mechanism=fresh.mechanism,
        cost=fresh.cost,
        total=None if known.total is None else compose(known.total, fresh.cost),
        simulated=fresh.simulated or any(look.simulated for look in looks),
    )


def _leaves_nothing_out(kind: str, said: Any, low: float, high: float) -> bool:
    """Tell whether an interval holds whatever a figure may be, or of a sum that of no rows."""
    # Of a variance there is the interval of the last look alone, and of weighed rows what they
    # weigh in it.
    if kind == "variance" or (kind == "mean" and said.weights is not None and said.too_few):
        return bool(said.too_few)
    least, most = said.clip if kind == "mean" else (0.0, 0.0)
    return bool(low <= least and high >= most)


def _list_measured_rows(fresh: Any) -> dict[Any, Any]:
    """Return what the new look says of each row."""
    if isinstance(fresh, Groups):
        return {row.item: row.release for row in fresh.rows}
    rows = getattr(fresh, "rows", None)
    return {0: fresh} if rows is None else {row.item: row for row in rows}


def _list_column_figures(
    fresh: Any, groups: Sequence[Label] | None
) -> dict[Any, tuple[ClippedAgain, int]]:
    """Return what has measured a column again, and which of its groups each row is.

    Nothing of counts.
    """
    again = fresh.mechanism
    if not isinstance(again, ClippedAgain):
        return {}
    # Rows may stand in another order than groups do.
    names = (groups or ()) if isinstance(fresh, Groups) else [0]
    return {name: (again, group) for group, name in enumerate(names)}


def _find_together(fresh: Any, confidence: float, rows: int) -> float:
    """Return the least probability with which all intervals hold."""
    if isinstance(fresh, Count):
        return confidence
    said: float | None = getattr(fresh, "together", None)
    # Nothing is known of how the intervals of groups depend on each other.
    return max(0.0, float(1 - rows * (1 - to_fraction(confidence)))) if said is None else said
