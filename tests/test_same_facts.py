"""One release in every form: table, JSON, CSV, ledger, study, page, frame, notebook and picture tell whom it is about.

A form that forgets the filter shows some rows as if they were all; one that forgets what an interval is not about promises too much.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

import pandas as pd
import polars as pl
import pytest

import sordino as sd
from report.pages import assert_whole
from sordino.charts.figure import find_drawn_ends, read_figure
from sordino.cli import run
from sordino.population import Population
from sordino.report import make_report
from sordino.results import describe

WHERE = "TRY_CAST(age AS INTEGER) > 17"
FACTS = (
    "clipped_together",
    "unit",
    "adjacency",
    "max_rows",
    "where",
    "per_person",
    "weight_cap",
    "by",
    "groups_per_unit",
    "item",
    "column",
    "lower",
    "left_out",
)
FLAGS = ("true_low", "true_high", "too_few", "capped", "clip_low", "clip_high")
FIGURE = {"column": "x", "lower": 0, "cap": 100}
LISTED = ["corn", "rice", "tea"]
OF_CLIPS = frozenset(FLAGS)
TRUE = frozenset({"true_low", "true_high"})
SELECTED = TRUE | {"too_few"}


@dataclass(frozen=True)
class Kind:
    """A release: what is asked for, whether units count for some rows, and which doubts each row has."""

    method: str
    asked: dict
    max_rows: int | None = 2
    doubts: frozenset = frozenset()
    bounded: bool = True


def groups(**more):
    return FIGURE | {"by": "what", "domain": LISTED, "where": WHERE} | more


UNLISTED = {"unlisted": True, "delta": 1e-7}
KINDS = {
    "count": Kind("count", {"where": WHERE}, doubts=TRUE),
    "count of all": Kind("count", {}, max_rows=None, bounded=False),
    "units": Kind("count_distinct_units", {"where": WHERE}, bounded=False),
    "count within bounds": Kind("count", {"bounds": (0, 900), "where": WHERE}, doubts=TRUE),
    "histogram": Kind("histogram", {"item": "what", "domain": LISTED, "where": WHERE}, doubts=TRUE),
    "unlisted histogram": Kind("histogram", {"item": "what", "domain": UNLISTED}, doubts=TRUE),
    "table": Kind(
        "table",
        {"item": "what", "domain": LISTED, "where": WHERE},
        max_rows=None,
        bounded=False,
    ),
    "bins": Kind(
        "value_histogram",
        {"column": "x", "bins": (10.5, 20), "per_person": "sum", "where": WHERE},
        bounded=False,
    ),
    "top": Kind(
        "top_k", {"item": "what", "domain": LISTED, "k": 2, "where": WHERE}, doubts=SELECTED
    ),
    "top by gaps": Kind(
        "top_k", {"item": "what", "domain": LISTED, "k": 2, "method": "gaps"}, doubts=SELECTED
    ),
    "set": Kind("top_set", {"item": "what", "domain": LISTED, "k": 2}, doubts=SELECTED),
    "names": Kind("top_set", {"item": "what", "domain": LISTED, "k": 2, "selection_share": 1}),
    "unlisted top": Kind(
        "top_k", {"item": "what", "domain": UNLISTED, "k": 2, "where": WHERE}, doubts=SELECTED
    ),
    "above": Kind(
        "above",
        {"item": "what", "domain": LISTED, "threshold": 20, "positives": 1, "where": WHERE},
        doubts=TRUE,
    ),
    "quantile": Kind(
        "quantile", FIGURE | {"q": 0.5, "where": WHERE}, doubts=TRUE | {"too_few", "capped"}
    ),
    "ranks": Kind(
        "quantile", FIGURE | {"q": 0.5, "interval_share": None}, doubts=frozenset({"capped"})
    ),
    "quantiles": Kind("quantile", FIGURE | {"q": (0.2, 0.5)}, doubts=TRUE | {"too_few", "capped"}),
    "quantiles by": Kind("quantile", groups(q=(0.2, 0.5)), doubts=TRUE | {"too_few", "capped"}),
    "sum": Kind("sum", FIGURE | {"where": WHERE}, doubts=OF_CLIPS),
    "mean": Kind("mean", FIGURE | {"where": WHERE}, doubts=OF_CLIPS),
    "mean of all": Kind("mean", FIGURE, max_rows=None, bounded=False, doubts=OF_CLIPS),
    "variance": Kind("variance", FIGURE | {"where": WHERE}, doubts=OF_CLIPS),
    "sum within bounds": Kind(
        "sum",
        FIGURE | {"bounds": (0, 9000), "where": WHERE},
        doubts=frozenset({"clip_low", "clip_high"}),
    ),
    "sum by": Kind("sum", groups(), doubts=OF_CLIPS),
    "mean by": Kind("mean", groups(groups_per_unit=1), doubts=OF_CLIPS),
    "weighed mean": Kind(
        "mean", FIGURE | {"weight_cap": 2, "where": WHERE}, bounded=False, doubts=OF_CLIPS
    ),
    "weighed mean by": Kind("mean", groups(weight_cap=3), bounded=False, doubts=OF_CLIPS),
    "own clips": Kind("mean", groups(weight_cap=3, clip="each"), bounded=False, doubts=OF_CLIPS),
    "weighed sums by": Kind(
        "mean", groups(per_person="sum", weight_cap=2), bounded=False, doubts=OF_CLIPS
    ),
    "weighed variance": Kind(
        "variance", FIGURE | {"weight_cap": 2, "where": WHERE}, bounded=False, doubts=OF_CLIPS
    ),
    "weighed variance by": Kind("variance", groups(weight_cap=3), bounded=False, doubts=OF_CLIPS),
    "variance by": Kind("variance", groups(groups_per_unit=2), doubts=OF_CLIPS),
    "mean of sums": Kind(
        "mean", FIGURE | {"per_person": "sum", "where": WHERE}, bounded=False, doubts=OF_CLIPS
    ),
    "quantile of counts": Kind(
        "quantile",
        FIGURE | {"q": 0.5, "per_person": "count"},
        bounded=False,
        doubts=frozenset({"too_few", "capped"}),
    ),
    "weighed median": Kind(
        "quantile",
        FIGURE | {"q": 0.5, "weight_cap": 2, "where": WHERE},
        bounded=False,
        doubts=frozenset({"too_few", "capped"}),
    ),
    "weighed quantiles by": Kind(
        "quantile",
        groups(q=(0.2, 0.5), weight_cap=3),
        bounded=False,
        doubts=frozenset({"too_few", "capped"}),
    ),
    "sum of people by": Kind("sum", groups(per_person="sum"), bounded=False, doubts=OF_CLIPS),
    "largest sums": Kind(
        "top_sums",
        {"item": "what", "column": "x", "domain": LISTED, "k": 2, "cap": 100, "where": WHERE},
        bounded=False,
        doubts=OF_CLIPS,
    ),
    "most rows": Kind(
        "top_sums",
        {"item": "what", "domain": UNLISTED, "k": 3},
        max_rows=3,
        bounded=False,
        doubts=OF_CLIPS,
    ),
    "sum of largest by": Kind(
        "sum", groups(per_person="max", groups_per_unit=1), bounded=False, doubts=OF_CLIPS
    ),
    "unlisted sum": Kind(
        "sum", groups(domain=UNLISTED, groups_per_unit=1, most_groups=5), doubts=OF_CLIPS
    ),
}
VALUES = {
    "sum": "sum of x of each person",
    "count": "many rows with x each person has",
    "max": "largest x of each person",
}
"""What one number of each person is called in every form."""
COMMANDS = {
    "count_distinct_units": ("count", "--units"),
    "top_k": ("top",),
    "top_set": ("top", "--set"),
    "value_histogram": ("histogram",),
    "top_sums": ("top",),
}
FLAGS_OF_COMMANDS = {"bounds": "--bounded", "positives": "-c", "k": "-k", "by": "--by"}


@cache
def rows():
    """60 people with 1 to 5 rows each: the numbers are texts, and some are missing."""
    made = [
        (
            f"u{person}",
            LISTED[(person + place) % 3],
            "" if person % 9 == 0 else str(5 + person % 40),
            10 + person,
        )
        for person in range(60)
        for place in range(1 + person % 5)
    ]
    return pd.DataFrame(made, columns=["who", "what", "x", "age"])


@dataclass
class Shop:
    """A table, the account that pays, and how both are asked."""

    folder: object

    @property
    def table(self):
        return self.folder / "t.csv"

    def open(self, kind):
        unit = (
            sd.PrivacyUnit("who", max_rows=kind.max_rows) if kind.max_rows else sd.PrivacyUnit.row()
        )
        return sd.Session(self.table, unit=unit, ledger=self.ledger(kind))

    def account(self, kind):
        return "people" if kind.max_rows else "rows"

    def ledger(self, kind):
        return sd.Ledger.open(self.folder / "budget.db", account=self.account(kind))

    def release(self, kind, session=None):
        asked = dict(kind.asked)
        if isinstance(asked.get("domain"), dict):
            asked["domain"] = sd.Domain.unlisted(delta=1e-7)
        elif "domain" in asked:
            asked["domain"] = sd.Domain.from_file(self.folder / "items.csv")
        return getattr(session or self.open(kind), kind.method)(**asked, epsilon=5)

    def flags(self, kind):
        flags = []
        for name, value in kind.asked.items():
            flag = FLAGS_OF_COMMANDS.get(name, "--" + name.replace("_", "-"))
            if kind.method == "top_sums" and name == "column":
                continue
            if name == "domain":
                listed = ("--domain", self.folder / "items.csv")
                flags += ("--unlisted", "--delta", "1e-7") if isinstance(value, dict) else listed
            elif value is True:
                flags.append(flag)
            elif isinstance(value, tuple):
                flags += (
                    (flag, ",".join(map(str, value))) if name in {"q", "bins"} else (flag, *value)
                )
            else:
                flags += (flag, "none" if value is None else value)
        whom = ("--user", "who") if kind.max_rows else ("--row-is-unit",)
        # A command that makes one number of all rows of a unit takes no bound on them.
        if kind.method == "top_sums":
            column = kind.asked.get("column")
            flags += ("--rank-by", "rows" if column is None else f"sum({column})")
        # Nor do sums of listed labels. Of others it says for how many a person counts in the search.
        listed = kind.method == "top_sums" and not isinstance(kind.asked["domain"], dict)
        of_all = {"per_person", "weight_cap"} & {*kind.asked}
        if kind.max_rows and not of_all and not listed:
            whom += ("--max-rows", kind.max_rows)
        return (*COMMANDS.get(kind.method, (kind.method,)), *flags, *whom)

    def command(self, kind, capfd, *more):
        name, *flags = self.flags(kind)
        pays = ("--ledger", self.folder / "budget.db", "--account", self.account(kind))
        capfd.readouterr()
        code = run(
            [
                str(one)
                for one in (name, self.table, *flags, "--epsilon", 5, "--quiet", *pays, *more)
            ]
        )
        out, err = capfd.readouterr()
        assert code == 0, err
        return out

    def again(self, kind, capfd, key, form):
        pays = ("--ledger", self.folder / "budget.db", "--account", self.account(kind))
        capfd.readouterr()
        assert run([str(one) for one in ("ledger", "release", key, *pays, "--format", form)]) == 0
        return capfd.readouterr()[0]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    rows().to_csv(folder / "t.csv", index=False)
    (folder / "items.csv").write_text("what\n" + "\n".join(LISTED) + "\n", encoding="utf-8")
    budget = sd.Budget(epsilon=1e6, delta=1e-3, failures=5e-4)
    for name, unit in (("people", "who"), ("rows", sd.PrivacyUnit.row())):
        sd.Ledger.create(
            folder / "budget.db",
            account=name,
            budget=budget,
            adjacency="add-remove",
            unit=unit,
            source=folder / "t.csv",
        )
    return Shop(folder)


def expected(kind):
    """What every form must tell of whom the figures are."""
    asked = kind.asked
    said = {"max_rows": kind.max_rows, "unit": "column who" if kind.max_rows else "each row"}
    names = ("where", "by", "column", "item", "per_person", "weight_cap")
    said |= {name: asked[name] for name in names if name in asked}
    if kind.method == "table":
        # It may have several, whose labels are lists.
        said["item"] = [asked["item"]]
    if kind.method == "top_sums":
        said |= {"per_person": "sum" if "column" in asked else "count", "clipped_together": True}
        if isinstance(asked["domain"], dict):
            said["groups_per_unit"] = kind.max_rows
    if "per_person" in said or "weight_cap" in said:
        said["max_rows"] = None
    clipped = kind.method != "quantile" and "by" in asked and asked.get("clip") != "each"
    if ("weight_cap" in asked or asked.get("per_person") == "sum") and clipped:
        said["clipped_together"] = True
    if asked.get("clip") == "each":
        said["own_clips"] = True
    if "by" in asked:
        said |= {"item": asked["by"], "groups_per_unit": asked.get("groups_per_unit")}
    return said


def assert_told(document, kind):
    assert {name: document[name] for name in expected(kind)} == expected(kind)
    assert "where" in kind.asked or "where" not in document
    assert any("quote out of place" in rule for rule in document["left_out"])
    if "item" in document:
        named = document["item"]
        named = named if isinstance(named, str) else " or ".join(named)
        assert any(f"whose {named}" in rule for rule in document["left_out"])
    if kind.method in {"sum", "mean", "variance"}:  # of numbers that are added up
        assert "rows without a number in x" in document["left_out"]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.sample(2)
def test_every_document_tells_the_same(shop, capfd, name):
    """JSON and CSV of the command, what the ledger prints again, and what a session has kept."""
    kind = KINDS[name]
    out = shop.command(kind, capfd, "--format", "json", "--keep")
    told = json.loads(out)
    assert_told(told, kind)
    for row in told["rows"]:
        assert kind.doubts <= set(row), name
    assert shop.again(kind, capfd, told["id"], "json") == out
    lines = list(csv.DictReader(io.StringIO(shop.again(kind, capfd, told["id"], "csv"))))
    assert len(lines) == len(told["rows"])
    for line in lines:
        for fact in (
            "unit",
            "max_rows",
            "where",
            "per_person",
            "weight_cap",
            "by",
            "groups_per_unit",
            "column",
        ):
            said = expected(kind).get(fact)
            assert line.get(fact, "") == ("" if said is None else str(said)), fact
        assert "quote out of place" in line["left_out"]
    kept = kept_of(shop, kind)
    assert_told(kept, kind)
    # Programs find the same names in what the command has printed and in what a session has kept.
    assert set(kept) ^ set(told) <= {"kept", "warning", "mechanism"}
    assert {fact: kept.get(fact) for fact in FACTS} == {fact: told.get(fact) for fact in FACTS}
    assert all(
        kept.get(fact) == told.get(fact) for fact in ("domain", "confidence", "release", "figure")
    )
    assert [list(row) for row in kept["rows"]][:1] == [list(row) for row in told["rows"]][:1]


def find_legend(text):
    """Return what stands below a table, whose cells are further apart than words."""
    return [
        line for line in text.splitlines() if "  " not in line and line.endswith((".", "details."))
    ]


def assert_short(lines, kind, frame):
    """Three lines at most hold what nobody may lose: what the interval is about, whom, the cost."""
    assert len(lines) <= 3, lines
    told, asked = " ".join(lines), kind.asked
    assert ("where" in asked) == (WHERE in told)
    assert kind.bounded == ("at most 2" in told)
    assert re.search("Spent: (what )?epsilon 5\\b", told)
    assert "Not counted: " in told
    assert "unreadable lines" in told
    if kind.max_rows:
        assert "rows without who" in told
    by = asked.get("by") or asked.get("item")
    assert by is None or f"by {by}" in told
    if "low" in frame and frame["low"].notna().any():
        assert "95%" in told
        counts = kind.method in {"count", "count_distinct_units", "histogram", "top_k", "above"}
        if counts and not kind.bounded and "bounds" not in asked:
            assert "the true number" in told
    # What an interval is not about.
    if frame.get("clip_high") is not None and "bounds" not in asked:
        assert re.search("capping (values|what each person has) to|counts for at most", told)
    if kind.bounded and "true_low" in frame and frame["low"].notna().any():
        assert re.search("counted so|of the rows that count|moved into|counts for at most", told)
        assert "true" in told
    if "bounds" in asked:
        assert re.search("moved into|if that lies in", told)
    if "weight_cap" in asked:
        assert f"counts as {asked['weight_cap']}." in told
        assert asked.get("q") is None or "with these weights" in told
    if "per_person" in asked:
        value = VALUES[asked["per_person"]]
        assert (value if "column" in asked else "how many rows each person has") in told
    if asked.get("domain") is UNLISTED and "threshold" not in asked:
        assert "missing one tells you nothing" in told
    assert "account " in told


def kept_of(shop, kind):
    """What a session keeps of a release."""
    session = shop.open(kind)
    made = shop.release(kind, session)
    session.keep(made)
    record = shop.ledger(kind).read_release(made.receipt.id)
    notes = " ".join(record.notes)
    assert ("where" in kind.asked) == (WHERE in notes)
    assert kind.bounded == ("may be higher" in notes or "may differ" in notes)
    return {**record.facts, "rows": list(record.rows)}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.sample(4)
def test_whoever_reads_is_told_the_same(shop, capfd, name):
    """The table of the command, the notebook, the frame, the picture and the page."""
    kind = KINDS[name]
    where, some = "where" in kind.asked, kind.bounded
    short = shop.command(kind, capfd, "--format", "table")
    table = shop.command(kind, capfd, "--format", "table", "--details")
    release = shop.release(kind)
    assert_short(find_legend(short), kind, release.to_pandas())
    assert_short(find_legend(str(release)), kind, release.to_pandas())
    # What is said of all that is known is said by the long form.
    for note in describe(release).notes:
        # Noise decides whether a share of numbers is low.
        assert re.split(r"[:\d]", note)[0] in table or note.startswith("WARNING")
        assert note in release.to_text(details=True)
    assert where == (WHERE in table)
    assert some == ("at most 2" in table)
    shown = release._repr_html_()
    for line in find_legend(str(release)):
        assert html.escape(line) in shown
    assert where == (WHERE.replace(">", "&gt;") in shown)
    assert some == ("at most 2" in shown)
    assert "quote out of place" in shown
    for frame in (
        release.to_pandas(),
        release.to_polars().to_pandas(),
        release.to_arrow().to_pandas(),
    ):
        assert kind.doubts <= set(frame.columns)
        assert ("where" in frame.columns, "max_rows" in frame.columns) == (where, some)
        assert not where or set(frame["where"]) == {WHERE}
        assert not some or set(frame["max_rows"]) == {2}
        facts = describe(release).facts
        for fact in ("numbers_share", "numbers_share_low", "numbers_share_high"):
            assert (fact in frame.columns) == (fact in facts)
    drawn = json.dumps(release.plot().to_dict())
    folded = drawn.replace('", "', " ")
    assert where == (WHERE in folded)
    assert some == ("at most 2" in folded)
    seen = assert_whole(make_report([release])).text
    if "per_person" in expected(kind):
        made = expected(kind)["per_person"]
        named = "how many rows each person has" if "column" not in kind.asked else VALUES[made]
        assert all(named in form for form in (table, shown, folded)), named
        ranked = "the most rows" if "column" not in kind.asked else "the largest sums of x"
        # A heading calls the sum of what each adds up to that of all.
        least = 1 if (kind.method, made) == ("sum", "sum") else 2
        assert seen.count(ranked if kind.method == "top_sums" else named) >= least
        assert set(release.to_pandas()["per_person"]) == {made}
        assert "Rows that count and held" not in table
    weight = kind.asked.get("weight_cap")
    together = "clipped_together" in expected(kind) and weight is None
    for form in (table, shown, folded, seen):
        assert together == bool(re.search(r"counts? for (at most|more than)", form))
        assert weight is None or re.search(rf"counts as (more than )?{weight}\b", form)
    each = kind.asked.get("clip") == "each"
    assert ("to ends of its own in each group" in seen) == each
    assert ("beyond the clip of each group" in table) == each
    if weight is not None:
        assert "true figure" not in seen
        assert "with these weights" in table
        assert "weigh" in seen[seen.index("Results1.") :]
        assert set(release.to_pandas()["weight_cap"]) == {weight}
    # On the first screen, and where the figure is shown.
    first = seen[: seen.index("Results1.")]
    assert (where, some) == (WHERE in first, "at most 2" in first)
    assert seen.count(WHERE) >= 3 * where
    assert not (some and "true figure with" in seen)


@pytest.mark.parametrize(
    "name", [name for name in KINDS if KINDS[name].bounded or "clip_low" in KINDS[name].doubts]
)
@pytest.mark.sample(4)
def test_no_whisker_is_drawn_around_what_the_interval_is_not_about(shop, name):
    """Of capped rows and moved numbers only what is known of the figure itself is drawn."""
    release = shop.release(KINDS[name])
    figure = read_figure(type(release).__name__, release.list_rows())
    for mark, row in zip(figure.marks, release.list_rows(), strict=True):
        # Its numbers were moved between ends of their own, or some rows count: nothing bounds it from above.
        assert mark.high is None
        true_low = row.get("true_low")
        known = true_low is not None and math.isfinite(true_low)
        assert mark.low == (true_low if known else None)
        assert "estimate" not in row or row["estimate"] is None or mark.value is not None


def test_a_study_tells_what_it_has_asked(shop):
    """Its files, its page and what the ledger keeps: of a count with a filter nobody takes it for that of all."""
    text = f"""
