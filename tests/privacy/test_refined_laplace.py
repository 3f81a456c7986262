"""Finer values given the first ones: their joint law, the loss of both looks together, and what breaks it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import sordino as sd
import sordino_audit as audit
from sordino.cost import Added, Pure, compose
from sordino.mechanisms.refined_laplace import decide
from support.fit import LEVEL

RATIOS = [
    (Fraction(9, 10), Fraction(1, 2)),
    (Fraction(1, 2), Fraction(1, 3)),
    (Fraction(3, 4), Fraction(5, 7)),
]
"""e^-a1 and e^-a2: coarse, then finer."""
REACH = 6


def laplace(r, x):
    return (1 - r) / (1 + r) * r ** abs(x)


def rest(r, s, z):
    """The law of what the coarse noise has more than the finer one: P(N1 - N2 = z)."""
    none = (1 - r) ** 2 / (1 - s) ** 2 * s / r
    return (none if z == 0 else 0) + (1 - s / r) * (1 - r * s) / (1 - s) ** 2 * laplace(r, z)


def given(r, s, n, m):
    """P(N2 = m | N1 = n), by the product of the two laws."""
    return laplace(s, m) * rest(r, s, n - m) / laplace(r, n)


def stay(r, s, n):
    """The chance of keeping the noise by whole geometric pieces, which shares nothing with `given`."""
    return (1 - r) ** 2 / (1 - s) ** 2 * s / r * laplace(s, n) / laplace(r, n)


@pytest.mark.parametrize(("r", "s"), RATIOS)
def test_the_two_laws_are_one_noise_in_two_parts(r, s):
    reach = 400
    assert float(sum(laplace(s, m) * rest(r, s, 3 - m) for m in range(-reach, reach))) == pytest.approx(
        float(laplace(r, 3)), abs=1e-14
    )
    # Exactly: the pieces of the conditional law, summed as geometric series, make up the whole.
    for n in range(5):
        u = r * s / (1 - r * s)
        pieces = u + (1 - (s / r) ** (n + 1)) / (1 - s / r) + (s / r) ** n * u
        other = (1 - s / r) * (1 - r * s) / (1 - s) ** 2 * (1 - s) / (1 + s) * pieces
        assert stay(r, s, n) + other == 1


def test_reference_values():
    r, s = RATIOS[0]
    assert (1 - r) ** 2 / (1 - s) ** 2 * s / r == Fraction(1, 45)
    assert stay(r, s, 4) == Fraction(2375, 177147)


def by_decide(r, s, n, h_reach=220):
    """P(N2 = m | N1 = n) over all draws, as the product decides them; floats, the rest is below 1e-9."""
    h = np.arange(h_reach)
    top = h_reach + abs(n) + 1  # from here on a cut changes nothing: its whole tail stands at the end
    cuts = np.append(float(1 - s / r) * float(s / r) ** np.arange(top), float(s / r) ** top)
    law = {}
    for shared in h[: 60 if r < 0.8 else h_reach].tolist():
        weight = float(1 - r * r) * float(r * r) ** shared
        up, down = max(n, 0) + shared, max(-n, 0) + shared
        above, below = (grid.reshape(-1) for grid in np.meshgrid(np.arange(up + 1), np.arange(down + 1)))
        mass = [np.append(cuts[:size], cuts[size:].sum()) for size in (up, down)]
        weights = np.outer(mass[1], mass[0]).reshape(-1) * weight
        steps = np.array([10])
        found = decide(steps, steps + n, np.full((above.size, 1), shared), above[:, None], below[:, None])[
            :, 0
        ]
        for m, one in zip((found - 10).tolist(), weights.tolist(), strict=True):
            law[m] = law.get(m, 0.0) + one
    return law


@pytest.mark.parametrize(("r", "s"), RATIOS[1:])
@pytest.mark.parametrize("n", [0, 1, -2, 5])
def test_what_is_decided_has_the_conditional_law(r, s, n):
    law = by_decide(r, s, n)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    for m in range(-4, n + 5):
        assert law.get(m, 0.0) == pytest.approx(float(given(r, s, n, m)), rel=1e-7, abs=1e-10)


def test_one_cut_for_both_halves_is_convicted():
    """With first noise 0 both halves are equal: cut alike they would always leave 0."""
    r, s = RATIOS[1]
    both = np.arange(50)
    assert set(decide(np.array([0]), np.array([0]), both * 0 + 3, both, both).tolist()) == {0}
    assert float(given(r, s, 0, 0)) < 0.9


# ---- losses ----------------------------------------------------------------------------------------------


def joint(r, s, reach=REACH):
    """The law of both looks at one answer 0, over a window of outputs, in fractions."""
    window = range(-reach - 1, reach + 2)
    return {(n, m): laplace(r, n) * given(r, s, n, m) for n in window for m in window}


def worst(law, move, reach=REACH):
    """The largest log ratio between the answers 0 and `move` over the outputs of the window."""
    ratios = (
        law[n, m] / law[n - move, m - move]
        for n in range(-reach, reach + 1)
        for m in range(-reach, reach + 1)
    )
    return math.log(max(ratios))


@pytest.mark.parametrize(("r", "s"), RATIOS)
def test_both_looks_cost_the_finer_rate_and_reach_it(r, s):
    law, fine = joint(r, s), -math.log(s)
    assert worst(law, 1) == pytest.approx(fine, abs=1e-12)
    assert worst(law, -1) == pytest.approx(fine, abs=1e-12)
    # Two rows, a unit in one of them, replaced by one in the other: (1, 0) to (0, 1).
    assert worst(law, 1) + worst(law, -1) == pytest.approx(2 * fine, abs=1e-12)


def test_an_independent_second_draw_is_convicted():
    r, s = RATIOS[1]
    window = range(-REACH - 1, REACH + 2)
    fresh = {(n, m): laplace(r, n) * laplace(s, m) for n in window for m in window}
    assert worst(fresh, 1) == pytest.approx(-math.log(r) - math.log(s))
    assert worst(fresh, 1) > -math.log(s) + 0.1


def test_refining_changed_answers_is_convicted():
    """Between the looks the answers rise by c, in one table by one more: the first noise is taken for another one."""
    r, s = RATIOS[1]
    most = 0.0
    for c in (1, 2, 3):
        for n in range(-REACH, REACH + 1):
            for m in range(-REACH, REACH + 1):
                # Outputs n and m. First look at 0 and at 1, second look at c and at c - 1.
                p = laplace(r, n) * given(r, s, n - c, m - c)
                q = laplace(r, n - 1) * given(r, s, n - (c - 1), m - (c - 1))
                most = max(most, abs(math.log(p / q)))
    assert most > -math.log(s) + 0.5
    assert most <= -2 * math.log(r) - math.log(s) + 1e-12


def test_refining_the_same_look_twice_is_convicted():
    """Two finer values from one first look: more than both additions."""
    r, s = RATIOS[1]
    window = range(-4, 5)
    most = max(
        math.log(
            laplace(r, n)
            * given(r, s, n, m)
            * given(r, s, n, k)
            / (laplace(r, n - 1) * given(r, s, n - 1, m - 1) * given(r, s, n - 1, k - 1))
        )
        for n in window
        for m in window
        for k in window
    )
    assert most == pytest.approx(-2 * math.log(s) - math.log(r))
    assert most > -2 * math.log(s) + math.log(r) + 0.5  # what would have been charged


def test_a_first_look_that_was_charged_less_is_convicted():
    """A refund on the first look leaves the pair with less than it loses."""
    r, s = RATIOS[1]
    half = -math.log(r) / 2
    assert worst(joint(r, s), 1) > half + (-math.log(s) + math.log(r)) + 0.3


def test_the_second_look_by_itself_loses_both_rates_at_most_and_reaches_it():
    """What it is charged where pure epsilons are not added: given the first values."""
    r, s = RATIOS[1]
    most = max(
        abs(math.log(given(r, s, n, m) / given(r, s, n - 1, m - 1)))
        for n in range(-REACH, REACH + 1)
        for m in range(-REACH, REACH + 1)
    )
    assert most <= -math.log(r) - math.log(s) + 1e-12
    assert most > -math.log(s) + 1e-6


def test_the_addition_is_no_divergence():
    """Two pure costs of 1 would be a rho of 0.92; both looks together have one of 1.52."""
    both = Pure(epsilon=2).zcdp()
    apart = 2 * Pure(epsilon=1).zcdp()
    assert float(both) > 1.5 > 0.93 > float(apart)
    assert compose(Pure(epsilon=1), Added(epsilon=1, alone=3)).zcdp() > both
    assert compose(Pure(epsilon=1), Added(epsilon=1, alone=3)).pure() == 2
    assert compose(Pure(epsilon=1), Added(epsilon=1, alone=3)).epsilon(1e-3) >= Pure(epsilon=2).epsilon(1e-3)


@pytest.mark.parametrize("epsilon", [1, Fraction(1, 2)])
def test_the_audit_plays_both_looks(epsilon):
    first = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    finer = sd.RefinedLaplace(first=first, epsilon=epsilon)
    report = audit.exact(finer, answers_a=[3], answers_b=[4])
    assert not report.broken
    assert report.epsilon_at_least == pytest.approx(1 + float(epsilon), abs=1e-6)


def test_the_audit_plays_three_looks():
    first = sd.LaplaceMechanism(epsilon=3, sensitivity=sd.COUNTING)
    finest = sd.RefinedLaplace(first=sd.RefinedLaplace(first=first, epsilon=3), epsilon=3)
    assert finest.total == Pure(epsilon=9)
    assert finest.cost == Added(epsilon=3, alone=15)
    report = audit.exact(finest, answers_a=[0], answers_b=[1], tail=1e-9, slack=1e-3)
    assert not report.broken
    assert report.epsilon_at_least == pytest.approx(9, abs=1e-3)


def test_the_audit_convicts_a_noise_that_is_only_cut():
    """Without what both halves share: the finer noise is never the larger one, and its sign is told."""
    first = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    finer = sd.RefinedLaplace(first=first, epsilon=1)
    _, cut, _ = finer.laws

    def play(q, noise):
        n, above = noise.T
        return np.stack([q + n, q + np.sign(n) * np.minimum(np.abs(n), above)], axis=-1)

    twin = audit.Subject(laws=[first.noise, cut], play=play, cost=finer.total, name="only cut")
    assert audit.exact(twin, answers_a=0, answers_b=1).broken


EITHER = sd.Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1, l1=2)
FEW = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=1)


@pytest.mark.parametrize(("moved", "bound"), [(FEW, 1), (EITHER, 2), (sd.COUNTING, 5)])
def test_rows_pay_for_what_a_unit_moves_together(moved, bound):
    """Five rows, a unit in one of them (min(k, M), replaced min(k, 2M)), or in all."""
    first = sd.LaplaceMechanism(epsilon=1, sensitivity=moved.over(5))
    finer = sd.RefinedLaplace(first=first, epsilon=2)
    assert first.noise.rate == Fraction(1, bound)
    assert finer.noise.rate == Fraction(3, bound)
    assert finer.cost == Added(epsilon=2, alone=4)
    assert finer.total == Pure(epsilon=3)


def test_values_between_two_steps_and_rates_with_many_digits():
    real = sd.Sensitivity(bound=0.3, monotone=False, adjacency="replace-one", norm="l1", size=2)
    first = sd.LaplaceMechanism(epsilon=Fraction(1, 7), sensitivity=real)
    finer = sd.RefinedLaplace(first=first, epsilon=Fraction(1, 3))
    assert finer.noise.rate > first.noise.rate
    assert finer.total.pure() <= Fraction(1, 7) + Fraction(1, 3)
    assert finer.total.pure() == Fraction(first.cost.pure()) + finer.cost.pure()
    rough = first.release([0.123456, -7.5])
    found = finer.release([0.123456, -7.5], values=rough)
    # On the grid of the first look, to the last digit.
    assert all(Fraction(x) % first.step == 0 for x in found.values.tolist())
    assert abs(found.values[0] - 0.123) < 40
    last = sd.RefinedLaplace(first=finer, epsilon=50)
    assert abs(last.release([0.123456, -7.5], values=found).values[1] + 7.5) < 1


BAD_VALUES = {
    "another release": lambda first: sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING).release(3),
    "a number": lambda first: 3.0,
    "another shape": lambda first: sd.Values(
        values=np.array([3.0]), standard_error=1, mechanism=first, cost=first.cost, simulated=False
    ),
    "beyond the floats": lambda first: sd.Value(
        value=2.0**53, standard_error=1, mechanism=first, cost=first.cost, simulated=False
    ),
    "none": lambda first: sd.Value(
        value=math.nan, standard_error=1, mechanism=first, cost=first.cost, simulated=False
    ),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_values_of_something_else_are_refused(name):
    first = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    finer = sd.RefinedLaplace(first=first, epsilon=1)
    with pytest.raises(sd.InvalidParameter, match="RefinedLaplace.release needs"):
        finer.release(3, values=BAD_VALUES[name](first))


@pytest.mark.parametrize("answer", [10**30, -(10**30), math.nan, None, 2**52])
def test_no_answer_is_refused(answer):
    first = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    rough = first.release(answer, entropy=sd.Seeded(3))
    finer = sd.RefinedLaplace(first=first, epsilon=1)
    near = finer.release(answer, values=rough, entropy=sd.Seeded(4)).value
    assert abs(near - rough.value) < 60


def test_only_laplace_noise_is_refined():
    gauss = sd.GaussianMechanism(rho=1, sensitivity=sd.COUNTING)
    with pytest.raises(sd.InvalidParameter, match="RefinedLaplace.first must be the LaplaceMechanism"):
        sd.RefinedLaplace(first=gauss, epsilon=1)
    first = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    with pytest.raises(sd.InvalidParameter, match="RefinedLaplace.epsilon"):
        sd.RefinedLaplace(first=first, epsilon=0)


def test_the_audit_convicts_a_draw_of_its_own():
    first = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    fresh = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING)
    twin = audit.Subject(
        laws=[first.noise, fresh.noise],
        play=lambda q, noise: np.asarray(q)[..., None] + noise,
        cost=sd.RefinedLaplace(first=first, epsilon=1).total,
        name="a second draw",
    )
    assert audit.exact(twin, answers_a=0, answers_b=1).broken


# ---- draws ------------------------------------------------------------------------------------------------


def both_looks(first_epsilon, epsilon, n=60_000):
    """Return the noise of both looks at n answers, through the releases."""
    moved = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", norm="l1", step=1)
    first = sd.LaplaceMechanism(epsilon=first_epsilon, sensitivity=moved)
    noise, answers = sd.Seeded(11), np.arange(n) % 100
    rough = first.release(answers, entropy=noise)
    finer = sd.RefinedLaplace(first=first, epsilon=epsilon).release(answers, values=rough, entropy=noise)
    return (rough.values - answers).astype(int), (finer.values - answers).astype(int)


def fits(coarse, fine, r, s, reach=3):
    """The p-value of the joint law of two noises over a window, with the rest in one cell."""
    cells = {
        (n, m): float(laplace(r, n) * given(r, s, n, m))
        for n in range(-reach, reach + 1)
        for m in range(-reach, reach + 1)
    }
    seen = [int(((coarse == n) & (fine == m)).sum()) for n, m in cells]
    expected = [coarse.size * p for p in cells.values()]
    seen.append(coarse.size - sum(seen))
    expected.append(coarse.size - sum(expected))
    return stats.chisquare(seen, expected).pvalue


def test_releases_have_the_joint_law():
    coarse, fine = both_looks(Fraction(1, 2), Fraction(1, 2))
    r, s = math.exp(-0.5), math.exp(-1)
    assert fits(coarse, fine, r, s) > LEVEL
    # Each look alone, and a tenth off.
    assert stats.chisquare(*counted(fine, s)).pvalue > LEVEL
    assert stats.chisquare(*counted(fine, math.exp(-1.1))).pvalue < LEVEL


def test_noise_that_forgets_the_first_look_is_convicted():
    coarse, fine = both_looks(Fraction(1, 2), Fraction(1, 2))
    shuffled = np.random.default_rng(1).permutation(fine)
    assert fits(coarse, shuffled, math.exp(-0.5), math.exp(-1)) < LEVEL


def counted(noise, s, reach=4):
    seen = [int((noise == x).sum()) for x in range(-reach, reach + 1)]
    expected = [noise.size * laplace(s, x) for x in range(-reach, reach + 1)]
    return [*seen, noise.size - sum(seen)], [*expected, noise.size - sum(expected)]


def test_variance_of_two_looks_and_of_one():
    """For 2 in all, after a first look for 1: 0.36 where two measurements leave 0.92."""
    first = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    finer = sd.RefinedLaplace(first=first, epsilon=1)
    assert finer.noise.variance == pytest.approx(0.362, abs=5e-4)
    assert first.noise.variance / 2 == pytest.approx(0.921, abs=5e-4)
    assert first.noise.variance == pytest.approx(1.841, abs=5e-4)
