"""Figures of groups that nobody listed: what is found, what is paid, what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sordino as sd
from sordino.questions import Domain

ROWS = pl.DataFrame(
    {
        "shop": ["x"] * 4000 + ["y"] * 3000 + ["own"],
        "spent": [3.0] * 4000 + [7.0] * 3000 + [9.0],
        "who": [*range(4000), *range(3000), 9999],
    }
)
HIDDEN = Domain.unlisted(delta=1e-6)
SEARCH: dict[str, Any] = {
    "epsilon": 4,
    "lower": 0,
    "cap": 100,
    "by": "shop",
    "domain": HIDDEN,
    "most_groups": 5,
}


def open_session(rows: pl.DataFrame = ROWS, adjacency: Any = "add-remove") -> Any:
    unit = sd.PrivacyUnit("who", max_rows=1, adjacency=adjacency)
    return sd.Session(rows, unit=unit, entropy=sd.Seeded(7))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", ["quantile", "sum", "mean", "variance"])
@pytest.mark.sample(2)
def test_groups_are_found_and_cost_what_is_stated(kind: str, adjacency: str) -> None:
    own = {"q": 0.5} if kind == "quantile" else {}
    release = getattr(open_session(adjacency=adjacency), kind)(
        "spent", groups_per_unit=2, **SEARCH, **own
    )
    assert {row.item for row in release} == {"x", "y"}
    assert release.label_threshold > 1
    failure, rest = release.cost.split_failure()
    assert failure == Fraction(1, 10**6)
    assert rest.pure() == 4


def test_no_groups_leave_no_rows() -> None:
    few = open_session(ROWS.tail(1)).sum("spent", groups_per_unit=2, **SEARCH)
    assert len(few) == 0
    assert few.cost.to_dict() == sd.cost.Approximate(epsilon=1, delta=Fraction(1, 10**6)).to_dict()


def test_a_group_of_one_unit_changes_nothing_else() -> None:
    one, none = (
        open_session(rows).sum("spent", groups_per_unit=2, **SEARCH)
        for rows in (ROWS, ROWS.head(7000))
    )
    assert {row.item for row in one} == {row.item for row in none}
    assert (one.label_threshold, one.cost.to_dict()) == (none.label_threshold, none.cost.to_dict())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"most_groups": None}, "most_groups"),
        ({"groups_per_unit": None}, "groups_per_unit"),
        ({"search_share": 1}, "search_share"),
        ({"domain": ["x"], "most_groups": None, "search_share": 0.5}, "search_share belongs to"),
        ({"most_groups": 2, "by": None, "domain": None, "groups_per_unit": None}, "belong to by"),
        ({"domain": ["x"]}, r"most_groups belongs to Domain.unlisted .* known \(list\)"),
        ({"bounds": (0, 10), "noise": "gaussian"}, "must be laplace with bounds"),
    ],
)
def test_what_cannot_be_searched_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(sd.errors.SordinoError, match=message):
        open_session().sum("spent", **({"groups_per_unit": 2} | SEARCH | more))


@pytest.mark.parametrize("meter", ["renyi", "zcdp"])
@pytest.mark.parametrize("kind", ["sum", "quantile"])
@pytest.mark.slow
def test_an_account_pays_the_search_with_its_delta_and_the_figures(
    tmp_path: Path, meter: Any, kind: str
) -> None:
    """Of rhos what was drawn is paid in full, whatever was found."""
    unit = sd.PrivacyUnit("who", max_rows=1)
    budget = sd.Budget(epsilon=20, delta=1e-5, meter=meter, failures=2e-6)
    about: dict[str, Any] = {"adjacency": "add-remove", "unit": unit, "source": "name:t"}
    ledger = sd.Ledger.create(tmp_path / "l.db", account="a", budget=budget, **about)
    asked = sd.Session(ROWS, unit=unit, ledger=ledger, name="t")
    own = {"q": 0.5} if kind == "quantile" else {}
    for times in (1, 2):
        release = getattr(asked, kind)("spent", groups_per_unit=2, **SEARCH, **own)
        assert {row.item for row in release} == {"x", "y"}
        statement = ledger.statement()
        assert statement.charges[-1].delta == Fraction(1, 10**6)
        sums = statement.failures or statement.renyi
        assert sums.to_dict()["spent" if statement.failures else "failures_spent"] == times * 1e-6
        assert statement.charges[-1].charged == statement.charges[-1].drawn > 0
    spent = statement.spent
    with pytest.raises(
        sd.BudgetExceeded, match="Nothing of the delta for labels that nobody listed"
    ):
        getattr(asked, kind)("spent", groups_per_unit=2, **SEARCH, **own)
    assert ledger.statement().spent == spent
    assert ledger.verify().sound
