"""What units count as in groups within one clip: what a reference in whole numbers says, in every engine."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import psycopg
import pyarrow as pa
import pytest

from sordino.columns import StepRange
from sordino.errors import InvalidParameter
from sordino.questions import PrivacyUnit, prepare_numbers
from sordino.sources import open_source
from sordino.sources.sql.person_query import ROW_LIMIT
from support.number_states import GRIDS, SALT
from support.postgres import database

CAP = 10**6
ENDS = (Fraction(-CAP), Fraction(CAP))
STEP = Fraction(1, 1 << 42)
GROUPS = ["p", "q", "r"]
ODD = [None, math.nan, -math.inf, -1.5, 0.25, 0.1, 5e-324, 3e7, math.inf]
CLIP = StepRange(low=-(1 << 20), high=1 << 20, step=Fraction(3, 1) / 3 / (1 << 19))
"""Up to 2."""


def question(source, aggregate="sum", ends=ENDS, **options):
    return prepare_numbers(
        open_source(source),
        PrivacyUnit("who"),
        **{"column": "x", "grid": GRIDS["one edge"], "salt": SALT, "row_cap": CAP} | options,
        by="g",
        domain=GROUPS,
        per_person=aggregate,
        shared_ends=ends,
    )


def frame_of(rows, kind=pl.Float64):
    who, group, x = zip(*rows, strict=True)
    return pl.DataFrame({"who": who, "g": group, "x": pl.Series(x, dtype=kind, strict=False)})


def steps_of(number, step):
    if number in (math.inf, -math.inf):
        return ROW_LIMIT if number > 0 else -ROW_LIMIT
    return max(-ROW_LIMIT, min(ROW_LIMIT, math.floor(Fraction(number) / step)))


def real(whole, step):
    """A float of a number of steps: rounded, then times or by one float."""
    if step.denominator & (step.denominator - 1) == 0:
        return float(whole) * float(step)
    return float(whole) / float(1 / step)


def add_up(rows, aggregate="sum", ends=ENDS, step=STEP):
    """The parts of each unit in each group, in whole steps, and what they are in all groups."""
    parts = defaultdict(dict)
    for who, group, x in rows:
        if group in GROUPS and who is not None and x is not None and x == x:
            more = 1 if aggregate == "count" else steps_of(x, step)
            parts[who][group] = parts[who].get(group, 0) + more
    low, high = (math.floor(end / step) for end in ends)
    for one in parts.values():
        for group in one:
            one[group] = max(low, min(high, one[group]))
    return parts, {who: sum(map(abs, one.values())) for who, one in parts.items()}


def shares_of(rows, clip=CLIP, step=STEP, **options):
    """The rule: in proportion, and toward 0 in steps of the clip."""
    parts, wholes = add_up(rows, step=step, **options)
    end, found = float(clip.high * clip.step), Counter()
    for who, one in parts.items():
        whole = real(wholes[who], step)
        for group, part in one.items():
            share = real(part, step) if whole <= end else real(part, step) / whole * end
            found[group] += int(math.copysign(math.floor(abs(share) / float(clip.step)), share))
    return [found[group] for group in GROUPS]


@pytest.fixture(scope="module")
def server():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shared CASCADE")
        connection.execute("CREATE SCHEMA shared")
        yield connection
        connection.execute("DROP SCHEMA shared CASCADE")


def served(connection, frame, kind):
    connection.execute("DROP TABLE IF EXISTS shared.rows")
    connection.execute(f"CREATE TABLE shared.rows (who text, g text, x {kind})")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO shared.rows VALUES (%s, %s, %s)", frame.rows())
    return f"{database()}#shared.rows"


def odd_rows():
    """Units with every two odd numbers in one group, beside one in another; and some without a unit or a group."""
    rows = [(None, "p", 1.0), ("stray", "z", 1.0), ("stray", None, 1.0)]
    for place, (x, y) in enumerate(itertools.product(ODD, repeat=2)):
        rows += [(f"u{place}", "p", x), (f"u{place}", "p", y), (f"u{place}", "q", 0.75)]
    return rows


@pytest.mark.parametrize("engine", ["embedded", "server"])
@pytest.mark.parametrize("aggregate", ["sum", "count"])
def test_every_unit_counts_as_the_rule_says(server, engine, aggregate):
    rows = odd_rows()
    frame = frame_of(rows)
    source = frame if engine == "embedded" else served(server, frame, "double precision")
    asked = question(source, aggregate)
    step = STEP if aggregate == "sum" else Fraction(1)
    if aggregate == "sum":
        totals = asked.totals([CLIP] * 3)
        assert [one.steps for one in totals] == shares_of(rows)
    _, wholes = add_up(rows, aggregate, step=STEP)
    edge = Fraction(float(asked.grid.edges[0]))
    [counted] = asked.run()
    one = Fraction(1) if aggregate == "count" else step
    beyond = sum(whole * one >= edge for whole in wholes.values())
    assert int(counted.counts[1:].sum()) == beyond


@pytest.mark.parametrize("engine", ["embedded", "server"])
def test_decimals_are_shared_in_their_last_digit(server, engine):
    cents = [Decimal("0.10"), Decimal("-0.01"), Decimal("99999999.99"), None]
    rows = [
        (f"u{place}", group, x)
        for place, each in enumerate(itertools.product(cents, repeat=3))
        for group, x in zip(GROUPS, each, strict=True)
    ]
    frame = frame_of(rows, pl.Decimal(16, 2))
    source = frame if engine == "embedded" else served(server, frame, "numeric(16,2)")
    totals = question(source).totals([CLIP] * 3)
    assert [one.steps for one in totals] == shares_of(rows, step=Fraction(1, 100))


@pytest.mark.parametrize("ends", [ENDS, (Fraction(0), Fraction(CAP)), (Fraction(-1), Fraction(2))])
@pytest.mark.sample(3)
def test_one_unit_moves_all_groups_together_by_no_more_than_the_clip(ends):
    """A unit more, with any numbers: what the totals differ by is what it counts as alone."""
    draw = np.random.default_rng(7)
    base = [
        (f"u{n}", str(g), float(x))
        for n, g, x in zip(
            draw.integers(0, 50, 400),
            draw.choice(GROUPS, 400),
            draw.lognormal(0, 2, 400),
            strict=True,
        )
    ]
    without = [one.steps for one in question(frame_of(base), ends=ends).totals([CLIP] * 3)]
    most = 0
    for place in range(25):
        rows = int(draw.integers(1, 9))
        numbers = draw.lognormal(0, 6, rows) * draw.choice([-1, 1], rows)
        if place % 5 == 0:
            numbers[0] = draw.choice([math.inf, -math.inf, 1e300])
        one = [("new", str(draw.choice(GROUPS)), float(x)) for x in numbers]
        among = [one.steps for one in question(frame_of(base + one), ends=ends).totals([CLIP] * 3)]
        moved = [a - b for a, b in zip(among, without, strict=True)]
        assert moved == shares_of(one, ends=ends)
        most = max(most, sum(map(abs, moved)))
        assert sum(map(abs, moved)) <= CLIP.high
    assert most >= CLIP.high - 3


@pytest.mark.parametrize("engine", ["embedded", "server"])
@pytest.mark.parametrize("cap", [10**17, 10**30, 10**40, 10**300])
def test_a_cap_that_no_whole_number_reaches_leaves_sums_whole(server, engine, cap):
    """Twin: an end that no type of whole numbers holds makes floats of the sums, whose order shows."""
    big = (1 << 53) + 1
    rows = [("u", group, x) for group in GROUPS for x in (big, 1, 1)]
    frame = frame_of(rows, pl.Int64)
    source = frame if engine == "embedded" else served(server, frame, "bigint")
    ends = (Fraction(-cap), Fraction(cap))
    asked = question(source, ends=ends, row_cap=cap)
    with asked.source.backend.scan(asked.indices) as scan:
        writer = asked.rows.__self__
        parts = writer.people._write_parts(writer._write_all(0))
        answer = scan.ask(
            f"SELECT CAST(part AS {'VARCHAR' if engine == 'embedded' else 'text'}) AS part FROM {parts} AS p",
            GROUPS,
        )
    assert answer["part"].tolist() == [str(big + 2)] * 3


@pytest.mark.parametrize("engine", ["embedded", "server"])
def test_a_unit_far_beyond_a_tiny_clip_ends_nothing_and_counts_for_no_more(server, engine):
    rows = [("new", group, 1e199) for group in GROUPS] + [("u", "p", 0.0)]
    frame = frame_of(rows)
    source = frame if engine == "embedded" else served(server, frame, "double precision")
    for exponent in (-440, -880):
        clip = StepRange(low=0, high=(1 << 31) + 11, step=Fraction(2) ** exponent)
        asked = question(source, ends=(Fraction(0), Fraction(10**200)), row_cap=10**200)
        steps = [one.steps for one in asked.totals([clip] * 3)]
        assert clip.high - 3 <= sum(steps) <= clip.high


def test_clips_that_differ_are_refused():
    asked = question(frame_of([("u", "p", 1.0)]))
    other = StepRange(low=0, high=5, step=CLIP.step)
    with pytest.raises(InvalidParameter, match="one and the same for all groups"):
        asked.totals([CLIP, CLIP, other])


def crowd(extra, shuffle=False):
    draw = np.random.default_rng(5)
    count = 200_000
    table = pa.table(
        {
            "who": ["other"] * extra + (draw.integers(0, 7, count).astype(str)).tolist(),
            "g": ["p"] * extra + draw.choice(GROUPS, count).tolist(),
            "x": [1e9] * extra + draw.lognormal(0, 6, count).tolist(),
        }
    )
    return table.take(draw.permutation(table.num_rows)) if shuffle else table


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_rows_of_somebody_else_and_threads_leave_everybody_as_they_are(threads, monkeypatch):
    from sordino.sources import engine

    begin = engine.Engine.__init__

    def with_threads(self, *given, **named):
        begin(self, *given, **named)
        self.connection.execute(f"SET threads = {threads}")

    clip = StepRange(low=0, high=1 << 32, step=Fraction(1, 1 << 8))
    ends = (Fraction(0), Fraction(10**12))

    def read(table):
        asked = question(table, ends=ends, row_cap=10**12)
        return [one.steps for one in asked.totals([clip] * 3)]

    alone = read(crowd(0))
    monkeypatch.setattr(engine.Engine, "__init__", with_threads)
    assert read(crowd(0, shuffle=True)) == alone
    more = read(crowd(3))
    assert [a - b for a, b in zip(more, alone, strict=True)] == [clip.high, 0, 0]
