"""Certified floats against another library: the proven bounds hold, with a factor of 2 to spare, where the error is largest."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sordino.noise.samplers import powers
from sordino.noise.samplers.powers import (
    DEEP,
    UNIT,
    chances,
    exponentials,
    exponents,
    logarithms,
    uniforms,
)

EDGES = np.array(
    [math.log(2) / 2, math.log(2), 1.5 * math.log(2), -math.log1p(-math.sqrt(0.5)), DEEP]
)


def depths_of(rate, count):
    """Depths from 1 to far beyond the last e^-x that a float has, and next to every x where the code takes another branch."""
    unit = 1 / float(rate)
    wide = np.exp(np.linspace(0, math.log(max(2.0, 900 * unit)), count))
    edges = np.concatenate([np.floor(EDGES * unit) + i for i in (-1, 0, 1, 2)])
    depths = np.unique(np.clip(np.concatenate([wide, edges]), 1, 2.0**61).astype(np.int64))
    return np.append(depths, (1 << 62) - 1)


def furthest(computed, true, bound):
    """Return the largest relative error as a part of its bound, which is in units of 2^-53."""
    return max(
        float(abs(c / t - 1)) / (b * UNIT)
        for c, t, b in zip(computed.tolist(), true, bound, strict=True)
    )


@pytest.mark.parametrize(
    "rate",
    [Fraction(1, 1 << 40), Fraction(79, 506), Fraction(3), Fraction((1 << 61) - 1, (1 << 60) + 7)],
)
def test_floats_are_as_right_as_they_say(rate):
    depths = depths_of(rate, 150)
    x = exponents(depths, rate)
    p, q = chances(x)
    kept = x < DEEP
    with mpmath.workdps(60):
        true = [
            mpmath.mpf(rate.numerator) * int(depth) / rate.denominator
            for depth in depths[kept].tolist()
        ]
        assert furthest(x[kept], true, [4.0] * len(true)) < 1
        assert (
            furthest(p[kept], [mpmath.exp(-t) for t in true], 4 * x[kept] + 16) < 0.75
        )  # three of the four are proven
        assert furthest(q[kept], [-mpmath.expm1(-t) for t in true], [32.0] * len(true)) < 0.5
        hazard = [
            -mpmath.log(-mpmath.expm1(-t)) if t < 1 else -mpmath.log1p(-mpmath.exp(-t))
            for t in true
        ]
        assert furthest(logarithms(*chances(x))[kept], hazard, 6 * x[kept] + 64) < 0.5
    assert not p[~kept].any()
    assert (q[~kept] == 1).all()
    assert not logarithms(*chances(x))[~kept].any()


@pytest.mark.parametrize("power", [-400, 60])
def test_rates_at_both_ends(power):
    rate = Fraction(2) ** power
    x = exponents(np.array([1, 3]), rate)
    with mpmath.workdps(200):
        true = [mpmath.mpf(2) ** power * depth for depth in (1, 3)]
        if power < 0:
            assert (
                furthest(
                    logarithms(*chances(x)),
                    [-mpmath.log(-mpmath.expm1(-t)) for t in true],
                    [64.0] * 2,
                )
                < 0.5
            )
    if power > 0:
        assert (x == DEEP).all()


def test_nothing_above_certainty():
    p, q = chances(exponents(np.array([0, -7, -(1 << 62)]), Fraction(1, 3)))
    assert p.tolist() == [1, 1, 1]
    assert q.tolist() == [0, 0, 0]


def test_exponential_variables_of_words():
    generator = np.random.default_rng(1)
    words = [int(2**v) for v in generator.uniform(33, 63.9, 100)] + [
        (1 << 64) - int(2**v) for v in generator.uniform(0, 63, 100)
    ]
    words += [
        1 << 32,
        (1 << 64) - 1,
        (1 << 64) - 2,
        13043817825332782212,
        13043817825332782213,
    ]  # the last two: next to sqrt 1/2
    computed = logarithms(*uniforms(words))
    with mpmath.workdps(60):
        assert (
            furthest(
                computed,
                [-mpmath.log(mpmath.mpf(word) / 2**64) for word in words],
                [40.0] * len(words),
            )
            < 0.5
        )
        for word, (low, high) in zip(words, exponentials(words), strict=True):
            assert low < -mpmath.log(mpmath.mpf(word + 1) / 2**64)
            assert high > -mpmath.log(mpmath.mpf(word) / 2**64)
            assert high - low < 1e-13 * low + 8 / word
    for word in (0, 1, (1 << 32) - 1):
        assert exponentials([word]) == [(22.0, math.inf)]
        assert -math.log((word + 1) / 2**64) > 22


def test_the_logarithm_of_two_in_two_parts():
    with mpmath.workdps(60):
        parts = mpmath.mpf(powers._LN2_HIGH) + mpmath.mpf(powers._LN2_LOW)
        assert abs(parts - mpmath.ln2) < mpmath.mpf(2) ** -85
    assert (powers._LN2_HIGH * 2**33).is_integer()
    assert abs(powers._LN2_NEAREST - math.log(2)) < 2.0**-53
