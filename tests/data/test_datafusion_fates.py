"""Whether DataFusion keeps a row is a function of that row, and what it keeps is what every other engine keeps."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

from sordino.data import open_source
from sordino.data.sources import datafusion_condition
from sordino.errors import InvalidParameter
from support.company import PAIRS
from support.fates import COLUMN, KINDS, NAN, fates, in_company, kept, mixed, predicates
from support.tables import made


def frame(table):
    return made(None, "datafusion", table)


def stored(path, table, **options):
    """Return a table as a file that DataFusion reads."""
    pq.write_table(table, path, **options)
    return open_source(SessionContext().read_parquet(str(path)))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("where", ["memory", "file"])
def test_one_row_more_changes_the_fate_of_no_other(tmp_path, name, where):
    def make(table):
        return open_source(frame(table)) if where == "memory" else stored(tmp_path / "t.parquet", table)

    together, alone = in_company(make, PAIRS[name])
    assert together == alone


def kept_of_file(path, values, where):
    return kept(stored(path, pa.table({"x": values}), row_group_size=1000), where)


@pytest.mark.parametrize(
    "where", ["x > 6", "NOT (x <= 6)", "x > 6 OR x > 7", "x > 6 AND x > 5", "x IN (7, 8) OR x >= 6"]
)
def test_what_a_file_says_of_all_its_rows_decides_nothing(tmp_path, where):
    """Groups of rows that are NaN alone, and groups of which it is said that the largest value is 5."""
    found = [
        kept_of_file(tmp_path / f"{more}.parquet", [5.0, *COLUMN, *[7.0] * more], where) for more in (0, 1)
    ]
    assert found == [3000, 3001]


def test_a_predicate_that_is_handed_to_the_reader_of_a_file_is_convicted(tmp_path, monkeypatch):
    """The twin: nothing stands before the condition."""
    bare = replace(datafusion_condition._GRAMMAR, whole="coalesce({}, FALSE)")
    monkeypatch.setattr(datafusion_condition, "_GRAMMAR", bare)
    monkeypatch.setattr("sordino.data.sources.datafusion._SETTINGS", {})
    rows = [5.0, *COLUMN]
    found = [kept_of_file(tmp_path / f"{more}.parquet", [*rows, *[7.0] * more], "x > 6") for more in (0, 1)]
    assert found[1] - found[0] > 900


def test_arithmetic_that_goes_around_the_end_is_convicted(monkeypatch):
    """The twin: plain operators, which say nothing."""
    table = pa.table({"n": pa.array([1] * 50 + [1 << 62], pa.int64())})
    assert kept(open_source(frame(table)), "n * 4 IS NULL") == 1
    plain = replace(
        datafusion_condition._GRAMMAR, compute=lambda left, operator, right, _: f"({left} {operator} {right})"
    )
    monkeypatch.setattr(datafusion_condition, "_GRAMMAR", plain)
    assert kept(open_source(frame(table)), "n * 4 IS NULL") == 0


READ_OTHERWISE = ("TRY_CAST(",)
"""Which texts are numbers is a rule of each engine."""


@pytest.mark.parametrize(
    ("seed", "many"), [(1, 6), *(pytest.param(n, 60, marks=pytest.mark.slow) for n in range(2, 8))]
)
def test_predicates_keep_the_rows_that_they_keep_elsewhere(seed, many):
    chance = random.Random(seed)
    arrow = mixed(chance, 60)
    # As a table with types: a frame's columns are read by the words beside them.
    source, embedded = open_source(frame(arrow)), open_source(duckdb.connect().from_arrow(arrow))
    wheres = predicates(chance, (embedded, source), many, otherwise=READ_OTHERWISE)
    found, wanted = fates(source, wheres), fates(embedded, wheres)
    wrong = [where for where, one, other in zip(wheres, found, wanted, strict=True) if one != other]
    assert not wrong
    assert sum(any(one) and not all(one) for one in wanted) > many // 6


@pytest.mark.parametrize(
    ("seed", "many"), [(1, 3), *(pytest.param(n, 20, marks=pytest.mark.slow) for n in range(2, 6))]
)
def test_a_table_is_the_sum_of_its_rows(tmp_path, seed, many):
    """Casts among them, which mean what they mean here: each row of a file by itself, and all of them together."""
    chance = random.Random(seed)
    arrow = mixed(chance, 8)
    wheres = predicates(chance, (open_source(frame(arrow)),), many)
    together = fates(stored(tmp_path / "t.parquet", arrow, row_group_size=3), wheres)
    for place in range(arrow.num_rows):
        alone = fates(stored(tmp_path / "t.parquet", arrow.slice(place, 1)), wheres)
        assert [one[place] for one in together] == [one[0] for one in alone]


CASTS = [
    ("TRY_CAST(x AS BIGINT) IS NULL", NAN, None),
    ("TRY_CAST(d AS INTEGER) = 2", "1.50", True),
    ("TRY_CAST(d AS INTEGER) = -1", "-1.00", True),
    ("TRY_CAST(d AS TINYINT) IS NULL", "99999999.99", True),
    ("TRY_CAST(s AS INTEGER) = 7", "7", True),
    ("TRY_CAST(s AS INTEGER) IS NULL", "seven", True),
    ("TRY_CAST(s AS DATE) > '2023-12-31'", "2024-01-01", True),
    ("TRY_CAST(s AS DATE) IS NULL", "2024-02-30", True),
    ("s LIKE '_'", "\U0001f600", True),
    ("s LIKE 'a\\%'", "a\\b", True),
    ("s LIKE 'a\\\\b'", "a\\b", False),
    ("s = 'a\\b'", "a\\b", True),
    ("s = 'A\\b'", "a\\b", False),
]


@pytest.mark.parametrize(("where", "value", "wanted"), CASTS)
def test_what_a_cast_and_a_pattern_mean(where, value, wanted):
    name = next(name for name in "xds" if f"{name} " in where)
    table = pa.table({name: pa.array([Decimal(value) if name == "d" else value], KINDS[name][1])})
    source = open_source(frame(table))
    if wanted is None:
        with pytest.raises(InvalidParameter, match="DataFusion"):
            source.predicate(where)
    else:
        assert kept(source, where) == wanted


@pytest.mark.parametrize(
    "where",
    [
        "n > 9223372036854775808", "w * w > 1", "- w > 1", "s = 7", "TRY_CAST(x AS VARCHAR) = 'a'", "TRY_CAST(n AS HUGEINT) > 1",
        "day + 1 > '2024-01-01'", "b = 1", f"s LIKE '{'_' * 256}'", "TRY_CAST(x AS INTEGER) = 2",
    ],
)  # fmt: skip
def test_what_is_read_otherwise_is_refused_before_the_charge(where):
    source = open_source(frame(mixed(random.Random(1), 2)))
    with pytest.raises(InvalidParameter, match="DataFusion"):
        source.predicate(where)


def test_the_longest_predicates_are_asked_and_longer_ones_refused():
    source = open_source(frame(pa.table({"n": [1, 2, 3]})))
    assert kept(source, f"{'NOT (' * 20}n = 1{')' * 20}") == 1
    assert kept(source, f"n IN ({', '.join(['2'] * 249)})") == 1
    assert kept(source, f"n {'+ 1 ' * 24} > 25") == 2
    assert kept(source, f"({'(' * 20}n{' * 1)' * 20}) > 1") == 2
    for where in (f"n IN ({', '.join(['2'] * 251)})", f"n {'+ 1 ' * 25} > 25"):
        with pytest.raises(InvalidParameter, match="planner"):
            source.predicate(where)
