"""Amounts in an account: whole nano-epsilon, a budget rounded down, a charge rounded up; never floats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, final

from sordino.constraints import NOT_NEGATIVE, POSITIVE, Number, shown
from sordino.errors import InvalidParameter, LedgerConflict

NANO = 10**9
LARGEST = 9 * 10**18  # below 2^63 - 1: an account is a signed 64-bit column in every database


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class Budget:
    """What an account may spend over its whole life.

    Parameters
    ----------
    epsilon : number
        In (0, 9e9], kept exactly; the account's limit is this rounded down to a whole nano-epsilon.
    delta : number
        Must be 0: this version has only the pure meter.
    meter : {"pure"}
        How charges add up; "pure" adds their pure epsilons.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> from sordino.ledger import Budget
    >>> Budget(epsilon=3.0)
    Budget(epsilon=3, delta=0, meter='pure')
    """

    epsilon: Number
    delta: Number = 0
    meter: Literal["pure"] = "pure"

    def __post_init__(self) -> None:
        if self.meter != "pure":
            raise InvalidParameter(f"Budget.meter must be 'pure', the only meter of this version; got {shown(self.meter)}.")
        object.__setattr__(self, "epsilon", POSITIVE("Budget.epsilon", self.epsilon))
        object.__setattr__(self, "delta", NOT_NEGATIVE("Budget.delta", self.delta))
        if self.delta != 0:
            raise InvalidParameter(
                f"Budget.delta must be 0 because the pure meter, the only one of this version, has no delta; got {float(self.delta):g}."
            )
        if self.nano < 1:
            raise InvalidParameter(f"Budget.epsilon must be at least a billionth, the unit of a ledger; got {shown(self.epsilon)}.")
        if self.nano > LARGEST:
            raise InvalidParameter(f"Budget.epsilon must be at most {LARGEST // NANO}; got {float(self.epsilon):g}.")

    def __repr__(self) -> str:
        return f"Budget(epsilon={float(self.epsilon):.12g}, delta=0, meter={self.meter!r})"

    @property
    def nano(self) -> int:
        """The limit of the account, in whole nano-epsilon, rounded down."""
        return math.floor(Fraction(POSITIVE("Budget.epsilon", self.epsilon)) * NANO)


def nano_up(exact: Fraction) -> int:
    """Return an exact epsilon in whole nano-epsilon, rounded up: what it is charged at."""
    return math.ceil(exact * NANO)


def epsilon_of(nano: int) -> Fraction:
    """Return the exact epsilon of a whole number of nano-epsilon."""
    return Fraction(nano, NANO)


def decimal(nano: int) -> str:
    """Return a whole number of nano-epsilon as the shortest exact decimal of its epsilon."""
    whole, part = divmod(nano, NANO)
    return f"{whole}.{part:09d}".rstrip("0").rstrip(".")


def things(chargeable: Any) -> tuple[Any, ...]:
    """Return what is to be charged as a tuple of mechanisms and costs."""
    listed = tuple(chargeable) if isinstance(chargeable, tuple | list) else (chargeable,)
    if not listed:
        raise InvalidParameter("A charge needs at least one mechanism or cost; got none.")
    return listed


def exact_cost(thing: Any) -> Fraction:
    """Return the exact pure epsilon of a mechanism or a cost, or raise `InvalidParameter`."""
    cost: Any = thing if hasattr(thing, "pure") else getattr(thing, "cost", None)
    if isinstance(thing, type) or not callable(getattr(cost, "pure", None)):
        # Only the type is named: arguments in the wrong order would put private answers here.
        raise InvalidParameter(
            f"A charge takes a mechanism or a cost such as cost.Pure(epsilon=0.1); got a {type(thing).__name__}."
        )
    epsilon: Any = cost.pure()
    if epsilon == math.inf:
        raise InvalidParameter(f"A pure account cannot be charged with {cost!r}: it has no finite epsilon at delta 0.")
    # A float may have been rounded down on its way, and a negative amount would fill the account up.
    if isinstance(epsilon, bool) or not isinstance(epsilon, Fraction | int) or epsilon < 0:
        raise InvalidParameter(
            f"The pure epsilon of a cost must be an exact fraction of at least 0; {type(cost).__name__} gives another value."
        )
    return Fraction(epsilon)


def check_claims(thing: Any, *, adjacency: str, allow_approximate: bool) -> None:
    """Refuse a mechanism whose guarantee is not the one that the account adds up."""
    name = type(thing).__name__
    stated = (getattr(thing, "adjacency", None), getattr(getattr(thing, "sensitivity", None), "adjacency", None))
    for own in stated:
        if own is not None and own != adjacency:
            raise LedgerConflict(
                f"The account is for adjacency {adjacency!r} but {name} is for {own!r}. Nothing was charged for it."
            )
    if getattr(thing, "exact", True) is not True and not allow_approximate:
        raise InvalidParameter(
            f"{name} is not exact: its guarantee holds in ideal arithmetic only; reserve with allow_approximate=True to accept that."
        )
