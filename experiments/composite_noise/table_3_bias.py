"""Table III: the bias of what is released, from whole numbers and fractions; and that of noise brought into a range otherwise."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np

from experiments.composite_noise.biased_rivals import BOUND, RIVALS
from experiments.composite_noise.ours import WHOLE, composite, folded
from experiments.repeating import table

EPSILONS = (0.2, 0.5, 1, 2, 5)
PRINTED = {
    "A1B1": "0.081 0.030 0.013 0.005 0.001",
    "A2B1": "0.123 0.044 0.018 0.006 0.001",
    "A3B1": "0.156 0.055 0.022 0.007 0.001",
    "A1B2": "0.081 0.029 0.013 0.005 0.001",
    "A2B2": "0.124 0.044 0.018 0.006 0.001",
    "A3B2": "0.155 0.055 0.022 0.007 0.001",
}  # per cent
VALUES = [
    Fraction(text) for text in ("0", "1", "1/3", "0.37", "0.5", "0.75", "0.999", "0.0001")
]  # of the range [0, 1]
SPAN = 40
COUNTS = (0, 1, 2, 3, 7, 20, 33, 39, 40)


def composite_bias(mechanism):
    """Return the largest bias over the values: of the outputs as fractions, and of the floats that are released; range 1."""
    grid = mechanism.grid
    exact = [grid.middle + output * grid.step for output in grid.noise.outputs]
    floats = [Fraction(x) for x in grid.outputs.tolist()]
    worst = [Fraction(0), Fraction(0)]
    for value in VALUES:
        law = grid.law((value - grid.low) / grid.step)
        for i, outputs in enumerate((exact, floats)):
            worst[i] = max(
                worst[i], abs(sum(p * o for p, o in zip(law, outputs, strict=True)) - value)
            )
    return worst


def folded_bias(mechanism):
    """Return the largest bias of a count of 0..40 released by folded noise, its ends as the floats they are; in steps.

    The ratio is taken to 60 digits and the law is summed in fractions, tails included.
    """
    with localcontext() as context:
        context.prec = 60
        rate = Decimal(mechanism.noise.rate.numerator) / mechanism.noise.rate.denominator
        q = Fraction((-rate).exp())
    low, high = map(Fraction, mechanism.output_range)
    worst = Fraction(0)
    for x in COUNTS:
        inside = sum((o * q ** abs(o - x) for o in range(1, SPAN)), Fraction(0)) * (1 - q)
        mean = (inside + low * q**x + high * q ** (SPAN - x)) / (1 + q)
        worst = max(worst, abs(mean - x))
    return worst


@cache
def ours():
    """Return the largest bias for each mechanism and epsilon: in ranges for composite noise, in steps for folded noise."""
    found = {}
    for epsilon in EPSILONS:
        for name in (*WHOLE, "table"):
            found[name, epsilon] = composite_bias(composite(name, epsilon, 0, 1))
        found["folded", epsilon] = [None, folded_bias(folded(epsilon, 0, SPAN, 1, step=1))]
    return found


def largest():
    return float(max(floats for _, floats in ours().values()))


def count_bias(name, epsilon):
    """Return the largest bias of a count of 0..40, in steps."""
    return max(abs(float(np.dot(*RIVALS[name](epsilon, x, 1, SPAN)))) for x in range(SPAN + 1))


def range_bias(name, epsilon):
    """Return the largest bias where the sensitivity is the range, in ranges."""
    return max(
        abs(float(np.dot(*RIVALS[name](epsilon, x, BOUND, BOUND)))) / BOUND
        for x in range(0, BOUND + 1, 4)
    )


def report():
    rows = []
    for name in (*WHOLE, "table", "folded"):
        cells = [f"{float(ours()[name, epsilon][1]):.1e}" for epsilon in EPSILONS]
        exact = (
            ""
            if name == "folded"
            else "0"
            if not any(ours()[name, epsilon][0] for epsilon in EPSILONS)
            else "**not 0**"
        )
        printed = (
            [f"{value} %" for value in PRINTED[name].split()]
            if name in PRINTED
            else [""] * len(EPSILONS)
        )
        rows.append((name, exact, *cells, *printed))
    others = [
        (
            name,
            *(
                f"{function(name, epsilon):.4f}"
                for epsilon in EPSILONS
                for function in (count_bias, range_bias)
            ),
        )
        for name in RIVALS
    ]
    names = [f"{epsilon:g}" for epsilon in EPSILONS]
    both = [f"{name}, {kind}" for name in names for kind in ("count", "range")]
    return [
        "## Bias (table III)",
        "",
        "The largest distance of the mean from the value. Exact: over the whole weights, outputs as fractions. The other columns: of the "
        f"floats that are released. Composite noise: values {', '.join(map(str, VALUES))} of the range [0, 1]. Folded noise: counts of "
        f"0..{SPAN}, in steps. On the right what the paper measured, in per cent of an answer that it does not name: an average of 1,000 "
        "draws is off by some of it by chance.",
        "",
        *table(
            (
                "ours",
                "exact",
                *(f"epsilon {name}" for name in names),
                *(f"paper, {name}" for name in names),
            ),
            rows,
        ),
        "",
        f"Largest of ours: {largest():.1e}; asked: 1e-12.",
        "",
        "Noise brought into a range in other ways, both private for epsilon: discrete Laplace noise given that it stays in the range (at "
        f"the largest rate for which that is private), and moved to the ends. Largest bias of a count of 0..{SPAN}, in steps, and of one "
        "value of a range, in ranges.",
        "",
        *table(("", *both), others),
    ]
