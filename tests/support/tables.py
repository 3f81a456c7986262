"""One table as every kind of source that reads its rows by itself."""

from __future__ import annotations

import duckdb
import pyarrow as pa

KINDS = ("csv", "parquet", "duckdb", "relation", "polars", "lazy", "pandas", "arrow")
SHUFFLED = ("parquet", "polars")


def made(folder, kind, table, name="t"):
    """Return an Arrow table as a source of some kind; relations stay usable as long as the table lives."""
    if kind == "arrow":
        return table
    if kind == "spark":  # no test but those of tests/spark asks for it: the others need no Spark
        from support.spark import frame

        return frame(table)
    if kind == "relation":
        return duckdb.connect().from_arrow(table)
    if kind in {"polars", "lazy"}:
        import polars as pl

        frame = pl.from_arrow(table)
        return frame.lazy() if kind == "lazy" else frame
    if kind == "pandas":
        import pandas as pd

        return table.to_pandas(types_mapper=pd.ArrowDtype)
    path = folder / f"{name}.{kind}"
    if kind == "csv":
        lines = [",".join(table.column_names)]
        lines += [
            ",".join("" if value is None else str(value) for value in row.values())
            for row in table.to_pylist()
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path
    if kind == "parquet":
        duckdb.from_arrow(table).write_parquet(str(path))
        return path
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.register("arrow", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM arrow")
    return f"duckdb:{path}#t"


def columns(rows, **types):
    """Return an Arrow table of rows, with types by the names of the columns."""
    return pa.table(
        {
            name: pa.array([row[place] for row in rows], kind)
            for place, (name, kind) in enumerate(types.items())
        }
    )


def amounts(folder, more=()):
    """Write a CSV file of users with groups and amounts, with more lines in its middle, and beside its folder one of the groups."""
    folder.mkdir(exist_ok=True)
    rows = [f"u{i % 40},{'abc'[i % 3]},{i % 90}.5".encode() for i in range(240)]
    path = folder / "x.csv"
    path.write_bytes(
        b"user,group,amount\n"
        + b"".join(line + b"\n" for line in [*rows[:100], *more, *rows[100:]])
    )
    (folder.parent / "groups.csv").write_text("group\na\nb\nz\n", encoding="utf-8")
    return path
