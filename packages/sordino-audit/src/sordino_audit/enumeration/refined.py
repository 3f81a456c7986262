"""What the auditor looks at for refined values: all looks together, played by the functions of a release.

Claim: none of its own. What one look adds is no guarantee without the looks before it, so the total is what
is claimed.
Floats: none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sordino.mechanisms import LaplaceMechanism, RefinedLaplace
from sordino.mechanisms.additive import decide as decide_first
from sordino.mechanisms.refined_laplace import decide
from sordino_audit.enumeration.laws import Noise
from sordino_audit.enumeration.played import make_step_reader
from sordino_audit.enumeration.subject import Rows, Subject


def refined_laplace(mechanism: RefinedLaplace, n: int) -> Subject:
    """Return all looks at `n` answers, from the first one on."""
    looks: list[RefinedLaplace] = []
    first: LaplaceMechanism | RefinedLaplace = mechanism
    while isinstance(first, RefinedLaplace):
        looks.insert(0, first)
        first = first.first
    drawn: list[Noise] = [first.noise, *(law for look in looks for law in look.laws)]

    def play(steps: Any, noise: Rows) -> Rows:
        # The draws of one law for all answers stand side by side.
        parts = np.split(noise, len(drawn), axis=-1)
        seen = [decide_first(steps, parts[0])]
        for place in range(1, len(drawn), 3):
            seen.append(decide(steps, seen[-1], *parts[place : place + 3]))
        return np.concatenate(seen, axis=-1)

    return Subject(
        laws=[law for law in drawn for _ in range(n)],
        play=play,
        steps=make_step_reader(mechanism, n),
        cost=mechanism.total,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )
