"""Released numbers as terms, and what a sum of them with weights says of the answers behind them.

A term is an answer plus noise of a known law. What was selected by its own noise is no such number,
and what was folded into a range has only its interval.

Claim: `Combination.bound` contains the same sum of the answers with at least 1 - wrong: without
`planned` also where the noise of one release was chosen by what an earlier one said; with it if all
were fixed before. Proof: docs/proofs/derived-figures.md, "Sums". Floats: values are exact
fractions; how far noises reach is `mixed_noise`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, cast, final

from sordino.errors import InvalidParameter
from sordino.figures.mixed_noise import Law, find_far

Ends = tuple[Fraction | float, Fraction | float]
"""Two ends; one that nothing bounds is an infinite float."""


class Origin:
    """Stands for one release: terms of the same release have the same one.

    A copy that was pickled has another one. It is then taken for a release of its own, of which
    nothing is known but its own law.
    """

    __slots__ = ()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Term:
    """One released number: an answer plus noise of a known law.

    Attributes
    ----------
    origin : Origin
        Of the release: noises of one release are independent.
    row : object
        Which of its numbers this is.
    value : Fraction
        What was released.
    law : DiscreteLaplace or DiscreteGaussian
        Of the noise, in steps.
    step : Fraction
        One step, in the unit of the value.
    rounded : Fraction
        By how much the answer was rounded down, at most, before the noise came.
    counts : bool
        Whether the answer is known not to be negative.
    """

    origin: Origin
    row: Any
    value: Fraction
    law: Law
    step: Fraction
    rounded: Fraction = Fraction(0)
    counts: bool = False

    def __eq__(self, other: object) -> bool:
        """Tell whether it is the same number of the same release."""
        return (
            isinstance(other, Term) and self.origin is other.origin and bool(self.row == other.row)
        )

    def __hash__(self) -> int:
        return hash((id(self.origin), self.row))


class Bounded(Protocol):
    """A figure that is no sum of terms, but says where its answer lies."""

    def interval_at(self, *, confidence: Any) -> tuple[float, float]:
        """Return the interval of the answer."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Opaque:
    """A figure of which only intervals are known.

    Two of them are one if their figures are one object.
    """

    figure: Bounded
    value: Fraction

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.figure is other.figure

    def __hash__(self) -> int:
        return id(self.figure)

    def bound(self, wrong: Fraction) -> Ends:
        """Return ends that hold but for a chance of `wrong`."""
        low, high = self.figure.interval_at(confidence=1 - wrong)
        return (
            Fraction(low) if math.isfinite(low) else low,
            Fraction(high) if math.isfinite(high) else high,
        )


Piece = Term | Opaque


@final
@dataclass(frozen=True)
class Combination:
    """A sum of terms with weights, and a constant."""

    weights: Mapping[Piece, Fraction]
    constant: Fraction = Fraction(0)

    def plus(self, other: Combination, times: Fraction = Fraction(1)) -> Combination:
        """Return this plus `times` the other one.

        What is in both is there once, so that it may cancel.
        """
        weights = dict(self.weights)
        for piece, weight in other.weights.items():
            weights[piece] = weights.get(piece, Fraction(0)) + times * weight
        left = {piece: weight for piece, weight in weights.items() if weight}
        return Combination(left, self.constant + times * other.constant)

    def times(self, factor: Fraction) -> Combination:
        """Return a multiple of it."""
        return Combination({}).plus(self, factor)

    @cached_property
    def value(self) -> Fraction:
        """The figure, of what was released."""
        return self.constant + sum(
            (weight * piece.value for piece, weight in self.weights.items()), Fraction(0)
        )

    @property
    def is_exact(self) -> bool:
        """Whether it is made of terms alone."""
        return all(isinstance(piece, Term) for piece in self.weights)

    @property
    def is_positive(self) -> bool:
        """Whether it is known, by what it is made of, that it is not negative."""
        counts = all(isinstance(piece, Term) and piece.counts for piece in self.weights)
        return (
            counts and self.constant >= 0 and min(self.weights.values(), default=Fraction(0)) >= 0
        )

    def group(self, *, planned: bool) -> list[list[Piece]]:
        """Return the pieces in groups.

        Within one the noises are independent, and their law is known.
        """
        terms = [piece for piece in self.weights if isinstance(piece, Term)]
        apart: list[list[Piece]] = [[piece] for piece in self.weights if isinstance(piece, Opaque)]
        if planned and not _may_share_noise(terms):
            return [*([list[Piece](terms)] if terms else []), *apart]
        by_release: dict[int, list[Piece]] = defaultdict(list)
        for term in terms:
            by_release[id(term.origin)].append(term)
        return [*by_release.values(), *apart]

    def bound(self, wrong: Fraction, *, planned: bool) -> Ends:
        """Return ends that hold the same sum of the answers but for a chance of `wrong`."""
        groups = self.group(planned=planned)
        return self.bound_groups(groups, wrong / max(1, len(groups)))

    def bound_groups(self, groups: list[list[Piece]], each: Fraction) -> Ends:
        """Return ends that hold if each group's noise keeps within its reach at level `each`."""
        low: Fraction | float = self.constant
        high: Fraction | float = self.constant
        for group in groups:
            down, up = self._bound_group(group, each)
            low, high = low + down, high + up
        return low, high

    def _bound_group(self, group: list[Piece], each: Fraction) -> Ends:
        weighed = [(piece, self.weights.get(piece, Fraction(0))) for piece in group]
        first, weight = weighed[0]
        if isinstance(first, Opaque):
            ends = [weight * end for end in first.bound(each)] if weight else [Fraction(0)] * 2
            return min(ends), max(ends)
        middle = low = high = Fraction(0)
        noises = []
        for term, own in weighed:
            assert isinstance(term, Term)  # noqa: S101 - an opaque figure is a group by itself
            middle += own * term.value
            noises.append((term.law, own * term.step))
            # An answer may lie above what met the noise by what was rounded down.
            low += min(Fraction(0), own * term.rounded)
            high += max(Fraction(0), own * term.rounded)
        far = find_far(noises, each)
        return middle + low - far, middle + high + far


