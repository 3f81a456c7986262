"""The variances of several groups, with one clip for all of them, of people with any rows.

Claim: epsilon-differentially private under either adjacency, for any number of groups, and units
with any number of rows in any of them; with `total_rho` what is found for shares of epsilon, and
the totals for that rho. Proof: docs/proofs/weighted-means.md, "Variances". Noise: one-sided
geometric for the clip, that of `Quantile` for the largest weight, discrete Laplace or Gaussian for
the totals, on whole numbers. Floats: none before the release; its floats are exact fractions,
rounded once, and square roots of such.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, cast, final

from sordino.claims import ClaimsAbout
from sordino.columns.clipped_steps import Moments
from sordino.cost import ZCDP, Pure
from sordino.entropy import SYSTEM, Entropy, fresh_entropy, renew
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_variance import (
    VarianceValue,
    build_variance,
    find_squared_width,
    read_moments,
    take_squares,
)
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.estimators.clipped.weighed_clip import WeighedClip
from sordino.scrubbing import scrubbed


@final
class ClippedVariances(WeighedClip):
    """Measure how far private numbers of people spread in each of several groups.

    Nobody knows their range, and people have any number of rows, which are weighed as those of
    `ClippedMeans`: who has more than `weight_cap`, in all groups together, counts as so many. One
    share of the budget finds the weight, one a clip for all groups. The rest goes to three totals
    of squares of each group at once (`ClippedVariance`). One unit moves all of them together by the
    squared width of the clip times `weight_cap`, in however many groups it is.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Notes
    -----
    What is released of a group is the mean, with these weights, of squared distances from the mean
    with these weights. The shares are those of `ClippedMeans`, and a clip lies as much farther out
    than the edge that is found. They are choices, and no claim.

    Examples
    --------
    >>> import sordino as sd
    >>> prices = [[[20, 35, 30], [50]], [[], [65, 70]], [[25], [60]]] * 2000
    >>> mechanism = sd.ClippedVariances(
    ...     groups=2, epsilon=2, adjacency="add-remove", lower=0, cap=1e6
    ... )
    >>> food, books = mechanism.release(prices, entropy=sd.Seeded(7))
    >>> round(food.standard_deviation), round(books.standard_deviation), food.clip == books.clip
    (5, 7, True)
    """

    takes_squares: ClassVar[bool] = True

    @property
    def totals_grow(self) -> bool:
        """True: a unit can only raise the totals of squares and products."""
        return True

    def noise_for(self, clip: Clip, budget: Pure | ZCDP | None = None) -> TotalNoise:
        """Return the noise of the totals for this clip; of another look with a `budget` of its own.

        Its bound is how far the totals of neighbors may be apart, all of them together.
        """
        budget = budget or self.total_budget
        moved = find_squared_width(clip, type(self).__name__) << self.bits
        return TotalNoise(
            budget=budget,
            # Squares and products of distances are not negative.
            bound=self.widen(moved, budget, right=True),
            totals=3 * self.groups,
            # The variance depends on ratios of totals alone, so they have no unit.
            record_step=Fraction(1),
            adjacency=self.adjacency,
        )

    @scrubbed
    def release(self, values: Any, *, entropy: Entropy = SYSTEM) -> list[VarianceValue]:
        """Measure the spread of private values in each group, with fresh noise.

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
        fresh_entropy(entropy, "ClippedVariances.release")
        weight = self.find_weight(self.count_rows(values), entropy=entropy)
        clip = self.clip_from(self.count_weights(values, weight), entropy=entropy)
        moments = self.weigh_moments(values, clip, weight)
        return self.finish_each(moments, clip, weight, entropy=entropy)

    @scrubbed
    def weigh_moments(self, values: Any, clip: Clip, weight: int) -> list[Moments]:
        """Return for each group what its rows add up to, each times its weight; private.

        `known` are the weights; `first` and `second` the distances from the lower end of the clip,
        and their squares.
        """
        found = [Moments(0, 0, 0, 0)] * self.groups
        for place, step, row in self.step_rows(values, clip, weight):
            known, missing, first, second = found[place]
            away = step - clip.low
            found[place] = Moments(known + row, missing, first + row * away, second + row * away**2)
        return found

    @scrubbed
    def totals(self, values: Any, clip: Clip) -> tuple[int, ...]:
        """Return the totals that get noise, in squared steps, with the declared weight. Private."""
        if self.weight_cap is None:
            raise InvalidParameter("ClippedVariances.totals needs a declared weight_cap; got None.")
        moments = self.weigh_moments(values, clip, self.weight_cap)
        return tuple(one for each in moments for one in take_squares(each, clip.high - clip.low))

    @scrubbed
    def finish_each(
        self,
        moments: Sequence[Moments],
        clip: Clip,
        weight: int,
        *,
        entropy: Entropy = SYSTEM,
    ) -> list[VarianceValue]:
        """Add noise to the totals of each group.

        Parameters
        ----------
        moments : sequence of Moments, length groups
            Private: what the rows of each group add up to, in whole steps of `clip` times their
            weights, and these weights.
        clip : Clip
            What `clip_from` of these variances released.
        weight : int
            As how many rows a unit counted at most when rows were weighed.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the clip is that of another search, or there are more totals than groups.
        """
        fresh_entropy(entropy, "ClippedVariances.finish_each")
        self.check_groups([clip], len(moments))
        noise, width = self.noise_for(clip), clip.high - clip.low
        totals = [one for each in moments for one in take_squares(Moments(*map(int, each)), width)]
        renew(entropy)  # the rows were read since the clip was found
        noisy = noise.noisy_some(totals, entropy)
        return [
            self._tell(clip, noise, noisy[start : start + 3], weight, entropy)
            for start in range(0, len(noisy), 3)
        ]

    @scrubbed
    def add_noise(  # type: ignore[override]
        self,
        total: Any,
        records: int,  # noqa: ARG002 - the moments know it
        clip: Clip,
        noise: TotalNoise,
        *,
        entropy: Entropy,
    ) -> VarianceValue:
        """Return the variance of the private moments of one group; the caller pays for it.

        The weight is the declared one.
        """
        fresh_entropy(entropy, "ClippedVariances.add_noise")
        squares = take_squares(Moments(*map(int, total)), clip.high - clip.low)
        noisy, weight = noise.noisy_some(squares, entropy), cast("int", self.weight_cap)
        return self._tell(clip, noise, noisy, weight, entropy)

    def _tell(
        self, clip: Clip, noise: TotalNoise, noisy: tuple[int, ...], weight: int, entropy: Entropy
    ) -> VarianceValue:
        """Return what is released of a group."""
        weights = self.describe_weights(clip, weight)
        return build_variance(
            self, clip, noise, noisy, weights=weights, simulated=entropy.simulated
        )

    def estimate(
        self,
        clip: Clip,
        noise: TotalNoise,
        noisy: Sequence[int | Fraction],
        records: int | None,  # noqa: ARG002 - their number is private
    ) -> tuple[float, float]:
        """Return the variance of a group, and its standard error to first order."""
        _, value, error = read_moments(clip, noise, noisy, None)
        return float(value), error


