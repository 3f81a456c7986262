"""Private tables by the person: both tables together are a sum over people, and nobody's rows decide about others."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import chain, combinations, count

import pandas as pd
import polars as pl
import psycopg
import pytest

import sordino as sd
from sordino.errors import InvalidParameter, LedgerConflict, SordinoError, UnsafePredicate
from sordino.questions import Domain, PrivacyUnit, lookups as module, prepare_counts
from sordino.questions.lookups import look_up
from sordino.sources import open_source
from sordino.sources.sql.sql_templates import EMBEDDED
from support.postgres import database

PERSON = PrivacyUnit("who")
PEOPLE = [
    "bob",
    "Bob",
    " bob",
    'b"ob',
    "b'ob",
    "é",
    "e\u0301",
    "7",
    "007",
    "9007199254740992",
    "9007199254740993",
]
REGIONS = ["9", "10", "north", "North", ""]
SALT = b"s" * 16
NUMBERS = count()


@pytest.fixture(scope="module")
def server():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS lent CASCADE; CREATE SCHEMA lent")
        yield connection
        connection.execute("DROP SCHEMA lent CASCADE")


def make(seed):
    """Return rows of orders and of customers: some people have none there, one or several, some ids are missing."""
    chance = random.Random(seed)
    people = chance.sample(PEOPLE, chance.randint(2, 6))
    whom = [*people, None]
    orders = [(chance.choice(whom), chance.choice("xyz")) for _ in range(chance.randint(0, 12))]
    customers = [
        (chance.choice(whom), chance.choice(REGIONS), str(chance.randint(1, 30)))
        for _ in range(chance.randint(0, 9))
    ]
    return people, orders, customers


def join(orders, customers, engine, folder, server=None):
    """Return orders with what their people have among the customers."""
    names = ("id", "region", "age")
    if engine == "server":
        for table, rows, columns in (
            ("orders", orders, ("who", "item")),
            ("customers", customers, names),
        ):
            listed = ", ".join(f"{name} text" for name in columns)
            server.execute(
                f"DROP TABLE IF EXISTS lent.{table}; CREATE TABLE lent.{table} ({listed})"
            )
            with server.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO lent.{table} VALUES ({', '.join(['%s'] * len(columns))})", rows
                )
        source, path = open_source(f"{database()}#lent.orders"), f"{database()}#lent.customers"
    else:
        # One for each pair of tables: rows are read later.
        path = folder / f"customers{next(NUMBERS)}.parquet"
        pl.DataFrame(customers, schema=dict.fromkeys(names, pl.String), orient="row").write_parquet(
            path
        )
        source = open_source(
            pl.DataFrame(orders, schema={"who": pl.String, "item": pl.String}, orient="row")
        )
    return look_up(source, {"c": sd.Lookup(path, key="id", of="who", private=True)})


def histogram(source, unit, item, **more):
    source = source.compute([item] if isinstance(item, str) else item)
    domain = more.pop("domain", None)
    found = prepare_counts(
        source, unit, kind="items", item=item, domain=domain, salt=SALT, **more
    ).run()
    return Counter(
        {one: n for one, n in zip(found.labels, found.values.tolist(), strict=True) if n}
    )


PAIRS = [(region, item) for region in REGIONS if region for item in "xyz"]
ASKED = {
    "region": {"item": "c.region", "domain": REGIONS[:4]},
    "lowered": {"item": "lower(c.region)", "domain": ["9", "10", "north"]},
    "pairs": {"item": ("c.region", "item"), "domain": PAIRS},
    "one of the pairs": {"item": ("c.region", "item"), "domain": PAIRS, "most": 1},
    "with age": {"item": "c.region", "domain": REGIONS[:4], "where": "c.age IS NOT NULL"},
}


def ask(source, kind):
    asked = dict(ASKED[kind])
    return histogram(source, PrivacyUnit("who", max_rows=asked.pop("most", None)), **asked)


def subsets_of_one(rows, person):
    return [row for row in rows if row[0] == person], [row for row in rows if row[0] != person]


@pytest.mark.parametrize("engine", ["polars", "server"])
@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 30))]
)
def test_two_tables_are_the_sum_of_their_people(engine, seed, tmp_path, server):
    people, orders, customers = make(seed)
    kinds = list(ASKED)
    whole = {kind: ask(join(orders, customers, engine, tmp_path, server), kind) for kind in kinds}
    alone = {kind: Counter() for kind in kinds}
    for person in people:
        own, others = (
            [subsets_of_one(rows, person)[side] for rows in (orders, customers)] for side in (0, 1)
        )
        # One after the other: a server has one pair of tables at a time.
        source = join(*own, engine, tmp_path, server)
        found = {kind: ask(source, kind) for kind in kinds}
        source = join(*others, engine, tmp_path, server)
        without = {kind: ask(source, kind) for kind in kinds}
        for kind, mine in found.items():
            alone[kind] += mine
            # Who leaves takes away what is theirs, and moves nobody else.
            assert whole[kind] - without[kind] == mine
            assert not without[kind] - whole[kind]
            bound = 1 if kind in {"region", "lowered", "with age", "one of the pairs"} else 3
            assert sum(mine.values()) <= bound
    assert alone == whole


@pytest.mark.parametrize("engine", ["polars", "server"])
def test_people_with_one_row_have_what_stands_there(engine, tmp_path, server):
    customers = [(person, REGIONS[place % 4], "30") for place, person in enumerate(PEOPLE)]
    orders = [(person, "x") for person in PEOPLE for _ in range(3)] + [("nobody", "x"), (None, "x")]
    found = ask(join(orders, customers, engine, tmp_path, server), "region")
    assert found == Counter(region for _, region, _ in customers)


def test_of_several_rows_each_is_lent_about_as_often(tmp_path):
    customers = [(f"u{n}", region, "1") for n in range(3000) for region in ("9", "10", "north")]
    orders = [(f"u{n}", "x") for n in range(3000)]
    source = join(orders, customers, "polars", tmp_path)
    found = ask(source.draw_rows(b"one secret of a session"), "region")
    assert sum(found.values()) == 3000
    # Six standard deviations around a third.
    assert all(845 < found[one] < 1155 for one in ("9", "10", "north"))
    assert found != ask(source.draw_rows(b"another one"), "region")
    assert found == ask(source.draw_rows(b"one secret of a session"), "region")


def test_one_row_in_a_frame_changes_nothing_about_others(tmp_path, monkeypatch):
    # pandas makes texts of a column of numbers for one word, and '10' comes before '9' then.
    def lend(more):
        rows = [(n, region) for n in range(300) for region in (9, 10)] + more
        frame = pd.DataFrame(rows, columns=["id", "region"])
        orders = open_source(pd.DataFrame({"who": list(range(300))}))
        other = open_source(frame)
        monkeypatch.setattr(module, "open_source", lambda _: other)
        source = look_up(orders, {"c": sd.Lookup("-", key="id", of="who", private=True)})
        return histogram(
            source.draw_rows(b"s"),
            PERSON,
            ("c.region", "who"),
            domain=[(r, str(n)) for n in range(300) for r in ("9", "10", "abc")],
        )

    before, after = lend([]), lend([("abc", "abc")])
    assert before == after
    assert len({region for region, _ in before}) == 2


# ---- twins ------------------------------------------------------------------------------------------------------


def find_worst(tmp_path, choose):
    """Return how far one person moves all counts of people by region, with another way to choose a row."""
    customers = [("bob", "9"), ("Bob", "10"), *(("b'ob", one) for one in ("9", "10", "north"))]
    customers = [(person, region, "1") for person, region in customers]
    counted = []
    for gone in (None, "bob", "Bob", "b'ob"):
        kept = [row for row in customers if row[0] != gone]
        orders = [(person, "x") for person in ("bob", "Bob", "b'ob") if person != gone]
        source = join(orders, kept, "polars", tmp_path)
        [one] = source.lookups
        other = replace(one, table=replace(one.table, choose=choose))
        source = replace(source, lookups=(other,), backend=source.backend.look_up((other,)))
        counted.append(histogram(source, PERSON, "c.region", domain=REGIONS[:4]))
    whole, *without = counted
    return max(sum((whole - one).values()) + sum((one - whole).values()) for one in without)


def test_the_right_choice_moves_one_count_and_broken_ones_more(tmp_path):
    def ours(kept, names, salt):
        return module._choose_one(kept, names, salt, EMBEDDED)

    def by_all(kept, names, salt):
        listed = ", ".join(names)
        return (
            f"SELECT unit, {listed} FROM (SELECT *, row_number() OVER (PARTITION BY unit ORDER BY {listed}) - 1 AS p,"
            f" count(*) OVER (PARTITION BY unit) AS n, count(*) OVER () AS many FROM {kept} AS k) WHERE p = many % n"
        )

    def blind(kept, names, salt):
        listed = ", ".join(f"min({name}) AS {name}" for name in names)
        return f"SELECT unit, {', '.join(names)} FROM (SELECT lower(trim(unit)) AS l, {listed} FROM {kept} AS k GROUP BY l) JOIN (SELECT DISTINCT unit FROM {kept} AS k) ON lower(trim(unit)) = l"

    def all_of_them(kept, names, salt):
        return f"SELECT unit, {', '.join(names)} FROM {kept} AS k"

    assert find_worst(tmp_path, ours) == 1
    assert find_worst(tmp_path, by_all) > 1
    assert find_worst(tmp_path, blind) > 1
    assert find_worst(tmp_path, all_of_them) > 1


# ---- costs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("adjacency", "moves"), [("add-remove", 1), ("replace-one", 2)])
def test_labels_of_the_person_alone_need_no_bound(adjacency, moves, tmp_path):
    people, orders, customers = make(3)
    source, unit = (
        join(orders, customers, "polars", tmp_path),
        PrivacyUnit("who", adjacency=adjacency),
    )
    ask_one = {"kind": "items", "item": "c.region", "domain": REGIONS[:4], "salt": SALT}
    assert prepare_counts(source, unit, **ask_one).joint(4).bound == moves
    call = source.compute(["lower(c.region)"])
    assert (
        prepare_counts(call, unit, **ask_one | {"item": "lower(c.region)"}).joint(4).bound == moves
    )
    # A column of the table beside it, or in place of it, says something of each row.
    pairs = ask_one | {"item": ("c.region", "item"), "domain": PAIRS}
    assert prepare_counts(source, unit, **pairs).joint(12).bound == 12
    own = ask_one | {"item": "item", "domain": list("xyz")}
    assert prepare_counts(source, unit, **own).joint(3).bound == 3
    both = source.compute(["coalesce(c.region, item)"])
    mixed = ask_one | {"item": "coalesce(c.region, item)"}
    assert prepare_counts(both, unit, **mixed).joint(4).bound == 4
    assert people


# ---- refusals and accounts --------------------------------------------------------------------------------------


def test_private_tables_are_looked_up_by_the_person_alone(tmp_path):
    pl.DataFrame({"id": ["a"], "region": ["n"]}).write_parquet(tmp_path / "c.parquet")
    path = tmp_path / "c.parquet"
    orders = pl.DataFrame({"who": ["a"], "shop": ["s"]})

    def refused(lookup, match, unit=PERSON, frame=orders):
        with pytest.raises(InvalidParameter, match=match):
            sd.Session(frame, unit=unit, ledger=None, lookup={"c": lookup})

    refused(
        sd.Lookup(path, key="id", of="shop", private=True), "must be looked up by the person, 'who'"
    )
    refused(
        sd.Lookup(path, key="id", of="who", private=True),
        "by the person, each row",
        PrivacyUnit.row(),
    )
    refused(sd.Lookup(path, key="nr", of="who", private=True), r"lookup\.c\.key must be a column")
    refused(
        sd.Lookup(path, key="id", of="who", private="yes"), r"Lookup\.private"
    ) if False else None
    with pytest.raises(InvalidParameter, match=r"Lookup\.private must be"):
        sd.Lookup(path, key="id", private="yes")
    refused(
        sd.Lookup(path, key="id", of="who", private=True),
        "nothing enforces that its key is unique",
        PrivacyUnit("c.region"),
    )
    refused(
        sd.Lookup(f"{database()}#pg_catalog.pg_class", key="relname", of="who", private=True),
        "read by the engine that reads the table",
    )


def test_what_is_beside_a_private_table_is_private_too(tmp_path):
    folder = tmp_path / "private"
    folder.mkdir()
    pl.DataFrame({"id": ["a"], "region": ["n"]}).write_parquet(folder / "c.parquet")
    (folder / "c.parquet.labels.csv").write_text("region\nn\n")
    session = sd.Session(
        pl.DataFrame({"who": ["a"]}), unit=PERSON, ledger=None,
        lookup={"c": sd.Lookup(folder / "c.parquet", key="id", of="who", private=True)},
    )  # fmt: skip
    with pytest.raises(SordinoError, match="must not be made of the rows of the source"):
        session.histogram(
            "c.region", epsilon=1, domain=Domain.from_file(folder / "c.parquet.labels.csv")
        )
    with pytest.raises(InvalidParameter, match="no rows of the private"):
        session.plan.count_distinct_units(epsilon=1, like=folder / "c.parquet")


@pytest.mark.parametrize("beside", ["c.csv", "c.csv.bak"])
@pytest.mark.parametrize("first", ["public", "private"])
@pytest.mark.sample(2)
def test_a_private_table_is_no_public_one_whichever_is_named_first(beside, first, tmp_path):
    (tmp_path / "c.csv").write_text("id,region\na,N\n")
    (tmp_path / beside).write_text("id,region\na,N\n")
    public = {"p": sd.Lookup(tmp_path / beside, key="id", of="item")}
    private = {"c": sd.Lookup(tmp_path / "c.csv", key="id", of="who", private=True)}
    rows = pl.DataFrame({"who": ["a"], "item": ["a"]})
    with pytest.raises(UnsafePredicate, match="must not be made of the rows"):
        look_up(open_source(rows), public | private if first == "public" else private | public)
    # In two steps as well.
    with pytest.raises(UnsafePredicate):
        look_up(look_up(open_source(rows), public), private)


def find_two_rows(tmp_path, **more):
    path = tmp_path / "twice.parquet"
    pl.DataFrame({"id": [n // 2 for n in range(800)], "region": ["N", "S"] * 400}).write_parquet(
        path
    )
    rows = pl.DataFrame({"who": range(400), "x": [1.0] * 400})
    lookup = {"c": sd.Lookup(path, key="id", of="who", private=True)}
    return sd.Session(rows, unit=PERSON, entropy=sd.Seeded(3), lookup=lookup, **more)


def test_who_has_several_rows_is_counted_by_one_and_that_is_said(tmp_path):
    session = find_two_rows(tmp_path)
    found = session.histogram("c.region", epsilon=5, domain=["N", "S"])
    assert found.population.lent == ("c",)
    assert all(row.true_high == float("inf") and row.true_low == row.low for row in found)
    told = str(found)
    assert "holds the true number" not in told
    assert "each by one row of c, drawn if there are more" in told
    some = session.count_distinct_units(epsilon=5, where="c.region = 'N'")
    assert some.true_high == float("inf")
    assert "by one row of c, drawn if there are more" in str(some)
    assert "holds the true number" not in str(some)
    total = session.sum("x", epsilon=5, per_person="sum", where="c.region = 'N'", lower=0, cap=9)
    assert "by one row of c" in str(total)
    # In a frame and a plan as well, beside a bound on rows and without one.
    for frame in (found.to_polars(), some.to_polars(), total.to_polars()):
        assert set(frame["lent"]) == {"c"}
        assert "max_rows" not in frame.columns
    plan = session.plan.count_distinct_units(epsilon=5, where="c.region = 'N'")
    assert "rows of a person in c beyond one, which is drawn" in plan.left_out
    bounded = replace(found.population, max_rows=2)
    assert bounded.say_bound() == [
        "Counts at most 2 items of each person, by one row of c, drawn if there are more; true counts may be higher."
    ]
    # What reads no such table is as it was.
    assert session.count_distinct_units(epsilon=5).true_high < 500
    assert "lent" not in session.count_distinct_units(epsilon=5).population.list_facts()


def test_a_row_is_lent_once_for_all_releases_of_a_session(tmp_path):
    session = find_two_rows(tmp_path)
    alone = [row.estimate for row in session.histogram("c.region", epsilon=500, domain=["N", "S"])]
    with session.batch():
        together = session.histogram("c.region", epsilon=500, domain=["N", "S"])
    assert [row.estimate for row in together.result] == alone
    assert sum(alone) == 400
    assert min(alone) > 120


def test_an_account_is_about_all_private_tables(tmp_path):
    path = tmp_path / "c.parquet"
    pl.DataFrame({"id": ["a", "b"], "region": ["n", "s"]}).write_parquet(path)
    orders, url = pl.DataFrame({"who": ["a", "b"]}), str(tmp_path / "l.db")
    lookup = {"c": sd.Lookup(path, key="id", of="who", private=True)}
    shop = sd.open(orders, name="orders", person="who", epsilon=9, save=url, lookup=lookup)
    assert (
        shop.histogram("c.region", epsilon=1, domain=["n", "s"])
        .population.lookups[0]
        .startswith("c: private")
    )
    ledger = sd.Ledger.open(url, account="orders")
    assert ledger.source == "name:orders + c"
    # What reads some of its tables is a release of all of them.
    sd.open(orders, name="orders", person="who", epsilon=9, save=url).count_distinct_units(
        epsilon=1
    )
    assert ledger.remaining == 7
    pl.DataFrame({"id": ["a"], "age": [3]}).write_parquet(tmp_path / "d.parquet")
    more = lookup | {"d": sd.Lookup(tmp_path / "d.parquet", key="id", of="who", private=True)}
    with pytest.raises(
        LedgerConflict,
        match="it has about name:orders [+] c, and this table would need about name:orders [+] c [+] d",
    ):
        sd.open(orders, name="orders", person="who", epsilon=9, save=url, lookup=more)
    with pytest.raises(LedgerConflict, match="sordino ledger resource --to NAME"):
        sd.Session(
            orders, unit=PERSON, ledger=ledger, name="orders", lookup=more
        ).count_distinct_units(epsilon=1)
    wider = ledger.call_by_name("orders", place="orders", others=["c", "d"])
    assert wider.source == "name:orders + c + d"
    sd.Session(orders, unit=PERSON, ledger=wider, name="orders", lookup=more).count_distinct_units(
        epsilon=1
    )
    assert wider.verify().sound
    with pytest.raises(LedgerConflict):
        wider.call_by_name("orders", place="orders", others=["c"])
    # What stands in the way is said, and not that somebody else was quicker.
    wider.grant("kid", 1)
    with pytest.raises(LedgerConflict, match="has shares"):
        wider.call_by_name("orders", place="orders", others=["c", "d", "e"])
    orders.write_parquet(tmp_path / "o.parquet")
    plain = sd.Ledger.create(
        url,
        account="path",
        budget=sd.Budget(epsilon=1),
        unit=PERSON,
        adjacency="add-remove",
        source=tmp_path / "o.parquet",
    )
    with pytest.raises(InvalidParameter, match="must know both tables by their names"):
        sd.Session(tmp_path / "o.parquet", unit=PERSON, ledger=plain, lookup=lookup)


def test_a_moved_account_that_was_narrowed_by_hand_does_not_hold(tmp_path):
    import sqlite3

    url = str(tmp_path / "l.db")
    ledger = sd.Ledger.create(
        url,
        account="a",
        budget=sd.Budget(epsilon=1),
        unit=PERSON,
        adjacency="add-remove",
        source="name:orders",
    )
    wider = ledger.call_by_name("orders", place="orders", others=["c"])
    assert wider.verify().sound
    with sqlite3.connect(url) as con:
        [(table,)] = con.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE '%account' AND type = 'table'"
        ).fetchall()
        con.execute(f"UPDATE {table} SET source = 'name:orders'")
    assert not sd.Ledger.open(url, account="a").verify().sound


def test_every_pair_of_small_tables_moves_by_its_bound(tmp_path):
    # All databases of two people with at most one order and two customer rows each.
    def rows(person):
        own = [(person, region, "1") for region in ("9", "10")]
        return list(chain.from_iterable(combinations(own + own, n) for n in range(3)))

    def tally(first, second, ordered):
        orders = [(person, "x") for person in ordered]
        source = join(orders, [*first, *second], "polars", tmp_path).draw_rows(b"k")
        return histogram(source, PERSON, "c.region", domain=["9", "10"])

    known = {}
    for first in set(rows("a")):
        for ordered in ((), ("a",)):
            known[first, ordered] = tally(first, (), ordered)
    for first in sorted(set(rows("a")), key=len)[-2:]:
        for second in set(rows("b")):
            both = tally(first, second, ("a", "b"))
            moved = both.copy()
            moved.subtract(known[first, ("a",)])
            assert sum(map(abs, moved.values())) <= 1
            assert min([0, *moved.values()]) == 0


def test_two_budgets_for_one_private_table_are_said_to_be_meant(tmp_path):
    url, about = str(tmp_path / "l.db"), {"unit": PERSON, "adjacency": "add-remove"}
    budget = sd.Budget(epsilon=1)
    sd.Ledger.create(url, account="c", budget=budget, source="name:c", **about)
    orders = sd.Ledger.create(url, account="orders", budget=budget, source="name:orders", **about)
    with pytest.raises(LedgerConflict, match="because account 'c' is about one of them"):
        orders.call_by_name("orders", place="orders", others=["c"])
    orders.call_by_name("orders", place="orders", others=["c"], second_budget=True)
    frame = pl.DataFrame({"who": ["a"]})
    frame.with_columns(region=pl.lit("n")).write_parquet(tmp_path / "d.parquet")
    lookup = {"orders": sd.Lookup(tmp_path / "d.parquet", key="who", private=True)}
    with pytest.raises(LedgerConflict, match="is about that table already"):
        sd.open(frame, name="baskets", person="who", epsilon=1, save=url, lookup=lookup)
    sd.open(
        frame, name="baskets", person="who", epsilon=1, save=url, lookup=lookup, second_budget=True
    )
