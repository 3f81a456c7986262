"""Parts of an account: what is released of one part counts there alone, whatever happens to the ledger."""

from __future__ import annotations

import calendar
import hashlib
import json
import random
import time
from datetime import date, datetime, timedelta
from fractions import Fraction

import psycopg
import pytest

from ledger.fakes import NANO, REAL, Mechanism, make, raw, refused
from ledger.older import reserve_as_before, take_back
from ledger.parted import ABOUT, Unit, check, make_parted
from ledger.test_roles import ROLE, as_role, owner  # noqa: F401  (one is a fixture)
from sordino.cost import ZCDP, Approximate, ApproximateZCDP, Pure
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict
from sordino.ledger import Budget, Ledger, PartRange, read_parts, show_parts
from sordino.ledger.account.changes import request
from sordino.ledger.amounts import exact_amounts
from sordino.ledger.parts import CUTS, find_last, read_components, read_ranges, write_ranges
from sordino.ledger.renyi import NOTHING, Sums
from sordino.ledger.schema_parts import CLOSE_PARTS
from sordino.ledger.store import sqlite
from sordino.ledger.store.store import carry_out
from support.postgres import fresh

TENTH = Fraction(1, 10)
EPOCH = datetime.fromisoformat("1970-01-01")
BOTH = ("sqlite", "postgres")


def placed(name, tmp_path):
    return str(tmp_path / "budget.db") if name == "sqlite" else fresh()


def on(day):
    return read_parts(day, "day")


def spend(ledger, epsilon, parts=None, spends=None):
    """Reserve, draw and settle; return the charge."""
    with ledger.reserve(Pure(epsilon=epsilon), parts=parts) as charge:
        charge.release(Mechanism(epsilon, spends=spends), [1], entropy=REAL)
    return charge


# ---- texts -------------------------------------------------------------------------------------


def counted(text):
    """The day, month, year and hour of a time, by another way than the module's."""
    moment = datetime.fromisoformat(text)
    days = (moment - EPOCH) // timedelta(days=1)
    months = len(range(1970 * 12, moment.year * 12 + moment.month - 1)) or -len(
        range(moment.year * 12 + moment.month - 1, 1970 * 12)
    )
    return {
        "hour": (moment - EPOCH) // timedelta(hours=1),
        "day": days,
        "month": months,
        "year": moment.year - 1970,
    }


BAD = {
    "day": (
        *("", "2026-11-2", "2026-11-31", "2026-02-29", "0000-01-01", "20261127", "2026-W48-6"),
        *("2026-11-27T05", "2026-11-27 ", " 2026-11-27", "+2026-11-27", "12026-11-27", "today"),
        *("2026-11-27..", "..2026-11-27", "2026-11-27...2026-11-28", "2026..2027..2028", "٢٠٢٦"),
        *("2026-11-27/2026-11-28", "2026-13", "2026-00", "NaN", "-1"),
    ),
    "hour": ("2026-11-27T24", "2026-11-27T5", "2026-11-27T05:00", "2026-11-27 05"),
    "month": ("2026-11-27", "2026-11-27..2026-12"),
    "year": ("2026-11", "26"),
}
BACKWARDS = ("2026-11-28..2026-11-27", "2026-11-30..2026-11", "2027..2026")
TOO_MANY = {"day": "2014..2026", "hour": "2026", "month": "0001..0500", "year": "0001..9999"}


