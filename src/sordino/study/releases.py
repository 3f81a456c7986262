"""Reads the releases that a study asks for, each into the session request that it describes.

Beside it stands what the release shall reach, and what plans of it assume of the data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, cast, final

from sordino.address import without_password
from sordino.constraints import COUNT, NAME, WHOLE_SHARE, shown, to_fraction
from sordino.errors import InvalidParameter
from sordino.plan.goals import Goal, parse_goal
from sordino.session.plans.shapes import check_rows, is_shape, parse_shape, parse_spread
from sordino.session.request import Request
from sordino.study.document import Document
from sordino.study.kinds import build_request, find_kind, list_known, read_labels_of
from sordino.study.tables import BudgetTable, guard, locate_source, say_beyond

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
    from sordino.session.plans.goal_meter import check_goal, take_number  # noqa: PLC0415

    goal = parse_goal(request.name, text)
    check_goal(take_number(request, goal), goal, like=like, rows=rows)
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


_ABOUT_RELEASE = ("kind", "name", "share")
_AMOUNTS = ("epsilon", "share", "goal")
"""Keys of which a release has one: what it may spend, or what it shall reach."""
_ANY_EPSILON = Fraction(1)
"""Stands for the epsilon of a release for which one is looked for."""


@final
@dataclass(frozen=True, kw_only=True)
class StudyRelease:
    """One release that a study asks for.

    Attributes
    ----------
    name, kind : str
        Its own name, and what it is.
    epsilon : Fraction or None
        Its budget; None where a goal stands for it, which is looked for before the charge.
    request : Request
        Its parameters, checked.
    outlook : Outlook
        What it shall reach, and what plans of it assume.
    said : dict
        All of it as the file has it, JSON-ready.
    """

    name: str
    kind: str
    epsilon: Fraction | None
    request: Request[Any]
    outlook: Outlook
    said: dict[str, Any]

    def with_epsilon(self, epsilon: Fraction) -> StudyRelease:
        """Return the release with the epsilon that was found for it."""
        return replace(
            self, epsilon=epsilon, request=replace(cast("Any", self.request), epsilon=epsilon)
        )


def read_releases(document: Document, budget: BudgetTable, folder: str) -> tuple[StudyRelease, ...]:
    """Return the releases of a study, which fit into its budget.

    Raises
    ------
    InvalidParameter
        If one of them is wrong, or all together spend too much.
    """
    listed = document.tree.get("release")
    if (
        not isinstance(listed, list)
        or not listed
        or not all(isinstance(one, dict) for one in listed)
    ):
        document.refuse(("release",), "A study must have at least one [[release]]; got none.")
    found = tuple(
        _read_release_table(document, number, said, budget, folder)
        for number, said in enumerate(listed)
    )
    seen: set[str] = set()
    for number, one in enumerate(found):
        # On some systems files whose names differ in capitals alone are one.
        if one.name.lower() in seen:
            document.refuse(
                ("release", number),
                f"Every release must have its own name; got {one.name!r} twice.",
            )
        seen.add(one.name.lower())
    _check_budget(document, budget, found)
    return found


def _read_release_table(
    document: Document, number: int, said: dict[str, Any], budget: BudgetTable, folder: str
) -> StudyRelease:
    place = ("release", number)
    kind = guard(document, (*place, "kind"), lambda: find_kind(said.get("kind")))
    known = [*_ABOUT_RELEASE, *OUTLOOK, *list_known(kind)]
    document.check_keys(said, place, known, f"A release of kind {kind.name!r}")
    name = guard(document, (*place, "name"), lambda: NAME("release.name", said.get("name")))
    given = [key for key in _AMOUNTS if key in said]
    if len(given) != 1:
        document.refuse(
            place,
            f"Release {name!r} must say its epsilon, its share of the budget or a goal; got "
            f"{' and '.join(given) or 'none of them'}.",
        )
    epsilon: Any = said.get("epsilon")
    if "share" in said:
        share = guard(
            document, (*place, "share"), lambda: WHOLE_SHARE("release.share", said["share"])
        )
        epsilon = budget.find_epsilon(to_fraction(share))
    asked = _ANY_EPSILON if "goal" in said else epsilon
    if "domain" in said and "domain" in list_known(kind):
        # By itself first, so that what is wrong with it has its own line.
        guard(document, (*place, "domain"), lambda: read_labels_of(said, folder))
    request = guard(document, place, lambda: build_request(kind, said, asked, folder))
    outlook = read_outlook(document, place, said, request, folder)
    if outlook.goal is not None:
        # Imported here, as in `_read_goal`.
        from sordino.session.plans.goal_meter import take_number  # noqa: PLC0415

        request = take_number(request, outlook.goal)
    plain = {key: value for key, value in said.items() if key not in {*_ABOUT_RELEASE, "epsilon"}}
    if outlook.like is not None:
        plain["like"] = outlook.like
    return StudyRelease(
        name=name,
        kind=kind.name,
        epsilon=None if epsilon is None else to_fraction(epsilon),
        request=request,
        outlook=outlook,
        # Days are values of TOML and none of JSON.
        said=json.loads(json.dumps(plain, default=str)),
    )


def _check_budget(document: Document, budget: BudgetTable, found: Sequence[StudyRelease]) -> None:
    """Refuse releases that together spend more than a study says, without what goals will take."""
    spent = add_budgets(budget, found)
    deltas = _add_deltas(found)
    for what, asked, most in (
        (budget.measure, spent, budget.whole),
        ("delta", deltas, to_fraction(budget.delta)),
    ):
        if asked > most:
            document.refuse(("budget",), say_beyond(what, asked, most))


def add_budgets(budget: BudgetTable, releases: Sequence[StudyRelease]) -> Fraction:
    """Return what releases take of a budget, in its own measure; those with a goal nothing yet."""
    return sum(
        (budget.count(one.epsilon) for one in releases if one.epsilon is not None), Fraction(0)
    )


def _add_deltas(releases: Sequence[StudyRelease]) -> Fraction:
    """Return what releases may spend of a delta on labels that nobody listed."""
    found: dict[object, Fraction] = {}
    for place, one in enumerate(releases):
        request: Any = one.request
        delta = getattr(getattr(request, "domain", None), "delta", None)
        if delta is not None:
            # Figures of the same groups share one search.
            shares = getattr(request, "search_share", 0) is None
            found[request.looked_for if shares else place] = delta
    return sum(found.values(), Fraction(0))
