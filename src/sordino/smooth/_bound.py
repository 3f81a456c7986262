"""A smooth bound of any statistic whose sensitivity at a distance is known, and a beta for it.

Claim: if U_0(x) is at least the local sensitivity at x, and U_t(x) <= U_(t+1)(y) for neighbors x
and y, the largest e^(-beta t) U_t(x) is a beta-smooth bound. Proof: docs/proofs/smooth-bounds.md,
"From an oracle"; the choice of beta is advice on public data, docs/proofs/smooth-mechanism.md,
"Choosing beta". Floats: a bound is rounded outward, beta lowered by what rounding can do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from sordino.constraints import COUNT, POSITIVE, Number, one_of, shown
from sordino.errors import InvalidParameter
from sordino.mechanisms.smooth.scaled_noise import largest_alpha
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


_BETA_NOISE_LAW = one_of("cauchy", "quartic")
_GAMMA_OF_LAW = {"cauchy": 2.0, "quartic": 4.0}
_MOST_EPSILON = 600  # beyond, budgets buy no less noise
_GRID_POINTS = 24
_GRID_ROUNDS = 3


def best_beta(
    bound_at: Callable[[float], Any],
    *,
    epsilon: Number,
    law: Literal["cauchy", "quartic"] = "cauchy",
) -> float:
    """Return the beta for which `SmoothMechanism` adds the least noise to public data.

    The data should look like the private ones.

    A larger beta makes bounds smaller, and leaves less of epsilon for the number.

    Parameters
    ----------
    bound_at : callable
        Takes a beta, returns the smooth bound of *public* data: simulated ones, or those of an
        earlier study. Read off the private data, beta would tell something about them.
    epsilon : number
        Budget of the release.
    law : {"cauchy", "quartic"}
        The noise, as for `SmoothMechanism`.

    Returns
    -------
    float
        To three digits or so.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or a bound is not above 0.

    Examples
    --------
    >>> import sordino as sd
    >>> simulated = [x**1.5 for x in range(200)]
    >>> def bound_at(beta):
    ...     return sd.smooth.quantile(simulated, q=0.5, lower=0, upper=10_000, beta=beta)
    >>> beta = sd.smooth.best_beta(bound_at, epsilon=0.5, law="quartic")
    >>> round(beta, 2), round(bound_at(beta), 1), round(bound_at(0.001), 1)
    (0.1, 63.5, 8314.4)
    """
    if not callable(bound_at):
        raise InvalidParameter(
            f"smooth.best_beta.bound_at must be a function of beta; got {shown(bound_at)}."
        )
    budget = float(min(POSITIVE("smooth.best_beta.epsilon", epsilon), _MOST_EPSILON))
    gamma = _GAMMA_OF_LAW[_BETA_NOISE_LAW("smooth.best_beta.law", law)]

    def scale(beta: float) -> float:
        found, alpha = float(bound_at(beta)), largest_alpha(budget, beta, gamma)
        if not found > 0:
            raise InvalidParameter(
                "smooth.best_beta.bound_at must return a number above 0 for each beta."
            )
        return found / alpha

    # The scale alone loses (gamma - 1) beta: at the upper end nothing of the budget is left.
    low, high = 0.0, budget / (gamma - 1)
    best = high / 2
    # A grid over all betas, then finer ones around the best: derivatives of a bound need not exist.
    for _ in range(_GRID_ROUNDS):
        width = (high - low) / _GRID_POINTS
        best = min((low + i * width for i in range(1, _GRID_POINTS)), key=scale)
        # The neighbors of the best point, between which the next grid lies.
        low, high = best - width, best + width
    return best
