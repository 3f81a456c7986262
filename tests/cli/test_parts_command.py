"""Commands about one day of a table: what is declared, read, charged, said, closed and printed again."""

from __future__ import annotations

import datetime as dt
from datetime import date, timedelta
from fractions import Fraction

import polars as pl
import pytest

import sordino as sd
from sordino.study import declaration

TODAY = date.today()  # noqa: DTZ011 - of the calendar of this machine, as the command has it
DAYS = [TODAY - timedelta(days=back) for back in range(5, 0, -1)]


@pytest.fixture
def shop(sordino, tmp_path, monkeypatch):
    """A table of five days with as many customers on each as its place says, and its account."""
    monkeypatch.chdir(tmp_path)
    rows = [
        (f"c{number}", dt.datetime(day.year, day.month, day.day, 12), "tea")  # noqa: DTZ001
        for place, day in enumerate(DAYS, 1)
        for number in range(200 * place)
    ]
    pl.DataFrame(rows, schema=["customer_id", "at", "product"], orient="row").write_parquet(
        "orders.parquet"
    )
    person = ("--person", "customer_id,day(at)")
    done = sordino("declare", "orders.parquet", *person, "--parts", "day", "--epsilon", 1)
    assert done.code == 0, done.err
    assert "It protects a customer on one day" in done.out
    assert "on 7 days by epsilon 7, on 30 days by epsilon 30" in done.out
    assert "every column is a fact of its own row" in done.out
    return tmp_path


def opened(account="orders"):
    return sd.Ledger.open("budget.db", account=account)


def count(sordino, *more, epsilon=1):
    return sordino("count", "orders", "--units", "--epsilon", epsilon, *more)


def test_each_day_is_read_and_charged_alone(sordino, shop):
    for place, day in enumerate(DAYS, 1):
        done = count(sordino, "--part", day.isoformat())
        assert abs(done.json["rows"][0]["estimate"] - 200 * place) < 30
        assert done.json["part"] == day.isoformat()
        assert done.json["where"] == f"day(at) = '{day.isoformat()}'"
    again = count(sordino, "--part", "today-1", epsilon=0.1)
    assert (again.code, again.out) == (3, ""), again.err
    assert f"for {DAYS[-1].isoformat()}" in again.err
    whole = count(sordino, epsilon=0.1)
    assert (whole.code, whole.out) == (3, "")
    assert count(sordino, "--part", "today").code == 0
    shown = sordino("ledger", "show", "orders", "--format", "table").out
    assert "all of the budget of its fullest day is spent" in shown
    assert "Each day has the whole budget for itself" in shown
    assert "6 on all 6 that were charged" in shown
    assert "on 30 days by epsilon 30" in shown


