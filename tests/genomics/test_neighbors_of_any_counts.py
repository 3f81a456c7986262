"""From the file to the mechanism: one family, replaced by another, moves what is selected from as one family does, whatever the counts are.

Also where they are no counts of so many families: fractions, numbers below 0, more transmissions than parents. Neighbors stay neighbors
when such numbers become tables by rule, so no bound of a statistic is needed beyond that of tables.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import sordino as sd
from sordino.questions import open_markers
from sordino.smooth.values import tables
from sordino.sources import CsvFormat

FAMILIES = [(i, j) for i in range(3) for j in range(3) if i + j <= 2]
MOVES = {(a - c, b - d) for (a, b), (c, d) in itertools.product(FAMILIES, FAMILIES)}


def escaped(rule, families, shift=0.0):
    """Return neighbors that the rule does not leave neighbors: counts around what so many families can have, and one family replaced."""
    around = range(-3, 2 * families + 5)
    found = []
    for (b, c), (db, dc) in itertools.product(itertools.product(around, around), MOVES):
        (b0, b1), (c0, c1) = rule(
            np.array([b, b + db]) + shift, np.array([c, c + dc]) + shift, families
        )
        if (b1 - b0, c1 - c0) not in MOVES:
            found.append((b, c, db, dc))
    return found


def by_rule(b, c, families):
    return tables(b, c, families, "test")


@pytest.mark.parametrize("shift", [0.0, 0.75])
@pytest.mark.parametrize("families", [1, 2])
@pytest.mark.sample(4)
def test_counts_of_any_kind_stay_neighbors(families, shift):
    assert escaped(by_rule, families, shift) == []


def dropped(b, c, families):
    """Broken twin: what is no table of so many families is left out."""
    sound = (b >= 0) & (c >= 0) & (b + c <= 2 * families)
    return np.where(sound, b, 0), np.where(sound, c, 0)


def apart(b, c, families):
    """Broken twin: in what is too much, the other allele gives way to half."""
    first = np.clip(b, 0, 2 * families)
    second = np.clip(c, 0, 2 * families)
    return first, np.where(first + second > 2 * families, (2 * families - first) // 2, second)


@pytest.mark.parametrize("rule", [dropped, apart])
def test_rules_that_part_neighbors_are_convicted(rule):
    assert escaped(rule, 2)


ROWS = [(3, 1), (0, 0), (4, 0), (9, 9), (-2, 5), (2.5, 1.5)]


def read(folder: Path, rows, *, header="snp,b,B,c,C,note", order=("B", "c")):
    path = folder / "m.csv"
    path.write_text(
        "\n".join([header, *(f"rs{i},9,{b},{c},9,n" for i, (b, c) in enumerate(rows))]),
        encoding="utf-8",
    )
    found = open_markers(path, b=order[0], c=order[1], label="snp", form=CsvFormat()).read()
    return np.array(tables(found.b, found.c, 2, "test")), found.labels


def test_a_family_in_the_file_is_a_family_in_the_tables(tmp_path):
    """Columns that differ in case are other columns, and a duplicate candidate is a candidate."""
    before, labels = read(tmp_path, ROWS)
    assert labels == tuple(f"rs{i}" for i in range(len(ROWS)))
    for db, dc in sorted(MOVES):
        after, same = read(tmp_path, [(b + db, c + dc) for b, c in ROWS])
        assert same == labels
        assert {(int(b), int(c)) for b, c in (after - before).T} <= MOVES
    assert before[:, 0].tolist() == [3, 1]
    assert (read(tmp_path, ROWS, order=("c", "B"))[0][:, 0]).tolist() == [1, 3]


KINDS = {
    "a missing value": [1, None, 3],
    "a text": [1, "x", 3],
    "more than a float": [1, 10**400, 3],
    "a list": [1, [2], 3],
    "a complex number": [1, 2j, 3],
    "64 bits without a sign": np.array([1, 2**64 - 1, 3], dtype=np.uint64),
    "half floats": np.array([1, np.inf, 3], dtype=np.float16),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_raises(kind):
    seeded = sd.Seeded(1)
    assert sd.genomics.most_significant(
        b=KINDS[kind], c=[1, 2, 3], families=5, epsilon=1, entropy=seeded
    ).index in range(3)
