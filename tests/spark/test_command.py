"""Tables of a server by their address: from the command line, and as a ledger knows them."""

from __future__ import annotations

import json
import socket

import pyarrow as pa
import pytest

import sordino as sd
from sordino.cli import run
from sordino.errors import DataSourceError, InvalidParameter
from sordino.ledger import canonical_source
from sordino.questions import PrivacyUnit, prepare_counts
from sordino.sources import open_source
from support.spark import own_server, session

TOKEN = "geheim-51c2"


@pytest.fixture(scope="module")
def address():
    """A table with a name of its own, and a view of it."""
    session().sql("CREATE SCHEMA IF NOT EXISTS shop")
    orders = pa.table(
        {
            "customer": [f"c{i % 60}" for i in range(300)],
            "product": [["tea", "rice", "salt"][i % 3] for i in range(300)],
            "price": [i % 7 + 0.5 for i in range(300)],
        }
    )
    session().createDataFrame(orders).write.saveAsTable("shop.orders", mode="overwrite")
    session().sql("CREATE OR REPLACE VIEW shop.dear AS SELECT * FROM shop.orders WHERE price > 3")
    return f"{own_server().address}#spark_catalog.shop.orders"


def command(capfd, *arguments):
    capfd.readouterr()
    code = run([str(one) for one in arguments])
    return code, *capfd.readouterr()


def test_the_command_releases_and_charges(address, tmp_path, capfd):
    ledger = ("--ledger", tmp_path / "budget.db", "--account", "orders")
    code, _, err = command(
        capfd,
        "ledger",
        "create",
        *ledger,
        "--epsilon",
        3,
        "--adjacency",
        "add-remove",
        "--unit",
        "customer",
        "--source",
        address,
    )
    assert code == 0, err
    (tmp_path / "products.csv").write_text("product\ntea\nrice\nsalt\ngold\n")
    top = (
        "top",
        address,
        "--item",
        "product",
        "--user",
        "customer",
        "-k",
        2,
        "--epsilon",
        1,
        "--domain",
        tmp_path / "products.csv",
    )
    code, out, err = command(capfd, *top, *ledger, "--format", "json")
    assert (code, err) == (0, "")
    assert "gold" not in json.dumps(json.loads(out)["rows"])
    code, out, err = command(
        capfd,
        "mean",
        address,
        "--column",
        "price",
        "--user",
        "customer",
        "--max-rows",
        5,
        "--lower",
        0,
        "--cap",
        10,
        "--epsilon",
        1,
        "--where",
        "product <> 'tea'",
        *ledger,
    )
    assert (code, err) == (0, "")
    code, out, _ = command(capfd, "ledger", "show", *ledger, "--format", "json")
    assert "spark:spark_catalog.shop.orders" in out
    # The budget is that of the table, however its server is called; another table has none of it.
    other = address.replace("127.0.0.1", "localhost").replace("shop.orders", "Shop.ORDERS")
    code, _, err = command(capfd, *(other if one == address else one for one in top), *ledger)
    assert (code, err) == (0, "")
    code, _, err = command(
        capfd,
        *(address.replace("orders", "dear") if one == address else one for one in top),
        *ledger,
    )
    assert code == 5
    assert "spark:spark_catalog.shop.dear" in err


def test_a_table_has_one_text(address):
    source = open_source(address)
    assert source.identity == canonical_source(address) == "spark:spark_catalog.shop.orders"
    assert canonical_source("spark:Spark_Catalog.Shop.`Orders`") == source.identity
    assert prepare_counts(source, PrivacyUnit("customer"), kind="units").run().values.tolist() == [
        60
    ]
    assert open_source(address.replace("orders", "dear")).columns == source.columns


def test_a_session_of_our_own_follows_our_settings(address, monkeypatch):
    """Whatever the server sets for others."""
    from sordino.sources.spark import frames as spark

    connect = spark._connect

    def odd(server):
        made = connect(server)
        made.conf.set("spark.sql.ansi.enabled", "false")
        made.conf.set("spark.sql.legacy.integerGroupingId", "true")
        return made

    monkeypatch.setattr(spark, "_connect", odd)
    assert prepare_counts(
        open_source(address), PrivacyUnit("customer"), kind="units"
    ).run().values.tolist() == [60]


def test_no_token_is_shown_or_kept(address, tmp_path):
    for odd in (
        f"sc://127.0.0.1:1/;token={TOKEN}",
        f"sc://{TOKEN}@host#a.b.c",
        f"sc://h/;token=a#{TOKEN}",
        f"sc://h/;token={TOKEN}#b#c.d.e",
    ):
        with pytest.raises(InvalidParameter) as caught:
            open_source(odd)
        assert TOKEN not in str(caught.value)
    secret = f"sc://db.example.org/;token={TOKEN}#spark_catalog.shop.orders"
    assert TOKEN not in canonical_source(secret)
    from sordino.address import without_password

    assert without_password(secret) == "sc://db.example.org:15002#spark_catalog.shop.orders"
    with pytest.raises(InvalidParameter, match="through a server"):
        open_source("spark:spark_catalog.shop.orders")


def test_what_is_not_there_is_said_before_the_charge(address):
    with socket.socket() as asks:
        asks.bind(("127.0.0.1", 0))
        free = asks.getsockname()[1]
    from sordino.sources.spark import frames as spark

    spark_seconds, spark._REACHED_SECONDS = spark._REACHED_SECONDS, 1
    try:
        with pytest.raises(DataSourceError, match="must be reachable"):
            open_source(f"sc://127.0.0.1:{free}#spark_catalog.shop.orders")
    finally:
        spark._REACHED_SECONDS = spark_seconds
    with pytest.raises(DataSourceError, match="existing table or view") as caught:
        open_source(address.replace("orders", "nothing"))
    assert caught.value.__cause__ is None
    with pytest.raises(InvalidParameter, match="in full"):
        open_source(f"{own_server().address}#orders")


def test_frames_have_a_name(tmp_path):
    orders = session().createDataFrame(pa.table({"u": ["a", "b"]}))
    ledger = sd.Ledger.create(
        str(tmp_path / "budget.db"),
        account="a",
        budget=sd.Budget(epsilon=3),
        adjacency="add-remove",
        unit="u",
        source="name:orders",
    )
    with pytest.raises(InvalidParameter, match=r"Session\.name"):
        sd.Session(orders, unit=PrivacyUnit("u"), ledger=ledger)
    with sd.Session(orders, unit=PrivacyUnit("u"), ledger=ledger, name="orders") as s:
        s.count_distinct_units(epsilon=1)
    assert ledger.remaining == 2
