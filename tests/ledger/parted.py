"""Accounts with parts, and what must hold of them after everything: by the rows, and by the events, without the replay of the library."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ledger.fakes import NANO, raw
from sordino.ledger import Budget, Ledger


class Unit:
    """A unit of two columns, one of them a time that is cut to the day."""

    identity = 'columns "customer_id", day("ordered_at")'


ABOUT = {"adjacency": "add-remove", "unit": Unit(), "source": "name:orders"}


def make_parted(place: Any, epsilon: Any = 1, account: str = "orders", **budget: Any) -> Ledger:
    return Ledger.create(
        place, account=account, budget=Budget(epsilon=epsilon, **budget), parts="day", **ABOUT
    )


def fits(account: dict[str, Any], main: int, pure: int, failing: int, impure: int) -> bool:
    """The rule of one part, written once more."""
    main_fits = main <= account["allowance"]
    pure_fits = not impure and pure <= account["pure_limit"]
    if account["meter"] != "renyi":
        return main_fits
    if failing > account["failing_limit"]:
        return False
    if account["parent"] is None:
        return main_fits or pure_fits
    return main_fits and (account["pure_limit"] < 0 or pure_fits)


def table(ledger: Ledger, sql: str) -> list[dict[str, Any]]:
    url = ledger._store.address
    names, question = sql.split("|")
    found = raw(url, f"SELECT {names} FROM {question}", ledger.account)
    return [dict(zip(names.split(", "), row, strict=True)) for row in found]


ACCOUNT = "meter, parent, allowance, spent, pure_limit, pure_spent, failing_limit, failing_spent, impure, base, base_pure, base_failing, base_impure, closed, number|~account WHERE name = ?"
EVENT = "number, kind, charge, amount, spent, sums|~event WHERE account = ? ORDER BY number"
CHARGE = "id, state, reserved, settled, pure_reserved, pure_settled, failing_reserved, failing_drawn, impure, whole|~charge WHERE account = ?"
PART = "key, spent, pure_spent, failing_spent, impure|~part WHERE account = ?"
SPAN = "charge, low, high|~span WHERE account = ?"
SHARE = "allowance, pure_limit, failing_limit|~account WHERE parent = ?"


def add(sums: tuple[int, ...], more: tuple[int, ...], sign: int = 1) -> tuple[int, ...]:
    *three, flag = (a + sign * b for a, b in zip(sums[:3], more[:3], strict=True)), 0
    return (*three[0], max(sums[3], more[3])) if sign > 0 else (*three[0], sums[3] | flag)


ZERO = (0, 0, 0, 0)


def check(ledger: Ledger) -> Fraction:
    """Check I1 to I6, I9 and I10 of an account with parts; return what the base and the fullest part have."""
    found = ledger.verify(head=ledger.statement(charges=False).head)
    assert found.problems == ()
    [account] = table(ledger, ACCOUNT)
    rows = {
        row["key"]: (row["spent"], row["pure_spent"], row["failing_spent"], row["impure"])
        for row in table(ledger, PART)
    }
    base = (account["base"], account["base_pure"], account["base_failing"], account["base_impure"])
    spans: dict[str, list[tuple[int, int]]] = {}
    for row in table(ledger, SPAN):
        spans.setdefault(row["charge"], []).append((row["low"], row["high"]))
    # I1, I2, I6: from the rows of the charges. That there was no epsilon is never forgotten.
    added: dict[int, tuple[int, ...]] = {}
    whole = ZERO
    for row in table(ledger, CHARGE):
        done = row["settled"] is not None
        taken = (
            row["settled"] if done else row["reserved"],
            row["pure_settled"] if done else row["pure_reserved"],
            row["failing_drawn"] if done else row["failing_reserved"],
            row["impure"],
        )
        assert (row["whole"] == 1) != (row["id"] in spans), row
        if row["whole"]:
            whole = add(whole, taken)
        for low, high in spans.get(row["id"], []):
            for key in range(low, high + 1):
                added[key] = add(added.get(key, ZERO), taken)
    for row in table(ledger, SHARE):
        impure = int(account["meter"] == "renyi" and row["pure_limit"] < 0)
        whole = add(
            whole, (row["allowance"], max(row["pure_limit"], 0), row["failing_limit"], impure)
        )
    assert rows == added
    assert base == whole
    _play(ledger, account, rows, base)
    return Fraction(int(account["spent"]), NANO)


def _play(ledger, account, rows, base):
    """I3 to I5, I9 and I10, at every event: by its own text alone."""
    played, whole, closed, touched, reserved = {}, ZERO, -(2**63), {}, {}
    limits = dict(account)
    for number, row in enumerate(table(ledger, EVENT), 1):
        assert row["number"] == number
        numbers, ranges, is_whole, upto, stated = row["sums"].split(";")
        pure, failing, impure, *now = map(int, numbers.split(","))
        amounts = (row["amount"], pure, failing, impure)
        limits |= {"pure_limit": now[1], "failing_limit": now[3]}
        keys = [
            key
            for n in range(0, len(ranges), 18)
            for key in range(int(ranges[n : n + 9]), int(ranges[n + 9 : n + 18]) + 1)
        ]
        match row["kind"]:
            case "create":
                closed = int(upto)
                limits["allowance"] = row["amount"]
            case "receive":
                limits["allowance"] += row["amount"]
            case "reserve" | "grant":
                assert bool(keys) == (is_whole == "0")
                assert all(key > closed for key in keys)
                assert len(set(keys)) == len(keys) <= 4096
                assert row["charge"] not in touched
                if row["kind"] == "reserve":
                    touched[row["charge"]], reserved[row["charge"]] = keys, amounts
                if not keys:
                    whole = add(whole, amounts)
                for key in keys:
                    played[key] = add(played.get(key, ZERO), amounts)
                looked = keys or [key for key in played if key > closed]
                for sums in (ZERO, *(played[key] for key in looked)):
                    assert fits(limits, *add(whole, sums)), row
            case "settle" | "void":
                returned = add(reserved[row["charge"]], amounts, -1)
                keys = touched[row["charge"]]
                if not keys:
                    whole = add(whole, returned, -1)
                for key in keys:
                    played[key] = add(played[key], returned, -1)
            case "close":
                assert int(upto) > closed
                closed = int(upto)
        assert int(upto) == closed
        assert tuple(map(int, stated.split(","))) == whole
        tops = [
            max([ZERO[which], *(one[which] for key, one in played.items() if key > closed)])
            for which in range(4)
        ]
        largest = (*add(whole, (*tops[:3], 0))[:3], max(whole[3], tops[3]))
        assert (row["spent"], now[0], now[2], now[4]) == largest, row
    assert (played, whole, closed) == (rows, base, account["closed"])
    assert (account["spent"], account["pure_spent"], account["failing_spent"]) == largest[:3]
    assert account["number"] == number
