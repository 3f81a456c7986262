"""The tables that coverage is measured on, and what is true of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from sordino import BucketCounts, BucketGrid, PrivacyUnit
from sordino.columns import StepRange
from sordino.questions import prepare_numbers
from sordino.sources import CsvFormat, open_source

ITEMS, GROUPS = 20, ("east", "north", "south")
ITEM_SHAPES = ("zipf", "flat", "few")
NUMBER_SHAPES = ("money", "ties", "mixed")
UNITS = {
    "row": PrivacyUnit.row(),
    "row, replace-one": PrivacyUnit.row("replace-one"),
    "unit": PrivacyUnit("unit"),
    "M = 1": PrivacyUnit("unit", max_rows=1),
    "M = 2": PrivacyUnit("unit", max_rows=2),
    "M = 3": PrivacyUnit("unit", max_rows=3),
}


def salts(unit, several):
    """What decides which rows of a unit count, drawn a few times; it decides nothing where all rows count."""
    return [bytes([salt]) * 32 for salt in range(several if unit.max_rows is not None else 1)]


# ---- items -------------------------------------------------------------------------------------------------


def labels(shape):
    return [f"i{item:02d}" for item in range(4 if shape == "few" else ITEMS)]


def item_frame(shape):
    """Units with 4 rows in the mean: of Zipf's law, of equally likely items, or of few items."""
    generator = np.random.default_rng(11)
    names = labels(shape)
    weights = 1 / np.arange(1, len(names) + 1) if shape == "zipf" else np.ones(len(names))
    units = np.repeat(np.arange(500), 1 + generator.poisson(3, 500))
    chosen = generator.choice(len(names), size=units.size, p=weights / weights.sum())
    return pl.DataFrame(
        {"unit": [f"u{unit}" for unit in units], "item": [names[item] for item in chosen]}
    )


def item_counts(frame, shape, *, by_row):
    """The true count of each label: of its rows, or of the units that have it."""
    kept = frame if by_row else frame.unique()
    found = dict(kept.group_by("item").len().iter_rows())
    return {label: found.get(label, 0) for label in labels(shape)}


# ---- numbers -----------------------------------------------------------------------------------------------

LOWER = {"money": 0, "ties": 0, "mixed": None}
CAP = {"money": 10**6, "ties": 100, "mixed": 10**5}
TIES = (0.05, 0.1, 0.2, 0.2, 0.12, 0.08, 0.06, 0.04, 0.03, 0.02, 0.1)
"""Of 0, 1, ..., 9, and of a missing number."""
WITHIN = {"money": 2000, "ties": 12, "mixed": 600}
"""A public end of the rows for figures within a declared range."""


def number_frame(shape):
    """Units with 3 rows in the mean: amounts with a heavy tail, small whole numbers, or both signs; a part is missing in the latter two."""
    generator = np.random.default_rng(12)
    units = np.repeat(np.arange(500), 1 + generator.poisson(2, 500))
    n = units.size
    if shape == "money":
        values = np.round(20 * generator.pareto(1.3, n) + 5, 2).tolist()
    elif shape == "ties":
        values = [None if x == 10 else x for x in generator.choice(11, size=n, p=TIES).tolist()]
    else:
        low = generator.random(n) < 0.4
        drawn = np.round(
            np.where(low, generator.normal(-60, 20, n), generator.normal(250, 40, n)), 1
        )
        values = [
            None if gap else x
            for gap, x in zip(generator.random(n) < 0.2, drawn.tolist(), strict=True)
        ]
    places = generator.choice(len(GROUPS), size=n, p=(0.6, 0.37, 0.03))
    return pl.DataFrame(
        {
            "unit": [f"u{unit}" for unit in units],
            "x": values,
            "place": [GROUPS[place] for place in places],
        },
        strict=False,
    )


@dataclass(frozen=True)
class Truth:
    """The rows that a figure is about: their numbers, sorted, and how many are missing."""

    numbers: np.ndarray
    missing: int

    def quantile(self, q):
        """The least value with a share of q of the numbers at or below it; None of no number."""
        place = max(1, int(np.ceil(round(q * self.numbers.size, 9))))
        return float(self.numbers[place - 1]) if self.numbers.size else None

    def ranks(self, value, edges):
        """How many numbers lie below the buckets at a value, and how many below the end of them."""
        below = (
            edges[np.searchsorted(edges, value, "left") - 1] if (edges < value).any() else -np.inf
        )
        above = edges[np.searchsorted(edges, value, "right")] if (edges > value).any() else np.inf
        return tuple(
            0 if end == -np.inf else int(np.searchsorted(self.numbers, end, "left"))
            for end in (below, above)
        )


def number_truths(frame, unit, salt, *, by=None):
    """The truth of each group (of all rows without groups) among the rows that count with this salt."""
    values = frame["x"].drop_nulls().unique().sort().to_numpy().astype(float)
    # A bucket of its own for each value, so that its counts are the rows themselves.
    edges = np.unique(np.concatenate([values, np.nextafter(values, np.inf)]))
    grouped = {} if by is None else {"by": by, "domain": list(GROUPS)}
    if by is not None and unit.column is not None:
        grouped["groups_per_unit"] = 1
    question = prepare_numbers(
        open_source(frame, csv=CsvFormat(), name=None),
        unit,
        column="x",
        grid=BucketGrid(edges=edges),
        salt=salt,
        **grouped,
    )
    # Rows without a number are in no bucket: they are counted where clipped numbers are added up.
    ends = [StepRange(low=0, high=1, step=Fraction(1))] * max(1, len(question.groups))
    return [
        Truth(np.repeat(edges, counts.counts[1:]), total.missing)
        for counts, total in zip(question.run(), question.totals(ends), strict=True)
    ]


def check_kept(truths, frame, unit, counts):
    """Raise unless the truths are about as many rows as count, and lie in the buckets that the release reads."""
    if unit.max_rows is not None and len(truths) == 1:
        sizes = frame.group_by("unit").len()["len"].to_numpy()
        assert truths[0].numbers.size + truths[0].missing == np.minimum(sizes, unit.max_rows).sum()
    for truth, found in zip(truths, counts, strict=True):
        again = BucketCounts.of(truth.numbers, grid=found.grid)
        assert np.array_equal(again.counts, found.counts)
