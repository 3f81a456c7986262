"""A PostgreSQL role that may charge can do that and nothing else."""

from __future__ import annotations

import hashlib
import os
import threading
from fractions import Fraction
from urllib.parse import urlsplit

import psycopg
import pytest

from ledger.fakes import REAL, Mechanism, in_threads, make, raw, refused, spent
from sordino.cost import Pure
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerError
from sordino.ledger import Ledger
from sordino.ledger.schema import OPERATIONS, TABLES
from sordino.ledger.store import postgres
from support.postgres import fresh

ROLE, NOBODY = (
    f"sordino_charger_{os.getpid()}",
    f"sordino_nobody_{os.getpid()}",
)  # others may test on the same server
LARGEST = 2**63 - 1


@pytest.fixture
def owner():
    """Return the address of the owner; the two roles exist and may do nothing."""
    url = fresh(roles=(ROLE, NOBODY))
    for role in (ROLE, NOBODY):
        raw(url, f"CREATE ROLE {role} LOGIN PASSWORD 'for-tests'")
    yield url
    fresh(roles=(ROLE, NOBODY))


def as_role(url, role):
    parts = urlsplit(url)
    return parts._replace(netloc=f"{role}:for-tests@{parts.hostname}:{parts.port}").geturl()


@pytest.fixture
def charger(owner):
    """Return the address of a role that may charge account "orders"."""
    ledger = make(owner)
    ledger.permit(ROLE)
    ledger.permit(ROLE)  # twice is once
    return as_role(owner, ROLE)


def test_a_permitted_role_charges_and_looks(owner, charger):
    ledger = Ledger.open(charger, account="orders")
    with ledger.reserve(Mechanism(0.5), label="mine") as charge:
        charge.release(Mechanism(0.5, spends=0.2), [1], entropy=REAL)
    left = ledger.reserve(Mechanism(0.1))
    assert [line.label for line in ledger.statement().charges] == ["mine", "Mechanism"]
    assert ledger.charge(left.id).state == "reserved"
    assert len(list(ledger.history())) == 5
    assert ledger.verify().sound
    assert Ledger.accounts(charger) == ("orders",)
    assert spent(Ledger.open(owner, account="orders")) == Fraction(3, 10)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(Pure(epsilon=0.8))


def test_a_permitted_role_does_what_the_owner_does_and_nothing_else(owner, charger):
    ledger = Ledger.open(charger, account="orders")
    key = ledger.reserve(Mechanism(0.1)).id
    for call in (
        lambda: ledger.grant("team", 0.1),
        lambda: ledger.void(key, reason="why not"),
        lambda: ledger.permit(NOBODY),
    ):
        refused(call, "does not allow this role to do that")
    refused(
        lambda: make(charger, 1, "other"), "belongs to another role; make accounts as that role"
    )
    assert Ledger.accounts(owner) == ("orders",)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        raw(as_role(owner, NOBODY), "SELECT 1 FROM ~account")
    assert spent(Ledger.open(owner, account="orders")) == Fraction(1, 10)


def test_a_role_without_permit_gets_one_sentence(owner, charger):
    stranger = as_role(owner, NOBODY)
    for call in (
        lambda: Ledger.open(stranger, account="orders"),
        lambda: Ledger.accounts(stranger),
        lambda: make(stranger, 1, "other"),
    ):
        said = refused(
            call,
            "does not allow this role to do that; its owner can, or can let it charge (`sordino ledger permit`).",
        )
        assert "for-tests" not in said
    for operation in OPERATIONS:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            called(stranger, operation)


@pytest.mark.parametrize(
    "role", ["no such role", 'x"; DROP SCHEMA sordino CASCADE; --', "public", "PUBLIC "]
)
@pytest.mark.sample(3)
def test_a_role_that_does_not_exist_is_refused(owner, role):
    ledger = make(owner)
    with pytest.raises(LedgerError if role != "public" else InvalidParameter):
        ledger.permit(role)
    assert ledger.remaining == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        raw(as_role(owner, NOBODY), "SELECT 1 FROM ~account")


NAMES = ("ledger", *(table.split("~")[1].split(" ")[0] for table in TABLES))


