"""The first of many answers that reaches a noisy threshold, with geometric or with Gumbel noise.

Runs of equal answers are skipped at once instead of tested one by one. Of Gumbel noise, of one rate
on both, none is drawn: one exact uniform number decides all tests of a threshold.

Claim: with the rates times the change of one unit as e1 and e2, positions under geometric noise are
private for what the functions below say [durfee2023]; a position under Gumbel noise has the law
that this noise would give. Proof: docs/proofs/above-threshold.md; that runs are skipped without
changing the law: docs/proofs/samplers.md; docs/proofs/gumbel-sparse-vector.md, "The law", and what
it costs: docs/proofs/gumbel-stage.md. Noise: threshold and answers each one-sided geometric, of any
two rates, on one lattice of whole numbers; or one uniform U, and the first test above is the first
m with U (1 + e^(rate h_1) + ... + e^(rate h_m)) > 1, h heights. Floats: they propose where U
passes; inside a certified band decimals decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.cost import Pure, Range
from sordino.entropy import Entropy
from sordino.grid import Steps
from sordino.mechanisms.race import Gumbel
from sordino.noise import Geometric, Probability, bernoulli, first_success, first_successes
from sordino.noise.probability import Bounds, contexts, exp_bounds
from sordino.noise.samplers.uniform import LazyUniform

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


# ---- with Gumbel noise ---------------------------------------------------------------------------

# How many heights are looked at together, first and at most.
_FIRST_HEIGHTS, _MOST_HEIGHTS = 1 << 10, 1 << 16
# Larger weights count as e^80, which is enough: of all uniform numbers with 64 digits only 0 stays
# below.
_EXPONENT_CAP = 80.0
# More than the exponentials of a sum can be off by: "Floats" on the proof page.
_SUM_BAND = 2.0**-38


@final
@dataclass(frozen=True)
class GumbelScan:
    """Find the first i with answer_i + Z_i >= threshold + Z, all on one lattice.

    Every Z has Gumbel noise of one rate. No epsilon is known here.

    Attributes
    ----------
    threshold : int
        Public, within 2^61 lattice steps.
    noise : Gumbel
        The law of Z and of each Z_i, in lattice steps.
    """

    threshold: int
    noise: Gumbel
    tie_steps: ClassVar[int] = 0
    """As for `ThresholdScan`: its noise is continuous, so that there are no ties."""

    def reach(self, wrong: float) -> float:
        """Return how far above the threshold an answer may lie that fails.

        In lattice steps; it lies farther with probability `wrong` at most.
        """
        # P(the first m fail) = 1/A_m, and A_m is at least 1 and the weight of any of them.
        return math.log(1 / wrong - 1) / float(self.noise.rate)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of a test less that of the threshold, in steps."""
        return math.sqrt(2 * self.noise.variance)

    def first(self, answers: Steps, lengths: Ints, entropy: Entropy) -> int | None:
        """Return the position of the first answer that reaches the threshold, or None if none does.

        Parameters as for `ThresholdScan.first`.
        """
        [found] = self.first_each(answers[None], lengths[None], entropy).tolist()
        return None if found < 0 else int(found)

    def first_each(
        self, answers: Steps, lengths: Ints, entropy: Entropy, thresholds: Levels = None
    ) -> Ints:
        """Return what `first` returns for each of many rows, each with chance of its own.

        Parameters and result as for `ThresholdScan.first_each`.
        """
        rows = answers.shape[0]
        asked = [self.threshold] * rows if thresholds is None else thresholds
        found = np.empty(rows, dtype=np.int64)
        for row, (word, threshold) in enumerate(
            zip(entropy.words(rows).tolist(), asked, strict=True)
        ):
            place = decide(
                answers[row] - threshold, self.noise.rate, LazyUniform(word, entropy), lengths[row]
            )
            found[row] = -1 if place == int(lengths[row].sum()) else place
        return found


