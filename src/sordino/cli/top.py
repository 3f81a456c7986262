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
    run_options,
    take,
    unit_options,
)
from sordino.cli.output import (
    A_SET,
    BEFORE_SELECTION,
    FROM_GAPS,
    FROM_HISTOGRAM,
    INTERVAL,
    INTERVAL_OF_SELECTED,
    MEASURED_SET,
    ONLY_MEASURED,
    UNCLEAR,
    describe_cap,
    describe_found,
    describe_release,
    describe_rows,
    say_bound,
    without_gaps,
)
from sordino.cli.text_options import CsvOptions, csv_options
from sordino.cli.work import make_domain, open_session, read_labels, show_progress
from sordino.cli.write import write_release
from sordino.releases import plain
from sordino.session.results import TopItems, TopSetItems
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
    facts, notes = describe_release("top", release)
    # Labels that were assumed public may be fewer than K, which is seen only when they are read.
    whole = domain.kind == "assumed public" and 0 < len(release) < k and not getattr(release, "crossed", None)
    if whole:
        notes.append(f"{item} has {len(release)} labels in all: the list has all of them.")
    if threshold is not None:
        facts |= {"threshold": float(threshold), "crossed": release.crossed}
        full = "it ended nothing" if len(release) < k else "the list is full"
        ended = "the threshold ended the list" if release.crossed else full
        notes.append(f"Threshold: {float(threshold):.12g}; {ended}.")
    if domain.hidden:
        more, told = describe_found(release, k)
        facts |= more
        notes = [*told, *notes]
    make_sheet = _make_set_sheet if as_set else _make_list_sheet
    write_release(make_sheet(release, unit, facts, notes), run, partial(session.keep, release))


def _make_list_sheet(release: TopItems, unit: UnitOptions, facts: dict[str, Any], notes: list[str]) -> Sheet:
    """Return the sheet of a list, best first."""
    true_columns, capped = describe_cap(unit, "items", ordered=True)
    columns = (*COLUMNS, *true_columns, "order_unclear", *MADE_OF)
    measured = any(row.measured is not None for row in release)
    sure, told = (
        describe_rows(release, on_average=release.on_average)
        if measured
        else ({"confidence": release.confidence, "confidence_together": release.together}, [])
    )
    rows = [{name: row[name] for name in columns} for row in map(plain, release)]
    # People are not shown columns that say nothing where nothing was measured; programs get all of them.
    empty = [name for name in columns if not measured and all(row[name] is None for row in rows)]
    return Sheet(
        columns=columns,
        rows=rows,
        facts=facts | {"method": release.method} | sure,
        notes=[
            *_describe_estimates(release, facts, measured=measured),
            *told,
            *(capped if measured else say_bound(release)),
            *([UNCLEAR] if release.rows else []),
            *notes,
        ],
        hidden=tuple(dict.fromkeys((*MADE_OF, *empty))) if rows else MADE_OF,
    )


def _describe_estimates(release: TopItems, facts: dict[str, Any], *, measured: bool) -> list[str]:
    """Return what a list says of its estimates and intervals."""
    if release.method == "histogram":
        return [FROM_HISTOGRAM, INTERVAL_OF_SELECTED]
    if not measured:
        return [FROM_GAPS]
    return [ONLY_MEASURED if without_gaps(facts) else BEFORE_SELECTION, INTERVAL]


def _make_set_sheet(
    release: TopSetItems, unit: UnitOptions, facts: dict[str, Any], notes: list[str]
) -> Sheet:
    """Return the sheet of a set, in the order of the domain: names alone where nothing was measured."""
    facts = {**facts, "set": True}
    if release.confidence is None:
        rows = [{"item": row.item} for row in release]
        bound = say_bound(release)
        return Sheet(columns=("item",), rows=rows, facts=facts, notes=[A_SET, *bound, *notes])
    sure, told = describe_rows(release)
    true_columns, capped = describe_cap(unit, "items")
    columns = ("item", "estimate", "low", "high", *true_columns, "measured")
    return Sheet(
        columns=columns,
        rows=[{name: row[name] for name in columns} for row in map(plain, release)],
        facts=facts | sure,
        notes=[A_SET, MEASURED_SET, INTERVAL, *told, *capped, *notes],
        hidden=("measured",),
    )
