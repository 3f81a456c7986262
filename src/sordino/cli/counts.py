"""The commands `sordino count` and `sordino histogram`: how many there are."""

from __future__ import annotations

from typing import Any

import click

from sordino.cli.options import (
    BOUNDED,
    DOMAINS,
    EPSILON,
    SOURCE,
    csv_options,
    domain_options,
    release_options,
    unit_options,
)
from sordino.cli.output import INTERVAL, about, declared, write_rows
from sordino.cli.work import domain_of, session_of, shown_progress
from sordino.releases import plain


@click.command()
@SOURCE
@unit_options
@click.option("--units", is_flag=True, help="Count distinct units instead of rows.")
@EPSILON
@BOUNDED
@csv_options
@release_options
def count(source: str, **options: Any) -> None:
    """Release the number of rows, or of distinct units.

    With --user the number of rows needs --max-rows M: each unit counts for at most M of them.
    """
    with session_of(source, options) as session, shown_progress(options["quiet"]) as progress:
        # Rows are counted unless --units asks for those who have them.
        ask = session.count_distinct_units if options["units"] else session.count
        release = ask(
            epsilon=options["epsilon"], where=options["where"], bounds=options["bounded"], progress=progress
        )
    facts, notes = _describe_count("count", release, options)
    row = {
        "count": "units" if options["units"] else "rows",
        "estimate": release.estimate,
        "low": release.low,
        "high": release.high,
    }
    write_rows(options["form"], tuple(row), [row], facts, [INTERVAL, *notes])


@click.command()
@SOURCE
@domain_options
@unit_options
@EPSILON
@BOUNDED
@csv_options
@release_options
def histogram(source: str, **options: Any) -> None:
    """Release the count of distinct units of every item of a public domain.

    One unit can touch every item, so the noise grows with the domain unless --row-is-unit or --max-rows
    bounds that.
    """
    # Labels are public: what is wrong with them is said before anything is charged.
    domain = domain_of(**{name: options[name] for name in DOMAINS})
    with session_of(source, options) as session, shown_progress(options["quiet"]) as progress:
        release = session.histogram(
            options["item"],
            epsilon=options["epsilon"],
            domain=domain,
            where=options["where"],
            bounds=options["bounded"],
            progress=progress,
        )
    facts, notes = _describe_count("histogram", release, options, domain)
    write_rows(
        options["form"],
        ("item", "estimate", "low", "high"),
        [plain(row) for row in release],
        facts,
        [INTERVAL, *notes],
    )


def _describe_count(
    kind: str, release: Any, options: dict[str, Any], domain: Any = None
) -> tuple[dict[str, Any], list[str]]:
    facts, notes = about(kind, release, options, domain)
    more, said = declared(options["bounded"], release)
    if more:
        # An interval that is cut to the declared range does not tell how large the noise is.
        more["standard_error"] = release.standard_error
    return facts | more, [*said, *notes]
