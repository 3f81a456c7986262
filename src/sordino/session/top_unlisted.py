"""The labels that the most units touch, where nobody lists the labels: they are found, or stay unknown.

Claim: what is selected, or counted, is private but for a failure of the delta that the domain states
(docs/proofs/unlisted.md). What was selected is measured with noise of its own.

Which way is taken follows from public numbers, and is said: `plan.choose_unlisted`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from sordino.constraints import to_fraction
from sordino.cost import Pure
from sordino.data import CountQuestion, Counts, Domain
from sordino.errors import InvalidParameter
from sordino.estimators.rows import find_unclear
from sordino.mechanisms import LimitedTopK, UnlistedTopK
from sordino.plan import choose_unlisted
from sordino.plan.unlisted import Way
from sordino.releases import UnlistedTop
from sordino.session.noise_choice import measure
from sordino.session.noisy_histogram import (
    build_unlisted,
    count_items_of_a_unit,
    find_histogram_rho,
    release_best,
)
from sordino.session.request import (
    CONFIDENCE,
    LISTED,
    Reservation,
    Steps,
    Table,
    check_account,
    check_measurable,
    find_items,
)
from sordino.session.results import TopItem, TopItems, build_top

if TYPE_CHECKING:
    from sordino.session.top_k import TopKRequest

Selection = UnlistedTopK | LimitedTopK

_BEST = 10
"""Of units with any number of labels so many times k counts compete."""
_AS_ASKED = "Asked for by name."
_UNBOUNDED = "The one way where nothing bounds how many labels a unit counts for."


def release_unlisted(request: TopKRequest, table: Table) -> Steps[TopItems]:
    """Find labels, at most k, with what is said of their counts."""
    check_account("top_k", table)
    _check_request(request)
    unbounded = table.unit.column is not None and table.unit.max_rows is None
    best = _BEST * request.k if unbounded else None
    question = find_items(table, request.item, request.domain, request.where, best=best)
    domain, epsilon = cast("Domain", question.domain), to_fraction(request.epsilon)
    delta = cast("Fraction", domain.delta)
    if best is not None:
        _check_unbounded(request)
        _check_ways(request, ("one-sided",))
        limited = LimitedTopK(
            k=request.k,
            best=best,
            epsilon=epsilon * request.share,
            delta=delta,
            sensitivity=question.sensitivity,
            least=domain.least,
        )
        return (yield from _select_and_measure(request, table, question, limited, _UNBOUNDED))
    ways, why = _list_ways(request)
    _check_ways(request, ways)
    if ways != ("one-sided",):
        rho = find_histogram_rho("top_k.measure_noise", request.measure_noise, epsilon, table, question)
        found = choose_unlisted(
            k=request.k,
            labels=cast("int", count_items_of_a_unit(table, question)),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            adjacency=table.unit.adjacency,
            least=domain.least,
            kth_count=request.kth_count,
            share=request.share,
            among=ways,
        )
        way, why = found.alternatives[0].way, why or found.why
        if way != "one-sided":
            counts = build_unlisted(
                question, epsilon, rho if way == "gaussian" else None, threshold=request.threshold
            )
            return (yield from release_best(counts, request, table, question, why))
    select = UnlistedTopK(
        k=request.k,
        epsilon=epsilon * request.share,
        delta=delta,
        sensitivity=question.sensitivity,
        least=domain.least,
        noise="laplace" if request.noise == "laplace" else "exponential",
        above=request.threshold,
    )
    return (yield from _select_and_measure(request, table, question, select, why))


# ---- which way ---------------------------------------------------------------------------------------------


def _list_ways(request: TopKRequest) -> tuple[tuple[Way, ...], str | None]:
    """Return the ways that were not ruled out by name, and why if no other reason is needed."""
    if request.method == "gaps" or request.noise is not None:
        return ("one-sided",), _AS_ASKED
    counting: tuple[Way, ...] = ("laplace", "gaussian")
    if request.measure_noise is not None:
        counting = (request.measure_noise,)
    if request.method == "histogram" or request.measure_noise == "gaussian":
        # What was selected is measured with Laplace noise alone.
        return counting, None if len(counting) > 1 else _AS_ASKED
    return ("one-sided", *counting), None


def _check_ways(request: TopKRequest, ways: tuple[Way, ...]) -> None:
    """Refuse a guess of the counts where there is one way alone, and Gaussian noise in the way without it."""
    if ways == ("one-sided",) and request.measure_noise == "gaussian":
        raise InvalidParameter(
            "top_k.measure_noise must be laplace where nobody listed the labels and they are selected with "
            "gaps; got 'gaussian'. Leave out method and noise, and give max_rows: Gaussian noise counts all."
        )
    if request.kth_count is not None and len(ways) == 1:
        raise InvalidParameter(
            f"top_k.kth_count must not be given where one way is left to find labels; got "
            f"{request.kth_count!r} beside method, noise, measure_noise, or no max_rows."
        )


def _check_request(request: TopKRequest) -> None:
    """Refuse what a search for labels has not."""
    for name, given, why in (
        ("noise", "gumbel" if request.noise == "gumbel" else None, "a threshold is part of the search"),
        (
            "noise",
            request.noise if request.method == "histogram" else None,
            "a histogram has the noise of its measurement, measure_noise",
        ),
    ):
        if given is not None:
            raise InvalidParameter(
                f"top_k.{name} must not be {given!r} where nobody listed the labels (Domain.unlisted, "
                f"--unlisted), because {why}."
            )


def _check_unbounded(request: TopKRequest) -> None:
    """Refuse what is not there for units with any number of labels."""
    for name, given in (
        ("threshold", request.threshold),
        ("noise", request.noise if request.noise == "laplace" else None),
        ("method", request.method if request.method == "histogram" else None),
    ):
        if given is not None:
            raise InvalidParameter(
                f"top_k.{name} must not be given where nobody listed the labels and nothing bounds how many "
                "a unit counts for. Give max_rows, which may be generous."
            )


# ---- a selection, then a measurement -----------------------------------------------------------------------


def _select_and_measure(
    request: TopKRequest, table: Table, question: CountQuestion, select: Selection, why: str | None
) -> Steps[TopItems]:
    """Select with gaps, then measure what was found unless all of epsilon has searched."""
    # Said before the charge: a place is held for each of the k, whatever is found.
    if request.k > LISTED:
        raise InvalidParameter(
            f"top_k.k must be at most {LISTED} where a selection finds the labels; got {request.k}."
        )
    rest = to_fraction(request.epsilon) * (1 - request.share)
    # How many are found is known only after the charge; a measurement of any number of them must be possible.
    if rest:
        check_measurable("top_k", question, rest, request.k)

    charged = yield Reservation(
        (select, Pure(epsilon=rest)) if rest else (select,), request.detail(), question.domain
    )
    counts: Counts = charged.read(question)
    top: UnlistedTop = charged.release(select, counts.values, labels=counts.labels)
    found = len(top.labels)
    # Without a bound on units the threshold hangs on a count, and is no public number.
    threshold = select.threshold if isinstance(select, UnlistedTopK) else None
    # Nothing is measured, so the share for it is never drawn, and returns: docs/explanation/refunds.md.
    if not found or not rest:
        return TopItems(
            rows=_name_rows(top),
            confidence=CONFIDENCE,
            together=CONFIDENCE,
            mechanism=(select,),
            cost=top.cost,
            crossed=top.crossed,
            label_threshold=threshold,
            why=why,
            simulated=top.simulated,
        )
    return build_top(
        top,
        charged.release(measure(question, rest, None, found), counts.of(top.labels)),
        top.labels,
        crossed=top.crossed,
        simultaneous=request.simultaneous,
        capped=table.unit.max_rows is not None,
        label_threshold=threshold,
        why=why,
    )


def _name_rows(top: UnlistedTop) -> tuple[TopItem, ...]:
    """Return rows of which nothing was measured: only gaps say anything of their counts."""
    unclear = find_unclear(top, None, confidence=CONFIDENCE)
    return tuple(
        TopItem(
            rank=rank + 1,
            item=label,
            # Down to a threshold that ended the list; else nothing says how high it lies.
            estimate=None if np.isnan(top.estimates[rank]) else float(top.estimates[rank]),
            low=None,
            high=None,
            gap=float(top.gaps[rank]),
            true_low=None,
            true_high=None,
            measured=None,
            combined=None,
            order_unclear=unclear[rank],
        )
        for rank, label in enumerate(top.labels)
    )
