"""What `Session.plan` offers: one method for each release, with its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from fractions import Fraction
from types import MethodType
from typing import TYPE_CHECKING, Any, final

from sordino.errors import InvalidParameter
from sordino.plan.goals import parse_goal
from sordino.scrubbing import scrubbed
from sordino.session.executor import ReleaseExecutor, Started
from sordino.session.plans.goal_meter import take_number
from sordino.session.plans.plan import Plan
from sordino.session.plans.planner import Planner
from sordino.session.releases import RELEASES, make_request
from sordino.session.request import Request
from sordino.sources import CsvFormat

ANY_EPSILON = Fraction(1)
"""Stands for the epsilon of a request for which one is looked for."""


@final
class Plans:
    """Plans of the releases of one session; `Session.plan` makes it.

    It has a method for each release of a session, with the same name.
    """

    __slots__ = ("_planner",)

    # Each method is made from the request of its release, below.
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Plan]:
            """Return the method of a release."""

    def __init__(
        self, executor: ReleaseExecutor, form: CsvFormat, before: Sequence[Started[Any]]
    ) -> None:
        self._planner = Planner(executor, form, before)

    def __repr__(self) -> str:
        return "Plans()"

    @scrubbed
    def _make(
        self, kind: type[Request[Any]], given: tuple[Any, ...], asked: dict[str, Any]
    ) -> Plan:
        """Return the plan of a release of this kind."""
        own = {word: asked.pop(word, None) for word in ("like", "rows", "runs")}
        goal = asked.pop("goal", None)
        if goal is None:
            return self._planner.make(self._planner.settle(make_request(kind, given, asked)), **own)
        wish = parse_goal(kind.name, goal)
        if asked.setdefault("epsilon", ANY_EPSILON) is not ANY_EPSILON:
            raise InvalidParameter(
                f"{kind.name}.goal takes the place of epsilon, which is looked for; got both. "
                "Leave one of them out."
            )
        request = take_number(make_request(kind, given, asked), wish)
        return self._planner.seek(self._planner.settle(request), wish, **own)


@final
class _Planned:
    """A method of plans: the parameters of a release, and what is assumed of its data."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Plans | None, kind: object = None) -> Any:
        """Return the method, with the signature of the release, in which epsilon is optional."""
        request = RELEASES[self._name].request

        def plan(self: Plans, *given: Any, **asked: Any) -> Plan:
            return self._make(request, given, asked)

        plan.__name__, plan.__qualname__ = self._name, f"Plans.{self._name}"
        plan.__doc__ = _ABOUT.format(self._name)
        plan.__signature__ = _write_signature(request)  # type: ignore[attr-defined]
        return plan if owner is None else MethodType(plan, owner)


_ABOUT = """Plan `Session.{0}`: what it would cost and give, without a row and without a charge.

The parameters are those of `Session.{0}`, and four more. What the release would refuse is refused
in the same words.

Parameters
----------
like : str, path or frame, optional
    What is assumed of data that nobody looks at: "zipf:1.1", "geometric:0.9", "flat",
    "steps:10x500,90x20", of a column "lognormal:30000,0.6" and "normal:40,15" as well; or public or
    synthetic data. Of the largest sums "lognormal:200,1 by zipf:1.1": how much people add up to,
    and how that falls from label to label.
rows : int, optional
    How many rows made-up data have; where people add up to something in all groups, how many they
    are.
runs : int, optional
    How many dry runs are made.
goal : str, optional
    What shall be reached, in the place of epsilon, which is looked for.

Returns
-------
Plan
"""


def _write_signature(request: type[Request[Any]]) -> inspect.Signature:
    """Return the signature of a plan of a request."""
    listed = list(inspect.signature(RELEASES[request.name].__get__(None)).parameters.values())
    names = ("like", "rows", "runs", "goal")
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
    # A goal takes the place of epsilon.
    own = [one.replace(default=None) if one.name == "epsilon" else one for one in listed]
    return inspect.Signature([*own, *more], return_annotation="Plan")


for _name in RELEASES:
    setattr(Plans, _name, _Planned(_name))
