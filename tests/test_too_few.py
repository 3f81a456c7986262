"""Of too few numbers nothing is told: where the interval of a mean or a variance leaves nothing out, there is no error either.

The error that totals tell of nothing but noise is thousands of times as large as the clip, in which every mean lies.
"""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

import pandas as pd
import pytest

import sordino as sd
from sordino.cli.output import write_records
from sordino.record_text import write_csv, write_json
from sordino.report import make_report
from sordino.results import describe
from sordino.results.legend import say_short

NOTHING = pd.DataFrame(
    {"who": ["a", "b", "c"], "what": ["tea"] * 3, "v": pd.Series([None] * 3, dtype="float64")}
)
MANY = pd.DataFrame(
    {
        "who": [f"u{i}" for i in range(900)],
        "what": ["tea"] * 900,
        "v": [float(i % 50) for i in range(900)],
    }
)
ROWS, PEOPLE = {"unit": sd.PrivacyUnit("who", max_rows=2)}, {"unit": sd.PrivacyUnit("who")}
KINDS = {
    "mean": (ROWS, "mean", {}),
    "mean of rows": ({"unit": sd.PrivacyUnit.row()}, "mean", {}),
    "mean, replace-one": ({"unit": sd.PrivacyUnit.row(adjacency="replace-one")}, "mean", {}),
    "mean of people": (PEOPLE, "mean", {"per_person": "sum"}),
    "weighed": (PEOPLE, "mean", {"weight_cap": 2}),
    "weight that is found": (PEOPLE, "mean", {"weight_cap": "auto"}),
    "groups": (PEOPLE, "mean", {"by": "what", "domain": ["tea"], "weight_cap": 2}),
    "groups, each with a clip": (
        ROWS,
        "mean",
        {"by": "what", "domain": ["tea"], "groups_per_unit": 1},
    ),
    "variance": (ROWS, "variance", {}),
    "variances": (ROWS, "variance", {"by": "what", "domain": ["tea"], "groups_per_unit": 1}),
}


def ask(name, table):
    session, method, asked = KINDS[name]
    opened = sd.Session(table, **session, entropy=sd.Seeded(7))
    return getattr(opened, method)("v", lower=0, cap=1e6, epsilon=1, **asked)


@pytest.mark.parametrize("name", KINDS)
def test_there_is_no_error_where_nothing_can_be_told(name, capsys):
    release = ask(name, NOTHING)
    one = release.rows[0].release if hasattr(release, "rows") else release
    assert one.too_few
    assert one.standard_error == math.inf
    assert "standard_error=inf" in repr(one)
    assert one.to_dict()["standard_error"] is None
    record = describe(release)
    assert json.loads(write_json(record))["rows"][0]["standard_error"] is None
    [line] = csv.DictReader(io.StringIO(write_csv(record)))
    assert line["standard_error"] == ""
    assert release.to_pandas()["standard_error"].tolist() == [math.inf]
    write_records([record], "table")
    assert "there is no standard_error" in capsys.readouterr().out


@pytest.mark.parametrize("name", KINDS)
def test_of_many_there_is_one(name):
    release = ask(name, MANY)
    one = release.rows[0].release if hasattr(release, "rows") else release
    assert not one.too_few
    assert 0 < one.standard_error < one.clip[1] ** 2
    assert list(describe(release).rows[0]).index("standard_error") < list(
        describe(release).rows[0]
    ).index("clip_low")


@pytest.mark.parametrize("name", ["mean", "weighed", "variance"])
def test_of_another_look_as_well(name):
    whom, method, asked = KINDS[name]
    session = sd.Session(NOTHING, **whom, entropy=sd.Seeded(7))
    release = getattr(session, method)("v", lower=0, cap=1e6, epsilon=1, **asked)
    again = session.remeasure(release, epsilon=1)
    [row] = again.rows
    assert row.too_few
    assert row.standard_error == again.standard_error == math.inf
    assert describe(again).rows[0]["standard_error"] is None


def test_a_sum_that_may_be_none_has_one():
    found = sd.Session(NOTHING, **ROWS, entropy=sd.Seeded(7)).sum("v", lower=0, cap=1e6, epsilon=1)
    assert found.too_few
    assert 0 < found.standard_error < math.inf


# ---- a list may name what nobody has ---------------------------------------------------------------------

LISTS = {
    "counts": (ROWS, "top_k", {}),
    "counts by gaps": (ROWS, "top_k", {"method": "gaps", "noise": "exponential"}),
    "set": (ROWS, "top_set", {}),
    "sums": (PEOPLE, "top_sums", {"column": "v", "cap": 100}),
    "rows": (PEOPLE, "top_sums", {}),
    "names alone": (ROWS, "top_set", {"selection_share": 1}),
}


def take_list(name, domain=("tea", "nothing")):
    whom, method, asked = LISTS[name]
    session = sd.Session(MANY, **whom, entropy=sd.Seeded(7))
    return getattr(session, method)("what", domain=[*domain], k=len(domain), epsilon=5, **asked)


