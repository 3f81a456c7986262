"""Says what an account, a kept release, or all releases of one charge promise: made of the history.

What whoever may charge has put into the history is read as words of a stranger: anything may stand
there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

from sordino._version import __version__
from sordino.cost import ZCDP
from sordino.cost.several import list_days
from sordino.errors import LedgerError
from sordino.ledger.account.pages import Pages
from sordino.ledger.account.records import find_alone, find_rho
from sordino.ledger.amounts import MEASURES, amount_of
from sordino.ledger.history import Account, ChargeRow, Row, json_of, read_stated
from sordino.ledger.parts import component_of
from sordino.ledger.renyi import ATTO, Sums, spent_epsilon
from sordino.record import Record
from sordino.statements.document import FORMS
from sordino.statements.proofs import Proved, are_exact, find_proofs, list_digests
from sordino.statements.trees import is_plain
from sordino.unit_columns import has_several_columns

_AFTER_ROWS = frozenset(("draw", "settle", "keep"))
"""Events that come when rows were read, or are being read."""


@final
@dataclass
class Walked:
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
    records: dict[tuple[str, int], tuple[Row, str]] = field(default_factory=dict)
    # What was published, oldest first, with the numbers of their events.
    published: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    # Of charges that were reserved by a cost, what they have drawn: a method that was chosen, for
    # one.
    drawn: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Take in the next event."""
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
            known = _list_promised_names(held)
            self._count([thing for thing in fresh if thing.get("name") not in known])
            held += fresh
        elif row.kind == "keep":
            self.kept += 1
            self.records[row.charge, body.get("part", -1)] = row, str(body.get("digest"))

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
        self.mechanisms.update(_list_promised_names(things))
        for thing in things:
            self.proved.setdefault(str(thing.get("name")), set()).add(find_proofs(thing))


def walk(pages: Pages, until: int | None = None) -> Walked:
    """Return what the events of an account say, up to one of them."""
    walked = Walked(until)
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


def _list_promised_names(things: list[dict[str, Any]]) -> set[str]:
    return {str(thing.get("name")) for thing in things}


