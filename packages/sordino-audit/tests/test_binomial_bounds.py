"""Clopper and Pearson's bounds against SciPy's beta quantiles, against exact sums, and against their own promise."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
from scipy import stats

from sordino_audit.black_boxes.outcome_costs import (
    bound_from_above,
    bound_from_below,
    log_term,
    lower_tail,
)

CASES = [
    (hits, runs)
    for runs in (1, 2, 7, 40, 1000, 100_000, 5_000_000)
    for hits in sorted({0, 1, runs // 3, runs // 2, runs - 1, runs})
]


@pytest.mark.parametrize(("hits", "runs"), CASES)
@pytest.mark.parametrize("level", [0.2, 5e-4, 1e-9])
@pytest.mark.each_value
@pytest.mark.sample(15)
def test_the_ends_are_beta_quantiles_rounded_outward(hits, runs, level):
    high = 1.0 if hits == runs else stats.beta.isf(level, hits + 1, runs - hits)
    low = 0.0 if hits == 0 else stats.beta.ppf(level, hits, runs - hits + 1)
    assert high * (1 - 1e-11) <= bound_from_above(hits, runs, level) <= high * (1 + 3e-6) + 1e-15
    assert low * (1 + 1e-9) >= bound_from_below(hits, runs, level) >= low * (1 - 3e-6) - 1e-15
    assert bound_from_below(hits, runs, level) <= hits / runs <= bound_from_above(hits, runs, level)


@pytest.mark.parametrize(
    ("hits", "runs", "p"),
    [(0, 9, 0.1), (3, 9, 0.5), (40, 1000, 0.06), (499_000, 10**6, 0.5), (10**7, 10**8, 0.1001)],
)
@pytest.mark.slow
def test_tails_are_right_to_a_millionth(hits, runs, p):
    with mpmath.workdps(40):
        ways = (
            mpmath.loggamma(runs + 1) - mpmath.loggamma(hits + 1) - mpmath.loggamma(runs - hits + 1)
        )
        term = mpmath.exp(
            ways + hits * mpmath.log(p) + (runs - hits) * mpmath.log(1 - mpmath.mpf(p))
        )
        assert math.exp(log_term(hits, runs, p)) == pytest.approx(float(term), rel=2e-7)
        total, each = mpmath.mpf(1), mpmath.mpf(1)
        for j in range(hits, max(0, hits - 20_000), -1):
            each *= j * (1 - mpmath.mpf(p)) / ((runs - j + 1) * mpmath.mpf(p))
            total += each
        assert hits <= 20_000 or each < 1e-9 * total
        assert lower_tail(hits, runs, p) == pytest.approx(float(term * total), rel=4e-7)


@pytest.mark.parametrize("runs", [5, 23])
@pytest.mark.parametrize("level", [Fraction(1, 5), Fraction(1, 1000)])
@pytest.mark.slow
def test_a_bound_fails_as_rarely_as_it_says_whatever_the_probability(runs, level):
    """All outcomes of the binomial law, in fractions: no sampling."""
    ends = [
        (bound_from_below(hits, runs, float(level)), bound_from_above(hits, runs, float(level)))
        for hits in range(runs + 1)
    ]
    worst = [Fraction(0), Fraction(0)]
    for i in range(1, 200):
        p = Fraction(i, 200)
        mass = [
            math.comb(runs, hits) * p**hits * (1 - p) ** (runs - hits) for hits in range(runs + 1)
        ]
        failed = [
            sum(mass[hits] for hits, (low, _) in enumerate(ends) if low > p),
            sum(mass[hits] for hits, (_, high) in enumerate(ends) if high < p),
        ]
        worst = [max(pair) for pair in zip(worst, failed, strict=True)]
    assert max(worst) <= level
    assert min(worst) > level / 4, "nor are they wider than they need be"


@pytest.mark.slow
def test_the_table_of_what_an_audit_can_see():
    """docs/how-to/audit-someone-elses-mechanism.md: the loss that is seen of a true loss of 1, and of an event that never happens."""
    page = (
        Path(__file__).resolve().parents[3] / "docs/how-to/audit-someone-elses-mechanism.md"
    ).read_text(encoding="utf-8")
    for runs in (2_000, 20_000, 200_000, 1_000_000):
        seen = []
        for share, other in (
            (0.5, 1 / math.e),
            (0.1, 1 / math.e),
            (0.01, 1 / math.e),
            (0.001, 1 / math.e),
            (0.5, 0),
        ):
            tested = runs // 2
            low, high = (
                bound_from_below(round(tested * share), tested, 5e-4),
                bound_from_above(round(tested * share * other), tested, 5e-4),
            )
            seen.append(max(0.0, math.log(low / high)))
        cells = [f"{each:.2f}" if each else "0" for each in seen[:-1]] + [f"{seen[-1]:.1f}"]
        assert f"| {runs:,} | {' | '.join(cells)} |" in page
