"""A ladder of ever finer looks at the same answers, fixed before the first one, and how sure each of them is.

Claim: the intervals of all looks hold together with the stated confidence, wherever one stops and whatever
that depends on. Proof: docs/proofs/refining.md, "Looking and deciding".
Floats: none.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, final

from sordino.constraints import Constraint, Number, exact, to_fraction
from sordino.declared import Declared, parameter
from sordino.grid import RATE_DENOMINATOR


def _accept_from_two(most: int, value: Any) -> int | None:
    number = None if isinstance(value, bool | float) else exact(value)
    return int(number) if number is not None and number.denominator == 1 and 2 <= number <= most else None


# Whole, so that no rate gets a denominator of its own.
_FACTOR = Constraint(
    "a whole number from 2 to 1024",
    lambda value: _accept_from_two(1024, value),
    (2, 10),
    (1, 0, 2.5, 1025, True, None, "2"),
)
_LOOKS = Constraint(
    "a whole number from 2 to 32",
    lambda value: _accept_from_two(32, value),
    (2, 8),
    (1, 0, 2.5, 33, True, None),
)


@final
class Ladder(Declared):
    """How fine each look at the same answers is: the rate of its noise is `growth` times that before.

    It is fixed before the first look. Then whoever looks may decide by what was seen whether to look again,
    and how far up: look j has an interval that misses with 5 % / 2^j, so that all of them hold together with
    95 %. If rates were chosen by what was seen, no interval would say what it says.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> ladder = sd.Ladder(growth=2, looks=3)
    >>> [ladder.find_confidence(look) for look in (1, 2, 3)]
    [0.975, 0.9875, 0.99375]
    """

    growth: int = parameter(
        _FACTOR, "How many times the rate of a look is that of the one before.", default=2
    )
    looks: int = parameter(_LOOKS, "How many looks there are at most, the first one among them.", default=8)

    def list_rates(self, first: Fraction) -> tuple[Fraction, ...]:
        """Return the rate of each look, in nats a step, as far as there are such rates; `first` above 0."""
        rates = (first * self.growth**look for look in range(self.looks))
        return tuple(rate for rate in rates if rate <= RATE_DENOMINATOR)

    def find_confidence(self, look: int, confidence: Number = 0.95) -> float:
        """Return the confidence of each interval of a look.

        Parameters
        ----------
        look : int
            1 for the first one, at most `looks`.
        confidence : number
            In (0, 1): of the intervals of all looks together.
        """
        # The levels of all looks add up to less than that of all together.
        return float(1 - (1 - to_fraction(confidence)) / 2**look)
