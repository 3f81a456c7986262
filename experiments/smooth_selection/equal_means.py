"""Lemma 4 orders mechanisms by the means of their noise: how often the best is selected with noise of five laws and one mean."""

from __future__ import annotations

import math

import sordino as sd
from experiments.repeating import table
from experiments.smooth_selection import methods
from experiments.smooth_selection.accuracy import trial
from sordino.noise import GeneralizedCauchy

TOP = float(sd.smooth.tdt_ceiling(families=150, scale="raw"))
GAMMAS = (4, 6, 10)


def same_mean(m, epsilon):
    """Return how often the best is selected with noise whose mean is that of permute-and-flip, 2 GS/epsilon, of five laws."""
    sample, mean = trial(m), 2 * TOP / epsilon
    raw = sample.scores("raw")
    found = [sample.rate(raw / mean + sample.rival_noise("exponential")).share]
    scaled = {gamma: raw * (GeneralizedCauchy(gamma).mean / mean) for gamma in GAMMAS}
    found += [sample.rate(scaled[gamma] + sample.noise(gamma)).share for gamma in GAMMAS]
    steps = sd.StepSelection(
        epsilon=epsilon, sensitivity=methods.moves(sd.smooth.tdt_ceiling(families=150, scale="raw"))
    )
    width = mean * math.expm1(epsilon)
    found.append(sample.rate(raw + sample.whole(steps.noise) * width).share)
    return (m, epsilon, *(f"{share:.4f}" for share in found))


def report():
    return [
        "### The same mean",
        "",
        "Means do not order accuracies: how often the best is selected with noise whose mean is 2 GS/epsilon for every law. Apart from "
        "the first these are not the epsilon-private ones; steps have the rate epsilon, and windows that are wider to match.",
        "",
        *table(
            ("markers", "epsilon", "exponential", *(f"gamma {gamma}" for gamma in GAMMAS), "steps"),
            [same_mean(m, epsilon) for m in (5, 20) for epsilon in (3, 9, 21)],
        ),
        "",
    ]
