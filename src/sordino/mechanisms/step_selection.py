"""Selection by step noise.

Each answer gets a geometric number of whole windows, the largest sum wins.

A window is how far two answers can move apart. Of all noise that keeps the budget, this moves a
score the least.

Claim: epsilon-differentially private, whatever the number of answers [yamamoto2024, with another
law of the noise]. Proof: docs/proofs/step-selection.md. Noise: whole windows, as many as a
one-sided geometric variable of rate epsilon says; a window is as far as two answers move apart.
Floats: none after the answers are on the grid.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import POSITIVE, Number, to_fraction
from sordino.cost import Pure
from sordino.declared import derived, parameter
from sordino.entropy import Entropy
from sordino.grid import Steps, add, bound_in_steps, fit_rate, step_for, to_steps
from sordino.mechanisms.base import EACH_ANSWER, Mechanism, Rules, SelectsOne
from sordino.mechanisms.smooth.step_atoms import win_probability
from sordino.noise import Geometric
from sordino.sensitivity import COUNTING, Sensitivity

_WORD_ROOM = 1 << 61  # answers and noise below it add up in 64 bits


@final
class StepSelection(SelectsOne, Mechanism):
    """Select one of n private answers, the larger ones more likely, with noise of whole windows.

    A window is how far two answers can move apart between neighbors. The noise on each answer is a
    geometric number of windows, the smallest noise that hides what one unit does to a single
    answer. A lead counts in whole windows: next to `PermuteAndFlip` it is better where the largest
    answer leads by a window or little more, worse where it leads by a little less; see `success`.
    Among equals, noise included, the smaller position wins: a public priority.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> either = sd.Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
    >>> votes = sd.StepSelection(epsilon=1, sensitivity=either)
    >>> votes.window, votes.release([120, 7, 95, 3], entropy=sd.Seeded(7)).index
    (2, 0)
    """

    epsilon: Number = parameter(POSITIVE, "Budget of the selection.")
    sensitivity: Sensitivity = parameter(
        EACH_ANSWER,
        'A statement about each answer (norm "each"), such as `COUNTING`. Of monotone '
        "answers a window is the bound, else twice the bound; or `l1` where that is less.",
    )
    noise: Geometric = derived("The law of the number of windows on each answer.")
    window: int = derived("Width of a window, in steps.")
    step: Fraction = derived(
        "Width of the grid, in the unit of the answers. Answers beyond 2^52 steps are clamped: "
        "without a step of your own that is about 2^31 windows."
    )
    cost: Pure = derived("What a release spends: the rate of the noise, at most epsilon.")

    def derive(self) -> None:
        """Set what follows from the parameters."""
        # A rate a window, not a step: two answers move apart by at most one window, which costs
        # epsilon.
        rate = fit_rate(to_fraction(self.epsilon), "StepSelection", stepped=False)
        # Noise comes in whole windows, so a window is its scale, whatever epsilon is.
        step = step_for(self.sensitivity, self.sensitivity.spread**2, "StepSelection")
        bound = bound_in_steps(self.sensitivity, step, "StepSelection")
        # A whole number of steps, as answers on the grid part by. Flooring keeps what they do.
        window = max(1, math.floor(self.sensitivity.find_spread(bound, step)))
        # One level more makes up for a window: it costs one rate, however many answers there are.
        self._set(noise=Geometric(rate), window=window, step=step, cost=Pure(epsilon=rate))

    def success(self, answers: Any) -> float:
        """Return the chance that the largest of these answers is selected, of equals the first.

        It is for answers that are public.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Made up, or public: the result is exact up to the rounding of floats, not private.

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least one number.

        Examples
        --------
        >>> import sordino as sd
        >>> round(sd.StepSelection(epsilon=1, sensitivity=sd.COUNTING).success([9, 5, 5]), 4)
        0.9902
        """
        steps = np.atleast_1d(
            to_steps(answers, self.step, "StepSelection.success of answers: StepSelection")
        )
        return win_probability(
            steps, self.noise.rate, lambda levels: [self.window * level for level in levels]
        )

    def _select(self, steps: NDArray[np.int64], entropy: Entropy) -> tuple[int, None]:
        return int(self.rules.play(steps, steps.size, entropy)), None

    @property
    def rules(self) -> Rules:
        """How a release is made: each answer gets windows, and the largest wins.

        An answer gets as many windows as its draw says.
        """
        return Rules(
            draws=lambda n: ((self.noise, n),),
            steps=self._read,
            decide=lambda steps, windows: decide(steps, windows, self.window),
        )


def decide(steps: NDArray[np.int64], windows: Steps, window: int) -> Any:
    """Return the position of the largest answer with its noise.

    The numbers of windows may come in rows, shape (..., n).
    """
    # Beyond 64 bits a product would wrap around and change the order: Python integers do not.
    if windows.dtype == object or window * (int(windows.max()) + 1) >= _WORD_ROOM:
        windows = windows.astype(object)
    return add(steps, windows * window).argmax(axis=-1)


# Windows of two steps: of answers that move by a step either way, and of counts that rise by up to
# two.
_WINDOW_OF_TWO = Sensitivity(bound=2, monotone=True, adjacency="add-remove", step=1)
_claim = ClaimsAbout("StepSelection", proof="step-selection.md")
CLAIMS = (
    _claim(
        "The index is epsilon-differentially private.",
        ("yamamoto2024",),
        (StepSelection(epsilon=1, sensitivity=EITHER_WAY), (0, 0), (-1, 1)),
        (StepSelection(epsilon=1, sensitivity=EITHER_WAY), (3, 0, 1), (2, 1, 0)),
        (StepSelection(epsilon=2, sensitivity=_WINDOW_OF_TWO), (0, 0), (0, 2)),
        (StepSelection(epsilon=1, sensitivity=COUNTING), (1, 0), (1, 1)),
        tight=True,
    ),
)
