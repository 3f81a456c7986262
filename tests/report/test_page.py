"""A report shows what was released and nothing else, whatever labels hold, and anybody can read it."""

from __future__ import annotations

import doctest
import html
import json
import math
import re
from importlib import import_module

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import sordino as sd
from report.pages import ASK, ROWS, WILD, account, assert_whole, document, released
from sordino.cli.report import list_kept
from sordino.report import make_report
from sordino.report.markup import MOST_LETTERS
from sordino.report.page import cut_account
from sordino.report.read import read_releases
from sordino.report.words import list_drawn

SECONDS = re.compile(r"\d\d:\d\d:\d\d")


@pytest.mark.parametrize("kind", ASK)
@pytest.mark.sample(2)
def test_every_kind_of_release_has_a_page(kind):
    release = released(kind)
    seen = assert_whole(make_report([release]))
    # What is not compared in a kept page has nothing in it that could show something else.
    assert cut_account(make_report([released(kind)], account=account())) is not None
    assert "Simulated" in seen.text
    rows = release.list_rows()
    # Every label and every figure is there as text, and not in the picture alone.
    for row in rows:
        assert (row.get("item") or "") in seen.text
    assert seen.elements.count("tr") == (len(rows) + 1 if rows else 0)
    assert "For auditors: " in seen.text


@pytest.mark.parametrize("kind", ASK)
@pytest.mark.sample(3)
def test_what_to_dict_says_makes_the_same_table(kind):
    release = released(kind)
    read = json.loads(json.dumps(release.to_dict()))
    tables = [
        re.findall(r"<tbody>.*?</tbody>", make_report([one]), re.DOTALL) for one in (release, read)
    ]
    assert tables[0] == tables[1]


def few_numbers(**asked):
    """A mean, by group unless said, of texts of which one in twenty is a number."""
    texts = ["12.5" if place % 20 == 0 else "1.234.567" for place in range(4000)]
    rows = pl.DataFrame({"x": texts, "g": ["ab"[place % 2] for place in range(4000)]}).to_pandas()
    session = sd.Session(rows, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(3))
    own = {"by": "g", "domain": ["a", "b", "c"], "epsilon": 5, "lower": 0, "cap": 1000} | asked
    return session.mean("x", **own)


def test_how_many_rows_held_a_number_stands_in_every_form():
    """Twin: the command said it, and frame, notebook and page did not."""
    release = few_numbers(by=None, domain=None)
    share = release.numbers_share
    assert share.is_low
    for frame in (release.to_polars(), pl.from_pandas(release.to_pandas())):
        assert frame["numbers_share"].to_list() == [pytest.approx(share.estimate)]
        assert frame["numbers_share_high"].to_list() == [pytest.approx(share.high)]
    assert "Rows that count and held a number: about" in release._repr_html_()
    assert "WARNING: the figure may be about few of the rows" in release._repr_html_()
    seen = assert_whole(make_report([release]))
    assert re.search(r"About [0-9.]+% of the rows that count held a number", seen.text)
    assert "the figure may be about few of them" in seen.text
    assert "--type" not in seen.text


@pytest.mark.parametrize("form", ["release", "read"])
def test_what_too_few_numbers_say_is_no_figure_on_the_first_screen(form):
    """Twin: a mean of nothing stood there as sure, beside an interval of a hair's breadth."""
    release = few_numbers()
    given = release if form == "release" else json.loads(json.dumps(release.to_dict()))
    seen = assert_whole(make_report([given]))
    assert [row.release.too_few for row in release.rows] == [False, True, True]
    assert "b: too few numbers to tell; c: too few numbers to tell" in re.sub(
        r"\s+", " ", seen.text
    )
    drawn = [row["estimate"] for row in list_drawn(*read_releases([given]))]
    assert [number is None for number in drawn] == [False, True, True]


def test_what_a_session_has_kept_is_shown(tmp_path):
    ROWS.write_csv(tmp_path / "o.csv")
    budget = sd.Budget(epsilon=100.0)
    about = {"adjacency": "add-remove", "unit": "who", "source": str(tmp_path / "o.csv")}
    ledger = sd.Ledger.create(tmp_path / "b.db", account="a", budget=budget, **about)
    unit = sd.PrivacyUnit("who", max_rows=1)
    kinds = ("top", "names", "quantile", "grouped mean")
    written = sd.CsvFormat(types={"x": "double"})
    with sd.Session(str(tmp_path / "o.csv"), unit=unit, ledger=ledger, csv=written) as session:
        for kind in kinds:
            session.keep(ASK[kind](session))
    seen = assert_whole(make_report(list_kept(ledger), account=ledger.statement().to_dict()))
    assert seen.elements.count("article") == len(kinds)
    assert "Simulated" not in seen.text
    for name in ("HistogramTopK", "JointTopK", "QuantileInterval", "ClippedMean"):
        assert f"#proof-{name}" in seen.links
    assert "1 rows" not in seen.text
    assert "From all results of this page together: At epsilon 20, someone" in seen.text


