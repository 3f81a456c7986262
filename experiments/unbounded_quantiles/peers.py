"""What a range has to be known for: the exponential mechanism over the gaps of the records (EMQ), equal steps, a tree. Not for use.

All are for one record that is replaced. Laws and densities in floating point; nothing here protects anybody.
"""

from __future__ import annotations

import numpy as np

from experiments.unbounded_quantiles import laws

HEIGHT, BRANCHES = 3, 10
CANDIDATES = 1001
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def gaps(sample, q, epsilon, low, high):
    """Return the ends of the gaps between the records (sorted, in the range), n + 1 of them, and how likely EMQ answers in each."""
    ends = np.concatenate([[low], np.clip(sample, low, high), [high]])
    ranks = np.arange(sample.size + 1)
    with np.errstate(divide="ignore"):
        weights = np.log(np.diff(ends)) - epsilon / 2 * np.abs(ranks - q * sample.size)
    weights = np.exp(weights - weights.max())
    return ends, weights / weights.sum()


def answers(sample, q, epsilon, low, high):
    """Return nodes at which EMQ may answer, and their probabilities: uniform within each gap."""
    ends, law = gaps(sample, q, epsilon, low, high)
    wide = np.diff(ends)
    nodes = ends[:-1, None] + wide[:, None] * (_NODES + 1) / 2
    return nodes.ravel(), np.outer(law, _WEIGHTS / 2).ravel()


def steps(sample, q, epsilon, low, high):
    """Return 1001 equal steps and how likely each is the answer of permute-and-flip over them: the law of OpenDP's quantile."""
    values = np.linspace(low, high, CANDIDATES)
    away = np.abs(np.searchsorted(sample, values) - q * sample.size)
    return values, laws.flip(away - away.min(), np.ones(CANDIDATES, dtype=int), epsilon / 2)


def tree(sample, epsilon, low, high, rng):
    """Return noisy counts of 1000 equal cells from a tree of three levels, made consistent by least squares (Hay et al.)."""
    leaves = BRANCHES**HEIGHT
    cells = np.clip(((sample - low) / (high - low) * leaves).astype(int), 0, leaves - 1)
    counts = np.bincount(cells, minlength=leaves).astype(float)
    scale = 2 * HEIGHT / epsilon  # a replaced record changes two nodes of each level
    levels = [counts.reshape(BRANCHES**level, -1).sum(axis=1) for level in range(1, HEIGHT + 1)]
    noisy = [level + rng.laplace(0, scale, level.size) for level in levels]
    best = [noisy[-1]]
    for own in noisy[
        -2::-1
    ]:  # upwards: a node and the sum of its children, weighted by their variances
        height = len(best) + 1
        share = (BRANCHES**height - BRANCHES ** (height - 1)) / (BRANCHES**height - 1)
        best.insert(0, share * own + (1 - share) * best[0].reshape(own.size, BRANCHES).sum(axis=1))
    total = (
        best[0] + (sample.size - best[0].sum()) / best[0].size
    )  # the number of records is public here
    for children in best[1:]:  # downwards: what is missing is shared by the children
        groups = children.reshape(total.size, BRANCHES)
        total = (groups + ((total - groups.sum(axis=1)) / BRANCHES)[:, None]).ravel()
    return total


def tree_quantile(counts, q, records, low, high):
    """Return the first point of the range up to which the noisy counts reach the rank, within a cell by proportion."""
    reached = np.cumsum(counts)
    cell = (
        int(np.argmax(reached >= q * records))
        if (reached >= q * records).any()
        else counts.size - 1
    )
    before = reached[cell] - counts[cell]
    inside = np.clip((q * records - before) / max(counts[cell], 1e-9), 0, 1)
    return low + (high - low) * (cell + inside) / counts.size
