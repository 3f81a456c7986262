"""Randomized response: name the largest answer truthfully with a known probability, else any other.

Claim: epsilon-differentially private under any adjacency, whatever the answers do [warner1965].
Proof: docs/proofs/randomized-response.md. Noise: a race in which the largest answer stands one step
above all others, rate epsilon. Floats: the answers are only compared, those of mixed or other types
after rounding to the nearest float.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import ClaimsAbout
from sordino.constraints import POSITIVE, Number, OrNone, to_fraction
from sordino.cost import Pure, RandomizedChoice
from sordino.cost.randomized_choice import CHOICES
from sordino.declared import derived, parameter
from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.grid import convert_answers, fit_rate, number_of
from sordino.mechanisms.base import Mechanism, SelectsOne
from sordino.mechanisms.race import ScoreRace

_BEYOND_FLOATS = 1 << 1023


@final
class RandomizedResponse(SelectsOne, Mechanism):
    """Say which of n private answers is the largest, by randomized response.

    It is truthful with probability e^epsilon/(n - 1 + e^epsilon), else it names any other one. It
    needs no statement about how far answers move, so it is right where none is known: scores
    without a bound, the output of a model. Where a bound is known the exponential mechanism and
    permute-and-flip are better as soon as the lead of the largest answer is more than a few
    spreads, or n is large: randomized response is right with a probability that only epsilon and n
    decide. Among equals the smaller position is the largest: a public priority. NaN counts as the
    lowest value.

    Raises
    ------
    InvalidParameter
        If epsilon does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.RandomizedResponse(epsilon=8).release([0.2, -1e300, 1e300], entropy=sd.Seeded(7)).index
    2
    """

    epsilon: Number = parameter(POSITIVE, "Budget of the selection.")
    candidates: int | None = parameter(
        OrNone(CHOICES),
        "Public number of answers; `release` refuses a list of any other length. The pure "
        "epsilon is the same, but rho and deltas are the smaller the more answers there are. "
        "None: not said.",
        default=None,
    )
    rate: Fraction = derived("Log odds of the largest answer against each other one, in nats.")
    cost: Pure | RandomizedChoice = derived("What a release spends: the rate, at most epsilon.")

    def derive(self) -> None:
        """Set what follows from the parameters."""
        # The largest answer stands one step above the others, so the rate a step is epsilon itself.
        rate = fit_rate(to_fraction(self.epsilon), "RandomizedResponse", stepped=False)
        # The loss of an output is the rate, 0 or minus the rate, so its range is twice that. How
        # often it is 0 is known with the number of answers.
        n = self.candidates
        self._set(
            rate=rate,
            cost=Pure(epsilon=rate) if n is None else RandomizedChoice(epsilon=rate, choices=n),
        )

    def truthful(self, n: int) -> float:
        """Return the probability that the largest of `n` >= 1 answers is named."""
        return 1 / (1 + (n - 1) * math.exp(-self.rate))

    def _read(self, answers: Any) -> NDArray[np.int64]:
        # Of the answers the race sees nothing but which one is the largest.
        stands = standing(answers)
        if self.candidates not in {None, stands.size}:
            raise InvalidParameter(
                f"RandomizedResponse.release needs {self.candidates} answers, as many as its "
                f"candidates; got {stands.size}. Nothing was released."
            )
        return stands

    def _select(self, steps: NDArray[np.int64], entropy: Entropy) -> tuple[int, None]:
        return ScoreRace(steps, self.rate).first(entropy)[0], None


def standing(answers: Any) -> NDArray[np.int64]:
    """Return 1 for the largest answer and 0 for all others, shape (n,).

    Nothing else enters the draw.
    """
    array = np.atleast_1d(convert_answers(answers, "RandomizedResponse"))
    # Python objects of mixed types may not compare with each other; their nearest floats do.
    if array.dtype == object:
        array = np.array([read_nearest_float(value) for value in array.tolist()])
    stands = np.zeros(array.size, dtype=np.int64)
    # `argmax` would take NaN for the largest of all.
    stands[
        (np.where(np.isnan(array), -np.inf, array) if array.dtype.kind == "f" else array).argmax()
    ] = 1
    return stands


def read_nearest_float(value: Any) -> float:
    """Return the float nearest to one Python object, -inf for NaN and what is no number.

    It never raises.
    """
    number = number_of(value)
    if number is None:
        return -math.inf
    if isinstance(number, int | Fraction):
        # Beyond the range of floats `float` would raise, and whether it raises would depend on
        # private data.
        return (
            math.inf
            if number >= _BEYOND_FLOATS
            else -math.inf
            if number <= -_BEYOND_FLOATS
            else float(number)
        )
    return float(number)


_claim = ClaimsAbout("RandomizedResponse", proof="randomized-response.md")
CLAIMS = (
    _claim(
        "The index is epsilon-differentially private for any two lists of answers of the same "
        "length.",
        ("warner1965",),
        (RandomizedResponse(epsilon=1), (5, 0, 0), (0, 0, 9)),
        (RandomizedResponse(epsilon=1, candidates=3), (5, 0, 0), (0, 0, 9)),
        (RandomizedResponse(epsilon=1, candidates=5), (5, 0, 0, 1, 1), (0, 0, 9, 1, 1)),
        tight=True,
    ),
)
