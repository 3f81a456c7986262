"""Publishes statements: what an account or a kept release promises, made of the history and put into it.

A statement is recorded as a reservation of nothing, with the whole statement as its detail. So it needs no
table and no event of its own: it is under the hashes of the history, in every backup and every export, in a
file as on a server, and whoever may charge may publish
(docs/decisions/0028-a-statement-is-in-the-history.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

from sordino._version import __version__
from sordino.constraints import shown
from sordino.cost import ZCDP
from sordino.errors import InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger import schema
from sordino.ledger.account.changes import parameters_of
from sordino.ledger.account.pages import Pages
from sordino.ledger.account.records import body_of, find_alone, find_rho, nonce
from sordino.ledger.amounts import MEASURES, amount_of
from sordino.ledger.history import Account, ChargeRow, Row, chained, digest_of, json_of, read_stated
from sordino.ledger.renyi import ATTO, NOTHING, Sums, spent_epsilon
from sordino.ledger.store.store import Store, carry_out
from sordino.statements.check import StatementCheck
from sordino.statements.compare import list_differences
from sordino.statements.document import FORM, PublicStatement, check_size, digest_of_statement
from sordino.statements.owner import Owner
from sordino.statements.proofs import Proved, are_exact, find_proofs, list_digests, read_digests
from sordino.statements.trees import is_plain

LABEL = "statement"
"""What a charge of nothing is called that a statement is recorded with."""
_AFTER_ROWS = frozenset(("draw", "settle", "keep"))
"""Events that come when rows were read, or are being read."""


@final
@dataclass
class _Walked:
    """What the events of an account say, up to one of them; statements apart."""

    until: int | None = None
    last: Row | None = None
    day: str = ""
    charges: int = 0
    kept: int = 0
    # How many charges have a mechanism, by its name, and what is proved of it.
    mechanisms: Counter[str] = field(default_factory=Counter)
    proved: dict[str, set[Proved]] = field(default_factory=dict)
    # The events that keep a release, by charge and part.
    sheets: dict[tuple[str, int], tuple[Row, str]] = field(default_factory=dict)
    # What was published, oldest first, with the numbers of their events.
    published: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    # Of charges that were reserved by a cost, what they have drawn: a method that was chosen, for one.
    drawn: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        body = json_of(row.body)
        document = _find_document(row, body)
        if document is not None:
            self.published.append((row.number, document))
            self._silent.add(row.charge)
        # What records a statement says nothing else; so a second look finds the same account.
        if row.charge in self._silent or (self.until is not None and row.number > self.until):
            return
        self.last = row
        # When a release ended depends on rows, and so may the day; when it began does not.
        if row.kind not in _AFTER_ROWS:
            self.day = _day_of(body)
        if row.kind == "reserve":
            self.charges += 1
            things = _list_things(body, "charges")
            self._count([thing for thing in things if "parameters" in thing])
            if any("parameters" not in thing for thing in things):
                self.drawn[row.charge] = []
                self._bare[row.charge] = [thing for thing in things if "parameters" not in thing]
        elif row.kind == "draw" and row.charge in self.drawn:
            held = self.drawn[row.charge]
            fresh = [thing for thing in _list_things(body, "draws") if thing not in held]
            self._count([thing for thing in fresh if thing.get("name") not in _list_names(held)])
            held += fresh
        elif row.kind == "keep":
            self.kept += 1
            self.sheets[row.charge, body.get("part", -1)] = row, str(body.get("digest"))

    def finish(self) -> None:
        """Count what was reserved by a cost, and never drawn from."""
        for charge, things in self._bare.items():
            if not self.drawn[charge]:
                self._count(things)

    def __post_init__(self) -> None:
        self._silent: set[str] = set()
        self._bare: dict[str, list[dict[str, Any]]] = {}

    def _count(self, things: list[dict[str, Any]]) -> None:
        # Each of the mechanisms of a charge counts once.
        self.mechanisms.update(_list_names(things))
        for thing in things:
            self.proved.setdefault(str(thing.get("name")), set()).add(find_proofs(thing))


def _walk(pages: Pages, until: int | None = None) -> _Walked:
    walked = _Walked(until)
    for row in pages.events(None):
        walked.add(row)
    walked.finish()
    return walked


def _find_document(row: Row, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the statement that an event records; None if it records none."""
    if row.kind != "reserve" or row.amount or body.get("charges") != []:
        return None
    detail = body.get("detail")
    document = detail.get("statement") if isinstance(detail, dict) else None
    # Others may have written it.
    return document if isinstance(document, dict) and is_plain(document) else None


