"""How likely each answer is: the laws of a noisy walk over edges, of permute-and-flip, and of what is done with what they find.

Nothing is sampled. Sums over the noise of the threshold are over whole numbers where those are few, else over nodes of Gauss and
Legendre, which changes no figure that is printed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sordino.estimators.quantiles.quantile import middle_of, value_at
from sordino.estimators.quantiles.rank_search import RankFlip, Runs

_FAR = 25  # noise beyond this many scales has a probability of e^-25
_WHOLE = 900
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


def walk(answers, lengths, scan):
    """Return the probability that a `ThresholdScan` ends at each position, and last, that it ends nowhere: shape (K + 1,).

    Answers come in runs of equal ones, as whole numbers of its lattice.
    """
    noise, rate = float(scan.threshold_noise.rate), float(scan.noise.rate)
    at, weights = _threshold_noise(noise)
    depth = np.maximum(scan.threshold + at[:, None] - answers, 0)
    with np.errstate(divide="ignore"):
        misses = np.log1p(-np.exp(-rate * depth))
    each = np.repeat(misses, lengths, axis=1)
    left = np.exp(np.cumsum(each, axis=1))  # nobody has stopped yet, after each position
    survival = weights @ np.concatenate([np.ones((at.size, 1)), left], axis=1)
    return np.append(survival[:-1] - survival[1:], survival[-1])


def _threshold_noise(rate):
    if _FAR / rate <= _WHOLE:
        whole = np.arange(int(_FAR / rate) + 1)
        weights = np.exp(-rate * whole)
        return whole, weights / weights.sum()
    starts, width = np.linspace(0, _FAR / rate, 16, endpoint=False, retstep=True)
    at = (starts[:, None] + width * (_NODES + 1) / 2).ravel()
    weights = np.exp(-rate * at) * np.tile(_WEIGHTS, starts.size)
    return at, weights / weights.sum()


def flip(depths, lengths, rate):
    """Return the probability that permute-and-flip chooses each candidate, shape (K,): depth below the best in runs of equal ones.

    With coins of probability p_j = e^(-rate depth_j), tossed in random order, candidate i is chosen with probability
    p_i times the integral over t in (0, 1) of the product over j != i of 1 - p_j t.
    """
    kinds, kind = np.unique(depths[lengths > 0], return_inverse=True)
    each = np.bincount(kind, weights=lengths[lengths > 0], minlength=kinds.size)
    p = np.exp(-rate * kinds)
    corners = np.append(0.0, 2.0 ** np.arange(-20, 1))
    half = np.diff(corners)[:, None] / 2
    t = (corners[:-1, None] + half * (_NODES + 1)).ravel()
    weights = (half * _WEIGHTS).ravel()
    miss = 1 - np.outer(t, p)
    nobody = np.exp(np.log(miss) @ each)
    chosen = p * ((weights * nobody) @ (1 / miss))
    return np.repeat(chosen[kind], lengths[lengths > 0]) / (chosen @ each)


def quantile(estimator, counts):
    """Return the values that a `Quantile` of one part may release and their probabilities.

    This looks inside; the table of laws and releases compares it with what comes out.
    """
    (part,) = estimator.parts
    return search(part, counts, estimator)


def search(part, counts, estimator):
    """Return the values that one part of a `Quantile` may find, in the order of its tests, and their probabilities."""
    answers, lengths = part.lattice(Runs.of(counts))
    if isinstance(part, RankFlip):
        return _middles(estimator.grid, estimator.lower), flip(answers, lengths, float(part.rate))
    law = walk(answers, lengths, part.scan)
    values = _values(estimator.grid, estimator.lower)
    return values[[part.edge(found) + 1 for found in [*range(law.size - 1), None]]], law


@lru_cache
def _values(grid, lower):
    """Return the value that each edge is released as, -1 to K."""
    return np.array([value_at(edge, grid, lower) for edge in range(-1, grid.size + 1)])


@lru_cache
def _middles(grid, lower):
    """Return the value that each bucket is released as, 0 to K."""
    return np.array([middle_of(bucket, grid, lower) for bucket in range(grid.size + 1)])


def rank_errors(values, sample, q):
    """Return how far the ranks of values, from the records below to those not above, lie from the target."""
    low, high = (np.searchsorted(sample, values, side=side) for side in ("left", "right"))
    target = q * sample.size
    return np.maximum(np.maximum(low - target, target - high), 0)


def sum_errors(clips, sample, epsilon):
    """Return the mean absolute error of the clipped sum plus Laplace noise, for each clip: B + b e^(-B/b)."""
    above = np.searchsorted(sample, clips, side="right")
    tails = np.append(np.cumsum(sample[::-1])[::-1], 0.0)[above] - (sample.size - above) * clips
    lost, scale = np.maximum(tails, 0), np.maximum(clips, 1e-300) / epsilon
    return lost + scale * np.exp(-lost / scale)
