"""The exponential mechanism, with the lead of the winner at no extra cost.

Claim: the index alone has epsilon-bounded range; index and gap together are epsilon-differentially
private [mcsherry2007, Thm 6; dong2020; ding2022, Alg 6]. Proof:
docs/proofs/exponential-mechanism.md. Noise: a race of uniform places with geometric levels, rate
epsilon/spread a unit of the answers; the gap is what a logistic lead, rounded down to whole steps,
would be. Floats: one chooses where the search for a long lead begins (any place is right, a good
one is fast).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain, count
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import POSITIVE, TRUTH, Number, to_fraction
from sordino.cost import BoundedRange, Pure
from sordino.declared import derived, parameter
from sordino.entropy import Entropy
from sordino.mechanisms.base import EACH_ANSWER, Mechanism, SelectsOne, choice_rate
from sordino.mechanisms.race import TOGETHER, Arrivals, ScoreRace
from sordino.noise import Geometric
from sordino.sensitivity import COUNTING, Sensitivity

# Up to leads of so many nats `decide` alone finds the lead: first in lists that are tried as a
# whole, then in longer ones. At these leads it takes about as long as the search for a long lead,
# so that neighbors on both sides of the line take about the same time.
_SHORT_LEADS = (3.0, 6.0)


@final
class ExponentialMechanism(SelectsOne, Mechanism):
    """Select one of n private answers with probability proportional to e^(epsilon answer / spread).

    With `gap` its lead over the others is reported, too. The lead costs nothing under pure privacy.
    Without it the mechanism has bounded range, which composes better: its zCDP is epsilon^2/8
    instead of epsilon tanh(epsilon/2), about a quarter where epsilon is small.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.ExponentialMechanism(epsilon=1.0, sensitivity=sd.COUNTING)
    >>> best = mechanism.release([120, 7, 95, 3], entropy=sd.Seeded(7))
    >>> best.index, sd.p_value(best) < 0.01
    (0, True)
    >>> index = sd.ExponentialMechanism(epsilon=1.0, sensitivity=sd.COUNTING, gap=False)
    >>> round(float(index.cost.zcdp()), 4)
    0.1233
    """

    epsilon: Number = parameter(POSITIVE, "Budget of the selection.")
    sensitivity: Sensitivity = parameter(
        EACH_ANSWER,
        'A statement about each answer (norm "each"), such as `COUNTING`. Monotone '
        "answers get the full rate epsilon/bound.",
    )
    gap: bool = parameter(TRUTH, "Whether the lead of the winner is released, too.", default=True)
    step: Fraction = derived(
        "Width of the grid, in the unit of the answers. Answers beyond 2^52 steps are clamped: "
        "without a step of your own that is about 2^31 times spread/epsilon."
    )
    rate: Fraction = derived(
        "Nats a step of the grid; a winner that is d steps worse is e^(rate d) times less likely."
    )
    cost: Pure | BoundedRange = derived(
        "What a release spends: the spread times the rate, exactly; at most epsilon. "
        "`BoundedRange` without the gap."
    )

    def derive(self) -> None:
        """Set what follows from the parameters."""
        step, rate, spent = choice_rate(
            to_fraction(self.epsilon), self.sensitivity, "ExponentialMechanism"
        )
        # With the lead, the loss of one and the same winner runs from nearly -spent to nearly
        # spent: that is no bounded range.
        cost = Pure(epsilon=spent) if self.gap else BoundedRange(epsilon=spent)
        self._set(step=step, rate=rate, cost=cost)

    def _select(self, steps: NDArray[np.int64], entropy: Entropy) -> tuple[int, int | None]:
        # Nothing is chosen and nobody is led by: no noise is drawn, and no gap is released.
        if steps.size == 1:
            return 0, None
        if self.gap:
            return with_lead(steps, self.rate, entropy)
        return ScoreRace(steps, self.rate).first(entropy)[0], None


def decide(blocks: Iterable[Arrivals]) -> tuple[int, int]:
    """Return the first place that arrives, and its lead in steps.

    The lead is the largest excess before another place arrives. A lead of m or more says that the
    place would have won with a score lower by m: of its arrivals only those that rise by m above
    their need would count, and one of them still comes first.
    """
    winner, lead = -1, 0
    for places, excess in blocks:
        if places.size == 0:
            continue
        winner = int(places[0]) if winner < 0 else winner
        others = np.flatnonzero(places != winner)
        # Only the arrivals before the first one at another place count, also where they span
        # several blocks.
        run = excess[: others[0]] if others.size else excess
        if run.size:
            lead = max(lead, int(run.max()))
        if others.size:
            break
    return winner, lead


def with_lead(steps: NDArray[np.int64], rate: Fraction, entropy: Entropy) -> tuple[int, int]:
    """Return a place and its lead for two scores or more.

    `decide` alone would do. But a best score far above all others would arrive about e^(rate lead)
    times before another one does. So the best score is first lowered by `below` steps, where the
    others together have about its chance. Whether it leads by so much is asked first. If not, the
    lead is drawn from its law given that it is shorter.
    """
    best = int(steps.argmax())
    below = _handicap(steps, best, rate)
    # Floats are allowed here: either way the law is the same, only the time differs.
    if below <= 0 or below * float(rate) <= _SHORT_LEADS[steps.size > TOGETHER]:
        return decide(ScoreRace(steps, rate).arrivals(entropy))

    def arrivals(handicap: int) -> Iterator[Arrivals]:
        return ScoreRace(_lower_best(steps, best, handicap), rate).arrivals(entropy)

    def wins(handicap: int) -> bool:
        return ScoreRace(_lower_best(steps, best, handicap), rate).first(entropy)[0] == best

    # The numbered steps are those of the proof page, "A long lead". 1: is the lead at least
    # `below`?
    winner, more = decide(arrivals(below))
    if winner == best:
        return best, below + more
    # 2: given that it is shorter, it is `below - 1` exactly with the probability of this event.
    winner, excess = ScoreRace(_lower_best(steps, best, below - 1), rate).first(entropy)
    if winner == best and excess == 0:
        return best, below - 1
    # 3: a geometric proposal below that, kept with the product of two chances, each decided by a
    # fresh race.
    proposed = (below - 2 - int(Geometric(rate).sample(1, entropy)[0]) for _ in count())
    lead = next(lead for lead in proposed if wins(lead + 1) and wins(lead))
    if lead >= 0:
        return best, lead
    # 4: a negative lead says that another place wins. Which one it is, a race among the others
    # decides.
    place, excess = ScoreRace(np.delete(steps, best), rate).first(entropy)
    # Its place in the whole list: places after the best one moved down by one when it was left out.
    place += place >= best
    # That arrival begins the run of the winner, which goes on in the race of all places.
    begun = np.array([place]), np.array([excess])
    return decide(chain([begun], arrivals(0)))


def _lower_best(steps: NDArray[np.int64], best: int, handicap: int) -> NDArray[np.int64]:
    """Return the scores with the best one lower by so many steps (higher if they are negative)."""
    lowered = steps.copy()
    lowered[best] -= handicap
    return lowered


def _handicap(steps: NDArray[np.int64], best: int, rate: Fraction) -> int:
    """Return about how many steps the best score may lose.

    From there on the others together are as likely to win.
    """
    depths = (int(steps[best]) - steps).astype(np.float64)
    depths[best] = np.inf
    # The best of the others is taken out of the sum, so that not all of its terms underflow.
    least = float(depths.min())
    others = math.log(float(np.exp(-float(rate) * (depths - least)).sum()))
    return int(least) - math.floor(others / float(rate))


_claim = ClaimsAbout("ExponentialMechanism", proof="exponential-mechanism.md")
CLAIMS = (
    _claim(
        "The index alone has epsilon-bounded range, hence it is epsilon-differentially private and "
        "epsilon^2/8-zCDP.",
        ("mcsherry2007, Thm 6", "dong2020"),
        (
            ExponentialMechanism(epsilon=2, sensitivity=EITHER_WAY, gap=False),
            (-16, 0, 0),
            (-15, -1, -1),
        ),
        (
            ExponentialMechanism(epsilon=1, sensitivity=COUNTING, gap=False),
            (-16, 0, 0),
            (-16, 1, 1),
        ),
        tight=True,
    ),
    _claim(
        "The index and the lead of the winner in whole steps are together epsilon-differentially "
        "private.",
        ("ding2022, Alg 6",),
        (ExponentialMechanism(epsilon=2, sensitivity=EITHER_WAY), (0, 0), (1, -1)),
        (ExponentialMechanism(epsilon=1, sensitivity=COUNTING), (2, 0, 0), (2, 1, 1)),
        tight=True,
    ),
)
