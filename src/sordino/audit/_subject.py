"""What the auditor looks at: independent noise, a pure function of answers and noise, and the cost that is claimed.

Claim: what is audited is the function that is handed over, never a copy of it; of a mechanism of this library, its own `decide`.
Floats: none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.audit._continuous import Continuous
from sordino.audit._laws import Finite, Noise, checked_law
from sordino.audit._softmax import peeled
from sordino.constraints import TRUTH, shown
from sordino.cost import Cost
from sordino.entropy import SYSTEM, Entropy
from sordino.errors import InvalidParameter
from sordino.grid import to_steps
from sordino.mechanisms import GaussianMechanism, LaplaceMechanism, NoisyTopK, _additive, _noisy_top_k
from sordino.mechanisms._gumbel_top_k import Gumbel
from sordino.mechanisms._implicit_zeros import DENSE, listed, noisy_domain
from sordino.mechanisms._race import decide as decide_race
from sordino.mechanisms._statements import whole_vector
from sordino.noise import Geometric
from sordino.noise._probability import Bounds
from sordino.sensitivity import Norm, Sensitivity

Rows = NDArray[np.int64]
Stated = Iterable[tuple[Any, Bounds]]

_LARGEST = 1 << 53


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Subject:
    """A mechanism as the auditor plays it: anybody's, without its sampler.

    Parameters
    ----------
    laws : iterable of laws
        The independent noise, one law a coordinate: `Geometric`, `DiscreteLaplace`, `DiscreteGaussian` or `audit.Finite`.
    cost : Cost
        What the mechanism claims to spend.
    decide : callable, optional
        For noise that is only added: takes answers plus noise, an array of int of shape (N, d), one row a noise vector. Returns the
        outputs of the N rows: an array of int, shape (N,) or (N, w), or a list of N hashable values.
    play : callable, optional
        For everything else: takes the answers as they were given (or as `steps` turned them), and the noise (N, d); returns the outputs
        of the N rows. Exactly one of `decide` and `play`. Outputs are whole numbers, truth values, texts, bytes, None, fractions, and
        tuples and frozensets of these; two of them are the same only if they also have the same type.
    sensitivity : Sensitivity, optional
        Which answers are neighbours. None: pairs are taken as neighbours on your word, and the report says so.
    cost_of : callable, optional
        What one output is claimed to spend, where that depends on the output: takes an output (a number, or a tuple for rows),
        returns a Cost.
    steps : callable, optional
        Turns answers into the whole numbers that noise is added to. None: they are whole numbers.
    added : bool
        Say True if `play` meets the answers only as their sums with the noise, coordinate by coordinate, which are then given by
        `steps`; of `decide` that is always said. It lets the noise alone prove something about every output.
    again : hashable, optional
        An output that is never released: all noise is drawn anew until another output comes. What is audited is the law of the others.
    stated : callable, optional
        For outputs that no finite number of draws decides; then there are no `laws`, and neither `decide` nor `play`. Takes what `steps`
        returns (the answers, without it); returns a list of outputs, each with decimal bounds of its probability. What is not listed
        counts against the mechanism. What is audited is the law as it is stated: that releases have it must be shown elsewhere.
    shifts : bool
        Say True if outputs do not change when all noisy answers move together by the same number of steps. It is checked on all
        noise that is played, and then one-sided noise proves something about every output, too.
    name : str
        What the report calls it.

    Raises
    ------
    InvalidParameter
        If a law cannot be counted, not exactly one of `decide` and `play` is given, or a parameter does not satisfy its constraint.

    Examples
    --------
    Randomized response on one bit, truthful with probability 3/4 (loss ln 3), sold as 1:

    >>> import sordino as sd
    >>> coin = sd.audit.Subject(laws=[sd.audit.Finite([3, 1])], play=lambda bit, lie: bit ^ lie[:, 0], cost=sd.cost.Pure(epsilon=1))
    >>> sd.audit.exact(coin, answers_a=0, answers_b=1).broken
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
        shifts: bool = False,
        name: str = "Subject",
    ) -> None:
        if not isinstance(laws, Iterable):
            raise InvalidParameter(f"Subject.laws must be a list of laws; got {shown(laws)}.")
        listed = tuple(checked_law(law, "Subject.laws") for law in laws)
        for what, given in {"decide": decide, "play": play, "cost_of": cost_of, "steps": steps, "stated": stated}.items():
            if given is not None and not callable(given):
                raise InvalidParameter(f"Subject.{what} must be a function; got {shown(given)}.")
        if not isinstance(sensitivity, Sensitivity | None):
            raise InvalidParameter(f"Subject.sensitivity must be a Sensitivity or None; got {shown(sensitivity)}.")
        if stated is not None and (listed or decide is not None or play is not None or again is not None):
            raise InvalidParameter(
                "audit.Subject must have no laws, and neither decide nor play nor again, where its law is stated."
            )
        if stated is None and (not listed or (decide is None) == (play is None)):
            raise InvalidParameter("audit.Subject must have at least one law, and either decide or play, not both.")
        if isinstance(cost, type) or not isinstance(cost, Cost):
            raise InvalidParameter(f"Subject.cost must be a cost, such as cost.Pure(epsilon=1); got {shown(cost)}.")
        TRUTH("Subject.added", added)
        TRUTH("Subject.shifts", shifts)
        if added and decide is None and (play is None or steps is None):
            raise InvalidParameter(
                "Subject.added must be False unless play and steps are given: noise is added to what steps returns."
            )
        if shifts and decide is None and not added:
            raise InvalidParameter("Subject.shifts must be False unless noise is only added: give decide, or play with added=True.")
        for field, value in {
            "laws": listed,
            "cost": cost,
            "decide": decide,
            "play": play,
            "sensitivity": sensitivity,
            "cost_of": cost_of,
            "steps": steps,
            "added": added or decide is not None,
            "again": again,
            "stated": stated,
            "shifts": shifts,
            "name": name,
        }.items():
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        return self.name

    def private(self, answers: Any) -> Any:
        """Return the answers as the noise meets them: whole numbers, one for each law, or for `play` whatever was given."""
        given = answers if self.steps is None else self.steps(answers)
        if not self.added:
            return given
        array = np.atleast_1d(np.asarray(given)) if self.steps is None else np.asarray(given)
        if array.dtype.kind not in "iu" or array.shape != (len(self.laws),):
            raise InvalidParameter(
                f"audit.exact needs answers that are {len(self.laws)} whole numbers of steps for this subject (or Subject.steps, a "
                "function that returns them as an array)."
            )
        if max(abs(int(x)) for x in array.tolist()) > _LARGEST:
            raise InvalidParameter("audit.exact needs answers of at most 2^53 steps.")
        return array.astype(np.int64)  # narrower numbers would wrap where noise is added

    def played(self, private: Any, noise: Rows) -> Any:
        """Return the outputs of all rows of `noise`."""
        if self.play is not None:
            return self.play(private, noise)
        return None if self.decide is None else self.decide(private + noise)