def test_the_first_screen_is_plain():
    page = make_report([document(), document(id="1" * 32, epsilon=0.25, cost={})], title="Orders")
    seen = assert_whole(page)
    first = seen.text[: seen.text.index("Results")]
    assert "Random noise was added to every result, so that no person can be recognized" in first
    assert "tea: 200 (190 to 210); rice: 101 (91 to 111); others may belong among them" in first
    assert "probability of 95%" in first
    # The epsilons of both are added.
    assert "From all results of this page together: At epsilon 0.75, someone" in first
    assert not re.search(r"\b(?:mechanism|sensitivity|adjacency|neighbor|Laplace)\b", first)


def test_the_first_screen_says_what_is_nothing_but_noise():
    rows = document()["rows"]
    unsure = [{**row, "low": 0.0, "high": 5000.0, "tie": True} for row in rows]
    clipped = {
        "release": "sum",
        "column": "paid",
        "rows": [{"estimate": 70.0, "low": -70.0, "high": 220.0}],
    }
    clipped["rows"][0] |= {"clip_low": 0.0, "clip_high": 0.05}
    text = assert_whole(make_report([document(rows=unsure), clipped])).text
    first = text[: text.index("Results")]
    assert "; all may be ties; others may belong among them" in first
    assert "70 (\N{MINUS SIGN}70 to 220), after capping values to 0\N{EN DASH}0.05" in first
    # What is sure says nothing of the kind.
    sure = [{**row, "tie": False} for row in rows]
    text = assert_whole(make_report([document(rows=sure)])).text
    assert "ties" not in text[: text.index("Results")]
    assert "may belong" not in text


def test_a_fraction_is_not_rounded_down():
    third = document(epsilon=1 / 3, cost={"notion": "pure", "epsilon": 1 / 3, "exact": "1/3"})
    assert "At epsilon 0.3334, someone" in make_report([third])


