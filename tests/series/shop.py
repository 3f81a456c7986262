"""A shop with a table of its orders, an account with a budget for each day, and series of it that are declared.

Epsilons are so large that noise is 0 but for a chance below 1e-8: figures are then exactly what was counted.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path

import polars as pl

import sordino as sd
from sordino.ledger import Ledger, read_parts
from sordino.series import Series
from sordino.series.totals import RunningTotals

FIRST = dt.date(2026, 1, 29)
PRODUCTS = ("tea", "coffee", "cocoa")
UNIT = sd.PrivacyUnit(["customer", "day(ordered_at)"], max_rows=2)
LARGE = 200
COUNT = {"release": '"count"', "epsilon": LARGE, "first": '"2026-01-29"'}
ITEMS = '["tea", "coffee", "cocoa"]'


def make_rows(days=8, seed=5, first=FIRST, most=6):
    """Return customer, time and product of orders; some are of nobody, some of no day."""
    draw = random.Random(seed)
    rows = []
    for step in range(days):
        for customer in range(12):
            for _ in range(draw.randrange(most)):
                at = dt.datetime.combine(first, dt.time(draw.randrange(24), draw.randrange(60)))
                at += dt.timedelta(step)
                who = None if draw.random() < 0.05 else f"c{customer}"
                rows.append((who, None if draw.random() < 0.05 else at, draw.choice(PRODUCTS)))
    return rows


def write(folder, rows):
    frame = pl.DataFrame(
        rows,
        schema={"customer": pl.String, "ordered_at": pl.Datetime("us"), "product": pl.String},
        orient="row",
    )
    # Written beside it and moved, as a job would: who reads has one table or the other.
    frame.write_parquet(folder / "new")
    (folder / "new").replace(folder / "orders.parquet")


def count_until(rows, day, keep=lambda _row: True, most=2):
    """Return how many rows count until a day: at most so many of each customer on each day."""
    held = Counter(
        (who, at.date()) for who, at, item in rows if who and at and keep((who, at, item))
    )
    return sum(min(most, many) for (_, on), many in held.items() if on <= day)


class Shop:
    """The folder of a shop, and what is declared and kept there."""

    def __init__(
        self, folder: Path, rows=None, *, budget=None, parts="day", ledger=None, unit=UNIT
    ):
        self.folder, self.parts, self.unit = folder, parts, unit
        folder.mkdir(exist_ok=True)
        self.ledger = str(folder / "budget.db") if ledger is None else ledger
        self.named = "budget.db" if ledger is None else ledger
        self.rows = make_rows() if rows is None else rows
        write(folder, self.rows)
        self.account = Ledger.create(
            self.ledger,
            account="orders",
            budget=sd.Budget(epsilon=1000) if budget is None else budget,
            adjacency="add-remove",
            unit=unit,
            source="name:orders",
            parts=parts,
        )

    def declare(self, *, table="", **series):
        """Write sordino.toml; each series is a mapping of what is said of it, as TOML."""
        person = ", ".join(f"'{one}'" for one in self.unit.column)
        said = [
            "[table.orders]",
            'source = "orders.parquet"',
            f"person = [{person}]",
            *([] if "max_rows" in table else [f"max_rows = {self.unit.max_rows}"]),
            f'account = {{ledger = "{self.named}", name = "orders"}}',
            table,
        ]
        for name, one in series.items():
            said += [f"[series.{name}]"]
            said += [f"{key} = {value}" for key, value in ({"table": '"orders"'} | one).items()]
        (self.folder / "sordino.toml").write_text("\n".join(said) + "\n", encoding="utf-8")

    def open(self, name="visits"):
        return Series(name, self.folder / "sordino.toml")

    def started(self, name="visits", **more):
        self.declare(**{name: COUNT | more})
        found = self.open(name)
        found.start()
        return found


def totals_of(series, state):
    return RunningTotals(first=series.first, cut=series.cut, levels=series.levels, kept=state.kept)


def number(day):
    return read_parts(str(day), "day").low


def charges_of(series):
    """Return the charges of a series by the period and the day that they name."""
    lines = Ledger.open(series.declared.table.ledger, account=series.account).statement().charges
    return [(line.detail.get("period"), line) for line in lines]


def sums_of_parts(series, over):
    """Return the charged sum of each part, added up here from the charges."""
    sums = Counter()
    for _, line in charges_of(series):
        for text in line.parts or ():
            found = read_parts(text, series.cut)
            for part in range(found.low, found.high + 1):
                sums[part] += line.charged
    return [sums[part] for part in over]
