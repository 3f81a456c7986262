"""How the auditor plays the hybrids: their own code from the answers to the release, with the noise handed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sordino.audit._sparse_vector import _Played
from sordino.audit._subject import Rows, Subject, check_domain, counted, nonzero, subject_of
from sordino.entropy import SYSTEM
from sordino.errors import InvalidParameter
from sordino.mechanisms import HybridSparseVector, HybridTopK, _hybrid_sparse_vector, _hybrid_top_k


@subject_of.register
def _(mechanism: HybridTopK, n: int) -> Subject:
    """Return the hybrid for `n` answers: an output is the items (-1 from the threshold on), then the gaps in steps."""
    common, steps = _common(mechanism, n), counted(mechanism, n)
    if mechanism.domain_size is not None:

        def play(answers: Any, noise: Rows) -> Rows:
            run = mechanism._prepared(*nonzero(answers))  # noqa: SLF001 - the very steps of `release`
            return np.array([np.concatenate(run(_Played(row), SYSTEM)) for row in noise])

        return Subject(laws=[mechanism.noise] * (mechanism.domain_size + 1), play=play, **common)
    return Subject(
        laws=[mechanism.noise] * (n + 1),
        play=lambda items, noise: np.concatenate(_hybrid_top_k.play(items, noise, mechanism.k), axis=-1),
        steps=lambda answers: mechanism._competing(steps(answers)),  # noqa: SLF001 - the very steps of `release`
        added=True,
        shifts=True,
        **common,
    )


@subject_of.register
def _(mechanism: HybridSparseVector, n: int) -> Subject:
    """Return the hybrid for `n` answers: an output is the items (-1 after the last), then the lifts in steps."""
    common, steps = _common(mechanism, n), counted(mechanism, n)
    play: Callable[[Any, Rows], Rows]
    if mechanism.domain_size is not None:

        def play(answers: Any, noise: Rows) -> Rows:
            run, _ = mechanism._prepared(*nonzero(answers))  # noqa: SLF001 - the very steps of `release`
            rows = [run(_Played(row[:1]), _Played(row[1:]), SYSTEM) for row in noise]
            return np.array([np.concatenate(row) for row in rows])
    else:

        def play(answers: Any, noise: Rows) -> Rows:
            threshold = mechanism._cut.steps + noise[:, :1]  # noqa: SLF001 - the very steps of `release`
            return np.concatenate(_hybrid_sparse_vector.play(steps(answers), threshold, noise[:, 1:], mechanism.k), axis=-1)

    laws = [mechanism.threshold_noise] + [mechanism.noise] * (mechanism.domain_size or n)
    return Subject(laws=laws, play=play, **common)


def _common(mechanism: HybridTopK | HybridSparseVector, n: int) -> dict[str, Any]:
    """Return what both say of themselves; each output is held to what its release would say that it spent."""
    owner, size = type(mechanism).__name__, mechanism.domain_size
    if mechanism.k > n:
        raise InvalidParameter(f"{owner}.k must be at most the number of answers {n}; got {mechanism.k}.")
    check_domain(size)
    return {
        "cost": mechanism.cost,
        "cost_of": lambda output: mechanism.spent(sum(item >= 0 for item in output[: mechanism.k])),
        "sensitivity": mechanism.sensitivity,
        "name": repr(mechanism),
    }
