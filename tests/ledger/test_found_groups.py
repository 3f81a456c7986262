"""Charges of groups that nobody listed: reserved at their most; what was not drawn comes back, delta never."""

from __future__ import annotations

import math
from fractions import Fraction

import polars as pl
import pytest

import sordino as sd
from ledger.test_renyi_accounts import row_of, spent_in_all
from sordino.errors import BudgetExceeded, DataSourceError, InvalidParameter
from sordino.ledger.renyi import ATTO, NANO, Sums, amounts_at
from sordino.questions import CountQuestion, Domain
from sordino.questions.totals import NumberQuestion

DELTA = Fraction(1, 10**7)
EPSILON = Fraction(1, 2)
# Two groups far above any threshold of these budgets, and one of a single unit.
ROWS = pl.DataFrame(
    {
        "shop": ["x"] * 4000 + ["y"] * 3000 + ["own"],
        "spent": [3.0] * 4000 + [7.0] * 3000 + [9.0],
        "who": [*range(4000), *range(3000), 9999],
    }
)
ASKED = {
    "epsilon": EPSILON,
    "lower": 0,
    "cap": 100,
    "by": "shop",
    "domain": Domain.unlisted(delta=DELTA),
    "most_groups": 5,
    "groups_per_unit": 2,
}
NOTHING = ROWS.tail(1)


def account(place, epsilon=3, **budget):
    budget = {"delta": 1e-6, "failures": 5e-7} | budget
    about = {"adjacency": "add-remove", "unit": "who", "source": "name:rows"}
    return sd.Ledger.create(
        place, account="shops", budget=sd.Budget(epsilon=epsilon, **budget), **about
    )


def session(ledger, rows=ROWS, **unit):
    return sd.Session(
        rows, unit=sd.PrivacyUnit("who", max_rows=1, **unit), ledger=ledger, name="rows"
    )


def sums_of(ledger, *costs):
    """What these costs add to an account, each rounded up once with its own release."""
    order = row_of(ledger).meter_at_order.order
    total = Sums()
    for cost in costs:
        total = total.plus(amounts_at(cost, order).rounded_up())
    # One part without an epsilon ends that sum.
    return total._replace(pure=0) if total.impure else total


def is_about(found, wanted):
    """Whether sums are the same but for a few billionths of rounding."""
    near = all(abs(one - other) <= 3 for one, other in zip(found[:2], wanted[:2], strict=True))
    return near and found[2:] == wanted[2:]


OWN = {
    "quantile": {"q": 0.5},
    "variance": {},
    "sum": {},
    "sum within bounds": {"bounds": (0, 10**5), "cap": 10},
}


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.sample(3)
def test_found_groups_are_charged_what_they_say(place, kind):
    ledger = account(place)
    name = kind.split()[0]
    release = getattr(session(ledger), name)("spent", **ASKED | OWN[kind])
    assert [row.item for row in release] == ["x", "y"]
    assert is_about(spent_in_all(ledger), sums_of(ledger, release.cost))
    assert spent_in_all(ledger).failing == DELTA * ATTO
    [line] = ledger.statement().charges
    assert (line.label, line.state) == (name, "settled")
    assert (line.detail["most_groups"], line.detail["by"]) == (5, "shop")
    assert line.detail["domain"] == "unlisted, delta 1/10000000, least 1"
    # Neither how many were found nor their labels.
    assert "x" not in {str(value) for value in line.detail.values()}
    assert line.detail.get("domain_size") is None


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.sample(4)
def test_what_the_figures_would_have_cost_comes_back_where_nothing_is_found(place, noise):
    """The epsilon of the search is spent, and so is all of delta: asking again until something is found ends with the delta."""
    ledger = account(place, epsilon=100)
    for times in range(1, 6):
        release = session(ledger, NOTHING).sum("spent", noise=noise, **ASKED)
        assert release.rows == ()
        spent = spent_in_all(ledger)
        assert is_about(
            spent._replace(pure=0, impure=0),
            sums_of(ledger, *[release.cost] * times)._replace(pure=0),
        )
        assert spent.failing == times * DELTA * ATTO
        # A reservation without an epsilon ends the sum of epsilons, whatever is drawn of it.
        assert (spent.pure, spent.impure) == (
            (0, 1) if noise == "gaussian" else (times * EPSILON / 4 * NANO, 0)
        )
    with pytest.raises(BudgetExceeded, match="Nothing of the delta for labels that nobody listed"):
        session(ledger, NOTHING).sum("spent", **ASKED)


def test_a_batch_is_one_charge_of_all_its_parts(tmp_path):
    ledger = account(tmp_path / "b.db")
    with session(ledger) as table, table.batch() as batch:
        shops = table.sum("spent", **ASKED)
        units = table.count_distinct_units(epsilon=0.25)
        # With a search of its own: else it has the groups of the first one.
        means = table.quantile("spent", q=0.5, search_share=0.25, **ASKED)
        assert not ledger.statement().charges
    # Both may fail, and seldom do at once.
    assert batch.cost.split_failure()[0] == 1 - (1 - DELTA) ** 2
    assert [row.item for row in shops] == [row.item for row in means] == ["x", "y"]
    [line] = ledger.statement().charges
    assert line.label == "sum + count_distinct_units + quantile"
    assert spent_in_all(ledger).failing == 2 * DELTA * ATTO
    assert is_about(spent_in_all(ledger), sums_of(ledger, shops.cost, units.cost, means.cost))
    assert shops.receipt.id == units.receipt.id == shops.rows[0].release.receipt.id == line.id


