"""Figures of groups that nobody listed against true values, where noise is next to nothing: on every kind of source, for odd labels and empty groups."""

from __future__ import annotations

import statistics
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import psycopg
import pytest

import sordino as sd
from sordino.questions import Domain
from sordino.questions.totals import NumberQuestion
from sordino.sources import CsvFormat
from sordino.sources.sql.sql_templates import LONGEST_LABEL
from support.postgres import database
from support.tables import made

HIDDEN = Domain.unlisted(delta=Fraction(1, 10**6))
# Noise of this price is below the steps of the answers, but for the search of a clip and the edges of quantiles.
LOUD = 10**6
SEARCH = {"lower": 0, "cap": 1000, "by": "g", "domain": HIDDEN, "epsilon": LOUD}
UNITS = 40
# Each unit has rows in two groups that many have, and in three of its own, which nobody may learn of. Of its rows in a
# group, which are alike, only two count.
ROWS = [
    (unit, group, float(10 + unit % 7 + 20 * (group == "west \u00e4")))
    for unit in range(UNITS)
    for group in ("east", "west \u00e4", *(f"own {unit} {place}" for place in range(3)))
    for _ in range(2 + unit % 2)
]
EAST = [10.0 + unit % 7 for unit in range(UNITS) for _ in range(2)]
TRUE = {"east": EAST, "west \u00e4": [value + 20 for value in EAST]}


def frame(rows=ROWS):
    return pl.DataFrame(rows, schema={"u": pl.Int64, "g": pl.String, "x": pl.Float64}, orient="row")


def server_table(rows, name="found_groups", kind="text"):
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS public.{name}")
        connection.execute(f"CREATE TABLE public.{name} (u bigint, g {kind}, x float8)")
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO public.{name} VALUES (%s, %s, %s)", rows)
    return f"{database()}#public.{name}"


def opened(source, adjacency="add-remove", rows=2, seed=7, **more):
    unit = sd.PrivacyUnit("u", adjacency, rows)
    return sd.Session(source, unit=unit, entropy=sd.Seeded(seed), **more)


