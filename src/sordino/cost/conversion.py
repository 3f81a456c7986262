"""Exact numbers as text and as floats, and conversions between notions of privacy.

What is converted is rounded to the safe side.

References: [canonne2020, Prop. 12] for Rényi to (epsilon, delta); [bun2016, Prop. 3.3] for pure to
zCDP; [kairouz2015, Thm 3.3] for one pure mechanism to (epsilon, delta).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from sordino.constraints import exact, shown
from sordino.errors import InvalidParameter

# ---- digits --------------------------------------------------------------------------------------


_WRITABLE_LIMIT = 10**4000  # longer whole numbers Python refuses to write


def digits(number: Fraction, precision: int = 12) -> str:
    """Return `number` to `precision` significant digits, rounded to the nearest."""
    try:
        near = float(number)
    except OverflowError:
        near = 0.0
    # The smallest floats have lost digits; all others have enough of them.
    if abs(near) > 1e-300 or number == 0:
        return f"{near:.{precision}g}"
    # Decimals of any size, whatever the context of the caller's thread is.
    context = Context(prec=precision, Emax=MAX_EMAX, Emin=MIN_EMIN)
    return str(
        context.divide(Decimal(number.numerator), Decimal(number.denominator)).normalize(context)
    ).lower()


def write_percent(share: Fraction, towards: int = 0) -> str:
    """Return a share in percent, with two digits.

    It is rounded up with 1 for `towards`, down with -1, else to the nearest.
    """
    percent = 100 * share
    if percent <= 0:
        return "0%"
    if percent > _MOST_PERCENT:
        return f"over {_MOST_PERCENT:,}%"
    step = Fraction(1)
    while percent < 10 * step and step > Fraction(1, 10**9):
        step /= 10
    steps = percent / step
    whole = math.ceil(steps) if towards > 0 else math.floor(steps) if towards < 0 else round(steps)
    return f"{float(whole * step):,.9g}%" if whole * step < 1000 else f"{int(whole * step):,}%"


_MOST_PERCENT = 10**9


def find_largest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest whole number up to about `most` that fits, where a smaller one does too.

    0 if 1 does not.
    """
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def cut_digits(whole: int, digits: int = 3) -> int:
    """Return a whole number rounded down to so many digits."""
    step: int = 10 ** max(0, len(str(whole)) - digits)
    return whole // step * step


def nearest(number: Fraction) -> float | None:
    """Return the float nearest to `number`, for reading.

    Never 0 unless it is 0, None beyond the floats.
    """
    try:
        near = float(number)
    except OverflowError:
        return None
    # To a reader 0 would mean that nothing is spent.
    return near if near or not number else 5e-324


def ratio(number: Fraction) -> str:
    """Return `number` exactly, as "n/d", or "n" if it is whole."""
    if max(abs(number.numerator), number.denominator) < _WRITABLE_LIMIT:
        return str(number)
    # Decimals write whole numbers of any length.
    top, bottom = (f"{Decimal(part):f}" for part in number.as_integer_ratio())
    return top if bottom == "1" else f"{top}/{bottom}"


# The golden ratio, by which a search over orders narrows: one of its two points serves again.
_ORDER_SEARCH_RATIO = (math.sqrt(5) - 1) / 2
# More than a sum of four rounded terms can lose, relative to their sizes.
_CONVERSION_ROUNDING = 16 * 2.0**-53
# More than the rounding up of a delta, so that an epsilon seldom has to be raised afterwards.
_EPSILON_SLACK = 4e-12
# Divergences below it are said to be it, or epsilon if that is less: their squares leave the
# floats.
_SMALLEST_DIVERGENCE = 1e-290
_LEAST_DELTA = 1e-321  # added to a delta that is not 0: more than what the smallest floats lose


def round_up(number: Fraction | float) -> float:
    """Return the smallest float at least `number`; inf beyond the floats."""
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf
    if isinstance(number, Fraction):  # compared as whole numbers, which is many times faster
        top, bottom = nearest.as_integer_ratio()
        return (
            math.nextafter(nearest, math.inf)
            if top * number.denominator < number.numerator * bottom
            else nearest
        )
    return math.nextafter(nearest, math.inf) if nearest < number else nearest


def stated(number: Fraction | float) -> float:
    """Return the smallest float at least `number` whose shortest decimal is at least that, too.

    The shortest decimal is what a float means here.
    """
    found = round_up(number)
    return (
        found
        if math.isinf(found) or Fraction(repr(found)) >= number
        else math.nextafter(found, math.inf)
    )


def round_up_written(number: Fraction) -> float:
    """Return a float that is not below an exact number as it is written: 0.3 stands for 3/10."""
    near = float(number)
    return near if Fraction(repr(near)) >= number else math.nextafter(near, math.inf)


