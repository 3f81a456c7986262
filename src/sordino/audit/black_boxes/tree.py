"""A tree that splits bins of features where two samples differ most.

Its leaves estimate the likelihood ratio.

Claim: none; a tree is fixed before the runs on which its leaves are tested are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.audit.black_boxes.features import Codes, Feature

_MOST_LEAVES, _SMALLEST_LEAF, _SMALLEST_GAIN = 48, 16, 4.0


class _Split(NamedTuple):
    gain: float
    feature: int
    last: int  # the last bin that goes left


@final
@dataclass(frozen=True, eq=False)
class Tree:
    """Inner nodes as (feature, last bin that goes left, left child, right child).

    A leaf has feature -1, and its number in place of the bin.
    """

    nodes: tuple[tuple[int, int, int, int], ...]
    leaves: int

    def leaf(self, codes: Codes) -> NDArray[np.int64]:
        """Return the leaf of each row."""
        found = np.zeros(codes.shape[0], dtype=np.int64)
        # Rows wander down the tree together, node by node.
        waiting = [(0, np.arange(codes.shape[0]))]
        while waiting:
            node, rows = waiting.pop()
            feature, last, left, right = self.nodes[node]
            if feature < 0:
                found[rows] = last
                continue
            goes = codes[rows, feature] <= last
            waiting += [(left, rows[goes]), (right, rows[~goes])]
        return found

    def says(self, features: list[Feature], leaf: int) -> str:
        """Return what it means to be in a leaf."""
        limits = self._limits(features, leaf)
        return (
            " and ".join(features[feature].says(*limit) for feature, limit in limits.items()) or "any outcome"
        )

    def _limits(self, features: list[Feature], leaf: int) -> dict[int, tuple[int, int]]:
        waiting: list[tuple[int, dict[int, tuple[int, int]]]] = [(0, {})]
        while waiting:
            node, limits = waiting.pop()
            feature, last, left, right = self.nodes[node]
            if feature < 0:
                if last == leaf:
                    return limits
                continue
            # Each node on the way narrows the bins of its feature.
            low, high = limits.get(feature, (0, features[feature].size - 1))
            waiting += [
                (left, limits | {feature: (low, last)}),
                (right, limits | {feature: (last + 1, high)}),
            ]
        return {}


def grown(a: Codes, b: Codes) -> Tree:
    """Return the tree that separates the rows of `a` from those of `b`, the most telling split first."""
    codes = np.asfortranarray(np.concatenate([a, b]))
    second = np.arange(codes.shape[0]) >= a.shape[0]
    nodes: list[tuple[int, int, int, int]] = [(-1, 0, 0, 0)]
    rows = {0: np.arange(codes.shape[0])}
    splits = {0: _find_best_split(codes, second, rows[0])}
    leaves = 1
    while leaves < _MOST_LEAVES:
        # The most telling split comes first, because the number of leaves is limited.
        node = max(splits, key=lambda each: splits[each].gain)
        split = splits.pop(node)
        # A smaller gain may well be chance.
        if split.gain < _SMALLEST_GAIN:
            break
        goes = codes[rows[node], split.feature] <= split.last
        children = len(nodes), len(nodes) + 1
        for child, chosen in zip(children, (rows[node][goes], rows[node][~goes]), strict=True):
            nodes.append((-1, 0, 0, 0))
            rows[child] = chosen
            splits[child] = _find_best_split(codes, second, chosen)
        nodes[node] = (split.feature, split.last, *children)
        del rows[node]
        leaves += 1
    # What was never split is a leaf; leaves are numbered in the order of their nodes.
    numbers = iter(range(leaves))
    return Tree(tuple((-1, next(numbers), 0, 0) if node[0] < 0 else node for node in nodes), leaves)


def _find_best_split(codes: Codes, second: NDArray[np.bool_], rows: NDArray[np.int64]) -> _Split:
    """Return the split that raises the likelihood most."""
    best = _Split(0.0, -1, 0)
    if rows.size < 2 * _SMALLEST_LEAF:
        return best
    # Bins of the second sample are moved up by 256, so that one count does for both.
    side = second[rows].astype(np.int64) * 256
    for feature in range(codes.shape[1]):
        counts = np.bincount(codes[rows, feature] + side, minlength=512).reshape(2, 256)
        left = np.cumsum(counts, axis=1)
        whole = left[:, -1:]
        gains = _log_likelihood(left) + _log_likelihood(whole - left) - _log_likelihood(whole)
        sizes = left.sum(axis=0)
        # A side with few rows would fit their chance, not the law.
        gains[(sizes < _SMALLEST_LEAF) | (rows.size - sizes < _SMALLEST_LEAF)] = 0
        last = int(gains.argmax())
        if gains[last] > best.gain:
            best = _Split(float(gains[last]), feature, last)
    return best


def _log_likelihood(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the log likelihood of sides within leaves, shape (2, m) to (m,)."""
    total = counts.sum(axis=0)
    shares = np.log(np.maximum(counts, 1)) - np.log(np.maximum(total, 1))
    fitted: NDArray[np.float64] = (counts * shares).sum(axis=0)
    return fitted
