"""Groups that nobody listed: their units are counted, what a release finds of them is asked as a list, and nobody's places are wasted."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
import psycopg
import pytest

import sordino as sd
from sordino.columns import StepRange
from sordino.errors import InvalidParameter, UnboundedContribution, UnknownDomain
from sordino.questions import Domain, PrivacyUnit, prepare_counts, prepare_groups, prepare_numbers
from sordino.sources import open_source
from support.postgres import database
from support.tables import made

SALT, OTHER = b"0123456789abcdef", b"fedcba9876543210"
GRID = sd.BucketGrid(edges=[0.0, 2.0, 50.0])
TWO_ROWS = PrivacyUnit("u", max_rows=2)
HIDDEN = Domain.unlisted(delta=1e-6)
ROWS = [
    (unit, f"group {group} \u00e4", float((unit * 7 + group) % 60))
    for unit in range(30)
    for group in range(unit % 6)
    for _ in range(1 + group % 2)
] + [(3, None, 1.0), (None, "group 1 \u00e4", 1.0), (4, "", 1.0), (5, "rare", None)]


def frame(rows=ROWS):
    return pl.DataFrame(rows, schema={"u": pl.Int64, "g": pl.String, "x": pl.Float64}, orient="row")


def server_table(rows=ROWS):
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS public.grouped")
        connection.execute("CREATE TABLE public.grouped (u bigint, g text, x float8)")
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO public.grouped VALUES (%s, %s, %s)", rows)
    return f"{database()}#public.grouped"


def numbers(source, domain, unit=TWO_ROWS, groups=2, **more):
    if unit.column is None:
        groups = None
    return prepare_numbers(
        source,
        unit,
        column="x",
        grid=GRID,
        by="g",
        domain=domain,
        groups_per_unit=groups,
        salt=SALT,
        **more,
    )


@pytest.mark.parametrize("kind", ["csv", "parquet", "polars", "postgres"])
@pytest.mark.sample(4)
def test_groups_that_were_found_are_asked_as_a_list_is(tmp_path, kind):
    source = server_table() if kind == "postgres" else made(tmp_path, kind, frame().to_arrow())
    source = open_source(source)
    found = ["group 4 \u00e4", "group 1 \u00e4", "group 0 \u00e4"]
    for unit in (
        PrivacyUnit("u", max_rows=2),
        PrivacyUnit("u", "replace-one", 1),
        PrivacyUnit.row(),
    ):
        asked = numbers(source, HIDDEN, unit, most_groups=3).among(found)
        listed = numbers(source, found, unit)
        assert asked.groups == listed.groups == tuple(sorted(found))
        assert asked.domain.origin == HIDDEN.origin
        ranges = [StepRange(low=0, high=100, step=1)] * 3
        assert asked.totals(ranges) == listed.totals(ranges)
        for one, other in zip(asked.run(), listed.run(), strict=True):
            assert one.counts.tolist() == other.counts.tolist()


def test_the_units_of_every_group_are_counted():
    source, unit = open_source(frame()), PrivacyUnit("u", max_rows=1)
    question = prepare_groups(source, unit, by="g", domain=HIDDEN, groups_per_unit=9, salt=SALT)
    counts = question.run()
    users = defaultdict(set)
    for one, group, _ in ROWS:
        if one is not None and group:
            users[group].add(one)
    assert dict(zip(counts.labels, counts.values.tolist(), strict=True)) == {
        group: len(own) for group, own in users.items()
    }
    # `max_rows` bounds rows in a group, and `groups_per_unit` groups: the choice of items of one unit.
    two = prepare_groups(source, unit, by="g", domain=HIDDEN, groups_per_unit=2, salt=SALT)
    same = prepare_counts(
        source, PrivacyUnit("u", max_rows=2), kind="items", item="g", domain=HIDDEN, salt=SALT
    )
    assert two.run().values.tolist() == same.run().values.tolist()
    assert two.sensitivity == same.sensitivity
    assert two.sensitivity.l1 == 2
    only = prepare_groups(
        source, unit, by="g", domain=HIDDEN, groups_per_unit=9, salt=SALT, where="x >= 50", best=1
    )
    assert len(only.run().labels) == 2
    rows = prepare_groups(source, PrivacyUnit.row(), by="g", domain=HIDDEN)
    assert rows.run().values.sum() == sum(1 for _, group, _ in ROWS if group)


def test_a_unit_chooses_again_among_the_groups_that_were_found():
    """What it has in other groups takes none of its places: each unit counts in one of the two, whatever it chose before."""
    rows = [(unit, f"g{group}", 1.0) for unit in range(40) for group in range(20)]
    source, unit = open_source(frame(rows)), PrivacyUnit("u", max_rows=1)
    first = prepare_groups(source, unit, by="g", domain=HIDDEN, groups_per_unit=1, salt=OTHER).run()
    assert first.values.sum() == 40
    assert first.values.max() < 20
    asked = numbers(source, HIDDEN, unit, 1, most_groups=5).among(["g3", "g17"])
    assert sum(counts.records for counts in asked.run()) == 40


def test_a_group_without_rows_is_counted_as_one_of_a_list():
    asked = numbers(open_source(frame([])), HIDDEN, most_groups=5).among(["a", "b"])
    assert [counts.records for counts in asked.run()] == [0, 0]


def test_what_is_wrong_is_said_before_a_row_is_read():
    source = open_source(frame())
    question = numbers(source, HIDDEN, most_groups=2)
    for ask in (lambda: question.groups, lambda: question.domain.size):
        with pytest.raises(UnknownDomain, match="private: only a release"):
            ask()
    for found in ([], ["a", "b", "c"]):
        with pytest.raises(InvalidParameter, match="must be at most 2 labels|one label or more"):
            question.among(found)
    for known in (
        question.among(["a"]),
        numbers(source, ["a"]),
        prepare_numbers(source, PrivacyUnit.row(), column="x", grid=GRID),
    ):
        with pytest.raises(InvalidParameter, match=r"belongs to Domain.unlisted|at most 0 labels"):
            known.among(["a"])
    for wrong, error, message in (
        (
            lambda: numbers(source, HIDDEN),
            UnboundedContribution,
            "must have a bound on how many of them are found",
        ),
        (
            lambda: numbers(source, ["a"], most_groups=2),
            InvalidParameter,
            "most_groups belongs to Domain.unlisted",
        ),
        (
            lambda: numbers(source, HIDDEN, most_groups=0),
            InvalidParameter,
            "most_groups must be a whole number",
        ),
        (
            lambda: numbers(source, HIDDEN, most_groups=1 << 20),
            InvalidParameter,
            "most_groups must be at most 262144",
        ),
        (
            lambda: numbers(source, HIDDEN, groups=None, most_groups=2),
            UnboundedContribution,
            "groups_per_unit",
        ),
        (
            lambda: prepare_numbers(
                source, PrivacyUnit.row(), column="x", grid=GRID, most_groups=2
            ),
            InvalidParameter,
            "most_groups belong to by",
        ),
        (
            lambda: prepare_groups(
                source, PrivacyUnit("u"), by="g", domain=Domain.of(["a"]), groups_per_unit=1
            ),
            InvalidParameter,
            "prepare_groups.domain must be a Domain.unlisted",
        ),
        (
            lambda: prepare_groups(source, PrivacyUnit("u"), by="g", domain=HIDDEN, salt=SALT),
            InvalidParameter,
            "groups_per_unit must be a whole number",
        ),
    ):
        with pytest.raises(error, match=message):
            wrong()
