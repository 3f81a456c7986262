"""Draw docs/how-to/every-night-for-ever.svg: the running totals that a page of `sordino report` draws.

python docs/series_picture.py sold.json    # what `sordino series show sold --format json` printed
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sordino.charts import draw_svg, read_figure

PICTURE = Path(__file__).with_name("how-to") / "every-night-for-ever.svg"
# A page has names for its colors; a picture by itself needs them.
COLORS = {
    "paper": "#fff",
    "ink": "#1d2733",
    "quiet": "#4a5868",
    "grid": "#d9dee4",
    "mark": "#143a50",
    "fill": "#4f94be",
    "line": "#a83c08",
}


def picture(shown: dict[str, object]) -> str:
    """Return the picture of what a series shows."""
    figure = read_figure("count", shown["rows"], value_name="customer-days")
    drawn = draw_svg(figure, named_by="caption")
    for name, color in COLORS.items():
        drawn = drawn.replace(f"var(--{name})", color)
    start = '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif"'
    return drawn.replace("<svg", start, 1) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(json.loads(Path(sys.argv[1]).read_text("utf-8"))), "utf-8")
    print(PICTURE)
