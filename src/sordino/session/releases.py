"""What a session can release.

Each method is made from its request, and this list of them is the only one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from types import MethodType
from typing import Any, Generic, ParamSpec, cast, get_args, overload

from sordino.constraints import did_you_mean
from sordino.declared import list_parameters
from sordino.scrubbing import scrubbed
from sordino.session import requests
from sordino.session.request import R, Request

P = ParamSpec("P")
Kind = type[Request[Any]]


class releases(Generic[P, R]):  # noqa: N801 - it stands where `property` would
    """A method that makes a request of what it is given, and lets its session do it.

    Its signature and its documentation are those of the request. Type checkers know its parameters
    and what it returns.

    Parameters
    ----------
    find : callable
        Returns the class of the request; called when the method is first used, so that a session
        loads what it releases and nothing else.
    """

    def __init__(self, find: Callable[[], Callable[P, Request[R]]]) -> None:
        self._find = find
        self._method: Callable[..., Any] | None = None

    @property
    def request(self) -> type[Request[R]]:
        """The class of the request."""
        return cast("type[Request[R]]", self._find())

    @overload
    def __get__(self, owner: None, kind: object = None) -> Callable[..., R]: ...

    @overload
    def __get__(self, owner: object, kind: object = None) -> Callable[P, R]: ...

    def __get__(self, owner: object, kind: object = None) -> Any:
        """Return the method, bound to a session as methods are."""
        if self._method is None:
            self._method = _write_method(self.request)
        return self._method if owner is None else MethodType(self._method, owner)


_EXAMPLES = {
    "item": '"product"',
    "column": '"price"',
    "release": "earlier",
    "epsilon": "epsilon=0.5",
    "q": "q=0.5",
    "bins": "bins=[0, 10, 100]",
    "threshold": "threshold=100",
    "positives": "positives=5",
    "lower": "lower=0",
    "upper": "upper=100",
}
"""What stands for a parameter where somebody has left it out."""


def make_request(kind: Kind, given: Sequence[Any], asked: Mapping[str, Any]) -> Request[Any]:
    """Return a request of what a caller has given.

    Raises
    ------
    TypeError
        If something is missing, with an example of it.
    """
    try:
        return kind(*given, **asked)
    except TypeError:
        missing = _list_missing(kind, given, asked)
        if not missing:
            wrong = _say_wrong(kind, given, asked)
            if wrong is None:
                raise
            raise TypeError(wrong) from None
    shown = [_EXAMPLES[name] for name in missing]
    named = [one for one in shown if "=" in one]
    # What is given without its name stands first.
    like = ", ".join([*shown[: len(shown) - len(named)], *["..."] * bool(given or asked), *named])
    raise TypeError(
        f"Session.{kind.name}() needs {', '.join(missing)}, such as {kind.name}({like})."
    )


_ELSEWHERE = {
    ("top_k", "rank_by"): "What people spend there ranks in top_sums(item, column, ...)",
    ("histogram", "bins"): "People in bins of a number are value_histogram(column, bins=...)",
    ("count", "per_person"): "How many rows each person has is value_histogram(bins=..., "
    'per_person="count")',
    ("count", "item"): "The rows of each label are histogram(item, ...)",
}
"""Which other release a parameter belongs to."""


def _say_wrong(kind: Kind, given: Sequence[object], asked: Mapping[str, object]) -> str | None:
    """Return what a release does not take, and what it takes in its place; None if it is not it."""
    taken = inspect.signature(kind).parameters
    first = [name for name, one in taken.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(given) > len(first):
        # What must be said stands in front.
        rest = [one for one in taken.values() if one.name not in {*first, "progress"}]
        others = [one.name for one in sorted(rest, key=lambda one: one.default is not one.empty)]
        return (
            f"Session.{kind.name}() takes {', '.join(first) or 'nothing'} without a name; got "
            f"{len(given)} values. Name the others: {', '.join(others[:4])}, ..."
        )
    for name in asked:
        if name in taken:
            continue
        hint = _ELSEWHERE.get((kind.name, name))
        said = f" {hint}." if hint else did_you_mean(name, taken)
        return f"Session.{kind.name}() takes no {name}.{said}"
    return None


def _list_missing(kind: Kind, given: Sequence[object], asked: Mapping[str, object]) -> list[str]:
    """Return what must be given and is not; nothing where something else is wrong."""
    known = inspect.signature(kind)
    try:
        bound = known.bind_partial(*given, **asked).arguments
    except TypeError:
        return []
    must = (name for name, one in known.parameters.items() if one.default is one.empty)
    return [name for name in must if name not in bound]


def _write_method(request: Kind) -> Callable[..., Any]:
    """Return the function that a request is as a method."""

    def release(self: Any, *given: Any, **asked: Any) -> Any:
        return self._do(make_request(request, given, asked))

    release.__name__, release.__qualname__ = request.name, f"Session.{request.name}"
    method = scrubbed(release)
    update_wrapper(method, request, assigned=("__module__", "__doc__"), updated=())
    method.__name__, method.__qualname__ = request.name, f"Session.{request.name}"
    method.__dict__.pop("__wrapped__", None)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = inspect.signature(request).parameters
    listed = [own, *(known[one.name] for one in list_parameters(request))]
    shown = inspect.Signature(listed, return_annotation=_name_result(request))
    method.__signature__ = shown  # type: ignore[attr-defined]
    method.__annotations__ = {one.name: one.annotation for one in listed[1:]}
    return method


def _name_result(request: Kind) -> str:
    """Return what a request says that it returns, in the short names of its classes."""
    [result] = get_args(cast("Any", request).__orig_bases__[0])
    return " | ".join(one.__name__ for one in get_args(result) or (result,))


class Releases:
    """The methods of a session that release something, each made from its request."""

    top_k = releases(lambda: requests.TopKRequest)
    # As the command is called.
    top = top_k
    top_set = releases(lambda: requests.TopSetRequest)
    top_sums = releases(lambda: requests.TopSumsRequest)
    above = releases(lambda: requests.AboveRequest)
    histogram = releases(lambda: requests.HistogramRequest)
    table = releases(lambda: requests.TableRequest)
    value_histogram = releases(lambda: requests.ValueHistogramRequest)
    count = releases(lambda: requests.CountRequest)
    count_distinct_units = releases(lambda: requests.CountUnitsRequest)
    quantile = releases(lambda: requests.QuantileRequest)
    sum = releases(lambda: requests.SumRequest)
    mean = releases(lambda: requests.MeanRequest)
    variance = releases(lambda: requests.VarianceRequest)
    randomize = releases(lambda: requests.RandomizeRequest)
    remeasure = releases(lambda: requests.RemeasureRequest)


RELEASES = {
    name: value
    for name, value in vars(Releases).items()
    if isinstance(value, releases) and name != "top"
}
"""What makes each of them, by the name of the method."""
