"""A series of running figures: each period is asked once, whatever happens to its jobs, and no day pays more than its share."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections import defaultdict
from fractions import Fraction

import pytest

import sordino as sd
from ledger.fakes import in_child, in_threads
from ledger.faults import COMMITTED, Counter
from series.shop import (
    COUNT,
    ITEMS,
    LARGE,
    PRODUCTS,
    UNIT,
    Shop,
    charges_of,
    count_until,
    number,
    sums_of_parts,
    totals_of,
    write,
)
from sordino.errors import (
    BudgetExceeded,
    DataSourceError,
    InvalidParameter,
    LedgerConflict,
    RunTaken,
    UnknownDomain,
)
from sordino.ledger import Ledger, read_parts
from sordino.ledger.store import sqlite
from sordino.report import make_report
from sordino.series import Series
from sordino.series.noise import choose_noise
from sordino.study import declaration
from support.postgres import fresh

KILLED = -9
# With two days of grace the 31st, and with it January, is asked on the 3rd.
BEFORE, MONTH_END, LATER = "2026-02-02", "2026-02-03", "2026-02-05"
JANUARY = "2026-01-29..2026-01-31"


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def day(text):
    return dt.date.fromisoformat(text)


def texts(nodes):
    return [node.text for node in nodes]


def all_totals(series, state):
    """Return the total of every day that has one."""
    totals = totals_of(series, state)
    found = [totals.find_at(part) for part in range(series.first, state.until + 1)]
    return {one.part: one.total for [one] in filter(None, found)}


def test_running_totals_are_those_of_the_table(shop):
    everyone, tea = (lambda _: True, 2), (lambda row: row[2] == "tea", 2)
    one_each = (lambda _: True, 1)
    kinds = {
        "visits": (COUNT, everyone),
        "tea": (COUNT | {"where": "\"product = 'tea'\""}, tea),
        "people": (COUNT | {"release": '"count_distinct_units"'}, one_each),
    }
    items = COUNT | {"release": '"histogram"', "item": '"product"', "domain": ITEMS}
    shop.declare(items=items, **{name: said for name, (said, _) in kinds.items()})
    for name, (_, truth) in kinds.items():
        series = shop.open(name)
        series.start()
        state = series.catch_up(LATER)
        # The grace is two days: the 2nd has ended, and two more days.
        assert state.until == number("2026-02-02"), name
        assert (state.lost, state.open, state.due) == ((), {}, ()), name
        assert texts(state.kept)[2:5] == ["2026-01-31", JANUARY, "2026-02-01"]
        found = all_totals(series, state)
        assert list(found)[::4] == ["2026-01-29", "2026-02-02"]
        for text, total in found.items():
            assert total == count_until(shop.rows, day(text), *truth), (name, text)
        assert list(series.describe(state)[0]["rates"].values()) == [116, 84]
        most = truth[1]
        for node, rows in state.kept.items():
            [term] = rows[0].terms
            assert (term.law.rate, term.step) == (series.rates[node.level] / most, 1)
    series = shop.open("items")
    series.start()
    state = series.catch_up(LATER)
    totals = totals_of(series, state)
    found = {one.item: one.total for one in totals.find_at(state.until)}
    assert tuple(found) == PRODUCTS
    assert [one.item for one in totals.find_largest(state.until, 2)] == sorted(
        found, key=lambda item: (-found[item], item)
    )[:2]
    # Of each customer-day at most two items count, whichever.
    bought = defaultdict(set)
    for who, at, item in shop.rows:
        if who and at and at.date() <= day("2026-02-02"):
            bought[who, at.date()].add(item)
    assert sum(found.values()) == sum(min(2, len(items)) for items in bought.values())
    assert Ledger.open(shop.ledger, account="orders").verify().sound


def kills(folder, job):
    """Return the numbers of the boundaries at each commit of a job, before it and after it."""
    counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        counter.install(patch.setattr)
        job()
    sqlite.close_all()
    assert folder.is_dir()
    after = [place for place, name in enumerate(counter.seen) if name == COMMITTED]
    return [one for place in after for one in (place - 1, place)]


@pytest.mark.parametrize("late", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_job_that_was_killed_anywhere_asks_no_period_twice(tmp_path, late):
    """What is there afterwards gives what a run without kills gives of the same periods."""
    made = Shop(tmp_path / "made")
    made.started().catch_up(BEFORE)
    sqlite.close_all()

    def copy(name):
        shutil.copytree(made.folder, tmp_path / name)
        return tmp_path / name, Series("visits", tmp_path / name / "sordino.toml")

    folder, whole = copy("dry")
    points = kills(folder, lambda: whole.catch_up(MONTH_END))[int(late) :: 2]
    truth = all_totals(whole, whole.read(MONTH_END))
    # For the day and for the month: a charge, its draw, its end, and what is kept.
    assert len(points) == 8
    fates = []
    for point in points:
        folder, series = copy(str(point))

        def job(folder=folder, point=point):
            struck = Series("visits", folder / "sordino.toml")
            Counter(point).install()
            struck.catch_up(MONTH_END)

        assert in_child(job) == KILLED
        paid = charges_of(series)
        state = series.catch_up(MONTH_END)
        fates.append((texts(state.open), texts(state.lost)))
        # What was paid before is paid once, and all others are paid now.
        assert [text for text, _ in charges_of(series)][: len(paid)] == [text for text, _ in paid]
        assert len(charges_of(series)) == 4
        assert state.due == ()
        assert sum(sums_of_parts(series, range(20482, 20485))) == 600
        found = all_totals(series, state)
        assert found == {text: truth[text] for text in found}
        # January says it where the 31st is lost, and its days where January is.
        assert list(found) == list(truth), (point, state.lost)
        # Killed before anything was drawn: given up, it is asked again, and once.
        for node, key in state.open.items():
            assert "sordino ledger void-reservation" in " ".join(series.describe(state)[1])
            series.find_account().void(key, reason="killed")
            again = series.catch_up(MONTH_END)
            assert node in again.kept
            assert len(charges_of(series)) == 5
        if state.lost:
            assert "never asked again: " + state.lost[0].text in " ".join(series.describe(state)[1])
        assert sums_of_parts(series, range(20482, 20485)) == [LARGE] * 3
        assert series.find_account().verify().sound
    day_and_month = [([], []), (["2026-01-31"], []), ([], ["2026-01-31"]), ([], ["2026-01-31"])]
    more = [([], []), ([JANUARY], []), ([], [JANUARY]), ([], [JANUARY])]
    expected = [*day_and_month, *more, ([], [])]
    assert fates == (expected[1:] if late else expected[:-1])


def test_two_jobs_at_once_ask_each_period_once(shop, monkeypatch):
    shop.started()
    states = []
    in_threads([lambda: states.append(shop.open().catch_up(MONTH_END))] * 2)
    series = shop.open()
    state = series.read(MONTH_END)
    assert (len(state.kept), state.lost, state.open) == (4, (), {})
    assert sorted(text for text, _ in charges_of(series)) == sorted(texts(state.kept))
    assert all(len(one.kept) + len(one.open) == 4 for one in states)
    assert sums_of_parts(series, range(20482, 20485)) == [LARGE] * 3
    # Two who start one at once give it one share.
    shop.declare(visits=COUNT, other=COUNT)
    whole = Series.find_account

    def away(self):
        # Both look before one of them has it.
        monkeypatch.setattr(Series, "find_account", whole)
        assert shop.open("other").start().remaining == LARGE
        return

    monkeypatch.setattr(Series, "find_account", away)
    with pytest.raises(LedgerConflict, match="was started"):
        shop.open("other").start()
    assert shop.account.remaining == 1000 - 2 * LARGE
    assert shop.open("other").find_account().remaining == LARGE


def test_a_week_that_was_missed_and_a_night_that_runs_twice(shop):
    series = shop.started()
    seen = []
    nightly = [series.catch_up(f"2026-02-{night:02}", tell=seen.append) for night in (1, 1, 2, 8)]
    assert [len(one.kept) for one in nightly] == [1, 1, 2, 9]
    assert len(seen) == len(set(seen)) == 9
    # The figures of a day are the same on every later night.
    first = all_totals(series, nightly[1])
    last = all_totals(series, nightly[3])
    assert first.items() <= last.items()
    assert len(last) == 8
    # An earlier today asks nothing, and shows what there was.
    back = series.catch_up("2026-02-01")
    assert (len(back.kept), len(charges_of(series))) == (1, 9)
    # A table that is away is no release, and nothing is charged for it.
    (shop.folder / "orders.parquet").rename(shop.folder / "away")
    with pytest.raises(DataSourceError):
        shop.open().catch_up("2026-02-09")
    assert len(charges_of(series)) == 9
    (shop.folder / "away").rename(shop.folder / "orders.parquet")
    assert len(shop.open().catch_up("2026-02-09").kept) == 10


def test_a_row_after_the_grace_is_in_its_month_and_not_in_its_day(shop):
    series = shop.started(grace=0)
    series.catch_up("2026-01-31")
    late = ("late", dt.datetime.combine(day("2026-01-29"), dt.time(12)), "tea")
    write(shop.folder, [*shop.rows, late])
    state = shop.open().catch_up("2026-02-02")
    found = all_totals(series, state)
    assert found["2026-01-29"] == count_until(shop.rows, day("2026-01-29"))
    assert found["2026-01-30"] == count_until(shop.rows, day("2026-01-30"))
    assert found["2026-01-31"] == count_until(shop.rows, day("2026-01-31")) + 1
    assert found["2026-02-01"] == count_until(shop.rows, day("2026-02-01")) + 1


def test_every_day_pays_its_share_and_no_more(tmp_path):
    """Rates that are no whole billionths, of thirds and of long decimals, on each meter."""
    budgets = {
        "pure": sd.Budget(epsilon=1),
        "delta": sd.Budget(epsilon=1, delta=1e-6),
        "rho": sd.Budget(epsilon=1, delta=1e-6, meter="zcdp"),
        "failing": sd.Budget(epsilon=1, delta=1e-6, meter="zcdp", failures=1e-7),
    }
    for name, budget in budgets.items():
        shop = Shop(tmp_path / name, shop_rows(3), budget=budget)
        epsilon = 0.3333333333333333 if name == "pure" else 0.123456789
        series = shop.started(epsilon=epsilon, grace=0)
        share = series.find_account().remaining
        for night, done in (("2026-01-30", 1), ("2026-01-31", 2), ("2026-02-01", 4)):
            state = series.catch_up(night)
            assert (len(state.kept), state.due) == (done, ()), name
            sums = sums_of_parts(series, range(20482, 20485))
            assert max(sums) <= share, name
        # January was admitted: its days hold all that they were given, to the last billionth.
        assert sums == [share] * 3, name
        if name == "pure":
            assert share == Fraction(333_333_333, 10**9)
        assert shop.account.verify().sound
        assert series.find_account().verify().sound


def shop_rows(days):
    from series.shop import make_rows

    return make_rows(days, most=3)


def test_noise_of_an_account_that_left_epsilons_behind_is_that_of_the_share(tmp_path):
    """What the account above has taken on decides before the first night, and no share is judged by it afterwards."""
    shop = Shop(tmp_path, shop_rows(3), budget=sd.Budget(epsilon=1, delta=1e-6))
    shop.declare(visits=COUNT | {"epsilon": 0.3})
    source = str(tmp_path / "orders.parquet")
    with sd.Session(source, unit=UNIT, ledger=shop.account, name="orders") as session:
        session.count(epsilon=0.2, noise="gaussian")
    series = shop.open()
    series.start()
    assert len(series.catch_up(MONTH_END).kept) == 4
    laws = {law.name for _, law in list_laws(series.read(MONTH_END))}
    assert laws == {series.noise.noise}


ACCOUNTS = {
    "pure": sd.Budget(epsilon=9),
    "rho": sd.Budget(epsilon=9, delta=1e-6, meter="zcdp"),
    "delta": sd.Budget(epsilon=9, delta=1e-6),
}


def list_laws(state):
    """Return the law of each number of each period."""
    return [
        (node, term.law)
        for node, rows in state.kept.items()
        for row in rows.values()
        for term in row.terms
    ]


def test_noise_is_what_the_account_gets_more_from_and_costs_no_more(tmp_path):
    """Which it is follows from the account and the declaration, before the first night; a part loses what is said."""
    chosen = {}
    for name, budget in ACCOUNTS.items():
        shop = Shop(tmp_path / name, shop_rows(3), budget=budget)
        items = COUNT | {"release": '"histogram"', "item": '"product"', "domain": ITEMS}
        said = {"small": COUNT | {"epsilon": 0.2}, "large": COUNT | {"epsilon": 2}}
        said["items"] = items | {"epsilon": 0.2, "levels": '["day"]'}
        shop.declare(**said)
        for which, one in said.items():
            series = shop.open(which)
            before = shop.account.remaining
            series.start()
            taken = before - shop.account.remaining
            noise = chosen[name, which] = series.noise.noise
            # What the share would be with Laplace noise.
            shop.declare(**said | {"plain": one | {"noise": '"laplace"'}})
            plain = shop.open("plain")
            assert plain.find_account() is None
            made = plain._measure()
            epsilon = Fraction(str(one["epsilon"]))
            laplace = choose_noise(made, epsilon, plain.levels, "laplace")
            assert (laplace.noise, laplace.epsilon) == ("laplace", epsilon)
            most = Fraction(made.add_up(laplace).main, 10**9)
            assert taken <= most
            if noise == "gaussian" and name == "rho":
                assert taken > most * Fraction(98, 100)
            state = series.catch_up(MONTH_END)
            share = series.find_account().statement().limit
            assert max(sums_of_parts(series, range(20482, 20485))) <= share
            assert {law.name for _, law in list_laws(state)} == {noise}
            if noise == "laplace":
                assert "rho" not in series.describe(state)[0]
                continue
            # A person-day moves its day and its month by M: the joint law of both is that far away.
            moves = 2 if which == "items" else 4
            laws = {node.level: law for node, law in list_laws(state)}
            lost = float(sum(moves * law.rate for law in laws.values()))
            assert lost == pytest.approx(float(series.noise.rho), rel=1e-9)
            facts, notes = series.describe(state)
            assert facts["rho"] == pytest.approx(float(series.noise.rho))
            promised = sd.cost.ZCDP(rho=series.noise.rho).epsilon(Fraction(1, 10**6))
            # What was asked for is a price, and no epsilon that always holds.
            assert (facts["epsilon"], facts["epsilon_asked"]) == (None, float(epsilon))
            page = make_report([{**facts, "left_out": [], "rows": [{"estimate": 9.0}]}])
            told = re.findall(r"(?:At|with) epsilon ([0-9.]+)[, ]", page)
            assert len(told) > 1
            assert all(float(one) >= promised for one in told)
            assert f"on 1 day by epsilon {promised:.2g}"[:-1] in " ".join(notes)
            assert "(Gaussian noise)" in " ".join(notes)
            shop.declare(**said)
    assert [noise for (name, _), noise in chosen.items() if name == "pure"] == ["laplace"] * 3
    assert [noise for (name, _), noise in chosen.items() if name == "rho"] == ["gaussian"] * 3
    assert chosen["delta", "small"] == chosen["delta", "items"] == "gaussian"
    assert chosen["delta", "large"] == "laplace"


def test_gaussian_noise_of_a_series_is_worth_what_it_costs(tmp_path):
    """On an account that adds up divergences and epsilons its share of the first is no larger than that of the second."""
    shop = Shop(tmp_path, shop_rows(1), budget=ACCOUNTS["delta"])
    shop.declare(visits=COUNT)
    measured = shop.open()._measure()
    limits, seen = measured.price.limits, set()
    for epsilon in (
        Fraction(1, 100),
        Fraction(1, 10),
        Fraction(1, 2),
        Fraction(9, 10),
        Fraction(1),
    ):
        for levels in (("day",), ("day", "month"), ("day", "month", "year")):
            found = choose_noise(measured, epsilon, levels)
            laplace = choose_noise(measured, epsilon, levels, "laplace")
            if found.noise == "laplace":
                continue
            paid, other = measured.add_up(found), measured.add_up(laplace)
            assert paid.main <= other.main
            assert paid.main * limits.pure <= other.pure * limits.main
            assert other.main * 2 > paid.main
            seen.add(found.epsilon / epsilon)
    # Where Laplace noise is worth less than its divergences Gaussian noise has less of an epsilon.
    assert max(seen) == 1 > min(seen)


def test_a_series_never_changes_its_noise(tmp_path):
    shop = Shop(tmp_path, shop_rows(3), budget=ACCOUNTS["delta"])
    series = shop.started(epsilon=0.2)
    assert series.noise.noise == "gaussian"
    # Where nothing was asked yet another definition is refused, a smaller epsilon as well.
    for change in ({"epsilon": 0.1}, {"epsilon": 0.3}, {"noise": '"laplace"'}):
        shop.declare(visits=COUNT | {"epsilon": 0.2} | change)
        with pytest.raises(LedgerConflict, match="was declared otherwise"):
            shop.open().catch_up("2026-02-01")
    shop.declare(visits=COUNT | {"epsilon": 0.2})
    first = shop.open().catch_up("2026-02-01")
    # Whatever the account spends since.
    shop.account.reserve(sd.cost.Pure(epsilon=2))
    state = shop.open().catch_up(MONTH_END)
    laws = {law.name for _, law in list_laws(state)}
    assert (len(first.kept), len(state.kept), laws) == (1, 4, {"gaussian"})
    # One that was started before accounts kept it has Laplace noise, as it always had.
    shop = Shop(tmp_path / "rho", shop_rows(3), budget=ACCOUNTS["rho"])
    shop.declare(visits=COUNT | {"epsilon": 0.2})
    series = shop.open()
    laplace = choose_noise(series._measure(), series.declared.epsilon, series.levels, "laplace")
    shop.account.grant("series-visits", Fraction(series._measure().add_up(laplace).main, 10**9))
    assert {law.name for _, law in list_laws(series.catch_up(MONTH_END))} == {"laplace"}
    assert series.noise == laplace
    # An account of epsilons has no other.
    shop = Shop(tmp_path / "pure", shop_rows(3), budget=ACCOUNTS["pure"])
    shop.declare(visits=COUNT | {"epsilon": 0.2, "noise": '"gaussian"'})
    with pytest.raises(InvalidParameter, match="must be laplace on an account of epsilons"):
        shop.open().start()


def test_what_no_night_could_use_is_refused_before_anything_is_granted(shop):
    labels = {"release": '"histogram"', "item": '"product"', "domain": '["tea", "coffee"]'}
    both = {
        "release": '"histogram"',
        "item": '["product", "customer"]',
        "domain": '{product = ["tea"], customer = {unlisted = {delta = 1e-6}}}',
    }
    for said, word in (
        (labels | {"threshold": 30}, "threshold"),
        (both, "must list its labels"),
    ):
        shop.declare(visits=COUNT | said)
        with pytest.raises(InvalidParameter, match=word):
            shop.open()
    many = {"release": '"histogram"', "item": '"product"', "domain": "{range = [0, 2000000]}"}
    shop.declare(visits=COUNT | many)
    with pytest.raises(InvalidParameter, match="at most 1,048,576 labels"):
        shop.open().start()
    assert shop.account.remaining == shop.account.statement().limit


def test_days_to_come_are_asked_by_no_slip(shop):
    series = shop.started()
    with pytest.raises(InvalidParameter, match="must not be a day to come"):
        series.catch_up("2999-01-01")
    assert not series.find_account().statement().charges


def test_a_series_says_of_whom_its_figures_are(shop):
    labels = {"release": '"histogram"', "item": '"product"', "domain": '["tea", "coffee"]'}
    series = shop.started(**labels)
    facts, notes = series.describe(series.catch_up(MONTH_END))
    told = " ".join(notes)
    assert "labels count" in told or "1 label counts" in told
    assert "rows whose product is no label of the list" in facts["left_out"]
    assert "Not counted: " in told
    assert facts["item"] == "product"
    assert facts["where"] is None
    people = shop.declare(people=COUNT | {"release": '"count_distinct_units"', "epsilon": 0.1})
    assert people is None
    series = shop.open("people")
    series.start()
    assert "Whoever comes on two days counts twice." in series.describe(series.read(MONTH_END))[1]


def test_a_period_that_stays_open_is_given_up_for_lost_and_never_asked_again(tmp_path):
    for first, text in (("2026-01-29", "2026-01-31"), ("2026-01-31", "2026-01-31")):
        shop = Shop(tmp_path / first)
        series = shop.started(first=f'"{first}"')
        day_before = "2026-02-02"
        series.catch_up(day_before)
        # As a job leaves it that has failed after its charge; of the month that is one day long, too.
        many = 2 if first == text else 1
        for level in ("day", "month")[:many]:
            about = {"series": "visits", "level": level, "period": text}
            about["definition"] = series.declared.digest
            run = f"series/visits-{series.declared.digest}/{level}/{text}/1"
            cost = sd.cost.Pure(epsilon=series.rates[level])
            parts = read_parts(text, "day")
            series.find_account().for_run(run, about).reserve(cost, parts=parts)
        with pytest.raises(InvalidParameter, match="there are: 2026-01-31.*; got '2026-01-30'"):
            series.lose("2026-01-30", reason="an error")
        told = " ".join(series.describe(series.read(MONTH_END))[1])
        assert f"sordino series lose visits {text} --reason error" in told
        state = series.lose(text, reason="an error of the table")
        assert (texts(state.lost), state.open) == ([text] * many, {})
        assert series.describe(state)[0]["lost"] == [text] * many
        # Whatever becomes of the charge, and however often it is asked for.
        key = charges_of(series)[-2][1].id if many == 1 else charges_of(series)[-4][1].id
        series.find_account().void(key, reason="its process died")
        after = series.catch_up(MONTH_END)
        assert texts(after.lost) == [text] * many
        assert [one.text for one in after.kept if one.text == text] == []
        with pytest.raises(InvalidParameter, match="there are: none"):
            series.lose(text, reason="again")
        assert series.find_account().verify().sound
        assert len(series.catch_up(LATER).kept) == (6 - many if many == 1 else 2)


def test_a_copy_of_the_ledger_that_was_put_back_asks_nothing_again(tmp_path):
    """What the copy has forgotten and what is asked afterwards is no more than the share of a part."""
    shop = Shop(tmp_path / "shop")
    series = shop.started()
    series.catch_up("2026-02-01")
    sqlite.close_all()
    shutil.copytree(shop.folder, tmp_path / "copy")
    series.catch_up(LATER)
    forgotten = charges_of(series)[1:]
    assert len(forgotten) == 5
    sqlite.close_all()
    shutil.rmtree(shop.folder)
    shutil.copytree(tmp_path / "copy", shop.folder)
    Ledger.open(shop.ledger, account="orders").close_parts(number("2026-02-02"))
    back = shop.open()
    state = back.catch_up("2026-02-08")
    asked = charges_of(back)[1:]
    assert texts(state.closed) == [text for text, _ in forgotten]
    assert [text for text, _ in asked] == ["2026-02-03", "2026-02-04", "2026-02-05"]
    sums = defaultdict(Fraction)
    for text, line in [*charges_of(back), *forgotten]:
        parts = read_parts(text, "day")
        for part in range(parts.low, parts.high + 1):
            sums[part] += line.charged
    assert max(sums.values()) <= LARGE
    # February is never asked, and its later days are told by themselves: by no total.
    assert list(all_totals(back, state)) == ["2026-01-29"]


def test_what_was_closed_is_left_out_and_said(shop):
    # The whole of a day was spent: a share of every day has no room there.
    shop.account.reserve(sd.cost.Pure(epsilon=900), parts=sd.ledger.PartRange(20480, 20480))
    shop.declare(visits=COUNT)
    with pytest.raises(BudgetExceeded):
        shop.open().start()
    shop.account.close_parts(20480)
    series = shop.open()
    series.start()
    assert len(series.catch_up("2026-02-01").kept) == 1
    # A series that begins with a closed day would never have a figure.
    shop.declare(visits=COUNT, old=COUNT | {"first": '"2026-01-26"'})
    with pytest.raises(LedgerConflict, match="closed"):
        shop.open("old").start()
    # Nor does an account of that name make one, which is no share of this one.
    other = Ledger.create(
        shop.ledger,
        account="series-old",
        budget=sd.Budget(epsilon=LARGE),
        adjacency="add-remove",
        unit=UNIT,
        source="name:elsewhere",
        parts="day",
    )
    shop.declare(visits=COUNT, old=COUNT)
    with pytest.raises(LedgerConflict, match="exists already"):
        shop.open("old").start()
    with pytest.raises(LedgerConflict, match="must be started first"):
        shop.open("old").catch_up(LATER)
    assert other.remaining == LARGE
    # The 30th is closed before it was asked: neither it nor January is ever asked, the others are.
    shop.account.close_parts(number("2026-01-30"))
    state = shop.open().catch_up(LATER)
    assert texts(state.kept) == ["2026-01-29", "2026-01-31", "2026-02-01", "2026-02-02"]
    assert texts(state.closed) == ["2026-01-30", JANUARY]
    assert (state.due, state.lost) == ((), ())
    facts, notes = series.describe(state)
    assert facts["closed"] == ["2026-01-30", JANUARY]
    assert "2026-01-30" in " ".join(notes)
    assert list(all_totals(series, state)) == ["2026-01-29"]


def test_another_definition_under_the_same_name_is_refused(shop):
    series = shop.started()
    # Before the first night its share says so.
    shop.declare(visits=COUNT | {"epsilon": 250})
    with pytest.raises(LedgerConflict, match="was declared otherwise"):
        shop.open().catch_up("2026-02-01")
    series.catch_up("2026-02-01")
    changes = (
        {"epsilon": 150},
        {"where": "\"product = 'tea'\""},
        {"release": '"count_distinct_units"'},
        {"first": '"2026-01-28"'},
        {"levels": '["day"]'},
    )
    for change in changes:
        shop.declare(visits=COUNT | change)
        for job in (shop.open().catch_up, shop.open().read):
            with pytest.raises(LedgerConflict, match="was declared otherwise"):
                job(LATER)
    shop.declare(visits=COUNT, table="max_rows = 3")
    with pytest.raises(LedgerConflict, match="was declared otherwise"):
        shop.open().catch_up(LATER)
    assert len(charges_of(series)) == 1
    # How long is waited, how numbers are written, and in which order it is said, change nothing.
    back = COUNT | {"grace": 3, "epsilon": 200.0, "only_added": "true"}
    back = dict(reversed(list(back.items())))
    shop.declare(visits=back)
    assert len(shop.open().catch_up("2026-02-03").kept) == 2
    # Where somebody else has charged the share, its guard refuses what no longer fits, and that alone.
    account = series.find_account()
    account.reserve(sd.cost.Pure(epsilon=50), parts=read_parts("2026-01-31", "day"))
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            shop.open().catch_up(LATER)
        state = shop.open().read(LATER)
        assert texts(state.due) == [JANUARY]
        assert texts(state.kept)[2:] == ["2026-01-31", "2026-02-01"]


def test_labels_that_came_later_have_no_figure(shop):
    (shop.folder / "labels.csv").write_text("product\ntea\ncoffee\n", encoding="utf-8")
    labels = {"release": '"histogram"', "item": '"product"', "domain": '{file = "labels.csv"}'}
    series = shop.started(**labels)
    series.catch_up("2026-02-01")
    (shop.folder / "labels.csv").write_text("product\ncocoa\ntea\n", encoding="utf-8")
    state = shop.open().catch_up("2026-02-02")
    found = totals_of(series, state).find_at(state.until)
    assert [one.item for one in found] == ["tea"]


def test_accounts_that_are_cut_by_months_and_by_hours(tmp_path):
    unit = sd.PrivacyUnit(["customer", "month(ordered_at)"], max_rows=2)
    shop = Shop(tmp_path, parts="month", unit=unit)
    shop.declare(visits=COUNT | {"first": '"2025-12"', "levels": '["month", "year"]', "grace": 0})
    series = shop.open()
    series.start()
    # A month has ended with its last day.
    seen = [
        len(series.catch_up(today).kept) for today in ("2026-01-31", "2026-02-01", "2026-03-01")
    ]
    assert seen == [2, 3, 4]
    unit = sd.PrivacyUnit(["customer", "day_hour(ordered_at)"], max_rows=2)
    shop = Shop(tmp_path / "hours", parts="hour", unit=unit)
    hours = {"first": '"2026-01-29T22"', "levels": '["hour", "day"]', "grace": 0}
    shop.declare(visits=COUNT | hours)
    series = shop.open()
    series.start()
    state = series.catch_up("2026-01-30")
    assert texts(state.kept) == ["2026-01-29T22", "2026-01-29T23", "2026-01-29T22..2026-01-29T23"]
    assert sums_of_parts(series, range(series.first, series.first + 2)) == [LARGE] * 2
    counted = [row for row in shop.rows if row[0] and row[1] and row[1].date() < day("2026-01-30")]
    hour = [(who, at.hour) for who, at, _ in counted if at.hour >= 22]
    truth = sum(min(2, hour.count(one)) for one in set(hour))
    assert all_totals(series, state)["2026-01-29T23"] == truth


def test_what_is_wrong_is_said_before_anything_is_charged(shop):
    histogram = {"release": '"histogram"', "item": '"product"'}
    wrong = (
        ({"table": '"nothing"'}, "series.visits.table must be declared; got 'nothing'"),
        ({"release": '"mean"'}, "series.visits.release must be one of count, count_distinct_units"),
        ({"release": '"top_k"'}, "such as sums, are clipped otherwise in each period"),
        ({"epsilon": 0}, "epsilon must be a number in (0, inf)"),
        (
            {"epsilon": 1e-9},
            "series.epsilon must be at least a billionth for each of 2 periods",
        ),
        ({"first": '"2026-02-30"'}, "line 11"),
        ({"first": '"yesterday"'}, "line 11"),
        ({"first": "2026"}, "series.first must be"),
        ({"levels": '["month"]'}, "series.levels must be the first ones of 'day', 'month', 'year'"),
        ({"levels": '["day", "year"]'}, "series.levels must be the first ones of"),
        ({"levels": '["day", "day"]'}, "series.levels must be the first ones of"),
        ({"levels": '["day", "week"]'}, "series.levels must be the first ones of"),
        ({"levels": "[]"}, "series.levels must be a list of periods"),
        ({"levels": '"day"'}, "series.levels must be a list of periods"),
        ({"grace": -1}, "series.grace must be"),
        ({"grace": "true"}, "series.grace must be"),
        ({"only_added": 1}, "only_added must be True or False"),
        (
            {"release": '"histogram"', "item": '"product"', "domain": ITEMS, "only_added": "true"},
            "only_added must go with count or count_distinct_units",
        ),
        ({"wher": '"a > 1"'}, "has no key 'wher'"),
        ({"delta": 0.1}, "has no key 'delta'"),
        ({"bounds": "[0, 100]"}, "has no key 'bounds'"),
        (histogram | {"domain": '"assume-public"'}, "domain must list its labels"),
        (histogram | {"domain": "{unlisted = {delta = 1e-9}}"}, "domain must list its labels"),
        ({"release": '"histogram"', "domain": ITEMS}, "item must be given"),
    )
    for change, says in wrong:
        shop.declare(visits=COUNT | change)
        with pytest.raises(InvalidParameter) as caught:
            shop.open()
        assert says in str(caught.value), change
        assert "sordino.toml" in str(caught.value), change
        assert "\n" not in str(caught.value)
    # What the table has to say: its columns are looked at when the share is asked for.
    for change in (
        histogram,
        histogram | {"item": '"nothing"', "domain": ITEMS},
        {"where": '"x > 1"'},
        {"where": 3},
    ):
        shop.declare(visits=COUNT | change)
        with pytest.raises((InvalidParameter, UnknownDomain)):
            shop.open().start()
    with pytest.raises(InvalidParameter, match="must declare the series 'visit'.*Did you mean"):
        shop.open("visit")
    shop.declare(visits=COUNT)
    for job in (shop.open().catch_up, shop.open().read):
        with pytest.raises(LedgerConflict, match="must be started first: sordino series start"):
            job(LATER)
    with pytest.raises(InvalidParameter, match="must be a day as in"):
        shop.open().find_until("2026-2-30")
    assert Ledger.accounts(shop.ledger) == ("orders",)
    other = Shop(shop.folder / "without", shop_rows(1), parts="")
    other.declare(visits=COUNT)
    with pytest.raises(InvalidParameter, match="whose account has parts; 'orders' has none"):
        other.open()
    assert shop.account.remaining == 1000


def test_a_ledger_in_a_database_of_a_server(tmp_path):
    shop = Shop(tmp_path, ledger=fresh())
    series = shop.started()
    state = series.catch_up(MONTH_END)
    assert (len(state.kept), state.lost, state.open) == (4, (), {})
    for text, total in all_totals(series, state).items():
        assert total == count_until(shop.rows, day(text))
    assert len(charges_of(series)) == 4
    assert sums_of_parts(series, range(20482, 20485)) == [LARGE] * 3
    # The name of the run is the rule, and the share is the second guard.
    (_, line), *_ = charges_of(series)
    with pytest.raises(RunTaken):
        series.find_account().reserve(
            sd.cost.Pure(epsilon=1),
            run=f"series/visits-{line.detail['definition']}/day/2026-01-29/1",
        )


def test_a_day_ends_where_it_is_cut_and_not_where_the_machine_stands(monkeypatch):
    noon = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)

    class Noon(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return noon if tz is None else noon.astimezone(tz)

    monkeypatch.setattr(declaration, "datetime", Noon)
    assert declaration.read_day("today", "x", offset=0) == dt.date(2026, 11, 30)
    assert declaration.read_day("today", "x", offset=14 * 60) == dt.date(2026, 12, 1)
    assert declaration.read_day("today-1", "x", offset=-13 * 60) == dt.date(2026, 11, 28)
