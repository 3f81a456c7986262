"""Chooses the events that are tested: likely for one box, unlikely for the other.

Claim: none. Whatever is chosen here, the test that follows on other runs is right about it; a bad
choice costs power only.

A tree that splits bins of features where two samples differ most.

Its leaves estimate the likelihood ratio.

Claim: none; a tree is fixed before the runs on which its leaves are tested are looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from sordino_audit.black_boxes.features import Codes, Feature, Numeric

# ---- tree ----------------------------------------------------------------------------------------


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
            " and ".join(features[feature].says(*limit) for feature, limit in limits.items())
            or "any outcome"
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
    """Return the tree that separates rows of `a` from rows of `b`, the most telling split first."""
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


Counts = NDArray[np.float64]

_MOST_SCREENED_RANGES, _MOST_BARS = 40, 48


class BoxEvent(Protocol):
    """A set of outcomes."""

    def hits(self, codes: Codes) -> int:
        """Return how many rows are in it."""
        ...


@final
@dataclass(frozen=True)
class BinRange:
    """The outcomes with a feature in bins `low` to `high`."""

    feature: int
    low: int
    high: int

    def hits(self, codes: Codes) -> int:
        """Return how many rows are in it."""
        column = codes[:, self.feature]
        return int(((column >= self.low) & (column <= self.high)).sum())


@final
@dataclass(frozen=True)
class Leaves:
    """The outcomes in some leaves of a tree."""

    tree: Tree
    chosen: tuple[int, ...]

    def hits(self, codes: Codes) -> int:
        """Return how many rows are in it."""
        return int(
            np.bincount(self.tree.leaf(codes), minlength=self.tree.leaves)[list(self.chosen)].sum()
        )


@final
@dataclass(frozen=True)
class EventQuestion:
    """What is asked of an event: its log ratio beyond `delta`, or its hockey stick at `epsilon`.

    The log ratio is asked for if `epsilon` is None.

    Attributes
    ----------
    epsilon, delta : float
        As above.
    runs : int
        On how many runs of each box it will be tested.
    width : float
        How many standard errors the test will leave on each side.
    """

    epsilon: float | None
    delta: float
    runs: int
    width: float

    def worth(self, more: Counts, fewer: Counts, runs: int) -> Counts:
        """Return about what a test will say of events, by Wilson's intervals.

        The events have so many hits in `runs` runs of each box.
        """
        # The shares of the runs at hand stand for those of the runs that will be tested.
        low = self._ends(more / runs)[0]
        high = self._ends(fewer / runs)[1]
        if self.epsilon is not None:
            # Low less e^epsilon times high: what the test will say of delta.
            worth: Counts = low - math.exp(self.epsilon) * high
            return worth
        # An event that is too rare beside delta shows nothing: it gets a very low worth, and no
        # error.
        with np.errstate(divide="ignore"):
            logs: Counts = np.log(np.maximum(low - self.delta, 1e-300) / high)
            return logs

    def _ends(self, share: Counts) -> tuple[Counts, Counts]:
        square = self.width**2
        middle = share * self.runs + square / 2
        half = self.width * np.sqrt(share * (1 - share) * self.runs + square / 4)
        return (middle - half) / (self.runs + square), (middle + half) / (self.runs + square)


@final
@dataclass(frozen=True, eq=False)
class Chosen:
    """An event and the box (0 or 1) for which it is more likely."""

    event: BinRange | Leaves
    more: int


@final
class Chooser:
    """Learns events on some runs of both boxes, and chooses among them on others.

    There may be fewer rows than `runs`.
    """

    def __init__(
        self,
        features: list[Feature],
        learn: tuple[Codes, Codes],
        choose: tuple[Codes, Codes],
        *,
        runs: tuple[int, int],
    ) -> None:
        self.features = features
        self._runs = runs
        self._learn, self._choose = learn, choose
        # The tree is grown on the first runs only; its leaves are chosen on others.
        self.tree = grown(*learn)
        leaf = [
            np.bincount(self.tree.leaf(codes), minlength=self.tree.leaves)
            for codes in (*learn, *choose)
        ]
        self._learned_leaves, self._chosen_leaves = leaf[:2], leaf[2:]

    def best(self, question: EventQuestion) -> tuple[Chosen, float]:
        """Return the event that promises most, and what it promises."""
        found: list[tuple[float, int, Chosen]] = []
        for more in (0, 1):
            for event, worth in [*self._ranges(question, more), *self._unions(question, more)]:
                found.append((worth, -len(found), Chosen(event, more)))
        # Of events of equal worth the first one is taken, so that an audit can be repeated.
        worth, _, chosen = max(found, key=lambda each: each[:2])
        return chosen, worth

    def _ranges(self, question: EventQuestion, more: int) -> list[tuple[BinRange | Leaves, float]]:
        """Return the ranges of single features that look best on the learned runs.

        Each comes with its worth on the other runs.
        """
        ranges, worths = [], []
        for feature in range(len(self.features)):
            counts = [np.bincount(codes[:, feature], minlength=256) for codes in self._learn]
            size = self.features[feature].size
            # Bin 0 is a missing number, or anything else: ranges are tried with it and without it.
            listed = [BinRange(feature, 1, i) for i in range(1, size - 1)] + [
                BinRange(feature, i, size - 1) for i in range(1, size)
            ]
            listed += [BinRange(feature, 0, i) for i in range(size - 1)] + [
                BinRange(feature, i, i) for i in range(size)
            ]
            # With sums up to each bin the hits of every range are one difference.
            sums = [np.concatenate([[0], np.cumsum(side)]) for side in counts]
            low, high = np.array([(each.low, each.high + 1) for each in listed]).T
            hits = [(side[high] - side[low]).astype(np.float64) for side in sums]
            ranges += listed
            worths.append(question.worth(hits[more], hits[1 - more], self._runs[0]))
        # A range looks good where it was found: the best ones are judged again, on other runs.
        order = np.argsort(-np.concatenate(worths), kind="stable")[:_MOST_SCREENED_RANGES]
        chosen = [ranges[i] for i in order.tolist()]
        hits = [
            np.array([each.hits(codes) for each in chosen], dtype=np.float64)
            for codes in self._choose
        ]
        judged = question.worth(hits[more], hits[1 - more], self._runs[1])
        return list(zip(chosen, judged.tolist(), strict=True))

    def _unions(self, question: EventQuestion, more: int) -> list[tuple[BinRange | Leaves, float]]:
        """Return the most telling leaves, one more each time.

        Each union comes with its worth on the runs that the tree has not seen.
        """
        # Half a hit more on both sides: a leaf with few hits must not have an infinite ratio.
        ratio = (self._learned_leaves[more] + 0.5) / (self._learned_leaves[1 - more] + 0.5)
        order = np.argsort(-ratio, kind="stable")
        # Sums in the order of the ratio: each union has one leaf more, the next best one.
        hits = [np.cumsum(side[order]).astype(np.float64) for side in self._chosen_leaves]
        judged = question.worth(hits[more], hits[1 - more], self._runs[1])
        listed = order.tolist()
        return [
            (Leaves(self.tree, tuple(listed[: i + 1])), worth)
            for i, worth in enumerate(judged.tolist())
        ]

    def says(self, event: BinRange | Leaves) -> str:
        """Return the event in words."""
        if isinstance(event, BinRange):
            return self.features[event.feature].says(event.low, event.high)
        first = self.tree.says(self.features, event.chosen[0])
        return (
            first
            if len(event.chosen) == 1
            else f"{first}, or {len(event.chosen) - 1} more such regions"
        )

    def bars(
        self, event: BinRange | Leaves, tested: tuple[Codes, Codes]
    ) -> list[tuple[str, int, int]]:
        """Return a partition of all outcomes around the event.

        Each part is given in words, with its hits in both samples.
        """
        if isinstance(event, BinRange):
            feature = self.features[event.feature]
            counts = [
                np.bincount(codes[:, event.feature], minlength=feature.size) for codes in tested
            ]
            # Empty bins have no bar.
            some = [i for i in range(feature.size) if counts[0][i] + counts[1][i]]
            # Neighboring bins of a number can be drawn as one bar; named bins have no neighbors.
            step = -(-len(some) // _MOST_BARS) if isinstance(feature, Numeric) else 1
            groups = [some[i : i + step] for i in range(0, len(some), step)]
            words = [feature.says(group[0], group[-1]) for group in groups]
        else:
            counts = [
                np.bincount(self.tree.leaf(codes), minlength=self.tree.leaves) for codes in tested
            ]
            groups = [[leaf] for leaf in event.chosen] + [
                [i] for i in range(self.tree.leaves) if i not in event.chosen
            ]
            words = [self.tree.says(self.features, group[0]) for group in groups]
        return [
            (word, *(int(side[group].sum()) for side in counts))  # type: ignore[misc]
            for word, group in zip(words, groups, strict=True)
        ]