@singledispatch
def subject_of(mechanism: Any, n: int) -> Subject | Continuous:
    """Return the mechanism, for `n` answers, as the auditor sees it; a mechanism of yours has a method `audited(n)` for that."""
    made = mechanism.audited(n) if hasattr(mechanism, "audited") else mechanism
    if isinstance(made, Subject | Continuous):
        return made
    raise InvalidParameter(
        f"audit.exact needs a mechanism of this library, an audit.Subject, or an object whose audited(n) returns one; "
        f"got {shown(mechanism)}."
    )


@subject_of.register
def _(mechanism: Subject, n: int) -> Subject:  # noqa: ARG001 - a subject has its own number of laws
    return mechanism


@subject_of.register
def _(mechanism: NoisyTopK, n: int) -> Subject:
    def play(steps: Rows, noise: Rows) -> Rows:
        return np.concatenate(_noisy_top_k.play(steps, noise, mechanism.k), axis=-1)  # the very steps of `release`

    if mechanism.k > n:
        raise InvalidParameter(f"NoisyTopK.k must be at most the number of answers {n}; got {mechanism.k}.")
    common: dict[str, Any] = {"cost": mechanism.cost, "sensitivity": mechanism.sensitivity, "name": repr(mechanism)}
    if isinstance(mechanism.noise, Gumbel):
        k, rate, counts = mechanism.k, mechanism.noise.rate, counted(mechanism, n)
        if k == 1:
            return raced(rate, counts, n, **common)
        return Subject(laws=[], steps=counts, stated=lambda steps: peeled(steps.tolist(), k, rate), **common)
    if mechanism.domain_size is None:
        steps = counted(mechanism, n)
        return Subject(laws=[mechanism.noise] * n, play=play, steps=steps, added=True, shifts=True, **common)
    check_domain(mechanism.domain_size)
    return Subject(laws=[mechanism.noise] * mechanism.domain_size, play=_listed(mechanism), **common)


