"""Filters: limits, fixed in advance, for releases whose costs may depend on what was released before.

Claim: while a filter lets costs through, all releases together keep its guarantee, however their costs and
their number were chosen [rogers2016; feldman2021; whitehouse2023].
Proof: docs/proofs/filters.md.

What is not claimed: docs/explanation/what-a-filter-may-promise.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from threading import RLock
from typing import Any, NoReturn, final

from sordino.accounting.parts import approximate_sums, cost_of, count_parts, exact_rdp
from sordino.constraints import NOT_NEGATIVE, POSITIVE, Number, shown
from sordino.cost import RDP, ZCDP, Approximate, Cost, Pure
from sordino.cost.conversion import checked_delta, digits
from sordino.cost.rdp import ORDER
from sordino.errors import BudgetExceeded, InvalidParameter
from sordino.process import Process


@final
class PureFilter:
    """Lets costs through while their pure epsilons add up to at most `epsilon`.

    It works in the process that made it, where all threads share it; after a fork the copy lets nothing
    through.

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
        # `__init__` can be called again by hand; that would forget what was spent.
        once(self)
        self._meter = Meter(epsilon=POSITIVE("PureFilter.epsilon", epsilon))

    def __repr__(self) -> str:
        return f"PureFilter(epsilon={digits(self._meter.limits['epsilon'])}, spent={digits(self.spent)})"

    def __reduce__(self) -> NoReturn:
        # Two copies would each let the whole limit through.
        no_copy(self)

    @property
    def spent(self) -> Fraction:
        """The sum of the epsilons so far, exactly."""
        return self._meter.spent["epsilon"]

    @property
    def remaining(self) -> Fraction:
        """What is left of epsilon, exactly."""
        return self._meter.left()["epsilon"]

    def admits(self, cost: Any) -> bool:
        """Tell whether a cost, or a mechanism's cost, would fit now."""
        return self._meter.fits(self._amounts(cost))

    def spend(self, cost: Any) -> None:
        """Charge a cost before its release is drawn.

        If it does not fit this raises `BudgetExceeded`, and nothing is charged.
        """
        self._meter.add(self._amounts(cost))

    def guarantee(self) -> Cost:
        """Return what all releases keep together: the limit, whatever has been spent of it."""
        return Pure(epsilon=self._meter.limits["epsilon"])

    def _amounts(self, cost: Any) -> dict[str, Fraction]:
        return {
            "epsilon": _exact_amount(
                cost_of(cost, "PureFilter").pure(), "PureFilter", "a finite pure epsilon", cost
            )
        }


@final
class ZCDPFilter:
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
        once(self)
        self._meter = Meter(rho=POSITIVE("ZCDPFilter.rho", rho))

    def __repr__(self) -> str:
        return f"ZCDPFilter(rho={digits(self._meter.limits['rho'])}, spent={digits(self.spent)})"

    def __reduce__(self) -> NoReturn:
        no_copy(self)

    @property
    def spent(self) -> Fraction:
        """The sum of the rhos so far, exactly; no guarantee by itself, see `guarantee`."""
        return self._meter.spent["rho"]

    @property
    def remaining(self) -> Fraction:
        """What is left of rho, exactly."""
        return self._meter.left()["rho"]

    def admits(self, cost: Any) -> bool:
        """Tell whether a cost, or a mechanism's cost, would fit now."""
        return self._meter.fits(self._amounts(cost))

    def spend(self, cost: Any) -> None:
        """Charge a cost before its release is drawn.

        If it does not fit this raises `BudgetExceeded`, and nothing is charged.
        """
        self._meter.add(self._amounts(cost))

    def guarantee(self, delta: float = 0) -> Cost:
        """Return what all releases keep together.

        It is the limit itself, or its one conversion at a `delta` in (0, 1).
        """
        return _convert_at_delta(ZCDP(rho=self._meter.limits["rho"]), delta, "ZCDPFilter")

    def _amounts(self, cost: Any) -> dict[str, Fraction]:
        return {"rho": _exact_amount(cost_of(cost, "ZCDPFilter").zcdp(), "ZCDPFilter", "a finite rho", cost)}


