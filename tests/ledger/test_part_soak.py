"""Writers of parts that are killed at any moment, in files and on a server: what holds of an account with parts holds after each kill."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import count
from pathlib import Path

import pytest

from ledger.fakes import NANO, child, finished
from ledger.parted import (
    ACCOUNT,
    CHARGE,
    EVENT,
    PART,
    SPAN,
    ZERO,
    Played,
    check,
    make_parted,
    table,
)
from sordino.cost import ZCDP, Approximate, Pure
from sordino.errors import BudgetExceeded, LedgerConflict, LedgerError, RunTaken
from sordino.ledger import Ledger, PartRange
from sordino.ledger.store import postgres, sqlite
from support.postgres import fresh

BUDGETS = {
    "pure": {"epsilon": 3},
    "either": {"epsilon": 3, "delta": 1e-6, "failures": 1e-7},
    "equal": {"epsilon": 3},
}
EQUAL = Fraction(7, 50)  # what each charge of the account "equal" costs: 21 of 3
EQUAL_DAYS = range(10_000, 10_020)  # behind what is ever closed, which is closed of all accounts
LOOKED_AT = 12  # parts of which it is tried at the end what they still admit


def write(place, seed, days):
    """Charge at random, for ever: ranges, lists and the whole table, drawn or not, settled, given up or left."""
    chance = random.Random(seed)
    ledgers = [Ledger.open(place, account=name) for name in BUDGETS]
    while True:
        [ledger] = chance.choices(ledgers, weights=(45, 45, 10))
        try:
            if ledger.account == "equal":
                write_equal(ledger, chance)
            else:
                write_any(ledger, chance, days)
        except (BudgetExceeded, LedgerConflict, RunTaken):
            time.sleep(0.001)


def write_equal(ledger, chance):
    """Charge what all others charge; whoever is killed has charged it too."""
    low = chance.choice(EQUAL_DAYS)
    charge = ledger.reserve(Pure(epsilon=EQUAL), parts=PartRange(low, low + chance.randint(0, 3)))
    charge.draw(Pure(epsilon=EQUAL))
    charge.settle()


def write_any(ledger, chance, days):
    low, amount = chance.randint(0, days), Fraction(chance.randint(1, 30), 100)
    parts = chance.choice(
        (
            PartRange(low, low),
            PartRange(low, low + 3),
            [PartRange(low, low), PartRange(low + 5, low + 6)],
        )
    )
    if chance.random() < 0.05:  # all parts, those to come too: less, or nothing else would fit
        parts, amount = None, amount / 100
    kind = Pure if ledger.account == "pure" else chance.choice([Pure, ZCDP, Approximate])
    cost = (
        Pure(epsilon=amount)
        if kind is Pure
        else ZCDP(rho=amount / 40)
        if kind is ZCDP
        else Approximate(epsilon=amount, delta=1e-10)
    )
    run = f"night {chance.randint(0, 2_000)}" if chance.random() < 0.2 else None
    charge = ledger.reserve(cost, parts=parts, run=run)
    if chance.random() < 0.5:
        charge.draw(cost)
    if chance.random() < 0.6:
        charge.settle()
    elif chance.random() < 0.5:
        ledger.void(charge.id, reason="its process died")
    if chance.random() < 0.005:
        ledger.grant(f"{ledger.account} {chance.randint(0, 3)}", Fraction(1, 1_000))
    if chance.random() < 0.005:
        ledger.close_parts(chance.randint(-3, days // 20))


def run_round(place, end, chance, writers, most):
    """Let writers run, kill one after the other at any moment, and look after each kill; until `end`, or there are so many events."""
    days = chance.choice([12, 100, 1_000])
    ledgers = [make_parted(place, account=name, **budget) for name, budget in BUDGETS.items()]
    followed = [Played(table(ledger, ACCOUNT)[0]) for ledger in ledgers]
    kills, seeds = 0, count(chance.randrange(1 << 30))
    sqlite.close_all()
    postgres.close_waiting()

    def write_on(seed):
        signal.alarm(0)
        write(place, seed, days)

    def start():
        seed = next(seeds)
        return child(lambda: write_on(seed))

    running = [start() for _ in range(writers)]
    try:
        while time.monotonic() < end and sum(one.number for one in followed) < most:
            time.sleep(chance.uniform(0.05, 0.3))
            doomed = running.pop(chance.randrange(len(running)))
            os.kill(doomed, signal.SIGKILL)
            assert finished(doomed) == -signal.SIGKILL
            kills += 1
            for ledger, played in zip(ledgers, followed, strict=True):
                played.follow(ledger)
            if chance.random() < 0.05:
                assert chance.choice(ledgers).verify().sound
            running.append(start())
    finally:
        for process in running:
            os.kill(process, signal.SIGKILL)
            finished(process)
    seen = Counter(kills=kills)
    for ledger in ledgers:
        check(ledger)
        kinds = Counter(row["kind"] for row in table(ledger, EVENT))
        seen += Counter(events=kinds.total(), charges=kinds["reserve"])
        for share in ledger.statement().shares:
            check(Ledger.open(place, account=share))
    check_rest(ledgers[0], chance, days)
    check_equal(ledgers[2])
    return seen


def check_rest(pure, chance, days):
    """I7: what is left is admitted, to the last billionth, and not one more."""
    closed = max(-1, table(pure, ACCOUNT)[0]["closed"])
    for key in [*chance.sample(range(closed + 1, days + 9), LOOKED_AT), days + 100]:
        part = PartRange(key, key)
        left = pure.find_left(parts=part).share * 3
        if left:
            pure.reserve(Pure(epsilon=left), parts=part)
        with pytest.raises(BudgetExceeded):
            pure.reserve(Pure(epsilon=Fraction(1, NANO)), parts=part)
    check(pure)


def check_equal(ledger):
    """I7: of equal charges each part has admitted as many as fit, whatever ran beside; nothing that was refused had room."""
    fit, days = 3 // EQUAL, range(EQUAL_DAYS.start, EQUAL_DAYS.stop + 3)
    had = {row["key"]: row["spent"] for row in table(ledger, PART)}
    for key in days:
        for _ in range(fit - had.get(key, 0) // (int(EQUAL * NANO))):
            ledger.reserve(Pure(epsilon=EQUAL), parts=PartRange(key, key))
        with pytest.raises(BudgetExceeded):
            ledger.reserve(Pure(epsilon=EQUAL), parts=PartRange(key, key))
    check(ledger)
    admitted = Counter(
        key for row in table(ledger, SPAN) for key in range(row["low"], row["high"] + 1)
    )
    # A charge that was never drawn when it was settled would have come back; none is.
    charges = table(ledger, CHARGE)
    assert all(row["settled"] in (None, EQUAL * NANO) for row in charges)
    assert admitted == dict.fromkeys(days, fit)


def soak(make_place, seconds, chance, writers=3, most=6_000, longest=20, tell=lambda seen: None):
    """Run rounds, each in a ledger of its own, which is as long as one can look at again and again."""
    end, seen = time.monotonic() + seconds, Counter(rounds=0)
    while time.monotonic() < end:
        until = min(end, time.monotonic() + longest)  # an account that is full has few events
        seen += Counter(rounds=1) + run_round(make_place(), until, chance, writers, most)
        tell(seen)
    return seen


def plant(place, many, seed, threads=4):
    """Charge ranges that share one part with a full one, and others that do not; return how many were refused and admitted."""
    full = make_parted(place, account="planted", epsilon=1)
    full.reserve(Pure(epsilon=1), parts=PartRange(500, 500))
    cost = Pure(epsilon=Fraction(1, NANO))

    def charge(number):
        chance, refused, admitted = random.Random(seed + number), 0, 0
        ledger = Ledger.open(place, account="planted")
        for _ in range(number, many, threads):
            low, high = chance.randint(0, 500), chance.randint(500, 1_000)
            with pytest.raises(BudgetExceeded):
                ledger.reserve(cost, parts=PartRange(low, high))
            refused += 1
            low = chance.choice([chance.randint(0, 400), chance.randint(501, 900)])
            if chance.random() < 0.1:
                ledger.reserve(cost, parts=PartRange(low, low + chance.randint(0, 99)))
                admitted += 1
        return refused, admitted

    with ThreadPoolExecutor(threads) as pool:
        refused, admitted = map(sum, zip(*pool.map(charge, range(threads)), strict=True))
    check(full)
    return refused, admitted


def make_files(folder):
    """Return what names a new file for each round, where the last one is removed."""
    numbers = count()

    def name():
        for old in Path(folder).glob("round-*"):
            old.unlink()
        return str(Path(folder) / f"round-{next(numbers)}.db")

    return name


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_writers_of_parts_that_are_killed_leave_sums_that_hold(seconds, tmp_path):
    chance = random.Random(5)
    for make_place in (make_files(tmp_path), fresh):
        try:
            seen = soak(make_place, seconds, chance)
        except LedgerError as error:
            raise AssertionError(str(error)) from error
        assert seen["kills"] >= seconds
        assert seen["events"] > 20 * seconds


@pytest.mark.parametrize("many", [20, pytest.param(10_000, marks=pytest.mark.slow)])
def test_what_shares_a_full_part_is_refused_and_all_else_is_not(many, tmp_path):
    for place in (str(tmp_path / "budget.db"), fresh()):
        refused, admitted = plant(place, many, 6)
        assert refused == many
        assert 0 < admitted < many


def test_what_is_played_convicts_an_event_that_does_not_follow(tmp_path):
    ledger = make_parted(tmp_path / "budget.db", epsilon=1)
    ledger.close_parts(0)
    for _ in range(2):
        ledger.reserve(Pure(epsilon=Fraction(1, 2)), parts=PartRange(1, 2))
    ledger.reserve(Pure(epsilon=Fraction(1, 4)), parts=PartRange(3, 3)).settle()
    [account], events = table(ledger, ACCOUNT), table(ledger, EVENT)
    rows = {row["key"]: tuple(row.values())[1:] for row in table(ledger, PART)}

    def play(told, of=account, parts=rows):
        played = Played(account)
        for row in told:
            played.play(row)
        played.compare(of, parts, ZERO)

    full, reserved, settled = 3, 4, 5

    def change(at, **changed):
        return [*events[:at], events[at] | changed, *events[at + 1 :]]

    def move(key, *others):
        """Name other parts in the reservation of part 3."""
        said, new = f"+{key:08d}" * 2, "".join(f"+{other:08d}" * 2 for other in others)
        assert said in events[reserved]["sums"]
        return change(reserved, sums=events[reserved]["sums"].replace(said, new))

    assert [row["kind"] for row in events] == ["create", "close", *["reserve"] * 3, "settle"]
    play(events)
    for wrong in (
        change(full, amount=events[full]["amount"] + 1),  # more than the limit
        move(3, 2),  # a part that is full
        move(3, 0),  # a part that is closed
        move(3, 3, 3),  # a part twice
        change(reserved, charge=events[full]["charge"]),  # one charge twice
        change(settled, spent=events[settled]["spent"] - 1),  # a sum that is not the largest
        [*events[:2], *events[3:]],  # a number is missing
    ):
        with pytest.raises(AssertionError):
            play(wrong)
    with pytest.raises(AssertionError):
        play(events, parts=rows | {3: (1, 0, 0, 0)})
    with pytest.raises(AssertionError):
        play(events, of=account | {"spent": account["spent"] - 1})


if __name__ == "__main__":
    # From the folder of tests: python -m ledger.test_part_soak server|FOLDER SECONDS WRITERS PLANTED [SEED]
    seconds, writers, planted, seed = (*map(int, sys.argv[2:]), 5)[:4]
    began = time.monotonic()

    def tell(seen):
        said = ", ".join(f"{number:,} {name}" for name, number in seen.items())
        print(f"{writers} writers: {said}, {time.monotonic() - began:.0f} s", flush=True)

    with tempfile.TemporaryDirectory(dir=None if sys.argv[1] == "server" else sys.argv[1]) as name:
        make_place = fresh if sys.argv[1] == "server" else make_files(name)
        soak(make_place, seconds, random.Random(seed), writers, tell=tell)
        print("planted: {:,} refused, {:,} admitted".format(*plant(make_place(), planted, seed)))
