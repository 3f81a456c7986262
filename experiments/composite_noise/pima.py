"""The columns of the Pima data with public ranges, five statistics of each, and how far one replaced record can move them."""

from __future__ import annotations

import csv
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

FILE = "pima_diabetes.csv"
RANGES = {
    "Pregnancies": (0, 20),
    "Glucose": (0, 200),
    "BloodPressure": (0, 150),
    "SkinThickness": (0, 100),
    "Insulin": (0, 1000),
    "BMI": (0, 100),
    "DiabetesPedigreeFunction": (0, 3),
    "Age": (20, 90),
}
STATISTICS = ("maximum", "mode", "variance", "mean", "minimum")
MISSING = f"Skipped, because the data are not here: {FILE}."


class Query(NamedTuple):
    """One statistic of one column: its answer, all that it can be, and what one record can move it by, whatever the others are."""

    column: str
    statistic: str
    answer: float
    lower: float
    upper: float
    sensitivity: float
    seen: float  # the most that leaving out one record of these data moves it: private, and no sensitivity

    @property
    def share(self):
        """Where the answer lies, in ranges from the lower end."""
        return (self.answer - self.lower) / (self.upper - self.lower)


def mode(values):
    known, counts = np.unique(values, return_counts=True)
    return float(known[counts.argmax()])


EVALUATED = {
    "maximum": np.max,
    "minimum": np.min,
    "mode": mode,
    "mean": np.mean,
    "variance": np.var,
}


def query(column, statistic, values):
    """Return the query; the number of records is public."""
    low, high = RANGES[column]
    n, width = values.size, high - low
    answer = EVALUATED[statistic](values)
    without = [
        EVALUATED[statistic](np.delete(values, i)) for i in np.unique(values, return_index=True)[1]
    ]
    if statistic == "mean":
        ends, moved = (low, high), width / n
    elif (
        statistic == "variance"
    ):  # of the population: at most a quarter of the squared width; one record moves it by this much
        ends, moved = (0, width**2 / 4), width**2 * (n - 1) / n**2
    else:
        ends, moved = (low, high), width
    answer = round(float(answer), 9)
    return Query(
        column, statistic, answer, *ends, moved, float(np.max(np.abs(np.array(without) - answer)))
    )


@cache
def queries():
    """Return all queries, or nothing if the file is not here."""
    path = Path(os.environ.get("SORDINO_DATA", "data")) / FILE
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    columns = {name: np.array([float(row[name]) for row in rows]) for name in RANGES}
    return [
        query(column, statistic, columns[column]) for statistic in STATISTICS for column in RANGES
    ]
