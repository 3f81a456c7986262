"""Compare the digests on the proof pages with the code that they prove, or sign a page anew after reading it against the code.

A page that proves code ends with a fenced block of lines `src/sordino/... digest`. The digest is over the syntax tree without
docstrings and comments: wording and layout may change freely, a changed formula may not.

    python docs/sign_proofs.py                        # says which pages no longer match, exit code 1 if any
    python docs/sign_proofs.py --sign noisy-top-k.md  # after re-reading that page: writes the digests of today's code
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "docs" / "proofs"
DIGITS = 16

_LAST_FENCE = re.compile(r"^```\w*\n((?:src/sordino/\S+\.py(?: \S+)?\n)+)```\s*\Z", re.MULTILINE)


def canonical(node: object) -> str:
    """Return the syntax tree as text: no positions, no docstrings, no empty fields, the same for every version of Python."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if value is not None and value != [])
        return f"{type(node).__name__}({','.join(f'{name}={canonical(value)}' for name, value in fields)})"
    if isinstance(node, list):
        return f"[{','.join(canonical(item) for item in node if not _is_text(item))}]"
    return repr(node)


def _is_text(node: object) -> bool:
    """Return True for a bare string: a docstring of a module, class, function or attribute."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def digest(source: str) -> str:
    """Return the digest of what a module does."""
    return hashlib.sha256(canonical(ast.parse(source)).encode()).hexdigest()[:DIGITS]


def signed(page: str) -> dict[str, str]:
    """Return the digests that a page is signed with, by path; a path that was never signed has none."""
    block = _LAST_FENCE.search(page)
    lines = block.group(1).splitlines() if block else []
    return {path: written for path, _, written in (line.partition(" ") for line in lines)}


def stale(page: str, root: Path = ROOT) -> Iterator[str]:
    """Say for each module on the page whose digest differs what is wrong with it."""
    for path, written in signed(page).items():
        if not (root / path).is_file():
            yield f"{path} does not exist"
        elif not written:
            yield f"{path} was never signed"
        elif digest((root / path).read_text(encoding="utf-8")) != written:
            yield f"{path} changed since the page was signed"


def sign(page: str, root: Path = ROOT) -> str:
    """Return the page with the digests of the code as it is now."""
    block = _LAST_FENCE.search(page)
    if block is None:
        raise SystemExit("a page to sign must end with a fenced block of lines `src/sordino/... digest`.")
    lines = [f"{path} {digest((root / path).read_text(encoding='utf-8'))}\n" for path in signed(page)]
    return page[: block.start(1)] + "".join(lines) + page[block.end(1) :]


def main() -> int:
    """Check all pages, or sign the ones that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sign", nargs="+", metavar="PAGE", help="pages of docs/proofs that were read again against the code")
    pages = parser.parse_args().sign
    for name in pages or ():
        page = PROOFS / Path(name).name
        page.write_text(sign(page.read_text(encoding="utf-8")), encoding="utf-8")
    wrong = [f"{page.name}: {what}" for page in sorted(PROOFS.glob("*.md")) for what in stale(page.read_text(encoding="utf-8"))]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
