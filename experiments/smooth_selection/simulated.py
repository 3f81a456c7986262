"""The paper's made-up families, many data sets at once: who is selected, how often that is the best, and how much is lost where it is not.

Counts: of 2N parents Binomial(2N, 2/3) are heterozygous, and half of them, on average, pass on the one allele.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

import sordino as sd
from sordino.noise import GeneralizedCauchy

FAMILIES = 150
RUNS = 100_000
SEED, TUNING_SEED = 2024, 7
TUNING_RUNS = 20_000
NINETY_NINE = 2.3263478740408408  # one-sided


class Rate(NamedTuple):
    """How often the best was selected, over how many runs, and by how much the statistic of the selected one was lower on "
    "average."""

    share: float
    runs: int
    regret: float

    @property
    def error(self):
        return math.sqrt(self.share * (1 - self.share) / self.runs)

    @property
    def low(self):
        """Return the lower end of Wilson's interval, one-sided, 99 %."""
        z, n = NINETY_NINE, self.runs
        spread = z * math.sqrt(self.share * (1 - self.share) / n + z * z / (4 * n * n))
        return (self.share + z * z / (2 * n) - spread) / (1 + z * z / n)


class Trial:
    """Data sets of m markers, shape (runs, m), and the noise that all methods of a kind share."""

    def __init__(self, b, c, families, seed):
        self.b, self.c, self.families, self.seed = b, c, families, seed
        self.runs, self.markers = b.shape
        self._kept = {}

    @classmethod
    def made_up(cls, markers, *, families=FAMILIES, runs=RUNS, seed=SEED):
        rng = np.random.default_rng((seed, markers))
        total = rng.binomial(2 * families, 2 / 3, (runs, markers))
        b = rng.binomial(total, 0.5)
        return cls(b, total - b, families, seed)

    @classmethod
    def same(cls, b, c, families, *, runs=RUNS, seed=SEED):
        """Return one data set, over and over."""
        return cls(np.tile(b, (runs, 1)), np.tile(c, (runs, 1)), families, seed)

    def scores(self, scale):
        return self._once(("scores", scale), lambda: self._of(sd.smooth.tdt_statistic, scale=scale))

    def damped(self, damping):
        return self._of(sd.genomics.damped_tdt, damping=damping)

    def bounds(self, beta, scale, method="exact"):
        """Return the largest smooth bound of each data set, shape (runs,)."""
        key = ("bounds", beta, scale, method)
        return self._once(
            key, lambda: self._of(sd.smooth.tdt, beta=beta, scale=scale, method=method).max(axis=1)
        )

    def noise(self, gamma, sided="one"):
        law = GeneralizedCauchy(Fraction(gamma))
        draw = law.sample if sided == "one" else law.sample_signed
        return self._once(
            ("noise", gamma, sided),
            lambda: draw(self.b.size, sd.Seeded(self.seed)).reshape(self.b.shape),
        )

    def whole(self, law):
        """Return whole numbers of a law, drawn anew for each law."""
        return law.sample(self.b.size, sd.Seeded(self.seed)).reshape(self.b.shape)

    def rival_noise(self, name):
        rng = np.random.default_rng(self.seed)
        return self._once(("rival", name), lambda: getattr(rng, name)(size=self.b.shape))

    @cached_property
    def best(self):
        return self.scores("raw").max(axis=1)

    def rate(self, noisy):
        """Return how well the largest noisy score does. An equally good marker is as good."""
        index = noisy.argmax(axis=1)
        short = self.best - np.take_along_axis(self.scores("raw"), index[:, None], axis=1)[:, 0]
        return Rate(float((short == 0).mean()), self.runs, float(short.mean()))

    def _of(self, function, **options):
        found = function(self.b.ravel(), self.c.ravel(), families=self.families, **options)
        return found.reshape(self.b.shape)

    def _once(self, key, make):
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]
