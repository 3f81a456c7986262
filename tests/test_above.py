"""What lies above a threshold in a table: found in the order of the domain, paid for as found, over listed and unlisted domains."""

from __future__ import annotations

import json
from fractions import Fraction

import polars as pl
import pytest

import sordino as sd
from sordino.session.above import expected_run

DOMAIN = ["tea", "rice", "salt", "oil", "flour"]
COUNTS = {
    "tea": 400,
    "rice": 300,
    "salt": 5,
    "flour": 250,
}  # nobody bought oil; flour comes first in the domain
CANARY = "kryptonite-86753099173"


@pytest.fixture(scope="module")
def orders():
    rows = [(f"c{i}", item) for item, count in COUNTS.items() for i in range(count)] + [
        ("c1", CANARY),
        (None, "salt"),
        ("c2", None),
    ]
    return pl.DataFrame(rows, schema=["customer", "product"], orient="row")


@pytest.fixture(scope="module")
def numbers():
    """Items as whole numbers, some outside any range that is asked for."""
    rows = [
        (f"c{i}", item)
        for item, count in {7: 400, 10**11: 300, 40: 3, -5: 500, 2**60: 500}.items()
        for i in range(count)
    ]
    return pl.DataFrame(rows, schema=["customer", "product"], orient="row")


def account(path, **budget):
    budget = sd.Budget(**({"epsilon": 10} | budget))
    return sd.Ledger.create(
        path,
        account="shop",
        budget=budget,
        adjacency="add-remove",
        unit="customer",
        source="name:orders",
    )


def session(orders, ledger=None, **changes):
    return sd.Session(
        orders,
        **({"unit": sd.PrivacyUnit("customer"), "ledger": ledger, "name": "orders"} | changes),
    )


def above(s, **changes):
    return s.above(
        "product", **({"threshold": 100, "positives": 4, "epsilon": 4, "domain": DOMAIN} | changes)
    )


def paid(ledger):
    return 10 - ledger.remaining


def test_what_lies_above_is_found_in_the_order_of_the_domain(orders, tmp_path):
    ledger = account(tmp_path / "b.db")
    with session(orders, ledger) as s:
        found = above(s)
    assert [row.item for row in found] == ["flour", "rice", "tea"]
    assert (len(found), found.asked, found.complete) == (3, 5, True)
    for row in found:
        assert row.branch == 0
        assert abs(row.estimate - COUNTS[row.item]) < 40
        assert row.low < COUNTS[row.item] + 40
        assert row.low <= row.gap + 100
        assert row.high is None
    m = found.mechanism[0]
    assert (m.threshold, m.positives, m.correction, m.domain_size) == (100, 4, None, None)
    assert found.cost == m.spent(3)
    assert paid(ledger) == pytest.approx(float(found.cost.pure()), abs=1e-8), (
        "the fourth positive was not paid for"
    )
    assert found.cost.pure() < m.cost.pure() <= 4
    text = json.dumps(found.to_dict()) + repr(found)
    assert CANARY not in text
    assert "\n" not in repr(found)
    (line,) = ledger.statement().charges
    assert line.label == "above"
    public = {
        "item": "product",
        "threshold": "100",
        "positives": 4,
        "adaptive": False,
        "domain": "list",
        "domain_size": 5,
    }
    assert line.detail == public


def test_lower_bounds_are_valid_after_selection(orders):
    """Noise lifts items without a unit over a threshold of 0: a small gap bounds nothing then, and 0 is said.

    Were such a bound left out, of those that are said for an item just below the threshold every one would be wrong.
    """
    with session(orders, entropy=sd.Seeded(1)) as s:
        found = above(
            s, domain=[f"nobody {i}" for i in range(200)], threshold=0, positives=20, epsilon=20
        )
    scale = 1 / float(found.mechanism[0].noise.rate)
    near = [row for row in found if row.gap < scale]
    assert len(near) > 5
    assert {row.low for row in near} == {row.true_low for row in near} == {0.0}
    assert all(0 <= row.low <= row.gap for row in found)


