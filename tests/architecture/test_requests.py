"""Requests: what a session's method takes is what its request declares, and no row is read before the charge."""

from __future__ import annotations

import ast
import dataclasses
import inspect

import polars as pl
import pytest

import sordino as sd
from architecture.source import SOURCE
from sordino.session.above import AboveRequest
from sordino.session.counts import CountRequest, CountUnitsRequest, HistogramRequest
from sordino.session.local import RandomizeRequest
from sordino.session.numbers import MeanRequest, QuantileRequest, SumRequest, VarianceRequest
from sordino.session.remeasure import RemeasureRequest
from sordino.session.request import Request
from sordino.session.top_k import TopKRequest

REQUESTS = [
    AboveRequest,
    CountRequest,
    CountUnitsRequest,
    HistogramRequest,
    MeanRequest,
    QuantileRequest,
    RandomizeRequest,
    RemeasureRequest,
    SumRequest,
    TopKRequest,
    VarianceRequest,
]


def declared(request):
    """Return the parameters of a request with their defaults."""
    none = inspect.Parameter.empty
    return {
        one.name: none if one.default is dataclasses.MISSING else one.default
        for one in dataclasses.fields(request)
    }


def taken(function):
    """Return the parameters of a method with their defaults."""
    return {
        name: one.default
        for name, one in inspect.signature(function).parameters.items()
        if name not in {"self", "progress"}
    }


@pytest.mark.parametrize("request_class", REQUESTS, ids=lambda one: one.name)
def test_a_method_of_a_session_takes_what_its_request_declares(request_class):
    assert taken(getattr(sd.Session, request_class.name)) == declared(request_class)


def test_the_comparison_can_fail():
    def method(self, item, *, k=2, progress=None): ...

    assert taken(method) != declared(TopKRequest)


def test_every_request_is_in_the_list():
    def leaves(one):
        return {one} if not one.__subclasses__() else set().union(*map(leaves, one.__subclasses__()))

    assert {one for one in leaves(Request) if one.__module__.startswith("sordino.")} == set(REQUESTS)


def thread_of(function):
    """Return what happens in a function, in the order of its lines: reservations, readings, releases."""
    events = []
    for node in ast.walk(function):
        if isinstance(node, ast.Yield):
            events.append((node.lineno, "reserve"))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "charged":
                events.append((node.lineno, node.func.attr))
    return [event for _, event in sorted(events)]


def is_whole(thread):
    """Tell whether one reservation stands before all readings, and one reading before all releases."""
    rest = [event for event in thread if event != "watch"]
    return rest[:2] == ["reserve", "read"] and len(rest) > 2 and set(rest[2:]) == {"release"}


def threads():
    """Return the name and the thread of every function of the session that makes a reservation."""
    return [
        (f"{file.stem}.{node.name}", thread_of(node))
        for file in sorted((SOURCE / "session").glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and "Steps" in ast.unparse(node.returns)
        and any(isinstance(one, ast.Yield) for one in ast.walk(node))
    ]


def test_every_thread_reserves_then_reads_then_releases():
    found = threads()
    assert {name for name, _ in found} == {
        "above.steps",
        "again.measure_totals",
        "counts.steps",
        "found_groups.find_and_release",
        "local.steps",
        "noisy_histogram.count_with_noise",
        "numbers.bounded_steps",
        "numbers.steps",
        "remeasure.steps",
        "top_k.steps",
        "top_set.release_set",
        "top_unlisted._select_and_measure",
    }
    assert len(found) == 13
    # It hands what is charged to the thread of another request, which is in this list.
    assert dict(found).pop("remeasure.steps") == ["reserve"]
    found = [(name, thread) for name, thread in found if name != "remeasure.steps"]
    # Groups that nobody listed are found by a release, and only then asked about.
    twice = [name for name, thread in found if not is_whole(thread)]
    assert twice == ["found_groups.find_and_release"]
    assert dict(found)[twice[0]] == ["reserve", "read", "release", "read", "release"]


@pytest.mark.parametrize(
    "text",
    [
        "def steps(self, table):\n    counts = charged.read(question)\n    charged = yield 1\n    return charged.release(1, counts)",
        "def steps(self, table):\n    charged = yield 1\n    charged = yield 2\n    return charged.release(1, charged.read(1))",
        "def steps(self, table):\n    charged = yield 1\n    return charged.read(question)",
    ],
)
def test_a_thread_in_another_order_is_seen(text):
    assert not is_whole(thread_of(ast.parse(text).body[0]))


def test_a_request_that_is_not_charged_reads_nothing(tmp_path):
    table = tmp_path / "rows.parquet"
    pl.DataFrame({"item": ["a", "b"]}).write_parquet(table)
    with sd.Session(table, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1)) as session:
        started = session._desk.start(
            TopKRequest(item="item", k=1, epsilon=1, domain=["a", "b"], method="gaps")
        )
        # Whatever would read a row now fails.
        table.write_bytes(b"no table any more")
        assert started.reservation.detail["k"] == 1
        assert len(started.reservation.parts) == 2
        with pytest.raises(sd.DataSourceError):
            session._desk.run([(started, None)])


def test_quantiles_that_can_be_read_once_are_written_down_as_asked():
    request = QuantileRequest(column="x", q=(q for q in (0.25, 0.5)), epsilon=1, lower=0, cap=9)
    assert request.detail()["q"] == [0.25, 0.5]
    assert request.q == (0.25, 0.5)
