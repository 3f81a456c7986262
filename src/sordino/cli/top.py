"""The command `sordino top`: which items of a public domain the most people have."""

from __future__ import annotations

import re
from typing import cast

import click

from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import NUMBER, LabelOptions, list_given, spell_flags, take, take_all
from sordino.cli.table import TableOptions, release_from_table, table_options
from sordino.constraints import Number, shown
from sordino.errors import InvalidParameter
from sordino.session.top_k import TopKRequest

_OF_LISTS = ("threshold", "noise", "method", "kth_count")
"""What a set has not: it is chosen at once, without gaps and without counts of all items."""


_OF_COUNTS = ("noise", "method", "kth_count", "selection_share")
"""What the largest sums have not."""


@click.command(cls=GroupedCommand)
@take_all(
    TopKRequest,
    k=take(
        TopKRequest,
        "k",
        *("-k", "--k"),
        help="How many items [default: 10, or all where fewer are listed; or as --goal names].",
    ),
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
@click.option(
    "--rank-by",
    metavar="sum(COL)|rows",
    help="Rank by what the numbers of a column add up to, or by how many rows there are, and not "
    "by how many people have an item.",
)
# What adds up numbers is not loaded for lists of counts.
@click.option(
    "--cap",
    type=NUMBER,
    metavar="U",
    help="With --rank-by, public: as far up as what a person adds up to goes; it can be generous.",
)
@table_options
def top(
    table: TableOptions,
    *,
    as_set: bool,
    rank_by: str | None,
    cap: Number | None,
    **asked: object,
) -> None:
    """Release the K items of a public domain that the most people have.

    They come with estimates, intervals and gaps; as a set without gaps, in the order of the domain.
    With --rank-by those with the largest sums of a column, or with the most rows: nothing bounds
    how much a person has, and no bound is guessed.

    SOURCE is a path, a glob or a folder of CSV, JSON lines or Parquet, a folder of Delta,
    duckdb:FILE#TABLE, excel:FILE#SHEET, postgresql://...#TABLE or sc://HOST#CATALOG.SCHEMA.TABLE.
    """
    if rank_by is not None:
        # One command asks one thing: a bound that does not count is not dropped in silence.
        if table.unit.max_rows is not None and not cast("LabelOptions", asked["labels"]).unlisted:
            raise InvalidParameter(
                "--max-rows must not be given with --rank-by, where all rows of a person count; "
                f"got {table.unit.max_rows}. With --unlisted it says for how many labels a person "
                "counts where they are looked for."
            )
        release_from_table("top_sums", table, _rank_by(rank_by, cap, as_set=as_set, asked=asked))
        return
    if cap is not None:
        raise InvalidParameter("--cap of top needs --rank-by 'sum(COL)', or rows.")
    if not as_set:
        release_from_table("top_k", table, asked)
        return
    of_lists = spell_flags({name: asked.pop(name) for name in _OF_LISTS})
    if given := list_given(of_lists):
        raise InvalidParameter(
            f"{given[0]} belongs to a list, and a set (--set) is chosen at once; leave one of them "
            "out."
        )
    release_from_table("top_set", table, asked)


def _rank_by(
    measure: str, cap: Number | None, *, as_set: bool, asked: dict[str, object]
) -> dict[str, object]:
    """Return what is asked of the largest sums; refuse what they do not have."""
    found = re.fullmatch(r"\s*(?:rows|sum\((.+)\))\s*", measure, re.DOTALL)
    if found is None:
        raise InvalidParameter(
            f"--rank-by must be 'sum(COL)', with a column of numbers, or 'rows'; got "
            f"{shown(measure)}."
        )
    of_counts = spell_flags({name: asked.pop(name) for name in _OF_COUNTS})
    if given := list_given({"--set": as_set or None, **of_counts}):
        raise InvalidParameter(
            f"{given[0]} belongs to counts of people; with --rank-by all sums get noise, and the "
            "largest are released. Leave one of them out."
        )
    noise = asked.pop("measure_noise")
    return asked | {"column": found[1], "cap": cap, "noise": noise}
