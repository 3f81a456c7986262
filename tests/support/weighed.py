"""What rows of units weigh, in whole numbers, and whether a source says the same."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import polars as pl

from sordino.columns import BucketGrid, StepRange
from sordino.questions import PrivacyUnit, prepare_numbers
from sordino.questions.totals import Weight
from sordino.sources import open_source
from support.number_states import SALT

GROUPS = ["p", "q", "r"]
ODD = [None, math.nan, -math.inf, -1.5, 0.25, 0.1, 5e-324, 3e7, math.inf]
CLIP = StepRange(low=-(1 << 18), high=1 << 19, step=Fraction(1, 1 << 18))
"""From -1 to 2."""
ROW_GRID = BucketGrid(edges=np.array([1.0, 2.0, 3.0, 5.0, 9.0]))
BUCKETS = {
    "even": BucketGrid.geometric(lower=None, cap=1000, growth=1.05),
    "from 0": BucketGrid.geometric(lower=0, cap=1e6, growth=2),
    "cut": BucketGrid.geometric(lower=0, cap=1e6, growth=1.5, cuts=16),
    "cut from below": BucketGrid.geometric(lower=None, cap=1000, growth=2, cuts=64),
    "no scale": BucketGrid(edges=np.array([-1.0, 0.1, 0.3, 7.0, 7.5])),
}
WEIGHTS = [Weight(1, 24), Weight(3, 24), Weight(2, 5), Weight(1 << 20, 17)]


def question(source, grid="even", **options):
    options = {"weigh_each": True} | options
    return prepare_numbers(
        open_source(source),
        PrivacyUnit("who"),
        **{"column": "x", "salt": SALT, "row_cap": 10**6, "by": "g", "domain": GROUPS} | options,
        squares=True,
        grid=ROW_GRID,
        weigh_grid=BUCKETS[grid],
    )


def frame_of(rows, kind=pl.Float64):
    who, group, x = zip(*rows, strict=True)
    return pl.DataFrame({"who": who, "g": group, "x": pl.Series(x, dtype=kind, strict=False)})


def numbers_of(rows, *, grouped=True):
    """The numbers of each unit with their group, whatever their type; missing ones left out."""
    found = defaultdict(list)
    for who, group, x in rows:
        listed = group in GROUPS or not grouped
        if who is not None and listed and x is not None and x == x:
            found[who].append((group, x))
    return found


def weigh(units, weight):
    """Each number with its group and weight: by the rule, in whole numbers."""
    return [
        (group, x, (1 << weight.bits) // max(weight.cap, len(numbers)))
        for numbers in units.values()
        for group, x in numbers
    ]


def bucket_of(x, grid):
    edges = [Fraction(edge) for edge in grid.edges.tolist()]
    if grid.cuts > 1:
        x = float(x)  # with so many edges all numbers are compared as floats
    if isinstance(x, float) and math.isinf(x):
        return len(edges) if x > 0 else 0
    return bisect_right(edges, Fraction(x))


def steps_of(x, clip):
    if isinstance(x, float) and math.isinf(x):
        return clip.high if x > 0 else clip.low
    return max(clip.low, min(clip.high, math.floor(Fraction(x) / clip.step)))


def agree(asked, units, weight, grid="even", clip=CLIP, groups=GROUPS):
    """Whether all readings are what the reference says."""
    [counted] = asked.run()
    sizes = Counter(bucket_of(len(numbers), ROW_GRID) for numbers in units.values())
    assert counted.counts.tolist() == [sizes[place] for place in range(ROW_GRID.size + 1)]
    weighed = weigh(units, weight)
    buckets, totals, known, squares, beyond = (Counter() for _ in range(5))
    for group, x, one in weighed:
        buckets[group, bucket_of(x, BUCKETS[grid])] += one
        totals[group] += one * steps_of(x, clip)
        known[group] += one
        beyond[group] += one * (steps_of(x, clip) == clip.high)
        squares[group] += one * (steps_of(x, clip) - clip.low) ** 2
    wanted = [
        [buckets[group, place] for place in range(BUCKETS[grid].size + 1)] for group in groups
    ]
    if not asked.weighed.each:
        wanted = [[sum(each) for each in zip(*wanted, strict=True)]]
    assert [one.counts.tolist() for one in asked.weigh(weight)] == wanted
    plain = asked.weighed_totals([clip], weight)
    found = asked.weighed_totals([clip], weight, squares=True)
    assert [one._replace(squares=0) for one in found] == list(plain)
    above = asked.weighed_totals([clip], weight, beyond=True)
    assert [one._replace(beyond=0) for one in above] == list(plain)
    assert [one.beyond for one in above] == [beyond[group] for group in groups]
    assert [one.squares for one in found] == [squares[group] for group in groups]
    assert [one.steps for one in found] == [totals[group] for group in groups]
    assert [one.known for one in found] == [known[group] for group in groups]


def odd_rows():
    """Units with any two odd numbers and more, in several groups; some rows without a unit or a group."""
    rows = [(None, "p", 1.0), ("stray", "z", 1.0), ("stray", None, 1.0), ("empty", "p", None)]
    for place, (x, y) in enumerate(itertools.product(ODD, repeat=2)):
        rows += [(f"u{place}", "p", x), (f"u{place}", "p", y), (f"u{place}", "q", 0.75)]
        rows += [(f"u{place}", "r", 1.25), (f"u{place}", "z", 9.0)] * (place % 4)
    return rows
