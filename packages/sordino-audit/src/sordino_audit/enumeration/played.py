"""Turns mechanisms into what the auditor plays: their own rules, with the noise handed in.

Claim: none of its own. What is played are the functions that a release calls.
Floats: none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import SYSTEM, Entropy
from sordino.errors import InvalidParameter
from sordino.grid import to_steps
from sordino.mechanisms.base import Rules
from sordino.mechanisms.crossings.implicit_zeros import DENSE
from sordino.mechanisms.race import decide as decide_race
from sordino.noise import Geometric
from sordino_audit.enumeration.laws import Finite, checked_law
from sordino_audit.enumeration.subject import Rows, Subject


def subject_by_rules(mechanism: Any, rules: Rules, n: int) -> Subject:
    """Return a mechanism for `n` answers, played by its rules."""
    domain = getattr(mechanism, "domain_size", None)
    check_domain(domain)
    draws = rules.draws(n if domain is None else domain)
    laws = [checked_law(law, type(mechanism).__name__) for law, times in draws for _ in range(times)]
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
        # A release that asks question by question takes its noise in that order: it is played row by row.
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

    def sample(self, n: int, entropy: Entropy) -> NDArray[np.int64]:  # noqa: ARG002 - the signature of a law
        drawn, self._left = self._left[:n], self._left[n:]
        if not drawn.size:
            raise InvalidParameter(
                "audit.exact handed a mechanism less noise than it draws; that is a fault of the audit."
            )
        return drawn.copy()  # whoever takes noise may wipe it


def raced(rate: Fraction, steps: Callable[[Any], NDArray[np.int64]], n: int, **common: Any) -> Subject:
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
        found: NDArray[np.int64] = np.atleast_1d(to_steps(answers, mechanism.step, type(mechanism).__name__))
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
            f"got {size}. "
            "Audit a smaller domain: "
            "larger ones draw only the zeros that matter; that this is the same law is proved, "
            "and enumerated by the tests, not here."
        )


def nonzero(answers: Any) -> tuple[list[Any], list[int]]:
    """Return the answers that are not 0, as a release over a domain takes them, and their positions."""
    known = (
        answers if isinstance(answers, Mapping) else {i: value for i, value in enumerate(answers) if value}
    )
    return list(known.values()), list(known)
