"""Coverage of the mean of local reports: of numbers that are moved into the range, where the middle stands for what does not count."""

from __future__ import annotations

import numpy as np
import polars as pl

from benchmarks.coverage.asking import Asked
from benchmarks.coverage.tables import NUMBER_SHAPES, UNITS, WITHIN, number_frame
from benchmarks.coverage.trials import Tally, holds
from sordino import PrivacyUnit, mean_of_reports
from sordino.session.local import RandomizeRequest

RUNS = 300
MEAN = "interval"


def cells():
    """All that is measured: the request, the shape and the unit."""
    return [
        ("randomize, mean_of_reports", shape, unit)
        for shape in NUMBER_SHAPES
        for unit in ("row, replace-one", "M = 1", "M = 2", "M = 3")
    ]


def measure(_name, shape, unit, runs=RUNS):
    """Return the tally of the interval about one table."""
    frame, most = number_frame(shape), UNITS[unit].max_rows
    whom = (
        UNITS[unit] if most is None else PrivacyUnit("unit", max_rows=most, adjacency="replace-one")
    )
    upper = WITHIN[shape]
    lower = -upper if shape == "mixed" else 0
    # Of a unit the first rows keep their number.
    place = pl.int_range(pl.len()).over("unit")
    kept = frame.select(pl.when(place < (most or frame.height)).then(pl.col("x"))).to_series()
    values = np.clip(kept.cast(pl.Float64).fill_null((lower + upper) / 2).to_numpy(), lower, upper)
    asked = Asked(
        RandomizeRequest(column="x", lower=lower, upper=upper, epsilon=2), frame, whom, b""
    )
    tally = Tally()
    for _ in range(runs):
        found = mean_of_reports(asked.release())
        tally.add("", holds(*found.interval, values.mean()), 0.95)
    return {MEAN: tally}
