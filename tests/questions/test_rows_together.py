"""Rows of a unit that are bounded in all groups together: which ones count, and that no more do, whichever groups they are in."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction

import pyarrow as pa
import pytest

import sordino as sd
from sordino.columns import BucketGrid, StepRange
from sordino.errors import InvalidParameter, UnboundedContribution
from sordino.questions import Domain, number_question, prepare_numbers
from sordino.sources import open_source
from support.rank_law import choose
from support.tables import KINDS, columns, made

SALT = b"0123456789abcdef"
GRID = BucketGrid.geometric(lower=0, cap=64, growth=2)
CLIP = StepRange(low=0, high=1 << 40, step=Fraction(1, 4))
VALUES = [0.0, 1.25, 1.25, 3.0, 7.5, 30.0, 100.0, None]
FEW, MANY = list("abcd"), [f"l{place:02}" for place in range(70)]
DEFAULT = {"csv", "parquet", "arrow"}


def rows_of(unit, chance, labels, most):
    return [
        (unit, chance.choice([*labels, "elsewhere"]), chance.choice(VALUES))
        for _ in range(chance.randint(1, most))
    ]


def table(rows):
    return columns(rows, u=pa.int64(), g=pa.string(), x=pa.float64())


def states(source, labels, rows, salt=SALT):
    """Buckets and totals of each group: together they show which rows count."""
    unit = sd.PrivacyUnit("u", max_rows=rows)
    question = prepare_numbers(
        open_source(source), unit, column="x", grid=GRID, salt=salt, by="g", domain=labels
    )
    found = zip(question.run(), question.totals([CLIP] * len(labels)), strict=True)
    return [(*counts.counts.tolist(), *total) for counts, total in found]


def count_rows(state):
    return [known + missing for *_, known, missing in state]


@pytest.mark.parametrize(
    "kind",
    [kind if kind in DEFAULT else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS],
)
@pytest.mark.parametrize(("labels", "most"), [(FEW, 1), (FEW, 5), (MANY, 3), (MANY, 40)])
@pytest.mark.sample(3)
def test_what_counts_is_what_the_law_says(tmp_path, kind, labels, most):
    """The rows of a unit in the order of their groups, and in these of their numbers, missing ones first."""
    chance = random.Random(most)
    listed = [row for unit in (-5, 0, 3, 1 << 40) for row in rows_of(unit, chance, labels, 90)]
    source = made(tmp_path, kind, table(listed))
    own = defaultdict(list)
    for unit, label, number in listed:
        if label in labels:
            own[unit].append((labels.index(label), -1.0 if number is None else number))
    wanted = {place: [] for place in range(len(labels))}
    for unit, held in own.items():
        for place, number in choose(held, [str(unit)], most, SALT):
            wanted[place].append(number)
    assert [
        (steps, known + missing) for *_, steps, known, missing in states(source, labels, most)
    ] == [(sum(max(0, int(4 * number)) for number in kept), len(kept)) for kept in wanted.values()]


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("labels", [FEW, MANY])
@pytest.mark.sample(6)
def test_one_unit_more_brings_at_most_so_many_rows_and_moves_nobody_else(tmp_path, kind, labels):
    chance = random.Random(len(labels))
    others = [row for unit in range(9) for row in rows_of(unit, chance, labels, 30)]
    own = rows_of(99, chance, labels, 200)
    together = list(others)
    for row in own:
        together.insert(chance.randint(0, len(together)), row)
    before, after, alone = (
        states(made(tmp_path, kind, table(rows), f"t{place}"), labels, 6)
        for place, rows in enumerate((others, together, own))
    )
    assert after == [
        tuple(map(sum, zip(*both, strict=True))) for both in zip(before, alone, strict=True)
    ]
    assert sum(count_rows(alone)) == 6
    chance.shuffle(together)
    assert states(made(tmp_path, kind, table(together), "shuffled"), labels, 6) == after
    assert (
        states(made(tmp_path, kind, table(together), "again"), labels, 6, b"fedcba9876543210")
        != after
    )


def test_the_twin_that_bounds_rows_in_each_group_is_convicted(monkeypatch):
    bounds = number_question.Bounds
    monkeypatch.setattr(
        number_question, "Bounds", lambda **more: bounds(**{**more, "groups": more["groups"] or 4})
    )
    own = rows_of(99, random.Random(2), FEW, 200)
    assert sum(count_rows(states(table(own), FEW, 6))) > 6


def test_each_row_has_the_same_chance_in_whichever_group():
    """Nine rows of a unit in one group and one in another: it counts in about a tenth of the choices."""
    rows = [(unit, label, 1.25) for unit in range(2000) for label in "aaaaaaaaab"]
    first, second, *_ = count_rows(states(table(rows), FEW, 1))
    assert first + second == 2000
    assert 140 < second < 262  # 200, within 4.6 standard deviations


def test_groups_that_nobody_listed_need_a_bound_on_groups():
    hidden = Domain.unlisted(delta=1e-6)
    for more, error in (
        ({"groups_per_unit": None}, UnboundedContribution),
        ({"groups_per_unit": 0}, InvalidParameter),
    ):
        with pytest.raises(error, match="groups_per_unit"):
            prepare_numbers(
                open_source(table([])),
                sd.PrivacyUnit("u", max_rows=2),
                column="x",
                grid=GRID,
                salt=SALT,
                by="g",
                domain=hidden,
                most_groups=3,
                **more,
            )
