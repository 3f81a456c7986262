"""Ways in which a row once decided more than its own count: each was found by attack and is refused or harmless now."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sordino.errors import InvalidParameter, UnsafePredicate
from sordino.questions import Domain, PrivacyUnit, prepare_counts
from sordino.questions.reading import describe_unit_reading
from sordino.sources import CsvFormat, open_source

ROW = PrivacyUnit.row()


def rows(source, where=None, **options):
    return int(
        prepare_counts(open_source(source), ROW, kind="rows", where=where, **options)
        .run()
        .values[0]
    )


def made(folder, kind, values):
    """A table of one column v, as a source of some kind."""
    if kind == "csv":
        path = folder / "a.csv"
        path.write_text("v\n" + "".join(f"{v}\n" for v in values), encoding="utf-8")
        return path
    frame = pa.table({"v": pa.array(values, pa.int32())})
    if kind == "frame":
        return frame
    if kind == "relation":
        return duckdb.from_arrow(frame)
    path = folder / f"a.{kind}"
    if kind == "parquet":
        duckdb.from_arrow(frame).write_parquet(str(path))
        return path
    path.unlink(missing_ok=True)
    connection = duckdb.connect(str(path))
    connection.register("frame", frame)
    connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    connection.close()
    return f"duckdb:{path}#t"


# What is asked does not depend on the kind of source: the longest list is asked of one, and takes seconds.
LISTS = [
    (kind, literals)
    for kind, longest in {
        "csv": 400,
        "frame": 60,
        "parquet": 60,
        "relation": 60,
        "duckdb": 60,
    }.items()
    for literals in (1, 5, 6, longest)
]


@pytest.mark.parametrize(
    ("kind", "literals"),
    [pytest.param(*one, marks=[] if one == ("csv", 5) else pytest.mark.slow) for one in LISTS],
)
def test_a_list_of_any_length_is_a_rule_of_each_row_alone(tmp_path, kind, literals):
    """The engine moves longer lists out of TRY, where one row that overflows would end the whole query."""
    listed = ", ".join(map(str, range(literals)))
    number = "TRY_CAST(v AS INTEGER)" if kind == "csv" else "v"
    forms = [
        f"{number} IN ({listed})",
        f"{number} + 2 IN ({listed})",
        f"({number} * 2 IN ({listed})) OR v IS NULL",
        f"{number} + 2 NOT IN ({listed})",
        f"({number} * 2 + 2 IN ({listed})) IS NULL",
    ]
    values = [3, 4, 2147483647, -2147483648] + (["x"] if kind == "csv" else [])
    alone = {v: [rows(made(tmp_path, kind, [v]), where) for where in forms] for v in values}
    together = [rows(made(tmp_path, kind, values), where) for where in forms]
    assert together == [sum(counts) for counts in zip(*alone.values(), strict=True)]
    assert together[0] == sum(v in range(literals) for v in values)


def test_a_collation_of_a_column_joins_nobody(tmp_path):
    path = tmp_path / "c.duckdb"
    connection = duckdb.connect(str(path))
    connection.execute(
        "CREATE TABLE t (unit VARCHAR COLLATE NOCASE, item VARCHAR COLLATE NOACCENT.NOCASE)"
    )
    connection.execute("INSERT INTO t VALUES ('u', 'a'), ('U', 'A'), ('u', 'á')")
    relation = connection.table("t")
    labels = ["a", "A", "á", "Á", "à"]
    for source in (relation, f"duckdb:{path}#t"):
        if isinstance(source, str):
            relation = None
            connection.close()
        for unit in (ROW, PrivacyUnit("unit"), PrivacyUnit("unit", max_rows=1)):
            question = prepare_counts(
                open_source(source), unit, kind="items", item="item", domain=labels, salt=bytes(16)
            )
            values = question.run().values
            counted = dict(zip(question.domain.labels, values.tolist(), strict=True))
            assert counted["Á"] == counted["à"] == 0
            assert counted["A"] == 1
            assert counted["a"] + counted["á"] == (1 if unit.max_rows else 2)
        units = prepare_counts(open_source(source), PrivacyUnit("unit"), kind="units").run().values
        assert units.tolist() == [2]


def test_a_default_collation_of_somebody_elses_connection_joins_nobody():
    connection = duckdb.connect()
    connection.execute("SET default_collation = 'nocase'")
    relation = connection.sql(
        "SELECT * FROM (VALUES ('u', 'a'), ('U', 'A'), ('u', 'A')) AS t(unit, item)"
    )
    for unit, most in (
        (ROW, None),
        (PrivacyUnit("unit"), None),
        (PrivacyUnit("unit", max_rows=1), 1),
    ):
        question = prepare_counts(
            open_source(relation),
            unit,
            kind="items",
            item="item",
            domain=["a", "A", "b"],
            salt=bytes(16),
        )
        counted = dict(zip(question.domain.labels, question.run().values.tolist(), strict=True))
        assert counted["b"] == 0
        assert sum(counted.values()) == (2 if most else 3)
        assert counted["a"] <= 1
    assert prepare_counts(
        open_source(relation), PrivacyUnit("unit"), kind="units"
    ).run().values.tolist() == [2]
    connection.close()


def test_strange_values_of_frames_are_missing_values():
    class Hostile:
        @property
        def __class__(self):
            raise RuntimeError("kryptonite")

    frame = pd.DataFrame({"u": pd.Series(["a", Hostile(), None, "b"], dtype=object)})
    assert prepare_counts(
        open_source(frame), PrivacyUnit("u"), kind="units"
    ).run().values.tolist() == [2]
    halves = pd.DataFrame({"u": pd.array(["a", "\ud800", None], dtype=pd.StringDtype("python"))})
    assert prepare_counts(
        open_source(halves), PrivacyUnit("u"), kind="units"
    ).run().values.tolist() == [1]
    for clock in (pa.timestamp("s"), pa.timestamp("us"), pa.time64("us")):
        frame = pa.table({"u": pa.array([2**62, 0, None], pa.int64()).cast(clock)})
        with pytest.raises(InvalidParameter, match="Convert the column"):
            prepare_counts(open_source(frame), PrivacyUnit("u"), kind="units")
    days = pa.table({"u": pa.array([2**31 - 1, -(2**31), 0, None], pa.int32()).cast(pa.date32())})
    assert prepare_counts(open_source(days), PrivacyUnit("u"), kind="units").run().values[0] == 3
    wide = pl.DataFrame({"u": pl.Series([2**100, -(2**127), 2**127 - 1, None], dtype=pl.Int128)})
    assert prepare_counts(
        open_source(wide), PrivacyUnit("u"), kind="units"
    ).run().values.tolist() == [3]


def test_a_domain_query_cannot_read_the_log_of_the_source(tmp_path):
    path = tmp_path / "s.duckdb"
    connection = duckdb.connect(str(path))
    connection.execute("CREATE TABLE t AS SELECT 'u' AS u")
    connection.close()
    log = tmp_path / "s.duckdb.wal"
    log.write_bytes(b"SECRET")
    source = open_source(f"duckdb:{path}#t") if not log.exists() else None
    log.unlink()
    source = source or open_source(f"duckdb:{path}#t")
    log.write_bytes(b"SECRET")
    query = f"SELECT CAST(content AS VARCHAR) FROM read_blob('{log}')"
    for files in ([], [log]):
        with pytest.raises(UnsafePredicate):
            Domain.from_sql(query, files=files).resolve(source)


def test_a_domain_query_cannot_read_what_a_lazy_frame_reads(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"item": ["secret"]}).write_parquet(path)
    source = open_source(pl.scan_parquet(path))
    for files in ([], [path]):
        with pytest.raises(UnsafePredicate):
            Domain.from_sql(f"SELECT item FROM '{path}'", files=files).resolve(source)


def test_what_is_opened_is_what_the_ledger_calls_it(tmp_path):
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "a.csv").write_text("v\n1\n", encoding="utf-8")
    (tmp_path / "real" / "a.csv").write_text("v\n1\n2\n3\n", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "sub")
    crooked = f"{tmp_path}/link/../a.csv"
    source = open_source(crooked)
    assert source.identity == str(tmp_path / "a.csv")
    assert rows(crooked) == 1


def test_a_name_is_what_the_ledger_compares_and_a_path_stays_the_place(tmp_path):
    frame = pl.DataFrame({"v": [1]})
    assert open_source(frame, name="orders").identity == "name:orders"
    assert open_source(frame, name="orders").known_as == "name:orders"
    assert open_source(frame).known_as is None
    file = tmp_path / "a.csv"
    file.write_text("v\n1\n", encoding="utf-8")
    assert open_source(file).known_as == str(file)
    named = open_source(file, name="orders")
    # How rows are read, and which files hold them, follows from the place.
    assert (named.known_as, named.identity, named.files) == ("name:orders", str(file), (file,))
    for unit in ("v", None):
        whom = PrivacyUnit(unit)
        readings = {
            describe_unit_reading(one, whom, CsvFormat()) for one in (named, open_source(file))
        }
        assert len(readings) == 1
        assert "values in memory" not in readings
