"""The mean of a column without a guessed bound: a private clip, then the noisy mean within it.

Claim: epsilon-differentially private under either adjacency, for units with at most `rows_per_unit`
records [durfee2023, Sec. 6.3; kulesza2024]; with `total_rho` the clip for a share of epsilon,
totals for that rho. Proof: docs/proofs/clipped-mean.md. Noise: one-sided geometric for the clip,
discrete Laplace or Gaussian for one total or two, on whole numbers. Floats: none after records are
whole numbers of steps; the released floats are exact fractions, rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, final

from sordino.claims import ClaimsAbout
from sordino.columns.bucket_sums import BucketSums
from sordino.cost import ZCDP, Pure
from sordino.entropy import SYSTEM, Entropy, fresh_entropy, renew
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_column import SizedColumn, SummedColumn
from sordino.estimators.clipped.clipped_value import ClippedValue
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.scrubbing import scrubbed


@final
class ClippedMean(SummedColumn, SizedColumn):
    """Average a private column whose range nobody knows.

    A share of the budget finds the clip, as for `ClippedSum`. Where the number of records is
    public, the rest goes to the sum of the clipped records. Where it is not, it goes to two totals
    at once: the distances of the records from the lower end, and from the upper end. One record
    adds the width of the clip to both together, so the two share one budget without dividing it;
    their sum tells the number of records, their ratio the mean.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Notes
    -----
    Missing values (NULL, NaN, None) do not count, and how many do is private, under replace-one as
    well: a record may lose its number. Only `size_is_public` says that none can.

    The two totals have half the variance of a sum of distances from the middle and a number of
    records with half the budget each, for every mean and every clip. The defaults are choices, not
    claims: see `ClippedSum`. In exact laws of the clip with simulated noise (the same columns of
    1000 records, epsilon 0.1, 1 and 2) a share of 0.35 for the clip was at most 1.4 times as far
    off as the best of 0.15, 0.25, 0.35 and 0.5; 0.25 up to 2 times, 0.5 up to 1.7 times.

    With `total_rho` the totals get Gaussian noise: see `ClippedSum`. Where units of several records
    are exchanged, two totals move in the L2 norm by sqrt(2) times what the records of one unit may
    be, and not by twice that.

    Examples
    --------
    >>> import sordino as sd
    >>> incomes = [1200, 2300, 1800, 2100, 9000] * 200
    >>> mechanism = sd.ClippedMean(epsilon=1, adjacency="add-remove", lower=0, cap=1e7)
    >>> mean = mechanism.release(incomes, entropy=sd.Seeded(7))
    >>> 2800 < mean.value < 3600
    True
    """

    def noise_for(self, clip: Clip, budget: Pure | ZCDP | None = None) -> TotalNoise:
        """Return the noise of totals for this clip, or of another look with a `budget` of its own.

        Its bound is how far the totals of neighbors may be apart: in the L1 norm, where a rho pays
        in the L2 norm.
        """
        paid = budget or self.total_budget
        # Each record moves the totals by the width of the clip, in either norm at most.
        bound = self.moved_records * (clip.top - clip.bottom)
        if isinstance(paid, ZCDP) and not self.size_is_public and self.adjacency == "replace-one":
            # What leaves and what joins are distances, none negative: two vectors at a right angle
            # at most. So they are apart by sqrt(2) times what either may be, rounded up, and not by
            # twice that.
            bound = math.isqrt(bound**2 // 2 - 1) + 1
        return TotalNoise(
            budget=paid,
            bound=bound,
            totals=1 if self.size_is_public else 2,
            record_step=clip.step,
            adjacency=self.adjacency,
        )

    @scrubbed
    def release(self, values: Any, *, entropy: Entropy = SYSTEM) -> ClippedValue:
        """Average private values, with fresh noise: one pass over them.

        Parameters
        ----------
        values : array or list of numbers, shape (n,)
            Private; a memory map of any size is read in blocks. Under `size_is_public` n is public.
            NaN and what is no number do not count; infinite ones lie beyond the clip.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the values are not one-dimensional, or their declared type is not numeric.
        """
        fresh_entropy(entropy, "ClippedMean.release")
        sums = self.read(values, owner="ClippedMean.release: values")
        clip = self.clip_from(sums.counts, entropy=entropy)
        return self._finished(
            self.totals_of(sums, [clip])[0],
            clip,
            self.noise_for(clip),
            known=len(values) if self.size_is_public else None,
            entropy=entropy,
        )

    @scrubbed
    def finish(
        self, total: int | None, records: int, clip: Clip, *, entropy: Entropy = SYSTEM
    ) -> ClippedValue:
        """Add noise to the totals of the clipped records.

        The second stage of `release`, once for each clip.

        Parameters
        ----------
        total : int or None
            Private: the sum of the records in whole steps of `clip`; each counts as a number from
            `bottom` to `top`, such as max(low, min(high, floor(value / step))). None, the sum over
            no records, is 0.
        records : int
            How many records these are: without the missing ones, and private; under
            `size_is_public` all of them, and public; one that has no number all the same has added
            `clip.missing`.
        clip : Clip
            What `clip_from` of this mean released.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the clip is that of another search.
        """
        fresh_entropy(entropy, "ClippedMean.finish")
        self.check_clip(clip, "finish")
        return self.add_noise(total, records, clip, self.noise_for(clip), entropy=entropy)

    @scrubbed
    def add_noise(
        self, total: Any, records: int, clip: Clip, noise: TotalNoise, *, entropy: Entropy
    ) -> ClippedValue:
        """Return the mean of private totals with this noise, as `finish` takes them.

        The caller pays.
        """
        fresh_entropy(entropy, "ClippedMean.add_noise")
        whole, n = 0 if total is None else int(total), int(records)
        if self.size_is_public:
            return self._finished((whole,), clip, noise, known=n, entropy=entropy)
        return self._finished(
            take_distances(whole, n, clip), clip, noise, known=None, entropy=entropy
        )

    @scrubbed
    def totals_of(self, sums: BucketSums, clips: Sequence[Clip]) -> list[tuple[int, ...]]:
        """Return these totals for each group. Private."""
        wholes = sums.add_up(clips)
        if self.size_is_public:
            # It was said that every record has a number. 0 keeps the place of one that has none.
            return [
                (whole + missing * clip.missing,)
                for whole, missing, clip in zip(wholes, sums.missing.tolist(), clips, strict=True)
            ]
        return [
            take_distances(whole, known, clip)
            for whole, known, clip in zip(wholes, sums.known().tolist(), clips, strict=True)
        ]

    def _finished(
        self,
        totals: tuple[int, ...],
        clip: Clip,
        noise: TotalNoise,
        *,
        known: int | None,
        entropy: Entropy,
    ) -> ClippedValue:
        renew(entropy)  # the second stage: whoever reads rows in between may take any time for it
        noisy = noise.noisy(totals, entropy)
        return self.result(clip, noise, noisy, known, simulated=entropy.simulated)

    def _public_sizes(self, sums: BucketSums) -> Sequence[int | None]:
        """Return the number of records of each group where it is public.

        Missing ones are records, too.
        """
        if not self.size_is_public:
            return super()._public_sizes(sums)
        found: list[int | None] = (sums.known() + sums.missing).tolist()
        return found

    def estimate(
        self, clip: Clip, noise: TotalNoise, noisy: Sequence[int | Fraction], records: int | None
    ) -> tuple[float, float]:
        """Return the mean, within the clip, and the standard deviation of its noise.

        For two totals the deviation is of first order, at the released numbers.
        """
        if records is not None:
            # The mean of no records is whatever is released for it: nothing may fail where there
            # are none.
            known = max(1, records)
            mean = noisy[0] * noise.step / known
            # The clipped mean lies in the clip, so moving the noisy one into it only brings it
            # closer.
            mean = max(clip.bottom * clip.step, min(clip.top * clip.step, mean))
            return float(mean), noise.deviation * float(noise.step) / known
        return estimate_mean(clip, noise, noisy)


def estimate_mean(
    clip: Clip, noise: TotalNoise, noisy: Sequence[int | Fraction]
) -> tuple[float, float]:
    """Return the mean that two noisy totals tell, and its standard error to first order.

    They are the distances from the lower and from the upper end of the clip, in all; a third one
    is of rows beyond the upper end, in place of the first.
    """
    width = clip.top - clip.bottom
    # The third total is part of the first one, however negative noise may have made it.
    beyond = noisy[2:]
    # Distances are not negative, but noise may make their totals so. If nothing is left, the
    # middle of the clip is released.
    below, above = max(0, noisy[0] + sum(beyond)), max(0, noisy[1])
    parts = max(1, below + above)
    if not below + above:
        below = above = 1
    # In whole numbers up to one quotient, which Python rounds as it does a fraction.
    (top, bottom), whole = clip.step.as_integer_ratio(), below + above
    value = (clip.bottom * whole + width * below) * top / (whole * bottom)
    # The mean depends on the totals through their ratio: these are its derivatives.
    slopes = [below / whole, *([above / whole] * (1 + len(beyond)))]
    slope = math.hypot(*slopes) / parts
    return float(value), noise.deviation * slope * (width * top / bottom)


def take_distances(whole: int, records: int, clip: Clip) -> tuple[int, int]:
    """Return how far records are from either end, in all, from their sum and their number."""
    return whole - records * clip.bottom, records * clip.top - whole


_MEAN_WITNESS = 8 - 2**-40  # just below an edge: beyond all edges before, and added nearly whole
_SMALL_MEAN: dict[str, Any] = {"lower": 0, "cap": 8, "growth": 2}
_MEAN_RHO: dict[str, Any] = {
    **_SMALL_MEAN,
    "epsilon": 1,
    "cap": 4,
    "total_rho": Fraction(1, 2),
}
_claim = ClaimsAbout("ClippedMean", proof="clipped-mean.md")
CLAIMS = (
    _claim(
        "Clip and mean together are epsilon-differentially private for units with at most "
        "rows_per_unit records.",
        ("durfee2023, Sec. 6.3", "kulesza2024"),
        (ClippedMean(epsilon=2, adjacency="add-remove", **_SMALL_MEAN), (5,), ()),
        (
            ClippedMean(
                epsilon=2, adjacency="add-remove", cap=4, lower=None, growth=2, rows_per_unit=2
            ),
            (2, -2),
            (),
        ),
        (
            ClippedMean(epsilon=1, adjacency="replace-one", size_is_public=True, **_SMALL_MEAN),
            (_MEAN_WITNESS,),
            (0,),
        ),
        (
            ClippedMean(epsilon=2, adjacency="replace-one", **_SMALL_MEAN),
            (_MEAN_WITNESS, 3),
            (0, 3),
        ),
        tight=True,
    ),
    _claim(
        "With total_rho the clip costs its share of epsilon and the totals total_rho in "
        "zero-concentrated privacy, for units with at most rows_per_unit records.",
        ("durfee2023, Sec. 6.3", "canonne2020, Thm 4"),
        (ClippedMean(adjacency="add-remove", **_MEAN_RHO), (5,), ()),
        (ClippedMean(adjacency="replace-one", **_MEAN_RHO), (5, 3), (0, 3)),
        # The Rényi divergence of the search is below that of the interval in which its loss lies.
        tight=False,
    ),
)
