"""Errors of running figures beside other ways of the same guarantee, how often their intervals hold, and what a night takes."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import math
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np

import sordino as sd
from benchmarks.measuring import table, verdict
from sordino.figures import Origin, Term
from sordino.ledger import Ledger
from sordino.noise import DiscreteLaplace
from sordino.sensitivity import COUNTING
from sordino.series import Series
from sordino.series.nodes import list_nodes, split_epsilon
from sordino.series.noise import Measured, choose_noise
from sordino.series.totals import RunningTotals
from sordino.session.looks import LookRow

RUNS = 10_000
TREES = 200
AT_ONCE = 500
HOURS, DAYS = ("hour", "day", "month"), ("day", "month", "year")
# What is asked, with the cut of the account, the periods, how many parts and the largest error that was promised.
CASES = (
    ("365 days", "day", DAYS[:2], 365, 12.2),
    ("3,650 days", "day", DAYS, 3_650, 20.2),
    ("8,760 hours", "hour", HOURS, 8_760, 23.4),
)
FIRST = (dt.date(2025, 1, 1) - dt.date(1970, 1, 1)).days
ROWS = 100_000


def variance(rate):
    return 1 / (2 * math.sinh(rate / 2) ** 2)


def others(parts):
    """Root mean squared errors at epsilon 1 of other ways, from the variances of their noise."""
    height = parts.bit_length()
    ones = statistics.mean(one.bit_count() for one in range(1, parts + 1))
    return (
        math.sqrt((parts + 1) / 2 * variance(1)),
        math.sqrt(variance(1 / parts)),
        math.sqrt(ones * variance(1 / height)),
    )


def make_totals(cut, levels, parts, laws):
    """Totals of periods that counted far above 0, so that no end of an interval is cut."""
    first = FIRST * (24 if cut == "hour" else 1)
    kept = {}
    for node in list_nodes(first, first + parts - 1, cut, levels):
        law = laws[node.level]
        value = Fraction(10**9 * len(node.parts))
        term = Term(origin=Origin(), row=0, value=value, law=law, step=Fraction(1))
        kept[node] = {0: LookRow((term,))}
    return RunningTotals(first=first, cut=cut, levels=levels, kept=kept)


def hold_exactly(laws, far):
    """The chance that the sum of independent noises stays within `far`, by the transform of their laws."""
    points = 1 << 12
    steps = np.minimum(np.arange(points), points - np.arange(points))
    transform = np.ones(points // 2 + 1, dtype=complex)
    for law, times in laws.items():
        transform *= np.fft.rfft(law.pmf(steps)) ** times
    return float(np.fft.irfft(transform, points)[steps <= far].sum())


def simulate(cut, levels, parts, laws=None):
    """Errors, shares of intervals that held and chances that they do, of the figures of each part: first, and revised."""
    if laws is None:
        rates = split_epsilon(Fraction(1), levels)
        laws = {level: DiscreteLaplace(rate) for level, rate in rates.items()}
    totals = make_totals(cut, levels, parts, laws)
    ways = []
    for part in range(totals.first, totals.first + parts):
        [found] = totals.find_at(part)
        both = list(totals.list_ways(part))
        best = min(both, key=lambda way: totals.add_up(way, 0)[1])
        far, near = found.high - found.total, found.revised_high - found.revised
        ways.append(((both[0], int(far)), (best, int(near))))
    exactly = [
        min(hold_exactly(Counter(laws[node.level] for node, _ in way), far) for way, far in figures)
        for figures in zip(*ways, strict=True)
    ]
    squares, held = np.zeros((2, parts)), np.zeros((2, parts))
    entropy = sd.Seeded(1)
    for _ in range(RUNS // AT_ONCE):
        noise = {node: laws[node.level].sample(AT_ONCE, entropy) for node in totals.kept}
        for place, both in enumerate(ways):
            for which, (way, far) in enumerate(both):
                error = sum(sign * noise[node] for node, sign in way)
                squares[which, place] += float((error * error).sum())
                held[which, place] += float((np.abs(error) <= far).sum())
    return np.sqrt(squares.mean(axis=1) / RUNS), held / RUNS, exactly


def count_layers(parts, branches):
    layers = 1
    while branches ** (layers - 1) < parts:
        layers += 1
    return layers


def add_nodes(tree, parts, branches):
    """Running totals of each part, from the nodes of a tree that had ended by then, layer by layer."""
    ends, totals, first = np.arange(1, parts + 1), np.zeros(parts), 0
    layers = count_layers(parts, branches)
    for layer in range(layers):
        size = branches ** (layers - 1 - layer)
        sums = np.concatenate([[0], np.cumsum(tree[first : first + branches**layer])])
        # What larger nodes hold of it is taken from them.
        totals += sums[ends // size] - sums[ends // (size * branches) * branches]
        first += branches**layer
    return totals


def grow_trees(parts, branches):
    """Errors at epsilon 1 of OpenDP's tree: of the nodes that had ended, and of all nodes when all parts are over."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    grown = dp.t.make_b_ary_tree(*space, parts, branches)
    tree = dp.binary_search_chain(
        lambda scale: grown >> dp.m.then_laplace(scale), d_in=1, d_out=1.0
    )
    make_consistent, squares = dp.t.make_consistent_b_ary_tree(branches), np.zeros(2)
    for _ in range(TREES):
        noise = tree([0] * parts)
        leaves = np.array(make_consistent(noise))[:parts]
        for which, totals in enumerate((add_nodes(noise, parts, branches), np.cumsum(leaves))):
            squares[which] += (totals**2).mean()
    return np.sqrt(squares / TREES)


