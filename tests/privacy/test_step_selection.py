"""Step noise: exact losses over all neighbours, rounding that keeps the claim, and twins that break it."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import (
    COUNTING,
    InvalidParameter,
    Seeded,
    Sensitivity,
    SmoothStepSelection,
    StepSelection,
)
from sordino.cost import Pure
from sordino.mechanisms import step_selection
from sordino.mechanisms.smooth import smooth_step_selection
from sordino.mechanisms.smooth.step_atoms import DIGITS, heights, ratio_for
from sordino.noise import Geometric
from support.enumeration import neighbours
from support.fit import LEVEL
from support.steps import law, losers, loss, wins

TOLERANCE = 1e-9
EITHER = Sensitivity(bound=2, monotone=False, adjacency="replace-one", step=1)
RISING = Sensitivity(bound=2, monotone=True, adjacency="add-remove", step=1)
UNIT = DIGITS + 24  # binary digits of a scale times an atom


def plain(window, rate):
    """Atoms of a public scale that are `window` steps apart, as many as matter."""
    return [window * j for j in range(math.ceil(60 / rate))]


def moved(q, move, factor):
    return tuple(a + factor * b for a, b in zip(q, move, strict=True))


# --- a public window


@pytest.mark.parametrize(
    ("sensitivity", "window"), [(EITHER, 4), (RISING, 2)], ids=["either way", "monotone"]
)
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.slow
def test_step_selection_loses_epsilon_and_no_more_over_all_neighbours(sensitivity, window, n):
    mechanism = StepSelection(epsilon=1, sensitivity=sensitivity)
    assert mechanism.window == window
    q, atoms, worst = math.exp(-1), plain(window, 1), {}
    for base in product(range(0, 10, 1 if n == 2 else 4), repeat=n):
        own = law(base, 1, atoms, q, 0)
        moves = product(neighbours(n, monotone=sensitivity.monotone), (1, 2))
        worst[base] = max(
            loss(own, law(moved(base, move, factor), 1, atoms, q, 0)) for move, factor in moves
        )
    assert max(worst.values()) == pytest.approx(1, abs=TOLERANCE)
    assert worst[(0,) * n] == pytest.approx(1, abs=TOLERANCE), (
        "ties, noise included, are where a move crosses a window at once"
    )


def test_a_window_of_one_bound_is_too_narrow_where_answers_move_both_ways():
    narrow = plain(2, 1)
    found = loss(law((0, 0), 1, narrow, math.exp(-1), 0), law((-2, 2), 1, narrow, math.exp(-1), 0))
    assert found == pytest.approx(2, abs=TOLERANCE)
    twin = audit.Subject(
        laws=[Geometric(Fraction(1))] * 2,
        play=lambda answers, noise: step_selection.decide(np.array(answers), noise, 2),
        cost=Pure(epsilon=1),
        sensitivity=EITHER,
    )
    assert audit.exact(twin, answers_a=(0, 0), answers_b=(-2, 2)).broken


@pytest.mark.parametrize("q", [(0, 0), (3, 0, 4), (0, 4, 1), (8, 4, 4)])
def test_the_decision_has_the_law_that_is_counted(q):
    box = list(product(range(14), repeat=len(q)))
    chosen = step_selection.decide(np.array(q), np.array(box), 4)
    found = np.zeros(len(q))
    for noise, i in zip(box, chosen.tolist(), strict=True):
        found[i] += math.prod(0.5 ** (level + 1) for level in noise)
    assert found == pytest.approx(law(q, 1, plain(4, 0.5), 0.5, 0), abs=len(q) * 2.0**-14)


# --- a private scale


def exhausted(m, widest, scales, rate=1.0, beta=Fraction(1, 2)):
    """The largest loss over all scores in 0..widest, all scales in whole steps, and all neighbours."""
    ratio = ratio_for(beta, Fraction(1), Fraction(1000))
    atoms, q = heights(ratio)(range(math.ceil(60 / rate))), math.exp(-rate)
    laws = {}

    def known(q_, scale):
        key = tuple(x - min(q_) for x in q_), scale
        if key not in laws:
            laws[key] = law(key[0], scale, atoms, q, DIGITS)
        return laws[key]

    worst = 0.0
    for scale, other in product(scales, repeat=2):
        if max(scale, other) <= ratio * min(scale, other):
            for base in (base for base in product(range(widest + 1), repeat=m) if min(base) == 0):
                for move in product(range(-min(scale, other), min(scale, other) + 1), repeat=m):
                    worst = max(worst, loss(known(base, scale), known(moved(base, move, 1), other)))
    return worst


@pytest.mark.slow
def test_two_scores_and_every_neighbour():
    assert 1 - TOLERANCE < exhausted(2, 12, (1, 2, 3, 4, 6)) <= 1 + losers(math.exp(-1), 2)


@pytest.mark.slow
def test_three_scores_and_every_neighbour():
    assert 1.01 < exhausted(3, 12, (1, 2, 3)) <= 1 + losers(math.exp(-1), 3)


def settings(betas, rates, sizes):
    return [
        pytest.param(*each, id="beta {} rate {} m {}".format(*each))
        for each in product(betas, rates, sizes)
    ]


def worst_found(beta, rate, m, seeds, rng):
    """The largest loss of candidate 0, over scores that lie where atoms cross, and scales at and near both ends.

    All others rise and it falls, each by the smaller scale: nothing makes its loss larger than that.
    """
    one = 1 << 20
    ratio = Fraction(math.ceil(math.exp(beta) * 2**48), 1 << 48)
    atoms, q = heights(ratio)(range(math.ceil(50 / rate))), math.exp(-rate)
    crossings = [atoms[j] - atoms[k] for j in range(5) for k in range(3)]
    worst = 0.0
    for _ in range(seeds):
        near = [
            rng.choice(crossings) / 2**DIGITS + rng.choice([0, 1e-5, 0.5]) for _ in range(m - 1)
        ]
        leads = near if rng.random() < 0.5 else near[:1] * (m - 1)
        other = rng.choice(
            [
                one + 1,
                math.floor(one * ratio),
                math.ceil(one / ratio),
                int(one * math.exp(rng.uniform(-beta, beta))),
            ]
        )
        other = max(math.ceil(one / ratio), min(math.floor(one * ratio), other))
        move, before = min(one, other), [0, *(-int(lead * one) for lead in leads)]
        after = [-move, *(score + move for score in before[1:])]
        worst = max(
            worst,
            math.log(
                wins(0, before, one, atoms, q, DIGITS) / wins(0, after, other, atoms, q, DIGITS)
            ),
        )
    return worst


FEW = settings([0.02, 0.5], [0.5, 2], [2, 5])
ALL = settings([0.02, 0.1, 0.5, 1.5], [0.1, 0.3, 0.5, 1, 2], [2, 3, 5, 12])


@pytest.mark.parametrize(("beta", "rate", "m"), FEW)
def test_the_losers_cost_no_more_than_their_share(beta, rate, m):
    assert (
        worst_found(beta, rate, m, 12, random.Random(7))
        <= rate + losers(math.exp(-rate), m) + TOLERANCE
    )


@pytest.mark.slow
@pytest.mark.parametrize(("beta", "rate", "m"), ALL)
def test_the_losers_cost_no_more_than_their_share_in_eighty_settings(beta, rate, m):
    assert (
        worst_found(beta, rate, m, 40, random.Random(8))
        <= rate + losers(math.exp(-rate), m) + TOLERANCE
    )


def test_the_losers_do_cost_something():
    """Many losers that lie far back, by an atom; and one that does not, so that the winner pays, too."""
    rate, m, one = 0.5, 12, 1 << 20
    atoms, q = (
        heights(ratio_for(Fraction(1, 2), Fraction(1), Fraction(9)))(range(120)),
        math.exp(-rate),
    )
    lead, other = int(atoms[4] / 2**DIGITS * one) + 2, int(one * 1.6)
    before = [0, 0, *[-lead] * (m - 2)]
    after = [-one, *[score + one for score in before[1:]]]
    found = math.log(
        wins(0, before, one, atoms, q, DIGITS) / wins(0, after, other, atoms, q, DIGITS)
    )
    assert 0.68 < found <= rate + losers(q, m), (
        "a claim of the winner's share alone would be wrong by a third"
    )


BETA = 0.5


def off_grid(rng):
    """Scores, their bound and a neighbour, real numbers of the size of the grid, whose step is 1."""
    m, bound = rng.choice((2, 3, 4)), rng.choice([0.3, 0.7, 1.0, 1.5, 3.2, 5.0])
    other = bound * math.exp(rng.choice([-BETA, BETA, rng.uniform(-BETA, BETA)]))
    move = min(bound, other)
    before = [
        rng.choice([rng.uniform(0, 9), rng.randrange(9), rng.randrange(9) - 1e-9]) for _ in range(m)
    ]
    after = [score + rng.choice([-move, move, rng.uniform(-move, move)]) for score in before]
    return (before, bound), (after, other)


def on_grid(rng):
    """The same, with scores that are whole: nothing is lost by flooring them."""
    m, bound = rng.choice((2, 3, 4)), rng.choice([1.0, 1.5, 2.0, 3.0, 4.0])
    other = bound * math.exp(rng.choice([-BETA, BETA, rng.uniform(-BETA, BETA)]))
    move = math.floor(min(bound, other))
    before = [rng.randrange(30) for _ in range(m)]
    return (before, bound), (
        [score + rng.choice([-move, move, rng.randint(-move, move)]) for score in before],
        other,
    )


def played(side, atoms, q, scale_of):
    scores, bound = side
    return law([math.floor(score) for score in scores], scale_of(bound), atoms, q, UNIT)


def excess(case, cases, scale_of, atoms, seed):
    """How far the loss of random cases passes the claim, at most."""
    rng, rate = random.Random(seed), 1.0
    worst, q = -math.inf, math.exp(-rate)
    for _ in range(cases):
        x, y = case(rng)
        found = loss(played(x, atoms, q, scale_of), played(y, atoms, q, scale_of))
        worst = max(worst, found - rate - losers(q, len(x[0])))
    return worst


def narrow(bound):
    return math.ceil(bound * (1 + 2.0**-40) * 2**24)


def widened(bound):
    return narrow(bound + 1)


def to_the_grid(bound):
    return math.ceil(bound) << 24


ATOMS = heights(ratio_for(Fraction(1, 2), Fraction(1), Fraction(1000)))(range(60))


def test_scores_floored_and_scales_rounded_up_keep_the_claim():
    assert excess(off_grid, 70, widened, ATOMS, 1) <= TOLERANCE
    assert excess(on_grid, 30, narrow, ATOMS, 1) <= TOLERANCE


@pytest.mark.slow
def test_fifteen_hundred_floored_cases_keep_the_claim():
    assert excess(off_grid, 1000, widened, ATOMS, 2) <= TOLERANCE
    assert excess(on_grid, 500, narrow, ATOMS, 2) <= TOLERANCE


BROKEN = {
    "scores floored, bound not widened": (off_grid, narrow),
    "bound rounded up to the grid": (on_grid, to_the_grid),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.slow
def test_rounding_that_breaks_the_claim_is_found(name):
    case, scale_of = BROKEN[name]
    assert excess(case, 150, scale_of, ATOMS, 3) > 0.1


def test_atoms_that_are_rounded_one_at_a_time_break_the_claim():
    """5.297 becomes 5: a move from 2 windows of one scale to 5 of the smaller one crosses more than an atom."""
    exact = [0.0]
    while len(exact) < 60:
        exact.append(math.exp(BETA) * exact[-1] + 2)
    rounded, q = [round(height) << DIGITS for height in exact], math.exp(-1)
    one, claim = 1 << 24, 1 + losers(math.exp(-1), 2)
    for atoms, broken in ((rounded, True), (ATOMS, False)):
        found = loss(
            law([3, 0], math.floor(math.exp(BETA) * one), atoms, q, UNIT),
            law([4, -1], one, atoms, q, UNIT),
        )
        assert (found > claim + 0.5) == broken
        assert broken or found <= claim


@pytest.mark.slow
def test_the_claims_of_both_hold_and_are_attained_where_they_say_so():
    for name in ("StepSelection", "SmoothStepSelection"):
        for report in audit.run_claims(name):
            report.raise_if_broken()
            assert report.claim.tight == report.tight


@pytest.mark.slow
def test_the_neighbours_of_the_claim_are_neighbours_and_cost_more_than_the_winner_pays():
    general = next(claim for claim in smooth_step_selection.CLAIMS if not claim.tight)
    for mechanism, (*x, bound), (*y, other) in general.neighbours:
        assert max(abs(a - b) for a, b in zip(x, y, strict=True)) <= min(bound, other)
        assert abs(math.log(bound / other)) <= mechanism.beta
        assert mechanism.floor <= min(bound, other) <= max(bound, other) <= mechanism.ceiling
    mechanism, x, y = general.neighbours[0]
    cheap = audit.Subject(
        laws=[mechanism.noise] * 3,
        play=lambda answers, noise: smooth_step_selection.decide(
            *split(mechanism, answers, noise), mechanism.heights
        ),
        cost=Pure(epsilon=mechanism.rate),
    )
    assert audit.exact(cheap, answers_a=x, answers_b=y).broken, "what all losers cost was forgotten"
    assert not audit.exact(mechanism, answers_a=x, answers_b=y).broken


def test_the_audit_takes_scores_and_their_bound():
    mechanism = SmoothStepSelection(epsilon=1, beta=0.5, candidates=3, ceiling=4, floor=1)
    with pytest.raises(
        InvalidParameter,
        match="needs the 3 scores of SmoothStepSelection, followed by their smooth bound; got 3",
    ):
        audit.exact(mechanism, answers_a=(0, 0, 1), answers_b=(0, 1, 1))


def split(mechanism, answers, noise):
    steps, scale = mechanism.on_grids(answers[:-1], answers[-1])
    return steps, noise, scale


@pytest.mark.slow
def test_releases_have_the_law_that_is_counted():
    mechanism = SmoothStepSelection(epsilon=2, beta=0.3, candidates=3, ceiling=8, floor=1)
    scores, bound, runs = [0.0, 5.0, 4.0], 2.0, 800
    steps, scale = mechanism.on_grids(scores, bound)
    expected = law(
        steps.tolist(), scale, mechanism.heights(range(80)), math.exp(-mechanism.rate), UNIT
    )
    entropy = Seeded(11)
    found = np.bincount(
        [mechanism.release(scores, smooth_bound=bound, entropy=entropy).index for _ in range(runs)],
        minlength=3,
    )
    assert stats.chisquare(found, np.array(expected) * runs / sum(expected)).pvalue > LEVEL
    assert stats.chisquare(found, np.array([0.25, 0.5, 0.25]) * runs).pvalue < LEVEL


@pytest.mark.slow
def test_releases_of_a_public_window_have_the_law_that_is_counted():
    mechanism, answers, runs = StepSelection(epsilon=1, sensitivity=EITHER), [0, 5, 4], 1500
    expected = law(answers, 1, plain(4, 1), math.exp(-1), 0)
    entropy = Seeded(12)
    found = np.bincount(
        [mechanism.release(answers, entropy=entropy).index for _ in range(runs)], minlength=3
    )
    assert stats.chisquare(found, np.array(expected) * runs).pvalue > LEVEL
    narrow = np.array(law(answers, 1, plain(2, 1), math.exp(-1), 0))
    assert stats.chisquare(found, narrow * runs).pvalue < LEVEL


def test_counts_that_rise_together_are_noisy_max():
    """With windows of one step it is the top one with the noise of `NoisyTopK`."""
    assert StepSelection(epsilon=1, sensitivity=COUNTING).window == 1
