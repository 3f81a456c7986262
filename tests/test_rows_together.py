"""Sessions whose bound on rows of a unit is about all groups together: what is charged, with which noise, and what is said."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest

import sordino as sd
from sordino.errors import InvalidParameter
from sordino.session.table_numbers import TableNumbers

ROWS = [(f"u{place % 60}", "pq"[place % 2], float(place % 50)) for place in range(600)]
TABLE = pl.DataFrame(ROWS, schema={"u": pl.String, "g": pl.String, "x": pl.Float64}, orient="row")
ASKED = {"epsilon": Fraction(4, 5), "cap": 100, "lower": 0, "by": "g", "domain": ["p", "q", "r"]}
KINDS = {
    "quantile": {"q": 0.5},
    "sum": {},
    "mean": {},
    "variance": {},
    "sum within bounds": {"bounds": (0, 50_000)},
}
UNIT = sd.PrivacyUnit("u", max_rows=5)


def ask(kind, unit=UNIT, source=TABLE, **more):
    with sd.Session(source, unit=unit, ledger=None, entropy=sd.Seeded(3)) as session:
        name = kind.split()[0]
        return getattr(session, name)("x", **{**ASKED, **KINDS[kind], **more})


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.each_value
def test_the_whole_costs_epsilon_and_each_group_has_the_noise_of_all_rows_of_a_unit(
    kind, adjacency
):
    unit = sd.PrivacyUnit("u", max_rows=5, adjacency=adjacency)
    release = ask(kind, unit)
    parts = 5 if adjacency == "add-remove" else 10
    # Rates are rounded down by parts in a trillion.
    assert 0 <= Fraction(4, 5) - release.cost.pure() < 1e-9
    assert release.budgets == parts
    mechanisms = release.mechanism if isinstance(release.mechanism, tuple) else (release.mechanism,)
    assert {mechanism.rows_per_unit for mechanism in mechanisms} == {1}
    assert {mechanism.adjacency for mechanism in mechanisms} == {"add-remove"}
    spent = sum(mechanism.epsilon for mechanism in mechanisms)
    if adjacency == "add-remove" or kind == "sum within bounds":
        assert spent == Fraction(4, 5) / parts
    else:
        assert spent > Fraction(4, 5) / parts, "a search loses both ends, and not twice the larger"


def test_a_share_for_numbers_is_part_of_epsilon(tmp_path):
    path = tmp_path / "t.csv"
    TABLE.write_csv(path)
    release = ask("mean", source=path)
    assert release.cost.pure() == Fraction(4, 5)
    assert release.numbers_share is not None
    # All five rows of a unit may hold a number, or none.
    assert release.mechanism.epsilon == Fraction(4, 5) * Fraction(19, 20) / 5


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_gaussian_noise_needs_a_bound_on_groups(kind):
    with pytest.raises(InvalidParameter, match="groups_per_unit"):
        ask(kind, noise="gaussian")


def test_an_account_that_gains_by_gaussian_noise_gets_laplace(tmp_path):
    unit = sd.PrivacyUnit("u", max_rows=40)
    asked = {**ASKED, "domain": [f"g{n}" for n in range(40)]}
    noises = []
    for groups in (None, 40):
        ledger = sd.Ledger.create(
            tmp_path / f"{groups}.db",
            account="a",
            budget=sd.Budget(epsilon=3, delta=1e-6),
            adjacency="add-remove",
            unit="u",
            source="name:t",
        )
        with sd.Session(TABLE, unit=unit, ledger=ledger, name="t") as session:
            release = session.sum("x", groups_per_unit=groups, **asked)
        noises.append(release.mechanism.total_noise)
        if groups is None:
            assert release.cost.pure() == Fraction(4, 5)
            assert release.cost.zcdp() < sd.cost.Pure(epsilon=Fraction(4, 5)).zcdp() / 2
    assert noises == ["laplace", "gaussian"]


def test_the_same_is_measured_again_within_its_clips():
    with sd.Session(TABLE, unit=UNIT, ledger=None, entropy=sd.Seeded(3)) as session:
        first = session.sum("x", **ASKED)
        again = session.remeasure(first, epsilon=2)
        assert again.total.pure() == first.cost.pure() + 2
        with pytest.raises(InvalidParameter, match="groups_per_unit"):
            session.remeasure(first, epsilon=2, noise="gaussian")


def test_a_charge_says_that_rows_are_bounded_in_all_groups():
    whole = {"adjacency": "add-remove", "labels": ("a", "b"), "groups_per_unit": 5}
    estimator = sd.ClippedSum(epsilon=1, adjacency="add-remove", lower=0, cap=9)
    assert "groups=2, rows_in_all=5" in repr(
        TableNumbers(estimator=estimator, together=True, **whole)
    )
    assert "groups=2, groups_per_unit=5" in repr(TableNumbers(estimator=estimator, **whole))


def test_figures_of_scattered_rows_are_closer_than_those_of_divided_groups():
    labels = [f"g{place}" for place in range(8)]
    rows = [(place // 8, labels[place % 8], float(place * 37 % 91)) for place in range(40_000)]
    frame = pl.DataFrame(
        rows, schema={"u": pl.Int64, "g": pl.String, "x": pl.Float64}, orient="row"
    )
    asked = {"epsilon": 1, "cap": 100, "lower": 0, "by": "g", "domain": labels}
    unit = sd.PrivacyUnit("u", max_rows=8)
    with sd.Session(frame, unit=unit, ledger=None, entropy=sd.Seeded(1)) as session:
        errors = {
            groups: max(
                row.release.standard_error
                for row in session.sum("x", groups_per_unit=groups, **asked)
            )
            for groups in (None, 8)
        }
    assert errors[None] * 6 < errors[8]


@pytest.mark.slow
def test_a_plan_says_which_rows_do_not_count():
    with sd.Session(TABLE, unit=UNIT, ledger=None) as session:
        plan = session.plan.mean("x", **ASKED)
        other = session.plan.mean("x", groups_per_unit=2, **ASKED)
    assert any(
        "rows of a person beyond 5, in all groups together" in rule for rule in plan.left_out
    )
    assert not any("together" in rule for rule in other.left_out)
