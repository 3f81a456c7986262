"""Adaptive composition: a multiset of costs with the best view that is proved for it.

Pure epsilons, rhos and Rényi divergences add, whatever the order and however each mechanism was chosen from earlier outputs
[bun2016, Lemma 2.3; mironov2017, Prop. 1]. Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.constraints import WHOLE, shown
from sordino.cost._conversion import (
    above,
    checked_alpha,
    checked_delta,
    checked_epsilon,
    pure_delta,
    pure_epsilon,
    rdp_delta,
    rdp_epsilon,
)
from sordino.cost._notion import Cost
from sordino.errors import InvalidParameter


@final
@dataclass(frozen=True)
class Composition:
    """Several costs paid one after the other; build it with `compose` or `repeat`.

    Examples
    --------
    >>> from sordino import cost
    >>> cost.compose(cost.Pure(epsilon=1), cost.ZCDP(rho=0.5)).zcdp()
    Fraction(1, 1)
    """

    parts: frozenset[tuple[Cost, int]]

    def __repr__(self) -> str:
        ordered = sorted((repr(part), count) for part, count in self.parts)
        return "compose(" + ", ".join(text if n == 1 else f"repeat({text}, {n})" for text, n in ordered) + ")"

    def pure(self) -> Fraction | float:
        """Return the sum of the pure epsilons."""
        return sum((count * part.pure() for part, count in self.parts), Fraction(0))

    def zcdp(self) -> Fraction | float:
        """Return the sum of the rhos."""
        return sum((count * part.zcdp() for part, count in self.parts), Fraction(0))

    def rdp(self, alpha: float) -> float:
        """Return the sum of the Rényi divergences of order `alpha`, in nats."""
        order = checked_alpha(alpha)
        return sum(count * part.rdp(order) for part, count in self.parts)

    def epsilon(self, delta: float) -> float:
        """Return the smallest proven epsilon at `delta`: from the summed epsilon or from the summed Rényi divergences."""
        delta = checked_delta(delta)
        pure = above(self.pure())
        return pure if delta == 0 else min(pure_epsilon(pure, delta), rdp_epsilon(self.rdp, delta))

    def delta(self, epsilon: float) -> float:
        """Return the smallest proven delta at `epsilon`."""
        epsilon = checked_epsilon(epsilon)
        return min(pure_delta(above(self.pure()), epsilon), rdp_delta(self.rdp, epsilon))

    def to_dict(self) -> dict[str, Any]:
        """Return the parts with how often each was paid."""
        ordered = sorted(self.parts, key=repr)
        return {
            "notion": "composition",
            "parts": [{**part.to_dict(), "count": count} for part, count in ordered],
        }


def compose(*costs: Cost) -> Cost:
    """Return the cost of paying all of `costs`, adaptively and in any order.

    Raises
    ------
    InvalidParameter
        If an argument is not a cost.

    Examples
    --------
    >>> from sordino import cost
    >>> cost.compose(cost.Pure(epsilon=0.1), cost.Pure(epsilon=0.2)).pure()
    Fraction(3, 10)
    """
    counts: Counter[Cost] = Counter()
    for cost in costs:
        if not isinstance(cost, Cost):
            raise InvalidParameter(f"compose takes costs such as Pure(epsilon=0.1); got {shown(cost)}.")
        for part, count in cost.parts if isinstance(cost, Composition) else ((cost, 1),):
            counts[part] += count
    return _simplest((part, count) for part, count in counts.items() if part.zcdp() != 0)


def repeat(cost: Cost, n: int) -> Cost:
    """Return the cost of paying `cost` `n` times, `n` >= 0.

    Raises
    ------
    InvalidParameter
        If `n` is not a whole number of at least 0 or `cost` is not a cost.

    Examples
    --------
    >>> from sordino import cost
    >>> cost.repeat(cost.Pure(epsilon=0.1), 10).pure()
    Fraction(1, 1)
    """
    times = WHOLE("repeat.n", n)
    one = compose(cost)
    parts = one.parts if isinstance(one, Composition) else ((one, 1),)
    return _simplest((part, count * times) for part, count in parts if count * times)


def _simplest(parts: Iterable[tuple[Cost, int]]) -> Cost:
    listed = frozenset(parts)
    if len(listed) == 1:
        ((only, count),) = listed
        if count == 1:
            return only
    return Composition(listed)
