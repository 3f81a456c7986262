"""The command `sordino top`: which items of a public domain the most units touch."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Literal

import click

from sordino.cli.dry_run import release_or_plan
from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import (
    EPSILON,
    ITEM,
    NUMBER,
    SOURCE,
    WHERE,
    LabelOptions,
    RunOptions,
    UnitOptions,
    label_options,
    run_options,
    take,
    unit_options,
)
from sordino.cli.text_options import CsvOptions, csv_options
from sordino.cli.work import make_domain, open_session, read_labels, show_progress
from sordino.cli.write import write_release
from sordino.results import describe
from sordino.session.top_k import TopKRequest


@click.command(cls=GroupedCommand)
@SOURCE
@ITEM
@label_options
@unit_options
@take(TopKRequest, "k", "-k", "--k")
@take(TopKRequest, "as_set", "--set", "as_set")
@take(TopKRequest, "method")
@take(TopKRequest, "kth_count", metavar="N")
@take(TopKRequest, "threshold", metavar="T")
@EPSILON
@take(TopKRequest, "selection_share", type=NUMBER)
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
    as_set: bool,
    method: Literal["gaps", "histogram"] | None,
    kth_count: Fraction | None,
    threshold: Fraction | None,
    epsilon: Fraction | None,
    selection_share: Fraction | None,
    noise: Literal["exponential", "laplace", "gumbel"] | None,
    measure_noise: Literal["laplace", "gaussian"] | None,
    simultaneous: bool,
    where: str | None,
    csv: CsvOptions,
    run: RunOptions,
) -> None:
    """Release the K items of a public domain that the most distinct units touch.

    They come with estimates, intervals and gaps; as a set without gaps, in the order of the domain.

    SOURCE is a path, a glob or a folder of CSV, JSON lines or Parquet, a folder of Delta,
    duckdb:FILE#TABLE, excel:FILE#SHEET, postgresql://...#TABLE or sc://HOST#CATALOG.SCHEMA.TABLE.
    """
    # Labels are public: what is wrong with them is said before anything is charged.
    domain = make_domain(labels)
    with open_session(source, unit, csv, run) as session, show_progress(run.quiet) as progress:
        domain = read_labels(session, domain, run)
        # Which of the two it is, is known only here.
        release = release_or_plan(
            session,
            "top_k",
            run,
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
            as_set=as_set,
            method=method,
            kth_count=kth_count,
            progress=progress,
        )
    if release is None:
        return
    write_release(describe(release), run, partial(session.keep, release))
