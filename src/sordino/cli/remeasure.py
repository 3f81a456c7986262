"""The command `sordino remeasure`.

Another look at a release that a ledger has kept, put together with it.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import (
    DATE,
    DECLARATION,
    DETAILS,
    EPSILON,
    PART,
    SOURCE,
    RunOptions,
    is_quiet,
    run_options,
    take,
)
from sordino.cli.stderr import say
from sordino.cli.table import release_or_plan
from sordino.cli.work import (
    DROPPED,
    DRY,
    call_as_declared,
    choose_entropy,
    find_source,
    show_progress,
)
from sordino.cli.write import open_account, write_again, write_release
from sordino.constraints import COUNT
from sordino.errors import InvalidParameter
from sordino.results import describe
from sordino.session import Session
from sordino.session.kept_again import read_kept_unit
from sordino.session.remeasure import RemeasureRequest

if TYPE_CHECKING:
    from sordino.study.declaration import DeclaredTable


@click.command(cls=GroupedCommand)
@SOURCE
@DECLARATION
@DATE
@click.option(
    "--release", "key", required=True, metavar="ID", help="Charge of a release made with --keep."
)
@PART
@EPSILON
@take(RemeasureRequest, "noise")
@take(RemeasureRequest, "planned")
@run_options
@DETAILS
def remeasure(
    source: str,
    declared: DeclaredTable | None,
    date: str | None,  # noqa: ARG001 - `declared` was found with it
    key: str,
    part: int,
    epsilon: Fraction | None,
    noise: Literal["laplace", "gaussian"] | None,
    planned: bool,
    run: RunOptions,
) -> None:
    """Measure a kept release again, with noise of its own, and put both together.

    What was asked, of whom, and how SOURCE is written, is what the ledger has kept with the
    release. It costs what a release of its own costs.
    """
    COUNT("--part", part)
    if write_again(run):
        return
    entropy, ledger = choose_entropy(run), open_account(run)
    if ledger is None:
        raise InvalidParameter(
            "remeasure needs --ledger URL and --account NAME: the release to be measured again is "
            "kept there."
        )
    # Asked first: they say whom the release protects, and how its source is read.
    kept = ledger.read_release(key, part=part)
    whom, form, days = read_kept_unit(kept)
    whom = call_as_declared(whom, declared)
    run.claim_output()
    if not is_quiet(run.quiet):
        # The same words every time: whether the rule applied to any row is private.
        say(DRY if run.dry_run else DROPPED)
    asked = {"release": key, "part": part, "epsilon": epsilon, "noise": noise, "planned": planned}
    with (
        Session(
            find_source(source, declared, form, ledger, whom),
            unit=whom,
            ledger=ledger,
            entropy=entropy,
            csv=form,
            part=days,
        ) as session,
        show_progress(run.quiet) as progress,
    ):
        made = release_or_plan(session, "remeasure", run, progress, asked)
    for release in made:
        write_release(describe(release), run, partial(session.keep, release))
