"""The generalized Cauchy law against mpmath, closed forms and another route to its draws."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from sordino import InvalidParameter, Seeded
from sordino.noise import GeneralizedCauchy
from sordino.noise.generalized_cauchy import GAMMA, uniform
from support.scripted import Scripted

POWERS = [Fraction(11, 10), Fraction(3, 2), 2, 3, 4, 6, 10, 100]
POINTS = [1e-12, 1e-3, 0.1, 0.5, 0.9, 1, 1.1, 2, 3, 10, 1e3, 1e9]
N = 100_000
FAR = math.sqrt(
    math.log(2e9) / (2 * N)
)  # the largest deviation of N draws passes it once in 1e9 (Dvoretzky-Kiefer-Wolfowitz)


def law(gamma):
    return GeneralizedCauchy(Fraction(gamma))


def twin(gamma, z):
    """Density, cdf and sf of the magnitude in 60 digits, by incomplete beta functions and, for large powers, by their series."""
    with mp.workdps(60):
        g, z = mp.mpf(gamma.numerator) / gamma.denominator, mp.mpf(z)
        half = mp.pi / (g * mp.sin(mp.pi / g))
        inner = lambda x: x * mp.hyp2f1(1, 1 / g, 1 + 1 / g, -(x**g))  # noqa: E731
        outer = lambda x: x ** (1 - g) / (g - 1) * mp.hyp2f1(1, 1 - 1 / g, 2 - 1 / g, -(x**-g))  # noqa: E731
        cdf = inner(z) / half if z <= 1 else 1 - outer(z) / half
        sf = 1 - inner(z) / half if z <= 1 else outer(z) / half
        return 1 / (half * (1 + z**g)), cdf, sf


@pytest.mark.parametrize("gamma", POWERS)
def test_functions_against_high_precision(gamma):
    known, z = law(gamma), np.array(POINTS)
    for at, pdf, cdf, sf in zip(POINTS, known.pdf(z), known.cdf(z), known.sf(z), strict=True):
        for mine, true in zip((pdf, cdf, sf), twin(Fraction(gamma), at), strict=True):
            assert abs(mp.mpf(float(mine)) / true - 1) < 1e-13 or true < 1e-300, at


def test_the_twin_is_the_integral():
    for gamma in (Fraction(3, 2), Fraction(4), Fraction(10)):
        with mp.workdps(30):
            _, _, sf = twin(gamma, 2)
            g = mp.mpf(gamma.numerator) / gamma.denominator
            whole, beyond = (
                mp.quad(lambda z, g=g: 1 / (1 + z**g), [start, 4, 100, mp.inf]) for start in (0, 2)
            )
            assert abs(beyond / whole - sf) < 1e-9


def test_oracles():
    assert law(4).slope == pytest.approx(2.27950705695, rel=1e-11)
    assert law(4).cdf(1) == pytest.approx(0.78054992617, rel=1e-11)
    assert law(4).mean == pytest.approx(0.707106781187, rel=1e-11)
    assert law(3).sf(3) == pytest.approx(0.0452787651016, rel=1e-11)
    assert law(2).mean == math.inf
    assert law(2).slope == 1


def test_closed_forms():
    z = np.geomspace(1e-6, 1e6, 200)
    assert np.allclose(law(2).sf(z), np.arctan(1 / z) * 2 / math.pi, rtol=1e-14, atol=0)
    root = z * math.sqrt(2)
    turns = np.arctan(root + 1) + np.arctan(root - 1)
    assert np.allclose(
        law(4).cdf(z),
        (np.log((z**2 + root + 1) / (z**2 - root + 1)) / 2 + turns) / math.pi,
        rtol=1e-9,
        atol=1e-15,
    )
    ends = np.array([-1.0, 0, math.inf])
    assert law(4).pdf(ends).tolist() == [0, law(4).peak, 0]
    assert law(4).cdf(ends).tolist() == [0, 0, 1]
    assert law(4).sf(ends).tolist() == [1, 1, 0]


@pytest.mark.parametrize("gamma", POWERS)
def test_the_hazard_has_one_peak_below_its_bound(gamma):
    known = law(gamma)
    z = np.concatenate([np.linspace(0, 4, 4001), np.geomspace(4, 1e6, 2000)])
    hazard = known.hazard(z)
    top = int(hazard.argmax())
    assert (np.diff(hazard[: top + 1]) > -1e-12).all()
    assert (np.diff(hazard[top:]) < 1e-12).all()
    low, high = known.hazard_peak
    assert low - 2e-3 <= z[top] <= high + 2e-3
    assert high - low < 1e-6
    assert hazard.max() <= known.hazard_bound < hazard.max() * (1 + 1e-5)
    assert known.hazard_bound < known.slope
    rising = z * hazard
    assert (np.diff(rising) > -1e-12 * float(gamma)).all()
    assert rising.max() <= float(gamma) - 1 + 1e-12


@pytest.mark.parametrize("gamma", POWERS)
@pytest.mark.sample(4)
def test_draws_have_the_law_and_no_other_scale(gamma):
    known = law(gamma)
    drawn = np.sort(known.sample(N, Seeded(5)))
    steps = np.arange(1, N + 1) / N
    far = lambda z: np.abs(known.cdf(z) - steps).max()  # noqa: E731
    assert far(drawn) < FAR
    if gamma >= Fraction(3, 2):  # nearer to 1 a tenth of the scale changes next to nothing
        assert far(drawn * 1.1) > FAR
        assert far(drawn / 1.1) > FAR
    if gamma <= 6:  # another route, a beta variable: beyond, it rounds to 1 too often
        beta = 1 / (1 + drawn ** float(gamma))[::-1]
        assert (
            np.abs(stats.beta(1 - 1 / float(gamma), 1 / float(gamma)).cdf(beta) - steps).max() < FAR
        )


def test_signs_are_fair_and_tell_nothing_of_the_size():
    drawn = law(4).sample_signed(N, Seeded(6))
    positive = drawn > 0
    assert abs(positive.mean() - 0.5) < 3.3 / math.sqrt(N)  # Hoeffding: 2 exp(-2 3.3^2) < 1e-9
    for half in (drawn[positive], -drawn[~positive]):
        steps = np.arange(1, half.size + 1) / half.size
        assert np.abs(law(4).cdf(np.sort(half)) - steps).max() < math.sqrt(
            math.log(2e9) / (2 * half.size)
        )


def test_small_numbers_keep_their_digits():
    top = (1 << 64) - 1
    assert uniform(3, Scripted([top, 1 << 63, 1 << 53])).tolist() == [1.0, 0.5, 2.0**-11]
    # five digits of the first word, then 64 more
    [u] = uniform(1, Scripted([21, 1 << 63 | 1])).tolist()
    assert u == math.ldexp(21.5, -64)
    [u] = uniform(1, Scripted([0, 0, 5, 3 << 62])).tolist()
    assert u == math.ldexp(5.75, -192)
    assert uniform(1, Scripted([0] * 15)).tolist() == [2.0**-960], (
        "words that never come, and no loop without end"
    )


def test_a_proposal_word_by_word():
    """Cauchy: inner with probability 1/2; z = U or 1/U; taken with probability 1/(1 + U^2)."""
    half, low, high = 1 << 63, 1 << 62, 3 << 62
    known = law(2)
    assert known._proposed(1, Scripted([half, low, low])).tolist() == [0.5]
    assert known._proposed(1, Scripted([half, high, low])).tolist() == [2.0]
    assert known._proposed(1, Scripted([half, low, int(0.79 * 2**64)])).tolist() == [0.5]
    assert known._proposed(1, Scripted([half, low, int(0.81 * 2**64)])).tolist() == []
    assert known._proposed(1, Scripted([half, high, int(0.81 * 2**64)])).tolist() == []


def test_the_tail_reaches_as_far_as_it_should():
    first = [0, 1 << 63, (1 << 64) - 1, 1]  # U = 2^-65, an outer proposal, taken
    assert law(4)._proposed(1, Scripted(first)).tolist() == pytest.approx(
        [2 ** (65 / 3)], rel=1e-14
    )
    drawn = law(2).sample(N, Seeded(7))
    assert drawn.max() > N / 40  # P(|Z| > t) = 2/(pi t): it stays below with probability exp(-25)
    assert drawn.min() < 40 / N


def test_how_many():
    assert law(4).sample(0, Seeded(1)).shape == (0,)
    assert law(4).sample_signed(0, Seeded(1)).shape == (0,)
    assert law(4).sample(300_001, Seeded(1)).shape == (300_001,)
    assert law(4).sample(5, Seeded(1)).tolist() == law(4).sample(5, Seeded(1)).tolist()


def test_it_is_a_value():
    assert pickle.loads(pickle.dumps(law(4))) == law(4)
    assert hash(law(4)) == hash(law(Fraction(4)))
    for bad in GAMMA.invalid:
        with pytest.raises(
            InvalidParameter, match=r"^gamma must be a number from 1\.1 to 100; got "
        ):
            GAMMA("gamma", bad)
    assert [GAMMA("gamma", value) for value in GAMMA.valid] == [4, 2, Fraction(3, 2)]