def test_it_stops_when_enough_was_found(orders):
    with session(orders, entropy=sd.Seeded(1)) as s:
        found = above(s, positives=1)
    assert [row.item for row in found] == ["flour"]
    assert (found.asked, found.complete) == (1, False)
    assert found.cost.pure() == found.mechanism[0].cost.pure()


def test_nothing_above_costs_the_threshold_alone(orders, tmp_path):
    ledger = account(tmp_path / "b.db")
    with session(orders, ledger) as s:
        found = above(s, threshold=10**6, measure_share=0.5)
    assert (len(found), list(found), found.asked, found.complete) == (0, [], 5, True)
    assert found.cost.pure() == found.mechanism[0].threshold_epsilon < 1
    assert paid(ledger) == pytest.approx(float(found.cost.pure()), abs=1e-8)


def test_what_is_found_can_be_measured_in_the_same_release(orders, tmp_path):
    ledger = account(tmp_path / "b.db")
    with session(orders, ledger) as s:
        found = above(s, measure_share=0.75)
    find, measure = found.mechanism
    assert measure.sensitivity == sd.Sensitivity(
        bound=3, monotone=True, adjacency="add-remove", norm="l1", step=1, size=3
    )
    assert find.cost.pure() <= 1
    assert measure.cost.pure() == 3, (
        "three items share all of the measuring budget, though four were allowed for"
    )
    assert found.cost.pure() == find.spent(3).pure() + 3
    assert paid(ledger) == pytest.approx(float(found.cost.pure()), abs=1e-8)
    for row in found:
        assert row.low < row.high
        assert abs(row.low + row.high - 2 * COUNTS[row.item]) < 60
        assert abs(row.estimate - COUNTS[row.item]) < 30


def test_the_adaptive_one_finds_more_for_the_same(orders, tmp_path):
    ledger = account(tmp_path / "b.db")
    with session(orders, ledger) as s:
        found = above(s, positives=2, adaptive=True, threshold=20)
    assert type(found.mechanism[0]).__name__ == "AdaptiveSparseVector"
    assert [row.item for row in found] == ["flour", "rice", "tea"], (
        "cheap tests left room for a third one"
    )
    assert {row.branch for row in found} == {0}
    assert [row.low for row in found] == [None] * 3, (
        "no bound that is valid after selection is proved for several tests"
    )
    assert paid(ledger) == pytest.approx(float(found.cost.pure()), abs=1e-8)
    assert found.cost.pure() <= 4
    assert ledger.statement().charges[0].detail["adaptive"] is True


def test_a_correction_uses_the_size_of_the_domain(orders):
    with session(orders, entropy=sd.Seeded(1)) as s:
        assert above(s).mechanism[0].correction_run is None
        m = above(s, positives=2, correction="optimal").mechanism[0]
        assert (m.correction, m.correction_run) == ("optimal", 3)
        assert m.threshold_correction > 0
        assert above(s, correction="optimal", correction_run=9).mechanism[0].correction_run == 9
        assert above(s, correction=2.5).mechanism[0].threshold_correction == Fraction(5, 2)
        m = above(s, split="success", correction_margin=20).mechanism[0]
        assert m.correction_run == 2
        with pytest.raises(sd.InvalidParameter, match="correction_run"):
            above(s, correction="optimal", domain=sd.Domain.assume_public())
    assert expected_run(sd.Domain.assume_public(), 3) is None


def test_a_batch_plans_the_worst_case_and_gives_back_what_was_not_spent(orders, tmp_path):
    ledger = account(tmp_path / "b.db")
    with session(orders, ledger) as s, s.batch() as batch:
        found = above(s, measure_share=0.5)
        nothing = above(s, threshold=10**6)
        customers = s.count_distinct_units(epsilon=1)
    assert 8.5 < batch.cost.pure() <= 9
    assert [row.item for row in found] == ["flour", "rice", "tea"]
    assert len(nothing) == 0
    total = sum(release.cost.pure() for release in (found, nothing, customers))
    assert paid(ledger) == pytest.approx(float(total), abs=1e-8)
    assert paid(ledger) < batch.cost.pure()


