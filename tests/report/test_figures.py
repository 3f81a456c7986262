"""What a picture shows is what was released: every row, every end, and nothing beside it."""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
from importlib.resources import files

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import sordino as sd
from report.pages import ASK, WILD, released
from sordino.charts import Figure, Mark, build_spec, draw_svg, make_chart, read_figure
from sordino.charts.figure import MOST_LETTERS, MOST_MARKS, measure_text, shorten_labels
from sordino.charts.spec import FILL, GRID, INK, LINE, MARK, QUIET, SHADE
from sordino.population import show_rows

FORMS = {
    "histogram": "bars",
    "quantiles": "curve",
    "names": "names",
    "nothing above": "names",
}


def data_of(spec):
    return [row for layer in spec.get("layer", [spec]) for row in layer["data"]["values"]]


@pytest.mark.parametrize("kind", ASK)
@pytest.mark.sample(3)
def test_every_release_is_drawn_by_its_kind(kind):
    release = released(kind)
    rows = release.list_rows()
    figure = read_figure(type(release).__name__, rows)
    assert figure.form == FORMS.get(kind, "whiskers")
    assert len(figure.marks) == figure.total == len(rows)
    for row, mark in zip(rows, figure.marks, strict=True):
        # The unit of all of them counts for one row: the whisker is that of all rows, where that is known.
        capped = "true_low" in row or "clip" in row
        ends = ("true_low", "true_high") if capped else ("low", "high")
        for name, drawn in zip(("estimate", *ends), (mark.value, mark.low, mark.high), strict=True):
            said = row.get(name)
            known = said is not None and math.isfinite(said)
            assert drawn == (said if known else None), name


@pytest.mark.parametrize("kind", ASK)
@pytest.mark.sample(3)
def test_plot_is_a_chart_of_altair_with_the_same_figures(kind):
    chart = released(kind).plot()
    drawn = chart.to_dict()
    text = json.dumps(drawn)
    for row in released(kind).list_rows():
        if row.get("estimate") is not None:
            assert json.dumps(float(row["estimate"])) in text
    assert type(chart).__module__.startswith("altair")


MECHANISMS = [
    (sd.NoisyTopK(k=2, epsilon=1, sensitivity=sd.COUNTING), [5, 9, 1]),
    (sd.ExponentialMechanism(epsilon=1, sensitivity=sd.COUNTING), [5, 9, 1]),
    (sd.PermuteAndFlip(epsilon=1, sensitivity=sd.COUNTING), [5, 9, 1]),
    (sd.SparseVector(threshold=4, positives=1, epsilon=4, sensitivity=sd.COUNTING), [5, 9, 1]),
    (sd.AboveThreshold(threshold=1000, epsilon=4, sensitivity=sd.COUNTING), [5, 9, 1]),
    (sd.JointTopK(k=2, epsilon=2, sensitivity=sd.COUNTING), [5, 9, 1]),
    (sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING), 5),
    (sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(90)), list(range(90))),
]


@pytest.mark.parametrize(("mechanism", "answers"), MECHANISMS, ids=lambda one: type(one).__name__)
@pytest.mark.sample(3)
def test_what_a_mechanism_releases_is_drawn_too(mechanism, answers):
    release = mechanism.release(answers, entropy=sd.Seeded(7))
    assert release.plot().to_dict()


def test_many_values_are_counted():
    values = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(90)).release(
        range(90), entropy=sd.Seeded(7)
    )
    figure = read_figure("Values", values.list_rows())
    assert figure.form == "spread"
    assert sum(mark.value for mark in figure.marks) == figure.total == 90
    counts, edges = np.histogram(values.values, bins=len(figure.marks))
    assert [mark.value for mark in figure.marks] == counts.tolist()
    assert [mark.at for mark in figure.marks] == pytest.approx(edges[:-1])


NUMBERS = (
    st.none()
    | st.floats()
    | st.sampled_from([1e308, -1e308, 1e150, 1e-150, 5e-324, 2**53, 1e22, 0.1])
)


