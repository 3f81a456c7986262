"""Slow tests are run in parts, each in one of them, and a family shows each of its values in the default run."""

from __future__ import annotations

import importlib.util
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

CONFTEST = Path(__file__).resolve().parents[2] / "conftest.py"


@pytest.fixture(scope="module")
def conftest():
    described = importlib.util.spec_from_file_location("conftest_of_all", CONFTEST)
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def choose(conftest):
    """Return a function from a part to the names that are left of four fast tests and forty slow ones."""

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


def family(kind, *parameters):
    """Return the cases of a test with these parameters, marked as such a family."""

    class Case:
        path, originalname = "test_x.py", "test_it"

        def __init__(self, values):
            self.name, self.marks = "-".join(values), {kind.name: kind.mark}
            self.callspec = SimpleNamespace(_idlist=values)

        def get_closest_marker(self, name):
            return self.marks.get(name)

        def add_marker(self, mark):
            self.marks[mark.name] = mark

    return [Case(values) for values in product(*parameters)]


def left(conftest, cases):
    """Return the cases of the default run, whatever order they were found in."""
    found = []
    for order in (cases, cases[::-1]):
        for case in order:
            case.marks.pop("slow", None)
        conftest.leave_out_cases(order)
        found.append([case.name for case in cases if "slow" not in case.marks])
    assert found[0] == found[1]
    return found[0]


def test_of_a_sample_every_nth_case_is_in_the_default_run(conftest):
    assert left(conftest, family(pytest.mark.sample(4), "abc", "xyz")) == ["a-x", "b-y", "c-z"]


def test_each_value_is_in_the_default_run_and_hardly_twice(conftest):
    assert left(conftest, family(pytest.mark.each_value, "abc", "xyz")) == ["a-x", "b-y", "c-z"]
    assert left(conftest, family(pytest.mark.each_value, "abcd")) == ["a", "b", "c", "d"]
    kept = left(conftest, family(pytest.mark.each_value, "abcdefg", "01", "xyz"))
    assert len(kept) == 7
    assert {value for name in kept for value in name.split("-")} == set("abcdefg01xyz")
