"""What is misspelled is met with the nearest name, where names are public."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordino.constraints import did_you_mean


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("histgram", "x.csv"), "'histogram'"),
        (("tpo", "x.csv"), "'top'"),
        (("ledger", "crate"), "'create'"),
        (("plan", "acuracy"), "'accuracy'"),
        (("top", "x.csv", "--epsilom", 1), "'--epsilon'"),
        (("count", "x.csv", "--no-leger"), "'--no-ledger'"),
    ],
)
def test_commands_and_options(sordino, words, meant):
    said = sordino(*words)
    assert (said.code, said.out) == (2, "")
    assert "No such" in said.err
    # Of options it is click that says it, in words of its own.
    assert "Did you mean" in said.err or "Possible options" in said.err
    assert (meant if meant[1] != "-" else meant.strip("'")) in said.err


def test_what_is_called_otherwise_elsewhere_names_a_command_that_is_there(sordino):
    from sordino.cli.once import ELSEWHERE

    for name, words in ELSEWHERE.items():
        said = sordino(name, "x.csv")
        assert (said.code, said.out) == (2, "")
        assert f"Here it is: sordino {words}" in said.err
        known = (
            sordino(*words.split()[:1], "--help-all").out + sordino(*words.split(), "--help").out
        )
        assert known.startswith("Usage:"), words
        for option in [word for word in words.split() if word.startswith("--")]:
            assert option in known
    # Of a group below only its own commands.
    assert "Here it is" not in sordino("ledger", "median").err


def test_what_is_no_text_is_like_nothing():
    for name in (None, 3, b"customer", ["customer"]):
        assert did_you_mean(name, ["customer"]) == ""


def test_what_is_like_nothing_is_only_refused(sordino):
    said = sordino("zzzzzz")
    assert said.code == 2
    assert "No such command 'zzzzzz'." in said.err
    assert "Did you mean" not in said.err


def test_columns(top, sordino, told, orders):
    assert "Did you mean 'product'?" in top(item="produkt").err
    assert "Did you mean 'customer'?" in top(user="custmer").err
    assert "Did you mean 'price'?" in top(where="prise = '3'").err
    line = ("--epsilon", 1, "--no-ledger")
    figure = sordino(
        "mean", orders, "--column", "prise", "--lower", 0, "--cap", 9, "--row-is-unit", *line
    )
    assert "Did you mean 'price'?" in figure.err
    for source in ("-", orders):
        report = ("--column", "prise", "--lower", 0, "--upper", 9)
        said = told("customer,product,price\na,b,1\n", "randomize", source, *report, *line)
        assert said.code == 2
        assert "Did you mean 'price'?" in said.err
    scores = sordino("select", orders, "--score", "prise", "--sensitivity", 1, *line)
    assert (scores.code, scores.out) == (2, "")
    assert "Did you mean 'price'?" in scores.err
    assert "Did you mean 'name'?" in top(domain_column="nmae").err


@pytest.fixture
def purchases(sordino, tmp_path, monkeypatch):
    """A declared table whose labels nobody has listed, and a file of labels."""
    monkeypatch.chdir(tmp_path)
    lines = ("customer_id,product,Land,Datum,price", "1,tea,DE,2026-10-01,3")
    (tmp_path / "purchases.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (tmp_path / "labels.csv").write_text("Land\nde\nat\n", encoding="utf-8")
    done = sordino("declare", "purchases.csv", "--person", "customer_id", "--epsilon", 3)
    assert done.code == 0, done.err
    return "purchases"


MONTHS = ("--column", "price", "--by", "month(Datum)", "--type", "Datum=date")
MEANT = {
    "a column that is none": (
        ("top", "--item", "produkt"),
        "item must be a column of the source; got 'produkt'. Did you mean 'product'?",
    ),
    "a column of groups": (("mean", "--column", "price", "--by", "prodct"), "mean 'product'?"),
    "a column without labels": (("top", "--item", "product"), "Give exactly one of --domain"),
    "no function": (("top", "--item", "upper(trim(Land))"), "Functions are year, "),
    "labels of another column": (
        ("top", "--item", "lower(trim(Land))", "--domain", "Land=labels.csv"),
        "where COL is the column as it was asked for, lower(trim(Land)); got 'Land=labels.csv'",
    ),
    "months": (("mean", *MONTHS), "(--domain 2025-01..2025-12)"),
    "a call without labels": (("top", "--item", "lower(Land)"), "--domain FILE"),
    "a text without quotes": (("count", "--units", "--where", "Land = DE"), "quotes: 'DE'"),
    "a condition on many rows": (
        ("count", "--units", "--where", "count(*) >= 3"),
        "histogram --per-person count --bins 3",
    ),
    "percent": (("quantile", "--column", "price", "--q", "50"), "got 50. For 50% write 0.5."),
}


def test_what_is_wrong_with_a_question_is_said_first(sordino, purchases):
    for case, ((command, *more), said) in MEANT.items():
        done = sordino(command, purchases, "--epsilon", 0.1, *more)
        assert (done.code, done.out) == (2, ""), case
        assert said in done.err, case
    assert sordino("ledger", "show", purchases).json["spent"] == 0


def test_a_path_that_is_declared_has_a_name(sordino, purchases):
    person = ("--user", "customer_id", "--epsilon", 0.1)
    done = sordino("count", "purchases.csv", "--units", *person)
    assert (done.code, done.out) == (2, "")
    assert done.err.rstrip().endswith(
        "declared as purchases, whose account pays: sordino count purchases"
    )
    other = sordino("count", "labels.csv", "--units", *person)
    assert "declared as" not in other.err
    # A broken file that nobody has named is not what the message is about.
    Path("sordino.toml").write_text("[table]\nx = 3\n", encoding="utf-8")
    assert "Say who pays" in sordino("count", "labels.csv", "--units", *person).err
    assert "sordino ledger show" in sordino("status").err
