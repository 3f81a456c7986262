"""The folded mechanism: its law in fractions from its own decision, loss, mean and variance exactly, and a linear program."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

import sordino_audit as audit
from sordino import (
    COUNTING,
    FoldedMechanism,
    InvalidParameter,
    LaplaceMechanism,
    Seeded,
    Sensitivity,
)
from sordino.cost import Pure
from sordino.mechanisms.folded import _folded_variance, decide
from sordino.noise import DiscreteLaplace, Staircase
from sordino_audit.enumeration.clipped import staircase
from support.fit import LEVEL

RATIOS = [Fraction(1, 3), Fraction(9, 10)]
N = 5
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
WHOLE = {"monotone": False, "adjacency": "replace-one", "step": 1}
REAL = Sensitivity(bound=1, monotone=False, adjacency="replace-one")


def law(r, x, low, high):
    """P(release = o) by the decision of the mechanism: noise beyond the range is in one of the folded ends, whatever it is."""
    reach = high - low + 1
    noise = np.arange(-reach, reach + 1)
    mass = [(1 - r) / (1 + r) * r ** abs(int(z)) for z in noise]
    mass[0] = mass[-1] = r**reach / (1 + r)  # everything beyond, too
    found = dict.fromkeys(range(low, high + 1), Fraction(0))
    for o, p in zip(decide(x + noise, low, high, 1).tolist(), mass, strict=True):
        found[o] += p
    assert sum(found.values()) == 1
    return found


def published(r, low, high):
    """The numbers that stand for the steps low..high."""
    excess = r / (1 - r)
    return {o: o + excess * ((o == high) - (o == low)) for o in range(low, high + 1)}


@pytest.mark.parametrize("r", RATIOS)
def test_the_mean_is_the_answer_and_the_variance_is_the_formula(r):
    values = published(r, 0, N)
    for x in range(N + 1):
        found = law(r, x, 0, N)
        assert sum(p * values[o] for o, p in found.items()) == x
        variance = sum(p * values[o] ** 2 for o, p in found.items()) - x**2
        noise = 2 * r / (1 - r) ** 2
        assert variance == noise - r / ((1 - r) ** 2 * (1 + r)) * (r**x + r ** (N - x)) < noise


@pytest.mark.parametrize("r", RATIOS)
def test_the_loss_of_all_pairs_and_outputs(r):
    laws = [law(r, x, 0, N) for x in range(N + 1)]
    for distance in range(1, N + 1):
        ratios = [
            laws[x][o] / laws[y][o]
            for x in range(N + 1)
            for y in range(N + 1)
            if abs(x - y) <= distance
            for o in range(N + 1)
        ]
        assert max(ratios) == r**-distance


@pytest.mark.slow
def test_the_mechanism_releases_what_its_law_says():
    m = FoldedMechanism(lower=0, upper=N, epsilon=1, sensitivity=COUNTING)
    entropy, draws = Seeded(11), 4000
    numbers = np.array([m.release(4, entropy=entropy).value for _ in range(200)])
    vector = FoldedMechanism(lower=0, upper=N, epsilon=draws, sensitivity=COUNTING.over(draws))
    many = vector.release([4] * draws, entropy=entropy)
    values = published(math.exp(-1), 0, N)
    assert set(numbers.tolist()) <= set(map(float, values.values())), (
        "nothing but the public points"
    )
    counts = [
        int(np.count_nonzero(np.abs(many.values - value) < 1e-9)) for value in values.values()
    ]
    assert sum(counts) == draws
    expected = [float(p) for p in law(Fraction(math.exp(-1)), 4, 0, N).values()]
    assert stats.chisquare(counts, np.array(expected) / sum(expected) * draws).pvalue > LEVEL
    other = [float(p) for p in law(Fraction(math.exp(-1)), 3, 0, N).values()]
    assert stats.chisquare(counts, np.array(other) / sum(other) * draws).pvalue < LEVEL
    assert vector.output_range == (values[0], values[N])
    assert (vector.output_range[0] <= many.values).all()


def test_reference_values():
    m = FoldedMechanism(lower=0, upper=8, epsilon=1, sensitivity=COUNTING)
    assert m.excess == m.least_excess == pytest.approx(0.581976706869, abs=1e-12)
    assert m.variance(at=4) == pytest.approx(1.81669190875, abs=1e-11)
    fine = FoldedMechanism(lower=0, upper=5, epsilon=1, sensitivity=REAL)
    assert fine.variance(at=1) == pytest.approx(1.80690245997, abs=1e-5), (
        "folded Laplace: the grid is 2^-20 scales"
    )
    for bound, own, least in ((1, 0.58, 0.58), (10, 9.51, 5.82), (100, 99.5, 58.2)):
        wide = FoldedMechanism(
            lower=0,
            upper=500,
            epsilon=1,
            sensitivity=Sensitivity(bound=bound, monotone=True, adjacency="add-remove", step=1),
        )
        assert (wide.excess, wide.least_excess) == (
            pytest.approx(own, rel=1e-2),
            pytest.approx(least, rel=1e-2),
        )


@pytest.mark.parametrize("epsilon", [0.01, 1, 5, 40])
def test_the_bias_of_what_is_printed_and_the_variance_against_laplace(epsilon):
    m = FoldedMechanism(lower=0, upper=20, epsilon=epsilon, sensitivity=COUNTING)
    plain = LaplaceMechanism(epsilon=epsilon, sensitivity=COUNTING)
    r = Fraction(math.exp(-epsilon))
    for x in (0, 7, 20):
        found = law(r, x, 0, 20)
        printed = {o: Fraction(o) for o in found} | dict(
            zip((0, 20), map(Fraction, m.output_range), strict=True)
        )
        mean = sum(p * printed[o] for o, p in found.items())
        assert abs(mean - x) < 1e-12 * max(1, m.excess)
        second = sum(p * (printed[o] - x) ** 2 for o, p in found.items())
        assert m.variance(at=x) == pytest.approx(float(second), rel=1e-9)
        assert m.variance(at=x) <= plain.noise.variance, (
            "below it; at 40 the difference is no float"
        )
    assert m.release(3, entropy=Seeded(1)).standard_error == pytest.approx(
        math.sqrt(m.variance(at=10))
    )


def test_real_answers_are_rounded_at_random_and_pay_for_it_in_variance():
    coarse = FoldedMechanism(lower=0, upper=4, epsilon=1, sensitivity=REAL)
    m = FoldedMechanism(lower=0, upper=4, epsilon=1, sensitivity=EITHER)
    assert coarse.variance(at=1.5) == pytest.approx(
        coarse.variance(at=Fraction(3, 2) + coarse.step / 2), rel=1e-5
    )
    assert m.variance(at=1.5) == m.variance(at=1), "a statement with a step rounds down"
    low, high = coarse.output_range
    assert all(
        low <= coarse.release(x, entropy=Seeded(3)).value <= high
        for x in (-5, 0, 0.1, 4, 9, math.nan, math.inf, None)
    )


# --- staircases ------------------------------------------------------------------------------------------------------------------


def stairs(r, period, flat, x, low, high):
    """P(folded output) of staircase noise, in fractions: the last period on either side stands for all periods beyond."""
    reach = high - low + period
    noise = np.arange(-reach, reach + 1)
    weights = [r ** int(abs(z) // period + (abs(z) % period >= flat)) for z in noise.tolist()]
    weights = [
        w / (1 - r) if abs(z) > reach - period else w
        for z, w in zip(noise.tolist(), weights, strict=True)
    ]
    found = {}
    for o, w in zip(decide(x + noise, low, high, period).tolist(), weights, strict=True):
        found[o] = found.get(o, 0) + w / sum(weights)
    return found


@pytest.mark.parametrize(("period", "flat"), [(1, 1), (3, 1), (3, 2), (3, 3), (4, 2)])
def test_a_folded_staircase_is_private_unbiased_and_better_than_the_staircase(period, flat):
    r = RATIOS[0]
    laws = [stairs(r, period, flat, x, 0, N) for x in range(N + 1)]
    mean = period * r / (1 - r)
    values = {o: o + mean * ((o >= N) - (o <= 0)) for o in range(1 - period, N + period)}
    law = Staircase(Fraction(math.log(3)), period, flat)
    for x, found in enumerate(laws):
        assert set(found) == set(values)
        assert sum(found.values()) == 1
        assert sum(p * values[o] for o, p in found.items()) == x
        variance = sum(p * (values[o] - x) ** 2 for o, p in found.items())
        assert float(variance) < law.variance
        assert float(variance) == pytest.approx(_folded_variance(law, x, 0, N))
        stated = dict(staircase(law, x, 0, N))
        assert all(low <= high for low, high in stated.values())
        assert [float(low) for low, _ in stated.values()] == pytest.approx(
            [float(found[o]) for o in stated]
        )
    worst = max(
        laws[x][o] / laws[y][o]
        for x in range(N + 1)
        for y in range(N + 1)
        if abs(x - y) <= period
        for o in values
    )
    assert worst == 1 / r
    farther = max(
        laws[x][o] / laws[y][o]
        for x in range(N + 1)
        for y in range(N + 1)
        if abs(x - y) <= period + 1
        for o in values
    )
    assert farther == r**-2, "noise for a smaller bound is convicted"


def test_the_staircase_where_the_bound_is_many_steps():
    line = {"lower": 0, "upper": 3, "sensitivity": REAL}
    for epsilon, laplace, stairs_there in ((1, 1.777, 1.731), (2, 0.488, 0.416)):
        m = FoldedMechanism(**line, epsilon=epsilon, noise="staircase")
        assert FoldedMechanism(**line, epsilon=epsilon).variance(at=1.5) == pytest.approx(
            laplace, abs=5e-4
        )
        assert m.variance(at=1.5) == pytest.approx(stairs_there, abs=5e-4)
        assert m.excess == pytest.approx(1 / -math.expm1(-epsilon), rel=1e-5)
        assert m.cost == Pure(epsilon=epsilon)
        low, high = m.output_range
        assert all(low <= m.release(x, entropy=Seeded(x)).value <= high for x in range(4))
    with pytest.raises(
        InvalidParameter, match=r"noise must be 'laplace' for 2 answers: each that moves at all"
    ):
        m.release([1, 2], entropy=Seeded(1))
    listed = Sensitivity(bound=2, monotone=True, adjacency="add-remove", norm="l1", step=1)
    with pytest.raises(InvalidParameter, match=r"noise must be 'laplace' for 2 answers"):
        FoldedMechanism(lower=0, upper=3, epsilon=1, sensitivity=listed, noise="staircase").release(
            [1, 2]
        )
    with pytest.raises(InvalidParameter, match=r"noise must be 'laplace' for 2 answers"):
        FoldedMechanism(
            lower=0, upper=3, epsilon=1, sensitivity=COUNTING.over(2), noise="staircase"
        )
    with pytest.raises(
        InvalidParameter,
        match=r"^FoldedMechanism\.noise must be one of 'laplace', 'staircase'; got 'gauss'",
    ):
        FoldedMechanism(**line, epsilon=1, noise="gauss")


@pytest.mark.slow
def test_what_a_staircase_releases_fits_its_law():
    m = FoldedMechanism(
        lower=-1, upper=2, epsilon=1, sensitivity=Sensitivity(bound=2, **WHOLE), noise="staircase"
    )
    flat, entropy, draws = m.noise.flat, Seeded(12), 700
    found = [m.release(1, entropy=entropy).value for _ in range(draws)]
    expected = stairs(Fraction(math.exp(-1)), 2, flat, 1, -1, 2)
    excess = 2 * math.exp(-1) / (1 - math.exp(-1))
    places = {o: o + excess * ((o >= 2) - (o <= -1)) for o in expected}
    counts = [sum(abs(value - place) < 1e-9 for value in found) for place in places.values()]
    assert sum(counts) == draws
    assert stats.chisquare(counts, [float(p) * draws for p in expected.values()]).pvalue > LEVEL


# --- twins that are wrong --------------------------------------------------------------------------------------------------------


def test_the_ends_of_the_range_as_they_are_have_a_bias():
    r = RATIOS[0]
    assert sum(p * o for o, p in law(r, 0, 0, N).items()) > Fraction(3, 10)


def test_the_auditor_convicts_a_range_read_off_the_data_and_a_law_cut_off_and_scaled_up():
    noise = DiscreteLaplace(Fraction(1))

    def own_range(answers, rows):  # as wide as the data: each data set has its own ends
        return decide(answers[0] + rows[:, 0], answers[0] - 2, answers[0] + 2, 1)

    subject = audit.Subject(laws=[noise], play=own_range, cost=Pure(epsilon=1), sensitivity=EITHER)
    assert audit.exact(subject, answers_a=(3,), answers_b=(2,)).epsilon_at_least > 30

    def drawn_again(
        answers, rows
    ):  # truncated: noise is drawn again until it fits, which takes longer next to an end
        noisy = answers[0] + rows[:, 0]
        return np.where((noisy >= 0) & (noisy <= N), noisy, -99)

    cut = audit.Subject(
        laws=[noise], play=drawn_again, cost=Pure(epsilon=1), sensitivity=EITHER, again=-99
    )
    report = audit.exact(cut, answers_a=(0,), answers_b=(1,))
    assert report.broken
    r = math.exp(-1)
    mass = [sum(r ** abs(o - x) for o in range(N + 1)) for x in (0, 1)]
    assert report.epsilon_at_least == pytest.approx(1 + math.log(mass[1] / mass[0]), abs=1e-9)


def test_the_auditor_moves_answers_to_the_ends_as_releases_do():
    m = FoldedMechanism(lower=0, upper=4, epsilon=1, sensitivity=COUNTING)
    assert audit.exact(m, answers_a=(5,), answers_b=(4,)).epsilon_at_most == 0
    assert audit.exact(m, answers_a=(3,), answers_b=(4,)).epsilon_at_least > 0.999


def test_noise_for_half_of_the_bound_is_convicted():
    r = RATIOS[0]
    a, b = law(r, 0, 0, N), law(r, 2, 0, N)
    assert max(a[o] / b[o] for o in a) == r**-2 > 1 / r


# --- no mechanism does better ----------------------------------------------------------------------------------------------------


def program(n, epsilon, outputs):
    """Constraints of all unbiased epsilon-private mechanisms with inputs 0..n, neighbours one apart, and these outputs."""
    size, width = n + 1, len(outputs)
    equal, equals, below = [], [], []
    for i in range(size):
        for values, target in ((np.ones(width), 1), (outputs, i)):
            row = np.zeros((size, width))
            row[i] = values
            equal.append(row.ravel())
            equals.append(target)
        for k in (i - 1, i + 1):
            if 0 <= k <= n:
                for o in range(width):
                    row = np.zeros((size, width))
                    row[i, o], row[k, o] = 1, -math.exp(epsilon)
                    below.append(row.ravel())
    return {
        "A_eq": np.array(equal),
        "b_eq": np.array(equals),
        "A_ub": np.array(below),
        "b_ub": np.zeros(len(below)),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(6, 2), (8, 1), (12, 0.5)])
def test_a_linear_program_finds_nothing_better(n, epsilon):
    m = FoldedMechanism(lower=0, upper=n, epsilon=epsilon, sensitivity=COUNTING)
    outputs = np.unique(np.concatenate([np.arange(-4, 2 * n + 5) / 2, m.output_range]))
    rules = program(n, epsilon, outputs)
    inputs = np.arange(n + 1)
    square = (outputs[None, :] - inputs[:, None]) ** 2
    ours = np.array([m.variance(at=int(x)) for x in inputs])
    chance = np.random.default_rng(n)
    for weights in (
        np.ones(n + 1),
        chance.random(n + 1),
        (inputs == 0) * 1.0,
        (inputs == n // 2) * 1.0,
    ):
        best = optimize.linprog(
            (weights[:, None] * square).ravel(),
            **rules,
            options={"primal_feasibility_tolerance": 1e-10},
        )
        assert best.fun == pytest.approx(float(weights @ ours), rel=1e-7)
    inside = np.linspace(-0.98 * m.excess, n + 0.98 * m.excess, 4 * n)
    assert (
        optimize.linprog(np.zeros((n + 1) * inside.size), **program(n, epsilon, inside)).status == 2
    ), "infeasible"


# --- what is refused -------------------------------------------------------------------------------------------------------------

BASE = {"lower": 0, "upper": 4, "epsilon": 1, "sensitivity": EITHER}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"upper": 0}, r"^FoldedMechanism\.upper must be above lower, 0; got 0\."),
        ({"upper": math.inf}, r"^FoldedMechanism\.upper must be a finite number; got inf"),
        ({"lower": math.nan}, r"^FoldedMechanism\.lower must be a finite number; got nan"),
        ({"epsilon": 0}, r"^FoldedMechanism\.epsilon must be a number in \(0, inf\); got 0"),
        ({"sensitivity": 1}, r"^FoldedMechanism\.sensitivity must be a Sensitivity"),
        (
            {"upper": 0.5},
            r"^FoldedMechanism\.sensitivity must have a bound of at most upper - lower, 0\.5",
        ),
        (
            {"margin": 0.58},
            r"^FoldedMechanism\.margin must be at least 0\.581976706869.*Every unbiased private mechanism needs",
        ),
        ({"margin": -1}, r"^FoldedMechanism\.margin must be a number in \(0, inf\); got -1"),
        ({"lower": -1e18}, r"^FoldedMechanism needs ends within 2\^52 steps of 1"),
    ],
)
def test_bad_parameters(changes, words):
    with pytest.raises(InvalidParameter, match=words):
        FoldedMechanism(**(BASE | changes))


def test_a_margin_counts_from_the_range_and_not_from_its_grid():
    wide = BASE | {"lower": 0.5, "upper": 3.75}
    m = FoldedMechanism(**wide)
    assert m.output_range == pytest.approx((-m.excess, 4 + m.excess))
    with pytest.raises(InvalidParameter, match=r"margin must be at least 1\.081976706"):
        FoldedMechanism(**wide, margin=1.08)
    assert FoldedMechanism(**wide, margin=1.082).excess == m.excess


def test_a_margin_that_suffices_and_a_list_that_has_its_statement():
    m = FoldedMechanism(**BASE)
    assert FoldedMechanism(**BASE, margin=m.excess).excess == m.excess
    with pytest.raises(InvalidParameter, match="only under a statement about their L1 norm"):
        m.release([1, 2], entropy=Seeded(1))
    with pytest.raises(
        InvalidParameter, match=r"variance\.at must lie between lower and upper; got 5"
    ):
        m.variance(at=5)
    with pytest.raises(TypeError):
        FoldedMechanism(lower=0, upper=1)
    assert m.parameters["rate"] == 1
