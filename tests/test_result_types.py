"""Every public result is a table, in every kind of frame, for a notebook and as a picture: none can be forgotten."""

from __future__ import annotations

import dataclasses
import pkgutil
from functools import cache
from importlib import import_module

import altair as alt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sordino as sd
from sordino import session as sessions
from sordino.releases import Release
from sordino.session.local import LocalReports
from sordino.session.looks import KeptLook, read_look
from sordino.tabular import Tabular

LABELS = ["corn", "rice", "tea"]
COLUMN = {"epsilon": 8, "lower": 0, "cap": 1000}
BOTH = {"positives": 2, "epsilon": 2, "sensitivity": sd.COUNTING}
# Parts of results, and what others are made of.
NO_RESULTS = {
    "Tabular": "what all results are",
    "Release": "what all releases are",
    "ClippedRelease": "what a figure of clipped records is",
    "ColumnRelease": "what all releases about a column are",
    "Clip": "a stage of an estimator",
}
# They are rows of something else, inputs, or say what a release would be; the list holds what looks like a result.
NOT_TABULAR = {"RowRanks": "a row of a list"}


@cache
def opened():
    frame = pl.DataFrame(
        {
            "who": [f"u{i}" for i in range(400)],
            "what": ["tea", "rice", "corn", "tea"] * 100,
            "x": [float(i % 50) for i in range(400)],
        }
    )
    return sd.Session(frame, unit=sd.PrivacyUnit("who", max_rows=1), entropy=sd.Seeded(7))


def drawn(mechanism, answers=(50, 7, 90), **more):
    return mechanism.release(answers, entropy=sd.Seeded(7), **more)


def laplace(answer=50):
    return drawn(sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING), answer)


def asked(mechanism, answer=90):
    with mechanism.open(entropy=sd.Seeded(7)) as stream:
        return stream.ask(answer)


UNLISTED = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=2)
MADE = {
    "AboveItems": lambda: opened().above(
        "what", threshold=50, positives=2, epsilon=2, domain=LABELS
    ),
    "BoundedValue": lambda: opened().sum("x", bounds=(0, 50_000), **COLUMN),
    "Choice": lambda: drawn(sd.ExponentialMechanism(epsilon=1, sensitivity=sd.COUNTING)),
    "ClippedValue": lambda: opened().sum("x", **COLUMN),
    "Count": lambda: opened().count(epsilon=1),
    "CrossTable": lambda: opened().table("what", epsilon=2, domain=LABELS),
    "PivotedTable": lambda: opened().table("what", epsilon=2, domain=LABELS).pivot(),
    "DerivedValue": lambda: laplace() + laplace(9),
    "DerivedValues": lambda: sd.derive_all(
        {"sum": laplace() + laplace(9), "share": laplace() / laplace(90)}
    ),
    "Estimates": lambda: sd.combine_gaps(
        drawn(sd.NoisyTopK(k=2, epsilon=2, sensitivity=sd.COUNTING)),
        drawn(sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING.over(2)), [90, 50]),
    ),
    "FirstAbove": lambda: drawn(
        sd.AboveThreshold(threshold=60, epsilon=2, sensitivity=sd.COUNTING)
    ),
    "Groups": lambda: opened().mean("x", by="what", domain=LABELS, groups_per_unit=1, **COLUMN),
    "Histogram": lambda: opened().histogram("what", epsilon=2, domain=LABELS),
    "HistogramTop": lambda: drawn(
        sd.HistogramTopK(k=2, epsilon=2, sensitivity=sd.COUNTING.over(3))
    ),
    "HybridTop": lambda: drawn(
        sd.HybridTopK(k=2, threshold=20, epsilon=3, sensitivity=sd.COUNTING)
    ),
    "KeptLook": lambda: KeptLook.of(read_look(opened().sum("x", **COLUMN)), "0" * 32),
    "NumbersShare": lambda: opened().sum("x", numbers_share=0.1, **COLUMN).numbers_share,
    "Plan": lambda: opened().plan.count(epsilon=1),
    "Positives": lambda: drawn(sd.SparseVector(threshold=20, **BOTH)),
    "QuantileEnds": lambda: drawn(
        sd.QuantileInterval(q=0.5, epsilon=8, adjacency="add-remove", lower=0, cap=1000),
        list(range(200)),
    ),
    "QuantileValue": lambda: opened().quantile("x", q=0.5, **COLUMN),
    "QuantileValues": lambda: opened().quantile("x", q=(0.25, 0.5), **COLUMN),
    "Remeasured": lambda: opened().remeasure(opened().sum("x", **COLUMN), epsilon=2),
    "Reported": lambda: LocalReports(
        mechanism=sd.CompositeMechanism(lower=0, upper=100, epsilon=1)
    ).release(iter([np.array([3.0, 5.0])]), entropy=sd.Seeded(7), write=lambda block: None),
    "ReportsMean": lambda: sd.mean_of_reports(
        sd.CompositeMechanism(lower=0, upper=100, epsilon=2).reports(
            [30] * 500, entropy=sd.Seeded(7)
        )
    ),
    "SmoothValue": lambda: drawn(
        sd.SmoothMechanism(epsilon=1, beta=0.1, ceiling=8, floor=0.125, law="quartic"),
        4.5,
        smooth_bound=0.5,
    ),
    "TopItems": lambda: opened().top_k("what", k=2, epsilon=2, domain=LABELS),
    "TopK": lambda: drawn(sd.NoisyTopK(k=2, epsilon=2, sensitivity=sd.COUNTING)),
    "TopSet": lambda: drawn(sd.JointTopK(k=2, epsilon=2, sensitivity=sd.COUNTING)),
    "TopSetItems": lambda: opened().top_set("what", k=2, epsilon=2, domain=LABELS),
    "UnlistedCounts": lambda: drawn(
        sd.UnlistedHistogram(epsilon=2, delta=1e-3, sensitivity=UNLISTED), labels=["a", "b", "c"]
    ),
    "UnlistedTop": lambda: drawn(
        sd.UnlistedTopK(k=2, epsilon=2, delta=1e-3, sensitivity=UNLISTED), labels=["a", "b", "c"]
    ),
    "Value": laplace,
    "Values": lambda: drawn(
        sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(2)), [50, 7]
    ),
    "VarianceValue": lambda: opened().variance("x", **COLUMN),
    "Verdict": lambda: asked(sd.SparseVector(threshold=20, **BOTH)),
}
every = pytest.mark.parametrize("name", MADE)


