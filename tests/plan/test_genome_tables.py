"""The tables of docs/how-to/genome-wide-panels.md are what the library says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
sys.path.insert(0, str(DOCS))
import genome_tables  # noqa: E402  (a script of docs/, not a package)

from sordino.genomics import choose_method  # noqa: E402


def on_the_page(name):
    [found] = genome_tables.place_of(name).findall(genome_tables.PAGE.read_text(encoding="utf-8"))
    return found.splitlines()


@pytest.mark.parametrize(
    "name",
    [
        "strong effects",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("success", "least epsilon")),
    ],
)
def test_a_table_is_what_the_library_says(name):
    assert on_the_page(name) == genome_tables.TABLES[name](), "run: python docs/genome_tables.py"


def test_one_cell_of_each_other_table():
    """Quickly, what the slow test does for all cells."""
    head, _, *rows = (line.strip("| ").split(" | ") for line in on_the_page("success"))
    [row] = [row for row in rows if row[:2] == ["2,000", "3"]]
    column = head.index("1,000 markers")
    said = choose_method(markers=1_000, families=2_000, epsilon=3, exact=True).success
    assert row[column] == genome_tables.chance(said)
    head, _, *rows = (line.strip("| ").split(" | ") for line in on_the_page("least epsilon"))
    [row] = [row for row in rows if row[:2] == ["500", "exact"]]
    least = float(row[head.index("100 markers")].split(" / ")[0])
    for epsilon, reached in ((least, True), (least - 0.1, False)):
        assert (
            choose_method(markers=100, families=500, epsilon=epsilon, exact=True).success >= 0.2
        ) is reached
