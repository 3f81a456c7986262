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
        selected = SelectedPart(of=found[0], closed=closed)
        if part is None and told.closed is not None:
            after = PartRange(closed + 1, closed + 1)
            selected = replace(selected, first=show_parts(after, cut))
    if part is not None:
        named = read_parts(part, cut)
        first, last = (show_parts(PartRange(one, one), cut) for one in (named.low, named.high))
        selected = replace(selected, first=first, last=last, low=named.low, high=named.high)
    return source.select(selected)


def name_parts(source: Source) -> PartRange | None:
    """Return which parts of the account a session is charged for; None: all of them."""
    part = source.part
    if part is None or part.low is None or part.high is None:
        return None
    return PartRange(part.low, part.high)


def settle_if_closed(charge: Charge, source: Source) -> Charge:
    """Return a charge of the rows that are read; another one is given back.

    Raises
    ------
    LedgerConflict
        If parts were closed since the session was opened.
    """
    known = None if source.part is None else source.part.closed
    if charge.closed != known:
        # Nothing was drawn, so all of it comes back.
        with charge:
            pass
        raise LedgerConflict(
            "Parts of the account were closed since this session was opened, so that it would read "
            "rows that are not charged. Open it again. Nothing was read or released."
        )
    return charge


def _find_only_cut(unit: PrivacyUnit) -> UnitColumn:
    found = [one for one in unit.parts if one.cut in _NAMES]
    if len(found) != 1:
        raise InvalidParameter(
            "part must go with a person of several columns, one of which is a time that is cut to "
            f"an hour, a day, a month or a year; got {shown(unit.identity)}."
        )
    return found[0]
