"""The mean of a column without a guessed bound: a clip that is found privately, then the mean of the clipped records with noise.

Claim: epsilon-differentially private under either adjacency, for units with at most `rows_per_unit` records [durfee2023, Sec. 6.3;
kulesza2024].
Proof: docs/proofs/clipped-mean.md.
Noise: one-sided geometric for the clip, discrete Laplace for one total or for two, all on whole numbers.
Floats: none after records are whole numbers of steps; the released floats are exact fractions, rounded once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, final

from sordino.claims import Claim
from sordino.constraints import TRUTH, Number
from sordino.cost import Cost, Pure, compose
from sordino.entropy import SYSTEM, Entropy, fresh_entropy, renew
from sordino.errors import InvalidParameter
from sordino.estimators._bucket_counts import BucketCounts
from sordino.estimators._bucket_grid import BucketGrid
from sordino.estimators._clip import Clip, ClipSearch, checked_clip, clip_search
from sordino.estimators._clipped_noise import TotalNoise
from sordino.estimators._clipped_steps import clipped_steps
from sordino.estimators._clipped_value import ClippedValue, clipped_ends
from sordino.releases import parameters, pictured
from sordino.remnants import no_remnants
from sordino.sensitivity import Adjacency


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class ClippedMean:
    """Average a private column whose range nobody knows.

    A share of the budget finds the clip, as for `ClippedSum`. Where the number of records is public, the rest goes to the sum of the
    clipped records. Where it is not, it goes to two totals at once: the distances of the records from the lower end, and from the upper
    end. One record adds the width of the clip to both together, so the two share one budget without dividing it; their sum tells the
    number of records, their ratio the mean.

    Parameters
    ----------
    epsilon : number
        Budget of clip and mean together, in (0, inf).
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbors: one unit more or less, or one unit exchanged for another.
    cap : number
        Public, above 0 and above `lower`: the largest clip. In the unit of the values.
    lower : number or None
        Public: no record counts as less. From 0 on it is the lower end of the clip; the closer to the values, the less noise. None:
        minus the cap; then, and for every number below 0, there is a search on either side of 0.
    growth : number
        In (1, inf): by which factor edges grow.
    unit : number
        In (0, inf), in the unit of the values: nearer than this to 0 (to `lower`) edges are about unit (growth - 1) apart.
    rows_per_unit : int
        How many records a unit has at most. You bound them; see `Session.mean` for a table where sordino does.
    clip_share : number
        In (0, 1): which share of epsilon finds the clip.
    size_is_public : bool, optional
        Whether the number of records is public: only under replace-one, where a unit is one record and none was left out because of
        what it holds. None: True under replace-one with `rows_per_unit=1`.

    Attributes
    ----------
    cost : Cost
        What a release spends, at most epsilon; fixed before any data are seen.
    search : ClipSearch
        The first stage: `cost` and `release`.
    grid : BucketGrid
        The edges that records are compared with.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Notes
    -----
    Missing values (NULL, NaN, None) do not count, unless the number of records is public: then they count as 0, moved into the clip.

    The two totals have half the variance of a sum of distances from the middle and a number of records with half the budget each, for
    every mean and every clip. The defaults are choices, not claims: see `ClippedSum`. In exact laws of the clip with simulated noise
    (the same columns of 1000 records, epsilon 0.1, 1 and 2) a share of 0.35 for the clip was at most 1.4 times as far off as the
    best of 0.15, 0.25, 0.35 and 0.5; 0.25 up to 2 times, 0.5 up to 1.7 times.

    Examples
    --------
    >>> import sordino as sd
    >>> incomes = [1200, 2300, 1800, 2100, 9000] * 200
    >>> mean = sd.ClippedMean(epsilon=1, adjacency="add-remove", cap=1e7).release(incomes, entropy=sd.Seeded(7))
    >>> 2800 < mean.value < 3600
    True
    """

    epsilon: Number
    adjacency: Adjacency
    cap: Number
    lower: Number | None = 0.0
    growth: Number = 1.05
    unit: Number = 1.0
    rows_per_unit: int = 1
    clip_share: Number = 0.35
    size_is_public: bool | None = None

    def __post_init__(self) -> None:
        search, _ = self._stages
        could = self.adjacency == "replace-one" and self.rows_per_unit == 1
        if self.size_is_public is None:
            object.__setattr__(self, "size_is_public", could)
        if TRUTH("ClippedMean.size_is_public", self.size_is_public) and not could:
            raise InvalidParameter(
                "ClippedMean.size_is_public must be False under add-remove and for units with several records: the number of records is "
                "private there."
            )
        for tests in (1, None):  # the narrowest and the widest clip: what is too fine or too coarse is refused now
            _ = self.noise_for(search.clip((tests,) * len(search.runs(BucketCounts.empty(search.grid))), simulated=True)).mechanism

    def __repr__(self) -> str:
        return pictured(self, parameters(self))

    @cached_property
    def _stages(self) -> tuple[ClipSearch, Fraction]:
        return clip_search("ClippedMean", **{name: getattr(self, name) for name in _SEARCHED}, one_distance=False)

    @property
    def search(self) -> ClipSearch:
        """What finds the clip."""
        return self._stages[0]

    @property
    def grid(self) -> BucketGrid:
        """The edges that records are compared with."""
        return self.search.grid

    @cached_property
    def cost(self) -> Cost:
        """What a release spends: the search and the noise of the totals."""
        return compose(self.search.cost, Pure(epsilon=self._stages[1]))

    @property
    def exact(self) -> bool:
        """True: the law that is proved is the law that is sampled."""
        return True

    def noise_for(self, clip: Clip) -> TotalNoise:
        """Return the noise of the totals for this clip; its bound is how far those of neighbors may be apart, in the L1 norm."""
        exchanged = self.adjacency == "replace-one" and not self.size_is_public  # one unit goes and another one comes
        return TotalNoise(
            epsilon=self._stages[1],
            bound=self.rows_per_unit * (clip.high - clip.low) * (2 if exchanged else 1),
            totals=1 if self.size_is_public else 2,
            record_step=clip.step,
            adjacency=self.adjacency,
        )

    @no_remnants
    def release(self, values: Any, *, entropy: Entropy = SYSTEM) -> ClippedValue:
        """Average private values, with fresh noise: two passes over them, or three.

        Parameters
        ----------
        values : array or list of numbers, shape (n,)
            Private; a memory map of any size is read in blocks. Under `size_is_public` n is public.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the values are not one-dimensional, or their declared type is not numeric.
        """
        fresh_entropy(entropy, "ClippedMean.release")
        clip = self.clip_from(BucketCounts.of(values, grid=self.grid), entropy=entropy)
        return self._finished(self.totals(values, clip), clip, known=len(values) if self.size_is_public else None, entropy=entropy)

    @no_remnants
    def clip_from(self, counts: BucketCounts, *, entropy: Entropy = SYSTEM) -> Clip:
        """Find the clip, with fresh noise: the first stage of `release`, for counts that an engine made over `grid`."""
        return self.search.release(counts, entropy=entropy)

    @no_remnants
    def finish(self, total: int | None, records: int, clip: Clip, *, entropy: Entropy = SYSTEM) -> ClippedValue:
        """Add noise to the totals of the clipped records: the second stage of `release`, once for each clip.

        Parameters
        ----------
        total : int or None
            Private: the sum of max(low, min(high, floor(value / step))) over the records, with the numbers of `clip`. None, the sum
            over no records, is 0.
        records : int
            How many records these are: without the missing ones, and private; under `size_is_public` all of them, and public, where
            a missing one has added `clip.missing`.
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
        checked_clip(clip, self.search, "ClippedMean.finish")
        whole, n = 0 if total is None else int(total), int(records)
        if self.size_is_public:
            return self._finished((whole,), clip, known=n, entropy=entropy)
        return self._finished((whole - n * clip.low, n * clip.high - whole), clip, known=None, entropy=entropy)

    @no_remnants
    def totals(self, values: Any, clip: Clip) -> tuple[int, ...]:
        """Return what meets the noise, in record steps: the sum of the clipped records, or of their distances from either end. Private."""
        read = partial(clipped_steps, values, clip.low, clip.high, clip.step, owner="ClippedMean.release: values")
        if self.size_is_public:
            return (read(missing=clip.missing),)
        rows = len(values)
        return read(missing=clip.low) - rows * clip.low, rows * clip.high - read(missing=clip.high)

    def _finished(self, totals: tuple[int, ...], clip: Clip, *, known: int | None, entropy: Entropy) -> ClippedValue:
        renew(entropy)  # the second stage: the values were read since the clip was found
        noise = self.noise_for(clip)
        noisy = noise.noisy(totals, entropy)
        ends = clipped_ends(clip, noise, noisy, known, Fraction(1, 20))
        value, error = _estimate(clip, noise, noisy, known)
        return ClippedValue(
            value=float(value),
            clip=clip.ends,
            capped=clip.capped,
            standard_error=error,
            interval=(float(ends[0]), float(ends[1])),
            found=clip,
            noise=noise,
            noisy=noisy,
            records=known,
            mechanism=self,
            cost=self.cost,
            simulated=clip.simulated or entropy.simulated,
        )