@final
class RDPFilter:
    """Lets costs through while their Rényi divergences stay within the limit at every tracked order.

    It stops as soon as any order would pass its limit. Stopping only when all of them do is not proved to be
    private.

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
        once(self)
        known = [ORDER("RDPFilter.orders", order) for order in orders]
        # Increasing, so that none appears twice: two limits of one order would be one entry below.
        if not known or any(a >= b for a, b in pairwise(known)):
            raise InvalidParameter(
                f"RDPFilter.orders must be at least one number, increasing; got {len(known)} that are not."
            )
        bounds = [POSITIVE("RDPFilter.limits", limit) for limit in limits]
        if len(bounds) != len(known):
            raise InvalidParameter(
                f"RDPFilter.limits must hold one limit for each of the {len(known)} orders; "
                f"got {len(bounds)}."
            )
        # Each unit is called what the error about it says.
        self._orders = {f"divergence at order {order}:": order for order in known}
        self._meter = Meter(**dict(zip(self._orders, bounds, strict=True)))

    def __repr__(self) -> str:
        limits = ", ".join(
            f"{digits(order)}: {digits(self._meter.limits[unit])}" for unit, order in self._orders.items()
        )
        return f"RDPFilter({{{limits}}})"

    def __reduce__(self) -> NoReturn:
        no_copy(self)

    @property
    def spent(self) -> tuple[Fraction, ...]:
        """The sums of the divergences so far, one for each order.

        They are no guarantee by themselves, see `guarantee`.
        """
        return tuple(self._meter.spent.values())

    @property
    def remaining(self) -> tuple[Fraction, ...]:
        """What is left at each order, exactly."""
        return tuple(self._meter.left().values())

    def admits(self, cost: Any) -> bool:
        """Tell whether a cost, or a mechanism's cost, would fit now at every order."""
        return self._meter.fits(self._amounts(cost))

    def spend(self, cost: Any) -> None:
        """Charge a cost before its release is drawn.

        If any order would pass its limit this raises `BudgetExceeded`, and nothing is charged.
        """
        self._meter.add(self._amounts(cost))

    def guarantee(self, delta: float = 0) -> Cost:
        """Return what all releases keep together.

        It is the limits as a curve, or their one conversion at a `delta` in (0, 1).
        """
        curve = RDP(table=[(order, self._meter.limits[unit]) for unit, order in self._orders.items()])
        return _convert_at_delta(curve, delta, "RDPFilter")

    def _amounts(self, cost: Any) -> dict[str, Fraction]:
        parts = count_parts(cost_of(cost, "RDPFilter"))
        # One amount for each order: the first that would pass its limit stops the filter (filters).
        amounts = zip(self._orders.items(), exact_rdp(parts, self._orders.values()), strict=True)
        return {
            unit: _exact_amount(amount, "RDPFilter", f"a finite divergence at order {digits(order, 6)}", cost)
            for (unit, order), amount in amounts
        }


