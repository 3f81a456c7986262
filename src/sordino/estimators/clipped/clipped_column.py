"""The common part of sums and means without a guessed bound: a private clip, then noisy totals.

Claim: clip and totals together cost `cost`, for units with at most `rows_per_unit` records
[durfee2023, Sec. 6.3]: at most epsilon, or a share of it and a rho. Proof:
docs/proofs/clipped-sum.md. Noise: that of `ClipSearch`, then that of `TotalNoise`. Floats: none
after records are whole numbers of steps; the released floats are exact fractions, rounded once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal

from sordino.columns.bucket_counts import BucketCounts
from sordino.columns.bucket_grid import BucketGrid
from sordino.columns.bucket_sums import BucketSums
from sordino.constraints import (
    ADJACENCY,
    COUNT,
    FINITE,
    GROWTH,
    POSITIVE,
    SHARE,
    TRUTH,
    Number,
    OrNone,
    shown,
    to_fraction,
)
from sordino.cost import RDP, ZCDP, Cost, Pure, compose
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy, renew
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clip import Clip, ClipSearch, Sides
from sordino.estimators.clipped.clipped_value import ClippedValue
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.estimators.column_release import Weights
from sordino.mechanisms.base import Mechanism
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Adjacency

# Where the narrowest clip is at least so wide, in record steps, the totals of any clip move by at
# least a quarter of that; and where epsilon is at least so large, their noise has as many steps as
# are said to be.
_WIDE_CLIP, _LEAST_EPSILON, LEAST_STEPS = 1 << 30, Fraction(1, 1 << 18), 1 << 10


def _find_total_cost(search: ClipSearch, budget: Pure | ZCDP) -> Pure | RDP | ZCDP:
    """Return what the totals cost, whatever clip is found.

    A pure budget has the curve of Laplace noise.
    """
    narrowest = search.clip((1, 1) if search.sides == "both" else (1,), simulated=True)
    wide = narrowest.high - narrowest.low >= _WIDE_CLIP
    if isinstance(budget, ZCDP) or not wide or budget.epsilon_ < _LEAST_EPSILON:
        return budget
    # More steps cost less ("Laplace totals" on the proof page), and these are nearly as good as any
    # number.
    return RDP(laplace=budget.epsilon_, laplace_steps=LEAST_STEPS)


class ClippedColumn(Mechanism):
    """A mechanism in two stages: it finds the clip, then releases noisy totals.

    One share of the budget finds the clip, the rest pays for the totals.
    """

    epsilon: Number = parameter(
        POSITIVE, "Budget of the clip and of what is computed within it, together."
    )
    adjacency: Adjacency = parameter(
        ADJACENCY,
        "Which data sets are neighbors: one unit more or less, or one unit exchanged for another.",
    )
    cap: Number = parameter(
        FINITE,
        "Public, above 0 and above `lower`: the largest clip, in the unit of the values. Most "
        "releases do not notice a generous one; see the notes of `ClippedSum`.",
    )
    lower: Number | None = parameter(
        OrNone(FINITE),
        "Public: no record counts as less. From 0 on it is the lower end of the clip; the "
        "closer to the values, the less noise. None: minus the cap; then, and for every number "
        "below 0, there is a search on either side of 0.",
    )
    growth: Number = parameter(GROWTH, "By which factor edges grow.", default=1.05)
    unit: Number = parameter(
        POSITIVE,
        "In the unit of the values: nearer than this to 0 (to `lower`) edges are about unit "
        "(growth - 1) apart. Where typical values are far from 1, give their order of "
        "magnitude, as far as it is public.",
        default=1.0,
    )
    rows_per_unit: int = parameter(
        COUNT,
        "How many records a unit has at most. You bound them; see `Session.sum` for a table "
        "where sordino does.",
        default=1,
    )
    clip_share: Number = parameter(SHARE, "Which share of epsilon finds the clip.", default=0.35)
    clip_gumbel: Number | None = parameter(
        OrNone(POSITIVE),
        "Budget of each search for an end of the clip, with Gumbel noise: the epsilon of its "
        "`cost.GumbelStage`, which an account with a delta or a rho gets more from; the share "
        "of epsilon for the clip is not spent then. None: one-sided geometric noise, for that "
        "share.",
        default=None,
    )
    total_rho: Number | None = parameter(
        OrNone(POSITIVE),
        "Budget of the totals in zero-concentrated privacy: they get discrete Gaussian noise, "
        "and of epsilon only the share for the clip is spent, on the same search. None: "
        "discrete Laplace noise, for the rest of epsilon.",
        default=None,
    )
    search: ClipSearch = derived("The first stage: `cost` and `release`.")
    total_cost: Pure | RDP | ZCDP = derived(
        "What the noise of the totals spends: what is left of epsilon, with the curve of the "
        "noise; or a rho."
    )
    cost: Cost = derived("What a release spends; fixed before any data are seen.")
    in_all: ClassVar[bool] = False
    """Whether one release is of all groups, and its cost that of all of them."""
    takes_squares: ClassVar[bool] = False
    """Whether it needs squares of records, too."""

    def derive(self) -> None:
        """Set the search for the clip, and divide the budget."""
        budget = to_fraction(self.epsilon)
        # Fractions: the two shares of the budget add up to it exactly.
        share = self.share_of_clip * budget
        cap = to_fraction(self.cap)
        lower = -cap if self.lower is None else to_fraction(self.lower)
        if cap <= max(lower, Fraction(0)):
            raise InvalidParameter(
                f"{type(self).__name__}.cap must be positive and above lower; got "
                f"{shown(self.cap)}."
            )
        signed = lower < 0
        if signed:
            # The grid is symmetric, so it reaches to the farther end. The clip still ends at
            # `lower` and the cap.
            grid = BucketGrid.geometric(
                lower=None, cap=max(cap, -lower), growth=self.growth, unit=self.unit
            )
        else:
            grid = BucketGrid.geometric(lower=lower, cap=cap, growth=self.growth, unit=self.unit)
        sides: Sides = "above"
        if signed:
            # The noise of a sum under add-remove follows the end that is farther from 0, so one
            # search over distances is enough. Otherwise it follows the width, and each side is
            # searched.
            sides = "magnitude" if self.one_distance else "both"
        search = self.make_search(
            epsilon=share,
            grid=grid,
            sides=sides,
            lower=lower,
            cap=cap,
            tail=self.find_tail(),
            rows_per_unit=self.rows_per_unit,
            adjacency=self.adjacency,
            gumbel=None if self.clip_gumbel is None else to_fraction(self.clip_gumbel),
        )
        # The totals follow a clip that is public by then, at a cost that is the same for every
        # clip.
        total_cost = _find_total_cost(search, self.total_budget)
        self._set(search=search, total_cost=total_cost, cost=compose(search.cost, total_cost))

    def make_search(self, **options: Any) -> ClipSearch:
        """Return the search for the clip."""
        return ClipSearch(**options)

    @property
    def one_distance(self) -> bool:
        """Whether values of both signs get one search, over their distance from 0."""
        return False

    @property
    def share_of_clip(self) -> Fraction:
        """The share of epsilon that finds the clip."""
        return to_fraction(self.clip_share)

    @property
    def cost_to_find(self) -> Cost:
        """What is spent before the totals."""
        return self.search.cost

    def find_tail(self) -> int:
        """Return how many records are meant to lie beyond the clip."""
        # When the clip rises by one, the noise grows by about so much. Beyond the best clip there
        # are about as many records.
        left = to_fraction(self.epsilon) * (1 - self.share_of_clip)
        return math.ceil(self.rows_per_unit / left)

    @property
    @abstractmethod
    def totals_grow(self) -> bool:
        """Whether a record can only raise the totals that get noise; public."""

    @property
    def total_noise(self) -> Literal["laplace", "gaussian"]:
        """Which noise the totals get."""
        return "laplace" if self.total_rho is None else "gaussian"

    @property
    def total_budget(self) -> Pure | ZCDP:
        """What the noise of the totals may spend: what is left of epsilon, or a rho."""
        if self.total_rho is not None:
            return ZCDP(rho=to_fraction(self.total_rho))
        return Pure(epsilon=to_fraction(self.epsilon) * (1 - self.share_of_clip))

    def check_noise(self) -> None:
        """Raise `InvalidParameter` if the noise of any clip would be too fine or too coarse."""
        searches = len(self.search.runs(BucketCounts.empty(self.grid)))
        # What is refused is refused here, before any data are seen. Steps grow with the clip, so
        # the narrowest and the widest clip stand for all.
        for tests in (1, None):
            self.noise_for(self.search.clip((tests,) * searches, simulated=True)).check(
                type(self).__name__
            )

    @property
    def grid(self) -> BucketGrid:
        """The edges that records are compared with."""
        return self.search.grid

    @abstractmethod
    def noise_for(self, clip: Clip, budget: Pure | ZCDP | None = None) -> TotalNoise:
        """Return the noise of the totals for this clip: each figure says which totals it adds up.

        With a `budget` it is that of another look at the same clip, else what is left of epsilon.
        """

    @abstractmethod
    def estimate(
        self, clip: Clip, noise: TotalNoise, noisy: Sequence[int | Fraction], records: int | None
    ) -> tuple[float | Fraction, float]:
        """Return the figure that noisy totals tell, in the unit of values, and its standard error.

        The totals are in steps of `noise`, which is public; `records` is their number where that is
        public.
        """

    @scrubbed
    def clip_from(self, counts: BucketCounts, *, entropy: Entropy = SYSTEM) -> Clip:
        """Find the clip, with fresh noise, from counts over `grid`.

        The first stage of `release`.
        """
        return self.search.release(counts, entropy=entropy)

    def _draw_each(
        self, clips: Sequence[Clip], totals: Sequence[Sequence[int]], entropy: Entropy
    ) -> list[tuple[TotalNoise, tuple[int, ...]]]:
        """Return the noise of each group, and its totals with it."""
        # Clips of the same edges are one object, and their noise is drawn in one call.
        alike: dict[int, list[int]] = defaultdict(list)
        for group, clip in enumerate(clips):
            alike[id(clip)].append(group)
        found: dict[int, tuple[TotalNoise, tuple[int, ...]]] = {}
        for groups in alike.values():
            noise = self.noise_for(clips[groups[0]])
            drawn = noise.noisy_each([totals[group] for group in groups], entropy)
            found.update(
                (group, (noise, noisy)) for group, noisy in zip(groups, drawn, strict=True)
            )
        return [found[group] for group in range(len(clips))]

    def check_clip(self, clip: Any, method: str) -> None:
        """Raise `InvalidParameter` unless `clip_from` of the same parameters released the clip."""
        # The noise is made for one clip: with another one, what was paid would not be what is
        # released.
        if not isinstance(clip, Clip) or clip.mechanism != self.search:
            raise InvalidParameter(
                f"{type(self).__name__}.{method} needs the Clip that clip_from of the same "
                "parameters released; got another one."
            )


class NoisyTotals(ClippedColumn):
    """A figure of sums: a sum, or a mean."""

    def estimate(
        self, clip: Clip, noise: TotalNoise, noisy: Sequence[int | Fraction], records: int | None
    ) -> tuple[float, float]:
        """Return the figure that noisy totals tell, and the standard deviation of its noise.

        Of a sum it is the total itself.
        """
        del clip, records  # of a sum neither is needed
        # The deviation of the noise alone: what clipping cut off is known to nobody.
        return float(noisy[0] * noise.step), noise.deviation * float(noise.step)

    @scrubbed
    def add_noise(
        self,
        total: Any,
        records: int,  # noqa: ARG002 - a sum does not need their number
        clip: Clip,
        noise: TotalNoise,
        *,
        entropy: Entropy,
    ) -> ClippedValue:
        """Return the private total of the clipped records, or of one group, with this noise.

        The caller pays for it.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.add_noise")
        noisy = noise.noisy_some([0 if total is None else int(total)], entropy)
        return self.result(clip, noise, noisy, None, simulated=entropy.simulated)

    def result(
        self,
        clip: Clip,
        noise: TotalNoise,
        noisy: tuple[int, ...],
        records: int | None,
        *,
        simulated: bool,
        weights: Weights | None = None,
    ) -> ClippedValue:
        """Return what is released: a figure, and what its interval rests on."""
        value, error = self.estimate(clip, noise, noisy, records)
        return ClippedValue(
            value=value,
            clip=clip.ends,
            capped=clip.capped,
            noise_error=error,
            found=clip,
            noise=noise,
            noisy=noisy,
            records=records,
            weights=weights,
            mechanism=self,
            cost=self.cost,
            simulated=clip.simulated or simulated,
        )


