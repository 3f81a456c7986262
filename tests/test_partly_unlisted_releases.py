"""Releases of combinations of which nobody listed a column: every figure, plan, study, kept release and second look has them as tuples."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from fractions import Fraction

import polars as pl
import pytest

import sordino as sd
from sordino.questions import Domain
from sordino.record import Record
from sordino.record_text import write_csv, write_json
from sordino.results import describe
from sordino.session.counts import HistogramRequest
from study.shop import HEAD, put_shop

DELTA = Fraction(1, 10**6)
FOUND = Domain.unlisted(delta=DELTA)
REGIONS, PAGES = ["North", "South"], ["/a", "/b", '/"c"', "/a/b"]
DOMAIN = {"region": REGIONS, "page": FOUND}
ITEM = ["region", "page"]
GROUPS = {"by": ITEM, "domain": DOMAIN, "groups_per_unit": 2, "most_groups": 20}
COLUMN = {"lower": 0, "cap": 100}


@pytest.fixture(scope="module")
def visits():
    """Each person has two rows, some of them of a region that no list has, and a page of its own."""
    regions = [*REGIONS, "East"]
    rows = [
        (f"p{n}", regions[(n + k) % 3], PAGES[(n * n + 2 * k) % 4], n % 9)
        for n in range(2000)
        for k in range(2)
    ]
    rows += [(f"p{n}", "North", f"/of {n}", 1) for n in range(2000)]
    return pl.DataFrame(rows, schema=["who", "region", "page", "n"], orient="row")


def open_session(visits, most=3, **more):
    unit = sd.PrivacyUnit("who", max_rows=most)
    return sd.Session(visits, unit=unit, **({"entropy": sd.Seeded(5)} | more))


def truth(visits):
    """People of each combination that could be found: those of one person are none."""
    rows = {row[:3] for row in visits.rows() if row[1] in REGIONS}
    counts = Counter(row[1:] for row in rows)
    return {label: n for label, n in counts.items() if n > 1}


@pytest.mark.slow
def test_every_release_that_finds_labels_finds_tuples(visits):
    s, known = open_session(visits), truth(visits)
    asked = {"epsilon": 8, "domain": DOMAIN}
    for release in (
        s.histogram(ITEM, **asked),
        s.top_k(ITEM, k=20, **asked),
        s.top_k(ITEM, k=20, method="gaps", **asked),
        s.above(ITEM, threshold=50, positives=9, **asked),
        open_session(visits, None).top_k(ITEM, k=9, **asked),
        s.top_sums(ITEM, "n", k=20, cap=100, **asked),
        s.mean("n", epsilon=8, **GROUPS, **COLUMN),
        s.sum(None, epsilon=8, per_person="count", **GROUPS, **COLUMN),
        s.variance("n", epsilon=8, **GROUPS, **COLUMN),
        s.quantile("n", q=0.5, epsilon=8, **GROUPS, **COLUMN),
    ):
        assert {row.item for row in release} == set(known), release.name
        frame = release.to_polars()
        assert set(frame.select(ITEM).rows()) == set(known)
        record = describe(release)
        for one in (record, Record.from_text(record.to_text())):
            said = json.loads(write_json(one))
            assert {tuple(row["item"]) for row in said["rows"]} == set(known)
            lines = list(csv.DictReader(io.StringIO(write_csv(one))))
            assert {(line["region"], line["page"]) for line in lines} == set(known)
        assert "rows with another region" in str(release)
        assert "rows without page" in str(release)
        assert "tells you nothing" in str(release)
    for row in s.histogram(ITEM, **asked):
        # Of a person no more than three combinations count, its own page among them.
        assert 0.5 * known[row.item] < row.estimate < known[row.item] + 9
    every = open_session(visits).histogram(ITEM, epsilon=8, domain=FOUND)
    assert {row.item[0] for row in every} == {*REGIONS, "East"}


def test_figures_of_other_lists_have_a_search_of_their_own(visits):
    s = open_session(visits)
    with s.batch() as batch:
        found = [
            s.mean("n", epsilon=4, **GROUPS, **COLUMN),
            s.sum("n", epsilon=4, **GROUPS, **COLUMN),
            s.sum(
                "n", epsilon=4, **GROUPS | {"domain": {"region": ["East"], "page": FOUND}}, **COLUMN
            ),
        ]
    assert [one.found_before for one in found] == [False, True, False]
    assert {row.item[0] for row in found[1]} == set(REGIONS)
    assert {row.item[0] for row in found[2]} == {"East"}
    failure, _ = batch.cost.split_failure()
    assert failure == 1 - (1 - DELTA) ** 2, "a delta for each list"


@pytest.fixture
def account(tmp_path):
    return sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(epsilon=30, delta=1e-4, failures=5e-5),
        adjacency="add-remove",
        unit=sd.PrivacyUnit("who"),
        source="name:visits",
    )


def test_an_account_pays_one_delta_and_keeps_tuples(visits, account):
    known = set(truth(visits))
    with open_session(visits, entropy=sd.SYSTEM, ledger=account, name="visits") as s:
        top = s.top_k(ITEM, k=20, epsilon=4, domain=DOMAIN, method="gaps")
        mean = s.mean("n", epsilon=8, **GROUPS, **COLUMN)
        for release in (top, mean):
            s.keep(release)
        assert {row.item for row in top} == {row.item for row in mean} == known
        charge = account.statement().charges[0]
        assert charge.detail["domain"] == "region: list; page: unlisted, delta 1/1000000, least 1"
        assert charge.detail["item"] == ITEM
        assert top.cost.split_failure()[0] == DELTA
    with open_session(visits, entropy=sd.SYSTEM, ledger=account, name="visits") as s:
        for release in (top, mean):
            again = s.remeasure(release.receipt.id, epsilon=2)
            assert {row.item for row in again} == known
            assert again.to_polars().columns[:2] in (ITEM, ["rank", "region"])


@pytest.mark.slow
def test_a_plan_says_what_a_release_would_cost(visits):
    s = open_session(visits)
    for ask in (
        lambda plan: plan.top_k(ITEM, k=3, epsilon=1, domain=DOMAIN),
        lambda plan: plan.histogram(ITEM, epsilon=1, domain=DOMAIN),
        lambda plan: plan.mean("n", epsilon=1, **GROUPS, **COLUMN),
        lambda plan: plan.sum("n", epsilon=1, per_person="sum", **GROUPS, **COLUMN),
    ):
        assert ask(s.plan).cost == ask(s).cost


@pytest.mark.slow
def test_a_study_finds_them(tmp_path):
    release = """
