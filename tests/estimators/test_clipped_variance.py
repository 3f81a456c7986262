"""Clipped variances: what the totals are and how far a record moves them, figures, intervals, and what is refused."""

from __future__ import annotations

import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sordino import BucketCounts, ClippedVariance, InvalidParameter, Seeded
from sordino.columns.clipped_steps import clipped_moments
from sordino.cost import Pure
from sordino.estimators.clipped.clipped_variance import NoisyMoments
from sordino.estimators.clipped.total_noise import TotalNoise

AGES = np.random.default_rng(7).integers(17, 90, 2000)


def made(adjacency="add-remove", **changed):
    return ClippedVariance(
        **{"epsilon": 1, "adjacency": adjacency, "cap": 1e4, "lower": 0} | changed
    )


# ---- what a record adds -------------------------------------------------------------------------------------------------

ODD = [
    [],
    [None, math.nan, math.inf, -math.inf, 3, 7.5, "text"],
    [Fraction(1, 3), Decimal("2.5"), Decimal("1e99999"), True, 10**40],
    np.array([1, 5, 200, -3], dtype=np.int64),
    np.array([2**63, 1, 2**64 - 1], dtype=np.uint64),
    np.array([0.1, np.nan, 5.9, 1e300, -1e300]),
]


@pytest.mark.parametrize("values", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 20), (-7, 9), (1 << 50, (1 << 50) + (1 << 31)), (-(1 << 52), 5 - (1 << 52))],
)
@pytest.mark.each_value
def test_moments_are_those_of_each_record_alone(values, low, high):
    """Against plain Python, one record at a time; a missing one adds nothing."""
    step = Fraction(1, 2)
    known, first, second = 0, 0, 0
    for value in list(values):
        steps = _steps(value, low, high, step)
        if steps is not None:
            known, first, second = known + 1, first + steps - low, second + (steps - low) ** 2
    assert clipped_moments(values, low, high, step) == (known, len(values) - known, first, second)


def _steps(value, low, high, step):
    if value is None or isinstance(value, str) or value != value:
        return None
    if isinstance(value, float | np.floating) and math.isinf(value):
        return high if value > 0 else low
    exact = int(value) if isinstance(value, np.integer | bool) else value
    if isinstance(exact, Decimal) and exact.adjusted() > 100:
        return high
    return max(low, min(high, math.floor(Fraction(exact) / step)))


def test_moments_of_millions_of_records_do_not_overflow():
    high = (1 << 32) - 1
    n = 3_000_000
    assert clipped_moments(np.full(n, float(high)), 0, high, Fraction(1)) == (
        n,
        0,
        n * high,
        n * high**2,
    )


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 33])
def test_the_totals_of_neighbors_are_no_farther_apart_than_stated(width):
    """Every exchange of records in a clip of that width, and the bound is reached."""
    for adjacency, public in (("add-remove", False), ("replace-one", False), ("replace-one", True)):
        subject = made(adjacency, size_is_public=public)
        clip = _clip(subject, width)
        each = [subject.totals([float(u)], clip) for u in range(width + 1)]
        nothing = (0,) * len(each[0])
        pairs = (
            [(one, nothing) for one in each]
            if adjacency == "add-remove"
            else list(product(each, each))
        )
        if adjacency == "replace-one" and not public:
            pairs += [(one, nothing) for one in each]
        apart = [sum(abs(a - b) for a, b in zip(one, other, strict=True)) for one, other in pairs]
        bound = subject.noise_for(clip).bound
        assert max(apart) <= bound
        assert max(apart) > (0.6 if width < 7 else 0.97) * bound


def _clip(subject, width):
    """A clip from 0 to so many steps of 1."""
    clip = subject.search.clip((30,), simulated=True)
    object.__setattr__(clip, "low", 0)
    object.__setattr__(clip, "high", width)
    object.__setattr__(clip, "step", Fraction(1))
    return clip