FIGURES = {
    "sum": (sum, {}),
    "mean": (statistics.fmean, {}),
    "variance": (statistics.pvariance, {}),
    "quantile": (lambda values: sorted(values)[len(values) // 2], {"q": 0.5, "growth": 1.001}),
}


@pytest.mark.parametrize("kind", ["csv", "parquet", "polars", "postgres"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.sample(8)
def test_figures_are_those_of_the_rows_that_count(tmp_path, kind, adjacency):
    source = server_table(ROWS) if kind == "postgres" else made(tmp_path, kind, frame().to_arrow())
    session = opened(source, adjacency)
    for name, (find, own) in FIGURES.items():
        found = getattr(session, name)(
            "x", groups_per_unit=2, most_groups=9, numbers_share=0, **SEARCH, **own
        )
        # In the order of the bytes. What a unit has in groups of its own takes none of its two places.
        assert [row.item for row in found] == sorted(TRUE)
        for row in found:
            assert row.release.estimate == pytest.approx(find(TRUE[row.item]), rel=0.01), (
                name,
                row.item,
            )
        assert found.label_threshold == 2


def test_each_unit_counts_once_where_it_may_count_in_one_group():
    """Whichever group it counts in: the values of its rows are alike in both, so that the sums of all groups are those of all units."""
    rows = [
        (unit, group, 1.0 + unit % 3) for unit in range(30) for group in ("a", "b", f"own {unit}")
    ]
    found = opened(frame(rows), rows=1).sum("x", groups_per_unit=1, most_groups=9, **SEARCH)
    assert [row.item for row in found] == ["a", "b"]
    each = [row.release.estimate for row in found]
    assert min(each) > 0
    assert sum(each) == pytest.approx(sum(1.0 + unit % 3 for unit in range(30)), rel=0.01)


def test_at_most_so_many_groups_are_found_those_of_the_most_units():
    rows = [(unit, f"g{place}", 5.0) for place in range(6) for unit in range(10 + place)]
    found = opened(frame(rows)).sum("x", groups_per_unit=6, most_groups=3, **SEARCH)
    assert [row.item for row in found] == ["g3", "g4", "g5"]
    least = replace(HIDDEN, least=14, origin="least 14")
    few = opened(frame(rows)).sum(
        "x", groups_per_unit=6, most_groups=9, **SEARCH | {"domain": least}
    )
    # The threshold lies one above the least count that takes part.
    assert [row.item for row in few] == ["g5"]
    assert few.label_threshold == 15


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.sample(2)
def test_sums_within_a_declared_range_are_those_of_the_rows_that_count(adjacency):
    asked = {**SEARCH, "cap": 40, "bounds": (0, 10_000), "groups_per_unit": 2, "most_groups": 9}
    found = opened(frame(), adjacency).sum("x", **asked)
    assert [row.item for row in found] == sorted(TRUE)
    for row in found:
        assert row.release.estimate == pytest.approx(sum(TRUE[row.item]), rel=1e-3)
    assert [type(part).__name__ for part in found.mechanism] == [
        "UnlistedHistogram",
        "BoundedTotal",
    ]
    assert opened(frame(ROWS[:1])).sum("x", **asked).rows == ()


def test_a_predicate_is_of_both_stages():
    rows = [
        (unit, group, float(unit))
        for unit in range(20)
        for group in ("a", "b")
        if group == "a" or unit < 4
    ]
    found = opened(frame(rows)).mean(
        "x", groups_per_unit=2, most_groups=9, where="x >= 3", **SEARCH
    )
    assert [(row.item, round(row.release.estimate)) for row in found] == [("a", 11)]


def test_each_row_may_be_a_unit():
    rows = [(0, group, value) for group in ("a", "b") for value in (3.0, 4.0, 5.0, 6.0) * 50] + [
        (0, "rare", 1.0)
    ]
    for adjacency in ("add-remove", "replace-one"):
        session = sd.Session(frame(rows), unit=sd.PrivacyUnit.row(adjacency), entropy=sd.Seeded(1))
        found = session.sum("x", most_groups=2, **SEARCH)
        assert {row.item: round(row.release.estimate / 200, 2) for row in found} == {
            "a": 4.5,
            "b": 4.5,
        }
        # A missing number adds nothing, also where the number of rows is public: that of a group is not.
        means = session.mean("x", most_groups=2, **SEARCH)
        assert [round(row.release.estimate, 2) for row in means] == [4.5, 4.5]
        assert not means.mechanism[1].size_is_public


# ---- groups without rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.sample(3)
def test_a_group_without_rows_that_count_is_released_as_one_of_a_list(monkeypatch, name):
    """A unit may have chosen another group when it chose again, so that the last one is left without any."""
    release = sd.UnlistedHistogram.release

    def with_a_ghost(self, answers, **more):
        found = release(self, answers, **more)
        return replace(
            found,
            labels=(*found.labels, "ghost"),
            values=np.append(found.values, float(self.threshold)),
        )

    monkeypatch.setattr(sd.UnlistedHistogram, "release", with_a_ghost)
    own = FIGURES[name][1]
    found = getattr(opened(frame()), name)("x", groups_per_unit=2, most_groups=9, **SEARCH, **own)
    asked = {**SEARCH, "domain": ["east", "ghost"], "epsilon": LOUD}
    listed = getattr(opened(frame()), name)("x", groups_per_unit=2, **asked, **own)
    ghosts = [{row.item: row.release for row in release}["ghost"] for release in (found, listed)]
    assert [row.item for row in found] == ["east", "ghost", "west \u00e4"]
    assert ghosts[0].estimate == pytest.approx(ghosts[1].estimate, abs=0.2)
    assert type(ghosts[0]) is type(ghosts[1])


# ---- labels ------------------------------------------------------------------------------------------------------------------

NAMES = [
    "a",
    "A",
    "a ",
    "\u00e4",
    "a\u0308",
    "\u00df",
    "ss",
    "1",
    "1.0",
    "-0",
    "NULL",
    "nan",
    "'",
    "\\",
    "\U0001f600",
]
NAMES += ["x" * LONGEST_LABEL, "\u202e"]
NO_NAMES = [None, "", "x" * (LONGEST_LABEL + 1)]
# Of every name another sum; what is no label is not read as one that is alike.
NAMED = [
    (unit, name, float(1 + place))
    for place, name in enumerate([*NAMES, *NO_NAMES])
    for unit in range(12)
]


def sums_of(source, **more):
    found = opened(source, rows=1, **more).sum(
        "x", groups_per_unit=40, most_groups=40, numbers_share=0, **SEARCH
    )
    return {row.item: row.release.estimate for row in found}


@pytest.mark.parametrize("kind", ["parquet", "polars", "duckdb", "postgres"])
@pytest.mark.sample(4)
def test_labels_are_told_apart_by_their_bytes_in_both_stages(tmp_path, kind):
    source = (
        server_table(NAMED) if kind == "postgres" else made(tmp_path, kind, frame(NAMED).to_arrow())
    )
    found = sums_of(source)
    assert list(found) == sorted(NAMES)
    for place, name in enumerate(NAMES):
        assert found[name] == pytest.approx(12 * (1 + place), rel=0.02), name


def make_loose_collation(connection):
    """Make a collation that takes letters of both cases for one; return whether the server can."""
    connection.execute("DROP TABLE IF EXISTS public.found_groups")
    connection.execute("DROP COLLATION IF EXISTS public.loose")
    loose = "provider = icu, locale = 'und-u-ks-level1', deterministic = false"
    try:
        connection.execute(f"CREATE COLLATION public.loose ({loose})")
    # Of a server without ICU all collations tell texts apart by their bytes.
    except psycopg.errors.FeatureNotSupported:
        return False
    return True


def test_a_column_that_takes_names_for_one_joins_no_groups():
    names = [row for row in NAMED if row[1] in {"a", "A", "\u00e4"}]
    with psycopg.connect(database(), autocommit=True) as connection:
        loose = make_loose_collation(connection)
        connection.execute("CREATE EXTENSION IF NOT EXISTS citext WITH SCHEMA public")
    kind = "text COLLATE public.loose" if loose else "text"
    found = sums_of(server_table(names, kind=kind))
    assert {name: round(total) for name, total in found.items()} == {"a": 12, "A": 24, "\u00e4": 48}
    # A type of texts that are equal in both cases is none of those that labels can have.
    with pytest.raises(sd.InvalidParameter, match="must be a column of texts"):
        sums_of(server_table(names, kind="public.citext"))


def test_padding_is_no_part_of_a_label():
    padded = server_table([row for row in NAMED if row[1] in {"a", "A", "a "}], kind="character(9)")
    found = sums_of(padded)
    # A unit counts for one of its two rows of the group "a".
    assert list(found) == ["A", "a"]
    assert (round(found["A"]), 12 <= found["a"] <= 36) == (24, True)


def test_names_that_are_no_text_are_no_groups_of_a_csv_file(tmp_path):
    path = tmp_path / "t.csv"
    odd = [b"good", b"b\xff\xfed", b"", b"n\0l", b"none"]
    lines = [
        b"%d,%s,%d" % (unit, name, 2 + place)
        for place, name in enumerate(odd)
        for unit in range(12)
    ]
    path.write_bytes(b"u,g,x\n" + b"\n".join(lines) + b"\n")
    found = sums_of(path, csv=CsvFormat(null="none"))
    assert {name: round(total) for name, total in found.items()} == {"good": 24}


# ---- what nobody may see -----------------------------------------------------------------------------------------------------


def test_neither_questions_nor_costs_follow_from_how_large_groups_are(monkeypatch):
    """What is asked of an engine, how often, and what it costs, is a function of the groups that were found."""
    asked = []
    for name in ("count", "sums", "totals"):
        method = getattr(NumberQuestion, name)

        def noted(self, *given, method=method, name=name, **more):
            asked.append((name, self.groups, given))
            return method(self, *given, **more)

        monkeypatch.setattr(NumberQuestion, name, noted)
    seen = []
    for many in (4, 400):
        rows = [
            (unit, group, 5.0)
            for unit in range(many)
            for group in ("a", "b")
            if group == "a" or unit < 3
        ]
        found = opened(frame(rows)).sum("x", groups_per_unit=2, most_groups=5, **SEARCH)
        said = found.to_dict()
        seen.append((list(asked), said["cost"], said["mechanism"], [row.item for row in found]))
        asked.clear()
    assert seen[0] == seen[1]
    assert [name for name, *_ in seen[0][0]] == ["sums"], "one reading"
