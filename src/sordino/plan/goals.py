"""Goals: the smallest epsilon with which a release will be as good as somebody wishes.

The wish is written as a text: "±20" or "5%" for how far a figure may lie off, "top 10 right with
90%" for how likely the right items are named. What is looked at are plans, so nothing is read and
nothing is charged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, final

from sordino.constraints import shown
from sordino.errors import BudgetExceeded, InvalidParameter, SordinoError

_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(?:[eE]([+-]?[0-9]{1,2}))?"
_REACH = re.compile(rf"(?:±|\+-|\+/-)\s*{_NUMBER}", re.ASCII)
_SHARE = re.compile(rf"(?:±|\+-|\+/-)?\s*{_NUMBER}\s*%", re.ASCII)
_RIGHT = re.compile(rf"(?:top\s+([0-9]{{1,9}})\s+)?right\s+with\s+{_NUMBER}\s*%", re.ASCII)
_HOW = 'a goal such as "±20", "5%" or "top 10 right with 90%"'

_DECADES = range(-4, 4)
GRID: tuple[Fraction, ...] = tuple(
    # From whole numbers, which takes half the time: they are made whenever the module is loaded.
    Fraction(digits * 10 ** max(0, decade - 2), 10 ** max(0, 2 - decade))
    for decade in _DECADES
    for digits in range(100, 1000)
)
"""The epsilons that are tried, of three digits each: from 0.0001 to 9990."""
# A width that depends on the data varies from run to run by more than this factor.
_NEAR = Fraction(103, 100)
# Places of the grid, by which a search goes up that begins near the answer.
_FIRST_STEP = 4
_AMPLE = Fraction(100)
"""An epsilon that is too small for no noise."""


@final
@dataclass(frozen=True)
class Goal:
    """What a release shall reach.

    Attributes
    ----------
    text : str
        As it was written.
    kind : {"reach", "share", "right"}
        How far a figure may lie off: in its own unit, or in shares of it; or how likely a choice is
        right.
    amount : Fraction
        That far, or that likely.
    k : int or None
        Of which choice it was said.
    """

    text: str
    kind: Literal["reach", "share", "right"]
    amount: Fraction
    k: int | None = None


def parse_goal(owner: str, text: Any) -> Goal:
    """Return the goal that a text writes down.

    Raises
    ------
    InvalidParameter
        If it writes none.
    """
    words = text.strip() if isinstance(text, str) else ""
    if found := _REACH.fullmatch(words):
        amount = _read(found[1], found[2])
        if amount > 0:
            return Goal(words, "reach", amount)
    elif found := _SHARE.fullmatch(words):
        amount = _read(found[1], found[2]) / 100
        if amount > 0:
            return Goal(words, "share", amount)
    elif found := _RIGHT.fullmatch(words):
        amount = _read(found[2], found[3]) / 100
        if 0 < amount < 1:
            return Goal(words, "right", amount, None if found[1] is None else int(found[1]))
    raise InvalidParameter(f"{owner}.goal must be {_HOW}; got {shown(text)}.")


def _read(digits: str, exponent: str | None) -> Fraction:
    return Fraction(digits) * Fraction(10) ** int(exponent or 0)


class Reached(NamedTuple):
    """How good a release with some epsilon would be, and how good it shall be: less is better."""

    value: float
    wanted: float

    @property
    def is_met(self) -> bool:
        """Whether that is good enough."""
        return self.value <= self.wanted


@final
@dataclass(frozen=True)
class Search:
    """Looks for the smallest epsilon that reaches a goal.

    Parameters
    ----------
    owner : str
        The release, for messages.
    goal : Goal
        The goal.
    look : function
        From an epsilon to how good a release with it would be; it may refuse one.
    fits : function
        Whether the account has so much; it raises `BudgetExceeded` where not.
    describe : function
        From what was reached to words.
    exact : bool
        Whether what is looked at depends on no chance.
    closely : function or None
        Does what `look` does, where that one stops as soon as it sees that the goal is not reached.
    first : int
        The epsilon that is looked at first.
    """

    owner: str
    goal: Goal
    look: Callable[[Fraction], Reached]
    fits: Callable[[Fraction], object]
    describe: Callable[[float], str]
    exact: bool
    closely: Callable[[Fraction], Reached] | None = None
    first: int = 1

    def find(self, above: int = -1) -> Fraction:
        """Return that epsilon.

        Parameters
        ----------
        above : int
            A place of the grid that is known not to reach the goal: the answer lies above, and
            near.

        Raises
        ------
        BudgetExceeded
            If the account has less than it takes; the message says what is reached with what is
            left.
        InvalidParameter
            If no epsilon reaches it.
        """
        most, refusal = find_most(self.fits)
        if most < 0 and refusal is not None:
            raise refusal
        # The answer lies between the two; neither is known to be one. It begins where noise is
        # ordinary.
        low, high, met, step = above, most + 1, False, _FIRST_STEP
        start = place = min(find_place(self.first) if above < 0 else above + step, most)
        # A line is good for both ends of what is left, so that it is drawn twice in turn.
        turns, period, met_by = 0, 3 if self._has_lines else 2, list[tuple[float, Reached]]()
        while high - low > 1:
            seen = self._try(place)
            if seen is not None and seen.is_met:
                high, met = place, True
                met_by.append((float(GRID[place]), seen))
            elif seen is None and place > start:
                # Too large for some noise: there is nothing above.
                most, high = place - 1, place
            else:
                low = place
            if met and not self.exact and GRID[high] <= GRID[max(low, 0)] * _NEAR:
                break
            # By turns where the width or a line says, which is near soon, and in the middle, which
            # always ends.
            turns += 1
            if above >= 0 and not met:
                step *= 2
                place = low + step
            elif turns % period == 0:
                # A look at widths by chance ends at the first run that does not reach the goal: one
                # that does costs many times as much, so that fewer of them are made. All others
                # cost the same.
                ends_early = not self.exact and self.goal.kind != "right"
                place = low + (high - low) // (4 if ends_early else 2)
            elif self._has_lines:
                place = _draw_line(met_by, low, high)
            else:
                place = self._guess(place, seen, low, high)
            place = max(low + 1, min(place, high - 1))
        if not met:
            raise self._refuse(most, refusal)
        return GRID[high]

    def _try(self, place: int, look: Callable[[Fraction], Reached] | None = None) -> Reached | None:
        """Return how good that epsilon is, None where there is no such release."""
        if place < 0:
            return None
        try:
            return (look or self.look)(GRID[place])
        except (InvalidParameter, BudgetExceeded):
            # Too small an epsilon, or too large a one, for some noise: what is wrong besides was
            # said before.
            return None

    @property
    def _has_lines(self) -> bool:
        """Whether what was reached lies on a smooth curve.

        Where it is not met nothing is known of it.
        """
        return self.goal.kind == "right" and self.exact

    def _guess(self, place: int, seen: Reached | None, low: int, high: int) -> int:
        """Return where the goal is met if widths fall as epsilon rises."""
        if seen is None or self.goal.kind == "right" or not 0 < seen.value < math.inf:
            return (low + high) // 2
        wanted = float(GRID[place]) * seen.value / seen.wanted
        return max(low + 1, min(find_place(wanted), high - 1))

    def _refuse(self, most: int, refusal: BudgetExceeded | None) -> SordinoError:
        """Return the error that says what is possible instead."""
        if refusal is not None and self._reaches_anywhere():
            return BudgetExceeded(
                f"{self.owner}.goal {self.goal.text!r} needs more than remains: with epsilon "
                f"{float(GRID[most]):g}, the most that fits, it is {self._say_best(most)}. Nothing "
                "was read or released."
            )
        # An account with more would not help.
        top = most if refusal is None else len(GRID) - 1
        return InvalidParameter(
            f"{self.owner}.goal must be one that some epsilon reaches; got {self.goal.text!r}. "
            f"With epsilon {float(GRID[max(top, 0)]):g} it is {self._say_best(top)}."
        )

    def _reaches_anywhere(self) -> bool:
        """Tell whether some ample epsilon reaches the goal, whoever has it."""
        tried = [self._try(find_place(float(epsilon))) for epsilon in (_AMPLE, GRID[-1])]
        return any(one is not None and one.is_met for one in tried)

    def _say_best(self, place: int) -> str:
        seen = self._try(place, self.closely)
        return "nothing is known" if seen is None else self.describe(seen.value)


def find_most(fits: Callable[[Fraction], object]) -> tuple[int, BudgetExceeded | None]:
    """Return the account's largest epsilon of the grid, and what it says of a larger one.

    `fits` raises `BudgetExceeded` for an epsilon that the account has not.
    """
    refusal = _ask_account(fits, len(GRID) - 1)
    if refusal is None:
        return len(GRID) - 1, None
    low, high = -1, len(GRID) - 1
    while high - low > 1:
        middle = (low + high) // 2
        said = _ask_account(fits, middle)
        low, high, refusal = (middle, high, refusal) if said is None else (low, middle, said)
    return low, refusal


def _ask_account(fits: Callable[[Fraction], object], place: int) -> BudgetExceeded | None:
    try:
        fits(GRID[place])
    except BudgetExceeded as refused:
        return refused
    except InvalidParameter:
        # Too large for some noise, which `_try` finds as well.
        return None
    return None


def name_largest(refused: BudgetExceeded, fits: Callable[[Fraction], object]) -> BudgetExceeded:
    """Return a refusal that names the largest epsilon that fits, to three digits rounded down.

    Parameters
    ----------
    refused : BudgetExceeded
        As the account said it, which knows what pure noise costs, and not what was asked.
    fits : function
        Raises `BudgetExceeded` for an epsilon of what was asked that the account has not.
    """
    if refused.largest or not refused.fitting:
        return refused
    most, _ = find_most(fits)
    try:
        fits(GRID[max(most, 0)])
    except SordinoError:
        # There is no such release.
        return refused
    return refused.name_fitting(f"{float(GRID[most]):g}")


def _draw_line(met_by: list[tuple[float, Reached]], low: int, high: int) -> int:
    """Return where the goal is met if the logarithm of what is reached lies on a line in epsilon.

    The line goes through the two least epsilons that met it, which are the last ones. Where there
    is none, or it leads to where the goal is not met, it is the middle.
    """
    middle = (low + high) // 2
    if len(met_by) < 2 or min(seen.value for _, seen in met_by[-2:]) <= 0:
        return middle
    (right, above), (left, here) = met_by[-2:]
    fall = math.log(here.value / above.value) / (right - left)
    place = find_place(left - math.log(here.wanted / here.value) / fall) if fall > 0 else low
    return place if place > low else middle


def find_place(epsilon: float) -> int:
    """Return the place of the least epsilon of the grid that is at least this one."""
    if epsilon <= float(GRID[0]):
        return 0
    if epsilon >= float(GRID[-1]):
        return len(GRID) - 1
    low, high = 0, len(GRID) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if float(GRID[middle]) < epsilon else (low, middle)
    return high


def describe_right(value: float) -> str:
    """Return how likely a choice is right, of how likely it is wrong, in words."""
    return f"right with {math.floor(100 * (1 - value))}%"


def seek_right(
    owner: str,
    goal: Any,
    k: int,
    succeed: Callable[[Fraction, float], float],
    fits: Callable[[Fraction], object] | None,
    *,
    exact: bool,
) -> Fraction:
    """Return the smallest epsilon that rightly chooses k of some candidates as often as wished.

    Parameters
    ----------
    owner : str
        Whose goal it is, for messages.
    goal : str
        Such as "right with 90%".
    k : int
        How many are chosen.
    succeed : function
        From an epsilon, and from how likely is enough, to how likely the choice is right. It may
        refuse an epsilon, and where it is not enough, return anything that is not.
    fits : function or None
        Raises `BudgetExceeded` for an epsilon that the account has not.
    exact : bool
        Whether what `succeed` returns depends on no chance.

    Raises
    ------
    InvalidParameter, BudgetExceeded
        If the goal is none of a choice, or it cannot be reached.
    """
    wish = parse_goal(owner, goal)
    if wish.kind != "right" or wish.k not in {None, k}:
        raise InvalidParameter(
            f'{owner}.goal must be about its choice of k = {k}, such as "right with 90%"; '
            f"got {shown(goal)}."
        )

    wanted = float(wish.amount)

    def look(epsilon: Fraction) -> Reached:
        return Reached(1 - succeed(epsilon, wanted), 1 - wanted)

    def look_closely(epsilon: Fraction) -> Reached:
        return Reached(1 - succeed(epsilon, 0.0), 1 - wanted)

    # What is wrong besides is said now, and not taken for an epsilon that does not do.
    try:
        look(Fraction(k))
    except InvalidParameter:
        # Unless that epsilon alone was: too small a one for some noise.
        look(min(_AMPLE * k, GRID[-1]))
    return Search(
        owner, wish, look, fits or _fit_any, describe_right, exact, look_closely, k
    ).find()


def _fit_any(_epsilon: Fraction) -> None:
    pass