def test_a_run_of_today_is_tomorrow_another_one(sordino, shop, monkeypatch):
    asked = ("--part", "today-1", "--run-id", "night", "--keep")
    first = count(sordino, *asked, epsilon=0.25)
    assert count(sordino, *asked, epsilon=0.25).out == first.out

    class Tomorrow(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + timedelta(days=1)

    monkeypatch.setattr(declaration, "datetime", Tomorrow)
    later = count(sordino, *asked, epsilon=0.25)
    assert (later.code, later.out) == (8, "")
    assert "was paid for another request" in later.err


def test_what_is_no_day_is_refused_before_the_charge(sordino, shop):
    for part, word in {
        "2026-02-30": "is a day (2026-11-27)",
        "2026-11-05..2026-11-01": "goes backwards",
        "2000..2020": "at most 4,096",
        "tomorrow": "is a day (2026-11-27)",
        "today+1": "today or today-1",
        "2026-11-27T05": "is a day (2026-11-27)",
    }.items():
        done = count(sordino, "--part", part)
        assert (done.code, done.out) == (2, ""), part
        assert word in done.err, (part, done.err)
    assert opened().remaining == 1
    # A column that cannot tell the day, a unit without one, and parts of another length.
    for person, parts, word in (
        ("customer_id,day(product)", "day", "is a text here"),
        ("customer_id", "day", "must protect"),
        ("customer_id,day(at)", "month", "cut to the month"),
        ("customer_id,day(at at 'Europe/Zurich')", "day", "offset"),
        ("day(at)", "day", "day(at)"),
    ):
        more = ("--name", "other", "--epsilon", 1, "--parts", parts, "--second-budget")
        done = sordino("declare", "orders.parquet", "--person", person, *more)
        assert (done.code, done.out) == (2, ""), person
        assert word in done.err, (person, done.err)


def test_days_that_are_closed_are_left_out_of_everything(sordino, shop):
    until = DAYS[2].isoformat()
    told = sordino(
        "ledger", "close", "--ledger", "budget.db", "--account", "orders", "--until", until
    )
    assert told.json["rows"] == [{"account": "orders", "closed": until}]
    assert count(sordino, "--part", until).code == 5
    whole = count(sordino)
    assert abs(whole.json["rows"][0]["estimate"] - 200 * (4 + 5)) < 30
    assert any("which is closed" in rule for rule in whole.json["left_out"])
    assert opened().verify().sound


def test_an_account_without_parts_is_given_them(sordino, shop):
    account = ("--ledger", "budget.db", "--account", "plain")
    person = ("--person", "customer_id,day(at)", "--name", "plain", "--second-budget")
    made = sordino("declare", "orders.parquet", *person, "--epsilon", 1, "--max-rows", 4)
    assert made.code == 0, made.err
    asked = ("count", "plain", "--epsilon", 0.25)
    assert sordino(*asked).code == 0
    refused = sordino(*asked, "--part", DAYS[0].isoformat())
    assert refused.code == 2
    assert sordino("ledger", "add-parts", *account, "--parts", "month").code == 2
    done = sordino("ledger", "add-parts", *account, "--parts", "day")
    assert (done.code, done.out) == (0, ""), done.err
    assert "What it has spent counts in each of them." in done.err
    again = sordino("ledger", "add-parts", *account, "--parts", "day")
    assert (again.code, again.out) == (5, "")
    # Each day has three more of these, and the whole table as many as the fullest day.
    for day in DAYS[:2]:
        codes = [sordino(*asked, "--part", day.isoformat()).code for _ in range(4)]
        assert codes == [0, 0, 0, 3]
    assert sordino(*asked).code == 3
    verified = sordino("ledger", "verify", *account)
    assert verified.code == 0, verified.out


def test_a_study_of_a_day_is_another_run_each_day(sordino, shop):
    (shop / "study.toml").write_text(
        'name = "nightly"\ntable = "orders"\n[budget]\nepsilon = 0.5\n'
        '[[release]]\nname = "customers"\nkind = "count_distinct_units"\nshare = 1\n'
    )
    made = {}
    for day in DAYS[:2]:
        done = sordino("run", "study.toml", "--part", day.isoformat(), "--output", str(day))
        assert done.code == 0, done.err
        made[day] = done.json["run"]
    assert len(set(made.values())) == 2
    charged = [float(one.charged) for one in opened().statement().charges]
    assert [amount for amount in charged if amount] == [0.5, 0.5]
    # The second start of a night pays nothing.
    again = sordino("run", "study.toml", "--part", DAYS[0].isoformat(), "--output", "again")
    assert (again.code, again.json["paid"]) == (0, False)


def test_a_path_of_a_day_and_another_part_are_refused(sordino, shop):
    day = DAYS[-1].isoformat()
    (shop / "orders.parquet").rename(shop / f"orders-{day}.parquet")
    done = sordino(
        *("declare", "orders-{date}.parquet", "--date", day, "--person", "customer_id,day(at)"),
        *("--name", "dated", "--parts", "day", "--epsilon", 1),
    )
    assert done.code == 0, done.err
    asked = ("count", "dated", "--units", "--epsilon", 0.5, "--date", day)
    refused = sordino(*asked, "--part", DAYS[0].isoformat())
    assert (refused.code, refused.out) == (2, "")
    assert "must hold the day of the path" in refused.err
    for part in (day, day[:7], day[:4]):
        assert sordino(*asked[:-4], "--epsilon", 0.1, "--date", day, "--part", part).code == 0
    with pytest.raises(sd.errors.InvalidParameter, match="must hold the day"):
        sd.open("dated", date=day, part=DAYS[0].isoformat())


def test_a_person_with_a_comma_in_its_name_is_one_column(sordino, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"Last, First": ["a", "b", "a"], "x": [1, 2, 3]}).write_parquet("p.parquet")
    asked = ("count", "p.parquet", "--units", "--epsilon", 5, "--no-ledger")
    told = sordino(*asked, "--user", '"Last, First"')
    assert told.code == 0, told.err
    assert abs(told.json["rows"][0]["estimate"] - 2) < 6
    assert sordino(*asked, "--user", "Last, First").code == 2


