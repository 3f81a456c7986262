"""The suite of all engines, over a server of Spark: the same whole numbers from a table of extremes."""

from __future__ import annotations

import pytest

from support.conformance import PARTS, UNITS, add, arrow, differences, rows
from support.spark import frame

# Of two names that differ in nothing but case Spark takes neither.
ASKED = [part for part in PARTS if part != "labels of WHO"]


def answers(table, part, unit):
    return PARTS[part](frame(arrow(table).drop_columns(["WHO"])), UNITS[unit])


@pytest.mark.parametrize("part", ASKED)
@pytest.mark.parametrize("unit", [name for name in UNITS if name not in {"rows", "texts"}])
@pytest.mark.slow
def test_the_same_whole_numbers_for_other_units(part, unit):
    assert differences(answers(rows(1), part, unit), PARTS[part](arrow(rows(1)), UNITS[unit])) == []


@pytest.mark.parametrize("part", ASKED)
@pytest.mark.parametrize("unit", ["rows", "texts"])
@pytest.mark.sample(4)
def test_the_same_whole_numbers(part, unit):
    assert differences(answers(rows(1), part, unit), PARTS[part](arrow(rows(1)), UNITS[unit])) == []


@pytest.mark.parametrize("part", ASKED)
@pytest.mark.sample(9)
def test_one_unit_more_adds_its_own_answer(part):
    table, more = rows(2, 40), [("another unit", *row[1:]) for row in rows(3, 25)]
    found, own, both = (
        answers(one, part, "texts") for one in (table, more, [*table[:20], *more, *table[20:]])
    )
    assert differences(both, add(found, own)) == []
