"""Figures of several columns in one command: one charge of the epsilon that was given, and one reading."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from pathlib import Path

import pytest

from sordino.ledger import Charge, Ledger
from sordino.mechanisms import UnlistedHistogram
from sordino.sources.shared import Readings

COLUMNS = ("--column", "price", "--column", "items", "--column", "weight")
KINDS = {
    "sum": ("sum",),
    "mean": ("mean",),
    "variance": ("variance",),
    "quantile": ("quantile", "--q", "0.5", "--q", "0.9"),
}
PARTS = ("--with", "count", "--with", "sum")
LISTED = ("--by", "shop", "--domain", "shops.csv", "--groups-per-unit", 1)
FOUND = ("--by", "shop", "--unlisted", "--delta", "1e-6", "--groups-per-unit", 1)
FOUND = (*FOUND, "--most-groups", 4)


@pytest.fixture
def table(tmp_path, monkeypatch):
    lines = ["who,shop,price,items,weight"]
    lines += [f"{i},{'xy'[i % 2]},{i % 9}.5,{i % 4},{i % 7}" for i in range(400)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "shops.csv").write_text("shop\nx\ny\nz\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "t.csv"


@pytest.fixture
def ask(sordino, table):
    """A figure of columns of the table, with changes."""

    def call(kind, *more, columns=COLUMNS, epsilon=1):
        types = [
            word for name in ("price", "items", "weight") for word in ("--type", f"{name}=double")
        ]
        whom = ("--user", "who", "--max-rows", 1, "--lower", 0, "--cap", 100)
        name, *own = KINDS[kind]
        paid = () if epsilon is None else ("--epsilon", epsilon)
        return sordino(name, table, *columns, *types, *whom, *own, *paid, *more)

    return call


@pytest.fixture
def account(sordino, table):
    """An account for the table; returns the options that charge it."""

    def create(*budget):
        payer = ("--ledger", "budget.db", "--account", "shop")
        about = ("--unit", "who", "--source", table)
        assert sordino("ledger", "create", *payer, *about, *budget).code == 0
        return payer

    return create


def charges():
    return Ledger.open("budget.db", account="shop").statement().charges


@pytest.mark.parametrize("groups", [(), LISTED])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(4)
def test_one_charge_is_the_epsilon_that_was_given(ask, account, kind, groups):
    payer = account("--epsilon", 3)
    done = ask(kind, *groups, *payer, "--format", "json")
    assert done.code == 0, done.err
    [line] = charges()
    # A third is no decimal number, and three of them are just the whole.
    assert (line.charged, line.label) == (1, f"{kind} + {kind} + {kind}")
    assert [one["column"] for one in done.json["releases"]] == ["price", "items", "weight"]
    assert {one["id"] for one in done.json["releases"]} == {done.json["id"]} == {line.id}
    assert (done.json["epsilon"], done.json["figures"], done.json["split"]) == (1, 3, "equal")


@pytest.mark.parametrize("groups", [(), LISTED])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(4)
def test_each_figure_is_that_of_a_command_with_its_part(ask, kind, groups):
    """The same mechanisms at the same cost, so the same law."""
    own = ("--no-ledger", "--format", "json", *groups)
    several = ask(kind, *own, epsilon="0.9").json["releases"]
    for name, one in zip(("price", "items", "weight"), several, strict=True):
        alone = ask(kind, *own, columns=("--column", name), epsilon="0.3").json
        # Exact numbers stand in it.
        for fact in ("cost", "mechanisms", "column", "left_out", "unit", "groups_per_unit"):
            assert alone.get(fact) == one.get(fact)
        assert one["rows"][0].keys() == alone["rows"][0].keys()


def test_the_table_is_read_once(ask, monkeypatch):
    opened = []
    close = Readings.close

    def note(readings):
        opened.append(readings.opened)
        close(readings)

    monkeypatch.setattr(Readings, "close", note)
    assert ask("mean", "--no-ledger").code == 0
    assert opened == [1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(2)
def test_groups_that_nobody_listed_are_looked_for_once(ask, account, kind, monkeypatch):
    searches = []
    release = UnlistedHistogram.release

    def note(mechanism, *given, **asked):
        searches.append(Fraction(mechanism.epsilon))
        return release(mechanism, *given, **asked)

    monkeypatch.setattr(UnlistedHistogram, "release", note)
    payer = account("--epsilon", 90, "--delta", "1e-5", "--failures", "3e-6")
    done = ask(kind, *FOUND, *payer, "--format", "json", epsilon=9)
    assert done.code == 0, done.err
    # A quarter of the whole.
    assert searches == [Fraction(9, 4)]
    releases = done.json["releases"]
    assert [sorted({row["item"] for row in one["rows"]}) for one in releases] == [["x", "y"]] * 3
    assert len({one["label_threshold"] for one in releases}) == 1
    [line] = charges()
    assert line.delta == Fraction(1, 10**6)
    assert sum(one.get("epsilon_asked", one["epsilon"]) for one in releases) == pytest.approx(9)


def test_a_plan_says_what_the_release_costs_and_charges_nothing(ask, account):
    payer = account("--epsilon", 3)
    planned = ask("mean", *payer, "--dry-run", "--format", "json").json
    assert (planned["epsilon"], planned["left"]["account"]) == (1, "shop")
    assert [row["figure"] for row in planned["rows"] if row["like"] == "flat"] == [
        "the mean of price",
        "the mean of items",
        "the mean of weight",
    ]
    assert charges() == ()
    assert ask("mean", *payer).code == 0
    assert charges()[0].charged == 1


def test_too_much_is_refused_alike_and_charges_nothing(ask, account):
    payer = account("--epsilon", 3)
    assert ask("mean", *payer, epsilon=2).code == 0
    refused = [ask("mean", *payer, *more, epsilon=2) for more in ((), ("--dry-run",))]
    assert [one.code for one in refused] == [3, 3]
    assert refused[0].err == refused[1].err
    assert "largest epsilon that fits is 1" in refused[0].err
    assert len(charges()) == 1


def test_a_goal_is_reached_by_each_figure(ask, account):
    payer = account("--epsilon", 9)
    goal = ("--goal", "±3", "--like", "normal:4,2", "--like-rows", 400)
    planned = ask("mean", *payer, *goal, "--dry-run", "--format", "json", epsilon=None).json
    done = ask("mean", *payer, *goal, "--format", "json", epsilon=None).json
    assert done["split"] == "goal"
    assert done["epsilon"] == pytest.approx(planned["epsilon"])
    parts = [one["epsilon"] for one in done["releases"]]
    assert sum(parts) == pytest.approx(done["epsilon"])


def test_a_run_is_paid_once_and_printed_alike(ask, account):
    payer = (*account("--epsilon", 3), "--run-id", "monday")
    for form in ("table", "json", "csv"):
        first, again = (ask("mean", *payer, "--format", form) for _ in range(2))
        assert (first.code, again.code) == (0, 0)
        assert first.out == again.out
    [line] = charges()
    assert (line.kept, line.charged) == (3, 1)
    other = ask("mean", *payer, columns=("--column", "items", "--column", "price"))
    assert (other.code, len(charges())) == (8, 1)


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_run_of_which_not_all_is_kept_is_lost_and_not_drawn_again(
    ask, account, monkeypatch, kept
):
    payer = (*account("--epsilon", 3), "--run-id", "monday")
    keep, times = Charge.keep, []

    def fail(charge, record):
        times.append(record)
        if len(times) > kept:
            raise OSError("No space left on device")
        keep(charge, record)

    with monkeypatch.context() as patch:
        patch.setattr(Charge, "keep", fail)
        done = ask("mean", *payer, "--format", "json")
    # It was written, and says that it is the only copy.
    assert done.code == 7
    assert [one["kept"] for one in done.json["releases"]] == [False] * 3
    # Those behind one that is not kept could not be found by their number.
    assert len(times) == kept + 1
    again = ask("mean", *payer)
    assert (again.code, again.out, len(charges())) == (8, "", 1)


def test_each_is_kept_under_a_number_and_says_what_the_charge_cost(sordino, ask, account):
    payer = account("--epsilon", 3)
    done = ask("mean", *payer, "--keep", "--format", "json").json
    for number, one in enumerate(done["releases"], 1):
        shown = sordino("ledger", "release", done["id"], "--part", number, *payer)
        assert shown.json == one
        assert (one["charge_epsilon"], one["charge_figures"]) == (1, 3)
    again = sordino(
        *("remeasure", "t.csv", "--release", done["id"], "--part", 2, "--epsilon", 1, *payer)
    )
    assert again.code == 0, again.err
    assert (again.json["column"], again.json["looks"]) == ("items", 2)
    assert "charge_epsilon" not in again.json


def test_a_page_shows_each_of_them_and_compares_it_with_the_ledger(sordino, ask, account):
    payer = account("--epsilon", 3)
    assert ask("mean", *payer, *PARTS, "--keep", "--output", "told.json").code == 0
    shown = sordino("report", "told.json", *payer)
    assert shown.code == 0, shown.err
    assert "could not be compared" not in shown.err
    assert shown.out.count("<article") == 3
    spoiled = Path("told.json").read_text("utf-8").replace('"charge_figures": 3', '"x": 3', 1)
    Path("told.json").write_text(spoiled, "utf-8")
    assert sordino("report", "told.json", *payer).code == 5


def test_lines_of_csv_say_their_column_and_the_charge(ask):
    done = ask("mean", "--no-ledger", *LISTED, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["column"], row["item"]) for row in rows] == [
        (column, shop) for column in ("price", "items", "weight") for shop in "xyz"
    ]
    assert {row["charge_epsilon"] for row in rows} == {"1"}
    assert {round(float(row["epsilon"]), 9) for row in rows} == {0.333333333}


def test_tables_say_once_what_all_of_them_cost(ask, account):
    payer = account("--epsilon", 3)
    short = ask("mean", *payer, "--format", "table").out
    tables = short.split("\n\n")
    assert [table.split("\n")[1].split()[0] for table in tables] == ["price", "items", "weight"]
    # The last line ends the last table.
    assert [len(table.strip().split("\n")) for table in tables] == [4, 4, 5]
    [line] = [line for line in short.split("\n") if line.startswith("Spent")]
    assert "epsilon 1 of 3 (33% of account shop), in equal parts for 3 figures." in line
    long = ask("mean", *payer, "--format", "table", "--details").out
    assert long.count("Of one charge with 3 figures, which spent epsilon 1.") == 3


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("--column", "price", "--column", "price"), "--column must be given each value once"),
        (("--column", "price", "--column", "none"), "column must be a column of the source"),
        (("--column", "price", "--column", "shop"), "column must have a type of numbers"),
    ],
)
def test_what_is_wrong_with_one_column_charges_nothing(ask, account, columns, said):
    payer = account("--epsilon", 3)
    for more in ((), ("--dry-run",)):
        done = ask("mean", *payer, "--strict-types", *more, columns=columns)
        assert (done.code, done.out) == (2, "")
        assert said in done.err
    assert charges() == ()


@pytest.mark.parametrize(
    "line",
    [
        ("randomize", "t.csv", "--lower", 0, "--upper", 9, "--row-is-unit"),
        ("histogram", "t.csv", "--bins", "1,2", "--row-is-unit"),
    ],
)
def test_commands_of_one_column_say_so(sordino, table, line):
    done = sordino(*line, *COLUMNS, "--epsilon", 1, "--no-ledger")
    assert (done.code, done.out) == (2, "")
    assert "--column must be given at most once; got it 3 times" in done.err


@pytest.mark.parametrize("groups", [(), LISTED, FOUND])
def test_a_mean_with_its_count_and_sum_costs_what_it_costs_without(ask, account, groups):
    payer = account("--epsilon", 20, "--delta", "1e-5", "--failures", "5e-6")
    one = ("--column", "price")
    with_parts, without = (
        ask("mean", *groups, *payer, *more, "--format", "json", columns=one, epsilon=5)
        for more in (PARTS, ())
    )
    assert (with_parts.code, without.code) == (0, 0), with_parts.err
    first, second = charges()
    assert (first.charged, first.delta) == (second.charged, second.delta)
    assert first.detail == second.detail
    for row in with_parts.json["rows"]:
        if not row["too_few"]:
            assert row["sum"] / row["count"] == pytest.approx(row["estimate"], rel=1e-6)
        # Nothing is counted below 0, and the noisy number may lie there.
        assert 0 <= row["count_low"] <= max(0, row["count"]) <= row["count_high"]
    assert {"count", "sum"}.isdisjoint(without.json["rows"][0])


def test_parts_of_means_stand_in_every_form(sordino, ask, account):
    payer = account("--epsilon", 3)
    done = ask("mean", *payer, *PARTS, "--keep", "--format", "json").json
    [*_, last] = done["releases"]
    shown = sordino("ledger", "release", done["id"], "--part", 3, *payer)
    assert shown.json == last
    table = ask("mean", *payer, *PARTS, "--format", "table").out
    assert table.count("count_low  count_high") == 3
    assert table.count("count and sum: of the same rows, after the same capping, each") == 3
    lines = ask("mean", "--no-ledger", *PARTS, "--format", "csv").out
    assert {"count", "sum_high"} <= set(lines.split("\n")[0].split(","))


def test_groups_of_which_none_is_found_have_no_parts_and_nothing_fails(ask, account):
    payer = account("--epsilon", 9, "--delta", "1e-5", "--failures", "5e-6")
    done = ask("mean", *FOUND, *payer, *PARTS, "--least", 100000, "--format", "json")
    assert done.code == 0, done.err
    assert [one["rows"] for one in done.json["releases"]] == [[], [], []]


def test_within_a_range_a_mean_has_no_totals_and_that_is_said_before_the_charge(ask, account):
    payer = account("--epsilon", 3)
    done = ask("mean", *payer, *PARTS, "--bounded", 0, 9)
    assert (done.code, done.out) == (2, "")
    assert "--with must not be given with --bounded" in done.err
    assert charges() == ()
    assert ask("sum", *payer, *PARTS).code == 2


MEDIAN = ("--with", "median", "--with", "count")


@pytest.mark.parametrize("groups", [(), FOUND])
def test_a_median_stands_beside_a_mean_for_an_equal_part_and_one_search(
    ask, account, groups, monkeypatch
):
    payer = account("--epsilon", 20, "--delta", "1e-5", "--failures", "5e-6")
    searches = []
    released = UnlistedHistogram.release
    monkeypatch.setattr(
        UnlistedHistogram,
        "release",
        lambda self, *given, **more: searches.append(self) or released(self, *given, **more),
    )
    done = ask("mean", *groups, *payer, *MEDIAN, "--format", "json", columns=COLUMNS[:2], epsilon=9)
    assert done.code == 0, done.err
    mean, median = done.json["releases"]
    assert (mean["release"], median["release"]) == ("mean", "quantile")
    assert {row["q"] for row in median["rows"]} == {0.5}
    assert all("count" in row and "sum" not in row for row in mean["rows"])
    assert len(searches) == bool(groups)
    assert [row.get("item") for row in mean["rows"]] == [row.get("item") for row in median["rows"]]
    [charge] = charges()
    assert charge.epsilon == 9
    assert mean["epsilon"] + median["epsilon"] == pytest.approx(9)
    assert groups or mean["epsilon"] == median["epsilon"]
    plan = ask("mean", *groups, *payer, *MEDIAN, "--dry-run", columns=COLUMNS[:2], epsilon=9).json
    assert (plan["plan"], plan["epsilon"]) == ("mean", 9)
    assert {row["figure"].split()[0] for row in plan["rows"]} >= {"the", "q"}
    assert len(charges()) == 1


def test_a_sum_with_its_count_and_mean_is_the_mean_with_its_parts(ask, account):
    payer = account("--epsilon", 20)
    one = ("--column", "price")
    of_sum = ask(
        "sum", *payer, "--with", "count", "--with", "mean", "--format", "json", columns=one
    )
    of_mean = ask("mean", *payer, *PARTS, "--format", "json", columns=one)
    first, second = (set(done.json["rows"][0]) for done in (of_sum, of_mean))
    assert first == second
    one, other = charges()
    assert (one.charged, one.detail) == (other.charged, other.detail)
    # A median alone leaves a sum a sum.
    beside = ask(
        "sum", *payer, "--with", "median", "--format", "json", columns=("--column", "price")
    )
    assert [part["release"] for part in beside.json["releases"]] == ["sum", "quantile"]
    refused = ask("sum", *payer, "--with", "median", "--bounded", 0, 9)
    assert (refused.code, refused.out) == (2, "")
    assert "--with must not be given with --bounded" in refused.err


def test_the_count_beside_a_mean_of_weighed_rows_says_that_it_has_weights(sordino, table):
    line = ("sum", table, "--column", "price", "--type", "price=double", "--lower", 0)
    whom = ("--user", "who", "--cap", 100, "--epsilon", 5, "--no-ledger")
    said = sordino(*line, *whom, "--with", "count", "--format", "table").out
    assert "count and sum: with these weights, after the same capping, each with 95%." in said
    assert "of the same rows" not in said
