"""The command `sordino above`: which items of a public domain lie above a threshold, or which answers of a stream do."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from sordino.cli._options import (
    DOMAINS,
    EPSILON,
    NUMBER,
    SOURCE,
    DecimalsOr,
    csv_options,
    public_labels,
    release_options,
    stacked,
    statement_options,
    unit_options,
)
from sordino.cli._output import about, write_rows
from sordino.cli._watch import watch
from sordino.cli._work import domain_of, session_of, shown_progress
from sordino.errors import InvalidParameter
from sordino.releases import plain

COLUMNS = ("item", "estimate", "low", "high", "gap")
BEFORE_SELECTION = "estimate: unbiased before selection, too high after it."
LOW = "low: 95 % lower bound of each count, valid after selection; empty where the gap bounds nothing."
MEASURED = "low and high: 95 % interval of each count, from the fresh measurement alone."
OF_TABLES = ("item", *DOMAINS, "user", "row_is_unit", "max_rows", "where", "null", "measure_share")
OF_STREAMS = ("sensitivity", "monotone", "step")
SHAPE = ("noise", "split", "correction", "correction_run", "correction_margin")

shape_options = stacked(
    click.option("--adaptive", is_flag=True, help="Find what lies far above with a cheaper test, and so more: C at least."),
    click.option("--noise", type=click.Choice(["exponential", "laplace"]), help="Of the answers [default: exponential]."),
    click.option(
        "--split",
        type=DecimalsOr("variance", "success"),
        metavar="SHARE",
        help="variance, success or the share of epsilon for the threshold [default: variance].",
    ),
    click.option(
        "--correction",
        type=DecimalsOr("optimal"),
        metavar="R",
        help='Public number added to the threshold, or "optimal" for many items of which few lie above.',
    ),
    click.option("--correction-run", type=int, metavar="N", help="How many lie below before one above [default: domain size / C]."),
    click.option("--correction-margin", type=NUMBER, metavar="M", help="How far they keep from the threshold [default: 0]."),
)


@click.command()
@SOURCE
@click.option("--item", metavar="COL", help="Column of labels.")
@public_labels
@unit_options
@click.option("--threshold", type=NUMBER, metavar="T", required=True, help="Public threshold.")
@click.option("-c", "--positives", type=int, metavar="C", required=True, help="Stop after so many were found.")
@EPSILON
@shape_options
@click.option("--measure-share", type=NUMBER, metavar="SHARE", help="Share of epsilon for a fresh measurement of what was found.")
@statement_options
@csv_options
@release_options
@click.pass_context
def above(ctx: click.Context, /, source: str, **options: Any) -> None:
    """Release which items of a public domain more than T distinct units touch, in the order of the domain.

    Items below cost nothing. SOURCE is a CSV or Parquet path or glob, duckdb:FILE#TABLE or postgresql://...#TABLE.

    With SOURCE - answers come on standard input, one "label,answer" a line, and each gets its verdict at once. Labels and the number of
    fields are public; answers move by at most --sensitivity S between neighbours (all in one direction: --monotone). It ends with the
    input, or when enough was found.
    """
    stream = source == "-"
    for name in OF_TABLES if stream else OF_STREAMS:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            which = "a table" if stream else "answers on standard input (SOURCE -)"
            raise InvalidParameter(f"--{name.replace('_', '-')} is for {which}.")
    if stream:
        watch(options, {name: options[name] for name in SHAPE if options[name] is not None})
        return
    if options["item"] is None:
        raise InvalidParameter("--item must name the column of labels; got none.")
    domain = domain_of(**{name: options[name] for name in DOMAINS})
    with session_of(source, options) as session, shown_progress(options["quiet"]) as progress:
        release = session.above(
            options["item"],
            domain=domain,
            progress=progress,
            **{name: options[name] for name in ("threshold", "positives", "epsilon", "where", "adaptive", "measure_share", *SHAPE)},
        )
    facts, notes = about("above", release, options, domain)
    facts |= {"threshold": float(options["threshold"]), "asked": release.asked, "complete": release.complete}
    ended = "all items were asked" if release.complete else "enough was found; items further back were not asked"
    notes.append(f"Threshold: {float(options['threshold']):.12g}. Asked: {release.asked}; {ended}.")
    low = LOW if options["measure_share"] is None else MEASURED
    columns = (*COLUMNS, "branch") if options["adaptive"] else COLUMNS
    rows = [{name: row[name] for name in columns} for row in map(plain, release)]
    write_rows(options["form"], columns, rows, facts, [BEFORE_SELECTION, low, *notes])