@final
class ApproximateFilter:
    """Lets costs through while their epsilons and their deltas each add up to at most the limit.

    It takes pure and (epsilon, delta) costs. Convert a concentrated cost first, at a delta of your choice:
    `Approximate(epsilon=c.epsilon(delta), delta=delta)`.

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
        once(self)
        limit = NOT_NEGATIVE("ApproximateFilter.delta", delta)
        if limit >= 1:
            raise InvalidParameter(f"ApproximateFilter.delta must be a number in [0, 1); got {shown(delta)}.")
        self._meter = Meter(epsilon=POSITIVE("ApproximateFilter.epsilon", epsilon), delta=limit)

    def __repr__(self) -> str:
        limits, (epsilon, delta) = self._meter.limits, self.spent
        return (
            f"ApproximateFilter(epsilon={digits(limits['epsilon'])}, delta={digits(limits['delta'])}, "
            f"spent=({digits(epsilon)}, {digits(delta)}))"
        )

    def __reduce__(self) -> NoReturn:
        no_copy(self)

    @property
    def spent(self) -> tuple[Fraction, Fraction]:
        """The sums of epsilons and deltas so far; no guarantee by themselves, see `guarantee`."""
        spent = self._meter.spent
        return spent["epsilon"], spent["delta"]

    @property
    def remaining(self) -> tuple[Fraction, Fraction]:
        """What is left of epsilon and of delta, exactly."""
        left = self._meter.left()
        return left["epsilon"], left["delta"]

    def admits(self, cost: Any) -> bool:
        """Tell whether a cost, or a mechanism's cost, would fit now in both sums."""
        return self._meter.fits(self._amounts(cost))

    def spend(self, cost: Any) -> None:
        """Charge a cost before its release is drawn.

        If it does not fit in both sums this raises `BudgetExceeded`, and nothing is charged.
        """
        self._meter.add(self._amounts(cost))

    def guarantee(self) -> Cost:
        """Return what all releases keep together: the two limits."""
        limits = self._meter.limits
        return Approximate(epsilon=limits["epsilon"], delta=limits["delta"])

    def _amounts(self, cost: Any) -> dict[str, Fraction]:
        # Both sums are needed: the proof goes by induction over the two budgets that are left (filters).
        epsilon, delta = approximate_sums(cost_of(cost, "ApproximateFilter"))
        return {
            "epsilon": _exact_amount(epsilon, "ApproximateFilter", "an (epsilon, delta) of its own", cost),
            "delta": delta,
        }


def _convert_at_delta(whole: Cost, delta: float, caller: str) -> Cost:
    """Return a guarantee itself, or its one conversion at a `delta` above 0."""
    # Of the limits, which were fixed in advance: an epsilon of what was spent is not claimed (filters).
    share = checked_delta(delta)
    if share == 0:
        return whole
    epsilon = whole.epsilon(delta)
    if epsilon == math.inf:
        raise InvalidParameter(
            f"A {caller} promises an epsilon at delta only if it is finite; "
            "got limits that are too large for one."
        )
    return Approximate(epsilon=epsilon, delta=share)


def _exact_amount(amount: Fraction | float, caller: str, view: str, cost: Any) -> Fraction:
    """Return an exact amount, or refuse a cost without one: a float may have been rounded down on its way."""
    if amount == math.inf:
        raise InvalidParameter(f"A {caller} needs costs with {view}; {type(cost).__name__} has none here.")
    if isinstance(amount, bool) or not isinstance(amount, Fraction | int) or amount < 0:
        raise InvalidParameter(
            f"A {caller} adds exact fractions of at least 0; {type(cost).__name__} gives another value."
        )
    return Fraction(amount)


# ---- one account of privacy filters ------------------------------------------------------------------
# Sums of exact amounts under limits that were fixed in advance.


@final
class Meter:
    """Exact sums under fixed limits, one for each unit; adding is all or nothing, also between threads.

    It works in the process that made it only: after a fork each copy would let the whole limit through.
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
                    "A filter lets no cost through in a signal handler in the middle of another one. Nothing "
                    "was charged."
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
                raise BudgetExceeded(
                    f"This release needs {unit} {digits(amounts[unit], 9)} but "
                    f"{digits(left, 9)} remains in the filter. Nothing was charged."
                )
        for unit in self.limits:
            self._spent[unit] += amounts[unit]

    def _stay(self) -> None:
        """Refuse to work in a copy of the process."""
        if not self._process.is_here():
            raise BudgetExceeded(
                "A filter lets costs through in the process that made it; "
                "in a copy of that process nothing remains. Nothing was charged."
            )


def once(thing: object) -> None:
    """Refuse to set the limits of a budget a second time."""
    if hasattr(thing, "_meter"):
        raise TypeError(
            f"A {type(thing).__name__} is one budget and its limits are set once: "
            "make another for another budget."
        )


def no_copy(thing: object) -> NoReturn:
    """Refuse to copy a budget."""
    raise TypeError(
        f"A {type(thing).__name__} is one budget and cannot be copied or pickled: "
        "the copy would be a second one."
    )
