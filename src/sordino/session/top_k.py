"""The items that the most units touch: a selection with gaps, then a measurement of these."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal, cast, final

import numpy as np

from sordino.constraints import (
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
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.estimators.rows import find_unclear, share_confidence
from sordino.mechanisms import HybridTopK, LimitedTopK, NoisyTopK, UnlistedTopK
from sordino.plan import choose_unlisted
from sordino.plan.unlisted import Way
from sordino.population import ColumnNames
from sordino.questions import CountQuestion, Counts, Domain
from sordino.releases import UnlistedTop
from sordino.session.noise_choice import (
    NOISE_MEANS,
    MeasureNoise,
    Terms,
    choose_rho,
    find_terms,
    measure,
)
from sordino.session.noisy_histogram import (
    build_listed,
    build_unlisted,
    check_bounded,
    count_items_of_a_unit,
    find_histogram_rho,
    find_histogram_terms,
    release_best,
)
from sordino.session.request import (
    CONFIDENCE,
    LISTED,
    SIMULTANEOUS_MEANS,
    ListRequest,
    R,
    Reservation,
    Steps,
    Table,
    accept_domain,
    ask_items,
    check_account,
    check_listable,
    check_measurable,
    checked_columns,
    checked_later,
    counts_by_some_rows,
    find_items,
    is_unlisted,
    not_listed,
    places,
    size_of,
)
from sordino.session.results import TopItem, TopItems, build_top
from sordino.session.selection_noise import choose_selection, select_fewer


class SelectionRequest(ListRequest[R]):
    """Some items of a domain, chosen by how many units touch them, with estimates and intervals."""

    chooses: ClassVar[bool] = True

    item: ColumnNames = parameter(checked_columns, "Column of labels, or several.", kw_only=False)
    epsilon: Number = parameter(
        POSITIVE,
        "Budget of this release.",
        more="`selection_share` of it chooses the items, the rest measures them.",
    )
    domain: Any = parameter(
        accept_domain,
        "Which labels can be released.",
        more='A `Domain` or a list of labels. One made of the table, as ``df["item"].unique()``, '
        'tells who is in it: say "assume-public" for that. Other labels are dropped.',
        default=None,
    )
    where: str | None = parameter(
        checked_later, "A row predicate (docs/decisions/0005-predicates.md).", default=None
    )
    measure_noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")), f"Of the measurement. {NOISE_MEANS}", default=None
    )
    simultaneous: bool = parameter(TRUTH, SIMULTANEOUS_MEANS, default=False)

    def ask(self, table: Table) -> CountQuestion:
        """Return the question, once it is known that there may be so many items."""
        question = ask_items(table, self.name, self.item, self.domain, self.where)
        size = size_of(question.domain)
        if size is not None and self.many > size:
            raise InvalidParameter(
                f"{self.name}.k must be at most the size of the domain, {size}; got {self.many}."
            )
        check_listable(f"{self.name}.k", self.many, question.domain)
        return question


@final
class TopKRequest(SelectionRequest[TopItems]):
    """Release the `k` items of a public domain that the most units touch.

    They come with estimates and intervals. With a threshold only items that lie above it are
    released, at most `k`; of what selects them the unspent part returns to a pure ledger. If there
    is none, nothing is measured, and that part returns as well.

    Returns
    -------
    TopItems
        Rows with rank, item, estimate, low, high, gap, true_low, true_high, measured, combined,
        tie, too_few.

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
    Where a unit has few items the best of a noisy histogram are released. Else they are selected
    with gaps, and then measured. With a threshold the selection says how many there are. The
    measurement is chosen after that, for so many items, and stays within what was reserved for it:
    an adaptive choice between mechanisms of the same epsilon, made by what was released before.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": ["a", "b", "c", "a"],
    ...                        "product": ["tea", "tea", "tea", "rice"]})
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
        "Share of epsilon that chooses; the rest measures. Half of it if nothing is said, .7 where "
        "nobody listed the labels. There, and of a set, it may be 1: nothing is measured then.",
        default=None,
    )
    noise: Literal["exponential", "laplace", "gumbel"] | None = parameter(
        OrNone(one_of("exponential", "laplace", "gumbel")),
        "Of the selection: exponential (one-sided) or laplace, both pure, with gaps; or gumbel, "
        "without. If nothing is said, what the account gets more from.",
        more="Gumbel noise selects better for what is paid on an account with a delta, and on a "
        "zCDP account.",
        default=None,
    )
    method: Literal["gaps", "histogram"] | None = parameter(
        OrNone(one_of("gaps", "histogram")),
        "gaps: select, then measure; histogram: count all with noise, then take the best, for "
        "people with few items. If nothing is said, what confuses items less.",
        more="The noise of a selection grows with k, that of a histogram with how many items a "
        "unit counts for; all of epsilon does both there. The rule goes by k, `max_rows` (1 where "
        "each row is a unit), the size of the domain and the selection share.",
        default=None,
    )
    kth_count: Number | None = parameter(
        OrNone(NOT_NEGATIVE),
        "Where nobody listed the labels: about how large the K-th count is, a public guess, by "
        "which the way to find them is chosen.",
        more="Such as that of last year's release. Of the ways that would find it the one with "
        "the least noise is taken; without a guess, the one with the least threshold and noise "
        "together. `why` of the release tells.",
        default=None,
    )

    def derive(self) -> None:
        """Check what several parameters must satisfy together."""
        if self.selection_share is not None:
            whole = is_unlisted(self.domain)
            (WHOLE_SHARE if whole else SHARE)("top_k.selection_share", self.selection_share)
        if self.kth_count is not None and not is_unlisted(self.domain):
            raise InvalidParameter(
                "top_k.kth_count belongs to Domain.unlisted (--unlisted); got "
                f"{shown(self.kth_count)} with labels that are listed."
            )
        if self.share == 1 and (self.measure_noise or self.simultaneous):
            raise InvalidParameter(
                "top_k.selection_share must be below 1 with measure_noise or simultaneous, which "
                "are about a measurement; got 1."
            )

    @property
    def share(self) -> Fraction:
        """The share of epsilon that chooses."""
        if self.selection_share is not None:
            return to_fraction(self.selection_share)
        # Unlisted labels must reach a threshold, which lies the higher the less there is for the
        # choice.
        return Fraction(7, 10) if is_unlisted(self.domain) else Fraction(1, 2)

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        return {
            "item": self.item,
            "k": self.many,
            "threshold": None if self.threshold is None else to_fraction(self.threshold),
            "kth_count": None if self.kth_count is None else to_fraction(self.kth_count),
            "where": self.where,
        }

    def steps(self, table: Table) -> Steps[TopItems]:
        """Choose with gaps, then measure what was chosen."""
        if is_unlisted(self.domain):
            return (yield from release_unlisted(self, table))
        k = self.many
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
                "top_k.noise must be exponential or laplace with a threshold, and for the labels "
                "of a range; got 'gumbel'."
            )
        if rho is not None:
            paid = ZCDP(rho=rho)
        if size is None:
            # Fewer items have a larger rate of the noise: what none can have is refused before the
            # charge.
            _ = select_fewer(choose, 1)
        measure_all = measure(question, rest, rho, k)

        charged = yield Reservation(
            (choose, measure_all if fixed else paid),
            self.detail(),
            question.domain,
        )
        counts = charged.read(question)
        # Labels that were assumed public are counted only now, and may be fewer: then all of them
        # are listed.
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
        # Nothing is measured, so the share for it is never drawn, and returns:
        # docs/explanation/refunds.md.
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
            capped=counts_by_some_rows(table, self),
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
            "k": self.many,
            "epsilon": epsilon,
            "sensitivity": question.sensitivity,
            "noise": noise,
            "domain_size": unlisted,
        }
        if threshold is None:
            return NoisyTopK(**chosen)
        # A list of k items leaves nobody but the threshold: less noise, where counts move both
        # ways.
        alone = size if size == self.many and unlisted is None else None
        return HybridTopK(threshold=threshold, candidates=alone, **chosen)