name = "shop"
[source]
path = "t.csv"
[unit]
column = "who"
max_rows = 2
[account]
ledger = "budget.db"
name = "people"
[budget]
epsilon = 30
[[release]]
kind = "count"
name = "adults"
where = "{WHERE}"
epsilon = 10
[[release]]
kind = "mean"
name = "means"
column = "x"
lower = 0
cap = 100
by = "what"
domain = {{file = "items.csv"}}
groups_per_unit = 1
where = "{WHERE}"
epsilon = 10
[[release]]
kind = "count_distinct_units"
name = "people"
epsilon = 10
"""
    (shop.folder / "study.toml").write_text(text, encoding="utf-8")
    done = sd.Study.load(shop.folder / "study.toml").run(output=shop.folder / "results")
    adults, means, people = json.loads((done.folder / "results.json").read_text(encoding="utf-8"))[
        "releases"
    ]
    assert_told(adults, KINDS["count"])
    assert_told(means, KINDS["mean by"])
    assert_told(people, Kind("count_distinct_units", {}, bounded=False))
    assert [one["rows"][0].get("count") for one in (adults, people)] == ["rows", "units"]
    for name, fact in (("adults", WHERE), ("means", WHERE)):
        [line, *_] = csv.DictReader(
            io.StringIO((done.folder / f"{name}.csv").read_text(encoding="utf-8"))
        )
        assert (line["where"], line["max_rows"]) == (fact, "2")
    page = assert_whole((done.folder / "report.html").read_text(encoding="utf-8")).text
    summary = page[: page.index("Results1.")]
    assert summary.count(WHERE) == 2
    assert "at most 2 rows of each person" in summary
    # Files that were written before releases said it themselves: what was asked says it.
    for one in (adults, means):
        for fact in ("where", "by", "groups_per_unit", "left_out", "column", "item", "figure"):
            one.pop(fact, None)
    old = assert_whole(make_report([adults, means])).text
    assert old[: old.index("Results1.")].count(WHERE) == 2
    assert "at most 2 rows of each person in each of at most 1 group" in old


def test_an_older_file_is_not_taken_for_one_of_all_rows():
    """It does not say whether a filter chose the rows: the page says that, and promises nothing of all."""
    row = {"estimate": 199.0, "low": 196.0, "high": 202.0, "true_low": 197.0, "true_high": None}
    kept = {
        "release": "Count",
        "max_rows": 1,
        "unit": "column who",
        "confidence": 0.95,
        "rows": [row],
    }
    page = assert_whole(make_report([kept])).text
    assert "does not say whether a filter chose the rows" in page
    assert "true figure with" not in page
    assert "at least 197 in all" in page
    total = {"release": "sum", "column": "x", "max_rows": 1, "left_out": [], "confidence": 0.95}
    ends = {
        "figure": "sum",
        "estimate": 50.0,
        "low": 40.0,
        "high": 60.0,
        "clip_low": 0.0,
        "clip_high": 9.0,
    }
    page = assert_whole(make_report([total | {"rows": [ends]}])).text
    assert "all numbers give" not in page
    assert "the figure of the rows that count" in page
    assert find_drawn_ends(ends) == (None, None)


@pytest.mark.parametrize("method", ["sum", "mean", "variance", "count", "histogram"])
@pytest.mark.sample(3)
def test_what_was_measured_again_tells_the_same(shop, capfd, method):
    """By the session that made it, and by the command from what the ledger has kept."""
    kind = KINDS[method]
    session = shop.open(kind)
    first = shop.release(kind, session)
    again = session.remeasure(first, epsilon=5)
    assert again.population == first.population
    doubts = kind.doubts - {"capped"}
    frame = again.to_pandas()
    assert doubts | {"where", "max_rows"} <= set(frame.columns)
    session.keep(first)
    pays = ("--ledger", shop.folder / "budget.db", "--account", "people", "--epsilon", 5, "--quiet")
    asked = ("remeasure", shop.table, "--release", first.receipt.id, *pays)
    capfd.readouterr()
    assert run([str(one) for one in (*asked, "--format", "json")]) == 0
    told = json.loads(capfd.readouterr()[0])
    assert_told(told, kind)
    assert all(doubts <= set(row) for row in told["rows"])
    assert run([str(one) for one in (*asked, "--format", "table")]) == 0
    assert WHERE in capfd.readouterr()[0]
    for one in (again, told):
        page = assert_whole(make_report([one])).text
        first_screen = page[: page.index("Results1.")]
        assert WHERE in first_screen
        assert "at most 2" in first_screen
        assert "measured again" in first_screen


@pytest.mark.parametrize("values", [[], [30.0], [30.0, 40.0], [None] * 3])
@pytest.mark.parametrize("epsilon", [0.5, 0.01])
@pytest.mark.parametrize("lower", [0, -5, None])
@pytest.mark.each_value
def test_too_few_is_told_of_every_figure(values, epsilon, lower):
    """An interval of a variance that leaves nothing out is that of whole steps: no float of its clip is as large."""
    frame = pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64), "g": ["a"] * len(values)})
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(5))
    groups = {"by": "g", "domain": ["a", "b"]}
    for more in ({}, groups):
        for method in ("variance", "mean"):
            found = getattr(session, method)("x", epsilon=epsilon, lower=lower, cap=1000, **more)
            flags = found.to_pandas()["too_few"].tolist()
            rows = [found] if not more else [row.release for row in found]
            for one, flag in zip(rows, flags, strict=True):
                width = one.clip[1] - one.clip[0]
                ends = (0.0, (width / 2) ** 2) if method == "variance" else one.clip
                nothing = one.low <= ends[0] + 1e-6 * width and one.high >= ends[1] * (1 - 1e-6)
                assert flag == one.too_few == nothing


def test_too_few_of_an_empty_column_is_yes():
    frame = pl.DataFrame({"x": pl.Series([], dtype=pl.Float64)})
    for seed in range(5):
        session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(seed))
        assert session.variance("x", epsilon=0.5, lower=0, cap=1000).too_few


@pytest.mark.parametrize("lower", [0, "none"])
def test_the_command_says_it_of_an_empty_column(tmp_path, capfd, lower):
    pl.DataFrame({"x": pl.Series([], dtype=pl.Float64)}).write_parquet(tmp_path / "none.parquet")
    asked = (
        "--column",
        "x",
        "--lower",
        lower,
        "--cap",
        1000,
        "--row-is-unit",
        "--epsilon",
        0.5,
        "--no-ledger",
    )
    line = ("variance", tmp_path / "none.parquet", *asked, "--quiet", "--format", "json")
    found = []
    for _ in range(5):
        capfd.readouterr()
        assert run([str(one) for one in line]) == 0
        found += json.loads(capfd.readouterr()[0])["rows"]
    # Once in a while noise looks like rows: never so often.
    assert sum(row["too_few"] for row in found) >= 3


def test_a_variance_of_many_is_told():
    frame = pl.DataFrame({"x": [float(i % 50) for i in range(5000)]})
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(5))
    for method in ("variance", "mean", "sum"):
        assert not getattr(session, method)("x", epsilon=5, lower=0, cap=1000).too_few
    assert not session.quantile("x", q=0.5, epsilon=5, lower=0, cap=1000).too_few
    assert (
        session.quantile("x", q=0.5, epsilon=5, lower=0, cap=1000, interval_share=None).too_few
        is None
    )


def test_the_best_of_a_histogram_hold_on_average(shop, capfd):
    """JSON, CSV, the ledger, the notebook and the page say so, as the table does; of what a threshold ended each holds."""
    kind = KINDS["top"]
    table = shop.command(kind, capfd, "--method", "histogram", "--format", "table")
    assert "on average at least 95% of the intervals hold" in table
    told = json.loads(shop.command(kind, capfd, "--method", "histogram", "--format", "json"))
    assert told["on_average"] is True
    [line, _] = csv.DictReader(
        io.StringIO(shop.command(kind, capfd, "--method", "histogram", "--format", "csv"))
    )
    assert line["on_average"] == "yes"
    session = shop.open(kind)
    asked = {"k": 2, "epsilon": 5, "domain": LISTED}
    found = session.top_k("what", **asked, method="histogram")
    assert found.on_average
    session.keep(found)
    assert shop.ledger(kind).read_release(found.receipt.id).facts["on_average"] is True
    assert "On average" in found._repr_html_()
    for one in (found, told, found.to_dict()):
        seen = assert_whole(make_report([one])).text
        assert "On average 95% of the intervals" in seen
        assert "the true number lies with a probability" not in seen
    for other in ({"method": "gaps"}, {"method": "histogram", "threshold": 10_000}):
        release = session.top_k("what", **asked, **other)
        assert not release.on_average
        assert "On average" not in release._repr_html_()


def test_a_charge_is_not_shown_with_the_epsilon_of_its_account(shop, capfd):
    """On an account with a delta the columns of a charge and those of the account had one name."""
    session = shop.open(KINDS["count"])
    session.count(epsilon=0.25, noise="laplace")
    account = ("--ledger", shop.folder / "budget.db", "--account", "people")
    for form in ("csv", "json"):
        capfd.readouterr()
        assert run([str(one) for one in ("ledger", "show", *account, "--format", form)]) == 0
        out = capfd.readouterr()[0]
        if form == "json":
            listed = json.loads(out)["rows"]
            assert (listed[-1]["epsilon"], json.loads(out)["epsilon"]) == (0.25, 1e6)
        else:
            head = out.splitlines()[0].split(",")
            assert len(head) == len(set(head))
            last = list(csv.DictReader(io.StringIO(out)))[-1]
            assert (float(last["epsilon"]), float(last["delta"])) == (0.25, 0)
            assert (float(last["account_epsilon"]), float(last["account_delta"])) == (1e6, 1e-3)


def test_a_filter_that_turns_lines_is_one_line(shop, capfd):
    """It is the owner's own text, and may hold anything."""
    where = "what = 'tea' OR\n what = '\x1b[31m\u202e'"
    kind = Kind("count", {"where": where})
    table = shop.command(kind, capfd, "--format", "table")
    assert "\x1b" not in table
    assert "\u202e" not in table
    assert (
        "Counts at most 2 rows of each person, only rows where what = 'tea' OR\\n what = " in table
    )
    release = shop.release(kind)
    assert "\x1b" not in release._repr_html_()
    assert_whole(make_report([release]))
    assert "\x1b" not in json.dumps(release.plot().to_dict())


