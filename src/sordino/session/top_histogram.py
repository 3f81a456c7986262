"""A top-k from a noisy histogram: where a unit has few items, one release chooses and measures.

Which of the two ways is taken follows from public numbers. Proof of the guarantee and of the intervals, and
where the rule comes from: docs/proofs/histogram-top-k.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.constraints import to_fraction
from sordino.cost import Pure
from sordino.data import CountQuestion
from sordino.errors import InvalidParameter
from sordino.session.noise_choice import Terms
from sordino.session.noisy_histogram import (
    build_listed,
    check_bounded,
    count_items_of_a_unit,
    find_histogram_rho,
    find_histogram_terms,
    release_best,
)
from sordino.session.request import Steps, Table, size_of
from sordino.session.results import TopItems

if TYPE_CHECKING:
    from sordino.session.top_k import TopKRequest

# Rounds in which the factor below settles to a few digits, from whatever start.
_ROUNDS = 20


def is_by_histogram(request: TopKRequest, table: Table, question: CountQuestion) -> bool:
    """Tell whether a top-k is the best of a noisy histogram: because it was asked for, or by the rule.

    Raises
    ------
    InvalidParameter
        If it was asked for, and there is none with these parameters.
    """
    if request.method == "histogram":
        _check_histogram(request, question)
        return True
    # A noise of the selection that is asked for by name is that of a list with gaps.
    if request.method == "gaps" or request.noise is not None:
        return False
    most = count_items_of_a_unit(table, question)
    if most is None:
        return False
    noise, epsilon = request.measure_noise, to_fraction(request.epsilon)
    try:
        terms = find_histogram_terms("top_k.measure_noise", noise, epsilon, table, question)
    except InvalidParameter:
        # There is no such histogram. What a selection cannot have either is said there.
        return False
    if noise == "laplace":
        terms = None
    return prefer_histogram(
        request.k,
        most=most,
        size=size_of(question.domain),
        share=float(request.share),
        replaced=table.unit.adjacency == "replace-one",
        of_rho=None if terms is None else find_share_of_rho(terms, epsilon, request.share),
    )


def find_share_of_rho(terms: Terms, epsilon: Fraction, share: Fraction) -> float | None:
    """Return which share of the rho a selection has that has a share of the epsilon; None without a rho.

    A rho grows with the square of epsilon, so half of the epsilon is a fourth of the rho.
    """
    rho, selected = (terms.find_rho(Pure(epsilon=part * epsilon)) for part in (Fraction(1), share))
    return None if rho is None or selected is None else float(selected / rho)


def prefer_histogram(
    k: int, *, most: int, size: int | None, share: float, replaced: bool, of_rho: float | None
) -> bool:
    """Tell whether the noise of a histogram confuses items less than that of a selection of `k`.

    Parameters
    ----------
    k : int
        How many items.
    most : int
        How many items a unit counts for at most.
    size : int or None
        Public number of items; None where it is not known yet.
    share : float
        Share of the budget that a selection would have, before a measurement.
    replaced : bool
        Whether neighbors differ by a unit that is replaced.
    of_rho : float or None
        Where the account pays for Gaussian and Gumbel noise: the selection's share of the rho.
    """
    # How rare an error is that matters, in nats: of that order is the share of items that can be confused.
    depth = max(1.0, math.log(size / k)) if size is not None else 1.0
    if of_rho is not None:
        return most <= depth * k / ((8 if replaced else 16) * of_rho)
    # Two-sided noise on both of two items has a heavier difference than one-sided noise of the same rate.
    factor = 1.0
    for _ in range(_ROUNDS):
        factor = 1 + math.log1p(factor * depth / 2) / depth
    return k / (share * most) >= factor


def _check_histogram(request: TopKRequest, question: CountQuestion) -> None:
    """Refuse a histogram with parameters that it cannot have."""
    if request.noise is not None:
        raise InvalidParameter(
            f"top_k.noise must not be given with method 'histogram'; got {request.noise!r}. Its noise is "
            "that of the measurement: give measure_noise."
        )
    check_bounded("top_k", question)


def release_by_histogram(request: TopKRequest, table: Table, question: CountQuestion) -> Steps[TopItems]:
    """Count all items with noise, and release the best of them with what was counted."""
    epsilon = to_fraction(request.epsilon)
    rho = find_histogram_rho("top_k.measure_noise", request.measure_noise, epsilon, table, question)
    mechanism = build_listed(question, epsilon, rho, k=request.k, threshold=request.threshold)
    return (yield from release_best(mechanism, request, table, question))