def test_an_assumed_domain(orders):
    with session(orders, entropy=sd.Seeded(3)) as s:
        found = above(s, domain=sd.Domain.assume_public())
        assert {"flour", "rice", "tea"} <= {row.item for row in found}
    nobody = pl.DataFrame(
        {"customer": [], "product": []}, schema={"customer": pl.String, "product": pl.String}
    )
    with session(nobody, entropy=sd.Seeded(3)) as s:
        found = above(s, domain=sd.Domain.assume_public())
    assert (list(found), found.asked, found.complete, found.cost.pure()) == ([], 0, True, 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threshold": float("nan")}, "above.threshold must be a finite number"),
        ({"positives": 0}, "above.positives must be a whole number, at least 1"),
        ({"epsilon": 0}, "above.epsilon must be"),
        ({"measure_share": 1}, "above.measure_share must be a number in"),
        ({"adaptive": 1}, "above.adaptive must be True or False"),
        ({"noise": "loud"}, "above.noise must be one of"),
        ({"split": 2}, "SparseVector.split must be"),
        ({"correction": float("inf")}, "SparseVector.correction must be"),
        ({"domain": None}, "must have a public domain"),
    ],
)
def test_bad_parameters_cost_nothing(orders, tmp_path, changes, words):
    ledger = account(tmp_path / "b.db")
    with session(orders, ledger) as s, pytest.raises(sd.SordinoError, match=words):
        above(s, **changes)
    assert paid(ledger) == 0


# ---- domains that are not listed --------------------------------------------------------------------------------------------


def test_a_range_of_10_to_the_12_is_asked_without_listing_it(numbers, tmp_path):
    ledger = account(tmp_path / "b.db")
    domain = sd.Domain.range(0, 10**12)
    with session(numbers, ledger) as s:
        found = above(s, domain=domain, threshold=150, positives=3)
        top = s.top_k("product", k=2, epsilon=2, domain=domain)
    assert [row.item for row in found] == ["7", str(10**11)]
    assert (found.asked, found.complete) == (10**12, True)
    assert found.mechanism[0].domain_size == 10**12
    assert [row.item for row in top] == ["7", str(10**11)]
    assert abs(top.rows[1].estimate - 300) < 60
    first, second = ledger.statement().charges
    assert first.detail["domain"] == "range 0:1000000000000"
    assert second.detail["domain_size"] == 10**12


def test_labels_of_positions_come_from_a_public_function_and_only_for_what_is_released(numbers):
    asked = []

    def label(position):
        asked.append(position)
        return f"shop {position:012d}"

    domain = sd.Domain.indexed(10**12, label=label)
    with session(numbers, entropy=sd.Seeded(3)) as s:
        found = above(s, domain=domain, threshold=150, positives=3)
    assert [row.item for row in found] == ["shop 000000000007", "shop 100000000000"]
    assert asked == [7, 10**11]


def test_a_range_gives_the_counts_of_the_list(numbers):
    listed, ranged = sd.Domain.of(range(-10, 50)), sd.Domain.range(-10, 50)
    with session(numbers, entropy=sd.Seeded(3), unit=sd.PrivacyUnit("customer", max_rows=2)) as s:
        rows = {
            domain.kind: s.histogram("product", epsilon=50, domain=domain).rows
            for domain in (listed, ranged)
        }
        assert [row.item for row in rows["range"]] == [str(i) for i in range(-10, 50)]
        for row in rows["range"]:
            (other,) = (one for one in rows["list"] if one.item == row.item)
            assert abs(row.estimate - other.estimate) < 250, (
                "which two items a unit counts for is chosen by chance"
            )
        with pytest.raises(sd.InvalidParameter, match="at most 10,000,000"):
            s.histogram("product", epsilon=1, domain=sd.Domain.range(0, 10**12))
        with pytest.raises(sd.InvalidParameter, match="at most the size of the domain, 3"):
            s.top_k("product", k=4, epsilon=1, domain=sd.Domain.range(0, 3))
        for k in (2**20 + 1, 10**12):
            for limit in (None, 5):
                with pytest.raises(
                    sd.InvalidParameter,
                    match=r"top_k\.k must be at most 1048576 where the domain is a range",
                ):
                    s.top_k(
                        "product",
                        k=k,
                        epsilon=1,
                        threshold=limit,
                        domain=sd.Domain.range(0, 10**12),
                    )
            with pytest.raises(
                sd.InvalidParameter,
                match=r"above\.positives must be at most 1048576 where the domain is a range",
            ):
                above(s, positives=k, domain=sd.Domain.range(0, 10**12))


