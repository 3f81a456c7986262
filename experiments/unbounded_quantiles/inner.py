"""Inner quantiles, 5 % to 95 %, of the columns of the paper: what each method may answer, and how likely."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

import sordino as sd
from experiments.unbounded_quantiles import laws, peers
from experiments.unbounded_quantiles.columns import RECORDS, column

QS = tuple(round(0.05 + 0.1 * i, 2) for i in range(10))
EPSILONS = (1, 0.5, 0.1)
RUNS = 100
LOOSE = 1e6
GROWTH = 1 + 2 / RECORDS  # about two records to a bucket where the values spread over a factor e
OURS = {
    "adjacency": "replace-one",
    "lower": None,
    "cap": LOOSE,
    "growth": GROWTH,
    "size_hint": RECORDS,
}  # for every column


def ours(sample, q, epsilon):
    found = sd.Quantile(q=q, epsilon=epsilon, **OURS)
    return laws.quantile(found, sd.BucketCounts.of(sample, grid=found.grid))


def uqe(sample, q, epsilon, low, high):
    """Return what the paper's method answers: growth 1.001, equal rates, from the lower end of the tight range on."""
    walk = {"method": "above-threshold", "growth": 1.001, "adjacency": "replace-one"}
    found = sd.Quantile(q=q, epsilon=epsilon, lower=low, cap=high, **walk)
    return laws.quantile(found, sd.BucketCounts.of(sample, grid=found.grid))


@lru_cache
def errors(name, epsilon, method):
    """Return mean rank errors and mean absolute errors for each q, shape (2, q), over the samples of a column."""
    data = column(name)
    table = np.empty((RUNS, 2, len(QS)))
    for run, (sample, apart) in enumerate(data.samples(RUNS)):
        for place, q in enumerate(QS):
            law = answers(method, sample, apart, q, epsilon, data.tight)
            values = data.rounded(law[0])
            table[run, 0, place] = law[1] @ laws.rank_errors(values, sample, q)
            table[run, 1, place] = law[1] @ np.abs(values - np.quantile(sample, q))
    return table.mean(axis=0)


def answers(method, sample, apart, q, epsilon, tight):
    if method == "ours":
        return ours(sample, q, epsilon)
    if method == "UQE":
        return uqe(apart, q, epsilon, *tight)
    if method == "steps":
        return peers.steps(sample, q, epsilon, *tight)
    return peers.answers(apart, q, epsilon, *(tight if method == "EMQ" else (-LOOSE, LOOSE)))
