"""The largest sums, or the most rows: which labels, with what is known of them, and what is refused."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.cli import run
from sordino.errors import InvalidParameter, UnboundedContribution
from sordino.mechanisms import HistogramTopK
from sordino.report import make_report

PRODUCTS = [f"p{place:02}" for place in range(40)]


def orders(people=2000):
    """People with many orders and with few, of products of which the first ones earn most."""
    draw = np.random.default_rng(4)
    rows = draw.geometric(0.2, people)
    shares = 1 / (np.arange(len(PRODUCTS)) + 2.0)
    product = draw.choice(len(PRODUCTS), rows.sum(), p=shares / shares.sum())
    return pl.DataFrame(
        {
            "who": np.repeat(np.arange(people), rows),
            "product": [PRODUCTS[place] for place in product],
            "price": np.round(draw.lognormal(2, 0.7, rows.sum()), 2),
        }
    )


ORDERS = orders()
ASKED = {"k": 5, "domain": PRODUCTS}


def session(seed=1, adjacency="add-remove", **unit):
    whom = sd.PrivacyUnit("who", adjacency=adjacency, **unit)
    return sd.Session(ORDERS, unit=whom, ledger=None, entropy=sd.Seeded(seed))


def truth(column):
    made = pl.len() if column is None else pl.sum(column)
    found = ORDERS.group_by("product").agg(made.alias("v")).sort("v", descending=True)
    return dict(zip(found["product"], found["v"].to_list(), strict=True))


@pytest.mark.parametrize("column", [None, "price"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_largest_are_found_with_their_sums(column, adjacency):
    wanted = truth(column)
    cap = None if column is None else 1e6
    top = session(adjacency=adjacency).top_sums("product", column, epsilon=4, cap=cap, **ASKED)
    assert float(top.cost.pure()) == pytest.approx(4)
    assert {row.item for row in top} & set(list(wanted)[:3]) == set(list(wanted)[:3])
    assert [row.rank for row in top] == [1, 2, 3, 4, 5]
    # Each end holds with 95%.
    assert sum(row.true_low <= wanted[row.item] for row in top) >= 4
    values = [row.measured for row in top]
    assert values == sorted(values, reverse=True)
    for row, beneath in zip(top.rows, top.rows[1:], strict=False):
        assert row.gap == pytest.approx(row.measured - beneath.measured)
        assert row.true_high == math.inf
        assert row.low <= row.estimate <= row.high
    assert top.clip[0] == 0 < top.clip[1] < 2000
    assert top.capped is False


def test_the_noise_is_that_of_a_histogram_whose_bound_is_the_clip():
    """What was sampled, what is stated, and what intervals are made of is one law."""
    top = session().top_sums("product", epsilon=1, **ASKED)
    sums = top.mechanism[0]
    assert isinstance(sums, sd.ClippedSums)
    clip = sums.search.clip((9,), simulated=True)
    noise = sums.noise_for(clip)
    whole = HistogramTopK(k=5, epsilon=noise.budget.pure(), sensitivity=noise.mechanism.sensitivity)
    assert whole.noise == noise.mechanism.noise
    assert whole.step == noise.step


def test_the_largest_of_the_same_noise_are_those_of_all_sums():
    """With one seed the list is the largest of the sums by groups: nothing else is drawn."""
    top = session(7).top_sums("product", "price", epsilon=1, cap=1e6, **ASKED)
    every = session(7).sum(
        "price", by="product", domain=PRODUCTS, epsilon=1, lower=0, cap=1e6, numbers_share=0
    )
    largest = sorted(every, key=lambda row: -row.release.value)[:5]
    assert [(row.item, row.measured) for row in top] == [
        (row.item, row.release.value) for row in largest
    ]
    assert top.clip == largest[0].release.clip


@pytest.mark.slow
def test_ends_hold_on_average_what_people_count_as():
    """Of 60 lists of five, at least 93% of the intervals of what counts within the clip."""
    held, runs = 0, 0
    parts = (
        ORDERS.group_by("who", "product")
        .agg(pl.sum("price"))
        .with_columns(whole=pl.sum("price").over("who"))
    )
    for seed in range(60):
        top = session(seed).top_sums("product", "price", epsilon=0.5, cap=1e6, **ASKED)
        shares = parts.with_columns(
            share=pl.col("price") * pl.min_horizontal(1, top.clip[1] / pl.col("whole"))
        )
        counted = dict(shares.group_by("product").agg(pl.sum("share")).iter_rows())
        for row in top:
            held += row.low - 1e-6 <= counted[row.item] <= row.high + 1e-6
            runs += 1
    assert held >= 0.93 * runs


def test_labels_that_nobody_listed_are_found_first(tmp_path):
    unit = sd.PrivacyUnit("who", max_rows=3)
    path = tmp_path / "orders.parquet"
    ORDERS.write_parquet(path)
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="shop",
        budget=sd.Budget(epsilon=4, delta=1e-6, failures=5e-7),
        adjacency="add-remove",
        unit=unit,
        source=path,
    )
    top = sd.Session(path, unit=unit, ledger=ledger).top_sums(
        "product", "price", k=3, epsilon=3, domain=sd.Domain.unlisted(delta=1e-7), cap=1e6
    )
    assert {row.item for row in top} <= set(list(truth("price"))[:6])
    assert top.label_threshold > 0
    assert len(top.mechanism) == 2
    facts = top.population.to_dict()
    assert facts["clipped_together"] is True
    assert facts["per_person"] == "sum"
    assert (facts["groups_per_unit"], facts["lower"]) == (3, 0)
    notes = " ".join(top.population.list_notes())
    assert "Groups were looked for with a person in at most 3 of them." in notes


def test_a_bound_on_rows_does_not_count_where_labels_are_listed():
    top = session(max_rows=1).top_sums("product", epsilon=50, **ASKED)
    wanted = truth(None)
    assert top.rows[0].estimate > 0.8 * wanted[top.rows[0].item]
    assert top.population.max_rows is None
    assert top.population.clips_together
    assert top.population.to_dict().get("groups_per_unit") is None


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"k": 41}, InvalidParameter, "k must be at most the size of the domain, 40; got 41"),
        ({"column": "product", "cap": 9}, InvalidParameter, "whole numbers, decimals"),
        ({"column": "who", "cap": 9}, InvalidParameter, "another one than that of the person"),
        ({"domain": None}, sd.UnknownDomain, "public domain"),
        ({"domain": sd.Domain.assume_public()}, sd.UnknownDomain, "listed"),
        ({"cap": 0}, InvalidParameter, "top_sums.cap must be a number in"),
        (
            {"domain": sd.Domain.unlisted(delta=1e-7)},
            UnboundedContribution,
            r"must have a bound on how many of them .* max_rows=5",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_charge(changed, error, message):
    with pytest.raises(error, match=message):
        session().top_sums("product", **{"epsilon": 1, **ASKED} | changed)


def test_rows_that_are_units_have_their_own_figure():
    rows = sd.Session(ORDERS, unit=sd.PrivacyUnit.row(), ledger=None)
    with pytest.raises(InvalidParameter, match="must go with people"):
        rows.top_sums("product", epsilon=1, **ASKED)


@pytest.fixture
def table(tmp_path):
    ORDERS.write_csv(tmp_path / "orders.csv")
    (tmp_path / "p.csv").write_text("product\n" + "\n".join(PRODUCTS) + "\n", encoding="utf-8")
    return tmp_path


def command(table, *more):
    return run(
        [
            "top",
            str(table / "orders.csv"),
            *("--item", "product", "--domain", str(table / "p.csv"), "-k", "3"),
            *("--epsilon", "4", "--user", "who", "--no-ledger", *more),
        ]
    )


@pytest.mark.parametrize("measure", ["rows", "sum(price)"])
def test_the_command_ranks_by_a_measure(table, capfd, measure):
    more = () if measure == "rows" else ("--cap", "1000000")
    assert command(table, "--rank-by", measure, *more) == 0
    told = json.loads(capfd.readouterr()[0])
    assert told["release"] == "top"
    assert told["figure"] == "top_sums"
    wanted = list(truth(None if measure == "rows" else "price"))[:3]
    assert [row["item"] for row in told["rows"]] == wanted
    assert all(row["clip_high"] > 0 for row in told["rows"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--rank-by", "avg(price)"), "--rank-by must be 'sum(COL)'"),
        (("--cap", "5"), "--cap of top needs --rank-by"),
        (("--rank-by", "rows", "--set"), "--set belongs to counts of people"),
        (("--rank-by", "rows", "--kth-count", "5"), "--kth-count belongs to counts of people"),
        (("--rank-by", "rows", "--max-rows", "5"), "--max-rows must not be given with --rank-by"),
    ],
)
def test_the_command_refuses_what_sums_do_not_have(table, capfd, more, message):
    assert command(table, *more) == 2
    assert message in capfd.readouterr()[1]


def counted(table, *more):
    return run(
        [
            *("histogram", str(table / "orders.csv"), "--item", "product"),
            *("--domain", str(table / "p.csv"), "--epsilon", "8", "--no-ledger", *more),
        ]
    )


def test_a_histogram_counts_rows_where_people_are_protected(table, capfd):
    assert counted(table, "--user", "who", "--count", "rows") == 0
    told = json.loads(capfd.readouterr()[0])
    assert (told["figure"], told["per_person"], told["clipped_together"]) == ("sum", "count", True)
    wanted = truth(None)
    for row in told["rows"][:5]:
        assert abs(row["estimate"] - wanted[row["item"]]) < 0.1 * wanted[row["item"]] + 30


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--row-is-unit",), "got --row-is-unit"),
        (("--user", "who", "--max-rows", "3"), "got --max-rows"),
        (("--user", "who", "--bounded", "0", "9"), "got --bounded"),
        (("--user", "who", "--simultaneous"), "got --simultaneous"),
        (("--user", "who", "--bins", "3"), "--count rows of histogram must not be given"),
    ],
)
def test_what_a_count_of_rows_has_not_is_refused(table, capfd, more, message):
    assert counted(table, "--count", "rows", *more) == 2
    assert message in capfd.readouterr()[1]


@pytest.mark.slow
def test_a_plan_says_what_releases_give():
    """How often all of the largest are named, and how far sums lie off, of data like the rows."""
    public, asked = ORDERS.with_columns(pl.col("price") * 1.0001), {"epsilon": 0.3, "cap": 1e6}
    plan = session().plan.top_sums("product", "price", like=public, **asked, **ASKED)
    assert float(plan.cost.pure()) == pytest.approx(0.3)
    wanted, named, off = truth("price"), 0, []
    for seed in range(60):
        top = session(seed).top_sums("product", "price", **asked, **ASKED)
        named += {row.item for row in top} == set(list(wanted)[:5])
        off += [abs(row.estimate - wanted[row.item]) for row in top]
    [choice], [figure] = plan.choices, plan.rows
    assert 0.2 < choice.right < 0.98
    assert abs(named / 60 - choice.right) < 0.2
    # The most of 19 runs, about which a run of 60 is wrong in one of twenty.
    assert np.quantile(off, 0.9) < figure.off < 3 * max(off)


@pytest.mark.parametrize("column", [None, "price"])
@pytest.mark.sample(1)
def test_a_goal_finds_the_least_epsilon(column):
    asked = {"like": "lognormal:20,1 by zipf:1.1", "rows": 5000} | ASKED
    find = session().plan.top_sums
    right = find("product", column, goal="top 5 right with 90%", **asked)
    assert right.choices[0].right > 0.9
    less = find("product", column, epsilon=0.9 * right.epsilon, **asked)
    assert less.choices[0].right < 0.95
    assert right.assumed == "5,000 people, by what they add up to, like lognormal:20,1 by zipf:1.1"
    [near] = find("product", column, goal="±500", **asked).rows
    assert max(near.widest / 2, near.off) <= 500
    # With every label as large as any other nothing is right or wrong, whatever the noise is.
    flat = find("product", column, goal="right with 99%", **asked | {"like": "flat by flat"})
    assert flat.epsilon < right.epsilon


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"goal": "5%"}, "goal must come with a public size"),
        ({"goal": "top 4 right with 90%"}, "goal must be about the same items: k is 5"),
        ({"goal": "±5", "like": "flat by normal:3,1"}, "about the numbers of a column"),
        ({"goal": "±5", "like": "flat by zipf"}, "like must be flat, zipf:S"),
        (
            {"goal": "±1e-12", "like": "lognormal:20,1"},
            "goal must be one that some epsilon reaches",
        ),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused(changed, message):
    with pytest.raises(InvalidParameter, match=message):
        session().plan.top_sums("product", "price", cap=1e6, **ASKED, **changed)


def test_a_plan_of_sums_by_group_has_all_people_in_its_search():
    """They were those of one group, of whom a search found nothing: no interval held the sum."""
    plan = session().plan.sum(
        "price", by="product", domain=PRODUCTS, epsilon=1, cap=1e6, like="lognormal:20,1"
    )
    [figure] = plan.rows
    assert figure.held > 0.6
    assert figure.off < 10 * figure.widest


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("column", [None, "price"])
def test_the_largest_are_measured_again(adjacency, column):
    """Within the clip that was found, for all of epsilon: only the new look counts."""
    first = session(adjacency=adjacency)
    top = first.top_sums("product", column, epsilon=1, **ASKED)
    again = first.remeasure(top, epsilon=1)
    assert [row.item for row in again] == [row.item for row in top]
    assert {row.clip for row in again} == {top.clip}
    assert (again.first_selected, len(again.looks)) == (True, 2)
    # Nothing is spent on the clip, and the noise of the first look enters nothing.
    assert again.standard_error < top.mechanism[0].noise_for(top.found).deviation * float(
        top.mechanism[0].noise_for(top.found).step
    )
    assert all(row.estimate == pytest.approx(row.measured) for row in again)
    assert float(again.cost.pure()) == pytest.approx(1)
    assert float(again.total.pure()) == pytest.approx(2)
    wanted = truth(column)
    assert sum(row.true_low <= wanted[row.item] for row in again) >= 4
    third = first.remeasure(again, epsilon=1, planned=True)
    assert third.standard_error == pytest.approx(again.standard_error / math.sqrt(2))
    looks = [{row.item: row for row in one}["p00"].measured for one in (again, third)]
    assert third.rows[0].estimate == pytest.approx(sum(looks) / 2, rel=1e-6)
    told = str(again)
    assert "estimate: from all looks but the first, whose noise selected." in told


def test_a_first_look_that_counted_would_be_too_high():
    """Twin: the mean of both looks. Of products that earn the same the noise chooses, and so it is in them."""
    alike = pl.DataFrame({"who": range(4000), "product": PRODUCTS * 100, "price": [5.0] * 4000})
    new, both = [], []
    for seed in range(25):
        one = sd.Session(alike, unit=sd.PrivacyUnit("who"), entropy=sd.Seeded(seed))
        top = one.top_sums("product", "price", epsilon=1, cap=5, **ASKED)
        again = one.remeasure(top, epsilon=1)
        new += [row.measured - 500 for row in again]
        both += [(a.measured + b.measured) / 2 - 500 for a, b in zip(top, again, strict=True)]
    error = 3 * np.std(new) / math.sqrt(len(new))
    assert abs(np.mean(new)) < error
    assert np.mean(both) > 2 * error


def test_what_was_kept_of_the_largest_is_measured_again(tmp_path):
    """By another session: with the labels and the clip, and with the account's promise of what was spent."""
    path, unit = tmp_path / "orders.parquet", sd.PrivacyUnit("who", max_rows=3)
    ORDERS.write_parquet(path)
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="shop",
        budget=sd.Budget(epsilon=9, delta=1e-6, failures=5e-7),
        adjacency="add-remove",
        unit=unit,
        source=path,
    )
    for domain in (PRODUCTS, sd.Domain.unlisted(delta=1e-7)):
        session = sd.Session(path, unit=unit, ledger=ledger)
        top = session.top_sums("product", "price", k=3, epsilon=1, domain=domain, cap=1e6)
        session.keep(top)
        other = sd.Session(path, unit=unit, ledger=ledger)
        again = other.remeasure(top.receipt.id, epsilon=0.5)
        other.keep(again)
        third = sd.Session(path, unit=unit, ledger=ledger).remeasure(again.receipt.id, epsilon=0.5)
        assert [row.item for row in top] == [row.item for row in again]
        assert [row.item for row in third] == [row.item for row in again]
        assert {row.clip for row in third} == {top.clip}
        assert (third.first_selected, len(third.looks)) == (True, 3)
        listed = isinstance(domain, list)
        # What found labels may fail: that is no epsilon or rho, and nobody claims a total.
        assert (third.total is not None) == listed
        if listed:
            assert float(third.total.pure()) == pytest.approx(2)


