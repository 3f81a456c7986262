"""Tables as frames of a server of Spark, which is there only if somebody asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from fuzz.tables import Table, arrow

KINDS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "BOOLEAN",
    "DATE",
    "VARCHAR",
)
"""Which columns it can hold, beside decimals."""

_ADDRESS: list[str] = []


@contextmanager
def reachable(*, wanted: bool) -> Iterator[str | None]:
    """Use a server of the tests, started now; yield its address, None where it is not wanted."""
    if not wanted:
        yield None
        return
    from support.spark import own_server

    use_spark(own_server().address)
    yield own_server().address


def use_spark(address: str) -> None:
    """Say which server makes frames."""
    _ADDRESS[:] = [address]


@cache
def _session(address: str) -> Any:
    from pyspark.sql.connect.session import SparkSession

    return SparkSession.builder.remote(address).create()


def random_made(rng: Any) -> dict[str, Any]:
    """Return how a frame is made, at random."""
    return {
        "made": rng.choice(("frame", "parquet", "parquet")),
        "group": rng.choice((1, 2, 3, 20, 100_000)),
        "parts": rng.choice((0, 0, 1, 3)),
    }


def frame(spec: dict[str, Any], table: Table, folder: Path) -> Any:
    """Return a table as a frame: handed over, or read from a file with statistics of all its rows."""
    session, handed = _session(_ADDRESS[0]), arrow(table)
    if (
        spec["made"] == "parquet" or not table.rows
    ):  # of no rows the client would not know the types
        path = folder / "t.parquet"
        pq.write_table(handed, path, row_group_size=spec["group"])
        made = session.read.parquet(str(path))
    else:
        made = session.createDataFrame(handed)
    return made.repartition(spec["parts"]) if spec["parts"] else made
