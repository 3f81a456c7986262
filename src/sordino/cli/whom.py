"""Options that say whom a guarantee protects, and which days of a table are read and charged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import click

from sordino.cli.options import ADJACENCY, gather
from sordino.sensitivity import Adjacency

PARTS = click.option(
    "--parts",
    type=click.Choice(["hour", "day", "month", "year"]),
    help="Give each day (or hour, month, year) the whole budget for itself; one of the columns of "
    "the person must be a time that is cut so, such as day(seen).",
)
DAYS = click.option(
    "--part",
    metavar="DAY",
    help="Read and charge these days alone, of an account with parts: 2026-11-27, today-1, "
    "2026-11, 2026-11-01..2026-11-15 [default: the whole table, charged to all days].",
)


@final
@dataclass(frozen=True, kw_only=True)
class UnitOptions:
    """Whom the guarantee protects."""

    user: str | None
    row_is_unit: bool
    max_rows: int | None
    adjacency: Adjacency
    part: str | None = None


unit_options = gather(
    "unit",
    UnitOptions,
    click.option(
        "--user",
        metavar="COL",
        help="Column that says whose a row is: a person is protected with all rows. Or several "
        "columns, such as customer,day(seen): a customer on one day.",
    ),
    click.option("--row-is-unit", is_flag=True, help="Each row is another person."),
    click.option(
        "--max-rows",
        type=int,
        metavar="M",
        help="Use at most M rows of each person, chosen at random; of labels that are counted, M.",
    ),
    ADJACENCY,
    DAYS,
)
