"""Coverage of what quantiles, sums, means and variances print: of the rows that are clipped, of those that count, and of all."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.coverage.asking import Asked
from benchmarks.coverage.tables import (
    CAP,
    GROUPS,
    LOWER,
    UNITS,
    WITHIN,
    check_kept,
    number_frame,
    number_truths,
    salts,
)
from benchmarks.coverage.trials import Tally, holds
from sordino.releases import plain
from sordino.session.numbers import MeanRequest, SumRequest, VarianceRequest
from sordino.session.quantile_request import QuantileRequest
from sordino.session.whom import find_population

RUNS, SALTS = 300, 2
CONFIDENCE = 0.95
VALUES, RANKS, CLIPPED, TRUE = "low, high", "rank_error", "low, high", "true_low, true_high"
SEVERAL = (0.1, 0.5, 0.9)


def requests(shape, unit):
    """What is asked, by the words of the command."""
    column = {"column": "x", "epsilon": 1, "lower": LOWER[shape], "cap": CAP[shape]}
    groups = {"by": "place", "domain": list(GROUPS)}
    if UNITS[unit].column is not None:
        groups["groups_per_unit"] = 1
    within = WITHIN[shape]
    lower = -within if LOWER[shape] is None else 0
    moved = {**column, "lower": lower, "cap": within}
    asked = {
        "quantile": QuantileRequest(**column, q=0.5),
        "quantile --q 0.1,0.5,0.9": QuantileRequest(**column, q=SEVERAL),
        "quantile --size-hint": QuantileRequest(**column, q=0.5, size_hint=1500),
        "quantile --interval-share none": QuantileRequest(**column, q=0.5, interval_share=None),
        "sum": SumRequest(**column),
        "mean": MeanRequest(**column),
        "variance": VarianceRequest(**column),
        "sum --bounded": SumRequest(**moved, bounds=(lower * 200, within * 200)),
        "quantile --by": QuantileRequest(**column, q=0.5, **groups),
        "sum --by": SumRequest(**column, **groups),
        "mean --by": MeanRequest(**column, **groups),
        "variance --by": VarianceRequest(**column, **groups),
    }
    if shape == "ties":
        asked["quantile --integer"] = QuantileRequest(**column, q=0.5, integer=True)
        asked["quantile --integer --q 0.1,0.5,0.9"] = QuantileRequest(
            **column, q=SEVERAL, integer=True
        )
    return asked


def cells(shapes):
    """All that is measured: the request, the shape and the unit."""
    return [
        (name, shape, unit)
        for shape in shapes
        for unit in UNITS
        # Without a bound on the rows of a unit there is no figure of a column.
        if unit != "unit"
        for name in requests(shape, unit)
    ]


def measure(name, shape, unit, runs=RUNS, price=None):
    """Return the tally of each interval of a request about one table."""
    frame, whom = number_frame(shape), UNITS[unit]
    tallies = (
        {VALUES: Tally(), RANKS: Tally()}
        if name.startswith("quantile")
        else {CLIPPED: Tally(), TRUE: Tally()}
    )
    drawn = salts(whom, SALTS)
    by = "place" if name.endswith("--by") else None
    for salt in drawn:
        kept = number_truths(frame, whom, salt, by=by)
        asked = Asked(requests(shape, unit)[name], frame, whom, salt, kept, price)
        # What is said of all rows is about the rows that do not count as well.
        whole = number_truths(frame, UNITS["row"], salt, by=by)
        one = asked.release()
        # Within a declared range rows are not counted in buckets.
        if getattr(asked.request, "bounds", None) is None:
            check_kept(kept, frame, whom, asked.questions[0].run())
        for _ in range(runs // len(drawn)):
            found = [row.release for row in one] if by else [one]
            for group, release, rows, all_rows in zip(GROUPS, found, kept, whole, strict=False):
                add = add_quantiles if name.startswith("quantile") else add_figure
                add(tallies, release, rows, all_rows, group if by else "", asked)
            one = asked.release()
    return tallies


def add_quantiles(tallies, release, rows, _all_rows, group, asked):
    """Count what is said of one quantile or several: of the rows that count."""
    q = asked.request.q
    for share, one in zip(
        *((q, release) if isinstance(q, tuple) else ((q,), (release,))), strict=True
    ):
        if one.low is not None:
            truth = rows.quantile(share)
            # Of no numbers nothing is said.
            tallies[VALUES].add(
                (group, share), truth is None or holds(one.low, one.high, truth), CONFIDENCE
            )
        target = share * rows.numbers.size
        below, above = rows.ranks(one.value, one.searched_grid.edges)
        # Rows in a bucket with the value count as at it.
        held = (
            above >= target + one.rank_error_low - 1e-9
            and below <= target + one.rank_error_high + 1e-9
        )
        tallies[RANKS].add((group, share), held, CONFIDENCE)


def add_figure(tallies, release, rows, all_rows, group, asked):
    """Count what is said of a sum, a mean or a variance."""
    kind = asked.request.name
    bounds = getattr(asked.request, "bounds", None)
    clipped = np.clip(rows.numbers, *release.clip)
    truth = figure(kind, clipped)
    if bounds is not None:
        truth = min(max(truth, float(bounds[0])), float(bounds[1]))
    tallies[CLIPPED].add(group, holds(release.low, release.high, truth), CONFIDENCE)
    if bounds is not None:
        return
    # What is known of all rows follows from which of them count, as a session says it.
    release.take_population(find_population(asked.request, asked.unit, None, ()))
    held = holds(plain(release.true_low), plain(release.true_high), figure(kind, all_rows.numbers))
    tallies[TRUE].add(group, held, CONFIDENCE)


def figure(kind, values):
    """The figure itself, of no rows 0."""
    if not values.size:
        return 0.0
    total = math.fsum(values)
    if kind == "sum":
        return total
    mean = total / values.size
    return mean if kind == "mean" else math.fsum((values - mean) ** 2) / values.size
