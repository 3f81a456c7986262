"""What a release of a study shall reach, and what plans of it assume of the data.

The keys that say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from sordino.address import without_password
from sordino.constraints import COUNT, shown
from sordino.errors import InvalidParameter
from sordino.plan.goals import Goal, parse_goal
from sordino.session.plans.shapes import check_rows, is_shape, parse_shape, parse_spread
from sordino.session.request import Request
from sordino.study.document import Document
from sordino.study.tables import guard, locate_source

OUTLOOK = ("goal", "like", "rows", "runs")
"""Keys of every release; by these names `Session.plan` has them."""


@final
@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a release shall reach, and what its plan assumes.

    Attributes
    ----------
    goal : Goal or None
        For which an epsilon is looked for.
    like : str or None
        What the data may be like: a shape, or public data as the study calls them, without a
        password.
    source : str or None
        Where those public data are, with what the environment said; None for a shape.
    rows, runs : int or None
        About how many rows there are, and how many dry runs are made.
    """

    goal: Goal | None = None
    like: str | None = None
    # Its password is shown nowhere.
    source: str | None = field(default=None, repr=False)
    rows: int | None = None
    runs: int | None = None


def read_outlook(
    document: Document,
    place: tuple[str | int, ...],
    said: Mapping[str, Any],
    request: Request[Any],
    folder: str,
) -> Outlook:
    """Return what a table of a study says of it.

    Raises
    ------
    InvalidParameter
        If one of the keys says nothing, or nothing of such a release; with its line.
    """
    owner = request.name
    like, source = (
        _read_like(document, place, said, owner, folder) if "like" in said else (None, None)
    )
    numbers = {
        name: guard(
            document, (*place, name), lambda name=name: COUNT(f"{owner}.{name}", said[name])
        )
        for name in ("rows", "runs")
        if name in said
    }
    guard(document, (*place, "rows"), lambda: check_rows(owner, like, said.get("rows")))
    goal = None
    if "goal" in said:
        goal = guard(
            document,
            (*place, "goal"),
            lambda: _read_goal(request, said["goal"], like, numbers.get("rows")),
        )
    return Outlook(goal=goal, like=like, source=source, **numbers)


def _read_goal(request: Request[Any], text: Any, like: str | None, rows: int | None) -> Goal:
    # A study without goals need not load what measures them.
    from sordino.session.plans.goal_meter import check_goal  # noqa: PLC0415

    goal = parse_goal(request.name, text)
    check_goal(request, goal, like=like, rows=rows)
    return goal


def _read_like(
    document: Document,
    place: tuple[str | int, ...],
    said: Mapping[str, Any],
    owner: str,
    folder: str,
) -> tuple[str, str | None]:
    """Return what the data may be like, as it is shown, and where they are if they are no shape."""
    text, here = said["like"], (*place, "like")
    if not isinstance(text, str) or not text.strip():
        document.refuse(here, f"{owner}.like must be a shape or public data; got {shown(text)}.")
    if is_shape(text):
        # What is ranked by sums may have a shape of people and one of labels.
        parse = parse_spread if owner == "top_sums" else parse_shape
        guard(document, here, lambda: parse(text))
        return text, None
    source = locate_source(folder, document.expand(text, here))
    if "://" in text:
        text = guard(document, here, lambda: _hide_password(owner, text))
    return text, source


def _hide_password(owner: str, address: str) -> str:
    try:
        return without_password(address)
    except InvalidParameter as error:
        refused = InvalidParameter(f"{owner}.like: {error}")
    raise refused
