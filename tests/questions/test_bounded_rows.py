"""Which rows of a unit count is a function of its own rows and a salt: nobody else decides, and neither does the order of the rows."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest

from sordino.columns import BucketGrid, StepRange
from sordino.questions import Domain, PrivacyUnit, prepare_counts, prepare_numbers
from sordino.questions.rank_law import Draw
from sordino.sources import open_source
from support.postgres import database
from support.rank_law import choose, factors_of
from support.tables import KINDS, columns, made

SALT = b"0123456789abcdef"
GRID = BucketGrid.geometric(lower=0, cap=64, growth=2)
CLIP = StepRange(low=0, high=1 << 40, step=Fraction(1, 4))
DEFAULT = {"csv", "parquet", "relation", "polars"}
DOMAIN = ["a", "b", "c", "d"]
VALUES = [0.0, 1.25, 1.25, 3.0, 7.5, 30.0, 100.0, None]


def rows_of(unit, chance, most=12):
    return [
        (unit, chance.choice("abcdz"), chance.choice(VALUES))
        for _ in range(chance.randint(1, most))
    ]


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


def made_of(folder, kind, rows):
    """Return rows as a source of some kind, with units as numbers or as texts."""
    named = isinstance(rows[0][0], str)
    if kind != "postgres":
        return made(
            folder,
            kind,
            columns(rows, u=pa.string(), g=pa.string(), x=pa.float64()) if named else table(rows),
        )
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS public.bounded_rows")
        kind_of_unit = "text" if named else "bigint"
        connection.execute(
            f"CREATE TABLE public.bounded_rows (u {kind_of_unit}, g text, x double precision)"
        )
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO public.bounded_rows VALUES (%s, %s, %s)", rows)
    return f"{database()}#public.bounded_rows"


@pytest.mark.parametrize(
    "kind",
    [kind if kind in DEFAULT else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS],
)
@pytest.mark.parametrize(
    ("rows", "groups"), [pytest.param(2, None, marks=pytest.mark.slow), (2, 2)]
)
@pytest.mark.sample(4)
def test_adding_any_unit_anywhere_leaves_every_other_units_rows_as_they_were(
    tmp_path, kind, rows, groups
):
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


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb", "postgres"])
@pytest.mark.parametrize(
    "units", [(1, -2, 30), ("1", "01", "x", str(1 << 63), "-9223372036854775808", "-0")]
)
@pytest.mark.sample(8)
def test_what_counts_is_what_the_law_says(tmp_path, kind, units):
    """Against the law written again: missing numbers come first, and whole numbers are whole numbers as texts, too."""
    chance = random.Random(8)
    rows = [row for unit in units for row in rows_of(unit, chance, 40)]
    source = made_of(tmp_path, kind, rows)
    for most in (1, 3, 7, 100):
        for salt in (SALT, b"fedcba9876543210"):
            own = defaultdict(list)
            for unit, group, number in rows:
                if group in DOMAIN:
                    own[unit, group].append(-1.0 if number is None else number)
            kept = defaultdict(list)
            for (unit, group), numbers in own.items():
                kept[group] += choose(numbers, [str(unit), DOMAIN.index(group)], most, salt)
            wanted = [
                # What is missing is known by its place before all numbers, and adds nothing.
                (sum(max(0, int(4 * number)) for number in kept[label]), len(kept[label]))
                for label in DOMAIN
            ]
            seen = states(source, rows=most, groups=4, salt=salt)
            assert [(state[-3], state[-2] + state[-1]) for state in seen] == wanted


@pytest.mark.parametrize("have", range(1, 24))
@pytest.mark.sample(12)
def test_each_rank_counts_for_the_same_number_of_offsets(have):
    """All offsets, enumerated: exactly `most` ranks count, and each rank as often as any other."""
    for most in range(1, have + 2):
        seen = Counter()
        for offset in range(have):
            ranks = [
                rank for rank in range(have) if have <= most or (rank * most + offset) % have < most
            ]
            assert len(ranks) == min(have, most)
            seen.update(ranks)
        assert set(seen.values()) == {min(have, most)}


@pytest.mark.parametrize("most", [1 << 20, (1 << 20) + 1, 1 << 62, (1 << 63) - 1])
def test_a_bound_that_no_unit_reaches_is_none(most):
    rows = [(unit, "a", value) for unit in range(3) for value in VALUES]
    assert states(table(rows), rows=most) == states(table(rows), rows=len(VALUES))


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_large_bounds_choose_by_the_same_law(monkeypatch, tmp_path, kind):
    """Products of 128 bits, from some bound on, say the same as those of 64 bits."""
    rows = [(unit, "a", 1.25 * place) for unit in range(4) for place in range(30)]
    source = made(tmp_path, kind, table(rows))
    narrow = states(source, rows=7)
    monkeypatch.setattr("sordino.questions.rank_law._NARROW", 1)
    assert states(source, rows=7) == narrow


NAMES = ["u", "g", "x"]


def pandas_frame(rows, _folder):
    return pd.DataFrame(rows, columns=NAMES)


def polars_frame(rows, _folder):
    # As of a file: one text makes texts of all.
    if any(isinstance(unit, str) for unit, *_ in rows):
        rows = [(str(unit), *more) for unit, *more in rows]
    return pl.DataFrame(rows, schema=NAMES, orient="row", infer_schema_length=None, strict=False)


def relation(rows, folder):
    connection, frame = duckdb.connect(), pandas_frame(rows, folder)
    connection.register("frame", frame)
    # A stored table: over a frame itself a relation is refused, because rows decide its types.
    connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    return connection.table("t")


def exported(build, write):
    """Rows as a file that a library wrote, with the type that it found out from them."""

    def export(rows, folder):
        path = folder / f"{len(rows)}.parquet"
        write(build(rows, folder), path)
        return path

    return export


def database_table(rows, folder):
    path = folder / f"{len(rows)}.duckdb"
    frame = pandas_frame(rows, folder)
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    return f"duckdb:{path}#t"


# What libraries make of a column of whole numbers when one value is missing, is a text, or is large.
SWITCHED = {
    f"{name}, {unit}": (build, unit)
    for name, build, units in (
        ("pandas", pandas_frame, (None, "x", 1 << 70, (1 << 63) + 5)),
        ("polars", polars_frame, ("x", 1 << 70)),
        ("relation", relation, (None, "x")),
        (
            "file of pandas",
            exported(pandas_frame, lambda frame, path: frame.to_parquet(path)),
            (None,),
        ),
        (
            "file of polars",
            exported(polars_frame, lambda frame, path: frame.write_parquet(path)),
            ("x",),
        ),
        ("database", database_table, (None, "x", 1 << 70)),
    )
    for unit in units
}


@pytest.mark.parametrize("kind", SWITCHED)
@pytest.mark.parametrize("groups", [None, 2])
@pytest.mark.sample(9)
def test_a_row_that_changes_the_type_of_a_table_changes_nobody_elses_choice(tmp_path, kind, groups):
    build, unit = SWITCHED[kind]
    rows = [row for unit in range(40) for row in rows_of(unit, random.Random(unit), 20)]
    more = (unit, "a", 1.0)
    before, after, alone = (build(own, tmp_path) for own in (rows, [*rows, more], [more]))
    assert open_source(before).columns["u"] != open_source(after).columns["u"]
    kept, together = (states(one, rows=2, groups=groups) for one in (before, after))
    own = kept if unit is None else added(kept, states(alone, rows=2, groups=groups))
    assert together == own


@pytest.mark.parametrize("kind", SWITCHED)
@pytest.mark.sample(8)
def test_the_twin_in_which_the_type_decides_is_convicted(monkeypatch, tmp_path, kind):
    """Whole numbers by arithmetic where the column has such, and by a hash where it has not."""

    def by_type(self):
        never = replace(self.words, signed="CAST(NULL AS BIGINT)")
        return write(self if self.whole else replace(self, words=never))

    write = Draw.write_key
    monkeypatch.setattr(Draw, "write_key", by_type)
    with pytest.raises(AssertionError):
        test_a_row_that_changes_the_type_of_a_table_changes_nobody_elses_choice(
            tmp_path, kind, None
        )


@pytest.mark.parametrize("labels", [4, 70])
def test_which_groups_and_which_rows_count_are_two_choices(tmp_path, labels):
    """Of four groups with four rows each a unit counts with one row of one: each row as often, in each group."""
    names = [f"l{place:02}" for place in range(labels)]
    rows = [
        (unit, label, float(place))
        for unit in range(3000)
        for label in names[:4]
        for place in (1.25, 7.5, 30, 100)
    ]
    found = states_of(made(tmp_path, "parquet", table(rows)), names)
    for label in names[:4]:
        buckets = [count for count in found[label] if count]
        assert len(buckets) == 4
        assert all(130 < count < 245 for count in buckets), (
            found
        )  # 187.5, within 4.3 standard deviations


def states_of(source, labels):
    question = prepare_numbers(
        open_source(source),
        PrivacyUnit("u", max_rows=1),
        column="x",
        grid=GRID,
        salt=SALT,
        by="g",
        domain=labels,
        groups_per_unit=1,
    )
    return dict(zip(labels, (one.counts.tolist() for one in question.run()), strict=True))


@pytest.mark.parametrize("labels", [4, 70])
def test_the_twin_with_one_choice_for_groups_and_rows_is_convicted(monkeypatch, tmp_path, labels):
    write, find = Draw.write_offset, Draw.find_offsets
    monkeypatch.setattr(
        Draw, "write_offset", lambda self, key, *, grouped: write(self, key, grouped=False)
    )
    monkeypatch.setattr(Draw, "find_offsets", lambda self, keys, groups=None: find(self, keys))
    with pytest.raises(AssertionError):
        test_which_groups_and_which_rows_count_are_two_choices(tmp_path, labels)


WHOLE = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("kind", ["arrow", "duckdb"])
@pytest.mark.parametrize("groups", [None, 2])
@pytest.mark.sample(4)
def test_units_of_all_types_of_whole_numbers_choose_alike(tmp_path, kind, groups):
    rows = [row for unit in (1, 2, 30) for row in rows_of(unit, random.Random(unit), 40)]
    tables = [columns(rows, u=whole, g=pa.string(), x=pa.float64()) for whole in WHOLE]
    sources = [made(tmp_path, kind, one, f"t{place}") for place, one in enumerate(tables)]
    first, *others = [states(one, rows=3, groups=groups) for one in sources]
    assert others == [first] * len(others)


def test_units_that_are_numbers_or_texts_choose_alike():
    rows = [row for unit in (1, -2, 30) for row in rows_of(unit, random.Random(unit), 40)]
    texts = columns(
        [(str(unit), *more) for unit, *more in rows], u=pa.string(), g=pa.string(), x=pa.float64()
    )
    assert states(table(rows), rows=3, groups=2) == states(texts, rows=3, groups=2)


@pytest.mark.parametrize(("rows", "groups"), [(1, 1), (2, 3), (3, 20), (9, 69)])
def test_groups_and_rows_chosen_in_one_go_are_those_of_the_law(tmp_path, rows, groups):
    """More groups than a set holds, so a unit's groups and its rows in each are chosen from one order."""
    chance = random.Random(rows)
    labels = [f"l{place:02}" for place in range(70)]
    owned = defaultdict(list)
    for unit in (-(1 << 63), -7, 0, 5, (1 << 63) - 1):
        for _ in range(chance.randint(1, 400)):
            owned[unit, chance.choice(labels)].append(chance.choice(VALUES))
    listed = [
        (unit, label, number) for (unit, label), numbers in owned.items() for number in numbers
    ]
    chance.shuffle(listed)
    question = prepare_numbers(
        open_source(made(tmp_path, "parquet", table(listed))),
        PrivacyUnit("u", max_rows=rows),
        column="x",
        grid=GRID,
        salt=SALT,
        by="g",
        domain=labels,
        groups_per_unit=groups,
    )
    found = question.totals([CLIP] * len(labels))
    wanted = {label: [] for label in labels}
    for unit in {unit for unit, _ in owned}:
        for label in choose(
            [label for one, label in owned if one == unit], [str(unit)], groups, SALT
        ):
            numbers = [-1.0 if number is None else number for number in owned[unit, label]]
            wanted[label] += choose(numbers, [str(unit), labels.index(label)], rows, SALT)
    assert [(one.steps, one.known + one.missing) for one in found] == [
        (sum(max(0, int(4 * number)) for number in kept), len(kept)) for kept in wanted.values()
    ]


