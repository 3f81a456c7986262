"""How the auditor plays a sparse vector: its own code from the answers to the transcript, with the noise handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.audit._subject import Rows, Subject, check_domain, subject_of
from sordino.cost import Pure
from sordino.entropy import SYSTEM, Entropy
from sordino.errors import InvalidParameter
from sordino.mechanisms import AdaptiveSparseVector, SparseVector
from sordino.mechanisms._branches import Branching
from sordino.mechanisms._transcripts import prepared


class _Played:
    """A law whose draws are the noise that the auditor plays, in their order."""

    def __init__(self, noise: NDArray[np.int64]) -> None:
        self._left = noise

    def sample(self, n: int, entropy: Entropy) -> NDArray[np.int64]:  # noqa: ARG002 - the signature of a law
        drawn, self._left = self._left[:n], self._left[n:]
        if not drawn.size:
            raise InvalidParameter("audit.exact handed a sparse vector less noise than it draws; that is a fault of the audit.")
        return drawn.copy()  # whoever takes noise may wipe it


@subject_of.register(SparseVector)
@subject_of.register(AdaptiveSparseVector)
def sparse_vector(mechanism: Branching, n: int) -> Subject:
    """Return a sparse vector for `n` answers: an output is (asked, thresholds met, positives, places, lifts in steps, passes, branches)."""
    check_domain(mechanism.domain_size)
    asked = n * mechanism.passes
    thresholds = min(mechanism.tokens // mechanism.branch_tokens[0], asked) if mechanism.resample else 1
    return Subject(
        laws=[mechanism.threshold_noise] * thresholds + [law for law in mechanism.branch_noise for _ in range(asked)],
        play=_play(mechanism, thresholds, asked),
        cost=mechanism.cost,
        cost_of=lambda output: _spent(mechanism, output),
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def _spent(mechanism: Branching, output: tuple[int, ...]) -> Pure:
    """Return what the release with this transcript would say that it spent."""
    branches = output[3 + 3 * output[2] :]
    return mechanism.spent(sum(mechanism.branch_tokens[branch] for branch in branches), output[1])


def _play(mechanism: Branching, thresholds: int, asked: int) -> Callable[[Any, Rows], list[tuple[int, ...]]]:
    def play(answers: Any, noise: Rows) -> list[tuple[int, ...]]:
        listed: Any = np.array(answers) if mechanism.domain_size is None else answers
        at = None
        if mechanism.domain_size is not None:
            known = answers if isinstance(answers, Mapping) else {i: value for i, value in enumerate(answers) if value}
            listed, at = list(known.values()), list(known)
        run, _ = prepared(mechanism, listed, None, at)  # the very steps of `release`
        outputs = []
        for row in noise:
            limits, *queries = (_Played(part) for part in np.split(row, range(thresholds, row.size, asked)))
            found = run(thresholds=limits, queries=queries, entropy=SYSTEM)
            columns = (found.places, found.lifts, found.passes, found.branches)
            outputs.append((found.asked, found.stages, found.places.size, *np.concatenate(columns).tolist()))
        return outputs

    return play