@given(
    kind=st.sampled_from(["top", "histogram", "above", "quantile", "Values"]),
    rows=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=5),
    line=NUMBERS,
)
def test_whatever_the_numbers_are_there_is_a_picture_of_a_size(kind, rows, line):
    named = [{"item": "a", "estimate": b, "low": c, "high": d} for _, b, c, d in rows]
    if kind == "quantile":
        named = [{"q": q, "estimate": b, "low": c, "high": d} for q, b, c, d in rows]
    if kind == "Values":
        named = [{"values": number} for row in rows for number in row] * 3
    svg = draw_svg(read_figure(kind, named, line=line), named_by="x")
    width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups())
    assert 100 < width < 800
    assert 20 < height < 800


def test_of_very_many_rows_the_first_are_drawn():
    figure = read_figure("top", [{"item": str(n), "estimate": float(n)} for n in range(500)])
    assert (len(figure.marks), figure.total) == (MOST_MARKS, 500)


# ---- ends --------------------------------------------------------------------------------------------------


def test_an_end_that_nothing_bounds_is_an_arrow_and_never_a_stroke():
    rows = [
        {"item": "both", "estimate": 5.0, "low": 3.0, "high": 7.0},
        {"item": "low", "estimate": 5.0, "low": 3.0, "high": math.inf},
        {"item": "high", "estimate": 5.0, "low": None, "high": 7.0},
        {"item": "none", "estimate": 5.0, "low": None, "high": None},
    ]
    shapes = [
        (row["label"], row["shape"])
        for row in data_of(build_spec(read_figure("top", rows)))
        if "shape" in row
    ]
    assert shapes == [
        ("both", "stroke"),
        ("both", "stroke"),
        ("low", "stroke"),
        ("low", "triangle"),
        ("high", "triangle"),
        ("high", "stroke"),
    ]


