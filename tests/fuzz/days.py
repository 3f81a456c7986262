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
NEIGHBORS = 40  # of one table
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
class Base:
    """A table that has neighbors: its rows, and how it is written and asked."""

    rows: list[Row]
    days: int
    most: int
    form: str
    asks: list[str]


def make_row(draw: random.Random, days: int, who: str | None = None, day: int | None = None) -> Row:
    on = FIRST + dt.timedelta(draw.randrange(days) if day is None else day)
    hour = draw.choice([dt.time(0), LAST_MICROSECOND, dt.time(draw.randrange(24), 30)])
    at = None if who is None and draw.random() < 0.1 else dt.datetime.combine(on, hour)
    name = who or draw.choice([None, *(f"c{n}" for n in range(12))])
    price = draw.choice([None, -1.0, float("nan"), 1e300, *(n / 4 for n in range(40))])
    return name, at, draw.choice([None, *ITEMS]), price


def make_base(draw: random.Random) -> Base:
    days = draw.randrange(2, 9)
    rows = [make_row(draw, days) for _ in range(draw.randrange(1, 80))]
    form = draw.choice(["frame", "frame", "parquet", "csv"])
    return Base(rows, days, draw.randrange(1, 4), form, draw.sample([*ASK], 3))


def make_neighbor(draw: random.Random, base: Base) -> tuple[list[Row], int]:
    """Return rows in which one person on one day leaves, comes, or does something else, and the day."""
    day, who = draw.randrange(base.days), f"c{draw.randrange(14)}"
    on = FIRST + dt.timedelta(day)
    rest = [row for row in base.rows if not (row[0] == who and row[1] and row[1].date() == on)]
    many = draw.choice([0, 1, 3, 40] if len(rest) < len(base.rows) else [1, 1, 3, 40])
    others = rest + [make_row(draw, base.days, who, day) for _ in range(many)]
    if draw.random() < 0.5:
        draw.shuffle(others)
    return others, day


def write(rows: list[Row], path: Path, form: str) -> Any:
    frame = pl.DataFrame(rows, schema=KINDS, orient="row")
    if form == "frame":
        return frame
    (frame.write_parquet if form == "parquet" else frame.write_csv)(path)
    return str(path)


def list_ranges(draw: random.Random, days: int, day: int) -> Iterator[str]:
    """Yield ranges of days without the one in which the tables differ: all before it, all after it or any other."""
    sides = [(-1, day - 1), (day + 1, days)]
    low, high = sorted(draw.randrange(-1, days + 1) for _ in range(2))
    if draw.random() < 0.2 and not low <= day <= high:
        sides.append((low, high))
    # A side may be a single day without rows, beside all of them.
    for low, high in draw.sample(sides, 1 if draw.random() < 0.7 else 2):
        names = [(FIRST + dt.timedelta(one)).isoformat() for one in (low, high)]
        yield f"{names[0]}..{names[1]}"
    if draw.random() < 0.1:
        month = draw.choice([*({1, 2, 3, 4} - {(FIRST + dt.timedelta(day)).month})])
        yield f"2024-{month:02}"


def release(source: Any, most: int, part: str | None, name: str, seed: int) -> str:
    """Return all that is released, or the kind of error before anything is."""
    unit = sd.PrivacyUnit(["who", "day(at)"], max_rows=most)
    types = {"who": "text", "at": "timestamp", "item": "text", "price": "double"}
    csv = {"csv": sd.CsvFormat(types=types)} if str(source).endswith(".csv") else {}
    session = sd.Session(source, unit=unit, part=part, entropy=sd.Seeded(seed), **csv)
    said = ASK[name](session, 1).to_dict()
    # Which file it is of is no figure.
    return json.dumps(said, sort_keys=True, default=str).replace("other.", "one.")


def compare(
    draw: random.Random, folder: Path, neighbors: int = NEIGHBORS
) -> tuple[int, int, list[str]]:
    """Compare what is released of a table and of its neighbors; return how many neighbors, how many releases, and what differs."""
    base, done, found = make_base(draw), 0, list[str]()
    source = write(base.rows, folder / f"one.{base.form}", base.form)
    seeds, known = dict[tuple[str, str], int](), dict[tuple[str, str], str]()
    for _ in range(neighbors):
        rows, day = make_neighbor(draw, base)
        other = write(rows, folder / f"other.{base.form}", base.form)
        for part in list_ranges(draw, base.days, day):
            name = draw.choice(base.asks)
            asked = part, name
            if asked not in known:  # the table itself is asked once for all of its neighbors
                seeds[asked] = draw.randrange(1 << 30)
                known[asked] = release(source, base.most, part, name, seeds[asked])
            said = release(other, base.most, part, name, seeds[asked])
            done += 1
            if said != known[asked]:
                found.append(f"{name} of {part}, {base} and {rows}: {known[asked]} and {said}")
    return neighbors, done, found


def run(seconds: float, seed: int) -> tuple[int, int, list[str]]:
    draw, end = random.Random(seed), time.monotonic() + seconds
    neighbors, done, found = 0, 0, list[str]()
    with tempfile.TemporaryDirectory(prefix="days-") as name:
        while time.monotonic() < end and not found:
            seen, more, differing = compare(draw, Path(name))
            neighbors, done, found = neighbors + seen, done + more, found + differing
    return neighbors, done, found


if __name__ == "__main__":
    number = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 30)
    many, releases, differing = run(float(sys.argv[1]), number)
    print(
        f"{many:,} neighbors, {releases:,} releases of other days compared, seed {number}; {len(differing)} differ"
    )
    sys.exit("\n".join(differing) or 0)
