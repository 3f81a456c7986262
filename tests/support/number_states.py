"""Numbers at and beside every edge, and what a source must say of them: what their array says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sordino.columns import BucketCounts, BucketGrid, StepRange
from sordino.columns.bucket_sums import BucketSums, SumSteps
from sordino.columns.clipped_steps import clipped_moments, clipped_steps
from sordino.questions import PrivacyUnit, prepare_numbers
from sordino.sources import open_source
from sordino.sources.sql.step_query import Addends

SALT = b"0123456789abcdef"
GEOMETRIC = BucketGrid.geometric
GRIDS = {
    "from 0": GEOMETRIC(lower=0, cap=1e4, growth=1.05),
    "signed": GEOMETRIC(lower=None, cap=1e20, growth=1.5, unit=0.25),
    "from -17.3": GEOMETRIC(lower=-17.3, cap=99.7, growth=1.3, unit=0.1),
    "far away": GEOMETRIC(lower=1e17, cap=1e17 + 5000, growth=1.1),
    "one edge": BucketGrid(edges=np.array([3.0])),
    "made up": BucketGrid(edges=np.array([-1e300, -2.5, 0.0, 0.1, 7.0, 7.5, 2.0**63, 1e300])),
    "fine": GEOMETRIC(lower=0, cap=1e6, growth=1.001),
    "cut": GEOMETRIC(lower=0, cap=1e4, growth=1.05, cuts=16),
    "cut, signed": GEOMETRIC(lower=None, cap=1e6, growth=1.5, unit=0.25, cuts=8),
    # Parts of a step that has no length differ from it by rounding, and a cap of 0 is a cap.
    "cut, 19.99": GEOMETRIC(lower=None, cap=19.99, growth=1.05, unit=0.01, cuts=16),
    "cut, up to 0": GEOMETRIC(lower=-100, cap=0, growth=1.05, cuts=16),
    "cut, whole": GEOMETRIC(lower=-3, cap=5000, growth=1.1, whole=True, cuts=4),
}
STEPS = [
    StepRange(low=5, high=9, step=Fraction(1, 2)),
    StepRange(low=0, high=40, step=Fraction(1, 4)),
    StepRange(low=-7, high=1000, step=Fraction(8)),
    StepRange(low=-(1 << 52), high=1 << 52, step=Fraction(1, 1 << 20)),
    StepRange(low=-3, high=3, step=Fraction(1 << 62)),
    StepRange(low=-3, high=3, step=Fraction(1, 1 << 70)),
]


def floats(grid):
    """Every edge with both its neighbours, and whatever else a float can be."""
    edges = grid.edges if grid.size < 200 else grid.edges[:: grid.size // 100]
    near = [
        edge
        for e in edges.tolist()
        for edge in (np.nextafter(e, -np.inf), e, np.nextafter(e, np.inf))
    ]
    odd = [
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        1.7976931348623157e308,
        -1.7976931348623157e308,
        np.inf,
        -np.inf,
        np.nan,
        None,
        -0.25,
        -8.0,
    ]
    return [None if value is None else float(value) for value in near + odd]


def wholes(grid, low, high):
    near = {
        int(e) + d for e in grid.edges[:: max(1, grid.size // 50)].tolist() for d in (-1, 0, 1, 2)
    }
    odd = {low, low + 1, high - 1, high, -1, 0, 1, (1 << 53) + 1, -(1 << 53) - 1, 12345}
    return [value for value in sorted(near | odd) if low <= value <= high] + [None]


def ladder_of(grid):
    """The ladder of a column with these buckets, with limits between edges; None for edges that no clip has."""
    made = dict(grid.recipe)
    if made:
        signed = made["lower"] is None
        lower = -made["cap"] / 3 if signed else made["lower"]
        return SumSteps.within(grid, lower, made["cap"], signed=signed)
    return (
        SumSteps.within(grid, Fraction(-17), Fraction(3), signed=False) if grid.size == 1 else None
    )


def state(sums):
    """Everything that sums of buckets hold."""
    arrays = (sums.group, sums.bucket, sums.count, sums.missing)
    return [list(map(int, one)) for one in (*arrays, sums.total)]


def asked(source, grid, **options):
    return prepare_numbers(
        open_source(source),
        options.pop("unit", PrivacyUnit.row()),
        **{"column": "x", "grid": grid, "salt": SALT} | options,
    )


def agrees(source, values, grid):
    """The state and the sums of a source are those of the values in an array, in Python's own exact arithmetic."""
    question = asked(source, grid)
    listed = np.array(values, dtype=object)
    assert question.run() == (BucketCounts.of(listed, grid=grid),)
    ladder = ladder_of(grid)
    if ladder is not None:
        assert state(asked(source, grid, ladder=ladder).sums()) == state(
            BucketSums.of(listed, ladder)
        )
    with question.source.backend.scan(question.indices) as scan:  # one engine for all clips
        for clip in STEPS:
            narrow = clip.high - clip.low < 1 << 32
            answer = scan.ask(
                question.dialect.steps(
                    question.kind, Addends([clip], question.rows(0), grouped=False, squares=narrow)
                )
            )
            total, known = int(answer["total"][0]), int(answer["known"][0])
            assert known == sum(value is not None and value == value for value in values)
            expected = clipped_steps(listed, clip.low, clip.high, clip.step, missing=clip.low)
            assert total + clip.low * (len(values) - known) == expected, clip
            if narrow:
                moments = clipped_moments(listed, clip.low, clip.high, clip.step)
                assert (known, total - known * clip.low) == (moments.known, moments.first), clip
                assert int(answer["squares"][0]) == moments.second, clip
