"""What the auditor plays: noise, a pure function of answers and noise, and the claimed cost.

The noise is independent. Mechanisms of this library become such a subject by their own rules, with
the noise handed in.

Claim: what is audited is the function that is handed over, never a copy of it; of a mechanism of
this library, its own `decide`.
Floats: none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import TRUTH, shown
from sordino.cost import Cost
from sordino.entropy import SYSTEM, Entropy
from sordino.errors import InvalidParameter
from sordino.grid import to_steps
from sordino.mechanisms.base import Rules
from sordino.mechanisms.crossings.implicit_zeros import DENSE
from sordino.mechanisms.race import decide as decide_race
from sordino.noise import Geometric
from sordino.noise.probability import Bounds
from sordino.sensitivity import Sensitivity
from sordino_audit.enumeration.laws import Finite, Noise, checked_law

Rows = NDArray[np.int64]
Stated = Iterable[tuple[Any, Bounds]]

# Up to here no sum of answers and noise wraps in 64 bits ("Everywhere" on
# docs/proofs/exact-audit.md).
_LARGEST_STEPS = 1 << 53


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Subject:
    """A mechanism, of this library or of anybody else, as the auditor plays it.

    Without its sampler.

    Parameters
    ----------
    laws : iterable of laws
        The independent noise, one law a coordinate: `Geometric`, `DiscreteLaplace`,
        `DiscreteGaussian` or `audit.Finite`.
    cost : Cost
        What the mechanism claims to spend.
    decide : callable, optional
        For noise that is only added: takes answers plus noise, an array of int of shape (N, d), one
        row a noise vector. Returns the outputs of the N rows: an array of int, shape (N,) or (N,
        w), or a list of N hashable values.
    play : callable, optional
        For everything else: takes the answers as they were given (or as `steps` turned them), and
        the noise (N, d); returns the outputs of the N rows. Exactly one of `decide` and `play`.
        Outputs are whole numbers, truth values, texts, bytes, None, fractions, and tuples and
        frozensets of these; two of them are the same only if they also have the same type.
    sensitivity : Sensitivity, optional
        Which answers are neighbors. None: pairs are taken as neighbors on your word, and the report
        says so.
    cost_of : callable, optional
        What one output is claimed to spend, where that depends on the output: takes an output (a
        number, or a tuple for rows), returns a Cost.
    steps : callable, optional
        Turns answers into the whole numbers that noise is added to. None: they are whole numbers.
    added : bool
        Say True if `play` meets the answers only as their sums with the noise, coordinate by
        coordinate, which are then given by `steps`; of `decide` that is always said. It lets the
        noise alone prove something about every output.
    again : hashable, optional
        An output that is never released: all noise is drawn anew until another output comes. What
        is audited is the law of the others.
    stated : callable, optional
        For outputs that no finite number of draws decides; then there are no `laws`, and neither
        `decide` nor `play`. Takes what `steps` returns (the answers, without it); returns a list of
        outputs, each with decimal bounds of its probability. What is not listed counts against the
        mechanism. What is audited is the law as it is stated: that releases have it must be shown
        elsewhere.
    merged : bool
        Say True if what is stated are classes of outputs, in which ratios differ. The bounds from
        above are then for who sees the class only, as with a partition.
    shifts : bool
        Say True if outputs do not change when all noisy answers move together by the same number of
        steps. It is checked on all noise that is played, and then one-sided noise proves something
        about every output, too.
    name : str
        What the report calls it.

    Raises
    ------
    InvalidParameter
        If a law cannot be counted, not exactly one of `decide` and `play` is given, or a parameter
        does not satisfy its constraint.

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
        if stated is not None and (
            listed or decide is not None or play is not None or again is not None
        ):
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
                f"audit.exact needs answers that are {len(self.laws)} whole numbers of steps for "
                "this subject (or Subject.steps, a function that returns them as an array)."
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


# ---- mechanisms by their rules -------------------------------------------------------------------


