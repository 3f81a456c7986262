"""The race, which releases whose answer plus continuous noise is largest, with or without the lead.

Claim: probabilities and densities of the outputs as integrals over the runner-up's value. Proof:
docs/proofs/exact-audit.md, "Races".
Floats: outward, see `integrals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, final

import numpy as np

from sordino.constraints import COUNT, shown
from sordino.errors import InvalidParameter
from sordino_audit.continuous.integrals import Factor
from sordino_audit.continuous.laws import PLACE, SPAN, Law
from sordino_audit.continuous.shared_shift import Outcome, Products, SharedShift, laws_of


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Race(SharedShift):
    """A mechanism that releases whose answer plus continuous noise is largest.

    With `gap` it also releases by how much. The noise of each answer is independent.

    Answers are a list of numbers, or a pair (numbers, scale): then the noise is multiplied by the
    scale, which may differ between neighbors. Outputs are positions; with a gap pairs (position,
    gap), the gap down to the runner-up.

    Parameters
    ----------
    noise : Law or list of Law
        The noise of every answer, or one law for each.
    cost : Cost
        What the mechanism claims to spend.
    gap : bool
        Whether the gap is released, too. Without a partition that needs log-concave laws.
    k : int
        How many are released, in their order: the outputs are pairs (positions, gaps) of two tuples
        of this length, and `outputs` must list which of them are compared. There must be more
        answers than that.
    outputs : iterable, optional
        Compare only these outputs. What is bounded from above is then the loss of these, and of no
        others.
    cost_of, sensitivity, name
        As for `Subject`; `cost_of` takes a position (with `outputs`: an output).

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> race = audit.Race(noise=audit.Law.exponential(2), cost=sd.cost.Pure(epsilon=1))
    >>> report = audit.exact(race, answers_a=[1, 0, 0], answers_b=[0, 1, 1])
    >>> round(report.epsilon_at_least, 9), report.complete, report.broken
    (0.937149457, True, False)
    """

    noise: Law | Iterable[Law]
    k: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "noise", laws_of(self.noise, "Race.noise"))
        if COUNT("Race.k", self.k) > 1 and (not self.gap or self.outputs is None):
            raise InvalidParameter(
                "Race.k must be 1 unless gap=True and outputs lists the outputs that are compared."
            )

    def _items(self, answers: Any) -> tuple[list[Fraction], Fraction, tuple[Law, ...]]:
        """Return the scores, the scale and the laws."""
        scores, scale = answers, Fraction(1)
        if (
            isinstance(answers, tuple | list)
            and len(answers) == 2
            and isinstance(answers[0], tuple | list | np.ndarray)
        ):
            # A list of numbers and one number: scores and their scale.
            scores, scale = answers[0], SPAN("the scale in audit.exact.answers", answers[1])
            if self.sensitivity is not None:
                raise InvalidParameter(
                    "Race.sensitivity must be None where answers have a scale: "
                    "a statement says nothing about scales."
                )
        listed = [
            PLACE("audit.exact.answers", x)
            for x in np.asarray(scores, dtype=object).ravel().tolist()
        ]
        laws: tuple[Law, ...] = self.noise  # type: ignore[assignment]
        # One law serves all answers.
        laws = laws * len(listed) if len(laws) == 1 else laws
        if len(laws) != len(listed) or len(listed) <= self.k:
            raise InvalidParameter(
                f"audit.exact needs more than {self.k} answers for this race, as many as there are "
                f"laws; got {len(listed)} and {len(laws)}."
            )
        return listed, scale, laws

    def _laws(self, answers: Any) -> list[Law]:
        return list(dict.fromkeys(self._items(answers)[2]))

    def _outcomes(self, answers: Any) -> list[Outcome]:
        return [Outcome(i, int(self.gap), Fraction(0)) for i in range(len(self._items(answers)[0]))]

    def _split(self, output: Any) -> tuple[Any, tuple[Fraction, ...]]:
        if not self.gap:
            return output, ()
        if not isinstance(output, tuple | list) or len(output) != 2:
            raise InvalidParameter(
                f"Race.outputs must be pairs of a position and a gap; got {shown(output)}."
            )
        position, gaps = output
        listed = gaps if isinstance(gaps, tuple | list) else (gaps,)
        if len(listed) != self.k or (self.k > 1 and len(set(position)) != self.k):
            raise InvalidParameter(
                f"Race.outputs must be pairs of {self.k} different positions and {self.k} gaps; "
                f"got {output!r}."
            )
        return position, tuple(self._gap(gap, Fraction(0)) for gap in listed)

    def _density(self, answers: Any, label: Any, reals: Sequence[Fraction]) -> list[Products]:
        scores, scale, laws = self._items(answers)
        if not set(label if isinstance(label, tuple | list) else (label,)) <= set(
            range(len(scores))
        ):
            raise InvalidParameter(
                f"Race.outputs must have positions from 0 to {len(scores) - 1}; got {label!r}."
            )
        winners = tuple(label) if isinstance(label, tuple | list) else (label,)
        losers = [i for i in range(len(scores)) if i not in winners]
        # The integral is over the value of the winner; all others are below.
        if not reals:
            return [
                _build_race_product(
                    scores,
                    scale,
                    laws,
                    [
                        ("density", winners[0], Fraction(0)),
                        *(("cdf", i, Fraction(0)) for i in losers),
                    ],
                )
            ]
        above = list(accumulate(reversed(reals)))[
            ::-1
        ]  # how far each winner is above the runner-up
        # The integral is over the value of the runner-up; winners are above it by their gaps,
        # others below.
        won = [("density", i, up) for i, up in zip(winners, above, strict=True)]
        return [
            _build_race_product(
                scores,
                scale,
                laws,
                [
                    ("density", second, Fraction(0)),
                    *won,
                    *(("cdf", i, Fraction(0)) for i in losers if i != second),
                ],
            )
            for second in losers
        ]

    def _beyond(self, answers: Any, label: Any, real: Fraction) -> Products:
        # The integral is over the value of the winner; all others are at least `real` below it.
        scores, scale, laws = self._items(answers)
        return _build_race_product(
            scores,
            scale,
            laws,
            [
                ("density", label, Fraction(0)),
                *(("cdf", i, -real) for i in range(len(scores)) if i != label),
            ],
        )

    def _kinks(self, answers: Any) -> list[Fraction]:
        scores, _, _ = self._items(answers)
        # Kinks lie where breaks of two answers meet; no gap is negative.
        return [x - y for x in scores for y in scores if x >= y]


def _build_race_product(
    scores: Sequence[Fraction],
    scale: Fraction,
    laws: Sequence[Law],
    parts: Sequence[tuple[Any, int, Fraction]],
) -> Products:
    """Return the product of functions of the runner-up's value plus an offset, less the score."""
    factors = tuple(Factor(kind, laws[i], scale) for kind, i, _ in parts)
    return Products(factors, tuple(offset - scores[i] for _, i, offset in parts))
