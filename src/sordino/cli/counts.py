"""The commands `sordino count` and `sordino histogram`: how many there are."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, Literal

import click

from sordino.cli.dry_run import release_or_plan
from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import (
    BOUNDED,
    EPSILON,
    ITEM,
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
from sordino.session.counts import CountRequest, HistogramRequest


@click.command(cls=GroupedCommand)
@SOURCE
@unit_options
@click.option("--units", is_flag=True, help="Count distinct units instead of rows.")
@EPSILON
@BOUNDED
@take(CountRequest, "noise")
@WHERE
@csv_options
@run_options
def count(
    source: str,
    unit: UnitOptions,
    units: bool,
    epsilon: Fraction | None,
    bounded: tuple[Fraction, Fraction] | None,
    noise: Literal["laplace", "gaussian"] | None,
    where: str | None,
    csv: CsvOptions,
    run: RunOptions,
) -> None:
    """Release the number of rows, or of distinct units.

    With --user the number of rows needs --max-rows M: each unit counts for at most M of them.
    """
    with open_session(source, unit, csv, run) as session, show_progress(run.quiet) as progress:
        # Rows are counted unless --units asks for those who have them.
        name = "count_distinct_units" if units else "count"
        asked: dict[str, Any] = {"epsilon": epsilon, "where": where, "bounds": bounded, "noise": noise}
        release = release_or_plan(session, name, run, progress=progress, **asked)
    if release is None:
        return
    write_release(describe(release), run, partial(session.keep, release))


@click.command(cls=GroupedCommand)
@SOURCE
@ITEM
@label_options
@unit_options
@EPSILON
@BOUNDED
@take(HistogramRequest, "noise")
@take(HistogramRequest, "simultaneous")
@WHERE
@csv_options
@run_options
def histogram(
    source: str,
    item: str,
    labels: LabelOptions,
    unit: UnitOptions,
    epsilon: Fraction | None,
    bounded: tuple[Fraction, Fraction] | None,
    noise: Literal["laplace", "gaussian"] | None,
    simultaneous: bool,
    where: str | None,
    csv: CsvOptions,
    run: RunOptions,
) -> None:
    """Release the count of distinct units of every item of a public domain.

    One unit can touch every item, so the noise grows with the domain unless --row-is-unit or --max-rows
    bounds that.
    """
    # Labels are public: what is wrong with them is said before anything is charged.
    domain = make_domain(labels)
    with open_session(source, unit, csv, run) as session, show_progress(run.quiet) as progress:
        domain = read_labels(session, domain, run)
        release = release_or_plan(
            session,
            "histogram",
            run,
            item,
            epsilon=epsilon,
            domain=domain,
            where=where,
            bounds=bounded,
            noise=noise,
            simultaneous=simultaneous,
            progress=progress,
        )
    if release is None:
        return
    write_release(describe(release), run, partial(session.keep, release))
