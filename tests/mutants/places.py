"""Reads the list of mutants, and finds the one place that each of them changes.

A mutant names a function, class or constant by its qualified name, wherever it is defined, and a text in it.
So the list holds when files move. Blanks and line breaks may differ: a formatter may break lines anew.
"""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


class ListError(Exception):
    """A mutant of the list is not what it says: its place or one of its tests is not there."""


@dataclass(frozen=True)
class Mutant:
    """One wrong change: in `place` the text `old` becomes `new`, and one of `tests` must fail."""

    name: str
    about: str
    place: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """A changed file: below which root of the source it lies, where, and what it says then."""

    root: Path
    path: Path
    text: str

    @property
    def module(self) -> str:
        """Return the name by which it is imported."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_list(path: Path) -> tuple[Mutant, ...]:
    """Return the mutants of a file, each name once."""
    listed = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    mutants = tuple(Mutant(**{**one, "tests": tuple(one["tests"])}) for one in listed)
    names = [mutant.name for mutant in mutants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ListError(f"{', '.join(twice)}: listed twice")
    return mutants


def source_roots(project: Path) -> tuple[Path, ...]:
    """Return the folders from which a project is imported."""
    return tuple(
        root for root in (project / "src", *sorted(project.glob("packages/*/src"))) if root.is_dir()
    )


def find_change(mutant: Mutant, roots: tuple[Path, ...]) -> Change:
    """Return the file with the change in it; `ListError` unless its text is there exactly once."""
    own = mutant.place.rpartition(".")[2]
    places = [
        (root, path, text, *span)
        for root, path, text in _read_files(roots)
        if own in text
        for span in _list_definitions(text).get(mutant.place, ())
    ]
    if not places:
        raise ListError(f"{mutant.name}: nothing is called {mutant.place}")
    pattern = _pattern_of(mutant.old)
    found = [
        (root, path, text, start + hit.start(), start + hit.end())
        for root, path, text, start, stop in places
        for hit in pattern.finditer(text[start:stop])
    ]
    if len(found) != 1:
        raise ListError(f"{mutant.name}: its text occurs {len(found)} times in {mutant.place}")
    [(root, path, text, start, stop)] = found
    changed = text[:start] + mutant.new + text[stop:]
    try:
        compile(changed, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ListError(f"{mutant.name}: what it makes is no Python ({error.msg})") from None
    return Change(root, path.relative_to(root), changed)


def find_tests(mutant: Mutant, project: Path) -> list[str]:
    """Return its tests as pytest takes them; `ListError` unless each is in exactly one place.

    A test is the end of the path of its file, and a function in it: it may move to another folder, too.
    """
    if not mutant.tests:
        raise ListError(f"{mutant.name}: no test is named")
    found = []
    for test in mutant.tests:
        file, _, function = test.partition("::")
        places = [
            path
            for path, text in _read_tests(project)
            if f"/{path}".endswith(f"/{file}") and f"def {function.partition('[')[0]}(" in text
        ]
        if len(places) != 1:
            raise ListError(f"{mutant.name}: {test} is in {len(places)} places")
        found.append(f"{places[0]}::{function}")
    return found


@cache
def _read_tests(project: Path) -> list[tuple[str, str]]:
    """Return the path of each file of tests of a project, and what it says."""
    return [
        (path.relative_to(project).as_posix(), path.read_text(encoding="utf-8"))
        for folder in (project / "tests", *sorted(project.glob("packages/*/tests")))
        for path in sorted(folder.rglob("test_*.py"))
    ]


def _pattern_of(old: str) -> re.Pattern[str]:
    words = [re.escape(word) for word in old.split()]
    text = r"\s+".join(words)
    # Where a formatter breaks a line: behind what opens, and before what closes, there with a comma.
    text = re.sub(r"\\[(\[{]", lambda hit: hit[0] + r"\s*", text)
    return re.compile(re.sub(r"\\[)\]}]", lambda hit: r"(?:,?\s+)?" + hit[0], text))


@cache
def _read_files(roots: tuple[Path, ...]) -> list[tuple[Path, Path, str]]:
    """Return each file of some roots: its root, its path and what it says."""
    return [
        (root, path, path.read_text(encoding="utf-8"))
        for root in roots
        for path in sorted(root.rglob("*.py"))
    ]


@cache
def _list_definitions(text: str) -> dict[str, list[tuple[int, int]]]:
    """Return where in a file each function, class and constant is defined: its characters, by its name."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    found: dict[str, list[tuple[int, int]]] = {}

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            names: list[str] = []
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = [node.name]
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [one.id for one in targets if isinstance(one, ast.Name)]
            for name in names:
                span = starts[node.lineno - 1], starts[node.end_lineno or node.lineno]
                found.setdefault(prefix + name, []).append(span)
            if isinstance(node, ast.ClassDef):
                walk(node.body, f"{prefix}{node.name}.")

    walk(ast.parse(text).body, "")
    return found
