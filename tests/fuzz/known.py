"""What docs/known-limits.md admits, and the fuzzer meets: findings of these sorts are counted, and are no findings."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.cases import Case
from fuzz.values import NO_UNICODE, SEVERAL_LINES


def _holds(case: Case, text: str) -> bool:
    rows = (*case.base.rows, *case.added, *case.instead)
    return any(value == text for row in rows for value in row)


def _no_unicode(case: Case) -> bool:
    parquet = case.source["kind"] == "parquet" or case.source.get("made") == "scan_parquet"
    return parquet and _holds(case, NO_UNICODE)


def _several_records(case: Case) -> bool:
    lines = case.source["kind"] == "csv" and case.question.kind == "records"
    return lines and _holds(case, SEVERAL_LINES)


LIMITS: tuple[tuple[str, Callable[[Case], bool]], ...] = (
    ("Of CSV each line is a record, and is reported", _several_records),
    ("Text in a Parquet file that is not UTF-8 ends a release.", _no_unicode),
)


def limit_of(case: Case) -> str | None:
    """Return the limit that a case is about, None if it is about none."""
    return next((limit for limit, holds in LIMITS if holds(case)), None)
