"""The columns of the paper: six populations, and samples of 1000 records of each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np

RECORDS = 1000


class Column(NamedTuple):
    """A population with the range that [durfee2023] gives to others as tight, and what the paper knows of its values."""

    name: str
    values: np.ndarray
    tight: tuple[float, float]
    jitter: float  # standard deviation of the noise that takes values apart, for methods that cannot do with equal ones
    digits: int | None  # answers are rounded to so many decimals

    def samples(self, runs):
        """Yield samples of 1000 records, each with the same records and other noise on them to take equal ones apart."""
        for i in range(runs):
            rng = np.random.default_rng([i, len(self.name), self.values.size])
            sample = rng.choice(self.values, RECORDS, replace=False)
            yield (
                np.sort(sample),
                np.sort(np.clip(sample + rng.normal(0, self.jitter, RECORDS), *self.tight)),
            )

    def rounded(self, answers):
        return answers if self.digits is None else np.round(answers, self.digits)


FILES = {
    "ratings": ("goodreads_books.parquet", "average_rating", (0, 10), 0.001, 2),
    "pages": ("goodreads_books.parquet", "num_pages", (0, 10_000), 0.1, 0),
    "ages": ("adult.parquet", "age", (0, 100), 0.1, 0),
    "hours": ("adult.parquet", "hours_per_week", (0, 100), 0.1, 0),
}
NAMES = ("uniform", "normal", *FILES)


def column(name):
    """Return a column, or None if its file is not here."""
    rng = np.random.default_rng(2023)
    if name == "uniform":
        return Column(name, rng.uniform(-5, 5, 10_000), (-5, 5), 0, None)
    if name == "normal":
        return Column(name, rng.normal(0, 5, 10_000), (-25, 25), 0, None)
    file, label, *rest = FILES[name]
    path = Path(os.environ.get("SORDINO_DATA", "data")) / file
    if not path.is_file():
        return None
    with duckdb.connect() as engine:
        values = engine.execute(
            f"SELECT {label}::DOUBLE FROM read_parquet(?) WHERE {label} IS NOT NULL", [str(path)]
        ).fetchnumpy()
    return Column(name, np.asarray(values[next(iter(values))]), *rest)


def at_hand(names):
    """Return the columns that are here, and a sentence about those that are not."""
    found = {name: column(name) for name in names}
    missing = [name for name, values in found.items() if values is None]
    said = f"Skipped, because the data are not here: {', '.join(missing)}." if missing else ""
    return [values for values in found.values() if values is not None], said
