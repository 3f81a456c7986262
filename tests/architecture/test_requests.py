"""Requests: what a session's method takes is what its request declares, and no row is read before the charge."""

from __future__ import annotations

import ast
import dataclasses
import gc
import inspect
import pickle
import re
import textwrap
import weakref

import polars as pl
import pytest

import sordino as sd
from architecture.source import SOURCE
from sordino.session.plans.releases import Plans
from sordino.session.quantile_request import QuantileRequest
from sordino.session.releases import RELEASES
from sordino.session.request import GroupSearch
from sordino.session.top_k import TopKRequest


@pytest.mark.parametrize("name", RELEASES)
def test_a_method_of_a_session_takes_what_its_request_declares_and_says_what_each_means(name):
    declared, method = RELEASES[name].request, getattr(sd.Session, name)
    first, *listed = inspect.signature(method).parameters.values()
    assert first.name == "self"
    assert {one.name: one.default for one in listed} == {
        one.name: inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default
        for one in dataclasses.fields(declared)
    }
    assert listed[-1].name == "progress"
    assert (method.__name__, method.__qualname__) == (name, f"Session.{name}")
    for one in listed:
        assert re.search(rf"^{one.name} : ", method.__doc__, re.MULTILINE), one.name
    # Those without a name stand first, then those that must be given.
    order = [(one.kind == one.KEYWORD_ONLY, one.default is not one.empty) for one in listed]
    assert order == sorted(order)


COLUMN = (
    "column, *, epsilon, cap=, lower=, growth=, unit=, where=, by=, domain=, groups_per_unit=, most_groups=, "
    "search_share=, numbers_share=, per_person=, strict_types="
)
SIGNATURES = {
    "top_k": "item, *, epsilon, k=, domain=, where=, measure_noise=, simultaneous=, threshold=, "
    "selection_share=, noise=, method=, kth_count=, progress= -> TopItems",
    "top_set": "item, *, epsilon, k=, domain=, where=, measure_noise=, simultaneous=, selection_share=, "
    "progress= -> TopSetItems",
    "top_sums": "item, column=, *, epsilon, k=, domain=, cap=, where=, threshold=, growth=, unit=, "
    "noise=, simultaneous=, progress= -> TopItems",
    "above": "item, *, threshold, positives, epsilon, domain=, where=, adaptive=, measure_share=, "
    "simultaneous=, noise=, measure_noise=, split=, correction=, correction_run=, correction_margin=, "
    "method=, progress= -> AboveItems",
    "histogram": "item, *, epsilon, domain=, where=, threshold=, bounds=, simultaneous=, noise=, "
    "progress= -> Histogram",
    "table": "item, *, epsilon, domain=, where=, max_cells=, not_negative=, margins=, noise=, "
    "progress= -> CrossTable",
    "value_histogram": "column, *, bins, epsilon, per_person=, where=, simultaneous=, noise=, progress= "
    "-> Histogram",
    "count": "*, epsilon, where=, bounds=, noise=, progress= -> Count",
    "count_distinct_units": "*, epsilon, where=, bounds=, noise=, progress= -> Count",
    "quantile": COLUMN.replace("epsilon,", "epsilon, q,")
    + ", weight_cap=, size_hint=, interval_share=, integer=, progress= "
    "-> QuantileValue | QuantileValues | Groups",
    "sum": f"{COLUMN}, noise=, bounds=, progress= -> ClippedValue | BoundedValue | Groups",
    "mean": f"{COLUMN}, weight_cap=, noise=, bounds=, upper=, clip=, progress= -> ClippedValue | BoundedValue | Groups",
    "variance": f"{COLUMN}, weight_cap=, noise=, progress= -> VarianceValue | Groups",
    "randomize": "column, *, lower, upper, epsilon, activation=, tuned_for=, write=, progress= "
    "-> Values | Reported",
    "remeasure": "release, *, epsilon, noise=, planned=, part=, progress= -> Remeasured",
}


def written(name):
    """Return the parameters of a method, those with a default with a sign, and what it returns."""
    found = inspect.signature(getattr(sd.Session, name))
    listed, named = [], False
    for one in list(found.parameters.values())[1:]:
        if one.kind == one.KEYWORD_ONLY and not named:
            listed, named = [*listed, "*"], True
        listed.append(one.name if one.default is one.empty else f"{one.name}=")
    return f"{', '.join(listed)} -> {found.return_annotation}"


def test_signatures_are_what_a_reader_expects():
    assert {name: written(name) for name in RELEASES} == SIGNATURES
    assert sd.Session.count.__annotations__["epsilon"] == "Number"


