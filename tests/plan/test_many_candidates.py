"""Of many candidates a design draws only the largest scores; the figures are those of designs that draw all of them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino import Sensitivity
from sordino.genomics import choose_method
from sordino.mechanisms import StepSelection
from sordino.noise.generalized_cauchy import GeneralizedCauchy
from sordino.plan import choose_selector, winning as winning_module
from sordino.plan.designs import noise_alone
from sordino.plan.winning import Design, winning
from sordino.smooth import tdt_statistic


def drawn_families(method, runs, seed):
    """Return how likely a method selects the best marker of families that are drawn marker by marker, for each of some runs."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(runs):
        total = rng.binomial(2 * method.families, 2 / 3, method.markers)
        b = rng.binomial(total, 0.5)
        bounds = method.bounds(b, total - b)
        best = tdt_statistic(b, total - b, families=method.families).argmax()
        rows = Design(
            method.scores(b, total - b)[None],
            np.array([best]),
            None if bounds is None else np.array([bounds.max()]),
        )
        found.append(winning(method.mechanism, rows))
    return np.array(found)


# Where the probability is neither near 0 nor near 1. Two rows of 10,000 markers said .19 of the second one, which is .53.
CASES = [
    (100, 500, 3, 150),
    (10_000, 10_000, 3, 50),
    (10_000, 2_000, 4, 50),
    (1_000, 2_000, 3, 100),
]


@pytest.mark.parametrize(("markers", "families", "epsilon", "runs"), CASES)
@pytest.mark.sample(4)
def test_what_is_said_of_many_markers_is_so(markers, families, epsilon, runs):
    method = choose_method(markers=markers, families=families, epsilon=epsilon, exact=True)
    found = drawn_families(method, runs, seed=markers)
    assert abs(found.mean() - method.success) < 4 * found.std() / np.sqrt(runs) + 0.02


@pytest.mark.parametrize(("m", "epsilon"), [(200, 1.5), (5_000, 2), (5_000, 2.5)])
def test_what_is_said_of_many_scores_is_so(m, epsilon):
    moves = Sensitivity(bound=0.08, monotone=False, adjacency="replace-one")
    said = choose_selector(m=m, epsilon=epsilon, sensitivity=moves)
    scores = np.abs(np.random.default_rng(m).normal(size=(300, m)))
    by_hand = winning(
        StepSelection(epsilon=epsilon, sensitivity=moves), Design(scores, scores.argmax(axis=1))
    )
    [step] = [one for one in said.alternatives if isinstance(one.mechanism, StepSelection)]
    assert 0.05 < by_hand < 0.98, "a case that tells something"
    assert abs(step.success - by_hand) < 0.07, "7 standard errors of so many runs"


@pytest.mark.parametrize("m", [65, 66, 500, 10_000, 1 << 22])
def test_a_design_stands_for_all_candidates_and_is_small(m):
    design = noise_alone(m)
    assert design.candidates == m
    assert design.scores.size < 50_000
    assert (design.scores.argmax(axis=1) == design.best).all()
    # The mean of the squares is that of so many normal numbers.
    squares = (design.scores**2) @ (design.counts / m)
    assert abs(squares.mean() - 1) < 0.05
    # Half of all maxima lie below the median of the largest of m magnitudes, however many rows there are.
    from statistics import NormalDist

    median = NormalDist().inv_cdf((1 + 0.5 ** (1 / m)) / 2)
    assert abs((design.scores.max(axis=1) < median).mean() - 0.5) < 0.02


def test_up_to_so_many_candidates_all_of_them_are_drawn():
    assert noise_alone(64).counts is None
    assert noise_alone(64).scores.shape == (128, 64)


@pytest.mark.parametrize(("markers", "epsilon"), [(12, 8), (400, 9)])
@pytest.mark.slow
def test_what_is_said_of_several_in_turn_is_so(markers, epsilon):
    """Against releases: how often the three are the three best, in their order."""
    from sordino import Seeded
    from sordino.genomics.significance import select

    method, entropy = (
        choose_method(markers=markers, families=300, epsilon=epsilon / 3, k=3, exact=True),
        Seeded(5),
    )
    rng, hits = np.random.default_rng(9), 0
    for _ in range(400):
        total = rng.binomial(600, 2 / 3, markers)
        b = rng.binomial(total, 0.5)
        found = select(
            method,
            b,
            total - b,
            3,
            lambda mechanism, scores, **more: mechanism.release(scores, entropy=entropy, **more),
        )
        statistic = tdt_statistic(b, total - b, families=300)
        # Equal statistics are equally good.
        hits += (
            statistic[[index for index, _ in found]].tolist() == np.sort(statistic)[:-4:-1].tolist()
        )
    assert abs(hits / 400 - method.success) < 0.09, "4 standard errors"
    alone = choose_method(markers=markers, families=300, epsilon=epsilon / 3, exact=True)
    assert method.success < alone.success
    assert method.why.startswith(
        f"{method.name} selects the 3 best of {markers}, in their order, with probability "
    )


def test_of_very_many_in_turn_the_first_ones_are_looked_at():
    some = choose_method(markers=200, families=300, epsilon=20, k=32, exact=True)
    more = choose_method(markers=200, families=300, epsilon=20, k=200, exact=True)
    assert (more.success, more.why) == (some.success, some.why)
    assert "selects the 32 best of 200, in their order," in more.why


def test_a_law_is_read_off_by_the_first_bits_of_floats():
    law = GeneralizedCauchy(Fraction(4))
    heights, below = winning_module._read_law(law)
    at = np.concatenate([np.geomspace(2.0**-20, 2.0**29, 9_973), 2.0 ** np.arange(-20, 30)])
    near, far = at[at <= 1], at[at >= 1]
    np.testing.assert_allclose(np.exp(below(near)), law.cdf(near), rtol=1e-6)
    np.testing.assert_allclose(-np.expm1(below(far)), law.sf(far), rtol=2e-5)
    np.testing.assert_allclose(law.sf(heights), np.exp(-winning_module._TAIL_PLACES), rtol=1e-4)
    # Broken twin: the place below each, without a line.
    steps = (at.view(np.int64) >> 42 << 42).view(np.float64)
    assert not np.allclose(np.exp(below(steps)), law.cdf(at), rtol=1e-4)
    # What lies beyond counts as the last of what is known.
    assert (
        below(np.array([0.0, 1e300, math.inf])).tolist()
        == below(np.array([2.0**-20, 2.0**29, 2.0**29])).tolist()
    )
