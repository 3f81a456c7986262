"""The generalized Cauchy law: density proportional to 1/(1 + |z|^gamma), gamma > 1.

It has a power tail.

Claim: `sample` has this law in ideal arithmetic, by rejection from min(1, z^-gamma). Proof:
docs/proofs/smooth-selection.md, "Noise". Noise: three words a proposal; a proposal is taken with a
probability between 1/2 and 1. Floats: uniform numbers have 53 bits after their first digit 1,
however small they are, so that neither the neighborhood of 0 nor the tail is a grid; every step of
a draw is rounded, and the law of the floats is not the law that is stated: nothing here is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import Constraint, accept_if
from sordino.entropy import Entropy

Floats = NDArray[np.float64]

# With so many terms the weights of `_series_weights` leave out less than 1e-17.
_SERIES_TERMS = 24
# How many proposals are drawn at once: a bound of the memory.
_PROPOSAL_CHUNK = 1 << 17
# A word of at least this has as many digits from its first 1 on as a float can hold.
_FULL_DIGITS = 2.0**53
# Smaller uniform numbers are taken for this one, with a probability of about 2^-960.
_SMALLEST_UNIFORM = 2.0**-960
# The peak of the hazard is searched on six grids, each within three cells of the one before.
_PEAK_ROUNDS, _PEAK_PARTS = 6, 64


GAMMA = Constraint(
    "a number from 1.1 to 100",
    accept_if(lambda number: Fraction(11, 10) <= number <= 100),
    (4, 2, 1.5),
    (1, 0, -2, 1.05, 101, math.nan, math.inf, "4", None, True),
)
"""The law exists for powers above 1; of those below 1.1 too many draws would leave the floats."""


@final
@dataclass(frozen=True)
class GeneralizedCauchy:
    """The law of Z with density proportional to 1/(1 + |z|^gamma).

    Its functions are those of the magnitude |Z|, on z >= 0.

    Parameters
    ----------
    gamma : Fraction
        From 1.1 to 100. With gamma = 2 it is the Cauchy law.
    """

    gamma: Fraction
    name: ClassVar[str] = "cauchy"

    @cached_property
    def _g(self) -> float:
        return float(self.gamma)

    @cached_property
    def peak(self) -> float:
        """Density of the magnitude at 0, gamma sin(pi/gamma)/pi: that of Z is half of it."""
        return self._g * math.sin(math.pi / self._g) / math.pi

    @property
    def mean(self) -> float:
        """Expected magnitude, inf where there is none (gamma <= 2)."""
        return 0.5 / math.cos(math.pi / self._g) if self.gamma > 2 else math.inf

    @property
    def slope(self) -> float:
        """The largest slope of the log density of Z, (gamma - 1)^((gamma - 1)/gamma)."""
        return float((self._g - 1) ** ((self._g - 1) / self._g))

    def pdf(self, z: Any) -> Any:
        """Density of the magnitude."""
        z = np.asarray(z, dtype=np.float64)
        # Above 1 density and 1 are both divided by z^gamma, which could overflow.
        small = _small_powers(z, self._g)
        return np.where(z < 0, 0.0, self.peak * np.where(z <= 1, 1.0, small) / (1 + small))

    def cdf(self, z: Any) -> Any:
        """Probability of a magnitude of at most `z`, accurate near 0, too."""
        z = np.asarray(z, dtype=np.float64)
        _, near, far, _ = self._parts(z)
        return np.where(z > 1, 1 - far, near)

    def sf(self, z: Any) -> Any:
        """Probability of a magnitude of more than `z`, accurate in the tail, too."""
        return self.tail(z)[0]

    def hazard(self, z: Any) -> Any:
        """Density of the magnitude over the probability of more, z >= 0.

        It rises to its largest value and falls from there on.
        """
        return self.tail(z)[1]

    def tail(self, z: Any) -> tuple[Any, Any]:
        """Return survival function and hazard, z >= 0.

        The hazard also where its parts leave the floats.
        """
        z = np.asarray(z, dtype=np.float64)
        # Beyond 1 the powers of z cancel in density over survival function: (1 + t) z times the sum
        # is left.
        small, near, far, outer = self._parts(z)
        return np.where(z > 1, far, 1 - near), 1 / (
            (1 + small) * np.where(z > 1, z * outer, (1 - near) / self.peak)
        )

    def _parts(self, z: Any) -> tuple[Any, Any, Any, Any]:
        """Return t, the cdf below 1, the survival function above 1, and the sum of the latter.

        t is z^gamma below 1 and z^-gamma above. Cdf and survival function are sums in t, which
        alternate and converge at once (`_series_weights`).
        """
        small = _small_powers(z, self._g)
        inner, outer = _alternating_sums(small, self._g, 1.0, self._g - 1)
        near, far = (
            self.peak * np.clip(z, 0.0, 1.0) * inner,
            self.peak * np.maximum(z, 1.0) ** (1 - self._g) * outer,
        )
        return small, near, far, outer

    @cached_property
    def hazard_peak(self) -> tuple[float, float]:
        """Two places between which the hazard is largest."""
        low, high = 0.0, (self._g - 1) ** (1 / self._g)
        for _ in range(_PEAK_ROUNDS):
            z = np.linspace(low, high, _PEAK_PARTS + 1)
            # True up to the peak, and nowhere beyond.
            rises = self.hazard(z) > self._g * z ** (self._g - 1) / (1 + z**self._g)
            last = int(rises.sum()) - 1
            # One more on each side, as rounding may sway the comparison.
            low, high = float(z[max(0, last - 1)]), float(z[min(_PEAK_PARTS, last + 2)])
        return low, high

    @cached_property
    def hazard_bound(self) -> float:
        """An upper bound of the hazard, by less than 1e-6 of it above its largest value."""
        low, high = self.hazard_peak
        # Density and survival function fall, so that their values at the ends bound all quotients
        # in between.
        return float(self.pdf(low) / self.sf(high)) * (1 + 1e-12)

    def sample(self, n: int, entropy: Entropy) -> Floats:
        """Return `n` independent magnitudes, shape (n,)."""
        drawn = np.empty(n)
        filled = 0
        while filled < n:
            # As many as are needed on average, and a few more.
            taken = self._proposed(
                min(_PROPOSAL_CHUNK, math.ceil((n - filled) / self._taken) + 8), entropy
            )[: n - filled]
            drawn[filled : filled + taken.size] = taken
            filled += taken.size
        return drawn

    def sample_signed(self, n: int, entropy: Entropy) -> Floats:
        """Return `n` independent draws of Z, shape (n,): magnitudes with fair signs."""
        magnitudes = self.sample(n, entropy)
        # The first digit of a fresh word is the sign: fair, and independent of the magnitude.
        return np.where(entropy.words(n) >> 63 == 0, magnitudes, -magnitudes)

    @property
    def _taken(self) -> float:
        """Probability that a proposal is taken."""
        return (self._g - 1) / (self._g * self.peak)

    def _proposed(self, n: int, entropy: Entropy) -> Floats:
        """Return those of `n` proposals that are taken.

        With probability (gamma - 1)/gamma a proposal is z = U, else z = U^(-1/(gamma - 1)): density
        min(1, z^-gamma)(gamma - 1)/gamma. It is taken with probability 1/(1 + t), where t = z^gamma
        below 1 and t = z^-gamma = U/z above.
        """
        # Of each proposal: where it is, on which side of 1, and whether it is taken. All three are
        # independent.
        u = uniform(n, entropy)
        words = entropy.words(2 * n).astype(np.float64) * 2.0**-64
        # The part below 1 weighs (gamma - 1)/gamma.
        inner = words[:n] * self._g < self._g - 1
        z = u.copy()
        outer = np.flatnonzero(~inner)
        z[outer] = u[outer] ** (-1 / (self._g - 1))
        t = np.where(inner, u, 0.0) ** self._g
        # Above 1 t = z^-gamma is U/z, without another power.
        t[outer] = u[outer] / z[outer]
        return z[words[n:] * (1 + t) < 1]


def uniform(n: int, entropy: Entropy) -> Floats:
    """Return `n` uniform numbers in (0, 1], shape (n,).

    Of each, 53 binary digits from the first 1 on are drawn before rounding.
    """
    scale = 2.0**-64
    found = entropy.words(n).astype(np.float64) * scale
    # These have at most 53 digits from their first 1 on, and get the next word as well.
    short = np.flatnonzero(found < _FULL_DIGITS * scale)
    while short.size and scale > _SMALLEST_UNIFORM:
        known = scale
        scale *= 2.0**-64
        found[short] += entropy.words(short.size) * scale
        short = (
            short[found[short] < _FULL_DIGITS * scale] if known > _SMALLEST_UNIFORM else short[:0]
        )
    # Never 0, because negative powers of it are taken.
    return np.maximum(found, _SMALLEST_UNIFORM)


def _small_powers(z: Floats, gamma: float) -> Floats:
    """Return z^gamma where z is at most 1, z^-gamma above: between 0 and 1."""
    size = np.maximum(z, 0.0)
    with np.errstate(divide="ignore"):
        small: Floats = np.where(size <= 1, size, 1 / np.maximum(size, 1.0)) ** gamma
    return small


def _series_weights() -> Floats:
    """Return the weights of the alternating sum.

    It errs by less than 1/T_24(3) < 1e-17 of its value, T a Chebyshev polynomial.
    """
    d, before = Fraction(3), Fraction(1)
    # d becomes T_24(3), by T_(k+1)(3) = 6 T_k(3) - T_(k-1)(3).
    for _ in range(_SERIES_TERMS - 1):
        d, before = 6 * d - before, d
    # In fractions, so that each weight is rounded once.
    b, c = Fraction(-1), -d
    weights = []
    for k in range(_SERIES_TERMS):
        c = b - c
        weights.append(float(c / d))
        b *= Fraction(2 * (k + _SERIES_TERMS) * (k - _SERIES_TERMS), (2 * k + 1) * (k + 1))
    return np.array(weights)


_SERIES_WEIGHTS = _series_weights()


def _alternating_sums(t: Floats, gamma: float, *starts: float) -> list[Floats]:
    """Return for each start the sum over k of (-t)^k/(gamma k + start), 0 <= t <= 1."""
    powers = np.vander(t.ravel(), _SERIES_TERMS, increasing=True)
    return [
        (powers @ (_SERIES_WEIGHTS / (gamma * np.arange(_SERIES_TERMS) + start))).reshape(t.shape)
        for start in starts
    ]
