"""How the auditor plays selections by step noise: their own decisions, with the levels handed in.

Claim: none of its own. Where noise follows a private bound, answers are the scores, followed by their smooth bound.
"""

from __future__ import annotations

from typing import Any

from sordino.audit._subject import Rows, Subject, counted, subject_of
from sordino.errors import InvalidParameter
from sordino.mechanisms import SmoothStepSelection, StepSelection
from sordino.mechanisms._smooth_step_selection import decide as decide_scaled
from sordino.mechanisms._step_selection import decide


@subject_of.register
def _(mechanism: StepSelection, n: int) -> Subject:
    steps = counted(mechanism, n)

    def play(answers: Any, noise: Rows) -> Rows:
        chosen: Rows = decide(steps(answers), noise, mechanism.window)
        return chosen

    return Subject(
        laws=[mechanism.noise] * n,
        play=play,
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


@subject_of.register
def _(mechanism: SmoothStepSelection, n: int) -> Subject:
    if n != mechanism.candidates + 1:
        raise InvalidParameter(
            f"audit.exact needs the {mechanism.candidates} scores of SmoothStepSelection, followed by their smooth bound; got {n} numbers."
        )

    def play(answers: Any, noise: Rows) -> Rows:
        steps, scale = mechanism.on_grids(list(answers)[:-1], list(answers)[-1])
        return decide_scaled(steps, noise, scale, mechanism.heights)

    return Subject(laws=[mechanism.noise] * mechanism.candidates, play=play, cost=mechanism.cost, name=repr(mechanism))