def decide(heights: Steps, rate: Fraction, u: LazyUniform, lengths: Ints | None = None) -> int:
    """Return the first test m with U (1 + the sum of e^(rate height) up to m) > 1.

    If there is none, return how many tests there are. The sum rises with m. Floats find where it
    may pass, and exact bounds decide between what floats leave open.

    Parameters
    ----------
    heights : array of int, shape (n,)
        Answers less their thresholds, in steps.
    rate : Fraction
        In nats a step.
    u : LazyUniform
        Drawn afresh for each threshold.
    lengths : array of int64, shape (n,), optional
        How often in a row each height is tested; once, if not given.
    """
    # U is known to its first 64 digits: it lies between these two.
    low, high = u.first * 2.0**-64, (u.first + 1) * 2.0**-64
    total, at, window = 1.0, 0, _FIRST_HEIGHTS
    while at < heights.size:
        weights = _find_weights(heights[at : at + window], rate)
        if lengths is not None:
            weights *= lengths[at : at + window]
        sums = total + np.cumsum(weights)
        # All rounding of so many terms stays within the slack: before `maybe` no place passes,
        # whatever the digits of U that were not drawn yet.
        slack = _SUM_BAND + (at + window) * 2.0**-51
        maybe = int(np.searchsorted(sums * (high * (1 + slack)), 1.0))
        if maybe < sums.size:
            # At `surely` it passes for certain; between the two `passes` decides.
            surely = int(np.searchsorted(sums * (low * (1 - slack)), 1.0, side="right"))
            found = _first_passed(
                lambda m: passes(heights, rate, u, lengths, m),
                at + maybe,
                min(at + surely, heights.size),
            )
            if found < at + sums.size:
                before = total if found == at else float(sums[found - at - 1])
                return _find_test(heights, rate, u, lengths, found, before)
        total, at, window = float(sums[-1]), at + sums.size, min(2 * window, _MOST_HEIGHTS)
    return heights.size if lengths is None else int(lengths.sum())


def _find_weights(heights: Steps, rate: Fraction) -> NDArray[np.float64]:
    """Return e^(rate height) in floats."""
    # A larger exponent could overflow. e^80 is enough for every U of at least 2^-64 to pass;
    # whether a smaller U passes is left to `passes`.
    exponents = np.minimum(float(rate) * heights.astype(np.float64), _EXPONENT_CAP)
    weights: NDArray[np.float64] = np.exp(exponents)
    return weights


def _find_test(
    heights: Steps,
    rate: Fraction,
    u: LazyUniform,
    lengths: Ints | None,
    run: int,
    before: float,
) -> int:
    """Return which test of all passes first, where it is one of a run that is known.

    `before` is 1 and the weights of all runs before it.
    """
    if lengths is None:
        return run
    slack = _SUM_BAND + (run + 2) * 2.0**-51
    low, high = u.first * 2.0**-64 * (1 - slack), (u.first + 1) * 2.0**-64 * (1 + slack)
    [weight] = _find_weights(heights[run : run + 1], rate).tolist()

    def passed(times: int) -> bool:
        total = before + times * weight
        if total * high < 1 or total * low > 1:
            return bool(total * low > 1)
        return passes(heights, rate, u, lengths, run, times)

    length = int(lengths[run])
    # After all of its tests it has passed.
    return int(lengths[:run].sum()) + _first_passed(passed, 1, length) - 1


def _first_passed(passed: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first place from `low` on that is passed, or `high` if none before it is.

    After a place that is passed all are, so halving finds it.
    """
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if passed(middle) else (middle + 1, high)
    return low


def passes(
    heights: Steps,
    rate: Fraction,
    u: LazyUniform,
    lengths: Ints | None,
    last: int,
    times: int | None = None,
) -> bool:
    """Return whether U (1 + the sum of e^(rate height)) > 1, drawing digits of U until certain.

    The sum goes up to the height at `last`, of whose run so many tests count; all, unless said.
    """
    asked = heights[: last + 1]
    if lengths is None:
        # Equal heights have one exponential, which is then computed once.
        distinct, counts = (each.tolist() for each in np.unique(asked, return_counts=True))
    else:
        distinct, counts = asked.tolist(), lengths[: last + 1].tolist()
        counts[last] = counts[last] if times is None else times
    while True:
        low, high = weight(distinct, counts, rate, u.digits)
        down, up = contexts(u.length + 40)  # enough for the digits of U, exactly
        scale = Decimal(1 << u.length)
        # U lies between word/scale and (word + 1)/scale: only what holds at both ends is certain.
        if down.multiply(Decimal(u.word), down.add(1, low)) >= scale:
            return True
        if up.multiply(Decimal(u.word + 1), up.add(1, high)) <= scale:
            return False
        u.extend()


def weight(heights: list[int], counts: list[int], rate: Fraction, digits: int) -> Bounds:
    """Return bounds of the sum of count * e^(rate height)."""
    down, up = contexts(digits)
    low = high = Decimal(0)
    for height, count in zip(heights, counts, strict=True):
        one = exp_bounds(rate * abs(height), digits)
        if height > 0:
            # The bounds are those of e^(-rate |height|): the reciprocal exchanges lower and upper.
            one = down.divide(1, one[1]), up.divide(1, one[0])
        low, high = (
            down.add(low, down.multiply(count, one[0])),
            up.add(high, up.multiply(count, one[1])),
        )
    return low, high
