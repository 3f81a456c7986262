"""How likely a mechanism selects the best of made-up scores.

For comparing mechanisms before data are seen.

Claim: none about privacy; the probabilities are right to about a thousandth. Proof:
docs/proofs/choosing-a-selector.md, "Figures".
Floats: everything here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.mechanisms import (
    PermuteAndFlip,
    RandomizedResponse,
    SmoothSelection,
    SmoothStepSelection,
    StepSelection,
)
from sordino.mechanisms.smooth.step_atoms import DIGITS
from sordino.noise.generalized_cauchy import GeneralizedCauchy
from sordino.plan.designs import Design, Floats

_TAIL_NATS = 30.0
_TAIL_EDGES = np.linspace(0.0, _TAIL_NATS, 193)
_TAIL_PLACES: Floats = (_TAIL_EDGES[1:] + _TAIL_EDGES[:-1]) / 2
"""Places of a law, as minus the logarithms of the probability of more.

They reach far out: among many candidates the noise of the winner lies there.
"""
_TAIL_WEIGHTS: Floats = np.exp(-_TAIL_EDGES[:-1]) - np.exp(-_TAIL_EDGES[1:])
# Logarithms of noise in scales, at which heavy-tailed laws are inverted.
_LOG_GRID = np.linspace(-14.0, 20.0, 1 << 12)
# They are read off at floats of so many binary digits, from 2^-20 to 2^29: which ones a number lies
# between its own first bits say, and nothing is searched for.
_READ_DIGITS, _READ_FROM, _READ_TO = 10, -20, 29
_UNREAD_BITS = 52 - _READ_DIGITS
_BINS_PER_SCALE = 64
_FARTHEST_BIN = 1 << 20
_MOST_EXACT_DEPTHS = 1 << 10
_BLOCK_TERMS = 1 << 16
_CERTAIN_NATS = 40.0
_MOST_KEPT = 1 << 12
_NOTHING = 2.0**-50
"""What is left out of a logarithm of a probability, for each place."""
_MOST_NOISE_LEVELS = 1 << 16
"""Noise of more levels than that selects hardly better than by chance: it counts as never right."""


def _win_by_randomized_response(mechanism: RandomizedResponse, design: Design) -> Floats:
    m = design.candidates
    # Whether the largest score is the best: always, unless another statistic says which one is the
    # best.
    hits = design.scores.argmax(axis=1) == design.best
    truthful = mechanism.truthful(m)
    # Where the largest score is not the best, the best is one of the m - 1 others, which are all
    # equally likely.
    found: Floats = np.where(hits, truthful, 0.0 if m == 1 else (1 - truthful) / (m - 1))
    return found


def _win_by_permute_and_flip(mechanism: PermuteAndFlip, design: Design) -> Floats:
    # Permute-and-flip selects as a noisy maximum with exponential noise does.
    mean = float(
        mechanism.step / mechanism.noise.rate
    )  # exponential noise, as steps are far finer than it
    return _list_row_successes(
        design, _repeat(mean, design), _TAIL_PLACES, _TAIL_WEIGHTS, _log1mexp
    )


def _win_by_step_selection(mechanism: StepSelection, design: Design) -> Floats:
    rate, window = float(mechanism.noise.rate), float(mechanism.window * mechanism.step)
    levels, weights = _list_noise_levels(rate)
    below = _look_up(rate, lambda x: np.floor(x) + 1)
    return _list_row_successes(design, _repeat(window, design), levels, weights, below)


def _win_by_smooth_step_selection(mechanism: SmoothStepSelection, design: Design) -> Floats:
    rate = float(mechanism.rate)
    levels, weights = _list_noise_levels(rate)
    if levels[-1] > _MOST_NOISE_LEVELS:
        return np.zeros(len(design.scores))
    atoms = np.array(
        [float(height) for height in mechanism.heights(range(4 * int(levels[-1]) + 4))]
    ) / (1 << DIGITS)
    # ln P(noise <= x): the levels whose heights are at most x.
    below = _look_up(rate, lambda x: np.searchsorted(atoms, x, "right"))
    return _list_row_successes(
        design, _list_scales(mechanism, design), atoms[levels.astype(np.int64)], weights, below
    )


def _win_by_smooth_selection(mechanism: SmoothSelection, design: Design) -> Floats:
    design = design.some()
    heights, below = _read_law(mechanism.noise)
    scales = _list_scales(mechanism, design) / mechanism.alpha
    return _list_row_successes(design, scales, heights, _TAIL_WEIGHTS, below)


@lru_cache(maxsize=4)
def _read_law(noise: GeneralizedCauchy) -> tuple[Floats, Callable[[Floats], Floats]]:
    """Return a law at `_TAIL_PLACES`, and ln P(noise <= x) as lines between close places."""
    heights = np.exp(np.interp(_TAIL_PLACES, -np.log(noise.sf(np.exp(_LOG_GRID))), _LOG_GRID))
    first, last = np.array([2.0**_READ_FROM, 2.0**_READ_TO]).view(np.int64) >> _UNREAD_BITS
    z: Floats = (np.arange(first, last + 2) << _UNREAD_BITS).view(np.float64)
    more, less = noise.sf(z), noise.cdf(z)
    # Near 1 from the tail, which keeps its digits.
    known = np.where(less < 0.5, np.log(less), np.log1p(-np.minimum(more, 0.9)))
    slopes = np.diff(known) / np.diff(z)
    starts = known[:-1] - slopes * z[:-1]

    def below(x: Floats) -> Floats:
        inside = np.clip(x, z[0], z[-2])
        at = (inside.view(np.int64) >> _UNREAD_BITS) - first
        inside *= slopes[at]
        inside += starts[at]
        return inside

    return heights, below


def _look_up(rate: float, count: Callable[[Floats], Any]) -> Callable[[Floats], Floats]:
    """Return ln P(noise <= x) of noise that has so many levels at or below x."""
    # From there on floats know no difference to 0.
    most = math.ceil(_CERTAIN_NATS / rate)
    if most > _MOST_KEPT:
        return lambda x: _log1mexp(rate * count(x))
    known = _log1mexp(rate * np.arange(most + 1, dtype=np.float64))
    return lambda x: known[np.minimum(count(x), most).astype(np.int64)]


def _repeat(scale: float, design: Design) -> Floats:
    return np.full(len(design.scores), scale)


def _list_scales(mechanism: Any, design: Design) -> Floats:
    """Return the scale of each row, as the mechanism takes a bound that it is handed."""
    if design.bounds is None:
        return _repeat(float(mechanism.ceiling), design)
    found: Floats = np.clip(design.bounds, float(mechanism.floor), float(mechanism.ceiling))
    return found


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


def _list_row_successes(
    design: Design,
    scales: Floats,
    heights: Floats,
    weights: Floats,
    log_below: Callable[[Floats], Floats],
) -> Floats:
    """Return for each row the probability that all others stay below the best, over its heights."""
    if 1 < design.scores.shape[1] <= _MOST_EXACT_DEPTHS + 1:
        # Rows of one length, all at once.
        depths, counts = _keep_near(*_stack_depths(design, scales), log_below)
        several = max(1, _BLOCK_TERMS // (counts.size * heights.size))
        rows = [
            (depths[start : start + several], counts) for start in range(0, len(depths), several)
        ]
    else:
        rows = [_list_depths(design, i, float(scales[i])) for i in range(len(design.scores))]
    found = list[Floats]()
    for depths, counts in rows:
        block = max(1, _BLOCK_TERMS // depths.size)
        chance, ahead = np.zeros(depths.shape[:-1]), bool((depths >= 0).all())
        # In blocks, so that the arrays stay small.
        for start in range(0, heights.size, block):
            part = slice(start, start + block)
            reach = depths[..., None, :] + heights[part][:, None]
            # All others stay below: a product over them, so a sum of logarithms. Noise is never
            # negative, so what lies farther ahead than the noise of the best stays ahead.
            logs = (log_below(reach) if ahead else _stay_below(reach, log_below)) @ counts
            chance = chance + np.exp(logs) @ weights[part]
        found.append(np.atleast_1d(chance))
    return np.concatenate(found)


def _stay_below(reach: Floats, log_below: Callable[[Floats], Floats]) -> Floats:
    found: Floats = np.where(reach >= 0, log_below(np.maximum(reach, 0.0)), -np.inf)
    return found


def _stack_depths(design: Design, scales: Floats) -> tuple[Floats, Floats]:
    """Return how far others lie below the best of each row, in scales, and how many lie there."""
    several, w = design.scores.shape
    ahead = np.take_along_axis(design.scores, design.best[:, None], axis=1)
    if design.best.any():
        others = design.scores[np.arange(w) != design.best[:, None]].reshape(several, w - 1)
    else:
        others = design.scores[:, 1:]
    with np.errstate(over="ignore"):
        depths = (ahead - others) / scales[:, None]
    if design.counts is not None:
        return depths, np.delete(design.counts, design.best[0])
    # Each stands for one, so they may change places: near ones first.
    if (depths[:, 1:] < depths[:, :-1]).any():
        depths = np.sort(depths, axis=1)
    return depths, np.ones(w - 1)


def _keep_near(
    depths: Floats, counts: Floats, log_below: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Return the places of those that may overtake the best one in some row.

    Noise is never negative.
    """
    lost = -log_below(np.maximum(depths, 0.0)) * counts
    near = np.array((lost > _NOTHING).any(axis=0))
    # One stays, so that there is a place to look at.
    near[0] = True
    return depths[:, near], counts[near]


