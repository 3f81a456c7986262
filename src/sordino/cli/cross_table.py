"""The command `sordino table`: people in each cell of several columns, with margins and total."""

from __future__ import annotations

import click

from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import WIDE, listed_labels, take, take_all
from sordino.cli.table import TableOptions, release_from_table, table_options
from sordino.errors import InvalidParameter
from sordino.session.cross_table import TableRequest


@click.command("table", cls=GroupedCommand)
@take_all(
    TableRequest,
    domain=listed_labels,
    max_cells=take(TableRequest, "max_cells", metavar="M"),
    not_negative=take(TableRequest, "not_negative", "--no-negative", "not_negative"),
)
@WIDE
@table_options
def cross_table(table: TableOptions, **asked: object) -> None:
    """Release how many people are in each cell of a table, with margins and total that add up.

    Give --item for each column, and the labels of each: --domain COL=FILE. Each person counts in
    one cell, so margins and the total count people. All intervals hold at once with 95%.
    """
    if table.unit.max_rows is not None:
        raise InvalidParameter(
            "--max-rows must not be given with table, where --max-cells says in how many cells a "
            f"person counts; got {table.unit.max_rows}. Leave it out."
        )
    release_from_table("table", table, asked)


# It is taken to say what to write in its place.
[_max_rows] = [one for one in cross_table.params if one.name == "max_rows"]
_max_rows.hidden = True  # type: ignore[attr-defined]
