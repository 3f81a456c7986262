"""Made-up scores, on which mechanisms are compared before data are seen.

Normal numbers from a fixed seed.

Claim: none about privacy: nothing private is here. Proof: docs/proofs/choosing-a-selector.md,
"Designs". Floats: everything here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Seeded

Floats = NDArray[np.float64]

_DESIGN_SCORES = 1 << 13
"""About how many scores a small design has, in all rows."""
MOST_DRAWN = 64
"""Of so many candidates all scores are drawn; of more the largest ones, and the others stand in
bands."""
LEADING = 48
"""How many of the largest are drawn."""
_BANDS = 64
_FIRST_ROWS = 128
_DESIGN_SEED = 20241122
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Design:
    """Made-up data, nothing of which is private.

    Attributes
    ----------
    scores : array of float, shape (rows, w)
        What is selected from.
    best : array of int, shape (rows,)
        The position that should be selected.
    bounds : array of float, shape (rows,), or None
        Smooth bounds that go with the scores.
    counts : array of float, shape (w,), or None
        How many candidates each score stands for; None where each stands for one. The best ones
        stand for one each, and before all others.
    """

    scores: Floats
    best: NDArray[np.int64]
    bounds: Floats | None = None
    counts: Floats | None = None

    @property
    def candidates(self) -> int:
        """How many candidates a row stands for."""
        return self.scores.shape[1] if self.counts is None else round(float(self.counts.sum()))

    def some(self) -> Design:
        """Return the first rows, where all would take long."""
        return Design(
            self.scores[:_FIRST_ROWS],
            self.best[:_FIRST_ROWS],
            None if self.bounds is None else self.bounds[:_FIRST_ROWS],
            self.counts,
        )

    def nearest(self, number: int) -> Design:
        """Return the first columns, of the best one and so many others.

        For designs that have them first.
        """
        part = slice(number + 1)
        return Design(
            self.scores[:, part],
            self.best,
            self.bounds,
            None if self.counts is None else self.counts[part],
        )


def rows_for(m: int) -> int:
    """Return how many rows a design of m scores has."""
    # Fewer where a row is longer, so that all designs take about as long; but never so few that the
    # figure is about these rows more than about the law.
    return max(_FIRST_ROWS, min(512, _DESIGN_SCORES // m))


def noise_alone(m: int) -> Design:
    """Return the |z| of m tests without any effect.

    Magnitudes of normal numbers, the same ones each time.
    """
    # Always the same seed: equal inputs give equal choices.
    scores, counts = magnitudes(m, Seeded(_DESIGN_SEED))
    return Design(scores, scores.argmax(axis=1), counts=counts)


def magnitudes(m: int, entropy: Seeded) -> tuple[Floats, Floats | None]:
    """Return rows of magnitudes of m standard normal numbers and how many of the m each stands for.

    Of many numbers the largest of a row come first, in descending order. The others stand in bands.
    """
    rows = rows_for(m)
    if m <= MOST_DRAWN:
        return np.abs(normal(rows * m, entropy)).reshape(rows, m), None
    # How likely a number is larger than the first, second, ... of the row: the smallest of uniform
    # numbers, each from those that are left.
    passed, tails = np.zeros(rows), list[Floats]()
    for left in range(m, m - LEADING, -1):
        passed = passed + (1 - passed) * least_of(left, rows, entropy)
        tails.append(passed)
    # Beyond those the rows hardly differ: numbers stand where they are expected, in bands that are
    # narrow where they are large.
    others = m - LEADING
    edges = np.concatenate([[0.0], np.geomspace(1 / others, 1.0, _BANDS)])
    middles = (edges[1:] + edges[:-1]) / 2
    tail = np.concatenate(
        [np.stack(tails, axis=1), passed[:, None] + np.outer(1 - passed, middles)], axis=1
    )
    return -deviates(tail / 2), np.concatenate([np.ones(LEADING), others * np.diff(edges)])


def least_of(m: int, rows: int, entropy: Seeded) -> Floats:
    """Return for each row the smallest of m uniform numbers.

    Over the rows they are spread evenly.
    """
    words = entropy.words(2 * rows).astype(np.float64)
    # One number in each of as many parts of the unit interval as there are rows, in random order:
    # so a figure depends little on which rows were drawn.
    places = (np.argsort(np.argsort(words[:rows])) + (words[rows:] + 0.5) * 2.0**-64) / rows
    found: Floats = -np.expm1(np.log(places) / m)
    return found


def deviates(p: Floats) -> Floats:
    """Return the numbers that a standard normal one stays below with these probabilities."""
    return np.array([_NORMAL.inv_cdf(one) for one in p.ravel().tolist()]).reshape(p.shape)


def normal(n: int, entropy: Seeded) -> Floats:
    """Return `n` standard normal numbers."""
    # Above 0, so that the logarithm is finite. Two uniform numbers make a normal one (Box and
    # Muller).
    u = (entropy.words(2 * n).astype(np.float64) + 0.5) * 2.0**-64
    found: Floats = np.sqrt(-2 * np.log(u[:n])) * np.cos(2 * math.pi * u[n:])
    return found
