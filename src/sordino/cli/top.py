"""The command `sordino top`: which items of a public domain the most units touch."""

from __future__ import annotations

import click

from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import list_given, take, take_all
from sordino.cli.table import TableOptions, release_from_table, table_options
from sordino.errors import InvalidParameter
from sordino.session.top_k import TopKRequest

_OF_LISTS = ("threshold", "noise", "method", "kth_count")
"""What a set has not: it is chosen at once, without gaps and without counts of all items."""


@click.command(cls=GroupedCommand)
@take_all(
    TopKRequest,
    k=take(TopKRequest, "k", "-k", "--k"),
    threshold=take(TopKRequest, "threshold", metavar="T"),
    kth_count=take(TopKRequest, "kth_count", metavar="N"),
    selection_share=take(TopKRequest, "selection_share"),
)
@click.option(
    "--set",
    "as_set",
    is_flag=True,
    help=(
        "Choose the set of the K at once, without order and gaps: "
        "docs/how-to/choose-a-selection.md."
    ),
)
@table_options
def top(table: TableOptions, *, as_set: bool, **asked: object) -> None:
    """Release the K items of a public domain that the most distinct units touch.

    They come with estimates, intervals and gaps; as a set without gaps, in the order of the domain.

    SOURCE is a path, a glob or a folder of CSV, JSON lines or Parquet, a folder of Delta,
    duckdb:FILE#TABLE, excel:FILE#SHEET, postgresql://...#TABLE or sc://HOST#CATALOG.SCHEMA.TABLE.
    """
    if not as_set:
        release_from_table("top_k", table, asked)
        return
    of_lists = {f"--{name.replace('_', '-')}": asked.pop(name) for name in _OF_LISTS}
    if given := list_given(of_lists):
        raise InvalidParameter(
            f"{given[0]} belongs to a list, and a set (--set) is chosen at once; leave one of them "
            "out."
        )
    release_from_table("top_set", table, asked)
