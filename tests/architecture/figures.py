"""How the source is built, in figures: each function measures one; its docstring says what counts.

None is a target by itself. One that rises asks: is this a new idea, or an old one written again?
What each may come to at most stands in limits.toml.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from architecture.source import ROOT, SOURCE, Import, Module, library

WIDEST = 100
SAME_LINES = 6
FRONT = ("session", "cli", "study", "results", "report")
"""Packages that put a release together and write it down."""


class Figure(NamedTuple):
    """What was counted, and where: the places with the most first."""

    now: float
    places: list[str]


def ranked(counts: Counter[str]) -> Figure:
    """Return the sum of counts, and the places in order."""
    places = [f"{place} {count:,}" for place, count in counts.most_common() if count]
    return Figure(counts.total(), places)


def listed(found: Iterable[str]) -> Figure:
    """Return how many were found."""
    places = list(found)
    return Figure(len(places), places)


def package(module: Module) -> str:
    """Return the name of the package, one below the library, that a module is in or is."""
    return ".".join(module.name.split(".")[:2])


# ---- how much ------------------------------------------------------------------------------------


def core_lines() -> Figure:
    """Lines of code of the library, its auditor not included.

    Docstrings, comments and blank lines are no code.
    """
    return _lines(auditor=False)


def audit_lines() -> Figure:
    """Lines of code of the auditor."""
    return _lines(auditor=True)


def core_files() -> Figure:
    """Files of the library, its auditor not included."""
    return _files(auditor=False)


def audit_files() -> Figure:
    """Files of the auditor."""
    return _files(auditor=True)


def _lines(*, auditor: bool) -> Figure:
    counts = Counter[str]()
    for module in _part(auditor=auditor):
        counts[package(module)] += len(module.code)
    return ranked(counts)


def _files(*, auditor: bool) -> Figure:
    return ranked(Counter(package(module) for module in _part(auditor=auditor)))


def _part(*, auditor: bool) -> list[Module]:
    return [module for module in library().values() if module.in_auditor == auditor]


def fullest_folder() -> Figure:
    """Files in the fullest folder, those in folders below it not counted."""
    return _largest(Counter(module.home for module in library().values()))


def longest_file() -> Figure:
    """Lines of code of the longest file."""
    return _largest(Counter({module.place: len(module.code) for module in library().values()}))


def _largest(counts: Counter[str]) -> Figure:
    return Figure(max(counts.values(), default=0), ranked(counts).places)


def tokens_a_line() -> Figure:
    """Tokens a line of code, to a tenth: how dense it is."""
    modules = [module for module in library().values() if module.code]
    lines = sum(len(module.code) for module in modules)
    density = {module.place: module.tokens / len(module.code) for module in modules}
    densest = sorted(density, key=density.__getitem__, reverse=True)
    average = sum(module.tokens for module in modules) / max(lines, 1)
    return Figure(round(average, 1), [f"{place} {density[place]:.1f}" for place in densest])


def wide_lines() -> Figure:
    """Lines of more than 100 characters: of code, docstrings and comments."""
    counts = Counter[str]()
    for module in library().values():
        counts[module.place] = sum(len(line) > WIDEST for line in module.lines)
    return ranked(counts)


def any_in_front() -> Figure:
    """Uses of `Any` in session, cli, study, results and report: what no type checker sees."""
    return _named("Any")


def isinstance_in_front() -> Figure:
    """Uses of `isinstance` in session, cli, study, results and report: questions about a kind."""
    return _named("isinstance")


def _named(name: str) -> Figure:
    """Count where a name is used, an import of it not included."""
    return ranked(
        Counter(
            module.place
            for module in library().values()
            if package(module).removeprefix("sordino.") in FRONT
            for node in module.nodes
            if (isinstance(node, ast.Name) and node.id == name)
            or (isinstance(node, ast.Attribute) and node.attr == name)
        )
    )


# ---- who imports whom ----------------------------------------------------------------------------


def imports() -> Iterator[tuple[Module, Import]]:
    """Yield what the library imports from itself, with the importer; a whole module has no name."""
    known = library()
    tops = {name.partition(".")[0] for name in known}
    for importer in known.values():
        for one in importer.imports:
            if one.module.partition(".")[0] in tops:
                inner = f"{one.module}.{one.name}"
                yield importer, one._replace(module=inner, name=None) if inner in known else one


def circles() -> Figure:
    """Circles of imports: groups of files each of which needs all others.

    Imports in functions and for types count, too.
    """
    found = import_circles(when_loaded=False)
    return listed(f"{len(circle)} files: {', '.join(circle)}" for circle in found)


def widest_circle() -> Figure:
    """Files in the largest circle of imports."""
    found = import_circles(when_loaded=False)
    return Figure(len(found[0]) if found else 0, list(found[0]) if found else [])


def import_circles(*, when_loaded: bool) -> list[tuple[str, ...]]:
    """Return the names of modules that import each other in a circle, the largest first.

    Parameters
    ----------
    when_loaded
        Whether only imports count that run when a module is loaded, not in functions or for types.

    """
    needs: dict[str, set[str]] = defaultdict(set)
    for importer, one in imports():
        if one.module in library() and (one.when_loaded or not when_loaded):
            needs[importer.name].add(one.module)
    return sorted(_circles(needs), key=lambda circle: (-len(circle), circle))


def _circles(needs: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Return the strongly connected components with more than one node (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in needs.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            place = stack.index(node)
            component, stack[place:] = stack[place:], []
            if len(component) > 1:
                found.append(tuple(sorted(component)))

    for node in list(needs):
        if node not in index:
            visit(node)
    return found


def private_imports() -> Figure:
    """Imports of another file's names, or another package's modules, that begin with an underscore.

    Such a module belongs to the folder that holds it, and to whatever lies below that folder.
    """
    found = set()
    for importer, one in imports():
        module = one.module.split(".")
        private = [place for place, step in enumerate(module) if _is_private(step)]
        owner = module[: private[0]] if private else []
        outside = importer.name.split(".")[: len(owner)] != owner
        if outside or _is_private(one.name or ""):
            found.add(f"{importer.name}: {'.'.join([*module, *filter(None, [one.name])])}")
    return listed(sorted(found))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def single_importers() -> Figure:
    """Modules that one sibling imports, and nobody else: an idea of its own, or a part of that?"""
    importers: dict[str, set[str]] = defaultdict(set)
    for importer, one in imports():
        importers[one.module].add(importer.name)
    return listed(
        sorted(
            module
            for module, who in importers.items()
            if len(who) == 1 and next(iter(who)).rpartition(".")[0] == module.rpartition(".")[0]
        )
    )


def private_in_tests() -> Figure:
    """Statements of tests that import something private of the library."""
    found = []
    for file in sorted(ROOT.glob("tests/**/*.py")) + sorted(ROOT.glob("packages/*/tests/**/*.py")):
        test = Module(file.stem, file.read_text(encoding="utf-8"))
        found += [
            f"{file.relative_to(ROOT)}:{line}"
            for line in sorted(
                {
                    one.line
                    for one in test.imports
                    if one.module.partition(".")[0].startswith("sordino")
                    and any(map(_is_private, [*one.module.split("."), one.name or ""]))
                }
            )
        ]
    return listed(found)


# ---- the same thing twice ------------------------------------------------------------------------


def names_defined_twice() -> Figure:
    """Names of functions and classes that several files define at their top level."""
    files: dict[str, set[str]] = defaultdict(set)
    for module in library().values():
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                files[node.name].add(module.place)
    twice = sorted((-len(places), name) for name, places in files.items() if len(places) > 1)
    return listed(f"{name} in {-n} files: {', '.join(sorted(files[name]))}" for n, name in twice)


def equal_lines() -> Figure:
    """Pairs of places with the same six lines of code or more, letter for letter.

    Imports, and lines with a closing bracket alone, are left out.
    """
    lines = {module.name: _comparable(module) for module in library().values()}
    seen: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, rows in lines.items():
        for place in range(len(rows) - SAME_LINES + 1):
            seen[tuple(row for _, row in rows[place : place + SAME_LINES])].append((name, place))
    pairs = {
        (a, b)
        for places in seen.values()
        for number, a in enumerate(places)
        for b in places[number + 1 :]
        if a[0] != b[0] or abs(a[1] - b[1]) >= SAME_LINES
    }
    found = []
    for a, b in sorted(pairs):
        # A pair of places that goes on from one line earlier is the same pair.
        if ((a[0], a[1] - 1), (b[0], b[1] - 1)) in pairs:
            continue
        same = SAME_LINES
        while ((a[0], a[1] + same - SAME_LINES + 1), (b[0], b[1] + same - SAME_LINES + 1)) in pairs:
            same += 1
        found.append((same, f"{a[0]}:{lines[a[0]][a[1]][0]}", f"{b[0]}:{lines[b[0]][b[1]][0]}"))
    found.sort(key=lambda pair: (-pair[0], pair))
    return listed(f"{same} lines at {one} and {other}" for same, one, other in found)


def _comparable(module: Module) -> list[tuple[int, str]]:
    """Return the lines of code, with their numbers, but for imports and closing brackets."""
    imported = {
        line
        for node in module.nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    rows = [(number, module.lines[number - 1].strip()) for number in sorted(module.code - imported)]
    return [(number, row) for number, row in rows if row not in {")", "]", "}", "):"}]


# ---- what is run ---------------------------------------------------------------------------------

_TRACED = """
import sys
from sordino.cli import run
functions = set()
def loads(frame):
    # What a module calls while it is loaded (its classes, its rules) is no step of a release.
    while frame is not None:
        if frame.f_code.co_name == "<module>" and "/src/sordino" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
