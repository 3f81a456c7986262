"""What a sparse vector decides: which noisy answers reach the noisy threshold, in their order, until there are enough.

Claim: for the same noise, `crossings` and the fold of `step` give the same transcript. Proof: docs/proofs/sparse-vector.md.
Noise: one draw for each threshold, drawn when its first question is asked; one for each question; none serves twice.
Floats: none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.grid import Steps, add
from sordino.mechanisms._ahead import Ahead, Sampler

_BLOCK = 1 << 16
_WINDOW = 1 << 10  # with a new threshold after each positive, so many are searched first
_AHEAD = 1 << 12
_FAR = 1 << 60


class State(NamedTuple):
    """What a sparse vector remembers between two questions. `threshold` is private, the counts follow from the outputs."""

    left: int
    """How many positives may still come."""
    threshold: int | None = None
    """Noise of the threshold; None if the next question draws it."""
    stages: int = 0
    """How many thresholds were drawn: each is paid for once a question has met it."""


def step(state: State, noisy: int, *, resample: bool) -> tuple[State, int | None]:
    """Return what follows one question: the state, and how far its noisy value lies above the noisy threshold (None: below).

    `noisy` is answer plus noise less the public threshold, in steps; the state has a threshold and positives left.
    """
    lift = noisy - (state.threshold or 0)
    if lift < 0:
        return state, None
    return State(state.left - 1, None if resample else state.threshold, state.stages), lift


def decide(noisy: Steps, threshold: int, most: int) -> NDArray[np.intp]:
    """Return where the first `most` noisy values stand that reach the noisy threshold."""
    return np.flatnonzero(noisy >= threshold)[:most]


def lifted(noisy: Steps, threshold: int) -> Steps:
    """Return how far noisy values lie above the noisy threshold, exactly: Python integers where 64 bits might not do."""
    return noisy - threshold if noisy.dtype != object and abs(threshold) < _FAR else noisy.astype(object) - threshold


@final
@dataclass(frozen=True, eq=False)
class Transcript:
    """The positives in the order found, shape (t,) each: place, lift in steps and pass; how many were asked, with how many thresholds."""

    places: NDArray[np.int64]
    lifts: Steps
    passes: NDArray[np.int64]
    asked: int
    stages: int

    @classmethod
    def of(cls, found: list[tuple[NDArray[np.int64], Steps, int]], asked: int, stages: int) -> Transcript:
        """Put together what was found, part by part: places, lifts, pass."""
        none = np.zeros(0, dtype=np.int64)
        return cls(
            places=np.concatenate([none, *(places for places, _, _ in found)]),
            lifts=np.concatenate([none, *(lifts for _, lifts, _ in found)]),
            passes=np.repeat([number for *_, number in found], [places.size for places, *_ in found]).astype(np.int64),
            asked=asked,
            stages=stages,
        )


def crossings(
    heights: NDArray[np.int64],
    *,
    thresholds: Sampler,
    queries: Sampler,
    positives: int,
    resample: bool,
    passes: int,
    entropy: Entropy,
) -> Transcript:
    """Ask all answers in order, in later passes those that were below, until enough are found.

    Parameters
    ----------
    heights : array of int, shape (n,)
        Answers less their public thresholds, in steps.
    thresholds, queries : Sampler
        The noise of thresholds and of questions, in steps.
    positives, passes : int
        After so many positives, or so many passes, it stops.
    resample : bool
        Whether each positive is followed by a new threshold.
    """
    found: list[tuple[NDArray[np.int64], Steps, int]] = []
    left, asked, stages = positives, 0, 0
    drawn, threshold = Ahead(thresholds, entropy, 1, min(positives, _AHEAD)), None
    waiting = np.arange(heights.size)
    for number in range(1, passes + 1):
        rest = heights if number == 1 else heights[waiting]
        fired: list[NDArray[np.int64]] = []
        for start in range(0, rest.size, _BLOCK):
            block = rest[start : start + _BLOCK]
            noisy = add(block, queries.sample(block.size, entropy))
            at, window = 0, _WINDOW if resample else _BLOCK
            while left and at < block.size:
                if threshold is None:
                    threshold, stages = drawn.take(), stages + 1
                hits = at + decide(noisy[at : at + window], threshold, 1 if resample else left)
                found.append((waiting[start + hits], lifted(noisy[hits], threshold), number))
                fired.append(start + hits)
                left -= hits.size
                if hits.size and (resample or not left):
                    at, window, threshold = int(hits[-1]) + 1, _WINDOW, None
                else:
                    at, window = min(at + window, block.size), 2 * window
            asked += at
            if not left:
                drawn.wipe()
                return Transcript.of(found, asked, stages)
        if number < passes:
            waiting = np.delete(waiting, np.concatenate([np.zeros(0, dtype=np.int64), *fired]))
        if not waiting.size:
            break
    drawn.wipe()
    return Transcript.of(found, asked, stages)
