"""The meter of accounts in (epsilon, delta).

Sums at one Rényi order, and the sum of pure epsilons beside it.

Claim: while each charge leaves the deltas within their share and *either* the pure epsilons within
epsilon *or* the divergences at the order within its limit, all releases together are (epsilon,
delta)-private, however they were chosen from what was released before. Proof:
docs/proofs/renyi-accounts.md.

One order has the whole weight. A rule that goes on while *some* order of several has room is not
private at the delta that each of them is converted at; the page has a counterexample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from sordino.cost import ZCDP, Approximate, ApproximateZCDP, Composition, GumbelStage
from sordino.cost.conversion import round_up

NANO = 10**9
"""Divergences and epsilons are counted in billionths."""
ATTO = 10**18
"""Deltas are counted in units of 1e-18: a billionth would be more than most of them."""
LARGEST = 9 * 10**18
"""Below 2^63 - 1: an amount is a signed 64-bit column in every database."""
LEAST_ORDER, LARGEST_ORDER = Fraction(1_000_001, 10**6), Fraction(10**15)
RHO_ORDER = Fraction(1)
"""Stands for a sum of rhos beside one of deltas: a rho counts as it is. No divergence is read
there."""
_FINE = 10**15
"""A divergence that comes as a float is rounded up to a multiple of 1e-15, so that it is short to
write."""
_DIGITS = 60
_LOST = Decimal(
    "1e-40"
)  # more than what a sum of three terms loses in 60 digits, relative to their sizes


# ---- what a release adds, and what an account holds ----------------------------------------------


@dataclass(frozen=True)
class Amounts:
    """What something adds to an account, exactly.

    On the meters "pure" and "zcdp" it is `main`, an epsilon or a rho. On the meter "renyi" `main`
    is the divergence at the order of the account, and `pure` the pure epsilon (None: there is
    none). `failing` is the delta with which the release may fail; an account of rhos that keeps
    deltas has it, and no `pure`.
    """

    main: Fraction = Fraction(0)
    pure: Fraction | None = Fraction(0)
    failing: Fraction = Fraction(0)

    def __add__(self, other: Amounts) -> Amounts:
        pure = None if self.pure is None or other.pure is None else self.pure + other.pure
        return Amounts(self.main + other.main, pure, self.failing + other.failing)

    def without_pure(self) -> Amounts:
        """Return the same without a pure epsilon."""
        return Amounts(self.main, None, self.failing)

    def is_within(self, other: Amounts) -> bool:
        """Tell whether no part of it is more than that of `other`."""
        pure = other.pure is None or (self.pure is not None and self.pure <= other.pure)
        return pure and self.main <= other.main and self.failing <= other.failing

    def rounded_up(self) -> Sums:
        """Return it in whole units."""
        pure = None if self.pure is None else math.ceil(self.pure * NANO)
        # What no column can hold will never be within a limit, so it counts as no epsilon at all.
        impure = pure is None or pure > LARGEST
        return Sums(
            main=math.ceil(self.main * NANO),
            pure=0 if pure is None or impure else pure,
            failing=math.ceil(self.failing * ATTO),
            impure=int(impure),
        )


class Sums(NamedTuple):
    """Whole units: billionths of `main` and `pure`, 1e-18 of `failing`.

    1 as `impure`: no epsilon.
    """

    main: int = 0
    pure: int = 0
    failing: int = 0
    impure: int = 0

    def plus(self, more: Sums) -> Sums:
        """Return both together; that a part had no epsilon is never forgotten."""
        return Sums(
            self.main + more.main,
            self.pure + more.pure,
            self.failing + more.failing,
            self.impure | more.impure,
        )

    def is_too_large(self) -> bool:
        """Tell whether no account can hold it."""
        return max(self.main, self.pure, self.failing) > LARGEST


class Limits(NamedTuple):
    """What the sums of an account may reach, in the same units.

    `pure` is -1 where a share has no limit of its own for it, and where rhos count. `either` tells
    an account, in which one of the two sums within its limit is enough, from a share of one, which
    keeps to both.
    """

    main: int
    pure: int
    failing: int
    either: bool

    def admits(self, spent: Sums, asked: Sums) -> bool:
        """Tell whether an account that holds `spent` may take `asked` on.

        The reservation asks the database the same (`schema`).
        """
        if spent.failing > self.failing - asked.failing:
            return False
        main = spent.main <= self.main - asked.main
        pure = not (spent.impure or asked.impure) and spent.pure <= self.pure - asked.pure
        # What no column can hold is refused, whichever sum would have had room.
        if spent.main > LARGEST - asked.main or spent.pure > LARGEST - asked.pure:
            return False
        return (main or pure) if self.either else (main and (pure or self.pure < 0))

    def count_more(self, spent: Sums, asked: Sums) -> int | None:
        """Return how many of `asked`, one after the other, it takes on; None if there is no end."""
        if not self.admits(spent, asked):
            return 0
        main = _count(self.main - spent.main, asked.main)
        # One sum may be beyond its limit while the other still has room.
        pure = 0.0 if asked.impure or spent.impure else _count(self.pure - spent.pure, asked.pure)
        both = main if self.pure < 0 else min(main, pure)
        fitting = max(main, pure) if self.either else both
        fitting = min(fitting, _count(self.failing - spent.failing, asked.failing))
        return None if math.isinf(fitting) else int(fitting)


NOTHING = Sums()
NO_LIMITS = Limits(0, 0, 0, either=False)


def _count(left: int, each: int) -> float:
    if left < 0:
        return 0
    return left // each if each else math.inf


# ---- the order and its limit ---------------------------------------------------------------------


def order_limit(epsilon: Fraction, conversion: Fraction, order: Fraction) -> int:
    """Return what the divergences at `order` may add up to, in billionths, rounded down.

    At least 0.

    It is B = epsilon + ln(a/(a-1)) + ln(a delta)/(a-1) for the order a and the delta of the
    conversion.
    """
    context = _context()
    log_share = _log(context, order / (order - 1))
    log_delta = context.multiply(
        _log(context, order * conversion), _decimal(context, 1 / (order - 1))
    )
    terms = (_decimal(context, epsilon), log_share, log_delta)
    total, sizes = Decimal(0), Decimal(0)
    for term in terms:
        total, sizes = context.add(total, term), context.add(sizes, context.abs(term))
    # Lowered by more than was lost on the way, and then rounded down.
    lowered = context.subtract(total, context.multiply(sizes, _LOST))
    return min(LARGEST, max(0, math.floor(Fraction(lowered) * NANO)))


def choose_order(epsilon: Fraction, conversion: Fraction) -> Fraction:
    """Return the order at which an account allows the largest rho.

    Where its limit is largest for its order.

    Any order is private. With this one the account allows whatever a zCDP account of the same
    epsilon and delta does.
    """
    limit, log_delta = float(epsilon), math.log(conversion)

    def rho(place: float) -> float:
        above = math.exp(place)
        order = 1 + above
        return (limit + math.log1p(1 / above) + (math.log(order) + log_delta) / above) / order

    # It rises to one maximum and falls: a coarse look, then ever smaller thirds around the best.
    step, first = 0.25, math.log(float(LEAST_ORDER) - 1)
    places = [first + step * n for n in range(int((math.log(float(LARGEST_ORDER)) - first) / step))]
    best = max(places, key=rho)
    low, high = best - step, best + step
    for _ in range(80):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if rho(left) < rho(right) else (low, right)
    # Six digits are enough: around the maximum the limit changes by the square of what is rounded.
    found = 1 + Fraction(f"{math.exp((low + high) / 2):.5e}")
    return min(max(found, LEAST_ORDER), LARGEST_ORDER)


def spent_epsilon(spent: Sums, conversion: Fraction, order: Fraction) -> float:
    """Return an epsilon, rounded up, that what was spent so far has at the delta of the account.

    It is for a reader. The guarantee of the account is its limit: nobody may stop when this number
    says so.
    """
    # Without a divergence nothing was told, whatever was reserved: amounts are rounded up.
    if not spent.main:
        return 0.0
    pure = math.inf if spent.impure else round_up(Fraction(spent.pure, NANO))
    # The limit of an epsilon of 0 is what the conversion costs, negative; computed without its
    # floor at 0.
    context = _context()
    above = _decimal(context, 1 / (order - 1))
    cost = context.add(
        _log(context, order / (order - 1)),
        context.multiply(_log(context, order * conversion), above),
    )
    converted = Fraction(spent.main, NANO) - Fraction(cost) + Fraction(1, _FINE)
    return max(0.0, min(pure, round_up(converted)))


def _context() -> Context:
    # Of its own, whatever the context of the caller's thread is.
    return Context(prec=_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _decimal(context: Context, number: Fraction) -> Decimal:
    return context.divide(Decimal(number.numerator), Decimal(number.denominator))


def _log(context: Context, number: Fraction) -> Decimal:
    return context.ln(_decimal(context, number))


# ---- costs ---------------------------------------------------------------------------------------


def amounts_at(cost: Any, order: Fraction) -> Amounts | None:
    """Return what a cost adds at an order.

    None if it has neither a divergence there nor a pure epsilon.
    """
    total = Amounts()
    for firm, failing, count in set_failures_aside(cost):
        one = _firm_at(firm, order)
        if one is None:
            return None
        pure = None if one.pure is None else count * one.pure
        total += Amounts(count * one.main, pure, count * failing)
    return total


def set_failures_aside(cost: Any) -> Iterator[tuple[Any, Fraction, int]]:
    """Yield of each part what holds unless it fails, the delta of that, and how often it counts."""
    # Without its failure an (epsilon, delta) release is a pure one, a (rho, delta) release zCDP
    # ("Amounts").
    for part, count in cost.parts if isinstance(cost, Composition) else ((cost, 1),):
        if isinstance(part, Approximate | ApproximateZCDP):
            yield part.firm, part.delta_, count
        else:
            yield part, Fraction(0), count


def _firm_at(firm: Any, order: Fraction) -> Amounts | None:
    """Return what a part adds that does not fail."""
    pure = _exact_or_none(firm.pure())
    # The rho of a stage is searched for over its divergences, in milliseconds, and is at no order
    # below them.
    has_rho = hasattr(firm, "zcdp") and not isinstance(firm, GumbelStage)
    rho = _exact_or_none(firm.zcdp()) if has_rho else None
    # Each of these is a bound, so that the least one holds; a rho and an epsilon are exact.
    bounds = [] if pure is None else [pure]
    if rho is not None:
        bounds.append(rho * order)
    if not isinstance(firm, ZCDP) and hasattr(firm, "rdp"):
        # The order is rounded up: a divergence never falls with the order.
        reached = firm.rdp(round_up(order))
        if isinstance(reached, float | int) and 0 <= reached < math.inf:
            bounds.append(Fraction(math.ceil(Fraction(reached) * _FINE), _FINE))
    return Amounts(min(bounds), pure) if bounds else None


def _exact_or_none(number: Any) -> Fraction | None:
    """Return an exact number, or None if infinite, negative, or a float that may be too small."""
    if isinstance(number, bool) or not isinstance(number, Fraction | int) or number < 0:
        return None
    return Fraction(number)
