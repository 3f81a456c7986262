"""The means of several groups, with one clip for all of them, of people with any number of rows.

Claim: epsilon-differentially private under either adjacency, for any number of groups, and units
with any number of rows in any of them; with `total_rho` what is found for shares of epsilon, and
the totals for that rho. Proof: docs/proofs/weighted-means.md. Noise: one-sided geometric for the
clip, that of `Quantile` for the largest weight, discrete Laplace or Gaussian for the totals, on
whole numbers. Floats: none after records are whole numbers of steps; the released floats are exact
fractions, rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast, final

from sordino.claims import ClaimsAbout
from sordino.constraints import TRUTH
from sordino.cost import ZCDP, Pure
from sordino.declared import parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy, renew
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_mean import estimate_mean, take_distances
from sordino.estimators.clipped.clipped_value import ClippedValue
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.estimators.clipped.weighed_clip import WeighedClip
from sordino.scrubbing import scrubbed


@final
class ClippedMeans(WeighedClip):
    """Average private numbers of people in each of several groups, whose range nobody knows.

    People have any number of rows. Who has at most `weight_cap` of them, in all groups together,
    counts with each; who has more counts as so many rows, spread evenly over all that it has. So
    what is released of a group is a mean with these weights. One share of the budget finds the
    weight, one a clip for all groups. The rest goes to two totals of each group at once: how far
    its rows are from the lower end of the clip, and from the upper end. One unit moves all of them
    together by the width of the clip times `weight_cap`, in however many groups it is.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Notes
    -----
    No private interval is about the plain mean over rows: one more person with enough rows makes
    any number of it. So the weight is part of what is released. It is found as about the .9
    quantile of the rows of a person, on a twentieth of epsilon.

    The search aims at groups / epsilon of the totals units' worth of rows beyond the clip, where
    cutting off more costs as much as it saves in noise of all groups. Where these are many (above
    100), 3% of epsilon count the units, and no more than about a tenth of them are meant to lie
    beyond. Then the clip is taken twice as far out, in edges, which leaves nearly no bias; and the
    rate of its threshold is four times that of its counts, so that it is more than a thousand times
    too far with a probability of less than 1e-7.

    With `upper` rows at or beyond the upper end of the clip put all they have into a third total in
    place of the one from the lower end, so that no unit moves the three together by more. The mean
    has up to 1.4 times the noise then, and an upper end (`true_high`) by what lies beyond.

    All shares are choices, tuned on made-up shops, and no claim.

    Examples
    --------
    >>> import sordino as sd
    >>> prices = [[[20, 35, 30], [50]], [[], [65, 70]], [[25], [60]]] * 2000
    >>> mechanism = sd.ClippedMeans(groups=2, epsilon=1, adjacency="add-remove", lower=0, cap=1e6)
    >>> food, books = mechanism.release(prices, entropy=sd.Seeded(7))
    >>> round(food.value), round(books.value), food.clip == books.clip
    (27, 62, True)
    """

    upper: bool = parameter(
        TRUTH,
        "Whether there is an upper end of the mean as it is: what rows beyond the clip weigh is a "
        "third total of each group, at the same cost. It holds if no number lies above the cap.",
        default=False,
    )

    own_clips: bool = parameter(
        TRUTH,
        "Whether each group has a clip of its own, for groups of different scale: searches in all "
        "groups cost what one costs, and under replace-one a little more.",
        default=False,
    )

    @property
    def groups_of_clip(self) -> int:
        """How many groups have one clip."""
        return 1 if self.own_clips else self.groups

    @property
    def totals_of_group(self) -> int:
        """How many totals of a group get noise."""
        return 3 if self.upper else 2

    @property
    def totals_grow(self) -> bool:
        """True: a unit can only raise the totals of distances."""
        return True

    def noise_for(self, clip: Clip, budget: Pure | ZCDP | None = None) -> TotalNoise:
        """Return the noise of the totals for this clip; of another look with a `budget` of its own.

        Its bound is how far the totals of neighbors may be apart, all of them together.
        """
        budget = budget or self.total_budget
        moved = (clip.top - clip.bottom) << self.bits
        return TotalNoise(
            budget=budget,
            # Distances are not negative, and a row beyond is in one total in place of another.
            bound=self.widen(moved, budget, right=True),
            totals=self.totals_of_group * self.groups,
            # A row of the weight 1 has 2^bits of these steps for each of its own.
            record_step=clip.step / self.records_of_unit,
            adjacency=self.adjacency,
            apart=self.groups_of_clip < self.groups,
        )

    @scrubbed
    def release(self, values: Any, *, entropy: Entropy = SYSTEM) -> list[ClippedValue]:
        """Average private values in each group, with fresh noise.

        Parameters
        ----------
        values : list of lists, shape (n, groups)
            Private: what each unit has in each group, a number or a list of numbers of any length.
            What is no number, such as None or NaN, is missing, and so is all of a unit that has
            another number of groups.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If it is no list.
        """
        fresh_entropy(entropy, "ClippedMeans.release")
        weight = self.find_weight(self.count_rows(values), entropy=entropy)
        clips = self.find_clips(self.count_each(values, weight), entropy=entropy)
        # Of each clip the totals of the groups that have it.
        found = {id(clip): self.weigh_totals(values, clip, weight) for clip in clips}
        totals = [found[id(clip)][group] for group, clip in enumerate(clips)]
        return self.finish_each(totals, clips, weight, entropy=entropy)

    @scrubbed
    def weigh_totals(self, values: Any, clip: Clip, weight: int) -> list[tuple[int, ...]]:
        """Return for each group what its rows add up to, and their weights; private.

        Of a row, its steps within the clip times its weight. With `upper` also the weights of those
        at or beyond the upper end.
        """
        found = [(0, 0, 0)] * self.groups
        for place, step, row in self.step_rows(values, clip, weight):
            total, known, beyond = found[place]
            beyond += row * (step >= clip.high)
            found[place] = total + step * row, known + row, beyond
        return [one if self.upper else one[:2] for one in found]

    @scrubbed
    def list_totals(self, clip: Clip, total: int, known: int, beyond: int = 0) -> tuple[int, ...]:
        """Return the totals of a group that get noise, in steps of the clip times weights; private.

        How far its rows are from the lower end, and from the upper one; with `upper` the distances
        from the lower end of those beyond are a total of their own.
        """
        below, above = take_distances(total, known, clip)
        if not self.upper:
            return below, above
        third = beyond * (clip.high - clip.bottom)
        return below - third, above, third

    @scrubbed
    def totals(self, values: Any, clip: Clip) -> tuple[int, ...]:
        """Return the totals that get noise, in record steps, with the declared weight. Private."""
        if self.weight_cap is None:
            raise InvalidParameter("ClippedMeans.totals needs a declared weight_cap; got None.")
        found = self.weigh_totals(values, clip, self.weight_cap)
        return tuple(one for each in found for one in self.list_totals(clip, *each))

    @scrubbed
    def finish_each(
        self,
        totals: Sequence[tuple[int, ...]],
        clips: Sequence[Clip],
        weight: int,
        *,
        entropy: Entropy = SYSTEM,
    ) -> list[ClippedValue]:
        """Add noise to the totals of each group.

        Parameters
        ----------
        totals : sequence of tuples of int, length groups
            Private: what the rows of each group add up to, in whole steps of `clip` times their
            weights, and these weights; with `upper` also those of rows at or beyond its upper end.
        clips : sequence of Clip, length groups
            Those that `find_clips` of these means released, the same one for all groups unless each
            has its own.
        weight : int
            As how many rows a unit counted at most when rows were weighed.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If a clip is that of another search, or there are more totals than groups.
        """
        fresh_entropy(entropy, "ClippedMeans.finish_each")
        self.check_groups(clips, len(totals))
        if len(clips) != len(totals):
            raise InvalidParameter(
                f"ClippedMeans.finish_each needs a clip for each of {len(totals)} groups; got "
                f"{len(clips)}."
            )
        distances = [
            self.list_totals(clip, *map(int, each))
            for clip, each in zip(clips, totals, strict=True)
        ]
        renew(entropy)  # the rows were read since the clips were found
        return [
            self._weighed(clip, noise, noisy, weight, simulated=entropy.simulated)
            for clip, (noise, noisy) in zip(
                clips, self._draw_each(clips, distances, entropy), strict=True
            )
        ]

    @scrubbed
    def add_noise(
        self, total: Any, records: int, clip: Clip, noise: TotalNoise, *, entropy: Entropy
    ) -> ClippedValue:
        """Return the mean of one group with this noise; the caller pays for it.

        Private: what its rows add up to times their weights, and these weights. The weight is the
        declared one.
        """
        fresh_entropy(entropy, "ClippedMeans.add_noise")
        distances = self.list_totals(clip, 0 if total is None else int(total), int(records))
        noisy = noise.noisy_some(distances, entropy)
        return self._weighed(
            clip, noise, noisy, cast("int", self.weight_cap), simulated=entropy.simulated
        )

    def _weighed(
        self,
        clip: Clip,
        noise: TotalNoise,
        noisy: tuple[int, ...],
        weight: int,
        *,
        simulated: bool,
    ) -> ClippedValue:
        """Return what is released of a group."""
        weights = self.describe_weights(clip, weight)
        return self.result(clip, noise, noisy, None, simulated=simulated, weights=weights)

    def estimate(
        self,
        clip: Clip,
        noise: TotalNoise,
        noisy: Sequence[int | Fraction],
        records: int | None,  # noqa: ARG002 - their number is private
    ) -> tuple[float, float]:
        """Return the mean of a group, and its standard error to first order."""
        return estimate_mean(clip, noise, noisy)


# Just below an edge, in as many rows as the weight: there a unit loses most. The search finds it
# beyond all edges before, and the totals add it nearly whole.
_NEAR = 8 - 2**-40
_WITNESS = ((_NEAR, _NEAR), ())
_SMALL: dict[str, Any] = {"groups": 2, "cap": 8, "growth": 2, "weight_cap": 2, "weight_bits": 2}
_MEANS_RHO = Fraction(1, 2)
_claim = ClaimsAbout("ClippedMeans", proof="weighted-means.md")
CLAIMS = (
    _claim(
        "Clip and means of all groups together are epsilon-differentially private under either "
        "adjacency, whatever rows a unit has in them.",
        ("durfee2023, Sec. 6.3",),
        (
            ClippedMeans(epsilon=2, adjacency="add-remove", lower=None, **_SMALL),
            (_WITNESS, ((1,), (-2, 2, 3))),
            (((1,), (-2, 2, 3)),),
        ),
        (ClippedMeans(epsilon=2, adjacency="add-remove", lower=0, **_SMALL), (_WITNESS,), ()),
        (
            ClippedMeans(epsilon=2, adjacency="replace-one", lower=0, **_SMALL),
            (_WITNESS,),
            (_WITNESS[::-1],),
        ),
        # From one side of 0 to the other.
        (
            ClippedMeans(epsilon=2, adjacency="replace-one", lower=None, **_SMALL),
            (_WITNESS,),
            (((-_NEAR, -_NEAR), ()),),
        ),
        # Of a unit of several steps the search loses what it may only after long runs of edges;
        # totals are farthest apart where both units weigh as much, and then it loses less.
        tight=False,
    ),
    _claim(
        "With total_rho the clip costs its share of epsilon, and the means of all groups total_rho "
        "in zero-concentrated privacy.",
        ("durfee2023, Sec. 6.3", "canonne2020, Thm 4"),
        (
            ClippedMeans(
                epsilon=1,
                adjacency="replace-one",
                lower=0,
                total_rho=_MEANS_RHO,
                **_SMALL | {"groups": 1},
            ),
            (((_NEAR, _NEAR),),),
            (((0, 0),),),
        ),
        # The Rényi divergence of the search is below that of the interval in which its loss lies.
        tight=False,
    ),
)
