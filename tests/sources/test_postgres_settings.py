"""What a server, a role or an address may set, and whose functions lie in the way: none of it changes an answer or makes one fail."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

import sordino as sd
from sordino.questions import PrivacyUnit, prepare_counts
from sordino.sources import open_source
from support.number_states import GRIDS, asked
from support.postgres import own_server

ODD = {
    "search_path": "evil, pg_catalog, public",
    "DateStyle": "'German, DMY'",
    "IntervalStyle": "iso_8601",
    "TimeZone": "'Asia/Kathmandu'",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "backslash_quote": "on",
    "escape_string_warning": "on",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "array_nulls": "off",
    "client_min_messages": "debug5",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "gin_fuzzy_search_limit": "1",
    "jit": "on",
    "jit_above_cost": "0",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
    "max_parallel_workers_per_gather": "4",
    "work_mem": "'64kB'",
    "enable_hashagg": "off",
    "enable_seqscan": "off",
    "constraint_exclusion": "on",
    "synchronize_seqscans": "off",
    "plan_cache_mode": "force_generic_plan",
}
"""Settings that a role may have; those that a server does not know are left out."""

EVIL = (
    "CREATE FUNCTION evil.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT '\\x00'::bytea $$",
    "CREATE FUNCTION evil.convert_to(text, name) RETURNS bytea LANGUAGE sql AS $$ SELECT '\\x00'::bytea $$",
    "CREATE FUNCTION evil.substr(text, integer, integer) RETURNS text LANGUAGE sql AS $$ SELECT '0'::text $$",
    "CREATE FUNCTION evil.length(text) RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$",
    "CREATE FUNCTION evil.width_bucket(double precision, double precision[]) RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$",
    "CREATE FUNCTION evil.same(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$",
    "CREATE OPERATOR evil.= (FUNCTION = evil.same, LEFTARG = text, RIGHTARG = text)",
    "CREATE FUNCTION evil.least(bigint, integer) RETURNS bigint LANGUAGE sql AS $$ SELECT 0::bigint $$",
    "CREATE VIEW evil.pg_attribute AS SELECT attname, attrelid, atttypid, atttypmod, attnum, attisdropped"
    " FROM pg_catalog.pg_attribute WHERE false",
    "CREATE VIEW evil.pg_settings AS SELECT 'jit'::text AS name WHERE false",
    "CREATE VIEW evil.pg_class AS SELECT oid, relname, relnamespace, relkind FROM pg_catalog.pg_class WHERE false",
    "CREATE FUNCTION evil.pg_control_system(OUT system_identifier bigint) LANGUAGE sql AS $$ SELECT 1::bigint $$",
    "CREATE TABLE evil.rows AS SELECT 1 AS c0",
    "CREATE TABLE evil.labels AS SELECT 'tea'::text AS label, 0::bigint AS position",
)


@pytest.fixture
def server():
    cluster = own_server()
    with psycopg.connect(cluster.url(), autocommit=True) as connection:

        def run(*statements):
            for statement in statements:
                connection.execute(statement.encode())

        run(
            "SET client_min_messages = warning",
            "DROP SCHEMA IF EXISTS shop CASCADE",
            "DROP SCHEMA IF EXISTS evil CASCADE",
        )
        run(
            "CREATE SCHEMA shop",
            "CREATE SCHEMA evil",
            "CREATE ROLE odd LOGIN",
            "CREATE ROLE plain LOGIN",
        )
        run(
            "GRANT USAGE ON SCHEMA shop, evil TO PUBLIC",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
        )
        yield cluster, run
        run("ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM PUBLIC")
        run(
            "DROP SCHEMA shop CASCADE",
            "DROP SCHEMA evil CASCADE",
            "DROP OWNED BY odd, plain",
            "DROP ROLE odd",
            "DROP ROLE plain",
        )


def let(cluster, run, **settings):
    """Let the odd role have settings that this version of the server knows."""
    with cluster.superuser() as connection:
        known = {
            name.lower()
            for (name,) in connection.execute("SELECT name FROM pg_settings").fetchall()
        }
    run(
        *(
            f"ALTER ROLE odd SET {name} = {value}"
            for name, value in settings.items()
            if name.lower() in known
        )
    )


def states(address):
    """Return what is asked of a table with every kind of column, and the schema that is read of it."""
    source, unit = open_source(address), PrivacyUnit("u", max_rows=2)
    known = [dict(source.columns), str(source.identity)]
    for column, domain in (
        ("item", ["tea", "te\\a", "NULL", 'a"b']),
        ("mood", ["good", "bad"]),
        ("day", ["2024-02-03", "2024-03-02"]),
    ):
        for unit_of in (PrivacyUnit("u"), unit):
            asks = prepare_counts(
                source, unit_of, kind="items", item=column, domain=domain, salt=b"0" * 16
            )
            known.append(asks.run().values.tolist())
    known.append(prepare_counts(source, unit, kind="rows").run().values.tolist())
    for column in ("x", "n"):
        question = asked(address, GRIDS["from 0"], column=column, unit=PrivacyUnit("u", max_rows=2))
        known.append([counts.counts.tolist() for counts in question.run()])
    return known


def test_settings_of_a_role_and_functions_in_its_way_change_nothing(server):
    cluster, run = server
    run(
        "CREATE TYPE shop.mood AS ENUM ('good', 'bad')",
        "CREATE TABLE shop.visits AS SELECT 'u' || i % 40 AS u, (ARRAY['tea', 'te\\a', 'NULL', 'a\"b', NULL])[1 + i % 5] AS item,"
        " (ARRAY['good', 'bad']::shop.mood[])[1 + i % 2] AS mood, date '2024-02-03' + (i % 2) * 28 AS day,"
        " 0.1::float8 * i + 1e-12 * (i % 3) AS x, (i % 9)::numeric / 7 AS n FROM generate_series(1, 400) i",
    )
    wanted = states(f"{cluster.url('plain')}#shop.visits")
    assert wanted[0]["item"] == "VARCHAR"
    assert sum(wanted[2]) == 32
    run(*EVIL)
    let(cluster, run, **ODD)
    assert states(f"{cluster.url('odd')}#shop.visits") == wanted
    options = "%20".join(
        f"-c%20{name}%3Doff" for name in ("standard_conforming_strings", "array_nulls")
    )
    assert states(f"{cluster.url('plain')}?options={options}#shop.visits") == wanted


def test_the_text_of_a_listed_value_is_the_one_of_the_server(server):
    """Whoever made the type may cast its values to anything, or fail on one."""
    cluster, run = server
    run(
        "CREATE TYPE shop.mood AS ENUM ('good', 'bad')",
        "CREATE TABLE shop.visits AS SELECT 'u' || i AS u, 'good'::shop.mood AS mood FROM generate_series(1, 5) i",
        "CREATE FUNCTION shop.shown(shop.mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS"
        " $$ BEGIN IF $1 = 'bad' THEN RAISE division_by_zero; END IF; RETURN 'well'; END $$",
        "CREATE CAST (shop.mood AS text) WITH FUNCTION shop.shown(shop.mood) AS IMPLICIT",
    )
    source = open_source(f"{cluster.url()}#shop.visits")
    for unit in (PrivacyUnit.row(), PrivacyUnit("mood")):
        question = prepare_counts(source, unit, kind="items", item="mood", domain=["good", "bad"])
        before = question.run().values.tolist()
        run("INSERT INTO shop.visits VALUES ('one more', 'bad')")
        assert question.run().values.tolist() == [before[0] + 1, before[1]]  # bad, good
        run("DELETE FROM shop.visits WHERE u = 'one more'")


def test_no_row_of_a_view_is_left_out_at_random(server):
    cluster, run = server
    run(
        "CREATE TABLE shop.texts AS SELECT i AS x, array[i % 3] AS words FROM generate_series(1, 3000) i",
        "CREATE INDEX ON shop.texts USING gin (words)",
        "ANALYZE shop.texts",
        "CREATE VIEW shop.found AS SELECT x FROM shop.texts WHERE words @> array[1]",
    )
    let(cluster, run, gin_fuzzy_search_limit="10", enable_seqscan="off")
    assert asked(f"{cluster.url('odd')}#shop.found", GRIDS["from 0"]).run()[0].records == 1000


@pytest.mark.slow
def test_limits_of_time_of_a_role_do_not_end_a_question(server):
    """How long the rows take, and how long somebody else changes them, would show."""
    cluster, run = server
    run("CREATE TABLE shop.crowd AS SELECT i AS x FROM generate_series(1, 3) i")
    limits = (
        "statement_timeout",
        "transaction_timeout",
        "idle_in_transaction_session_timeout",
        "lock_timeout",
    )
    let(cluster, run, **dict.fromkeys(limits, "'150ms'"))
    source = open_source(f"{cluster.url('odd')}#shop.crowd")
    with source.backend.scan([0]) as scan:
        assert scan.ask("SELECT count(*) AS n FROM rows")["n"].tolist() == [3]
        time.sleep(0.4)
        assert scan.ask("SELECT count(*) AS n, min(pg_sleep(0.3)::text) AS s FROM rows")[
            "n"
        ].tolist() == [3]
    question = prepare_counts(source, PrivacyUnit.row(), kind="rows")
    locked = threading.Event()

    def change():
        with psycopg.connect(cluster.url()) as other:
            other.execute("LOCK TABLE shop.crowd IN ACCESS EXCLUSIVE MODE")
            locked.set()
            time.sleep(0.6)

    thread = threading.Thread(target=change)
    thread.start()
    assert locked.wait(20)
    assert question.run().values.tolist() == [3]
    thread.join()


def test_every_setting_of_ours_is_in_force(server):
    from sordino.sources import postgres

    cluster, run = server
    run("CREATE TABLE shop.crowd AS SELECT 1 AS x")
    let(cluster, run, **ODD)
    source = open_source(f"{cluster.url('odd')}#shop.crowd")
    with source.backend.scan([0]) as scan:
        rows = scan.ask("SELECT name, setting FROM pg_settings")
    now = {
        str(name).lower(): str(setting)
        for name, setting in zip(rows["name"], rows["setting"], strict=True)
    }
    assert now["search_path"].replace('"', "") == "pg_catalog, pg_temp"
    assert (now["transaction_isolation"], now["transaction_read_only"]) == ("repeatable read", "on")
    known = {
        name.lower(): value
        for name, value in postgres._SETTING_VALUES.items()
        if name.lower() in now
    }
    assert len(known) >= len(postgres._SETTING_VALUES) - 1
    assert {name: now[name] for name in known} == known


def test_a_session_answers_for_a_role_with_odd_settings(server):
    cluster, run = server
    run(
        "CREATE TABLE shop.visits AS SELECT 'u' || i AS u, i % 7 AS x FROM generate_series(1, 200) i",
        *EVIL,
    )
    let(cluster, run, **ODD)
    with sd.Session(
        f"{cluster.url('odd')}#shop.visits", unit=PrivacyUnit("u", max_rows=1), entropy=sd.Seeded(1)
    ) as session:
        assert session.count_distinct_units(epsilon=200).estimate == pytest.approx(200, abs=1)
        assert session.mean("x", epsilon=100, lower=0, cap=100).value == pytest.approx(3, abs=0.6)
