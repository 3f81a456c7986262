"""Write the tables of docs/how-to/genome-wide-panels.md: how likely the best of so many markers is selected, by the library itself.

python docs/genome_tables.py    # some seconds; nothing is read, and nothing is random
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sordino.genomics import choose_method
from sordino.genomics.choose import synthetic
from sordino.plan.designs import Design
from sordino.plan.winning import winning

PAGE = Path(__file__).with_name("how-to") / "genome-wide-panels.md"
MARKERS = (10, 100, 1_000, 10_000, 500_000)
FAMILIES = (500, 2_000, 10_000)
LEADS = (0, 0.5, 1, 2, 4)


def success() -> list[str]:
    """Return the table of success, exact noise only."""
    rows = [
        [
            f"{families:,}",
            f"{epsilon}",
            *(chance(choose(markers, families, epsilon).success) for markers in MARKERS),
        ]
        for families in FAMILIES
        for epsilon in (1, 3, 6, 10)
    ]
    return draw(["families", "epsilon", *(f"{markers:,} markers" for markers in MARKERS)], rows)


def least_epsilon() -> list[str]:
    """Return the table of the least epsilon, in tenths, that is not refused, and that makes success .9."""
    written = iter(written_cells("least epsilon"))
    rows = [
        [
            f"{families:,}",
            noise,
            *(cell(markers, families, exact, next(written, "")) for markers in MARKERS),
        ]
        for families in FAMILIES
        for noise, exact in (("exact", True), ("any", False))
    ]
    return draw(["families", "noise", *(f"{markers:,} markers" for markers in MARKERS)], rows)


def written_cells(name: str) -> list[str]:
    """Return the cells of a table as the page has them, row by row, without the first two of each row."""
    lines = "".join(place_of(name).findall(PAGE.read_text(encoding="utf-8"))).splitlines()[2:]
    return [cell for line in lines for cell in line.strip("| ").split(" | ")[2:]]


def cell(markers: int, families: int, exact: bool, written: str) -> str:
    """Return both budgets of a cell; whether those on the page still hold is looked at first."""
    guesses = [round(10 * float(number)) for number in re.findall(r"[0-9.]+", written)]
    if len(guesses) != 2:
        guesses = [64, 64]
    found = (
        least_tenths(markers, families, exact, goal, guess)
        for goal, guess in zip((0.2, 0.9), guesses, strict=True)
    )
    return " / ".join(f"{tenths / 10:g}" for tenths in found)


def least_tenths(markers: int, families: int, exact: bool, goal: float, guess: int) -> int:
    """Return the least epsilon with that success, in tenths, by halving; a right guess takes two looks."""
    low, high = 0, 128
    tried = [guess, guess - 1]
    while high - low > 1:
        middle = next((place for place in tried if low < place < high), (low + high) // 2)
        reached = choose(markers, families, middle / 10, exact).success >= goal
        low, high = (low, middle) if reached else (middle, high)
    return high


def strong_effects() -> list[str]:
    """Return the table of success where one marker leads, with exact noise, in 2,000 families."""
    rows = [
        [
            f"{markers:,}",
            f"{epsilon}",
            *(chance(with_lead(markers, 2_000, epsilon, lead)) for lead in LEADS),
        ]
        for markers in (1_000, 500_000)
        for epsilon in (1, 3, 6)
    ]
    return draw(["markers", "epsilon", *(f"lead {lead:g}" for lead in LEADS)], rows)


def with_lead(markers: int, families: int, epsilon: float, lead: float) -> float:
    """Return how likely a marker is selected whose |z| lies that far above the largest of the others."""
    method, made = choose(markers, families, epsilon), synthetic(markers, families)
    b, c, shape = made.b.ravel(), made.c.ravel(), made.b.shape
    scores, bounds = method.scores(b, c).reshape(shape), method.bounds(b, c)
    scores[:, 0] = scores[:, 1:].max(axis=1) + lead
    return winning(
        method.mechanism,
        Design(
            scores,
            np.zeros(shape[0], dtype=np.int64),
            None if bounds is None else bounds.reshape(shape).max(axis=1),
            made.standing,
        ),
    )


def choose(markers: int, families: int, epsilon: float, exact: bool = True):
    """Return the method that the library would choose."""
    return choose_method(markers=markers, families=families, epsilon=epsilon, exact=exact)


def chance(probability: float) -> str:
    """Return a probability with two digits after the point."""
    return (
        "> .99"
        if probability >= 0.995
        else "< .01"
        if probability < 0.005
        else f"{probability:.2f}"[1:]
    )


def draw(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table of Markdown."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]


TABLES: dict[str, Callable[[], list[str]]] = {
    "success": success,
    "least epsilon": least_epsilon,
    "strong effects": strong_effects,
}


def place_of(name: str) -> re.Pattern[str]:
    """Return what finds a table on the page: from the comment with its name to the empty line behind it."""
    return re.compile(rf"(?<=<!-- table: {name} -->\n\n)(?:\|.*\n)*")


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        lines = "".join(line + "\n" for line in table())
        # No character of a table has a meaning in a replacement.
        text, found = place_of(name).subn(lines, text)
        assert found == 1, name
    PAGE.write_text(text, encoding="utf-8")