def test_texts_name_the_parts_that_dates_count_and_nothing_else():
    for text in (
        *("0001-01-01T00", "9999-12-31T23", "1970-01-01T00", "1969-12-31T23", "2000-02-29T12"),
        *("1900-03-01T00", "2026-11-27T05", "1600-12-31T23"),
    ):
        for cut, length in zip(CUTS, (13, 10, 7, 4), strict=True):
            number = counted(text)[cut]
            found = read_parts(text[:length], cut)
            assert found == PartRange(number, number), (text, cut)
            assert show_parts(found, cut) == text[:length]
    for year in (1, 1900, 1972, 2026, 9999):
        for month in range(1, 13):
            last = calendar.monthrange(year, month)[1]
            days = read_parts(f"{year:04d}-{month:02d}", "day")
            begin = (date(year, month, 1) - date(1970, 1, 1)).days
            assert (days.low, len(days)) == (begin, last)
            hours = read_parts(f"{year:04d}-{month:02d}", "hour")
            assert (hours.low, len(hours)) == (24 * begin, 24 * last)
            assert find_last("day", "month", days.high - 1) == (year - 1970) * 12 + month - 1
            assert find_last("month", "hour", (year - 1970) * 12 + month - 1) == hours.high
    assert read_parts("2026-11-01..2026-11-30", "day") == on("2026-11")
    assert len(read_parts("2026-11..2027-02", "month")) == 4
    for cut, texts in BAD.items():
        for text in texts:
            with pytest.raises(InvalidParameter, match=f"cut to the {cut} is .*; got "):
                read_parts(text, cut)
    for text in BACKWARDS:
        with pytest.raises(InvalidParameter, match="goes backwards"):
            read_parts(text, "year" if text.startswith("2027") else "day")
    for cut, text in TOO_MANY.items():
        with pytest.raises(InvalidParameter, match=r"takes at most 4,096 parts; .* are .*s\."):
            read_parts(text, cut)
    assert len(PartRange(0, 4095)) == 4096
    with pytest.raises(InvalidParameter, match="given as a text; got a int"):
        read_parts(2026, "year")
    for low, high, says in (
        (1, 0, "before it begins"),
        (0.5, 1, "whole number"),
        (0, True, "high"),
    ):
        with pytest.raises(InvalidParameter, match=says):
            PartRange(low, high)
    for ranges in ((), (PartRange(-5, 0),), (PartRange(1, 1), PartRange(3, 9))):
        assert read_ranges(write_ranges(ranges)) == ranges
    for text in ("+00000001", "+00000002+00000001", "-00000000+00000000", "+00000001+0000000x"):
        with pytest.raises(ValueError):  # noqa: PT011  (of any text)
            read_ranges(text)
    overlap = write_ranges((PartRange(1, 5),)) + write_ranges((PartRange(5, 6),))
    with pytest.raises(ValueError):  # noqa: PT011
        read_ranges(overlap)
    known = 'columns "a, b", day("x""y" at \'+02:00\'), day_hour("day("), "month(""q"")"'
    assert len(read_components(known)) == 4
    for text in (
        *('columns "a",day("b")', 'columns "a", day("b"), ', 'columns "a", day(b)', 'column "a"'),
        *(
            'columns "a", week("b")',
            'columns "a", day("b" at \'2:00\')',
            'columns "a"b"',
            "columns ",
        ),
        'columns "a", day("b" at "+02:00")',
    ):
        assert read_components(text) == ()


def test_who_may_have_parts_is_said_and_in_the_first_hash(tmp_path):
    def create(unit=Unit.identity, parts="day", **changed):
        of = type("Of", (), {"identity": unit})()
        about = ABOUT | {"unit": of} | changed
        url, name = tmp_path / "budget.db", f"a{random.random()}"
        return Ledger.create(url, account=name, budget=Budget(epsilon=1), parts=parts, **about)

    for says, changed in (
        ("both tell of it", {"adjacency": "replace-one"}),
        ("no column is cut to the month", {"parts": "month"}),
        ("one of hour, day, month, year", {"parts": "week"}),
        ("2 columns are cut", {"unit": 'columns day("a"), day("b")'}),
        ("protect by several columns", {"unit": 'column "ordered_at"'}),
        ("protect by several columns", {"unit": 'columns day("ordered_at")'}),
        ("protect by several columns", {"unit": "each row"}),
        ("no column is cut", {"unit": 'columns "day", "ordered_at"'}),
    ):
        with pytest.raises(InvalidParameter, match=says):
            create(**changed)
    assert not (tmp_path / "budget.db").exists()
    made = {cut: create(f'columns "c", {CUTS[cut]}("t" at \'+02:00\')', parts=cut) for cut in CUTS}
    for cut, ledger in made.items():
        [first] = ledger.history()
        kept = json.loads(first.detail["parts"])
        assert kept == {"component": f"{CUTS[cut]}(\"t\" at '+02:00')", "cut": cut}
        statement = ledger.statement().parts
        assert (statement.cut, statement.component) == (cut, kept["component"])
        ledger.reserve(
            Pure(epsilon=0.1),
            parts=read_parts("2026", "year")
            if cut == "year"
            else read_parts("2026-11-27"[: 7 if cut == "month" else 10], cut),
        )
        check(ledger)
    # The fact is under the hash: another row of the account, or none, is convicted.
    day = made["day"]
    for other in ("", made["hour"]._pages.facts.parts, "{", '{"component": "x", "cut": "day"}'):
        sqlite.close_all()
        raw(day.url, "UPDATE account SET parts = ? WHERE name = ?", other, day.account)
        assert not Ledger.open(day.url, account=day.account).verify().sound, other
    # Accounts without parts are as they were, in every event.
    plain = make(tmp_path / "budget.db", account="plain")
    for refusal in (
        lambda: plain.reserve(Pure(epsilon=0.1), parts=on("2026")),
        lambda: plain.preview(Pure(epsilon=0.1), parts=on("2026")),
        lambda: plain.find_left(parts=on("2026")),
        lambda: plain.close_parts(3),
    ):
        with pytest.raises(
            InvalidParameter,
            match="account with parts; account 'plain' has none|made with parts; account 'plain' has none",
        ):
            refusal()
    assert plain.reserve(Pure(epsilon=0.1)).closed is None
    assert raw(plain.url, "SELECT DISTINCT sums FROM event WHERE account = 'plain'") == [("",)]
    assert "parts" not in plain.statement().to_dict()


