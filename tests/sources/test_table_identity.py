"""One table has one identity, and so one account, however its address is written."""

from __future__ import annotations

import duckdb
import psycopg
import pytest

import sordino as sd
from sordino.address import ServerTable
from sordino.errors import DataSourceError, InvalidParameter, LedgerConflict
from sordino.ledger import Budget, Ledger, canonical_source
from sordino.ledger.store import store
from sordino.questions import PrivacyUnit
from sordino.sources import open_source
from support.postgres import own_server

ROW = PrivacyUnit.row()


@pytest.fixture(scope="module")
def server():
    cluster = own_server()
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        connection.execute("CREATE SCHEMA shop")
        for table in (
            "public.visits",
            "shop.visits",
            'shop."Visits"',
            'shop."a.b"',
            '"shop"."odd/%#name"',
        ):
            connection.execute(f"DROP TABLE IF EXISTS {table}".encode())
            connection.execute(f"CREATE TABLE {table} AS SELECT 1 AS x".encode())
        yield cluster
        connection.execute("DROP SCHEMA shop CASCADE")
        connection.execute("DROP TABLE public.visits")


def spellings(cluster, table="shop.visits"):
    port = cluster.port
    return [
        f"postgresql://sordino@127.0.0.1:{port}/ledgers#{table}",
        f"postgresql://sordino:secret@127.0.0.1:{port}/ledgers#{table}",
        f"postgresql://sordino@localhost:{port}/ledgers#{table}",
        f"postgresql://sordino@LOCALHOST:{port}/ledgers#{table}",
        f"postgresql://sordino@127%2e0%2E0.1:{port}/%6cedgers#{table}",
        f"postgresql://sordino@127.0.0.1:1,127.0.0.1:{port}/ledgers#{table}",
        f"postgresql://127.0.0.1:{port}/ledgers?user=sordino&connect_timeout=5#{table}",
        f"postgresql:///ledgers?host=127.0.0.1&port={port}&user=sordino#{table}",
        f"postgresql://elsewhere.invalid/ledgers?hostaddr=127.0.0.1&port={port}&user=sordino#{table}",
        f"postgresql://sordino@127.0.0.1:{port}/postgres?dbname=ledgers#{table}",
        f"postgresql://sordino@127.0.0.1:{port}/ledgers?options=-csearch_path%3Dpublic#{table}",
    ]


def test_a_table_of_a_server_has_one_identity(server):
    known = {open_source(address).identity for address in spellings(server)}
    with psycopg.connect(server.url(), autocommit=True) as connection:
        [system] = connection.execute(
            "SELECT system_identifier FROM pg_control_system()"
        ).fetchone()
    assert known == {f"postgresql:{system}/ledgers#shop.visits"}
    assert {
        open_source(one).identity
        for name in ("visits", "public.visits")
        for one in spellings(server, name)
    } == {f"postgresql:{system}/ledgers#public.visits"}


def test_other_tables_have_other_identities(server):
    base = spellings(server)[0].partition("#")[0]
    tables = ("shop.visits", "visits", "shop.Visits", "shop.odd/%#name")
    known = [open_source(f"{base}#{table}").identity for table in tables]
    assert len(set(known)) == len(tables)
    assert known[-1].endswith("/ledgers#shop.odd%2F%25%23name")
    with server.superuser() as connection:
        connection.execute("CREATE DATABASE other")
        with psycopg.connect(server.url(database="other"), autocommit=True) as inside:
            inside.execute("CREATE SCHEMA shop")
            inside.execute("CREATE TABLE shop.visits AS SELECT 1 AS x")
        other = open_source(server.url(database="other") + "#shop.visits").identity
        connection.execute("DROP DATABASE other")
    assert other.endswith("/other#shop.visits")
    assert other not in known
    for name in ("no.visits", "shop.none", "a.b", "shop.a"):
        with pytest.raises(DataSourceError, match="existing table or view"):
            open_source(f"{base}#{name}")


def account(path, source, name="visits"):
    return Ledger.create(
        path,
        account=name,
        budget=Budget(epsilon=10),
        adjacency="add-remove",
        unit=ROW,
        source=source,
    )


@pytest.mark.slow
def test_an_account_is_found_by_every_address_of_its_table(server, tmp_path):
    for number, made_with in enumerate(spellings(server)):
        ledger = account(tmp_path / f"{number}.db", made_with)
        assert "secret" not in ledger.statement().source
        for number_of_charges, address in enumerate(spellings(server), start=1):
            with sd.Session(address, unit=ROW, ledger=ledger) as session:
                session.count(epsilon=0.125)
            assert ledger.remaining == 10 - number_of_charges * sd.Budget(epsilon=0.125).limit
        ledger.reserve(sd.cost.Pure(epsilon=0.125), source=made_with)
        with pytest.raises(LedgerConflict, match="is about"):
            ledger.reserve(
                sd.cost.Pure(epsilon=0.125), source=made_with.replace("#shop.visits", "#visits")
            )


def kept_as(ledger, text):
    """Let an account keep the text that an older version would have kept."""
    import sqlite3

    from sordino.ledger.store import sqlite

    sqlite.close_all()
    connection = sqlite3.connect(ledger.url)
    connection.execute("UPDATE account SET source = ?", [text])
    connection.commit()
    connection.close()
    return Ledger.open(ledger.url, account=ledger.account)


