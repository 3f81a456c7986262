"""How the auditor plays the selections of one answer: their own decisions, with the noise handed in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.audit._laws import Finite
from sordino.audit._softmax import leads
from sordino.audit._subject import Rows, Subject, counted, raced, subject_of
from sordino.errors import InvalidParameter
from sordino.mechanisms import ExponentialMechanism, PermuteAndFlip, RandomizedResponse
from sordino.mechanisms._permute_and_flip import decide as decide_permuted
from sordino.mechanisms._randomized_response import standing

_TURNS = 1 << 20


@subject_of.register
def _(mechanism: ExponentialMechanism, n: int) -> Subject:
    counts = counted(mechanism, n)
    common: dict[str, Any] = {"cost": mechanism.cost, "sensitivity": mechanism.sensitivity, "name": repr(mechanism)}
    if mechanism.gap and n > 1:  # the lead is the largest of a number of draws that has no bound
        return Subject(laws=[], steps=counts, stated=lambda steps: leads(steps.tolist(), mechanism.rate), **common)
    return raced(mechanism.rate, counts, n, **common)


@subject_of.register
def _(mechanism: RandomizedResponse, n: int) -> Subject:
    def steps(answers: Any) -> NDArray[np.int64]:
        found = standing(answers)
        if found.size != n:
            raise InvalidParameter(f"audit.exact needs the same number of answers on both sides; got {n} and {found.size}.")
        return found

    return raced(mechanism.rate, steps, n, cost=mechanism.cost, name=repr(mechanism))


@subject_of.register
def _(mechanism: PermuteAndFlip, n: int) -> Subject:
    steps = counted(mechanism, n)
    turns = math.lcm(*range(1, n + 1))  # a uniform number below it is uniform modulo every number of equals
    if turns > _TURNS:
        raise InvalidParameter(
            f"audit.exact plays PermuteAndFlip with at most 16 answers, whose turns among equals can be counted; got {n}. Audit fewer "
            "answers, or give audit.statistical its releases one by one."
        )

    def play(answers: Any, noise: Rows) -> Rows:
        chosen: Rows = decide_permuted(steps(answers) + noise[:, :-1], noise[:, -1])
        return chosen

    return Subject(
        laws=[*[mechanism.noise] * n, Finite([1] * turns)],
        play=play,
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )
