"""The probability that a sparse vector answers a whole task rightly, from below, on the grid on which it works.

Claim: `success` is at most E[(P(X < Y - low)^run P(X >= Y - high))^stages] for noise X of a question and Y of the threshold, and within
2^-33 of it (relative) where a step is not much finer than the noise. Proof: docs/proofs/accuracy.md.
Floats: everything here, with a margin that covers their rounding.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sordino.noise import DiscreteLaplace, Geometric

Noise = Geometric | DiscreteLaplace
Floats = NDArray[np.float64]

_NODES = 1 << 14
_DEEP = 45.0  # what lies so many scales out is left out: e^-45 of the threshold at most
_MARGIN = 2.0**-34  # of the sum: exponents below 745, each with a relative error below 2^-45, and the rounding of the sum
_LN2 = math.log(2)


def success(run: int, stages: int, low: int, high: int, query: Noise, threshold: Noise) -> float:
    """Return a lower bound of the probability that `stages` times `run` answers stay below one threshold and the next one does not.

    Parameters
    ----------
    run, stages : int
        At least 0, at least 1.
    low, high : int
        How far the answers that shall stay below, and the one that shall not, lie above the public threshold, in steps.
    query, threshold : Geometric or DiscreteLaplace
        The noise of one question and of the threshold, in steps.
    """
    rho = _nodes(run * stages, low, high, query, threshold)
    if not rho.size:
        return 0.0
    below, above = log_tails(query, rho - low)[0], log_tails(query, rho - high)[1]
    height = _log_mass(threshold, rho) + stages * (run * below + above)
    return float(_below_chords(rho, height)) * (1 - _MARGIN)


def log_tails(law: Noise, x: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the logs of P(X < x) and P(X >= x), each with few lost digits; for one-sided noise x >= 1 in the first."""
    rate, at = float(law.rate), x.astype(np.float64)
    if isinstance(law, Geometric):
        deep = rate * np.maximum(at, 0.0)
        with np.errstate(divide="ignore"):
            below = np.where(deep > _LN2, np.log1p(-np.exp(-deep)), np.log(-np.expm1(-deep)))
        return below, -deep
    lesser = -rate * np.where(at >= 1, at, 1 - at) - math.log1p(math.exp(-rate))  # at most one half
    rest = np.log1p(-np.exp(lesser))
    return np.where(at >= 1, rest, lesser), np.where(at >= 1, lesser, rest)


def _log_mass(law: Noise, x: NDArray[np.int64]) -> Floats:
    """Return the log of P(X = x), x in the support."""
    rate = float(law.rate)
    whole = -math.expm1(-rate) if isinstance(law, Geometric) else math.tanh(rate / 2)
    masses: Floats = math.log(whole) - rate * np.abs(x.astype(np.float64))
    return masses


def _nodes(run: int, low: int, high: int, query: Noise, threshold: Noise) -> NDArray[np.int64]:
    """Return the values of the threshold noise that are looked at: all that matter, or as many as are affordable, close where it bends."""
    reach, narrow = math.ceil(_DEEP / float(threshold.rate)), math.ceil(_DEEP / float(query.rate))
    first = 0 if isinstance(threshold, Geometric) else -reach
    if isinstance(query, Geometric):  # nothing stays below where it cannot
        first = max(first, low + 1)
    if first > reach:
        return np.zeros(0, dtype=np.int64)
    if reach - first < _NODES:
        return np.arange(first, reach + 1)
    far = narrow + math.ceil(math.log(run + 1) / float(query.rate))
    parts = [(first, reach), (low - narrow, low + far), (high - narrow, high + narrow)]
    inside = [(max(a, first), min(b, reach)) for a, b in parts if a <= reach and b >= first]
    bends = np.array([x for x in (0, low + 1, high) if first <= x <= reach], dtype=np.int64)
    return np.unique(np.concatenate([bends, *(np.linspace(a, b, _NODES).astype(np.int64) for a, b in inside)]))


def _below_chords(x: NDArray[np.int64], height: Floats) -> float:
    """Return the sum of e^height over all whole numbers between nodes, with the chord of the height in between: it is concave."""
    tall = np.flatnonzero(height > -math.inf)
    if not tall.size:
        return 0.0
    x, height = x[tall[0] : tall[-1] + 1], height[tall[0] : tall[-1] + 1]
    length, rise = np.diff(x).astype(np.float64), np.diff(height)
    steep = np.abs(rise) / length
    top = np.where(rise > 0, height[1:] - steep, height[:-1])  # of the numbers from one node to just before the next
    with np.errstate(divide="ignore", invalid="ignore"):
        series = np.where(steep == 0, length, np.expm1(-np.abs(rise)) / np.expm1(-steep))
    return float(np.exp(height[-1])) + float((np.exp(top) * np.where(length == 1, 1.0, series)).sum())
