"""Labels of several columns of which nobody listed some: tuples of texts, found as single labels are, and never joined."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from sordino.columns import BucketGrid
from sordino.errors import InvalidParameter, UnknownDomain
from sordino.mechanisms.unlisted.occurring import read_occurring
from sordino.questions import (
    Domain,
    PrivacyUnit,
    counts as counts_module,
    prepare_counts,
    prepare_groups,
    prepare_numbers,
)
from sordino.sources import open_source
from sordino.sources.sql.sql_templates import LONGEST_LABEL
from support.postgres import database
from support.rank_law import choose

SALT = bytes(range(32))
FOUND = Domain.unlisted(delta=1e-6)
LISTED = ["b", "a", "a ", "a/", "007", '"', "\x1f"]
TEXTS = [
    "",
    "a",
    "a ",
    "b",
    "z",
    "/",
    "/a",
    "a/",
    "007",
    "7",
    '"',
    '","',
    "\x1f",
    "\x1fa",
    "a\x1f",
    "\uffee",
    "\U0001f600",
    "x" * (LONGEST_LABEL + 1),
    None,
]
"""With every separator that somebody may think of, and what is no label."""


def make_rows(seed, many=160):
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


GONE = {f"u{number}" for number in range(5, 12)}
DOMAINS = {
    "second": {"one": LISTED, "two": FOUND},
    "first": {"one": FOUND, "two": LISTED},
    "both": {"one": FOUND, "two": FOUND},
    "beside a range": {"one": Domain.range(5, 9), "two": FOUND},
}


def ask(rows, most=None, domain=None, *, best=None, unit=None, **more):
    return prepare_counts(
        open_source(rows if isinstance(rows, str) else arrow(rows)),
        unit or PrivacyUnit("user", max_rows=most or 1000),
        kind="items",
        item=("one", "two"),
        domain=domain or DOMAINS["second"],
        salt=SALT,
        best=best,
        **more,
    )


def count(question):
    found = question.run()
    assert found.values.dtype == "int64"
    assert found.positions is None
    assert list(found.labels) == sorted(
        found.labels, key=lambda label: [part.encode() for part in label]
    )
    return dict(zip(found.labels, found.values.tolist(), strict=True))


def is_label(text):
    return text is not None and text != "" and len(text) <= LONGEST_LABEL


RULES = {
    "second": lambda one, two: one in LISTED and is_label(two),
    "first": lambda one, two: is_label(one) and two in LISTED,
    "both": lambda one, two: is_label(one) and is_label(two),
    "beside a range": lambda one, two: one == "7" and is_label(two),
}


def oracle(rows, rule=RULES["second"], most=None, least=1):
    """Count by hand; with a bound the documented choice, written again."""
    items = defaultdict(set)
    for user, one, two, _ in rows:
        if user is not None and rule(one, two):
            items[user].add((one, two))
    chosen = [choose(own, [user], most or len(own), SALT) for user, own in items.items()]
    found = Counter(label for own in chosen for label in own)
    return {label: n for label, n in found.items() if n >= least}


def test_tuples_are_those_of_an_oracle():
    for name, (seed, most) in itertools.product(DOMAINS, [(0, None), (1, 1), (2, 3)]):
        rows = make_rows(seed)
        found = count(ask(rows, most, DOMAINS[name]))
        assert found == oracle(rows, RULES[name], most), name
        assert found, name
    rows = make_rows(4)
    least = Domain.unlisted(delta=0.1, least=2)
    assert count(ask(rows, 3, {"one": LISTED, "two": least})) == oracle(rows, most=3, least=2)
    each = Counter((one, two) for _, one, two, _ in rows if RULES["second"](one, two))
    assert count(ask(rows, unit=PrivacyUnit.row())) == each
    # One domain that nobody listed is of all columns.
    assert count(ask(rows, 2, FOUND)) == oracle(rows, RULES["both"], 2)


def server_table(rows, name):
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS public.{name}")
        connection.execute(
            f'CREATE TABLE public.{name} ("user" text, one text, two text, x bigint)'
        )
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO public.{name} VALUES (%s, %s, %s, %s)", rows)
    return f"{database()}#public.{name}"


@pytest.mark.slow
def test_postgres_counts_alike():
    rows = make_rows(7)
    address = server_table(rows, "partly_unlisted")
    for name, most in itertools.product(DOMAINS, [None, 1, 2]):
        asked = {"most": most, "domain": DOMAINS[name]}
        assert count(ask(address, **asked)) == count(ask(rows, **asked)), name
    for best in range(1, 12, 3):
        of_any = {"unit": PrivacyUnit("user"), "best": best, "domain": DOMAINS["both"]}
        assert count(ask(address, **of_any)) == count(ask(rows, **of_any))


@pytest.mark.slow
def test_a_table_is_the_sum_of_its_units():
    """Theorem 0: no unit changes what another one counts for, and none has more tuples than M."""
    for name, most in itertools.product(("second", "both"), (1, 3)):
        rows, owned = [row for row in make_rows(3, 120) if row[0] not in GONE], defaultdict(list)
        for row in rows:
            owned[row[0]].append(row)
        owned.pop(None, None)
        alone = [Counter(count(ask(own, most, DOMAINS[name]))) for own in owned.values()]
        assert all(sum(one.values()) <= most for one in alone)
        assert all(set(one.values()) <= {1} for one in alone)
        assert sum(alone, Counter()) == count(ask(rows, most, DOMAINS[name]))
        # Rows that are not listed, or hold no label, take no place of a unit.
        assert len([one for one in alone if one]) == len(
            [own for own in owned.values() if oracle(own, RULES[name])]
        )
        # One unit leaves: together no more than M, and nothing rises.
        moved = Counter(count(ask(rows, most, DOMAINS[name])))
        moved.subtract(count(ask([row for row in rows if row[0] != "u1"], most, DOMAINS[name])))
        assert min(moved.values()) >= 0
        assert 0 < sum(moved.values()) <= most


def test_what_is_not_listed_takes_no_place_of_its_unit(monkeypatch):
    """Rows are dropped before the unit chooses; the rule that comes after the choice is convicted."""
    rows = [
        (f"u{unit}", one, two, 0)
        for unit in range(20)
        for one, two in (("no", "a"), ("z", "b"), ("a", ""), ("a", None), ("a", "x"))
    ]
    assert count(ask(rows, 1)) == {("a", "x"): 20}

    def drop_later(kept, parts, words, *, carried):
        return kept

    monkeypatch.setattr(counts_module, "write_listed", drop_later)
    assert count(ask(rows, 1)) != {("a", "x"): 20}


def joined(rows, separator):
    """Count what a separator makes of two parts: the twin that this page is about."""
    seen = {
        (user, f"{one}{separator}{two}") for user, one, two, _ in rows if user and is_label(one)
    }
    return Counter(text for _, text in seen)


def test_a_separator_and_parts_that_are_bounded_one_by_one_are_convicted():
    """A unit with two labels in each part has four tuples; the bound is on tuples, which are no texts."""
    rows = [row for seed in range(8) for row in make_rows(seed) if is_label(row[2])]
    found = count(ask(rows, domain=DOMAINS["both"]))
    assert found == oracle(rows, RULES["both"])
    for separator in ("/", "", "\x1f"):
        told = Counter({f"{one}{separator}{two}": n for (one, two), n in found.items()})
        assert len(told) < len(found)
        assert joined(rows, separator) != told

    rows = [("u", one, two, 0) for one in ("a", "b") for two in ("x", "y")]
    for domain in DOMAINS["second"], DOMAINS["both"]:
        assert sum(count(ask(rows, 2, domain)).values()) == 2


TIES = [("a", "z"), ("a ", "b"), ('a"', "c"), ("\uffee", "d"), ("\U0001f600", "e"), ("b", "")]


def json_order(labels):
    return sorted(
        labels, key=lambda one: json.dumps(one, ensure_ascii=False, separators=(",", ":"))
    )


@pytest.mark.slow
def test_ties_go_part_by_part_in_the_engine_and_in_the_mechanism():
    """The order of JSON texts, which is another one, is convicted at every cut where they differ."""
    labels = TIES[:-1]
    rows = [(f"u{at}", *label, 0) for at, label in enumerate(labels)]
    unit = {"unit": PrivacyUnit("user"), "domain": DOMAINS["both"]}
    assert json_order(labels) != sorted(labels)
    for source in (rows, server_table(rows, "partly_unlisted_ties")):
        for best in range(1, len(labels)):
            assert list(count(ask(source, best=best, **unit))) == sorted(labels)[: best + 1]
    given = random.Random(1).sample(labels, len(labels))
    assert read_occurring([3] * len(given), given, 1, "x").labels == sorted(labels)
    differ = [
        best
        for best in range(1, len(labels))
        if set(json_order(labels)[:best]) != {*sorted(labels)[:best]}
    ]
    assert differ, "a cut where the twin hands on others"


def test_groups_that_are_found_are_tuples():
    rows = [row for row in make_rows(5, 300) if row[0]]
    grid, named = BucketGrid(edges=np.arange(10.0)), [("a", "z"), ("a ", "b"), ("b", "/a")]
    named += [("a/", "\U0001f600"), ('"', '","'), ("\x1f", "\x1fa"), ("007", "7")]
    address = server_table(rows, "partly_unlisted_groups")
    for name, unit in itertools.product(
        ("second", "both"), (PrivacyUnit.row(), PrivacyUnit("user", max_rows=1000))
    ):
        groups = None if unit.column is None else 1000
        found = []
        for source in (arrow(rows), address):
            question = prepare_numbers(
                open_source(source),
                unit,
                column="x",
                grid=grid,
                by=("one", "two"),
                domain=DOMAINS[name],
                groups_per_unit=groups,
                most_groups=9,
                salt=SALT,
            )
            with pytest.raises(UnknownDomain):
                _ = question.groups
            among = question.among(named)
            assert list(among.groups) == sorted(named)
            counted = among.run()
            found.append(
                {
                    label: int(sum(one.counts))
                    for label, one in zip(among.groups, counted, strict=True)
                }
            )
        truth = Counter((one, two) for _, one, two, _ in rows)
        assert found[0] == found[1] == {label: truth[label] for label in named}
        assert sum(found[0].values()) > 5
    units = prepare_groups(
        open_source(arrow(rows)),
        PrivacyUnit("user"),
        by=("one", "two"),
        domain=Domain.product(DOMAINS["second"]),
        groups_per_unit=2,
        salt=SALT,
    )
    assert count(units) == oracle(rows, most=2)


def test_a_unit_counts_in_so_many_groups_of_those_that_were_found():
    rows = [("u", one, two, 1) for one in ("a", "b") for two in ("x", "y", "w")]
    question = prepare_numbers(
        open_source(arrow(rows)),
        PrivacyUnit("user", max_rows=1),
        column="x",
        grid=BucketGrid(edges=np.arange(10.0)),
        by=("one", "two"),
        domain=DOMAINS["second"],
        groups_per_unit=2,
        most_groups=9,
        salt=SALT,
    )
    for named in ([("a", "x"), ("b", "x"), ("b", "w")], [("a", "x"), ("q", "x")]):
        counted = question.among(named).run()
        here = len([label for label in named if label[0] in {"a", "b"}])
        assert sum(int(sum(one.counts)) for one in counted) == min(2, here)


def test_a_partly_unlisted_domain_is_its_public_parts_and_what_is_wrong_is_said():
    domain = Domain.product({"one": ["a"], "two": Domain.unlisted(delta=1e-6, least=3)})
    assert (domain.hidden, domain.delta, domain.least) == (True, Fraction(1, 10**6), 3)
    assert domain.origin == "one: list; two: unlisted, delta 1/1000000, least 3"
    with pytest.raises(UnknownDomain, match="private: only a release"):
        _ = domain.labels
    found = domain.found([("a", "z"), ("a", "b"), ("a", "z")])
    assert (found.hidden, found.labels) == (False, (("a", "b"), ("a", "z")))
    # What was found is asked as a list.
    rows = [("u", "a", "z", 0), ("v", "a", "z", 0), ("v", "a", "y", 0)]
    question = ask(rows, 5, found)
    assert list(question.domain.labels) == [("a", "b"), ("a", "z")]
    assert question.run().values.tolist() == [0, 2]

    rows = make_rows(1, 5)
    with pytest.raises(InvalidParameter, match="one and the same delta"):
        ask(rows, domain={"one": FOUND, "two": Domain.unlisted(delta=1e-7)})
    with pytest.raises(InvalidParameter, match="one and the same delta"):
        ask(rows, domain={"one": FOUND, "two": Domain.unlisted(delta=1e-6, least=2)})
    with pytest.raises(UnknownDomain, match="combinations"):
        ask(rows, domain={"one": "assume-public", "two": FOUND})
    with pytest.raises(UnknownDomain, match='item "one": no labels'):
        ask(rows, domain={"two": FOUND})
    with pytest.raises(InvalidParameter, match=r"Domain\.indexed must not go with"):
        ask(rows, domain={"one": Domain.indexed(3, label=str), "two": FOUND})
    with pytest.raises(InvalidParameter, match="What was found must have"):
        Domain.product({"one": ["a"], "two": FOUND}).found([])
