"""Laws of quantiles from their definition, record by record and test by test: nothing of the library but its public parameters."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise

import numpy as np
from scipy import integrate

LEAST = 1e-19


def survival(rate, depth):
    """P(Z >= depth) of one-sided geometric noise."""
    return math.exp(-rate * max(depth, 0))


def first_of(answers, threshold, e1, e2):
    """Law of the first answer with answer + Z_i >= threshold + Z, and of none; whole answers, rates a step."""
    e1, e2 = float(e1), float(e2)
    z = np.arange(
        max(0, max(answers, default=0) - threshold) + math.ceil(-math.log(LEAST) / e1) + 1
    )
    left = -math.expm1(-e1) * np.exp(-e1 * z)
    masses = []
    for answer in answers:
        hit = np.exp(-e2 * np.maximum(threshold + z - answer, 0))
        masses.append(float(left @ hit))
        left = left * (1 - hit)
    return [*masses, float(left.sum())]


def walk(records, edges, q, e1, e2, up, first=0, last=None, threshold=0):
    """Law of the edge where a walk ends: counts below (or at and above) each edge less q (or 1 - q) for every record."""
    a, b = Fraction(q).as_integer_ratio()
    n, last = len(records), len(edges) if last is None else last
    if up:
        answers = [b * sum(x < edges[i] for x in records) - a * n for i in range(first, last)]
        ends = [*range(first, last), last]
    else:
        answers = [
            b * sum(x >= edges[i] for x in records) - (b - a) * n
            for i in range(last - 1, first - 1, -1)
        ]
        ends = [*range(last - 1, first - 1, -1), first - 1]
    return dict(zip(ends, first_of(answers, threshold, e1, e2), strict=True))


def choose(records, edges, q, rate, *, exponential=False):
    """Law of permute-and-flip over the buckets, by all subsets of heads (few edges only); or that of weights e^(-rate depth)."""
    a, b = Fraction(q).as_integer_ratio()
    below = [0, *(sum(x < edge for x in records) for edge in edges), len(records)]
    target = Fraction(a, b) * len(records)
    depths = [b * max(low - target, target - high, 0) for low, high in pairwise(below)]
    heads = [survival(float(rate), float(depth)) for depth in depths]
    if exponential:
        return {place: one / sum(heads) for place, one in enumerate(heads)}
    law = Counter()
    for size in range(1, len(heads) + 1):
        for chosen in combinations(range(len(heads)), size):
            mass = math.prod(p if i in chosen else 1 - p for i, p in enumerate(heads))
            law.update(dict.fromkeys(chosen, mass / size))
    return dict(law)


def flip_runs(depths, lengths, rate):
    """Probability of one candidate of each run under permute-and-flip: p_i times the integral over its turn of the product of 1 - p_j t."""
    heads = [survival(float(rate), depth) for depth in depths]

    def one(i):
        def left(t):
            others = sum(
                (n - (j == i)) * math.log1p(-p * t)
                for j, (p, n) in enumerate(zip(heads, lengths, strict=True))
                if n > (j == i)
            )
            return math.exp(others)

        return (
            heads[i]
            * integrate.quad(
                left, 0, 1, points=[1e-8, 1e-6, 1e-4, 1e-2], limit=400, epsabs=0, epsrel=1e-9
            )[0]
        )

    return [one(i) for i in range(len(heads))]


def law_of(quantile, records):
    """Law of the edge, or bucket, that a `Quantile` releases, from the definition and its rates."""
    edges, q = quantile.grid.edges.tolist(), Fraction(str(quantile.q))
    if not hasattr(quantile.parts[0], "scan"):
        part = quantile.parts[0]
        return choose(records, edges, q, part.rate, exponential=part.exponential)
    laws = [
        walk(
            records,
            edges,
            q,
            part.scan.threshold_noise.rate,
            part.scan.noise.rate,
            part.upward,
            part.first,
            part.last,
            part.scan.threshold,
        )
        for part in quantile.parts
    ]
    if len(laws) == 1:
        return laws[0]
    zero = (len(edges) - 1) // 2
    law = Counter({edge: mass for edge, mass in laws[0].items() if edge != zero})
    for edge, mass in laws[1].items():
        law[edge] += laws[0][zero] * mass
    return dict(law)


def split_law(records, edges, shares, size, rate, shift=0, relative=False, few=Fraction(1, 20)):
    """Law of all edges of `Quantiles` for a known number of records, without a size hint (with one that is small: `few` above 1).

    `relative`: thresholds from the counts of each part, which is broken.
    """
    targets = [math.ceil(share * size) for share in (0, *shares, 1)]
    marks = [Fraction(0), *map(Fraction, shares), Fraction(1)]

    def between(low, high, below, above):
        """Law of the edges of the quantiles strictly between two, whose edges are `below` and `above`, over the records there."""
        if high - low <= 1:
            return {(): 1.0}
        middle = (low + high) // 2
        under, over = marks[middle] - marks[low], marks[high] - marks[middle]
        up = under >= over
        if (low == 0) != (high == len(marks) - 1) and (under if low == 0 else over) >= few:
            up = low == 0  # from an end of the grid, if enough records lie on the way
        cuts = [-math.inf, *edges, math.inf]
        here = [x for x in records if cuts[below + 1] <= x < cuts[above + 1]]
        target = targets[middle] - targets[low] if up else targets[high] - targets[middle]
        if relative:
            part = marks[middle] - marks[low] if up else marks[high] - marks[middle]
            target = math.ceil(part / (marks[high] - marks[low]) * len(here))
        inner = range(below + 1, above)
        counts = (
            [sum(x < edges[i] for x in here) for i in inner]
            if up
            else [sum(x >= edges[i] for x in here) for i in inner[::-1]]
        )
        ends = [*inner, above] if up else [*inner[::-1], below]
        masses = first_of(counts, target + shift, rate, rate) if inner else [1.0]
        if not inner:
            ends = [above if up else below]
        law = Counter()
        for edge, mass in zip(ends, masses, strict=True):
            for left, p in between(low, middle, below, edge).items():
                for right, r in between(middle, high, edge, above).items():
                    law[(*left, edge, *right)] += mass * p * r
        return law

    return dict(between(0, len(marks) - 1, -1, len(edges)))


def columns(values, most):
    """All columns of at most `most` records from these values; the order of records is nothing."""
    return [column for n in range(most + 1) for column in combinations_with_replacement(values, n)]


def shorter(records, rows):
    """All columns after one unit of 1 to `rows` records has left."""
    sizes = [len(records) - k for k in range(1, rows + 1) if k <= len(records)]
    return {kept for size in sizes for kept in combinations(records, size)}


def replaced(records, values, rows):
    """All columns after one unit of at most `rows` records has other records, also more or fewer."""
    left = shorter(records, rows) | {tuple(records)}
    new = [extra for k in range(rows + 1) for extra in combinations_with_replacement(values, k)]
    return {tuple(sorted([*rest, *extra])) for rest in left for extra in new} - {tuple(records)}


def losses(one, other):
    """Smallest and largest log ratio of two laws, where either is not negligible."""
    ratios = [math.log(one[out] / other[out]) for out in one if max(one[out], other[out]) > 1e-12]
    return min(ratios), max(ratios)


def sized_law(quantiles, records, shares, **options):
    """Law of all edges of `Quantiles`, over all noisy numbers of records: two-sided geometric noise, and none below 0."""
    rate, law, found = float(quantiles.size_noise.rate), {}, Counter()
    reach = math.ceil(30 / rate)
    for noise in range(-reach, reach + 1):
        size = max(0, len(records) + noise)
        mass = math.tanh(rate / 2) * math.exp(-rate * abs(noise))
        targets = tuple(math.ceil(share * size) for share in (*shares, 1))
        if targets not in law:
            law[targets] = split_law(
                records,
                quantiles.grid.edges.tolist(),
                shares,
                size,
                quantiles.noise.rate,
                quantiles.threshold_correction,
                **options,
            )
        for edges, chance in law[targets].items():
            found[edges] += mass * chance
    return dict(found)
