"""Finds the account of a table that its owner calls by a name, and refuses a second one for it.

A name says nothing of where a table lies, so what a path did for accounts is done here: nobody gets
a second budget for the same people by another name, unless that is meant
(docs/decisions/0050-an-account-is-about-what-its-owner-names.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.address import covers_tables, join_tables, list_tables
from sordino.errors import InvalidParameter, LedgerConflict
from sordino.ledger import schema
from sordino.ledger.account.identity import canonical_unit, real_place
from sordino.ledger.account.ledger import Ledger
from sordino.ledger.account.pages import names
from sordino.ledger.amounts import Budget
from sordino.ledger.history import Account, Row, json_of
from sordino.ledger.store.store import NoLedgerError
from sordino.ledger.store.urls import store_at

_ANY_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


@final
@dataclass(frozen=True, kw_only=True)
class WantedAccount:
    """The account that a table shall have.

    Attributes
    ----------
    account : str
        Its name.
    name : str
        What the owner calls the table.
    place : str
        Where it lies, as `known_source` writes it; empty for a table in memory.
    unit : PrivacyUnit
        Whom it protects.
    epsilon, delta, failures : Fraction or None
        Its budget; None where an account that is there may have any.
    named : bool
        Whether the owner has said the name; else it is that of a file, which others may have, too.
    second : bool
        Whether another account for the same table is meant.
    others : tuple of str
        The names of private tables that it looks up.
    parts : str
        The cut of the column of the person that its parts are; empty: any that it has.
    say_account, say_second, say_epsilon : str
        How the owner names an account, says that a second one is meant, and says a budget: for
        messages.
    """

    account: str
    name: str
    place: str
    unit: Any
    epsilon: Fraction | None
    delta: Fraction | None
    failures: Fraction | None = None
    named: bool
    second: bool
    say_account: str
    say_second: str
    say_epsilon: str
    others: tuple[str, ...] = ()
    parts: str = ""

    @property
    def source(self) -> str:
        """What the ledger calls the table, and those with it."""
        return join_tables(f"name:{self.name}", self.others)


def find_fitting(url: str, wanted: WantedAccount) -> Ledger | None:
    """Return the account if it is there and fits; None if it is to be made.

    Raises
    ------
    LedgerConflict
        If it does not fit, or another account is about the same table.
    LedgerError
        If the ledger cannot be read.
    """
    listed = _list_accounts(url)
    own = next((one for one, _ in listed if one.name == wanted.account), None)
    if own is not None:
        _refuse_misfit(own, wanted)
        first = dict(listed)[own]
        _refuse_namesake(own, first, wanted)
        # A name may go on for a table that has moved, but not for one that has another account.
        # A share of an account is a part of a budget that counts already.
        moved = bool(wanted.place) and not _lies_at(own, first, wanted)
        if moved and own.parent is None and not wanted.second:
            _refuse_second(listed, wanted)
    elif not wanted.second:
        _refuse_second(listed, wanted)
    return None if own is None else Ledger.open(url, account=wanted.account)


def make_or_find(url: str, wanted: WantedAccount, budget: Budget | None) -> Ledger:
    """Return the account, which is made if it is not there.

    Raises
    ------
    InvalidParameter
        If it is to be made, and nobody says its budget.
    LedgerConflict
        If it is there and does not fit, or another account is about the same table.
    LedgerError
        If the ledger cannot be read or written.
    """
    found = find_fitting(url, wanted)
    if found is not None:
        return found
    if budget is None:
        raise InvalidParameter(
            f"{wanted.say_epsilon} must say what all releases of {wanted.name!r} may spend "
            f"together, because account {wanted.account!r} is not there yet; got none."
        )
    try:
        return Ledger.create(
            url,
            account=wanted.account,
            budget=budget,
            adjacency=wanted.unit.adjacency,
            unit=wanted.unit,
            source=wanted.source,
            place=real_place(wanted.place) if wanted.place else "",
            parts=wanted.parts,
        )
    except LedgerConflict:
        # Somebody else has made it in this moment: then it is found, if it fits.
        found = find_fitting(url, wanted)
        if found is None:
            raise
    return found


def _list_accounts(url: str) -> list[tuple[Account, str]]:
    """Return the accounts of a ledger, each with where its table lay when it was made."""
    found: list[tuple[Account, str]] = []
    try:
        with store_at(url).reading() as rows:
            for name in names(rows):
                account = Account(*rows(schema.ACCOUNT, account=name)[0])
                first = rows(schema.EVENTS, account=name, after=0, until=1)
                body = json_of(Row(*first[0]).body) if first else {}
                place, made_for = _as_text(body.get("place")), _as_text(body.get("source"))
                # One that was given a name later was made for a place.
                if made_for not in {"", account.source}:
                    place = real_place(made_for)
                found.append((account, place))
    # What cannot be read for another reason could have a second account: that is an error.
    except NoLedgerError:
        return []
    return found


def list_account_names(url: str) -> tuple[str, ...]:
    """Return the names of the accounts of a ledger; none if there is no ledger yet."""
    try:
        return Ledger.accounts(url)
    except NoLedgerError:
        return ()


def _as_text(said: Any) -> str:
    return said if isinstance(said, str) else ""


def _refuse_misfit(own: Account, wanted: WantedAccount) -> None:
    """Say what differs between an account that is there and the one that is wanted."""
    pairs = [
        (f"for {own.unit}", f"for {canonical_unit(wanted.unit)}"),
        (own.adjacency, wanted.unit.adjacency),
        ("" if _is_of(own, wanted) else f"about {own.source}", f"about {wanted.source}"),
    ]
    if wanted.parts:
        pairs.append((f"parts {own.cut}" if own.cut else "no parts", f"parts {wanted.parts}"))
    budgets = (
        ("epsilon", own.epsilon, wanted.epsilon),
        ("delta", own.delta, wanted.delta),
        ("failures", own.failures, wanted.failures),
    )
    pairs += [
        (f"{name} {float(Fraction(has)):g}", f"{name} {float(asked):g}")
        for name, has, asked in budgets
        if asked is not None and Fraction(has) != asked
    ]
    differing = [(one, other) for one, other in pairs if one and one != other]
    if own.successor:
        raise LedgerConflict(
            f"Account {own.name!r} was converted into {own.successor!r}, which goes on for it: "
            f"{wanted.say_account.format(own.successor)}. Nothing was written or charged."
        )
    if differing:
        it_is, needed = (", ".join(side) for side in zip(*differing, strict=True))
        raise LedgerConflict(
            f"Account {own.name!r} is there and does not fit: it has {it_is}, and this table would "
            f"need {needed}. Nothing was written or charged; name another account, or say what it "
            "has."
        )


def _refuse_namesake(own: Account, first: str, wanted: WantedAccount) -> None:
    """Refuse to take a file for one of the same name that lay elsewhere, unless that was said."""
    if wanted.named or not first or first == real_place(wanted.place):
        return
    raise LedgerConflict(
        f"Account {own.name!r} was made for {first!r}, and this table lies elsewhere. If it "
        f"is the same one, say so: {wanted.say_account.format(own.name)}; else give it another "
        "name. Nothing was written or charged."
    )


def _lies_at(one: Account, first: str, wanted: WantedAccount) -> bool:
    """Tell whether an account was made for where a table lies, or for a table that lay there."""
    if not wanted.place:
        return False
    place = real_place(wanted.place)
    return any(_is_same_place(place, other) for other in (real_place(one.source), first))


def _is_same_place(one: str, other: str) -> bool:
    """Tell whether two places are one; a place with {date} is that of each day."""
    return one == other or any(
        bool(re.fullmatch(re.escape(dated).replace(re.escape("{date}"), _ANY_DAY), each))
        for dated, each in ((one, other), (other, one))
        if "{date}" in dated
    )


def _is_of(own: Account, wanted: WantedAccount) -> bool:
    """Tell whether an account is about the table: by its name, or by where it lies."""
    return covers_tables(own.source, wanted.source) or (
        bool(wanted.place) and own.source == wanted.place and not wanted.others
    )


def _refuse_second(listed: list[tuple[Account, str]], wanted: WantedAccount) -> None:
    """Refuse to make an account for a table that has one, by its name or by where it lies."""
    for one, first in listed:
        # A share is a part of a budget that counts already.
        if one.parent is not None:
            continue
        # One that was converted is closed, and knows the place of the one that goes on for it.
        payer = one.successor or one.name
        if payer == wanted.account:
            continue
        if list_tables(one.source) & list_tables(wanted.source) or _lies_at(one, first, wanted):
            raise LedgerConflict(
                f"Account {payer!r} of this ledger is about that table already "
                f"({first or one.source}), and a second one would spend a second budget on the "
                f"same people. Use it: {wanted.say_account.format(payer)}; or say that it is "
                f"meant: {wanted.say_second}. Nothing was written or charged."
            )
