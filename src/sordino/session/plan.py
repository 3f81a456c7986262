"""The plan of a release: its question, what it may spend, and how counts become a release.

It is made from public things alone, before any row is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, final

import numpy as np

from sordino.constraints import COUNT, FINITE, POSITIVE, shown
from sordino.cost import Pure
from sordino.data import CountQuestion, Counts, Domain
from sordino.entropy import Entropy
from sordino.errors import DataSourceError, InvalidParameter
from sordino.estimators import interval
from sordino.mechanisms import LaplaceMechanism
from sordino.sensitivity import Sensitivity
from sordino.session.results import Count, CountedItem, Histogram

if TYPE_CHECKING:
    from sordino.mechanisms import FoldedMechanism

CONFIDENCE = 0.95
LISTED = 1 << 20
"""A release about a range has at most this many rows."""
Progress = Callable[[float], None]
R = TypeVar("R")
Bounds = tuple[Fraction, Fraction]


@final
@dataclass(frozen=True, kw_only=True)
class Rows:
    """Which rows a release about numbers looks at.

    Attributes
    ----------
    column : str
        The column of numbers.
    where : str or None
        A row predicate.
    by : str or None
        The column of the groups.
    domain : object
        Their labels.
    groups_per_unit : int or None
        In how many of them a unit may count.
    """

    column: str
    where: str | None
    by: str | None
    domain: Any
    groups_per_unit: int | None

    def groups(self, name: str) -> int:
        """Return in how many groups one unit has a part."""
        return (
            1
            # Where each row is a unit it has one group; with a unit column `prepare_numbers` asks for G.
            if self.by is None or self.groups_per_unit is None
            else COUNT(f"{name}.groups_per_unit", self.groups_per_unit)
        )


class Payer(Protocol):
    """What releases, and remembers it: a charge of a ledger, or nothing."""

    def release(self, mechanism: Any, answers: Any, *, entropy: Entropy, **private: Any) -> Any:
        """Let a mechanism release."""
        ...

    def open(self, mechanism: Any, *, entropy: Entropy) -> Any:
        """Let a mechanism open a stream."""
        ...


@final
class Uncharged:
    """Stands in for a charge where no ledger was given: it releases, and remembers nothing."""

    def release(self, mechanism: Any, answers: Any, *, entropy: Entropy, **private: Any) -> Any:
        """Let a mechanism release."""
        return mechanism.release(answers, entropy=entropy, **private)

    def open(self, mechanism: Any, *, entropy: Entropy) -> Any:
        """Let a mechanism open a stream."""
        return mechanism.open(entropy=entropy)


class Question(Protocol):
    """What the engine is asked."""

    @property
    def domain(self) -> Domain | None:
        """The labels that it is about."""
        ...

    def run(self, *, progress: Progress | None = None) -> Any:
        """Read the rows, after the charge; private."""
        ...


@final
class Callback:
    """A function of the caller's, such as `progress`.

    An error that it raises is the caller's, and leaves the library as it is.
    """

    __slots__ = ("_function", "raised")

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.raised: BaseException | None = None

    def __call__(self, *given: Any) -> None:
        """Call the caller's function; an error that it raises is noted and goes on."""
        try:
            self._function(*given)
        except BaseException as error:  # whatever it is, and it goes on
            self.raised = error
            raise


@final
@dataclass(frozen=True)
class Plan(Generic[R]):
    """One release before any row is read.

    Attributes
    ----------
    name : str
        What the ledger calls it.
    question : Question
        What the engine is asked.
    public : dict
        What the ledger keeps about it.
    spent : tuple
        Mechanisms and costs that it may spend.
    finish : callable
        From a payer, what the question found and the entropy to the release.
    callback : Callback, optional
        What of the caller's `finish` calls.
    """

    name: str
    question: Question
    public: dict[str, Any]
    spent: tuple[Any, ...]
    finish: Callable[[Payer, Any, Entropy], R]
    callback: Callback | None = None


def size_of(question: Question) -> int | None:
    """Return the size of the domain, or None while it is only assumed to be public."""
    domain = question.domain
    return None if domain is None or domain.kind == "assumed public" else domain.size


def not_listed(question: CountQuestion) -> int | None:
    """Return the size of a domain whose items are not listed, else None.

    Mechanisms are then handed only the counts that are not 0.
    """
    return None if question.domain is None or question.domain.numbered is None else question.domain.size


def check_listable(name: str, most: int, question: CountQuestion) -> None:
    """Refuse a release of more rows than memory may hold; a domain that is listed is held there anyway."""
    if not_listed(question) is not None and most > LISTED:
        raise InvalidParameter(f"{name} must be at most {LISTED} where the domain is a range; got {most}.")


