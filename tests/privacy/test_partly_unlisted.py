"""Tuples of which nobody listed a part, exactly: what one unit does to the counts, and what a release of them loses."""

from __future__ import annotations

import itertools
import json
from functools import cache

import numpy as np
import polars as pl
import pytest

import sordino as sd
from privacy.test_unlisted_histogram import law, mass, stick
from sordino.mechanisms.unlisted.occurring import counting
from sordino.questions import Domain, PrivacyUnit, prepare_counts
from sordino.sources import open_source

SALT = bytes(range(32))
FOUND = Domain.unlisted(delta=1e-6)
CELLS = list(itertools.product(["a", "b"], ["x", "y"]))
STRANGE = [("q", "x"), ("a", ""), (None, "y"), ("b", None)]
"""Rows whose listed part is in no list, and rows without a label."""
UNITS = [
    [*cells, *STRANGE[: len(cells) % 3 * 2]]
    for size in range(5)
    for cells in itertools.combinations(CELLS, size)
]


@cache
def moved(most):
    """What each unit adds to the counts of the cells, alone, as the engine says: theorem 0 adds them up."""
    found = []
    for unit in UNITS:
        rows = [("u", *row) for row in unit]
        table = pl.DataFrame(
            rows, schema=dict.fromkeys(["user", "one", "two"], pl.String), orient="row"
        )
        counts = prepare_counts(
            open_source(table),
            PrivacyUnit("user", max_rows=most),
            kind="items",
            item=["one", "two"],
            domain={"one": ["a", "b"], "two": FOUND},
            salt=SALT,
        ).run()
        told = dict(zip(counts.labels, counts.values.tolist(), strict=True))
        assert set(told) <= set(CELLS)
        found.append(tuple(told.get(cell, 0) for cell in CELLS))
    return found


def worst(changes, most, *, either, rate=0.7, least=1, offset=3):
    """What two neighbors have beyond e^epsilon of each other at most, epsilon that of M tuples; and the delta of M."""
    epsilon, threshold = rate * most * (2 if either else 1), least + offset
    chance = mass("laplace", rate, np.arange(offset, offset + 300)).sum()
    beyond = 0.0
    for many in range(len(CELLS) + 1):
        base = (threshold,) * many + (0,) * (len(CELLS) - many)
        tables = [tuple(map(sum, zip(base, change, strict=True))) for change in set(changes)]
        laws = {one: law("laplace", rate, one, least, threshold) for one in {*tables, base}}
        pairs = itertools.combinations(tables, 2) if either else ((base, one) for one in tables)
        for one, other in pairs:
            beyond = max(beyond, stick(laws[one], laws[other], epsilon))
    return beyond, 1 - (1 - chance) ** most


@pytest.mark.slow
def test_a_unit_moves_m_tuples_and_what_fails_is_delta():
    """All units of a grid of two parts, one of which is listed, beside cells that nobody has or that are found."""
    for most, either in ((1, False), (2, False), (1, True)):
        changes = moved(most)
        # Who has a cell counts for as many as it may, whatever else its rows hold.
        held = [min(most, len(set(unit) & set(CELLS))) for unit in UNITS]
        assert [sum(change) for change in changes] == held
        beyond, delta = worst(changes, most, either=either)
        assert beyond <= delta + 1e-12
        if not either:
            assert beyond == pytest.approx(delta, abs=1e-6), "attained by cells of one unit"


@pytest.mark.slow
def test_parts_that_are_bounded_one_by_one_are_convicted():
    """Two labels in each part, each part within M = 2: four tuples at the price and the delta of two."""
    beyond, delta = worst([*moved(2), (1, 1, 1, 1)], 2, either=False)
    assert beyond > 1.5 * delta


@pytest.mark.slow
def test_a_release_of_tuples_is_that_of_texts_in_the_same_order():
    labels = [("a", "z"), ("a ", "b"), ("a", "b"), ("\uffee", "x"), ("\U0001f600", "x"), ("b", "/")]
    texts = {label: f"{rank}" for rank, label in enumerate(sorted(labels))}
    counts, many = [40, 40, 39, 41, 40, 38], counting(2)
    for mechanism in (
        sd.UnlistedHistogram(epsilon=1, delta=0.01, sensitivity=many, k=3),
        sd.UnlistedTopK(k=3, epsilon=3, delta=0.01, sensitivity=many),
        sd.LimitedTopK(k=2, best=3, epsilon=3, delta=0.01, sensitivity=many),
    ):
        for seed in range(40):
            one = mechanism.release(counts, labels=labels, entropy=sd.Seeded(seed))
            other = mechanism.release(
                counts, labels=[texts[label] for label in labels], entropy=sd.Seeded(seed)
            )
            assert [texts[label] for label in one.labels] == list(other.labels)
            if hasattr(one, "indices"):
                assert one.indices.tolist() == other.indices.tolist()
                assert one.indices.ndim == 1


def write_json(label):
    return json.dumps(label, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.slow
def test_the_engine_cuts_where_the_mechanism_would():
    """Of equal counts those that come first by their parts: with a list cut by JSON texts another label is released."""
    labels = [("a", "z"), ("a ", "b"), ('a"', "c"), ("a", "y"), ("a!", "c")]
    rows = [(f"{user}", *label) for user in range(60) for label in labels]
    table = pl.DataFrame(
        rows, schema=dict.fromkeys(["user", "one", "two"], pl.String), orient="row"
    )
    differ = 0
    for best in (1, 2):
        read = prepare_counts(
            open_source(table),
            PrivacyUnit("user"),
            kind="items",
            item=["one", "two"],
            domain=FOUND,
            best=best,
        ).run()
        assert list(read.labels) == sorted(labels)[: best + 1]
        mechanism = sd.LimitedTopK(k=1, best=best, epsilon=1, delta=0.3, sensitivity=sd.COUNTING)
        twin = sorted(labels, key=write_json)[: best + 1]
        # All labels that compete are released by one seed or another.
        whole, cut, other = (
            {
                label
                for seed in range(300)
                for label in mechanism.release(
                    [60] * len(given), labels=given, entropy=sd.Seeded(seed)
                ).labels
            }
            for given in (labels, read.labels, twin)
        )
        assert whole == cut == set(sorted(labels)[:best])
        differ += other != whole
    assert differ
