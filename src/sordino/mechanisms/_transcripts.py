"""Lists of answers as a sparse vector meets them, and what it found as it is released.

Claim: a release is a public function of the transcript. Proof: docs/proofs/sparse-vector.md; docs/proofs/adaptive-sparse-vector.md.
Floats: gaps and estimates are rounded to one after the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.grid import to_steps
from sordino.mechanisms._branches import Branching, centers, cuts_of
from sordino.mechanisms._crossings import Transcript, crossings
from sordino.mechanisms._implicit_zeros import listed
from sordino.mechanisms._thresholds import Cut, cuts_at
from sordino.mechanisms._zero_runs import domain_crossings
from sordino.releases import Positives

Cuts = tuple[Cut, ...]


def prepared(
    mechanism: Branching, answers: Any, thresholds: Any, positions: Any
) -> tuple[Callable[..., Transcript], Callable[[int], Cuts]]:
    """Return what only waits for noise (`thresholds` and `queries`, laws; `entropy`), and the thresholds of each place.

    Raises
    ------
    InvalidParameter
        If the answers are not a list of at least one number, or thresholds or positions do not go with them.
    """
    name = type(mechanism).__name__
    common = cuts_of(mechanism, mechanism.threshold)
    rules: dict[str, Any] = {"prices": mechanism.branch_tokens, "tokens": mechanism.tokens, "resample": mechanism.resample}
    if mechanism.domain_size is not None:
        if thresholds is not None:
            raise InvalidParameter(f"{name}.release takes thresholds only without a domain size.")
        steps, at = listed(answers, positions, mechanism.step, name)
        levels = [cut.steps for cut in common]
        return partial(domain_crossings, steps, at, mechanism.domain_size, levels, **rules), lambda _: common
    if positions is not None:
        raise InvalidParameter(f"{name}.release takes positions only when domain_size was given.")
    steps = np.atleast_1d(to_steps(answers, mechanism.step, name))
    rules["passes"] = mechanism.passes
    if thresholds is None:
        return partial(crossings, [steps - cut.steps for cut in common], **rules), lambda _: common
    what = "release.thresholds"
    cuts = cuts_at(f"{name}.{what}", thresholds, steps.size, lambda value: cuts_of(mechanism, value, what))
    heights = [steps - np.array([cut.steps for cut in branch], dtype=np.int64) for branch in zip(*cuts, strict=True)]
    return partial(crossings, heights, **rules), cuts.__getitem__


def released(mechanism: Branching, answers: Any, thresholds: Any, positions: Any, entropy: Entropy) -> Positives:
    """Ask all answers with fresh noise, and return what was found in the unit of the answers.

    Raises
    ------
    InvalidParameter
        As in `prepared`.
    """
    run, cuts_at_place = prepared(mechanism, answers, thresholds, positions)
    found = run(thresholds=mechanism.threshold_noise, queries=mechanism.branch_noise, entropy=entropy)
    step, prices = mechanism.step, mechanism.branch_tokens
    means = centers(mechanism)
    branches = found.branches.tolist()
    cuts = [cuts_at_place(place)[branch] for place, branch in zip(found.places.tolist(), branches, strict=True)]
    lifts = found.lifts.tolist()
    gaps = [cut.gap(lift, step) for lift, cut in zip(lifts, cuts, strict=True)]
    values = [cut.value(lift, step) - means[branch] for lift, cut, branch in zip(lifts, cuts, branches, strict=True)]
    first = found.passes == 1  # a gap of a later pass says nothing about its answer
    return Positives(
        indices=found.places,
        gaps=np.where(first, np.array(gaps, dtype=np.float64), np.nan),
        branches=found.branches,
        passes=found.passes,
        asked=found.asked,
        estimates=np.where(first, np.array(values, dtype=np.float64), np.nan),
        mechanism=mechanism,
        cost=mechanism.spent(sum(prices[branch] for branch in branches), found.stages),
        simulated=entropy.simulated,
    )
