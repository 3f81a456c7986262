"""What a release will do, decided from public things alone: its question, what it may spend, and how counts become a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, Protocol, TypeVar, final

from sordino.cost import Pure, compose
from sordino.data import CountQuestion, Counts
from sordino.entropy import Entropy
from sordino.errors import DataSourceError, InvalidParameter
from sordino.estimators import combine_gaps, interval
from sordino.mechanisms import LaplaceMechanism, NoisyTopK
from sordino.releases import Count, CountedItem, Histogram, TopItem, TopItems

CONFIDENCE = 0.95
Progress = Callable[[float], None]
R = TypeVar("R")


class Payer(Protocol):
    """What releases and remembers it: a charge of a ledger, or nothing."""

    def release(self, mechanism: Any, answers: Any, *, entropy: Entropy) -> Any:
        """Let a mechanism release."""
        ...


@final
class Uncharged:
    """Stands in for a charge where no ledger was given: it releases and remembers nothing."""

    def release(self, mechanism: Any, answers: Any, *, entropy: Entropy) -> Any:
        """Let a mechanism release."""
        return mechanism.release(answers, entropy=entropy)


@final
@dataclass(frozen=True)
class Plan(Generic[R]):
    """One release before any row is read.

    Attributes
    ----------
    name : str
        What the ledger calls it.
    question : CountQuestion
        What the engine is asked.
    public : dict
        What the ledger keeps about it.
    spent : tuple
        Mechanisms and costs that it may spend.
    finish : callable
        From a payer, the counts and the entropy to the release.
    """

    name: str
    question: CountQuestion
    public: dict[str, Any]
    spent: tuple[Any, ...]
    finish: Callable[[Payer, Counts, Entropy], R]


def size_of(question: CountQuestion) -> int | None:
    """Return the size of the domain, or None while it is only assumed to be public."""
    known = None if question.domain is None else question.domain.known
    return None if known is None else len(known)


def plan_top_k(
    question: CountQuestion, *, item: str, k: int, epsilon: Fraction, selection_share: Fraction, where: str | None, noise: Any
) -> Plan[TopItems]:
    """Choose with gaps, then measure what was chosen."""
    size = size_of(question)
    if size is not None and k > size:
        raise InvalidParameter(f"top_k.k must be at most the size of the domain, {size}; got {k}.")
    choose = NoisyTopK(k=k, epsilon=epsilon * selection_share, sensitivity=question.sensitivity, noise=noise)
    measure = LaplaceMechanism(epsilon=epsilon * (1 - selection_share), sensitivity=question.joint(k))

    def finish(payer: Payer, counts: Counts, entropy: Entropy) -> TopItems:
        values = counts.values
        if k > values.size:  # labels that were assumed public are counted only now, and nothing more is said about rows
            raise DataSourceError.after_charge()
        top = payer.release(choose, values, entropy=entropy)
        fresh = payer.release(measure, values[top.indices], entropy=entropy)
        low, high = interval(fresh, confidence=CONFIDENCE)
        estimates = combine_gaps(top, fresh).values
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
        return TopItems(rows=rows, mechanism=(choose, measure), cost=compose(top.cost, fresh.cost), simulated=top.simulated)

    return Plan("top_k", question, {"item": item, "k": k, "where": where}, (choose, measure), finish)


def plan_histogram(question: CountQuestion, *, item: str, epsilon: Fraction, where: str | None) -> Plan[Histogram]:
    """Measure every item of the domain."""
    size = size_of(question)
    planned = None if size is None else LaplaceMechanism(epsilon=epsilon, sensitivity=question.joint(size))

    def finish(payer: Payer, counts: Counts, entropy: Entropy) -> Histogram:
        if not counts.values.size:
            raise DataSourceError.after_charge()
        # A domain that was assumed public has a size only now; the noise grows with it, the cost stays the budget.
        mechanism = planned or LaplaceMechanism(epsilon=epsilon, sensitivity=question.joint(counts.values.size))
        fresh = payer.release(mechanism, counts.values, entropy=entropy)
        low, high = interval(fresh, confidence=CONFIDENCE)
        rows = tuple(
            CountedItem(item=label, estimate=float(value), low=float(a), high=float(b))
            for label, value, a, b in zip(counts.labels, fresh.values, low, high, strict=True)
        )
        return Histogram(rows=rows, mechanism=mechanism, cost=fresh.cost, simulated=fresh.simulated)

    return Plan("histogram", question, {"item": item, "where": where}, (planned or Pure(epsilon=epsilon),), finish)


def plan_count(name: str, question: CountQuestion, *, epsilon: Fraction, where: str | None) -> Plan[Count]:
    """Measure one number."""
    mechanism = LaplaceMechanism(epsilon=epsilon, sensitivity=question.sensitivity)

    def finish(payer: Payer, counts: Counts, entropy: Entropy) -> Count:
        fresh = payer.release(mechanism, int(counts.values[0]), entropy=entropy)
        low, high = interval(fresh, confidence=CONFIDENCE)
        return Count(estimate=fresh.value, low=low, high=high, mechanism=mechanism, cost=fresh.cost, simulated=fresh.simulated)

    return Plan(name, question, {"where": where}, (mechanism,), finish)
