"""What the papers on free gaps and on the sparse vector say wrongly, each with the numbers that show it (docs/papers)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath
import pytest
from scipy import integrate

from sordino.mechanisms.crossings.split import (
    Task,
    best_correction,
    lead_probability,
    log_success,
    stays,
)
from sordino.noise import Geometric
from sordino_audit.controls.enumerated import SPARSE_VECTORS

E, L = "exponential", "laplace"


def control(name):
    return next(one for one in SPARSE_VECTORS if one.subject.name == name)


# ---- one-sided noise on the threshold (Liu et al., Table 1; Zhu and Wang's family) -------------------------------------


def one_sided_loss(sign):
    """Largest log ratio of (below, above) from answers (0, 0) to (1, -1), with exponential noise of scales 2 and 4."""

    def probability(first, second):
        value, _ = integrate.quad(
            lambda rho: (
                math.exp(-rho / 2)
                / 2
                * (1 - survival(sign * rho - first, 4))
                * survival(sign * rho - second, 4)
            ),
            0,
            80,
            points=[0.5, 1, 2],
        )
        return value

    a, b = probability(0, 0), probability(1, -1)
    return math.inf if min(a, b) < 1e-15 < max(a, b) else math.log(a / b)


def survival(x, scale):
    return math.exp(-max(x, 0) / scale)


def test_exponential_noise_may_be_added_to_the_threshold_and_not_subtracted():
    assert one_sided_loss(+1) == pytest.approx(1, abs=1e-6)  # S4: exactly epsilon, not more
    broken = control("T - Exp")
    assert broken.broken
    assert broken.loss == math.inf
    assert broken.audited().epsilon_at_least > 30  # where the enumeration ends; nothing bounds it


# ---- geometric noise (Ding et al., Table 1 and section 5.2) -----------------------------------------------------------


@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(1, 2), Fraction(2)])
def test_the_mean_of_geometric_noise_is_one_less_than_the_inverse_of_p(rate):
    p = 1 - math.exp(-rate)
    series = sum(x * p * (1 - p) ** x for x in range(1, 2000))
    assert series == pytest.approx((1 - p) / p, rel=1e-9)
    assert Geometric(rate).mean == pytest.approx(series, rel=1e-9)
    assert series != pytest.approx(1 / p, rel=1e-2)


def test_the_top_branch_is_centered_with_the_rate_of_the_middle_branch():
    """Line 7 of the geometric variant subtracts 1/p of epsilon_1 from noise of epsilon_2 = epsilon_1/2: about 2/epsilon_1 too little."""
    epsilon_1 = 0.01
    p_1, p_2 = -math.expm1(-epsilon_1 / 2), -math.expm1(-epsilon_1 / 4)
    bias = ((1 - p_2) / p_2 - 1 / p_1) + 1  # the noise of the threshold is one too low as well
    assert bias == pytest.approx(1 / p_2 - 1 / p_1)
    assert bias == pytest.approx(2 / epsilon_1, rel=2e-3)


# ---- the alignment of Lemma 6 (Ding et al.) ---------------------------------------------------------------------------


def printed_alignment(q, changed, noise, winners):
    """Equations (4) and (5), with s and t read as the largest (printed as the smallest)."""
    losers = [i for i in range(len(q)) if i not in winners]
    s = max(losers, key=lambda i: q[i] + noise[i])
    t = max(losers, key=lambda i: changed[i] + noise[i])
    shift = (changed[t] + noise[t]) - (q[s] + noise[s])
    least = min(q[i] - changed[i] + shift for i in winners)
    moved = list(noise)
    for i in winners:
        moved[i] += q[i] - changed[i] + shift - min(least, 0)
    if least < 0:
        moved[t] -= least
    return tuple(moved)


def aligned(q, changed, noise, winners):
    """The alignment of docs/proofs/noisy-top-k.md: the largest loser under q is raised, not the largest under the neighbor."""
    losers = [i for i in range(len(q)) if i not in winners]
    s = max(losers, key=lambda i: q[i] + noise[i])
    rise = max(changed[i] + noise[i] for i in losers) - (q[s] + noise[s])
    common = max(changed[i] - q[i] for i in winners)
    moved = list(noise)
    for i in winners:
        moved[i] += q[i] - changed[i] + max(rise, common)
    if rise < common:
        moved[s] += q[s] - changed[s] + common
    return tuple(moved)


def images(rule, q, changed, values, winner):
    """All images of noise on the lattice that makes `winner` win with lead 5."""
    found = []
    for low in product(values, repeat=len(q) - 1):
        others = [i for i in range(len(q)) if i != winner]
        noise = dict(zip(others, low, strict=True))
        noise[winner] = max(q[i] + noise[i] for i in others) + 5 - q[winner]
        found.append(rule(q, changed, [noise[i] for i in range(len(q))], {winner}))
    return found


def test_the_printed_alignment_of_top_k_with_exponential_noise_is_not_one_to_one():
    q, changed, values = (0, 0, 0), (2, -2, 2), range(5)  # in halves of the bound
    printed, ours = (
        images(printed_alignment, q, changed, values, 0),
        images(aligned, q, changed, values, 0),
    )
    assert len(set(printed)) < len(printed)
    assert len(set(ours)) == len(ours)


def test_our_alignment_is_one_to_one_on_every_small_neighbor_and_only_raises_noise():
    for changed in product((-1, 0, 1), repeat=3):
        for winner in range(3):
            mapped = images(aligned, (0, 0, 0), changed, range(4), winner)
            assert len(set(mapped)) == len(mapped)
            before = images(
                lambda q, c, noise, w: tuple(noise), (0, 0, 0), changed, range(4), winner
            )
            assert all(
                x >= y
                for a, b in zip(mapped, before, strict=True)
                for x, y in zip(a, b, strict=True)
            )


# ---- the best correction and appending (Liu et al., Theorems 4 and 8, section 4.3) ------------------------------------


@pytest.mark.parametrize("run", [1, 10, 200])
@pytest.mark.parametrize(("query", "threshold"), list(product((E, L), repeat=2)))
@pytest.mark.each_value
def test_without_a_margin_the_best_product_is_the_same_for_all_noise(query, threshold, run):
    """Theorem 8 says "no smaller"; it is equal, so that it ranks neither noises nor splits of the budget."""
    pair = (query, 4.0), (threshold, 2.0)
    r = best_correction(run, 0, *pair)
    product_rule = stays(r, *pair) ** run * lead_probability(r, *pair)
    assert product_rule == pytest.approx(run**run / (run + 1) ** (run + 1), rel=1e-9)


def test_the_success_probability_is_no_product_because_all_questions_meet_one_threshold():
    pair = (E, 4.0), (L, 2.0)
    r = best_correction(10, 0, *pair)
    assert r == pytest.approx(10.6358753, abs=1e-6)
    assert stays(r, *pair) ** 10 * lead_probability(r, *pair) == pytest.approx(
        0.0350493899481, abs=1e-12
    )  # C9
    # In units of bound/epsilon with kappa = 2 and half the budget for each: scales 4 and 2.
    task = Task(E, L, kappa=2, positives=1, resample=False, run=10, margin=0.0)
    assert math.exp(log_success(task, 0.5, r)) == pytest.approx(0.0289486222218, abs=1e-10)  # C10


def failure(run, alpha, r=0.0):
    """1 - P(all of `run` answers alpha below stay below, then one alpha above is found), by quadrature; epsilon 1."""
    task = Task(E, L, kappa=2, positives=1, resample=False, run=run, margin=alpha)
    return -math.expm1(log_success(task, 0.5, r))


def test_the_bound_of_theorem_4_that_its_proof_uses_is_false_and_its_statement_is_true():
    alpha = 4 * (math.log(10) + math.log(4))
    assert 2 * math.exp((math.log(10) - alpha) / 4) == pytest.approx(
        0.0889, abs=1e-4
    )  # what (31) allows at this alpha
    assert failure(10, alpha) == pytest.approx(0.2554, abs=1e-4)
    for run, beta in product((1, 10, 100), (0.01, 0.1, 0.5)):
        stated = 4 * (math.log(run) + math.log(2 / beta))
        assert failure(run, stated) <= beta
        assert failure(run, stated) <= 0.75 * beta + 1e-9  # what the sum of the two tails gives


def test_appended_passes_are_dependent_and_the_printed_sum_exceeds_one():
    """Twenty passes over one answer at the threshold, correction 10: every pass meets the same noisy threshold."""
    p = lead_probability(10, (E, 4.0), (L, 2.0))
    with mpmath.workdps(20):
        fires = lambda rho: mpmath.exp(-(10 + rho) / 4) if rho > -10 else mpmath.mpf(1)  # noqa: E731
        missed = mpmath.quad(
            lambda rho: mpmath.exp(-abs(rho) / 2) / 4 * (1 - fires(rho)) ** 20, [-10, 0, 10, 100]
        )
    assert 20 * p == pytest.approx(2.12, abs=5e-3)
    assert 1 - (1 - p) ** 20 == pytest.approx(0.8938, abs=1e-4)
    assert float(1 - missed) == pytest.approx(0.7817, abs=1e-4)


@pytest.mark.parametrize("below", [0, 5, 50])
def test_the_gap_of_a_late_pass_says_nothing_about_its_answer(below):
    """Given that it fires, exponential noise exceeds the level by a fresh exponential number, whatever the answer was."""
    scale, level = 4, 10
    conditional = [
        survival(level + below + x, scale) / survival(level + below, scale) for x in (1, 4, 9)
    ]
    assert conditional == pytest.approx([survival(x, scale) for x in (1, 4, 9)], rel=1e-12)


def test_the_printed_mean_correction_of_table_5_is_a_misprint_and_its_rows_do_not_scale():
    """Everything scales with 1/epsilon; 5332.08 at 0.01 does not belong to 52.3208/epsilon."""
    c, w = 50, 100 ** (2 / 3)
    mean = c * (1 + 1 / w)
    assert mean == pytest.approx(52.3208, abs=1e-4)
    assert mean / 0.01 == pytest.approx(5232.08, abs=0.01)
    s, b = c * (1 + w) / w, 1 + w
    exact = {run: best_correction(run, 0, (E, s), (L, b)) for run in (200, 825)}
    assert exact[200] == pytest.approx(288.2077, abs=1e-4)
    assert exact[825] == pytest.approx(362.1616, abs=1e-4)


# ---- counts under replace-one -----------------------------------------------------------------------------------------


def test_half_the_noise_breaks_the_guarantee_when_a_record_is_replaced():
    broken = control("monotone scale under replace-one")
    assert broken.broken
    report = broken.audited()
    assert report.epsilon_at_least > 2.9  # epsilon_1 + 2 epsilon_2 instead of 2
