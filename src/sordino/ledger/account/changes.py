"""What is asked of an account: a charge, a share for a child, the end of an abandoned charge."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from sordino.address import covers_tables, is_server_table, join_tables, list_tables
from sordino.constraints import ADJACENCY, shown, text
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict
from sordino.ledger import schema
from sordino.ledger.account.identity import (
    canonical_unit,
    has_no_place,
    is_about,
    known_source,
    real_place,
)
from sordino.ledger.account.pages import Pages, names
from sordino.ledger.account.records import body_of, described, nonce, recorded
from sordino.ledger.amounts import check_claims, exact_amounts, nano_down
from sordino.ledger.history import Account, chained, digest_of, write_touched
from sordino.ledger.parts import PartRange, join_ranges, write_ranges
from sordino.ledger.played_parts import NOWHERE, Touched
from sordino.ledger.renyi import ATTO, LARGEST, NANO, Amounts, Sums
from sordino.ledger.store.store import Store, carry_out

_OLD_ADDRESS_ADVICE = (
    "An account of an older version knows its table by that address: name the server as it does. "
)
_NAME_ADVICE = (
    "If it is the same table, ask it by that name: as sordino.toml declares it, or with name= in "
    "Python. "
)
_WIDEN_ADVICE = (
    "A private table that is looked up is protected by the account, too: let it be about that one "
    "as well, by sordino ledger resource --to NAME. "
)


_OTHER_ADVICE = "Name the account that is meant (--account), or make one. "
_ABOUT = {"unit": "protects", "source": "is about", "adjacency": "is for"}


def _advise(own: str, given: str) -> str:
    """Return what to do where an account knows its source by another text."""
    if is_server_table(own):
        return _OLD_ADDRESS_ADVICE
    if covers_tables(given, own):
        return _WIDEN_ADVICE
    named = own.startswith("name:") and not given.startswith("name:")
    return _NAME_ADVICE if named else ""


def request(
    account: Account,
    parts: Sequence[Any],
    *,
    label: str | None,
    unit: Any,
    source: str | os.PathLike[str] | None,
    adjacency: str | None,
    reading: str | None,
    detail: dict[str, Any] | None,
    allow_approximate: bool,
    touched: Touched = NOWHERE,
    charge: str | None = None,
) -> tuple[str, Amounts, str, dict[str, Any]]:
    """Return the label, the exact worst case, the key and the parameters of a reservation.

    A release that the account is not for is refused. `charge` is the id of a run's charge
    (`Pages.find_run`).
    """
    # Added as fractions, and rounded up once.
    meter = account.meter_at_order
    worst = sum((exact_amounts(part, meter) for part in parts), Amounts())
    asked = worst.rounded_up()
    label = text(
        " + ".join(type(part).__name__ for part in parts) if label is None else label, "label"
    )
    stated = {
        "unit": None if unit is None else canonical_unit(unit),
        "source": None if source is None else known_source(source),
        "adjacency": None if adjacency is None else ADJACENCY("adjacency", adjacency),
    }
    # Only what was stated is compared; an account of an older version may write its source
    # otherwise.
    for name, given in stated.items():
        own = getattr(account, name)
        if given is not None and given != own and not (name == "source" and is_about(given, own)):
            advice = _advise(own, str(given)) if name == "source" else ""
            raise LedgerConflict(
                f"Account {account.name!r} {_ABOUT[name]} {own!r}, and this release "
                f"{_ABOUT[name]} {str(given)!r}. {advice or _OTHER_ADVICE}Nothing was charged or "
                "read."
            )
    # A larger number fits in no column, so the database must not be asked.
    if asked.is_too_large():
        raise BudgetExceeded(
            f"This release needs more {meter.measure} than any account can hold. Nothing was read "
            "or released."
        )
    if touched.ranges and not any((asked.main, asked.failing, asked.impure)):
        raise InvalidParameter(
            "A charge of parts must cost something; got one that costs nothing. Charge it without "
            "parts. Nothing was read or released."
        )
    for part in parts:
        check_claims(part, adjacency=account.adjacency, allow_approximate=allow_approximate)
    facts = {"label": label, "detail": recorded(detail), "charges": described(parts, meter)}
    # Said by every charge, also by one that reads no column: an older version says nothing
    # (`sqlite_schema`).
    facts["reading"] = text(reading, "reading") if reading else ""
    # 128 random bits, made here: no other charge has them, whoever makes it.
    return label, worst, *build_reservation(account, facts, charge or nonce(), asked, touched)


def find_touched(account: Account, parts: PartRange | Sequence[PartRange] | None) -> Touched:
    """Return which parts of an account a release is about; all of them unless it says."""
    if account.parts:
        if parts is None:
            return Touched(whole=True)
        return Touched(join_ranges(parts, account.cut))
    if parts is not None:
        raise InvalidParameter(
            f"parts is for an account that was made with parts; account {account.name!r} has none. "
            "Nothing was read or released."
        )
    return NOWHERE


def build_reservation(
    account: Account, facts: dict[str, Any], charge: str, asked: Sums, touched: Touched
) -> tuple[str, dict[str, Any]]:
    """Return the key of a charge, and the parameters of its reservation.

    The key stays in this process; the ledger gets its hash alone, so nobody who reads it can draw.
    """
    about_parts: dict[str, Any] = {}
    if account.parts:
        facts = {**facts, "parts": write_touched(touched, account.closed)}
        about_parts = {
            "parts": account.parts,
            "ranges": write_ranges(touched.ranges),
            "whole": int(touched.whole),
            # As it is known here: where others have closed parts since, nothing is charged.
            "closed": account.closed,
        }
    digest, key = digest_of(facts, account), nonce()
    # The facts of the account go along: if another one has taken the name since, it does not fit.
    about = {
        name: getattr(account, name) for name in ("meter", "alpha", "adjacency", "unit", "source")
    }
    return key, {
        **about,
        **about_parts,
        "account": account.name,
        "reading": facts["reading"],
        "charge": charge,
        **parameters_of(asked),
        "digest": digest,
        "lock": chained(key),
        "body": body_of(digest=digest, **facts),
    }


def parameters_of(amounts: Sums) -> dict[str, int]:
    """Return amounts as the parameters of an operation."""
    return {
        "amount": amounts.main,
        "pure": amounts.pure,
        "failing": amounts.failing,
        "impure": amounts.impure,
    }


def grant_share(
    store: Store,
    pages: Pages,
    child: str,
    amount: Fraction,
    *,
    pure: Fraction | None,
    failures: Fraction,
    once: bool,
    made_for: dict[str, str] | None = None,
) -> None:
    """Give a share of an account to a child, which is made if there is none.

    Or, where it may be given only once, refused if there is one.
    """
    # Down, so that a child never gets more than what was said.
    share = nano_down(amount)
    if not 1 <= share <= LARGEST:
        raise InvalidParameter(
            "grant.amount must be from a billionth, the unit of a ledger, "
            f"to {LARGEST // NANO}; got {shown(amount)}."
        )
    keeps_deltas, meter = pages.facts.meter == "renyi", pages.facts.meter_name
    if meter != "renyi" and pure is not None:
        raise InvalidParameter(
            f"grant.pure is for an account with the renyi meter; account {pages.name!r} has the "
            f"meter {meter!r}."
        )
    if not keeps_deltas and failures:
        raise InvalidParameter(
            "grant.failures is for an account that keeps a part of its delta for failures; account "
            f"{pages.name!r} with the meter {meter!r} keeps none."
        )
    pure_share = 0 if pure is None else nano_down(pure)
    given = Sums(share, pure_share, math.floor(failures * ATTO), int(keeps_deltas and pure is None))
    if given.is_too_large():
        raise InvalidParameter(f"grant.pure must be at most {LARGEST // NANO}; got {shown(pure)}.")
    with pages.reading() as (parent, rows):
        found = rows(schema.ACCOUNT, account=child)
    if found and once:
        raise LedgerConflict(f"Account {child!r} exists already. Nothing was granted.")
    # The statement of the grant asks this as well; here it gets a sentence of its own.
    if found and Account(*found[0]).parent != parent.name:
        raise LedgerConflict(
            f"Account {child!r} exists and is not a child of {parent.name!r}. Nothing was granted."
        )
    if found and (Account(*found[0]).pure_limit < 0) != bool(given.impure):
        raise LedgerConflict(
            f"Account {child!r} {'has' if given.impure else 'has no'} limit for its pure epsilons; "
            f"grant it a share {'with' if given.impure else 'without'} one. Nothing was granted."
        )
    # What the child is about, which is what its parent is about: only so do the charges of both add
    # up.
    facts = {**parent.facts, "name": child, "parent": parent.name}
    parameters = {
        "parent": parent.name,
        "child": child,
        **parameters_of(given),
        "body": body_of(
            child=child, **facts, **({} if made_for is None else {"made_for": made_for})
        ),
    }
    # Either it does not fit, which `refuse` says, or somebody was in the way.
    if not _give_share(store, parameters, parent.parts, new=not found, once=once):
        pages.refuse(
            given,
            find_touched(parent, None),
            what=f"The share of {child!r}",
            then="Nothing was granted.",
        )
        raise LedgerConflict(
            f"Account {parent.name!r} was changed by others at the same time. Nothing was granted; "
            "try again."
        )


def _give_share(
    store: Store, parameters: dict[str, Any], parts: str, *, new: bool, once: bool
) -> bool:
    """Give the share, which is one share more if somebody else made the child meanwhile.

    Unless it may be given only once.
    """
    if new:
        # If somebody else has just made the child, its row is in the way, and it is granted the
        # share below.
        with suppress(LedgerConflict):
            entrust = schema.of_account(schema.ENTRUST, parts)
            if carry_out(store, entrust, parameters, account=parameters["parent"]):
                return True
        if once:
            return False
    grant = schema.of_account(schema.GRANT, parts)
    return carry_out(store, grant, parameters, account=parameters["parent"])


def call_by_name(
    store: Store,
    pages: Pages,
    name: str,
    place: str,
    looked_up: Sequence[str],
    *,
    second: bool,
) -> None:
    """Let an account be about a name, where it was about the place of the same table.

    Or about more private tables, where it was about that name.
    """
    source, then = join_tables(f"name:{name}", looked_up), "Nothing was moved."
    with pages.reading() as (row, rows):
        others = [Account(*rows(schema.ACCOUNT, account=one)[0]) for one in names(rows)]
    shares = ", ".join(one.name for one in others if one.parent == row.name)
    taken = next((one.name for one in others if one.source == source), None)
    # A share is a part of a budget that counts already.
    payers = [one for one in others if one.name != row.name and one.parent is None]
    shared = [one.name for one in payers if list_tables(one.source) & set(looked_up)]
    # What was released before is of all these tables as well: it reads some of them.
    widens = row.source != source and covers_tables(source, row.source)
    why = None
    if row.successor or row.parent is not None:
        how = f"was converted into {row.successor!r}" if row.successor else "is a share of another"
        why = f"{how}, and only the account that pays is moved"
    elif has_no_place(row.source) and not widens:
        why = f"is about {row.source!r}, and not about a place"
    elif not widens and real_place(row.source) != real_place(place):
        why = f"is about {row.source!r}, and {name!r} lies at {place!r}: that is another table"
    elif shares:
        why = f"has shares ({shares}), which would stay behind"
    elif taken is not None:
        why = f"cannot be about {name!r}, because account {taken!r} is: that would be two budgets"
    elif shared and not second:
        why = (
            f"cannot be about {', '.join(looked_up)} as well, because account {shared[0]!r} is "
            "about one of them, and both budgets could be spent on its people; say that it is "
            "meant (--second-budget)"
        )
    if why is not None:
        raise LedgerConflict(f"Account {row.name!r} {why}. {then}")
    body = body_of(was=row.source, source=source)
    parameters = {"account": row.name, "last": row.head, "source": source, "body": body}
    # It asks for this again: nothing has happened to the account, and nobody has the name.
    moved = False
    with suppress(LedgerConflict):
        moved = carry_out(store, schema.RESOURCE, parameters, account=row.name)
    if not moved:
        raise LedgerConflict(
            f"Account {row.name!r} was changed by others at the same time. {then} Try again."
        )


def give_up(store: Store, pages: Pages, key: str, *, reason: str) -> None:
    """Close a charge that was never settled at what was drawn from it."""
    row = pages.charge(key)
    if row.settled is not None:
        raise LedgerConflict(
            f"Charge {key!r} is closed already ({row.state}); there is nothing to give up."
        )
    # What is known of the charge goes along: if its own process has used it meanwhile, nothing is
    # changed.
    parameters = {
        "account": pages.name,
        "charge": row.id,
        "reserved": row.reserved,
        "drawn": row.drawn,
        "draws": row.draws,
        "amount": row.drawn,
        "pure": row.pure_drawn,
        "failing": row.failing_drawn,
        "body": body_of(reason=reason),
    }
    void = schema.of_account(schema.VOID, pages.facts.parts)
    if not carry_out(store, void, parameters, account=pages.name):
        raise LedgerConflict(
            f"Charge {key!r} was used or closed by its own process in this moment; it was left as "
            "it is."
        )
