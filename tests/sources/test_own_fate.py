"""Whether a row is kept is a function of that row: each row is asked about in a table of its own, and in company.

The company is chosen to tempt an engine: statistics of a file by which it folds comparisons, columns that are NULL in whole blocks so
that it skips operands, arithmetic that overflows in one row only.
"""

from __future__ import annotations

import datetime as dt

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from sordino import PrivacyUnit
from sordino.errors import InvalidParameter
from sordino.questions import prepare_counts
from sordino.sources import engine as engine_module, open_source, source as source_module, tables
from sordino.sources.predicates import predicate as predicate_module
from support.company import I8, I64, PAIRS

KINDS = ("parquet", "duckdb", "relation", "polars", "lazy", "arrow", "pandas")


def stored(frame, kind, folder, name="t"):
    """Return a table as a source of some kind; each is written as its usual writer does."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.{kind}"
    if kind == "parquet":
        frame.write_parquet(path, row_group_size=2048)
        return path
    if kind == "duckdb":
        with duckdb.connect(str(path)) as con:
            con.register("frame", frame.to_arrow())
            con.execute("CREATE TABLE t AS SELECT * FROM frame")
        return f"duckdb:{path}#t"
    if kind == "relation":
        con = duckdb.connect()
        con.register("frame", frame.to_arrow())
        con.execute("CREATE TABLE t AS SELECT * FROM frame")
        return con.table("t")
    return {
        "polars": frame,
        "lazy": frame.lazy(),
        "arrow": frame.to_arrow(),
        "pandas": frame.to_pandas(use_pyarrow_extension_array=True),
    }[kind]


def count(frame, where, kind, folder):
    question = prepare_counts(
        open_source(stored(frame, kind, folder)), PrivacyUnit.row(), kind="rows", where=where
    )
    counted = int(question.run().values[0])
    for file in folder.glob("t.*"):
        file.unlink()
    return counted


def fates(where, table, more, kind, folder):
    """Return the count in company, without and with one row more, and what the rows add up to if each stands alone."""
    other = pl.concat(
        [pl.DataFrame([more], schema=table.schema, orient="row"), table]
    )  # in the block of the others
    alone = {
        row: count(pl.DataFrame([row], schema=table.schema, orient="row"), where, kind, folder)
        for row in set(other.rows())
    }
    together = [count(rows, where, kind, folder) for rows in (table, other)]
    return together, [sum(alone[row] for row in rows.rows()) for rows in (table, other)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        # Each pair is asked of files; of the other sources by default only the one whose company shares a block.
        pytest.param(
            name,
            kind,
            marks=()
            if kind == "parquet" or (kind in {"duckdb", "relation"} and "block" in name)
            else pytest.mark.slow,
        )
        for name in PAIRS
        for kind in KINDS
    ],
)
@pytest.mark.sample(12)
def test_one_row_more_changes_the_fate_of_no_other(tmp_path, name, kind):
    together, alone = fates(*PAIRS[name], kind, tmp_path / "t")
    assert together == alone


def whole_try(condition):
    return f"COALESCE(TRY({predicate_module.render_plain(condition)}), FALSE)"


def native(self, engine, indices):
    """Let the engine that evaluates open the file itself."""
    columns = ", ".join(f"c{index}" for index in indices) or "1"
    return f"SELECT {columns} FROM {tables._write_read_parquet(self.files)} AS file({tables._name_columns(len(self.types))})"


@pytest.mark.parametrize(
    ("off", "pair"),
    [
        (("in_clause",), "a product that only NULL makes the engine compute"),
        (engine_module.JOINING, "a column that is NULL in a whole block"),
    ],
    ids=["statistics decide", "without statistics, neighbors in a block decide"],
)
@pytest.mark.sample(4)
def test_the_ways_that_were_wrong_are_convicted(tmp_path, monkeypatch, off, pair):
    """The engine that evaluates opens the file itself, and one TRY stands around the whole predicate."""
    monkeypatch.setattr(predicate_module, "render_total", whole_try)
    monkeypatch.setattr(tables.ParquetReader, "relation", native)
    monkeypatch.setattr(engine_module.Engine, "close_doors", lambda self, paths: None)
    monkeypatch.setattr(engine_module, "JOINING", off)
    together, alone = fates(*PAIRS[pair], "parquet", tmp_path / "t")
    assert together != alone
    assert abs(together[1] - together[0]) > 900


# ---- what AND, OR and NOT join --------------------------------------------------------------------------------------------


FLAGS = {
    "flag": pl.String,
    "age": pl.Int32,
    "on": pl.Boolean,
    "at": pl.Time,
    "share": pl.Decimal(4, 2),
}


NO_CONDITIONS = [
    "flag AND age > 3", "age > 3 OR flag", "NOT flag", "flag", "age", "NOT age", "on AND at", "share OR on", "NOT (on AND flag)",
    "(flag AND on) = TRUE", "(age > 3 AND (on OR flag)) IS NULL",
]  # fmt: skip
NEVER_CONDITIONS = ["'true' AND on", "1 OR on", "NOT - age", "TRY_CAST(flag AS DATE) OR on"]


@pytest.mark.parametrize("where", NO_CONDITIONS + NEVER_CONDITIONS)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.sample(4)
def test_a_value_that_is_no_condition_is_refused_before_the_charge(tmp_path, kind, where):
    """The engine makes a condition of it outside of every TRY, and fails for some rows: a text that is no truth value."""
    frame = pl.DataFrame([("true", 44, True, dt.time(1), 1)], schema=FLAGS, orient="row")
    if kind == "csv":
        where = (
            where.replace("age", "TRY_CAST(age AS INTEGER)")
            .replace("on ", "(flag = 'true') ")
            .replace(" on", " (flag = 'true')")
        )
        frame.write_csv(tmp_path / "t.csv")
        source = open_source(tmp_path / "t.csv")
    else:
        source = open_source(stored(frame, kind, tmp_path / "t"))
    with pytest.raises(
        InvalidParameter, match="must be a condition|must compare columns with values"
    ):
        prepare_counts(source, PrivacyUnit.row(), kind="rows", where=where)


@pytest.mark.parametrize("kind", ["polars", "pandas"])
@pytest.mark.sample(4)
def test_of_a_frame_columns_are_conditions_and_nothing_else_is(tmp_path, kind):
    """Where a condition is meant a column of a frame is read as one, whatever its type; what is computed has a type."""
    frame = pl.DataFrame([("true", 44, True, dt.time(1), 1)], schema=FLAGS, orient="row")
    source = open_source(stored(frame, kind, tmp_path / "t"))
    for where in NO_CONDITIONS:
        prepare_counts(source, PrivacyUnit.row(), kind="rows", where=where).run()
    for where in NEVER_CONDITIONS:
        with pytest.raises(
            InvalidParameter, match="must be a condition|must compare columns with values"
        ):
            prepare_counts(source, PrivacyUnit.row(), kind="rows", where=where)


@pytest.mark.parametrize(
    "where",
    [
        "on AND age > 3",
        "NOT on",
        "on",
        "NULL OR on",
        "TRUE AND on",
        "TRY_CAST(flag AS BOOLEAN) AND on",
    ],
)
@pytest.mark.sample(4)
def test_truth_values_are_conditions(tmp_path, where):
    frame = pl.DataFrame(
        [("true", 44, True, None, 1), ("maybe", 44, False, None, 1)], schema=FLAGS, orient="row"
    )
    alone = sum(
        count(frame[place : place + 1], where, "parquet", tmp_path / "t") for place in range(2)
    )
    assert count(frame, where, "parquet", tmp_path / "t") == alone == 1


@pytest.mark.parametrize("where", ["flag AND age > 3", "NOT flag", "flag OR flag"])
def test_what_is_rendered_fails_for_no_row_even_so(tmp_path, monkeypatch, where):
    monkeypatch.setattr(source_module, "_fits_declared_types", lambda *_: True)
    frame = pl.DataFrame(
        [("maybe", 44), ("true", 44), ("false", 44), (None, 44)],
        schema={"flag": pl.String, "age": pl.Int32},
        orient="row",
    )
    assert count(frame, where, "parquet", tmp_path / "t") == 1


def test_the_same_work_in_two_places_is_tried_in_each():
    """A comparison of a date and a time is made by a cast, which fails for late dates; done once, it would be outside of both."""
    with engine_module.engine() as opened:
        con = opened.connection
        con.execute(
            "CREATE TABLE t AS SELECT DATE '5881580-07-09' AS a, TIMESTAMP '2020-01-01' AS b"
        )
        tried = "SELECT COALESCE(TRY(a = b) OR TRY(a > b), FALSE), TRY(a = b) IS NULL FROM t"
        assert con.execute(tried).fetchall() == [(False, True)]
        con.execute(
            f"SET disabled_optimizers = '{','.join(set(engine_module.JOINING) - {'common_subexpressions'})}'"
        )
        with pytest.raises(duckdb.Error):
            con.execute(tried).fetchall()


numbers = st.sampled_from(
    ["0", "1", "2.5", "127", "9223372036854775807", "n", "small", "x", "TRY_CAST(text AS BIGINT)"]
)
operand = st.recursive(
    numbers,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner)
        | inner.map("- {}".format)
    ),
    max_leaves=4,
)
condition = st.recursive(
    st.builds("{} {} {}".format, operand, st.sampled_from(["=", "<", ">=", "<>"]), operand)
    | st.builds("{} BETWEEN {} AND {}".format, operand, operand, operand)
    | operand.map("{} IS NULL".format)
    | st.sampled_from(
        ["text LIKE 'a%'", "text IN ('3', '300')", "TRY_CAST(text AS DATE) > '2020-01-01'"]
    ),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | inner.map("NOT ({})".format)
    ),
    max_leaves=4,
)
SCHEMA = {"n": I64, "small": I8, "x": pl.Float64, "text": pl.String}
EXTREMES = {
    "n": [None, 0, 1, 2**63 - 1, -(2**63), 2**62],
    "small": [None, 0, 100, -128, 127],
    "x": [None, 0.0, -0.0, float("nan"), float("inf"), 1e308, 5e-324],
    "text": [None, "", "3", "300", "a", "2020-02-30", "99999999999999999999"],
}
row = st.tuples(*(st.sampled_from(values) for values in EXTREMES.values()))


@given(
    where=condition,
    rows=st.lists(row, min_size=1, max_size=6),
    repeated=st.sampled_from([1, 1, 700]),
)
@settings(max_examples=4)
@pytest.mark.parametrize("kind", ["parquet", pytest.param("duckdb", marks=pytest.mark.slow)])
def test_a_table_is_the_sum_of_its_rows(tmp_path_factory, kind, where, rows, repeated):
    folder = tmp_path_factory.mktemp("t")
    table = pl.DataFrame(rows * repeated, schema=SCHEMA, orient="row")
    alone = [
        count(pl.DataFrame([one], schema=SCHEMA, orient="row"), where, kind, folder) for one in rows
    ]
    assert count(table, where, kind, folder) == repeated * sum(alone)


@pytest.mark.parametrize("kind", ["parquet", "relation"])
def test_columns_are_taken_by_their_places(tmp_path, kind):
    """`User` and `user` are two columns, and the engine would find either."""
    frame = pl.DataFrame({"User": list(range(1000)), "user": [7] * 1000, "USER": [[1]] * 1000})
    if kind == "parquet":
        frame.write_parquet(tmp_path / "t.parquet")
        source = open_source(tmp_path / "t.parquet")
    else:
        source = open_source(
            duckdb.sql('SELECT i AS "User", 7 AS "user", [1] AS "USER" FROM range(1000) t(i)')
        )
    assert list(source.columns) == ["User", "user", "USER"]
    units = {
        name: int(prepare_counts(source, PrivacyUnit(name), kind="units").run().values[0])
        for name in ("User", "user")
    }
    assert units == {"User": 1000, "user": 1}
    bounded = prepare_counts(
        source, PrivacyUnit("user", max_rows=1), kind="rows", where='"User" >= 0'
    )
    assert int(bounded.run().values[0]) == 1


def test_macros_and_settings_of_another_connection_change_nothing(tmp_path):
    del tmp_path
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE t AS SELECT i AS usr, i % 3 AS item, CAST(i AS HUGEINT) AS big, i::DOUBLE AS x FROM range(100) t(i)"
    )
    plain = con.table("t")
    wanted = [answers(plain)]
    for name in (
        "sha256(x)",
        "substr(x, y, z)",
        "length(x)",
        "least(x, y)",
        "floor(x)",
        "isnan(x)",
        "abs(x)",
        "decode(x)",
        "nullif(x, y)",
    ):
        con.execute(f"CREATE OR REPLACE MACRO {name} AS 1")
    con.execute("SET threads = 1")
    con.execute("SET default_null_order = 'nulls_first'")
    con.execute("SET default_collation = 'nocase'")
    con.execute("SET TimeZone = 'America/Lima'")
    con.execute("SET ieee_floating_point_ops = false")
    con.execute("SET arrow_output_version = '1.0'")
    con.execute("SET arrow_large_buffer_size = true")
    assert answers(con.table("t")) == wanted[0]
    con.close()


def answers(relation):
    source = open_source(relation)
    salt = bytes(16)
    counted = prepare_counts(
        source,
        PrivacyUnit("usr", max_rows=1),
        kind="items",
        item="item",
        domain=[0, 1, 2],
        salt=salt,
    )
    large = prepare_counts(source, PrivacyUnit("big"), kind="units", where="big >= 0 AND x < 50.5")
    return [counted.run().values.tolist(), large.run().values.tolist()]
