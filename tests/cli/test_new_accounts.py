"""A new account is about a source that is there and a column that it has, and a large budget is meant."""

from __future__ import annotations

from pathlib import Path

import duckdb
import psycopg
import pytest

from sordino.cost import Approximate
from sordino.errors import BudgetExceeded
from sordino.ledger import Ledger
from support.postgres import own_server

URL = ("--ledger", "budget.db", "--account", "shop")
NAMES = ("create", "init")


@pytest.fixture
def create(sordino, orders, monkeypatch):
    monkeypatch.chdir(orders.parent)

    def call(*options, source="orders.csv", unit="customer", epsilon=3, name="create"):
        whom = ("--unit", unit) if unit else ("--row-is-unit",)
        return sordino(
            "ledger", name, *URL, "--epsilon", epsilon, *whom, "--source", source, *options
        )

    return call


def assert_refused(result, folder, code, *words):
    assert (result.code, result.out) == (code, ""), result.err
    for word in words:
        assert word in result.err
    assert not (folder / "budget.db").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_source_that_is_not_there(create, tmp_path, name):
    for source in ("order.csv", "orders*.parquet", "duckdb:none.duckdb#t", "gopher://x", "."):
        assert_refused(create(source=source, name=name), tmp_path, 4, "--not-yet")
        assert_refused(create(source=source, unit=None, name=name), tmp_path, 4, "--not-yet")
    assert create("--not-yet", source="order.csv", name=name).code == 0


def test_a_column_that_is_not_there(create, tmp_path):
    refused = create(unit="custmer")
    assert_refused(refused, tmp_path, 2, "--unit", "'custmer'", "Did you mean 'customer'?")
    assert_refused(create(unit="zebra"), tmp_path, 2, "The columns are 'customer', 'product'")
    assert create("--not-yet", unit="custmer").code == 0


def test_a_column_of_a_type_that_cannot_be_a_unit(create, tmp_path):
    duckdb.sql("COPY (SELECT [1] AS who, 'a' AS customer) TO 'typed.parquet'")
    assert_refused(
        create(source="typed.parquet", unit="who"), tmp_path, 2, "--unit must be a column of texts"
    )
    assert create(source="typed.parquet").code == 0


def test_rows_are_units_of_any_source(create):
    assert create(unit=None).code == 0


def test_tables_in_memory_and_standard_input_need_no_check(create, sordino):
    for number, source in enumerate(("name:orders", "-", "postgresql:7000/1/2/public.orders")):
        line = (
            "--ledger",
            f"{number}.db",
            "--account",
            "shop",
            "--epsilon",
            1,
            "--unit",
            "customer",
        )
        assert sordino("ledger", "create", *line, "--source", source).code == 0


def test_the_form_of_a_csv_file_is_said(create, tmp_path):
    (tmp_path / "tabs.tsv").write_text("kund\xfcn\tx\na\t1\n", encoding="latin-1")
    assert_refused(create(source="tabs.tsv", unit="kund\xfcn"), tmp_path, 4)
    form = ("--delimiter", "\\t", "--encoding", "latin-1")
    assert create(*form, source="tabs.tsv", unit="kund\xfcn").code == 0


def test_only_the_schema_is_looked_at(create, tmp_path):
    """Rows that are broken, or none at all, change nothing."""
    (tmp_path / "rows.csv").write_bytes(b'customer,x\n"\xff\xfe,,,\n')
    (tmp_path / "none.csv").write_bytes(b"customer,x\n")
    said = []
    for name in ("rows", "none"):
        result = create(source=f"{name}.csv")
        said.append((result.code, result.err))
        Path("budget.db").unlink()
    assert said == [(0, ""), (0, "")]


def test_parameters_come_before_the_source(create, tmp_path):
    assert_refused(create(source="none.csv", epsilon=0), tmp_path, 2, "Budget.epsilon")
    assert_refused(
        create("--delta", "1", source="none.csv"), tmp_path, 2, "must be a number in [0, 1)"
    )
    assert_refused(create(source="none.csv", epsilon=101), tmp_path, 2, "--yes-i-mean-it")


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_above_a_hundred_is_meant(create, tmp_path, name):
    refused = create(epsilon="100.5", name=name)
    assert_refused(
        refused,
        tmp_path,
        2,
        "--epsilon must be at most 100",
        "At epsilon 100.5, someone",
        "1,000 in 1,000",
    )
    assert create("--yes-i-mean-it", epsilon="100.5", name=name).code == 0


