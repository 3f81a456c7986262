"""Turns a mechanism, of this library or of others, into a black box: a callable without arguments.

Claim: none of its own. Of this library `release` itself is called, or in batches its own noise,
sampled, through its own decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import COUNT, shown
from sordino.entropy import SYSTEM, Entropy, checked_entropy
from sordino.errors import InvalidParameter
from sordino.noise import uniform_below
from sordino_audit.enumeration.laws import Finite, Noise
from sordino_audit.enumeration.neighbours import list_answers
from sordino_audit.enumeration.outcomes import key
from sordino_audit.enumeration.subject import Subject, nonzero
from sordino_audit.enumeration.subjects import subject_of


def black_box(
    mechanism: Any, data: Any, *, batch: int | None = None, entropy: Entropy = SYSTEM
) -> Callable[[], Any]:
    """Return a callable that runs a mechanism on made-up data, for `audit.statistical`.

    Parameters
    ----------
    mechanism : object
        In this order: an `audit.Subject`; an object with `release(data, entropy=)` (this library)
        or `randomise(data)` (diffprivlib); or anything that is called with the data (an OpenDP
        measurement, a function).
    data : object
        What it is given. Over a public domain: a list of all answers, or a mapping from positions
        to those that are not 0.
    batch : int, optional
        Outcomes a call, for subjects and mechanisms of this library: noise is sampled at once and
        played through the mechanism's own decision. Give `audit.statistical` the same number. None:
        one run a call.
    entropy : Entropy
        For subjects and mechanisms of this library; others draw their own. Two boxes must not get
        the same seed.

    Returns
    -------
    callable

    Raises
    ------
    InvalidParameter
        If the mechanism cannot be run, or not in batches.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> top = sd.NoisyTopK(k=1, epsilon=2, sensitivity=sd.COUNTING)
    >>> audit.black_box(top, [5, 7, 9], entropy=sd.Seeded(7))().indices.tolist()
    [2]
    >>> audit.black_box(top, [5, 7, 9], entropy=sd.Seeded(7), batch=4)().shape
    (4, 2)
    """
    checked_entropy(entropy, "audit.black_box")
    if isinstance(mechanism, Subject) or batch is not None:
        size = 1 if batch is None else COUNT("audit.black_box.batch", batch)
        # A subject knows how many answers it takes; of others they are counted.
        n = getattr(mechanism, "domain_size", None) or (
            0 if isinstance(mechanism, Subject) else len(list_answers(data))
        )
        subject = mechanism if isinstance(mechanism, Subject) else subject_of(mechanism, n)
        if not isinstance(subject, Subject):
            raise InvalidParameter(
                "audit.black_box.batch must be None where noise is continuous; "
                f"got {batch} and {shown(mechanism)}."
            )
        # A law that is only stated has no noise to play: its releases are run one by one.
        if not subject.laws:
            if not hasattr(mechanism, "release"):
                raise InvalidParameter(
                    "audit.black_box needs a subject with whole-number noise: a stated law has no "
                    "runs."
                )
            release = _bind_release(mechanism, data, entropy)
            return lambda: [release() for _ in range(size)]
        # The answers are prepared once; every call draws fresh noise.
        private = subject.private(data)

        def play() -> Any:
            played = _play_outcomes(subject, private, size, entropy)
            return played if batch is not None else played[0]

        return play
    # This library's method first, then that of diffprivlib, then a plain call.
    if hasattr(mechanism, "release"):
        return _bind_release(mechanism, data, entropy)
    if hasattr(mechanism, "randomise"):
        return lambda: mechanism.randomise(data)
    if callable(mechanism):
        return lambda: mechanism(data)
    raise InvalidParameter(
        "audit.black_box needs a mechanism with release or randomise, or one that can be called; "
        f"got {shown(mechanism)}."
    )


def _bind_release(mechanism: Any, data: Any, entropy: Entropy) -> Callable[[], Any]:
    """Return the release of a mechanism on the data.

    Over a public domain it is given the answers that are not 0, by their positions.
    """
    if getattr(mechanism, "domain_size", None) is None:
        return lambda: mechanism.release(data, entropy=entropy)
    # What is not listed is 0, as in a release over a domain.
    answers, positions = nonzero(data)
    return lambda: mechanism.release(answers, positions=positions, entropy=entropy)


def _play_outcomes(subject: Subject, private: Any, n: int, entropy: Entropy) -> Any:
    """Return the outcomes of `n` runs.

    All noise of a run is drawn anew while its outcome is the one that is never released.
    """

    def drawn(size: int) -> Any:
        return subject.played(
            private, np.column_stack([_sample_law(law, size, entropy) for law in subject.laws])
        )

    if subject.again is None:
        return drawn(n)
    # Rows are independent: those that are kept, in their order, have the law of a release.
    kept: list[Any] = []
    while len(kept) < n:
        outcomes = drawn(n)
        if isinstance(outcomes, np.ndarray):
            other = outcomes != np.asarray(subject.again)
            kept += list(outcomes[other if other.ndim == 1 else other.any(axis=1)])
        else:
            kept += [outcome for outcome in outcomes if not _is_redrawn(outcome, subject.again)]
    # A last batch may bring more rows than are wanted: the first ones are taken, whatever they are.
    return np.array(kept[:n]) if isinstance(outcomes, np.ndarray) else kept[:n]


def _is_redrawn(outcome: Any, again: Any) -> bool:
    """Return whether an outcome is the one that is never released.

    What has no key is another one.
    """
    try:
        return key(outcome) == key(again)
    except InvalidParameter:
        return False


def _sample_law(law: Noise, n: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return `n` draws of a law.

    A finite law is drawn by where a uniform whole number falls among its weights.
    """
    if not isinstance(law, Finite):
        return law.sample(n, entropy)
    # With `side="right"` a value of weight 0 is never drawn.
    ends = np.cumsum(law.weights)
    return law.low + np.searchsorted(
        ends, uniform_below(int(ends[-1]), n, entropy), side="right"
    ).astype(np.int64)