# ---- the best of a noisy histogram ---------------------------------------------------------------
# A top-k from a noisy histogram: where a unit has few items, one release chooses and measures.
# Which of the two ways is taken follows from public numbers. Proof of the guarantee and of the
# intervals, and where the rule comes from: docs/proofs/histogram-top-k.md.


# Rounds in which the factor below settles to a few digits, from whatever start.
_ROUNDS = 20


def is_by_histogram(request: TopKRequest, table: Table, question: CountQuestion) -> bool:
    """Tell whether a top-k is the best of a noisy histogram.

    Because it was asked for, or by the rule.

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
        request.many,
        most=most,
        size=size_of(question.domain),
        share=float(request.share),
        replaced=table.unit.adjacency == "replace-one",
        of_rho=None if terms is None else find_share_of_rho(terms, epsilon, request.share),
    )


def find_share_of_rho(terms: Terms, epsilon: Fraction, share: Fraction) -> float | None:
    """Return which share of the rho a selection has that has a share of the epsilon.

    None without a rho.

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
    # How rare an error is that matters, in nats: of that order is the share of items that can be
    # confused.
    depth = max(1.0, math.log(size / k)) if size is not None else 1.0
    if of_rho is not None:
        return most <= depth * k / ((8 if replaced else 16) * of_rho)
    # Two-sided noise on both of two items has a heavier difference than one-sided noise of the same
    # rate.
    factor = 1.0
    for _ in range(_ROUNDS):
        factor = 1 + math.log1p(factor * depth / 2) / depth
    return k / (share * most) >= factor


