"""How the auditor plays the mechanisms whose releases stay within a declared range: their own decisions, with the noise handed in.

Claim: none of its own. Rounding to the grid is outside what is played: answers are given on the grid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.audit._subject import Rows, Subject, counted, subject_of
from sordino.mechanisms import FoldedMechanism
from sordino.mechanisms._folded import decide as decide_folded
from sordino.mechanisms._statements import whole_vector


@subject_of.register
def _(mechanism: FoldedMechanism, n: int) -> Subject:
    whole_vector(mechanism.sensitivity, "l1", n, "FoldedMechanism")
    low, high = mechanism.ends
    on_grid = counted(mechanism, n)

    def steps(answers: Any) -> NDArray[np.int64]:
        return np.clip(on_grid(answers), low, high)

    def decide(noisy: Rows) -> Rows:
        return decide_folded(noisy, low, high)

    return Subject(
        laws=[mechanism.noise] * n,
        decide=decide,
        steps=steps,
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )
