"""Releases as frames: the figures of the release and nothing else, in every kind of frame."""

from __future__ import annotations

import math
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sordino as sd

LABELS = ["corn", "rice", "tea"]
ROWS = pl.DataFrame(
    {
        "who": [f"u{i}" for i in range(400)],
        "what": ["tea", "rice", "corn", "tea"] * 100,
        "x": [float(i % 50) for i in range(400)],
    }
)


def seeded(max_rows=1):
    return sd.Session(ROWS, unit=sd.PrivacyUnit("who", max_rows=max_rows), entropy=sd.Seeded(7))


COLUMN = {"epsilon": 8, "lower": 0, "cap": 1000}
GROUPS = {"by": "what", "domain": LABELS, "groups_per_unit": 1}
RELEASES = {
    "top": lambda s: s.top_k("what", k=2, epsilon=2, domain=LABELS),
    "set": lambda s: s.top_set("what", k=2, epsilon=2, domain=LABELS),
    "above": lambda s: s.above("what", threshold=50, positives=2, epsilon=2, domain=LABELS),
    "histogram": lambda s: s.histogram("what", epsilon=2, domain=LABELS),
    "count": lambda s: s.count(epsilon=1),
    "bounded count": lambda s: s.count(epsilon=1, bounds=(0, 1000)),
    "quantile": lambda s: s.quantile("x", q=0.5, **COLUMN),
    "quantiles": lambda s: s.quantile("x", q=(0.25, 0.5), **COLUMN),
    "sum": lambda s: s.sum("x", **COLUMN),
    "mean": lambda s: s.mean("x", **COLUMN),
    "variance": lambda s: s.variance("x", **COLUMN),
    "grouped mean": lambda s: s.mean("x", **COLUMN, **GROUPS),
    "grouped quantiles": lambda s: s.quantile("x", q=(0.25, 0.5), **COLUMN, **GROUPS),
    "looked again": lambda s: s.count(epsilon=1),
}
LENGTHS = {
    "top": 2,
    "set": 2,
    "histogram": 3,
    "quantiles": 2,
    "grouped mean": 3,
    "grouped quantiles": 6,
}


def figures_of(release):
    """The figures by another way than the one that is tested."""
    if isinstance(release, sd.QuantileValues):
        return [one.estimate for one in release]
    if hasattr(release, "rows"):
        rows = [getattr(row, "release", row) for row in release.rows]
        parts = [
            part for row in rows for part in (row if isinstance(row, sd.QuantileValues) else (row,))
        ]
        return [part.estimate for part in parts]
    return [release.estimate]


@pytest.mark.parametrize("kind", RELEASES)
@pytest.mark.sample(3)
def test_a_frame_has_the_figures_of_the_release(kind):
    release = RELEASES[kind](seeded())
    arrow, polars, pandas = release.to_arrow(), release.to_polars(), release.to_pandas()
    assert isinstance(arrow, pa.Table)
    assert isinstance(polars, pl.DataFrame)
    assert isinstance(pandas, pd.DataFrame)
    assert arrow.num_rows == polars.height == len(pandas) == len(figures_of(release))
    assert kind not in LENGTHS or arrow.num_rows == LENGTHS[kind]
    assert arrow["estimate"].to_pylist() == polars["estimate"].to_list() == figures_of(release)
    assert pandas["estimate"].tolist() == figures_of(release)
    assert arrow.column_names == polars.columns == list(pandas.columns)
    # A row has them by the same names in every release; of several quantiles a group has several.
    rows = list(release) if hasattr(release, "__iter__") else [release]
    for name in ("estimate", "low", "high", "true_low", "true_high", "too_few"):
        told = [getattr(row, name) for row in rows if hasattr(row, name)]
        flat = [one for said in told for one in (said if isinstance(said, tuple) else (said,))]
        assert name not in polars.columns or polars[name].to_list() == flat
    assert all(hasattr(row, "estimate") for row in rows)
    # No column holds anything but plain values.
    assert {str(column.type) for column in arrow.columns} <= {"string", "int64", "double", "bool"}
    assert pl.from_arrow(arrow).equals(polars)
    assert pa.table(pl.from_arrow(arrow)).num_rows == arrow.num_rows


