"""Tables of a PostgreSQL server: the same states as everywhere, computed inside it; nothing of a row is written or said."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import psycopg
import pytest

import sordino as sd
from sordino.columns import StepRange
from sordino.errors import DataSourceError, InvalidParameter, UnsafePredicate
from sordino.questions import Domain, PrivacyUnit, prepare_counts
from sordino.sources import open_source
from sordino.sources.engine import quoted
from support.number_states import GRIDS, agrees, asked, floats, wholes
from support.postgres import database, own_server

CANARY = "canary-7f3a"
ROW = PrivacyUnit.row()


@pytest.fixture(scope="module")
def server():
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        connection.execute("CREATE SCHEMA shop")
        yield connection
        connection.execute("DROP SCHEMA shop CASCADE")


def made(server, name, rows, **types):
    """Make a table and return its address."""
    listed = ", ".join(f"{quoted(column)} {kind}" for column, kind in types.items())
    server.execute(f"DROP TABLE IF EXISTS shop.{name}")
    server.execute(f"CREATE TABLE shop.{name} ({listed})")
    with server.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO shop.{name} VALUES ({', '.join(['%s'] * len(types))})", rows
        )
    return f"{database()}#shop.{name}"


@pytest.mark.parametrize(
    "grid",
    [
        "from 0",
        "signed",
        "cut",
        "cut, 19.99",
        "cut, up to 0",
        *(
            pytest.param(n, marks=pytest.mark.slow)
            for n in ("far away", "made up", "fine", "cut, whole", "cut, signed")
        ),
    ],
)
def test_numbers_have_the_states_of_their_arrays(server, grid):
    values = floats(GRIDS[grid])
    agrees(made(server, "x", [[v] for v in values], x="double precision"), values, GRIDS[grid])
    whole = wholes(GRIDS[grid], -(1 << 63), (1 << 63) - 1)
    agrees(made(server, "x", [[v] for v in whole], x="bigint"), whole, GRIDS[grid])
    free = [
        Decimal("0.1"),
        Decimal("1e40"),
        Decimal("-1e40"),
        Decimal("NaN"),
        None,
        *(Decimal(v) for v in floats(GRIDS[grid])[:60] if v is not None),
    ]
    free += [
        Decimal("Infinity"),
        Decimal("-Infinity"),
        Decimal(1) / 3,
        Decimal("-0.000000000000000000000000001"),
        # No float is as small, and a cast to one would fail.
        Decimal("1e-400"),
        Decimal("-1e-400"),
    ]
    known = [None if v is None or v.is_nan() else v for v in free]
    agrees(made(server, "x", [[v] for v in free], x="numeric"), known, GRIDS[grid])


def test_declared_decimals_and_narrow_floats(server):
    values = [Decimal(v) / 100 for v in (-1, 0, 1, 99, 100, 105, 1999)]
    agrees(made(server, "x", [[v] for v in values], x="numeric(9,2)"), values, GRIDS["from 0"])
    narrow = [0.1, 1.05, 3e38, -0.0]
    agrees(
        made(server, "x", [[v] for v in narrow], x="real"),
        np.array(narrow, dtype=np.float32).tolist(),
        GRIDS["from 0"],
    )


def test_adding_a_unit_leaves_every_other_units_rows_as_they_were(server):
    chance = random.Random(1)

    def rows_of(unit, most):
        return [
            (unit, chance.choice("abcz"), chance.choice([0.0, -0.0, 1.25, 1.25, 3.0, 100.0, None]))
            for _ in range(most)
        ]

    def states(rows):
        address = made(server, "units", rows, u="text", g="text", x="double precision")
        unit = PrivacyUnit("u", max_rows=2)
        question = asked(
            address, GRIDS["from 0"], unit=unit, by="g", domain=["a", "b", "c"], groups_per_unit=2
        )
        totals = question.totals([StepRange(low=0, high=1 << 40, step=1)] * 3)
        return [
            np.append(counts.counts, total)
            for counts, total in zip(question.run(), totals, strict=True)
        ]

    others = [row for unit in "pqrst" for row in rows_of(unit, 9)]
    own = rows_of("new", 40)
    together = [*others, *own]
    chance.shuffle(together)
    alone = states(own)
    for after, before, mine in zip(states(together), states(others), alone, strict=True):
        assert (after == before + mine).all()
    assert sum(state[:-3].sum() > 0 for state in alone) <= 2
    assert all(state[:-3].sum() <= 2 for state in alone)


def test_sessions_count_and_choose(server):
    rows = [
        (f"u{i % 50}", ["tea", "rice", "salt", None][i % 4], i % 7, i % 3 == 0) for i in range(200)
    ]
    address = made(
        server, "orders", rows, u="varchar(9)", item="text", n="smallint", paid="boolean"
    )
    with sd.Session(address, unit=PrivacyUnit("u", max_rows=2), entropy=sd.Seeded(1)) as s:
        assert s.count_distinct_units(epsilon=200).estimate == pytest.approx(50, abs=1)
        assert s.count(epsilon=200).estimate == pytest.approx(100, abs=2)
        top = s.top_k("item", k=2, epsilon=50, domain=["tea", "rice", "salt", "gold"])
        assert {row.item for row in top} <= {"tea", "rice", "salt"}
        assert len(s.histogram("item", epsilon=1, domain=sd.Domain.assume_public())) == 3
        assert s.quantile("n", q=0.5, epsilon=20, lower=0, cap=100).value == pytest.approx(
            3, abs=1.5
        )
        assert s.sum("n", epsilon=100, lower=0, cap=100).value == pytest.approx(300, rel=0.3)
        assert s.mean("n", epsilon=100, lower=0, cap=100).value == pytest.approx(3, abs=0.6)
        grouped = s.sum(
            "n", epsilon=100, lower=0, cap=100, by="item", domain=["tea", "rice"], groups_per_unit=1
        )
        assert [row.item for row in grouped] == ["tea", "rice"]
    ranged = prepare_counts(
        open_source(address), ROW, kind="items", item="n", domain=sd.Domain.range(2, 5)
    ).run()
    assert dict(zip(ranged.positions.tolist(), ranged.values.tolist(), strict=True)) == {
        0: 29,
        1: 29,
        2: 28,
    }


def test_what_the_ledger_keeps_holds_no_password(server):
    address = made(server, "x", [[1.0]], x="double precision")
    source = open_source(address.replace("//sordino@", "//sordino:secret@"))
    assert source.kind == "postgres"
    assert source.identity == open_source(address).identity
    assert "secret" not in repr(source)
    with sd.Session(
        address.replace("//sordino@", "//sordino:secret@"), unit=ROW, entropy=sd.Seeded(1)
    ) as s:
        assert "secret" not in repr(s) + repr(s._executor.source.backend)


def test_what_is_refused_before_the_charge(server):
    address = made(
        server,
        "x",
        [[1.0, CANARY, None, 1]],
        x="double precision",
        t="text",
        j="jsonb",
        whole="integer",
    )
    base = database()
    for error, words, source in (
        (InvalidParameter, "#TABLE", base),
        (DataSourceError, "existing table or view", f"{base}#shop.none"),
        (DataSourceError, "existing table or view", f"{base}#x; DROP TABLE shop.x"),
        (DataSourceError, "must be reachable", "postgresql://sordino@127.0.0.1:1/none#x"),
        (InvalidParameter, "percent-encoded", "postgresql://a:b@c@d/e#f"),
    ):
        with pytest.raises(error, match=words) as caught:
            open_source(source)
        assert CANARY not in str(caught.value)
        assert caught.value.__cause__ is None
    for column in ("t", "j"):
        with pytest.raises(InvalidParameter, match="whole numbers, decimals or floats"):
            asked(address, GRIDS["from 0"], column=column)
    with pytest.raises(InvalidParameter, match="Name a view") as caught:
        asked(address, GRIDS["from 0"], where="x + 1 > 3")
    assert CANARY not in str(caught.value)
    with pytest.raises(UnsafePredicate):
        prepare_counts(open_source(address), ROW, kind="rows", where="random() > x")


def test_a_failure_after_the_charge_says_nothing(server):
    server.execute(
        f"CREATE OR REPLACE VIEW shop.bad AS SELECT CAST('{CANARY}' || g AS double precision) AS x FROM generate_series(1, 3) g"
    )
    question = asked(f"{database()}#shop.bad", GRIDS["from 0"])
    with pytest.raises(DataSourceError) as caught:
        question.run()
    assert str(caught.value) == DataSourceError.AFTER_CHARGE
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_nothing_is_written_and_a_view_that_writes_fails(server):
    address = made(server, "log", [], x="double precision")
    server.execute(
        "CREATE OR REPLACE FUNCTION shop.writes() RETURNS double precision LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO shop.log VALUES (1); RETURN 1; END $$"
    )
    server.execute("CREATE OR REPLACE VIEW shop.writing AS SELECT shop.writes() AS x")
    question = asked(f"{database()}#shop.writing", GRIDS["from 0"])
    with pytest.raises(DataSourceError):
        question.run()
    assert asked(address, GRIDS["from 0"]).run()[0].records == 0


def test_what_a_role_may_not_read_is_refused_before_the_charge():
    cluster = own_server()
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        for statement in (
            "DROP TABLE IF EXISTS public.half_secret",
            "CREATE TABLE public.half_secret (x double precision, y double precision)",
            "INSERT INTO public.half_secret VALUES (1, 2)",
            "DROP ROLE IF EXISTS clerk",
            "CREATE ROLE clerk LOGIN",
            "GRANT SELECT (y) ON public.half_secret TO clerk",
        ):
            connection.execute(statement)
        clerk = f"{cluster.url('clerk')}#half_secret"
        assert asked(clerk, GRIDS["from 0"], column="y").run()[0].records == 1
        with pytest.raises(DataSourceError, match="may be read"):
            asked(clerk, GRIDS["from 0"], column="x")
        connection.execute("DROP TABLE public.half_secret")
        connection.execute("DROP ROLE clerk")


def test_odd_names_are_names(server):
    address = made(server, "odd", [[7.0, "a"]], **{'a"b %s': "double precision", "labels": "text"})
    question = asked(address, GRIDS["from 0"], column='a"b %s', by="labels", domain=["a", "%s"])
    assert [counts.records for counts in question.run()] == [0, 1]


def test_a_type_of_somebody_elses_schema_is_not_taken_for_text(server):
    server.execute("DROP SCHEMA IF EXISTS characters CASCADE")
    server.execute("CREATE SCHEMA characters")
    try:
        server.execute("CREATE TYPE characters.varying AS (a int)")
        server.execute(
            "CREATE TABLE shop.typed (u characters.varying, v varchar(3), w char(2), x varchar, y character(4))"
        )
        columns = dict(open_source(f"{database()}#shop.typed").columns)
    finally:
        server.execute("DROP SCHEMA characters CASCADE")
    assert columns == {"u": "UNUSABLE characters.varying", **dict.fromkeys("vwxy", "VARCHAR")}


def test_what_is_computed_when_it_is_read_is_not_used(server):
    [(version,)] = server.execute("SHOW server_version_num").fetchall()
    kind = (
        "VIRTUAL" if int(version) >= 180000 else "STORED"
    )  # which servers before did not know otherwise
    server.execute("DROP TABLE IF EXISTS shop.synthetic")
    server.execute(f"CREATE TABLE shop.synthetic (a int, g int GENERATED ALWAYS AS (a + 1) {kind})")
    columns = dict(open_source(f"{database()}#shop.synthetic").columns)
    assert columns == {
        "a": "INTEGER",
        "g": "UNUSABLE integer (computed when it is read)" if kind == "VIRTUAL" else "INTEGER",
    }


@pytest.mark.slow  # 256 MiB
def test_the_text_of_a_whole_number_is_looked_for_in_short_texts_alone(server):
    """A pattern widens a text fourfold: beyond 256 MiB the server would fail."""
    address = made(server, "long", [["7"], ["-3"], ["07"], ["x" * 30]], x="text")
    server.execute("INSERT INTO shop.long VALUES (repeat('7', 268435455))")
    question = prepare_counts(
        open_source(address), ROW, kind="items", item="x", domain=sd.Domain.range(-5, 9)
    )
    assert question.run().values.tolist() == [1, 1]


def test_a_table_with_a_part_elsewhere_is_computed(server):
    server.execute("DROP TABLE IF EXISTS shop.whole")
    server.execute("CREATE TABLE shop.whole (a int) PARTITION BY RANGE (a)")
    server.execute("CREATE TABLE shop.part PARTITION OF shop.whole FOR VALUES FROM (0) TO (9)")
    assert not open_source(f"{database()}#shop.whole").computed
    server.execute("DROP FOREIGN DATA WRAPPER IF EXISTS nowhere CASCADE")
    server.execute("CREATE FOREIGN DATA WRAPPER nowhere")
    try:
        server.execute("CREATE SERVER away FOREIGN DATA WRAPPER nowhere")
        server.execute(
            "CREATE FOREIGN TABLE shop.other PARTITION OF shop.whole FOR VALUES FROM (9) TO (99) SERVER away"
        )
        assert open_source(f"{database()}#shop.whole").computed
    finally:
        server.execute("DROP FOREIGN DATA WRAPPER nowhere CASCADE")


def test_files_of_a_server_list_no_labels():
    """A process that may read them would see its rows without a charge."""
    cluster = own_server()
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS public.kept")
        connection.execute("CREATE TABLE public.kept (item text)")
        connection.execute("INSERT INTO public.kept VALUES ('secret')")
        connection.execute("CHECKPOINT")
        [(name,)] = connection.execute("SELECT pg_relation_filepath('public.kept')").fetchall()
    source = open_source(f"{cluster.url()}#public.kept")
    file = cluster.data / name
    assert b"secret" in file.read_bytes()
    query = f"SELECT 'tea' FROM read_blob('{file}') WHERE position('secret' IN CAST(content AS VARCHAR)) > 0"
    for files in ([], [file]):
        with pytest.raises(UnsafePredicate):
            Domain.from_sql(query, files=files).resolve(source)
    for path in (file, cluster.data / "PG_VERSION", cluster.data / "postgresql.conf"):
        with pytest.raises(UnsafePredicate, match="files of a server"):
            Domain.from_file(path).resolve(source)


def test_a_type_of_a_server_has_its_name_and_a_cast(server):
    server.execute("DROP TABLE IF EXISTS shop.odd")
    server.execute('CREATE TABLE shop.odd (a text, p point, "say ""hi""" int4range)')
    source = open_source(f"{database()}#shop.odd")
    for column, kind in (("p", "point"), ('say "hi"', "int4range")):
        with pytest.raises(
            InvalidParameter,
            match=rf"of type {kind}\. Name a view that has it as CAST\(NAME AS text\)",
        ):
            prepare_counts(source, PrivacyUnit(column), kind="units")