def test_the_broken_twin_without_an_offset_is_convicted(monkeypatch):
    """The first ranks count each time: what is small counts always, and what is large never."""
    rows = [(unit, "a", value) for unit in range(300) for value in (1.25, 30.0, 7.5)]

    def shares():
        (state,) = states(table(rows), rows=1)
        return [count for count in state[:-3] if count]

    assert sorted(shares()) != [300]
    assert all(60 < count < 140 for count in shares())
    monkeypatch.setattr(Draw, "find_offsets", lambda self, keys, groups=None: np.zeros_like(keys))
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

    def first_rows(kept, *_):
        placed = f"SELECT x, row_number() OVER (PARTITION BY unit) AS place FROM {kept} AS kept WHERE unit IS NOT NULL"
        return f"(SELECT x FROM ({placed}) WHERE place <= 2)"

    monkeypatch.setattr("sordino.questions.number_question.bounded", first_rows)
    monkeypatch.setattr("sordino.questions.number_question.prepare_choice", lambda *_, **__: None)
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
        (unit, group, 1.0)
        for unit in range(1500)
        for group in "abc"
        for _ in range(1 + 5 * (group == "a"))
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
@pytest.mark.each_value
def test_where_all_labels_may_count_nothing_is_chosen(labels, most):
    chance = random.Random(5)
    whole = isinstance(labels, range)
    rows = [
        (
            unit,
            chance.choice([0, 1, 2, 3, None])
            if whole
            else chance.choice(["a", "b", "c", "z", None]),
        )
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
    # What follows from the salt is in the query where something is chosen.
    assert (str(factors_of(SALT, 4, "key")[1]) in question.sql) == (len(labels) > most)
    counts = question.run()
    found = counts.at(np.arange(len(labels)))
    owned = {(unit, item) for unit, item in rows if item in labels}
    if len(labels) <= most:
        assert found.tolist() == [sum(1 for _, item in owned if item == label) for label in labels]
    else:
        sizes = Counter(unit for unit, _ in owned)
        assert found.sum() == sum(min(most, size) for size in sizes.values())
