"""How many people are in each bin of a number of theirs: true counts, one noise for all bins, in every form."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.cli import run
from sordino.errors import InvalidParameter
from sordino.questions import PrivacyUnit
from sordino.questions.value_bins import name_bins, prepare_bins
from sordino.sources import open_source
from support.number_states import SALT

EDGES = (-5.0, 0.0, 3.0, 10.0)
DRAW = np.random.default_rng(3)
WHO = DRAW.integers(0, 60, 400).tolist()
NUMBERS = [
    None if n % 17 == 0 else float("nan") if n % 23 == 0 else round(x, 2)
    for n, x in enumerate(DRAW.normal(0.2, 2, 400))
]
TABLE = pl.DataFrame({"who": WHO, "x": NUMBERS}, strict=False)


def value_of(numbers, per_person):
    known = [Fraction(str(x)) for x in numbers if x is not None and x == x]
    if per_person == "count":
        return len(known)
    if not known:
        return None
    made = {
        "sum": sum(known),
        "mean": sum(known) / len(known),
        "min": min(known),
        "max": max(known),
        "any": any(known),
    }
    return made[per_person]


def bin_of(value):
    return sum(value >= edge for edge in EDGES)


def wanted(table, per_person):
    """Counts of the bins, by fractions of the decimals."""
    rows = {}
    for who, x in zip(table["who"].to_list(), table["x"].to_list(), strict=True):
        rows.setdefault(who, []).append(x)
    values = [value_of(numbers, per_person) for numbers in rows.values()]
    found = Counter(bin_of(value) for value in values if value is not None)
    return [found[place] for place in range(len(EDGES) + 1)]


def counted(table, per_person, unit="who"):
    unit = PrivacyUnit(unit) if unit else PrivacyUnit.row()
    asked = prepare_bins(
        open_source(table), unit, column="x", edges=EDGES, per_person=per_person, salt=SALT
    )
    return asked, asked.run().values.tolist()


@pytest.mark.parametrize("per_person", ["sum", "count", "mean", "min", "max", "any"])
def test_every_person_with_a_number_is_in_the_bin_of_it(per_person):
    assert counted(TABLE, per_person)[1] == wanted(TABLE, per_person)


def test_a_row_that_is_a_unit_has_its_number_itself():
    known = [x for x in NUMBERS if x is not None and x == x]
    found = Counter(map(bin_of, known))
    assert counted(TABLE, None, unit=None)[1] == [found[place] for place in range(len(EDGES) + 1)]


def test_a_decimal_at_an_edge_is_in_the_bin_that_begins_there():
    """The float of 0.1 lies above it: rows of decimals are compared with the float below."""
    rows = pl.DataFrame({"x": pl.Series(["0.10", "0.09", "0.70", "19.99"]).cast(pl.Decimal(6, 2))})
    asked = prepare_bins(
        open_source(rows), PrivacyUnit.row(), column="x", edges=(0.1, 0.7, 19.99), salt=SALT
    )
    assert asked.run().values.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("per_person", ["sum", "count", "max"])
@pytest.mark.sample(3)
def test_one_person_moves_one_bin_by_one(per_person):
    """And a person in the place of another one two of them; that is what noise is made for."""
    asked, whole = counted(TABLE, per_person)
    moved = set()
    for person in range(60):
        _, without = counted(TABLE.filter(pl.col("who") != person), per_person)
        moved.add(sum(abs(a - b) for a, b in zip(whole, without, strict=True)))
    assert max(moved) == 1 == asked.joint(5).bound
    replaced = PrivacyUnit("who", adjacency="replace-one")
    other = prepare_bins(
        open_source(TABLE), replaced, column="x", edges=EDGES, per_person=per_person, salt=SALT
    )
    assert other.joint(5).bound == 2


def test_bins_are_named_by_their_edges():
    assert name_bins((0.5, 1e9)) == ("below 0.5", "0.5 to below 1000000000", "1000000000 or more")


def test_a_release_has_a_row_for_each_bin_in_their_order():
    session = sd.Session(TABLE, unit=PrivacyUnit("who"), ledger=None)
    release = session.value_histogram("x", bins=EDGES, per_person="sum", epsilon=1000)
    assert [row.item for row in release] == list(name_bins(EDGES))
    assert [row.estimate for row in release] == wanted(TABLE, "sum")
    assert release.cost.pure() == 1000
    # All of a person counts: the interval is about the true count.
    assert all((row.low, row.high) == (row.true_low, row.true_high) for row in release)
    assert "Labels: bins between -5, 0, 3, 10." in release.population.list_notes()


@pytest.mark.parametrize(
    ("unit", "asked", "words"),
    [
        ("who", {"bins": [1]}, "Give per_person"),
        (None, {"bins": [1], "per_person": "sum"}, "says whose a row is"),
        ("who", {"bins": [], "per_person": "sum"}, "rising numbers; got 0: none"),
        ("who", {"bins": [2, 1], "per_person": "sum"}, "rising numbers; got 2: 2, 1"),
        ("who", {"bins": "1,2", "per_person": "sum"}, "must be a list of numbers"),
        ("who", {"bins": [1, float("nan")], "per_person": "sum"}, "finite"),
        ("who", {"bins": range(1 << 17), "per_person": "sum"}, "and more"),
    ],
)
def test_what_makes_no_bins_is_refused_before_the_charge(unit, asked, words):
    session = sd.Session(TABLE, unit=PrivacyUnit(unit) if unit else PrivacyUnit.row(), ledger=None)
    with pytest.raises(InvalidParameter, match=words):
        session.value_histogram("x", epsilon=1, **asked)


@pytest.fixture
def sordino(capfd, tmp_path):
    TABLE.with_columns(pl.col("x").fill_nan(None)).write_csv(tmp_path / "t.csv")

    def call(*more, code=0):
        asked = ("histogram", tmp_path / "t.csv", "--user", "who", "--epsilon", 1000, "--no-ledger")
        confirmed = ("--yes-i-mean-it", "--quiet", "--format", "json")
        assert run([str(one) for one in (*asked, *confirmed, *more)]) == code
        out, err = capfd.readouterr()
        return json.loads(out) if code == 0 else err

    return call


def test_the_command_counts_people_in_bins(sordino):
    told = sordino("--column", "x", "--per-person", "sum", "--bins", "-5,0,3,10")
    assert [row["estimate"] for row in told["rows"]] == wanted(TABLE, "sum")
    assert (told["release"], told["per_person"], told["column"]) == ("histogram", "sum", "x")
    told = sordino("--per-person", "count", "--bins", "3")
    many = Counter(WHO).values()
    assert told["rows"][1]["estimate"] == sum(n >= 3 for n in many)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "--item, a column of labels, or --bins"),
        (("--column", "x"), "--column of histogram needs --bins"),
        (("--per-person", "sum"), "--per-person of histogram needs --bins"),
        (("--bins", "1", "--item", "who"), "--item of histogram must not"),
        (("--bins", "1", "--assume-public"), "must not be given with --bins"),
        (("--bins", "1", "--column", "x"), "--per-person sum"),
        (
            ("--bins", "1", "--per-person", "count", "--max-rows", 3),
            "--max-rows must not be given with --per-person",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(sordino, more, words):
    assert words in sordino(*more, code=2).replace("\n", " ")
