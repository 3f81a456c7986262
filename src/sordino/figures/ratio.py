"""The ratio of two sums of released terms, with an interval that knows what both have in common.

Claim: `Ratio.bound` contains the ratio of the sums of the answers with at least 1 - wrong, if there
is one; both may hold the same terms. Proof: docs/proofs/derived-figures.md, "Ratios". Floats: an
end is a float at which the test of the page was made; between floats it was not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from sordino.figures.terms import Combination, Ends

# Of the level: what may go wrong with the divisor, so that one test stands for all larger ratios.
_FOR_SLOPE = Fraction(1, 100)
# And what may go wrong where the divisor is too small for a test: released numbers decide that.
_FOR_BOX = Fraction(1, 20)
_DOUBLINGS, _TURNS = 64, 12
_NEAR = 1e-3  # of its distance from the released ratio: how close an end is looked for


@final
@dataclass(frozen=True)
class Ratio:
    """One sum of terms over another one."""

    over: Combination
    under: Combination

    @property
    def value(self) -> float:
        """The ratio of what was released, within what is public of it; NaN without a divisor."""
        over, under = self._turn()
        # A sum of counts that noise has made negative is no divisor, and neither is one that is not
        # known.
        if not under.value > 0:
            return math.nan
        low, high = _find_public_range(over, under)
        return float(max(low, min(high, over.value / under.value)))

    def bound(self, wrong: Fraction, *, planned: bool) -> tuple[float, float]:
        """Return ends that hold the ratio but for a chance of `wrong`.

        Infinite where there is none.
        """
        over, under = self._turn()
        ends, left = None, wrong
        # Whether terms are exact is known before anything is released; whether a test finds ends
        # is not.
        if over.plus(under, _mix(over, under)).is_exact:
            ends = _test_ratios(over, under, wrong * (1 - _FOR_BOX), planned=planned)
            left = wrong * _FOR_BOX
        low, high = _divide_ends(over, under, left, planned=planned) if ends is None else ends
        least, most = _find_public_range(over, under)
        return float(min(max(low, least), most)), float(max(min(high, most), least))

    def test(self, wrong: Fraction) -> tuple[float, float]:
        """Return the ends that one test gives to terms of one release; else the public ones.

        Either end fails with half of `wrong` at most. The divisor is not negative.
        """
        ends = _test_ratios(self.over, self.under, wrong, planned=True)
        least, most = _find_public_range(self.over, self.under)
        low, high = (least, most) if ends is None else ends
        return float(min(max(low, least), most)), float(max(min(high, most), least))

    def _turn(self) -> tuple[Combination, Combination]:
        """Return both sums with the sign that makes the released divisor positive."""
        if self.under.value < 0 and not self.under.is_positive:
            return self.over.times(Fraction(-1)), self.under.times(Fraction(-1))
        return self.over, self.under


def _find_public_range(over: Combination, under: Combination) -> Ends:
    """Return between which ends the ratio lies in any case.

    Of sums of numbers that are not negative.

    It is a mean of the ratios of the weights, each with its number as its weight.
    """
    pieces = over.weights.keys() | under.weights.keys()
    if not under.is_positive or not all(getattr(piece, "counts", False) for piece in pieces):
        return -math.inf, math.inf
    nothing = Fraction(0)
    pairs = [
        (over.weights.get(piece, nothing), under.weights.get(piece, nothing)) for piece in pieces
    ]
    pairs += [(over.constant, under.constant)]
    ratios: list[Fraction | float] = [up / down for up, down in pairs if down]
    ratios += [math.copysign(math.inf, up) for up, down in pairs if up and not down]
    return (min(ratios), max(ratios)) if ratios else (-math.inf, math.inf)


def _test_ratios(
    over: Combination, under: Combination, wrong: Fraction, *, planned: bool
) -> Ends | None:
    """Return the ratios that the difference `over - ratio under` does not refute.

    None without an end.
    """
    together = over.plus(under, _mix(over, under))
    if not together.is_exact or under.value <= 0:
        return None
    # The same groups for every ratio, so that each has the same share of the level.
    groups = together.group(planned=planned)
    if not groups:
        return (over.value / under.value,) * 2
    each = wrong / len(groups)
    least, _ = under.bound_groups(groups, each * _FOR_SLOPE)
    if least <= 0:
        return None

    def difference(ratio: float) -> Ends:
        return over.plus(under, -Fraction(ratio)).bound_groups(groups, each * (1 - _FOR_SLOPE))

    middle = float(over.value / under.value)
    below, above = difference(middle)
    # About how far the ratio reaches: the difference falls by at least `least` a unit.
    low = _find_end(lambda ratio: -difference(ratio)[0], middle, -float(-below / least))
    high = _find_end(lambda ratio: difference(ratio)[1], middle, float(above / least))
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _mix(over: Combination, under: Combination) -> Fraction:
    """Return a factor with which nothing of the two sums cancels."""
    taken = {
        over.weights.get(piece, Fraction(0)) / -weight for piece, weight in under.weights.items()
    }
    return next(Fraction(one) for one in range(1, len(taken) + 2) if Fraction(one) not in taken)


def _find_end(keeps: Callable[[float], Fraction | float], middle: float, width: float) -> float:
    """Return a ratio that is refuted, close to those that are not; infinite if none is found.

    `keeps` is below 0 where a ratio is refuted, and nearly a straight line.
    """
    if not width:
        return middle
    inside, spare = 0.0, float(keeps(middle))
    for _ in range(_DOUBLINGS):
        lack = float(keeps(middle + width))
        if lack < 0:
            break
        inside, spare, width = width, lack, 2 * width
    else:
        return math.copysign(math.inf, width)
    outside = width
    # Wherever a test refutes a ratio, all beyond are refuted as well: any of them is an end.
    for turn in range(_TURNS):
        if abs(outside - inside) <= 3 * _NEAR * abs(outside):
            break
        # Where the line would be 0, then a little to either side of it, and now and then the
        # middle.
        share = spare / (spare - lack) if turn % 3 < 2 else 0.5
        between = inside + share * (outside - inside)
        between *= 1 + (_NEAR if turn % 3 == 0 else -_NEAR)
        if not min(inside, outside) < between < max(inside, outside):
            between = (inside + outside) / 2
        found = float(keeps(middle + between))
        if found < 0:
            outside, lack = between, found
        else:
            inside, spare = between, found
    return middle + outside


def _divide_ends(over: Combination, under: Combination, wrong: Fraction, *, planned: bool) -> Ends:
    """Return the ends of the quotient from those of both sums, each with half of the level."""
    top = over.bound(wrong / 2, planned=planned)
    bottom = under.bound(wrong / 2, planned=planned)
    if under.is_positive:
        bottom = max(bottom[0], Fraction(0)), max(bottom[1], Fraction(0))
    if over.is_positive:
        top = max(top[0], Fraction(0)), max(top[1], Fraction(0))
    if bottom[0] > 0:
        # Of positive divisors the smallest one moves the quotient farthest from 0.
        return min(_divide(top[0], one) for one in bottom), max(
            _divide(top[1], one) for one in bottom
        )
    if over.is_positive and under.is_positive:
        return (_divide(top[0], bottom[1]) if bottom[1] > 0 else 0.0), math.inf
    return -math.inf, math.inf


def _divide(over: Fraction | float, under: Fraction | float) -> Fraction | float:
    # An infinite number over an infinite one may be anything, 0 among it.
    return 0.0 if math.isinf(under) else over / under
