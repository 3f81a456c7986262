"""Simulated families with a fixed seed. The method is chosen on them, never on the data.

Claim: none; nothing private is here. Proof: docs/proofs/most-significant.md, "The public design".
Floats: counts are rounded normal numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Seeded
from sordino.plan.designs import (
    MOST_DRAWN,
    Floats,
    deviates,
    least_of,
    magnitudes,
    normal,
    rows_for,
)

SHARE = 2 / 3
"""Share of the parents that are heterozygous, and so tell something, as simulated in
[yamamoto2024]."""

_FAMILIES_SEED = 20240824

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Families:
    """Counts of m markers without effect, shape (rows, w).

    `standing` says how many markers each of the w stands for, shape (w,); None where each stands
    for one.
    """

    b: Counts
    c: Counts
    standing: Floats | None = None

    @property
    def totals(self) -> Counts:
        """How many transmissions each marker has."""
        return self.b + self.c


def synthetic(markers: int, families: int) -> Families:
    """Return rows of markers that are inherited by chance.

    About 2/3 of the parents are heterozygous, and pass on either allele.
    """
    rows, entropy = rows_for(markers), Seeded(_FAMILIES_SEED)
    mean, width = typical(families)
    size = rows * min(markers, MOST_DRAWN)
    # Normal numbers with the mean and the variance of binomial ones, moved to counts that are
    # possible.
    if markers <= MOST_DRAWN:
        drawn, standing = mean + width * normal(size, entropy), None
        # Without an effect either allele is passed on with probability 1/2.
        signed = normal(size, entropy)
    else:
        signed, standing = magnitudes(markers, entropy)
        drawn = (mean + width * normal(signed.size, entropy)).reshape(signed.shape)
        # The last one stands for markers that hardly differ from chance. It is given the fewest
        # transmissions of all markers, which decide how much noise there is.
        drawn[:, -1] = mean + width * deviates(least_of(markers, rows, entropy))
    total = np.clip(np.rint(drawn), 0, 2 * families)
    b = np.clip(np.rint((total + np.sqrt(total) * signed) / 2), 0, total).astype(np.int64)
    c = total.astype(np.int64) - b
    return Families(b.reshape(rows, -1), c.reshape(rows, -1), standing)


def typical(families: int) -> tuple[float, float]:
    """Return mean and standard deviation of the number of transmissions."""
    return 2 * families * SHARE, math.sqrt(2 * families * SHARE * (1 - SHARE))
