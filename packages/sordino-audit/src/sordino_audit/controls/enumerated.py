"""Controls with whole-number noise: mechanisms that are easy to get wrong, and some right ones.

Sparse vectors as they were published, adaptive ones with a cheap branch, and others.

Claim: the verdict and the loss that each control carries [lyu2017; ding2022, Alg. 1]. Never a
mechanism of this library.
Noise: one-sided, which attains the losses that Laplace noise approaches: one coordinate for each
threshold, then one for each query or branch. The float implementation is played on all words of
its short generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY
from sordino.cost import ZCDP, Pure
from sordino.grid import largest
from sordino.mechanisms.noisy_top_k import decide as decide_top_k
from sordino.noise import DiscreteLaplace, Geometric
from sordino.sensitivity import COUNTING, Sensitivity
from sordino_audit.controls import Control
from sordino_audit.enumeration.laws import Finite
from sordino_audit.enumeration.subject import Subject

Rows = NDArray[np.int64]

UNASKED, BELOW, ABOVE = -1, 0, 1


def play_queries(
    q: Any,
    noise: Rows,
    *,
    thresholds: int = 1,
    positives: int | None = 1,
    reveal: Callable[[Rows, Rows], Rows] | None = None,
    sign: int = 1,
) -> Rows:
    """Return transcripts, shape (N, 2n).

    For each query whether it was above, and what was revealed of it.

    What is not revealed is 0. With more than one threshold the next one is taken after each
    positive. `sign` -1 subtracts the noise of the threshold.
    """
    rho, xi = sign * noise[:, :thresholds], noise[:, thresholds:]
    rows = np.zeros((noise.shape[0], 2 * len(q)), dtype=np.int64)
    found = np.zeros(noise.shape[0], dtype=np.int64)
    for i, answer in enumerate(q):
        asked = np.full(found.shape, fill_value=True) if positives is None else found < positives
        # After the last positive nothing is asked any more, but the index must stay in range.
        threshold = rho[np.arange(found.size), np.minimum(found, thresholds - 1)]
        # Without noise of its own a query is compared as it is [lyu2017, Alg. 5].
        value = answer + xi[:, i] if xi.shape[1] else np.full(found.shape, answer)
        above = asked & (value >= threshold)
        rows[:, 2 * i] = np.where(asked, np.where(above, ABOVE, BELOW), UNASKED)
        if reveal is not None:
            rows[:, 2 * i + 1] = np.where(above, reveal(value, threshold), 0)
        # Each transcript counts its own positives.
        found += above
    return rows


def gap(value: Rows, threshold: Rows) -> Rows:
    """Reveal how far the noisy query lies above the noisy threshold, which costs nothing more."""
    return value - threshold


# The signature of what can be revealed.
def noisy_query(value: Rows, threshold: Rows) -> Rows:  # noqa: ARG001
    """Reveal the noisy query that was compared, which is not free."""
    return value


def sparse(
    *,
    epsilon: Fraction | int,
    rates: tuple[list[Fraction | int], list[Fraction | int]],
    sensitivity: Sensitivity = EITHER_WAY,
    cost_of: Callable[[Any], Pure] | None = None,
    name: str,
    **options: Any,
) -> Subject:
    """Return a sparse vector with geometric noise of these rates for thresholds and queries.

    It claims `epsilon`.
    """
    return Subject(
        laws=[Geometric(Fraction(rate)) for part in rates for rate in part],
        play=partial(play_queries, thresholds=len(rates[0]), **options),
        cost=Pure(epsilon=epsilon),
        cost_of=cost_of,
        sensitivity=sensitivity,
        name=name,
    )


def _price_positives(transcript: tuple[int, ...]) -> Pure:
    """Return 1 for the threshold and 1 for each positive.

    That is what is spent where queries have a rate of 1/2 and move by 1 either way.
    """
    return Pure(epsilon=1 + sum(flag == ABOVE for flag in transcript[::2]))


HALF = Fraction(1, 2)

SPARSE_VECTORS = (
    # Right ones.
    Control(
        name="sparse vector, noise added on both sides",
        subject=sparse(name="Lyu, Su, Li: Algorithm 1", epsilon=2, rates=([1], [HALF, HALF])),
        pair=((0, 0), (1, -1)),
        loss=2,
        broken=False,
        source="lyu2017, Alg. 1",
    ),
    Control(
        name="sparse vector with gaps, each transcript at its own cost",
        subject=sparse(
            name="sparse vector with gap",
            epsilon=3,
            rates=([1], [HALF, HALF]),
            positives=2,
            reveal=gap,
            cost_of=_price_positives,
        ),
        pair=((0, 0), (1, -1)),
        loss=2,
        broken=False,
        source="ding2022",
    ),
    Control(
        name="sparse vector, monotone queries at half the noise",
        subject=sparse(
            name="monotone sparse vector", epsilon=2, rates=([1], [1, 1]), sensitivity=COUNTING
        ),
        pair=((0, 0), (1, 0)),
        loss=2,
        broken=False,
        source="lyu2017",
    ),
    Control(
        name="a new threshold after each positive, noise for all of them",
        subject=sparse(name="Dwork, Roth: book", epsilon=8, rates=([2, 2], [1, 1]), positives=2),
        pair=((0, 0), (1, -1)),
        # Two queries show one negative and one positive: half of what a longer stream can lose.
        loss=4,
        broken=False,
        source="lyu2017, Alg. 2",
    ),
    # Wrong ones: each loses more than it is sold for.
    Control(
        name="publishes the noisy query that was compared",
        subject=sparse(
            name="Roth: lecture notes", epsilon=2, rates=([1], [1, 1]), reveal=noisy_query
        ),
        pair=((0, 0), (1, 0)),
        loss=math.inf,
        source="lyu2017, Alg. 3",
    ),
    Control(
        name="noise of the queries does not grow with the number of positives",
        subject=sparse(name="Lee, Clifton", epsilon=2, rates=([HALF], [3 * HALF] * 3), positives=2),
        pair=((0, 0, 0), (1, -1, -1)),
        loss=6.5,  # (1 + 6c)/4 epsilon for c = 2 positives
        source="lyu2017, Alg. 4",
    ),
    Control(
        name="no noise on the queries, any number of positives",
        subject=sparse(
            name="Stoddard, Chen, Machanavajjhala", epsilon=2, rates=([1], []), positives=None
        ),
        pair=((0, 1), (1, 0)),
        loss=math.inf,
        source="lyu2017, Alg. 5",
    ),
    Control(
        name="any number of positives at the price of one",
        subject=sparse(
            name="Chen, Xiao, Zhang, Xu", epsilon=2, rates=([1], [1, 1, 1]), positives=None
        ),
        pair=((0, 0, 0), (1, -1, -1)),
        loss=5,  # (1/2 + t) epsilon for t = 2 positives: no bound for longer streams
        source="lyu2017, Alg. 6",
    ),
    Control(
        name="one-sided noise subtracted from the threshold",
        subject=sparse(name="T - Exp", epsilon=2, rates=([1], [HALF]), sign=-1),
        pair=((-1,), (0,)),
        loss=math.inf,
        source="an answer on the threshold can no longer lie below it",
    ),
    Control(
        name="noise for monotone queries where answers move both ways",
        subject=sparse(name="monotone scale under replace-one", epsilon=2, rates=([1], [1, 1])),
        pair=((0, 0), (1, -1)),
        loss=3,
        source="the threshold once, each positive twice",
    ),
    Control(
        name="a positive that is not paid for",
        subject=sparse(
            name="refund of a positive",
            epsilon=3,
            rates=([1], [HALF, HALF]),
            positives=2,
            cost_of=lambda transcript: Pure(epsilon=1 if sum(transcript[::2]) == 1 else 3),
        ),
        pair=((0, 0), (1, -1)),
        loss=2,
        source="a transcript with one positive spends 2 and says 1",
    ),
)


# ---- adaptive sparse vectors ---------------------------------------------------------------------


CHEAP, DEAR = 1, 2
BOUNDARY = 2


def _play_branches(q: Any, noise: Rows) -> Rows:
    """Return which branch fired and the gap (else 0) for both questions.

    The first question has the dear branch only, and a positive there spends everything. Without a
    coordinate of its own the dear branch of the second question takes half of the draw of the cheap
    one, rounded down: that has the right law.
    """
    # Both questions are compared with the same noisy threshold, 0 plus its noise.
    rho, first, cheap = (
        noise[:, 0],
        q[0] + noise[:, 1] - noise[:, 0],
        q[1] + noise[:, 2] - noise[:, 0],
    )
    dear = q[1] + (noise[:, 3] if noise.shape[1] > 3 else noise[:, 2] // 2) - rho
    found = np.where(first >= 0, DEAR, BELOW)
    # The cheap branch is tried first, the dear one only where it fails.
    then = np.where(cheap >= BOUNDARY, CHEAP, np.where(dear >= 0, DEAR, BELOW))
    then = np.where(found == DEAR, UNASKED, then)
    # Only a positive has a gap.
    gaps = (
        np.where(found == DEAR, first, 0),
        np.where(then == CHEAP, cheap, np.where(then == DEAR, dear, 0)),
    )
    return np.column_stack([found, gaps[0], then, gaps[1]])


def _price_branches(transcript: tuple[int, ...]) -> Pure:
    """Return 2 for the threshold, 2 for a positive of the cheap branch, and 4 of the dear one."""
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
    """Return the loss of (below, dear with any gap) between (0, 0) and (1, -1), at these rates.

    The rates are those of the noise, the first that of the threshold. The threshold moves by 1 and
    the noise of the dear branch by 2. The cheap branch fails on one side if its noise is below t +
    2, on the other if it is below t + 4, which is likelier.
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
    """Return the mechanism with noise of these rates, sold for `epsilon`.

    The first rate is that of the threshold.
    """
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
        subject=adaptive(
            2, 2, 1, 2, epsilon=4, cost_of=monotone, name="monotone branches under replace-one"
        ),
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


