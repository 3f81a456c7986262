"""What the auditor looks at for a selection with noise in proportion to a smooth bound.

It is a race whose scale differs between neighbors.

Claim: none of its own. The scale is the one of `release`, but for its last float.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.audit.continuous.continuous import Asked, Compared, Continuous
from sordino.audit.continuous.laws import Law
from sordino.audit.continuous.races import Race
from sordino.errors import InvalidParameter
from sordino.mechanisms import SmoothSelection
from sordino.mechanisms.smooth.smooth_selection import scale_of


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _ScaledRace(Continuous):
    """A race that takes the scores, followed by their smooth bound."""

    mechanism: SmoothSelection

    def compared(self, a: Any, b: Any, asked: Asked) -> Compared:
        law = Law.cauchy(self.mechanism.noise.gamma, one_sided=self.mechanism.sided == "one")
        # A race takes a pair of scores and scale: the scale may differ between neighbors.
        return Race(noise=law, cost=self.cost, name=self.name).compared(
            self._placed(a), self._placed(b), asked
        )

    def _placed(self, numbers: Sequence[Any]) -> tuple[list[Any], Fraction]:
        if len(numbers) != self.mechanism.candidates + 1:
            raise InvalidParameter("audit.exact needs the same number of answers on both sides.")
        # The scale is computed by the function that a release calls.
        return list(numbers[:-1]), Fraction(scale_of(self.mechanism, numbers[-1]))


def smooth_selection(mechanism: SmoothSelection, n: int) -> Continuous:
    """Return the race; answers are the scores, followed by their smooth bound."""
    if n != mechanism.candidates + 1 or n == 2:
        raise InvalidParameter(
            f"audit.exact needs the {mechanism.candidates} scores of SmoothSelection, at least 2, "
            f"followed by their smooth bound; got {n} "
            "numbers."
        )
    return _ScaledRace(mechanism=mechanism, cost=mechanism.cost, name=repr(mechanism))
