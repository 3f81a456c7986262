"""Exports the history of an account for other programs: as JSON Lines and as events of dp_accounting.

The JSON Lines can be checked without sordino.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from sordino.cost import ZCDP, Pure
from sordino.ledger._history import FACTS, Account, Row
from sordino.ledger._statement import Statement


def json_lines(account: Account, rows: Iterable[Row]) -> Iterator[str]:
    """Return one line about the account, then one for each event with all that its hash covers.

    Amounts are in billionths.
    """
    yield json.dumps({"type": "account", **{name: getattr(account, name) for name in FACTS}}, sort_keys=True)
    for row in rows:
        yield json.dumps({"type": "event", **row._asdict()}, sort_keys=True)


def dp_events(statement: Statement) -> list[Any]:
    """Return what the account was charged with as events of dp_accounting.

    There is one for each charge or share that cost something.
    """
    from sordino.accounting import to_dp_events  # noqa: PLC0415  (its driver is an extra)

    notion = Pure if statement.meter == "pure" else ZCDP
    spent = [*(line.charged for line in statement.charges), *statement.shares.values()]
    return list(to_dp_events([notion(**{statement.measure: amount}) for amount in spent if amount]).events)
