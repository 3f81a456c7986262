"""Binary digits of probabilities against an independent high-precision route, and coins enumerated word by word."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino.noise import Probability, bernoulli_exp, uniform_below
from sordino.noise.samplers.bernoulli import is_below
from support.scripted import Scripted

RATES = [
    Fraction(1, 2),
    Fraction(1, 50),
    Fraction(3, 7),
    Fraction(1, 10**9),
    Fraction(20),
    Fraction(5000),
]


def digits(value, b):
    return int(mpmath.floor(value * mpmath.mpf(2) ** b))


@pytest.mark.parametrize("x", RATES)
@pytest.mark.parametrize("b", [1, 16, 64, 200])
@pytest.mark.each_value
def test_digits_agree_with_another_library(x, b):
    with mpmath.workdps(200):
        real = mpmath.mpf(x.numerator) / x.denominator
        assert Probability.exp(x).bits(b) == digits(mpmath.exp(-real), b)
        assert Probability.logistic(x).bits(b) == digits(1 / (1 + mpmath.exp(real)), b)


@given(
    st.fractions(min_value=0, max_value=40, max_denominator=1 << 40),
    st.integers(1, 300),
    st.integers(1, 200),
)
def test_fewer_digits_are_a_prefix(x, b, more):
    p = Probability.exp(x)
    assert p.bits(b + more) >> more == p.bits(b)
    if x:
        assert p.word(b, more) == p.bits(b + more) & ((1 << more) - 1)


def test_zero_is_certain():
    assert Probability.exp(Fraction(0)).bits(10) == 1 << 10
    assert Probability.logistic(Fraction(0)).bits(10) == 1 << 9


@pytest.mark.parametrize("x", [Fraction(1, 2), Fraction(1, 50), Fraction(9)])
def test_every_first_word_decides_as_the_digits_say(x):
    p = Probability.logistic(x)
    words = np.arange(1 << 16, dtype=np.uint16)
    first, second = p.bits(16), p.word(16, 64)
    for further, expected in ((second - 1, first + 1), (second + 1, first)):
        coins = is_below(words, p, Scripted([further]))
        assert int(coins.sum()) == expected, (
            "all words below the first digits, and the equal one as its continuation says"
        )
        assert coins[:first].all()
        assert not coins[first + 1 :].any()


def test_equal_digits_are_continued_without_end():
    p = Probability.exp(Fraction(1, 3))
    equal = np.array([p.bits(16)], dtype=np.uint16)
    script = [p.word(16, 64), p.word(80, 64), p.word(144, 64) - 1]
    assert is_below(equal, p, Scripted(script)).tolist() == [True]
    script[-1] += 2
    assert is_below(equal, p, Scripted(script)).tolist() == [False]


@pytest.mark.parametrize(
    "x", [Fraction(1, 3), Fraction(5), Fraction(43), Fraction(60), Fraction(800), Fraction(0)]
)
def test_exponential_coins_at_their_edge(x):
    p = Probability.exp(x)
    for word, more, expected in (
        (max(p.bits(64) - 1, 0), [0] * 9, True),
        (min(p.bits(64), (1 << 64) - 1), [max(p.word(64, 64) - 1, 0)] + [0] * 9, True),
        (min(p.bits(64) + 1, (1 << 64) - 1), [(1 << 64) - 1] * 9, x == 0),
    ):
        # x = 800: p < 2^-1000, the word 0 is a prefix of p and zeros go on agreeing; only the end of the script decides
        entropy = Scripted([word, *more, *[0] * 20, (1 << 64) - 1])
        got = bernoulli_exp(np.array([float(x)]), lambda _: x, entropy)[0]
        assert bool(got) is (expected and not (x >= 60 and word > p.bits(64))), (x, word)


def test_exponential_coins_are_unmoved_by_a_proposal_within_its_tolerance():
    x = Fraction(7, 3)
    edge = Probability.exp(x).bits(64)
    for word in (edge - 5, edge - 1, edge + 1, edge + 5):
        results = {
            bool(
                bernoulli_exp(np.array([float(x) + error]), lambda _: x, Scripted([word, 0, 0]))[0]
            )
            for error in (-(2.0**-44), 0.0, 2.0**-44)
        }
        assert len(results) == 1


def test_uniform_below_enumerated():
    words = list(range(8))
    assert uniform_below(5, 8, Scripted([*words, 0, 1, 2])).tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    # Drawn again, which is not what folding 5, 6 and 7 back would give.
    assert uniform_below(5, 8, Scripted([*words, 4, 3, 3])).tolist() == [0, 1, 2, 3, 4, 4, 3, 3]
    assert uniform_below(1, 3, Scripted([9, 9, 9])).tolist() == [0, 0, 0]
    assert uniform_below(1 << 62, 1, Scripted([(1 << 62) - 1])).tolist() == [(1 << 62) - 1]


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=60), st.integers(5, 30))
def test_enclosures_contain_the_number_strictly(x, digits_kept):
    from sordino.noise.probability import exp_bounds, logistic_bounds

    with mpmath.workdps(digits_kept + 60):
        real = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
        for bounds, value in ((exp_bounds, real), (logistic_bounds, real / (1 + real))):
            low, high = (mpmath.mpf(str(end)) for end in bounds(x, digits_kept))
            assert low < value < high
            assert (high - low) / value < mpmath.mpf(10) ** (3 - digits_kept)


def test_digits_wait_until_both_ends_agree():
    from decimal import Decimal

    asked = []

    def slow(digits_kept):
        asked.append(digits_kept)
        width = Decimal(1) / (1 << 3 if len(asked) < 3 else 1 << 90)
        return Decimal("0.625") - width, Decimal("0.625") - width / 3

    p = Probability(slow)
    assert p.bits(8) == 0b10011111, "just below 0.625 = 0.101 in binary"
    assert len(asked) == 3


def test_absurdly_small_probabilities_have_digits():
    for x in (Fraction(10**19), Fraction(10**400)):
        assert Probability.exp(x).bits(200) == 0
        assert Probability.logistic(x).bits(200) == 0
