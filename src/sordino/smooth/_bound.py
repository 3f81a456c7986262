"""A smooth bound of any statistic whose sensitivity at a distance is known.

Claim: if U_0(x) is at least the local sensitivity at x, and U_t(x) <= U_(t+1)(y) for neighbors x
and y, the largest e^(-beta t) U_t(x) is a beta-smooth bound. Proof: docs/proofs/smooth-bounds.md,
"From an oracle". Floats: rounded outward, beta lowered by what rounding can do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sordino.constraints import COUNT, Number, shown
from sordino.errors import InvalidParameter
from sordino.scrubbing import scrubbed
from sordino.smooth.values import checked_beta, checked_ceiling, float_of, inner, outward


@scrubbed
def bound(
    sensitivity_at: Callable[[Any, int], float],
    x: Any,
    *,
    beta: Number,
    ceiling: Number,
    steps: int = 10_000,
) -> float:
    """Return a smooth bound of how far one unit can move a statistic at the data `x`.

    Parameters
    ----------
    sensitivity_at : callable
        Takes `x` and a distance t = 0, 1, 2, ...; returns U_t(x). At distance 0 it is at least the
        largest change of the statistic between x and a neighbor, and U_t(x) <= U_(t+1)(y) for all
        neighbors x, y, which is so if U_t(x) is the largest U_0 within t units of x. On your word;
        `sordino_audit.smooth_bound` tries it. It must not raise. What it returns is private, and is
        moved into [0, ceiling]; NaN, or no number, counts as the ceiling.
    x : object
        The private data: it is handed to `sensitivity_at` and not looked at.
    beta : number
        How fast the bound may change, in [0, inf), in nats a unit: public. 0 makes it the ceiling.
    ceiling : number
        Public: at least every local sensitivity, the global sensitivity for example, in the unit of
        the statistic.
    steps : int
        Public: from this distance on U_t counts as the ceiling, and is not asked for. The function
        is asked fewer times where nothing farther away can matter.

    Returns
    -------
    float
        Private: it may scale noise, and must not be shown. Where U_t is the ceiling for all data at
        a small t, as for sums, means and counts, it is close to the ceiling everywhere: nothing is
        gained.

    Raises
    ------
    InvalidParameter
        If a public parameter does not satisfy its constraint.

    Examples
    --------
    The largest of some numbers in [0, 100] moves by what lies above the second one, or as far as
    the top. With t others replaced, the second one may be the (t + 2)-th:

    >>> import sordino as sd
    >>> def largest_at(x, t):
    ...     return max(100 - x[0], x[0] - x[t + 1]) if t + 1 < len(x) else 100
    >>> x = [97, 96, 96, 95, 95, 95, 94, 93, 92, 90]
    >>> round(sd.smooth.bound(largest_at, x, beta=0.5, ceiling=100), 3)
    3.0
    """
    if not callable(sensitivity_at):
        raise InvalidParameter(
            "smooth.bound.sensitivity_at must be a function of the data and a distance; got "
            f"{shown(sensitivity_at)}."
        )
    top, decay = checked_ceiling(ceiling, "smooth.bound"), inner(checked_beta(beta, "smooth.bound"))
    last = COUNT("smooth.bound.steps", steps)
    # From `steps` on U_t counts as the ceiling, and the first of these terms is the largest one.
    found = top * math.exp(-decay * last)
    for t in range(last):
        weight = math.exp(-decay * t)
        # No U_t is above the ceiling, and weights only fall: nothing farther away can raise the
        # bound.
        if weight * top <= found:
            break
        # Whatever the function returns is moved into [0, ceiling], which keeps both conditions
        # (docs/proofs/smooth-bounds.md, "From an oracle").
        at = float_of(sensitivity_at(x, t))
        found = max(found, weight * (top if math.isnan(at) else min(max(at, 0.0), top)))
    return float(outward(found, top))
