"""The members of the family that are compared, each with the whole budget epsilon, for monotone counts."""

from __future__ import annotations

import math

import numpy as np

import sordino as sd

PASSES = 40


def mean_correction(c, epsilon, w, query, threshold):
    """The mean of the noise of a comparison: that of questions less that of the threshold."""
    return query * c * (1 + w) / w / epsilon - threshold * (1 + w) / epsilon


def members(data, epsilon, passes=PASSES, margin=0):
    """Return name: mechanism."""
    c, run = data.positives, data.values.size // data.positives
    common = {"threshold": data.threshold, "positives": c, "epsilon": epsilon, "sensitivity": sd.COUNTING, "passes": passes}
    optimal = {"correction": "optimal", "correction_run": run, "correction_margin": margin}
    w = (c / math.sqrt(2)) ** (2 / 3)
    mean = mean_correction(c, epsilon, w, 1, 0)
    return {
        "ours: Exp, Exp, optimal": sd.SparseVector(**common, **optimal),
        "paper: Exp, Lap, optimal": sd.SparseVector(**common, threshold_noise="laplace", **optimal),
        "Exp, Lap, mean": sd.SparseVector(**common, threshold_noise="laplace", correction=round(mean, 6)),
        "Exp, Lap, none": sd.SparseVector(**common, threshold_noise="laplace"),
        "Lap, Lap, none": sd.SparseVector(**common, noise="laplace", threshold_noise="laplace"),
    }


def one_shot(data, epsilon):
    """The honest upper bound where all answers are known at once: top-c, its items above the threshold or not."""
    return sd.NoisyTopK(k=data.positives, epsilon=epsilon, sensitivity=sd.COUNTING)


def quality(order, found, data):
    """Return NCR and F1 of what was found, as positions in the shuffled list; `order` maps them to ranks from 0."""
    c = data.positives
    ranks = order[np.asarray(found, dtype=int)]
    true = ranks[ranks < c]
    return (c - true).sum() / (c * (c + 1) / 2), 2 * true.size / (ranks.size + c)


def trial(mechanism, data, seed):
    """Shuffle the items, release once, and return NCR, F1 and the share of the budget that is left."""
    order = np.random.default_rng(seed).permutation(data.values.size)
    found = mechanism.release(data.values[order], entropy=sd.Seeded(seed))
    return *quality(order, found.indices, data), 1 - float(found.cost.epsilon_ / mechanism.cost.epsilon_)
