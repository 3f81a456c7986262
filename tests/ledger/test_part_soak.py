"""Writers of parts that are killed at any moment, in a file and on a server: what holds of an account with parts holds after each kill."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from fractions import Fraction

import pytest

from ledger.fakes import NANO, child, finished, raw
from ledger.parted import check, make_parted
from sordino.cost import ZCDP, Approximate, Pure
from sordino.errors import BudgetExceeded, LedgerConflict, LedgerError, RunTaken
from sordino.ledger import Ledger, PartRange
from sordino.ledger.store import postgres, sqlite
from support.postgres import fresh

DAYS = 12
BUDGETS = {"pure": {"epsilon": 3}, "either": {"epsilon": 3, "delta": 1e-6, "failures": 1e-7}}


def write(place, account, seed):
    """Charge at random, for ever: ranges, lists and the whole table, drawn or not, settled, given up or left."""
    chance = random.Random(seed)
    ledger = Ledger.open(place, account=account)
    kinds = [Pure] if ledger._pages.facts.meter == "pure" else [Pure, ZCDP, Approximate]
    while True:
        low = chance.randint(0, DAYS)
        parts = chance.choice(
            (
                None,
                PartRange(low, low),
                PartRange(low, low + 3),
                [PartRange(low, low), PartRange(low + 5, low + 6)],
            )
        )
        amount = Fraction(chance.randint(1, 30), 100)
        kind = chance.choice(kinds)
        cost = (
            Pure(epsilon=amount)
            if kind is Pure
            else ZCDP(rho=amount / 40)
            if kind is ZCDP
            else Approximate(epsilon=amount, delta=1e-10)
        )
        run = f"night {chance.randint(0, 40)}" if chance.random() < 0.2 else None
        try:
            charge = ledger.reserve(cost, parts=parts, run=run)
            if chance.random() < 0.5:
                charge.draw(cost)
            if chance.random() < 0.6:
                charge.settle()
            elif chance.random() < 0.5:
                ledger.void(charge.id, reason="its process died")
            if chance.random() < 0.02:
                ledger.grant(f"{account} {chance.randint(0, 3)}", Fraction(1, 100))
            if chance.random() < 0.01:
                ledger.close_parts(chance.randint(-3, 1))
        except (BudgetExceeded, LedgerConflict, RunTaken):
            time.sleep(0.001)


def soak(place, seconds, chance, writers=3):
    """Let writers run, kill one after the other at any moment, and look after each kill."""
    ledgers = [make_parted(place, account=name, **budget) for name, budget in BUDGETS.items()]
    end, kills = time.monotonic() + seconds, 0
    sqlite.close_all()
    postgres.close_waiting()

    def start(number):
        account = ledgers[number % 2].account
        return child(lambda: forever(account, number))

    def forever(account, number):
        signal.alarm(0)
        write(place, account, number)

    running = [start(number) for number in range(writers)]
    try:
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.05, 0.3))
            doomed = running.pop(0)
            os.kill(doomed, signal.SIGKILL)
            assert finished(doomed) == -signal.SIGKILL
            kills += 1
            for ledger in ledgers:
                assert ledger.verify().sound
            running.append(start(writers + kills))
    finally:
        for process in running:
            os.kill(process, signal.SIGKILL)
            finished(process)
    events = 0
    for ledger in ledgers:
        check(ledger)
        [(number,)] = raw(place, "SELECT number FROM ~account WHERE name = ?", ledger.account)
        events += number
        for share in ledger.statement().shares:
            check(Ledger.open(place, account=share))
        # Each run once (I10): its id is the key of the table, and its charge is one.
        runs = [line.id for line in ledger.statement().charges]
        assert len(set(runs)) == len(runs)
    # I7: what is left is admitted, to the last billionth, and not one more.
    pure = ledgers[0]
    for key in range(2, DAYS + 8):
        part = PartRange(key, key)
        left = pure.find_left(parts=part).share * 3
        if left:
            pure.reserve(Pure(epsilon=left), parts=part)
        with pytest.raises(BudgetExceeded):
            pure.reserve(Pure(epsilon=Fraction(1, NANO)), parts=part)
    check(pure)
    return kills, events


def plant(place, many, chance):
    """Charge ranges that share one part with a full one, and others that do not; return how many were refused and admitted."""
    ledger = make_parted(place, account="planted", epsilon=1)
    ledger.reserve(Pure(epsilon=1), parts=PartRange(500, 500))
    cost, refused, admitted = Pure(epsilon=Fraction(1, NANO)), 0, 0
    for _ in range(many):
        low, high = chance.randint(0, 500), chance.randint(500, 1_000)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(cost, parts=PartRange(low, high))
        refused += 1
        low = chance.choice([chance.randint(0, 400), chance.randint(501, 900)])
        if chance.random() < 0.1:
            ledger.reserve(cost, parts=PartRange(low, low + chance.randint(0, 99)))
            admitted += 1
    check(ledger)
    return refused, admitted


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_writers_of_parts_that_are_killed_leave_sums_that_hold(seconds, tmp_path):
    chance = random.Random(5)
    for place in (str(tmp_path / "budget.db"), fresh()):
        try:
            kills, events = soak(place, seconds, chance)
        except LedgerError as error:
            raise AssertionError(str(error)) from error
        assert kills >= seconds
        assert events > 10 * seconds


@pytest.mark.parametrize("many", [20, pytest.param(2_000, marks=pytest.mark.slow)])
def test_what_shares_a_full_part_is_refused_and_all_else_is_not(many, tmp_path):
    refused, admitted = plant(str(tmp_path / "budget.db"), many, random.Random(6))
    assert refused == many
    assert 0 < admitted < many


if __name__ == "__main__":
    # From the folder of tests: python -m ledger.test_part_soak PLACE SECONDS WRITERS PLANTED
    place = fresh() if sys.argv[1] == "server" else sys.argv[1]
    seconds, writers, planted = map(int, sys.argv[2:])
    began = time.monotonic()
    kills, events = soak(place, seconds, random.Random(5), writers)
    print(f"{writers} writers, {kills} kills, {events:,} events, {time.monotonic() - began:.0f} s")
    print("planted: {:,} refused, {:,} admitted".format(*plant(place, planted, random.Random(6))))
