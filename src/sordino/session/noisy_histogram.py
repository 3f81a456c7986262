"""A noisy histogram: all items counted with noise, of which the best or large ones are released.

One thread for `top_k`, `above` and, of labels that nobody listed, `histogram`; each makes its own
rows of it. The guarantee is that of `HistogramTopK` (docs/proofs/histogram-top-k.md), or of
`UnlistedHistogram` where nobody listed the labels (docs/proofs/unlisted.md). The noise that counts
has selected as well: intervals are those of rows that selected themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, cast, final

import numpy as np

from sordino.constraints import Number, shown, to_fraction
from sordino.errors import InvalidParameter
from sordino.estimators.rows import SelectedRows, estimate_histogram_rows
from sordino.mechanisms import HistogramTopK, UnlistedHistogram
from sordino.questions import CountQuestion, Counts, Domain
from sordino.releases import HistogramTop, Label, UnlistedCounts, rank_labels, split_label
from sordino.session.noise_choice import MeasureNoise, Terms, choose_rho, find_terms, measure
from sordino.session.request import (
    CONFIDENCE,
    LISTED,
    Charged,
    Reservation,
    Steps,
    Table,
    counts_by_some_rows,
    not_listed,
    places,
    size_of,
)
from sordino.session.results import AboveItem, AboveItems, TopItem, TopItems
from sordino.session.selection_noise import select_fewer


class CountingRequest(Protocol):
    """What a release by a noisy histogram was asked with."""

    @property
    def simultaneous(self) -> bool:
        """Whether all intervals hold together."""
        ...

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        ...


# A size that any domain stays below: so many answers move together by no more than few of them do.
ANY_SIZE = 1 << 52


def count_items_of_a_unit(table: Table, question: CountQuestion) -> int | None:
    """Return how many items a unit counts for at most; None if nothing bounds that."""
    moving = question.sensitivity.l1
    if moving is None:
        return None
    # A unit that is replaced takes its items away and brings others.
    return int(moving) // (1 if table.unit.adjacency == "add-remove" else 2)


def check_bounded(name: str, question: CountQuestion) -> None:
    """Refuse a histogram that was asked for if nothing bounds how far all counts move together."""
    if question.sensitivity.l1 is None and size_of(question.domain) is None:
        raise InvalidParameter(
            f"{name}.method must be 'gaps' where neither the size of the domain is known nor how "
            "many items a person counts for; got 'histogram'. Give max_rows, or list the labels."
        )


# ---- the mechanism -------------------------------------------------------------------------------


def find_histogram_terms(
    name: str, noise: MeasureNoise | None, epsilon: Fraction, table: Table, question: CountQuestion
) -> Terms | None:
    """Return the terms on which the histogram may have Gaussian noise; None where it is pure.

    Parameters
    ----------
    name : str
        Of the parameter that asks for the noise, for messages.
    noise : {"laplace", "gaussian"} or None
        What the user asks for.
    epsilon : Fraction
        What pure noise would cost.
    table : Table
        Its account decides.
    question : CountQuestion
        What the engine is asked.
    """
    if not_listed(question.domain) is not None:
        # The noise of the labels of a range is drawn without listing them, which is for pure noise.
        if noise == "gaussian":
            raise InvalidParameter(
                f"{name} must be laplace for what is selected of a histogram over the labels of a "
                "range, or of more than 2^20 combinations; got 'gaussian'."
            )
        return None
    pure = measure(question, epsilon, None, _size_for_noise(question))
    return find_terms(name, table.price, pure.cost, forced=noise == "gaussian")


def find_histogram_rho(
    name: str, noise: MeasureNoise | None, epsilon: Fraction, table: Table, question: CountQuestion
) -> Fraction | None:
    """Return the rho of Gaussian noise on all counts, parameters as above.

    None where noise stays pure.
    """
    size = _size_for_noise(question)
    pure = measure(question, epsilon, None, size)
    return choose_rho(
        find_histogram_terms(name, noise, epsilon, table, question),
        noise,
        pure,
        question.joint(size, "l2"),
        paid=pure.cost,
        confidence=CONFIDENCE,
    )


def _size_for_noise(question: CountQuestion) -> int:
    """Return of how many counts the noise must be: all of the domain."""
    size = size_of(question.domain)
    return ANY_SIZE if size is None else size


def choose_threshold(
    name: str,
    asked: Number | None,
    question: CountQuestion,
    epsilon: Fraction,
    rho: Fraction | None,
    size: int,
) -> Number:
    """Return the threshold that was asked for; if none was, the least for one item by noise alone.

    Public numbers decide: at that threshold at most one item is expected to be released that
    nobody has, were all of them so.

    Raises
    ------
    InvalidParameter
        If noise alone would release more rows than memory may hold.
    """
    law = measure(question, epsilon, rho, size).noise
    # The noise is symmetric: as many reach 1 - x as lie at most at x - 1, which are at most 1/size.
    least = max(1, 1 - law.quantile(1 / size)) if size > 1 else 1
    if asked is None:
        return least
    # Counts are whole numbers, and so is their noise.
    alone = size * float(law.sf(math.ceil(to_fraction(asked)) - 1))
    if alone > LISTED:
        raise InvalidParameter(
            f"{name} must be so high that noise alone releases at most {LISTED:,} of "
            f"{size:,} items; got {shown(asked)}, with about {alone:,.0f}. With {least:,} it is "
            "one at most."
        )
    return asked


def build_listed(
    question: CountQuestion,
    epsilon: Fraction,
    rho: Fraction | None,
    *,
    k: int,
    threshold: Number | None,
) -> HistogramTopK:
    """Return what counts the labels of a domain with noise, pure or of a rho."""
    return HistogramTopK(
        k=k,
        sensitivity=question.joint(_size_for_noise(question), "l1" if rho is None else "l2"),
        threshold=threshold,
        domain_size=not_listed(question.domain),
        epsilon=epsilon if rho is None else None,
        rho=rho,
    )


def build_unlisted(
    question: CountQuestion,
    epsilon: Fraction,
    rho: Fraction | None,
    *,
    threshold: Number | None = None,
) -> UnlistedHistogram:
    """Return what counts all labels that nobody listed with noise, pure or of a rho."""
    domain = cast("Domain", question.domain)
    return UnlistedHistogram(
        delta=cast("Fraction", domain.delta),
        sensitivity=question.sensitivity,
        least=domain.least,
        above=threshold,
        epsilon=epsilon if rho is None else None,
        rho=rho,
    )


# ---- the thread ----------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class NoisyCounts:
    """What a noisy histogram released; nothing in it is private any more.

    Attributes
    ----------
    top : HistogramTop
        The counts that were released, best first.
    labels : tuple of str
        Their labels.
    said : SelectedRows
        What is said of each count.
    asked : int or None
        How many labels were counted; None where nobody listed them, and that is private.
    """

    top: HistogramTop
    labels: tuple[Label, ...]
    said: SelectedRows
    asked: int | None

    @property
    def facts(self) -> dict[str, Any]:
        """What every release says of them, however it names its rows."""
        return {
            "confidence": self.said.confidence,
            "together": self.said.together,
            "label_threshold": self.top.mechanism.threshold if self.asked is None else None,
            "cost": self.top.cost,
            "simulated": self.top.simulated,
        }

    @property
    def in_order(self) -> list[int]:
        """The places of the labels in the order of the domain, or of their code points."""
        order: list[int] = np.argsort(self.top.indices).tolist()
        return order


def count_with_noise(
    mechanism: HistogramTopK | UnlistedHistogram,
    request: CountingRequest,
    table: Table,
    question: CountQuestion,
    *,
    k: int | None,
) -> Steps[NoisyCounts]:
    """Count all items with noise, and release the `k` best of them.

    None: all that reach the threshold.
    """
    charged = yield Reservation((mechanism,), request.detail(), question.domain)
    counts: Counts = charged.read(question)
    top: HistogramTop
    size = None
    if isinstance(mechanism, UnlistedHistogram):
        found: UnlistedCounts = charged.release(mechanism, counts.values, labels=counts.labels)
        top, labels = pick_best(found, k)
    else:
        size = len(counts.labels)
        # Labels that were assumed public are counted only now, and may be fewer: then all of them
        # are listed.
        top = (
            charged.release(select_fewer(mechanism, size), counts.values, **places(counts))
            if size
            else _find_nothing(mechanism, charged)
        )
        labels = tuple(counts.labels[index] for index in top.indices.tolist())
    said = estimate_histogram_rows(
        top,
        # The labels of a list are public, and so is their number. But if whoever reaches a
        # threshold is released, how many are is no public number, and nothing follows from the
        # number of all.
        size=None if k is None else size or None,
        confidence=CONFIDENCE,
        simultaneous=request.simultaneous,
        capped=counts_by_some_rows(table, request),
    )
    return NoisyCounts(top, labels, said, size)


def _find_nothing(mechanism: HistogramTopK, charged: Charged) -> HistogramTop:
    """Return the best of no labels."""
    nothing = np.empty(0)
    return HistogramTop(
        indices=nothing.astype(np.int64),
        values=nothing,
        entries=nothing,
        crossed=None if mechanism.threshold is None else False,
        mechanism=mechanism,
        **charged.nothing,
    )


def pick_best(found: UnlistedCounts, k: int | None) -> tuple[HistogramTop, tuple[Label, ...]]:
    """Return the best of what reached the threshold, and what value would keep each there."""
    labels = found.labels if k is None else found.labels[:k]
    entries = np.full(len(labels), float(found.mechanism.threshold))
    if k is not None and len(found.labels) > k:
        # The best one that is left out, which wins ties against whatever comes behind it in the
        # alphabet.
        first = split_label(found.labels[k])
        behind = np.array([first < split_label(label) for label in labels])
        entries = np.maximum(entries, found.values[k] + behind)
    top = HistogramTop(
        # Where each stands among these in the order of code points: there are no other public
        # places.
        indices=rank_labels(labels),
        values=found.values[: len(labels)],
        entries=entries,
        crossed=k is None or len(labels) < k,
        mechanism=found.mechanism,
        cost=found.cost,
        simulated=found.simulated,
    )
    return top, labels


# ---- rows ----------------------------------------------------------------------------------------


def release_best(
    mechanism: HistogramTopK | UnlistedHistogram,
    request: CountingRequest,
    table: Table,
    question: CountQuestion,
    why: str | None = None,
    *,
    k: int,
) -> Steps[TopItems]:
    """Release the best of a noisy histogram with what was counted.

    `why` says why not another way.
    """
    counted = yield from count_with_noise(mechanism, request, table, question, k=k)
    return TopItems(
        rows=make_rows(counted, was_found=counted.asked is None),
        crossed=counted.top.crossed,
        method="histogram",
        why=why,
        mechanism=(mechanism,),
        **counted.facts,
    )


def release_above(
    mechanism: HistogramTopK | UnlistedHistogram,
    request: CountingRequest,
    table: Table,
    question: CountQuestion,
    *,
    threshold: float,
) -> Steps[AboveItems]:
    """Release whatever of a noisy histogram reaches the threshold, in the order of the domain."""
    counted = yield from count_with_noise(mechanism, request, table, question, k=None)
    said = counted.said
    return AboveItems(
        rows=tuple(
            AboveItem(
                item=counted.labels[place],
                gap=float(said.measured[place]) - threshold,
                branch=0,
                **said.describe(place),
            )
            for place in counted.in_order
        ),
        asked=counted.asked,
        complete=True,
        method="histogram",
        mechanism=(mechanism,),
        **counted.facts,
    )


def make_rows(counted: NoisyCounts, *, was_found: bool) -> tuple[TopItem, ...]:
    """Return the rows of the best of a histogram; whether its labels were found or listed."""
    top, said = counted.top, counted.said
    values = top.values.tolist()
    # Below the last row stands the value that it had to reach: nothing, where every item is
    # released.
    beneath: list[float] = [*values[1:], *top.entries[-1:].tolist()]
    rows = []
    for place, label in enumerate(counted.labels):
        gap = values[place] - beneath[place]
        last = place + 1 == len(values)
        rows.append(
            TopItem(
                rank=place + 1,
                item=label,
                gap=gap if math.isfinite(gap) else None,
                **said.describe(place),
                measured=float(said.measured[place]),
                combined=None,
                # Told apart where the intervals do not meet; nothing is known of what was left out.
                tie=None if last else bool(said.low[place] <= said.high[place + 1]),
                was_found=was_found,
            )
        )
    return tuple(rows)
