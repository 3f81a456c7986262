"""Row predicates: what may be said, what is refused, and that no row can make one fail or reach another row."""

from __future__ import annotations

import itertools

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from sordino.errors import InvalidParameter, SordinoError, UnsafePredicate
from sordino.questions import PrivacyUnit, prepare_counts
from sordino.sources import open_source
from sordino.sources.predicates.predicate import DEEPEST, parse

TABLE = pl.DataFrame(
    {
        "item": ["a", "b", "c", None, "x%"],
        "price": [1, 5, 2**62, None, -3],
        "day": ["2024-01-01", "bad", None, "2024-02-30", "2025-06-01"],
        "Mixed Case": [1, 2, 3, 4, 5],
        "flag": [True, False, None, True, False],
    }
)


def rows(where, frame=TABLE):
    with duckdb.connect() as con:
        # A relation: the declared types of its columns say what a predicate means.
        source = open_source(con.from_arrow(frame.to_arrow()))
        return int(
            prepare_counts(source, PrivacyUnit.row(), kind="rows", where=where).run().values[0]
        )


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("price > 1", 2),
        ("PRICE > 1", 2),
        ('"Mixed Case" >= 3 and not item is null', 2),
        ("item in ('a', 'b', 'it''s')", 2),
        ("item NOT IN ('a')", 3),
        ("price between -5 and 5", 3),
        ("price not between - 5 and 5", 1),
        ("item like 'x\\%' or item LIKE '_'", 3),
        ("item NOT LIKE 'a%'", 3),
        ("price + 1 * 2 - -3 = 10", 1),
        ("price * price * price > 0", 2),
        ("TRY_CAST(day AS DATE) >= '2024-01-01'", 2),
        ("TRY_CAST(item AS DECIMAL(10, 2)) > .5", 0),
        ("TRY_CAST(price AS TINYINT) IS NOT NULL", 3),
        ("flag", 2),
        ("NOT flag AND TRUE", 2),
        ("flag = NULL", 0),
        ("((((price > 1))))", 2),
        ("-(-price) = 1", 1),
        ("price <> 1 and price != 5", 2),
        ("item = 'a' OR item = 'b' AND FALSE", 1),
        ("\tprice\r\n>\n1 ", 2),
        ("price > 9223372036854775807", 0),
        ("price < 1e400", 4),
    ],
)
@pytest.mark.sample(4)
def test_meaning(where, wanted):
    assert rows(where) == wanted


REFUSED = [
    "price > (SELECT max(price) FROM rows)",
    "EXISTS (SELECT 1)",
    "item IN (SELECT item FROM rows)",
    "CASE WHEN price > 1 THEN error('x') ELSE true END",
    "error('x')",
    "\"error\"('x')",
    "count(*) > 1",
    "sum(price) > 1",
    "max(price) OVER () > 1",
    "row_number() over () = 1",
    "read_csv('x') is null",
    "price > random()",
    "now() > day",
    "CAST(item AS INTEGER) = 1",
    "item::INTEGER = 1",
    "price > 1; DROP TABLE rows",
    "price > 1 -- comment",
    "price > 1 /* c */",
    "--",
    "item COLLATE nocase = 'A'",
    "list_filter([1], lambda x: x > 0)",
    "x -> x",
    "price[1] = 1",
    "{'a': 1}.a = 1",
    "price > ?",
    "price > $1",
    "price > $name",
    "#1 > 1",
    "item = E'a\\n'",
    "item = x'00'",
    "item = DATE '2020-01-01'",
    "item = $$a$$",
    "item = $t$a$t$",
    "price / 0 > 1",
    "price // 2 > 1",
    "price % 2 = 1",
    "price ^ 2 = 1",
    "price ** 2 = 1",
    "item || 'a' = 'aa'",
    "item ~ 'a'",
    "item SIMILAR TO 'a'",
    "item GLOB 'a'",
    "item ILIKE 'a'",
    "item LIKE item",
    "item LIKE 'a' ESCAPE 'b'",
    "price IS DISTINCT FROM 1",
    "price IS TRUE",
    "price == 1",
    "price > 1 > 2",
    "price IN (price)",
    "price IN ()",
    "price IN (1, 2",
    "TRY_CAST(price AS BLOB) = 1",
    "TRY_CAST(price AS INTEGER[]) = 1",
    "TRY_CAST(price AS STRUCT(a INTEGER)) = 1",
    "TRY_CAST(price AS DECIMAL(39, 2)) = 1",
    "TRY_CAST(price AS DECIMAL(5, 6)) = 1",
    "TRY_CAST(price AS DECIMAL(5.0)) = 1",
    "TRY_CAST(price, INTEGER)",
    "TRY(price) = 1",
    "INTERVAL 1 DAY > 1",
    "price > 1_000",
    "price > 0x10",
    "price > 1e5x",
    "price > 1 1",
    "'a''b'c' = item",
    "item = 'open",
    "item = '\ud800'",
    '"\udcff" = 1',
    '"open = 1',
    '"" = 1',
    "price > \uff11",
    "price \u2265 1",
    "pr\u0456ce > 1",
    "price\u00a0> 1",
    "price\u200b > 1",
    "item = \u2018a\u2019",
    "price > 1\0",
    "item = '\0'",
    "*",
    "price",
    "",
    " ",
    "(",
    "NOT",
    "price > 1)",
    "price >",
    "COLUMNS(*) IS NULL",
    "* EXCLUDE (price)",
    "price AS x",
    "price > ALL (1)",
    "@price",
    "price!",
    "price NOT 1",
    "a:=1",
    "(price, item) = (1, 'a')",
    "(" * (DEEPEST + 1) + "price = 1" + ")" * (DEEPEST + 1),
    "NOT " * (DEEPEST + 1) + "flag",
    "- " * (DEEPEST + 1) + "1 = price",
    "price = 1 OR " * 2000 + "flag",
]