class SummedColumn(NoisyTotals):
    """A figure of sums of records, of all of them or of those of each group by itself."""

    def read(self, values: Any, *, owner: str) -> BucketSums:
        """Count and add up private values, once.

        That gives what the clip is found from, and the sum within any clip.
        """
        return BucketSums.of(values, self.search.ladder, owner=owner)

    @scrubbed
    def totals(self, values: Any, clip: Clip) -> tuple[int, ...]:
        """Return the totals of private values that get noise, in record steps. Private.

        The sum of the clipped records; of a mean of a private number of them the two totals of
        their distances from either end.
        """
        sums = self.read(values, owner=f"{type(self).__name__}.totals: values")
        return self.totals_of(sums, [clip])[0]

    @abstractmethod
    def totals_of(self, sums: BucketSums, clips: Sequence[Clip]) -> Sequence[tuple[int, ...]]:
        """Return the totals of each group that get noise, in record steps. Private."""

    @scrubbed
    def release_each(self, sums: BucketSums, *, entropy: Entropy = SYSTEM) -> list[ClippedValue]:
        """Release the figure of each group: what it would be alone, with noise of its own.

        Parameters
        ----------
        sums : BucketSums
            Private: what was read of the groups, by `search.ladder`.
        entropy : Entropy
            Where the noise comes from.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.release_each")
        clips = self.search.release_each(sums, entropy=entropy)
        sizes = self._public_sizes(sums)
        totals = self.totals_of(sums, clips)
        renew(entropy)  # the second stage
        drawn = self._draw_each(clips, totals, entropy)
        return [
            self.result(clip, noise, noisy, size, simulated=entropy.simulated)
            for clip, size, (noise, noisy) in zip(clips, sizes, drawn, strict=True)
        ]

    def _public_sizes(self, sums: BucketSums) -> Sequence[int | None]:
        """Return the number of records of each group where it is public."""
        return [None] * sums.groups


class SizedColumn(ClippedColumn):
    """A figure that is divided by the number of records, which is public or not."""

    size_is_public: bool = parameter(
        TRUTH,
        "Whether it is public that every record has a number, and how many there are: only "
        "under replace-one, where a unit is one record, none was left out because of what it "
        "holds, and none can be without a number, such as a column of whole numbers that a "
        "database declares NOT NULL. If one is without a number all the same, 0 (moved into "
        "the clip) keeps its place: privacy holds.",
        default=False,
    )

    def derive(self) -> None:
        """Set the search for the clip, and divide the budget."""
        super().derive()
        if self.size_is_public and (self.adjacency != "replace-one" or self.rows_per_unit > 1):
            raise InvalidParameter(
                f"{type(self).__name__}.size_is_public must be False under add-remove and for "
                "units with several records: the number of records is private there."
            )
        self.check_noise()

    @property
    def totals_grow(self) -> bool:
        """Whether a record can only raise the totals: distances and their products do."""
        return not self.size_is_public

    @property
    def moved_records(self) -> int:
        """How many records of neighbors may move the totals."""
        # If one unit leaves and another one joins, the records of both do. Where the number of
        # records is public, one record stands in the place of another.
        exchanged = self.adjacency == "replace-one" and not self.size_is_public
        return self.rows_per_unit * (2 if exchanged else 1)
