"""What a record says of a number is never less than the number, and which values are the same."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given, strategies as st

from sordino.cost.conversion import round_up_written
from sordino.statements.document import list_differences


@given(st.fractions(min_value=Fraction(1, 10**18), max_value=10**9))
@example(Fraction(2, 3))
@example(Fraction(1, 10**6))
def test_a_float_is_as_large_as_what_it_stands_for_and_hardly_larger(number):
    said = Fraction(repr(round_up_written(number)))
    assert number <= said <= number * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize(
    ("true", "said"), [(1, True), (0, False), (True, 1.0), ("1", 1), (None, 0)]
)
def test_what_python_takes_for_the_same_is_another_value(true, said):
    assert [path for path, *_ in list_differences({"a": true}, {"a": said})] == ["a"]
    assert not list(list_differences({"a": [1, True]}, {"a": [1.0, True]}))