@pytest.mark.parametrize("written", ["127.0.0.1:{}", "localhost:{}", "127%2e0.0.1:{}", "[::1]:{}"])
@pytest.mark.sample(4)
def test_an_account_of_an_older_version_is_found_by_what_surely_means_the_same(
    server, tmp_path, written
):
    address = spellings(server)[0]
    ledger = account(tmp_path / "budget.db", address)
    ledger = kept_as(ledger, f"postgresql://{written.format(server.port)}/ledgers#shop.visits")
    for same in spellings(server)[:5]:
        with sd.Session(same, unit=ROW, ledger=ledger) as session:
            session.count(epsilon=0.5)
    for unclear in spellings(server)[7:10]:
        with (
            sd.Session(unclear, unit=ROW, ledger=ledger) as session,
            pytest.raises(LedgerConflict, match="by that address"),
        ):
            session.count(epsilon=0.5)
    with (
        sd.Session(address.replace("shop.", ""), unit=ROW, ledger=ledger) as session,
        pytest.raises(LedgerConflict, match="is about"),
    ):
        session.count(epsilon=0.5)
    assert ledger.remaining == 10 - 5 * sd.Budget(epsilon=0.5).limit


def test_an_older_address_means_the_same_only_where_all_of_it_does():
    table = ServerTable(
        1, ("shop", "public", "orders"), "postgresql://me:x@Db:5432/shop?sslmode=require#orders"
    )
    for same in (
        "postgresql://db/shop#orders",
        "postgresql://DB:5432/shop#public.orders",
        "postgresql://db/%73hop#orders",
    ):
        assert table.was_called(same)
    for other in (
        "postgresql://db:5433/shop#orders",
        "postgresql://db2/shop#orders",
        "postgresql://db/shop2#orders",
        "postgresql://db/shop#sales.orders",
        "postgresql://db/shop#Orders",
        "postgresql://db/shop",
        "postgresql:///shop#orders",
        "/data/orders.parquet",
        "duckdb:/data/shop.db#main.orders",
    ):
        assert not table.was_called(other)
    assert not ServerTable(
        1, ("shop", "public", "orders"), "postgresql:///shop?host=a#orders"
    ).was_called("postgresql:///shop#orders")
    assert ServerTable(1, ("shop", "public", "orders"), "postgresql:///shop#orders").was_called(
        "postgresql:///shop#orders"
    )
    assert ServerTable(1, ("a", "b.c", "d"), "") != ServerTable(1, ("a", "b", "c.d"), "")


def test_an_account_is_not_made_for_a_table_that_nobody_can_name(server, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "PATIENCE", 0.0)
    base = spellings(server)[0].partition("#")[0]
    for error, words, source in (
        (DataSourceError, "must be reachable", "postgresql://sordino:secret@127.0.0.1:1/none#x"),
        (DataSourceError, "existing table or view", f"{base}#shop.none"),
        (InvalidParameter, "#TABLE", f"{base}#"),
    ):
        with pytest.raises(error, match=words) as caught:
            account(tmp_path / "budget.db", source)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert not (tmp_path / "budget.db").exists()


def test_a_server_that_does_not_say_which_one_it_is_is_refused_with_what_to_do(server):
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS stranger")
        connection.execute("CREATE ROLE stranger LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA shop TO stranger")
        connection.execute("GRANT SELECT ON shop.visits TO stranger")
        address = f"{server.url('stranger')}#shop.visits"
        assert open_source(address).identity == open_source(spellings(server)[0]).identity
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        try:
            with pytest.raises(
                DataSourceError, match="GRANT EXECUTE ON FUNCTION pg_control_system"
            ):
                open_source(address)
        finally:
            connection.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
            connection.execute("DROP OWNED BY stranger")
            connection.execute("DROP ROLE stranger")


# ---- tables of DuckDB files -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_table_of_a_file_has_one_identity(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    connection = duckdb.connect(str(tmp_path / "shop.db"))
    connection.execute('CREATE SCHEMA "Sales"')
    for table in ('"Orders"', '"Sales"."Orders"', '"Ärger"', '"ärger"'):
        connection.execute(f"CREATE TABLE {table} AS SELECT 1 AS x")
    connection.close()
    names = ("Orders", "orders", "main.ORDERS", "MAIN.orders")
    for file in ("shop.db", f"{tmp_path}/shop.db", "./x/../shop.db"):
        sources = [f"duckdb:{file}#{name}" for name in names]
        known = {open_source(source).identity for source in sources} | {
            canonical_source(source) for source in sources
        }
        assert known == {f"duckdb:{tmp_path}/shop.db#main.orders"}
    others = [f"duckdb:shop.db#{name}" for name in ("orders", "Sales.Orders", "Ärger", "ärger")]
    assert len({open_source(source).identity for source in others}) == 4
    assert [open_source(source).identity for source in others] == [
        canonical_source(source) for source in others
    ]
    ledger = account(tmp_path / "budget.db", "duckdb:shop.db#ORDERS")
    for kept in (ledger, kept_as(ledger, f"duckdb:{tmp_path}/shop.db#Orders")):
        for name in names:
            with sd.Session(f"duckdb:shop.db#{name}", unit=ROW, ledger=kept) as session:
                session.count(epsilon=0.5)
        for other in others[1:]:
            with (
                sd.Session(other, unit=ROW, ledger=kept) as session,
                pytest.raises(LedgerConflict, match="is about"),
            ):
                session.count(epsilon=0.5)
    assert ledger.remaining == 10 - 8 * sd.Budget(epsilon=0.5).limit
