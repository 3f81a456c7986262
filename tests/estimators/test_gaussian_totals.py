"""Sums and means with Gaussian noise: what is charged, how far totals move in the L2 norm, and what intervals cover."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations_with_replacement, count, product

import mpmath
import numpy as np
import pytest
from scipy import stats

from sordino import (
    BucketCounts,
    ClippedMean,
    ClippedSum,
    ClippedVariance,
    GaussianMechanism,
    InvalidParameter,
    LaplaceMechanism,
    Seeded,
)
from sordino.cost import RDP, ZCDP, compose
from sordino.estimators.clipped.clipped_value import ShareTest, clipped_ends, tail
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.noise import DiscreteGaussian
from support.fit import LEVEL

BOTH = pytest.mark.parametrize("estimator", [ClippedSum, ClippedMean, ClippedVariance])
RHO = Fraction(1, 10)


def made(estimator=ClippedSum, adjacency="add-remove", **changed):
    return estimator(
        **{"epsilon": 1, "adjacency": adjacency, "cap": 1e6, "lower": 0, "total_rho": RHO} | changed
    )


# ---- what is charged ----------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("lower", [0, None])
def test_the_clip_is_the_same_and_only_its_share_of_epsilon_is_charged(estimator, adjacency, lower):
    gaussian = made(estimator, adjacency, lower=lower)
    laplace = made(estimator, adjacency, lower=lower, total_rho=None)
    assert gaussian.search == laplace.search
    assert gaussian.cost == compose(gaussian.search.cost, ZCDP(rho=RHO))
    assert laplace.cost == compose(
        laplace.search.cost, RDP(laplace=Fraction(65, 100), laplace_steps=1024)
    )
    assert gaussian.cost.zcdp() == gaussian.search.cost.zcdp() + RHO
    values = [3.0, 5.0, 70.0] * 40
    one, other = (subject.release(values, entropy=Seeded(3)) for subject in (gaussian, laplace))
    assert one.clip == other.clip
    assert one.cost == gaussian.cost
    drawn = [type(getattr(made, "totals", made).noise.mechanism) for made in (one, other)]
    assert drawn == [GaussianMechanism, LaplaceMechanism]


@BOTH
@pytest.mark.parametrize("rho", [0, -1, math.nan, math.inf, "1", 1e-24, 1e60])
@pytest.mark.each_value
def test_bad_rhos_are_refused_at_once(estimator, rho):
    with pytest.raises(InvalidParameter):
        made(estimator, total_rho=rho)


@BOTH
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("lower", [0, None, -3])
@pytest.mark.each_value
def test_where_an_estimator_is_made_each_clip_has_noise(estimator, adjacency, lower):
    kept = refused = 0
    for rho in [
        *(Fraction(part, 1 << power) for power in range(58, 76, 3) for part in (5, 7)),
        Fraction(3),
    ]:
        try:
            subject = made(estimator, adjacency, cap=50, growth=1.7, lower=lower, total_rho=rho)
        except InvalidParameter as error:
            assert "must ask for noise with a rate of at least" in str(error)
            refused += 1
            continue
        kept += 1
        searches = len(subject.search.runs(BucketCounts.empty(subject.grid)))
        for tests in count(1):
            try:
                clip = subject.search.clip((tests,) * searches, simulated=True)
            except IndexError:  # the search has no further test
                break
            noise = subject.noise_for(clip)
            assert noise.mechanism.noise.rate >= Fraction(999, 1000) * noise.least_rate
            assert noise.mechanism.cost.rho <= rho
        assert tests > 3
    assert kept
    assert refused


@pytest.mark.parametrize("rho", [Fraction(1, 10**6), Fraction(1, 3), 7, 10**5])
@pytest.mark.parametrize("totals", [1, 2])
@pytest.mark.parametrize("bound", [1, 5, (1 << 31) + 7, (1 << 52) - 1, 3 << 80])
@pytest.mark.each_value
def test_the_noise_is_as_wide_as_it_must_be_on_a_grid_that_is_fine_enough(rho, totals, bound):
    noise = TotalNoise(
        budget=ZCDP(rho=rho),
        bound=bound,
        totals=totals,
        record_step=Fraction(1),
        adjacency="add-remove",
    )
    sigma = math.sqrt(bound**2 / (2 * Fraction(rho)))
    assert float(noise.step) * math.sqrt(
        1 / (2 * float(noise.mechanism.noise.rate))
    ) == pytest.approx(sigma, rel=1e-2 if noise.least_rate > 2**-50 else 1e-4)
    assert noise.shift == 0 or 2**28 < sigma / 2**noise.shift < 2**30
    assert noise.mechanism.cost.rho <= rho


# ---- how far totals move ------------------------------------------------------------------------------------------------


def totals_of(subject, clip, unit):
    """The totals that a unit of records adds, each given by where it lies in the clip, in record steps."""
    if isinstance(subject, ClippedVariance):
        width, places = clip.high - clip.low, [s - clip.low for s in unit]
        if subject.size_is_public:
            twice = [2 * u - width for u in places]
            return sum(2 * width * s for s in twice), sum(3 * s**2 for s in twice)
        return (
            sum((width - u) ** 2 for u in places),
            sum(2 * u * (width - u) for u in places),
            sum(u**2 for u in places),
        )
    if isinstance(subject, ClippedMean) and not subject.size_is_public:
        return sum(s - clip.bottom for s in unit), sum(clip.top - s for s in unit)
    return (sum(unit),)


CASES = [
    (ClippedSum, "add-remove", 1, 0, {}),
    (ClippedSum, "add-remove", 3, None, {}),
    (ClippedSum, "replace-one", 2, None, {}),
    (ClippedMean, "add-remove", 1, 0, {}),
    (ClippedMean, "add-remove", 3, None, {}),
    (ClippedMean, "replace-one", 1, 0, {}),
    (ClippedMean, "replace-one", 1, 0, {"size_is_public": True}),
    (ClippedMean, "replace-one", 3, None, {}),
    (ClippedVariance, "add-remove", 1, 0, {}),
    (ClippedVariance, "add-remove", 3, None, {}),
    (ClippedVariance, "replace-one", 1, 0, {}),
    (ClippedVariance, "replace-one", 1, 0, {"size_is_public": True}),
    (ClippedVariance, "replace-one", 3, None, {}),
]


def apart(subject, clip):
    """The largest square of how far neighbors are apart, over units of records at the ends and between."""
    # Of squares what is next to an end moves farther than what is at it, in one of the totals.
    inner = [clip.low + (clip.high - clip.low) * part // 12 for part in (2, 4, 8, 10)]
    ends = (
        (clip.low, clip.high) if isinstance(subject, ClippedVariance) else (clip.bottom, clip.top)
    )
    places = sorted({ends[0], max(0, ends[0]), sum(ends) // 2, ends[1], *inner})
    sized = subject.adjacency == "replace-one" and getattr(subject, "size_is_public", False)
    least = subject.rows_per_unit if sized else 0
    units = [
        unit
        for rows in range(least, subject.rows_per_unit + 1)
        for unit in combinations_with_replacement(places, rows)
    ]
    others = [()] if subject.adjacency == "add-remove" else units
    width = len(totals_of(subject, clip, (places[0],)))
    worst = 0
    for one, other in product(units, others):
        a, b = (totals_of(subject, clip, unit) if unit else (0,) * width for unit in (one, other))
        worst = max(worst, sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    return worst


@pytest.mark.parametrize(("estimator", "adjacency", "rows", "lower", "more"), CASES)
@pytest.mark.parametrize("tests", [1, 60, None])
@pytest.mark.each_value
def test_the_bound_is_the_farthest_that_neighbors_are_apart_and_not_a_step_less(
    estimator, adjacency, rows, lower, more, tests
):
    subject = made(estimator, adjacency, rows_per_unit=rows, lower=lower, **more)
    searches = len(subject.search.runs(BucketCounts.empty(subject.grid)))
    clip = subject.search.clip((tests,) * searches, simulated=True)
    bound, worst = subject.noise_for(clip).bound, apart(subject, clip)
    assert (bound - 1) ** 2 < worst <= bound**2


def test_an_exchange_moves_two_totals_by_less_than_in_the_other_norm():
    """sqrt(2) times what one unit may be: two vectors without negative parts are at a right angle at most."""
    gaussian = made(ClippedMean, "replace-one", rows_per_unit=3)
    laplace = made(ClippedMean, "replace-one", rows_per_unit=3, total_rho=None)
    clip = gaussian.search.clip((40,), simulated=True)
    width = clip.top - clip.bottom
    assert laplace.noise_for(clip).bound == 6 * width
    assert gaussian.noise_for(clip).bound == math.ceil(math.sqrt(2) * 3 * width)


@pytest.mark.parametrize("totals", [1, 2])
def test_rounding_to_the_grid_of_the_noise_is_in_the_bound(totals):
    """Moves of all lengths and directions, from every place within a noise step that may carry one more over."""
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(300):
        bound = int(rng.integers(1 << 35, 1 << 40))
        noise = TotalNoise(
            budget=ZCDP(rho=Fraction(int(rng.integers(1, 9)), 1 << int(rng.integers(2, 44)))),
            bound=bound,
            totals=totals,
            record_step=Fraction(1),
            adjacency="replace-one",
        )
        assert noise.shift
        stated = noise.mechanism.sensitivity.bound / noise.step
        grain = 1 << noise.shift
        for angle in [0.0, math.pi / 4, math.pi / 2, *rng.uniform(-math.pi, math.pi, 20)]:
            move = [math.trunc(bound * math.cos(angle)), math.trunc(bound * math.sin(angle))][
                :totals
            ]
            # Just below the next noise step in the direction of the move: as much as possible is carried over.
            start = [(grain - 1 if step > 0 else 0) for step in move]
            coarse = [
                ((x + step) >> noise.shift) - (x >> noise.shift)
                for x, step in zip(start, move, strict=True)
            ]
            length = math.isqrt(sum(x * x for x in coarse) * 10**12) / 10**6
            assert length <= stated
            worst = max(worst, length / float(stated))
        assert noise.mechanism.noise.rate * stated**2 <= noise.budget.rho
    assert worst > 0.9


@pytest.mark.slow
def test_draws_follow_the_law_that_is_stated_and_each_total_has_its_own():
    bound = (1 << 32) + 5
    noise = TotalNoise(
        budget=ZCDP(rho=RHO), bound=bound, totals=2, record_step=Fraction(1), adjacency="add-remove"
    )
    stream, totals = Seeded(11), (12_345 << 40, -77 << 30)
    drawn = np.array([noise.noisy(totals, stream) for _ in range(2500)], dtype=np.float64)
    sigma = bound / math.sqrt(2 * float(RHO)) / 2**noise.shift
    scaled = (drawn - [total / 2**noise.shift for total in totals]) / sigma
    for column in scaled.T:
        # A rate that is a tenth off would have a deviation that is a twentieth off.
        assert stats.kstest(column, "norm").pvalue > LEVEL
        assert column.std() == pytest.approx(1, abs=0.05)
    assert abs(np.corrcoef(scaled.T)[0, 1]) < 0.09


# ---- what intervals cover -----------------------------------------------------------------------------------------------


def beyond(rate, reach):
    """P(|N| > reach) by mpmath: term by term where the law is narrow, else by the midpoint rule and its correction."""
    with mpmath.workdps(40):
        b = mpmath.mpf(rate.numerator) / rate.denominator
        if rate > Fraction(1, 10**4):
            far = math.ceil(math.sqrt(95 / float(rate))) + 2
            terms = [mpmath.exp(-b * x * x) for x in range(far)]
            return 2 * sum(terms[reach + 1 :]) / (2 * sum(terms) - 1)
        edge = reach + mpmath.mpf(1) / 2
        correction = -2 * b * edge * mpmath.exp(-b * edge**2) / 12
        return mpmath.erfc(mpmath.sqrt(b) * edge) + correction / mpmath.sqrt(mpmath.pi / b)


@pytest.mark.parametrize(
    "wrong", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 60), Fraction(1, 10**9)]
)
@pytest.mark.parametrize("bound", [1, 3, 40, 10**4, 1 << 31, 1 << 40])
@pytest.mark.parametrize("rho", [Fraction(1, 50), 2])
@pytest.mark.each_value
def test_the_noise_exceeds_its_reach_as_seldom_as_is_said(wrong, bound, rho):
    noise = TotalNoise(
        budget=ZCDP(rho=rho), bound=bound, totals=1, record_step=Fraction(1), adjacency="add-remove"
    )
    law, reach = noise.mechanism.noise, noise.reach(wrong)
    assert beyond(law.rate, reach) <= wrong
    # A law that is 2^28 steps wide is at the level to eight digits, one step less is more than that.
    assert reach == 0 or beyond(law.rate, reach - 1) > wrong * (1 - Fraction(1, 10**8))


@pytest.mark.parametrize("residue", [0, 1, -1])
@pytest.mark.parametrize("side", [-1, 1])
def test_the_interval_of_a_sum_holds_at_the_reach_wherever_the_sum_lies_within_a_noise_step(
    residue, side
):
    subject = made()
    clip = subject.search.clip((60,), simulated=True)
    noise = subject.noise_for(clip)
    assert noise.shift
    total = (123_456_789 << noise.shift) + residue % (1 << noise.shift)
    noisy = (total >> noise.shift) + side * noise.reach(Fraction(1, 20))
    low, high = clipped_ends(clip, noise, (noisy,), None, Fraction(1, 20))
    assert low <= total * clip.step <= high
    assert high - low == (2 * noise.reach(Fraction(1, 20)) + 1) * noise.step, (
        "and one noise step, no more"
    )


@pytest.mark.parametrize("rate", [Fraction(9), Fraction(1), Fraction(1, 8), Fraction(1, 3000)])
def test_gaussian_noise_is_at_most_a_step_and_a_half_from_a_continuous_one(rate):
    """P(|G| >= m + 1/2) <= P(|N| >= m) <= P(|G| >= m - 1): so both can be drawn together."""
    with mpmath.workdps(30):
        root = mpmath.sqrt(mpmath.mpf(rate.numerator) / rate.denominator)
        last = math.ceil(8 / float(root)) + 2
        for m in range(1, last, max(1, last // 60)):
            chance = beyond(rate, m - 1)
            assert (
                mpmath.erfc(root * (m + mpmath.mpf(1) / 2)) <= chance <= mpmath.erfc(root * (m - 1))
            )


@pytest.mark.parametrize(("a", "c"), [(1.0, 0.0), (0.7, 0.3), (0.5, 0.5)])
def test_the_tail_is_that_of_a_difference_of_normal_variables(a, c):
    law = DiscreteGaussian(Fraction(1, 8))  # a deviation of 2
    y = (np.arange(-60_000, 60_000) + 0.5) * 2e-4
    weight = np.exp(-(y**2) / 2) / math.sqrt(2 * math.pi) * 2e-4
    for t in (0.0, 0.5, 3.0, 9.0):
        upper = np.array([math.erfc((t + 2 * c * one) / (2 * a) / math.sqrt(2)) / 2 for one in y])
        assert tail(law, t, a, c) == pytest.approx(2 * weight @ upper, rel=1e-6)


def test_a_wider_part_never_makes_a_tail_smaller():
    law = DiscreteGaussian(Fraction(1, 2))
    for t in (0.2, 1.0, 5.0):
        grid = np.linspace(0.05, 1, 20)
        table = np.array([[tail(law, t, max(a, c), min(a, c)) for a in grid] for c in grid])
        assert (np.diff(table, axis=0) >= -1e-15).all()
        assert (np.diff(table, axis=1) >= -1e-15).all()


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("wrong", [0.05, 0.3])
@pytest.mark.parametrize(("u", "v"), [(0, 40), (40, 0), (9, 21), (200, 200), (1, 1)])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 200)])
@pytest.mark.each_value
def test_the_true_share_is_refuted_as_seldom_as_is_said_over_the_whole_law(
    rate, u, v, wrong, one_sided
):
    """Every pair of draws with its probability: no simulation."""
    law = DiscreteGaussian(rate)
    reach = math.ceil(6.5 / math.sqrt(2 * float(rate)))
    draws = np.arange(-reach, reach + 1)
    mass = law.pmf(draws)
    share, whole = Fraction(u, u + v), 1 << 64
    cell = (math.floor(share * whole), math.ceil(share * whole))
    missed = 0.0
    for x, chance in zip(draws.tolist(), mass.tolist(), strict=True):
        for y, other in zip(draws.tolist(), mass.tolist(), strict=True):
            first, second = u + x, v + y
            # Nothing is refuted where both together are no more than noise.
            if first + second > 0 and ShareTest(first, second, law, 0, wrong, one_sided).refutes(
                *cell
            ):
                missed += chance * other
    assert missed <= wrong
    if not one_sided and rate < Fraction(1, 100) and u + v == 400:
        assert missed > 0.5 * wrong, "and not for nothing"


def test_the_ends_hold_every_share_that_is_not_refuted():
    law = DiscreteGaussian(Fraction(1, 300))
    for first, second in [(30, 70), (-4, 60), (55, -9), (2, 1)]:
        test = ShareTest(first, second, law, 1, 0.05, False)
        low, high = test.ends()
        for k in range(65):
            if not test.refutes(k << 58, k << 58):
                assert low <= Fraction(k, 64) <= high


@BOTH
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.each_value
def test_intervals_cover_the_clipped_figure(estimator, adjacency):
    subject, stream, values = (
        made(estimator, adjacency, epsilon=2),
        Seeded(5),
        [2.0, 9.5, 30.0] * 20,
    )
    clip = subject.search.clip((60,), simulated=True)
    total = sum(max(clip.low, min(clip.high, math.floor(Fraction(x) / clip.step))) for x in values)
    rest = (total,) if estimator is ClippedSum else (total, len(values))
    wanted = float(total * clip.step / (1 if estimator is ClippedSum else len(values)))
    if estimator is ClippedVariance:
        rest = (subject.moments(values, clip),)
        wanted = float(np.var(np.clip(values, *clip.ends)))
    drawn = [subject.finish(*rest, clip, entropy=stream) for _ in range(150)]
    ends = [one.interval_at(confidence=0.8) for one in drawn]
    hit = np.mean([low <= wanted <= high for low, high in ends])
    assert hit >= 0.8 - 0.1
    if estimator is ClippedSum:
        assert hit == pytest.approx(0.8, abs=0.1), "exact quantiles"
        deviation = np.std([one.value for one in drawn])
        assert deviation == pytest.approx(drawn[0].standard_error, rel=0.2)
        expected = clip.ends[1] / math.sqrt(2 * float(RHO))
        assert drawn[0].standard_error == pytest.approx(expected, rel=1e-6)


ODD = {
    "nothing": [],
    "one": [3],
    "missing": [None, math.nan] * 5,
    "extremes": [0.0, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan] * 3,
}


@BOTH
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("lower", [0, None, -7.5])
@pytest.mark.each_value
def test_whatever_the_records_hold_a_release_is_a_finite_number_within_its_interval(
    estimator, adjacency, lower
):
    subject = made(estimator, adjacency, lower=lower)
    for values in ODD.values():
        released = subject.release(values, entropy=Seeded(1))
        low, high = released.interval
        assert math.isfinite(low)
        assert low <= released.value <= high
        below, above = released.true_interval(within_cap=True)
        assert math.isfinite(below)
        assert below <= above < math.inf
        assert json.loads(json.dumps(released.to_dict(), allow_nan=False))


@pytest.mark.parametrize("estimator", [ClippedSum, ClippedMean])
@pytest.mark.parametrize("cap", [1e-230, 1e250])
@pytest.mark.parametrize("rho", [1e-9, 1e6])
def test_what_is_accepted_is_released_wherever_the_search_ends(estimator, cap, rho):
    m = estimator(
        epsilon=1,
        adjacency="add-remove",
        cap=cap,
        lower=None,
        growth=10,
        unit=cap * 1e-15,
        total_rho=rho,
    )
    searches = len(m.search.runs(BucketCounts.empty(m.grid)))
    for tests in [(1,) * searches, (None,) * searches, (3, 5)[:searches]]:
        clip = m.search.clip(tests, simulated=True)
        many = (clip.high << 63,) if estimator is ClippedSum else (clip.high << 63, 1 << 63)
        found = m.finish(*many, clip, entropy=Seeded(1))
        assert all(map(math.isfinite, (found.value, found.standard_error, *found.interval)))