@pytest.mark.parametrize(
    ("given", "asked", "says"),
    [
        (("x",), {}, r"Session\.mean\(\) needs epsilon, such as mean\(\.\.\., epsilon=0\.5\)\."),
        ((), {"epsilon": 1, "cap": 9, "lower": 0}, r"Session\.mean\(\) needs column, such as mean\(\"price\", \.\.\.\)\."),
        (("x",), {"epsilon": 1, "cap": 9, "lower": 0, "colour": 3}, r"Session\.mean\(\) takes no colour\. Did you mean 'column'\?"),
        (("x", 1), {"cap": 9, "lower": 0}, r"Session\.mean\(\) takes column without a name; got 2 values\. Name the others: epsilon"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told_of_the_method(given, asked, says):
    with sd.Session(pl.DataFrame({"x": [1]}), unit=sd.PrivacyUnit.row(), ledger=None) as session:
        with pytest.raises(TypeError, match=says):
            session.mean(*given, **asked)
        with pytest.raises(TypeError, match=says.replace("Session", "(Plans|Session)")):
            session.plan.mean(*given, **asked)
    with pytest.raises(
        TypeError, match=r"Session\.count\(\) missing 1 required positional argument: 'self'"
    ):
        sd.Session.count(epsilon=1)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    "name", ["count", "count_distinct_units", "histogram", "top_k", "sum", "mean"]
)
def test_a_function_of_the_callers_goes_along_with_no_release(name, again):
    """It may hold the table: a release is public, and is pickled and kept."""
    frame = pl.DataFrame({"x": [1.0] * 90, "item": ["a", "b", "c"] * 30})
    own = {
        "histogram": {"domain": ["a", "b"]},
        "top_k": {"k": 1, "domain": ["a", "b"], "method": "gaps"},
    }
    first = {"histogram": ["item"], "top_k": ["item"], "sum": ["x"], "mean": ["x"]}
    asked = own.get(name, {"cap": 9, "lower": 0} if name in {"sum", "mean"} else {})

    def tell(_percent):
        return frame

    with sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1)) as session:
        release = getattr(session, name)(*first.get(name, []), epsilon=1, progress=tell, **asked)
        if again:
            release = session.remeasure(release, epsilon=1, progress=tell)
        pickle.dumps(release)
        kept = session._executor.asked.find(release)
        assert kept.progress is None
        holder = weakref.ref(tell)
        del tell
        gc.collect()
        assert holder() is None


def test_what_is_no_function_is_refused_before_the_charge():
    with sd.Session(pl.DataFrame({"x": [1]}), unit=sd.PrivacyUnit.row(), ledger=None) as session:
        for place in (session, session.plan):
            with pytest.raises(sd.InvalidParameter, match=r"count\.progress must be a function"):
                place.count(epsilon=1, progress=5)


def test_a_plan_has_a_method_for_each_release_with_what_is_assumed():
    for name in RELEASES:
        own = list(inspect.signature(getattr(sd.Session, name)).parameters)
        planned = inspect.signature(getattr(Plans, name)).parameters
        assert list(planned) == [*own, "like", "rows", "runs", "goal"]
        assert planned["epsilon"].default is None, "a goal may take its place"


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
        "cross_table.steps",
        "local.steps",
        "noisy_histogram.count_with_noise",
        "column_request.find_and_release",
        "column_request.release_figures",
        "remeasure.steps",
        "top_k.steps",
        "top_set.steps",
        "top_k._select_and_measure",
        "value_histogram.steps",
    }
    assert len(found) == 14
    # It hands what is charged to the thread of another request, which is in this list.
    assert dict(found).pop("remeasure.steps") == ["reserve"]
    found = [(name, thread) for name, thread in found if name != "remeasure.steps"]
    # Groups that nobody listed are found by a release, and only then asked about.
    twice = [name for name, thread in found if not is_whole(thread)]
    assert twice == ["column_request.find_and_release"]
    assert dict(found)[twice[0]] == ["reserve", "find_once", "read", "release"]
    search = ast.parse(textwrap.dedent(inspect.getsource(GroupSearch.run))).body[0]
    assert thread_of(search) == ["read", "release"]


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
        started = session._executor.start(
            TopKRequest(item="item", k=1, epsilon=1, domain=["a", "b"], method="gaps")
        )
        # Whatever would read a row now fails.
        table.write_bytes(b"no table any more")
        assert started.reservation.detail["k"] == 1
        assert len(started.reservation.parts) == 2
        with pytest.raises(sd.DataSourceError):
            session._executor.run([started])


def test_quantiles_that_can_be_read_once_are_written_down_as_asked():
    request = QuantileRequest(column="x", q=(q for q in (0.25, 0.5)), epsilon=1, lower=0, cap=9)
    assert request.detail()["q"] == [0.25, 0.5]
    assert request.q == (0.25, 0.5)
