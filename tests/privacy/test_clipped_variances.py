"""Variances of groups within one clip, of people with any number of rows: exact laws, and their twins."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import ClippedVariances, Seeded
from sordino.errors import InvalidParameter
from support.clipped_laws import compared, excess, noise_of, totals, worst_loss
from support.weighed_units import (
    CAP,
    LINES,
    NEAR,
    OPTIONS,
    in_its_group,
    neighbours,
    to_nearest,
    without_a_limit,
)

ROUNDING = 1e-9
every_line = pytest.mark.parametrize(("adjacency", "lower"), LINES)


def made(adjacency, lower, groups=2, **options):
    return ClippedVariances(groups=groups, adjacency=adjacency, lower=lower, **(OPTIONS | options))


@every_line
@pytest.mark.sample(2)
def test_clip_and_totals_together_lose_at_most_epsilon(adjacency, lower):
    subject = made(adjacency, lower)
    worst, clip_only = worst_loss(subject, neighbours(adjacency, lower))
    assert worst <= float(subject.cost.pure()) + ROUNDING
    assert clip_only <= float(subject.search.cost.pure()) + ROUNDING
    if adjacency == "add-remove" and lower == 0:
        assert worst > 0.98 * float(subject.cost.pure())
    else:
        assert worst > 0.98 * float(subject.total_cost.pure())


@pytest.mark.parametrize("twin", [in_its_group, to_nearest, without_a_limit])
def test_weights_that_add_up_to_more_than_a_unit_are_convicted(twin, monkeypatch):
    monkeypatch.setattr(ClippedVariances, "weigh_rows", twin)
    totals.cache_clear()
    subject = made("add-remove", 0)
    units = [([NEAR] * 2, [NEAR] * 2), ([NEAR] * 3, []), ([NEAR] * 5, [3.0])]
    worst, _ = worst_loss(subject, neighbours("add-remove", 0, units))
    totals.cache_clear()
    assert worst > float(subject.cost.pure()) + 0.1


@every_line
def test_the_bound_is_attained_and_so_less_noise_is_convicted(adjacency, lower):
    """Twins: half of the squared width, by which two of the totals move, and one unit for two."""
    subject = made(adjacency, lower)
    left = ((NEAR, NEAR), ())
    right = ((), (NEAR, NEAR)) if lower == 0 else ((), (-NEAR, -NEAR))
    tests = (2,) * (1 if lower == 0 else 2)
    clip = subject.search.clip(tests, simulated=True)
    there = () if adjacency == "add-remove" else (right,)
    pair = zip(totals(subject, (left,), tests), totals(subject, there, tests), strict=True)
    moved = sum(abs(x - y) for x, y in pair)
    _, noise = noise_of(subject, tests)
    times = 1 if adjacency == "add-remove" else 2
    assert moved == noise.bound == times * (clip.high - clip.low) ** 2 << subject.bits


@every_line
@pytest.mark.parametrize("coarse", [1, 2, 4])
@pytest.mark.sample(3)
def test_on_a_noise_grid_all_totals_move_by_one_step_less_than_there_are(
    adjacency, lower, coarse, monkeypatch
):
    """The largest move of small units, with steps that are coarse (twin: no room for 3G - 1 more)."""
    subject = made(adjacency, lower)
    clip = subject.search.clip((2,) * (1 if lower == 0 else 2), simulated=True)
    noise = subject.noise_for(clip)
    grid = noise.bound.bit_length() - coarse
    monkeypatch.setitem(noise.__dict__, "shift", grid)
    allowed = noise.mechanism.sensitivity.bound / noise.step
    plain = -(-noise.bound >> grid)
    assert allowed == plain + 5
    worst = 0
    for a, b in neighbours(adjacency, lower):
        pair = (subject.totals(list(values), clip) for values in (a, b))
        # Of totals of others that lie just below a step.
        worst = max(worst, sum(-(-abs(x - y) >> grid) for x, y in zip(*pair, strict=True)))
    assert plain < worst <= allowed


@pytest.mark.parametrize("lower", [0, 2, None])
@pytest.mark.parametrize("bits", [2, 7, 24])
@pytest.mark.sample(3)
def test_no_unit_moves_the_totals_by_more_than_one(lower, bits):
    """Of many numbers of rows in up to forty groups; with as many rows as the weight it is all of it."""
    draw = np.random.default_rng(3)
    for groups in (1, 3, 40):
        subject = made(
            "add-remove", lower, groups=groups, epsilon=40, weight_cap=4, weight_bits=bits
        )
        clip = subject.search.clip((1, 2)[: 2 if lower is None else 1], simulated=True)
        square = (clip.high - clip.low) ** 2
        most = subject.records_of_unit
        for _ in range(60):
            unit = [
                (draw.lognormal(0, 2, draw.integers(0, 9)) * draw.choice([-1, 1])).tolist()
                for _ in range(groups)
            ]
            unit[0] += [math.inf, 1e300, -1e300][: draw.integers(0, 4)]
            moved = subject.totals([unit], clip)
            assert all(one >= 0 for one in moved)
            assert sum(moved) == square * subject.count_weights([unit], 4).records <= square * most
        alone = [[NEAR] * 4] + [[]] * (groups - 1)
        assert sum(subject.totals([alone], clip)) == square * most


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_gaussian_noise_is_for_vectors_at_a_right_angle(adjacency):
    factor = 1 if adjacency == "add-remove" else 2
    subject = made(adjacency, 0, total_rho=Fraction(1, 2))
    clip = subject.search.clip((2,), simulated=True)
    moved = (clip.high - clip.low) ** 2 << subject.bits
    bound = subject.noise_for(clip).bound
    assert (bound - 1) ** 2 < factor * moved**2 <= bound**2
    # On a grid three totals of each group are rounded by less than a step, each by itself.
    assert subject.noise_for(clip).mechanism.sensitivity.bound >= bound


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.slow
def test_clip_and_gaussian_totals_together_cost_what_is_charged(adjacency):
    subject = made(adjacency, 0, total_rho=Fraction(1, 2))
    units = [([NEAR] * 2, []), ([], [NEAR] * 2), ([0.5], [3.0] * 3), ([NEAR] * 5, [1.0])]
    found = compared(subject, list(neighbours(adjacency, 0, units)))
    assert excess(subject.cost, found) <= ROUNDING


@every_line
@pytest.mark.slow
def test_the_audit_finds_no_more_than_is_charged(adjacency, lower):
    subject = made(adjacency, lower)
    far = [[NEAR, NEAR], []]
    for one, other in [(far, far[::-1]), ([[3.0], [2.0]], [[NEAR] * 3, [1.0]])]:
        there = [] if adjacency == "add-remove" else [other]
        report = audit.exact(
            subject, answers_a=[[[2.0], [1.0]], one], answers_b=[[[2.0], [1.0]], *there]
        )
        assert not report.broken


def test_the_audit_refuses_a_weight_that_is_found():
    with pytest.raises(InvalidParameter, match="weight_cap"):
        audit.exact(made("add-remove", 0, weight_cap=None), answers_a=[[[1.0], []]], answers_b=[])


# ---- what is found ----------------------------------------------------------------------------------------


def test_rows_without_a_number_count_with_no_weight():
    subject = made("add-remove", 0)
    some = [[[3.0, math.nan, None], ["x", 2.0]]]
    clip = subject.search.clip((3,), simulated=True)
    assert subject.weigh_moments(some, clip, 1) == subject.weigh_moments([[[3.0], [2.0]]], clip, 1)


def test_the_totals_are_those_of_each_row_times_its_weight():
    """In whole numbers, row by row."""
    draw = np.random.default_rng(5)
    subject = made("add-remove", None, weight_cap=3, weight_bits=7, epsilon=40)
    clip = subject.search.clip((3, 2), simulated=True)
    width = clip.high - clip.low
    units = [[draw.normal(0, 4, n).tolist() for n in draw.integers(0, 5, 2)] for _ in range(30)]
    expected = [0] * 6
    for unit in units:
        weight = 128 // max(3, sum(map(len, unit)))
        for group, rows in enumerate(unit):
            for x in rows:
                u = min(clip.high, max(clip.low, math.floor(Fraction(x) / clip.step))) - clip.low
                for place, one in enumerate(((width - u) ** 2, 2 * u * (width - u), u**2)):
                    expected[3 * group + place] += weight * one
    assert list(subject.totals(units, clip)) == expected


def large_table():
    draw = np.random.default_rng(1)
    return [
        [draw.lognormal(1, 0.5, 1 + draw.poisson(3)).tolist(), draw.normal(20, 5, 2).tolist()]
        for _ in range(4000)
    ]


def test_a_table_that_is_large_tells_the_variance_of_each_group():
    units = large_table()
    subject = ClippedVariances(groups=2, epsilon=2, adjacency="add-remove", lower=0, cap=1e6)
    found = subject.release(units, entropy=Seeded(1))
    true = [np.var([x for unit in units for x in unit[group]]) for group in range(2)]
    assert [one.value for one in found] == pytest.approx(true, rel=0.2)
    assert 4 <= found[0].weights.cap <= 9
    assert found[0].clip == found[1].clip
    assert not any(one.too_few for one in found)
    assert found[0].standard_deviation == pytest.approx(math.sqrt(found[0].value))


def test_no_units_at_all_are_too_few():
    subject = made("add-remove", 0, weight_cap=None, epsilon=Fraction(1, 10))
    for one in subject.release([], entropy=Seeded(1)):
        assert one.too_few
        assert one.value >= 0


@pytest.mark.slow
def test_groups_that_weigh_hardly_anything_are_marked():
    """Twin: an interval that leaves something out by chance was drawn for a group of nobody."""
    subject = ClippedVariances(
        groups=2, epsilon=1, adjacency="add-remove", lower=0, cap=100, weight_cap=2
    )
    units = [[[float(n % 50)] * 2, []] for n in range(3000)]
    found = [subject.release(units, entropy=Seeded(seed)) for seed in range(40)]
    assert not any(first.too_few for first, _ in found)
    assert sum(second.too_few for _, second in found) >= 38


def test_the_clip_of_another_search_and_more_groups_are_refused():
    subject, other = made("add-remove", 0), made("add-remove", 0, cap=16)
    moments = subject.weigh_moments([[[1.0], [2.0]]], subject.search.clip((2,), simulated=True), 1)
    with pytest.raises(InvalidParameter, match="clip_from of the same parameters"):
        subject.finish_each(
            moments, other.search.clip((2,), simulated=True), CAP, entropy=Seeded(1)
        )
    own = subject.search.clip((2,), simulated=True)
    with pytest.raises(InvalidParameter, match="at most 2 groups; got 4"):
        subject.finish_each(moments * 2, own, CAP, entropy=Seeded(1))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows_per_unit": 2}, "rows_per_unit must be 1"),
        ({"weight_cap": 0}, "weight_cap must be a whole number, at least 1"),
        ({"weight_bits": 25}, "weight_bits must be at most 24"),
        ({"clip_gumbel": 1}, "clip_gumbel must be None"),
        ({"cap": 1e300, "unit": 1e299}, "2\\^500 wide"),
    ],
)
def test_what_makes_no_sense_is_refused(changed, message):
    with pytest.raises(InvalidParameter, match=message):
        made("add-remove", 0, **changed)


class Hostile:
    def __float__(self):
        raise ValueError("secret 77")

    def __iter__(self):
        raise ValueError("secret 77")


@pytest.mark.parametrize(
    "values",
    [
        [[["secret 77"], 2]],
        [[[1j, 10**400], None], None],
        [Hostile(), [Hostile(), [Hostile(), 1]]],
        [],
    ],
)
@pytest.mark.sample(2)
def test_nothing_that_a_list_holds_raises(values):
    assert len(made("add-remove", None).release(values, entropy=Seeded(1))) == 2


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.slow
def test_intervals_hold_what_the_weighed_rows_give(adjacency):
    """Of 400 intervals of 95% at least 92% hold: clipped, the lower end of all rows, within the cap."""
    subject = ClippedVariances(
        groups=2, epsilon=2, adjacency=adjacency, lower=0, cap=200, weight_cap=3
    )
    draw = np.random.default_rng(2)
    values = [
        [draw.lognormal(2, 1, draw.poisson(2)).tolist(), draw.lognormal(2, 1, 1).tolist()]
        for _ in range(400)
    ]
    values = [[[min(x, 200.0) for x in rows] for rows in unit] for unit in values]
    true = [weighed_variance(values, group, 3, math.inf) for group in range(2)]
    held = lower = closed = 0
    for seed in range(200):
        found = subject.release(values, entropy=Seeded(seed))
        for group, one in enumerate(found):
            clip = one.found
            moments = subject.weigh_moments(values, clip, 3)[group]
            first, second = (Fraction(x, moments.known) for x in (moments.first, moments.second))
            clipped = float((second - first**2) * clip.step**2)
            held += one.low <= clipped <= one.high
            lower += one.true_low <= true[group]
            low, high = one.true_interval(within_cap=True)
            closed += low <= true[group] <= high
    assert held >= 368
    assert closed >= 368
    assert lower >= 368


def weighed_variance(units, group, cap, top):
    """As floats, with weights of 2^24 over the rows of a unit."""
    x, q = [], []
    for unit in units:
        rows = unit[group]
        x += [min(row, top) for row in rows]
        q += [(1 << 24) // max(cap, sum(map(len, unit)))] * len(rows)
    mean = np.average(x, weights=q)
    return float(np.average((np.array(x) - mean) ** 2, weights=q))
