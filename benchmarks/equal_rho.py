"""Rank errors of quantiles at equal rho, by the kind of noise, where neither the grid nor equal values limit them."""

from __future__ import annotations

import numpy as np

import sordino as sd
from benchmarks.measuring import table, verdict

CAP, MOST, UNITS_MOST = 1e9, 0.6, 0.7
# Growth and parts of a bucket, so that a grid up to the cap has about that many edges; and how many releases are made.
GRIDS = {
    10**3: (1.0215, 1, 1000),
    10**4: (1.01, 5, 1000),
    10**5: (1.01, 48, 400),
    10**6: (1.01, 480, 400),
}


def make_quantile(size, q, epsilon, adjacency, **more):
    growth, cuts, _ = GRIDS[size]
    whole = {"q": q, "epsilon": epsilon, "adjacency": adjacency, "lower": 0, "cap": CAP}
    return sd.Quantile(**whole, growth=growth, cuts=cuts, **more).for_size(size)


def match_rho(size, q, rho, adjacency):
    """Return the quantile with Gumbel noise whose rho is that or a little less."""
    low, high = 1e-3, 50.0
    for _ in range(40):
        middle = (low * high) ** 0.5
        made = make_quantile(size, q, middle, adjacency, search_noise="gumbel")
        low, high = (middle, high) if made.cost.zcdp() <= rho else (low, middle)
    return make_quantile(size, q, low, adjacency, search_noise="gumbel")


def measure_error(size, q, made):
    """Return the root mean squared rank error, of one record in the middle of each bucket."""
    edges = np.asarray(made.grid.edges, dtype=float)
    edges = np.sort(edges[edges > 0])
    values = (edges[:-1] + edges[1:]) / 2
    column = sd.BucketCounts.of(values, grid=made.grid)
    found = [made.release(column).value for _ in range(GRIDS[size][2])]
    # A value that a record has lies half before it and half behind it.
    ranks = sum(np.searchsorted(values, found, side=side) for side in ("left", "right")) / 2
    return float(np.sqrt(np.mean(np.square(ranks - q * len(values)))))


def compare_noises():
    for adjacency in ("add-remove", "replace-one"):
        for size in GRIDS:
            for q in (0.5, 0.9):
                for epsilon in (0.1, 1.0):
                    plain = make_quantile(size, q, epsilon, adjacency)
                    rho = plain.cost.zcdp()
                    other = match_rho(size, q, rho, adjacency)
                    before, now = measure_error(size, q, plain), measure_error(size, q, other)
                    ratio = now / before
                    yield (
                        adjacency,
                        f"{size:,}",
                        q,
                        epsilon,
                        f"{float(rho):.5f}",
                        f"{before:.2f}",
                        f"{now:.2f}",
                        f"{ratio:.2f}",
                        MOST,
                        verdict(ratio <= MOST),
                    )


def compare_rates():
    """Of units that are replaced: what l + h and what 2 h buys."""
    for size in (10**3, 10**5):
        for epsilon in (0.1, 1.0):
            before = measure_error(
                size, 0.5, make_quantile(size, 0.5, epsilon / 1.5, "replace-one")
            )
            now = measure_error(size, 0.5, make_quantile(size, 0.5, epsilon, "replace-one"))
            ratio = now / before
            cells = f"{before:.2f}", f"{now:.2f}", f"{ratio:.2f}"
            yield f"{size:,}", epsilon, *cells, UNITS_MOST, verdict(ratio <= UNITS_MOST)


def report():
    ends = "target", ""
    return [
        "## Quantiles at equal rho",
        "",
        "Root mean squared rank errors of a quantile with one record in the middle of each bucket of a grid, so that noise alone makes them: "
        "1,000 releases a cell, 400 from 100,000 records on. Geometric: noise of a pure account at that epsilon. Gumbel: the noise "
        "that an account with a delta or a rho uses, at the same rho.",
        "",
        *table(
            ("neighbors", "records", "q", "epsilon", "rho", "geometric", "Gumbel", "ratio", *ends),
            list(compare_noises()),
        ),
        "",
        "Medians on a pure account where a unit is replaced: rates before one search cost l + h in place of 2 h (a third less), and since then.",
        "",
        *table(("records", "epsilon", "before", "now", "ratio", *ends), list(compare_rates())),
    ]
