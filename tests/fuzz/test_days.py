"""Neighbors that differ in one person on one day: a slice of what `python -m fuzz.days` compares."""

from __future__ import annotations

import random

import pytest

from fuzz import days


@pytest.mark.parametrize("seed", [3, 4])
def test_other_days_are_released_alike_to_the_last_bit(tmp_path, seed):
    draw, done = random.Random(seed), 0
    while done < 24:
        many, found = days.compare(draw, tmp_path)
        assert found == []
        done += many


def test_the_day_itself_is_not_alike(tmp_path):
    """So the law can fail: what is read beyond the part is seen."""
    draw, seen = random.Random(5), 0
    for _ in range(12):
        pair = days.make_pair(draw, tmp_path)
        one, other = (days.release(table, pair, None, "sum", 9) for table in (pair.one, pair.other))
        seen += one != other
    assert seen > 3
