"""Sums of groups within one clip of what a unit adds up to: the exact law of clip and noise together, and its twins."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sordino_audit as audit
from sordino import ClippedSums, Seeded
from sordino.columns import BucketCounts
from sordino.errors import InvalidParameter
from support.clipped_laws import noise_of, stages, totals, worst_loss

ROUNDING = 1e-9
GRID = {"cap": 8, "growth": 2}
NEAR = 8 - 2**-40
SIZES = (0.0, 1.0, 2.0, 3.0, 5.0, NEAR)
UNITS = {
    0: [*product(SIZES, repeat=2), (math.nan, 3.0), (math.inf, 1.0)],
    None: [*product((-NEAR, -3.0, -1.0, 0.0, 2.0, NEAR), repeat=2), (math.nan, -3.0)],
}
BASES = [(), ((1.0, 0.0),), ((2.0, 1.0), (0.0, 3.0))]


def made(adjacency, lower, groups=2, **options):
    return ClippedSums(groups=groups, epsilon=2, adjacency=adjacency, lower=lower, **GRID | options)


def neighbours(adjacency, lower):
    """All pairs of data sets that differ in one unit, in both orders."""
    units = UNITS[lower]
    for base in BASES:
        for one in units:
            for other in [None] if adjacency == "add-remove" else units:
                if one is not other:
                    there = () if other is None else (other,)
                    yield (*base, one), base + there
                    yield base + there, (*base, one)


LINES = [(adjacency, lower) for adjacency in ("add-remove", "replace-one") for lower in (0, None)]
every_line = pytest.mark.parametrize(("adjacency", "lower"), LINES)


@every_line
@pytest.mark.sample(2)
def test_clip_and_sums_together_lose_at_most_epsilon(adjacency, lower):
    subject = made(adjacency, lower)
    worst, clip_only = worst_loss(subject, neighbours(adjacency, lower))
    assert worst <= float(subject.cost.pure()) + ROUNDING
    assert clip_only <= float(subject.search.cost.pure()) + ROUNDING
    if adjacency == "add-remove":
        assert worst > 0.98 * float(subject.cost.pure())
    else:
        # Where both units add up to as much, the search loses nothing.
        assert worst > 0.98 * float(subject.total_cost.pure())


def each_by_itself(self, values, clip):
    """Twin: a clip of the size of the shared one, in each group."""
    numbers = np.nan_to_num(self._take(values))
    steps = np.trunc(np.clip(numbers / float(clip.step), -clip.high, clip.high))
    return tuple(int(column.sum()) for column in steps.T)


def to_nearest(self, values, clip):
    """Twin: what a unit counts as is rounded to the nearest step; on a coarse grid one sees it."""
    numbers = np.nan_to_num(self._take(values))
    wholes = np.abs(numbers).sum(axis=1)
    end = float(clip.high * clip.step)
    shares = numbers * (end / np.maximum(wholes, end))[:, None]
    coarse = end / 2
    steps = np.rint(shares / coarse) * (clip.high // 2)
    return tuple(int(column.sum()) for column in steps.T)


@pytest.mark.parametrize("twin", [each_by_itself, to_nearest])
def test_a_clip_in_each_group_and_rounding_to_nearest_are_convicted(twin, monkeypatch):
    monkeypatch.setattr(ClippedSums, "totals", twin)
    totals.cache_clear()
    subject = made("add-remove", 0, groups=3)
    units = [(NEAR,) * 3, (3.0, 3.0, 2.0), (3.0, 3.0, 3.0)]
    pairs = [((unit,), ()) for unit in units] + [((), (unit,)) for unit in units]
    worst, _ = worst_loss(subject, pairs)
    totals.cache_clear()
    assert worst > float(subject.cost.pure()) + 0.1


def test_noise_for_one_unit_is_convicted_where_one_takes_the_place_of_another():
    subject, cheap = made("replace-one", 0), made("add-remove", 0)
    pairs = [(((NEAR, 0.0),), ((0.0, NEAR),))]
    right, _ = worst_loss(subject, pairs)
    assert right == pytest.approx(float(subject.total_cost.pure()), rel=0.001)
    wrong, _ = worst_loss(cheap, pairs)
    assert wrong > 1.9 * right


# ---- how far the sums move --------------------------------------------------------------------------------


def clip_of(subject, tests=3):
    return subject.search.clip((tests,), simulated=True)


@pytest.mark.parametrize("lower", [0, None])
def test_no_unit_moves_the_sums_by_more_than_the_clip(lower):
    """Of many sizes, in up to forty groups; a unit at the clip moves them by all of it."""
    draw = np.random.default_rng(3)
    for groups in (1, 2, 3, 40):
        subject = made("add-remove", lower, groups=groups)
        clip = clip_of(subject)
        units = draw.lognormal(0, 3, (4000, groups))
        if lower is None:
            units *= draw.choice([-1, 1], units.shape)
        units[:, draw.integers(0, groups)] = draw.choice([math.inf, math.nan, 0.1, 1e300], 4000)
        moved = [sum(map(abs, subject.totals([unit], clip))) for unit in units.tolist()]
        assert max(moved) <= clip.high
        assert max(moved) >= clip.high - groups
        alone = [math.inf] + [0.0] * (groups - 1)
        assert subject.totals([alone], clip)[0] == clip.high


def test_a_unit_far_beyond_a_tiny_clip_counts_for_no_more_than_it():
    """Twin: the clip over what it has is a quotient without digits, and it counts twice."""
    subject = ClippedSums(
        groups=2,
        epsilon=1,
        adjacency="add-remove",
        lower=0,
        cap=1e200,
        unit=1e-124,
        growth=1.5,
    )
    clip = subject.search.clip((1,), simulated=True)
    steps = subject.totals([(1e199, 1e199)], clip)
    assert clip.high - 2 <= sum(steps) <= clip.high


def test_the_noise_has_the_steps_that_its_cost_says():
    """For every clip: where an end lay farther than the cap, a clip had a handful of steps."""
    for lower in (0, -1, None):
        subject = made("add-remove", lower, unit=1e-3)
        for tests in (1, 2, 5, None):
            clip = subject.search.clip((tests,), simulated=True)
            statement = subject.noise_for(clip).mechanism.sensitivity
            assert statement.bound / statement.step >= 1024


def test_what_is_lost_is_shared_in_proportion():
    subject = made("add-remove", 0, groups=2, cap=1000)
    clip = subject.search.clip((6,), simulated=True)
    end = Fraction(clip.high) * clip.step
    large = subject.totals([(600, 400)], clip)
    assert [float(one * clip.step / end) for one in large] == pytest.approx([0.6, 0.4], rel=1e-6)
    small = subject.totals([(3, 4), (math.nan, 5)], clip)
    assert [float(one * clip.step) for one in small] == [3, 9]


def test_gaussian_noise_is_for_vectors_at_a_right_angle():
    """Under replace-one without numbers below 0 they are apart by the root of 2 of the clip, else by twice the clip."""
    for lower, factor in ((0, 2), (None, 4)):
        subject = made("replace-one", lower, total_rho=Fraction(1, 2))
        clip = clip_of(subject)
        bound = subject.noise_for(clip).bound
        assert (bound - 1) ** 2 < factor * clip.high**2 <= bound**2
    assert made("add-remove", 0, total_rho=1).noise_for(clip).bound == clip.high


@every_line
@pytest.mark.slow
def test_the_audit_finds_no_more_than_is_charged(adjacency, lower):
    subject = made(adjacency, lower)
    for one, other in [
        ((NEAR, 0.0), (0.0, NEAR)),
        ((3.0, 2.0), (NEAR, 1.0)),
        ((1.0, 1.0), (0.0, 5.0)),
    ]:
        there = [] if adjacency == "add-remove" else [other]
        report = audit.exact(subject, answers_a=[(2.0, 1.0), one], answers_b=[(2.0, 1.0), *there])
        assert not report.broken


# ---- the number of units ----------------------------------------------------------------------------------


def test_many_groups_leave_most_units_within_the_clip():
    """Twin: with as many meant to lie beyond as there are groups over epsilon, all of them would be cut off."""
    subject = ClippedSums(groups=1000, epsilon=0.3, adjacency="add-remove", lower=0, cap=1e6)
    assert subject.counter is not None
    assert float(subject.cost.pure()) == pytest.approx(0.3)
    draw = np.random.default_rng(1)
    wholes = draw.lognormal(4, 1, 11_000)
    counts = BucketCounts.of(wholes, grid=subject.grid)
    clip = subject.clip_from(counts, entropy=Seeded(1))
    subject.check_clip(clip, "test")
    assert (wholes > clip.ends[1]).mean() < 0.15
    assert (wholes > subject.search.release(counts, entropy=Seeded(1)).ends[1]).mean() > 0.25


def test_few_groups_count_nobody():
    assert made("add-remove", 0).counter is None
    with pytest.raises(InvalidParameter, match="count no units"):
        audit.exact(made("add-remove", 0, groups=400), answers_a=[(1.0,) * 400], answers_b=[])


def test_the_clip_of_another_search_is_refused():
    subject, other = made("add-remove", 0), made("add-remove", 0, cap=16)
    clip = other.search.clip((2,), simulated=True)
    with pytest.raises(InvalidParameter, match="clip_from of the same parameters"):
        subject.finish_each([1, 2], clip, entropy=Seeded(1))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lower": 1}, "lower must be at most 0"),
        ({"rows_per_unit": 2}, "rows_per_unit must be 1"),
        ({"groups": 0}, "groups must be a whole number, at least 1"),
        ({"clip_share": 1}, "clip_share"),
        ({"cap": 0}, "cap must be positive"),
        ({"lower": -9}, "lower must be at least minus the cap"),
        ({"groups": 1000, "clip_share": 0.98}, r"clip_share must be below 0\.97"),
    ],
)
def test_what_makes_no_sense_is_refused(changed, message):
    with pytest.raises(InvalidParameter, match=message):
        ClippedSums(
            **{"groups": 2, "epsilon": 1, "adjacency": "add-remove", "lower": 0, "cap": 8} | changed
        )


class Hostile:
    def __float__(self):
        raise ValueError("secret 77")


@pytest.mark.parametrize(
    "values",
    [
        [["secret 77", 2]],
        [[1, 2], [3]],
        [[1j, 10**400], None],
        [Hostile(), [Hostile(), 1]],
        [[None, -(10**400)]],
        [],
    ],
)
def test_nothing_that_a_list_holds_raises(values):
    """Twin: an error of NumPy named the value, or how many there were."""
    subject = made("add-remove", None)
    clip = clip_of(subject)
    steps = subject.totals(values, clip)
    assert len(subject.release(values, entropy=Seeded(1))) == 2
    known = {True: -clip.high, False: clip.high}
    found = [one for row in values if isinstance(row, list) for one in row if type(one) is int]
    assert all(abs(one) <= clip.high for one in steps)
    if 10**400 in found or -(10**400) in found:
        assert steps[1] == known[-(10**400) in found]


@pytest.mark.parametrize(
    "values", [np.zeros(4), np.zeros((3, 1)), np.zeros((2, 2), dtype="U3"), "text", None, 7]
)
def test_arrays_of_another_shape_are_refused_without_their_size(values):
    with pytest.raises(InvalidParameter, match="an array of numbers with 2 columns"):
        made("add-remove", 0).release(values)


def test_more_totals_than_groups_are_refused():
    subject = made("add-remove", 0)
    with pytest.raises(InvalidParameter, match="at most 2 totals; got 3"):
        subject.finish_each([1, 2, 3], clip_of(subject), entropy=Seeded(1))


def test_intervals_hold_what_the_clipped_units_give():
    """At a coarse look: of 400 intervals of 95% at least 92% hold."""
    subject = ClippedSums(groups=2, epsilon=0.5, adjacency="add-remove", lower=0, cap=1000)
    draw = np.random.default_rng(2)
    values = draw.lognormal(2, 1, (300, 2))
    held = 0
    for seed in range(200):
        found = subject.release(values, entropy=Seeded(seed))
        clip = found[0].found
        for one, total in zip(found, subject.totals(values, clip), strict=True):
            held += one.low <= float(total * clip.step) <= one.high
            assert one.true_interval() == (one.true_low, math.inf)
    assert held >= 368


def test_sums_of_both_signs_say_nothing_of_what_was_cut_off():
    subject = made("add-remove", None)
    found = subject.release([(-3.0, 2.0)] * 20, entropy=Seeded(1))
    assert [one.true_interval() for one in found] == [(-math.inf, math.inf)] * 2
    assert noise_of(subject, (1,))[1].totals == 2
    assert stages(subject, ((1.0, 1.0),))
