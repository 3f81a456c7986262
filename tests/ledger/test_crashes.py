"""Kill the process between any two statements: the ledger never says that less was spent than may have been released."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from ledger.fakes import REAL, Counter, Marking, Mechanism, child, finished, in_child, make, spent
from sordino.cost import Pure
from sordino.errors import BudgetExceeded
from sordino.ledger import Ledger

RESERVED, WORST, REALLY = Fraction(5, 10), Fraction(3, 10), Fraction(1, 10)
KILLED = -9


def charge_once(ledger: Ledger, mark: Path, unit: Fraction = Fraction(1)) -> None:
    with ledger.reserve(Pure(epsilon=RESERVED * unit)) as charge:
        charge.release(Marking(WORST * unit, REALLY * unit, mark), [1], entropy=REAL)


def boundaries(tmp_path: Path) -> list[str]:
    """Return the name of every boundary between statements of one whole charge."""
    ledger, counter = make(tmp_path / "dry.db"), Counter()
    assert ledger.remaining == 1
    with pytest.MonkeyPatch.context() as patch:
        counter.install(patch.setattr)
        charge_once(ledger, tmp_path / "dry")
    return counter.seen


def test_a_kill_at_every_boundary_leaves_at_least_what_may_have_been_released(tmp_path):
    names = boundaries(tmp_path)
    commits = [k for k, name in enumerate(names) if name == "after COMMIT"]
    assert len(commits) == 3
    assert len(names) > 40
    for fatal, name in enumerate(names):
        ledger, mark = make(tmp_path / f"{fatal}.db"), tmp_path / f"{fatal}"
        assert ledger.remaining == 1

        def killed(fatal=fatal, ledger=ledger, mark=mark):
            Counter(fatal).install()
            charge_once(ledger, mark)

        assert in_child(killed) == KILLED, name
        # A process that dies right after its COMMIT has committed; right before it, it has not.
        done = sum(fatal >= commit for commit in commits)
        assert spent(ledger) == [0, RESERVED, RESERVED, REALLY][done], name
        assert mark.exists() <= (done >= 2), name  # no noise before its draw is committed
        assert mark.exists() >= (done >= 3), name
        lines = ledger.statement().charges
        assert [(line.state, line.drawn) for line in lines] == [
            [],
            [("reserved", 0)],
            [("drawn", WORST)],
            [("settled", WORST)],
        ][done], name
        charge_once(ledger, tmp_path / "next")
        assert spent(ledger) == [0, RESERVED, RESERVED, REALLY][done] + REALLY


def test_a_kill_while_a_ledger_is_made_leaves_one_or_none(tmp_path):
    counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        counter.install(patch.setattr)
        make(tmp_path / "dry.db")
    for fatal in range(len(counter.seen)):
        path = tmp_path / f"{fatal}.db"

        def killed(fatal=fatal, path=path):
            Counter(fatal).install()
            make(path)

        assert in_child(killed) == KILLED
        made = fatal >= counter.seen.index("after COMMIT")
        ledger = Ledger.open(path, account="orders") if made else make(path)
        charge_once(ledger, tmp_path / "mark")
        assert spent(ledger) == REALLY


def storm(ledger: Ledger, jobs: list[Callable[[], None]], lanes: int) -> list[int]:
    """Run the jobs in forked processes, `lanes` at a time; return how each ended."""
    codes: dict[int, int] = {}
    running: dict[int, int] = {}
    for number, job in enumerate(jobs):
        if len(running) == lanes:
            process, status = os.wait()
            codes[running.pop(process)] = os.waitstatus_to_exitcode(status)
        running[child(job)] = number
    for process, number in running.items():
        codes[number] = finished(process)
    return [codes[number] for number in range(len(jobs))]


def many(ledger: Ledger, mark: Path, charges: int, unit: Fraction, fatal: int | None = None) -> Callable[[], None]:
    """Return a job of whole charges, then one that is killed at a boundary."""

    def run() -> None:
        for _ in range(charges):
            try:
                charge_once(ledger, mark, unit)
            except BudgetExceeded:
                continue
        if fatal is not None:
            Counter(fatal).install()
            charge_once(ledger, mark, unit)

    return run


def test_a_storm_of_kills_never_loses_a_charge(tmp_path):
    names = boundaries(tmp_path)
    unit = Fraction(1, 100)
    ledger = make(tmp_path / "budget.db")
    assert ledger.remaining == 1
    doomed = [many(ledger, tmp_path / "mark", 0, unit, fatal) for fatal in range(len(names))]
    random.Random(7).shuffle(doomed)
    alive = [many(ledger, tmp_path / "mark", 20, unit)] * 4
    assert storm(ledger, doomed + alive, 4) == [KILLED] * len(names) + [0] * 4
    left = [[0, RESERVED, RESERVED, REALLY][names[: fatal + 1].count("after COMMIT")] for fatal in range(len(names))]
    assert spent(ledger) == (sum(left) + 80 * REALLY) * unit


@pytest.mark.slow
def test_1600_charges_of_8_processes_into_room_for_1200_with_a_kill_at_every_boundary(tmp_path):
    count = len(boundaries(tmp_path))
    each = Fraction(1, 1200)  # 833333.33 nano, charged as 833334
    ledger = make(tmp_path / "budget.db", Fraction(833334 * 1200, 10**9))
    assert ledger.remaining > 0

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

        return run

    fatal_order = random.Random(7).sample(range(count), count)
    before = (1200 - 8) // count  # every killed process dies while there is still room
    rest = 1600 - count * before
    jobs = [job(before, fatal) for fatal in fatal_order] + [job(rest // 8, None)] * 8
    assert storm(ledger, jobs[:count], 8) == [KILLED] * count
    assert storm(ledger, jobs[count:], 8) == [0] * 8
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
    ledger = make(tmp_path / "budget.db")
    assert ledger.remaining == 1
    jobs = [many(ledger, tmp_path / "mark", 10, unit, fatal) for fatal in range(count)] + [
        many(ledger, tmp_path / "mark", 300, unit)
    ] * 8
    assert storm(ledger, jobs, 8) == [KILLED] * count + [0] * 8
    assert spent(ledger) > 1 - RESERVED * unit * 9  # it was used up, and what was not spent came back


def test_forks_beside_a_busy_thread_lose_no_charge(tmp_path):
    """A connection that is open during a fork would make the child lose what it commits."""
    ledger = make(tmp_path / "budget.db", 10)
    stop, charged = threading.Event(), []

    def keep_charging():
        while not stop.is_set():
            ledger.reserve(Pure(epsilon=Fraction(1, 10**6)))
            charged.append(1)

    thread = threading.Thread(target=keep_charging)
    thread.start()
    try:
        processes = [child(lambda: [ledger.reserve(Pure(epsilon=Fraction(1, 10**6))) for _ in range(5)]) for _ in range(20)]
        codes = [finished(process) for process in processes]
    finally:
        stop.set()
        thread.join()
    assert codes == [0] * 20
    assert spent(ledger) == Fraction(100 + len(charged), 10**6)


def test_threads_share_a_ledger(tmp_path):
    ledger = make(tmp_path / "budget.db", Fraction(1200, 10**6))

    def run():
        for _ in range(10):
            charge_once(ledger, tmp_path / "mark", Fraction(1, 10**6))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.statement().charges) == 40
    assert spent(ledger) == 40 * REALLY / 10**6
