"""Coverage of figures of one number of each unit, of sums of groups within one clip, and of weighed rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import sordino as sd
from benchmarks.coverage.figures import (
    CLIPPED,
    CONFIDENCE,
    RANKS,
    SEVERAL,
    TRUE,
    VALUES,
    figure,
)
from benchmarks.coverage.tables import CAP, GROUPS, LOWER, NUMBER_SHAPES, Truth, number_frame
from benchmarks.coverage.trials import Tally, holds
from sordino.releases import plain

RUNS = 300
UNITS = {
    "person": sd.PrivacyUnit("unit"),
    "person, replace-one": sd.PrivacyUnit("unit", adjacency="replace-one"),
}
MADE = {"sum": pl.sum("x"), "mean": pl.mean("x"), "count": pl.col("x").count(), "max": pl.max("x")}
ASKED = {
    "sum": ("sum", "sum"),
    "mean --per-person mean": ("mean", "mean"),
    "mean --per-person count": ("mean", "count"),
    "variance --per-person max": ("variance", "max"),
    "quantile --per-person sum": ("quantile", "sum"),
}
TOGETHER = "sum --by"
WEIGHED = {
    "mean": None,
    "mean --upper": None,
    "mean --by": "place",
    "mean --by --clip each": "place",
    "variance": None,
    "variance --by": "place",
    "quantile": None,
    "quantile --by": "place",
    "quantiles": None,
}


def cells():
    """All that is measured: the request, the shape and the unit."""
    names = (*ASKED, TOGETHER, *WEIGHED)
    return [(name, shape, unit) for shape in NUMBER_SHAPES for unit in UNITS for name in names]


def measure(name, shape, unit, runs=RUNS):
    """Return the tally of each interval of a request about one table."""
    frame = number_frame(shape)
    session = sd.Session(frame, unit=UNITS[unit], ledger=None)
    column = {"epsilon": 1, "lower": LOWER[shape], "cap": CAP[shape]}
    if name == TOGETHER:
        return measure_together(session, frame, column, runs)
    if name in WEIGHED:
        return measure_weighed(session, frame, column, runs, name)
    method, made = ASKED[name]
    numbers = frame.drop_nulls("x") if made != "count" else frame
    values = numbers.group_by("unit").agg(MADE[made].alias("v"))["v"].to_numpy().astype(float)
    if method == "quantile":
        return measure_quantile(session, values, made, column, runs)
    tallies = {CLIPPED: Tally(), TRUE: Tally()}
    for _ in range(runs):
        release = getattr(session, method)("x", per_person=made, **column)
        clipped = figure(method, np.clip(values, *release.clip))
        tallies[CLIPPED].add("", holds(release.low, release.high, clipped), CONFIDENCE)
        add_true(tallies, release, figure(method, values), "")
    return tallies


def add_true(tallies, release, truth, row):
    held = holds(plain(release.true_low), plain(release.true_high), truth)
    tallies[TRUE].add(row, held, CONFIDENCE)


def measure_quantile(session, values, made, column, runs):
    """Of the median of what units have."""
    tallies = {VALUES: Tally(), RANKS: Tally()}
    truth = float(np.quantile(values, 0.5, method="inverted_cdf"))
    known = Truth(np.sort(values), 0)
    for _ in range(runs):
        one = session.quantile("x", q=0.5, per_person=made, **column)
        tallies[VALUES].add("", holds(one.low, one.high, truth), CONFIDENCE)
        # Units in a bucket with the value count as at it.
        below, above = known.ranks(one.value, one.searched_grid.edges)
        target = values.size / 2
        held = above >= target + one.rank_error_low and below <= target + one.rank_error_high
        tallies[RANKS].add("", held, CONFIDENCE)
    return tallies


def measure_together(session, frame, column, runs):
    """Of sums of groups: of what units count as within the clip, and of all that they have."""
    parts = (
        frame.group_by("unit", "place")
        .agg(pl.sum("x"))
        .pivot(on="place", index="unit", values="x", aggregate_function="first")
        .select([pl.col(group).fill_null(0) for group in GROUPS])
        .to_numpy()
    )
    wholes = np.abs(parts).sum(axis=1)
    tallies = {CLIPPED: Tally(), TRUE: Tally()}
    for _ in range(runs):
        found = session.sum("x", by="place", domain=list(GROUPS), **column)
        most = found.rows[0].release.clip[1]
        shares = (parts * np.minimum(1, most / np.maximum(wholes, 1e-300))[:, None]).sum(axis=0)
        for row, share, truth in zip(found, shares, parts.sum(axis=0), strict=True):
            release = row.release
            tallies[CLIPPED].add(row.item, holds(release.low, release.high, share), CONFIDENCE)
            add_true(tallies, release, truth, row.item)
    return tallies


def measure_weighed(session, frame, column, runs, name):
    """Of figures of rows with the weights that were found: of clipped numbers, and of all as they are."""
    by = WEIGHED[name]
    known = frame.drop_nulls("x").with_columns(many=pl.len().over("unit"))
    if by is not None:
        known = known.filter(pl.col("place").is_in(GROUPS))
    asked: dict[str, Any] = {} if by is None else {"by": by, "domain": list(GROUPS)}
    places = known["place"].to_numpy()
    values, many = known["x"].to_numpy().astype(float), known["many"].to_numpy()
    if name.startswith("quantile"):
        asked["q"] = SEVERAL if name == "quantiles" else 0.5
        return measure_ranks(session, values, many, places, column | asked, runs)
    method, *options = name.split()
    asked |= {"upper": True} if "--upper" in options else {}
    asked |= {"clip": "each"} if "--clip" in options else {}
    tallies = {CLIPPED: Tally(), TRUE: Tally()}
    for _ in range(runs):
        found = getattr(session, method)("x", **asked, **column)
        listed = [(None, found)] if by is None else [(row.item, row.release) for row in found]
        for item, release in listed:
            here = np.full(values.size, True) if item is None else places == item
            if not here.any():
                continue
            weight = (1 << release.weights.bits) // np.maximum(many, release.weights.cap)
            clipped, true = (
                weigh_figure(method, numbers[here], weight[here])
                for numbers in (np.clip(values, *release.clip), values)
            )
            tallies[CLIPPED].add(item or "", holds(release.low, release.high, clipped), CONFIDENCE)
            add_true(tallies, release, true, item or "")
    return tallies


def weigh_figure(method, numbers, weights):
    """The figure itself, of numbers with weights."""
    mean = float((numbers * weights).sum() / weights.sum())
    if method == "mean":
        return mean
    return float(((numbers - mean) ** 2 * weights).sum() / weights.sum())


def measure_ranks(session, values, many, places, asked, runs):
    """Of quantiles of rows with the weights that were found."""
    tallies = {VALUES: Tally(), RANKS: Tally()}
    order = np.argsort(values)
    values, many, places = values[order], many[order], places[order]
    for _ in range(runs):
        found = session.quantile("x", **asked)
        listed = [(row.item, row.release) for row in found] if "by" in asked else [("", found)]
        for item, release in listed:
            here = places == item if item else np.full(values.size, True)
            several = isinstance(asked["q"], tuple)
            shares = asked["q"] if several else [asked["q"]]
            for q, one in zip(shares, release if several else [release], strict=True):
                add_ranks(tallies, values[here], many[here], one, q, item)
    return tallies


def add_ranks(tallies, values, many, one, q, row):
    """Count what is said of a quantile of these numbers, sorted, of units with so many rows each."""
    weights = (1 << one.weights.bits) // np.maximum(many, one.weights.cap)
    sums = np.concatenate([[0], np.cumsum(weights)])
    target, total = q * sums[-1], sums[-1]
    if values.size:
        truth = float(values[np.searchsorted(sums[1:], target)])
        tallies[VALUES].add((row, q), holds(one.low, one.high, truth), CONFIDENCE)
    edges, scale = one.searched_grid.edges, one.weights.rows_of_step
    below = edges[np.searchsorted(edges, one.value) - 1] if (edges < one.value).any() else -np.inf
    above = (edges > one.value).any()
    above = edges[np.searchsorted(edges, one.value, "right")] if above else np.inf
    low, high = (sums[np.searchsorted(values, end)] for end in (below, above))
    if above == np.inf:
        high = total
    # Rows in a bucket with the value count as at it.
    held = high * scale >= target * scale + one.rank_error_low - 1e-9
    held &= low * scale <= target * scale + one.rank_error_high + 1e-9
    tallies[RANKS].add((row, q), held, CONFIDENCE)
