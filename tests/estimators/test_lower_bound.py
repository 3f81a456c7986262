"""Lower bounds against exact sums over all noise: their coverage for every height, their oracles, and the ones that are wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from sordino import (
    COUNTING,
    AdaptiveSparseVector,
    GaussianSparseVector,
    GumbelSparseVector,
    HybridSparseVector,
    HybridTopK,
    InvalidParameter,
    LaplaceMechanism,
    Seeded,
    Sensitivity,
    SparseVector,
    lower_bound,
)
from sordino.estimators.difference import Difference
from sordino.noise import DiscreteLaplace, Geometric
from support.findings import (
    LIFTS,
    REACH,
    RHO,
    alone,
    bounds,
    findings,
    made,
    masses,
    tails,
    vector,
    verdict,
    wrong,
)

HALF, THIRD, NEAR = Fraction(1, 2), Fraction(1, 3), Fraction(1, 2) + Fraction(1, 1 << 36)
FAMILIES = list(product(("exponential", "laplace"), repeat=2))
RATES = [(HALF, HALF), (HALF, THIRD), (THIRD, Fraction(3, 4)), (HALF, NEAR)]
CONFIDENCES = [0.1, 0.5, 0.8, 0.95, 0.99]
ROUNDING = 1e-11
LAWS = {"exponential": Geometric, "laplace": DiscreteLaplace}


def plain(query, threshold, z):
    """P(X - Y >= z) in 60 digits, term by term over the noise of the threshold."""

    def power(rate, n):
        return (-Decimal(rate.numerator) * n / Decimal(rate.denominator)).exp()

    def mass(law, y):
        r = power(law.rate, 1)
        return (
            (1 - r) / (1 + r) * power(law.rate, abs(y))
            if law.name == "laplace"
            else (1 - r) * power(law.rate, y)
        )

    def tail(law, x):
        if law.name == "exponential":
            return power(law.rate, max(x, 0))
        r = power(law.rate, 1)
        return power(law.rate, x) / (1 + r) if x > 0 else 1 - power(law.rate, 1 - x) / (1 + r)

    low = 0 if threshold.name == "exponential" else -150
    return sum(mass(threshold, y) * tail(query, z + y) for y in range(low, 150))


@pytest.mark.parametrize(("a", "b"), [*RATES, (Fraction(5), THIRD)])
@pytest.mark.parametrize(("query", "threshold"), FAMILIES)
@pytest.mark.sample(4)
def test_the_law_of_the_difference(query, threshold, a, b):
    law = Difference(LAWS[query](a), LAWS[threshold](b))
    with localcontext() as context:
        context.prec = 60
        for z in (-6, -1, 0, 1, 2, 7):
            low, high = law.at_least(z, 80)
            wanted = plain(law.query, law.threshold, z)
            assert low - Decimal(10) ** -20 <= wanted <= high + Decimal(10) ** -20
            assert high - low < Decimal(10) ** -30


@pytest.mark.parametrize(("query", "threshold"), FAMILIES)
@pytest.mark.parametrize(("a", "b"), RATES)
@pytest.mark.each_value
def test_a_condition_raises_every_tail_less_for_higher_answers(query, threshold, a, b):
    """The lemma: P(Z >= lift - x | Z >= -x) does not fall as x rises."""
    law = Difference(LAWS[query](a), LAWS[threshold](b))
    tail = {z: law.at_least(z, 60)[0] for z in range(-40, 60)}
    for lift in (1, 4, 15):
        shares = [tail[lift - x] / tail[-x] for x in range(-40, 40)]
        assert all(a <= b + Decimal(10) ** -20 for a, b in pairwise(shares))


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize(("query", "threshold"), FAMILIES)
@pytest.mark.each_value
def test_the_bound_is_wrong_and_found_with_at_most_the_stated_probability(
    query, threshold, confidence
):
    for a, b in RATES:
        mechanism = vector(query, a, threshold, b)
        bound = bounds(mechanism, confidence, selective=False)
        found = alone(mechanism)
        chances = [wrong(found[x], x, bound) for x in found]
        assert max(chances) <= 1 - confidence + ROUNDING
        tighter = [wrong(found[x], x, bound + 1) for x in found]
        assert max(tighter) > 1 - confidence, "no larger bound would do"


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize(("query", "threshold"), FAMILIES)
@pytest.mark.sample(4)
def test_the_selective_bound_is_wrong_in_at_most_the_stated_share_of_findings(
    query, threshold, confidence
):
    for a, b in RATES:
        mechanism = vector(query, a, threshold, b)
        bound = bounds(mechanism, confidence, selective=True)
        assert (bound <= bounds(mechanism, confidence, selective=False)).all()
        assert (np.diff(bound[np.isfinite(bound)]) >= 1).all(), "a larger lift never says less"
        found = alone(mechanism)
        shares = [wrong(found[x], x, bound) / found[x].sum() for x in found]
        assert max(shares) <= 1 - confidence + ROUNDING
        tighter = [wrong(found[x], x, bound + 1) / found[x].sum() for x in found]
        assert max(tighter) > 1 - confidence, "no larger bound would do"


def twins(mechanism, confidence):
    """Bounds that look right: the tail on the other side, and the bound without condition where there is one."""
    z = np.arange(-REACH, REACH)
    tail = np.array(
        [
            (masses(mechanism.threshold_noise, RHO) * tails(mechanism.noise, RHO + x)).sum()
            for x in z
        ]
    )
    other_side = -z[
        tail >= confidence
    ].max()  # P(Z >= -t) >= confidence, as for noise that is symmetric
    return {
        "other tail": LIFTS - other_side,
        "unconditional": bounds(mechanism, confidence, selective=False),
    }


def test_broken_bounds_are_convicted():
    mechanism = vector(a=Fraction(1, 4), b=HALF)
    twin = twins(mechanism, 0.95)
    found = alone(mechanism)
    assert max(wrong(found[x], x, twin["other tail"]) for x in found) > 0.2
    assert max(wrong(found[x], x, twin["unconditional"]) / found[x].sum() for x in found) > 0.9
    symmetric = vector("laplace", Fraction(1, 4), "laplace", HALF)
    assert (
        twins(symmetric, 0.95)["other tail"] == bounds(symmetric, 0.95, selective=False)
    ).all(), "symmetric noise hides it"


LISTS = [(0, -3, 2), (-8, 0, 4), (3, 3, 3), (-2, 5, -6), (6, -1, 0)]


@pytest.mark.parametrize(
    "options", [{"positives": 1}, {"positives": 2}, {"positives": 2, "resample": True}], ids=str
)
@pytest.mark.parametrize(("query", "threshold"), FAMILIES)
def test_both_hold_for_every_place_of_a_list(query, threshold, options):
    """The noise of the threshold that earlier answers met is not the one it had: the bounds do not depend on it."""
    for confidence in (0.8, 0.95):
        mechanism = vector(query, HALF, threshold, THIRD, **options)
        without, given = (
            bounds(mechanism, confidence, selective=selective) for selective in (False, True)
        )
        for heights in LISTS:
            for height, found in zip(heights, findings(heights, mechanism), strict=True):
                assert wrong(found, height, without) <= 1 - confidence + ROUNDING
                assert wrong(found, height, given) <= (1 - confidence) * found.sum() + ROUNDING


def test_the_sums_over_lists_are_probabilities():
    for options in ({"positives": 2}, {"positives": 2, "resample": True}):
        mechanism = vector("laplace", HALF, "exponential", THIRD, **options)
        each = findings((0, 1, 2), mechanism).sum(axis=1)
        assert each[0] == pytest.approx(
            tails(mechanism.noise, RHO) @ masses(mechanism.threshold_noise, RHO)
        )
        assert each.sum() < 2
    assert findings((60, 60, 60), mechanism).sum(axis=1) == pytest.approx([1, 1, 0], abs=1e-6)
    assert findings((3,), mechanism)[0] == pytest.approx(alone(mechanism)[3])


def test_why_streams_with_several_positives_have_no_selective_bound():
    """A question that is asked only because others were found meets a threshold whose noise was low."""
    mechanism = vector(a=HALF, b=Fraction(1, 8), positives=6)
    bound = bounds(vector(a=HALF, b=Fraction(1, 8)), 0.95, selective=True)
    first = (
        masses(mechanism.threshold_noise, RHO) * tails(mechanism.noise, RHO + 20) ** 5
    )  # five far below that were found
    share = 0.0
    for x in range(10):
        found = first @ masses(mechanism.noise, RHO[:, None] + LIFTS - x)
        share = max(share, wrong(found, x, bound) / found.sum())
    assert share > 0.1
    with pytest.raises(
        InvalidParameter, match="selective must be False for a stream with several positives"
    ):
        lower_bound(verdict(mechanism, 9), selective=True)
    assert lower_bound(verdict(mechanism, 9)) < 9
    assert lower_bound(made(mechanism), selective=True)[60] > 0, "a list fixes its questions before"
    again = vector(a=HALF, b=Fraction(1, 8), positives=6, resample=True)
    assert lower_bound(verdict(again, 60), selective=True) == bound[60]


# Several tests for one answer.


def in_branches(mechanism, x):
    """P(found by branch j with lift l), shape (branches, REACH), of one answer x."""
    waiting, found = masses(mechanism.threshold_noise, RHO), []
    for law, correction in zip(mechanism.branch_noise, mechanism.branch_corrections, strict=True):
        height = x - math.ceil(mechanism.threshold + correction)
        found.append(waiting @ masses(law, RHO[:, None] + LIFTS - height))
        waiting = waiting * (1 - tails(law, RHO - height))
    return np.array(found)


def branch_bounds(mechanism, confidence):
    """The bound for each branch and lift, as verdicts have it."""
    rows = []
    for branch, correction in enumerate(mechanism.branch_corrections):
        above = math.ceil(mechanism.threshold + correction) - Fraction(mechanism.threshold)
        fired = [
            replace(
                verdict(vector(), 0), mechanism=mechanism, branch=branch, gap=float(lift + above)
            )
            for lift in LIFTS
        ]
        rows.append([lower_bound(each, confidence=confidence) for each in fired])
    return np.array(rows)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_branches_share_what_may_be_wrong(noise):
    """Each branch is one more chance to be found and wrong; a bound at full confidence in each of them would be wrong too often."""
    m = AdaptiveSparseVector(
        threshold=0.5,
        at_least=1,
        epsilon=1.5,
        sensitivity=COUNTING,
        boundaries=(25, 0),
        noise=noise,
    )
    shared, full = (
        branch_bounds(m, 0.8),
        branch_bounds(m, 0.6),
    )  # two branches: 0.6 is each of them at 0.8
    chances = {"shared": 0.0, "full": 0.0}
    for x in range(-30, 40):
        found = in_branches(m, x)
        assert found.sum() <= 1
        chances["shared"] = max(chances["shared"], float(found[shared > x].sum()))
        chances["full"] = max(chances["full"], float(found[full > x].sum()))
    assert 0.1 < chances["shared"] <= 0.2
    assert chances["full"] > 0.22


def test_adaptive_sparse_vectors_and_hybrids_have_no_selective_bound():
    adaptive = AdaptiveSparseVector(threshold=100, at_least=2, epsilon=1, sensitivity=COUNTING)
    hybrid = HybridSparseVector(k=2, threshold=100, epsilon=1, sensitivity=COUNTING)
    for mechanism in (adaptive, hybrid):
        found = mechanism.release([900, 90, 800], entropy=Seeded(1))
        laws = [
            Difference(law, mechanism.threshold_noise)
            for law in getattr(mechanism, "branch_noise", (mechanism.noise,))
        ]
        reach = [law.reach(Fraction(1, 20) / len(laws)) for law in laws]
        values = 100 + found.gaps
        assert lower_bound(found).tolist() == [
            value - reach[branch] for value, branch in zip(values, found.branches, strict=True)
        ]
        with pytest.raises(
            InvalidParameter,
            match=f"selective must be False for what {type(mechanism).__name__} found",
        ):
            lower_bound(found, selective=True)


# Oracles: the continuous limit.


FINE = Sensitivity(bound=1, monotone=False, adjacency="replace-one")


def test_the_quantile_of_exponential_noise():
    mechanism = SparseVector(
        threshold=0, positives=1, epsilon=1, sensitivity=FINE, split=0.5
    )  # scales 4 and 2
    reach = (LIFTS - bounds(mechanism, 0.95, selective=False))[0] * float(mechanism.step)
    assert reach == pytest.approx(10.361068661783307, abs=1e-5)  # L2
    low = Difference(mechanism.noise, mechanism.threshold_noise).reach(Fraction(9, 10)) * float(
        mechanism.step
    )
    assert low == pytest.approx(2 * math.log(0.1 * 6 / 2), abs=1e-5)  # below b/(s + b) = 1/3


def test_the_tail_of_laplace_noise():
    law = Difference(DiscreteLaplace(Fraction(1, 4 << 20)), DiscreteLaplace(Fraction(2, 5 << 20)))
    assert 1 - float(law.at_least((3 << 20) + 1)[0]) == pytest.approx(
        0.7089537938766681, abs=1e-6
    )  # L1
    law = Difference(DiscreteLaplace(Fraction(1, 1 << 20)), DiscreteLaplace(Fraction(1, 1 << 20)))
    assert float(law.at_least((3 << 20) + 1)[0]) == pytest.approx(
        (2 + 3) / 4 * math.exp(-3), abs=1e-6
    )  # rates that agree


@pytest.mark.parametrize("gap", [11.0, 11.99, 12.5, 15, 40, 300])
def test_the_selective_bound_of_exponential_noise(gap):
    s, b, alpha = 4.0, 2.0, 0.05
    mechanism = SparseVector(threshold=0, positives=1, epsilon=1, sensitivity=FINE, split=0.5)
    bound = lower_bound(verdict(mechanism, int(gap / mechanism.step)), selective=True)
    if math.exp(-gap / s) > alpha:
        assert bound == -math.inf
        return
    low, high = 0.0, gap
    for _ in range(80):
        x = (low + high) / 2
        likely = s / (s + b) * math.exp(-(gap - x) / s) > alpha * (
            1 - b / (s + b) * math.exp(-x / b)
        )
        low, high = (low, x) if likely else (x, high)
    assert bound == pytest.approx(low, abs=1e-4)


# What is read from a release.


@pytest.mark.parametrize(
    ("threshold", "correction"),
    [
        (0, None),
        (100, 2),
        (Fraction(1, 3), None),
        (0.1, Fraction(7, 3)),
        (-1e6, -5.5),
        (2**50, "optimal"),
    ],
)
def test_any_threshold_and_correction(threshold, correction):
    """Bounds of heights depend on the lift alone, wherever the threshold lies on the grid."""
    options = {"correction_run": 10} if correction == "optimal" else {}
    mechanism = vector(
        "laplace", HALF, "exponential", THIRD, threshold=threshold, correction=correction, **options
    )
    wanted = {
        selective: bounds(vector("laplace", HALF, "exponential", THIRD), 0.9, selective=selective)
        for selective in (False, True)
    }
    for selective, heights in wanted.items():
        assert (bounds(mechanism, 0.9, selective=selective) == heights).all()
        each = [
            lower_bound(verdict(mechanism, int(lift)), confidence=0.9, selective=selective)
            for lift in LIFTS[:40]
        ]
        assert (np.array(each) - mechanism.cut().steps == heights[:40]).all()


def test_thresholds_of_each_question():
    m = SparseVector(threshold=0, positives=3, epsilon=1, sensitivity=COUNTING, correction=2)
    thresholds = [100.25, 7, -50.5]
    found = m.release([200, 90, 33], thresholds, entropy=Seeded(3))
    assert found.indices.size == 3
    law = Difference(m.noise, m.threshold_noise)
    bound, given = lower_bound(found), lower_bound(found, selective=True)
    for i, threshold in enumerate(thresholds):
        value = round(threshold + found.gaps[i])
        assert bound[i] == value - law.reach(Fraction(1, 20))
        cut = math.ceil(threshold + 2)
        assert given[i] == cut + law.lowest(value - cut, Fraction(1, 20))
    with m.open(entropy=Seeded(3)) as stream:
        for i, (answer, threshold) in enumerate(zip([200, 90, 33], thresholds, strict=True)):
            said = stream.ask(answer, threshold)
            assert said.threshold == threshold
            assert said.estimate == pytest.approx(
                threshold + said.gap - m.noise.mean + m.threshold_noise.mean, abs=1e-9
            )
            assert lower_bound(said) == round(threshold + said.gap) - law.reach(Fraction(1, 20))
            assert bound[i] < answer


def test_a_verdict_knows_the_threshold_of_its_question():
    """Two thresholds on the grid leave the same gap: nothing but the verdict tells which one it was."""
    mechanism = vector(threshold=0.5)
    assert (
        lower_bound(verdict(mechanism, 20, 3))
        == lower_bound(verdict(mechanism, 20, 40)) - 37
        == lower_bound(verdict(mechanism, 20)) + 2
    )
    with mechanism.open(entropy=Seeded(1)) as stream:
        assert [stream.ask(-(10**6)).threshold, stream.ask(-(10**6), 9).threshold] == [0.5, 9]
        assert stream.ask(-(10**6)).estimate is None


def test_nothing_can_be_said_without_a_gap():
    assert lower_bound(verdict(vector(), None)) == -math.inf
    again = SparseVector(threshold=50, positives=2, epsilon=1, sensitivity=COUNTING, passes=30)
    found = again.release([60, 45], entropy=Seeded(5))
    late = found.passes > 1
    assert late.any()
    for selective in (False, True):
        assert (lower_bound(found, selective=selective)[late] == -math.inf).all()
    none = SparseVector(threshold=10**6, positives=2, epsilon=1, sensitivity=COUNTING).release(
        [1, 2], entropy=Seeded(5)
    )
    assert lower_bound(none).shape == (0,)


def test_the_lowest_value_of_the_clamp_stands_for_everything_below():
    mechanism = vector(threshold=-(2**52))
    assert lower_bound(verdict(mechanism, 3)) == -math.inf
    assert lower_bound(verdict(mechanism, 1000)) > -(2**52)


@pytest.mark.parametrize("step", [Fraction(1, 2**300), Fraction(1, 4), Fraction(2**300)], ids=float)
def test_any_step(step):
    statement = Sensitivity(bound=step, monotone=True, adjacency="add-remove", step=step)
    m = SparseVector(threshold=0, positives=1, epsilon=1, sensitivity=statement, split=0.5)
    other = SparseVector(threshold=0, positives=1, epsilon=1, sensitivity=COUNTING, split=0.5)
    assert lower_bound(verdict(m, 12), selective=True) == lower_bound(
        verdict(other, 12), selective=True
    ) * float(step)


def test_floats_without_digits_left_lower_the_bound():
    mechanism = vector(threshold=2**52)
    law = Difference(mechanism.noise, mechanism.threshold_noise)
    for lift in (1, 2, 12345, 2**30 + 1, 2**51 - 1):
        exact = 2**52 + lift - law.reach(Fraction(1, 20))
        assert 0 <= exact - lower_bound(verdict(mechanism, lift)) <= 2
        assert 0 <= exact - lower_bound(made(mechanism, [lift]))[0] <= 4
    # Noise that is hardly ever so large: floats skip steps there, whichever way the bound then falls.
    mechanisms = {threshold: vector(threshold=threshold) for threshold in (2**52, -(2**50))}
    far = (*range(2**53, 2**53 + 30), *range(2**60, 2**60 + 600, 7))
    for threshold, lift, confidence in product(mechanisms, far, (0.9, 0.95, 0.975)):
        mechanism = mechanisms[threshold]
        exact = threshold + lift - law.reach(1 - Fraction(str(confidence)))
        assert int(lower_bound(verdict(mechanism, lift), confidence=confidence)) <= exact
        assert int(lower_bound(made(mechanism, [lift]), confidence=confidence)[0]) <= exact
        assert (
            int(lower_bound(made(mechanism, [lift]), confidence=confidence, selective=True)[0])
            <= exact
        )
    third = vector(threshold=Fraction(1, 3))
    for lift in (
        2**40 + 1,
        2**52 - 5,
    ):  # the gap, a lift and two thirds, has no digit for the thirds
        assert 0 <= 1 + lift - law.reach(Fraction(1, 20)) - lower_bound(verdict(third, lift)) <= 4
        assert (
            0
            <= 1
            + lift
            - law.reach(Fraction(1, 20))
            - lower_bound(made(third, [lift]), selective=True)[0]
            <= 4
        )


def test_a_gap_that_was_rounded_up_to_the_next_step_is_not_taken_for_a_larger_lift():
    """Almost a step above threshold and correction: some gaps become floats that are more than a step above."""
    mechanism = vector(threshold=Fraction(3, 5) + Fraction(1, 10**20), correction=Fraction(2, 5))
    wanted = bounds(vector(), 0.9, selective=True) + mechanism.cut().steps
    given = lower_bound(made(mechanism), confidence=0.9, selective=True)
    assert (given <= wanted).all()
    rounded_up = [
        Fraction(gap) - Fraction(2, 5) >= lift + 1
        for lift, gap in zip(LIFTS.tolist(), made(mechanism).gaps, strict=True)
    ]
    larger = bounds(vector(), 0.9, selective=True) + mechanism.cut().steps - LIFTS
    assert any(up and larger[lift + 1] > larger[lift] for lift, up in enumerate(rounded_up[:-1])), (
        "it would have mattered"
    )


def test_a_hybrid_that_met_its_threshold_has_a_bound():
    m = HybridTopK(k=3, threshold=100, epsilon=3, sensitivity=COUNTING)
    found = m.release([300, 200, 5, 7], entropy=Seeded(1))
    assert found.crossed
    reach = Difference(m.noise, m.noise).reach(Fraction(1, 20))
    assert lower_bound(found).tolist() == (found.estimates - reach).tolist()
    full = m.release([300, 200, 205, 7], entropy=Seeded(1))
    assert not full.crossed
    assert (lower_bound(full) == -math.inf).all()
    with pytest.raises(InvalidParameter, match="selective must be False for what HybridTopK found"):
        lower_bound(found, selective=True)


def test_gaussian_sparse_vectors_have_no_gaps():
    m = GaussianSparseVector(threshold=100, positives=2, rho=1, sensitivity=COUNTING, questions=3)
    assert lower_bound(m.release([500, 3, 600], entropy=Seeded(1))).tolist() == [-math.inf] * 2


def test_gumbel_sparse_vectors_have_no_gaps():
    m = GumbelSparseVector(threshold=100, positives=2, epsilon=4, sensitivity=COUNTING)
    for answers in ([500, 3, 600], [3]):
        found = m.release(answers, entropy=Seeded(1))
        assert lower_bound(found).tolist() == [-math.inf] * found.indices.size


def test_bad_parameters_are_refused():
    found = made(vector(), [3])
    for bad in (0, 1, 95, None):
        with pytest.raises(
            InvalidParameter, match=r"lower_bound.confidence must be a number in \(0, 1\)"
        ):
            lower_bound(found, confidence=bad)
    with pytest.raises(InvalidParameter, match=r"lower_bound.selective must be True or False"):
        lower_bound(found, selective=1)
    with pytest.raises(
        InvalidParameter,
        match=r"lower_bound.found must be a Verdict, Positives, HybridTop or UnlistedTop",
    ):
        lower_bound(LaplaceMechanism(epsilon=1, sensitivity=COUNTING).release(3))


def test_extreme_confidences():
    mechanism = vector("laplace", HALF, "laplace", HALF)
    law = Difference(mechanism.noise, mechanism.threshold_noise)
    for wrong_share in (Fraction(1, 10**300), 1 - Fraction(1, 10**300), Fraction(1, 10**5000)):
        z = law.reach(wrong_share)
        assert (
            law.at_least(z + 1, 700)[1]
            <= Decimal(wrong_share.numerator) / Decimal(wrong_share.denominator)
            or z > 10_000
        )