TOUCHES = (
    "INSERT INTO ~{0} SELECT * FROM ~{0}",
    "DELETE FROM ~{0}",
    "TRUNCATE ~{0}",
    "DROP TABLE ~{0}",
    "ALTER TABLE ~{0} RENAME TO other",
    f"ALTER TABLE ~{{0}} OWNER TO {ROLE}",
    "CREATE TRIGGER mine BEFORE INSERT ON ~{0} EXECUTE FUNCTION ~append_only()",
    "CREATE INDEX ON ~{0} ((1))",
    "SELECT * FROM ~{0} FOR UPDATE",
    "DO $$ BEGIN LOCK TABLE ~{0} IN EXCLUSIVE MODE; END $$",
)
UPDATED = (
    "account.spent",
    "account.allowance",
    "charge.settled",
    "event.body",
    "kept.sheet",
    "ledger.version",
)


def test_a_permitted_role_cannot_touch_a_table(charger):
    statements = [sql.format(table) for table in NAMES for sql in TOUCHES]
    statements += [
        f"UPDATE ~{table} SET {name} = {name}"
        for table, name in (column.split(".") for column in UPDATED)
    ]
    statements += [
        "SET SESSION AUTHORIZATION sordino",
        "CREATE SCHEMA mine",
        "ALTER SCHEMA sordino RENAME TO mine",
        "CREATE TABLE ~mine ()",
    ]
    statements += [
        "CREATE FUNCTION ~chain(covered integer) RETURNS text LANGUAGE sql AS 'SELECT 1'",
        "DROP FUNCTION ~chain",
    ]
    with psycopg.connect(charger, autocommit=True) as connection:
        for sql in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql.replace("~", "sordino.").encode())
        connection.execute("SET client_min_messages = error")
        for table in NAMES:  # a warning to its caller: nothing is granted
            connection.execute(f"GRANT ALL ON sordino.{table} TO {ROLE}, {NOBODY}".encode())
            for role in (ROLE, NOBODY):
                asked = f"SELECT has_table_privilege('{role}', 'sordino.{table}', 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')"
                assert connection.execute(asked.encode()).fetchone() == (False,)


TEXTS = {
    "charge": "9f" * 16,
    "digest": "9f" * 32,
    "lock": "9f" * 32,
    "body": '{"digest": ""}',
    "sheet": "{}",
    "alpha": "",
    "ranges": "",
}


def called(url, operation, **changed):
    """Call the function of an operation; return what it said."""
    values = [
        changed.get(name, 0 if kind == "bigint" else TEXTS.get(name, "orders"))
        for name, kind in operation.parameters.items()
    ]
    marks = ", ".join("?" for _ in values)
    [(answer,)] = raw(url, f"SELECT ~{operation.name}({marks})", *values)
    return answer


