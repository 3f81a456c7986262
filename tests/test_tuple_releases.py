"""Releases of labels of several columns: in every form the same tuples, each part in a column of its own."""

from __future__ import annotations

import csv
import io
import itertools
import json

import polars as pl
import pytest

import sordino as sd
from sordino.record import Record
from sordino.results import describe

REGIONS, AGES = ["South", "North"], ["0-17", "18-64", "65+"]
CELLS = list(itertools.product(REGIONS, AGES))
DOMAIN = {"region": REGIONS, "age": AGES}


@pytest.fixture(scope="module")
def people():
    rows = [(f"p{n}", *CELLS[n * n % 6], n % 50) for n in range(900)]
    return pl.DataFrame(rows, schema=["id", "region", "age", "income"], orient="row")


def session(people, ledger=None, most=1, name=None):
    more = {"entropy": sd.Seeded(3)} if ledger is None else {"ledger": ledger, "name": name}
    return sd.Session(people, unit=sd.PrivacyUnit("id", max_rows=most), **more)


def truth(people):
    found = people.group_by("region", "age").len()
    return {(region, age): n for region, age, n in found.rows()}


def test_every_release_of_labels_takes_several_columns(people):
    s, known = session(people), truth(people)
    histogram = s.histogram(["region", "age"], epsilon=8, domain=DOMAIN)
    assert [row.item for row in histogram] == CELLS
    assert all(abs(row.estimate - known.get(row.item, 0)) < 5 for row in histogram)
    best = max(known, key=known.__getitem__)
    for release in (
        s.top_k(["region", "age"], k=1, epsilon=8, domain=DOMAIN),
        s.top_set(("region", "age"), k=1, epsilon=8, domain=DOMAIN),
        s.top_k(["region", "age"], k=1, epsilon=8, domain=DOMAIN, method="gaps"),
    ):
        assert known[release.rows[0].item] == known[best]
    above = s.above(["region", "age"], threshold=100, positives=6, epsilon=8, domain=DOMAIN)
    assert {row.item for row in above} == {cell for cell, n in known.items() if n > 100}
    sums = session(people, most=None).top_sums(
        ["region", "age"], k=2, column="income", epsilon=8, cap=1000, domain=DOMAIN
    )
    assert set(sums.rows[0].item) <= {*REGIONS, *AGES}


@pytest.mark.parametrize("figure", ["mean", "sum", "variance", "quantile"])
def test_groups_are_of_several_columns(people, figure):
    asked = {"q": 0.5} if figure == "quantile" else {}
    release = getattr(session(people), figure)(
        "income",
        epsilon=8,
        cap=100,
        lower=0,
        by=["region", "age"],
        domain=DOMAIN,
        groups_per_unit=1,
        **asked,
    )
    assert [row.item for row in release] == CELLS
    frame = release.to_polars()
    assert frame.columns[:2] == ["region", "age"]
    assert frame.select("region", "age").rows() == CELLS


def test_each_part_has_a_column_of_its_own(people):
    release = session(people).histogram(["region", "age"], epsilon=1, domain=DOMAIN)
    assert release.to_pandas()[["region", "age"]].values.tolist() == [list(one) for one in CELLS]
    assert release.to_arrow().column_names[:3] == ["region", "age", "estimate"]
    record = describe(release)
    kept = Record.from_text(record.to_text())
    from sordino.record_text import write_csv, write_json

    for one in (record, kept):
        said = json.loads(write_json(one))
        assert said["item"] == ["region", "age"]
        assert [tuple(row["item"]) for row in said["rows"]] == CELLS
        lines = list(csv.DictReader(io.StringIO(write_csv(one))))
        assert [(line["region"], line["age"]) for line in lines] == CELLS
    text = str(release)
    assert text.splitlines()[0].split()[:2] == ["region", "age"]
    assert "by region and age" in text
    assert "rows with another region or age" in text


def test_a_column_that_is_called_like_a_figure_is_told_apart():
    rows = pl.DataFrame({"low": ["a", "b"] * 50, "item": ["x", "y"] * 50})
    s = sd.Session(rows, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1))
    release = s.histogram(
        ["low", "item"], epsilon=1, domain={"low": ["a", "b"], "item": ["x", "y"]}
    )
    assert release.to_polars().columns[:2] == ["item.low", "item"]
    from sordino.record_text import write_csv

    assert write_csv(describe(release)).split("\n")[0].startswith("item.low,item,estimate,low")


def test_a_share_of_one_cell_is_derived(people):
    release = session(people).histogram(["region", "age"], epsilon=8, domain=DOMAIN)
    cell = sd.derive(release, ("South", "0-17"))
    [row] = [row for row in release if row.item == ("South", "0-17")]
    assert cell.estimate == row.estimate
    whole = sum(sd.derive(release, one) for one in CELLS)
    assert 0 < (cell / whole).estimate < 1


def test_a_kept_release_is_measured_again(people, tmp_path):
    ledger = sd.Ledger.create(
        tmp_path / "budget.db",
        account="a",
        budget=sd.Budget(epsilon=10),
        adjacency="add-remove",
        unit=sd.PrivacyUnit("id"),
        source="name:people",
    )
    for make in (
        lambda s: s.histogram(["region", "age"], epsilon=1, domain=DOMAIN),
        lambda s: s.mean(
            "income",
            epsilon=2,
            cap=100,
            lower=0,
            by=["region", "age"],
            domain=DOMAIN,
            groups_per_unit=1,
        ),
    ):
        with session(people, ledger, name="people") as s:
            release = make(s)
            s.keep(release)
        with session(people, ledger, name="people") as s:
            again = s.remeasure(release.receipt.id, epsilon=1)
            assert {row.item for row in again} == set(CELLS)
            assert again.to_polars().columns[:2] == ["region", "age"]
