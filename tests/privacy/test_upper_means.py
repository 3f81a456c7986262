"""The upper end of means of weighed rows, by a third total: exact laws, the twin that counts a row twice, and coverage."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import ClippedMeans, Seeded
from sordino.cost import Pure
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clipped_again import ClippedAgain
from support.clipped_laws import totals, worst_loss
from support.weighed_units import LINES, NEAR, OPTIONS, neighbours

ROUNDING = 1e-9
every_line = pytest.mark.parametrize(("adjacency", "lower"), LINES)


def made(adjacency, lower, groups=2, **options):
    given = OPTIONS | {"upper": True} | options
    return ClippedMeans(groups=groups, adjacency=adjacency, lower=lower, **given)


@every_line
@pytest.mark.sample(2)
def test_clip_and_three_totals_together_lose_at_most_epsilon(adjacency, lower):
    subject = made(adjacency, lower)
    worst, _ = worst_loss(subject, neighbours(adjacency, lower))
    assert worst <= float(subject.cost.pure()) + ROUNDING
    assert worst > 0.98 * float(subject.total_cost.pure())
    assert subject.cost == made(adjacency, lower, upper=False).cost


def in_both(self, clip, total, known, beyond=0):
    """Twin: what lies beyond the clip is in the total of distances from its lower end as well."""
    third = beyond * (clip.high - clip.bottom)
    below, above = total - known * clip.bottom, known * clip.top - total
    return below, above, third


def test_a_row_that_is_counted_in_two_totals_is_convicted(monkeypatch):
    monkeypatch.setattr(ClippedMeans, "list_totals", in_both)
    totals.cache_clear()
    subject = made("add-remove", 0)
    units = [([NEAR] * 2, []), ([NEAR], [NEAR]), ([9.0] * 2, []), ([7.0, 9.0], [])]
    worst, _ = worst_loss(subject, neighbours("add-remove", 0, units))
    totals.cache_clear()
    assert worst > float(subject.cost.pure()) + 0.1


@every_line
def test_the_bound_is_attained_and_has_room_for_three_totals_of_a_group(
    adjacency, lower, monkeypatch
):
    subject = made(adjacency, lower)
    clip = subject.search.clip((2,) * (1 if lower == 0 else 2), simulated=True)
    noise = subject.noise_for(clip)
    assert noise.bound == made(adjacency, lower, upper=False).noise_for(clip).bound
    grid = noise.bound.bit_length() - 1
    monkeypatch.setitem(noise.__dict__, "shift", grid)
    allowed = noise.mechanism.sensitivity.bound / noise.step
    plain = -(-noise.bound >> grid)
    assert allowed == plain + 5
    far = worst = 0
    for a, b in neighbours(adjacency, lower):
        pair = (subject.totals(list(values), clip) for values in (a, b))
        apart = [abs(x - y) for x, y in zip(*pair, strict=True)]
        far = max(far, sum(apart))
        worst = max(worst, sum(-(-one >> grid) for one in apart))
    assert far == noise.bound
    assert plain < worst <= allowed


def test_what_lies_beyond_is_taken_out_of_the_total_from_the_lower_end():
    subject = made("add-remove", None, weight_cap=3, weight_bits=7, epsilon=40)
    plain = made("add-remove", None, weight_cap=3, weight_bits=7, epsilon=40, upper=False)
    clip = subject.search.clip((2, 2), simulated=True)
    draw = np.random.default_rng(5)
    units = [[draw.normal(0, 4, n).tolist() for n in draw.integers(0, 5, 2)] for _ in range(30)]
    units[0][0] = [math.inf, float(clip.high * clip.step), -math.inf]
    three, two = subject.totals(units, clip), plain.totals(units, clip)
    assert all(one >= 0 for one in three)
    for group in range(2):
        below, above, beyond = three[3 * group : 3 * group + 3]
        assert (below + beyond, above) == two[2 * group : 2 * group + 2]
        weight = sum(
            128 // max(3, sum(map(len, unit)))
            for unit in units
            for x in unit[group]
            if x >= float(clip.high * clip.step)
        )
        assert beyond == weight * (clip.high - clip.bottom)
        assert beyond > 0


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_gaussian_noise_has_the_same_bound(adjacency):
    options = {"total_rho": Fraction(1, 2)}
    clip = made(adjacency, 0, **options).search.clip((2,), simulated=True)
    three, two = (made(adjacency, 0, upper=upper, **options) for upper in (True, False))
    assert three.noise_for(clip).bound == two.noise_for(clip).bound


@every_line
@pytest.mark.slow
def test_the_audit_finds_no_more_than_is_charged(adjacency, lower):
    subject = made(adjacency, lower)
    far = [[NEAR, NEAR], []]
    there = [] if adjacency == "add-remove" else [far[::-1]]
    report = audit.exact(
        subject, answers_a=[[[2.0], [1.0]], far], answers_b=[[[2.0], [1.0]], *there]
    )
    assert not report.broken


# ---- what is said of the mean as it is --------------------------------------------------------------------


def heavy(seed, people=1500):
    """Numbers with a tail of Pareto, 1.3, cut off at 5,000; who has more rows has larger numbers."""
    draw = np.random.default_rng(seed)
    units = []
    for _ in range(people):
        rows = [1 + draw.geometric(0.4), draw.integers(0, 2)]
        many = sum(rows)
        units.append(
            [np.minimum(5000, many**0.3 * (1 + draw.pareto(1.3, n))).tolist() for n in rows]
        )
    return units


def weighed_mean(units, group, cap, bits):
    x, q = [], []
    for unit in units:
        x += unit[group]
        q += [(1 << bits) // max(cap, sum(map(len, unit)))] * len(unit[group])
    return float(np.average(x, weights=q))


@pytest.mark.parametrize(
    ("adjacency", "lower", "options"),
    [
        ("add-remove", 0, {}),
        ("replace-one", 0, {}),
        ("add-remove", None, {}),
        ("add-remove", 0, {"total_rho": Fraction(1, 10)}),
    ],
    ids=["add-remove", "replace-one", "both signs", "gaussian"],
)
@pytest.mark.slow
def test_the_interval_of_the_mean_as_it_is_holds_with_heavy_tails(adjacency, lower, options):
    """Of 240 intervals of 95% at least 95% hold, though nearly every clip leaves much of the mean out."""
    units = heavy(3)
    subject = ClippedMeans(
        groups=2,
        epsilon=1,
        adjacency=adjacency,
        lower=lower,
        cap=5000,
        weight_cap=4,
        upper=True,
        **options,
    )
    true = [weighed_mean(units, group, 4, subject.bits) for group in range(2)]
    held = clipped = beyond = finite = 0
    runs = 120
    for seed in range(runs):
        found = subject.release(units, entropy=Seeded(seed))
        clip = found[0].found
        pairs = subject.weigh_totals(units, clip, 4)
        for one, mean, (total, known, _) in zip(found, true, pairs, strict=True):
            low, high = one.true_interval()
            held += low <= mean <= high
            clipped += one.low <= float(total * clip.step / known) <= one.high
            beyond += float(total * clip.step / known) < 0.98 * mean
            finite += high < 5000
    assert held >= 0.95 * 2 * runs
    assert clipped >= 0.93 * 2 * runs
    assert beyond > 0.5 * 2 * runs
    assert finite > 0.5 * 2 * runs


@pytest.mark.parametrize("rho", [None, Fraction(1, 2)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("beyond", [0, 3, 40])
@pytest.mark.slow
def test_the_upper_end_is_that_of_numbers_at_the_cap(rho, beyond):
    """Some weight at the cap, all else within the clip: of 150 ends 97.5% hold, and not all of them."""
    subject = ClippedMeans(
        groups=1,
        epsilon=1,
        adjacency="add-remove",
        lower=0,
        cap=100,
        weight_cap=4,
        upper=True,
        total_rho=rho,
    )
    clip = subject.search.clip((60,), simulated=True)
    one = subject.records_of_unit
    inside, outside = 400 * one, beyond * one
    total = inside * (clip.high // 3) + outside * clip.high
    top = clip.mechanism.cap / clip.step
    true = float((inside * (clip.high // 3) + outside * top) / (inside + outside) * clip.step)
    missed = 0
    for seed in range(150):
        [found] = subject.finish_each(
            [(total, inside + outside, outside)], [clip], 4, entropy=Seeded(seed)
        )
        missed += found.true_interval()[1] < true
    # Of 150 at 2.5%: more than 11 have a chance below .1%.
    assert 1 <= missed <= 11


@pytest.mark.slow
def test_the_interval_is_not_that_of_the_clipped_mean_alone():
    """Twin: without what lies beyond, the interval of the clipped mean holds the mean in few runs."""
    units = heavy(3)
    subject = ClippedMeans(
        groups=2, epsilon=1, adjacency="add-remove", lower=0, cap=5000, weight_cap=4, upper=True
    )
    true = weighed_mean(units, 0, 4, subject.bits)
    found = [subject.release(units, entropy=Seeded(seed))[0] for seed in range(60)]
    assert sum(one.low <= true <= one.high for one in found) < 0.9 * 60
    assert all(one.true_high > one.high for one in found)


@pytest.mark.slow
def test_the_figure_has_the_noise_that_it_says():
    units = heavy(4)
    subject = ClippedMeans(
        groups=2, epsilon=2, adjacency="add-remove", lower=0, cap=5000, weight_cap=4, upper=True
    )
    off = []
    for seed in range(150):
        one = subject.release(units, entropy=Seeded(seed))[0]
        total, known, _ = subject.weigh_totals(units, one.found, 4)[0]
        off.append((one.value - float(total * one.found.step / known)) / one.standard_error)
    assert 0.8 < np.std(off) < 1.25


def test_no_units_have_the_ends_of_the_clip_and_the_cap():
    subject = made("add-remove", 0)
    for one in subject.release([], entropy=Seeded(1)):
        assert one.too_few
        assert one.true_interval() == (0, 8)
        low, high = one.true_interval(within_cap=True)
        assert 0 <= low <= high <= 8


def test_another_look_at_three_totals_is_refused():
    subject = made("add-remove", 0)
    clip = subject.search.clip((2,), simulated=True)
    with pytest.raises(InvalidParameter, match="upper"):
        ClippedAgain(figure=subject, clips=(clip,), budget=Pure(epsilon=1))


def test_upper_is_true_or_false():
    with pytest.raises(InvalidParameter, match="upper"):
        made("add-remove", 0, upper=1)
