"""The items of a domain above a threshold: a sparse vector over their counts, then a measurement."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from sordino.cost import Cost, Pure, compose
from sordino.data import CountQuestion, Counts
from sordino.entropy import Entropy
from sordino.errors import DataSourceError
from sordino.estimators import combine_gaps, interval, lower_bound
from sordino.mechanisms import AdaptiveSparseVector, LaplaceMechanism, SparseVector
from sordino.releases import Positives
from sordino.session.plan import CONFIDENCE, Payer, Plan, check_listable, not_listed, places, size_of
from sordino.session.results import AboveItem, AboveItems

Finder = SparseVector | AdaptiveSparseVector


def finder(*, adaptive: bool, positives: int, **options: Any) -> Finder:
    """Return the sparse vector that options ask for."""
    return (
        AdaptiveSparseVector(at_least=positives, **options)
        if adaptive
        else SparseVector(positives=positives, **options)
    )


def run_of(question: CountQuestion, positives: int) -> int | None:
    """Return how many items of the domain come before one that is found, if those are spread evenly."""
    size = size_of(question)
    return None if size is None else max(1, math.ceil(Fraction(size, positives)))


def _gap_lower_bounds(found: Positives) -> list[float | None]:
    """Return lower bounds that are valid after selection, from the gaps.

    None is proved where an item has several tests.
    """
    if not isinstance(found.mechanism, SparseVector):
        return [None] * found.indices.size
    # Selective: the bound must hold for what was found. See docs/explanation/after-selection.md.
    bounds = lower_bound(found, confidence=CONFIDENCE, selective=True).tolist()
    # A bound of minus infinity says nothing.
    return [None if math.isinf(bound) else bound for bound in bounds]


def plan_above(
    question: CountQuestion,
    *,
    item: str,
    where: str | None,
    epsilon: Fraction,
    measure_share: Fraction | None,
    options: dict[str, Any],
) -> Plan[AboveItems]:
    """Ask every item in the order of the domain, then measure what was found.

    It is measured if a share of the budget was set aside for that.

    What is measured, and so with how much noise, is chosen by what was found; the measurement stays within
    its share.
    """
    check_listable("above.positives", options["positives"], question)
    rest = epsilon * (measure_share or 0)
    # Options that are not given keep the defaults of the mechanism.
    given = {name: value for name, value in options.items() if value is not None}
    find = finder(
        epsilon=epsilon - rest, sensitivity=question.sensitivity, domain_size=not_listed(question), **given
    )

    def finish(payer: Payer, counts: Counts, entropy: Entropy) -> AboveItems:
        # A domain that was assumed public may turn out to be empty.
        if not len(counts.labels):
            raise DataSourceError.after_charge()
        found = payer.release(find, counts.values, entropy=entropy, **places(counts))
        mechanisms: tuple[Any, ...] = (find,)
        spent: Cost = found.cost
        estimates, low = found.estimates, _gap_lower_bounds(found)
        high: list[float | None] = [None] * found.indices.size
        if measure_share is not None and found.indices.size:
            # Chosen by what was released before, at the same cost each time: docs/explanation/refunds.md.
            measure = LaplaceMechanism(epsilon=rest, sensitivity=question.joint(found.indices.size))
            fresh = payer.release(measure, counts.at(found.indices), entropy=entropy)
            # From the measurement alone, whose noise had no part in what was found.
            low, high = (end.tolist() for end in interval(fresh, confidence=CONFIDENCE))
            estimates = combine_gaps(found, fresh).values
            mechanisms, spent = (find, measure), compose(spent, fresh.cost)
        rows = tuple(
            AboveItem(
                item=counts.labels[index],
                gap=float(found.gaps[i]),
                branch=int(found.branches[i]),
                estimate=float(estimates[i]),
                low=low[i],
                high=high[i],
            )
            for i, index in enumerate(found.indices.tolist())
        )
        complete = found.asked == len(counts.labels)
        return AboveItems(
            rows=rows,
            asked=found.asked,
            complete=complete,
            mechanism=mechanisms,
            cost=spent,
            simulated=found.simulated,
        )

    public = {"item": item, "where": where} | {
        name: options[name] for name in ("threshold", "positives", "adaptive")
    }
    # How many items are measured is known only after they are found, so a pure cost is reserved for that.
    return Plan(
        "above", question, public, (find,) if measure_share is None else (find, Pure(epsilon=rest)), finish
    )