def _list_depths(design: Design, row: int, scale: float) -> tuple[Floats, Floats]:
    """Return how far the others lie below the best one, in scales, and how many lie there.

    Of many candidates it says only about how far.
    """
    scores, best = design.scores[row], int(design.best[row])
    if scores.size == 1:
        return np.zeros(1), np.zeros(1)
    with np.errstate(over="ignore"):
        depths = (scores[best] - np.delete(scores, best)) / scale
    standing = np.ones(depths.size) if design.counts is None else np.delete(design.counts, best)
    if depths.size <= _MOST_EXACT_DEPTHS:
        return depths, standing
    # Of many candidates depths are counted in bins of 1/64 of a scale, which is enough for a figure
    # right to a thousandth.
    first = max(float(depths.min()), -float(_FARTHEST_BIN))
    counts = np.bincount(
        np.minimum((np.maximum(depths, first) - first) * _BINS_PER_SCALE, _FARTHEST_BIN).astype(
            np.int64
        ),
        weights=standing,
    ).astype(np.float64)
    bins = np.flatnonzero(counts)
    return first + (bins + 0.5) / _BINS_PER_SCALE, counts[bins]


_WINNING: dict[type, Callable[[Any, Design], Floats]] = {
    RandomizedResponse: _win_by_randomized_response,
    PermuteAndFlip: _win_by_permute_and_flip,
    StepSelection: _win_by_step_selection,
    SmoothStepSelection: _win_by_smooth_step_selection,
    SmoothSelection: _win_by_smooth_selection,
}
"""For each mechanism how likely it selects the best of each row."""


def winning(mechanism: Any, design: Design) -> float:
    """Return the probability that the best is selected, on average over the rows.

    Raises
    ------
    InvalidParameter
        If the mechanism is none that is compared.
    """
    return float(winning_rows(mechanism, design).mean())


def winning_rows(mechanism: Any, design: Design) -> Floats:
    """Return for each row the probability that its best is selected.

    Of some mechanisms the first rows only.

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