def test_a_filter_stands_there_as_long_as_it_was_written():
    """Cut, nobody could tell whom a figure is about."""
    where = " OR ".join(f"city = 'a town called {place}'" for place in range(60))
    assert len(where) > 1500
    visits = pl.DataFrame({"city": ["a town called 3"] * 40})
    session = sd.Session(visits, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    page = html.unescape(sd.report.make_report([session.count(epsilon=1, where=where)]))
    assert page.count(where) >= 2


def test_epsilons_are_added_only_where_that_says_something():
    other = {"id": "1" * 32}
    for changed in (
        {"unit": "column person"},
        {"delta": 1e-6},
        {"epsilon": None, "delta": None, "rho": 0.01, "cost": {}},
        {"adjacency": "replace-one"},
        {"simulated": True},
    ):
        assert "page together" not in make_report([document(), document(**other, **changed)]), (
            changed
        )
    assert "but for a chance of 1 in 500,000" in make_report([document(delta=1e-6)])
    assert "rho 0.01" in make_report([document(epsilon=None, delta=None, rho=0.01, cost={})])


def test_a_document_of_several_looks_tells_what_all_of_them_cost():
    assert "At epsilon 2, someone" in make_report([document(total_epsilon=2.0)])


def test_looks_without_an_epsilon_of_their_own_count_in_what_is_told():
    """The last look alone has epsilon 0.5; the figure is made of all of them."""
    known = make_report([document(total_epsilon=None, total_delta=None, total_rho=0.01)])
    assert "All of its looks spent rho 0.01" in known
    assert "At epsilon 0.5," not in known
    unknown = make_report([document(total_epsilon=None)])
    assert "is not known" in unknown
    assert "someone who thought" not in unknown
    failing = make_report([document(total_epsilon=2.0, total_delta=1e-6)])
    assert "At epsilon 2, someone" in failing
    assert "but for a chance of 1 in 500,000" in failing
    assert "page together" not in make_report(
        [document(total_epsilon=2.0, total_delta=1e-6), document(id="1" * 32)]
    )


def test_a_release_that_was_measured_again_tells_what_all_looks_cost():
    rows = pl.DataFrame({"u": range(90), "g": ["a", "b", "b"] * 30})
    session = sd.Session(rows, unit=sd.PrivacyUnit("u", max_rows=1), entropy=sd.Seeded(7))
    first = session.histogram("g", epsilon=5, domain=["a", "b"], noise="gaussian")
    again = session.remeasure(first, epsilon=0.5, noise="laplace")
    page = make_report([again])
    assert "All of its looks spent rho" in page
    assert "At epsilon 0.5," not in page
    # `to_dict` says of what the total is made, and not its rho.
    assert "is not known" in make_report([json.loads(json.dumps(again.to_dict()))])
    pure = session.remeasure(session.count_distinct_units(epsilon=1), epsilon=0.5)
    for one in (pure, json.loads(json.dumps(pure.to_dict()))):
        assert "At epsilon 1.5, someone" in make_report([one])


def test_what_is_given_twice_is_there_once():
    page = make_report([document(), document()])
    assert page.count("<article") == 1
    assert "At epsilon 0.5, someone" in page


def test_what_was_asked_is_told():
    seen = assert_whole(make_report([document(where="state = 'NY'", max_rows=3)]))
    assert "state = 'NY'" in seen.text
    assert "rows without a value in customer" in seen.text
    assert (
        "Hidden is whether all rows with the same value of customer are in the table at all."
        in seen.text
    )
    assert "Of each, at most 3 count." in seen.text
    assert "file products.csv" in seen.text
    assert "all 2 hold together with at least 90%" in seen.text
    assert "tie: it may be no larger than the next one" in seen.text


@pytest.mark.parametrize(
    ("groups", "where"), [(None, " in all groups together."), (2, " in each of at most 2 groups.")]
)
def test_of_groups_it_is_told_in_what_rows_are_bounded_and_why_all_cost_so_much(groups, where):
    rows = [{"item": "a", "estimate": 9.0, "low": 7.0, "high": 11.0}]
    seen = assert_whole(
        make_report([document("mean", max_rows=3, groups_per_unit=groups, rows=rows)])
    )
    assert "Of each, at most 3 count" + where in seen.text
    assert "Figures of all groups together cost what is told" in seen.text
    assert "docs/proofs/groups.md" in seen.text
    assert "Figures of all groups together" not in make_report(
        [document("mean", max_rows=3, rows=rows)]
    )


def test_a_paragraph_to_paste_says_of_whom_it_is():
    clipped = [{"estimate": 70.0, "low": 60.0, "high": 80.0, "clip_low": 0.0, "clip_high": 35.98}]
    about = {
        "column": "price",
        "where": "state = 'NY'",
        "max_rows": 3,
        "unit": "column customer_id",
    }
    page = make_report([document("sum", rows=clipped, **about)])
    found = re.search(r'<span class="paste">(.*?)</span></dd>', page)
    text = html.unescape(re.sub("<[^>]*>", "", found[1]))
    assert text.startswith(
        "Random noise was added to the figures, by differential privacy with epsilon 0.5. Random "
        "noise hides whether any one person is in the table. Of each person at most 3 "
        "rows count. Only rows where state = 'NY' count. Not counted: rows without "
        "customer. Values were capped to 0\N{EN DASH}35.98. The interval contains with a probability of 95%"
    )
    # What is simulated protects nobody, and an older file does not say which rows count.
    assert "To paste" not in make_report([document("sum", rows=clipped, simulated=True)])
    assert "To paste" not in make_report([{"release": "sum", "rows": clipped}])


def test_axes_are_called_after_what_they_count_and_mechanisms_are_for_auditors():
    rows = [{"item": "a", "estimate": 9.0, "low": 7.0, "high": 11.0}]
    unit = {"unit": "column customer_id", "called": "customer"}
    for kind, name in (("histogram", "customers"), ("mean", "mean of price")):
        page = make_report([document(kind, rows=rows, column="price", **unit)])
        assert f">{name}</text>" in page
        results, auditors = page.split("For auditors</h2>")
        assert "LaplaceMechanism" in auditors
        assert "Mechanism" not in re.sub('(href|id)="[^"]*"', "", results)
    said = assert_whole(make_report([document(**unit)])).text
    assert "The 2 values of product of the most customers, the most common first." in said


@pytest.mark.parametrize("limited", [0, 1])
def test_a_quantile_that_its_grid_limits_says_so_on_the_page(limited):
    rows = [
        {"q": 0.5, "estimate": 9.0, "rank_error_low": -3.2, "rank_error_high": 7.9, "capped": False}
    ]
    told = {"column": "x", "rows": rows, "records": 10**7, "limited_by_grid": limited}
    seen = assert_whole(make_report([document("quantile", **told)]))
    assert ("as exact as a grid of values allows" in seen.text) == bool(limited)


@pytest.mark.parametrize("about", [{}, {"where": "x > 3"}, {"max_rows": 2}])
def test_a_quantile_without_an_interval_tells_how_far_its_rank_may_lie(about):
    rows = [
        {"q": 0.5, "estimate": 9.0, "rank_error_low": -3.2, "rank_error_high": 7.9, "capped": False}
    ]
    seen = assert_whole(make_report([document("quantile", column="x", rows=rows, **about)]))
    # Rows without a number have no rank, nor those that a filter or a bound leaves out.
    assert (
        "Its rank among the rows that count is wrong by no more than the table says, with a probability of "
        "95%." in seen.text
    )
    # No line is drawn, so none is promised.
    assert "The dot is the released number. The table" in seen.text
    assert "within the line" not in seen.text
    other = document("count", rows=[{"count": "rows", "estimate": 9.0, "low": 7.0, "high": 11.0}])
    assert "within the line" in make_report([other])
    assert "\N{MINUS SIGN}3.2" in seen.text
    assert "7.9" in seen.text


@pytest.mark.parametrize("kind", ["quantile", "count", "mean"])
def test_of_an_older_file_no_line_is_drawn_around_what_its_interval_is_not_about(kind):
    """It says how much of each unit counts, and not what is known of all rows."""
    row = {"q": 0.5} if kind == "quantile" else {}
    row |= {"estimate": 9.0, "low": 7.0, "high": 11.0}
    seen = assert_whole(
        make_report([document(kind, column="x", max_rows=2, left_out=[], rows=[row])])
    )
    assert "where the true number lies" not in seen.text
    assert "the true number lies with" not in seen.text
    assert "the true number of all rows is not known; the table has the interval" in seen.text
    assert "7 to 11" in seen.text
    whole = make_report([document(kind, column="x", left_out=[], rows=[row])])
    assert "the true number lies with" in whole
    # Where it does not say which rows count, the line is about those that do.
    older = document(kind, column="x", rows=[row])
    older.pop("left_out")
    unknown = make_report([older])
    assert "where the true number lies" not in unknown
    assert "the true number lies with" not in unknown


def test_a_bounded_count_tells_what_is_true_of_all():
    row = {
        "item": "a",
        "estimate": 9.0,
        "low": 7.0,
        "high": 11.0,
        "true_low": 7.5,
        "true_high": None,
    }
    seen = assert_whole(make_report([document("histogram", max_rows=2, rows=[row])]))
    assert "true number at least" in seen.text
    assert "7.5" in seen.text
    assert "true counts may be higher" in seen.text
    whole = row | {"true_low": 7.0, "true_high": 11.0}
    assert "true number at least" not in make_report([document("histogram", rows=[whole])])
    # A number of units counts each of them, with however many of its rows.
    units = {
        "count": "units",
        "estimate": 9.0,
        "low": 7.0,
        "high": 11.0,
        "true_low": 7.0,
        "true_high": 11.0,
    }
    assert "true counts may be higher" not in make_report(
        [document("count", max_rows=2, rows=[units])]
    )


def test_ends_are_told_as_they_are():
    rows = [
        {"item": "a", "estimate": 9.0, "low": 7.0, "high": None},
        {"item": "b", "estimate": 5.0, "low": None, "high": None},
    ]
    seen = assert_whole(make_report([document("above", rows=rows, threshold=4)]))
    assert "at least 7" in seen.text
    assert "An arrow: nothing is known of that end." in seen.text
    assert "The dashed line is the threshold." in seen.text


def test_intervals_are_rounded_outward():
    rows = [{"figure": "mean", "estimate": 5.49259, "low": 0.78901, "high": 8.3223}]
    assert "5.5 (0.7 to 8.4)" in make_report([document("mean", column="x", rows=rows)])
    counts = [{"count": "units", "estimate": 3002.0, "low": 2987.0, "high": 3017.0}]
    assert "3,002 (2,987 to 3,017)" in make_report([document("count", rows=counts)])


def test_no_end_is_rounded_into_its_interval():
    row = {"figure": "mean", "estimate": 999.9973, "low": 999.997268, "high": 999.997484}
    row |= {"true_low": 999.9965071, "true_high": None}
    page = make_report([document("mean", column="x", rows=[row])])
    assert "999.99726 to 999.99749" in page
    assert "999.9965</td>" in page


def test_what_intervals_are_worth_is_rounded_down():
    rows = [{"count": "units", "estimate": 3002.0, "low": 2987.0, "high": 3017.0}]
    page = make_report([document("count", rows=rows, confidence=0.949999)])
    assert "94.99%" in page
    assert "95%" not in page


# ---- what somebody else has written ------------------------------------------------------------------------


def test_labels_are_text_whatever_they_hold():
    row = {"rank": 1, "item": WILD, "estimate": 3.0, "low": 1.0, "high": 5.0}
    wild = document(
        rows=[row],
        item=WILD,
        domain=WILD,
        where=WILD,
        unit=f"column {WILD}",
        left_out=[WILD],
        account=WILD,
        id=WILD,
        time=WILD,
        warning=WILD,
        mechanisms=[WILD, "NoisyTopK"],
    )
    told = account(
        account=WILD, unit=WILD, adjacency=WILD, head=WILD, measure=WILD, shares={WILD: 0.1}
    )
    told["charges"][0] |= {"label": WILD, "time": WILD}
    statement = {
        "record": {"deployment": {WILD: {WILD: [WILD, {WILD: WILD}]}}},
        "promise": {},
        "digest": WILD,
    }
    page = make_report(
        [wild], account=told, title=WILD[:200], about=WILD[:9000], statement=statement
    )
    seen = assert_whole(page)
    assert "<script" not in page
    assert "alert(1)" in seen.text
    # Neither control characters, nor signs that turn what follows.
    assert not [c for c in page if not c.isprintable() and c != "\n"]
    assert r"\u202e" in seen.text
    assert len(page) < 400_000, "a long label is cut"


@pytest.mark.parametrize("kind", [WILD, "top", "set", "select", "mean", "histogram"])
def test_any_kind_of_release_is_text(kind):
    assert_whole(
        make_report(
            [
                document(
                    kind,
                    column=WILD,
                    candidates=WILD,
                    threshold=WILD,
                    lower=WILD,
                    bounds=[WILD, {}],
                )
            ]
        )
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        math.nan,
        math.inf,
        -math.inf,
        10**400,
        1e308,
        -1e308,
        5e-324,
        "7",
        [],
        {},
        [[1]],
        "\ud800",
    ],
)
@pytest.mark.parametrize(
    "name", ["estimate", "low", "high", "item", "q", "gap", "rank", "count", "figure"]
)
@pytest.mark.sample(5)
def test_any_value_in_a_row_has_a_page(name, value):
    rows = [
        {"item": "a", "estimate": 3.0, "low": 1.0, "high": 5.0, "q": 0.5} | {name: value},
        {"item": "b", "estimate": -1.0},
    ]
    for kind in ("top", "histogram", "quantile"):
        page = make_report([document(kind, rows=rows)])
        assert_whole(page)
        page.encode()


