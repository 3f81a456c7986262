"""Amounts in an account: whole billionths, never floats.

A budget is rounded down, a charge rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple, final

from sordino.constraints import POSITIVE, Number, exact, one_of, shown
from sordino.cost import ZCDP
from sordino.errors import InvalidParameter, LedgerConflict
from sordino.ledger.renyi import (
    ATTO,
    LARGEST,
    LARGEST_ORDER,
    LEAST_ORDER,
    NANO,
    Amounts,
    Limits,
    amounts_at,
    choose_order,
    order_limit,
    set_failures_aside,
)

METER = one_of("pure", "zcdp", "renyi")
MEASURES = {
    "pure": "epsilon",
    "zcdp": "rho",
    "renyi": "divergence",
}  # what the amounts of an account are


class Meter(NamedTuple):
    """How charges of an account add up: its name, and where deltas add up beside them the order.

    The order of an account of rhos that keeps deltas is `renyi.RHO_ORDER`. Without one there is a
    single sum.
    """

    name: str
    order: Fraction | None = None

    @property
    def measure(self) -> str:
        """What its amounts are."""
        return MEASURES[self.name]


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class Budget:
    """What an account may spend over its whole life.

    Parameters
    ----------
    epsilon : number
        In (0, 9e9], kept exactly.
    delta : number
        0 for the pure meter; in (0, 1) for the others.
    meter : {"pure", "zcdp", "renyi"}, optional
        How charges add up; "pure" if not given and delta is 0, else "renyi". "pure" adds epsilons:
        the account is epsilon-private, and mechanisms with a proof for each transcript give back
        what they did not spend. "zcdp" adds rhos up to the largest rho that is still (epsilon,
        delta): many small releases cost less, and nothing that was drawn comes back [feldman2021].
        "renyi" adds Rényi divergences at one order *and* pure epsilons; either sum within its limit
        is enough, so that it takes every list of costs that the other two take
        (docs/proofs/renyi-accounts.md). Which costs the releases of a session have depends on the
        account (docs/proofs/noise-choice.md).
    failures : number
        In [0, delta), on an account with a delta: the part of it that is kept for releases that may
        fail with a delta of their own, such as `cost.Approximate`. These deltas add up, and never
        come back. The rest of delta is for the account itself, whose limit is that much smaller.
    order : number, optional
        Of the meter "renyi", in [1.000001, 1e15]. If not given it is the one that allows the
        largest rho.

    Attributes
    ----------
    limit : Fraction
        What the charges of the account may add up to, in epsilon, rho or the divergence at the
        order: a whole number of billionths, rounded down.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> from sordino.ledger import Budget
    >>> Budget(epsilon=3.0)
    Budget(epsilon=3, delta=0, meter='pure')
    >>> Budget(epsilon=3.0, delta=1e-6)
    Budget(epsilon=3, delta=1e-06, meter='renyi', order=8.92606)
    >>> float(Budget(epsilon=1.0, delta=1e-6, meter="zcdp").limit)
    0.02435597
    >>> float(Budget(epsilon=1.0, delta=1e-6, meter="zcdp", failures=5e-7).limit)
    0.022937446
    """

    epsilon: Number
    delta: Number = 0
    meter: Literal["pure", "zcdp", "renyi"] | None = None
    failures: Number = 0
    order: Number | None = None
    limit: Fraction = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # The class is frozen, so what was checked is put in place by `object.__setattr__`.
        object.__setattr__(self, "epsilon", POSITIVE("Budget.epsilon", self.epsilon))
        delta = exact(self.delta)
        if delta is None or not 0 <= delta < 1:
            raise InvalidParameter(
                f"Budget.delta must be a number in [0, 1); got {shown(self.delta)}."
            )
        meter = METER("Budget.meter", self.meter or ("renyi" if delta else "pure"))
        if meter == "pure" and delta != 0:
            raise InvalidParameter(
                "Budget.delta must be 0 on the pure meter, which adds epsilons; got "
                f"{float(delta):g}."
            )
        if meter != "pure" and delta < _LEAST_DELTA:
            written, why = (
                ("zCDP", "no rho is (epsilon, 0)")
                if meter == "zcdp"
                else ("Rényi", "0 is the pure meter")
            )
            raise InvalidParameter(
                f"Budget.delta must be in (0, 1) on the {written} meter, and at least 2^-1022: "
                f"{why}; got {float(delta):.3g}."
            )
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "meter", meter)
        object.__setattr__(self, "failures", self._check_failures(delta))
        if meter == "renyi":
            self._check_order()
        elif self.order is not None:
            raise InvalidParameter(
                f"Budget.order is for the meter 'renyi' alone; the meter is {meter!r}."
            )
        # Down, because a limit must not allow more than the budget says.
        whole = self._whole_limit()
        smallest = math.floor(Fraction(self.epsilon) * NANO) if meter == "renyi" else whole
        if smallest < 1:
            measure = "rho" if meter == "zcdp" else "epsilon"
            raise InvalidParameter(
                f"Budget.epsilon must allow at least a billionth of {measure}, "
                f"the unit of a ledger; got {shown(self.epsilon)}."
            )
        # A larger number would not fit in the columns of the databases.
        if max(whole, smallest) > LARGEST:
            raise InvalidParameter(
                f"Budget.epsilon must be at most {LARGEST // NANO}; got {shown(self.epsilon)}."
            )
        object.__setattr__(self, "limit", Fraction(whole, NANO))

    def __repr__(self) -> str:
        order = f", order={float(self.order):.9g}" if self.order is not None else ""
        failures = f", failures={float(self.failures):.12g}" if self.failures else ""
        return (
            f"Budget(epsilon={float(self.epsilon):.12g}, delta={float(self.delta):.12g}, "
            f"meter={self.meter!r}{failures}{order})"
        )

    @property
    def limits(self) -> Limits:
        """What the sums of the account may reach, in whole units."""
        main = nano_down(self.limit)
        failing = math.floor(Fraction(self.failures) * ATTO)
        if self.meter == "renyi":
            return Limits(main, nano_down(Fraction(self.epsilon)), failing, either=True)
        # Beside rhos no epsilons are counted, and none is enough: as in a share that has no part of
        # them.
        return Limits(main, -1 if self.failures else 0, failing, either=False)

    @property
    def conversion(self) -> Fraction:
        """What is left of delta for the account itself."""
        return Fraction(self.delta) - Fraction(self.failures)

    def _check_failures(self, delta: Fraction) -> Fraction:
        failures = exact(self.failures)
        if self.meter == "pure" and failures != 0:
            raise InvalidParameter(
                "Budget.failures must be 0 on the pure meter, which has no delta; "
                f"give a delta beside it. Got {shown(self.failures)}."
            )
        if failures is None or not 0 <= failures <= max(Fraction(0), delta - _LEAST_DELTA):
            raise InvalidParameter(
                "Budget.failures must be a number in [0, delta): the account needs a part of delta "
                f"for itself; got {shown(self.failures)}."
            )
        return failures

    def _check_order(self) -> None:
        # The order is chosen for the largest budget that a ledger holds, whatever was asked for.
        epsilon = min(Fraction(self.epsilon), Fraction(LARGEST, NANO))
        order = choose_order(epsilon, self.conversion) if self.order is None else exact(self.order)
        if order is None or not LEAST_ORDER <= order <= LARGEST_ORDER:
            raise InvalidParameter(
                f"Budget.order must be a number in [1.000001, 1e15]; got {shown(self.order)}."
            )
        object.__setattr__(self, "order", order)

    def _whole_limit(self) -> int:
        """Return the limit in whole billionths, rounded down."""
        epsilon = Fraction(self.epsilon)
        if self.meter == "pure":
            return math.floor(epsilon * NANO)
        if self.meter == "zcdp":
            return math.floor(_largest_rho(epsilon, self.conversion) * NANO)
        assert self.order is not None  # noqa: S101  (`_check_order` has chosen it)
        return order_limit(
            min(epsilon, Fraction(LARGEST, NANO)), self.conversion, Fraction(self.order)
        )


def _largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho, in whole billionths, that is (epsilon, delta)-private."""
    # The epsilon of a rho grows with it: doubling finds one that is too large, halving the last
    # that fits.
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
    """Return the cost of a mechanism, or a cost itself.

    Raise `InvalidParameter` for anything else.
    """
    # A cost has the view itself, a mechanism has a cost; costs of other packages count as well.
    cost: Any = thing if hasattr(thing, view) else getattr(thing, "cost", None)
    if isinstance(thing, type) or not callable(getattr(cost, view, None)):
        # Only the type is named: arguments in the wrong order would put private answers here.
        raise InvalidParameter(
            "A charge takes a mechanism or a cost such as cost.Pure(epsilon=0.1); got a "
            f"{type(thing).__name__}."
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
    # A float may have been rounded down on its way, and a negative amount would fill the account
    # up.
    if isinstance(amount, bool) or not isinstance(amount, Fraction | int) or amount < 0:
        raise InvalidParameter(
            f"The {MEASURES[meter]} of a cost must be an exact fraction of at least 0; "
            f"{type(cost).__name__} gives another value."
        )
    exactly = Fraction(amount)
    _check_writable(exactly, MEASURES[meter], cost)
    return exactly


def exact_amounts(thing: Any, meter: Meter) -> Amounts:
    """Return what a mechanism or cost adds to an account, exactly, or raise `InvalidParameter`."""
    if meter.order is None:
        return Amounts(exact_cost(thing, meter.name))
    if meter.name == "zcdp":
        return _rho_and_delta(thing)
    cost = read_cost(thing)
    found = amounts_at(cost, meter.order)
    if found is None:
        raise InvalidParameter(
            f"An account with the renyi meter cannot be charged with a {type(thing).__name__}: it "
            f"has neither a finite divergence at order {float(meter.order):.6g} nor a finite "
            "epsilon."
        )
    for number in (found.main, found.pure or Fraction(0), found.failing):
        _check_writable(number, "amounts", cost)
    return found


def _rho_and_delta(thing: Any) -> Amounts:
    """Return the rho of what holds unless it fails, and the sum of the deltas of that."""
    cost = read_cost(thing, "zcdp")
    parts = list(set_failures_aside(cost))
    failing = sum((count * delta for _, delta, count in parts), Fraction(0))
    # What cannot fail is charged as on any account of rhos.
    if not failing:
        return Amounts(exact_cost(thing, "zcdp")).without_pure()
    rho = sum((count * exact_cost(firm, "zcdp") for firm, _, count in parts), Fraction(0))
    for number in (rho, failing):
        _check_writable(number, "amounts", cost)
    return Amounts(rho, None, failing)


def firm_amounts(thing: Any, meter: Meter) -> Amounts:
    """Return the pure epsilon of what holds unless it fails, and the delta.

    Or raise `InvalidParameter`.

    A delta goes with an epsilon only on an account that keeps a sum of deltas.
    """
    if meter.order is None:
        return Amounts(pure=exact_cost(thing, "pure"))
    total = Amounts()
    for firm, delta, count in set_failures_aside(read_cost(thing)):
        total += Amounts(pure=count * exact_cost(firm, "pure"), failing=count * delta)
    return total


def _check_writable(number: Fraction, what: str, cost: Any) -> None:
    # The ledger writes it down with all its digits, and Python writes no longer numbers.
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > _MOST_BITS:
        raise InvalidParameter(
            f"The {what} of a cost must be a fraction of at most 4,000 digits; "
            f"{type(cost).__name__} gives a longer one. Round it up."
        )


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
                f"The account is for adjacency {adjacency!r} but {name} is for {own!r}. Nothing "
                "was charged for it."
            )
    # Anything but a plain True counts as "not exact".
    if getattr(thing, "exact", True) is not True and not allow_approximate:
        raise InvalidParameter(
            f"{name} is not exact: its guarantee holds in ideal arithmetic only; "
            "reserve with allow_approximate=True to accept that."
        )
