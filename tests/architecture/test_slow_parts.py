"""Slow tests are run in parts: each is in one of them, and whatever is not slow is in all."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

CONFTEST = Path(__file__).resolve().parents[2] / "conftest.py"


@pytest.fixture(scope="module")
def choose():
    """Return a function from a part to the names that are left of four fast tests and forty slow ones."""
    described = importlib.util.spec_from_file_location("conftest_of_all", CONFTEST)
    conftest = importlib.util.module_from_spec(described)
    described.loader.exec_module(conftest)

    class Item:
        def __init__(self, nodeid):
            self.nodeid = nodeid

        def get_closest_marker(self, mark):
            return mark if self.nodeid.startswith(mark) else None

    def chosen(part):
        items = [Item(f"fast-{n}") for n in range(4)] + [Item(f"slow-{n}") for n in range(40)]
        left_out = []

        def leave_out(*, items):
            left_out.extend(items)

        config = SimpleNamespace(
            getoption=lambda name: {"--slow-part": part}[name],
            hook=SimpleNamespace(pytest_deselected=leave_out),
        )
        every = {item.nodeid for item in items}
        conftest.pytest_collection_modifyitems(config, items)
        names = [item.nodeid for item in items]
        assert every == set(names) | {item.nodeid for item in left_out}
        return names

    return chosen


def test_each_slow_test_is_in_one_part(choose):
    parts = [choose(f"{place}/3") for place in (1, 2, 3)]
    slow = [name for part in parts for name in part if name.startswith("slow")]
    assert sorted(slow) == sorted(f"slow-{n}" for n in range(40))
    assert all(len([name for name in part if name.startswith("fast")]) == 4 for part in parts)


def test_one_part_and_no_part_are_all(choose):
    assert len(choose("1/1")) == len(choose(None)) == 44
