"""A process that charges with several threads, until it is told to end or is killed."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import MAXYEAR, UTC, datetime
from fractions import Fraction
from functools import partial
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any, NoReturn

from soak.amounts import (
    NANO,
    ORDER,
    Sums,
    of_approximate,
    of_firm_epsilon,
    of_pure,
    of_rho,
    of_rhos,
    of_stage,
    total,
)
from soak.witness import Witness
from sordino import receipt
from sordino.cost import ZCDP, Approximate, ApproximateZCDP, GumbelStage, Pure
from sordino.errors import BudgetExceeded, LedgerError
from sordino.ledger import Charge, Ledger
from sordino.sensitivity import COUNTING

_REMAINS = re.compile(r"but ([0-9.]+) remains in")
_BOTH_REMAIN = re.compile(r"but divergence ([0-9.]+) and (?:no epsilon|epsilon ([0-9.]+)) remain")
_DELTA_REMAINS = re.compile(r"but ([-+.0-9e]+) remains for releases that may fail")
_STAGES = [(Fraction(n, 5000), monotone) for n in (1, 7) for monotone in (True, False)]
KINDS = ("pure", "stage", "rho", "approximate")
_HOW_OFTEN = {"mixed": (40, 20, 20, 20), "crew": (50, 25, 2, 23), "either": (70, 30, 0, 0)}
_HOW_OFTEN |= {"deltas": (30, 0, 30, 40)}
"""Of accounts with a delta: how often they are charged each of these kinds."""
_NAP = 0.005


class Gate:
    """What all writers of a round share: whether they have to wait, whether it is over, and what each thread does."""

    def __init__(self, writers: int) -> None:
        self._flags = RawArray("b", 2)
        self.parked = RawArray("b", writers)
        self.done = RawArray("q", writers)

    @property
    def shut(self) -> bool:
        return bool(self._flags[0])

    @shut.setter
    def shut(self, value: bool) -> None:
        self._flags[0] = value

    @property
    def over(self) -> bool:
        return bool(self._flags[1])

    @over.setter
    def over(self, value: bool) -> None:
        self._flags[1] = value

    def charges(self) -> int:
        """Return how many charges were tried."""
        return sum(self.done)

    def step(self, writer: int) -> None:
        """Wait while the gate is shut; between two steps of a charge nobody writes."""
        while self.shut:
            self.parked[writer] = 1
            while self.shut:
                time.sleep(_NAP)
            self.parked[writer] = 0  # and look again: it may have been shut once more meanwhile


@dataclass(frozen=True)
class Job:
    """What one process does: its life, its writers, where the ledger is, what may be charged, and until when."""

    life: int
    writers: range
    url: str
    accounts: dict[str, int]
    """The names of the accounts, with how often each is charged."""
    gate: Gate
    seed: str
    witness: Path
    until: float
    """By the monotonic clock: whatever happens, the process ends then."""


@dataclass(frozen=True)
class Noise:
    """A mechanism whose noise is a line of the witness."""

    cost: Any
    spends: Any
    heard: Callable[[], None]

    per_transcript = True
    exact = True
    sensitivity = COUNTING

    def release(self, answers: Any, *, entropy: Any) -> Any:
        self.heard()
        return Released(self.spends)


@dataclass(frozen=True)
class Released:
    cost: Any
    simulated: bool = False


class Real:
    """Entropy that the ledger takes for real; nothing here needs any."""

    simulated = False


class Left(Exception):
    """A block is left by an error of its own."""


def leave() -> NoReturn:
    raise Left


def cost(nano: Fraction, meter: str) -> Any:
    """Return the cost of some billionths."""
    return Pure(epsilon=nano / NANO) if meter == "pure" else ZCDP(rho=nano / NANO)


def meter_of(account: str) -> str:
    """Return the meter of an account of the soak, which its name says."""
    return "renyi" if account in _HOW_OFTEN else "zcdp" if account.startswith("rho") else "pure"


@dataclass(frozen=True)
class Piece:
    """Something that is charged, what it adds, and what it may turn out to have spent."""

    cost: Any
    adds: Sums
    spends: Any
    leaves: Sums

    def without_pure(self) -> Piece:
        """Return it as a part of what has no epsilon."""
        return replace(self, adds=self.adds.without_pure(), leaves=self.leaves.without_pure())


def piece(account: str, size: int, part: Fraction, kind: str) -> Piece:
    """Return what an account is charged, one with a delta of some kind; of a pure epsilon only a part is spent."""
    if account not in _HOW_OFTEN:
        worst, meter = (
            size * (Fraction(1, 3) if account == "thirds" else Fraction(1)),
            meter_of(account),
        )
        # Nothing comes back on the other meter.
        spends = worst * part if meter == "pure" else worst
        return Piece(cost(worst, meter), Sums(worst), cost(worst * part, meter), Sums(spends))
    third = Fraction(size, 3) / NANO
    epsilon = third * (30_000 if account == "either" else 3000)
    if account == "deltas":
        return _beside_rhos(kind, third, part, own=bool(size % 2))
    if kind == "pure":
        adds, spent = of_pure(epsilon), Pure(epsilon=epsilon * part)
        return Piece(Pure(epsilon=epsilon), adds, spent, adds._replace(pure=adds.pure * part))
    if kind == "stage":
        rate, monotone = _STAGES[size % len(_STAGES)]
        one, adds = GumbelStage.of(rate, monotone=monotone), of_stage(rate, monotone=monotone)
    elif kind == "rho":
        one, adds = ZCDP(rho=third), of_rho(third)
    else:
        delta = third / NANO
        one, adds = Approximate(epsilon=epsilon, delta=delta), of_approximate(epsilon, delta)
    return Piece(one, adds, one, adds)


def warm() -> None:
    """Let processes that are forked from this one know what a stage costs: the first look takes a moment."""
    for rate, monotone in _STAGES:
        of_stage(rate, monotone=monotone)
        stage = GumbelStage.of(rate, monotone=monotone)
        stage.rdp(ORDER)
        stage.zcdp()


def left(refusal: str) -> str:
    """Return what a refusal says that remains (`witness.Refusal.left`)."""
    if found := _REMAINS.search(refusal):
        return _nano(found[1])
    if found := _DELTA_REMAINS.search(refusal):
        return f"/{found[1]}"
    found = _BOTH_REMAIN.search(refusal)
    return f"{_nano(found[1])}/{_nano(found[2]) if found[2] else ''}" if found else "?"


def _nano(decimal: str) -> str:
    return str(Fraction(decimal) * NANO)


# ---- clocks -------------------------------------------------------------------------------------------------------------


class _Clock(datetime):
    shift = 0

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime(1 + (_real_year() + cls.shift) % MAXYEAR, 1, 1, tzinfo=UTC)


_time, _time_ns = time.time, time.time_ns


def _real_year() -> int:
    return 1970 + int(_time() / 31_556_952)


def set_clock(years: int) -> None:
    """Let the clocks of this process show another year."""
    _Clock.shift = years
    shift = years * 31_557_600
    time.time, time.time_ns = lambda: _time() + shift, lambda: _time_ns() + shift * NANO  # type: ignore[assignment]
    receipt.datetime = _Clock  # type: ignore[misc]


# ---- one process --------------------------------------------------------------------------------------------------------


def start(job: Job) -> int:
    """Start a process and return its number."""
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 warns of threads; there are none
        # A clock that is set at once waits until the child knows how.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        process = os.fork()
    if process:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        return process
    try:
        _live(job, parent)
    finally:
        os._exit(98)


def _live(job: Job, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # a charge that cannot be settled stays; the witness says so
    chance = random.Random(f"{job.seed}/{job.life}")
    # An odd life begins with a clock that is wrong; any may have it set while it charges.
    signal.signal(signal.SIGUSR1, lambda *_: set_clock(chance.randrange(-70, 100)))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    if job.life % 2:
        set_clock(chance.randrange(-70, 100))
    witness = Witness(job.witness / str(job.life))
    ledgers = {name: Ledger(job.url, name) for name in job.accounts}
    threads = [
        threading.Thread(
            target=_Writer(job, number, ledgers, witness, chance.random()).run, daemon=True
        )
        for number in job.writers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.05)
            if os.getppid() != parent or time.monotonic() > job.until:
                os._exit(0)
    os._exit(0)


def _beside_rhos(kind: str, rho: Fraction, part: Fraction, *, own: bool) -> Piece:
    """Return what an account of rhos that keeps deltas is charged; nothing of it comes back."""
    epsilon, delta = rho * 30_000, rho / NANO
    if kind == "pure":
        adds = of_firm_epsilon(epsilon)
        return Piece(Pure(epsilon=epsilon), adds, Pure(epsilon=epsilon * part), adds)
    if kind == "rho":
        one, adds = ZCDP(rho=rho), of_rhos(rho)
    elif own:
        one, adds = ApproximateZCDP(rho=rho, delta=delta), of_rhos(rho, delta)
    else:
        one, adds = Approximate(epsilon=epsilon, delta=delta), of_firm_epsilon(epsilon, delta)
    return Piece(one, adds, one, adds)


class _Writer:
    """One thread."""

    def __init__(
        self, job: Job, number: int, ledgers: dict[str, Ledger], witness: Witness, seed: float
    ) -> None:
        self.job, self.number, self.ledgers, self.witness = job, number, ledgers, witness
        self.chance = random.Random(f"{seed}/{number}")
        self.begun = 0.0

    def run(self) -> None:
        try:
            count = 0
            while not self.job.gate.over:
                self.job.gate.step(self.number)
                self.charge(f"{self.job.life}.{self.number}.{count}")
                count += 1
                self.job.gate.done[self.number] += 1
                if not count % 100:
                    self.look_at_the_file()
            self.job.gate.parked[self.number] = 1
        except BaseException:  # noqa: BLE001  (whatever it is, the witness must hear it)
            self.witness.say("B", traceback.format_exc().replace("\n", " | "))
            os._exit(97)

    def look_at_the_file(self) -> None:
        """Open and close the file as any part of a program may; the process has lost all POSIX locks on it then."""
        if "://" not in self.job.url:
            Path(self.job.url).open("rb").close()

    def charge(self, label: str) -> None:
        [account] = self.chance.choices(list(self.job.accounts), list(self.job.accounts.values()))
        draws = [
            self.piece(account, self.chance.randrange(1, 3000))
            for _ in range(self.chance.choice((0, 1, 1, 1, 1, 2, 3)))
        ]
        spare = self.piece(account, self.chance.choice((0, 0, 0, 1, 500)))
        amount = total([part.adds for part in (*draws, spare)])
        if amount.impure:  # then nobody looks at the epsilons of its parts
            amount, draws = amount.without_pure(), [part.without_pure() for part in draws]
        self.witness.say("A", label, account, amount)
        step = "reserve"
        self.begun = time.monotonic()
        try:
            charge = self.ledgers[account].reserve(
                (*(part.cost for part in draws), spare.cost), label=label
            )
            self.witness.say("R", label, charge.id)
            ending = self.chance.choices(("settle", "block", "error", "left"), (55, 30, 10, 5))[0]
            for slot, worst in enumerate(draws):
                step = f"draw{slot}"
                self.draw(charge, label, slot, worst)
            step = ending
            self.end(charge, label, ending)
        except BudgetExceeded as refused:
            self.witness.say("F", label, left(refused.details))
        except LedgerError as error:
            seconds = time.monotonic() - self.begun
            self.witness.say("E", label, step, f"{seconds:.3f}", f"{type(error).__name__}: {error}")
            time.sleep(0.02)

    def piece(self, account: str, size: int) -> Piece:
        part = Fraction(self.chance.choice((0, 1, 1, 2, 3)), 3)
        [kind] = self.chance.choices(KINDS, _HOW_OFTEN.get(account))
        return piece(account, size, part, kind)

    def draw(self, charge: Charge, label: str, slot: int, part: Piece) -> None:
        self.job.gate.step(self.number)
        self.witness.say("D", label, slot, part.adds)
        self.begun = time.monotonic()
        if self.chance.random() < 0.5:
            charge.draw(part.cost)
            self.witness.say("N", label, slot, part.adds)
            return
        heard = partial(self.witness.say, "N", label, slot, part.leaves)
        charge.release(Noise(part.cost, part.spends, heard), [1], entropy=Real())

    def end(self, charge: Charge, label: str, ending: str) -> None:
        self.job.gate.step(self.number)
        self.begun = time.monotonic()
        if ending == "settle":
            self.witness.say("S", label)
            charge.settle()
            self.witness.say("s", label)
        elif ending == "block":
            self.witness.say("S", label)
            with charge:
                pass
            if "state='settled'" in repr(
                charge
            ):  # leaving a block says nothing if the ledger could not be reached
                self.witness.say("s", label)
        elif ending == "error":
            try:
                with charge:
                    leave()
            except Left:
                self.witness.say("K", label)
