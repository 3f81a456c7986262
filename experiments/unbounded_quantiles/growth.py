"""Inner quantiles by rank over grids of three growths: what a coarser grid gains where few records can be seen, and what it loses."""

from __future__ import annotations

import numpy as np

import sordino as sd
from experiments.repeating import table
from experiments.unbounded_quantiles import laws
from experiments.unbounded_quantiles.columns import NAMES, RECORDS, at_hand
from experiments.unbounded_quantiles.inner import EPSILONS, OURS, QS, answers

RUNS = 25
NARROW = ("ratings",)  # public knowledge: most are between 3 and 5, and differ by hundredths
GROWTHS = (
    (f"1 + 2/{RECORDS}", lambda _: 1 + 2 / RECORDS),
    *((f"1 + {c}/({RECORDS} epsilon)", lambda e, c=c: 1 + c / RECORDS / e) for c in (2, 4)),
)


def report():
    known, missing = at_hand(NAMES)
    rows, chosen = [], []
    for epsilon in EPSILONS:
        for data in known:
            samples = [
                (*pair, answers("EMQ", *pair, q, epsilon, data.tight), q)
                for pair in data.samples(RUNS)
                for q in QS
            ]
            tight = error(data, ((sample, q, law) for sample, _, law, q in samples))
            found = [
                error(
                    data,
                    (
                        (sample, q, ours(sample, q, epsilon, growth(epsilon)))
                        for sample, _, _, q in samples
                    ),
                )
                for _, growth in GROWTHS
            ]
            chosen.append(found[0 if data.name in NARROW else 2] / tight)
            rows.append(
                (
                    epsilon,
                    data.name,
                    f"{tight:.2f}",
                    *(f"{each:.2f} ({each / tight:.2f})" for each in found),
                )
            )
    return [
        "## Which growth",
        "",
        f"The same mean rank errors over {RUNS} samples, and their ratios to those of EMQ with a tight range, over coarser grids. A walk "
        "tests every edge, so fewer edges end it early less often; but values that lie within a few percent of each other, such as "
        "ratings, are told apart by small buckets only. The table above has the first growth everywhere. "
        + missing,
        "",
        *table(
            ("epsilon", "column", "EMQ, tight", *(f"growth {name}" for name, _ in GROWTHS)), rows
        ),
        "",
        "With the first growth for ratings, which are known to lie close together, and the last for the others the largest ratio is "
        f"{max(chosen, default=0):.2f}; asked: 1.1 at most.",
    ]


def ours(sample, q, epsilon, growth):
    found = sd.Quantile(q=q, epsilon=epsilon, **(OURS | {"growth": growth}))
    return laws.quantile(found, sd.BucketCounts.of(sample, grid=found.grid))


def error(data, cases):
    return float(
        np.mean(
            [law[1] @ laws.rank_errors(data.rounded(law[0]), sample, q) for sample, q, law in cases]
        )
    )
