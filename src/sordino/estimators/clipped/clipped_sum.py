"""The sum of a column without a guessed bound: a private clip, then the noisy sum within it.

Claim: epsilon-differentially private under either adjacency, for units with at most `rows_per_unit`
records [durfee2023, Sec. 6.3]; with `total_rho` the clip for a share of epsilon, and the sum for
that rho. Proof: docs/proofs/clipped-sum.md. Noise: one-sided geometric for the clip, discrete
Laplace or Gaussian for the sum, on whole numbers. Floats: none after records are whole numbers of
steps; the released floats are exact fractions, rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, final

from sordino.claims import ClaimsAbout
from sordino.columns.bucket_sums import BucketSums
from sordino.constraints import FINITE, Number, OrNone, shown
from sordino.cost import ZCDP, Pure
from sordino.declared import parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_column import SummedColumn
from sordino.estimators.clipped.clipped_value import ClippedValue
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.scrubbing import scrubbed


@final
class ClippedSum(SummedColumn):
    """Add up a private column whose range nobody knows.

    A share of the budget finds an edge that few records reach; each record is moved below it,
    rounded down to a whole number of small steps, and the sum of these gets noise of the size of
    the clip. Nothing but a cap has to be known, and only as a safeguard: now and then (about once
    in a thousand times) the search runs far past the largest record, and the cap ends it.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Notes
    -----
    Missing values (NULL, NaN, None) add nothing. The search aims at rows_per_unit /
    epsilon-of-the-sum records beyond the clip, where cutting off a little more costs as much as it
    saves in noise.

    With `total_rho` the sum gets Gaussian noise. Of epsilon only `clip_share` of it is spent then,
    and the search is that of the same epsilon without, its aim included. With e for what the sum
    would have got, set the rho near e + exp(-e) - 1, the rho of its Laplace noise: about half the
    square of a small e. At the same rho intervals are about 0.66 to 0.8 times as wide as with
    Laplace noise (`benchmarks/results.md`); a cost with a rho has no pure epsilon.

    The defaults are choices, not claims. In exact expected errors on samples of 200, 1000 and
    10,000 records of six columns (ages, hours, ratings, pages, a lognormal and a Pareto law),
    epsilon 0.1 to 2, a share of 0.35 was at most 1.5 times as far off as the best share for that
    column and budget, 0.25 up to 2.1 times and 0.5 up to 1.7 times. The threshold gets twice the
    rate of the counts, which makes overshoots rare. They still weigh: an error of the size of cap /
    epsilon, once in a thousand times, is part of the expected error, and a cap that is a million
    times too large dominates it. The median error does not notice.

    Examples
    --------
    >>> import sordino as sd
    >>> incomes = [1200, 2300, 1800, 2100, 90_000] * 200
    >>> mechanism = sd.ClippedSum(epsilon=1, adjacency="add-remove", lower=0, cap=1e7)
    >>> total = mechanism.release(incomes, entropy=sd.Seeded(7))
    >>> 0.8 * sum(incomes) < total.value < 1.1 * sum(incomes)
    True
    >>> other = sd.ClippedSum(epsilon=1, adjacency="add-remove", lower=0, cap=1e7, total_rho=0.2)
    >>> round(float(other.search.cost.pure()), 4), other.total_cost
    (0.35, ZCDP(rho=0.2))
    """

    lower: Number | None = parameter(
        OrNone(FINITE),
        "Public, at most 0: no record counts as less. 0: values below 0 count as 0. None: "
        "minus the cap; then, and for every number below 0, there is a clip on either side.",
    )

    @property
    def one_distance(self) -> bool:
        """Whether values of both signs get one search: where units come or go."""
        # The noise follows the end that is farther from 0 then, else the width.
        return self.adjacency == "add-remove"

    def derive(self) -> None:
        """Set the search for the clip, and divide the budget."""
        super().derive()
        # What is missing adds 0, so 0 has to lie in the clip (docs/proofs/clipped-sum.md, "The
        # sum").
        if self.search.lower > 0:
            raise InvalidParameter(
                "ClippedSum.lower must be at most 0, or None, because a sum gains nothing from a "
                f"larger one; got {shown(self.lower)}."
            )
        self.check_noise()

    def noise_for(self, clip: Clip, budget: Pure | ZCDP | None = None) -> TotalNoise:
        """Return the noise of the sum for this clip, or of another look with a `budget` of its own.

        Its bound is how far the sums of neighbors may be apart.
        """
        # A record that comes or goes moves the sum by at most the end that is farther from 0. A
        # record in place of another one moves it by at most the width. Of one number that is every
        # norm.
        apart = (
            clip.top - clip.bottom
            if self.adjacency == "replace-one"
            else max(-clip.bottom, clip.top)
        )
        return TotalNoise(
            budget=budget or self.total_budget,
            bound=self.rows_per_unit * apart,
            totals=1,
            record_step=clip.step,
            adjacency=self.adjacency,
        )

    @scrubbed
    def release(self, values: Any, *, entropy: Entropy = SYSTEM) -> ClippedValue:
        """Add up private values, with fresh noise: one pass over them.

        Parameters
        ----------
        values : array or list of numbers, shape (n,)
            Private; a memory map of any size is read in blocks. NaN and what is no number do not
            count; infinite ones lie beyond the clip.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the values are not one-dimensional, or their declared type is not numeric.
        """
        fresh_entropy(entropy, "ClippedSum.release")
        sums = self.read(values, owner="ClippedSum.release: values")
        clip = self.clip_from(sums.counts, entropy=entropy)
        # What is missing adds 0, which lies in the clip: the noise covers it as any other record.
        return self.finish(self.totals_of(sums, [clip])[0][0], clip, entropy=entropy)

    @scrubbed
    def finish(self, total: int | None, clip: Clip, *, entropy: Entropy = SYSTEM) -> ClippedValue:
        """Add noise to the sum of the clipped records.

        The second stage of `release`, once for each clip.

        Parameters
        ----------
        total : int or None
            Private: the sum of the records that are not missing, in whole steps of `clip`; each
            counts as a number from `bottom` to `top`, such as max(low, min(high, floor(value /
            step))). None, the sum over no records, is 0.
        clip : Clip
            What `clip_from` of this sum released.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the clip is that of another search.
        """
        fresh_entropy(entropy, "ClippedSum.finish")
        self.check_clip(clip, "finish")
        return self.add_noise(total, 0, clip, self.noise_for(clip), entropy=entropy)

    @property
    def totals_grow(self) -> bool:
        """Whether a record can only raise the sum: where none counts as less than 0."""
        return self.search.lower >= 0

    @scrubbed
    def totals_of(self, sums: BucketSums, clips: Sequence[Clip]) -> list[tuple[int]]:
        """Return what meets the noise, in record steps: the sum of each group. Private."""
        return [(total,) for total in sums.add_up(clips)]


# A value just below an edge: there a record loses most. The search finds it beyond all edges
# before, and the sum adds it nearly whole.
_SUM_WITNESS = 8 - 2**-40
_UP, _AROUND = ((_SUM_WITNESS,), ()), ((_SUM_WITNESS, -8), (-_SUM_WITNESS, -8))
_SMALL_SUM: dict[str, Any] = {"cap": 8, "growth": 2}
_SUM_RHO: dict[str, Any] = {**_SMALL_SUM, "epsilon": 1, "total_rho": Fraction(1, 2)}
_claim = ClaimsAbout("ClippedSum", proof="clipped-sum.md")
CLAIMS = (
    _claim(
        "Clip and sum together are epsilon-differentially private for units with at most "
        "rows_per_unit records.",
        ("durfee2023, Sec. 6.3",),
        (ClippedSum(epsilon=2, adjacency="add-remove", lower=0, **_SMALL_SUM), *_UP),
        (
            ClippedSum(
                epsilon=2, adjacency="add-remove", lower=None, cap=8, growth=1.2, rows_per_unit=2
            ),
            (_SUM_WITNESS, _SUM_WITNESS),
            (),
        ),
        (
            ClippedSum(epsilon=1, adjacency="replace-one", lower=0, **_SMALL_SUM),
            (_SUM_WITNESS,),
            (0,),
        ),
        (ClippedSum(epsilon=2, adjacency="replace-one", lower=None, **_SMALL_SUM), *_AROUND),
        tight=True,
    ),
    _claim(
        "With total_rho the clip costs its share of epsilon, or with clip_gumbel a stage for each "
        "search, and the sum total_rho in zero-concentrated privacy, for units with at most "
        "rows_per_unit records.",
        ("durfee2023, Sec. 6.3 and Thm 1", "canonne2020, Thm 4"),
        (ClippedSum(adjacency="add-remove", lower=0, **_SUM_RHO), *_UP),
        (ClippedSum(adjacency="replace-one", lower=None, **_SUM_RHO), *_AROUND),
        (ClippedSum(adjacency="add-remove", lower=0, clip_gumbel=1, **_SUM_RHO), *_UP),
        # The Rényi divergence of the search is below that of the interval in which its loss lies.
        tight=False,
    ),
)
