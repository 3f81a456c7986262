"""A quantile that first asks how many records there are, and then chooses its grid and method.

Claim: the noisy number of records costs what its noise does, and whatever it is, what follows is a
quantile over some of the same edges at one and the same price. Proof: docs/proofs/quantile-rule.md.
Noise: discrete Laplace on the number of records with a number, and that of the quantile
(docs/proofs/quantile.md). Floats: logarithms of released numbers; they choose, and no cost depends
on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, final

from sordino.claims import ClaimsAbout
from sordino.columns.bucket_counts import BucketCounts
from sordino.constraints import POSITIVE, PROPORTION, TRUTH, Number, OrNone, shown, to_fraction
from sordino.cost import Cost, Pure, compose
from sordino.declared import derived, parameter
from sordino.entropy import Entropy, renew
from sordino.errors import InvalidParameter
from sordino.estimators.quantiles.column_quantiles import ColumnQuantiles, release_by_plan
from sordino.estimators.quantiles.quantile import (
    CONFIDENCE,
    SEARCH_NOISE,
    SEARCH_NOISE_MEANS,
    Quantile,
    QuantileValue,
    share_of,
)
from sordino.estimators.quantiles.quantile_plan import SearchNoise, choose_cuts, flips
from sordino.estimators.quantiles.rank_search import RankChoice
from sordino.grid import fit_rate
from sordino.noise import DiscreteLaplace

_MOST_HINT = 1 << 60
SIZE_SHARE = Fraction(1, 20)
"""Share of epsilon for the number of records, where nothing is said."""


@final
class SizedQuantile(ColumnQuantiles[QuantileValue]):
    """Release a quantile of a column to the limit of its noise, without a range to guess.

    A noisy number of records comes first. It says how fine a grid can be before empty buckets
    outvote full ones, and whether permute-and-flip, which is the best where records are many, has
    enough of them. `cuts` is how fine the grid may become.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or parameters exclude each other.

    Examples
    --------
    >>> import sordino as sd
    >>> incomes = [20_000 + i % 50_000 for i in range(100_000)]
    >>> median = sd.SizedQuantile(
    ...     q=0.5, epsilon=1, adjacency="add-remove", lower=0, cap=1e9, cuts=256
    ... )
    >>> found = median.release(incomes, entropy=sd.Seeded(7))
    >>> abs(found.value - 45_000) < 20, abs(found.records - 100_000) < 200
    (True, True)
    """

    q: Number = parameter(PROPORTION, "Which quantile, as for `Quantile`.")
    size_epsilon: Number | None = parameter(
        OrNone(POSITIVE),
        "The part of epsilon for the number of records; None: a twentieth. With a size hint "
        "nothing is spent on it, and all of epsilon is for the quantile.",
        default=None,
    )
    flips: bool = parameter(
        TRUTH,
        "Whether permute-and-flip and directions may follow from the number of records. Then the "
        "price of the quantile is a pure epsilon, else that of a search.",
        default=True,
    )
    search_noise: SearchNoise = parameter(
        SEARCH_NOISE, f"{SEARCH_NOISE_MEANS} With Gumbel noise nothing flips.", default="geometric"
    )
    size_noise: DiscreteLaplace | None = derived(
        "The law of the noise of the number of records with a number; None with a size hint."
    )
    budget: Fraction = derived("What is left of epsilon for the quantile.")

    def derive(self) -> None:
        """Divide the budget, and set what both parts cost."""
        super().derive()
        if self.flips and self.search_noise == "gumbel":
            raise InvalidParameter(
                "SizedQuantile.flips must be False with Gumbel noise, which permute-and-flip does "
                "not have; got True."
            )
        epsilon = to_fraction(self.epsilon)
        part = Fraction(0)
        noise: DiscreteLaplace | None = None
        costs: list[Cost] = []
        if self.size_hint is None:
            part = (
                epsilon * SIZE_SHARE
                if self.size_epsilon is None
                else to_fraction(self.size_epsilon)
            )
            if part >= epsilon:
                raise InvalidParameter(
                    f"SizedQuantile.size_epsilon must be below epsilon, {shown(self.epsilon)}; got "
                    f"{shown(self.size_epsilon)}."
                )
            rate = fit_rate(part / self.rows_per_unit, "SizedQuantile", stepped=False)
            noise = DiscreteLaplace(rate)
            costs = [Pure(epsilon=rate * self.rows_per_unit)]
        self._set(size_noise=noise, budget=epsilon - part)
        if self.flips:
            # Whatever may follow has rates that fit: none is refused once the number is known.
            self._build(cuts=1, method="permute-and-flip")
            for hint in (1, _MOST_HINT):
                self._build(cuts=1, method="above-threshold", size_hint=hint)
        # Which of several methods follows is decided after the charge, and all of them cost at
        # most this. What follows from a search alone always costs the same.
        costs.append(Pure(epsilon=self.budget) if self.flips else self._coarsest.cost)
        self._set(cost=costs[0] if len(costs) == 1 else compose(*costs))

    @cached_property
    def _coarsest(self) -> Quantile:
        """The search over a grid that is not cut."""
        return self._build(cuts=1, method=self._method)

    @property
    def _method(self) -> Literal["above-threshold"] | None:
        """The method where the number of records may choose none.

        With Gumbel noise the rule of `Quantile`, which reads public parameters alone.
        """
        return None if self.search_noise == "gumbel" else "above-threshold"

    def _build(self, **own: Any) -> Quantile:
        return Quantile(
            q=self.q,
            epsilon=self.budget,
            adjacency=self.adjacency,
            lower=self.lower,
            cap=self.cap,
            growth=self.growth,
            unit=self.unit,
            integer=self.integer,
            rows_per_unit=self.rows_per_unit,
            search_noise=self.search_noise,
            hint_guides=self.flips,
            **own,
        )

    @property
    def size_epsilon_spent(self) -> float:
        """What the number of records costs."""
        return float(to_fraction(self.epsilon) - self.budget)

    @property
    def reach_of_size(self) -> int:
        """How far the noisy number lies from the true one at most, with 95%; 0 with a hint."""
        return 0 if self.size_noise is None else -self.size_noise.quantile((1 - CONFIDENCE) / 2)

    @property
    def deviation(self) -> float:
        """How wide the noise of a search is, in records."""
        return self._coarsest.deviation

    def choose(self, size: int) -> Quantile:
        """Return what finds the quantile among so many records, a number of few digits."""
        share = share_of(self.q)
        if self.flips:
            flip = self._build(
                cuts=choose_cuts(2 * size * self._flip_rate, self.growth, self.cuts),
                method="permute-and-flip",
                size_hint=size,
            )
            if flips(share, self.budget / self.rows_per_unit, flip.grid.size, size):
                return flip
        [first, *_] = self._coarsest.parts
        if isinstance(first, RankChoice):
            blurred = 2 * size * self._flip_rate
        else:
            # In nats a record.
            rate = float(first.weight * first.scan.noise.rate)
            blurred = size * rate * float(min(share, 1 - share))
        return self._build(
            cuts=choose_cuts(blurred, self.growth, self.cuts), method=self._method, size_hint=size
        )

    @property
    def _flip_rate(self) -> float:
        """The rate of a record in the exponent of permute-and-flip, in nats."""
        share = share_of(self.q)
        depth = max(share, 1 - share) if self.adjacency == "add-remove" else Fraction(1)
        return float(self.budget / (2 * self.rows_per_unit * depth))

    def _release_counts(
        self, counts: Sequence[BucketCounts], entropy: Entropy
    ) -> list[QuantileValue]:
        sizes = self._draw_sizes(counts, entropy)
        found = release_by_plan(counts, [self.for_size(size) for size in sizes], entropy)
        return [
            replace(
                one,
                records=None if self.size_noise is None else size,
                limited_by_grid=self.is_limited(one.value, size, self._flip_rate),
                mechanism=self,
                cost=self.cost,
            )
            for one, size in zip(found, sizes, strict=True)
        ]

    def _draw_sizes(self, counts: Sequence[BucketCounts], entropy: Entropy) -> list[int]:
        """Return the noisy number of records of each column; the public one where there is one."""
        if self.size_noise is None:
            return [self.size_hint or 1] * len(counts)
        drawn = self.size_noise.sample(len(counts), entropy).tolist()
        renew(entropy)  # what follows is a stage of its own
        return [max(0, one.records + noise) for one, noise in zip(counts, drawn, strict=True)]


_FAR_CAP = 1 << 60  # by powers of two 60 edges
_LONG: dict[str, Any] = {"q": 0.5, "lower": 0, "cap": _FAR_CAP, "growth": 2, "size_epsilon": 2}
# One record more in the middle of a long run of equal counts, and one that moves there.
_JOINED = ((0,) * 4 + (_FAR_CAP // 2,) + (_FAR_CAP,) * 4, (0,) * 4 + (_FAR_CAP,) * 4)
_MOVED = (_JOINED[0], (0,) * 5 + (_FAR_CAP,) * 4)
_claim = ClaimsAbout("SizedQuantile", proof="quantile-rule.md")
CLAIMS = (
    _claim(
        "A noisy number of records and the quantile whose grid and method follow from it cost what "
        "the number costs and what any of the quantiles that may follow costs.",
        ("durfee2023, Lemma B.1", "mckenna2020, Thm 1"),
        (SizedQuantile(epsilon=5, adjacency="add-remove", **_LONG), *_JOINED),
        (SizedQuantile(epsilon=5, adjacency="replace-one", flips=False, **_LONG), *_MOVED),
        (
            SizedQuantile(
                epsilon=5, adjacency="add-remove", flips=False, search_noise="gumbel", **_LONG
            ),
            *_JOINED,
        ),
    ),
)
