"""A question to DataFusion with a secret in it, asked in silence or, as a twin, without."""

from __future__ import annotations

from datafusion import SessionContext

from sordino.data import PrivacyUnit, open_source, prepare_counts
from sordino.data.sources import datafusion
from support.counted import SALT

CANARY = "canary-7f3a"


def frame():
    return SessionContext().from_pydict({"u": [CANARY, "b"] * 5, "item": ["a", "b"] * 5})


def ask(visits, *, twin=False):
    """Count items of units, some of which are chosen by the salt."""
    if twin:
        datafusion._SILENCE._begin = lambda: None
        datafusion._SILENCE._end = lambda: None
    unit = PrivacyUnit("u", max_rows=1)
    prepare_counts(
        open_source(visits),
        unit,
        kind="items",
        item="item",
        domain=["a", "b"],
        salt=SALT,
        where=f"u <> '{CANARY}'",
    ).run()
