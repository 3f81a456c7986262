"""What is public is refused with one clear sentence before anything is charged."""

from __future__ import annotations

import sqlite3

import pytest

import sordino as sd
from sordino.cli import BUG, SYSTEM


def spent(sordino, account):
    return sordino("ledger", "show", *account).json["spent"]


NOBODY = {"domain": None, "domain_column": None}
REFUSED = {
    "k zero": ({"k": 0}, (), 2, "top_k.k must be a whole number, at least 1; got 0."),
    "k beyond the domain": (
        {"k": 5},
        (),
        2,
        "top_k.k must be at most the size of the domain, 4; got 5.",
    ),
    "epsilon zero": ({"epsilon": 0}, (), 2, "top_k.epsilon must be a number in (0, inf); got"),
    "epsilon negative": ({"epsilon": -1}, (), 2, "top_k.epsilon must be a number in (0, inf); got"),
    "epsilon nan": ({"epsilon": "nan"}, (), 2, "'nan' is not a finite decimal number"),
    "epsilon inf": ({"epsilon": "inf"}, (), 2, "'inf' is not a finite decimal number"),
    "share one": (
        {"selection_share": 1},
        (),
        2,
        "top_k.selection_share must be a number in (0, 1); got",
    ),
    "share nan": ({"selection_share": "nan"}, (), 2, "is not a finite decimal number"),
    "no such item column": ({"item": "produkt"}, (), 2, "produkt"),
    "no such unit column": ({"user": "nobody"}, (), 2, "nobody"),
    "no such domain file": ({"domain": "nowhere.csv"}, (), None, "nowhere.csv"),
    "no such domain column": ({"domain_column": "x"}, (), 2, "x"),
    "two domains": (
        {"domain_sql": "SELECT 'a'", "domain_column": None},
        (),
        2,
        "Give exactly one of --domain",
    ),
    "no domain": ({"domain": None, "domain_column": None}, (), 2, "Give exactly one of --domain"),
    "two units": ({}, ("--row-is-unit",), 2, "Give exactly one of --user"),
    "no unit": ({"user": None}, (), 2, "Give exactly one of --user"),
    "max rows without user": (
        {"user": None, "max_rows": 2},
        ("--row-is-unit",),
        2,
        "--max-rows needs --user",
    ),
    "max rows zero": ({"max_rows": 0}, (), 2, "max_rows"),
    "seed without synthetic": ({"seed": 3}, (), 2, "needs --synthetic"),
    "seed with a ledger": ({"seed": 3}, ("--synthetic",), 2, "cannot be combined with --ledger"),
    "budget": (
        {"epsilon": 11},
        ("--yes-i-mean-it",),
        3,
        "100% of the budget of account shop is left; this needs 110%. The largest epsilon that fits is 10. Nothing was read or released.",
    ),
    "adjacency": ({"adjacency": "replace-one"}, (), 5, "add-remove"),
    "another unit": ({"user": "price"}, (), 5, "protects"),
    "where": ({"where": "price > (SELECT 1)"}, (), 2, ""),
    "delimiter": ({"delimiter": "ab"}, (), 2, "delimiter"),
    "encoding": ({"encoding": "klingon"}, (), 2, "encoding"),
    "underscores": ({"epsilon": "1_0"}, (), 2, "is not a finite decimal number"),
    "other digits": ({"epsilon": "\u0661"}, (), 2, "is not a finite decimal number"),
    "much too much": ({"epsilon": "1e400"}, (), 2, "is not a finite decimal number"),
    "too much for noise": ({"epsilon": "1e90"}, ("--yes-i-mean-it",), 2, "a rate of at most 2^40"),
    "an empty domain": ({"domain": ""}, ("--assume-public",), 2, "Give exactly one of --domain"),
    "unlisted beside a list": (
        {"delta": "1e-6"},
        ("--unlisted",),
        2,
        "Give exactly one of --domain",
    ),
    "unlisted without a delta": (
        NOBODY,
        ("--unlisted",),
        2,
        "--unlisted needs --delta D, the probability",
    ),
    "a delta of a list": ({"delta": "1e-6"}, (), 2, "--delta needs --unlisted"),
    "an edge of a list": ({"least": 3}, (), 2, "--least needs --unlisted"),
    "a large delta": (
        NOBODY | {"delta": "0.01"},
        ("--unlisted",),
        2,
        "--delta must be at most 0.001 unless --yes-i-mean-it is given.",
    ),
    "a delta of one": (
        NOBODY | {"delta": 1},
        ("--unlisted", "--yes-i-mean-it"),
        2,
        "Domain.unlisted.delta must be a number in (0, 1); got 1.",
    ),
    "an edge of zero": (
        NOBODY | {"delta": "1e-6", "least": 0},
        ("--unlisted",),
        2,
        "Domain.unlisted.least must be a whole number from 1 to 2^52; got 0.",
    ),
    "what nobody listed": (
        NOBODY | {"delta": "1e-6"},
        ("--unlisted",),
        2,
        "top_k.domain must list its labels on an account of pure epsilons, because labels that nobody",
    ),
    "unknown option": ({}, ("--frobnicate",), 2, "No such option"),
}


