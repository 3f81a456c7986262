"""Which rows of a unit count is a function of its own rows and a salt: nobody else decides, and neither does the order of the rows."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from sordino.data import Domain, PrivacyUnit, StepRange, open_source, prepare_counts, prepare_numbers
from sordino.estimators import BucketGrid
from support.rank_law import choose
from support.tables import KINDS, columns, made

SALT = b"0123456789abcdef"
GRID = BucketGrid.geometric(lower=0, cap=64, growth=2)
CLIP = StepRange(low=0, high=1 << 40, step=Fraction(1, 4))
DEFAULT = {"csv", "parquet", "relation", "polars"}
DOMAIN = ["a", "b", "c", "d"]
VALUES = [0.0, 1.25, 1.25, 3.0, 7.5, 30.0, 100.0, None]


def rows_of(unit, chance, most=12):
    return [(unit, chance.choice("abcdz"), chance.choice(VALUES)) for _ in range(chance.randint(1, most))]


def states(source, *, rows, groups=None, salt=SALT):
    """What leaves the engine about each group: counts and sums together show which rows were kept."""
    more = {} if groups is None else {"by": "g", "domain": DOMAIN, "groups_per_unit": groups}
    unit = PrivacyUnit("u", max_rows=rows)
    question = prepare_numbers(open_source(source), unit, column="x", grid=GRID, salt=salt, **more)
    kept = [counts.counts.tolist() for counts in question.run()]
    sums = question.totals([CLIP] * len(kept))
    return [(*counts, *total) for counts, total in zip(kept, sums, strict=True)]


def added(*many):
    return [tuple(map(sum, zip(*parts, strict=True))) for parts in zip(*many, strict=True)]


def table(rows):
    return columns(rows, u=pa.int64(), g=pa.string(), x=pa.float64())


@pytest.mark.parametrize(
    "kind", [kind if kind in DEFAULT else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
@pytest.mark.parametrize(("rows", "groups"), [pytest.param(2, None, marks=pytest.mark.slow), (2, 2)])
@pytest.mark.sample(4)
def test_adding_any_unit_anywhere_leaves_every_other_units_rows_as_they_were(tmp_path, kind, rows, groups):
    chance = random.Random(11 * rows + len(kind))
    others = [row for unit in range(6) for row in rows_of(unit, chance)]
    before = states(made(tmp_path, kind, table(others), "before"), rows=rows, groups=groups)
    own = rows_of(99, chance, 60)
    together = list(others)
    for row in own:
        together.insert(chance.randint(0, len(together)), row)
    after = states(made(tmp_path, kind, table(together), "after"), rows=rows, groups=groups)
    alone = states(made(tmp_path, kind, table(own), "alone"), rows=rows, groups=groups)
    assert after == added(before, alone), "what a table holds is the sum of what its units hold"
    assert sum(sum(state[:-3]) > 0 for state in alone) <= (groups or 1)
    assert all(sum(state[:-3]) <= rows for state in alone)


def test_what_counts_is_what_the_law_says():
    """Against the law written again: missing numbers come first, and a group goes by its label, not by its place."""
    chance = random.Random(8)
    rows = [row for unit in (1, 2, 30) for row in rows_of(unit, chance, 40)]
    for most in (1, 3, 7, 100):
        for salt in (SALT, b"fedcba9876543210"):
            own = defaultdict(list)
            for unit, group, number in rows:
                if group in DOMAIN:
                    own[unit, group].append(-1.0 if number is None else number)
            kept = defaultdict(list)
            for (unit, group), numbers in own.items():
                kept[group] += choose(numbers, [str(unit), group], most, salt)
            wanted = [
                # What is missing is known by its place before all numbers, and adds nothing.
                (sum(max(0, int(4 * number)) for number in kept[label]), len(kept[label]))
                for label in DOMAIN
            ]
            seen = states(table(rows), rows=most, groups=4, salt=salt)
            assert [(state[-3], state[-2] + state[-1]) for state in seen] == wanted


@pytest.mark.parametrize("have", range(1, 24))
def test_each_rank_counts_for_the_same_number_of_offsets(have):
    """All offsets, enumerated: exactly `most` ranks count, and each rank as often as any other."""
    for most in range(1, have + 2):
        seen = Counter()
        for offset in range(have):
            ranks = [rank for rank in range(have) if have <= most or (rank * most + offset) % have < most]
            assert len(ranks) == min(have, most)
            seen.update(ranks)
        assert set(seen.values()) == {min(have, most)}


@pytest.mark.parametrize("most", [1 << 20, (1 << 20) + 1, 1 << 62, 10**30])
def test_a_bound_that_no_unit_reaches_is_none(most):
    rows = [(unit, "a", value) for unit in range(3) for value in VALUES]
    assert states(table(rows), rows=most) == states(table(rows), rows=len(VALUES))


def test_large_bounds_choose_by_the_same_law(monkeypatch):
    """Products of 128 bits, from some bound on, say the same as those of 64 bits."""
    rows = [(unit, "a", 1.25 * place) for unit in range(4) for place in range(30)]
    narrow = states(table(rows), rows=7)
    monkeypatch.setattr("sordino.data.questions.rank_law._NARROW", 1)
    assert states(table(rows), rows=7) == narrow


def test_units_that_are_numbers_or_texts_choose_alike():
    rows = [row for unit in (1, -2, 30) for row in rows_of(unit, random.Random(unit), 40)]
    texts = columns(
        [(str(unit), *more) for unit, *more in rows], u=pa.string(), g=pa.string(), x=pa.float64()
    )
    assert states(table(rows), rows=3, groups=2) == states(texts, rows=3, groups=2)


def test_the_broken_twin_without_an_offset_is_convicted(monkeypatch):
    """The first ranks count each time: what is small counts always, and what is large never."""
    rows = [(unit, "a", value) for unit in range(300) for value in (1.25, 30.0, 7.5)]

    def shares():
        (state,) = states(table(rows), rows=1)
        return [count for count in state[:-3] if count]

    assert sorted(shares()) != [300]
    assert all(60 < count < 140 for count in shares())
    monkeypatch.setattr("sordino.data.questions.rank_law.write_offset", lambda *_: "CAST(0 AS BIGINT)")
    assert shares() == [300]


def test_the_order_of_the_rows_does_not_matter_and_the_salt_does():
    chance = random.Random(5)
    rows = [row for unit in range(20) for row in rows_of(unit, chance, 20)]
    first = states(table(rows), rows=2, groups=2)
    chance.shuffle(rows)
    assert states(table(rows), rows=2, groups=2) == first
    assert states(table(rows), rows=2, groups=2, salt=b"fedcba9876543210") != first


def test_the_broken_twin_that_takes_the_first_rows_is_convicted(monkeypatch):
    """Row order: one unit of many rows moves what the engine hands to others; here the rows are reversed."""
    chance = random.Random(3)
    rows = [row for unit in range(20) for row in rows_of(unit, chance, 20)]

    def first_rows(kept, **_):
        placed = f"SELECT x, row_number() OVER (PARTITION BY unit) AS place FROM {kept} AS kept WHERE unit IS NOT NULL"
        return f"(SELECT x FROM ({placed}) WHERE place <= 2)"

    monkeypatch.setattr("sordino.data.questions.totals.bounded", first_rows)
    assert states(table(rows), rows=2) != states(table(rows[::-1]), rows=2)


def test_equal_rows_have_the_same_chance_as_different_ones():
    """A unit with nine rows of one number and one of another keeps the rare one in about a tenth of its choices, not in half of them."""
    rows = [(unit, "a", value) for unit in range(2000) for value in [1.25] * 9 + [30.0]]
    (state,) = states(table(rows), rows=1)
    assert sum(state[:-3]) == 2000
    rare = state[:-3][4]
    assert 140 < rare < 262  # 200, within 4.6 standard deviations


def test_each_group_that_a_unit_is_in_has_the_same_chance():
    rows = [
        (unit, group, 1.0) for unit in range(1500) for group in "abc" for _ in range(1 + 5 * (group == "a"))
    ]
    counted = Counter(
        {
            label: sum(state[:-3])
            for label, state in zip(DOMAIN, states(table(rows), rows=1, groups=1), strict=True)
        }
    )
    assert sum(counted.values()) == 1500
    assert all(400 < counted[label] < 600 for label in "abc")


def test_zeros_of_both_signs_are_one_number_and_missing_numbers_are_rows():
    rows = [(1, "a", 0.0), (1, "a", -0.0), (1, "a", None), (1, "a", float("nan"))] * 3
    chance = random.Random(1)
    seen = set()
    for _ in range(2):
        chance.shuffle(rows)
        seen.add(tuple(states(table(rows), rows=5)))
    assert len(seen) == 1


def test_rows_without_a_unit_count_for_nobody():
    rows = [(None, "a", 7.5), (1, "a", 7.5), (1, None, 7.5)]
    assert [sum(state[:-3]) for state in states(table(rows), rows=9, groups=4)] == [1, 0, 0, 0]
    assert [sum(state[:-3]) for state in states(pl.from_arrow(table(rows)), rows=9)] == [2]


@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"], range(3)])
@pytest.mark.parametrize("most", [2, 3, 4])
def test_where_all_labels_may_count_nothing_is_chosen(labels, most):
    chance = random.Random(5)
    whole = isinstance(labels, range)
    rows = [
        (unit, chance.choice([0, 1, 2, 3, None]) if whole else chance.choice(["a", "b", "c", "z", None]))
        for unit in range(40)
        for _ in range(chance.randint(1, 9))
    ]
    frame = columns(rows, u=pa.int64(), i=pa.int64() if whole else pa.string())
    domain = Domain.range(0, 3) if whole else labels
    question = prepare_counts(
        open_source(frame),
        PrivacyUnit("u", max_rows=most),
        kind="items",
        item="i",
        domain=domain,
        salt=SALT,
    )
    # The salt is in the query where something is chosen.
    assert (SALT.hex() in question.sql) == (len(labels) > most)
    counts = question.run()
    found = counts.at(np.arange(len(labels)))
    owned = {(unit, item) for unit, item in rows if item in labels}
    if len(labels) <= most:
        assert found.tolist() == [sum(1 for _, item in owned if item == label) for label in labels]
    else:
        sizes = Counter(unit for unit, _ in owned)
        assert found.sum() == sum(min(most, size) for size in sizes.values())
