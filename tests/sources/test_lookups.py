"""Public tables by a key: what a row finds there is a function of that row alone, and nothing is read of rows before."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino.errors import DataSourceError, InvalidParameter, UnsafePredicate
from sordino.questions import PrivacyUnit, prepare_counts
from sordino.questions.lookups import list_lookup_domains, look_up
from sordino.sources import open_source
from sordino.sources.lookups import LookupTable
from sordino.sources.sql.sql_templates import float_text
from support.postgres import database

ROW, PERSON = PrivacyUnit.row(), PrivacyUnit("who")
KEYS = [
    "tea", "Tea", " tea", "tea ", "t,ea", 'say "tea"', "it's", "%s", "100%", "a\\b", "é", "e\u0301", "\U0001f600",
    "7", "07", "007", "7.0", "-0", "0", "9007199254740992", "9007199254740993", "true", "2024-01-05", "null",
]  # fmt: skip


@pytest.fixture
def products(tmp_path):
    """Return a public file with a category and a price of most keys, and one that has none."""
    path = tmp_path / "public" / "products.csv"
    path.parent.mkdir()
    rows = [
        (key, f"c{place % 5}" if place % 7 else "", str(place / 4))
        for place, key in enumerate(KEYS[:-2])
    ]
    pl.DataFrame(rows, schema=["product", "category", "price"], orient="row").write_csv(path)
    return path


def categories(path):
    found = pl.read_csv(path, infer_schema=False).rows()
    return {key: category for key, category, _ in found}


@pytest.fixture(scope="module")
def server():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS looked CASCADE; CREATE SCHEMA looked")
        yield connection
        connection.execute("DROP SCHEMA looked CASCADE")


def make_rows(seed, most=300):
    chance = random.Random(seed)
    return [
        (f"u{chance.randrange(40)}", chance.choice([*KEYS, "absent", "", None]))
        for _ in range(most)
    ]


def opened(engine, rows, folder, server):
    """Return rows as a source of an engine, a product a text in all of them."""
    who, product = ([row[place] for row in rows] for place in (0, 1))
    table = pa.table({"who": pa.array(who, pa.string()), "product": pa.array(product, pa.string())})
    if engine == "polars":
        return open_source(pl.from_arrow(table))
    if engine == "pandas":
        return open_source(pd.DataFrame({"who": who, "product": pd.Series(product, dtype=object)}))
    if engine == "parquet":
        pq.write_table(table, folder / "rows.parquet")
        return open_source(folder / "rows.parquet")
    if engine == "csv":
        pl.from_arrow(table).write_csv(folder / "rows.csv", quote_style="necessary")
        return open_source(folder / "rows.csv")
    if engine == "duckdb":
        with duckdb.connect(str(folder / "rows.db")) as con:
            con.register("lent", table)
            con.execute("CREATE TABLE t AS FROM lent")
        return open_source(f"duckdb:{folder / 'rows.db'}#t")
    name = f"t{random.randrange(10**9)}"
    kind = "VIEW v AS SELECT who, product FROM looked." if engine == "view" else ""
    server.execute(f"CREATE TABLE looked.{name} (who text, product text)")
    with server.cursor() as cursor:
        cursor.executemany(f"INSERT INTO looked.{name} VALUES (%s, %s)", rows)
    if kind:
        server.execute(
            f"DROP VIEW IF EXISTS looked.v; CREATE VIEW looked.v AS SELECT * FROM looked.{name}"
        )
        name = "v"
    return open_source(f"{database()}#looked.{name}")


ENGINES = ["polars", "pandas", "parquet", "csv", "duckdb", "server", "view"]


def count(source, unit, item="products.category", **more):
    """Return the counts of labels of a question, without zeros."""
    domain = more.pop("domain", None) or list_lookup_domains(source, [item])[item]
    source = source.compute([item])
    found = prepare_counts(
        source, unit, kind="items", item=item, domain=domain, salt=b"x" * 16, **more
    ).run()
    return {label: n for label, n in zip(found.labels, found.values.tolist(), strict=True) if n}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_counts_with_what_its_key_has(engine, products, tmp_path, server):
    rows, known = make_rows(3), categories(products)
    source = look_up(
        opened(engine, rows, tmp_path, server), {"products": sd.Lookup(products, key="product")}
    )
    true = defaultdict(int)
    people = defaultdict(set)
    for who, product in rows:
        if category := known.get(product):
            true[category] += 1
            people[category].add(who)
    assert count(source, ROW) == true
    assert count(source, PERSON) == {one: len(found) for one, found in people.items()}
    # Calls and several columns see it, too.
    pairs = count(
        source,
        ROW,
        ("products.category", "product"),
        domain=[(c, k) for k, c in known.items() if c],
    )
    assert sum(pairs.values()) == sum(true.values())
    assert count(source, ROW, "left(products.category, 1)", domain=["c"]) == {
        "c": sum(true.values())
    }


@pytest.mark.parametrize("engine", ["polars", "csv", "server"])
def test_looked_up_columns_are_as_others_everywhere_else(engine, products, tmp_path, server):
    rows, known = make_rows(4), categories(products)
    source = look_up(
        opened(engine, rows, tmp_path, server), {"products": sd.Lookup(products, key="product")}
    )
    kept = [product for _, product in rows if known.get(product) == "c2"]
    where = "products.category = 'c2' AND \"products.price\" IS NOT NULL"
    assert prepare_counts(source, ROW, kind="rows", where=where).run().values.tolist() == [
        len(kept)
    ]
    # A row that finds nothing is a row all the same.
    nothing = sum(not known.get(product) for _, product in rows)
    found = prepare_counts(source, ROW, kind="rows", where="products.category IS NULL").run()
    assert found.values.tolist() == [nothing]
    if engine == "server":
        # A server reads no numbers in texts.
        with pytest.raises(InvalidParameter, match="must be a column of whole numbers"):
            source.number_column("products.price", "column")
        return
    prices = {
        key: float(price) for key, _, price in pl.read_csv(products, infer_schema=False).rows()
    }
    session = sd.Session(source, unit=ROW, entropy=sd.Seeded(3))
    total = session.sum("products.price", epsilon=1e6, cap=100, where="products.category = 'c2'")
    assert total.value == pytest.approx(sum(prices[product] for product in kept), abs=1e-2)


@pytest.mark.parametrize("one_more", [None, "abc", "1.5", "x" * 5000])
@pytest.mark.sample(2)
def test_one_row_changes_nothing_that_others_find(one_more, tmp_path):
    # pandas makes texts of all numbers of a column for one word in it.
    path = tmp_path / "p.csv"
    path.write_text("product,category\n7,seven\n007,bond\n9007199254740993,odd\n1.5,half\n")
    values = [7, 7, 7, 9007199254740993 if one_more is None else 7, 1]
    alone = pd.DataFrame({"who": range(len(values)), "product": values})
    rows = [*values] if one_more is None else [*values, one_more]
    company = pd.DataFrame({"who": range(len(rows)), "product": rows})
    lookup = {"products": sd.Lookup(path, key="product")}
    before, after = (count(look_up(open_source(one), lookup), PERSON) for one in (alone, company))
    moved = {label: after.get(label, 0) - before.get(label, 0) for label in before | after}
    assert sum(map(abs, moved.values())) <= (one_more == "1.5")
    assert before["seven"] >= 3
    assert "bond" not in before


def test_whole_numbers_beyond_53_bits_keep_their_own_key(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text(f"id,k\n{1 << 53},even\n{(1 << 53) + 1},odd\n")
    rows = pl.DataFrame({"who": [1, 2, 3], "id": [1 << 53, (1 << 53) + 1, (1 << 53) + 1]})
    source = look_up(open_source(rows), {"p": sd.Lookup(path, key="id")})
    assert count(source, ROW, "p.k") == {"even": 1, "odd": 2}


def test_parquet_has_its_own_types_and_floats_their_own_texts(tmp_path):
    path = tmp_path / "p.parquet"
    table = {"id": [1, 2, 3], "share": [0.1, float("nan"), 3.0], "day": pa.array([0, 1, None], pa.date32()),
             "at": pa.array([0, 1, 2], pa.timestamp("us")), "ok": [True, False, None]}  # fmt: skip
    pq.write_table(pa.table(table), path)
    source = look_up(open_source(pl.DataFrame({"id": [1, 2, 3]})), {"p": sd.Lookup(path, key="id")})
    # A time has no exact text, and is left out.
    assert list(source.columns) == ["id", "p.share", "p.day", "p.ok"]
    assert count(source, ROW, "p.share") == {float_text(0.1): 1, "3": 1}
    assert count(source, ROW, "p.day") == {"1970-01-01": 1, "1970-01-02": 1}
    assert count(source, ROW, "p.ok") == {"true": 1, "false": 1}


# ---- what convicts ----------------------------------------------------------------------------------------------


def test_a_key_that_stands_twice_is_refused_and_would_make_one_row_two(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("product,category\ntea,drinks\nrice,food\ntea,leaves\n")
    source = open_source(pl.DataFrame({"product": ["tea"] * 3}))
    with pytest.raises(
        InvalidParameter,
        match=r"key 'tea' stands in rows 1 and 3 of .*p\.csv; a key may stand once",
    ):
        look_up(source, {"products": sd.Lookup(path, key="product")})
    # The twin, past that check: one row more moves two counts.
    twice = LookupTable(
        "products",
        Path(),
        "",
        "product",
        ("category",),
        ("tea", "rice", "tea"),
        (("drinks", "food", "leaves"),),
    )
    counted = [
        count(
            open_source(pl.DataFrame({"product": ["tea"] * n})).look_up([twice]),
            ROW,
            domain=["drinks", "leaves"],
        )
        for n in (2, 3)
    ]
    moved = [counted[1].get(label, 0) - counted[0].get(label, 0) for label in ("drinks", "leaves")]
    assert sum(moved) == 2


# ---- refusals, before any charge --------------------------------------------------------------------------------


def refused(lookup, match, kind=InvalidParameter, frame=None, name="products", **more):
    frame = pl.DataFrame({"who": ["a"], "product": ["tea"]}) if frame is None else frame
    with pytest.raises(kind, match=match) as found:
        sd.Session(frame, unit=more.pop("unit", PERSON), ledger=None, lookup={name: lookup}, **more)
    return str(found.value)


def test_what_is_no_public_table_by_a_key_is_refused(tmp_path, products):
    good = sd.Lookup(products, key="product")
    refused(
        sd.Lookup(products, key="produkt"),
        r"lookup\.products\.key must be one of 'product', .*Did you mean 'product'",
    )
    refused(
        sd.Lookup(products, key="product", of="prodct"),
        r"lookup\.products\.of must be a column of the source.*product",
    )
    refused(sd.Lookup(tmp_path / "none.csv", key="product"), "must exist", DataSourceError)
    refused(good, "letters, digits and _", name="the products")
    refused("products.csv", "must be a Lookup")
    refused(
        sd.Lookup(products, key="product", of="who"),
        "must be private = true, because its key is the person",
    )
    refused(
        good,
        "begins with; it has a column 'products.x'",
        frame=pl.DataFrame({"who": [1], "product": [1], "products.x": [1]}),
    )
    refused(
        good,
        "must not be looked up in a public table",
        unit=PrivacyUnit("products.category"),
    )
    for text, match in [
        ("product\ntea\n", "must have a column beside its key"),
        ("product,category\n,x\n", "must have a key; .* has none"),
        ("product,category,category\ntea,x,y\n", "has 'category' twice"),
        (f"product,category\ntea,{'x' * 5000}\n", "at most 4096 characters without NUL; row 1"),
        ("product,category\ntea,\0\n", "without NUL; row 1"),
    ]:
        path = tmp_path / "bad.csv"
        path.write_text(text)
        refused(sd.Lookup(path, key="product"), match)
    more = {"products": good, "more": sd.Lookup(products, key="product", of="products.category")}
    with pytest.raises(
        InvalidParameter, match=r"lookup\.more\.of must be a column of the table itself"
    ):
        sd.Session(pl.DataFrame({"product": ["tea"]}), unit=ROW, ledger=None, lookup=more)
    with pytest.raises(InvalidParameter, match="must map names to Lookup"):
        sd.Session(pl.DataFrame({"who": [1]}), unit=PERSON, ledger=None, lookup=[good])


def test_a_table_that_may_be_made_of_the_rows_is_refused(tmp_path, products):
    folder = tmp_path / "private"
    folder.mkdir()
    rows = folder / "rows.csv"
    rows.write_text("who,product\na,tea\n")
    for place in (rows, folder / ".rows.csv.crc", folder / "rows.csv.bak"):
        if place != rows:
            place.write_text("product,category\ntea,x\n")
        with pytest.raises((UnsafePredicate, InvalidParameter)):
            sd.Session(
                rows,
                unit=PERSON,
                ledger=None,
                lookup={"products": sd.Lookup(place, key="product", of="product")},
            )


def test_a_pipe_is_no_table_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataSourceError, match="must exist"):
        look_up(
            open_source(pl.DataFrame({"k": ["a"]})),
            {"p": sd.Lookup(tmp_path / "pipe.csv", key="k")},
        )


def test_rows_that_are_read_one_by_one_look_nothing_up(products, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("product,amount\ntea,1\nrice,2\n")
    session = sd.Session(
        path,
        unit=PrivacyUnit.row("replace-one"),
        ledger=None,
        lookup={"products": sd.Lookup(products, key="product")},
    )
    assert len(list(session.randomize("amount", epsilon=1, lower=0, upper=3).values)) == 2
    with pytest.raises(InvalidParameter, match="one of the table itself for randomize"):
        session.randomize("products.price", epsilon=1, lower=0, upper=3)


# ---- releases ---------------------------------------------------------------------------------------------------


def test_a_release_says_in_which_table_it_was_looked_up_and_others_do_not(products, tmp_path):
    rows = pl.DataFrame(
        {"who": [n % 50 for n in range(400)], "product": [KEYS[n % 20] for n in range(400)]}
    )
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(epsilon=50),
        unit=PERSON,
        source="name:t",
        adjacency="add-remove",
    )
    session = sd.Session(
        rows,
        unit=PERSON,
        ledger=ledger,
        name="t",
        lookup={"products": sd.Lookup(products, key="product")},
    )
    found = session.histogram("products.category", epsilon=1)
    assert next(iter(found)).item == "c1"
    [told] = found.population.lookups
    assert told.startswith(f"products: file {products}, key product, SHA-256 ")
    for more in (
        {"where": "products.category = 'c1'"},
        {"where": "left(products.category, 1) = 'c'"},
    ):
        assert session.count_distinct_units(epsilon=1, **more).population.lookups == (told,)
    assert session.count_distinct_units(epsilon=1, where="product = 'tea'").population.lookups == ()
    details = [
        entry.detail["detail"].get("lookups")
        for entry in ledger.history()
        if entry.kind == "reserve"
    ]
    assert details[0] == [told]
    assert details[-1] is None
    # Another version of the table is another question: it is not measured once more.
    session.keep(found)
    again = sd.Session(
        rows,
        unit=PERSON,
        ledger=ledger,
        name="t",
        lookup={"products": sd.Lookup(products, key="product")},
    )
    assert len(again.remeasure(found.receipt.id, epsilon=1)) == len(found)
    products.write_text(products.read_text() + "\nmore,c1,2\n")
    later = sd.Session(
        rows,
        unit=PERSON,
        ledger=ledger,
        name="t",
        lookup={"products": sd.Lookup(products, key="product")},
    )
    with pytest.raises(InvalidParameter, match="they differ"):
        later.remeasure(found.receipt.id, epsilon=1)


def test_a_batch_reads_once_and_finds_the_same(products, tmp_path):
    rows = make_rows(9)
    path = tmp_path / "rows.csv"
    pl.DataFrame(rows, schema=["who", "product"], orient="row").write_csv(path)
    session = sd.Session(
        path,
        unit=PERSON,
        entropy=sd.Seeded(5),
        lookup={"products": sd.Lookup(products, key="product")},
    )
    with session.batch():
        first = session.histogram("products.category", epsilon=500)
        second = session.count_distinct_units(epsilon=500, where="products.category = 'c1'")
    people = {who for who, product in rows if categories(products).get(product) == "c1"}
    assert {row.item: row.estimate for row in first.result}["c1"] == len(people)
    assert second.result.estimate == len(people)


def test_spark_is_told_to_join_by_itself():
    from sordino.sources.spark.frames import SparkBackend

    with pytest.raises(InvalidParameter, match="Join the table in Spark"):
        SparkBackend(None, ()).look_up(
            (type("J", (), {"table": LookupTable("p", Path(), "", "k", (), (), ())})(),)
        )


def test_what_was_given_by_mistake_is_not_shown(products):
    rows = pl.DataFrame({"product": ["tea"], "secret": ["86753099"]})
    address = "postgresql://me:86753099@127.0.0.1/shop#products"
    for wrong in (rows, {"p": rows}, {"p": address}, {"p": sd.Lookup(address, key="product")}):
        with pytest.raises(InvalidParameter) as found:
            look_up(open_source(rows), wrong)
        assert "86753099" not in str(found.value)
    assert "86753099" not in repr(sd.Lookup(address, key="product"))
