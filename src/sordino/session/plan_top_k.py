"""The items that the most units touch: a selection with gaps, then a measurement of what was selected."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sordino.constraints import Number
from sordino.cost import Pure, compose
from sordino.data import CountQuestion, Counts
from sordino.entropy import Entropy
from sordino.errors import DataSourceError, InvalidParameter
from sordino.estimators import combine_gaps, interval
from sordino.mechanisms import HybridTopK, LaplaceMechanism, NoisyTopK
from sordino.session.plan import CONFIDENCE, Payer, Plan, check_listable, not_listed, places, size_of
from sordino.session.results import TopItem, TopItems


def plan_top_k(
    question: CountQuestion,
    *,
    item: str,
    k: int,
    threshold: Number | None,
    epsilon: Fraction,
    selection_share: Fraction,
    where: str | None,
    noise: Any,
) -> Plan[TopItems]:
    """Choose with gaps, then measure what was chosen.

    With a threshold the selection says how many there are. The measurement is chosen after that, for so many
    items, and stays within what was reserved for it: an adaptive choice between mechanisms of the same
    epsilon, made by what was released before.
    """
    size = size_of(question)
    if size is not None and k > size:
        raise InvalidParameter(f"top_k.k must be at most the size of the domain, {size}; got {k}.")
    check_listable("top_k.k", k, question)
    chosen: dict[str, Any] = {
        "k": k,
        "epsilon": epsilon * selection_share,
        "sensitivity": question.sensitivity,
        "noise": noise,
        "domain_size": not_listed(question),
    }
    choose = NoisyTopK(**chosen) if threshold is None else HybridTopK(threshold=threshold, **chosen)
    rest = epsilon * (1 - selection_share)
    # Without a threshold exactly k items are measured, which is known before the charge.
    measure_all = LaplaceMechanism(epsilon=rest, sensitivity=question.joint(k))

    def finish(payer: Payer, counts: Counts, entropy: Entropy) -> TopItems:
        # Labels that were assumed public are counted only now; the error must not say more about the rows.
        if k > len(counts.labels):
            raise DataSourceError.after_charge()
        top = payer.release(choose, counts.values, entropy=entropy, **places(counts))
        found, crossed = top.indices.size, None if threshold is None else top.crossed
        # Nothing is measured, so the share for it is never drawn, and returns: docs/explanation/refunds.md.
        if not found:
            return TopItems(
                rows=(), crossed=crossed, mechanism=(choose,), cost=top.cost, simulated=top.simulated
            )
        measure = (
            measure_all if found == k else LaplaceMechanism(epsilon=rest, sensitivity=question.joint(found))
        )
        fresh = payer.release(measure, counts.at(top.indices), entropy=entropy)
        # From the measurement alone, whose noise had no part in the selection.
        low, high = interval(fresh, confidence=CONFIDENCE)
        estimates = combine_gaps(top, fresh).values
        # Where every item of the domain is selected, the last one leads over none.
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
        spent = compose(top.cost, fresh.cost)
        return TopItems(
            rows=rows, crossed=crossed, mechanism=(choose, measure), cost=spent, simulated=top.simulated
        )

    public = {"item": item, "k": k, "threshold": threshold, "where": where}
    # With a threshold it is not known yet how many items are measured, so a pure cost is reserved for that.
    return Plan(
        "top_k", question, public, (choose, measure_all if threshold is None else Pure(epsilon=rest)), finish
    )