# ---- charges -----------------------------------------------------------------------------------


def test_a_charge_counts_in_its_parts_and_the_whole_table_in_all(tmp_path):
    for name in BOTH:
        play_a_charge_counts_in_its_parts_and_the_whole_table_in_all(name, tmp_path)
    play_a_list_as_a_charge_each(tmp_path)


def play_a_charge_counts_in_its_parts_and_the_whole_table_in_all(name, tmp_path):
    ledger = make_parted(placed(name, tmp_path))
    day, next_day, future = on("2026-11-27"), on("2026-11-28"), on("2400-01-01")
    left = lambda parts=None: ledger.find_left(parts=parts).share  # noqa: E731
    first = ledger.reserve(Pure(epsilon=0.6), parts=day)
    assert (first.parts, first.closed) == ((day,), -(2**63))
    assert (left(day), left(next_day), left(future), left()) == (4 * TENTH, 1, 1, 4 * TENTH)
    # What is never drawn comes back to that part, and what a transcript did not spend.
    first.release(Mechanism(0.5, spends=0.2), [1], entropy=REAL)
    first.settle()
    assert (left(day), left(next_day), ledger.remaining) == (8 * TENTH, 1, 8 * TENTH)
    # Whole: also parts without a row, and those to come.
    spend(ledger, 0.3)
    assert (left(day), left(next_day), left(future), left()) == (
        5 * TENTH,
        7 * TENTH,
        7 * TENTH,
        5 * TENTH,
    )
    with pytest.raises(
        BudgetExceeded,
        match=r"50% of the budget of account orders for 2026-11-27 is left; this needs 60%\. The largest epsilon that fits is 0\.5",
    ):
        ledger.reserve(Pure(epsilon=0.6), parts=[on("2026-11"), future])
    with pytest.raises(BudgetExceeded, match="50% of the budget"):
        ledger.reserve(Pure(epsilon=0.6))
    with pytest.raises(BudgetExceeded, match="70% of the budget of account orders is left"):
        ledger.preview(Pure(epsilon=0.8), parts=future)
    seen = ledger.preview(Pure(epsilon=0.1), parts=[day, future])
    assert (seen.remaining, seen.left, seen.more) == (5 * TENTH, 4 * TENTH, 4)
    check(ledger)
    # Several ranges are one charge: one release pays in all of them, and is not paid back.
    both = ledger.reserve(Pure(epsilon=0.4), parts=[future, PartRange(5, 9), PartRange(8, 12)])
    assert both.parts == (PartRange(5, 12), future)
    both.release(Mechanism(0.4, per_transcript=False), [1], entropy=REAL)
    both.settle()
    assert (left(future), left(PartRange(12, 12)), left(PartRange(13, 13))) == (
        3 * TENTH,
        3 * TENTH,
        7 * TENTH,
    )
    lines = ledger.statement().charges
    assert [line.parts for line in lines[:2]] == [("2026-11-27",), ()]
    assert lines[2].to_dict()["parts"] == ["1970-01-06..1970-01-13", "2400-01-01"]
    assert raw(ledger._store.address, "SELECT count(*) FROM ~charge") == [(3,)]
    # Given up: what was drawn stays where it was charged.
    lost = ledger.reserve(Pure(epsilon=0.7), parts=next_day)
    lost.draw(Mechanism(0.2))
    ledger.void(lost.id, reason="its process died")
    assert left(next_day) == 5 * TENTH
    # A share is of all parts; its own parts have its limit.
    team = ledger.grant("team", 0.1)
    for parts in (day, next_day):
        spend(team, 0.1, parts)
    with pytest.raises(BudgetExceeded):
        team.reserve(Pure(epsilon=0.1))
    ledger.grant("team", 0.1)
    spend(team, 0.1)
    assert left(future) == TENTH
    assert ledger.statement().parts.base == 5 * TENTH
    check(ledger)
    check(team)
    for wrong, says in (
        ([], "PartRange or a list"),
        ("2026-11-27", "it has a str"),
        ([day, 5], "it has a int"),
        (PartRange(0, 4096), "at most 4,096 parts"),
        ([PartRange(2 * n, 2 * n) for n in range(367)], "at most 366 ranges"),
        (PartRange(-(10**9), 0), "years 1 to 9999"),
    ):
        with pytest.raises(InvalidParameter, match=says):
            ledger.reserve(Pure(epsilon=0.01), parts=wrong)
    with pytest.raises(InvalidParameter, match="must cost something"):
        ledger.reserve(Pure(epsilon=0), parts=day)
    spend(ledger, 0.1, PartRange(-3, 4092 - 1000))
    with pytest.raises(LedgerConflict, match="has parts, and an account with parts is not conv"):
        ledger.convert("other", Budget(epsilon=2, delta=1e-6))
    # Each part takes what fits: three charges of 0.3 at base 0.5 would be 1.4.
    fulls = [on(f"2027-01-0{n}") for n in range(1, 9)]
    for one in fulls:
        spend(ledger, 0.5, one)
    assert check(ledger) == 1


