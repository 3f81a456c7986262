"""The options of a dry run.

Whether a command only says what it would do, and what it assumes of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from sordino.errors import InvalidParameter

F = TypeVar("F", bound=Callable[..., Any])

_DRY_RUN = click.option(
    "--dry-run",
    is_flag=True,
    help=(
        "Say what this release would cost and give: nothing is read but the schema, nothing is "
        "charged."
    ),
)
_LIKE = click.option(
    "--like",
    metavar="SHAPE",
    help="With --dry-run or --goal: what is assumed of the data, such as zipf:1.1, geometric:0.9, "
    "flat, steps:10x500,90x20, lognormal:30000,0.6, or a source of public or synthetic data; with "
    '--rank-by "lognormal:200,1 by zipf:1.1", of people and of labels.',
)
_GOAL = click.option(
    "--goal",
    metavar="GOAL",
    # Read before the epsilon that it stands for, wherever it is written.
    is_eager=True,
    help='In place of --epsilon: "±20", "5%" or "top 10 right with 90%". The smallest epsilon '
    "that reaches it is taken; of shares and right items with --like.",
)
_LIKE_ROWS = click.option(
    "--like-rows",
    type=int,
    metavar="N",
    help="With --like: about how many rows there are [default: 10000].",
)


def plan_options(function: F) -> F:
    """Apply the options of a dry run."""
    # From the bottom up, as decorators apply.
    return _GOAL(_DRY_RUN(_LIKE(_LIKE_ROWS(function))))


def check_assumption(like: str | None, rows: int | None, *, planned: bool) -> None:
    """Refuse an assumption about the data where nothing is planned.

    Raises
    ------
    InvalidParameter
        If one is given beside a release.
    """
    if planned:
        return
    for flag, given in (("--like", like), ("--like-rows", rows)):
        if given is not None:
            raise InvalidParameter(
                f"{flag} needs --dry-run or --goal: a release is of the data as they are."
            )
