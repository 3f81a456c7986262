"""Released numbers as terms, and what a sum of them with weights says of the answers behind them.

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
from typing import Any, Protocol, final

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