def test_what_has_no_rows_is_not_measured_again():
    first = session()
    none = first.top_sums("product", "price", epsilon=1, cap=1e6, threshold=1e300, **ASKED)
    with pytest.raises(InvalidParameter, match="must be a count, a histogram"):
        first.remeasure(none, epsilon=1)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_threshold_leaves_those_above_it_and_changes_nothing_else(adjacency):
    """What all noisy sums say is the same: a threshold is a rule over what is released anyway."""
    whole = session(3, adjacency).top_sums("product", "price", epsilon=1, cap=1e6, **ASKED)
    level = (whole.rows[2].estimate + whole.rows[3].estimate) / 2
    some = session(3, adjacency).top_sums(
        "product", "price", epsilon=1, cap=1e6, threshold=level, **ASKED
    )
    assert [row.item for row in some] == [row.item for row in whole][:3]
    assert [row.estimate for row in some] == [row.estimate for row in whole][:3]
    assert some.cost == whole.cost
    assert (some.crossed, whole.crossed) == (True, None)
    assert all(row.high >= row.estimate > level for row in some)
    # The last one would still be there at the threshold, and no lower.
    assert some.rows[-1].gap == pytest.approx(some.rows[-1].estimate - level, abs=1)
    full = session(3, adjacency).top_sums(
        "product", "price", epsilon=1, cap=1e6, threshold=0, **ASKED
    )
    assert full.crossed is False
    assert [row.item for row in full] == [row.item for row in whole]
    none = session(3, adjacency).top_sums(
        "product", "price", epsilon=1, cap=1e6, threshold=1e300, **ASKED
    )
    assert none.rows == ()
    assert none.crossed is True


