"""The items of a domain above a threshold.

A sparse vector over their counts, then a measurement.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, Literal, cast, final

from sordino.constraints import (
    COUNT,
    FINITE,
    POSITIVE,
    SHARE,
    TRUTH,
    Number,
    OrNone,
    one_of,
    to_fraction,
)
from sordino.cost import ZCDP, Cost, Pure, compose
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.estimators import lower_bound
from sordino.estimators.rows import estimate_rows, share_confidence
from sordino.mechanisms import AdaptiveSparseVector, GumbelSparseVector, SparseVector
from sordino.population import ColumnNames
from sordino.questions import CountQuestion, Domain, PrivacyUnit
from sordino.questions.labels import MOST_CELLS
from sordino.releases import Positives
from sordino.sensitivity import Sensitivity
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
    choose_threshold,
    count_items_of_a_unit,
    find_histogram_rho,
    find_histogram_terms,
    release_above,
)
from sordino.session.request import (
    CONFIDENCE,
    LISTED,
    SIMULTANEOUS_MEANS,
    Request,
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
from sordino.session.results import AboveItem, AboveItems
from sordino.session.selection_noise import choose_finder

Finder = SparseVector | AdaptiveSparseVector


def build_finder(*, adaptive: bool, positives: int, **options: Any) -> Finder:
    """Return the sparse vector that options ask for."""
    return (
        AdaptiveSparseVector(at_least=positives, **options)
        if adaptive
        else SparseVector(positives=positives, **options)
    )


def build_watch(
    unit: PrivacyUnit, *, sensitivity: Any, adaptive: bool, **options: Any
) -> SparseVector | AdaptiveSparseVector:
    """Return the sparse vector of a stream, for the neighbors of a unit.

    Raises
    ------
    InvalidParameter
        If an option is none of a stream, or the sensitivity is for other neighbors.
    """
    if never := {"domain_size", "passes"} & options.keys():
        raise InvalidParameter(
            f"watch.{min(never)} must not be given: a stream cannot go back, and has no domain."
        )
    # Anything but a Sensitivity is refused by the mechanism, in its own words.
    if isinstance(sensitivity, Sensitivity) and sensitivity.adjacency != unit.adjacency:
        raise InvalidParameter(
            "watch.sensitivity must be for the adjacency of the session, "
            f"{unit.adjacency!r}; got {sensitivity.adjacency!r}."
        )
    return build_finder(
        sensitivity=sensitivity, adaptive=TRUTH("watch.adaptive", adaptive), **options
    )


def expected_run(domain: Domain | None, positives: int) -> int | None:
    """Return how many items of a domain come before one found, if those are spread evenly."""
    size = size_of(domain)
    return None if size is None else max(1, math.ceil(Fraction(size, positives)))


@final
class AboveRequest(Request[AboveItems]):
    """Release which items of a public domain more than `threshold` units touch.

    Where a unit has few items all of them are counted with noise, and those that reach the
    threshold are released with these counts; that costs epsilon, whatever is found. Else they are
    asked one after the other, in the order of the domain.

    Then an item that is not found costs nothing, and what was not found returns to a pure ledger.
    It ends when enough was found: items further back in the domain are then not asked (`asked`,
    `complete`). If the largest ones matter most, use `top_k`.

    Returns
    -------
    AboveItems
        Rows with item, gap, branch, estimate, low, high, true_low, true_high, in the order of the
        domain.

    Raises
    ------
    InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict,
    DataSourceError
        As for `top_k`.

    Notes
    -----
    What is measured, and so with how much noise, is chosen by what was found; the measurement stays
    within its share.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": range(900), "product": ["tea", "rice", "tea"] * 300})
    >>> session = sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7))
    >>> popular = session.above("product", threshold=400, positives=2, epsilon=2,
    ...                         domain=["rice", "tea"])
    >>> [row.item for row in popular]
    ['tea']
    """

    name: ClassVar[str] = "above"
    chooses: ClassVar[bool] = True

    item: ColumnNames = parameter(checked_columns, "Column of labels, or several.", kw_only=False)
    threshold: Number = parameter(FINITE, "Public threshold.", more="It is about the counts.")
    positives: int = parameter(
        COUNT,
        "Stop after so many were found.",
        more="In a range at most 2^20. With `adaptive` it finds at least so many before it stops, "
        "if they are there.",
    )
    epsilon: Number = parameter(POSITIVE, "Budget of this release.")
    domain: Any = parameter(
        accept_domain, "Which labels can be released.", more="As for `top_k`.", default=None
    )
    where: str | None = parameter(checked_later, "A row predicate.", default=None)
    adaptive: bool = parameter(
        TRUTH,
        "Find what lies far above with a cheaper test, and so more: C at least.",
        default=False,
    )
    measure_share: Number | None = parameter(
        OrNone(SHARE),
        "Share of epsilon for a fresh measurement of what was found.",
        more="It gives intervals, and is unspent if nothing was found. Without it the gaps alone "
        "give estimates and lower bounds, at no extra cost.",
        default=None,
    )
    simultaneous: bool = parameter(TRUTH, SIMULTANEOUS_MEANS, default=False)
    # The sparse vector checks its own parameters; those that are not given keep its defaults.
    noise: Literal["exponential", "laplace", "gumbel"] | None = parameter(
        OrNone(one_of("exponential", "laplace", "gumbel")),
        "Of the answers: exponential or laplace, both pure, with gaps; or gumbel, without, which "
        "needs a measurement. If nothing is said, what the account gets more from.",
        default=None,
    )
    measure_noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")), f"Of the measurement. {NOISE_MEANS}", default=None
    )
    split: Number | Literal["variance", "success"] | None = parameter(
        checked_later,
        "variance (if nothing is said), success, or the share of epsilon for the threshold.",
        default=None,
    )
    correction: Number | Literal["optimal"] | None = parameter(
        checked_later,
        'Public number added to the threshold, or "optimal" for many items of which few lie above.',
        more=(
            "Without one each item below the threshold has its own chance of being found by noise."
        ),
        default=None,
    )
    correction_run: int | None = parameter(
        checked_later,
        "How many lie below before one above; the size of the domain over C if nothing is said.",
        more="Not of a domain that is only assumed to be public.",
        default=None,
    )
    correction_margin: Number | None = parameter(
        checked_later, "How far they keep from the threshold; 0 if nothing is said.", default=None
    )

    method: Literal["gaps", "histogram"] | None = parameter(
        OrNone(one_of("gaps", "histogram")),
        "gaps: a sparse vector, which stops after C; histogram: count all with noise, then take "
        "all above, for people with few items. If nothing is said, what has less noise.",
        default=None,
    )

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        return {
            "item": self.item,
            "where": self.where,
            "threshold": to_fraction(self.threshold),
            "positives": self.positives,
            "adaptive": self.adaptive,
        }

    def steps(self, table: Table) -> Steps[AboveItems]:
        """Ask every item in domain order, then measure what was found if a share is for that."""
        if is_unlisted(self.domain):
            return (yield from release_above_unlisted(self, table))
        question = ask_items(table, self.name, self.item, self.domain, self.where)
        if is_above_by_histogram(self, table, question):
            return (yield from release_above_by_histogram(self, table, question))
        check_listable("above.positives", self.positives, question.domain)
        epsilon, threshold = to_fraction(self.epsilon), to_fraction(self.threshold)
        rest = epsilon * (0 if self.measure_share is None else to_fraction(self.measure_share))
        find = self._build_finder(question.domain, question.sensitivity, epsilon - rest, threshold)
        # Each item that is found spends tokens.
        most = find.tokens // min(find.branch_tokens)
        paid: Cost = Pure(epsilon=rest)
        if self.measure_share is not None:
            check_measurable("above", question, rest, most)
        terms = find_terms(
            "above.noise, as measure_noise,",
            table.price,
            compose(find.cost, paid),
            forced=self.noise == "gumbel" or self.measure_noise == "gaussian",
        )
        chosen, rho = self._choose_noise(question, terms, find, rest, most)
        if rho is not None:
            paid = ZCDP(rho=rho)

        charged = yield Reservation(
            # How many items are measured is known only after they are found: a cost is reserved
            # that covers any number of them.
            (chosen,) if self.measure_share is None else (chosen, paid),
            self.detail(),
            question.domain,
        )
        counts = charged.read(question)
        # A domain that was assumed public may turn out to be empty.
        if not len(counts.labels):
            each, together = self._share_confidence()
            return AboveItems(
                rows=(),
                asked=0,
                complete=True,
                confidence=float(each),
                together=together,
                mechanism=(chosen,),
                **charged.nothing,
            )
        found = charged.release(chosen, counts.values, **places(counts))
        mechanisms: tuple[Any, ...] = (chosen,)
        spent: Cost = found.cost
        # Without a measurement only the gap bounds a count, from below.
        each, together = self._share_confidence()
        low = true_low = _gap_lower_bounds(found, each)
        high: list[float | None] = [None] * found.indices.size
        true_high, estimates = high, found.estimates
        if self.measure_share is not None and found.indices.size:
            # Chosen by what was released before, at the same cost each time:
            # docs/explanation/refunds.md.
            measured = measure(question, rest, rho, found.indices.size)
            fresh = charged.release(measured, counts.at(found.indices))
            said = estimate_rows(
                found,
                fresh,
                confidence=CONFIDENCE,
                simultaneous=self.simultaneous,
                capped=counts_by_some_rows(table, self),
            )
            low, high = said.low.tolist(), said.high.tolist()
            true_low, true_high = said.true_low.tolist(), said.true_high.tolist()
            estimates, each, together = said.estimate, said.confidence, said.together
            # What a transcript spent is an epsilon of that transcript, and no rho: beside Gaussian
            # noise what the mechanism costs is said.
            mechanisms = (chosen, measured)
            spent = compose(spent if rho is None else chosen.cost, fresh.cost)
        rows = tuple(
            AboveItem(
                item=counts.labels[index],
                # Gumbel noise has no gaps.
                gap=None if math.isnan(found.gaps[i]) else float(found.gaps[i]),
                branch=int(found.branches[i]),
                estimate=float(estimates[i]),
                low=low[i],
                high=high[i],
                true_low=true_low[i],
                true_high=true_high[i],
            )
            for i, index in enumerate(found.indices.tolist())
        )
        return AboveItems(
            rows=rows,
            asked=found.asked,
            complete=found.asked == len(counts.labels),
            confidence=float(each),
            together=together,
            mechanism=mechanisms,
            cost=spent,
            simulated=found.simulated,
        )

    def _choose_noise(
        self, question: CountQuestion, terms: Terms | None, find: Finder, rest: Fraction, most: int
    ) -> tuple[Finder | GumbelSparseVector, Fraction | None]:
        """Return what finds, and the rho of Gaussian noise that measures; None with pure noise."""
        # What is special about pure noise was asked for by name, or the rows of a range are not
        # listed.
        shaped = self.adaptive or any(
            given is not None
            for given in (self.split, self.correction, self.correction_run, self.correction_margin)
        )
        alone = self.measure_share is None or shaped or not_listed(question.domain) is not None
        if alone and self.noise == "gumbel":
            raise InvalidParameter(
                "above.noise must be exponential or laplace without measure_share, with adaptive, "
                "split or a correction, and for the labels of a range; got 'gumbel'."
            )
        if self.measure_share is None:
            if self.measure_noise is not None:
                raise InvalidParameter(
                    "above.measure_noise must go with measure_share; got "
                    f"{self.measure_noise!r} alone. Give a share of epsilon for the measurement."
                )
            return find, None
        each, _ = share_confidence(CONFIDENCE, most, simultaneous=self.simultaneous)
        rho = choose_rho(
            terms,
            self.measure_noise,
            # The rule looks at as many items as can be found.
            measure(question, rest, None, most),
            question.joint(most, "l2"),
            paid=compose(find.cost, Pure(epsilon=rest)) if alone else Pure(epsilon=rest),
            beside=find.cost if alone else None,
            confidence=each,
        )
        if terms is not None and terms.open and rho is None:
            # No interval is shorter, so that the account keeps its epsilons.
            terms = None
        chosen = find if alone else choose_finder(terms, self.noise, cast("SparseVector", find))
        return chosen, rho

    def _share_confidence(self) -> tuple[Number, float]:
        """Return the confidence of each bound that a gap gives, and that of all together."""
        # At most so many are found, and the chances to be wrong add up: nothing is known of how
        # they depend.
        wrong = 1 - to_fraction(CONFIDENCE)
        if self.simultaneous:
            return 1 - wrong / self.positives, CONFIDENCE
        return CONFIDENCE, float(max(Fraction(0), 1 - wrong * self.positives))

    def _build_finder(
        self, domain: Domain | None, sensitivity: Any, epsilon: Fraction, threshold: Fraction
    ) -> Finder:
        run = self.correction_run
        # Only these rules need a run. The public size of the domain gives one.
        if run is None and (self.correction == "optimal" or self.split == "success"):
            run = expected_run(domain, self.positives)
        shape = {
            "noise": None if self.noise == "gumbel" else self.noise,
            "split": self.split,
            "correction": self.correction,
            "correction_run": run,
            "correction_margin": self.correction_margin,
        }
        return build_finder(
            adaptive=self.adaptive,
            positives=self.positives,
            threshold=threshold,
            epsilon=epsilon,
            sensitivity=sensitivity,
            domain_size=not_listed(domain),
            **{name: value for name, value in shape.items() if value is not None},
        )


def _gap_lower_bounds(found: Positives, confidence: Number) -> list[float | None]:
    """Return lower bounds that are valid after selection, from the gaps.

    None is proved where an item has several tests.
    """
    if not isinstance(found.mechanism, SparseVector):
        return [None] * found.indices.size
    # Selective: the bound must hold for what was found. See docs/explanation/after-selection.md.
    bounds = lower_bound(found, confidence=confidence, selective=True).tolist()
    # No count lies below 0, so 0 is said where the gap bounds nothing. Were nothing said there,
    # what is said would be bounds of large gaps alone, and wrong far more often than promised.
    return [max(0.0, bound) for bound in bounds]


# ---- from a noisy histogram ----------------------------------------------------------------------
# Items above a threshold from a noisy histogram: where a unit has few items, one release finds
# and measures.
# The guarantee and the intervals are those of a top-k from a histogram:
# docs/proofs/histogram-top-k.md.


# What is special about a sparse vector; a histogram has none of it.
_OF_A_SPARSE_VECTOR = ("noise", "split", "correction", "correction_run", "correction_margin")


def is_above_by_histogram(request: AboveRequest, table: Table, question: CountQuestion) -> bool:
    """Tell whether items above a threshold come from a noisy histogram: as asked, or by the rule.

    Raises
    ------
    InvalidParameter
        If it was asked for, and there is none with these parameters.
    """
    special = _list_special(request)
    if request.method == "histogram":
        _check_counting(question, special)
        return True
    if request.method == "gaps" or special or not_listed(question.domain) is not None:
        return False
    most = count_items_of_a_unit(table, question)
    if most is None:
        return False
    share = 1 - (
        Fraction(0) if request.measure_share is None else to_fraction(request.measure_share)
    )
    asked = (
        "above.measure_noise",
        request.measure_noise,
        to_fraction(request.epsilon),
        table,
        question,
    )
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
    """Tell whether the noise on a histogram's count is smaller than that of a sparse vector's test.

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
        Of Gaussian noise on the histogram, over the square of epsilon; None where its noise is
        pure.
    found : Fraction or None
        Of Gumbel noise that finds them, likewise; None where that noise is pure.
    """
    moves = 2 if replaced else 1
    # Two draws of noise decide a test: the threshold's and the answer's, with the best split
    # between them.
    test = (1 + math.pow(moves * positives, 2 / 3)) ** 3 / float(share) ** 2
    if found is not None:
        # Two Gumbel draws of one scale: docs/proofs/gumbel-stage.md has the rho of one that is
        # found.
        stage = 0.514 if replaced else 0.228
        test = min(test, math.pi**2 / 3 * stage * positives / float(found))
    # So far all counts move together: in L1, or squared in L2.
    moving = moves * most
    return (2 * moving**2 if rho is None else moving / (2 * float(rho))) < test


def _list_special(request: AboveRequest) -> list[str]:
    """Return what was given of what belongs to a sparse vector, which asks item by item."""
    given = [name for name in _OF_A_SPARSE_VECTOR if getattr(request, name) is not None]
    return [*given, "adaptive"] if request.adaptive else given


def _check_counting(question: CountQuestion, special: list[str]) -> None:
    """Refuse a histogram with parameters that it cannot have."""
    if special:
        raise InvalidParameter(
            f"above.{special[0]} must not be given with method 'histogram': it is about a sparse "
            "vector."
        )
    size = not_listed(question.domain)
    if size is not None and size > MOST_CELLS:
        raise InvalidParameter(
            f"above.method must be 'gaps' for more than {MOST_CELLS:,} labels of a range, all of "
            f"which a histogram would count; got 'histogram' with {size:,}."
        )
    check_bounded("above", question)


def release_above_by_histogram(
    request: AboveRequest, table: Table, question: CountQuestion
) -> Steps[AboveItems]:
    """Count all items with noise, and release those that reach the threshold, with that count."""
    epsilon = to_fraction(request.epsilon)
    rho = find_histogram_rho("above.measure_noise", request.measure_noise, epsilon, table, question)
    # Whoever reaches the threshold is released, however many these are.
    most = size_of(question.domain) or LISTED
    if not_listed(question.domain) is not None:
        # What noise alone would release is bounded by public numbers, as in a histogram.
        choose_threshold("above.threshold", request.threshold, question, epsilon, rho, most)
    mechanism = build_listed(question, epsilon, rho, k=most, threshold=request.threshold)
    return (
        yield from release_above(
            mechanism, request, table, question, threshold=float(to_fraction(request.threshold))
        )
    )


def release_above_unlisted(request: AboveRequest, table: Table) -> Steps[AboveItems]:
    """Count all labels nobody listed, and release those that reach both thresholds, in order."""
    check_account("above", table)
    if given := [*_list_special(request), *(["method"] if request.method == "gaps" else [])]:
        raise InvalidParameter(
            f"above.{given[0]} must not be given where nobody listed the labels: it is about a "
            "list, asked item by item."
        )
    question = find_items(table, request.item, request.domain, request.where)
    epsilon = to_fraction(request.epsilon)
    rho = find_histogram_rho("above.measure_noise", request.measure_noise, epsilon, table, question)
    mechanism = build_unlisted(question, epsilon, rho, threshold=request.threshold)
    return (
        yield from release_above(
            mechanism, request, table, question, threshold=float(to_fraction(request.threshold))
        )
    )
