"""Another look at clipped sums, means or variances, within the clips that an earlier release found.

Claim: each look costs `cost`, whatever was released before: the clip is public, so nothing is spent
on it. Proof: docs/proofs/clipped-again.md. Noise: that of `TotalNoise`, for a bound that follows
from the clip and from what neighbors are. Floats: none before the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, final

from sordino.constraints import to_fraction
from sordino.cost import RDP, ZCDP, Pure
from sordino.entropy import Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_column import LEAST_STEPS
from sordino.estimators.clipped.clipped_mean import ClippedMean
from sordino.estimators.clipped.clipped_means import ClippedMeans
from sordino.estimators.clipped.clipped_sum import ClippedSum
from sordino.estimators.clipped.clipped_sums import ClippedSums
from sordino.estimators.clipped.clipped_variance import ClippedVariance
from sordino.estimators.clipped.clipped_variances import ClippedVariances
from sordino.estimators.clipped.shared_clip import SharedClip
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.releases import short_repr
from sordino.scrubbing import scrubbed

Clipped = ClippedSum | ClippedSums | ClippedMean | ClippedMeans | ClippedVariance | ClippedVariances


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class ClippedAgain:
    """How the totals of clipped figures are measured again: all of the budget is theirs.

    Parameters
    ----------
    figure : ClippedSum, ClippedSums, ClippedMean, ClippedMeans, ClippedVariance, ClippedVariances
        What was released first. It says which totals there are, and what neighbors are.
    clips : tuple of Clip
        What its search has found, of each group; public.
    budget : Pure or ZCDP
        What the totals of one group may spend, and by its kind the noise.

    Raises
    ------
    InvalidParameter
        If a clip is not one of that figure, or the noise would be too fine or too coarse.

    Examples
    --------
    >>> import sordino as sd
    >>> from sordino.estimators.clipped.clipped_again import ClippedAgain
    >>> figure = sd.ClippedSum(epsilon=1, adjacency="add-remove", lower=0, cap=1e6)
    >>> noise = sd.Seeded(7)
    >>> rough = figure.release([12, 30, 7] * 200, entropy=noise)
    >>> again = ClippedAgain(figure=figure, clips=(rough.found,), budget=sd.cost.Pure(epsilon=1))
    >>> finer = again.release_one(sum([12, 30, 7] * 200) // rough.found.step, 600, 0, entropy=noise)
    >>> finer.clip == rough.clip, round(finer.standard_error / rough.standard_error, 2)
    (True, 0.65)
    """

    figure: Clipped
    clips: tuple[Clip, ...]
    budget: Pure | ZCDP

    def __post_init__(self) -> None:
        # What lies beyond the clip was a total of its own, which this look does not read.
        for name in ("upper", "own_clips"):
            if getattr(self.figure, name, False):
                raise InvalidParameter(
                    f"ClippedAgain.figure must be without `{name}`: a mean with an upper end, or "
                    "of groups with clips of their own, is not measured again. Ask for the same "
                    "again."
                )
        # One clip of all groups is what their noise is for, all of them together.
        if isinstance(self.figure, SharedClip) and (
            len({clip.tests for clip in self.clips}) > 1 or len(self.clips) > self.figure.groups
        ):
            raise InvalidParameter(
                f"ClippedAgain.clips must be one clip, of at most {self.figure.groups} groups; got "
                "several, or more groups."
            )
        for clip, noise in zip(self.clips, self.noises, strict=True):
            self.figure.check_clip(clip, "again")
            noise.check(type(self.figure).__name__)

    def __repr__(self) -> str:
        return short_repr(self, {"figure": self.figure, **self.list_parameters()})

    def list_parameters(self) -> dict[str, Any]:
        """Return the public parameters of this look.

        The figure and its search are said by the first one.
        """
        ends = [list(clip.ends) for clip in self.clips]
        return {"budget": self.budget, "clips": ends}

    @cached_property
    def noises(self) -> tuple[TotalNoise, ...]:
        """The noise of each group: its bound is that of the clip of that group."""
        return tuple(self.figure.noise_for(clip, self.budget) for clip in self.clips)

    @cached_property
    def total_cost(self) -> Pure | RDP | ZCDP:
        """What the totals of one group cost.

        A pure budget has the curve of Laplace noise of enough steps.
        """
        if isinstance(self.budget, ZCDP):
            return self.budget
        steps = min(_count_steps(noise) for noise in self.noises)
        if steps < LEAST_STEPS:
            return self.budget
        return RDP(laplace=self.budget.epsilon_, laplace_steps=LEAST_STEPS)

    @property
    def cost(self) -> Pure | RDP | ZCDP:
        """What the figure of one group spends: no clip is looked for."""
        return self.total_cost

    @property
    def totals_grow(self) -> bool:
        """Whether a record can only raise the totals, as in the first look."""
        return self.figure.totals_grow

    @property
    def in_all(self) -> bool:
        """Whether one look is at all groups together, as the first look was."""
        return self.figure.in_all

    @property
    def exact(self) -> bool:
        """True: the law that is proved is the law that is sampled."""
        return True

    @property
    def total_noise(self) -> str:
        """Which noise the totals get."""
        return "gaussian" if isinstance(self.budget, ZCDP) else "laplace"

    @scrubbed
    def release_one(
        self, total: Any, known: int, missing: int, *, group: int = 0, entropy: Entropy
    ) -> Any:
        """Release the figure of one group, with fresh noise.

        Parameters
        ----------
        total : int or Moments
            Private: the sum of max(low, min(high, floor(value / step))) over the records with a
            number, with the numbers of the clip of the group; of a variance the sums of the
            distances from its lower end.
        known, missing : int
            How many records there are, with a number and without. Private, but for their sum under
            `size_is_public`.
        group : int
            Which of the clips it is.
        entropy : Entropy
            Where the noise comes from.
        """
        fresh_entropy(entropy, "ClippedAgain.release_one")
        clip, noise, records = self.clips[group], self.noises[group], known
        # Where it was said that every record has a number, 0 keeps the place of one that has none.
        if isinstance(self.figure, ClippedMean) and self.figure.size_is_public:
            total, records = total + missing * clip.missing, known + missing
        made = self.figure.add_noise(total, records, clip, noise, entropy=entropy)
        return replace(made, mechanism=self, cost=self.cost, simulated=entropy.simulated)

    def combine(
        self, totals: Sequence[Fraction], records: int | None, deviation: float, *, group: int = 0
    ) -> tuple[float | Fraction, float]:
        """Return the figure that totals of all looks tell, and its standard error to first order.

        Parameters
        ----------
        totals : sequence of Fraction
            Means of all looks, in the unit of the values; of a variance in record steps.
        records : int or None
            Where their number is public.
        deviation : float
            Of the noise of these means, as a share of that of this look.
        group : int
            Which of the clips it is.
        """
        clip, noise = self.clips[group], self.noises[group]
        steps = [total / noise.step for total in totals]
        value, error = self.figure.estimate(clip, noise, steps, records)
        return value, error * deviation


def _count_steps(noise: TotalNoise) -> Fraction:
    """Return by how many steps of its grid a total moves at most."""
    statement = noise.mechanism.sensitivity
    return to_fraction(statement.bound) / to_fraction(statement.step or 1)
