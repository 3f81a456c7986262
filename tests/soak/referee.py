"""The referee: what the witness heard against what the ledger holds, in whole billionths.

Nothing here asks the library, but for `verify` at the end, which has to agree.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from soak.amounts import ATTO, SLACK, Sums, excess, total
from soak.tables import Account, Charge, Event, Tables
from soak.witness import Refusal, Said, Told

MOST = 5
"""So many findings of one kind are told; the others are counted."""
PATIENCE = 19.0
"""A server that was away for a shorter time must have been waited for."""
FULL = ("disk is full", "input/output error")
AWAY = ("cannot be reached", "no connection left")


@dataclass
class Verdict:
    """What was found wrong, by its kind, and what was counted on the way."""

    counts: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    overspent: int = 0
    lost: int = 0
    unsound: int = 0

    def found(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= MOST:
            self.told.append(f"{kind}: {what}")

    @property
    def clean(self) -> bool:
        return not self.counts


def judge(
    tables: Tables,
    said: Said,
    budgets: dict[str, Sums],
    *,
    verdict: Verdict,
    full: bool,
    server: bool,
) -> None:
    """Compare a ledger at rest with everything that was said about it; `budgets` is what each account was made with."""
    if tables.damaged:
        verdict.found("damaged file", tables.damaged)
    if set(tables.accounts) != set(budgets):
        verdict.found("accounts", f"there are {sorted(tables.accounts)}")
    for name in tables.accounts.keys() & budgets.keys():
        _history(tables, name, verdict)
    _budgets(tables, said, budgets, verdict)
    _every_charge(tables, said, verdict)
    _refusals(tables, said, verdict)
    _errors(said, verdict, full=full, server=server)


# ---- an account: its history, its sums and its budget -------------------------------------------------------------------


def _history(tables: Tables, name: str, verdict: Verdict) -> None:
    """Replay the history of an account: numbers, hashes, sums; at no moment more than the allowance."""
    account = tables.accounts[name]
    spent, limits, head, over = Sums(), Sums(), "", excess(Sums(), Sums(), either=False)
    for place, event in enumerate(tables.events.get(name, ()), 1):
        charge = tables.charges.get(event.charge)
        match event.kind:
            case "create" | "receive":
                limits = limits.plus(event.moved)
            case "reserve" | "grant":
                spent = spent.plus(event.moved)
            case "settle" | "void" if charge is not None:
                spent = spent.less(charge.asked.less(event.moved))
        covered = (
            head,
            event.number,
            event.kind,
            event.charge,
            event.amount,
            event.spent,
            event.allowance,
            *filter(None, [event.sums]),
            event.body,
        )
        head = hashlib.sha256(" ".join(map(str, covered)).encode()).hexdigest()
        if (event.number, event.after, event.limits, event.head) != (place, spent, limits, head):
            verdict.found(
                "history", f"event {event.number} of {name!r} does not follow from those before"
            )
            break
        over = max(over, excess(spent, limits, either=account.either))
    if (account.number, account.head) != (len(tables.events.get(name, ())), head):
        verdict.found("history", f"the account {name!r} is not at the end of its history")
    of_charges = total(
        [charge.charged for charge in tables.charges.values() if charge.account == name]
    )
    shares = total([child.limits for child in tables.accounts.values() if child.parent == name])
    if (account.sums, account.limits) != (of_charges.plus(shares), limits):
        verdict.found(
            "sums",
            f"{name!r} says {account.sums} spent; its charges and shares are {of_charges} and {shares}",
        )
    over = max(over, excess(of_charges.plus(shares), account.limits, either=account.either))
    if over > 0:
        verdict.overspent += 1
        verdict.found(
            "overspent",
            f"{name!r} was charged {over} more than its {account.limits} at some moment",
        )


def _budgets(tables: Tables, said: Said, budgets: dict[str, Sums], verdict: Verdict) -> None:
    """What noise really spent, which the witness alone knows, against what each account was made with."""
    really: defaultdict[str, Sums] = defaultdict(Sums)
    for told in said.charges.values():
        really[told.account] = really[told.account].plus(total(told.noise).up())
    for name, budget in budgets.items():
        account = tables.accounts.get(name)
        if account is None:
            continue
        most = budget.plus(said.granting[name]) if account.parent else budget
        least = budget.plus(said.granted[name]) if account.parent else budget
        if not (most.covers(account.limits) and account.limits.covers(least)):
            verdict.found(
                "allowance", f"{name!r} may spend {account.limits} and was given {least} to {most}"
            )
        if excess(really[name], most, either=account.either) > 0:
            verdict.overspent += 1
            verdict.found("overspent", f"noise of {name!r} has spent {really[name]} of {most}")


# ---- a charge: what was said of it and what it is -------------------------------------------------------------------------


def _every_charge(tables: Tables, said: Said, verdict: Verdict) -> None:
    draws: dict[str, list[Sums]] = defaultdict(list)
    for events in tables.events.values():
        for event in events:
            if event.kind == "draw":
                draws[event.charge].append(event.moved)
                if json.loads(event.body).get("slot") != len(draws[event.charge]) - 1:
                    verdict.found("slots", f"draws of {event.charge} are out of order")
    by_label = {label: key for key, label in tables.labels.items()}
    if len(by_label) < len(tables.charges):
        verdict.found("charged twice", f"{len(tables.charges)} charges have {len(by_label)} labels")
    for label in by_label.keys() - said.charges.keys():
        verdict.found("charge of nobody", f"nobody was about to make, or was given, {label}")
    for told in said.charges.values():
        key = told.id or by_label.get(told.label)
        charge = tables.charges.get(key) if key is not None else None
        if charge is None:
            missing(told, verdict)
        else:
            _one(told, charge, draws[charge.id], said, verdict)


def _words(possible: list[Sums]) -> str:
    return " or ".join(map(str, possible))


def missing(told: Told, verdict: Verdict) -> None:
    """Judge a charge that is not in the ledger: that may be if nobody was told that it is."""
    if told.noise:
        verdict.lost += 1
        verdict.found(
            "lost", f"{told.label} was drawn {len(told.noise)} times, and is not in the ledger"
        )
    elif told.id is not None:
        verdict.found("forgotten", f"{told.label} was reserved, and is not in the ledger")


def holds(told: Told, charge: Charge, verdict: Verdict) -> bool:
    """Tell whether a charge holds at least what was said of it; what came later may have changed it further."""
    drawn = total(told.about[: len(told.noise)]).up()
    really = total(told.noise).up()
    if not (
        charge.draws >= len(told.noise)
        and charge.used.covers(drawn)
        and charge.charged.covers(really)
    ):
        verdict.lost += 1
        verdict.found(
            "lost",
            f"{told.label} was drawn {len(told.noise)} times up to {drawn}, which spent {really}; "
            f"the ledger has {charge.draws} draws of {charge.used} and charges {charge.charged}",
        )
        return False
    return True


def _one(told: Told, charge: Charge, draws: list[Sums], said: Said, verdict: Verdict) -> None:
    """Judge one charge by all that was said of it."""
    right = charge.asked.charges(told.amount) and charge.impure == told.amount.impure
    if charge.account != told.account or not right:
        verdict.found(
            "amount",
            f"{told.label} asked {told.account} for {told.amount} and got {charge.account}, {charge.asked}",
        )
    if not holds(told, charge, verdict):
        return
    possible = [total(told.about[:count]) for count in range(len(told.noise), len(told.about) + 1)]
    if (
        not any(charge.used.charges(each) for each in possible)
        or charge.draws > len(told.about)
        or (total(draws)[:3], len(draws)) != (charge.used[:3], charge.draws)
    ):
        verdict.found(
            "draws",
            f"{told.label} has {charge.draws} of {charge.used}; possible were {_words(possible)}",
        )
    if charge.state == "settled":
        if not told.settling or told.kept:
            verdict.found("settled by nobody", f"{told.label} is settled at {charge.settled}")
        if not charge.charged.charges(total(told.noise)):
            verdict.found(
                "settled",
                f"{told.label} is settled at {charge.charged}, its noise spent {total(told.noise)}",
            )
    elif charge.state == "void":
        if charge.id not in said.voiding or charge.charged != charge.used:
            verdict.found("void", f"{told.label} was given up at {charge.charged} of {charge.used}")
    elif told.settled or charge.id in said.voided:
        verdict.found("still open", f"{told.label} was settled or given up, and is {charge.state}")
    elif (charge.state == "drawn") != (charge.draws > 0):
        verdict.found("state", f"{told.label} is {charge.state} after {charge.draws} draws")


# ---- what was refused, and errors -----------------------------------------------------------------------------------------


def _refusals(tables: Tables, said: Said, verdict: Verdict) -> None:
    """A charge is refused only where its account really had less, at a moment between two charges of the same thread."""
    moments: dict[tuple[str, str], list[Event]] = defaultdict(list)
    with_delta = {name for name, account in tables.accounts.items() if account.meter == "renyi"}
    for name, events in tables.events.items():
        for event in events:
            for left in _ways_to_say(event, tables.accounts[name]):
                moments[name, left].append(event)
    for refusal in said.refusals:
        name, asked = refusal.account, refusal.amount
        first, last = (
            _number(tables, said, refusal.before, 0),
            _number(tables, said, refusal.after, 1 << 62),
        )
        known = moments.get((name, refusal.left), [])
        at = known[bisect_left(known, first, key=_place) : bisect_left(known, last, key=_place)]
        if name in with_delta:
            asked = asked._replace(main=asked.main + SLACK)
        either = name in tables.accounts and tables.accounts[name].either
        if not any(
            excess(event.after.plus(asked.up()), event.limits, either=either) > 0 for event in at
        ):
            verdict.found(
                "refused",
                f"{_shown(refusal)}, and that was never so between events {first} and {last}",
            )


def _place(event: Event) -> int:
    return event.number


def _ways_to_say(event: Event, account: Account) -> list[str]:
    """Return how a refusal after an event writes what remains (`Refusal.left`)."""
    left = event.limits.less(event.after)
    failing = f"/{float(left.failing) / ATTO:.6g}"
    if account.meter != "renyi" or account.of_rhos:
        return [str(left.main), *([failing] if account.of_rhos else [])]
    pure = "" if left.impure or event.after.impure else f"{max(0, left.pure)}"
    return [f"{max(0, left.main)}/{pure}", failing]


def _number(tables: Tables, said: Said, label: str | None, otherwise: int) -> int:
    """Return the number of the event that reserved a charge."""
    told = said.charges.get(label) if label is not None else None
    charge = tables.charges.get(told.id) if told is not None and told.id is not None else None
    return otherwise if charge is None else charge.number


def _shown(refusal: Refusal) -> str:
    return f"{refusal.account!r} refused {refusal.amount} because {refusal.left} remained"


def _errors(said: Said, verdict: Verdict, *, full: bool, server: bool) -> None:
    """Errors that a writer may see: of a disk while it is full, of a server that stayed away too long."""
    for bug in said.bugs:
        verdict.found("bug", bug[-600:])
    for label, step, seconds, text in said.errors:
        if full and any(words in text for words in FULL):
            continue
        if server and any(words in text for words in AWAY) and seconds >= PATIENCE:
            continue
        verdict.found("error", f"{label} at its {step}, after {seconds:.1f} s: {text}")


# ---- a copy that was made while others went on ----------------------------------------------------------------------------


def judge_copy(tables: Tables, said: Said, verdict: Verdict) -> None:
    """A copy holds all that was said before it was begun."""
    by_label = {label: key for key, label in tables.labels.items()}
    for told in said.charges.values():
        key = told.id or by_label.get(told.label)
        charge = tables.charges.get(key) if key is not None else None
        if charge is None:
            missing(told, verdict)
        else:
            holds(told, charge, verdict)
