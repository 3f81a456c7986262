"""The command `sordino top`: which items of a public domain the most units touch."""

from __future__ import annotations

from typing import Any

import click

from sordino.cli.options import (
    DOMAINS,
    EPSILON,
    NUMBER,
    SOURCE,
    csv_options,
    domain_options,
    release_options,
    unit_options,
)
from sordino.cli.output import BEFORE_SELECTION, INTERVAL, about, write_rows
from sordino.cli.work import domain_of, session_of, shown_progress
from sordino.releases import plain

COLUMNS = ("rank", "item", "estimate", "low", "high", "gap")


@click.command()
@SOURCE
@domain_options
@unit_options
@click.option("-k", "--k", type=int, required=True, help="How many items.")
@click.option(
    "--threshold", type=NUMBER, metavar="T", help="Only items above this public threshold: K at most."
)
@EPSILON
@click.option(
    "--selection-share",
    type=NUMBER,
    default="0.5",
    show_default=True,
    help="Share of epsilon that chooses; the rest measures.",
)
@click.option(
    "--noise",
    type=click.Choice(["exponential", "laplace"]),
    default="exponential",
    show_default=True,
    help="Of the selection.",
)
@csv_options
@release_options
def top(source: str, **options: Any) -> None:
    """Release the K items of a public domain that the most distinct units touch.

    They come with estimates, intervals and gaps.

    SOURCE is a CSV or Parquet path or glob, duckdb:FILE#TABLE or postgresql://...#TABLE.
    """
    # Labels are public: what is wrong with them is said before anything is charged.
    domain = domain_of(**{name: options[name] for name in DOMAINS})
    with session_of(source, options) as session, shown_progress(options["quiet"]) as progress:
        release = session.top_k(
            options["item"],
            k=options["k"],
            epsilon=options["epsilon"],
            domain=domain,
            threshold=options["threshold"],
            where=options["where"],
            selection_share=options["selection_share"],
            noise=options["noise"],
            progress=progress,
        )
    facts, notes = about("top", release, options, domain)
    # None means that no threshold was given.
    if release.crossed is not None:
        facts |= {"threshold": float(options["threshold"]), "crossed": release.crossed}
        ended = "the threshold ended the list" if release.crossed else "the list is full"
        notes.append(f"Threshold: {float(options['threshold']):.12g}; {ended}.")
    write_rows(
        options["form"], COLUMNS, [plain(row) for row in release], facts, [BEFORE_SELECTION, INTERVAL, *notes]
    )
