"""Units that come and go one at a time: what is said of the others stays, and a choice by all rows is seen."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from fuzz import broken, engines
from fuzz.checks import examine
from fuzz.found import load, of_twin
from fuzz.generate import make_case
from fuzz.looked_up import count_tables
from fuzz.values import Far
from fuzz.walk import find_wrong

MINE, OTHER = ("row", "7", ("7", "a")), ("row", "8", ("8", "a"))


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        ({MINE: 2, OTHER: 1}, {OTHER: 1}, None),
        ({MINE: 2}, {MINE: 2}, None),  # of it nothing is asked
        ({MINE: 2}, {}, None),
        ({MINE: 1, OTHER: 1}, {}, "of several units there go"),
        ({MINE: 2}, {MINE: 1}, "of one unit there stay"),
        ({MINE: 1, OTHER: 1}, {OTHER: 2}, "there come"),
        ({MINE: 1, OTHER: 1}, {("row", "8", ("8", "b")): 1}, "there come"),
    ],
)
@pytest.mark.sample(2)
def test_one_unit_goes_with_all_of_its_rows_and_nothing_else(before, after, wrong):
    found = find_wrong(Counter(before), Counter(after))
    assert (found or "").startswith(wrong or "")
    assert (found is None) == (wrong is None)


@pytest.mark.parametrize("seed", [13, 45])
@pytest.mark.sample(1)
def test_a_walk_compares_all_pairs_of_neighbors(seed):
    """Seeds of one table and of several, with units enough."""
    draw, pairs = random.Random(seed), 0
    while pairs < 20:
        case = make_case(draw.randrange(1 << 30))
        if case.source["kind"] in {"postgres", "csv"} or len(case.base.rows) > 30 or case.release:
            continue
        if (count_tables(case.source) > 1) != (seed == 45):
            continue
        seen = examine(case, pool=True, thorough=False, walks=True)
        assert seen.finding is None
        assert seen.neighbors >= seen.walked - 1 or not seen.walked
        pairs += seen.neighbors


@pytest.mark.parametrize("twin", ["lent-by-all", "collated-key", "fan-out"])
@pytest.mark.sample(1)
def test_a_walk_alone_convicts_a_choice_by_the_rows_of_others(twin):
    case = load(of_twin(twin)[0])
    broken.install(twin)
    try:
        # Small cases of one law: with all units together on the way one of its steps breaks it.
        assert examine(case, pool=False, thorough=True, walks=True).finding is not None
    finally:
        broken.mended()
        engines.forget()


def test_seeds_make_calls_units_of_two_columns_far_dates_and_thresholds():
    cases = [make_case(seed) for seed in random.Random(7).sample(range(50_000), 900)]
    assert {case.question.call for case in cases} >= {"lower({})", "bin({}, 0, 7)"}
    units = {case.question.unit_too for case in cases} - {None}
    assert any("day(" in one for one in units)
    assert any("(" not in one for one in units)
    assert any(isinstance(value, Far) for case in cases for row in case.base.rows for value in row)
    limits = [case.release for case in cases if case.release and "threshold" in case.release]
    assert {one["name"] for one in limits} >= {"top", "histogram"}