# ---- top_k over a threshold -------------------------------------------------------------------------------------------------


def top(s, **changes):
    return s.top_k(
        "product", **({"k": 4, "epsilon": 4, "domain": DOMAIN, "threshold": 100} | changes)
    )


def test_the_top_above_a_threshold_ends_there(orders, tmp_path):
    ledger = account(tmp_path / "b.db")
    with session(orders, ledger) as s:
        release = top(s)
    assert [row.item for row in release] == ["tea", "rice", "flour"]
    assert release.crossed is True
    choose, measure = release.mechanism
    assert measure.sensitivity.bound == 3
    assert release.cost.pure() == choose.spent(3).pure() + measure.cost.pure()
    assert all(abs(row.estimate - COUNTS[row.item]) < 40 and row.low < row.high for row in release)
    assert abs(release.rows[-1].gap - 150) < 40, "the last one leads the threshold by its gap"
    assert paid(ledger) == pytest.approx(float(release.cost.pure()), abs=1e-8)
    assert ledger.statement().charges[0].detail["threshold"] == "100"


def test_a_full_list_is_measured_as_without_a_threshold(orders):
    with session(orders, entropy=sd.Seeded(1)) as s:
        full = top(s, k=2)
        plain = top(s, k=2, threshold=None)
    assert (full.crossed, plain.crossed) == (False, None)
    assert full.mechanism[1] == plain.mechanism[1]
    assert [row.item for row in full] == [row.item for row in plain] == ["tea", "rice"]
    assert full.cost.pure() == plain.cost.pure()


def test_an_empty_list_is_not_measured_and_hardly_paid_for(orders, tmp_path):
    ledger = account(tmp_path / "b.db")
    with session(orders, ledger) as s:
        release = top(s, threshold=10**6)
    assert (release.rows, release.crossed, len(release)) == ((), True, 0)
    assert release.cost == release.mechanism[0].spent(0)
    assert paid(ledger) == pytest.approx(0.5, abs=1e-8), "a quarter of the selecting half"
    assert json.loads(json.dumps(release.to_dict()))["rows"] == []


def test_the_worst_case_is_what_is_reserved(orders, tmp_path):
    ledger = account(tmp_path / "b.db", epsilon=3.9)
    with session(orders, ledger) as s:
        with pytest.raises(sd.BudgetExceeded):
            top(s)
        with pytest.raises(sd.InvalidParameter, match="top_k.threshold must be a finite number"):
            top(s, threshold=float("inf"))
        with pytest.raises(sd.BudgetExceeded):
            above(s, measure_share=0.5)
    assert ledger.remaining == Fraction("3.9")


def test_another_meter_gives_nothing_back(orders, tmp_path):
    ledger = account(tmp_path / "b.db", epsilon=20, delta=1e-6, meter="zcdp")
    before = ledger.remaining
    with session(orders, ledger) as s:
        search = above(s, threshold=10**6, epsilon=1).mechanism[0].cost.zcdp()
        assert 0.3 < before - ledger.remaining == pytest.approx(float(search), abs=1e-6)
        selection = top(s, threshold=10**6, epsilon=1, selection_share=0.5).mechanism[0].cost.zcdp()
    assert before - ledger.remaining == pytest.approx(float(search + selection), abs=1e-6), (
        "the measurement was never drawn, so it returns"
    )
