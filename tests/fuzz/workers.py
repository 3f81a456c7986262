"""Several processes that look at cases; one that dies, or does not come back, has found something, too."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

from fuzz import broken, databases, engines, spark_tables
from fuzz.cases import Case, from_text, to_text
from fuzz.checks import Finding, Seen, Unwritable, examine, use_home
from fuzz.found import keep, signature, smaller
from fuzz.generate import make_case
from fuzz.looked_up import count_tables

PATIENCE = 180.0
"""After so many seconds at one case a process is taken to be lost."""

RENEWED = 500
"""So often engines that are shared by cases are closed."""

FRESH = 50
"""One case in so many opens engines of its own."""

ONE_TABLE = 3
"""Of databases of one table, which are most, one in so many is looked at where units leave and come."""

TOLD = 60.0
"""Seconds between two lines about how far it is."""


@dataclass(frozen=True)
class Found:
    """A finding: the seed of its case, when it was found, which breach it looks like, and the smallest case."""

    seed: int
    seconds: float
    cases: int
    like: str
    finding: Finding
    text: str | None = None
    path: Path | None = None


@dataclass
class Summary:
    """What was looked at, and found."""

    cases: int = 0
    tables: int = 0
    walked: int = 0
    neighbors: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)

    def add(self, other: Summary) -> None:
        """Add what another process looked at."""
        self.cases += other.cases
        self.tables += other.tables
        self.walked += other.walked
        self.neighbors += other.neighbors
        self.processor += other.processor
        self.kinds.update(other.kinds)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What all processes are asked to do."""

    seed: int
    minutes: float
    most: int | None
    processes: int
    server: str | None
    spark: str | None = None
    several: bool = False
    walks: bool = False
    broken: str | None
    shrinking: float
    stop: bool
    folder: Path
    home: Path


def look(work: Work) -> Summary:
    """Look at cases for some minutes, or at so many of them, and keep what is found."""
    return _Watch(work).run()


class _Watch:
    """Starts processes, hears what they say, and starts another one where one is lost."""

    def __init__(self, work: Work) -> None:
        self.work, self.begun = work, time.monotonic()
        self.context = multiprocessing.get_context("spawn")
        self.said: Any = self.context.Queue()
        self.summary, self.known = Summary(), set[Any]()
        self.at = [self.context.Value("q", -1) for _ in range(work.processes)]
        self.moved = [(-1, self.begun)] * work.processes
        self.running: dict[int, Any] = {}

    def run(self) -> Summary:
        for place in range(self.work.processes):
            self.start(place, self.work.seed * 10_000_000 + place)
        told = self.begun
        while self.running and not (self.work.stop and self.summary.found):
            try:
                self.hear(*self.said.get(timeout=1.0))
            except Empty:
                self.look_after()
            if time.monotonic() > told + TOLD:
                told = time.monotonic()
                print(
                    f"{told - self.begun:.0f} s: {self.summary.cases} cases, {self.summary.neighbors} neighbors, "
                    f"{len(self.summary.found)} findings",
                    file=sys.stderr,
                )
        for one in self.running.values():
            one.terminate()
            one.join()
        self.summary.seconds = time.monotonic() - self.begun
        return self.summary

    def start(self, place: int, first: int) -> None:
        end = self.begun + 60 * self.work.minutes
        one = self.context.Process(
            target=_work, args=(self.work, first, end, self.said, self.at[place]), daemon=True
        )
        self.running[place] = one
        self.moved[place] = (-1, time.monotonic())
        one.start()

    def hear(self, looked: Summary, found: Found | None, mark: Any) -> None:
        self.summary.add(looked)
        if found is None or mark in self.known:
            return
        self.known.add(mark)
        path = (
            None
            if found.text is None
            else keep(from_text(found.text), found.finding, self.work.folder)
        )
        # At once: who waits for the end of a long look would learn it late.
        print(f"found, seed {found.seed}: {found.finding}", file=sys.stderr)
        seconds = found.seconds - self.begun
        self.summary.found.append(
            Found(
                found.seed, seconds, self.summary.cases, found.like, found.finding, found.text, path
            )
        )

    def look_after(self) -> None:
        for place, one in list(self.running.items()):
            now = self.at[place].value
            if now != self.moved[place][0]:
                self.moved[place] = (now, time.monotonic())
            lost = time.monotonic() - self.moved[place][1] > PATIENCE + self.work.shrinking
            if one.is_alive() and not lost:
                continue
            if lost:
                one.kill()
            one.join()
            del self.running[place]
            if one.exitcode != 0:
                what = "it does not come back" if lost else f"it ends with code {one.exitcode}"
                seconds = time.monotonic() - self.begun
                finding = Finding("a process is lost", what)
                self.summary.found.append(Found(now, seconds, self.summary.cases, "None", finding))
                self.start(place, now + self.work.processes)