def play_a_list_as_a_charge_each(tmp_path):
    """The twin: two charges, one release that reads both parts and is drawn in the first."""
    ledger = make_parted(tmp_path / "list.db")
    first, second = PartRange(1, 1), PartRange(5, 5)
    with (
        ledger.reserve(Pure(epsilon=0.5), parts=first) as one,
        ledger.reserve(Pure(epsilon=0.5), parts=second),
    ):
        one.draw(Pure(epsilon=0.5))
    assert [float(ledger.find_left(parts=part).share) for part in (first, second)] == [0.5, 1]
    with ledger.reserve(Pure(epsilon=0.5), parts=[first, second]) as both:
        both.draw(Pure(epsilon=0.5))
    assert [float(ledger.find_left(parts=part).share) for part in (first, second)] == [0, 0.5]
    check(ledger)


def test_closed_parts_take_nothing_and_the_whole_table_leaves_them_out(tmp_path):
    for name in BOTH:
        play_closed_parts_take_nothing_and_the_whole_table_leaves_them_out(name, tmp_path)
    play_a_restored_copy(tmp_path)


def play_closed_parts_take_nothing_and_the_whole_table_leaves_them_out(name, tmp_path):
    place = placed(name, tmp_path)
    ledger = make_parted(place)
    make(place, account="plain")
    team = ledger.grant("team", 0.2)
    of_team = team.grant("of team", 0.1)
    other = Ledger.create(
        place,
        account="months",
        budget=Budget(epsilon=1),
        parts="month",
        **ABOUT
        | {"unit": type("M", (), {"identity": 'columns "c", month("t")'})(), "source": "name:m"},
    )
    full, later = on("2026-11-27"), on("2026-11-28")
    spend(ledger, 0.8, full)
    assert ledger.remaining == 0
    open_whole = of_team.reserve(Pure(epsilon=0.05))
    held = Ledger.open(place, account="orders")
    assert held._pages.facts.closed == -(2**63)
    closed = ledger.close_parts(full.high)
    assert closed == {
        "orders": "2026-11-27",
        "team": "2026-11-27",
        "of team": "2026-11-27",
        "months": "2026-11",
    }
    # Children first: at no moment a parent was closed and a share of it was not.
    for one in (ledger, team, of_team):
        with pytest.raises(
            LedgerConflict, match=r"up to 2026-11-27 are closed: nothing that reads them"
        ):
            one.reserve(Pure(epsilon=0.01), parts=[full, later])
        with pytest.raises(LedgerConflict, match="are closed"):
            one.preview(Pure(epsilon=0.01), parts=full)
        assert one.find_left(parts=full).share == 0
    # The full day is no hindrance any more; the charge says what it leaves out, also one whose
    # process knew of no closed part.
    assert ledger.remaining == 8 * TENTH
    whole = held.reserve(Pure(epsilon=0.3))
    assert (whole.closed, whole.parts) == (full.high, ())
    assert ledger.find_left(parts=later).share == 5 * TENTH
    open_whole.release(Mechanism(0.05), [1], entropy=REAL)
    open_whole.settle()
    # Again, and not back; a share that is made now has the same parts closed.
    assert ledger.close_parts(full.high - 5) == closed
    kinds = [event.kind for event in ledger.history()]
    assert kinds.count("close") == 1
    late = ledger.grant("late", 0.1)
    with pytest.raises(LedgerConflict, match="are closed"):
        late.reserve(Pure(epsilon=0.01), parts=full)
    assert late.reserve(Pure(epsilon=0.01)).closed == full.high
    for one in (ledger, team, of_team, late, other):
        check(one)
    # A statement knows of closed parts, too.
    published = ledger.publish()
    assert ledger.check_statement(published).problems == ()
    check(ledger)
    # A parent is not closed before its shares, whoever asks.
    asked = {
        "account": "team",
        "parts": team._pages.facts.parts,
        "until": later.high,
        "body": '{"until": 1}',
    }
    assert not carry_out(team._store, CLOSE_PARTS, asked, account="team")
    with pytest.raises(InvalidParameter, match="years 1 to 9999"):
        ledger.close_parts(10**9)
    statement = ledger.statement().parts
    assert (statement.closed, statement.fullest, statement.base) == (
        "2026-11-27",
        None,
        Fraction(6, 10),
    )


