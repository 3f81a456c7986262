"""The same counts from every kind of source, against an oracle that knows no engine; and the bound on one unit's contribution."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from sordino.errors import InvalidParameter, UnboundedContribution, UnknownDomain
from sordino.questions import Domain, PrivacyUnit, prepare_counts
from sordino.sources import CsvFormat, open_source
from support.counted import BY_USER, SALT, counts_as_the_oracle, table


def csv_text(rows):
    def field(value):
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if '"' in text or "," in text else text

    return "user,item,price\n" + "".join(",".join(map(field, row)) + "\r\n" for row in rows)


def relation(rows, folder):
    con = duckdb.connect()
    con.execute("CREATE TABLE t(user BIGINT, item VARCHAR, price BIGINT)")
    con.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    return con.sql("SELECT item, user, price FROM t WHERE price < 100")


def duckdb_file(rows, folder):
    con = duckdb.connect(str(folder / "shop.db"))
    con.execute("CREATE TABLE orders(price BIGINT, user BIGINT, item VARCHAR)")
    con.executemany(
        "INSERT INTO orders VALUES (?, ?, ?)", [(price, user, item) for user, item, price in rows]
    )
    con.close()
    return f"duckdb:{folder / 'shop.db'}#orders"


def csv_file(rows, folder):
    path = folder / "orders.csv"
    path.write_text(csv_text(rows), encoding="utf-8", newline="")
    return path


def csv_files(rows, folder):
    for number in range(3):
        (folder / f"part{number}.csv").write_text(
            csv_text(rows[number::3]), encoding="utf-8", newline=""
        )
    return str(folder / "part*.csv")


def polars_frame(rows):
    return pl.DataFrame(
        rows, schema={"user": pl.Int64, "item": pl.String, "price": pl.Int64}, orient="row"
    )


def parquet_file(rows, folder):
    polars_frame(rows).write_parquet(folder / "orders.parquet")
    return folder / "orders.parquet"


def parquet_files(rows, folder):
    for number in range(3):
        polars_frame(rows[number::3]).write_parquet(
            folder / f"part{number}.parquet", row_group_size=40
        )
    return str(folder / "part?.parquet")


def pandas_frame(rows):
    users, items, prices = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "user": pd.array(users, dtype="Int64"),
            "item": pd.array(items, dtype="string"),
            "price": prices,
        }
    )


def pandas_objects(rows):
    users, items, prices = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "user": np.array(users, dtype=object),
            "item": np.array(items, dtype=object),
            "price": prices,
        }
    )


SOURCES = {
    "csv": csv_file,
    "csv files": csv_files,
    "parquet": parquet_file,
    "parquet files": parquet_files,
    "duckdb file": duckdb_file,
    "relation": relation,
    "pandas": lambda rows, folder: pandas_frame(rows),
    "pandas object": lambda rows, folder: pandas_objects(rows),
    "pandas category": lambda rows, folder: pandas_frame(rows).astype(
        {"item": "category", "user": "category"}
    ),
    "polars": lambda rows, folder: polars_frame(rows),
    "polars lazy": lambda rows, folder: polars_frame(rows).lazy(),
    "polars categorical": lambda rows, folder: polars_frame(rows).with_columns(
        pl.col("item").cast(pl.Categorical)
    ),
    "arrow": lambda rows, folder: polars_frame(rows).to_arrow(),
    "arrow dictionary": lambda rows, folder: pa.table(
        {
            "item": pa.array([row[1] for row in rows]).dictionary_encode(),
            "user": [row[0] for row in rows],
            "price": [r[2] for r in rows],
        }
    ),
}
QUICK = {"csv", "parquet", "duckdb file", "polars", "pandas"}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name, make in SOURCES.items()
    ],
)
@pytest.mark.sample(4)
def test_every_source_counts_alike(tmp_path, make):
    rows = table(5)
    source = open_source(make(rows, tmp_path))
    counts_as_the_oracle(source, rows)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcdef")), max_size=40),
    st.integers(1, 4),
    st.randoms(),
)
@settings(max_examples=3)
def test_one_unit_moves_at_most_its_bound_and_nobody_else(pairs, most, rng):
    unit = PrivacyUnit("user", max_rows=most)

    def count(rows):
        frame = pl.DataFrame(rows, schema={"user": pl.Int64, "item": pl.String}, orient="row")
        question = prepare_counts(
            open_source(frame), unit, kind="items", item="item", domain=list("abcdef"), salt=SALT
        )
        return question.run().values

    everybody = count(pairs)
    shuffled = rng.sample(pairs, len(pairs))
    assert count(shuffled + pairs).tolist() == everybody.tolist()
    for one in {user for user, _ in pairs}:
        others = count([pair for pair in pairs if pair[0] != one])
        alone = count([pair for pair in pairs if pair[0] == one])
        assert (everybody - others).tolist() == alone.tolist()
        assert 0 < alone.sum() <= most
        assert alone.max() <= 1


def test_another_salt_chooses_otherwise():
    frame = pl.DataFrame({"user": [1] * 41, "item": [str(i) for i in range(41)]})
    unit = PrivacyUnit("user", max_rows=5)
    found = {
        tuple(
            prepare_counts(
                open_source(frame),
                unit,
                kind="items",
                item="item",
                domain=range(41),
                salt=bytes([salt]) * 16,
            )
            .run()
            .values
        )
        for salt in range(4)
    }
    assert len(found) == 4
    assert {sum(values) for values in found} == {5}


def test_earned_sensitivities():
    frame = open_source(pl.DataFrame({"u": [1], "i": ["a"]}))

    def ask(kind, unit):
        return prepare_counts(
            frame,
            unit,
            kind=kind,
            salt=SALT,
            **({"item": "i", "domain": ["a"]} if kind == "items" else {}),
        )

    for adjacency, twice in (("add-remove", 1), ("replace-one", 2)):
        free, capped, row = (
            PrivacyUnit("u", adjacency),
            PrivacyUnit("u", adjacency, 3),
            PrivacyUnit.row(adjacency),
        )
        for unit, joint in (
            (free, lambda k: k),
            (capped, lambda k, most=3 * twice: min(k, most)),
            (row, lambda k, most=twice: min(k, most)),
        ):
            question = ask("items", unit)
            assert (
                question.sensitivity.bound,
                question.sensitivity.norm,
                question.sensitivity.step,
            ) == (
                1,
                "each",
                1,
            )
            assert question.sensitivity.monotone == (twice == 1)
            for k in (1, 2, 5, 100):
                assert (
                    question.joint(k).bound,
                    question.joint(k).norm,
                    question.joint(k).adjacency,
                ) == (
                    joint(k),
                    "l1",
                    adjacency,
                )
        assert ask("rows", capped).sensitivity.bound == 3
        assert ask("rows", row).sensitivity.bound == 1
        assert ask("units", free).sensitivity.bound == ask("units", row).sensitivity.bound == 1
        with pytest.raises(UnboundedContribution, match="max_rows"):
            ask("rows", free)


def test_assumed_labels_come_from_the_whole_source():
    frame = pl.DataFrame(
        {"u": [1, 2, None, 3], "i": ["b", "a", "only without a unit", None], "x": [1, 2, 3, 4]}
    )
    question = prepare_counts(
        open_source(frame),
        PrivacyUnit("u"),
        kind="items",
        item="i",
        domain=Domain.assume_public(),
        where="x > 1",
    )
    assert question.domain.origin == "assumed public"
    with pytest.raises(UnknownDomain):
        _ = question.domain.labels
    counts = question.run()
    assert counts.labels == ("a", "b", "only without a unit")
    assert counts.values.tolist() == [1, 0, 0]


def test_empty_tables_and_nobody():
    frame = pl.DataFrame({"u": [None], "i": [None]}, schema={"u": pl.Int64, "i": pl.String})
    for rows in (frame, frame.clear()):
        source = open_source(rows)
        assert prepare_counts(
            source, PrivacyUnit("u"), kind="items", item="i", domain=["a"]
        ).run().values.tolist() == [0]
        assert prepare_counts(source, PrivacyUnit("u"), kind="units").run().values.tolist() == [0]
        assert prepare_counts(
            source, PrivacyUnit("u", max_rows=2), kind="rows"
        ).run().values.tolist() == [0]
        assert prepare_counts(source, PrivacyUnit.row(), kind="rows").run().values.tolist() == [
            rows.height
        ]


def test_many_labels(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("u,i\n" + "".join(f"{n},{n % 5000}\n" for n in range(20_000)))
    counts = prepare_counts(
        open_source(path), PrivacyUnit("u"), kind="items", item="i", domain=range(6000)
    ).run()
    expected = {str(n): 4 if n < 5000 else 0 for n in range(6000)}
    assert counts.values.tolist() == [expected[label] for label in sorted(expected)]


def test_what_is_wrong_with_a_question_is_said_before():
    when = pl.Series([0]).cast(pl.Datetime)
    source = open_source(pl.DataFrame({"user": [1], "item": ["a"], "when": when, "raw": [[1]]}))
    ask = {"kind": "items", "item": "item", "domain": ["a"]}
    for change, message in (
        ({"item": "itme"}, "Did you mean 'item'"),
        ({"item": "when"}, "of type TIMESTAMP"),
        ({"item": "raw"}, r"of type List\(Int64\)"),
        ({"item": None}, "item must name"),
        ({"domain": []}, "one label or more"),
        ({"domain": "a"}, "list of labels"),
        ({"kind": "unit"}, "one of"),
        ({"kind": "units"}, "belong to kind 'items'"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            prepare_counts(source, BY_USER, **{**ask, **change})
    with pytest.raises(InvalidParameter, match="PrivacyUnit.column must be a column"):
        prepare_counts(source, PrivacyUnit("usr"), **ask)
    with pytest.raises(InvalidParameter, match="16 secret random bytes"):
        prepare_counts(source, PrivacyUnit("user", max_rows=1), **ask)
    with pytest.raises(UnknownDomain, match="public domain"):
        prepare_counts(source, BY_USER, kind="items", item="item")


def test_latin_1_and_null_text(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes("u;i\n1;caf\xe9\n2;NA\nNA;caf\xe9\n3;\xff\n".encode("latin-1"))
    source = open_source(path, csv=CsvFormat(delimiter=";", encoding="latin-1", null="NA"))
    counts = prepare_counts(
        source, PrivacyUnit("u"), kind="items", item="i", domain=["caf\xe9", "\xff", "NA"]
    ).run()
    assert dict(zip(counts.labels, counts.values.tolist(), strict=True)) == {
        "caf\xe9": 1,
        "\xff": 1,
        "NA": 0,
    }
