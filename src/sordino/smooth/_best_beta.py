"""The search for the beta that gives the least noise, on public data.

Claim: none; it is advice.
Proof: docs/proofs/smooth-mechanism.md, "Choosing beta".
Floats: nothing depends on their digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from sordino.constraints import POSITIVE, Number, one_of, shown
from sordino.errors import InvalidParameter
from sordino.mechanisms.smooth.scaled_noise import largest_alpha

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
