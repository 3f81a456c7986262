"""The first of many answers that reaches a noisy threshold, each test with fresh noise.

Runs of equal answers are skipped at once instead of tested one by one.

Claim: with the rates times the change of one unit as e1 and e2, positions are private for what the
functions below say [durfee2023]. Proof: docs/proofs/above-threshold.md; that runs are skipped
without changing the law: docs/proofs/samplers.md. Noise: threshold and answers each one-sided
geometric, of any two rates, on one lattice of whole numbers. Floats: none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.cost import Pure, Range
from sordino.entropy import Entropy
from sordino.grid import Steps
from sordino.noise import Geometric, Probability, bernoulli, first_success, first_successes

Ints = NDArray[np.int64]
Levels = Sequence[int] | None
_NEAR_LIMIT = 1 << 61


@final
@dataclass(frozen=True)
class ThresholdScan:
    """Find the first i with answer_i + Z_i >= threshold + Z, all on one lattice.

    No epsilon is known here.

    Attributes
    ----------
    threshold : int
        Public, within 2^61 lattice steps.
    threshold_noise, noise : Geometric
        The laws of Z and of each Z_i, in lattice steps.
    """

    threshold: int
    threshold_noise: Geometric
    noise: Geometric
    tie_steps: ClassVar[int] = 1
    """How many steps short of the reach of its noise an answer must fall to fail: a tie passes."""

    def reach(self, wrong: float) -> float:
        """Return how far above the threshold an answer may lie that fails.

        In lattice steps; it lies farther with probability `wrong` at most.
        """
        # Noise of an answer is never negative, so only that of the threshold can exceed it.
        return -math.log(wrong) / float(self.threshold_noise.rate)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of a test less that of the threshold, in steps."""
        return math.sqrt(self.noise.variance + self.threshold_noise.variance)

    def first(self, answers: Steps, lengths: Ints | None, entropy: Entropy) -> int | None:
        """Return the position of the first answer that reaches the threshold, or None if none does.

        Positions are counted from 0 over all tests.

        Parameters
        ----------
        answers : array of int64, or of Python integers, shape (m,)
            Private; int64 within 2^61 lattice steps.
        lengths : array of int64, shape (m,), optional
            How often in a row each answer is tested, with fresh noise each time; once, if not
            given.
        entropy : Entropy
            Where the noise comes from.
        """
        runs = np.ones(answers.size, dtype=np.int64) if lengths is None else lengths
        # One draw for all tests: given it, they are independent of each other.
        level = self.threshold + int(self.threshold_noise.sample(1, entropy)[0])
        return self._first_from(level, answers, runs, entropy)

    def _first_from(self, level: int, answers: Steps, runs: Ints, entropy: Entropy) -> int | None:
        """Return the first answer whose noise reaches a level that was drawn."""
        # Both within 2^61 steps, so that their difference fits 64 bits.
        if level <= _NEAR_LIMIT and answers.dtype != object:
            # A test is passed if its noise reaches this depth: probability e^(-rate depth), and 1
            # from 0 down.
            return first_success(level - answers, runs, self.noise.rate, entropy)
        # Python integers, so that no difference wraps around.
        return self._far([max(level - answer, 0) for answer in answers.tolist()], runs, entropy)

    def first_each(
        self, answers: Steps, lengths: Ints, entropy: Entropy, thresholds: Levels = None
    ) -> Ints:
        """Return what `first` returns for each of many rows, each with its own threshold and noise.

        Parameters
        ----------
        answers : array of int64, or of Python integers, shape (g, m)
            Private; of each row the answers in runs, filled up with any.
        lengths : array of int64, shape (g, m)
            The lengths of these runs; those that only fill up are empty.
        entropy : Entropy
            Where the noise comes from.
        thresholds : sequence of int, optional
            Public; what takes the place of `threshold` in each row.

        Returns
        -------
        array of int64, shape (g,)
            Positions from 0; -1 where no answer reaches the threshold.
        """
        rows = answers.shape[0]
        drawn = self.threshold_noise.sample(rows, entropy).tolist()
        asked = [self.threshold] * rows if thresholds is None else thresholds
        levels = [threshold + one for threshold, one in zip(asked, drawn, strict=True)]
        if max(levels, default=0) <= _NEAR_LIMIT and answers.dtype != object:
            depths = np.array(levels, dtype=np.int64)[:, None] - answers
            return first_successes(depths, lengths, self.noise.rate, entropy)
        # Beyond 64 bits each row is searched as it would be alone, with what was drawn for it.
        found = [
            self._first_from(level, row, runs, entropy)
            for level, row, runs in zip(levels, answers, lengths, strict=True)
        ]
        return np.array([-1 if one is None else one for one in found], dtype=np.int64)

    def _far(self, depths: list[int], runs: Ints, entropy: Entropy) -> int | None:
        """Return the first success at depths of any size.

        Depths beyond 2^61 steps are cut there. A success at such a depth is kept with the
        probability e^(-rate (what was cut)), else the search goes on after it.
        """
        near, start = np.array([min(depth, _NEAR_LIMIT) for depth in depths], dtype=np.int64), 0
        ends = np.cumsum(runs)
        while True:
            # Of each run, what comes after the last success that was not kept.
            left = np.clip(ends - start, 0, runs)
            found = first_success(near, left, self.noise.rate, entropy)
            if found is None:
                return None
            # Kept or not, this test is done.
            start += found + 1
            # P(Z >= depth) is that of the first 2^61 steps, which was met, times e^(-rate (what is
            # missing)).
            missing = depths[int(ends.searchsorted(start))] - _NEAR_LIMIT
            if missing <= 0 or bernoulli(Probability.exp(self.noise.rate * missing), 1, entropy)[0]:
                return start - 1


