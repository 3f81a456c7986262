"""Made-up families: what a method is chosen on. They are the same ones each time, and nobody's.

Claim: none; nothing private is here. Proof: docs/proofs/most-significant.md, "The public design".
Floats: counts are rounded normal numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Seeded
from sordino.plan._winning import normal, rows_for

SHARE = 2 / 3
"""Share of the parents that are heterozygous, and so say something: as in the simulation of [yamamoto2024]."""

_SEED = 20240824

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Families:
    """Counts of m markers without effect, shape (rows, m)."""

    b: Counts
    c: Counts

    @property
    def totals(self) -> Counts:
        """How many transmissions each marker has."""
        return self.b + self.c


def made_up(markers: int, families: int) -> Families:
    """Return rows of markers that are inherited by chance: about 2/3 of the parents are heterozygous, and pass on either allele."""
    rows, entropy = rows_for(markers), Seeded(_SEED)
    mean, width = typical(families)
    size = rows * markers
    total = np.clip(np.rint(mean + width * normal(size, entropy)), 0, 2 * families)
    b = np.clip(np.rint((total + np.sqrt(total) * normal(size, entropy)) / 2), 0, total).astype(np.int64)
    return Families(b.reshape(rows, markers), (total.astype(np.int64) - b).reshape(rows, markers))


def typical(families: int) -> tuple[float, float]:
    """Return mean and standard deviation of the number of transmissions."""
    return 2 * families * SHARE, math.sqrt(2 * families * SHARE * (1 - SHARE))
