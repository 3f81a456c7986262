"""Permute-and-flip: one selection that is never worse than the exponential mechanism.

Claim: epsilon-differentially private; it has the law of a random order in which each item is taken
with probability e^(-rate depth), its depth below the best [mckenna2020, Thm 1]. Proof:
docs/proofs/permute-and-flip.md. Noise: one-sided geometric on every answer, rate epsilon/spread a
unit of the answers; one uniform number chooses among equals. Floats: none after the answers are on
the grid.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import POSITIVE, Number, to_fraction
from sordino.cost import Pure
from sordino.declared import derived, parameter
from sordino.entropy import Entropy
from sordino.grid import Steps, add
from sordino.mechanisms.base import (
    EACH_ANSWER,
    EACH_ANSWER_MEANS,
    STEP_MEANS,
    Mechanism,
    SelectsOne,
    choice_rate,
)
from sordino.noise import Geometric, uniform_below
from sordino.sensitivity import COUNTING, Sensitivity


@final
class PermuteAndFlip(SelectsOne, Mechanism):
    """Select one of n private answers, the larger ones more likely, by permute-and-flip.

    Its expected loss of score is at most that of the exponential mechanism with the same budget,
    and down to half of it. It is one selection of `NoisyTopK` without the margin, with equals in
    random instead of public order.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.PermuteAndFlip(epsilon=1.0, sensitivity=sd.COUNTING)
    >>> mechanism.release([120, 7, 95, 3], entropy=sd.Seeded(7)).index
    0
    """

    epsilon: Number = parameter(POSITIVE, "Budget of the selection.")
    sensitivity: Sensitivity = parameter(
        EACH_ANSWER, f"{EACH_ANSWER_MEANS} Monotone answers get the full rate epsilon/bound."
    )
    noise: Geometric = derived("The law of the noise on each answer, in steps.")
    step: Fraction = derived(STEP_MEANS)
    cost: Pure = derived(
        "What a release spends: the spread times the rate, exactly; at most epsilon."
    )

    def derive(self) -> None:
        """Set the grid, the noise and the cost."""
        step, rate, spent = choice_rate(
            to_fraction(self.epsilon), self.sensitivity, "PermuteAndFlip"
        )
        # Pure, because the range of the loss is not bounded by epsilon: "The better score" on the
        # proof page.
        self._set(noise=Geometric(rate), step=step, cost=Pure(epsilon=spent))

    def _select(self, steps: NDArray[np.int64], entropy: Entropy) -> tuple[int, None]:
        # Items whose sum reaches the best answer are those whose coin says yes: "The same law" on
        # the proof page.
        noisy = add(steps, self.noise.sample(steps.size, entropy))
        # One whole number, uniform over the items that share the largest noisy value, chooses among
        # them.
        turn = uniform_below(int(np.count_nonzero(noisy == noisy.max())), 1, entropy)
        return int(decide(noisy, turn[0])), None


def decide(noisy: Steps, turn: Any) -> Any:
    """Return the position of the largest value of a list, or of each of many lists in rows.

    Values have shape (n,) or (..., n). Among m equals it is the one numbered `turn` modulo m.
    `turn` is a whole number, uniform on a range whose length is a multiple of m. Geometric noise
    has no memory: given that items reach the best answer, how far they rise above it does not tell
    which of them was the best.
    """
    best = noisy == noisy.max(axis=-1, keepdims=True)
    counted: NDArray[np.intp] = np.cumsum(best, axis=-1)
    # The last running count is m, the number of equals.
    # Uniform below m, because the range of `turn` is a multiple of m.
    wanted = np.asarray(turn % counted[..., -1])
    return (counted == wanted[..., None] + 1).argmax(axis=-1)


_claim = ClaimsAbout("PermuteAndFlip", proof="permute-and-flip.md")
CLAIMS = (
    _claim(
        "The index is epsilon-differentially private.",
        ("mckenna2020, Thm 1",),
        (PermuteAndFlip(epsilon=2, sensitivity=EITHER_WAY), (0, 2, 2), (1, 1, 1)),
        (PermuteAndFlip(epsilon=1, sensitivity=COUNTING), (0, 1), (1, 1)),
        tight=True,
    ),
)