def general_cost(threshold_epsilon: Fraction, answer_epsilon: Fraction) -> Pure:
    """Return the cost e1 + 2 e2 where each answer moves by at most one unit of change.

    It may move in any direction.
    """
    return Pure(epsilon=threshold_epsilon + 2 * answer_epsilon)


def monotone_cost(
    threshold_epsilon: Fraction, answer_epsilon: Fraction, *, orientation: str | None = None
) -> Range:
    """Return the cost where all answers move in one direction.

    The loss lies in [-e2, e1 + e2] if they rise, in the mirror image if they fall.

    Parameters
    ----------
    threshold_epsilon, answer_epsilon : Fraction
        e1 and e2: the rates times one unit of change, of one threshold and of all answers found
        above it.
    orientation : str, optional
        The public condition that decides which neighbors rise, see `Range`; only where the caller
        proves it.
    """
    return Range(
        low=answer_epsilon, high=threshold_epsilon + answer_epsilon, orientation=orientation
    )


def nested_cost(
    threshold_epsilon: Fraction,
    answer_epsilon: Fraction,
    offset: Fraction = Fraction(0),
    *,
    orientation: str | None = None,
) -> Range:
    """Return the cost if answers count records below rising edges, less an offset for every record.

    Neighbors have one unit more or less. One more record lowers the answers at edges up to its
    value by `offset` units of change, and raises those beyond by the rest of one. The loss is in
    [-max(offset e2, (1 - offset) e1), offset e1 + e2] if it is the first data set that has the
    record.

    Parameters
    ----------
    threshold_epsilon, answer_epsilon : Fraction
        e1 and e2: the rates times one unit of change, which is what one unit adds to the count.
    offset : Fraction
        In [0, 1]; with 0 the threshold of the count itself is fixed.
    orientation : str, optional
        The public condition that decides which data set is the longer one, see `Range`; only where
        the caller proves it.
    """
    low = max(offset * answer_epsilon, (1 - offset) * threshold_epsilon)
    return Range(low=low, high=offset * threshold_epsilon + answer_epsilon, orientation=orientation)
