"""Amounts in an account: whole billionths, never floats. A budget is rounded down, a charge rounded up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, final

from sordino.constraints import POSITIVE, Number, exact, one_of, shown
from sordino.cost import ZCDP
from sordino.errors import InvalidParameter, LedgerConflict
from sordino.ledger.schema import LARGEST

NANO = 10**9
METER = one_of("pure", "zcdp")
MEASURES = {"pure": "epsilon", "zcdp": "rho"}  # what the amounts of an account are


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class Budget:
    """What an account may spend over its whole life.

    Parameters
    ----------
    epsilon : number
        In (0, 9e9], kept exactly.
    delta : number
        0 for the pure meter; in (0, 1) for the zCDP meter.
    meter : {"pure", "zcdp"}
        How charges add up. "pure" adds epsilons: the account is epsilon-private, and mechanisms with a proof
        for each transcript give back what they did not spend. "zcdp" adds rhos up to the largest rho that is
        still (epsilon, delta): many small releases cost less, and nothing that was drawn comes back
        [feldman2021].

    Attributes
    ----------
    limit : Fraction
        What the charges of the account may add up to, in epsilon or rho: a whole number of billionths,
        rounded down.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> from sordino.ledger import Budget
    >>> Budget(epsilon=3.0)
    Budget(epsilon=3, delta=0, meter='pure')
    >>> float(Budget(epsilon=1.0, delta=1e-6, meter="zcdp").limit)
    0.02435597
    """

    epsilon: Number
    delta: Number = 0
    meter: Literal["pure", "zcdp"] = "pure"
    limit: Fraction = field(init=False, compare=False)

    def __post_init__(self) -> None:
        METER("Budget.meter", self.meter)
        # The class is frozen, so what was checked is put in place by `object.__setattr__`.
        object.__setattr__(self, "epsilon", POSITIVE("Budget.epsilon", self.epsilon))
        delta = exact(self.delta)
        if delta is None or not 0 <= delta < 1:
            raise InvalidParameter(f"Budget.delta must be a number in [0, 1); got {shown(self.delta)}.")
        if self.meter == "pure" and delta != 0:
            raise InvalidParameter(
                f"Budget.delta must be 0 on the pure meter, which adds epsilons; got {float(delta):g}."
            )
        if self.meter == "zcdp" and delta < _LEAST_DELTA:
            raise InvalidParameter(
                "Budget.delta must be in (0, 1) on the zCDP meter, and at least 2^-1022: no rho is "
                f"(epsilon, 0); got {float(delta):.3g}."
            )
        object.__setattr__(self, "delta", delta)
        limit = (
            Fraction(self.epsilon) if self.meter == "pure" else _largest_rho(Fraction(self.epsilon), delta)
        )
        # Down, because a limit must not allow more than the budget says.
        whole = math.floor(limit * NANO)
        if whole < 1:
            raise InvalidParameter(
                f"Budget.epsilon must allow at least a billionth of {MEASURES[self.meter]}, "
                f"the unit of a ledger; got {shown(self.epsilon)}."
            )
        # A larger number would not fit in the columns of the databases.
        if whole > LARGEST:
            raise InvalidParameter(
                f"Budget.epsilon must be at most {LARGEST // NANO}; got {shown(self.epsilon)}."
            )
        object.__setattr__(self, "limit", Fraction(whole, NANO))

    def __repr__(self) -> str:
        return (
            f"Budget(epsilon={float(self.epsilon):.12g}, "
            f"delta={float(self.delta):.12g}, meter={self.meter!r})"
        )


def _largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho, in whole billionths, that is (epsilon, delta)-private."""
    # The epsilon of a rho grows with it: doubling finds one that is too large, halving the last that fits.
    low, high = 0, 1
    while high <= LARGEST and ZCDP(rho=Fraction(high, NANO)).epsilon(delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if ZCDP(rho=Fraction(middle, NANO)).epsilon(delta) <= epsilon:
            low = middle
        else:
            high = middle
    return Fraction(low, NANO)


# The conversion computes with floats, which are exact to the last digits from here on.
_LEAST_DELTA = Fraction(1, 1 << 1022)
_MOST_BITS = 13_000
"""Of the numerator and the denominator of an amount: fewer than 4,000 digits."""


def nano_up(amount: Fraction) -> int:
    """Return an exact amount in whole billionths, rounded up: what it is charged at."""
    return math.ceil(amount * NANO)


def nano_down(amount: Fraction) -> int:
    """Return an exact amount in whole billionths, rounded down: what it allows."""
    return math.floor(amount * NANO)


def amount_of(nano: int) -> Fraction:
    """Return the exact amount of a whole number of billionths."""
    return Fraction(nano, NANO)


def decimal(nano: int) -> str:
    """Return a whole number of billionths as the shortest exact decimal."""
    whole, part = divmod(nano, NANO)
    return f"{whole}.{part:09d}".rstrip("0").rstrip(".")


def things(chargeable: Any) -> tuple[Any, ...]:
    """Return what is to be charged as a tuple of mechanisms and costs."""
    listed = tuple(chargeable) if isinstance(chargeable, tuple | list) else (chargeable,)
    if not listed:
        raise InvalidParameter("A charge needs at least one mechanism or cost; got none.")
    return listed


def read_cost(thing: Any, view: str = "pure") -> Any:
    """Return the cost of a mechanism, or a cost itself; raise `InvalidParameter` for anything else."""
    # A cost has the view itself, a mechanism has a cost; costs of other packages count as well.
    cost: Any = thing if hasattr(thing, view) else getattr(thing, "cost", None)
    if isinstance(thing, type) or not callable(getattr(cost, view, None)):
        # Only the type is named: arguments in the wrong order would put private answers here.
        raise InvalidParameter(
            "A charge takes a mechanism or a cost such as "
            f"cost.Pure(epsilon=0.1); got a {type(thing).__name__}."
        )
    return cost


def exact_cost(thing: Any, meter: str) -> Fraction:
    """Return what a mechanism or a cost adds to a meter, exactly, or raise `InvalidParameter`."""
    cost = read_cost(thing, meter)
    amount: Any = getattr(cost, meter)()
    if amount == math.inf:
        raise InvalidParameter(
            f"An account with the {meter} meter cannot be charged with a {type(thing).__name__}: "
            f"it has no finite {MEASURES[meter]}{' at delta 0' if meter == 'pure' else ''}."
        )
    # A float may have been rounded down on its way, and a negative amount would fill the account up.
    if isinstance(amount, bool) or not isinstance(amount, Fraction | int) or amount < 0:
        raise InvalidParameter(
            f"The {MEASURES[meter]} of a cost must be an exact fraction of at least 0; "
            f"{type(cost).__name__} gives another value."
        )
    exactly = Fraction(amount)
    # The ledger writes it down with all its digits, and Python writes no longer numbers.
    if max(exactly.numerator.bit_length(), exactly.denominator.bit_length()) > _MOST_BITS:
        raise InvalidParameter(
            f"The {MEASURES[meter]} of a cost must be a fraction of at most 4,000 digits; "
            f"{type(cost).__name__} gives a longer one. Round it up."
        )
    return exactly


def check_claims(thing: Any, *, adjacency: str, allow_approximate: bool) -> None:
    """Refuse a mechanism whose guarantee is not the one that the account adds up."""
    name = type(thing).__name__
    # A mechanism says it itself, or its sensitivity does. A cost says neither.
    stated = (
        getattr(thing, "adjacency", None),
        getattr(getattr(thing, "sensitivity", None), "adjacency", None),
    )
    for own in stated:
        if own is not None and own != adjacency:
            raise LedgerConflict(
                f"The account is for adjacency {adjacency!r} but "
                f"{name} is for {own!r}. Nothing was charged for it."
            )
    # Anything but a plain True counts as "not exact".
    if getattr(thing, "exact", True) is not True and not allow_approximate:
        raise InvalidParameter(
            f"{name} is not exact: its guarantee holds in ideal arithmetic only; "
            "reserve with allow_approximate=True to accept that."
        )
