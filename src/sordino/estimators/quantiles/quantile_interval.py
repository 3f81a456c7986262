"""An interval of values that contains a quantile.

Two noisy searches, each stopped a little early in public.

Claim: the interval holds the quantile with at least its confidence, and costs what its two searches
cost. Proof: docs/proofs/quantile-interval.md. Noise: that of the searches
(docs/proofs/quantile.md). Floats: the edges, which are public, and one logarithm, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

from sordino.claims import ClaimsAbout
from sordino.columns.bucket_counts import BucketCounts
from sordino.columns.bucket_grid import BucketGrid
from sordino.constraints import PROPORTION, SHARE, Number, to_fraction
from sordino.cost import Cost, compose
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.estimators.quantiles.column_quantiles import ColumnQuantiles, release_by_plan
from sordino.estimators.quantiles.quantile import (
    CONFIDENCE,
    SEARCH_NOISE,
    SEARCH_NOISE_MEANS,
    Quantile,
    QuantileValue,
    share_of,
)
from sordino.estimators.quantiles.quantile_plan import (
    QuantilePlan,
    SearchNoise,
    choose_cuts,
    find_step,
)
from sordino.estimators.quantiles.quantiles import Quantiles, QuantileValues
from sordino.estimators.quantiles.rank_search import RankSearch, Runs, find_each
from sordino.estimators.quantiles.sized_quantile import SizedQuantile
from sordino.releases import Release
from sordino.scrubbing import scrubbed


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class QuantileEnds(Release):
    """An interval that contains a quantile.

    Attributes
    ----------
    low, high : float
        Its ends, in the unit of the values. `low` is -inf, or the lower bound of the grid, where no
        search left it; `high` is inf where the quantile may lie beyond the cap.

    Examples
    --------
    >>> import sordino as sd
    >>> median = sd.QuantileInterval(q=0.5, epsilon=1, adjacency="add-remove", lower=0, cap=1e6)
    >>> ends = median.release(range(1000), entropy=sd.Seeded(7))
    >>> ends.low <= 500 <= ends.high
    True
    """

    low: float
    high: float


@final
class QuantileInterval(ColumnQuantiles[QuantileEnds]):
    """Release an interval of values that contains a quantile with a stated probability.

    Two searches share the budget. One goes up, and stops at an edge below which there are too few
    records for the quantile; the other one goes down, and stops where there are too few above. How
    much too few is a public number: as large as the noise of a threshold gets once in twice the
    chance to be wrong.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or the cap is not above `lower`.

    Notes
    -----
    The quantile is the least value with a share of q of the records with a number at or below it;
    the others do not count. Values below `lower` count as `lower`.

    Examples
    --------
    >>> import sordino as sd
    >>> median = sd.QuantileInterval(
    ...     q=0.5, epsilon=2, adjacency="add-remove", lower=0, cap=120, integer=True
    ... )
    >>> ends = median.release([17, 30, 31, 64, 80] * 400, entropy=sd.Seeded(7))
    >>> ends.low, ends.high
    (31.0, 31.0)
    """

    q: Number = parameter(PROPORTION, "Which quantile, as for `Quantile`.")
    confidence: Number = parameter(
        SHARE,
        "Least probability with which the interval contains the quantile.",
        default=CONFIDENCE,
    )
    search_noise: SearchNoise = parameter(SEARCH_NOISE, SEARCH_NOISE_MEANS, default="geometric")
    parts: tuple[RankSearch, ...] = derived("The searches: upward for `low`, downward for `high`.")

    def derive(self) -> None:
        """Set the searches and what they cost."""
        super().derive()
        plan = QuantilePlan(
            share_of(self.q),
            self.grid,
            find_step(self.growth, self.cuts),
            None,
            self.rows_per_unit,
            self.adjacency,
            Fraction(1),
            self.search_noise,
        )
        # Each end may be wrong with half of what is left.
        wrong = (1 - to_fraction(self.confidence)) / 2
        parts, cost = plan.pair(to_fraction(self.epsilon))
        self._set(parts=tuple(_stop_early(part, wrong) for part in parts), cost=cost)

    def choose(self, size: int) -> QuantileInterval:
        """Return this interval over some of its edges, for so many records."""
        share, part = share_of(self.q), self.parts[0]
        rate = part.weight * part.scan.noise.rate
        wanted = choose_cuts(float(size * rate * min(share, 1 - share)), self.growth, self.cuts)
        return replace(self, cuts=wanted)

    def _release_counts(
        self, counts: Sequence[BucketCounts], entropy: Entropy
    ) -> list[QuantileEnds]:
        runs = [Runs.of(one) for one in counts]
        below, above = (find_each([part] * len(runs), runs, entropy) for part in self.parts)
        ends = (self.ends(low, high) for low, high in zip(below, above, strict=True))
        return [
            QuantileEnds(
                low=low, high=high, mechanism=self, cost=self.cost, simulated=entropy.simulated
            )
            for low, high in ends
        ]

    def ends(self, below: int, above: int) -> tuple[float, float]:
        """Return the interval, from the edges where the searches ended, counted from 0.

        The search upward ended at `below`, the one downward at `above`; K and -1 say that they
        found none.
        """
        # What is known is of the last edge that was not enough: the one before.
        low = _edge_value(self.grid, below - 1)
        high = _edge_value(self.grid, above + 1)
        if low == -math.inf and self.lower is not None:
            low = float(self.lower)
        # Below an edge lie the whole numbers up to one less.
        if self.integer and math.isfinite(high):
            high -= 1
        # Noise may put one end beyond the other. Then the quantile lies between them as likely as
        # before.
        return min(low, high), max(low, high)


def _stop_early(part: RankSearch, wrong: Fraction) -> RankSearch:
    """Return a search whose threshold is lowered by as much as its noise reaches.

    The noise reaches so far with probability `wrong`.
    """
    # The noise reaches this whole number of steps with at most that probability; a float that is
    # rounded up is one step too many at worst.
    reach = math.ceil(part.scan.reach(float(wrong)) * (1 + 1e-12))
    # Downward an edge with just as many records behind it as are asked for is no miss.
    early = max(0, reach - part.scan.tie_steps - (0 if part.upward else 1))
    return replace(part, scan=replace(part.scan, threshold=-early))


def _edge_value(grid: BucketGrid, edge: int) -> float:
    """Return the value of an edge, infinite beyond the ends of the grid."""
    if edge < 0:
        return -math.inf
    return float(grid.edges[edge]) if edge < grid.size else math.inf


@final
@dataclass(frozen=True)
class QuantilesWithIntervals:
    """Quantiles, and an interval of each, from one budget: what a session releases.

    Parameters
    ----------
    quantiles : Quantile, SizedQuantile or Quantiles
        The values.
    intervals : tuple of QuantileInterval
        One for each of them.
    """

    quantiles: Quantile | SizedQuantile | Quantiles
    intervals: tuple[QuantileInterval, ...]

    @property
    def mechanisms(self) -> tuple[Quantile | SizedQuantile | Quantiles | QuantileInterval, ...]:
        """All that releases."""
        return self.quantiles, *self.intervals

    @property
    def grid(self) -> BucketGrid:
        """The edges, the same for all."""
        return self.quantiles.grid

    @property
    def deviation(self) -> float:
        """How wide the noise of a value is, in records."""
        return self.quantiles.deviation

    @property
    def cost(self) -> Cost:
        """What all of it costs together."""
        return compose(self.quantiles.cost, *(each.cost for each in self.intervals))

    @property
    def exact(self) -> bool:
        """True: the laws that are proved are the ones that are sampled."""
        return True

    @scrubbed
    def release(self, values: Any, *, entropy: Entropy = SYSTEM) -> QuantileValue | QuantileValues:
        """Release the quantiles with `low` and `high`, with fresh noise.

        Parameters as for `Quantile`.
        """
        fresh_entropy(entropy, "QuantilesWithIntervals.release")
        [released] = self.release_each([values], entropy=entropy)
        return released

    @scrubbed
    def release_each(
        self, columns: Sequence[Any], *, entropy: Entropy = SYSTEM
    ) -> list[QuantileValue | QuantileValues]:
        """Release those of each of several columns, as `release` does, with noise of their own."""
        fresh_entropy(entropy, "QuantilesWithIntervals.release_each")
        # Counted once, for the values and for all of their intervals.
        counts = [
            values if isinstance(values, BucketCounts) else BucketCounts.of(values, grid=self.grid)
            for values in columns
        ]
        found: Sequence[QuantileValue | QuantileValues] = self.quantiles.release_each(
            counts, entropy=entropy
        )
        ends = [
            release_by_plan(counts, self._list_plans(each, found), entropy)
            for each in self.intervals
        ]
        mechanisms, cost = self.mechanisms, self.cost

        def bound(one: QuantileValue, each: QuantileEnds) -> QuantileValue:
            # The interval takes the value in, and not the other way round: what is known of the
            # rank of the value holds as well.
            low, high = min(each.low, one.value), max(each.high, one.value)
            return replace(one, low=low, high=high, mechanism=mechanisms, cost=cost)

        bounded: list[QuantileValue | QuantileValues] = []
        for column, one in enumerate(found):
            if isinstance(one, QuantileValue):
                bounded.append(bound(one, ends[0][column]))
            else:
                bounded.append(
                    QuantileValues(
                        bound(value, each[column]) for value, each in zip(one, ends, strict=True)
                    )
                )
        return bounded

    def _list_plans(
        self, interval: QuantileInterval, found: Sequence[QuantileValue | QuantileValues]
    ) -> list[ColumnQuantiles[QuantileEnds]]:
        """Return over which of its edges an interval is found in each column: by what is public."""
        # What somebody says of their number goes before a noisy one.
        hint = self.quantiles.size_hint
        sizes = [one.records if hint is None else hint for one in found]
        return [interval if size is None else interval.for_size(size) for size in sizes]


_SMALL: dict[str, Any] = {"lower": 0, "cap": 64, "growth": 2, "epsilon": 4}
_claim = ClaimsAbout("QuantileInterval", proof="quantile-interval.md")
CLAIMS = (
    _claim(
        "Both ends together lose at most what the two searches lose.",
        ("durfee2023, Lemma B.1",),
        (
            QuantileInterval(q=0.5, adjacency="add-remove", **_SMALL),
            (0,) * 4 + (40,) * 4,
            (0,) * 4 + (9,) + (40,) * 4,
        ),
        (
            QuantileInterval(q=0.25, adjacency="replace-one", **_SMALL),
            (0,) * 3 + (40,) * 4,
            (0,) * 2 + (9,) + (40,) * 4,
        ),
        (
            QuantileInterval(
                q=0.5, adjacency="add-remove", lower=None, cap=16, growth=2, epsilon=4
            ),
            (-9,) * 3 + (9,) * 3,
            (-9,) * 3 + (9,) * 4,
        ),
        (
            QuantileInterval(q=0.5, adjacency="replace-one", rows_per_unit=2, **_SMALL),
            (2,) * 2 + (90,) * 12,
            (90,) * 14,
        ),
        (
            QuantileInterval(q=0.5, adjacency="add-remove", search_noise="gumbel", **_SMALL),
            (0,) * 4 + (40,) * 4,
            (0,) * 4 + (9,) + (40,) * 4,
        ),
    ),
)
