"""Controls small enough to be enumerated: mechanisms that are easy to get wrong, and some right ones.

Claim: the verdict and the loss that each control carries. Never a mechanism of this library.
Noise: whole numbers; the float implementation is played on all words of its short generator.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY
from sordino.cost import ZCDP, Pure
from sordino.grid import largest
from sordino.mechanisms.noisy_top_k import decide as decide_top_k
from sordino.noise import DiscreteLaplace, Geometric
from sordino.sensitivity import COUNTING, Sensitivity
from sordino_audit.controls.adaptive import ADAPTIVE
from sordino_audit.controls.control import Control
from sordino_audit.controls.sparse_vectors import SPARSE_VECTORS
from sordino_audit.enumeration.laws import Finite
from sordino_audit.enumeration.subject import Subject

Rows = NDArray[np.int64]

_L1_NORM_OF_TWO = Sensitivity(bound=1, monotone=False, adjacency="replace-one", norm="l1", step=1, size=2)
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
    """Publish the noisy sum of every second row of the file, as if a unit touched its own row only."""
    # Removing the first row moves all others by one place.
    released: Rows = sum(rows[::2]) + noise[:, 0]
    return released


def float_laplace(answers: Any, noise: Rows) -> Rows:
    """Publish answer + noise in floats, by the textbook formula. The output is the 64 bits of the sum."""
    # Half a step off the grid, so that the logarithm below is never that of 0.
    u = (noise[:, 0] + 0.5) / _GENERATOR_WORDS - 0.5
    released: NDArray[np.float64] = float(answers[0]) - np.sign(u) * np.log1p(-2 * np.abs(u))
    # Floats that only one of the answers can reach tell them apart [mironov2012].
    return released.view(np.int64)


def two_outcomes(bit: int, word: Rows) -> Rows:
    """Publish 0 for 225 words in a thousand on one side, for 371 on the other."""
    return (word[:, 0] >= (225, 371)[bit]).astype(np.int64)


def squared_loss(outcome: int) -> ZCDP:
    """Charge half of the squared log ratio of the outcome that came out: unsound, as the noise chooses it."""
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
            laws=[DiscreteLaplace(Fraction(1))], play=same_seed, cost=Pure(epsilon=2), sensitivity=EITHER_WAY
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
        subject=Subject(laws=[DiscreteLaplace(_HALF_RATE)], play=every_second_row, cost=Pure(epsilon=1)),
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
