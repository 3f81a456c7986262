"""Quantiles of people with any number of rows: of each group, or of all rows.

Claim: the weight, and the quantiles of all groups over weighed rows, cost `cost`, for any number of
groups, and units with any number of rows in any of them. Proof: docs/proofs/weighted-quantiles.md.
Noise: that of `Quantile`. Floats: none but those of `Quantile`; what is released of ranks is
brought from weights to rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from sordino.columns.bucket_counts import BucketCounts
from sordino.columns.bucket_grid import BucketGrid
from sordino.cost import Cost, compose
from sordino.cost.composition import cost_of_groups
from sordino.entropy import Entropy, fresh_entropy
from sordino.estimators.column_release import Weights
from sordino.estimators.quantiles.quantile import Quantile, QuantileValue
from sordino.estimators.quantiles.quantile_interval import QuantileInterval, QuantilesWithIntervals
from sordino.estimators.quantiles.quantiles import Quantiles, QuantileValues
from sordino.estimators.quantiles.sized_quantile import SizedQuantile
from sordino.estimators.quantiles.weigher import find_weight, list_row_grid
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Adjacency


@final
@dataclass(frozen=True, kw_only=True)
class WeighedQuantiles:
    """Quantiles of weighed rows, and perhaps an interval of each: what a session releases.

    Parameters
    ----------
    searches : Quantile, SizedQuantile, Quantiles or QuantilesWithIntervals
        What is done in each group. A record of it is a step of a weight. Of all rows it is for
        units of 2^bits records; in groups for one record, added or removed.
    bits : int
        A unit counts as 2^bits steps at most, in all groups together.
    adjacency : {"add-remove", "replace-one"}
        What neighbors are.
    grouped : bool
        Whether there are groups.
    weigher : Quantile or None
        What finds as how many rows a unit counts; None where that is declared.
    weight_cap : int or None
        What is declared.
    """

    searches: Quantile | SizedQuantile | Quantiles | QuantilesWithIntervals
    bits: int
    adjacency: Adjacency
    grouped: bool
    weigher: Quantile | None
    weight_cap: int | None

    @property
    def in_all(self) -> bool:
        """True: the quantiles of all groups are one release."""
        return True

    @property
    def mechanisms(self) -> tuple[Quantile | SizedQuantile | Quantiles | QuantileInterval, ...]:
        """All that releases; what releases quantiles comes first."""
        searches = self.searches
        own = searches.mechanisms if isinstance(searches, QuantilesWithIntervals) else (searches,)
        return own if self.weigher is None else (*own, self.weigher)

    @property
    def grid(self) -> BucketGrid:
        """The edges between which weights are added up."""
        return self.searches.grid

    @property
    def row_grid(self) -> BucketGrid:
        """In whose buckets it is counted how many rows units have."""
        return list_row_grid(self.weigher)

    @property
    def cost(self) -> Cost:
        """What all of it costs together."""
        figures = self.searches.cost
        if self.grouped:
            # A step of a weight is a record, and those of a unit may lie in any group.
            figures = cost_of_groups(
                figures,
                most=1 << self.bits,
                anywhere=True,
                exchanged=self.adjacency == "replace-one",
                growing=False,
            )
        return figures if self.weigher is None else compose(self.weigher.cost, figures)

    @property
    def exact(self) -> bool:
        """True: the laws that are proved are the ones that are sampled."""
        return True

    @scrubbed
    def find_weight(self, counts: BucketCounts, *, entropy: Entropy) -> int:
        """Find as how many rows a unit counts at most, from how many rows units have.

        Where it is declared nothing is drawn.
        """
        fresh_entropy(entropy, "WeighedQuantiles.find_weight")
        return find_weight(self.weigher, self.weight_cap, counts, entropy=entropy)

    @scrubbed
    def release_each(
        self, columns: Sequence[BucketCounts], weight: int, *, entropy: Entropy
    ) -> list[QuantileValue | QuantileValues]:
        """Release the quantiles of each group, with noise of their own.

        Parameters
        ----------
        columns : sequence of BucketCounts
            Private: the weights of rows in each bucket of `grid`, added up, of each group.
        weight : int
            As how many rows a unit counted at most when rows were weighed.
        entropy : Entropy
            Where the noise comes from.
        """
        fresh_entropy(entropy, "WeighedQuantiles.release_each")
        found = self.searches.release_each(columns, entropy=entropy)
        return [
            self._tell_rows(one, weight)
            if isinstance(one, QuantileValue)
            else QuantileValues(self._tell_rows(value, weight) for value in one)
            for one in found
        ]

    def _tell_rows(self, one: QuantileValue, weight: int) -> QuantileValue:
        """Return a quantile of weights as one of rows, of which `weight` are all of a unit."""
        weights = Weights(cap=weight, bits=self.bits)
        rows = weights.rows_of_step
        return replace(
            one,
            rank_error_low=one.rank_error_low * rows,
            rank_error_high=one.rank_error_high * rows,
            records=None if one.records is None else round(one.records * rows),
            size=one.records,
            weights=weights,
            mechanism=self.mechanisms,
            cost=self.cost,
        )