[[release]]
kind = "top_k"
name = "best"
item = ["product", "price"]
k = 3
domain = {product = {file = "items.csv", column = "name"}, price = {unlisted = {delta = 1e-6}}}
share = 0.5

[[release]]
kind = "histogram"
name = "all"
item = ["product", "price"]
domain = {unlisted = {delta = 1e-6}}
share = 0.5
"""
    head = HEAD.replace("epsilon = 2", "epsilon = 8\ndelta = 2e-6").replace(
        "max_rows = 3", "max_rows = 2"
    )
    path = put_shop(tmp_path, head + release, epsilon=20, delta=1e-4, failures=1e-5)
    study = sd.Study.load(path)
    study.plan()
    study.run(run_id="one", output=tmp_path / "out")
    [folder] = [one for one in (tmp_path / "out").iterdir() if one.is_dir()] or [tmp_path / "out"]
    for name in ("best", "all"):
        lines = list(
            csv.DictReader(io.StringIO((folder / f"{name}.csv").read_text(encoding="utf-8")))
        )
        assert ("rice", "3.00") in {(line["product"], line["price"]) for line in lines}
        assert {line["product"] for line in lines} <= {"rice", "tea"}
    less = path.read_text(encoding="utf-8").replace("delta = 2e-6\n", "delta = 1e-6\n")
    path.write_text(less, encoding="utf-8")
    with pytest.raises(sd.InvalidParameter, match="they spend delta 2e-06"):
        sd.Study.load(path)


def test_labels_that_are_declared_come_first_and_sets_and_tables_list_them(visits):
    """A word for all columns is of those that nothing lists; of a column that is named it is meant."""
    days = visits.with_columns(day=pl.date(2024, 1, 1) + pl.duration(days=pl.col("n")))
    for domain, listed in ((FOUND, True), ({"page": FOUND, "weekday(day)": FOUND}, False)):
        release = open_session(days).histogram(["weekday(day)", "page"], epsilon=8, domain=domain)
        said = "all values of weekday(day)" if listed else "weekday(day): unlisted"
        assert said in describe(release).facts["domain"]
        assert {row.item[1] for row in release} == set(PAGES)
    # As of one column: who says that nobody lists them means those that are declared, too.
    request = HistogramRequest(item=ITEM, epsilon=1, domain=FOUND)
    both = {"region": ["North"], "page": ["/a"]}
    assert request.take_labels(both).domain == FOUND
    one = request.take_labels({"region": Domain.of(["North"])}).domain
    assert [part.kind for part in one.parts] == ["list", "unlisted"]
    for name, more in (("top_set", {"k": 2}), ("table", {})):
        with pytest.raises(sd.UnknownDomain, match="must list its labels"):
            getattr(open_session(visits), name)(ITEM, epsilon=1, domain=DOMAIN, **more)
    with pytest.raises(sd.InvalidParameter, match=r"search_share belongs to Domain\.unlisted"):
        open_session(visits).mean(
            "n",
            epsilon=1,
            by=ITEM,
            domain={"region": REGIONS, "page": PAGES},
            search_share=0.5,
            **COLUMN,
        )
