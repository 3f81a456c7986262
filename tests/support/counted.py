"""One table of users and items, and what every source must count in it, by an oracle that knows no engine."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import numpy as np

from sordino.questions import PrivacyUnit, prepare_counts
from support.rank_law import choose

ITEMS = [
    "café",
    "Ångström",
    "żółw",
    "日本",
    "a,b",
    'say "hi"',
    "x",
    "10",
    "😀",
    "é",
    "e\u0301",
    " space ",
]
DOMAIN = sorted([*ITEMS[:-2], "absent", "zz"])
SALT = b"0123456789abcdef"
BY_USER, BY_ROW = PrivacyUnit("user"), PrivacyUnit.row()


def table(seed, n=600):
    rng = random.Random(seed)
    return [
        (rng.choice([None, *range(40)]), rng.choice([None, *ITEMS, "outside"]), rng.randrange(-5, 30))
        for _ in range(n)
    ]  # fmt: skip


def oracle(rows, unit, where=lambda row: True):
    rows = [row for row in rows if where(row)]
    if unit.column is None:
        found = Counter(item for _, item, _ in rows if item is not None)
    else:
        found = Counter(
            item for item, _ in {(item, user) for user, item, _ in rows if None not in {user, item}}
        )
    return [found[label] for label in DOMAIN]


def chosen(rows, most):
    """The documented choice, written again: the law of ranks on a unit's own items."""
    items = defaultdict(set)
    for user, item, _ in rows:
        if user is not None and item in DOMAIN:
            items[str(user)].add(item)
    return {user: choose(own, [user], most, SALT) for user, own in items.items()}


def counts_as_the_oracle(source, rows):
    """Every kind of count of a source is that of its rows."""
    where = "TRY_CAST(price AS BIGINT) >= 10"
    for unit in (BY_USER, BY_ROW):
        for predicate, keep in ((None, lambda row: True), (where, lambda row: row[2] >= 10)):
            counts = prepare_counts(
                source, unit, kind="items", item="item", domain=DOMAIN, where=predicate
            ).run()
            assert counts.labels == tuple(DOMAIN)
            assert counts.values.dtype == np.int64
            assert counts.values.tolist() == oracle(rows, unit, keep)
    assert prepare_counts(source, BY_ROW, kind="rows").run().values.tolist() == [len(rows)]
    assert prepare_counts(source, BY_ROW, kind="units").run().values.tolist() == [len(rows)]
    users = Counter(row[0] for row in rows if row[0] is not None)
    assert prepare_counts(source, BY_USER, kind="units").run().values.tolist() == [len(users)]
    capped = PrivacyUnit("user", max_rows=7)
    assert prepare_counts(source, capped, kind="rows").run().values.tolist() == [
        sum(min(n, 7) for n in users.values())
    ]
    kept = chosen(rows, 3)
    counts = prepare_counts(
        source, PrivacyUnit("user", max_rows=3), kind="items", item="item", domain=DOMAIN, salt=SALT
    ).run()
    assert counts.values.tolist() == [
        sum(label in items for items in kept.values()) for label in DOMAIN
    ]
