"""A p-value for the selected answer being the best, from the gap that an exponential mechanism released.

Claim: if another answer is at least as large, then P(p_value <= alpha) <= alpha for every alpha, also given
that this one was selected.
Proof: docs/proofs/exponential-mechanism.md, "The p-value". Floats: rounding of the last bits, upward.
"""

from __future__ import annotations

import math
from typing import Any

from sordino.errors import InvalidParameter
from sordino.releases import Choice

_P_VALUE_ROUNDING = 2.0**-44
_UNDERFLOW = 4 * math.ulp(0.0)  # below 1e-307 the bits that are lost are no longer a share


def p_value(choice: Choice) -> float:
    """Return the p-value of "the selected answer is not the only largest one", from the released gap.

    It is post-processing, at no cost.

    Parameters
    ----------
    choice : Choice
        From an `ExponentialMechanism` with `gap=True`, with at least two answers.

    Returns
    -------
    float
        min(1, 2/(1 + e^g)), the gap g in nats (gap/step times the rate). It is at most alpha from g =
        ln(2/alpha - 1) on: 3.66 nats for 0.05. Among answers between two grid points it is about the grid
        points. It is rounded up, and never 0.

    Raises
    ------
    InvalidParameter
        If the choice was released without a gap.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.ExponentialMechanism(epsilon=1.0, sensitivity=sd.COUNTING)
    >>> best = mechanism.release([120, 7, 110, 3], entropy=sd.Seeded(7))
    >>> best.gap, round(sd.p_value(best), 7)
    (12.0, 1.23e-05)
    """
    gap = _gap_of_choice(choice)
    if gap is None:
        raise InvalidParameter(
            "p_value needs a Choice with a gap, which an ExponentialMechanism(gap=True) releases about two "
            "answers or more."
        )
    # In nats (docs/proofs/exponential-mechanism.md, "The p-value").
    lead = gap / float(choice.mechanism.step) * float(choice.mechanism.rate)
    small = math.exp(-lead)  # 2/(1 + e^g) = 2 e^-g/(1 + e^-g), without an overflow
    # A relative error of the lead changes e^-lead by a share that grows with the lead.
    return min(1.0, 2 * small / (1 + small) * (1 + _P_VALUE_ROUNDING * (1 + lead)) + _UNDERFLOW)


def _gap_of_choice(choice: Any) -> float | None:
    return choice.gap if isinstance(choice, Choice) else None
