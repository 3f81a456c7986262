"""Eleven calls of somebody who guesses from Python: most are answered, and each refusal is a sentence with a remedy.

Ten of them were refused before cap and lower had a default.
"""

from __future__ import annotations

import re

import polars as pl
import pytest

import sordino as sd
from sordino.session.releases import RELEASES

ROWS = pl.DataFrame(
    {
        "customer_id": [f"c{n % 900}" for n in range(5000)],
        "product": [("apple", "pear", "plum", "fig")[n % 7 % 4] for n in range(5000)],
        "price": [1 + n * 37 % 50 for n in range(5000)],
    }
)
ANSWERED = {
    "count_distinct_units": lambda s: s.count_distinct_units(epsilon=0.5),
    "sum": lambda s: s.sum("price", epsilon=0.5),
    "mean": lambda s: s.mean("price", epsilon=0.5),
    "median": lambda s: s.median("price", epsilon=0.5),
    "quantile": lambda s: s.quantile("price", q=0.9, epsilon=0.5),
    "variance": lambda s: s.variance("price", epsilon=0.5),
    "read_labels": lambda s: s.read_labels("assume-public"),
}
REFUSED = {
    "count, epsilon": (lambda s: s.count(), r"needs epsilon, such as count\(epsilon=0\.5\)\."),
    "count": (lambda s: s.count(epsilon=0.5), r"such as max_rows=5 "),
    "top": (
        lambda s: s.top("product"),
        r"needs epsilon, such as top_k\(\.\.\., epsilon=0\.5\)\.",
    ),
    "histogram": (lambda s: s.histogram("product", epsilon=0.5), r'Give domain=\["tea", "rice"\]'),
}
ALSO = {
    "median": (lambda s: s.median("price"), r"Session\.median\(\) needs epsilon, such as median\("),
    "above": (lambda s: s.above("product"), r"needs threshold, positives, epsilon, such as"),
    "no column": (lambda s: s.mean(epsilon=1), r'such as mean\("price", \.\.\.\)'),
    "a plan": (lambda s: s.plan.top_k("product", k=1, goal=None, epsilon=1), "domain="),
    "a plan without epsilon": (lambda s: s.plan.top_k("product", k=1), r"needs epsilon, such as"),
    "bins": (lambda s: s.value_histogram("price", epsilon=1), r"bins=\[0, 10, 100\]"),
    "a range": (
        lambda s: s.sum("price", epsilon=1, bounds=(0, 10)),
        r"sum\.cap \(--cap\) must be given with bounds.* such as cap=100",
    ),
}


@pytest.fixture
def shop(tmp_path):
    save = tmp_path / "budget.db"
    return sd.open(ROWS, person="customer_id", epsilon=50, save=save, name="purchases")


@pytest.mark.parametrize("name", ANSWERED)
@pytest.mark.sample(3)
def test_what_is_answered(shop, name):
    assert ANSWERED[name](shop) is not None


@pytest.mark.parametrize("name", REFUSED | ALSO)
@pytest.mark.sample(5)
def test_what_is_refused_says_what_to_give(shop, name):
    call, says = (REFUSED | ALSO)[name]
    before = shop._executor.ledger.remaining
    with pytest.raises((sd.SordinoError, TypeError)) as refused:
        call(shop)
    assert re.search(says, str(refused.value)), refused.value
    assert not re.search(
        r"\bunits?\b", str(refused.value).replace("count_distinct_units", "").replace("--units", "")
    )
    assert shop._executor.ledger.remaining == before


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.sample(4)
def test_whatever_must_be_given_has_an_example(shop, name):
    with pytest.raises(TypeError, match=rf"Session\.{name}\(\) needs .*, such as {name}\("):
        getattr(shop, name)()


def test_four_of_eleven_are_refused():
    assert (len(ANSWERED), len(REFUSED)) == (7, 4)


@pytest.mark.parametrize("name", ["sum", "mean", "quantile", "variance"])
def test_a_cap_that_nobody_said_is_a_billion_and_both_signs_are_looked_for(name):
    """It is public: the same whatever the rows are, and so is the price."""
    rows = ROWS.with_columns(price=pl.col("price") - 25)
    asked = {"epsilon": 0.5} | ({"q": 0.5} if name == "quantile" else {})
    made = []
    for ends in ({}, {"cap": 10**9, "lower": None}):
        session = sd.Session(rows, unit=sd.PrivacyUnit("customer_id"), entropy=sd.Seeded(5))
        made.append(getattr(session, name)("price", **asked, **ends))
    assert made[0].to_dict() == made[1].to_dict()
    assert "makes intervals shorter" in made[0].to_text(details=True)


def test_what_lies_beyond_the_default_is_said():
    rows = pl.DataFrame({"x": [float(5e9 + n) for n in range(3000)]})
    session = sd.Session(rows, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(5))
    total = session.sum("x", epsilon=1)
    assert total.capped
    assert "capped: the search for a clip ended at the cap; more may lie beyond." in str(total)


def test_sums_of_labels_have_it_too(shop):
    top = shop.top_sums("product", "price", k=2, epsilon=5, domain=["apple", "pear", "plum", "fig"])
    assert len(top) == 2


WRONG = [
    (lambda s: s.top_k("item", k=3, epsilon=1, rank_by="x"), "takes no rank_by. .*top_sums"),
    (lambda s: s.histogram("item", epsilon=1, bins=[3]), r"takes no bins\. .*value_histogram"),
    (lambda s: s.count(epsilon=1, per_person="sum"), "takes no per_person. .*value_histogram"),
    (
        lambda s: s.mean("x", epsilon=1, domian=["a"]),
        r"takes no domian\. Did you mean 'domain'",
    ),
    (
        lambda s: s.top_k("item", 3, 0.1, ["tea"]),
        r"top_k\(\) takes item without a name; got 4 values\. Name the others: ",
    ),
]


def test_what_a_release_does_not_take_is_said_with_what_does():
    frame = pl.DataFrame({"item": ["tea"], "x": [1.0]})
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), ledger=None)
    for ask, says in WRONG:
        with pytest.raises(TypeError, match=says):
            ask(session)


def test_lists_are_taken_where_texts_are_and_files_are_named():
    assert sd.CsvFormat(null=["NA", "-"]) == sd.CsvFormat(null=("NA", "-"))
    with pytest.raises(sd.InvalidParameter, match="a list of different texts"):
        sd.CsvFormat(null=["NA", "NA"])
    with pytest.raises(sd.InvalidParameter, match=r"or a file, sd\.Domain\.from_file"):
        sd.Domain.of("products.csv")
