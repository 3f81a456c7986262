"""The sums of several groups, with one clip of what a unit adds up to in all of them.

Claim: epsilon-differentially private under either adjacency, for any number of groups, and units
with any number of records in any of them; with `total_rho` the clip for a share of epsilon, and the
sums for that rho. Proof: docs/proofs/clipped-sums.md. Noise: one-sided geometric for the clip,
discrete Laplace or Gaussian for the sums, on whole numbers. Floats: what a unit counts as in a
group is a float, which is rounded toward 0 to whole steps: of one unit these add up to no more than
the clip. Whole numbers are added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import ClaimsAbout
from sordino.columns.bucket_counts import BucketCounts
from sordino.constraints import FINITE, Number, OrNone, shown, to_fraction
from sordino.cost import ZCDP, Pure
from sordino.declared import parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_value import ClippedValue
from sordino.estimators.clipped.shared_clip import SharedClip
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.grid import read_float
from sordino.scrubbing import scrubbed


@final
class ClippedSums(SharedClip):
    """Add up private numbers of people in each of several groups, whose range nobody knows.

    A share of the budget finds how much few units add up to in all groups together. Who adds up to
    more counts as that: the same share of it in each group. Then each sum gets noise of the size of
    that clip, however many groups there are, and in however many of them a unit is.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Notes
    -----
    In proportion means that every group loses about the same share, where heavy units are spread
    alike, so that shares, orders and ratios of groups stay. The search aims at groups / epsilon of
    the sums units beyond the clip, where cutting off a little more costs as much as it saves in
    noise of all groups together. Where these are many (above 100), 3% of epsilon count the units,
    and no more than about a tenth of them are meant to lie beyond.

    The share of the clip is a choice, tuned on made-up shops, and no claim.

    Examples
    --------
    >>> import sordino as sd
    >>> spent = [[20, 35], [0, 50], [65, 0], [90_000, 10_000]] * 400
    >>> mechanism = sd.ClippedSums(groups=2, epsilon=1, adjacency="add-remove", lower=0, cap=1e9)
    >>> food, books = mechanism.release(spent, entropy=sd.Seeded(7))
    >>> food.value > 3e7, food.clip == books.clip
    (True, True)
    """

    cap: Number = parameter(
        FINITE,
        "Public, above 0: the largest clip, and so the most that a unit counts for in all groups "
        "together. Most releases do not notice a generous one.",
    )
    lower: Number | None = parameter(
        OrNone(FINITE),
        "Public, at most 0 and at least minus the cap: what a unit adds up to in a group "
        "counts as no less. None: minus the cap; then, and for every number below 0, sizes are "
        "clipped.",
    )

    why_one: ClassVar[str] = "a unit has one number in each group"

    def derive(self) -> None:
        """Set the search for the clip, and divide the budget."""
        cap = to_fraction(self.cap)
        if self.lower is not None and cap > 0 and to_fraction(self.lower) < -cap:
            raise InvalidParameter(
                "ClippedSums.lower must be at least minus the cap, because sizes are clipped, with "
                f"or without a sign; got {shown(self.lower)} with a cap of {shown(self.cap)}."
            )
        super().derive()
        if self.search.lower > 0:
            raise InvalidParameter(
                "ClippedSums.lower must be at most 0, or None, because a sum gains nothing from a "
                f"larger one; got {shown(self.lower)}."
            )

    @property
    def one_distance(self) -> bool:
        """True: what a unit adds up to in size has no sign."""
        return True

    def noise_for(self, clip: Clip, budget: Pure | ZCDP | None = None) -> TotalNoise:
        """Return the noise of the sums for this clip; of another look with a `budget` of its own.

        Its bound is how far the sums of neighbors may be apart, all of them together.
        """
        budget = budget or self.total_budget
        return TotalNoise(
            budget=budget,
            bound=self.widen(clip.high, budget, right=self.totals_grow),
            totals=self.groups,
            record_step=clip.step,
            adjacency=self.adjacency,
        )

    @property
    def totals_grow(self) -> bool:
        """Whether a unit can only raise the sums: where none counts as less than 0."""
        return self.search.lower >= 0

    @scrubbed
    def release(self, values: Any, *, entropy: Entropy = SYSTEM) -> list[ClippedValue]:
        """Add up private values in each group, with fresh noise.

        Parameters
        ----------
        values : array or list of numbers, shape (n, groups)
            Private: what each unit adds up to in each group; what is no number, such as NaN, is
            missing there, and so is all of a row of a list that has another length.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If an array has another shape, or no type of numbers.
        """
        fresh_entropy(entropy, "ClippedSums.release")
        clip = self.clip_from(self.count_wholes(values), entropy=entropy)
        return self.finish_each(self.totals(values, clip), clip, entropy=entropy)

    @scrubbed
    def count_wholes(self, values: Any) -> BucketCounts:
        """Return in which buckets lies what units add up to, in size; private."""
        wholes, known = self._add_up(self._take(values))
        return BucketCounts.of(np.where(known, wholes, np.nan), grid=self.grid)

    @scrubbed
    def totals(self, values: Any, clip: Clip) -> tuple[int, ...]:
        """Return the sums that get noise, in record steps, of what units count as. Private."""
        numbers = self._take(values)
        wholes, _ = self._add_up(numbers)
        end = float(clip.high * clip.step)
        known, whole = np.nan_to_num(numbers), np.maximum(wholes, end)[:, None]
        # As an engine does it: no quotient is too small to have all of its digits.
        shares = np.where(wholes[:, None] <= end, known, known / whole * end)
        # Toward 0: a unit adds up to no more than the clip, whatever the number of groups.
        steps = np.trunc(shares / float(clip.step)).astype(np.int64)
        return tuple(sum(column) for column in steps.T.tolist())

    def _take(self, values: Any) -> NDArray[np.float64]:
        """Return the numbers of all units, between the public ends."""
        # Shape and type of an array are public. What a list holds is private, and never raises.
        if isinstance(values, list | tuple):
            rows = [_read_row(row, self.groups) for row in values]
            numbers = np.array(rows, dtype=np.float64).reshape(-1, self.groups)
        elif (
            isinstance(values, np.ndarray)
            and values.shape[1:] == (self.groups,)
            and values.dtype.kind in "buif"
        ):
            # A float of more digits may be too large for one of 64 bits: it is infinite then.
            with np.errstate(all="ignore"):
                numbers = np.ma.filled(values.astype(np.float64), np.nan)
        else:
            raise InvalidParameter(
                f"ClippedSums.release: values must be an array of numbers with {self.groups} "
                f"columns, or a list of lists of so many; got another {type(values).__name__}."
            )
        return np.clip(numbers, float(self.search.lower), float(self.search.cap))

    def _add_up(
        self, numbers: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return what each unit adds up to in size, and whether it has a number at all."""
        sizes = np.nan_to_num(np.abs(numbers))
        wholes = np.array([math.fsum(row) for row in sizes.tolist()], dtype=np.float64)
        return wholes, np.logical_not(np.isnan(numbers).all(axis=1))

    @scrubbed
    def finish_each(
        self, totals: Sequence[int], clip: Clip, *, entropy: Entropy = SYSTEM
    ) -> list[ClippedValue]:
        """Add noise to the sums of what units count as in each group.

        Parameters
        ----------
        totals : sequence of int, length groups
            Private: in whole steps of `clip`.
        clip : Clip
            What `clip_from` of these sums released.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the clip is that of another search, or there are more totals than groups.
        """
        fresh_entropy(entropy, "ClippedSums.finish_each")
        self.check_clip(clip, "finish_each")
        # Each total is rounded down, and the noise is for so many of them.
        if len(totals) > self.groups:
            raise InvalidParameter(
                f"ClippedSums.finish_each needs at most {self.groups} totals; got {len(totals)}."
            )
        noise = self.noise_for(clip)
        return [
            self.result(clip, noise, (one,), None, simulated=entropy.simulated)
            for one in noise.noisy_some(totals, entropy)
        ]


