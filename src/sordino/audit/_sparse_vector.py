"""How the auditor plays a sparse vector: its own code from the answers to the transcript, with the noise handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.audit._subject import Rows, Subject, subject_of
from sordino.cost import Pure
from sordino.entropy import SYSTEM, Entropy
from sordino.errors import InvalidParameter
from sordino.mechanisms import SparseVector


class _Played:
    """A law whose draws are the noise that the auditor plays, in their order."""

    def __init__(self, noise: NDArray[np.int64]) -> None:
        self._left = noise

    def sample(self, n: int, entropy: Entropy) -> NDArray[np.int64]:  # noqa: ARG002 - the signature of a law
        drawn, self._left = self._left[:n], self._left[n:]
        if not drawn.size:
            raise InvalidParameter("audit.exact handed a sparse vector less noise than it draws; that is a fault of the audit.")
        return drawn.copy()  # whoever takes noise may wipe it


@subject_of.register
def _(mechanism: SparseVector, n: int) -> Subject:
    """Return the sparse vector for `n` answers: an output is (asked, thresholds met, positives, places, lifts in steps, passes)."""
    thresholds = min(mechanism.positives, n * mechanism.passes) if mechanism.resample else 1
    return Subject(
        laws=[mechanism.threshold_noise] * thresholds + [mechanism.noise] * (n * mechanism.passes),
        play=_play(mechanism, thresholds),
        cost=mechanism.cost,
        cost_of=lambda output: _spent(mechanism, output),
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def _spent(mechanism: SparseVector, output: tuple[int, ...]) -> Pure:
    """Return what the release with this transcript would say that it spent."""
    return mechanism.spent(output[2], output[1])


def _play(mechanism: SparseVector, thresholds: int) -> Callable[[Any, Rows], list[tuple[int, ...]]]:
    def play(answers: Any, noise: Rows) -> list[tuple[int, ...]]:
        listed: Any = np.array(answers) if mechanism.domain_size is None else answers
        at = None
        if mechanism.domain_size is not None:
            known = answers if isinstance(answers, Mapping) else {i: value for i, value in enumerate(answers) if value}
            listed, at = list(known.values()), list(known)
        run, _ = mechanism._prepared(listed, None, at)  # noqa: SLF001 - the very steps of `release`
        outputs = []
        for row in noise:
            found = run(thresholds=_Played(row[:thresholds]), queries=_Played(row[thresholds:]), entropy=SYSTEM)
            what = (*found.places.tolist(), *found.lifts.tolist(), *found.passes.tolist())
            outputs.append((found.asked, found.stages, found.places.size, *what))
        return outputs

    return play
