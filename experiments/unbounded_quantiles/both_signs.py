"""Values of both signs and no size hint: two searches from 0 at the rates that both together allow, against half of the budget for each."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np

import sordino as sd
from experiments.repeating import table
from experiments.unbounded_quantiles import laws
from experiments.unbounded_quantiles.columns import RECORDS, at_hand
from sordino.noise import Geometric

RUNS = 25
QS = (0.1, 0.5, 0.9)
EPSILONS = (1, 0.5, 0.2)
UNKNOWN = {"lower": None, "cap": 1e6}  # growth 1.01, the default; nothing is known of the records
ADJACENCIES = ("add-remove", "replace-one")


def report():
    known, _ = at_hand(("uniform", "normal"))
    samples = {data.name: [sample for sample, _ in data.samples(RUNS)] for data in known}
    rows, ratios = [], []
    for adjacency, q, epsilon, data in product(ADJACENCIES, QS, EPSILONS, known):
        found = sd.Quantile(q=q, epsilon=epsilon, adjacency=adjacency, **UNKNOWN)
        ours, theirs = (
            float(np.mean([error(found, parts, sample) for sample in samples[data.name]]))
            for parts in (found.parts, halves(found))
        )
        ratios.append(ours / theirs)
        rows.append(
            (adjacency, q, epsilon, data.name, f"{ours:.2f}", f"{theirs:.2f}", f"{ratios[-1]:.2f}")
        )
    return [
        "## Both signs, and nothing known",
        "",
        f"Mean rank error of `Quantile(lower=None, cap=1e6)` without a size hint, for {RECORDS} records of both signs, {RUNS} samples, "
        "expectations over the exact laws. Two searches begin at 0, the second only if the first ended at once. Ours: at the rates that "
        "both together allow. Halves: each with half of the budget, which is what two searches cost that are only known to add up.",
        "",
        *table(("neighbors", "q", "epsilon", "column", "ours", "halves", "ours / halves"), rows),
        "",
        f"The ratio is {min(ratios):.2f} to {max(ratios):.2f}, {np.mean(ratios):.2f} in the mean.",
    ]


def halves(found):
    """Return the searches of a quantile, each with half of the budget."""
    return tuple(_at_half(part, found) for part in found.parts)


def _at_half(part, found):
    p = found.q if part.upward else 1 - found.q
    # The larger end of the interval of one search, for equal rates 1 of threshold and counts.
    alone = 1 + p if found.adjacency == "add-remove" else 2
    noise = Geometric(Fraction(found.epsilon / 2 / alone / part.weight).limit_denominator(1 << 40))
    return replace(part, scan=replace(part.scan, threshold_noise=noise, noise=noise))


def error(found, parts, sample):
    """Return the mean rank error of a sample, from the law of what the two searches find."""
    counts = sd.BucketCounts.of(sample, grid=found.grid)
    (one, first), (other, second) = (laws.search(part, counts, found) for part in parts)
    # Only the first test of the first search leads on to the second one.
    values, law = np.append(one[1:], other), np.append(first[1:], first[0] * second)
    return law @ laws.rank_errors(values, sample, found.q)
