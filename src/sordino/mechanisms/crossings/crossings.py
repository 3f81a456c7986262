"""Decisions of a sparse vector: which noisy answers reach the noisy threshold, and in which branch.

It goes on until no branch can be paid for.

Claim: for the same noise, `crossings` and the fold of `step` give the same transcript. Proof:
docs/proofs/adaptive-sparse-vector.md. Noise: one draw for each threshold, drawn when its first
question is asked; one for each test of each question; none serves twice. Floats: none.

Noise drawn in blocks and handed out one by one: each value once, then wiped.

Claim: the values handed out are independent draws of the law, and none is handed out twice. A block
is drawn from words that were drawn for it alone. Proof: docs/proofs/sparse-vector.md, "Streams".
Floats: none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy, renew
from sordino.grid import Steps, add
from sordino.noise import Sampler

# ---- ahead ---------------------------------------------------------------------------------------


@final
class Ahead:
    """Draws of a law, in blocks of `size`, twice as many each time, up to `most`."""

    __slots__ = ("_at", "_block", "_entropy", "_law", "_most", "_size")

    def __init__(self, law: Sampler, entropy: Entropy, size: int, most: int) -> None:
        self._law, self._entropy, self._size, self._most = law, entropy, size, most
        self._at = 0
        self._block: memoryview | list[int] = []

    def __repr__(self) -> str:
        # Nothing of what was drawn may show.
        return "Ahead()"

    def take(self) -> int:
        """Return the next draw."""
        if self._at == len(self._block):
            # Hours may have passed since the last block, and copies of this memory may have been
            # made.
            renew(self._entropy)
            drawn = self._law.sample(self._size, self._entropy)
            # A view of the array itself, so that wiping it leaves no other copy.
            self._block = drawn.tolist() if drawn.dtype == object else drawn.data
            self._at, self._size = 0, min(2 * self._size, self._most)
        at = self._at
        # Before the draw is read: an interrupt may then lose a draw, but never hands one out twice.
        self._at = at + 1
        value: int = self._block[at]
        self._block[at] = 0
        return value

    def wipe(self) -> None:
        """Forget what was drawn ahead."""
        for i in range(self._at, len(self._block)):
            self._block[i] = 0
        self._at, self._block = 0, []


# How many questions get their noise together; any number gives the same law.
_QUESTION_BLOCK = 1 << 16
# With a new threshold after each positive, so many are searched first.
_FIRST_WINDOW = 1 << 10
# How many thresholds are drawn ahead, at most.
_THRESHOLDS_AHEAD = 1 << 12
# Numbers within this can be added or subtracted once and still fit 64 bits.
_SAFE_STEPS = 1 << 60


class State(NamedTuple):
    """What a sparse vector remembers between two questions.

    `threshold` is private, the counts follow from the outputs.
    """

    left: int
    """How many tokens may still be spent."""
    threshold: int | None = None
    """Noise of the threshold; None if the next question draws it."""
    stages: int = 0
    """How many thresholds were drawn: each is paid for once a question has met it."""


def affordable(prices: Sequence[int], left: int) -> int:
    """Return how many branches can still be paid for.

    Prices are rising whole numbers of tokens, so these are the first ones.
    """
    return bisect_right(prices, left)


def step(
    state: State, noisy: Sequence[int], prices: Sequence[int], *, resample: bool
) -> tuple[State, tuple[int, int] | None]:
    """Return the state after one question, and the branch that fired with its lift.

    The lift is that above the noisy threshold. Branch and lift together are None if no branch
    fired. `noisy` is answer plus noise less the public threshold, in steps, once for each branch
    that can be paid for; the state has a threshold.
    """
    threshold = state.threshold or 0
    for branch, value in enumerate(noisy):
        if value >= threshold:
            # The first branch that succeeds ends the question: the others are not asked.
            left = state.left - prices[branch]
            return State(left, None if resample else threshold, state.stages), (
                branch,
                value - threshold,
            )
    return state, None


def decide(noisy: Sequence[Steps], threshold: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places where a branch reaches the noisy threshold, and the first such branch."""
    reached = [values >= threshold for values in noisy]
    anywhere = reached[0].copy()
    for more in reached[1:]:
        anywhere |= more
    hits = np.flatnonzero(anywhere)
    branches = np.full(hits.size, len(noisy) - 1, dtype=np.intp)
    # From the last branch to the first, so that the first one is what remains.
    for branch in range(len(noisy) - 2, -1, -1):
        branches[reached[branch][hits]] = branch
    return hits, branches


def select_affordable(
    branches: NDArray[np.intp], prices: Sequence[int], left: int
) -> tuple[NDArray[np.intp], int]:
    """Return which of the hits are positives, one after the other, and the tokens left then.

    A hit of a branch that the tokens no longer cover is no positive: that branch is not asked any
    more, and the cheaper ones before it have failed.
    """
    costs, rest, kept = (
        np.array(prices, dtype=np.int64),
        np.arange(branches.size),
        [np.zeros(0, dtype=np.intp)],
    )
    while (open_ := affordable(prices, left)) and (rest := rest[branches[rest] < open_]).size:
        spent = np.cumsum(costs[branches[rest]])
        # Until less is left than the dearest open branch costs, every hit can be paid for. So there
        # is at most one round for each branch.
        last = int(np.searchsorted(spent, min(left - prices[open_ - 1], _SAFE_STEPS), side="right"))
        now = rest[: last + 1]
        kept.append(now)
        left -= int(spent[now.size - 1])
        rest = rest[now.size :]
    return np.concatenate(kept), left