@pytest.mark.parametrize(("changes", "flags", "code", "words"), REFUSED.values(), ids=REFUSED)
@pytest.mark.sample(4)
def test_public_mistakes_cost_nothing(top, sordino, account, changes, flags, code, words):
    result = top(*flags, *account, **changes)
    assert result.code == code or (code is None and result.code in {2, 4})
    assert result.out == ""
    assert words in result.err
    assert "Traceback" not in result.err
    assert spent(sordino, account) == 0


@pytest.mark.parametrize(("kind", "code", "words"), [(RuntimeError, 1, BUG), (OSError, 4, SYSTEM)])
def test_an_error_that_nobody_expected_is_one_constant_sentence(
    top, monkeypatch, kind, code, words
):
    """What it says may be a row."""

    def fail(*_args, **_options):
        raise kind("c17 bought tea")

    monkeypatch.setattr(sd.Session, "top_k", fail)
    found = top()
    assert (found.code, found.out, found.err) == (code, "", f"{words}\n")


def test_sources_that_cannot_be_opened(top, sordino, account, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_bytes(b"")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 but not really")
    for source in (
        tmp_path / "none.csv",
        tmp_path / "none*.parquet",
        empty,
        broken,
        tmp_path,
        "duckdb:none.duckdb#t",
        "gopher://x",
    ):
        result = top(*account, source=source)
        assert result.code == 4, source
        assert result.err.startswith("Error: ")
        assert result.out == ""
    assert spent(sordino, account) == 0


def test_another_source_is_refused(top, sordino, account, orders, tmp_path):
    other = tmp_path / "other.csv"
    other.write_bytes(orders.read_bytes())
    result = top(*account, source=other)
    assert result.code == 5
    assert "is about" in result.err
    assert spent(sordino, account) == 0


def test_columns_of_an_unusable_type(top, sordino, account, tmp_path):
    import duckdb

    path = tmp_path / "typed.parquet"
    duckdb.sql(
        f"COPY (SELECT 'a' AS customer, TIMESTAMP '2024-01-01' AS product, [1] AS list, 'x'::BLOB AS blob) TO '{path}'"
    )
    for column in ("product", "list", "blob"):
        assert top(source=path, item=column).code == 2
        assert top(source=path, user=column, item="customer").code == 2


def test_ledgers_that_are_none(top, sordino, tmp_path):
    text = tmp_path / "text.db"
    text.write_text("not a database", encoding="utf-8")
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    for url in (
        text,
        other,
        tmp_path / "none.db",
        tmp_path / "no" / "folder.db",
        tmp_path,
        "postgresql://localhost/x",
    ):
        result = top("--ledger", url, "--account", "shop")
        assert result.code == 5, url
        assert result.out == ""
        assert result.err.count("\n") == 1
    assert top("--ledger", text).code == 2
    assert top("--account", "shop").code == 2


def test_accounts_that_do_not_exist(top, account):
    result = top(*account[:2], "--account", "nobody")
    assert result.code == 5
    assert "nobody" in result.err
    assert "shop" in result.err


def test_accounts_are_made_once(sordino, account, orders):
    again = sordino(
        "ledger", "create", *account, "--epsilon", 10, "--unit", "customer", "--source", orders
    )
    assert again.code == 5
    assert "exists already" in again.err
    listed = sordino("ledger", "accounts", *account[:2])
    assert [row["account"] for row in listed.json["rows"]] == ["shop"]


def test_the_ledger_remembers(top, sordino, account):
    assert top(*account, epsilon="0.1").code == 0
    assert top(*account, epsilon="0.1", k=1).code == 0
    shown = sordino("ledger", "show", *account).json
    assert (shown["limit"], shown["spent"], shown["remaining"]) == (10.0, 0.2, 9.8)
    assert [row["label"] for row in shown["rows"]] == ["top_k", "top_k"]
    assert {row["state"] for row in shown["rows"]} == {"settled"}
    assert shown["rows"][1]["detail"] == {
        "item": "product",
        "k": 1,
        "domain": shown["rows"][0]["detail"]["domain"],
        "domain_size": 4,
    }
    table = sordino("ledger", "show", *account, "--format", "table").out
    assert "Account shop: [#...................] 2% of its budget is spent." in table