@pytest.mark.parametrize(
    "value", [None, True, "x", math.nan, 10**400, -1, 0, [], {}, "1/0", "1e999999999", "9" * 500]
)
@pytest.mark.parametrize(
    "name",
    [
        "epsilon",
        "delta",
        "rho",
        "confidence",
        "confidence_together",
        "max_rows",
        "unit",
        "item",
        "cost",
        "time",
        "left_out",
        "mechanisms",
    ],
)
@pytest.mark.sample(7)
def test_any_value_of_a_fact_has_a_page(name, value):
    assert_whole(make_report([document(**{name: value})], account=account(**{name: value})))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([WILD, 10**400, "2026-11-24"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    facts=st.dictionaries(st.sampled_from(sorted(document())), VALUES, max_size=4),
    row=st.dictionaries(
        st.sampled_from(sorted([*document()["rows"][0], "q", "count"])), VALUES, max_size=4
    ),
    told=st.dictionaries(st.sampled_from(sorted(account())), VALUES, max_size=3),
    charge=st.dictionaries(st.sampled_from(sorted(account()["charges"][0])), VALUES, max_size=3),
    kind=st.sampled_from(
        ["top", "above", "histogram", "count", "quantile", "mean", "select", "TopK"]
    ),
)
def test_whatever_a_file_says_is_a_page_or_refused_in_words(facts, row, told, charge, kind):
    one = document(kind)
    one["rows"][0] |= row
    paid = account()
    paid["charges"][2] |= charge
    try:
        page = make_report([one | facts], account=paid | told)
    except sd.InvalidParameter:
        return
    assert_whole(page)
    page.encode()


def test_long_texts_are_cut_and_say_so():
    page = make_report([document(rows=[{"item": "y" * 10_000, "estimate": 1.0}])])
    assert "y" * MOST_LETTERS in page
    assert "y" * (MOST_LETTERS + 1) not in page
    assert "(10,000 characters)" in page


# ---- what does not belong into a page ----------------------------------------------------------------------


def test_of_an_account_days_are_told_and_neither_seconds_nor_the_source():
    told = account()
    told["charges"][1] |= {"state": "drawn", "settled": None}
    page = make_report([], account=told)
    seen = assert_whole(page)
    assert not SECONDS.search(seen.text)
    assert "11:22" not in page
    assert "secret" not in page
    # Whether an engine failed may depend on rows.
    assert not re.search(r"\b(?:drawn|settled|reserved|void)\b", seen.text)
    assert "2026-11-10" in seen.text
    assert "charge 2" in seen.text


def test_a_figure_made_of_releases_is_refused_in_words():
    session = sd.Session(ROWS, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(3))
    with pytest.raises(
        sd.InvalidParameter, match="must be a release; got 'DerivedValue', which was made of"
    ):
        make_report([session.count(epsilon=1) + 1])


def test_runs_of_one_study_are_told_apart():
    told = account()
    for number, charge in enumerate(told["charges"]):
        charge |= {
            "id": f"{number}" * 32,
            "label": "study c",
            "detail": {"study": {"name": "c", "run": f"day-{number}"}},
        }
    seen = assert_whole(make_report([], account=told))
    for number in range(len(told["charges"])):
        assert f"study c, run day-{number}" in seen.text
        assert f"{number}" * 8 in seen.text
    # Whoever may charge the account may have written something else there.
    for detail in (None, {"study": 3}, {"study": {"run": ["x"]}}, {"study": {"run": "<b>"}}):
        told["charges"][0]["detail"] = detail
        assert_whole(make_report([], account=told))


def test_an_account_says_how_long_it_lasts():
    seen = assert_whole(make_report([], account=account()))
    # .75 in twenty days, and 1.25 left.
    assert (
        "It lasts 33 more days, until about 2026-12-23: epsilon 0.75 went in 20 days." in seen.text
    )
    assert "has 62.5% of its budget left" in seen.text
    assert "epsilon 1.25" in seen.text
    assert "5 fit" in seen.text
    assert "37.5% of it" in seen.text
    assert "At epsilon 2, someone" in seen.text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"charges": [], "spent": 0.0, "remaining": 2.0}, "Nothing was charged to it yet."),
        ({"charges": []}, "Its charges are not listed here."),
        ({"remaining": 0.0}, "Nothing is left."),
        ({"successor": "next"}, "another account goes on for it"),
        ({"shares": {"team": 0.5}}, "team epsilon 0.5"),
        ({"limit": 0.0, "spent": 0.0, "remaining": 0.0}, "100% of it"),
        ({"delta": 1e-6}, "but for a chance of 1 in 500,000"),
    ],
)
def test_an_account_at_its_ends(changes, says):
    assert says in assert_whole(make_report([], account=account(**changes))).text


