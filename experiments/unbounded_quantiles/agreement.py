"""The laws that the other tables rest on, against releases: the same means, within the error of sampling."""

from __future__ import annotations

import numpy as np

import sordino as sd
from experiments.repeating import table
from experiments.unbounded_quantiles import laws, table_1_sums
from experiments.unbounded_quantiles.columns import at_hand

RELEASES = 5000
QUANTILES = {
    "walk, growth 1.001": (
        0.99,
        {"lower": 0, "cap": 1e4, "growth": 1.001, "method": "above-threshold"},
    ),
    "walk, both signs": (
        0.75,
        {"lower": None, "cap": 1e6, "size_hint": 1000, "method": "above-threshold"},
    ),
    "permute-and-flip": (0.25, {"lower": None, "cap": 1e6, "size_hint": 1000}),
}


def compared(found, law, released):
    """Return the mean of the law, the mean of releases, and how many standard errors they are apart."""
    exact = law @ found
    error = np.std(released) / np.sqrt(len(released))
    return exact, np.mean(released), (np.mean(released) - exact) / error


def report():
    known, missing = at_hand(("normal", "pages"))
    rows = []
    for data in known:
        sample = next(data.samples(1))[0]
        for name, (q, options) in QUANTILES.items():
            quantile = sd.Quantile(q=q, epsilon=0.5, adjacency="replace-one", **options)
            counts = sd.BucketCounts.of(sample, grid=quantile.grid)
            values, law = laws.quantile(quantile, counts)
            entropy = sd.Seeded(len(rows))
            drawn = [quantile.release(counts, entropy=entropy).value for _ in range(RELEASES)]
            ranks = laws.rank_errors(np.array(drawn), sample, q)
            rows.append(
                (
                    data.name,
                    name,
                    "rank error",
                    *compared(laws.rank_errors(values, sample, q), law, ranks),
                )
            )
        if data.name != "normal":
            rows.append((data.name, "ClippedSum", "absolute error", *sums(sample)))
    shown = [(*row[:3], f"{row[3]:.5g}", f"{row[4]:.5g}", f"{row[5]:+.1f}") for row in rows]
    return [
        "## Laws and releases",
        "",
        f"Means over the exact laws that all tables use, and over {RELEASES} releases of one sample, epsilon .5. "
        + missing,
        "",
        *table(
            ("column", "method", "mean of the", "law", "releases", "standard errors apart"), shown
        ),
        "",
    ]


def sums(sample):
    entropy, total = sd.Seeded(5), sample.sum()
    whole = sd.ClippedSum(epsilon=1, adjacency="replace-one", lower=0, cap=table_1_sums.CAP)
    drawn = [abs(whole.release(sample, entropy=entropy).value - total) for _ in range(RELEASES)]
    exact = table_1_sums.ours(sample, 0.5)[0]
    return exact, np.mean(drawn), (np.mean(drawn) - exact) / np.std(drawn) * np.sqrt(RELEASES)