def _read_row(row: Any, groups: int) -> list[float]:
    """Return the numbers of a unit, NaN where there is none; never raise."""
    # The type is asked, and not the object itself, whose own methods may raise.
    if not issubclass(type(row), list | tuple) or len(row) != groups:
        return [math.nan] * groups
    return [read_float(one) for one in row]


# Just below an edge: there a unit loses most. The search finds it beyond all edges before, and the
# sums add it nearly whole.
_WITNESS = (8 - 2**-40, 0)
_SMALL: dict[str, Any] = {"groups": 2, "cap": 8, "growth": 2}
_SUMS_RHO = Fraction(1, 2)
_claim = ClaimsAbout("ClippedSums", proof="clipped-sums.md")
CLAIMS = (
    _claim(
        "Clip and sums of all groups together are epsilon-differentially private under add-remove, "
        "whatever a unit has in them.",
        ("durfee2023, Sec. 6.3",),
        (ClippedSums(epsilon=2, adjacency="add-remove", lower=0, **_SMALL), (_WITNESS,), ()),
        (
            ClippedSums(epsilon=2, adjacency="add-remove", lower=None, **_SMALL),
            (tuple(-number for number in _WITNESS), (1, 2)),
            ((1, 2),),
        ),
        tight=True,
    ),
    _claim(
        "Clip and sums of all groups together are epsilon-differentially private under "
        "replace-one, whatever a unit has in them.",
        ("durfee2023, Sec. 6.3",),
        (
            ClippedSums(epsilon=2, adjacency="replace-one", lower=0, **_SMALL),
            (_WITNESS,),
            (_WITNESS[::-1],),
        ),
        (
            ClippedSums(epsilon=2, adjacency="replace-one", lower=None, **_SMALL),
            (_WITNESS,),
            (tuple(-number for number in _WITNESS),),
        ),
        # The sums are farthest apart where both units add up to as much, and then the search loses
        # nothing.
        tight=False,
    ),
    _claim(
        "With total_rho the clip costs its share of epsilon, or with clip_gumbel a stage, and the "
        "sums of all groups total_rho in zero-concentrated privacy.",
        ("durfee2023, Sec. 6.3 and Thm 1", "canonne2020, Thm 4"),
        (
            ClippedSums(epsilon=1, adjacency="replace-one", lower=0, total_rho=_SUMS_RHO, **_SMALL),
            (_WITNESS,),
            (_WITNESS[::-1],),
        ),
        # The Rényi divergence of the search is below that of the interval in which its loss lies.
        tight=False,
    ),
)
