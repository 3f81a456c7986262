"""What the auditor looks at for mechanisms whose releases stay within a declared range: their stated laws.

No finite number of draws decides these releases.

Claim: each listed probability lies between its two decimals. Proof: docs/proofs/folded.md;
docs/proofs/composite.md.
Floats: none.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from sordino.errors import InvalidParameter
from sordino.mechanisms import CompositeMechanism, CompositeTable, FoldedMechanism
from sordino.mechanisms.bounded.random_rounding import number
from sordino.mechanisms.folded import check_covered
from sordino.noise import Staircase
from sordino.noise.probability import exp_bounds, ratio_bounds
from sordino_audit.enumeration.played import make_step_reader
from sordino_audit.enumeration.subject import Stated, Subject

# Decimals of the probabilities: far more than a float has, so that their width never shows in a report.
_BOUNDED_DIGITS = 60


def folded(mechanism: FoldedMechanism, n: int) -> Subject | None:
    """Return the law of a folded staircase; None for Laplace noise, which is played."""
    law = mechanism.noise
    if not isinstance(law, Staircase):
        return None
    check_covered(law, mechanism.sensitivity, n)
    low, high = mechanism.ends
    on_grid = make_step_reader(mechanism, n)
    return Subject(
        laws=[],
        steps=lambda answers: np.clip(on_grid(answers), low, high),
        stated=lambda steps: staircase(law, int(steps[0]), low, high),
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def staircase(law: Staircase, x: int, low: int, high: int) -> Stated:
    """Yield the folded outputs of an answer with bounds of their probabilities.

    Numerator and denominator of each rise with r, so that bounds of r give bounds of both.
    """
    ends = [Fraction(bound) for bound in exp_bounds(law.rate, _BOUNDED_DIGITS)]
    # Numbers 0, 1, 2, ... have the weight flat + (period - flat) r in their first period, and r times as much
    # in each further one. Both signs have it; 0 is counted once.
    wholes = [2 * (law.flat + (law.period - law.flat) * r) / (1 - r) - 1 for r in ends]
    # An output beyond an end keeps its place in the period, so that one period lies outside on either side.
    for output in range(low - law.period + 1, high + law.period):
        level = int(law.level(np.array(abs(output - x))))
        # At and beyond the ends an output stands for all whole periods farther out: r^k adds up to 1/(1 - r).
        tops = [r**level / (1 if low < output < high else 1 - r) for r in ends]
        least, most = min(tops) / wholes[1], max(tops) / wholes[0]
        yield output, (ratio_bounds(least, _BOUNDED_DIGITS)[0], ratio_bounds(most, _BOUNDED_DIGITS)[1])


def composite(mechanism: CompositeMechanism | CompositeTable, n: int) -> Subject:
    """Return the law of composite noise, with the rounding at random of the value to the grid."""
    if n != 1:
        raise InvalidParameter(
            "audit.exact needs one value on each side for composite noise, "
            f"whose reports are drawn alone; got {n}."
        )

    def stated(values: Any) -> Stated:
        value = np.atleast_1d(np.asarray(values, dtype=object))[0]
        for place, probability in enumerate(law(mechanism, value)):
            # Outputs that cannot happen are not listed.
            if probability:
                yield place, ratio_bounds(probability, _BOUNDED_DIGITS)

    return Subject(laws=[], stated=stated, cost=mechanism.cost, name=repr(mechanism))


def law(mechanism: CompositeMechanism | CompositeTable, value: Any) -> list[Fraction]:
    """Return the probability of each output for a value, rounding to the grid included."""
    grid = mechanism.grid
    place = (number(value, grid.low, grid.high) - grid.low) / grid.step
    # A value outside the range counts as the end that is nearer.
    return grid.law(max(Fraction(0), min(Fraction(2 * grid.noise.inputs), place)))