def play_a_restored_copy(tmp_path):
    """The true ledger goes on, the copy forgets; what the copy admits after closing never meets what was forgotten."""
    ledger = make_parted(tmp_path / "true.db")
    team = ledger.grant("team", 0.3)
    spend(ledger, 0.2, on("2026-11-01"))
    ledger.backup(tmp_path / "copy.db")
    today = on("2026-11-27")
    spend(ledger, 0.5, on("2026-11-01..2026-11-27"))
    spend(team, 0.3, today)
    true = [key for (key,) in raw(ledger.url, "SELECT key FROM part WHERE account = 'orders'")]
    # Without closing: the same day once more, in the account and in its share.
    copy = Ledger.open(tmp_path / "copy.db", account="orders")
    assert copy.find_left(parts=today).share == Fraction(7, 10)
    copy.close_parts(today.high)
    again = Ledger.open(tmp_path / "copy.db", account="team")
    for one in (copy, again):
        with pytest.raises(LedgerConflict, match="are closed"):
            one.reserve(Pure(epsilon=0.01), parts=on("2026-11"))
        assert one.reserve(Pure(epsilon=0.1)).closed == today.high
        check(one)
    rows = raw(copy.url, "SELECT low FROM span")
    assert all(low <= 20758 or low > today.high for (low,) in rows)
    assert max(true) <= today.high


# ---- the rule of each meter, against a dictionary ------------------------------------------------


BUDGETS = {
    "pure": {"epsilon": Fraction(100, NANO)},
    "zcdp": {"epsilon": Fraction(1, 400), "delta": 1e-6, "meter": "zcdp"},
    "deltas": {"epsilon": Fraction(1, 400), "delta": 1e-6, "meter": "zcdp", "failures": 5e-7},
    "renyi": {"epsilon": 1, "delta": 1e-6, "failures": 1e-7},
}


class Parts:
    """An account of a few parts as a dictionary: what each part has, by one rule of one part."""

    def __init__(self, limits):
        self.limits, self.base, self.parts, self.closed = limits, NOTHING, {}, None

    def at(self, key):
        return self.base.plus(self.parts.get(key, NOTHING))

    def admits(self, keys, asked):
        # Of the whole table: each part that has something, and one that has nothing.
        looked = [*self.parts, None] if keys is None else keys
        return all(
            self.limits.admits(self.at(key), asked)
            for key in looked
            if key is None or self.closed is None or key > self.closed
        ) and not (keys is not None and self.closed is not None and min(keys) <= self.closed)

    def move(self, keys, amounts, sign=1):
        def moved(sums):
            three = (a + sign * b for a, b in zip(sums[:3], amounts[:3], strict=True))
            return type(sums)(*three, sums.impure | amounts.impure)

        if keys is None:
            self.base = moved(self.base)
        for key in keys or ():
            self.parts[key] = moved(self.parts.get(key, NOTHING))


def random_cost(meter, chance):
    if meter == "pure":
        return Pure(epsilon=Fraction(chance.randint(1, 40), NANO))
    if meter == "renyi":
        epsilon = Fraction(chance.randint(1, 40), 100)
        kinds = [
            Pure(epsilon=epsilon),
            Approximate(epsilon=epsilon, delta=Fraction(chance.randint(1, 40), 10**9)),
            ZCDP(rho=epsilon / 20),
        ]
        return chance.choice([kinds[0], *kinds])
    rho = Fraction(chance.randint(1, 40), 100) * Budget(**BUDGETS["zcdp"]).limit
    if meter == "deltas" and chance.random() < 0.5:
        return ApproximateZCDP(rho=rho, delta=Fraction(chance.randint(1, 40), 10**8))
    return ZCDP(rho=rho)


