"""Kill the process between any two statements: the ledger never says that less was spent than may have been released."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from ledger.fakes import (
    REAL,
    Marking,
    Mechanism,
    child,
    finished,
    in_child,
    in_threads,
    make,
    spent,
)
from ledger.faults import COMMITTED, Counter
from ledger.operations import REALLY, RESERVED, WORST, happened, prepare
from sordino.cost import Pure
from sordino.errors import BudgetExceeded
from sordino.ledger import Ledger
from sordino.ledger.store import sqlite

KILLED = -9
NAMES = ("reserve", "draw", "settle", "void", "keep", "create", "entrust", "grant", "resource")


def charge_once(ledger: Ledger, mark: Path, unit: Fraction = Fraction(1)) -> None:
    with ledger.reserve(Pure(epsilon=RESERVED * unit)) as charge:
        charge.release(Marking(WORST * unit, REALLY * unit, mark), [1], entropy=REAL)


def boundaries_of(do: Callable[[], object]) -> list[str]:
    """Return the name of every boundary between statements, opening the file included."""
    counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        counter.install(patch.setattr)
        do()
    sqlite.close_all()
    return counter.seen


def opened(path: Path, epsilon: Fraction = Fraction(1)) -> Ledger:
    """Return a new ledger that has been looked at, so that its charges begin with their first write."""
    ledger = make(path, epsilon)
    assert ledger.remaining == epsilon
    return ledger


def boundaries(tmp_path: Path) -> list[str]:
    ledger = opened(tmp_path / "dry.db")
    return boundaries_of(lambda: charge_once(ledger, tmp_path / "dry"))


SOME = pytest.mark.parametrize(
    "stride", [4, pytest.param(1, marks=pytest.mark.slow)]
)  # 1: every boundary


@SOME
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sample(8)
def test_a_kill_at_every_boundary_is_all_or_nothing(tmp_path, name, stride):
    dry = prepare(name, make(tmp_path / "dry.db"), tmp_path / "dry")
    names = boundaries_of(dry.do)
    commit = max(k for k, boundary in enumerate(names) if boundary == COMMITTED)
    assert commit >= 12
    for fatal in sorted({*range(0, len(names), stride), *range(commit - 2, len(names))}):
        ledger, mark = make(tmp_path / f"{fatal}.db"), tmp_path / f"{fatal}"

        def killed(fatal=fatal, ledger=ledger, mark=mark):
            struck = prepare(name, ledger, mark)
            Counter(fatal).install()
            struck.do()
            sqlite.close_all()

        assert in_child(killed) == KILLED, names[fatal]
        # A process that dies right after its COMMIT has committed; right before it, it has not.
        done = fatal >= commit
        assert spent(ledger) == (dry.after if done else dry.before), names[fatal]
        assert happened(name, ledger) == done, names[fatal]
        drawn = {"draw": done and fatal > commit, "settle": True, "void": True, "keep": True}.get(
            name, False
        )
        assert mark.exists() == drawn, names[fatal]  # no noise before its draw is committed
        charge_once(ledger, tmp_path / "next")
        assert spent(ledger) == (dry.after if done else dry.before) + REALLY


@SOME
def test_a_kill_while_a_file_is_made_leaves_one_or_none(tmp_path, stride):
    names = boundaries_of(lambda: make(tmp_path / "dry.db"))
    built, made = (k for k, boundary in enumerate(names) if boundary == COMMITTED)
    assert len(names) > 20
    for fatal in sorted({*range(0, len(names), stride), built - 1, built, made - 1, made}):
        path = tmp_path / f"{fatal}.db"

        def killed(fatal=fatal, path=path):
            Counter(fatal).install()
            make(path)
            sqlite.close_all()

        assert in_child(killed) == KILLED
        if fatal >= built:
            assert Ledger.accounts(path) == (("orders",) if fatal >= made else ())
        ledger = Ledger.open(path, account="orders") if fatal >= made else make(path)
        charge_once(ledger, tmp_path / "mark")
        assert spent(ledger) == REALLY


def storm(jobs: list[Callable[[], None]], lanes: int) -> list[int]:
    """Run the jobs in forked processes, `lanes` at a time; return how each ended."""
    codes: dict[int, int] = {}
    running: dict[int, int] = {}
    for number, job in enumerate(jobs):
        if len(running) == lanes:
            process = next(
                iter(running)
            )  # not os.wait: the tests have a server that is their child too
            codes[running.pop(process)] = finished(process)
        running[child(job)] = number
    for process, number in running.items():
        codes[number] = finished(process)
    return [codes[number] for number in range(len(jobs))]


def many(
    ledger: Ledger, mark: Path, charges: int, unit: Fraction, fatal: int | None = None
) -> Callable[[], None]:
    """Return a job of whole charges, then one that is killed at a boundary."""

    def run() -> None:
        for _ in range(charges):
            try:
                charge_once(ledger, mark, unit)
            except BudgetExceeded:
                continue
        if fatal is not None:
            Counter(fatal, mark.with_name(f"will-{os.getpid()}")).install()
            charge_once(ledger, mark, unit)
            sqlite.close_all()

    return run


def left_by_the_killed(tmp_path: Path) -> list[Fraction]:
    """Return what each killed process left charged."""
    wills = [int(path.read_text()) for path in tmp_path.glob("will-*")]
    return [(Fraction(0), RESERVED, RESERVED, REALLY)[committed] for committed in wills]


def test_a_storm_of_kills_never_loses_a_charge(tmp_path):
    names = boundaries(tmp_path)
    unit = Fraction(1, 100)
    ledger = opened(tmp_path / "budget.db")
    doomed = [many(ledger, tmp_path / "mark", 0, unit, fatal) for fatal in range(len(names))]
    random.Random(7).shuffle(doomed)
    alive = [many(ledger, tmp_path / "mark", 20, unit)] * 4
    assert storm(doomed + alive, 4) == [KILLED] * len(names) + [0] * 4
    left = left_by_the_killed(tmp_path)
    assert (len(left), set(left)) == (len(names), {0, RESERVED, REALLY})
    assert spent(ledger) == (sum(left) + 80 * REALLY) * unit


@pytest.mark.slow
def test_1000_kills_of_8_processes_at_random_boundaries(tmp_path):
    names = boundaries(tmp_path)
    unit = Fraction(1, 2000)
    ledger, chance = opened(tmp_path / "budget.db"), random.Random(7)
    fatal = [chance.randrange(len(names)) for _ in range(1000)]
    jobs = [
        many(ledger, tmp_path / "mark", k % 2, unit, boundary) for k, boundary in enumerate(fatal)
    ]
    assert storm(jobs, 8) == [KILLED] * 1000
    left = left_by_the_killed(tmp_path)
    assert (len(left), set(left)) == (1000, {0, RESERVED, REALLY})
    assert spent(ledger) == (sum(left) + 500 * REALLY) * unit


@pytest.mark.slow
def test_1600_charges_of_8_processes_into_room_for_1200_with_a_kill_at_every_boundary(tmp_path):
    count = len(boundaries(tmp_path))
    each = Fraction(1, 1200)  # 833333.33 nano, charged as 833334
    ledger = opened(tmp_path / "budget.db", Fraction(833334 * 1200, 10**9))

    def job(charges: int, fatal: int | None) -> Callable[[], None]:
        def run() -> None:
            for number in range(charges):
                if number == charges - 1 and fatal is not None:
                    Counter(fatal).install()
                try:
                    with ledger.reserve(Pure(epsilon=each)) as charge:
                        charge.release(Mechanism(each), [1], entropy=REAL)
                except BudgetExceeded:
                    continue
            sqlite.close_all()

        return run

    fatal_order = random.Random(7).sample(range(count), count)
    before = (1200 - 8) // count  # every killed process dies while there is still room
    rest = 1600 - count * before
    jobs = [job(before, fatal) for fatal in fatal_order] + [job(rest // 8, None)] * 8
    assert storm(jobs[:count], 8) == [KILLED] * count
    assert storm(jobs[count:], 8) == [0] * 8
    statement = ledger.statement()
    assert spent(ledger) == statement.limit
    assert len(statement.charges) == 1200
    assert {line.charged for line in statement.charges} == {Fraction(833334, 10**9)}
    unfinished = sum(line.state != "settled" for line in statement.charges)
    assert 0 < unfinished < count


@pytest.mark.slow
def test_a_storm_with_refunds_never_overspends(tmp_path):
    count = len(boundaries(tmp_path))
    unit = Fraction(1, 300)
    ledger = opened(tmp_path / "budget.db")
    jobs = [many(ledger, tmp_path / "mark", 10, unit, fatal) for fatal in range(count)] + [
        many(ledger, tmp_path / "mark", 500, unit)
    ] * 8
    assert storm(jobs, 8) == [KILLED] * count + [0] * 8
    assert (
        spent(ledger) > 1 - RESERVED * unit * 9
    )  # it was used up, and what was not spent came back


@pytest.mark.slow
def test_forks_beside_a_busy_thread_lose_no_charge(place):
    """A connection that is open during a fork would make the child lose what it commits, or speak for its parent."""
    ledger = make(place, 10)
    stop, charged = threading.Event(), []

    def keep_charging():
        while not stop.is_set():
            charged.append(ledger.reserve(Pure(epsilon=Fraction(1, 10**6))).id)

    thread = threading.Thread(target=keep_charging)
    thread.start()
    try:
        processes = [
            child(lambda: [ledger.reserve(Pure(epsilon=Fraction(1, 10**6))) for _ in range(5)])
            for _ in range(20)
        ]
        codes = [finished(process) for process in processes]
    finally:
        stop.set()
        thread.join()
    assert codes == [0] * 20
    assert spent(ledger) == Fraction(100 + len(charged), 10**6)
    assert set(charged) <= {line.id for line in ledger.statement().charges}


def test_threads_share_a_ledger(place, tmp_path):
    ledger = make(place, Fraction(1200, 10**6))

    def run():
        for _ in range(10):
            charge_once(ledger, tmp_path / "mark", Fraction(1, 10**6))

    in_threads([run] * 4)
    assert len(ledger.statement().charges) == 40
    assert spent(ledger) == 40 * REALLY / 10**6
