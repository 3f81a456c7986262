"""The command `sordino table`: people in each cell of several columns, with margins and total."""

from __future__ import annotations

import click

from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import take, take_all
from sordino.cli.table import TableOptions, release_from_table, table_options
from sordino.errors import InvalidParameter
from sordino.session.cross_table import TableRequest


@click.command("table", cls=GroupedCommand)
@take_all(
    TableRequest,
    max_cells=take(TableRequest, "max_cells", metavar="M"),
    not_negative=take(TableRequest, "not_negative", "--no-negative", "not_negative"),
)
@table_options
def cross_table(table: TableOptions, **asked: object) -> None:
    """Release how many people are in each cell of several columns, with all margins.

    Give --item for each column, and the labels of each: --domain COL=FILE. Each person counts in
    one cell, so margins and the total count people, and everything adds up. All intervals hold
    together with 95%.
    """
    if table.unit.max_rows is not None:
        raise InvalidParameter(
            "--max-rows must not be given with table, where --max-cells says in how many cells a "
            f"person counts; got {table.unit.max_rows}. Leave it out."
        )
    release_from_table("table", table, asked)
