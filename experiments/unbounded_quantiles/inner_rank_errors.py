"""Inner quantiles by rank: ours without a range, against the exponential mechanism over gaps with a tight range and a loose one."""

from __future__ import annotations

import numpy as np

from experiments.repeating import table
from experiments.unbounded_quantiles.columns import NAMES, at_hand
from experiments.unbounded_quantiles.inner import EPSILONS, GROWTH, LOOSE, QS, RUNS, errors

METHODS = ("ours", "EMQ", "EMQ, loose", "steps")


def report():
    known, missing = at_hand(NAMES)
    rows, tight, loose = [], [], []
    for epsilon in EPSILONS:
        for data in known:
            found = [errors(data.name, epsilon, method) for method in METHODS]
            ranks, values = ([float(np.mean(table[kind])) for table in found] for kind in (0, 1))
            tight.append((ranks[0] / ranks[1], epsilon, data.name))
            loose.append((ranks[2] / ranks[0], epsilon, data.name))
            shown = [f"{value:.2f}" for value in ranks] + [
                f"{ranks[0] / ranks[1]:.2f}",
                f"{ranks[2] / ranks[0]:.1f}",
            ]
            rows.append((epsilon, data.name, *shown, *(f"{value:.3g}" for value in values)))
    header = (
        "epsilon",
        "column",
        "ours",
        "EMQ, tight",
        "EMQ, loose",
        "steps, tight",
        "ours / tight",
        "loose / ours",
    )
    header += tuple(f"{name}, value" for name in header[2:6])
    return [
        "## Inner quantiles by rank",
        "",
        f"Mean rank error of the quantiles {', '.join(f'{q:.0%}' for q in QS)} of 1000 records, {RUNS} samples, expectations over the "
        "exact laws; one record is replaced. The rank error is how far the target lies from the ranks of the records that are equal to the "
        "answer; answers are rounded to whole years, hours and pages and to hundredths of a rating, for all methods, as in the paper. "
        f"Ours: `Quantile(lower=None, cap={LOOSE:g}, growth={GROWTH:g}, size_hint=1000)` for every column: the growth is 1 + 2/size_hint. "
        f"EMQ knows the range of the paper (tight), or ±{LOOSE:g} (loose), and sees records that small noise took apart. Steps: "
        "permute-and-flip over 1001 equal steps of the tight range, OpenDP's quantile. The last columns are mean absolute errors of the "
        "same answers. " + missing,
        "",
        *table(header, rows),
        "",
        *said(
            "Largest mean rank error of ours over that of EMQ with tight ranges",
            max,
            tight,
            "1.1 at most",
        ),
        "Where that is above 1.1, the outer quantiles are found by a walk: so few records lie beyond them that permute-and-flip, which has "
        "the ranks of EMQ, would answer with an edge far from all records too often. A walk knows no such edges, and its noise, that of "
        "threshold and test together, deviates 1.3 times as much.",
        "",
        *said(
            "Smallest mean rank error of EMQ with loose ranges over ours", min, loose, "5 at least"
        ),
        "At epsilon 1 the ranks of EMQ with a loose range are those of EMQ with a tight one, so no method can have a fifth of them; what a "
        "loose range costs there is in the values.",
        "",
    ]


def said(what, worst, ratios, asked):
    """Return the sentence about the worst column, at epsilon 1 and anywhere."""
    if not ratios:
        return []
    first, all_of_them = worst(ratio for ratio in ratios if ratio[1] == 1), worst(ratios)
    anywhere = f"{all_of_them[0]:.3f} ({all_of_them[2]}, epsilon {all_of_them[1]}) anywhere"
    return [f"{what}: {first[0]:.3f} ({first[2]}) at epsilon 1, {anywhere}; asked: {asked}.", ""]