def _work(work: Work, first: int, end: float, said: Any, at: Any) -> None:
    """Look at every so-manieth case, from the first one on."""
    use_home(work.home)
    if work.server is not None:
        databases.use_server(work.server)
    if work.spark is not None:
        spark_tables.use_spark(work.spark)
    if work.broken is not None:
        broken.install(work.broken)
    known: set[Any] = set()
    looked, spent, number = Summary(), time.process_time(), first
    total = 0
    parent = multiprocessing.parent_process()
    while time.monotonic() < end and (work.most is None or total * work.processes < work.most):
        if parent is not None and not parent.is_alive():
            return  # it was killed: nobody will read what is found
        at.value = number
        case = make_case(number, None if work.spark is None else "spark")
        number += work.processes
        if case.source["kind"] == "postgres" and work.server is None:
            continue
        tables = count_tables(case.source)
        if tables == 1 and (work.several or (work.walks and number % ONE_TABLE)):
            continue
        total += 1
        seen = _seen(case, pool=total % FRESH > 0, walks=work.walks)
        looked.cases += 1
        looked.tables += seen.tables
        looked.walked += seen.walked
        looked.neighbors += seen.neighbors
        looked.kinds[case.source["kind"], "answered" if seen.answered else "refused"] += 1
        looked.kinds[
            f"question of {case.question.kind}", "with where" if case.question.where else "without"
        ] += 1
        looked.kinds[f"databases of {tables} tables", "asked"] += seen.tables
        if work.walks:
            looked.kinds[f"neighbors of {tables} tables", "asked"] += seen.neighbors
        case = seen.case or case
        mark = None if seen.finding is None else signature(case, seen.finding)
        # Where one mend is taken out, another breach is not what is looked for.
        meant = work.broken is None or (mark is not None and broken.is_meant(work.broken, mark[0]))
        fresh = mark is not None and mark not in known and meant
        if fresh or looked.cases >= 20:
            now = time.process_time()
            looked.processor, spent = now - spent, now
            found = _smallest(work, case, seen, mark) if fresh else None
            said.put((looked, found, mark))
            looked = Summary()
            known.add(mark)
        if total % RENEWED == 0:
            engines.forget()
    looked.processor = time.process_time() - spent
    said.put((looked, None, None))


def _seen(case: Case, *, pool: bool, walks: bool) -> Seen:
    try:
        return examine(case, pool=pool, thorough=False, walks=walks)
    except Unwritable as error:
        return Seen(Finding("the fuzzer fails", str(error)), 0, answered=False)


def _smallest(work: Work, case: Case, seen: Seen, mark: Any) -> Found:
    seconds = time.monotonic()
    if seen.finding is None or seen.finding.law == "the fuzzer fails":
        return Found(case.seed or 0, seconds, 0, mark[0], seen.finding or Finding("", ""))
    least, finding = smaller(case, seen.finding, seconds=work.shrinking)
    return Found(case.seed or 0, seconds, 0, mark[0], finding, to_text(least, str(finding)))
