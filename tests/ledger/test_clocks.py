"""Clocks that jump: nothing but the text of an event knows the time."""

from __future__ import annotations

import random
import time
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from fractions import Fraction

import pytest

from ledger.fakes import REAL, Mechanism, child, finished, make, spent
from sordino import receipt
from sordino.cost import Pure
from sordino.ledger import Ledger

TINY = Fraction(1, 10**6)


def jumping(seed):
    """Return a clock that shows another year, between the first and the last there is, every time it is asked."""
    chance = random.Random(seed)

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(
                chance.choice([MINYEAR, 1969, 1970, 2038, MAXYEAR]),
                1 + chance.randrange(12),
                1,
                tzinfo=UTC,
            )

    return Clock


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sample(4)
def test_every_event_may_have_another_year(place, monkeypatch, seed):
    ledger = make(place)
    monkeypatch.setattr(receipt, "datetime", jumping(seed))
    for _ in range(10):
        with ledger.reserve(Mechanism(0.01)) as charge:
            charge.release(Mechanism(0.01, spends=0.005), [1], entropy=REAL)
    ledger.void(ledger.reserve(Mechanism(0.1)).id, reason="test")
    ledger.grant("team", 0.1)
    assert spent(ledger) == Fraction(15, 100)
    times = [event.time for event in ledger.history()]
    assert times != sorted(times)
    assert [event.number for event in ledger.history()] == list(range(1, len(times) + 1))
    assert len(ledger.statement().charges) == 11


@pytest.mark.slow
def test_writers_whose_clocks_disagree_share_a_ledger(place):
    ledger = make(place)

    def write(years):
        shift = years * 31_557_600
        real, real_ns = time.time, time.time_ns
        time.time, time.time_ns = lambda: real() + shift, lambda: real_ns() + shift * 10**9
        receipt.datetime = jumping(years)
        for _ in range(10):
            with ledger.reserve(Pure(epsilon=TINY)) as charge:
                charge.draw(Pure(epsilon=TINY))

    writers = [child(lambda years=years: write(years)) for years in (-70, -1, 0, 1, 100)]
    assert [finished(writer) for writer in writers] == [0] * 5
    assert spent(Ledger.open(place, account="orders")) == 50 * TINY


def test_a_clock_that_stands_still_or_runs_back_ends_no_waiting(tmp_path, monkeypatch):
    """Waiting for a lock is measured by a clock that nobody can set."""
    ledger = make(tmp_path / "budget.db")
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    writers = [
        child(lambda: [ledger.reserve(Pure(epsilon=TINY)) for _ in range(5)]) for _ in range(4)
    ]
    assert [finished(writer) for writer in writers] == [0] * 4
    assert spent(ledger) == 20 * TINY
