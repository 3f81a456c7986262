"""One way to select a marker: a statistic, a bound of how far one family moves it, and a mechanism.

Claim: a release of `Method.mechanism` on `Method.private` costs its epsilon: each statistic moves
by no more than the mechanism was told. Proof: docs/proofs/most-significant.md. Floats: as in the
statistics and bounds.

A damped test statistic: one family moves it by little, since markers with few transmissions are
held back.

Claim: one family moves `damped_tdt` by at most `BOUND`, for all data. Proof:
docs/proofs/most-significant.md, "The damped statistic". Floats: `BOUND` has room for their
rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, final

import numpy as np

from sordino.constraints import COUNT, POSITIVE, Constraint, Number
from sordino.mechanisms import SmoothSelection, SmoothStepSelection
from sordino.scrubbing import scrubbed
from sordino.smooth import tdt, tdt_ceiling, tdt_statistic
from sordino.smooth.values import tables

# ---- damped --------------------------------------------------------------------------------------


# For so many families `ROUNDING` is proved to be enough (docs/proofs/most-significant.md,
# "Floats").
MOST_FAMILIES = 1 << 28

FAMILIES = Constraint(
    "a whole number from 1 to 2^28",
    lambda value: (
        int(value)
        if isinstance(value, int | np.integer)
        and not isinstance(value, bool)
        and 1 <= value <= MOST_FAMILIES
        else None
    ),
    (1, 150, 10**6),
    (0, -1, 1.5, True, None, MOST_FAMILIES + 1),
)

ROUNDING = Fraction(1, 1 << 20)
"""An allowance for rounding: more than floats add to the distance of two statistics."""

BOUND = 4 + ROUNDING
"""How far one family moves the damped statistic, in transmissions."""


@scrubbed
def damped_tdt(b: Any, c: Any, *, families: int, damping: Number) -> Any:
    """Return abs(b - c) sqrt(min(1, damping / (b + c))) for each marker.

    One family moves it by at most 4.

    Of markers with at least `damping` transmissions b + c it is sqrt(damping) times abs(b - c) /
    sqrt(b + c), the square root of the TDT statistic, and orders them alike. A marker with fewer
    counts as if it had so many: its statistic is lowered, and that is what bounds how far it can
    move.

    Parameters
    ----------
    b, c : array of int, shape (m,), or a number
        Private: how often heterozygous parents transmitted the one and the other allele. What is no
        such count becomes one by rule: NaN and what is below 0 become 0, b at most 2 * families, c
        at most what b leaves of that; fractions are rounded down.
    families : int
        How many families there are, at most 2^28: public.
    damping : number
        From how many transmissions on a marker counts in full, in (0, inf): public. Fewer than any
        marker of interest has: more make rare alleles count less, fewer need more noise.

    Returns
    -------
    array of float, shape (m,), or a float
        In transmissions. Private.

    Raises
    ------
    InvalidParameter
        If a public parameter, or the shape of the counts, is not as it must be.

    Examples
    --------
    >>> import sordino as sd
    >>> scores = sd.genomics.damped_tdt([115, 60, 4], [85, 40, 0], families=150, damping=100)
    >>> scores.round(3).tolist()
    [21.213, 20.0, 4.0]
    """
    n = FAMILIES("genomics.damped_tdt.families", families)
    # No marker has more transmissions than that.
    least = float(min(POSITIVE("genomics.damped_tdt.damping", damping), 2 * n))
    # By a rule for each marker: no count raises an error.
    first, second = tables(b, c, n, "genomics.damped_tdt")
    # Without transmissions the difference is 0 as well, and the divisor does not matter.
    total = np.maximum(first + second, 1).astype(np.float64)
    found = np.abs(first - second) * np.sqrt(np.minimum(1.0, least / total))
    return found if found.ndim else float(found)


Scale = Literal["sqrt", "raw"]
SMOOTH = {"smooth-step": SmoothStepSelection, "heavy-tail": SmoothSelection}


@final
@dataclass(frozen=True, kw_only=True)
class Method:
    """How one marker is selected; `choose_method` makes it.

    Attributes
    ----------
    name : str
        "damped", "step", "smooth-step", "heavy-tail" or "randomized-response".
    markers, families : int
        How many there are.
    scale : str
        "sqrt" or "raw": which statistic is compared. "damped" compares `damped_tdt`.
    damping, beta : number or None
        What `damped_tdt`, and what the smooth bound, was made with.
    mechanism : object
        The mechanism for so many markers: its release takes what `private` returns.
    success : float
        Probability that it selects the best marker of the public design, which has no effects; of
        several in turn, that they are the best ones in their order (of more than 32: the first 32).
        Public.
    why : str
        The reason, public.
    alternatives : tuple of Method
        All methods that were compared, the likeliest first; this one is among them.

    Examples
    --------
    >>> import sordino as sd
    >>> method = sd.genomics.choose_method(markers=20, families=150, epsilon=3)
    >>> method.name, method.damping, method.mechanism.exact
    ('smooth-step', None, True)
    >>> scores, more = method.private([115, 90, 101] + [100] * 17, [85, 110, 99] + [100] * 17)
    >>> method.mechanism.release(scores, **more, entropy=sd.Seeded(7)).index
    0
    """

    name: str
    markers: int
    families: int
    scale: str
    damping: Number | None
    beta: Number | None
    mechanism: Any
    success: float
    why: str
    alternatives: tuple[Method, ...] = field(repr=False)

    @scrubbed
    def private(self, b: Any, c: Any) -> tuple[Any, dict[str, Any]]:
        """Return the private arguments of the release.

        The scores, and the smooth bound if there is one.

        Parameters
        ----------
        b, c : array of int, shape (m,)
            Private counts, as for `damped_tdt`.
        """
        bounds = self.bounds(b, c)
        # The largest of several smooth bounds is smooth, as each of them is.
        return self.scores(b, c), {} if bounds is None else {"smooth_bound": float(bounds.max())}

    @scrubbed
    def scores(self, b: Any, c: Any) -> Any:
        """Return the score of each marker: private, shape (m,); the counts as for `private`."""
        if self.damping is not None:
            return damped_tdt(b, c, families=self.families, damping=self.damping)
        scale: Any = self.scale
        return tdt_statistic(b, c, families=self.families, scale=scale)

    @scrubbed
    def bounds(self, b: Any, c: Any) -> Any:
        """Return the smooth bound of each marker, private; None if the method takes none."""
        scale: Any = self.scale
        return (
            None
            if self.beta is None
            else tdt(b, c, families=self.families, beta=self.beta, scale=scale)
        )

    def among(self, markers: int) -> Method:
        """Return the same method for another number of markers.

        What was said about success is kept.

        Parameters
        ----------
        markers : int
            At least 1.
        """
        # Only mechanisms for a smooth bound are made for a number of markers.
        fewer = replace(self, markers=COUNT("genomics.Method.among.markers", markers))
        if self.name not in SMOOTH:
            return fewer
        return replace(
            fewer, mechanism=build_mechanism(self.name, self.mechanism.epsilon, markers, self)
        )


def build_mechanism(name: str, epsilon: Number, markers: int, method: Method) -> Any:
    """Return the mechanism for the smooth bound of a method."""
    # The floor is what the smooth bound is where all parents are heterozygous. No bound is lower.
    scale: Any = method.scale
    ceiling = tdt_ceiling(families=method.families, scale=scale)
    least = 4 / math.sqrt(2 * method.families) if scale == "sqrt" else 4 / method.families
    floor = min(ceiling, Fraction(f"{least:.3g}"))
    return SMOOTH[name](
        epsilon=epsilon, beta=method.beta, candidates=markers, ceiling=ceiling, floor=floor
    )
