"""How the source is built, in figures: `make house` prints them, so that the next growth is seen.

None of them is a target by itself. A figure that rises asks a question: is this a new idea, or an old one written again?
"""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "sordino"
AUDITOR = ROOT / "packages" / "sordino-audit" / "src" / "sordino_audit"
PACKAGES = (SOURCE, AUDITOR)
TESTS = (ROOT / "tests", ROOT / "packages" / "sordino-audit" / "tests")
WIDEST = 110
SAME_LINES = 6
_NO_TOKENS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Text(NamedTuple):
    """What stands in one file, counted."""

    tokens: int
    code: frozenset[int]  # the numbers of its lines of code: neither docstrings nor comments nor blank
    comments: int
    wide: int


class Import(NamedTuple):
    """One name that one file imports from a module of the library, or the module itself."""

    importer: str
    module: str
    name: str | None


# ---- one file ---------------------------------------------------------------------------------------------------------


def files() -> list[tuple[Path, Path]]:
    """Return the files of the library and of its auditor, each behind the package that it is in."""
    return [(package, file) for package in PACKAGES for file in sorted(package.rglob("*.py"))]


def path_of(package: Path, file: Path) -> str:
    """Return what a list calls a file: its path in the library, or with the name of another package before it."""
    return file.relative_to(package if package == SOURCE else package.parent).as_posix()


def room_of(module: str) -> str:
    """Return the package of the library that a module is in, or the name of the auditor; nothing of the library itself."""
    steps = module.split(".")
    return "".join(steps[1:2]) if steps[0] == SOURCE.name else steps[0]


def is_ours(module: str) -> bool:
    """Return whether a module belongs to the library or to its auditor."""
    return module.split(".", maxsplit=1)[0] in {package.name for package in PACKAGES}


@cache
def sources() -> dict[str, str]:
    """Return the text of each module by its dotted name; a package is the name of its folder."""
    found = {}
    for package, file in files():
        parts = file.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file.read_text(encoding="utf-8")
    return found


@cache
def tree(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(sources()[module])


def count(text: str) -> Text:
    """Count the tokens, the lines of code and the comments of a file."""
    docstrings = {line for node in ast.walk(ast.parse(text)) for line in _docstring_lines(node)}
    tokens, comments, code = 0, 0, set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            # What a tool is told is no comment for a reader, unless its reason stands behind it.
            told = token.string.startswith(("# noqa", "# type:", "# fmt:", "# pragma"))
            comments += not told or "(" in token.string
        if token.type in _NO_TOKENS or token.start[0] in docstrings:
            continue
        tokens += 1
        code.update(range(token.start[0], token.end[0] + 1))
    return Text(tokens, frozenset(code), comments, sum(len(line) > WIDEST for line in text.splitlines()))


def _docstring_lines(node: ast.AST) -> Iterator[int]:
    """Yield the lines of the texts that stand alone in a body: docstrings of modules, classes, functions and attributes."""
    for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        ):
            yield from range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


# ---- who imports whom -------------------------------------------------------------------------------------------------