def test_an_account_of_divergences_tells_both_sums(tmp_path):
    ledger = sd.Ledger.create(
        tmp_path / "b.db",
        account="shop",
        budget=sd.Budget(epsilon=3.0, delta=1e-6),
        adjacency="add-remove",
        unit="customer",
        source="name:orders",
    )
    ledger.reserve(sd.cost.Pure(epsilon=0.25), label="top")
    seen = assert_whole(make_report([], account=ledger.statement().to_dict()))
    assert "Beside them it adds epsilons" in seen.text
    assert "divergence" in seen.text


def test_a_statement_is_told_field_by_field(tmp_path):
    ledger = sd.Ledger.create(
        tmp_path / "b.db",
        account="shop",
        budget=sd.Budget(epsilon=3.0),
        adjacency="add-remove",
        unit="customer",
        source="name:orders",
    )
    statement = ledger.publish(owner=sd.statements.Owner({"basic": {"name": "Best <sellers>"}}))
    for said in (statement, statement.to_dict()):
        seen = assert_whole(make_report([document()], statement=said))
        assert "Best <sellers>" in seen.text
        assert "(the owner must add this)" in seen.text
        assert statement.digest in seen.text
        assert "Pure DP" in seen.text


# ---- proofs ------------------------------------------------------------------------------------------------