def play(place, meter, steps, chance):
    ledger = make_parted(place, **BUDGETS[meter])
    ledgers = {"orders": ledger}
    models = {"orders": Parts(ledger._pages.facts.limits)}
    held = []
    admitted = refusals = 0
    for _ in range(steps):
        name = chance.choice(list(ledgers))
        one, model = ledgers[name], models[name]
        account = one._pages.account()
        what = chance.random()
        if what < 0.6:
            cost = random_cost(meter, chance)
            asked = exact_amounts(cost, account.meter_at_order).rounded_up()
            low = chance.randint(0, 5)
            keys = (
                None
                if chance.random() < 0.25
                else sorted({*range(low, chance.randint(low, 7) + 1), chance.randint(0, 7)})
            )
            ranges = None if keys is None else [PartRange(key, key) for key in keys]
            if model.admits(keys, asked):
                charge = one.reserve(cost, parts=ranges)
                model.move(keys, asked)
                held.append((name, keys, asked, charge, cost))
                admitted += 1
            else:
                with pytest.raises((BudgetExceeded, LedgerConflict)):
                    one.reserve(cost, parts=ranges)
                refusals += 1
        elif what < 0.9 and held:
            name, keys, asked, charge, cost = held.pop(chance.randrange(len(held)))
            drawn = chance.random() < 0.5
            if drawn:
                charge.draw(cost)
            if chance.random() < 0.3:
                ledgers[name].void(charge.id, reason="why not")
            else:
                charge.settle()
            if not drawn:
                models[name].move(keys, asked._replace(impure=0), -1)
        elif what < 0.93 and len(ledgers) < 3 and meter != "renyi":
            amount = account.limits.main // 5
            share = Sums(amount, 0, 0, int(meter == "deltas"))
            child = f"c{len(ledgers)}"
            if model.admits(None, share):
                ledgers[child] = one.grant(child, Fraction(amount, NANO))
                models[child] = Parts(ledgers[child]._pages.facts.limits)
                models[child].closed = model.closed
                model.move(None, share)
        elif what > 0.97:
            until = chance.randint(0, 3)
            ledger.close_parts(until)
            for model in models.values():
                model.closed = until if model.closed is None else max(until, model.closed)
    for name, one in ledgers.items():
        check(one)
        rows = raw(
            place,
            "SELECT key, spent, pure_spent, failing_spent, impure FROM ~part WHERE account = ?",
            name,
        )
        assert {key: tuple(sums) for key, *sums in rows} == {
            key: tuple(sums) for key, sums in models[name].parts.items()
        }
    return admitted, refusals