@pytest.mark.parametrize("kind", sorted(set(RELEASES) - {"quantiles"}))
@pytest.mark.sample(3)
def test_any_program_that_takes_arrow_takes_a_release(kind):
    release = RELEASES[kind](seeded())
    assert pa.table(release).equals(release.to_arrow())
    assert pl.DataFrame(release).equals(release.to_polars())


def test_labels_stand_beside_their_figures():
    release = RELEASES["grouped quantiles"](seeded())
    frame = release.to_polars()
    assert frame["item"].to_list() == [label for label in LABELS for _ in range(2)]
    assert frame["q"].to_list() == [0.25, 0.5] * 3
    top = RELEASES["top"](seeded())
    assert top.to_pandas()["item"].tolist() == [row.item for row in top]


def test_the_ends_of_a_range_are_two_columns():
    frame = RELEASES["sum"](seeded()).to_polars()
    assert frame["clip_low"][0] == 0
    assert frame["clip_high"][0] >= 49
    assert "clip" not in frame.columns
    assert "output_range" not in RELEASES["count"](seeded()).to_polars().columns


def test_what_is_unbounded_is_infinite_and_what_is_not_said_is_null():
    frame = RELEASES["top"](seeded()).to_arrow()
    assert set(frame["true_high"].to_pylist()) == {math.inf}
    assert frame["combined"].null_count == 2
    assert RELEASES["top"](seeded()).to_pandas()["combined"].isna().all()


def test_a_release_without_rows_has_its_columns():
    asked = {"threshold": 390, "positives": 1, "epsilon": 8, "domain": LABELS}
    none, some = seeded().above("what", **asked), RELEASES["above"](seeded())
    assert len(none) == 0
    for frame, other in ((none.to_polars(), some.to_polars()), (none.to_arrow(), some.to_arrow())):
        assert frame.schema == other.schema
    assert list(none.to_pandas().columns) == list(some.to_pandas().columns)
    assert "Nothing was found." in none._repr_html_()


@pytest.mark.parametrize(
    ("mechanism", "answers", "columns"),
    [
        (sd.NoisyTopK(k=2, epsilon=1, sensitivity=sd.COUNTING), [5, 9, 1], ["indices", "gaps"]),
        # The last gap is missing: nothing is left out.
        (sd.NoisyTopK(k=3, epsilon=1, sensitivity=sd.COUNTING), [5, 9, 1], ["indices", "gaps"]),
        (sd.ExponentialMechanism(epsilon=1, sensitivity=sd.COUNTING), [5, 9, 1], ["index", "gap"]),
        (sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING), 5, ["value", "standard_error"]),
        (sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(2)), [5, 9], ["values"]),
    ],
)
def test_what_a_mechanism_releases_is_a_frame_too(mechanism, answers, columns):
    release = mechanism.release(answers, entropy=sd.Seeded(7))
    frame = release.to_polars()
    assert frame.columns == columns
    for name in columns:
        value = getattr(release, name)
        listed = value.tolist() if isinstance(value, np.ndarray) else [value]
        assert frame[name].to_list() == listed + [None] * (frame.height - len(listed))


def test_a_notebook_shows_labels_as_texts_and_says_what_was_spent():
    wild = "<b>\x1b[31m&'\""
    session = sd.Session(
        pl.DataFrame({"what": [wild] * 50}), unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7)
    )
    shown = session.histogram("what", epsilon=3, domain=[wild, "b"])._repr_html_()
    assert wild not in shown
    assert "<b>" not in shown
    assert "\x1b" not in shown
    assert "&lt;b&gt;\\x1b[31m&amp;&#x27;&quot;" in shown
    assert "Spent: epsilon 3." in shown
    assert "protects nobody" in shown
    assert shown.count("<tr>") == 3


