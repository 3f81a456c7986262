"""Keeps the exact answers of releases that may be refined, in the memory of this process alone.

The answers are kept and not read again: so the data of all looks are the same by construction, and nothing
has to be compared. They are forgotten with the release, with the session, at the end of its `with` block, or
when `Session.forget` is called. Decision: docs/decisions/0026-refinement-keeps-the-answers.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, Self, final
from weakref import WeakKeyDictionary, ref

import numpy as np

from sordino.constraints import Number, shown, to_fraction
from sordino.errors import InvalidParameter
from sordino.estimators.ladder import Ladder
from sordino.mechanisms import LaplaceMechanism, RefinedLaplace
from sordino.process import Process
from sordino.releases import Release, Value, Values
from sordino.remnants import no_remnants

if TYPE_CHECKING:
    from sordino.data import Domain
    from sordino.session.request import Progress
    from sordino.session.session_base import SessionBase

Build = Callable[[Any, float], Any]
"""From a measurement and the confidence of its intervals to what is released; it holds nothing private."""

_UNKNOWN = (
    "refine.release must be a count, histogram or top k with Laplace noise that this session has made with a "
    "ladder, that was not refined yet, and whose answers it still keeps. Measure again, which is independent."
)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Look:
    """One look at some answers: what was released, and the answers, which are private.

    Parameters
    ----------
    fresh : Value or Values
        The measurement.
    answers : object
        What it was made of; private.
    build : callable
        Makes the release of a measurement.
    rates : tuple of Fraction
        Of all looks of the ladder, in nats a step.
    place : int
        Which of them this is, from 0.
    """

    fresh: Value | Values
    answers: Any
    build: Build
    rates: tuple[Fraction, ...]
    place: int

    def __repr__(self) -> str:
        # Whoever prints local variables must not print the answers.
        return f"Look(place={self.place})"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("A Look cannot be copied or pickled: it belongs to the process that made it.")

    @property
    def domain(self) -> Domain | None:
        """None: the labels were fixed by the first look."""
        return None

    def run(self, *, progress: Progress | None = None) -> Any:
        """Return the answers of the first look, after the charge; private. No row is read."""
        if progress is not None:
            progress(100.0)
        return self.answers

    def plan(self, epsilon: Number) -> tuple[RefinedLaplace, int]:
        """Return what refines this look and the place of the next one: the finest that adds at most epsilon.

        Raises
        ------
        InvalidParameter
            If there is none.
        """
        mechanism = self.fresh.mechanism
        spent = mechanism.total if isinstance(mechanism, RefinedLaplace) else mechanism.cost
        # The cost of Laplace noise is the bound times its rate, exactly.
        bound = Fraction(spent.pure()) / mechanism.noise.rate
        further = range(self.place + 1, len(self.rates))
        needed = {place: bound * (self.rates[place] - self.rates[self.place]) for place in further}
        if not needed:
            raise InvalidParameter(
                f"refine.release must not be the last look of its ladder, the {len(self.rates)}th. Measure "
                "again, which is independent."
            )
        fitting = [place for place, more in needed.items() if more <= to_fraction(epsilon)]
        if not fitting:
            raise InvalidParameter(
                f"refine.epsilon must be at least {float(needed[self.place + 1]):.12g}, which the next look "
                f"of the ladder adds; got {shown(epsilon)}."
            )
        return RefinedLaplace(first=mechanism, epsilon=needed[fitting[-1]]), fitting[-1]


@final
class Memory:
    """The looks that may be refined, each once, by the process that made them."""

    __slots__ = ("_lock", "_looks", "_process", "_session", "ladder")

    def __init__(self, ladder: Ladder, session: SessionBase) -> None:
        self.ladder = ladder
        # A session that is forgotten takes its memory along.
        self._session = ref(session)
        self._looks: WeakKeyDictionary[Release, Look] = WeakKeyDictionary()
        self._lock = threading.RLock()
        self._process = Process()

    def __repr__(self) -> str:
        return f"Memory({self.ladder!r})"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        # Each copy could refine the same look: together that costs more than is charged (refining).
        raise TypeError(
            "A session with a ladder cannot be copied or pickled: the answers that it keeps belong to it."
        )

    def find_confidence(self, mechanism: Any, confidence: Number) -> float:
        """Return the confidence of the intervals of a first look with this mechanism."""
        plain = not isinstance(mechanism, LaplaceMechanism)
        return float(to_fraction(confidence)) if plain else self.ladder.find_confidence(1, confidence)

    def begin(self, release: Release, fresh: Value | Values, answers: Any, build: Build) -> None:
        """Keep the answers of a first look; not those after other noise, which cannot be refined."""
        # A fork refines nothing, and so keeps nothing.
        if isinstance(fresh.mechanism, LaplaceMechanism) and self._process.is_here():
            rates = self.ladder.list_rates(fresh.mechanism.noise.rate)
            # A part of an array would keep the whole alive: the counts of all items, for those of a few.
            own = answers.copy() if isinstance(answers, np.ndarray) else answers
            self.keep(release, Look(fresh, own, build, rates, 0))

    def keep(self, release: Release, look: Look) -> None:
        """Keep a look as long as somebody holds its release."""
        with self._lock:
            self._looks[release] = look
            _SESSIONS[release] = self._session

    def take(self, release: Any) -> Look:
        """Hand out a look, once: two refinements of one look cost more than both additions.

        Raises
        ------
        InvalidParameter
            If there is none of this release.
        """
        with self._lock:
            # In a fork the parent has the same look, and may refine it as well.
            known = self._process.is_here() and isinstance(release, Release)
            look = self._looks.pop(release, None) if known else None
        if look is None:
            raise InvalidParameter(_UNKNOWN)
        return look

    def forget(self) -> None:
        """Drop all answers."""
        with self._lock:
            self._looks.clear()


class Refinable:
    """Gives releases of counts their method `refine`."""

    @no_remnants
    def refine(self, *, epsilon: Number, progress: Progress | None = None) -> Self:
        """Look again, finer, at the same answers: `Session.refine` of the session that made this release.

        Parameters
        ----------
        epsilon : number
            What this look may add to what was spent; it goes as far up the ladder as that allows.
        progress : callable, optional
            As for every release.

        Raises
        ------
        InvalidParameter
            If the session is gone, or has no ladder; as `Session.refine`.
        """
        found = _SESSIONS.get(self)
        session: Any = None if found is None else found()
        if session is None:
            raise InvalidParameter(_UNKNOWN)
        finer: Self = session.refine(self, epsilon=epsilon, progress=progress)
        return finer


# Which session made a release. It stands here and not in the release, from which nothing leads to answers.
_SESSIONS: WeakKeyDictionary[Any, ref[SessionBase]] = WeakKeyDictionary()


def build_refined(look: Look, fresh: Value | Values, confidence: float) -> Any:
    """Return what is released of a finer measurement: `cost` is what it adds, `total` what all of it cost."""
    # As if the finer measurement had been made at once: a selection before it is in the total as well.
    release = look.build(replace(fresh, cost=fresh.total or fresh.cost), confidence)
    return replace(release, cost=fresh.cost, total=release.cost)
