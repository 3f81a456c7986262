"""The items that the most units touch: a selection with gaps, then a measurement of what was selected."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal, cast, final

from sordino.constraints import (
    COUNT,
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    TRUTH,
    WHOLE_SHARE,
    Number,
    OrNone,
    one_of,
    shown,
    to_fraction,
)
from sordino.cost import ZCDP, Cost, Pure, compose
from sordino.data import CountQuestion
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.estimators.rows import share_confidence
from sordino.mechanisms import HybridTopK, NoisyTopK
from sordino.session.noise_choice import NOISE_MEANS, MeasureNoise, choose_rho, find_terms, measure
from sordino.session.request import (
    CONFIDENCE,
    SIMULTANEOUS_MEANS,
    R,
    Request,
    Reservation,
    Steps,
    Table,
    ask_items,
    check_listable,
    check_measurable,
    checked_later,
    is_unlisted,
    not_listed,
    places,
    size_of,
)
from sordino.session.results import TopItems, build_top
from sordino.session.selection_noise import choose_selection, select_fewer
from sordino.session.top_histogram import is_by_histogram, release_by_histogram
from sordino.session.top_unlisted import release_unlisted


class SelectionRequest(Request[R]):
    """Some items of a domain, chosen by how many units touch them, with estimates and intervals."""

    chooses: ClassVar[bool] = True

    item: str = parameter(checked_later, "Column of labels.", kw_only=False)
    k: int = parameter(
        COUNT, "How many items.", more="At most the size of the domain, and of a range at most 2^20."
    )
    epsilon: Number = parameter(
        POSITIVE,
        "Budget of this release.",
        more="`selection_share` of it chooses the items, the rest measures them.",
    )
    domain: Any = parameter(
        checked_later,
        "Which labels can be released.",
        more="A `Domain` or a list of labels. Items of the domain that the data lack take part with count 0; "
        "other labels are dropped.",
    )
    where: str | None = parameter(
        checked_later, "A row predicate.", more="See docs/decisions/0005-predicates.md.", default=None
    )
    measure_noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")), f"Of the measurement. {NOISE_MEANS}", default=None
    )
    simultaneous: bool = parameter(TRUTH, SIMULTANEOUS_MEANS, default=False)

    def ask(self, table: Table) -> CountQuestion:
        """Return the question, once it is known that there may be so many items."""
        question = ask_items(table, self.name, self.item, self.domain, self.where)
        size = size_of(question.domain)
        if size is not None and self.k > size:
            raise InvalidParameter(
                f"{self.name}.k must be at most the size of the domain, {size}; got {self.k}."
            )
        check_listable(f"{self.name}.k", self.k, question.domain)
        return question


@final
class TopKRequest(SelectionRequest[TopItems]):
    """Release the `k` items of a public domain that the most units touch, with estimates and intervals.

    With a threshold only items that lie above it are released, at most `k`; of what selects them the unspent
    part returns to a pure ledger. If there is none, nothing is measured, and that part returns as well.

    Returns
    -------
    TopItems
        Rows with rank, item, estimate, low, high, gap, true_low, true_high, measured, combined,
        order_unclear.

    Raises
    ------
    InvalidParameter, UnsafePredicate, UnknownDomain
        Before the charge, about public parameters.
    BudgetExceeded, LedgerConflict
        Before any row is read.
    DataSourceError
        One constant sentence if the engine fails after the charge.

    Notes
    -----
    Where a unit has few items the best of a noisy histogram are released. Else they are selected with gaps,
    and then measured. With a threshold the selection says how many there are. The measurement is chosen after
    that, for so many items, and stays within what was reserved for it: an adaptive choice between mechanisms
    of the same epsilon, made by what was released before.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": ["a", "b", "c", "a"], "product": ["tea", "tea", "tea", "rice"]})
    >>> session = sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7))
    >>> top = session.top_k("product", k=1, epsilon=8, domain=["coffee", "rice", "tea"])
    >>> [row.item for row in top]
    ['tea']
    """

    name: ClassVar[str] = "top_k"

    threshold: Number | None = parameter(
        OrNone(FINITE), "Only items above this public threshold: K at most.", default=None
    )
    selection_share: Number | None = parameter(
        # What it may be depends on what is asked for: see `derive`.
        checked_later,
        "Share of epsilon that chooses; the rest measures. Half of it if nothing is said, .7 where nobody "
        "listed the labels. There, and of a set, it may be 1: nothing is measured then.",
        default=None,
    )
    noise: Literal["exponential", "laplace", "gumbel"] | None = parameter(
        OrNone(one_of("exponential", "laplace", "gumbel")),
        "Of the selection: exponential (one-sided) or laplace, both pure, with gaps; or gumbel, without. If "
        "nothing is said, what the account gets more from.",
        more="Gumbel noise selects better for what is paid on an account with a delta, and on a zCDP "
        "account.",
        default=None,
    )
    method: Literal["gaps", "histogram"] | None = parameter(
        OrNone(one_of("gaps", "histogram")),
        "gaps: select, then measure; histogram: count all with noise, then take the best, for units with few "
        "items. If nothing is said, what confuses items less.",
        more="The noise of a selection grows with k, that of a histogram with how many items a unit counts "
        "for; all of epsilon does both there. The rule goes by k, `max_rows` (1 where each row is a unit), "
        "the size of the domain and the selection share.",
        default=None,
    )
    kth_count: Number | None = parameter(
        OrNone(NOT_NEGATIVE),
        "Where nobody listed the labels: about how large the K-th count is, a public guess, by which the way "
        "to find them is chosen.",
        more="Such as that of last year's release. Of the ways that would find it the one with the least "
        "noise is taken; without a guess, the one with the least threshold and noise together. `why` of the "
        "release tells.",
        default=None,
    )

    def derive(self) -> None:
        """Check what several parameters must satisfy together."""
        if self.selection_share is not None:
            whole = is_unlisted(self.domain)
            (WHOLE_SHARE if whole else SHARE)("top_k.selection_share", self.selection_share)
        if self.kth_count is not None and not is_unlisted(self.domain):
            raise InvalidParameter(
                f"top_k.kth_count belongs to Domain.unlisted (--unlisted); got {shown(self.kth_count)} with "
                "labels that are listed."
            )
        if self.share == 1 and (self.measure_noise or self.simultaneous):
            raise InvalidParameter(
                "top_k.selection_share must be below 1 with measure_noise or simultaneous, which are about a "
                "measurement; got 1."
            )

    @property
    def share(self) -> Fraction:
        """The share of epsilon that chooses."""
        if self.selection_share is not None:
            return to_fraction(self.selection_share)
        # Unlisted labels must reach a threshold, which lies the higher the less there is for the choice.
        return Fraction(7, 10) if is_unlisted(self.domain) else Fraction(1, 2)

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        return {
            "item": self.item,
            "k": self.k,
            "threshold": None if self.threshold is None else to_fraction(self.threshold),
            "kth_count": None if self.kth_count is None else to_fraction(self.kth_count),
            "where": self.where,
        }

    def steps(self, table: Table) -> Steps[TopItems]:
        """Choose with gaps, then measure what was chosen."""
        if is_unlisted(self.domain):
            return (yield from release_unlisted(self, table))
        k = self.k
        question = self.ask(table)
        if is_by_histogram(self, table, question):
            return (yield from release_by_histogram(self, table, question))
        size = size_of(question.domain)
        threshold = None if self.threshold is None else to_fraction(self.threshold)
        epsilon, share = to_fraction(self.epsilon), self.share
        rest = epsilon * (1 - share)
        build = partial(self._build_selection, question, size, threshold)
        choose = build(noise=self._pure_noise, epsilon=epsilon * share)
        # Whether it is known before the charge how many items are measured.
        fixed = threshold is None and size is not None
        if not fixed:
            check_measurable("top_k", question, rest, k)
        pure = measure(question, rest, None, k)
        # Else a cost is reserved that covers any number of them.
        paid: Cost = pure.cost if fixed else Pure(epsilon=rest)
        terms = find_terms(
            "top_k.noise, as measure_noise,",
            table.price,
            compose(choose.cost, paid),
            forced=self.noise == "gumbel" or self.measure_noise == "gaussian",
        )
        each, _ = share_confidence(CONFIDENCE, k, simultaneous=self.simultaneous)
        # Gumbel noise has no threshold to stop at, and needs every item listed.
        stays = not isinstance(choose, NoisyTopK) or choose.domain_size is not None
        rho = choose_rho(
            terms,
            self.measure_noise,
            pure,
            question.joint(k, "l2"),
            paid=compose(choose.cost, paid) if stays else paid,
            beside=choose.cost if stays else None,
            confidence=each,
        )
        if terms is not None and terms.open and rho is None:
            # No interval is shorter, so that the account keeps its epsilons.
            terms = None
        if not stays:
            choose = choose_selection(terms, self.noise, cast("NoisyTopK", choose), build)
        elif self.noise == "gumbel":
            raise InvalidParameter(
                "top_k.noise must be exponential or laplace with a threshold, and for the labels of a range; "
                "got 'gumbel'."
            )
        if rho is not None:
            paid = ZCDP(rho=rho)
        if size is None:
            # Fewer items have a larger rate of the noise: what none can have is refused before the charge.
            _ = select_fewer(choose, 1)
        measure_all = measure(question, rest, rho, k)

        charged = yield Reservation(
            (choose, measure_all if fixed else paid),
            self.detail(),
            question.domain,
        )
        counts = charged.read(question)
        # Labels that were assumed public are counted only now, and may be fewer: then all of them are listed.
        if not len(counts.labels):
            return TopItems(
                rows=(),
                crossed=None if threshold is None else False,
                confidence=CONFIDENCE,
                together=CONFIDENCE,
                mechanism=(choose,),
                **charged.nothing,
            )
        choose = select_fewer(choose, len(counts.labels))
        top = charged.release(choose, counts.values, **places(counts))
        found, crossed = top.indices.size, None if threshold is None else top.crossed
        # Nothing is measured, so the share for it is never drawn, and returns: docs/explanation/refunds.md.
        if not found:
            return TopItems(
                rows=(),
                crossed=crossed,
                confidence=CONFIDENCE,
                together=CONFIDENCE,
                mechanism=(choose,),
                cost=top.cost,
                simulated=top.simulated,
            )
        measured = measure_all if found == k else measure(question, rest, rho, found)
        return build_top(
            top,
            charged.release(measured, counts.at(top.indices)),
            [counts.labels[index] for index in top.indices.tolist()],
            crossed=crossed,
            simultaneous=self.simultaneous,
            capped=table.unit.max_rows is not None,
        )

    @property
    def _pure_noise(self) -> str:
        """The pure noise of the selection, which says what is paid for it."""
        return "laplace" if self.noise == "laplace" else "exponential"

    def _build_selection(
        self,
        question: CountQuestion,
        size: int | None,
        threshold: Fraction | None,
        *,
        noise: str,
        epsilon: Fraction,
    ) -> NoisyTopK | HybridTopK:
        unlisted = not_listed(question.domain)
        chosen: dict[str, Any] = {
            "k": self.k,
            "epsilon": epsilon,
            "sensitivity": question.sensitivity,
            "noise": noise,
            "domain_size": unlisted,
        }
        if threshold is None:
            return NoisyTopK(**chosen)
        # A list of k items leaves nobody but the threshold: less noise, where counts move both ways.
        alone = size if size == self.k and unlisted is None else None
        return HybridTopK(threshold=threshold, candidates=alone, **chosen)
