"""A password in an address opens the ledger and is found nowhere else."""

from __future__ import annotations

import io
import logging
import re
import subprocess
import sys
import textwrap
import traceback

import psycopg
import pytest

from ledger.fakes import Mechanism, make, raw, refused
from sordino.errors import InvalidParameter, LedgerError, SordinoError
from sordino.ledger import Budget, Ledger, canonical_source
from sordino.ledger.store import store
from support.postgres import own_server

SECRET = "s3cr3t-Zq9"


@pytest.fixture
def guarded(monkeypatch):
    """Return the address of a role that needs its password, in a cluster of the tests."""
    monkeypatch.setattr(store, "PATIENCE", 0.0)
    cluster = own_server()
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS sordino CASCADE")
        connection.execute("DROP ROLE IF EXISTS guarded")
        connection.execute(f"CREATE ROLE guarded SUPERUSER LOGIN PASSWORD '{SECRET}'".encode())
        connection.execute("CREATE TABLE IF NOT EXISTS public.orders (customer text)")
    cluster.allow("host all guarded 127.0.0.1/32 scram-sha-256", "host all all 127.0.0.1/32 trust")
    cluster.reload()
    yield cluster
    cluster.allow("host all all 127.0.0.1/32 trust")
    cluster.reload()


def test_a_password_is_in_nothing_that_is_said_or_kept(guarded, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    url = guarded.url("guarded", SECRET) + f"?application_name={SECRET}&connect_timeout=5"
    ledger = Ledger.create(
        url,
        account="orders",
        budget=Budget(epsilon=1),
        adjacency="add-remove",
        unit="customer",
        source=f"{url}#orders",
    )
    assert ledger.url == f"postgresql://127.0.0.1:{guarded.port}/ledgers"
    assert re.fullmatch(r"postgresql:\d+/ledgers#public\.orders", ledger.statement().source)
    charge = ledger.reserve(
        Mechanism(0.1),
        source=f"postgresql://sordino:{SECRET}@127.0.0.1:{guarded.port}/ledgers#orders",
    )
    said = [
        repr(ledger),
        str(ledger),
        ledger.url,
        repr(charge),
        repr(ledger.statement().to_dict()),
        repr(ledger.verify()),
    ]
    said += [repr(event) + repr(event.to_dict()) for event in ledger.history()]
    said += [
        repr(row)
        for table in ("account", "charge", "event", "kept")
        for row in raw(guarded.url(), f"SELECT * FROM ~{table}")
    ]
    failing = [
        lambda: Ledger.open(url, account="other"),
        lambda: make(url, 1, "orders"),
        lambda: ledger.reserve(Mechanism(5)),
        lambda: ledger.reserve(
            Mechanism(0.1), source=f"postgresql://me:{SECRET}@127.0.0.1:1/db#orders"
        ),
        lambda: ledger.charge("none"),
        lambda: ledger.permit("nobody here"),
        lambda: Ledger.open(guarded.url("guarded", SECRET + "x"), account="orders"),
        lambda: Ledger.open(guarded.url("nobody", SECRET), account="orders"),
        lambda: Ledger.open(guarded.url("guarded", SECRET, database="missing"), account="orders"),
        lambda: Ledger.open(
            guarded.url("guarded", SECRET).replace(str(guarded.port), "1"), account="orders"
        ),
        lambda: make(guarded.url("guarded", SECRET).replace("127.0.0.1", "no-such-host.invalid")),
    ]
    for fails in failing:
        with pytest.raises(SordinoError) as caught:
            fails()
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        printed = io.StringIO()
        traceback.print_exception(caught.value, file=printed)
        shown = [line for line in printed.getvalue().splitlines() if "SECRET" not in line]
        said += [str(caught.value), repr(caught.value), *shown]
    said += [caplog.text, *capfd.readouterr()]
    assert not [text for text in said if SECRET in text]
    assert len(said) > 60


def test_what_is_wrong_with_a_server_is_one_sentence(guarded):
    make(guarded.url("guarded", SECRET))
    for url in (
        guarded.url("guarded", "wrong"),
        guarded.url("guarded"),
        guarded.url("unknown-role"),
        guarded.url("guarded", SECRET, database="missing"),
    ):
        for use in (
            lambda url=url: Ledger.open(url, account="orders"),
            lambda url=url: make(url, 1, "other"),
        ):
            said = refused(use, "check the address, the user and whether the server runs")
            assert said.count(".") >= 1
            assert "wrong" not in said


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@x@host/db",
        f"postgresql://me:{SECRET}#x@host/db",
        f"postgresql://me:x#{SECRET}@host/db",
        f"postgresql://me:{SECRET}?x@host/db",
        f"postgresql://me:{SECRET}/x@host/db",
        f"postgresql://me:{SECRET}/x?y@host/db",
        f"postgresql://me:x@{SECRET}/@host",
        f"postgresql://me:%zz{SECRET}@host/db",
        f"postgresql://me:{SECRET}@[::1/db",
        f"postgresql://me:{SECRET}@host:port/db",
        f"postgresql://host/db?password={SECRET}&x",
        f"postgresql://host/db?passwort={SECRET}",
        f"postgresql://host/db?sslpassword={SECRET}@x",
        f"POSTGRESQL://me:{SECRET}@host:port/db",
        f"postgresql:/me:{SECRET}@host/db",
        f"postgresql:me:{SECRET}@host/db",
        f"host=nowhere password={SECRET} dbname=db",
        f"postgresql://me:{SECRET}",
        f"postgresql://me:{SECRET}/db",
        f"me:{SECRET}@host/db://",
        f"mysql://me:{SECRET}@host/db",
        f"postgres+psycopg://me:{SECRET}@host/db",
    ],
)
@pytest.mark.sample(2)
def test_a_malformed_address_is_refused_without_being_shown(url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for use in (
        lambda: Ledger.open(url, account="orders"),
        lambda: make(url),
        lambda: Ledger.accounts(url),
    ):
        with pytest.raises((LedgerError, InvalidParameter)) as caught:
            use()
        said = "".join(traceback.format_exception(caught.value, limit=0)) + repr(caught.value)
        assert SECRET not in said
        assert len(str(caught.value).splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_sources_in_databases_have_one_text_without_secrets():
    for given, canonical in {
        f"postgresql://me:{SECRET}@host/db#orders": "postgresql://host/db#orders",
        f"postgresql://me@host:5432/db?sslmode=require&password={SECRET}#orders": "postgresql://host:5432/db#orders",
        "postgresql://host/db": "postgresql://host/db",
        f"postgresql://me:p%40{SECRET}@host/db": "postgresql://host/db",
        "postgresql://one:5432,two:5433/db": "postgresql://one:5432,two:5433/db",
        f"postgresql://me:{SECRET}@[::1]:5432/db#a": "postgresql://[::1]:5432/db#a",
        "postgresql:///db": "postgresql:///db",
        "s3://bucket/a/../b": "s3://bucket/a/../b",
        "https://host/a?token=1#x": "https://host/a#x",
        "postgresql://host/db#a@b": None,
        f"postgresql://me:{SECRET}#x@host/db": None,
        f"postgresql://me:{SECRET}?x@host/db#orders": None,
        f"s3://key:{SECRET}/x@bucket/a": None,
    }.items():
        if canonical is None:
            with pytest.raises(InvalidParameter) as caught:
                canonical_source(given)
            assert SECRET not in str(caught.value)
        else:
            assert canonical_source(given) == canonical
            assert canonical_source(canonical) == canonical


def test_without_the_driver_the_extra_is_named():
    script = """
        import sys
        sys.modules["psycopg"] = None
        import sordino as sd
        for use in (sd.Ledger.open, sd.Ledger.accounts):
            try:
                use("postgresql://me:secret@host/db", **({"account": "orders"} if use == sd.Ledger.open else {}))
            except sd.errors.LedgerError as error:
                print(type(error).__name__, error, error.__suppress_context__ or repr(error.__cause__))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    first, second = run.stdout.splitlines()
    assert first == second
    assert "pip install 'sordino[postgres]'" in first
    assert "secret" not in first + run.stderr


def test_connections_are_closed_when_the_process_ends(server):
    script = f"""
        import sordino as sd
        sd.Ledger.create({server!r}, account="orders", budget=sd.Budget(epsilon=1.0), adjacency="add-remove", unit="c", source="name:o")
    """
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(script)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")