def _list_things(body: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Return what a reservation or a draw says that it is for."""
    things = body.get(where)
    return (
        [thing for thing in things if isinstance(thing, dict)] if isinstance(things, list) else []
    )


def make_promise(pages: Pages, walked: Walked, key: str | None, part: int | None) -> dict[str, Any]:
    """Return what a statement says for programs.

    Parameters
    ----------
    pages : Pages
        The account.
    walked : Walked
        What its events say.
    key : str or None
        The charge; None for all of the account.
    part : int or None
        Which of the releases that were kept of it, from 1; None for all of them together.
    """
    account = pages.facts
    if key is None:
        about, told = "account", _tell_account(account, walked)
    elif part is None and _is_batch(pages.charge(key)):
        about, told = "batch", _tell_batch(pages, account, walked, key)
    else:
        about, told = "release", _tell_release(pages, account, walked, key, part or 1)
    listed = [page for one in told["mechanisms"] for page in one["proofs"]]
    said = {
        "form": FORMS[about],
        "about": about,
        "account": account.name,
        "parent": account.parent,
        "unit": account.unit,
        "adjacency": account.adjacency,
        "meter": account.meter_name,
        "measure": MEASURES[account.meter_name],
    }
    if has_several_columns(account.unit):
        said["persons"] = list_days(told["guarantee"])
    if account.parts:
        said["parts"] = {"of": component_of(account.parts), "cut": account.cut}
    proofs = {"version": __version__, "pages": list_digests(listed)}
    return _drop_missing(said | told | {"proofs": proofs})


def _drop_missing(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _tell_account(account: Account, walked: Walked) -> dict[str, Any]:
    last = walked.last
    if last is None:
        raise LedgerError(
            f"Account {account.name!r} has no history; `sordino ledger verify` looks at it."
        )
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


def _tell_release(
    pages: Pages, account: Account, walked: Walked, key: str, part: int
) -> dict[str, Any]:
    # Asked first: they say in words what is not there.
    row, record = pages.charge(key), pages.record(key, part - 1)
    kept, published = walked.records[key, part - 1]
    facts, body = record.facts, json_of(row.body)
    things = _list_charged(walked, key, body)
    proved = [find_proofs(thing) for thing in things]
    return {
        "charge": key,
        "part": part,
        "batch": True if _is_batch(row) else None,
        "release": str(facts.get("release")),
        # A caller may have made the record, and said less there.
        "version": str(facts.get("version", "unknown")),
        "day": _day_of(body),
        "max_rows": _find_most(record),
        "asked": body.get("detail", {}),
        **_tell_cost(pages, account, row),
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


def _tell_batch(pages: Pages, account: Account, walked: Walked, key: str) -> dict[str, Any]:
    """Return what all releases of one charge promise together: those of a study, for one."""
    row = pages.charge(key)
    # Those that were kept so far. The first is asked for in any case: it says in words if none was.
    parts = sorted(part for charge, part in walked.records if charge == key) or [0]
    records = [pages.record(key, part) for part in parts]
    kept, _ = walked.records[key, parts[-1]]
    body = json_of(row.body)
    things = _list_charged(walked, key, body)
    proved: dict[str, list[Proved]] = {}
    for thing in things:
        proved.setdefault(str(thing.get("name")), []).append(find_proofs(thing))
    exact = are_exact(one for found in proved.values() for one in found)
    return {
        "charge": key,
        "study": _find_common_fields(records, "study"),
        "run": _find_common_fields(records, "run"),
        "version": str(_find_common_fields(records, "version") or "unknown"),
        "day": _day_of(body),
        # A number that holds for each of them.
        "max_rows": _find_highest(records),
        **_tell_cost(pages, account, row),
        "exact": exact and all(record.facts.get("exact") is not False for record in records),
        "mechanisms": [
            {"name": name, "times": len(found), **_tell_proofs(name, set(found))}
            for name, found in sorted(proved.items())
        ],
        # A program that asked for several may have kept some of them, and its charge was for all.
        "charged": len(_list_asked(row)),
        "asked": _list_promised(row, records),
        "releases": [
            _drop_missing(
                {
                    "part": part + 1,
                    "name": _find_text(record, "name"),
                    "release": str(record.facts.get("release")),
                    "max_rows": _find_most(record),
                    "noise": _find_text(record, "noise"),
                    "measure_noise": _find_text(record, "measure_noise"),
                    "published": walked.records[key, part][1],
                }
            )
            for part, record in zip(parts, records, strict=True)
        ],
        "history": {"event": kept.number, "head": kept.head},
    }


def _list_asked(row: ChargeRow) -> list[Any]:
    """Return what a charge says of each of its releases, where there are several.

    Of one it says no list.
    """
    detail = json_of(row.body).get("detail")
    listed = detail.get("batch") if isinstance(detail, dict) else None
    return listed if isinstance(listed, list) else []


def _list_promised(row: ChargeRow, records: Sequence[Record]) -> list[Any]:
    """Return what was asked for, in the asker's words: a study's, or those that were charged."""
    said = [record.facts.get("asked") for record in records]
    # The charge has the whole path of a file that a study names from its folder.
    return said if all(isinstance(one, dict) for one in said) else _list_asked(row)


def _is_batch(row: ChargeRow) -> bool:
    return bool(_list_asked(row))


def _list_charged(walked: Walked, key: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the mechanisms of a charge.

    Those it was made for, and those that were drawn of a bare cost.
    """
    things = _list_things(body, "charges")
    if walked.drawn.get(key):
        known = [thing for thing in things if "parameters" in thing]
        things = known + [thing for thing in walked.drawn[key] if thing not in known]
    return things


def _tell_cost(pages: Pages, account: Account, row: ChargeRow) -> dict[str, Any]:
    # The estimate of what was measured again is made of all looks: so is what it may lose.
    looks = _list_looks(pages, row)
    settled = sum(one.settled or 0 for one in looks)
    return {
        "looks": len(looks) if len(looks) > 1 else None,
        "guarantee": _release_guarantee(account, looks),
        # What came back by the proof of a mechanism for each transcript is a released figure.
        "spent": {MEASURES[account.meter_name]: str(amount_of(settled))},
    }


def _find_most(record: Record) -> int | None:
    most = record.facts.get("max_rows")
    return most if isinstance(most, int) else None


def _find_highest(records: Sequence[Record]) -> int | None:
    """Return how many rows of a unit count at most in each of some releases.

    None if in one all may.
    """
    found = [_find_most(record) for record in records]
    known = [most for most in found if most is not None]
    return max(known) if len(known) == len(found) else None


def _find_text(record: Record, fact: str) -> str | None:
    said = record.facts.get(fact)
    return said if isinstance(said, str) else None


def _find_common_fields(records: Sequence[Record], fact: str) -> str | None:
    """Return what all of some releases say of themselves; None if they differ."""
    said = {_find_text(record, fact) for record in records}
    return said.pop() if len(said) == 1 else None


def _tell_proofs(name: Any, proved: Iterable[Proved]) -> dict[str, Any]:
    """Return what a charged thing consists of, if that is something else, and its proof pages."""
    names = sorted({inner for one in proved for inner in one.names})
    pages = sorted({page for one in proved for page in one.pages})
    return {**({} if names in ([], [name]) else {"of": names}), "proofs": pages}


def _list_looks(pages: Pages, row: ChargeRow) -> list[ChargeRow]:
    """Return a charge, and those of the earlier looks that its release is put together with."""
    found = {row.id: row}
    waiting = [row]
    while waiting:
        row = waiting.pop()
        for one in [json_of(row.body).get("detail"), *_list_asked(row)]:
            key = one.get("remeasures") if isinstance(one, dict) else None
            # Whoever may charge the account may have written anything there.
            earlier = pages.find_charge(key) if isinstance(key, str) and key not in found else None
            if earlier is not None:
                found[earlier.id] = earlier
                waiting.append(earlier)
    return list(found.values())


def _release_guarantee(account: Account, looks: Sequence[ChargeRow]) -> dict[str, Any]:
    """Return the most a release may lose: what was reserved for its looks before a row was read."""
    asked, bodies = Sums(), [json_of(row.body) for row in looks]
    for row in looks:
        asked = asked.plus(row.asked)
    failing, conversion = (
        Fraction(asked.failing, ATTO),
        Fraction(account.delta) - Fraction(account.failures),
    )
    if account.meter_name == "zcdp":
        rho = amount_of(asked.main)
        if not failing:
            return {"variant": "Zero-concentrated DP", "rho": str(rho)}
        epsilon = str(Fraction(ZCDP(rho=rho).epsilon(conversion)) if rho else 0)
        more = {"rho": str(rho), "failures": str(failing)}
        return {
            "variant": "Approximate DP",
            "epsilon": epsilon,
            "delta": str(conversion + failing),
            **more,
        }
    # What refined another release loses more by itself than it added.
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