def test_a_statement_says_whom_which_days_and_how_they_add_up(sordino, shop):
    day = DAYS[-1].isoformat()
    made = count(sordino, "--part", day, "--keep", epsilon=0.3)
    account = ("--ledger", "budget.db", "--account", "orders")
    for key in (made.json["id"], None):
        told = sordino("ledger", "publish", *account, *([key] if key else [])).out
        said = " ".join(told.split())
        assert "A person on one day: all rows that have the same values in" in said
        assert "by epsilon 2.1" in said if key else "by epsilon 7" in said
        assert "so each day has the whole budget" in said
        assert "every column is a fact of its own row" in said
        assert "persons: days: - 1 - 7 - 30" in said
        assert (f"part: '{day}'" in said) == bool(key)
    listed = sordino("ledger", "show", "orders", "--format", "json").json
    assert [row["parts"] for row in listed["rows"] if row["reserved"]] == [[day]]
    assert listed["parts"]["cut"] == "day"


def test_what_is_left_is_that_of_the_days_that_were_read(sordino, shop):
    assert count(sordino, "--part", DAYS[0].isoformat()).code == 0
    told = count(sordino, "--part", DAYS[1].isoformat(), "--format", "table", epsilon=0.1)
    assert "About 9 more like this one." in told.out
    (shop / "study.toml").write_text(
        'name = "one"\ntable = "orders"\n[budget]\nepsilon = 0.4\n'
        '[[release]]\nname = "customers"\nkind = "count_distinct_units"\nshare = 1\n'
    )
    asked = ("run", "study.toml", "--part", DAYS[1].isoformat(), "--dry-run")
    plan = sordino(*asked, "--format", "table").out
    assert "90% of its budget left, and 50% after this run" in plan
    assert "a fact about one day of somebody" in plan


def test_an_option_that_would_have_no_effect_is_refused(sordino, shop):
    answers = shop / "answers.csv"
    answers.write_text("name,answer\na,10\n")
    done = sordino(
        *("above", answers, "--stream", "--part", DAYS[0].isoformat(), "--threshold", 5, "-c", 1),
        *("--epsilon", 1, "--sensitivity", 1, "--no-ledger"),
    )
    assert done.code == 2


def test_an_account_for_a_file_of_texts_is_made_before_its_types_are_declared(sordino, shop):
    (shop / "o.csv").write_text("customer,seen\na,2026-03-01\nb,2026-03-02\n")
    made = sordino(
        *("ledger", "create", "--ledger", "csv.db", "--account", "o", "--epsilon", 1),
        *("--unit", "customer,day(seen)", "--parts", "day", "--source", "o.csv"),
    )
    assert made.code == 0, made.err
    done = sordino(
        *("count", "o.csv", "--units", "--user", "customer,day(seen)", "--type", "seen=date"),
        *("--epsilon", 1, "--ledger", "csv.db", "--account", "o", "--part", "2026-03-01"),
    )
    assert done.code == 0, done.err


def test_a_monitor_judges_a_day_to_come_and_no_share_of_a_series(sordino, shop):
    assert count(sordino, "--part", "today-1", epsilon=0.75).code == 0
    series = {"series": "visits", "definition": "0"}
    opened().grant("series-visits", Fraction(1, 4), made_for=series)
    share = opened("series-visits")
    share.reserve(sd.cost.Pure(epsilon=0.25))
    assert opened().statement().spent_share == 1
    for watched, spent in ((("orders",), 0.25), (("--ledger", "budget.db"), 0.25)):
        show = ("ledger", "show", *watched)
        assert sordino(*show, "--fail-below", "75%").code == 0
        assert sordino(*show, "--fail-below", "76%").code == 9
        metrics = sordino(*show, "--format", "prometheus").out
        assert "series-visits" not in metrics
        ratio = next(
            one for one in metrics.splitlines() if one.startswith("sordino_account_budget")
        )
        assert float(ratio.split()[-1]) == spent
        left = next(one for one in metrics.splitlines() if "releases_left{" in one)
        assert left.endswith(" 15")
    # Whoever names the share is told of it.
    named = ("--ledger", "budget.db", "--account", "series-visits", "--fail-below", "20%")
    assert sordino("ledger", "show", *named).code == 9
    listed = sordino("ledger", "accounts", "--ledger", "budget.db", "--format", "table").out
    assert "about 15 releases at 0.05 for each day to come" in listed
