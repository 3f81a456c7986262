"""Gaussian noise for a pair (epsilon, delta): the formula of the paper, and the discrete Gaussian with the budget that its cost allows."""

from __future__ import annotations

import math
from functools import lru_cache

import sordino as sd
from experiments.composite_noise.ours import bounded_by
from sordino.cost import ZCDP

DELTA = 1e-5


def sigma(epsilon, sensitivity):
    """Return the standard deviation of equation 5, which is proved for epsilon below 1."""
    return math.sqrt(2 * math.log(1.25 / DELTA)) * sensitivity / epsilon


@lru_cache(maxsize=64)
def rho(epsilon):
    """Return the largest budget, to 1e-6 of it, whose cost is at most (epsilon, delta)."""
    low, high = 0.0, epsilon
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if ZCDP(rho=middle).epsilon(DELTA) <= epsilon else (low, middle)
    return low


def discrete(epsilon, sensitivity, step=None):
    return sd.GaussianMechanism(rho=rho(epsilon), sensitivity=bounded_by(sensitivity, step))


def moments(name, epsilon, sensitivity):
    """Return mean absolute error and mean square error."""
    if name == "Gaussian":
        deviation = sigma(epsilon, sensitivity)
    else:
        mechanism = discrete(epsilon, sensitivity)
        deviation = math.sqrt(mechanism.noise.variance) * float(mechanism.step)
    return deviation * math.sqrt(2 / math.pi), deviation**2
