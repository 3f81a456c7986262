"""What `Session.plan` offers: one method for each release, with its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, final

from sordino.data import CsvFormat
from sordino.errors import InvalidParameter
from sordino.plan.goals import parse_goal
from sordino.remnants import no_remnants
from sordino.session.desk import Desk, Started
from sordino.session.plans.plan import Plan
from sordino.session.plans.planner import Planner
from sordino.session.request import Request
from sordino.session.session import Session

ANY_EPSILON = Fraction(1)
"""Stands for the epsilon of a request for which one is looked for."""


@final
class Plans:
    """Plans of the releases of one session; `Session.plan` makes it."""

    __slots__ = ("_planner",)

    def __init__(self, desk: Desk, form: CsvFormat, before: Sequence[Started[Any]]) -> None:
        self._planner = Planner(desk, form, before)

    def __repr__(self) -> str:
        return "Plans()"

    @no_remnants
    def _make(
        self,
        name: str,
        given: tuple[Any, ...],
        asked: dict[str, Any],
    ) -> Plan:
        """Return the plan of a release of this name."""
        own = {word: asked.pop(word, None) for word in ("like", "rows", "runs")}
        goal = asked.pop("goal", None)
        if goal is None:
            return self._planner.make(self._planner.settle(_capture(name, given, asked)), **own)
        wish = parse_goal(name, goal)
        if asked.setdefault("epsilon", ANY_EPSILON) is not ANY_EPSILON:
            raise InvalidParameter(
                f"{name}.goal takes the place of epsilon, which is looked for; got both. Leave one of them "
                "out."
            )
        return self._planner.seek(self._planner.settle(_capture(name, given, asked)), wish, **own)

    def top_k(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.top_k`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("top_k", given, asked)

    def above(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.above`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("above", given, asked)

    def histogram(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.histogram`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("histogram", given, asked)

    def count(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.count`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("count", given, asked)

    def count_distinct_units(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.count_distinct_units`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("count_distinct_units", given, asked)

    def quantile(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.quantile`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("quantile", given, asked)

    def sum(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.sum`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("sum", given, asked)

    def mean(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.mean`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("mean", given, asked)

    def variance(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.variance`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("variance", given, asked)

    def remeasure(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.remeasure`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("remeasure", given, asked)

    def randomize(self, *given: Any, **asked: Any) -> Plan:
        """Plan `Session.randomize`: the same parameters, and `like`, `rows`, `runs` and `goal`."""
        return self._make("randomize", given, asked)


class _Taker:
    """Stands for a session while a request is made: it hands the request back and starts nothing."""

    def _do(self, request: Request[Any], progress: Any) -> Request[Any]:  # noqa: ARG002
        return request


def _capture(name: str, given: tuple[Any, ...], parameters: dict[str, Any]) -> Request[Any]:
    """Return the request that a method of a session would start: its parameters are checked there."""
    request: Request[Any] = getattr(Session, name)(_Taker(), *given, **parameters)
    return request
