"""The files that only an engine, or a ledger, can write: made once, in a process that is gone when cases are played."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from soak.command_files import LABELS, NUMBER, TEXT, VARIANTS

ACCOUNTS = (
    ("shop", "10", ("--unit", "user"), "t.csv", ()),
    ("rows", "10", ("--row-is-unit",), "t.csv", ("--adjacency", "replace-one")),
    ("each", "10", ("--row-is-unit",), "t.csv", ()),
    ("pipe", "10", ("--row-is-unit",), "-", ("--adjacency", "replace-one")),
    ("poor", "0.000000001", ("--unit", "user"), "t.csv", ()),
    ("families", "10", ("--unit", "family"), "name:trios", ("--adjacency", "replace-one")),
    ("rho", "10", ("--unit", "user"), "t.csv", ("--meter", "zcdp", "--delta", "0.000001")),
)

ODD_COLUMNS = (
    '"user"',
    "item",
    "price::FLOAT AS price",
    "price::DECIMAL(38, 10) AS exact",
    "[note] AS list",
    "note::BLOB AS bytes",
    "TIMESTAMP '2024-01-01' AS day",
    "{'a': note} AS record",
    "NULL AS nothing",
    "hash(note)::HUGEINT AS whole",
)


def make_library(library: Path, folder: Path, seed: int) -> None:
    """Write the library for cases that are played in `folder`, in a process of its own."""
    child = os.fork()
    if not child:
        code = 1
        try:
            _make(library, folder, seed)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError("the library of files could not be made")


def _make(library: Path, folder: Path, seed: int) -> None:
    import duckdb

    for variant in VARIANTS:
        place = library / variant
        place.mkdir(parents=True)
        rows = _typed_rows(random.Random(seed), variant)
        con = duckdb.connect(str(place / "t.duckdb"))
        con.execute('CREATE TABLE t ("user" VARCHAR, item VARCHAR, price DOUBLE, note VARCHAR)')
        con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        con.execute(f"COPY t TO '{place / 't.parquet'}'")
        con.execute(f"COPY (SELECT unnest({list(LABELS)!r}) AS name) TO '{place / 'd.parquet'}'")
        odd = f"SELECT {', '.join(ODD_COLUMNS)}"
        con.execute(
            f"COPY ({odd} FROM t WHERE isfinite(price) AND abs(price) < 1e20) TO '{place / 'odd.parquet'}'"
        )
        con.close()
    folder.mkdir(exist_ok=True)
    (folder / "t.csv").write_text("user,item,price,note\n", encoding="utf-8")
    _ledger(library, folder)


def _typed_rows(
    rng: random.Random, variant: str
) -> list[tuple[str | None, str | None, float | None, str]]:
    def row() -> tuple[str | None, str | None, float | None, str]:
        label = rng.choice(LABELS[:3]) if rng.random() < 0.8 else f"{TEXT}label"
        return (
            f"{TEXT}u{rng.randrange(12)}",
            label,
            float(f"{rng.randrange(100)}.{NUMBER}"),
            f"{TEXT}note",
        )

    rows = [row() for _ in range(50)]
    numbers = (None, float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324)
    rows += [
        (f"{TEXT}odd", None if value is None else f"{TEXT}label", value, f"{TEXT}note")
        for value in numbers
    ]
    if variant == "added":
        rows.append((None, f"{TEXT}new", 3.5, f"{TEXT}new"))
    elif variant == "replaced":
        rows[7] = (f"{TEXT}new\n", f'{TEXT}"\x1b', float("nan"), f"{TEXT}new")
    return rows


def _ledger(library: Path, folder: Path) -> None:
    from sordino.cli import run

    os.chdir(folder)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  (of a process that ends here)
    for name, epsilon, unit, source, more in ACCOUNTS:
        line = (
            "ledger",
            "create",
            "--ledger",
            "l.db",
            "--account",
            name,
            "--epsilon",
            epsilon,
            *unit,
            "--source",
            source,
            *more,
        )
        if run(line):
            raise RuntimeError(name)
    from sordino.ledger.store.sqlite import close_all

    close_all()
    (folder / "l.db").rename(library / "l.db")
    (folder / "t.csv").unlink()
