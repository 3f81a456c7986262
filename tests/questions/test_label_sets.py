"""Where few labels are listed a unit's labels are the bits of a number: what counts is what the law of ranks says, for all sets."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import chain, combinations

import pyarrow as pa
import pytest

from sordino.columns import BucketGrid, StepRange
from sordino.questions import PrivacyUnit, prepare_counts, prepare_numbers
from sordino.questions.rank_law import MOST_LABELS
from sordino.sources import open_source
from support.rank_law import choose
from support.tables import columns

SALT = b"0123456789abcdef"
GRID = BucketGrid.geometric(lower=0, cap=64, growth=2)
ONE_ROW = StepRange(low=0, high=8, step=Fraction(1))


def table(owned, *, texts=False):
    kind = pa.string() if texts else pa.int64()
    rows = [
        (str(unit) if texts else unit, label, 1.0)
        for unit, labels in owned.items()
        for label in labels
    ]
    return open_source(columns(rows, u=kind, g=pa.string(), x=pa.float64()))


def counted(owned, labels, most, salt=SALT):
    unit = PrivacyUnit("u", max_rows=most)
    question = prepare_counts(table(owned), unit, kind="items", item="g", domain=labels, salt=salt)
    found = question.run()
    return dict(zip(found.labels, found.values.tolist(), strict=True)), question.sql


def counted_in_groups(owned, labels, most, salt=SALT, *, sets=True):
    """Units are texts: rows of whole-number units are chosen while they pass by, without sets."""
    unit = PrivacyUnit("u", max_rows=1)
    question = prepare_numbers(
        table(owned, texts=True),
        unit,
        column="x",
        grid=GRID,
        by="g",
        domain=labels,
        groups_per_unit=most,
        salt=salt,
    )
    assert ("bit_or" in question.rows(0)) == (most < len(labels) <= MOST_LABELS and sets)
    totals = question.totals([ONE_ROW] * len(labels))
    return {label: one.known for label, one in zip(question.groups, totals, strict=True)}


def expected(owned, labels, most, salt=SALT):
    """The law written again: the labels of a unit, in the order of their code points, which is that of bytes in UTF-8."""
    found = Counter()
    for unit, own in owned.items():
        found.update(choose({label for label in own if label in labels}, [str(unit)], most, salt))
    return {label: found[label] for label in labels}


def subsets(labels):
    every = chain.from_iterable(combinations(labels, size) for size in range(len(labels) + 1))
    # Labels that nobody listed take no place.
    return {unit: [*own, *own[:1], "elsewhere"] for unit, own in enumerate(every)}


@pytest.mark.parametrize("most", range(1, 7))
@pytest.mark.sample(3)
def test_every_set_of_six_labels_chooses_by_the_law(most):
    labels = ["é", "a", "😀", "B", "10", "9"]
    owned = subsets(labels)
    for salt in (SALT, b"fedcba9876543210"):
        assert counted(owned, labels, most, salt)[0] == expected(owned, labels, most, salt=salt)
        assert counted_in_groups(owned, labels, most, salt) == expected(
            owned, labels, most, salt=salt
        )


@pytest.mark.parametrize("size", [1, 2, MOST_LABELS - 1, MOST_LABELS, MOST_LABELS + 1])
@pytest.mark.sample(3)
def test_as_many_labels_as_a_number_holds_and_one_more(size):
    chance = random.Random(size)
    labels = [f"l{place}" for place in range(size)]
    owned = {unit: chance.sample(labels, chance.randint(0, size)) for unit in range(40)} | {
        99: labels
    }
    for most in {1, max(1, size // 3), size}:
        found, sql = counted(owned, labels, most)
        assert found == expected(owned, labels, most)
        assert ("bit_or" in sql) == (size <= MOST_LABELS)
        assert counted_in_groups(owned, labels, most) == expected(owned, labels, most)


def test_the_order_of_the_list_does_not_matter_to_items():
    chance = random.Random(4)
    labels = [f"l{place}" for place in range(20)]
    owned = {unit: chance.sample(labels, 9) for unit in range(60)}
    assert counted(owned, labels, 3)[0] == counted(owned, labels[::-1], 3)[0]


def test_labels_that_are_chosen_one_by_one_are_the_same(monkeypatch):
    chance = random.Random(6)
    labels = [f"l{place}" for place in range(30)]
    owned = {unit: chance.sample(labels, chance.randint(0, 30)) for unit in range(60)}
    sets = counted(owned, labels, 4)[0], counted_in_groups(owned, labels, 4)
    for where in ("counts", "bounded_rows"):
        monkeypatch.setattr(f"sordino.questions.{where}.fits_sets", lambda *_: False)
    pairs, sql = counted(owned, labels, 4)
    assert "bit_or" not in sql
    assert sets == (pairs, counted_in_groups(owned, labels, 4, sets=False))


@pytest.mark.parametrize(
    "twin",
    [
        pytest.param(("- 1)", "* 2 - 1)"), id="its own bit is counted"),
        pytest.param(("bits & (", "(~bits) & ("), id="ranked among what it lacks"),
    ],
)
def test_broken_twins_with_other_ranks_are_convicted(monkeypatch, twin):
    """A rank that is off by one chooses another label of one set; one among other labels chooses too many."""
    from sordino.questions import rank_law

    written = rank_law._write_chosen_bits

    def write(*given, **more):
        found = written(*given, **more)
        assert twin[0] in found
        return found.replace(*twin)

    monkeypatch.setattr(rank_law, "_write_chosen_bits", write)
    labels = list("abcdef")
    owned = subsets(labels)
    assert counted(owned, labels, 2)[0] != expected(owned, labels, 2)
    assert counted_in_groups(owned, labels, 2) != expected(owned, labels, 2)