# ---- others --------------------------------------------------------------------------------------


_L1_NORM_OF_TWO = Sensitivity(
    bound=1, monotone=False, adjacency="replace-one", norm="l1", step=1, size=2
)
_HALF_RATE = Fraction(1, 2)
_GENERATOR_WORDS = 1 << 10


def raw_last_gap(noisy: Rows) -> Rows:
    """Publish the largest and its lead over the next one as it is, ties broken by position."""
    order = largest(noisy, 2)
    values = np.take_along_axis(noisy, order, axis=-1)
    return np.column_stack([order[:, 0], values[:, 0] - values[:, 1]])


def winning_value(noisy: Rows) -> Rows:
    """Publish the position of the largest and its noisy value."""
    return np.column_stack([largest(noisy, 1)[:, 0], noisy.max(axis=1)])


def clipped_noise(answers: Any, noise: Rows) -> Rows:
    """Add noise whose tail was cut off."""
    # The last value that is left for one answer is out of reach of the other.
    released: Rows = answers[0] + np.clip(noise[:, 0], -3, 3)
    return released


def clamped_to_the_data(answers: Any, noise: Rows) -> Rows:
    """Publish a noisy answer clamped to the range of the answers, which was read off the data."""
    # Outputs at the ends of the range are answers of the data, without noise.
    released: Rows = np.clip(answers[0] + noise[:, 0], min(answers), max(answers))
    return released


