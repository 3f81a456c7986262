"""How the auditor plays the mechanisms whose releases stay within a declared range: their own decisions, with the noise handed in.

Claim: none of its own. Folded answers are played from the grid on; of composite noise, which is one draw from a long table, the law is
stated, with the rounding at random of the value to the grid.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.audit._subject import Rows, Stated, Subject, counted, subject_of
from sordino.errors import InvalidParameter
from sordino.mechanisms import CompositeMechanism, CompositeTable, FoldedMechanism
from sordino.mechanisms._folded import covered
from sordino.mechanisms._folded import decide as decide_folded
from sordino.mechanisms._random_rounding import number
from sordino.noise import Staircase
from sordino.noise._probability import exp_bounds, ratio_bounds

_DIGITS = 60


@subject_of.register
def _(mechanism: FoldedMechanism, n: int) -> Subject:
    covered(mechanism.noise, mechanism.sensitivity, n)
    low, high = mechanism.ends
    on_grid, noise = counted(mechanism, n), mechanism.noise

    def steps(answers: Any) -> NDArray[np.int64]:
        return np.clip(on_grid(answers), low, high)

    def decide(noisy: Rows) -> Rows:
        return decide_folded(noisy, low, high, 1)

    common: dict[str, Any] = {"cost": mechanism.cost, "sensitivity": mechanism.sensitivity, "steps": steps, "name": repr(mechanism)}
    if isinstance(noise, Staircase):
        return Subject(laws=[], stated=lambda answers: staircase(noise, int(answers[0]), low, high), **common)
    return Subject(laws=[noise] * n, decide=decide, **common)


def staircase(law: Staircase, x: int, low: int, high: int) -> Stated:
    """Yield the folded outputs of an answer with bounds of their probabilities: each rises with r above, and falls below, the line."""
    ends = [Fraction(bound) for bound in exp_bounds(law.rate, _DIGITS)]
    wholes = [2 * (law.flat + (law.period - law.flat) * r) / (1 - r) - 1 for r in ends]
    for output in range(low - law.period + 1, high + law.period):
        level = int(law.level(np.array(abs(output - x))))
        tops = [r**level / (1 if low < output < high else 1 - r) for r in ends]
        least, most = min(tops) / wholes[1], max(tops) / wholes[0]
        yield output, (ratio_bounds(least, _DIGITS)[0], ratio_bounds(most, _DIGITS)[1])


@subject_of.register(CompositeMechanism)
@subject_of.register(CompositeTable)
def _(mechanism: CompositeMechanism | CompositeTable, n: int) -> Subject:
    if n != 1:
        raise InvalidParameter(
            f"audit.exact needs one value on each side for composite noise, whose reports are drawn alone; got {n}."
        )

    def stated(values: Any) -> Stated:
        value = np.atleast_1d(np.asarray(values, dtype=object))[0]
        for place, probability in enumerate(law(mechanism, value)):
            if probability:
                yield place, ratio_bounds(probability, _DIGITS)

    return Subject(laws=[], stated=stated, cost=mechanism.cost, name=repr(mechanism))


def law(mechanism: CompositeMechanism | CompositeTable, value: Any) -> list[Fraction]:
    """Return the probability of each output for a value, rounding to the grid included."""
    grid = mechanism.grid
    place = (number(value, grid.low, grid.high) - grid.low) / grid.step
    return grid.law(max(Fraction(0), min(Fraction(2 * grid.noise.inputs), place)))
