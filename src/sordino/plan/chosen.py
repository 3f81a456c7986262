"""How often a noisy choice names the right ones, of made-up counts: simulated, for planning.

Claim: none about privacy. Probabilities are estimates with the standard error that they carry; of
very many counts those far down are taken in bins, which moves an estimate by less than that. Noise:
of the law itself, inverted at uniform numbers from a seed, in floats. Floats: everything here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Seeded

Floats = NDArray[np.float64]

RUNS = 400
"""How often a choice is simulated; the standard error is then 0.025 at most."""
_SINGLE = 192
"""Counts behind the k largest that are looked at one by one; those beyond are taken in bins."""
_BINS = 48
_PLACES = 2048
"""At so many places on each side of 0 a tail is known exactly, and at as many far out."""
_FARTHEST, _NOTHING = 1e-15, 1e-300


@final
@dataclass(frozen=True)
class Chances:
    """What came of simulated choices.

    Attributes
    ----------
    right : float
        Share of the runs in which all that was named is right and nothing is missing.
    share : float
        Share of the right ones that was named, on average.
    wrong : float
        How many wrong ones were named, on average.
    runs : int
        How many there were.
    """

    right: float
    share: float
    wrong: float
    runs: int

    @property
    def error(self) -> float:
        """Standard error of `right`; of a run of successes that of one failure more."""
        # Laplace's rule of succession: never 0, however the runs came out.
        chance = (self.right * self.runs + 1) / (self.runs + 2)
        return math.sqrt(chance * (1 - chance) / self.runs)


def simulate_top(
    counts: NDArray[Any],
    k: int,
    law: Any,
    step: float,
    *,
    floor: float | None = None,
    runs: int = RUNS,
) -> Chances:
    """Simulate the choice of the k largest noisy counts, each with noise of its own.

    Parameters
    ----------
    counts : array of numbers, shape (n,)
        Made-up or public counts, in any order.
    k : int
        How many are named.
    law : Law
        Of the noise on each, in steps.
    step : float
        Of the grid, in the unit of the counts.
    floor : float, optional
        Only noisy counts that reach it are named.
    runs : int
        How often.
    """
    # Whole numbers are sorted as such, which is far quicker where there are very many.
    ordered = np.sort(np.asarray(counts))[::-1].astype(np.float64)
    k = min(k, ordered.size)
    # Whatever is at least as large as the k-th is right: equal counts are as good as each other.
    least = ordered[k - 1]
    values, right = _draw_largest(ordered, k, InverseTail(law), step, runs, least)
    if floor is not None:
        # A noisy count is a whole number of steps, at or above where its place lies.
        values = np.where(np.ceil(values / step) * step >= floor, values, -math.inf)
        # Those above the floor are to be named, at most k of them.
        right = right & _reaches(ordered, k, floor, values.shape[1], right)
    if values.shape[1] > k:
        # What is named in each run.
        order = np.argpartition(values, -k, axis=1)[:, -k:]
        hits = right[order]
        named = np.take_along_axis(values, order, axis=1) > -math.inf
    else:
        hits, named = np.broadcast_to(right, values.shape), values > -math.inf
    wanted = k if floor is None else min(k, int((ordered >= floor).sum()))
    found = (hits & named).sum(axis=1)
    wrong = (named & ~hits).sum(axis=1)
    return Chances(
        right=float(((found >= wanted) & (wrong == 0)).mean()),
        share=float(np.minimum(found, wanted).mean() / wanted) if wanted else 1.0,
        wrong=float(wrong.mean()),
        runs=runs,
    )


def _reaches(ordered: Floats, k: int, floor: float, width: int, right: NDArray[np.bool_]) -> Any:
    """Return which columns belong to counts that reach the floor."""
    reach = np.zeros(width, dtype=bool)
    single = min(ordered.size, k + _SINGLE)
    reach[:single] = ordered[:single] >= floor
    # Bins stand behind; they hold what lies below the k-th, or equals it.
    reach[single:] = right[single:] & (ordered[k - 1] >= floor)
    return reach


def _draw_largest(
    ordered: Floats, k: int, tail: InverseTail, step: float, runs: int, least: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return noisy counts with the k largest of all, shape (runs, m), and which are right."""
    single = min(ordered.size, k + _SINGLE)
    uniform = _Uniform(single)
    columns = [ordered[:single] + step * tail.invert(uniform.draw(runs, single))]
    right = [ordered[:single] >= least]
    for mean, size in _list_bins(ordered[single:], tail, step):
        # Of so many equal counts only the largest can be among the k: order statistics from the
        # top.
        among = min(k, size)
        left = size - np.arange(among, dtype=np.float64)
        logs = np.cumsum(np.log(uniform.draw(runs, among)) / left, axis=1)
        columns.append(mean + step * tail.invert(-np.expm1(logs)))
        right.append(np.full(among, mean >= least))
    return np.concatenate(columns, axis=1), np.concatenate(right)


