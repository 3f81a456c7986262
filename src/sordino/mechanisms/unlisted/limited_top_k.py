"""Noisy top-k of labels that nobody listed, from the largest counts alone.

The next count sets the threshold.

Claim: but for a failure of probability delta a release with s labels before the threshold is (s +
1) rate private under add-remove and (2s + 2) rate under replace-one, one with k labels k spread
rate [durfee2019, with gaps]. Proof: docs/proofs/unlisted.md, "Limited domain". Noise: one-sided
geometric, rate epsilon/(k spread), on every label that is read and on the threshold. Floats: none;
counts, gaps and the threshold are whole numbers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import ClaimsAbout
from sordino.constraints import COUNT, POSITIVE, SHARE, Number, to_fraction
from sordino.cost import Approximate
from sordino.declared import derived, parameter
from sordino.errors import InvalidParameter
from sordino.grid import Steps, add, fit_rate
from sordino.mechanisms.base import EACH_ANSWER, Mechanism
from sordino.mechanisms.unlisted.failures import least_offset
from sordino.mechanisms.unlisted.occurring import (
    COUNT_STEP_MEANS,
    LEAST_MEANS,
    SPENT_FOR_FOUND_MEANS,
    counting,
    read_reach,
)
from sordino.mechanisms.unlisted.unlisted_top_k import Found, LabelSelection, decide
from sordino.noise import Geometric
from sordino.sensitivity import Sensitivity


@final
class LimitedTopK(LabelSelection, Mechanism):
    """Select the labels with the largest counts, at most k, reading only the `best` + 1 largest.

    Units may count for any number of labels. The count after the `best` largest, which stays
    private, sets the threshold: a label that only one of two neighbors reads can lie above it by a
    step or two at most. Where units count for few labels, `UnlistedTopK` has the lower threshold
    most often; this one is for units without such a bound, or for `best` far below it. `release`
    needs at least the `best` + 1 largest counts.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or `best` is below k.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LimitedTopK(k=2, best=4, epsilon=2.0, delta=1e-6, sensitivity=sd.COUNTING)
    >>> m.offset, m.cost
    (16, Approximate(epsilon=2, delta=1e-06))
    >>> fruit = ["fig", "kiwi", "lime", "pear", "plum"]
    >>> top = m.release([120, 17, 95, 13, 11], labels=fruit, entropy=sd.Seeded(7))
    >>> top.labels, top.crossed
    (('fig', 'lime'), False)
    """

    k: int = parameter(COUNT, "How many to select at most, k <= best.")
    best: int = parameter(COUNT, "How many of the largest counts compete; one more is read.")
    epsilon: Number = parameter(
        POSITIVE, "Budget of the whole selection; spent in full only if k are found."
    )
    delta: Number = parameter(
        SHARE,
        "How likely a label may be released that only one of two neighbors reads. Always spent in "
        "full.",
    )
    sensitivity: Sensitivity = parameter(
        EACH_ANSWER,
        "Counts of units: bound=1, step=1. If they count for at most M labels each, l1=M under "
        "add-remove, l1=2M under replace-one, which lowers the threshold where M is below "
        "`best`.",
    )
    least: int = parameter(COUNT, LEAST_MEANS, default=1)
    noise: Geometric = derived("The law of the noise on each label and on the threshold.")
    offset: int = derived("How far the threshold lies above the first count that does not compete.")
    step: Fraction = derived(COUNT_STEP_MEANS)
    cost: Approximate = derived(SPENT_FOR_FOUND_MEANS)

    def derive(self) -> None:
        """Set what follows from the parameters."""
        owner = "LimitedTopK"
        if self.best < self.k:
            raise InvalidParameter(f"{owner}.best must be at least k, {self.k}; got {self.best}.")
        reach = read_reach(self.sensitivity, owner, bounded=False)
        # A label is read because it rose, or because others fell, which under replace-one are of
        # two units.
        labels = self.best if reach is None else min(self.best, reach.together)
        rate = fit_rate(to_fraction(self.epsilon) / self._steps_paid(self.k), owner)
        law, delta = Geometric(rate), to_fraction(self.delta)
        # The next count may rise by a step while a label that was not read rises above it by as
        # much; under replace-one that label may have been one step above it before.
        self._set(
            noise=law,
            offset=self._spread + least_offset(law, labels, delta, owner, noisy=True),
            step=Fraction(1),
            cost=Approximate(epsilon=self._steps_paid(self.k) * rate, delta=delta),
        )

    @property
    def _spread(self) -> int:
        return 1 if self.sensitivity.adjacency == "add-remove" else 2

    def _steps_paid(self, found: int) -> int:
        # The threshold moves as a count does, both ways under replace-one.
        return self._spread * min(found + 1, self.k)

    def _decide(self, counts: NDArray[np.int64], noise: Steps) -> Found:
        return decide_limited(counts, noise, self.least, self.offset, self.best, self.k)


def decide_limited(
    counts: NDArray[np.int64], noise: Steps, least: int, offset: int, best: int, k: int
) -> Found:
    """Return what is decided of counts (n,) and noise (..., n + 1), the last for the threshold.

    Of the counts of at least `least` the `best` largest compete, of equal ones those with the
    smaller position. The next one, or `least` - 1, is what the threshold is counted from.
    """
    occurring = np.flatnonzero(counts >= least)
    ranked = occurring[np.argsort(-counts[occurring], kind="stable")]
    following = int(counts[ranked[best]]) if ranked.size > best else least - 1
    # In the order of positions again, which decides ties of noisy counts.
    items = np.sort(ranked[:best])
    drawn = noise[..., np.append(items, counts.size)]
    found, gaps = decide(add(np.append(counts[items], np.int64(following + offset)), drawn), k)
    return np.append(items, -1)[found], gaps


# One label, at rate 1 and two steps above what may lie above the next count: e^-2/(1 + e^-1) =
# 0.0989383...
_JUST_ENOUGH = Fraction("0.0989385")
_EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
_claim = ClaimsAbout("LimitedTopK", proof="unlisted.md")
CLAIMS = (
    _claim(
        "But for a failure of probability delta each release is private for what it spent, though "
        "only the largest counts are read: s labels above the threshold cost (s + 1)/k epsilon, k "
        "labels epsilon.",
        ("durfee2019",),
        # Under replace-one another label is the one that is read: (t + 2, t) and (t + 1, t +
        # 1).
        (
            LimitedTopK(k=1, best=1, epsilon=2, delta=_JUST_ENOUGH, sensitivity=_EITHER),
            (3, 5, 3),
            (4, 4, 4),
        ),
        (
            LimitedTopK(k=1, best=1, epsilon=1, delta=_JUST_ENOUGH, sensitivity=counting(1)),
            (1,),
            (0,),
        ),
        tight=True,
    ),
    _claim(
        "The same with several labels that compete, under both relations of neighbors.",
        ("durfee2019",),
        (
            LimitedTopK(k=2, best=2, epsilon=2, delta=Fraction(1, 5), sensitivity=counting(2)),
            (3, 4, 3),
            (3, 4, 4),
        ),
        (
            LimitedTopK(
                k=1,
                best=2,
                epsilon=2,
                delta=Fraction(1, 5),
                sensitivity=counting(1, either=True),
                least=2,
            ),
            (3, 2, 1),
            (2, 2, 2),
        ),
    ),
)
