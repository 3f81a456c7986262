"""The privacy loss of noisy counts of unlisted labels, enumerated: the failure is what one unit's own labels reach, and nothing is refunded."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache, reduce
from itertools import product

import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import Seeded, UnlistedHistogram
from sordino.cost import Approximate, ApproximateZCDP
from sordino.mechanisms.unlisted.occurring import counting
from sordino.mechanisms.unlisted.unlisted_histogram import decide
from sordino_audit import Subject
from sordino_audit.enumeration.subjects import subject_of
from support.unlisted import moves

REACH = 24


def mass(kind, rate, x):
    if kind == "laplace":
        r = math.exp(-rate)
        return (1 - r) / (1 + r) * r ** np.abs(x)
    whole = np.exp(-rate * np.arange(-400, 401) ** 2.0).sum()
    return np.exp(-rate * np.asarray(x, dtype=float) ** 2) / whole


@cache
def of_label(kind, rate, count, least, threshold):
    """P(not told), and P(told with the value threshold + i), of one label."""
    if count < least:
        return np.append(1.0, np.zeros(REACH))
    told = mass(kind, rate, threshold + np.arange(REACH) - count)
    return np.append(1 - told.sum(), told)


def law(kind, rate, table, least, threshold):
    """The law of all that is told: labels are independent."""
    return reduce(
        np.multiply.outer, [of_label(kind, rate, count, least, threshold) for count in table]
    )


def stick(p, q, epsilon):
    return max(
        np.maximum(p - math.exp(epsilon) * q, 0).sum(),
        np.maximum(q - math.exp(epsilon) * p, 0).sum(),
    )


CASES = [
    (most, either, least, offset)
    for most in (1, 2, 3)
    for either in (False, True)
    for least, offset in ((1, 3), (3, 1))
]


def tables(least, offset, n):
    heights = sorted({least - 1, least, least + offset - 1, least + offset, least + offset + 4})
    return list(product(heights if n < 3 else heights[::2], repeat=n))


@pytest.mark.parametrize(("most", "either", "least", "offset"), CASES)
@pytest.mark.sample(3)
def test_what_fails_with_laplace_noise_is_delta(most, either, least, offset):
    n, rate = max(2, most), 0.7
    threshold, epsilon = least + offset, rate * most * (2 if either else 1)
    chance = mass("laplace", rate, np.arange(offset, offset + 300)).sum()
    delta = 1 - (1 - chance) ** most
    worst = 0.0
    for a in tables(least, offset, n):
        for b in moves(a, most, either=either):
            p, q = (law("laplace", rate, table, least, threshold) for table in (a, b))
            worst = max(worst, stick(p, q, epsilon))
    assert worst <= delta + 1e-12
    alone = [tuple([least] * most + [0] * (n - most)), tuple([least - 1] * most + [0] * (n - most))]
    p, q = (law("laplace", rate, table, least, threshold) for table in alone)
    assert stick(p, q, epsilon) == pytest.approx(delta, abs=1e-6), (
        "attained by a unit with labels of its own"
    )


@pytest.mark.parametrize(("most", "either", "least", "offset"), CASES)
@pytest.mark.sample(3)
def test_what_fails_with_gaussian_noise_is_a_delta_beside_a_rho(most, either, least, offset):
    n, rate = max(2, most), 0.15
    threshold, rho = least + offset, rate * most * (2 if either else 1)
    chance = mass("gaussian", rate, np.arange(offset, offset + 300)).sum()
    cost = ApproximateZCDP(rho=Fraction(rho), delta=Fraction(1 - (1 - chance) ** most))
    allowed = {epsilon: cost.delta(epsilon) for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0)}
    for a in tables(least, offset, n):
        for b in moves(a, most, either=either):
            p, q = (law("gaussian", rate, table, least, threshold) for table in (a, b))
            for epsilon, most_allowed in allowed.items():
                assert stick(p, q, epsilon) <= most_allowed + 1e-12


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_rule_that_forgets_the_failure_is_convicted(noise):
    rate, least, offset = (0.7, 1, 3) if noise == "laplace" else (0.15, 1, 8)
    p, q = (law(noise, rate, table, least, least + offset) for table in ((1, 1), (0, 0)))
    chance = mass(noise, rate, np.arange(offset, 300)).sum()
    delta = 1 - (1 - chance) ** 2
    if noise == "laplace":
        assert stick(p, q, 1.4) == pytest.approx(delta, abs=1e-6)
        assert delta > 0.05
    else:
        # Beyond every epsilon the failure is left, which a rho alone does not allow.
        assert stick(p, q, 20) == pytest.approx(delta)
        assert delta > ApproximateZCDP(rho=0.3, delta=0).delta(20)


def listed(noisy, threshold, k):
    """What is told by the definition: (place, value), best first, ties by place."""
    found = sorted(((-value, place) for place, value in noisy.items() if value >= threshold))
    return [(place, -value) for value, place in found[:k]]


@pytest.mark.parametrize("k", [None, 1, 2, 9])
def test_decide_does_what_the_definition_says(k):
    rng = np.random.Generator(np.random.PCG64(3))
    for n in (0, 1, 2, 5):
        counts = rng.integers(0, 8, n)
        noise = rng.integers(-4, 5, (30, n))
        rows = decide(counts, noise, 2, 5, k)
        for row, items, values in zip(noise, *rows, strict=True):
            noisy = {i: int(counts[i] + row[i]) for i in range(n) if counts[i] >= 2}
            wanted = listed(noisy, 5, k)
            found = int((items >= 0).sum())
            assert list(zip(items[:found].tolist(), values[:found].tolist(), strict=True)) == wanted
            assert (items[found:] == -1).all()
            assert not values[found:].any()
            assert [x.tolist() for x in decide(counts, row, 2, 5, k)] == [
                items.tolist(),
                values.tolist(),
            ]
            alike = [x.tolist() for x in decide(counts, row.astype(object), 2, 5, k)]
            assert alike == [items.tolist(), values.tolist()]


def test_what_is_declared():
    for either, most in product((False, True), (1, 3)):
        spread = 2 if either else 1
        m = UnlistedHistogram(epsilon=0.7, delta=1e-6, sensitivity=counting(most, either=either))
        assert m.noise.rate == Fraction(7, 10) / (spread * most)
        assert m.cost == Approximate(epsilon=0.7, delta=1e-6)
        g = UnlistedHistogram(rho=0.3, delta=1e-6, sensitivity=counting(most, either=either))
        assert g.noise.rate == Fraction(3, 10) / (spread * most)
        assert g.cost == ApproximateZCDP(rho=0.3, delta=1e-6)
        for one in (m, g):
            failing = [
                1 - (1 - float(one.noise.sf(t - 2))) ** most
                for t in (one.threshold, one.threshold - 1)
            ]
            assert failing[0] <= 1e-6 < failing[1]
            assert getattr(one, "per_transcript", False) is False, (
                "nothing comes back where all noisy counts went out"
            )
    assert (
        UnlistedHistogram(epsilon=1, delta=1e-6, sensitivity=counting(3), above=99.5).threshold
        == 100
    )
    assert UnlistedHistogram(epsilon=1, delta=1e-6, sensitivity=counting(3)).threshold == 45


def twin(m, n, **changes):
    honest = subject_of(m, n)
    own = {
        "laws": honest.laws,
        "play": honest.play,
        "steps": honest.steps,
        "cost": m.cost,
        "cost_of": honest.cost_of,
    }
    return Subject(**(own | {"sensitivity": m.sensitivity} | changes))


@pytest.mark.slow
def test_the_claims_hold_and_are_reached():
    for report in audit.run_claims("UnlistedHistogram"):
        report.raise_if_broken()
        assert report.tight or not report.claim.tight


@pytest.mark.slow
def test_a_refund_for_labels_that_were_not_found_is_convicted():
    """Items that are not found pay a full rate each: a threshold without noise stands still while counts fall."""
    m = UnlistedHistogram(epsilon=2, delta=0.001, sensitivity=counting(2))
    pair = {
        "answers_a": (m.threshold, m.threshold),
        "answers_b": (m.threshold + 1, m.threshold + 1),
    }

    def cost_of(output):
        found = sum(item >= 0 for item in output[:2])
        return Approximate(epsilon=min(found + 1, 2) * m.noise.rate, delta=0.001)

    assert not audit.exact(twin(m, 2), **pair).broken
    report = audit.exact(twin(m, 2, cost_of=cost_of), **pair)
    assert report.broken
    assert report.at_claim.at_least > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{"epsilon": 2}, {"rho": 0.5}])
def test_a_threshold_that_is_one_step_lower_is_convicted(kind):
    failing = Fraction("0.0714699") if "epsilon" in kind else Fraction("0.01")
    m = UnlistedHistogram(**kind, delta=failing, sensitivity=counting(2))
    pair = {"answers_a": (1, 1), "answers_b": (0, 0)}
    low = twin(
        m,
        2,
        play=lambda q, x: np.concatenate(
            decide(np.asarray(q), x, 1, m.threshold - 1, None), axis=1
        ),
    )
    epsilons = None if "epsilon" in kind else [12]
    assert not audit.exact(twin(m, 2), **pair, epsilons=epsilons).broken
    assert audit.exact(low, **pair, epsilons=epsilons).broken


@pytest.mark.slow
def test_noise_for_half_of_what_replace_one_moves_is_convicted():
    m = UnlistedHistogram(epsilon=2, delta=0.001, sensitivity=counting(1))
    both = counting(1, either=True)
    pair = {
        "answers_a": (m.threshold + 3, m.threshold + 2),
        "answers_b": (m.threshold + 2, m.threshold + 3),
    }
    assert audit.exact(twin(m, 2, sensitivity=both), **pair).broken


@pytest.mark.parametrize("kind", [{"epsilon": 2}, {"rho": 0.4}])
@pytest.mark.slow
def test_a_release_has_the_law_of_the_formula(kind):
    m = UnlistedHistogram(**kind, delta=0.1, sensitivity=counting(2), least=2)
    table, names, draws = (m.threshold + 1, 1, m.threshold - 1), ["c", "a", "b"], 4000
    entropy, met = Seeded(13), Counter()
    for _ in range(draws):
        one = m.release(table, labels=names, entropy=entropy)
        values = dict(zip(one.labels, one.values.tolist(), strict=True))
        assert [(-v, name) for name, v in values.items()] == sorted(
            (-v, name) for name, v in values.items()
        )
        met[
            tuple(int(values.get(name, m.threshold - 1)) - m.threshold + 1 for name in ("b", "c"))
        ] += 1
    expected = draws * law(m.noise.name, float(m.noise.rate), (table[2], table[0]), 2, m.threshold)
    often = [place for place in np.ndindex(expected.shape) if expected[place] >= 8]
    seen, means = (
        np.array([met[place] for place in often]),
        np.array([expected[place] for place in often]),
    )
    rest = draws - means.sum()
    statistic = ((seen - means) ** 2 / means).sum() + (draws - seen.sum() - rest) ** 2 / rest
    assert stats.chi2.sf(statistic, len(often)) > 1e-5
