"""Filters: limits, fixed in advance, for releases whose costs may depend on earlier releases.

Claim: while a filter lets costs through, all releases together keep its guarantee, however their
costs and their number were chosen [rogers2016; feldman2021; whitehouse2023]. Proof:
docs/proofs/filters.md.

What is not claimed: docs/explanation/what-a-filter-may-promise.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from threading import RLock
from typing import Any, Generic, NoReturn, TypeVar, final

from sordino.accounting.parts import approximate_sums, cost_of, count_parts, exact_rdp
from sordino.constraints import POSITIVE, Number
from sordino.cost import RDP, ZCDP, Approximate, Cost, Pure
from sordino.cost.approximate import PROBABILITY
from sordino.cost.conversion import checked_delta, cut_digits, digits, find_largest, write_percent
from sordino.cost.rdp import ORDER
from sordino.errors import BudgetExceeded, InvalidParameter
from sordino.process import Process

Amounts = TypeVar("Amounts")
_PARTS = 10**9
"""Of an epsilon that would fit: it is told in billionths, as a ledger counts."""


@final
class LimitedSums:
    """Exact sums under fixed limits, one for each unit.

    Adding is all or nothing, also between threads.

    It works in the process that made it only: after a fork each copy would let the whole limit
    through.
    """

    def __init__(self, **limits: Fraction) -> None:
        self.limits = limits
        self._spent = dict.fromkeys(limits, Fraction(0))
        # Reentrant, so that a signal handler in the middle of an addition does not wait for itself.
        self._lock = RLock()
        self._busy = False
        # A fork copies the sums; each of the two would go on from there.
        self._process = Process()

    @property
    def spent(self) -> dict[str, Fraction]:
        """The sums so far; in a copy of the process those at the fork."""
        # The lock may have been held when the process was copied.
        if not self._process.is_here():
            return dict(self._spent)
        with self._lock:
            return dict(self._spent)

    def left(self) -> dict[str, Fraction]:
        """Return what is left of each limit."""
        self._stay()
        spent = self.spent
        return {unit: limit - spent[unit] for unit, limit in self.limits.items()}

    def fits(self, amounts: dict[str, Fraction]) -> bool:
        """Tell whether all amounts would fit now."""
        # Only a forecast: another thread may spend before this one does, and `add` decides for all.
        left = self.left()
        return all(amounts[unit] <= left[unit] for unit in left)

    def add(self, amounts: dict[str, Fraction]) -> None:
        """Add all amounts, or none and raise `BudgetExceeded` if one does not fit."""
        self._stay()
        with self._lock:
            if self._busy:
                raise BudgetExceeded(
                    "A filter lets no cost through in a signal handler in the middle of another "
                    "one. Nothing was charged."
                )
            try:
                self._busy = True
                self._add(amounts)
            finally:
                self._busy = False

    def _add(self, amounts: dict[str, Fraction]) -> None:
        # All units are looked at before any is charged, so that a refusal charges nothing.
        for unit, limit in self.limits.items():
            left = limit - self._spent[unit]
            if amounts[unit] > left:
                raise _build_refusal(unit, amounts[unit], left, limit)
        for unit in self.limits:
            self._spent[unit] += amounts[unit]

    def _stay(self) -> None:
        """Refuse to work in a copy of the process."""
        if not self._process.is_here():
            raise BudgetExceeded(
                "A filter lets costs through in the process that made it; "
                "in a copy of that process nothing remains. Nothing was charged."
            )


def _build_refusal(unit: str, amount: Fraction, left: Fraction, limit: Fraction) -> BudgetExceeded:
    """Return the refusal of an amount, in percent, as a ledger says it."""
    share = write_percent(left / limit, -1) if left else "Nothing"
    # A limit of 0 lets no share through.
    more = write_percent(amount / limit, 1) if limit else f"{unit} {digits(amount, 9)}"
    return BudgetExceeded(
        f"{share} of the {'delta' if unit == 'delta' else 'budget'} of this filter is left; this "
        f"needs {more}.",
        then="Nothing was charged.",
        details=f"This release needs {unit} {digits(amount, 9)} but {digits(left, 9)} remains in "
        "the filter.",
    )


class Filter(ABC, Generic[Amounts]):
    """One budget, whose limits are fixed in advance: what all filters have.

    It works in the process that made it, where all threads share it; after a fork the copy lets
    nothing through.
    """

    def __init__(self, **limits: Fraction) -> None:
        # `__init__` can be called again by hand; that would forget what was spent.
        if hasattr(self, "_sums"):
            raise TypeError(
                f"A {type(self).__name__} is one budget and its limits are set once: "
                "make another for another budget."
            )
        self._sums = LimitedSums(**limits)

    def __repr__(self) -> str:
        limits = [f"{unit}={digits(limit)}" for unit, limit in self._sums.limits.items()]
        spent = ", ".join(map(digits, self._sums.spent.values()))
        return (
            f"{type(self).__name__}({', '.join(limits)}, "
            f"spent={spent if len(limits) == 1 else f'({spent})'})"
        )

    def __reduce__(self) -> NoReturn:
        # Two copies would each let the whole limit through.
        raise TypeError(
            f"A {type(self).__name__} is one budget and cannot be copied or pickled: "
            "the copy would be a second one."
        )

    @property
    def spent(self) -> Amounts:
        """What was spent so far, exactly; no guarantee by itself, see `guarantee`."""
        return self._show(self._sums.spent)

    @property
    def remaining(self) -> Amounts:
        """What is left of the limits, exactly."""
        return self._show(self._sums.left())

    def admits(self, cost: Any) -> bool:
        """Tell whether a cost, or a mechanism's cost, would fit now within every limit."""
        return self._sums.fits(self._amounts_of(cost))

    def spend(self, cost: Any) -> None:
        """Charge a cost before its release is drawn.

        If any limit would be passed this raises `BudgetExceeded`, and nothing is charged.
        """
        asked = self._amounts_of(cost)
        try:
            self._sums.add(asked)
        except BudgetExceeded as refused:
            # In a copy of the process, and in a signal handler, no epsilon would fit.
            fitting = self._find_fitting(asked) if refused.details else Fraction(0)
            if not fitting:
                raise
            # Of costs that are less than an epsilon at some order more would fit.
            largest = "epsilon" in asked
            raise refused.name_fitting(digits(fitting, 9), largest=largest) from None

    def _find_fitting(self, asked: dict[str, Fraction]) -> Fraction:
        """Return the largest epsilon that would fit in place of what was asked; 0 if none does."""
        beside = {unit: amount for unit, amount in asked.items() if unit == "delta"}

        def fits(parts: int) -> bool:
            cost = Pure(epsilon=Fraction(parts, _PARTS))
            return self._sums.fits(self._amounts_of(cost) | beside)

        found = find_largest(fits, _PARTS**2)
        # More than that is nothing to choose by.
        return Fraction(cut_digits(found) if found < _PARTS**2 // 2 else 0, _PARTS)

    def _amounts_of(self, cost: Any) -> dict[str, Fraction]:
        """Return what a cost, or a mechanism's, takes of each limit.

        Refuse one without an exact amount.
        """
        caller, kind = type(self).__name__, type(cost).__name__
        amounts = {}
        for unit, (amount, view) in self._views_of(cost_of(cost, caller)).items():
            if amount == math.inf:
                raise InvalidParameter(f"A {caller} needs costs with {view}; {kind} has none here.")
            # A float may have been rounded down on its way.
            if isinstance(amount, bool) or not isinstance(amount, Fraction | int) or amount < 0:
                raise InvalidParameter(
                    f"A {caller} adds exact fractions of at least 0; {kind} gives another value."
                )
            amounts[unit] = Fraction(amount)
        return amounts

    def _convert(self, whole: Cost, delta: float) -> Cost:
        """Return the guarantee of the limits itself, or its one conversion at a `delta` above 0."""
        # Of the limits, which were fixed in advance: an epsilon of what was spent is not claimed
        # (filters).
        share = checked_delta(delta)
        if share == 0:
            return whole
        epsilon = whole.epsilon(delta)
        if epsilon == math.inf:
            raise InvalidParameter(
                f"A {type(self).__name__} promises an epsilon at delta only if it is finite; "
                "got limits that are too large for one."
            )
        return Approximate(epsilon=epsilon, delta=share)

    @abstractmethod
    def _show(self, amounts: dict[str, Fraction]) -> Amounts:
        """Return the amount of the only unit, or those of all units."""

    @abstractmethod
    def _views_of(self, cost: Cost) -> dict[str, tuple[Fraction | float, str]]:
        """Return for each unit the amount of a cost, and what view of the cost that is."""


@final
class PureFilter(Filter[Fraction]):
    """Lets costs through while their pure epsilons add up to at most `epsilon`.

    It works in the process that made it, where all threads share it; after a fork the copy lets
    nothing through.

    Parameters
    ----------
    epsilon : number
        The limit, in (0, inf), fixed in advance. A float means its shortest decimal.

    Raises
    ------
    InvalidParameter
        If epsilon is outside its range.

    Examples
    --------
    >>> from sordino import accounting, cost
    >>> budget = accounting.PureFilter(epsilon=1.0)
    >>> for _ in range(10):
    ...     budget.spend(cost.Pure(epsilon=0.1))
    >>> budget.remaining
    Fraction(0, 1)
    >>> budget.admits(cost.Pure(epsilon=0.001))
    False
    """

    def __init__(self, *, epsilon: Number) -> None:
        super().__init__(epsilon=POSITIVE("PureFilter.epsilon", epsilon))

    def guarantee(self) -> Cost:
        """Return what all releases keep together: the limit, whatever has been spent of it."""
        return Pure(epsilon=self._sums.limits["epsilon"])

    def _show(self, amounts: dict[str, Fraction]) -> Fraction:
        return amounts["epsilon"]

    def _views_of(self, cost: Cost) -> dict[str, tuple[Fraction | float, str]]:
        return {"epsilon": (cost.pure(), "a finite pure epsilon")}


@final
class ZCDPFilter(Filter[Fraction]):
    """Lets costs through while their rhos add up to at most `rho`.

    Parameters
    ----------
    rho : number
        The limit, in (0, inf), fixed in advance. A float means its shortest decimal.

    Raises
    ------
    InvalidParameter
        If rho is outside its range.

    Examples
    --------
    >>> from sordino import accounting, cost
    >>> budget = accounting.ZCDPFilter(rho=0.05625)
    >>> budget.spend(cost.ZCDP(rho=0.05))
    >>> budget.guarantee(1e-6)
    Approximate(epsilon=1.56813662455, delta=1e-06)
    """

    def __init__(self, *, rho: Number) -> None:
        super().__init__(rho=POSITIVE("ZCDPFilter.rho", rho))

    def guarantee(self, delta: float = 0) -> Cost:
        """Return what all releases keep together.

        It is the limit itself, or its one conversion at a `delta` in (0, 1).
        """
        return self._convert(ZCDP(rho=self._sums.limits["rho"]), delta)

    def _show(self, amounts: dict[str, Fraction]) -> Fraction:
        return amounts["rho"]

    def _views_of(self, cost: Cost) -> dict[str, tuple[Fraction | float, str]]:
        return {"rho": (cost.zcdp(), "a finite rho")}


@final
class RDPFilter(Filter[tuple[Fraction, ...]]):
    """Lets costs through while their Rényi divergences stay within the limit at each tracked order.

    It stops as soon as any order would pass its limit. Stopping only when all of them do is not
    proved to be private.

    Parameters
    ----------
    orders : numbers
        At least one, each in [1.000001, 1e300], increasing.
    limits : numbers
        One for each order, each in (0, inf), fixed in advance.

    Raises
    ------
    InvalidParameter
        If the orders do not increase, a limit is missing, or a number is outside its range.

    Examples
    --------
    >>> from sordino import accounting, cost
    >>> budget = accounting.RDPFilter(orders=(2, 8, 32), limits=(0.2, 0.8, 3.2))
    >>> budget.spend(cost.ZCDP(rho=0.09))
    >>> budget.admits(cost.ZCDP(rho=0.02))
    False
    >>> round(float(budget.guarantee(1e-6).epsilon(1e-6)), 4)
    2.343
    """

    def __init__(self, *, orders: Iterable[Number], limits: Iterable[Number]) -> None:
        known = [ORDER("RDPFilter.orders", order) for order in orders]
        # Increasing, so that none appears twice: two limits of one order would be one entry below.
        if not known or any(a >= b for a, b in pairwise(known)):
            raise InvalidParameter(
                f"RDPFilter.orders must be at least one number, increasing; got {len(known)} that "
                "are not."
            )
        bounds = [POSITIVE("RDPFilter.limits", limit) for limit in limits]
        if len(bounds) != len(known):
            raise InvalidParameter(
                f"RDPFilter.limits must hold one limit for each of the {len(known)} orders; "
                f"got {len(bounds)}."
            )
        # Each unit is called what the error about it says.
        units = {f"divergence at order {order}:": order for order in known}
        super().__init__(**dict(zip(units, bounds, strict=True)))
        self._orders = units

    def __repr__(self) -> str:
        limits = ", ".join(
            f"{digits(order)}: {digits(self._sums.limits[unit])}"
            for unit, order in self._orders.items()
        )
        return f"RDPFilter({{{limits}}})"

    def guarantee(self, delta: float = 0) -> Cost:
        """Return what all releases keep together.

        It is the limits as a curve, or their one conversion at a `delta` in (0, 1).
        """
        limits = self._sums.limits
        return self._convert(
            RDP(table=[(order, limits[unit]) for unit, order in self._orders.items()]), delta
        )

    def _show(self, amounts: dict[str, Fraction]) -> tuple[Fraction, ...]:
        return tuple(amounts.values())

    def _views_of(self, cost: Cost) -> dict[str, tuple[Fraction | float, str]]:
        amounts = exact_rdp(count_parts(cost), self._orders.values())
        # One amount for each order: the first that would pass its limit stops the filter (filters).
        return {
            unit: (amount, f"a finite divergence at order {digits(order, 6)}")
            for (unit, order), amount in zip(self._orders.items(), amounts, strict=True)
        }


@final
class ApproximateFilter(Filter[tuple[Fraction, Fraction]]):
    """Lets costs through while their epsilons and their deltas each add up to at most the limit.

    It takes pure and (epsilon, delta) costs. Convert a concentrated cost first, at a delta of your
    choice: `Approximate(epsilon=c.epsilon(delta), delta=delta)`.

    Parameters
    ----------
    epsilon : number
        The limit of the epsilons, in (0, inf), fixed in advance.
    delta : number
        The limit of the deltas, in [0, 1).

    Raises
    ------
    InvalidParameter
        If a limit is outside its range.

    Examples
    --------
    >>> from sordino import accounting, cost
    >>> budget = accounting.ApproximateFilter(epsilon=1, delta=1e-6)
    >>> budget.spend(cost.Approximate(epsilon=0.5, delta=1e-6))
    >>> budget.remaining
    (Fraction(1, 2), Fraction(0, 1))
    """

    def __init__(self, *, epsilon: Number, delta: Number) -> None:
        super().__init__(
            epsilon=POSITIVE("ApproximateFilter.epsilon", epsilon),
            delta=PROBABILITY("ApproximateFilter.delta", delta),
        )

    def guarantee(self) -> Cost:
        """Return what all releases keep together: the two limits."""
        limits = self._sums.limits
        return Approximate(epsilon=limits["epsilon"], delta=limits["delta"])

    def _show(self, amounts: dict[str, Fraction]) -> tuple[Fraction, Fraction]:
        return amounts["epsilon"], amounts["delta"]

    def _views_of(self, cost: Cost) -> dict[str, tuple[Fraction | float, str]]:
        # Both sums are needed: the proof goes by induction over the two budgets that are left
        # (filters).
        epsilon, delta = approximate_sums(cost)
        return {"epsilon": (epsilon, "an (epsilon, delta) of its own"), "delta": (delta, "a delta")}
