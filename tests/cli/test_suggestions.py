"""What is misspelled is met with the nearest name, where names are public."""

from __future__ import annotations

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
