"""Lemma 4: when the mean of the paper's noise is below that of permute-and-flip, ours beside, and why means do not order accuracies."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import sordino as sd
from experiments.drawing import COLORS, Panel, Picture
from experiments.repeating import table
from experiments.smooth_selection import methods, tuning
from experiments.smooth_selection.accuracy import rate, trial
from experiments.smooth_selection.defaults import library
from sordino.noise import GeneralizedCauchy

MEAN = GeneralizedCauchy(4).mean
TOP = float(sd.smooth.tdt_ceiling(families=150, scale="raw"))
FIGURE = Path(__file__).parents[2] / "benchmarks" / "accuracy-smooth-means.svg"
DRAWN = (5, 3)


def slopes(m, epsilon):
    """Return mean noise times epsilon over S, of the paper's accounting and of ours; then the paper's k and beta."""
    beta = tuning.published_beta(m, epsilon)
    theirs = methods.alpha_of(trial(m), epsilon, beta, "raw", accounting="published")
    ours = methods.alpha_of(trial(m), epsilon, tuning.distance_limit(150), "raw")
    return MEAN * epsilon / theirs, MEAN * epsilon / ours, 1 - (m - 1) * 3 * beta / epsilon, beta


def steps_mean(epsilon):
    """Return mean step noise times epsilon, over the global sensitivity."""
    return 2 * epsilon / math.expm1(epsilon)


def row(m, epsilon):
    theirs, ours, k, beta = slopes(m, epsilon)
    bounds = trial(m).bounds(beta, "raw", "distance") / TOP
    limit = (4 / 27) ** 0.25 * k
    published, plain = rate("published", m, epsilon).share, rate("PF", m, epsilon).share
    threshold = trial(m).bounds(tuning.distance_limit(150), "raw", "distance").mean() / TOP
    means = [2.0, theirs * bounds.mean(), ours * threshold, steps_mean(epsilon)]
    shares = (
        plain,
        published,
        library("heavy tail, distance", m, epsilon).share,
        rate("steps, global", m, epsilon).share,
    )
    cells = [f"{mean:.3f}; {share:.4f}" for mean, share in zip(means, shares, strict=True)]
    return (
        m,
        epsilon,
        f"{k:.3f}",
        f"{bounds.mean():.3f}",
        f"{limit:.3f}",
        f"{(bounds < limit).mean():.1%}",
        f"{2 / ours:.3f}",
        *cells,
    )


def draw():
    m, epsilon = DRAWN
    theirs, ours, _, beta = slopes(m, epsilon)
    picture = Picture(620, 400)
    panel = Panel(
        picture,
        (60, 40, 500, 270),
        (0, 1),
        (0, 5),
        f"mean noise times epsilon / GS, {m} markers, epsilon {epsilon}",
    )
    ends = (0.0, 1.0)
    curves = {
        "PF": (2.0, 2.0),
        "SPS, published": (0, theirs),
        "SPS, tightened": (0, ours),
        "steps, global": (steps_mean(epsilon),) * 2,
    }
    for (_, values), color in zip(curves.items(), COLORS, strict=False):
        panel.line(ends, values, color)
    at = float(np.mean(trial(m).bounds(beta, "raw", "distance"))) / TOP
    panel.line((at, at), (0, 5), COLORS[-1], "4 3")
    picture.legend(60, 360, curves, wide=125)
    picture.text(60, 384, f"horizontal: S/GS; dashed: its mean over the data sets, {at:.3f}")
    picture.write(FIGURE)


def report():
    draw()
    header = (
        "markers",
        "epsilon",
        "k",
        "mean S/GS",
        "Lemma 4: S/GS below",
        "data sets where it is",
        "tightened: below",
        "PF",
        "published",
        "tightened",
        "steps, global",
    )
    cells = [(m, epsilon) for m in (5, 10, 20) for epsilon in (3, 6, 9, 21)]
    return [
        "## Means of noise (Lemma 4)",
        "",
        "The lemma compares the mean of the paper's noise, 2^(1/2) 3^(3/4) S/(k epsilon), with that of permute-and-flip, 2 "
        "GS/epsilon: it is smaller if S < (4/27)^(1/4) k GS. S is that of Theorem 5, k what the paper's accounting "
        "leaves at its beta. Last columns: mean noise times epsilon over GS, averaged over the data sets, and how often the best "
        "is selected. Tightened: the same noise with the accounting of the library, beta the threshold, and the same condition for it; "
        "steps: `StepSelection` with the global sensitivity, whose mean is 2 GS/(e^epsilon - 1).",
        "",
        *table(header, [row(*cell) for cell in cells]),
        "",
        f"![Means of noise]({FIGURE.name})",
        "",
    ]