def test_each_figure_leads_to_what_is_proved():
    seen = assert_whole(make_report([document()]))
    assert "#proof-NoisyTopK" in seen.links
    assert (
        "The ordered indices, the inner gaps and the margin together are epsilon-differentially private."
        in seen.text
    )
    assert "docs/proofs/noisy-top-k.md" in seen.text
    assert "ding2022, Thm 3" in seen.text
    assert (
        assert_whole(make_report([document(mechanisms=["Unheard"])])).text.count("For auditors: ")
        == 0
    )


@pytest.mark.parametrize(
    ("changes", "page"),
    [
        ({}, "selected-rows.md"),
        ({"method": "histogram"}, "histogram-top-k.md"),
        ({"release": "histogram"}, "intervals.md"),
        ({"release": "count"}, "intervals.md"),
    ],
)
def test_so_is_what_proves_the_intervals(changes, page):
    seen = assert_whole(make_report([document(**changes)]))
    assert "#proof-Intervals" in seen.links
    assert f"docs/proofs/{page}, signed for code" in seen.text
    # Without intervals nothing is said of them.
    bare = [{"rank": 1, "item": "tea", "estimate": None, "gap": 7.0}]
    seen = assert_whole(make_report([document(**changes | {"rows": bare})]))
    assert "#proof-Intervals" not in seen.links
    assert "Each dot says how far one leads over the next." in seen.text or "release" in changes


