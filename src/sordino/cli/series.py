"""`sordino series`: running figures of a declared table, by releases that are made once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sordino.cli.once import Command, SuggestingGroup
from sordino.cli.options import FORMAT
from sordino.cli.output import write_rows
from sordino.cli.stderr import say
from sordino.constraints import COUNT

if TYPE_CHECKING:
    from collections.abc import Callable

    from sordino.series import Series
    from sordino.series.series import SeriesState
    from sordino.series.totals import RunningFigure, RunningTotals

_NAME = click.argument("name", metavar="NAME")
_FILE = click.option(
    "--declaration",
    metavar="FILE",
    help="Where NAME is declared [default: sordino.toml here or above].",
)
_TODAY = click.option(
    "--today",
    metavar="DAY",
    default="today",
    show_default=True,
    help="What has ended before this day is asked: 2026-11-27, today, today-1.",
)
_RISING = ("at_least", "at_most")
_COLUMNS = ("total", "low", "high", "revised", "revised_low", "revised_high", "periods")


@click.group(cls=SuggestingGroup)
def series() -> None:
    """Release totals, histograms and top labels of all days so far, every night, for ever."""


@series.command(cls=Command)
@_NAME
@_FILE
def start(name: str, declaration: str | None) -> None:
    """Give the series NAME its share of each day of the account; do it once."""
    found = _open_series(name, declaration)
    found.start()
    say(
        f"Series {name} has account {found.account}, a share of account {found.parent.account}. "
        f"Next: sordino series catch-up {name}"
    )


@series.command("catch-up", cls=Command)
@_NAME
@_FILE
@_TODAY
@FORMAT
@click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors.")
def catch_up(name: str, declaration: str | None, today: str, form: str | None, quiet: bool) -> None:
    """Release all periods of NAME that have ended and were not asked: what cron calls.

    Started twice, killed or forgotten for a week it asks each period once.
    """
    found = _open_series(name, declaration)
    tell = None if quiet else lambda text: say(f"Reading for {text}.")
    state = found.catch_up(today, tell=tell)
    totals = _find_totals(found, state)
    last = _list_last(found, state, totals.find_at)
    if found.declared.said.only_added and last:
        last = totals.find_rising(state.until)[-1:]
    _write_figures(found, state, last, form)


@series.command(cls=Command)
@_NAME
@click.argument("period", metavar="PERIOD")
@_FILE
@click.option("--reason", required=True, help="Why; kept in the history.")
def lose(name: str, period: str, declaration: str | None, reason: str) -> None:
    """Give PERIOD of NAME up for lost, which stays open: charged, and never asked again."""
    state = _open_series(name, declaration).lose(period, reason=reason)
    say(f"{period} of series {name} is lost; {len(state.open)} are open.")


@series.command("show", cls=Command)
@_NAME
@_FILE
@_TODAY
@click.option("--top", type=int, metavar="K", help="The K labels with the largest figures.")
@FORMAT
def show_figures(
    name: str, declaration: str | None, today: str, top: int | None, form: str | None
) -> None:
    """Print what the series NAME says of all days so far; nothing is read or charged."""
    found = _open_series(name, declaration)
    state = found.read(today)
    _write_figures(found, state, _list_figures(found, state, top), form)


def _open_series(name: str, declaration: str | None) -> Series:
    # Imported here: it loads an engine.
    from sordino.series import Series

    return Series(name, declaration)


def _find_totals(found: Series, state: SeriesState) -> RunningTotals:
    # Imported here: it loads an engine.
    from sordino.series.totals import RunningTotals

    return RunningTotals(first=found.first, cut=found.cut, levels=found.levels, kept=state.kept)


def _list_last(
    found: Series, state: SeriesState, find: Callable[[int], list[RunningFigure]]
) -> list[RunningFigure]:
    """Return the figures of the last part that has any."""
    parts = range(state.until, found.first - 1, -1)
    return next(filter(None, map(find, parts)), [])


def _list_figures(found: Series, state: SeriesState, top: int | None) -> list[RunningFigure]:
    totals = _find_totals(found, state)
    if top is not None:
        many = COUNT("--top", top)
        return _list_last(found, state, lambda part: totals.find_largest(part, many))
    if totals.items not in ([], [0]):
        # Of many labels the last day says it: each day has them all.
        return _list_last(found, state, totals.find_at)
    if found.declared.said.only_added:
        return totals.find_rising(state.until)
    parts = range(found.first, state.until + 1)
    return [one for part in parts for one in totals.find_at(part)]


def _write_figures(
    found: Series, state: SeriesState, figures: list[RunningFigure], form: str | None
) -> None:
    facts, notes = found.describe(state)
    rises = found.declared.said.only_added
    rows = [one.to_dict() | (one.list_rising() if rises else {}) for one in figures]
    item = ("item",) if rows and "item" in rows[0] else ()
    columns = ("part", *item, *_COLUMNS, *(_RISING if rises else ()))
    write_rows(form, columns, rows, facts, notes)