def test_two_totals_with_the_sums_of_one_bound_are_convicted():
    """The bound of three totals that only grow is too small where one record takes the place of another."""
    subject = made("replace-one", size_is_public=True)
    clip = _clip(subject, 33)
    each = [subject.totals([float(u)], clip) for u in range(34)]
    apart = max(sum(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in product(each, each))
    assert apart > 33**2
    assert apart <= -(-16 * 33**2 // 3)


def test_missing_values_do_not_count():
    for adjacency in ("add-remove", "replace-one"):
        subject = made(adjacency, lower=10, cap=1000)
        assert subject.totals([None, math.nan, "x"], _clip(subject, 9)) == (0, 0, 0)


def test_where_every_record_was_said_to_have_a_number_0_keeps_the_place_of_one_without():
    public = made("replace-one", lower=10, cap=1000, size_is_public=True)
    moments = public.totals([None, 3.0, 5.0], _clip(public, 9))
    assert moments == public.totals([0.0, 3.0, 5.0], _clip(public, 9)), "0 is moved into the clip"


# ---- figures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("lower", [0, 17, None])
def test_the_variance_is_that_of_the_clipped_records(adjacency, lower):
    released = made(adjacency, lower=lower, epsilon=20).release(AGES, entropy=Seeded(5))
    clipped = np.clip(AGES, *released.clip)
    assert released.value == pytest.approx(clipped.var(), abs=6 * released.standard_error + 1e-6)
    assert released.standard_deviation == math.sqrt(released.value)
    low, high = released.interval
    assert low <= clipped.var() <= high
    assert high - low < 0.2 * released.value
    assert released.true_interval()[0] <= AGES.var()
    assert released.true_interval()[1] == math.inf
    low, high = released.true_interval(within_cap=True)
    assert low <= AGES.var() <= high < math.inf


def test_the_second_stage_takes_what_an_engine_adds_up():
    subject = made(epsilon=5)
    clip = subject.clip_from(BucketCounts.of(AGES, grid=subject.grid), entropy=Seeded(3))
    one = subject.finish(subject.moments(AGES, clip), clip, entropy=Seeded(4))
    asked = tuple(map(Decimal, subject.moments(AGES, clip)))  # as a server sends them
    other = subject.finish(asked, clip, entropy=Seeded(4))
    assert one.to_dict() == other.to_dict()
    with pytest.raises(InvalidParameter, match="needs the Clip"):
        made(epsilon=4).finish(subject.moments(AGES, clip), clip)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("values", [[], [5.0], [None] * 9, [1e308, -1e308], [3.0] * 500])
@pytest.mark.each_value
def test_figures_stay_between_their_ends(adjacency, values):
    for seed in range(6):
        released = made(adjacency, epsilon=0.1, lower=None).release(values, entropy=Seeded(seed))
        widest = (released.clip[1] - released.clip[0]) ** 2 / 4
        assert (
            0
            <= released.interval[0]
            <= released.value
            <= released.interval[1]
            <= widest * (1 + 1e-12)
        )
        low, high = released.true_interval(within_cap=True)
        assert 0 <= low <= high <= 1e8 * (1 + 1e-12)
        json.dumps(released.to_dict())
        assert pickle.loads(pickle.dumps(released)).to_dict() == released.to_dict()


def test_the_same_entropy_releases_the_same():
    one, other = (made().release(AGES, entropy=Seeded(9)) for _ in range(2))
    assert one.to_dict() == other.to_dict()
    assert "noisy" not in one.to_dict()


def noise(adjacency, public, epsilon=1, width=1000):
    subject = made(adjacency, size_is_public=public, epsilon=epsilon)
    return subject, _clip(subject, width), subject.noise_for(_clip(subject, width))


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("place", [0.1, 0.35, 0.5])
@pytest.mark.each_value
def test_the_stated_error_is_that_of_many_releases(public, place):
    subject, clip, law = noise("replace-one" if public else "add-remove", public, epsilon=2)
    n, width = 20_000, clip.high
    u = np.clip(np.random.default_rng(2).normal(place * width, 0.1 * width, n), 0, width).astype(
        int
    )
    totals = subject.totals(u.astype(float), clip)
    stream, found, stated = Seeded(11), [], []
    for _ in range(300):
        value, error = moments(subject, law, clip, totals, n, stream).estimate()
        found.append(float(value))
        stated.append(error)
    assert np.std(found) == pytest.approx(np.mean(stated), rel=0.15)
    assert np.mean(found) == pytest.approx(u.var() / width**2, abs=5 * np.mean(stated) / 17)


def moments(subject, law, clip, totals, n, stream):
    width = clip.high - clip.low
    records = Fraction(n * width**2, 1 << law.shift) if subject.size_is_public else None
    return NoisyMoments(law.noisy(totals, stream), law, records, width)


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("wrong", [Fraction(1, 2), Fraction(1, 20)])
@pytest.mark.each_value
def test_the_interval_of_few_records_covers(public, wrong):
    subject, clip, law = noise("replace-one" if public else "add-remove", public)
    stream = Seeded(6)
    for u in ([0, 1000, 500, 20, 990], [1000] * 7, [0] * 3, [400, 600] * 50):
        totals = subject.totals([float(one) for one in u], clip)
        wanted = Fraction(np.var(u)).limit_denominator(10**9) / 1000**2
        ends = [moments(subject, law, clip, totals, len(u), stream).ends(wrong) for _ in range(60)]
        covered = np.mean(
            [
                low <= wanted + Fraction(1, 10**8) and wanted <= high + Fraction(1, 10**8)
                for low, high in ends
            ]
        )
        assert covered >= float(1 - wrong) - 0.06


def test_the_ends_are_the_extremes_over_all_totals_between_theirs():
    """By trying all of them."""
    rng = np.random.default_rng(4)
    law = TotalNoise(
        budget=Pure(epsilon=1), bound=1, totals=3, record_step=Fraction(1), adjacency="add-remove"
    )

    class Boxed(NoisyMoments):
        def _boxes(self, wrong):
            return self.noisy

    def variance(a, b, c):
        return Fraction(4 * a * c - b * b, 4 * (a + b + c) ** 2) if a + b + c else Fraction(0)

    for _ in range(150):
        boxes = tuple(tuple(sorted(map(int, rng.integers(-3, 9, 2)))) for _ in range(3))
        low, high = Boxed(boxes, law, None, 1).ends(Fraction(1, 20))
        inside = [range(max(0, a), max(0, b) + 1) for a, b in boxes]
        found = [max(Fraction(0), variance(*totals)) for totals in product(*inside)]
        assert low <= min(found)
        assert max(found) <= high
        assert high - max(found) < Fraction(1, 15)
        place, square = boxes[:2]
        low, high = Boxed((place, square), law, Fraction(9), 1).ends(Fraction(1, 20))
        found = [
            max(Fraction(0), min(Fraction(1, 4), Fraction(g, 108) - Fraction(f, 36) ** 2))
            for f in range(place[0], place[1] + 1)
            for g in range(square[0], square[1] + 1)
        ]
        assert (low, high) == (min(found), max(found))


def test_two_totals_are_never_worse_than_plain_ones():
    """Derivatives times bounds, for every place of the mean; the plain ones are sums of u w and u (w - u), bound w^2."""
    for place in np.linspace(-0.5, 0.5, 21):
        plain = math.hypot(2 * place, 1)
        ours = 16 / 3 * math.hypot(4 * place / 8, 1 / 12)
        assert ours <= plain * (1 + 1e-9)
    assert 16 / 3 / 12 < 0.5


# ---- what is refused ----------------------------------------------------------------------------------------------------


def test_which_number_of_records_is_public():
    """Only what somebody says is public, as for a mean."""
    assert made("replace-one", size_is_public=True).size_is_public
    for adjacency in ("add-remove", "replace-one"):
        assert not made(adjacency).size_is_public
    with pytest.raises(
        InvalidParameter, match=r"ClippedVariance.size_is_public must be False.*private there"
    ):
        made(size_is_public=True)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"epsilon": 0}, "ClippedVariance.epsilon"),
        ({"cap": -1}, "ClippedVariance.cap"),
        ({"clip_share": 1}, "ClippedVariance.clip_share"),
        ({"adjacency": "none"}, "ClippedVariance.adjacency"),
    ],
)
def test_parameters_are_checked_eagerly(changed, says):
    with pytest.raises(InvalidParameter, match=says):
        made(**changed)


def test_columns_that_are_none_are_refused_before_anything_is_drawn():
    for values in (7, np.zeros((2, 2)), np.array(["a"])):
        with pytest.raises(InvalidParameter, match="one-dimensional"):
            made().release(values)
    for confidence in (0, 1, math.nan):
        with pytest.raises(InvalidParameter, match="confidence"):
            made().release(AGES, entropy=Seeded(1)).interval_at(confidence=confidence)
