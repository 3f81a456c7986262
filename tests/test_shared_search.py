"""Figures of one batch about the same groups that nobody listed: one search, one charge, the same groups."""

from __future__ import annotations

from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

import sordino as sd
from sordino.mechanisms import UnlistedHistogram
from sordino.questions import CountQuestion, Domain
from sordino.questions.totals import NumberQuestion

ROWS = pl.DataFrame(
    {
        "shop": ["x"] * 400 + ["y"] * 300 + ["own"],
        "spent": [3.0] * 400 + [7.0] * 300 + [9.0],
        "items": [1.0] * 400 + [2.0] * 300 + [9.0],
        "who": [*range(400), *range(300), 999],
    }
)
DELTA = Fraction(1, 10**6)
GROUPS: dict[str, Any] = {
    "lower": 0,
    "cap": 100,
    "by": "shop",
    "domain": Domain.unlisted(delta=DELTA),
    "most_groups": 5,
    "groups_per_unit": 2,
}
UNIT = sd.PrivacyUnit("who", max_rows=1)


def open_session(rows: pl.DataFrame = ROWS, seed: int = 7, **more: Any) -> Any:
    return sd.Session(rows, unit=UNIT, **({"entropy": sd.Seeded(seed)} | more))


def ask_several(session: Any, **more: Any) -> tuple[Any, list[Any]]:
    with session.batch() as batch:
        found = [
            session.mean("spent", epsilon=2, **GROUPS | more),
            session.sum("items", epsilon=3, **GROUPS),
            session.quantile("items", q=0.5, epsilon=4, **GROUPS),
        ]
    return batch, found


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note which kinds of questions are read, and how often labels are looked for."""
    noted: list[str] = []

    def note(kind: Any, name: str, word: str) -> None:
        own = getattr(kind, name)

        def call(self: Any, *given: Any, **asked: Any) -> Any:
            noted.append(word)
            return own(self, *given, **asked)

        monkeypatch.setattr(kind, name, call)

    note(CountQuestion, "run", "labels")
    note(UnlistedHistogram, "release", "search")
    return noted


def test_one_search_finds_the_groups_of_all_figures_and_is_paid_once(seen: list[str]) -> None:
    batch, (mean, total, median) = ask_several(open_session())
    assert seen == ["labels", "search"]
    failure, rest = batch.cost.split_failure()
    assert (failure, rest.pure()) == (DELTA, 9)
    groups = [[row.item for row in one] for one in (mean, total, median)]
    assert groups == [["x", "y"]] * 3
    assert [one.found_before for one in (mean, total, median)] == [False, True, True]
    assert len({one.label_threshold for one in (mean, total, median)}) == 1
    # Each says what it cost: the first one the search as well.
    costs = [one.cost.split_failure() for one in (mean, total, median)]
    assert [(failure, rest.pure()) for failure, rest in costs] == [(DELTA, 2), (0, 3), (0, 4)]


def test_a_figure_of_groups_that_were_found_before_is_that_of_a_list_of_them() -> None:
    """The same mechanism for all of its epsilon, of the same rows: the same law."""
    _, (_, total, median) = ask_several(open_session())
    listed: dict[str, Any] = {"lower": 0, "cap": 100, "by": "shop", "groups_per_unit": 2}
    alone = open_session()
    same = alone.sum("items", epsilon=3, domain=["x", "y"], **listed)
    assert total.mechanism[1] == same.mechanism
    assert total.cost == same.cost
    same = alone.quantile("items", q=0.5, epsilon=4, domain=["x", "y"], **listed)
    assert repr(median.mechanism[1:]) == repr(same.mechanism)
    assert median.cost == same.cost


def test_figures_behind_the_search_are_those_of_the_rows() -> None:
    _, (mean, total, median) = ask_several(open_session())
    assert {row.item: round(row.release.estimate) for row in mean} == {"x": 3, "y": 7}
    assert {row.item: round(row.release.estimate, -2) for row in total} == {"x": 400, "y": 600}
    assert {row.item: round(row.release.value) for row in median} == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    "more",
    [
        {"where": "spent > 0"},
        {"most_groups": 4},
        {"groups_per_unit": 1},
        {"domain": Domain.unlisted(delta=DELTA / 2)},
        {"domain": Domain.unlisted(delta=DELTA, least=2)},
    ],
)
def test_other_groups_are_found_by_a_search_of_their_own(
    seen: list[str], more: dict[str, Any]
) -> None:
    batch, found = ask_several(open_session(), **more)
    assert seen == ["labels", "search"] * 2
    assert [one.found_before for one in found] == [False, False, True]
    other = more.get("domain", GROUPS["domain"]).delta
    assert batch.cost.split_failure()[0] == 1 - (1 - DELTA) * (1 - other)


def test_a_share_that_is_given_pays_for_a_search_of_its_own(seen: list[str]) -> None:
    session = open_session()
    with session.batch():
        session.mean("spent", epsilon=2, **GROUPS)
        session.mean("items", epsilon=2, search_share=0.5, **GROUPS)
    assert seen.count("search") == 2


@pytest.mark.parametrize("batched", [False, True])
def test_without_a_search_before_it_no_figure_goes_without_one(batched: bool) -> None:
    session = open_session()
    said = "no figure before it in a batch finds the same"
    with session.batch() if batched else nullcontext() as batch:
        if batched:
            session.mean("spent", epsilon=2, **GROUPS | {"most_groups": 4})
        with pytest.raises(sd.InvalidParameter, match=said):
            session.mean("spent", epsilon=2, search_share=0, **GROUPS)
        if batched:
            batch.asked.clear()


def test_two_batches_have_a_search_each(seen: list[str]) -> None:
    session = open_session()
    for _ in range(2):
        ask_several(session)
    assert seen.count("search") == 2


def test_where_nothing_is_found_the_figures_return(tmp_path: Any) -> None:
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(epsilon=20, delta=1e-5, failures=2e-6),
        adjacency="add-remove",
        unit=UNIT,
        source="name:t",
    )
    session = open_session(ROWS.tail(1), entropy=sd.entropy.SYSTEM, ledger=ledger, name="t")
    _, found = ask_several(session)
    assert [len(one) for one in found] == [0, 0, 0]
    search = sd.cost.Approximate(epsilon=Fraction(1, 2), delta=DELTA)
    assert found[0].cost.to_dict() == search.to_dict()
    assert [one.cost.pure() for one in found[1:]] == [0, 0]
    [line] = ledger.statement().charges
    assert (line.label, line.state) == ("mean + sum + quantile", "settled")
    assert line.delta == DELTA
    assert ledger.verify().sound
    assert len({one.receipt.id for one in found}) == 1


def test_a_plan_of_a_later_figure_finds_groups_and_leaves_the_batch_alone(seen: list[str]) -> None:
    session = open_session()
    with session.batch() as batch:
        session.mean("spent", epsilon=2, **GROUPS)
        plan = session.plan.sum("items", epsilon=3, like="flat", runs=3, **GROUPS)
        assert plan.cost.pure() == 3
        assert plan.rows[0].figure == "the sum of each group"
        seen.clear()
        total = session.sum("items", epsilon=3, **GROUPS)
    assert seen == ["labels", "search"]
    assert [row.item for row in total] == ["x", "y"]
    assert batch.cost.split_failure()[1].pure() == 5


def test_sums_within_a_range_join_a_search(seen: list[str]) -> None:
    session = open_session()
    with session.batch() as batch:
        session.mean("spent", epsilon=2, **GROUPS)
        total = session.sum("items", epsilon=2, bounds=(0, 1000), **GROUPS)
    assert seen == ["labels", "search"]
    assert total.found_before
    assert batch.cost.split_failure()[1].pure() == 4


def test_rows_of_groups_are_read_for_each_column_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    own = NumberQuestion.among

    def among(self: Any, labels: Any) -> Any:
        asked.append(tuple(labels))
        return own(self, labels)

    monkeypatch.setattr(NumberQuestion, "among", among)
    ask_several(open_session())
    assert asked == [("x", "y")] * 3


STUDY = """
name = "shops"
[source]
path = "t.parquet"
[unit]
column = "who"
max_rows = 1
[account]
ledger = "l.db"
name = "a"
[budget]
epsilon = 9
delta = {delta}
"""
RELEASE = """
[[release]]
kind = "sum"
name = "{name}"
column = "{name}"
by = "shop"
domain = {{unlisted = {{delta = 1e-6}}}}
groups_per_unit = 2
most_groups = {most}
lower = 0
share = 0.5
"""


@pytest.mark.parametrize(("most", "delta", "fits"), [(5, 1e-6, True), (4, 1e-6, False)])
def test_a_study_counts_the_delta_of_a_search_once(
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    seen: list[str],
    most: int,
    delta: float,
    fits: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    ROWS.write_parquet("t.parquet")
    budget = sd.Budget(epsilon=20, delta=1e-5, failures=2e-6)
    about: dict[str, Any] = {"account": "a", "adjacency": "add-remove", "unit": UNIT}
    ledger = sd.Ledger.create("l.db", budget=budget, source="t.parquet", **about)
    said = STUDY.format(delta=delta) + RELEASE.format(name="spent", most=5)
    (tmp_path / "s.toml").write_text(said + RELEASE.format(name="items", most=most), "utf-8")
    if not fits:
        with pytest.raises(sd.InvalidParameter, match="together they spend delta 2e-06"):
            sd.Study.load("s.toml")
        return
    run = sd.Study.load("s.toml").run(run_id="one", output="one")
    assert seen.count("search") == 1
    assert [len(one["rows"]) for one in run.releases] == [2, 2]
    # What the study publishes stands behind its charge, and spends nothing.
    line, *others = ledger.statement().charges
    assert line.delta == DELTA
    assert [one.charged for one in others] == [0] * len(others)
