"""What docs/known-limits.md admits, and the fuzzer meets: findings of these sorts are counted, and are no findings."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.cases import Case
from fuzz.values import NO_UNICODE


def _no_unicode(case: Case) -> bool:
    if case.source["kind"] != "parquet" and case.source.get("made") != "scan_parquet":
        return False
    rows = (*case.base.rows, *case.added, *case.instead)
    return any(value == NO_UNICODE for row in rows for value in row)


LIMITS: tuple[tuple[str, Callable[[Case], bool]], ...] = (
    ("Text in a Parquet file that is not UTF-8 ends a release.", _no_unicode),
)


def limit_of(case: Case) -> str | None:
    """Return the limit that a case is about, None if it is about none."""
    return next((limit for limit, holds in LIMITS if holds(case)), None)