@pytest.fixture(scope="module")
def table():
    with duckdb.connect() as con:
        yield open_source(con.from_arrow(TABLE.to_arrow()))


@pytest.mark.parametrize("where", REFUSED)
@pytest.mark.sample(3)
def test_refused(table, where):
    with pytest.raises(SordinoError) as caught:
        prepare_counts(table, PrivacyUnit.row(), kind="rows", where=where)
    assert isinstance(caught.value, InvalidParameter if where == "price" else UnsafePredicate)
    assert caught.value.__cause__ is None


def test_the_message_says_where():
    with pytest.raises(
        UnsafePredicate, match=r"A predicate may use .*; got the function 'upper' at position 5\."
    ):
        rows("NOT upper(item) = 'A'")
    with pytest.raises(UnsafePredicate, match="at position 11"):
        rows("price > 1 ; x")


def test_what_does_not_fit_the_types_is_found_before_the_charge():
    for where in (
        "item > 10",
        "item + 1 = 2",
        "price LIKE 'a'",
        "item",
        "price + 1",
        "-flag = 1",
        "price = 'abc'",
    ):
        with pytest.raises(InvalidParameter, match=r"TRY_CAST\(price AS DOUBLE\) > 10"):
            rows(where)
    with pytest.raises(InvalidParameter, match="Did you mean 'price'"):
        rows("prise > 1")
    with pytest.raises(InvalidParameter, match="The columns are 'item', 'price'"):
        rows('"zzzzzz" > 1')
    with pytest.raises(InvalidParameter, match="must be a text"):
        rows(3)


def test_an_impossible_literal_is_found_before_the_charge():
    frame = TABLE.with_columns(pl.col("day").str.to_date(strict=False))
    with pytest.raises(InvalidParameter, match="fits the declared types"):
        rows("day > 'no date'", frame)
    assert rows("day >= '2024-01-01'", frame) == 2


