"""How many rows held a number: the law of its two counts, its interval, and what decides that it is released."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sordino as sd
from sordino.errors import InvalidParameter
from sordino.estimators.column_release import NumbersShare, count_numbers, estimate_share
from sordino.questions import prepare_numbers
from sordino.releases import Values
from sordino.sources import open_source

GRID = sd.BucketGrid(edges=[0.0, 5.0])
SALT = bytes(range(32))
GERMAN = "kunde;betrag\n" + "".join(
    f"k{i};{1 + i % 900}.{i % 1000:03d},{i % 100:02d}\n" for i in range(4000)
)


def cells(rows, unit, **more):
    """Return the two private counts of a table with columns u, g and x."""
    frame = pl.DataFrame(
        rows, schema={"u": pl.String, "g": pl.String, "x": pl.Float64}, orient="row"
    )
    found = prepare_numbers(
        open_source(frame), unit, column="x", grid=GRID, salt=SALT, **more
    ).count()
    return np.array([found.known, found.missing])


# ---- privacy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "groups"),
    [(1, None), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2, None), (1, 2)))],
)
@pytest.mark.sample(4)
def test_the_two_counts_move_by_what_the_noise_is_made_for(most, groups):
    """All rows that one unit can bring, to tables that others have rows in: in L1, attained; one row fewer is not enough."""
    unit = sd.PrivacyUnit("u", max_rows=most)
    more = {} if groups is None else {"by": "g", "domain": ["a", "b"], "groups_per_unit": groups}
    others = [("o", "a", 1.0), ("o", "b", None), ("p", "a", None), (None, "a", 1.0)]
    base = cells(others, unit, **more)
    moved, alone = [], {}
    # One row more than count.
    for size in range(3 if groups else most + 2):
        for values in itertools.product([1.0, 7.0, None], repeat=size):
            for labels in itertools.product("ab", repeat=size if groups else 0):
                mine = [
                    ("n", label, x) for label, x in zip(labels or "a" * size, values, strict=True)
                ]
                change = cells([*mine, *others], unit, **more) - base
                moved.append(abs(change).sum())
                alone[tuple(change)] = change
    rows = most * (groups or 1)
    joined = count_numbers(Fraction(1), adjacency="add-remove", rows=rows).sensitivity
    assert max(moved) == joined.bound
    assert joined.monotone
    assert all((change >= 0).all() for change in alone.values())
    replaced = count_numbers(Fraction(1), adjacency="replace-one", rows=rows).sensitivity
    apart = max(abs(one - other).sum() for one in alone.values() for other in alone.values())
    assert apart == replaced.bound > joined.bound, "as for adding: convicted"


def largest_loss(rate, steps):
    """Return the largest logarithm of a ratio, over outcomes of two noisy counts and changes of so many steps in L1."""
    changes = [
        d
        for d in itertools.product(range(-steps, steps + 1), repeat=2)
        if sum(map(abs, d)) <= steps
    ]
    outcomes = list(itertools.product(range(-9, 10), repeat=2))
    return max(
        rate * sum(abs(y - d) - abs(y) for y, d in zip(at, change, strict=True))
        for change in changes
        for at in outcomes
    )


@pytest.mark.parametrize(
    ("adjacency", "rows", "steps"),
    [("add-remove", 1, 1), ("add-remove", 3, 3), ("replace-one", 2, 4)],
)
def test_a_release_loses_what_it_says_and_no_less(adjacency, rows, steps):
    """Every pair of outcomes of the two counts, at neighbors. With the noise of a single row: convicted."""
    mechanism = count_numbers(Fraction(1, 2), adjacency=adjacency, rows=rows)
    assert largest_loss(float(mechanism.noise.rate), steps) == float(mechanism.cost.pure()) == 0.5
    if steps > 1:
        alone = count_numbers(Fraction(1, 2), adjacency="add-remove", rows=1)
        assert largest_loss(float(alone.noise.rate), steps) > 0.5


@pytest.mark.parametrize("question", ["quantile", "sum", "mean", "variance"])
@pytest.mark.sample(4)
def test_no_row_decides_whether_a_frame_is_asked(question):
    """One text turns a column of pandas into texts: what is released, its noise and its cost stay. By the type: convicted."""
    releases = []
    for last in (2.0, "x"):
        frame = pd.DataFrame({"x": [1.0, 2.0, 3.0] * 30 + [last]})
        session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1))
        share = {"q": 0.5} if question == "quantile" else {}
        releases.append(getattr(session, question)("x", epsilon=1, lower=0, cap=10, **share))
    one, other = releases
    assert one.numbers_share is not None
    assert other.numbers_share is not None
    assert one.cost == other.cost
    assert one.numbers_share.mechanism == other.numbers_share.mechanism
    with pytest.raises(InvalidParameter, match="strict_types"):
        session.sum("x", epsilon=1, lower=0, cap=10, strict_types=True)
    frame = pd.DataFrame({"x": [1.0, 2.0]})
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1))
    with pytest.raises(InvalidParameter, match="strict_types"):
        session.sum("x", epsilon=1, lower=0, cap=10, strict_types=True)


# ---- the interval ------------------------------------------------------------------------------------------


def chances(rate, reach):
    """Return the law of one discrete Laplace number, over -reach to reach."""
    numbers = np.arange(-reach, reach + 1)
    return numbers, np.exp(-rate * abs(numbers)) * math.tanh(rate / 2)


@pytest.mark.parametrize(("known", "missing"), [(0, 0), (3, 0), (0, 4), (5, 3), (30, 2), (40, 40)])
@pytest.mark.slow
def test_the_interval_holds_the_share(known, missing):
    """Over all outcomes of both counts; an interval of half the reach misses more often than it may."""
    mechanism = count_numbers(Fraction(1, 2), adjacency="add-remove", rows=1)
    numbers, law = chances(0.5, 60)
    share = known / (known + missing) if known + missing else None
    wrong = narrow = 0.0
    seen = {}
    for x, p in zip(numbers, law, strict=True):
        for y, q in zip(numbers, law, strict=True):
            at = (known + x, missing + y)
            if at not in seen:
                counts = Values(
                    values=np.array(at, dtype=float),
                    standard_error=1.0,
                    mechanism=mechanism,
                    cost=mechanism.cost,
                    simulated=True,
                )
                seen[at] = estimate_share(counts)
            found = seen[at]
            assert 0 <= found.low <= found.high <= 1
            assert found.estimate is None or found.low <= found.estimate <= found.high
            if share is not None and not found.low <= share <= found.high:
                wrong += p * q
            middle = (found.low + found.high) / 2
            reach = (found.high - found.low) / 4
            if share is not None and abs(share - middle) > reach:
                narrow += p * q
    assert wrong <= 0.05
    # Of few rows hardly anything is claimed, and of none or all of them the end is right.
    assert known + missing < 30 or narrow > 0.05, "half as wide: convicted"


def test_nothing_is_claimed_of_no_rows():
    frame = pd.DataFrame({"x": pd.Series([], dtype=float)})
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1))
    found = session.sum("x", epsilon=0.1, lower=0, cap=10).numbers_share
    assert (found.estimate, found.low, found.high, found.is_low) == (None, 0, 1, True)


def share_of(known, missing, epsilon=0.5):
    mechanism = count_numbers(Fraction(epsilon), adjacency="add-remove", rows=1)
    return estimate_share(
        Values(
            values=np.array([known, missing], dtype=float),
            standard_error=1.0,
            mechanism=mechanism,
            cost=mechanism.cost,
            simulated=True,
        )
    )


@pytest.mark.parametrize(
    ("known", "missing", "low"),
    [
        (2000, 20, False),  # nearly all, surely
        (60, 5, False),  # 92%, and so many of so few rows is no more than noise
        (900, 100, True),  # 90%, surely
        (9, 0, True),  # all, but it may be fewer than half
        (100, 100, True),
        (0, 0, True),
    ],
)
def test_a_warning_looks_at_the_interval_and_not_at_the_estimate(known, missing, low):
    """It is for what the interval says: some surely hold none, or it may be that few hold one."""
    found = share_of(known, missing)
    assert found.is_low is low, found
    sure, open_below = found.high < 0.95, found.low < 0.5
    assert low == (sure or open_below)


def test_the_warning_says_what_is_sure(monkeypatch):
    rows = pd.DataFrame({"x": ["1.5"] * 1800 + ["1.234,5"] * 200})
    session = sd.Session(rows, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(2))
    release = session.sum("x", epsilon=4, lower=0, cap=10)
    share = release.numbers_share
    assert 0.5 < share.low < share.high < 0.95
    told = str(release)
    assert "WARNING: at least 7" in told or "WARNING: at least 8" in told or "at least 9" in told
    assert "of the rows held no number" in told
    assert "about few" not in told


# ---- releases ----------------------------------------------------------------------------------------------


def test_a_german_file_is_right_or_visibly_low(tmp_path):
    path = tmp_path / "k.csv"
    path.write_text(GERMAN, encoding="utf-8")
    truth = sum(
        float(line.split(";")[1].replace(".", "").replace(",", ".")) for line in GERMAN.split()[1:]
    )
    asked = {"epsilon": 2, "lower": 0, "cap": 10**7}

    def ask(**how):
        form = sd.CsvFormat(delimiter=";", **how)
        session = sd.Session(path, unit=sd.PrivacyUnit.row(), csv=form, entropy=sd.Seeded(5))
        return session.sum("betrag", **asked)

    wrong = ask()
    assert wrong.numbers_share.high < 0.05
    assert wrong.numbers_share.is_low
    right = ask(decimal=",", thousands=".")
    assert not right.numbers_share.is_low
    assert abs(right.value / truth - 1) < 0.02
    declared = ask(decimal=",", thousands=".", types={"betrag": "decimal(12,2)"})
    assert declared.numbers_share is None
    assert abs(declared.value / truth - 1) < 0.02
    # All of the budget is for the figure then.
    assert declared.mechanism.epsilon == 2
    assert right.mechanism.epsilon == Fraction(19, 10)
    with pytest.raises(InvalidParameter, match="strict_types"):
        sd.Session(
            path, unit=sd.PrivacyUnit.row(), csv=sd.CsvFormat(delimiter=";"), entropy=sd.Seeded(5)
        ).sum("betrag", strict_types=True, **asked)


@pytest.mark.slow
def test_the_whole_release_costs_what_was_asked_for():
    frame = pl.DataFrame(
        {"u": list("abcd") * 50, "g": list("aabb") * 50, "x": [1.5, None, 3.0, 9.0] * 50}
    )
    for adjacency in ("add-remove", "replace-one"):
        unit = sd.PrivacyUnit("u", max_rows=3, adjacency=adjacency)
        session = sd.Session(frame, unit=unit, entropy=sd.Seeded(2))
        groups = {"by": "g", "domain": ["a", "b"], "groups_per_unit": 2}
        for name, more in (
            ("sum", {}),
            ("quantile", {"q": 0.5}),
            ("quantile", {"q": [0.2, 0.5]}),
            ("sum", groups),
            ("sum", {"bounds": (0, 10**4)}),
        ):
            found = getattr(session, name)(
                "x", epsilon=1, lower=0, cap=10, numbers_share=0.25, **more
            )
            # What bounds the search for several quantiles is not all spent.
            assert Fraction(9, 10) < Fraction(found.cost.pure()) <= 1
            one = found[0] if isinstance(found, tuple) else found
            assert isinstance(one.numbers_share, NumbersShare)
            assert one.numbers_share.cost.pure() == Fraction(1, 4)
            bound = 3 * (2 if more == groups else 1) * (1 if adjacency == "add-remove" else 2)
            assert one.numbers_share.mechanism.sensitivity.bound == bound
    assert session.sum("x", epsilon=1, lower=0, cap=10).numbers_share is None, "a column of numbers"


@pytest.mark.parametrize("share", [1, -0.1, 1.5, math.nan, "half"])
def test_what_is_no_share_is_refused(share):
    frame = pl.DataFrame({"x": [1.0]})
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(2))
    with pytest.raises(InvalidParameter, match="numbers_share"):
        session.sum("x", epsilon=1, lower=0, cap=10, numbers_share=share)