def seen(frame, event, argument):
    code = frame.f_code
    if event != "call" or "/src/sordino" not in code.co_filename or code.co_name.startswith("<"):
        return
    if not loads(frame):
        functions.add(code)
sys.setprofile(seen)
code = run(sys.argv[1:])
sys.setprofile(None)
for one in functions:
    file = one.co_filename.rpartition("/src/")[2]
    print(file, one.co_firstlineno, one.co_qualname, sep="\\t", file=sys.stderr)
sys.exit(code)
"""


@cache
def way_of_top() -> list[str]:
    """Return the file of each function that `sordino top FILE` calls over a table of two rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.csv").write_text("user,item\nu,a\nv,b\n")
        (folder / "items.txt").write_text("item\na\nb\n")
        options = "--item item --user user -k 1 --epsilon 1 --domain items.txt --no-ledger --quiet"
        ran = subprocess.run(
            [sys.executable, "-c", _TRACED, "top", "rows.csv", *options.split()],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE.parent)},
        )
    return sorted(line.partition("\t")[0] for line in ran.stderr.splitlines())


def way_files() -> Figure:
    """Files that `sordino top FILE` runs through, but for what a module does while it is loaded."""
    return listed(sorted(set(way_of_top())))


def way_functions() -> Figure:
    """Functions that `sordino top FILE` calls, but for what a module does while it is loaded."""
    return ranked(Counter(way_of_top()))


def default_tests() -> Figure:
    """Tests that `make test` collects."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        "not slow",
        "--ignore=tests/spark",
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    tests = [line for line in ran.stdout.splitlines() if "::" in line]
    return ranked(Counter(test.partition("::")[0] for test in tests))


READ: list[Callable[[], Figure]] = [
    core_lines,
    audit_lines,
    core_files,
    audit_files,
    fullest_folder,
    longest_file,
    tokens_a_line,
    wide_lines,
    any_in_front,
    isinstance_in_front,
    circles,
    widest_circle,
    private_imports,
    names_defined_twice,
    equal_lines,
]
"""Figures that are read off the source, in a few seconds."""

RUN: list[Callable[[], Figure]] = [way_files, way_functions, default_tests]
"""Figures for which something is run."""

ASKED: list[Callable[[], Figure]] = [single_importers, private_in_tests]
"""Figures without a limit: they are questions."""