def round_down(number: Fraction | float) -> float:
    """Return the largest finite float at most `number`; inf for inf."""
    try:
        nearest = float(number)
    except OverflowError:
        return sys.float_info.max
    return nearest if nearest <= number else math.nextafter(nearest, -math.inf)


def checked_delta(delta: float | Fraction) -> Fraction:
    """Return the exact number that `delta` stands for, or raise unless it lies in [0, 1)."""
    number = exact(delta)
    if number is None or not 0 <= number < 1:
        raise InvalidParameter(f"delta must be a number in [0, 1); got {shown(delta)}.")
    return number


def checked_epsilon(epsilon: float) -> Fraction | float:
    """Return the exact number that `epsilon` stands for, or inf; raise unless it is at least 0."""
    number = exact(epsilon)
    if (number is None and epsilon != math.inf) or (number is not None and number < 0):
        raise InvalidParameter(f"epsilon must be a number in [0, inf]; got {shown(epsilon)}.")
    return math.inf if number is None else number


def checked_alpha(alpha: float) -> float:
    """Return `alpha` as a float, rounded up, or raise unless it is above 1 (inf is allowed)."""
    # The quick way: a search over orders asks for many floats.
    if type(alpha) is float and alpha >= 1 + 2**-40:
        return alpha
    number = exact(alpha)
    if (number is None and alpha != math.inf) or (number is not None and number <= 1):
        raise InvalidParameter(f"alpha must be a number in (1, inf]; got {shown(alpha)}.")
    # Up, because a divergence never falls with the order.
    return math.inf if number is None else max(round_up(number), 1 + 2**-40)


def raise_divergence(divergence: float, epsilon: float) -> float:
    """Return a computed divergence, or where floats lose their digits a number above it.

    `epsilon` is its limit.
    """
    return max(divergence, min(epsilon, _SMALLEST_DIVERGENCE))


def raise_delta(delta: float) -> float:
    """Return a computed delta above what its rounding may have lost, at most 1."""
    return min(1.0, delta * (1 + 1e-12) + _LEAST_DELTA)


def pure_rdp(epsilon: float, alpha: float) -> float:
    """Return the largest Rényi divergence of order `alpha` between laws of bounded log ratio.

    The log ratio is in [-epsilon, epsilon]. The extreme pair is randomized response (two points):
    ln(p e^{(a-1)e} + (1-p) e^{-(a-1)e}) / (a-1), with p = e^e / (1 + e^e).
    """
    if epsilon == 0 or math.isinf(epsilon) or math.isinf(alpha):
        return epsilon
    order = alpha - 1
    reach = order * epsilon
    if (
        reach < 20
    ):  # ln(cosh y + tanh(e/2) sinh y), all terms positive: no digits cancel near alpha = 1
        total = math.log1p(
            2 * math.sinh(reach / 2) ** 2 + math.tanh(epsilon / 2) * math.sinh(reach)
        )
    else:
        total = reach - math.log1p(math.exp(-epsilon)) + math.log1p(math.exp(-2 * reach - epsilon))
    # Rounding up: the terms carry relative errors of a few 2^-53, and the divergence never passes
    # epsilon.
    return raise_divergence(min(epsilon, total / order * (1 + 1e-12)), epsilon)


def pure_delta(epsilon0: float, epsilon: float) -> float:
    """Return the least delta that holds at `epsilon` for every epsilon0-private mechanism."""
    if epsilon >= epsilon0:
        return 0.0
    if math.isinf(epsilon0):
        return 1.0
    # (e^epsilon0 - e^epsilon) / (e^epsilon0 + 1), both sides divided by e^epsilon0 so that nothing
    # overflows.
    return raise_delta(-math.expm1(epsilon - epsilon0) / (1 + math.exp(-epsilon0)))


def pure_epsilon(epsilon0: float, delta: float) -> float:
    """Return the least epsilon that holds at `delta` for every epsilon0-private mechanism."""
    if delta == 0 or math.isinf(epsilon0):
        return epsilon0
    share = delta * (1 + math.exp(-epsilon0))
    return solve_curve(
        lambda epsilon: pure_delta(epsilon0, epsilon), delta, epsilon0, epsilon0, share
    )


def solve_curve(
    delta_at: Callable[[float], float],
    delta: float,
    top: float,
    width: float,
    share: float,
    power: int = 1,
) -> float:
    """Return the epsilon at `delta` of a multiple of (1 - e^((epsilon - width)/power))^power.

    It is where the bracket is `share`; `top` is an epsilon that holds.
    """
    # Solved in floats: `settled` raises it until its own delta is small enough.
    guess = 0.0 if share >= 1 else max(0.0, (width + power * math.log1p(-share)) * (1 + 1e-12))
    return settled(delta_at, guess, delta, top)


