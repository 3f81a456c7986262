"""Selections with heavy-tailed noise by quadrature, and a search for their worst neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from sordino.noise import GeneralizedCauchy

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_PIECES = np.array(
    [0, 0.1, 0.3, 0.6, 1, 1.5, 2.2, 3.3, 5, 8, 15, 30, 70, 200, 1e3, 1e4, 1e5, 1e6, 1e8, 1e10]
)


@dataclass(frozen=True)
class CutOff:
    """Magnitudes of a law, drawn again above an end: what the published sampler does, in effect."""

    law: GeneralizedCauchy
    end: float

    def pdf(self, z):
        return np.where(z <= self.end, self.law.pdf(z) / self.law.cdf(self.end), 0.0)

    def cdf(self, z):
        return np.minimum(self.law.cdf(z) / self.law.cdf(self.end), 1.0)


def winning(law, scores, scales, times=None, winner=0, signed=False):
    """P(a score with its noise, of which there are `times`, is the largest): `winner` stands once, Gauss-Legendre between the kinks.

    Noise is a scale times a magnitude of `law`, one scale for each score.
    """
    scores, scales = (
        np.asarray(scores, dtype=float),
        np.broadcast_to(np.asarray(scales, dtype=float), np.shape(scores)),
    )
    times = np.ones(scores.size) if times is None else np.asarray(times, dtype=float).copy()
    times[winner] -= 1
    kinks = (scores - scores[winner]) / scales[winner]
    starts = [0.0, *(kinks if signed else kinks[kinks > 0])]
    ends = getattr(law, "end", math.inf)
    extra = [
        (score + ends * scale - scores[winner]) / scales[winner]
        for score, scale in zip(scores, scales, strict=True)
    ]
    points = np.concatenate(
        [start + _PIECES for start in starts] + [[x for x in [ends, *extra] if math.isfinite(x)]]
    )
    if signed:
        points = np.concatenate([points, *(start - _PIECES for start in starts)])
    points = np.unique(points if signed else points[points >= 0])
    points = points[points <= ends]
    half = np.diff(points)[:, None] / 2
    z = points[:-1, None] + half * (1 + _NODES)
    value = law.pdf(np.abs(z)) / (2 if signed else 1) * half * _WEIGHTS
    for score, scale, count in zip(scores, scales, times, strict=True):
        at = (scores[winner] - score + scales[winner] * z) / scale
        value *= (
            np.where(at >= 0, 1 - law.sf(np.abs(at)) / 2, law.sf(np.abs(at)) / 2)
            if signed
            else law.cdf(at)
        ) ** count
    return float(value.sum())


def loss(law, alpha, scores, ratio, times=None, signed=False):
    """ln of P_x/P_y that the first one wins: S(x) = 1, S(y) = e^ratio, the winner falls and all others rise as far as they may."""
    move = min(1.0, math.exp(ratio))
    moved = np.asarray(scores, dtype=float) + move
    moved[0] -= 2 * move
    one = winning(law, scores, 1 / alpha, times, signed=signed)
    other = winning(law, moved, math.exp(ratio) / alpha, times, signed=signed)
    return -math.inf if one <= 0 else math.inf if other <= 0 else math.log(one / other)


def worst(law, alpha, beta, candidates, starts, signed=False, groups=2):
    """The largest loss that a search over scores and ratios finds: the others stand in at most `groups` groups of equals.

    Shifts need no search: the probability rises with the winner's score and falls with all others.
    """
    sizes = [math.ceil((candidates - 1) / groups)] * (groups - 1)
    times = np.array([1, *sizes, candidates - 1 - sum(sizes)], dtype=float)
    keep = times > 0

    def minus(parameters):
        *gaps, at = parameters
        scores = np.concatenate([[0.0], np.asarray(gaps)])[keep] / alpha
        return -loss(law, alpha, scores, beta * math.sin(at), times[keep], signed)

    found = 0.0
    for start in starts:
        result = optimize.minimize(
            minus,
            start,
            method="Nelder-Mead",
            options={"maxiter": 160, "xatol": 1e-3, "fatol": 1e-7},
        )
        found = max(found, -result.fun)
    return found