def same_seed(answers: Any, noise: Rows) -> Rows:
    """Publish two answers with the noise of one seed."""
    # The noise drops out of the difference.
    return np.column_stack([answers[0] + noise[:, 0], answers[1] + noise[:, 0]])


def every_second_row(rows: Any, noise: Rows) -> Rows:
    """Publish the noisy sum of every second row, as if a unit touched its own row only."""
    # Removing the first row moves all others by one place.
    released: Rows = sum(rows[::2]) + noise[:, 0]
    return released


def float_laplace(answers: Any, noise: Rows) -> Rows:
    """Publish answer + noise in floats, by the textbook formula.

    The output is the 64 bits of the sum.
    """
    # Half a step off the grid, so that the logarithm below is never that of 0.
    u = (noise[:, 0] + 0.5) / _GENERATOR_WORDS - 0.5
    released: NDArray[np.float64] = float(answers[0]) - np.sign(u) * np.log1p(-2 * np.abs(u))
    # Floats that only one of the answers can reach tell them apart [mironov2012].
    return released.view(np.int64)


def two_outcomes(bit: int, word: Rows) -> Rows:
    """Publish 0 for 225 words in a thousand on one side, for 371 on the other."""
    return (word[:, 0] >= (225, 371)[bit]).astype(np.int64)


def squared_loss(outcome: int) -> ZCDP:
    """Charge half of the squared log ratio of the outcome that came out.

    Unsound, as the noise chooses it.
    """
    # The other outcome has 775 and 629 words of a thousand.
    loss = math.log(225 / 371) if outcome == 0 else math.log(775 / 629)
    return ZCDP(rho=loss**2 / 2)


