"""The role "law": a probability distribution on the whole numbers, in steps of the grid."""

from __future__ import annotations

from typing import Any, Protocol

from sordino.entropy import Entropy
from sordino.grid import Steps


class Law(Protocol):
    """A distribution with closed forms for tests and planning, and an exact sampler."""

    @property
    def name(self) -> str:
        """What a mechanism's `noise` parameter calls the family."""
        ...

    @property
    def mean(self) -> float:
        """Expected value, in steps."""
        ...

    @property
    def variance(self) -> float:
        """Variance, in steps squared."""
        ...

    def pmf(self, x: Any) -> Any:
        """Probability of exactly `x`."""
        ...

    def cdf(self, x: Any) -> Any:
        """Probability of at most `x`."""
        ...

    def sf(self, x: Any) -> Any:
        """Probability of more than `x`."""
        ...

    def quantile(self, p: float) -> int:
        """Return the smallest `x` with cdf(x) >= p, for p in (0, 1)."""
        ...

    def sample(self, n: int, entropy: Entropy) -> Steps:
        """Return `n` independent draws, shape (n,), exactly distributed."""
        ...


class Sampler(Protocol):
    """Anything that hands out noise: a law, or noise that an audit plays."""

    def sample(self, n: int, entropy: Entropy) -> Steps:
        """Return `n` draws, shape (n,)."""
        ...
