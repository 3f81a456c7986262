"""The common part of sums and means of several groups with one clip for all of them.

Claim: the search, and the count of units that says where it ends, cost `cost_to_find`, for any
number of groups. Proof: docs/proofs/clipped-sums.md, docs/proofs/weighted-means.md. Noise:
one-sided geometric or Gumbel for the clip, discrete Laplace for the count. Floats: none.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, cast

from sordino.columns.bucket_counts import BucketCounts
from sordino.constraints import COUNT, SHARE, Number, OrNone, shown, to_fraction
from sordino.cost import ZCDP, Cost, Pure, compose
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_column import NoisyTotals
from sordino.mechanisms import LaplaceMechanism
from sordino.releases import Value
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Sensitivity

_LEAST_SHARE, _SHARE_OF_ONE = Fraction(1, 20), 350
_COUNT_SHARE = Fraction(3, 100)
_MANY_BEYOND = 100
"""Where more units than that are meant to lie beyond the clip, it is seen that they are a tenth."""


class SharedClip(NoisyTotals):
    """Figures of several groups whose clip is found once, from what units have in all of them."""

    groups: int = parameter(
        COUNT, "How many groups there are; or, where a release finds them, at most."
    )
    # Of one group it is a number: what follows from the groups stands in for it here.
    clip_share: Number | None = parameter(  # type: ignore[assignment]
        OrNone(SHARE),
        "Which share of epsilon finds the clip; None: .35 over the root of groups, at least .05.",
        default=None,
    )
    counter: LaplaceMechanism | None = derived(
        "What counts units with a number, where many may lie beyond the clip; else None."
    )
    in_all: ClassVar[bool] = True
    why_one: ClassVar[str]
    """Why a unit has one record here."""

    def derive(self) -> None:
        """Set the search for the clip, and divide the budget."""
        if self.share_to_find + _COUNT_SHARE >= 1:
            raise InvalidParameter(
                f"{type(self).__name__}.clip_share must be below "
                f"{float(1 - _COUNT_SHARE - self.share_to_find + self.share_of_clip)}, which "
                "leaves something for a count of units and for the totals; got "
                f"{shown(self.clip_share)}."
            )
        super().derive()
        if self.rows_per_unit != 1:
            raise InvalidParameter(
                f"{type(self).__name__}.rows_per_unit must be 1: {self.why_one}; got "
                f"{shown(self.rows_per_unit)}."
            )
        counter = None
        if self._counts_units:
            counter = LaplaceMechanism(
                epsilon=to_fraction(self.epsilon) * _COUNT_SHARE,
                sensitivity=Sensitivity(
                    bound=1,
                    monotone=self.adjacency == "add-remove",
                    adjacency=self.adjacency,
                    step=1,
                ),
            )
        self._set(counter=counter)
        self._set(cost=compose(self.cost_to_find, self.total_cost))
        self.check_noise()

    @property
    def share_of_clip(self) -> Fraction:
        """The share of epsilon that finds the clip."""
        if self.clip_share is not None:
            return to_fraction(self.clip_share)
        return max(_LEAST_SHARE, Fraction(_SHARE_OF_ONE, math.isqrt(self.groups_of_clip * 10**6)))

    @property
    def share_to_find(self) -> Fraction:
        """The share of epsilon that is spent before the totals, but for a count of units."""
        return self.share_of_clip

    @property
    def share_of_totals(self) -> Fraction:
        """About which share of epsilon is left for the totals."""
        return 1 - self.share_to_find

    @property
    def cost_to_find(self) -> Cost:
        """What is spent before the totals: on the clip, and on counting units."""
        counted = () if self.counter is None else (self.counter.cost,)
        return compose(self.search.cost, *counted)

    @property
    def records_of_unit(self) -> int:
        """As how many records of the search one unit counts at most."""
        return 1

    @property
    def _units_beyond(self) -> int:
        """How many units are meant to lie beyond the clip, if there are enough of them."""
        # When the clip rises by one, the noise of all groups together grows by about so much.
        times = 1 if self.adjacency == "add-remove" else 2
        left = to_fraction(self.epsilon) * self.share_of_totals
        return math.ceil(times * self.groups_of_clip / left)

    def widen(self, moved: int, budget: Pure | ZCDP, *, right: bool) -> int:
        """Return how far totals of neighbors are apart, which one unit moves by so much.

        `right` if vectors of two units are at a right angle at most, as those without numbers below
        0 are: then the L2 norm of what lies between them is smaller than twice that.
        """
        if self.adjacency == "add-remove":
            return moved
        # One unit leaves and another one comes.
        square = isinstance(budget, ZCDP) and right
        return math.isqrt(2 * moved**2 - 1) + 1 if square else 2 * moved

    def find_tail(self) -> int:
        """Return how many records of the search are meant to lie beyond the clip."""
        return self._units_beyond * self.records_of_unit

    @property
    def groups_of_clip(self) -> int:
        """How many groups have one clip."""
        return self.groups

    @property
    def _counts_units(self) -> bool:
        # Of one clip alone: in each of several groups a unit would count once.
        return self.groups_of_clip == self.groups and self._units_beyond > _MANY_BEYOND

    @property
    def total_budget(self) -> Pure | ZCDP:
        """What the noise of the totals may spend: what is left of epsilon, or a rho."""
        budget = super().total_budget
        if isinstance(budget, ZCDP):
            return budget
        counted = _COUNT_SHARE if self._counts_units else 0
        return Pure(epsilon=to_fraction(self.epsilon) * (1 - self.share_to_find - counted))

    @scrubbed
    def clip_from(self, counts: BucketCounts, *, entropy: Entropy = SYSTEM) -> Clip:
        """Find the clip, with fresh noise, from counts over `grid`.

        They are of what units add up to, or of the weights of their rows.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.clip_from")
        search = self.search
        if self.counter is not None:
            # One unit moves that by 1 at most: whole units, as much as all of them weigh.
            units = counts.records // self.records_of_unit
            noisy = cast("Value", self.counter.release(units, entropy=entropy)).value
            most = max(1, int(noisy) // 10) * self.records_of_unit
            search = replace(search, tail=min(search.tail, most))
        return search.release(counts, entropy=entropy)

    def check_clip(self, clip: Any, method: str) -> None:
        """Raise `InvalidParameter` unless `clip_from` of the same parameters released the clip."""
        # The tail may be one that follows from how many units there are.
        found = getattr(clip, "mechanism", None)
        if found is not None and getattr(found, "tail", 0) <= self.search.tail:
            clip = replace(clip, mechanism=replace(found, tail=self.search.tail))
        super().check_clip(clip, method)