def test_a_share_above_a_hundred_is_meant(create, sordino):
    assert create("--yes-i-mean-it", epsilon=1000).code == 0
    grant = ("ledger", "grant", *URL, "--to", "web", "--epsilon")
    refused = sordino(*grant, 101)
    assert (refused.code, refused.out) == (2, "")
    assert "At epsilon 101, someone" in refused.err
    assert sordino("ledger", "show", *URL).json["spent"] == 0
    assert sordino(*grant, 100).code == 0
    assert sordino(*grant, 101, "--yes-i-mean-it").code == 0


def test_a_share_in_rho_is_judged_by_its_epsilon(create, sordino):
    made = create("--meter", "zcdp", "--delta", "1e-6", "--yes-i-mean-it", epsilon=1000)
    assert made.code == 0
    grant = ("ledger", "grant", *URL, "--to", "web", "--rho")
    # rho 55 is epsilon 108 at this delta, rho 45 is epsilon 93.
    refused = sordino(*grant, 55)
    assert (refused.code, refused.out) == (2, "")
    assert "The epsilon of a share must be at most 100" in refused.err
    for none in (0, -1):
        assert "--rho must be a number in (0, inf)" in sordino(*grant, none).err
    assert sordino(*grant, "1e99").code == 2
    assert sordino(*grant, 45).code == 0
    assert sordino(*grant, 55, "--yes-i-mean-it").code == 0


def test_a_large_delta_is_meant(create, tmp_path):
    zcdp = ("--meter", "zcdp", "--delta")
    refused = create(*zcdp, "0.0015")
    assert_refused(
        refused,
        tmp_path,
        2,
        "--delta must be at most 0.001",
        "with a probability of 0.0015 keeps",
        "--yes-i-mean-it",
    )
    hinted = create(*zcdp, "0.0003", "--size-hint", 5000)
    assert_refused(
        hinted,
        tmp_path,
        2,
        "--delta must be at most 1/5000",
        "0.0003 keeps that promise, too: of 5,000 people 1.5 on average",
    )
    # A small hint makes nothing looser.
    assert_refused(create(*zcdp, "0.0015", "--size-hint", 10), tmp_path, 2, "at most 0.001")
    assert_refused(create(*zcdp, "0.0001", "--size-hint", 0), tmp_path, 2, "--size-hint must be")
    assert_refused(create("--size-hint", 10), tmp_path, 2, "--size-hint needs --delta")
    assert create(*zcdp, "0.0002", "--size-hint", 5000).code == 0


def test_a_large_delta_that_is_meant(create):
    assert create("--meter", "zcdp", "--delta", "0.01", "--yes-i-mean-it").code == 0


@pytest.fixture
def table():
    cluster = own_server()
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE public.new_accounts (customer text, price bigint)")
        yield f"{cluster.url()}#public.new_accounts"
        connection.execute("DROP TABLE public.new_accounts")


def test_a_table_of_a_server_is_asked_for(create, table, tmp_path):
    assert_refused(create(source=table, unit="custmer"), tmp_path, 2, "Did you mean 'customer'?")
    missing = table.rpartition("#")[0] + "#nowhere"
    assert_refused(create(source=missing), tmp_path, 4)
    assert create(source=table).code == 0


@pytest.mark.parametrize("meter", ["renyi", "zcdp"])
@pytest.mark.parametrize(
    ("failures", "words", "each", "many"),
    [
        ("3e-7", "3 of them with labels that nobody listed (--delta 1e-07).", "1e-7", 3),
        ("1e-6", "1 of them with labels that nobody listed (--delta 1e-06).", "1e-6", 1),
    ],
)
@pytest.mark.each_value
def test_how_many_releases_may_fail_is_said(
    create, sordino, tmp_path, meter, failures, words, each, many
):
    """As many fit as a new account says, and not one more; `show` counts what is left."""
    made = create("--delta", "1e-5", "--failures", failures, "--meter", meter, "--format", "table")
    assert words in made.out
    ledger = Ledger.open(tmp_path / "budget.db", account="shop")
    for _ in range(many):
        ledger.reserve(Approximate(epsilon=0.001, delta=float(each)))
    shown = sordino("ledger", "show", *URL, "--format", "table")
    assert ", none of them with labels that nobody listed (--delta" in shown.out
    with pytest.raises(BudgetExceeded):
        ledger.reserve(Approximate(epsilon=0.001, delta=float(each)))


def test_an_account_that_keeps_no_delta_says_so(create):
    said = create("--delta", "1e-5", "--format", "table").out
    assert ", none of them with labels that nobody listed (failures)." in said