def places(counts: Counts) -> dict[str, Any]:
    """Return the positions of the counts for a mechanism, if only those that are not 0 are listed."""
    return {} if counts.positions is None else {"positions": counts.positions}


def checked_bounds(name: str, bounds: Any) -> Bounds | None:
    """Return a declared range as two exact numbers; refuse what is none."""
    if bounds is None:
        return None
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise InvalidParameter(f"{name}.bounds must be two numbers (low, high); got {shown(bounds)}.")
    low, high = (FINITE(f"{name}.bounds", end) for end in bounds)
    if high <= low:
        raise InvalidParameter(
            f"{name}.bounds must be two numbers, the second one larger; got {shown(low)} and {shown(high)}."
        )
    return low, high


def _build_count_noise(
    name: str, epsilon: Fraction, sensitivity: Sensitivity, bounds: Bounds | None
) -> LaplaceMechanism | FoldedMechanism:
    """Return what releases counts: within the declared range, if there is one."""
    if bounds is None:
        return LaplaceMechanism(epsilon=epsilon, sensitivity=sensitivity)
    from sordino.mechanisms import FoldedMechanism  # noqa: PLC0415 - few releases need it

    low, high = bounds
    bound = POSITIVE("bound", sensitivity.bound)
    if bound > (high - low) * (sensitivity.size or 1):
        raise InvalidParameter(
            f"{name}.bounds must be at least as far apart as one unit can move a count, {shown(bound)}; got "
            f"{shown(low)} and {shown(high)}."
        )
    return FoldedMechanism(lower=low, upper=high, epsilon=epsilon, sensitivity=sensitivity)


def _output_range_of(mechanism: LaplaceMechanism | FoldedMechanism) -> tuple[float, float] | None:
    # Only folded noise keeps within a range.
    found: tuple[float, float] | None = getattr(mechanism, "output_range", None)
    return found


def plan_histogram(
    question: CountQuestion, *, item: str, epsilon: Fraction, where: str | None, bounds: Bounds | None
) -> Plan[Histogram]:
    """Measure every item of the domain."""
    size = size_of(question)
    if not_listed(question) is not None and question.domain is not None and question.domain.size > LISTED:
        raise InvalidParameter(
            f"histogram.domain must have at most {LISTED} items, all of which it measures; got {size}."
        )
    planned = None if size is None else _build_count_noise("histogram", epsilon, question.joint(size), bounds)
    if bounds is not None:
        # Bounds that would be refused are refused here, before the charge, also where the size is not known
        # yet.
        _ = _build_count_noise("histogram", epsilon, question.joint(1), bounds)

    def finish(payer: Payer, counts: Counts, entropy: Entropy) -> Histogram:
        values = counts.at(np.arange(len(counts.labels)))
        if not values.size:
            # A domain that was assumed public may turn out to be empty, which is seen only after the charge.
            raise DataSourceError.after_charge()
        # A domain that was assumed public has a size only now; the noise grows with it, the cost stays the
        # budget.
        mechanism = planned or _build_count_noise("histogram", epsilon, question.joint(values.size), bounds)
        fresh = payer.release(mechanism, values, entropy=entropy)
        low, high = interval(fresh, confidence=CONFIDENCE)
        rows = tuple(
            CountedItem(item=label, estimate=float(value), low=float(a), high=float(b))
            for label, value, a, b in zip(counts.labels, fresh.values, low, high, strict=True)
        )
        found: dict[str, Any] = {
            "standard_error": fresh.standard_error,
            "output_range": _output_range_of(mechanism),
        }
        return Histogram(rows=rows, **found, mechanism=mechanism, cost=fresh.cost, simulated=fresh.simulated)

    public = {"item": item, "where": where, "bounds": bounds}
    # Without a size there is no mechanism yet; whichever it will be, it costs the budget.
    return Plan("histogram", question, public, (planned or Pure(epsilon=epsilon),), finish)


def plan_count(
    name: str, question: CountQuestion, *, epsilon: Fraction, where: str | None, bounds: Bounds | None
) -> Plan[Count]:
    """Measure one number."""
    mechanism = _build_count_noise(name, epsilon, question.sensitivity, bounds)

    def finish(payer: Payer, counts: Counts, entropy: Entropy) -> Count:
        # A question without items has a single count.
        fresh = payer.release(mechanism, int(counts.values[0]), entropy=entropy)
        low, high = interval(fresh, confidence=CONFIDENCE)
        found: dict[str, Any] = {
            "standard_error": fresh.standard_error,
            "output_range": _output_range_of(mechanism),
        }
        return Count(
            estimate=fresh.value,
            low=low,
            high=high,
            **found,
            mechanism=mechanism,
            cost=fresh.cost,
            simulated=fresh.simulated,
        )

    return Plan(name, question, {"where": where, "bounds": bounds}, (mechanism,), finish)