def test_proofs_are_linked_where_the_documentation_is():
    seen = assert_whole(make_report([document()], docs="https://docs.example.org/sordino/"))
    assert "https://docs.example.org/sordino/proofs/noisy-top-k.html" in seen.links
    assert (
        "docs/proofs/noisy-top-k.html" in assert_whole(make_report([document()], docs="docs")).links
    )


@pytest.mark.parametrize(
    "place",
    ["javascript:alert(1)", "//evil", "data:text/html,x", 'https://a"onclick="', "", 7, "file:x"],
)
def test_no_other_place_is_linked(place):
    with pytest.raises(sd.InvalidParameter, match="place of the documentation"):
        make_report([document()], docs=place)


def test_what_is_said_of_claims_is_what_they_say():
    from sordino.claims import claims
    from sordino.report.promise import find_theorems

    said = {(one.name, one.statement, one.references, one.proof) for one in claims()}
    names = sorted({name for name, *_ in said})
    told = {
        (one.mechanism, one.statement, one.references, one.page) for one in find_theorems(names)
    }
    assert told == said, "python docs/claims_table.py writes it anew"
    assert all(one.digest for one in find_theorems(names))


# ---- the page itself ---------------------------------------------------------------------------------------


def test_the_same_input_makes_the_same_page():
    made = [make_report([document(), released("histogram")], account=account()) for _ in range(2)]
    assert made[0] == made[1]


@pytest.mark.slow
def test_twenty_releases_are_a_small_page():
    rows = [
        {"item": f"label {n}", "estimate": 100.0 + n, "low": 90.0 + n, "high": 110.0 + n}
        for n in range(400)
    ]
    many = [document("histogram", id=f"{place:032x}", rows=rows) for place in range(20)]
    page = make_report(many, account=account())
    assert_whole(page)
    assert len(page.encode()) < 1_500_000
    assert "200 more rows are in the file of the release." in page
    assert "The first 30 of 400 are drawn." in page


def test_a_page_runs_nothing_by_its_own_policy():
    assert "default-src &#x27;none&#x27;; style-src &#x27;unsafe-inline&#x27;" in make_report(
        [document()]
    )


@pytest.mark.parametrize(
    ("releases", "options", "says"),
    [
        ([], {}, "at least one release"),
        ([7], {}, "Release 1 of a report must be a release"),
        ([document(), {"a": 1}], {}, "Release 2 of a report"),
        (document(), {}, "must be a list of releases"),
        ("text", {}, "must be a list of releases"),
        ([document(rows="no")], {}, "must have `rows`"),
        ([document(rows=[7])], {}, "must have `rows`"),
        ([{"type": "Histogram", "rows": [7]}], {}, "must have `rows`"),
        ([document(id=str(n)) for n in range(201)], {}, "at most 200 releases"),
        ([document()], {"account": 7}, "make_report.account"),
        ([document()], {"account": {"account": "a"}}, "number `limit`"),
        ([document()], {"account": account(charges=7)}, "list of charges"),
        ([document()], {"statement": 7}, "make_report.statement"),
        ([document()], {"statement": {"record": {}}}, "make_report.statement"),
        (
            [document()],
            {"title": "x" * 201},
            "title must be a text of at most 200 characters; got 201 characters",
        ),
        ([document()], {"title": 7}, "title must be a text"),
        ([document()], {"about": "x" * 20_001}, "about must be a text"),
    ],
)
@pytest.mark.sample(8)
def test_what_is_no_report_is_refused_in_words(releases, options, says):
    with pytest.raises(sd.InvalidParameter, match=re.escape(says)):
        make_report(releases, **options)


def test_several_quantiles_by_themselves_are_one_release():
    with pytest.raises(sd.InvalidParameter, match="Put a single one into a list"):
        make_report(released("quantiles"))


def test_without_the_extra_a_sentence_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(sd.UnsupportedBackend, match=r"pip install 'sordino\[report\]'"):
        make_report([document()])