@pytest.mark.parametrize("kind", ["top", "histogram"])
def test_figures_that_are_compared_begin_at_zero(kind):
    rows = [
        {"item": "a", "estimate": 900.0, "low": 890.0, "high": 910.0},
        {"item": "b", "estimate": 880.0},
    ]
    axis = build_spec(read_figure(kind, rows))["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert axis[0] == 0
    assert axis[1] > 910
    # A single figure is compared with nothing.
    if kind == "top":
        assert (
            build_spec(read_figure(kind, rows[:1]))["layer"][0]["encoding"]["x"]["scale"]["domain"][
                0
            ]
            > 800
        )


def test_a_threshold_is_a_line():
    rows = [{"item": "a", "estimate": 900.0}]
    spec = build_spec(read_figure("above", rows, line=700))
    assert {"line": 700.0} in data_of(spec)
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"][0] < 700


# ---- scales ------------------------------------------------------------------------------------------------


def find_axis(spec, axis="x"):
    return next(one for layer in spec["layer"] if (one := layer["encoding"].get(axis)))


def test_a_whisker_that_squeezes_the_others_makes_the_axis_logarithmic():
    rows = [
        {"item": "a", "estimate": 21.0, "low": 18.0, "high": 24.0},
        {"item": "b", "estimate": 35.0, "low": 31.0, "high": 40.0},
        {"item": "c", "estimate": 900.0, "low": 2.0, "high": 9_000.0},
    ]
    plain = find_axis(build_spec(read_figure("mean", rows[:2])))
    assert "type" not in plain["scale"]
    wide = find_axis(build_spec(read_figure("mean", rows, value_name="price")))
    assert wide["scale"]["type"] == "log"
    assert wide["scale"]["domain"][0] <= 2 < 9_000 <= wide["scale"]["domain"][1]
    assert wide["axis"]["title"] == "price (log scale)"
    # One that lies far from the others squeezes nobody: how far it lies is what the picture shows.
    far = [*rows[:2], {"item": "c", "estimate": 900.0, "low": 890.0, "high": 910.0}]
    assert "type" not in find_axis(build_spec(read_figure("mean", far)))["scale"]
    # Logarithms know no zero: around it the axis stays linear, and its numbers are still there.
    rows[2]["low"] = -3_000.0
    signed = find_axis(build_spec(read_figure("mean", rows)))
    assert signed["scale"]["type"] == "symlog"
    assert {-1000, 0, 10, 1000} <= set(signed["axis"]["values"])
    # Below zero the axis reaches as far as the figures do.
    for row in rows:
        row |= {name: -abs(row[name]) for name in ("estimate", "low", "high")}
    below = find_axis(build_spec(read_figure("mean", rows)))["scale"]["domain"]
    ends = [row[name] for row in rows for name in ("estimate", "low", "high")]
    assert below[0] <= min(ends)
    assert max(ends) <= below[1]
    # Bars begin at zero, and their lengths are compared.
    assert "type" not in find_axis(build_spec(read_figure("histogram", rows)))["scale"]
    assert ">price (log scale)<" in draw_svg(
        read_figure("mean", rows, value_name="price"), named_by="caption"
    )


# ---- over time ---------------------------------------------------------------------------------------------

DAYS = ["2026-01-30", "2026-01-31", "2026-02-01"]


@pytest.mark.parametrize(
    "labels", [DAYS, ["2025-11", "2025-12", "2026-01"], ["1999", "2004", "2026"]]
)
@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["histogram", "mean"])
def test_figures_of_dates_are_a_line_from_left_to_right(kind, labels):
    rows = [
        {"item": label, "estimate": 5.0 + i, "low": 4.0 + i, "high": 7.0 + i}
        for i, label in enumerate(labels)
    ]
    figure = read_figure(kind, rows)
    assert figure.form == "trend"
    # The running figures of a series have their day under another name.
    running = [{"part": row["item"], "total": row["estimate"]} for row in rows]
    assert (read_figure("count", running).form, read_figure("count", running).days) == (
        "trend",
        figure.days,
    )
    stairs = read_figure("count", [{**row, "at_least": 4.0} for row in running])
    [least] = [one for one in build_spec(stairs)["layer"] if "interpolate" in one["mark"]]
    assert [row["least"] for row in least["data"]["values"]] == [4.0] * len(rows)
    draw_svg(stairs, named_by="caption")
    spec = build_spec(figure)
    assert {layer["mark"]["type"] for layer in spec["layer"]} == {"rule", "point", "line"}
    assert find_axis(spec)["type"] == "temporal"
    assert [
        row["label"][: len(label)] for row, label in zip(data_of(spec)[:3], labels, strict=True)
    ] == labels
    assert [row["value"] for row in data_of(spec) if "share" not in row and "value" in row][:3] == [
        5.0,
        6.0,
        7.0,
    ]
    draw_svg(figure, named_by="caption")


@pytest.mark.parametrize(
    "labels",
    [
        DAYS[:2],
        DAYS[::-1],
        [*DAYS[:2], "2026-02-30"],
        [*DAYS, "tea"],
        ["10", "20", "30"],
        ["1234", "1300", "2000"],
    ],
    ids=["two", "backward", "no day", "a word", "numbers", "codes"],
)
@pytest.mark.sample(2)
def test_what_is_no_row_of_dates_is_no_line(labels):
    rows = [{"item": label, "estimate": 5.0, "low": 4.0, "high": 7.0} for label in labels]
    assert read_figure("histogram", rows).form == "bars"
    # A list is in the order of its counts.
    ranked = [{"rank": i, **row} for i, row in enumerate(rows)]
    assert read_figure("top", ranked).form == "whiskers"


def test_a_year_of_days_is_drawn_whole_and_an_open_end_is_an_arrow():
    days = [str(np.datetime64("2026-01-01") + i) for i in range(365)]
    rows = [{"item": day, "estimate": 5.0, "low": 4.0, "high": None} for day in days]
    figure = read_figure("histogram", rows)
    assert (figure.form, len(figure.marks)) == ("trend", 365)
    spec = build_spec(figure)
    assert [row["shape"] for row in data_of(spec) if "shape" in row][:2] == ["stroke", "triangle"]


# ---- labels ------------------------------------------------------------------------------------------------


