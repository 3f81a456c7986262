"""Rounding at random: floor(p + U) for every kind of number, exactly, whatever floats say."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sordino import Seeded
from sordino.grid import convert_answers as as_array
from sordino.mechanisms.bounded import random_rounding
from sordino.mechanisms.bounded.random_rounding import reaches, round_at_random
from support.scripted import Scripted

LOW, STEP, CELLS = Fraction(-1, 3), Fraction(1, 7), 9


class Fixed:
    """Every draw begins with the same digits and goes on with zeros."""

    simulated = True

    def __init__(self, word):
        self.word, self.drawn = word, 0

    def words(self, n):
        self.drawn += 1
        return np.full(n, self.word if self.drawn == 1 else 0, dtype=np.uint64)


def rounded(values, word, low=LOW, step=STEP, cells=CELLS):
    return round_at_random(as_array(values, "test"), low, step, cells, Fixed(word))


def expected(value, word, low=LOW, step=STEP, cells=CELLS):
    place = max(Fraction(0), min(Fraction(cells), (Fraction(value) - low) / step))
    return math.floor(place + Fraction(word, 1 << 64))


@pytest.mark.parametrize("word", [0, 1, 1 << 63, (1 << 63) - 1, 0x123456789ABCDEF0, (1 << 64) - 1])
def test_it_is_the_floor_of_place_plus_u(word):
    chance = np.random.default_rng(5)
    values = np.concatenate(
        [chance.uniform(-1, 2, 200), [-1 / 3, -1 / 3 + 1 / 7, 0.0, 1e-300, -5e-324, 1e300, -1e300]]
    )
    wanted = [expected(float(x), word) for x in values]
    assert rounded(values, word).tolist() == wanted
    assert rounded(values.tolist(), word).tolist() == wanted
    assert rounded([Fraction(float(x)) for x in values], word).tolist() == wanted
    narrow = values[:200].astype(np.float32)
    assert rounded(narrow, word).tolist() == [expected(float(x), word) for x in narrow]


@pytest.mark.parametrize("word", [0, 1, 1 << 63, (1 << 64) - 1])
def test_far_from_zero_fractions_decide(word):
    low, step, cells = Fraction(10**15), Fraction(1, 1 << 10), 1 << 12
    values = np.array([10**15 + 0.125, 10**15 + 1.5, 1e15, 1e15 + 4, 1e15 + 5])
    assert rounded(values, word, low, step, cells).tolist() == [
        expected(float(x), word, low, step, cells) for x in values
    ]
    whole = np.array([10**15, 10**15 + 1, 2**62, -(2**62)])
    assert rounded(whole, word, low, step, cells).tolist() == [
        expected(int(x), word, low, step, cells) for x in whole
    ]


class Each:
    """Each answer has digits of its own, that go on with zeros."""

    def __init__(self, words):
        self.left = np.array(words, dtype=np.uint64)

    def words(self, n):
        played, self.left = self.left[:n], np.zeros(n, dtype=np.uint64)
        return played


def next_to_a_whole_number(low, step, cells, kind, n):
    """Answers with digits that bring p + U within a few errors of a float of a whole number; and floor(p + U)."""
    chance = np.random.default_rng(cells)
    values = (float(low) + float(step) * chance.uniform(0, cells, n)).astype(kind)
    places = [
        max(Fraction(0), min(Fraction(cells), (Fraction(*x.as_integer_ratio()) - low) / step))
        for x in values
    ]
    offsets = chance.integers(-(1 << 14), 1 << 14, n).tolist()
    words = [
        (math.floor((1 - p % 1) * (1 << 64)) + offset) % (1 << 64)
        for p, offset in zip(places, offsets, strict=True)
    ]
    return (
        values,
        words,
        [math.floor(p + Fraction(word, 1 << 64)) for p, word in zip(places, words, strict=True)],
    )


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.longdouble])
def test_next_to_a_whole_number_fractions_decide_and_floats_alone_would_be_wrong(kind, monkeypatch):
    low, step, cells = Fraction(-17, 3), Fraction(3, 7), 61
    values, words, wanted = next_to_a_whole_number(low, step, cells, kind, 500)
    assert round_at_random(values, low, step, cells, Each(words)).tolist() == wanted
    monkeypatch.setattr(random_rounding, "_PLACE_ERROR", 2.0**-60)
    assert round_at_random(values, low, step, cells, Each(words)).tolist() != wanted


def test_the_mean_is_the_place():
    for value in (Fraction(3, 16), Fraction(0), Fraction(5), Fraction(77, 16)):
        turns = [rounded([value], turn << 60, Fraction(0), Fraction(1), 5)[0] for turn in range(16)]
        assert Fraction(sum(map(int, turns)), 16) == value


def test_for_the_same_u_answers_stay_together():
    chance = np.random.default_rng(8)
    for _ in range(200):
        a, b = chance.uniform(0, 9, 2)
        word = int(chance.integers(1 << 63)) * 2
        one, other = (int(rounded([x], word, Fraction(0), Fraction(1), 9)[0]) for x in (a, b))
        assert abs(one - other) <= math.ceil(abs(a - b))


def test_whatever_is_no_number_is_the_lowest():
    strange = [
        math.nan,
        None,
        "3",
        -math.inf,
        Decimal("NaN"),
        Decimal("sNaN"),
        1j,
        object(),
        Decimal("-1e9999999"),
    ]
    assert rounded(strange, 0).tolist() == [0] * len(strange)
    assert (
        rounded([math.inf, 10**400, Decimal("1e9999999"), Decimal("inf")], 0).tolist()
        == [CELLS] * 4
    )
    assert rounded([Decimal("1e-9999999"), Decimal("0.5"), True], 0).tolist() == [2, 5, 9]
    for word in (0, 1 << 63, (1 << 64) - 1):
        assert rounded(np.array([np.nan, np.inf, -np.inf]), word).tolist() == [0, CELLS, 0]
    assert int(rounded(0.5, 0)) == 5


@pytest.mark.parametrize("word", [0, 1 << 63, ((1 << 64) // 1000) * 999, (1 << 64) - 1])
def test_decimals_are_what_they_say(word):
    values = [
        Decimal("1234.5"),
        Decimal("-0.999"),
        Decimal("1e-4"),
        Decimal("0.001"),
        Decimal("-987.654"),
        Decimal("3.5e3"),
    ]
    grid = {"low": Fraction(-1000), "step": Fraction(1), "cells": 5000}
    assert rounded(values, word, **grid).tolist() == [expected(x, word, **grid) for x in values]


def test_digits_are_drawn_until_they_decide():
    third = Fraction(1, 3)
    digits = (1 << 64) // 3
    assert reaches(digits, third, Scripted([digits + 1]))
    assert not reaches(digits, third, Scripted([digits - 1]))
    assert reaches(digits, third, Scripted([digits, digits + 1]))
    assert reaches(1 << 63, Fraction(1, 2), Scripted([]))
    assert not reaches((1 << 63) - 1, Fraction(1, 2), Scripted([]))
    assert not reaches((1 << 64) - 1, Fraction(1), Scripted([]))


def test_each_answer_takes_one_word():
    entropy = Seeded(4)
    values = np.linspace(0, 1, 50)
    round_at_random(values, LOW, STEP, CELLS, entropy)
    other = Seeded(4)
    other.words(50)
    assert entropy.words(3).tolist() == other.words(3).tolist()
