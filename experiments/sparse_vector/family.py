"""The members of the family that are compared, each with the whole budget epsilon, for monotone counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

import sordino as sd

PASSES = 40
DELTA = 1e-6
OURS, PAPER = "ours: Exp, Exp, optimal", "paper: Exp, Lap, optimal"
GAUSSIAN = f"SVT-Gau: Gau, Gau, none, at delta {DELTA:g}"


def mean_correction(c, epsilon, w, query, threshold):
    """The mean of the noise of a comparison: that of questions less that of the threshold."""
    return query * c * (1 + w) / w / epsilon - threshold * (1 + w) / epsilon


def members(data, epsilon, passes=PASSES, margin=0):
    """Return name: mechanism, for those that can ask what was below again."""
    c, run = data.positives, data.values.size // data.positives
    common = {
        "threshold": data.threshold,
        "positives": c,
        "epsilon": epsilon,
        "sensitivity": sd.COUNTING,
        "passes": passes,
    }
    optimal = {"correction": "optimal", "correction_run": run, "correction_margin": margin}
    w = (c / math.sqrt(2)) ** (2 / 3)
    mean = mean_correction(c, epsilon, w, 1, 0)
    return {
        OURS: sd.SparseVector(**common, **optimal),
        PAPER: sd.SparseVector(**common, threshold_noise="laplace", **optimal),
        "Exp, Lap, mean": sd.SparseVector(
            **common, threshold_noise="laplace", correction=round(mean, 6)
        ),
        "Exp, Lap, none": sd.SparseVector(**common, threshold_noise="laplace"),
        "SVT-Lap: Lap, Lap, none": sd.SparseVector(
            **common, noise="laplace", threshold_noise="laplace"
        ),
    }


def once(data, epsilon):
    """Return name: mechanism, for those that ask each answer once: a second time would cost again, or begin with a new threshold."""
    common = {"threshold": data.threshold, "positives": data.positives, "sensitivity": sd.COUNTING}
    return {
        "SVT-Gumbel: Gum, Gum, mean": sd.GumbelSparseVector(epsilon=epsilon, **common),
        GAUSSIAN: gaussian(epsilon, questions=data.values.size, **common),
    }


def gaussian(epsilon, **common):
    """Return the Gaussian sparse vector with the largest rho whose Rényi curve is within (epsilon, DELTA)."""
    low, high = Fraction(1, 10**12), Fraction(100)
    for _ in range(60):
        middle = (low + high) / 2
        cost = sd.GaussianSparseVector(rho=middle, **common).cost
        low, high = (middle, high) if cost.epsilon(DELTA) <= epsilon else (low, middle)
    return sd.GaussianSparseVector(rho=low, **common)


@dataclass(frozen=True)
class Peeled:
    """Permute-and-flip so many times, each time among those not found yet."""

    choose: sd.PermuteAndFlip
    times: int

    @property
    def cost(self):
        return sd.cost.repeat(self.choose.cost, self.times)

    def release(self, answers, *, entropy):
        left, found = np.arange(answers.size), []
        for _ in range(self.times):
            at = self.choose.release(answers[left], entropy=entropy).index
            found.append(int(left[at]))
            left = np.delete(left, at)
        return SimpleNamespace(indices=np.array(found), cost=self.cost)


def at_once(data, epsilon):
    """The honest upper bounds where all answers are known at once: top-c, its items above the threshold or not."""
    c = data.positives
    choose = sd.PermuteAndFlip(epsilon=Fraction(str(epsilon)) / c, sensitivity=sd.COUNTING)
    return {
        "all at once: NoisyTopK": sd.NoisyTopK(k=c, epsilon=epsilon, sensitivity=sd.COUNTING),
        "all at once: PermuteAndFlip, one by one": Peeled(choose, c),
    }


def quality(order, found, data):
    """Return NCR and F1 of what was found, as positions in the shuffled list; `order` maps them to ranks from 0."""
    c = data.positives
    ranks = order[np.asarray(found, dtype=int)]
    true = ranks[ranks < c]
    return (c - true).sum() / (c * (c + 1) / 2), 2 * true.size / (ranks.size + c)


def trial(mechanism, data, seed):
    """Shuffle the items, release once, and return NCR, F1 and the share of the pure budget that is left (NaN if there is none)."""
    order = np.random.default_rng(seed).permutation(data.values.size)
    found = mechanism.release(data.values[order], entropy=sd.Seeded(seed))
    budget = mechanism.cost.pure()
    return *quality(order, found.indices, data), math.nan if budget == math.inf else 1 - float(
        found.cost.pure() / budget
    )
