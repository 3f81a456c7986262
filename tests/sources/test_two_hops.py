"""Items belong to whoever placed their order: a function, where a database lets no order stand twice."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import duckdb
import psycopg
import pytest

import sordino as sd
from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import PrivacyUnit, prepare_counts
from sordino.questions.lookups import check_lookups, look_up
from sordino.sources import open_source
from support.postgres import database

OWNER = PrivacyUnit("orders.customer", max_rows=1)
ITEMS = ["tea", "rice", "corn"]
SALT = b"s" * 16


@pytest.fixture(scope="module")
def server():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS hops CASCADE; CREATE SCHEMA hops")
        yield connection
        connection.execute("DROP SCHEMA hops CASCADE")


def place(engine, items, orders, folder, server, key="PRIMARY KEY"):
    """Return items with the orders that they belong to, looked up in a table with a key."""
    if engine == "duckdb":
        path = folder / f"shop{random.randrange(10**9)}.db"
        with duckdb.connect(str(path)) as con:
            con.execute(f"CREATE TABLE orders (id INTEGER {key}, customer VARCHAR)")
            con.execute("CREATE TABLE items (order_id INTEGER, item VARCHAR)")
            if orders:
                con.executemany("INSERT INTO orders VALUES (?, ?)", orders)
            if items:
                con.executemany("INSERT INTO items VALUES (?, ?)", items)
        address = f"duckdb:{path}#"
    else:
        server.execute("DROP TABLE IF EXISTS hops.orders, hops.items CASCADE")
        server.execute(f"CREATE TABLE hops.orders (id integer {key}, customer text)")
        server.execute("CREATE TABLE hops.items (order_id integer, item text)")
        with server.cursor() as cursor:
            cursor.executemany("INSERT INTO hops.orders VALUES (%s, %s)", orders)
            cursor.executemany("INSERT INTO hops.items VALUES (%s, %s)", items)
        address = f"{database()}#hops."
    lookup = {"orders": sd.Lookup(f"{address}orders", key="id", of="order_id", private=True)}
    return look_up(open_source(f"{address}items"), lookup)


def count(source, unit=OWNER):
    check_lookups(source, unit, charged=False)
    found = prepare_counts(source, unit, kind="items", item="item", domain=ITEMS, salt=SALT).run()
    return Counter(
        {one: n for one, n in zip(found.labels, found.values.tolist(), strict=True) if n}
    )


def make(seed):
    chance = random.Random(seed)
    owners = {
        number: chance.choice(["a", "b", "c", None]) for number in range(chance.randint(1, 6))
    }
    items = [
        (chance.choice([*owners, 99, None]), chance.choice(ITEMS))
        for _ in range(chance.randint(0, 12))
    ]
    return owners, items


@pytest.mark.parametrize("engine", ["duckdb", "server"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sample(2)
def test_who_goes_takes_orders_and_their_items_and_moves_nobody(engine, seed, tmp_path, server):
    owners, items = make(seed)
    unit = PrivacyUnit("orders.customer")
    whole = count(place(engine, items, list(owners.items()), tmp_path, server))
    true = defaultdict(set)
    for order, item in items:
        if owners.get(order) is not None:
            true[item].add(owners[order])
    everything = count(place(engine, items, list(owners.items()), tmp_path, server), unit)
    assert everything == {item: len(people) for item, people in true.items()}
    for person in "abc":
        kept = {order: owner for order, owner in owners.items() if owner != person}
        # Items of orders that are gone may stay or go.
        for left in (
            items,
            [one for one in items if one[0] not in owners or owners[one[0]] != person],
        ):
            without = count(place(engine, left, list(kept.items()), tmp_path, server))
            assert sum((whole - without).values()) <= 1
            assert not without - whole


@pytest.mark.parametrize("engine", ["duckdb", "server"])
@pytest.mark.parametrize("key", ["", "NOT NULL"])
@pytest.mark.sample(2)
def test_owners_that_nothing_keeps_apart_are_refused(engine, key, tmp_path, server):
    source = place(engine, [(1, "tea")], [(1, "a")], tmp_path, server, key)
    with pytest.raises(InvalidParameter, match="nothing enforces that its key is unique"):
        count(source)


def test_what_looks_like_a_key_and_is_none_is_refused(tmp_path, server):
    def refused(match="nothing enforces that its key is unique", table="orders", key="id"):
        lookup = {
            "orders": sd.Lookup(f"{database()}#hops.{table}", key=key, of="order_id", private=True)
        }
        with pytest.raises(InvalidParameter, match=match):
            count(look_up(open_source(f"{database()}#hops.items"), lookup))

    place("server", [(1, "tea")], [(1, "a")], tmp_path, server)
    # A table that inherits has rows of its own, which the key does not cover.
    server.execute("CREATE TABLE hops.more () INHERITS (hops.orders)")
    server.execute("INSERT INTO hops.more VALUES (1, 'b')")
    refused()
    server.execute("DROP TABLE hops.more")
    server.execute(
        "CREATE VIEW hops.seen AS SELECT * FROM hops.orders UNION ALL SELECT * FROM hops.orders"
    )
    refused(table="seen")
    place("server", [(1, "tea")], [(1, "a")], tmp_path, server, "")
    server.execute("CREATE UNIQUE INDEX ON hops.orders (id) WHERE customer <> 'b'")
    refused()
    server.execute("ALTER TABLE hops.orders ADD PRIMARY KEY (id, customer)")
    refused()
    server.execute("DROP TABLE hops.orders")
    server.execute("CREATE TABLE hops.orders (id numeric(9,0) PRIMARY KEY, customer text)")
    refused()
    server.execute(
        'DROP TABLE hops.orders; CREATE TABLE hops.orders (id text COLLATE "C" UNIQUE, customer text)'
    )
    server.execute("INSERT INTO hops.orders VALUES (NULL, 'a'), (NULL, 'b'), ('1', 'a')")
    lookup = {
        "orders": sd.Lookup(f"{database()}#hops.orders", key="id", of="order_id", private=True)
    }
    # Keys that are missing may be several, and nothing finds them.
    assert count(look_up(open_source(f"{database()}#hops.items"), lookup)) == {"tea": 1}


@pytest.mark.parametrize("engine", ["duckdb", "server"])
def test_a_key_that_is_dropped_while_the_source_is_open_ends_the_reading(engine, tmp_path, server):
    source = place(engine, [(1, "tea")], [(1, "a")], tmp_path, server)
    question = prepare_counts(source, OWNER, kind="items", item="item", domain=ITEMS, salt=SALT)
    if engine == "server":
        server.execute("ALTER TABLE hops.orders DROP CONSTRAINT orders_pkey")
    else:
        [joined] = source.lookups
        with duckdb.connect(str(joined.table.source.reader.file)) as con:
            con.execute(
                "CREATE TABLE again AS FROM orders; DROP TABLE orders; ALTER TABLE again RENAME TO orders"
            )
    with pytest.raises(DataSourceError, match="could not finish this release"):
        question.run()


def test_a_repeated_order_would_take_over_the_items_of_all(tmp_path, server):
    # The twin: with the key believed and not enforced, one person's rows make everybody's items theirs, too.
    from dataclasses import replace

    items = [(n, "tea") for n in range(20)]
    orders = [(n, f"u{n}") for n in range(20)]
    counted = []
    for more in ([], [(n, "x") for n in range(20)]):
        source = place("duckdb", items, orders + more, tmp_path, server, "")
        [one] = source.lookups
        smallest = replace(one, table=replace(one.table, owns=True, choose=lambda kept, names, salt: f"SELECT unit, {', '.join(f'max({n}) AS {n}' for n in names)} FROM {kept} AS k GROUP BY unit"))  # fmt: skip
        broken = replace(source, lookups=(smallest,), backend=source.backend.look_up((smallest,)))
        counted.append(count(broken, PrivacyUnit("orders.customer"))["tea"])
    assert counted == [20, 1]


def test_a_public_table_owns_nothing(tmp_path, server):
    path = tmp_path / "orders.csv"
    path.write_text("id,customer\n1,a\n")
    source = place("duckdb", [(1, "tea")], [(1, "a")], tmp_path, server)
    source = look_up(
        open_source(f"duckdb:{source.files[0]}#items"),
        {"orders": sd.Lookup(path, key="id", of="order_id")},
    )
    with pytest.raises(InvalidParameter, match="must not be looked up in a public table"):
        count(source)


def test_labels_of_an_order_are_facts_of_that_order(tmp_path, server):
    source = place("duckdb", [(1, "tea"), (2, "tea")], [(1, "a"), (2, "a")], tmp_path, server)
    unit = PrivacyUnit("orders.customer")
    asked = prepare_counts(
        source, unit, kind="items", item="orders.customer", domain=["a", "b"], salt=SALT
    )
    assert asked.joint(2).bound == 2


def test_an_account_of_items_knows_the_orders(tmp_path, server):
    source = place(
        "duckdb",
        [(n, "tea") for n in range(9)],
        [(n, f"u{n % 3}") for n in range(9)],
        tmp_path,
        server,
    )
    address = f"duckdb:{source.files[0]}#"
    lookup = {"orders": sd.Lookup(f"{address}orders", key="id", of="order_id", private=True)}
    shop = sd.open(
        f"{address}items",
        name="items",
        person="orders.customer",
        epsilon=9,
        save=str(tmp_path / "l.db"),
        lookup=lookup,
    )
    found = shop.count_distinct_units(epsilon=8)
    assert sd.Ledger.open(str(tmp_path / "l.db"), account="items").source == "name:items + orders"
    assert found.population.unit == "column orders.customer"
    assert found.population.left_out == ("rows without a value in orders.customer",)