def _list_names(things: list[dict[str, Any]]) -> set[str]:
    return {str(thing.get("name")) for thing in things}


def _list_things(body: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Return what a reservation or a draw says that it is for."""
    things = body.get(where)
    return [thing for thing in things if isinstance(thing, dict)] if isinstance(things, list) else []


def publish(store: Store, pages: Pages, key: str | None, part: int, owner: Owner) -> PublicStatement:
    """Return the statement of a kept release, or of the account, and see to it that the history has it."""
    # Nothing is promised about an account that does not hold.
    pages.verify(None).raise_if_broken()
    walked = _walk(pages)
    statement = PublicStatement.build(_promise(pages, walked, key, part), owner)
    check_size(statement)
    # The same statement is the same document; once in the history is enough.
    if any(found.get("digest") == statement.digest for _, found in walked.published):
        return statement
    _record(store, pages, statement)
    return statement


def _record(store: Store, pages: Pages, statement: PublicStatement) -> None:
    account = pages.facts
    facts = {"label": LABEL, "detail": {"statement": statement.to_dict()}, "charges": []}
    digest, key, charge = digest_of(facts, account), nonce(), nonce()
    reservation = {
        **{name: getattr(account, name) for name in ("meter", "alpha", "adjacency", "unit", "source")},
        "account": account.name,
        "charge": charge,
        **parameters_of(NOTHING),
        "digest": digest,
        "lock": chained(key),
        "body": body_of(digest=digest, **facts),
    }
    # Nothing always fits; only an account that another one has taken over begins nothing any more.
    if not carry_out(store, schema.RESERVE, reservation, account=account.name):
        pages.refuse(NOTHING, what="A statement", then="The statement was not published.")
        raise LedgerConflict(
            f"Account {account.name!r} was changed by others at the same time. The statement was not "
            "published; try again."
        )
    closing = {
        "account": account.name,
        "charge": charge,
        "key": key,
        "reserved": 0,
        "drawn": 0,
        "draws": 0,
        "amount": 0,
        "pure": 0,
        "failing": 0,
        "body": body_of(),
    }
    # The history has the statement already. A charge of nothing that stays open takes nothing.
    with suppress(LedgerError):
        carry_out(store, schema.SETTLE, closing, account=account.name)


def _promise(pages: Pages, walked: _Walked, key: str | None, part: int) -> dict[str, Any]:
    account = pages.facts
    told = _tell_account(account, walked) if key is None else _tell_release(pages, account, walked, key, part)
    listed = [page for one in told["mechanisms"] for page in one["proofs"]]
    about = {
        "form": FORM,
        "about": "account" if key is None else "release",
        "account": account.name,
        "parent": account.parent,
        "unit": account.unit,
        "adjacency": account.adjacency,
        "meter": account.meter_name,
        "measure": MEASURES[account.meter_name],
    }
    proofs = {"version": __version__, "pages": list_digests(listed)}
    return {name: value for name, value in (about | told | {"proofs": proofs}).items() if value is not None}


def _tell_account(account: Account, walked: _Walked) -> dict[str, Any]:
    last = walked.last
    if last is None:
        raise LedgerError(f"Account {account.name!r} has no history; `sordino ledger verify` looks at it.")
    return {
        "version": __version__,
        "day": walked.day,
        "guarantee": _account_guarantee(account, last),
        "spent": _spent_until(account, last),
        "charges": walked.charges,
        "kept": walked.kept,
        "exact": are_exact(one for found in walked.proved.values() for one in found),
        "mechanisms": [
            {"name": name, "charges": count, **_tell_proofs(name, walked.proved[name])}
            for name, count in sorted(walked.mechanisms.items())
        ],
        "history": {"event": last.number, "head": last.head},
    }


def _account_guarantee(account: Account, last: Row) -> dict[str, Any]:
    limit = str(amount_of(last.allowance))
    if account.meter == "pure":
        return {"variant": "Pure DP", "epsilon": limit, "delta": "0"}
    stated = {"epsilon": account.epsilon, "delta": account.delta}
    if account.meter == "zcdp":
        return {"variant": "Zero-concentrated DP", "rho": limit, **stated}
    # With deltas beside them rhos are what holds unless a release fails.
    if account.adds_rhos:
        return {"variant": "Approximate DP", **stated, "rho": limit, "failures": account.failures}
    return {"variant": "Approximate DP", **stated, "divergence": limit, "order": account.alpha}


def _spent_until(account: Account, last: Row) -> dict[str, str]:
    spent, _ = read_stated(last, account.limits)
    told = {MEASURES[account.meter_name]: str(amount_of(spent.main))}
    # An account that keeps no deltas has one sum.
    if account.meter != "renyi":
        return told
    pure = {} if spent.impure or account.adds_rhos else {"epsilon": str(amount_of(spent.pure))}
    return told | pure | {"delta": str(Fraction(spent.failing, ATTO))}


def _tell_release(pages: Pages, account: Account, walked: _Walked, key: str, part: int) -> dict[str, Any]:
    # Asked first: they say in words what is not there.
    row, sheet = pages.charge(key), pages.sheet(key, part - 1)
    kept, published = walked.sheets[key, part - 1]
    facts, body = sheet.facts, json_of(row.body)
    things = _list_things(body, "charges")
    if walked.drawn.get(key):
        known = [thing for thing in things if "parameters" in thing]
        things = known + [thing for thing in walked.drawn[key] if thing not in known]
    proved = [find_proofs(thing) for thing in things]
    most = facts.get("max_rows")
    batch = isinstance(body.get("detail"), dict) and "batch" in body["detail"]
    # The estimate of what was measured again is made of all looks: so is what it may lose.
    looks = _list_looks(pages, row)
    settled = sum(one.settled or 0 for one in looks)
    return {
        "charge": key,
        "part": part,
        "batch": True if batch else None,
        "release": str(facts.get("release")),
        # A caller may have made the sheet, and said less there.
        "version": str(facts.get("version", "unknown")),
        "day": _day_of(body),
        "max_rows": most if isinstance(most, int) else None,
        "asked": body.get("detail", {}),
        "looks": len(looks) if len(looks) > 1 else None,
        "guarantee": _release_guarantee(account, looks),
        # What came back by the proof of a mechanism for each transcript is a released figure.
        "spent": {MEASURES[account.meter_name]: str(amount_of(settled))},
        "exact": are_exact(proved) and facts.get("exact") is not False,
        "noise": facts.get("noise"),
        "measure_noise": facts.get("measure_noise"),
        "mechanisms": [
            {
                **{fact: thing[fact] for fact in ("name", "parameters", "cost") if fact in thing},
                **_tell_proofs(thing.get("name"), {one}),
            }
            for thing, one in zip(things, proved, strict=True)
        ],
        "published": published,
        "history": {"event": kept.number, "head": kept.head},
    }


def _tell_proofs(name: Any, proved: Iterable[Proved]) -> dict[str, Any]:
    """Return what a thing that was charged consists of, where that is something else, and its proof pages."""
    names = sorted({inner for one in proved for inner in one.names})
    pages = sorted({page for one in proved for page in one.pages})
    return {**({} if names in ([], [name]) else {"of": names}), "proofs": pages}


def _list_looks(pages: Pages, row: ChargeRow) -> list[ChargeRow]:
    """Return a charge, and those of the earlier looks that its release is put together with."""
    found = {row.id: row}
    waiting = [row]
    while waiting:
        detail = json_of(waiting.pop().body).get("detail")
        said = detail if isinstance(detail, dict) else {}
        listed = said.get("batch")
        for one in [said, *(listed if isinstance(listed, list) else [])]:
            key = one.get("remeasures") if isinstance(one, dict) else None
            # Whoever may charge the account may have written anything there.
            earlier = pages.find_charge(key) if isinstance(key, str) and key not in found else None
            if earlier is not None:
                found[earlier.id] = earlier
                waiting.append(earlier)
    return list(found.values())


def _release_guarantee(account: Account, looks: Sequence[ChargeRow]) -> dict[str, Any]:
    """Return what a release may lose at most: what was reserved for its looks, before a row was read."""
    asked, bodies = Sums(), [json_of(row.body) for row in looks]
    for row in looks:
        asked = asked.plus(row.asked)
    failing, conversion = Fraction(asked.failing, ATTO), Fraction(account.delta) - Fraction(account.failures)
    if account.meter_name == "zcdp":
        rho = amount_of(asked.main)
        if not failing:
            return {"variant": "Zero-concentrated DP", "rho": str(rho)}
        epsilon = str(Fraction(ZCDP(rho=rho).epsilon(conversion)) if rho else 0)
        more = {"rho": str(rho), "failures": str(failing)}
        return {"variant": "Approximate DP", "epsilon": epsilon, "delta": str(conversion + failing), **more}
    # What refines another release loses more by itself than it adds.
    alone = sum(map(find_alone, bodies), Fraction(0))
    if account.meter == "pure":
        return {"variant": "Pure DP", "epsilon": str(amount_of(asked.main) + alone), "delta": "0"}
    order = Fraction(account.alpha)
    more = {"divergence": str(amount_of(asked.main)), "order": account.alpha}
    if not asked.impure:
        variant = "Approximate DP" if failing else "Pure DP"
        epsilon = str(amount_of(asked.pure) + alone)
        return {"variant": variant, "epsilon": epsilon, "delta": str(failing), **more}
    rhos = [rho for rho in map(find_rho, bodies) if rho is not None]
    if len(rhos) == len(bodies) and not failing:
        return {"variant": "Zero-concentrated DP", "rho": str(sum(rhos)), **more}
    # Noise without an epsilon at delta 0: what its divergence means at the delta of the account.
    epsilon = str(Fraction(spent_epsilon(Sums(asked.main, 0, 0, 1), conversion, order)))
    variant = "Approximate DP" if failing else "Renyi DP"
    return {"variant": variant, "epsilon": epsilon, "delta": str(conversion + failing), **more}


def _day_of(body: Mapping[str, Any]) -> str:
    # Of the time, the day, as a release says it.
    return str(body.get("time", ""))[:10]


def check_statement(pages: Pages, statement: PublicStatement) -> StatementCheck:
    """Compare a statement with the one that the history has, and that one with all else that it has."""
    problems = [f"The history of the account does not hold: {one}" for one in pages.verify(None).problems]
    walked = _walk(pages)
    number, true = _find_published(walked, statement)
    newer = False
    if true is None:
        problems.append(
            f"digest: the history of account {pages.name!r} has no statement with it. It was published "
            "elsewhere or never, or it was edited."
        )
    else:
        subject = _subject_of(true)
        newer = any(one > number and _subject_of(found) == subject for one, found in walked.published)
        problems += [
            f"{path} was edited: the ledger has {ours}, and the statement says {theirs}."
            for path, ours, theirs in list_differences(true, statement.to_dict())
        ]
        problems += _judge(pages, true)
    return StatementCheck(account=pages.name, digest=statement.digest, problems=tuple(problems), newer=newer)


def _find_published(walked: _Walked, statement: PublicStatement) -> tuple[int, dict[str, Any] | None]:
    """Return the statement of the history that another one is: by its digest, else by what it is about."""
    for number, found in walked.published:
        if found.get("digest") == statement.digest:
            return number, found
    # Whoever edits a field may have edited the digest as well, or that alone.
    subject = _subject_of(statement.to_dict())
    alike = [(number, found) for number, found in walked.published if _subject_of(found) == subject]
    told = statement.to_dict()
    return min(alike, key=lambda one: sum(1 for _ in list_differences(one[1], told)), default=(0, None))


def _subject_of(document: Mapping[str, Any]) -> tuple[Any, ...]:
    promise = document.get("promise")
    known = promise if isinstance(promise, dict) else {}
    return tuple(str(known.get(name)) for name in ("account", "about", "charge", "part"))


def _judge(pages: Pages, true: dict[str, Any]) -> Iterator[str]:
    """Say what a statement of the history says that the rest of the ledger, or this version, does not."""
    # Whoever may charge may put words into the history; so they are made anew from the rest of it.
    try:
        stated = PublicStatement(**true)
        promise = stated.promise
        key = promise.get("charge")
        walked = _walk(pages, promise["history"]["event"] if key is None else None)
        again = _promise(pages, walked, key, promise.get("part", 1))
        # Signed pages may be others by now, and that is said below.
        again["proofs"] = promise["proofs"]
        if key is None:
            again["version"] = promise["version"]
        made = PublicStatement.build(again, stated.owner)
        whole = digest_of_statement(true) == stated.digest
        pages_then = dict(promise["proofs"]["pages"])
        version = shown(promise["proofs"]["version"])
    except (LedgerError, InvalidParameter, KeyError, TypeError, ValueError, AttributeError):
        yield "promise: what the history has as a statement is about nothing else that it has."
        return
    for path, ours, theirs in list_differences(made.to_dict() | {"digest": None}, true | {"digest": None}):
        yield f"{path} is not what the ledger says: by the rest of the history it is {ours}, not {theirs}."
    if not whole:
        yield "digest is not that of the statement in the history."
    now = read_digests()
    for page, digest in pages_then.items():
        if now.get(page) != digest:
            yield (
                f"promise.proofs.pages.{page}: the proof page was signed for other code. The statement, of "
                f"sordino {version}, has {shown(digest)}, and this version, {__version__}, has "
                f"{shown(now.get(page))}. Check it with that version, or publish a new statement."
            )
