"""The witness: what each writer says before and after every durable step, in files of its own that no ledger knows.

One line is one write to a file that is open for appending, so that what was said before a kill was said. Lines are:

    A label account amount      about to reserve an amount, in billionths
    R label id                  reserved
    F label remaining           refused because only so much remained (`Refusal.left`)
    D label slot worst          about to draw
    N label slot spent          the draw was recorded: noise may exist from now on, which really spends so much
    S label, s label            about to settle, and settled
    K label                     left by an exception, and kept
    E label step seconds text   an error of the ledger
    B text                      an error of anything else
    V id, v id                  about to give up a charge of a killed writer, and given up
    G name amount, g name       about to grant a share, and granted

An amount is a fraction of billionths, or four numbers (`amounts.Sums`). A label is LIFE.THREAD.COUNT: which process life, which of its threads, and how many before it.
"""

from __future__ import annotations

import os
import resource
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from soak.amounts import Sums, read as amount


class Witness:
    """A file to which whole lines are added."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644
        )

    def say(self, *words: object) -> None:
        line = (" ".join(map(str, words)).replace("\n", " ") + "\n").encode()
        try:
            os.write(self.descriptor, line)
        except (
            OSError
        ):  # a limit on the size of files is for the ledger; this process lifts its own
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2
            )
            os.write(self.descriptor, line)

    def close(self) -> None:
        os.close(self.descriptor)


@dataclass
class Told:
    """All that was said of one charge."""

    label: str
    account: str
    amount: Sums
    id: str | None = None
    about: list[Sums] = field(default_factory=list)
    noise: list[Sums] = field(default_factory=list)
    settling: bool = False
    settled: bool = False
    kept: bool = False

    @property
    def open(self) -> bool:
        """Whether it was reserved and nobody has said how it ends."""
        return self.id is not None and not (self.settled or self.kept)


@dataclass
class Refusal:
    """An account had no more than this left, after the charge `before` and before the charge `after` of the same thread."""

    account: str
    amount: Sums
    left: str
    """What remained: billionths; or, of an account with a delta, `main/pure`, `main/` where no epsilon is any more, or `/failing`."""
    before: str | None
    after: str | None = None


@dataclass
class Said:
    """All that was said in a round."""

    charges: dict[str, Told] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    errors: list[tuple[str, str, float, str]] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)
    voiding: set[str] = field(default_factory=set)
    voided: set[str] = field(default_factory=set)
    granting: defaultdict[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    granted: defaultdict[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    attempts: int = 0


def sizes(folder: Path) -> dict[str, int]:
    """Return how much each writer has said by now."""
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def _lines(path: Path, until: int | None) -> Iterator[list[str]]:
    said = path.read_bytes()[:until]
    # A line without an end is of a process that was killed while it spoke: it did not get to anything after it.
    for line in said[: said.rfind(b"\n") + 1].decode().splitlines():
        yield line.split(" ")


def read(folder: Path, until: dict[str, int] | None = None) -> Said:
    """Return what the writers have said, up to some sizes of their files if those are given."""
    said = Said()
    for path in sorted(folder.iterdir()):
        if until is None or path.name in until:
            _hear(said, _lines(path, None if until is None else until[path.name]))
    return said


def of_life(path: Path) -> Said:
    """Return what one writer has said."""
    said = Said()
    _hear(said, _lines(path, None))
    return said


def _hear(said: Said, lines: Iterator[list[str]]) -> None:
    last: dict[tuple[str, str], str] = {}
    waiting: dict[tuple[str, str], list[Refusal]] = {}
    for kind, *words in lines:
        if kind == "A":
            said.attempts += 1
            said.charges[words[0]] = Told(words[0], words[1], amount(words[2]))
            continue
        if kind in {"V", "v"}:
            (said.voiding if kind == "V" else said.voided).add(words[0])
            continue
        if kind == "G":
            said.granting[words[0]] = said.granting[words[0]].plus(amount(words[1]))
            continue
        if kind == "g":
            said.granted[words[0]] = said.granted[words[0]].plus(amount(words[1]))
            continue
        if kind == "B":
            said.bugs.append(" ".join(words))
            continue
        told = said.charges[words[0]]
        thread = (told.label.rpartition(".")[0], told.account)
        if kind == "R":
            told.id = words[1]
            last[thread] = told.label
            for refusal in waiting.pop(thread, ()):
                refusal.after = told.label
        elif kind == "F":
            refusal = Refusal(told.account, told.amount, words[1], last.get(thread))
            said.refusals.append(refusal)
            waiting.setdefault(thread, []).append(refusal)
            del said.charges[told.label]
        elif kind == "D":
            told.about.append(amount(words[2]))
        elif kind == "N":
            told.noise.append(amount(words[2]))
        elif kind == "S":
            told.settling = True
        elif kind == "s":
            told.settled = True
        elif kind == "K":
            told.kept = True
        elif kind == "E":
            said.errors.append((told.label, words[1], float(words[2]), " ".join(words[3:])))
