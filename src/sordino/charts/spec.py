"""How figures are drawn, in the grammar of Vega-Lite.

Plain values, which take no library to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sordino.charts.figure import Figure, Mark, measure_text

Spec = dict[str, Any]

WIDTH = 380
"""Of a picture with its labels, in pixels: on a phone its letters can still be read."""
INK, QUIET, GRID, MARK, FILL, LINE = (
    "#1d2733",
    "#526070",
    "#d9dee4",
    "#143a50",
    "#4f94be",
    "#b3460d",
)
"""Letters, axes, lines of the grid, dots and whiskers, bars, the number that figures are compared
with."""
_ROW, _TALL = 26, 240
_LETTER, _NUMBERS, _MARGIN = 8, 60, 20
"""How wide a letter of a label may be, the numbers of an axis, and what is around a picture; in
pixels."""
_END, _OPEN = "stroke", "triangle"
"""Shapes of the two ends of a whisker: it ends there, or nothing bounds it."""
_ROOM = 0.04
"""Beyond the largest figure there is so much room, as a share of the range: an arrow stands
there."""
LOGARITHMIC = "(log scale)"
"""Stands behind what an axis is called."""
_LEAST_ROWS = 3
_SQUEEZED = 8
"""A whisker squeezes the others if without it the axis would be so many times shorter."""


def build_spec(figure: Figure, *, width: int = WIDTH) -> Spec:
    """Return how a figure is drawn, as Vega-Lite says it.

    Labels are data in it, and never a part of an expression: whatever they hold, they are drawn as
    they are.

    Parameters
    ----------
    figure : Figure
        What is drawn.
    width : int
        Of the whole picture, in pixels.

    Examples
    --------
    >>> from sordino.charts import build_spec, read_figure
    >>> row = {"count": "rows", "estimate": 118, "low": 103, "high": 131}
    >>> spec = build_spec(read_figure("count", [row]))
    >>> [layer["mark"]["type"] for layer in spec["layer"]], spec["layer"][-1]["data"]["values"]
    (['rule', 'point', 'point'], [{'label': 'rows', 'value': 118.0, 'low': 103.0, 'high': 131.0}])
    """
    build: dict[str, Callable[[Figure], Spec]] = {
        "whiskers": _draw_rows,
        "bars": _draw_rows,
        "names": _draw_names,
        "curve": _draw_curve,
        "trend": _draw_trend,
        "spread": _draw_spread,
        "steps": _draw_steps,
        "heat": _draw_table,
    }
    drawn = build[figure.form](figure) if figure.marks else _draw_nothing()
    # The room for labels is known. To have it found out takes twice as long.
    room = _measure_labels(figure) if figure.form in {"whiskers", "bars", "names"} else _NUMBERS
    title = {"title": {"text": list(figure.notes), **_TITLE}} if figure.notes else {}
    # A table is as wide as its numbers need.
    return {"width": width - room - _MARGIN, **title, **drawn, "config": _CONFIG}


_AXIS = {
    "labelColor": INK,
    "titleColor": QUIET,
    "domainColor": QUIET,
    "tickColor": QUIET,
    "gridColor": GRID,
    "labelFontSize": 13,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "labelLimit": 160,
    "titleLimit": 300,
    "labelOverlap": "greedy",
    "labelSeparation": 16,
}
_TITLE = {
    "anchor": "start",
    "frame": "group",
    "fontSize": 12,
    "fontWeight": "normal",
    "color": QUIET,
}
_CONFIG = {
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": _AXIS,
    # The table of the page says what the marks say; read out, both would be heard.
    "aria": False,
}


def _draw_nothing() -> Spec:
    """Return the picture of a release without rows."""
    text = {"type": "text", "fontSize": 14, "color": QUIET, "align": "left", "x": 8}
    return {
        "height": 40,
        "data": {"values": [{"text": "Nothing was found."}]},
        "mark": text,
        "encoding": {"text": {"field": "text", "type": "nominal"}},
    }


# ---- rows with labels ----------------------------------------------------------------------------


def _draw_rows(figure: Figure) -> Spec:
    """Return dots, or bars, with whiskers: a row for each label."""
    values = [_list_known(mark) for mark in figure.marks]
    numbers = [number for row in values for name, number in row.items() if name != "label"]
    numbers += [] if figure.line is None else [figure.line]
    bars = figure.form == "bars"
    # Several figures are compared by their distance from zero; a single one with its own interval
    # alone.
    from_zero = bars or (len(values) > 1 and min(numbers, default=0.0) >= 0)
    least, most = _find_axis_range(numbers, from_zero=from_zero)
    rows, across = _place_labels(figure), _place_numbers(figure, least, most)
    if not bars and _is_squeezed(values):
        across = _take_logarithms(across, numbers)
        least, most = across["scale"]["domain"]
    bar = {"type": "bar", "color": FILL, "height": 16}
    dot = {"type": "point", "filled": True, "color": MARK, "opacity": 1, "size": 70}
    valued = _list_layer(
        [row for row in values if "value" in row], bar if bars else dot, {"y": rows, "x": across}
    )
    whiskers = _draw_whiskers(values, (least, most), {"y": rows, "x": across})
    # Nothing that could be drawn is known of any row but its name.
    if not valued and not whiskers:
        return _draw_names(figure)
    # A whisker lies over its bar, and under its dot.
    layers = [*valued, *whiskers] if bars else [*whiskers, *valued]
    layers += _draw_chart_line(figure.line, "x", across)
    return {"height": {"step": _ROW}, "layer": layers}


def _list_layer(values: list[Spec], mark: Spec, encoding: Spec) -> list[Spec]:
    """Return the layer of some rows; none if there are none."""
    return [{"data": {"values": values}, "mark": mark, "encoding": encoding}] if values else []


def _list_known(mark: Mark) -> Spec:
    """Return a row as the picture has it; what is not known is left out."""
    known = {"value": mark.value, "low": mark.low, "high": mark.high}
    return {"label": mark.label} | {
        name: number for name, number in known.items() if number is not None
    }


def _find_axis_range(numbers: list[float], *, from_zero: bool) -> tuple[float, float]:
    """Return the ends of an axis, with room for arrows."""
    least, most = min(numbers, default=0.0), max(numbers, default=1.0)
    if from_zero:
        least, most = min(least, 0.0), max(most, 0.0)
    if least == most:
        least, most = least - 1.0, most + 1.0
    # Multiplied before they are subtracted: the difference of two floats may be none.
    room = most * _ROOM - least * _ROOM
    # Below zero nothing is drawn where nothing lies there.
    return (least if from_zero and least == 0 else least - room), most + room


def _is_squeezed(values: Sequence[Spec]) -> bool:
    """Tell whether one row takes nearly all of the axis, so that the others look alike."""
    reaches = [[one for name, one in row.items() if name != "label"] for row in values]
    spans = [(min(reach), max(reach)) for reach in reaches if reach]
    if len(spans) < _LEAST_ROWS:
        return False
    widest = max(spans, key=lambda span: span[1] / 2 - span[0] / 2)
    others = [span for span in spans if span is not widest]

    # Half of each, as the difference of two floats may be none.
    def measure(those: list[tuple[float, float]]) -> float:
        return max(high for _, high in those) / 2 - min(low for low, _ in those) / 2

    whole = measure(spans)
    return 2 * measure([widest]) > whole > _SQUEEZED * measure(others) > 0


def _take_logarithms(across: Spec, numbers: Sequence[float]) -> Spec:
    """Return an axis of figures with a logarithmic scale, linear around a zero that lies within."""
    sizes = sorted(abs(number) for number in numbers if number)
    low, high = (math.floor(math.log10(size)) for size in (sizes[0], sizes[-1]))
    least, most = min(numbers), max(numbers)
    axis = {**across["axis"], "title": f"{across['axis']['title'] or ''} {LOGARITHMIC}".strip()}
    if least > 0:
        scale: Spec = {"type": "log", "domain": [least / 1.2, most * 1.2]}
    else:
        # The usual size is where the logarithm begins.
        usual = math.floor(math.log10(sizes[len(sizes) // 2]))
        low = min(usual, high)
        # With some room on either side, on whichever side of zero that is.
        ends = [least * 1.2, most * 1.2 if most > 0 else most / 1.2]
        scale = {"type": "symlog", "constant": 10.0**low, "domain": ends}
    # Between them, so many powers of ten that no two meet.
    step = max(1, -(-(high - low + 1) // 4))
    powers = [10.0**power for power in range(low, high + 1, step)]
    places = [-power for power in powers if least < 0] + [0.0] * (least <= 0) + powers
    first, last = scale["domain"]
    axis["values"] = [one for one in sorted(places) if first <= one <= last]
    return {**across, "scale": {**scale, "nice": False, "zero": False}, "axis": axis}


def _measure_labels(figure: Figure) -> int:
    """Return how many pixels the labels take.

    The page may have wider letters than whoever draws, so that it is reckoned here.
    """
    letters = figure.room
    if letters is None:
        letters = max((measure_text(mark.label) for mark in figure.marks), default=0)
    return letters * _LETTER + 10


def _place_labels(figure: Figure) -> Spec:
    """Return the axis of labels, in the order of the release; each of them is shown."""
    axis: Spec = {
        "title": None,
        "labelOverlap": False,
        "domain": False,
        "ticks": False,
        "labelPadding": 8,
    }
    axis |= {"minExtent": _measure_labels(figure), "labelLimit": 0}
    scale = {"domain": [mark.label for mark in figure.marks]}
    return {"field": "label", "type": "nominal", "scale": scale, "axis": axis}


def _place_numbers(figure: Figure, least: float, most: float) -> Spec:
    """Return the axis of figures."""
    return {
        "field": "value",
        "type": "quantitative",
        "scale": {"domain": [least, most], "nice": False, "zero": False},
        "axis": {"title": figure.value_name or None, "tickCount": 4} | _write_numbers(least, most),
    }


def _write_numbers(least: float, most: float) -> Spec:
    """Return how numbers are written below an axis: short, so that no two of them meet."""
    size = max(abs(least), abs(most))
    if size >= 1e15 or size < 1e-4:
        return {"format": "~e"}
    # Thousands of millions are a G there, which few people read as a billion.
    return {"labelExpr": "replace(format(datum.value, '~s'), 'G', 'B')"} if size >= 1e6 else {}


def _find_ends(figure: Figure) -> tuple[float, float]:
    """Return the least and the largest number of a picture."""
    spread = figure.form == "spread"
    numbers = [
        number
        for mark in figure.marks
        for number in ((mark.at, mark.high) if spread else (mark.value,))
    ]
    known = [number for number in numbers if number is not None]
    return min(known, default=0.0), max(known, default=1.0)


def _draw_whiskers(values: list[Spec], ends: tuple[float, float], places: Spec) -> list[Spec]:
    """Return lines from end to end, a stroke across each end, and an arrow if nothing bounds it.

    `ends` are those of the axis of figures, which is the last one of the two `places`.
    """
    labels, figures = places
    lines: list[Spec] = []
    strokes: list[Spec] = []
    # A stroke lies flat, and a triangle looks up, until they are turned.
    downward, upward = (-90, 90) if figures == "x" else (180, 0)
    for row in values:
        low, high = row.get("low"), row.get("high")
        if low is None and high is None:
            continue
        label = row["label"]
        first, last = (ends[0] if low is None else low), (ends[1] if high is None else high)
        lines.append({"label": label, "from": first, "to": last})
        for end, known, angle in ((first, low, downward), (last, high, upward)):
            shape = _OPEN if known is None else _END
            strokes.append({"label": label, "at": end, "shape": shape, "angle": angle})
    line = {"type": "rule", "color": MARK, "strokeWidth": 2}
    stroke = {
        "type": "point",
        "filled": True,
        "fill": MARK,
        "stroke": MARK,
        "strokeWidth": 2,
        "opacity": 1,
        "size": 80,
    }
    reach = {
        labels: places[labels],
        figures: {**places[figures], "field": "from"},
        f"{figures}2": {"field": "to"},
    }
    place = {
        labels: places[labels],
        figures: {**places[figures], "field": "at"},
        "shape": {"field": "shape", "type": "nominal", "scale": None},
        "angle": {"field": "angle", "type": "quantitative", "scale": None},
    }
    return [*_list_layer(lines, line, reach), *_list_layer(strokes, stroke, place)]


def _draw_chart_line(line: float | None, axis: str, place: Spec) -> list[Spec]:
    """Return a dashed line at a public number; none if there is none."""
    dashes = {"type": "rule", "color": LINE, "strokeDash": [5, 4], "strokeWidth": 2}
    return (
        []
        if line is None
        else _list_layer([{"line": line}], dashes, {axis: {**place, "field": "line"}})
    )


def _draw_names(figure: Figure) -> Spec:
    """Return a dot beside each name: it was chosen, and no more is known."""
    values = [{"label": mark.label, "value": 0} for mark in figure.marks]
    nowhere = {"field": "value", "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": None}
    return {
        "height": {"step": _ROW},
        "data": {"values": values},
        "mark": {
            "type": "point",
            "filled": True,
            "color": MARK,
            "opacity": 1,
            "size": 70,
            "xOffset": 8,
        },
        "encoding": {"y": _place_labels(figure), "x": nowhere},
    }


# ---- curves --------------------------------------------------------------------------------------


def _draw_curve(figure: Figure) -> Spec:
    """Return a curve through quantiles, with a line from end to end where there are intervals."""
    values = [_list_known(mark) | {"share": mark.at} for mark in figure.marks]
    across = {
        "field": "share",
        "type": "quantitative",
        "scale": {"domain": [0, 1]},
        "axis": {"title": "share of the rows below", "format": "%", "tickCount": 5},
    }
    up = {
        "field": "value",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": figure.value_name or None, "tickCount": 5}
        | _write_numbers(*_find_ends(figure)),
    }
    ends = {"x": across, "y": {**up, "field": "low"}, "y2": {"field": "high"}}
    known = [row for row in values if "low" in row and "high" in row]
    band = {"type": "rule", "color": MARK, "strokeWidth": 2}
    line = {"type": "line", "color": FILL, "strokeWidth": 2}
    dot = {"type": "point", "filled": True, "color": MARK, "opacity": 1, "size": 60}
    place = {"x": across, "y": up}
    layers = [
        *_list_layer(known, band, ends),
        *_list_layer(values, line, place),
        *_list_layer(values, dot, place),
    ]
    return {"height": _TALL, "layer": layers}


def _draw_trend(figure: Figure) -> Spec:
    """Return a line over time, from left to right, with a whisker at each date."""
    # A date takes the place of its label: what draws knows how far apart two of them lie.
    values = [
        _list_known(mark) | {"label": day} | ({} if mark.least is None else {"least": mark.least})
        for mark, day in zip(figure.marks, figure.days, strict=True)
    ]
    numbers = [number for row in values for name, number in row.items() if name != "label"]
    ends = _find_axis_range(numbers, from_zero=min(numbers, default=0.0) >= 0)
    place = {"x": _place_days("label", figure.days), "y": _place_numbers(figure, *ends)}
    known = [row for row in values if "value" in row]
    least = [row for row in values if "least" in row]
    line = {"type": "line", "color": FILL, "strokeWidth": 2}
    stairs = {"type": "line", "color": QUIET, "strokeWidth": 1, "interpolate": "step-after"}
    dot = {"type": "point", "filled": True, "color": MARK, "opacity": 1, "size": 60}
    layers = [
        *_list_layer(least, stairs, place | {"y": {**place["y"], "field": "least"}}),
        *_draw_whiskers(values, ends, place),
        *_list_layer(known, line, place),
        *_list_layer(known, dot, place),
    ]
    return {"height": _TALL, "layer": layers}


def _draw_spread(figure: Figure) -> Spec:
    """Return bars that say how often values lie where."""
    values = [{"from": mark.at, "to": mark.high, "count": mark.value} for mark in figure.marks]
    across = {
        "field": "from",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": figure.label_name or None, "tickCount": 5}
        | _write_numbers(*_find_ends(figure)),
    }
    up = {
        "field": "count",
        "type": "quantitative",
        "axis": {"title": figure.value_name or None, "tickCount": 4},
    }
    return {
        "height": _TALL,
        "data": {"values": values},
        "mark": {"type": "bar", "color": FILL},
        "encoding": {"x": across, "x2": {"field": "to"}, "y": up, "y2": {"datum": 0}},
    }


def _place_days(name: str, days: Sequence[str]) -> Spec:
    """Return the axis of days."""
    if all(day.endswith("-01-01") for day in days):
        form = "%Y"
    elif all(day.endswith("-01") for day in days) or max(days)[:4] != min(days)[:4]:
        form = "%Y-%m"
    else:
        form = "%b %d"
    return {
        "field": name,
        "type": "temporal",
        # In UTC, so that the same days are drawn alike wherever that is done.
        "scale": {"type": "utc"},
        # Short, and few, so that no two of them meet.
        "axis": {"title": None, "tickCount": 4, "format": form},
    }


# ---- tables --------------------------------------------------------------------------------------

_LINE, SHADE = 30, 0.7
"""How tall a line of a table is; how much of its color the largest cell has: numbers are read on
it, in the dark as well."""


def _draw_table(figure: Figure) -> Spec:
    """Return a table of numbers: the larger one is, the stronger its color; margins have none."""
    places = [(line, head) for line in figure.lines for head in figure.heads]
    values: list[Spec] = [
        {"line": line, "head": head, "value": mark.value, "text": _write_whole(mark.value)}
        | {"sum": mark.is_sum}
        for (line, head), mark in zip(places, figure.marks, strict=True)
        if mark.value is not None
    ]
    cells, sums = ([one for one in values if one["sum"] is wanted] for wanted in (False, True))
    widest = max((len(one["text"]) for one in values), default=0)
    letters = max([widest, *map(measure_text, figure.heads), figure.room or 0])
    axis: Spec = {"title": None, "domain": False, "ticks": False, "labelOverlap": False}
    axis |= {"labelLimit": 0, "labelPadding": 6}
    room = figure.line_room
    room = max(map(measure_text, figure.lines), default=0) if room is None else room
    place = {
        "x": {
            "field": "head",
            "type": "nominal",
            "scale": {"domain": list(figure.heads)},
            "axis": {**axis, "orient": "top", "labelAngle": 0},
        },
        "y": {
            "field": "line",
            "type": "nominal",
            "scale": {"domain": list(figure.lines)},
            "axis": {**axis, "minExtent": room * _LETTER + 10},
        },
    }
    scale = {"domain": [0, figure.strongest or 1], "range": [0, SHADE], "clamp": True}
    shade = {"field": "value", "type": "quantitative", "scale": scale, "legend": None}
    text = {**place, "text": {"field": "text", "type": "nominal"}}
    number = {"type": "text", "fontSize": 13, "color": INK}
    rect = {"type": "rect", "color": FILL, "stroke": None}
    return {
        "width": {"step": letters * _LETTER + 12},
        "height": {"step": _LINE},
        "layer": [
            *_list_layer(cells, rect, {**place, "opacity": shade}),
            *_list_layer(cells, number, text),
            *_list_layer(sums, {**number, "fontWeight": "bold"}, text),
        ],
    }


def _write_whole(value: float | None) -> str:
    """Return a number of a table: whole, but for very large ones."""
    if value is None:
        return ""
    # Half a person is none more, and -0 is 0.
    return f"{value:.3g}" if abs(value) >= 1e9 else f"{round(value):,}"


def _draw_steps(figure: Figure) -> Spec:
    """Return stairs: what was spent, one charge after the other, below the limit."""
    over_time = bool(figure.days)
    days = figure.days or [str(int(mark.at)) for mark in figure.marks]
    values = [
        {"place": day if over_time else mark.at, "value": mark.value}
        for mark, day in zip(figure.marks, days, strict=True)
    ]
    across: Spec = {
        "field": "place",
        "type": "quantitative",
        "axis": {"title": "charge", "tickMinStep": 1},
    }
    if over_time:
        across = _place_days("place", figure.days)
    most = max([figure.line or 0.0, *(mark.value or 0.0 for mark in figure.marks)])
    up = {
        "field": "value",
        "type": "quantitative",
        "scale": {"domain": [0, most * (1 + _ROOM) or 1.0]},
        "axis": {"title": figure.value_name or None, "tickCount": 5},
    }
    place = {"x": across, "y": up}
    area = {"type": "area", "interpolate": "step-after", "color": FILL, "opacity": 0.5}
    stairs = {"type": "line", "interpolate": "step-after", "color": MARK, "strokeWidth": 2}
    layers = [
        *_list_layer(values, area, place),
        *_list_layer(values, stairs, place),
        *_draw_chart_line(figure.line, "y", up),
    ]
    return {"height": _TALL, "layer": layers}