@pytest.mark.parametrize(
    "module",
    ["charts.draw", "charts.figure", "charts.spec", "report.markup", "report.page"],
)
@pytest.mark.slow
def test_examples_run(module):
    tried = doctest.testmod(
        import_module(f"sordino.{module}"), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert tried.attempted
    assert not tried.failed


@pytest.mark.parametrize("kind", ["sum", "mean", "variance"])
@pytest.mark.parametrize("by", [None, "g"])
@pytest.mark.each_value
def test_an_interval_of_clipped_numbers_is_not_said_to_be_that_of_all(kind, by):
    """Of a heavy tail it never is: a reader must not take it for that."""
    values = np.floor(np.random.default_rng(0).pareto(1.3, 2000) * 1000)
    table = pl.DataFrame({"v": values, "g": ["a", "b"] * 1000})
    groups = {} if by is None else {"by": by, "domain": ["a", "b"]}
    session = sd.Session(table, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1))
    release = getattr(session, kind)("v", lower=0, cap=1e8, epsilon=1, **groups)
    # As a command writes it, which says how sure its intervals are.
    written = {
        "release": kind,
        "confidence": 0.95,
        "rows": json.loads(json.dumps(release.list_rows())),
    }
    for one in (release, written):
        seen = assert_whole(make_report([one]))
        # In the table: where numbers were moved to.
        assert "numbers above count as" in seen.text
        assert "The figure of the numbers as they are may lie outside" in seen.text
        for claim in ("contains the true figure", "contains its true figure"):
            assert claim not in seen.text
    assert "but where a result below says that numbers were capped" in seen.text


PEOPLE = {"unit": "column person", "max_rows": 1}
MEDIANS = [
    {"item": item, "q": 0.5, "estimate": 27_000.0, "low": 25_300.0, "high": 28_900.0}
    | {"true_low": None, "true_high": None}
    for item in ("North \N{MIDDLE DOT} below 18", "South")
]


def read_seen(**said):
    about = {"confidence": 0.95, "account": "shop", "column": "pay", "item": "region"} | PEOPLE
    page = make_report([document("quantile", **(about | said))])
    found = re.search(r'<span class="paste">(.*?)</span></dd>', page)
    return re.sub(r"\s+", " ", assert_whole(page).text), html.unescape(found[1])


def test_medians_are_called_so_and_no_label_runs_into_a_number():
    """Twin: "Quantiles" with "50% below 27,000", and "below 18 30 (11 to 49)"."""
    seen, _ = read_seen(rows=MEDIANS)
    assert "Median of pay by region" in seen
    assert "Below which number half of the values of pay lie." in seen
    assert "below 18: 27,000 (25,300 to 28,900); South: 27,000 (25,300 to 28,900)" in seen
    assert "nothing is known of how far" not in seen
    quartiles, _ = read_seen(rows=[row | {"q": 0.25} for row in MEDIANS])
    assert "Quantiles of pay by region" in quartiles
    assert "below 18: 25% below 27,000" in quartiles
    several, _ = read_seen(rows=[MEDIANS[0], MEDIANS[1] | {"q": 0.9}])
    assert "Quantiles of pay" in several


@pytest.mark.parametrize(
    ("said", "sentences"),
    [
        ({}, "is in the table. Each person is counted at most once."),
        ({"max_rows": 2}, "is in the table. Of each person at most 2 rows count."),
        ({"max_rows": None, "weight_cap": 1}, "Each person counts once."),
        (
            {"max_rows": None, "weight_cap": 2},
            "A person with more than 2 rows counts as 2.",
        ),
        ({"adjacency": "replace-one"}, "hides what any one person says, but not how many"),
    ],
    ids=str,
)
def test_the_paragraph_to_paste_speaks_of_people_and_of_no_column(said, sentences):
    """Twin: "Hidden is whether all rows with the same value of person are in the table at all"."""
    _, paste = read_seen(rows=MEDIANS, **said)
    assert sentences in paste
    assert "Random noise hides w" in paste
    assert "same value" not in paste
    assert "1 groups" not in paste


def test_a_series_says_how_many_up_to_its_last_day_and_what_its_stairs_hold():
    """Twin: the first screen said how many days there are, beside the words How many rows."""
    rows = [
        {"part": f"2026-11-0{day}", "total": 70.0 * day, "low": 60.0 * day, "high": 80.0 * day}
        for day in (1, 2, 3)
    ]
    lost = {"part": "2026-11-04", "total": None, "low": None, "high": None}
    running = [{**row, "at_least": 9.0} for row in [*rows, lost]]
    told = {"series": "sold", "figure": "count", "only_added": True, "confidence_together": None}
    text = assert_whole(make_report([document("count", rows=running, **told)])).text
    first = re.sub(r"\s+", " ", text[: text.index("Results")])
    assert "210 (180 to 240) up to 2026-11-03" in first
    assert "4 rows" not in first
    assert (
        "If no row is ever deleted or changed, at least so many that count are there as the stairs "
        "say, of all dates at once with a probability of 95%." in text
    )
    # Of a histogram each label has its total.
    labels = [{"item": "tea", **rows[2]}, {"item": "rice", **rows[0]}]
    text = assert_whole(make_report([document("histogram", rows=labels, series="sold")])).text
    assert "tea: 210 (180 to 240); rice: 70 (60 to 80)" in re.sub(r"\s+", " ", text)