OTHERS = (
    # Wrong ones: each loses more than it is sold for.
    Control(
        name="the last gap as it is, ties broken by position",
        subject=Subject(
            laws=[Geometric(_HALF_RATE)] * 3,
            decide=raw_last_gap,
            cost=Pure(epsilon=1),
            sensitivity=EITHER_WAY,
            shifts=True,
        ),
        pair=((0, 0, 0), (1, -1, -1)),
        loss=2,
        source="gap 0 tells on which side of the priority the next one stands",
    ),
    Control(
        name="the noisy value of the largest, too",
        subject=Subject(
            laws=[DiscreteLaplace(Fraction(1))] * 2,
            decide=winning_value,
            cost=Pure(epsilon=1),
            sensitivity=COUNTING,
        ),
        pair=((0, 0), (1, 1)),
        loss=2,
        source="the value bounds all answers at once",
    ),
    Control(
        name="top-k noise for monotone answers where they move both ways",
        subject=Subject(
            laws=[Geometric(Fraction(1))] * 3,
            decide=lambda noisy: np.concatenate(decide_top_k(noisy, 1), axis=-1),
            cost=Pure(epsilon=1),
            sensitivity=EITHER_WAY,
        ),
        pair=((1, 0, 0), (0, 1, 1)),
        loss=2,
        source="two answers move apart by two",
    ),
    Control(
        name="noise with its tail cut off",
        subject=Subject(
            laws=[DiscreteLaplace(Fraction(1))],
            play=clipped_noise,
            cost=Pure(epsilon=1),
            sensitivity=COUNTING,
        ),
        pair=((0,), (1,)),
        loss=math.inf,
        source="the last value is possible on one side only",
    ),
    Control(
        name="a range read off the data",
        subject=Subject(
            laws=[DiscreteLaplace(Fraction(1))],
            play=clamped_to_the_data,
            cost=Pure(epsilon=1),
            sensitivity=EITHER_WAY,
        ),
        pair=((3, 0, 5), (3, 0, 6)),
        loss=math.inf,
        source="the largest row is published when the noise passes it",
    ),
    Control(
        name="one seed for two releases",
        subject=Subject(
            laws=[DiscreteLaplace(Fraction(1))],
            play=same_seed,
            cost=Pure(epsilon=2),
            sensitivity=EITHER_WAY,
        ),
        pair=((0, 0), (1, 0)),
        loss=math.inf,
        source="the difference has no noise",
    ),
    Control(
        name="two answers with the noise for one",
        subject=Subject(
            laws=[DiscreteLaplace(Fraction(1))] * 2,
            decide=np.asarray,
            cost=Pure(epsilon=1),
            sensitivity=COUNTING,
        ),
        pair=((0, 0), (1, 1)),
        loss=2,
        source="each answer moves by one, their L1 norm by two",
    ),
    Control(
        name="rows chosen by their position in the file",
        subject=Subject(
            laws=[DiscreteLaplace(_HALF_RATE)], play=every_second_row, cost=Pure(epsilon=1)
        ),
        pair=((2, 0, 2, 0, 2), (0, 2, 0, 2)),
        loss=3,
        source="without its first row the file shows three other rows",
    ),
    Control(
        name="Laplace noise in floats",
        subject=Subject(
            laws=[Finite([1] * _GENERATOR_WORDS)],
            play=float_laplace,
            cost=Pure(epsilon=1),
            sensitivity=COUNTING,
        ),
        pair=((0,), (1,)),
        loss=math.inf,
        source="mironov2012",
    ),
    Control(
        name="a refund under concentrated privacy",
        subject=Subject(
            laws=[Finite([1] * 1000)],
            play=two_outcomes,
            cost=ZCDP(rho=Fraction("0.126")),
            cost_of=squared_loss,
        ),
        pair=(0, 1),
        loss=math.log(371 / 225),
        source="E[(p/q)^2 e^(-2 rho)] = 1.02 > 1",
    ),
    # Right ones, at the edge of their claims.
    Control(
        name="Laplace noise for the L1 norm of two answers",
        subject=Subject(
            laws=[DiscreteLaplace(_HALF_RATE)] * 2,
            decide=np.asarray,
            cost=Pure(epsilon=_HALF_RATE),
            sensitivity=_L1_NORM_OF_TWO,
        ),
        pair=((0, 0), (1, 0)),
        loss=0.5,
        broken=False,
        source="ghosh2012",
    ),
    Control(
        name="randomized response",
        subject=Subject(
            laws=[Finite([3, 1])],
            play=lambda bit, lie: bit ^ lie[:, 0],
            cost=Pure(epsilon=Fraction("1.098612288668110")),
        ),
        pair=(0, 1),
        loss=math.log(3),
        broken=False,
        source="dwork2014, Section 3.2",
    ),
)

CONTROLS = SPARSE_VECTORS + ADAPTIVE + OTHERS
