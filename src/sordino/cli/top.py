"""The command `sordino top`: which items of a public domain the most units touch."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, Literal

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
    list_given,
    run_options,
    take,
    unit_options,
)
from sordino.cli.text_options import CsvOptions, csv_options
from sordino.cli.work import make_domain, open_session, read_labels, show_progress
from sordino.cli.write import write_release
from sordino.errors import InvalidParameter
from sordino.results import describe
from sordino.session.top_k import TopKRequest


@click.command(cls=GroupedCommand)
@SOURCE
@ITEM
@label_options
@unit_options
@take(TopKRequest, "k", "-k", "--k")
@click.option(
    "--set",
    "as_set",
    is_flag=True,
    help="Choose the set of the K at once, without order and gaps: docs/how-to/choose-a-selection.md.",
)
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
    of_lists = {"threshold": threshold, "noise": noise, "method": method, "kth_count": kth_count}
    if as_set:
        _check_set(of_lists)
    # Labels are public: what is wrong with them is said before anything is charged.
    domain = make_domain(labels)
    with open_session(source, unit, csv, run) as session, show_progress(run.quiet) as progress:
        domain = read_labels(session, domain, run)
        release = release_or_plan(
            session,
            "top_set" if as_set else "top_k",
            run,
            item,
            k=k,
            epsilon=epsilon,
            domain=domain,
            where=where,
            selection_share=selection_share,
            measure_noise=measure_noise,
            simultaneous=simultaneous,
            progress=progress,
            **({} if as_set else of_lists),
        )
    if release is None:
        return
    write_release(describe(release), run, partial(session.keep, release))


def _check_set(of_lists: dict[str, Any]) -> None:
    """Refuse what a set has not: it is chosen at once, without gaps and without counts of all items."""
    given = list_given({f"--{name.replace('_', '-')}": value for name, value in of_lists.items()})
    if given:
        raise InvalidParameter(
            f"{given[0]} belongs to a list, and a set (--set) is chosen at once; leave one of them out."
        )
