"""Sums of buckets: exact, the same whatever holds the records, within the ends of each clip, and moved by one unit by no more than is charged."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino import BucketCounts, ClippedMean, ClippedSum
from sordino.columns.bucket_sums import BucketSums, SumSteps
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP


def column(estimator=ClippedSum, adjacency="add-remove", **changed):
    return estimator(
        **{"epsilon": 2, "adjacency": adjacency, "cap": 8, "lower": 0, "growth": 1.3} | changed
    )


SUBJECTS = {
    "from 0": column(),
    "one distance": column(lower=None),
    "both sides": column(adjacency="replace-one", lower=None),
    "lower inside": column(lower=-3, cap=100, growth=2),
    "cap inside": column(adjacency="replace-one", lower=-100, cap=3.7, growth=1.5),
    "from 5": column(ClippedMean, lower=5, cap=90),
    "far away": column(ClippedMean, lower=1e17, cap=1e17 + 5000, growth=1.1),
    "wide": column(lower=None, cap=1e30, unit=1e-20, growth=3),
    "wide from 0": column(cap=1e200, unit=1e-90, growth=7),
    "fine": column(cap=1e5, growth=1.001),
}
each = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))


def counted(x, ladder):
    """What a record counts in its bucket, exactly; None if it is missing."""
    if x is None or x != x:
        return None
    rung = ladder.rungs[bisect_right([one.start for one in ladder.rungs], bucket_of(x, ladder)) - 1]
    if abs(x) == math.inf:
        return (rung.high if x > 0 else rung.low) * rung.step
    return max(rung.low, min(rung.high, math.floor(Fraction(x) / rung.step))) * rung.step


def bucket_of(x, ladder):
    edges = ladder.grid.edges.tolist()
    return bisect_right(edges, x)


def within(x, clip, ladder):
    """What a record counts within a clip: its own, or the end that it lies beyond."""
    own, (first, last) = counted(x, ladder), clip.inside
    if own is None:
        return Fraction(0)
    bucket = bucket_of(x, ladder)
    if first <= bucket <= last:
        return own
    return (clip.low if bucket < first else clip.most) * clip.step


def all_clips(search, most=40):
    longest = search.grid.size if search.sides == "above" else search.grid.size // 2
    tests = [
        *{*range(1, min(longest, 4) + 1), *range(1, longest + 1, max(1, longest // 7)), longest},
        None,
    ]
    sides = 2 if search.sides == "both" else 1
    found = list(itertools.product(tests, repeat=sides))
    return [search.clip(one, simulated=True) for one in found[:: max(1, len(found) // most)]]


def near_edges(grid, most=15):
    edges = grid.edges[:: max(1, grid.size // most)].tolist()
    return [float(y) for e in edges for y in (np.nextafter(e, -np.inf), e, np.nextafter(e, np.inf))]


ODD = [0.0, -0.0, 5e-324, -5e-324, 0.1, -0.1, 2.7, 1e17 + 64, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan, None]  # fmt: skip


@each
def test_steps_divide_those_of_every_clip_that_holds_the_bucket(subject):
    ladder = subject.search.ladder
    assert ladder.rungs[0].start == 0
    for rung in ladder.rungs:
        assert -CLAMP <= rung.low <= rung.high <= CLAMP
    for clip in all_clips(subject.search):
        first, last = clip.inside
        own = [2.0 ** int(e) for e in ladder.exponents[first : last + 1]]
        assert first <= last
        assert max(own) <= clip.step
        assert clip.bottom <= clip.low < clip.high <= clip.top <= clip.high + 1
        assert clip.low - clip.bottom in (0, 1)


@each
@pytest.mark.sample(4)
def test_the_sum_within_every_clip_is_exact_and_rounded_down_once(subject):
    ladder = subject.search.ladder
    values = [*near_edges(ladder.grid), *ODD]
    clips = all_clips(subject.search)
    for held in (
        values,
        np.array([math.nan if x is None else x for x in values]),
        np.array(values, dtype=object),
        [*values, Decimal("2.5")],
    ):
        sums = BucketSums.of(held, ladder)
        more = Fraction(0) if len(held) == len(values) else None
        for clip in clips:
            extra = within(Decimal("2.5"), clip, ladder) if more is None else more
            wanted = sum((within(x, clip, ladder) for x in values), extra)
            assert sums.add_up([clip]) == [math.floor(wanted / clip.step)]
        missing = sum(x is None or x != x for x in values)
        assert (sums.missing.tolist(), sums.known().tolist()) == ([missing], [len(held) - missing])


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8, np.float32, bool])
def test_arrays_of_every_kind_add_up_alike(dtype):
    ladder = SUBJECTS["lower inside"].search.ladder
    raw = [0, 1, 3, 7, 100] if dtype in (bool, np.uint64) else [-128, -3, -1, 0, 1, 5, 127]
    held = np.array(raw, dtype=dtype)
    sums, listed = BucketSums.of(held, ladder), BucketSums.of(held.astype(object).tolist(), ladder)
    for clip in all_clips(SUBJECTS["lower inside"].search):
        assert sums.add_up([clip]) == listed.add_up([clip])


@each
def test_a_record_counts_no_more_than_the_ends_and_no_more_than_it_is(subject):
    ladder = subject.search.ladder
    for clip in all_clips(subject.search):
        for x in [*near_edges(ladder.grid), *ODD]:
            found = within(x, clip, ladder)
            if counted(x, ladder) is None:
                continue
            assert clip.bottom * clip.step <= found <= clip.top * clip.step
            if subject.search.sides == "above" and float(subject.search.lower) <= x < math.inf:
                assert found <= Fraction(x)


def test_a_sum_that_is_rounded_down_moves_by_whole_numbers_between_those_of_a_unit():
    """floor(a + b) - floor(a) is in [p, q] for whole p <= b <= q: nothing is added for the rounding."""
    parts = [Fraction(n, 7) for n in range(-21, 22)]
    for a, b in itertools.product(parts, parts):
        assert math.floor(b) <= math.floor(a + b) - math.floor(a) <= math.ceil(b)


def moves(subject, clip, base, one, other):
    """How far the totals of two data sets are apart."""
    pair = (totals_of(subject, clip, (*base, *unit)) for unit in (one, other))
    return [abs(x - y) for x, y in zip(*pair, strict=True)]


@cache
def totals_of(subject, clip, values):
    return subject.totals(list(values), clip)


GROWTH = {"cap": 8, "growth": 1.3, "unit": 1}
CASES = [
    column(**GROWTH),
    column(**GROWTH, rows_per_unit=2),
    column(lower=None, **GROWTH),
    column(adjacency="replace-one", lower=None, **GROWTH),
    column(ClippedMean, **GROWTH),
    column(ClippedMean, lower=None, **GROWTH, rows_per_unit=2),
    column(ClippedMean, "replace-one", **GROWTH),
    column(ClippedMean, "replace-one", **GROWTH, size_is_public=True),
    column(ClippedMean, "replace-one", lower=None, **GROWTH, rows_per_unit=2),
]


def hostile(clip, ladder):
    """Records that lie next to the ends, and bases whose sums have every fraction of a step."""
    first, last = clip.inside
    edges = ladder.grid.edges
    ends = [float(np.nextafter(edges[last], -np.inf)), float(edges[last])]
    ends += (
        [float(edges[first - 1]), float(np.nextafter(edges[first - 1], -np.inf))]
        if first
        else [0.0]
    )
    units = [*ends, None, -1e9, 1e9, 0.3]
    fine = float(min(rung.step for rung in ladder.rungs))
    bases = [
        (),
        (fine,),
        (float(clip.step) - fine,),
        (0.3, 0.7),
        (ends[0],) * 3,
        (0.3 + float(clip.step) / 3,),
    ]
    return units, bases


def units_of(subject, units):
    most = subject.rows_per_unit
    return [
        c for n in range(1, most + 1) for c in itertools.combinations_with_replacement(units, n)
    ]


def worst(subject, clip, moved=moves):
    units, bases = hostile(clip, subject.search.ladder)
    found = 0
    for base in bases:
        for one in units_of(subject, units):
            others = [()] if subject.adjacency == "add-remove" else units_of(subject, units)
            for other in others:
                if subject.adjacency == "replace-one" and getattr(subject, "size_is_public", False):
                    assert len(one) == len(other) == 1
                found = max(found, sum(moved(subject, clip, base, one, other)))
    return found


@pytest.mark.parametrize("subject", CASES)
@pytest.mark.sample(3)
def test_neighbours_move_the_totals_by_at_most_what_the_noise_is_made_for(subject):
    for clip in all_clips(subject.search, most=6):
        noise = subject.noise_for(clip)
        assert worst(subject, clip) <= noise.bound


# ---- broken twins -------------------------------------------------------------------------------------------------------


def test_a_bound_without_the_part_of_a_step_at_the_ends_is_convicted():
    """Records inside have finer steps than the clip: one may count up to a step more than records beyond do."""
    subject = column(**GROWTH)
    excess = [worst(subject, clip) - clip.most for clip in all_clips(subject.search)]
    assert max(excess) == 1


def test_two_totals_that_are_rounded_apart_are_convicted():
    """Each distance rounded down by itself: together they move by a step more than the width."""
    subject = column(ClippedMean, **GROWTH)
    ladder = subject.search.ladder

    def rounded_apart(subject, clip, base, one, other):
        def totals(values):
            known = [within(x, clip, ladder) / clip.step for x in values if x is not None]
            return (
                math.floor(sum(x - clip.bottom for x in known)),
                math.floor(sum(clip.top - x for x in known)),
            )

        pairs = zip(totals([*base, *one]), totals([*base, *other]), strict=True)
        return [abs(x - y) for x, y in pairs]

    clips = all_clips(subject.search, most=6)
    assert any(
        worst(subject, clip, rounded_apart) > subject.noise_for(clip).bound for clip in clips
    )


def test_steps_that_follow_the_records_are_convicted():
    """A step chosen from the largest record of a bucket: one record changes how all others are rounded."""
    subject = column(**GROWTH)
    clip = subject.search.clip((2,), simulated=True)
    ladder = subject.search.ladder

    def private(values):
        known = [within(x, clip, ladder) for x in values]
        largest = max(known, default=Fraction(1))
        step = Fraction(2) ** (math.floor(math.log2(largest)) - 3)
        return math.floor(sum(math.floor(x / step) * step for x in known) / clip.step)

    base = [0.249999] * 400
    assert abs(private([*base, 1.5]) - private(base)) > subject.noise_for(clip).bound


def test_sums_of_floats_are_convicted():
    """One record of a few steps makes a sum of floats lose more than itself, or gain it, by the order of the rows."""
    huge, small = 2.0**53, [1.0] * 64
    assert sum([huge, *small]) - sum(small) - huge == -64
    subject = column(lower=None, cap=2.0**60, growth=16, unit=1)
    ladder = subject.search.ladder
    clip = subject.search.clip((None,), simulated=True)
    values = [huge, *small, -huge]
    orders = {sum(values), sum([huge, -huge, *small])}
    assert len(orders) == 2
    exact = {
        BucketSums.of(list(order), ladder).add_up([clip])[0]
        for order in (values, [huge, -huge, *small])
    }
    assert len(exact) == 1


# ---- groups and merging -------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.floats(-20, 20) | st.none(), max_size=6), min_size=1, max_size=5))
def test_many_groups_are_what_each_is_alone(parts):
    subject = SUBJECTS["both sides"]
    ladder = subject.search.ladder
    alone = [BucketSums.of(values, ladder) for values in parts]
    together = BucketSums(
        ladder=ladder,
        group=np.concatenate(
            [np.full(one.bucket.size, place) for place, one in enumerate(alone)]
        ).astype(int),
        bucket=np.concatenate([one.bucket for one in alone]),
        count=np.concatenate([one.count for one in alone]),
        total=[total for one in alone for total in one.total],
        missing=np.concatenate([one.missing for one in alone]),
    )
    clips = all_clips(subject.search)
    chosen = [clips[place % len(clips)] for place in range(len(parts))]
    expected = [one.add_up([clip])[0] for one, clip in zip(alone, chosen, strict=True)]
    assert together.add_up(chosen) == expected
    assert together.known().tolist() == [int(one.known()[0]) for one in alone]
    assert [one.counts for one in alone] == [
        BucketCounts.of(values, grid=ladder.grid) for values in parts
    ]


def test_one_clip_for_each_group():
    subject = SUBJECTS["from 0"]
    sums = BucketSums.of([1, 2], subject.search.ladder)
    with pytest.raises(InvalidParameter, match="needs 1 clips; got 0"):
        sums.add_up([])
    assert isinstance(sums.ladder, SumSteps)
    assert "1" not in repr(sums).replace("BucketSums", "").split("BucketGrid")[
        0
    ] or "count" not in repr(sums)