def _may_share_noise(terms: list[Term]) -> bool:
    """Tell whether two releases may hold the same noise: copies of one."""
    # The same number with the same noise. A copy from a ledger does not know which mechanism
    # released it.
    alike: dict[Any, dict[Any, set[int]]] = defaultdict(lambda: defaultdict(set))
    for term in terms:
        alike[term.law, term.step, term.value][term.row].add(id(term.origin))
    # A figure alone is the row 0; of a group it has the name of the group elsewhere.
    return any(
        len(set[int]().union(*rows.values()) if 0 in rows else origins) > 1
        for rows in alike.values()
        for origins in rows.values()
    )


def read_terms(release: Any, caller: str, *, only: Any = None) -> dict[Any, Term]:
    """Return the numbers of a release as terms, by the names of their rows.

    Or that row `only`, if it is one.

    Raises
    ------
    InvalidParameter
        If they are no answers plus noise of a known law.
    """
    release = getattr(release, "result", release)
    origin = _find_origin(release)
    own = getattr(release, "list_terms", None)
    terms: dict[Any, Term] = _list_terms(release, origin, only) if own is None else own(origin)
    if not terms:
        raise InvalidParameter(
            f"{caller} needs a release with Laplace or Gaussian noise of its own: a count, a "
            "histogram, a top k that was measured, a sum, or what LaplaceMechanism or "
            "GaussianMechanism released."
        )
    return terms


def _find_origin(release: Any) -> Origin:
    """Return what stands for a release: always the same for the same one."""
    try:
        known = vars(release).get("_origin")
    except TypeError:
        return Origin()
    if known is None:
        known = Origin()
        # Releases are frozen; this says nothing of them, and is shown nowhere.
        object.__setattr__(release, "_origin", known)
    return cast("Origin", known)


def _list_terms(release: Any, origin: Origin, only: Any = None) -> dict[Any, Term]:
    """Return the terms of a release that lists numbers with noise of one mechanism, else none."""
    mechanism: Any = getattr(release, "mechanism", None)
    rows = getattr(release, "rows", None)
    if isinstance(mechanism, tuple):
        # Of what was selected the fresh measurement counts, which is the last mechanism.
        measured = rows and all(getattr(row, "measured", None) is not None for row in rows)
        mechanism = mechanism[-1] if measured else None
    if not getattr(mechanism, "adds_noise", False):
        return {}
    values: list[Any]
    if rows is not None:
        names = [row.item for row in rows]
        values = [getattr(row, "measured", row.estimate) for row in rows]
    elif hasattr(release, "values"):
        values = release.values.tolist()
        names = list(range(len(values)))
    else:
        # A number alone is a `value`, a count of a session an `estimate`.
        values, names = [getattr(release, "value", getattr(release, "estimate", None))], [0]
    if only in names:
        place = names.index(only)
        names, values = [only], [values[place]]
    common: dict[str, Any] = {
        "origin": origin,
        "law": mechanism.noise,
        "step": mechanism.step,
        # What a session counts is not negative; what a mechanism was handed may be.
        "counts": rows is not None
        or (not hasattr(release, "value") and not hasattr(release, "values")),
    }
    return {
        # The step is a power of two: a released value is a whole number of steps.
        name: Term(
            row=name, value=round(Fraction(value) / mechanism.step) * mechanism.step, **common
        )
        for name, value in zip(names, values, strict=True)
    }


def read_one(release: Any) -> Combination | None:
    """Return a single released figure; None if it is none, or nothing is known of its noise."""
    if hasattr(release, "rows") or hasattr(release, "values"):
        return None
    origin = _find_origin(release)
    own = getattr(release, "list_terms", None)
    terms: dict[Any, Term] = _list_terms(release, origin) if own is None else own(origin)
    if len(terms) == 1:
        return Combination({next(iter(terms.values())): Fraction(1)})
    if hasattr(release, "interval_at"):
        figure: Any = release
        return Combination({Opaque(figure, Fraction(figure.estimate)): Fraction(1)})
    return None