def test_what_is_public_about_the_rows_is_all_that_is_told():
    """The same whatever the table holds: nothing in it follows from a row."""
    told = set()
    for number in (3, 300):
        frame = pl.DataFrame(
            {"who": [f"u{i}" for i in range(number)], "x": [float(i) for i in range(number)]}
        )
        session = sd.Session(
            frame, unit=sd.PrivacyUnit("who", max_rows=1), entropy=sd.Seeded(number)
        )
        told.add(session.sum("x", epsilon=1, lower=0, cap=9, where="x > 1").population)
    [one] = told
    assert isinstance(one, Population)
    assert one.to_dict()["where"] == "x > 1"


@pytest.mark.parametrize(("lower", "known"), [(0, True), (-10, False), (None, False)])
def test_rows_that_are_left_out_may_lie_below_0(shop, lower, known):
    """Of a sum in which numbers below 0 count, the rows of a unit that do not count may make it smaller."""
    kind = Kind("sum", FIGURE | {"lower": lower})
    session = shop.open(kind)
    release = shop.release(kind, session)
    assert math.isfinite(release.true_low) == known
    [again] = session.remeasure(release, epsilon=1)
    assert math.isfinite(again.true_low) == known


SHOP = pl.DataFrame(
    {
        "who": [f"u{i % 300}" for i in range(1200)],
        "what": [("tea", "rice", "salt")[i % 3] for i in range(1200)],
        "x": [float(i % 40) for i in range(1200)],
    }
)
X = {"column": "x", "lower": 0, "cap": 1000, "epsilon": 5}
LEGENDS = {
    "largest sums": (
        lambda s: s.top_sums("what", "x", k=1, epsilon=5, domain=LISTED, cap=1000),
        ("in all items together", "Values below 0 count as 0.", "if nothing lies below 0"),
    ),
    "mean of means": (lambda s: s.mean(**X, per_person="mean"), ("Mean of the mean of x",)),
    "sum of sums": (lambda s: s.sum(**X), ("of each person, added up",)),
    "weighed mean": (
        lambda s: s.mean(**X, weight_cap=9),
        ("the true figure with these weights is at least this, if nothing lies below 0",),
    ),
    "bounded sum": (
        lambda s: s.sum(**X, bounds=(0, 1000)),
        ("after capping what each person has to 0", "if that lies in 0", "beside their interval"),
    ),
    "filter": (
        lambda s: s.count_distinct_units(epsilon=5, where="what = 'tea'"),
        ("Counts people, only rows where what = 'tea'.",),
    ),
    "groups": (
        lambda s: s.sum(**X, by="what", domain=LISTED),
        ("nothing is promised of all at once", "cannot be told from 0"),
    ),
    "another look": (
        lambda s: s.remeasure(s.count_distinct_units(epsilon=5), epsilon=5),
        ("estimate: from all looks.", "All looks together: epsilon 10."),
    ),
    "selected": (
        lambda s: s.above(
            "what", threshold=10, positives=1, epsilon=9, domain=LISTED, adaptive=True
        ),
        ("too high, because it was selected",),
    ),
}


