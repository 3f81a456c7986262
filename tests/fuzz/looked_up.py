"""Cases of several tables: the same people stand in a second table, and some columns are looked up there.

Both have all rows of a case: whoever comes or goes does so in both. So every law of one table is one of two.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.questions import Question
from fuzz.tables import Table, arrow
from fuzz.values import NO_UNICODE, text_of
from sordino.questions import Lookup
from sordino.questions.lookups import look_up

KINDS = frozenset({"csv", "parquet", "duckdb", "pandas", "polars", "arrow", "lazy", "postgres"})
NAME = "c"


def random_lookup(rng: Any, question: Question, names: tuple[str, ...]) -> list[str]:
    """Return the columns that are looked up: at least one that the question names, and never the unit."""
    named = sorted(question.columns() - {question.unit})
    if not named:
        return []
    more = [name for name in names if name != question.unit and rng.random() < 0.3]
    return sorted({rng.choice(named), *more})


def rename(question: Question, looked_up: list[str]) -> Question:
    """Return the question with the names that these columns have when they are looked up."""
    named = {
        role: f"{NAME}.{column}"
        for role in ("item", "column", "by")
        if (column := getattr(question, role)) in looked_up
    }
    return replace(question, **named)


def _as_written(table: Table) -> pa.Table:
    """Return a table as Arrow; a column of which one value is of no such type has texts, as a frame would make them."""
    made = {}
    for place, (name, kind) in enumerate(zip(table.names, table.kinds, strict=True)):
        # A file of texts that are none is no Parquet file.
        values = [None if value == NO_UNICODE else value for value in table.column(place)]
        alone = Table((name,), (kind,), tuple((value,) for value in values))
        try:
            made[name] = arrow(alone).column(0)
        except (pa.ArrowException, OverflowError):
            made[name] = pa.array([text_of(value, kind) for value in values], pa.string())
    return pa.table(made)


def lend(
    source: Any, target: Any, spec: dict[str, Any], table: Table, unit: str, folder: Path
) -> Any:
    """Return the source with a second table that has the same rows; on a server that is the table itself."""
    place = target
    if spec["kind"] != "postgres":
        place = folder / "second" / "c.parquet"
        place.parent.mkdir(exist_ok=True)
        pq.write_table(_as_written(table), place)
    return look_up(source, {NAME: Lookup(place, key=unit, private=True)})
