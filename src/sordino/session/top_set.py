"""The set of items that the most units touch: chosen at once, without order or gaps, then measured.

Claim: the items are chosen by `JointTopK` (docs/proofs/joint-top-k.md), and measured with noise of
its own.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, final

from sordino.constraints import WHOLE_SHARE, Number, OrNone, to_fraction
from sordino.cost import ZCDP, Pure, compose
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.estimators.rows import estimate_rows, share_confidence
from sordino.mechanisms import JointTopK
from sordino.session.noise_choice import choose_rho, find_terms, measure
from sordino.session.request import (
    CONFIDENCE,
    Reservation,
    Steps,
    Table,
    check_measurable,
    counts_by_some_rows,
    not_listed,
    places,
    size_of,
)
from sordino.session.results import TopSetItem, TopSetItems
from sordino.session.selection_noise import choose_set, select_fewer
from sordino.session.top_k import SelectionRequest

MOST_IN_A_SET = 1 << 12
"""Of a larger set a release may take minutes, by how many different counts there are."""


@final
class TopSetRequest(SelectionRequest[TopSetItems]):
    """Release the set of the `k` items that the most units touch, without order and gaps.

    All of it is chosen at once (`JointTopK`), and then measured. It finds more of the k largest
    than `top_k` where the k-th is at least about 4k over the epsilon that chooses, and can be far
    worse below: docs/how-to/choose-a-selection.md.

    Returns
    -------
    TopSetItems
        Rows with item, estimate, low, high, true_low, true_high, measured, in the order of the
        domain.

    Raises
    ------
    InvalidParameter
        If k is above 4096, and as for `top_k`.
    UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict, DataSourceError
        As for `top_k`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": range(900), "product": ["tea", "rice", "tea"] * 300})
    >>> session = sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7))
    >>> best = session.top_set("product", k=2, epsilon=8, domain=["coffee", "rice", "tea"])
    >>> [row.item for row in best]
    ['rice', 'tea']
    """

    name: ClassVar[str] = "top_set"

    selection_share: Number | None = parameter(
        OrNone(WHOLE_SHARE),
        "Share of epsilon that chooses; the rest measures. Half of it if nothing is said; at 1 "
        "nothing is measured.",
        default=None,
    )

    def derive(self) -> None:
        """Check what several parameters must satisfy together."""
        if self.k is not None and self.k > MOST_IN_A_SET:
            raise InvalidParameter(f"top_set.k must be at most {MOST_IN_A_SET}; got {self.k}.")
        whole = self.selection_share is not None and to_fraction(self.selection_share) == 1
        if whole and (self.measure_noise or self.simultaneous):
            raise InvalidParameter(
                "top_set.selection_share must be below 1 with measure_noise or simultaneous, which "
                "are about a measurement; got 1."
            )

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        return {"item": self.item, "k": self.many, "where": self.where}

    def steps(self, table: Table) -> Steps[TopSetItems]:
        """Choose the set, then measure its items unless all of epsilon has chosen."""
        k, question = self.many, self.ask(table)
        epsilon = to_fraction(self.epsilon)
        share = (
            Fraction(1, 2) if self.selection_share is None else to_fraction(self.selection_share)
        )
        rest = epsilon * (1 - share)
        unlisted = not_listed(question.domain)

        def build(epsilon: Fraction) -> JointTopK:
            return JointTopK(
                k=k, epsilon=epsilon, sensitivity=question.sensitivity, domain_size=unlisted
            )

        choose = build(epsilon * share)
        pure = measure(question, rest, None, k) if rest else None
        # What is paid is what pure noise of so much epsilon costs; a set costs less where ranges
        # count.
        said = Pure(epsilon=choose.cost.pure())
        terms = find_terms(
            "top_set.measure_noise",
            table.price,
            said if pure is None else compose(said, pure.cost),
            forced=self.measure_noise == "gaussian",
        )
        each, _ = share_confidence(CONFIDENCE, k, simultaneous=self.simultaneous)
        rho = None
        if pure is not None:
            moved = question.joint(k, "l2")
            rho = choose_rho(
                terms, self.measure_noise, pure, moved, paid=pure.cost, confidence=each
            )
        if terms is not None and terms.open and rho is None:
            # Nothing leaves the epsilons behind, so that the account keeps them.
            terms = None
        choose = choose_set(terms, said, choose, build)
        mechanisms: tuple[Any, ...] = (choose,)
        if pure is not None:
            mechanisms = (choose, measure(question, rest, rho, k))
        # Exactly k items are measured, unless labels are counted only later: a cost covers any
        # number.
        parts = mechanisms
        if size_of(question.domain) is None:
            # Fewer items have a larger rate of the noise: what none can have is refused before the
            # charge.
            _ = select_fewer(choose, 1)
            if pure is not None:
                check_measurable("top_set", question, rest, k)
                parts = (choose, Pure(epsilon=rest) if rho is None else ZCDP(rho=rho))

        charged = yield Reservation(parts, self.detail(), question.domain)
        counts = charged.read(question)
        # Labels that were assumed public are counted only now, and may be fewer: then all are the
        # set.
        size = len(counts.labels)
        if not size:
            sure = None if pure is None else CONFIDENCE
            return TopSetItems(
                rows=(), confidence=sure, together=sure, mechanism=mechanisms, **charged.nothing
            )
        if size < k:
            mechanisms = (select_fewer(choose, size),)
            if pure is not None:
                mechanisms = (*mechanisms, measure(question, rest, rho, size))
        top = charged.release(mechanisms[0], counts.values, **places(counts))
        # In the order of the domain: another one would say more than the set.
        labels = [counts.labels[index] for index in top.indices.tolist()]
        if pure is None:
            rows = tuple(TopSetItem(item=label) for label in labels)
            return TopSetItems(
                rows=rows, mechanism=mechanisms, cost=top.cost, simulated=top.simulated
            )
        fresh = charged.release(mechanisms[1], counts.at(top.indices))
        found = estimate_rows(
            top,
            fresh,
            confidence=CONFIDENCE,
            simultaneous=self.simultaneous,
            capped=counts_by_some_rows(table, self),
        )
        return TopSetItems(
            rows=tuple(
                TopSetItem(
                    item=label, **found.describe(place), measured=float(found.measured[place])
                )
                for place, label in enumerate(labels)
            ),
            confidence=found.confidence,
            together=found.together,
            mechanism=mechanisms,
            cost=compose(top.cost, fresh.cost),
            simulated=top.simulated,
        )
