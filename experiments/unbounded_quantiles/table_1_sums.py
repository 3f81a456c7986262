"""Table 1: the sum of a column with a private clip, ours as it is and with the paper's settings, against what needs a range."""

from __future__ import annotations

import numpy as np

import sordino as sd
from experiments.repeating import table
from experiments.unbounded_quantiles import laws, peers
from experiments.unbounded_quantiles.columns import at_hand

NAMES = ("ratings", "pages", "ages", "hours")
EPSILONS = (
    1,
    0.5,
    0.1,
)  # for the clip, and as much for the sum: the paper's; all methods spend twice that
CAP = 10_000
QS = (0.95, 0.96, 0.97, 0.98, 0.99)
RUNS = 100
NOISES = 10  # of the aggregate tree, for each sample
PAPER = {
    "adjacency": "replace-one",
    "lower": 0,
    "cap": CAP,
    "growth": 1.001,
    "method": "above-threshold",
}  # and q = .99


def weighted_median(errors, law):
    order = np.argsort(errors)
    return errors[order][np.searchsorted(np.cumsum(law[order]), 0.5)]


def summary(clips, law, sample, epsilon):
    """Return mean and median of the error, and how likely the clip is more than four times the largest record."""
    errors = laws.sum_errors(clips, sample, epsilon)
    far = clips > 4 * sample[-1]
    near = law @ np.where(far, 0, errors) / max(1 - law[far].sum(), 1e-300)
    return law @ errors, weighted_median(errors, law), law[far].sum(), near


def paper(sample, epsilon):
    clip = sd.Quantile(q=0.99, epsilon=epsilon, **PAPER)
    edges, law = laws.quantile(clip, sd.BucketCounts.of(sample, grid=clip.grid))
    return summary(edges, law, sample, epsilon)


def ours(sample, epsilon, adjacency="replace-one"):
    whole = sd.ClippedSum(epsilon=2 * epsilon, adjacency=adjacency, lower=0, cap=CAP)
    ((answers, lengths),) = whole.search.runs(sd.BucketCounts.of(sample, grid=whole.grid))
    law = laws.walk(answers, lengths, whole.search.scan)
    left = 2 * epsilon - float(whole.search.cost.pure())
    return summary(np.append(whole.grid.edges, CAP), law, sample, left)


def ranged(method, clipped, sample, epsilon):
    """Return the mean error of the sum for each q, where the clip is what a method answers over the range [0, cap]."""
    found = [method(clipped, q, epsilon, 0, CAP) for q in QS]
    return [law @ laws.sum_errors(clips, sample, epsilon) for clips, law in found]


def tree(sample, epsilon, rng):
    trees = [peers.tree(sample, epsilon, 0, CAP, rng) for _ in range(NOISES)]
    clips = np.array(
        [[peers.tree_quantile(one, q, sample.size, 0, CAP) for one in trees] for q in QS]
    )
    return laws.sum_errors(clips.ravel(), sample, epsilon).reshape(clips.shape).mean(axis=1)


def cell(data, epsilon):
    """Return the means over the samples of everything that a row shows."""
    rng = np.random.default_rng(7)
    rows = []
    for sample, apart in data.samples(RUNS):
        others = (
            ranged(peers.answers, apart, sample, epsilon),
            ranged(peers.steps, sample, sample, epsilon),
            tree(sample, epsilon, rng),
        )
        rows.append((*paper(sample, epsilon), *ours(sample, epsilon), *np.concatenate(others)))
    means, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
    return means[:4], means[4:8], means[8:].reshape(3, len(QS)).min(axis=1), spread[0], spread[4]


def report():
    known, missing = at_hand(NAMES)
    rows, ratios = [], []
    for epsilon in EPSILONS:
        for data in known:
            theirs, own, others, spread, own_spread = cell(data, epsilon)
            ratios.append((own[0] / theirs[0], epsilon, data.name))
            shown = [
                f"{own[0]:.4g} ({own_spread:.2g})",
                f"{theirs[0]:.4g} ({spread:.2g})",
                f"{own[0] / theirs[0]:.2f}",
            ]
            shown += [
                f"{own[1]:.4g}",
                f"{theirs[1]:.4g}",
                f"{own[3]:.4g}",
                f"{theirs[3]:.4g}",
                f"{own[2]:.1e}",
                f"{theirs[2]:.1e}",
            ]
            rows.append((epsilon, data.name, *shown, *(f"{error:.4g}" for error in others)))
    first = [ratio for ratio in ratios if ratio[1] == 1 and ratio[2] != "pages"]
    header = (
        "epsilon",
        "column",
        "ours",
        "UQE",
        "ratio",
        "ours, median",
        "UQE, median",
        "ours, near",
        "UQE, near",
    )
    header += ("ours, P(far)", "UQE, P(far)", "EMQ", "steps", "tree")
    return [
        "## Sums with a private clip (table 1)",
        "",
        f"Mean absolute error of the sum of 1000 records, {RUNS} samples; all methods spend twice the epsilon of the row; one "
        f"record is replaced, and the cap is {CAP}. Ours: `ClippedSum` with its defaults. UQE: the paper's, `Quantile` with q = .99, "
        "growth 1.001, equal rates, above-threshold, and half of the budget for the sum. Errors of both are expectations over the exact "
        "laws, overshoots up to the cap included (the paper's own figure has no finite expectation without one); in brackets their "
        "standard deviation over samples. Near: given that the clip is at most four times the largest record. P(far): how likely it is "
        "not. What needs a range has [0, cap], half of the budget, and the q of "
        f"{', '.join(map(str, QS))} that is best in hindsight: EMQ, the exponential mechanism over gaps, on records that small noise took "
        "apart; steps, permute-and-flip over 1001 equal steps, which is OpenDP's quantile; both in expectation; tree, the aggregate tree, "
        f"over {NOISES} draws for each sample. " + missing,
        "",
        *table(header, rows),
        "",
        "Largest ratio ours/UQE at epsilon 1 on ratings, ages and hours: "
        + (f"{max(first)[0]:.3f}" if first else "-")
        + f" (asked: 1); anywhere: {max(ratios)[0]:.3f} at epsilon {max(ratios)[1]}, {max(ratios)[2]} (asked: 1.3)."
        if ratios
        else "",
        "",
    ]
