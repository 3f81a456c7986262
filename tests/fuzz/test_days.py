"""Neighbors that differ in one person on one day: a slice of what `python -m fuzz.days` compares."""

from __future__ import annotations

import random

import pytest

from fuzz import days


@pytest.mark.parametrize("seed", [3, 4])
def test_other_days_are_released_alike_to_the_last_bit(tmp_path, seed):
    draw, done = random.Random(seed), 0
    for _ in range(3):
        _, many, found = days.compare(draw, tmp_path, neighbors=6)
        assert found == []
        done += many
    assert done >= 18


def test_the_day_itself_is_not_alike(tmp_path, monkeypatch):
    """So the law can fail: what is read beyond the part is seen."""
    monkeypatch.setattr(days, "list_ranges", lambda *_: [None])  # the whole table
    draw, seen, done = random.Random(5), 0, 0
    for _ in range(4):
        _, many, found = days.compare(draw, tmp_path, neighbors=6)
        seen, done = seen + len(found), done + many
    assert seen > done / 4
