"""One round: a ledger, its writers, what happens to them, and what the referee says at the end."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg

from soak import tables, witness
from soak.amounts import ATTO, NANO, ORDER, Sums
from soak.places import Place, ServerPlace
from soak.referee import Verdict, judge
from soak.witness import Witness
from soak.writers import Gate, Job, cost, start, warm
from sordino.errors import BudgetExceeded, LedgerConflict, LedgerError
from sordino.ledger import Budget, Ledger

ABOUT = {"adjacency": "add-remove", "unit": "customer", "source": "name:orders"}
LARGE = 10**6 * NANO
WEIGHTS = {"large": 45, "team": 12, "medium": 15, "small": 12, "thirds": 10, "rho": 6}
WEIGHTS |= {"mixed": 12, "crew": 8, "either": 10, "deltas": 8}
"""How often each account is charged. Budgets of `medium` and `small` are used up on the way.

The last four have a delta: `mixed` takes everything, and what may fail until its delta is used up; `crew` has a share of it, of which
its epsilons or its deltas end first; `either` goes beyond its epsilon until its divergences end as well. `deltas` adds rhos, and what may fail until its delta is used up.
"""
_SLOW = 60.0
"""Seconds in which writers come to an end, or to the gate; one may be waiting for a server."""


@dataclass(frozen=True)
class Plan:
    """How long a round is, how many charge in it, and how often something happens."""

    number: int
    seed: int
    writers: int = 32
    processes: int = 8
    charges: int = 25_000
    seconds: float = 60.0
    pause: float = 0.6
    """Seconds between two disturbances, on average."""
    kinds: tuple[str, ...] | None = None
    """What may happen; everything that the place allows, if None."""
    everything: bool = False
    """Whether the round goes on until each kind has happened once."""


@dataclass
class Round:
    """A round while it goes on."""

    plan: Plan
    place: Place
    folder: Path
    """For the witness and for copies: not where the disk is made full."""
    verdict: Verdict = field(default_factory=Verdict)
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    full: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.plan.seed}/{self.plan.number}")
        self.gate = Gate(self.plan.writers)
        self.heard = self.folder / "witness"
        self.heard.mkdir()
        self.said = Witness(self.heard / "main")
        self.lives: dict[int, tuple[int, int]] = {}  # the process and the life at each place
        self.born = self.probes = 0
        self.dead: list[int] = []  # lives whose charges may be given up
        self.heads: list[dict[str, str]] = []
        self.begun = time.monotonic()
        self.end = self.begun + self.plan.seconds

    # ---- the ledger ------------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Make the accounts, with budgets of which two do not last."""
        each = 2500
        budgets = {
            "large": LARGE,
            "medium": self.plan.charges * each * WEIGHTS["medium"] // 150,
            "small": self.plan.charges * each * WEIGHTS["small"] // 1000,
            "thirds": LARGE,
        }
        for name, nano in budgets.items():
            Ledger.create(
                self.place.url, account=name, budget=Budget(epsilon=Fraction(nano, NANO)), **ABOUT
            )  # type: ignore[arg-type]
        rho = Ledger.create(
            self.place.url,
            account="rho",
            budget=Budget(epsilon=50, delta=1e-6, meter="zcdp"),
            **ABOUT,
        )  # type: ignore[arg-type]
        budgets["rho"] = int(rho.remaining * NANO)
        budgets["team"] = self.plan.charges * each // 50
        Ledger(self.place.url, "large").grant("team", Fraction(budgets["team"], NANO))
        self.budgets = {name: Sums(Fraction(nano)) for name, nano in budgets.items()}
        self.make_with_delta()

    def make_with_delta(self) -> None:
        """Make the accounts in epsilon and delta, and a share of one."""
        warm()
        failing = 3 * self.plan.charges  # about half of what is asked for
        most = {
            "mixed": Budget(
                epsilon=1000, delta=1e-6, order=ORDER, failures=Fraction(failing, ATTO)
            ),
            "either": Budget(epsilon=2, delta=1e-6, order=ORDER),
        }
        for name, budget in most.items():
            made = Ledger.create(self.place.url, account=name, budget=budget, **ABOUT)  # type: ignore[arg-type]
            limits = (
                made.remaining * NANO,
                Fraction(budget.epsilon) * NANO,
                Fraction(budget.failures) * ATTO,
            )
            self.budgets[name] = Sums(*limits)
        rhos = Budget(epsilon=50, delta=1e-6, meter="zcdp", failures=Fraction(failing, ATTO))
        Ledger.create(self.place.url, account="deltas", budget=rhos, **ABOUT)  # type: ignore[arg-type]
        # No limit for epsilons, which do not count there.
        self.budgets["deltas"] = Sums(rhos.limit * NANO, Fraction(0), Fraction(failing), 1)
        share = Sums(
            Fraction(LARGE // 10**5), Fraction(40_000 * self.plan.charges), Fraction(failing // 4)
        )
        granted(self.account("mixed"), "crew", share)
        self.budgets["crew"] = share

    def account(self, name: str) -> Ledger:
        return Ledger(self.place.url, name)

    def probe(self) -> LedgerError | None:
        """Charge a little from here; return why it was refused."""
        label, amount = f"main.0.{self.probes}", Fraction(1)
        self.probes += 1
        self.said.say("A", label, "large", amount)
        try:
            charge = self.account("large").reserve(cost(amount, "pure"), label=label)
            self.said.say("R", label, charge.id)
            self.said.say("D", label, 0, amount)
            charge.draw(cost(amount, "pure"))
            self.said.say("N", label, 0, amount)
        except LedgerError as error:
            return error
        return None

    # ---- its writers -----------------------------------------------------------------------------------------------------

    def start(self, place: int) -> None:
        """Let a process of several writers begin."""
        each = self.plan.writers // self.plan.processes
        writers = range(place * each, (place + 1) * each)
        for writer in writers:
            self.gate.parked[writer] = 0
        seed = f"{self.plan.seed}/{self.plan.number}"
        until = self.end + 2 * _SLOW
        job = Job(self.born, writers, self.place.url, WEIGHTS, self.gate, seed, self.heard, until)
        self.lives[place] = (start(job), self.born)
        self.born += 1

    def start_all(self) -> None:
        for place in range(self.plan.processes):
            if place not in self.lives:
                self.start(place)

    def kill(self, *places: int) -> None:
        """Kill processes at one instant, so far as there is one."""
        for place in places:
            os.kill(self.lives[place][0], signal.SIGKILL)
        for place in places:
            process, life = self.lives.pop(place)
            os.waitpid(process, 0)
            self.dead.append(life)
            self.counts["kills"] += 1

    def look_after(self) -> None:
        """Replace a process that has ended by itself, which none should."""
        for place, (process, life) in list(self.lives.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                self.verdict.found(
                    "ended", f"life {life} ended with {os.waitstatus_to_exitcode(status)}"
                )
                del self.lives[place]
                self.start(place)

    def rest(self) -> None:
        """Wait until every writer has come to the gate."""
        self.gate.shut = True
        give_up = time.monotonic() + _SLOW
        while not all(self.gate.parked):
            self.look_after()
            if time.monotonic() > give_up:
                self.verdict.found("stuck", "writers do not come to rest")
                self.kill(*self.lives)
                self.start_all()
                return
            time.sleep(0.002)

    def go_on(self) -> None:
        self.gate.shut = False

    def over(self) -> None:
        """Let every writer come to its end."""
        self.gate.shut, self.gate.over = False, True
        give_up = time.monotonic() + _SLOW
        for process, life in self.lives.values():
            while not os.waitpid(process, os.WNOHANG)[0]:
                if time.monotonic() > give_up:
                    self.verdict.found("ended", f"life {life} does not end")
                    os.kill(process, signal.SIGKILL)
                    os.waitpid(process, 0)
                    break
                time.sleep(0.01)
        self.lives.clear()

    # ---- all of it -------------------------------------------------------------------------------------------------------

    def run(self, happenings: dict[str, tuple[int, Callable[[Round], None]]]) -> None:
        """Let writers charge and things happen, then judge; processes and limits are gone afterwards, whatever happens."""
        kinds = [name for name in happenings if self.plan.kinds is None or name in self.plan.kinds]
        first = self.chance.sample(kinds, len(kinds))
        self.make()
        try:
            self.start_all()
            while time.monotonic() < self.end and (
                self.gate.charges() < self.plan.charges or (self.plan.everything and first)
            ):
                time.sleep(
                    min(
                        self.chance.expovariate(1 / self.plan.pause),
                        10 * self.plan.pause,
                        self.plan.seconds / 4,
                    )
                )
                self.look_after()
                name = (
                    first.pop()
                    if first
                    else self.chance.choices(kinds, [happenings[kind][0] for kind in kinds])[0]
                )
                happenings[name][1](self)
            self.over()
        finally:
            for process, _ in self.lives.values():
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
        self.counts["seconds"] = round(time.monotonic() - self.begun)
        self.judge()

    def judge(self) -> None:
        """Let the library look first, which undoes what a kill has left; then read behind its back."""
        sound = {}
        noted = self.heads[-1] if self.heads else {}
        for name in Ledger.accounts(self.place.url):
            found = self.account(name).verify(head=noted.get(name))
            sound[name] = found.sound
            if not found.sound:
                self.verdict.unsound += 1
                self.verdict.found("not sound", f"{name!r}: {found.problems[:2]}")
        held, said = tables.of(self.place.url), witness.read(self.heard)
        server = isinstance(self.place, ServerPlace)
        judge(held, said, self.budgets, verdict=self.verdict, full=self.full, server=server)
        known = {name: {event.head for event in events} for name, events in held.events.items()}
        for heads in self.heads:
            for name, head in heads.items():
                if head not in known.get(name, ()):
                    self.verdict.found(
                        "head", f"a head of {name!r} that a backup noted is not in its history"
                    )
        self.counts.update(
            charges=len(held.charges),
            draws=sum(charge.draws for charge in held.charges.values()),
            settled=sum(charge.state == "settled" for charge in held.charges.values()),
            refused=len(said.refusals),
            errors=len(said.errors),
            accounts=len(sound),
            verified=sum(sound.values()),
            lives=self.born,
            beyond=sum(
                one.either and one.pure_spent > one.pure_limit for one in held.accounts.values()
            ),
        )


def give_up(ledger: Ledger, key: str) -> bool:
    """Give up a charge of a killed writer; tell whether that was possible, or it was settled before."""
    try:
        ledger.void(key, reason="its process was killed")
    except LedgerConflict:
        return False
    return True


def granted(ledger: Ledger, child: str, share: Sums) -> bool:
    """Grant a share if there is enough."""
    amounts = {"pure": share.pure / NANO, "failures": share.failing / ATTO} if share.pure else {}
    try:
        ledger.grant(child, share.main / NANO, **amounts)
    except BudgetExceeded:
        return False
    return True


def terminate(url: str) -> int:
    """End every session of writers on a server."""
    sql = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name = 'sordino'"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        row: Any = connection.execute(sql).fetchone()
        return int(row[0])
