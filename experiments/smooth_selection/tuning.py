"""Public parameters chosen by how well they do on other made-up data: never by the data that they are used on."""

from __future__ import annotations

from functools import cache

import numpy as np

import sordino as sd
from experiments.smooth_selection import methods
from experiments.smooth_selection.simulated import FAMILIES, TUNING_RUNS, TUNING_SEED, Trial

RAW = (0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
ROOT = (0.015, 0.018, 0.02, 0.022, 0.025, 0.03, 0.04)


@cache
def trial(markers, families=FAMILIES):
    return Trial.made_up(markers, families=families, runs=TUNING_RUNS, seed=TUNING_SEED)


def best(found):
    """Return the parameter with the largest share, the smaller one among equals."""
    return max(found, key=lambda one: (found[one].share, -one))


def raw_beta(markers, epsilon, select, families=FAMILIES):
    """Return the best beta for the statistic itself with its smallest smooth bound; `select(trial, epsilon, beta)` selects."""
    return best({beta: select(trial(markers, families), epsilon, beta) for beta in RAW})


def root_beta(markers, epsilon, select, families=FAMILIES):
    return best({beta: select(trial(markers, families), epsilon, beta) for beta in ROOT})


@cache
def distance_limit(families):
    """Return the largest beta for which the method "distance" is admissible, to nine digits: the paper's threshold (8)."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        try:
            sd.smooth.tdt(0, 0, families=families, beta=middle, scale="raw", method="distance")
        except sd.InvalidParameter:
            high = middle
        else:
            low = middle
    return low


def published_beta(markers, epsilon, families=FAMILIES, *, gamma=4, sided="one", limit=None):
    """Return the threshold, or the beta that costs half of epsilon if that is less: then there is something left for the scores."""
    losers = markers if sided == "two" else markers - 1
    limit = distance_limit(families) if limit is None else limit
    return float(min(limit, epsilon / 2 / (losers * (gamma - 1))))


@cache
def global_tables(families):
    """Return the tables at which the statistic moves by its global sensitivity."""
    most = 2 * families
    return np.array([(0, most), (most, 0), (2, most - 2), (most - 2, 2)])


def far_from_global(b, c, families):
    """Return how many families must be replaced to come to one of them (Lemma 3 of the paper)."""
    moved = [(b - row[0], c - row[1]) for row in global_tables(families)]
    return np.min(
        [(np.maximum(np.maximum(abs(i), abs(j)), abs(i + j)) + 1) // 2 for i, j in moved], axis=0
    )


@cache
def global_limit(families):
    """Return the largest beta for distances to the global sensitivity: the paper's threshold (5), from all tables."""
    counts = np.arange(2 * families + 1)
    b, c = (grid.ravel() for grid in np.meshgrid(counts, counts, indexing="ij"))
    b, c = b[b + c <= 2 * families], c[b + c <= 2 * families]
    top = float(sd.smooth.tdt_ceiling(families=families, scale="raw"))
    local = np.minimum(sd.smooth.tdt(b, c, families=families, beta=100, scale="raw"), top)
    return sd.smooth.largest_beta(local, far_from_global(b, c, families), ceiling=top)


def global_bounds(trial, beta):
    """Return the smooth bound of Theorem 4 of the paper, shape (runs,)."""
    top = float(methods.ceiling(trial, "raw"))
    away = far_from_global(trial.b, trial.c, trial.families).min(axis=1)
    return sd.smooth.from_distance(
        away, beta=beta, ceiling=top, largest=global_limit(trial.families)
    )
