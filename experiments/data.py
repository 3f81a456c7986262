"""The counts that the experiments select from: made as the papers define them, or read from the folder that SORDINO_DATA names."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Counts(NamedTuple):
    """Counts of items, largest first, with the threshold and the number of positives that top-c selection uses."""

    name: str
    values: np.ndarray
    threshold: float
    positives: int


FILES = {
    "retail": "retail_counts.csv.gz",
    "bms_webview1": "bms_webview1_counts.csv.gz",
    "t10i4d100k": "t10i4d100k_counts.csv.gz",
    "adult": "adult_capital_gain_counts.csv",
}
MADE = ("binary", "zipf")
NAMES = (*MADE, *FILES)
FILES["kosarak"] = "kosarak_first36682_counts.csv.gz"
RENYI_NAMES = ("binary", "bms_webview1", "kosarak")


def counts(name):
    """Return the counts of a data set, or None if its file is not here."""
    if name == "binary":
        return Counts(name, np.repeat([1000, 0], [50, 9950]), 500, 50)
    if name == "zipf":
        return Counts(name, 10_000 // np.arange(1, 10_001), 200, 50)
    path = Path(os.environ.get("SORDINO_DATA", "data")) / FILES[name]
    if not path.is_file():
        return None
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        values = np.sort([int(row["count"]) for row in csv.DictReader(lines)])[::-1]
    positives = 5 if name == "adult" else 50
    threshold = 200 if name == "adult" else float(values[positives - 1] + values[positives]) / 2
    return Counts(name, values, threshold, positives)


def at_hand(names):
    """Return the data sets that are here, and a sentence about those that are not."""
    found = [counts(name) for name in names]
    missing = [name for name, data in zip(names, found, strict=True) if data is None]
    said = f"Skipped, because the data are not here: {', '.join(missing)}." if missing else ""
    return [data for data in found if data is not None], said
