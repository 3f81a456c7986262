"""The set of the items that the most units touch: chosen at once, without order and gaps, then measured.

Claim: the items are chosen by `JointTopK` (docs/proofs/joint-top-k.md), and measured with noise of its own.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.constraints import shown, to_fraction
from sordino.cost import ZCDP, Pure, compose
from sordino.errors import InvalidParameter
from sordino.estimators.rows import estimate_rows, share_confidence
from sordino.mechanisms import JointTopK
from sordino.session.noise_choice import choose_rho, choose_set, find_terms, measure, select_fewer
from sordino.session.request import (
    CONFIDENCE,
    Reservation,
    Steps,
    Table,
    check_measurable,
    not_listed,
    places,
    size_of,
)
from sordino.session.results import TopSetItem, TopSetItems

if TYPE_CHECKING:
    from sordino.session.top_k import TopKRequest

MOST_IN_A_SET = 1 << 12
"""Of a larger set a release may take minutes, by how many different counts there are."""


def check_set(request: TopKRequest) -> None:
    """Refuse what a set has not: a threshold, noise by name, and parts of a measurement without one."""
    if request.method is not None:
        raise InvalidParameter(
            f"top_k.method must be None for a set, which has neither gaps nor "
            f"counts of all items; got {request.method!r}. Leave one of them out."
        )
    for name, why in (
        ("threshold", "because all of it is chosen at once"),
        ("noise", "because it is no noise on counts that chooses one"),
    ):
        given = getattr(request, name)
        if given is not None:
            raise InvalidParameter(f"top_k.{name} must be None for a set, {why}; got {shown(given)}.")
    if request.k > MOST_IN_A_SET:
        raise InvalidParameter(f"top_k.k must be at most {MOST_IN_A_SET} for a set; got {request.k}.")


def release_set(request: TopKRequest, table: Table) -> Steps[TopSetItems]:
    """Choose the set, then measure its items unless all of epsilon has chosen."""
    k, question = request.k, request.ask(table)
    epsilon, share = to_fraction(request.epsilon), request.share
    rest = epsilon * (1 - share)
    unlisted = not_listed(question.domain)

    def build(epsilon: Fraction) -> JointTopK:
        return JointTopK(k=k, epsilon=epsilon, sensitivity=question.sensitivity, domain_size=unlisted)

    choose = build(epsilon * share)
    pure = measure(question, rest, None, k) if rest else None
    # What is paid is what pure noise of so much epsilon costs; a set costs less where ranges count.
    said = Pure(epsilon=choose.cost.pure())
    terms = find_terms(
        "top_k.measure_noise",
        table.price,
        said if pure is None else compose(said, pure.cost),
        forced=request.measure_noise == "gaussian",
    )
    each, _ = share_confidence(CONFIDENCE, k, simultaneous=request.simultaneous)
    rho = None
    if pure is not None:
        moved = question.joint(k, "l2")
        rho = choose_rho(terms, request.measure_noise, pure, moved, paid=pure.cost, confidence=each)
    if terms is not None and terms.open and rho is None:
        # Nothing leaves the epsilons behind, so that the account keeps them.
        terms = None
    choose = choose_set(terms, said, choose, build)
    mechanisms: tuple[Any, ...] = (choose,)
    if pure is not None:
        mechanisms = (choose, measure(question, rest, rho, k))
    # Exactly k items are measured, unless labels are counted only later: a cost covers any number of them.
    parts = mechanisms
    if size_of(question.domain) is None:
        # Fewer items have a larger rate of the noise: what none can have is refused before the charge.
        _ = select_fewer(choose, 1)
        if pure is not None:
            check_measurable("top_k", question, rest, k)
            parts = (choose, Pure(epsilon=rest) if rho is None else ZCDP(rho=rho))

    charged = yield Reservation(parts, request.detail(), question.domain)
    counts = charged.read(question)
    # Labels that were assumed public are counted only now, and may be fewer: then all of them are the set.
    size = len(counts.labels)
    if not size:
        sure = None if pure is None else CONFIDENCE
        return TopSetItems(rows=(), confidence=sure, together=sure, mechanism=mechanisms, **charged.nothing)
    if size < k:
        mechanisms = (select_fewer(choose, size),)
        if pure is not None:
            mechanisms = (*mechanisms, measure(question, rest, rho, size))
    top = charged.release(mechanisms[0], counts.values, **places(counts))
    # In the order of the domain: another one would say more than the set.
    labels = [counts.labels[index] for index in top.indices.tolist()]
    if pure is None:
        rows = tuple(TopSetItem(item=label) for label in labels)
        return TopSetItems(rows=rows, mechanism=mechanisms, cost=top.cost, simulated=top.simulated)
    fresh = charged.release(mechanisms[1], counts.at(top.indices))
    found = estimate_rows(
        top,
        fresh,
        confidence=CONFIDENCE,
        simultaneous=request.simultaneous,
        capped=table.unit.max_rows is not None,
    )
    return TopSetItems(
        rows=tuple(
            TopSetItem(item=label, **found.describe(place), measured=float(found.measured[place]))
            for place, label in enumerate(labels)
        ),
        confidence=found.confidence,
        together=found.together,
        mechanism=mechanisms,
        cost=compose(top.cost, fresh.cost),
        simulated=top.simulated,
    )
