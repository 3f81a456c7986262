"""One way to select a marker: a statistic, a bound of how far one family moves it, and a mechanism.

Claim: a release of `Method.mechanism` on `Method.private` costs its epsilon: each statistic moves by no more
than the mechanism was told.
Proof: docs/proofs/most-significant.md.
Floats: as in the statistics and bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, final

from sordino.constraints import COUNT, Number
from sordino.genomics.damped import damped_tdt
from sordino.mechanisms import SmoothSelection, SmoothStepSelection
from sordino.remnants import no_remnants
from sordino.smooth import tdt, tdt_ceiling, tdt_statistic

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
        Probability that it selects the best marker of the public design.
    why : str
        The reason, public.

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

    @no_remnants
    def private(self, b: Any, c: Any) -> tuple[Any, dict[str, Any]]:
        """Return the private arguments of the release: the scores, and the smooth bound if there is one.

        Parameters
        ----------
        b, c : array of int, shape (m,)
            Private counts, as for `damped_tdt`.
        """
        bounds = self.bounds(b, c)
        # The largest of several smooth bounds is smooth, as each of them is.
        return self.scores(b, c), {} if bounds is None else {"smooth_bound": float(bounds.max())}

    @no_remnants
    def scores(self, b: Any, c: Any) -> Any:
        """Return the score of each marker: private, shape (m,); the counts as for `private`."""
        if self.damping is not None:
            return damped_tdt(b, c, families=self.families, damping=self.damping)
        scale: Any = self.scale
        return tdt_statistic(b, c, families=self.families, scale=scale)

    @no_remnants
    def bounds(self, b: Any, c: Any) -> Any:
        """Return the smooth bound of each marker, private; None if the method takes none."""
        scale: Any = self.scale
        return None if self.beta is None else tdt(b, c, families=self.families, beta=self.beta, scale=scale)

    def among(self, markers: int) -> Method:
        """Return the same method for another number of markers; what was said about success is kept.

        Parameters
        ----------
        markers : int
            At least 1.
        """
        # Only mechanisms for a smooth bound are made for a number of markers.
        fewer = replace(self, markers=COUNT("genomics.Method.among.markers", markers))
        if self.name not in SMOOTH:
            return fewer
        return replace(fewer, mechanism=build_mechanism(self.name, self.mechanism.epsilon, markers, self))


def build_mechanism(name: str, epsilon: Number, markers: int, method: Method) -> Any:
    """Return the mechanism for the smooth bound of a method."""
    # The floor is what the smooth bound is where all parents are heterozygous. No bound is lower.
    scale: Any = method.scale
    ceiling = tdt_ceiling(families=method.families, scale=scale)
    least = 4 / math.sqrt(2 * method.families) if scale == "sqrt" else 4 / method.families
    floor = min(ceiling, Fraction(f"{least:.3g}"))
    return SMOOTH[name](epsilon=epsilon, beta=method.beta, candidates=markers, ceiling=ceiling, floor=floor)
