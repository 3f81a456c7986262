"""Controls: adaptive sparse vectors, right and wrong ones, with whole-number one-sided noise.

Each asks two questions; the second one has a cheap branch.

Claim: the verdict and the loss that each control carries [ding2022, Alg. 1]. Never a mechanism of this
library.
Noise: one coordinate for the threshold, one for the first question, then one for each branch of the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY
from sordino.cost import Pure
from sordino.noise import Geometric
from sordino_audit.controls.control import Control
from sordino_audit.enumeration.subject import Subject

Rows = NDArray[np.int64]

UNASKED, BELOW, CHEAP, DEAR = -1, 0, 1, 2
BOUNDARY = 2


def _play_branches(q: Any, noise: Rows) -> Rows:
    """Return which branch fired and the gap (else 0) for both questions.

    The first question has the dear branch only, and a positive there spends everything. Without a coordinate
    of its own the dear branch of the second question takes half of the draw of the cheap one, rounded down:
    that has the right law.
    """
    # Both questions are compared with the same noisy threshold, 0 plus its noise.
    rho, first, cheap = noise[:, 0], q[0] + noise[:, 1] - noise[:, 0], q[1] + noise[:, 2] - noise[:, 0]
    dear = q[1] + (noise[:, 3] if noise.shape[1] > 3 else noise[:, 2] // 2) - rho
    found = np.where(first >= 0, DEAR, BELOW)
    # The cheap branch is tried first, the dear one only where it fails.
    then = np.where(cheap >= BOUNDARY, CHEAP, np.where(dear >= 0, DEAR, BELOW))
    then = np.where(found == DEAR, UNASKED, then)
    # Only a positive has a gap.
    gaps = np.where(found == DEAR, first, 0), np.where(then == CHEAP, cheap, np.where(then == DEAR, dear, 0))
    return np.column_stack([found, gaps[0], then, gaps[1]])


def _price_branches(transcript: tuple[int, ...]) -> Pure:
    """Return 2 for the threshold, 2 for a positive of the cheap branch, 4 for one of the dear branch."""
    return Pure(epsilon=2 + 2 * sum(max(flag, 0) for flag in transcript[::2]))


def one_price(transcript: tuple[int, ...]) -> Pure:
    """Return 2 for the threshold and 2 for each positive, whichever branch fired."""
    return Pure(epsilon=2 + 2 * sum(flag > BELOW for flag in transcript[::2]))


def monotone(transcript: tuple[int, ...]) -> Pure:
    """Return 2 for the threshold, 1 and 2 for the branches.

    That is what they spend where all answers move in the same direction.
    """
    return Pure(epsilon=2 + sum(max(flag, 0) for flag in transcript[::2]))


def lost(limit: float, cheap: float, dear: float) -> float:
    """Return the loss of (below, dear with any gap) between (0, 0) and (1, -1), for noise of these rates.

    The first rate is that of the threshold. The threshold moves by 1 and the noise of the dear branch by 2.
    The cheap branch fails on one side if its noise is below t + 2, on the other if it is below t + 4, which
    is likelier.
    """

    def series(rate: float) -> float:
        # The sum of e^(-rate t) over t >= 1.
        return 1 / math.expm1(rate)

    def failing(need: int) -> float:
        alone = series(limit + dear) - series(limit + 2 * dear)
        return alone - math.exp(-cheap * need) * (
            series(limit + dear + cheap) - series(limit + 2 * dear + cheap)
        )

    return limit + 2 * dear + math.log(failing(BOUNDARY) / failing(BOUNDARY + 2))


def adaptive(
    *rates: Fraction | int,
    name: str,
    epsilon: int = 6,
    cost_of: Callable[[Any], Pure] | None = _price_branches,
) -> Subject:
    """Return the mechanism with noise of these rates, the first that of the threshold, sold for `epsilon`."""
    laws = [Geometric(Fraction(rate)) for rate in rates]
    return Subject(
        laws=laws,
        play=_play_branches,
        cost=Pure(epsilon=epsilon),
        cost_of=cost_of,
        sensitivity=EITHER_WAY,
        name=name,
    )


# The first one is right, all others are sold for less than they lose.
ADAPTIVE = (
    Control(
        name="adaptive sparse vector, each transcript at its own cost",
        subject=adaptive(2, 2, 1, 2, name="adaptive sparse vector"),
        pair=((0, 0), (1, -1)),
        loss=lost(2, 1, 2),
        broken=False,
        source="ding2022, Alg. 1",
    ),
    Control(
        name="the price of the cheap branch where the dear one fired",
        subject=adaptive(2, 2, 1, 2, cost_of=one_price, name="one price for both branches"),
        pair=((0, 0), (1, -1)),
        loss=lost(2, 1, 2),
        source="the dear branch has half the noise, and spends twice as much",
    ),
    Control(
        name="noise of monotone branches where answers move both ways",
        subject=adaptive(2, 2, 1, 2, epsilon=4, cost_of=monotone, name="monotone branches under replace-one"),
        pair=((0, 0), (1, -1)),
        loss=lost(2, 1, 2),
        source="the threshold once, each positive twice",
    ),
    Control(
        name="one draw of noise for both branches",
        subject=adaptive(
            1, 1, Fraction(1, 2), epsilon=3, cost_of=None, name="branches that share their noise"
        ),
        pair=((0, 1), (1, 0)),
        loss=math.inf,
        source="a gap of the dear branch tells what the cheap one saw",
    ),
)
