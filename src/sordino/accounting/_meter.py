"""Sums of exact amounts under limits that were fixed in advance."""

from __future__ import annotations

import os
from fractions import Fraction
from threading import Lock
from typing import NoReturn, final

from sordino.cost._digits import digits
from sordino.errors import BudgetExceeded


@final
class Meter:
    """Exact sums under fixed limits, one for each unit; adding is all or nothing, also between threads.

    It works in the process that made it only: after a fork each copy would let the whole limit through.
    """

    def __init__(self, **limits: Fraction) -> None:
        self.limits = limits
        self._spent = dict.fromkeys(limits, Fraction(0))
        self._lock = Lock()
        self._process = os.getpid()

    @property
    def spent(self) -> dict[str, Fraction]:
        """The sums so far; in a copy of the process those at the fork."""
        if self._process != os.getpid():  # the lock may have been held when the process was copied
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
        left = self.left()
        return all(amounts[unit] <= left[unit] for unit in left)

    def add(self, amounts: dict[str, Fraction]) -> None:
        """Add all amounts, or none and raise `BudgetExceeded` if one does not fit."""
        self._stay()
        with self._lock:
            for unit, limit in self.limits.items():
                left = limit - self._spent[unit]
                if amounts[unit] > left:
                    raise BudgetExceeded(
                        f"This release needs {unit} {digits(amounts[unit], 9)} but {digits(left, 9)} remains in the filter. "
                        "Nothing was charged."
                    )
            for unit in self.limits:
                self._spent[unit] += amounts[unit]

    def _stay(self) -> None:
        """Refuse to work in a copy of the process."""
        if self._process != os.getpid():
            raise BudgetExceeded(
                "A filter lets costs through in the process that made it; in a copy of that process nothing remains. Nothing was charged."
            )


def once(thing: object) -> None:
    """Refuse to set the limits of a budget a second time."""
    if hasattr(thing, "_meter"):
        raise TypeError(f"A {type(thing).__name__} is one budget and its limits are set once: make another for another budget.")


def no_copy(thing: object) -> NoReturn:
    """Refuse to copy a budget."""
    raise TypeError(f"A {type(thing).__name__} is one budget and cannot be copied or pickled: the copy would be a second one.")
