"""Another, independent measurement of what an earlier release has measured, put together with it.

Claim: it costs what a release of its own costs. The interval of a row contains its answer with at least
`confidence` whatever was seen before; with `planned` if nothing was chosen by what was seen. Proof:
docs/proofs/derived-figures.md, "Measured again".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast, final

from sordino.constraints import POSITIVE, TRUTH, Number, OrNone, one_of, to_fraction
from sordino.cost import compose
from sordino.data import Domain
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.estimators import weigh_looks
from sordino.figures import Combination, Term, read_terms
from sordino.receipt import Receipt
from sordino.releases import Release
from sordino.session.counts import CountRequest, CountUnitsRequest, HistogramRequest
from sordino.session.desk import Pending
from sordino.session.noise_choice import NOISE_MEANS, MeasureNoise
from sordino.session.request import Request, Reservation, Steps, Table, checked_later
from sordino.session.results import Count, Histogram
from sordino.session.top_k import TopKRequest

_UNKNOWN = (
    "remeasure.release must be a count, a histogram or a measured top k of this session, with Laplace or "
    "Gaussian noise that has not selected, and not within bounds. Ask for the same again."
)


@final
@dataclass(frozen=True, kw_only=True)
class RemeasuredRow:
    """One answer that was measured several times.

    Attributes
    ----------
    item : str or None
        The label; None of a count alone.
    estimate : float
        All looks together, each weighted by one over its variance, and moved into the interval.
    low, high : float
        The interval: of the last look alone, or with `planned` of all together.
    true_low, true_high : float
        The same for the true count, as every count of a session has it.
    measured : float
        The last look alone.
    """

    item: str | None
    estimate: float
    low: float
    high: float
    true_low: float
    true_high: float
    measured: float


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Remeasured(Release):
    """What was measured again, together with what was known before.

    Attributes
    ----------
    rows : tuple of RemeasuredRow
        A single one of a count.
    standard_error : float
        Standard deviation of each estimate, before it is moved into its interval.
    confidence : float
        Of the interval of each row.
    together : float
        Least probability with which the intervals of all rows hold.
    planned : bool
        Whether intervals rest on your word that all looks were settled before the first one was seen.
    looks : tuple of Release
        The releases that it is made of, each with the noise of its own; the last one is new. Figures are made
        of these (`derive`).
    """

    rows: tuple[RemeasuredRow, ...]
    standard_error: float
    confidence: float
    together: float
    planned: bool
    looks: tuple[Release, ...] = field(repr=False)

    def __iter__(self) -> Iterator[RemeasuredRow]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.rows)

    def take_receipt(self, receipt: Receipt) -> None:
        """Take the receipt of the charge, which the new look has as well."""
        super().take_receipt(receipt)
        self.looks[-1].take_receipt(receipt)


@final
class RemeasureRequest(Request[Remeasured]):
    """The answers of an earlier release, measured once more with noise of its own."""

    name: ClassVar[str] = "remeasure"

    release: Any = parameter(checked_later, "A release of this session.")
    epsilon: Number = parameter(POSITIVE, "Budget of this look.")
    noise: MeasureNoise | None = parameter(OrNone(one_of("laplace", "gaussian")), NOISE_MEANS, default=None)
    planned: bool = parameter(TRUTH, "Whether all looks were settled before the first one.", default=False)

    def steps(self, table: Table) -> Steps[Remeasured]:
        """Ask the same question again, then put both measurements together."""
        # A release of a batch is held by what stands for it.
        release = self.release.result if isinstance(self.release, Pending) else self.release
        asked = table.asked.find(release)
        before = release.looks if isinstance(release, Remeasured) else (release,)
        # What has no noise of its own is refused now, and not when it is paid for.
        known = [read_terms(look, "remeasure") for look in before] if asked is not None else []
        again = _ask_again(asked, tuple(known[0]) if known else (), self.epsilon, self.noise)
        inner = again.steps(table)
        reservation = next(inner)
        detail = reservation.detail | {"remeasures": _name_charge(release)}

        charged = yield Reservation(reservation.parts, detail, reservation.domain)
        try:
            inner.send(charged)
        except StopIteration as end:
            # How a generator returns.
            fresh = end.value
        looks = (*before, fresh)
        return _join_looks(looks, [*known, read_terms(fresh, "remeasure")], release, planned=self.planned)


def _ask_again(
    asked: Request[Any] | None, names: tuple[Any, ...], epsilon: Number, noise: MeasureNoise | None
) -> CountRequest | CountUnitsRequest | HistogramRequest:
    """Return the request that measures the same answers.

    Raises
    ------
    InvalidParameter
        If there is none.
    """
    if isinstance(asked, CountRequest | CountUnitsRequest | HistogramRequest) and asked.bounds is None:
        domain = getattr(asked, "domain", None)
        if (
            isinstance(asked, HistogramRequest)
            and isinstance(domain, Domain)
            and domain.kind == "assumed public"
        ):
            # Those labels are public now; which ones the table has by now would not be.
            return replace(asked, epsilon=epsilon, noise=noise, domain=list(names))
        return replace(asked, epsilon=epsilon, noise=noise)
    # Positions that a function names stand in the column, and not their names.
    numbered = getattr(getattr(asked, "domain", None), "numbered", None)
    if isinstance(asked, TopKRequest) and (numbered is None or numbered.name is None):
        # What was selected is public now, and a domain like any other.
        return HistogramRequest(
            item=asked.item,
            epsilon=epsilon,
            domain=list(names),
            where=asked.where,
            simultaneous=asked.simultaneous,
            noise=noise,
        )
    raise InvalidParameter(_UNKNOWN)


def _name_charge(release: Any) -> str | None:
    """Return the id of the charge of a release, None where nobody paid."""
    receipt = release.receipt
    return None if receipt is None else receipt.id


def _join_looks(
    looks: tuple[Release, ...], terms: list[dict[Any, Term]], release: Release, *, planned: bool
) -> Remeasured:
    """Return all looks as one release; the last one is new."""
    fresh = cast("Count | Histogram", looks[-1])
    weights = weigh_looks([next(iter(look.values())) for look in terms])
    listed: list[Any] = [fresh] if isinstance(fresh, Count) else list(fresh.rows)
    wrong = 1 - to_fraction(fresh.confidence)
    rows = []
    said_of = dict(zip(terms[-1], listed, strict=True))
    # In the order of the first look: that of a top k is by rank.
    for name in terms[0]:
        said = said_of[name]
        made = Combination({look[name]: weight for look, weight in zip(terms, weights, strict=True)})
        low, high, true_low, true_high = said.low, said.high, said.true_low, said.true_high
        if planned:
            low, high = (float(end) for end in made.bound(wrong, planned=True))
            # What is bounded for each unit has no upper end.
            true_low, true_high = max(low, 0.0), true_high if math.isinf(true_high) else max(high, 0.0)
        rows.append(
            RemeasuredRow(
                item=None if isinstance(fresh, Count) else name,
                estimate=min(max(float(made.value), low), high),
                low=low,
                high=high,
                true_low=true_low,
                true_high=true_high,
                measured=said.estimate,
            )
        )
    variances = [
        float(weight * one.step) ** 2 * one.law.variance
        for weight, one in zip(weights, (next(iter(look.values())) for look in terms), strict=True)
    ]
    return Remeasured(
        rows=tuple(rows),
        standard_error=math.sqrt(math.fsum(variances)),
        confidence=fresh.confidence,
        together=fresh.confidence if isinstance(fresh, Count) else fresh.together,
        planned=planned,
        looks=looks,
        mechanism=fresh.mechanism,
        cost=fresh.cost,
        total=compose(release.total or release.cost, fresh.cost),
        simulated=fresh.simulated or any(look.simulated for look in looks),
    )