@pytest.mark.parametrize("steps", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_the_ledger_is_a_dictionary_of_parts(steps, tmp_path):
    chance, seen = random.Random(7), []
    for meter in BUDGETS:
        for n, name in enumerate(BOTH):
            place = str(tmp_path / f"{meter}{n}.db") if name == "sqlite" else fresh()
            admitted, refusals = play(place, meter, steps, chance)
            assert admitted > 0
            seen += (admitted, refusals)
    assert min(sum(seen[::2]), sum(seen[1::2])) > 50


# ---- forgeries ---------------------------------------------------------------------------------


def chain_again(url, account, change):
    """Let `change` edit the events of an account, then make the chain and the head fit again."""
    columns = "number, kind, charge, amount, spent, allowance, body, sums"
    rows = raw(url, f"SELECT {columns} FROM event WHERE account = ? ORDER BY number", account)
    events = [dict(zip(columns.split(", "), row, strict=True)) for row in rows]
    change(events)
    for trigger in ("event_delete", "event_insert"):
        raw(url, f"DROP TRIGGER IF EXISTS {trigger}")
    raw(url, "DELETE FROM event WHERE account = ?", account)
    head = ""
    for number, event in enumerate(events, 1):
        event["number"] = number
        facts = [event[name] for name in columns.split(", ")]
        covered = [head, *map(str, facts[:6]), *filter(None, [event["sums"]]), event["body"]]
        head = hashlib.sha256(" ".join(covered).encode()).hexdigest()
        raw(
            url,
            f"INSERT INTO event (account, head, {columns}) VALUES ({', '.join('?' * 10)})",
            *(account, head, *facts),
        )
    sql = "UPDATE account SET head = ?, number = ? WHERE name = ?"
    raw(url, sql, head, len(events), account)


def told(event, **changed):
    """Change what an event says of parts."""
    numbers, ranges, whole, closed, base = event["sums"].split(";")
    known = {"numbers": numbers, "ranges": ranges, "whole": whole, "closed": closed, "base": base}
    event["sums"] = ";".join((known | changed).values())


def in_body(event, **changed):
    event["body"] = json.dumps({**json.loads(event["body"]), **changed}, sort_keys=True)


EIGHT, NINE = write_ranges([PartRange(8, 8)]), write_ranges([PartRange(9, 9)])
# Events of what `spoiled` makes: 1 create, 2 to 4 a charge of parts 5 to 7 (reserve, draw, settle),
# 5 a whole one that stays open, 6 a share, 7 close up to 3, 8 to 10 a charge of part 8.
FORGERIES = {
    "moved to another part": (lambda events: told(events[7], ranges=NINE), ()),
    "moved with its rows": (
        lambda events: told(events[7], ranges=NINE),
        (
            "UPDATE span SET low = 9, high = 9 WHERE low = 8",
            "UPDATE part SET key = 9 WHERE key = 8",
        ),
    ),
    "moved with its rows and its body": (
        lambda events: (
            told(events[7], ranges=NINE),
            in_body(events[7], parts={"ranges": [[9, 9]], "whole": False, "closed": 3}),
        ),
        (
            "UPDATE span SET low = 9, high = 9 WHERE low = 8",
            "UPDATE part SET key = 9 WHERE key = 8",
        ),
    ),
    "whole, which it was not": (lambda events: told(events[7], ranges="", whole="1"), ()),
    "of no parts": (lambda events: told(events[7], ranges=""), ()),
    "of parts, which was whole": (lambda events: told(events[4], ranges=EIGHT, whole="0"), ()),
    "a share of some parts": (lambda events: told(events[5], ranges=EIGHT, whole="0"), ()),
    "both": (lambda events: told(events[7], whole="1"), ()),
    "whole in part": (lambda events: told(events[4], whole="2"), ()),
    "twice the same part": (lambda events: told(events[7], ranges=EIGHT + EIGHT), ()),
    "a part that was closed": (
        lambda events: (
            told(events[7], ranges=write_ranges([PartRange(3, 3)])),
            in_body(events[7], parts={"ranges": [[3, 3]], "whole": False, "closed": 3}),
        ),
        (
            "UPDATE span SET low = 3, high = 3 WHERE low = 8",
            "UPDATE part SET key = 3 WHERE key = 8",
        ),
    ),
    "a settlement that names parts": (lambda events: told(events[3], ranges=EIGHT), ()),
    "another base": (lambda events: told(events[4], base="1,0,0,0"), ()),
    "another close": (lambda events: [told(one, closed="2") for one in events[6:]], ()),
    "never closed": (lambda events: events.pop(6), ()),
    "closed twice": (lambda events: events.insert(7, dict(events[6])), ()),
    "closed in the text alone": (lambda events: in_body(events[6], until=9), ()),
    "sums of an account without parts": (
        lambda events: events[7].update(sums=events[7]["sums"].partition(";")[0]),
        (),
    ),
    "too much in one part": (
        lambda events: (
            events[1].update(amount=2 * 10**9, spent=2 * 10**9),
            events[2].update(spent=2 * 10**9),
        ),
        ("UPDATE charge SET reserved = 2000000000 WHERE reserved = 400000000",),
    ),
    "began closed": (lambda events: told(events[0], closed="0"), ()),
    "another component": (
        lambda events: in_body(events[0], parts='{"component": "day(\\"x\\")", "cut": "day"}'),
        (),
    ),
    "lower in a row": (None, ("UPDATE part SET spent = 0 WHERE key = 6",)),
    "no row": (None, ("DELETE FROM part WHERE key = 6",)),
    "a row that nobody charged": (None, ("INSERT INTO part VALUES ('orders', 99, 0, 0, 0, 0)",)),
    "a lower base": (None, ("UPDATE account SET base = 0 WHERE name = 'orders'",)),
    "opened again": (None, (f"UPDATE account SET closed = {-(2**63)} WHERE name = 'orders'",)),
    "a smaller range": (None, ("UPDATE span SET high = 6 WHERE low = 5",)),
    "no range": (None, ("DELETE FROM span WHERE low = 8",)),
    "of the whole table": (None, ("UPDATE charge SET whole = 1 WHERE whole = 0",)),
    "as if closed earlier": (None, ("UPDATE charge SET closed = 3 WHERE closed < 3",)),
    "less than its largest": (None, ("UPDATE account SET spent = 1 WHERE name = 'orders'",)),
}


def test_a_history_of_parts_that_was_forged_and_chained_again_is_convicted(tmp_path):
    ledger = make_parted(tmp_path / "budget.db")
    spend(ledger, 0.4, PartRange(5, 7), spends=0.3)
    ledger.reserve(Pure(epsilon=0.2))
    ledger.grant("team", 0.1)
    ledger.close_parts(3)
    spend(Ledger.open(ledger.url, account="orders"), 0.1, PartRange(8, 8))
    ledger.grant("later", 0.1)
    for account in ("orders", "team", "later"):
        check(Ledger.open(ledger.url, account=account))
    for what, (change, sql) in FORGERIES.items():
        path = tmp_path / f"{what}.db"
        ledger.backup(path)
        sqlite.close_all()
        for one in sql:
            raw(str(path), one)
        chain_again(str(path), "orders", change or (lambda events: None))
        forged = Ledger.open(path, account="orders").verify()
        assert not forged.sound, what
        # What is convicted by hashes is convicted by more than these.
        assert not any("does not have the hash" in problem for problem in forged.problems), what
    chain_again(ledger.url, "orders", lambda events: None)
    assert ledger.verify().sound
    # A share that begins with fewer closed parts than its parent had.
    chain_again(ledger.url, "later", lambda events: told(events[0], closed=str(-(2**63))))
    raw(ledger.url, f"UPDATE account SET closed = {-(2**63)} WHERE name = 'later'")
    problems = Ledger.open(ledger.url, account="later").verify().problems
    assert problems == (
        "The account did not begin with the parts closed that its parent had closed.",
    )


# ---- files and servers of older versions ---------------------------------------------------------


def test_an_older_ledger_gets_accounts_with_parts_and_keeps_its_own(tmp_path):
    for name in BOTH:
        play_an_older_ledger_gets_accounts_with_parts_and_keeps_its_own(name, tmp_path)


def play_an_older_ledger_gets_accounts_with_parts_and_keeps_its_own(name, tmp_path):
    place = placed(name, tmp_path)
    plain = make(place, account="plain", delta=1e-6)
    with plain.reserve(Pure(epsilon=0.5)) as charge:
        charge.release(Mechanism(0.5), [1], entropy=REAL)
    heads = []
    for version in (4, 5, 6):
        heads.append(plain.statement().head)
        take_back(place, version)
        for head in heads:
            assert Ledger.open(place, account="plain").verify(head=head).sound
        plain.reserve(Pure(epsilon=0.01))
    # Of two sums one is enough, in each part by itself: an older rule of the table would refuse it.
    ledger = make_parted(place, delta=1e-6, failures=1e-7)
    ledger.reserve(Pure(epsilon=1), parts=PartRange(1, 1))
    ledger.reserve(ZCDP(rho=Fraction(2, 100)), parts=PartRange(2, 2))
    row = ledger._pages.account()
    assert row.spent > row.allowance
    assert (row.impure, row.pure_spent) == (1, row.pure_limit)
    check(ledger)
    for head in heads:
        assert Ledger.open(place, account="plain").verify(head=head).sound
    if name == "sqlite":
        # A process of an older version that has the file open does not get past the parts.
        parameters = request(
            plain._pages.facts,
            [Pure(epsilon=0.1)],
            label=None,
            unit=None,
            source=None,
            adjacency=None,
            reading=None,
            detail=None,
            allow_approximate=False,
        )[3]
        with pytest.raises(Exception, match="newer version"):
            reserve_as_before(ledger.url, parameters | {"account": "orders"})
        check(ledger)
        copy = tmp_path / "copy.db"
        assert set(ledger.backup(copy)) == {"orders", "plain"}
        check(Ledger.open(copy, account="orders"))
        # A file that came alone and holds half of a write of parts is not charged.
        sqlite.close_all()
        raw(str(copy), "UPDATE part SET spent = spent + 1 WHERE key = 2")
        refused(
            lambda: Ledger.open(copy, account="orders").reserve(Pure(epsilon=0.01)),
            "half of a write",
        )


def test_a_role_that_may_charge_charges_parts_and_closes_none(owner):  # noqa: F811
    ledger = make_parted(owner)
    ledger.permit(ROLE)
    mine = Ledger.open(as_role(owner, ROLE), account="orders")
    spend(mine, 0.3, PartRange(4, 9))
    assert mine.statement().parts.charged == 6
    for call in (lambda: mine.close_parts(9), lambda: mine.grant("team", 0.1)):
        refused(call, "does not allow this role to do that")
    for table in ("part", "span"):
        for sql in (f"UPDATE ~{table} SET account = 'x'", f"DELETE FROM ~{table}"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                raw(as_role(owner, ROLE), sql)
    assert ledger.close_parts(4) == {"orders": "1970-01-05"}
    check(ledger)


@pytest.mark.slow
def test_what_is_left_of_a_part_is_found_by_an_index(tmp_path):
    """As fast after many charges as after one; the sums that decide are never added up."""
    ledger = make_parted(tmp_path / "budget.db", 1000)
    for _ in range(30):
        ledger.reserve(Pure(epsilon=0.1), parts=PartRange(0, 3649))
    before = ledger.statement(charges=False).parts
    assert (before.charged, before.find_spent(7), before.total) == (3650, 21, 3 * 3650)
    assert (before.find_spent(), before.whole.share) == (3 * 3650, Fraction(997, 1000))
    with pytest.raises(InvalidParameter, match="from 1 to 30"):
        before.find_spent(31)
    took = min(timed(lambda: ledger.find_left(parts=PartRange(700, 700))) for _ in range(20))
    assert took < 0.003
    assert min(timed(lambda: ledger.remaining) for _ in range(20)) < 0.003


def timed(do):
    started = time.perf_counter()
    do()
    return time.perf_counter() - started