def test_a_batch_that_does_not_fit_reads_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(CountQuestion, "run", lambda *_, **__: pytest.fail("a row was read"))
    ledger = account(tmp_path / "b.db", failures=1.5e-7)

    def ask_both(table):
        with table.batch():
            table.sum("spent", **ASKED)
            table.mean("spent", search_share=0.25, **ASKED)

    with session(ledger) as table, pytest.raises(BudgetExceeded, match="delta"):
        ask_both(table)
    assert spent_in_all(ledger) == Sums()


@pytest.mark.parametrize("stage", [(CountQuestion, "run"), (NumberQuestion, "sums")])
def test_an_error_in_any_stage_keeps_the_whole_charge(tmp_path, monkeypatch, stage):
    """How far it came is private: whatever fails, as much stays charged, and the same is said."""

    def fails(*_, **__):
        raise ZeroDivisionError("what was read")

    monkeypatch.setattr(*stage, fails)
    ledger = account(tmp_path / "b.db")
    with pytest.raises(DataSourceError) as caught:
        session(ledger).sum("spent", noise="laplace", **ASKED)
    assert str(caught.value) == str(DataSourceError.after_charge())
    monkeypatch.undo()
    whole = session(None).sum("spent", noise="laplace", **ASKED).cost
    assert is_about(spent_in_all(ledger), sums_of(ledger, whole))


def test_accounts_without_a_delta_for_it_read_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(CountQuestion, "run", lambda *_, **__: pytest.fail("a row was read"))
    for name, budget in {
        "pure": {"delta": 0, "failures": 0},
        "zcdp": {"meter": "zcdp", "failures": 0},
    }.items():
        with pytest.raises(
            InvalidParameter, match=r"sum.domain must list its labels .* --failures F"
        ):
            session(account(tmp_path / name, **budget)).sum("spent", **ASKED)
    none = account(tmp_path / "none", failures=0)
    with pytest.raises(BudgetExceeded, match="keeps no delta for labels that nobody listed"):
        session(none).sum("spent", **ASKED)
    assert spent_in_all(none) == Sums()


@pytest.mark.parametrize("rows", [ROWS, NOTHING], ids=["found", "nothing"])
def test_what_a_session_keeps_says_what_found_the_groups(tmp_path, rows):
    ledger = account(tmp_path / "b.db")
    table = session(ledger, rows)
    release = table.sum("spent", **ASKED)
    table.keep(release)
    record = ledger.read_release(release.receipt.id)
    parts = [part["name"] for part in record.facts["mechanism"]]
    assert (
        record.facts["label_threshold"] == release.label_threshold == release.mechanism[0].threshold
    )
    if release.rows:
        assert (parts, record.facts["measure_noise"]) == (
            ["UnlistedHistogram", "ClippedSum"],
            "gaussian",
        )
        assert [row["item"] for row in record.rows] == ["x", "y"]
    else:
        assert (parts, record.facts["measure_noise"], record.rows) == (
            ["UnlistedHistogram"],
            None,
            [],
        )
    assert record.facts["noise"] == "laplace"


def test_replace_one_is_charged_twice_the_groups(tmp_path):
    about = {"adjacency": "replace-one", "unit": "who", "source": "name:rows"}
    budget = sd.Budget(epsilon=30, delta=1e-6, failures=5e-7)
    ledger = sd.Ledger.create(tmp_path / "b.db", account="shops", budget=budget, **about)
    release = session(ledger, adjacency="replace-one").sum(
        "spent", **ASKED | {"epsilon": 4, "noise": "laplace"}
    )
    assert release.budgets == 4
    # Two groups that it leaves and two that it joins: both ends of a search, and the totals twice.
    each = release.rows[0].release.mechanism
    search = each.search.cost.low + each.search.cost.high
    spent = 1 + 2 * (search + 2 * each.total_cost.pure())
    assert math.isclose(release.cost.split_failure()[1].pure(), spent)
    assert 3.6 < spent < 4
    assert is_about(spent_in_all(ledger), sums_of(ledger, release.cost))


# ---- which noise -------------------------------------------------------------------------------------------------------------


def reserved(ledger, epsilon, share, **more):
    """What a sum would spend on an account, part by part."""
    from sordino.session.numbers import SumRequest

    asked = ASKED | {"epsilon": epsilon, "search_share": share, "column": "spent"} | more
    return session(ledger)._executor.start(SumRequest(**asked)).reservation.parts


@pytest.mark.parametrize("share", [Fraction(1, 4), Fraction(1, 2), Fraction(4, 5)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 5), Fraction(1, 2), 1, 2])
@pytest.mark.sample(3)
def test_other_noise_adds_no_more_than_its_epsilon_is_worth(tmp_path, epsilon, share):
    """What finds the groups counts, too: a release with Gaussian totals takes its share of the divergences, and no more."""
    ledger = account(tmp_path / "b.db")
    price = ledger.find_price()
    parts = reserved(ledger, epsilon, share)
    gaussian = parts[1].estimator.total_rho is not None
    worth = epsilon * price.limits.main / price.limits.pure
    assert not gaussian or sum(price.find(part) for part in parts) <= worth
    # A small release has them, a large one has not: its search alone takes more than that.
    if epsilon == Fraction(1, 5):
        assert gaussian


def test_a_search_that_takes_more_than_its_share_leaves_less_for_the_totals(tmp_path):
    """Priced without the search, totals of half of epsilon 1/2 took 5% more than the release is worth."""
    ledger = account(tmp_path / "b.db")
    price = ledger.find_price()
    half = Fraction(1, 2)
    finder, figures = reserved(ledger, half, half, groups_per_unit=1)
    worth = half * price.limits.main / price.limits.pure
    assert figures.estimator.total_rho is not None
    assert Fraction(99, 100) * worth < price.find(finder) + price.find(figures) <= worth
