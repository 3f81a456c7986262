"""Sums and means with Laplace and with Gaussian noise, at the same price: how wide their intervals are, without any draw."""

from __future__ import annotations

from fractions import Fraction

from benchmarks.measuring import table
from sordino import BucketCounts, ClippedMean, ClippedSum, cost
from sordino.estimators.clipped.clipped_value import clipped_ends

RECORDS = 10_000
PLACE = Fraction(3, 10)  # of the mean, between the ends of the clip
WRONG = Fraction(1, 20)
DELTA = 1e-6
KINDS = {
    "sum, add-remove": (ClippedSum, {"adjacency": "add-remove"}),
    "sum, replace-one": (ClippedSum, {"adjacency": "replace-one"}),
    "mean, add-remove": (ClippedMean, {"adjacency": "add-remove"}),
    "mean, replace-one": (ClippedMean, {"adjacency": "replace-one"}),
    "mean, replace-one, 5 records a unit": (
        ClippedMean,
        {"adjacency": "replace-one", "rows_per_unit": 5},
    ),
}


def made(kind, epsilon, rho=None):
    estimator, options = KINDS[kind]
    return estimator(epsilon=epsilon, lower=0, cap=10_000, total_rho=rho, **options)


def half(kind, subject):
    """Half of the 95 % interval of records that are as spread as said, of exact totals, as a share of the clip."""
    clip = subject.search.clip(
        (100,) * len(subject.search.runs(BucketCounts.empty(subject.grid))), simulated=True
    )
    noise = subject.noise_for(clip)
    width = clip.top - clip.bottom
    away = round(RECORDS * PLACE * width)
    exact = (away,) if noise.totals == 1 else (away, RECORDS * width - away)
    known = RECORDS if kind.startswith("mean") and noise.totals == 1 else None
    low, high = clipped_ends(
        clip, noise, tuple(total >> noise.shift for total in exact), known, WRONG
    )
    return float((high - low) / 2 / (width * clip.step))


def same_rho():
    """At the rho of the Laplace noise, which is what is charged for it."""
    rows = []
    for kind in KINDS:
        for epsilon in (0.1, 1, 2):
            laplace = made(kind, epsilon)
            rho = laplace.total_cost.zcdp()
            gaussian = made(kind, epsilon, rho)
            assert gaussian.cost.zcdp() == laplace.cost.zcdp()
            one, other = half(kind, laplace), half(kind, gaussian)
            rows.append(
                (
                    kind,
                    epsilon,
                    f"{float(rho):.4g}",
                    f"{one:.4g}",
                    f"{other:.4g}",
                    f"{other / one:.2f}",
                )
            )
    return rows


def matching_rho(laplace, kind, epsilon, releases):
    """The largest rho at which so many releases cost no larger an epsilon at delta."""
    limit = cost.repeat(laplace.cost, releases).epsilon(DELTA)
    low, high = 0.0, 100.0
    for _ in range(40):
        middle = (low + high) / 2
        spent = cost.repeat(made(kind, epsilon, middle).cost, releases).epsilon(DELTA)
        low, high = (middle, high) if spent <= limit else (low, middle)
    return low, limit


def same_epsilon():
    """At the epsilon at delta 1e-6 that so many such releases cost together."""
    rows = []
    for kind in ("sum, add-remove", "mean, add-remove"):
        for epsilon in (0.1, 1):
            for releases in (1, 10, 100):
                laplace = made(kind, epsilon)
                rho, limit = matching_rho(laplace, kind, epsilon, releases)
                one, other = half(kind, laplace), half(kind, made(kind, epsilon, rho))
                rows.append(
                    (kind, epsilon, releases, f"{limit:.3f}", f"{rho:.4g}", f"{other / one:.2f}")
                )
    return rows


def report():
    return [
        "## Gaussian noise for sums and means",
        "",
        "Half of the 95 % interval as a share of the width of the clip, of exact totals without a draw: 10,000 records whose mean lies at 0.3 of the clip. Both have the same clip, "
        "for the same price; Gaussian: with `total_rho`, the rho of the Laplace noise, which is charged for it. So an account in rho pays the same for both.",
        "",
        *table(
            ("figure", "epsilon", "rho of the totals", "Laplace", "Gaussian", "ratio"),
            same_rho(),
        ),
        "",
        "The same ratio where so many releases, clips included, cost the same epsilon at delta 1e-6 together: a single release is better off with Laplace noise, many are with Gaussian noise.",
        "",
        *table(
            (
                "figure",
                "epsilon each",
                "releases",
                "epsilon at delta",
                "rho of the totals",
                "ratio",
            ),
            same_epsilon(),
        ),
    ]
