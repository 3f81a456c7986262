"""Pictures of what was released: what is drawn, how, and as what.

`read_figure` takes the rows of any release, whether they come from an object or from a file.
`build_spec` says in the grammar of Vega-Lite how they are drawn. `draw_svg` makes text of that for
a page, `make_chart` a chart of altair for a notebook. Nothing is computed from data, and nothing is
drawn that was not released. Decision: docs/decisions/0030-reports-and-pictures.md.
"""

from __future__ import annotations

from sordino.charts.draw import can_draw, draw_svg, make_chart
from sordino.charts.figure import Figure, Mark, read_figure
from sordino.charts.spec import build_spec

__all__ = ["Figure", "Mark", "build_spec", "can_draw", "draw_svg", "make_chart", "read_figure"]