def _estimate(clip: Clip, noise: TotalNoise, noisy: tuple[int, ...], records: int | None) -> tuple[Fraction, float]:
    """Return the mean, within the clip, and the standard deviation of its noise: for two totals to first order, at what was released."""
    low, high = clip.low * clip.step, clip.high * clip.step
    deviation = math.sqrt(noise.mechanism.noise.variance)
    if records is not None:
        known = max(1, records)
        return max(low, min(high, noisy[0] * noise.step / known)), deviation * float(noise.step) / known
    below, above = (max(0, total) for total in noisy)
    place = Fraction(below, below + above) if below + above else Fraction(1, 2)
    slope = math.hypot(float(place), float(1 - place)) / max(1, below + above)
    return low + (high - low) * place, deviation * slope * float(high - low)


_BELOW = 8 - 2**-40  # just below an edge: beyond all edges before, and added nearly whole
_SEARCHED = ("epsilon", "clip_share", "adjacency", "lower", "cap", "growth", "unit", "rows_per_unit")
CLAIMS = (
    Claim(
        name="ClippedMean",
        statement="Clip and mean together are epsilon-differentially private for units with at most rows_per_unit records.",
        references=("durfee2023, Sec. 6.3", "kulesza2024"),
        proof="clipped-mean.md",
        neighbours=(
            (ClippedMean(epsilon=2, adjacency="add-remove", cap=8, growth=2), (5,), ()),
            (ClippedMean(epsilon=2, adjacency="add-remove", cap=4, lower=None, growth=2, rows_per_unit=2), (2, -2), ()),
            (ClippedMean(epsilon=1, adjacency="replace-one", cap=8, growth=2), (_BELOW,), (0,)),
            (ClippedMean(epsilon=2, adjacency="replace-one", cap=8, growth=2, size_is_public=False), (_BELOW, 3), (0, 3)),
        ),
        tight=True,
    ),
)
