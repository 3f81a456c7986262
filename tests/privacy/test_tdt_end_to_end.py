"""From families to the marker that is released: the loss over all neighbouring data of three and four families and two markers.

A data set is its two tables (b, c): every pair of tables is that of some data, and replacing a family moves each table by one of 18 moves
or not at all, in any combination. Scores, bounds and steps come from the code; the law of what is released is counted here, in fractions,
for a geometric law of any odds: the atoms and windows do not know the rate, and the claim is about windows crossed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from sordino.genomics import choose_method
from sordino.grid import to_steps
from sordino.mechanisms import SmoothStepSelection
from sordino.smooth import tdt_statistic

KINDS = [(i, j) for i in range(3) for j in range(3 - i)]
MOVES = sorted({(i - x, j - y) for i, j in KINDS for x, y in KINDS})
ODDS = [Fraction(1, 2), Fraction(1, 20)]
LEVELS = 40
DIGITS = 32 + 24  # of an atom and of a scale, after the point


def tables(families):
    """All tables, as two arrays."""
    return np.array(
        [(b, c) for b in range(2 * families + 1) for c in range(2 * families + 1 - b)]
    ).T


@cache
def near(families):
    """For each table the places of those that one family leads to, itself among them, shape (tables, moves): itself again where none is."""
    known = {(b, c): place for place, (b, c) in enumerate(tables(families).T.tolist())}
    return np.array(
        [[known.get((b + i, c + j), place) for i, j in MOVES] for (b, c), place in known.items()]
    )


def largest_nearby(found, families):
    """For each data set the largest number that was found for its neighbours; rows are tables of one marker, columns of the other."""
    beside = near(families)
    rows = np.max([found[beside[:, k]] for k in range(len(MOVES))], axis=0)
    return np.max([rows[:, beside[:, k]] for k in range(len(MOVES))], axis=0)


def worst(keys, law, families):
    """The largest ratio, a fraction, of the probabilities of an output between neighbours.

    `keys` says for each data set what decides its law, `law` returns the probability that the first marker is released.
    """
    known, at = np.unique(keys, return_inverse=True)
    ratios = []
    first = [law(int(key)) for key in known.tolist()]
    for chances in (first, [1 - p for p in first]):
        order = sorted(range(len(chances)), key=chances.__getitem__)
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        own = ranks[at.reshape(keys.shape)]
        pairs = np.unique(
            np.stack([largest_nearby(own, families).ravel(), own.ravel()]), axis=1
        ).T.tolist()
        ratios += [chances[order[high]] / chances[order[low]] for high, low in pairs]
    return max(ratios)


def law_of_windows(q):
    """P(G1 - G0 <= n) for geometric variables of odds q: the first marker, n windows ahead, is released."""
    return lambda n: 1 - q ** (n + 1) / (1 + q) if n >= -1 else q**-n / (1 + q)


def windows_ahead(mechanism, scores):
    """How many windows the first marker lies ahead, for all pairs of tables."""
    steps = to_steps(scores, mechanism.step, "test")
    return (steps[:, None] - steps[None, :]) // mechanism.window


def ahead_and_scale(mechanism, scores, bounds):
    """For all pairs of tables how far the first marker lies ahead, in steps, and the scale, as one whole number."""
    steps, scales = [], {}
    for score, bound in zip(scores.tolist(), bounds.tolist(), strict=True):
        one, scales[bound] = mechanism.on_grids([score, score], bound)
        steps.append(int(one[0]))
    kinds = sorted(scales)  # a larger bound has the larger scale
    which = np.searchsorted(kinds, bounds)
    ahead = np.subtract.outer(steps, steps)
    keys = (ahead + (1 << 40)) * len(kinds) + np.maximum.outer(which, which)
    return keys, lambda key: (key // len(kinds) - (1 << 40), scales[kinds[key % len(kinds)]])


def law_of_atoms(mechanism, known, q):
    """P(the first marker is released) by what `ahead_and_scale` says."""
    atoms = mechanism.heights(range(2 * LEVELS))

    def law(key):
        ahead, scale = known(key)
        rooms = [((ahead << DIGITS) + scale * atoms[k]) // scale for k in range(LEVELS)]
        below = np.searchsorted(atoms, rooms, "right").tolist()
        return sum((1 - q) * q**k * (1 - q**count) for k, count in enumerate(below))

    return law


def atoms_cost(q):
    """What the winner and one loser cost: odds, as a fraction."""
    return (
        1
        / q
        / sum((1 - q) * q**k * (1 - q ** (k + 1)) / (1 - q ** (k + 2)) for k in range(2 * LEVELS))
    )


FEW = [3, 4]


@pytest.mark.parametrize("families", [*FEW, 10])
@pytest.mark.parametrize("share", [Fraction(1, 8), Fraction(2, 3), 1])
@pytest.mark.sample(4)
def test_the_damped_statistic_costs_one_window(families, share):
    method = choose_method(markers=2, families=families, epsilon=1, damping=2 * families * share)
    ahead = windows_ahead(method.mechanism, method.scores(*tables(families)))
    for q in ODDS:
        assert worst(ahead, law_of_windows(q), families) <= 1 / q
    assert method.mechanism.cost.pure() <= 1


@pytest.mark.parametrize("families", FEW)
@pytest.mark.parametrize("scale", ["sqrt", "raw"])
def test_windows_of_the_global_sensitivity_cost_one(families, scale):
    method = choose_method(markers=2, families=families, epsilon=1, scale=scale, method="step")
    ahead = windows_ahead(method.mechanism, method.scores(*tables(families)))
    for q in ODDS:
        assert worst(ahead, law_of_windows(q), families) <= 1 / q


@pytest.mark.parametrize("families", [3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scale", ["sqrt", "raw"])
@pytest.mark.parametrize("beta", [0.05, 0.3])
@pytest.mark.each_value
def test_atoms_in_proportion_to_the_smooth_bound_cost_what_is_claimed(families, scale, beta):
    method = choose_method(
        markers=2, families=families, epsilon=1, scale=scale, method="smooth-step", beta=beta
    )
    b, c = tables(families)
    keys, known = ahead_and_scale(method.mechanism, method.scores(b, c), method.bounds(b, c))
    q, rounding = ODDS[1], 1 + Fraction(1, 10**10)  # levels beyond the last counted one
    found = worst(keys, law_of_atoms(method.mechanism, known, q), families)
    assert found <= atoms_cost(q) * rounding
    assert found >= 1 / q / rounding, "the winner pays for a whole atom"


def test_windows_half_as_wide_would_cost_more():
    """A broken control: as if one family moved the statistic by at most 2."""
    method = choose_method(markers=2, families=3, epsilon=1, damping=6)
    ahead = windows_ahead(method.mechanism, 2 * method.scores(*tables(3)))
    assert worst(ahead, law_of_windows(ODDS[0]), 3) > 2 / ODDS[0] * Fraction(3, 4)


@pytest.mark.slow
def test_a_statistic_that_is_not_damped_would_cost_more():
    method = choose_method(markers=2, families=10, epsilon=1, damping=20)
    ahead = windows_ahead(method.mechanism, math.sqrt(20) * tdt_statistic(*tables(10), families=10))
    assert worst(ahead, law_of_windows(ODDS[0]), 10) > 2 / ODDS[0] * Fraction(3, 4)


@pytest.mark.parametrize("scale", ["sqrt", "raw"])
@pytest.mark.slow
def test_a_bound_below_the_local_sensitivity_costs_more(scale):
    """A broken control: a third of the smooth bound."""
    families, q = 4, ODDS[0]
    method = choose_method(
        markers=2, families=families, epsilon=1, scale=scale, method="smooth-step", beta=0.05
    )
    ceiling = method.mechanism.ceiling
    broken = SmoothStepSelection(
        epsilon=1, beta=0.05, candidates=2, ceiling=ceiling, floor=ceiling / 100
    )
    b, c = tables(families)
    keys, known = ahead_and_scale(broken, method.scores(b, c), method.bounds(b, c) / 3)
    assert worst(keys, law_of_atoms(broken, known, q), families) > Fraction(3, 2) * atoms_cost(q)


@pytest.mark.slow
@pytest.mark.parametrize("families", FEW)
@pytest.mark.parametrize("scale", ["sqrt", "raw"])
@pytest.mark.parametrize("epsilon", [1, 3])
def test_the_heavy_tail_by_quadrature(families, scale, epsilon):
    method = choose_method(
        markers=2, families=families, epsilon=epsilon, scale=scale, method="heavy-tail", beta=0.1
    )
    mechanism = method.mechanism
    nodes, weights = np.polynomial.legendre.leggauss(400)
    t = (nodes + 1) / 2
    z = (t / (1 - t)) ** 2
    density = mechanism.noise.pdf(z) * 2 * np.sqrt(z) * (1 + np.sqrt(z)) ** 2 * weights / 2  # dz/dt

    def wins(ahead):
        """P(Z1 < Z0 + ahead) for ahead >= 0."""
        return float((density * mechanism.noise.cdf(z + ahead)).sum())

    assert abs(wins(0.0) - 0.5) < 1e-9, "the quadrature"
    b, c = tables(families)
    scores = method.scores(b, c)
    bounds = np.clip(method.bounds(b, c), float(mechanism.floor), float(mechanism.ceiling))
    ahead = np.subtract.outer(scores, scores) / np.maximum.outer(bounds, bounds) * mechanism.alpha
    keys = np.rint(ahead * 2**40).astype(np.int64)
    found = worst(
        keys, lambda key: wins(key / 2**40) if key >= 0 else 1 - wins(-key / 2**40), families
    )
    assert 0.2 * epsilon < math.log(found) <= epsilon
