"""What the auditor plays: independent noise, a pure function of answers and noise, and the claimed cost.

Claim: what is audited is the function that is handed over, never a copy of it; of a mechanism of this
library, its own `decide`.
Floats: none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import TRUTH, shown
from sordino.cost import Cost
from sordino.errors import InvalidParameter
from sordino.noise.probability import Bounds
from sordino.sensitivity import Sensitivity
from sordino_audit.enumeration.laws import Noise, checked_law

Rows = NDArray[np.int64]
Stated = Iterable[tuple[Any, Bounds]]

# Up to here no sum of answers and noise wraps in 64 bits ("Everywhere" on docs/proofs/exact-audit.md).
_LARGEST_STEPS = 1 << 53


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Subject:
    """A mechanism, of this library or of anybody else, as the auditor plays it: without its sampler.

    Parameters
    ----------
    laws : iterable of laws
        The independent noise, one law a coordinate: `Geometric`, `DiscreteLaplace`, `DiscreteGaussian` or
        `audit.Finite`.
    cost : Cost
        What the mechanism claims to spend.
    decide : callable, optional
        For noise that is only added: takes answers plus noise, an array of int of shape (N, d), one row a
        noise vector. Returns the outputs of the N rows: an array of int, shape (N,) or (N, w), or a list of N
        hashable values.
    play : callable, optional
        For everything else: takes the answers as they were given (or as `steps` turned them), and the noise
        (N, d); returns the outputs of the N rows. Exactly one of `decide` and `play`. Outputs are whole
        numbers, truth values, texts, bytes, None, fractions, and tuples and frozensets of these; two of them
        are the same only if they also have the same type.
    sensitivity : Sensitivity, optional
        Which answers are neighbors. None: pairs are taken as neighbors on your word, and the report says
        so.
    cost_of : callable, optional
        What one output is claimed to spend, where that depends on the output: takes an output (a number, or a
        tuple for rows), returns a Cost.
    steps : callable, optional
        Turns answers into the whole numbers that noise is added to. None: they are whole numbers.
    added : bool
        Say True if `play` meets the answers only as their sums with the noise, coordinate by coordinate,
        which are then given by `steps`; of `decide` that is always said. It lets the noise alone prove
        something about every output.
    again : hashable, optional
        An output that is never released: all noise is drawn anew until another output comes. What is audited
        is the law of the others.
    stated : callable, optional
        For outputs that no finite number of draws decides; then there are no `laws`, and neither `decide` nor
        `play`. Takes what `steps` returns (the answers, without it); returns a list of outputs, each with
        decimal bounds of its probability. What is not listed counts against the mechanism. What is audited is
        the law as it is stated: that releases have it must be shown elsewhere.
    merged : bool
        Say True if what is stated are classes of outputs, in which ratios differ. The bounds from above are
        then for who sees the class only, as with a partition.
    shifts : bool
        Say True if outputs do not change when all noisy answers move together by the same number of steps. It
        is checked on all noise that is played, and then one-sided noise proves something about every output,
        too.
    name : str
        What the report calls it.

    Raises
    ------
    InvalidParameter
        If a law cannot be counted, not exactly one of `decide` and `play` is given, or a parameter does not
        satisfy its constraint.

    Examples
    --------
    Randomized response on one bit, truthful with probability 3/4 (loss ln 3), sold as 1:

    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> coin = audit.Subject(
    ...     laws=[audit.Finite([3, 1])],
    ...     play=lambda bit, lie: bit ^ lie[:, 0],
    ...     cost=sd.cost.Pure(epsilon=1),
    ... )
    >>> audit.exact(coin, answers_a=0, answers_b=1).broken
    True
    """

    laws: tuple[Noise, ...]
    cost: Cost
    decide: Callable[[Rows], Any] | None = None
    play: Callable[[Any, Rows], Any] | None = None
    sensitivity: Sensitivity | None = None
    cost_of: Callable[[Any], Cost] | None = None
    steps: Callable[[Any], NDArray[np.int64]] | None = None
    added: bool = False
    again: Hashable | None = None
    stated: Callable[[Any], Stated] | None = None
    merged: bool = False
    shifts: bool = False
    name: str = "Subject"

    def __init__(
        self,
        *,
        laws: Iterable[Noise],
        cost: Cost,
        decide: Callable[[Rows], Any] | None = None,
        play: Callable[[Any, Rows], Any] | None = None,
        sensitivity: Sensitivity | None = None,
        cost_of: Callable[[Any], Cost] | None = None,
        steps: Callable[[Any], NDArray[np.int64]] | None = None,
        added: bool = False,
        again: Hashable | None = None,
        stated: Callable[[Any], Stated] | None = None,
        merged: bool = False,
        shifts: bool = False,
        name: str = "Subject",
    ) -> None:
        if not isinstance(laws, Iterable):
            raise InvalidParameter(f"Subject.laws must be a list of laws; got {shown(laws)}.")
        listed = tuple(checked_law(law, "Subject.laws") for law in laws)
        for what, given in {
            "decide": decide,
            "play": play,
            "cost_of": cost_of,
            "steps": steps,
            "stated": stated,
        }.items():
            if given is not None and not callable(given):
                raise InvalidParameter(f"Subject.{what} must be a function; got {shown(given)}.")
        if not isinstance(sensitivity, Sensitivity | None):
            raise InvalidParameter(
                f"Subject.sensitivity must be a Sensitivity or None; got {shown(sensitivity)}."
            )
        if stated is not None and (listed or decide is not None or play is not None or again is not None):
            raise InvalidParameter(
                "audit.Subject must have no laws, and neither decide nor play nor again, "
                "where its law is stated."
            )
        if stated is None and (not listed or (decide is None) == (play is None)):
            raise InvalidParameter(
                "audit.Subject must have at least one law, and either decide or play, not both."
            )
        if isinstance(cost, type) or not isinstance(cost, Cost):
            raise InvalidParameter(
                f"Subject.cost must be a cost, such as cost.Pure(epsilon=1); got {shown(cost)}."
            )
        TRUTH("Subject.added", added)
        TRUTH("Subject.shifts", shifts)
        TRUTH("Subject.merged", merged)
        if added and decide is None and (play is None or steps is None):
            raise InvalidParameter(
                "Subject.added must be False unless play and steps are given: "
                "noise is added to what steps returns."
            )
        if shifts and decide is None and not added:
            raise InvalidParameter(
                "Subject.shifts must be False unless noise is only added: "
                "give decide, or play with added=True."
            )
        for field, value in {
            "laws": listed,
            "cost": cost,
            "decide": decide,
            "play": play,
            "sensitivity": sensitivity,
            "cost_of": cost_of,
            "steps": steps,
            # `decide` is given nothing but noisy answers.
            "added": added or decide is not None,
            "again": again,
            "stated": stated,
            "merged": merged,
            "shifts": shifts,
            "name": name,
        }.items():
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        return self.name

    def private(self, answers: Any) -> Any:
        """Return the answers as the noise meets them: whole numbers, one for each law.

        For `play` they are whatever was given.
        """
        given = answers if self.steps is None else self.steps(answers)
        # Answers that are not only added to may be anything, and are handed on as they are.
        if not self.added:
            return given
        # A single answer may stand without a list.
        array = np.atleast_1d(np.asarray(given)) if self.steps is None else np.asarray(given)
        if array.dtype.kind not in "iu" or array.shape != (len(self.laws),):
            raise InvalidParameter(
                f"audit.exact needs answers that are {len(self.laws)} whole numbers of steps "
                "for this subject "
                "(or Subject.steps, a "
                "function that returns them as an array)."
            )
        if max(abs(int(x)) for x in array.tolist()) > _LARGEST_STEPS:
            raise InvalidParameter("audit.exact needs answers of at most 2^53 steps.")
        # Narrower numbers would wrap where noise is added.
        return array.astype(np.int64)

    def played(self, private: Any, noise: Rows) -> Any:
        """Return the outputs of all rows of `noise`."""
        if self.play is not None:
            return self.play(private, noise)
        return None if self.decide is None else self.decide(private + noise)
