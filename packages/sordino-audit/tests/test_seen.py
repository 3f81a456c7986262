"""What the auditor sees of an outcome: everything that a reader could tell apart, and nothing that differs from run to run by itself."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, InvalidParameter, LaplaceMechanism, Seeded
from sordino_audit.black_boxes.runs import classed, read_error, read_outcome


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Pair:
    one: int
    other: str


DIFFERENT = [
    (1, 1.0),
    (1, True),
    (0.0, -0.0),
    (None, False),
    ("a", b"a"),
    ("", None),
    ([], [[]]),
    ([1, 2], [2, 1]),
    ([1], 1),
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, [1]),
    (Color.RED, Color.BLUE),
    (Pair(1, "x"), Pair(1, "y")),
    (Pair(1, "x"), {"one": 1, "other": "x"}),
    (math.inf, -math.inf),
    (ValueError, KeyError),
    ("count: 12", "count: 12.0"),
    ("count: 12", "count: 13"),
    ("12 rows", "12 row"),
    (float("nan"), 0.0),
]


def look(value):
    found = read_error(value()) if isinstance(value, type) else read_outcome(value)
    return found.shape, tuple(repr(number) for number in found.numbers)


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=repr)
def test_different_outcomes_look_different(one, other):
    assert look(one) != look(other)
    assert look(one) == look(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.int64(3), 3),
        (np.float64(0.5), 0.5),
        (np.array([1, 2]), [1, 2]),
        (np.array([[1.5]]), [[1.5]]),
        ((1, 2), [1, 2]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({3, 1}, {1, 3}),
        (Fraction(1, 2), Decimal("0.5")),
        (float("nan"), float("nan")),
        (np.str_("x7"), "x7"),
        (np.array(3.5), [3.5]),
    ],
    ids=repr,
)
def test_equal_outcomes_look_equal(one, other):
    assert look(one) == look(other)


def test_an_error_shows_its_type_and_nothing_else():
    assert "secret" not in repr(read_error(ValueError("secret 17")))


def test_a_release_shows_what_left_the_building():
    release = LaplaceMechanism(epsilon=1, sensitivity=COUNTING).release(5, entropy=Seeded(7))
    paths = {mark.path for mark in read_outcome(release).shape}
    assert "value" in paths
    assert any(path.startswith("cost") for path in paths)
    assert not any(path.startswith("mechanism") for path in paths)


def test_named_tuples_are_seen_by_their_names():
    said = audit.black_boxes.runs.Said(exit_code=0, stdout="a 3", stderr="", length=3)
    assert {mark.path for mark in read_outcome(said).shape} == {
        "exit_code",
        "stdout#1",
        "stdout",
        "stderr",
        "length",
        "",
    }


def test_numbers_in_a_text_are_numbers():
    found = read_outcome('{"estimate": -12.5, "rank": 3, "label": "a7", "p": 1e-3}')
    assert found.numbers == (-12.5, 3.0, 7.0, 1e-3)
    assert read_outcome("9" * 400).numbers == (math.inf,)
    assert read_outcome(10**400).numbers == (math.inf,)


def test_what_cannot_be_compared_asks_for_a_partition():
    with pytest.raises(InvalidParameter, match=r"got object\. Give partition="):
        read_outcome([1, object()])
    with pytest.raises(InvalidParameter, match="hashable"):
        classed([1])
    assert classed(math.nan) == classed(math.nan)
    assert classed(1) != classed("1")