@pytest.mark.parametrize("name", LISTS)
def test_what_nobody_has_is_marked_in_every_form_of_a_list(name, capsys):
    release = take_list(name)
    known = name != "names alone"
    few = {row.item: row.too_few for row in release.rows}
    assert few == ({"tea": False, "nothing": True} if known else {"tea": None, "nothing": None})
    frame = release.to_pandas()
    flags = frame["too_few"].astype(object).where(frame["too_few"].notna(), None)
    assert dict(zip(frame["item"], flags, strict=True)) == few
    record = describe(release)
    told = json.loads(write_json(record))["rows"]
    lines = [*csv.DictReader(io.StringIO(write_csv(record)))]
    if not known:
        assert not any("too_few" in row for row in (*told, *lines))
        return
    assert {row["item"]: row["too_few"] for row in told} == few
    assert {row["item"]: row["too_few"] for row in lines} == {"tea": "no", "nothing": "yes"}
    write_records([record], "table")
    assert "too_few: yes where the interval reaches down to 0" in capsys.readouterr().out
    assert "too_few: cannot be told from 0." in " ".join(say_short(record))
    assert "too_few" in release._repr_html_()
    page = make_report([release])
    assert "its interval reaches 0, as that of what nobody has does" in page
    assert "some cannot be told from none" in page


@pytest.mark.parametrize("name", set(LISTS) - {"names alone"})
def test_where_everything_is_told_from_0_people_are_shown_no_flag(name, capsys):
    release = take_list(name, ["tea"])
    record = describe(release)
    assert [row["too_few"] for row in record.rows] == [False]
    assert "too_few" in record.hidden
    write_records([record], "table")
    assert "too_few" not in capsys.readouterr().out
    assert "cannot be told" not in make_report([release])


@pytest.mark.parametrize("method", ["top_k", "top_sums"])
def test_what_was_found_somebody_has(method):
    """The first end of a row that was barely selected lies at 0, also of a sum of thousands."""
    goods = ["tea", "corn", "rice", "oats"] * 900
    table = pd.DataFrame({"who": range(3600), "what": goods, "v": [9.0] * 3600})
    with sd.Session(table, **ROWS, entropy=sd.Seeded(7)) as session:
        found = sd.Domain.unlisted(delta=1e-6)
        release = getattr(session, method)("what", domain=found, k=2, epsilon=1)
        assert [row.too_few for row in release.rows] == [False, False]


# ---- a quantile that may lie nearly anywhere -------------------------------------------------------------


@pytest.mark.parametrize("people", [False, True], ids=["rows", "weighed"])
@pytest.mark.parametrize(
    ("lower", "ends", "few"),
    [
        (0, (0, 1e6), True),
        (0, (0, math.inf), True),
        (0, (0, 500_000), True),
        (0, (0, 50), False),
        (0, (20_000, math.inf), False),
        (None, (-8e5, 1e6), True),
        (None, (-math.inf, math.inf), True),
        (None, (0, math.inf), False),
    ],
    ids=str,
)
@pytest.mark.sample(3)
def test_an_interval_over_nearly_all_edges_says_nothing(people, lower, ends, few):
    """Twin: 0 to 1,000,000 within a cap of 1,000,000 was no sign, and without the upper end it was."""
    unit = sd.PrivacyUnit("who") if people else sd.PrivacyUnit("who", max_rows=1)
    session = sd.Session(MANY, unit=unit, entropy=sd.Seeded(7))
    found = session.quantile("v", q=0.5, epsilon=5, lower=lower, cap=1e6)
    assert (found.weights is not None) == people
    low, high = map(float, ends)
    assert replace(found, low=low, high=high).too_few == few
    assert replace(found, low=None, high=None).too_few is None
    assert not found.too_few


def test_what_a_cap_has_to_do_with_a_clip_stands_in_the_details():
    """Twin: "capped: no" stood beside "after capping values", and nothing said what it is."""
    for name in ("mean", "weighed", "variance"):
        assert "capped: whether the search for the clip ended at the cap" in ask(
            name, MANY
        ).to_text(details=True)
    session = sd.Session(MANY, **ROWS, entropy=sd.Seeded(7))
    capped = session.sum("v", lower=0, cap=10, epsilon=5)
    assert capped.capped
    assert "capped: the search for a clip ended at the cap; more may lie beyond." in str(capped)


def test_who_counts_once_is_said_so():
    """Twin: "A person with more than 1 group in all groups together counts as 1"."""
    asked = {"by": "what", "domain": ["tea"], "per_person": "sum", "weight_cap": 1}
    session = sd.Session(MANY, **PEOPLE, entropy=sd.Seeded(7))
    found = session.mean("v", lower=0, cap=1e6, epsilon=5, **asked)
    assert "Each person counts once in all groups together." in str(found)
    assert "Each person counts once" in found.to_text(details=True)
    assert "more than 1 " not in str(found) + found.to_text(details=True)


def test_few_numbers_speak_of_dates_and_of_frames():
    """Twin: of a frame without one date it was said to declare --decimal."""
    told = str(ask("mean", NOTHING))
    assert "numbers or dates are written in another way" in told
    assert "pd.to_datetime" in told
