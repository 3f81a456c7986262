"""What happens to writers, files and servers while they charge."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from soak import tables, witness
from soak.amounts import Sums
from soak.places import FilePlace, ServerPlace
from soak.referee import judge_copy
from soak.rounds import Round, give_up, granted, terminate
from sordino.errors import LedgerError

NOTICED = ("holds half of a write", "is damaged")
STRANGE = "belongs to it as it was before"
Happening = Callable[[Round], None]


def _file(round_: Round) -> FilePlace:
    assert isinstance(round_.place, FilePlace)
    return round_.place


def _server(round_: Round) -> ServerPlace:
    assert isinstance(round_.place, ServerPlace)
    return round_.place


# ---- processes ------------------------------------------------------------------------------------------------------------


def kill(round_: Round) -> None:
    """Kill one process of writers; another one takes its place at once."""
    place = round_.chance.choice(list(round_.lives))
    round_.kill(place)
    round_.start(place)


def kill_all(round_: Round) -> None:
    round_.kill(*round_.lives)
    round_.start_all()


def stop(round_: Round) -> None:
    """Stop some processes wherever they are, and let them go on, or kill them while they stand."""
    chosen = round_.chance.sample(list(round_.lives), round_.chance.choice((1, 1, 2, 4)))
    for place in chosen:
        os.kill(round_.lives[place][0], signal.SIGSTOP)
    time.sleep(round_.chance.uniform(0.01, 0.4))
    round_.counts["stops"] += len(chosen)
    if round_.chance.random() < 0.3:
        round_.kill(*chosen)
        round_.start_all()
        return
    for place in chosen:
        os.kill(round_.lives[place][0], signal.SIGCONT)


def clock(round_: Round) -> None:
    """Set the clocks of some processes, each to another year."""
    for place in round_.chance.sample(
        list(round_.lives), round_.chance.randrange(1, len(round_.lives) + 1)
    ):
        os.kill(round_.lives[place][0], signal.SIGUSR1)
        round_.counts["clocks"] += 1


def void(round_: Round) -> None:
    """Give up what a killed process has left open."""
    if not round_.dead:
        return
    life = round_.dead.pop(round_.chance.randrange(len(round_.dead)))
    path = round_.heard / str(life)
    left = (
        [told for told in witness.of_life(path).charges.values() if told.open]
        if path.exists()
        else []
    )
    for told in left[-8:]:
        round_.said.say("V", told.id)
        try:
            given = give_up(round_.account(told.account), str(told.id))
        except LedgerError as error:
            _excuse(round_, "void", error)
            return
        if given:
            round_.said.say("v", told.id)
            round_.counts["voids"] += 1


def grant(round_: Round) -> None:
    parent, child = round_.chance.choice((("large", "team"), ("mixed", "crew")))
    share = Sums(Fraction(round_.chance.randrange(1, 10**6)))
    if child == "crew":
        share = share._replace(
            pure=Fraction(round_.chance.randrange(1, 10**7)), failing=Fraction(1000)
        )
    round_.said.say("G", child, share)
    try:
        done = granted(round_.account(parent), child, share)
    except LedgerError as error:
        _excuse(round_, "grant", error)
        return
    if done:
        round_.said.say("g", child, share)
        round_.counts["grants"] += 1


def _excuse(round_: Round, what: str, error: LedgerError) -> None:
    """Where nothing is away or full, what is done from here must succeed."""
    if isinstance(round_.place, FilePlace):
        round_.verdict.found("error", f"{what}: {error}")


# ---- files ----------------------------------------------------------------------------------------------------------------


def copied_back(round_: Round) -> None:
    """Move the file away and a whole copy back while nobody writes; processes that have it open must see that."""
    round_.rest()
    _file(round_).copy_back()
    round_.go_on()
    round_.counts["moves"] += 1


def moved_whole(round_: Round) -> None:
    """Kill everybody, and move the file and what they left beside it."""
    round_.kill(*round_.lives)
    _file(round_).move(journal=True)
    round_.start_all()
    round_.counts["moves"] += 1


def moved_alone(round_: Round) -> None:
    """Kill everybody, and move the file without its journal: it holds everything, or says that it does not.

    Half of the times it comes back to its old place, where the journal still lies.
    """
    round_.kill(*round_.lives)
    place = _file(round_)
    before = place.move(journal=False)
    old = Path(f"{before}-journal")
    refused = round_.probe()
    if refused is not None:
        _expect(round_, refused, NOTICED)
        round_.counts["halves noticed"] += 1
        if old.exists():
            place.journal.unlink(missing_ok=True)
            old.rename(place.journal)
        _charges(round_)
    elif round_.chance.random() < 0.5:
        # What was charged here has nothing to do with the journal that waits there.
        here, there = place.path, before
        here.rename(there)
        place.path = there
        refused = round_.probe()
        if refused is not None:
            _expect(round_, refused, (STRANGE,))
            round_.counts["strange journals"] += 1
            old.rename(here.with_name("strange"))
            _charges(round_)
    round_.start_all()
    round_.counts["moves alone"] += 1


def _expect(round_: Round, error: LedgerError, words: tuple[str, ...]) -> None:
    if not any(word in str(error) for word in words):
        round_.verdict.found("error", f"after a move: {error}")


def _charges(round_: Round) -> None:
    again = round_.probe()
    if again is not None:
        round_.verdict.found("error", f"after a move, put right as the message says: {again}")


def backup(round_: Round) -> None:
    """Copy the ledger while it is charged; the copy holds all that was said before."""
    until = witness.sizes(round_.heard)
    copy = round_.folder / f"copy-{round_.counts['backups']}.db"
    try:
        heads = round_.account("large").backup(copy)
    except LedgerError as error:
        round_.verdict.found("error", f"backup: {error}")
        return
    round_.heads.append(heads)
    judge_copy(tables.of(str(copy)), witness.read(round_.heard, until), round_.verdict)
    round_.counts["backups"] += 1
    copy.unlink()


# ---- full disks -----------------------------------------------------------------------------------------------------------


def full_disk(round_: Round) -> None:
    """Fill the disk of the ledger, or of its server, to its last byte for a while."""
    ballast, block = round_.place.folder / "ballast", bytes(1 << 20)
    round_.full = True
    with ballast.open("wb", buffering=0) as file:
        until = None  # it is full for a while from when it is full
        while until is None or time.monotonic() < until:
            try:
                file.write(block)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                until = until or time.monotonic() + round_.chance.uniform(
                    0.05, 0.5 if isinstance(round_.place, FilePlace) else 2
                )
                block = block[: len(block) // 2] or bytes(1)
                time.sleep(0.001)
    ballast.unlink()
    if isinstance(round_.place, ServerPlace) and round_.place.revived():
        round_.counts["servers that a full disk ended"] += 1
    round_.counts["full disks"] += 1


def no_room(round_: Round) -> None:
    """Let no file of the writers grow, or be written behind its present size, for a while."""
    round_.full = True
    size = Path(round_.place.url).stat().st_size
    # Pages that are written over still fit; the journal, which is smaller, is not concerned.
    limit = max(size - round_.chance.choice((0, 0, 1, 4)) * 4096, 4096)
    chosen = list(round_.lives.values())
    hard = resource.RLIM_INFINITY
    for process, _ in chosen:
        hard = resource.prlimit(process, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(process, resource.RLIMIT_FSIZE, (limit, hard))
    time.sleep(round_.chance.uniform(0.05, 0.5))
    for process, _ in chosen:
        resource.prlimit(process, resource.RLIMIT_FSIZE, (hard, hard))
    round_.counts["full disks"] += 1


# ---- servers --------------------------------------------------------------------------------------------------------------


def restart(round_: Round) -> None:
    """Stop the server in one of three ways, and start it after a moment."""
    server = _server(round_).server
    ways = {
        "fast": server.stop,
        "immediate": lambda: server.stop(signal.SIGQUIT),
        "killed": server.kill,
    }
    name = round_.chance.choice(list(ways))
    ways[name]()
    if round_.chance.random() < 0.3:
        round_.kill(round_.chance.choice(list(round_.lives)))
    time.sleep(round_.chance.uniform(0, 0.5))
    round_.start_all()  # while there is no server
    server.start()
    round_.counts[f"restarts, {name}"] += 1
    round_.counts["restarts"] += 1


def sessions(round_: Round) -> None:
    """End every session on the server."""
    round_.counts["sessions ended"] += terminate(_server(round_).url)


# ---- what may happen where ------------------------------------------------------------------------------------------------

ANYWHERE: dict[str, tuple[int, Happening]] = {
    "kill": (10, kill),
    "kill all": (3, kill_all),
    "stop": (3, stop),
    "clock": (3, clock),
    "void": (3, void),
    "grant": (1, grant),
}
OF_FILES: dict[str, tuple[int, Happening]] = {
    "copied back": (2, copied_back),
    "moved whole": (2, moved_whole),
    "moved alone": (3, moved_alone),
    "backup": (1, backup),
}
OF_SERVERS: dict[str, tuple[int, Happening]] = {"restart": (3, restart), "sessions": (3, sessions)}
KINDS = sorted({*ANYWHERE, *OF_FILES, *OF_SERVERS, "full disk"})


def possible(place: FilePlace | ServerPlace) -> dict[str, tuple[int, Happening]]:
    """Return what may happen to a ledger at a place, with how often."""
    found = ANYWHERE | (OF_SERVERS if isinstance(place, ServerPlace) else OF_FILES)
    if place.small:
        found["full disk"] = (3, full_disk)
    elif isinstance(place, FilePlace) and hasattr(resource, "prlimit"):
        found["full disk"] = (3, no_room)
    return found
