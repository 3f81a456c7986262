"""The rate of a selection of one answer: nats a step, from the spread.

Claim: two answers move apart by at most `spread` steps between neighbors, and spread times rate is at most the budget.
Proof: docs/proofs/grid.md. Floats: none.
"""

from __future__ import annotations

from fractions import Fraction

from sordino.grid import bound_in_steps, fit_rate, step_for
from sordino.sensitivity import Sensitivity


def choice_rate(budget: Fraction, sensitivity: Sensitivity, owner: str) -> tuple[Fraction, Fraction, Fraction]:
    """Return the step of the grid, the rate budget/spread in nats a step, and what one selection at that rate spends.

    Raises
    ------
    InvalidParameter
        If the grid or the rate would be far from ideal.
    """
    step = step_for(sensitivity, (sensitivity.spread / budget) ** 2, owner)
    bound = bound_in_steps(sensitivity, step, owner)
    spread = bound if sensitivity.monotone else 2 * bound
    rate = fit_rate(budget / spread, owner)
    return step, rate, spread * rate