def test_only_charging_functions_can_be_called(charger):
    assert {operation.name for operation in OPERATIONS if operation.charging} == {
        "reserve",
        "draw",
        "settle",
        "keep",
        "reserve_parts",
        "draw_parts",
        "settle_parts",
    }
    for operation in OPERATIONS:
        if operation.charging:
            assert called(charger, operation) is False
        else:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                called(charger, operation)
    for function in ("chain('x')", "append_only()"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            raw(charger, f"SELECT ~{function}")


FACTS = {
    "meter": "pure",
    "adjacency": "add-remove",
    "unit": 'column "customer"',
    "source": "/data/orders.parquet",
    "reading": "csv text",
    "alpha": "",
}


AMOUNTS = (-1, -(10**9), LARGEST, -LARGEST, -LARGEST - 1, 9 * 10**18 + 1, 10**9, None)


def test_amounts_that_would_give_more_are_refused_by_the_functions(owner, charger):
    ledger = Ledger.open(charger, account="orders")
    charge = ledger.reserve(Mechanism(0.5))
    charge.draw(Mechanism(0.3))
    before = raw(owner, "SELECT * FROM ~event ORDER BY number")
    known = {"account": "orders", "charge": charge.id, "key": charge._key}
    state = {"reserved": 5 * 10**8, "drawn": 3 * 10**8, "draws": 1}
    by_name = {operation.name: operation for operation in OPERATIONS}
    calls = [
        call
        for amount in AMOUNTS
        for call in (
            ("reserve", {**known, **FACTS, "charge": "8e" * 16, "amount": amount}),
            ("draw", {**known, "slot": 1, "before": 3 * 10**8, "amount": amount}),
            ("settle", {**known, **state, "amount": amount}),
            # A refund of more than was reserved, by saying that it was more.
            ("settle", {**known, **state, "reserved": 9 * 10**8, "amount": 3 * 10**8}),
            ("settle", {**known, **state, "reserved": amount, "amount": 3 * 10**8}),
            ("settle", {**known, **state, "drawn": amount, "amount": 0}),
            ("settle", {**known, **state, "draws": 0, "amount": 0}),
            ("settle", {**known, **state, "account": "other", "amount": 0}),
        )
    ]
    for name, parameters in calls:
        try:
            assert called(charger, by_name[name], **parameters) is False
        except psycopg.errors.NumericValueOutOfRange:
            assert (
                max(abs(value) for value in parameters.values() if isinstance(value, int))
                >= 9 * 10**18
            )
    assert raw(owner, "SELECT * FROM ~event ORDER BY number") == before
    assert spent(Ledger.open(owner, account="orders")) == Fraction(1, 2)


def test_only_who_reserved_draws_and_settles(owner, charger):
    """Who reads the ledger sees every id, but not the keys."""
    charge = Ledger.open(charger, account="orders").reserve(Mechanism(0.5))
    by_name = {operation.name: operation for operation in OPERATIONS}
    known = {"account": "orders", "charge": charge.id}
    [(lock,)] = raw(charger, "SELECT lock FROM ~charge")
    for key in ("", "9f" * 16, lock, charge.id):
        assert (
            called(charger, by_name["draw"], **known, key=key, slot=0, before=0, amount=1) is False
        )
        assert (
            called(
                charger,
                by_name["settle"],
                **known,
                key=key,
                reserved=5 * 10**8,
                drawn=0,
                draws=0,
                amount=0,
            )
            is False
        )
    assert charge._key not in repr(charge) + repr(raw(owner, "SELECT * FROM ~charge")) + repr(
        raw(owner, "SELECT * FROM ~event")
    )
    charge.draw(Mechanism(0.1))
    charge.settle()
    assert spent(Ledger.open(owner, account="orders")) == Fraction(1, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"charge": "9F" * 16},
        {"charge": "9f" * 15},
        {"charge": "9f" * 16 + " 1"},
        {"digest": ""},
        {"lock": "x"},
        {"body": "no JSON"},
        {"body": "[1]"},
        {"body": '{"a": "' + "x" * 1_000_001 + '"}'},
    ],
)
@pytest.mark.sample(4)
def test_what_nobody_could_read_is_not_written(owner, charger, wrong):
    reserve = next(operation for operation in OPERATIONS if operation.name == "reserve")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        called(charger, reserve, **{**FACTS, "account": "orders", "amount": 1, **wrong})
    assert raw(owner, "SELECT spent, number FROM ~account") == [(0, 1)]


def test_functions_of_somebody_else_are_not_called(owner, charger):
    raw(owner, f"ALTER FUNCTION ~reserve OWNER TO {ROLE}")
    postgres.close_waiting()
    refused(lambda: Ledger.open(owner, account="orders"), "are not those of its owner")
    raw(owner, "ALTER FUNCTION ~reserve OWNER TO CURRENT_USER")
    raw(owner, "ALTER FUNCTION ~reserve SECURITY INVOKER")
    refused(lambda: make(owner, 1, "other"), "are not those of its owner")


def test_one_id_is_one_charge(owner, charger):
    by_name = {operation.name: operation for operation in OPERATIONS}
    charge = {**FACTS, "account": "orders", "amount": 10}
    assert called(charger, by_name["reserve"], **charge) is True
    with pytest.raises(psycopg.errors.UniqueViolation):
        called(charger, by_name["reserve"], **charge)
    with pytest.raises(psycopg.errors.NotNullViolation):
        called(charger, by_name["reserve"], **{**charge, "charge": "9e" * 16, "body": None})
    assert raw(owner, "SELECT spent FROM ~account") == [(10,)]


def test_another_meter_adjacency_unit_or_source_is_refused_by_the_function(owner, charger):
    reserve = next(operation for operation in OPERATIONS if operation.name == "reserve")
    charge = {**FACTS, "account": "orders", "amount": 10}
    # The first reading that is said is the account's own.
    raw(owner, "UPDATE ~account SET reading = 'csv text'")
    for name in FACTS:
        assert called(charger, reserve, **{**charge, name: "zcdp"}) is False
    assert called(charger, reserve, **{**charge, "account": "other"}) is False
    assert raw(owner, "SELECT spent, number FROM ~account") == [(0, 1)]


SHADOWS = (
    "CREATE TEMP TABLE account (LIKE sordino.account)",
    "CREATE TEMP TABLE charge (LIKE sordino.charge)",
    "CREATE TEMP TABLE event (LIKE sordino.event)",
    "CREATE FUNCTION pg_temp.chain(covered text) RETURNS text LANGUAGE sql AS $$ SELECT 'forged' $$",
    "CREATE FUNCTION pg_temp.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT '\\x00'::bytea $$",
    "CREATE FUNCTION pg_temp.encode(bytea, text) RETURNS text LANGUAGE sql AS $$ SELECT 'forged' $$",
    "CREATE FUNCTION pg_temp.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'forged' $$",
    "CREATE FUNCTION pg_temp.yes(bigint, bigint) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$",
    "CREATE OPERATOR pg_temp.<= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = pg_temp.yes)",
    "CREATE OPERATOR pg_temp.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = pg_temp.yes)",
    "CREATE DOMAIN pg_temp.text AS pg_catalog.text",
    "CREATE DOMAIN pg_temp.bigint AS pg_catalog.int8",
)


