"""Binary digits of probabilities against an independent high-precision route, and coins enumerated word by word."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.noise import Probability, bernoulli_exp, uniform_below
from sordino.noise._bernoulli import below
from support.scripted import Scripted

RATES = [Fraction(1, 2), Fraction(1, 50), Fraction(3, 7), Fraction(1, 10**9), Fraction(20), Fraction(5000)]


def digits(value, b):
    return int(mpmath.floor(value * mpmath.mpf(2) ** b))


@pytest.mark.parametrize("x", RATES)
@pytest.mark.parametrize("b", [1, 16, 64, 200])
def test_digits_agree_with_another_library(x, b):
    with mpmath.workdps(200):
        real = mpmath.mpf(x.numerator) / x.denominator
        assert Probability.exp(x).bits(b) == digits(mpmath.exp(-real), b)
        assert Probability.logistic(x).bits(b) == digits(1 / (1 + mpmath.exp(real)), b)


@given(st.fractions(min_value=0, max_value=40, max_denominator=1 << 40), st.integers(1, 300), st.integers(1, 200))
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
        coins = below(words, p, Scripted([further]))
        assert int(coins.sum()) == expected, "all words below the first digits, and the equal one as its continuation says"
        assert coins[:first].all()
        assert not coins[first + 1 :].any()


def test_equal_digits_are_continued_without_end():
    p = Probability.exp(Fraction(1, 3))
    equal = np.array([p.bits(16)], dtype=np.uint16)
    script = [p.word(16, 64), p.word(80, 64), p.word(144, 64) - 1]
    assert below(equal, p, Scripted(script)).tolist() == [True]
    script[-1] += 2
    assert below(equal, p, Scripted(script)).tolist() == [False]


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(5), Fraction(43), Fraction(60), Fraction(800), Fraction(0)])
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
        if x < 60:
            assert bool(got) is expected, (x, word)


def test_exponential_coins_are_unmoved_by_a_proposal_within_its_tolerance():
    x = Fraction(7, 3)
    edge = Probability.exp(x).bits(64)
    for word in (edge - 5, edge - 1, edge + 1, edge + 5):
        results = {
            bool(bernoulli_exp(np.array([float(x) + error]), lambda _: x, Scripted([word, 0, 0]))[0])
            for error in (-(2.0**-44), 0.0, 2.0**-44)
        }
        assert len(results) == 1


def test_uniform_below_enumerated():
    words = list(range(8))
    assert uniform_below(5, 8, Scripted([*words, 0, 1, 2])).tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert uniform_below(1, 3, Scripted([9, 9, 9])).tolist() == [0, 0, 0]
    assert uniform_below(1 << 62, 1, Scripted([(1 << 62) - 1])).tolist() == [(1 << 62) - 1]