# Just below an edge, in as many rows as the weight: there a unit loses most. The search finds it
# beyond all edges before, and the totals add it nearly whole.
_EDGE = 8 - 2**-40
_FULL = ((_EDGE, _EDGE), ())
_FEW: dict[str, Any] = {"groups": 2, "cap": 8, "growth": 2, "weight_cap": 2, "weight_bits": 2}
_VARIANCES_RHO = Fraction(1, 2)
_claim = ClaimsAbout("ClippedVariances", proof="weighted-means.md")
CLAIMS = (
    _claim(
        "Clip and variances of all groups together are epsilon-differentially private under either "
        "adjacency, whatever rows a unit has in them.",
        ("durfee2023, Sec. 6.3",),
        (
            ClippedVariances(epsilon=2, adjacency="add-remove", lower=None, **_FEW),
            (_FULL, ((1,), (-2, 2, 3))),
            (((1,), (-2, 2, 3)),),
        ),
        (ClippedVariances(epsilon=2, adjacency="add-remove", lower=0, **_FEW), (_FULL,), ()),
        (
            ClippedVariances(epsilon=2, adjacency="replace-one", lower=0, **_FEW),
            (_FULL,),
            (_FULL[::-1],),
        ),
        # As for `ClippedMeans`: of a unit of several steps the search loses what it may only after
        # long runs of edges.
        tight=False,
    ),
    _claim(
        "With total_rho the clip costs its share of epsilon, and the variances of all groups "
        "total_rho in zero-concentrated privacy.",
        ("durfee2023, Sec. 6.3", "canonne2020, Thm 4"),
        (
            ClippedVariances(
                epsilon=1,
                adjacency="replace-one",
                lower=0,
                total_rho=_VARIANCES_RHO,
                **_FEW | {"groups": 1},
            ),
            (((_EDGE, _EDGE),),),
            (((0, 0),),),
        ),
        # The Rényi divergence of the search is below that of the interval in which its loss lies.
        tight=False,
    ),
)