@pytest.mark.parametrize(
    "path",
    ["pg_temp, public, pg_catalog", "public, pg_temp, pg_catalog", "pg_temp, pg_catalog, sordino"],
)
@pytest.mark.sample(4)
def test_shadows_of_names_change_nothing(owner, charger, path):
    """What a role makes under the names that the functions use is not found by them."""
    raw(owner, f"GRANT CREATE ON SCHEMA public TO {ROLE}")
    reserve, draw = (next(o for o in OPERATIONS if o.name == name) for name in ("reserve", "draw"))
    with psycopg.connect(charger, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(
                "CREATE FUNCTION sordino.chain(covered integer) RETURNS text LANGUAGE sql AS $$ SELECT 'forged' $$"
            )
        for shadow in SHADOWS:
            connection.execute(shadow.encode())
            connection.execute(
                shadow.replace("TEMP TABLE ", "TABLE public.").replace("pg_temp", "public").encode()
            )
        connection.execute(f"SET search_path = {path}".encode())
        known = {
            **FACTS,
            **TEXTS,
            "account": "orders",
            "pure": 0,
            "failing": 0,
            "impure": 0,
            "lock": hashlib.sha256(b"key").hexdigest(),
            "key": "key",
        }
        for operation, parameters, answer in (
            (reserve, {**known, "amount": 2 * 10**9}, False),
            (reserve, {**known, "amount": 5 * 10**8}, True),
            (draw, {**known, "slot": 0, "before": 0, "amount": 6 * 10**8}, False),
            (draw, {**known, "slot": 0, "before": 0, "amount": 3 * 10**8}, True),
        ):
            values = [parameters[name] for name in operation.parameters]
            sql = f"SELECT sordino.{operation.name}({', '.join(['%s'] * len(values))})"
            assert connection.execute(sql.encode(), values).fetchone() == (answer,)
        for table in ("account", "charge", "event"):
            for schema in ("pg_temp", "public"):
                assert connection.execute(
                    f"SELECT count(*) FROM {schema}.{table}".encode()
                ).fetchone() == (0,)
        for shadow in SHADOWS[:3]:
            connection.execute(
                shadow.replace("CREATE TEMP TABLE ", "DROP TABLE public.").split(" (")[0].encode()
            )
    # The chain was computed by the ledger's own function, whatever the made-up events say of themselves.
    found = Ledger.open(owner, account="orders").verify()
    assert (found.events, [problem for problem in found.problems if "hash" in problem]) == (3, [])
    [(total,)] = raw(owner, "SELECT spent FROM ~account")
    assert total == 5 * 10**8


def test_the_functions_have_a_fixed_path_and_belong_to_the_owner(owner, charger):
    found = raw(
        owner,
        "SELECT proname, prosecdef, array_to_string(proconfig, ';'), pg_get_userbyid(proowner) = current_user"
        " FROM pg_proc WHERE pronamespace = 'sordino'::regnamespace",
    )
    names = {operation.name for operation in OPERATIONS}
    definers = {name: (path, mine) for name, definer, path, mine in found if definer}
    path = "search_path=pg_catalog, pg_temp"
    planned = f"plan_cache_mode=force_generic_plan;{path}"
    locked = {operation.name for operation in OPERATIONS if operation.locked}
    assert definers == {name: (planned if name in locked else path, True) for name in names}
    assert {name for name, *_ in found} == names | {"chain", "append_only"}
    public = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'sordino'::regnamespace"
    public += " AND has_function_privilege('public', oid, 'EXECUTE')"
    assert raw(owner, public) == [(0,)]


def test_many_permitted_sessions_share_the_account(owner, charger):
    keys, lock = [], threading.Lock()

    def work():
        ledger = Ledger.open(charger, account="orders")
        for _ in range(10):
            key = ledger.reserve(Pure(epsilon=0.01)).id
            with lock:
                keys.append(key)

    in_threads([work] * 4)
    assert len(set(keys)) == 40
    assert spent(Ledger.open(owner, account="orders")) == Fraction(2, 5)
