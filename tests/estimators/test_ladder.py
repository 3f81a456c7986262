"""A ladder of looks: rates and levels, and what stopping by what was seen does to intervals with and without it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sordino as sd
from sordino.estimators.intervals import find_reach

FIRST = sd.LaplaceMechanism(epsilon=Fraction(1, 10), sensitivity=sd.COUNTING)
SPAN = np.arange(-250, 251)


def test_rates_and_levels():
    ladder = sd.Ladder(growth=3, looks=4)
    assert ladder.list_rates(Fraction(1, 7)) == (
        Fraction(1, 7),
        Fraction(3, 7),
        Fraction(9, 7),
        Fraction(27, 7),
    )
    levels = [1 - Fraction(str(ladder.find_confidence(look))) for look in range(1, 5)]
    assert levels == [Fraction(1, 20) / 2**look for look in range(1, 5)]
    assert sd.Ladder() == sd.Ladder(growth=2, looks=8)
    assert ladder.find_confidence(2, 0.8) == 0.95


def test_rates_that_no_noise_has_are_left_out():
    rates = sd.Ladder(growth=1024, looks=32).list_rates(Fraction(1))
    assert rates == tuple(Fraction(1024) ** look for look in range(5))


@pytest.mark.parametrize(
    ("name", "bad"), [("growth", 1), ("growth", 2.5), ("growth", 1025), ("looks", 1), ("looks", 33)]
)
def test_parameters_are_checked(name, bad):
    with pytest.raises(sd.InvalidParameter, match=f"Ladder.{name} must be a whole number from 2"):
        sd.Ladder(**{name: bad})


def joint(first, finer):
    """P(N1 = n, N2 = m) as a matrix."""
    r, s = math.exp(-float(first.noise.rate)), math.exp(-float(finer.noise.rate))
    rest = np.subtract.outer(SPAN, SPAN)
    z = (1 - s / r) * (1 - r * s) / (1 - s) ** 2 * (1 - r) / (1 + r) * r ** np.abs(rest)
    z += (rest == 0) * (1 - r) ** 2 / (1 - s) ** 2 * s / r
    return z * finer.noise.pmf(SPAN)


def missed(levels):
    """The chance that a reader is wrong who stops after a first interval that misses, and else looks again."""
    finer = sd.RefinedLaplace(first=FIRST, epsilon=Fraction(1, 10))
    mass = joint(FIRST, finer)
    assert mass.sum() == pytest.approx(1, abs=1e-9)
    assert mass.sum(axis=1) == pytest.approx(FIRST.noise.pmf(SPAN), abs=1e-12)
    first, second = (
        np.abs(SPAN) > find_reach(m, level) for m, level in zip((FIRST, finer), levels, strict=True)
    )
    return float(mass[first].sum() + mass[~first][:, second].sum())


def test_all_looks_hold_together_however_one_stops():
    ladder = sd.Ladder(growth=2)
    levels = [Fraction(str(ladder.find_confidence(look))) for look in (1, 2)]
    assert missed(levels) <= 0.0375


def test_intervals_of_one_look_each_do_not_hold_for_who_looks_and_decides():
    assert missed([Fraction(19, 20)] * 2) > 0.06
