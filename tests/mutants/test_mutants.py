"""The list holds, and the runner tells apart a mutant that is convicted, one that survives and one that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants import runs
from mutants.__main__ import LIST, PROJECT, list_errors
from mutants.places import ListError, Mutant, find_change, read_list, source_roots
from mutants.runs import run_control, try_mutant

TOY = """
TOP = [
    1,
    2,
]


class Meter:
    def add(self, spent, cost, limit):
        if spent + cost > limit:
            return spent
        return spent + cost


def half(number):
    return number / 2
"""
TESTS = """
import time

from toy.meters import TOP, Meter


def test_limit():
    assert Meter().add(1, 1, 1) == TOP[0]


def test_sum():
    spent = Meter().add(0, 1, 1)
    while spent is None:
        time.sleep(1)
    assert spent == 1
"""


def mutant(place="Meter.add", old="> limit", new="> 2 * limit", tests=("test_toy.py::test_limit",)):
    return Mutant("toy", "a toy", place, old, new, tuple(tests))


@pytest.fixture
def project(tmp_path, monkeypatch):
    # What other plugins do takes longer than these tests.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    for file, text in {
        "src/toy/__init__.py": "",
        "src/toy/meters.py": TOY,
        "tests/test_toy.py": TESTS,
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    return tmp_path


def test_every_mutant_has_its_place_and_its_tests():
    assert not list_errors(list(read_list(LIST)), PROJECT)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, "convicted"),
        ({"place": "half", "old": "number / 2", "new": "number"}, "survived"),
        ({"tests": ["test_toy.py::test_sum"]}, "survived"),
        # None of these is a program that breaks a law.
        ({"place": "TOP", "old": "1,", "new": "one,"}, "no verdict"),
        ({"old": "spent + cost > limit", "new": "spent + price > limit"}, "no verdict"),
        ({"place": "TOP", "old": "TOP =", "new": "MOST ="}, "no verdict"),
        ({"tests": ["test_toy.py::test_sum[of old]"]}, "no verdict"),
    ],
)
def test_verdicts(project, change, word):
    assert try_mutant(mutant(**change), project).word == word


def test_a_mutant_that_hangs_has_no_verdict(project, monkeypatch):
    monkeypatch.setattr(runs, "SECONDS", 2)
    change = mutant(old="return spent + cost", new="return None", tests=["test_toy.py::test_sum"])
    found = try_mutant(change, project)
    assert (found.word, "longer than 2 seconds" in found.why) == ("no verdict", True)


def test_the_source_itself_convicts_nobody(project):
    """Where something puts the source in front of the mutant, no test is about it."""
    (project / "tests/conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(project / 'src')!r})\n"
    )
    found = try_mutant(mutant(), project)
    assert (found.word, "imported from elsewhere" in found.why) == ("no verdict", True)


def test_control(project, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(project / "src"))
    assert run_control(["tests/test_toy.py"], project).word == "survived"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"place": "Meter.take"}, "nothing is called Meter.take"),
        ({"old": "< limit"}, "occurs 0 times"),
        ({"old": "spent + cost"}, "occurs 2 times"),
        ({"new": "> > limit"}, "is no Python"),
        ({"tests": []}, "no test is named"),
        ({"tests": ["test_old.py::test_sum"]}, "test_old.py::test_sum is in 0 places"),
        ({"tests": ["test_toy.py::test_old"]}, "test_toy.py::test_old is in 0 places"),
    ],
)
def test_errors_of_a_list(project, change, words):
    [error] = list_errors([mutant(**change)], project)
    assert error.startswith("toy: ")
    assert words in error


def test_a_list_outlives_moves_and_line_breaks(project):
    there = project / "packages/toy/src/toys"
    there.mkdir(parents=True)
    Path(project / "src/toy/meters.py").rename(there / "all.py")
    found = find_change(mutant(place="TOP", old="[1, 2]", new="[2]"), source_roots(project))
    assert (found.module, found.text.startswith("\nTOP = [2]\n")) == ("toys.all", True)


def test_names_are_listed_once(tmp_path):
    listed = '[[mutant]]\nname = "a"\nabout = ""\nplace = "f"\nold = "x"\nnew = "y"\ntests = []\n'
    (tmp_path / "list.toml").write_text(2 * listed)
    with pytest.raises(ListError, match="a: listed twice"):
        read_list(tmp_path / "list.toml")
