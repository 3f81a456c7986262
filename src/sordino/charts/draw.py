"""Makes pictures of what is drawn: SVG for a page, a chart of altair for a notebook.

Both are an extra.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sordino.charts.figure import Figure, measure_text
from sordino.charts.spec import FILL, GRID, INK, LINE, LOGARITHMIC, MARK, QUIET, build_spec
from sordino.errors import UnsupportedBackend

if TYPE_CHECKING:
    import altair as alt

_PACKAGES = {"altair": "altair", "vl_convert": "vl-convert-python"}
_MISSING = "Pictures need the package {}, which is not installed: pip install 'sordino[report]'."

# What each color is called in the styles of a page, which has others in the dark.
_NAMES = {INK: "ink", QUIET: "quiet", GRID: "grid", MARK: "mark", FILL: "fill", LINE: "line"}
_COLOR = re.compile(f'(fill|stroke)="({"|".join(_NAMES)})"')
_HEAD = re.compile(r"<svg [^>]*>")
_TEXT = re.compile(rf">@([0-9]+)( {re.escape(LOGARITHMIC)})?<", re.ASCII)
_SIZE = re.compile(r'viewBox="([0-9. -]+)"')


def can_draw() -> bool:
    """Tell whether the package that draws pictures for pages is installed."""
    return find_spec("vl_convert") is not None


def make_chart(figure: Figure) -> alt.Chart | alt.LayerChart:
    """Return a figure as a chart of altair, to be shown, changed or saved there.

    Raises
    ------
    UnsupportedBackend
        If altair is not installed.

    Examples
    --------
    >>> from sordino.charts import make_chart, read_figure
    >>> figure = read_figure("count", [{"count": "rows", "estimate": 118, "low": 103, "high": 131}])
    >>> type(make_chart(figure)).__name__
    'LayerChart'
    """
    chart: Any = _load_renderer("altair").Chart.from_dict(build_spec(figure))
    return chart  # type: ignore[no-any-return]


def draw_svg(figure: Figure, *, named_by: str) -> str:
    """Return a figure as SVG to be put into a page.

    It loads nothing, and takes its colors from the page.

    Parameters
    ----------
    figure : Figure
        What is drawn.
    named_by : str
        The id of the element of the page that says what the picture shows.

    Raises
    ------
    UnsupportedBackend
        If vl-convert-python is not installed.

    Examples
    --------
    >>> from sordino.charts import draw_svg, read_figure
    >>> figure = read_figure("count", [{"count": "rows", "estimate": 118, "low": 103, "high": 131}])
    >>> svg = draw_svg(figure, named_by="caption-1")
    >>> svg.startswith('<svg role="img" aria-labelledby="caption-1"')
    True
    """
    labels = [mark.label for mark in figure.marks]
    texts = [*labels, *figure.lines, *figure.heads]
    marks = tuple(replace(mark, label=f"@{place}") for place, mark in enumerate(figure.marks))
    lines, heads = (
        tuple(f"@{start + place}" for place in range(len(named)))
        for start, named in (
            (len(labels), figure.lines),
            (len(labels) + len(figure.lines), figure.heads),
        )
    )
    # What draws never sees a text of somebody else: one that it cannot read ends the whole process.
    # It draws a number for each, and the texts are put there afterwards.
    masked = replace(
        figure,
        marks=marks,
        value_name=f"@{len(texts)}" if figure.value_name else "",
        label_name=f"@{len(texts) + 1}" if figure.label_name else "",
        lines=lines,
        heads=heads,
        room=max(map(measure_text, figure.heads or labels), default=0),
        line_room=max(map(measure_text, figure.lines), default=0),
    )
    drawn = _load_renderer("vl_convert").vegalite_to_svg(
        vl_spec={**build_spec(masked), "background": None},
        # Nothing is fetched, whatever a specification says.
        allowed_base_urls=[],
    )
    named = [*texts, figure.value_name, figure.label_name]
    return _dress(drawn, named, named_by, own_size=figure.form == "heat")


def _dress(svg: str, texts: Sequence[str], named_by: str, *, own_size: bool) -> str:
    """Return the SVG with colors of the page, its texts, and a size that follows its width.

    Or with a size of its own: a table does not become smaller than its numbers.
    """
    head = _HEAD.search(svg)
    size = None if head is None else _SIZE.search(head[0])
    if head is None or size is None:
        raise AssertionError("what draws pictures has returned none")
    body = svg[head.end() :]
    colored = _COLOR.sub(lambda found: f'{found[1]}="var(--{_NAMES[found[2]]})"', body)
    named = _TEXT.sub(
        lambda found: f">{html.escape(texts[int(found[1])])}{found[2] or ''}<", colored
    )
    *_, width, height = size[1].split()
    own = f' width="{width}" height="{height}"' if own_size else ""
    return f'<svg role="img" aria-labelledby="{named_by}" viewBox="{size[1]}"{own}>{named}'


def _load_renderer(name: str) -> Any:
    """Return a library that need not be installed."""
    try:
        return import_module(name)
    except ImportError:
        raise UnsupportedBackend(_MISSING.format(_PACKAGES[name])) from None