def leaves(kind):
    """Return a class and all that derive from it."""
    return {kind}.union(*map(leaves, kind.__subclasses__()))


def list_tabular():
    """Return the names of all results of the library: every module is imported, so that none is missing."""
    for module in pkgutil.walk_packages(sd.__path__, "sordino."):
        if ".cli" not in module.name and not module.name.endswith("__main__"):
            import_module(module.name)
    return {one.__name__ for one in leaves(Tabular) if one.__module__.startswith("sordino.")}


def test_every_result_is_in_the_list():
    assert list_tabular() - set(NO_RESULTS) == set(MADE)


def test_what_looks_like_a_result_is_one():
    """Public names that hold a figure with its error or its ends, and are no rows of anything."""
    packages = [sd, sessions, sd.genomics]
    public = {
        getattr(package, name) for package in packages for name in dir(package) if name[0].isupper()
    }
    looks = {
        one.__name__
        for one in public
        if isinstance(one, type)
        and dataclasses.is_dataclass(one)
        and {
            "value",
            "values",
            "estimate",
            "standard_error",
            "interval",
            "rows",
            "simulated",
            "worst",
        }
        & {field.name for field in dataclasses.fields(one)}
        and not issubclass(one, Tabular)
    }
    # Rows of results: each of them is in the frames of the result.
    rows = {name for name in looks if name.endswith(("Item", "Row", "Figure", "Number"))}
    assert looks - rows == set(NOT_TABULAR)


def test_a_result_that_is_forgotten_is_seen():
    @dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
    class Forgotten(Release):
        value: float

    Forgotten.__module__ = "sordino.forgotten"
    try:
        assert "Forgotten" in list_tabular() - set(NO_RESULTS) - set(MADE)
    finally:
        Forgotten.__module__ = "tests"


@every
@pytest.mark.sample(2)
def test_a_result_is_a_table_everywhere(name):
    result = MADE[name]()
    assert type(result).__name__ == name
    arrow = result.to_arrow()
    assert isinstance(arrow, pa.Table)
    assert arrow.num_rows > 0
    assert result.to_polars().columns == arrow.column_names == list(result.to_pandas().columns)
    assert isinstance(result.to_pandas(), pd.DataFrame)
    # Other programs take it as it stands (the PyCapsule protocol).
    taken = pa.RecordBatchReader.from_stream(result).read_all()
    # NaN is no number, and so none that it is equal to.
    assert pl.from_arrow(taken).equals(pl.from_arrow(arrow), null_equal=True)
    shown = result._repr_html_()
    assert shown.startswith("<table>")
    assert shown.count("<tr>") == min(arrow.num_rows, 50) + 1
    assert "Spent" in shown or name == "Plan"


@every
@pytest.mark.sample(8)
def test_a_result_has_a_picture(name):
    chart = MADE[name]().plot()
    assert isinstance(chart, alt.Chart | alt.LayerChart)
    assert chart.to_dict()["$schema"]


def test_a_picture_of_several_figures_names_them():
    drawn = MADE["DerivedValues"]().plot().to_dict()
    labels = {row["label"] for layer in drawn["layer"] for row in layer["data"]["values"]}
    assert labels == {"sum", "share"}


def test_a_figure_without_ends_has_a_picture():
    ratio = laplace(50) / (laplace(1) - laplace(1))
    assert ratio.high == float("inf")
    assert ratio.plot().to_dict()["$schema"]
