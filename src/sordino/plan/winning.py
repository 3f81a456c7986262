"""How likely a mechanism selects the best of made-up scores: for comparing mechanisms before data are seen.

Claim: none about privacy; the probabilities are right to about a thousandth. Proof:
docs/proofs/choosing-a-selector.md, "Figures".
Floats: everything here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import shown
from sordino.entropy import Seeded
from sordino.errors import InvalidParameter
from sordino.mechanisms import (
    PermuteAndFlip,
    RandomizedResponse,
    SmoothSelection,
    SmoothStepSelection,
    StepSelection,
)
from sordino.mechanisms.smooth.step_atoms import DIGITS

Floats = NDArray[np.float64]

_TAIL_NATS = 30.0
_TAIL_EDGES = np.linspace(0.0, _TAIL_NATS, 193)
_TAIL_PLACES: Floats = (_TAIL_EDGES[1:] + _TAIL_EDGES[:-1]) / 2
"""Places of a law, as minus the logarithms of the probability of more.

They reach far out: among many candidates the noise of the winner lies there.
"""
_TAIL_WEIGHTS: Floats = np.exp(-_TAIL_EDGES[:-1]) - np.exp(-_TAIL_EDGES[1:])
# Logarithms of noise in scales, at which heavy-tailed laws are read off.
_LOG_GRID = np.linspace(-14.0, 20.0, 1 << 12)
_DESIGN_SCORES = 1 << 13
"""About how many scores a design has, in all rows."""
_BINS_PER_SCALE = 64
_FARTHEST_BIN = 1 << 20
_MOST_EXACT_DEPTHS = 1 << 10
_ONE_ROW_SIZE = 1 << 17
_BLOCK_TERMS = 1 << 16
_FIRST_ROWS = 128
_DESIGN_SEED = 20241122
_MOST_NOISE_LEVELS = 1 << 16
"""Noise of more levels than that selects hardly better than by chance: it counts as never right."""


@dataclass(frozen=True)
class Design:
    """Made-up data, nothing of which is private.

    Attributes
    ----------
    scores : array of float, shape (rows, m)
        What is selected from.
    best : array of int, shape (rows,)
        The position that should be selected.
    bounds : array of float, shape (rows,), or None
        Smooth bounds that go with the scores.
    """

    scores: Floats
    best: NDArray[np.int64]
    bounds: Floats | None = None

    def some(self) -> Design:
        """Return the first rows, where all would take long."""
        return Design(
            self.scores[:_FIRST_ROWS],
            self.best[:_FIRST_ROWS],
            None if self.bounds is None else self.bounds[:_FIRST_ROWS],
        )


def rows_for(m: int) -> int:
    """Return how many rows a design of m scores has."""
    # About as many scores for every m, so that all designs take about as long.
    return max(2 if m < _ONE_ROW_SIZE else 1, min(512, _DESIGN_SCORES // m))


def noise_alone(m: int) -> Design:
    """Return the |z| of m tests without any effect: magnitudes of normal numbers, the same ones each time."""
    # Always the same seed: equal inputs give equal choices.
    rows, entropy = rows_for(m), Seeded(_DESIGN_SEED)
    scores = np.abs(normal(rows * m, entropy)).reshape(rows, m)
    return Design(scores, scores.argmax(axis=1))


def normal(n: int, entropy: Seeded) -> Floats:
    """Return `n` standard normal numbers."""
    # Above 0, so that the logarithm is finite. Two uniform numbers make a normal one (Box and Muller).
    u = (entropy.words(2 * n).astype(np.float64) + 0.5) * 2.0**-64
    found: Floats = np.sqrt(-2 * np.log(u[:n])) * np.cos(2 * math.pi * u[n:])
    return found


def _win_by_randomized_response(mechanism: RandomizedResponse, design: Design) -> float:
    m = design.scores.shape[1]
    # How often the largest score is the best: always, unless another statistic says which one is the best.
    hits = float((design.scores.argmax(axis=1) == design.best).mean())
    truthful = mechanism.truthful(m)
    # Where the largest score is not the best, the best is one of the m - 1 others, which are all equally
    # likely.
    return hits * truthful + (0.0 if m == 1 else (1 - hits) * (1 - truthful) / (m - 1))


def _win_by_permute_and_flip(mechanism: PermuteAndFlip, design: Design) -> float:
    # Permute-and-flip selects as a noisy maximum with exponential noise does.
    mean = float(mechanism.step / mechanism.noise.rate)  # exponential noise, as steps are far finer than it
    return _average_success(design, lambda _: mean, _TAIL_PLACES, _TAIL_WEIGHTS, _log1mexp)


def _win_by_step_selection(mechanism: StepSelection, design: Design) -> float:
    rate, window = float(mechanism.noise.rate), float(mechanism.window * mechanism.step)
    levels, weights = _list_noise_levels(rate)
    return _average_success(
        design, lambda _: window, levels, weights, lambda x: _log1mexp(rate * (np.floor(x) + 1))
    )


def _win_by_smooth_step_selection(mechanism: SmoothStepSelection, design: Design) -> float:
    rate = float(mechanism.rate)
    levels, weights = _list_noise_levels(rate)
    if levels[-1] > _MOST_NOISE_LEVELS:
        return 0.0
    atoms = np.array([float(height) for height in mechanism.heights(range(4 * int(levels[-1]) + 4))]) / (
        1 << DIGITS
    )
    # ln P(noise <= x): the levels whose heights are at most x.
    below = lambda x: _log1mexp(rate * np.searchsorted(atoms, x, "right"))  # noqa: E731
    return _average_success(
        design, lambda i: _row_scale(mechanism, design, i), atoms[levels.astype(np.int64)], weights, below
    )


def _win_by_smooth_selection(mechanism: SmoothSelection, design: Design) -> float:
    design = design.some()
    z = np.exp(_LOG_GRID)
    more, less = mechanism.noise.sf(z), mechanism.noise.cdf(z)
    # The tail, inverted at the places of `_TAIL_PLACES`.
    heights = np.exp(np.interp(_TAIL_PLACES, -np.log(more), _LOG_GRID))
    # The logarithm of the distribution function: near 1 from the tail, which keeps its digits.
    known = np.where(less < 0.5, np.log(less), np.log1p(-np.minimum(more, 0.9)))
    below = lambda x: np.interp(np.log(np.maximum(x, z[0])), _LOG_GRID, known)  # noqa: E731
    return _average_success(
        design, lambda i: _row_scale(mechanism, design, i) / mechanism.alpha, heights, _TAIL_WEIGHTS, below
    )


def _row_scale(mechanism: Any, design: Design, row: int) -> float:
    if design.bounds is None:
        return float(mechanism.ceiling)
    # As the mechanism does with a bound that it is handed.
    return min(max(float(design.bounds[row]), float(mechanism.floor)), float(mechanism.ceiling))


def _log1mexp(x: Any) -> Floats:
    """Return ln(1 - e^-x), x >= 0."""
    with np.errstate(divide="ignore"):
        found: Floats = np.log(-np.expm1(-x))
    return found


def _list_noise_levels(rate: float) -> tuple[Floats, Floats]:
    """Return geometric levels with their probabilities.

    Of very many levels only some, each of which stands for those around it.
    """
    # Beyond the last level there is less than e^-30 of the probability.
    last = math.ceil(_TAIL_NATS / rate)
    if last > _TAIL_PLACES.size:
        return np.floor(_TAIL_PLACES / rate), _TAIL_WEIGHTS
    levels = np.arange(last, dtype=np.float64)
    return levels, -math.expm1(-rate) * np.exp(-rate * levels)


def _average_success(
    design: Design,
    scale: Callable[[int], float],
    heights: Floats,
    weights: Floats,
    log_below: Callable[[Floats], Floats],
) -> float:
    """Return the probability that all others stay below the best one, averaged over rows and its heights."""
    rows, total = [_list_depths(design, i, scale(i)) for i in range(len(design.scores))], 0.0
    if design.scores.shape[1] - 1 <= _MOST_EXACT_DEPTHS:  # rows of one length, all at once
        several = max(1, _BLOCK_TERMS // (rows[0][0].size * heights.size))
        stacked = np.stack([depths for depths, _ in rows])
        rows = [(stacked[start : start + several], rows[0][1]) for start in range(0, len(stacked), several)]
    for depths, counts in rows:
        block = max(1, _BLOCK_TERMS // depths.size)
        # In blocks, so that the arrays stay small.
        for start in range(0, heights.size, block):
            part = slice(start, start + block)
            reach = depths[..., None, :] + heights[part][:, None]
            # All others stay below: a product over them, so a sum of logarithms. Noise is never negative, so
            # what lies farther ahead than the noise of the best stays ahead.
            logs = np.where(reach >= 0, log_below(np.maximum(reach, 0.0)), -np.inf) @ counts
            total += float((np.exp(logs) @ weights[part]).sum())
    return total / len(design.scores)


def _list_depths(design: Design, row: int, scale: float) -> tuple[Floats, Floats]:
    """Return how far the others lie below the best one, in scales, and how many lie there.

    Of many candidates it says only about how far.
    """
    scores, best = design.scores[row], int(design.best[row])
    if scores.size == 1:
        return np.zeros(1), np.zeros(1)
    with np.errstate(over="ignore"):
        depths = (scores[best] - np.delete(scores, best)) / scale
    if depths.size <= _MOST_EXACT_DEPTHS:
        return depths, np.ones(depths.size)
    # Of many candidates depths are counted in bins of 1/64 of a scale, which is enough for a figure right to
    # a thousandth.
    first = max(float(depths.min()), -float(_FARTHEST_BIN))
    counts = np.bincount(
        np.minimum((np.maximum(depths, first) - first) * _BINS_PER_SCALE, _FARTHEST_BIN).astype(np.int64)
    )
    bins = np.flatnonzero(counts)
    return first + (bins + 0.5) / _BINS_PER_SCALE, counts[bins].astype(np.float64)


_WINNING: dict[type, Callable[[Any, Design], float]] = {
    RandomizedResponse: _win_by_randomized_response,
    PermuteAndFlip: _win_by_permute_and_flip,
    StepSelection: _win_by_step_selection,
    SmoothStepSelection: _win_by_smooth_step_selection,
    SmoothSelection: _win_by_smooth_selection,
}
"""For each mechanism how likely it selects the best."""


def winning(mechanism: Any, design: Design) -> float:
    """Return the probability that the best is selected, on average over the rows.

    Raises
    ------
    InvalidParameter
        If the mechanism is none that is compared.
    """
    chance = _WINNING.get(type(mechanism))
    if chance is None:
        raise InvalidParameter(
            "plan.choose_selector compares RandomizedResponse, PermuteAndFlip, StepSelection, "
            f"SmoothStepSelection and SmoothSelection; got {shown(mechanism)}."
        )
    return chance(mechanism, design)
