"""Draw docs/release.svg: what the first page releases, from its made-up table and predictable noise.

python docs/release_picture.py    # a test compares the picture with what the library releases
"""

from __future__ import annotations

import csv
import runpy
import tempfile
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import sordino as sd

PICTURE = Path(__file__).with_name("release.svg")
MAKER = Path(__file__).parents[1] / "examples" / "purchases.py"

SHOWN, EPSILON = 5, 0.25

LEFT, TOP, ROW, BAR, SCALE, RIGHT = 80, 64, 40, 20, 0.2, 170
"""Sizes in pixels: left of the bars, above them, from one to the next, how thick one is, for one customer, right of the longest."""


def release() -> tuple[Any, dict[str, int]]:
    """Return the release that is drawn, and the exact counts, which are of made-up customers."""
    with tempfile.TemporaryDirectory() as folder:
        with redirect_stdout(StringIO()):
            runpy.run_path(str(MAKER))["main"](folder)
        with (Path(folder) / "purchases.csv").open(encoding="utf-8", newline="") as file:
            bought = {(row["customer_id"], row["product"]) for row in csv.DictReader(file)}
        with sd.Session(
            str(Path(folder) / "purchases.csv"),
            unit=sd.PrivacyUnit("customer_id"),
            ledger=None,
            entropy=sd.Seeded(7),
        ) as session:
            found = session.top_k(
                "product",
                k=SHOWN,
                epsilon=EPSILON,
                domain=sd.Domain.from_file(str(Path(folder) / "product.csv")),
            )
    return found, Counter(product for _, product in bought)


def picture() -> str:
    """Return the picture as SVG."""
    released, exact = release()
    rows = list(released)
    width = round(LEFT + max(row.high for row in rows) * SCALE + RIGHT)
    height = TOP + len(rows) * ROW + 46
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="sans-serif" font-size="14">',
        f"<title>The {SHOWN} products that most customers bought, each with an estimate and an interval</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="16" y="28" font-size="16" fill="#222">Which {SHOWN} products do most customers buy? '
        f"epsilon {EPSILON}</text>",
        '<text x="16" y="48" font-size="12" fill="#555">made-up data</text>',
    ]
    for number, row in enumerate(rows):
        lines += draw_row(TOP + number * ROW, row, exact[row.item])
    legend = height - 18
    lines += [
        f'<line x1="16" y1="{legend - 4}" x2="46" y2="{legend - 4}" stroke="#1b4965" stroke-width="2"/>',
        f'<text x="52" y="{legend}" font-size="12" fill="#555">95% interval</text>',
        f'<circle cx="170" cy="{legend - 4}" r="4" fill="white" stroke="#c1440e" stroke-width="2"/>',
        f'<text x="180" y="{legend}" font-size="12" fill="#555">exact count, which is never released</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def draw_row(top: int, row: Any, count: int) -> list[str]:
    """Return one bar: its name, the estimate, the interval around it and the exact count."""
    middle = top + BAR / 2
    estimate, low, high = (LEFT + end * SCALE for end in (row.estimate, row.low, row.high))
    exact = LEFT + count * SCALE
    whisker = f'stroke="#1b4965" stroke-width="2" y1="{middle - 6:g}" y2="{middle + 6:g}"'
    return [
        f'<text x="{LEFT - 8}" y="{middle + 5:g}" text-anchor="end" fill="#222">{escape(row.item)}</text>',
        f'<rect x="{LEFT}" y="{top}" width="{estimate - LEFT:.1f}" height="{BAR}" fill="#9ec9e2"/>',
        f'<line x1="{low:.1f}" y1="{middle:g}" x2="{high:.1f}" y2="{middle:g}" stroke="#1b4965" stroke-width="2"/>',
        f'<line x1="{low:.1f}" x2="{low:.1f}" {whisker}/>',
        f'<line x1="{high:.1f}" x2="{high:.1f}" {whisker}/>',
        f'<circle cx="{exact:.1f}" cy="{middle:g}" r="4" fill="white" stroke="#c1440e" stroke-width="2"/>',
        f'<text x="{high + 10:.1f}" y="{middle + 5:g}" fill="#222">{row.estimate:,.0f} ({row.low:,.0f} to {row.high:,.0f})</text>',
    ]


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(PICTURE)