def test_labels_fit_can_be_printed_and_are_told_apart():
    short = shorten_labels([WILD, WILD, "", "", "東京" * 30, "a" * 20, "b" * 21, "\u202eabc"])
    assert len(set(short)) == len(short)
    assert all(measure_text(label) <= MOST_LETTERS + 4 for label in short)
    assert all(label.isprintable() for label in short)
    assert short[5] == "a" * 20
    assert short[6] == "b" * 19 + "…"
    assert measure_text(short[4]) <= MOST_LETTERS


def test_what_draws_never_sees_a_text_of_somebody_else(monkeypatch):
    import vl_convert

    seen = []
    draws = vl_convert.vegalite_to_svg
    monkeypatch.setattr(
        vl_convert, "vegalite_to_svg", lambda **told: seen.append(told) or draws(**told)
    )
    table = [(line, head) for line in ("Zebra", None) for head in ("<b>&", "@0", None)]
    cells = show_rows({"item": label, "estimate": 3.0} for label in table)
    svg = draw_svg(read_figure("table", cells, value_name="Antilope\x1b"), named_by="x")
    assert not re.search(r"Zebra|<b>|Antilope", json.dumps(seen))
    assert re.findall(r">(Zebra|&lt;b&gt;&amp;|@0|Total)<", svg) == [
        *("&lt;b&gt;&amp;", "@0", "Total"),
        *("Zebra", "Total"),
    ]
    seen.clear()
    rows = [{"item": "Zebra", "estimate": 3.0}, {"item": "<b>&", "estimate": 2.0}]
    svg = draw_svg(read_figure("top", rows, value_name="Antilope\x1b"), named_by="x")
    assert not re.search(r"Zebra|<b>|Antilope", json.dumps(seen))
    assert ">Zebra<" in svg
    assert ">&lt;b&gt;&amp;<" in svg
    assert "Antilope" in svg
    assert seen[0]["allowed_base_urls"] == []


def test_a_label_is_no_placeholder():
    svg = draw_svg(
        read_figure("top", [{"item": "@1", "estimate": 3.0}, {"item": "b", "estimate": 2.0}]),
        named_by="x",
    )
    assert re.findall(r">(@1|b)<", svg) == ["@1", "b"]


def test_labels_are_data_and_never_expressions():
    text = json.dumps(build_spec(read_figure("top", [{"item": "datum.x", "estimate": 3.0}])))
    assert not re.search(r'"(?:expr|labelExpr|signal|calculate)": "[^"]*datum\.x', text)


# ---- tables ------------------------------------------------------------------------------------------------


def cross_table(columns=2, **more):
    """A release of a cross table, with predictable noise."""
    frame = pl.DataFrame(
        {
            "what": ["tea", "rice", "corn", "tea"] * 100,
            "how": ["hot", "cold"] * 200,
            "x": ["1"] * 400,
        }
    )
    domain = {"what": ["tea", "corn", "rice"], "how": ["hot", "cold"], "x": ["0", "1"]}
    named = list(domain)[:columns]
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(3))
    return session.table(named, epsilon=0.2, domain={name: domain[name] for name in named}, **more)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.sample(2)
def test_a_cross_table_is_drawn_as_people_draw_it(columns):
    """Every number is in it, in its place and as a number; colors are those of cells alone."""
    table = cross_table(columns, not_negative=True)
    assert table.whole.published is not None
    figure = read_figure("CrossTable", show_rows(table.list_rows()))
    *_, heads = [["tea", "corn", "rice"], ["hot", "cold"], ["0", "1"]][:columns]
    assert (figure.form, figure.heads) == ("heat", (*heads, "Total"))
    drawn = iter(figure.marks)
    sides = [["tea", "corn", "rice", None], ["hot", "cold", None], ["0", "1", None]][:columns]
    for label in itertools.product(*sides):
        mark = next(drawn)
        assert (mark.value, mark.is_sum) == (table[label].published, None in label)
    assert figure.lines[-1] == "Total \u00b7 Total"[-len(figure.lines[-1]) :]
    spec = table.plot().to_dict()
    cells, numbers, sums = spec["layer"]
    assert [row["text"] for row in numbers["data"]["values"]] == [
        f"{row.published:,}" for row in sorted(table.cells, key=lambda row: label_order(row, sides))
    ]
    assert not any(row["sum"] for row in cells["data"]["values"])
    assert all(row["sum"] for row in sums["data"]["values"])
    shade = cells["encoding"]["opacity"]["scale"]
    assert shade["domain"] == [0, max(row.published for row in table.cells)]
    # What is no such table, too large, or written by somebody else, is drawn as a list.
    rows = show_rows(table.list_rows())
    for broken in (
        [{**row, "parts": None} for row in rows],
        [{**row, "parts": (1, None)} for row in rows],
        [{**row, "parts": row["parts"][:1]} for row in rows[:1]] + rows,
        show_rows(
            {"item": (f"{n}", part), "estimate": n} for n in range(99) for part in ("a", None)
        ),
    ):
        assert read_figure("CrossTable", broken).form != "heat"


