"""Selects the part of a table that a session reads and its account is charged for.

Which part of whom a row is, follows from the unit of the account: a part is one of its columns, a
time that is cut. So the session and the account cannot mean different rows.
Proof: docs/proofs/parts-of-an-account.md.
"""

from __future__ import annotations

from dataclasses import replace

from sordino.constraints import shown
from sordino.errors import InvalidParameter, LedgerConflict
from sordino.ledger import Charge, Ledger, PartRange, read_parts, show_parts
from sordino.ledger.parts import CUTS, OPEN
from sordino.questions import PrivacyUnit
from sordino.sources.selected_part import SelectedPart
from sordino.sources.source import Source
from sordino.unit_columns import UnitColumn

LAST = {"year": "9999", "month": "9999-12", "day": "9999-12-31", "hour": "9999-12-31T23"}
"""The last part that there is."""
_NAMES = {name: cut for cut, name in CUTS.items()}


def select_part(
    source: Source, unit: PrivacyUnit, ledger: Ledger | None, part: str | None
) -> Source:
    """Return the source with the rows that are read: of a part, or of all that are not closed.

    Parameters
    ----------
    source : Source
        The table.
    unit : PrivacyUnit
        Whom its session protects.
    ledger : Ledger or None
        The account that pays.
    part : str or None
        Such as "2026-11-27", "2026-11" or "2026-11-01..2026-11-15"; None: the whole table.

    Raises
    ------
    InvalidParameter
        If it is no part, or the account has no parts.
    LedgerConflict
        If the account has parts by a column that the unit lacks.
    """
    told = None if ledger is None else ledger.statement(charges=False).parts
    if told is None and part is None:
        return source
    if told is None:
        if ledger is not None:
            raise InvalidParameter(
                f"part must go with an account that has parts; {ledger.account!r} has none. Make "
                "one with --parts day (Ledger.create(parts='day')), or say where=."
            )
        of = _find_only_cut(unit)
        selected, cut = SelectedPart(of=of), _NAMES[str(of.cut)]
    else:
        found = [one for one in unit.parts if one.text == told.component]
        if not found:
            raise LedgerConflict(
                f"The account has parts by {told.component}, which must be one of the columns of "
                f"the person; this session protects {unit.identity}. Nothing was charged."
            )
        cut = told.cut
        closed = OPEN if told.closed is None else read_parts(told.closed, cut).low
        selected = SelectedPart(of=found[0], closed=closed, closed_text=told.closed)
        if part is None and told.closed is not None:
            if told.closed == LAST[cut]:
                raise LedgerConflict(
                    f"All {cut}s of the account are closed, so that there is nothing "
                    "that it could be charged for."
                )
            after = PartRange(closed + 1, closed + 1)
            selected = replace(selected, first=show_parts(after, cut))
    if part is not None:
        named = read_parts(part, cut)
        first, last = (show_parts(PartRange(one, one), cut) for one in (named.low, named.high))
        selected = replace(selected, first=first, last=last, low=named.low, high=named.high)
    return source.select(selected)


def find_charged_parts(source: Source) -> PartRange | None:
    """Return which parts of the account a session is charged for; None: all of them."""
    part = source.part
    if part is None or part.low is None or part.high is None:
        return None
    return PartRange(part.low, part.high)


def check_closed(source: Source, ledger: Ledger) -> None:
    """Refuse to charge for the whole table where parts were closed since a session was opened.

    Raises
    ------
    LedgerConflict
        If they were.
    """
    part = source.part
    if part is None or part.closed is None or part.low is not None:
        return
    told = ledger.statement(charges=False).parts
    if told is not None and told.closed is not None and told.closed != part.closed_text:
        raise _refuse_stale()


def settle_if_closed(charge: Charge, source: Source) -> Charge:
    """Return a charge of the rows that are read; another one is given back.

    Raises
    ------
    LedgerConflict
        If parts were closed since the session was opened.
    """
    part = source.part
    # Of a part that is open all rows are charged, whatever was closed before it.
    if charge.closed is None or (part is not None and part.low is not None):
        return charge
    if part is None or charge.closed != part.closed:
        # Nothing was drawn, so all of it comes back.
        with charge:
            pass
        raise _refuse_stale()
    return charge


def _refuse_stale() -> LedgerConflict:
    return LedgerConflict(
        "Parts of the account were closed since this session was opened, so that it would read "
        "rows that are not charged. Open it again. Nothing was read or released."
    )


def _find_only_cut(unit: PrivacyUnit) -> UnitColumn:
    found = [one for one in unit.parts if one.cut in _NAMES]
    if len(found) != 1:
        raise InvalidParameter(
            "part must go with a person of several columns, one of which is a time that is cut to "
            f"an hour, a day, a month or a year; got {shown(unit.identity)}."
        )
    return found[0]
