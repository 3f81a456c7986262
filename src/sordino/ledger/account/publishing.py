"""Publishes statements: what an account or kept releases promise, from the history and put into it.

A statement is recorded as a reservation of nothing, with the whole statement as its detail. So it
needs no table and no event of its own: it is under the hashes of the history, in every backup and
every export, in a file as on a server, and whoever may charge may publish
(docs/decisions/0028-a-statement-is-in-the-history.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from sordino._version import __version__
from sordino.constraints import shown
from sordino.errors import InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger import schema
from sordino.ledger.account.changes import build_reservation, find_touched
from sordino.ledger.account.pages import Pages
from sordino.ledger.account.promises import Walked, make_promise, walk
from sordino.ledger.account.records import body_of, nonce
from sordino.ledger.renyi import NOTHING
from sordino.ledger.store.store import Store, carry_out
from sordino.statements.document import (
    PublicStatement,
    StatementCheck,
    check_size,
    digest_of_statement,
    list_differences,
)
from sordino.statements.owner import OWNER_MUST_ADD, Owner
from sordino.statements.proofs import read_digests

_SAY_AS_OWNER = (
    " What the owner has to say is published with the rest: sordino ledger publish --owner FILE."
)
LABEL = "statement"
"""What a charge of nothing is called that a statement is recorded with."""


def publish(
    store: Store, pages: Pages, key: str | None, part: int | None, owner: Owner
) -> PublicStatement:
    """Return the statement of kept releases, or of the account, and see that the history has it."""
    # Nothing is promised about an account that does not hold.
    pages.verify(None).raise_if_broken()
    walked = walk(pages)
    statement = PublicStatement.build(make_promise(pages, walked, key, part), owner)
    check_size(statement)
    # The same statement is the same document; once in the history is enough.
    if any(found.get("digest") == statement.digest for _, found in walked.published):
        return statement
    note(store, pages, LABEL, {"statement": statement.to_dict()})
    return statement


def note(store: Store, pages: Pages, label: str, detail: dict[str, Any]) -> None:
    """Put something into the history, as a charge of nothing with this detail."""
    # Parts may have been closed since it was first seen.
    account = pages.facts._replace(closed=pages.account().closed)
    facts = {
        "label": label,
        "detail": detail,
        "charges": [],
        "reading": "",
    }
    charge = nonce()
    touched = find_touched(account, None)
    key, reservation = build_reservation(account, facts, charge, NOTHING, touched)
    # Nothing always fits; only an account that another one has taken over begins nothing any more.
    reserve = schema.of_account(schema.RESERVE, account.parts)
    if not carry_out(store, reserve, reservation, account=account.name):
        then = "The statement was not published." if label == LABEL else "Nothing was recorded."
        pages.refuse(NOTHING, touched, what=f"A {label}", then=then)
        raise LedgerConflict(
            f"Account {account.name!r} was changed by others at the same time. {then} Try again."
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
        settle = schema.of_account(schema.SETTLE, account.parts)
        carry_out(store, settle, closing, account=account.name)


def check_statement(pages: Pages, statement: PublicStatement) -> StatementCheck:
    """Compare a statement with the one that the history has, and that one with all else there."""
    problems = [
        f"The history of the account does not hold: {one}" for one in pages.verify(None).problems
    ]
    walked = walk(pages)
    number, true = _find_published(walked, statement)
    newer = False
    if true is None:
        problems.append(
            f"digest: the history of account {pages.name!r} has no statement with it. It was "
            "published elsewhere or never, or it was edited."
        )
    else:
        subject = _subject_of(true)
        newer = any(
            one > number and _subject_of(found) == subject for one, found in walked.published
        )
        problems += [
            f"{path} was edited: the ledger has {ours}, and the statement says {theirs}."
            # Who filled it in by hand meant no harm, and is told where it belongs.
            + (_SAY_AS_OWNER if OWNER_MUST_ADD in ours else "")
            for path, ours, theirs in list_differences(true, statement.to_dict())
        ]
        problems += _judge(pages, true)
    return StatementCheck(
        account=pages.name, digest=statement.digest, problems=tuple(problems), newer=newer
    )


def _find_published(
    walked: Walked, statement: PublicStatement
) -> tuple[int, dict[str, Any] | None]:
    """Return the statement of the history that another one is.

    By its digest, else by what it is about.
    """
    for number, found in walked.published:
        if found.get("digest") == statement.digest:
            return number, found
    # Whoever edits a field may have edited the digest as well, or that alone.
    subject = _subject_of(statement.to_dict())
    alike = [(number, found) for number, found in walked.published if _subject_of(found) == subject]
    told = statement.to_dict()
    return min(
        alike, key=lambda one: sum(1 for _ in list_differences(one[1], told)), default=(0, None)
    )


def _subject_of(document: Mapping[str, Any]) -> tuple[Any, ...]:
    promise = document.get("promise")
    known = promise if isinstance(promise, dict) else {}
    return tuple(str(known.get(name)) for name in ("account", "about", "charge", "part"))


def _judge(pages: Pages, true: dict[str, Any]) -> Iterator[str]:
    """Say what a statement of the history has that the rest of the ledger or this version lacks."""
    # Whoever may charge may put words into the history; so they are made anew from the rest of it.
    try:
        stated = PublicStatement(**true)
        promise = stated.promise
        key = promise.get("charge")
        # An account goes on, and so may a program that keeps its releases one by one.
        grows = promise.get("about") != "release"
        walked = walk(pages, promise["history"]["event"] if grows else None)
        again = make_promise(pages, walked, key, promise.get("part"))
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
    for path, ours, theirs in list_differences(
        made.to_dict() | {"digest": None}, true | {"digest": None}
    ):
        yield (
            f"{path} is not what the ledger says: by the rest of the history it is {ours}, not "
            f"{theirs}."
        )
    if not whole:
        yield "digest is not that of the statement in the history."
    now = read_digests()
    for page, digest in pages_then.items():
        if now.get(page) != digest:
            yield (
                f"promise.proofs.pages.{page}: the proof page was signed for other code. The "
                f"statement, of sordino {version}, has {shown(digest)}, and this version, "
                f"{__version__}, has {shown(now.get(page))}. Check it with that version, or "
                "publish a new statement."
            )
