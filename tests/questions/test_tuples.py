"""Tuples of listed parts: places and never texts, counted as an oracle counts that knows no engine."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter, defaultdict

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pytest

from sordino.columns import BucketGrid
from sordino.errors import InvalidParameter, UnknownDomain
from sordino.questions import (
    Domain,
    PrivacyUnit,
    counts as counts_module,
    prepare_counts,
    prepare_numbers,
)
from sordino.sources import open_source
from support.postgres import database

SALT = bytes(range(32))
TEXTS = [
    "",
    "a",
    "b",
    "/",
    "a/",
    "/a",
    '"',
    '","',
    "\x1f",
    "'",
    "A",
    "a ",
    "007",
    "7",
    "a\x1f",
    "\x1fa",
    None,
]
"""With every separator that somebody may think of; empty texts and missing ones are no label."""
PARTS = (["a", "a/", "/a", "/", '"', "7", "a\x1f"], ["a", "/a", '","', "\x1f", "007", "\x1fa"])


def make_rows(seed, many=200):
    draw = random.Random(seed)
    users = [f"u{number}" for number in range(12)] + [None]
    return [
        (draw.choice(users), draw.choice(TEXTS), draw.choice(TEXTS), draw.randint(0, 9))
        for _ in range(many)
    ]


def arrow(rows):
    kinds = {"user": pa.string(), "one": pa.string(), "two": pa.string(), "x": pa.int64()}
    return pa.table(
        {
            name: pa.array([row[at] for row in rows], kind)
            for at, (name, kind) in enumerate(kinds.items())
        }
    )


def ask(rows, most=None, domain=None, items=("one", "two")):
    return prepare_counts(
        open_source(rows if isinstance(rows, str) else arrow(rows)),
        PrivacyUnit("user", max_rows=most),
        kind="items",
        item=items,
        domain=domain or Domain.product(dict(zip(("one", "two"), PARTS, strict=True))),
        salt=SALT,
    )


def count(question):
    found = question.run()
    values = found.at(np.arange(len(found.labels)))
    return Counter({label: int(n) for label, n in zip(found.labels, values, strict=True) if n})


def oracle(rows, listed):
    """Count distinct users of each tuple that is listed, part by part."""
    seen = {(user, (one, two)) for user, one, two, _ in rows if user is not None}
    return Counter(label for _, label in seen if label in listed)


LISTED = set(itertools.product(*PARTS))


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_an_oracle(seed):
    rows = make_rows(seed)
    assert count(ask(rows)) == oracle(rows, LISTED)
    # The other way round the same tuples, with their parts exchanged.
    turned = count(ask(rows, items=("two", "one")))
    assert turned == Counter({(two, one): n for (one, two), n in oracle(rows, LISTED).items()})


def test_places_that_are_handed_on_are_counted_as_the_engine_counts_them(monkeypatch):
    """Of many labels the engine hands on a place for each that counts: the same counts, in order."""
    rows = [row for seed in range(3) for row in make_rows(seed, 400)]
    domain = Domain.product({"one": PARTS[0], "x": Domain.range(2, 8)})
    for most, items, listed in itertools.product(
        (None, 1, 2),
        (("one", "two"), ("one", "x"), "x"),
        (None, sorted(itertools.product(*PARTS))[::3]),
    ):
        if listed is not None and items != ("one", "two"):
            continue
        known = {("one", "x"): domain, "x": Domain.range(2, 8)}.get(items, listed)
        found = []
        for many in (1, 1 << 60):
            monkeypatch.setattr(counts_module, "MANY_PLACES", many)
            question = ask(rows, most, Domain.of(known) if listed else known, items)
            assert (question.places is not None) == (many == 1)
            found.append(count(question))
        assert found[0] == found[1]
        assert sum(found[0].values()) > 10
    each_row = {"kind": "items", "item": "x", "domain": Domain.range(2, 8)}
    by_rows = prepare_counts(open_source(arrow(rows)), PrivacyUnit.row(), **each_row)
    assert by_rows.places is None
    monkeypatch.setattr(counts_module, "MANY_PLACES", 1)
    handed = prepare_counts(open_source(arrow(rows)), PrivacyUnit.row(), **each_row)
    assert handed.places == 6
    assert count(handed) == count(by_rows)
    assert handed.run().positions.tolist() == list(range(6))


def joined(rows, separator):
    """Count what a separator makes of two parts: the twin that this page is about."""
    seen = {(user, f"{one}{separator}{two}") for user, one, two, _ in rows if user}
    texts = {f"{one}{separator}{two}": (one, two) for one, two in LISTED}
    return Counter(texts[text] for _, text in seen if text in texts)


@pytest.mark.parametrize("separator", ["/", "", "\x1f"])
def test_a_separator_is_convicted(separator):
    rows = [row for seed in range(20) for row in make_rows(seed)]
    assert joined(rows, separator) != oracle(rows, LISTED)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sample(6)
def test_a_table_is_the_sum_of_its_units(seed, most):
    """Theorem 0: no unit changes what another one counts for, and none has more tuples than M."""
    rows = make_rows(seed, 120)
    owned = defaultdict(list)
    for row in rows:
        owned[row[0]].append(row)
    alone = [count(ask(own, most)) for user, own in owned.items() if user is not None]
    assert all(sum(one.values()) <= most for one in alone)
    assert all(set(one.values()) <= {1} for one in alone)
    assert sum(alone, Counter()) == count(ask(rows, most))
    # Rows that are not listed take no place: who has a listed tuple counts for one.
    assert len([one for one in alone if one]) == len(
        [own for user, own in owned.items() if user and oracle(own, LISTED)]
    )


def test_parts_that_are_bounded_one_by_one_are_convicted():
    """A unit with two labels in each part has four tuples; the bound is on tuples."""
    rows = [("u", one, two, 0) for one in ("a", "/") for two in ("a", "/a")]
    assert sum(count(ask(rows, 2)).values()) == 2


def test_a_list_of_tuples_counts_these_alone():
    rows = make_rows(3)
    some = sorted(LISTED)[::3]
    found = count(ask(rows, domain=Domain.of([*some, ("a", None), some[0]])))
    assert found == oracle(rows, set(some))
    chosen = sum(
        (
            count(ask([r for r in rows if r[0] == u], 1, Domain.of(some)))
            for u in {r[0] for r in rows} - {None}
        ),
        Counter(),
    )
    assert chosen == count(ask(rows, 1, Domain.of(some)))


def test_a_range_is_a_part_and_places_have_64_bits():
    """60,000 x 50,000 x 100 places are more than 32 bits hold: no row may end the query."""
    rows = pa.table(
        {
            "user": ["u", "v", "w", "beyond", "beyond"],
            "a": ["59999", "00", "7", "0", "60000"],
            "b": [49999, 3, -1, 50_000, 0],
            "c": [99, 0, 5, 5, 5],
        }
    )
    domain = {"a": Domain.range(0, 60_000), "b": Domain.range(0, 50_000), "c": Domain.range(0, 100)}
    question = prepare_counts(
        open_source(rows), PrivacyUnit("user"), kind="items", item=("a", "b", "c"), domain=domain
    )
    assert question.domain.size == 60_000 * 50_000 * 100
    found = question.run()
    assert found.positions.tolist() == [question.domain.size - 1]
    assert found.labels[question.domain.size - 1] == ("59999", "49999", "99")


def test_groups_are_tuples():
    rows = [row for row in make_rows(5) if row[0]]
    grid = BucketGrid(edges=np.arange(10.0))
    question = prepare_numbers(
        open_source(arrow(rows)),
        PrivacyUnit.row(),
        column="x",
        grid=grid,
        by=("one", "two"),
        domain=Domain.product({"one": PARTS[0], "two": PARTS[1]}),
    )
    expected = Counter((one, two) for _, one, two, _ in rows)
    found = dict(zip(question.groups, question.run(), strict=True))
    assert {label: int(sum(one.counts)) for label, one in found.items() if sum(one.counts)} == {
        label: n for label, n in expected.items() if label in LISTED
    }


@pytest.mark.parametrize("most", [None, 1, 2])
def test_postgres_counts_alike(most):
    rows = make_rows(7)
    name = f"tuples_{most or 0}"
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS public.{name}")
        connection.execute(
            f'CREATE TABLE public.{name} ("user" text, one text, two text, x bigint)'
        )
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO public.{name} VALUES (%s, %s, %s, %s)", rows)
        address = f"{database()}#public.{name}"
        assert count(ask(address, most)) == count(ask(rows, most))
        listed = Domain.of(sorted(LISTED)[::2])
        assert count(ask(address, most, listed)) == count(ask(rows, most, listed))
        connection.execute(f"DROP TABLE public.{name}")


def test_the_order_given_is_shown_and_ties_have_their_own():
    ages = ["under 18", "18 to 64", "65 and more"]
    domain = Domain.product({"town": ["Z", "A"], "age": ages})
    assert [domain.labels[place] for place in domain.order] == list(
        itertools.product(["Z", "A"], ages)
    )
    assert list(domain.labels) == sorted(itertools.product(["Z", "A"], ages))
    one = Domain.of(ages)
    assert [one.labels[place] for place in one.order] == ages
    # A set has no order of its own.
    assert Domain.of({"b", "a", "c"}).order is None


def test_what_is_wrong_with_parts_is_said_before():
    rows = make_rows(1, 5)
    with pytest.raises(UnknownDomain, match='item "two": no labels'):
        ask(rows, domain={"one": ["a"]})
    with pytest.raises(InvalidParameter, match="three"):
        ask(rows, domain={"one": ["a"], "two": ["b"], "three": ["c"]})
    with pytest.raises(UnknownDomain, match="combinations"):
        ask(rows, domain=Domain.assume_public())
    with pytest.raises(UnknownDomain, match="combinations"):
        ask(rows, domain={"one": ["a"], "two": "assume-public"})
    with pytest.raises(InvalidParameter, match="twice"):
        ask(rows, items=("one", "one"))
    with pytest.raises(InvalidParameter, match="tuples of 2"):
        ask(rows, domain=[("a", "b", "c")])
    with pytest.raises(InvalidParameter, match="several columns"):
        ask(rows, domain=["a", "b"])


def test_files_name_the_columns_of_tuples(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text('two,one\n"a","a"\n/a,/\n,a\n"a","a"\n', encoding="utf-8")
    rows = make_rows(2)
    question = ask(rows, domain=Domain.from_file(path))
    assert list(question.domain.labels) == [("/", "/a"), ("a", "a")]
    assert [question.domain.labels[at] for at in question.domain.order] == [("a", "a"), ("/", "/a")]
    assert count(question) == oracle(rows, {("/", "/a"), ("a", "a")})
    duckdb.sql("SELECT 'a' AS one, 'a' AS two").write_parquet(str(tmp_path / "cells.parquet"))
    assert count(ask(rows, domain=Domain.from_file(tmp_path / "cells.parquet"))) == oracle(
        rows, {("a", "a")}
    )


def test_a_coarser_unit_is_another_promise():
    """A household that loses one person moves two counts, and four if that person is exchanged for one elsewhere."""
    apart = {"add-remove": 0, "replace-one": 0}
    for n in range(40):
        salt = hashlib.sha256(bytes([n])).digest()

        def count(rows, salt=salt):
            homes, items = zip(*rows, strict=True)
            frame = pa.table({"home": homes, "item": items})
            unit = PrivacyUnit("home", max_rows=1)
            asked = {"kind": "items", "item": "item", "domain": ["a", "b", "c", "d"], "salt": salt}
            return prepare_counts(open_source(frame), unit, **asked).run().values

        before = count([("h", "a"), ("h", "b"), ("k", "d")])
        gone, exchanged = [("h", "b"), ("k", "d")], [("h", "b"), ("k", "d"), ("k", "c")]
        for how, rows in (("add-remove", gone), ("replace-one", exchanged)):
            apart[how] = max(apart[how], int(abs(count(rows) - before).sum()))
    # One item a household: a household alone moves one count, or two.
    assert apart == {"add-remove": 2, "replace-one": 4}
