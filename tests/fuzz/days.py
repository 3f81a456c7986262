"""Tables and neighbors that differ in one person on one day: what is released of other days is the same, to the last bit.

python -m fuzz.days SECONDS [SEED]    # from the folder of tests; says how many were compared
"""

from __future__ import annotations

import datetime as dt
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import sordino as sd

FIRST = dt.date(2024, 2, 26)
ITEMS = ["tea", "coffee", "cocoa", "milk"]
KINDS = {"who": pl.String, "at": pl.Datetime("us"), "item": pl.String, "price": pl.Float64}
LAST_MICROSECOND = dt.time(23, 59, 59, 999999)
ASK = {
    "count": lambda one, e: one.count(epsilon=e),
    "where": lambda one, e: one.count(epsilon=e, where="price > 20 or item = 'tea'"),
    "people": lambda one, e: one.count_distinct_units(epsilon=e),
    "histogram": lambda one, e: one.histogram("item", epsilon=e, domain=ITEMS),
    "top": lambda one, e: one.top_k("item", k=2, epsilon=e, domain=ITEMS),
    "unlisted": lambda one, e: one.top_k(
        "item", k=2, epsilon=e, domain=sd.Domain.unlisted(delta=1e-4)
    ),
    "hours": lambda one, e: one.histogram("hour(at)", epsilon=e),
    "sum": lambda one, e: one.sum("price", epsilon=e, lower=0),
    "mean": lambda one, e: one.mean("price", epsilon=e, lower=0, per_person="sum"),
    "quantile": lambda one, e: one.quantile("price", q=0.5, epsilon=e, lower=0, cap=100),
    "above": lambda one, e: one.above("item", threshold=5, positives=2, epsilon=e, domain=ITEMS),
    "groups": lambda one, e: one.sum(
        "price", epsilon=e, lower=0, by="item", domain=ITEMS, groups_per_unit=2
    ),
}
Row = tuple[str | None, dt.datetime | None, str | None, float | None]


@dataclass(frozen=True)
class Pair:
    """A table and its neighbor, as sources; the day of the unit in which they differ."""

    one: Any
    other: Any
    day: int
    days: int
    most: int


def make_row(draw: random.Random, days: int, who: str | None = None, day: int | None = None) -> Row:
    on = FIRST + dt.timedelta(draw.randrange(days) if day is None else day)
    hour = draw.choice([dt.time(0), LAST_MICROSECOND, dt.time(draw.randrange(24), 30)])
    at = None if who is None and draw.random() < 0.1 else dt.datetime.combine(on, hour)
    name = who or draw.choice([None, *(f"c{n}" for n in range(12))])
    price = draw.choice([None, -1.0, float("nan"), 1e300, *(n / 4 for n in range(40))])
    return name, at, draw.choice([None, *ITEMS]), price


def make_pair(draw: random.Random, folder: Path) -> Pair:
    """Write a table, and one in which a person on one day leaves, comes, or does something else."""
    days = draw.randrange(2, 9)
    rows = [make_row(draw, days) for _ in range(draw.randrange(1, 80))]
    day, who = draw.randrange(days), f"c{draw.randrange(14)}"
    on = FIRST + dt.timedelta(day)
    rest = [row for row in rows if not (row[0] == who and row[1] and row[1].date() == on)]
    more = [make_row(draw, days, who, day) for _ in range(draw.choice([0, 0, 1, 3, 40]))]
    others = rest + more
    if draw.random() < 0.5:
        draw.shuffle(others)
    form = draw.choice(["frame", "frame", "parquet", "csv"])
    made = [
        write(table, folder / f"{name}.{form}", form)
        for name, table in (("one", rows), ("other", others))
    ]
    return Pair(*made, day, days, draw.randrange(1, 4))


def write(rows: list[Row], path: Path, form: str) -> Any:
    frame = pl.DataFrame(rows, schema=KINDS, orient="row")
    if form == "frame":
        return frame
    (frame.write_parquet if form == "parquet" else frame.write_csv)(path)
    return str(path)


def list_ranges(draw: random.Random, pair: Pair) -> Iterator[str]:
    """Yield ranges of days that do not hold the day in which the tables differ."""
    for _ in range(3):
        low, high = sorted(draw.randrange(-1, pair.days + 1) for _ in range(2))
        if not low <= pair.day <= high:
            names = [(FIRST + dt.timedelta(one)).isoformat() for one in (low, high)]
            yield f"{names[0]}..{names[1]}"
    for month in {1, 2, 3, 4} - {(FIRST + dt.timedelta(pair.day)).month}:
        if draw.random() < 0.2:
            yield f"2024-{month:02}"


def release(source: Any, pair: Pair, part: str | None, name: str, seed: int) -> str:
    """Return all that is released, or the kind of error before anything is."""
    unit = sd.PrivacyUnit(["who", "day(at)"], max_rows=pair.most)
    types = {"who": "text", "at": "timestamp", "item": "text", "price": "double"}
    csv = {"csv": sd.CsvFormat(types=types)} if str(source).endswith(".csv") else {}
    session = sd.Session(source, unit=unit, part=part, entropy=sd.Seeded(seed), **csv)
    said = ASK[name](session, 1).to_dict()
    # Which file it is of is no figure.
    return json.dumps(said, sort_keys=True, default=str).replace("other.", "one.")


def compare(draw: random.Random, folder: Path) -> tuple[int, list[str]]:
    """Compare what is released of a table and of its neighbor; return how often, and what differs."""
    pair, done, found = make_pair(draw, folder), 0, []
    for part in list_ranges(draw, pair):
        for name in draw.sample([*ASK], 3):
            seed = draw.randrange(1 << 30)
            one, other = (
                release(table, pair, part, name, seed) for table in (pair.one, pair.other)
            )
            done += 1
            if one != other:
                found.append(f"{name} of {part} with {pair}: {one} and {other}")
    return done, found


def run(seconds: float, seed: int) -> tuple[int, list[str]]:
    draw, end, done, found = random.Random(seed), time.monotonic() + seconds, 0, list[str]()
    with tempfile.TemporaryDirectory(prefix="days-") as name:
        while time.monotonic() < end and not found:
            more, seen = compare(draw, Path(name))
            done, found = done + more, found + seen
    return done, found


if __name__ == "__main__":
    number = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 30)
    many, differing = run(float(sys.argv[1]), number)
    print(f"{many:,} releases of other days compared, seed {number}; {len(differing)} differ")
    sys.exit("\n".join(differing) or 0)