@pytest.mark.parametrize("name", LEGENDS)
def test_three_lines_say_under_which_condition_they_are_true(name):
    ask, words = LEGENDS[name]
    told = str(ask(sd.Session(SHOP, unit=sd.PrivacyUnit("who"), entropy=sd.Seeded(7))))
    assert all(word in told for word in words), told


def test_what_a_release_took_is_told_after_what_came_back(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    SHOP.write_csv("shop.csv")
    pl.DataFrame({"what": LISTED}).write_csv("list.csv")
    pays = ("--ledger", "l.db", "--account", "shop")
    about = ("--epsilon", "2", "--adjacency", "add-remove", "--unit", "who", "--source", "shop.csv")
    assert run(["ledger", "create", *pays, *about]) == 0
    capfd.readouterr()
    asked = ("--item", "what", "--threshold", "5", "-c", "3", "--max-rows", "3", "--epsilon", "1")
    whom = ("--user", "who", "--domain", "list.csv", "--adaptive", "--format", "table")
    assert run(["above", "shop.csv", *asked, *whom, *pays]) == 0
    told = re.search(r"\(([0-9.]+%) of account shop", capfd.readouterr().out)[1]
    assert run(["ledger", "show", *pays, "--format", "table"]) == 0
    assert f" {told} " in capfd.readouterr().out


def test_what_is_taken_from_a_pickle_says_whom_it_is_about(tmp_path):
    """Also where nothing but the release was loaded."""
    session = sd.Session(SHOP, unit=sd.PrivacyUnit("who", max_rows=2), entropy=sd.Seeded(7))
    made = session.count(epsilon=5, where="what = 'tea'")
    (tmp_path / "made.pkl").write_bytes(pickle.dumps(made))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')))"
    line = [sys.executable, "-c", code, str(tmp_path / "made.pkl")]
    told = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert told == f"{made}\n"
    assert "only rows where what = 'tea'" in told
    assert "at most 2 rows of each person" in told
