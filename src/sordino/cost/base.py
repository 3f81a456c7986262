"""The role "cost", and what sordino's own costs share.

A cost of sordino's own is made of exact numbers, its fields: by them it is equal, hashed, sorted,
shown and written. One that cannot fail has views that differ in their formulas alone: what is asked
for is checked and rounded to the safe side here.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import MISSING, Field
from fractions import Fraction
from typing import Any, ClassVar, Protocol, runtime_checkable

from sordino.constraints import shown
from sordino.cost.conversion import (
    checked_alpha,
    checked_delta,
    checked_epsilon,
    digits,
    nearest,
    ratio,
    round_down,
    stated,
)


@runtime_checkable
class Cost(Protocol):
    """What a release spends: an exact value with views; a view that does not exist is `math.inf`.

    The numbers of a cost are exact fractions. The views `rdp`, `epsilon` and `delta` are floats,
    each a valid upper bound.

    Examples
    --------
    >>> from sordino import cost
    >>> isinstance(cost.Pure(epsilon=0.1), cost.Cost)
    True
    """

    def pure(self) -> Fraction | float:
        """Return the smallest proven epsilon of pure differential privacy, or inf."""
        ...

    def zcdp(self) -> Fraction | float:
        """Return the smallest proven rho of zero-concentrated differential privacy, or inf."""
        ...

    def rdp(self, alpha: float) -> float:
        """Return a bound on the Rényi divergence of order `alpha` (> 1), in nats."""
        ...

    def epsilon(self, delta: float) -> float:
        """Return an epsilon such that (epsilon, `delta`)-differential privacy holds.

        `delta` in [0, 1).
        """
        ...

    def delta(self, epsilon: float) -> float:
        """Return a delta such that (`epsilon`, delta)-differential privacy holds.

        `epsilon` >= 0.
        """
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the cost as JSON-ready values: exact numbers as text "n/d" and as floats."""
        ...


class ExactCost(ABC):
    """A cost made of exact numbers, the fields of a frozen dataclass.

    A field that would have the name of a view has an underscore after it: `epsilon_`.
    """

    notion: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    key: tuple[Any, ...]

    def _set(self, **values: Any) -> None:
        """Set all fields, and the key that tells two costs of one class apart and sorts them."""
        # The class is frozen, so the usual assignment would raise.
        vars(self).update(values, key=tuple([_make_sortable(value) for value in values.values()]))

    def __eq__(self, other: object) -> bool:
        # All are final, and a class of somebody's own is another class.
        return self.key == other.key if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.notion, self.key))

    def __repr__(self) -> str:
        # What was left out is left out here, too.
        said = [
            f"{name.rstrip('_')}={_write(getattr(self, name))}"
            for name, field in self.__dataclass_fields__.items()
            if field.default is MISSING or getattr(self, name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(said)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the notion and its parameters, exact and as floats."""
        listed = {name.rstrip("_"): getattr(self, name) for name in self.__dataclass_fields__}
        exact = [ratio(value) for value in listed.values() if isinstance(value, Fraction)]
        return {
            "notion": self.notion,
            **{
                name: nearest(value) if isinstance(value, Fraction) else value
                for name, value in listed.items()
            },
            "exact": exact if len(exact) > 1 else exact[0],
        }


def _make_sortable(value: Any) -> tuple[Any, ...]:
    # The hash of a fraction takes many times longer than that of whole numbers.
    if isinstance(value, Fraction):
        return value.as_integer_ratio()
    if isinstance(value, tuple):
        return tuple(map(_make_sortable, value))
    # Where a field may hold more than one kind: nothing, then a text, then whole numbers.
    return () if value is None else (-1, value) if isinstance(value, str) else (value,)


def _write(value: Any) -> str:
    if isinstance(value, Fraction):
        return digits(value)
    # Rows of fractions.
    if isinstance(value, tuple):
        rows = ", ".join(f"({', '.join(map(digits, row))})" for row in value)
        return f"({rows},)"
    # Python refuses to write out very long whole numbers.
    return shown(value) if isinstance(value, int) else repr(value)


class FirmCost(ExactCost):
    """A cost that cannot fail: its views, but for the formula of each."""

    @abstractmethod
    def pure(self) -> Fraction | float:
        """Return the smallest proven epsilon of pure differential privacy, or inf."""

    @abstractmethod
    def zcdp(self) -> Fraction | float:
        """Return the smallest proven rho of zero-concentrated differential privacy, or inf."""

    def rdp(self, alpha: float) -> float:
        """Return a bound on the Rényi divergence of order `alpha` (> 1), in nats."""
        order = checked_alpha(alpha)
        return 0.0 if self.pure() == 0 else self._bound_divergence(order)

    def epsilon(self, delta: float | Fraction) -> float:
        """Return the least proven epsilon at `delta`, which lies in [0, 1)."""
        # The delta that is asked for is rounded down, which can only raise the answer.
        left, top = round_down(checked_delta(delta)), stated(self.pure())
        # At delta 0 only the pure epsilon holds.
        return top if left == 0 or top == 0 else self._solve_epsilon(left, top)

    def delta(self, epsilon: float) -> float:
        """Return the least proven delta at `epsilon`, which is at least 0."""
        # Whether the pure epsilon is reached is decided on fractions, before anything is rounded.
        least = checked_epsilon(epsilon)
        # The epsilon that is asked for is rounded down, which can only raise the answer.
        return 0.0 if least >= self.pure() else self._bound_delta(round_down(least))

    @abstractmethod
    def _bound_divergence(self, order: float) -> float:
        """Return the divergence of an order above 1, rounded up.

        Not asked for a cost of nothing.
        """

    @abstractmethod
    def _solve_epsilon(self, left: float, top: float) -> float:
        """Return the epsilon at delta `left` > 0, rounded up; `top` > 0 is the pure one."""

    @abstractmethod
    def _bound_delta(self, least: float) -> float:
        """Return the delta at an epsilon `least` below the pure one, rounded up."""


def order_parts(parts: Iterable[tuple[Cost, int]]) -> list[tuple[Cost, int]]:
    """Return parts and their counts in an order that depends on nothing but exact numbers."""
    return sorted(parts, key=lambda entry: (order_key(entry[0]), entry[1]))


def order_key(cost: Cost) -> tuple[Any, ...]:
    """Return a key to sort parts by: equal for equal costs only, the same in every process."""
    # Our own costs come first, by class and numbers; those of others follow, by what they say of
    # themselves.
    if isinstance(cost, ExactCost):
        return (0, type(cost).__name__, *cost.key)
    said = json.dumps(cost.to_dict(), sort_keys=True, default=str)
    return (1, type(cost).__module__, type(cost).__qualname__, said)