def test_a_notebook_shows_the_first_rows_of_many():
    mechanism = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(70))
    shown = mechanism.release(np.arange(70), entropy=sd.Seeded(7))._repr_html_()
    assert shown.count("<tr>") == 51
    assert "70 rows" in shown
    assert "first 50" in shown


def test_a_release_of_a_batch_is_one_when_the_batch_has_ended():
    session = seeded()
    with session.batch():
        count = session.count(epsilon=1)
        with pytest.raises(sd.InvalidParameter):
            count.to_polars()
        with pytest.raises(sd.InvalidParameter):
            pa.table(count)
    assert pa.table(count).num_rows == count.to_polars().height == 1


@pytest.mark.parametrize("name", ["pyarrow", "polars", "pandas"])
def test_a_library_that_is_missing_is_named(monkeypatch, name):
    release = RELEASES["count"](seeded())
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(sd.UnsupportedBackend, match=f"pip install {name}"):
        getattr(release, f"to_{name.removeprefix('py')}")()


@pytest.mark.parametrize("kind", ["sum", "mean", "variance"])
@pytest.mark.sample(3)
def test_a_notebook_says_what_the_interval_of_clipped_numbers_is_about(kind):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0] * 50, "g": ["p", "q", "p"] * 50})
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1))
    groups = {"by": "g", "domain": ["p", "q"]}
    for more in ({}, groups):
        shown = getattr(session, kind)("x", epsilon=1, lower=0, cap=9, **more)._repr_html_()
        assert "after capping values to" in shown
    assert "capping values" not in session.count(epsilon=1)._repr_html_()
    assert (
        "capping values"
        not in session.quantile("x", q=0.5, epsilon=1, lower=0, cap=9)._repr_html_()
    )


def test_several_quantiles_are_a_frame_for_whoever_takes_arrow():
    """A tuple would be taken for a list of columns before anybody asks for its rows."""
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0] * 50})
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1))
    found = session.quantile("x", q=[0.2, 0.5], epsilon=1, lower=0, cap=9)
    assert pl.DataFrame(found)["q"].to_list() == pa.table(found)["q"].to_pylist() == [0.2, 0.5]
    low, middle = found
    assert (
        [one.value for one in found]
        == [low.value, middle.value]
        == pl.DataFrame(found)["estimate"].to_list()
    )
    assert (len(found), found[1], found[-1]) == (2, middle, middle)
    assert pickle.loads(pickle.dumps(found))[0].value == low.value


def test_a_table_that_fits_is_written_as_one_that_is_folded_would_be():
    """Letters of two places and of none, blanks, marks of text, empty cells: the same lines."""
    import io
    import random

    from rich.cells import cell_len
    from rich.console import Console

    from sordino import record_table
    from sordino.record import Record

    draw, letters = (
        random.Random(1),
        [*"abc XY -.,\t", "漢", "é", "e\u0301", "🙂", "\u200b", "[b]", "\x07"],
    )

    def label():
        return "".join(draw.choice(letters) for _ in range(draw.randint(0, 12)))

    def number():
        return draw.choice([draw.randint(-(10**6), 10**9), draw.gauss(0, 1e9), math.inf, None])

    for _ in range(60):
        rows = [{"item": label(), "a": number(), "b": label()} for _ in range(draw.randint(0, 6))]
        record = Record(facts={"figure": "count"}, columns=["item", "a", "b"], rows=rows)
        console = Console(file=io.StringIO(), width=160)
        columns = []
        for name, texts in record_table.write_cells(record).items():
            cells = [record_table.escape_controls(text) for text in (name, *texts)]
            wide = max(map(cell_len, cells))
            numeric = not any(isinstance(row[name], str) for row in rows)
            columns.append(record_table._DrawnColumn(cells, wide, numeric))
        folded = [line.rstrip() for line in record_table._fold_lines(columns, console)]
        assert [line.rstrip() for line in record_table._write_lines(columns)] == folded
        assert record_table.draw_table(record, 160).splitlines() == folded
