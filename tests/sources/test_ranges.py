"""Domains that are not listed: the counts of the list, at the positions of the numbers, for any text that stands in a column."""

from __future__ import annotations

import pickle
import re

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from sordino.errors import InvalidParameter
from sordino.questions import Domain, PrivacyUnit, prepare_counts
from sordino.sources import open_source

SALT = b"0123456789abcdef"
ODD = [
    "07",
    "+7",
    " 7",
    "7 ",
    "7.0",
    "7e0",
    "0x7",
    "-0",
    "",
    "seven",
    "\u0667",
    "9" * 30,
    "-" + "9" * 30,
    "NULL",
    "1_0",
    "nan",
    "inf",
]


def counted(rows, domain, unit=None, **changes):
    frame = pl.DataFrame(rows, schema={"user": pl.Int64, "item": pl.String}, orient="row")
    asked = {"kind": "items", "item": "item", "domain": domain, "salt": SALT} | changes
    return prepare_counts(open_source(frame), unit or PrivacyUnit("user"), **asked).run()


items = st.one_of(st.integers(-30, 30).map(str), st.sampled_from(ODD), st.none())


@settings(max_examples=8)
@given(
    st.lists(st.tuples(st.integers(0, 5), items), max_size=25),
    st.integers(-20, 5),
    st.integers(1, 25),
    st.booleans(),
)
def test_a_range_counts_what_its_list_counts(rows, start, size, by_row):
    unit = PrivacyUnit.row() if by_row else PrivacyUnit("user")
    ranged = counted(rows, Domain.range(start, start + size), unit)
    listed = counted(rows, [str(i) for i in range(start, start + size)], unit)
    expected = dict(zip(listed.labels, listed.values.tolist(), strict=True))
    assert {
        ranged.labels[int(place)]: count
        for place, count in zip(ranged.positions, ranged.values, strict=True)
    } == {label: count for label, count in expected.items() if count}
    assert (np.diff(ranged.positions) > 0).all()
    assert ranged.at(np.arange(size)).tolist() == [expected[str(start + i)] for i in range(size)]
    assert listed.at(np.arange(size)).tolist() == listed.values.tolist()


def test_only_the_usual_text_of_a_number_belongs_to_it():
    """Two texts of one number would let one unit count twice, or stand for another label."""
    ranged = counted([*enumerate(ODD), (50, "7"), (51, "0"), (52, "-7")], Domain.range(-9, 9))
    assert (ranged.positions.tolist(), ranged.values.tolist()) == ([2, 9, 16], [1, 1, 1])


def test_columns_of_numbers_and_the_ends_of_64_bits():
    frame = pl.DataFrame(
        {"user": [1, 2, 3, 4, 5, 6], "item": [7, 2**62 - 1, -(2**62), -(2**63), 2**63 - 1, None]}
    )
    for domain, places in (
        (Domain.range(0, 2**52), [7]),
        (Domain.range(-(2**62), -(2**62) + 2**52), [0]),
        (Domain.range(2**62 - 2**52, 2**62), [2**52 - 1]),
    ):
        question = prepare_counts(
            open_source(frame), PrivacyUnit("user"), kind="items", item="item", domain=domain
        )
        assert question.run().positions.tolist() == places
        assert question.sensitivity.spread == 1


def test_which_items_a_unit_counts_for_depends_on_its_own_rows_alone():
    unit, domain = PrivacyUnit("user", max_rows=2), Domain.range(0, 1000)
    others = [(user, str(item)) for user in range(20) for item in range(user, user + 9)]
    before = counted(others, domain, unit)
    own = [(99, str(item)) for item in (3, 500, 700, 20)] + [
        (99, "outside"),
        (99, "-3"),
        (99, "03"),
    ]
    after = counted([*own, *others], domain, unit)
    change = after.at(np.arange(1000)) - before.at(np.arange(1000))
    assert sorted(change[change != 0].tolist()) == [1, 1]
    assert before.values.sum() == 40


def test_labels_are_made_when_they_are_asked_for():
    labels = Domain.range(-3, 10**12).labels
    assert (len(labels), labels[0], labels[3], labels[-1], labels[2:5]) == (
        10**12 + 3,
        "-3",
        "0",
        "999999999999",
        ("-1", "0", "1"),
    )
    for beyond in (10**12 + 3, -(10**12) - 4):
        with pytest.raises(IndexError):
            labels[beyond]
    asked = []
    named = Domain.indexed(10**12, label=lambda place: asked.append(place) or f"n{place}")
    assert (named.size, named.kind, named.origin) == (10**12, "range", "indexed 1000000000000")
    assert (named.labels[np.int64(5)], asked) == ("n5", [5])
    for wrong in (5, None, "a\0", "\ud800", b"a"):
        with pytest.raises(InvalidParameter, match="Domain.indexed.label must return Unicode text"):
            _ = Domain.indexed(3, label=lambda _, wrong=wrong: wrong).labels[0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Domain.range(0, 0), "stop - start must be a whole number from 1"),
        (lambda: Domain.range(5, 2), "stop - start must be a whole number from 1"),
        (lambda: Domain.range(0, 2**52 + 1), "stop - start must be a whole number from 1"),
        (lambda: Domain.range(0.0, 5), "Domain.range.start must be a whole number"),
        (lambda: Domain.range(0, True), "Domain.range.stop must be a whole number"),
        (
            lambda: Domain.range(2**62, 2**62 + 1),
            "Domain.range.stop must be a whole number between",
        ),
        (lambda: Domain.indexed(0, label=str), "Domain.indexed.size must be"),
        (lambda: Domain.indexed(2, label="x"), "Domain.indexed.label must be a function"),
    ],
)
def test_what_is_no_range(make, words):
    with pytest.raises(InvalidParameter, match=words):
        make()


@pytest.mark.parametrize(
    "domain", [Domain.range(0, 9), Domain.indexed(9, label=str)], ids=["range", "indexed"]
)
@pytest.mark.parametrize("kind", ["DECIMAL(9,2)", "BOOLEAN", "DATE", "UUID"])
def test_a_column_none_of_whose_values_is_a_whole_number_is_refused_before_a_row_is_read(
    domain, kind
):
    """It would count nothing, in silence; the declared type is public, so that saying so costs nothing."""
    rows = duckdb.sql(f"SELECT CAST(NULL AS {kind}) AS item, 1 AS user")
    with pytest.raises(
        InvalidParameter,
        match=rf"^Domain\.range and .*'item' of type {re.escape(kind)}\. Convert the column",
    ):
        prepare_counts(
            open_source(rows), PrivacyUnit("user"), kind="items", item="item", domain=domain
        )


@pytest.mark.parametrize(
    "kind", ["DECIMAL(9,0)", "UTINYINT", "HUGEINT", "VARCHAR", "ENUM('7', 'seven')"]
)
def test_columns_with_whole_numbers_are_counted(kind):
    rows = duckdb.sql(f"SELECT CAST(7 AS VARCHAR)::{kind} AS item, 1 AS user")
    question = prepare_counts(
        open_source(rows), PrivacyUnit("user"), kind="items", item="item", domain=Domain.range(3, 9)
    )
    found = question.run()
    assert (found.positions.tolist(), found.values.tolist()) == ([4], [1])


def test_a_range_is_a_value():
    assert Domain.range(1, 5) == Domain.range(1, 5) != Domain.range(1, 6)
    assert pickle.loads(pickle.dumps(Domain.range(1, 5))) == Domain.range(1, 5)
    assert repr(Domain.range(1, 5)) == "Domain(kind='range', origin='range 1:5')"
