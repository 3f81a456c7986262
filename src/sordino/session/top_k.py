"""The items that the most units touch: a selection with gaps, then a measurement of what was selected."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal, cast, final

from sordino.constraints import COUNT, FINITE, POSITIVE, SHARE, TRUTH, Number, OrNone, one_of, to_fraction
from sordino.cost import ZCDP, Cost, Pure, compose
from sordino.data import CountQuestion
from sordino.declared import parameter
from sordino.errors import DataSourceError, InvalidParameter
from sordino.estimators.rows import estimate_rows, find_unclear, share_confidence
from sordino.mechanisms import HybridTopK, NoisyTopK
from sordino.session.noise_choice import (
    NOISE_MEANS,
    MeasureNoise,
    choose_rho,
    choose_selection,
    find_terms,
    measure,
)
from sordino.session.request import (
    CONFIDENCE,
    SIMULTANEOUS_MEANS,
    Request,
    Reservation,
    Steps,
    Table,
    ask_items,
    check_listable,
    check_measurable,
    checked_later,
    not_listed,
    places,
    size_of,
)
from sordino.session.results import TopItem, TopItems


@final
class TopKRequest(Request[TopItems]):
    """The `k` items of a public domain that the most units touch, with estimates and intervals.

    With a threshold the selection says how many there are. The measurement is chosen after that, for so many
    items, and stays within what was reserved for it: an adaptive choice between mechanisms of the same
    epsilon, made by what was released before.
    """

    name: ClassVar[str] = "top_k"

    item: str = parameter(checked_later, "Column of labels.")
    k: int = parameter(COUNT, "How many items.")
    epsilon: Number = parameter(POSITIVE, "Budget of this release.")
    domain: Any = parameter(checked_later, "Which labels can be released.")
    threshold: Number | None = parameter(
        OrNone(FINITE), "Only items above this public threshold: K at most.", default=None
    )
    where: str | None = parameter(checked_later, "A row predicate.", default=None)
    selection_share: Number = parameter(
        SHARE, "Share of epsilon that chooses; the rest measures.", default=0.5
    )
    noise: Literal["exponential", "laplace", "gumbel"] | None = parameter(
        OrNone(one_of("exponential", "laplace", "gumbel")),
        "Of the selection: exponential (one-sided) or laplace, both pure, with gaps; or gumbel, without. If "
        "nothing is said, what the account gets more from.",
        default=None,
    )
    measure_noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")), f"Of the measurement. {NOISE_MEANS}", default=None
    )
    simultaneous: bool = parameter(TRUTH, SIMULTANEOUS_MEANS, default=False)

    def steps(self, table: Table) -> Steps[TopItems]:
        """Choose with gaps, then measure what was chosen."""
        k = self.k
        question = ask_items(table, self.item, self.domain, self.where)
        size = size_of(question.domain)
        if size is not None and k > size:
            raise InvalidParameter(f"top_k.k must be at most the size of the domain, {size}; got {k}.")
        check_listable("top_k.k", k, question.domain)
        threshold = None if self.threshold is None else to_fraction(self.threshold)
        epsilon, share = to_fraction(self.epsilon), to_fraction(self.selection_share)
        rest = epsilon * (1 - share)
        build = partial(self._build_selection, question, size, threshold)
        choose = build(noise=self._pure_noise, epsilon=epsilon * share)
        if threshold is not None:
            check_measurable("top_k", question, rest, k)
        pure = measure(question, rest, None, k)
        # With a threshold it is not known yet how many items are measured: a cost is reserved that covers
        # any number of them.
        paid: Cost = pure.cost if threshold is None else Pure(epsilon=rest)
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
        # Without a threshold exactly k items are measured, which is known before the charge.
        measure_all = measure(question, rest, rho, k)

        charged = yield Reservation(
            (choose, measure_all if threshold is None else paid),
            {"item": self.item, "k": k, "threshold": threshold, "where": self.where},
            question.domain,
        )
        counts = charged.read(question)
        # Labels that were assumed public are counted only now; the error must not say more about the rows.
        if k > len(counts.labels):
            raise DataSourceError.after_charge()
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
        fresh = charged.release(measured, counts.at(top.indices))
        said = estimate_rows(
            top,
            fresh,
            confidence=CONFIDENCE,
            simultaneous=self.simultaneous,
            capped=table.unit.max_rows is not None,
        )
        unclear = find_unclear(top, fresh, confidence=CONFIDENCE)
        # Where every item of the domain is selected, the last one leads over none. Gumbel noise has no gaps.
        gaps = [*top.gaps.tolist(), *[None] * (found - top.gaps.size)]
        rows = tuple(
            TopItem(
                rank=rank + 1,
                item=counts.labels[index],
                estimate=float(said.estimate[rank]),
                low=float(said.low[rank]),
                high=float(said.high[rank]),
                gap=gaps[rank],
                true_low=float(said.true_low[rank]),
                true_high=float(said.true_high[rank]),
                measured=float(said.measured[rank]),
                combined=None if math.isnan(said.combined[rank]) else float(said.combined[rank]),
                order_unclear=unclear[rank],
            )
            for rank, index in enumerate(top.indices.tolist())
        )
        spent = compose(top.cost, fresh.cost)
        return TopItems(
            rows=rows,
            crossed=crossed,
            confidence=said.confidence,
            together=said.together,
            mechanism=(choose, measured),
            cost=spent,
            simulated=top.simulated,
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