def test_a_threshold_of_the_command_is_told(tmp_path, capfd):
    ORDERS.write_csv(tmp_path / "orders.csv")
    (tmp_path / "products.csv").write_text("product\n" + "\n".join(PRODUCTS) + "\n")
    asked = ["top", "orders.csv", "--item", "product", "--rank-by", "sum(price)", "-k", "5"]
    more = ["--domain", "products.csv", "--cap", "1e6", "--user", "who", "--epsilon", "2"]
    words = [str(tmp_path / one) if one.endswith(".csv") else one for one in (*asked, *more)]
    third, fourth = list(truth("price").values())[2:4]
    level = str(int((third + fourth) / 2))
    assert run([*words, "--threshold", level, "--no-ledger", "--format", "json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["threshold"] == int(level)
    assert told["crossed"] is True
    assert all(row["estimate"] > int(level) for row in told["rows"])
    assert run([*words, "--threshold", level, "--no-ledger", "--format", "table", "--details"]) == 0
    assert f"Threshold: {level}; the threshold ended the list." in capfd.readouterr().out
    assert run([*words, "--threshold", level, "--no-ledger", "--format", "csv"]) == 0
    [row, *_] = csv.DictReader(capfd.readouterr().out.splitlines())
    assert (row["threshold"], row["crossed"]) == (level, "yes")


def test_a_threshold_that_nobody_fell_short_of_ended_nothing():
    """Of labels that nobody listed fewer than k may be found: that is not what a threshold did."""
    asked = {"epsilon": 8, "k": 45, "domain": sd.Domain.unlisted(delta=1e-6)}
    found = session(2, max_rows=2).top_sums("product", threshold=1, **asked)
    assert 0 < len(found) < 45
    assert found.crossed is False
    none = session(2, max_rows=2).top_sums("who", threshold=1, **asked)
    assert none.rows == ()
    assert none.crossed is None


def test_a_report_says_the_threshold():
    from sordino.report import make_report

    top = session(3).top_sums("product", "price", epsilon=1, cap=1e6, threshold=4321, **ASKED)
    assert "above 4,321" in str(make_report([top]))


@pytest.mark.parametrize("column", [None, "price"])
def test_that_clipped_sums_are_ranked_stands_below_the_table_and_the_plan(column):
    """Twin: a plan had all items right, and the list without the one that two people spend most on."""
    asked = {"column": column, "epsilon": 1, **ASKED}
    top = session().top_sums("product", **asked)
    said = "Ranked by clipped sums: an item that gets much from few people may rank too low"
    for told in (str(top), top.to_text(details=True), top._repr_html_(), make_report([top])):
        assert said in told
    plan = session().plan.top_sums("product", like="lognormal:50,1", rows=2000, runs=2, **asked)
    assert said in plan.list_choices()[-1]
    assert said in plan._repr_html_()
    counts = session(max_rows=1).plan.top_k("product", epsilon=1, rows=2000, runs=2, **ASKED)
    assert counts.choices
    assert not any(said in one for one in counts.list_choices())