def label_order(row, sides):
    return [side.index(part) for side, part in zip(sides, row.item, strict=True)]


def test_numbers_can_be_read_on_the_strongest_color():
    """In the light, in the dark and on paper, by the rule of WCAG 2: the color of a cell is weak enough."""
    styles = (files("sordino.report") / "style.css").read_text(encoding="utf-8")
    found = re.findall(r":root \{(.*?)\}", styles, re.DOTALL)
    assert len(found) == 3
    for style in found:
        colors = dict(re.findall(r"--(\w+): #([0-9a-f]{3,6});", style))
        card, ink, fill = (
            [int(part * (2 if len(part) == 1 else 1), 16) / 255 for part in split(colors[name])]
            for name in ("card", "ink", "fill")
        )
        cell = [SHADE * over + (1 - SHADE) * under for over, under in zip(fill, card, strict=True)]
        low, high = sorted(map(luminance, (ink, cell)))
        assert (high + 0.05) / (low + 0.05) > 4.5


def split(color):
    size = len(color) // 3
    return [color[at : at + size] for at in range(0, len(color), size)]


def luminance(color):
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in color]
    return sum(p * weight for p, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


# ---- the picture -------------------------------------------------------------------------------------------


def every_figure():
    yield from (
        read_figure(type(released(kind)).__name__, released(kind).list_rows()) for kind in ASK
    )
    yield read_figure("Values", [{"values": float(n)} for n in range(90)])
    steps = tuple(Mark(label="", value=float(n), at=float(n)) for n in range(3))
    yield Figure(form="steps", marks=steps, total=3, line=4.0, value_name="epsilon")
    yield Figure(
        form="steps",
        marks=steps,
        total=3,
        line=4.0,
        days=("2026-01-01", "2026-01-02", "2026-03-01"),
    )
    yield read_figure("CrossTable", show_rows(cross_table().list_rows()))
    yield read_figure("above", [{"item": "a", "estimate": 5e6, "low": 4e6, "high": None}], line=3)


def test_pictures_load_nothing_and_have_the_colors_of_their_page():
    colors = set()
    for figure in every_figure():
        svg = draw_svg(figure, named_by="caption")
        assert svg.endswith("</svg>")
        assert svg.count("<svg") == 1
        assert not re.search(r"\bid=|href|url\(|http|<style|<script|<image|<use|\son\w+=", svg)
        assert not re.search(f"{FILL}|{GRID}|{INK}|{LINE}|{MARK}|{QUIET}", svg)
        colors |= set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg))
    named = {f"var(--{name})" for name in ("ink", "quiet", "grid", "mark", "fill", "line")}
    assert colors - {"none", "transparent"} == named


def test_the_same_figure_is_the_same_picture():
    figure = read_figure("top", released("top").list_rows())
    assert draw_svg(figure, named_by="x") == draw_svg(figure, named_by="x")


def test_without_the_extra_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(
        sd.UnsupportedBackend, match=r"need the package altair.*pip install 'sordino\[report\]'"
    ):
        released("count").plot()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(sd.UnsupportedBackend, match="vl-convert-python"):
        draw_svg(read_figure("count", [{"estimate": 3.0}]), named_by="x")


def test_a_chart_takes_titles_and_sizes():
    chart = make_chart(read_figure("histogram", released("histogram").list_rows())).properties(
        title="Wards", width=500
    )
    assert chart.to_dict()["title"] == "Wards"
