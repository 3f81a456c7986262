"""The damped statistic: one family moves it by at most 4, for all tables, and that is attained; undamped it is moved much farther."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino.errors import InvalidParameter
from sordino.genomics import damped_tdt
from sordino.genomics.method import BOUND, FAMILIES, MOST_FAMILIES

# What two parents transmit: each one of two alleles, or nothing.
KINDS = [(i, j) for i in range(3) for j in range(3 - i)]
MOVES = sorted({(i - x, j - y) for i, j in KINDS for x, y in KINDS} - {(0, 0)})


def all_tables(families):
    size = 2 * families
    return np.array([(b, c) for b in range(size + 1) for c in range(size + 1 - b)]).T


def largest_move(families, statistic):
    """The largest change of a statistic of (b, c) between tables that one family leads to."""
    size, worst = 2 * families, 0.0
    b, c = all_tables(families)
    for i, j in MOVES:
        to_b, to_c = b + i, c + j
        inside = (to_b >= 0) & (to_c >= 0) & (to_b + to_c <= size)
        if inside.any():
            worst = max(
                worst,
                float(
                    np.abs(
                        statistic(b[inside], c[inside]) - statistic(to_b[inside], to_c[inside])
                    ).max()
                ),
            )
    return worst


def test_there_are_eighteen_moves():
    assert len(MOVES) == 18


@pytest.mark.parametrize("families", [1, 2, 3, 4, 7, 25])
@pytest.mark.parametrize("share", [Fraction(1, 100), Fraction(1, 3), Fraction(2, 3), 1, 5])
@pytest.mark.each_value
def test_one_family_moves_it_by_at_most_four(families, share):
    damping = 2 * families * share
    assert (
        largest_move(families, lambda b, c: damped_tdt(b, c, families=families, damping=damping))
        <= BOUND
    )


@pytest.mark.parametrize("families", [4, 25])
def test_four_is_attained(families):
    assert (
        largest_move(
            families, lambda b, c: damped_tdt(b, c, families=families, damping=2 * families)
        )
        == 4
    )


@pytest.mark.parametrize("families", [4, 25])
def test_without_damping_it_would_move_farther(families):
    damping = 2 * families

    def broken(b, c):
        return np.abs(b - c) * np.sqrt(damping / np.maximum(b + c, 1))

    assert largest_move(families, broken) > BOUND + 1


def test_the_bound_has_room_for_floats():
    """At the largest tables: two floats are farther apart than the statistics by far less than the bound allows."""
    n = MOST_FAMILIES
    rng = np.random.default_rng(7)
    total = rng.integers(n // 2, 2 * n - 4, 20_000)
    b = (total * rng.random(total.size)).astype(np.int64) + 2
    c = np.maximum(total - b, 2)
    for damping in (1000, n, Fraction(4 * n, 3)):
        statistics = [
            damped_tdt(b + i, c + j, families=n, damping=damping) for i, j in [(0, 0), *MOVES]
        ]
        assert max(float(np.abs(moved - statistics[0]).max()) for moved in statistics) <= BOUND


def test_common_markers_are_ordered_as_by_the_test():
    b, c = np.array([115, 150, 100, 83]), np.array([85, 120, 140, 90])
    plain = np.abs(b - c) / np.sqrt(b + c)
    assert np.allclose(damped_tdt(b, c, families=150, damping=100), plain * 10, rtol=1e-15)
    rare = damped_tdt(4, 0, families=150, damping=100)
    assert rare == 4, "held back: it counts as if there were a hundred transmissions"


def test_private_numbers_of_any_kind_become_counts():
    odd = [math.nan, math.inf, -math.inf, -3, 1e300, "5", None, 2.9]
    found = damped_tdt(np.array(odd, dtype=object), [0] * len(odd), families=5, damping=5)
    assert found.shape == (8,)
    assert np.isfinite(found).all()
    assert found[0] == found[3] == 0
    assert found[7] == damped_tdt(2, 0, families=5, damping=5)
    assert damped_tdt(9, 9, families=5, damping=5) == damped_tdt(9, 1, families=5, damping=5), (
        "b first, c as far as there is room"
    )


@pytest.mark.parametrize("value", FAMILIES.invalid, ids=repr)
def test_families_are_a_public_number(value):
    with pytest.raises(InvalidParameter, match="families must be"):
        damped_tdt([1], [1], families=value, damping=5)


@pytest.mark.parametrize("damping", [0, -1, math.nan, math.inf, None, "5", True])
def test_damping_is_a_public_number(damping):
    with pytest.raises(InvalidParameter, match="damping must be"):
        damped_tdt([1], [1], families=5, damping=damping)


def test_damping_of_any_size():
    for damping in (10**400, Fraction(1, 10**400), 1e308):
        assert 0 <= damped_tdt(5, 1, families=5, damping=damping) <= 4


def test_both_counts_have_one_shape():
    with pytest.raises(InvalidParameter, match="as many counts"):
        damped_tdt([1, 2], [1], families=5, damping=5)
