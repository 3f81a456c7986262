"""How long a plan and a goal take: before anybody pays, so that nobody waits."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import polars as pl

from benchmarks.measuring import compile_package, medians, process, table
from sordino import Domain, PrivacyUnit, Session

LABELS = 10**6
ROWS = pl.DataFrame(
    {"u": ["a", "b"], "item": ["l0000001", "l0000002"], "n": [1, 2], "x": [1.0, 2.0]}
)
Q = [place / 10 for place in range(1, 10)]
COLUMN = {"lower": 0, "cap": 10**6}
SPREAD = {"like": "normal:40,9", "lower": 0, "cap": 1000}


def jobs():
    """Return what is timed: a name, the most seconds that it may take, and how it is done."""
    row = Session(ROWS, unit=PrivacyUnit.row(), ledger=None).plan
    user = Session(ROWS, unit=PrivacyUnit("u"), ledger=None).plan
    listed = Domain.of([f"l{place:07}" for place in range(LABELS)])
    whole = Domain.range(0, LABELS)
    few = [f"l{place}" for place in range(100)]
    return [
        ("plan: count", 0.3, lambda: row.count(epsilon=1)),
        (
            "plan: top 50 of 10^6 listed labels",
            0.3,
            lambda: user.top_k("item", k=50, epsilon=1, domain=listed),
        ),
        (
            "plan: top 50 of a range of 10^6",
            0.3,
            lambda: user.top_k("n", k=50, epsilon=1, domain=whole),
        ),
        (
            "plan: top 50 of that range, each row a unit",
            0.3,
            lambda: row.top_k("n", k=50, epsilon=1, domain=whole),
        ),
        ("plan: nine quantiles", 0.3, lambda: row.quantile("x", q=Q, epsilon=1, **COLUMN)),
        (
            "plan: a mean in 8 groups",
            0.3,
            lambda: row.mean("x", by="item", domain=few[:8], epsilon=1, **COLUMN),
        ),
        ("plan: sum", 0.3, lambda: row.sum("x", epsilon=1, **COLUMN)),
        ("goal: ±20 on 100 counts", 2, lambda: user.histogram("item", domain=few, goal="±20")),
        (
            "goal: top 10 of 100 right with 90 %",
            2,
            lambda: user.top_k("item", k=10, domain=few, goal="top 10 right with 90 %"),
        ),
        (
            "goal: nine quantiles up to ±2",
            2,
            lambda: row.quantile("x", q=Q, goal="±2", **SPREAD),
        ),
        (
            "goal: a sum up to 5 %",
            2,
            lambda: row.sum("x", goal="5 %", like="lognormal:30,1", lower=0, cap=1000),
        ),
        (
            "goal: nine quantiles in 8 groups up to 5 %",
            2,
            lambda: row.quantile("x", q=Q, goal="5 %", by="item", domain=few[:8], **SPREAD),
        ),
        (
            "goal: a mean in 8 groups up to 5 %",
            2,
            lambda: row.mean("x", goal="5 %", by="item", domain=few[:8], **SPREAD),
        ),
        (
            "goal: a variance in 8 groups up to 10 %",
            2,
            lambda: row.variance("x", goal="10 %", by="item", domain=few[:8], **SPREAD),
        ),
    ]


def commands(folder):
    """Return the same of commands that look for the epsilon of a selection of markers, each in a new process."""
    path = Path(folder) / "markers.csv"
    # Two markers are enough: a dry run is told how many there are.
    path.write_text("SNP,T,U\na,5,6\nb,7,8\n", encoding="utf-8")
    command = str(Path(sys.executable).with_name("sordino"))
    asked = (
        "select",
        str(path),
        "--label",
        "SNP",
        "--statistic",
        "tdt",
        "--families",
        "150",
        "--dry-run",
    )
    goal = ("--goal", "right with 90 %", "--yes-i-mean-it")

    def select(markers, k, *more):
        return lambda: process(
            command, *asked, *goal, "--like-rows", str(markers), "-k", str(k), *more
        )

    heavy = "--allow-approximate"
    return [
        ("command with a goal: 32 of 200 markers", 2, select(200, 32)),
        ("command with a goal: 64 of 200 markers", 2, select(200, 64)),
        ("command with a goal: 32 of 500,000 markers", 2, select(500_000, 32)),
        (
            "command with a goal: 32 of 200 markers, also with a heavy tail",
            2,
            select(200, 32, heavy),
        ),
    ]


def report():
    compile_package()
    with tempfile.TemporaryDirectory() as folder:
        return _report([*jobs(), *commands(folder)])


def _report(timed):
    seconds = medians(*(job for *_, job in timed), rounds=5)
    rows = [
        (name, f"{taken:.3f}", f"{most:g}", f"{taken / most:.2f}")
        for (name, most, _), taken in zip(timed, seconds, strict=True)
    ]
    return [
        "## Plans and goals",
        "",
        "Seconds of a plan of `Session.plan` and of a goal, with a session that is open; of a command all of its process. Medians of five rounds in which each is made once. Nothing is read but the schema.",
        "",
        *table(("what", "s", "at most", "share of that"), rows),
    ]
