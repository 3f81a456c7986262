"""Items above a threshold from a noisy histogram: where a unit has few items, one release finds and measures.

The guarantee and the intervals are those of a top-k from a histogram: docs/proofs/histogram-top-k.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.constraints import to_fraction
from sordino.cost import Pure
from sordino.data import CountQuestion
from sordino.errors import InvalidParameter
from sordino.session.noisy_histogram import (
    build_listed,
    build_unlisted,
    check_bounded,
    count_items_of_a_unit,
    find_histogram_rho,
    find_histogram_terms,
    release_above,
)
from sordino.session.request import LISTED, Steps, Table, check_account, find_items, not_listed, size_of
from sordino.session.results import AboveItems

if TYPE_CHECKING:
    from sordino.session.above import AboveRequest

# What is special about a sparse vector; a histogram has none of it.
_OF_A_SPARSE_VECTOR = ("noise", "split", "correction", "correction_run", "correction_margin")


def is_above_by_histogram(request: AboveRequest, table: Table, question: CountQuestion) -> bool:
    """Tell whether items above a threshold come from a noisy histogram: as asked for, or by the rule.

    Raises
    ------
    InvalidParameter
        If it was asked for, and there is none with these parameters.
    """
    special = _list_special(request)
    if request.method == "histogram":
        _check_histogram(question, special)
        return True
    if request.method == "gaps" or special or not_listed(question.domain) is not None:
        return False
    most = count_items_of_a_unit(table, question)
    if most is None:
        return False
    share = 1 - (Fraction(0) if request.measure_share is None else to_fraction(request.measure_share))
    asked = ("above.measure_noise", request.measure_noise, to_fraction(request.epsilon), table, question)
    try:
        terms, rho = find_histogram_terms(*asked), find_histogram_rho(*asked)
    except InvalidParameter:
        # There is no such histogram. What a sparse vector cannot have either is said there.
        return False
    epsilon = to_fraction(request.epsilon)
    found = None
    if terms is not None:
        # Gumbel noise has no gaps, so that it finds only what is measured afterwards.
        measured = request.measure_share is not None
        found = terms.find_rho(Pure(epsilon=share * epsilon)) if measured else None
    return prefer_histogram_above(
        request.positives,
        most=most,
        share=share,
        replaced=not question.sensitivity.monotone,
        rho=None if rho is None else rho / epsilon**2,
        found=None if found is None else found / epsilon**2,
    )


def prefer_histogram_above(
    positives: int,
    *,
    most: int,
    share: Fraction,
    replaced: bool,
    rho: Fraction | None = None,
    found: Fraction | None = None,
) -> bool:
    """Tell whether the noise on a count of a histogram is smaller than that of a sparse vector's test.

    Parameters
    ----------
    positives : int
        How many items can be found.
    most : int
        How many items a unit counts for at most.
    share : Fraction
        What finding them has of the epsilon.
    replaced : bool
        Whether neighbors differ by a unit that is replaced.
    rho : Fraction or None
        Of Gaussian noise on the histogram, over the square of epsilon; None where its noise is pure.
    found : Fraction or None
        Of Gumbel noise that finds them, likewise; None where that noise is pure.
    """
    moves = 2 if replaced else 1
    # Two draws of noise decide a test: the threshold's and the answer's, with the best split between them.
    test = (1 + math.pow(moves * positives, 2 / 3)) ** 3 / float(share) ** 2
    if found is not None:
        # Two Gumbel draws of one scale: docs/proofs/gumbel-stage.md has the rho of one that is found.
        stage = 0.514 if replaced else 0.228
        test = min(test, math.pi**2 / 3 * stage * positives / float(found))
    # So far all counts move together: in L1, or squared in L2.
    moving = moves * most
    return (2 * moving**2 if rho is None else moving / (2 * float(rho))) < test


def _list_special(request: AboveRequest) -> list[str]:
    """Return what was given of what belongs to a sparse vector, which asks item by item."""
    given = [name for name in _OF_A_SPARSE_VECTOR if getattr(request, name) is not None]
    return [*given, "adaptive"] if request.adaptive else given


def _check_histogram(question: CountQuestion, special: list[str]) -> None:
    """Refuse a histogram with parameters that it cannot have."""
    if special:
        raise InvalidParameter(
            f"above.{special[0]} must not be given with method 'histogram': it is about a sparse vector."
        )
    if not_listed(question.domain) is not None:
        raise InvalidParameter(
            "above.method must be 'gaps' for the labels of a range, all of which a histogram would count; "
            "got 'histogram'."
        )
    check_bounded("above", question)


def release_above_by_histogram(
    request: AboveRequest, table: Table, question: CountQuestion
) -> Steps[AboveItems]:
    """Count all items with noise, and release those that reach the threshold with what was counted."""
    epsilon = to_fraction(request.epsilon)
    rho = find_histogram_rho("above.measure_noise", request.measure_noise, epsilon, table, question)
    # Whoever reaches the threshold is released, however many these are.
    most = size_of(question.domain) or LISTED
    mechanism = build_listed(question, epsilon, rho, k=most, threshold=request.threshold)
    return (yield from release_above(mechanism, request, table, question))


def release_above_unlisted(request: AboveRequest, table: Table) -> Steps[AboveItems]:
    """Count all labels that nobody listed, and release those that reach both thresholds, in their order."""
    check_account("above", table)
    if given := [*_list_special(request), *(["method"] if request.method == "gaps" else [])]:
        raise InvalidParameter(
            f"above.{given[0]} must not be given where nobody listed the labels: it is about a list, asked "
            "item by item."
        )
    question = find_items(table, request.item, request.domain, request.where)
    epsilon = to_fraction(request.epsilon)
    rho = find_histogram_rho("above.measure_noise", request.measure_noise, epsilon, table, question)
    mechanism = build_unlisted(question, epsilon, rho, threshold=request.threshold)
    return (yield from release_above(mechanism, request, table, question))
