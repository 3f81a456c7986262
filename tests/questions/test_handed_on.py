"""Numbers over a grid that is cut pass by as a stream: no row of another person, thread, spill or piece moves a bit of what is counted."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino import BucketGrid
from sordino.errors import DataSourceError
from sordino.questions import PrivacyUnit, number_question, prepare_numbers
from sordino.sources import engine, open_source
from sordino.sources.memory import NO_LIMITS, Limits
from sordino.sources.number_stream import read_columns
from sordino.sources.sql import fine_query
from support.number_states import SALT

GRID = BucketGrid.geometric(lower=None, cap=1e12, growth=1.01, unit=1e-3, cuts=64)
PEOPLE, CROWD = 10_000, 300_000
"""How many people there are; of a crowd the numbers do not fit into little memory."""
FIGURES = {
    "rows": {"unit": PrivacyUnit("who", max_rows=9)},
    "some rows": {"unit": PrivacyUnit("who", max_rows=2)},
    **{name: {"per_person": name} for name in ("sum", "mean", "min", "max")},
}
"""What is counted: rows, or one number of each person."""
OTHER = [1e12 + 7, -0.1, 5e-324, float("nan"), None, float("inf"), -1e300]
"""What another person may have in a row."""


@dataclass(frozen=True)
class Way:
    """How the numbers come, of which nothing may show.

    Parameters
    ----------
    threads : int
        Of the engine.
    piece : int
        So many numbers pass by together, with pieces of none between them; 0: as they come.
    chunk : int
        So many rows of the table stand together.
    stored : bool
        Whether it is a file.
    others : tuple
        The rows of somebody else.
    limits : Limits
        Of memory.
    """

    threads: int = 1
    piece: int = 0
    chunk: int = 1 << 30
    stored: bool = False
    others: tuple[float | None, ...] = ()
    limits: Limits = NO_LIMITS


def draw_way(seed, limits=NO_LIMITS):
    rng = Random(seed)
    return Way(
        threads=rng.randrange(1, 9),
        piece=rng.choice((0, 100, 2048, 30_001)),
        chunk=rng.choice((500, 2048, 122_880, 1 << 30)),
        stored=rng.random() < 0.5,
        others=tuple(rng.choices(OTHER, k=rng.randrange(1, 8))),
        limits=limits,
    )


@cache
def make_table(people, others):
    """Return people with six floats, which add up to 0 where none is missing, and somebody else's rows among theirs.

    In floats what they add up to hangs on their order, on either side of an edge.
    """
    draw = np.random.default_rng(5)
    # Parts of 2^-20, of which floats as large as these cannot hold every sum.
    half = np.ldexp(np.rint(np.ldexp(draw.lognormal(0, 6, 3 * people), 20)), -20)
    order = draw.permutation(6 * people)
    owner = np.tile(np.arange(people), 6)[order]
    missing = draw.random(6 * people) < 0.05
    x = pa.array(np.concatenate([half, -half])[order], mask=missing)
    rows = pa.table({"who": pa.array(owner).cast(pa.string()), "x": x})
    beside = {"who": pa.array(["other"] * len(others), pa.string()), "x": pa.array(others, "f8")}
    third = rows.num_rows // 3
    return pa.concat_tables([rows[:third], pa.table(beside), rows[third:]]).combine_chunks()


@contextmanager
def running(way):
    """Let engines have so many threads, and numbers pass by in pieces."""
    begin = engine.Engine.__init__

    def with_threads(self, *given, **named):
        begin(self, *given, **named)
        self.connection.execute(f"SET threads = {way.threads}")

    def cut(made, formats):
        for columns in read_columns(made, formats):
            yield [one.cut(0, 0) for one in columns]
            for start in range(0, len(columns[0].values), way.piece):
                stop = min(start + way.piece, len(columns[0].values))
                yield [one.cut(start, stop) for one in columns]

    with (
        patch.object(engine.Engine, "__init__", with_threads),
        patch.object(fine_query, "read_columns", cut if way.piece else read_columns),
    ):
        yield


def count(figure, people, way, folder=None):
    """Return how many numbers are in each bucket, which passed by as a stream."""
    table = make_table(people, way.others)
    if way.stored:
        path = folder / "rows.parquet"
        pq.write_table(table, path, row_group_size=way.chunk)
        table = path
    else:
        table = pa.Table.from_batches(table.to_batches(max_chunksize=way.chunk))
    opened = open_source(table)
    opened = replace(opened, backend=replace(opened.backend, limits=way.limits))
    asked = {"unit": PrivacyUnit("who"), "row_cap": 10**12} | FIGURES[figure]
    question = prepare_numbers(opened, column="x", grid=GRID, salt=SALT, **asked)
    read: list[object] = []

    def read_pieces(made, formats):
        read.append(made)
        return passing(made, formats)

    with running(way):
        passing = fine_query.read_columns
        with patch.object(fine_query, "read_columns", read_pieces):
            [found] = question.run()
    assert read, "another way of counting was taken"
    return found.counts


@cache
def count_alone(figure, people, twin=None):
    """Return what is counted with one thread, of nobody else's rows, all at once."""
    return count(figure, people, Way())


def differ(figure, people, ways, folder, twin=None):
    """Return the ways in which anybody's number is in another bucket."""
    alone = count_alone(figure, people, twin)
    return [
        way
        for way in ways
        if (
            count(figure, people, way, folder) - count(figure, 0, Way(others=way.others)) != alone
        ).any()
    ]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sample(10)
def test_nobody_and_nothing_else_moves_what_is_counted(seed, tmp_path):
    way = draw_way(seed)
    for figure in FIGURES:
        assert not differ(figure, PEOPLE, [way], tmp_path), figure


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.slow
def test_what_does_not_fit_in_memory_is_counted_as_well(figure, tmp_path):
    # All rows of a person are together where some are chosen: so much is needed at least.
    little = (160 if figure == "some rows" else 90) << 20
    ways = [draw_way(seed, Limits(memory=little)) for seed in (1, 5)]
    assert not differ(figure, CROWD, ways, tmp_path)
    # It did not fit: where nothing may be written the release ends.
    unwritten = replace(ways[0], limits=Limits(memory=little, temp=1 << 20))
    with pytest.raises(DataSourceError):
        count(figure, CROWD, unwritten, tmp_path)


def _sum_floats(self, rows, *, grouped):
    return f"(SELECT CAST(sum(x) AS DOUBLE) AS x FROM {rows} AS kept GROUP BY unit)"


def _count_once(counts, block, grid):
    counts[np.unique(np.searchsorted(grid.edges, block, "right"))] += 1


def _end_early(pieces):
    for piece in pieces:
        if not len(piece[0].values):
            return
        yield piece


TWINS = {
    "the engine adds up floats": (number_question.People, "write_one", _sum_floats),
    "numbers of one piece count once": (fine_query, "add_floats", _count_once),
    "a piece of none is the last": (fine_query, "read_ahead", _end_early),
}


@pytest.mark.parametrize("twin", TWINS)
def test_twins_are_convicted(twin, tmp_path):
    with patch.object(*TWINS[twin]):
        assert differ("sum", PEOPLE, [draw_way(seed) for seed in range(8)], tmp_path, twin)
