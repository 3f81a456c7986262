"""Audits a smooth bound: tries both of its conditions on pairs of neighbors.

Claim: a bound that is reported as broken does not satisfy a condition at the witness. Silence
proves nothing of other pairs. Proof: docs/proofs/smooth-bounds.md, "Trying a bound". Floats:
conditions may be missed by a share of 2^-40, for which mechanisms pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from sordino.constraints import COUNT, NOT_NEGATIVE, Number, shown
from sordino.errors import InvalidParameter
from sordino_audit.report import BoundWitness, SmoothBoundReport

_LARGEST_BETA = 1500.0  # nats: the largest float is less than e^1455 times the smallest one
_BOUND_TOO_SMALL = "the bound is below the change of the statistic"
_BOUND_TOO_STEEP = "the bound of one is more than e^beta times that of the other"
_ORACLE_TOO_SMALL = "the sensitivity at distance 0 is below the change of the statistic"
_ORACLE_TOO_STEEP = "the sensitivity at some distance is above that of the neighbour one farther"


def smooth_bound(
    bound: Callable[[Any], Any] | None,
    statistic: Callable[[Any], Any],
    *,
    neighbours: Iterable[Any],
    beta: Number,
    sensitivity_at: Callable[[Any, int], Any] | None = None,
    distances: int = 16,
    limit: int = 1000,
) -> SmoothBoundReport:
    """Try on pairs of neighboring data whether a bound is beta-smooth.

    The data are made up, never private.

    Parameters
    ----------
    bound : callable or None
        Takes data, returns the bound S, a number or one for each of several statistics. It must be
        at least the change of the statistic between neighbors, and at most e^beta times the bound
        of a neighbor.
    statistic : callable
        Takes data, returns a number, or several.
    neighbours : iterable of pairs
        Pairs (x, y) of neighboring data, on your word; an endless generator will do. The rare ones
        convict: those at the edge of what is possible.
    beta : number
        In [0, inf), in nats.
    sensitivity_at : callable, optional
        What is handed to `smooth.bound`: takes data and a distance t, returns U_t. U_0 must be at
        least the change of the statistic, and U_t(x) at most U_(t+1)(y).
    distances : int
        At how many distances it is asked.
    limit : int
        How many pairs are looked at, at most.

    Returns
    -------
    SmoothBoundReport

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, there are no pairs, or a function returns
        NaN or negative bounds.

    Examples
    --------
    The local sensitivity itself is no smooth bound. The median of three numbers in [0, 10]:

    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> def median(x):
    ...     return sorted(x)[1]
    >>> def local(x):
    ...     low, middle, high = sorted(x)
    ...     return max(high - middle, middle - low)
    >>> report = audit.smooth_bound(
    ...     local, median, neighbours=[([5, 5, 5], [5, 5, 10]), ([5, 5, 10], [0, 5, 10])], beta=0.5
    ... )
    >>> for part in str(report.witness).split(": "):
    ...     print(part)
    the bound of one is more than e^beta times that of the other
    5 of 0 between [5, 5, 10] and [5, 5, 5]
    >>> def smooth(x):
    ...     return sd.smooth.quantile(x, q=0.5, lower=0, upper=10, beta=0.5)
    >>> audit.smooth_bound(
    ...     smooth, median, neighbours=[([5, 5, 5], [5, 5, 10]), ([5, 5, 10], [0, 5, 10])], beta=0.5
    ... ).broken
    False
    """
    # An exact number may be too large for a float.
    rate = float(min(NOT_NEGATIVE("audit.smooth_bound.beta", beta), 1 << 1000))
    farthest, most = (
        COUNT("audit.smooth_bound.distances", distances),
        COUNT("audit.smooth_bound.limit", limit),
    )
    given: dict[str, Any] = {
        "bound": bound,
        "statistic": statistic,
        "sensitivity_at": sensitivity_at,
    }
    for what, function in given.items():
        if not callable(function) and (function is not None or what == "statistic"):
            raise InvalidParameter(
                f"audit.smooth_bound.{what} must be a function; got {shown(function)}."
            )
    if bound is None and sensitivity_at is None:
        raise InvalidParameter("audit.smooth_bound needs a bound, or sensitivity_at.")
    if not isinstance(neighbours, Iterable):
        raise InvalidParameter(
            "audit.smooth_bound.neighbours must be a list of pairs of neighbouring data."
        )
    worst: BoundWitness | None = None
    pairs = 0
    # The pairs may come from an endless generator, so only the first ones are taken.
    for pair in islice(neighbours, most):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidParameter(
                "audit.smooth_bound.neighbours must be a list of pairs of neighbouring data."
            )
        pairs += 1
        for witness in _try_conditions(
            pair[0], pair[1], bound, statistic, rate, sensitivity_at, farthest
        ):
            if worst is None or witness.excess > worst.excess:
                worst = witness
    if worst is None:
        raise InvalidParameter("audit.smooth_bound.neighbours must have at least one pair.")
    # The report names the function that was tried.
    named = bound if bound is not None else sensitivity_at
    return SmoothBoundReport(
        name=getattr(named, "__name__", type(named).__name__), beta=rate, pairs=pairs, witness=worst
    )


def _try_conditions(
    x: Any, y: Any, bound: Any, statistic: Any, beta: float, oracle: Any, distances: int
) -> Iterator[BoundWitness]:
    """Yield how narrowly each condition holds for a pair, in both orders."""
    change = np.abs(_read_statistics(statistic(x)) - _read_statistics(statistic(y)))
    if bound is not None:
        here, there = _read_smooth_bounds(bound(x)), _read_smooth_bounds(bound(y))
        # The change is the same in both orders, the conditions on the bound are not.
        for one, other, own, its in ((x, y, here, there), (y, x, there, here)):
            yield _find_worst_statistic(_BOUND_TOO_SMALL, one, other, 0, change, own)
            # An overflow gives inf, which allows everything, so it is no error.
            with np.errstate(over="ignore"):
                third = math.exp(min(beta, _LARGEST_BETA) / 3)  # the whole factor may be no float
                # Multiplied step by step, the factor may still give a float with a tiny bound.
                highest = its * third * third * third
            yield _find_worst_statistic(_BOUND_TOO_STEEP, one, other, 0, own, highest)
    if oracle is not None:
        # The oracle is asked once for each distance, and serves both orders.
        near, far = (
            [_read_smooth_bounds(oracle(data, t)) for t in range(distances + 1)] for data in (x, y)
        )
        for one, other, own, its in ((x, y, near, far), (y, x, far, near)):
            yield _find_worst_statistic(_ORACLE_TOO_SMALL, one, other, 0, change, own[0])
            for t in range(distances):
                yield _find_worst_statistic(_ORACLE_TOO_STEEP, one, other, t, own[t], its[t + 1])


def _find_worst_statistic(
    condition: str, x: Any, y: Any, distance: int, found: Any, allowed: Any
) -> BoundWitness:
    """Return the statistic for which a condition fails by most."""
    # One bound may serve several statistics.
    all_found, all_allowed = np.broadcast_arrays(found, allowed)
    cases = zip(all_found.ravel().tolist(), all_allowed.ravel().tolist(), strict=True)
    each = (
        BoundWitness(condition=condition, x=x, y=y, distance=distance, found=one, allowed=other)
        for one, other in cases
    )
    return max(each, key=lambda witness: witness.excess)


def _read_statistics(values: Any) -> Any:
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not np.isfinite(numbers).all():
        raise InvalidParameter(
            "audit.smooth_bound.statistic must return finite numbers on these data."
        )
    return numbers


def _read_smooth_bounds(values: Any) -> Any:
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not (numbers >= 0).all():
        raise InvalidParameter(
            "audit.smooth_bound.bound and sensitivity_at must return numbers of at least 0."
        )
    return numbers
