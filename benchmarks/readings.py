"""Sums and means of tables: one reading beside two, with units of many rows, of text files, and in thousands of groups.

SORDINO_ROWS sets the number of rows of the large tables (20,000,000 if it is not given); units have ten rows each.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import duckdb

from benchmarks.measuring import medians, table, verdict
from sordino import ClippedMean, Domain, PrivacyUnit, Seeded, Session
from sordino.columns import StepRange
from sordino.questions import prepare_numbers
from sordino.sources import open_source

ROWS = int(os.environ.get("SORDINO_ROWS", "20000000"))
LINES = ROWS // 4
ROUNDS = 5
OPTIONS = {"epsilon": 1, "lower": 0, "cap": 1e6}
AMOUNT = "exp(3 + sqrt(-2 * ln(1 - random())) * cos(6.283185307179586 * random()))"
UNIT = PrivacyUnit("usr", max_rows=10)


def asked(path, unit, estimator, **more):
    """Return the question of a mean as it is asked now, and as it was when it was read twice."""
    options = {"column": "amount", "grid": estimator.grid, "salt": bytes(range(16)), **more}
    source = open_source(path)
    return (
        prepare_numbers(source, unit, ladder=estimator.search.ladder, **options),
        prepare_numbers(source, unit, **options),
    )


def twice(question, estimator):
    """Count the rows in buckets, find a clip, and add them up within it."""
    counts = question.run()
    clips = [estimator.clip_from(one, entropy=Seeded(1)) for one in counts]
    return question.totals([StepRange(clip.low, clip.high, clip.step) for clip in clips])


def compared(path, unit, estimator):
    """Seconds of two readings, of one, and of a whole release of a session."""
    once, both = asked(path, unit, estimator)
    with Session(path, unit=unit, ledger=None) as session:
        return medians(
            lambda: twice(both, estimator),
            once.sums,
            lambda: session.mean("amount", **OPTIONS),
            rounds=ROUNDS,
        )


def list_groups(folder):
    """Yield one line for each number of groups: the engine alone, and whole releases of sums and means."""
    for rows, groups, limit in ((100_000, 8000, 0.5), (1_000_000, 100_000, 5)):
        path = folder / f"{groups}.parquet"
        duckdb.sql(
            f"COPY (SELECT i % {groups} AS grp, {AMOUNT} AS amount FROM range({rows}) t(i)) TO '{path}'"
        )
        domain = Domain.of(range(groups))
        estimator = ClippedMean(adjacency="add-remove", **OPTIONS)
        once, _ = asked(path, PrivacyUnit.row(), estimator, by="grp", domain=domain)
        with Session(path, unit=PrivacyUnit.row(), ledger=None) as session:
            # Wider buckets for the median: 100,000 groups of the usual ones are refused.
            median = partial(session.quantile, q=[0.5], growth=1.2)
            asks = (session.mean, session.sum, session.variance, median)
            released = [partial(ask, "amount", by="grp", domain=domain, **OPTIONS) for ask in asks]
            engine, *seconds = medians(once.sums, *released, rounds=ROUNDS)
        yield (
            f"{groups:,}",
            f"{rows:,}",
            f"{engine:.2f}",
            *(f"{taken:.2f}" for taken in seconds),
            verdict(seconds[0] < limit),
        )


def report():
    estimator = ClippedMean(adjacency="add-remove", rows_per_unit=10, **OPTIONS)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole, texts, lines = (
            folder / one for one in ("whole.parquet", "texts.parquet", "five.csv")
        )
        duckdb.sql(
            f"COPY (SELECT (i * 7919) % {ROWS // 10} AS usr, {AMOUNT} AS amount FROM range({ROWS}) t(i)) TO '{whole}'"
        )
        duckdb.sql(f"COPY (SELECT 'user' || usr AS usr, amount FROM '{whole}') TO '{texts}'")
        duckdb.sql(
            f"COPY (SELECT 'u' || (i * 7919) % {LINES // 10} AS usr, i % 100 AS item, round({AMOUNT}, 2) AS amount"
            f" FROM range({LINES}) t(i)) TO '{lines}'"
        )
        for title, path, count, limit in (
            ("Parquet, units are whole numbers", whole, ROWS, 6),
            ("Parquet, units are texts", texts, ROWS, 10),
            ("CSV, units are texts", lines, LINES, 4),
        ):
            two, one, release = compared(path, UNIT, estimator)
            rows.append(
                (
                    title,
                    f"{count:,}",
                    f"{two:.2f}",
                    f"{one:.2f}",
                    f"{two / one:.2f}",
                    f"{release:.2f}",
                    verdict(release < limit),
                )
            )
        with Session(lines, unit=UNIT, ledger=None) as session:
            [top] = medians(
                lambda: session.top_k("item", k=10, epsilon=1, domain=range(100)), rounds=ROUNDS
            )
        groups = list(list_groups(folder))
    return [
        "## One reading for sums and means",
        "",
        f"Seconds, medians of {ROUNDS} runs in turns. Units have ten rows, of which ten count, so that none has more than may count. Where rows fall to units at random some four in ten have more, and these are put in order first: a mean of 20,000,000 such rows took 6.5 s with whole-number units and 9.0 s with texts (medians of 3, a table by `benchmarks/scale.py`; the engine's own bounded query, which puts nothing in order, 2.2 and 3.7 s). *Two readings* are what a mean asked before: counts in "
        "buckets, then steps within the clip. *Release* is the whole of `Session.mean`.",
        "",
        *table(("table", "rows", "two readings", "one reading", "ratio", "release", ""), rows),
        "",
        f"The ten most frequent items of the {LINES:,} lines of CSV, ten items of a unit at most: {top:.2f} s.",
        "",
        "Groups with noise of their own, each row a unit. Intervals of sums, means and variances are computed when somebody asks for them. The limit (0.5 and 5 s) is for the mean.",
        "",
        *table(("groups", "rows", "engine", "mean", "sum", "variance", "median", ""), groups),
    ]