def _check_histogram(request: TopKRequest, question: CountQuestion) -> None:
    """Refuse a histogram with parameters that it cannot have."""
    if request.noise is not None:
        raise InvalidParameter(
            f"top_k.noise must not be given with method 'histogram'; got {request.noise!r}. Its "
            "noise is that of the measurement: give measure_noise."
        )
    check_bounded("top_k", question)


def release_by_histogram(
    request: TopKRequest, table: Table, question: CountQuestion
) -> Steps[TopItems]:
    """Count all items with noise, and release the best of them with what was counted."""
    epsilon = to_fraction(request.epsilon)
    rho = find_histogram_rho("top_k.measure_noise", request.measure_noise, epsilon, table, question)
    mechanism = build_listed(question, epsilon, rho, k=request.many, threshold=request.threshold)
    return (yield from release_best(mechanism, request, table, question, k=request.many))


# ---- labels that nobody listed -------------------------------------------------------------------
# The labels that the most units touch, where nobody lists the labels: they are found, or stay
# unknown.
# Claim: what is selected, or counted, is private but for a failure of the delta that the domain
# states (docs/proofs/unlisted.md). What was selected is measured with noise of its own.
# Which way is taken follows from public numbers, and is said: `plan.choose_unlisted`.


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
    best = _BEST * request.many if unbounded else None
    question = find_items(table, request.item, request.domain, request.where, best=best)
    domain, epsilon = cast("Domain", question.domain), to_fraction(request.epsilon)
    delta = cast("Fraction", domain.delta)
    if best is not None:
        _check_unbounded(request)
        _check_ways(request, ("one-sided",))
        limited = LimitedTopK(
            k=request.many,
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
        rho = find_histogram_rho(
            "top_k.measure_noise", request.measure_noise, epsilon, table, question
        )
        found = choose_unlisted(
            k=request.many,
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
            return (yield from release_best(counts, request, table, question, why, k=request.many))
    select = UnlistedTopK(
        k=request.many,
        epsilon=epsilon * request.share,
        delta=delta,
        sensitivity=question.sensitivity,
        least=domain.least,
        noise="laplace" if request.noise == "laplace" else "exponential",
        above=request.threshold,
    )
    return (yield from _select_and_measure(request, table, question, select, why))


# ---- which way -----------------------------------------------------------------------------------


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
    """Refuse a guess of counts where there is one way, and Gaussian noise in the way without it."""
    if ways == ("one-sided",) and request.measure_noise == "gaussian":
        raise InvalidParameter(
            "top_k.measure_noise must be laplace where nobody listed the labels and they are "
            "selected with gaps; got 'gaussian'. Leave out method and noise, and give max_rows: "
            "Gaussian noise counts all."
        )
    if request.kth_count is not None and len(ways) == 1:
        raise InvalidParameter(
            f"top_k.kth_count must not be given where one way is left to find labels; got "
            f"{request.kth_count!r} beside method, noise, measure_noise, or no max_rows."
        )


def _check_request(request: TopKRequest) -> None:
    """Refuse what a search for labels has not."""
    for name, given, why in (
        (
            "noise",
            "gumbel" if request.noise == "gumbel" else None,
            "a threshold is part of the search",
        ),
        (
            "noise",
            request.noise if request.method == "histogram" else None,
            "a histogram has the noise of its measurement, measure_noise",
        ),
    ):
        if given is not None:
            raise InvalidParameter(
                f"top_k.{name} must not be {given!r} where nobody listed the labels "
                f"(Domain.unlisted, --unlisted), because {why}."
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
                f"top_k.{name} must not be given where nobody listed the labels and nothing bounds "
                "how many a person counts for. Give max_rows, which may be generous."
            )


# ---- a selection, then a measurement -------------------------------------------------------------


def _select_and_measure(
    request: TopKRequest, table: Table, question: CountQuestion, select: Selection, why: str | None
) -> Steps[TopItems]:
    """Select with gaps, then measure what was found unless all of epsilon has searched."""
    # Said before the charge: a place is held for each of the k, whatever is found.
    if request.many > LISTED:
        raise InvalidParameter(
            f"top_k.k must be at most {LISTED} where a selection finds the labels; got "
            f"{request.many}."
        )
    rest = to_fraction(request.epsilon) * (1 - request.share)
    # How many are found is known only after the charge; a measurement of any number of them must be
    # possible.
    if rest:
        check_measurable("top_k", question, rest, request.many)

    charged = yield Reservation(
        (select, Pure(epsilon=rest)) if rest else (select,), request.detail(), question.domain
    )
    counts: Counts = charged.read(question)
    top: UnlistedTop = charged.release(select, counts.values, labels=counts.labels)
    found = len(top.labels)
    # Without a bound on units the threshold hangs on a count, and is no public number.
    threshold = select.threshold if isinstance(select, UnlistedTopK) else None
    # Nothing is measured, so the share for it is never drawn, and returns:
    # docs/explanation/refunds.md.
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
        capped=counts_by_some_rows(table, request),
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
            tie=unclear[rank],
        )
        for rank, label in enumerate(top.labels)
    )
