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
SUMS = ("spent", "pure_spent", "failing_spent", "impure")
BASE = ("base", "base_pure", "base_failing", "base_impure")
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
    rows = {row["key"]: tuple(row[name] for name in SUMS) for row in table(ledger, PART)}
    base = tuple(account[name] for name in BASE)
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
    played = Played(account)
    for row in table(ledger, EVENT):
        played.play(row)
    played.compare(account, rows, base)
    return Fraction(int(account["spent"]), NANO)


class Played:
    """What an account with parts has by its events: I3 to I5, I9 and I10 at each of them, by its own text alone."""

    def __init__(self, account: dict[str, Any]) -> None:
        self.limits = {name: account[name] for name in ("meter", "parent")}
        self.sums: dict[int, tuple[int, ...]] = {}
        self.whole, self.largest, self.tops = ZERO, ZERO, [0, 0, 0, 0]
        self.closed, self.number = -(2**63), 0
        self.taken: dict[str, tuple[list[int], tuple[int, ...]]] = {}

    def _set(self, key: int, sums: tuple[int, ...]) -> None:
        """Set the sums of a part; the largest of all parts are looked for again only where one of them fell."""
        before, self.sums[key] = self.sums.get(key, ZERO), sums
        for which in range(4) if key > self.closed else ():
            if sums[which] >= self.tops[which]:
                self.tops[which] = sums[which]
            elif before[which] == self.tops[which]:
                self._find_top(which)

    def _find_top(self, which: int) -> None:
        above = (one[which] for key, one in self.sums.items() if key > self.closed)
        self.tops[which] = max(above, default=0)

    def play(self, row: dict[str, Any]) -> None:
        self.number += 1
        assert row["number"] == self.number
        numbers, ranges, is_whole, upto, stated = row["sums"].split(";")
        pure, failing, impure, *now = map(int, numbers.split(","))
        amounts = (row["amount"], pure, failing, impure)
        self.limits |= {"pure_limit": now[1], "failing_limit": now[3]}
        keys = [
            key
            for n in range(0, len(ranges), 18)
            for key in range(int(ranges[n : n + 9]), int(ranges[n + 9 : n + 18]) + 1)
        ]
        match row["kind"]:
            case "create":
                self.closed = int(upto)
                self.limits["allowance"] = row["amount"]
            case "receive":
                self.limits["allowance"] += row["amount"]
            case "reserve" | "grant":
                assert bool(keys) == (is_whole == "0")
                assert all(key > self.closed for key in keys)
                assert len(set(keys)) == len(keys) <= 4096
                assert row["charge"] not in self.taken
                if row["kind"] == "reserve":
                    self.taken[row["charge"]] = keys, amounts
                if not keys:
                    self.whole = add(self.whole, amounts)
                for key in keys:
                    self._set(key, add(self.sums.get(key, ZERO), amounts))
                looked = keys or [key for key in self.sums if key > self.closed]
                for sums in (ZERO, *(self.sums[key] for key in looked)):
                    assert fits(self.limits, *add(self.whole, sums)), row
            case "settle" | "void":
                keys, reserved = self.taken[row["charge"]]
                returned = add(reserved, amounts, -1)
                if not keys:
                    self.whole = add(self.whole, returned, -1)
                for key in keys:
                    self._set(key, add(self.sums[key], returned, -1))
            case "close":
                assert int(upto) > self.closed
                self.closed = int(upto)
                for which in range(4):
                    self._find_top(which)
        assert int(upto) == self.closed
        assert tuple(map(int, stated.split(","))) == self.whole
        sums = add(self.whole, (*self.tops[:3], 0))[:3]
        self.largest = (*sums, max(self.whole[3], self.tops[3]))
        assert (row["spent"], now[0], now[2], now[4]) == self.largest, row

    def compare(self, account: dict[str, Any], rows: dict[int, Any], base: Any) -> None:
        """Compare with the rows of the account, which were read in the same moment as its last event."""
        now = (account["spent"], account["pure_spent"], account["failing_spent"])
        assert (self.sums, self.whole, self.closed) == (rows, base, account["closed"])
        assert now == self.largest[:3]
        assert account["number"] == self.number

    def follow(self, ledger: Ledger) -> None:
        """Play what has happened since, and compare with the rows: writers may be at work."""
        with ledger._store.reading() as rows:

            def read(sql: str, **more: int) -> list[dict[str, Any]]:
                names, question = sql.replace("= ?", "= :account").split("|")
                found = rows(f"SELECT {names} FROM {question}", account=ledger.account, **more)
                return [dict(zip(names.split(", "), row, strict=True)) for row in found]

            since = EVENT.replace("ORDER", "AND number > :number ORDER")
            events = read(since, number=self.number)
            [account], parts = read(ACCOUNT), read(PART)
        for row in events:
            self.play(row)
        now = {row["key"]: tuple(row[name] for name in SUMS) for row in parts}
        self.compare(account, now, tuple(account[name] for name in BASE))
