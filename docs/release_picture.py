"""Draw docs/release.svg: what a release looks like, from a made-up table and predictable noise.

python docs/release_picture.py    # a test compares the picture with what the library releases
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import sordino as sd

PICTURE = Path(__file__).with_name("release.svg")

# How many readers borrowed each kind of book: made up, so that the exact counts may be shown beside the release.
BORROWED = {
    "novels": 940,
    "travel": 770,
    "cooking": 745,
    "history": 560,
    "gardens": 410,
    "poetry": 395,
    "music": 240,
    "law": 60,
    "maps": 15,
}
SHOWN, EPSILON = 6, 0.5

LEFT, TOP, ROW, BAR, SCALE, RIGHT = 90, 64, 40, 20, 0.46, 150
"""Sizes in pixels: left of the bars, above them, from one to the next, how thick one is, for one reader, right of the longest."""


def release() -> Any:
    """Return the release that is drawn."""
    with tempfile.TemporaryDirectory() as folder:
        loans = Path(folder) / "loans.csv"
        with loans.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["reader", "kind"])
            for kind, readers in BORROWED.items():
                lines.writerows([f"r{number}", kind] for number in range(readers))
        with sd.Session(
            str(loans), unit=sd.PrivacyUnit("reader"), ledger=None, entropy=sd.Seeded(7)
        ) as session:
            return session.top_k("kind", k=SHOWN, epsilon=EPSILON, domain=list(BORROWED))


def picture() -> str:
    """Return the picture as SVG."""
    rows = list(release())
    width = round(LEFT + max(row.high for row in rows) * SCALE + RIGHT)
    height = TOP + len(rows) * ROW + 46
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="sans-serif" font-size="14">',
        f"<title>The {SHOWN} kinds of books that most readers borrowed, each with an estimate and an interval</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="16" y="28" font-size="16" fill="#222">Which {SHOWN} kinds of books do most readers borrow? '
        f"epsilon {EPSILON}</text>",
        '<text x="16" y="48" font-size="12" fill="#555">made-up data</text>',
    ]
    for number, row in enumerate(rows):
        lines += draw_row(TOP + number * ROW, row)
    legend = height - 18
    lines += [
        f'<line x1="16" y1="{legend - 4}" x2="46" y2="{legend - 4}" stroke="#1b4965" stroke-width="2"/>',
        f'<text x="52" y="{legend}" font-size="12" fill="#555">interval that holds with 95 %</text>',
        f'<circle cx="250" cy="{legend - 4}" r="4" fill="white" stroke="#c1440e" stroke-width="2"/>',
        f'<text x="260" y="{legend}" font-size="12" fill="#555">exact count, which is never released</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def draw_row(top: int, row: Any) -> list[str]:
    """Return one bar: its name, the estimate, the interval around it and the exact count."""
    middle = top + BAR / 2
    estimate, low, high = (LEFT + end * SCALE for end in (row.estimate, row.low, row.high))
    exact = LEFT + BORROWED[row.item] * SCALE
    whisker = f'stroke="#1b4965" stroke-width="2" y1="{middle - 6:g}" y2="{middle + 6:g}"'
    return [
        f'<text x="{LEFT - 8}" y="{middle + 5:g}" text-anchor="end" fill="#222">{escape(row.item)}</text>',
        f'<rect x="{LEFT}" y="{top}" width="{estimate - LEFT:.1f}" height="{BAR}" fill="#9ec9e2"/>',
        f'<line x1="{low:.1f}" y1="{middle:g}" x2="{high:.1f}" y2="{middle:g}" stroke="#1b4965" stroke-width="2"/>',
        f'<line x1="{low:.1f}" x2="{low:.1f}" {whisker}/>',
        f'<line x1="{high:.1f}" x2="{high:.1f}" {whisker}/>',
        f'<circle cx="{exact:.1f}" cy="{middle:g}" r="4" fill="white" stroke="#c1440e" stroke-width="2"/>',
        f'<text x="{high + 10:.1f}" y="{middle + 5:g}" fill="#222">{row.estimate:g} ({row.low:g} to {row.high:g})</text>',
    ]


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(PICTURE)
