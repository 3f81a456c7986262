"""The source of the library, read once: text, syntax tree and tokens of each of its files."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "sordino"

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Import(NamedTuple):
    """One name that a file imports from a module, or the module itself."""

    module: str
    name: str | None
    line: int
    when_loaded: bool  # False inside a function, and under an `if` such as TYPE_CHECKING


class Module:
    """One file.

    Parameters
    ----------
    name
        Dotted; that of a package is the name of its folder.
    text
        What stands in it.
    is_package
        Whether it is the `__init__.py` of a folder.

    """

    def __init__(self, name: str, text: str, *, is_package: bool = False) -> None:
        self.name = name
        self.text = text
        self.home = name if is_package else name.rpartition(".")[0]
        """Dotted name of the folder that the file is in."""
        parts = [*name.split("."), *["__init__"] * is_package]
        self.place = f"{'/'.join(parts[parts[0] == 'sordino' :])}.py"
        """The file, from the folder of the library on."""

    @property
    def in_auditor(self) -> bool:
        """Whether it is of the auditor: a part of the library, or a distribution of its own."""
        top, *rest = self.name.split(".")
        return top != "sordino" or rest[:1] == ["audit"]

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        """The lines, the first of which has number 1 everywhere else."""
        return self.text.splitlines()

    @property
    def tokens(self) -> int:
        """How many tokens its code has: neither layout, nor comments, nor docstrings."""
        return len(self._spans)

    @cached_property
    def code(self) -> frozenset[int]:
        """The numbers of its lines of code: neither docstrings, nor comments, nor blank."""
        return frozenset(line for begin, end in self._spans for line in range(begin, end + 1))

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        """The first and the last line of each token of its code."""
        docstrings = {line for node in self.nodes for line in _docstring_lines(node)}
        return [
            (token.start[0], token.end[0])
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline)
            if token.type not in _LAYOUT and token.start[0] not in docstrings
        ]

    @cached_property
    def imports(self) -> list[Import]:
        """Everything that it imports, wherever that stands, under absolute names."""
        found = []
        top = set(map(id, self.tree.body))
        for node in self.nodes:
            if isinstance(node, ast.Import):
                loads = id(node) in top
                found += [Import(alias.name, None, node.lineno, loads) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                module = self._absolute(node)
                loads = id(node) in top
                found += [Import(module, alias.name, node.lineno, loads) for alias in node.names]
        return found

    def _absolute(self, node: ast.ImportFrom) -> str:
        """Return the name of the module that a statement imports from."""
        home = self.home.split(".")
        base = home[: len(home) - node.level + 1] if node.level else []
        return ".".join([*base, *filter(None, [node.module])])


def _docstring_lines(node: ast.AST) -> Iterator[int]:
    """Yield the lines of docstrings in a body: texts that stand alone, also after an attribute."""
    body = getattr(node, "body", ())
    # The body of a lambda, and that of a choice, is one expression.
    for statement in body if isinstance(body, list) else ():
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        ):
            yield from range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


@cache
def library() -> dict[str, Module]:
    """Return every module of this repository that is installed, by its name.

    Each distribution has a folder `src`: that of the library, and those in `packages`.
    """
    found = {}
    for top in [SOURCE.parent, *sorted(ROOT.glob("packages/*/src"))]:
        for file in sorted(top.rglob("*.py")):
            parts = file.relative_to(top).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            found[name] = Module(name, file.read_text(encoding="utf-8"), is_package=is_package)
    return found
