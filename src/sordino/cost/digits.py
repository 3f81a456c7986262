"""Writes exact numbers as text and as floats for reading; works on any fraction, however large or small."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

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


def nearest(number: Fraction) -> float | None:
    """Return the float nearest to `number`, for reading: never 0 unless it is 0, None beyond the floats."""
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
