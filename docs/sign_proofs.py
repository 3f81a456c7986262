"""Compare the digests on the proof pages with the code that they prove, or sign a page anew after reading it against the code.

A page that proves code ends with a fenced block of pairs `name=digest`, one for each function, class or constant that its proof
reads. The name says nothing about the file: a definition may move, and no page has to be signed anew. The digest is over the
syntax tree without docstrings and comments: wording and layout may change freely, a changed formula may not.

    python docs/sign_proofs.py                        # says which pages no longer match, exit code 1 if any
    python docs/sign_proofs.py --sign noisy-top-k.md  # after re-reading that page: writes the digests of today's code

What the pages are signed with is also in the package, which has no pages: one digest a page, in src/sordino/statements/proofs.json.
Signing writes it, too; after a merge of two branches that have both signed, `--table` alone does.

To add a definition to a page, write its name into the block and sign the page. If several files define that name, write the
file as well (`decide=src/sordino/mechanisms/…`); signing puts the digest in its place.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "docs" / "proofs"
TABLE = ROOT / "src" / "sordino" / "statements" / "proofs.json"
DIGITS = 12

_PAIR = r"[A-Za-z_]\w*(?:=\S+)?"
_LAST_FENCE = re.compile(rf"^```\w*\n((?:{_PAIR}(?:[ \n]))+)```\s*\Z", re.MULTILINE)
_DIGEST = re.compile(rf"[0-9a-f]{{{DIGITS}}}")


class Definition(NamedTuple):
    """A function, class or constant at the top level of a module."""

    path: str  # of the file, from the root of the project
    digest: str


def canonical(node: object) -> str:
    """Return the syntax tree as text: no positions, no docstrings, no empty fields, the same for every version of Python."""
    if isinstance(node, ast.AST):
        fields = (
            (name, value)
            for name, value in ast.iter_fields(node)
            if value is not None and value != []
        )
        return f"{type(node).__name__}({','.join(f'{name}={canonical(value)}' for name, value in fields)})"
    if isinstance(node, list):
        return f"[{','.join(canonical(item) for item in node if not _is_text(item))}]"
    return repr(node)


def _is_text(node: object) -> bool:
    """Return True for a bare string: a docstring of a module, class, function or attribute."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def digests(source: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the digest of everything that a module defines at its top level."""
    for statement in ast.parse(source).body:
        for name in _names(statement):
            yield name, hashlib.sha256(canonical(statement).encode()).hexdigest()[:DIGITS]


def _names(statement: ast.stmt) -> list[str]:
    """Return the names that a statement defines; an import defines nothing."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    ]


@cache
def definitions(root: Path = ROOT) -> dict[str, list[Definition]]:
    """Return what the source defines, by name."""
    known: dict[str, list[Definition]] = defaultdict(list)
    for file in sorted([*root.glob("src/**/*.py"), *root.glob("packages/*/src/**/*.py")]):
        for name, digest in digests(file.read_text(encoding="utf-8")):
            known[name].append(Definition(file.relative_to(root).as_posix(), digest))
    return dict(known)


def signed(page: str) -> list[tuple[str, str]]:
    """Return the pairs that a page is signed with: names, and what stands behind them."""
    block = _LAST_FENCE.search(page)
    pairs = block.group(1).split() if block else []
    return [(name, written) for name, _, written in (pair.partition("=") for pair in pairs)]


def stale(page: str, root: Path = ROOT) -> Iterator[str]:
    """Say for each definition on the page whose digest differs what is wrong with it."""
    known = definitions(root)
    if not signed(page):
        yield "does not end with a block of pairs `name=digest`, so nothing of it is compared"
    for name, written in signed(page):
        if name not in known:
            yield f"{name} does not exist"
        elif not _DIGEST.fullmatch(written):
            yield f"{name} was never signed"
        elif written not in {one.digest for one in known[name]}:
            yield f"{name} changed since the page was signed"


def sign(page: str, root: Path = ROOT) -> str:
    """Return the page with the digests of the code as it is now."""
    block = _LAST_FENCE.search(page)
    if block is None:
        raise SystemExit("a page to sign must end with a fenced block of pairs `name=digest`.")
    known = definitions(root)
    # Where several files define a name, the one is meant that holds something else of this page.
    homes = {
        one.path
        for name, written in signed(page)
        for one in known.get(name, ())
        if one.digest == written
    }
    homes |= {known[name][0].path for name, _ in signed(page) if len(known.get(name, ())) == 1}
    pairs = [
        f"{name}={_chosen(name, written, known, homes).digest}" for name, written in signed(page)
    ]
    return page[: block.start(1)] + packed(pairs) + page[block.end(1) :]


def packed(pairs: list[str]) -> str:
    """Return the pairs in as few lines as possible."""
    lines = textwrap.wrap(
        " ".join(pairs), width=110, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines) + "\n"


def _chosen(
    name: str, written: str, known: dict[str, list[Definition]], homes: set[str]
) -> Definition:
    """Return the definition that a pair means."""
    candidates = known.get(name, [])
    for meant in (
        [one for one in candidates if written in {one.digest, one.path}],
        candidates if not written.endswith(".py") else [],
        [one for one in candidates if one.path in homes and not written.endswith(".py")],
    ):
        if len({one.digest for one in meant}) == 1:
            return meant[0]
    if not candidates:
        raise SystemExit(
            f"nothing is called {name} any more: take it from the page, or write its new name."
        )
    places = ", ".join(one.path for one in candidates)
    raise SystemExit(
        f"several files define {name} ({places}): write the file that is meant behind the name."
    )


def table(folder: Path = PROOFS) -> str:
    """Return the digests of all signed pages, as the package has them: over the pairs, with a space between two of them."""
    pages = {
        page.name: signed(page.read_text(encoding="utf-8")) for page in sorted(folder.glob("*.md"))
    }
    digests_of = {
        name: hashlib.sha256(
            " ".join(f"{one}={digest}" for one, digest in pairs).encode()
        ).hexdigest()
        for name, pairs in pages.items()
        if pairs
    }
    return json.dumps(digests_of, indent=2) + "\n"


def main() -> int:
    """Check all pages, or sign the ones that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--sign",
        nargs="+",
        metavar="PAGE",
        help="pages of docs/proofs that were read again against the code",
    )
    parser.add_argument(
        "--table", action="store_true", help="write the digests for the package anew"
    )
    asked = parser.parse_args()
    pages = asked.sign
    for name in pages or ():
        page = PROOFS / Path(name).name
        page.write_text(sign(page.read_text(encoding="utf-8")), encoding="utf-8")
    if pages or asked.table:
        TABLE.write_text(table(), encoding="utf-8")
    wrong = [
        f"{page.name}: {what}"
        for page in sorted(PROOFS.glob("*.md"))
        if page.name != "index.md"
        for what in stale(page.read_text(encoding="utf-8"))
    ]
    if not TABLE.is_file() or TABLE.read_text(encoding="utf-8") != table():
        wrong.append(
            f"{TABLE.name}: is not what the pages are signed with (python docs/sign_proofs.py --table)"
        )
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
