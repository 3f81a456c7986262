"""Where no labels are said, each refusal says what to give, what can be declared once, and the honest way out."""

from __future__ import annotations

import polars as pl
import pytest

import sordino as sd

ORDERS = pl.DataFrame({"who": ["a", "b", "c"], "item": ["tea", "tea", "rice"], "x": [1, 2, 3]})
UNIT = sd.PrivacyUnit("who", max_rows=1)
ITEMS = {
    "histogram": lambda s: s.histogram("item", epsilon=1),
    "top": lambda s: s.top("item", k=1, epsilon=1),
    "top_set": lambda s: s.top_set("item", k=1, epsilon=1),
    "above": lambda s: s.above("item", threshold=1, positives=1, epsilon=1),
    "plan": lambda s: s.plan.histogram("item", epsilon=1),
}
GROUPS = {
    "sum": lambda s: s.sum("x", by="item", lower=0, cap=9, epsilon=1),
    "quantile": lambda s: s.quantile("x", q=0.5, by="item", lower=0, cap=9, epsilon=1),
}


@pytest.fixture
def session():
    return sd.Session(ORDERS, unit=UNIT, entropy=sd.Seeded(3))


@pytest.mark.parametrize("name", ITEMS | GROUPS)
def test_in_python(session, name):
    with pytest.raises(sd.UnknownDomain) as refused:
        (ITEMS | GROUPS)[name](session)
    said = str(refused.value)
    assert 'labels.COLUMN = "FILE" in sordino.toml' in said
    assert "domain=[" in said
    assert "unique()" in said
    # Groups that are read from the rows themselves are refused: what would not help is not said.
    assert ('domain="assume-public"' in said) == (name in ITEMS)


@pytest.mark.usefixtures("no_progress")
@pytest.mark.parametrize("line", [("top", "-k", 1, "--item"), ("histogram", "--item")])
def test_in_the_command(sordino, tmp_path, line):
    ORDERS.write_csv(tmp_path / "orders.csv")
    who = ("--user", "who", "--no-ledger", "--epsilon", 1)
    done = sordino(line[0], tmp_path / "orders.csv", *line[1:], "item", *who)
    assert (done.code, done.out) == (2, "")
    assert 'labels.COLUMN = "FILE" in sordino.toml' in done.err
    assert "--assume-public" in done.err
    twice = sordino(
        *(line[0], tmp_path / "orders.csv", *line[1:], "item", *who),
        *("--assume-public", "--domain-range", "1:9"),
    )
    assert "got --domain-range and --assume-public." in twice.err
    assert "sordino.toml" not in twice.err


def test_labels_are_read_as_a_release_takes_them(session):
    """Twin: a text that every release takes raised AttributeError here."""
    assert session.read_labels("assume-public").kind == "assumed public"
    assert session.read_labels(["tea", "rice"]).labels == ("rice", "tea")
    assert session.read_labels(sd.Domain.of(["tea"])).labels == ("tea",)
    for wrong in ("item", None, 7):
        with pytest.raises(sd.InvalidParameter, match="domain must be a list of labels"):
            session.read_labels(wrong)
