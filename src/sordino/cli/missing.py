"""What a figure says of rows without a number: how many they are."""

from __future__ import annotations

from typing import Any

from sordino.cli.output import format_share
from sordino.sheet_text import format_cell


def describe_numbers(release: Any, *, asked: bool) -> tuple[dict[str, Any], list[str]]:
    """Return how many rows held a number, where that was released: facts and notes.

    Parameters
    ----------
    release : object
        A figure of a column, or several.
    asked : bool
        False where it was said that nothing is to be spent on it.
    """
    share = release.numbers_share
    if share is None:
        return {}, [] if asked else ["How many rows held a number is not known (--numbers-share 0)."]
    facts = share.list_facts()
    spent = f"for epsilon {format_cell(float(share.cost.pure()))} of it"
    if share.estimate is None:
        told = f"cannot be told ({spent})"
    else:
        told = (
            f"about {format_share(share.estimate)} (95 %: {format_share(share.low)} to "
            f"{_format_share_above(share.high)}; {spent})"
        )
    notes = [f"Rows that count and held a number: {told}."]
    if share.is_low:
        notes.append(
            "WARNING: the figure may be about few of the rows. If numbers are written in another way, "
            "declare it (--type, --decimal, --thousands)."
        )
        facts["warning"] = notes[-1].removeprefix("WARNING: ")
    return facts, notes


def _format_share_above(share: float) -> str:
    # An upper end is rounded up: nothing less is promised.
    return format_share(min(1.0, share + 1e-4))
