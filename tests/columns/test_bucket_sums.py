"""Sums of clipped steps: the same whole number as exact arithmetic record by record, whatever holds the records."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino.columns.clipped_steps import clipped_steps
from sordino.errors import InvalidParameter

TOP = 1 << 52


def expected(values, low, high, step, missing=None):
    def one(value):
        if value is None or value != value:
            return low if missing is None else missing
        if abs(value) == math.inf:
            return high if value > 0 else low
        return max(low, min(high, math.floor(Fraction(value) / step)))

    return sum(map(one, values))


LIMITS = [(0, 100), (-50, 70), (3, 9), (-9, -3), (0, TOP), (-TOP, TOP), (5, 5)]
EXPONENTS = (-900, -70, -3, 0, 2, 40, 63, 64, 70, 900)
FLOATS = [
    0.0,
    -0.0,
    0.1,
    0.7,
    3.999,
    8.0,
    69.99999,
    1e9,
    -2.5,
    -1e-310,
    1e-310,
    5e-324,
    -5e-324,
    1.7e308,
    -1.7e308,
    math.inf,
    -math.inf,
    math.nan,
]


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_floats(exponent):
    step = Fraction(2) ** exponent
    narrow = [x for x in FLOATS if not 1e30 < abs(x) < math.inf]
    for low, high in LIMITS:
        wanted = expected(FLOATS, low, high, step)
        assert clipped_steps(np.array(FLOATS), low, high, step) == wanted
        assert clipped_steps(np.array(FLOATS).astype("g"), low, high, step) == wanted
        assert clipped_steps(FLOATS[::-1], low, high, step, missing=high) == expected(
            FLOATS, low, high, step, high
        )
        single = np.array(narrow, "f4")
        assert clipped_steps(single, low, high, step) == expected(single.tolist(), low, high, step)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_whole_numbers(exponent):
    step = Fraction(2) ** exponent
    for kind in ("i8", "u8", "i1"):
        limits = np.iinfo(kind)
        chosen = (
            0,
            1,
            2,
            5,
            9,
            100,
            -1,
            -7,
            -(2**62),
            2**52,
            2**62 + 1,
            2**63 + 5,
            limits.min,
            limits.max,
        )
        listed = [n for n in chosen if limits.min <= n <= limits.max]
        for low, high in LIMITS:
            assert clipped_steps(np.array(listed, kind), low, high, step) == expected(
                listed, low, high, step
            )


def test_objects():
    step = Fraction(1, 4)
    values = [
        None,
        True,
        3,
        10**400,
        -(10**400),
        Fraction(1, 3),
        Decimal("2.26"),
        Decimal("1E+999999"),
        Decimal("-1E-999999"),
    ]
    wanted = -8 + 4 + 12 + 100 - 8 + 1 + 9 + 100 - 1
    assert clipped_steps(values, -8, 100, step) == wanted
    odd = [
        "5",
        Decimal("nan"),
        Decimal("sNaN"),
        Decimal("-Infinity"),
        np.datetime64("2020-01-01"),
        2j,
        Decimal("0E+999999999"),
    ]
    assert clipped_steps([*values, *odd], -8, 100, step) == wanted - 8 * 6
    assert clipped_steps(odd, -8, 100, step, missing=0) == -8


def test_sums_that_no_word_holds():
    values = np.full(100_000, 1e300)
    assert clipped_steps(values, -TOP, TOP, Fraction(1)) == 100_000 * TOP
    assert clipped_steps(-values, -TOP, TOP, Fraction(1)) == -100_000 * TOP


@given(st.lists(st.floats(), max_size=30), st.integers(0, 30))
def test_parts_add_up(values, cut):
    low, high, step = -1000, 5000, Fraction(1, 64)
    parts = clipped_steps(values[:cut], low, high, step) + clipped_steps(
        values[cut:], low, high, step
    )
    assert (
        parts
        == clipped_steps(np.array(values), low, high, step)
        == expected(values, low, high, step)
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"low": 5, "high": 4}, "low <= high"),
        ({"high": TOP + 1}, "high <= 2"),
        ({"step": Fraction(1, 3)}, "power of two"),
        ({"step": Fraction(2) ** 901}, r"from 2\^-900 to 2\^900"),
        ({"missing": 101}, "must be from 0 to 100"),
        ({"values": np.array(["M8"], "U3")}, "values must be a one-dimensional array"),
    ],
)
def test_bad_parameters_are_refused(changed, said):
    given_ = {"values": [1], "low": 0, "high": 100, "step": Fraction(1)} | changed
    with pytest.raises(InvalidParameter, match=said):
        clipped_steps(**given_)
