"""Times that no calendar of the engine has, which bytes of Parquet and Arrow can hold: they are missing, and end nothing."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.questions import PrivacyUnit, prepare_counts
from sordino.sources import open_source

FIRST, INFINITE = -9_223_372_022_400_000_000, (1 << 63) - 1
"""The first microsecond that the engine knows, and what it takes for infinity."""
CASES = {
    "us": (pa.timestamp("us"), [0, FIRST, INFINITE, -INFINITE], [FIRST - 1, -INFINITE + 1]),
    "ms": (pa.timestamp("ms"), [0, FIRST // 1000], [FIRST // 1000 - 1, 1 << 62]),
    "s": (pa.timestamp("s"), [0, FIRST // 1_000_000], [FIRST // 1_000_000 - 1, 1 << 62]),
    "zone": (pa.timestamp("us", "UTC"), [0, FIRST, INFINITE], [FIRST - 1, -INFINITE + 1]),
    "time": (pa.time64("us"), [0, 86_399_999_999], [-1, 86_400_000_001, 1 << 62]),
    "time in ms": (pa.time32("ms"), [0, 86_399_999], [-1, 86_400_001, (1 << 31) - 1]),
    "time in ns": (pa.time64("ns"), [0, 86_399_999_999_999], [-1, 86_400_000_000_001, 1 << 62]),
}


def make(kind, values):
    size = 4 if kind == pa.time32("ms") else 8
    raw = b"".join(value.to_bytes(size, "little", signed=True) for value in values)
    made = pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(raw)])
    return pa.table({"who": [str(n) for n in range(len(values))], "t": made})


def open_as(form, table, folder):
    if form == "arrow":
        return open_source(table)
    path = folder / "t.parquet"
    pq.write_table(table, path)
    if form == "parquet":
        return open_source(path)
    return open_source(duckdb.connect().read_parquet(str(path)))


FORMS = [
    *(("arrow", case) for case in CASES),
    # Other values of files the engine's reader refuses itself (docs/known-limits.md).
    *((form, case) for form in ("parquet", "relation") for case in ("us", "zone")),
]


@pytest.mark.parametrize(("form", "case"), FORMS)
@pytest.mark.sample(3)
def test_a_time_beyond_its_type_is_missing_and_ends_nothing(form, case, tmp_path):
    kind, known, beyond = CASES[case]
    source = open_as(form, make(kind, known + beyond), tmp_path)
    unit = PrivacyUnit("who", max_rows=1)
    for where, many in (("t IS NOT NULL", len(known)), ("t IS NULL", len(beyond))):
        assert prepare_counts(source, unit, kind="rows", where=where).run().values.tolist() == [
            many
        ]
    texts = prepare_counts(source, unit, kind="rows", where="TRY_CAST(t AS VARCHAR) <> ''")
    assert texts.run().values.tolist() == [len(known)]
