"""The command `sordino remeasure`: another look at a release that a ledger has kept, put together with it."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, Literal

import click

from sordino.cli.dry_run import release_or_plan
from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import (
    EPSILON,
    PART,
    SOURCE,
    RunOptions,
    is_quiet,
    run_options,
    take,
)
from sordino.cli.output import describe_release, describe_rows, say_bound, say_lower
from sordino.cli.stderr import say
from sordino.cli.work import DROPPED, DRY, choose_entropy, open_account, show_progress
from sordino.cli.write import write_release
from sordino.constraints import COUNT
from sordino.errors import InvalidParameter
from sordino.releases import plain
from sordino.session import Session
from sordino.session.kept_again import read_kept_request
from sordino.session.remeasure import RemeasureRequest
from sordino.sheet import Sheet, list_total

AGAIN = "estimate: all looks together, each weighted by its precision, moved into the interval."
ALONE = "low and high: interval of the new look alone, which holds whatever was seen before."
ALL = "low and high: interval of all looks together; it holds if they were settled before the first was seen."
CLIPPED = "They are about rows clipped as the first look clipped them; true_low and true_high about all rows."


@click.command(cls=GroupedCommand)
@SOURCE
@click.option("--release", "key", required=True, metavar="ID", help="Charge of a release made with --keep.")
@PART
@EPSILON
@take(RemeasureRequest, "noise")
@take(RemeasureRequest, "planned")
@run_options
def remeasure(
    source: str,
    key: str,
    part: int,
    epsilon: Fraction | None,
    noise: Literal["laplace", "gaussian"] | None,
    planned: bool,
    run: RunOptions,
) -> None:
    """Measure a kept release again, with noise of its own, and put both together.

    What was asked, of whom, and how SOURCE is written, is what the ledger has kept with the release. It costs
    what a release of its own costs.
    """
    COUNT("--part", part)
    entropy, ledger = choose_entropy(run), open_account(run)
    if ledger is None:
        raise InvalidParameter(
            "remeasure needs --ledger URL and --account NAME: the release to be measured again is kept there."
        )
    # Asked first: they say whom the release protects, and how its source is read.
    kept = ledger.read_release(key, part=part)
    whom, form, said = read_kept_request(kept)
    run.claim_output()
    if not is_quiet(run.quiet):
        # The same words every time: whether the rule applied to any row is private.
        say(DRY if run.dry_run else DROPPED)
    asked: dict[str, Any] = {"epsilon": epsilon, "noise": noise, "planned": planned, "part": part}
    with (
        Session(source, unit=whom, ledger=ledger, entropy=entropy, csv=form) as session,
        show_progress(run.quiet) as progress,
    ):
        release = release_or_plan(session, "remeasure", run, key, progress=progress, **asked)
    if release is None:
        return
    facts, notes = describe_release("remeasure", release)
    sure, worth = describe_rows(release)
    of_column = said.get("column") is not None
    facts |= {"figure": said["name"]} | sure
    facts |= {"remeasures": key, "looks": len(release.looks), "planned": planned} | list_total(release)
    rows = [plain(row) for row in release]
    labels = ("item",) if rows[0]["item"] is not None else ()
    columns = (*labels, "estimate", "low", "high", "true_low", "true_high", "measured", "standard_error")
    if of_column:
        rows = [row | {"clip_low": row["clip"][0], "clip_high": row["clip"][1]} for row in rows]
        columns = (*columns, "clip_low", "clip_high", "too_few")
    sheet = Sheet(
        columns=columns,
        rows=[{name: row[name] for name in columns} for row in rows],
        facts=facts,
        notes=[
            *(AGAIN, ALL if planned else ALONE, *([CLIPPED] if of_column else [])),
            *(*worth, *notes, *say_lower(release), *say_bound(release)),
        ],
        counts=not of_column,
    )
    write_release(sheet, run, partial(session.keep, release))
