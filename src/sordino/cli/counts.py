"""The commands `sordino count` and `sordino histogram`: how many there are."""

from __future__ import annotations

import click

from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import take_all
from sordino.cli.table import TableOptions, release_from_table, table_options
from sordino.session.counts import CountRequest, HistogramRequest


@click.command(cls=GroupedCommand)
@take_all(CountRequest)
@click.option("--units", is_flag=True, help="Count distinct units instead of rows.")
@table_options
def count(table: TableOptions, *, units: bool, **asked: object) -> None:
    """Release the number of rows, or of distinct units.

    With --user the number of rows needs --max-rows M: each unit counts for at most M of them.
    """
    release_from_table("count_distinct_units" if units else "count", table, asked)


@click.command(cls=GroupedCommand)
@take_all(HistogramRequest)
@table_options
def histogram(table: TableOptions, **asked: object) -> None:
    """Release the count of distinct units of every item of a public domain.

    One unit can touch every item, so the noise grows with the domain unless --row-is-unit or
    --max-rows bounds that.
    """
    release_from_table("histogram", table, asked)
