"""Figure 1: what a loose range does to the exponential mechanism over gaps, and not to a walk over edges."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import sordino as sd
from experiments.repeating import table
from experiments.unbounded_quantiles import laws, peers

CUTS = (0, 7, 8, 8.5, 9, 9.5, 10, 10.5, 11, 12, 15, 20)
Q, EPSILON, RECORDS = 0.9, 1, 100
CAPS = (10, 20, 1e6)


def shares(values, law):
    """Return how likely an answer lies between the cuts, and beyond the last one."""
    places = np.searchsorted(CUTS, values, side="right")
    return np.bincount(places, weights=law, minlength=len(CUTS) + 1)[1:]


def emq(sample, high):
    """Return the same for EMQ, which is uniform within each gap."""
    ends, law = peers.gaps(sample, Q, EPSILON, 0, high)
    return np.diff(np.interp([*CUTS, high], ends, np.append(0.0, np.cumsum(law))))


def ours(sample, cap, **options):
    found = sd.Quantile(q=Q, epsilon=EPSILON, adjacency="replace-one", lower=0, cap=cap, **options)
    return laws.quantile(found, sd.BucketCounts.of(sample, grid=found.grid))


def report():
    sample = np.sort(np.random.default_rng(1).uniform(0, 10, RECORDS))
    columns = {f"EMQ [0, {high}]": emq(sample, high) for high in (10, 20)}
    columns |= {
        f"ours, cap {cap:g}": shares(*ours(sample, cap, method="above-threshold")) for cap in CAPS
    }
    columns["permute-and-flip, cap 20"] = shares(*ours(sample, 20, method="permute-and-flip"))
    names = [f"[{low:g}, {high:g})" for low, high in pairwise(CUTS)] + [f"{CUTS[-1]} and more"]
    rows = [
        (name, *(f"{column[i]:.4f}" for column in columns.values())) for i, name in enumerate(names)
    ]
    return [
        "## What a loose range does (figure 1)",
        "",
        f"How likely the 90 % quantile of {RECORDS} records, uniform on [0, 10], is answered by a value in each interval; epsilon "
        f"{EPSILON}, one record is replaced; {np.quantile(sample, Q):.2f} would be right. EMQ with the range [0, 10] and [0, 20]; "
        "ours with growth 1.01, the default, a walk unless the method is named, and three caps. Exact laws.",
        "",
        *table(("answer", *columns), rows),
        "",
    ]