def predict_tree(parts, branches):
    """The error of the nodes that had ended, from the variance of their noise: each layer costs an equal part of epsilon."""
    layers, used = count_layers(parts, branches), 0
    for layer in range(layers):
        # So many nodes of this layer are used: a digit of the number of parts.
        used += sum(part // branches**layer % branches for part in range(1, parts + 1))
    return math.sqrt(used / parts * variance(1 / layers))


def list_trees():
    """Errors of OpenDP's tree with the branches that it chooses, and with those that have the least error."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rows = []
    for name, _, _, parts, _ in CASES:
        best = min(range(2, 65), key=lambda branches: predict_tree(parts, branches))
        for why, branches in (
            ("OpenDP's choice", dp.t.choose_branching_factor(parts)),
            ("the least error", best),
        ):
            plain, consistent = grow_trees(parts, branches)
            predicted = predict_tree(parts, branches)
            figures = (f"{plain:.2f}", f"{predicted:.2f}", f"{consistent:.2f}")
            rows.append((name, f"{branches}, {why}", *figures))
    return rows


def report_trees():
    return [
        f"OpenDP's tree (`make_b_ary_tree`, then `make_laplace`, which together cost epsilon 1 by its own map) in {TREES:,} draws. It is asked "
        "at once, for a number of parts that is known: when the year is over. Of its nodes here those count that had ended by each part, so "
        "that the same tree could be made night by night. Its `make_consistent_b_ary_tree` reads the whole tree, so its figures are of the end "
        "of all parts; beside them stands what is *revised* above, which is of the end of each month.",
        "",
        *table(
            (
                "parts",
                "branches",
                "nodes that had ended",
                "by their variance",
                "consistent, at the end",
            ),
            list_trees(),
        ),
    ]


def list_both(unit):
    """Errors over a year of both noises that are charged the same, on accounts of which the series is a part."""
    rows = []
    budgets = {
        "rhos of (1, 1e-6)": sd.Budget(epsilon=1, delta=1e-6, meter="zcdp"),
        "(9, 1e-6)": sd.Budget(epsilon=9, delta=1e-6),
        "(1, 1e-6)": sd.Budget(epsilon=1, delta=1e-6),
    }
    for name, budget in budgets.items():
        with tempfile.TemporaryDirectory(prefix="series-") as folder:
            account = Ledger.create(
                Path(folder) / "budget.db",
                account="orders",
                budget=budget,
                adjacency="add-remove",
                unit=unit,
                source="name:orders",
                parts="day",
            )
            price = account.find_price()
        measured = Measured(sum_moves=COUNTING, square_moves=COUNTING, price=price)
        for epsilon in (Fraction(1, 20), Fraction(3, 10), Fraction(1)):
            plain = choose_noise(measured, epsilon, DAYS[:2], "laplace")
            chosen = choose_noise(measured, epsilon, DAYS[:2])
            errors, charged = [], []
            for one in (plain, chosen):
                laws = {level: each.noise for level, each in measured.list_periods(one).items()}
                (plainly, _), held, _ = simulate("day", DAYS[:2], 365, laws)
                errors.append(plainly)
                charged.append(measured.add_up(one).main / 10**9)
            ratio = f"{errors[1] / errors[0]:.2f}"
            rows.append(
                (
                    *(name, f"{float(epsilon):g}", chosen.noise),
                    *(f"{one:.4f}" for one in charged),
                    *(f"{one:.1f}" for one in errors),
                    *(ratio, f"{held[0].mean():.4f}"),
                )
            )
    return rows


def write_shop(folder):
    import polars as pl

    start = dt.datetime(2025, 1, 1, 8, tzinfo=dt.UTC).replace(tzinfo=None)
    pl.DataFrame(
        {
            "customer": [n % 997 for n in range(ROWS)],
            "ordered_at": [start + dt.timedelta(minutes=n * 525_600 // ROWS) for n in range(ROWS)],
        }
    ).write_parquet(folder / "orders.parquet")
    said = """
[table.orders]
source = "orders.parquet"
person = ["customer", "day(ordered_at)"]
max_rows = 2
account = {ledger = "budget.db", name = "orders"}
"""
    for name, first, levels in (("year", "2025-01-01", DAYS[:2]), ("ten", "2016-01-01", DAYS)):
        listed = ", ".join(f'"{one}"' for one in levels)
        said += f"""
[series.{name}]
table = "orders"
release = "count"
epsilon = 0.4
first = "{first}"
levels = [{listed}]
grace = 0
"""
    (folder / "sordino.toml").write_text(said, encoding="utf-8")
    unit = sd.PrivacyUnit(["customer", "day(ordered_at)"])
    Ledger.create(
        folder / "budget.db",
        account="orders",
        budget=sd.Budget(epsilon=1),
        adjacency="add-remove",
        unit=unit,
        source="name:orders",
        parts="day",
    )


class _Unsynced(sqlite3.Connection):
    def execute(self, sql, *given):
        return super().execute(sql.replace("synchronous = EXTRA", "synchronous = OFF"), *given)


def fill(series, until):
    """Charge all periods up to a day, and keep for each what the first one has released."""
    series.start()
    series.catch_up("2016-01-02")
    account = series.find_account()
    [first] = account.statement().charges
    record = account.read_release(first.id)
    connect = sqlite3.connect
    unsynced = mock.patch.object(
        sqlite3, "connect", lambda *a, **named: connect(*a, **({"factory": _Unsynced} | named))
    )
    # What takes the time is the disk, which is not what is measured here.
    with unsynced, mock.patch.object(os, "fsync"):
        account = Ledger.open(account.url, account=account.account)
        last = series.find_until(until)
        for node in [*list_nodes(series.first, last, series.cut, series.levels)][1:]:
            about = {**first.detail, "level": node.level, "period": node.text}
            cost = sd.cost.Pure(epsilon=series.rates[node.level])
            charge = account.for_run(f"{node.level} {node.text}", about).reserve(
                cost, parts=node.parts
            )
            with charge:
                charge.draw(cost)
            charge.keep(record)


def run(folder, *arguments):
    """Seconds of `sordino series`, the whole process."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "sordino", "series", *arguments, "--format", "json"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - started


def median(folder, *arguments):
    return statistics.median(run(folder, *arguments) for _ in range(3))


def time_nights():
    with tempfile.TemporaryDirectory(prefix="series-") as made:
        folder = Path(made)
        write_shop(folder)
        year = Series("year", folder / "sordino.toml")
        year.start()
        rows = [
            (
                "`catch-up` of 365 nights at once",
                run(folder, "catch-up", "year", "--today", "2026-01-01"),
            )
        ]
        nights = [f"2026-01-0{night}" for night in (2, 3, 4)]
        each = [run(folder, "catch-up", "year", "--today", night) for night in nights]
        rows += [
            ("`catch-up` of one night after a year", statistics.median(each)),
            ("`show` after a year", median(folder, "show", "year", "--today", "2026-01-01")),
        ]
        ten = Series("ten", folder / "sordino.toml")
        with contextlib.redirect_stderr(io.StringIO()):
            fill(ten, "2026-01-01")
        rows += [
            (
                "`catch-up` of one night after ten years",
                run(folder, "catch-up", "ten", "--today", "2026-01-02"),
            ),
            ("`show` after ten years", median(folder, "show", "ten", "--today", "2026-01-01")),
        ]
    return rows


def report():
    errors, intervals = [], []
    for name, cut, levels, parts, promised in CASES:
        (plain, revised), held, exactly = simulate(cut, levels, parts)
        errors.append(
            (
                name,
                f"{plain:.2f}",
                f"{promised}",
                verdict(plain <= promised),
                f"{revised:.2f}",
                *(f"{one:.1f}" for one in others(parts)),
            )
        )
        for which, share, least in zip(("as first printed", "revised"), held, exactly, strict=True):
            reached = share.mean() >= 0.95 and least >= 0.95
            figures = (f"{share.mean():.4f}", f"{share.min():.4f}", f"{least:.4f}")
            intervals.append((name, which, *figures, verdict(reached)))
    return [
        "## Running figures of a series",
        "",
        f"Root mean squared error of a running count over all parts, at epsilon 1 for a person on one day (or in one hour) for ever: {RUNS:,} "
        "simulated series, with the noise, the rates and the sums of `sordino series`. Revised: as known at the end. Beside it other ways with "
        "the same guarantee, from the exact variances of their noise.",
        "",
        *table(
            (
                "parts",
                "series",
                "promised: at most",
                "",
                "revised",
                "parts added up",
                "counted anew each time",
                "binary tree",
            ),
            errors,
        ),
        "",
        *report_trees(),
        "",
        f"Share of the printed 95% intervals that hold in these series, over all parts, and at the part where fewest do (a standard error is "
        f"{math.sqrt(0.05 * 0.95 / RUNS):.4f}); and the least chance of any part, from the exact laws.",
        "",
        *table(
            ("parts", "figures", "held", "at the worst part", "least chance", "at least 0.95"),
            intervals,
        ),
        "",
        "Of a running count over 365 days, with the noise that `sordino series start` chooses on accounts with a delta and of rhos: what one "
        "day and its month are charged (a rho, or a divergence at the order of the account) with Laplace noise of this epsilon and with the "
        "chosen one, the errors of both, and how many of the intervals of the chosen one hold.",
        "",
        *table(
            (
                "account",
                "epsilon",
                "chosen",
                "charged: Laplace",
                "chosen",
                "error: Laplace",
                "chosen",
                "ratio",
                "held",
            ),
            list_both(sd.PrivacyUnit(["customer", "day(ordered_at)"])),
        ),
        "",
        f"Time of the command, the whole process, on a Parquet file of {ROWS:,} rows and a ledger in SQLite with full durability. Of ten years "
        "the periods were put into the ledger without reading rows.",
        "",
        *table(
            ("command", "seconds"), [(name, f"{seconds:.1f}") for name, seconds in time_nights()]
        ),
    ]
