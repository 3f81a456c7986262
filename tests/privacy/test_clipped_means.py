"""Means of groups within one clip, of people with any number of rows: exact laws, and their twins."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import ClippedMeans, Seeded
from sordino.errors import InvalidParameter
from sordino.estimators.clipped import weighed_clip
from support.clipped_laws import totals, worst_loss
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
    return ClippedMeans(groups=groups, adjacency=adjacency, lower=lower, **(OPTIONS | options))


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
    monkeypatch.setattr(ClippedMeans, "weigh_rows", twin)
    totals.cache_clear()
    subject = made("add-remove", 0)
    units = [([NEAR] * 2, [NEAR] * 2), ([NEAR] * 3, []), ([NEAR] * 5, [3.0])]
    worst, _ = worst_loss(subject, neighbours("add-remove", 0, units))
    totals.cache_clear()
    assert worst > float(subject.cost.pure()) + 0.1


def test_noise_for_one_unit_is_convicted_where_one_takes_the_place_of_another():
    subject, cheap = made("replace-one", 0), made("add-remove", 0)
    pairs = [((((NEAR, NEAR), ()),), (((), (NEAR, NEAR)),))]
    right, _ = worst_loss(subject, pairs)
    assert right == pytest.approx(float(subject.total_cost.pure()), rel=0.001)
    wrong, _ = worst_loss(cheap, pairs)
    assert wrong > 1.9 * right


def test_a_count_of_rows_that_leaves_out_those_without_a_number_is_that_of_what_is_added():
    """Rows without a number count neither as rows of their unit nor with a weight."""
    subject = made("add-remove", 0)
    some = [[[3.0, math.nan, None], ["x", 2.0]]]
    clip = subject.search.clip((3,), simulated=True)
    assert subject.count_rows(some).records == 1
    assert subject.weigh_totals(some, clip, 1) == subject.weigh_totals([[[3.0], [2.0]]], clip, 1)


# ---- how far the totals move ------------------------------------------------------------------------------


@pytest.mark.parametrize("lower", [0, 2, None])
@pytest.mark.parametrize("bits", [2, 7, 24])
@pytest.mark.sample(3)
def test_no_unit_moves_search_or_totals_by_more_than_one(lower, bits):
    """Of many numbers of rows in up to forty groups; with as many rows as the weight it is all of it."""
    draw = np.random.default_rng(3)
    for groups in (1, 3, 40):
        subject = made(
            "add-remove", lower, groups=groups, epsilon=40, weight_cap=4, weight_bits=bits
        )
        assert subject.bits == bits
        clip = subject.search.clip((1, 2)[: 2 if lower is None else 1], simulated=True)
        most = subject.records_of_unit
        width = clip.top - clip.bottom
        for _ in range(60):
            unit = [
                (draw.lognormal(0, 2, draw.integers(0, 9)) * draw.choice([-1, 1])).tolist()
                for _ in range(groups)
            ]
            unit[0] += [math.inf, 1e300, -1e300][: draw.integers(0, 4)]
            assert subject.count_weights([unit], 4).records <= most
            distances = subject.totals([unit], clip)
            assert all(one >= 0 for one in distances)
            assert sum(distances) <= width * most
        alone = [[NEAR] * 4] + [[]] * (groups - 1)
        assert subject.count_weights([alone], 4).records == most
        assert sum(subject.totals([alone], clip)) == width * most


def test_weights_are_as_fine_as_the_budget_allows():
    """Twin: a lattice that follows the weight is refused after the budget for the weight is spent."""
    for epsilon in (Fraction(1, 100), 0.1, 1, 8):
        for groups in (1, 7, 300):
            for adjacency in ("add-remove", "replace-one"):
                subject = made(adjacency, None, groups, epsilon=epsilon)
                assert subject.bits >= 1
                assert subject.search.scan.noise.rate > Fraction(1, 1 << 31)


def test_the_noise_has_the_steps_that_its_cost_says():
    for lower in (0, 5, None):
        subject = made("add-remove", lower, unit=1e-3)
        for tests in (1, 2, 5, None):
            searches = 2 if lower is None else 1
            clip = subject.search.clip((tests,) * searches, simulated=True)
            statement = subject.noise_for(clip).mechanism.sensitivity
            assert statement.bound / statement.step >= 1024


def test_gaussian_noise_is_for_vectors_at_a_right_angle():
    for adjacency, factor in (("add-remove", 1), ("replace-one", 2)):
        subject = made(adjacency, 0, total_rho=Fraction(1, 2))
        clip = subject.search.clip((2,), simulated=True)
        moved = (clip.top - clip.bottom) << subject.bits
        bound = subject.noise_for(clip).bound
        assert (bound - 1) ** 2 < factor * moved**2 <= bound**2


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


def test_what_is_found_costs_what_is_left_of_epsilon():
    found = made("add-remove", 0, weight_cap=None)
    assert float(found.cost.pure()) == pytest.approx(2)
    assert found.weigher is not None
    declared = made("add-remove", 0)
    assert declared.weigher is None
    assert float(declared.cost.pure()) == pytest.approx(2)
    assert found.total_budget.epsilon_ < declared.total_budget.epsilon_


def test_the_weight_is_never_below_one():
    """Twin: a weight of 0, which no units at all may give, leaves no width for the noise."""
    subject = made("add-remove", 0, weight_cap=None, epsilon=Fraction(1, 10))
    for seed in range(40):
        counts = subject.count_rows([])
        assert subject.find_weight(counts, entropy=Seeded(seed)) >= 1
    found = subject.release([], entropy=Seeded(1))
    assert all(0 <= one.value <= 8 and one.too_few for one in found)


def test_few_weigh_much_of_a_table_that_is_large():
    draw = np.random.default_rng(1)
    units = [
        [draw.lognormal(1, 1, 1 + draw.poisson(3)).tolist(), draw.lognormal(2, 1, 2).tolist()]
        for _ in range(3000)
    ]
    subject = ClippedMeans(groups=2, epsilon=1, adjacency="add-remove", lower=0, cap=1e6)
    found = subject.release(units, entropy=Seeded(1))
    true = [np.mean([x for unit in units for x in unit[group]]) for group in range(2)]
    assert [one.value for one in found] == pytest.approx(true, rel=0.1)
    assert 4 <= found[0].weights.cap <= 9
    assert found[0].clip[1] < 1000


def test_a_clip_does_not_run_away():
    """Of the law of the search: a thousand times too far with a probability below 1e-7 (twin: ratio 2)."""

    def odds(ratio):
        # Beyond all records answers are 0: the next of j tests fail with about this probability.
        edges = round(math.log(1000) / math.log(1.05))
        # P(threshold noise above the largest of j answers' noises) for exponentials of these rates.
        return math.exp(
            math.lgamma(edges + 1) + math.lgamma(1 + ratio) - math.lgamma(edges + 1 + ratio)
        )

    assert odds(weighed_clip._RATIO) < 1e-7 < odds(2)


def test_the_search_is_the_same_where_a_found_weight_is_declared():
    """For another look: how many units lie beyond its clip is what the first search aimed at."""
    for adjacency in ("add-remove", "replace-one"):
        for groups in (3, 50, 400):
            asked = {"groups": groups, "epsilon": 1, "weight_bits": None}
            found, declared = (made(adjacency, 0, weight_cap=cap, **asked) for cap in (None, 2))
            assert found.search == declared.search


def test_many_groups_leave_most_units_within_the_clip():
    subject = ClippedMeans(
        groups=1000, epsilon=0.3, adjacency="add-remove", lower=0, cap=1e6, weight_cap=1
    )
    assert subject.counter is not None
    assert float(subject.cost.pure()) == pytest.approx(0.3)


def test_the_clip_of_another_search_and_more_groups_are_refused():
    subject, other = made("add-remove", 0), made("add-remove", 0, cap=16)
    clip = other.search.clip((2,), simulated=True)
    with pytest.raises(InvalidParameter, match="clip_from of the same parameters"):
        subject.finish_each([(1, 2)], [clip], CAP, entropy=Seeded(1))
    own = subject.search.clip((2,), simulated=True)
    with pytest.raises(InvalidParameter, match="at most 2 groups; got 3"):
        subject.finish_each([(1, 2)] * 3, [own] * 3, CAP, entropy=Seeded(1))
    with pytest.raises(InvalidParameter, match="a clip for each of 2 groups; got 1"):
        subject.finish_each([(1, 2)] * 2, [own], CAP, entropy=Seeded(1))
    wider = subject.search.clip((1,), simulated=True)
    with pytest.raises(InvalidParameter, match="one clip for all groups; got several"):
        subject.finish_each([(1, 2)] * 2, [own, wider], CAP, entropy=Seeded(1))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows_per_unit": 2}, "rows_per_unit must be 1"),
        ({"groups": 0}, "groups must be a whole number, at least 1"),
        ({"weight_cap": 0}, "weight_cap must be a whole number, at least 1"),
        ({"weight_cap": "auto"}, "weight_cap must be a whole number"),
        ({"weight_bits": 25}, "weight_bits must be at most 24"),
        ({"weight_bits": 0}, "weight_bits must be a whole number"),
        ({"weight_cap": 5}, "weight_cap must be at most 4 for this epsilon"),
        ({"clip_share": 1}, "clip_share"),
        ({"clip_share": 0.95, "weight_cap": None}, r"clip_share must be below 0\.92"),
        ({"cap": 0}, "cap must be positive"),
        ({"clip_gumbel": 1}, "clip_gumbel must be None"),
    ],
)
@pytest.mark.sample(4)
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
        [[[1], [2], [3]], [[1]]],
        [[[1j, 10**400], None], None],
        [Hostile(), [Hostile(), [Hostile(), 1]]],
        [[[None], [-(10**400)]]],
        [],
    ],
)
@pytest.mark.sample(3)
def test_nothing_that_a_list_holds_raises(values):
    subject = made("add-remove", None)
    found = subject.release(values, entropy=Seeded(1))
    assert len(found) == 2


@pytest.mark.parametrize("values", [np.zeros((4, 2)), "text", None])
@pytest.mark.sample(4)
def test_what_is_no_list_is_refused(values):
    with pytest.raises(InvalidParameter, match="must be a list of units"):
        made("add-remove", 0).release(values)


@pytest.mark.slow
def test_intervals_hold_what_the_weighed_rows_give():
    """At a coarse look: of 400 intervals of 95% at least 92% hold, and of lower ends as many."""
    subject = ClippedMeans(
        groups=2, epsilon=1, adjacency="add-remove", lower=0, cap=1000, weight_cap=3
    )
    draw = np.random.default_rng(2)
    values = [
        [draw.lognormal(2, 1, draw.poisson(2)).tolist(), draw.lognormal(2, 1, 1).tolist()]
        for _ in range(400)
    ]
    whole = subject.search.clip((None,), simulated=True)
    true = [
        float(total * whole.step / known) for total, known in subject.weigh_totals(values, whole, 3)
    ]
    held = lower = closed = 0
    for seed in range(200):
        found = subject.release(values, entropy=Seeded(seed))
        clip = found[0].found
        weighed = subject.weigh_totals(values, clip, 3)
        for one, (total, known), mean in zip(found, weighed, true, strict=True):
            held += one.low <= float(total * clip.step / known) <= one.high
            lower += one.true_low <= mean
            low, high = one.true_interval(within_cap=True)
            closed += low <= mean <= high
    assert held >= 368
    assert closed >= 368
    assert lower >= 368
