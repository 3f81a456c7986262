"""Quantiles against OpenDP's quantile over 1,001 candidates, and a release from counts that are ready."""

from __future__ import annotations

import numpy as np

from benchmarks.measuring import medians, table, verdict
from sordino import BucketCounts, Quantile, Quantiles

N, CANDIDATES, EPSILON, CAP = 1_000_000, 1001, 1.0, 1e6
BUCKETS = 200
DECILES = tuple(round(0.1 * i, 1) for i in range(1, 10))
KNOWN = {"epsilon": EPSILON, "adjacency": "add-remove", "lower": 0, "cap": CAP}


def incomes():
    """A million lognormal floats, unsorted; the middle half between 15,000 and 45,000."""
    return np.random.default_rng(1).lognormal(np.log(26_000), 0.8, N)


def theirs(alpha):
    """OpenDP's quantile (permute-and-flip over the candidates); it is given a range of a tenth of ours, and its budget."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    candidates = np.linspace(0, CAP / 10, CANDIDATES).tolist()

    def made(scale):
        return dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, alpha, scale)

    return made(made(1.0).map(1) / EPSILON)


def ready():
    """One release from counts of 200 non-empty buckets among some 1,400, by each method."""
    rows = []
    for name, more in (("above-threshold", {}), ("permute-and-flip", {"size_hint": 100_000})):
        for q in (0.5, 0.99):
            quantile = Quantile(q=q, growth=1.01, method=name, **KNOWN, **more)
            places = np.linspace(300, quantile.grid.size - 100, BUCKETS).astype(int)
            counts = np.zeros(quantile.grid.size + 1, dtype=np.int64)
            counts[places] = np.random.default_rng(2).integers(1, 1000, BUCKETS)
            state = BucketCounts(grid=quantile.grid, counts=counts)
            (seconds,) = medians(lambda: quantile.release(state), rounds=1001)
            rows.append((name, q, f"{seconds * 1e6:.0f}", "300", verdict(seconds < 300e-6)))
    return rows


def report():
    values = incomes()
    truth = np.quantile(values, DECILES)
    middle = theirs(0.5)
    assert abs(middle.map(1) - EPSILON) < 1e-9
    quantile = Quantile(q=0.5, size_hint=N, **KNOWN)
    searched = Quantile(q=0.5, **KNOWN)
    many = Quantiles(q=DECILES, **KNOWN)
    nine = [Quantile(q=q, size_hint=N, **KNOWN) for q in DECILES]

    def nine_from_one_count():
        state = BucketCounts.of(values, grid=quantile.grid)
        return [one.release(state).value for one in nine]

    nine_theirs = [theirs(q) for q in DECILES]
    ours, ours_searched, ours_split, ours_nine, opendp_median, opendp_nine = medians(
        lambda: quantile.release(values),
        lambda: searched.release(values),
        lambda: many.release(values),
        nine_from_one_count,
        lambda: middle(values),
        lambda: [one(values) for one in nine_theirs],
    )
    assert all(
        abs(value / right - 1) < 0.02
        for value, right in zip(nine_from_one_count(), truth, strict=True)
    ), "right to 2%"
    assert all(
        abs(found.value / right - 1) < 0.05
        for found, right in zip(many.release(values), truth, strict=True)
    ), "right to 5%"
    assert all(
        abs(one(values) - right) < 200 for one, right in zip(nine_theirs, truth, strict=True)
    ), "theirs too, to two candidates"
    rows = [
        row("median, permute-and-flip", ours, opendp_median, 4),
        row("median, above-threshold (no size hint)", ours_searched, opendp_median, 4),
        row("nine deciles, counted once, split level by level", ours_split, opendp_nine, 30),
        row("nine deciles, counted once, nine releases", ours_nine, opendp_nine, 30),
    ]
    return [
        f"## Quantiles of {N:,} floats",
        "",
        f"OpenDP's `make_private_quantile` over {CANDIDATES:,} candidates in [0, {CAP / 10:,.0f}], one call for each decile, "
        f"against {quantile.grid.size:,} edges up to {CAP:,.0f}; epsilon {EPSILON:g} a call, each from the unsorted floats.",
        "",
        *table(("job", "ours ms", "OpenDP ms", "OpenDP / ours", "target", ""), rows),
        "",
        f"## A release from counts of {BUCKETS} buckets",
        "",
        "Microseconds, median of 1001.",
        "",
        *table(("method", "q", "us", "target", ""), ready()),
    ]


def row(name, ours, theirs, target):
    return (
        name,
        f"{ours * 1e3:.1f}",
        f"{theirs * 1e3:.0f}",
        f"{theirs / ours:.1f}x",
        f"{target}x",
        verdict(theirs >= target * ours),
    )
