"""What a method selects from all data sets of a trial at once: the same noise, scores and bounds as its releases."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

import sordino as sd
from experiments.smooth_selection.simulated import Rate

CEILING = {
    "raw": lambda n: sd.smooth.tdt_ceiling(families=n, scale="raw"),
    "sqrt": lambda n: sd.smooth.tdt_ceiling(families=n),
}


def ceiling(trial, scale):
    return CEILING[scale](trial.families)


def moves(bound):
    return sd.Sensitivity(bound=bound, monotone=False, adjacency="replace-one")


def exponential_mechanism(trial, epsilon):
    return trial.rate(
        trial.scores("raw") * (epsilon / (2 * float(ceiling(trial, "raw"))))
        + trial.rival_noise("gumbel")
    )


def permute_and_flip(trial, epsilon):
    """Select the largest with exponential noise, which is the same law."""
    return trial.rate(
        trial.scores("raw") * (epsilon / (2 * float(ceiling(trial, "raw"))))
        + trial.rival_noise("exponential")
    )


def randomized_response(trial, epsilon):
    """Return the exact probability: nothing has to be simulated."""
    m, scores = trial.markers, trial.scores("raw")
    other = 1 / (math.exp(epsilon) + m - 1)
    equal = (scores == trial.best[:, None]).sum(axis=1) - 1
    lost = (trial.best[:, None] - scores).sum(axis=1)
    return Rate(
        math.exp(epsilon) * other + other * float(equal.mean()),
        trial.runs,
        other * float(lost.mean()),
    )


def heavy_tail(trial, alpha, bounds, scale, gamma=4, sided="one"):
    """Select with generalized Cauchy noise times bound/alpha. Without an alpha all noise is the same: one of all at random."""
    if not alpha:
        return trial.rate(np.broadcast_to(trial.noise(gamma), trial.b.shape))
    return trial.rate(trial.scores(scale) * (alpha / bounds)[:, None] + trial.noise(gamma, sided))


def alpha_of(trial, epsilon, beta, scale, **options):
    """Return alpha of `SmoothSelection`, 0 where beta leaves nothing of epsilon."""
    top = ceiling(trial, scale)
    limits = {"ceiling": top, "floor": top / 1000 if beta else top}
    try:
        return sd.SmoothSelection(
            epsilon=epsilon, beta=beta, candidates=trial.markers, **limits, **options
        ).alpha
    except sd.InvalidParameter:
        return 0.0


def smooth_selection(
    trial, epsilon, beta, scale, method="exact", *, gamma=4, sided="one", accounting="tight"
):
    alpha = alpha_of(trial, epsilon, beta, scale, gamma=gamma, sided=sided, accounting=accounting)
    return heavy_tail(trial, alpha, trial.bounds(beta, scale, method), scale, gamma, sided)


def step_selection(trial, epsilon, scores, bound):
    steps = sd.StepSelection(epsilon=epsilon, sensitivity=moves(bound))
    return trial.rate(scores + trial.whole(steps.noise) * float(steps.window * steps.step))


def step_noise(trial, law, atoms, bounds):
    """Select with the atoms of a geometric level, times the bound."""
    levels = trial.whole(law)
    return trial.rate(
        trial.scores("sqrt") / bounds[:, None] + np.array(atoms(int(levels.max()) + 1))[levels]
    )


def smooth_steps(trial, epsilon, beta):
    floor = Fraction(4, math.isqrt(2 * trial.families) + 1)  # no bound is smaller
    return sd.SmoothStepSelection(
        epsilon=epsilon, beta=beta, candidates=trial.markers, ceiling=2, floor=floor
    )


def smooth_step_selection(trial, epsilon, beta):
    try:
        steps = smooth_steps(trial, epsilon, beta)
    except sd.InvalidParameter:  # too little epsilon for so many markers
        return heavy_tail(trial, 0, None, "sqrt")
    return step_noise(trial, steps.noise, steps.atoms, trial.bounds(beta, "sqrt"))


def chosen(trial, epsilon):
    return sd.genomics.choose_method(
        markers=trial.markers, families=trial.families, epsilon=epsilon
    )


def most_significant(trial, epsilon):
    """Return what `sd.genomics.most_significant` does with its defaults."""
    method = chosen(trial, epsilon)
    steps = method.mechanism
    if method.name == "randomized-response":
        return randomized_response(trial, epsilon)
    if method.beta is None:
        scores = (
            trial.scores(method.scale) if method.damping is None else trial.damped(method.damping)
        )
        return trial.rate(scores + trial.whole(steps.noise) * float(steps.window * steps.step))
    bounds = trial.bounds(method.beta, method.scale)
    if method.name == "smooth-step":
        return step_noise(trial, steps.noise, steps.atoms, bounds)
    return heavy_tail(trial, steps.alpha, bounds, method.scale)