def _list_bins(rest: Floats, tail: InverseTail, step: float) -> list[tuple[float, int]]:
    """Return falling counts in bins, each with its size: equal ones, or ranks close together."""
    if not rest.size:
        return []
    # They are sorted: equal ones stand side by side.
    starts = np.append(0, np.flatnonzero(np.diff(rest)) + 1)
    if starts.size <= _BINS:
        sizes = np.diff(starts, append=rest.size)
        return list(zip(rest[starts].tolist(), sizes.tolist(), strict=True))
    edges = np.unique(np.geomspace(1, rest.size + 1, _BINS + 1).astype(np.int64)) - 1
    bins = []
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = rest[start:end]
        # How far the largest noise of a bin reaches is decided by where tails add up, not by the
        # mean.
        scale = tail.scale * step
        shift = part[0]
        bins.append(
            (float(shift + scale * math.log(np.exp((part - shift) / scale).mean())), end - start)
        )
    return bins


@final
class InverseTail:
    """Inverts the tail of a law: from the probability of more to the noise, in steps.

    A number x stands for a place in (x - 1, x]: where in it says who wins a tie.
    """

    def __init__(self, law: Any) -> None:
        self.scale = max(math.sqrt(law.variance), 1e-9)
        self._rate = float(law.rate) if law.name == "gumbel" else None
        if self._rate is not None:
            return
        low, high = int(law.quantile(1e-12)), _find_far_count(law)
        # Where noise has very many steps, between some of these its tail is nearly straight in
        # logarithms.
        reach = np.unique(np.geomspace(1, max(high, -low) + 1, _PLACES).astype(np.int64))
        places = np.unique(np.concatenate([-reach, [0], reach, np.arange(-_PLACES, _PLACES)]))
        places = places[(places >= low - 1) & (places <= high)]
        with np.errstate(divide="ignore", under="ignore"):
            tails = np.maximum(np.asarray(law.sf(places), dtype=np.float64), _NOTHING)
        self._places = places.astype(np.float64)
        self._depths = -np.log(tails)

    def invert(self, tails: Floats) -> Floats:
        """Return the noise of which so much probability lies at it or above, each in (0, 1]."""
        if self._rate is not None:
            # Continuous, and in closed form.
            return -np.log(-np.log1p(-np.minimum(tails, 1 - 1e-16))) / self._rate
        depths = -np.log(np.maximum(tails, _NOTHING))
        return np.interp(depths, self._depths, self._places)


def _find_far_count(law: Any) -> int:
    """Return a noise that hardly any draw exceeds."""
    high = max(1, int(law.quantile(1 - 1e-6)))
    while float(law.sf(np.array([high]))[0]) > _FARTHEST:
        high *= 2
    return high


@final
class _Uniform:
    """Uniform numbers in (0, 1] from a seed; the same in each plan, so plans can be compared."""

    def __init__(self, seed: int) -> None:
        self._entropy = Seeded(seed)

    def draw(self, runs: int, size: int) -> Floats:
        """Return so many, shape (runs, size)."""
        words = self._entropy.words(runs * size)
        return ((words >> np.uint64(11)).astype(np.float64) + 1).reshape(runs, size) / (1 << 53)
