"""The exact law of a clip and of the totals that meet the noise, for all small data sets and their neighbors."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations_with_replacement
from statistics import NormalDist

import numpy as np

from sordino import BucketCounts, ClippedSums, ClippedVariance
from sordino.estimators.clipped.weighed_clip import WeighedClip

VALUES = (None, -9.0, -2.0, 0.5, 2.0, 7.99, 1e308)
GRID = {"cap": 8, "growth": 2, "unit": 1}


def rows(most, values=VALUES):
    return [unit for n in range(1, most + 1) for unit in combinations_with_replacement(values, n)]


def neighbours(adjacency, most, base, values=VALUES):
    """Pairs of data sets that differ in one unit of at most so many rows; the same pair in both orders."""
    units = rows(most, values)
    bases = [(), *rows(base)]
    for rest in bases:
        for one in units:
            others = [()] if adjacency == "add-remove" else units
            for other in others:
                if one != other:
                    yield rest + one, rest + other
                    yield rest + other, rest + one


def worst_loss(estimator, pairs):
    """The largest log ratio of clip and noisy totals together, over pairs; and of the clip alone."""
    known, worst, clip_only = {}, 0.0, 0.0
    for a, b in pairs:
        for one in (a, b):
            if one not in known:
                known[one] = stages(estimator, one)
        for tests, (chance, at) in known[a].items():
            other, there = known[b][tests]
            clip = math.log(chance / other)
            apart = sum(abs(x - y) for x, y in zip(at, there, strict=True))
            worst, clip_only = (
                max(worst, clip + noise_of(estimator, tests)[0] * apart),
                max(clip_only, clip),
            )
    return worst, clip_only


@cache
def scan_law(threshold, slow, fast, answers):
    """P(stop at test k), and of no stop: a plain sum over the noise of the threshold, in floats."""
    z = np.arange(int(45 / slow) + 2)
    weight = np.exp(-slow * z) * -np.expm1(-slow)
    law, alive = [], np.ones(z.size)
    for answer in answers:
        hit = np.exp(-fast * np.maximum(0, threshold + z - answer))
        law.append(float(weight @ (alive * hit)))
        alive *= 1 - hit
    return (*law, float(weight @ alive))


def stages(estimator, values):
    """Each clip with its probability and the totals that get noise."""
    search = estimator.search
    scan = search.scan
    if isinstance(estimator, WeighedClip):
        counts = estimator.count_weights(list(values), estimator.weight_cap)
    elif isinstance(estimator, ClippedSums):
        counts = estimator.count_wholes(list(values))
    else:
        counts = BucketCounts.of(list(values), grid=estimator.grid)
    laws = []
    for answers, lengths in search.runs(counts):
        tests = tuple(np.repeat(answers, lengths).tolist())
        laws.append(
            scan_law(
                scan.threshold, float(scan.threshold_noise.rate), float(scan.noise.rate), tests
            )
        )
    found = {}
    for places in np.ndindex(*map(len, laws)):
        tests = tuple(
            None if at == len(law) - 1 else at + 1 for at, law in zip(places, laws, strict=True)
        )
        # A sum is rounded once, all records together; squares are those of whole steps, record by record.
        parts = (
            [(value,) for value in values]
            if isinstance(estimator, ClippedVariance)
            else [tuple(values)]
        )
        each = [totals(estimator, part, tests) for part in parts] or [totals(estimator, (), tests)]
        _, noise = noise_of(estimator, tests)
        summed = tuple(sum(column) >> noise.shift for column in zip(*each, strict=True))
        found[tests] = (math.prod(law[at] for at, law in zip(places, laws, strict=True)), summed)
    return found


@cache
def noise_of(estimator, tests):
    clip = estimator.search.clip(tests, simulated=True)
    noise = estimator.noise_for(clip)
    return float(noise.mechanism.noise.rate), noise


@cache
def totals(estimator, values, tests):
    """The totals in record steps, as `release` hands them to the noise."""
    return tuple(estimator.totals(list(values), estimator.search.clip(tests, simulated=True)))


# ---- Gaussian totals ----------------------------------------------------------------------------------------------------

ORDERS = (1.01, 1.5, 2, 3, 8, 32, 256)
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
NORMAL = NormalDist()


def normal_delta(distance, epsilon):
    """The hockey stick of two normal laws of deviation 1 that are so far apart, for any epsilon, also below 0."""
    if distance == 0:
        return max(0.0, -math.expm1(epsilon))
    near, far = distance / 2 - epsilon / distance, -distance / 2 - epsilon / distance
    return NORMAL.cdf(near) - math.exp(epsilon) * NORMAL.cdf(far)


def compared(subject, pairs):
    """The worst Rényi divergences and hockey sticks of clip and noisy totals together, and of the totals alone.

    Noise of 2^28 steps is normal to sixteen digits: a shift by d steps has the divergence order * rate * d^2.
    """
    known: dict = {}
    renyi, deltas, alone = dict.fromkeys(ORDERS, 0.0), dict.fromkeys(EPSILONS, 0.0), 0.0
    for a, b in pairs:
        for one in (a, b):
            if one not in known:
                known[one] = stages(subject, one)
        lines = []
        for tests, (chance, at) in known[a].items():
            other, there = known[b][tests]
            square = noise_of(subject, tests)[0] * sum(
                (x - y) ** 2 for x, y in zip(at, there, strict=True)
            )
            lines.append((chance, math.log(chance / other), square))
            alone = max(alone, square)
        p, loss, square = np.array(lines).T
        for order in ORDERS:
            exponent = np.log(p) + (order - 1) * (loss + order * square)
            top = exponent.max()
            found = (top + math.log(np.exp(exponent - top).sum())) / (order - 1)
            renyi[order] = max(renyi[order], found)
        for epsilon in EPSILONS:
            found = sum(
                one * normal_delta(math.sqrt(2 * far), epsilon - lost)
                for one, lost, far in zip(p, loss, square, strict=True)
            )
            deltas[epsilon] = max(deltas[epsilon], found)
    return renyi, deltas, alone


def excess(cost, found):
    """By how much any divergence or delta is more than what is charged."""
    renyi, deltas, _ = found
    return max(
        *(renyi[order] - cost.rdp(order) for order in ORDERS),
        *(deltas[epsilon] - cost.delta(epsilon) for epsilon in EPSILONS),
    )
