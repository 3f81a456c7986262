"""The sum of many Rényi curves, prepared once and then quick at every order."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from sordino.cost.base import Cost
from sordino.cost.conversion import round_up
from sordino.cost.range import BoundedRange, Pure, Range
from sordino.cost.rdp import LAST, RDP, ZCDP, falling, steps_of, union

if TYPE_CHECKING:
    from sordino.cost.rdp_arrays import Floats

Curve: TypeAlias = Callable[[float], float]

MANY = 16  # different costs from which on arrays are faster


class _CurveTerms(NamedTuple):
    """A curve as rho * order + constant + one of the curves that arrays sum, with its numbers."""

    rho: Fraction = Fraction(0)
    constant: Fraction = Fraction(0)
    kind: str = ""
    numbers: tuple[float, ...] = ()


@lru_cache(maxsize=8)
def summed_rdp(parts: frozenset[tuple[Cost, int]]) -> Curve:
    """Return the curve of the sum of count * part.rdp(order) over `parts`, rounded up."""
    rho = constant = Fraction(0)
    rest: list[tuple[Cost, float]] = []
    rows: dict[str, list[tuple[float, ...]]] = {}
    for part, count in parts:
        terms = _terms_of_cost(part) if isinstance(part, ZCDP) or len(parts) > MANY else None
        # One by one: costs that are few, or that arrays cannot sum, and counts that no float can
        # hold.
        if terms is None or (terms.kind and count > 1 << 53):
            rest.append((part, round_up(count)))
            continue
        # Lines are summed exactly, and rounded after the sum.
        rho, constant = rho + count * terms.rho, constant + count * terms.constant
        if terms.kind:
            rows.setdefault(terms.kind, []).append((*terms.numbers, float(count)))
    slope, level = round_up(rho), round_up(constant)
    sums = [_sum_curves_of_kind(kind, listed) for kind, listed in rows.items()]

    def at(order: float) -> float:
        # At order inf a term with rho 0 would be 0 times inf, which is no number.
        if math.isinf(order):
            return _sum_rounded_up([round_up(count) * part.rdp(order) for part, count in parts])
        own = [slope * order, level, *(total(order) for total in sums)]
        return _sum_rounded_up(own + [count * part.rdp(order) for part, count in rest])

    return at


def _terms_of_cost(part: Cost) -> _CurveTerms | None:
    """Return the terms of a curve that arrays can sum, else None."""
    if isinstance(part, ZCDP):
        return _CurveTerms(rho=part.rho)
    if isinstance(part, RDP):
        found = _terms_of_rdp(part)
    elif isinstance(part, Pure):
        found = _CurveTerms(
            kind="interval", numbers=(round_up(part.epsilon_), round_up(part.epsilon_))
        )
    elif isinstance(part, Range):
        found = _CurveTerms(kind="interval", numbers=(round_up(part.low), round_up(part.high)))
    elif isinstance(part, BoundedRange):
        found = _CurveTerms(kind="bounded", numbers=(round_up(part.epsilon_),))
    else:
        return None
    # Beyond these sizes the formulas over arrays would leave the floats.
    usual = found.kind.startswith("table") or all(
        number == 0 or 1e-100 < number < 1e100 for number in found.numbers
    )
    return found if usual else None


def _terms_of_rdp(part: RDP) -> _CurveTerms:
    """Return the terms of an RDP.

    Its kind names the curves in it, or is "table k" for a table of k rows.
    """
    if part.table:
        rows = falling(part.table)
        return _CurveTerms(
            kind=f"table {len(rows)}", numbers=tuple(number for row in rows for number in row)
        )
    kind = ""
    noise: tuple[float, ...] = ()
    if part.laplace is not None:
        rate, steps = round_up(part.laplace), steps_of(part)
        kind, noise = ("laplace", (rate,)) if steps is None else ("discrete", (rate, float(steps)))
    if part.choices == 1:
        return _CurveTerms(part.rho, part.constant, kind, noise)
    # The lowest point of a curve with a union bound belongs to all its terms together.
    return _CurveTerms(
        kind=f"union {kind}",
        numbers=(*noise, round_up(part.rho), round_up(part.constant), union(part)),
    )


def _sum_curves_of_kind(kind: str, rows: list[tuple[float, ...]]) -> Curve:
    """Return the sum of all curves of one kind.

    A row holds the numbers of one curve and its count.
    """
    import numpy as np  # noqa: PLC0415  (costs load nothing until there are many of them)

    *numbers, counts = np.array(rows, dtype=np.float64).T
    with np.errstate(all="ignore"):
        curve = _curves_of_kind(kind, numbers)

    def at(order: float) -> float:
        with np.errstate(all="ignore"):
            # No term is negative, so that what the sum loses is a share of it, and less than that.
            return float((counts * curve(order)).sum()) * (1 + 1e-11)

    return at


def _curves_of_kind(kind: str, numbers: list[Floats]) -> Callable[[float], Floats]:
    """Return all curves of one kind as a function of the order."""
    import numpy as np  # noqa: PLC0415

    from sordino.cost import rdp_arrays as arrays  # noqa: PLC0415

    if kind.startswith("table"):
        orders, values = np.stack(numbers[::2], axis=1), np.stack(numbers[1::2], axis=1)
        return lambda order: arrays.table_chords(orders, values, order)
    noises: dict[str, Callable[..., Floats]] = {
        "interval": arrays.interval_curves,
        "bounded": arrays.bounded_curves,
        "laplace": arrays.laplace_curves,
        "discrete": arrays.discrete_curves,
    }
    # Without a union bound a curve is its formula at every order.
    if not kind.startswith("union"):
        return lambda order: noises[kind](*numbers, order)
    *noise, rho, constant, choices = numbers
    own = noises.get(kind.removeprefix("union "))

    def summed(order: float | Floats) -> Floats:
        total: Floats = (
            rho * order + constant + choices / (order - 1) + (own(*noise, order) if own else 0)
        )
        return total * (1 + 1e-14)

    if own:
        turns, least = arrays.lowest(summed, len(rho), LAST)
    else:  # rho * order + ln(choices) / order, the order less 1
        turns = 1 + np.fmin(np.fmax(np.sqrt(choices / rho), 2.0**-40), LAST)
        least = summed(turns)
    # Below its lowest point a curve keeps that value, each curve its own ("Curves" in
    # dominating-pairs).
    return lambda order: np.where(order <= turns, least, summed(order))


def _sum_rounded_up(terms: list[float]) -> float:
    # `fsum` rounds once, and raises where a sum leaves the floats.
    return math.fsum(terms) * (1 + 2.0**-50) if sum(terms) < math.inf else math.inf
