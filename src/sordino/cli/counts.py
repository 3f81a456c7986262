"""The commands `sordino count` and `sordino histogram`: how many there are."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

import click

from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import (
    OPTIONAL_ITEM,
    LabelOptions,
    Shares,
    list_given,
    spell_flags,
    take,
    take_all,
)
from sordino.cli.table import TableOptions, release_from_table, table_options
from sordino.errors import InvalidParameter
from sordino.population import ColumnNames
from sordino.session.counts import CountRequest, HistogramRequest
from sordino.session.request import MOST_ROWS
from sordino.session.value_histogram import ValueHistogramRequest


@click.command(cls=GroupedCommand)
@take_all(CountRequest)
@click.option("--units", is_flag=True, help="Count people instead of rows.")
@table_options
def count(table: TableOptions, *, units: bool, **asked: object) -> None:
    """Release the number of rows, or of people.

    With --user the number of rows needs --max-rows M: each person counts for at most M of them.
    """
    release_from_table("count_distinct_units" if units else "count", table, asked)


@click.command(cls=GroupedCommand)
@take_all(HistogramRequest, item=OPTIONAL_ITEM)
@take(ValueHistogramRequest, "column", metavar="COL", required=False)
@take(ValueHistogramRequest, "bins", type=Shares(), metavar="E[,E...]", required=False)
@take(ValueHistogramRequest, "per_person")
@click.option(
    "--count",
    "counted",
    type=click.Choice(["units", "rows"]),
    default="units",
    help="Of each item, how many people have it, or how many rows there are; of these a person has "
    "any number, and what it has in all is clipped.",
)
@table_options
def histogram(
    table: TableOptions,
    *,
    counted: str,
    item: ColumnNames | None,
    column: str | None,
    bins: tuple[Fraction, ...] | None,
    per_person: str | None,
    **asked: object,
) -> None:
    """Release how many people have each item of a public domain, or are in each bin.

    With --count rows the rows of every item are counted, and people are protected with all of
    theirs: the same as sum --per-person count --by COL.

    One person can have every item, so the noise grows with the domain unless --row-is-unit or
    --max-rows bounds that. Of more than 2^20 items, up to 10^7, only those are released whose noisy
    counts reach --threshold. With --bins people are counted by a number that each of them has:
    --column COL --per-person sum, or --per-person count for how many rows.
    """
    if bins is None:
        given = list_given({"--column": column, "--per-person": per_person})
        if given:
            raise InvalidParameter(f"{given[0]} of histogram needs --bins, the edges of the bins.")
        if counted == "rows":
            release_from_table("sum", table, _count_rows(table, item, asked))
            return
        if item is None:
            raise InvalidParameter(
                "histogram must have --item, a column of labels, or --bins with --column, a column "
                "of numbers; got neither."
            )
        release_from_table("histogram", table, asked | {"item": item})
        return
    if counted == "rows":
        raise InvalidParameter("--count rows of histogram must not be given with --bins.")
    of_labels = spell_flags(vars(asked.pop("labels")))
    own = {"--bounded": asked.pop("bounds"), "--threshold": asked.pop("threshold")}
    given = list_given({"--item": item, **own, **of_labels})
    if given:
        raise InvalidParameter(f"{given[0]} of histogram must not be given with --bins.")
    release_from_table(
        "value_histogram",
        table,
        asked | {"column": column, "bins": bins, "per_person": per_person},
    )


def _count_rows(
    table: TableOptions, item: ColumnNames | None, asked: dict[str, object]
) -> dict[str, object]:
    """Return what is asked of a sum that counts the rows of each item; refuse what it has not."""
    unlisted = cast("LabelOptions", asked["labels"]).unlisted
    given = list_given(
        {
            "--row-is-unit": table.unit.row_is_unit or None,
            "--max-rows": table.unit.max_rows,
            "--unlisted": unlisted or None,
            "--bounded": asked.pop("bounds"),
            "--threshold": asked.pop("threshold"),
            "--simultaneous": asked.pop("simultaneous") or None,
        }
    )
    if given or item is None:
        raise InvalidParameter(
            "histogram --count rows must have --item and --user, with listed labels and nothing "
            f"that bounds rows; got {given[0] if given else 'no --item'}. Of labels that nobody "
            "listed ask sum --per-person count --by COL --unlisted."
        )
    own = {"column": None, "by": item, "per_person": "count", "lower": 0, "cap": MOST_ROWS}
    return asked | own