FAILING = [
    "n * n > 0",
    "n + n + n > 0 OR item = 'a'",
    "item = 'a' AND n * 9223372036854775807 > 5",
    "NOT (n * n > 0)",
    "n * n IS NULL",
    "n - 9223372036854775807 - 9223372036854775807 < 0",
    "- n * n < 0 AND n > 0",
    "n BETWEEN n * n AND 5",
    "n * n IN (4, 9)",
    "TRY_CAST(text AS INTEGER) * 2000000000 > 0",
    "TRY_CAST(TRY_CAST(text AS DOUBLE) AS TINYINT) = 3",
    "TRY_CAST(text AS DATE) < '2020-01-01' OR TRY_CAST(text AS BIGINT) + 9223372036854775807 > 0",
    "n + 1 > 9223372036854775807",
    "9223372036854775807 + n > 0",
    "TRY_CAST(n AS DECIMAL(38, 0)) * TRY_CAST(n AS DECIMAL(38, 0)) > 0",
    "TRY_CAST(text AS TIME) < '10:00:00' OR TRY_CAST(text AS TIMESTAMP) > '2020-01-01 00:00:00'",
    "TRY_CAST(text AS BOOLEAN)",
    "small * small > 3 OR small + small < 0",
]
GOOD = [
    (2, "a", "3", 1),
    (3, "b", "2019-01-01", 2),
    (None, None, None, None),
    (-4, "a", "x", -3),
    (7, "c", "true", 5),
]
BAD = [
    (2**63 - 1, "a", "99999999999", 127),
    (-(2**63), "b", "1e308", -128),
    (2**62, None, "2020-02-30", 100),
    (1, "a", "24:00:01", 64),
    (4 * 10**9, "a", "2147483647", 0),
]


def parquet(table, path):
    pl.DataFrame(
        table, schema={"n": pl.Int64, "item": pl.String, "text": pl.String, "small": pl.Int8}, orient="row"
    ).write_parquet(path, row_group_size=3)  # fmt: skip
    return path


@pytest.mark.parametrize(
    "where",
    [
        *FAILING[::3],
        *(pytest.param(where, marks=pytest.mark.slow) for i, where in enumerate(FAILING) if i % 3),
    ],
)
@pytest.mark.sample(8)
def test_no_row_can_fail_and_each_row_decides_for_itself(tmp_path, where):
    """The count over all rows is the sum of the counts over single rows, in files with statistics that invite the optimizer."""

    def count(table):
        source = open_source(parquet(table, tmp_path / "t.parquet"))
        return int(
            prepare_counts(source, PrivacyUnit.row(), kind="rows", where=where).run().values[0]
        )

    single = {row: count([row]) for row in GOOD + BAD}
    assert count(GOOD * 3) == 3 * sum(single[row] for row in GOOD)
    assert count(GOOD * 3 + BAD) == 3 * sum(single[row] for row in GOOD) + sum(
        single[row] for row in BAD
    )


numbers = st.sampled_from(
    ["0", "1", "2.5", "9223372036854775807", "1e3", "n", "small", "TRY_CAST(text AS BIGINT)"]
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
    | operand.map("{} IS NULL".format)
    | st.just("item LIKE 'a%'")
    | st.just("item IN ('a', 'b')"),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | inner.map("NOT ({})".format)
    ),
    max_leaves=4,
)


@given(where=condition)
@settings(max_examples=40)
@pytest.mark.slow
def test_random_predicates_are_total_and_local(where):
    columns = ["n", "item", "text", "small"]
    predicate = parse(where, columns.index)
    con = duckdb.connect()
    con.execute("SET threads = 1")
    con.execute("CREATE TABLE t(c0 BIGINT, c1 VARCHAR, c2 VARCHAR, c3 TINYINT, id INTEGER)")
    table = [(*row, number) for number, row in enumerate(GOOD + BAD)]
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", table)
    together = {
        row[0] for row in con.execute(f"SELECT id FROM t WHERE {predicate.total}").fetchall()
    }
    alone = [
        con.execute(f"SELECT id FROM t WHERE id = {n} AND {predicate.total}").fetchall()
        for n in range(len(table))
    ]
    con.close()
    assert together == {row[0] for row in itertools.chain(*alone)}


@given(text=st.text(alphabet="ab'\"%_\\; -\n\u20ac", max_size=12))
@settings(max_examples=40)
def test_texts_mean_themselves(text):
    written = "c = '" + text.replace("'", "''") + "'"
    predicate = parse(written, lambda name: 0)
    con = duckdb.connect()
    con.execute("CREATE TABLE t(c0 VARCHAR)")
    con.execute("INSERT INTO t VALUES (?), ('other')", [text])
    assert con.execute(f"SELECT c0 FROM t WHERE {predicate.total}").fetchall() == [(text,)]
    con.close()
