"""Write docs/explanation/architecture.svg: the packages of the library, layer by layer, and which of them import which.

python docs/house_picture.py    # a test compares the picture with the code
"""

from __future__ import annotations

import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
PICTURE = Path(__file__).with_name("explanation") / "architecture.svg"

sys.path.insert(0, str(ROOT / "tests"))
from architecture.figures import imports  # noqa: E402  (it counts what is drawn here)
from architecture.source import library  # noqa: E402

BOX_WIDTH, BOX_HEIGHT, GAP, ROW, MARGIN = 150, 44, 70, 84, 24
"""Sizes in pixels: a box, the gap between two of them, from one layer to the next, around everything."""

AUDITOR = "sordino_audit"
EVERYWHERE = frozenset({"constraints", "errors", "scrubbing"})
"""What every package may use is drawn without arrows: they would hide the others."""


def layers() -> list[list[str]]:
    """Return the layers from the top down, as the contract of the import linter states them.

    The auditor is a package of its own, and nothing imports it.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = [
        one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers"
    ]
    known = {room_of(module) for module in library()}
    rows = [[name.strip(" ()") for name in layer.split("|")] for layer in contract["layers"]]
    drawn = [[name for name in row if name in known and not name.startswith("_")] for row in rows]
    return [[AUDITOR], *drawn]


def room_of(module: str) -> str:
    """Return the package of the library that a module is in, or the auditor; nothing of the library itself."""
    top, *rest = module.split(".")
    return top if top == AUDITOR else "".join(rest[:1]) if top == "sordino" else ""


def arrows(rows: list[list[str]]) -> set[tuple[str, str]]:
    """Return which package imports which, without the arrows that follow from two others."""
    drawn = {name for row in rows for name in row}
    needs: dict[str, set[str]] = defaultdict(set)
    for module, one in imports():
        importer, imported = room_of(module.name), room_of(one.module)
        if importer != imported and {importer, imported} <= drawn:
            needs[importer].add(imported)

    def reached(start: str, *, without: tuple[str, str]) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            name = waiting.pop()
            for other in needs[name]:
                if (name, other) != without and other not in found:
                    found.add(other)
                    waiting.append(other)
        return found

    pairs = {(a, b) for a, others in list(needs.items()) for b in others}
    return {(a, b) for a, b in pairs if b not in EVERYWHERE and b not in reached(a, without=(a, b))}


def files_of(name: str) -> int:
    """Return how many files a package has."""
    return sum(room_of(module) == name for module in library())


def picture() -> str:
    """Return the picture as SVG."""
    rows = layers()
    width = 2 * MARGIN + max(len(row) for row in rows) * (BOX_WIDTH + GAP) - GAP
    places = {}
    for depth, row in enumerate(rows):
        left = (width - len(row) * (BOX_WIDTH + GAP) + GAP) / 2
        for number, name in enumerate(row):
            places[name] = left + number * (BOX_WIDTH + GAP), MARGIN + depth * ROW
    height = 2 * MARGIN + (len(rows) - 1) * ROW + BOX_HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="sans-serif" font-size="14">',
        "<title>The packages of sordino, layer by layer; an arrow points from a package to one that it imports</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#777"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for a, b in sorted(arrows(rows)):
        (x1, y1), (x2, y2) = places[a], places[b]
        start, end = x1 + BOX_WIDTH / 2, x2 + BOX_WIDTH / 2
        # A long arrow bends aside, so that it does not run through the boxes between.
        aside = 0 if y2 - y1 <= ROW else (BOX_WIDTH / 2 + GAP) * (1 if end >= start else -1)
        middle = (y1 + BOX_HEIGHT + y2) / 2
        path = f"M{start:g} {y1 + BOX_HEIGHT:g} Q{(start + end) / 2 + aside:g} {middle:g} {end:g} {y2:g}"
        lines.append(f'<path d="{path}" fill="none" stroke="#777" marker-end="url(#tip)"/>')
    for name, (x, y) in places.items():
        files = files_of(name)
        about = f"{files} files" if files > 1 else "one file"
        lines += [
            f'<rect x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="#eef3f8" stroke="#345"/>',
            f'<text x="{x + BOX_WIDTH / 2:g}" y="{y + 19:g}" text-anchor="middle" fill="#123">{escape(name)}</text>',
            f'<text x="{x + BOX_WIDTH / 2:g}" y="{y + 35:g}" text-anchor="middle" fill="#567" font-size="11">{about}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