def check_domain(size: int | None) -> None:
    """Raise `InvalidParameter` for a domain that is not computed item by item."""
    if size is not None and size > DENSE:
        raise InvalidParameter(
            f"audit.exact plays domains of at most {DENSE} items, which are computed item by item; got {size}. Audit a smaller domain: "
            "larger ones draw only the zeros that matter; that this is the same law is proved, and enumerated by the tests, not here."
        )


def raced(rate: Fraction, steps: Callable[[Any], NDArray[np.int64]], n: int, **common: Any) -> Subject:
    """Return a race among `n` places: one try, drawn again until it arrives."""

    def play(answers: Any, noise: Rows) -> Rows:
        place, level = noise[:, 0], noise[:, 1]
        return np.where(decide_race(steps(answers), place, level) >= 0, place, -1)

    return Subject(laws=[Finite([1] * n), Geometric(rate)], play=play, again=-1, **common)


def _listed(mechanism: NoisyTopK) -> Callable[[Any, Rows], list[Any]]:
    """Return the play of a top-k over a public domain: its own code, from the listed answers to the output, with noise handed in."""
    size = mechanism.domain_size or 0

    def play(answers: Any, noise: Rows) -> list[Any]:
        steps, at = listed(*nonzero(answers), mechanism.step, "NoisyTopK")
        outputs = []
        for row in noise:
            law: Any = _Handed(row)
            noisy, places = noisy_domain(steps, at, size, law, min(mechanism.k + 1, size), SYSTEM)
            winners, gaps = _noisy_top_k.decide(noisy, mechanism.k)
            outputs.append((*places[winners].tolist(), *gaps.tolist()))
        return outputs

    return play


def nonzero(answers: Any) -> tuple[list[Any], list[int]]:
    """Return the answers that are not 0, as a release over a domain takes them, and their positions."""
    known = answers if isinstance(answers, Mapping) else {i: value for i, value in enumerate(answers) if value}
    return list(known.values()), list(known)


@dataclass(frozen=True)
class _Handed:
    """A law whose sample is the noise that the auditor plays."""

    noise: NDArray[np.int64]

    def sample(self, n: int, entropy: Entropy) -> NDArray[np.int64]:  # noqa: ARG002 - the signature of a law
        return self.noise[:n]


@subject_of.register(LaplaceMechanism)
@subject_of.register(GaussianMechanism)
def _(mechanism: LaplaceMechanism | GaussianMechanism, n: int) -> Subject:
    norm: Norm = "l1" if isinstance(mechanism, LaplaceMechanism) else "l2"
    whole_vector(mechanism.sensitivity, norm, n, type(mechanism).__name__)
    return Subject(
        laws=[mechanism.noise] * n,
        play=_additive.play,  # the very function of `release`
        steps=counted(mechanism, n),
        added=True,
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def counted(mechanism: Any, n: int) -> Callable[[Any], NDArray[np.int64]]:
    """Return the function that turns answers into `n` whole numbers of steps."""

    def steps(answers: Any) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.atleast_1d(to_steps(answers, mechanism.step, type(mechanism).__name__))
        if found.size != n:
            raise InvalidParameter(f"audit.exact needs the same number of answers on both sides; got {n} and {found.size}.")
        return found

    return steps
