"""Reads the releases that a study asks for, each into the request of a session that it describes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.constraints import WHOLE_SHARE, shown, to_fraction
from sordino.session.request import Request
from sordino.study.document import Document
from sordino.study.kinds import build_request, find_kind, list_parameters
from sordino.study.tables import NAME, BudgetTable, guard

_ABOUT_RELEASE = ("kind", "name", "share")
"""Keys of every release, beside the parameters of its kind."""


@final
@dataclass(frozen=True, kw_only=True)
class StudyRelease:
    """One release that a study asks for.

    Attributes
    ----------
    name, kind : str
        Its own name, and what it is.
    epsilon : Fraction
        Its budget.
    request : Request
        Its parameters, checked.
    said : dict
        The same as the file has them, JSON-ready.
    """

    name: str
    kind: str
    epsilon: Fraction
    request: Request[Any]
    said: dict[str, Any]


def read_releases(document: Document, budget: BudgetTable, folder: str) -> tuple[StudyRelease, ...]:
    """Return the releases of a study, which fit into its budget.

    Raises
    ------
    InvalidParameter
        If one of them is wrong, or all together spend too much.
    """
    listed = document.tree.get("release")
    if not isinstance(listed, list) or not listed or not all(isinstance(one, dict) for one in listed):
        document.refuse(("release",), "A study must have at least one [[release]]; got none.")
    found = tuple(_read_release(document, number, said, budget, folder) for number, said in enumerate(listed))
    seen: set[str] = set()
    for number, one in enumerate(found):
        # On some systems files whose names differ in capitals alone are one.
        if one.name.lower() in seen:
            document.refuse(
                ("release", number), f"Every release must have its own name; got {one.name!r} twice."
            )
        seen.add(one.name.lower())
    _check_budget(document, budget, found)
    return found


def _read_release(
    document: Document, number: int, said: dict[str, Any], budget: BudgetTable, folder: str
) -> StudyRelease:
    place = ("release", number)
    kind = guard(document, (*place, "kind"), lambda: find_kind(said.get("kind")))
    known = [*_ABOUT_RELEASE, *list_parameters(kind)]
    document.check_keys(said, place, known, f"A release of kind {kind.name!r}")
    name = guard(document, (*place, "name"), lambda: NAME("release.name", said.get("name")))
    if ("epsilon" in said) == ("share" in said):
        document.refuse(
            place,
            f"Release {name!r} must say its epsilon, or its share of the budget; got "
            f"{'both' if 'share' in said else 'neither'}.",
        )
    if "share" in said:
        share = guard(document, (*place, "share"), lambda: WHOLE_SHARE("release.share", said["share"]))
        epsilon = budget.find_epsilon(to_fraction(share))
    else:
        epsilon = said["epsilon"]
    request = guard(document, place, lambda: build_request(kind, said, epsilon, folder))
    plain = {key: value for key, value in said.items() if key not in {*_ABOUT_RELEASE, "epsilon"}}
    return StudyRelease(
        name=name,
        kind=kind.name,
        epsilon=to_fraction(epsilon),
        request=request,
        # Days are values of TOML and none of JSON.
        said=json.loads(json.dumps(plain, default=str)),
    )


def _check_budget(document: Document, budget: BudgetTable, found: Sequence[StudyRelease]) -> None:
    """Refuse releases that spend more together than the study says."""
    spent = sum((budget.count(one.epsilon) for one in found), Fraction(0))
    deltas = sum((_find_delta(one) for one in found), Fraction(0))
    for what, asked, most in (
        (budget.measure, spent, budget.whole),
        ("delta", deltas, to_fraction(budget.delta)),
    ):
        if asked > most:
            document.refuse(
                ("budget",),
                f"The releases of a study must fit into its [budget]: together they spend {what} "
                f"{shown(asked)}, and it has {shown(most)}. Give some of them less, or raise it.",
            )


def _find_delta(release: StudyRelease) -> Fraction:
    """Return what a release may spend of a delta on labels that nobody listed."""
    delta: Fraction | None = getattr(getattr(release.request, "domain", None), "delta", None)
    return delta or Fraction(0)