def lifted(
    noisy: Sequence[Steps], branches: NDArray[np.intp], places: NDArray[np.intp], threshold: int
) -> Steps:
    """Return how far noisy values of these branches and places lie above the noisy threshold.

    They are exact: Python integers where 64 bits might not do.
    """
    # Python integers wherever a difference might not fit 64 bits.
    wide = abs(threshold) >= _SAFE_STEPS or any(values.dtype == object for values in noisy)
    values = np.zeros(places.size, dtype=object if wide else np.int64)
    for branch in range(len(noisy)):
        here = branches == branch
        values[here] = noisy[branch][places[here]]
    return values - threshold


class Part(NamedTuple):
    """Some positives of a pass, in order, shape (t,) each: places, branches and lifts in steps."""

    places: NDArray[np.int64]
    branches: NDArray[np.intp]
    lifts: Steps
    number: int = 1


@final
@dataclass(frozen=True, eq=False)
class Transcript:
    """The positives in the order found, shape (t,) each, with lifts in steps.

    `asked` and `stages` say how many questions were asked, and how many thresholds they met.
    """

    places: NDArray[np.int64]
    branches: NDArray[np.int64]
    lifts: Steps
    passes: NDArray[np.int64]
    asked: int
    stages: int

    @classmethod
    def of(cls, found: list[Part], asked: int, stages: int) -> Transcript:
        """Put together what was found, part by part."""
        none = np.zeros(0, dtype=np.int64)
        return cls(
            places=np.concatenate([none, *(part.places for part in found)]),
            branches=np.concatenate([none, *(part.branches for part in found)]),
            lifts=np.concatenate([none, *(part.lifts for part in found)]),
            passes=np.repeat(
                [part.number for part in found], [part.places.size for part in found]
            ).astype(np.int64),
            asked=asked,
            stages=stages,
        )


def crossings(
    heights: Sequence[NDArray[np.int64]],
    *,
    thresholds: Sampler,
    queries: Sequence[Sampler],
    prices: Sequence[int],
    tokens: int,
    resample: bool,
    passes: int,
    entropy: Entropy,
) -> Transcript:
    """Ask all answers in order, in later passes those below, until no branch can be paid for.

    Parameters
    ----------
    heights : one array of int for each branch, shape (n,) each
        Answers less their public thresholds in that branch, in steps.
    thresholds, queries : Sampler, one Sampler for each branch
        The noise of thresholds and of the tests of each branch, in steps.
    prices, tokens : int for each branch, rising; int
        What a positive of each branch costs, and what there is to spend.
    resample : bool
        Whether each positive is followed by a new threshold.
    passes : int
        After so many passes it stops.
    """
    found: list[Part] = []
    left, asked, stages, n = tokens, 0, 0, heights[0].size
    # Thresholds are drawn a few ahead: each but the last ends with a positive, which costs a token
    # at least.
    drawn, threshold = Ahead(thresholds, entropy, 1, min(tokens, _THRESHOLDS_AHEAD)), None
    waiting = np.arange(n)
    for number in range(1, passes + 1):
        # Later passes ask only what was below in all passes before.
        rest = heights if number == 1 else [height[waiting] for height in heights]
        fired: list[NDArray[np.int64]] = []
        for start in range(0, waiting.size, _QUESTION_BLOCK):
            size = min(_QUESTION_BLOCK, waiting.size - start)
            open_ = affordable(prices, left)
            noisy = [
                add(rest[j][start : start + size], queries[j].sample(size, entropy))
                for j in range(open_)
            ]
            at, window = 0, _FIRST_WINDOW if resample else _QUESTION_BLOCK
            while open_ and at < size:
                # Only with its first question: a threshold that no question met costs nothing.
                if threshold is None:
                    threshold, stages = drawn.take(), stages + 1
                part = [values[at : at + window] for values in noisy[:open_]]
                hits, branches = decide(part, threshold)
                # The next questions meet another threshold: later hits were compared with the wrong
                # one.
                if resample:
                    hits, branches = hits[:1], branches[:1]
                kept, left = select_affordable(branches, prices, left)
                hits, branches = hits[kept], branches[kept]
                found.append(
                    Part(
                        waiting[start + at + hits],
                        branches,
                        lifted(part, branches, hits, threshold),
                        number,
                    )
                )
                fired.append(start + at + hits)
                open_ = affordable(prices, left)
                # The answers after the last positive meet the next threshold with the noise they
                # have: it has decided nothing so far.
                if hits.size and (resample or not open_):
                    at, window, threshold = at + int(hits[-1]) + 1, _FIRST_WINDOW, None
                else:
                    at, window = min(at + window, size), 2 * window
            asked += at
            if not open_:
                drawn.wipe()
                return Transcript.of(found, asked, stages)
        if number < passes:
            waiting = np.delete(waiting, np.concatenate([np.zeros(0, dtype=np.int64), *fired]))
        if not waiting.size:
            break
    drawn.wipe()
    return Transcript.of(found, asked, stages)
