"""Charges by many writers, round after round: nothing overspent, nothing that was drawn lost, every ledger sound."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from soak import twins
from soak.happenings import KINDS, possible
from soak.places import (
    FilePlace,
    Place,
    ServerPlace,
    own_mounts,
    remove_small_disk,
    scratch,
    small_disk,
)
from soak.rounds import Plan, Round
from sordino.errors import LedgerError
from support.postgres import started_server

FOLDER = Path("build/soak")
ORDER = ("memory", "server", "memory", "disk")
"""Where one round after the other keeps its ledger."""
LAST = 0.8
"""The part of the time that is left in which a round charges; in the rest it is judged."""


def run(arguments: list[str]) -> int:
    """Run what the arguments say; 1 if something was found."""
    asked = _arguments(arguments)
    seed = int(time.time()) if asked.seed is None else asked.seed
    folder = Path(asked.folder)
    folder.mkdir(parents=True, exist_ok=True)
    if asked.broken is not None:
        asked.kinds = asked.kinds or twins.KINDS.get(asked.broken)
        twins.install(asked.broken)
    places = asked.places or (twins.PLACES[asked.broken] if asked.broken else ORDER)
    with ExitStack() as stack:
        work = stack.enter_context(scratch())
        return _Slice(asked, seed, folder, tuple(places), work, stack).run()


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak charges", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long, all rounds together")
    parser.add_argument("--rounds", type=int, help="at most so many rounds")
    parser.add_argument(
        "--charges", type=int, default=25_000, help="a round ends after so many attempts"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="a round ends after so many seconds"
    )
    parser.add_argument(
        "--pause", type=float, default=0.6, help="seconds between two disturbances, on average"
    )
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument(
        "--processes", type=int, default=8, help="processes that the writers are threads of"
    )
    parser.add_argument(
        "--seed",
        type=int,
        help="what is chosen; instants are never the same. By default, what the clock says",
    )
    parser.add_argument(
        "--places",
        nargs="+",
        choices=sorted({*ORDER}),
        help="where ledgers are kept, one round after the other",
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, help="let only these things happen")
    parser.add_argument(
        "--everything",
        action="store_true",
        help="let each thing happen at least once in each round",
    )
    parser.add_argument(
        "--broken",
        choices=sorted(twins.TWINS),
        help="break the library on purpose, and stop when that is found",
    )
    parser.add_argument(
        "--folder",
        default=str(FOLDER),
        help="where results are added up, and what is found is kept",
    )
    asked = parser.parse_args(arguments)
    if asked.writers % asked.processes:
        parser.error("--writers must be a multiple of --processes")
    return asked


class _Slice:
    """Rounds until the time is over."""

    def __init__(
        self,
        asked: Any,
        seed: int,
        folder: Path,
        places: tuple[str, ...],
        work: Path,
        stack: ExitStack,
    ) -> None:
        self.asked, self.seed, self.folder, self.order, self.work = (
            asked,
            seed,
            folder,
            places,
            work,
        )
        self.begun = time.monotonic()
        self.end = self.begun + 60 * asked.minutes
        self.total: Counter[str] = Counter()
        # First of all: a process with threads may not do it, and a server that is started later is to see it too.
        self.small = own_mounts()
        self.places = {name: self.place(name, work, stack) for name in dict.fromkeys(places)}

    def place(self, name: str, work: Path, stack: ExitStack) -> Place:
        """Make a place, if possible in a small file system of its own; what is on the disk has to do without."""
        if name == "disk":
            return FilePlace(
                name, Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.folder)))
            )
        folder = work / name
        folder.mkdir()
        small = self.small and small_disk(name, folder)
        if small:
            stack.callback(remove_small_disk, folder)
        if name == "memory":
            return FilePlace(name, folder, small=small)
        folder.chmod(0o777)
        tempfile.tempdir = str(folder)  # where servers of the tests are made
        try:
            return ServerPlace(stack.enter_context(started_server()), small=small)
        finally:
            tempfile.tempdir = None

    def run(self) -> int:
        full = "a file system of its own" if self.small else "a limit on the size of files"
        print(
            f"seed {self.seed}, {self.asked.minutes:g} minutes, {self.asked.writers} writers in {self.asked.processes} processes; "
            f"places {', '.join(self.order)}; full disks in memory are {full}",
            flush=True,
        )
        number = 0
        while (
            seconds := min(self.asked.seconds, LAST * (self.end - time.monotonic()))
        ) > 0 and number != self.asked.rounds:
            if number and seconds < min(2.0, self.asked.seconds):
                break
            found = self.one(number, self.order[number % len(self.order)], seconds)
            number += 1
            if found:
                break
        return self.tell()

    def one(self, number: int, name: str, seconds: float) -> bool:
        """Run one round, keep its figures; tell whether something was found."""
        asked, place = self.asked, self.places[name]
        plan = Plan(
            number,
            self.seed,
            writers=asked.writers,
            processes=asked.processes,
            charges=asked.charges,
            seconds=seconds,
            pause=asked.pause,
            kinds=None if asked.kinds is None else tuple(asked.kinds),
            everything=asked.everything,
        )
        place.clear()
        work = self.work / f"round-{number}"
        work.mkdir()
        round_ = Round(plan, place, work)
        try:
            round_.run(possible(place))
        except LedgerError as error:  # the ledger cannot even be looked at: that is a finding, and its place the evidence
            round_.verdict.found("unusable", f"{type(error).__name__}: {error}")
        verdict = round_.verdict
        round_.counts.update(
            overspent=verdict.overspent, lost=verdict.lost, unsound=verdict.unsound
        )
        round_.counts["findings"] = sum(verdict.counts.values())
        after = time.monotonic() - self.begun
        line = {
            "seed": self.seed,
            "round": number,
            "place": name,
            "broken": asked.broken,
            "after": round(after, 1),
        }
        line |= {"writers": asked.writers, "counts": dict(round_.counts), "found": verdict.told}
        with (self.folder / "charges.jsonl").open("a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")
        self.total.update(round_.counts)
        shown = ", ".join(f"{what} {count}" for what, count in sorted(round_.counts.items()))
        print(f"round {number}, {name}: {shown}", flush=True)
        for told in verdict.told:
            print(f"  FOUND {told}", flush=True)
        if not verdict.clean:
            print(f"  after {after:.1f} s; kept in {self.keep(round_)}", flush=True)
        shutil.rmtree(work)
        return not verdict.clean

    def keep(self, round_: Round) -> Path:
        """Keep the witness and the ledger of a round in which something was found."""
        kept = self.folder / f"found-{self.seed}-{round_.plan.number}-{os.getpid()}"
        shutil.copytree(round_.heard, kept / "witness")
        if isinstance(round_.place, FilePlace):
            shutil.copytree(round_.place.path.parent, kept / "ledger")
        return kept

    def tell(self) -> int:
        """Say what this slice did, and all of this folder."""
        print(f"this slice: {_line(self.total)}")
        if self.asked.broken is None:
            print(f"all slices: {_line(added_up(self.folder))}")
        return int(bool(self.total["findings"]))


def added_up(folder: Path) -> Counter[str]:
    """Return the sums of all rounds of a folder that broke nothing on purpose."""
    total: Counter[str] = Counter()
    for text in (folder / "charges.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if line["broken"] is None:
            total.update(line["counts"])
            total.update(
                {"rounds": 1, f"charges, {line['place']}": line["counts"].get("charges", 0)}
            )
    return total


def _line(total: Counter[str]) -> str:
    names = (
        "charges",
        "draws",
        "kills",
        "restarts",
        "full disks",
        "moves",
        "moves alone",
        "clocks",
        "backups",
        "refused",
    )
    did = ", ".join(f"{total[name]} {name}" for name in names)
    return (
        f"{did}; {total['overspent']} overspent, {total['lost']} drawn charges lost, "
        f"verify sound {total['verified']} of {total['accounts']}, {total['findings']} findings"
    )


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
