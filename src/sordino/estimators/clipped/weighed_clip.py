"""The common part of figures of weighed rows, with one clip for all groups.

Claim: the weight and the clip cost `cost_to_find`, for any number of groups, and units with any
number of rows in any of them. Proof: docs/proofs/weighted-means.md. Noise: one-sided geometric for
the clip, that of `Quantile` for the largest weight. Floats: none after records are whole numbers of
steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.columns.bucket_counts import BucketCounts
from sordino.columns.bucket_grid import BucketGrid
from sordino.columns.clipped_steps import clip_block
from sordino.constraints import COUNT, OrNone, shown, to_fraction
from sordino.cost import Cost, compose
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clip import Clip, ClipSearch
from sordino.estimators.clipped.shared_clip import SharedClip
from sordino.estimators.column_release import Weights
from sordino.estimators.quantiles.quantile import Quantile
from sordino.estimators.quantiles.weigher import (
    MOST_WEIGHT_BITS,
    WEIGHT_SHARE,
    WeighedRows,
    build_weigher,
    check_weight_cap,
    count_rows,
    count_weights,
    find_weight,
    list_row_grid,
    take_rows,
    weigh_rows,
)
from sordino.scrubbing import scrubbed

_RATIO = 4
_WIDER = 2
"""How much farther out than the edge that is found the clip lies, where edges grow by a factor."""
# A step of the search is a share 2^-k of a unit. Rates have denominators of 2^40, so that the
# smallest one that is followed to a thousandth is about 2^-30.
_RATE_BITS = 29


class WeighedClip(SharedClip):
    """Figures of several groups of people with any number of rows, whose clip is found once."""

    weight_cap: int | None = parameter(
        OrNone(COUNT),
        "Public: as how many rows a unit counts at most, in all groups together; None: it is found "
        "for a twentieth of epsilon.",
        default=None,
    )
    weight_bits: int | None = parameter(
        OrNone(COUNT),
        "Rows weigh whole multiples of 2^-weight_bits of what a unit may, at most 24 bits; None: "
        "as fine as the budget of the clip allows.",
        default=None,
    )
    weigher: Quantile | None = derived(
        "What finds the weight, from how many rows each unit has; None where it is declared."
    )
    why_one: ClassVar[str] = "what a unit has is weighed, whatever the number of its rows"

    def derive(self) -> None:
        """Set what finds the weight and the clip, and divide the budget."""
        if self.weight_bits is not None and self.weight_bits > MOST_WEIGHT_BITS:
            raise InvalidParameter(
                f"{type(self).__name__}.weight_bits must be at most {MOST_WEIGHT_BITS}; got "
                f"{shown(self.weight_bits)}."
            )
        check_weight_cap(type(self).__name__, self.weight_cap, self.records_of_unit)
        weigher = None
        if self.weight_cap is None:
            weigher = build_weigher(self.epsilon, self.adjacency, self.records_of_unit)
        self._set(weigher=weigher)
        if self.clip_gumbel is not None:
            raise InvalidParameter(
                f"{type(self).__name__}.clip_gumbel must be None: with Gumbel noise one search in "
                "a hundred goes ten times too far, and the clip is one for all groups; got "
                f"{shown(self.clip_gumbel)}."
            )
        super().derive()

    @property
    def share_to_find(self) -> Fraction:
        """The share of epsilon that finds the weight and the clip."""
        return self.share_of_clip + (0 if self.weigher is None else WEIGHT_SHARE)

    @property
    def share_of_totals(self) -> Fraction:
        """About which share of epsilon is left for the totals, whether the weight is found or not.

        So the search is the same where a weight that was found is declared, for another look.
        """
        return 1 - self.share_of_clip - WEIGHT_SHARE

    @property
    def cost_to_find(self) -> Cost:
        """What is spent before the totals."""
        found = super().cost_to_find
        return found if self.weigher is None else compose(self.weigher.cost, found)

    @cached_property
    def bits(self) -> int:
        """A unit counts as 2^bits steps of the search at most; as fine as the budget allows."""
        if self.weight_bits is not None:
            return self.weight_bits
        # At most so many parts: a unit may leave one side of 0 and join the other.
        rate = to_fraction(self.epsilon) * self.share_of_clip / (_RATIO + 2)
        finest = math.floor(rate * (1 << _RATE_BITS)).bit_length() - 1
        return max(1, min(MOST_WEIGHT_BITS, finest))

    @property
    def records_of_unit(self) -> int:
        """As how many steps of the search one unit counts at most."""
        return 1 << self.bits

    def make_search(self, **options: Any) -> ClipSearch:
        """Return the search for the clip, over rows with their weights."""
        growth = float(to_fraction(self.growth))
        return ClipSearch(
            **options | {"rows_per_unit": self.records_of_unit},
            ratio=_RATIO,
            further=math.floor(math.log(_WIDER) / math.log(growth)),
            apart=self.groups_of_clip < self.groups,
        )

    @property
    def row_grid(self) -> BucketGrid:
        """In whose buckets it is counted how many rows units have."""
        return list_row_grid(self.weigher)

    def take_rows(self, values: Any) -> WeighedRows:
        """Return the numbers that units have in groups; nothing that they hold raises."""
        return take_rows(values, self.groups, type(self).__name__)

    @scrubbed
    def count_rows(self, values: Any) -> BucketCounts:
        """Return in which buckets of the grid of `weigher` the numbers of rows of units lie."""
        return count_rows(self.take_rows(values), self.row_grid)

    @scrubbed
    def find_weight(self, counts: BucketCounts, *, entropy: Entropy = SYSTEM) -> int:
        """Find as how many rows a unit counts at most, with fresh noise.

        Where it is declared it is that, and nothing is drawn.
        """
        return find_weight(self.weigher, self.weight_cap, counts, entropy=entropy)

    def weigh_rows(self, rows: WeighedRows, weight: int) -> NDArray[np.int64]:
        """Return the weight of each row: 2^bits over the rows of its unit, or over `weight`."""
        return weigh_rows(rows, weight, self.records_of_unit)

    def step_rows(self, values: Any, clip: Clip, weight: int) -> Iterator[tuple[int, int, int]]:
        """Yield the group of each row, its steps within the clip and its weight; private."""
        rows = self.take_rows(values)
        (top, bottom) = clip.step.as_integer_ratio()
        steps, _ = clip_block(
            rows.numbers, clip.low, clip.high, top.bit_length() - bottom.bit_length()
        )
        weights = self.weigh_rows(rows, weight)
        return zip(rows.group.tolist(), steps.tolist(), weights.tolist(), strict=True)

    def describe_weights(self, clip: Clip, weight: int) -> Weights:
        """Return what a release says of how rows were weighed; public."""
        # How many units the search has left beyond the clip is public.
        beyond = clip.mechanism.tail // self.records_of_unit
        return Weights(cap=weight, bits=self.bits, beyond=beyond)

    def check_groups(self, clips: Sequence[Clip], groups: int) -> None:
        """Raise `InvalidParameter` for clips of other searches, or totals of too many groups."""
        found = {id(clip): clip for clip in clips}
        for clip in found.values():
            self.check_clip(clip, "finish_each")
        shared = self.groups_of_clip == self.groups
        if shared and len({clip.tests for clip in found.values()}) > 1:
            raise InvalidParameter(
                f"{type(self).__name__}.finish_each needs one clip for all groups; got several."
            )
        # Each total is rounded down, and the noise is for so many of them.
        if groups > self.groups:
            raise InvalidParameter(
                f"{type(self).__name__}.finish_each needs totals of at most {self.groups} groups; "
                f"got {groups}."
            )

    @scrubbed
    def count_each(self, values: Any, weight: int) -> list[BucketCounts]:
        """Return the weights of rows in each bucket of `grid`, of each search; private."""
        if self.groups_of_clip == self.groups:
            return [self.count_weights(values, weight)]
        rows = self.take_rows(values)
        weights = self.weigh_rows(rows, weight)
        return [
            count_weights(rows, weights * (rows.group == group), self.grid)
            for group in range(self.groups)
        ]

    @scrubbed
    def find_clips(
        self, counts: Sequence[BucketCounts], *, entropy: Entropy = SYSTEM
    ) -> list[Clip]:
        """Find the clip of each group, with fresh noise, from the weights over `grid`.

        From those of all groups together where they have one clip, else from those of each.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.find_clips")
        if self.groups_of_clip == self.groups:
            [together] = counts
            return [self.clip_from(together, entropy=entropy)] * self.groups
        # Searches in more groups than the noise is for would lose more.
        if len(counts) > self.groups:
            raise InvalidParameter(
                f"{type(self).__name__}.find_clips needs the weights of at most {self.groups} "
                f"groups; got {len(counts)}."
            )
        return self.search.release_each(counts, entropy=entropy)

    @scrubbed
    def count_weights(self, values: Any, weight: int) -> BucketCounts:
        """Return the weights of rows in each bucket of `grid`, added up; private."""
        rows = self.take_rows(values)
        return count_weights(rows, self.weigh_rows(rows, weight), self.grid)
