"""Public thresholds as whole numbers of steps, rounded up before any answer is compared with them.

Corrections are included.

Claim: none about privacy; a threshold is a public number, which may depend on earlier outputs.
Floats: none; a float means its shortest decimal.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sordino.constraints import FINITE, shown
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP

On = TypeVar("On")


class Cut(NamedTuple):
    """A threshold on the grid, and how far that lies above the threshold itself.

    The one is in steps, the other in the unit of the answers.
    """

    steps: int
    above: Fraction

    def gap(self, lift: int, step: Fraction) -> float:
        """Return how far an answer `lift` steps above the cut lies above the threshold itself.

        It is a quotient of integers: exact, rounded once.
        """
        # A common denominator first, so that only the division rounds.
        top = (
            lift * step.numerator * self.above.denominator + self.above.numerator * step.denominator
        )
        return top / (step.denominator * self.above.denominator)

    def value(self, lift: int, step: Fraction) -> float:
        """Return where an answer `lift` steps above the cut lies: exact, rounded once."""
        return (lift + self.steps) * step.numerator / step.denominator


def cut_at(name: str, threshold: Any, correction: Fraction, step: Fraction) -> Cut:
    """Return the smallest whole number of steps that is at least threshold and correction together.

    Raises
    ------
    InvalidParameter
        If the threshold is no finite number or lies, with the correction, beyond 2^52 steps, where
        answers are clamped.
    """
    plain = FINITE(name, threshold)
    # Rounded up, while answers are rounded down: an answer below the threshold stays below on the
    # grid.
    steps = -(-(plain + correction) // step)
    if abs(steps) > CLAMP:
        raise InvalidParameter(
            f"{name} must lie within 2^52 steps of {float(step):g}, correction included; got "
            f"{shown(plain)}."
        )
    return Cut(int(steps), steps * step - plain)


def cuts_at(name: str, thresholds: Any, n: int, cut: Callable[[Any], On]) -> list[On]:
    """Return a list of n thresholds as `cut` puts them on the grid.

    Each different one is converted once.

    Raises
    ------
    InvalidParameter
        If they are not a list of n numbers.
    """
    listed = isinstance(thresholds, list | tuple | range) or (
        hasattr(thresholds, "__array__") and np.ndim(thresholds) == 1
    )
    if not listed or len(thresholds) != n:
        raise InvalidParameter(f"{name} must be a list of {n} numbers, one for each answer.")
    # NumPy's narrow floats have a shortest decimal of their own, which `tolist` would lose: they
    # are converted one by one.
    plain = isinstance(thresholds, np.ndarray) and thresholds.dtype in {
        np.dtype(np.int64),
        np.dtype(np.float64),
    }
    known: dict[tuple[type, float], On] = {}
    cuts: list[On] = []
    for value in thresholds.tolist() if plain else thresholds:
        if type(value) not in {int, float}:
            cuts.append(cut(value))
            continue
        # By type as well, because 1 and 1.0 are one key. NaN is never found here, so `cut` sees and
        # refuses it.
        if (type(value), value) not in known:
            known[type(value), value] = cut(value)
        cuts.append(known[type(value), value])
    return cuts