def settled(delta_at: Callable[[float], float], guess: float, delta: float, top: float) -> float:
    """Return an epsilon at or just above `guess` whose delta is at most `delta`.

    `top` is one that holds.

    It holds for the shortest decimal of what is returned too, which may lie half a unit in the last
    place below.
    """
    # At least a unit in the last place of the guess, so that every step moves it.
    step = math.ulp(top if top < math.inf else max(guess, 1e-3))
    # The step doubles, so that few are needed however far the guess is off.
    while guess < top and delta_at(math.nextafter(guess, 0.0)) > delta:
        guess, step = guess + step, 2 * step
    return min(guess, top)


def rdp_epsilon(rdp: Callable[[float], float], delta: float) -> float:
    """Return the smallest epsilon at `delta` over all orders.

    Every order gives a valid one, so the search need not be exact.
    """
    if delta == 0:
        return rdp(math.inf)
    log_delta = math.log(delta)
    rdp = _memoize_curve(rdp)

    def at(alpha: float) -> float:
        order = alpha - 1
        # [canonne2020, Prop. 12], as on the page "Composition and conversion".
        divergence, share, rest = (
            rdp(alpha),
            _log_one_minus_inverse(alpha),
            (log_delta + math.log(alpha)) / order,
        )
        # Terms may cancel, so each is raised by a share of its own size.
        lost = _CONVERSION_ROUNDING * (
            divergence - share + abs(log_delta) / order + math.log(alpha) / order
        )
        return divergence + share - rest + lost + _EPSILON_SLACK / order

    guess = max(0.0, _minimum_over_orders(at) * (1 + 1e-12))
    # Every order gives a valid epsilon; below the floats no delta could confirm it.
    if math.isinf(guess) or delta < 1e-300:
        return guess
    return settled(lambda epsilon: rdp_delta(rdp, epsilon), guess, delta, math.inf)


def _memoize_curve(rdp: Callable[[float], float]) -> Callable[[float], float]:
    """Return the same curve, which computes no order twice.

    A check of the result visits most again.
    """
    known: dict[float, float] = {}

    def at(alpha: float) -> float:
        if alpha not in known:
            known[alpha] = rdp(alpha)
        return known[alpha]

    return at


def rdp_delta(rdp: Callable[[float], float], epsilon: float) -> float:
    """Return the smallest delta at `epsilon` over all orders."""
    # Any finite divergence bounds the probability of an infinite loss by 0.
    if epsilon == math.inf:
        return 0.0 if any(rdp(1 + 10.0**k) < math.inf for k in range(-3, 4)) else 1.0

    def at(alpha: float) -> float:
        order, divergence, share = alpha - 1, rdp(alpha), _log_one_minus_inverse(alpha)
        # The same formula solved for the logarithm of delta, each term raised by what it may have
        # lost.
        gap = divergence - epsilon + share + _CONVERSION_ROUNDING * (divergence + epsilon - share)
        return order * gap - math.log(alpha) * (1 - _CONVERSION_ROUNDING)

    # A positive logarithm would be a delta above 1, which says nothing.
    least = _minimum_over_orders(at)
    return 1.0 if least >= 0 else raise_delta(math.exp(least))


def _log_one_minus_inverse(alpha: float) -> float:
    """Return ln(1 - 1/alpha).

    The quotient loses digits near 1, the difference of logarithms far from it.
    """
    return math.log(alpha - 1) - math.log(alpha) if alpha < 2 else math.log1p(-1 / alpha)


def _minimum_over_orders(at: Callable[[float], float]) -> float:
    """Return a value of `at` near its minimum over orders in (1.0009, 9e6).

    It is searched for on a grid, then by golden section.
    """

    def on_log(x: float) -> float:
        return at(1 + math.exp(x))

    grid = [-7 + 0.5 * i for i in range(47)]
    values = [on_log(x) for x in grid]
    best = min(range(len(grid)), key=values.__getitem__)
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    inner, outer = (
        high - _ORDER_SEARCH_RATIO * (high - low),
        low + _ORDER_SEARCH_RATIO * (high - low),
    )
    at_inner, at_outer = on_log(inner), on_log(outer)
    for _ in range(34):  # the bracket shrinks to 1e-7 and the value, flat there, settles to 1e-14
        if at_inner < at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - _ORDER_SEARCH_RATIO * (high - low)
            at_inner = on_log(inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + _ORDER_SEARCH_RATIO * (high - low)
            at_outer = on_log(outer)
    return min(values[best], at_inner, at_outer)