def imports_of(text: str, importer: str, *, package: bool = False) -> Iterator[Import]:
    """Yield what a file imports from the library, wherever the import stands."""
    home = importer.split(".") if package else importer.split(".")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (Import(importer, alias.name, None) for alias in node.names if is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom):
            base = home[: len(home) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            if not is_ours(module):
                continue
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield (
                    Import(importer, inner, None)
                    if inner in sources()
                    else Import(importer, module, alias.name)
                )


@cache
def imports() -> tuple[Import, ...]:
    """Return every import of the library by the library."""
    packages = {module.rpartition(".")[0] for module in sources()}
    return tuple(
        one
        for module, text in sources().items()
        for one in imports_of(text, module, package=module in packages)
    )


def with_one_importer() -> list[str]:
    """Return the modules that one sibling imports, and nobody else: are they an idea of their own, or a part of it?"""
    importers: dict[str, set[str]] = defaultdict(set)
    for one in imports():
        importers[one.module].add(one.importer)
    found = []
    for module, who in importers.items():
        home = module.rpartition(".")[0]
        if len(who) == 1 and next(iter(who)).rpartition(".")[0] == home:
            found.append(module)
    return sorted(found)


def through_walls() -> list[str]:
    """Return the imports of a private module or name of another package."""
    found = set()
    for one in imports():
        module = one.module.split(".")
        steps = [*module, *filter(None, [one.name])]
        private = [
            place for place, step in enumerate(steps) if step.startswith("_") and not step.startswith("__")
        ]
        if not private:
            continue
        # What is private belongs to the folder that holds it, and to whatever lies below that folder.
        owner = module[: min(private[0], len(module) - 1)]
        if one.importer.split(".")[: len(owner)] != owner:
            found.add(f"{one.importer}: {'.'.join(steps)}")
    return sorted(found)


def private_in_tests() -> list[str]:
    """Return the statements of tests that import something private of the library."""
    found = []
    for file in (file for tests in TESTS for file in sorted(tests.rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and is_ours(node.module or ""):
                steps = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Import):
                steps = [
                    step for alias in node.names if is_ours(alias.name) for step in alias.name.split(".")
                ]
            else:
                continue
            if any(step.startswith("_") and not step.startswith("__") for step in steps):
                found.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    return found


def circles() -> list[tuple[str, ...]]:
    """Return the groups of modules that import each other in a circle when they are loaded."""
    needs: dict[str, set[str]] = defaultdict(set)
    for module in sources():
        for node in tree(module).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                text = ast.unparse(node)
                package = any(other.startswith(f"{module}.") for other in sources())
                needs[module] |= {
                    one.module for one in imports_of(text, module, package=package) if one.module in sources()
                }
    return _strong(needs)


def _strong(needs: dict[str, set[str]]) -> list[tuple[str, ...]]:
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


# ---- the same thing twice ---------------------------------------------------------------------------------------------


def defined_twice() -> dict[str, int]:
    """Return the functions and classes that several files define at their top level, with the number of files."""
    files: Counter[str] = Counter()
    for module in sources():
        files.update(
            {node.name for node in tree(module).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        )
    return {name: times for name, times in files.items() if times > 1}


def letter_equal() -> list[tuple[str, int, str, int, int]]:
    """Return the pairs of places with the same lines of code: module, line, module, line, and how many."""
    seen: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    lines: dict[str, list[tuple[int, str]]] = {}
    for module, text in sources().items():
        code = count(text).code
        rows = text.splitlines()
        imported = {
            line
            for node in ast.walk(tree(module))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        lines[module] = [
            (n, rows[n - 1].strip())
            for n in sorted(code - imported)
            if rows[n - 1].strip() not in {")", "]", "}", "):"}
        ]
        for place in range(len(lines[module]) - SAME_LINES + 1):
            seen[tuple(row for _, row in lines[module][place : place + SAME_LINES])].append((module, place))
    pairs = set()
    for places in seen.values():
        pairs |= {
            (a, b)
            for i, a in enumerate(places)
            for b in places[i + 1 :]
            if a[0] != b[0] or abs(a[1] - b[1]) >= SAME_LINES
        }
    # A pair of places that goes on from one line earlier is the same pair.
    begin = [(a, b) for a, b in pairs if ((a[0], a[1] - 1), (b[0], b[1] - 1)) not in pairs]
    found = []
    for a, b in sorted(begin):
        more = 0
        while ((a[0], a[1] + more + 1), (b[0], b[1] + more + 1)) in pairs:
            more += 1
        found.append((a[0], lines[a[0]][a[1]][0], b[0], lines[b[0]][b[1]][0], SAME_LINES + more))
    return found


# ---- the way of one release -------------------------------------------------------------------------------------------

_TRACED = """
import sys
from sordino.cli import run
files, functions = set(), set()
def loads(frame):
    # What a module calls while it is loaded (its classes, its rules) is no step of a release.
    while frame is not None:
        if frame.f_code.co_name == "<module>" and "/src/sordino/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
def seen(frame, event, argument):
    code = frame.f_code
    if event != "call" or "/src/sordino/" not in code.co_filename or code.co_name.startswith("<"):
        return
    if not loads(frame):
        files.add(code.co_filename)
        functions.add(code)
sys.setprofile(seen)
code = run(sys.argv[1:])
sys.setprofile(None)
print(code, len(files), len(functions), file=sys.stderr)
print(*sorted(files), sep="\\n", file=sys.stderr)
"""


def way_of_top() -> tuple[int, int, list[str]]:
    """Return how many files and functions `sordino top FILE` runs through, and the files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.csv").write_text("user,item\nu,a\nv,b\n")
        (folder / "items.txt").write_text("item\na\nb\n")
        command = [
            sys.executable,
            "-c",
            _TRACED,
            "top",
            str(folder / "rows.csv"),
            "--item",
            "item",
            "--user",
            "user",
        ]
        command += [
            "-k",
            "1",
            "--epsilon",
            "1",
            "--domain",
            str(folder / "items.txt"),
            "--no-ledger",
            "--quiet",
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    head, *files = ran.stderr.strip().splitlines()
    code, files_run, functions = map(int, head.split())
    assert code == 0, ran.stderr
    return files_run, functions, [str(Path(file).relative_to(SOURCE)) for file in files]


# ---- all of it --------------------------------------------------------------------------------------------------------


def figures() -> dict[str, str]:
    """Return every figure by its name."""
    texts = {module: count(text) for module, text in sources().items()}
    code = sum(len(text.code) for text in texts.values())
    on_the_way, functions, _ = way_of_top()
    folders = Counter(file.parent.relative_to(package.parent).as_posix() for package, file in files())
    longest = max(texts, key=lambda module: len(texts[module].code))
    fullest = max(folders, key=lambda folder: folders[folder])
    twice = defined_twice()
    same = letter_equal()
    outside = sum(room_of(module) != AUDITOR.name for module in texts)
    return {
        "files outside of the auditor, in all": f"{outside}, {len(texts)}",
        "files in the fullest folder": f"{folders[fullest]} ({fullest})",
        "modules with one importer, a sibling": str(len(with_one_importer())),
        "imports of another package's private modules or names": str(len(through_walls())),
        "circles of imports": str(len(circles())),
        "private imports in tests (statements)": str(len(private_in_tests())),
        "lines of code": str(code),
        "lines of code of the longest file": f"{len(texts[longest].code)} ({longest})",
        "tokens a line of code": f"{sum(text.tokens for text in texts.values()) / code:.1f}",
        f"lines over {WIDEST} characters": str(sum(text.wide for text in texts.values())),
        "comments per 100 lines of code": f"{100 * sum(text.comments for text in texts.values()) / code:.1f}",
        f"letter-equal pairs of {SAME_LINES} lines or more": f"{len(same)} ({sum(pair[-1] for pair in same)} lines)",
        "names at top level defined in several files": str(len(twice)),
        "files, functions on the way of `sordino top FILE`": f"{on_the_way}, {functions}",
    }


def main() -> None:
    """Print the figures; with the name of a list, what it counts."""
    lists: dict[str, Callable[[], Iterable[object]]] = {
        "importers": with_one_importer,
        "walls": through_walls,
        "circles": circles,
        "tests": private_in_tests,
        "twice": lambda: sorted(defined_twice().items(), key=lambda item: -item[1]),
        "equal": letter_equal,
        "top": lambda: way_of_top()[2],
    }
    if len(sys.argv) > 1:
        print(*lists[sys.argv[1]](), sep="\n")
        return
    for name, figure in figures().items():
        print(f"{name:58} {figure}")
    print(f"\nwhat is counted: python tests/architecture/figures.py {'|'.join(lists)}")


if __name__ == "__main__":
    main()
