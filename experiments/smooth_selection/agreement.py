"""That the tables above are about the library: the same entropy gives the same marker, released one by one or simulated all at once."""

from __future__ import annotations

import numpy as np

import sordino as sd
from experiments.repeating import table
from experiments.smooth_selection.simulated import Trial

RUNS = 200
CELLS = ((5, 3), (20, 1), (20, 6))


def noisy(mechanism, scores, bound, entropy):
    """Return the scores with the noise that a release draws from this entropy."""
    if isinstance(mechanism, sd.SmoothSelection):
        return scores * (mechanism.alpha / bound) + mechanism.noise.sample(scores.size, entropy)
    levels = mechanism.noise.sample(scores.size, entropy)
    if isinstance(mechanism, sd.SmoothStepSelection):
        return scores / bound + np.array(mechanism.atoms(int(levels.max()) + 1))[levels]
    return scores + levels * float(mechanism.window * mechanism.step)


def equal(name, markers, epsilon):
    """Return in how many data sets both select the same marker."""
    sample = Trial.made_up(markers, runs=RUNS)
    method = sd.genomics.choose_method(
        markers=markers, families=sample.families, epsilon=epsilon, method=name
    )
    same = 0
    for i, (b, c) in enumerate(zip(sample.b, sample.c, strict=True)):
        scores, more = method.private(b, c)
        released = sd.genomics.most_significant(
            b=b, c=c, families=sample.families, epsilon=epsilon, method=name, entropy=sd.Seeded(i)
        )
        same += (
            int(noisy(method.mechanism, scores, more.get("smooth_bound"), sd.Seeded(i)).argmax())
            == released.index
        )
    return same


def report():
    names = ("heavy-tail", "smooth-step", "step", "damped")
    rows = [
        (m, epsilon, *(f"{equal(name, m, epsilon)} of {RUNS}" for name in names))
        for m, epsilon in CELLS
    ]
    return [
        "## Releases and simulations",
        "",
        "In how many made-up data sets `sd.genomics.most_significant` releases the marker that the simulation of the tables "
        "above selects with the same entropy.",
        "",
        *table(("markers", "epsilon", *names), rows),
        "",
    ]
