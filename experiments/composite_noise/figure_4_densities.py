"""Figure 4 and what it leaves out: densities at two values, and the variance over all values."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import sordino as sd
from experiments.composite_noise.least_variance import least_worst_variance
from experiments.composite_noise.local_rivals import RIVALS
from experiments.composite_noise.ours import SIX, composite, folded, law
from experiments.drawing import COLORS, Panel, Picture

EPSILON = 1
INPUTS = (0, 1)
FOLDER = Path(__file__).parents[2] / "docs" / "papers"
DENSITIES, VARIANCES = (
    FOLDER / "composite-noise-densities.svg",
    FOLDER / "composite-noise-variances.svg",
)
NEAR = ("Piecewise", "Hybrid", "Duchi")


def density(panel, mechanism, t, color):
    """Draw the law at t: outputs of a fine grid as a density, single points as stems as high as their probability."""
    noise, outputs = mechanism.noise, mechanism.grid.outputs
    weights = law(noise, round(t * noise.inputs))
    if noise.name == "table":
        panel.stems(outputs + 0.03 * t, weights, color)
        return
    fine = 2 * noise.bump.reach + 1
    jumps = np.flatnonzero(np.abs(np.diff(weights[:fine])) > 0.1 * weights[:fine].max())
    kept = np.unique(np.concatenate([np.arange(0, fine, 10), [fine - 1], jumps, jumps + 1]))
    panel.line(outputs[kept], weights[kept] / (outputs[1] - outputs[0]), color)
    panel.stems(outputs[fine:] + 0.05 * t, weights[fine:], color)


def draw_densities():
    picture = Picture(1000, 500)
    for i, name in enumerate((*SIX, "mixture", "table")):
        mechanism = composite(name, EPSILON)
        reach = mechanism.output_range[1] * 1.03
        place = (50 + 245 * (i % 4), 40 + 215 * (i // 4), 200, 150)
        panel = Panel(picture, place, (-reach, reach), (0, 0.45), name)
        for t, color in zip(INPUTS, COLORS, strict=False):
            density(panel, mechanism, t, color)
    picture.legend(50, 480, [f"value {t}" for t in INPUTS])
    said = "values in [-1, 1], tuned for the worst; lines: densities; stems: probabilities of single outputs"
    picture.text(270, 480, f"epsilon {EPSILON}, {said}")
    picture.write(DENSITIES)


def draw_variances():
    picture = Picture(1000, 480)
    t = np.linspace(-1, 1, 201)
    panel = Panel(
        picture, (50, 40, 430, 330), (-1, 1), (3, 15), f"one value of [-1, 1], epsilon {EPSILON}"
    )
    names, colors = [*SIX, "mixture", "table"], [*COLORS[:6], COLORS[8], COLORS[7]]
    for name, color in zip(names, colors, strict=True):
        mechanism = composite(name, EPSILON)
        panel.line(t, [mechanism.variance(at=float(x)) for x in t], color)
    for dash, rival in zip(("2 2", "6 3", "9 3 2 3"), NEAR, strict=True):
        panel.line(t, [RIVALS[rival](EPSILON, x) for x in t], "#000", dash)
    panel.line(t, [RIVALS["Laplace"](EPSILON, 0)] * t.size, "#999")
    panel.line(t, [least_worst_variance(EPSILON)] * t.size, "#999", "2 4")
    picture.legend(50, 405, names, colors, wide=75, columns=6)
    said = "black: Piecewise (dots), Hybrid (dashes), Duchi (dash-dot); gray: Laplace, and the least largest variance (dots)"
    picture.text(50, 440, said)
    counts = np.arange(21)
    second = Panel(
        picture,
        (550, 40, 430, 330),
        (0, 20),
        (0.45, 1.02),
        "a count of 0..20: folded over discrete Laplace",
    )
    epsilons = (0.2, 0.5, 1, 2)
    for epsilon, color in zip(epsilons, COLORS, strict=False):
        mechanism = folded(epsilon, 0, 20, 1, step=1)
        whole = sd.LaplaceMechanism(epsilon=epsilon, sensitivity=sd.COUNTING).noise.variance
        second.line(counts, [mechanism.variance(at=int(x)) / whole for x in counts], color)
    picture.legend(550, 405, [f"epsilon {epsilon:g}" for epsilon in epsilons], wide=100)
    picture.write(VARIANCES)


def report():
    draw_densities()
    draw_variances()
    reaches = [
        f"{name} ±{composite(name, EPSILON).output_range[1]:.3f}"
        for name in (*SIX, "mixture", "table")
    ]
    known = 1 / math.tanh(EPSILON / 2)
    return [
        "## Densities and variances over the value (figure 4)",
        "",
        f"Written to `docs/papers/{DENSITIES.name}` and `docs/papers/{VARIANCES.name}`. How far releases of one value of [-1, 1] reach at "
        f"epsilon {EPSILON}: {', '.join(reaches)}. No unbiased private mechanism does with less than ±{known:.3f}.",
    ]