def subject_by_rules(mechanism: Any, rules: Rules, n: int) -> Subject:
    """Return a mechanism for `n` answers, played by its rules."""
    domain = getattr(mechanism, "domain_size", None)
    check_domain(domain)
    draws = rules.draws(n if domain is None else domain)
    laws = [
        checked_law(law, type(mechanism).__name__) for law, times in draws for _ in range(times)
    ]
    # Where the columns of each law end: a decision takes its noise law by law.
    ends = list(accumulate(times for _, times in draws))[:-1]

    def steps(answers: Any) -> Any:
        if domain is not None:
            return rules.steps(*nonzero(answers))
        found = rules.steps(answers)
        if isinstance(found, np.ndarray):
            found = np.atleast_1d(found)
            check_size(found, len(laws) if rules.added else n)
        return found

    def play(given: Any, noise: Rows) -> Any:
        # A release that asks question by question takes its noise in that order: it is played row
        # by row.
        if rules.walks:
            return [_walk_release(rules, given, np.split(row, ends)) for row in noise]
        # Any other decision takes all rows at once, as arrays.
        return rules.written(rules.decide(given, *np.split(noise, ends, axis=-1)))

    return Subject(
        laws=laws,
        play=play,
        steps=steps,
        added=rules.added,
        shifts=rules.shifts,
        cost=mechanism.cost,
        cost_of=rules.spent_by,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def _walk_release(rules: Rules, given: Any, noise: list[NDArray[np.int64]]) -> tuple[Any, ...]:
    """Return what one release with this noise writes down."""
    # The entropy is there for the signature: all draws come from the noise that is handed in.
    written = rules.written(rules.decide(given, SYSTEM, *(_HandedNoise(part) for part in noise)))
    return tuple(written.tolist()) if isinstance(written, np.ndarray) else written


class _HandedNoise:
    """A law whose draws are the noise that the auditor plays, in their order."""

    def __init__(self, noise: NDArray[np.int64]) -> None:
        self._left = noise

    # The signature of a law.
    def sample(self, n: int, entropy: Entropy) -> NDArray[np.int64]:  # noqa: ARG002
        drawn, self._left = self._left[:n], self._left[n:]
        if not drawn.size:
            raise InvalidParameter(
                "audit.exact handed a mechanism less noise than it draws; that is a fault of the "
                "audit."
            )
        return drawn.copy()  # whoever takes noise may wipe it


def raced(
    rate: Fraction, steps: Callable[[Any], NDArray[np.int64]], n: int, **common: Any
) -> Subject:
    """Return a race among `n` places: one try, drawn again until it arrives."""

    def play(answers: Any, noise: Rows) -> Rows:
        # A try that does not arrive becomes -1, the output that is drawn again.
        place, level = noise[:, 0], noise[:, 1]
        return np.where(decide_race(steps(answers), place, level) >= 0, place, -1)

    return Subject(laws=[Finite([1] * n), Geometric(rate)], play=play, again=-1, **common)


def make_step_reader(mechanism: Any, n: int) -> Callable[[Any], NDArray[np.int64]]:
    """Return the function that turns answers into `n` whole numbers of steps."""

    def steps(answers: Any) -> NDArray[np.int64]:
        # The rounding to steps is that of the library, not a copy of it.
        found: NDArray[np.int64] = np.atleast_1d(
            to_steps(answers, mechanism.step, type(mechanism).__name__)
        )
        check_size(found, n)
        return found

    return steps


def check_size(found: NDArray[Any], n: int) -> None:
    """Raise `InvalidParameter` unless there are `n` answers."""
    if found.size != n:
        raise InvalidParameter(
            f"audit.exact needs the same number of answers on both sides; got {n} and {found.size}."
        )


def check_domain(size: int | None) -> None:
    """Raise `InvalidParameter` for a domain that is not computed item by item."""
    if size is not None and size > DENSE:
        raise InvalidParameter(
            f"audit.exact plays domains of at most {DENSE} items, which are computed item by item; "
            f"got {size}. Audit a smaller domain: larger ones draw only the zeros that matter; "
            "that this is the same law is proved, and enumerated by the tests, not here."
        )


def nonzero(answers: Any) -> tuple[list[Any], list[int]]:
    """Return answers that are not 0, as a release over a domain takes them, and their positions."""
    known = (
        answers
        if isinstance(answers, Mapping)
        else {i: value for i, value in enumerate(answers) if value}
    )
    return list(known.values()), list(known)
