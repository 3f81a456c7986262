"""Exact laws of quantiles in floats, by other code than that of the audit, and all neighbours of small columns."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations_with_replacement

import numpy as np

from sordino import BucketCounts, Quantile, SizedQuantile
from sordino.estimators.quantiles.rank_search import RankChoice, Runs
from sordino.mechanisms.crossings.threshold_scan import GumbelScan
from sordino_audit.enumeration.searches import quantile_paths, quantiles_paths


@cache
def search_law(scan, answers):
    if isinstance(scan, GumbelScan):
        # P(the first m fail) is one over the sum of the weights of these, and of that of the threshold.
        weights = np.exp(float(scan.noise.rate) * (np.array(answers, float) - scan.threshold))
        left = 1 / np.append(1.0, 1 + np.cumsum(weights))
        stops = (left[:-1] * left[1:] * weights).tolist()
        return dict(zip([*range(len(answers)), None], [*stops, float(left[-1])], strict=True))
    slow, fast = float(scan.threshold_noise.rate), float(scan.noise.rate)
    z = np.arange(int(45 / slow) + 2)
    alive, law = np.exp(-slow * z) * -np.expm1(-slow), []
    for answer in answers:
        hit = np.exp(-fast * np.maximum(0, scan.threshold + z - answer))
        law.append(float(alive @ hit))
        alive = alive * (1 - hit)
    return dict(zip([*range(len(answers)), None], [*law, float(alive.sum())], strict=True))


@cache
def flip_law(rate, depths):
    """The integral over the place of the winner in the order, by a Gauss rule that is exact for polynomials of this degree."""
    x, w = np.polynomial.legendre.leggauss(len(depths))
    t, w = (x + 1) / 2, w / 2
    heads = np.exp(-float(rate) * np.array(depths))
    left = 1 - heads[:, None] * t
    return {
        i: float(w @ (heads[i] * np.prod(np.delete(left, i, axis=0), axis=0)))
        for i in range(len(depths))
    }


def part_law(part, runs):
    answers, lengths = part.lattice(runs)
    tests = tuple(np.repeat(answers, lengths).tolist())
    if not isinstance(part, RankChoice):
        return search_law(part.scan, tests)
    if not part.exponential:
        return flip_law(part.rate, tests)
    weights = np.exp(-float(part.rate) * np.array(tests, float))
    return dict(enumerate((weights / weights.sum()).tolist()))


def multiplied(paths, runs):
    laws, found = {}, {}
    for output, draws in paths:
        for part, _ in draws:
            if part not in laws:
                laws[part] = part_law(part, runs)
        found[output] = found.get(output, 0.0) + math.prod(
            laws[part][place] for part, place in draws
        )
    return found


def law(m, counts):
    """The law of a release from these counts: which part ended where; for several quantiles their edges, over all noisy sizes."""
    counted = BucketCounts(grid=m.grid, counts=np.array(counts))
    runs = Runs.of(counted)
    if isinstance(m, Quantile):
        return multiplied(quantile_paths(m, runs), runs)
    if isinstance(m, SizedQuantile):
        return sized_law(m, counted)
    total = {}
    by_target = {}
    for size, chance in size_law(m.size_noise, runs.records).items():
        plan = m.for_size(size)
        # Where the grid follows from the number, the number is released.
        case = size if m.adapts else None, plan, plan.targets(size)
        by_target[case] = by_target.get(case, 0.0) + chance
    for (size, plan, targets), chance in by_target.items():
        coarse = Runs.of(counted.onto(plan.grid))
        for output, one in multiplied(quantiles_paths(plan, targets), coarse).items():
            told = output if size is None else (size, output)
            total[told] = total.get(told, 0.0) + chance * one
    return total


def size_law(noise, records):
    """The law of a noisy number of records, which is at least 0."""
    far = 1 + int(40 / float(noise.rate))
    drawn = np.arange(-far, far + 1)
    sizes = {}
    for each, chance in zip(drawn.tolist(), noise.pmf(drawn).tolist(), strict=True):
        sizes[max(0, records + each)] = sizes.get(max(0, records + each), 0.0) + chance
    return sizes


def sized_law(m, counted, chances=None):
    """The law of the noisy number, the grid that follows, and what is found on it; `chances` of the numbers are other ones in a twin."""
    chances = chances or size_law(m.size_noise, counted.records)
    known, found = {}, {}
    for size, chance in chances.items():
        plan = m.for_size(size)
        if plan not in known:
            coarse = Runs.of(counted.onto(plan.grid))
            known[plan] = multiplied(quantile_paths(plan, coarse), coarse)
        for output, one in known[plan].items():
            found[size, plan.cuts, output] = chance * one
    return found


def data(buckets, most, least=0):
    """All counts of so many records."""
    for n in range(least, most + 1):
        for places in combinations_with_replacement(range(buckets), n):
            yield tuple(np.bincount(np.array(places, dtype=int), minlength=buckets).tolist())


def plus(a, b):
    return tuple(x + y for x, y in zip(a, b, strict=True))


def neighbours(m, base):
    """Pairs that differ in one unit, the larger one first where one is.

    A unit may also be there with fewer rows than it might have, or with none: rows without a number do not count.
    """
    buckets = m.grid.size + 1
    units = list(data(buckets, m.rows_per_unit, least=1))
    for rest in data(buckets, base):
        for i, unit in enumerate(units):
            yield plus(rest, unit), rest
            if m.adjacency == "replace-one":
                yield from ((plus(rest, unit), plus(rest, other)) for other in units[:i])
