"""The command `sordino top`: which items of a public domain the most units touch."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Literal

import click

from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import (
    EPSILON,
    ITEM,
    SOURCE,
    WHERE,
    CsvOptions,
    LabelOptions,
    RunOptions,
    UnitOptions,
    csv_options,
    label_options,
    run_options,
    take,
    unit_options,
)
from sordino.cli.output import (
    BEFORE_SELECTION,
    INTERVAL,
    ONLY_MEASURED,
    UNCLEAR,
    describe_cap,
    describe_release,
    describe_rows,
    without_gaps,
)
from sordino.cli.work import make_domain, open_session, show_progress
from sordino.cli.write import write_release
from sordino.releases import plain
from sordino.session.top_k import TopKRequest
from sordino.sheet import Sheet

COLUMNS = ("rank", "item", "estimate", "low", "high", "gap")
# Beside these, in JSON and CSV: what the estimate was made of.
MADE_OF = ("measured", "combined")


@click.command(cls=GroupedCommand)
@SOURCE
@ITEM
@label_options
@unit_options
@take(TopKRequest, "k", "-k", "--k")
@take(TopKRequest, "threshold", metavar="T")
@EPSILON
@take(TopKRequest, "selection_share")
@take(TopKRequest, "noise")
@take(TopKRequest, "measure_noise")
@take(TopKRequest, "simultaneous")
@WHERE
@csv_options
@run_options
def top(
    source: str,
    item: str,
    labels: LabelOptions,
    unit: UnitOptions,
    k: int,
    threshold: Fraction | None,
    epsilon: Fraction,
    selection_share: Fraction,
    noise: Literal["exponential", "laplace", "gumbel"] | None,
    measure_noise: Literal["laplace", "gaussian"] | None,
    simultaneous: bool,
    where: str | None,
    csv: CsvOptions,
    run: RunOptions,
) -> None:
    """Release the K items of a public domain that the most distinct units touch.

    They come with estimates, intervals and gaps.

    SOURCE is a path, a glob or a folder of CSV, JSON lines or Parquet, duckdb:FILE#TABLE,
    excel:FILE#SHEET or postgresql://...#TABLE.
    """
    # Labels are public: what is wrong with them is said before anything is charged.
    domain = make_domain(labels)
    with open_session(source, unit, csv, run) as session, show_progress(run.quiet) as progress:
        release = session.top_k(
            item,
            k=k,
            epsilon=epsilon,
            domain=domain,
            threshold=threshold,
            where=where,
            selection_share=selection_share,
            noise=noise,
            measure_noise=measure_noise,
            simultaneous=simultaneous,
            progress=progress,
        )
    facts, notes = describe_release("top", release, unit, where, item, domain, left_out=session.left_out)
    if threshold is not None:
        facts |= {"threshold": float(threshold), "crossed": release.crossed}
        ended = "the threshold ended the list" if release.crossed else "the list is full"
        notes.append(f"Threshold: {float(threshold):.12g}; {ended}.")
    sure, told = describe_rows(release)
    true_columns, capped = describe_cap(unit, "items", ordered=True)
    columns = (*COLUMNS, *true_columns, "order_unclear", *MADE_OF)
    sheet = Sheet(
        columns=columns,
        rows=[{name: row[name] for name in columns} for row in map(plain, release)],
        facts=facts | sure,
        notes=[
            ONLY_MEASURED if without_gaps(facts) else BEFORE_SELECTION,
            INTERVAL,
            *told,
            *capped,
            UNCLEAR,
            *notes,
        ],
        hidden=MADE_OF,
    )
    write_release(sheet, run, partial(session.keep, release))
