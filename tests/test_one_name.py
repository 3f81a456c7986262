"""The figure of a release is called `estimate` and its interval `low` and `high`, whatever was asked; older names still work."""

from __future__ import annotations

import polars as pl
import pytest

import sordino as sd

FRAME = pl.DataFrame({"item": ["tea", "rice"] * 300, "x": [float(i % 50) for i in range(600)]})
NUMBERS = {"epsilon": 5, "lower": 0, "cap": 100}
INTERVALS = {
    "count": lambda s: s.count(epsilon=1),
    "sum": lambda s: s.sum("x", **NUMBERS),
    "sum within bounds": lambda s: s.sum("x", bounds=(0, 100_000), **NUMBERS),
    "mean": lambda s: s.mean("x", **NUMBERS),
    "variance": lambda s: s.variance("x", **NUMBERS),
}


@pytest.fixture
def session():
    return sd.Session(FRAME, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(3))


@pytest.mark.parametrize("name", INTERVALS)
def test_a_figure_and_its_interval_have_one_name(session, name):
    release = INTERVALS[name](session)
    assert release.low <= release.estimate <= release.high
    if name != "count":
        assert (release.estimate, (release.low, release.high)) == (release.value, release.interval)


def test_a_quantile_has_an_estimate_and_ends_from_a_share_of_the_budget(session):
    release = session.quantile("x", q=0.5, **NUMBERS)
    assert release.low <= release.estimate == release.value <= release.high
    without = session.quantile("x", q=0.5, interval_share=None, **NUMBERS)
    assert (without.low, without.high) == (None, None)
    several = session.quantile("x", q=(0.2, 0.8), **NUMBERS)
    assert [one.estimate for one in several] == [one.value for one in several]


def test_what_is_written_down_keeps_its_names(session):
    told = session.sum("x", **NUMBERS).to_dict()
    assert {"value", "interval"} <= told.keys()
    assert not {"estimate", "low", "high"} & told.keys()
